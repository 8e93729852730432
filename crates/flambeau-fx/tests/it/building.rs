use flambeau_core::{Tensor, Value};
use flambeau_fx::{Argument, Graph, GraphModule, Interpreter, Node, Op, shape_prop};
use flambeau_library as library;

pub fn tensor(l: &[f64]) -> Tensor {
    let l = Value::List(l.iter().map(|x| Value::Float(*x)).collect());
    match library::call_value("torch.tensor", &[l], &[]) {
        Ok(Value::Tensor(ref t)) => t.clone(),
        other => panic!("{other:?}"),
    }
}
pub fn numbers(v: &Value) -> Vec<f32> {
    match v {
        Value::Tensor(t) => t.try_to_vec::<f32>().unwrap(),
        other => panic!("{other:?}"),
    }
}
/// `relu(x) + w`
pub fn small() -> (GraphModule, Node) {
    let mut g = Graph::new();
    let x = g.placeholder("x");
    let relu = g.call_function("torch.relu", [x], []);
    let w = g.get_attr("w");
    let sum = g.call_function("operator.add", [relu, w], []);
    g.output(sum);
    let mut m = GraphModule::new(g);
    m.set("w", tensor(&[10.0, 20.0]));
    (m, relu)
}

#[test]
fn prints_as_pytorch_does() {
    let (m, _) = small();
    assert_eq!(
        m.graph.to_string(),
        "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n    %w : [num_users=1] = get_attr[target=w]\n    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %w), kwargs = {})\n    return add"
    );
    assert_eq!(
        m.code(),
        "\n\n\ndef forward(self, x):\n    relu = torch.relu(x);  x = None\n    w = self.w\n    add = relu + w;  relu = w = None\n    return add\n    "
    );
    assert!(m.graph.tabular().contains("<built-in method relu of type object>"));
    assert!(m.graph.dot().contains("\"relu\" -> \"add\""));
}
/// Constants that Python's `repr` does not write as a program, and a function that PyTorch finds under another name.
#[test]
fn complex_numbers_and_inner_names() {
    let mut g = Graph::new();
    let x = g.placeholder("x");
    let complex = |re, im| {
        let part = |x: f64| Value::Tensor(tensor(&[x]));
        let z = library::call_value("torch.complex", &[part(re), part(im)], &[]).unwrap();
        Argument::from(library::method(&z, "item", &[], &[]).unwrap())
    };
    let a = g.call_function("operator.add", [Argument::from(x), complex(0.0, 1.0)], []);
    let b = g.call_function("operator.mul", [Argument::from(a), complex(2.0, 1.5)], []);
    g.output(b);
    assert!(g.to_string().contains("args = (%x, 1j)"), "{g}");
    let code = GraphModule::new(g).code();
    assert!(code.contains("x + complex(0.0, 1.0)") && code.contains("add * (2+1.5j)"), "{code}");

    let mut g = Graph::new();
    let x = g.placeholder("x");
    let y = g.call_function(
        "torch.nn.functional._threshold",
        [Argument::from(x), Value::Float(1.0).into(), Value::Float(7.0).into()],
        [],
    );
    g.output(y);
    let x = Value::Tensor(tensor(&[0.5, 2.0]));
    assert_eq!(numbers(&GraphModule::new(g).run(&[x], &[]).unwrap()), [7.0, 2.0]);
}
#[test]
fn runs() {
    let (m, _) = small();
    let x = Value::Tensor(tensor(&[-1.0, 2.0]));
    assert_eq!(numbers(&m.run(std::slice::from_ref(&x), &[]).unwrap()), [10.0, 22.0]);
    let named = Interpreter::new(&m).intermediate(&[x]).unwrap();
    assert_eq!(named.iter().map(|n| n.0.as_str()).collect::<Vec<_>>(), ["x", "relu", "w", "add", "output"]);
    let e = m.run(&[], &[]).unwrap_err();
    assert_eq!(e.message(), "forward() missing 1 required positional argument: 'x'");
    let e = Interpreter::new(&m).run(&[]).unwrap_err();
    assert!(e.message().starts_with("Expected positional argument for parameter x"));
}
#[test]
fn names_are_unique_identifiers() {
    let mut g = Graph::new();
    let mut name = |wish: &str| g.create_name(wish);
    assert_eq!(name("add"), "add");
    assert_eq!(name("add"), "add_1");
    assert_eq!(name("add_1"), "add_2");
    assert_eq!(name("input"), "input_1");
    assert_eq!(name("0.weight"), "_0_weight");
    assert_eq!(name(""), "_unnamed");
    assert_eq!(name("for"), "for_1");
}
#[test]
fn erasing_and_replacing_keep_the_users() {
    let (mut m, relu) = small();
    let g = &mut m.graph;
    assert!(g.erase_node(relu).unwrap_err().message().contains("Tried to erase Node relu"));
    g.inserting_after(relu);
    let neg = g.call_function("torch.neg", [relu], []);
    g.replace_all_uses_with(relu, neg);
    g.set_args(neg, vec![relu.into()]);
    assert_eq!(g.node(relu).users(), [neg]);
    g.lint().unwrap();
    let copy = g.clone();
    copy.lint().unwrap();
    assert_eq!(copy.to_string(), g.to_string());
    let y = m.run(&[Value::Tensor(tensor(&[3.0, -1.0]))], &[]).unwrap();
    assert_eq!(numbers(&y), [7.0, 20.0]);
}
#[test]
fn nodes_of_other_graphs_are_refused_by_name() {
    let (mut g, mut h) = (Graph::new(), Graph::new());
    let (x, y) = (g.placeholder("x"), h.placeholder("why"));
    let z = g.call_function("torch.add", [x, y], []);
    g.output(z);
    assert!(g.lint().unwrap_err().message().starts_with("Argument 'why' of Node 'add' does not belong"));
    let m = GraphModule::new(g);
    assert!(m.run(&[Value::Int(1)], &[]).is_err());
}
#[test]
fn missing_things_are_errors() {
    let mut g = Graph::new();
    let x = g.placeholder("x");
    let y = g.call_module("missing", [x], []);
    g.output(y);
    let m = GraphModule::new(g);
    assert_eq!(m.lint().unwrap_err().message(), "'Module' object has no attribute 'missing'");
    let mut g = Graph::new();
    let x = g.call_function("torch.no_such_function", [Argument::from(1)], []);
    g.output(x);
    let e = GraphModule::new(g).run(&[], &[]).unwrap_err();
    assert_eq!(e.kind(), flambeau_core::ErrorKind::Missing);
}
#[test]
fn shapes_are_noted() {
    let (mut m, relu) = small();
    shape_prop(&mut m, &[Value::Tensor(tensor(&[1.0, 2.0]))]).unwrap();
    match m.graph.node(relu).meta.tensor_meta.as_ref() {
        Some(flambeau_fx::Val::Tensor(t)) => assert_eq!(t.annotation(), "f32[2]"),
        other => panic!("{other:?}"),
    }
    assert_eq!(m.graph.find_nodes(Op::CallFunction, Some("torch.relu")), [relu]);
}
