//! Times operators on a device: the program behind `cargo xtask bench --device cuda`. Arguments: the device, a file for the
//! results, a part of the rows' names, and `own` for kernels of our own in the place of cuDNN's. Prints a line for each row: its name, microseconds of a call, and gigabytes or
//! thousands of millions of operations in a second. `pytorch_device.py` has the same rows.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};
use torch::nn::functional as F;
use torch::{DType, Device, Tensor};

/// What a call moves or computes.
#[derive(Clone, Copy)]
enum Amount {
    Bytes(i64),
    Operations(i64),
    Calls,
    /// The same, without what the device does.
    Issue,
}
use Amount::{Bytes, Calls, Issue, Operations};
type Body = Box<dyn Fn() -> Tensor>;

struct Bench {
    device: Device,
    rows: Vec<(String, Amount, Box<dyn Fn() -> Body>)>,
}
impl Bench {
    fn add(&mut self, name: &str, amount: Amount, make: impl Fn() -> Body + 'static) {
        self.rows.push((name.to_string(), amount, Box::new(make)));
    }
    /// Numbers between 0.5 and 1.5, on the device.
    fn numbers(&self, sizes: &[i64], dtype: DType) -> impl Fn() -> Tensor + Clone + 'static {
        let (device, sizes) = (self.device, sizes.to_vec());
        move || {
            let n: i64 = sizes.iter().product();
            let part = torch::rand(n.min(1 << 20)) + 0.5;
            let all = part.repeat([(n as u64).div_ceil(1 << 20) as i64]).narrow(0, 0, n);
            all.to(dtype).reshape(sizes.as_slice()).to(device)
        }
    }
}

const N: i64 = 1 << 26;

