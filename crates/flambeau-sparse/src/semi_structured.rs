//! Matrices of which two of every four elements of a row are zero (2:4): half the values and their places.

use crate::compressed::Compressed;
use crate::coo::{index, take};
use crate::ops::{self, to_layout};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{DType, Error, Layout, MemoryFormat, Result, Tensor, ensure, ops as core};

/// A matrix in which at most two of every four elements of a row, counted from its start, are not zero. Two of each four are
/// kept, whether they are zero or not; products with it take half the multiplications of a dense matrix.
///
/// PyTorch has this for CUDA alone, in the packings of two libraries. Here it is the same idea on the CPU, and a packing of its
/// own.
///
/// ```
/// let a = torch::tensor([[0.0, 3.0, 0.0, -1.0], [2.0, 0.0, 0.0, 0.0]]);
/// let s = torch::sparse::to_sparse_semi_structured(&a);
/// assert_eq!(s.values().to_vec::<f32>(), [3.0, -1.0, 2.0, 0.0]);
/// let b = torch::ones([4, 2]);
/// assert_eq!(s.mm(&b).to_vec::<f32>(), a.mm(&b).to_vec::<f32>());
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.sparse.SparseSemiStructuredTensor")]
pub struct SparseSemiStructuredTensor {
    /// By compressed rows, half as many elements in each as there are columns.
    rows: Tensor,
}

/// A dense matrix as a [`SparseSemiStructuredTensor`].
///
/// # Panics
/// What is no matrix, has a number of columns that four does not divide, or more than two elements in a group of four.
#[doc(alias = "torch.sparse.to_sparse_semi_structured")]
#[track_caller]
pub fn to_sparse_semi_structured(dense: &Tensor) -> SparseSemiStructuredTensor {
    expect(SparseSemiStructuredTensor::try_new(dense))
}
/// [`to_sparse_semi_structured`] with an error instead of a panic.
///
/// # Errors
/// What it panics on.
pub fn try_to_sparse_semi_structured(dense: &Tensor) -> Result<SparseSemiStructuredTensor> {
    SparseSemiStructuredTensor::try_new(dense)
}

impl SparseSemiStructuredTensor {
    /// [`to_sparse_semi_structured`] with a result.
    ///
    /// # Errors
    /// What is no matrix, has a number of columns that four does not divide, or more than two elements in a group of four.
    pub fn try_new(dense: &Tensor) -> Result<Self> {
        ensure!(
            dense.layout() == Layout::Strided && dense.dim() == 2,
            Runtime,
            "Error original_tensor.dim = {} is not supported! Only 2d tensors are currently supported.",
            dense.dim()
        );
        let (m, k) = (dense.sizes()[0], dense.sizes()[1]);
        ensure!(
            k % 4 == 0,
            Runtime,
            "Error original_tensor.shape [{m}, {k}] is not supported! The number of columns must be a multiple of 4"
        );
        let zero = flambeau_autograd::shorthand::number(0)?;
        let set = core::to(&core::ne(dense, &zero)?, Some(DType::U8), None, None, None, false, false, None)?;
        let set = set.try_to_vec::<u8>()?;
        let (mut columns, mut from) = (Vec::with_capacity(set.len() / 2), Vec::with_capacity(set.len() / 2));
        for (g, four) in set.chunks_exact(4).enumerate() {
            let mut kept: Vec<usize> = (0..4).filter(|i| four[*i] != 0).collect();
            if kept.len() > 2 {
                let (row, column) = (g as i64 * 4 / k, g as i64 * 4 % k);
                return Err(Error::runtime(format!(
                    "Error original_tensor is not 2:4 sparse! Row {row} has more than two elements in columns {column} to {}",
                    column + 3
                )));
            }
            for i in 0..4 {
                if kept.len() < 2 && !kept.contains(&i) {
                    kept.push(i);
                }
            }
            kept.sort_unstable();
            for i in kept {
                let at = g as i64 * 4 + i as i64;
                columns.push(at % k);
                from.push(at);
            }
        }
        let starts: Vec<i64> = (0..=m).map(|i| i * (k / 2)).collect();
        let flat = core::reshape(&core::contiguous(dense, MemoryFormat::Contiguous)?, &[-1])?;
        let rows = Compressed {
            sizes: vec![m, k],
            layout: Layout::SparseCsr,
            compressed: index(&starts)?,
            plain: index(&columns)?,
            values: take(&flat, 0, &from)?,
        };
        Ok(SparseSemiStructuredTensor { rows: rows.build()? })
    }
    /// Rows and columns.
    pub fn sizes(&self) -> &[i64] {
        self.rows.sizes()
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.rows.dtype()
    }
    /// The values that are kept: two of every four elements, row by row.
    ///
    /// # Panics
    /// Never with a tensor of this crate's making.
    #[track_caller]
    pub fn values(&self) -> Tensor {
        expect(ops::values(&self.rows))
    }
    /// The dense matrix.
    ///
    /// # Panics
    /// No memory.
    #[track_caller]
    pub fn to_dense(&self) -> Tensor {
        expect(to_layout(&self.rows, Layout::Strided))
    }
    /// The product with a dense matrix.
    ///
    /// # Panics
    /// Sizes that do not fit, another dtype.
    #[track_caller]
    pub fn mm(&self, dense: &Tensor) -> Tensor {
        expect(self.try_mm(dense))
    }
    /// [`SparseSemiStructuredTensor::mm`] with a result.
    ///
    /// # Errors
    /// Sizes that do not fit, another dtype.
    pub fn try_mm(&self, dense: &Tensor) -> Result<Tensor> {
        core::mm(&self.rows, dense)
    }
    /// `input` times the transpose of this matrix, and `bias` added: what a linear layer computes with it as its weight.
    /// `input` has any number of dimensions, the last of them this matrix's columns.
    ///
    /// # Panics
    /// Sizes that do not fit, another dtype.
    #[track_caller]
    pub fn linear(&self, input: &Tensor, bias: Option<&Tensor>) -> Tensor {
        expect(self.try_linear(input, bias))
    }
    /// [`SparseSemiStructuredTensor::linear`] with a result.
    ///
    /// # Errors
    /// Sizes that do not fit, another dtype.
    pub fn try_linear(&self, input: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let (m, k) = (self.sizes()[0], self.sizes()[1]);
        ensure!(
            input.sizes().last() == Some(&k),
            Runtime,
            "linear: expected an input whose last dimension is {k}, but got sizes {}",
            flambeau_core::tensor::geometry::fmt_sizes(input.sizes())
        );
        let flat = core::reshape(input, &[-1, k])?;
        let product = core::mm(&self.rows, &core::transpose(&flat, 0, 1)?)?;
        let mut sizes = input.sizes().to_vec();
        if let Some(last) = sizes.last_mut() {
            *last = m;
        }
        let out = core::reshape(&core::transpose(&product, 0, 1)?, &sizes)?;
        match bias {
            Some(b) => core::add(&out, b, 1.into()),
            None => Ok(out),
        }
    }
}
