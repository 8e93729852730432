//! NCCL, loaded at run time: collectives of the devices of several processes. cudarc panics where the library is missing, so it is asked
//! for first.
#![allow(unsafe_code)]

use super::Address;
use cudarc::nccl::sys as nc;
use flambeau_core::{DType, Error, Result};
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

/// What the elements are for the library, and how many of them an element of ours is; `None` for those it only moves.
fn kind(d: DType) -> Option<(nc::ncclDataType_t, usize)> {
    use nc::ncclDataType_t as N;
    Some(match d {
        DType::I8 => (N::ncclInt8, 1),
        DType::U8 | DType::Bool => (N::ncclUint8, 1),
        DType::I32 => (N::ncclInt32, 1),
        DType::U32 => (N::ncclUint32, 1),
        DType::I64 => (N::ncclInt64, 1),
        DType::U64 => (N::ncclUint64, 1),
        DType::F16 => (N::ncclFloat16, 1),
        DType::F32 => (N::ncclFloat32, 1),
        DType::F64 => (N::ncclFloat64, 1),
        DType::BF16 => (N::ncclBfloat16, 1),
        DType::C64 => (N::ncclFloat32, 2),
        DType::C128 => (N::ncclFloat64, 2),
        _ => return None,
    })
}
/// What is done with elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// Added.
    Sum,
    /// Multiplied.
    Product,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Added, and divided by the number of ranks.
    Avg,
}
impl Reduction {
    fn op(self) -> nc::ncclRedOp_t {
        match self {
            Reduction::Sum => nc::ncclRedOp_t::ncclSum,
            Reduction::Product => nc::ncclRedOp_t::ncclProd,
            Reduction::Min => nc::ncclRedOp_t::ncclMin,
            Reduction::Max => nc::ncclRedOp_t::ncclMax,
            Reduction::Avg => nc::ncclRedOp_t::ncclAvg,
        }
    }
}
fn check(r: nc::ncclResult_t) -> Result<()> {
    if matches!(r, nc::ncclResult_t::ncclSuccess | nc::ncclResult_t::ncclInProgress) {
        return Ok(());
    }
    // SAFETY: the library gives the address of a text that lives as long as the program.
    let text = unsafe { CStr::from_ptr(nc::ncclGetErrorString(r)) }.to_string_lossy();
    Err(Error::runtime(format!("NCCL error: {text}")))
}
/// Whether the library is there.
pub(crate) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads the library and nothing else.
    *PRESENT.get_or_init(|| unsafe { nc::is_culib_present() })
}
fn present() -> Result<()> {
    if is_present() {
        return Ok(());
    }
    Err(Error::runtime(
        "NCCL's library is not found: install NVIDIA's libnccl2, or a Python package nvidia-nccl-cu13 and name its folder in LD_LIBRARY_PATH",
    ))
}
/// The library's version, as 10000 * major + 100 * minor + patch.
///
/// # Errors
/// It is not there.
pub(crate) fn version() -> Result<i64> {
    present()?;
    let mut v = 0;
    // SAFETY: writes one number.
    check(unsafe { nc::ncclGetVersion(&mut v) })?;
    Ok(v.into())
}
/// What the ranks of a new communicator agree on, made by one of them.
///
/// # Errors
/// The library is not there, or finds no network.
pub(crate) fn unique_id() -> Result<[u8; 128]> {
    present()?;
    let mut id = nc::ncclUniqueId { internal: [0; 128] };
    // SAFETY: writes the id.
    check(unsafe { nc::ncclGetUniqueId(&mut id) })?;
    Ok(id.internal.map(|c| c as u8))
}
fn from(a: Address) -> *const c_void {
    std::ptr::with_exposed_provenance(a as usize)
}
fn to(a: Address) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(a as usize)
}
fn stream(handle: u64) -> nc::cudaStream_t {
    std::ptr::with_exposed_provenance_mut(handle as usize)
}

/// A communicator; the library takes calls of one from one thread at a time.
pub(crate) struct Raw(nc::ncclComm_t);
// SAFETY: the handle belongs to the process, and its owner lets one thread call at a time.
unsafe impl Send for Raw {}

