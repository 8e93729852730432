//! Coordinates: what all kernels of COO tensors are made of.
//!
//! Indices are worked on as numbers in Rust; they are never trusted (see `flambeau_core::tensor::sparse`). Values are moved and
//! added by operators on strided tensors, which have loops for every dtype.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{DType, Device, Layout, Result, Scalar, Tensor, ensure, ops};

/// A COO tensor taken apart.
#[derive(Clone)]
pub struct Coo {
    /// All sizes, sparse ones first.
    pub sizes: Vec<i64>,
    /// Number of sparse dimensions x number of elements.
    pub indices: Tensor,
    /// Number of elements x dense sizes.
    pub values: Tensor,
    /// Each place once, in ascending order.
    pub coalesced: bool,
}

/// "Strided", "Sparse": layouts as C++ prints them.
pub fn layout_name(l: Layout) -> &'static str {
    match l {
        Layout::Strided => "Strided",
        Layout::SparseCoo => "Sparse",
        Layout::SparseCsr => "SparseCsr",
        Layout::SparseCsc => "SparseCsc",
        Layout::SparseBsr => "SparseBsr",
        Layout::SparseBsc => "SparseBsc",
        Layout::Jagged => "Jagged",
    }
}

impl Coo {
    /// Takes a COO tensor apart. `op` is for the error.
    pub fn of(t: &Tensor, op: &str) -> Result<Coo> {
        match t.sparse_parts() {
            Some(Parts::Coo { indices, values, coalesced }) => {
                Ok(Coo { sizes: t.sizes().to_vec(), indices, values, coalesced })
            }
            _ => Err(flambeau_core::Error::runtime(format!(
                "{op} expected sparse coordinate tensor layout but got {}",
                layout_name(t.layout())
            ))),
        }
    }
    /// Nothing but zeros.
    pub fn empty(sizes: &[i64], sparse_dim: usize, dtype: DType) -> Result<Coo> {
        let mut values = vec![0];
        values.extend_from_slice(&sizes[sparse_dim..]);
        Ok(Coo {
            sizes: sizes.to_vec(),
            indices: Tensor::empty_raw(&[sparse_dim as i64, 0], DType::I64, Device::Cpu)?,
            values: Tensor::empty_raw(&values, dtype, Device::Cpu)?,
            coalesced: true,
        })
    }
    /// The tensor.
    pub fn build(self) -> Result<Tensor> {
        let parts = self.parts();
        Tensor::from_sparse_parts(&self.sizes, Layout::SparseCoo, parts)
    }
    /// Its parts.
    pub fn parts(&self) -> Parts {
        Parts::Coo {
            indices: self.indices.clone(),
            values: self.values.clone(),
            coalesced: self.coalesced || self.nnz() < 2,
        }
    }
    /// Number of elements.
    pub fn nnz(&self) -> i64 {
        self.indices.sizes()[1]
    }
    /// Number of sparse dimensions.
    pub fn sparse_dim(&self) -> usize {
        self.indices.sizes()[0] as usize
    }
    /// Number of dense dimensions.
    pub fn dense_dim(&self) -> usize {
        self.sizes.len() - self.sparse_dim()
    }
    /// Sizes of the sparse dimensions.
    pub fn sparse_sizes(&self) -> &[i64] {
        &self.sizes[..self.sparse_dim()]
    }
    /// Sizes of the dense dimensions.
    pub fn dense_sizes(&self) -> &[i64] {
        &self.sizes[self.sparse_dim()..]
    }
    /// The place of each element when the sparse dimensions are one.
    ///
    /// # Errors
    /// Indices outside of the sizes.
    pub fn flat(&self) -> Result<Vec<i64>> {
        flatten(&self.indices, self.sparse_sizes())
    }
    /// Each place once, in ascending order; elements of one place are added in their order.
    pub fn coalesce(&self) -> Result<Coo> {
        if self.coalesced {
            return Ok(self.clone());
        }
        let groups = Groups::of(&self.flat()?)?;
        Ok(Coo {
            sizes: self.sizes.clone(),
            indices: take(&self.indices, 1, &groups.first)?,
            values: groups.sum(&self.values)?,
            coalesced: true,
        })
    }
    /// Other values at the same places.
    pub fn with_values(&self, values: Tensor) -> Coo {
        Coo { values, ..self.clone() }
    }
}

/// Elements by place.
pub struct Groups {
    /// The first element of each place, places ascending.
    pub first: Vec<i64>,
    /// The place's number of each element.
    pub of: Vec<i64>,
}
impl Groups {
    /// Sorts places, which `flatten` gives.
    ///
    /// # Errors
    /// No memory.
    pub fn of(flat: &[i64]) -> Result<Groups> {
        let mut order: Vec<usize> = geometry::listed(0..flat.len())?;
        order.sort_unstable_by_key(|i| (flat[*i], *i));
        let n = flat.len() as i64;
        let (mut first, mut of) = (geometry::room(n)?, geometry::filled(0, n)?);
        let mut last = None;
        for i in order {
            if last != Some(flat[i]) {
                last = Some(flat[i]);
                first.push(i as i64);
            }
            of[i] = first.len() as i64 - 1;
        }
        Ok(Groups { first, of })
    }
    /// The sum of each place's values.
    pub fn sum(&self, values: &Tensor) -> Result<Tensor> {
        if self.first.len() == self.of.len() {
            // as they are: adding to zero would lose the sign of a negative zero
            return take(values, 0, &self.first);
        }
        scatter_add(self.first.len() as i64, &self.of, values)
    }
}

