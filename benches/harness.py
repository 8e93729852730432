"""What the programs beside this file share: arguments, inputs, timing rules, result files. The Rust side has the same in
src/input.rs and src/measure.rs."""
import argparse
import gc
import json
import math
import os
import sys
import time


def parser(about):
    p = argparse.ArgumentParser(description=about)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--out")
    p.add_argument("--only", default="")
    p.add_argument("--min-time", type=float, default=0.5)
    return p


def start(p):
    """Reads the arguments; torch comes after, so that it finds the number of threads in the environment."""
    args = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    import torch

    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    return args


# ---------------------------------------------------------------- inputs
WORD = 0xFFFFFFFF


def hashes(count, seed):
    import torch

    h = (torch.arange(count) * 2654435761 + (seed * 40503 + 12345)) & WORD
    h = h ^ (h >> 15)
    h = (h * 2246822519) & WORD  # wraps at 64 bits, which leaves the low 32 right
    return h ^ (h >> 13)


def fill(sizes, seed, dtype=None):
    """uniform in [-1, 1), float32 if no dtype is named"""
    import torch

    h = hashes(math.prod(sizes), seed) >> 8
    return (h.to(torch.float32) * 2.0**-23 - 1).reshape(sizes).to(dtype or torch.float32)


def ints(sizes, end, seed):
    return ((hashes(math.prod(sizes), seed) >> 8) % end).reshape(sizes)


def mask(sizes, seed):
    return fill(sizes, seed) > 0


def cplx(*sizes):
    import torch

    return torch.complex(fill(sizes, 1), fill(sizes, 2))


def call(f, *inputs):
    """A call of fixed arguments, made once."""
    return lambda: f(*inputs)


# ---------------------------------------------------------------- memory
def status(key):
    """A figure of the process in bytes; none where the system does not tell."""
    try:
        with open("/proc/self/status") as f:
            return next(int(l.split()[1]) * 1024 for l in f if l.startswith(key + ":"))
    except (OSError, StopIteration):
        return None


def forget_peak():
    """Lets the largest resident set begin anew, and gives the present one."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass
    return status("VmRSS")


# ---------------------------------------------------------------- timing
def measure_once(f, min_time):
    start, fastest, calls = time.perf_counter(), math.inf, 0
    while calls < 2 or time.perf_counter() - start < 0.15:
        t = time.perf_counter()
        f()
        fastest = min(fastest, time.perf_counter() - t)
        calls += 1
    inner = max(1, min(100_000, math.ceil(4e-3 / max(fastest, 1e-8))))
    loop = range(inner)
    samples, total, cpu = [], 0.0, math.inf
    while not (total >= min_time and len(samples) >= 7 or total >= 3 and len(samples) >= 3):
        c, t = time.process_time(), time.perf_counter()
        for _ in loop:
            f()
        wall = time.perf_counter() - t
        cpu = min(cpu, time.process_time() - c)
        samples.append(wall / inner)
        total += wall
    samples.sort()
    n = len(samples)
    return {"median_s": 0.5 * (samples[(n - 1) // 2] + samples[n // 2]), "min_s": samples[0], "cpu_s": cpu / inner,
            "repeats": n, "inner": inner}


def measure(f, args):
    gc.collect()
    gc.disable()
    best, reruns = measure_once(f, args.min_time), 0
    while args.threads > 1 and best["median_s"] > 1.2 * best["min_s"] and best["median_s"] < 0.3 and reruns < 2:
        reruns += 1
        again = measure_once(f, args.min_time)
        least = {k: min(best[k], again[k]) for k in ("min_s", "cpu_s")}
        best = {**min(best, again, key=lambda r: r["median_s"]), **least}
    gc.enable()
    return {**best, "reruns": reruns}


# ---------------------------------------------------------------- results
def chosen(ids, only):
    """All, or those that were asked for: by a whole id, or by a part of ids."""
    only = [s for s in only.split(",") if s]
    return [id for id in ids if not only or id in only or any(s in id for s in only if s not in ids)]


def run(ids, record, args):
    """Measures the rows that were asked for, and writes the file again after each."""
    import torch

    rows = []
    for id in chosen(ids, args.only):
        try:
            r = record(id)
        except Exception as e:
            r = {"error": f"{type(e).__name__}: {e}"[:200]}
        gc.collect()
        rows.append({"id": id, "threads": args.threads, **r})
        shown = f"{r['min_s'] * 1e6:14.2f} us" if "min_s" in r else r.get("error", r.get("value"))
        print(f"{id:36} {shown}", file=sys.stderr, flush=True)
        if args.out:
            meta = {"impl": "pytorch", "version": torch.__version__, "threads": args.threads, "schema": 1}
            text = ",\n".join(map(json.dumps, rows))
            with open(args.out + ".part", "w") as f:
                f.write(f'{{"meta": {json.dumps(meta)}, "rows": [\n{text}\n]}}\n')
            os.replace(args.out + ".part", args.out)


def listed(name):
    """The ids of a list beside this file."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as f:
        return [r["id"] for r in json.load(f)]
