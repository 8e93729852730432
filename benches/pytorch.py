#!/usr/bin/env python3
"""The rows of rows.json in PyTorch, for comparison: same inputs, same timing rules, same JSON as the Rust program.

usage: pytorch.py --threads N --out FILE [--only TEXT[,TEXT]] [--min-time SECONDS]
"""
import gc
import math
import os
import subprocess
import sys
import tempfile

import harness
from harness import call, cplx, fill, ints, mask

p = harness.parser(__doc__)
p.add_argument("--peak-rss", action="store_true", help="train for 200 steps and print the largest resident set")
args = harness.start(p)

import torch
from torch import nn
from torch.nn import functional as F

import models

ROWS = {}


class Row:
    """What is timed, and how."""

    def __init__(self, make, grad=True, check=True):
        self.make, self.grad, self.check = make, grad, check


def add(id, make, **flags):
    """`make` builds the inputs and gives the call."""
    assert id not in ROWS, id
    ROWS[id] = Row(make, **flags)


def forward_backward(f, *leaves):
    for l in leaves:
        l.requires_grad_()
    with torch.no_grad():
        ones = torch.ones_like(f(*leaves))

    def run():
        for l in leaves:
            l.grad = None
        y = f(*leaves)
        y.backward(ones)
        return y

    return run


# ---------------------------------------------------------------- dispatch
# no call but the measured one within the timed lambda: another one would be a good part of the figure
def dispatch(name, make, *inputs):
    add(f"dispatch/{name}", lambda: make(*(fill(sizes, i + 1) for i, sizes in enumerate(inputs))))


def chain10(a, b):
    def run():
        y = a
        for _ in range(5):
            y = y * b
            y = y + b
        return y

    return run


dispatch("add_1", lambda a, b: lambda: a + b, [1], [1])
dispatch("add_64", lambda a, b: lambda: a + b, [64], [64])
dispatch("chain10_64", chain10, [64], [64])
dispatch("view", lambda t: lambda: t.view(8, 128), [32, 32])
dispatch("slice", lambda t: lambda: t[4:12], [32, 32])
dispatch("transpose", lambda t: lambda: t.transpose(0, 1), [32, 32])


def autograd10():
    x = torch.tensor(0.5, requires_grad=True)

    def run():
        x.grad = None
        y = x
        for _ in range(5):
            y = y * x
            y = y + x
        y.backward()
        return x.grad

    return run


add("dispatch/autograd10", autograd10)


def linear16():
    m = nn.Linear(16, 16)
    with torch.no_grad():
        m.weight.copy_(fill([16, 16], 2))
        m.bias.copy_(fill([16], 3))
    x = fill([1, 16], 1)
    return lambda: m(x)


add("dispatch/linear16", linear16)
add("dispatch/linear16_nograd", linear16, grad=False)

# ---------------------------------------------------------------- elementwise
UNARY = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "clamp": lambda a: torch.clamp(a, -0.5, 0.5),
    "cast_bf16": lambda a: a.to(torch.bfloat16),
}
for n, tag in (10_000, "1e4"), (1_000_000, "1e6"), (30_000_000, "3e7"):
    for name, f in UNARY.items():
        add(f"elementwise/{name}@{tag}", lambda n=n, f=f: call(f, fill([n], 1)))
    for name, f in {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}.items():
        add(f"elementwise/{name}@{tag}", lambda n=n, f=f: call(f, fill([n], 1), fill([n], 2)))
    add(f"elementwise/where@{tag}", lambda n=n: call(torch.where, mask([n], 3), fill([n], 1), fill([n], 2)))
    add(f"elementwise/chain@{tag}",
        lambda n=n: call(lambda x, a, b: (x * a + b).tanh(), fill([n], 1), fill([n], 2), fill([n], 3)))


def add_out():
    a, b = fill([30_000_000], 1), fill([30_000_000], 2)
    c = torch.zeros_like(a)
    return lambda: torch.add(a, b, out=c)


add("elementwise/add_out@3e7", add_out)
add("elementwise/add_inplace@3e7",
    lambda: call(lambda a, b: a.add_(b), fill([30_000_000], 1), fill([30_000_000], 2) * 1e-6), check=False)
