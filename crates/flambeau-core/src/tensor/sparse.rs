//! What sparse tensors are made of.
//!
//! A sparse tensor has sizes and a dtype like any other and no memory of its own: it holds strided tensors, its indices
//! and its values. Its key is [`Key::SparseCpu`](crate::types::keys::Key::SparseCpu) and never `Cpu`, so only kernels that
//! know sparse tensors are given one, and a kernel that reads memory refuses it.
//!
//! The parts agree in number, dtype and sizes with the tensor, always. What the *indices say* is checked by those who make
//! tensors from a user's indices and by nobody later: whoever has the indices can write to them. Kernels therefore use
//! them as they would use any index that a user gives.

use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::tensor::wrapper::{Asked, check_readable};
use crate::types::error::{Error, Result};
use crate::types::layout::Layout;
use crate::types::order::RwLock;
use crate::{DType, Device, ensure};

/// The tensors that a sparse tensor is made of.
#[derive(Clone)]
pub enum Parts {
    /// Coordinates.
    Coo {
        /// int64, number of sparse dimensions x number of elements.
        indices: Tensor,
        /// Number of elements x dense sizes.
        values: Tensor,
        /// Each place occurs once, in ascending order.
        coalesced: bool,
    },
    /// Compressed rows or columns, of elements or of blocks.
    Compressed {
        /// Where each row (column) begins: batch x (rows + 1), int64 or int32.
        compressed: Tensor,
        /// The other coordinate of each element: batch x number of elements.
        plain: Tensor,
        /// batch x number of elements x (block) x dense sizes.
        values: Tensor,
    },
}

