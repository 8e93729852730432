//! Transforms from unconstrained numbers onto constrained regions.

use crate::argument::Param;
use crate::constraints::Constraint;
use crate::transforms::{
    AffineTransform, AnyTransform, CatTransform, ComposeTransform, CorrCholeskyTransform, ExpTransform,
    IndependentTransform, LowerCholeskyTransform, PositiveDefiniteTransform, SigmoidTransform,
    SoftmaxTransform, StackTransform, StickBreakingTransform,
};
use flambeau_autograd::shorthand as s;
use flambeau_core::types::order::RwLock;
use flambeau_core::{Error, Result, Scalar};
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, LazyLock};

/// Makes the transform onto a region.
///
/// ```
/// use std::sync::Arc;
/// use torch::distributions::{ConstraintRegistry, Factory, constraints};
/// use torch::distributions::transforms::SoftplusTransform;
/// let soft: Factory = Arc::new(|_| Ok(SoftplusTransform.into()));
/// let all = ConstraintRegistry::new();
/// all.register(&constraints::positive(), move |c| soft(c));
/// assert_eq!(all.try_transform(&constraints::positive())?.to_text(), "SoftplusTransform()");
/// # Ok::<(), torch::Error>(())
/// ```
pub type Factory = Arc<dyn Fn(&Constraint) -> Result<AnyTransform> + Send + Sync>;

/// Links kinds of constraints to transforms (`torch.distributions.constraint_registry.ConstraintRegistry`).
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{biject_to, constraints, transforms::Transform};
/// let t = biject_to(&constraints::positive());
/// assert_eq!(t.try_call(&tensor([0.0]))?.to_vec::<f32>(), [1.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributions.constraint_registry.ConstraintRegistry")]
#[derive(Default)]
pub struct ConstraintRegistry {
    factories: RwLock<HashMap<Discriminant<Constraint>, Factory>>,
}
impl ConstraintRegistry {
    /// Without any links.
    pub fn new() -> Self {
        Self::default()
    }
    /// Links all constraints of the kind of `constraint` to what `factory` makes; a later link takes the place of an
    /// earlier one.
    #[doc(alias = "torch.distributions.constraint_registry.ConstraintRegistry.register")]
    pub fn register(
        &self,
        constraint: &Constraint,
        factory: impl Fn(&Constraint) -> Result<AnyTransform> + Send + Sync + 'static,
    ) {
        let mut all = self.factories.write().unwrap_or_else(|e| e.into_inner());
        let old = all.insert(discriminant(constraint), Arc::new(factory));
        drop(all);
        drop(old);
    }
    /// The transform onto a region.
    ///
    /// # Errors
    /// A kind of constraint without a link.
    pub fn try_transform(&self, constraint: &Constraint) -> Result<AnyTransform> {
        let all = self.factories.read().unwrap_or_else(|e| e.into_inner());
        let found = all.get(&discriminant(constraint)).cloned();
        drop(all);
        let name = match constraint {
            Constraint::MixtureSameFamily(_) => constraint.class().to_owned(),
            Constraint::Custom(c) => c.name(),
            _ => format!("_{}", constraint.class()),
        };
        let factory =
            found.ok_or_else(|| Error::unsupported(format!("Cannot transform {name} constraints")))?;
        factory(constraint)
    }
}

/// Of each constraint the transform that is a bijection, for sampling and variational inference.
///
/// ```
/// use torch::zeros;
/// use torch::distributions::{biject_to, constraints, transforms::Transform};
/// // a simplex has one dimension less than it has corners
/// let y = biject_to(&constraints::simplex()).try_call(&zeros([2]))?;
/// assert_eq!(y.sizes(), &[3]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A constraint without one.
#[doc(alias = "torch.distributions.biject_to")]
#[flambeau_macros::short]
pub fn try_biject_to(constraint: &Constraint) -> Result<AnyTransform> {
    bijections().try_transform(constraint)
}
/// Of each constraint a transform that suits optimization; it need not be a bijection.
///
/// ```
/// use torch::zeros;
/// use torch::distributions::{constraints, transform_to, transforms::Transform};
/// let y = transform_to(&constraints::simplex()).try_call(&zeros([2]))?;
/// assert_eq!(y.to_vec::<f32>(), [0.5, 0.5]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A constraint without one.
#[doc(alias = "torch.distributions.transform_to")]
#[flambeau_macros::short]
pub fn try_transform_to(constraint: &Constraint) -> Result<AnyTransform> {
    optimizations().try_transform(constraint)
}
/// The registry behind [`biject_to`], to which one can add.
///
/// ```
/// use torch::distributions::{bijections, constraints, transforms::ExpTransform};
/// assert!(bijections().try_transform(&constraints::positive_definite()).is_err());
/// bijections().register(&constraints::nonnegative(), |_| Ok(ExpTransform.into()));
/// assert_eq!(bijections().try_transform(&constraints::nonnegative())?.to_text(), "ExpTransform()");
/// # Ok::<(), torch::Error>(())
/// ```
pub fn bijections() -> &'static ConstraintRegistry {
    static ALL: LazyLock<ConstraintRegistry> = LazyLock::new(|| filled(true));
    &ALL
}
/// The registry behind [`transform_to`], to which one can add.
///
/// ```
/// use torch::distributions::{constraints, optimizations};
/// let t = optimizations().try_transform(&constraints::positive_definite())?;
/// assert_eq!(t.to_text(), "PositiveDefiniteTransform()");
/// # Ok::<(), torch::Error>(())
/// ```
pub fn optimizations() -> &'static ConstraintRegistry {
    static ALL: LazyLock<ConstraintRegistry> = LazyLock::new(|| filled(false));
    &ALL
}

