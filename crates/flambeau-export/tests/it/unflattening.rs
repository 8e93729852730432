//! Programs as the modules that they were made of.

use crate::exporting::floats;
use flambeau_core::{ErrorKind, Tensor, Value};
use flambeau_export::graph_signature::ArgumentSpec;
use flambeau_export::{
    Dim, ExportOptions, ExportedProgram, InterpreterModuleDispatcher, ModuleCallEntry, load, save,
    try_export_with, unflatten,
};
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

#[derive(Debug, Module)]
struct Block {
    fc: nn::Linear,
}
#[nn::forward]
impl Block {
    /// Not the same for a batch as for one row.
    fn forward(&self, x: &Tensor) -> Tensor {
        if x.dim() == 1 { self.fc.call(x).tanh() } else { self.fc.call(x).relu() * 2.0 }
    }
}
#[derive(Debug, Module)]
struct Differing {
    block: Block,
}
#[nn::forward]
impl Differing {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.block.call(x);
        &y + self.block.call(&y.sum_dim(0, false))
    }
}
/// How a call of one tensor was kept.
fn one_tensor(p: &ExportedProgram, fqn: &str, input: &str, output: &str) -> ModuleCallEntry {
    let mut s = p.module_call_graph[0].signature.clone().unwrap();
    s.inputs = vec![ArgumentSpec::Tensor(input.into())];
    s.outputs = vec![ArgumentSpec::Tensor(output.into())];
    ModuleCallEntry { fqn: fqn.into(), signature: Some(s) }
}
/// As after `preserve_module_call_signature=("block",)`.
#[test]
fn modules_that_keep_how_they_are_called() {
    let m = Differing { block: Block { fc: nn::Linear::new(4, 4) } };
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch").max(8))]);
    let mut p = try_export_with(&m, |x: &[Tensor]| m.try_call(&x[0]), &[&floats(&[3, 4])], o).unwrap();
    let kept = [one_tensor(&p, "block", "x", "mul"), one_tensor(&p, "block@1", "sum_1", "tanh")];
    p.module_call_graph.retain(|e| !e.fqn.starts_with("block") || e.fqn.contains(".fc"));
    p.module_call_graph.splice(1..1, kept);
    // the same, asked for
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch").max(8))]);
    let asked = |paths: &[&str]| {
        let o = o.clone().preserve_module_call_signature(paths);
        try_export_with(&m, |x: &[Tensor]| m.try_call(&x[0]), &[&floats(&[3, 4])], o)
    };
    let q = asked(&["block"]).unwrap();
    let shown = |p: &ExportedProgram| {
        let mut all: Vec<String> = p
            .module_call_graph
            .iter()
            .skip(1)
            .map(|e| match &e.signature {
                Some(s) => format!("{} {:?} {:?} {:?}", e.fqn, s.inputs, s.outputs, s.texts),
                None => e.fqn.clone(),
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(shown(&q), shown(&p));
    let e = asked(&["blocks"]).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Attribute, "Differing has no module `blocks`"));
    p.module_call_graph = q.module_call_graph;
    let u = unflatten(&p).unwrap_or_else(|e| panic!("{e}\n{p}"));
    let text = u.graph().to_string();
    assert!(
        text.contains("call_function[target=torch.utils._pytree.tree_unflatten](args = ([%x], %_spec_0)"),
        "{text}"
    );
    assert_eq!(text.matches("call_module[target=block]").count(), 2, "{text}");
    assert!(
        text.contains("call_function[target=torch.fx._pytree.tree_flatten_spec](args = (%block, %_spec_1)"),
        "{text}"
    );
    let block = u.graph_module().submodule("block").unwrap();
    let calls = block.downcast::<InterpreterModuleDispatcher>().unwrap();
    assert_eq!(calls.call_modules().len(), 2);
    assert!(
        calls.call_modules()[0].code().contains("relu") && calls.call_modules()[1].code().contains("tanh")
    );
    for n in [2, 7] {
        let x = floats(&[n, 4]);
        assert_eq!(u.try_forward(&[&x]).unwrap().to_vec::<f32>(), m.call(&x).to_vec::<f32>());
    }
    // the file keeps it
    let path = std::env::temp_dir().join(format!("kept-{}.pt2", std::process::id()));
    save(&p, &path).unwrap();
    let again = load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let u = unflatten(&again).unwrap();
    let x = floats(&[5, 4]);
    assert_eq!(u.try_forward(&[&x]).unwrap().to_vec::<f32>(), m.call(&x).to_vec::<f32>());
    // a leaf that is not there
    let s = p.module_call_graph[1].signature.as_mut().unwrap();
    s.outputs = vec![ArgumentSpec::Tensor("add".into())];
    let e = unflatten(&p).unwrap_err();
    assert_ne!(e.kind(), ErrorKind::Missing, "{e}");
}
