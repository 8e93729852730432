#!/usr/bin/env python3
"""The networks of networks.json in PyTorch, for comparison: same seed, same inputs, same timing rules, same JSON as the Rust
program. A process measures one network, so that its memory is that network's.

usage: networks.py --only ID --threads N --out FILE [--min-time SECONDS] [--exact]
"""
import time
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import fill, ints

p = harness.parser(__doc__)
p.add_argument("--exact", action="store_true", help="compute it in float64 too: the error of float32")
args = harness.start(p)

import torch
from torch import nn
from torch.nn import functional as F

import models


class Inference:
    """`result` is the output."""

    def __init__(self, model, inputs, run):
        self.model, self.inputs, self.run = model.eval(), inputs, run

    def call(self):
        with torch.no_grad():
            return self.run(self.model, *self.inputs)

    result = call

    def widen(self):
        self.model.double()
        self.inputs = wide(self.inputs)


class Training:
    """Gradients are dropped; forward, loss, backward, step of the optimiser. `result` is all gradients in one."""

    def __init__(self, model, inputs, loss, optimizer):
        self.model, self.inputs, self.loss = model, inputs, loss
        self.optimizer = optimizer(model.parameters())

    def backward(self):
        self.model.zero_grad()
        loss = self.loss(self.model, *self.inputs)
        loss.backward()
        return loss

    def call(self):
        loss = self.backward()
        self.optimizer.step()
        return loss

    def result(self):
        self.backward()
        dense = lambda g: g.to_dense() if g.is_sparse else g
        return torch.cat([dense(p.grad).flatten() for p in self.model.parameters() if p.grad is not None])

    def widen(self):
        self.model.double()
        self.inputs = wide(self.inputs)


def wide(x):
    if isinstance(x, (list, tuple)):
        return [wide(y) for y in x]
    return x.double() if torch.is_tensor(x) and x.is_floating_point() else x


WORKERS, CALLS = 12, 100


class Service:
    """Threads that each run a model of their own."""

    def __init__(self, make, inputs):
        torch.set_num_threads(1)
        self.probe = Inference(make(), inputs, lambda m, x: m(x))  # not timed
        self.cases = [Inference(make(), inputs, lambda m, x: m(x)) for _ in range(WORKERS)]
        self.pool = ThreadPoolExecutor(WORKERS)

    def call(self):
        def work(c):
            for _ in range(CALLS - 1):
                c.call()
            return c.call()

        return list(self.pool.map(work, self.cases))[-1]

    def result(self):
        return self.probe.call()

    def widen(self):
        self.probe.widen()


sgd = lambda p: torch.optim.SGD(p, lr=0.01)
momentum = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4)
adamw = lambda p: torch.optim.AdamW(p, lr=3e-4, weight_decay=0.01)
adam = lambda p: torch.optim.Adam(p, lr=1e-3)
plain = lambda m, *x: m(*x)
classes = lambda m, x, target: F.cross_entropy(m(x), target)

ROWS = {}
images = lambda batch, side=224: fill([batch, 3, side, side], 1)


def image_rows(name, make, batches, batch, optimizer):
    for b in batches:
        ROWS[f"net/{name}_b{b}"] = lambda b=b: Inference(make(), [images(b)], plain)
    ROWS[f"net/{name}_train_b{batch}"] = lambda: Training(
        make(), [images(batch), ints([batch], 1000, 2)], classes, optimizer)


image_rows("resnet18", models.resnet18, (1, 16), 16, momentum)
image_rows("resnet50", models.resnet50, (1, 16), 4, momentum)
image_rows("mobilenet_v3_small", models.MobileNetV3Small, (1, 16), 16, momentum)
image_rows("vit_s16", models.ViT, (1, 8), 4, adamw)
ROWS["net/bert_base_b1"] = lambda: Inference(models.Bert(), [ints([1, 128], 30522, 1)], plain)
ROWS["net/bert_base_train_b2"] = lambda: Training(
    models.Bert(), [ints([2, 128], 30522, 1), ints([2], 2, 2)],
    lambda m, x, target: F.cross_entropy(m.classify(x), target), adamw)


def gpt2(length, position):
    caches = [[fill([1, 12, 1024, 64], 2 * i + 1), fill([1, 12, 1024, 64], 2 * i + 2)] for i in range(12)]
    return Inference(models.gpt2(), [ints([1, length], 50257, 1), caches], lambda m, x, c: m.next(x, c, position))


ROWS["net/gpt2_prefill_512"] = lambda: gpt2(512, 0)
ROWS["net/gpt2_decode"] = lambda: gpt2(1, 512)
frames = lambda: fill([8, 160, 40], 1)
ROWS["net/lstm_encoder_b8"] = lambda: Inference(models.SpeechEncoder(), [frames()], plain)
ROWS["net/lstm_encoder_train_b8"] = lambda: Training(
    models.SpeechEncoder(), [frames(), ints([8 * 160], 32, 2)],
    lambda m, x, target: F.cross_entropy(m(x).flatten(0, 1), target), adam)
ROWS["net/unet_b1"] = lambda: Inference(models.UNet(), [images(1, 128)], plain)
ROWS["net/unet_train_b4"] = lambda: Training(
    models.UNet(), [images(4, 128), ints([4, 128, 128], 2, 2)], classes, adam)
BATCH, BAG = 128, 16
clicks = lambda: [fill([BATCH, 13], 1), ints([26, BATCH * BAG], 10_000, 2), torch.arange(0, BATCH * BAG, BAG)]
ROWS["net/dlrm_b128"] = lambda: Inference(models.DLRM(), clicks(), plain)
ROWS["net/dlrm_train_b128"] = lambda: Training(
    models.DLRM(), [*clicks(), ints([BATCH], 2, 3).float()],
    lambda m, *x: F.binary_cross_entropy_with_logits(m(*x[:-1]), x[-1]), sgd)
ROWS["service/mlp"] = lambda: Service(lambda: models.mlp(784, 256, 128, 10), [fill([1, 784], 1)])
ROWS["service/convnet"] = lambda: Service(
    lambda: nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 10)), [fill([1, 1, 28, 28], 1)])
ROWS["service/transformer"] = lambda: Service(
    lambda: nn.TransformerEncoderLayer(64, 4, 256, batch_first=True), [fill([1, 32, 64], 1)])


def made(id):
    torch.manual_seed(0)
    return ROWS[id]()


def record(id):
    start = harness.forget_peak()
    case = made(id)
    t = time.perf_counter()
    case.call()
    first = time.perf_counter() - t
    r = harness.measure(case.call, args)
    r["first_s"] = first
    peak = harness.status("VmHWM")
    if start and peak:
        r["memory"] = peak - start
    if args.exact:
        del case
        case = made(id)
        narrow = case.result().double()
        case.widen()
        exact = case.result()
        r["deviation"] = float((narrow - exact).norm() / exact.norm())
        r["check"] = float(exact.abs().mean())
    return r


ids = harness.listed("networks.json")
assert sorted(ids) == sorted(ROWS), "networks.json and this file list different rows"
harness.run(ids, record, args)
