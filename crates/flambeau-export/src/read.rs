//! Reading `.pt2` archives.

use crate::graph_signature::{
    ArgumentSpec, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
};
use crate::program::{ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range};
use crate::specs::{self, Fields};
use flambeau_core::dispatch::object::{Object, ObjectRef};
use flambeau_core::settings::threads::get_num_threads;
use flambeau_core::tensor::storage::MappedFile;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Tensor, Value};
use flambeau_fx::symbolic::Expr;
use flambeau_fx::{Argument, Graph, GraphModule, Meta, Node, Op, TensorMeta, Val};
use flambeau_serialization::container::ZipFile;
use flambeau_serialization::tensors::{
    ExportedWeights, LoadOptions, exported_dtype, load_exported, load_exported_mapped, load_from,
};
use flambeau_serialization::torch_format::Tree;
use serde_json::Value as J;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// An operator as an argument.
pub(crate) struct Operator(pub String);
impl Object for Operator {
    fn type_name(&self) -> &'static str {
        "OpOverload"
    }
    fn repr(&self) -> String {
        self.0.clone()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Reads a program that `torch.export.save` wrote.
///
/// Nothing of the file is executed before the program is run.
///
/// ```
/// use torch::{Tensor, export, nn, prelude::*};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("net.pt2");
/// let (net, x) = (nn::Linear::new(2, 3), torch::ones([4, 2]));
/// export::save(&export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]), &path)?;
/// let program = export::load(&path)?;
/// assert!(program.module()?.try_forward(&[&x])?.equal(&net.call(&x)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; damaged files, and files of another kind: the text names the file and the node.
#[doc(alias = "torch.export.load")]
pub fn load(path: impl AsRef<Path>) -> Result<ExportedProgram> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let graph = || {
        let mut file = archive(std::fs::File::open(path).map_err(|e| bad(&name, &e))?, &name)?;
        let text = file.read(MODEL).map_err(|e| bad(&name, &e))?;
        Ok((parsed(&text, &name)?, file.read(EXAMPLE).ok()))
    };
    // the graph is read while the weights are
    let (weights, read) = together(|| load_exported(path, LoadOptions::new()), graph);
    let (program, example) = read?;
    Ok(whole(program, weights?, example))
}
/// [`load`] of a program whose weights are parts of a mapped file: no byte of them is read before it is used, and none is copied that
/// is not written, so a large program is there at once. Checksums of weights are not compared. Weights that are compressed, or
/// not aligned, are copied. A map serves one load, since no two storages may be the same bytes.
///
/// ```
/// use torch::serialization::{MapMode, MappedFile};
/// use torch::{Tensor, export, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let x = torch::ones([4, 2]);
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("net.pt2");
/// export::save(&export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]), &path)?;
/// // SAFETY: nobody writes to the file while its weights live.
/// let file = unsafe { MappedFile::open(&path, MapMode::Private)? };
/// let program = export::load_mapped(&file)?;
/// assert!(program.module()?.try_forward(&[&x])?.equal(&net.call(&x)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`load`]; a map that served a load before.
#[doc(alias = "torch.export.load")]
pub fn load_mapped(file: &MappedFile) -> Result<ExportedProgram> {
    let name = "the mapped file";
    let mut zip = archive(file.reader(), name)?;
    let text = zip.read(MODEL).map_err(|e| bad(name, &e))?;
    let example = zip.read(EXAMPLE).ok();
    drop(zip);
    let (weights, program) =
        together(|| load_exported_mapped(file, LoadOptions::new()), || parsed(&text, name));
    Ok(whole(program?, weights?, example))
}
const MODEL: &str = "models/model.json";
const EXAMPLE: &str = "data/sample_inputs/model.pt";

