//! Datasets, samplers and loaders by Python's names: of values, as a program in Python has them.

use crate::{
    BatchSampler, Collate, ConcatDataset, DataLoaderOptions, Dataset, DistributedSamplerOptions, Indices,
    RandomSamplerOptions, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSamplerOptions,
};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::settings::determinism::warn;
use flambeau_core::{Error, Generator, Result, Tensor, Value, ensure, ops};
use flambeau_library::slots::Slots;
use flambeau_library::{NativeFn, method, register_function};
use std::any::Any;
use std::sync::Arc;

static REG: CrateReg = CrateReg { name: "flambeau-data names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (name, f) in FUNCTIONS {
        register_function(&format!("torch.utils.data.{name}"), *f);
    }
    register_function("torch.utils.data.distributed.DistributedSampler", distributed_sampler);
}

/// What an iteration of a value gives.
fn items(v: &Value) -> Result<Vec<Value>> {
    if let Some(l) = v.items() {
        return Ok(l.to_vec());
    }
    match v {
        Value::Object(_) | Value::Tensor(_) => match method(v, "__iter__", &[], &[])? {
            Value::List(ref l) | Value::Tuple(ref l) => Ok(l.clone()),
            other => Err(not_iterable(&other)),
        },
        other => Err(not_iterable(other)),
    }
}
fn not_iterable(v: &Value) -> Error {
    Error::type_(format!("'{}' object is not iterable", v.type_name()))
}
/// Anything with a length and items.
#[derive(Clone)]
struct Data(Value);
impl Data {
    fn count(&self) -> Result<usize> {
        if let Some(l) = self.0.items() {
            return Ok(l.len());
        }
        let n = match &self.0 {
            Value::Dict(d) => return Ok(d.len()),
            Value::Object(_) | Value::Tensor(_) => method(&self.0, "__len__", &[], &[])?,
            other => {
                return Err(Error::type_(format!("object of type '{}' has no len()", other.type_name())));
            }
        };
        Ok(index(&n).unwrap_or(0))
    }
}
impl Dataset for Data {
    type Item = Value;
    fn get(&self, index: usize) -> Result<Value> {
        match self.0.items() {
            Some(l) => l.get(index).cloned().ok_or_else(|| Error::index("list index out of range")),
            None => method(&self.0, "__getitem__", &[Value::Int(index as i64)], &[]),
        }
    }
    fn len(&self) -> usize {
        self.count().unwrap_or(0)
    }
}

impl Collate for Value {
    type Batch = Value;
    fn collate(samples: Vec<Self>) -> Result<Value> {
        let all: &[Value] = &samples;
        let Some(first) = all.first() else { return Err(Error::index("list index out of range")) };
        let scalar = || {
            let t = flambeau_core::api::literal::from_value_as(&Value::List(all.to_vec()), None)?;
            Ok(Value::Tensor(match first {
                Value::Float(_) => {
                    ops::to(&t, Some(flambeau_core::DType::F64), None, None, None, false, false, None)?
                }
                _ => t,
            }))
        };
        // slices, since a vector is a sampler and its `iter` would be that
        match first {
            Value::Tensor(_) => {
                let tensors = all.iter().map(Tensor::from_value).collect::<Result<Vec<_>>>()?;
                Tensor::collate(tensors).map(Value::Tensor)
            }
            Value::Int(_) | Value::Float(_) | Value::Bool(_) => scalar(),
            Value::Str(_) => Ok(Value::List(samples)),
            Value::Dict(d) => {
                let of = |name: &String| {
                    let each = all.iter().map(|s| match s {
                        Value::Dict(d) => {
                            d.as_slice().iter().find(|(k, _)| k == name).map(|(_, v)| v.clone())
                        }
                        _ => None,
                    });
                    let each: Option<Vec<Value>> = each.collect();
                    Ok((
                        name.clone(),
                        Value::collate(each.ok_or_else(|| Error::index(format!("'{name}'")))?)?,
                    ))
                };
                d.as_slice().iter().map(|(k, _)| of(k)).collect::<Result<Vec<_>>>().map(Value::Dict)
            }
            Value::Tuple(_) | Value::List(_) | Value::Named(_) => {
                let width = first.items().map_or(0, <[Value]>::len);
                let rows: Vec<&[Value]> = all.iter().filter_map(Value::items).collect();
                ensure!(
                    rows.len() == samples.len() && rows.as_slice().iter().all(|r| r.len() == width),
                    Runtime,
                    "each element in list of batch should be of equal size"
                );
                let column =
                    |i: usize| Value::collate(rows.as_slice().iter().map(|r| r[i].clone()).collect());
                (0..width).map(column).collect::<Result<Vec<_>>>().map(Value::List)
            }
            other => Err(Error::type_(format!(
                "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class '{}'>",
                other.type_name()
            ))),
        }
    }
}

