//! Python's names of graphs and pools.

use super::{
    CUDAGraph, GraphOptions, GraphedOptions, MemPool, Recording, capture_mode, export_dot, pools::Routed,
    try_make_graphed_callables,
};
use crate::Ordinal;
use crate::by_name::{Bound, Row, given, unbound};
use crate::cuda::runtime::PoolId;
use crate::cuda::streams::Stream;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use std::path::Path;
use std::sync::PoisonError;

fn object(o: impl Object) -> Vec<Value> {
    vec![Value::Object(ObjectRef::new(o))]
}
fn nothing(r: Result<()>) -> Result<Vec<Value>> {
    r.map(|()| vec![Value::None])
}
fn pair(p: PoolId) -> Value {
    Value::Tuple(vec![Value::Int(p.0 as i64), Value::Int(p.1 as i64)])
}
/// The object of a type that a value is.
fn own<T: Object + Clone>(v: &Value) -> Option<T> {
    if let Value::Object(o) = v { o.downcast::<T>().cloned() } else { None }
}
/// A pool by its number or as an object.
fn pool_of(v: Option<crate::Anything>) -> Result<Option<PoolId>> {
    let wrong = |v: &Value| Err(Error::type_(format!("a pool is two numbers, not {}", v.type_name())));
    match v.map(|v| v.0) {
        None | Some(Value::None) => Ok(None),
        Some(v) => match &v {
            Value::Tuple(l) | Value::List(l) => match &l[..] {
                [Value::Int(a), Value::Int(b)] => Ok(Some((*a as u64, *b as u64))),
                _ => wrong(&v),
            },
            Value::Object(_) => own::<MemPool>(&v).map_or_else(|| wrong(&v), |p| Ok(Some(p.id()))),
            _ => wrong(&v),
        },
    }
}
fn mode_of(word: Option<String>) -> Result<super::CaptureMode> {
    word.map_or(Ok(super::CaptureMode::Global), |w| capture_mode(&w))
}

