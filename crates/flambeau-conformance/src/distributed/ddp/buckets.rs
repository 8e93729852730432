//! Which parameters travel together: a function of their sizes.

use super::{Done, said};
use flambeau_core::DType;
use flambeau_distributed::internal::{assign_buckets, bucket_limits};
use serde_json::{Value as J, json};
use std::sync::{Arc, Mutex};
use torch::futures::Future;
use torch::nn::parallel::{
    DistributedDataParallel as Ddp, DistributedDataParallelOptions as Options, GradBucket,
};
use torch::nn::{Layer, LinearOptions, Sequential};
use torch::prelude::*;

fn ints(j: &J) -> Vec<i64> {
    j.as_array().into_iter().flatten().filter_map(J::as_i64).collect()
}
pub(super) fn run(id: &str, r: &J) -> Done {
    if id.starts_with("hook_view") {
        return hook_view(r);
    }
    if id.starts_with("limits") {
        let mut o = Options::new()
            .static_graph(r["static_graph"] == J::Bool(true))
            .find_unused_parameters(r["find_unused_parameters"] == J::Bool(true));
        if let Some(x) = r["bucket_cap_mb"].as_f64() {
            o = o.bucket_cap_mb(x);
        }
        if let Some(l) = r["bucket_cap_mb_list"].as_array() {
            o = o.bucket_cap_mb_list(l.iter().filter_map(J::as_f64).collect::<Vec<_>>());
        }
        let (first, all) = bucket_limits(&o);
        let same = json!(first) == r["limits"][0]
            && all.last().map(|l| json!(l)) == Some(r["bucket_bytes_cap"].clone());
        return if same { Ok(()) } else { Err(format!("{first:?} {all:?} instead of {r}")) };
    }
    let mut items = Vec::new();
    for (i, s) in r["shapes"].as_array().into_iter().flatten().enumerate() {
        let dtype = DType::from_name(r["dtypes"][i].as_str().unwrap_or("")).ok_or("a dtype")?;
        let n: i64 = ints(s).iter().product();
        items.push((n as usize * dtype.size(), dtype, r["sparse"][i] == J::Bool(true)));
    }
    let limits: Vec<usize> = ints(&r["limits"]).into_iter().map(|l| l as usize).collect();
    let got = assign_buckets(&items, &limits);
    let (members, bounds): (Vec<_>, Vec<_>) = got.into_iter().unzip();
    let got = json!([members, bounds]);
    let want = &r["result"]["returns"];
    if got == *want { Ok(()) } else { Err(format!("{got} instead of {want}")) }
}
/// What a hook sees of nine layers.
fn hook_view(r: &J) -> Done {
    let layers: Vec<Box<dyn Layer>> = (0..9)
        .map(|i| Box::new(LinearOptions::new(1000, 1000).bias(i % 2 == 0).build()) as Box<dyn Layer>)
        .collect();
    let d = Ddp::new(Sequential::new(layers));
    let seen: Arc<Mutex<Vec<J>>> = Arc::default();
    let mine = seen.clone();
    d.register_comm_hook(move |b: &GradBucket| {
        let shapes: Vec<Vec<i64>> = b.parameters().iter().map(|p| p.sizes().to_vec()).collect();
        let one = json!({"index": b.index(), "numel": b.buffer().numel(), "is_last": b.is_last(), "shapes": shapes});
        mine.lock().unwrap_or_else(|e| e.into_inner()).push(one);
        Ok(Future::ready(b.buffer().clone()))
    });
    for (k, want) in r["steps"].as_array().into_iter().flatten().enumerate() {
        seen.lock().unwrap_or_else(|e| e.into_inner()).clear();
        let out = d.try_call(&torch::ones([1, 1000])).map_err(said)?;
        out.sum().backward();
        let got = J::Array(seen.lock().unwrap_or_else(|e| e.into_inner()).clone());
        if got != *want {
            return Err(format!("step {k}: {got} instead of {want}"));
        }
    }
    Ok(())
}
