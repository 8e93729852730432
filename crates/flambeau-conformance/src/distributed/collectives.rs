//! Collectives: each case is a job, each rank of it a thread.

use super::ranks::{self, LIMIT, content, job, same_tensor, step, tensor};
use crate::families::{File, Outcome, text};
use flambeau_core::Error;
use serde_json::{Value as J, json};
use torch::distributed as dist;
use torch::distributed::{NewGroupOptions, ProcessGroup, ReduceOptions};

/// Runs a case.
pub fn run(f: &File, case: &J) -> Outcome {
    let size = f.json["world_size"].as_u64().unwrap_or(1) as usize;
    let id = text(case, "id");
    let done = if id.starts_with("queries.") {
        job(size, &json!({"LOCAL_RANK": "7"}), LIMIT, |r| queries(id, case, &case["ranks"][r], r, f))
    } else if id.starts_with("all_reduce.strided") {
        job(size, &f.json["env"], LIMIT, |r| strided(case, r, f))
    } else {
        job(size, &f.json["env"], LIMIT, |r| plain(case, r, f))
    };
    match done {
        Ok(()) => Outcome::Passed,
        Err(e) => Outcome::Failed(e),
    }
}
fn plain(case: &J, rank: usize, f: &File) -> Result<(), String> {
    let groups = ranks::groups(case)?;
    let r = &case["ranks"][rank];
    if r["ops"].is_array() {
        return ranks::batch(r, &f.store);
    }
    for s in r["steps"].as_array().into_iter().flatten() {
        step(s, &f.store, &groups, rank)?;
    }
    // who leaves takes its connections along, and others may still wait for anybody
    if text(case, "id").contains("any_source") {
        dist::try_barrier(dist::CollectiveOptions::new()).map_err(|e: Error| format!("{e:?}"))?;
    }
    Ok(())
}
/// PyTorch reduces the memory behind the first element; here what counts are the elements.
fn strided(case: &J, rank: usize, f: &File) -> Result<(), String> {
    for s in case["ranks"][rank]["steps"].as_array().into_iter().flatten() {
        let t = tensor(&f.store, &s["args"][0])?;
        let plain = crate::store::tensor_of_bytes(t.dtype(), t.sizes(), &content(&t)?)?;
        let said = |e: Error| format!("{e:?}");
        dist::try_all_reduce(&t, ReduceOptions::new()).map_err(said)?;
        dist::try_all_reduce(&plain, ReduceOptions::new()).map_err(said)?;
        if content(&t)? != content(&plain)? {
            return Err(format!("{t} instead of {plain}"));
        }
    }
    Ok(())
}

fn expect(what: &str, got: J, want: &J) -> Result<(), String> {
    if got == *want { Ok(()) } else { Err(format!("{what}: {got} instead of {want}")) }
}
fn queries(id: &str, case: &J, r: &J, rank: usize, f: &File) -> Result<(), String> {
    let said = |e: Error| format!("{e:?}");
    let all = |o: NewGroupOptions| dist::new_group_of_all(o).map_err(said);
    let group = |r: &[i64]| dist::try_new_group(r, NewGroupOptions::new()).map_err(said);
    let size = dist::get_world_size();
    // groups come in this order in the record, and their numbers are their names
    let last = size - 1;
    let first = f.list("cases").iter().find(|c| text(c, "id").starts_with("queries.groups"));
    let sub: Vec<i64> = first
        .and_then(|c| c["ranks"][0]["groups"]["sub"]["ranks"].as_array().cloned())
        .into_iter()
        .flatten()
        .filter_map(|r| r.as_i64())
        .collect();
    let named: Vec<(&str, ProcessGroup)> =
        vec![("sub", group(&sub)?), ("one", group(&[last])?), ("all", all(NewGroupOptions::new())?)];
    if id.starts_with("queries.groups") {
        expect("rank", json!(dist::get_rank()), &r["rank"])?;
        expect("world_size", json!(size), &r["world_size"])?;
        expect("backend", json!(dist::get_backend()), &r["backend"])?;
        expect("is_initialized", json!(dist::is_initialized()), &r["is_initialized"])?;
        expect("backend_config", json!(dist::get_backend_config()), &r["backend_config"])?;
        expect("pg_count", json!(dist::get_pg_count()), &r["pg_count"])?;
        expect("node_local_rank", json!(dist::get_node_local_rank(Some(7))), &r["node_local_rank"])?;
        for (name, g) in &named {
            let w = &r["groups"][*name];
            expect("member", json!(g.is_member()), &w["member"])?;
            expect("rank", json!(g.rank()), &w["rank"])?;
            expect("world_size", json!(g.size()), &w["world_size"])?;
            if g.is_member() {
                expect("ranks", json!(dist::get_process_group_ranks(g)), &w["process_group_ranks"])?;
                expect("group_rank", json!(dist::get_group_rank(g, rank as i64)), &w["group_rank"])?;
                expect("global_rank", json!(dist::get_global_rank(g, 0)), &w["global_rank_of_0"])?;
                expect("name", json!(g.group_name()), &w["name"])?;
                expect("desc", json!(g.group_desc()), &w["desc"])?;
            }
        }
        return Ok(());
    }
    let back: Vec<i64> = (0..size).rev().collect();
    let reversed = group(&back)?;
    if id.starts_with("queries.new_group_reversed") {
        expect("ranks", json!(reversed.ranks()), &r["ranks"])?;
        expect("rank", json!(reversed.rank()), &r["rank"])?;
        return expect("name", json!(reversed.group_name()), &r["name"]);
    }
    let reduced = |g: &ProcessGroup| -> Result<torch::Tensor, String> {
        let t = torch::full([2], (rank + 1) as f64);
        let t = t.to(torch::DType::F32);
        dist::try_all_reduce(&t, ReduceOptions::new().group(g)).map_err(said)?;
        Ok(t)
    };
    if id.starts_with("queries.new_subgroups_too_large") {
        return match dist::try_new_subgroups(size + 1, NewGroupOptions::new()) {
            Err(e) => expect("error", json!(e.message()), &r["error"]),
            Ok(_) => Err("no error".into()),
        };
    }
    if size == 4 {
        let (mine, subs) = dist::try_new_subgroups(2, NewGroupOptions::new()).map_err(said)?;
        if id.starts_with("queries.new_subgroups.") {
            expect("mine", json!(mine.ranks()), &r["mine"])?;
            expect("count", json!(subs.len()), &r["count"])?;
            return same_tensor(&reduced(&mine)?, &r["result"], &f.store);
        }
        let (mine, _) =
            dist::try_new_subgroups_by_enumeration(&[vec![0, 3], vec![1, 2]], NewGroupOptions::new())
                .map_err(said)?;
        if id.starts_with("queries.new_subgroups_by_enumeration") {
            expect("mine", json!(mine.ranks()), &r["mine"])?;
            return same_tensor(&reduced(&mine)?, &r["result"], &f.store);
        }
    }
    if id.starts_with("queries.local_synchronization") {
        let o = NewGroupOptions::new().use_local_synchronization(true).group_desc("pair".to_owned());
        if rank < 2 {
            let g = dist::try_new_group(&[0, 1], o).map_err(said)?;
            expect("name", json!(g.group_name()), &r["name"])?;
            expect("desc", json!(g.group_desc()), &r["desc"])?;
            let t = torch::full([2], rank as f64).to(torch::DType::F32);
            dist::try_all_reduce(&t, ReduceOptions::new().group(&g)).map_err(said)?;
            return same_tensor(&t, &r["result"], &f.store);
        }
        return Ok(());
    }
    Err(format!("an unknown question {} {case}", id))
}