impl Parts {
    /// The values.
    pub fn values(&self) -> &Tensor {
        match self {
            Parts::Coo { values, .. } | Parts::Compressed { values, .. } => values,
        }
    }
    /// The same indices with other values, which must be as many.
    pub fn with_values(&self, new: Tensor) -> Parts {
        let mut p = self.clone();
        match &mut p {
            Parts::Coo { values, .. } | Parts::Compressed { values, .. } => *values = new,
        }
        p
    }
    /// Number of elements (of blocks) that are specified, per batch.
    pub fn nnz(&self) -> i64 {
        match self {
            Parts::Coo { indices, .. } => indices.sizes()[1],
            Parts::Compressed { plain, .. } => plain.sizes().last().copied().unwrap_or(0),
        }
    }
    fn each(&self) -> [&Tensor; 3] {
        match self {
            Parts::Coo { indices, values, .. } => [indices, values, values],
            Parts::Compressed { compressed, plain, values } => [compressed, plain, values],
        }
    }
    /// The same memory in tensors without history: what a sparse tensor holds.
    fn detached(self) -> Parts {
        let plain =
            |t: Tensor| if t.requires_grad() || t.view_base().is_some() { t.alias_detached() } else { t };
        match self {
            Parts::Coo { indices, values, coalesced } => {
                Parts::Coo { indices: plain(indices), values: plain(values), coalesced }
            }
            Parts::Compressed { compressed, plain: p, values } => {
                Parts::Compressed { compressed: plain(compressed), plain: plain(p), values: plain(values) }
            }
        }
    }
    fn check(&self, sizes: &[i64], layout: Layout, dtype: DType) -> Result<()> {
        for t in self.each() {
            ensure!(t.layout() == Layout::Strided, Runtime, "a sparse tensor is made of strided tensors");
            ensure!(t.device() == Device::Cpu, Missing, "sparse tensors on {}", t.device());
        }
        ensure!(
            self.values().dtype() == dtype,
            DType,
            "dtype of values ({}) must match dtype of sparse tensor ({dtype})",
            self.values().dtype()
        );
        match self {
            Parts::Coo { indices, values, .. } => {
                ensure!(
                    layout == Layout::SparseCoo,
                    Runtime,
                    "coordinates do not make a {} tensor",
                    layout.name()
                );
                ensure!(indices.dtype() == DType::I64, DType, "indices must be an int64 tensor");
                ensure!(
                    indices.dim() == 2,
                    Shape,
                    "indices must be sparse_dim x nnz, but got: {}",
                    geometry::fmt_sizes(indices.sizes())
                );
                let sparse = indices.sizes()[0] as usize;
                ensure!(
                    values.dim() >= 1 && sparse + values.dim() - 1 == sizes.len(),
                    Shape,
                    "dimensionality of sparse_dim ({sparse}) plus that of the values' elements ({}) must be {}",
                    values.dim() as i64 - 1,
                    sizes.len()
                );
                ensure!(
                    indices.sizes()[1] == values.sizes()[0],
                    Runtime,
                    "indices and values must have same nnz, but got nnz from indices: {}, nnz from values: {}",
                    indices.sizes()[1],
                    values.sizes()[0]
                );
                ensure!(
                    values.sizes()[1..] == sizes[sparse..],
                    Shape,
                    "values has incorrect size, expected {}, got {}",
                    geometry::fmt_sizes(&[&values.sizes()[..1], &sizes[sparse..]].concat()),
                    geometry::fmt_sizes(values.sizes())
                );
            }
            Parts::Compressed { compressed, plain, values } => {
                let blocks = matches!(layout, Layout::SparseBsr | Layout::SparseBsc);
                ensure!(
                    blocks || matches!(layout, Layout::SparseCsr | Layout::SparseCsc),
                    Runtime,
                    "compressed indices do not make a {} tensor",
                    layout.name()
                );
                ensure!(
                    compressed.dtype() == plain.dtype() && matches!(plain.dtype(), DType::I64 | DType::I32),
                    DType,
                    "compressed indices must be two int32 or two int64 tensors"
                );
                let batch = plain.dim().wrapping_sub(1);
                let inner = 1 + if blocks { 2 } else { 0 };
                ensure!(
                    plain.dim() >= 1
                        && compressed.dim() == plain.dim()
                        && sizes.len() >= batch + 2
                        && values.dim() == sizes.len() - 2 + inner
                        && compressed.sizes()[..batch] == sizes[..batch]
                        && plain.sizes()[..batch] == sizes[..batch]
                        && values.sizes()[..=batch] == *plain.sizes()
                        && values.sizes()[batch + inner..] == sizes[batch + 2..],
                    Shape,
                    "compressed indices {}, {} and values {} do not make a tensor of size {}",
                    geometry::fmt_sizes(compressed.sizes()),
                    geometry::fmt_sizes(plain.sizes()),
                    geometry::fmt_sizes(values.sizes()),
                    geometry::fmt_sizes(sizes)
                );
                let (rows, cols) = (sizes[batch], sizes[batch + 1]);
                let by_rows = matches!(layout, Layout::SparseCsr | Layout::SparseBsr);
                let (br, bc) = match blocks {
                    true => (values.sizes()[batch + 1], values.sizes()[batch + 2]),
                    false => (1, 1),
                };
                ensure!(
                    br > 0 && bc > 0 && rows % br == 0 && cols % bc == 0,
                    Shape,
                    "tensor shape[{batch}] = {rows} and shape[{}] = {cols} must be divisible by the blocksize ({br}, {bc})",
                    batch + 1
                );
                let lines = if by_rows { rows / br } else { cols / bc };
                ensure!(
                    compressed.sizes()[batch] - 1 == lines,
                    Shape,
                    "compressed indices must have an entry for each of {lines} lines and one more, but have {}",
                    compressed.sizes()[batch]
                );
            }
        }
        Ok(())
    }
}

/// A tensor with nothing specified: all dimensions of a COO tensor are sparse, those of a compressed one before the last
/// two are batches.
///
/// # Errors
/// Sizes that are none; layouts of blocks, whose size nothing says.
pub fn zeros(size: &[i64], layout: Layout, dtype: DType) -> Result<Tensor> {
    checked_numel(size)?;
    let index = |sizes: &[i64]| Tensor::zeros_raw(sizes, DType::I64, Device::Cpu);
    let none = |sizes: &[i64]| Tensor::empty_raw(sizes, dtype, Device::Cpu);
    let parts = match layout {
        Layout::SparseCoo => {
            Parts::Coo { indices: index(&[size.len() as i64, 0])?, values: none(&[0])?, coalesced: true }
        }
        Layout::SparseCsr | Layout::SparseCsc => {
            ensure!(
                size.len() >= 2,
                Runtime,
                "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {}",
                geometry::fmt_sizes(size)
            );
            let (batch, matrix) = size.split_at(size.len() - 2);
            let lines = if layout == Layout::SparseCsr { matrix[0] } else { matrix[1] };
            let of = |last: i64| [batch, &[last]].concat();
            Parts::Compressed {
                compressed: index(&of(geometry::size_add(lines, 1)?))?,
                plain: index(&of(0))?,
                values: none(&of(0))?,
            }
        }
        l => return Err(Error::missing(format!("factories with layout torch.{}", l.name()))),
    };
    Tensor::from_sparse_parts(size, layout, parts)
}

