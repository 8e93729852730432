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
pub use reductions::*;
pub(crate) use synchronise::monitored;
pub use synchronise::*;

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
/// Notes a call and runs it with the group's engine; one of a group that this process is not in does nothing.
fn with(g: &ProcessGroup, what: What, f: impl FnOnce(&Engine, &Status) -> Result<Work>) -> Result<Work> {
    let Some(e) = g.engine() else { return Ok(Work::ended(Vec::new())) };
    let status = g.begin(what.clone());
    let same = e.detail.as_ref().map_or(Ok(()), |d| d.check(&what));
    let r = same.and_then(|()| f(e, &status));
    match &r {
        Ok(w) if w.is_over() => status.end(true),
        Err(_) => status.end(false),
        Ok(_) => {}
    }
    r
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
