//! Whole checkpoints: file to tree and tree to file.

use super::{LoadOptions, StorageInfo, Tree, decode, encode, swap_unit};
use crate::container::{self, ArchiveWriter, ByteOrder, Kind, LegacyFile, STORAGE_ALIGNMENT, ZipFile};
use crate::error::{Error, Result};
use crate::pickle;
use crate::source::{TensorSink, TensorSource};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::path::Path;

/// Reads a checkpoint written by `torch.save`, old format included.
///
/// # Errors
/// Those of [`load_from`], and of opening the file.
pub fn load<S: TensorSink>(
    path: impl AsRef<Path>,
    sink: &mut S,
    options: LoadOptions,
) -> Result<Tree<S::Tensor>> {
    load_from(BufReader::new(File::open(path)?), sink, options)
}

/// Reads a checkpoint; each storage is read straight into memory of the sink.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] for damaged files (zip records have checksums),
/// [`Error::Global`] for classes outside the allow-list, [`Error::Unsupported`] for TorchScript archives.
pub fn load_from<R: Read + Seek, S: TensorSink>(
    mut reader: R,
    sink: &mut S,
    options: LoadOptions,
) -> Result<Tree<S::Tensor>> {
    let (tree, storages) = match container::detect(&mut reader)? {
        Kind::Tar => {
            return Err(Error::Missing("checkpoints in the tar format of PyTorch before 0.1.10".into()));
        }
        Kind::Zip => {
            let mut file = ZipFile::open(reader)?;
            let data = file.read("data.pkl")?;
            let (graph, root) = pickle::load(&data)?;
            drop(data);
            let (tree, infos) = decode(&graph, root, options)?;
            let mut storages = Vec::new();
            let mut packed = 0u64;
            for info in &infos {
                let name = format!("data/{}", info.key);
                let size = file.size(&name)?;
                // Directory entries may overlap; without this sum a small file could fill the memory.
                packed = packed.saturating_add(file.packed_size(&name)?);
                if packed > file.file_size() {
                    return Err(Error::malformed("the storages claim more bytes than the file holds"));
                }
                if info.nbytes as u64 > size {
                    return Err(Error::malformed(format!(
                        "storage {} should have {} bytes, its record has {size}",
                        info.key, info.nbytes
                    )));
                }
                let order = file.byte_order();
                storages.push(fill(sink, info, order, &mut |out| file.read_into(&name, out))?);
            }
            (tree, storages)
        }
        Kind::Legacy => {
            let (mut file, graph, root) = LegacyFile::open(reader)?;
            let (tree, infos) = decode(&graph, root, options)?;
            let places: HashMap<&str, usize> =
                infos.iter().enumerate().map(|(i, s)| (s.key.as_str(), i)).collect();
            let mut storages: Vec<Option<S::Storage>> = infos.iter().map(|_| None).collect();
            for key in file.keys().to_vec() {
                let Some(&at) = places.get(key.as_str()) else {
                    return Err(Error::malformed(format!("storage {key} belongs to no tensor")));
                };
                let size = file.next_size(infos[at].dtype.size())?;
                if size < infos[at].nbytes || storages[at].is_some() {
                    return Err(Error::malformed(format!("storage {key} has {size} bytes or comes twice")));
                }
                let info = StorageInfo { nbytes: size, ..infos[at].clone() };
                let order = file.byte_order();
                storages[at] = Some(fill(sink, &info, order, &mut |out| file.read_next(out))?);
            }
            let storages = storages.into_iter().collect::<Option<Vec<_>>>();
            (tree, storages.ok_or_else(|| Error::malformed("a storage is not in the file"))?)
        }
    };
    // One object in the file is one object here: tied weights stay tied.
    let mut made: HashMap<(usize, bool), S::Tensor> = HashMap::new();
    tree.map(&mut |t| {
        let key = (t.object, t.is_parameter);
        if let Some(tensor) = made.get(&key) {
            return Ok(tensor.clone());
        }
        let tensor = sink.tensor(&storages[t.storage], &t)?;
        made.insert(key, tensor.clone());
        Ok(tensor)
    })
}

fn fill<S: TensorSink>(
    sink: &mut S,
    info: &StorageInfo,
    order: ByteOrder,
    read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<S::Storage> {
    sink.storage(info, &mut |out| {
        if out.len() != info.nbytes {
            return Err(Error::malformed(format!(
                "{} bytes were offered for a storage of {}",
                out.len(),
                info.nbytes
            )));
        }
        read(out)?;
        if order != ByteOrder::NATIVE {
            container::swap_bytes(out, swap_unit(info.dtype));
        }
        Ok(())
    })
}

/// Writes a checkpoint that `torch.load(..., weights_only=True)` opens. The file appears complete or not
/// at all. Storages shared in the tree are shared in the file.
///
/// # Errors
/// Those of [`encode`] and of writing the file.
pub fn save<T: TensorSource>(path: impl AsRef<Path>, tree: &Tree<T>) -> Result<()> {
    let path = path.as_ref();
    // PyTorch names the folder inside the archive after the file.
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("archive");
    container::atomic_write(path, |out| save_to(out, stem, tree).map(drop))
}

/// Writes a checkpoint to a stream, with its records in `folder`, and returns the stream.
pub fn save_to<W: Write + Seek, T: TensorSource>(out: W, folder: &str, tree: &Tree<T>) -> Result<W> {
    let encoded = encode(tree)?;
    let mut writer = ArchiveWriter::new(out, folder);
    writer.record("data.pkl", &pickle::dump(&encoded.graph, encoded.root)?)?;
    writer.record(".format_version", b"1")?;
    writer.record(".storage_alignment", STORAGE_ALIGNMENT.to_string().as_bytes())?;
    writer.record("byteorder", if ByteOrder::NATIVE == ByteOrder::Little { b"little" } else { b"big" })?;
    for (key, source) in encoded.storages.iter().enumerate() {
        writer.record_with(&format!("data/{key}"), source.storage_nbytes(), |write| {
            source.with_storage_bytes(&mut |bytes| write(bytes))
        })?;
    }
    writer.finish()
}
