//! In-place and `out=` forms whose tensor does not fit: what PyTorch asks first, and in which words.

use super::*;

/// An output without elements.
fn out(d: DType) -> Result<Tensor> {
    ops::zeros(&[0], Some(d), None, None, None)
}
/// What `index_add` adds.
fn places(sizes: &[i64]) -> Result<Tensor> {
    ops::ones(sizes, None, None, None, None)
}
/// The second of these is out of range.
fn far() -> Tensor {
    ints(&[0, 9])
}

#[test]
fn in_place_forms() {
    cases! {
        Set::new, t;
        "atan2_, sizes before dtypes", Shape,
            "output with shape [2] doesn't match the broadcast shape [3, 2]"
            => ops::atan2_(&t.n, &f32s(&[3, 2]));
        "atan2_, dtype", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::atan2_(&t.n, &t.n);
        "addmm_", Shape,
            "Bad in-place call: input tensor size [3] and output tensor size [2, 3] should match"
            => ops::addmm_(&f32s(&[3]), &t.x, &f32s(&[3, 3]), 1.into(), 1.into());
        "addmv_", Shape,
            "Bad in-place call: input tensor size [1] and output tensor size [2] should match"
            => ops::addmv_(&t.one, &t.x, &f32s(&[3]), 1.into(), 1.into());
        "addr_, dimensions", Runtime,
            "2D tensor expected, got 1D tensor for input"
            => ops::addr_(&f32s(&[3]), &f32s(&[2]), &f32s(&[3]), 1.into(), 1.into());
        "addr_, sizes", Runtime,
            "size mismatch, input: [2, 3], v1: [3], v2: [3]"
            => ops::addr_(&t.x, &f32s(&[3]), &f32s(&[3]), 1.into(), 1.into());
        "mvlgamma_", Runtime,
            "mvlgamma: result type Long can't be cast to the desired output type Float"
            => ops::mvlgamma_(&t.n, 1);
        "mvlgamma_, p first", Runtime, "p has to be greater than or equal to 1" => ops::mvlgamma_(&t.n, 0);
        "ldexp_", Runtime,
            "ldexp can't be cast to the desired output type Long"
            => ops::ldexp_(&t.n, &t.n);
        "float_power_", Runtime,
            "the base given to float_power_ has dtype Float but the operation's result requires dtype Double"
            => ops::float_power_(&t.x, &t.x);
        "masked_scatter_", Runtime,
            "expand(CPUBoolType{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)"
            => ops::masked_scatter_(&f32s(&[3]), &ops::eq(&t.x, &t.x)?, &t.x);
    }
}

#[test]
fn outputs_of_other_dtypes() {
    cases! {
        Set::new, t;
        "max over a dimension, values", DType,
            "Expected out tensor to have dtype float, but got double instead"
            => ops::max_dim_out(&t.x, 1, false, &mut out(DType::F64)?, &mut out(DType::I64)?);
        "max over a dimension, indices", DType,
            "Expected out tensor to have dtype long int, but got float instead"
            => ops::max_dim_out(&t.x, 1, false, &mut out(DType::F32)?, &mut out(DType::F32)?);
        "kthvalue, values", DType,
            "output values must be of same type as input"
            => ops::kthvalue_out(&t.x, 1, 1, false, &mut out(DType::F64)?, &mut out(DType::I64)?);
        "kthvalue, indices", DType,
            "output indices must be of scalar type Long"
            => ops::kthvalue_out(&t.x, 1, 1, false, &mut out(DType::F32)?, &mut out(DType::I32)?);
        "mode, indices", DType,
            "expected scalar type 'Long' but got 'Int' for indices output"
            => ops::mode_out(&t.x, 1, false, &mut out(DType::F32)?, &mut out(DType::I32)?);
    }
}

#[test]
fn indices_out_of_range() {
    cases! {
        Set::new, t;
        "index_select, first dimension", Index, "index out of range in self" => ops::index_select(&t.x, 0, &far());
        "index_select, second dimension", Runtime,
            "INDICES element is out of DATA bounds, id=9 axis_dim=3"
            => ops::index_select(&t.x, 1, &far());
        "index_select of nothing", Runtime,
            "index_select(): self indexing axis dim should be positive"
            => ops::index_select(&t.e, 0, &far());
        "index_add, a vector", Index,
            "index out of range in self"
            => ops::index_add(&f32s(&[3]), 0, &far(), &places(&[2])?, 1.into());
        "index_add, the last dimension", Runtime,
            "index 9 is out of bounds for dimension 1 with size 3"
            => ops::index_add(&t.x, 1, &far(), &places(&[2, 2])?, 1.into());
        "index_add, in between", Index,
            "index out of range in self"
            => ops::index_add(&f32s(&[2, 3, 2]), 1, &far(), &places(&[2, 2, 2])?, 1.into());
        "scatter to nothing", Runtime,
            "index 0 is out of bounds for dimension 0 with size 0"
            => ops::scatter_add(&t.e, 0, &ints(&[0]).unsqueeze(0), &t.x);
        "index_reduce with the input", Index,
            "index out of range in self"
            => ops::index_reduce(&t.x, 1, &far(), &places(&[2, 2])?, "amax", true);
        "index_reduce without the input", Index,
            "index 9 is out of bounds for dimension 1 with size 3"
            => ops::index_reduce(&t.x, 1, &far(), &places(&[2, 2])?, "amax", false);
    }
}

/// The imaginary part of a number is not dropped where elements have none.
#[test]
fn complex_numbers_for_real_elements() {
    const I: Scalar = Scalar::Complex(num_complex::Complex::new(0.0, 1.0));
    cases! {
        Set::new, t;
        "lerp", Runtime,
            "value cannot be converted to type float without overflow"
            => ops::lerp(&t.x, &t.x, I);
        "addcmul", Runtime,
            "value cannot be converted to type float without overflow"
            => ops::addcmul(&t.x, &t.x, &t.x, I);
        "addmm", Runtime,
            "value cannot be converted to type float without overflow"
            => ops::addmm(&t.x, &t.x, &f32s(&[3, 3]), I, 1.into());
        "norm", Runtime,
            "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
            => ops::linalg_vector_norm(&t.x, I, None, false, None);
    }
}

#[test]
fn few_of_a_number_and_counts_of_nothing() {
    let (values, indices) =
        ops::topk(&ops::full(&[], 4.into(), None, None, None, None).unwrap(), 0, -1, true, true).unwrap();
    assert_eq!((values.item::<f32>(), indices.item::<i64>()), (4.0, 0));
    let nothing = ints(&[]);
    let counts = ops::bincount(&nothing, Some(&f32s(&[0])), 2).unwrap();
    assert_eq!((counts.dtype(), counts.to_vec::<i64>()), (DType::I64, vec![0, 0]));
}
