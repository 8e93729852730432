use crate::archive::{model, saved};
use flambeau_core::{ErrorKind, Tensor, Value};
use flambeau_export::load;
use flambeau_library as library;

fn tensor(l: &[f64]) -> Tensor {
    let l = Value::List(l.iter().map(|x| Value::Float(*x)).collect());
    match library::call_value("torch.tensor", &[l], &[]) {
        Ok(Value::Tensor(ref t)) => t.clone(),
        other => panic!("{other:?}"),
    }
}
#[test]
fn a_program_prints_and_runs() {
    let path = saved("runs", &model());
    let p = load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        p.to_string(),
        "ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        def forward(self, b_w: \"f32[1]\", x: \"f32[s0]\"):\n            # File: net.py:3 in forward, code: return F.relu(x) + self.w\n            relu: \"f32[s0]\" = torch.ops.aten.relu.default(x);  x = None\n            add: \"f32[s0]\" = torch.ops.aten.add.Tensor(relu, b_w);  relu = b_w = None\n            return (add,)\n    \nGraph signature:\n    # inputs\n    b_w: BUFFER target='w' persistent=True\n    x: USER_INPUT\n    \n    # outputs\n    add: USER_OUTPUT\n    \nRange constraints: {s0: VR[3, 8]}\n"
    );
    let m = p.module().unwrap();
    let y = m.try_forward(&[&tensor(&[-1.0, 2.0, 3.0])]).unwrap();
    assert_eq!(y.try_to_vec::<f32>().unwrap(), [10.0, 12.0, 13.0]);
    assert_eq!(m.guards(), ["x.size()[0] >= 3", "x.size()[0] <= 8", "2 * x.size()[0] != 10"]);
    for (n, text) in [(2, ">= 3"), (9, "<= 8"), (5, "!= 10")] {
        let e = m.try_forward(&[&tensor(&vec![1.0; n])]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Assertion);
        assert!(e.message().contains(text), "{e}");
    }
    let e = m.run(&[Value::List(vec![Value::Tensor(y)])], &[]).unwrap_err();
    assert!(e.message().starts_with("Trying to flatten user inputs with exported input tree spec: \nTreeSpec(tuple, None, [TreeSpec(tuple, None, [*]),\n  TreeSpec(dict, [], [])])"), "{e}");
    let e = m.run(&[], &[("x".into(), Value::Int(1))]).unwrap_err();
    assert_eq!(
        e.message(),
        "Ran into a kwarg keyword mismatch: Got the following keywords ['x'] but expected []"
    );
}
