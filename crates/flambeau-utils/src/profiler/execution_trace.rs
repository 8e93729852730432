//! Execution traces: which operators ran within which, with which arguments and results, as a graph in a file, in the schema of
//! PyTorch's observer (Chakra).

use flambeau_core::dispatch::overrides::{ModeGuard, OperatorCall, push_dispatch_mode, push_function_mode};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, Result, Tensor, Value, ensure};
use serde_json::{Value as J, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// The operators of this thread as a graph: each node names the one within which it ran, and tensors and their memory by numbers, so
/// that a tool can run them again.
///
/// ```
/// use torch::profiler::ExecutionTraceObserver;
/// let path = std::env::temp_dir().join(format!("trace-{}.json", std::process::id()));
/// let mut observer = ExecutionTraceObserver::new();
/// observer.register_callback(&path)?;
/// observer.start();
/// let _ = torch::ones([2, 3]) + 1.0;
/// observer.unregister_callback()?;
/// assert!(std::fs::read_to_string(&path)?.contains("aten::add"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.profiler.ExecutionTraceObserver")]
#[derive(Default)]
pub struct ExecutionTraceObserver {
    path: Option<PathBuf>,
    graph: Option<Rc<RefCell<Graph>>>,
    running: Option<[ModeGuard; 2]>,
}
impl ExecutionTraceObserver {
    /// One that knows no file yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Says where the graph goes, and makes the file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn register_callback(&mut self, output_file_path: impl AsRef<Path>) -> Result<&mut Self> {
        if self.path.is_none() {
            let path = output_file_path.as_ref();
            std::fs::write(path, "").map_err(|e| Error::from(e).at_path(path))?;
            self.path = Some(path.to_path_buf());
        }
        Ok(self)
    }
    /// The file.
    pub fn get_output_file_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
    /// Whether it has a file.
    pub fn is_registered(&self) -> bool {
        self.path.is_some()
    }
    /// Begins to observe, or goes on, where it has a file.
    pub fn start(&mut self) {
        if self.path.is_none() || self.running.is_some() {
            return;
        }
        let graph = self.graph.get_or_insert_with(Default::default).clone();
        let other = graph.clone();
        let whole = push_function_mode(move |c: &OperatorCall<'_>| Graph::call(&graph, c));
        let parts = push_dispatch_mode(move |c: &OperatorCall<'_>| {
            if other.borrow().is_just_begun(c) { c.call_on() } else { Graph::call(&other, c) }
        });
        self.running = Some([whole, parts]);
    }
    /// Stops observing; [`ExecutionTraceObserver::start`] goes on.
    pub fn stop(&mut self) {
        self.running = None;
    }
    /// Stops observing and writes the file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn unregister_callback(&mut self) -> Result<()> {
        self.stop();
        let (Some(path), graph) = (self.path.take(), self.graph.take()) else { return Ok(()) };
        let graph = graph.unwrap_or_default();
        std::fs::write(&path, graph.borrow().json().to_string()).map_err(|e| Error::from(e).at_path(&path))
    }
    /// Stops observing; the file is written.
    ///
    /// # Errors
    /// It has no file; those of the system.
    pub fn cleanup(&mut self) -> Result<()> {
        ensure!(self.path.is_some(), Runtime, "the observer has no file");
        self.unregister_callback()
    }
}
impl Drop for ExecutionTraceObserver {
    fn drop(&mut self) {
        if let Err(e) = self.unregister_callback() {
            eprintln!("{e}");
        }
    }
}

