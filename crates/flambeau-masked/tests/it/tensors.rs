//! Masked tensors: what operators make of data and mask, gradients, printing, errors.

use flambeau_autograd as _;
use flambeau_core::{BackwardOptions, DType, ErrorKind, Result, Scalar, Tensor, ops};
use flambeau_masked::{MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor, try_masked_tensor};

fn data() -> Tensor {
    Tensor::from_vec(vec![3.0f64, -1.0, 2.0, 0.5, 4.0, -2.0], [2, 3])
}
fn mask() -> Tensor {
    let m = Tensor::from_vec(vec![1i64, 0, 1, 1, 1, 0], [2, 3]);
    ops::to_copy(&m, Some(DType::Bool), None, None, None, false, None).unwrap()
}
fn masked() -> MaskedTensor {
    masked_tensor(&data(), &mask())
}
fn of(r: Result<Tensor>) -> MaskedTensor {
    MaskedTensor::of(&r.unwrap()).expect("a masked tensor")
}
/// Data where the mask is true, 0 elsewhere.
fn shown(m: &MaskedTensor) -> Vec<f64> {
    m.to_tensor(0.0).to_vec()
}
fn flags(m: &MaskedTensor) -> Vec<u8> {
    ops::to_copy(&m.get_mask(), Some(DType::U8), None, None, None, false, None).unwrap().to_vec()
}

