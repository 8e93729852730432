//! Operators of sparse tensors: values and texts of PyTorch 2.15.

use crate::{assert_coo, error, i64s, other, uncoalesced};
use flambeau_core::api::literal::tensor;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Scalar, Tensor, functions as torch};
use flambeau_sparse::functions::*;
use flambeau_sparse::{TensorSparseExt, TensorSparseResizeExt, ops, sparse};

#[test]
fn coalesce_adds_and_sorts() {
    let (u, c) = (uncoalesced(), uncoalesced().coalesce());
    assert_coo(&c, &[0, 1, 1, 2, 0, 2], &[10.0, 4.0, 5.0], true);
    assert_eq!(u.to_dense().to_vec::<f32>(), c.to_dense().to_vec::<f32>());
    assert!(c.coalesce().is_same(&c));
    let bools = sparse_coo_tensor(&i64s(&[1, 0, 1], [1, 3]), &tensor([true, true, true]), 2);
    assert_eq!(bools.coalesce()._values().to_vec::<flambeau_core::B8>(), [true.into(), true.into()]);
    // a negative zero stays one
    let zero = sparse_coo_tensor(&i64s(&[1, 0], [1, 2]), &Tensor::from_slice(&[-0f32, 1.0], 2), 2).coalesce();
    assert!(zero._values().to_vec::<f32>()[1].is_sign_negative());
    assert_eq!(
        error(ops::values(&u)),
        "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
    );
}

/// What PyTorch gives for sums, products and the like of coalesced and uncoalesced tensors.
#[test]
fn arithmetic() {
    let (u, w) = (uncoalesced(), other());
    let (c, d) = (u.coalesce(), w.coalesce());
    assert_coo(&(&u + &w), &[0, 1, 1, 0, 1, 1, 2, 0, 2, 2, 2, 1], &[3.0, 4.0, 15.0, 27.0, 30.0, 1.0], false);
    assert_coo(&(&c + &d), &[0, 1, 1, 1, 2, 0, 1, 2], &[30.0, 4.0, 1.0, 45.0], true);
    assert_coo(&(&c - &d), &[0, 1, 1, 1, 2, 0, 1, 2], &[-10.0, 4.0, -1.0, -35.0], true);
    assert_coo(&(&c * &d), &[0, 1, 2, 2], &[200.0, 200.0], true);
    assert_coo(&(&u * &w), &[1, 0, 1, 1, 2, 2, 2, 1], &[50.0, 200.0, 150.0, 0.0], false);
    assert_coo(&(&u * &d), &[0, 1, 1, 0, 2, 0, 2, 2], &[60.0, 0.0, 200.0, 140.0], false);
    assert_coo(&(&u / 2.0), &[0, 1, 1, 0, 2, 0, 2, 2], &[1.5, 2.0, 2.5, 3.5], false);
    assert_coo(&u.sqrt(), &[0, 1, 1, 2, 0, 2], &[10f32.sqrt(), 2.0, 5f32.sqrt()], true);
    let by = torch::arange(6).to(DType::F32).view([2, 3]);
    assert_coo(&(&u * &by), &[0, 1, 1, 0, 2, 0, 2, 2], &[6.0, 12.0, 25.0, 14.0], false);
    assert_coo(&(&c * &torch::arange(3).to(DType::F32)), &[0, 1, 1, 2, 0, 2], &[20.0, 0.0, 10.0], true);
    let dense = &torch::ones([2, 3]) + &c;
    assert_eq!(dense.to_vec::<f32>(), [1.0, 1.0, 11.0, 5.0, 1.0, 6.0]);
    // in place, into sparse and dense tensors of any strides
    let a = c.copy();
    a.add_(&d).mul_(2.0);
    assert_coo(&a, &[0, 1, 1, 1, 2, 0, 1, 2], &[60.0, 8.0, 2.0, 90.0], true);
    assert_eq!(c._values().to_vec::<f32>(), [10.0, 4.0, 5.0]);
    let t = torch::zeros([3, 2]);
    t.t().add_(&c);
    assert_eq!(t.to_vec::<f32>(), [0.0, 4.0, 0.0, 0.0, 10.0, 5.0]);
    let version = a.version();
    a.zero_();
    assert!(a.version() > version && a._nnz() == 0);
    let one = Scalar::Int(1);
    let add = |a: &Tensor, b: &Tensor| error(flambeau_core::ops::add(a, b, one));
    assert_eq!(
        add(&c, &torch::ones([2, 3])),
        "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
    );
    assert!(
        add(&torch::ones(3), &c)
            .starts_with("add: expected 'self' and 'other' to have same size, but self has size [3]")
    );
    assert_eq!(error(flambeau_core::ops::sin_(&u.copy())), "sin_ requires coalesced input");
}

