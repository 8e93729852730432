//! Modules in files: state dicts saved and loaded by the file's ending.

use crate::module::Module;
use crate::module::state_dict::{IncompatibleKeys, StateDict};
use crate::parameter::Parameter;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Tensor};
use flambeau_serialization::tensors::{
    LoadOptions, load_safetensors, load_sharded, load_with, save, save_safetensors,
};
use flambeau_serialization::{ToTree, Tree};
use std::collections::HashMap;
use std::path::Path;

impl ToTree for Parameter {
    /// A `torch.nn.Parameter`; a leaf that was taken as it is stays a tensor.
    fn to_tree(&self) -> Tree<Tensor> {
        Tree::Tensor(self.tensor().clone())
    }
}

/// Whether two tensors are the same elements.
fn same(a: &Tensor, b: &Tensor) -> bool {
    a.storage().same(b.storage())
        && a.storage_offset() == b.storage_offset()
        && a.sizes() == b.sizes()
        && a.strides() == b.strides()
        && a.dtype() == b.dtype()
}

/// Writes the state dict of a module: as safetensors if the path ends so, as a PyTorch checkpoint otherwise. In
/// safetensors a tied weight is written under its first name, and the metadata says which name stands for which.
///
/// # Errors
/// Of the file system; dtypes that safetensors lacks.
pub fn save_model(module: &impl Module, path: impl AsRef<Path>) -> Result<()> {
    let state = module.state_dict();
    let path = path.as_ref();
    if path.extension().is_none_or(|e| e != "safetensors") {
        return save(&state, path);
    }
    let mut metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let mut kept: Vec<(String, Tensor)> = Vec::new();
    for (name, t) in state {
        match kept.iter().find(|(_, k)| t.numel() > 0 && same(k, &t)) {
            Some((first, _)) => {
                metadata.insert(name, first.clone());
            }
            None => kept.push((name, t)),
        }
    }
    save_safetensors(kept, path, Some(&metadata))
}

/// Loads a file into a module: safetensors, the index of a checkpoint in several files (`*.index.json`) or a PyTorch
/// checkpoint, by the path's ending. A name that the file lacks is no lack if the module ties it to one that is there.
///
/// ```
/// use torch::serialization::{load_model, save_model};
/// use torch::nn::Linear;
/// use torch::prelude::*;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// let (a, b) = (Linear::new(3, 2), Linear::new(3, 2));
/// save_model(&a, &path)?;
/// load_model(&b, &path, true)?;
/// assert_eq!(a.state_dict().get("weight").unwrap().to_vec::<f32>(), b.state_dict().get("weight").unwrap().to_vec::<f32>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file; missing or unexpected names if strict, other sizes: PyTorch's report.
pub fn load_model(module: &impl Module, path: impl AsRef<Path>, strict: bool) -> Result<IncompatibleKeys> {
    let path = path.as_ref();
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let own = module.state_dict();
    let mut state = if name.ends_with(".safetensors") {
        load_safetensors(path)?.into()
    } else if name.ends_with(".index.json") {
        load_sharded(path, LoadOptions::new())?.into()
    } else {
        StateDict::from_tree(&load_with(path, LoadOptions::new().map_location("cpu"))?)?
    };
    for (name, t) in own.iter().filter(|(n, _)| state.get(n).is_none()).collect::<Vec<_>>() {
        let tied = own.iter().find(|(n, o)| *n != name && same(o, t) && state.get(n).is_some());
        if let Some(value) = tied.and_then(|(n, _)| state.get(n)).cloned() {
            state.insert(name, value);
        }
    }
    if strict {
        return module.load_state_dict(&state);
    }
    // what the file lacks stays as it is, and what the module lacks is left aside; other sizes are errors still
    let known: StateDict =
        own.iter().map(|(n, t)| (n.to_owned(), state.get(n).unwrap_or(t).clone())).collect();
    module.load_state_dict(&known)?;
    Ok(IncompatibleKeys {
        missing_keys: own.keys().filter(|n| state.get(n).is_none()).map(str::to_owned).collect(),
        unexpected_keys: state.keys().filter(|n| own.get(n).is_none()).map(str::to_owned).collect(),
    })
}