for name, a, b, f in [
    ("bcast_row", [4096, 1024], [1024], lambda a, b: a + b),
    ("bcast_col", [4096, 1024], [4096, 1], lambda a, b: a + b),
    ("add_strided", [4096, 2048], [4096, 2048], lambda a, b: a[:, ::2] + b[:, ::2]),
    ("add_transposed", [2048, 2048], [2048, 2048], lambda a, b: a + b.t()),
]:
    add(f"elementwise/{name}", lambda a=a, b=b, f=f: call(f, fill(a, 1), fill(b, 2)))
add("elementwise/copy_transposed", lambda: call(lambda a: a.t().contiguous(), fill([4096, 1024], 1)))

# ---------------------------------------------------------------- reduce
TABLE = [4096, 1024]
for op in "sum", "mean", "max", "argmax", "var":
    f = getattr(torch.Tensor, op)
    add(f"reduce/{op}_all", lambda f=f: call(f, fill(TABLE, 1)))
    for dim in 0, 1:
        add(f"reduce/{op}_dim{dim}", lambda f=f, dim=dim: call(lambda x: f(x, dim=dim), fill(TABLE, 1)))
add("reduce/softmax", lambda: call(torch.softmax, fill(TABLE, 1), -1))
add("reduce/log_softmax", lambda: call(torch.log_softmax, fill(TABLE, 1), -1))
add("reduce/softmax_fb", lambda: forward_backward(lambda x: torch.softmax(x, -1), fill(TABLE, 1)))
add("reduce/cumsum", lambda: call(torch.cumsum, fill(TABLE, 1), 1))
add("reduce/norm", lambda: call(torch.linalg.vector_norm, fill(TABLE, 1)))
layer_norm = lambda x, w, b: F.layer_norm(x, (1024,), w, b)
norm_inputs = lambda: (fill(TABLE, 1), fill([1024], 2), fill([1024], 3))
add("reduce/layer_norm", lambda: call(layer_norm, *norm_inputs()))
add("reduce/layer_norm_fb", lambda: forward_backward(layer_norm, *norm_inputs()))

# ---------------------------------------------------------------- index
add("index/sort_1e6", lambda: call(torch.sort, fill([1_000_000], 1)))
add("index/sort_rows", lambda: call(torch.sort, fill([1000, 1000], 1), -1))
add("index/argsort_i64", lambda: call(torch.argsort, ints([1_000_000], 1 << 24, 1)))
add("index/topk_1e6", lambda: call(torch.topk, fill([1_000_000], 1), 100))
add("index/topk_rows", lambda: call(torch.topk, fill([64, 32_000], 1), 50, -1))
add("index/index_select",
    lambda: call(torch.index_select, fill([100_000, 64], 1), 0, ints([65_536], 100_000, 2)))
add("index/gather", lambda: call(torch.gather, fill(TABLE, 1), 1, ints([4096, 256], 1024, 2)))
add("index/scatter_add",
    lambda: call(lambda i, s: torch.zeros(4096, 1024).scatter_add_(1, i, s), ints(TABLE, 1024, 2), fill(TABLE, 1)))
add("index/embedding", lambda: call(F.embedding, ints([32, 128], 50_000, 2), fill([50_000, 256], 1)))


def embedding_fb():
    i = ints([32, 128], 50_000, 2)
    return forward_backward(lambda w: F.embedding(i, w), fill([50_000, 256], 1))


add("index/embedding_fb", embedding_fb)
add("index/cat_dim0", lambda: call(torch.cat, [fill([512, 1024], s) for s in range(1, 9)], 0))
add("index/cat_dim1", lambda: call(torch.cat, [fill([1024, 512], s) for s in range(1, 9)], 1))
add("index/nonzero", lambda: call(torch.nonzero, mask([4_194_304], 1)))
add("index/masked_select", lambda: call(torch.masked_select, fill([4_194_304], 1), mask([4_194_304], 2)))
add("index/unique", lambda: call(torch.unique, ints([1_000_000], 10_000, 1)))

