//! Distributions, constraints and transforms as objects of the by-name layer.

mod constraint;
mod transform;

use crate::argument::Param;
use crate::distribution::{Distribution, Shapes, set_default_validate_args};
use crate::families::{Categorical, Gamma, Independent, MixtureSameFamily, TransformedDistribution};
use crate::kl::try_kl_divergence;
use crate::transforms::AnyTransform;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::{FromValue, NamedTuple};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{object, register_function};
use std::any::Any;
use std::sync::Arc;

static REG: CrateReg = CrateReg { name: "flambeau-distributions names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, make) in CLASSES {
        object::register_class(path, *make);
    }
    for path in ["torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"] {
        register_function(path, kl_divergence);
    }
    register_function("torch.distributions.Distribution.set_default_validate_args", set_default);
    constraint::register();
    transform::register();
}
/// The base class itself, which can do nothing.
struct Bare(Shapes);
impl Distribution for Bare {
    fn name(&self) -> &'static str {
        "Distribution"
    }
    fn shapes(&self) -> &Shapes {
        &self.0
    }
}
fn bare(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["batch_shape", "event_shape", "validate_args"];
    let s = Slots::new("Distribution.__init__", names, args, kwargs)?;
    let shapes = Shapes::new(&sizes(s.values[0])?, &sizes(s.values[1])?, s.get(2)?);
    Ok(distribution(Arc::new(Bare(shapes))))
}
const CLASSES: &[(&str, object::Constructor)] = &[
    ("torch.distributions.Distribution", bare),
    ("torch.distributions.Independent", independent),
    ("torch.distributions.MixtureSameFamily", mixture),
    ("torch.distributions.TransformedDistribution", transformed),
];

