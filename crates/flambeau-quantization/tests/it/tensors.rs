//! Tensors of integers that stand for numbers.

use flambeau_core::functions::*;
use flambeau_core::{DType, Tensor, ops};
use flambeau_quantization::TensorQuantizationExt as _;
use flambeau_quantization::ops as q;

fn numbers() -> Tensor {
    Tensor::from_slice(&[-1.0f32, -0.25, 0.0, 0.125, 0.5, 9.0], [2, 3])
}
fn by_tensor() -> Tensor {
    q::quantize_per_tensor(&numbers(), 0.25, 10, DType::QU8).unwrap()
}
fn by_channel() -> Tensor {
    let (s, z) = (Tensor::from_slice(&[0.5f32, 0.25, 1.0], 3), Tensor::from_slice(&[0i64, 1, 2], 3));
    q::quantize_per_channel(&numbers(), &s, &z, 1, DType::QI8).unwrap()
}

#[test]
fn integers_and_numbers() {
    let t = by_tensor();
    assert_eq!(t.int_repr().to_vec::<u8>(), [6, 9, 10, 10, 12, 46]);
    assert_eq!(t.dequantize().to_vec::<f32>(), [-1.0, -0.25, 0.0, 0.0, 0.5, 9.0]);
    assert_eq!((t.q_scale(), t.q_zero_point(), t.dtype()), (0.25, 10, DType::QU8));
    let c = by_channel();
    assert_eq!(c.int_repr().to_vec::<i8>(), [-2, 0, 2, 0, 3, 11]);
    assert_eq!(c.dequantize().to_vec::<f32>(), [-1.0, -0.25, 0.0, 0.0, 0.5, 9.0]);
    assert_eq!(c.q_per_channel_axis(), 1);
}
#[test]
fn views_keep_or_move_the_rule() {
    let t = by_tensor();
    let v = t.transpose(0, 1);
    assert_eq!(v.dequantize().to_vec::<f32>(), [-1.0, 0.0, -0.25, 0.5, 0.0, 9.0]);
    ops::fill_(&t, flambeau_core::Scalar::Float(0.5)).unwrap();
    assert_eq!(v.int_repr().to_vec::<u8>(), [12; 6]);
    let c = by_channel();
    assert_eq!(c.select(0, 1).dequantize().to_vec::<f32>(), [0.0, 0.5, 9.0]);
    assert_eq!(c.narrow(1, 1, 2).q_per_channel_scales().to_vec::<f64>(), [0.25, 1.0]);
    assert_eq!(c.select(1, 1).q_scale(), 0.25);
    let e = ops::transpose(&c, 0, 1).unwrap_err();
    assert_eq!(e.message(), "Setting strides is possible only on uniformly quantized tensor");
}
#[test]
fn several_in_a_byte() {
    let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 7.5], [2, 3]);
    let (s, z) = (Tensor::from_slice(&[1.0f32, 0.5], 2), Tensor::from_slice(&[0.5f32, 0.0], 2));
    let t = q::quantize_per_channel(&x, &s, &z, 0, DType::QU4X2).unwrap();
    assert_eq!(t.int_repr().to_vec::<u8>(), [0x20, 0x62, 0xf8]);
    assert_eq!(t.dequantize().to_vec::<f32>(), [-0.5, 1.5, 1.5, 3.0, 4.0, 7.5]);
    assert!(ops::transpose(&t, 0, 1).is_err());
    assert!(ops::slice(&t, 0, Some(1), Some(2), 1).is_err(), "half of a byte is no view");
}
#[test]
fn text_is_pytorchs() {
    assert_eq!(
        by_tensor().to_string(),
        "tensor([[-1.0000, -0.2500,  0.0000],\n        [ 0.0000,  0.5000,  9.0000]], size=(2, 3), dtype=torch.quint8,\n       \
         quantization_scheme=torch.per_tensor_affine, scale=0.25, zero_point=10)"
    );
}
#[test]
fn what_has_no_kernel_says_so() {
    let t = by_tensor();
    let text = |r: flambeau_core::Result<Tensor>| {
        r.unwrap_err().message().split(" This could").next().unwrap().to_string()
    };
    let of =
        |name: &str| format!("Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend.");
    assert_eq!(text(ops::abs(&t)), of("abs.out"));
    assert_eq!(text(ops::isnan(&t)), of("isnan"));
    assert_eq!(text(ops::add(&t, &t, flambeau_core::Scalar::Int(1))), of("add.out"));
    assert_eq!(text(ops::sum(&t, None, false, None)), of("sum.IntList_out"));
    let e = ops::to(&t, Some(DType::F32), None, None, None, false, false, None).unwrap_err();
    assert_eq!(e.message(), "Creation of quantized tensor requires quantized dtype like torch.quint8");
    let _ = zeros([1]);
}
#[test]
fn only_float32_becomes_integers() {
    let message = |r: flambeau_core::Result<Tensor>| r.unwrap_err().message().to_string();
    let (x, s) = (numbers().to(DType::F64), Tensor::from_slice(&[0.5f32, 0.25, 1.0], 3));
    let zeros = |d| Tensor::from_slice(&[0i64, 1, 2], 3).to(d);
    let by_channel = |d, q| message(q::quantize_per_channel(&x, &s, &zeros(d), 1, q));
    assert_eq!(
        by_channel(DType::I64, DType::QI8),
        "quantize_tensor_per_channel_affine expects a Float Tensor, got Double"
    );
    assert_eq!(by_channel(DType::I64, DType::F16), "ScalarType Half is not supported in new_qtensor.");
    assert_eq!(by_channel(DType::F32, DType::QI8), "Quantize only works on Float Tensor, got Double");
    let e = ops::copy_(&by_tensor(), &x, false).unwrap_err();
    assert_eq!(e.message(), "Quantized copy only works with kFloat as source Tensor");
}
#[test]
fn orders_and_parts() {
    let t = by_tensor();
    let (v, i) = ops::sort(&t, 1, true).unwrap();
    assert_eq!(v.int_repr().to_vec::<u8>(), [10, 9, 6, 46, 12, 10]);
    assert_eq!(i.to_vec::<i64>(), [2, 1, 0, 2, 1, 0]);
    let both = ops::cat(&[t.clone(), t.clone()], 0).unwrap();
    assert_eq!(both.sizes(), [4, 3]);
    assert!(ops::equal(&both.narrow(0, 2, 2), &t).unwrap());
    assert_eq!(t.relu().int_repr().to_vec::<u8>(), [10, 10, 10, 10, 12, 46]);
}