fn bad(file: &str, e: &dyn std::fmt::Display) -> Error {
    Error::serialization(format!("{file}: {e}"))
}
fn archive<'a>(reader: impl Read + Seek + 'a, name: &str) -> Result<ZipFile<'a>> {
    ZipFile::open_any(BufReader::new(reader)).map_err(|e| bad(name, &e))
}
fn parsed(text: &[u8], file: &str) -> Result<ExportedProgram> {
    let json: J = serde_json::from_slice(text).map_err(|e| bad(file, &format!("{MODEL}: {e}")))?;
    program(&json).map_err(|e| within(e, format!("{file}: {MODEL}")))
}
/// Both at the same time, where there are threads.
fn together<A, B: Send>(
    here: impl FnOnce() -> A,
    there: impl FnOnce() -> Result<B> + Send,
) -> (A, Result<B>) {
    if get_num_threads() == 1 {
        return (here(), there());
    }
    std::thread::scope(|s| {
        let other = s.spawn(there);
        let gone = |_| Err(Error::runtime("the thread that read the graph has panicked"));
        (here(), other.join().unwrap_or_else(gone))
    })
}
/// A program with what it needs besides its graph.
fn whole(
    mut program: ExportedProgram,
    weights: ExportedWeights,
    example: Option<Vec<u8>>,
) -> ExportedProgram {
    program.state_dict = weights.state_dict;
    program.constants = weights.constants;
    // what cannot be read of the example is left out: the program does not need it
    let example = example.and_then(|b| load_from(std::io::Cursor::new(b), LoadOptions::new()).ok());
    program.example_inputs = example.as_ref().and_then(|t| value(t, 0));
    program
}
/// A value of a checkpoint; none of what has no such value.
fn value(t: &Tree<Tensor>, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    let all = |l: &[Tree<Tensor>]| l.iter().map(|t| value(t, depth + 1)).collect::<Option<Vec<_>>>();
    Some(match t {
        Tree::None => Value::None,
        Tree::Bool(b) => Value::Bool(*b),
        Tree::Int(i) => Value::Int(*i),
        Tree::Float(x) => Value::Float(*x),
        Tree::Str(s) => Value::Str(s.clone()),
        Tree::Tensor(t) => Value::Tensor(t.clone()),
        Tree::List(l) => Value::List(all(l)?),
        Tree::Tuple(l) => Value::Tuple(all(l)?),
        Tree::Dict(d) => Value::Dict(
            d.iter()
                .map(|(k, v)| match k {
                    Tree::Str(k) => Some((k.clone(), value(v, depth + 1)?)),
                    _ => None,
                })
                .collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}
/// An error with the place where it was found before it.
fn within(e: Error, what: impl std::fmt::Display) -> Error {
    Error::new(e.kind(), format!("{what}: {}", e.message()))
}
fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::serialization(what))
}
fn text<'a>(j: &'a J, key: &str) -> Result<&'a str> {
    match j[key].as_str() {
        Some(s) => Ok(s),
        None => wrong(format!("no text '{key}' in {}", brief(j))),
    }
}
fn list<'a>(j: &'a J, key: &str) -> Result<&'a [J]> {
    match &j[key] {
        J::Array(l) => Ok(l),
        J::Null => Ok(&[]),
        other => wrong(format!("'{key}' is no list but {}", brief(other))),
    }
}
fn brief(j: &J) -> String {
    j.to_string().chars().take(80).collect()
}
/// The one key of a tagged value, and what it holds.
fn tagged(j: &J) -> Result<(&str, &J)> {
    match j.as_object().and_then(|m| if m.len() == 1 { m.iter().next() } else { None }) {
        Some((k, v)) => Ok((k, v)),
        None => wrong(format!("a tagged value was expected, not {}", brief(j))),
    }
}

