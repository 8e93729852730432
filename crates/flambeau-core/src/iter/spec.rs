//! What a row of the table says of a pointwise operator: its formula, its promotion rule, the dtypes that it has loops for.

use crate::DType;
use crate::dispatch::op::Kernels;
use crate::iter::promotion::{self, ResultTypeState};
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use flambeau_cpu::pointwise::{Param, Pointwise};

/// How the dtype that an operator computes in follows from its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promote {
    /// PyTorch's type promotion over all inputs.
    Default,
    /// The same, but integers and bool compute in the default float dtype.
    IntToFloat,
    /// Promotion over all inputs but the first, which is a mask.
    SkipFirst,
    /// The first input's dtype; the others are cast to it.
    First,
    /// As `Default`, from the last input to the first, which errors tell: the operator is another one the other way round.
    Reversed,
    /// As `Default`; an integer zero in the second input, the divisor, is an error.
    Divide,
}

/// A pointwise operator for the iterator.
pub struct PointwiseSpec {
    /// Name without overload.
    pub name: &'static str,
    /// What "not implemented for" errors call it.
    pub label: Label,
    /// Formulas.
    pub kernel: &'static Pointwise,
    /// Promotion rule.
    pub promote: Promote,
    /// The dtypes with few loops in PyTorch that it has one for.
    pub rare: Rare,
    /// Kernels of back ends that are not built in.
    pub kernels: Kernels<PointwiseKernel>,
}

/// A call to a back end's kernel of a pointwise row.
pub struct PointwiseCall<'a> {
    /// The row.
    pub spec: &'static PointwiseSpec,
    /// The dtype that is computed in: that of the inputs.
    pub compute: DType,
    /// What is written, of the formula's own dtype and the broadcast sizes.
    pub out: &'a Tensor,
    /// The operands, on the device, without lazy bits; they broadcast to the sizes of `out`.
    pub inputs: &'a [Tensor],
    /// Numbers among the arguments.
    pub params: &'a [Param],
}
/// A back end's kernel of a pointwise row.
pub type PointwiseKernel = fn(&PointwiseCall) -> Result<()>;

pub(crate) const MAX_OPERANDS: usize = 4;

/// What "not implemented for" errors call an operator. PyTorch has loops of their own, with another name, for some operands:
/// narrow floats (float8), and those with a single number on the right.
#[derive(Clone, Copy)]
pub struct Label {
    /// The name.
    pub name: &'static str,
    /// For narrow floats.
    pub narrow: Option<&'static str>,
    /// For narrow floats and a single number on the right.
    pub narrow_number: Option<&'static str>,
    /// For what is not complex.
    pub real: Option<&'static str>,
    /// There is no loop for narrow floats and a single number on the right.
    pub refuse_narrow_number: bool,
}
impl Label {
    /// One name for all operands.
    pub const fn plain(name: &'static str) -> Label {
        Label { name, narrow: None, narrow_number: None, real: None, refuse_narrow_number: false }
    }
}
fn narrow(d: DType) -> bool {
    matches!(d, DType::F8E4M3 | DType::F8E5M2)
}

/// Dtypes that PyTorch has few loops for: those in which an operator computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rare(u8);
impl Rare {
    /// In none of them.
    pub const NONE: Rare = Rare(0);
    /// Complex numbers of float16.
    pub const COMPLEX32: Rare = Rare(1);
    /// Complex numbers of bfloat16.
    pub const BCOMPLEX32: Rare = Rare(2);
    /// 8-bit floats.
    pub const FLOAT8: Rare = Rare(4);
    /// Unsigned integers beyond a byte.
    pub const UNSIGNED: Rare = Rare(8);
    /// In all of them.
    pub const ALL: Rare = Rare(15);
    /// These and others.
    pub const fn and(self, o: Rare) -> Rare {
        Rare(self.0 | o.0)
    }
    /// Where a dtype belongs; the common ones to none.
    #[inline]
    pub(crate) fn of(d: DType) -> Rare {
        match d {
            DType::C32 => Rare::COMPLEX32,
            DType::BC32 => Rare::BCOMPLEX32,
            DType::F8E4M3 | DType::F8E5M2 => Rare::FLOAT8,
            DType::U16 | DType::U32 | DType::U64 => Rare::UNSIGNED,
            _ => Rare::NONE,
        }
    }
}

impl PointwiseSpec {
    /// Whether results have the dtype that they are computed in: not those of comparisons.
    pub(crate) fn keeps_dtype(&self) -> bool {
        let same = |d: DType| self.find(d).is_some_and(|l| l.out == d);
        same(DType::F32) || same(DType::I64)
    }
    /// The loop for a dtype, if the operator has one.
    #[inline]
    pub(crate) fn find(&self, compute: DType) -> Option<flambeau_cpu::pointwise::Loop> {
        let rare = Rare::of(compute);
        if rare != Rare::NONE && self.rare.0 & rare.0 == 0 {
            return None;
        }
        self.kernel.find(compute)
    }
    /// Whether PyTorch has no loop for these operands although the formula has one.
    #[inline]
    pub(crate) fn refuses(&self, compute: DType, inputs: &[&Tensor]) -> bool {
        self.label.refuse_narrow_number && narrow(compute) && inputs[1].numel() == 1
    }
    /// What is said of a dtype without a loop.
    #[cold]
    pub(crate) fn refusal(&self, compute: DType, inputs: &[&Tensor]) -> Error {
        let (l, number) = (&self.label, inputs.get(1).is_some_and(|t| t.numel() == 1));
        let label = match (l.narrow, l.narrow_number, l.real) {
            (_, Some(label), _) if narrow(compute) && number => label,
            (Some(label), ..) if narrow(compute) => label,
            (.., Some(label)) if !compute.is_complex() => label,
            _ => l.name,
        };
        Error::not_implemented_for(label, compute)
    }
    #[inline]
    pub(crate) fn compute_of_same(&self, d: DType) -> DType {
        match self.promote {
            Promote::IntToFloat if d.is_integral(true) => promotion::default_dtype(),
            _ => d,
        }
    }
    pub(crate) fn compute_dtype(&self, inputs: &[&Tensor]) -> Result<DType> {
        let skip = usize::from(self.promote == Promote::SkipFirst);
        if self.promote == Promote::First {
            return Ok(inputs[0].dtype());
        }
        let inputs = &inputs[skip.min(inputs.len() - 1)..];
        let first = inputs[0].dtype();
        let d = if inputs.iter().all(|t| t.dtype() == first && !t.is_wrapped_number()) {
            first
        } else {
            let mut s = ResultTypeState::default();
            if self.promote == Promote::Reversed {
                inputs.iter().rev().try_for_each(|t| s.tensor(t))?;
            } else {
                inputs.iter().try_for_each(|t| s.tensor(t))?;
            }
            s.finish()?
        };
        Ok(self.compute_of_same(d))
    }
}