impl Object for CUDAGraph {
    fn type_name(&self) -> &'static str {
        "CUDAGraph"
    }
    fn method(&self, name: &str, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "capture_begin" => {
                let mut b = Bound::new("capture_begin", &["pool", "capture_error_mode"], a, k)?;
                let pool = pool_of(b.optional()?)?;
                nothing(self.try_capture_begin(pool, mode_of(b.optional()?)?))
            }
            "capture_end" => nothing(self.try_capture_end()),
            "instantiate" => nothing(self.try_instantiate()),
            "replay" => nothing(self.try_replay()),
            "reset" => {
                self.reset();
                Ok(vec![Value::None])
            }
            "pool" => self.try_pool().map(|p| vec![pair(p)]),
            "enable_debug_mode" => {
                self.enable_debug_mode();
                Ok(vec![Value::None])
            }
            "debug_dump" => {
                let mut b = Bound::new("debug_dump", &["debug_path", "verbose"], a, k)?;
                let path: String = b.required()?;
                nothing(self.try_debug_dump(Path::new(&path), b.optional()?.unwrap_or(true)))
            }
            _ => Err(no_attribute("CUDAGraph", name)),
        }
    }
    fn repr(&self) -> String {
        format!("{self:?}")
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
impl Object for MemPool {
    fn type_name(&self) -> &'static str {
        "MemPool"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        if name == "id" { Ok(pair(self.id())) } else { Err(no_attribute("MemPool", name)) }
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "use_count" => Ok(vec![Value::Int(self.use_count())]),
            "snapshot" => {
                let all = self.snapshot();
                Ok(vec![Value::List(all.iter().map(crate::cuda::history::segment).collect())])
            }
            _ => Err(no_attribute("MemPool", name)),
        }
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A context that is entered and left once at a time: what it holds meanwhile.
fn held<T: Send + 'static>(
    class: &'static str,
    enter: impl Fn() -> Result<T> + Send + Sync + 'static,
    exit: impl Fn(T) -> Result<()> + Send + Sync + 'static,
) -> Vec<Value> {
    struct Context<T, E, X> {
        class: &'static str,
        enter: E,
        exit: X,
        held: Mutex<Vec<T>>,
    }
    impl<T, E, X> Object for Context<T, E, X>
    where
        T: Send + 'static,
        E: Fn() -> Result<T> + Send + Sync + 'static,
        X: Fn(T) -> Result<()> + Send + Sync + 'static,
    {
        fn type_name(&self) -> &'static str {
            self.class
        }
        fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
            match name {
                "__enter__" => {
                    let entered = (self.enter)()?;
                    self.held.lock().unwrap_or_else(PoisonError::into_inner).push(entered);
                    Ok(vec![Value::None])
                }
                "__exit__" => {
                    let last = self.held.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    nothing(last.map_or(Ok(()), &self.exit))
                }
                _ => Err(no_attribute(self.class, name)),
            }
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    object(Context { class, enter, exit, held: Mutex::new(Vec::new()) })
}
fn make(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let mut b = Bound::new("CUDAGraph", &["keep_graph"], a, k)?;
    Ok(object(CUDAGraph::try_new(b.optional()?.unwrap_or(false))?))
}
fn graph(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const NAMES: &[&str] = &[
        "cuda_graph",
        "pool",
        "stream",
        "capture_error_mode",
        "enable_annotations",
        "annotation_config",
        "check_input_liveness",
    ];
    if crate::cuda::try_init().is_err_and(|e| e.message() == "Torch not compiled with CUDA enabled") {
        return Err(crate::table::dummy("CUDAGraph"));
    }
    let mut b = Bound::new("graph", NAMES, a, k)?;
    let v = b.required::<crate::Anything>()?.0;
    let graph = own::<CUDAGraph>(&v).ok_or_else(|| {
        Error::type_(format!("graph(): argument 'cuda_graph' must be CUDAGraph, not {}", v.type_name()))
    })?;
    let pool = pool_of(b.optional()?)?;
    let stream = b.optional::<crate::Anything>()?.and_then(|v| given::<Stream>(&v.0));
    let mode = mode_of(b.optional()?)?;
    let annotations = b.optional::<bool>()?.unwrap_or(false);
    let config = b.optional::<crate::Anything>()?.is_some_and(|v| !matches!(v.0, Value::None));
    ensure!(!annotations && !config, Missing, "annotations of graphs");
    // inputs live as long as the graph, so there is nothing to check
    b.optional::<bool>()?;
    let enter = move || {
        let options = GraphOptions::new().pool(pool).stream(stream.clone()).capture_error_mode(mode);
        Recording::begin(&graph, options)
    };
    Ok(held("graph", enter, Recording::end))
}
fn pool(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let mut b = Bound::new("MemPool", &["allocator", "use_on_oom", "no_split"], a, k)?;
    let allocator = b.optional::<crate::Anything>()?.filter(|v| !matches!(v.0, Value::None));
    let (on_oom, no_split) = (b.optional()?.unwrap_or(false), b.optional()?.unwrap_or(false));
    let Some(v) = allocator else { return Ok(object(MemPool::try_new(on_oom, no_split)?)) };
    crate::cuda::try_init()?;
    let allocator = given::<crate::cuda::CUDAPluggableAllocator>(&v.0).ok_or_else(|| {
        Error::type_(format!(
            "MemPool(): argument 'allocator' must be _cuda_CUDAAllocator, not {}",
            v.0.type_name()
        ))
    })?;
    Ok(object(MemPool::with_allocator(&allocator, on_oom, no_split)?))
}
fn use_pool(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let mut b = Bound::new("use_mem_pool", &["pool", "device"], a, k)?;
    let v = b.required::<crate::Anything>()?.0;
    crate::cuda::try_init()?;
    let pool = own::<MemPool>(&v).ok_or_else(|| {
        Error::type_(format!("use_mem_pool(): argument 'pool' must be MemPool, not {}", v.type_name()))
    })?;
    let device = b.optional::<Ordinal>()?.filter(|d| d.0 >= 0).map(|d| d.0);
    Ok(held("_GeneratorContextManager", move || Routed::to(&pool, device), |_| Ok(())))
}