fn program(j: &J) -> Result<ExportedProgram> {
    let major = j["schema_version"]["major"].as_i64();
    if major != Some(8) {
        return wrong(format!("schema version {} is not known; 8 is", j["schema_version"]));
    }
    let m = &j["graph_module"];
    let mut fields = Fields::new();
    for (class, f) in m["treespec_namedtuple_fields"].as_object().into_iter().flatten() {
        let names = list(f, "field_names")?.iter().filter_map(|n| n.as_str().map(str::to_string)).collect();
        fields.insert(class.clone(), names);
    }
    let signature = signature(&m["signature"])?;
    let graph_module = graph(&m["graph"], Some(&signature), 0)?;
    let mut symbols = HashSet::new();
    numbers(&m["graph"], &mut symbols)?;
    let mut range_constraints = Vec::new();
    for (name, r) in j["range_constraints"].as_object().into_iter().flatten() {
        // as PyTorch: what is no size, stride or number of the graph has no range
        if !symbols.contains(name.as_str()) {
            continue;
        }
        range_constraints
            .push((name.clone(), Range { min: r["min_val"].as_i64(), max: r["max_val"].as_i64() }));
    }
    let mut module_call_graph = Vec::new();
    for e in list(m, "module_call_graph")? {
        let s = &e["signature"];
        let signature = if s.is_null() {
            None
        } else {
            let (i, o) = (text(s, "in_spec")?, text(s, "out_spec")?);
            let names = s["forward_arg_names"].as_array();
            let all = |key: &str| list(s, key)?.iter().map(spec_argument).collect::<Result<Vec<_>>>();
            Some(ModuleCallSignature {
                inputs: all("inputs")?,
                outputs: all("outputs")?,
                in_spec: specs::parse(i, &fields)?,
                out_spec: specs::parse(o, &fields)?,
                forward_arg_names: names
                    .map(|l| l.iter().filter_map(|n| n.as_str().map(str::to_string)).collect()),
                texts: (i.to_string(), o.to_string()),
            })
        };
        module_call_graph.push(ModuleCallEntry { fqn: text(e, "fqn")?.to_string(), signature });
    }
    let guards_code = list(j, "guards_code")?.iter().filter_map(|g| g.as_str().map(str::to_string)).collect();
    Ok(ExportedProgram {
        graph_module,
        graph_signature: signature,
        state_dict: Vec::new(),
        constants: Vec::new(),
        range_constraints,
        module_call_graph,
        example_inputs: None,
        guards_code,
    })
}
fn constant(j: &J) -> Result<Value> {
    let (tag, v) = tagged(j)?;
    Ok(match (tag, v) {
        ("as_none", _) => Value::None,
        ("as_bool", J::Bool(b)) => Value::Bool(*b),
        ("as_int", J::Number(n)) if n.is_i64() => Value::Int(n.as_i64().unwrap_or(0)),
        ("as_float", _) => Value::Float(float(v)?),
        ("as_string", J::String(s)) => Value::Str(s.clone()),
        _ => return wrong(format!("a constant {}", brief(j))),
    })
}
fn float(j: &J) -> Result<f64> {
    match j {
        J::Number(n) => Ok(n.as_f64().unwrap_or(f64::NAN)),
        J::String(s) => match s.as_str() {
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            "NaN" => Ok(f64::NAN),
            _ => wrong(format!("'{s}' is no number")),
        },
        other => wrong(format!("{} is no number", brief(other))),
    }
}
/// The name of a number that the program finds out, or the number.
fn symbol(j: &J) -> Result<std::result::Result<String, Value>> {
    let (tag, v) = tagged(j)?;
    match (tag, v) {
        ("as_name", J::String(s)) => Ok(Ok(s.clone())),
        _ => constant(j).map(Err),
    }
}
fn spec_argument(j: &J) -> Result<ArgumentSpec> {
    let (tag, v) = tagged(j)?;
    let named = |make: fn(String) -> ArgumentSpec| match symbol(v)? {
        Ok(name) => Ok(make(name)),
        Err(c) => Ok(ArgumentSpec::Constant(String::new(), c)),
    };
    match tag {
        "as_tensor" => Ok(ArgumentSpec::Tensor(text(v, "name")?.into())),
        "as_token" => Ok(ArgumentSpec::Token(text(v, "name")?.into())),
        "as_custom_obj" => Ok(ArgumentSpec::CustomObj(text(v, "name")?.into(), text(v, "class_fqn")?.into())),
        "as_sym_int" => named(ArgumentSpec::SymInt),
        "as_sym_float" => named(ArgumentSpec::SymFloat),
        "as_sym_bool" => named(ArgumentSpec::SymBool),
        _ => constant(j).map(|c| ArgumentSpec::Constant(String::new(), c)),
    }
}
fn signature(j: &J) -> Result<ExportGraphSignature> {
    let mut out = ExportGraphSignature::default();
    for s in list(j, "input_specs")? {
        let (tag, v) = tagged(s)?;
        let tensor = || Ok::<_, Error>(ArgumentSpec::Tensor(text(&v["arg"], "name")?.into()));
        let named = |key: &str| Ok::<_, Error>(Some(text(v, key)?.to_string()));
        let (kind, arg, target, persistent) = match tag {
            "user_input" => (InputKind::UserInput, spec_argument(&v["arg"])?, None, None),
            "parameter" => (InputKind::Parameter, tensor()?, named("parameter_name")?, None),
            "buffer" => (InputKind::Buffer, tensor()?, named("buffer_name")?, v["persistent"].as_bool()),
            "tensor_constant" => (InputKind::ConstantTensor, tensor()?, named("tensor_constant_name")?, None),
            "constant_input" => {
                let arg = ArgumentSpec::Constant(text(v, "name")?.into(), constant(&v["value"])?);
                (InputKind::UserInput, arg, None, None)
            }
            "token" => (InputKind::Token, ArgumentSpec::Token(text(&v["arg"], "name")?.into()), None, None),
            other => return wrong(format!("an input of the kind '{other}'")),
        };
        out.input_specs.push(InputSpec { kind, arg, target, persistent });
    }
    for s in list(j, "output_specs")? {
        let (tag, v) = tagged(s)?;
        let tensor = || Ok::<_, Error>(ArgumentSpec::Tensor(text(&v["arg"], "name")?.into()));
        let named = |key: &str| Ok::<_, Error>(Some(text(v, key)?.to_string()));
        let (kind, arg, target) = match tag {
            "user_output" => (OutputKind::UserOutput, spec_argument(&v["arg"])?, None),
            "loss_output" => (OutputKind::LossOutput, tensor()?, None),
            "buffer_mutation" => (OutputKind::BufferMutation, tensor()?, named("buffer_name")?),
            "parameter_mutation" => (OutputKind::ParameterMutation, tensor()?, named("parameter_name")?),
            "gradient_to_parameter" => (OutputKind::GradientToParameter, tensor()?, named("parameter_name")?),
            "gradient_to_user_input" => {
                (OutputKind::GradientToUserInput, tensor()?, named("user_input_name")?)
            }
            "user_input_mutation" => (OutputKind::UserInputMutation, tensor()?, named("user_input_name")?),
            "token" => (OutputKind::Token, ArgumentSpec::Token(text(&v["arg"], "name")?.into()), None),
            other => return wrong(format!("an output of the kind '{other}'")),
        };
        out.output_specs.push(OutputSpec { kind, arg, target });
    }
    Ok(out)
}