struct Graph {
    began: Instant,
    nodes: Vec<J>,
    /// Operators that run: their numbers and names, and whether anything was noted within.
    open: Vec<(u64, &'static str, bool)>,
    next: u64,
    /// Numbers of tensors and of memory, by their addresses; what is gone may leave its number to another.
    tensors: HashMap<(usize, usize), u64>,
    memory: HashMap<usize, u64>,
}
impl Default for Graph {
    fn default() -> Self {
        Graph {
            began: Instant::now(),
            nodes: Vec::new(),
            open: Vec::new(),
            // 1 is the process, 2 the thread
            next: 3,
            tensors: HashMap::new(),
            memory: HashMap::new(),
        }
    }
}
/// Ends its node when dropped, also where the call panics.
struct Open<'a>(&'a Rc<RefCell<Graph>>);
impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().open.pop();
    }
}
impl Graph {
    fn is_just_begun(&self, c: &OperatorCall<'_>) -> bool {
        self.open.last().is_some_and(|(_, name, inner)| !inner && *name == c.name())
    }
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
    fn call(graph: &Rc<RefCell<Graph>>, c: &OperatorCall<'_>) -> Result<Vec<Value>> {
        let (id, parent, inputs) = {
            let mut g = graph.borrow_mut();
            let id = g.number();
            let parent = g.open.last_mut().map_or(2, |o| {
                o.2 = true;
                o.0
            });
            g.open.push((id, c.name(), false));
            (id, parent, g.side(c.args()))
        };
        let open = Open(graph);
        let out = c.call_on()?;
        drop(open);
        let mut g = graph.borrow_mut();
        let outputs = g.side(&out);
        let base = c.name().split('.').next().unwrap_or(c.name());
        let name = if base.contains("::") { base.to_string() } else { format!("aten::{base}") };
        let arguments: Vec<&str> = c.schema().args.iter().map(|a| a.name).collect();
        let schema = format!("aten::{}({})", c.name(), arguments.join(", "));
        let node = node(id, &name, parent, inputs, outputs, &schema, 0);
        g.nodes.push(node);
        Ok(out)
    }
    /// Arguments or results.
    fn side(&mut self, all: &[Value]) -> J {
        let parts: Vec<[J; 4]> = all.iter().map(|v| self.value(v)).collect();
        let column = |i: usize| parts.iter().map(|p| p[i].clone()).collect::<Vec<J>>();
        json!({"values": column(0), "shapes": column(1), "types": column(2), "strides": column(3)})
    }
    /// Value, sizes, type and strides.
    fn value(&mut self, v: &Value) -> [J; 4] {
        let plain = |v: J, t: &str| [v, json!([]), json!(t), json!([])];
        match v {
            Value::None => plain(json!("<None>"), "None"),
            Value::Bool(b) => plain(json!(b), "Bool"),
            Value::Int(i) => plain(json!(i), "Int"),
            Value::Float(f) => plain(json!(f), "Double"),
            Value::Str(s) => plain(json!(s), "String"),
            Value::DType(d) => plain(json!(d.name()), "Int"),
            Value::Device(d) => plain(json!(d.to_string()), "Device"),
            Value::Tensor(t) => {
                [self.tensor(t), json!(t.sizes()), json!(kind(t.dtype())), json!(t.strides())]
            }
            Value::List(l) | Value::Tuple(l) => {
                let parts: Vec<[J; 4]> = l.iter().map(|v| self.value(v)).collect();
                let column = |i: usize| parts.iter().map(|p| p[i].clone()).collect::<Vec<J>>();
                let types: Vec<&str> = parts.iter().filter_map(|p| p[2].as_str()).collect();
                let types = format!("GenericList[{}]", types.join(","));
                [json!(column(0)), json!(column(1)), json!(types), json!(column(3))]
            }
            other => plain(json!(format!("<{}>", other.type_name())), other.type_name()),
        }
    }
    /// Number, number of the memory, first element, number of elements, bytes of one, device.
    fn tensor(&mut self, t: &Tensor) -> J {
        let has_memory = t.layout() == flambeau_core::Layout::Strided && t.device() != Device::Meta;
        let memory = if has_memory { t.storage().id() } else { 0 };
        let id = *self.tensors.entry((t.id(), memory)).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        });
        let storage = *self.memory.entry(memory).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        });
        let offset = if has_memory { t.storage_offset() } else { 0 };
        json!([id, storage, offset, t.numel(), t.dtype().size(), t.device().to_string()])
    }
    fn json(&self) -> J {
        let none = || json!({"values": [], "shapes": [], "types": [], "strides": []});
        let mut nodes = vec![
            node(1, "[pytorch|profiler|execution_trace|process]", 1, none(), none(), "", 7),
            node(2, "[pytorch|profiler|execution_trace|thread]", 1, none(), none(), "", 7),
        ];
        nodes.extend(self.nodes.iter().cloned());
        json!({
            "schema": "1.1.1-chakra.0.0.4", "pid": std::process::id(), "start_ts": 0,
            "finish_ts": self.began.elapsed().as_micros() as u64, "nodes": nodes,
        })
    }
}
fn kind(d: DType) -> String {
    let name = match d {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::I64 => "long int",
        DType::I32 => "int",
        DType::I16 => "short int",
        DType::I8 => "signed char",
        DType::U8 => "unsigned char",
        DType::Bool => "bool",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        other => other.name(),
    };
    format!("Tensor({name})")
}
fn node(id: u64, name: &str, parent: u64, inputs: J, outputs: J, schema: &str, scope: u64) -> J {
    let attribute = |name: &str, kind: &str, value: J| json!({"name": name, "type": kind, "value": value});
    json!({
        "id": id, "name": name, "ctrl_deps": parent, "inputs": inputs, "outputs": outputs,
        "attrs": [
            attribute("rf_id", "uint64", json!(id)), attribute("fw_parent", "uint64", json!(0)),
            attribute("seq_id", "int64", json!(-1)), attribute("scope", "uint64", json!(scope)),
            attribute("tid", "uint64", json!(1)), attribute("fw_tid", "uint64", json!(0)),
            attribute("op_schema", "string", json!(schema)), attribute("kernel_backend", "string", json!("")),
            attribute("kernel_file", "string", json!("")), attribute("tensor_range", "string", json!("")),
        ],
    })
}