/// Samplers and loaders as objects: how many there are of what one pass gives.
type Pass = Arc<dyn Fn() -> Result<Vec<Value>> + Send + Sync>;
struct Iterated {
    class: &'static str,
    length: Option<usize>,
    pass: Pass,
    attributes: Vec<(&'static str, Value)>,
    order: Option<Arc<dyn Sampler<Index = usize>>>,
}
impl Object for Iterated {
    fn type_name(&self) -> &'static str {
        self.class
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let found = self.attributes.as_slice().iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        found.ok_or_else(|| no_attribute(self.class, name))
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("__iter__", []) => Ok(vec![Value::List((self.pass)()?)]),
            ("__len__", []) => {
                let n = self
                    .length
                    .ok_or_else(|| Error::type_(format!("object of type '{}' has no len()", self.class)))?;
                Ok(vec![Value::Int(n as i64)])
            }
            _ => Err(no_attribute(self.class, name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn index(v: &Value) -> Result<usize> {
    usize::try_from(i64::from_value(v)?).map_err(|_| Error::index("list index out of range"))
}
fn number(i: usize) -> Value {
    Value::Int(i as i64)
}
fn sampler(class: &'static str, order: Arc<dyn Sampler<Index = usize>>) -> Result<Vec<Value>> {
    let pass = order.clone();
    Ok(vec![Value::Object(ObjectRef::new(Iterated {
        class,
        length: order.length(),
        pass: Arc::new(move || pass.indices().map(|i| i.map(number)).collect()),
        attributes: Vec::new(),
        order: Some(order),
    }))])
}
/// The order that a sampler of a program's own gives: asked anew for each pass.
struct Foreign(Value);
impl Sampler for Foreign {
    type Index = usize;
    fn indices(&self) -> Indices<'_, usize> {
        match items(&self.0) {
            Ok(l) => Box::new(l.into_iter().map(|v| index(&v))),
            Err(e) => Box::new(std::iter::once(Err(e))),
        }
    }
    fn length(&self) -> Option<usize> {
        Data(self.0.clone()).count().ok()
    }
}
struct ForeignBatches(Value);
impl Sampler for ForeignBatches {
    type Index = Vec<usize>;
    fn indices(&self) -> Indices<'_, Vec<usize>> {
        let batch = |v: Value| items(&v)?.as_slice().iter().map(index).collect();
        match items(&self.0) {
            Ok(l) => Box::new(l.into_iter().map(batch)),
            Err(e) => Box::new(std::iter::once(Err(e))),
        }
    }
    fn length(&self) -> Option<usize> {
        Data(self.0.clone()).count().ok()
    }
}
fn order_of(v: &Value) -> Arc<dyn Sampler<Index = usize>> {
    let own = match v {
        Value::Object(o) => o.downcast::<Iterated>().and_then(|i| i.order.clone()),
        _ => None,
    };
    own.unwrap_or_else(|| Arc::new(Foreign(v.clone())))
}

/// Datasets as objects.
struct Set {
    class: &'static str,
    data: Arc<dyn Dataset<Item = Value>>,
}
impl Object for Set {
    fn type_name(&self) -> &'static str {
        self.class
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let n = self.data.len();
        match (name, args) {
            ("__len__", []) => Ok(vec![number(n)]),
            ("__getitem__", [Value::Int(i)]) => {
                let at = if *i < 0 { i + n as i64 } else { *i };
                ensure!((0..n as i64).contains(&at), Index, "list index out of range");
                Ok(vec![self.data.get(at as usize)?])
            }
            ("__iter__", []) => {
                Ok(vec![Value::List((0..n).map(|i| self.data.get(i)).collect::<Result<_>>()?)])
            }
            _ => Err(no_attribute(self.class, name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn set(class: &'static str, data: impl Dataset<Item = Value> + 'static) -> Result<Vec<Value>> {
    Ok(vec![Value::Object(ObjectRef::new(Set { class, data: Arc::new(data) }))])
}
/// Tensors of the same first size.
struct Rows(Vec<Tensor>);
impl Dataset for Rows {
    type Item = Value;
    fn get(&self, index: usize) -> Result<Value> {
        let one = |t: &Tensor| ops::select(t, 0, index as i64).map(Value::Tensor);
        self.0.as_slice().iter().map(one).collect::<Result<Vec<_>>>().map(Value::Tuple)
    }
    fn len(&self) -> usize {
        self.0.first().map_or(0, |t| t.sizes().first().copied().unwrap_or(0) as usize)
    }
}
/// Several datasets side by side, with names or without.
struct Beside(Vec<(Option<String>, Data)>);
impl Dataset for Beside {
    type Item = Value;
    fn get(&self, index: usize) -> Result<Value> {
        let each = self
            .0
            .as_slice()
            .iter()
            .map(|(n, d)| Ok((n.clone(), d.get(index)?)))
            .collect::<Result<Vec<_>>>()?;
        if each.as_slice().iter().all(|(n, _)| n.is_none()) {
            return Ok(Value::Tuple(each.into_iter().map(|(_, v)| v).collect()));
        }
        Ok(Value::Dict(each.into_iter().map(|(n, v)| (n.unwrap_or_default(), v)).collect()))
    }
    fn len(&self) -> usize {
        self.0.first().map_or(0, |(_, d)| d.len())
    }
}
fn count_of(v: &Value) -> Result<usize> {
    Data(v.clone()).count()
}
fn positive(n: &Value, name: &str) -> Result<usize> {
    match n {
        Value::Int(i) if *i > 0 => Ok(*i as usize),
        other => Err(Error::value(format!(
            "{name} should be a positive integer value, but got {name}={}",
            flambeau_library::repr(other)?
        ))),
    }
}
fn random_sampler(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["data_source", "replacement", "num_samples", "generator"];
    let s = Slots::new("RandomSampler", names, a, k)?;
    let count = count_of(s.must(0)?)?;
    let mut o = RandomSamplerOptions::new(count);
    match s.values[1] {
        None | Some(Value::Bool(_)) => {}
        Some(v) => {
            return Err(Error::type_(format!(
                "replacement should be a boolean value, but got replacement={}",
                flambeau_library::repr(v)?
            )));
        }
    }
    o = o.replacement(s.get(1)?.unwrap_or(false));
    if let Some(n) = s.values[2].filter(|v| !matches!(v, Value::None)) {
        o = o.num_samples(positive(n, "num_samples")?);
    }
    if let Some(g) = s.get::<Generator>(3)? {
        o = o.generator(&g);
    }
    sampler("RandomSampler", Arc::new(o.try_build()?))
}
fn weighted_sampler(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["weights", "num_samples", "replacement", "generator"];
    let s = Slots::new("WeightedRandomSampler", names, a, k)?;
    let n = positive(s.must(1)?, "num_samples")?;
    let weights = match s.must(0)? {
        Value::Tensor(t) => t.clone(),
        v => flambeau_core::api::literal::from_value_as(v, Some(flambeau_core::DType::F64))?,
    };
    ensure!(
        weights.dim() == 1,
        Value,
        "weights should be a 1d sequence but given weights have shape {}",
        flambeau_core::text::PyText::py_text(&weights.sizes().to_vec())
    );
    let weights: Vec<f64> =
        ops::to(&weights, Some(flambeau_core::DType::F64), None, None, None, false, false, None)?
            .try_to_vec()?;
    let mut o = WeightedRandomSamplerOptions::new(weights, n).replacement(s.get(2)?.unwrap_or(true));
    if let Some(g) = s.get::<Generator>(3)? {
        o = o.generator(&g);
    }
    sampler("WeightedRandomSampler", Arc::new(o.try_build()?))
}
fn distributed_sampler(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last"];
    let s = Slots::new("DistributedSampler", names, a, k)?;
    let (Some(replicas), Some(rank)) = (s.get::<i64>(1)?, s.get::<i64>(2)?) else {
        return Err(Error::missing("DistributedSampler by name without num_replicas and rank"));
    };
    ensure!(
        (0..replicas).contains(&rank),
        Value,
        "Invalid rank {rank}, rank should be in the interval [0, {}]",
        replicas - 1
    );
    let o = DistributedSamplerOptions::new(count_of(s.must(0)?)?, replicas as usize, rank as usize)
        .shuffle(s.get(3)?.unwrap_or(true))
        .seed(s.get::<i64>(4)?.unwrap_or(0) as u64)
        .drop_last(s.get(5)?.unwrap_or(false));
    sampler("DistributedSampler", Arc::new(o.try_build()?))
}
fn batch_sampler(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("BatchSampler", &["sampler", "batch_size", "drop_last"], a, k)?;
    let n = positive(s.must(1)?, "batch_size")?;
    let drop_last = match s.must(2)? {
        Value::Bool(b) => *b,
        other => {
            return Err(Error::value(format!(
                "drop_last should be a boolean value, but got drop_last={}",
                flambeau_library::repr(other)?
            )));
        }
    };
    let batches = Arc::new(BatchSampler::try_new(order_of(s.must(0)?), n, drop_last)?);
    let pass = batches.clone();
    let list = |b: Vec<usize>| Value::List(b.into_iter().map(number).collect());
    Ok(vec![Value::Object(ObjectRef::new(Iterated {
        class: "BatchSampler",
        length: batches.length(),
        pass: Arc::new(move || pass.indices().map(|b| b.map(list)).collect()),
        attributes: vec![("batch_size", number(n)), ("drop_last", Value::Bool(drop_last))],
        order: None,
    }))])
}
fn random_split(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("random_split", &["dataset", "lengths", "generator"], a, k)?;
    let lengths = items(s.must(1)?)?.as_slice().iter().map(f64::from_value).collect::<Result<Vec<_>>>()?;
    let mut o = crate::RandomSplitOptions::new();
    if let Some(g) = s.get::<Generator>(2)? {
        o = o.generator(&g);
    }
    let parts = crate::try_random_split(Data(s.must(0)?.clone()), lengths, o)?;
    let parts = parts.into_iter().map(|p| set("Subset", p)).collect::<Result<Vec<_>>>()?;
    Ok(vec![Value::List(parts.into_iter().flatten().collect())])
}
const LOADER: &[&str] = &[
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
];
fn loader(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("DataLoader", LOADER, a, k)?;
    let given = |i: usize| s.values[i].filter(|v| !matches!(v, Value::None));
    if let Some(Value::Str(device)) = given(15)
        && !device.is_empty()
        && s.get::<bool>(7)? == Some(true)
    {
        warn(&format!(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,ignore \
             pin_memory_device='{device}'."
        ));
    }
    for i in [10, 11] {
        ensure!(given(i).is_none(), Missing, "DataLoader by name with {}", LOADER[i]);
    }
    let workers = s.get::<i64>(5)?.unwrap_or(0);
    ensure!(
        workers >= 0,
        Value,
        "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
    );
    let data = Data(s.must(0)?.clone());
    let mut o = DataLoaderOptions::new(data)
        .shuffle(s.get(2)?.unwrap_or(false))
        .num_workers(workers as usize)
        .pin_memory(s.get(7)?.unwrap_or(false))
        .drop_last(s.get(8)?.unwrap_or(false))
        .timeout(s.get(9)?.unwrap_or(0.0))
        .persistent_workers(s.get(14)?.unwrap_or(false))
        .in_order(s.get(16)?.unwrap_or(true));
    if let Some(v) = given(3) {
        o = o.sampler(order_of(v));
    }
    if let Some(v) = given(4) {
        o = o.batch_sampler(ForeignBatches(v.clone()));
    }
    if let Some(g) = s.get::<Generator>(12)? {
        o = o.generator(&g);
    }
    if let Some(n) = s.get::<i64>(13)? {
        ensure!(n >= 0, Value, "prefetch_factor option should be non-negative");
        o = o.prefetch_factor(n as usize);
    }
    let unbatched = matches!(s.values[1], Some(Value::None));
    let collate = match given(6) {
        Some(Value::Object(f)) => Some(f.clone()),
        Some(v) => return Err(Error::type_(format!("'{}' object is not callable", v.type_name()))),
        None => None,
    };
    let apply = |f: &ObjectRef, v: Value| -> Result<Value> {
        let mut all = f.call(&[v], &[])?;
        Ok(if all.len() == 1 { all.remove(0) } else { Value::Tuple(all) })
    };
    let batch_size = match s.values[1] {
        Some(v) if !unbatched => Some(v),
        _ => None,
    };
    let made = match (unbatched, collate) {
        (true, None) => o.unbatched().try_build()?,
        (true, Some(f)) => o.unbatched().convert_fn(move |v| apply(&f, v)).try_build()?,
        (false, collate) => {
            // as PyTorch, options that exclude each other come before sizes that are none
            let n = match batch_size {
                None => 1,
                Some(Value::Int(n)) if *n > 0 => *n as usize,
                Some(v) => {
                    o.batch_size(1).try_build()?;
                    return positive(v, "batch_size").map(|_| Vec::new());
                }
            };
            let o = o.batch_size(n);
            match collate {
                None => o.try_build()?,
                Some(f) => o.collate_fn(move |all: Vec<Value>| apply(&f, Value::List(all))).try_build()?,
            }
        }
    };
    let attributes = vec![
        ("dataset", s.must(0)?.clone()),
        ("batch_size", made.batch_size().map_or(Value::None, number)),
        ("num_workers", number(made.num_workers())),
        ("drop_last", Value::Bool(made.drop_last())),
    ];
    let length = made.try_len().ok();
    Ok(vec![Value::Object(ObjectRef::new(Iterated {
        class: "DataLoader",
        length,
        pass: Arc::new(move || made.try_iter().collect()),
        attributes,
        order: None,
    }))])
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("DataLoader", loader),
    ("RandomSampler", random_sampler),
    ("WeightedRandomSampler", weighted_sampler),
    ("BatchSampler", batch_sampler),
    ("DistributedSampler", distributed_sampler),
    ("random_split", random_split),
    ("SequentialSampler", |a, k| {
        let s = Slots::new("SequentialSampler", &["data_source"], a, k)?;
        sampler("SequentialSampler", Arc::new(SequentialSampler::new(count_of(s.must(0)?)?)))
    }),
    ("SubsetRandomSampler", |a, k| {
        let s = Slots::new("SubsetRandomSampler", &["indices", "generator"], a, k)?;
        let all = items(s.must(0)?)?.as_slice().iter().map(index).collect::<Result<Vec<_>>>()?;
        let mut order = SubsetRandomSampler::new(all);
        if let Some(g) = s.get::<Generator>(1)? {
            order = order.generator(&g);
        }
        sampler("SubsetRandomSampler", Arc::new(order))
    }),
    ("TensorDataset", |a, k| {
        Slots::new("TensorDataset", &[], &[], k)?;
        let all = a.iter().map(Tensor::from_value).collect::<Result<Vec<_>>>()?;
        let size = |t: &Tensor| t.sizes().first().copied();
        let Some(first) = all.first() else { return Err(Error::index("tuple index out of range")) };
        ensure!(
            all.as_slice().iter().all(|t| size(t) == size(first)),
            Assertion,
            "Size mismatch between tensors"
        );
        set("TensorDataset", Rows(all))
    }),
    ("ConcatDataset", |a, k| {
        let s = Slots::new("ConcatDataset", &["datasets"], a, k)?;
        set("ConcatDataset", ConcatDataset::try_new(items(s.must(0)?)?.into_iter().map(Data))?)
    }),
    ("StackDataset", |a, k| {
        ensure!(
            a.is_empty() || k.is_empty(),
            Value,
            "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both types are given."
        );
        let all: Vec<(Option<String>, Data)> = match a {
            [] => k.iter().map(|(n, v)| (Some(n.clone()), Data(v.clone()))).collect(),
            a => a.iter().map(|v| (None, Data(v.clone()))).collect(),
        };
        ensure!(!all.is_empty(), Value, "At least one dataset should be passed");
        let lengths = all.as_slice().iter().map(|(_, d)| d.count()).collect::<Result<Vec<_>>>()?;
        ensure!(lengths.as_slice().iter().all(|n| *n == lengths[0]), Value, "Size mismatch between datasets");
        set("StackDataset", Beside(all))
    }),
    ("Subset", |a, k| {
        let s = Slots::new("Subset", &["dataset", "indices"], a, k)?;
        let all = items(s.must(1)?)?.as_slice().iter().map(index).collect::<Result<Vec<_>>>()?;
        set("Subset", crate::Subset::new(Data(s.must(0)?.clone()), all))
    }),
    ("default_collate", |a, k| {
        let s = Slots::new("default_collate", &["batch"], a, k)?;
        Value::collate(items(s.must(0)?)?).map(|v| vec![v])
    }),
    ("default_convert", |a, k| {
        let s = Slots::new("default_convert", &["data"], a, k)?;
        Ok(vec![s.must(0)?.clone()])
    }),
    ("get_worker_info", |a, _| {
        ensure!(
            a.is_empty(),
            Type,
            "get_worker_info() takes 0 positional arguments but {} {} given",
            a.len(),
            if a.len() == 1 { "was" } else { "were" }
        );
        let Some(info) = crate::get_worker_info() else { return Ok(vec![Value::None]) };
        Ok(vec![Value::Dict(vec![
            ("id".into(), number(info.id)),
            ("num_workers".into(), number(info.num_workers)),
            ("seed".into(), Value::Int(info.seed as i64)),
        ])])
    }),
];
