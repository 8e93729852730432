//! Exports programs.

mod control;
mod model;
mod optimize;
mod registry;
mod walk;

pub use model::{ONNXProgram, SaveOptions};
pub use registry::{Registry, supported_operators};

use crate::build::{Arg, Builder, Var};
use crate::diagnostics::{DiagnosticContext, of_fault};
use crate::proto::{
    GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto, TensorShapeProto, ValueInfoProto,
};
use crate::types::value_info;
use flambeau_core::{DType, Error, ErrorKind, Result};
use flambeau_export::graph_signature::{ArgumentSpec, InputKind, OutputKind};
use flambeau_export::{ExportedProgram, default_decompositions};
use flambeau_fx::{Op, Val};
use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use walk::{Walk, as_value};

/// Versions of ONNX's operators that are written.
const OPSETS: std::ops::RangeInclusive<i64> = 18..=23;

/// Keywords of [`export_with`].
#[derive(Clone, Debug)]
pub struct ExportOptions {
    pub(crate) opset_version: i64,
    pub(crate) input_names: Vec<String>,
    pub(crate) output_names: Vec<String>,
    pub(crate) dynamic_axes: Vec<(String, usize, String)>,
    pub(crate) custom_translation_table: Registry,
    pub(crate) custom_opsets: Vec<(String, i64)>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) optimize: bool,
    pub(crate) export_params: bool,
    pub(crate) keep_initializers_as_inputs: bool,
}
impl Default for ExportOptions {
    fn default() -> ExportOptions {
        ExportOptions {
            opset_version: 20,
            input_names: Vec::new(),
            output_names: Vec::new(),
            dynamic_axes: Vec::new(),
            custom_translation_table: Registry::new(),
            custom_opsets: Vec::new(),
            report: None,
            optimize: true,
            export_params: true,
            keep_initializers_as_inputs: false,
        }
    }
}
impl ExportOptions {
    /// The defaults.
    pub fn new() -> ExportOptions {
        ExportOptions::default()
    }
    /// The version of ONNX's operators, 18 to 23. Default: 20.
    pub fn opset_version(mut self, v: i64) -> ExportOptions {
        self.opset_version = v;
        self
    }
    /// Names of the inputs, in order, in place of the program's; the first ones if there are fewer.
    pub fn input_names(mut self, names: &[&str]) -> ExportOptions {
        self.input_names = names.iter().map(|n| n.to_string()).collect();
        self
    }
    /// Names of the outputs, in order, in place of the program's; the first ones if there are fewer.
    pub fn output_names(mut self, names: &[&str]) -> ExportOptions {
        self.output_names = names.iter().map(|n| n.to_string()).collect();
        self
    }
    /// Names of sizes that are not fixed, by the program's input and dimension: `[("x", 0, "batch")]`. The program must have been
    /// exported with that dimension dynamic.
    pub fn dynamic_axes(mut self, axes: &[(&str, usize, &str)]) -> ExportOptions {
        self.dynamic_axes = axes.iter().map(|(i, d, n)| (i.to_string(), *d, n.to_string())).collect();
        self
    }
    /// Translations of operators that come before the exporter's own.
    pub fn custom_translation_table(mut self, table: Registry) -> ExportOptions {
        self.custom_translation_table = table;
        self
    }
    /// Versions of further operator sets that translations use, by domain. Default: 1.
    pub fn custom_opsets(mut self, sets: &[(&str, i64)]) -> ExportOptions {
        self.custom_opsets = sets.iter().map(|(d, v)| (d.to_string(), *v)).collect();
        self
    }
    /// Where the report goes, in SARIF; it is written where the export fails too.
    pub fn report(mut self, path: impl AsRef<Path>) -> ExportOptions {
        self.report = Some(path.as_ref().to_path_buf());
        self
    }
    /// Whether equal nodes become one, and copies and what nobody needs go. Default: true.
    pub fn optimize(mut self, on: bool) -> ExportOptions {
        self.optimize = on;
        self
    }
    /// Whether weights are in the file; without them they are inputs. Default: true.
    pub fn export_params(mut self, on: bool) -> ExportOptions {
        self.export_params = on;
        self
    }
    /// Whether weights are inputs too, with the file's values as defaults. Default: false.
    pub fn keep_initializers_as_inputs(mut self, on: bool) -> ExportOptions {
        self.keep_initializers_as_inputs = on;
        self
    }
}

