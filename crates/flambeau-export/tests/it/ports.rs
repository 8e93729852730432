//! Programs of PyTorch's users, written in Rust: their operators, ranges and results beside what PyTorch's own export gave.

use crate::exporting::{floats, round_trips};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Result, Tensor, Value, functions as torch};
use flambeau_export::{Dim, DynamicShapes, ExportOptions, ExportedProgram, try_export_values};
use flambeau_fx::pytree::leaves;
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn_functional::functional as F;
use std::sync::Arc;

mod guards;
mod nets;

type Forward = Box<dyn Fn(&[Value]) -> Value>;
struct Port {
    name: &'static str,
    module: Option<Box<dyn nn::Module>>,
    forward: Forward,
    names: &'static [&'static str],
    inputs: Vec<Value>,
    shapes: DynamicShapes,
    operators: &'static [&'static str],
    ranges: &'static str,
    others: Vec<Vec<Value>>,
}
fn tensors(l: &[Value]) -> Vec<Tensor> {
    l.iter()
        .flat_map(leaves)
        .filter_map(|v| if let Value::Tensor(ref t) = v { Some(t.clone()) } else { None })
        .collect()
}
fn values(l: Vec<Tensor>) -> Vec<Value> {
    l.into_iter().map(Value::Tensor).collect()
}
fn all(l: Vec<Tensor>) -> Value {
    Value::Tuple(values(l))
}
fn of_tensors(f: impl Fn(&[Tensor]) -> Value + 'static) -> Forward {
    Box::new(move |v| f(&tensors(v)))
}
fn x(sizes: &[i64]) -> Vec<Value> {
    vec![Value::Tensor(floats(sizes))]
}
fn xy(a: &[i64], b: &[i64]) -> Vec<Value> {
    vec![Value::Tensor(floats(a)), Value::Tensor(floats(b))]
}
fn batch(inputs: &[&str]) -> DynamicShapes {
    inputs.iter().fold(DynamicShapes::new(), |s, i| s.with(i, [(0, Dim::new("batch"))]))
}