#[test]
fn shapes() {
    let (u, c) = (uncoalesced(), uncoalesced().coalesce());
    let h = sparse_coo_tensor(&i64s(&[0, 1, 0], [1, 3]), &torch::arange(6).float().view([3, 2]), [2, 2]);
    assert_coo(&c.t(), &[2, 0, 2, 0, 1, 1], &[10.0, 4.0, 5.0], false);
    assert_coo(&c.select(0, 1), &[0, 2], &[4.0, 5.0], false);
    assert_coo(&c.unsqueeze(0), &[0, 0, 0, 0, 1, 1, 2, 0, 2], &[10.0, 4.0, 5.0], false);
    assert_eq!(h.unsqueeze(-1).sizes(), [2, 2, 1]);
    let at = Tensor::from_slice(&[2i64, 0, 2], 3);
    assert_eq!(
        u.index_select(1, &at).to_dense().to_vec::<f32>(),
        u.to_dense().index_select(1, &at).to_vec::<f32>()
    );
    assert_coo(
        &torch::cat(&[c.clone(), c.clone()], 0),
        &[0, 1, 1, 2, 3, 3, 2, 0, 2, 2, 0, 2],
        &[10.0, 4.0, 5.0, 10.0, 4.0, 5.0],
        false,
    );
    let wide = torch::cat(&[h.clone(), h.clone()], 1);
    assert_eq!((wide.sizes(), wide._values().sizes()), (&[2, 4][..], &[6, 4][..]));
    let all = |t: &Tensor| t.to_dense().to_vec::<f32>();
    assert_eq!(
        all(&flambeau_core::ops::slice(&u, 1, Some(1), None, 1).unwrap()),
        u.to_dense().narrow(1, 1, 2).to_vec::<f32>()
    );
    assert_eq!(all(&c.narrow_copy(1, 1, 2)), [0.0, 10.0, 0.0, 5.0]);
    assert_eq!(all(&h.narrow_copy(1, 1, 1)), [6.0, 3.0]);
    assert_eq!(u.sum().item::<f32>(), 19.0);
    assert_coo(
        &sparse::sparse_sum_with(&u, flambeau_sparse::generated::options::SparseSumOptions::new().dim(0)),
        &[0, 2],
        &[4.0, 15.0],
        true,
    );
    let mut x = c.copy();
    x.sparse_resize_([3, 4], 2, 0);
    assert_eq!((x.sizes(), x._nnz()), (&[3, 4][..], 3));
    x.sparse_resize_and_clear_(5, 1, 0);
    assert_eq!((x.sizes(), x.sparse_dim(), x._nnz()), (&[5][..], 1, 0));
    assert_eq!(
        error(flambeau_core::ops::permute(&h, &[1, 0])),
        "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only transpositions within \
         sparse and dense dimensions are supported."
    );
}

#[test]
fn products() {
    let c = uncoalesced().coalesce();
    let d = torch::arange(6).to(DType::F32).view([3, 2]);
    let dense = c.to_dense().mm(&d).to_vec::<f32>();
    for a in [c.clone(), uncoalesced(), c.to_sparse_csr(), c.to_sparse_csc()] {
        assert_eq!(sparse::mm(&a, &d).to_vec::<f32>(), dense);
        assert_eq!(a.mm(&d).to_vec::<f32>(), dense);
    }
    assert_eq!(d.t().mm(&c.t()).to_vec::<f32>(), c.to_dense().mm(&d).t().to_vec::<f32>());
    let square = c.mm(&c.t());
    assert!(square.is_sparse() && square.is_coalesced());
    assert_eq!(square.to_dense().to_vec::<f32>(), c.to_dense().mm(&c.to_dense().t()).to_vec::<f32>());
    assert_eq!(
        error(ops::sparse_mm(&c, &torch::ones([2, 2]))),
        "addmm: Argument #3 (dense): Expected dim 0 size 3, got 2"
    );
}
