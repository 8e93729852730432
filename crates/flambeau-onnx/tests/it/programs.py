"""Small programs for the exporter: `programs.py make FOLDER` exports them with PyTorch, with inputs and results;
`programs.py judge FOLDER MODELS` runs the models of that folder in onnxruntime and compares."""
import os
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def cases():
    import torch
    import torch.nn.functional as F
    from torch import nn

    f32, f64, i64, i32 = torch.float32, torch.float64, torch.int64, torch.int32
    g = torch.Generator().manual_seed(0)

    def r(*s, dtype=f32):
        return torch.randn(*s, generator=g, dtype=dtype)

    def u(*s):
        return torch.rand(*s, generator=g) * 0.8 + 0.1

    def n(hi, *s, dtype=i64):
        return torch.randint(0, hi, s, generator=g, dtype=dtype)

    def b(*s):
        return torch.rand(*s, generator=g) > 0.5

    out = []

    def add(name, f, *args, dyn=None, tol=1e-4):
        out.append((name, f, args, dyn, tol))

    unary = "abs ceil floor neg sign sgn exp exp2 expm1 sin cos tan sinh cosh tanh asin acos atan asinh atanh erf erfc sigmoid square round trunc frac deg2rad rad2deg sinc relu isnan isinf isfinite isposinf isneginf signbit logical_not positive".split()
    for k in unary:
        add(f"unary.{k}", getattr(torch, k), r(3, 4).clamp(-0.9, 0.9))
        add(f"unary.{k}.f64", getattr(torch, k), r(3, dtype=f64).clamp(-0.9, 0.9))
    for k in "log log2 log10 log1p sqrt rsqrt reciprocal acosh logit".split():
        x = u(3, 4) + (1.0 if k == "acosh" else 0.0)
        add(f"unary.{k}", getattr(torch, k), x)
    add("unary.erfinv", torch.erfinv, r(5).clamp(-0.9, 0.9))
    for k in "abs neg sign square relu".split():
        for d in (torch.int8, i32, i64, torch.int16):
            add(f"unary.{k}.{d}", getattr(torch, k), n(9, 4, dtype=d) - 4)
    for k in "exp sqrt sin reciprocal sigmoid log1p".split():
        add(f"unary.{k}.int", getattr(torch, k), n(9, 4) + 1)
    act = dict(relu6=F.relu6, hardtanh=F.hardtanh, leaky=F.leaky_relu, elu=F.elu, selu=F.selu, celu=F.celu, gelu=F.gelu, silu=F.silu, mish=F.mish, softplus=F.softplus, softshrink=F.softshrink, hardshrink=F.hardshrink, hardsigmoid=F.hardsigmoid, hardswish=F.hardswish, logsigmoid=F.logsigmoid, softsign=F.softsign, tanhshrink=F.tanhshrink)
    for k, f in act.items():
        add(f"act.{k}", f, r(3, 5) * 4)
        add(f"act.{k}.f64", f, r(3, 5, dtype=f64) * 4)
        add(f"act.{k}.bf16", f, (r(3, 5) * 4).bfloat16(), tol=3e-2)
        add(f"act.{k}.f16", f, (r(3, 5) * 4).half(), tol=5e-3)
    add("act.gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), r(3, 5))
    add("act.glu", lambda x: F.glu(x, 1), r(3, 6))
    add("act.prelu", lambda x, w: F.prelu(x, w), r(2, 3, 4), r(3))
    add("act.prelu1", lambda x, w: F.prelu(x, w), r(2, 3, 4), r(1))
    add("act.threshold", lambda x: F.threshold(x, 0.1, 20.0), r(7))
    add("act.rrelu", lambda x: F.rrelu(x), r(7))
    add("act.softmin", lambda x: F.softmin(x, 1), r(3, 4))
    add("act.softmax0", lambda x: F.softmax(x, 0), torch.tensor(1.5))
    add("act.softmax.half_to_float", lambda x: F.softmax(x, -1, dtype=f32), r(3, 4).half())

    pairs = "add sub mul div atan2 maximum minimum fmax fmin hypot copysign logaddexp logaddexp2 xlogy remainder fmod floor_divide eq ne lt le gt ge".split()
    for k in pairs:
        f = getattr(torch, k)
        add(f"pair.{k}", f, u(3, 1, 4), u(2, 1))
        add(f"pair.{k}.neg", f, r(9), r(9))
        add(f"pair.{k}.mixed", f, n(7, 3) + 1, u(3))
    for k in "add sub mul maximum minimum remainder fmod floor_divide eq lt ge bitwise_and bitwise_or bitwise_xor".split():
        for d in (torch.uint8, torch.int8, torch.int16, i32, i64):
            x, y = n(9, 6, dtype=d), n(4, 6, dtype=d) + 1
            if d != torch.uint8:
                x = x - 4
            add(f"pair.{k}.{d}", getattr(torch, k), x, y)
    for k in "remainder floor_divide fmod".split():
        add(f"pair.{k}.negdiv", getattr(torch, k), n(20, 9) - 10, torch.tensor([3, -3, 2, -2, 5, -5, 1, -1, 7]))
        add(f"pair.{k}.scalar", lambda x, k=k: getattr(torch, k)(x, -3), n(20, 9) - 10)
    for m in (None, "floor", "trunc"):
        add(f"pair.div.{m}", lambda x, y, m=m: torch.div(x, y, rounding_mode=m), n(20, 9) - 10, torch.tensor([3, -3, 2, -2, 5, -5, 1, -1, 7]))
        add(f"pair.divf.{m}", lambda x, y, m=m: torch.div(x, y, rounding_mode=m), r(9) * 5, r(9))
    for k in "logical_and logical_or logical_xor".split():
        add(f"pair.{k}", getattr(torch, k), n(2, 5), r(5))
    for k in "bitwise_and bitwise_or bitwise_xor add mul maximum eq".split():
        add(f"pair.{k}.bool", getattr(torch, k), b(5), b(5))
    add("pair.shift", lambda x, y: (x << y, x >> y), n(50, 5) - 25, n(5, 5))
    add("pair.alpha", lambda x, y: torch.add(x, y, alpha=2) - torch.sub(y, x, alpha=0.5), r(4), r(4))
    add("pair.rsub", lambda x: (2 - x, 1.5 - x.int()), r(4))
    add("pair.pow", lambda x, y: (x**y, x**2, x**3, x**-1, x**0.5, 2**y, x**1.7), u(5), r(5))
    add("pair.pow.int", lambda x, y: (x**2, x**y, x**3), n(5, 5), n(4, 5))
    add("pair.float_power", lambda x, y: torch.float_power(x, y), u(5), r(5))
    add("pair.heaviside", torch.heaviside, torch.tensor([-1.0, 0.0, 2.0]), r(3))
    add("pair.isclose", lambda x, y: torch.isclose(x, y, atol=0.3), r(9), r(9))
    add("pair.lerp", lambda x, y, w: (torch.lerp(x, y, 0.3), torch.lerp(x, y, w)), r(4), r(4), u(4))
    add("pair.addc", lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z.abs() + 1, value=2)), r(4), r(4), r(4))
    add("pair.scalars", lambda x: (x + 1, x * 2.5, x > 0.5, x // 2, x % 3, x == 1), n(9, 5))
    add("pair.bool_scalar", lambda x: (x * 2, x + 1.5, x & True), b(5))
    add("pair.where", lambda c, x, y: (torch.where(c, x, y), torch.where(c, x, 1.0), torch.where(c, 2, y), torch.where(c, x, y.int())), b(4), r(4), r(4))
    add("pair.nan", lambda x: (torch.nan_to_num(x), torch.nan_to_num(x, 1.0, 2.0, 3.0), torch.nansum(x[:1])), torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0]))
    add("pair.clamp", lambda x, lo: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.1), torch.clamp(x, lo, lo + 1), x.clamp(1, -1)), r(6), r(6))
    add("pair.clamp.int", lambda x: (x.clamp(2, 5), x.clamp(min=1.5)), n(9, 6))
    add("pair.masked_fill", lambda x, m: (x.masked_fill(m, -1e9), x.masked_fill(m, torch.tensor(2.0))), r(3, 4), b(4))
    add("pair.isin", lambda x, y: torch.isin(x, y), n(9, 6), n(9, 3))
    add("pair.round", lambda x: (torch.round(x, decimals=2), torch.round(x * 100, decimals=-1)), r(5))
    add("pair.bf16", lambda x, y: (x + y, x * y, x / y, x @ y, x.sum(), x.softmax(-1), x > y), r(3, 3).bfloat16(), r(3, 3).bfloat16(), tol=5e-2)
    add("pair.f16", lambda x, y: (x + y, x * y, x / y, x @ y, x.sum(), x.softmax(-1), x > y), r(3, 3).half(), r(3, 3).half(), tol=1e-2)
    add("pair.copy_cast", lambda x: (x.int(), x.long(), x.bool(), x.double(), x.to(torch.uint8), x.half()), r(5).abs() * 3)
    add("pair.cast_u8", lambda x: x.to(torch.uint8), torch.tensor([1.7, 200.2, 3.0]))

    red = "sum mean prod amax amin any all argmax argmin std var logsumexp".split()
    for k in red:
        f = getattr(torch, k)
        if k != "logsumexp":
            add(f"red.{k}", f, r(3, 4))
        add(f"red.{k}.dim", lambda x, f=f: f(x, 1), r(3, 4, 2))
        add(f"red.{k}.keep", lambda x, f=f: f(x, -1, keepdim=True), r(3, 4, 2))
        if k not in ("argmax", "argmin", "prod"):
            add(f"red.{k}.dims", lambda x, f=f: f(x, (0, 2)), r(3, 4, 2))
        if k in ("sum", "prod", "amax", "any", "all", "argmax"):
            add(f"red.{k}.int", lambda x, f=f: f(x, 1), n(5, 3, 4))
            add(f"red.{k}.u8", lambda x, f=f: f(x, 1), n(5, 3, 4, dtype=torch.uint8))
            add(f"red.{k}.i32", lambda x, f=f: f(x, 1), n(5, 3, 4, dtype=i32))
        if k in ("sum", "any", "all", "prod"):
            add(f"red.{k}.bool", lambda x, f=f: f(x, 1), b(3, 4))
            add(f"red.{k}.empty", lambda x, f=f: f(x, 1), r(3, 0))
        if k in ("sum", "mean", "std"):
            add(f"red.{k}.dyn", lambda x, f=f: f(x, 0), r(3, 4), dyn=({0: "AUTO"},))
    add("red.maxmin", lambda x: (x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True)), r(3, 4))
    add("red.max.bool", lambda x: x.any(), b(3))
    add("red.scalar", lambda x: (x.sum(), x.mean(), x.max(), x.var(unbiased=False), x.argmax(), x.sum(0), x.amax(0)), torch.tensor(2.5))
    add("red.var", lambda x: (torch.var(x, 1, correction=0), torch.var(x, dim=1, unbiased=False), *torch.var_mean(x, 1), *torch.std_mean(x)), r(3, 4))
    add("red.norm", lambda x: (x.norm(), x.norm(1), x.norm(3, 1), torch.linalg.vector_norm(x, 0), torch.linalg.vector_norm(x, float("inf"), 1), torch.linalg.norm(x), torch.linalg.matrix_norm(x), torch.linalg.norm(x, 1), F.normalize(x)), r(3, 4))
    add("red.count", lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1)), n(2, 3, 4))
    add("red.median", lambda x: (x.median(), *x.median(1)), r(3, 5))
    add("red.misc", lambda x: (torch.trace(x), torch.aminmax(x), torch.dist(x, x + 1), x.mean(dtype=f64)), r(4, 4))
    add("red.sum_dtype", lambda x: x.sum(1, dtype=f32), n(5, 3, 4))
    add("red.mean_half", lambda x: x.mean(1), r(3, 4).half(), tol=5e-3)
    add("scan.sums", lambda x: (x.cumsum(1), x.cumsum(-2), x.cumprod(1), x.logcumsumexp(1), *x.cummax(1), *x.cummin(0)), r(3, 4))
    add("scan.int", lambda x: (x.cumsum(1), x.cumprod(1), *x.cummax(1)), n(4, 3, 4))
    add("scan.bool", lambda x: x.cumsum(0), b(5))
    add("scan.dyn", lambda x: (x.cumsum(0), x.cumprod(0), x.cummax(0).values), r(3, 4), dyn=({0: "AUTO"},))
    add("scan.diff", lambda x: (x.diff(), x.diff(2, 0), torch.trapezoid(x), torch.trapezoid(x, dx=0.5)), r(3, 4))

    add("view.shapes", lambda x: (x.view(4, 6), x.reshape(-1), x.flatten(1), x.unflatten(2, (2, 2)), x.unsqueeze(-1), x.unsqueeze(0).squeeze(0), x.squeeze(), x.permute(2, 0, 1), x.mT, x.transpose(0, -1), x.movedim(0, 2), x.movedim((0, 1), (2, 0)), x.swapaxes(0, 1), x.ravel()), r(2, 3, 4))
    add("view.dyn", lambda x: (x.view(x.shape[0] * 3, -1), x.reshape(-1), x.flatten(1), x.flatten(0, 1), x.unsqueeze(1), x.permute(2, 0, 1), x.reshape(x.shape[0], 4, 3)), r(2, 3, 4), dyn=({0: "AUTO"},))
    add("view.slices", lambda x: (x[1:], x[:, -2:], x[:, ::2], x[..., 0], x[-1], x[:, None], x[0, 1], x[:, 1:3, -1], x.narrow(1, 1, 2), x.select(2, -1), x[:, 5:9]), r(3, 4, 5))
    add("view.slices.dyn", lambda x: (x[1:], x[-1], x[:-1], x[::2], x[1:x.shape[0] - 1]), r(5, 4), dyn=({0: "AUTO"},))
    add("view.splits", lambda x: (*x.split(2, 1), *x.split([1, 3], 1), *x.chunk(3, 0), *x.unbind(2), *x.tensor_split(3, 0), *x.tensor_split((1, 2), 1), *torch.hsplit(x, 2)), r(5, 4, 2))
    add("view.expand", lambda x: (x.expand(3, 4), x.expand(2, -1, 4), x.broadcast_to(5, 3, 4), *torch.broadcast_tensors(x, x.t())), r(3, 1))
    add("view.diagonal", lambda x: (x.diagonal(), x.diagonal(1, 0, 2), x.diagonal(-1, 1, 2), torch.diag(x[0]), torch.diag(x[0, 0]), torch.diag(x[0, 0], 1), torch.diag_embed(x), torch.diagflat(x[0])), r(3, 4, 5))
    add("view.unfold", lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1)), r(4, 7))
    add("view.atleast", lambda x: (torch.atleast_1d(x), torch.atleast_2d(x), torch.atleast_3d(x)), torch.tensor(1.5))
    add("view.scalar", lambda x: (x.view(1), x.reshape(1, 1), x.flatten(), x.unsqueeze(0)), torch.tensor(1.5))
    add("view.empty", lambda x: (x.view(0, 6), x.reshape(3, 0), x.sum(), x + 1, torch.cat([x, x], 1), x.t()), r(0, 3)) if False else add("view.empty", lambda x: (x.reshape(3, 0), x.sum(), x + 1, torch.cat([x, x], 1), x.t(), x.unsqueeze(1)), r(0, 3))

    def inplace(x):
        y = x.clone()
        y[0] = 5.0
        y[:, 1] += 1
        y[1:, ::2] = 7.0
        z = y.view(-1)
        z[3] = -1.0
        y.t()[0].mul_(2)
        return y, z

    add("write.views", inplace, r(3, 4))

    def inplace2(x):
        y = torch.zeros_like(x)
        y.copy_(x[0])
        y.add_(x).clamp_(0, 1)
        a, c = y.chunk(2, 1)
        a.fill_(3)
        d = y.diagonal()
        d.zero_()
        w = y.unsqueeze(0)
        w.mul_(2)
        y.relu_()
        return y, c, d, w

    add("write.chunks", inplace2, r(4, 4))
    add("write.dyn", lambda x: (lambda y: (y.__setitem__((slice(None), 0), 1.0), y)[1])(x.clone()), r(3, 4), dyn=({0: "AUTO"},))
    add("write.scatter", lambda x, s: (torch.select_scatter(x, s, 0, 1), torch.slice_scatter(x, s.unsqueeze(0), 0, 2, 3), torch.diagonal_scatter(x, s[:3], 0)), r(3, 4), r(4))

    add("join.cat", lambda x, y: (torch.cat([x, y]), torch.cat([x, x], -1), torch.stack([x, y], 1), torch.stack([x, y], -1), torch.hstack([x, y]), torch.vstack([x, y]), torch.dstack([x, y]), torch.column_stack([x, y])), r(3, 4), r(3, 4))
    add("join.mixed", lambda x, y: torch.cat([x, y]), r(3), n(4, 2))
    add("join.repeat", lambda x: (x.repeat(2, 3), x.repeat(2, 1, 1), x.tile((2,)), x.repeat_interleave(2), x.repeat_interleave(3, 1), x.flip(0), x.flip((0, 1)), x.roll(1), x.roll((1, -2), (0, 1)), x.rot90(), x.fliplr()), r(3, 4))
    add("join.grid", lambda x, y: (*torch.meshgrid(x, y, indexing="ij"), *torch.meshgrid(x, y, indexing="xy"), torch.cartesian_prod(x, y), torch.outer(x, y), torch.block_diag(x, y)), r(3), r(2))
    add("join.roll.dyn", lambda x: (x.roll(1, 0), x.flip(0), x.repeat(2, 1), torch.cat([x, x])), r(3, 4), dyn=({0: "AUTO"},))

    add("index.gather", lambda x, i: (x.gather(1, i), torch.take_along_dim(x, i, 1), x.take(i)), r(3, 4), n(4, 3, 2))
    add("index.select", lambda x, i: (x.index_select(1, i), x[:, i], x[i[:2]], F.embedding(i, x)), r(5, 4), n(4, 3))
    add("index.adv", lambda x, i, j: (x[i, j], x[:, i, j], x[i, :, j], x[i[:, None], j], x[..., i], x[-1, i]), r(4, 4, 4), n(4, 3), n(4, 3))
    add("index.mask", lambda x, m: (x[m], x[m].sum(), torch.masked_select(x, m)), r(4, 3), b(4, 3))
    add("index.put", lambda x, i, v: (torch.index_put(x, (i,), v), torch.index_put(x, (i, i), v[:, 0]), torch.index_put(x, (i,), v, accumulate=True), torch.index_put(x, (None, i), torch.tensor(3.0))), r(4, 4), torch.tensor([2, 0, 3]), r(3, 4))
    add("index.mask_put", lambda x, m: torch.index_put(x, (m,), torch.tensor(2.0)), r(4, 3), b(4, 3))
    add("index.copyadd", lambda x, i, v: (x.index_add(0, i, v), x.index_add(0, i, v, alpha=2), x.index_copy(0, i, v), x.index_fill(1, i, 3.0)), r(4, 4), torch.tensor([2, 0, 3]), r(3, 4))
    add("index.scatter", lambda x, i, v: (x.scatter(1, i, v), x.scatter(1, i, 2.0), x.scatter_add(1, i, v), x.scatter(1, i, v, reduce="add"), x.scatter_reduce(1, i, v, "prod"), x.scatter_reduce(1, i, v, "amax"), x.scatter_reduce(1, i, v, "amin", include_self=False), x.scatter_reduce(1, i, v, "mean"), x.scatter_reduce(1, i, v, "sum", include_self=False)), r(3, 4), torch.tensor([[0, 1], [2, 2], [3, 0]]), r(3, 3))
    add("index.nonzero", lambda x: (torch.nonzero(x), *torch.nonzero(x, as_tuple=True), torch.argwhere(x)), n(2, 3, 4))
    add("index.masked_scatter", lambda x, m, s: x.masked_scatter(m, s), r(3, 4), b(3, 4), r(12))
    add("index.one_hot", lambda x: F.one_hot(x, 5), n(5, 3, 2))
    add("index.bag", lambda w, i, o: (F.embedding_bag(i, w, o, mode="sum"), F.embedding_bag(i, w, o, mode="mean"), F.embedding_bag(i, w, o, mode="max")), r(6, 3), n(6, 7), torch.tensor([0, 2, 4]))
    add("index.put_dyn", lambda x, i: x[i], r(5, 3), n(5, 4), dyn=({0: "AUTO"}, {0: "AUTO"}))

    add("sort.sort", lambda x: (*x.sort(1), *x.sort(0, descending=True), x.argsort(1), *x.topk(2, 1), *x.topk(2, 0, largest=False), *x.kthvalue(2, 1), torch.msort(x)), r(3, 4))
    add("sort.int", lambda x: (x.sort(1).values, x.topk(2, 1).values), n(50, 3, 4))
    add("sort.unique", lambda x: (torch.unique(x), *torch.unique(x, return_inverse=True, return_counts=True)), n(5, 9))
    add("sort.search", lambda s, x: (torch.searchsorted(s, x), torch.searchsorted(s, x, right=True), torch.bucketize(x, s)), torch.tensor([1.0, 3.0, 5.0]), r(4) * 3)
    add("sort.bincount", lambda x: torch.bincount(x, minlength=7), n(5, 9))

    add("make.shapes", lambda x: (torch.zeros(2, 3), torch.ones_like(x), torch.full((2,), 3), torch.full_like(x, 2.5), torch.arange(5), torch.arange(1, 9, 2), torch.arange(0.0, 1.0, 0.25), torch.linspace(0, 1, 5), torch.eye(3, 4), x.new_zeros(2), x.new_full((2,), 7), torch.logspace(0, 2, 3), torch.tril_indices(3, 3), torch.scalar_tensor(2.0)), r(3))
    add("make.tri", lambda x: (x.tril(), x.triu(1), x.tril(-1), (x > 0).tril(), x.int().triu()), r(4, 4))
    add("make.dyn", lambda x: (torch.zeros(x.shape[0], 3), torch.arange(x.shape[0]), torch.ones(x.shape[0], dtype=torch.int32), torch.full((x.shape[0],), 2.0), torch.eye(x.shape[0]), torch.arange(0, x.shape[0], 2)), r(3, 4), dyn=({0: "AUTO"},))
    add("make.numbers", lambda x: (x.shape[0] * 2, x.shape[0] // 2 + 1, x.sum() * x.shape[0], x / x.shape[0], x.numel()), r(3, 4), dyn=({0: "AUTO"},))

    for d, N in ((1, (2, 4, 9)), (2, (2, 4, 9, 8)), (3, (1, 4, 6, 5, 7))):
        cv = getattr(F, f"conv{d}d")
        ct = getattr(F, f"conv_transpose{d}d")
        w = r(6, 4, *([3] * d))
        add(f"conv{d}.plain", lambda x, w, c, cv=cv: (cv(x, w, c), cv(x, w, c, stride=2, padding=1), cv(x, w, padding="same"), cv(x, w, padding="valid"), cv(x, w, dilation=2, padding=2)), r(*N), w, r(6))
        add(f"conv{d}.groups", lambda x, w, cv=cv: cv(x, w, groups=2), r(*N), r(6, 2, *([3] * d)))
        add(f"conv{d}.turned", lambda x, w, c, ct=ct: (ct(x, w, c), ct(x, w, c, stride=2, padding=1, output_padding=1), ct(x, w, dilation=2)), r(*N), r(4, 6, *([3] * d)), r(6))
        add(f"conv{d}.alone", lambda x, w, cv=cv: cv(x, w), r(*N[1:]), w)
        mp, ap = getattr(F, f"max_pool{d}d"), getattr(F, f"avg_pool{d}d")
        aa, am = getattr(F, f"adaptive_avg_pool{d}d"), getattr(F, f"adaptive_max_pool{d}d")
        add(f"pool{d}.max", lambda x, mp=mp: (mp(x, 2), mp(x, 3, 2, 1), mp(x, 2, ceil_mode=True), mp(x, 3, 2, 1, ceil_mode=True), mp(x, 2, 1, dilation=2)), r(*N))
        add(f"pool{d}.indices", lambda x, mp=mp: mp(x, 2, return_indices=True), r(*N))
        add(f"pool{d}.avg", lambda x, ap=ap: (ap(x, 2), ap(x, 3, 2, 1), ap(x, 3, 2, 1, count_include_pad=False), ap(x, 3, 2, 1, ceil_mode=True), ap(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), ap(x, 2, ceil_mode=True)), r(*N))
        add(f"pool{d}.adaptive", lambda x, aa=aa, am=am: (aa(x, 1), aa(x, 2), aa(x, 3), am(x, 1), am(x, 2), *am(x, 3, return_indices=True)), r(*N))
        add(f"pool{d}.alone", lambda x, mp=mp, ap=ap: (mp(x, 2), ap(x, 2)), r(*N[1:]))
    add("pool.dyn", lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, 3)), r(2, 3, 8, 9), dyn=({0: "AUTO", 2: "AUTO"},))
    add("pool.override", lambda x: F.avg_pool2d(x, 2, divisor_override=3), r(1, 2, 4, 4))
    add("pool.lp", lambda x: F.lp_pool2d(x, 2, 2), r(1, 2, 4, 4))

    def unpool(x):
        y, i = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, i, 2)

    add("pool.unpool", unpool, r(1, 2, 4, 4))
    add("pad.modes", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 2, 0, 1), value=3.0), F.pad(x, (1, 1), mode="reflect"), F.pad(x, (2, 1), mode="replicate"), F.pad(x, (1, 2), mode="circular"), F.pad(x, (-1, 2)), F.pad(x, (-1, -1))), r(2, 3, 5))
    add("pad.2d", lambda x: (F.pad(x, (1, 2, 3, 0), mode="reflect"), F.pad(x, (1, 2, 2, 1), mode="replicate"), F.pad(x, (1, 2, 2, 1), mode="circular")), r(1, 2, 5, 6))
    add("pad.int", lambda x: (F.pad(x, (1, 2), value=7), F.pad(x > 2, (1, 0))), n(5, 2, 3))

    for k, size in (("nearest", (7, 9)), ("bilinear", (7, 9)), ("bicubic", (7, 9)), ("nearest-exact", (7, 9))):
        add(f"resize.{k}", lambda x, k=k, s=size: (F.interpolate(x, size=s, mode=k), F.interpolate(x, scale_factor=2, mode=k), F.interpolate(x, scale_factor=(1.5, 2.5), mode=k), F.interpolate(x, size=(2, 3), mode=k)), r(1, 2, 4, 5), tol=1e-3)
        if k in ("bilinear", "bicubic"):
            add(f"resize.{k}.corners", lambda x, k=k: (F.interpolate(x, size=(7, 9), mode=k, align_corners=True), F.interpolate(x, scale_factor=2, mode=k, align_corners=True)), r(1, 2, 4, 5), tol=1e-3)
            add(f"resize.{k}.aa", lambda x, k=k: F.interpolate(x, size=(3, 4), mode=k, antialias=True), r(1, 2, 8, 9), tol=1e-3)
    add("resize.1d", lambda x: (F.interpolate(x, size=7, mode="linear"), F.interpolate(x, scale_factor=2, mode="nearest"), F.interpolate(x, size=9, mode="linear", align_corners=True)), r(1, 2, 4))
    add("resize.3d", lambda x: (F.interpolate(x, size=(3, 4, 5), mode="trilinear"), F.interpolate(x, scale_factor=2, mode="nearest")), r(1, 2, 2, 3, 4))
    add("resize.area", lambda x: F.interpolate(x, size=(2, 2), mode="area"), r(1, 2, 4, 6))
    add("resize.dyn", lambda x: (F.interpolate(x, scale_factor=2.0, mode="bilinear"), F.interpolate(x, scale_factor=2.0)), r(1, 2, 4, 5), dyn=({2: "AUTO", 3: "AUTO"},))
    add("resize.scale_recomputed", lambda x: F.interpolate(x, scale_factor=1.6, mode="bilinear", recompute_scale_factor=True), r(1, 2, 4, 5))

    add("geo.shuffle", lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)), r(2, 8, 4, 6))
    for mode in ("bilinear", "nearest", "bicubic"):
        for pad in ("zeros", "border", "reflection"):
            add(f"geo.grid.{mode}.{pad}", lambda x, gr, m=mode, p=pad: (F.grid_sample(x, gr, m, p, align_corners=False), F.grid_sample(x, gr, m, p, align_corners=True)), r(1, 2, 4, 5), r(1, 3, 3, 2) * 0.9, tol=1e-3)
    add("geo.affine", lambda t: (F.affine_grid(t, (2, 3, 4, 5), align_corners=False), F.affine_grid(t, (2, 3, 4, 5), align_corners=True)), r(2, 2, 3))
    add("geo.fold", lambda x: (F.unfold(x, 3, padding=1, stride=2), F.fold(F.unfold(x, 2, stride=2), (6, 8), 2, stride=2)), r(2, 3, 6, 8))

    add("norm.layer", lambda x, w, c: (F.layer_norm(x, (4,)), F.layer_norm(x, (4,), w, c), F.layer_norm(x, (3, 4)), F.rms_norm(x, (4,), w), F.rms_norm(x, (4,))), r(2, 3, 4), r(4), r(4))
    add("norm.group", lambda x, w, c: (F.group_norm(x, 2), F.group_norm(x, 2, w, c), F.instance_norm(x), F.local_response_norm(x, 3)), r(2, 4, 5, 5), r(4), r(4))
    add("norm.batch", lambda x, w, m, v: (F.batch_norm(x, m, v), F.batch_norm(x, m, v, w, w), F.batch_norm(x, None, None, training=True)), r(3, 4, 5), r(4), r(4), u(4))
    add("norm.f64", lambda x, m, v: (F.layer_norm(x, (4,)), F.batch_norm(x.mT, m, v), F.group_norm(x.mT, 2)), r(2, 3, 4, dtype=f64), r(4, dtype=f64), u(4).double())
    add("norm.half", lambda x: (F.layer_norm(x, (4,)), F.rms_norm(x, (4,))), r(2, 3, 4).half(), tol=5e-3)
    add("norm.bf16", lambda x: (F.layer_norm(x, (4,)), F.group_norm(x, 3)), r(2, 3, 4).bfloat16(), tol=5e-2)

    def losses(x, y):
        t = torch.sigmoid(y)
        p = torch.sigmoid(x)
        return (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y, reduction="none"), F.smooth_l1_loss(x, y, beta=0.5), F.huber_loss(x, y, delta=0.7), F.binary_cross_entropy(p, t), F.binary_cross_entropy(p, t, weight=t), F.binary_cross_entropy_with_logits(x, t, pos_weight=t[0]), F.kl_div(p.log(), t), F.kl_div(p.log(), t.log(), log_target=True, reduction="batchmean"), F.poisson_nll_loss(x, t), F.soft_margin_loss(x, y.sign()), F.hinge_embedding_loss(x, y.sign()), F.gaussian_nll_loss(x, y, t))

    add("loss.regression", losses, r(4, 3), r(4, 3))
    add("loss.distance", lambda x, y, z: (F.cosine_similarity(x, y), F.pairwise_distance(x, y), F.triplet_margin_loss(x, y, z), F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1, -1])), F.margin_ranking_loss(x[:, 0], y[:, 0], z[:, 0].sign()), torch.cdist(x, y), torch.cdist(x, y, p=1)), r(4, 3), r(4, 3), r(4, 3))
    add("loss.classes", lambda x, t, w: (F.cross_entropy(x, t), F.cross_entropy(x, t, w), F.cross_entropy(x, t, reduction="none"), F.cross_entropy(x, t, ignore_index=1), F.cross_entropy(x, t, w, label_smoothing=0.1), F.nll_loss(F.log_softmax(x, 1), t, w), F.cross_entropy(x, F.softmax(x * 2, 1), w), F.cross_entropy(x[0], t[0])), r(6, 4), n(4, 6), u(4))
    add("loss.classes2d", lambda x, t, w: (F.cross_entropy(x, t), F.cross_entropy(x, t, w, ignore_index=2), F.nll_loss(x, t, reduction="sum")), r(2, 4, 3, 3), n(4, 2, 3, 3), u(4))

    add("mat.products", lambda x, y, v, w: (x @ y, torch.mm(x, y), x @ v, v @ y, torch.dot(v, v), torch.mv(x, v), torch.addmm(w, x, y, beta=0.5, alpha=2), torch.addmv(w[0, :3], x, v), torch.inner(x, x), torch.tensordot(x, y, 1), torch.kron(x, y[:2]), torch.chain_matmul(x, y, y.t()), torch.outer(v, v), torch.addr(x[:, :3] if False else torch.outer(v, v), v, v)), r(3, 4), r(4, 5), r(4), r(3, 5))
    add("mat.batch", lambda x, y, z: (torch.bmm(x, y), x @ y[0], torch.baddbmm(z, x, y), torch.addbmm(z[0], x, y), torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij->ji", x), torch.einsum("...ij,...jk", x, y), torch.einsum("ii->i", x[0, :, :3])), r(2, 3, 4), r(2, 4, 5), r(2, 3, 5))
    add("mat.linear", lambda x, w, c: (F.linear(x, w, c), F.linear(x[0], w), F.linear(x[0, 0], w, c), F.bilinear(x, x, r_bil)), r(2, 3, 4), r(5, 4), r(5))
    r_bil = r(6, 4, 4)
    add("mat.int", lambda x, y: x @ y, n(5, 3, 4), n(5, 4, 2))
    add("mat.cross", lambda x, y: (torch.cross(x, y, dim=1), torch.linalg.cross(x, y), torch.linalg.vecdot(x, y)), r(4, 3), r(4, 3))
    add("mat.det", lambda x: (torch.det(x), torch.linalg.slogdet(x), torch.linalg.matrix_power(x, 3)), r(3, 3))

    q = lambda *s: r(*s)
    add("attn.plain", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=0.3), F.scaled_dot_product_attention(q, q, q, is_causal=True)), q(2, 3, 5, 4), q(2, 3, 6, 4), q(2, 3, 6, 4))
    add("attn.mask", lambda q, k, m: (F.scaled_dot_product_attention(q, k, k, attn_mask=m), F.scaled_dot_product_attention(q, k, k, attn_mask=m.float())), q(2, 3, 5, 4), q(2, 3, 6, 4), b(5, 6))
    add("attn.gqa", lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), q(2, 4, 5, 4), q(2, 2, 5, 4))
    add("attn.dyn", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), q(2, 3, 5, 4), q(2, 3, 5, 4), dyn=({2: "AUTO"}, {2: "AUTO"}))
    add("attn.3d", lambda q: F.scaled_dot_product_attention(q, q, q), q(2, 5, 4))

    class Mha(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return self.m(x, x, x)

    add("attn.module", Mha().eval(), q(2, 5, 8))
    add("attn.encoder", nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train(False), q(2, 5, 8))
    for k, c in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
        for name, kw in (("plain", {}), ("deep", dict(num_layers=2)), ("both", dict(bidirectional=True, batch_first=True)), ("nobias", dict(bias=False))):
            add(f"rnn.{k}.{name}", c(3, 4, **kw).eval(), r(5, 2, 3))
        add(f"rnn.{k}.alone", c(3, 4).eval(), r(5, 3))
        add(f"rnn.{k}.dyn", c(3, 4, batch_first=True).eval(), r(2, 5, 3), dyn=({0: "AUTO", 1: "AUTO"},))
    add("rnn.relu", nn.RNN(3, 4, nonlinearity="relu").eval(), r(5, 2, 3))
    add("rnn.cells", nn.LSTMCell(3, 4), r(2, 3))
    add("rnn.gru_cell", nn.GRUCell(3, 4), r(2, 3))
    add("rnn.cell", nn.RNNCell(3, 4), r(2, 3))

    add("fft.all", lambda x: (torch.view_as_real(torch.fft.rfft(x)), torch.fft.irfft(torch.fft.rfft(x)), torch.view_as_real(torch.fft.fft(x, dim=0)), torch.fft.ifft(torch.fft.fft(x)).real, torch.view_as_real(torch.fft.fft2(x, norm="ortho")), torch.fft.irfft(torch.fft.rfft(x), n=5), torch.fft.rfft(x, n=4).abs()), r(3, 6))
    add("complex.products", lambda x, y: (torch.view_as_real(torch.complex(x, y) @ torch.complex(y, x).mT), torch.view_as_real(torch.complex(x, y) @ y[0].to(torch.complex64))), r(3, 4), r(3, 4))
    add("window.hann", lambda x: (x * torch.hann_window(8), x * torch.hann_window(8, periodic=False), torch.hann_window(1)), r(8))
    add("complex.ops", lambda x, y: (torch.complex(x, y).abs(), torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)), torch.complex(x, y).angle(), torch.view_as_real(torch.complex(x, y).conj()), (torch.complex(x, y) + 2).real, torch.view_as_real(torch.complex(x, y) / torch.complex(y, x)), torch.polar(x.abs(), y).imag, torch.view_as_real(torch.complex(x, y).reshape(-1)), torch.complex(x, y).sum(0).imag), r(3, 4), r(3, 4))

    class Cond(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: (x.sin(), x * 2), lambda x: (x.cos(), x - 1), (x,))

    add("control.cond", Cond(), r(3, 4))

    class While(nn.Module):
        def forward(self, x):
            return torch._higher_order_ops.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (torch.tensor(0), x))

    add("control.while", While(), r(3))

    class Drop(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5, self.training), F.dropout2d(x, 0.5, self.training), F.alpha_dropout(x, 0.5, self.training)

    add("drop.eval", Drop().eval(), r(2, 3, 4, 4))
    # operators without a translation of their own become their parts
    add("parts.fftshift", lambda x: (torch.fft.fftshift(x, dim=-1), torch.fft.ifftshift(x)), r(3, 7))
    add("parts.rfft2", lambda x: torch.fft.rfft2(x).abs(), r(3, 8))
    add("parts.hfft", lambda x: torch.fft.hfft(torch.fft.rfft(x), n=8), r(3, 8))
    add("parts.stft", lambda x: torch.stft(x, 8, hop_length=4, window=torch.hann_window(8), return_complex=True).abs(), r(2, 32))
    add("parts.block_diag", lambda x, y: torch.block_diag(x, y), r(2, 3), r(3, 1))
    add("parts.cartesian_prod", lambda x, y: torch.cartesian_prod(x, y), r(3), r(2))
    add("joins.combinations", lambda x: (torch.combinations(x), torch.combinations(x, 3), torch.combinations(x, 2, True)), r(5))
    add("fft.frequencies", lambda x: (torch.fft.fftfreq(8) + x, torch.fft.fftfreq(7, 0.5), torch.fft.rfftfreq(9)), r(8))
    add("parts.renorm", lambda x: torch.renorm(x, 2, 0, 1.0), r(3, 4, 2))
    add("parts.mvlgamma", lambda x: torch.mvlgamma(x, 2), u(3) + 2)
    add("unary.lgamma", torch.lgamma, torch.tensor([0.1, 0.5, 1.0, 2.0, 3.7, 20.0, 500.0, -0.5, -3.3, 6.99]))
    add("index_reduce.alone", lambda x, i, v: tuple(x.index_reduce(0, i, v, h, include_self=s) for h in ("amax", "amin", "prod", "mean") for s in (True, False)), r(4, 3), torch.tensor([0, 2, 2]), r(3, 3))
    add("resize.smooth", lambda x: (F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), F.interpolate(x, size=(9, 4), mode="bicubic", antialias=True), F.interpolate(x, scale_factor=0.6, mode="bilinear", antialias=True)), r(2, 3, 7, 8))
    return out


