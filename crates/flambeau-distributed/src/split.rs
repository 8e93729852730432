//! Groups that are made of another group: its parts, and what is left of it.

use crate::group::{Backend, ProcessGroup};
use crate::sha1::sha1_hex;
use crate::world::World;
use flambeau_core::{ErrorKind, Result, bail, ensure};
use std::time::Duration;

/// Keywords of [`split_group_with`].
#[flambeau_macros::options]
pub struct SplitGroupOptions {
    /// The group that is split; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// How long the parts' operations may take. Default: half an hour.
    pub(crate) timeout: Option<Duration>,
    /// Which of the group's engines the parts have, by name or by pairs of device and name; all of them if left out.
    pub(crate) backend: Option<String>,
    /// What to call the parts.
    pub(crate) group_desc: Option<String>,
}
/// Splits a group: all its ranks call this with the same lists, of ranks in the group, and each gets the group of its list, in which the ranks
/// are in the list's order. A rank that is in no list gets a handle of a group that it is not in.
///
/// ```
/// use torch::distributed::{self, ReduceOptions, run_in_threads, split_group};
///
/// let sums = run_in_threads(4, |rank| {
///     let mine = split_group(&[vec![1, 0], vec![2, 3]]);
///     let t = torch::tensor([rank as i64]);
///     distributed::all_reduce_with(&t, ReduceOptions::new().group(&mine));
///     (mine.rank(), t.item::<i64>())
/// });
/// assert_eq!(sums, [(1, 1), (0, 1), (0, 5), (1, 5)]);
/// ```
///
/// # Errors
/// No list, an empty one, ranks that come twice or are not in the group; an engine that the group has not got, or that cannot be split: gloo
/// can; ranks that do not come in time.
#[doc(alias = "torch.distributed.split_group")]
#[flambeau_macros::short(with)]
pub fn try_split_group(split_ranks: &[Vec<i64>], options: SplitGroupOptions) -> Result<ProcessGroup> {
    ensure!(!split_ranks.is_empty(), Value, "split_ranks cannot be None or empty");
    let w = World::current();
    let default = w.default_group()?;
    let parent = options.group.unwrap_or_else(|| default.clone());
    ensure!(
        parent.is_member(),
        Value,
        "Global rank {} is not part of the parent group {parent}",
        default.rank()
    );
    ensure!(
        parent.engine().is_some(),
        Runtime,
        "No backend for the parent process group or its backend does not support splitting"
    );
    let backend = match &options.backend {
        None => parent.backend().clone(),
        Some(wanted) => kept(parent.backend(), wanted)?,
    };
    let me = parent.rank();
    let mut mine = &split_ranks[0];
    for list in split_ranks {
        ensure!(!list.is_empty(), Value, "the split group cannot be empty");
        ensure!(
            list.len() as i64 <= default.size(),
            Value,
            "the split group's size should be less or equal to the world_size set by init_process_group"
        );
        let mut seen = list.clone();
        seen.sort_unstable();
        seen.dedup();
        ensure!(seen.len() == list.len(), Value, "the split group cannot have duplicate ranks");
        ensure!(
            seen.iter().all(|r| (0..parent.size()).contains(r)),
            Value,
            "ranks {list:?} to split are not all in a group of {}",
            parent.size()
        );
        if list.contains(&me) {
            mine = list;
            break;
        }
    }
    let joined: Vec<String> = mine.iter().map(i64::to_string).collect();
    let name = sha1_hex(format!("{}_{}", joined.join("_"), w.next_group()).as_bytes());
    let ranks: Vec<i64> = mine.iter().map(|r| parent.global_rank(*r)).collect::<Result<_>>()?;
    let Some(place) = mine.iter().position(|r| *r == me) else {
        return Ok(ProcessGroup::apart(name, ranks, backend));
    };
    let timeout = options.timeout.unwrap_or(crate::DEFAULT_PG_TIMEOUT);
    let count = parent.next_split();
    let desc = options.group_desc.unwrap_or_else(|| format!("{}:split:{count}", parent.group_desc()));
    w.found(&parent, true, name, desc, ranks, place, backend, timeout)
}
/// Those of a group's engines that a part of it keeps.
fn kept(parent: &Backend, wanted: &str) -> Result<Backend> {
    let (all, wanted) = (parent.pairs(), wanted.to_lowercase());
    let shown = || {
        let all: Vec<String> = all.iter().map(|(d, b)| format!("'{d}': '{b}'")).collect();
        format!("{{{}}}", all.join(", "))
    };
    if !wanted.contains(':') {
        let kept: Vec<String> =
            all.iter().filter(|(_, b)| *b == wanted).map(|(d, b)| format!("{d}:{b}")).collect();
        ensure!(
            !kept.is_empty(),
            Value,
            "Requested backend '{wanted}' is not present in the parent process group (parent backends: {})",
            shown()
        );
        return kept.join(",").parse();
    }
    let backend: Backend = wanted.parse()?;
    backend.config()?;
    for (device, name) in backend.pairs() {
        let Some((_, has)) = all.iter().find(|(d, _)| *d == device) else {
            bail!(
                Value,
                "Requested backend for device '{device}' is not present in the parent process group (parent backends: {})",
                shown()
            )
        };
        ensure!(
            *has == name,
            Value,
            "Backend mismatch for device '{device}': parent has '{has}', requested '{name}'. Backend names must match exactly when filtering split_group backends."
        );
    }
    Ok(backend)
}