# ---------------------------------------------------------------- matmul
pair = lambda n, dtype: (fill([n, n], 1, dtype), fill([n, n], 2, dtype))
for n in 64, 128, 256, 512, 1024, 2048:
    add(f"matmul/f32_{n}", lambda n=n: call(torch.matmul, *pair(n, torch.float32)))
add("matmul/bf16_1024", lambda: call(torch.matmul, *pair(1024, torch.bfloat16)))
add("matmul/f64_1024", lambda: call(torch.matmul, *pair(1024, torch.float64)))
add("matmul/f32_1024_bt", lambda: call(lambda a, b: a @ b.t(), *pair(1024, torch.float32)))
add("matmul/bmm", lambda: call(torch.bmm, fill([64, 128, 64], 1), fill([64, 64, 128], 2)))
add("matmul/addmm", lambda: call(torch.addmm, fill([4096], 3), fill([256, 1024], 1), fill([1024, 4096], 2)))
linear = lambda batch: (fill([batch, 1024], 1), fill([4096, 1024], 2), fill([4096], 3))
add("matmul/linear", lambda: call(F.linear, *linear(256)))
add("matmul/linear_b1", lambda: call(F.linear, *linear(1)))
add("matmul/linear_fb", lambda: forward_backward(F.linear, *linear(256)))
add("matmul/matvec_4096", lambda: call(torch.matmul, fill([4096, 4096], 1), fill([4096], 2)))
add("matmul/einsum_qk",
    lambda: call(torch.einsum, "bhqd,bhkd->bhqk", fill([2, 8, 256, 64], 1), fill([2, 8, 256, 64], 2)))

