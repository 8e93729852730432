//! Functions without writes: the same results, and no write that a mode outside could see.

use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::overrides::{OperatorCall, push_function_mode};
use flambeau_core::dispatch::registry;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use flambeau_func::{
    FunctionalizeOptions, Remove, VmapOptions, functionalize, grad, try_functionalize, try_vmap,
};
use std::cell::RefCell;
use std::rc::Rc;

fn x() -> Tensor {
    Tensor::from_vec((1..=12).map(|v| f64::from(v) / 4.0).collect(), [3, 4])
}
fn n(v: f64) -> Tensor {
    Tensor::wrapped_raw::<f64>(v).unwrap()
}
/// Names of the operators that a mode outside of the function sees, and whether they write.
fn seen<R>(f: impl FnOnce() -> R) -> (R, Vec<(&'static str, bool)>) {
    let names = Rc::new(RefCell::new(Vec::new()));
    let log = names.clone();
    let mode = push_function_mode(move |c: &OperatorCall<'_>| {
        log.borrow_mut().push((c.name(), c.schema().mutates()));
        c.call_on()
    });
    let r = f();
    drop(mode);
    (r, Rc::try_unwrap(names).map(RefCell::into_inner).unwrap_or_default())
}
type F = fn(&Tensor) -> Result<Tensor>;
/// Writes of all kinds, through views of all kinds.
const CASES: &[(&str, F)] = &[
    ("arithmetic", |x| {
        let y = ops::clone(x, None)?;
        ops::mul_(&y, &n(2.0))?;
        ops::add_(&y, x, Scalar::Int(1))?;
        ops::exp_(&y)?;
        ops::add(&y, x, Scalar::Int(1))
    }),
    ("slice and select", |x| {
        let y = ops::clone(x, None)?;
        let row = ops::select(&ops::slice(&y, 1, Some(1), Some(3), 1)?, 0, 2)?;
        ops::mul_(&row, &n(7.0))?;
        ops::add(&y, &ops::sum(&row, None, false, None)?, Scalar::Int(1))
    }),
    ("transposed and reshaped", |x| {
        let y = ops::clone(x, None)?;
        let flat = ops::view(&y, &[2, 6])?;
        let t = ops::permute(&flat, &[1, 0])?;
        ops::sin_(&ops::select(&t, 0, 3)?)?;
        ops::mul_(&ops::unsqueeze(&flat, 0)?, &n(3.0))?;
        ops::add(&y, &ops::reshape(&t, &[3, 4])?, Scalar::Int(1))
    }),
    ("diagonal and strides", |x| {
        let y = ops::clone(x, None)?;
        ops::neg_(&ops::diagonal(&y, 1, 0, 1)?)?;
        ops::copy_(&ops::as_strided(&y, &[2], &[3], Some(1))?, &ops::select(x, 1, 0)?.slice_to(2)?, false)?;
        Ok(y)
    }),
    ("windows", |x| {
        let y = ops::clone(x, None)?;
        let parts = ops::split(&y, 2, 1)?;
        ops::abs_(&ops::neg(&parts[0])?)?;
        ops::mul_(&parts[1], &n(-1.0))?;
        Ok(y)
    }),
    ("made inside", |x| {
        let y = ops::zeros(&[3, 4], Some(x.dtype()), None, None, None)?;
        ops::add_(&y, x, Scalar::Int(1))?;
        ops::copy_(&ops::select(&y, 0, 0)?, &ops::select(x, 0, 1)?, false)?;
        Ok(y)
    }),
    ("outputs", |x| {
        let mut y = ops::zeros(&[3, 4], Some(x.dtype()), None, None, None)?;
        ops::add_out(x, x, Scalar::Int(2), &mut y)?;
        let (mut largest, mut at) = (
            ops::clone(&ops::select(x, 1, 0)?, None)?,
            ops::zeros(&[3], Some(DType::I64), None, None, None)?,
        );
        ops::max_dim_out(&y, 1, false, &mut largest, &mut at)?;
        let mut whole = ops::zeros(&[3, 4], Some(DType::C128), None, None, None)?;
        ops::mul_out(x, x, &mut whole)?;
        ops::add(
            &ops::add(&y, &ops::unsqueeze(&largest, 1)?, Scalar::Int(1))?,
            &ops::real(&whole)?,
            Scalar::Int(1),
        )
    }),
    ("masks and places", |x| {
        let y = ops::clone(x, None)?;
        ops::masked_fill_(&y, &ops::gt(x, &n(1.5))?, Scalar::Float(0.5))?;
        ops::clamp_(&y, Some(Scalar::Float(0.3)), Some(Scalar::Float(0.4)))?;
        Ok(y)
    }),
];
trait SliceTo: Sized {
    fn slice_to(self, n: i64) -> Result<Tensor>;
}
impl SliceTo for Tensor {
    fn slice_to(self, n: i64) -> Result<Tensor> {
        ops::slice(&self, 0, Some(0), Some(n), 1)
    }
}

