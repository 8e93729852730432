#!/usr/bin/env python3
"""One rank of src/bin/ranks.rs in PyTorch: the same calls, timed in the same way."""
import argparse
import time

import models
import torch
import torch.distributed as dist
from harness import fill, ints
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
parser.add_argument("--least", type=int, default=0)
args = parser.parse_args()
only = args.only

SIZES = [
    (1 << 10, 1000), (4 << 10, 1000), (16 << 10, 500), (64 << 10, 300), (256 << 10, 150),
    (1 << 20, 60), (4 << 20, 20), (16 << 20, 6), (64 << 20, 3),
]
torch.set_num_threads(1)
STEPS = 20
dist.init_process_group("gloo")


def timed(name, size, times, call):
    for _ in range(max(3, -(-times // 10))):
        call()
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(times):
        call()
    dist.barrier()
    if dist.get_rank() == 0:
        print(name, size, (time.perf_counter() - begun) / times, flush=True)


def step(name, model, optimizer, x, target):
    """Zero grads, forward, loss, backward, step of the optimiser, under DDP."""
    model = DistributedDataParallel(model)
    optimizer = optimizer(model.parameters())

    def call():
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, -2), target).backward()
        optimizer.step()

    timed(name, sum(4 * p.numel() for p in model.parameters()), STEPS, call)


for size, times in SIZES:
    if size < args.least:
        continue
    t = torch.ones(size // 4)
    every = [torch.zeros(size // 4) for _ in range(dist.get_world_size())]
    for name, call in [
        ("all_reduce", lambda: dist.all_reduce(t)),
        ("broadcast", lambda: dist.broadcast(t, 0)),
        ("all_gather", lambda: dist.all_gather(every, t)),
    ]:
        if only in name:
            timed(name, size, times, call)
if only in "ddp_mlp":
    step("ddp_mlp", models.mlp(784, 512, 512, 10), lambda p: torch.optim.Adam(p, lr=1e-3), fill([128, 784], 1),
         ints([128], 10, 2))
if only in "ddp_gpt":
    step("ddp_gpt", models.GPT(), lambda p: torch.optim.AdamW(p, lr=3e-4, weight_decay=0.01), ints([8, 128], 512, 1),
         ints([8, 128], 512, 2).flatten())
dist.destroy_process_group()
