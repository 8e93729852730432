//! A key from outside core: a boxed fallback that sees every operator call and calls on below itself. What vmap, tracing
//! and autocast will do needs no change of any operator.
#![allow(clippy::disallowed_methods, reason = "the test's own thread-locals, while its threads live")]

use flambeau_core::dispatch::op::{AnyOp, OpInfo};
use flambeau_core::dispatch::registry::{self, CrateReg};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::internal::{below, including};
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::types::schema::{Default_, Ty};
use flambeau_core::{ErrorKind, Result, Tensor, Value, functions as torch, ops};
use std::cell::RefCell;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn toy(info: &'static OpInfo, key: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    assert_eq!(key, Key::Mode);
    LOG.with_borrow_mut(|l| l.push(info.name));
    below(Key::Mode, || (info.boxed)(&args))
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        assert!(registry::set_fallback(Key::Mode, Some(toy)), "the first setting is taken");
    });
}

/// Names of the operators that the key saw while `f` ran.
fn seen<R>(f: impl FnOnce() -> R) -> (Vec<&'static str>, R) {
    install();
    LOG.take();
    let r = including(KeySet::of(Key::Mode), f);
    (LOG.take(), r)
}

fn grid() -> Tensor {
    Tensor::from_vec(vec![1f32, -2., 3., -4., 5., -6.], [2, 3])
}

#[test]
fn typed_calls_of_every_kind_pass_through() {
    let a = grid();
    let (log, b) = seen(|| ops::add(&a, &a, 2.into()).unwrap());
    assert_eq!(log, ["add.Tensor"]);
    assert_eq!(b.to_vec::<f32>(), [3., -6., 9., -12., 15., -18.]);

    let (log, s) = seen(|| ops::sum(&a, Some(&[1]), false, None).unwrap());
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(s.to_vec::<f32>(), [2., -5.]);

    let (log, (values, indices)) = seen(|| ops::max_dim(&a, 1, false).unwrap());
    assert_eq!(log, ["max.dim"]);
    assert_eq!((values.to_vec::<f32>(), indices.to_vec::<i64>()), (vec![3., 5.], vec![2, 1]));

    let (log, p) = seen(|| ops::mm(&a, &a.transpose(0, 1)).unwrap());
    assert_eq!(log, ["transpose.int", "mm"]);
    assert_eq!(p.sizes(), [2, 2]);

    let (log, parts) = seen(|| ops::unbind(&a, 0).unwrap());
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(parts[1].to_vec::<f32>(), [-4., 5., -6.]);

    let (log, c) = seen(|| ops::cat(&[a.clone(), a.clone()], 0).unwrap());
    assert_eq!(log, ["cat"]);
    assert_eq!(c.sizes(), [4, 3]);
}

#[test]
fn views_stay_views() {
    let a = grid();
    let (log, v) = seen(|| ops::transpose(&a, 0, 1).unwrap());
    assert_eq!(log, ["transpose.int"]);
    assert!(v.storage().same(a.storage()));
    let (log, v) = seen(|| ops::view(&v.transpose(0, 1), &[6]).unwrap());
    assert_eq!(log, ["transpose.int", "view"]);
    v.fill_(7);
    assert_eq!(a.to_vec::<f32>(), [7.; 6]);
}

#[test]
fn in_place_forms_write_their_tensor() {
    let a = grid();
    let row = a.select(0, 1);
    let version = a.version();
    let (log, ()) = seen(|| ops::add_(&row, &row, 1.into()).unwrap());
    assert_eq!(log, ["add_.Tensor"]);
    assert_eq!(a.to_vec::<f32>(), [1., -2., 3., -8., 10., -12.]);
    assert_eq!(a.version(), version + 1);
}

#[test]
fn out_forms_write_or_resize_out() {
    let a = grid();
    let mut out = torch::zeros([2, 3]);
    let alias = out.clone();
    let (log, ()) = seen(|| ops::mul_out(&a, &a, &mut out).unwrap());
    assert_eq!(log, ["mul.out"]);
    assert_eq!(alias.to_vec::<f32>(), [1., 4., 9., 16., 25., 36.]);
    assert!(out.storage().same(alias.storage()));
    let mut small = torch::zeros([0]);
    let (log, ()) = seen(|| ops::add_out(&a, &a, 1.into(), &mut small).unwrap());
    assert_eq!(log, ["add.out"]);
    assert_eq!(small.sizes(), [2, 3]);
}

