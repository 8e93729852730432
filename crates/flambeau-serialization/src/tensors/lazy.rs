//! safetensors files, at once or piece by piece.

use super::{LoadOptions, Sink, Source, open, outward};
use crate::safetensors::{self, Entry, Header};
use flambeau_core::api::indexing::IntoIndex;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::numel;
use flambeau_core::tensor::storage::{MappedFile, Storage};
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Device, Error, Index, Result, Tensor};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::PoisonError;

/// Writes named tensors as safetensors. The file appears complete or not at all. Each tensor is written with its own
/// elements, also where several share memory.
///
/// # Errors
/// Of the file system; dtypes that the format lacks; repeated names.
pub fn save_safetensors<S: AsRef<str>>(
    tensors: impl IntoIterator<Item = (S, Tensor)>,
    path: impl AsRef<Path>,
    metadata: Option<&HashMap<String, String>>,
) -> Result<()> {
    let list =
        tensors.into_iter().map(|(n, t)| Ok((n.as_ref().to_owned(), Source::plain(t, "safetensors")?)));
    let path = path.as_ref();
    safetensors::save(path, &list.collect::<Result<Vec<_>>>()?, metadata)
        .map_err(outward)
        .map_err(|e| e.at_path(path))
}

/// Tensors of a file by their names, in the order of the file. A module's `StateDict` is made of it by `into()`.
///
/// ```
/// use torch::nn::{Linear, StateDict};
/// use torch::prelude::*;
/// use torch::serialization::{load_safetensors, save_safetensors};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// save_safetensors([("weight", torch::ones([1, 2])), ("bias", torch::zeros([1]))], &path, None)?;
/// let tensors = load_safetensors(&path)?;
/// assert_eq!(tensors["weight"].sizes(), &[1, 2]);
/// let layer = Linear::new(2, 1);
/// layer.load_state_dict(&StateDict::from(tensors));
/// assert_eq!(layer.weight.to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NamedTensors(Vec<(String, Tensor)>);
impl NamedTensors {
    /// The tensor under a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, t)| t)
    }
    /// Whether there is a tensor under a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }
    /// Names, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(n, _)| n.as_str())
    }
    /// Tensors, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.0.iter().map(|(_, t)| t)
    }
    /// Names and tensors, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(n, t)| (n.as_str(), t))
    }
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// No tensors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
impl FromIterator<(String, Tensor)> for NamedTensors {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(entries: I) -> Self {
        NamedTensors(entries.into_iter().collect())
    }
}
impl IntoIterator for NamedTensors {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
impl std::ops::Index<&str> for NamedTensors {
    type Output = Tensor;
    /// Panics with Python's `KeyError` if there is no such name.
    #[track_caller]
    fn index(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| panic!("KeyError: '{name}'"))
    }
}

/// Reads a safetensors file: its tensors by name, in the order of their data. [`load_safetensors_metadata`] gives what else
/// it says.
///
/// # Errors
/// Of the file system; damaged files.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<NamedTensors> {
    load_safetensors_with(path, LoadOptions::new())
}
/// The metadata of a safetensors file; no tensor is read.
///
/// ```
/// use torch::serialization::{load_safetensors_metadata, save_safetensors};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// let notes = [("format".to_string(), "pt".to_string())].into();
/// save_safetensors([("w", torch::ones([2]))], &path, Some(&notes))?;
/// assert_eq!(load_safetensors_metadata(&path)?["format"], "pt");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; damaged files.
pub fn load_safetensors_metadata(path: impl AsRef<Path>) -> Result<HashMap<String, String>> {
    Ok(SafeFile::open(path)?.header.metadata)
}

