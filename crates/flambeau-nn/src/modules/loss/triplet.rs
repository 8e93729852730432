//! The triplet loss with a distance of one's own.

#[cfg(feature = "by-name")]
use crate::by_name::ModuleObject;
use crate::by_name::Run;
use crate::module::base::Base;
use crate::modules::{PairwiseDistance, PairwiseDistanceOptions, layer_of};
use flambeau_core::api::into_arg::IntoArg;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure};
use flambeau_macros::{Module, class};
use std::fmt;
use std::sync::Arc;

type Function = dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync;

/// How far two tensors are from each other: a function, or a module.
#[derive(Clone)]
pub enum Distance {
    /// A function.
    Function(Arc<Function>),
    /// A module of two tensors, which becomes part of the loss.
    Module(Arc<dyn Run>),
}
impl Distance {
    /// Of a function of two tensors.
    pub fn new(f: impl Fn(&Tensor, &Tensor) -> Tensor + Send + Sync + 'static) -> Distance {
        Distance::Function(Arc::new(move |a, b| Ok(f(a, b))))
    }
    /// The distance.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub fn of(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self {
            Distance::Function(f) => f(a, b),
            Distance::Module(m) => between(&**m, a, b),
        }
    }
}
fn between(m: &dyn Run, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let out = m.run(&[a.clone(), b.clone()])?;
    out.into_iter().next().ok_or_else(|| Error::runtime("the distance function gave nothing"))
}
impl fmt::Debug for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Distance")
    }
}
impl IntoArg<Distance> for Distance {
    fn into_arg(self) -> Distance {
        self
    }
}
#[cfg(feature = "by-name")]
impl FromValue for Distance {
    fn from_value(v: &Value) -> Result<Self> {
        let Value::Object(o) = v else {
            return Err(Error::type_(format!("'{}' object is not callable", v.type_name())));
        };
        if let Some(m) = o.downcast::<ModuleObject>() {
            return Ok(Distance::Module(m.take()?.into()));
        }
        let o = o.clone();
        Ok(Distance::Function(Arc::new(move |a, b| {
            let out = o.call(&[Value::Tensor(a.clone()), Value::Tensor(b.clone())], &[])?;
            out.first()
                .map_or_else(|| Err(Error::runtime("the distance function gave nothing")), Tensor::from_value)
        })))
    }
}

#[class("torch.nn.TripletMarginWithDistanceLoss", build = TripletMarginWithDistanceLoss)]
pub struct TripletMarginWithDistanceLossOptions {
    /// The distance: by default [`PairwiseDistance`].
    pub distance_function: Option<Distance>,
    /// The margin.
    #[default(1.0)]
    pub margin: Scalar,
    /// Whether the positive's distance to the negative counts where it is less.
    #[default(false)]
    pub swap: bool,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
}
/// By how much an anchor is nearer to the positive than to the negative, up to a margin, by any distance.
///
/// ```
/// use torch::nn;
/// use torch::Tensor;
/// let far = nn::Distance::new(|a, b| (a - b).abs().sum());
/// let loss = nn::TripletMarginWithDistanceLossOptions::new().distance_function(far).margin(2.0).build();
/// let t = |v: f32| Tensor::from_slice(&[v], [1]);
/// assert_eq!(loss.forward(&t(0.0), &t(1.0), &t(2.0)).item::<f32>(), 1.0);
/// ```
#[derive(Debug, Module)]
pub struct TripletMarginWithDistanceLoss {
    base: Base,
    /// The arguments.
    pub options: TripletMarginWithDistanceLossOptions,
    /// The distance, where it is a module.
    pub distance_function: Option<Arc<dyn Run>>,
}
impl TripletMarginWithDistanceLoss {
    fn from_options(mut o: TripletMarginWithDistanceLossOptions) -> Result<Self> {
        ensure!(
            o.margin.to_f64() > 0.0,
            Value,
            "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {} instead",
            o.margin.py_text()
        );
        // the module alone has its handle, so that it can be converted
        let distance_function: Option<Arc<dyn Run>> = match &o.distance_function {
            Some(Distance::Function(_)) => None,
            None => Some(Arc::<PairwiseDistance>::new(PairwiseDistanceOptions::new().try_build()?)),
            Some(Distance::Module(m)) => Some(m.clone()),
        };
        if distance_function.is_some() {
            o.distance_function = None;
        }
        Ok(TripletMarginWithDistanceLoss { base: Base::new(), options: o, distance_function })
    }
}
layer_of!(TripletMarginWithDistanceLoss, |m, anchor, positive, negative| {
    let o = &m.options;
    let by_module = m.distance_function.as_deref();
    let distance = |a: &Tensor, b: &Tensor| match (&o.distance_function, by_module) {
        (Some(f), _) => f.of(a, b),
        (None, Some(m)) => between(m, a, b),
        (None, None) => Err(Error::runtime("the loss has no distance function")),
    };
    flambeau_nn_functional::ops::loss::triplet_distance::try_triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        &distance,
        o.margin,
        o.swap,
        &o.reduction,
    )
});
