//! `DistributedSampler`: the indices of every rank and epoch.

use super::{Found, ended, same};
use crate::families::text;
use serde_json::{Value as J, json};
use torch::utils::data::{self, DistributedSamplerOptions};

/// Runs a case; none where its calls are not known here.
pub fn run(case: &J) -> Option<Found> {
    match text(case, "id") {
        "error.rank" => {
            let made = DistributedSamplerOptions::new(4, 2, 2).try_build();
            return Some(same(&ended(made.map(|_| J::Null)), &case["result"]));
        }
        // needs the default group of torch.distributed
        "error.no_group" => return None,
        _ => {}
    }
    let a = &case["args"];
    let count = |key: &str| a[key].as_u64().unwrap_or(0) as usize;
    let (n, ranks) = (count("length"), count("num_replicas"));
    let epochs: Vec<u64> = case["epochs"].as_array()?.iter().filter_map(J::as_u64).collect();
    let rank = |r| {
        let sampler = DistributedSamplerOptions::new(n, ranks, r)
            .shuffle(a["shuffle"] == true)
            .drop_last(a["drop_last"] == true)
            .seed(a["seed"].as_u64().unwrap_or(0))
            .build();
        let epoch = |e: &u64| {
            sampler.set_epoch(*e);
            json!({"returns": sampler.iter().collect::<Vec<usize>>()})
        };
        let all: Vec<J> = epochs.iter().map(epoch).collect();
        json!({"length": data::Sampler::length(&sampler), "epochs": all})
    };
    let got: Vec<J> = (0..ranks).map(rank).collect();
    Some(same(&json!(got), &case["ranks_"]))
}
