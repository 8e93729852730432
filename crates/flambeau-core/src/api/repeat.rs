//! `repeat_interleave`, whose argument is a number or a tensor of numbers, and `unique` along a dimension.

use crate::Tensor;
use crate::api::convert::Dim;
use crate::api::ergonomic::expect;
use crate::generated::ops;
use crate::generated::results::UniqueResult;
use crate::types::error::Result;

/// How often `repeat_interleave` gives what it repeats: a number for all (`2`), or a tensor with one for each.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a number nor a tensor of numbers",
    label = "a number or a tensor is wanted here",
    note = "write `2` to repeat all as often, `&repeats` for a number of each"
)]
pub trait IntoRepeats {
    /// The tensor with its parts repeated.
    ///
    /// # Errors
    /// Numbers that do not fit.
    fn repeated(self, input: &Tensor, o: &RepeatInterleaveOptions) -> Result<Tensor>;
}
macro_rules! repeats {
    ($($number:ty),*; $($tensor:ty),*) => {
        $(impl IntoRepeats for $number {
            fn repeated(self, input: &Tensor, o: &RepeatInterleaveOptions) -> Result<Tensor> {
                ops::repeat_interleave_int(input, Dim::dim(self), o.dim, o.output_size)
            }
        })*
        $(impl IntoRepeats for $tensor {
            fn repeated(self, input: &Tensor, o: &RepeatInterleaveOptions) -> Result<Tensor> {
                ops::repeat_interleave_tensor(input, &self, o.dim, o.output_size)
            }
        })*
    };
}
repeats!(i32, i64, usize; Tensor, &Tensor);

/// Keyword arguments of `torch.repeat_interleave`.
#[derive(Clone, Debug, Default)]
pub struct RepeatInterleaveOptions {
    dim: Option<i64>,
    output_size: Option<i64>,
}
impl RepeatInterleaveOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets `dim` (default: the tensor is flattened).
    pub fn dim(mut self, dim: impl Into<Option<i64>>) -> Self {
        self.dim = dim.into();
        self
    }
    /// Sets `output_size`, the size of the result along `dim` where the program knows it (default: it is counted).
    pub fn output_size(mut self, output_size: impl Into<Option<i64>>) -> Self {
        self.output_size = output_size.into();
        self
    }
}

/// Each element, or each slice along a dimension, several times: as often as a number says, or a tensor with one number for each.
///
/// - Shapes: without a dimension the input is flattened.
/// - Dtypes: all; the result has the input's. A tensor of numbers is int32 or int64.
/// - Errors: negative numbers, or as many as do not fit.
///
/// ```
/// let x = torch::tensor([[1, 2], [3, 4]]);
/// assert_eq!(torch::repeat_interleave(&x, 2, None).to_vec::<i64>(), [1, 1, 2, 2, 3, 3, 4, 4]);
/// assert_eq!(torch::repeat_interleave(&x, &torch::tensor([1, 0]), 1).to_vec::<i64>(), [1, 3]);
/// ```
#[doc(alias = "torch.repeat_interleave")]
#[track_caller]
pub fn repeat_interleave(
    input: &Tensor,
    repeats: impl IntoRepeats,
    dim: impl Into<Option<i64>>, /* Python's default: None */
) -> Tensor {
    repeat_interleave_with(input, repeats, RepeatInterleaveOptions::new().dim(dim))
}
/// [`repeat_interleave`] with all keyword arguments.
#[track_caller]
pub fn repeat_interleave_with(
    input: &Tensor,
    repeats: impl IntoRepeats,
    o: RepeatInterleaveOptions,
) -> Tensor {
    expect(repeats.repeated(input, &o))
}

/// Keyword arguments of `torch.unique` along a dimension.
#[derive(Clone, Debug)]
pub struct UniqueDimOptions {
    sorted: bool,
    return_inverse: bool,
    return_counts: bool,
}
impl Default for UniqueDimOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl UniqueDimOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        UniqueDimOptions { sorted: true, return_inverse: false, return_counts: false }
    }
    /// Sets `sorted` (default `true`).
    pub fn sorted(mut self, sorted: bool) -> Self {
        self.sorted = sorted;
        self
    }
    /// Sets `return_inverse` (default `false`).
    pub fn return_inverse(mut self, return_inverse: bool) -> Self {
        self.return_inverse = return_inverse;
        self
    }
    /// Sets `return_counts` (default `false`).
    pub fn return_counts(mut self, return_counts: bool) -> Self {
        self.return_counts = return_counts;
        self
    }
}

/// The different slices along a dimension, in lexicographic order.
///
/// - Dtypes: all but complex numbers; inverse and counts are int64, and empty unless asked for.
/// - Errors: a dimension out of range. complex numbers.
///
/// ```
/// let x = torch::tensor([[1, 2], [0, 1], [1, 2]]);
/// assert_eq!(torch::unique_dim(&x, 0).values.to_vec2::<i64>(), [[0, 1], [1, 2]]);
/// ```
#[doc(alias = "torch.unique")]
#[track_caller]
pub fn unique_dim(input: &Tensor, dim: i64) -> UniqueResult {
    unique_dim_with(input, dim, UniqueDimOptions::new())
}
/// [`unique_dim`] with all keyword arguments.
#[track_caller]
pub fn unique_dim_with(input: &Tensor, dim: i64, o: UniqueDimOptions) -> UniqueResult {
    expect(ops::unique_dim(input, dim, o.sorted, o.return_inverse, o.return_counts)).into()
}

impl Tensor {
    /// Each element, or each slice along a dimension, several times ([`repeat_interleave`]).
    #[doc(alias = "torch.Tensor.repeat_interleave")]
    #[track_caller]
    pub fn repeat_interleave(
        &self,
        repeats: impl IntoRepeats,
        dim: impl Into<Option<i64>>, /* Python's default: None */
    ) -> Tensor {
        repeat_interleave(self, repeats, dim)
    }
    /// [`Tensor::repeat_interleave`] with all keyword arguments.
    #[track_caller]
    pub fn repeat_interleave_with(&self, repeats: impl IntoRepeats, o: RepeatInterleaveOptions) -> Tensor {
        repeat_interleave_with(self, repeats, o)
    }
    /// The different slices along a dimension ([`unique_dim`]).
    #[doc(alias = "torch.Tensor.unique")]
    #[track_caller]
    pub fn unique_dim(&self, dim: i64) -> UniqueResult {
        unique_dim(self, dim)
    }
    /// [`Tensor::unique_dim`] with all keyword arguments.
    #[track_caller]
    pub fn unique_dim_with(&self, dim: i64, o: UniqueDimOptions) -> UniqueResult {
        unique_dim_with(self, dim, o)
    }
}
