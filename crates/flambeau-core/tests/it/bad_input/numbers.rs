//! Negative sizes, steps, repeats and counts; numbers and words outside their domain.

use super::*;

#[test]
fn sizes_steps_and_numbers() {
    cases! {
        Set::new, t;
        "empty", Shape,
            "Trying to create tensor with negative dimension -1: [-1]"
            => ops::empty(&[-1], None, None, None, None, None);
        "zeros", Runtime,
            "zeros: Dimension size must be non-negative."
            => ops::zeros(&[2, -3], None, None, None, None);
        "full", Shape,
            "Trying to create tensor with negative dimension -9223372036854775808: [-9223372036854775808]"
            => ops::full(&[i64::MIN], 0.0.into(), None, None, None, None);
        "empty_strided, stride", OutOfMemory,
            "Storage size calculation overflowed with sizes=[2] and strides=[-1]"
            => ops::empty_strided(&[2], &[-1], None, None, None, None);
        "empty_strided, lengths", Shape,
            "dimensionality of sizes (1) must match dimensionality of strides (2)"
            => ops::empty_strided(&[2], &[1, 1], None, None, None, None);
        "eye", Runtime, "n must be greater or equal to 0, got -1" => ops::eye(-1, None, None, None, None);
        "arange", Runtime,
            "upper bound and lower bound inconsistent with step sign"
            => ops::arange((-1).into(), None, None, None, None);
        "arange, step 0", Runtime,
            "step must be nonzero"
            => ops::arange_step(0.into(), 1.into(), 0.into(), None, None, None, None);
        "linspace", Runtime,
            "number of steps must be non-negative"
            => ops::linspace(0.into(), 1.into(), -1, None, None, None, None);
        "logspace", Runtime,
            "number of steps must be non-negative"
            => ops::logspace(0.into(), 1.into(), -1, 10.0, None, None, None, None);
        "randperm", Shape,
            "Trying to create tensor with negative dimension -1: [-1]"
            => ops::randperm(-1, None, None, None, None, None);
        "tril_indices", Runtime,
            "row must be non-negative, got-1"
            => ops::tril_indices(-1, 2, 0, None, None, None, None);
        "randint, empty range", Runtime,
            "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"
            => ops::randint(0, &[2], None, None, None, None, None);
        "random_, empty range", Runtime,
            "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"
            => ops::random_from_(&t.x, 3, Some(3), None);
        "view", Shape, "invalid shape dimension -2 at index 0 of shape [-2, 3]" => ops::view(&t.x, &[-2, 3]);
        "view, two unknown", Shape, "only one dimension can be inferred" => ops::view(&t.x, &[-1, -1]);
        "view, other number", Shape, "shape '[4]' is invalid for input of size 6" => ops::view(&t.x, &[4]);
        "view of a transposed", Shape,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead."
            => ops::view(&ops::t(&t.x)?, &[6]);
        "reshape", Shape, "invalid shape dimension -6 at index 0 of shape [-6]" => ops::reshape(&t.x, &[-6]);
        "reshape of nothing", Shape,
            "cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension size -1 can be any value and is ambiguous"
            => ops::reshape(&t.e, &[0, -1]);
        "expand", Shape,
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0"
            => ops::expand(&t.x, &[-1, 2, 3], false);
        "expand, other size", Shape,
            "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1."
            => ops::expand(&t.x, &[2, 4], false);
        "expand, negative size", Runtime,
            "numel: integer multiplication overflow"
            => ops::expand(&t.x, &[-2, 2, 3], false);
        "repeat", Shape,
            "Trying to create tensor with negative dimension -2: [-2, 6]"
            => ops::repeat(&t.x, &[-1, 2]);
        "repeat, too few", Runtime,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            => ops::repeat(&t.x, &[2]);
        "repeat_interleave", Runtime,
            "Repeats must be non-negative"
            => ops::repeat_interleave_int(&t.x, -1, Some(0), None);
        "repeat_interleave by a tensor", Runtime,
            "repeats can not be negative"
            => ops::repeat_interleave(&ints(&[1, -2]), None);
        "repeat_interleave, other length", Runtime,
            "repeats must have the same size as input along dim, but got repeats.size(0) = 3 and input.size(0) = 2"
            => ops::repeat_interleave_tensor(&t.x, &ints(&[1, 2, 3]), Some(0), None);
        "narrow, length", Runtime, "narrow(): length must be non-negative." => ops::narrow(&t.x, 0, 0, -1);
        "narrow, beyond", Runtime,
            "start (1) + length (2) exceeds dimension size (2)."
            => ops::narrow(&t.x, 0, 1, 2);
        "narrow, start", Index,
            "start out of range (expected to be in range of [-2, 2], but got 5)"
            => ops::narrow(&t.x, 0, 5, 0);
        "slice, step 0", Runtime, "slice step must be positive" => ops::slice(&t.x, 0, None, None, 0);
        "slice, step -1", Runtime, "slice step must be positive" => ops::slice(&t.x, 0, None, None, -1);
        "split", Runtime,
            "split expects split_size be non-negative, but got split_size=-1"
            => ops::split(&t.x, -1, 0);
        "split into 0", Runtime,
            "split_size can only be 0 if dimension size is 0, but got dimension size of 2"
            => ops::split(&t.x, 0, 0);
        "split_with_sizes", Runtime,
            "split_with_sizes expects split_sizes to sum exactly to 2 (input tensor's size at dimension 0), but got split_sizes=[1, 2]"
            => ops::split_with_sizes(&t.x, &[1, 2], 0);
        "split_with_sizes, negative", Runtime,
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=[3, -1]"
            => ops::split_with_sizes(&t.x, &[3, -1], 0);
        "chunk 0", Runtime, "chunk expects `chunks` to be greater than 0, got: 0" => ops::chunk(&t.x, 0, 0);
        "tensor_split 0", Runtime,
            "number of sections must be larger than 0, got 0"
            => ops::tensor_split_sections(&t.x, 0, 0);
        "unfold, size", Runtime, "size is -1 but must be >= 0" => ops::unfold(&t.x, 0, -1, 1);
        "unfold, step", Runtime, "step is 0 but must be > 0" => ops::unfold(&t.x, 0, 1, 0);
        "as_strided, size", OutOfMemory,
            "Storage size calculation overflowed with sizes=[-1] and strides=[1]"
            => ops::as_strided(&t.x, &[-1], &[1], None);
        "as_strided, stride", Shape,
            "as_strided: Negative strides are not supported at the moment, got strides: [-1]"
            => ops::as_strided(&t.x, &[2], &[-1], None);
        "as_strided, offset", Storage,
            "Tensor: invalid storage offset -1"
            => ops::as_strided(&t.x, &[1], &[1], Some(-1));
        "as_strided, lengths", Shape,
            "mismatch in length of strides and shape"
            => ops::as_strided(&t.x, &[1, 1], &[1], None);
        "topk", Runtime, "selected index k out of range" => ops::topk(&t.x, -1, -1, true, true);
        "topk, too many", Runtime, "selected index k out of range" => ops::topk(&t.x, 4, -1, true, true);
        "kthvalue 0", Runtime,
            "kthvalue(): selected number k out of range for dimension 1"
            => ops::kthvalue(&t.x, 0, -1, false);
        "kthvalue, too many", Runtime,
            "kthvalue(): selected number k out of range for dimension 1"
            => ops::kthvalue(&t.x, HUGE, -1, false);
        "bincount", Runtime,
            "bincount only supports 1-d non-negative integral inputs."
            => ops::bincount(&ints(&[-1]), None, 0);
        "bincount, minlength", Runtime, "minlength should be >= 0" => ops::bincount(&t.n, None, -1);
        "bincount, weights", Runtime,
            "weights should be 1-d and have the same length as input"
            => ops::bincount(&t.n, Some(&t.one), 0);
        "histc, no bins", Runtime,
            "torch.histogram(): bins must be > 0, but got 0 for dimension 0"
            => ops::histc(&t.x, 0, 0.into(), 0.into());
        "histc, range", Runtime,
            "torch.histc: max must be larger than min"
            => ops::histc(&t.x, 5, 2.into(), 1.into());
        "multinomial, too many", Runtime,
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
            => ops::multinomial(&t.ones, 4, false, None);
        "multinomial, none", Runtime,
            "cannot sample n_sample <= 0 samples"
            => ops::multinomial(&t.ones, 0, false, None);
        "multinomial, negative weights", Runtime,
            "probability tensor contains either `inf`, `nan` or element < 0"
            => ops::multinomial(&ops::neg(&t.ones)?, 1, false, None);
        "bernoulli_", Runtime,
            "bernoulli_ expects p to be in [0, 1], but got p=2"
            => ops::bernoulli_float_(&t.x, 2.0, None);
        "normal_", Runtime,
            "normal expects std >= 0.0, but found std -1"
            => ops::normal_(&t.x, 0.0, -1.0, None);
        "uniform_", Runtime,
            "uniform_ expects to return a [from, to) range, but found from=1 > to=0"
            => ops::uniform_(&t.x, 1.0, 0.0, None);
        "exponential_", Runtime,
            "exponential_ expects lambda > 0.0, but found lambda=-1"
            => ops::exponential_(&t.x, -1.0, None);
        "geometric_", Runtime,
            "geometric_ expects p to be in (0, 1), but got p=2"
            => ops::geometric_(&t.x, 2.0, None);
        "quantile", Runtime,
            "quantile() q must be in the range [0, 1] but got 1.5"
            => ops::quantile_scalar(&t.x, 1.5, None, false, "linear");
        "quantile, interpolation", Runtime,
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got x"
            => ops::quantile_scalar(&t.x, 0.5, None, false, "x");
        "mvlgamma", Runtime, "p has to be greater than or equal to 1" => ops::mvlgamma(&t.x, 0);
        "polygamma", Runtime, "polygamma(n, x) does not support negative n." => ops::polygamma(-1, &t.x);
        "matrix_power", Runtime,
            "linalg.matrix_power: A must be batches of square matrices, but they are 2 by 3 matrices"
            => ops::matrix_power(&t.x, 2);
        "rot90", Runtime, "expected total rotation dims == 2, but got dims = 1" => ops::rot90(&t.x, 1, &[0]);
        "div, rounding mode", Runtime,
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'up'"
            => ops::div_mode(&t.x, &t.x, Some("up"));
        "clamp without bounds", Runtime,
            "torch.clamp: At least one of 'min' or 'max' must not be None"
            => ops::clamp(&t.x, None, None);
        "movedim, lengths", Runtime,
            "movedim: Invalid source or destination dims: source ([0, 1] dims) should contain the same number of dims as destination ([0] dims)"
            => ops::movedim(&t.x, &[0, 1], &[0]);
        "roll, lengths", Runtime,
            "shifts and dimensions must align. shifts: 2, dims:1"
            => ops::roll(&t.x, &[1, 1], &[0]);
        "nonzero_static", Runtime,
            "nonzero_static: 'size' must be an non-negative integer"
            => ops::nonzero_static(&t.x, -1, -1);
    }
}