/// A distribution as an object.
struct DistributionObject(Arc<dyn Distribution>);
/// The object of a distribution.
pub(crate) fn distribution(d: Arc<dyn Distribution>) -> ObjectRef {
    ObjectRef::new(DistributionObject(d))
}
fn distribution_of(v: &Value) -> Option<Arc<dyn Distribution>> {
    match v {
        Value::Object(o) => o.downcast::<DistributionObject>().map(|d| d.0.clone()),
        _ => None,
    }
}
fn size(sizes: &[i64]) -> Value {
    Value::Named(NamedTuple::size(sizes))
}
fn sizes(v: Option<&Value>) -> Result<Vec<i64>> {
    v.map_or(Ok(Vec::new()), Vec::<i64>::from_value)
}
fn param(p: Param) -> Value {
    match p {
        Param::Number(n) => flambeau_core::dispatch::value::IntoValue::into_value(n),
        Param::Tensor(t) => Value::Tensor(t),
    }
}
impl DistributionObject {
    /// A value argument; checks say what they want of it.
    fn value(&self, s: &Slots<'_>) -> Result<Tensor> {
        match s.must(0)? {
            Value::Tensor(t) => Ok(t.clone()),
            // PyTorch makes tensors of what the gamma distributions get
            v if v.as_scalar().is_none()
                || (self.0.shapes().validate() && self.0.as_case_of::<Gamma>().is_none()) =>
            {
                Err(Error::value("The value argument to log_prob must be a Tensor"))
            }
            v => Param::from_value(v)?.operand(),
        }
    }
}
impl Object for DistributionObject {
    fn type_name(&self) -> &'static str {
        self.0.name()
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let d = &self.0;
        Ok(match name {
            "batch_shape" => size(d.batch_shape()),
            "event_shape" => size(d.event_shape()),
            "has_rsample" => Value::Bool(d.has_rsample()),
            "has_enumerate_support" => Value::Bool(d.has_enumerate_support()),
            "mean" => Value::Tensor(d.try_mean()?),
            "mode" => Value::Tensor(d.try_mode()?),
            "variance" => Value::Tensor(d.try_variance()?),
            "stddev" => Value::Tensor(d.try_stddev()?),
            "support" => Value::Object(constraint::object(d.try_support()?)),
            "arg_constraints" => {
                let all = d.arguments()?.into_iter();
                let entry = |a: crate::distribution::Argument| {
                    (a.name.to_owned(), Value::Object(constraint::object(a.constraint)))
                };
                Value::Dict(all.map(entry).collect())
            }
            "param_shape" => match d.parameter("probs")? {
                Some(p) => size(p.sizes()),
                None => return Err(no_attribute(d.name(), name)),
            },
            "base_dist" => {
                let independent = d.as_case_of::<Independent>().map(Independent::base);
                let transformed =
                    || d.as_case_of::<TransformedDistribution>().map(TransformedDistribution::base);
                match independent.or_else(transformed) {
                    Some(base) => Value::Object(distribution(base.clone())),
                    None => return Err(no_attribute(d.name(), name)),
                }
            }
            _ => match d.parameter(name)? {
                Some(t) => Value::Tensor(t),
                None => return Err(no_attribute(d.name(), name)),
            },
        })
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let d = &self.0;
        let slots = |name, parameters| Slots::new(name, parameters, args, kwargs);
        let tensor = |t: Result<Tensor>| one(t?);
        match name {
            "log_prob" => tensor(d.try_log_prob(&self.value(&slots("log_prob", &["value"])?)?)),
            "cdf" => tensor(d.try_cdf(&self.value(&slots("cdf", &["value"])?)?)),
            "icdf" => tensor(d.try_icdf(&Param::from_value(slots("icdf", &["value"])?.must(0)?)?.operand()?)),
            "entropy" => {
                slots("entropy", &[])?;
                tensor(d.try_entropy())
            }
            "perplexity" => {
                slots("perplexity", &[])?;
                tensor(d.try_perplexity())
            }
            "sample" => tensor(d.try_sample(&sizes(slots("sample", &["sample_shape"])?.values[0])?)),
            "rsample" => tensor(d.try_rsample(&sizes(slots("rsample", &["sample_shape"])?.values[0])?)),
            "sample_n" => tensor(d.try_sample(&[i64::from_value(slots("sample_n", &["n"])?.must(0)?)?])),
            "expand" => {
                let s = slots("expand", &["batch_shape"])?;
                Ok(vec![Value::Object(distribution(d.try_expand(&sizes(Some(s.must(0)?))?)?))])
            }
            "enumerate_support" => {
                let s = slots("enumerate_support", &["expand"])?;
                tensor(d.try_enumerate_support(s.get(0)?.unwrap_or(true)))
            }
            _ => Err(no_attribute(d.name(), name)),
        }
    }
    fn repr(&self) -> String {
        self.0.to_text()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn independent(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["base_distribution", "reinterpreted_batch_ndims", "validate_args"];
    let s = Slots::new("Independent.__init__", names, args, kwargs)?;
    let base = distribution_of(s.must(0)?).ok_or_else(|| Error::type_("a distribution is expected"))?;
    let n = i64::from_value(s.must(1)?)?;
    let n = usize::try_from(n).map_err(|_| Error::value("reinterpreted_batch_ndims must be >= 0"))?;
    Ok(distribution(Arc::new(Independent::try_new(base, n, s.get(2)?)?)))
}
fn mixture(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["mixture_distribution", "component_distribution", "validate_args"];
    let s = Slots::new("MixtureSameFamily.__init__", names, args, kwargs)?;
    let choice = distribution_of(s.must(0)?);
    let choice = choice.as_ref().and_then(|d| d.downcast_ref::<Categorical>()).ok_or_else(|| {
        Error::value(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
    })?;
    let parts = distribution_of(s.must(1)?).ok_or_else(|| {
        Error::value("The Component distribution needs to be an instance of torch.distributions.Distribution")
    })?;
    Ok(distribution(Arc::new(MixtureSameFamily::try_new(choice.clone(), parts, s.get(2)?)?)))
}
fn transformed(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["base_distribution", "transforms", "validate_args"];
    let s = Slots::new("TransformedDistribution.__init__", names, args, kwargs)?;
    let base = distribution_of(s.must(0)?).ok_or_else(|| Error::type_("a distribution is expected"))?;
    let given = s.must(1)?;
    let all: Vec<AnyTransform> = match (transform::of(given), given) {
        (Some(t), _) => vec![t],
        (None, Value::List(l)) => {
            let each: Option<Vec<_>> = l.iter().map(transform::of).collect();
            each.ok_or_else(|| Error::value("transforms must be a Transform or a list of Transforms"))?
        }
        (None, v) => {
            let text = flambeau_core::text::repr(v)?;
            return Err(Error::value(format!("transforms must be a Transform or list, but was {text}")));
        }
    };
    Ok(distribution(Arc::new(TransformedDistribution::try_new(base, all, s.get(2)?)?)))
}
fn kl_divergence(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("kl_divergence", &["p", "q"], args, kwargs)?;
    let both = (distribution_of(s.must(0)?), distribution_of(s.must(1)?));
    let (Some(p), Some(q)) = both else {
        let class = |v: &Value| match v {
            Value::Object(o) => o.type_name().to_string(),
            other => other.type_name().to_string(),
        };
        return Err(Error::unsupported(format!(
            "No KL(p || q) is implemented for p type {} and q type {}",
            class(s.must(0)?),
            class(s.must(1)?)
        )));
    };
    one(try_kl_divergence(&*p, &*q)?)
}
fn set_default(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("set_default_validate_args", &["value"], args, kwargs)?;
    let on = s.must(0)?;
    let on = match on {
        Value::Bool(on) => *on,
        Value::Int(n @ (0 | 1)) => *n == 1,
        Value::Float(x) if *x == 0.0 || *x == 1.0 => *x == 1.0,
        // PyTorch says nothing more
        _ => return Err(Error::value("")),
    };
    set_default_validate_args(on);
    Ok(vec![Value::None])
}
