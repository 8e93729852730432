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

/// Without gradients a program runs by a plan; with them, and after them, the values and the gradients are those without one.
#[test]
fn a_program_runs_by_a_plan_where_nothing_is_recorded() {
    let path = saved("plan", &model());
    let m = load(&path).unwrap().module().unwrap();
    std::fs::remove_file(&path).unwrap();
    let x = tensor(&[-1.0, 2.0, 3.0]);
    let values = |t: &Tensor| t.try_to_vec::<f32>().unwrap();
    let first = m.try_forward(&[&x]).unwrap();
    for _ in 0..3 {
        let y = flambeau_autograd::no_grad(|| m.try_forward(&[&x])).unwrap();
        assert!(!y.requires_grad() && values(&y) == [10.0, 12.0, 13.0]);
        // the conditions on inputs hold on
        assert!(m.try_forward(&[&tensor(&[1.0; 5])]).is_err());
    }
    let inside = flambeau_autograd::inference_mode(|| m.try_forward(&[&x])).unwrap();
    let outside = m.clone().try_forward(&[&x]).unwrap();
    assert!(inside.is_inference() && !outside.is_inference());
    x.try_requires_grad_(true).unwrap();
    let y = m.try_forward(&[&x]).unwrap();
    assert!(y.requires_grad());
    y.sum().try_backward(flambeau_core::BackwardOptions::new()).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [0.0, 1.0, 1.0]);
    // a result is its owner's, whatever runs later
    assert_eq!(values(&first), [10.0, 12.0, 13.0]);
    // a weight that wants a gradient gets one
    let (_, w) = m.state().remove(0);
    w.try_requires_grad_(true).unwrap();
    let y = m.try_forward(&[&x.detach()]).unwrap();
    y.sum().try_backward(flambeau_core::BackwardOptions::new()).unwrap();
    assert_eq!(values(&w.grad().unwrap()).iter().sum::<f32>(), 3.0);
}
