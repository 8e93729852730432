//! Forged parts are refused.

use crate::{error, i64s, uncoalesced};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{Layout, Scalar, Tensor, functions as torch};
use flambeau_sparse::functions::*;
use flambeau_sparse::{SparseOptions, TensorSparseExt, ops};

#[test]
fn forged_parts() {
    let values = Tensor::from_slice(&[1f32, 2.0], 2);
    let coo = |i: &Tensor, v: &Tensor, s: &[i64]| {
        try_sparse_coo_tensor(i, v, SparseOptions::new().size(s).check_invariants(true))
    };
    let at = i64s(&[0, 3], [1, 2]);
    assert_eq!(
        error(coo(&at, &values, &[2])),
        "size is inconsistent with indices: for dim 0, size is 2 but found index 3"
    );
    assert_eq!(error(coo(&i64s(&[0, -3], [1, 2]), &values, &[2])), "found negative index -3 for dim 0");
    assert_eq!(
        error(coo(&at, &values, &[2, 2])),
        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = 2, sparse_dim = 1, dense_dim = 0"
    );
    assert_eq!(
        error(coo(&i64s(&[0, 1, 2], [1, 3]), &values, &[3])),
        "indices and values must have same nnz, but got nnz from indices: 3, nnz from values: 2"
    );
    let huge = [1i64 << 40, 1 << 40];
    assert_eq!(
        error(coo(&i64s(&[0, 0, 0, 0], [2, 2]), &values, &huge)),
        "numel: integer multiplication overflow"
    );
    // indices that nobody checked, or that were written to later, are errors where they are used
    for bad in [99i64, -1, i64::MAX, i64::MIN] {
        let t = sparse_coo_tensor(&i64s(&[0, 1, 0, 1], [2, 2]), &values, [2, 2]);
        t._indices().elements_mut::<i64>()[1] = bad;
        let dense = torch::ones([2, 2]);
        let index = Tensor::from_slice(&[0i64], 1);
        let one = Scalar::Int(1);
        for (what, r) in [
            ("to_dense", ops::to_dense(&t, None, None)),
            ("coalesce", ops::coalesce(&t)),
            ("add", flambeau_core::ops::add(&dense, &t, one)),
            ("add sparse", flambeau_core::ops::add(&t, &t, one)),
            ("mul", flambeau_core::ops::mul(&t, &dense)),
            ("mul sparse", flambeau_core::ops::mul(&t, &t)),
            ("mm", flambeau_core::ops::mm(&t, &dense)),
            ("sparse mm", flambeau_core::ops::mm(&t, &t)),
            ("sum", flambeau_core::ops::sum(&t, Some(&[1]), false, None)),
            ("mask", ops::sparse_mask(&dense, &t)),
            ("csr", ops::to_sparse_csr(&t, None)),
            ("softmax", ops::sparse_softmax(&t, 1, None)),
            ("index_select", flambeau_core::ops::index_select(&t, 0, &index)),
        ] {
            assert!(r.is_err(), "{what} takes the index {bad}");
        }
    }
    let csr = |c: &[i64], p: &[i64]| {
        let (c, p) = (Tensor::from_slice(c, c.len() as i64), Tensor::from_slice(p, p.len() as i64));
        let parts = Parts::Compressed { compressed: c, plain: p, values: values.clone() };
        Tensor::from_sparse_parts(&[2, 2], Layout::SparseCsr, parts)
            .and_then(|t| ops::to_dense(&t, None, None))
    };
    assert_eq!(csr(&[0, 1, 2], &[1, 0]).unwrap().to_vec::<f32>(), [0.0, 1.0, 2.0, 0.0]);
    for (c, p) in [
        (&[0, 1, 3][..], &[1, 0]),
        (&[1, 1, 2], &[1, 0]),
        (&[0, 5, 2], &[1, 0]),
        (&[0, 1, 2], &[2, 0]),
        (&[0, 1, 2], &[1, -1]),
        (&[0, 1], &[1, 0]),
        (&[0, i64::MAX, 2], &[1, 0]),
    ] {
        assert!(csr(c, p).is_err(), "{c:?} {p:?}");
    }
    // no kernel reads a sparse tensor as memory
    let t = uncoalesced();
    assert!(t.try_elements::<f32>().is_err() && t.try_to_vec::<f32>().is_err());
    assert!(flambeau_core::ops::sigmoid(&t).is_err() && flambeau_core::ops::view(&t, &[6]).is_err());
    assert!(t.copy().try_resize_(&[1], None).is_err());
}