/// Writes an exported program as an ONNX model.
///
/// Inputs and outputs are the tensors of the program's arguments and result, flat, in order; numbers that the program was
/// exported with are constants, and have no input. Values have the program's names, weights those of its parameters.
/// Values that a program writes to buffers are computed, but do not come out.
///
/// Operators without a translation become their parts where these are known, as in
/// [`run_decompositions`](ExportedProgram::run_decompositions): PyTorch's exporter writes all programs in parts.
///
/// Only what the program computed while it was exported is in the model: branches on data are there if they are
/// `torch.cond`, loops if they are `while_loop`, `scan` or `map`.
///
/// ```
/// use torch::{Tensor, export, nn, onnx, prelude::*};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.onnx");
/// let net = nn::Linear::new(2, 3);
/// let program = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// onnx::export(&program).save(&path)?;
/// assert!(path.is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Operators without a translation (the text says which, where, and how to register one), operator sets outside 18 to 23,
/// names of inputs that are not there, element types that ONNX has not.
#[flambeau_macros::short(with)]
#[doc(alias = "torch.onnx")]
#[doc(alias = "torch.onnx.export")]
#[doc(alias = "torch.onnx.note:trace-based-limitations")]
#[doc(alias = "torch.onnx.op:BatchNorm")]
#[doc(alias = "torch.onnx.op:ConstantPadNd")]
#[doc(alias = "torch.onnx.op:Conv")]
#[doc(alias = "torch.onnx.op:Dropout")]
#[doc(alias = "torch.onnx.op:Embedding")]
#[doc(alias = "torch.onnx.op:FeatureDropout")]
#[doc(alias = "torch.onnx.op:Index")]
#[doc(alias = "torch.onnx.op:MaxPool1d")]
#[doc(alias = "torch.onnx.op:MaxPool2d")]
#[doc(alias = "torch.onnx.op:MaxPool3d")]
#[doc(alias = "torch.onnx.op:RNN")]
#[doc(alias = "torch.onnx.op:abs")]
#[doc(alias = "torch.onnx.op:acos")]
#[doc(alias = "torch.onnx.op:add")]
#[doc(alias = "torch.onnx.op:addmm")]
#[doc(alias = "torch.onnx.op:asin")]
#[doc(alias = "torch.onnx.op:atan")]
#[doc(alias = "torch.onnx.op:avg_pool2d")]
#[doc(alias = "torch.onnx.op:cat")]
#[doc(alias = "torch.onnx.op:clamp")]
#[doc(alias = "torch.onnx.op:concat")]
#[doc(alias = "torch.onnx.op:cos")]
#[doc(alias = "torch.onnx.op:div")]
#[doc(alias = "torch.onnx.op:elu")]
#[doc(alias = "torch.onnx.op:eq")]
#[doc(alias = "torch.onnx.op:exp")]
#[doc(alias = "torch.onnx.op:expand")]
#[doc(alias = "torch.onnx.op:ge")]
#[doc(alias = "torch.onnx.op:glu")]
#[doc(alias = "torch.onnx.op:gt")]
#[doc(alias = "torch.onnx.op:index_select")]
#[doc(alias = "torch.onnx.op:le")]
#[doc(alias = "torch.onnx.op:leaky_relu")]
#[doc(alias = "torch.onnx.op:log_softmax")]
#[doc(alias = "torch.onnx.op:lt")]
#[doc(alias = "torch.onnx.op:max")]
#[doc(alias = "torch.onnx.op:mean")]
#[doc(alias = "torch.onnx.op:min")]
#[doc(alias = "torch.onnx.op:mm")]
#[doc(alias = "torch.onnx.op:mul")]
#[doc(alias = "torch.onnx.op:neg")]
#[doc(alias = "torch.onnx.op:permute")]
#[doc(alias = "torch.onnx.op:pow")]
#[doc(alias = "torch.onnx.op:prelu")]
#[doc(alias = "torch.onnx.op:prod")]
#[doc(alias = "torch.onnx.op:sigmoid")]
#[doc(alias = "torch.onnx.op:sin")]
#[doc(alias = "torch.onnx.op:softmax")]
#[doc(alias = "torch.onnx.op:split")]
#[doc(alias = "torch.onnx.op:sqrt")]
#[doc(alias = "torch.onnx.op:squeeze")]
#[doc(alias = "torch.onnx.op:sub")]
#[doc(alias = "torch.onnx.op:sum")]
#[doc(alias = "torch.onnx.op:t")]
#[doc(alias = "torch.onnx.op:tan")]
#[doc(alias = "torch.onnx.op:tanh")]
#[doc(alias = "torch.onnx.op:threshold")]
#[doc(alias = "torch.onnx.op:transpose")]
#[doc(alias = "torch.onnx.op:unfold")]
#[doc(alias = "torch.onnx.op:view")]
pub fn try_export(program: &ExportedProgram, options: ExportOptions) -> Result<ONNXProgram> {
    if !OPSETS.contains(&options.opset_version) {
        return Err(Error::value(format!(
            "operator set {} is not written: {} to {} are",
            options.opset_version,
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    // operators without a translation become their parts, where these are known
    let mut opened: Vec<String> = Vec::new();
    let mut parts: Option<ExportedProgram> = None;
    loop {
        let program = parts.as_ref().unwrap_or(program);
        let (made, stuck) = write(program, &options);
        match (made, stuck) {
            (Err(e), Some(operator)) if e.kind() == ErrorKind::Missing && !opened.contains(&operator) => {
                opened.push(operator);
                match in_parts(program, &opened) {
                    Some(p) => parts = Some(p),
                    None => return Err(e),
                }
            }
            (made, _) => return made,
        }
    }
}
/// The program with these operators as their parts; none where they have none.
fn in_parts(program: &ExportedProgram, operators: &[String]) -> Option<ExportedProgram> {
    let mut table = default_decompositions();
    if !operators.iter().all(|o| table.contains(o)) {
        return None;
    }
    for other in table.materialize().iter().filter(|o| !operators.contains(o)) {
        table.remove(other);
    }
    program.run_decompositions(&table).ok()
}
/// The program as it is, and the operator that had no translation.
fn write(program: &ExportedProgram, options: &ExportOptions) -> (Result<ONNXProgram>, Option<String>) {
    let mut walk = Walk::new(options.opset_version, &options.custom_translation_table);
    let made = written(program, options, &mut walk);
    (made, walk.stuck)
}
fn written(program: &ExportedProgram, options: &ExportOptions, walk: &mut Walk) -> Result<ONNXProgram> {
    let mut report = DiagnosticContext::new("torch.onnx.export", env!("CARGO_PKG_VERSION"));
    let made = graph(program, options, walk);
    for (fault, what) in &walk.b.faults {
        let mut d = of_fault(*fault, what);
        if let Some((_, trace)) = walk.b.origin.iter().find(|(k, _)| k == "pkg.torch.onnx.stack_trace") {
            d.record_python_call_stack(trace, 0);
        }
        report.diagnose(d);
    }
    if let Some(path) = &options.report {
        write_report(path, &report)?;
    }
    let (graph, weights) = made?;
    let Builder { opset, domains, initializers, .. } = std::mem::replace(&mut walk.b, Builder::new(0));
    let mut opset_import = vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(opset) }];
    for (domain, default) in domains {
        let version = options.custom_opsets.iter().find(|(d, _)| *d == domain).map_or(default, |(_, v)| *v);
        opset_import.push(OperatorSetIdProto { domain: Some(domain), version: Some(version) });
    }
    let model = ModelProto {
        ir_version: Some(10),
        producer_name: Some("flambeau".into()),
        producer_version: Some(env!("CARGO_PKG_VERSION").into()),
        graph: Some(graph),
        opset_import,
        ..Default::default()
    };
    let mut out = ONNXProgram::new(model, initializers, weights, report);
    if options.optimize {
        out.optimize();
    } else {
        out.drop_unused();
    }
    out.place_weights(options.export_params, options.keep_initializers_as_inputs)?;
    Ok(out)
}
fn write_report(path: &Path, report: &DiagnosticContext) -> Result<()> {
    let at = |e: std::io::Error| Error::from(e).at_path(path);
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let mut out = tempfile::NamedTempFile::new_in(folder).map_err(at)?;
    out.write_all(report.sarif_log().as_bytes()).map_err(at)?;
    out.persist(path).map_err(|e| at(e.error))?;
    Ok(())
}
/// New names of symbols, by `dynamic_axes`.
fn renamed(program: &ExportedProgram, options: &ExportOptions) -> Result<HashMap<String, String>> {
    let g = &program.graph_module.graph;
    let mut names = HashMap::new();
    for (input, d, name) in &options.dynamic_axes {
        let node = g.find_nodes(Op::Placeholder, Some(input)).first().copied();
        let user = program.graph_signature.user_inputs().contains(&input.as_str());
        let Some(node) = node.filter(|_| user) else {
            return Err(Error::value(format!("dynamic_axes: the program has no input '{input}'")));
        };
        let Some(Val::Tensor(t)) = &g.node(node).meta.val else {
            return Err(Error::value(format!("dynamic_axes: '{input}' is no tensor")));
        };
        match t.shape.get(*d) {
            None => {
                return Err(Error::index(format!(
                    "dynamic_axes: '{input}' has {} dimensions, not dimension {d}",
                    t.shape.len()
                )));
            }
            Some(flambeau_fx::symbolic::Expr::Int(n)) => {
                return Err(Error::value(format!(
                    "dynamic_axes: dimension {d} of '{input}' is {n} in the program: export it with that dimension dynamic"
                )));
            }
            Some(e) => {
                names.insert(e.to_string(), name.clone());
            }
        }
    }
    Ok(names)
}
/// The program's graph, and the names of its weights in the order of the signature.
fn graph(
    program: &ExportedProgram,
    options: &ExportOptions,
    walk: &mut Walk,
) -> Result<(GraphProto, Vec<String>)> {
    let symbols = renamed(program, options)?;
    let rename = |s: &str| symbols.get(s).cloned().unwrap_or_else(|| s.to_string());
    let m = &program.graph_module;
    let placeholders = m.graph.find_nodes(Op::Placeholder, None);
    let specs = &program.graph_signature.input_specs;
    if placeholders.len() != specs.len() {
        return Err(Error::serialization(format!(
            "{} inputs in the graph, {} in the signature",
            placeholders.len(),
            specs.len()
        )));
    }
    // the caller's names first: weights make room
    let mut inputs: Vec<ValueInfoProto> = Vec::new();
    let mut given: Vec<Arg> = vec![Arg::None; specs.len()];
    let mut wishes = options.input_names.iter();
    for (i, (n, s)) in placeholders.iter().zip(specs).enumerate() {
        let d = m.graph.node(*n);
        if s.kind != InputKind::UserInput {
            continue;
        }
        if let ArgumentSpec::Constant(_, v) = &s.arg {
            given[i] = constant(v);
            continue;
        }
        let (dtype, shape, number) = match &d.meta.val {
            Some(Val::Tensor(t)) => (t.dtype, t.shape.clone(), false),
            Some(Val::Sym(_)) => match &s.arg {
                ArgumentSpec::SymFloat(_) => (DType::F64, Vec::new(), true),
                ArgumentSpec::SymBool(_) => (DType::Bool, Vec::new(), true),
                _ => (DType::I64, Vec::new(), true),
            },
            _ => {
                return Err(Error::missing(format!("input '{}', of which the program says no type", d.name)));
            }
        };
        let wish = wishes.next().map_or(d.name.as_str(), String::as_str);
        let name = walk.b.unique(wish);
        inputs.push(value_info(&name, dtype, &shape, &rename)?);
        let known = shape
            .iter()
            .map(|e| match e {
                flambeau_fx::symbolic::Expr::Int(n) => Some(*n),
                _ => None,
            })
            .collect();
        let mut v = Var::new(name, dtype, known);
        v.number = number;
        given[i] = Arg::Var(v);
    }
    if wishes.next().is_some() {
        return Err(Error::value(format!(
            "{} input_names for {} inputs",
            options.input_names.len(),
            inputs.len()
        )));
    }
    let mut weights = Vec::new();
    let mut same: HashMap<&str, Arg> = HashMap::new();
    for (i, s) in specs.iter().enumerate() {
        let Some(target) = s.target.as_deref().filter(|_| s.kind != InputKind::UserInput) else { continue };
        if s.kind == InputKind::CustomObj {
            return Err(Error::missing(format!(
                "'{target}' is an object of a class, of which ONNX has none"
            )));
        }
        if let Some(known) = same.get(target) {
            given[i] = known.clone();
            continue;
        }
        let Some(t) = program.tensor(target) else {
            return Err(Error::serialization(format!("the program has no tensor '{target}'")));
        };
        let v = walk.b.weight(target, t)?;
        weights.push(v.name.clone());
        given[i] = Arg::Var(v);
        same.insert(target, given[i].clone());
    }
    let results = walk.run(m, &given)?;
    let outputs = outputs(program, options, walk, &results, &rename)?;
    let scope = walk.b.scopes.pop().unwrap_or_default();
    let mut value_info = scope.value_info;
    for v in &mut value_info {
        let tensor = v.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
        let shape: Option<&mut TensorShapeProto> = tensor.and_then(|t| t.shape.as_mut());
        for d in shape.into_iter().flat_map(|s| &mut s.dim) {
            d.dim_param = d.dim_param.take().map(|s| rename(&s));
        }
    }
    let note = |k: &str, v: String| StringStringEntryProto { key: Some(k.into()), value: Some(v) };
    let notes = vec![note("pkg.torch.export.ExportedProgram.range_constraints", program.ranges_text())];
    let graph = GraphProto {
        node: scope.nodes,
        name: Some("main_graph".into()),
        input: inputs,
        output: outputs,
        value_info,
        metadata_props: notes,
        ..Default::default()
    };
    Ok((graph, weights))
}
/// A constant of the caller's.
fn constant(v: &flambeau_core::Value) -> Arg {
    use flambeau_core::Value;
    match v {
        Value::Int(n) => Arg::Int(*n),
        Value::Float(x) => Arg::Float(*x),
        Value::Bool(b) => Arg::Bool(*b),
        Value::Str(s) => Arg::Str(s.clone()),
        Value::DType(d) => Arg::DType(*d),
        _ => Arg::None,
    }
}
/// What the caller gets: tensors and numbers, each under a name of its own.
fn outputs(
    program: &ExportedProgram,
    options: &ExportOptions,
    walk: &mut Walk,
    results: &[Arg],
    rename: &dyn Fn(&str) -> String,
) -> Result<Vec<ValueInfoProto>> {
    let specs = &program.graph_signature.output_specs;
    if results.len() != specs.len() {
        return Err(Error::serialization(format!(
            "{} outputs in the graph, {} in the signature",
            results.len(),
            specs.len()
        )));
    }
    let g = &program.graph_module.graph;
    let mut wishes = options.output_names.iter();
    let mut taken: HashSet<String> = HashSet::new();
    let mut out = Vec::new();
    for (a, s) in results.iter().zip(specs) {
        let user = matches!(
            s.kind,
            OutputKind::UserOutput
                | OutputKind::LossOutput
                | OutputKind::GradientToParameter
                | OutputKind::GradientToUserInput
        );
        if !user || matches!(s.arg, ArgumentSpec::Constant(..)) {
            continue;
        }
        let Some(mut v) = as_value(&mut walk.b, a)? else { continue };
        if v.number && v.dtype == DType::F64 {
            // Python's floats come out as tensors do
            v = walk.b.cast(&v, DType::F32)?;
        }
        let wish = wishes.next();
        let own = walk.b.is_made_here(&v) && !taken.contains(&v.name);
        let mut v = if own && (wish.is_none() || wish.is_some_and(|w| *w == v.name)) {
            v
        } else {
            let mut copy = walk.b.identity(&v)?;
            copy.number = v.number;
            copy
        };
        match wish {
            Some(w) if *w != v.name => walk.b.rename(&mut v, w),
            _ => walk.b.rename(&mut v, s.arg.name()),
        }
        taken.insert(v.name.clone());
        let meta = g.named(s.arg.name()).and_then(|n| g.node(n).meta.val.clone());
        out.push(match meta {
            Some(Val::Tensor(t)) if t.shape.len() == v.rank() && t.dtype == v.dtype => {
                value_info(&v.name, v.dtype, &t.shape, rename)?
            }
            _ => crate::build::plain_info(&v.name, v.dtype, &v.shape)?,
        });
    }
    if wishes.next().is_some() {
        return Err(Error::value(format!(
            "{} output_names for {} outputs",
            options.output_names.len(),
            out.len()
        )));
    }
    Ok(out)
}
