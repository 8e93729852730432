//! Sparse tensors from indices and values that a user gives.

use crate::compressed::{by_rows, in_blocks};
use crate::coo::{Coo, cast, flatten};
use crate::ops as o;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion::default_dtype;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::tensor::graph;
use flambeau_core::tensor::sparse::checked_numel;
use flambeau_core::{DType, Device, Error, IntoDims, Layout, Result, Tensor, ensure, ops};
use std::sync::atomic::{AtomicBool, Ordering};

static CHECKS: AtomicBool = AtomicBool::new(false);

/// Whether indices that are given are checked where a call does not say.
#[doc(alias = "torch.sparse.check_sparse_tensor_invariants.is_enabled")]
pub fn is_checking_invariants() -> bool {
    CHECKS.load(Ordering::Relaxed)
}
/// Checks indices that are given from now on, or no longer does.
///
/// ```
/// use torch::sparse::{is_checking_invariants, set_check_invariants};
/// set_check_invariants(true);
/// assert!(is_checking_invariants());
/// ```
#[doc(alias = "torch.sparse.check_sparse_tensor_invariants.enable")]
#[doc(alias = "torch.sparse.check_sparse_tensor_invariants.disable")]
pub fn set_check_invariants(on: bool) {
    CHECKS.store(on, Ordering::Relaxed);
}
/// Runs `f` while indices that are given are checked (or not).
///
/// ```
/// use torch::sparse::{check_sparse_tensor_invariants, is_checking_invariants};
/// assert!(check_sparse_tensor_invariants(true, is_checking_invariants));
/// assert!(!is_checking_invariants());
/// ```
#[doc(alias = "torch.sparse.check_sparse_tensor_invariants")]
pub fn check_sparse_tensor_invariants<R>(enable: bool, f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            set_check_invariants(self.0);
        }
    }
    let _back = Back(CHECKS.swap(enable, Ordering::Relaxed));
    f()
}

/// Keyword arguments of the constructors of sparse tensors.
#[derive(Clone, Debug, Default)]
pub struct SparseOptions {
    size: Option<Vec<i64>>,
    dtype: Option<DType>,
    device: Option<Device>,
    requires_grad: bool,
    check_invariants: Option<bool>,
    is_coalesced: Option<bool>,
}
impl SparseOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sizes of the tensor (by default the smallest that hold all indices).
    pub fn size(mut self, size: impl IntoDims) -> Self {
        self.size = Some(size.into_dims().to_vec());
        self
    }
    /// Dtype of the values (by default theirs).
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }
    /// Device: sparse tensors are on the CPU.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// Makes the tensor a leaf that takes a gradient.
    pub fn requires_grad(mut self, on: bool) -> Self {
        self.requires_grad = on;
        self
    }
    /// Checks the indices (by default as [`is_checking_invariants`] says).
    pub fn check_invariants(mut self, on: bool) -> Self {
        self.check_invariants = Some(on);
        self
    }
    /// Says that each place occurs once, in order. It is believed unless invariants are checked.
    pub fn is_coalesced(mut self, on: bool) -> Self {
        self.is_coalesced = Some(on);
        self
    }
    fn checks(&self) -> bool {
        self.check_invariants.unwrap_or_else(is_checking_invariants)
    }
    fn check_device(&self) -> Result<()> {
        match self.device {
            None | Some(Device::Cpu) => Ok(()),
            Some(d) => Err(Error::missing(format!("sparse tensors on {d}"))),
        }
    }
    fn values(&self, values: &Tensor) -> Result<Tensor> {
        let v = match self.dtype {
            Some(d) if d != values.dtype() => ops::to(values, Some(d), None, None, None, false, false, None)?,
            _ => values.clone(),
        };
        // one element may be given as a number
        if v.dim() == 0 { ops::unsqueeze(&v, 0) } else { Ok(v) }
    }
    fn finish(&self, t: Tensor) -> Result<Tensor> {
        if self.requires_grad {
            (graph::engine()?.set_requires_grad)(&t, true)?;
        }
        Ok(t)
    }
}

