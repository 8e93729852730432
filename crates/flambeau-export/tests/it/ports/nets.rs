//! Networks of layers and functions.

use super::{Port, all, batch, of_tensors, x, xy};
use crate::exporting::floats;
use flambeau_core::{DType, Tensor, Value, functions as torch};
use flambeau_export::{Dim, DynamicShapes};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn_functional::functional as F;
use std::sync::Arc;

type Record<'a> = (&'static [&'static str], &'static str, Vec<Vec<Value>>);
/// A network, in evaluation mode, with what PyTorch recorded of it: operators, ranges, further inputs.
fn port<M: nn::Module + Sync + 'static>(
    name: &'static str,
    names: &'static [&'static str],
    m: M,
    forward: fn(&M, &[Tensor]) -> Value,
    inputs: Vec<Value>,
    shapes: DynamicShapes,
    (operators, ranges, others): Record<'_>,
) -> Port {
    m.eval();
    let m = Arc::new(m);
    let own = m.clone();
    let forward = of_tensors(move |t| forward(&own, t));
    Port { name, module: Some(Box::new(m)), forward, names, inputs, shapes, operators, ranges, others }
}
fn ints(sizes: &[i64], below: i64) -> Vec<Value> {
    let n: i64 = sizes.iter().product();
    vec![(torch::arange(n) * 7).remainder(below).view(sizes).into()]
}
fn dims(l: &[(usize, &str)]) -> DynamicShapes {
    DynamicShapes::new().with("x", l.iter().map(|(d, n)| (*d, Dim::new(n))))
}
fn weight(sizes: &[i64]) -> nn::Parameter {
    nn::Parameter::new(floats(sizes) * 0.3)
}

#[derive(Debug, Module)]
struct CausalConv1d {
    a: nn::Conv1d,
    b: nn::Conv1d,
}
#[derive(Debug, Module)]
struct DepthwiseSeparable {
    depth: nn::Conv2d,
    point: nn::Conv2d,
}
#[derive(Debug, Module)]
struct EmbeddingMean {
    emb: nn::Embedding,
    out: nn::Linear,
}
#[derive(Debug, Module)]
struct MatrixProducts {
    w: nn::Parameter,
    bias: nn::Parameter,
}
#[derive(Debug, Module)]
struct ResidualNormMlp {
    norm: nn::LayerNorm,
    rms: nn::RMSNorm,
    up: nn::Linear,
    down: nn::Linear,
}
#[derive(Debug, Module)]
struct TinyGpt {
    tok: nn::Embedding,
    pos: nn::Embedding,
    qkv: nn::Linear,
    proj: nn::Linear,
    norm: nn::LayerNorm,
    head: nn::Linear,
}
fn gpt(m: &TinyGpt, t: &[Tensor]) -> Value {
    let (b, n) = (t[0].size(0), t[0].size(1));
    let h = m.tok.call(&t[0]) + m.pos.call(&torch::arange(n));
    let qkv = m.qkv.call(&m.norm.call(&h)).view([b, n, 3, 2, 4]).permute([2, 0, 3, 1, 4]).unbind(0);
    let a = qkv[0].matmul(&qkv[1].transpose(-2, -1)) / 2.0;
    let later = torch::ones_with([n, n], flambeau_core::TensorOptions::new().dtype(DType::Bool)).triu(1);
    let a = a.masked_fill(&later, f64::NEG_INFINITY).softmax(-1);
    let h = h + m.proj.call(&a.matmul(&qkv[2]).transpose(1, 2).reshape([b, n, 8]));
    m.head.call(&h).into()
}
#[derive(Debug, Module)]
struct TinyUnet {
    down: nn::Conv2d,
    mid: nn::Conv2d,
    up: nn::ConvTranspose2d,
    out: nn::Conv2d,
}
#[derive(Debug, Module)]
struct DynamicConv {
    a: nn::Conv2d,
    b: nn::Conv2d,
}
#[derive(Debug, Module)]
struct EinsumAttention {
    wq: nn::Parameter,
    wk: nn::Parameter,
}
#[derive(Debug, Module)]
struct Pads {
    a: nn::ReflectionPad2d,
    b: nn::ReplicationPad2d,
    c: nn::ConstantPad2d,
    d: nn::ZeroPad2d,
}
#[derive(Debug, Module)]
struct Pools {
    a: nn::MaxPool2d,
    b: nn::AvgPool2d,
    c: nn::AdaptiveAvgPool2d,
}
#[derive(Debug, Module)]
struct Inception {
    b1: nn::Conv2d,
    b2: nn::Sequential,
    pool: nn::MaxPool2d,
    b3: nn::Conv2d,
}
#[derive(Debug, Module)]
struct NoWeights {}

