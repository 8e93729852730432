//! Post-local SGD and averages of parameters.

use super::models::{load, sequential};
use super::{Calls, Done, EXACT, params, said, train};
use crate::distributed::ranks::tensor;
use crate::families::{File, text};
use flambeau_core::Tensor;
use serde_json::Value as J;
use torch::distributed::optim::{
    HierarchicalModelAverager, ModelAverager, PeriodicModelAverager, PostLocalSGDOptimizer,
};
use torch::distributed::{self as dist, NewGroupOptions};
use torch::nn::parallel::{DistributedDataParallel as Ddp, PostLocalSgdHook, PostLocalSgdOptions};
use torch::nn::{Call, Module};
use torch::optim::{Optimizer, SGDOptions};

pub(super) fn run(f: &File, case: &J, r: &J, rank: usize) -> Done {
    let n = |k: &str| case[k].as_i64().unwrap_or(0);
    let m = sequential(&case["model"])?;
    if text(case, "id").starts_with("hierarchical") {
        if !r["state"].is_null() {
            load(&m, &r["state"], |j| tensor(&f.store, j))?;
        }
        return hierarchical(f, case, r, rank, &m);
    }
    load(&m, &r["state"], |j| tensor(&f.store, j))?;
    let (sub, _) = dist::try_new_subgroups(n("subgroup_size"), NewGroupOptions::new()).map_err(said)?;
    // the record names the first subgroup by a number of its own job
    let d = Ddp::try_new(m, super::Options::new()).map_err(said)?;
    let o = PostLocalSgdOptions::new().subgroup(sub).start_local_sgd_iter(n("start_localSGD_iter"));
    d.register_comm_hook(PostLocalSgdHook::new(o));
    let averager = PeriodicModelAverager::try_new(n("period"), n("warmup_steps"), None).map_err(said)?;
    let inner = SGDOptions::new().lr(0.1).try_build(d.module.parameters()).map_err(said)?;
    let mut o = PostLocalSGDOptimizer::new(inner, averager);
    train(f, r, &mut Calls::here(), &d, &|d, x, _| d.try_call(x), EXACT, &mut o)?;
    let step = o.state_dict().get("step").and_then(torch::serialization::Tree::as_i64);
    if step == r["state_dict_step"].as_i64() { Ok(()) } else { Err(format!("step {step:?}")) }
}
fn hierarchical(f: &File, case: &J, r: &J, rank: usize, m: &torch::nn::Sequential) -> Done {
    // before the first call the parameters are those of the first average, less what they grew by
    let periods: Vec<(i64, i64)> = case["period_group_size"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| (p[0].as_i64().unwrap_or(1), p[1].as_i64().unwrap_or(1)))
        .collect();
    let warm = case["warmup_steps"].as_i64().unwrap_or(0);
    let mut a = HierarchicalModelAverager::try_new(&periods, warm, None).map_err(said)?;
    let all = m.parameters();
    let grow = 0.1 * (rank as f64 + 1.0);
    if r["state"].is_null() {
        let first = &r["params"][0];
        load(m, first, |j| tensor(&f.store, j))?;
        for p in &all {
            let t: Tensor = p.tensor().detach();
            t.sub_(grow);
        }
    }
    for p in &all {
        p.set_grad(Some(torch::zeros_like(p.tensor())));
    }
    for (k, want) in r["params"].as_array().into_iter().flatten().enumerate() {
        for p in &all {
            p.tensor().detach().add_(grow);
        }
        a.try_average_parameters(&all).map_err(said)?;
        params(m, want, f, super::Tol(4e-6, 2e-6)).map_err(|e| format!("call {k}: {e}"))?;
    }
    Ok(())
}
