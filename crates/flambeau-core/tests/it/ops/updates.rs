//! Rows that update an argument: copies, in place and `out=`, where memory is shared, lazy or read in another order. Values
//! are PyTorch's.

use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Device, ErrorKind, Tensor, functions as f, ops};

fn v(x: &[f32]) -> Tensor {
    Tensor::from_slice(x, [x.len()])
}
fn at(x: &[i64]) -> Tensor {
    Tensor::from_slice(x, [x.len()])
}

#[test]
fn in_place_is_one_write_of_the_tensor_itself() {
    let x = v(&[0., 1., 2., 3., 4., 5.]);
    let before = x.version();
    ops::scatter_(&x, 0, &at(&[5, 4]), &v(&[-1., -2.])).unwrap();
    assert_eq!(x.to_vec::<f32>(), [0., 1., 2., 3., -2., -1.]);
    assert_eq!(x.version() - before, 1);
    assert!(x.key_set().has(Key::Cpu));
}

#[test]
fn a_conjugated_view_is_written_through_its_bit() {
    let z = ops::complex(&v(&[1., 3., 0.]), &v(&[2., -1., 5.])).unwrap();
    let c = ops::conj(&z).unwrap();
    let value = flambeau_core::Scalar::Complex(num_complex::Complex::new(1.0, 4.0));
    ops::index_fill_(&c, 0, &at(&[1]), value).unwrap();
    let parts = ops::view_as_real(&z).unwrap();
    assert_eq!(parts.to_vec::<f32>(), [1., 2., 1., -4., 0., 5.]);
}

#[test]
fn shared_elements() {
    // index_put_ writes one after the other, as PyTorch still allows
    let row = f::zeros([1, 3]).to(DType::F32);
    let e = ops::expand(&row, &[2, 3], false).unwrap();
    let places = [Some(at(&[0, 1, 1])), Some(at(&[0, 0, 2]))];
    ops::index_put_(&e, &places, &v(&[1., 2., 5.]), true).unwrap();
    assert_eq!(e.to_vec::<f32>(), [3., 0., 5., 3., 0., 5.]);
    let one = Tensor::from_slice(&[0i64], [1, 1]);
    let r = ops::scatter_value_(&e, 0, &one, 1.into()).unwrap_err();
    assert!(
        r.to_string().starts_with("unsupported operation: more than one element of the written-to"),
        "{r}"
    );
}

#[test]
fn the_source_may_be_a_part_of_what_is_written() {
    let x = v(&[0., 1., 2., 3.]);
    let part = ops::slice(&x, 0, Some(0), Some(2), 1).unwrap();
    ops::index_copy_(&x, 0, &at(&[1, 2]), &part).unwrap();
    assert_eq!(x.to_vec::<f32>(), [0., 0., 1., 3.]);
    let mut out = v(&[0., 1., 2., 3.]);
    let x = out.clone();
    ops::index_add_out(&x, 0, &at(&[3]), &v(&[7.]), 1.into(), &mut out).unwrap();
    assert_eq!(out.to_vec::<f32>(), [0., 1., 2., 10.]);
}

#[test]
fn copies_have_pytorchs_strides() {
    let x = ops::transpose(&Tensor::from_slice(&[0f32, 1., 2., 3., 4., 5.], [2, 3]), 0, 1).unwrap();
    let ones = f::ones([2, 2]).to(DType::F32);
    let sum = ops::index_add(&x, 0, &at(&[0, 0]), &ones, 1.into()).unwrap();
    assert_eq!((sum.strides(), sum.to_vec::<f32>()), (&[2, 1][..], vec![2., 5., 1., 4., 2., 5.]));
    let put = ops::index_put(&x, &[Some(at(&[0]))], &v(&[9.]), false).unwrap();
    assert_eq!(put.strides(), [1, 3]);
}

