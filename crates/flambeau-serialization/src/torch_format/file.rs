//! Whole checkpoints: file to tree and tree to file.

use super::{
    Form, ReadOptions, StorageInfo, TensorRef, Tree, WriteOptions, decode, encode, encode_as, swap_unit,
};
use crate::container::{self, ArchiveWriter, ByteOrder, Kind, LegacyFile, ReadSeek, ZipFile};
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
    options: &ReadOptions,
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
    options: &ReadOptions,
) -> Result<Tree<S::Tensor>> {
    load_any(&mut reader, sink, options)
}
pub(crate) fn load_any<S: TensorSink>(
    mut reader: &mut dyn ReadSeek,
    sink: &mut S,
    options: &ReadOptions,
) -> Result<Tree<S::Tensor>> {
    match container::detect(&mut reader)? {
        Kind::Tar => Err(Error::Missing("checkpoints in the tar format of PyTorch before 0.1.10".into())),
        Kind::Zip => load_part(&mut ZipFile::open(reader)?, ArchivePart::CHECKPOINT, sink, options),
        Kind::Legacy => load_legacy(reader, sink, options),
    }
}

/// A pickle in an archive and the folder of its storages.
#[derive(Clone, Copy, Debug)]
pub struct ArchivePart<'a> {
    /// Record of the pickle.
    pub pickle: &'a str,
    /// Folder of the storages.
    pub folder: &'a str,
}
impl ArchivePart<'_> {
    /// The one part of a checkpoint, and the attributes of a TorchScript archive.
    pub const CHECKPOINT: ArchivePart<'static> = ArchivePart { pickle: "data.pkl", folder: "data" };
    /// Tensors that the code of a TorchScript archive names.
    pub const CONSTANTS: ArchivePart<'static> = ArchivePart { pickle: "constants.pkl", folder: "constants" };
}

/// Reads one pickle of an archive with its storages.
///
/// # Errors
/// As for [`load_from`].
pub fn load_part<S: TensorSink>(
    file: &mut ZipFile<'_>,
    part: ArchivePart<'_>,
    sink: &mut S,
    options: &ReadOptions,
) -> Result<Tree<S::Tensor>> {
    let data = file.read(part.pickle)?;
    let (graph, root) = pickle::load(&data)?;
    drop(data);
    let (tree, infos) = decode(&graph, root, options)?;
    let order = file.byte_order().or(options.byte_order).unwrap_or(ByteOrder::Little);
    let mut storages = Vec::new();
    let (mut packed, mut unpacked) = (0u64, 0u64);
    for mut info in infos {
        let name = format!("{}/{}", part.folder, info.key);
        let size = file.size(&name)?;
        // Directory entries may overlap; without this sum a small file could fill the memory.
        packed = packed.saturating_add(file.packed_size(&name)?);
        if packed > file.file_size() {
            return Err(Error::malformed("the storages claim more bytes than the file holds"));
        }
        unpacked = unpacked.saturating_add(info.nbytes as u64);
        container::check_unpacked(unpacked, file.file_size())?;
        if info.nbytes as u64 > size {
            return Err(Error::malformed(format!(
                "storage {} should have {} bytes, its record has {size}",
                info.key, info.nbytes
            )));
        }
        if order == ByteOrder::NATIVE {
            info.file_offset = file.offset(&name)?;
        }
        storages.push(fill(sink, &info, order, &mut |out| file.read_into(&name, out))?);
    }
    tensors(tree, &storages, sink)
}

fn load_legacy<S: TensorSink>(
    reader: &mut dyn ReadSeek,
    sink: &mut S,
    options: &ReadOptions,
) -> Result<Tree<S::Tensor>> {
    let (mut file, graph, root) = LegacyFile::open(reader)?;
    let (tree, infos) = decode(&graph, root, options)?;
    let places: HashMap<&str, usize> = infos.iter().enumerate().map(|(i, s)| (s.key.as_str(), i)).collect();
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
        let mut wanted = false;
        storages[at] = Some(fill(sink, &info, order, &mut |out| {
            wanted = true;
            file.read_next(out)
        })?);
        if !wanted {
            file.skip_next(size);
        }
    }
    let storages = storages.into_iter().collect::<Option<Vec<_>>>();
    let storages = storages.ok_or_else(|| Error::malformed("a storage is not in the file"))?;
    tensors(tree, &storages, sink)
}

