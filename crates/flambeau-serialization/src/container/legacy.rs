//! The stream format of `torch.save` before version 1.6 (and with `_use_new_zipfile_serialization=False`):
//! five pickles (magic number, protocol, system info, the object, storage keys), then each storage as its
//! element count and its bytes.

use super::ByteOrder;
use crate::error::{Error, Result};
use crate::pickle::{self, Graph, Id, Value};
use std::io::{Read, Seek, SeekFrom, Write};

/// Little-endian bytes of 0x1950a86a20f9469cfc6c.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const PROTOCOL: i64 = 1001;
/// Read first; doubled while the pickles turn out to be longer.
const FIRST_READ: u64 = 1 << 20;

/// The pickles of a legacy file; storages stay on disk.
pub struct LegacyFile<R: Read + Seek> {
    reader: R,
    length: u64,
    /// Where the next storage starts.
    at: u64,
    order: ByteOrder,
    keys: Vec<String>,
}

impl<R: Read + Seek> LegacyFile<R> {
    /// Reads the pickles and returns the object's.
    pub fn open(mut reader: R) -> Result<(Self, Graph, Id)> {
        let length = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        let mut head = Vec::new();
        let mut want = FIRST_READ;
        loop {
            let missing = want - head.len() as u64;
            reader.by_ref().take(missing).read_to_end(&mut head)?;
            match parse(&head) {
                Err(Error::Truncated { .. }) if (head.len() as u64) >= want => want *= 2,
                Err(e) => return Err(e),
                Ok(head) => {
                    let file = LegacyFile { reader, length, at: head.at, order: head.order, keys: head.keys };
                    return Ok((file, head.graph, head.root));
                }
            }
        }
    }

    /// Byte order of the storages.
    pub fn byte_order(&self) -> ByteOrder {
        self.order
    }

    /// Keys of the storages, in file order.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Element count of the next storage, checked against the bytes left. Call [`Self::read_next`] after
    /// it.
    pub fn next_size(&mut self, element: usize) -> Result<usize> {
        self.reader.seek(SeekFrom::Start(self.at))?;
        let mut count = [0; 8];
        self.reader.read_exact(&mut count)?;
        self.at += 8;
        let count = match self.order {
            ByteOrder::Little => i64::from_le_bytes(count),
            ByteOrder::Big => i64::from_be_bytes(count),
        };
        let bytes = u64::try_from(count).ok().and_then(|n| n.checked_mul(element as u64));
        match bytes {
            Some(n) if n <= self.length.saturating_sub(self.at) => Ok(n as usize),
            _ => {
                Err(Error::malformed(format!("a storage claims {count} elements, more than the file holds")))
            }
        }
    }

    /// Goes past a storage of `bytes` bytes that nobody reads.
    pub fn skip_next(&mut self, bytes: usize) {
        self.at += bytes as u64;
    }

    /// Fills `out`, which has the size that [`Self::next_size`] gave.
    pub fn read_next(&mut self, out: &mut [u8]) -> Result<()> {
        self.reader.read_exact(out)?;
        self.at += out.len() as u64;
        Ok(())
    }
}

struct Head {
    graph: Graph,
    root: Id,
    keys: Vec<String>,
    order: ByteOrder,
    at: u64,
}

fn parse(bytes: &[u8]) -> Result<Head> {
    let (graph, root, mut at) = pickle::load_prefix(bytes)?;
    match graph.get(root) {
        Value::BigInt(v) if *v == MAGIC => {}
        _ => return Err(Error::malformed("not a PyTorch checkpoint: the magic number is wrong")),
    }
    let mut next = || -> Result<(Graph, Id)> {
        let (graph, root, used) = pickle::load_prefix(&bytes[at..])?;
        at += used;
        Ok((graph, root))
    };
    let (graph, root) = next()?;
    match graph.get(root) {
        Value::Int(PROTOCOL) => {}
        other => {
            return Err(Error::Unsupported(format!("stream protocol {other:?}, only {PROTOCOL} is known")));
        }
    }
    let (info, info_root) = next()?;
    let mut order = ByteOrder::Little;
    if let Value::Dict(pairs) = info.get(info_root) {
        for &(key, value) in pairs {
            if matches!(info.get(key), Value::Str(s) if s == "little_endian")
                && *info.get(value) == Value::Bool(false)
            {
                order = ByteOrder::Big;
            }
        }
    }
    let (graph, root) = next()?;
    let (key_graph, key_root) = next()?;
    let Value::List(ids) = key_graph.get(key_root) else {
        return Err(Error::malformed("the storage keys are not a list"));
    };
    let keys = ids
        .iter()
        .map(|&id| match key_graph.get(id) {
            Value::Str(s) => Ok(s.clone()),
            other => Err(Error::malformed(format!("storage key {other:?}"))),
        })
        .collect::<Result<_>>()?;
    Ok(Head { graph, root, keys, order, at: at as u64 })
}

/// Writes the stream format: the object's pickle as given, then the keys and the storages, each with its element
/// count and what hands over its bytes.
///
/// # Errors
/// Of the stream and of the storages.
pub fn write_legacy<W: Write>(
    out: &mut W,
    protocol: u8,
    object: &[u8],
    storages: &mut dyn Iterator<Item = (String, usize)>,
    mut bytes: impl FnMut(&str, &mut W) -> Result<()>,
) -> Result<()> {
    let mut g = Graph::new();
    let magic = g.add(Value::BigInt(MAGIC.to_vec()))?;
    let version = g.add(Value::Int(PROTOCOL))?;
    let mut entry = |name: &str, value: Value| -> Result<(Id, Id)> {
        Ok((g.add(Value::Str(name.to_owned()))?, g.add(value)?))
    };
    let sizes = [("short", 2), ("int", 4), ("long", 4)];
    let sizes = sizes.iter().map(|&(n, v)| entry(n, Value::Int(v))).collect::<Result<_>>()?;
    let about = vec![
        entry("protocol_version", Value::Int(PROTOCOL))?,
        entry("little_endian", Value::Bool(ByteOrder::NATIVE == ByteOrder::Little))?,
        entry("type_sizes", Value::Dict(sizes))?,
    ];
    let about = g.add(Value::Dict(about))?;
    let storages: Vec<(String, usize)> = storages.collect();
    let keys = storages.iter().map(|(k, _)| g.add(Value::Str(k.clone()))).collect::<Result<_>>()?;
    let keys = g.add(Value::List(keys))?;
    for part in [magic, version, about] {
        out.write_all(&pickle::dump_with(&g, part, protocol)?)?;
    }
    out.write_all(object)?;
    out.write_all(&pickle::dump_with(&g, keys, protocol)?)?;
    for (key, count) in &storages {
        out.write_all(&(*count as i64).to_ne_bytes())?;
        bytes(key, out)?;
    }
    Ok(())
}
