//! NumPy's files.

use super::{Sink, Source, outward};
use crate::npy;
use flambeau_core::{Result, Tensor};
use std::io::{Read, Write};
use std::path::Path;

/// Writes an npy file; it appears complete or not at all. Tensors in column-major order are written as they lie.
///
/// # Errors
/// Of the file system; dtypes that NumPy lacks (bfloat16, float8, complex32).
pub fn save_npy(t: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    npy::save(path, &Source::plain(t.clone(), "npy")?).map_err(outward).map_err(|e| e.at_path(path))
}

/// [`save_npy`] to a stream.
///
/// # Errors
/// As for [`save_npy`].
pub fn write_npy(t: &Tensor, out: &mut dyn Write) -> Result<()> {
    npy::write_npy(out, &Source::plain(t.clone(), "npy")?).map_err(outward)
}

/// Reads an npy file, of either byte order and either order of elements.
///
/// # Errors
/// Of the file system; damaged files; element types that no tensor has (records, objects, text, dates).
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    npy::load(path, &mut Sink::plain()).map_err(outward).map_err(|e| e.at_path(path))
}

/// [`load_npy`] from a stream that gives at most `available` bytes: memory is taken for no more.
///
/// # Errors
/// As for [`load_npy`].
pub fn read_npy(mut reader: impl Read, available: u64) -> Result<Tensor> {
    npy::read_npy(&mut reader, available, "array", &mut Sink::plain()).map_err(outward)
}

/// Writes named arrays as `numpy.savez` does, or as `savez_compressed` does.
///
/// # Errors
/// As for [`save_npy`].
pub fn save_npz<S: AsRef<str>>(
    tensors: impl IntoIterator<Item = (S, Tensor)>,
    path: impl AsRef<Path>,
    compress: bool,
) -> Result<()> {
    let list = tensors.into_iter().map(|(n, t)| Ok((n.as_ref().to_owned(), Source::plain(t, "npz")?)));
    let path = path.as_ref();
    npy::save_npz(path, &list.collect::<Result<Vec<_>>>()?, compress)
        .map_err(outward)
        .map_err(|e| e.at_path(path))
}

/// Reads all arrays of an npz archive, in file order, by their names without `.npy`.
///
/// # Errors
/// As for [`load_npy`].
pub fn load_npz(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    npy::load_npz(path, &mut Sink::plain()).map_err(outward).map_err(|e| e.at_path(path))
}
