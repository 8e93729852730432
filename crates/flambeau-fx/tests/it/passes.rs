use crate::building::{numbers, small, tensor};
use flambeau_core::Value;
use flambeau_fx::passes::{
    eliminate_common, eliminate_dead_code, fold_constants, replace_pattern, split_module,
};
use flambeau_fx::{Argument, Graph, GraphModule, Op};

fn run(m: &GraphModule) -> Vec<f32> {
    numbers(&m.run(&[Value::Tensor(tensor(&[-1.0, 2.0]))], &[]).unwrap())
}

#[test]
fn dead_and_common_parts_go() {
    let (mut m, relu) = small();
    m.graph.inserting_after(relu);
    let dead = m.graph.call_function("torch.exp", [relu], []);
    m.graph.call_method("cos", [dead], []);
    assert!(eliminate_dead_code(&mut m));
    assert!(!eliminate_dead_code(&mut m));
    assert_eq!(m.graph.len(), 5);
    let x = m.graph.find_nodes(Op::Placeholder, None)[0];
    m.graph.inserting_after(relu);
    let twin = m.graph.call_function("torch.relu", [x], []);
    let sum = m.graph.find_nodes(Op::CallFunction, Some("operator.add"))[0];
    m.graph.set_args(sum, vec![relu.into(), twin.into()]);
    assert!(eliminate_common(&mut m));
    assert_eq!(m.graph.find_nodes(Op::CallFunction, Some("torch.relu")).len(), 1);
    assert_eq!(run(&m), [0.0, 4.0]);
}
#[test]
fn random_numbers_are_not_common() {
    let mut g = Graph::new();
    let a = g.call_function("torch.rand", [Argument::from(2)], []);
    let b = g.call_function("torch.rand", [Argument::from(2)], []);
    let d = g.call_function("operator.sub", [a, b], []);
    g.output(d);
    let mut m = GraphModule::new(g);
    assert!(!eliminate_common(&mut m));
}
#[test]
fn constants_are_folded() {
    let (mut m, _) = small();
    let w = m.graph.find_nodes(Op::GetAttr, None)[0];
    m.graph.inserting_after(w);
    let twice = m.graph.call_function("operator.mul", [Argument::from(w), 2.into()], []);
    let sum = m.graph.find_nodes(Op::CallFunction, Some("operator.add"))[0];
    m.graph.replace_input(sum, w, twice);
    let before = run(&m);
    let folded = fold_constants(&m).unwrap();
    assert!(folded.graph.find_nodes(Op::CallFunction, Some("operator.mul")).is_empty());
    assert_eq!(run(&folded), before);
}
#[test]
fn patterns_are_replaced() {
    let (mut m, _) = small();
    let mut p = Graph::new();
    let (a, b) = (p.placeholder("a"), p.placeholder("b"));
    let relu = p.call_function("torch.relu", [a], []);
    let sum = p.call_function("operator.add", [relu, b], []);
    p.output(sum);
    let mut r = Graph::new();
    let (a, b) = (r.placeholder("a"), r.placeholder("b"));
    let d = r.call_function("torch.sub", [b, a], []);
    r.output(d);
    assert_eq!(replace_pattern(&mut m, &p, &r).unwrap().len(), 1);
    assert_eq!(run(&m), [11.0, 18.0]);
    assert_eq!(replace_pattern(&mut m, &p, &r).unwrap().len(), 0);
    assert!(replace_pattern(&mut m, &Graph::new(), &r).is_err());
}
#[test]
fn parts_become_modules() {
    let (m, _) = small();
    let before = run(&m);
    let split = split_module(&m, &|d| i64::from(d.name == "add")).unwrap();
    assert_eq!(split.graph.find_nodes(Op::CallModule, None).len(), 2);
    assert_eq!(run(&split), before);
}
