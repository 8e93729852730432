//! Operations in which all ranks of a group take part.

mod checks;
mod gathers;
mod objects;
mod point;
mod reductions;
mod sparse;
mod synchronise;

pub use gathers::*;
pub use objects::*;
pub use point::*;
pub(crate) use reductions::all_reduce_where_it_lies;
pub use reductions::*;
pub(crate) use synchronise::monitored;
pub use synchronise::*;

use crate::backend::CollectiveBackend;
use crate::calls::{Status, What};
use crate::group::{Engine, ProcessGroup};
use crate::work::Work;
use crate::world::World;
use flambeau_core::{Error, Result, Tensor, bail};

/// Keywords that all collectives have.
#[flambeau_macros::options]
pub struct CollectiveOptions {
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether it only begins: then a program waits for its [`Work`]. Default: false.
    #[default(false)]
    pub(crate) async_op: bool,
}

/// The group that is meant.
fn group_of(g: &Option<ProcessGroup>) -> Result<ProcessGroup> {
    match g {
        Some(g) => Ok(g.clone()),
        None => World::current().default_group(),
    }
}
/// Notes a call and runs it with the group's engine for the tensor's device, which may be the program's own; without a tensor, with the only
/// one. A call of a group that this process is not in does nothing.
fn with(
    g: &ProcessGroup,
    what: What,
    (tensor, async_op): (Option<&Tensor>, bool),
    own: impl FnOnce(&dyn CollectiveBackend) -> Result<Work>,
    f: impl FnOnce(&Engine, &Status) -> Result<Work>,
) -> Result<Work> {
    if !g.is_member() {
        return Ok(Work::ended(Vec::new()));
    }
    let status = g.begin(what.clone());
    let device = tensor.map(Tensor::device);
    let r = match (device.map_or_else(|| g.only_own(), |d| g.own(d.kind())), g.engine()) {
        (Some(b), _) => own(&**b).and_then(|w| waited(w, async_op)),
        (None, Some(e)) => {
            let same = e.detail.as_ref().map_or(Ok(()), |d| d.check(&what));
            same.and_then(|()| f(e, &status))
        }
        (None, None) => {
            let kind = device.map_or("cpu", |d| d.kind());
            Err(Error::runtime(format!("No backend type associated with device type {kind}")))
        }
    };
    noted(&status, r)
}
/// Says of a call that it is over, or that it has failed.
fn noted(status: &Status, r: Result<Work>) -> Result<Work> {
    match &r {
        Ok(w) if w.is_over() => status.end(true),
        Err(_) => status.end(false),
        Ok(_) => {}
    }
    r
}
/// What a program's own engine has begun is over where the caller does not wait for it.
fn waited(w: Work, async_op: bool) -> Result<Work> {
    if !async_op {
        w.try_wait()?;
    }
    Ok(w)
}
/// Sizes of a list of as many tensors as there are ranks, as one.
fn times(n: i64, t: &Tensor) -> Vec<Vec<i64>> {
    vec![[&[n], t.sizes()].concat()]
}
/// A root as the engine counts it.
fn root(g: &ProcessGroup, rank: i64, name: &str) -> Result<usize> {
    match usize::try_from(rank) {
        Ok(r) if (r as i64) < g.size() => Ok(r),
        _ => bail!(Runtime, "ProcessGroupGloo::{name}: invalid root rank: {rank}"),
    }
}
fn tag_of(tag: i64) -> Result<u64> {
    u64::try_from(tag).map_err(|_| Error::runtime("Tag must be nonnegative"))
}