/// An expression or a number.
fn expression(j: &J) -> Result<Expr> {
    let (tag, v) = tagged(j)?;
    match tag {
        "as_int" => v.as_i64().map(Expr::Int).map_or_else(|| wrong("a size that is no integer"), Ok),
        "as_float" => Ok(Expr::Float(float(v)?)),
        "as_bool" => Ok(Expr::Bool(v == &J::Bool(true))),
        "as_expr" => Expr::parse(text(v, "expr_str")?),
        other => wrong(format!("a number of the kind '{other}'")),
    }
}
fn device(j: &J) -> Result<Device> {
    let kind = text(j, "type")?;
    Device::parse(&match j["index"].as_i64() {
        Some(i) if kind != "cpu" => format!("{kind}:{i}"),
        _ => kind.to_string(),
    })
}
fn number(j: &J) -> i64 {
    j.as_i64().unwrap_or(-1)
}
fn dtype(j: &J) -> Result<DType> {
    exported_dtype(number(j)).map_or_else(|| wrong(format!("dtype number {}", brief(j))), Ok)
}
fn layout(j: &J) -> Result<Layout> {
    let name = match number(j) {
        1 => "sparse_coo",
        2 => "sparse_csr",
        3 => "sparse_csc",
        4 => "sparse_bsr",
        5 => "sparse_bsc",
        7 => "strided",
        _ => "",
    };
    Layout::from_name(name).map_or_else(|| wrong(format!("layout number {}", brief(j))), Ok)
}
fn memory_format(j: &J) -> Result<MemoryFormat> {
    Ok(match number(j) {
        1 => MemoryFormat::Contiguous,
        2 => MemoryFormat::ChannelsLast,
        3 => MemoryFormat::ChannelsLast3d,
        4 => MemoryFormat::Preserve,
        _ => return wrong(format!("memory format number {}", brief(j))),
    })
}
fn tensor_meta(j: &J) -> Result<Val> {
    let all = |key: &str| list(j, key)?.iter().map(expression).collect::<Result<Vec<_>>>();
    Ok(Val::Tensor(TensorMeta {
        dtype: dtype(&j["dtype"])?,
        shape: all("sizes")?,
        stride: all("strides")?,
        storage_offset: expression(&j["storage_offset"])?,
        requires_grad: j["requires_grad"] == J::Bool(true),
        device: device(&j["device"])?,
        layout: layout(&j["layout"])?,
        memory_format: None,
    }))
}