/// int64 numbers as a tensor.
pub fn index(v: &[i64]) -> Result<Tensor> {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64])
}
/// Slices of dimension `dim` by number.
pub fn take(t: &Tensor, dim: i64, at: &[i64]) -> Result<Tensor> {
    ops::index_select(t, dim, &index(at)?)
}
/// `n` zero rows, and the rows of `values` added to those that `to` names.
pub fn scatter_add(n: i64, to: &[i64], values: &Tensor) -> Result<Tensor> {
    let mut sizes = values.sizes().to_vec();
    sizes[0] = n;
    let out = Tensor::zeros_raw(&sizes, values.dtype(), values.device())?;
    add_rows(&out, to, values)?;
    Ok(out)
}
/// Adds the rows of `values` to rows of `out`.
pub fn add_rows(out: &Tensor, to: &[i64], values: &Tensor) -> Result<()> {
    if out.numel() == 0 || values.numel() == 0 {
        return Ok(());
    }
    let at = index(to)?;
    if out.dtype() != DType::Bool {
        return ops::index_add_(out, 0, &at, values, Scalar::Int(1));
    }
    // true where any is true
    let count = Tensor::zeros_raw(out.sizes(), DType::I64, Device::Cpu)?;
    ops::index_add_(&count, 0, &at, &cast(values, DType::I64)?, Scalar::Int(1))?;
    ops::copy_(out, &ops::logical_or(out, &cast(&count, DType::Bool)?)?, false)
}
/// Another dtype.
pub fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    flambeau_autograd::shorthand::to_dtype(t, dtype)
}

/// Places in dimensions of these sizes as numbers, row-major.
///
/// # Errors
/// Indices outside of the sizes, in PyTorch's words.
pub fn flatten(indices: &Tensor, sizes: &[i64]) -> Result<Vec<i64>> {
    let n = indices.sizes()[1] as usize;
    let all = indices.try_to_vec::<i64>()?;
    let mut flat = geometry::filled(0i64, n as i64)?;
    for (d, size) in sizes.iter().enumerate() {
        for (f, &i) in flat.iter_mut().zip(&all[d * n..(d + 1) * n]) {
            ensure!(i >= 0, Runtime, "found negative index {i} for dim {d}");
            ensure!(
                i < *size,
                Runtime,
                "size is inconsistent with indices: for dim {d}, size is {size} but found index {i}"
            );
            *f = f.checked_mul(*size).and_then(|f| f.checked_add(i)).ok_or_else(too_many)?;
        }
    }
    Ok(flat)
}
fn too_many() -> flambeau_core::Error {
    flambeau_core::Error::shape("numel: integer multiplication overflow")
}
/// Indices of places that are given as numbers.
pub fn unflatten(flat: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let n = flat.len();
    let mut all = geometry::filled(0i64, geometry::size_mul(n as i64, sizes.len() as i64)?)?;
    let mut rest = flat.to_vec();
    for (d, size) in sizes.iter().enumerate().rev() {
        for (k, r) in rest.iter_mut().enumerate() {
            all[d * n + k] = *r % (*size).max(1);
            *r /= (*size).max(1);
        }
    }
    Tensor::from_vec_raw(all, &[sizes.len() as i64, n as i64])
}
/// The product of sizes.
///
/// # Errors
/// When no number holds it.
pub fn product(sizes: &[i64]) -> Result<i64> {
    sizes.iter().try_fold(1i64, |n, s| n.checked_mul(*s)).ok_or_else(too_many)
}
/// A strided tensor whose first `sparse` dimensions are one.
pub fn rows(t: &Tensor, sparse: usize) -> Result<Tensor> {
    let t =
        ops::contiguous(&ops::resolve_neg(&ops::resolve_conj(t)?)?, flambeau_core::MemoryFormat::Contiguous)?;
    let mut sizes = vec![product(&t.sizes()[..sparse])?];
    sizes.extend_from_slice(&t.sizes()[sparse..]);
    ops::view(&t, &sizes)
}

/// The elements of a strided tensor, which has the sizes of `at`, at its places.
pub fn gather(t: &Tensor, at: &Coo) -> Result<Tensor> {
    at.flat()?;
    if at.sparse_dim() == 0 {
        let mut sizes = vec![at.nnz()];
        sizes.extend_from_slice(&at.sizes);
        return ops::expand(&ops::unsqueeze(t, 0)?, &sizes, false);
    }
    let indices = ops::unbind(&at.indices, 0)?.into_iter().map(Some).collect::<Vec<_>>();
    ops::index(t, &indices)
}
