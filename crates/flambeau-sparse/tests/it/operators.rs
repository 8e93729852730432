//! Sparse tensors: values and texts of PyTorch 2.15, round trips in every dtype, gradients, and forged parts.

use flambeau_autograd::gradcheck::{GradcheckOptions, gradcheck};
use flambeau_core::literal::tensor;
use flambeau_core::sparse::Parts;
use flambeau_core::{DType, Layout, Result, Scalar, Tensor, functions as torch};
use flambeau_sparse::functions::*;
use flambeau_sparse::{SparseOptions, TensorSparseExt, TensorSparseResizeExt, ops, sparse};

fn i64s(v: &[i64], sizes: [i64; 2]) -> Tensor {
    Tensor::from_slice(v, sizes)
}
/// 2 x 3 with a place that occurs twice.
fn uncoalesced() -> Tensor {
    let at = i64s(&[0, 1, 1, 0, 2, 0, 2, 2], [2, 4]);
    sparse_coo_tensor_size(&at, &Tensor::from_slice(&[3f32, 4.0, 5.0, 7.0], 4), [2, 3])
}
fn other() -> Tensor {
    let at = i64s(&[1, 0, 1, 1, 2, 2, 2, 1], [2, 4]);
    sparse_coo_tensor_size(&at, &Tensor::from_slice(&[10f32, 20.0, 30.0, 1.0], 4), [2, 3])
}
#[track_caller]
fn assert_coo(t: &Tensor, indices: &[i64], values: &[f32], coalesced: bool) {
    assert_eq!(t._indices().to_vec::<i64>(), indices);
    assert_eq!(t._values().to_vec::<f32>(), values);
    assert_eq!(t.is_coalesced(), coalesced);
}
#[track_caller]
fn error<T: std::fmt::Debug>(r: Result<T>) -> String {
    r.unwrap_err().message().to_string()
}

#[test]
fn coalesce_adds_and_sorts() {
    let (u, c) = (uncoalesced(), uncoalesced().coalesce());
    assert_coo(&c, &[0, 1, 1, 2, 0, 2], &[10.0, 4.0, 5.0], true);
    assert_eq!(u.to_dense().to_vec::<f32>(), c.to_dense().to_vec::<f32>());
    assert!(c.coalesce().is_same(&c));
    let bools = sparse_coo_tensor(&i64s(&[1, 0, 1], [1, 3]), &tensor([true, true, true]));
    assert_eq!(bools.coalesce()._values().to_vec::<flambeau_core::B8>(), [true.into(), true.into()]);
    // a negative zero stays one
    let zero = sparse_coo_tensor(&i64s(&[1, 0], [1, 2]), &Tensor::from_slice(&[-0f32, 1.0], 2)).coalesce();
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
    let h = sparse_coo_tensor(&i64s(&[0, 1, 0], [1, 3]), &torch::arange(6).to(DType::F32).view([3, 2]));
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
fn gradients() {
    let f64s = |v: &[f64], sizes: &[i64]| Tensor::from_slice(v, sizes).requires_grad_(true);
    let at = i64s(&[0, 1, 1, 0, 2, 0, 2, 2], [2, 4]);
    let v = f64s(&[3.0, -4.0, 5.0, 7.0], &[4]);
    let d = f64s(&[1.0, 2.0, -3.0, 0.5, 0.25, 6.0], &[3, 2]);
    let make = |v: &Tensor| ops::sparse_coo_tensor_unsafe(&at, v, &[2, 3], None);
    let check = |f: &dyn Fn(&[Tensor]) -> Result<Tensor>| {
        let f = |x: &[Tensor]| f(x).map(|t| vec![t]);
        gradcheck(f, &[v.clone(), d.clone()], &GradcheckOptions::new()).unwrap()
    };
    check(&|x| flambeau_core::ops::mm(&ops::to_dense(&make(&x[0])?, None, None)?, &x[1]));
    check(&|x| ops::sparse_mm(&make(&x[0])?, &x[1]));
    check(&|x| flambeau_core::ops::mm(&make(&x[0])?, &x[1]));
    check(&|x| ops::sparse_sum(&make(&x[0])?, None, None));
    check(&|x| ops::to_dense(&ops::sparse_sum(&make(&x[0])?, Some(&[0]), None)?, None, None));
    check(&|x| ops::values(&ops::coalesce(&make(&x[0])?)?));
    check(&|x| ops::to_dense(&ops::sparse_softmax(&make(&x[0])?, 1, None)?, None, None));
    check(&|x| ops::to_dense(&ops::sparse_log_softmax(&make(&x[0])?, 0, None)?, None, None));
    check(&|x| {
        ops::to_dense(&ops::to_sparse(&flambeau_core::ops::mul(&x[1], &x[1])?, None, None, None)?, None, None)
    });
    check(&|x| {
        let mask = make(&x[0].alias_detached())?;
        ops::to_dense(&ops::sparse_mask(&flambeau_core::ops::transpose(&x[1], 0, 1)?, &mask)?, None, None)
    });
    // the gradient of a sparse leaf has its places
    let leaf = uncoalesced().coalesce().requires_grad_(true);
    sparse::mm(&leaf, &torch::ones([3, 2])).sum().backward();
    assert_coo(&leaf.grad().unwrap(), &[0, 1, 1, 2, 0, 2], &[2.0, 2.0, 2.0], true);
    let leaf = uncoalesced().coalesce().requires_grad_(true);
    let by = torch::arange(4).to(DType::F32).view([2, 2]);
    (leaf.t().mm(&by)).sum().backward();
    let want = Tensor::from_slice(&[1f32, 1.0, 1.0, 5.0, 5.0, 5.0], [2, 3]);
    assert!(torch::equal(&leaf.grad().unwrap(), &want));
    let (a, b) = (uncoalesced().requires_grad_(true), other().requires_grad_(true));
    ops::to_dense(&(&(&a * 2.0) + &b), None, None).unwrap().sum().backward();
    assert_eq!(a.grad().unwrap().to_dense().to_vec::<f32>()[2], 2.0);
    assert_eq!(b.grad().unwrap().to_dense().to_vec::<f32>()[5], 1.0);
    let x = torch::arange(6).to(DType::F32).view([2, 3]).requires_grad_(true);
    let index = i64s(&[0, 0, 2, 1], [2, 2]);
    flambeau_core::ops::gather(&x, 1, &index, true).unwrap().sum().backward();
    assert_coo(&x.grad().unwrap(), &[0, 0, 1, 1, 0, 0, 2, 1], &[1.0; 4], false);
}

#[test]
fn forged_parts() {
    let values = Tensor::from_slice(&[1f32, 2.0], 2);
    let coo = |i: &Tensor, v: &Tensor, s: &[i64]| {
        try_sparse_coo_tensor(i, v, &SparseOptions::new().size(s).check_invariants(true))
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
        let t = sparse_coo_tensor_size(&i64s(&[0, 1, 0, 1], [2, 2]), &values, [2, 2]);
        t._indices().data_mut::<i64>()[1] = bad;
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
    assert!(t.try_data::<f32>().is_err() && t.try_to_vec::<f32>().is_err());
    assert!(flambeau_core::ops::sigmoid(&t).is_err() && flambeau_core::ops::view(&t, &[6]).is_err());
    assert!(t.copy().try_resize_(&[1], None).is_err());
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
        sparse_coo_tensor_size(&i64s(&[0, 1, 1], [1, 3]), &v, 3).to_string(),
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
