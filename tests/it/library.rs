//! torch.library's documented examples in Rust, and what a program may do with operators of its own.

use flambeau_test_support::alone;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use torch::__core::internal::including;
use torch::__core::types::keys::{Key, KeySet};
use torch::library::*;
use torch::{Device, ErrorKind, Result, Tensor};

fn v(x: &Tensor) -> Value {
    Value::Tensor(x.clone())
}
fn first(r: Result<Vec<Value>>) -> Tensor {
    arg(&r.unwrap(), 0).unwrap()
}
fn doubles(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64])
}

/// ```python
/// @torch.library.custom_op("mylib::numpy_sin", mutates_args=())
/// def numpy_sin(x: Tensor) -> Tensor: ...
/// torch.library.register_autograd("mylib::numpy_sin", backward, setup_context=setup_context)
/// ```
fn sin_op(name: &str) -> CustomOpDef {
    fn sin(x: Tensor) -> Result<Tensor> {
        let v: Vec<f64> = x.to_vec::<f64>().iter().map(|x| x.sin()).collect();
        Ok(Tensor::from_slice(&v, x.sizes()))
    }
    let schema = infer_schema(&sin, &["x"], &[]).unwrap();
    assert_eq!(schema, "(Tensor x) -> Tensor");
    let mut op = custom_op(name, &schema, |a: &[Value]| one(sin(arg(a, 0)?)?)).unwrap();
    op.register_fake(|a: &[Value]| one(torch::empty_like(&arg::<Tensor>(a, 0)?))).unwrap();
    register_autograd(
        &mut op,
        |ctx, inputs, _output| {
            ctx.save_for_backward(&[&arg::<Tensor>(inputs, 0)?]);
            Ok(())
        },
        |ctx, grads| {
            let x = &ctx.saved_tensors()?[0];
            Ok(vec![grads[0].as_ref().map(|g| g.mul(x.cos()))])
        },
    )
    .unwrap();
    op
}

#[test]
fn a_custom_op_has_gradients_and_a_fake_rule() {
    let op = sin_op("mylib::numpy_sin");
    let x = doubles(&[0.5, 1.5, -2.0]).requires_grad_(true);
    let y = first(call("torch.ops.mylib.numpy_sin", &[v(&x)], &[]));
    assert!(y.allclose(&x.sin()));
    y.sum().backward();
    assert!(x.grad().unwrap().allclose(&x.cos()));
    let fake = first(op.call(&[v(&x.detach().to(Device::Meta))], &[]));
    assert_eq!((fake.sizes(), fake.device()), (&[3i64][..], Device::Meta));
    for (test, verdict) in opcheck(op.name(), &[v(&x)], &[], OpcheckOptions::new()).unwrap() {
        verdict.unwrap_or_else(|e| panic!("{test}: {e}"));
    }
    assert!(lookup("mylib::numpy_sin").unwrap().schemas()[0].contains("(Tensor x) -> Tensor"));
}

#[test]
fn keyword_arguments_and_defaults_are_bound_as_in_python() {
    let mut op = custom_op("mylib::numpy_mul", "(Tensor x, *, float val=3.0) -> Tensor", |a: &[Value]| {
        one(arg::<Tensor>(a, 0)?.mul(arg::<f64>(a, 1)?))
    })
    .unwrap();
    register_autograd(
        &mut op,
        |ctx, inputs, _| {
            ctx.store(arg::<f64>(inputs, 1)?);
            Ok(())
        },
        |ctx, grads| {
            let val = *ctx.stored::<f64>().unwrap();
            Ok(vec![grads[0].as_ref().map(|g| g.mul(val))])
        },
    )
    .unwrap();
    let x = doubles(&[1.0, 2.0]).requires_grad_(true);
    let y = first(op.call(&[v(&x)], &[("val".into(), Value::Float(4.0))]));
    y.sum().backward();
    assert_eq!((y.to_vec::<f64>(), x.grad().unwrap().to_vec::<f64>()), (vec![4.0, 8.0], vec![4.0, 4.0]));
    assert_eq!(first(op.call(&[v(&x)], &[])).to_vec::<f64>(), [3.0, 6.0]);
    let e = op.call(&[v(&x), Value::Float(1.0)], &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Type);
}

