//! Values that stand in each other a million levels deep: what cannot fail works in a loop, the rest refuses.

use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::cell::RefCell;
use torch::__core::dispatch::custom;
use torch::__core::dispatch::registry;
use torch::__core::types::deep::LEVELS;
use torch::library::object::class_names;
use torch::library::{self, Value, repr};
use torch::nn;
use torch::serialization::{Tree, save_to};
use torch::{Tensor, ops};

const DEEP: usize = 1_000_000;

/// On a stack of the usual size, whatever the harness has.
fn usual<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).expect("a thread").join().expect("no panic")
}
fn tree(levels: usize) -> Tree<Tensor> {
    (0..levels).fold(Tree::Tensor(torch::ones([1])), |t, i| match i % 4 {
        0 => Tree::List(vec![t]),
        1 => Tree::Dict(vec![(Tree::Int(1), t)]),
        2 => Tree::OrderedDict(vec![(Tree::Str("a".into()), Tree::None)], Box::new(t)),
        _ => Tree::Slice(Box::new([Tree::None, t, Tree::None])),
    })
}

#[test]
fn trees() {
    usual(|| {
        let t = tree(DEEP);
        let copy = t.clone();
        assert!(save_to(&t, Vec::new()).is_err());
        assert!(format!("{t:?}").contains("..."));
        let p = nn::Parameter::new(torch::ones([1]));
        let mut o = torch::optim::SGDOptions::new().lr(0.1).build([&p]);
        assert!(torch::optim::Optimizer::load_state_dict(&mut o, &t).is_err());
        let mut leaves = 0;
        assert!(nn::StateDict::from_tree(&t).is_err());
        let mapped = t
            .map(&mut |x: Tensor| {
                leaves += 1;
                Ok::<_, torch::Error>(x.numel())
            })
            .unwrap();
        assert_eq!(leaves, 1);
        let mut other = mapped.clone();
        assert!(mapped == other);
        other = Tree::List(vec![other]);
        assert!(mapped != other);
        let mut n = 0;
        let same = copy.rewrite(&mut |t| {
            n += 1;
            Ok::<_, torch::Error>(t)
        });
        // each level, the keys and fillers beside them, and the leaf
        assert_eq!(n, DEEP + 1 + DEEP / 4 * (1 + 2 + 2));
        drop(same.unwrap());
    });
}

fn value(levels: usize) -> Value {
    (0..levels).fold(Value::Tensor(torch::ones([1])), |v, i| match i % 3 {
        0 => Value::List(vec![v]),
        1 => Value::Dict(vec![("a".into(), v)]),
        _ => Value::Tuple(vec![Value::Int(1), v]),
    })
}
#[test]
fn values() {
    usual(|| {
        let v = value(DEEP);
        let copy = v.clone();
        assert!(repr(&v).is_err());
        assert!(format!("{v:?}").contains("..."));
        drop(copy);
        let e = library::attribute(&v, "shape").unwrap_err();
        assert!(e.message().contains("nested more than 100 levels"), "{e}");
        let x = Value::from(&torch::ones([1]));
        assert!(library::method(&x, "add", std::slice::from_ref(&v), &[]).is_err());
        // as deep as calls take
        let list = (0..LEVELS).fold(Value::Int(1), |v, _| Value::List(vec![v]));
        assert!(library::call("torch.tensor", &[list], &[]).is_ok());
    });
}