/// Programs of tensors alone.
fn functions() -> Vec<Port> {
    let port = |name, names, inputs, shapes, operators, ranges, others, f: Forward| Port {
        name,
        module: None,
        forward: f,
        names,
        inputs,
        shapes,
        operators,
        ranges,
        others,
    };
    vec![
        port(
            "arithmetic",
            &["x", "y"],
            xy(&[3, 2], &[3, 2]),
            batch(&["x", "y"]),
            &[
                "aten.abs.default",
                "aten.add.Tensor",
                "aten.addcmul.default",
                "aten.div.Tensor",
                "aten.floor_divide.default",
                "aten.lerp.Scalar",
                "aten.mul.Tensor",
                "aten.neg.default",
                "aten.pow.Tensor_Scalar",
                "aten.remainder.Scalar",
                "aten.sub.Tensor",
            ],
            "{s17: VR[0, int_oo]}",
            vec![xy(&[5, 2], &[5, 2])],
            of_tensors(|t| {
                let (x, y) = (&t[0], &t[1]);
                all(vec![
                    x + y * 2,
                    x - y / 3,
                    x * y,
                    x / (y.abs() + 1),
                    x.pow(2),
                    -x,
                    x.remainder(2),
                    x.floor_divide(0.5),
                    x.addcmul(y, y),
                    x.lerp(y, 0.3),
                ])
            }),
        ),
        port(
            "broadcasts",
            &["x", "y"],
            xy(&[3, 1], &[4]),
            batch(&["x"]),
            &[
                "aten.add.Tensor",
                "aten.expand.default",
                "aten.mul.Tensor",
                "aten.outer.default",
                "aten.repeat.default",
                "aten.select.int",
                "aten.sym_size.int",
                "aten.tile.default",
            ],
            "{s77: VR[0, int_oo]}",
            vec![xy(&[5, 1], &[4])],
            of_tensors(|t| {
                let (x, y) = (&t[0], &t[1]);
                all(vec![
                    x + y,
                    x.expand([-1, 4]) * y,
                    x.repeat([1, 2]),
                    y.expand([x.size(0), 4]),
                    x.select(1, 0).outer(y),
                    y.tile([2]),
                ])
            }),
        ),
        port(
            "causal_attention",
            &["x"],
            x(&[2, 3, 5, 4]),
            DynamicShapes::new().with("x", [(0, Dim::new("batch")), (2, Dim::new("time"))]),
            &["aten.add.Tensor", "aten.mul.Tensor", "aten.scaled_dot_product_attention.default"],
            "{s77: VR[0, int_oo], s53: VR[0, int_oo]}",
            vec![x(&[3, 3, 9, 4])],
            of_tensors(|t| F::scaled_dot_product_attention(&t[0], &(&t[0] * 0.5), &(&t[0] + 1)).into()),
        ),
        port(
            "distances",
            &["x", "y"],
            xy(&[5, 3], &[4, 3]),
            DynamicShapes::new().with("x", [(0, Dim::new("n").min(2).max(25))]),
            &[
                "aten.cdist.default",
                "aten.cosine_similarity.default",
                "aten.sqrt.default",
                "aten.square.default",
                "aten.sub.Tensor",
                "aten.sum.dim_IntList",
                "aten.unsqueeze.default",
            ],
            "{s77: VR[2, 25]}",
            vec![xy(&[7, 3], &[4, 3])],
            of_tensors(|t| {
                let (x, y) = (&t[0], &t[1]);
                all(vec![
                    torch::cdist(x, y),
                    F::cosine_similarity(&x.unsqueeze(1), &y.unsqueeze(0), -1),
                    (x.unsqueeze(1) - y).square().sum_dim(-1, false).sqrt(),
                ])
            }),
        ),
        port(
            "joining",
            &["x", "y"],
            xy(&[3, 6], &[3, 3]),
            batch(&["x", "y"]),
            &[
                "aten.add.Tensor",
                "aten.cat.default",
                "aten.chunk.default",
                "aten.hstack.default",
                "aten.slice.Tensor",
                "aten.split_with_sizes.default",
                "aten.stack.default",
                "aten.unbind.int",
                "operator.getitem",
            ],
            "{s17: VR[0, int_oo]}",
            vec![xy(&[5, 6], &[5, 3])],
            of_tensors(|t| {
                let (x, y) = (&t[0], &t[1]);
                let (a, c) = (x.chunk(2, 1), x.split_sizes([1, 2, 3], 1));
                all(vec![
                    torch::cat([x, y], -1),
                    torch::stack([&a[0], &a[1], y], 0),
                    &c[0] + c[1].i((.., ..1)),
                    torch::hstack([&c[2], y]),
                    x.unbind(1)[0].clone(),
                ])
            }),
        ),
        port(
            "nested_output",
            &["x"],
            x(&[3, 2]),
            batch(&["x"]),
            &["aten.add.Tensor", "aten.mean.dim", "aten.mul.Tensor", "aten.sum.default"],
            "{s77: VR[0, int_oo]}",
            vec![x(&[4, 2])],
            of_tensors(|t| {
                let x = &t[0];
                let inner = Value::List(values(vec![x.sum(), x.mean_dim(0, false)]));
                Value::Dict(vec![
                    ("a".into(), (x + 1).into()),
                    ("b".into(), Value::Tuple(vec![(x * 2).into(), inner])),
                ])
            }),
        ),
        port(
            "order_statistics",
            &["x"],
            x(&[3, 6]),
            batch(&["x"]),
            &[
                "aten.argmax.default",
                "aten.argmin.default",
                "aten.max.dim",
                "aten.sort.default",
                "aten.topk.default",
                "operator.getitem",
            ],
            "{s77: VR[0, int_oo]}",
            vec![x(&[4, 6])],
            of_tensors(|t| {
                let x = &t[0];
                let (v, s, m) = (x.topk(3, 1), x.sort(1, true), x.max_dim(1, false));
                all(vec![
                    v.values,
                    v.indices,
                    s.values,
                    s.indices,
                    m.values,
                    m.indices,
                    x.argmin_dim(1, false),
                    x.argmax(),
                ])
            }),
        ),
        port(
            "reductions",
            &["x"],
            x(&[3, 4, 5]),
            batch(&["x"]),
            &[
                "aten.all.dim",
                "aten.amax.default",
                "aten.amin.default",
                "aten.any.default",
                "aten.gt.Scalar",
                "aten.mean.dim",
                "aten.prod.dim_int",
                "aten.sum.default",
            ],
            "{s77: VR[0, int_oo]}",
            vec![x(&[4, 4, 5])],
            of_tensors(|t| {
                let x = &t[0];
                all(vec![
                    x.sum(),
                    x.mean_dim(1, false),
                    x.amax(-1, true),
                    x.amin([1, 2], false),
                    x.prod_dim(2, false),
                    x.gt(0).all_dim(1, false),
                    x.gt(1).any(),
                ])
            }),
        ),
        port(
            "reshapes",
            &["x"],
            x(&[2, 3, 4]),
            batch(&["x"]),
            &[
                "aten.contiguous.default",
                "aten.flatten.using_ints",
                "aten.movedim.int",
                "aten.permute.default",
                "aten.reshape.default",
                "aten.squeeze.dim",
                "aten.sym_size.int",
                "aten.t.default",
                "aten.transpose.int",
                "aten.unsqueeze.default",
                "aten.view.default",
                "operator.mul",
            ],
            "{s77: VR[0, int_oo]}",
            vec![x(&[5, 3, 4])],
            of_tensors(|t| {
                let x = &t[0];
                let b = x.size(0);
                all(vec![
                    x.reshape([b, -1]),
                    x.view([b, 12]),
                    x.permute([2, 0, 1]),
                    x.transpose(1, 2).contiguous(),
                    x.flatten(0, -1),
                    x.unsqueeze(0).squeeze_dim(0),
                    x.movedim(0, -1),
                    x.reshape([b * 3, 4]).t(),
                ])
            }),
        ),
        port(
            "scans",
            &["x"],
            x(&[3, 5]),
            batch(&["x"]),
            &[
                "aten.abs.default",
                "aten.cumprod.default",
                "aten.cumsum.default",
                "aten.flip.default",
                "aten.roll.default",
                "aten.tril.default",
                "aten.triu.default",
            ],
            "{s77: VR[0, int_oo]}",
            vec![x(&[6, 5])],
            of_tensors(|t| {
                let x = &t[0];
                all(vec![
                    x.cumsum(1),
                    x.abs().cumprod(1),
                    x.flip([1]).cumsum(1).flip([1]),
                    x.triu(0),
                    x.tril(-1),
                    x.roll([2], [1]),
                ])
            }),
        ),
        port(
            "selection",
            &["x", "mask"],
            vec![floats(&[3, 4]).into(), floats(&[3, 4]).gt(0.0).into()],
            batch(&["x", "mask"]),
            &[
                "aten.bitwise_not.default",
                "aten.clamp.default",
                "aten.flip.default",
                "aten.masked_fill.Scalar",
                "aten.maximum.default",
                "aten.minimum.default",
                "aten.neg.default",
                "aten.sub.Tensor",
                "aten.where.self",
                "aten.zeros.default",
            ],
            "{s31: VR[0, int_oo]}",
            vec![vec![floats(&[5, 4]).into(), floats(&[5, 4]).gt(0.0).into()]],
            of_tensors(|t| {
                let (x, mask) = (&t[0], &t[1]);
                all(vec![
                    torch::where_(mask, x, &-x),
                    x.masked_fill(&mask.bitwise_not(), 0.0),
                    x.clamp(-0.5, 0.5),
                    x.maximum(&x.flip([1])),
                    x.clamp(0, None) - x.minimum(&torch::zeros([0i64; 0])),
                ])
            }),
        ),
        port(
            "shape_based",
            &["x"],
            x(&[2, 5]),
            DynamicShapes::new().with("x", [(0, Dim::new("batch")), (1, Dim::new("time").min(4).max(99))]),
            &[
                "aten.add.Tensor",
                "aten.arange.default",
                "aten.div.Tensor",
                "aten.eye.default",
                "aten.full.default",
                "aten.matmul.default",
                "aten.mul.Tensor",
                "aten.new_ones.default",
                "aten.slice.Tensor",
                "aten.sum.default",
                "aten.sym_size.int",
                "aten.t.default",
                "aten.zeros.default",
                "operator.mul",
            ],
            "{s77: VR[0, int_oo], s27: VR[4, 99]}",
            vec![x(&[4, 9])],
            of_tensors(|t| {
                let x = &t[0];
                let (b, n) = (x.size(0), x.size(1));
                let pos = torch::arange(n);
                all(vec![
                    x * &pos,
                    torch::zeros([b, n]) + 1,
                    torch::full([n], 2.0),
                    torch::eye(n).matmul(&x.t()),
                    x.new_ones([b]),
                    x.sum() / (b * n),
                    pos.i(2..),
                ])
            }),
        ),
        port(
            "softmax_family",
            &["x"],
            x(&[3, 4]),
            batch(&["x"]),
            &[
                "aten.glu.default",
                "aten.log_softmax.int",
                "aten.logsumexp.default",
                "aten.neg.default",
                "aten.softmax.int",
            ],
            "{s77: VR[0, int_oo]}",
            vec![x(&[5, 4])],
            of_tensors(|t| {
                let x = &t[0];
                all(vec![
                    x.softmax(-1),
                    x.log_softmax(0),
                    x.logsumexp(1, false),
                    F::glu(x, 1),
                    F::softmin(x, 1),
                ])
            }),
        ),
        port(
            "concat_two_dims",
            &["x", "y"],
            xy(&[3, 2], &[4, 2]),
            DynamicShapes::new().with("x", [(0, Dim::new("n"))]).with("y", [(0, Dim::new("m"))]),
            &[
                "aten.cat.default",
                "aten.matmul.default",
                "aten.split_with_sizes.default",
                "aten.sym_size.int",
                "aten.t.default",
                "operator.add",
                "operator.getitem",
            ],
            "{s77: VR[0, int_oo], s17: VR[0, int_oo]}",
            vec![xy(&[5, 2], &[7, 2])],
            of_tensors(|t| {
                let (x, y) = (&t[0], &t[1]);
                let z = torch::cat([x, y], 0);
                let parts = z.split_sizes([x.size(0), y.size(0)], 0);
                let n = z.size(0);
                Value::Tuple(vec![z.into(), n.into(), x.matmul(&y.t()).into(), (&parts[1]).into()])
            }),
        ),
        port(
            "doubled_dim",
            &["x", "y"],
            xy(&[3], &[6]),
            DynamicShapes::new()
                .with("x", [(0, Dim::new("half").min(2).max(50))])
                .with("y", [(0, 2 * Dim::new("half").min(2).max(50))]),
            &["aten.add.Tensor", "aten.cat.default"],
            "{s77: VR[2, 50], 2*s77: VR[4, 100]}",
            vec![xy(&[9], &[18])],
            of_tensors(|t| (torch::cat([&t[0], &t[0]], 0) + &t[1]).into()),
        ),
        port(
            "dynamic_hints",
            &["x"],
            x(&[3, 4]),
            DynamicShapes::new().with("x", [(0, Dim::DYNAMIC), (1, Dim::DYNAMIC)]),
            &["aten.new_zeros.default", "aten.sum.dim_IntList", "aten.sym_size.int", "operator.mul"],
            "{s77: VR[2, int_oo], s27: VR[2, int_oo]}",
            vec![x(&[5, 7])],
            of_tensors(|t| all(vec![t[0].sum_dim(1, false), t[0].new_zeros([t[0].size(0) * t[0].size(1)])])),
        ),
        port(
            "integer_input",
            &["x", "n"],
            vec![floats(&[2, 3]).into(), Value::Int(3)],
            DynamicShapes::new().with("x", [(0, Dim::DYNAMIC)]).with("n", [(0, Dim::DYNAMIC)]),
            &["aten.arange.default", "aten.mul.Tensor", "aten.repeat.default", "operator.add"],
            "{s77: VR[2, int_oo], s86: VR[2, int_oo]}",
            vec![vec![floats(&[4, 3]).into(), Value::Int(5)]],
            Box::new(|v| {
                let (Value::Tensor(x), Value::Int(n)) = (&v[0], &v[1]) else { panic!("{v:?}") };
                Value::Tuple(vec![
                    x.repeat([*n, 1]).into(),
                    (x * *n).into(),
                    Value::Int(n + 1),
                    torch::arange(*n).into(),
                ])
            }),
        ),
        port(
            "multiple_of_four",
            &["x"],
            x(&[2, 12]),
            DynamicShapes::new().with("x", [(1, 4 * Dim::new("blocks").min(1).max(16))]),
            &["aten.mean.dim", "aten.view.default"],
            "{4*s79: VR[4, 64], s79: VR[2, 16]}",
            vec![x(&[2, 20])],
            of_tensors(|t| t[0].view([2, -1, 4]).mean_dim(-1, false).into()),
        ),
        port(
            "same_dim",
            &["x", "y"],
            xy(&[3, 2], &[3, 4]),
            batch(&["x", "y"]),
            &["aten.cat.default", "aten.sum.dim_IntList"],
            "{s17: VR[0, int_oo]}",
            vec![xy(&[5, 2], &[5, 4])],
            of_tensors(|t| torch::cat([&t[0], &t[1]], 1).sum_dim(0, false).into()),
        ),
        port(
            "shape_assertion",
            &["x"],
            x(&[3, 5]),
            DynamicShapes::new().with("x", [(0, Dim::new("batch").min(1).max(99))]),
            &["aten.pad.default", "aten.sym_size.int"],
            "{s77: VR[1, 99]}",
            vec![x(&[7, 5])],
            of_tensors(|t| {
                assert_eq!(t[0].size(1), 5, "five features");
                assert!(t[0].size(0) < 100);
                F::pad(&t[0], [0, t[0].size(0)]).into()
            }),
        ),
        port(
            "size_arithmetic",
            &["x"],
            x(&[2, 7]),
            DynamicShapes::new()
                .with("x", [(0, Dim::new("batch").min(1).max(64)), (1, Dim::new("time").min(5).max(64))]),
            &[
                "aten.mul.Tensor",
                "aten.reshape.default",
                "aten.slice.Tensor",
                "aten.sym_size.int",
                "aten.zeros.default",
                "operator.add",
                "operator.floordiv",
                "operator.mod",
                "operator.mul",
                "torch.sym_max",
                "torch.sym_min",
            ],
            "{s77: VR[1, 64], s27: VR[5, 64]}",
            vec![x(&[4, 12])],
            of_tensors(|t| {
                let x = &t[0];
                let (b, n) = (x.size(0), x.size(1));
                Value::Tuple(vec![
                    x.i((.., ..4)).into(),
                    (x.i((.., 2..)) * (n / 2)).into(),
                    torch::zeros([b * 2, n + 3]).into(),
                    x.reshape([-1]).into(),
                    Value::Int(b.max(3) + n.min(10)),
                    Value::Int(n % 3),
                ])
            }),
        ),
        port(
            "sliding_dim",
            &["x", "y"],
            xy(&[5], &[6]),
            DynamicShapes::new()
                .with("x", [(0, Dim::new("time").min(3).max(20))])
                .with("y", [(0, Dim::new("time").min(3).max(20) + 1)]),
            &["aten.add.Tensor", "aten.mul.Tensor", "aten.slice.Tensor"],
            "{s77: VR[3, 20], s77 + 1: VR[4, 21]}",
            vec![xy(&[9], &[10])],
            of_tensors(|t| all(vec![&t[0] + t[1].i(1..), t[1].i(..-1) * &t[0]])),
        ),
        port(
            "dynamic_tree",
            &["d"],
            vec![Value::Dict(vec![
                ("n".into(), Value::List(values(vec![floats(&[3]), floats(&[3])]))),
                ("x".into(), floats(&[3, 2]).into()),
            ])],
            ["d['x']", "d['n'][0]", "d['n'][1]"]
                .iter()
                .fold(DynamicShapes::new(), |s, i| s.with(i, [(0, Dim::new("batch"))])),
            &["aten.mul.Tensor", "aten.sym_size.int", "aten.unsqueeze.default"],
            "{s60: VR[0, int_oo]}",
            Vec::new(),
            of_tensors(|t| {
                Value::Dict(vec![
                    ("rows".into(), (&t[2] * t[0].unsqueeze(1)).into()),
                    ("count".into(), Value::Int(t[1].size(0))),
                ])
            }),
        ),
    ]
}