/// [`functions::sparse_coo_tensor_with`] with a result.
///
/// # Errors
/// Indices and values that do not agree in number or with the size; with `check_invariants`, indices outside of it.
pub(crate) fn coo(indices: &Tensor, values: &Tensor, options: &SparseOptions) -> Result<Tensor> {
    options.check_device()?;
    let values = options.values(values)?;
    ensure!(
        indices.layout() == Layout::Strided && values.layout() == Layout::Strided,
        Runtime,
        "sparse_coo_tensor: expected dense indices and values"
    );
    let indices = cast(&indices.alias_detached(), DType::I64)?;
    let shape = |t: &Tensor| fmt_sizes(t.sizes());
    let size = match &options.size {
        Some(size) => {
            ensure!(
                indices.dim() > 0,
                Runtime,
                "indices must be sparse_dim x nnz, but got: {}",
                shape(&indices)
            );
            let (sparse, dense) = (indices.sizes()[0], values.dim() as i64 - 1);
            ensure!(
                size.len() as i64 == sparse + dense,
                Runtime,
                "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = {sparse}, dense_dim \
                 = {dense}",
                size.len()
            );
            size.clone()
        }
        None => {
            ensure!(
                indices.dim() == 2,
                Runtime,
                "indices must be sparse_dim x nnz, but got: {}",
                shape(&indices)
            );
            let n = indices.sizes()[1] as usize;
            let all = indices.try_to_vec::<i64>()?;
            let mut size = Vec::new();
            for d in 0..indices.sizes()[0] as usize {
                let of = &all[d * n..(d + 1) * n];
                let least = of.iter().copied().min().unwrap_or(0);
                ensure!(least >= 0, Runtime, "found negative index {least} for dim {d}");
                size.push(of.iter().copied().max().map_or(0, |m| m.saturating_add(1)));
            }
            size.extend_from_slice(&values.sizes()[1..]);
            size
        }
    };
    ensure!(indices.dim() == 2, Runtime, "indices must be sparse_dim x nnz, but got: {}", shape(&indices));
    checked_numel(&size)?;
    let sparse = indices.sizes()[0] as usize;
    if options.checks() {
        let flat = flatten(&indices, &size[..sparse])?;
        ensure!(
            options.is_coalesced != Some(true) || flat.windows(2).all(|w| w[0] < w[1]),
            Runtime,
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        );
    }
    options.finish(o::sparse_coo_tensor_unsafe(&indices, &values, &size, options.is_coalesced)?)
}
/// A COO tensor with nothing specified.
pub(crate) fn coo_zeros(size: &[i64], options: &SparseOptions) -> Result<Tensor> {
    options.check_device()?;
    checked_numel(size)?;
    options.finish(Coo::empty(size, size.len(), options.dtype.unwrap_or_else(default_dtype))?.build()?)
}

