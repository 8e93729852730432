//! Recorded trainings on several ranks.

mod buckets;
mod errors;
mod hooks;
mod join;
mod localsgd;
mod models;
mod zero;

use super::ranks::{LIMIT, job, same_tensor, tensor};
use crate::families::{File, Outcome, text};
use flambeau_core::{DType, Error, Tensor};
use models::{SparseEmbed, TwoHeads, load, sequential};
use serde_json::{Value as J, json};
use torch::distributed as dist;
use torch::nn::parallel::{DistributedDataParallel as Ddp, DistributedDataParallelOptions as Options};
use torch::nn::{Call, Module};
use torch::optim::{AdamWOptions, Optimizer, SGDOptions};
use torch::prelude::*;

type Done = Result<(), String>;
fn said(e: Error) -> String {
    format!("{e:?}")
}

/// Runs a case.
pub fn run(f: &File, case: &J) -> Outcome {
    let id = text(case, "id");
    let size = f.json["world_size"].as_u64().unwrap_or(1) as usize;
    let name =
        text(&f.json, "job").rsplit('/').next().unwrap_or("").split('.').next().unwrap_or("").to_owned();
    let each = |r: usize| -> Done {
        let mine = if case["ranks"].is_array() { &case["ranks"][r] } else { case };
        match name.as_str() {
            "buckets" => buckets::run(id, mine),
            _ if id.starts_with("error.") => errors::run(id, mine, r),
            "hooks" => hooks::run(f, case, mine),
            "join" => join::run(f, case, mine, r),
            "localsgd" => localsgd::run(f, case, mine, r),
            "zero" => zero::run(f, case, mine),
            _ => training(f, case, mine, r),
        }
    };
    match job(size, &f.json["env"], LIMIT, each) {
        Ok(()) => Outcome::Passed,
        Err(e) if e.contains("no runner") => Outcome::Missing(e),
        Err(e) => Outcome::Failed(e),
    }
}

/// How far numbers may be apart: absolutely, and relative to what is wanted.
#[derive(Clone, Copy)]
struct Tol(f64, f64);
const EXACT: Tol = Tol(2e-6, 1.3e-6);
const DOUBLE: Tol = Tol(1e-12, 1e-10);

fn close(what: &str, got: &Tensor, want: &J, f: &File, tol: Tol) -> Done {
    let got = if got.is_sparse() { got.to_dense() } else { got.detach() };
    let w = match want.get("sparse_coo") {
        None => tensor(&f.store, want)?,
        Some(s) => {
            let size: Vec<i64> =
                want["size"].as_array().into_iter().flatten().filter_map(J::as_i64).collect();
            let (i, v) = (tensor(&f.store, &s["indices"])?, tensor(&f.store, &s["values"])?);
            torch::sparse_coo_tensor(&i, &v, size).to_dense()
        }
    };
    if got.dtype() != w.dtype() || got.sizes() != w.sizes() {
        return Err(format!(
            "{what}: {} {:?} instead of {} {:?}",
            got.dtype(),
            got.sizes(),
            w.dtype(),
            w.sizes()
        ));
    }
    if !got.dtype().is_floating() {
        return same_tensor(&got, want, &f.store).map_err(|e| format!("{what}: {e}"));
    }
    let tol = if got.dtype() == DType::F64 { DOUBLE } else { tol };
    let numbers = |t: &Tensor| t.to(DType::F64).to_vec::<f64>();
    for (a, b) in numbers(&got).into_iter().zip(numbers(&w)) {
        if !((a - b).abs() <= tol.0 + tol.1 * b.abs() || a.is_nan() && b.is_nan()) {
            return Err(format!("{what}: {a} instead of {b} (by {:e})", (a - b).abs()));
        }
    }
    Ok(())
}
/// All parameters' values or gradients, by name.
fn all_close(what: &str, want: &J, f: &File, tol: Tol, get: impl Fn(&str) -> Option<Tensor>) -> Done {
    for (n, w) in want.as_object().into_iter().flatten() {
        match (get(n), w.is_null()) {
            (None, true) => {}
            (Some(t), false) => close(&format!("{what} {n}"), &t, w, f, tol)?,
            (Some(_), true) => return Err(format!("{what} {n} is there and should not")),
            (None, false) => return Err(format!("{what} {n} is not there")),
        }
    }
    Ok(())
}
fn params(m: &dyn Module, want: &J, f: &File, tol: Tol) -> Done {
    let all = m.named_parameters();
    let find = |n: &str| all.iter().find(|p| p.0 == n).map(|p| p.1.tensor().detach());
    all_close("parameter", want, f, tol, find)
}
fn grads(m: &dyn Module, want: &J, f: &File, tol: Tol) -> Done {
    let all = m.named_parameters();
    let find = |n: &str| all.iter().find(|p| p.0 == n).and_then(|p| p.1.grad());
    all_close("gradient", want, f, tol, find)
}