/// [`load_safetensors`] to a device.
///
/// # Errors
/// As for [`load_safetensors`]; a `map_location` that is no device.
pub fn load_safetensors_with(path: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<NamedTensors> {
    read_safetensors(path.as_ref(), &options)
}
pub(super) fn read_safetensors(path: &Path, options: &LoadOptions<'_>) -> Result<NamedTensors> {
    let device = options.map_location.of_safetensors()?;
    options.refuse_verify("safetensors files").map_err(|e| e.at_path(path))?;
    let file = SafeFile::open_at(path, device)?;
    let read = |n: &str| file.tensor(n).map(|t| (n.to_owned(), t)).map_err(|e| e.at_path(path));
    file.keys().map(read).collect()
}

/// [`load_safetensors`] with tensors that are parts of a mapped file: only what is used is read from the disk. Tensors
/// that are not aligned are copied. A map serves one load.
///
/// ```
/// use torch::serialization::{MapMode, MappedFile, load_safetensors_mapped, save_safetensors};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// save_safetensors([("w", torch::ones([2]))], &path, None)?;
/// // SAFETY: nobody writes to the file while its tensors live.
/// let file = unsafe { MappedFile::open(&path, MapMode::Private)? };
/// assert_eq!(load_safetensors_mapped(&file)?["w"].to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`load_safetensors`]; a map that served a load before.
pub fn load_safetensors_mapped(file: &MappedFile) -> Result<NamedTensors> {
    let mut sink = Sink { mapped: Some(file), ..Sink::plain() };
    let (tensors, _) = safetensors::load_from(BufReader::new(file.reader()), &mut sink).map_err(outward)?;
    Ok(NamedTensors(tensors))
}

/// An open safetensors file, read tensor by tensor (`safetensors.safe_open`).
///
/// ```
/// use torch::serialization::{SafeFile, save_safetensors};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// save_safetensors([("w", torch::ones((4, 3))), ("b", torch::zeros((3,)))], &path, None)?;
/// let file = SafeFile::open(&path)?;
/// assert_eq!(file.slice("w")?.shape(), [4, 3]);
/// // two rows are read, and nothing else
/// assert_eq!(file.slice("w")?.get((1..3, ..))?.sizes(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SafeFile {
    file: Mutex<File>,
    header: Header,
    places: HashMap<String, usize>,
    device: Device,
}
impl SafeFile {
    /// Reads what the file holds, and none of its data.
    ///
    /// # Errors
    /// Of the file system; damaged files.
    pub fn open(path: impl AsRef<Path>) -> Result<SafeFile> {
        Self::open_at(path, Device::Cpu)
    }
    /// The same with tensors on a device.
    ///
    /// # Errors
    /// As for [`SafeFile::open`].
    pub fn open_at(path: impl AsRef<Path>, device: Device) -> Result<SafeFile> {
        let path = path.as_ref();
        let mut file = open(path)?;
        let header = safetensors::read_header(&mut file).map_err(outward).map_err(|e| e.at_path(path))?;
        let places = header.entries.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
        Ok(SafeFile { file: Mutex::new(file), header, places, device })
    }
    /// Names, in the order of the data.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.header.entries.iter().map(|e| e.name.as_str())
    }
    /// The metadata.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.header.metadata
    }
    fn entry(&self, name: &str) -> Result<(usize, &Entry)> {
        let at = self.places.get(name);
        let at = at.ok_or_else(|| {
            Error::new(flambeau_core::ErrorKind::Index, format!("File does not contain tensor {name}"))
        })?;
        Ok((*at, &self.header.entries[*at]))
    }
    /// Reads a tensor.
    ///
    /// # Errors
    /// No tensor of that name; of the file system; no memory.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let (at, entry) = self.entry(name)?;
        if self.device == Device::Meta {
            return Tensor::from_storage(
                &Storage::empty(entry.nbytes, Device::Meta)?,
                &entry.size,
                &strides(&entry.size),
                0,
                entry.dtype,
            );
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let t = safetensors::read_entry(&mut *file, at, entry, &mut Sink::plain()).map_err(outward)?;
        t.try_to(self.device)
    }
    /// A tensor to take parts of.
    ///
    /// # Errors
    /// No tensor of that name.
    pub fn slice(&self, name: &str) -> Result<SafeSlice<'_>> {
        let (_, entry) = self.entry(name)?;
        Ok(SafeSlice { file: self, entry })
    }
}

fn strides(size: &[i64]) -> Vec<i64> {
    safetensors::plain_tensor(0, "", DType::U8, size.to_vec()).stride
}

