//! Programs as the modules that they were made of.

use crate::exporting::floats;
use flambeau_core::{ErrorKind, Tensor, Value};
use flambeau_export::{Dim, ExportOptions, ExportedProgram, try_export_with, unflatten};
use flambeau_fx::pytree::TreeSpec;
use flambeau_nn as nn;
use flambeau_nn::prelude::*;

#[derive(Debug, Module)]
struct Twice {
    block: nn::Sequential,
    head: nn::Linear,
}
#[nn::forward]
impl Twice {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.block.call(&self.block.call(x));
        self.head.call(&y) + 1.0
    }
}
fn twice() -> Twice {
    let block = nn::Sequential::new((nn::Linear::new(4, 4), nn::Tanh::new()));
    Twice { block, head: nn::Linear::new(4, 2) }
}
fn program(m: &Twice) -> ExportedProgram {
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch").max(8))]);
    try_export_with(m, |x: &[Tensor]| m.try_call(&x[0]), &[&floats(&[3, 4])], o).unwrap()
}

#[test]
fn modules_come_back_and_equal_calls_are_one() {
    let m = twice();
    let u = unflatten(&program(&m)).unwrap();
    assert_eq!(u.named_modules(), ["block", "block.0", "block.1", "head"]);
    assert_eq!(
        u.graph().to_string(),
        "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    \
         %block : [num_users=1] = call_module[target=block](args = (%x,), kwargs = {})\n    \
         %block_1 : [num_users=1] = call_module[target=block](args = (%block,), kwargs = {})\n    \
         %head : [num_users=1] = call_module[target=head](args = (%block_1,), kwargs = {})\n    \
         %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%head, 1.0), kwargs = {})\n    \
         return (add,)"
    );
    for n in [2, 7] {
        let x = floats(&[n, 4]);
        assert_eq!(u.try_forward(&[&x]).unwrap().to_vec::<f32>(), m.call(&x).to_vec::<f32>());
    }
    let e = u.try_forward(&[&floats(&[9, 4])]).unwrap_err();
    assert_eq!(e.message(), "Guard failed: x.size()[0] <= 8");
    let names: Vec<&str> = u.state().iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["block.0.weight", "block.0.bias", "head.weight", "head.bias"]);
    // the weights are copies
    assert!(u.state().iter().zip(m.parameters()).all(|((_, t), p)| !t.is_same(&p) && t.requires_grad()));
}
#[test]
fn adapters_make_arguments_fit() {
    let m = twice();
    let u = unflatten(&program(&m)).unwrap();
    let x = floats(&[2, 4]);
    let list = [Value::List(vec![Value::Tensor(x.clone())])];
    assert!(u.run(&list, &[]).is_err());
    let u = u.flat_args_adapter(|target: &TreeSpec, _: &TreeSpec, leaves: &[Value]| {
        assert_eq!(target.leaves(), 1);
        Ok(leaves.to_vec())
    });
    let Value::Tensor(ref y) = u.run(&list, &[]).unwrap() else { panic!("no tensor") };
    assert_eq!(y.to_vec::<f32>(), m.call(&x).to_vec::<f32>());
}
#[test]
fn kept_signatures_are_missing() {
    let mut p = program(&twice());
    let whole = p.module_call_graph[0].signature.clone();
    p.module_call_graph[1].signature = whole;
    let e = unflatten(&p).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Missing);
    assert!(e.message().contains("'block'"), "{e}");
}
