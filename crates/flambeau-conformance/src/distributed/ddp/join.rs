//! Trainings with uneven inputs.

use super::models::{load, sequential};
use super::{Calls, Done, EXACT, close, optimizer, options, params, said};
use crate::distributed::ranks::{same_tensor, tensor};
use crate::distributed::shared::same_error;
use crate::families::{File, text};
use flambeau_core::Result;
use serde_json::{Value as J, json};
use std::sync::{Arc, Mutex};
use torch::Tensor;
use torch::distributed::algorithms::{Join, JoinHandle, JoinHook, JoinOptions, Joinable};
use torch::distributed::optim::{ZeroRedundancyOptimizer, ZeroRedundancyOptions};
use torch::distributed::{self as dist, CollectiveOptions, ProcessGroup, ReduceOptions};
use torch::nn::parallel::DistributedDataParallel as Ddp;
use torch::nn::{Call, Module};
use torch::optim::SGDOptions;

pub(super) fn run(f: &File, case: &J, r: &J, rank: usize) -> Done {
    let id = text(case, "id");
    if id == "custom_joinable" {
        return counter(f, case, r, rank);
    }
    let m = sequential(&case["model"])?;
    load(&m, &r["state"], |j| tensor(&f.store, j))?;
    let d = Ddp::try_new(m, options(case)).map_err(said)?;
    let o = JoinOptions::new()
        .enable(id != "disabled")
        .throw_on_early_termination(id == "early_termination")
        .divide_by_initial_world_size(!id.ends_with("divisor_false"));
    let mut bad = None;
    let mut zero = None;
    let mut plain = None;
    if id.ends_with("zero") {
        let z = ZeroRedundancyOptimizer::try_new(
            d.module.parameters(),
            SGDOptions::new().lr(0.1),
            ZeroRedundancyOptions::new(),
        );
        zero = Some(z.map_err(said)?);
    } else {
        plain = Some(optimizer(text(case, "optimizer"), &d.module)?);
    }
    let joined = match &zero {
        Some(z) => Join::try_new(&[&d, z], o),
        None => Join::try_new(&[&d], o),
    };
    let ended: Result<()> = joined.and_then(|j| {
        j.try_run(|| {
            for (k, s) in r["steps"].as_array().into_iter().flatten().enumerate() {
                let (Ok(x), Ok(y)) = (tensor(&f.store, &s["x"]), tensor(&f.store, &s["y"])) else { continue };
                // at the beginning: a rank that is done keeps its last gradients, and ZeRO steps with them
                match (&mut zero, &mut plain) {
                    (Some(z), _) => z.zero_grad(),
                    (None, Some(o)) => o.zero_grad(),
                    _ => {}
                }
                let out = d.try_call(&x)?;
                let loss = torch::nn::functional::mse_loss(&out, &y);
                loss.try_backward(flambeau_core::BackwardOptions::new())?;
                if let Err(e) = close("loss", &loss, &s["loss"], f, EXACT) {
                    bad.get_or_insert(format!("step {k}: {e}"));
                }
                match (&mut zero, &mut plain) {
                    (Some(z), _) => z.try_step()?,
                    (None, Some(o)) => o.try_step()?,
                    _ => {}
                }
                if let Err(e) = params(&d.module, &s["params"], f, EXACT) {
                    bad.get_or_insert(format!("step {k}: {e}"));
                }
            }
            // where the others end with an error, this rank has one input more than the record
            if id == "early_termination" && rank != 0 {
                d.try_call(&torch::ones([1, 8])).map(drop)?;
            }
            Ok(())
        })
    });
    if let Some(b) = bad {
        return Err(b);
    }
    match (&ended, r["result"].get("error")) {
        (Ok(()), None) => {}
        (Err(e), Some(w)) => same_error(e, w)?,
        other => return Err(format!("{other:?}")),
    }
    let _ = Calls::here();
    params(&d.module, &r["final"], f, EXACT)
}

/// Counts the inputs of all ranks.
struct Counter {
    count: Tensor,
    most: Arc<Mutex<(Tensor, i64)>>,
    handle: JoinHandle,
}
struct CounterHook {
    most: Arc<Mutex<(Tensor, i64)>>,
    count: Tensor,
}
impl JoinHook for CounterHook {
    fn main_hook(&mut self) -> Result<()> {
        dist::try_all_reduce(&torch::zeros([1]), ReduceOptions::new()).map(drop)
    }
    fn post_hook(&mut self, is_last_joiner: bool) -> Result<()> {
        let rank = if is_last_joiner { dist::get_rank() } else { -1 };
        let t = torch::full([1], rank as f64).to(flambeau_core::DType::I64);
        dist::try_all_reduce(&t, ReduceOptions::new().op(dist::ReduceOp::Max))?;
        let from = t.item::<i64>();
        let most = self.count.detach().copy();
        dist::try_broadcast(&most, from, CollectiveOptions::new())?;
        *self.most.lock().unwrap_or_else(|e| e.into_inner()) = (most, from);
        Ok(())
    }
}
impl Joinable for Counter {
    fn join_hook(&self, _: &JoinOptions) -> Box<dyn JoinHook> {
        Box::new(CounterHook { most: self.most.clone(), count: self.count.clone() })
    }
    fn join_process_group(&self) -> ProcessGroup {
        dist::default_group()
    }
    fn join_handle(&self) -> &JoinHandle {
        &self.handle
    }
}
fn counter(f: &File, case: &J, r: &J, rank: usize) -> Done {
    let c = Counter {
        count: torch::zeros([1]),
        most: Arc::new(Mutex::new((torch::zeros([1]), -1))),
        handle: JoinHandle::default(),
    };
    let n = case["inputs_per_rank"][rank].as_i64().unwrap_or(0);
    let done = Join::try_new(&[&c], JoinOptions::new()).and_then(|j| {
        j.try_run(|| {
            for _ in 0..n {
                Join::notify_join_context(&c)?;
                let t = torch::ones([1]);
                dist::try_all_reduce(&t, ReduceOptions::new())?;
                c.count.add_(&t);
            }
            Ok(())
        })
    });
    done.map_err(said)?;
    same_tensor(&c.count, &r["count"], &f.store)?;
    let most = c.most.lock().unwrap_or_else(|e| e.into_inner());
    same_tensor(&most.0, &r["max_count"], &f.store)?;
    if json!(most.1) == r["last_joiner"] { Ok(()) } else { Err(format!("last joiner {}", most.1)) }
}