#[test]
fn without_a_formula_backward_says_what_to_register() {
    let op = custom_op("mylib::opaque", "(Tensor x) -> Tensor", |a: &[Value]| {
        one(arg::<Tensor>(a, 0)?.detach().mul(2))
    })
    .unwrap();
    let x = doubles(&[1.0]).requires_grad_(true);
    let y = first(op.call(&[v(&x)], &[]));
    assert!(y.requires_grad(), "the gradient is not lost silently");
    let e = y.sum().try_backward(torch::options::BackwardOptions::new()).unwrap_err();
    assert!(
        e.message()
            .contains("Trying to backward through mylib::opaque but no autograd formula was registered"),
        "{e}"
    );
    let verdicts = opcheck(op.name(), &[v(&x)], &[], OpcheckOptions::new()).unwrap();
    assert!(verdicts["test_autograd_registration"].is_err());
    assert!(verdicts["test_faketensor"].as_ref().unwrap_err().message().contains("register_fake"));
    assert!(verdicts["test_schema"].is_ok());
}

#[test]
fn opcheck_finds_lies() {
    let x = doubles(&[1.0, 2.0]);
    let checks = OpcheckOptions::new().test_utils(&["test_schema", "test_faketensor"]);
    let silent = custom_op("mylib::silent", "(Tensor x) -> Tensor", |a: &[Value]| {
        let x = arg::<Tensor>(a, 0)?;
        x.add_(1);
        one(x.copy())
    })
    .unwrap();
    let e = opcheck(silent.name(), &[v(&x)], &[], checks.clone())
        .unwrap()
        .remove("test_schema")
        .unwrap()
        .unwrap_err();
    assert!(e.message().contains("argument x is not defined as mutable but was mutated"), "{e}");
    assert_eq!(x.to_vec::<f64>(), [1.0, 2.0], "opcheck works on copies");

    let same =
        custom_op("mylib::same", "(Tensor x) -> Tensor", |a: &[Value]| one(arg::<Tensor>(a, 0)?)).unwrap();
    let e = opcheck(same.name(), &[v(&x)], &[], checks.clone())
        .unwrap()
        .remove("test_schema")
        .unwrap()
        .unwrap_err();
    assert!(e.message().contains("not defined to alias output but was aliasing"), "{e}");

    let idle = custom_op("mylib::idle", "(Tensor(a!) x) -> ()", |_: &[Value]| Ok(vec![])).unwrap();
    let e = opcheck(idle.name(), &[v(&x)], &[], checks.clone())
        .unwrap()
        .remove("test_schema")
        .unwrap()
        .unwrap_err();
    assert!(e.message().contains("defined as mutable but was not mutated"), "{e}");

    let mut shape =
        custom_op("mylib::shape", "(Tensor x) -> Tensor", |a: &[Value]| one(arg::<Tensor>(a, 0)?.sum()))
            .unwrap();
    shape.register_fake(|a: &[Value]| one(torch::empty_like(&arg::<Tensor>(a, 0)?))).unwrap();
    let e = opcheck(shape.name(), &[v(&x)], &[], checks.clone()).unwrap().remove("test_faketensor").unwrap();
    assert!(e.unwrap_err().message().contains("the fake rule gives"));

    let mut slope =
        custom_op("mylib::slope", "(Tensor x) -> Tensor", |a: &[Value]| one(arg::<Tensor>(a, 0)?.mul(3)))
            .unwrap();
    register_autograd(&mut slope, |_, _, _| Ok(()), |_, g| Ok(vec![g[0].clone()])).unwrap();
    let x = x.requires_grad_(true);
    let all = opcheck(slope.name(), &[v(&x)], &[], OpcheckOptions::new()).unwrap();
    assert!(all["test_gradcheck"].is_err());
    // an operator of the table holds what it says
    for (test, verdict) in opcheck("torch.mul", &[v(&x), v(&x)], &[], OpcheckOptions::new()).unwrap() {
        verdict.unwrap_or_else(|e| panic!("{test}: {e}"));
    }
}