/// The constructor of all compressed layouts.
pub(crate) fn compressed(
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    layout: Layout,
    options: &SparseOptions,
) -> Result<Tensor> {
    options.check_device()?;
    let values = options.values(values)?;
    ensure!(
        compressed.dim() >= 1 && plain.dim() >= 1,
        Runtime,
        "compressed_indices and plain_indices must have dimensionality >= 1 but got {} and {}",
        compressed.dim(),
        plain.dim()
    );
    ensure!(
        compressed.dtype().is_integral(false) && plain.dtype().is_integral(false),
        Runtime,
        "compressed_indices and plain_indices dtype must be Int or Long, but got {} and {}",
        compressed.dtype().scalar_type_name(),
        plain.dtype().scalar_type_name()
    );
    let narrow = compressed.dtype() == DType::I32 && plain.dtype() == DType::I32;
    let as_index = |t: &Tensor| cast(&t.alias_detached(), if narrow { DType::I32 } else { DType::I64 });
    let (compressed, plain) = (as_index(compressed)?, as_index(plain)?);
    let size = match &options.size {
        Some(s) => s.clone(),
        None => {
            let batch = plain.dim() - 1;
            let blocks = in_blocks(layout);
            ensure!(
                values.dim() > batch + if blocks { 2 } else { 0 },
                Runtime,
                "values must have dimensionality > sum of batch and block dimensionalities (={batch} + {}), but got {}",
                if blocks { 2 } else { 0 },
                values.dim()
            );
            let (br, bc) =
                if blocks { (values.sizes()[batch + 1], values.sizes()[batch + 2]) } else { (1, 1) };
            let lines = compressed.sizes().last().copied().unwrap_or(1) - 1;
            let across = cast(&plain, DType::I64)?
                .try_to_vec::<i64>()?
                .into_iter()
                .max()
                .map_or(0, |m| m.saturating_add(1));
            let (rows, columns) = if by_rows(layout) { (lines, across) } else { (across, lines) };
            let mut size = plain.sizes()[..batch].to_vec();
            size.extend([rows.saturating_mul(br), columns.saturating_mul(bc)]);
            size.extend_from_slice(&values.sizes()[batch + if blocks { 3 } else { 1 }..]);
            size
        }
    };
    checked_numel(&size)?;
    if options.checks() {
        crate::invariants::check(&compressed, &plain, &values, &size, layout)?;
    }
    let t = o::sparse_compressed_tensor_unsafe(&compressed, &plain, &values, &size, layout)?;
    options.finish(t)
}

/// Constructors, as the documentation names them.
pub mod functions {
    use super::*;
    use flambeau_core::api::ergonomic::expect;

