//! What a reduction does with two elements.

use flambeau_core::api::into_arg::IntoArg;

/// What a reduction does with the elements of all ranks.
///
/// ```
/// use torch::distributed::ReduceOp;
///
/// assert_eq!(ReduceOp::Sum.to_string(), "RedOpType.SUM");
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.ReduceOp")]
#[doc(alias = "torch.distributed.reduce_op")]
#[doc(alias = "torch.distributed.deprecated.reduce_op")]
pub enum ReduceOp {
    /// The sum.
    #[default]
    #[doc(alias = "torch.distributed.ReduceOp.SUM")]
    Sum,
    /// The sum divided by the number of ranks, of floating-point numbers.
    #[doc(alias = "torch.distributed.ReduceOp.AVG")]
    Avg,
    /// The product.
    #[doc(alias = "torch.distributed.ReduceOp.PRODUCT")]
    Product,
    /// The smallest.
    #[doc(alias = "torch.distributed.ReduceOp.MIN")]
    Min,
    /// The largest.
    #[doc(alias = "torch.distributed.ReduceOp.MAX")]
    Max,
    /// Bits that all have, of integers.
    #[doc(alias = "torch.distributed.ReduceOp.BAND")]
    BitAnd,
    /// Bits that any has, of integers.
    #[doc(alias = "torch.distributed.ReduceOp.BOR")]
    BitOr,
    /// Bits that an odd number has, of integers.
    #[doc(alias = "torch.distributed.ReduceOp.BXOR")]
    BitXor,
    /// The sum of multiples by this factor; gloo refuses it.
    #[doc(alias = "torch.distributed.ReduceOp.PREMUL_SUM")]
    #[doc(alias = "torch.distributed._make_nccl_premul_sum")]
    PremulSum(f64),
}
impl ReduceOp {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "SUM",
            ReduceOp::Avg => "AVG",
            ReduceOp::Product => "PRODUCT",
            ReduceOp::Min => "MIN",
            ReduceOp::Max => "MAX",
            ReduceOp::BitAnd => "BAND",
            ReduceOp::BitOr => "BOR",
            ReduceOp::BitXor => "BXOR",
            ReduceOp::PremulSum(_) => "PREMUL_SUM",
        }
    }
    /// The reduction of this name.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        use ReduceOp::*;
        [Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor, PremulSum(1.0)]
            .into_iter()
            .find(|o| o.name() == name)
    }
    /// PyTorch's number.
    pub(crate) fn number(self) -> u8 {
        match self {
            ReduceOp::Sum => 0,
            ReduceOp::Avg => 1,
            ReduceOp::Product => 2,
            ReduceOp::Min => 3,
            ReduceOp::Max => 4,
            ReduceOp::BitAnd => 5,
            ReduceOp::BitOr => 6,
            ReduceOp::BitXor => 7,
            ReduceOp::PremulSum(_) => 8,
        }
    }
    /// Whether it means something for pairs of reals.
    pub(crate) fn takes_complex(self) -> bool {
        matches!(self, ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_))
    }
}
impl std::fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedOpType.{}", self.name())
    }
}
impl IntoArg<ReduceOp> for ReduceOp {
    fn into_arg(self) -> ReduceOp {
        self
    }
}