/// ```python
/// @torch.library.custom_op("mylib::numpy_sin_inplace", mutates_args={"x"}, device_types="cpu")
/// ```
#[test]
fn arguments_may_be_written() {
    let op = custom_op_on("mylib::add_one_", "(Tensor(a!) x) -> ()", &["cpu"], |a: &[Value]| {
        arg::<Tensor>(a, 0)?.add_(1);
        Ok(vec![])
    })
    .unwrap();
    let x = doubles(&[1.0]);
    op.call(&[v(&x)], &[]).unwrap();
    assert_eq!(x.to_vec::<f64>(), [2.0]);
    opcheck(op.name(), &[v(&x)], &[], OpcheckOptions::new().test_utils(&["test_schema"])).unwrap()["test_schema"]
        .as_ref()
        .unwrap();
    let leaf = doubles(&[1.0]).requires_grad_(true);
    assert_eq!(op.call(&[v(&leaf)], &[]).unwrap_err().kind(), ErrorKind::Autograd);
    let e = op.call(&[v(&x.to(Device::Meta))], &[]).unwrap_err();
    assert!(e.message().contains("no fake impl or Meta kernel registered"), "{e}");
}

#[test]
fn libraries_define_and_implement_and_take_it_all_back() {
    let mut def = Library::new("yourlib", LibraryKind::Def).unwrap();
    assert!(Library::new("yourlib", LibraryKind::Def).is_err(), "one owner");
    assert!(def.define("no schema").is_err());
    assert!(def.define("f(Tensor x, Unknown y) -> Tensor").is_err());
    def.define("twice(Tensor x) -> Tensor").unwrap();
    assert!(def.define("twice(Tensor x) -> Tensor").is_err(), "a name twice");
    let x = doubles(&[1.0, 2.0]);
    assert!(call("yourlib::twice", &[v(&x)], &[]).is_err(), "no kernel yet");
    {
        let mut imp = Library::new("yourlib", LibraryKind::Impl).unwrap();
        assert!(imp.define("other(Tensor x) -> Tensor").is_err());
        imp.impl_("twice", |a: &[Value]| one(arg::<Tensor>(a, 0)?.mul(2)), "CPU").unwrap();
        assert_eq!(first(call("yourlib::twice", &[v(&x)], &[])).to_vec::<f64>(), [2.0, 4.0]);
        assert!(imp.impl_("nothing", fallthrough_kernel(), "CPU").is_err());
        assert!(imp.impl_("twice", fallthrough_kernel(), "NoKey").is_err());
    }
    assert!(call("yourlib::twice", &[v(&x)], &[]).is_err(), "the kernel went with its library");
    // a body over other operators has their gradients
    def.impl_("twice", |a: &[Value]| one(arg::<Tensor>(a, 0)?.mul(2)), "CompositeImplicitAutograd").unwrap();
    let leaf = x.copy().requires_grad_(true);
    first(call("yourlib::twice", &[v(&leaf)], &[])).sum().backward();
    assert_eq!(leaf.grad().unwrap().to_vec::<f64>(), [2.0, 2.0]);
    drop(def);
    assert!(lookup("yourlib::twice").is_none());
    let mut again = Library::new("yourlib", LibraryKind::Def).unwrap();
    again.define("twice(Tensor x) -> Tensor").unwrap();
    assert!(call("yourlib::twice", &[v(&x)], &[]).is_err(), "old kernels do not come back");
}