fn conv(i: i64, o: i64, k: i64, padding: i64) -> nn::Conv2d {
    nn::Conv2dOptions::new(i, o, k).padding(padding).build()
}

/// With layers in a row, or skipped.
pub(super) fn layered() -> Vec<Port> {
    vec![
        port(
            "causal_conv1d",
            &["x"],
            CausalConv1d {
                a: nn::Conv1d::new(2, 4, 3),
                b: nn::Conv1dOptions::new(4, 2, 3).dilation(2).build(),
            },
            |m, t| {
                let y = F::gelu(&m.a.call(&F::pad(&t[0], [2, 0])), "none");
                (&t[0] + m.b.call(&F::pad(&y, [4, 0]))).into()
            },
            x(&[2, 2, 7]),
            dims(&[(0, "batch"), (2, "time")]),
            (
                &["aten.add.Tensor", "aten.conv1d.default", "aten.gelu.default", "aten.pad.default"],
                "{s77: VR[0, int_oo], s53: VR[0, int_oo]}",
                vec![x(&[3, 2, 12])],
            ),
        ),
        port(
            "depthwise_separable",
            &["x"],
            DepthwiseSeparable {
                depth: nn::Conv2dOptions::new(4, 4, 3).stride(2).padding(1).groups(4).build(),
                point: nn::Conv2d::new(4, 8, 1),
            },
            |m, t| F::relu6(&m.point.call(&F::relu6(&m.depth.call(&t[0])))).into(),
            x(&[2, 4, 6, 6]),
            batch(&["x"]),
            (&["aten.conv2d.default", "aten.relu6.default"], "{s77: VR[0, int_oo]}", vec![x(&[3, 4, 6, 6])]),
        ),
        port(
            "residual_norm_mlp",
            &["x"],
            ResidualNormMlp {
                norm: nn::LayerNorm::new(6),
                rms: nn::RMSNorm::new(6),
                up: nn::Linear::new(6, 12),
                down: nn::Linear::new(12, 6),
            },
            |m, t| {
                let x = &t[0] + m.down.call(&F::silu(&m.up.call(&m.norm.call(&t[0]))));
                m.rms.call(&x).into()
            },
            x(&[2, 5, 6]),
            dims(&[(0, "batch"), (1, "time")]),
            (
                &[
                    "aten.add.Tensor",
                    "aten.layer_norm.default",
                    "aten.linear.default",
                    "aten.rms_norm.default",
                    "aten.silu.default",
                ],
                "{s77: VR[0, int_oo], s27: VR[0, int_oo]}",
                vec![x(&[3, 2, 6])],
            ),
        ),
        port(
            "tiny_unet",
            &["x"],
            TinyUnet {
                down: conv(1, 4, 3, 1),
                mid: conv(4, 4, 3, 1),
                up: nn::ConvTranspose2dOptions::new(4, 4, 2).stride(2).build(),
                out: conv(8, 1, 1, 0),
            },
            |m, t| {
                let a = m.down.call(&t[0]).relu();
                let b = m.mid.call(&F::max_pool2d(&a, 2)).relu();
                m.out.call(&torch::cat([&a, &m.up.call(&b)], 1)).into()
            },
            x(&[2, 1, 8, 8]),
            batch(&["x"]),
            (
                &[
                    "aten.cat.default",
                    "aten.conv2d.default",
                    "aten.conv_transpose2d.input",
                    "aten.max_pool2d.default",
                    "aten.relu.default",
                ],
                "{s77: VR[0, int_oo]}",
                vec![x(&[3, 1, 8, 8])],
            ),
        ),
        port(
            "inception",
            &["x"],
            Inception {
                b1: conv(3, 2, 1, 0),
                b2: nn::Sequential::new((conv(3, 2, 1, 0), conv(2, 3, 5, 2))),
                pool: nn::MaxPool2dOptions::new(3).stride(1).padding(1).build(),
                b3: conv(3, 1, 1, 0),
            },
            |m, t| {
                let x = &t[0];
                torch::cat([&m.b1.call(x), &m.b2.call(x), &m.b3.call(&m.pool.call(x))], 1).into()
            },
            x(&[2, 3, 6, 6]),
            DynamicShapes::new(),
            (&["aten.cat.default", "aten.conv2d.default", "aten.max_pool2d.default"], "{}", vec![]),
        ),
        port(
            "pads",
            &["x"],
            Pads {
                a: nn::ReflectionPad2d::new(1),
                b: nn::ReplicationPad2d::new((1, 0, 2, 1)),
                c: nn::ConstantPad2d::new(2, 3.5),
                d: nn::ZeroPad2d::new((0, 1, 1, 0)),
            },
            |m, t| all(vec![m.a.call(&t[0]), m.b.call(&t[0]), m.c.call(&t[0]), m.d.call(&t[0])]),
            x(&[2, 3, 4, 5]),
            DynamicShapes::new(),
            (&["aten.pad.default"], "{}", vec![]),
        ),
        port(
            "pools",
            &["x"],
            Pools {
                a: nn::MaxPool2dOptions::new(3).stride(2).padding(1).build(),
                b: nn::AvgPool2dOptions::new(2).ceil_mode(true).count_include_pad(false).build(),
                c: nn::AdaptiveAvgPool2d::new((2, 4)),
            },
            |m, t| {
                let most = F::adaptive_max_pool2d(&t[0], [2, 2]);
                all(vec![m.a.call(&t[0]), m.b.call(&t[0]), m.c.call(&t[0]), most])
            },
            x(&[2, 3, 9, 8]),
            DynamicShapes::new(),
            (
                &[
                    "aten.adaptive_avg_pool2d.default",
                    "aten.adaptive_max_pool2d.default",
                    "aten.avg_pool2d.default",
                    "aten.max_pool2d.default",
                    "operator.getitem",
                ],
                "{}",
                vec![],
            ),
        ),
    ]
}