/// One object in the file is one object here: tied weights stay tied.
fn tensors<S: TensorSink>(
    tree: Tree<TensorRef>,
    storages: &[S::Storage],
    sink: &mut S,
) -> Result<Tree<S::Tensor>> {
    let mut made: HashMap<(usize, bool), S::Tensor> = HashMap::new();
    tree.map(&mut |t| {
        let key = (t.object, t.is_parameter);
        if let Some(tensor) = made.get(&key) {
            return Ok(tensor.clone());
        }
        let tensor = match t.storage {
            Some(n) => sink.tensor(&storages[n], &t)?,
            None => sink.meta(&t)?,
        };
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
pub fn save<T: TensorSource>(path: impl AsRef<Path>, tree: &Tree<T>, options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    // PyTorch names the folder inside the archive after the file.
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("archive");
    container::atomic_write(path, |out| save_to_with(out, stem, tree, options).map(drop))
}

/// Writes a checkpoint to a stream, with its records in `folder`, and returns the stream.
///
/// # Errors
/// Those of [`save`].
pub fn save_to<W: Write + Seek, T: TensorSource>(out: W, folder: &str, tree: &Tree<T>) -> Result<W> {
    save_to_with(out, folder, tree, &WriteOptions::default())
}

/// [`save_to`] with its options.
///
/// # Errors
/// Those of [`save`].
pub fn save_to_with<W: Write + Seek, T: TensorSource>(
    out: W,
    folder: &str,
    tree: &Tree<T>,
    options: &WriteOptions,
) -> Result<W> {
    let mut writer = ArchiveWriter::new(out, folder).aligned(options.alignment)?;
    write_records(&mut writer, tree, options)?;
    writer.finish()
}

/// Writes a checkpoint to a stream that cannot go back.
///
/// # Errors
/// Those of [`save`].
pub fn stream_to<W: Write, T: TensorSource>(
    out: W,
    folder: &str,
    tree: &Tree<T>,
    options: &WriteOptions,
) -> Result<W> {
    let mut writer = ArchiveWriter::stream(out, folder).aligned(options.alignment)?;
    write_records(&mut writer, tree, options)?;
    Ok(writer.finish()?.into_inner())
}

fn write_records<W: Write + Seek, T: TensorSource>(
    writer: &mut ArchiveWriter<W>,
    tree: &Tree<T>,
    options: &WriteOptions,
) -> Result<()> {
    let encoded = encode(tree)?;
    writer.record("data.pkl", &pickle::dump_with(&encoded.graph, encoded.root, options.protocol)?)?;
    writer.record(".format_version", b"1")?;
    writer.record(".storage_alignment", options.alignment.to_string().as_bytes())?;
    if options.byte_order {
        let order: &[u8] = if ByteOrder::NATIVE == ByteOrder::Little { b"little" } else { b"big" };
        writer.record("byteorder", order)?;
    }
    for (key, source) in encoded.storages.iter().enumerate() {
        let size = source.storage_nbytes();
        writer.record_with(&format!("data/{key}"), size, |write| {
            if options.skip_data {
                return zeros(size, write);
            }
            source.with_storage_blocks(&mut |bytes| write(bytes))
        })?;
    }
    Ok(())
}

fn zeros(mut size: usize, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let block = vec![0; size.min(1 << 20)];
    while size > 0 {
        let n = size.min(block.len());
        write(&block[..n])?;
        size -= n;
    }
    Ok(())
}

/// Writes the stream format of PyTorch before 1.6.
///
/// # Errors
/// Those of [`save`].
pub fn save_legacy_to<W: Write, T: TensorSource>(out: &mut W, tree: &Tree<T>, protocol: u8) -> Result<()> {
    let encoded = encode_as(tree, Form::Legacy)?;
    let object = pickle::dump_with(&encoded.graph, encoded.root, protocol)?;
    // PyTorch sorts the keys as text.
    let mut order: Vec<(String, usize)> = (0..encoded.storages.len()).map(|n| (n.to_string(), n)).collect();
    order.sort();
    let mut counts = order
        .iter()
        .map(|(key, n)| (key.clone(), encoded.storages[*n].storage_nbytes() / encoded.elements[*n]));
    let places: HashMap<&str, usize> = order.iter().map(|(k, n)| (k.as_str(), *n)).collect();
    container::write_legacy(out, protocol, &object, &mut counts, |key, out| {
        encoded.storages[places[key]].with_storage_blocks(&mut |bytes| Ok(out.write_all(bytes)?))
    })
}