#[test]
fn existing_operators_take_kernels_for_a_while() {
    alone!();
    let x = doubles(&[1.0, 2.0]);
    let plain = x.erfinv().to_vec::<f64>();
    let seen = Arc::new(AtomicUsize::new(0));
    {
        let mut lib = Library::new("aten", LibraryKind::Impl).unwrap();
        let count = seen.clone();
        let kernel = move |a: &[Value]| {
            count.fetch_add(1, Ordering::SeqCst);
            one(arg::<Tensor>(a, 0)?.mul(10))
        };
        lib.impl_("erfinv", kernel, "CPU").unwrap();
        assert_eq!(x.erfinv().to_vec::<f64>(), [10.0, 20.0]);
        assert!(lib.impl_("erfinv", fallthrough_kernel(), "CPU").is_err());
    }
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    let now = x.erfinv().to_vec::<f64>();
    assert!(now.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
}

#[test]
fn keys_above_fall_through_or_to_a_fallback() {
    alone!();
    let mut lib = Library::new("fall", LibraryKind::Fragment).unwrap();
    let op = lib.define("id(Tensor x) -> Tensor").unwrap();
    lib.impl_("id", |a: &[Value]| one(arg::<Tensor>(a, 0)?), "CPU").unwrap();
    lib.impl_("id", fallthrough_kernel(), "Tracer").unwrap();
    let x = doubles(&[1.0]);
    let hits = Arc::new(AtomicUsize::new(0));
    let count = hits.clone();
    lib.fallback("Tracer", move |info, key, args| {
        count.fetch_add(1, Ordering::SeqCst);
        call_below(key, info, args)
    })
    .unwrap();
    assert!(lib.fallback("CPU", |_, _, _| Ok(vec![])).is_err());
    including(KeySet::of(Key::Tracer), || {
        x.exp();
        assert_eq!(hits.load(Ordering::SeqCst), 1, "operators of the table go to the fallback");
        call("fall::id", &[v(&x)], &[]).unwrap();
        assert_eq!(hits.load(Ordering::SeqCst), 1, "this one falls through");
    });
    assert!(op.vmap_rule().is_none());
    drop(lib);
    assert!(call("fall::id", &[v(&x)], &[]).is_err());
}

#[test]
fn devices_autocast_vmap_and_contexts() {
    alone!();
    let mut op = sin_op("mylib::rules");
    op.register_kernel(&["cpu"], |a: &[Value]| one(arg::<Tensor>(a, 0)?.mul(0))).unwrap();
    let x = doubles(&[1.0]);
    assert_eq!(first(op.call(&[v(&x)], &[])).to_vec::<f64>(), [0.0]);
    assert!(op.set_kernel_enabled("cpu", false).unwrap());
    assert_eq!(first(op.call(&[v(&x)], &[])).to_vec::<f64>(), [1f64.sin()]);
    assert!(!op.set_kernel_enabled("cpu", true).unwrap());
    assert_eq!(first(op.call(&[v(&x)], &[])).to_vec::<f64>(), [0.0]);
    op.register_autocast("cpu", torch::float32).unwrap();
    assert!(op.register_autocast("abacus", torch::float32).is_err());
    torch::autocast("cpu", || {
        assert_eq!(first(op.call(&[v(&x)], &[])).dtype(), torch::float64, "float64 stays");
        let half = x.to(torch::bfloat16);
        assert_eq!(first(op.call(&[v(&half)], &[])).dtype(), torch::float32);
    });
    op.register_vmap(|args, dims| {
        let x = arg::<Tensor>(args, 0)?;
        Ok((vec![x.sin().into_value()], dims.to_vec()))
    })
    .unwrap();
    let (_, dims) = op.op().vmap_rule().unwrap()(&[v(&x)], &[Some(0)]).unwrap();
    assert_eq!(dims, [Some(0)]);
    assert!(get_ctx().is_err(), "only inside of a fake rule");
    let mut dynamic =
        custom_op(
            "mylib::nonzero",
            "(Tensor x) -> Tensor",
            |a: &[Value]| one(arg::<Tensor>(a, 0)?.nonzero()),
        )
        .unwrap();
    dynamic
        .register_fake(|a: &[Value]| {
            let n = get_ctx()?.new_dynamic_size()?;
            one(arg::<Tensor>(a, 0)?.new_empty([n]))
        })
        .unwrap();
    let e = dynamic.call(&[v(&x.to(Device::Meta))], &[]).unwrap_err();
    assert!(e.message().contains("depends on data"), "{e}");
    use torch::__core::dispatch::value::IntoValue;
}

#[test]
fn definitions_may_end_while_calls_run() {
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let x = doubles(&[1.0, 2.0]);
                let mut done = 0usize;
                while !stop.load(Ordering::Acquire) {
                    if let Ok(r) = call("brief::f", &[v(&x)], &[]) {
                        assert_eq!(first(Ok(r)).to_vec::<f64>(), [2.0, 4.0]);
                        done += 1;
                    }
                    let y = x.i0();
                    assert!(y.to_vec::<f64>()[0] > 1.0);
                }
                done
            })
        })
        .collect();
    for _ in 0..300 {
        let op = custom_op("brief::f", "(Tensor x) -> Tensor", |a: &[Value]| {
            // a kernel may define operators itself: no lock is held
            let inner =
                custom_op("brief::inner", "(Tensor x) -> Tensor", |a: &[Value]| one(arg::<Tensor>(a, 0)?));
            inner.into_iter().for_each(|op| op.remove());
            one(arg::<Tensor>(a, 0)?.mul(2))
        });
        let mut lib = Library::new("aten", LibraryKind::Impl).unwrap();
        lib.impl_("special_i0", |a: &[Value]| one(arg::<Tensor>(a, 0)?.mul(0).add(7)), "CPU").ok();
        std::thread::yield_now();
        drop(lib);
        op.into_iter().for_each(|op| op.remove());
    }
    stop.store(true, Ordering::Release);
    for c in callers {
        c.join().unwrap();
    }
}

