//! What a rank without inputs does for `DistributedDataParallel`.

use super::broadcast_coalesced;
use super::reducer::Reducer;
use crate::group::ProcessGroup;
use crate::join::JoinHook;
use crate::{ReduceOp, ReduceOptions, try_all_reduce};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Tensor};
use std::sync::Arc;

pub(super) struct Shadow {
    pub(super) reducer: Arc<Reducer>,
    /// parameters and buffers
    pub(super) state: Vec<Tensor>,
}
/// Whether any rank will bring gradients together in this step; ranks with inputs do not wait for the answer.
pub(super) fn asks_for_sync(reducer: &Reducer, joined: bool) -> Result<bool> {
    let t = Tensor::zeros_raw(&[1], DType::F32, Device::Cpu)?;
    let wants: f32 = if !joined && reducer.syncs() { 1.0 } else { 0.0 };
    crate::bytes::write(&t, &wants.to_le_bytes())?;
    let work = try_all_reduce(&t, ReduceOptions::new().group(reducer.group()).async_op(true))?;
    if !joined {
        return Ok(true);
    }
    work.try_wait()?;
    Ok(t.try_item::<f32>()? != 0.0)
}
/// The largest rank that offers itself.
pub(super) fn common_rank(group: &ProcessGroup, offers: bool) -> Result<i64> {
    let t = Tensor::from_vec_raw(vec![if offers { group.rank() } else { -1 }], &[1])?;
    try_all_reduce(&t, ReduceOptions::new().group(group).op(ReduceOp::Max))?;
    t.try_item::<i64>()
}
impl JoinHook for Shadow {
    fn main_hook(&mut self) -> Result<()> {
        self.reducer.rebuild()?;
        self.reducer.sync_buffers(Some(false))?;
        let due = asks_for_sync(&self.reducer, true)?;
        self.reducer.set_buffers_due(due);
        if due { self.reducer.shadow() } else { Ok(()) }
    }
    fn post_hook(&mut self, is_last_joiner: bool) -> Result<()> {
        let group = self.reducer.group();
        broadcast_coalesced(&self.state, group, common_rank(group, is_last_joiner)?)
    }
}
