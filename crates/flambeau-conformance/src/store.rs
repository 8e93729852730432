//! The tensors of a `.safetensors` file.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Tensor};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// One tensor of the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<i64>,
    from: usize,
    to: usize,
}

/// All tensors of a file.
#[derive(Clone, Default)]
pub struct Store {
    content: Arc<Content>,
    prefix: String,
}
#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    entries: HashMap<String, Entry>,
}

fn dtype(name: &str) -> Option<DType> {
    use DType::*;
    Some(match name {
        "BOOL" => Bool,
        "U8" => U8,
        "I8" => I8,
        "I16" => I16,
        "U16" => U16,
        "I32" => I32,
        "U32" => U32,
        "I64" => I64,
        "U64" => U64,
        "F16" => F16,
        "BF16" => BF16,
        "F32" => F32,
        "F64" => F64,
        "C64" => C64,
        "F8_E4M3" => F8E4M3,
        "F8_E5M2" => F8E5M2,
        _ => return None,
    })
}

impl Store {
    /// Reads a file; an absent one holds nothing.
    ///
    /// # Errors
    /// When the file is not well-formed.
    pub fn open(path: &Path) -> Result<Store, String> {
        let bytes = match std::fs::read(path) {
            Ok(b) => b,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Store::default()),
            Err(e) => return Err(format!("{}: {e}", path.display())),
        };
        Store::parse(bytes).map_err(|e| format!("{}: {e}", path.display()))
    }
    fn parse(bytes: Vec<u8>) -> Result<Store, String> {
        let short = || "file too short".to_string();
        let head = bytes.first_chunk::<8>().ok_or_else(short)?;
        let start = 8 + u64::from_le_bytes(*head) as usize;
        let text = bytes.get(8..start).ok_or_else(short)?;
        let header: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(|e| e.to_string())?;
        let mut entries = HashMap::new();
        for (name, v) in header {
            if name == "__metadata__" {
                continue;
            }
            let ints = |k: &str| -> Vec<i64> {
                v[k].as_array()
                    .map(|l| l.iter().filter_map(serde_json::Value::as_i64).collect())
                    .unwrap_or_default()
            };
            let d = v["dtype"].as_str().unwrap_or("");
            let dtype = dtype(d).ok_or_else(|| format!("{name}: dtype {d}"))?;
            let [from, to] = ints("data_offsets")[..] else { return Err(format!("{name}: data_offsets")) };
            let shape = ints("shape");
            let (from, to) = (start + from as usize, start + to as usize);
            if to > bytes.len() || to - from != shape.iter().product::<i64>() as usize * dtype.size() {
                return Err(format!("{name}: data_offsets do not fit"));
            }
            entries.insert(name, Entry { dtype, shape, from, to });
        }
        Ok(Store { content: Arc::new(Content { bytes, entries }), prefix: String::new() })
    }
    /// The same tensors by the part of their names after a prefix.
    pub fn within(&self, prefix: &str) -> Store {
        Store { content: self.content.clone(), prefix: format!("{}{prefix}", self.prefix) }
    }
    /// Type, sizes and bytes of a tensor.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn get(&self, key: &str) -> Result<(&Entry, &[u8]), String> {
        let c = &*self.content;
        let e = c
            .entries
            .get(&format!("{}{key}", self.prefix))
            .ok_or_else(|| format!("no tensor {key} in the file"))?;
        Ok((e, &c.bytes[e.from..e.to]))
    }
}

/// A tensor of these elements, given as bytes.
///
/// # Errors
/// Out of memory.
pub fn tensor_of_bytes(dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<Tensor, String> {
    let t = Tensor::empty_raw(shape, dtype, Device::Cpu).map_err(|e| e.to_string())?;
    t.storage().with_bytes_mut(|b| b[..bytes.len()].copy_from_slice(bytes)).map_err(|e| e.to_string())?;
    Ok(t)
}
