//! Exported programs.

use crate::graph_signature::{ArgumentSpec, ExportGraphSignature};
use crate::module::ExportedModule;
use flambeau_core::{Result, Tensor, Value};
use flambeau_fx::pytree::TreeSpec;
use flambeau_fx::{CodeOptions, GraphModule};

/// What a number may be.
///
/// ```
/// use torch::export::{self, Dim, ExportOptions, Range};
/// use torch::{Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let options = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch").min(2).max(64))]);
/// let p = export::export_with(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])], options);
/// let (_, range): &(String, Range) = &p.range_constraints[0];
/// assert_eq!((range.min, range.max), (Some(2), Some(64)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// At least.
    pub min: Option<i64>,
    /// At most.
    pub max: Option<i64>,
}
/// How a module of the program was called.
#[doc(alias = "torch.export.ModuleCallSignature")]
#[derive(Clone, Debug)]
pub struct ModuleCallSignature {
    /// How its arguments are built: a tuple of positional ones and a dictionary.
    pub in_spec: TreeSpec,
    /// How its result is built.
    pub out_spec: TreeSpec,
    /// The leaves of its arguments in the program's graph; of a part of the program alone.
    pub inputs: Vec<ArgumentSpec>,
    /// The leaves of its result there.
    pub outputs: Vec<ArgumentSpec>,
    /// Names of the parameters.
    pub forward_arg_names: Option<Vec<String>>,
    /// The descriptions as the file has them.
    pub texts: (String, String),
}
/// A module of the program.
///
/// ```
/// use torch::export::{self, ModuleCallEntry, ModuleCallSignature};
/// use torch::{Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// let whole: &ModuleCallEntry = &p.module_call_graph[0];
/// let signature: &ModuleCallSignature = whole.signature.as_ref().unwrap();
/// assert_eq!((whole.fqn.as_str(), signature.in_spec.leaves(), signature.out_spec.leaves()), ("", 1, 1));
/// ```
#[doc(alias = "torch.export.ModuleCallEntry")]
#[derive(Clone, Debug)]
pub struct ModuleCallEntry {
    /// Its path; empty for the whole program.
    pub fqn: String,
    /// How it was called, where that was kept.
    pub signature: Option<ModuleCallSignature>,
}

/// A program that was exported: a graph of operators whose weights are inputs, with all that is needed to run it.
///
/// ```no_run
/// let program = torch::export::load("model.pt2")?;
/// println!("{program}");
/// let y = program.module()?.try_forward(&[&torch::zeros([1, 3, 32, 32])])?;
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.export.ExportedProgram")]
#[derive(Clone, Debug)]
pub struct ExportedProgram {
    /// The graph; weights are inputs.
    pub graph_module: GraphModule,
    /// What inputs and outputs are.
    #[doc(alias = "torch.export.ExportedProgram.graph_signature")]
    pub graph_signature: ExportGraphSignature,
    /// Parameters and buffers.
    #[doc(alias = "torch.export.ExportedProgram.state_dict")]
    pub state_dict: Vec<(String, Tensor)>,
    /// Tensors that are neither, and buffers that checkpoints do not hold.
    pub constants: Vec<(String, Tensor)>,
    /// What symbols, and sizes that follow from them, may be.
    #[doc(alias = "torch.export.ExportedProgram.range_constraints")]
    pub range_constraints: Vec<(String, Range)>,
    /// The modules that the program is made of, the whole first.
    #[doc(alias = "torch.export.ExportedProgram.module_call_graph")]
    pub module_call_graph: Vec<ModuleCallEntry>,
    /// Positional and keyword arguments with which it was exported, where the file has them.
    #[doc(alias = "torch.export.ExportedProgram.example_inputs")]
    pub example_inputs: Option<Value>,
    /// Further conditions on inputs, as Python texts.
    pub guards_code: Vec<String>,
}
impl ExportedProgram {
    /// How the program was called.
    pub fn signature(&self) -> Option<&ModuleCallSignature> {
        self.module_call_graph.iter().find(|e| e.fqn.is_empty())?.signature.as_ref()
    }
    /// A tensor of the program by name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.state_dict.iter().chain(&self.constants).find(|(n, _)| n == name).map(|(_, t)| t)
    }
    /// The names of all operators, sorted, each once: `aten.add.Tensor`.
    pub fn operators(&self) -> Vec<String> {
        let mut all = Vec::new();
        collect(&self.graph_module, &mut all);
        all.sort();
        all.dedup();
        all
    }
    /// The program with its weights inside, as a module that checks its inputs.
    ///
    /// # Errors
    /// A program whose signature does not fit its graph.
    #[doc(alias = "torch.export.ExportedProgram.module")]
    pub fn module(&self) -> Result<ExportedModule> {
        ExportedModule::new(self)
    }
    /// The ranges as PyTorch prints them.
    pub fn ranges_text(&self) -> String {
        let one = |(name, r): &(String, Range)| {
            let low = r.min.map_or("-int_oo".to_string(), |n| n.to_string());
            let high = r.max.map_or("int_oo".to_string(), |n| n.to_string());
            format!("{name}: VR[{low}, {high}]")
        };
        format!("{{{}}}", self.range_constraints.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}
fn collect(m: &GraphModule, all: &mut Vec<String>) {
    for n in m.graph.nodes() {
        let d = m.graph.node(n);
        if d.op == flambeau_fx::Op::CallFunction {
            let t = d.target.strip_prefix("torch.ops.").unwrap_or(&d.target);
            all.push(t.strip_prefix("higher_order.").unwrap_or(t).to_string());
        }
    }
    for (_, v) in m.attributes() {
        if let Value::Object(o) = v
            && let Some(child) = o.downcast::<GraphModule>()
        {
            collect(child, all);
        }
    }
}
/// Text with all lines but the first further in.
fn indented(s: &str) -> String {
    s.replace('\n', "\n    ")
}
/// The same, but that empty lines stay empty.
fn indented_text(s: &str) -> String {
    let line = |l: &str| if l.trim().is_empty() { String::new() } else { format!("    {l}") };
    match s.split_once('\n') {
        Some((first, rest)) => {
            format!("{first}\n{}", rest.split('\n').map(line).collect::<Vec<_>>().join("\n"))
        }
        None => s.to_string(),
    }
}
/// A graph and those in it as classes, with sizes and places.
fn readable(m: &GraphModule, name: &str) -> String {
    let code = m.graph.python_code(&CodeOptions::new().verbose(true));
    let mut out =
        indented_text(&format!("class {name}(torch.nn.Module):\n{}", code.trim_start_matches('\n')));
    let mut inner = String::new();
    for (path, v) in m.attributes() {
        if let Value::Object(o) = v
            && let Some(child) = o.downcast::<GraphModule>()
        {
            inner.push('\n');
            inner.push_str(&readable(child, path));
        }
    }
    out.push_str(&indented_text(&inner));
    out
}
/// As PyTorch's `str`.
impl std::fmt::Display for ExportedProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "ExportedProgram:\n    {}", indented(&readable(&self.graph_module, "GraphModule")))?;
        writeln!(f, "Graph signature:{}", indented(&self.graph_signature.to_string()))?;
        writeln!(f, "Range constraints: {}", self.ranges_text())
    }
}
