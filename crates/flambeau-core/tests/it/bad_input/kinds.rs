//! Dtypes, shapes and devices that do not fit.

use super::*;

#[test]
fn dtypes_shapes_and_devices() {
    cases! {
        Set::new, t;
        "add, sizes", Shape,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
            => ops::add(&t.x, &f32s(&[2, 4]), 1.into());
        "add_, larger", Shape,
            "output with shape [2, 3] doesn't match the broadcast shape [4, 2, 3]"
            => ops::add_(&t.x, &f32s(&[4, 2, 3]), 1.into());
        "add_, dtype", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::add_(&t.n, &f32s(&[2]), 1.into());
        "add_, overlapping", Storage,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation."
            => ops::add_(&ops::expand(&t.one, &[4], false)?, &f32s(&[4]), 1.into());
        "add, alpha", Runtime,
            "For integral input tensors, argument alpha must not be a floating point number."
            => ops::add(&t.n, &t.n, 1.5.into());
        "bitwise_and of floats", Unsupported,
            "\"bitwise_and_cpu\" not implemented for 'Float'"
            => ops::bitwise_and(&t.x, &t.x);
        "bitwise_not of floats", Unsupported,
            "\"bitwise_not_cpu\" not implemented for 'Float'"
            => ops::bitwise_not(&t.x);
        "sub of bools", Unsupported,
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
            => ops::sub(&t.b, &t.b, 1.into());
        "neg of bools", Unsupported,
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
            => ops::neg(&t.b);
        "lt of complex", Unsupported, "\"lt_cpu\" not implemented for 'ComplexFloat'" => ops::lt(&t.c, &t.c);
        "maximum of complex", Type,
            "maximum not implemented for complex tensors."
            => ops::maximum(&t.c, &t.c);
        "floor of complex", Unsupported, "floor is not supported for complex inputs" => ops::floor(&t.c);
        "clamp between complex bounds", Unsupported, "\"clamp_cpu\" not implemented for 'ComplexFloat'"
            => ops::clamp_tensor(&f32s(&[2]), Some(&t.c), Some(&t.c));
        "cdist of two dtypes", Runtime, "expected scalar type Float but found Double"
            => ops::cdist(&t.x, &ops::zeros(&[2, 3], Some(DType::F64), None, None, None)?, 1.0, None);
        "histogram of ints in a range", Unsupported, "\"histogram_cpu\" not implemented for 'Long'"
            => ops::histogramdd(&ops::unsqueeze(&t.i, 1)?, &[2], Some(&[0.0, 1.0]), None, false);
        "addmm without products", Runtime, "result type Float can't be cast to the desired output type Long"
            => ops::addmm(&t.i, &ops::zeros(&[2, 0], Some(DType::I64), None, None, None)?, &ops::zeros(&[0, 2], Some(DType::I64), None, None, None)?, 0.5.into(), 1.into());
        "gcd of floats", Unsupported, "\"gcd_cpu\" not implemented for 'Float'" => ops::gcd(&t.x, &t.x);
        "div_ of ints", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::div_(&t.n, &t.n);
        "exp_ of ints", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::exp_(&t.n);
        "mean of ints", Unsupported,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long"
            => ops::mean(&t.n, None, false, None);
        "var of ints", Unsupported,
            "std and var only support floating point and complex dtypes"
            => ops::var(&t.n, None, None, false);
        "softmax of ints", Unsupported,
            "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"
            => ops::softmax(&t.n, 0, None);
        "max of complex", Unsupported, "\"max_all\" not implemented for 'ComplexFloat'" => ops::max(&t.c);
        "sort of complex", Type, "Sort does not support complex dtypes on CPU" => ops::sort(&t.c, -1, false);
        "cumsum_ of a dtype", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::cumsum_(&t.n, 0, Some(DType::F32));
        "median of bools", Unsupported, "\"median_cpu\" not implemented for 'Bool'" => ops::median(&t.b);
        "quantile of ints", Runtime,
            "quantile() input tensor must be either float or double dtype"
            => ops::quantile_scalar(&t.n, 0.5, None, false, "linear");
        "mm, sizes", Runtime,
            "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"
            => ops::mm(&t.x, &t.x);
        "mm, dims", Runtime, "mm: mat2 must be a matrix, got 1-D tensor" => ops::mm(&t.x, &f32s(&[2]));
        "mm, dtypes", DType,
            "expected m1 and m2 to have the same dtype, but got: float != double"
            => ops::mm(&t.x, &ops::t(&t.d)?);
        "matmul of no dims", Runtime,
            "both arguments to matmul need to be at least 1D, but they are 0D and 2D"
            => ops::matmul(&t.s, &t.x);
        "matmul, sizes", Runtime,
            "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"
            => ops::matmul(&t.x, &t.x);
        "bmm, dims", Runtime, "batch1 must be a 3D tensor" => ops::bmm(&t.x, &t.x);
        "bmm, sizes", Runtime,
            "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [3, 3]."
            => ops::bmm(&f32s(&[2, 2, 3]), &f32s(&[3, 3, 2]));
        "dot, sizes", Runtime,
            "inconsistent tensor size, expected tensor [2] and src [3] to have the same number of elements, but got 2 and 3 elements respectively"
            => ops::dot(&f32s(&[2]), &f32s(&[3]));
        "dot, dims", Runtime, "1D tensors expected, but got 2D and 2D tensors" => ops::dot(&t.x, &t.x);
        "dot, dtypes", DType,
            "dot : expected both vectors to have same dtype, but found Float and Long"
            => ops::dot(&f32s(&[2]), &t.n);
        "mv", Runtime, "size mismatch, got input (2), mat (2x3), vec (2)" => ops::mv(&t.x, &f32s(&[2]));
        "addmm", Shape,
            "The expanded size of the tensor (2) must match the existing size (5) at non-singleton dimension 1."
            => ops::addmm(&f32s(&[5]), &t.x, &ops::t(&t.x)?, 1.into(), 1.into());
        "outer, dims", Runtime, "outer: Expected 1-D argument self, but got 2-D" => ops::outer(&t.x, &t.x);
        "tensordot", Runtime,
            "contracted dimensions need to match, but first has size 2 in dim 0 and second has size 3 in dim 1"
            => ops::tensordot(&t.x, &t.x, &[0], &[1]);
        "einsum, operands", Runtime,
            "einsum(): fewer operands were provided than specified in the equation"
            => ops::einsum("ij,jk->ik", std::slice::from_ref(&t.x), None);
        "einsum, letters", Runtime,
            "einsum(): invalid subscript given at index 1 in the equation string, subscripts must be in [a-zA-Z]"
            => ops::einsum("i?", std::slice::from_ref(&t.x), None);
        "einsum, sizes", Runtime,
            "einsum(): subscript j has size 2 for operand 1 which does not broadcast with previously seen size 3"
            => ops::einsum("ij,jk", &[t.x.clone(), t.x.clone()], None);
        "einsum, output", Runtime,
            "einsum(): output subscript z does not appear in the equation for any input operand"
            => ops::einsum("ij->z", std::slice::from_ref(&t.x), None);
        "index_select by floats", Runtime,
            "index_select(): Expected dtype int32 or int64 for index"
            => ops::index_select(&t.x, 0, &t.one);
        "gather by floats", Runtime,
            "gather(): Expected dtype int32/int64 for index"
            => ops::gather(&t.x, 0, &t.x, false);
        "take by floats", Runtime,
            "take(): Expected a long tensor for index, but got Float"
            => ops::take(&t.x, &t.x);
        "index by floats", Index,
            "tensors used as indices must be long, int, byte or bool tensors"
            => ops::index(&t.x, &[Some(t.one.clone())]);
        "index_add, dtypes", Runtime,
            "index_add_(): self (Float) and source (Double) must have the same scalar type"
            => ops::index_add(&t.x, 0, &ints(&[0, 1]), &t.d, 1.into());
        "scatter, dtypes", Runtime,
            "scatter(): Expected self.dtype to be equal to src.dtype"
            => ops::scatter(&t.x, 0, &ops::zeros(&[1, 2], Some(DType::I64), None, None, None)?, &t.d);
        "masked_fill by floats", Runtime,
            "masked_fill_ only supports boolean masks, but got mask with dtype float"
            => ops::masked_fill(&t.x, &t.x, 0.into());
        "masked_select by floats", Runtime,
            "masked_select: expected BoolTensor for mask"
            => ops::masked_select(&t.x, &t.x);
        "masked_scatter, too few", Runtime,
            "Number of elements of source < number of ones in mask"
            => ops::masked_scatter(&t.x, &ops::ones(&[2, 3], Some(DType::Bool), None, None, None)?, &t.one);
        "where by floats", Runtime,
            "where expected condition to be a boolean tensor, but got a tensor with dtype Float"
            => ops::where_(&t.x, &t.x, &t.x);
        "bincount of floats", Unsupported,
            "\"bincount_cpu\" not implemented for 'Float'"
            => ops::bincount(&f32s(&[2]), None, 0);
        "searchsorted, side", Runtime,
            "torch.searchsorted(): side can only be 'left' or 'right' but got up"
            => ops::searchsorted(&f32s(&[2]), &f32s(&[2]), false, false, Some("up"), None);
        "bucketize, matrix", Runtime,
            "boundaries tensor must be 1 dimension, but got dim(2)"
            => ops::bucketize(&t.x, &t.x, false, false);
        "view of other bytes", Shape,
            "self.size(-1) must be divisible by 2 to view Float as Double (different element sizes), but got 3"
            => ops::view_dtype(&f32s(&[3, 3]), DType::F64);
        "view_as_complex", Runtime,
            "Tensor must have a last dimension of size 2"
            => ops::view_as_complex(&t.x);
        "view_as_real of reals", Type,
            "view_as_real is only supported for complex tensors"
            => ops::view_as_real(&t.x);
        "imag of reals", Type,
            "imag is not implemented for tensors with non-complex dtypes."
            => ops::imag(&t.x);
        "complex, dtypes", Runtime,
            "Expected object of scalar type Float but got scalar type Double for second argument"
            => ops::complex(&t.x, &t.d);
        "complex of ints", Unsupported,
            "Expected both inputs to be Half, Float or Double tensors but got Long and Long"
            => ops::complex(&t.n, &t.n);
        "lerp, dtypes", Runtime,
            "expected dtype float for `end` but got dtype double"
            => ops::lerp(&t.x, &t.d, 0.5.into());
        "copysign_ of ints", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::copysign_(&t.n, &t.n);
        "logit of ints in place", DType,
            "result type Float can't be cast to the desired output type Long"
            => ops::logit_(&t.n, None);
        "normal_ of ints", Unsupported,
            "\"normal_kernel_cpu\" not implemented for 'Long'"
            => ops::normal_(&t.n, 0.0, 1.0, None);
        "randn of ints", Unsupported,
            "\"normal_kernel_cpu\" not implemented for 'Long'"
            => ops::randn(&[2], None, Some(DType::I64), None, None, None);
        "bernoulli of ints", Unsupported,
            "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'"
            => ops::bernoulli(&t.n, None);
        "multinomial of ints", Runtime,
            "multinomial only supports floating-point dtypes for input, got: Long"
            => ops::multinomial(&t.n, 1, false, None);
        "poisson of ints", Unsupported,
            "\"poisson_cpu\" not implemented for 'Long'"
            => ops::poisson(&t.n, None);
        "arange of bools", Unsupported,
            "\"arange_cpu\" not implemented for 'Bool'"
            => ops::arange(2.into(), Some(DType::Bool), None, None, None);
        "fill_ by a matrix", Runtime,
            "fill_ only supports 0-dimension value tensor but got tensor with 2 dimensions."
            => ops::fill_tensor_(&t.x, &t.x);
        "fill_ by complex", Runtime,
            "value cannot be converted to type float without overflow"
            => ops::fill_(&t.x, complex(0.0, 1.0));
        "copy_, sizes", Shape,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
            => ops::copy_(&t.x, &f32s(&[4]), false);
        "linspace of complex into reals", Runtime,
            "torch.linspace(): inferred dtype c10::complex<float> can't be safely cast to passed dtype Float"
            => ops::linspace(0.into(), complex(0.0, 1.0), 3, Some(DType::F32), None, None, None);
        "channels_last of two dims", Shape,
            "required rank 4 tensor to use channels_last format"
            => ops::contiguous(&t.x, MemoryFormat::ChannelsLast);
        "empty, preserve", Runtime,
            "unsupported memory format Preserve"
            => ops::empty(&[2], None, None, None, None, Some(MemoryFormat::Preserve));
        "add, meta and cpu", Device,
            "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!"
            => ops::add(&t.x, &t.m, 1.into());
        "add_, meta into cpu", Device,
            "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!"
            => ops::add_(&t.x, &t.m, 1.into());
        "mm, meta and cpu", Device,
            "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!"
            => ops::mm(&t.x, &ops::t(&t.m)?);
        "cat, meta and cpu", Device,
            "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!"
            => ops::cat(&[t.x.clone(), t.m.clone()], 0);
        "where, a number that is none of the other's dtype", Runtime,
            "value cannot be converted to type uint8_t without overflow"
            => ops::where_(&t.b, &of(DType::U8), &Tensor::wrapped_raw(300i64)?);
        "where, the same on the other side", Runtime,
            "value cannot be converted to type int8_t without overflow"
            => ops::where_(&t.b, &Tensor::wrapped_raw(-200i64)?, &of(DType::I8));
        "bitwise_and_, of what cannot be written", DType,
            "result type Float can't be cast to the desired output type Bool"
            => ops::bitwise_and_(&t.b, &t.x);
        "bmm, two dtypes", DType,
            "expected m1 and m2 to have the same dtype, but got: float != c10::Half"
            => ops::bmm(&f32s(&[2, 8, 8]), &ops::to(&f32s(&[2, 8, 8]), Some(DType::F16), None, None, None, false, false, None)?);
        "bmm, two dtypes that the library of products has", DType,
            "expected scalar type Float but found Half"
            => ops::bmm(&ops::to(&f32s(&[2, 8, 8]), Some(DType::F16), None, None, None, false, false, None)?, &f32s(&[2, 8, 8]));
        "unflatten, two unknown", Runtime,
            "unflatten got an unexpected error:\nonly one dimension can be inferred"
            => ops::unflatten(&t.x, 1, &[-1, -1]);
        "nonzero_static, an output of another dtype", DType,
            "nonzero_static: Expected out tensor to have scalar type Long but got scalar typeFloat"
            => ops::nonzero_static_out(&t.x, 2, -1, &mut f32s(&[0]));
        "a device without a name", Runtime,
            "Device string must not be empty"
            => Device::parse("");
        "where, meta and cpu", Device,
            "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!"
            => ops::where_(&t.b, &t.x, &t.m);
        "index, index on meta", Device,
            "a CPU kernel was given a tensor on meta"
            => ops::index(&t.x, &[Some(Tensor::empty_raw(&[2], DType::I64, Device::Meta)?)]);
        "masked_fill, mask on meta", Device,
            "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!"
            => ops::masked_fill(&t.x, &Tensor::empty_raw(&[2, 3], DType::Bool, Device::Meta)?, 0.into());
        "copy_ from meta", Unsupported,
            "Cannot copy out of meta tensor; no data!"
            => ops::copy_(&t.x, &t.m, false);
        "to cpu from meta", Unsupported,
            "Cannot copy out of meta tensor; no data!"
            => ops::to_copy(&t.m, None, None, Some(Device::Cpu), None, false, None);
        "item of meta", Unsupported,
            "Tensor.item() cannot be called on meta tensors"
            => ops::sum(&t.m, None, false, None)?.try_item::<f32>();
        "item of many", Runtime,
            "a Tensor with 6 elements cannot be converted to Scalar"
            => t.x.try_item::<f32>();
        "to a device without allocator", Device,
            "no allocator is linked for device cuda:0"
            => ops::to_copy(&t.x, None, None, Some(Device::Cuda(0)), None, false, None);
    }
}
