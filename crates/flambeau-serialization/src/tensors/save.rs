//! `torch.save`.

use super::{Source, ToTree, outward};
use crate::config;
use crate::container::atomic_write;
use crate::pickle::DEFAULT_PROTOCOL;
use crate::torch_format::{self, Tree, WriteOptions};
use flambeau_core::{Error, Result};
use std::io::Write;
use std::path::Path;

/// Options of [`save_with`].
#[derive(Clone, Debug)]
pub struct SaveOptions {
    pickle_protocol: u8,
    zip: bool,
    byte_order: bool,
}
impl Default for SaveOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl SaveOptions {
    /// The documented defaults: pickle protocol 2 in a zip archive.
    pub fn new() -> Self {
        SaveOptions { pickle_protocol: DEFAULT_PROTOCOL, zip: true, byte_order: true }
    }
    /// Protocol of the pickle, 2 to 5. PyTorch's `weights_only` reader takes 2.
    pub fn pickle_protocol(mut self, protocol: u8) -> Self {
        self.pickle_protocol = protocol;
        self
    }
    /// Off for the format before PyTorch 1.6 (`_use_new_zipfile_serialization`).
    pub fn use_new_zipfile_serialization(mut self, on: bool) -> Self {
        self.zip = on;
        self
    }
    /// Leaves the record of the byte order out (`_disable_byteorder_record`).
    pub fn disable_byteorder_record(mut self, on: bool) -> Self {
        self.byte_order = !on;
        self
    }
    fn write_options(&self) -> WriteOptions {
        WriteOptions {
            protocol: self.pickle_protocol,
            alignment: config::storage_alignment(),
            byte_order: self.byte_order,
            skip_data: config::skips_data(),
        }
    }
    fn check(&self) -> Result<()> {
        if !self.zip && config::skips_data() {
            return Err(Error::runtime(
                "Cannot use skip_data=True with _use_new_zipfile_serialization=False",
            ));
        }
        Ok(())
    }
}

fn sources(value: &(impl ToTree + ?Sized)) -> Result<Tree<Source>> {
    super::quantized::taken_apart(super::sparse::taken_apart(value.try_to_tree()?)?)?.map(&mut Source::new)
}

/// Writes a PyTorch checkpoint. The file appears complete or not at all: whoever opens it meanwhile, or after the
/// process was killed, finds the old one.
///
/// Tensors keep dtype, strides and offset, whether they want a gradient and whether they are parameters; tensors
/// that share memory here share it in the file. `torch.load(path, weights_only=True)` reads it.
///
/// ```
/// use torch::serialization::{ToTree, dict, load, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("checkpoint.pt");
/// let w = torch::ones((2, 3));
/// save(&dict([("w", &w as &dyn ToTree), ("epoch", &3)]), &path)?;
/// let back = load(&path)?;
/// assert_eq!(back["epoch"].as_i64(), Some(3));
/// assert_eq!(back["w"].as_tensor().unwrap().sizes(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; values that the format cannot hold; tensors that view the same memory as different dtypes.
#[doc(alias = "torch.save")]
pub fn save(value: &(impl ToTree + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    save_with(value, path, SaveOptions::new())
}

/// [`save`] with its options.
///
/// # Errors
/// As for [`save`]; an unknown pickle protocol.
pub fn save_with(value: &(impl ToTree + ?Sized), path: impl AsRef<Path>, options: SaveOptions) -> Result<()> {
    options.check()?;
    let (tree, path) = (sources(value)?, path.as_ref());
    let written = if options.zip {
        torch_format::save(path, &tree, &options.write_options())
    } else {
        atomic_write(path, |out| torch_format::save_legacy_to(out, &tree, options.pickle_protocol))
    };
    written.map_err(outward).map_err(|e| e.at_path(path))
}

/// [`save`] to a stream, which need not be able to go back; the stream is returned.
///
/// ```
/// use std::io::Cursor;
/// use torch::serialization::{LoadOptions, load_from, save_to};
/// let bytes = save_to(&torch::ones([2]), Vec::new())?;
/// let back = load_from(Cursor::new(bytes), LoadOptions::new())?;
/// assert_eq!(back.as_tensor().unwrap().to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As for [`save`].
pub fn save_to<W: Write>(value: &(impl ToTree + ?Sized), out: W) -> Result<W> {
    save_to_with(value, out, SaveOptions::new())
}

/// [`save_to`] with its options.
///
/// # Errors
/// As for [`save_with`].
pub fn save_to_with<W: Write>(value: &(impl ToTree + ?Sized), mut out: W, options: SaveOptions) -> Result<W> {
    options.check()?;
    write_to(sources(value)?, &mut out, &options)?;
    Ok(out)
}
/// The same for any stream: compiled once.
fn write_to(tree: Tree<Source>, mut out: &mut dyn Write, options: &SaveOptions) -> Result<()> {
    if options.zip {
        return torch_format::stream_to(out, "archive", &tree, &options.write_options())
            .map_err(outward)
            .map(drop);
    }
    torch_format::save_legacy_to(&mut out, &tree, options.pickle_protocol).map_err(outward)?;
    Ok(out.flush()?)
}
