//! Exported programs (`torch.export.save`, `.pt2`): their weights and constants. The graph is not read.

use super::load::read;
use super::{LoadOptions, Sink, outward};
use crate::container::{ByteOrder, ZipFile, check_unpacked, swap_bytes};
use crate::map_location::MapLocation;
use crate::safetensors::plain_tensor;
use crate::source::{TensorSink, required_bytes};
use crate::torch_format::{StorageInfo, TensorRef, swap_unit};
use flambeau_core::settings::threads::get_num_threads;
use flambeau_core::tensor::storage::{MappedFile, Storage};
use flambeau_core::{DType, Error, Result, Tensor};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{HashMap, hash_map};
use std::io::{BufReader, Cursor};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The tensors of an exported program.
#[derive(Clone, Debug, Default)]
pub struct ExportedWeights {
    /// Parameters and buffers by name, as the program's `state_dict`.
    pub state_dict: Vec<(String, Tensor)>,
    /// Other tensors that the graph uses.
    pub constants: Vec<(String, Tensor)>,
}

/// Reads the weights of an exported program. The graph is not read.
///
/// ```
/// use torch::serialization::{ExportedWeights, LoadOptions, load_exported};
/// use torch::{Tensor, export, nn, prelude::*};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("net.pt2");
/// let net = nn::Linear::new(2, 3);
/// let program = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// export::save(&program, &path)?;
/// let weights: ExportedWeights = load_exported(&path, LoadOptions::new())?;
/// let names: Vec<&str> = weights.state_dict.iter().map(|(n, _)| n.as_str()).collect();
/// assert_eq!((names, weights.constants.len()), (vec!["weight", "bias"], 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; damaged files; files of another kind.
pub fn load_exported(path: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<ExportedWeights> {
    let path = path.as_ref();
    let mut reader = BufReader::new(super::open(path)?);
    super::load::check_sums(&mut reader, &options).map_err(|e| e.at_path(path))?;
    let mut file = ZipFile::open_any(reader).map_err(outward)?;
    let again = || ZipFile::open_any(BufReader::new(super::open(path)?)).map_err(outward);
    weights(&mut file, &options, &Bytes::Copied(&again))
}
/// [`load_exported`] with weights that are parts of a mapped file: only what is used is read from the disk, and checksums are
/// compared only if the options ask for it ([`LoadOptions::verify`]). Weights that are compressed, or not aligned, are copied. A map
/// serves one load, since no two storages may be the same bytes.
///
/// ```
/// use torch::serialization::{LoadOptions, MapMode, MappedFile, load_exported_mapped};
/// use torch::{Tensor, export, nn, prelude::*};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("net.pt2");
/// let net = nn::Linear::new(2, 3);
/// let program = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// export::save(&program, &path)?;
/// // SAFETY: nobody else writes to the file.
/// let map = unsafe { MappedFile::open(&path, MapMode::Private)? };
/// let weights = load_exported_mapped(&map, LoadOptions::new())?;
/// assert!(weights.state_dict[0].1.equal(&net.weight));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`load_exported`]; a map that served a load before.
pub fn load_exported_mapped(file: &MappedFile, options: LoadOptions<'_>) -> Result<ExportedWeights> {
    let mut reader = BufReader::new(file.reader());
    super::load::check_sums(&mut reader, &options)?;
    weights(&mut ZipFile::open_any(reader).map_err(outward)?, &options, &Bytes::Mapped(file))
}
/// Where the bytes of weights come from.
enum Bytes<'a> {
    /// They are read, by several threads, of which each opens the file once more.
    Copied(&'a (dyn Fn() -> Result<ZipFile<'static>> + Sync)),
    /// They are in memory already.
    Mapped(&'a MappedFile),
}
fn weights(file: &mut ZipFile<'_>, options: &LoadOptions<'_>, bytes: &Bytes<'_>) -> Result<ExportedWeights> {
    if file.has("serialized_state_dict.pt") {
        // PyTorch before 2.8: checkpoints inside the archive
        return Ok(ExportedWeights {
            state_dict: inner(file, "serialized_state_dict.pt", options)?,
            constants: inner(file, "serialized_constants.pt", options)?,
        });
    }
    let names = file.names().map_err(outward)?;
    let list = |file: &mut ZipFile<'_>, folder: &str| -> Result<Vec<(String, Tensor)>> {
        let configs =
            names.iter().filter(|n| n.starts_with(&format!("data/{folder}/")) && n.ends_with("_config.json"));
        let mut out = Vec::new();
        for config in configs {
            out.extend(folder_of(file, &format!("data/{folder}"), config, options, bytes)?);
        }
        Ok(out)
    };
    if !names.iter().any(|n| n == "archive_format") {
        return Err(Error::unsupported("this zip archive is not an exported program (torch.export.save)"));
    }
    let state_dict = list(file, "weights")?;
    Ok(ExportedWeights { state_dict, constants: list(file, "constants")? })
}