/// The collectives that this rank has called since it looked last.
struct Calls(usize);
impl Calls {
    fn here() -> Calls {
        Calls(dist::World::current().recorded().len())
    }
    fn same(&mut self, want: &J) -> Done {
        let all = dist::World::current().recorded();
        let new = &all[self.0.min(all.len())..];
        self.0 = all.len();
        if want.is_null() {
            return Ok(());
        }
        let named = |d: &DType| match d {
            DType::F32 => "Float",
            DType::F64 => "Double",
            DType::F16 => "Half",
            DType::BF16 => "BFloat16",
            DType::I64 => "Long",
            DType::I32 => "Int",
            DType::U8 => "Byte",
            _ => "?",
        };
        let got: Vec<J> = new
            .iter()
            .map(|r| {
                let dtypes: Vec<&str> = r.dtypes.iter().map(named).collect();
                json!({"op": r.operation, "group": r.group, "sizes": r.sizes, "dtypes": dtypes, "out_sizes": r.out_sizes})
            })
            .collect();
        let want: Vec<J> = want.as_array().cloned().unwrap_or_default();
        for (i, (g, w)) in got.iter().zip(&want).enumerate() {
            if ["op", "group", "sizes", "dtypes", "out_sizes"].iter().any(|k| g[*k] != w[*k]) {
                return Err(format!("collective {i}: {g} instead of {w}"));
            }
        }
        if got.len() == want.len() {
            Ok(())
        } else {
            Err(format!("{} collectives instead of {}: {got:?}", got.len(), want.len()))
        }
    }
}

fn options(case: &J) -> Options {
    let d = &case["ddp"];
    let mut o = Options::new();
    let flag = |k: &str| d[k].as_bool();
    if let Some(b) = flag("gradient_as_bucket_view") {
        o = o.gradient_as_bucket_view(b);
    }
    if let Some(b) = flag("find_unused_parameters") {
        o = o.find_unused_parameters(b);
    }
    if let Some(b) = flag("static_graph") {
        o = o.static_graph(b);
    }
    if let Some(b) = flag("broadcast_buffers") {
        o = o.broadcast_buffers(b);
    }
    if let Some(b) = flag("init_sync") {
        o = o.init_sync(b);
    }
    if let Some(b) = flag("batched_grad_copy") {
        o = o.batched_grad_copy(b);
    }
    if let Some(x) = d["bucket_cap_mb"].as_f64() {
        o = o.bucket_cap_mb(x);
    }
    if let Some(l) = d["bucket_cap_mb_list"].as_array() {
        o = o.bucket_cap_mb_list(l.iter().filter_map(J::as_f64).collect::<Vec<_>>());
    }
    o
}
fn number_after(text: &str, name: &str) -> Option<f64> {
    text.split(name).nth(1)?.split_whitespace().next()?.trim_end_matches(')').parse().ok()
}
/// An optimizer by its description.
fn optimizer(words: &str, m: &dyn Module) -> Result<Box<dyn Optimizer>, String> {
    let lr = number_after(words, "lr ").unwrap_or(0.1);
    let all = m.parameters();
    Ok(if words.contains("AdamW") {
        Box::new(AdamWOptions::new().lr(lr).try_build(all).map_err(said)?)
    } else {
        let momentum = number_after(words, "momentum ").unwrap_or(0.0);
        Box::new(SGDOptions::new().lr(lr).momentum(momentum).try_build(all).map_err(said)?)
    })
}

fn training(f: &File, case: &J, r: &J, rank: usize) -> Done {
    let id = text(case, "id");
    let get = |j: &J| tensor(&f.store, j);
    let o = options(case);
    let words = text(case, "model").to_owned();
    if words.starts_with("TwoHeads") {
        let m = TwoHeads::new(6, 8, 3);
        load(&m, &r["local_state"], get)?;
        let plan = case["use"].clone();
        let head = move |k: usize| {
            if id.starts_with("find_unused_view") {
                (k % 2) as i64
            } else {
                match &plan {
                    J::Array(l) => l.get(k).and_then(J::as_i64).unwrap_or(0),
                    J::String(_) => (rank % 2) as i64,
                    _ => 0,
                }
            }
        };
        let mut calls = Calls::here();
        let d = Ddp::try_new(m, o).map_err(said)?;
        return steps(f, case, r, &mut calls, &d, &|d, x, k| d.try_call((x, head(k))), EXACT);
    }
    if words.starts_with("SparseEmbed") {
        let m = SparseEmbed::new(12, 4, 3);
        load(&m, &r["local_state"], get)?;
        let mut calls = Calls::here();
        let d = Ddp::try_new(m, o).map_err(said)?;
        return steps(f, case, r, &mut calls, &d, &|d, x, _| d.try_call(x), EXACT);
    }
    let desc = if words.contains("BatchNorm1d") {
        // the widths are those of the state
        let sizes = |n: &str| tensor(&f.store, &r["local_state"][n]).map(|t| t.sizes().to_vec());
        json!([
            ["Linear", sizes("0.weight")?[1], 5],
            ["BatchNorm1d", 5],
            ["ReLU"],
            ["Linear", 5, sizes("3.weight")?[0]]
        ])
    } else if words.contains("basic model") {
        let sizes = |n: &str| tensor(&f.store, &r["local_state"][n]).map(|t| t.sizes().to_vec());
        let (a, b) = (sizes("0.weight")?, sizes("2.weight")?);
        json!([["Linear", a[1], a[0]], ["ReLU"], ["Linear", b[1], b[0]]])
    } else {
        case["model"].clone()
    };
    let mut m = sequential(&desc)?;
    if words.contains("float64") {
        torch::nn::Module::double(&mut m);
    }
    load(&m, &r["local_state"], get)?;
    if words.contains("requires_grad=False") {
        for (n, p) in m.named_parameters() {
            if n.starts_with("0.") {
                p.tensor().requires_grad_(false);
            }
        }
    }
    let mut calls = Calls::here();
    let d = Ddp::try_new(m, o).map_err(said)?;
    steps(f, case, r, &mut calls, &d, &|d, x, _| d.try_call(x), EXACT)
}

