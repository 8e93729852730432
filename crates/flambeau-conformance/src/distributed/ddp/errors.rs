//! What cannot be trained.

use super::models::{TwoHeads, sequential};
use super::{Done, Options};
use crate::distributed::shared::same_error;
use flambeau_core::{Error, Result};
use serde_json::{Value as J, json};
use std::time::Duration;
use torch::distributed::{self as dist, NewGroupOptions};
use torch::nn::parallel::{AllreduceHook, DistributedDataParallel as Ddp};
use torch::nn::{LazyLinear, Linear, Module};
use torch::prelude::*;

fn basic() -> std::result::Result<torch::nn::Sequential, String> {
    sequential(&json!([["Linear", 8, 16], ["ReLU"], ["Linear", 16, 4]]))
}
/// A group whose time is soon over.
fn own() -> std::result::Result<dist::ProcessGroup, String> {
    let o = NewGroupOptions::new().timeout(Duration::from_secs(4));
    dist::new_group_of_all(o).map_err(|e| format!("{e:?}"))
}
pub(super) fn run(id: &str, r: &J, rank: usize) -> Done {
    let name = id.trim_start_matches("error.").split(".w").next().unwrap_or("");
    let made: Result<()> = match name {
        "no_grad_params" => {
            let m = basic()?;
            for p in m.parameters() {
                p.tensor().requires_grad_(false);
            }
            Ddp::try_new(m, Options::new()).map(drop)
        }
        "shapes_differ" => {
            Ddp::try_new(Linear::new(4, 3 + rank as i64), Options::new().process_group(own()?)).map(drop)
        }
        "count_differs" => {
            let layers: Vec<J> = (0..=rank).map(|_| json!(["Linear", 4, 3])).collect();
            Ddp::try_new(sequential(&J::Array(layers))?, Options::new().process_group(own()?)).map(drop)
        }
        "lazy_parameters" => Ddp::try_new(LazyLinear::new(3), Options::new()).map(drop),
        "bad_hook" | "not_tensors" | "not_joinable" => {
            return Err(format!(
                "no runner of {name}: what it gives is none of the type's, and does not compile"
            ));
        }
        "unused_not_declared" => {
            let d = Ddp::new(TwoHeads::new(6, 8, 3));
            let x = torch::ones([2, 6]);
            let first = d.try_call((&x, 0i64)).map(|y| y.sum().backward());
            first.and_then(|()| d.try_call((&x, 0i64)).map(drop))
        }
        "hook_twice" => {
            let d = Ddp::new(basic()?);
            d.register_comm_hook(AllreduceHook::new());
            d.try_register_comm_hook(AllreduceHook::new())
        }
        "sync_batchnorm_cpu" => {
            let m = torch::nn::Sequential::new((Linear::new(8, 5), torch::nn::SyncBatchNorm::new(5)));
            Ddp::try_new(m, Options::new()).map(drop)
        }
        "empty" => dist::algorithms::Join::try_new(&[], dist::algorithms::JoinOptions::new()).map(drop),
        "averager" => {
            let warm = dist::optim::PeriodicModelAverager::try_new(2, -1, None).map(drop);
            compare(&warm, &r["warmup"])?;
            dist::optim::PeriodicModelAverager::try_new(0, 0, None).map(drop)
        }
        "no_params" => super::zero::sgd(Vec::new()).map(drop),
        "mixed_dtypes" => {
            let all = vec![torch::ones([2]), torch::ones([2]).to(flambeau_core::DType::F64)];
            super::zero::sgd(all.into_iter().map(torch::nn::Parameter::new).collect()).map(drop)
        }
        "state_dict_without_consolidate" => {
            super::zero::sgd(basic()?.parameters()).and_then(|z| z.state_dict().map(drop))
        }
        other => return Err(format!("no runner of {other}")),
    };
    if name == "shapes_differ" && rank == 0 {
        // the other rank is gone: which of the two notices first is left open
        let text = made.as_ref().err().map_or("no error", Error::message);
        let ended = text.contains("Timed out waiting") || text.contains("Connection closed by peer");
        return if ended { Ok(()) } else { Err(format!("{text} instead of {}", r["result"])) };
    }
    compare(&made, &r["result"])
}
fn compare(got: &std::result::Result<(), Error>, want: &J) -> Done {
    match (got, want.get("error")) {
        (Err(e), Some(w)) => same_error(e, w),
        (Ok(()), None) => Ok(()),
        (Err(e), None) => Err(format!("{e:?}")),
        (Ok(()), Some(w)) => Err(format!("no error instead of {w}")),
    }
}