/// Elements of a call: how many, and of which type.
type Elements = (usize, DType);
impl Raw {
    /// Waits for the other ranks. The thread's device is the communicator's.
    pub(crate) fn new(id: &[u8; 128], rank: usize, size: usize) -> Result<Raw> {
        present()?;
        let id = nc::ncclUniqueId { internal: id.map(|b| b as std::ffi::c_char) };
        let mut comm = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(unsafe { nc::ncclCommInitRank(&mut comm, size as c_int, id, rank as c_int) })?;
        Ok(Raw(comm))
    }
    /// Elements as the library counts them; those that are only moved are bytes.
    fn moved((n, d): Elements) -> (usize, nc::ncclDataType_t) {
        kind(d).map_or((n * d.size(), nc::ncclDataType_t::ncclUint8), |(k, each)| (n * each, k))
    }
    fn reduced((n, d): Elements) -> Result<(usize, nc::ncclDataType_t)> {
        let refused =
            || Error::value(format!("Input tensor data type is not supported for NCCL process group: {d}"));
        let (k, each) = kind(d).ok_or_else(refused)?;
        Ok((n * each, k))
    }
    pub(crate) fn broadcast(&self, at: Address, e: Elements, root: usize, on: u64) -> Result<()> {
        let (n, k) = Raw::moved(e);
        // SAFETY: the caller's tensor has as many elements behind the address until its stream is through with them.
        check(unsafe { nc::ncclBroadcast(from(at), to(at), n, k, root as c_int, self.0, stream(on)) })
    }
    pub(crate) fn all_reduce(
        &self,
        (a, b): (Address, Address),
        e: Elements,
        op: Reduction,
        on: u64,
    ) -> Result<()> {
        let (n, k) = Raw::reduced(e)?;
        // SAFETY: as for `broadcast`, for both tensors.
        check(unsafe { nc::ncclAllReduce(from(a), to(b), n, k, op.op(), self.0, stream(on)) })
    }
    pub(crate) fn reduce(&self, at: Address, e: Elements, op: Reduction, root: usize, on: u64) -> Result<()> {
        let (n, k) = Raw::reduced(e)?;
        // SAFETY: as for `broadcast`.
        check(unsafe { nc::ncclReduce(from(at), to(at), n, k, op.op(), root as c_int, self.0, stream(on)) })
    }
    /// `e` counts what one rank gives.
    pub(crate) fn all_gather(&self, (a, b): (Address, Address), e: Elements, on: u64) -> Result<()> {
        let (n, k) = Raw::moved(e);
        // SAFETY: as for `broadcast`; the second tensor has as many elements for each rank.
        check(unsafe { nc::ncclAllGather(from(a), to(b), n, k, self.0, stream(on)) })
    }
    /// `e` counts what one rank gets.
    pub(crate) fn reduce_scatter(
        &self,
        (a, b): (Address, Address),
        e: Elements,
        op: Reduction,
        on: u64,
    ) -> Result<()> {
        let (n, k) = Raw::reduced(e)?;
        // SAFETY: as for `broadcast`; the first tensor has as many elements for each rank.
        check(unsafe { nc::ncclReduceScatter(from(a), to(b), n, k, op.op(), self.0, stream(on)) })
    }
    pub(crate) fn send(&self, at: Address, e: Elements, peer: usize, on: u64) -> Result<()> {
        let (n, k) = Raw::moved(e);
        // SAFETY: as for `broadcast`.
        check(unsafe { nc::ncclSend(from(at), n, k, peer as c_int, self.0, stream(on)) })
    }
    pub(crate) fn recv(&self, at: Address, e: Elements, peer: usize, on: u64) -> Result<()> {
        let (n, k) = Raw::moved(e);
        // SAFETY: as for `broadcast`.
        check(unsafe { nc::ncclRecv(to(at), n, k, peer as c_int, self.0, stream(on)) })
    }
    /// Ends what is under way.
    pub(crate) fn abort(&mut self) {
        let comm = std::mem::replace(&mut self.0, std::ptr::null_mut());
        if !comm.is_null() {
            // SAFETY: a communicator that was made and has not ended.
            let _ = unsafe { nc::ncclCommAbort(comm) };
        }
    }
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_null()
    }
}
impl Drop for Raw {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: a communicator that was made and has not ended; nobody calls it any more.
            let _ = unsafe { nc::ncclCommDestroy(self.0) };
        }
    }
}
/// Calls that the library begins together: only so may a rank send and receive at once.
///
/// # Errors
/// Of the closure, and of the library.
pub(crate) fn together(f: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: takes nothing; the call behind it ends what it begins.
    check(unsafe { nc::ncclGroupStart() })?;
    let done = f();
    // SAFETY: as above.
    let ended = check(unsafe { nc::ncclGroupEnd() });
    done.and(ended)
}
