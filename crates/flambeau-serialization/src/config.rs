//! Settings of saving and loading (`torch.utils.serialization.config`), for the whole process; `skip_data` is for
//! the thread.

use crate::container::{ByteOrder, STORAGE_ALIGNMENT};
use flambeau_core::types::nested::{Entered, Nested, Outer};
use flambeau_core::{Error, Result};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

/// Byte order taken for checkpoints that do not say theirs.
///
/// ```
/// use torch::serialization::{LoadEndianness, get_default_load_endianness, set_default_load_endianness};
/// assert_eq!(get_default_load_endianness(), None);
/// set_default_load_endianness(LoadEndianness::Big);
/// assert_eq!(get_default_load_endianness(), Some(LoadEndianness::Big));
/// ```
#[doc(alias = "torch.serialization.LoadEndianness")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadEndianness {
    /// This machine's.
    Native,
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

static ENDIANNESS: AtomicU8 = AtomicU8::new(0);
static ALIGNMENT: AtomicU16 = AtomicU16::new(STORAGE_ALIGNMENT);

/// Byte order taken for checkpoints that do not say theirs; none was set at the start, which means little-endian.
#[doc(alias = "torch.serialization.get_default_load_endianness")]
pub fn get_default_load_endianness() -> Option<LoadEndianness> {
    match ENDIANNESS.load(Ordering::Acquire) {
        1 => Some(LoadEndianness::Native),
        2 => Some(LoadEndianness::Little),
        3 => Some(LoadEndianness::Big),
        _ => None,
    }
}
/// Sets the byte order taken for checkpoints that do not say theirs.
#[doc(alias = "torch.serialization.set_default_load_endianness")]
pub fn set_default_load_endianness(order: impl Into<Option<LoadEndianness>>) {
    let code = match order.into() {
        None => 0,
        Some(LoadEndianness::Native) => 1,
        Some(LoadEndianness::Little) => 2,
        Some(LoadEndianness::Big) => 3,
    };
    ENDIANNESS.store(code, Ordering::Release);
}
pub(crate) fn byte_order() -> Option<ByteOrder> {
    get_default_load_endianness().map(|e| match e {
        LoadEndianness::Native => ByteOrder::NATIVE,
        LoadEndianness::Little => ByteOrder::Little,
        LoadEndianness::Big => ByteOrder::Big,
    })
}

/// Multiple of bytes that storages start at in files written from now on (`config.save.storage_alignment`); 64 at
/// the start.
pub fn storage_alignment() -> u16 {
    ALIGNMENT.load(Ordering::Acquire)
}
/// Sets [`storage_alignment`]. 4096 lets a mapped file's storages start at pages.
///
/// ```
/// use torch::serialization::config::{set_storage_alignment, storage_alignment};
/// set_storage_alignment(4096)?;
/// assert_eq!(storage_alignment(), 4096);
/// assert!(set_storage_alignment(100).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Anything but a power of two up to 32768.
pub fn set_storage_alignment(bytes: u16) -> Result<()> {
    if !bytes.is_power_of_two() {
        return Err(Error::value(format!("storage_alignment must be a power of two, but is {bytes}")));
    }
    ALIGNMENT.store(bytes, Ordering::Release);
    Ok(())
}

/// Whether each record has its checksum: always.
#[doc(alias = "torch.serialization.get_crc32_options")]
pub fn get_crc32_options() -> bool {
    true
}
/// Asks for checksums, which are always written. Files without them are read.
///
/// ```
/// use torch::serialization::{get_crc32_options, set_crc32_options};
/// set_crc32_options(true)?;
/// assert!(get_crc32_options() && set_crc32_options(false).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Missing: writing without checksums.
#[doc(alias = "torch.serialization.set_crc32_options")]
pub fn set_crc32_options(compute_crc32: bool) -> Result<()> {
    if compute_crc32 {
        return Ok(());
    }
    Err(Error::missing("set_crc32_options(False): the writer computes the checksum of each record"))
}

thread_local! {
    static NOW: Cell<bool> = const { Cell::new(false) };
    static FOUND: Outer<bool> = const { RefCell::new(Vec::new()) };
}
static SKIP: Nested<bool> = Nested::new(&NOW, &FOUND);
pub(crate) fn skips_data() -> bool {
    SKIP.get()
}
/// While it lives, this thread's saves leave the space of the storages empty and its loads do not fill them.
#[must_use = "the bytes are skipped while the guard lives"]
#[doc(alias = "torch.serialization.skip_data")]
pub struct SkipData(#[allow(dead_code, reason = "ends the skipping on drop")] Entered<bool>);
/// Skips the bytes of storages until the guard is dropped: saved files have space for them that can be filled
/// later, loaded tensors are zero.
///
/// ```
/// use torch::serialization::{SkipData, load, save, skip_data};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("w.pt");
/// save(&torch::ones([2]), &path)?;
/// let skipping: SkipData = skip_data();
/// assert_eq!(load(&path)?.as_tensor().unwrap().to_vec::<f32>(), [0.0, 0.0]);
/// drop(skipping);
/// assert_eq!(load(&path)?.as_tensor().unwrap().to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn skip_data() -> SkipData {
    SkipData(SKIP.enter(true))
}
