//! Other tensors of the same memory that are no views of it.

use super::{CONJ, INFERENCE, NEG, Owner, PARAMETER, ROW_MAJOR, Rare, Tensor, WRAPPED};
use crate::tensor::geometry::{Dims, Survey};
use crate::tensor::storage::Apart;
use crate::types::error::Result;
use crate::types::keys::Key;
use std::sync::Arc;

impl Tensor {
    /// The same memory and geometry as a tensor of its own: no view, no history (`detach`).
    pub(crate) fn alias_detached(&self) -> Tensor {
        self.alias_with(self.0.flags & (CONJ | NEG | INFERENCE))
    }
    /// The same memory as a parameter: a leaf of its own that prints as one. No view of it is a parameter.
    pub(crate) fn alias_parameter(&self) -> Tensor {
        self.alias_with(self.0.flags & (CONJ | NEG | INFERENCE) | PARAMETER)
    }
    /// Whether it was made by [`Tensor::alias_parameter`].
    pub(crate) fn is_parameter(&self) -> bool {
        self.0.flags & PARAMETER != 0
    }
    /// The same tensor counted as a Python number in type promotion.
    pub(crate) fn into_wrapped_number(self) -> Tensor {
        self.alias_with(self.0.flags | WRAPPED)
    }
    fn alias_with(&self, flags: u8) -> Tensor {
        let i = &*self.0;
        match i.owner.rare() {
            Some(Rare::Sparse(s)) => {
                let dims = Dims::new(self.sizes(), self.strides());
                return Self::sparse_of(dims, i.numel, i.layout, i.dtype, flags, s.alias());
            }
            Some(Rare::Hollow(s)) => {
                return Self::hollow_on(s.clone(), self.sizes(), self.strides(), i.dtype, i.device, flags);
            }
            Some(Rare::Wrapper(w)) => return self.wrapper_alias(w, flags),
            _ => {}
        }
        match self.apart() {
            Some(a) => self.alias_on(Rare::Apart(a.clone()).into(), flags),
            None => self.alias_on(self.alias_owner(), flags),
        }
    }
    #[inline]
    fn alias_on(&self, owner: Owner, flags: u8) -> Tensor {
        let i = &*self.0;
        let facts = Survey {
            numel: i.numel,
            contiguous: self.is_contiguous(),
            row_major: i.flags & ROW_MAJOR != 0,
            last: 0,
        };
        let dims = Dims::new(self.sizes(), self.strides());
        let apart = matches!(owner.rare(), Some(Rare::Apart(_)));
        let t = Self::surveyed(owner, dims, facts, i.offset, i.dtype, i.device, flags);
        if apart {
            t.set_key(Key::Apart, true);
        }
        t
    }
    /// The same memory as a tensor without history and with a count of writes of its own. Not for stand-ins.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn alias_apart(&self) -> Result<Tensor> {
        let (i, flags) = (&*self.0, self.0.flags & (CONJ | NEG | INFERENCE));
        match i.owner.rare() {
            Some(Rare::Sparse(s)) => {
                let dims = Dims::new(self.sizes(), self.strides());
                Ok(Self::sparse_of(dims, i.numel, i.layout, i.dtype, flags, s.alias_apart()?))
            }
            // what it is made of goes along, and with it the count
            Some(Rare::Quantized(_) | Rare::Wrapper(_)) => Ok(self.alias_with(flags)),
            _ => Ok(self.alias_on(Rare::Apart(Arc::new(Apart::new(self.storage().clone()))).into(), flags)),
        }
    }
    /// What counts the writes through this tensor, where that is not its storage.
    #[inline]
    pub(crate) fn apart(&self) -> Option<&Arc<Apart>> {
        match self.root().0.owner.rare()? {
            Rare::Apart(a) => Some(a),
            _ => None,
        }
    }
}
