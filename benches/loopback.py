#!/usr/bin/env python3
"""One rank of crates/flambeau-distributed/examples/loopback.rs in PyTorch: the same calls, timed in the same way."""
import argparse
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
only = parser.parse_args().only

SIZES = [
    (1 << 10, 1000), (4 << 10, 1000), (16 << 10, 500), (64 << 10, 300), (256 << 10, 150),
    (1 << 20, 60), (4 << 20, 20), (16 << 20, 6), (64 << 20, 3),
]
torch.set_num_threads(1)
dist.init_process_group("gloo")
for size, times in SIZES:
    t = torch.ones(size // 4)
    every = [torch.zeros(size // 4) for _ in range(dist.get_world_size())]
    for name, call in [
        ("all_reduce", lambda: dist.all_reduce(t)),
        ("broadcast", lambda: dist.broadcast(t, 0)),
        ("all_gather", lambda: dist.all_gather(every, t)),
    ]:
        if only not in name:
            continue
        for _ in range(-(-times // 10)):
            call()
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        dist.barrier()
        if dist.get_rank() == 0:
            print(name, size, (time.perf_counter() - begun) / times, flush=True)
dist.destroy_process_group()