/// A recorded function as an object, which is called.
struct Callable(super::Graphed);
impl Object for Callable {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let out = self.0.try_call(&tensors(args)?)?;
        Ok(out.into_iter().map(Value::Tensor).collect())
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
fn tensors(args: &[Value]) -> Result<Vec<Tensor>> {
    let one = |v: &Value| match v {
        Value::Tensor(t) => Ok(t.clone()),
        _ => Err(Error::assertion(
            "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed.",
        )),
    };
    args.iter().map(one).collect()
}
fn list(v: &Value) -> Option<&[Value]> {
    if let Value::Tuple(l) | Value::List(l) = v { Some(l) } else { None }
}
fn callables(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const NAMES: &[&str] = &[
        "callables",
        "sample_args",
        "num_warmup_iters",
        "allow_unused_input",
        "pool",
        "capture_error_mode",
        "enable_annotations",
    ];
    let mut b = Bound::new("make_graphed_callables", NAMES, a, k)?;
    let (functions, samples) = (b.required::<crate::Anything>()?.0, b.required::<crate::Anything>()?.0);
    crate::cuda::try_init()?;
    let warmup: i64 = b.optional()?.unwrap_or(3);
    let unused = b.optional()?.unwrap_or(false);
    let pool = pool_of(b.optional()?)?.unwrap_or_else(super::graph_pool_handle);
    let mode = mode_of(b.optional()?)?;
    ensure!(!b.optional::<bool>()?.unwrap_or(false), Missing, "annotations of graphs");
    let of = |f: &Value, args: &Value| -> Result<Value> {
        let Value::Object(f) = f else {
            return Err(Error::type_(format!("'{}' object is not callable", f.type_name())));
        };
        let parameters = match f.method("parameters", &[], &[]) {
            Ok(all) => match all.first().and_then(list) {
                Some(l) => tensors(l)?,
                None => tensors(&all)?,
            },
            // a function has none
            Err(_) => Vec::new(),
        };
        let run = |args: &[Tensor]| -> Result<Vec<Tensor>> {
            let args: Vec<Value> = args.iter().cloned().map(Value::Tensor).collect();
            let out = f.call(&args, &[])?;
            match &out[..] {
                [Value::Tuple(l) | Value::List(l)] => tensors(l),
                all => tensors(all),
            }
        };
        let options = GraphedOptions::new()
            .parameters(parameters)
            .num_warmup_iters(warmup.max(0) as usize)
            .allow_unused_input(unused)
            .pool(Some(pool))
            .capture_error_mode(mode);
        let args = list(args).map_or_else(|| tensors(std::slice::from_ref(args)), tensors)?;
        Ok(Value::Object(ObjectRef::new(Callable(try_make_graphed_callables(run, &args, options)?))))
    };
    match (&functions, &samples) {
        (Value::Tuple(f), Value::Tuple(s)) => {
            let all = f.iter().zip(s).map(|(f, s)| of(f, s)).collect::<Result<_>>()?;
            Ok(vec![Value::Tuple(all)])
        }
        (f, s) => of(f, s).map(|v| vec![v]),
    }
}
fn picture(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    struct Hook(String, bool);
    impl Object for Hook {
        fn type_name(&self) -> &'static str {
            "function"
        }
        fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
            let graph = args.first().and_then(own::<CUDAGraph>);
            let graph = graph.ok_or_else(|| Error::type_("the function takes a CUDAGraph"))?;
            nothing(export_dot(&self.0, self.1)(&graph))
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let mut b = Bound::new("export_dot", &["path", "verbose"], a, k)?;
    Ok(object(Hook(b.required()?, b.optional()?.unwrap_or(true))))
}

macro_rules! methods {
    ($class:literal $type:ident $($name:literal)*) => { [$((concat!("torch.cuda.", $class), $name, |a, k| {
        match a.first().and_then(own::<$type>) {
            Some(o) => o.method($name, &a[1..], k),
            None => Err(unbound($class, $name, a)),
        }
    })),*] };
}
const METHODS: [Row; 8] = methods!("CUDAGraph" CUDAGraph "capture_begin" "capture_end" "instantiate" "replay" "reset" "pool"
    "enable_debug_mode" "debug_dump");
const POOL_METHODS: [Row; 2] = methods!("MemPool" MemPool "use_count" "snapshot");
pub(crate) const GRAPH: &[Row] = &[
    ("torch.cuda", "CUDAGraph", make),
    ("torch.cuda.graphs", "CUDAGraph", make),
    ("torch.cuda", "graph", graph),
    ("torch.cuda.graphs", "graph", graph),
    ("torch.cuda", "make_graphed_callables", callables),
    ("torch.cuda", "export_dot", picture),
    ("torch.cuda", "is_current_stream_capturing", |a, k| {
        Bound::new("is_current_stream_capturing", &[], a, k)?.end();
        Ok(vec![Value::Bool(super::is_current_stream_capturing())])
    }),
    ("torch.cuda", "graph_pool_handle", |a, k| {
        Bound::new("graph_pool_handle", &[], a, k)?.end();
        Ok(vec![pair(super::graph_pool_handle())])
    }),
    METHODS[0],
    METHODS[1],
    METHODS[2],
    METHODS[3],
    METHODS[4],
    METHODS[5],
    METHODS[6],
    METHODS[7],
];
pub(crate) const POOL: &[Row] = &[
    ("torch.cuda", "MemPool", pool),
    ("torch.cuda.memory", "MemPool", pool),
    ("torch.cuda", "use_mem_pool", use_pool),
    POOL_METHODS[0],
    POOL_METHODS[1],
];