/// A checkpoint inside the archive.
fn inner(file: &mut ZipFile<'_>, record: &str, options: &LoadOptions<'_>) -> Result<Vec<(String, Tensor)>> {
    if !file.has(record) {
        return Ok(Vec::new());
    }
    let bytes = file.read(record).map_err(outward)?;
    let tree = read(&mut Cursor::new(bytes), &mut Sink::new(&options.map_location), true)?;
    Ok(tree.named().filter_map(|(n, v)| Some((n.to_owned(), v.as_tensor()?.clone()))).collect())
}

/// A tensor of a folder: as it is, or where its memory is to be read.
enum Entry {
    Whole(Tensor),
    Part(usize, TensorRef),
}
fn folder_of(
    file: &mut ZipFile<'_>,
    folder: &str,
    config: &str,
    options: &LoadOptions<'_>,
    bytes: &Bytes<'_>,
) -> Result<Vec<(String, Tensor)>> {
    let bad = |what: &str| Error::serialization(format!("{config}: {what}"));
    let text = file.read(config).map_err(outward)?;
    let json: Value = serde_json::from_slice(&text).map_err(|e| bad(&e.to_string()))?;
    let entries = json.get("config").and_then(Value::as_object).ok_or_else(|| bad("no config"))?;
    let mut found = Vec::with_capacity(entries.len());
    let (mut total, mut unpacked) = (0u64, 0u64);
    let (mut storages, mut known) = (Vec::new(), HashMap::new());
    for (name, entry) in entries {
        let path = entry.get("path_name").and_then(Value::as_str).ok_or_else(|| bad("no path_name"))?;
        let record = format!("{folder}/{path}");
        total = total.saturating_add(file.packed_size(&record).map_err(outward)?);
        // several names may share a record, which is read for each: together no more than the file holds twice
        if total > file.file_size().saturating_mul(2) {
            return Err(bad("the tensors claim more bytes than the file holds"));
        }
        // and no more than an archive may unpack to
        let size = file.size(&record).map_err(outward)?;
        unpacked = unpacked.saturating_add(size);
        check_unpacked(unpacked, file.file_size()).map_err(outward)?;
        if entry.get("use_pickle").and_then(Value::as_bool) == Some(true) {
            let bytes = file.read(&record).map_err(outward)?;
            let tree = read(&mut Cursor::new(bytes), &mut Sink::new(&options.map_location), true)?;
            if let Some(t) = tree.as_tensor() {
                found.push((name, Entry::Whole(t.clone())));
            }
            continue;
        }
        let meta = entry.get("tensor_meta").filter(|m| !m.is_null());
        let Some(meta) = meta else { continue };
        let mut about =
            geometry(meta, name).ok_or_else(|| bad(&format!("the tensor {name} is not described")))?;
        about.is_parameter = entry.get("is_param").and_then(Value::as_bool).unwrap_or(false);
        about.requires_grad &= about.is_parameter;
        let nbytes = usize::try_from(size).unwrap_or(usize::MAX);
        let need =
            required_bytes(&about.size, &about.stride, about.offset, about.dtype.size()).map_err(outward)?;
        if need > nbytes {
            return Err(bad(&format!("the tensor {name} needs {need} bytes; its record has {nbytes}")));
        }
        // tensors of one record have one memory
        let at = match known.entry((path, about.dtype, about.location.clone())) {
            hash_map::Entry::Occupied(e) => *e.get(),
            hash_map::Entry::Vacant(e) => {
                let file_offset = match bytes {
                    Bytes::Mapped(_) if !swaps(file) => file.offset(&record).map_err(outward)?,
                    _ => None,
                };
                storages.push(StorageInfo {
                    key: record,
                    dtype: about.dtype,
                    nbytes,
                    location: about.location.clone(),
                    file_offset,
                });
                *e.insert(storages.len() - 1)
            }
        };
        found.push((name, Entry::Part(at, about)));
    }
    let storages = storages_of(file, &storages, options, bytes)?;
    let mut sink = Sink::new(&options.map_location);
    let one = |(name, e): (&String, Entry)| {
        let t = match e {
            Entry::Whole(t) => t,
            Entry::Part(at, about) => sink.tensor(&storages[at], &about).map_err(outward)?,
        };
        Ok((name.clone(), t))
    };
    found.into_iter().map(one).collect()
}
/// Threads that read one file, at most: the memory gives no more.
const MOST_THREADS: usize = 4;
/// As many bytes are worth another thread.
const APART: usize = 2 << 20;

