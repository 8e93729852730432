//! Kernels that a program puts at a key of an existing operator, and takes away again.
//!
//! The slot then holds the operator's adaptor, which packs the arguments into values and asks here. What stood there
//! before comes back with the last such kernel; calls under way end with what they found.

use super::op::Private;
use crate::dispatch::op::{AnyOp, OpInfo};
use crate::dispatch::value::Value;
use crate::types::error::{Error, Result};
use crate::types::keys::Key;
use crate::types::order::{self, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A kernel that takes and gives values.
pub type BoxedKernel = Arc<dyn Fn(&[Value]) -> Result<Vec<Value>> + Send + Sync>;

struct Diverted {
    op: &'static dyn AnyOp,
    /// What stood in the slot, as a number: it goes back to the same slot, nowhere else.
    before: usize,
    /// The latest counts. Entries stay when theirs have ended: see [`Found::Ended`].
    kernels: Vec<(u64, BoxedKernel)>,
}
type Table = HashMap<(usize, u8), Diverted>;
static TABLE: RwLock<Option<Table>> = RwLock::new(None);

fn place(info: &'static OpInfo, k: Key) -> (usize, u8) {
    (std::ptr::from_ref(info) as usize, k as u8)
}

/// Puts a kernel at key `k` of an operator.
pub(crate) fn divert(id: u64, op: &'static dyn AnyOp, k: Key, kernel: BoxedKernel) -> Result<()> {
    let mut table = TABLE.write().unwrap_or_else(|e| e.into_inner());
    let table = table.get_or_insert_default();
    if let Some(d) = table.get_mut(&place(op.info(), k))
        && !d.kernels.is_empty()
    {
        d.kernels.push((id, kernel));
        return Ok(());
    }
    let Some((slot, adaptor)) = op.slot(Private(()), k) else {
        return Err(Error::runtime(format!("{} has no slot for the {k:?} key", op.info().name)));
    };
    // the kernel stands in the table before anybody can be sent to it: readers wait for the lock held here
    let before = slot.swap(adaptor, Ordering::AcqRel) as usize;
    table.insert(place(op.info(), k), Diverted { op, before, kernels: vec![(id, kernel)] });
    Ok(())
}
/// Takes kernels away.
pub(crate) fn restore(id: u64) {
    let mut gone = Vec::new();
    {
        let mut table = TABLE.write().unwrap_or_else(|e| e.into_inner());
        let Some(table) = table.as_mut() else { return };
        for ((_, k), d) in table.iter_mut() {
            let held = gone.len();
            gone.extend(d.kernels.extract_if(.., |(i, _)| *i == id));
            if d.kernels.is_empty()
                && gone.len() > held
                && let Some((slot, _)) = d.op.slot(Private(()), crate::types::keys::ALL_KEYS[*k as usize])
            {
                slot.store(std::ptr::with_exposed_provenance_mut(d.before), Ordering::Release);
            }
        }
    }
    // what a program's closure holds is dropped without the lock
    order::none_held("a program's kernel is dropped");
    drop(gone);
}
/// What a call that was sent here finds.
pub(crate) enum Found {
    /// Nobody diverted this operator at this key.
    Never,
    /// The program's kernel.
    Kernel(BoxedKernel),
    /// The kernel was taken away after the call had read the slot: what stood there before stands there again.
    Ended,
}
/// The program's kernel of an operator at a key.
pub(crate) fn find(info: &'static OpInfo, k: Key) -> Found {
    let table = TABLE.read().unwrap_or_else(|e| e.into_inner());
    match table.as_ref().and_then(|t| t.get(&place(info, k))) {
        None => Found::Never,
        Some(d) => match d.kernels.last() {
            Some((_, f)) => Found::Kernel(f.clone()),
            None => Found::Ended,
        },
    }
}