#[test]
fn results_are_the_same_and_nothing_is_written() {
    for (name, f) in CASES {
        let want = f(&x()).unwrap().to_vec::<f64>();
        for remove in [Remove::Mutations, Remove::MutationsAndViews] {
            let pure = try_functionalize(f, FunctionalizeOptions::new().remove(remove));
            let (y, calls) = seen(|| pure(&x()).unwrap());
            assert_eq!(y.to_vec::<f64>(), want, "{name}");
            assert!(calls.iter().all(|c| !c.1), "{name}: {calls:?}");
            if remove == Remove::MutationsAndViews {
                let views = ["select.int", "slice.Tensor", "permute", "diagonal", "as_strided", "unsqueeze"];
                assert!(!calls.iter().any(|c| views.contains(&c.0)), "{name}: {calls:?}");
            }
        }
    }
}
#[test]
fn an_output_that_is_refused_is_refused() {
    let pure = try_functionalize(
        |x: &Tensor| {
            let mut y = ops::zeros(&[3, 4], Some(DType::I64), None, None, None)?;
            ops::add_out(x, x, Scalar::Int(1), &mut y).map(|()| y)
        },
        FunctionalizeOptions::new(),
    );
    let e = pure(&x()).unwrap_err();
    assert!(e.message().starts_with("result type Double can't be cast"), "{e}");
}
/// Operators know what gives the same without a write, in programs without names too.
#[test]
fn what_writes_knows_its_functional_operator() {
    let mut without = Vec::new();
    for op in registry::crates().iter().flat_map(|c| c.ops) {
        let info = op.info();
        let twin = info.functional;
        if let Some(f) = twin {
            assert!(!f.schema.mutates(), "{}", info.name);
            let names = |i: &OpInfo| i.schema.args.iter().map(|a| a.name).collect::<Vec<_>>();
            let (own, other) = (names(info), names(f));
            assert!(own.starts_with(&other) || other.starts_with(&own), "{}: {}", info.name, f.name);
        }
        let (base, overload) = info.name.split_once('.').map_or((info.name, None), |(b, o)| (b, Some(o)));
        if info.schema.mutates() && twin.is_none() {
            let plain = base.strip_suffix('_').unwrap_or(base);
            let plain = overload.map_or_else(|| plain.to_string(), |o| format!("{plain}.{o}"));
            let all = registry::crates();
            if all.iter().flat_map(|c| c.ops).any(|o| o.info().name == plain && plain != info.name) {
                without.push(info.name);
            }
        }
    }
    assert_eq!(without, [""; 0], "operators whose functional form is not found");
}
#[test]
fn writes_to_arguments_arrive() {
    let f = |x: &Tensor| {
        ops::mul_(&ops::select(x, 0, 0).unwrap(), &n(10.0)).unwrap();
        ops::sum(x, None, false, None).unwrap()
    };
    let (a, b) = (x(), x());
    let sum = f(&a);
    assert_eq!(functionalize(f)(&b).to_vec::<f64>(), sum.to_vec::<f64>());
    assert_eq!(a.to_vec::<f64>(), b.to_vec::<f64>());
}
#[test]
fn captured_tensors_are_read_alone() {
    let captured = x();
    let pure = try_functionalize(
        |x: &Tensor| ops::add_(&captured, x, Scalar::Int(1)).map(|()| x.clone()),
        FunctionalizeOptions::new(),
    );
    let e = pure(&x()).unwrap_err();
    assert!(e.message().starts_with("mutating a non-functional tensor with a functional tensor"), "{e}");
    assert_eq!(captured.to_vec::<f64>(), x().to_vec::<f64>());
}
#[test]
fn with_other_transforms() {
    // without `functionalize`, writes to one of several views and to outputs have no gradient
    for (name, f) in CASES.iter().filter(|c| !["windows", "outputs"].contains(&c.0)) {
        let sum = |x: &Tensor| ops::sum(&f(x).unwrap(), None, false, None).unwrap();
        let want = grad(sum)(&x()).to_vec::<f64>();
        assert_eq!(grad(functionalize(sum))(&x()).to_vec::<f64>(), want, "{name}");
        if *name == "made inside" {
            // vmap refuses to write slices to what they share
            continue;
        }
        let both = ops::stack(&[x(), ops::neg(&x()).unwrap()], 0).unwrap();
        let want = try_vmap(f, VmapOptions::new())(&both).unwrap().to_vec::<f64>();
        let pure = try_functionalize(f, FunctionalizeOptions::new());
        let inside = try_vmap(|x: &Tensor| pure(x), VmapOptions::new())(&both);
        assert_eq!(inside.unwrap().to_vec::<f64>(), want, "{name}");
        let mapped = try_vmap(f, VmapOptions::new());
        let outside = try_functionalize(|x: &Tensor| mapped(x), FunctionalizeOptions::new())(&both);
        assert_eq!(outside.unwrap().to_vec::<f64>(), want, "{name}");
    }
}