/// Reads storages; many bytes by several threads, each with the file opened once more.
fn storages_of(
    file: &mut ZipFile<'_>,
    all: &[StorageInfo],
    options: &LoadOptions<'_>,
    bytes: &Bytes<'_>,
) -> Result<Vec<Storage>> {
    let total: usize = all.iter().map(|s| s.nbytes).fold(0, usize::saturating_add);
    let mut threads = get_num_threads().min(MOST_THREADS).min(total / APART);
    // a program's own places are its own thread's
    if !matches!(options.map_location, MapLocation::Saved) || crate::config::skips_data() {
        threads = 1;
    }
    let again = match bytes {
        Bytes::Copied(again) if threads > 1 => *again,
        _ => {
            let mapped = if let Bytes::Mapped(m) = bytes { Some(*m) } else { None };
            let mut sink = Sink { mapped, ..Sink::new(&options.map_location) };
            return all.iter().map(|s| storage(file, &mut sink, s)).collect();
        }
    };
    let next = AtomicUsize::new(0);
    // the largest first, so that the threads end together
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| Reverse(all[*i].nbytes));
    let some = |file: &mut ZipFile<'_>| -> Result<Vec<(usize, Storage)>> {
        let mut sink = Sink::plain();
        let mut read = Vec::new();
        while let Some(i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            read.push((*i, storage(file, &mut sink, &all[*i])?));
        }
        Ok(read)
    };
    let parts = std::thread::scope(|s| {
        let others: Vec<_> = (1..threads).map(|_| s.spawn(|| some(&mut again()?))).collect();
        let mut parts = vec![some(file)];
        let gone = |_| Err(Error::runtime("a thread that read weights has panicked"));
        parts.extend(others.into_iter().map(|t| t.join().unwrap_or_else(gone)));
        parts
    });
    let mut read = Vec::with_capacity(all.len());
    for part in parts {
        read.extend(part?);
    }
    read.sort_by_key(|r| r.0);
    Ok(read.into_iter().map(|r| r.1).collect())
}
/// Whether numbers lie in the file as on another kind of machine.
fn swaps(file: &ZipFile<'_>) -> bool {
    file.byte_order().is_some_and(|o| o != ByteOrder::NATIVE)
}
fn storage(file: &mut ZipFile<'_>, sink: &mut Sink<'_>, info: &StorageInfo) -> Result<Storage> {
    let swap = swaps(file);
    let read = sink.storage(info, &mut |bytes| {
        file.read_into(&info.key, bytes)?;
        if swap {
            swap_bytes(bytes, swap_unit(info.dtype));
        }
        Ok(())
    });
    read.map_err(outward)
}

/// The description of a tensor in a config.
fn geometry(meta: &Value, name: &str) -> Option<TensorRef> {
    let ints = |key: &str| -> Option<Vec<i64>> {
        meta.get(key)?.as_array()?.iter().map(|v| v.get("as_int")?.as_i64()).collect()
    };
    let device = meta.get("device")?;
    let kind = device.get("type")?.as_str()?;
    let location = match device.get("index").and_then(Value::as_i64) {
        Some(i) if kind != "cpu" => format!("{kind}:{i}"),
        _ => kind.to_owned(),
    };
    Some(TensorRef {
        stride: ints("strides")?,
        offset: meta.get("storage_offset")?.get("as_int")?.as_i64()?,
        requires_grad: meta.get("requires_grad")?.as_bool()?,
        location,
        ..plain_tensor(0, name, exported_dtype(meta.get("dtype")?.as_i64()?)?, ints("sizes")?)
    })
}

/// Dtypes by their numbers in exported programs.
pub fn exported_dtype(code: i64) -> Option<DType> {
    Some(match code {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        9 => DType::C32,
        10 => DType::C64,
        11 => DType::C128,
        12 => DType::Bool,
        13 => DType::BF16,
        28 => DType::U16,
        29 => DType::F8E4M3,
        30 => DType::F8E5M2,
        34 => DType::U32,
        35 => DType::U64,
        _ => return None,
    })
}
