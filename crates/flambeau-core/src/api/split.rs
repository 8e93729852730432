//! `split`, whose argument is a size or a list of sizes.

use crate::Tensor;
use crate::api::convert::{Dim, IntoDims};
use crate::api::ergonomic::expect;
use crate::generated::ops;
use crate::types::error::Result;

/// How `split` cuts: parts of one size (`2`), or parts of the sizes in a list (`[2, 3]`, `&sizes`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a size nor a list of sizes",
    label = "a size or a list of sizes is wanted here",
    note = "write `2` for parts of this size, `[2, 3]` or `&sizes` for one part of each"
)]
pub trait IntoSections {
    /// The parts of a tensor.
    ///
    /// # Errors
    /// Sizes that do not fit.
    fn parts(self, input: &Tensor, dim: i64) -> Result<Vec<Tensor>>;
}
macro_rules! sections {
    ($($number:ty),*; $([$($generics:tt)*] $list:ty),*) => {
        $(impl IntoSections for $number {
            fn parts(self, input: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
                ops::split(input, Dim::dim(self), dim)
            }
        })*
        $(impl<T: Dim, $($generics)*> IntoSections for $list {
            fn parts(self, input: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
                ops::split_with_sizes(input, &self.into_dims(), dim)
            }
        })*
    };
}
sections!(i32, i64, usize; [const N: usize] [T; N], [const N: usize] &[T; N], [] &[T], [] Vec<T>, [] &Vec<T>);

/// Parts along a dimension: of one size, the last one possibly smaller, or of the sizes in a list, which add up to the tensor's.
///
/// - Dtypes: all; the results have the input's dtype and memory.
/// - Errors: a dimension out of range. a negative size, or 0. sizes that do not add up. an input without dimensions.
///
/// ```
/// let x = torch::arange(5);
/// assert_eq!(torch::split(&x, 2, 0)[2].to_vec::<i64>(), [4]);
/// assert_eq!(torch::split(&x, [2, 3], 0)[1].to_vec::<i64>(), [2, 3, 4]);
/// ```
#[doc(alias = "torch.split")]
#[track_caller]
pub fn split(
    input: &Tensor,
    split_size_or_sections: impl IntoSections,
    dim: i64, /* Python's default: 0 */
) -> Vec<Tensor> {
    expect(split_size_or_sections.parts(input, dim))
}
impl Tensor {
    /// Parts along a dimension: of one size, the last one possibly smaller, or of the sizes in a list ([`split`]).
    #[doc(alias = "torch.Tensor.split")]
    #[track_caller]
    pub fn split(
        &self,
        split_size_or_sections: impl IntoSections,
        dim: i64, /* Python's default: 0 */
    ) -> Vec<Tensor> {
        split(self, split_size_or_sections, dim)
    }
}
