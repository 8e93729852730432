//! Checkpoints in several files with an index, as model hubs keep large ones.

use super::lazy::read_safetensors;
use super::load::read_path;
use super::{LoadOptions, NamedTensors, open, save_safetensors};
use crate::container::atomic_write;
use crate::tensors::outward;
use flambeau_core::{Error, Result, Tensor};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::path::{Component, Path};

/// Longest index that is read.
const MAX_INDEX: u64 = 1 << 28;

/// Writes named tensors as safetensors files of at most `max_shard_size` bytes of data each (a larger tensor has a
/// file of its own), and the index `STEM.safetensors.index.json`; a single file gets no index. Gives the files'
/// names. Each file appears complete or not at all, the index last.
///
/// # Errors
/// Of the file system; dtypes that the format lacks; repeated names.
pub fn save_sharded<S: AsRef<str>>(
    tensors: impl IntoIterator<Item = (S, Tensor)>,
    folder: impl AsRef<Path>,
    stem: &str,
    max_shard_size: usize,
    metadata: Option<&HashMap<String, String>>,
) -> Result<Vec<String>> {
    let folder = folder.as_ref();
    let mut shards: Vec<Vec<(String, Tensor)>> = vec![Vec::new()];
    let (mut total, mut filled) = (0usize, 0usize);
    for (name, t) in tensors {
        let bytes = usize::try_from(t.numel()).unwrap_or(0).saturating_mul(t.dtype().size());
        if filled > 0 && filled.saturating_add(bytes) > max_shard_size {
            shards.push(Vec::new());
            filled = 0;
        }
        filled = filled.saturating_add(bytes);
        total = total.saturating_add(bytes);
        if let Some(last) = shards.last_mut() {
            last.push((name.as_ref().to_owned(), t));
        }
    }
    let count = shards.len();
    if count == 1 {
        let file = format!("{stem}.safetensors");
        save_safetensors(shards.remove(0), folder.join(&file), metadata)?;
        return Ok(vec![file]);
    }
    let mut weights = Map::new();
    let mut files = Vec::new();
    for (i, shard) in shards.into_iter().enumerate() {
        let file = format!("{stem}-{:05}-of-{count:05}.safetensors", i + 1);
        for (name, _) in &shard {
            if weights.insert(name.clone(), json!(file)).is_some() {
                return Err(Error::unsupported(format!("safetensors: two tensors are named {name}")));
            }
        }
        save_safetensors(shard, folder.join(&file), metadata)?;
        files.push(file);
    }
    let index = json!({ "metadata": { "total_size": total }, "weight_map": weights });
    let text = serde_json::to_string_pretty(&index).map_err(|e| Error::serialization(e.to_string()))?;
    let path = folder.join(format!("{stem}.safetensors.index.json"));
    atomic_write(&path, |out| Ok(out.write_all(text.as_bytes())?)).map_err(outward)?;
    Ok(files)
}

/// Reads the tensors that an index names (`model.safetensors.index.json`, `pytorch_model.bin.index.json`), in the
/// order of the index. The files stand beside it.
///
/// ```
/// use torch::serialization::{LoadOptions, load_sharded, save_sharded};
/// # let dir = tempfile::tempdir()?;
/// # let folder = dir.path();
/// let tensors = [("weight", torch::ones([4])), ("bias", torch::zeros([2]))];
/// // at most 8 bytes a file
/// let files = save_sharded(tensors, folder, "model", 8, None)?;
/// assert_eq!(files.len(), 2);
/// let back = load_sharded(folder.join("model.safetensors.index.json"), LoadOptions::new())?;
/// assert_eq!(back["bias"].sizes(), &[2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// An index that is damaged or names files elsewhere; a tensor that its file does not have; as for
/// [`load`](super::load) and [`load_safetensors`](super::load_safetensors).
pub fn load_sharded(index: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<NamedTensors> {
    let path = index.as_ref();
    let bad = |what: &str| Error::serialization(format!("{}: {what}", path.display()));
    let mut text = Vec::new();
    open(path)?.take(MAX_INDEX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_INDEX {
        return Err(bad("the index is too long"));
    }
    let json: Value = serde_json::from_slice(&text).map_err(|e| bad(&e.to_string()))?;
    let weights = json.get("weight_map").and_then(Value::as_object);
    let weights = weights.ok_or_else(|| bad("the index has no weight_map"))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let (mut files, mut seen): (Vec<&str>, HashSet<&str>) = Default::default();
    let mut places: Vec<(&String, &str)> = Vec::new();
    for (name, file) in weights {
        let file = file.as_str().ok_or_else(|| bad("weight_map names something that is not a file"))?;
        // an index must not lead out of its folder
        let mut parts = Path::new(file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            return Err(bad(&format!("the file {file:?} is not in the index's folder")));
        }
        if seen.insert(file) {
            files.push(file);
        }
        places.push((name, file));
    }
    let mut tensors: HashMap<(&str, String), Tensor> = HashMap::new();
    for file in files {
        let path = folder.join(file);
        if file.ends_with(".safetensors") {
            let list = read_safetensors(&path, &options)?;
            tensors.extend(list.into_iter().map(|(n, t)| ((file, n), t)));
            continue;
        }
        let tree = read_path(&path, &options)?;
        let named = tree.named().filter_map(|(n, v)| Some(((file, n.to_owned()), v.as_tensor()?.clone())));
        tensors.extend(named);
    }
    let mut out = Vec::with_capacity(places.len());
    for (name, file) in places {
        let t = tensors.remove(&(file, name.clone()));
        out.push((name.clone(), t.ok_or_else(|| bad(&format!("{file} has no tensor {name}")))?));
    }
    Ok(out.into_iter().collect())
}

/// Reads the weights in a folder as model hubs lay them out, the first of these that is there: `model.safetensors`, its shards by
/// `model.safetensors.index.json`, `pytorch_model.bin`, its shards by `pytorch_model.bin.index.json`.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("flambeau-pretrained-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// use torch::serialization::{LoadOptions, load_pretrained, save_sharded};
/// let tensors = [("weight", torch::ones([4])), ("bias", torch::zeros([2]))];
/// // at most 8 bytes a file: two shards and an index
/// save_sharded(tensors, &folder, "model", 8, None).unwrap();
/// let weights = load_pretrained(&folder, LoadOptions::new()).unwrap();
/// assert_eq!(weights["weight"].to_vec::<f32>(), [1.0; 4]);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
///
/// # Errors
/// A folder with none of them; as for [`load_sharded`].
pub fn load_pretrained(folder: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<NamedTensors> {
    let folder = folder.as_ref();
    let there = |file: &str| Some(folder.join(file)).filter(|p| p.is_file());
    if let Some(path) = there("model.safetensors") {
        return Ok(read_safetensors(&path, &options)?.into_iter().collect());
    }
    if let Some(path) = there("model.safetensors.index.json") {
        return load_sharded(path, options);
    }
    if let Some(path) = there("pytorch_model.bin") {
        let tree = read_path(&path, &options)?;
        return Ok(tree.named().filter_map(|(n, v)| Some((n.to_owned(), v.as_tensor()?.clone()))).collect());
    }
    if let Some(path) = there("pytorch_model.bin.index.json") {
        return load_sharded(path, options);
    }
    let e = Error::new(
        flambeau_core::ErrorKind::NotFound,
        "no model.safetensors, no pytorch_model.bin, and no index of either",
    );
    Err(e.at_path(folder))
}
