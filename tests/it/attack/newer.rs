//! Hostile uses of what a program hands to the library to be called later or elsewhere: communication hooks, module hooks, plans,
//! exported modules, averages, checkpoints, arrays and images of other crates.

use super::parts::{Call as Case, ends, fails, is};
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use torch::distributed::run_in_threads;
use torch::export::{self, Dim, ExportOptions};
use torch::futures::Future;
use torch::fx::{self, PlannedInterpreter};
use torch::interop::{ToImage, ToNdarray, ToTensor};
use torch::library::Value;
use torch::nn::parallel::{
    AllreduceHook, CompressHook, CompressWrapper, DistributedDataParallel, DistributedDataParallelOptions,
    GradBucket, PowerSgdHook, PowerSgdOptions, QuantizationHook,
};
use torch::nn::{HookHandle, StateDict};
use torch::optim::swa_utils::AveragedModelOptions;
use torch::options::BackwardOptions;
use torch::prelude::*;
use torch::utils::checkpoint::{CheckpointOptions, checkpoint, checkpoint_sequential, checkpoint_with};
use torch::{DType, Device, Tensor, nn, ops};

/// A tensor of another kind than what is wanted, by number.
fn other(which: usize, t: &Tensor) -> torch::Result<Tensor> {
    Ok(match which {
        0 => torch::zeros(0),
        1 => torch::zeros(()),
        2 => ops::unsqueeze(t, 0)?,
        3 => t.try_to(DType::F64)?,
        4 => t.try_to(DType::I64)?,
        5 => t.try_to(Device::Meta)?,
        6 => torch::tensor(1.0).expand(t.sizes()),
        7 => t.to_sparse(),
        8 => torch::tensor(1.0).expand([1i64 << 40]),
        9 => t.try_to(DType::C64)?,
        10 => ops::narrow(&ops::reshape(t, &[-1])?, 0, 0, t.numel() - 1)?,
        11 => torch::cat([t, t], 0),
        _ => t.clone(),
    })
}
const KINDS: usize = 12;

/// A step of two ranks whose gradients go by a hook; errors and panics of `backward`'s short form are the ranks' own.
fn step_by(
    options: &DistributedDataParallelOptions,
    hook: impl Fn(usize) -> Option<Box<dyn torch::nn::parallel::CommHook>> + Sync,
) {
    let _ = run_in_threads(2, |rank| {
        let model = DistributedDataParallel::try_new(nn::Linear::new(3, 2), options.clone());
        let Ok(model) = model else { return };
        if let Some(h) = hook(rank)
            && model.try_register_comm_hook(h).is_err()
        {
            return;
        }
        for _ in 0..2 {
            let Ok(y) = model.try_call(&torch::ones([2, 3])) else { return };
            if y.sum().try_backward(BackwardOptions::new()).is_err() {
                return;
            }
        }
    });
}
fn net() -> nn::Sequential {
    nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new(), nn::Linear::new(3, 1)))
}
fn traced(model: &nn::Sequential) -> fx::GraphModule {
    fx::symbolic_trace(model, |x: &[Tensor]| model.call(&x[0]), &[&torch::ones([2, 2])])
}