/// Keywords of [`shrink_group_with`].
#[flambeau_macros::options]
pub struct ShrinkGroupOptions {
    /// The group that shrinks; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether what runs in the group is ended first (`SHRINK_ABORT`). Default: false.
    #[default(false)]
    pub(crate) abort: bool,
}
/// A group without some of its ranks, which takes its place: of the default one too, whose other groups end then. The ranks that remain call
/// this and no other.
///
/// Gloo cannot do it, as in PyTorch: make a new group with [`new_group`](crate::new_group). Engines of a program's own can
/// ([`CollectiveBackend::shrink`](crate::CollectiveBackend::shrink)).
///
/// # Errors
/// No rank, ranks that are not in the group or come twice, all of them, this one; an engine that cannot shrink, of kind `Type`.
#[doc(alias = "torch.distributed.shrink_group")]
#[flambeau_macros::short(with)]
pub fn try_shrink_group(ranks_to_exclude: &[i64], options: ShrinkGroupOptions) -> Result<ProcessGroup> {
    ensure!(
        !ranks_to_exclude.is_empty(),
        Value,
        "ranks_to_exclude cannot be empty. To shrink a group, you must specify at least one rank to exclude. Example: [failed_rank_id]"
    );
    let w = World::current();
    let group = match options.group {
        Some(g) => g,
        None => w.default_group()?,
    };
    let size = group.size();
    ensure!(
        size > 1,
        Value,
        "Cannot shrink a process group with size {size}. Group must have at least 2 ranks to support shrinking."
    );
    let cannot = || {
        format!("Process group backend for '{}' does not support shrinking operations.", group.group_name())
    };
    let Some(engine) = group.only_own().cloned() else { bail!(Type, "{}", cannot()) };
    let mut without: Vec<usize> = Vec::new();
    for (i, r) in ranks_to_exclude.iter().enumerate() {
        ensure!(
            (0..size).contains(r),
            Value,
            "Rank {r} at index {i} is out of bounds for group size {size}. Valid ranks are in range [0, {}].",
            size - 1
        );
        let r = *r as usize;
        ensure!(
            !without.contains(&r),
            Value,
            "Duplicate rank {r} found in ranks_to_exclude at index {i}. Each rank can only be excluded once."
        );
        without.push(r);
    }
    let n = without.len();
    ensure!(
        (n as i64) < size,
        Value,
        "Cannot exclude all {size} ranks from process group. At least one rank must remain. Excluding {n} ranks."
    );
    let me = group.rank();
    ensure!(
        !without.contains(&(me as usize)),
        Runtime,
        "Current rank {me} is in the exclusion list and should not call shrink_group(). Only non-excluded ranks should participate in the shrinking operation. Excluded ranks should terminate their processes instead."
    );
    without.sort_unstable();
    let smaller = match engine.shrink(&without, options.abort) {
        Ok(e) => e,
        Err(e) if e.kind() == ErrorKind::Unsupported => bail!(Type, "{}", cannot()),
        Err(e) => return Err(e),
    };
    let stays = |r: &usize| !without.contains(r);
    let ranks: Vec<i64> =
        (0..size as usize).filter(stays).map(|r| group.global_rank(r as i64)).collect::<Result<_>>()?;
    let place = (0..me as usize).filter(stays).count();
    let joined: Vec<String> = group.ranks().iter().map(i64::to_string).collect();
    let name = sha1_hex(format!("{}_{}", joined.join("_"), w.next_group()).as_bytes());
    let desc = if group.is_world() {
        "default:shrunken".to_owned()
    } else {
        format!("{}:shrunk", group.group_name())
    };
    let made = ProcessGroup::of_own(name, desc, &group, ranks, place, &smaller);
    w.replace(&group, &made);
    Ok(made)
}