#[test]
fn boxed_calls_and_factories_pass_through() {
    let a = grid();
    let boxed = |name: &str, args: &[Value]| registry::find(name).unwrap().call_boxed(args).unwrap();
    let (log, r) = seen(|| boxed("aten::add.Tensor", &[(&a).into(), (&a).into(), Value::Int(3)]));
    assert_eq!(log, ["add.Tensor"]);
    let Some(Value::Tensor(t)) = r.first() else { panic!("{r:?}") };
    assert_eq!(t.to_vec::<f32>(), [4., -8., 12., -16., 20., -24.]);
    let (log, _) =
        seen(|| boxed("aten::mul_.Tensor", &[(&a).into(), Tensor::scalar_raw(0f32).unwrap().into()]));
    assert_eq!(log, ["mul_.Tensor"]);
    assert_eq!(a.to_vec::<f32>(), [0.; 6]);
    // no tensor among the arguments
    let (log, z) = seen(|| ops::zeros(&[2], None, None, None, None).unwrap());
    assert_eq!(log, ["zeros"]);
    assert_eq!(z.sizes(), [2]);
}

#[test]
fn composites_pass_through_as_one_call() {
    let a = grid();
    let composites: Vec<&str> = registry::crates()
        .iter()
        .flat_map(|c| c.ops)
        .filter(|o| o.info().composite)
        .map(|o| o.info().name)
        .collect();
    for name in ["reshape", "matmul"] {
        assert!(composites.contains(&name), "{name} is no composite any more: choose another");
    }
    let (log, r) = seen(|| ops::reshape(&a, &[3, 2]).unwrap());
    assert_eq!(log, ["reshape"], "what it is made of runs below the key");
    assert_eq!(r.sizes(), [3, 2]);
    let (log, m) = seen(|| ops::matmul(&a, &r).unwrap());
    assert_eq!(log, ["matmul"]);
    assert_eq!(m.sizes(), [2, 2]);
}

#[test]
fn a_tensor_may_carry_the_key_itself() {
    install();
    LOG.take();
    let a = grid();
    let handle = a.clone();
    handle.set_key(Key::Mode, true);
    let b = ops::exp(&a).unwrap();
    let c = ops::exp(&b).unwrap();
    assert_eq!(LOG.take(), ["exp"], "results do not inherit the key");
    assert_eq!(c.sizes(), [2, 3]);
    handle.set_key(Key::Mode, false);
    ops::exp(&a).unwrap();
    assert!(LOG.take().is_empty());
}

#[test]
fn errors_come_through_and_the_state_is_restored() {
    let (a, b) = (grid(), torch::zeros([4]));
    let (log, r) = seen(|| ops::add(&a, &b, 1.into()));
    assert_eq!(log, ["add.Tensor"]);
    assert_eq!(r.unwrap_err().kind(), ErrorKind::Shape);
    LOG.take();
    ops::add(&a, &a, 1.into()).unwrap();
    assert!(LOG.take().is_empty(), "the guard ended");
}

