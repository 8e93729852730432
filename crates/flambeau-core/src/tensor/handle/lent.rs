//! Tensors that are lent instead of made: whoever makes a fresh tensor on the CPU asks what lends on the thread first.

use super::{INFERENCE, Tensor, fresh_flags};
use crate::DType;
use crate::types::thread_keys::{Lending, lends};
use std::cell::RefCell;
use std::rc::Rc;

/// What lends tensors. Within core alone: what is lent must be as good as fresh, which kernels rely on when they write without
/// a lock.
pub(crate) trait Lender {
    /// A tensor on the CPU of this geometry (contiguous without strides) with any bytes in it, on which and on whose memory
    /// nobody but the lender has a handle; none where there is no such tensor. What is made within this call is made as ever.
    fn lend(&self, sizes: &[i64], strides: Option<&[i64]>, dtype: DType) -> Option<Tensor>;
}

thread_local! {
    static LENDER: RefCell<Option<Rc<dyn Lender>>> = const { RefCell::new(None) };
}

/// Asks the thread's lender.
#[cold]
#[inline(never)]
pub(super) fn lent(sizes: &[i64], strides: Option<&[i64]>, dtype: DType) -> Option<Tensor> {
    let lender = LENDER.try_with(|l| l.borrow().clone()).ok()??;
    let _not_within = Lending::switch(false);
    lender.lend(sizes, strides, dtype)
}

/// Runs `f`, and lets this lender serve what is made on the thread meanwhile; that of an outer call does not.
pub(crate) fn lending<R>(lender: Rc<dyn Lender>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<Rc<dyn Lender>>);
    impl Drop for Back {
        fn drop(&mut self) {
            let outer = self.0.take();
            let gone = LENDER.try_with(|l| l.replace(outer));
            drop(gone);
        }
    }
    let Ok(outer) = LENDER.try_with(|l| l.replace(Some(lender))) else { return f() };
    let _back = Back(outer);
    let _on = Lending::switch(true);
    f()
}

/// Whether a fresh tensor of such memory may be lent now.
#[inline(always)]
pub(super) fn asked(device: crate::Device) -> bool {
    lends() && device == crate::Device::Cpu
}

impl Tensor {
    /// Whether nothing is known of the tensor that a fresh one would not have: no history, no name, no key, and the mode in
    /// which it was made.
    pub(crate) fn is_pristine(&self) -> bool {
        let i = &*self.0;
        i.made_by.is_none()
            && i.seldom.get().is_none()
            && self.engine_bits() == 0
            && self.key_set() == self.device().key_set()
            && i.flags & INFERENCE == fresh_flags()
    }
}