def flat(v):
    import torch

    if isinstance(v, (list, tuple)):
        return [x for y in v for x in flat(y)]
    if isinstance(v, (int, float)) and not isinstance(v, bool):
        return [torch.tensor(v)]
    return [v] if isinstance(v, torch.Tensor) else []


def make(folder):
    import torch
    from torch import nn

    class Call(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, *args):
            return self.f(*args)

    only = sys.argv[3:]
    hints = {"AUTO": torch.export.Dim.AUTO}
    for name, f, args, dyn, tol in cases():
        if only and not any(name.startswith(o) for o in only):
            continue
        m = f if isinstance(f, nn.Module) else Call(f)
        shapes = None
        if dyn:
            shapes = tuple({d: hints[h] for d, h in a.items()} for a in dyn)
            if not isinstance(f, nn.Module):
                shapes = (shapes,)
        try:
            with torch.no_grad():
                ep = torch.export.export(m, args, dynamic_shapes=shapes, strict=False)
                torch.export.save(ep, os.path.join(folder, name + ".pt2"))
                want = flat(m(*args))
        except Exception as e:
            print(f"not made: {name}: {str(e)[:200]}")
            continue
        data = {f"in{i}": numpy_of(a) for i, a in enumerate(args)}
        data.update({f"out{i}": numpy_of(a) for i, a in enumerate(want)})
        data["tol"] = np.array(tol)
        np.savez(os.path.join(folder, name + ".npz"), **data)