/// Every operator whose arguments are tensors and defaults: the key sees exactly one call of that name, and the result
/// has the geometry and dtype of the plain call.
#[test]
fn the_whole_table_passes_through() {
    type Shape = (Vec<i64>, flambeau_core::DType);
    fn shapes(v: &[Value], into: &mut Vec<Shape>) {
        for v in v {
            match v {
                Value::Tensor(t) => into.push((t.sizes().to_vec(), t.dtype())),
                Value::List(l) | Value::Tuple(l) => shapes(l, into),
                _ => {}
            }
        }
    }
    fn arguments(op: &dyn AnyOp) -> Option<Vec<Value>> {
        let x = || Tensor::from_vec(vec![0.5f32, 0.25, 0.75, 1.0], [2, 2]);
        op.info()
            .schema
            .args
            .iter()
            .map(|a| match (a.default, a.ty) {
                (Default_::Required, Ty::Tensor) => Some(Value::Tensor(x())),
                (Default_::Required, Ty::TensorList) => Some(Value::List(vec![x().into(), x().into()])),
                (Default_::Required, Ty::Int) => Some(Value::Int(1)),
                (Default_::Required, Ty::Scalar) => Some(Value::Float(0.5)),
                (Default_::Required, Ty::IntList(_)) => Some(Value::List(vec![Value::Int(2), Value::Int(2)])),
                (Default_::Required, _) => None,
                (Default_::None, _) => Some(Value::None),
                (Default_::Int(i), _) => Some(Value::Int(i)),
                (Default_::Float(f), _) => Some(Value::Float(f)),
                (Default_::Bool(b), _) => Some(Value::Bool(b)),
                (Default_::Str(s), _) => Some(Value::Str(s.to_string())),
                (Default_::IntList(l), _) => Some(Value::List(l.iter().map(|i| Value::Int(*i)).collect())),
                (Default_::MemoryFormat(m), _) => Some(Value::MemoryFormat(m)),
                (Default_::Layout(l), _) => Some(Value::Layout(l)),
            })
            .collect()
    }
    let (mut tried, mut broken) = (0, Vec::new());
    for op in registry::crates().iter().flat_map(|c| c.ops) {
        let (Some(plain), Some(keyed)) = (arguments(*op), arguments(*op)) else { continue };
        let Ok(want) = op.call_boxed(&plain) else { continue };
        tried += 1;
        let name = op.info().name;
        let (log, got) = seen(|| op.call_boxed(&keyed));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        shapes(&want, &mut a);
        match got {
            Ok(got) => shapes(&got, &mut b),
            Err(e) => broken.push(format!("{name}: {e}")),
        }
        if log != [name] {
            broken.push(format!("{name}: the key saw {log:?}"));
        } else if a != b {
            broken.push(format!("{name}: {b:?} instead of {a:?}"));
        }
    }
    assert!(tried > 300, "only {tried} operators could be called");
    assert!(broken.is_empty(), "{} of {tried}:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn registration_is_idempotent() {
    install();
    static FILLED: AtomicUsize = AtomicUsize::new(0);
    fn fill() {
        FILLED.fetch_add(1, Ordering::SeqCst);
    }
    static PLUGIN: CrateReg = CrateReg { name: "toy-plugin", ops: &[], fills: &[fill] };
    static TWIN: CrateReg = CrateReg { name: "toy-plugin", ops: &[], fills: &[fill] };
    let before = registry::crates().len();
    registry::register(&PLUGIN);
    registry::register(&PLUGIN);
    registry::register(&TWIN);
    assert_eq!(FILLED.load(Ordering::SeqCst), 1);
    assert_eq!(registry::crates().len(), before + 1);
    registry::register(&flambeau_core::generated::REG);
    let core = registry::crates().iter().filter(|c| c.name == "flambeau-core").count();
    assert_eq!(core, 1);
    // the first fallback stays
    assert!(!registry::set_fallback(Key::Mode, None));
    let (log, _) = seen(|| ops::exp(&grid()).unwrap());
    assert_eq!(log, ["exp"]);
}

/// Whoever registers a crate that another thread is registering, or finds it in the list, finds it registered.
#[test]
fn a_registration_is_seen_whole() {
    install();
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static FILLED: AtomicUsize = AtomicUsize::new(0);
    fn begin() {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        // a fill may look operators up and register again
        assert!(registry::find("aten::exp").is_some());
        registry::register(&SLOW);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    fn end() {
        FILLED.fetch_add(1, Ordering::SeqCst);
    }
    static SLOW: CrateReg = CrateReg { name: "toy-slow-plugin", ops: &[], fills: &[begin, end] };
    let begun = || {
        while BEGUN.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| registry::register(&SLOW));
        s.spawn(|| {
            begun();
            registry::register(&SLOW);
            assert_eq!(FILLED.load(Ordering::SeqCst), 1);
        });
        s.spawn(|| {
            begun();
            assert!(registry::crates().iter().any(|c| c.name == "toy-slow-plugin"));
            assert_eq!(FILLED.load(Ordering::SeqCst), 1);
        });
    });
    assert_eq!((BEGUN.load(Ordering::SeqCst), FILLED.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn gradients_need_no_crate_above() {
    let a = grid();
    a.try_requires_grad_(true).unwrap();
    let y = ops::mul(&ops::exp(&a).unwrap(), &a).unwrap();
    let ones = Tensor::from_vec(vec![1f32; 6], [2, 3]);
    y.try_backward(flambeau_core::BackwardOptions::new().gradient(&ones)).unwrap();
    let x = [1f32, -2., 3., -4., 5., -6.];
    let got = a.grad().unwrap().to_vec::<f32>();
    for (g, x) in got.iter().zip(x) {
        let want = x.exp() * (x + 1.);
        assert!((g - want).abs() <= 1e-6 * want.abs(), "{g} for {want}");
    }
}
