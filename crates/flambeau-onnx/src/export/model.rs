//! ONNX models in memory, and their files.

use super::optimize;
use crate::diagnostics::DiagnosticContext;
use crate::proto::{ModelProto, StringStringEntryProto, TensorProto, ValueInfoProto};
use crate::types::{bytes, dims, element_type, tensor_proto};
use flambeau_core::{Error, Result, Tensor};
use prost::Message as _;
use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// What one message may hold: protobuf counts bytes in 31 bits.
const LARGEST: u64 = 2_000_000_000;
/// Smaller tensors stay in the model's own file.
const SMALL: usize = 1024;
/// Where tensors begin in the file beside the model: pages, so that they can be mapped.
const PAGE: u64 = 4096;

/// Keywords of [`ONNXProgram::save_with`].
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions {
    external_data: Option<bool>,
    include_initializers: bool,
    keep_initializers_as_inputs: Option<bool>,
}
impl Default for SaveOptions {
    fn default() -> SaveOptions {
        SaveOptions { external_data: None, include_initializers: true, keep_initializers_as_inputs: None }
    }
}
impl SaveOptions {
    /// The defaults.
    pub fn new() -> SaveOptions {
        SaveOptions::default()
    }
    /// Whether weights go to a file of their own beside the model, `NAME.onnx.data`. Default: if the model is larger than what
    /// one file can hold, 2 GB.
    pub fn external_data(mut self, on: bool) -> SaveOptions {
        self.external_data = Some(on);
        self
    }
    /// Whether weights are in the file; without them they are inputs. Default: true.
    pub fn include_initializers(mut self, on: bool) -> SaveOptions {
        self.include_initializers = on;
        self
    }
    /// Whether weights are inputs too, with the file's values as defaults. Default: as it was exported.
    pub fn keep_initializers_as_inputs(mut self, on: bool) -> SaveOptions {
        self.keep_initializers_as_inputs = Some(on);
        self
    }
}

