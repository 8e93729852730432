//! Gradients of and through sparse tensors.

use crate::{assert_coo, i64s, other, uncoalesced};
use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, functions as torch};
use flambeau_sparse::{TensorSparseExt, ops, sparse};

#[test]
fn gradients() {
    let f64s = |v: &[f64], sizes: &[i64]| Tensor::from_slice(v, sizes).requires_grad_(true);
    let at = i64s(&[0, 1, 1, 0, 2, 0, 2, 2], [2, 4]);
    let v = f64s(&[3.0, -4.0, 5.0, 7.0], &[4]);
    let d = f64s(&[1.0, 2.0, -3.0, 0.5, 0.25, 6.0], &[3, 2]);
    let make = |v: &Tensor| ops::sparse_coo_tensor_unsafe(&at, v, &[2, 3], None);
    let check = |f: &dyn Fn(&[Tensor]) -> Result<Tensor>| {
        let f = |x: &[Tensor]| f(x).map(|t| vec![t]);
        try_gradcheck(f, &[v.clone(), d.clone()], GradcheckOptions::new()).unwrap()
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