#[test]
fn a_mask_that_broadcasts_the_input_has_no_in_place_form() {
    let x = v(&[0., 1., 2.]);
    let m = Tensor::from_slice(&[1f32, 0., 1., 0., 1., 1.], [2, 3]).to(DType::Bool);
    let r = ops::masked_scatter(&x, &m, &v(&[10., 11., 12., 13.])).unwrap();
    assert_eq!((r.sizes(), r.to_vec::<f32>()), (&[2, 3][..], vec![10., 1., 11., 0., 12., 13.]));
    assert!(ops::masked_scatter_(&x, &m, &v(&[10., 11., 12., 13.])).is_err());
    assert_eq!(x.to_vec::<f32>(), [0., 1., 2.]);
}

#[test]
fn all_forms_foretell_their_sizes_on_the_meta_device() {
    let m = |sizes: &[i64], d: DType| Tensor::empty_raw(sizes, d, Device::Meta).unwrap();
    let (x, index, src) = (m(&[4, 3], DType::F32), m(&[2, 3], DType::I64), m(&[2, 3], DType::F32));
    assert_eq!(ops::scatter_add(&x, 0, &index, &src).unwrap().sizes(), [4, 3]);
    ops::scatter_add_(&x, 0, &index, &src).unwrap();
    let mut out = m(&[0], DType::F32);
    ops::scatter_add_out(&x, 0, &index, &src, &mut out).unwrap();
    assert_eq!(out.sizes(), [4, 3]);
    ops::normal_(&x, 0.0, 1.0, None).unwrap();
    let e = ops::nonzero(&x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Missing | ErrorKind::Unsupported), "{e}");
}

#[test]
fn halves_meet_in_float32() {
    let half = |x: &[f32]| v(x).to(DType::BF16);
    let (x, i, s) = (half(&[1.]), at(&[0, 0, 0, 0]), half(&[0.003; 4]));
    let first = |t: Tensor| t.to(DType::F32).to_vec::<f32>()[0];
    assert_eq!(first(ops::scatter_add(&x, 0, &i, &s).unwrap()), 1.015625);
    assert_eq!(first(ops::scatter_reduce(&x, 0, &i, &s, "sum", true).unwrap()), 1.015625);
    // numbers are added to a vector one by one
    assert_eq!(first(ops::index_add(&x, 0, &i, &s, 1.into()).unwrap()), 1.0);
    let column = ops::reshape(&s, &[4, 1]).unwrap();
    let x = ops::reshape(&x, &[1, 1]).unwrap();
    assert_eq!(first(ops::index_add(&x, 0, &i, &column, 1.into()).unwrap()), 1.015625);
    // a number is not rounded before it multiplies
    let product = ops::mul(&half(&[7.]), &wrapped_number(0.3.into()).unwrap()).unwrap();
    assert_eq!(first(product), 2.09375);
}

#[test]
fn halves_of_index_reduce_round_at_each_step() {
    let half = |x: &[f32]| v(x).to(DType::BF16);
    let r = ops::index_reduce(&half(&[1.]), 0, &at(&[0; 4]), &half(&[1.03; 4]), "prod", true).unwrap();
    // 1.1328125 in float32
    assert_eq!(r.to(DType::F32).to_vec::<f32>(), [1.125]);
}

#[test]
fn an_output_decides_the_dtype_of_sums_and_products() {
    let x = v(&[0.5, 0.75, 2.5]);
    let into = |d: DType| ops::zeros(&[0], Some(d), None, None, None).unwrap();
    // each element is an integer before they are joined
    let mut out = into(DType::I64);
    ops::sum_out(&x, None, false, None, &mut out).unwrap();
    assert_eq!(out.to_vec::<i64>(), [2]);
    let mut out = into(DType::I32);
    ops::cumsum_out(&x, 0, None, &mut out).unwrap();
    assert_eq!(out.to_vec::<i32>(), [0, 0, 2]);
    let mut out = into(DType::I64);
    ops::prod_out(&v(&[1.5, 2.5]), None, &mut out).unwrap();
    assert_eq!(out.to_vec::<i64>(), [2]);
    let e = ops::cumprod_out(&x, 0, Some(DType::F64), &mut out).unwrap_err();
    assert_eq!(e.message(), "Expected out tensor to have dtype double, but got long int instead");
}