fn rows(b: &mut Bench) {
    let wide = [DType::F32, DType::BF16];
    for d in wide {
        let (size, of) = (d.size() as i64, if d == DType::F32 { "f32" } else { "bf16" });
        let flat = b.numbers(&[N], d);
        let square = b.numbers(&[8192, 8192], d);
        let line = b.numbers(&[8192], d);
        let column = b.numbers(&[8192, 1], d);
        let one = |b: &mut Bench, name: &str, f: fn(&Tensor) -> Tensor| {
            let make = flat.clone();
            b.add(&format!("{name}_{of}"), Bytes(2 * N * size), move || {
                let x = make();
                Box::new(move || f(&x))
            });
        };
        one(b, "neg", |x| -x);
        one(b, "mul_number", |x| x * 1.5);
        one(b, "exp", |x| x.exp());
        one(b, "gelu", F::gelu);
        one(b, "tanh", |x| x.tanh());
        let make = flat.clone();
        b.add(&format!("add_{of}"), Bytes(3 * N * size), move || {
            let (x, y) = (make(), make());
            Box::new(move || &x + &y)
        });
        for (name, other) in [("add_line", line), ("add_column", column)] {
            let make = square.clone();
            b.add(&format!("{name}_{of}"), Bytes(2 * N * size), move || {
                let (x, y) = (make(), other());
                Box::new(move || &x + &y)
            });
        }
        let make = square.clone();
        b.add(&format!("copy_of_transposed_{of}"), Bytes(2 * N * size), move || {
            let x = make();
            Box::new(move || x.transpose(0, 1).contiguous())
        });
        let make = flat.clone();
        b.add(&format!("cast_{of}"), Bytes(6 * N), move || {
            let x = make();
            let to = if x.dtype() == DType::F32 { DType::BF16 } else { DType::F32 };
            Box::new(move || x.to(to))
        });
        let reduced = |b: &mut Bench, name: &str, f: fn(&Tensor) -> Tensor| {
            let make = square.clone();
            b.add(&format!("{name}_{of}"), Bytes(N * size), move || {
                let x = make();
                Box::new(move || f(&x))
            });
        };
        reduced(b, "sum_all", |x| x.sum());
        reduced(b, "sum_rows", |x| x.sum_dim(1, false));
        reduced(b, "sum_columns", |x| x.sum_dim(0, false));
        reduced(b, "mean_all", |x| x.mean());
        reduced(b, "amax_rows", |x| x.amax(1, false));
        reduced(b, "argmax_all", |x| x.argmax());
        reduced(b, "argmax_rows", |x| x.argmax_dim(1, false));
        reduced(b, "var_rows", |x| x.var_dim(1, false));
        for n in [512, 4096, 32768] {
            let x = b.numbers(&[N / n, n], d);
            for (name, f) in [
                ("softmax", (|x| x.softmax(-1)) as fn(&Tensor) -> Tensor),
                ("log_softmax", |x| x.log_softmax(-1)),
                ("layer_norm", |x| F::layer_norm(x, &x.sizes()[1..], None, None)),
            ] {
                let make = x.clone();
                b.add(&format!("{name}_{n}_{of}"), Bytes(2 * N * size), move || {
                    let x = make();
                    Box::new(move || f(&x))
                });
            }
        }
        let rows = b.numbers(&[1 << 16, 1024], d);
        let device = b.device;
        b.add(&format!("index_select_{of}"), Bytes(2 * N * size), move || {
            let x = rows();
            let index = torch::randperm(1 << 16).to(device);
            Box::new(move || x.index_select(0, &index))
        });
    }
    for (d, of) in [(DType::F32, "f32"), (DType::BF16, "bf16"), (DType::F16, "f16"), (DType::F64, "f64")] {
        for n in [256, 1024, 4096] {
            let x = b.numbers(&[n, n], d);
            b.add(&format!("matmul_{n}_{of}"), Operations(2 * n * n * n), move || {
                let (x, y) = (x(), x());
                Box::new(move || x.matmul(&y))
            });
        }
        let x = b.numbers(&[64, 512, 512], d);
        b.add(&format!("bmm_{of}"), Operations(64 * 2 * 512 * 512 * 512), move || {
            let (x, y) = (x(), x());
            Box::new(move || x.bmm(&y))
        });
        let (x, w, bias) = (b.numbers(&[4096, 1024], d), b.numbers(&[4096, 1024], d), b.numbers(&[4096], d));
        b.add(&format!("linear_{of}"), Operations(2 * 4096 * 4096 * 1024), move || {
            let (x, w, bias) = (x(), w(), bias());
            Box::new(move || F::linear(&x, &w, Some(&bias)))
        });
    }
    for (d, of) in [(DType::F32, "f32"), (DType::BF16, "bf16")] {
        let x = b.numbers(&[8, 16, 2048, 64], d);
        let device = b.device;
        for (name, causal, masked) in
            [("attention", false, false), ("attention_causal", true, false), ("attention_mask", false, true)]
        {
            let x = x.clone();
            let all = 4 * 8 * 16 * 2048 * 2048 * 64;
            b.add(&format!("{name}_{of}"), Operations(if causal { all / 2 } else { all }), move || {
                let (q, k, v) = (x(), x(), x());
                let mut options = F::ScaledDotProductAttentionOptions::new().is_causal(causal);
                if masked {
                    options = options.attn_mask(&torch::rand([8, 1, 1, 2048]).gt(0.1).to(device));
                }
                Box::new(move || F::scaled_dot_product_attention_with(&q, &k, &v, options.clone()))
            });
        }
    }
    convolutions(b);
    let small = b.numbers(&[16], DType::F32);
    for (name, f) in [
        ("launch_add", (|x| x + x) as fn(&Tensor) -> Tensor),
        ("launch_mul_number", |x| x * 1.5),
        ("launch_sum", |x| x.sum()),
        ("launch_view", |x| x.view([4, 4])),
    ] {
        let make = small.clone();
        b.add(name, Calls, move || {
            let x = make();
            Box::new(move || f(&x))
        });
    }
    // parts of a launch: what a call costs the host, its result's memory alone, the call without that
    for (name, f) in [
        ("issue_add", (|x, _| x + x) as fn(&Tensor, &Tensor) -> Tensor),
        ("issue_empty", |x, _| torch::empty_like(x)),
        ("issue_add_in_place", |x, y| y.add_(x).clone()),
        ("issue_sum", |x, _| x.sum()),
    ] {
        let make = small.clone();
        b.add(name, Issue, move || {
            let (x, y) = (make(), make());
            Box::new(move || f(&x, &y))
        });
    }
}

