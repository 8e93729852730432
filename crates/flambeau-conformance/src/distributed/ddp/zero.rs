//! Optimizers whose state is spread over the ranks.

use super::models::{load, sequential};
use super::{Calls, Done, EXACT, Options, close, grads, params, said};
use crate::distributed::ranks::tensor;
use crate::families::{File, text};
use flambeau_core::Result;
use serde_json::{Value as J, json};
use torch::distributed::optim::{ZeroRedundancyOptimizer, ZeroRedundancyOptions};
use torch::nn::parallel::DistributedDataParallel as Ddp;
use torch::nn::{Call, Module, Parameter};
use torch::optim::{AdamOptions, AdamWOptions, Algorithm, SGDOptions};
use torch::serialization::Tree;

pub(super) fn sgd(params: Vec<Parameter>) -> Result<ZeroRedundancyOptimizer<SGDOptions>> {
    ZeroRedundancyOptimizer::try_new(params, SGDOptions::new().lr(0.1), ZeroRedundancyOptions::new())
}
pub(super) fn run(f: &File, case: &J, r: &J) -> Done {
    let o = &case["options"];
    let lr = o["lr"].as_f64().unwrap_or(0.1);
    match text(case, "optimizer") {
        "SGD" => {
            let momentum = o["momentum"].as_f64().unwrap_or(0.0);
            with(f, case, r, |lr| SGDOptions::new().lr(lr).momentum(momentum), lr)
        }
        "Adam" => with(f, case, r, |lr| AdamOptions::new().lr(lr), lr),
        "AdamW" => {
            let decay = o["weight_decay"].as_f64().unwrap_or(0.01);
            with(f, case, r, |lr| AdamWOptions::new().lr(lr).weight_decay(decay), lr)
        }
        other => Err(format!("no runner of the optimizer {other}")),
    }
}
fn with<A: Algorithm>(f: &File, case: &J, r: &J, options: impl Fn(f64) -> A, lr: f64) -> Done {
    let m = sequential(&case["model"])?;
    load(&m, &r["state"], |j| tensor(&f.store, j))?;
    let d = Ddp::try_new(m, Options::new()).map_err(said)?;
    let zero = ZeroRedundancyOptions::new()
        .parameters_as_bucket_view(case["parameters_as_bucket_view"] == J::Bool(true));
    let all = d.module.named_parameters();
    let find = |n: &str| all.iter().find(|p| p.0 == n).map(|p| p.1.clone());
    // the groups are those of the record: their learning rates too
    let groups = r["param_groups"].as_array().cloned().unwrap_or_default();
    let mut members: Vec<Vec<Parameter>> = vec![Vec::new(); groups.len()];
    for (n, p) in &all {
        let has = |g: usize| {
            r["partition"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|l| l[g].as_array().into_iter().flatten().any(|x| x.as_str() == Some(n)))
        };
        if let Some(g) = (0..groups.len()).find(|g| has(*g)) {
            members[g].push(p.clone());
        }
    }
    let list =
        members.into_iter().zip(&groups).map(|(l, g)| (l, options(g["lr"].as_f64().unwrap_or(lr)))).collect();
    let mut z = ZeroRedundancyOptimizer::try_with_groups(list, options(lr), zero).map_err(said)?;
    let name = |p: &Parameter| all.iter().find(|x| x.1.tensor().id() == p.tensor().id()).map(|x| x.0.clone());
    let parts: Vec<Vec<Vec<Option<String>>>> =
        z.partition().iter().map(|r| r.iter().map(|g| g.iter().map(name).collect()).collect()).collect();
    // the record has ranks outside
    let got = json!(parts);
    if got != r["partition"] {
        return Err(format!("partition {got} instead of {}", r["partition"]));
    }
    let mut calls = Calls::here();
    for (k, s) in r["steps"].as_array().into_iter().flatten().enumerate() {
        let at = |e: String| format!("step {k}: {e}");
        let (x, y) = (tensor(&f.store, &s["x"])?, tensor(&f.store, &s["y"])?);
        let loss = torch::nn::functional::mse_loss(&d.try_call(&x).map_err(said)?, &y);
        loss.try_backward(flambeau_core::BackwardOptions::new()).map_err(said)?;
        close("loss", &loss, &s["loss"], f, EXACT).map_err(at)?;
        grads(&d.module, &s["grads"], f, EXACT).map_err(at)?;
        calls.same(&s["comm"]).map_err(at)?;
        z.try_step().map_err(said).map_err(at)?;
        z.zero_grad();
        params(&d.module, &s["params"], f, EXACT).map_err(at)?;
    }
    z.consolidate_state_dict(0).map_err(said)?;
    if let Some(want) = r["consolidated_state"]["returns"].as_object() {
        let dict = z.state_dict().map_err(said)?;
        let state = dict.get("state").and_then(Tree::entries).unwrap_or_default();
        for (i, w) in want {
            let mine = state.iter().find(|(k, _)| k.as_i64() == i.parse().ok()).map(|e| &e.1);
            let Some(mine) = mine else { return Err(format!("no state of parameter {i}")) };
            for (n, w) in w.as_object().into_iter().flatten() {
                match mine.get(n) {
                    Some(Tree::Tensor(t)) => close(&format!("state {i} {n}"), t, w, f, EXACT)?,
                    other => return Err(format!("state {i} {n}: {other:?}")),
                }
            }
        }
    }
    let _ = find;
    Ok(())
}