def numpy_of(t):
    import torch

    if t.dtype == torch.bfloat16:
        return t.detach().float().numpy()
    return t.detach().numpy()


def judge(folder, models):
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto

    passed = failed = 0
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".npz"):
            continue
        name = file[:-4]
        path = os.path.join(models, name + ".onnx")
        if not os.path.exists(path):
            failed += 1
            print(f"FAIL {name}: no model")
            continue
        data = np.load(os.path.join(folder, file))
        problem = None
        try:
            onnx.checker.check_model(path, full_check=True)
            # numpy has no bfloat16: such inputs and outputs are single precision around the model
            model = onnx.load(path)
            for i in list(model.graph.input):
                if i.type.tensor_type.elem_type == TensorProto.BFLOAT16:
                    inner = i.name + "__bf16"
                    for nd in model.graph.node:
                        for k, v in enumerate(nd.input):
                            if v == i.name:
                                nd.input[k] = inner
                    i.type.tensor_type.elem_type = TensorProto.FLOAT
                    model.graph.node.insert(0, onnx.helper.make_node("Cast", [i.name], [inner], to=TensorProto.BFLOAT16))
            for o in list(model.graph.output):
                if o.type.tensor_type.elem_type == TensorProto.BFLOAT16:
                    outer, inner = o.name, o.name + "__bf16"
                    for nd in model.graph.node:
                        for k, v in enumerate(nd.output):
                            if v == outer:
                                nd.output[k] = inner
                        for k, v in enumerate(nd.input):
                            if v == outer:
                                nd.input[k] = inner
                    o.type.tensor_type.elem_type = TensorProto.FLOAT
                    model.graph.node.append(onnx.helper.make_node("Cast", [inner], [outer], to=TensorProto.FLOAT))
            del model.graph.value_info[:]
            options = ort.SessionOptions()
            options.log_severity_level = 4
            s = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            feeds = {i.name: data[f"in{k}"] for k, i in enumerate(s.get_inputs())}
            got = s.run(None, feeds)
            want = [data[f"out{k}"] for k in range(sum(k.startswith("out") for k in data.files))]
            tol = float(data["tol"])
            if len(got) != len(want):
                problem = f"{len(got)} outputs, expected {len(want)}"
            for k, (a, w) in enumerate(zip(got, want)):
                a = np.asarray(a)
                if problem:
                    break
                if a.shape != w.shape or a.dtype != w.dtype:
                    problem = f"output {k}: {a.dtype}{a.shape}, expected {w.dtype}{w.shape}"
                elif w.dtype.kind in "fc":
                    if not np.allclose(a.astype(np.float64), w.astype(np.float64), rtol=tol, atol=tol, equal_nan=True):
                        problem = f"output {k}: {np.asarray(a).ravel()[:6]}, expected {w.ravel()[:6]}"
                elif not np.array_equal(a, w):
                    problem = f"output {k}: {a.ravel()[:8]}, expected {w.ravel()[:8]}"
        except Exception as e:
            problem = str(e).replace("\n", " ")[:400]
        if problem:
            failed += 1
            print(f"FAIL {name}: {problem}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        judge(sys.argv[2], sys.argv[3])