/// Convolutions of ResNet-50 and one of each channel by itself, for 32 images: name, channels, results' channels, sides of images and
/// windows, stride, groups.
const CONVOLUTIONS: [(&str, i64, i64, i64, i64, i64, i64); 9] = [
    ("7x7_224", 3, 64, 224, 7, 2, 1),
    ("3x3_56", 64, 64, 56, 3, 1, 1),
    ("3x3_28", 128, 128, 28, 3, 1, 1),
    ("3x3_14", 256, 256, 14, 3, 1, 1),
    ("3x3_7", 512, 512, 7, 3, 1, 1),
    ("3x3_s2_56", 128, 128, 56, 3, 2, 1),
    ("1x1_56", 64, 256, 56, 1, 1, 1),
    ("1x1_14", 1024, 256, 14, 1, 1, 1),
    ("each_56", 144, 144, 56, 3, 1, 144),
];
/// Convolutions, these with both gradients, and a residual block with its gradients.
fn convolutions(b: &mut Bench) {
    for (d, of) in [(DType::F32, "f32"), (DType::BF16, "bf16"), (DType::F16, "f16")] {
        for (name, c, o, side, k, stride, groups) in CONVOLUTIONS {
            let (x, w) = (b.numbers(&[32, c, side, side], d), b.numbers(&[o, c / groups, k, k], d));
            let options = F::Conv2dOptions::new().stride(stride).padding(k / 2).groups(groups);
            let places = (side / stride) * (side / stride);
            let all = 2 * 32 * o * places * (c / groups) * k * k;
            let (x2, w2, options2) = (x.clone(), w.clone(), options.clone());
            b.add(&format!("conv_{name}_{of}"), Operations(all), move || {
                let (x, w, options) = (x(), w(), options.clone());
                Box::new(move || F::conv2d_with(&x, &w, options.clone()))
            });
            b.add(&format!("conv_grads_{name}_{of}"), Operations(3 * all), move || {
                let (x, w, options) =
                    (x2().requires_grad_(true), w2().requires_grad_(true), options2.clone());
                let g = torch::ones_like(&torch::no_grad(|| F::conv2d_with(&x, &w, options.clone())));
                Box::new(move || {
                    torch::enable_grad(|| {
                        let y = F::conv2d_with(&x, &w, options.clone());
                        grads(&y, &[&x, &w], &g)
                    })
                })
            });
        }
        let (x, w, line) =
            (b.numbers(&[32, 64, 56, 56], d), b.numbers(&[64, 64, 3, 3], d), b.numbers(&[64], d));
        b.add(&format!("block_grads_{of}"), Calls, move || {
            let x = x().requires_grad_(true);
            let (v, w) = (w().requires_grad_(true), w().requires_grad_(true));
            let (scale, shift) = (line().requires_grad_(true), line().requires_grad_(true));
            let g = torch::ones_like(&x);
            let conv = F::Conv2dOptions::new().padding(1);
            let norm = F::BatchNormOptions::new().training(true);
            Box::new(move || {
                torch::enable_grad(|| {
                    let norm = |t: &Tensor| {
                        F::batch_norm_with(t, None, None, norm.clone().weight(&scale).bias(&shift))
                    };
                    let y = F::relu(&norm(&F::conv2d_with(&x, &v, conv.clone())));
                    let y = F::relu(&(norm(&F::conv2d_with(&y, &w, conv.clone())) + &x));
                    grads(&y, &[&x, &v, &w, &scale, &shift], &g)
                })
            })
        });
    }
}
/// Finds gradients; the first of them.
fn grads(y: &Tensor, of: &[&Tensor], g: &Tensor) -> Tensor {
    let of: Vec<Tensor> = of.iter().map(|t| (*t).clone()).collect();
    let options = torch::autograd::GradOptions::new().grad_outputs([Some(g.clone())]);
    let mut all = torch::autograd::grad_with(y, of, options);
    all.swap_remove(0).unwrap_or_else(|| g.clone())
}

fn wait(device: Device) {
    if device != Device::Cpu {
        torch::cuda::synchronize();
    }
}
/// The best of several runs of many calls, in seconds a call.
fn time(device: Device, body: &Body) -> f64 {
    let run = |n: u32| {
        let start = Instant::now();
        for _ in 0..n {
            std::hint::black_box(body());
        }
        wait(device);
        start.elapsed()
    };
    run(2);
    let once = run(3).max(Duration::from_micros(3)) / 3;
    let n = (Duration::from_millis(30).as_nanos() / once.as_nanos().max(1)).clamp(1, 5000) as u32;
    (0..5).map(|_| run(n).as_secs_f64() / f64::from(n)).fold(f64::INFINITY, f64::min)
}

/// The best of several runs of as many calls as a device queues without a wait, in seconds a call.
fn issue(device: Device, body: &Body) -> f64 {
    let run = || {
        wait(device);
        let start = Instant::now();
        for _ in 0..400 {
            std::hint::black_box(body());
        }
        start.elapsed().as_secs_f64() / 400.0
    };
    (0..40).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(device), Some(out)) = (args.next(), args.next()) else {
        eprintln!("usage: flambeau-bench-device DEVICE FILE [TEXT [own]]");
        return ExitCode::from(2);
    };
    let only = args.next().unwrap_or_default();
    torch::backends::cudnn::set_enabled(args.next().as_deref() != Some("own"));
    let device = Device::parse(&device).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(2)
    });
    let mut b = Bench { device, rows: Vec::new() };
    rows(&mut b);
    let mut text = String::new();
    for (name, amount, make) in b.rows.iter().filter(|r| r.0.contains(&only)) {
        let seconds = torch::no_grad(|| match amount {
            Issue => issue(device, &make()),
            _ => time(device, &make()),
        });
        let rate = match amount {
            Bytes(n) | Operations(n) => *n as f64 / seconds / 1e9,
            Calls | Issue => 0.0,
        };
        let line = format!("{name}\t{:.3}\t{rate:.1}", seconds * 1e6);
        println!("{line}");
        text += &format!("{line}\n");
        if let Err(e) = std::fs::write(&out, &text) {
            eprintln!("{out}: {e}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