/// Programs with weights.
fn networks() -> Vec<Port> {
    let net =
        |name, m: nn::Sequential, input: &[i64], dims: &[(usize, &str)], ranges, other: &[i64], operators| {
            m.eval();
            let m = Arc::new(m);
            let own = m.clone();
            Port {
                name,
                forward: of_tensors(move |t| own.call(&t[0]).into()),
                module: Some(Box::new(m)),
                names: &["x"],
                inputs: x(input),
                shapes: DynamicShapes::new().with("x", dims.iter().map(|(d, n)| (*d, Dim::new(n)))),
                operators,
                ranges,
                others: vec![x(other)],
            }
        };
    let conv = |i: i64, o: i64, k: i64| nn::Conv2d::new(i, o, k);
    vec![
        net(
            "conv_bn_stack",
            nn::Sequential::new((
                conv(3, 4, 3),
                nn::BatchNorm2d::new(4),
                nn::LeakyReLU::new(0.1),
                conv(4, 4, 3),
                nn::BatchNorm2d::new(4),
                nn::Hardswish::new(),
            )),
            &[2, 3, 9, 8],
            &[(0, "batch"), (2, "height"), (3, "width")],
            "{s77: VR[0, int_oo], s53: VR[0, int_oo], s0: VR[0, int_oo]}",
            &[3, 3, 11, 14],
            &[
                "aten.batch_norm.default",
                "aten.conv2d.default",
                "aten.hardswish.default",
                "aten.leaky_relu.default",
            ],
        ),
        net(
            "conv_classifier",
            nn::Sequential::new((
                conv(1, 4, 3),
                nn::ReLU::new(),
                nn::MaxPool2d::new(2),
                conv(4, 6, 3),
                nn::ReLU::new(),
                nn::Flatten::new(),
                nn::Linear::new(24, 5),
            )),
            &[2, 1, 10, 10],
            &[(0, "batch")],
            "{s77: VR[0, int_oo]}",
            &[5, 1, 10, 10],
            &[
                "aten.conv2d.default",
                "aten.flatten.using_ints",
                "aten.linear.default",
                "aten.max_pool2d.default",
                "aten.relu.default",
            ],
        ),
        net(
            "squeeze_excite",
            nn::Sequential::new((
                nn::AdaptiveAvgPool2d::new(1),
                conv(4, 2, 1),
                nn::ReLU::new(),
                conv(2, 4, 1),
                nn::Hardsigmoid::new(),
            )),
            &[2, 4, 5, 5],
            &[(0, "batch")],
            "{s77: VR[0, int_oo]}",
            &[3, 4, 5, 5],
            &[
                "aten.adaptive_avg_pool2d.default",
                "aten.conv2d.default",
                "aten.hardsigmoid.default",
                "aten.relu.default",
            ],
        ),
        net(
            "norms",
            nn::Sequential::new((
                nn::GroupNorm::new(2, 4),
                nn::InstanceNorm2d::new(4),
                nn::LayerNorm::new([5, 5]),
            )),
            &[2, 4, 5, 5],
            &[(0, "batch")],
            "{s77: VR[0, int_oo]}",
            &[3, 4, 5, 5],
            &["aten.group_norm.default", "aten.instance_norm.default", "aten.layer_norm.default"],
        ),
        net(
            "activations",
            nn::Sequential::new((
                nn::GELU::new(),
                nn::SiLU::new(),
                nn::Mish::new(),
                nn::Softplus::new(),
                nn::ELU::new(),
                nn::Hardtanh::new(),
                nn::Sigmoid::new(),
                nn::Tanh::new(),
            )),
            &[2, 3],
            &[(0, "batch")],
            "{s77: VR[0, int_oo]}",
            &[4, 3],
            &[
                "aten.elu.default",
                "aten.gelu.default",
                "aten.hardtanh.default",
                "aten.mish.default",
                "aten.sigmoid.default",
                "aten.silu.default",
                "aten.softplus.default",
                "aten.tanh.default",
            ],
        ),
    ]
}