#[test]
fn functions_of_one_and_two() {
    let x = masked();
    assert_eq!(shown(&of(ops::neg(&x))), [-3.0, 0.0, -2.0, -0.5, -4.0, 0.0]);
    assert_eq!(shown(&of(ops::mul(&x, &x))), [9.0, 0.0, 4.0, 0.25, 16.0, 0.0]);
    // a plain operand counts wholly, and may be broadcast
    let row = Tensor::from_vec(vec![1.0f64, 2.0, 3.0], [3]);
    assert_eq!(shown(&of(ops::mul(&row, &x))), [3.0, 0.0, 6.0, 0.5, 8.0, 0.0]);
    ops::neg_(&x).unwrap();
    assert_eq!(shown(&x), [-3.0, 0.0, -2.0, -0.5, -4.0, 0.0]);
    let other = masked_tensor(&data(), &ops::logical_not(&mask()).unwrap());
    let e = ops::mul(&x, &other).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Value);
    assert!(e.message().starts_with("Input masks must match."), "{}", e.message());
}
#[test]
fn reductions_leave_out_what_is_hidden() {
    let x = masked();
    assert_eq!(shown(&of(ops::sum(&x, None, false, None))), [9.5]);
    assert_eq!(shown(&of(ops::mean(&x, Some(&[1]), false, None))), [2.5, 2.25]);
    assert_eq!(shown(&of(ops::amax(&x, &[0], false))), [3.0, 4.0, 2.0]);
    assert_eq!(shown(&of(ops::var(&x, Some(&[1]), Some(Scalar::Int(1)), false))), [0.5, 6.125]);
    // nothing is left in the middle of one column
    let m = Tensor::from_vec(vec![1i64, 0, 1, 1, 0, 0], [2, 3]);
    let m = ops::to_copy(&m, Some(DType::Bool), None, None, None, false, None).unwrap();
    let sums = of(ops::sum(&masked_tensor(&data(), &m), Some(&[0]), false, None));
    assert_eq!((shown(&sums), flags(&sums)), (vec![3.5, 0.0, 2.0], vec![1, 0, 1]));
    let soft = of(ops::softmax(&x, 1, None));
    let y = shown(&soft);
    assert!((y[0] + y[2] - 1.0).abs() < 1e-12 && (y[3] + y[4] - 1.0).abs() < 1e-12);
}
#[test]
fn views_and_copies_move_the_mask_too() {
    let x = masked();
    let t = of(ops::transpose(&x, 0, 1));
    assert_eq!((t.sizes(), flags(&t)), (&[3i64, 2][..], vec![1, 1, 0, 1, 1, 0]));
    assert_eq!(shown(&of(ops::reshape(&x, &[3, 2]))), [3.0, 0.0, 2.0, 0.5, 4.0, 0.0]);
    assert_eq!(shown(&of(ops::select(&x, 0, 1))), [0.5, 4.0, 0.0]);
    assert_eq!(of(ops::cat(&[x.as_ref().clone(), data()], 0)).get_mask().sizes(), [4, 3]);
    let parts = ops::split(&x, 1, 0).unwrap();
    assert!(parts.iter().all(is_masked_tensor));
    assert_eq!(of(ops::flip(&x, &[1])).get_mask().to_string(), ops::flip(&mask(), &[1]).unwrap().to_string());
    let single = of(ops::to(&x, Some(DType::F32), None, None, None, false, false, None));
    assert_eq!((single.dtype(), single.get_mask().dtype()), (DType::F32, DType::Bool));
    let chosen = of(ops::where_(&mask(), &x, &data()));
    assert_eq!(shown(&chosen), [3.0, -1.0, 2.0, 0.5, 4.0, -2.0]);
}
#[test]
fn gradients_are_masked() {
    let x = try_masked_tensor(&data(), &mask(), true).unwrap();
    let y = ops::sum(&ops::mul(&x, &x).unwrap(), None, false, None).unwrap();
    assert!(y.requires_grad() && !y.is_leaf() && x.is_leaf());
    y.try_backward(BackwardOptions::new()).unwrap();
    assert_eq!(shown(&of(Ok(x.grad().unwrap()))), [6.0, 0.0, 4.0, 1.0, 8.0, 0.0]);
    // what is hidden does not spoil the gradient: log of negative numbers
    let x = try_masked_tensor(&data(), &mask(), true).unwrap();
    ops::sum(&ops::log(&x).unwrap(), None, false, None).unwrap().backward();
    assert_eq!(shown(&of(Ok(x.grad().unwrap()))), [1.0 / 3.0, 0.0, 0.5, 2.0, 0.25, 0.0]);
    // the data's gradient is masked too, and adds up
    let d = data();
    d.requires_grad_(true);
    for _ in 0..2 {
        ops::sum(&as_masked_tensor(&d, &mask()), None, false, None).unwrap().backward();
    }
    let g = of(Ok(d.grad().unwrap()));
    assert_eq!((shown(&g), flags(&g)), (vec![2.0, 0.0, 2.0, 2.0, 2.0, 0.0], vec![1, 0, 1, 1, 1, 0]));
}
#[test]
fn gradients_of_parts_are_masked_by_them() {
    let row = |x: &Tensor, i: i64| ops::sum(&ops::select(x, 0, i).unwrap(), None, false, None).unwrap();
    let x = try_masked_tensor(&data(), &mask(), true).unwrap();
    row(&x, 0).backward();
    let g = of(Ok(x.grad().unwrap()));
    assert_eq!((shown(&g), flags(&g)), (vec![1.0, 0.0, 1.0, 0.0, 0.0, 0.0], vec![1, 0, 1, 0, 0, 0]));
    // of several parts it has all of them
    row(&x, 1).backward();
    let g = of(Ok(x.grad().unwrap()));
    assert_eq!((shown(&g), flags(&g)), (vec![1.0, 0.0, 1.0, 1.0, 1.0, 0.0], vec![1, 0, 1, 1, 1, 0]));
    // of a part and the whole, the whole
    let x = try_masked_tensor(&data(), &mask(), true).unwrap();
    let whole = ops::sum(&ops::mul(&x, &x).unwrap(), None, false, None).unwrap();
    let part = ops::narrow(&x, 1, 0, 1).unwrap();
    ops::add(&whole, &ops::sum(&part, None, false, None).unwrap(), Scalar::Int(1)).unwrap().backward();
    let g = of(Ok(x.grad().unwrap()));
    assert_eq!((shown(&g), flags(&g)), (vec![7.0, 0.0, 4.0, 2.0, 8.0, 0.0], vec![1, 0, 1, 1, 1, 0]));
    // the gradient of data
    let d = data();
    d.requires_grad_(true);
    row(&as_masked_tensor(&d, &mask()), 0).backward();
    let g = of(Ok(d.grad().unwrap()));
    assert_eq!((shown(&g), flags(&g)), (vec![1.0, 0.0, 1.0, 0.0, 0.0, 0.0], vec![1, 0, 1, 0, 0, 0]));
    // what was computed of the masked tensor goes on as numbers
    let x = try_masked_tensor(&data(), &mask(), true).unwrap();
    row(&ops::mul(&x, &x).unwrap(), 0).backward();
    let g = of(Ok(x.grad().unwrap()));
    assert_eq!((shown(&g), flags(&g)), (vec![6.0, 0.0, 4.0, 0.0, 0.0, 0.0], vec![1, 0, 1, 1, 1, 0]));
}
#[test]
fn gradients_of_gradients() {
    let x = try_masked_tensor(&data(), &mask(), true).unwrap();
    let cube = ops::mul(&ops::mul(&x, &x).unwrap(), &x).unwrap();
    let y = ops::sum(&cube, None, false, None).unwrap();
    let o = flambeau_autograd::GradOptions::new().create_graph(true);
    let g = flambeau_autograd::engine::grad(&[y], &[x.as_ref().clone()], o).unwrap()[0].clone().unwrap();
    assert!(is_masked_tensor(&g));
    ops::sum(&g, None, false, None).unwrap().backward();
    assert_eq!(shown(&of(Ok(x.grad().unwrap()))), [18.0, 0.0, 12.0, 3.0, 24.0, 0.0]);
}
#[test]
fn sparse_layouts() {
    let x = masked();
    for t in [
        flambeau_sparse::ops::to_sparse_coo(&x).unwrap(),
        flambeau_sparse::ops::to_sparse_csr(&x, None).unwrap(),
    ] {
        let s = MaskedTensor::of(&t).unwrap();
        assert_eq!(s.layout(), s.get_data().layout());
        assert_eq!(shown(&of(ops::sum(&s, None, false, None))), [9.5]);
        let double = of(ops::add(&s, &s, Scalar::Int(1)));
        let dense = of(flambeau_sparse::ops::to_dense(&double, None, None));
        assert_eq!(shown(&dense), [6.0, 0.0, 4.0, 1.0, 8.0, 0.0]);
    }
    // functions of torch.masked take sparse tensors: what is not specified does not count
    let sparse = flambeau_sparse::ops::to_sparse_coo(&data()).unwrap();
    let r = flambeau_masked::ops::masked_prod(&sparse, Some(&[1]), true, None, Some(&mask())).unwrap();
    assert_eq!(flambeau_sparse::ops::to_dense(&r, None, None).unwrap().to_vec::<f64>(), [6.0, 2.0]);
}
#[test]
fn printing() {
    let x = masked_tensor(&data(), &mask());
    let text =
        "MaskedTensor(\n  [\n    [  3.0000,       --,   2.0000],\n    [  0.5000,   4.0000,       --]\n  ]\n)";
    assert_eq!(x.to_string(), text);
    let whole = ops::to_copy(&data(), Some(DType::I64), None, None, None, false, None).unwrap();
    let row = masked_tensor(&ops::select(&whole, 0, 0).unwrap(), &ops::select(&mask(), 0, 0).unwrap());
    assert_eq!(row.to_string(), "MaskedTensor(\n  [3,       --, 2]\n)");
    let hidden =
        masked_tensor(&Tensor::from_vec(vec![1.5f32], [1]), &ops::select(&mask(), 0, 1).unwrap().i((..1,)));
    assert_eq!(of(ops::select(&hidden, 0, 0)).to_string(), "MaskedTensor(  1.5000, True)");
}
#[test]
fn errors() {
    let (x, m) = (data(), mask());
    let refused = |d: &Tensor, m: &Tensor| try_masked_tensor(d, m, false).unwrap_err().message().to_string();
    assert_eq!(refused(&x, &x), "mask must have dtype bool.");
    assert_eq!(refused(&x, &ops::select(&m, 0, 0).unwrap()), "data.dim() must equal mask.dim()");
    assert_eq!(refused(&masked(), &m), "data must be a Tensor");
    let bytes = ops::to_copy(&x, Some(DType::U8), None, None, None, false, None).unwrap();
    assert_eq!(refused(&bytes, &m), "torch.uint8 is not supported in MaskedTensor.");
    let e = ops::matmul(&masked(), &ops::t(&masked()).unwrap()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Type);
    assert!(
        e.message().contains("all __torch_dispatch__ handlers returned NotImplemented"),
        "{}",
        e.message()
    );
    // no memory of its own
    assert_eq!(masked().try_to_vec::<f64>().unwrap_err().kind(), ErrorKind::Unsupported);
}