/// An ONNX model that an export made.
///
/// ```
/// use torch::onnx::{self, ONNXProgram};
/// use torch::{Tensor, export, nn, prelude::*};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.onnx");
/// let net = nn::Linear::new(2, 3);
/// let program = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// let model: ONNXProgram = onnx::export(&program);
/// assert_eq!((model.input_names().len(), model.output_names().len()), (1, 1));
/// model.save(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "torch.onnx.ONNXProgram")]
#[derive(Clone, Debug)]
pub struct ONNXProgram {
    /// The model without weights.
    model: ModelProto,
    initializers: Vec<(String, Tensor)>,
    /// Those that are the program's weights.
    weights: HashSet<String>,
    report: DiagnosticContext,
    in_file: bool,
    also_inputs: bool,
}
impl ONNXProgram {
    pub(super) fn new(
        model: ModelProto,
        initializers: Vec<(String, Tensor)>,
        weights: Vec<String>,
        report: DiagnosticContext,
    ) -> ONNXProgram {
        let weights = weights.into_iter().collect();
        ONNXProgram { model, initializers, weights, report, in_file: true, also_inputs: false }
    }
    pub(super) fn place_weights(&mut self, in_file: bool, also_inputs: bool) -> Result<()> {
        (self.in_file, self.also_inputs) = (in_file, also_inputs);
        Ok(())
    }
    /// Names of the inputs.
    pub fn input_names(&self) -> Vec<&str> {
        self.names(|g| &g.input)
    }
    /// Names of the outputs.
    pub fn output_names(&self) -> Vec<&str> {
        self.names(|g| &g.output)
    }
    fn names(&self, of: fn(&crate::proto::GraphProto) -> &Vec<ValueInfoProto>) -> Vec<&str> {
        let all = self.model.graph.as_ref().map(of);
        all.into_iter().flatten().filter_map(|v| v.name.as_deref()).collect()
    }
    /// The operators of the model's graphs, sorted, each once.
    pub fn operators(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(g) = &self.model.graph {
            optimize::each_node(g, &mut |n| all.extend(n.op_type.clone()));
        }
        all.sort();
        all.dedup();
        all
    }
    /// Weights and constants by name.
    pub fn initializers(&self) -> &[(String, Tensor)] {
        &self.initializers
    }
    /// What the export reported.
    pub fn report(&self) -> &DiagnosticContext {
        &self.report
    }
    /// The whole model as a message.
    ///
    /// # Errors
    /// A model that is too large for one message: [`save`](ONNXProgram::save) writes it to two files.
    pub fn model_proto(&self) -> Result<ModelProto> {
        self.message(self.in_file, self.also_inputs, None)
    }
    fn size(&self) -> u64 {
        self.initializers.iter().map(|(_, t)| t.numel().unsigned_abs() * t.dtype().size() as u64).sum()
    }
    fn message(
        &self,
        in_file: bool,
        also_inputs: bool,
        places: Option<&HashMap<String, (u64, u64, String)>>,
    ) -> Result<ModelProto> {
        if places.is_none() && self.size() > LARGEST {
            return Err(Error::runtime(format!(
                "the model has {} bytes of weights, more than one message can hold: save it with external data",
                self.size()
            )));
        }
        let mut model = self.model.clone();
        let Some(g) = &mut model.graph else { return Ok(model) };
        for (name, t) in &self.initializers {
            let weight = self.weights.contains(name);
            if weight && (also_inputs || !in_file) {
                let shape: Vec<Option<i64>> = t.sizes().iter().map(|n| Some(*n)).collect();
                g.input.push(crate::build::plain_info(name, t.dtype(), &shape)?);
            }
            if weight && !in_file {
                continue;
            }
            g.initializer.push(match places.and_then(|p| p.get(name)) {
                None => tensor_proto(name, t)?,
                Some((offset, length, file)) => {
                    let entry =
                        |k: &str, v: String| StringStringEntryProto { key: Some(k.into()), value: Some(v) };
                    TensorProto {
                        dims: dims(t),
                        data_type: Some(element_type(t.dtype())?),
                        name: Some(name.clone()),
                        data_location: Some(1),
                        external_data: vec![
                            entry("location", file.clone()),
                            entry("offset", offset.to_string()),
                            entry("length", length.to_string()),
                        ],
                        ..Default::default()
                    }
                }
            });
        }
        Ok(model)
    }
    /// Writes the model to a file; weights go to a second one, `NAME.onnx.data`, where one file cannot hold them.
    ///
    /// Files are replaced whole: a reader finds the old model or the new one.
    ///
    /// # Errors
    /// Of the file system.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_with(path, SaveOptions::new())
    }
    /// Writes the model to a file, with options.
    ///
    /// # Errors
    /// Of the file system; a model too large for one file with `external_data(false)`.
    pub fn save_with(&self, path: impl AsRef<Path>, options: SaveOptions) -> Result<()> {
        let path = path.as_ref();
        let in_file = self.in_file && options.include_initializers;
        let also_inputs = options.keep_initializers_as_inputs.unwrap_or(self.also_inputs);
        let external = in_file && options.external_data.unwrap_or(self.size() > LARGEST);
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let at = |e: std::io::Error| Error::from(e).at_path(path);
        let mut places = HashMap::new();
        if external {
            let Some(name) = path.file_name() else {
                return Err(Error::value(format!("{} names no file", path.display())));
            };
            let file = format!("{}.data", name.to_string_lossy());
            let temporary = tempfile::NamedTempFile::new_in(folder).map_err(at)?;
            let mut out = BufWriter::new(temporary);
            let mut offset = 0u64;
            for (name, t) in &self.initializers {
                if t.numel().unsigned_abs() as usize * t.dtype().size() < SMALL {
                    continue;
                }
                let data = bytes(t)?;
                let begin = offset.next_multiple_of(PAGE);
                out.write_all(&vec![0u8; (begin - offset) as usize]).map_err(at)?;
                out.write_all(&data).map_err(at)?;
                offset = begin + data.len() as u64;
                places.insert(name.clone(), (begin, data.len() as u64, file.clone()));
            }
            let temporary = out.into_inner().map_err(|e| at(e.into_error()))?;
            temporary.persist(folder.join(&file)).map_err(|e| at(e.error))?;
        }
        let model = self.message(in_file, also_inputs, external.then_some(&places))?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(at)?;
        temporary.write_all(&model.encode_to_vec()).map_err(at)?;
        temporary.persist(path).map_err(|e| at(e.error))?;
        Ok(())
    }
    /// Makes equal nodes one, and drops copies and what nobody needs.
    pub fn optimize(&mut self) {
        if let Some(g) = &mut self.model.graph {
            optimize::merge_equal(g);
            optimize::drop_copies(g);
            optimize::drop_dead(g);
        }
        self.drop_unused();
    }
    /// Drops constants that nobody uses.
    pub(super) fn drop_unused(&mut self) {
        let Some(g) = &mut self.model.graph else { return };
        let used = optimize::used(g);
        self.initializers.retain(|(n, _)| used.contains(n));
        self.weights.retain(|n| used.contains(n));
        let mut made: HashSet<String> = HashSet::new();
        g.node.iter().for_each(|n| made.extend(n.output.iter().cloned()));
        let outputs: HashSet<String> = g.output.iter().filter_map(|o| o.name.clone()).collect();
        g.value_info.retain(|v| v.name.as_ref().is_some_and(|n| made.contains(n) && !outputs.contains(n)));
    }
    /// Puts other values in place of weights, by name.
    ///
    /// # Errors
    /// Names that are no weights of the model, other sizes and element types.
    pub fn apply_weights(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        for (name, new) in state {
            let Some((_, old)) = self.initializers.iter_mut().find(|(n, _)| n == name) else {
                return Err(Error::value(format!("the model has no weight '{name}'")));
            };
            if old.sizes() != new.sizes() || old.dtype() != new.dtype() {
                return Err(Error::value(format!(
                    "weight '{name}' is {} {:?} in the model, not {} {:?}",
                    old.dtype().name(),
                    old.sizes(),
                    new.dtype().name(),
                    new.sizes()
                )));
            }
            *old = new.clone();
        }
        Ok(())
    }
}
