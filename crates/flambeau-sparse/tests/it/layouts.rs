//! Round trips between layouts in every dtype, and printing.

use crate::{i64s, uncoalesced};
use flambeau_core::api::literal::tensor;
use flambeau_core::{DType, Tensor, functions as torch};
use flambeau_sparse::TensorSparseExt;
use flambeau_sparse::functions::*;

/// Every dtype comes back from every layout as it was, strided and not.
#[test]
fn round_trips() {
    let base =
        tensor([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 4.0, 0.0], [0.0, 5.0, 6.0, 0.0]]);
    let dtypes = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];
    for d in dtypes {
        for x in [base.to(d), base.to(d).t()] {
            let same = |s: Tensor| {
                assert_eq!((s.sizes(), s.dtype()), (x.sizes(), d));
                assert!(torch::equal(&s.to_dense(), &x), "{s} is not {x}");
            };
            for dim in 1..=2 {
                same(x.to_sparse_dim(dim));
            }
            same(x.to_sparse_csr());
            same(x.to_sparse_csc());
            same(x.to_sparse_bsr([2, 2]));
            same(x.to_sparse_bsc([2, 1]));
            same(x.to_sparse_csr().to_sparse_coo());
            same(x.to_sparse().to_sparse_bsc([1, 2]));
            same(x.to_sparse_bsr([2, 2]).to_sparse_csc());
        }
    }
    for shape in [vec![], vec![0], vec![2, 0, 3], vec![1]] {
        let x = torch::ones(&shape[..]);
        assert!(torch::equal(&x.to_sparse().to_dense(), &x));
    }
    assert_eq!(torch::zeros(()).to_sparse()._nnz(), 0);
    let batches = torch::stack(&[base.clone(), base.clone()], 0);
    assert!(torch::equal(&batches.to_sparse_csr().to_dense(), &batches));
    assert_eq!(batches.to_sparse_csr()._nnz(), 6);
}

#[test]
fn prints_as_pytorch() {
    let c = uncoalesced().coalesce();
    assert_eq!(
        c.to_string(),
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n       values=tensor([10.,  4.,  5.]),\n       \
         size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    );
    let v = Tensor::from_slice(&[1f32; 3], 3).requires_grad_(true);
    assert_eq!(
        sparse_coo_tensor(&i64s(&[0, 1, 1], [1, 3]), &v, 3).to_string(),
        "tensor(indices=tensor([[0, 1, 1]]),\n       values=tensor([1., 1., 1.]),\n       size=(3,), nnz=3, \
         layout=torch.sparse_coo,\n       grad_fn=<SparseCooTensorWithDimsAndTensorsBackward0>)"
    );
    assert!(
        torch::zeros_with([2, 3], flambeau_core::TensorOptions::new())
            .to_sparse()
            .to_string()
            .contains("nnz=0")
    );
}
