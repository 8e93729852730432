//! Trainings with communication hooks.

use super::models::{load, sequential};
use super::{Calls, Done, EXACT, Tol, close, optimizer, options, said, train};
use crate::distributed::ranks::tensor;
use crate::families::{File, text};
use flambeau_core::{Result, Tensor};
use serde_json::{Value as J, json};
use std::sync::{Arc, Mutex};
use torch::distributed::{self as dist, ReduceOptions};
use torch::futures::Future;
use torch::nn::Call;
use torch::nn::parallel::{
    AllreduceHook, BuiltinCommHookType, CommHook, CompressHook, CompressWrapper,
    DistributedDataParallel as Ddp, GradBucket, NoopHook, PowerSgdHook, PowerSgdOptions, QuantizationHook,
};

const F16: Tol = Tol(2e-4, 1e-3);
const BF16: Tol = Tol(1e-3, 1.6e-2);
const COARSE: Tol = Tol(1e-4, 1e-3);

/// The options in words: `PowerSGDState(None, {'matrix_approximation_rank': 1, ..})`.
fn power(note: &str) -> PowerSgdOptions {
    let find = |name: &str| -> Option<String> {
        let at = note.find(name)? + name.len();
        let rest = note[at..].trim_start_matches(['\'', ':', '=', ' ']);
        Some(rest.split([',', '}', ')']).next()?.trim().to_owned())
    };
    let number = |name: &str| find(name).and_then(|t| t.parse::<f64>().ok());
    let flag = |name: &str, or: bool| find(name).map_or(or, |t| t == "True");
    PowerSgdOptions::new()
        .matrix_approximation_rank(number("matrix_approximation_rank").unwrap_or(1.0) as i64)
        .start_power_sgd_iter(number("start_powerSGD_iter").unwrap_or(2.0) as i64)
        .min_compression_rate(number("min_compression_rate").unwrap_or(2.0))
        .orthogonalization_epsilon(number("orthogonalization_epsilon").unwrap_or(0.0))
        .use_error_feedback(flag("use_error_feedback", true))
        .warm_start(flag("warm_start", true))
        .batch_tensors_with_same_shape(flag("batch_tensors_with_same_shape", false))
}
fn double(b: &GradBucket) -> Result<Future<Tensor>> {
    let work = dist::try_all_reduce(b.buffer(), ReduceOptions::new().async_op(true))?;
    Ok(work.get_future().then(|f| Ok(&f.wait()?[0] * 2.0)))
}
type Seen = Arc<Mutex<Vec<(usize, bool, Tensor, Vec<Tensor>, Vec<Vec<i64>>)>>>;
fn spy(seen: &Seen) -> impl CommHook + use<> {
    let seen = seen.clone();
    move |b: &GradBucket| {
        let whole = b.buffer().detach().copy();
        let each = b.gradients()?.iter().map(|g| g.detach().copy()).collect();
        let shapes = b.parameters().iter().map(|p| p.sizes().to_vec()).collect();
        seen.lock().unwrap_or_else(|e| e.into_inner()).push((b.index(), b.is_last(), whole, each, shapes));
        AllreduceHook::new().run(b)
    }
}

pub(super) fn run(f: &File, case: &J, r: &J) -> Done {
    let (id, note) = (text(case, "id"), text(case, "note"));
    let m = sequential(&case["model"])?;
    load(&m, &r["state"], |j| tensor(&f.store, j))?;
    let d = Ddp::try_new(m, options(case)).map_err(said)?;
    let seen = Seen::default();
    let mut tol = EXACT;
    if id.contains("fp16") {
        tol = F16;
    }
    if id.contains("bf16") {
        tol = BF16;
    }
    if id.contains("power") || id.contains("quantization") {
        tol = Tol(tol.0.max(COARSE.0), tol.1.max(COARSE.1));
    }
    match id {
        "allreduce_hook" => d.register_comm_hook(AllreduceHook::new()),
        "fp16_compress_hook" | "small_buckets_fp16" => d.register_comm_hook(CompressHook::fp16()),
        "bf16_compress_hook" => d.register_comm_hook(CompressHook::bf16()),
        "builtin_allreduce" => {
            d.register_builtin_comm_hook(BuiltinCommHookType::Allreduce).map_err(said)?;
        }
        "builtin_fp16" => {
            d.register_builtin_comm_hook(BuiltinCommHookType::Fp16Compress).map_err(said)?;
        }
        "noop_hook" => d.register_comm_hook(NoopHook),
        "fp16_wrapper_powersgd" => {
            d.register_comm_hook(CompressWrapper::fp16(PowerSgdHook::new(power(note))));
        }
        "bf16_wrapper_allreduce" => d.register_comm_hook(CompressWrapper::bf16(AllreduceHook::new())),
        "quantization_pertensor" => d.register_comm_hook(QuantizationHook::per_tensor()),
        "quantization_perchannel" => d.register_comm_hook(QuantizationHook::per_channel(512)),
        "custom_double_sum" => d.register_comm_hook(double),
        "bucket_view" => d.register_comm_hook(spy(&seen)),
        "batched_powersgd" => return Err("no runner of a hook that fails in PyTorch's own code".into()),
        _ if id.starts_with("powersgd") => d.register_comm_hook(PowerSgdHook::new(power(note))),
        other => return Err(format!("no runner of the hook {other}")),
    }
    let mut o = optimizer(text(case, "optimizer"), &d.module)?;
    train(f, r, &mut Calls::here(), &d, &|d, x, _| d.try_call(x), tol, &mut *o)?;
    let seen = seen.lock().unwrap_or_else(|e| e.into_inner());
    for (i, w) in r["buckets"].as_array().into_iter().flatten().enumerate() {
        let Some((index, last, whole, each, shapes)) = seen.get(i) else {
            return Err(format!("no bucket {i}"));
        };
        if json!(index) != w["index"] || json!(last) != w["is_last"] || json!(shapes) != w["parameter_shapes"]
        {
            return Err(format!("bucket {i}: {index} {last} {shapes:?} instead of {w}"));
        }
        close("bucket", whole, &w["buffer"], f, EXACT)?;
        for (g, w) in each.iter().zip(w["gradients"].as_array().into_iter().flatten()) {
            close("bucket's gradient", g, w, f, EXACT)?;
        }
    }
    Ok(())
}