    /// A tensor by coordinates: `indices` is number of sparse dimensions x n, `values` n x dense sizes. Values of one
    /// place count together. The size is the smallest that holds all indices.
    ///
    /// ```
    /// use torch::Tensor;
    /// use torch::{prelude::*, sparse_coo_tensor};
    ///
    /// let indices = Tensor::from_slice(&[0i64, 1, 1, 2, 0, 2], [2, 3]);
    /// let s = sparse_coo_tensor(&indices, &Tensor::from_slice(&[3f32, 4.0, 5.0], 3), [2, 3]);
    /// assert_eq!(s.to_dense().to_vec::<f32>(), [0.0, 0.0, 3.0, 4.0, 0.0, 5.0]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.sparse_coo_tensor")]
    pub fn sparse_coo_tensor(indices: &Tensor, values: &Tensor, size: impl IntoDims) -> Tensor {
        expect(coo(indices, values, &SparseOptions::new().size(size)))
    }
    /// [`sparse_coo_tensor`] with all keyword arguments; the size, if it is left out, is the least that holds all indices.
    #[track_caller]
    pub fn sparse_coo_tensor_with(indices: &Tensor, values: &Tensor, options: SparseOptions) -> Tensor {
        expect(coo(indices, values, &options))
    }
    /// [`sparse_coo_tensor_with`] with an error instead of a panic.
    ///
    /// # Errors
    /// Indices and values that do not agree in number or with the size; with `check_invariants`, indices outside of it.
    pub fn try_sparse_coo_tensor(
        indices: &Tensor,
        values: &Tensor,
        options: SparseOptions,
    ) -> Result<Tensor> {
        coo(indices, values, &options)
    }
    /// A COO tensor of zeros, none of them specified: Python's `torch.sparse_coo_tensor(size=size)`.
    ///
    /// ```
    /// use torch::prelude::*;
    /// let x = torch::sparse_coo_zeros([2, 3]);
    /// assert_eq!((x._nnz(), x.to_dense().sum().item::<f32>()), (0, 0.0));
    /// ```
    #[track_caller]
    pub fn sparse_coo_zeros(size: impl IntoDims) -> Tensor {
        expect(coo_zeros(&size.into_dims(), &SparseOptions::new()))
    }
    /// [`sparse_coo_zeros`] with all keyword arguments.
    #[track_caller]
    pub fn sparse_coo_zeros_with(size: impl IntoDims, options: SparseOptions) -> Tensor {
        expect(coo_zeros(&size.into_dims(), &options))
    }
    /// [`sparse_coo_zeros_with`] with an error instead of a panic.
    ///
    /// # Errors
    /// Sizes that are negative or too large.
    pub fn try_sparse_coo_zeros(size: impl IntoDims, options: SparseOptions) -> Result<Tensor> {
        coo_zeros(&size.into_dims(), &options)
    }
    /// [`sparse_compressed_tensor_with`] with an error instead of a panic.
    ///
    /// # Errors
    /// Parts that do not agree with each other or with the size; with `check_invariants`, indices that are none.
    pub fn try_sparse_compressed_tensor(
        compressed_indices: &Tensor,
        plain_indices: &Tensor,
        values: &Tensor,
        layout: Layout,
        options: SparseOptions,
    ) -> Result<Tensor> {
        compressed(compressed_indices, plain_indices, values, layout, &options)
    }
    /// A tensor of a compressed layout: where each row (column) begins, the other coordinates, the values. Panics with the
    /// text of [`try_sparse_compressed_tensor`]'s error.
    ///
    /// ```
    /// use torch::{Layout, prelude::*, tensor};
    /// // a row with one element, a row with two
    /// let (rows, columns) = (tensor([0i64, 1, 3]), tensor([1i64, 0, 2]));
    /// let x = torch::sparse_compressed_tensor(&rows, &columns, &tensor([1.0, 2.0, 3.0]), Layout::SparseCsr);
    /// assert_eq!(x.to_dense().to_vec::<f32>(), [0.0, 1.0, 0.0, 2.0, 0.0, 3.0]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.sparse_compressed_tensor")]
    pub fn sparse_compressed_tensor(
        compressed_indices: &Tensor,
        plain_indices: &Tensor,
        values: &Tensor,
        layout: Layout,
    ) -> Tensor {
        expect(compressed(compressed_indices, plain_indices, values, layout, &SparseOptions::new()))
    }
    /// [`sparse_compressed_tensor`] with all keyword arguments.
    #[track_caller]
    pub fn sparse_compressed_tensor_with(
        compressed_indices: &Tensor,
        plain_indices: &Tensor,
        values: &Tensor,
        layout: Layout,
        options: SparseOptions,
    ) -> Tensor {
        expect(compressed(compressed_indices, plain_indices, values, layout, &options))
    }
    macro_rules! layouts {
        ($($(#[$doc:meta])* $name:ident $with:ident $layout:ident $python:literal ($a:ident, $b:ident);)*) => {$(
            $(#[$doc])*
            #[track_caller]
            #[doc(alias = $python)]
            pub fn $name($a: &Tensor, $b: &Tensor, values: &Tensor) -> Tensor {
                expect(compressed($a, $b, values, Layout::$layout, &SparseOptions::new()))
            }
            #[doc = concat!("[`", stringify!($name), "`] with all keyword arguments.")]
            #[track_caller]
            pub fn $with($a: &Tensor, $b: &Tensor, values: &Tensor, options: SparseOptions) -> Tensor {
                expect(compressed($a, $b, values, Layout::$layout, &options))
            }
        )*};
    }
    layouts! {
        /// A tensor by compressed rows.
        sparse_csr_tensor sparse_csr_tensor_with SparseCsr "torch.sparse_csr_tensor" (crow_indices, col_indices);
        /// A tensor by compressed columns.
        sparse_csc_tensor sparse_csc_tensor_with SparseCsc "torch.sparse_csc_tensor" (ccol_indices, row_indices);
        /// A tensor by compressed rows of blocks, which `values` holds: n x block rows x block columns.
        sparse_bsr_tensor sparse_bsr_tensor_with SparseBsr "torch.sparse_bsr_tensor" (crow_indices, col_indices);
        /// A tensor by compressed columns of blocks.
        sparse_bsc_tensor sparse_bsc_tensor_with SparseBsc "torch.sparse_bsc_tensor" (ccol_indices, row_indices);
    }
}