/// Every name, class and operator with a value of a million levels and with one of as many as calls take, in each place: an
/// answer, in a process with threads of the usual stack.
#[test]
fn values_without_end_are_arguments_of_nothing() {
    // other tests define functions while this one runs, and its children do not
    let mut names: Vec<String> = library::names();
    names.retain(|n| n.starts_with("torch."));
    names.extend(class_names());
    let ops: Vec<_> = registry::crates().iter().flat_map(|c| c.ops).collect();
    let empty = |text: &str| text.is_empty().then(|| "an error without a text".to_string());
    let deep = RefCell::new(None);
    let some = RefCell::new(None);
    let taken =
        |slot: &RefCell<Option<Value>>, levels| slot.borrow_mut().take().unwrap_or_else(|| value(levels));
    Calls {
        test: here!(),
        count: names.len() + ops.len(),
        name: &|i| match names.get(i) {
            Some(n) => n.clone(),
            None => format!("{} boxed", ops[i - names.len()].info().name),
        },
        run: &|i| {
            let mut wrong = None;
            for (slot, levels) in [(&deep, DEEP), (&some, LEVELS)] {
                let mut check = |r: torch::Result<Vec<Value>>| match r {
                    // Python's exceptions without words
                    Err(e) if levels == DEEP => wrong = wrong.take().or(empty(e.message())),
                    _ => {}
                };
                let v = taken(slot, levels);
                let Some(name) = names.get(i) else {
                    let op = ops[i - names.len()];
                    let mut args = vec![Value::None; op.info().schema.args.len().max(1)];
                    args[0] = v;
                    for at in 0..args.len() {
                        check(op.call_boxed(&args));
                        args.swap(at, (at + 1) % op.info().schema.args.len().max(1));
                    }
                    *slot.borrow_mut() = args.into_iter().find(|v| !matches!(v, Value::None));
                    continue;
                };
                let mut args = vec![v];
                check(library::call(name, &args, &[]));
                args.insert(0, Value::from(&torch::ones([2])));
                check(library::call(name, &args, &[]));
                let mut kwargs = vec![("dim".to_string(), args.remove(1))];
                check(library::call(name, &args, &kwargs));
                *slot.borrow_mut() = kwargs.pop().map(|k| k.1);
            }
            wrong
        },
    }
    .judge();
}

