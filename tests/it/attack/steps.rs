//! Programs of calls that bytes spell out, over tensors that live on from step to step: results are arguments of later calls, are
//! written to in place and through their views, resized, exchanged, differentiated, shared with threads, in regions whose guards end
//! in any order. Read by the test in `sequences.rs` and by the fuzz target `calls`.

use std::any::Any;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::{Arc, LazyLock};
use torch::__core::api::typed_storage::TypedStorage;
use torch::__core::dispatch::op::AnyOp;
use torch::__core::dispatch::registry;
use torch::__core::gradients::saved::saved_tensors_hooks;
use torch::__core::internal::RawTensor as _;
use torch::__core::types::schema::{Arg, Default_, Ty};
use torch::autograd::RemovableHandle;
use torch::library::{self, Value};
use torch::options::{BackwardOptions, LoadOptions};
use torch::overrides::{OperatorCall, push_dispatch_mode, push_function_mode};
use torch::{DType, Device, Generator, MemoryFormat, Result, Scalar, Tensor, amp, ops};

type Op = &'static dyn AnyOp;
static OPERATORS: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let mut all: Vec<Op> = registry::crates().iter().flat_map(|c| c.ops.iter().copied()).collect();
    all.sort_by_key(|op| op.info().name);
    all
});
/// Documented names but for those that change what the whole process is.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    const NOT: &[&str] = &[
        "distributed",
        "multiprocessing",
        ".set_",
        "_set_",
        "load",
        "save",
        "tensorboard",
        "seed",
        "manual",
    ];
    let mut all = library::names();
    all.retain(|n| !n.starts_with("aten::") && !NOT.iter().any(|w| n.contains(w)));
    all.sort();
    all
});

/// What user code of a program panics with.
pub struct Thrown;
/// Tensors of more elements are not kept: later steps would take seconds.
const LARGE: i64 = 1 << 14;
const KEPT: usize = 24;

struct Program<'a> {
    bytes: &'a [u8],
    /// What it does is written to standard error.
    shown: bool,
    tensors: Vec<Tensor>,
    guards: Vec<Box<dyn Any>>,
    hooks: Vec<RemovableHandle>,
    /// Gradients that kept their graph: each makes the next a few times as large.
    graphs: usize,
}

fn f32s(sizes: &[i64]) -> Result<Tensor> {
    let n = sizes.iter().product::<i64>();
    ops::reshape(
        &ops::div(&ops::arange(n.into(), Some(DType::F32), None, None, None)?, &torch::tensor(4.0))?,
        sizes,
    )
}
fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    ops::to_copy(t, Some(d), None, None, None, false, None)
}
fn first(name: &str, args: &[Value]) -> Result<Tensor> {
    match library::call(name, args, &[])?.first() {
        Some(Value::Tensor(t)) => Ok(t.clone()),
        _ => Err(torch::Error::runtime("no tensor")),
    }
}
fn list(v: &[i64]) -> Value {
    Value::List(v.iter().map(|i| Value::Int(*i)).collect())
}

const SIZES: &[&[i64]] = &[
    &[2, 2],
    &[3],
    &[],
    &[2, 3],
    &[3, 3],
    &[0],
    &[2, 3, 4, 4],
    &[1, 2, 4],
    &[2, 3, 4],
    &[0, 3],
    &[1, 1],
    &[4, 4],
    &[1, 2, 3, 3, 3],
    &[2, 0, 2],
    &[5, 1],
    &[40, 30],
    &[70],
    &[1],
    &[8, 8],
    &[1, 1, 1, 1, 1, 1, 1],
];
const DTYPES: &[DType] = &[
    DType::F32,
    DType::I64,
    DType::F64,
    DType::Bool,
    DType::C64,
    DType::BF16,
    DType::I32,
    DType::U8,
    DType::F16,
    DType::C128,
    DType::I8,
    DType::I16,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::C32,
    DType::QI8,
    DType::QU8,
    DType::QI32,
];
const INTS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    -2,
    4,
    5,
    -3,
    7,
    16,
    -7,
    63,
    64,
    1 << 16,
    1 << 31,
    -(1 << 31),
    1 << 33,
    1 << 40,
    1 << 62,
    i64::MAX,
    i64::MIN,
];
const FLOATS: &[f64] = &[
    0.5,
    0.0,
    1.0,
    -1.0,
    2.0,
    1e-5,
    -0.0,
    3.7,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e308,
    1e18,
    -1e300,
    5e-324,
];
const STRINGS: &[&str] = &[
    "mean",
    "sum",
    "none",
    "",
    "reflect",
    "circular",
    "replicate",
    "constant",
    "trunc",
    "floor",
    "bilinear",
    "nearest",
    "bicubic",
    "area",
    "linear",
    "ij,jk->ik",
    "ij->ji",
    "ii",
    "xy",
    "ij",
    "tanh",
    "amax",
    "amin",
    "prod",
    "reduced",
    "complete",
    "r",
    "L",
    "gelsd",
    "fro",
    "nuc",
    "valid",
    "same",
    "left",
    "higher",
    "midpoint",
    "ortho",
    "forward",
    "backward",
    "cpu",
    "\u{1f525}",
];

