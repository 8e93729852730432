//! Runs a loop over strided operands under holds on their storages.

use super::plan::Plan;
use crate::iter::layout::broadcast_strides;
use crate::iter::spec::MAX_OPERANDS;
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::guards::byte_extent;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::busy;
use crate::types::error::Result;
use flambeau_cpu::pointwise::{LoopFn, Param, STREAM};
use flambeau_memory::Holds;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Non-temporal stores pay off when the operands together exceed what the caches will hold.
fn stream_flag(bytes: usize) -> u32 {
    if bytes > flambeau_cpu::engine::cache::stream_threshold() { STREAM } else { 0 }
}

/// Runs a loop over operands that are ready: right dtypes, inputs broadcastable to `shape`, no partial overlap.
pub(crate) fn execute<'t>(
    run: LoopFn,
    cost: u32,
    out: &Tensor,
    fresh: bool,
    shape: &[i64],
    inputs: &[Cow<'t, Tensor>],
    params: &[Param],
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let n_ops = inputs.len() + 1;
    let mut locks: SmallVec<[_; MAX_OPERANDS]> = inputs.iter().map(|t| (t.storage().lock(), false)).collect();
    if !fresh {
        locks.push((out.storage().lock(), true));
    }
    let _holds = Holds::of(&locks).map_err(busy)?;
    let mut ptrs = [std::ptr::null_mut::<u8>(); MAX_OPERANDS];
    let mut strides: SmallVec<[SizeVec; MAX_OPERANDS]> = SmallVec::new();
    let all = std::iter::once(out).chain(inputs.iter().map(|c| &**c));
    let mut bytes = 0;
    for (k, t) in all.enumerate() {
        let (p, n) = byte_extent(t)?;
        ptrs[k] = p;
        bytes += n;
        let item = t.dtype().size() as i64;
        // the stride of a single element may be anything; the others stay inside the storage
        let st = broadcast_strides(t, shape);
        strides.push(st.iter().zip(shape).map(|(s, n)| if *n == 1 { 0 } else { s * item }).collect());
    }
    let plan = Plan::new(shape, &strides, n_ops);
    // in place the loop itself leaves it, since it sees that an input is the output
    let flags = stream_flag(bytes);
    // PyTorch writes through a view whose elements share memory, such as `unfold`; here one thread does it, because two
    // would race
    let alone = !fresh && !out.is_contiguous() && geometry::may_overlap(out.sizes(), out.strides());
    // SAFETY: operands are held (or fresh), their extents are checked, inputs do not overlap the output but as the
    // very same elements, and outputs that may overlap themselves have one thread.
    unsafe { plan.run(run, cost, &ptrs, params, flags, alone) };
    Ok(())
}
