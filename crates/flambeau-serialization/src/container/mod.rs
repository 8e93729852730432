//! The file formats around a checkpoint's pickle: the zip archive of today's `torch.save`, and the plain
//! stream that was written before it.

mod legacy;
mod verify;
mod write;
mod zip_read;

pub use legacy::{LegacyFile, write_legacy};
pub use verify::verify;
pub use write::{ArchiveWriter, atomic_write};
pub(crate) use zip_read::directory;
pub use zip_read::{ReadSeek, ZipFile};

use crate::error::{Error, Result};
use std::io::{Read, SeekFrom};

/// Alignment of records that `torch.save` writes by default.
pub const STORAGE_ALIGNMENT: u16 = 64;

/// Byte order of the storages in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of the machine this runs on.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
}

/// What a file is, from its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A zip archive.
    Zip,
    /// The stream format before 1.6.
    Legacy,
    /// A tar archive, the format before 0.1.10.
    Tar,
}

/// Looks at the first bytes and returns to the start.
pub fn detect(mut reader: &mut dyn ReadSeek) -> Result<Kind> {
    reader.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    Read::by_ref(&mut reader).take(512).read_to_end(&mut head)?;
    reader.seek(SeekFrom::Start(0))?;
    if head.starts_with(b"PK\x03\x04") {
        Ok(Kind::Zip)
    } else if head.get(257..262) == Some(b"ustar") {
        Ok(Kind::Tar)
    } else if head.first() == Some(&0x80) {
        Ok(Kind::Legacy)
    } else {
        Err(Error::malformed("not a PyTorch checkpoint: neither a zip archive nor a pickle stream"))
    }
}

/// Refuses archives that unpack to absurd amounts: deflate makes a thousand bytes of one, and nobody's weights are like
/// that. Small archives may unpack to 256 MB all the same.
///
/// # Errors
/// [`Error::Limit`]
#[doc(hidden)]
pub fn check_unpacked(unpacked: u64, file: u64) -> Result<()> {
    const FREE: u64 = 256 << 20;
    const RATIO: u64 = 128;
    if unpacked <= FREE.max(file.saturating_mul(RATIO)) {
        return Ok(());
    }
    Err(Error::Limit(format!("a file of {file} bytes that unpacks to {unpacked}")))
}

/// Reverses the bytes of each `unit`-byte number.
pub fn swap_bytes(bytes: &mut [u8], unit: usize) {
    if unit > 1 {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
}