impl<'a> Program<'a> {
    fn byte(&mut self) -> usize {
        let Some((b, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(*b)
    }
    fn below(&mut self, n: usize) -> usize {
        if n <= 256 { self.byte() % n.max(1) } else { (self.byte() << 8 | self.byte()) % n }
    }
    /// One of a list, the earlier the likelier.
    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        let (a, b) = (self.byte(), all.len());
        all[a * a * b / 65_536].clone()
    }
    fn keep(&mut self, t: Tensor) {
        if t.dim() > 10 || t.numel() > LARGE {
            return;
        }
        if self.tensors.len() < KEPT {
            self.tensors.push(t);
        } else {
            let at = self.below(KEPT);
            self.tensors[at] = t;
        }
    }
    fn keep_all(&mut self, values: &[Value]) {
        for v in values {
            match v {
                Value::Tensor(t) => self.keep(t.clone()),
                Value::List(l) | Value::Tuple(l) => self.keep_all(l),
                _ => {}
            }
        }
    }
    fn live(&mut self) -> Result<Tensor> {
        if self.tensors.is_empty() {
            return self.fresh();
        }
        let at = self.below(self.tensors.len());
        Ok(self.tensors[at].clone())
    }
    fn tensor(&mut self) -> Result<Tensor> {
        if self.byte() < 200 { self.live() } else { self.fresh() }
    }
    fn fresh(&mut self) -> Result<Tensor> {
        let sizes = self.of(SIZES);
        let plain = |p: &mut Self| {
            let d = p.of(&DTYPES[..18]);
            cast(&f32s(sizes)?, d)
        };
        match self.byte() {
            0..120 => plain(self),
            120..190 => {
                let d = self.of(&[DType::F32, DType::F64, DType::C64, DType::BF16]);
                let t = cast(&f32s(sizes)?, d)?;
                t.try_requires_grad_(true)?;
                Ok(t)
            }
            _ => self.strange(sizes),
        }
    }
    fn strange(&mut self, sizes: &[i64]) -> Result<Tensor> {
        let plain = |p: &mut Self| {
            let d = p.of(&DTYPES[..18]);
            cast(&f32s(sizes)?, d)
        };
        match self.byte() {
            0..140 if self.below(3) > 0 => ops::transpose(&plain(self)?, 0, -1),
            0..140 => {
                let wide = [&[2], sizes].concat();
                ops::select(&cast(&f32s(&wide)?, DType::F32)?, 0, 1)
            }
            140..150 => ops::expand(&ops::ones(&vec![1; sizes.len()], None, None, None, None)?, sizes, false),
            150..160 => {
                let t = plain(self)?;
                ops::as_strided(&t, &[2, 2, 2], &[1, 1, 0], None)
            }
            160..168 => ops::transpose(&plain(self)?, 0, -1),
            168..176 => ops::empty(sizes, None, None, Some(Device::Meta), None, None),
            176..184 => first("torch.Tensor.to_sparse", &[plain(self)?.into()]),
            184..188 => first("torch.Tensor.to_sparse_csr", &[plain(self)?.into()]),
            188..196 => {
                let d = self.of(&[DType::QU8, DType::QI8, DType::QI32]);
                let scale = Value::Float(self.of(FLOATS));
                first(
                    "torch.quantize_per_tensor",
                    &[f32s(sizes)?.into(), scale, Value::Int(1), Value::DType(d)],
                )
            }
            196..200 => {
                let args = [
                    f32s(&[2, 2])?.into(),
                    f32s(&[2])?.into(),
                    ops::zeros(&[2], Some(DType::I64), None, None, None)?.into(),
                ];
                first(
                    "torch.quantize_per_channel",
                    &[&args[..], &[Value::Int(0), Value::DType(DType::QI8)]].concat(),
                )
            }
            200..206 => {
                let parts = vec![f32s(&[2, 2])?.into(), f32s(&[3, 2])?.into()];
                first("torch.nested.nested_tensor", &[Value::List(parts)])
            }
            206..212 => {
                let offsets = Tensor::from_vec(vec![0i64, 2, 5], [3]);
                self.keep(offsets.clone());
                first("torch.nested.nested_tensor_from_jagged", &[f32s(&[5, 2])?.into(), offsets.into()])
            }
            212..216 => {
                let x = f32s(&[2, 2])?;
                first("torch.masked.as_masked_tensor", &[(&x).into(), cast(&x, DType::Bool)?.into()])
            }
            216..222 => ops::conj(&cast(&f32s(sizes)?, DType::C64)?),
            222..226 => ops::neg_view(&plain(self)?),
            226..232 => ops::full(sizes, self.of(FLOATS).into(), None, None, None, None),
            232..238 => ops::full(sizes, self.of(INTS).into(), Some(DType::I64), None, None, None),
            238..244 => ops::ones(sizes, None, None, None, None)?.try_rename("A"),
            244..248 => Ok(ops::zeros(&[], None, None, None, None)?),
            _ => ops::expand(&f32s(&[1])?, &[1 << 18], false),
        }
    }
    fn int(&mut self) -> i64 {
        if self.byte() < 24 { INTS[self.below(INTS.len())] } else { self.of(&INTS[..10]) }
    }
    fn ints(&mut self) -> Value {
        match self.byte() {
            0..90 => self.live().map_or(Value::None, |t| list(t.sizes())),
            90..110 => {
                let all = self.of(SIZES);
                list(all)
            }
            110..120 => self.live().map_or(Value::None, |t| list(&(0..t.dim() as i64).collect::<Vec<_>>())),
            _ => {
                let n = self.below(6);
                list(&(0..n).map(|_| self.int()).collect::<Vec<_>>())
            }
        }
    }
    fn scalar(&mut self) -> Value {
        match self.below(5) {
            0 | 1 => Value::Int(self.int()),
            2 | 3 => Value::Float(self.of(FLOATS)),
            _ => {
                let mut c = Scalar::Int(self.int()).to_complex();
                c.im = self.of(FLOATS);
                Value::Complex(c)
            }
        }
    }
    fn argument(&mut self, a: &Arg) -> Result<Value> {
        if a.default != Default_::Required && self.byte() < 100 {
            return Ok(match a.default {
                Default_::Int(i) => Value::Int(i),
                Default_::Float(f) => Value::Float(f),
                Default_::Bool(b) => Value::Bool(b),
                Default_::Str(s) => Value::Str(s.to_string()),
                Default_::IntList(l) => list(l),
                Default_::MemoryFormat(m) => Value::MemoryFormat(m),
                Default_::Layout(l) => Value::Layout(l),
                _ => Value::None,
            });
        }
        Ok(match a.ty {
            Ty::Tensor | Ty::OptTensor => self.tensor()?.into(),
            Ty::TensorList => {
                Value::List((0..self.below(4)).map(|_| Ok(self.tensor()?.into())).collect::<Result<_>>()?)
            }
            Ty::OptTensorList => {
                let one = |p: &mut Self| Ok(if p.below(4) == 0 { Value::None } else { p.tensor()?.into() });
                Value::List((0..self.below(4)).map(|_| one(self)).collect::<Result<_>>()?)
            }
            Ty::Scalar | Ty::OptScalar => self.scalar(),
            Ty::ScalarList => Value::List((0..self.below(4)).map(|_| self.scalar()).collect()),
            Ty::Int | Ty::OptInt => Value::Int(self.int()),
            Ty::IntList(_) | Ty::OptIntList(_) => self.ints(),
            Ty::Float | Ty::OptFloat => Value::Float(self.of(FLOATS)),
            Ty::FloatList | Ty::OptFloatList => {
                Value::List((0..self.below(4)).map(|_| Value::Float(self.of(FLOATS))).collect())
            }
            Ty::Bool | Ty::OptBool => Value::Bool(self.below(2) == 1),
            Ty::BoolList => {
                Value::List((0..self.below(5)).map(|_| Value::Bool(self.below(2) == 1)).collect())
            }
            Ty::Str | Ty::OptStr => Value::Str(STRINGS[self.below(STRINGS.len())].to_string()),
            Ty::DType | Ty::OptDType => Value::DType(self.of(DTYPES)),
            Ty::Device | Ty::OptDevice => {
                Value::Device(self.of(&[Device::Cpu, Device::Meta, Device::Cuda(0)]))
            }
            Ty::MemoryFormat | Ty::OptMemoryFormat => Value::MemoryFormat(self.of(&[
                MemoryFormat::Contiguous,
                MemoryFormat::Preserve,
                MemoryFormat::ChannelsLast,
                MemoryFormat::ChannelsLast3d,
            ])),
            Ty::OptGenerator if self.below(4) == 0 => Value::Generator(Generator::new()),
            Ty::OptLayout | Ty::OptGenerator => Value::None,
        })
    }
    fn operator(&mut self) -> Result<()> {
        let op = OPERATORS[self.below(OPERATORS.len())];
        let args = op.info().schema.args.iter().map(|a| self.argument(a)).collect::<Result<Vec<_>>>()?;
        if self.shown {
            eprintln!("aten::{} {args:?}", op.info().name);
        }
        let r = op.call_boxed(&args)?;
        self.keep_all(&r);
        Ok(())
    }
    fn named(&mut self) -> Result<()> {
        let name = &NAMES[self.below(NAMES.len())];
        let mut args = Vec::new();
        for i in 0..self.below(5) {
            args.push(match self.byte() {
                b if i == 0 && b < 200 || b < 100 => self.tensor()?.into(),
                100..140 => self.scalar(),
                140..170 => self.ints(),
                170..190 => Value::Bool(true),
                190..205 => Value::Str(STRINGS[self.below(STRINGS.len())].to_string()),
                205..220 => Value::DType(self.of(DTYPES)),
                220..240 => Value::List(vec![self.live()?.into(), self.live()?.into()]),
                _ => Value::None,
            });
        }
        if self.shown {
            eprintln!("{name} {args:?}");
        }
        let r = library::call(name, &args, &[])?;
        self.keep_all(&r);
        Ok(())
    }
    fn view(&mut self) -> Result<()> {
        let t = self.live()?;
        let v = match self.below(12) {
            0 => ops::transpose(&t, 0, -1),
            1 => ops::select(&t, self.int().clamp(-3, 3), self.int()),
            2 => ops::slice(&t, 0, Some(self.int()), Some(self.int()), self.int().max(1)),
            3 => ops::reshape(&t, &[-1]),
            4 => ops::expand(&t, &[&[2], t.sizes()].concat(), false),
            5 => ops::unsqueeze(&t, 0),
            6 => ops::detach(&t),
            7 => ops::diagonal(&t, self.int(), 0, 1),
            8 => ops::as_strided(&t, &[2, 2], &[self.int(), self.int()], Some(self.int())),
            9 => ops::unfold(&t, 0, self.int(), self.int()),
            10 => first("torch.Tensor.view", &[t.into(), Value::DType(self.of(DTYPES))]),
            _ => ops::conj(&t),
        }?;
        self.keep(v);
        Ok(())
    }
    /// What changes a tensor under its views and its history.
    fn change(&mut self) -> Result<()> {
        let (mut t, other) = (self.live()?, self.live()?);
        if self.shown {
            eprintln!("change {:?} {:?}", t.sizes(), other.sizes());
        }
        match self.below(14) {
            0 => t.try_resize_(self.of(SIZES), None)?,
            1 => t.try_set_(Some(&other))?,
            2 => t.storage().grow(1 << 12)?,
            3 => t.try_set_grad(Some(other))?,
            4 => t.try_set_grad(None)?,
            5 => t.try_detach_()?,
            6 => t.try_retain_grad()?,
            7 => t.try_requires_grad_(self.below(3) > 0)?,
            8 => t.try_resize_as_(&other, None)?,
            9 => drop(ops::copy_(&t, &other, false)?),
            10 => drop(ops::add_(&t, &other, 1.into())?),
            11 => {
                let (strides, storage) = (t.strides().to_vec(), TypedStorage::of(&other));
                t.try_set_storage_(&storage, self.int(), Some(other.sizes()), &strides)?;
            }
            12 => drop(first("torch.utils.swap_tensors", &[t.clone().into(), other.into()])?),
            _ => drop(ops::mul_(&t, &t)?),
        }
        self.keep(t);
        Ok(())
    }
    fn backward(&mut self) -> Result<()> {
        let all: Vec<Tensor> = self.tensors.iter().filter(|t| t.requires_grad()).cloned().collect();
        if all.is_empty() {
            return Ok(());
        }
        let t = all[self.below(all.len())].clone();
        let real = if t.is_complex() { ops::view_as_real(&t)? } else { t };
        let s = ops::sum(&real, None, false, None)?;
        let o = BackwardOptions::new();
        let which = if self.graphs < 3 { self.below(4) } else { self.below(2) };
        self.graphs += usize::from(which > 1);
        if self.shown {
            eprintln!("backward {which}");
        }
        match which {
            0 => s.try_backward(o),
            1 => s.try_backward(o.retain_graph(true)),
            2 => s.try_backward(o.create_graph(true)),
            _ => {
                let wrt = all[self.below(all.len())].clone();
                let a = Value::List(vec![wrt.into()]);
                let r = library::call(
                    "torch.autograd.grad",
                    &[s.into(), a],
                    &[("create_graph".into(), true.into())],
                )?;
                self.keep_all(&r);
                Ok(())
            }
        }
    }
    fn hook(&mut self) -> Result<()> {
        if self.below(3) == 0 && !self.hooks.is_empty() {
            let at = self.below(self.hooks.len());
            self.hooks.swap_remove(at).remove();
            return Ok(());
        }
        let (t, other) = (self.live()?, self.live()?);
        if !t.requires_grad() {
            return Ok(());
        }
        let which = self.below(5);
        // taken out while hooks run
        let earlier = if which == 3 { self.hooks.pop() } else { None };
        let mine = t.clone();
        let handle = t.register_hook(move |g: &Tensor| match which {
            0 => Some(other.clone()),
            1 => panic_any(Thrown),
            2 => ops::mul_(g, g).ok().map(|()| g.clone()),
            3 => {
                earlier.iter().for_each(RemovableHandle::remove);
                mine.grad()
            }
            _ => None,
        });
        self.hooks.push(handle);
        Ok(())
    }
    fn region(&mut self) -> Result<()> {
        if self.guards.len() > 4 || (self.below(2) == 0 && !self.guards.is_empty()) {
            let at = self.below(self.guards.len());
            drop(self.guards.remove(at));
            return Ok(());
        }
        let other = self.live()?;
        let which = self.below(11);
        if self.shown {
            eprintln!("region {which}");
        }
        let g: Box<dyn Any> = match which {
            0 => Box::new(torch::no_grad_guard()),
            1 => Box::new(torch::enable_grad_guard()),
            2 => Box::new(torch::inference_mode_guard(true)),
            3 => Box::new(torch::inference_mode_guard(false)),
            4 => {
                let d = self.of(&[DType::BF16, DType::F16]);
                Box::new(amp::try_autocast_guard(amp::AutocastOptions::new("cpu").dtype(d))?)
            }
            5 => Box::new(push_function_mode(|c: &OperatorCall<'_>| c.call_on())),
            6 => Box::new(push_dispatch_mode(|c: &OperatorCall<'_>| c.call_on())),
            7 => Box::new(push_dispatch_mode(move |c: &OperatorCall<'_>| {
                let r = c.call_on()?;
                Ok(if c.name().len().is_multiple_of(7) { vec![other.clone().into(); r.len()] } else { r })
            })),
            8 => Box::new(saved_tensors_hooks(
                Arc::new(|t: &Tensor| Ok(Box::new(t.clone()))),
                Arc::new(move |packed| match packed.downcast_ref::<Tensor>() {
                    Some(t) if t.dim() != 2 => Ok(t.clone()),
                    _ => Ok(other.clone()),
                }),
            )),
            9 => Box::new(push_function_mode(|c: &OperatorCall<'_>| {
                if c.name().len().is_multiple_of(11) { panic_any(Thrown) } else { c.call_on() }
            })),
            _ => Box::new(torch::autograd::set_detect_anomaly_guard(true, false)),
        };
        self.guards.push(g);
        Ok(())
    }
    fn read(&mut self) -> Result<()> {
        let t = self.live()?;
        if self.shown {
            eprintln!("read {:?} {:?}", t.sizes(), t.dtype());
        }
        match self.below(6) {
            0 => drop(format!("{t}")),
            1 => drop(t.try_to_vec::<f64>()?),
            2 => drop(t.try_tolist()?),
            3 => drop(t.try_item::<f64>()?),
            // a writer of a small memory would be the program's own abort
            4 if t.storage().nbytes() < 1 << 20 => {
                let bytes = torch::serialization::save_to(&vec![t], Vec::new())?;
                torch::serialization::load_from(Cursor::new(bytes), LoadOptions::new())?;
            }
            _ => drop(library::repr(&t.into())),
        }
        Ok(())
    }
    /// The rest of the program on three threads, over the same tensors.
    fn threads(&mut self) {
        let rest = self.bytes;
        self.bytes = &[];
        let shown = self.shown;
        let ends = std::thread::scope(|s| {
            let all: Vec<_> = rest
                .chunks(rest.len().div_ceil(3).max(1))
                .map(|part| {
                    let tensors = self.tensors.clone();
                    let go = move || {
                        let mut p = Program {
                            bytes: part,
                            shown,
                            tensors,
                            guards: Vec::new(),
                            hooks: Vec::new(),
                            graphs: 0,
                        };
                        p.run();
                    };
                    std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(s, go)
                })
                .collect();
            all.into_iter().flatten().map(|t| t.join()).collect::<Vec<_>>()
        });
        if let Some(Err(e)) = ends.into_iter().find(|e| e.is_err()) {
            resume_unwind(e);
        }
    }
    fn run(&mut self) {
        for _ in 0..3 {
            if let Ok(t) = self.fresh() {
                self.keep(t);
            }
        }
        while !self.bytes.is_empty() {
            let r = catch_unwind(AssertUnwindSafe(|| match self.byte() {
                0..130 => self.operator(),
                130..150 => self.named(),
                150..175 => self.view(),
                175..200 => self.change(),
                200..220 => self.backward(),
                220..228 => self.hook(),
                228..240 => self.region(),
                240..252 => self.read(),
                252 => {
                    self.threads();
                    Ok(())
                }
                _ => {
                    let t = self.fresh()?;
                    self.keep(t);
                    Ok(())
                }
            }));
            match r {
                Ok(Ok(())) if self.shown => eprintln!("    done"),
                Ok(Err(e)) if self.shown => eprintln!("    {e}"),
                Err(p) if !p.is::<Thrown>() => resume_unwind(p),
                _ => {}
            }
        }
        // guards end in any order
        while !self.guards.is_empty() {
            drop(self.guards.swap_remove(0));
        }
    }
}

/// Runs the program that `bytes` spell out; a panic that is not its own user code's goes on.
pub fn run(bytes: &[u8], shown: bool) {
    let mut p =
        Program { bytes, shown, tensors: Vec::new(), guards: Vec::new(), hooks: Vec::new(), graphs: 0 };
    p.run();
    drop(p);
    let x = torch::ones([2, 2]).requires_grad_(true);
    let y = ops::matmul(&x, &x).and_then(|y| ops::sum(&y, None, false, None));
    let back = y.and_then(|y| y.try_backward(BackwardOptions::new()));
    assert!(
        back.is_ok() && x.grad().is_some_and(|g| g.dtype() == DType::F32),
        "the thread is another one afterwards"
    );
}