# ---------------------------------------------------------------- conv
# inputs, side, outputs, kernel, stride, padding, groups
CONVS = {
    "conv1_7x7s2": (3, 224, 64, 7, 2, 3, 1),
    "3x3_56x64": (64, 56, 64, 3, 1, 1, 1),
    "3x3_14x256": (256, 14, 256, 3, 1, 1, 1),
    "1x1_256_1024": (256, 14, 1024, 1, 1, 0, 1),
    "dw3x3_56x128": (128, 56, 128, 3, 1, 1, 128),
}
for name, (ci, side, co, k, stride, pad, groups) in CONVS.items():
    for batch in 1, 8:
        operands = lambda b=batch, ci=ci, s=side, co=co, k=k, g=groups: (
            fill([b, ci, s, s], 1), fill([co, ci // g, k, k], 2), fill([co], 3))
        f = lambda x, w, b, s=stride, p=pad, g=groups: F.conv2d(x, w, b, stride=s, padding=p, groups=g)
        add(f"conv/{name}_n{batch}", lambda f=f, o=operands: call(f, *o()))
        add(f"conv/{name}_n{batch}_fb", lambda f=f, o=operands: forward_backward(f, *o()))
add("conv/conv1d", lambda: call(lambda x, w, b: F.conv1d(x, w, b, padding=1),
                                fill([8, 64, 1024], 1), fill([128, 64, 3], 2), fill([128], 3)))
add("conv/conv_transpose2d", lambda: call(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
                                          fill([8, 64, 28, 28], 1), fill([64, 32, 4, 4], 2), fill([32], 3)))
IMAGES = [8, 64, 112, 112]
add("conv/max_pool2d", lambda: call(lambda x: F.max_pool2d(x, 3, stride=2, padding=1), fill(IMAGES, 1)))
add("conv/avg_pool2d", lambda: call(F.avg_pool2d, fill(IMAGES, 1), 2))


def batch_norm(run):
    mean, var = torch.zeros(64), torch.ones(64)
    return run(lambda x, w, b: F.batch_norm(x, mean, var, w, b, training=True),
               fill([8, 64, 56, 56], 1), fill([64], 2), fill([64], 3))


add("conv/batch_norm_train", lambda: batch_norm(call))
add("conv/batch_norm_train_fb", lambda: batch_norm(forward_backward))

# ---------------------------------------------------------------- attention, rnn
for name, sizes, causal in ("causal_1x8x1024", [1, 8, 1024, 64], True), ("8x12x128", [8, 12, 128, 64], False):
    f = lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c)
    inputs = lambda sizes=sizes: [fill(sizes, s) for s in (1, 2, 3)]
    add(f"attention/sdpa_{name}", lambda f=f, i=inputs: call(f, *i()))
    add(f"attention/sdpa_{name}_fb", lambda f=f, i=inputs: forward_backward(f, *i()))


def lstm(train):
    m, x = nn.LSTM(128, 256), fill([64, 32, 128], 1)
    with torch.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_(fill(p.shape, 100 + i) / 16)
    f = lambda x, *parameters: m(x)[0]
    return forward_backward(f, x, *m.parameters()) if train else call(f, x)


add("rnn/lstm", lambda: lstm(False), grad=False)
add("rnn/lstm_fb", lambda: lstm(True))

# ---------------------------------------------------------------- linalg, fft, rng
for n in 256, 1024:
    plain = lambda n=n: fill([n, n], 1)
    definite = lambda n=n: (lambda a: a @ a.t() / n + torch.eye(n))(fill([n, n], 1))
    dominant = lambda n=n: fill([n, n], 1) + math.sqrt(n) * torch.eye(n)
    add(f"linalg/cholesky_{n}", lambda a=definite: call(torch.linalg.cholesky, a()))
    add(f"linalg/solve_{n}", lambda a=dominant, n=n: call(torch.linalg.solve, a(), fill([n, 16], 2)))
    add(f"linalg/qr_{n}", lambda a=plain: call(torch.linalg.qr, a()))
    add(f"linalg/svd_{n}", lambda a=plain: call(torch.linalg.svd, a()))
    add(f"linalg/eigh_{n}", lambda a=definite: call(torch.linalg.eigh, a()))
    add(f"linalg/inv_{n}", lambda a=dominant: call(torch.linalg.inv, a()))


def thin():
    a = fill([4096, 4096], 1)
    a = torch.where(fill([4096, 4096], 2) > 0.98, a, torch.zeros(())).to_sparse_csr()
    return call(torch.mm, a, fill([4096, 256], 3))


add("linalg/csr_4096x4096x256", thin)
for count, n in (1000, 8), (100, 64):
    plain = lambda c=count, n=n: fill([c, n, n], 1)
    definite = lambda c=count, n=n: (lambda a: a @ a.mT / n + torch.eye(n))(fill([c, n, n], 1))
    dominant = lambda c=count, n=n: fill([c, n, n], 1) + math.sqrt(n) * torch.eye(n)
    sizes = f"{count}x{n}x{n}"
    add(f"linalg/cholesky_{sizes}", lambda a=definite: call(torch.linalg.cholesky, a()))
    add(f"linalg/solve_{sizes}", lambda a=dominant, c=count, n=n: call(torch.linalg.solve, a(), fill([c, n, 4], 2)))
    add(f"linalg/qr_{sizes}", lambda a=plain: call(torch.linalg.qr, a()))
    add(f"linalg/svd_{sizes}", lambda a=plain: call(torch.linalg.svd, a()))
    add(f"linalg/eigh_{sizes}", lambda a=definite: call(torch.linalg.eigh, a()))
    add(f"linalg/inv_{sizes}", lambda a=dominant: call(torch.linalg.inv, a()))
add("fft/rfft_1024x1024", lambda: call(torch.fft.rfft, fill([1024, 1024], 1)))
add("fft/irfft_1024x1024", lambda: call(torch.fft.irfft, cplx(1024, 513), 1024))
add("fft/fft_2048x512", lambda: call(torch.fft.fft, cplx(2048, 512)))
add("fft/fft_512x2048_dim0", lambda: call(torch.fft.fft, cplx(512, 2048), None, 0))
add("fft/rfft_2048x512", lambda: call(torch.fft.rfft, fill([2048, 512], 1)))
add("fft/fft_1m", lambda: call(torch.fft.fft, cplx(1 << 20)))
add("fft/fft2_1024", lambda: call(torch.fft.fft2, cplx(1024, 1024)))

COUNT = 10_000_000
add("rng/rand_1e7", lambda: call(torch.rand, COUNT), check=False)
add("rng/randn_1e7", lambda: call(torch.randn, COUNT), check=False)
add("rng/bernoulli_1e7", lambda: lambda: torch.empty(COUNT).bernoulli_(0.5), check=False)
add("rng/dropout_1e7", lambda: call(F.dropout, fill([COUNT], 1), 0.5, True), check=False)
add("rng/randperm_1e6", lambda: call(torch.randperm, 1_000_000), check=False)


# ---------------------------------------------------------------- end to end
def train(model, optimizer, x, target):
    def step():
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), target.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def mlp(optimizer, lr):
    m = models.mlp(784, 512, 512, 10)
    return train(m, optimizer(m.parameters(), lr=lr), fill([128, 784], 1), ints([128], 10, 2))


def cnn():
    m = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
    return train(m, torch.optim.SGD(m.parameters(), lr=0.01), fill([64, 1, 28, 28], 1), ints([64], 10, 2))


def gpt_train():
    m = models.GPT()
    optimizer = torch.optim.AdamW(m.parameters(), lr=3e-4, weight_decay=0.01)
    return train(m, optimizer, ints([8, 128], 512, 1), ints([8, 128], 512, 2))


def charlstm():
    m = models.CharLSTM()
    return train(m, torch.optim.Adam(m.parameters(), lr=1e-3), ints([32, 64], 96, 1), ints([32, 64], 96, 2))


def gpt_decode():
    caches = [(fill([1, 8, 128, 32], 1), fill([1, 8, 128, 32], 2)) for _ in range(4)]
    return call(models.GPT().eval(), ints([1, 1], 512, 3), caches, 127)


def gpt_train_bf16():
    m = models.GPT()
    optimizer = torch.optim.AdamW(m.parameters(), lr=3e-4, weight_decay=0.01)
    x, target = ints([8, 128], 512, 1), ints([8, 128], 512, 2)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = m(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), target.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


mlp_adam = lambda: mlp(torch.optim.Adam, 1e-3)
add("e2e/mlp_sgd", lambda: mlp(torch.optim.SGD, 0.01), check=False)
add("e2e/mlp_adam", mlp_adam, check=False)
add("e2e/cnn_mnist", cnn, check=False)
for batch in 1, 8:
    add(f"e2e/resnet18_b{batch}", lambda b=batch: call(models.resnet18().eval(), fill([b, 3, 224, 224], 1)),
        grad=False, check=False)
add("e2e/gpt_train", gpt_train, check=False)
add("e2e/gpt_train_bf16", gpt_train_bf16, check=False)
add("e2e/gpt_prefill", lambda: call(models.GPT().eval(), ints([1, 128], 512, 1)), grad=False, check=False)
add("e2e/gpt_decode", gpt_decode, grad=False, check=False)
add("e2e/charlstm", charlstm, check=False)

# ---------------------------------------------------------------- func
def parameters(*sizes):
    return [fill(s, 100 + i) / s[-1] ** 0.5 for i, s in enumerate(sizes)]


def f_mlp(p, x):
    for i in range(0, len(p), 2):
        x = F.linear(x, p[i], p[i + 1])
        x = x if i + 2 == len(p) else x.tanh()
    return x


def f_cnn(p, x):
    x = F.conv2d(F.conv2d(x, p[0], p[1]).relu(), p[2], p[3]).relu()
    return F.linear(F.max_pool2d(x, 2).flatten(1), p[4], p[5])


def per_sample(model, p, x, target):
    from torch.func import grad, vmap

    def loss(p, x, t):
        return F.cross_entropy(model(p, x.unsqueeze(0)), t.unsqueeze(0))

    f = vmap(grad(loss), in_dims=(None, 0, 0))
    return lambda: f(p, x, target)[0]


def transformed(name, p, x):
    f = getattr(torch.func, name)(lambda x: f_mlp(p, x) if name == "jacrev" else f_mlp(p, x).sum())
    return lambda: f(x)


add("func/per_sample_mlp", lambda: per_sample(
    f_mlp, parameters([256, 784], [256], [256, 256], [256], [10, 256], [10]), fill([64, 784], 1), ints([64], 10, 2)))
add("func/per_sample_cnn", lambda: per_sample(
    f_cnn, parameters([16, 1, 3, 3], [16], [32, 16, 3, 3], [32], [10, 32 * 144], [10]),
    fill([32, 1, 28, 28], 1), ints([32], 10, 2)))
add("func/jacrev_mlp", lambda: transformed("jacrev", parameters([256, 128], [256], [64, 256], [64]), fill([128], 1)))
add("func/hessian_mlp", lambda: transformed("hessian", parameters([256, 64], [256], [1, 256], [1]), fill([64], 1)))

# ---------------------------------------------------------------- quantized
def int8(kind, x):
    import torch.ao.quantization as aq

    m = nn.Linear(1024, 4096)
    with torch.no_grad():
        m.weight.copy_(fill([4096, 1024], 2) / 32.0)
        m.bias.copy_(fill([4096], 3))
    m = nn.Sequential(m).eval()
    if kind == "dynamic":
        m = aq.quantize_dynamic(m, {nn.Linear}, dtype=torch.qint8)
    if kind == "static":
        m.qconfig = aq.get_default_qconfig("x86")
        m = aq.prepare(m)
        m(x)
        m = aq.convert(m)
        x = torch.quantize_per_tensor(x, 1.0 / 64.0, 64, torch.quint8)
    return call(m, x)


for batch in 1, 16:
    for kind in "f32", "dynamic", "static":
        make = lambda k=kind, b=batch: int8(k, fill([b, 1024], 1))
        add(f"quantized/linear_{kind}_b{batch}", make, grad=False, check=kind != "static")

# ---------------------------------------------------------------- io
FOLDER = tempfile.TemporaryDirectory()
STATE = os.path.join(FOLDER.name, "state.pt")
state = lambda: {f"t{i}": fill([1 << 20], i + 1) for i in range(50)}


def load():
    torch.save(state(), STATE)
    return lambda: torch.load(STATE, weights_only=True)


def dataloader():
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(fill([60_000, 784], 1), ints([60_000], 10, 2))
    loader = DataLoader(data, batch_size=128, shuffle=True, num_workers=0)
    return lambda: sum(len(x) for x, _ in loader)


STARTUP = [sys.executable, "-c", "import torch; torch.ones(()) + torch.ones(())"]
add("io/save_200mb", lambda: call(torch.save, state(), STATE), check=False)
add("io/load_200mb", load, check=False)
add("io/dataloader_60k", dataloader, check=False)
add("io/startup", lambda: call(subprocess.check_call, STARTUP), check=False)


def install_size():
    """bytes of the package's own folder; the GPU packages it depends on are not counted"""
    root = os.path.dirname(torch.__file__)
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return sum(os.path.getsize(p) for p in paths if not os.path.islink(p))


def peak_rss():
    command = [sys.executable, __file__, "--peak-rss", "--threads", str(args.threads)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


BYTES = {"io/install_size": install_size, "io/peak_rss_mlp": peak_rss}


# ---------------------------------------------------------------- records
def check(out):
    if isinstance(out, (tuple, list)):
        out = out[0]
    if not torch.is_tensor(out):
        return None
    out = torch.view_as_real(out) if out.is_complex() else out
    return float(out.detach().double().abs().mean())


def record(id):
    if id in BYTES:
        return {"value": BYTES[id](), "unit": "bytes"}
    row = ROWS[id]
    with torch.set_grad_enabled(row.grad):
        f = row.make()
        value = check(f()) if row.check else (f(), None)[1]
        r = harness.measure(f, args)
    return r if value is None else {**r, "check": value}


def main():
    if args.peak_rss:
        step = mlp_adam()
        for _ in range(200):
            step()
        print(harness.status("VmHWM"))
        return
    ids = harness.listed("rows.json")
    assert sorted(ids) == sorted([*ROWS, *BYTES]), "rows.json and this file list different rows"
    harness.run(ids, record, args)


if __name__ == "__main__":
    main()
