//! Kernels that a program puts at a key of an existing operator, and takes away again.
//!
//! The slot then holds the operator's adaptor, which packs the arguments into values and asks here. What stood there
//! before comes back with the last such kernel; calls under way end with what they found.

use super::op::Private;
use super::{AnyOp, Key, OpInfo};
use crate::error::{Error, Result};
use crate::value::Value;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

/// A kernel that takes and gives values.
pub type BoxedKernel = Arc<dyn Fn(&[Value]) -> Result<Vec<Value>> + Send + Sync>;

struct Diverted {
    op: &'static dyn AnyOp,
    /// What stood in the slot, as a number: it goes back to the same slot, nowhere else.
    before: usize,
    /// The latest counts.
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
    if let Some(d) = table.get_mut(&place(op.info(), k)) {
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
            gone.extend(d.kernels.extract_if(.., |(i, _)| *i == id));
            if d.kernels.is_empty()
                && let Some((slot, _)) = d.op.slot(Private(()), super::ALL_KEYS[*k as usize])
            {
                slot.store(std::ptr::with_exposed_provenance_mut(d.before), Ordering::Release);
            }
        }
        table.retain(|_, d| !d.kernels.is_empty());
    }
    // what a program's closure holds is dropped without the lock
    drop(gone);
}
/// The program's kernel of an operator at a key.
pub(crate) fn kernel(info: &'static OpInfo, k: Key) -> Option<BoxedKernel> {
    let table = TABLE.read().unwrap_or_else(|e| e.into_inner());
    table.as_ref()?.get(&place(info, k))?.kernels.last().map(|(_, f)| f.clone())
}
