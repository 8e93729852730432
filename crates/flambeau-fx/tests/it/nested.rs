//! What is nested a million levels deep is copied, compared, shown and dropped, and refused where it would be walked.

use flambeau_fx::symbolic::{Bindings, Expr};
use flambeau_fx::{Argument, Graph, Op};

const LEVELS: usize = 1_000_000;

fn list() -> Argument {
    (0..LEVELS).fold(Argument::from(1i64), |a, i| match i % 3 {
        0 => Argument::List(vec![a]),
        1 => Argument::Tuple(vec![a, Argument::NONE]),
        _ => Argument::Dict(vec![("k".into(), a)]),
    })
}
fn sum() -> Expr {
    (0..LEVELS).fold(Expr::symbol("s0"), |e, i| match i % 3 {
        0 => Expr::Add(vec![e, Expr::Int(1)]),
        1 => Expr::Not(Box::new(e)),
        _ => Expr::FloorDiv(Box::new((e, Expr::Int(2)))),
    })
}
#[test]
fn arguments() {
    let a = list();
    let b = a.clone();
    assert!(a.same(&b) && !a.same(&Argument::List(vec![b.clone()])));
    assert!(format!("{a:?}").len() < 100_000);
    let mut nodes = 0;
    a.each(&mut |_| nodes += 1);
    assert_eq!(nodes, 0);
    assert!(a.map(&mut |n| n.into()).same(&b));
    assert!(a.evaluate(&mut |_| panic!("no node")).unwrap_err().message().contains("levels deep"));
    let mut g = Graph::new();
    let e = g.create_named(Op::CallFunction, "torch.relu", vec![a], Vec::new(), "n").unwrap_err();
    assert!(e.message().contains("levels deep"), "{e}");
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || Graph::new().output(b)));
    assert!(refused.is_err());
}
#[test]
fn expressions() {
    let e = sum();
    let f = e.clone();
    assert!(e == f && e != Expr::Not(Box::new(f)));
    assert_eq!(e.symbols(), ["s0"]);
    assert_eq!(e.evaluate(&Bindings::from([("s0".into(), 1)])), None);
    assert_eq!(e.solve(1), None);
    assert_eq!(e.srepr(), "...");
    assert!(e.to_string().len() < 100_000 && format!("{e:?}").len() < 1_000_000);
}
