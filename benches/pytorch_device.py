"""The rows of src/bin/device.rs in PyTorch: python pytorch_device.py cuda FILE [TEXT]."""

import sys
import time

import torch
import torch.nn.functional as F

N = 1 << 26
ROWS = []


def numbers(device, sizes, dtype):
    def make():
        n = 1
        for s in sizes:
            n *= s
        part = torch.rand(min(n, 1 << 20)) + 0.5
        return part.repeat(-(-n // (1 << 20)))[:n].to(dtype).reshape(sizes).to(device)

    return make


def rows(device):
    for dtype, of in [(torch.float32, "f32"), (torch.bfloat16, "bf16")]:
        size = dtype.itemsize
        flat = numbers(device, [N], dtype)
        square = numbers(device, [8192, 8192], dtype)

        def one(name, f, flat=flat, amount=2 * N * size):
            def make():
                x = flat()
                return lambda: f(x)

            ROWS.append((name + "_" + of, amount, make))

        one("neg", lambda x: -x)
        one("mul_number", lambda x: x * 1.5)
        one("exp", torch.exp)
        one("gelu", F.gelu)
        one("tanh", torch.tanh)

        def two(name, amount, first, second, f):
            def make():
                x, y = first(), second()
                return lambda: f(x, y)

            ROWS.append((name, amount, make))

        two(f"add_{of}", 3 * N * size, flat, flat, torch.add)
        two(f"add_line_{of}", 2 * N * size, square, numbers(device, [8192], dtype), torch.add)
        two(f"add_column_{of}", 2 * N * size, square, numbers(device, [8192, 1], dtype), torch.add)
        one("copy_of_transposed", lambda x: x.t().contiguous(), square)
        other = torch.bfloat16 if dtype == torch.float32 else torch.float32
        one("cast", lambda x, other=other: x.to(other), flat, 6 * N)
        for name, f in [
            ("sum_all", lambda x: x.sum()),
            ("sum_rows", lambda x: x.sum(1)),
            ("sum_columns", lambda x: x.sum(0)),
            ("mean_all", lambda x: x.mean()),
            ("amax_rows", lambda x: x.amax(1)),
            ("argmax_all", lambda x: x.argmax()),
            ("argmax_rows", lambda x: x.argmax(1)),
            ("var_rows", lambda x: x.var(1)),
        ]:
            one(name, f, square, N * size)
        for n in [512, 4096, 32768]:
            x = numbers(device, [N // n, n], dtype)
            one(f"softmax_{n}", lambda x: x.softmax(-1), x)
            one(f"log_softmax_{n}", lambda x: x.log_softmax(-1), x)
            one(f"layer_norm_{n}", lambda x: F.layer_norm(x, x.shape[1:]), x)
        two(
            f"index_select_{of}",
            2 * N * size,
            numbers(device, [1 << 16, 1024], dtype),
            lambda: torch.randperm(1 << 16).to(device),
            lambda x, i: x.index_select(0, i),
        )
    for dtype, of in [(torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float64, "f64")]:
        for n in [256, 1024, 4096]:
            x = numbers(device, [n, n], dtype)
            two(f"matmul_{n}_{of}", 2 * n**3, x, x, torch.matmul)
        x = numbers(device, [64, 512, 512], dtype)
        two(f"bmm_{of}", 64 * 2 * 512**3, x, x, torch.bmm)

        def linear(dtype=dtype):
            x, w, b = (numbers(device, s, dtype)() for s in ([4096, 1024], [4096, 1024], [4096]))
            return lambda: F.linear(x, w, b)

        ROWS.append((f"linear_{of}", 2 * 4096 * 4096 * 1024, linear))
    for dtype, of in [(torch.float32, "f32"), (torch.bfloat16, "bf16")]:
        for name, causal, masked in [("attention", False, False), ("attention_causal", True, False), ("attention_mask", False, True)]:

            def attention(dtype=dtype, causal=causal, masked=masked):
                q, k, v = (numbers(device, [8, 16, 2048, 64], dtype)() for _ in range(3))
                mask = (torch.rand(8, 1, 1, 2048) > 0.1).to(device) if masked else None
                return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

            ROWS.append((f"{name}_{of}", 4 * 8 * 16 * 2048 * 2048 * 64 // (2 if causal else 1), attention))
    convolutions(device)
    small = numbers(device, [16], torch.float32)
    for name, f in [("launch_add", lambda x: x + x), ("launch_mul_number", lambda x: x * 1.5), ("launch_sum", torch.sum), ("launch_view", lambda x: x.view(4, 4))]:

        def make(f=f):
            x = small()
            return lambda: f(x)

        ROWS.append((name, 0, make))
    # parts of a launch, without what the device does
    for name, f in [("issue_add", lambda x, y: x + x), ("issue_empty", lambda x, y: torch.empty_like(x)), ("issue_add_in_place", lambda x, y: y.add_(x)), ("issue_sum", lambda x, y: x.sum())]:

        def make(f=f):
            x, y = small(), small()
            return lambda: f(x, y)

        ROWS.append((name, 0, make))


CONVOLUTIONS = [
    ("7x7_224", 3, 64, 224, 7, 2, 1),
    ("3x3_56", 64, 64, 56, 3, 1, 1),
    ("3x3_28", 128, 128, 28, 3, 1, 1),
    ("3x3_14", 256, 256, 14, 3, 1, 1),
    ("3x3_7", 512, 512, 7, 3, 1, 1),
    ("3x3_s2_56", 128, 128, 56, 3, 2, 1),
    ("1x1_56", 64, 256, 56, 1, 1, 1),
    ("1x1_14", 1024, 256, 14, 1, 1, 1),
    ("each_56", 144, 144, 56, 3, 1, 144),
]


def convolutions(device):
    for dtype, of in [(torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16")]:
        for name, c, o, side, k, stride, groups in CONVOLUTIONS:
            x, w = numbers(device, [32, c, side, side], dtype), numbers(device, [o, c // groups, k, k], dtype)
            options = {"stride": stride, "padding": k // 2, "groups": groups}
            amount = 2 * 32 * o * (side // stride) ** 2 * (c // groups) * k * k

            def forward(x=x, w=w, options=options):
                x, w = x(), w()
                return lambda: F.conv2d(x, w, **options)

            def both(x=x, w=w, options=options):
                x, w = x().requires_grad_(), w().requires_grad_()
                g = torch.ones_like(F.conv2d(x, w, **options))

                def body():
                    with torch.enable_grad():
                        return torch.autograd.grad(F.conv2d(x, w, **options), [x, w], g)

                return body

            ROWS.append((f"conv_{name}_{of}", amount, forward))
            ROWS.append((f"conv_grads_{name}_{of}", 3 * amount, both))

        def block(dtype=dtype):
            def leaf(*sizes):
                return numbers(device, sizes, dtype)().requires_grad_()

            x, v, w, scale, shift = leaf(32, 64, 56, 56), leaf(64, 64, 3, 3), leaf(64, 64, 3, 3), leaf(64), leaf(64)
            g = torch.ones_like(x)

            def norm(t):
                return F.batch_norm(t, None, None, scale, shift, training=True)

            def body():
                with torch.enable_grad():
                    y = F.relu(norm(F.conv2d(x, v, padding=1)))
                    y = F.relu(norm(F.conv2d(y, w, padding=1)) + x)
                    return torch.autograd.grad(y, [x, v, w, scale, shift], g)

            return body

        ROWS.append((f"block_grads_{of}", 0, block))


def wait(device):
    if device != "cpu":
        torch.cuda.synchronize()


def measure(device, body):
    def run(n):
        start = time.perf_counter()
        for _ in range(n):
            body()
        wait(device)
        return time.perf_counter() - start

    run(2)
    once = max(run(3), 3e-6) / 3
    n = min(max(int(0.03 / once), 1), 5000)
    return min(run(n) / n for _ in range(5))


def issue(device, body):
    def run():
        wait(device)
        start = time.perf_counter()
        for _ in range(400):
            body()
        return (time.perf_counter() - start) / 400

    return min(run() for _ in range(40))


def main():
    device, out = sys.argv[1], sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    rows(device)
    with torch.no_grad(), open(out, "w") as file:
        for name, amount, make in ROWS:
            if only not in name:
                continue
            seconds = (issue if name.startswith("issue") else measure)(device, make())
            line = f"{name}\t{seconds * 1e6:.3f}\t{amount / seconds / 1e9:.1f}"
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()


main()