const CALLS: &[Case] = &[
    // ranks
    ("ddp: hooks that give something else", || {
        for which in 0..KINDS {
            step_by(&DistributedDataParallelOptions::new(), |_| {
                let hook = move |b: &GradBucket| Ok(Future::ready(other(which, b.buffer())?));
                Some(Box::new(hook))
            });
        }
        None
    }),
    ("ddp: hooks that fail, on both ranks and later", || {
        let calls = AtomicUsize::new(0);
        step_by(&DistributedDataParallelOptions::new(), |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            Some(Box::new(|_: &GradBucket| Err(torch::Error::runtime("no network today"))))
        });
        step_by(&DistributedDataParallelOptions::new(), |_| {
            let hook = |_: &GradBucket| -> torch::Result<Future<Tensor>> {
                let f = Future::new();
                f.set_exception(torch::Error::runtime("later"))?;
                Ok(f)
            };
            Some(Box::new(hook))
        });
        is(calls.into_inner() == 2, "the hook was not asked for")
    }),
    ("ddp: buckets out of this world", || {
        for mb in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300, f64::MIN_POSITIVE] {
            step_by(&DistributedDataParallelOptions::new().bucket_cap_mb(mb), |_| None);
            step_by(&DistributedDataParallelOptions::new().bucket_cap_mb_list(vec![mb, mb]), |_| None);
            step_by(&DistributedDataParallelOptions::new().bucket_cap_mb_list(Vec::<f64>::new()), |_| None);
        }
        None
    }),
    ("ddp: hooks of numbers out of this world", || {
        for n in [i64::MIN, -1, 0, 1, 7, i64::MAX] {
            let plain = DistributedDataParallelOptions::new();
            step_by(&plain, |_| Some(Box::new(QuantizationHook::per_channel(n))));
            for start in [i64::MIN, 0, 2, i64::MAX] {
                let o = PowerSgdOptions::new().matrix_approximation_rank(n).start_power_sgd_iter(start);
                step_by(&plain, |_| match PowerSgdHook::try_new(o.clone().min_compression_rate(0.0)) {
                    Ok(h) => Some(Box::new(h)),
                    Err(_) => None,
                });
            }
        }
        step_by(&DistributedDataParallelOptions::new(), |_| {
            Some(Box::new(CompressWrapper::fp16(CompressWrapper::bf16(CompressHook::fp16()))))
        });
        None
    }),
    ("ddp: gradients of the last step, kept and changed", || {
        let kept = Mutex::new(Vec::new());
        step_by(&DistributedDataParallelOptions::new().gradient_as_bucket_view(true), |_| {
            let all = AllreduceHook::new();
            Some(Box::new(move |b: &GradBucket| {
                let _ = b.buffer().clone().try_resize_(&[0], None);
                torch::nn::parallel::CommHook::run(&all, b)
            }))
        });
        kept.lock().map(|mut k: std::sync::MutexGuard<'_, Vec<Tensor>>| k.clear()).ok();
        None
    }),
    // hooks
    ("hooks: one that takes itself out, and others", || {
        let model = net();
        let all: Arc<Mutex<Vec<HookHandle>>> = Arc::default();
        for _ in 0..3 {
            let mine = all.clone();
            let h = model.register_forward_hook(move |_, _, _| {
                let gone = std::mem::take(&mut *mine.lock().unwrap_or_else(|e| e.into_inner()));
                gone.into_iter().for_each(|h| h.remove());
                None
            });
            all.lock().unwrap_or_else(|e| e.into_inner()).push(h);
        }
        let y = model.try_call(&torch::ones([1, 2]));
        is(y.is_ok() && model.try_call(&torch::ones([1, 2])).is_ok(), "no result")
    }),
    ("hooks: what one holds calls the module when it is dropped", || {
        struct Calls(Arc<nn::Sequential>);
        impl Drop for Calls {
            fn drop(&mut self) {
                let _ = self.0.try_call(&torch::ones([1, 2]));
                let _ = self.0.state_dict();
                self.0.register_forward_hook(|_, _, _| None).remove();
            }
        }
        let model = Arc::new(net());
        let held = Calls(model.clone());
        let h = model.register_forward_hook(move |_, _, _| {
            let _ = &held;
            None
        });
        let held = Calls(model.clone());
        let s = model.register_state_dict_post_hook(move |_, _, _| {
            let _ = &held;
        });
        h.remove();
        s.remove();
        is(model.try_call(&torch::ones([1, 2])).is_ok(), "no result")
    }),
    ("hooks: other numbers and kinds of outputs", || {
        for which in 0..KINDS {
            for many in [0, 1, 3] {
                let model = net();
                let first = model.modules()[1];
                first.register_forward_hook(move |_, _, out| {
                    (0..many).map(|_| other(which, &out[0])).collect::<torch::Result<Vec<_>>>().ok()
                });
                model.register_forward_pre_hook(move |_, x| {
                    (0..many).map(|_| other(which, &x[0])).collect::<torch::Result<Vec<_>>>().ok()
                });
                if let Ok(y) = model.try_call(&torch::ones([2, 2]).requires_grad_(true))
                    && y.numel() < 1 << 20
                {
                    let _ = y.sum().try_backward(BackwardOptions::new());
                }
            }
        }
        None
    }),
    ("hooks: gradients of modules that are none", || {
        for which in 0..KINDS {
            let model = net();
            let of = move |g: &[Option<Tensor>]| {
                Some(g.iter().map(|g| g.as_ref().and_then(|g| other(which, g).ok())).collect::<Vec<_>>())
            };
            model.register_full_backward_hook(move |_, inputs, _| of(inputs));
            model.modules()[2].register_full_backward_pre_hook(move |_, outputs| {
                of(outputs).map(|mut all| {
                    all.extend(vec![None; which % 3]);
                    all
                })
            });
            if let Ok(y) = model.try_call(&torch::ones([2, 2]).requires_grad_(true)) {
                let _ = y.sum().try_backward(BackwardOptions::new());
            }
        }
        None
    }),
    ("hooks: states within states", || {
        let model = Arc::new(net());
        let inner = model.clone();
        let once = AtomicBool::new(false);
        model.register_load_state_dict_pre_hook(move |_, state, _, _| {
            if !once.swap(true, Ordering::Relaxed) {
                let _ = inner.load_state_dict(&inner.state_dict());
            }
            state.insert("0.weight", torch::zeros([7]));
            state.remove("2.bias");
        });
        model.register_state_dict_post_hook(|_, state, _| {
            state.insert("", torch::zeros(1));
            state.insert("a..b.", torch::zeros(1));
        });
        let _ = model.load_state_dict(&model.state_dict());
        fails(model.load_state_dict(&StateDict::default())).or(ends(model.state_dict()))
    }),
    ("hooks: a panic leaves no state", || {
        let model = net();
        let h = model.register_forward_hook(|_, _, _| panic!("of the program"));
        let _ = catch_unwind(AssertUnwindSafe(|| model.try_call(&torch::ones([1, 2]))));
        let _ = catch_unwind(AssertUnwindSafe(|| torch::no_grad(|| model.call(&torch::ones([1, 2])))));
        h.remove();
        is(torch::is_grad_enabled() && model.try_call(&torch::ones([1, 2])).is_ok(), "state is left")
    }),
    // graphs
    ("plans: inputs of every other kind, and many threads", || {
        let model = net();
        let x = torch::ones([2, 2]);
        let plan = PlannedInterpreter::new(traced(&model));
        let want = plan.run(&[(&x).into()]);
        for which in 0..KINDS {
            if let Ok(t) = other(which, &x) {
                let _ = plan.run(&[t.into()]);
            }
        }
        for values in [vec![], vec![Value::None], vec![Value::Int(1)], vec![Value::List(vec![])]] {
            if plan.run(&values).is_ok() {
                return Some(format!("{values:?} is accepted"));
            }
        }
        // what is too much is left over, as in PyTorch
        let _ = plan.run(&vec![(&x).into(); 3]);
        std::thread::scope(|s| {
            for rows in 1..9 {
                let plan = &plan;
                s.spawn(move || (0..20).for_each(|_| drop(plan.run(&[torch::ones([rows, 2]).into()]))));
            }
        });
        is(want.is_ok() && plan.run(&[(&x).into()]).is_ok(), "no result")
    }),
    ("plans: results that are written while the next run goes", || {
        let model = net();
        let plan = PlannedInterpreter::new(traced(&model));
        let x = torch::ones([2, 2]);
        let first = plan.run(&[(&x).into()]).ok()?.into_tensor().ok()?.clone();
        let _ = ops::copy_(&first.detach(), &torch::full([2, 1], 7.0), false);
        let _ = plan.run(&[first.detach().expand([2, 2]).into()]);
        is(first.detach().eq(7.0).all().item::<bool>(), "a result changed")
    }),
    ("export: sizes that cannot be", || {
        let model = net();
        let x = torch::ones([2, 2]);
        let call = |x: &[Tensor]| model.try_call(&x[0]);
        let with = |input: &str, at: usize, d: Dim| {
            let o = ExportOptions::new().names(&["x"]).dynamic(input, [(at, d)]);
            export::try_export_with(&model, call, &[&x], o)
        };
        let ends_at = [i64::MIN, -1, 0, 1, 2, i64::MAX];
        for low in ends_at {
            for high in ends_at {
                let _ = with("x", 0, Dim::new("n").min(low).max(high)).map(|p| {
                    let _ = p.to_string();
                    p.module().map(|m| m.try_forward(&[&torch::ones([5, 2])]))
                });
            }
        }
        fails(with("y", 0, Dim::new("n")))
            .or(fails(with("x", 9, Dim::new("n"))))
            .or(fails(with("x", usize::MAX, Dim::new("n"))))
            .or(ends(with("x", 0, Dim::new(""))))
            .or(ends(with("x", 0, Dim::new("1 + x"))))
    }),
    ("export: programs that misbehave", || {
        let model = net();
        let x = torch::ones([2, 2]);
        let panics = |_: &[Tensor]| -> torch::Result<Tensor> { panic!("of the program") };
        let reads = |x: &[Tensor]| Ok(torch::tensor(x[0].sum().try_item::<f32>()?));
        let nothing = |_: &[Tensor]| -> torch::Result<Vec<Value>> { Ok(vec![]) };
        let _ = catch_unwind(AssertUnwindSafe(|| export::try_export(&model, panics, &[&x]).is_ok()));
        fails(export::try_export(&model, reads, &[&x]))
            .or(ends(export::try_export(&model, |_: &[Tensor]| Ok(torch::ones([1])), &[])))
            .or(ends(export::try_export(&model, |v: &[Tensor]| nothing(v).map(Value::List), &[&x])))
            .or(is(model.try_call(&x).is_ok(), "the thread is spoilt"))
    }),
    ("export: a module called with anything", || {
        let model = net();
        let program =
            export::try_export(&model, |x: &[Tensor]| model.try_call(&x[0]), &[&torch::ones([2, 2])]).ok()?;
        let module = program.module().ok()?;
        for which in 0..KINDS {
            if let Ok(t) = other(which, &torch::ones([2, 2])) {
                let _ = module.try_forward(&[&t]);
                let _ = module.run(&[t.clone().into(), t.into()], &[]);
            }
        }
        let deep = (0..10_000).fold(Value::None, |v, _| Value::List(vec![v]));
        fails(module.run(&[], &[])).or(fails(module.run(&[deep], &[])))
    }),
    // what is called later
    ("averages that give something else", || {
        for which in 0..KINDS {
            let model = net();
            let mean = move |a: &Tensor, _: &Tensor, _: i64| other(which, a);
            if let Ok(average) = AveragedModelOptions::new().avg_fn(Arc::new(mean)).try_build(&model) {
                for _ in 0..2 {
                    let _ = average.try_update_parameters(&model);
                }
                let _ = average.try_update_parameters(&nn::Linear::new(1, 1));
                let _ = average.module.try_call(&torch::ones([1, 2]));
            }
        }
        None
    }),
    ("checkpoints: another function the second time", || {
        for which in 0..KINDS {
            let x = torch::ones([2, 2]).requires_grad_(true).clone();
            let calls = AtomicUsize::new(0);
            let body = move |v: &[Tensor]| {
                let y = ops::exp(&v[0])?;
                Ok(vec![if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                    ops::mul(&y, &y)?
                } else {
                    other(which, &y)?
                }])
            };
            for check in [true, false] {
                let _ = check;
                if let Ok(y) = checkpoint_with(
                    |v: &[Tensor]| Ok(vec![ops::exp(&v[0])?]),
                    [&x],
                    CheckpointOptions::new().determinism_check(check),
                ) {
                    let _ = y[0].sum().try_backward(BackwardOptions::new());
                }
            }
            if let Ok(y) = checkpoint(body, [&x]) {
                let _ = y[0].sum().try_backward(BackwardOptions::new());
            }
        }
        None
    }),
    ("checkpoints: panics, nests and segments", || {
        let x = torch::ones([2]).requires_grad_(true).clone();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let y = checkpoint(
            move |v: &[Tensor]| {
                if counted.fetch_add(1, Ordering::Relaxed) > 0 {
                    panic!("of the program");
                }
                Ok(vec![ops::exp(&v[0])?])
            },
            [&x],
        );
        if let Ok(y) = y {
            let _ = catch_unwind(AssertUnwindSafe(|| y[0].sum().try_backward(BackwardOptions::new())));
        }
        fn nested(levels: usize, x: &Tensor) -> torch::Result<Vec<Tensor>> {
            if levels == 0 {
                return Ok(vec![ops::sin(x)?]);
            }
            checkpoint(move |v: &[Tensor]| nested(levels - 1, &v[0]), [x])
        }
        if let Ok(y) = nested(40, &x) {
            let _ = y[0].sum().try_backward(BackwardOptions::new());
        }
        let step: torch::utils::checkpoint::Step = Arc::new(|x: &Tensor| ops::sin(x));
        let steps = vec![step; 3];
        fails(checkpoint_sequential(&steps, 0, &x))
            .or(fails(checkpoint_sequential(&steps, usize::MAX, &x)))
            .or(ends(checkpoint_sequential(&[], 1, &x)))
            .or(is((&x * 2.0).sum().try_backward(BackwardOptions::new()).is_ok(), "the thread is spoilt"))
    }),
    // other crates' arrays
    ("arrays and images of anything", || {
        let image = image::DynamicImage::new_luma8(0, u32::MAX);
        let _ = image.try_to_tensor();
        for which in 0..KINDS {
            if let Ok(t) = other(which, &torch::ones([2, 2])) {
                let _ = t.try_to_image();
                let _ = t.try_to_ndarray::<f32>();
                let _ = ops::unsqueeze(&t, 0).map(|t| t.try_to_image().is_ok());
            }
        }
        let huge = torch::zeros([0, 3]).expand([0, 3]).reshape([3, 0, 1i64 << 40]);
        let one = ndarray::arr0(1u8);
        let wide = one.broadcast((1usize << 20, 1usize << 20, 1usize << 10));
        ends(huge.try_to_image()).or(match wide {
            Some(w) => fails(w.try_to_tensor()),
            None => None,
        })
    }),
];

#[test]
fn what_is_called_later_survives_misuse() {
    Calls { test: here!(), count: CALLS.len(), name: &|i| CALLS[i].0.into(), run: &|i| (CALLS[i].1)() }
        .judge();
}