/// What a program's kernels, modes and objects give is checked as what they are given.
#[test]
fn results_without_end_are_errors() {
    use torch::library::object::{Kwargs, Object, ObjectRef};
    struct Giver;
    impl Object for Giver {
        fn type_name(&self) -> &'static str {
            "Giver"
        }
        fn call(&self, _: &[Value], _: &Kwargs) -> torch::Result<Vec<Value>> {
            Ok(vec![value(DEEP)])
        }
        fn attribute(&self, _: &str) -> torch::Result<Value> {
            Ok(value(DEEP))
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    usual(|| {
        let op =
            custom::custom_op("deepest::gives", "(Tensor x) -> Tensor", |_: &[Value]| Ok(vec![value(DEEP)]));
        let op = op.unwrap();
        let x = torch::ones([2]);
        assert!(op.call(&[(&x).into()], &[]).is_err());
        assert!(op.call(&[value(DEEP)], &[]).is_err());
        let mode = torch::overrides::push_function_mode(
            |_: &torch::overrides::OperatorCall<'_>| -> torch::Result<Vec<Value>> { Ok(vec![value(DEEP)]) },
        );
        assert!(ops::neg(&x).is_err());
        drop(mode);
        let o = ObjectRef::new(Giver);
        assert!(o.call(&[], &[]).is_err() && o.attribute("x").is_err());
        assert!(o.call(&[value(DEEP)], &[]).is_err());
        let f = Value::Object(o);
        assert!(library::call_value("torch.func.vmap", &[f.clone()], &[]).is_ok_and(|f| {
            let f = f.into_object().unwrap();
            f.call(&[Value::from(&torch::ones([2]))], &[]).is_err()
        }));
    });
}

/// Functions of functions of functions, as objects.
#[test]
fn chains_of_functions() {
    usual(|| {
        let mut f =
            library::call_value("torch.func.grad", &[Value::Object(named("torch.sin"))], &[]).unwrap();
        for _ in 0..200_000 {
            f = library::call_value("torch.func.grad", &[f], &[]).unwrap();
        }
        let o = f.into_object().unwrap();
        assert!(o.call(&[Value::from(&torch::tensor(1.0))], &[]).is_err());
        drop(o);
    });
}
#[test]
fn chains_of_wrappers_and_schedules() {
    usual(|| {
        let mut m = torch::ao::quantization::QuantWrapper::new(Box::new(nn::ReLU::new()));
        for _ in 0..200_000 {
            m = torch::ao::quantization::QuantWrapper::new(Box::new(m));
        }
        assert!(format!("{m:?}").contains("..."));
        drop(m);
        let w = nn::Parameter::new(torch::ones([1]));
        let mut o = torch::optim::SGD::new([&w], 1.0);
        let mut s: Box<dyn torch::optim::lr_scheduler::LRScheduler> =
            Box::new(torch::optim::lr_scheduler::ExponentialLR::new(&mut o, 0.5));
        for _ in 0..200_000 {
            s = Box::new(torch::optim::lr_scheduler::Shared::new(s));
        }
        assert!(s.try_step(&mut o).is_err());
        assert!(torch::optim::lr_scheduler::ChainedScheduler::try_new(&mut o, vec![s]).is_err());
    });
}
/// The gradient of a gradient of a gradient, and hooks that hold tensors with hooks.
#[test]
fn chains_of_gradients() {
    usual(|| {
        let mut x = torch::ones([1]).requires_grad_(true);
        for _ in 0..300_000 {
            let y = torch::ones([1]).requires_grad_(true);
            y.set_grad(Some(x));
            x = y;
        }
        drop(x);
        let mut x = torch::ones([1]).requires_grad_(true);
        for _ in 0..300_000 {
            let y = torch::ones([1]).requires_grad_(true);
            y.register_hook(move |g| Some(g + &x));
            x = y;
        }
        drop(x);
    });
}
fn named(name: &str) -> library::object::ObjectRef {
    library::object::ObjectRef::new(library::NamedFunction(name.into()))
}

#[test]
fn modules_are_shown_to_a_depth() {
    usual(|| {
        let net = (0..DEEP).fold(nn::Sequential::new((nn::ReLU::new(),)), |n, _| nn::Sequential::new((n,)));
        assert!(format!("{net:?}").contains("..."));
        assert!(net.try_call(&torch::ones([1])).is_err());
    });
}

#[test]
fn graphs() {
    usual(|| {
        let x = torch::ones([1]).requires_grad_(true);
        let y = (0..DEEP).fold(x.clone(), |y, _| ops::neg(&y).unwrap());
        let _ = format!("{y:?} {y}");
        y.sum().backward();
        assert_eq!(x.grad().unwrap().to_vec::<f32>(), [1.0]);
    });
}

/// Transforms in transforms, and distributions in distributions, as far as they go.
#[test]
fn distributions_and_transforms() {
    use torch::distributions::transforms::{AffineTransform, AnyTransform, ComposeTransform};
    use torch::distributions::{Distribution, Independent, Normal};
    usual(|| {
        let mut t: AnyTransform = AffineTransform::new(0.0, 1.0).into();
        let mut levels = 0;
        while let Ok(next) = ComposeTransform::try_new([t.clone()]) {
            t = next.into();
            levels += 1;
            assert!(levels < 1000);
        }
        assert!(levels > 100);
        assert_eq!(t.try_call(&torch::ones([1])).unwrap().to_vec::<f32>(), [1.0]);
        assert!(t.to_text().len() > levels);
        let mut d: std::sync::Arc<dyn Distribution> = std::sync::Arc::new(Normal::new(0.0, 1.0));
        let mut levels = 0;
        while let Ok(next) = Independent::try_new(d.clone(), 0, None) {
            d = std::sync::Arc::new(next);
            levels += 1;
            assert!(levels < 1000);
        }
        assert!(levels > 100);
        assert!(d.try_log_prob(&torch::ones([1])).is_ok());
    });
}
