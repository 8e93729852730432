//! The safetensors format: named tensors and string metadata.

use crate::container::atomic_write;
use crate::error::{Error, Result};
use crate::source::{TensorSink, TensorSource, write_elements};
use crate::torch_format::{StorageInfo, TensorRef};
use flambeau_dtype::DType;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Longest header the format allows.
const MAX_HEADER: u64 = 100_000_000;

const DTYPES: [(Dtype, DType); 16] = [
    (Dtype::BOOL, DType::Bool),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::I8),
    (Dtype::F8_E5M2, DType::F8E5M2),
    (Dtype::F8_E4M3, DType::F8E4M3),
    (Dtype::I16, DType::I16),
    (Dtype::U16, DType::U16),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::I32, DType::I32),
    (Dtype::U32, DType::U32),
    (Dtype::F32, DType::F32),
    (Dtype::C64, DType::C64),
    (Dtype::F64, DType::F64),
    (Dtype::I64, DType::I64),
    (Dtype::U64, DType::U64),
];

fn bad(error: impl std::fmt::Display) -> Error {
    Error::malformed(format!("safetensors: {error}"))
}

/// Writes named tensors, each as a contiguous copy of its elements. The file appears complete or not at
/// all. Tensors that share a storage are written separately.
///
/// # Errors
/// [`Error::Unsupported`] for dtypes the format lacks and for repeated names; [`Error::Missing`] for
/// tensors that are lazily conjugated or negated.
pub fn save<T: TensorSource>(
    path: impl AsRef<Path>,
    tensors: &[(String, T)],
    metadata: Option<&HashMap<String, String>>,
) -> Result<()> {
    atomic_write(path.as_ref(), |out| save_to(out, tensors, metadata))
}

/// Writes named tensors to a stream; see [`save`].
pub fn save_to<T: TensorSource>(
    out: &mut impl Write,
    tensors: &[(String, T)],
    metadata: Option<&HashMap<String, String>>,
) -> Result<()> {
    let mut order: Vec<(&str, &T, Dtype)> = Vec::with_capacity(tensors.len());
    for (name, t) in tensors {
        if t.is_conj() || t.is_neg() {
            return Err(Error::Missing(format!(
                "safetensors: {name} is lazily conjugated or negated; resolve it first"
            )));
        }
        let dtype = DTYPES.iter().find(|(_, d)| *d == t.dtype()).map(|(s, _)| *s);
        let dtype = dtype.ok_or_else(|| {
            Error::Unsupported(format!("safetensors has no dtype {} (tensor {name})", t.dtype()))
        })?;
        order.push((name, t, dtype));
    }
    // Wider elements first keeps every tensor aligned to its element size.
    order.sort_by(|a, b| b.1.dtype().size().cmp(&a.1.dtype().size()).then(a.0.cmp(b.0)));
    let mut infos = Vec::with_capacity(order.len());
    let mut names = std::collections::HashSet::new();
    let mut end = 0usize;
    for (name, t, dtype) in &order {
        if !names.insert(*name) {
            return Err(Error::Unsupported(format!("safetensors: two tensors are named {name}")));
        }
        let shape = t.sizes().iter().map(|&n| usize::try_from(n).map_err(bad)).collect::<Result<Vec<_>>>()?;
        let bytes = shape
            .iter()
            .try_fold(t.dtype().size(), |n, &d| n.checked_mul(d))
            .and_then(|n| n.checked_add(end))
            .ok_or_else(|| bad("a tensor is too large"))?;
        infos.push(((*name).to_owned(), TensorInfo { dtype: *dtype, shape, data_offsets: (end, bytes) }));
        end = bytes;
    }
    let header = Metadata::new(metadata.cloned(), infos).map_err(bad)?;
    let mut header = serde_json::to_vec(&header).map_err(bad)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for (_, t, _) in &order {
        write_elements(*t, &t.sizes(), &t.strides(), out)?;
    }
    Ok(())
}

/// Reads all tensors, in the order of their data, and the metadata.
///
/// # Errors
/// [`Error::Malformed`] for damaged files; [`Error::Missing`] for dtypes this project does not have.
pub fn load<S: TensorSink>(
    path: impl AsRef<Path>,
    sink: &mut S,
) -> Result<(Vec<(String, S::Tensor)>, HashMap<String, String>)> {
    load_from(BufReader::new(File::open(path)?), sink)
}

/// A tensor in a file: what it is and where its bytes lie.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub size: Vec<i64>,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes, which is that of the elements.
    pub nbytes: usize,
}