/// Schemas come from user code: whatever the string is, the answer is a definition or an error.
#[test]
fn broken_schemas_are_errors() {
    for text in
        ["a -> (b", "-> (", "x(", "x)(->", "x(Tensor a -> Tensor", "x([ -> ]", "->", "", "é(Tensor é) -> ("]
    {
        let made = Library::new("brokenlib", LibraryKind::Fragment).unwrap().define(text);
        assert!(made.is_err(), "{text}");
    }
    // Every string that one cut or one moved piece makes of a good schema.
    let good =
        "scale(Tensor(a!) x, int[2]? n=[1, 2], *, str s=\"->\", bool flip=False) -> (Tensor(a!), Tensor out)";
    for i in 0..good.len() {
        for j in i..good.len() {
            let text = format!("{}{}{}", &good[j..], &good[..i], &good[i..j]);
            let _ = Library::new("brokenlib", LibraryKind::Fragment).unwrap().define(&text);
        }
    }
}

/// What functions of PyTorch's that are written in Python say of arguments before any operator has them.
#[test]
fn functions_written_in_python_look_at_arguments_first() {
    let says = |path: &str, args: &[Value], kwargs: &[(&str, Value)]| {
        let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
        call(path, args, &kwargs).unwrap_err().message().to_string()
    };
    let places = v(&Tensor::from_slice(&[0i64, 1, 1], [3]));
    let weight = v(&torch::zeros([2, 4]));
    let bag = "torch.nn.functional.embedding_bag";
    assert_eq!(says(bag, &[places.clone(), Value::None], &[]), "'NoneType' object has no attribute 'dtype'");
    assert_eq!(says(bag, &[Value::None, weight], &[]), "'NoneType' object has no attribute 'dim'");
    // the old order of both
    let x = says(bag, &[Value::Str("x".into()), places], &[]);
    assert_eq!(x, "'str' object has no attribute 'is_floating_point'");
    let image = v(&torch::zeros([1, 1, 3, 3]));
    let (factor, recompute) = (Value::Str("x".into()), Value::Bool(true));
    let x = says(
        "torch.nn.functional.interpolate",
        std::slice::from_ref(&image),
        &[("scale_factor", factor), ("recompute_scale_factor", recompute)],
    );
    assert_eq!(x, "invalid literal for int() with base 10: 'xxx'");
    let twice = Value::List(vec![Value::Float(1.5), Value::Float(1.5)]);
    let x = says("torch.masked.sum", &[image.clone()], &[("dim", twice)]);
    assert_eq!(x, "dim=1.5 appears multiple times in the list of dims");
    let target = v(&Tensor::from_slice(&[1i64], [1]));
    let x = says(
        "torch.nn.functional.multi_margin_loss",
        &[v(&torch::zeros([1, 3])), target],
        &[("p", Value::Float(2.5))],
    );
    assert_eq!(x, "only p == 1 and p == 2 supported");
    // a module that stands in for others takes their arguments
    let r = call("torch.nn.Identity", &[Value::Int(3)], &[("unused".to_string(), Value::Bool(true))]);
    assert_eq!(torch::library::repr(&r.unwrap()[0]).unwrap(), "Identity()");
}
