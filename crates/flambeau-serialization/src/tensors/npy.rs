//! NumPy's files.

use super::{Sink, Source, outward};
use crate::npy;
use flambeau_core::{Result, Tensor};
use std::io::{Read, Write};
use std::path::Path;

/// Writes an npy file; it appears complete or not at all. Tensors in column-major order are written as they lie.
///
/// ```
/// use torch::serialization::{load_npy, save_npy};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("x.npy");
/// save_npy(&torch::tensor([[1i64, 2], [3, 4]]), &path)?;
/// assert_eq!(load_npy(&path)?.to_vec2::<i64>(), [[1, 2], [3, 4]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; dtypes that NumPy lacks (bfloat16, float8, complex32).
pub fn save_npy(t: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    npy::save(path, &Source::plain(t.clone(), "npy")?).map_err(outward).map_err(|e| e.at_path(path))
}

/// [`save_npy`] to a stream.
///
/// ```
/// use torch::serialization::{read_npy, write_npy};
/// let mut bytes = Vec::new();
/// write_npy(&torch::ones([2]), &mut bytes)?;
/// assert_eq!(&bytes[..6], b"\x93NUMPY");
/// assert_eq!(read_npy(&bytes[..], bytes.len() as u64)?.to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), torch::Error>(())
/// ```
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
/// ```
/// use torch::serialization::{load_npz, save_npz};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("x.npz");
/// save_npz([("x", torch::ones([2])), ("y", torch::arange(3))], &path, true)?;
/// let all = load_npz(&path)?;
/// assert_eq!((all[1].0.as_str(), all[1].1.to_vec::<i64>()), ("y", vec![0, 1, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
