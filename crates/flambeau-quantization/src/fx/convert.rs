//! From observers to a program on numbers that rounds as the quantized one will: PyTorch's reference model.

use super::Notes;
use super::backend_config::BackendConfig;
use super::custom_config::ConvertCustomConfig;
use super::nodes::{
    argument, attribute_before, class_of, constant, is_method, module, object, qparams, watcher,
    weight_and_bias,
};
use super::own::{self, Own};
use crate::flow;
use crate::granularity::QuantType;
use crate::nn::qat::Qat;
use crate::nn::reference::Reference;
use crate::qconfig::{Make, QConfig};
use crate::stubs::Fused;
use flambeau_autograd::no_grad;
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_fx::{Argument, GraphModule, Node, Op};
use flambeau_nn as nn;
use flambeau_nn::internal::Run;

/// Whether the node is one that is said not to be quantized.
fn is_left_out(m: &GraphModule, n: Node, notes: &Notes) -> bool {
    notes.qconfigs.get(&m.graph.node(n).name).is_some_and(Option::is_none)
}
/// Where the numbers that a node observes come from, or go to: the first part of the names of scale and zero point.
fn place_of(m: &GraphModule, n: Node, notes: &Notes) -> String {
    let Some(from) = argument(m, n, 0) else { return String::new() };
    if !is_left_out(m, from, notes) {
        return path(m, from, notes);
    }
    let users = m.graph.node(n).users();
    let linear = users.iter().find(|u| {
        let d = m.graph.node(**u);
        d.op == Op::CallFunction && crate::object_types::same(&d.target, "torch.nn.functional.linear")
    });
    let to = linear.or(users.first()).map(|u| path(m, *u, notes)).unwrap_or_default();
    format!("{to}_input")
}
fn path(m: &GraphModule, n: Node, notes: &Notes) -> String {
    notes.scopes.get(&m.graph.node(n).name).map(|(p, _)| p.clone()).unwrap_or_default()
}
/// Integers and numbers again in the place of an observer.
fn rounded(m: &mut GraphModule, n: Node, notes: &Notes) -> Result<()> {
    let Some(w) = watcher(m, n) else { return Ok(()) };
    let Some(from) = argument(m, n, 0) else { return Ok(()) };
    let around = std::iter::once(from).chain(m.graph.node(n).users().iter().copied());
    let skipped = around.into_iter().all(|a| is_left_out(m, a, notes));
    let is_static = w.dtype.is_quantized() && !w.dynamic;
    if skipped || !(is_static || w.dynamic || w.dtype == DType::F16) {
        m.graph.replace_all_uses_with(n, from);
        return m.graph.erase_node(n);
    }
    let dtype = Argument::Value(Value::DType(w.dtype));
    let (op, target, args): (_, _, Vec<Argument>) = if w.dynamic {
        // integers of 7 bits: what the products of the native engines ask for
        let args = vec![from.into(), dtype, true.into()];
        (Op::CallFunction, "torch.quantize_per_tensor_dynamic", args)
    } else if w.dtype == DType::F16 {
        (Op::CallMethod, "to", vec![from.into(), dtype])
    } else {
        let found = module(m, n, |r| qparams(r.as_module()))?;
        let Some((scale, zero)) = found else { return Ok(()) };
        let place = place_of(m, n, notes);
        let (scale, zero) = match w.per_channel {
            Some(_) => (scale, zero),
            None => {
                let scalar = |t: &Tensor| flambeau_core::ops::reshape(t, &[]);
                (scalar(&scale)?, crate::tensor::cast(&scalar(&zero)?, DType::I64)?)
            }
        };
        let scale = attribute_before(m, n, &format!("{place}_scale_"), scale);
        let zero = attribute_before(m, n, &format!("{place}_zero_point_"), zero);
        let mut args = vec![from.into(), scale.into(), zero.into()];
        args.extend(w.per_channel.map(Argument::from));
        args.push(dtype);
        let name =
            if w.per_channel.is_some() { "torch.quantize_per_channel" } else { "torch.quantize_per_tensor" };
        (Op::CallFunction, name, args)
    };
    m.graph.inserting_before(n);
    let q = m.graph.create_node(op, target, args, Vec::new(), None);
    let d = m.graph.create_node(Op::CallMethod, "dequantize", vec![q.into()], Vec::new(), None);
    m.graph.inserting_at_end();
    m.graph.replace_all_uses_with(n, d);
    m.graph.erase_node(n)
}
/// Numbers of a quantized input.
fn dequantized(m: &mut GraphModule, n: Node) {
    let users = m.graph.node(n).users().to_vec();
    m.graph.inserting_after(n);
    let d = m.graph.create_node(Op::CallMethod, "dequantize", vec![n.into()], Vec::new(), None);
    m.graph.inserting_at_end();
    for u in users {
        m.graph.replace_input(u, n, d);
    }
}
/// Results stay integers where they are.
fn kept_quantized(m: &mut GraphModule, out: Node, which: &[usize]) {
    let Some(result) = m.graph.node(out).args().first().cloned() else { return };
    let chosen: Vec<Node> = match &result {
        Argument::Node(n) if which.contains(&0) => vec![*n],
        Argument::List(l) | Argument::Tuple(l) => which.iter().filter_map(|i| l.get(*i)?.node()).collect(),
        _ => Vec::new(),
    };
    for n in chosen {
        if is_method(m, n, "dequantize")
            && let Some(q) = argument(m, n, 0)
        {
            m.graph.replace_input(out, n, q);
        }
    }
}
/// Whether the engine has a layer of these dtypes.
fn is_supported(q: &QConfig, class: &str, backend: &BackendConfig) -> bool {
    let dynamic = match &q.activation {
        Make::Observer(o) => o.is_dynamic,
        Make::FakeQuantize(f) => f.observer.is_dynamic,
        Make::Identity => false,
    };
    let activation = q.activation.dtype().unwrap_or(DType::F32);
    let bias = if activation == DType::F16 && q.weight.dtype() == Some(DType::F16) && !dynamic {
        DType::F16
    } else {
        DType::F32
    };
    let Some(c) = backend.of(class) else { return false };
    c.dtype_configs.iter().any(|c| {
        let input = c.input.dtype.unwrap_or(DType::F32);
        let output = c.output.dtype.unwrap_or(DType::F32);
        let weight = c.weight.dtype.unwrap_or(DType::F32) == q.weight.dtype().unwrap_or(DType::F32);
        if c.is_dynamic {
            dynamic && input == activation && output == DType::F32 && weight
        } else {
            input == activation
                && output == activation
                && weight
                && c.bias_dtype.unwrap_or(DType::F32) == bias
        }
    })
}
/// The float layer of one that was trained with rounding, and what rounded it.
fn float_of(q: &Qat) -> Result<(Box<dyn Run>, Box<dyn Run>)> {
    Ok((crate::forms::float_form(q)?, flow::copy(q.weight_fake_quant())?))
}
/// A layer with a weight becomes one that rounds it.
fn weighted(m: &mut GraphModule, n: Node, notes: &Notes, backend: &BackendConfig) -> Result<()> {
    let (name, target) = (m.graph.node(n).name.clone(), m.graph.node(n).target.clone());
    let qconfig = notes.qconfigs.get(&name).cloned().flatten();
    let new = module(m, n, |r| {
        let whole = r.as_module();
        let (class, trained) = (class_of(whole), whole.downcast_ref::<Qat>());
        let first = whole.downcast_ref::<Fused>().and_then(|f| f.part(0)).map(|p| class_of(p.as_module()));
        let root = trained.is_some() || backend.is_root(first.as_deref().unwrap_or(&class));
        if !root {
            return Ok(None);
        }
        let (body, by, relu): (Box<dyn Run>, Option<Box<dyn Run>>, _) = match trained {
            Some(t) => {
                let (float, by) = float_of(t)?;
                (float, Some(by), t.relu())
            }
            None => match whole.downcast_ref::<Fused>() {
                Some(f) => match (f.part(0), f.part(1), f.part(2)) {
                    (Some(p), Some(_), None) => (flow::copy(p.as_module())?, None, true),
                    _ => return Ok(None),
                },
                None => (flow::copy(whole)?, None, false),
            },
        };
        let whole_again = |body: Box<dyn Run>| match relu {
            true => flow::fused(&[body.as_module(), &nn::ReLU::new()], false),
            false => Ok(body),
        };
        let wanted =
            qconfig.as_ref().filter(|q| notes.observed.contains(&name) && is_supported(q, &class, backend));
        let Some(q) = wanted.filter(|q| q.weight.dtype().is_some_and(|d| d != DType::F32)) else {
            return trained.map(|_| whole_again(body)).transpose();
        };
        let rounded = match by {
            Some(by) => Some(Reference::trained(body, &*by)?),
            None => Reference::of(body, &q.weight)?,
        };
        rounded.map(|r| whole_again(Box::new(r))).transpose()
    })?;
    if let Some(Some(new)) = new {
        new.eval();
        m.set_module(&target, object(new));
    }
    Ok(())
}
/// Lets observers of weights of functions look: those of dynamic quantization have seen nothing yet.
fn look_at_weights(m: &GraphModule, backend: &BackendConfig) -> Result<()> {
    for n in m.graph.nodes() {
        let d = m.graph.node(n);
        let places = backend.of(&d.target).and_then(|c| c.weight_and_bias);
        if let (Some(w), _) = weight_and_bias(m, n, places)
            && watcher(m, w).is_some()
        {
            constant(m, w)?;
        }
    }
    Ok(())
}
/// The kind of quantization that a configuration asks for.
fn quant_type(q: &QConfig) -> QuantType {
    let (activation, dynamic) = match &q.activation {
        Make::Observer(o) => (o.dtype, o.is_dynamic),
        Make::FakeQuantize(f) => (f.observer.dtype, f.observer.is_dynamic),
        Make::Identity => (DType::F32, false),
    };
    match (dynamic, activation) {
        (true, _) => QuantType::DYNAMIC,
        (false, DType::F32) => QuantType::WEIGHT_ONLY,
        _ => QuantType::STATIC,
    }
}
/// Gives the integers themselves instead of the numbers that they stand for.
fn without_dequantize(m: &mut GraphModule, n: Node, i: usize) -> Result<()> {
    let Some(from) = argument(m, n, i).filter(|a| is_method(m, *a, "dequantize")) else { return Ok(()) };
    if let Some(q) = argument(m, from, 0) {
        m.graph.replace_input(n, from, q);
        if m.graph.node(from).users().is_empty() {
            m.graph.erase_node(from)?;
        }
    }
    Ok(())
}
/// A module of the program's own becomes the one that its function makes; gives the observer behind it, which is no part of the graph
/// any more.
fn custom_module(
    m: &mut GraphModule,
    n: Node,
    notes: &Notes,
    custom: &ConvertCustomConfig,
    exchange: bool,
) -> Result<Option<Node>> {
    let (name, target) = (m.graph.node(n).name.clone(), m.graph.node(n).target.clone());
    let Some(q) = notes.qconfigs.get(&name).cloned().flatten() else { return Ok(None) };
    let kind = quant_type(&q);
    let (mut behind, mut found) = (None, None);
    if kind == QuantType::STATIC {
        without_dequantize(m, n, 0)?;
        behind = m.graph.node(n).users().iter().copied().find(|u| watcher(m, *u).is_some());
        let observer = behind.ok_or_else(|| {
            Error::assertion("Expected activation_post_process to be present for observed custom module")
        })?;
        found = module(m, observer, |r| qparams(r.as_module()))?;
    }
    if exchange && let Some(new) = own::object(m, n, |o: &Own| custom.quantized(o, kind, found.as_ref())) {
        let new = new?;
        new.module().set_training(false);
        m.set_module(&target, ObjectRef::new(new));
    }
    Ok(behind)
}
/// A graph with observers as one that rounds.
pub(super) fn convert(
    m: &mut GraphModule,
    notes: &Notes,
    custom: &ConvertCustomConfig,
    backend: &BackendConfig,
) -> Result<()> {
    no_grad(|| {
        look_at_weights(m, backend)?;
        let all: Vec<Node> = m.graph.nodes().collect();
        let mut inputs = 0;
        let mut done: Vec<String> = Vec::new();
        let (mut behind_custom, mut exchanged): (Vec<Node>, Vec<String>) = (Vec::new(), Vec::new());
        for n in all {
            let d = m.graph.node(n);
            match d.op {
                Op::Placeholder => {
                    if notes.custom.input_quantized_indexes.contains(&inputs) {
                        dequantized(m, n);
                    }
                    inputs += 1;
                }
                Op::Output => kept_quantized(m, n, &notes.custom.output_quantized_indexes),
                // a module of the program's own gives integers by itself
                Op::CallModule if behind_custom.contains(&n) => {
                    if let Some(from) = argument(m, n, 0) {
                        m.graph.replace_all_uses_with(n, from);
                        m.graph.erase_node(n)?;
                        dequantized(m, from);
                    }
                }
                Op::CallModule if watcher(m, n).is_some() => rounded(m, n, notes)?,
                Op::CallModule if let Some(inner) = notes.standalone.get(&d.target) => {
                    for i in &inner.custom.input_quantized_indexes {
                        without_dequantize(m, n, *i)?;
                    }
                    if !inner.custom.output_quantized_indexes.is_empty() {
                        dequantized(m, n);
                    }
                }
                Op::CallModule
                    if exchanged.contains(&d.target)
                        || own::object(m, n, |o: &Own| custom.knows(o)) == Some(true) =>
                {
                    let first = !exchanged.contains(&d.target);
                    exchanged.push(d.target.clone());
                    behind_custom.extend(custom_module(m, n, notes, custom, first)?);
                }
                // a layer that is called twice is exchanged once
                Op::CallModule if !done.contains(&d.target) => {
                    done.push(d.target.clone());
                    weighted(m, n, notes, backend)?;
                }
                _ => {}
            }
        }
        m.graph.eliminate_dead_code(&|_| false);
        m.delete_all_unused_submodules();
        m.graph.lint()
    })
}
