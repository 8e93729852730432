//! Changes of programs (`torch.export.passes`).

use crate::program::ExportedProgram;
use flambeau_core::{Device, Result, TensorOptions, Value};
use flambeau_fx::{Argument, GraphModule, Val};

fn moved(a: &Argument, to: Device) -> Argument {
    match a {
        Argument::Value(Value::Device(_)) => Argument::Value(Value::Device(to)),
        Argument::List(l) => Argument::List(l.iter().map(|a| moved(a, to)).collect()),
        Argument::Tuple(l) => Argument::Tuple(l.iter().map(|a| moved(a, to)).collect()),
        a => a.clone(),
    }
}
fn graph(m: &mut GraphModule, to: Device) {
    let nodes: Vec<_> = m.graph.nodes().collect();
    for n in nodes {
        let d = m.graph.node(n);
        let args: Vec<Argument> = d.args().iter().map(|a| moved(a, to)).collect();
        let kwargs: Vec<_> = d.kwargs().iter().map(|(k, a)| (k.clone(), moved(a, to))).collect();
        m.graph.set_args(n, args);
        m.graph.set_kwargs(n, kwargs);
        if let Some(Val::Tensor(t)) = &mut m.graph.meta_mut(n).val {
            t.device = to;
        }
    }
    let children: Vec<(String, GraphModule)> = m
        .attributes()
        .iter()
        .filter_map(|(p, v)| match v {
            Value::Object(o) => Some((p.clone(), o.downcast::<GraphModule>()?.clone())),
            _ => None,
        })
        .collect();
    for (path, mut child) in children {
        graph(&mut child, to);
        m.set_graph(&path, child);
    }
}
/// The program on another device: its weights and constants, and the devices that its graph names.
///
/// ```
/// use torch::export::{self, passes::move_to_device_pass};
/// use torch::{Device, Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// let shapes = move_to_device_pass(&p, Device::Cpu)?;
/// assert!(shapes.state_dict.iter().all(|(_, t)| t.device() == Device::Cpu));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A device without memory.
#[doc(alias = "torch.export.passes.move_to_device_pass")]
pub fn move_to_device_pass(program: &ExportedProgram, location: Device) -> Result<ExportedProgram> {
    let mut p = program.clone();
    for (_, t) in p.state_dict.iter_mut().chain(&mut p.constants) {
        let moved = flambeau_autograd::no_grad(|| t.detach().try_to(TensorOptions::from(location)))?;
        moved.try_requires_grad_(t.requires_grad())?;
        *t = moved;
    }
    graph(&mut p.graph_module, location);
    Ok(p)
}