/// With weights that functions use, words, attention.
pub(super) fn functional() -> Vec<Port> {
    vec![
        port(
            "embedding_mean",
            &["x"],
            EmbeddingMean {
                emb: nn::EmbeddingOptions::new(9, 4).padding_idx(0).build(),
                out: nn::Linear::new(4, 2),
            },
            |m, t| {
                let mask = t[0].ne(0).unsqueeze(-1);
                let e = (m.emb.call(&t[0]) * &mask).sum_dim(1, false) / mask.sum_dim(1, false).clamp(1, None);
                m.out.call(&e).into()
            },
            ints(&[3, 5], 9),
            batch(&["x"]),
            (
                &[
                    "aten.clamp.default",
                    "aten.div.Tensor",
                    "aten.embedding.default",
                    "aten.linear.default",
                    "aten.mul.Tensor",
                    "aten.ne.Scalar",
                    "aten.sum.dim_IntList",
                    "aten.unsqueeze.default",
                ],
                "{s77: VR[0, int_oo]}",
                vec![ints(&[4, 5], 9)],
            ),
        ),
        port(
            "matrix_products",
            &["a", "b"],
            MatrixProducts { w: weight(&[5, 5]), bias: weight(&[5]) },
            |m, t| {
                let (a, b, w, bias) = (&t[0], &t[1], m.w.tensor(), m.bias.tensor());
                let c = a.bmm(b);
                let o = flambeau_core::generated::options::BaddbmmOptions::new().beta(0.5).alpha(2.0);
                let d = torch::baddbmm_with(&c, a, b, o);
                let e = c.matmul(w) + bias;
                let first = c.select(0, 0);
                all(vec![d, e, torch::addmm(bias, &first, w), c.select(0, 0).mv(bias), bias.dot(bias)])
            },
            xy(&[3, 4, 2], &[3, 2, 5]),
            batch(&["a", "b"]),
            (
                &[
                    "aten.add.Tensor",
                    "aten.addmm.default",
                    "aten.baddbmm.default",
                    "aten.bmm.default",
                    "aten.dot.default",
                    "aten.matmul.default",
                    "aten.mv.default",
                    "aten.select.int",
                ],
                "{s52: VR[0, int_oo]}",
                vec![xy(&[2, 4, 2], &[2, 2, 5])],
            ),
        ),
        port(
            "tiny_gpt",
            &["x"],
            TinyGpt {
                tok: nn::Embedding::new(11, 8),
                pos: nn::Embedding::new(16, 8),
                qkv: nn::Linear::new(8, 24),
                proj: nn::Linear::new(8, 8),
                norm: nn::LayerNorm::new(8),
                head: nn::LinearOptions::new(8, 11).bias(false).build(),
            },
            gpt,
            ints(&[2, 5], 11),
            dims(&[(0, "batch"), (1, "time")]),
            (
                &[
                    "aten.add.Tensor",
                    "aten.arange.default",
                    "aten.div.Tensor",
                    "aten.embedding.default",
                    "aten.layer_norm.default",
                    "aten.linear.default",
                    "aten.masked_fill.Scalar",
                    "aten.matmul.default",
                    "aten.ones.default",
                    "aten.permute.default",
                    "aten.reshape.default",
                    "aten.softmax.int",
                    "aten.sym_size.int",
                    "aten.transpose.int",
                    "aten.triu.default",
                    "aten.unbind.int",
                    "aten.view.default",
                    "operator.getitem",
                ],
                "{s77: VR[0, int_oo], s27: VR[0, int_oo]}",
                vec![ints(&[3, 9], 11)],
            ),
        ),
        port(
            "bounded_batch",
            &["x"],
            nn::Linear::new(3, 2),
            |m, t| (m.call(&t[0]).relu() * t[0].size(0)).into(),
            x(&[4, 3]),
            DynamicShapes::new().with("x", [(0, Dim::new("batch").min(2).max(8))]),
            (
                &["aten.linear.default", "aten.mul.Tensor", "aten.relu.default", "aten.sym_size.int"],
                "{s77: VR[2, 8]}",
                vec![x(&[2, 3]), x(&[8, 3])],
            ),
        ),
        port(
            "einsum_attention",
            &["q", "k"],
            EinsumAttention { wq: weight(&[6, 2, 3]), wk: weight(&[6, 2, 3]) },
            |m, t| {
                let q = torch::einsum("btc,chd->bhtd", [&t[0], m.wq.tensor()]);
                let k = torch::einsum("bsc,chd->bhsd", [&t[1], m.wk.tensor()]);
                torch::einsum("bhtd,bhsd->bhts", [&q, &k]).softmax(-1).into()
            },
            xy(&[2, 4, 6], &[2, 5, 6]),
            DynamicShapes::new()
                .with("q", [(0, Dim::new("batch"))])
                .with("k", [(0, Dim::new("batch")), (1, Dim::new("keys"))]),
            (
                &["aten.einsum.default", "aten.softmax.int"],
                "{s37: VR[0, int_oo], s25: VR[0, int_oo]}",
                vec![xy(&[3, 4, 6], &[3, 7, 6])],
            ),
        ),
        port(
            "dynamic_conv",
            &["x"],
            DynamicConv {
                a: conv(3, 4, 3, 1),
                b: nn::Conv2dOptions::new(4, 2, 3).stride(2).padding(1).build(),
            },
            |m, t| {
                let y = F::max_pool2d(&m.a.call(&t[0]).relu(), 2);
                let larger = F::interpolate_with(&y, F::InterpolateOptions::new().scale_factor(2.0));
                all(vec![m.b.call(&y), larger])
            },
            x(&[2, 3, 12, 16]),
            DynamicShapes::new().with(
                "x",
                [
                    (0, Dim::new("batch")),
                    (2, 2 * Dim::new("h").min(3).max(32)),
                    (3, 2 * Dim::new("w").min(3).max(32)),
                ],
            ),
            (
                &[
                    "aten.conv2d.default",
                    "aten.max_pool2d.default",
                    "aten.relu.default",
                    "aten.upsample_nearest2d.vec",
                ],
                "{s77: VR[0, int_oo], 2*s39: VR[6, 64], 2*s94: VR[6, 64], s94: VR[3, 32], s39: VR[3, 32]}",
                vec![x(&[3, 3, 8, 10])],
            ),
        ),
        port(
            "transcendental",
            &["x"],
            NoWeights {},
            |_, t| {
                let x = &t[0];
                let first =
                    [x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.sin(), x.cos(), x.tan(), x.asin(), x.acos()];
                let second = [x.atan(), x.sinh(), x.cosh(), x.tanh(), x.erf(), x.log1p(), x.expm1()];
                let third = [x.reciprocal(), x.sigmoid(), x.log2(), x.atan2(&torch::rsub_scalar(x, 1, 1))];
                all(first.into_iter().chain(second).chain(third).collect())
            },
            vec![floats(&[3, 2]).sigmoid().into()],
            batch(&["x"]),
            (
                &[
                    "aten.acos.default",
                    "aten.asin.default",
                    "aten.atan.default",
                    "aten.atan2.default",
                    "aten.cos.default",
                    "aten.cosh.default",
                    "aten.erf.default",
                    "aten.exp.default",
                    "aten.expm1.default",
                    "aten.log.default",
                    "aten.log1p.default",
                    "aten.log2.default",
                    "aten.reciprocal.default",
                    "aten.rsqrt.default",
                    "aten.rsub.Scalar",
                    "aten.sigmoid.default",
                    "aten.sin.default",
                    "aten.sinh.default",
                    "aten.sqrt.default",
                    "aten.tan.default",
                    "aten.tanh.default",
                ],
                "{s77: VR[0, int_oo]}",
                vec![vec![floats(&[5, 2]).sigmoid().into()]],
            ),
        ),
    ]
}
