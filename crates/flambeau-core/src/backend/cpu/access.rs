//! How the CPU's kernels reach elements: holds on storages, and slices that live as long as the hold.

use crate::tensor::guards::extent;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::busy;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::{Element, with_dtype};
use flambeau_cpu::{Any, AnyMut};
use flambeau_memory::{Holds, Open};
use smallvec::SmallVec;
use std::cell::Cell;

/// A kernel's hold on all storages that it touches, and the typed slices behind them. No operator may be called, and
/// no user code run, while one is alive: a call that would wait for a storage is refused then.
pub struct Access<'a> {
    ins: SmallVec<[&'a Tensor; 6]>,
    outs: SmallVec<[&'a Tensor; 4]>,
    taken: Cell<u32>,
    _holds: Holds<'a>,
    _open: Open,
}
impl<'a> Access<'a> {
    /// Takes holds: shared ones for `ins`, exclusive ones for `outs`.
    ///
    /// # Errors
    /// When an output shares its storage with another operand (the caller works through a temporary then), when a
    /// user's guard is in the way, or off the CPU.
    pub fn new(ins: &[&'a Tensor], outs: &[&'a Tensor]) -> Result<Access<'a>> {
        let mut locks: SmallVec<[_; 8]> = SmallVec::new();
        for (i, o) in outs.iter().enumerate() {
            let same = |t: &&&Tensor| t.storage().same(o.storage());
            if ins.iter().any(|t| same(&t)) || outs[..i].iter().any(|t| same(&t)) {
                return Err(Error::storage(
                    "an output of this kernel shares its storage with another operand",
                ));
            }
            locks.push((o.storage().lock(), true));
        }
        locks.extend(ins.iter().map(|t| (t.storage().lock(), false)));
        for t in ins.iter().chain(outs) {
            if t.device() != Device::Cpu {
                return Err(Error::device(format!("a CPU kernel was given a tensor on {}", t.device())));
            }
        }
        let holds = Holds::of(&locks).map_err(busy)?;
        Ok(Access {
            ins: SmallVec::from_slice(ins),
            outs: SmallVec::from_slice(outs),
            taken: Cell::new(0),
            _holds: holds,
            _open: Open::new(),
        })
    }
    /// Elements of input `i`, from its first to the last that its strides reach.
    pub fn slice<T: Element>(&self, i: usize) -> Result<&[T]> {
        let t = self.ins[i];
        let (ptr, n) = extent::<T>(t)?;
        // SAFETY: a shared hold is alive for `&self`; no exclusive slice of this storage exists (checked in `new`);
        // `extent` checked type and bounds, and every bit pattern is a valid `T`.
        Ok(unsafe { std::slice::from_raw_parts(ptr, n) })
    }
    /// Elements of input `i` without their type.
    pub fn any(&self, i: usize) -> Result<Any<'_>> {
        let d = self.ins[i].dtype();
        with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, BC32, FP8, QUANT] => Ok(Any::new(self.slice::<T>(i)?)),
            else Err(Error::not_implemented_for("kernel", d)))
    }
    /// Elements of output `i` without their type. Each output is given out once.
    pub fn any_mut(&self, i: usize) -> Result<AnyMut<'_>> {
        let d = self.outs[i].dtype();
        with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, BC32, FP8, QUANT] => Ok(AnyMut::new(self.slice_mut::<T>(i)?)),
            else Err(Error::not_implemented_for("kernel", d)))
    }
    /// Elements of output `i`, likewise. Each output is given out once.
    #[allow(clippy::mut_from_ref)]
    pub fn slice_mut<T: Element>(&self, i: usize) -> Result<&mut [T]> {
        if self.taken.get() & (1 << i) != 0 {
            return Err(Error::storage("a kernel took one output twice"));
        }
        let t = self.outs[i];
        let (ptr, n) = extent::<T>(t)?;
        self.taken.set(self.taken.get() | 1 << i);
        // SAFETY: an exclusive hold is alive for `&self`, no other operand shares the storage, the slice is given out
        // once; `extent` checked type and bounds.
        Ok(unsafe { std::slice::from_raw_parts_mut(ptr, n) })
    }
}

impl Tensor {
    /// A fresh contiguous tensor on the CPU whose elements `f` writes. It calls no operator.
    ///
    /// # Errors
    /// Negative or absurd sizes, no memory.
    pub(crate) fn made_raw<T: Element>(sizes: &[i64], f: impl FnOnce(&mut [T])) -> Result<Tensor> {
        let t = Self::empty_raw(sizes, T::DTYPE, Device::Cpu)?;
        let a = Access::new(&[], &[&t])?;
        f(a.slice_mut(0)?);
        drop(a);
        Ok(t)
    }
}