fn scaled(first: AnyTransform, loc: &Param, scale: Param) -> AnyTransform {
    ComposeTransform::new([first, AffineTransform::new(loc.clone(), scale).into()]).into()
}
/// `b - a` of bounds.
fn width(a: &Param, b: &Param) -> Result<Param> {
    Ok(match (a.number(), b.number()) {
        (Some(a), Some(b)) => Param::Number(Scalar::Float(b - a)),
        _ => Param::Tensor(s::sub(&b.operand()?, &a.operand()?)?),
    })
}
fn filled(bijective: bool) -> ConstraintRegistry {
    use Constraint as C;
    let r = ConstraintRegistry::new();
    let again = move |c: &Constraint| if bijective { try_biject_to(c) } else { try_transform_to(c) };
    let (zero, number) = (Param::from(0.0), || Param::from(0.0));
    r.register(&C::Real, |_| Ok(ComposeTransform::new([]).into()));
    r.register(&C::Independent(Box::new(C::Real), 1), move |c| match c {
        C::Independent(base, n) => Ok(IndependentTransform::new(again(base)?, *n).into()),
        _ => Err(unfit(c)),
    });
    // the kind of `positive` is that of `greater_than`, and the later link of the two is what PyTorch keeps
    for c in [C::GreaterThan(number()), C::GreaterThanEq(number())] {
        r.register(&c, |c| match c.bounds() {
            (Some(low), _) => Ok(scaled(ExpTransform.into(), low, 1.into())),
            _ => Err(unfit(c)),
        });
    }
    r.register(&C::LessThan(number()), |c| match c.bounds() {
        (_, Some(high)) => Ok(scaled(ExpTransform.into(), high, (-1).into())),
        _ => Err(unfit(c)),
    });
    for c in [C::Interval(number(), number()), C::HalfOpenInterval(number(), zero.clone())] {
        r.register(&c, |c| match c.bounds() {
            (Some(low), Some(high)) if low.number() == Some(0.0) && high.number() == Some(1.0) => {
                Ok(SigmoidTransform.into())
            }
            (Some(low), Some(high)) => Ok(scaled(SigmoidTransform.into(), low, width(low, high)?)),
            _ => Err(unfit(c)),
        });
    }
    r.register(&C::CorrCholesky, |_| Ok(CorrCholeskyTransform.into()));
    r.register(&C::Cat(Vec::new(), 0, Vec::new()), move |c| match c {
        C::Cat(all, dim, lengths) => {
            let parts = all.iter().map(again).collect::<Result<_>>()?;
            Ok(CatTransform::try_new(parts, *dim, Some(lengths.clone()))?.into())
        }
        _ => Err(unfit(c)),
    });
    r.register(&C::Stack(Vec::new(), 0), move |c| match c {
        C::Stack(all, dim) => {
            Ok(StackTransform::new(all.iter().map(again).collect::<Result<Vec<_>>>()?, *dim).into())
        }
        _ => Err(unfit(c)),
    });
    if bijective {
        r.register(&C::Simplex, |_| Ok(StickBreakingTransform.into()));
    } else {
        r.register(&C::Simplex, |_| Ok(SoftmaxTransform.into()));
        r.register(&C::LowerCholesky, |_| Ok(LowerCholeskyTransform.into()));
        for c in [C::PositiveDefinite, C::PositiveSemidefinite] {
            r.register(&c, |_| Ok(PositiveDefiniteTransform.into()));
        }
    }
    r
}
fn unfit(c: &Constraint) -> Error {
    Error::assertion(format!("a link for another constraint was asked for {c}"))
}