/// The number of elements, specified or not.
///
/// # Errors
/// Negative sizes, and numbers that nothing holds.
pub fn checked_numel(sizes: &[i64]) -> Result<i64> {
    geometry::checked_numel(sizes).map_err(|_| Error::shape("numel: integer multiplication overflow"))
}

/// What stands in a sparse tensor's place where others have their memory.
pub(crate) struct Sparse {
    /// No bytes, but the version that in-place writes count.
    pub(crate) memory: Storage,
    parts: RwLock<Parts>,
}
impl Sparse {
    pub(crate) fn new(parts: Parts) -> Result<Sparse> {
        Ok(Sparse { memory: Storage::empty(0, Device::Cpu)?, parts: RwLock::new(parts) })
    }
    /// The same parts in a tensor of its own, as `detach` makes them: written elements show in both.
    pub(crate) fn alias(&self) -> Sparse {
        Sparse { memory: self.memory.clone(), parts: RwLock::new(self.parts()) }
    }
    /// The same parts with a count of writes of their own.
    pub(crate) fn alias_apart(&self) -> Result<Sparse> {
        Sparse::new(self.parts())
    }
    pub(crate) fn parts(&self) -> Parts {
        self.parts.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn replace(&self, parts: Parts) {
        let old = {
            let mut p = self.parts.write().unwrap_or_else(|e| e.into_inner());
            std::mem::replace(&mut *p, parts)
        };
        // without the lock
        drop(old);
        self.memory.bump_version();
    }
}

impl Tensor {
    /// A sparse tensor of these parts, which it shares. The indices are taken as they are.
    ///
    /// # Errors
    /// Parts that do not agree with each other or with the sizes.
    pub(crate) fn from_sparse_parts(sizes: &[i64], layout: Layout, parts: Parts) -> Result<Tensor> {
        let dtype = parts.values().dtype();
        checked_numel(sizes)?;
        parts.check(sizes, layout, dtype)?;
        Tensor::sparse_raw(sizes, layout, dtype, Sparse::new(parts.detached())?)
    }
    /// What the tensor is made of, if it is sparse.
    pub(crate) fn sparse_parts(&self) -> Option<Parts> {
        self.sparse().map(Sparse::parts)
    }
    /// Puts other parts into a sparse tensor: how operators in place change it. Every handle sees it.
    ///
    /// # Errors
    /// Strided tensors; parts that do not agree with the tensor's sizes and dtype.
    pub(crate) fn set_sparse_parts(&self, parts: Parts) -> Result<()> {
        let Some(s) = self.sparse() else {
            return Err(Error::runtime("a strided tensor has no sparse parts"));
        };
        parts.check(self.sizes(), self.layout(), self.dtype())?;
        s.replace(parts.detached());
        Ok(())
    }
    /// Any layout but strided.
    pub(crate) fn is_sparse_any(&self) -> bool {
        self.layout() != Layout::Strided
    }
    /// Coordinates and values (`layout` is [`Layout::SparseCoo`]).
    #[doc(alias = "torch.Tensor.is_sparse")]
    pub fn is_sparse(&self) -> bool {
        self.layout() == Layout::SparseCoo
    }
    /// Compressed rows (`layout` is [`Layout::SparseCsr`]).
    #[doc(alias = "torch.Tensor.is_sparse_csr")]
    pub fn is_sparse_csr(&self) -> bool {
        self.layout() == Layout::SparseCsr
    }
}

/// Refuses a sparse tensor where memory is read directly.
#[inline(always)]
pub(crate) fn check_memory(t: &Tensor) -> Result<()> {
    if t.is_common() { Ok(()) } else { check_rare(t) }
}
#[cold]
fn check_rare(t: &Tensor) -> Result<()> {
    check_readable(t, Asked::Memory)?;
    ensure!(
        !t.is_wrapper(),
        Unsupported,
        "a {} has no elements in memory of its own: ask it for the tensors that it is made of",
        t.wrapped().map_or("tensor", |w| w.class())
    );
    ensure!(
        t.layout() == Layout::Strided,
        Unsupported,
        "a tensor of layout torch.{} has no elements in memory: call to_dense() first",
        t.layout().name()
    );
    Ok(())
}