/// Graphs in graphs in a file are at most this deep.
const DEEPEST: usize = 30;

struct Reader {
    graph: Graph,
    nodes: HashMap<String, Node>,
    vals: HashMap<String, Val>,
    children: Vec<(String, GraphModule)>,
    depth: usize,
}
/// The texts of all expressions, and of their parts, that are sizes, strides or numbers of a graph or of those in it.
fn numbers(j: &J, all: &mut HashSet<String>) -> Result<()> {
    let mut open = vec![j];
    while let Some(j) = open.pop() {
        match j {
            J::Array(l) => open.extend(l),
            J::Object(o) => {
                if let Some(J::String(e)) = o.get("expr_str") {
                    let e = Expr::parse(e)?;
                    let mut parts = vec![&e];
                    while let Some(p) = parts.pop() {
                        all.insert(p.to_string());
                        parts.extend(p.parts());
                    }
                }
                open.extend(o.iter().filter(|(k, _)| *k != "storage_offset").map(|(_, v)| v));
            }
            _ => {}
        }
    }
    Ok(())
}
fn graph(j: &J, signature: Option<&ExportGraphSignature>, depth: usize) -> Result<GraphModule> {
    if depth > DEEPEST {
        return wrong("graphs that are nested too deeply");
    }
    let mut r = Reader {
        graph: Graph::new(),
        nodes: HashMap::new(),
        vals: HashMap::new(),
        children: Vec::new(),
        depth,
    };
    for (name, v) in j["tensor_values"].as_object().into_iter().flatten() {
        let v = tensor_meta(v).map_err(|e| within(e, format!("tensor '{name}'")))?;
        r.vals.insert(name.clone(), v);
    }
    for key in ["sym_int_values", "sym_float_values", "sym_bool_values"] {
        for (name, v) in j[key].as_object().into_iter().flatten() {
            let e = expression(v).map_err(|e| within(e, format!("number '{name}'")))?;
            if !matches!(e, Expr::Int(_) | Expr::Float(_) | Expr::Bool(_)) {
                r.vals.insert(name.clone(), Val::Sym(e.to_string()));
            }
        }
    }
    for (i, input) in list(j, "inputs")?.iter().enumerate() {
        r.input(i, input, signature).map_err(|e| within(e, format!("input {i}")))?;
    }
    for n in list(j, "nodes")? {
        let name = n["name"].as_str().or_else(|| n["target"].as_str()).unwrap_or("?");
        r.step(n).map_err(|e| within(e, format!("node '{name}'")))?;
    }
    let mut outputs = Vec::new();
    for (i, o) in list(j, "outputs")?.iter().enumerate() {
        outputs.push(r.argument(o).map_err(|e| within(e, format!("output {i}")))?);
    }
    let single = j["is_single_tensor_return"] == J::Bool(true);
    let result = match (&outputs[..], single) {
        ([one], true) => one.clone(),
        (_, true) => return wrong("one output was promised"),
        _ => Argument::Tuple(outputs),
    };
    r.graph.output(result);
    let mut m = GraphModule::new(r.graph);
    for (name, child) in r.children {
        m.set_graph(&name, child);
    }
    Ok(m)
}
impl Reader {
    fn add(
        &mut self,
        op: Op,
        target: &str,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
        name: &str,
    ) -> Result<Node> {
        let identifier = |s: &str| {
            !s.is_empty()
                && !s.starts_with(|c: char| c.is_ascii_digit())
                && s.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        if !identifier(name) {
            return wrong(format!("'{name}' is no name of a node"));
        }
        self.graph.create_named(op, target, args, kwargs, name)
    }
    fn know(&mut self, name: &str, n: Node) {
        if let Some(v) = self.vals.get(name) {
            self.graph.meta_mut(n).val = Some(v.clone());
        }
        self.nodes.insert(name.to_string(), n);
    }
    fn input(&mut self, i: usize, j: &J, signature: Option<&ExportGraphSignature>) -> Result<()> {
        let (tag, v) = tagged(j)?;
        let name = match tag {
            "as_tensor" | "as_custom_obj" | "as_token" => text(v, "name")?.to_string(),
            "as_sym_int" | "as_sym_float" | "as_sym_bool" => match symbol(v)? {
                Ok(name) => name,
                Err(_) => return wrong("a number as an input"),
            },
            _ => {
                constant(j)?;
                let named = signature.and_then(|s| s.input_specs.get(i)).map(|s| s.arg.name().to_string());
                named.filter(|n| !n.is_empty()).unwrap_or_else(|| format!("arg{i}"))
            }
        };
        let n = self.add(Op::Placeholder, &name, Vec::new(), Vec::new(), &name)?;
        self.know(&name, n);
        Ok(())
    }
    fn node(&self, name: &str) -> Result<Argument> {
        match self.nodes.get(name) {
            Some(n) => Ok(Argument::Node(*n)),
            None => wrong(format!("'{name}' is used before it is there")),
        }
    }
    fn symbol(&self, j: &J) -> Result<Argument> {
        match symbol(j)? {
            Ok(name) => self.node(&name),
            Err(v) => Ok(v.into()),
        }
    }
    fn argument(&mut self, j: &J) -> Result<Argument> {
        let (tag, v) = tagged(j)?;
        let items = || match v {
            J::Array(l) => Ok(l.as_slice()),
            _ => wrong(format!("'{tag}' holds no list")),
        };
        Ok(match tag {
            "as_tensor" | "as_custom_obj" | "as_token" => self.node(text(v, "name")?)?,
            "as_tensors" => {
                Argument::List(items()?.iter().map(|t| self.node(text(t, "name")?)).collect::<Result<_>>()?)
            }
            "as_nested_tensors" => {
                let one = |l: &J| match l {
                    J::Array(l) => Ok(Argument::List(
                        l.iter().map(|t| self.node(text(t, "name")?)).collect::<Result<_>>()?,
                    )),
                    _ => wrong("a list of lists of tensors was expected"),
                };
                Argument::List(items()?.iter().map(one).collect::<Result<_>>()?)
            }
            "as_optional_tensors" => {
                let one = |t: &J| match tagged(t)? {
                    ("as_tensor", v) => self.node(text(v, "name")?),
                    _ => Ok(Argument::NONE),
                };
                Argument::List(items()?.iter().map(one).collect::<Result<_>>()?)
            }
            "as_sym_int" | "as_sym_float" | "as_sym_bool" => self.symbol(v)?,
            "as_sym_ints" | "as_sym_floats" | "as_sym_bools" => {
                Argument::List(items()?.iter().map(|s| self.symbol(s)).collect::<Result<_>>()?)
            }
            "as_ints" => {
                let one = |n: &J| n.as_i64().map(Argument::from).map_or_else(|| wrong("no integer"), Ok);
                Argument::List(items()?.iter().map(one).collect::<Result<_>>()?)
            }
            "as_floats" => {
                Argument::List(items()?.iter().map(|n| float(n).map(Argument::from)).collect::<Result<_>>()?)
            }
            "as_bools" => {
                Argument::List(items()?.iter().map(|b| Argument::from(b == &J::Bool(true))).collect())
            }
            "as_strings" => {
                Argument::List(items()?.iter().map(|s| Argument::from(s.as_str().unwrap_or(""))).collect())
            }
            "as_scalar_type" => Argument::Value(Value::DType(dtype(v)?)),
            "as_memory_format" => Argument::Value(Value::MemoryFormat(memory_format(v)?)),
            "as_layout" => Argument::Value(Value::Layout(layout(v)?)),
            "as_device" => Argument::Value(Value::Device(device(v)?)),
            "as_complex" => {
                let part = |k: &str| float(&v[k]);
                Argument::Value(complex(part("real")?, part("imag")?))
            }
            "as_operator" => match v.as_str() {
                Some(s) => Argument::Value(Value::Object(ObjectRef::new(Operator(s.to_string())))),
                None => return wrong("an operator without a name"),
            },
            "as_string_to_argument" => {
                let mut all = Vec::new();
                for (k, v) in v.as_object().into_iter().flatten() {
                    all.push((k.clone(), self.argument(v)?));
                }
                Argument::Dict(all)
            }
            "as_graph" => {
                let name = text(v, "name")?;
                let child = graph(&v["graph"], None, self.depth + 1)
                    .map_err(|e| within(e, format!("graph '{name}'")))?;
                let n = self.add(Op::GetAttr, name, Vec::new(), Vec::new(), name)?;
                self.children.push((name.to_string(), child));
                Argument::Node(n)
            }
            _ => constant(j)?.into(),
        })
    }
    fn step(&mut self, j: &J) -> Result<()> {
        let target = text(j, "target")?;
        let target = match target.strip_prefix("_operator.") {
            Some(rest) => format!("operator.{rest}"),
            None => target.to_string(),
        };
        let meta = metadata(&j["metadata"]);
        let (mut args, mut kwargs) = (Vec::new(), Vec::new());
        for i in list(j, "inputs")? {
            let a = self.argument(&i["arg"])?;
            let name = i["name"].as_str().unwrap_or("");
            if i["kind"].as_i64() == Some(2) && !name.is_empty() {
                kwargs.push((name.to_string(), a));
            } else {
                args.push(a);
            }
        }
        // graphs as arguments have no notes of their own
        for a in &args {
            if let Argument::Node(n) = a
                && self.graph.node(*n).op == Op::GetAttr
            {
                *self.graph.meta_mut(*n) = meta.clone();
            }
        }
        let outputs = list(j, "outputs")?;
        let first = match outputs {
            [one] => Some(tagged(one)?),
            _ => None,
        };
        let own = |(tag, v): (&str, &J)| -> Option<String> {
            match tag {
                "as_tensor" => v["name"].as_str().map(str::to_string),
                "as_sym_int" | "as_sym_float" | "as_sym_bool" => v["as_name"].as_str().map(str::to_string),
                _ => None,
            }
        };
        let n = match (j["name"].as_str(), first.and_then(own)) {
            (Some(name), _) if !name.is_empty() => self.add(Op::CallFunction, &target, args, kwargs, name)?,
            (_, Some(name)) => self.add(Op::CallFunction, &target, args, kwargs, &name)?,
            _ => self.graph.create_node(Op::CallFunction, &target, args, kwargs, None),
        };
        *self.graph.meta_mut(n) = meta.clone();
        let higher = target.starts_with("torch.ops.higher_order.");
        match (outputs, first) {
            ([], _) => {}
            (_, Some((tag, v))) => match own((tag, v)) {
                Some(name) if higher && j["is_hop_single_tensor_return"] == J::Bool(false) => {
                    self.item(n, 0, &name, &meta)?;
                }
                Some(name) => self.know(&name, n),
                None if tag == "as_none" => {
                    let base = match target.strip_prefix("torch.ops.").and_then(|t| t.split_once('.')) {
                        Some((_, rest)) => rest,
                        None => target.rsplit('.').next().unwrap_or(&target),
                    };
                    let name = self.graph.create_name(&format!("{}_unused", base.to_lowercase()));
                    self.graph.rename(n, &name);
                }
                None => self.items(n, items_of(v)?, tag == "as_tensors", &meta)?,
            },
            (all, None) => self.items(n, all, false, &meta)?,
        }
        Ok(())
    }
    fn item(&mut self, of: Node, i: usize, name: &str, meta: &Meta) -> Result<()> {
        let args = vec![Argument::Node(of), Argument::from(i as i64)];
        let n = self.add(Op::CallFunction, "operator.getitem", args, Vec::new(), name)?;
        *self.graph.meta_mut(n) = meta.clone();
        self.know(name, n);
        Ok(())
    }
    /// Nodes for the parts of a result.
    fn items(&mut self, of: Node, all: &[J], plain: bool, meta: &Meta) -> Result<()> {
        for (i, o) in all.iter().enumerate() {
            if plain || o.get("name").is_some() {
                self.item(of, i, text(o, "name")?, meta)?;
                continue;
            }
            let (tag, v) = tagged(o)?;
            match tag {
                "as_tensor" => self.item(of, i, text(v, "name")?, meta)?,
                "as_name" => self.item(of, i, v.as_str().unwrap_or(""), meta)?,
                "as_sym_int" | "as_sym_float" | "as_sym_bool" => match symbol(v)? {
                    Ok(name) => self.item(of, i, &name, meta)?,
                    Err(_) => continue,
                },
                "as_none" => {
                    let args = vec![Argument::Node(of), Argument::from(i as i64)];
                    let n = self.graph.create_node(
                        Op::CallFunction,
                        "operator.getitem",
                        args,
                        Vec::new(),
                        Some("as_none"),
                    );
                    *self.graph.meta_mut(n) = meta.clone();
                }
                "as_int" | "as_float" | "as_bool" | "as_string" | "as_token" => {}
                _ => {
                    let args = vec![Argument::Node(of), Argument::from(i as i64)];
                    let n =
                        self.graph.create_node(Op::CallFunction, "operator.getitem", args, Vec::new(), None);
                    *self.graph.meta_mut(n) = meta.clone();
                    self.items(n, items_of(v)?, tag == "as_tensors", meta)?;
                }
            }
        }
        Ok(())
    }
}
fn items_of(j: &J) -> Result<&[J]> {
    match j {
        J::Array(l) => Ok(l),
        other => wrong(format!("an output {}", brief(other))),
    }
}
fn complex(re: f64, im: f64) -> Value {
    Value::Complex(num_complex::Complex::new(re, im))
}
fn metadata(j: &J) -> Meta {
    let mut m = Meta::default();
    for (k, v) in j.as_object().into_iter().flatten() {
        let Some(s) = v.as_str() else { continue };
        match k.as_str() {
            "stack_trace" => m.stack_trace = Some(s.to_string()),
            "nn_module_stack" => {
                for part in s.split(';') {
                    let mut p = part.splitn(3, ',').map(str::to_string);
                    if let (Some(a), Some(b), Some(c)) = (p.next(), p.next(), p.next()) {
                        m.nn_module_stack.push((a, b, c));
                    }
                }
            }
            "custom" => match serde_json::from_str(s) {
                Ok(J::Object(all)) => m.custom = all.iter().map(|(k, v)| (k.clone(), plain(v))).collect(),
                _ => m.notes.push((k.clone(), s.to_string())),
            },
            _ => m.notes.push((k.clone(), s.to_string())),
        }
    }
    m
}
/// A value without tensors.
fn plain(j: &J) -> Value {
    match j {
        J::Null => Value::None,
        J::Bool(b) => Value::Bool(*b),
        J::Number(n) => n.as_i64().map_or_else(|| Value::Float(n.as_f64().unwrap_or(f64::NAN)), Value::Int),
        J::String(s) => Value::Str(s.clone()),
        J::Array(l) => Value::List(l.iter().map(plain).collect()),
        J::Object(o) => Value::Dict(o.iter().map(|(k, v)| (k.clone(), plain(v))).collect()),
    }
}