type Forward<'a, M> = &'a dyn Fn(&Ddp<M>, &Tensor, usize) -> flambeau_core::Result<Tensor>;

/// Trains as recorded, and compares what can be seen.
fn steps<M: Module>(
    f: &File,
    case: &J,
    r: &J,
    calls: &mut Calls,
    d: &Ddp<M>,
    call: Forward<'_, M>,
    tol: Tol,
) -> Done {
    calls.same(&r["construct_comm"])?;
    let all = d.module.named_parameters();
    let find = |n: &str| {
        let p = all.iter().find(|p| p.0 == n).map(|p| p.1.tensor().detach());
        p.or_else(|| d.module.named_buffers().into_iter().find(|b| b.0 == n).map(|b| b.1.tensor().detach()))
    };
    all_close("state", &r["state"], f, EXACT, find)?;
    let mut o = optimizer(text(case, "optimizer"), &d.module)?;
    train(f, r, calls, d, call, tol, &mut *o)?;
    let l = d.logging_data();
    let flag = |b: bool| json!(i64::from(b));
    let mine = [
        ("world_size", json!(l.world_size)),
        ("backend_name", json!(l.backend_name)),
        ("bucket_cap_bytes", json!(l.bucket_cap_bytes)),
        ("bucket_sizes", json!(l.bucket_sizes)),
        ("rebuilt_bucket_sizes", json!(l.rebuilt_bucket_sizes)),
        ("has_rebuilt_buckets", flag(l.has_rebuilt_buckets)),
        ("broadcast_buffers", flag(l.broadcast_buffers)),
        ("find_unused_parameters", flag(l.find_unused_parameters)),
        ("gradient_as_bucket_view", flag(l.gradient_as_bucket_view)),
        ("num_parameter_tensors", json!(l.num_parameter_tensors)),
        ("total_parameter_size_bytes", json!(l.total_parameter_size_bytes)),
        ("dtypes", json!(l.dtypes)),
        ("unused_parameter_size", json!(l.unused_parameter_size)),
        ("num_buckets_reduced", json!(l.num_buckets_reduced)),
        ("module_name", json!(l.module_name)),
    ];
    for (k, v) in mine {
        match r["logging"].get(k) {
            Some(w) if *w != v => return Err(format!("logging {k}: {v} instead of {w}")),
            _ => {}
        }
    }
    Ok(())
}
/// The steps alone.
fn train<M: Module>(
    f: &File,
    r: &J,
    calls: &mut Calls,
    d: &Ddp<M>,
    call: Forward<'_, M>,
    tol: Tol,
    o: &mut dyn Optimizer,
) -> Done {
    for (k, s) in r["steps"].as_array().into_iter().flatten().enumerate() {
        let at = |e: String| format!("step {k}: {e}");
        let (x, y) = (tensor(&f.store, &s["x"])?, tensor(&f.store, &s["y"])?);
        let synced = s["synced"].as_bool();
        let run = || -> Result<Tensor, String> {
            let out = call(d, &x, k).map_err(said)?;
            let loss = torch::nn::functional::mse_loss(&out, &y);
            loss.try_backward(flambeau_core::BackwardOptions::new()).map_err(said)?;
            Ok(loss)
        };
        let loss = if synced == Some(false) { d.no_sync(run) } else { run() }.map_err(at)?;
        close("loss", &loss, &s["loss"], f, tol).map_err(at)?;
        grads(&d.module, &s["grads"], f, tol).map_err(at)?;
        // what an optimizer calls counts as the next step's
        calls.same(&s["comm"]).map_err(at)?;
        if synced != Some(false) {
            o.try_step().map_err(said).map_err(at)?;
            o.zero_grad();
        }
        params(&d.module, &s["params"], f, tol).map_err(at)?;
        let buffers = d.module.named_buffers();
        let find = |n: &str| buffers.iter().find(|b| b.0 == n).map(|b| b.1.tensor().detach());
        all_close("buffer", &s["buffers"], f, tol, find).map_err(at)?;
    }
    Ok(())
}
