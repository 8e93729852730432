//! From a program that rounds to one on integers: layers and functions between integers become those of quantized tensors.

use super::Notes;
use super::native_backend_config::{has_own_rule, keeps_rule};
use super::nodes::{argument, constant, free_path, is_function, is_method, module, object, object_type};
use crate::forms::{conv_of, layer_kind, plain};
use crate::nn::conv::{Conv, ConvShape};
use crate::nn::embedding::Embedding;
use crate::nn::layer::{Layer, LayerKind};
use crate::nn::linear::{Linear, LinearKind};
use crate::nn::reference::Reference;
use crate::object_types::ObjectType;
use crate::qconfig::{Make, QConfig};
use crate::stubs::Fused;
use flambeau_autograd::no_grad;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Result, Tensor, Value};
use flambeau_fx::{Argument, GraphModule, Node, Op};
use flambeau_nn as nn;
use flambeau_nn::internal::Run;

/// A node that makes integers of what a call gives, and what stands before it.
struct Quantized {
    q: Node,
    /// A ReLU between the call and it.
    relu: Option<Node>,
    call: Node,
    scale: Node,
    zero: Node,
}
impl Quantized {
    fn rule(&self, m: &GraphModule) -> Result<(f64, i64)> {
        let at = |n: Node| m.tensor(&m.graph.node(n).target);
        Ok((f64::from(at(self.scale)?.try_item::<f32>()?), at(self.zero)?.try_item()?))
    }
}
fn bare(m: &GraphModule, n: Node) -> Option<String> {
    object_type(m, n).and_then(|t| ObjectType::of(&t).call().map(str::to_string))
}
fn is_relu(m: &GraphModule, n: Node) -> bool {
    object_type(m, n).is_some_and(|t| {
        crate::object_types::same(&t, "torch.nn.ReLU") || bare(m, n).as_deref() == Some("relu")
    })
}
fn is_left_out(m: &GraphModule, n: Node, notes: &Notes) -> bool {
    notes.qconfigs.get(&m.graph.node(n).name).is_some_and(Option::is_none)
}
fn quantized(m: &GraphModule, q: Node, notes: &Notes, past_relu: bool) -> Option<Quantized> {
    if !is_function(m, q, "torch.quantize_per_tensor") {
        return None;
    }
    let (mut call, mut relu) = (argument(m, q, 0)?, None);
    if past_relu && is_relu(m, call) {
        relu = Some(call);
        call = argument(m, call, 0)?;
    }
    let found = Quantized { q, relu, call, scale: argument(m, q, 1)?, zero: argument(m, q, 2)? };
    (!is_left_out(m, call, notes)).then_some(found)
}
fn is_dequantized(m: &GraphModule, n: Node) -> bool {
    is_method(m, n, "dequantize")
}
/// Gives a call the integers themselves.
fn reroute(m: &mut GraphModule, call: Node, d: Node) {
    if let Some(q) = argument(m, d, 0) {
        m.graph.replace_input(call, d, q);
    }
}
/// Takes out what made integers of the results of a call that gives integers itself now.
fn unquantize(m: &mut GraphModule, f: &Quantized, by: Node) -> Result<()> {
    m.graph.replace_all_uses_with(f.q, by);
    m.graph.erase_node(f.q)?;
    for n in [f.scale, f.zero] {
        if m.graph.node(n).users().is_empty() {
            m.graph.erase_node(n)?;
        }
    }
    Ok(())
}
fn all(m: &GraphModule) -> Vec<Node> {
    m.graph.nodes().collect()
}