fn export(p: &Port) -> Result<ExportedProgram> {
    let run = |args: &[Value], _: &Kwargs| -> Result<Value> { Ok((p.forward)(args)) };
    let o = ExportOptions::new().names(p.names).dynamic_shapes(p.shapes.clone());
    try_export_values(p.module.as_deref(), run, &p.inputs, o)
}

#[test]
fn programs_are_pytorchs() {
    let mut wrong = Vec::new();
    let mut files = Vec::new();
    let all: Vec<Port> =
        functions().into_iter().chain(networks()).chain(nets::layered()).chain(nets::functional()).collect();
    let count = all.len();
    for p in &all {
        let program = match export(p) {
            Ok(program) => program,
            Err(e) => {
                wrong.push(format!("{}: {e}", p.name));
                continue;
            }
        };
        if program.operators() != p.operators {
            wrong.push(format!("{}: {:?}\n   instead of {:?}", p.name, program.operators(), p.operators));
        }
        if program.ranges_text() != p.ranges {
            wrong.push(format!("{}: {} instead of {}", p.name, program.ranges_text(), p.ranges));
        }
        let m = program.module().unwrap();
        let mut inputs = vec![p.inputs.clone()];
        inputs.extend(p.others.iter().cloned());
        let mut fine = true;
        for i in &inputs {
            let want = tensors(&[(p.forward)(i)]);
            match m.run(i, &[]) {
                Ok(got) => {
                    let got = tensors(&[got]);
                    let same = got.len() == want.len()
                        && got
                            .iter()
                            .zip(&want)
                            .all(|(a, b)| a.sizes() == b.sizes() && a.to_vec::<f64>() == b.to_vec::<f64>());
                    if !same {
                        wrong.push(format!("{}: another result\n{program}", p.name));
                        fine = false;
                    }
                }
                Err(e) => {
                    wrong.push(format!("{}: {e}\n{program}", p.name));
                    fine = false;
                }
            }
        }
        let plain = inputs.iter().flatten().all(|v| matches!(v, Value::Tensor(_)));
        if fine && plain {
            files.push((p.name, program, inputs.iter().map(|i| tensors(i)).collect::<Vec<_>>()));
        }
    }
    wrong.extend(round_trips("ports", &files));
    assert!(wrong.is_empty(), "{} faults in {count} programs:\n{}", wrong.len(), wrong.join("\n"));
}