/// A tensor of a file, of which parts are read.
///
/// ```
/// use torch::serialization::{SafeFile, SafeSlice, save_safetensors};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// save_safetensors([("w", torch::arange(6).reshape([3, 2]))], &path, None)?;
/// let file = SafeFile::open(&path)?;
/// let w: SafeSlice<'_> = file.slice("w")?;
/// assert_eq!((w.shape(), w.dtype()), (&[3, 2][..], torch::int64));
/// assert_eq!(w.get(1)?.to_vec::<i64>(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SafeSlice<'a> {
    file: &'a SafeFile,
    entry: &'a Entry,
}
/// What is taken of a dimension.
#[derive(Clone, Copy)]
struct Part {
    start: i64,
    count: i64,
    step: i64,
}
impl SafeSlice<'_> {
    /// Sizes of the whole tensor.
    pub fn shape(&self) -> &[i64] {
        &self.entry.size
    }
    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.entry.dtype
    }
    /// Reads a part: what `x.i(index)` would give, for integers, ranges and an ellipsis. Only the bytes of the part
    /// are asked for, in runs as long as they lie together.
    ///
    /// # Errors
    /// Other kinds of indices, and indices out of range; of the file system.
    pub fn get(&self, index: impl IntoIndex) -> Result<Tensor> {
        let (parts, out) = self.parts(&index.into_index())?;
        let e = self.entry;
        let each = e.dtype.size() as i64;
        let counts: Vec<i64> = parts.iter().map(|p| p.count).collect();
        let nbytes =
            usize::try_from(numel(&counts) * each).map_err(|_| Error::value("a part is too large"))?;
        if self.file.device == Device::Meta {
            let storage = Storage::empty(nbytes, Device::Meta)?;
            return Tensor::from_storage(&storage, &out, &strides(&out), 0, e.dtype);
        }
        let storage = Storage::empty(nbytes, Device::Cpu)?;
        if nbytes > 0 {
            storage.with_bytes_mut(|bytes| self.fill(&parts, bytes))??;
        }
        Tensor::from_storage(&storage, &out, &strides(&out), 0, e.dtype)?.try_to(self.file.device)
    }

    /// Parts of all dimensions, and the sizes of those that remain.
    fn parts(&self, index: &[Index]) -> Result<(Vec<Part>, Vec<i64>)> {
        let size = &self.entry.size;
        let used = index.iter().filter(|i| matches!(i, Index::Int(_) | Index::Slice(_))).count();
        let too_many = || {
            Error::new(
                flambeau_core::ErrorKind::Index,
                format!("too many indices for tensor of dimension {}", size.len()),
            )
        };
        let free = size.len().checked_sub(used).ok_or_else(too_many)?;
        let (mut parts, mut out) = (Vec::new(), Vec::new());
        let whole = |n: i64| Part { start: 0, count: n, step: 1 };
        let mut ellipsis = false;
        for i in index {
            let n = size.get(parts.len()).copied().unwrap_or(0);
            match i {
                Index::Int(at) => {
                    let start = if *at < 0 { at + n } else { *at };
                    if start < 0 || start >= n {
                        let text = format!(
                            "index {at} is out of bounds for dimension {} with size {n}",
                            parts.len()
                        );
                        return Err(Error::new(flambeau_core::ErrorKind::Index, text));
                    }
                    parts.push(Part { start, count: 1, step: 1 });
                }
                Index::Slice(s) => {
                    if s.step <= 0 {
                        return Err(Error::value("step must be greater than zero"));
                    }
                    let clamp = |v: i64| if v < 0 { v.saturating_add(n).max(0) } else { v.min(n) };
                    let (start, stop) = (s.start.map_or(0, clamp), s.stop.map_or(n, clamp));
                    let count = (stop - start).max(0) as u64;
                    let count = count.div_ceil(s.step as u64) as i64;
                    parts.push(Part { start, count, step: s.step });
                    out.push(count);
                }
                Index::Ellipsis if !ellipsis => {
                    ellipsis = true;
                    for _ in 0..free {
                        let n = size[parts.len()];
                        parts.push(whole(n));
                        out.push(n);
                    }
                }
                _ => {
                    return Err(Error::unsupported(
                        "a part of a tensor in a file is taken by integers, ranges and one ellipsis",
                    ));
                }
            }
        }
        for &n in &size[parts.len()..] {
            parts.push(whole(n));
            out.push(n);
        }
        Ok((parts, out))
    }

    fn fill(&self, parts: &[Part], out: &mut [u8]) -> Result<()> {
        let e = self.entry;
        let step = strides(&e.size);
        // the longest tail of dimensions that lies together is one run
        let (mut outer, mut run) = (parts.len(), 1i64);
        while outer > 0 {
            let p = parts[outer - 1];
            if p.step != 1 && p.count > 1 {
                break;
            }
            outer -= 1;
            run *= p.count;
            if p.count != e.size[outer] {
                break;
            }
        }
        let first: i64 = parts.iter().zip(&step).map(|(p, s)| p.start * s).sum();
        let mut file = self.file.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reader = BufReader::new(&mut *file);
        let mut at = reader.seek(SeekFrom::Start(e.offset))?;
        let each = e.dtype.size();
        let mut index = vec![0i64; outer];
        for chunk in out.chunks_exact_mut(run as usize * each) {
            let element: i64 =
                first + index.iter().zip(parts).zip(&step).map(|((i, p), s)| i * p.step * s).sum::<i64>();
            let want = e.offset + element as u64 * each as u64;
            // within the buffer this costs nothing
            reader.seek_relative(want as i64 - at as i64)?;
            reader.read_exact(chunk)?;
            at = want + chunk.len() as u64;
            for d in (0..outer).rev() {
                index[d] += 1;
                if index[d] < parts[d].count {
                    break;
                }
                index[d] = 0;
            }
        }
        safetensors::to_native(out, e.dtype);
        Ok(())
    }
}
