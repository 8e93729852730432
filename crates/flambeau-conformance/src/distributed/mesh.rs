//! Grids of processes, of the recorded jobs with tensors that are spread over them.

use super::ranks::{LIMIT, job};
use super::shared::same_error;
use crate::families::{File, Outcome, text};
use flambeau_core::Result;
use serde_json::{Value as J, json};
use torch::distributed as dist;
use torch::distributed::device_mesh::{
    DeviceMesh, MeshDim, MeshOptions, init_device_mesh, try_init_device_mesh,
};

/// Runs a case; those of other things are counted as not implemented.
pub fn run(f: &File, case: &J) -> Outcome {
    let id = text(case, "id");
    if !id.starts_with("mesh.") {
        return Outcome::Missing("a runner of dtensor".into());
    }
    let size = f.json["world_size"].as_u64().unwrap_or(1) as usize;
    let name = id.trim_start_matches("mesh.").rsplit_once(".w").map_or("", |n| n.0);
    match job(size, &f.json["env"], LIMIT, |r| one(name, &case["ranks"][r], size as i64)) {
        Ok(()) => Outcome::Passed,
        Err(e) if e.contains("no runner") => Outcome::Missing(e),
        Err(e) => Outcome::Failed(e),
    }
}
fn names(l: &[&str]) -> MeshOptions {
    MeshOptions::new().mesh_dim_names(l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
}
/// The ranks as nested lists.
fn nested(m: &DeviceMesh) -> J {
    match m.shape() {
        [_] => json!(m.mesh()),
        [_, n] => json!(m.mesh().chunks(*n as usize).collect::<Vec<_>>()),
        _ => J::Null,
    }
}
fn sub(m: &DeviceMesh, dims: &[&str]) -> Result<J> {
    let s = m.slice(dims)?;
    let group = if s.ndim() == 1 { json!(s.try_get_group(None)?.ranks()) } else { J::Null };
    Ok(
        json!({"repr": s.to_string(), "ranks": nested(&s), "coordinate": s.get_coordinate(), "names": dims, "group_ranks": group}),
    )
}
fn fields(got: &J, want: &J) -> std::result::Result<(), String> {
    for (k, w) in want.as_object().into_iter().flatten() {
        let g = &got[k];
        if w.get("returns").is_some() || w.get("error").is_some() {
            ended(serde_json::from_value(g.clone()).unwrap_or(J::Null), w)
                .map_err(|e| format!("{k}: {e}"))?;
        } else if g != w {
            return Err(format!("{k}: {g} instead of {w}"));
        }
    }
    Ok(())
}
/// A value that was reached by way of a result.
fn ended(got: J, want: &J) -> std::result::Result<(), String> {
    match (got.get("failed"), want.get("error")) {
        (Some(text), Some(w))
            if text["message"].as_str().is_some_and(|t| t.contains(w["message"].as_str().unwrap_or("?"))) =>
        {
            Ok(())
        }
        (None, None) => {
            if got == want["returns"] {
                Ok(())
            } else {
                Err(format!("{got} instead of {}", want["returns"]))
            }
        }
        _ => Err(format!("{got} instead of {want}")),
    }
}
fn of(r: Result<J>) -> J {
    r.unwrap_or_else(|e| json!({"failed": {"message": e.message()}}))
}
fn one(name: &str, r: &J, n: i64) -> std::result::Result<(), String> {
    let all: Vec<i64> = (0..n).collect();
    let got: Result<J> = match name {
        "1d" => {
            let m = init_device_mesh("cpu", &[n]);
            let g = m.try_get_group(None).map_err(|e| format!("{e:?}"))?;
            let got = json!({
                "repr": m.to_string(), "ndim": m.ndim(), "size": m.size(), "shape": m.shape(), "mesh": m.mesh(),
                "coordinate": m.get_coordinate(), "local_rank": g.rank(), "rank": dist::get_rank(),
                "device_type": m.device_type(), "group_ranks": g.ranks(),
            });
            return fields(&got, r);
        }
        "2d" => {
            let m = try_init_device_mesh("cpu", &[2, n / 2], names(&["dp", "tp"]))
                .map_err(|e| format!("{e:?}"))?;
            let groups: Vec<Vec<i64>> = m
                .get_all_groups()
                .map_err(|e| format!("{e:?}"))?
                .iter()
                .map(|g| g.ranks().to_vec())
                .collect();
            let local = |d: MeshDim| of(m.get_local_rank(Some(d)).map(|r| json!(r)));
            let got = json!({
                "repr": m.to_string(), "coordinate": m.get_coordinate(), "groups": groups,
                "local_rank_dp": local("dp".into()), "local_rank_tp": local(1.into()),
                "dp": of(sub(&m, &["dp"])), "tp": of(sub(&m, &["tp"])),
                "both": of(sub(&m, &["dp", "tp"])), "reversed": of(sub(&m, &["tp", "dp"])),
            });
            return fields(&got, r);
        }
        "subset" => DeviceMesh::try_new("cpu", &all[..all.len() - 1], &[n - 1], None)
            .map(|m| json!({"coordinate": m.get_coordinate(), "size": m.size()})),
        "error.size" => try_init_device_mesh("cpu", &[n + 1], MeshOptions::new()).map(|_| J::Null),
        "error.names" => try_init_device_mesh("cpu", &[n], names(&["a", "b"])).map(|_| J::Null),
        "error.duplicate_names" => try_init_device_mesh("cpu", &[n, 1], names(&["a", "a"])).map(|_| J::Null),
        "error.device_index" => try_init_device_mesh("cpu:0", &[n], MeshOptions::new()).map(|_| J::Null),
        "error.duplicate_ranks" => {
            DeviceMesh::try_new("cpu", &vec![0; n as usize], &[n], None).map(|m| json!(m.to_string()))
        }
        "error.no_such_name" => {
            try_init_device_mesh("cpu", &[n], names(&["dp"])).and_then(|m| m.slice(&["tp"])).map(|_| J::Null)
        }
        "error.unnamed_slice" => try_init_device_mesh("cpu", &[n], MeshOptions::new())
            .and_then(|m| m.slice(&["dp"]))
            .map(|_| J::Null),
        "from_group" => {
            // pairs where there are four
            let g = if n == 4 {
                dist::try_new_subgroups(2, dist::NewGroupOptions::new()).map(|s| s.0)
            } else {
                dist::try_default_group()
            };
            g.map(|g| json!({"repr": DeviceMesh::from_group(&g, "cpu").to_string()}))
        }
        "flatten" => try_init_device_mesh("cpu", &[2, n / 2], names(&["dp", "tp"]))
            .and_then(|m| m.flatten(Some("all")))
            .and_then(|m| {
                Ok(json!({"repr": m.to_string(), "ranks": m.mesh(), "rank": m.try_get_group(None)?.rank()}))
            }),
        "get_group_no_dim" => try_init_device_mesh("cpu", &[2, n / 2], MeshOptions::new())
            .and_then(|m| m.try_get_group(None))
            .map(|_| J::Null),
        "transposed" => DeviceMesh::try_new("cpu", &[0, 2, 1, 3], &[2, 2], None).and_then(|m| {
            let groups: Vec<Vec<i64>> = m.get_all_groups()?.iter().map(|g| g.ranks().to_vec()).collect();
            Ok(json!({"coordinate": m.get_coordinate(), "groups": groups}))
        }),
        other => return Err(format!("no runner of the mesh {other}")),
    };
    match (got, r["result"].get("error")) {
        (Err(e), Some(w)) => same_error(&e, w),
        (Ok(j), None) if j == r["result"]["returns"] => Ok(()),
        (other, _) => Err(format!("{other:?} instead of {}", r["result"])),
    }
}