/// What a file holds, in the order of the data.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// The tensors.
    pub entries: Vec<Entry>,
    /// The metadata.
    pub metadata: HashMap<String, String>,
}

/// Reads what a file holds, and none of its data.
///
/// # Errors
/// As for [`load`].
pub fn read_header(reader: &mut (impl Read + Seek)) -> Result<Header> {
    let length = reader.seek(SeekFrom::End(0))?;
    reader.seek(SeekFrom::Start(0))?;
    let mut count = [0; 8];
    reader
        .read_exact(&mut count)
        .map_err(|_| Error::Truncated { what: "safetensors", at: length as usize })?;
    let count = u64::from_le_bytes(count);
    if count > MAX_HEADER || count > length - 8 {
        return Err(bad("the header claims more bytes than the file holds or the format allows"));
    }
    let mut header = vec![0; count as usize];
    reader.read_exact(&mut header)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(bad)?;
    if header.data_len() as u64 != length - 8 - count {
        return Err(bad("the data has another size than the header says"));
    }
    let mut entries = Vec::new();
    for name in header.offset_keys() {
        let info = header.info(&name).ok_or_else(|| bad("a tensor has no entry"))?;
        let dtype = DTYPES.iter().find(|(s, _)| *s == info.dtype).map(|(_, d)| *d);
        let dtype = dtype
            .ok_or_else(|| Error::Missing(format!("safetensors dtype {:?} (tensor {name})", info.dtype)))?;
        let (start, end) = info.data_offsets;
        let size = info.shape.iter().map(|&n| i64::try_from(n).map_err(bad)).collect::<Result<Vec<_>>>()?;
        let stride = plain_tensor(0, "", dtype, size.clone()).stride;
        let nbytes = crate::source::required_bytes(&size, &stride, 0, dtype.size())?;
        if start.checked_add(nbytes) != Some(end) {
            return Err(bad(format!("{name} has {} bytes and needs {nbytes}", end.saturating_sub(start))));
        }
        entries.push(Entry { name, dtype, size, offset: 8 + count + start as u64, nbytes });
    }
    Ok(Header { entries, metadata: header.metadata().clone().unwrap_or_default() })
}

/// Reads one tensor of a file.
///
/// # Errors
/// As for [`load`].
pub fn read_entry<R: Read + Seek, S: TensorSink>(
    reader: &mut R,
    index: usize,
    entry: &Entry,
    sink: &mut S,
) -> Result<S::Tensor> {
    let tensor = plain_tensor(index, &entry.name, entry.dtype, entry.size.clone());
    let info = StorageInfo {
        key: entry.name.clone(),
        dtype: entry.dtype,
        nbytes: entry.nbytes,
        location: "cpu".into(),
        file_offset: cfg!(target_endian = "little").then_some(entry.offset),
    };
    let storage = sink.storage(&info, &mut |out| {
        reader.seek(SeekFrom::Start(entry.offset))?;
        reader.read_exact(out)?;
        to_native(out, entry.dtype);
        Ok(())
    })?;
    sink.tensor(&storage, &tensor)
}

/// Elements of a file in the machine's byte order.
pub(crate) fn to_native(bytes: &mut [u8], dtype: DType) {
    if cfg!(target_endian = "big") {
        crate::container::swap_bytes(bytes, crate::torch_format::swap_unit(dtype));
    }
}

/// Reads all tensors from a stream; see [`load`].
///
/// # Errors
/// As for [`load`].
pub fn load_from<R: Read + Seek, S: TensorSink>(
    mut reader: R,
    sink: &mut S,
) -> Result<(Vec<(String, S::Tensor)>, HashMap<String, String>)> {
    let header = read_header(&mut reader)?;
    let mut out = Vec::with_capacity(header.entries.len());
    for (index, entry) in header.entries.iter().enumerate() {
        out.push((entry.name.clone(), read_entry(&mut reader, index, entry, sink)?));
    }
    Ok((out, header.metadata))
}

/// The description of a contiguous tensor that fills a storage of its own.
pub(crate) fn plain_tensor(index: usize, key: &str, dtype: DType, size: Vec<i64>) -> TensorRef {
    let mut stride = vec![1i64; size.len()];
    for d in (1..size.len()).rev() {
        stride[d - 1] = stride[d].saturating_mul(size[d].max(1));
    }
    TensorRef {
        object: index,
        storage: Some(index),
        storage_key: key.to_owned(),
        location: "cpu".into(),
        dtype,
        offset: 0,
        size,
        stride,
        requires_grad: false,
        is_parameter: false,
        conj: false,
        neg: false,
    }
}
