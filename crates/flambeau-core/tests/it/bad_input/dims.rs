//! Dimensions and indices out of range; reductions over nothing.

use super::*;

#[test]
fn dims_and_indices() {
    cases! {
        Set::new, t;
        "transpose", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::transpose(&t.x, 0, 2);
        "transpose, smallest", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got -9223372036854775808)"
            => ops::transpose(&t.x, i64::MIN, 0);
        "permute", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::permute(&t.x, &[0, 2]);
        "permute, twice", Runtime,
            "permute(): duplicate dims are not allowed."
            => ops::permute(&t.x, &[0, 0]);
        "permute, too few", Runtime,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 2 is"
            => ops::permute(&t.x, &[0]);
        "movedim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)"
            => ops::movedim(&t.x, &[0], &[5]);
        "unsqueeze", Index,
            "Dimension out of range (expected to be in range of [-3, 2], but got 4)"
            => ops::unsqueeze(&t.x, 4);
        "squeeze", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got -3)"
            => ops::squeeze_dim(&t.x, -3);
        "select, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::select(&t.x, 2, 0);
        "select", Index,
            "select(): index 2 out of range for tensor of size [2, 3] at dimension 0"
            => ops::select(&t.x, 0, 2);
        "select, smallest", Index,
            "select(): index -9223372036854775808 out of range for tensor of size [2, 3] at dimension 0"
            => ops::select(&t.x, 0, i64::MIN);
        "select of no dims", Index,
            "select() cannot be applied to a 0-dim tensor."
            => ops::select(&t.s, 0, 0);
        "flatten", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::flatten(&t.x, 0, 2);
        "flatten, swapped", Runtime,
            "flatten() has invalid args: start_dim cannot come after end_dim"
            => ops::flatten(&t.x, 1, 0);
        "unbind", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::unbind(&t.x, 2);
        "diagonal", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::diagonal(&t.x, 0, 0, 2);
        "diagonal, same dim", Runtime,
            "diagonal dimensions cannot be identical 0, 0"
            => ops::diagonal(&t.x, 0, 0, 0);
        "t of three dims", Runtime,
            "t() expects a tensor with <= 2 dimensions, but self is 3D"
            => ops::t(&ops::unsqueeze(&t.x, 0)?);
        "mT of one dim", Runtime,
            "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."
            => ops::mt(&t.n);
        "sum", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::sum(&t.x, Some(&[2]), false, None);
        "sum, twice", Runtime,
            "dim 0 appears multiple times in the list of dims"
            => ops::sum(&t.x, Some(&[0, -2]), false, None);
        "sum, many dims", Runtime,
            "only tensors with up to 64 dims are supported"
            => ops::sum(&f32s(&[1; 70]), Some(&[0]), false, None);
        "prod", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::prod_dim(&t.x, 2, false, None);
        "mean", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got -3)"
            => ops::mean(&t.x, Some(&[-3]), false, None);
        "var", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::var(&t.x, Some(&[2]), None, false);
        "max", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::max_dim(&t.x, 2, false);
        "max of nothing", Runtime,
            "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            => ops::max(&t.e);
        "max of nothing by dim", Index,
            "max(): Expected reduction dim 0 to have non-zero size."
            => ops::max_dim(&t.e, 0, false);
        "argmax of nothing", Index,
            "argmax(): Expected reduction dim to be specified for input.numel() == 0."
            => ops::argmax(&t.e, None, false);
        "argmax of nothing by dim", Index,
            "argmax(): Expected reduction dim 0 to have non-zero size."
            => ops::argmax(&t.e, Some(0), false);
        "amax of nothing", Runtime,
            "amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            => ops::amax(&t.e, &[], false);
        "aminmax of nothing", Runtime,
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            => ops::aminmax(&t.e, None, false);
        "median of nothing", Index,
            "median(): Expected reduction dim 0 to have non-zero size."
            => ops::median_dim(&t.e, 0, false);
        "mode of nothing", Index,
            "mode(): Expected reduction dim 0 to have non-zero size."
            => ops::mode(&t.e, 0, false);
        "quantile of nothing", Runtime,
            "quantile() input tensor must be non-empty"
            => ops::quantile_scalar(&t.e, 0.5, None, false, "linear");
        "softmax", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::softmax(&t.x, 2, None);
        "cumsum", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::cumsum(&t.x, 2, None);
        "cummax", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::cummax(&t.x, 2);
        "logsumexp", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::logsumexp(&t.x, &[2], false);
        "sort", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::sort(&t.x, 2, false);
        "topk", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::topk(&t.x, 1, 2, true, true);
        "kthvalue", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::kthvalue(&t.x, 1, 2, false);
        "cat, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::cat(&[t.x.clone(), t.x.clone()], 2);
        "cat of nothing", Value, "torch.cat(): expected a non-empty list of Tensors" => ops::cat(&[], 0);
        "cat, sizes", Runtime,
            "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 2 for tensor number 1 in the list."
            => ops::cat(&[t.x.clone(), f32s(&[2, 2])], 0);
        "cat, numbers of dims", Runtime,
            "Tensors must have same number of dimensions: got 2 and 1"
            => ops::cat(&[t.x.clone(), f32s(&[2])], 0);
        "cat of no dims", Runtime,
            "zero-dimensional tensor (at position 0) cannot be concatenated"
            => ops::cat(&[t.s.clone(), t.s.clone()], 0);
        "stack", Index,
            "Dimension out of range (expected to be in range of [-3, 2], but got 3)"
            => ops::stack(&[t.x.clone(), t.x.clone()], 3);
        "stack, sizes", Runtime,
            "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [2, 2] at entry 1"
            => ops::stack(&[t.x.clone(), f32s(&[2, 2])], 0);
        "flip", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::flip(&t.x, &[2]);
        "flip, twice", Runtime,
            "dim 0 appears multiple times in the list of dims"
            => ops::flip(&t.x, &[0, 0]);
        "roll", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::roll(&t.x, &[1], &[2]);
        "tril of one dim", Runtime,
            "tril: input tensor must have at least 2 dimensions"
            => ops::tril(&t.n, 0);
        "index_select", Index, "index out of range in self" => ops::index_select(&t.x, 0, &t.i);
        "index_select, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::index_select(&t.x, 2, &t.i);
        "index_select, matrix", Index,
            "index_select(): Index is supposed to be a vector"
            => ops::index_select(&t.x, 0, &t.ii);
        "index_add", Runtime,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::index_add(&t.x, 0, &t.i, &t.x, 1.into());
        "index_copy", Index,
            "index_copy_(): index 7 is out of bounds for dimension 0 with size 2"
            => ops::index_copy(&t.x, 0, &t.i, &t.x);
        "index_fill", Index,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::index_fill(&t.x, 0, &t.i, 1.0.into());
        "index_fill, dtype before the dimension", Index,
            "index_fill_(): Expected dtype int64 for index."
            => ops::index_fill(&t.x, 5, &t.one, 1.0.into());
        "scatter_add, dtype of the index before the source's", Runtime,
            "scatter(): Expected dtype int32/int64 for index"
            => ops::scatter_add(&t.x, 0, &t.x, &of(DType::I64));
        "take_along_dim, floats without a dimension", Runtime,
            "gather(): Expected dtype int32/int64 for index"
            => ops::take_along_dim(&t.x, &t.x, None);
        "take_along_dim, floats along a dimension", Runtime,
            "torch.take_along_dim(): dtype of indices should be Long but got Float"
            => ops::take_along_dim(&t.x, &t.x, Some(0));
        "masked_fill, mask before the value", Runtime,
            "masked_fill_ only supports boolean masks, but got mask with dtype float"
            => ops::masked_fill(&t.n, &t.s, complex(0.0, 1.0));
        "meshgrid, dtypes before the indexing", Runtime,
            "meshgrid expects all tensors to have the same dtype"
            => ops::meshgrid(&[t.n.clone(), t.one.clone()], "zz");
        "histogramdd, dtype before the bins", Unsupported,
            "\"histogramdd\" not implemented for 'Long'"
            => ops::histogramdd(&of(DType::I64), &[2], None, None, false);
        "where, output before the mask", Runtime,
            "Expected out type to be Float but got Double"
            => ops::where_out(&t.x, &t.x, &t.x, &mut t.d.clone());
        "tensordot, a leaf of another shape", Autograd,
            "tensordot(): the 'out' tensor was specified and requires gradients, and its shape does not match the expected result. Either remove the 'out' argument, ensure it does not require gradients, or make sure its shape matches the expected output."
            => ops::tensordot_out(&t.x, &t.x, &[1], &[1], &mut leaf(&[0]));
        "tensordot, a leaf", Autograd,
            "a leaf Variable that requires grad is being used in an in-place operation."
            => ops::tensordot_out(&t.x, &t.x, &[1], &[1], &mut leaf(&[2, 2]));
        "gather", Runtime,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::gather(&t.x, 0, &t.ii, false);
        "gather, larger", Runtime,
            "Size does not match at dimension 1 expected index [2, 5] to be no larger than self [2, 3] apart from dimension 0"
            => ops::gather(&t.x, 0, &ops::zeros(&[2, 5], Some(DType::I64), None, None, None)?, false);
        "take", Index,
            "out of range: tried to access index 7 on a tensor of 6 elements."
            => ops::take(&t.x, &t.i);
        "put", Index,
            "out of range: tried to access index 7 on a tensor of 6 elements."
            => ops::put(&t.x, &t.i, &f32s(&[2]), false);
        "scatter", Runtime,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::scatter(&t.x, 0, &t.ii, &f32s(&[1, 2]));
        "scatter_add", Runtime,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::scatter_add(&t.x, 0, &t.ii, &f32s(&[1, 2]));
        "scatter, source", Runtime,
            "Expected index [2, 2] to be no larger than self [2, 3] apart from dimension 0 and to be no larger size than src [1, 1]"
            => ops::scatter(&t.x, 0, &ops::zeros(&[2, 2], Some(DType::I64), None, None, None)?, &f32s(&[1, 1]));
        "scatter_reduce", Runtime,
            "reduce argument must be either sum, prod, mean, amax or amin, got x"
            => ops::scatter_reduce(&t.x, 0, &ops::zeros(&[1, 2], Some(DType::I64), None, None, None)?, &f32s(&[1, 2]), "x", true);
        "index", Index,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::index(&t.x, &[Some(t.i.clone())]);
        "index, too many", Index,
            "too many indices for tensor of dimension 2"
            => ops::index(&t.x, &[Some(ints(&[0])), Some(ints(&[0])), Some(ints(&[0]))]);
        "index, mask", Index,
            "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2, 3] at index 0"
            => ops::index(&t.x, &[Some(ops::ones(&[3], Some(DType::Bool), None, None, None)?)]);
        "index_put", Index,
            "index 7 is out of bounds for dimension 0 with size 2"
            => ops::index_put(&t.x, &[Some(t.i.clone())], &t.s, false);
        "split, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::split(&t.x, 1, 2);
        "narrow, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"
            => ops::narrow(&t.x, 2, 0, 1);
        "select_scatter", Index,
            "select(): index 7 out of range for tensor of size [2, 3] at dimension 0"
            => ops::select_scatter(&t.x, &f32s(&[3]), 0, 7);
        "diagonal_scatter", Runtime,
            "expected src to have a size equal to the slice of self. src size = [5], slice size = [2]"
            => ops::diagonal_scatter(&t.x, &f32s(&[5]), 0, 0, 1);
        "slice_scatter", Runtime,
            "expected src to have a size equal to the slice of self. src size = [5, 3], slice size = [2, 3]"
            => ops::slice_scatter(&t.x, &f32s(&[5, 3]), 0, None, None, 1);
        "hsplit of no dims", Runtime,
            "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!"
            => ops::hsplit(&t.s, 1);
        "trapezoid of no dims", Index,
            "Dimension specified as 0 but tensor has no dimensions"
            => ops::trapezoid_x(&t.s, &t.s, -1);
    }
}
