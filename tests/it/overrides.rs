//! Modes see every operator call, may call on, and may change what comes back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use torch::library::{Value, arg, one};
use torch::overrides::{
    ModeGuard, OperatorCall, push_dispatch_mode, push_function_mode, resolve_name, without_modes,
};
use torch::{ErrorKind, Tensor};

type Log = Rc<RefCell<Vec<&'static str>>>;
fn logging(push: fn(Log) -> ModeGuard) -> (Log, ModeGuard) {
    let log = Log::default();
    (log.clone(), push(log))
}
fn function(log: Log) -> ModeGuard {
    push_function_mode(move |c: &OperatorCall<'_>| {
        log.borrow_mut().push(c.name());
        c.call_on()
    })
}
fn dispatch(log: Log) -> ModeGuard {
    push_dispatch_mode(move |c: &OperatorCall<'_>| {
        log.borrow_mut().push(c.name());
        c.call_on()
    })
}
fn grid() -> Tensor {
    Tensor::from_slice(&[1f64, 2., 3., 4., 5., 6.], [2, 3])
}

#[test]
fn function_modes_see_composites_whole_and_dispatch_modes_their_parts() {
    let (x, w) = (grid(), grid());
    let (log, mode) = logging(function);
    let y = x.matmul(&w.t());
    drop(mode);
    assert_eq!(*log.borrow(), ["t", "matmul"]);
    let (log, mode) = logging(dispatch);
    let z = x.matmul(&w.t());
    drop(mode);
    let seen = log.borrow().clone();
    assert!(seen.contains(&"mm") && !seen.contains(&"matmul"), "{seen:?}");
    assert!(y.equal(&z));
    x.exp();
    assert_eq!(*log.borrow(), seen, "the guard ended");
}

#[test]
fn dispatch_modes_stand_below_the_gradients() {
    let x = grid().requires_grad_(true);
    let (log, mode) = logging(dispatch);
    let y = (&x * &x).sum();
    assert!(y.requires_grad());
    let forward = log.borrow().len();
    y.backward();
    assert!(log.borrow().len() > forward, "the operators of backward are seen too: {:?}", log.borrow());
    drop(mode);
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), (&grid() * 2).to_vec::<f64>());
}

#[test]
fn results_and_arguments_may_be_changed() {
    let x = grid();
    let mode = push_function_mode(|c: &OperatorCall<'_>| match c.name() {
        "exp" => one(arg::<Tensor>(c.args(), 0)?.mul(0)),
        "add.Tensor" => {
            let mut args = c.args().to_vec();
            args[1] = args[0].clone();
            c.call_with(&args)
        }
        "log" => Err(torch::Error::runtime("no logarithms today")),
        _ => c.call_on(),
    });
    assert_eq!(x.exp().to_vec::<f64>(), [0.0; 6]);
    assert_eq!(x.add(x.mul(100)).to_vec::<f64>(), (&grid() * 2).to_vec::<f64>());
    assert_eq!(torch::ops::log(&x).unwrap_err().kind(), ErrorKind::Runtime);
    let z = without_modes(|| x.exp());
    assert!(z.to_vec::<f64>()[0] > 2.0);
    drop(mode);
    assert!(x.exp().to_vec::<f64>()[0] > 2.0);
}

#[test]
fn factories_in_place_and_out_forms_are_seen() {
    for push in [function as fn(Log) -> ModeGuard, dispatch] {
        let (log, mode) = logging(push);
        let x = torch::zeros([2]);
        x.add_(1);
        let mut out = torch::empty([2]);
        torch::add_out(&x, &x, &mut out);
        drop(mode);
        assert_eq!(out.to_vec::<f32>(), [2.0, 2.0]);
        let seen = log.borrow();
        assert!(seen.contains(&"add_.Tensor") && seen.contains(&"add.out"), "{seen:?}");
        assert!(seen.iter().any(|n| n.starts_with("zeros") || n.starts_with("empty")), "{seen:?}");
    }
}

#[test]
fn modes_are_stacked() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let level = |name: &'static str| {
        let order = order.clone();
        push_function_mode(move |c: &OperatorCall<'_>| {
            order.borrow_mut().push((name, c.name()));
            if name == "inner" && c.name() == "exp" {
                // what a mode calls is seen by those below it
                torch::zeros([1]).sin();
            }
            c.call_on()
        })
    };
    let outer = level("outer");
    let inner = level("inner");
    grid().exp();
    let seen = order.take();
    assert_eq!(seen.first(), Some(&("inner", "exp")));
    assert_eq!(seen.last(), Some(&("outer", "exp")));
    assert!(seen.contains(&("outer", "sin")) && !seen.contains(&("inner", "sin")), "{seen:?}");
    // guards end in any order
    drop(outer);
    grid().cos();
    assert_eq!(order.take(), [("inner", "cos")]);
    drop(inner);
    grid().cos();
    assert!(order.take().is_empty());
}

#[test]
fn a_mode_may_end_itself_panic_or_define() {
    let guard: Rc<RefCell<Option<ModeGuard>>> = Rc::default();
    let calls = Rc::new(Cell::new(0));
    let (own, n) = (guard.clone(), calls.clone());
    let mode = push_function_mode(move |c: &OperatorCall<'_>| {
        n.set(n.get() + 1);
        own.borrow_mut().take();
        c.call_on()
    });
    *guard.borrow_mut() = Some(mode);
    grid().exp();
    grid().exp();
    assert_eq!(calls.get(), 1);

    let mode = push_dispatch_mode(|_: &OperatorCall<'_>| panic!("a mode's own fault"));
    let unwound = std::panic::catch_unwind(|| grid().exp());
    assert!(unwound.is_err());
    assert!(std::panic::catch_unwind(|| grid().exp()).is_err(), "the mode is still there");
    drop(mode);
    grid().exp();

    let mode = push_function_mode(|c: &OperatorCall<'_>| {
        let op = torch::library::custom_op("modes::f", "(Tensor x) -> Tensor", |a: &[Value]| {
            one(arg::<Tensor>(a, 0)?.copy())
        })?;
        if c.name() == "cos" { op.call(c.args(), &[]) } else { c.call_on() }
    });
    assert_eq!(grid().cos().to_vec::<f64>(), grid().to_vec::<f64>());
    drop(mode);
}

#[test]
fn operators_of_a_program_are_seen_as_well() {
    let op = torch::library::custom_op("modes::twice", "(Tensor x) -> Tensor", |a: &[Value]| {
        one(arg::<Tensor>(a, 0)?.mul(2))
    })
    .unwrap();
    for push in [function as fn(Log) -> ModeGuard, dispatch] {
        let (log, mode) = logging(push);
        op.call(&[(&grid()).into_value()], &[]).unwrap();
        drop(mode);
        assert_eq!(log.borrow()[0], "modes::twice");
    }
    use torch::__core::dispatch::value::IntoValue;
}

#[test]
fn names_are_resolved() {
    assert_eq!(resolve_name("aten::add.Tensor").as_deref(), Some("torch.add"));
    assert_eq!(resolve_name("aten::nothing"), None);
}
