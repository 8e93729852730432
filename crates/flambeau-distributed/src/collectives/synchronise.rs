//! Barriers.

use super::{CollectiveOptions, group_of, with};
use crate::backend::CollectiveBackend;
use crate::calls::What;
use crate::gloo::mesh::Mesh;
use crate::group::ProcessGroup;
use crate::sync::deadline;
use crate::work::Work;
use flambeau_core::{Error, Result, bail, ensure};
use std::sync::Arc;
use std::time::Duration;

/// Returns once all ranks have come.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use torch::distributed::{barrier, run_in_threads};
///
/// static CAME: AtomicUsize = AtomicUsize::new(0);
/// let seen = run_in_threads(3, |_| {
///     CAME.fetch_add(1, Ordering::SeqCst);
///     barrier();
///     CAME.load(Ordering::SeqCst)
/// });
/// assert_eq!(seen, [3, 3, 3]);
/// ```
///
/// # Errors
/// Ranks that do not come in time or have gone, no job.
#[doc(alias = "torch.distributed.barrier")]
#[doc(alias = "torch.distributed.deprecated.barrier")]
#[flambeau_macros::short(with)]
pub fn try_barrier(options: CollectiveOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let own = |b: &dyn CollectiveBackend| b.barrier();
    with(&g, What::new("barrier", []), (None, options.async_op), own, |e, status| {
        e.run(options.async_op, status, Vec::new(), |c| c.barrier())
    })
}

/// Keywords of [`monitored_barrier_with`].
#[flambeau_macros::options]
pub struct MonitoredBarrierOptions {
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// How long to wait; as long as the group allows if left out.
    pub(crate) timeout: Option<Duration>,
    /// Whether rank 0 finds all ranks that are missing, instead of the first. Default: false.
    #[default(false)]
    pub(crate) wait_all_ranks: bool,
}
/// A barrier at which rank 0 says which rank has not come.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::{self, MonitoredBarrierOptions, run_in_threads};
///
/// let said = run_in_threads(2, |rank| {
///     if rank == 1 {
///         return String::new();
///     }
///     let soon = MonitoredBarrierOptions::new().timeout(Duration::from_millis(50));
///     distributed::try_monitored_barrier(soon).unwrap_err().message().to_owned()
/// });
/// assert!(said[0].contains("ank 1"), "{said:?}");
/// ```
///
/// # Errors
/// Ranks that do not come in time or have gone, which rank 0 names; no job.
#[doc(alias = "torch.distributed.monitored_barrier")]
#[flambeau_macros::short(with)]
pub fn try_monitored_barrier(options: MonitoredBarrierOptions) -> Result<()> {
    let g = group_of(&options.group)?;
    ensure!(
        g.engine().is_some() || !g.is_member(),
        Value,
        "monitored_barrier is only implemented for GLOO backend."
    );
    let own = |b: &dyn CollectiveBackend| b.barrier();
    with(&g, What::new("monitored_barrier", []), (None, false), own, |e, _| {
        monitored(&e.mesh, options.timeout.unwrap_or_else(|| e.mesh.timeout()), options.wait_all_ranks)?;
        Ok(Work::ended(Vec::new()))
    })
    .map(drop)
}
/// A barrier over these connections, at which rank 0 says who has not come.
pub(crate) fn monitored(mesh: &Arc<Mesh>, timeout: Duration, wait_all_ranks: bool) -> Result<()> {
    let (come, go) = (u64::from(mesh.next_tag()), u64::from(mesh.next_tag()));
    let me = mesh.rank as i32;
    if me != 0 {
        let passed = (|| {
            let sent = mesh.send(0, come, me.to_le_bytes().to_vec())?;
            let answer = mesh.recv(0, go, 4)?;
            mesh.wait(&sent, timeout)?;
            mesh.wait(&answer, timeout)
        })();
        return passed.map(drop).map_err(|e| {
            Error::runtime(format!(
                "Rank {me} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n{e}"
            ))
        });
    }
    let end = deadline(timeout);
    let waits: Vec<_> = (1..mesh.size).map(|r| Ok((r, mesh.recv(r, come, 4)?))).collect::<Result<_>>()?;
    let mut missing = Vec::new();
    for (r, t) in waits {
        // all are looked at, so nothing ends with the first that is late
        let came = match mesh.each_until(&t, end, &mut |_| Ok(())) {
            Some(r) => r,
            None => Err(Error::runtime(format!(
                "Timed out waiting {}ms for recv operation to complete",
                timeout.as_millis()
            ))),
        };
        if let Err(e) = came {
            missing.push(r.to_string());
            if !wait_all_ranks {
                mesh.fail(&Error::runtime("Application timeout caused pair closure"));
                bail!(
                    Runtime,
                    "[Rank 0]: Rank {r} failed to pass monitoredBarrier in {} ms\n Original exception: \n{e}",
                    timeout.as_millis()
                );
            }
        }
    }
    if !missing.is_empty() {
        mesh.fail(&Error::runtime("Application timeout caused pair closure"));
        bail!(
            Runtime,
            "[Rank 0]: Ranks {} failed to pass monitoredBarrier in {} ms",
            missing.join(", "),
            timeout.as_millis()
        );
    }
    let answers: Vec<_> =
        (1..mesh.size).map(|r| mesh.send(r, go, me.to_le_bytes().to_vec())).collect::<Result<_>>()?;
    answers.iter().try_for_each(|t| mesh.wait(t, timeout).map(drop))
}