/// The layer that rounds its weight, with or without a ReLU behind it.
fn reference(r: &dyn Run) -> Option<(&Reference, bool)> {
    let m = r.as_module();
    if let Some(r) = m.downcast_ref::<Reference>() {
        return Some((r, false));
    }
    let f = m.downcast_ref::<Fused>()?;
    Some((f.part(0)?.as_module().downcast_ref::<Reference>()?, true))
}
fn static_form(r: &Reference, relu: bool, rule: (f64, i64)) -> Result<Option<Box<dyn Run>>> {
    let Some(by) = r.rounding() else { return Ok(None) };
    let float = r.float();
    if let Some(l) = float.downcast_ref::<nn::Linear>() {
        let w = by.quantized(l.weight.tensor())?;
        return Ok(Some(Box::new(Linear::of(w, plain(&l.bias), rule, LinearKind::Static, relu))));
    }
    let Some((shape, w, bias)) = conv_of(float) else { return Ok(None) };
    Ok(Some(Box::new(Conv::of(shape, by.quantized(&w)?, bias, rule, relu))))
}
fn static_layers(m: &mut GraphModule, notes: &Notes) -> Result<()> {
    for q in all(m) {
        let Some(f) = quantized(m, q, notes, false) else { continue };
        let Some(d) = argument(m, f.call, 0).filter(|d| is_dequantized(m, *d)) else { continue };
        let rule = f.rule(m)?;
        let new = module(m, f.call, |r| match reference(r) {
            Some((r, relu)) => static_form(r, relu, rule),
            None => Ok(None),
        })?;
        if let Some(Some(new)) = new {
            let path = m.graph.node(f.call).target.clone();
            m.set_module(&path, object(new));
            reroute(m, f.call, d);
            unquantize(m, &f, f.call)?;
        }
    }
    Ok(())
}
fn dynamic_form(r: &Reference, relu: bool) -> Result<Option<Box<dyn Run>>> {
    let float = r.float();
    if let (Some(l), Some(by)) = (float.downcast_ref::<nn::Linear>(), r.rounding()) {
        let w = by.quantized(l.weight.tensor())?;
        return Ok(Some(Box::new(Linear::of(w, plain(&l.bias), (1.0, 0), LinearKind::Dynamic, relu))));
    }
    let Some(by) = r.spec() else { return Ok(None) };
    let by = Make::Observer(by.clone());
    crate::nn::recurrent::dynamic_form(float, &QConfig::new(Make::Identity, by))
}
fn dynamic_layers(m: &mut GraphModule) -> Result<()> {
    for n in all(m) {
        let Some(d) = argument(m, n, 0).filter(|d| is_dequantized(m, *d)) else { continue };
        let Some(q) = argument(m, d, 0).filter(|q| is_function(m, *q, "torch.quantize_per_tensor_dynamic"))
        else {
            continue;
        };
        let new = module(m, n, |r| match reference(r) {
            Some((r, relu)) => dynamic_form(r, relu),
            None => Ok(None),
        })?;
        if let (Some(Some(new)), Some(x)) = (new, argument(m, q, 0)) {
            let path = m.graph.node(n).target.clone();
            m.set_module(&path, object(new));
            m.graph.replace_input(n, d, x);
        }
    }
    Ok(())
}
/// Embeddings, whose weights alone are integers.
fn tables(m: &mut GraphModule) -> Result<()> {
    for n in m.graph.find_nodes(Op::CallModule, None) {
        let new = module(m, n, |r| {
            let Some((r, _)) = reference(r) else { return Ok(None) };
            let Some(by) = r.rounding() else { return Ok(None) };
            let (w, bag) = if let Some(e) = r.float().downcast_ref::<nn::Embedding>() {
                (e.weight.tensor(), None)
            } else if let Some(e) = r.float().downcast_ref::<nn::EmbeddingBag>() {
                (e.weight.tensor(), Some((e.options.mode.clone(), e.options.include_last_offset)))
            } else {
                return Ok(None);
            };
            Ok(Some(Embedding::new(by.quantized(w)?, bag)))
        })?;
        if let Some(Some(new)) = new {
            let path = m.graph.node(n).target.clone();
            m.set_module(&path, object(Box::new(new)));
        }
    }
    Ok(())
}
/// A weight and its bias, packed, for a call of a function that is given them: only where both are known now.
fn packed(m: &GraphModule, call: Node, name: &str, weight: &Tensor) -> Result<Option<Box<dyn Run>>> {
    const PLACES: [&str; 7] = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"];
    let d = m.graph.node(call);
    let given = |i: usize| {
        let a = d.args().get(i).or_else(|| d.kwargs().iter().find(|(k, _)| k == PLACES[i]).map(|(_, a)| a));
        a.cloned()
    };
    let bias = match given(2) {
        None | Some(Argument::Value(Value::None)) => None,
        Some(Argument::Node(b)) => match constant(m, b)? {
            Some(v) => Some(Tensor::from_value(&v)?),
            None => return Ok(None),
        },
        Some(_) => return Ok(None),
    };
    if name == "linear" {
        return Ok(Some(Box::new(Linear::of(weight.clone(), bias, (1.0, 0), LinearKind::Static, false))));
    }
    let dims = weight.dim().saturating_sub(2);
    let list = |i: usize, default: i64| -> Result<Option<Vec<i64>>> {
        let v = match given(i) {
            None => return Ok(Some(vec![default; dims])),
            Some(a) => a.evaluate(&mut |_| Ok(Value::None))?,
        };
        Ok(match &v {
            Value::Int(n) => Some(vec![*n; dims]),
            v => Vec::<i64>::from_value(v).ok().map(|l| if l.len() == 1 { vec![l[0]; dims] } else { l }),
        })
    };
    let (Some(stride), Some(padding), Some(dilation), Some(groups)) =
        (list(3, 1)?, list(4, 0)?, list(5, 1)?, list(6, 1)?)
    else {
        return Ok(None);
    };
    let (groups, sizes) = (groups.first().copied().unwrap_or(1), weight.sizes());
    let shape = ConvShape {
        in_channels: sizes[1] * groups,
        out_channels: sizes[0],
        kernel_size: sizes[2..].to_vec(),
        stride,
        output_padding: vec![0; dims],
        padding,
        dilation,
        groups,
        transposed: false,
    };
    Ok(Some(Box::new(Conv::of(shape, weight.clone(), bias, (1.0, 0), false))))
}
/// The integers of a weight that a call is given as numbers.
fn weight_of(m: &GraphModule, call: Node) -> Result<Option<Tensor>> {
    let Some(q) = argument(m, call, 1).filter(|d| is_dequantized(m, *d)).and_then(|d| argument(m, d, 0))
    else {
        return Ok(None);
    };
    Ok(match constant(m, q)? {
        Some(Value::Tensor(ref t)) => Some(t.clone()),
        _ => None,
    })
}
const WEIGHTED: [&str; 4] = ["linear", "conv1d", "conv2d", "conv3d"];
/// Puts a packed weight beside the module of a call, and reads it before the call.
fn attach(m: &mut GraphModule, call: Node, new: Box<dyn Run>, notes: &Notes) -> Node {
    let place = notes.scopes.get(&m.graph.node(call).name).map(|(p, _)| p.clone()).unwrap_or_default();
    let path = free_path(m, &format!("{place}_packed_weight_"));
    m.set_module(&path, object(new));
    m.graph.inserting_before(call);
    let n = m.graph.create_node(Op::GetAttr, &path, Vec::new(), Vec::new(), None);
    m.graph.inserting_at_end();
    n
}
fn static_functions(m: &mut GraphModule, notes: &Notes) -> Result<()> {
    for q in all(m) {
        let Some(f) = quantized(m, q, notes, true) else { continue };
        let Some(name) = bare(m, f.call).filter(|n| WEIGHTED.contains(&n.as_str())) else { continue };
        let Some(x) =
            argument(m, f.call, 0).filter(|d| is_dequantized(m, *d)).and_then(|d| argument(m, d, 0))
        else {
            continue;
        };
        let Some(w) = weight_of(m, f.call)? else { continue };
        let Some(new) = packed(m, f.call, &name, &w)? else { continue };
        let weight = attach(m, q, new, notes);
        let relu = if f.relu.is_some() { "_relu" } else { "" };
        let args: Vec<Argument> = vec![x.into(), weight.into(), f.scale.into(), f.zero.into()];
        replace(m, &f, &format!("torch.ops.quantized.{name}{relu}"), args, Vec::new())?;
    }
    Ok(())
}
/// Puts a call of an operator of integers in the place of a call, what is between it and its integers, and these.
fn replace(
    m: &mut GraphModule,
    f: &Quantized,
    target: &str,
    args: Vec<Argument>,
    kwargs: Vec<(String, Argument)>,
) -> Result<Node> {
    let meta = m.graph.node(f.call).meta.clone();
    m.graph.inserting_after(f.q);
    let new = m.graph.create_node(Op::CallFunction, target, args, kwargs, None);
    m.graph.inserting_at_end();
    *m.graph.meta_mut(new) = meta;
    unquantize(m, f, new)?;
    for n in f.relu.into_iter().chain([f.call]) {
        if m.graph.node(n).users().is_empty() {
            m.graph.erase_node(n)?;
        }
    }
    Ok(new)
}
fn dynamic_functions(m: &mut GraphModule, notes: &Notes) -> Result<()> {
    // from the end, so that a ReLU is seen before what it follows
    for n in all(m).into_iter().rev() {
        if !m.graph.has(n) {
            continue;
        }
        let (relu, call) = match is_relu(m, n).then(|| argument(m, n, 0)).flatten() {
            Some(before) if m.graph.node(before).users().len() == 1 => (Some(n), before),
            _ => (None, n),
        };
        if bare(m, call).as_deref() != Some("linear") || is_left_out(m, call, notes) {
            continue;
        }
        let q = argument(m, call, 0).filter(|d| is_dequantized(m, *d)).and_then(|d| argument(m, d, 0));
        let Some(q) = q.filter(|q| is_function(m, *q, "torch.quantize_per_tensor_dynamic")) else { continue };
        let Some(w) = weight_of(m, call)? else { continue };
        let Some(new) = packed(m, call, "linear", &w)? else { continue };
        let weight = attach(m, call, new, notes);
        let args = m.graph.node(q).args();
        let (Some(x), reduce) = (args.first().cloned(), args.get(2).cloned()) else { continue };
        let half = w.dtype() == DType::F16;
        let args: Vec<Argument> = [x, weight.into()].into_iter().chain(reduce.filter(|_| !half)).collect();
        let kind = if relu.is_some() { "linear_relu_dynamic" } else { "linear_dynamic" };
        let kind = if half { format!("{kind}_fp16") } else { kind.to_string() };
        m.graph.inserting_before(call);
        let new = m.graph.create_node(
            Op::CallFunction,
            &format!("torch.ops.quantized.{kind}"),
            args,
            Vec::new(),
            None,
        );
        m.graph.inserting_at_end();
        for old in relu.into_iter().chain([call]) {
            m.graph.replace_all_uses_with(old, new);
            m.graph.erase_node(old)?;
        }
    }
    Ok(())
}
fn binary(m: &mut GraphModule, notes: &Notes) -> Result<()> {
    for q in all(m) {
        let Some(f) = quantized(m, q, notes, true) else { continue };
        let Some(name) = bare(m, f.call).filter(|n| matches!(n.as_str(), "add" | "mul" | "matmul")) else {
            continue;
        };
        if name == "matmul" && f.relu.is_some() {
            continue;
        }
        let d = m.graph.node(f.call);
        if d.args().len() != 2 || !d.kwargs().is_empty() {
            continue;
        }
        let nodes: Vec<Node> = d.args().iter().filter_map(Argument::node).collect();
        if nodes.is_empty() || nodes.iter().any(|n| !is_dequantized(m, *n)) {
            continue;
        }
        let integers = |a: &Argument| match a {
            Argument::Node(n) => argument(m, *n, 0).map_or_else(|| a.clone(), Argument::Node),
            other => other.clone(),
        };
        let mut args: Vec<Argument> = d.args().iter().map(integers).collect();
        if nodes.len() == 2 {
            args.extend([Argument::Node(f.scale), f.zero.into()]);
        }
        let relu = if f.relu.is_some() { "_relu" } else { "" };
        replace(m, &f, &format!("torch.ops.quantized.{name}{relu}"), args, Vec::new())?;
    }
    Ok(())
}
/// Sizes are read from integers as well.
fn sizes(m: &mut GraphModule) {
    for n in all(m) {
        let d = m.graph.node(n);
        let asks = match d.op {
            Op::CallMethod => matches!(d.target.as_str(), "size" | "shape"),
            Op::CallFunction => {
                d.target == "getattr"
                    && matches!(d.args().get(1), Some(Argument::Value(Value::Str(s))) if s == "shape")
            }
            _ => false,
        };
        if let Some(from) = argument(m, n, 0).filter(|d| asks && is_dequantized(m, *d)) {
            reroute(m, n, from);
        }
    }
}
/// Parameters of functions that have an operator of integers of another order of parameters.
fn parameters(name: &str) -> &'static [&'static str] {
    match name {
        "elu" => &["input", "alpha"],
        "leaky_relu" => &["input", "negative_slope"],
        "dropout" => &["input", "p", "training"],
        "layer_norm" => &["input", "normalized_shape", "weight", "bias", "eps"],
        "instance_norm" => {
            &["input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"]
        }
        _ => &["input"],
    }
}
/// What an operator of integers is not given.
const LEFT_OUT: &[&str] = &["running_mean", "running_var", "use_input_stats", "momentum", "inplace"];
/// The layer of integers in the place of one with a rule of its own.
fn ruled(m: &GraphModule, f: &Quantized, notes: &Notes) -> Result<Option<Box<dyn Run>>> {
    let rule = f.rule(m)?;
    let q = notes.qconfigs.get(&m.graph.node(f.call).name).cloned().flatten();
    let new = module(m, f.call, |r| {
        let layer = r.as_module();
        if let Some((r, false)) = reference(r) {
            return static_form(r, false, rule);
        }
        let kind = if let Some(d) = layer.downcast_ref::<nn::Dropout>() {
            Some(LayerKind::Dropout { p: d.options.p.to_f64() })
        } else if let Some(s) = layer.downcast_ref::<nn::Softmax>() {
            match &s.options.dim {
                Some(dim) => {
                    Some(LayerKind::Softmax { dim: dim.get("softmax() wants an integer for dim, not")? })
                }
                None => None,
            }
        } else {
            layer_kind(layer, q.as_ref().map(|q| &q.weight))?
        };
        Ok(kind.map(|k| Box::new(Layer::new(k, rule.0, rule.1)) as Box<dyn Run>))
    })?;
    Ok(new.flatten())
}
fn others(m: &mut GraphModule, notes: &Notes) -> Result<()> {
    for q in all(m) {
        let Some(f) = quantized(m, q, notes, false) else { continue };
        let Some(name) = object_type(m, f.call) else { continue };
        let d = m.graph.node(f.call);
        let Some(first) = d.args().first().or_else(|| d.kwargs().first().map(|(_, a)| a)) else { continue };
        let inputs: Vec<Node> = match first {
            Argument::Node(n) => vec![*n],
            a => a.items().unwrap_or(&[]).iter().filter_map(Argument::node).collect(),
        };
        if inputs.is_empty() || inputs.iter().any(|n| !is_dequantized(m, *n)) {
            continue;
        }
        if d.op == Op::CallModule {
            let keeps = keeps_rule(&name) && !name.ends_with(".Softmax");
            if !keeps {
                let Some(new) = ruled(m, &f, notes)? else { continue };
                let path = m.graph.node(f.call).target.clone();
                m.set_module(&path, object(new));
            }
        } else if has_own_rule(&name) {
            let bare = bare(m, f.call).unwrap_or_default();
            let x = argument(m, inputs[0], 0);
            let d = m.graph.node(f.call);
            let named = parameters(&bare).iter().zip(d.args()).skip(1);
            let named = named.map(|(k, a)| (k.to_string(), a.clone())).chain(d.kwargs().iter().cloned());
            let mut kwargs: Vec<_> = named.filter(|(k, _)| !LEFT_OUT.contains(&k.as_str())).collect();
            kwargs.push(("output_scale".into(), f.scale.into()));
            kwargs.push(("output_zero_point".into(), f.zero.into()));
            let args = x.map(Argument::Node).into_iter().collect();
            replace(m, &f, &format!("torch.ops.quantized.{bare}"), args, kwargs)?;
            continue;
        } else if !keeps_rule(&name) {
            continue;
        }
        for n in inputs {
            reroute(m, f.call, n);
        }
        unquantize(m, &f, f.call)?;
    }
    Ok(())
}
/// Lowers a program that rounds.
pub(super) fn lower(m: &mut GraphModule, notes: &Notes) -> Result<()> {
    no_grad(|| {
        static_layers(m, notes)?;
        dynamic_layers(m)?;
        tables(m)?;
        static_functions(m, notes)?;
        dynamic_functions(m, notes)?;
        binary(m, notes)?;
        sizes(m);
        others(m, notes)?;
        m.graph.eliminate_dead_code(&|_| false);
        m.delete_all_unused_submodules();
        m.graph.lint()
    })
}
