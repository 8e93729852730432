#!/usr/bin/env python3
"""The operators of growth.json at sizes over five decades, in PyTorch.

usage: growth.py --threads N --out FILE [--only TEXT[,TEXT]] [--min-time SECONDS]
"""
import json
import os

import harness
from harness import call, fill, ints

args = harness.start(harness.parser(__doc__))

import torch
from torch.nn import functional as F

flat = lambda s, seed=1: fill([s * s], seed)
square = lambda s, seed=1: fill([s, s], seed)


def images(s):
    side = max(3, s // 4)
    return fill([1, 16, side, side], 1), fill([16, 16, 3, 3], 2)


OPERATORS = {
    "add": lambda s: call(torch.add, flat(s), flat(s, 2)),
    "sum": lambda s: call(torch.sum, flat(s)),
    "sum_rows": lambda s: call(torch.sum, square(s), 1),
    "sum_columns": lambda s: call(torch.sum, square(s), 0),
    "softmax": lambda s: call(torch.softmax, square(s), -1),
    "matmul": lambda s: call(torch.matmul, square(s), square(s, 2)),
    "conv": lambda s: call(lambda x, w: F.conv2d(x, w, padding=1), *images(s)),
    "sort": lambda s: call(torch.sort, flat(s)),
    "gather": lambda s: call(torch.gather, flat(s), 0, ints([s * s], s * s, 2)),
    "index_add": lambda s: call(torch.index_add, square(s), 0, ints([s], s, 2), square(s, 3)),
    "cat": lambda s: call(torch.cat, [fill([s * s // 2], 1), fill([s * s // 2], 2)]),
    "copy_transposed": lambda s: call(lambda x: x.t().contiguous(), square(s)),
    "randn": lambda s: call(torch.randn, s * s),
}

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "growth.json")) as f:
    listed = json.load(f)
ops = [o["op"] for o in listed["operators"]]
assert sorted(ops) == sorted(OPERATORS), "growth.json and this file list different operators"
ROWS = {f"{op}@{s * s}": (op, s) for op in ops for s in listed["sides"]}


def record(id):
    op, side = ROWS[id]
    return harness.measure(OPERATORS[op](side), args)


with torch.no_grad():
    harness.run(list(ROWS), record, args)
