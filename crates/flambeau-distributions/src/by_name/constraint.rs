//! Constraints and their registries as objects.

use super::{Param, param, transform};
use crate::constraints::{self, Constraint};
use crate::registry::{ConstraintRegistry, try_biject_to, try_transform_to};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{object as classes, register_constant, register_function};
use std::any::Any;
use std::sync::Arc;

/// A constraint as an object.
struct ConstraintObject {
    constraint: Constraint,
    /// It decorates a function that computes it (`dependent_property`).
    property: bool,
}
impl ConstraintObject {
    fn plain(constraint: Constraint) -> Self {
        ConstraintObject { constraint, property: false }
    }
    fn class(&self) -> &'static str {
        if self.property { "DependentProperty" } else { self.constraint.class() }
    }
    /// What errors call the class: all but one are private in PyTorch.
    fn class_in_errors(&self) -> String {
        match self.class() {
            public @ "MixtureSameFamilyConstraint" => public.to_string(),
            private => format!("_{private}"),
        }
    }
}
/// The object of a constraint.
pub(super) fn object(c: Constraint) -> ObjectRef {
    ObjectRef::new(ConstraintObject::plain(c))
}
pub(super) fn of(v: &Value) -> Option<Constraint> {
    match v {
        Value::Object(o) => o.downcast::<ConstraintObject>().map(|c| c.constraint.clone()),
        _ => None,
    }
}
fn must(v: &Value) -> Result<Constraint> {
    of(v).ok_or_else(|| {
        Error::assertion(format!("base_constraint must be a Constraint, got {}", v.type_name()))
    })
}
fn list(v: &Value) -> Result<Vec<Constraint>> {
    let all = v.items().unwrap_or(&[]).iter().map(of).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| Error::assertion("All elements of cseq must be Constraint instances"))
}
impl Object for ConstraintObject {
    fn type_name(&self) -> &'static str {
        self.class()
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let bounds = self.constraint.bounds();
        Ok(match (name, bounds, &self.constraint) {
            ("is_discrete", ..) => Value::Bool(self.constraint.try_is_discrete()?),
            ("event_dim", ..) => Value::Int(self.constraint.try_event_dim()? as i64),
            ("lower_bound", (Some(b), _), _) | ("upper_bound", (_, Some(b)), _) => param(b.clone()),
            (
                "base_constraint",
                _,
                Constraint::Independent(base, _) | Constraint::MixtureSameFamily(base),
            ) => Value::Object(object((**base).clone())),
            ("reinterpreted_batch_ndims", _, Constraint::Independent(_, n)) => Value::Int(*n as i64),
            _ => return Err(no_attribute(&self.class_in_errors(), name)),
        })
    }
    /// Calling `dependent` gives it what is known of it; the others are found by calls too.
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        if self.property {
            // the function is given later
            Slots::new("_DependentProperty.__call__", &["fn"], args, kwargs)?.must(0)?;
            let constraint = self.constraint.clone();
            return Ok(vec![Value::Object(ObjectRef::new(ConstraintObject { constraint, property: true }))]);
        }
        let s = Slots::new("__call__", &["is_discrete", "event_dim"], args, kwargs)?;
        let Constraint::Dependent { is_discrete, event_dim } = &self.constraint else {
            return Err(Error::type_(format!("'_{}' object is not callable", self.class())));
        };
        let dim = s.get::<i64>(1)?.and_then(|n| usize::try_from(n).ok());
        let (is_discrete, event_dim) = (s.get(0)?.or(*is_discrete), dim.or(*event_dim));
        Ok(vec![Value::Object(object(Constraint::Dependent { is_discrete, event_dim }))])
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "check" => {
                let s = Slots::new("check", &["value"], args, kwargs)?;
                one(self.constraint.try_check(&s.tensor()?)?)
            }
            _ => Err(no_attribute(&self.class_in_errors(), name)),
        }
    }
    fn repr(&self) -> String {
        if self.property { format!("{}()", self.class()) } else { self.constraint.to_string() }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

macro_rules! constants {
    ($($name:ident),* $(,)?) => {
        $(register_constant(
            concat!("torch.distributions.constraints.", stringify!($name)),
            || Value::Object(object(constraints::$name())),
        );
        register_function(
            concat!("torch.distributions.constraints.", stringify!($name), ".check"),
            |args, kwargs| ConstraintObject::plain(constraints::$name()).method("check", args, kwargs),
        );
        classes::register_class(
            concat!("torch.distributions.constraints.", stringify!($name)),
            |args, kwargs| {
                let c = ConstraintObject::plain(constraints::$name());
                if matches!(c.constraint, Constraint::Dependent { .. }) && !(args.is_empty() && kwargs.is_empty()) {
                    return match c.call(args, kwargs)?.first() {
                        Some(Value::Object(o)) => Ok(o.clone()),
                        _ => Ok(object(c.constraint)),
                    };
                }
                Ok(object(c.constraint))
            },
        );)*
    };
}
/// A class of constraints with one or two bounds.
macro_rules! bounded {
    ($($name:ident($($bound:ident),+);)*) => {$(
        classes::register_class(
            concat!("torch.distributions.constraints.", stringify!($name)),
            |args, kwargs| {
                let s = Slots::new(concat!("_", stringify!($name), ".__init__"), &[$(stringify!($bound)),+], args, kwargs)?;
                let mut all = 0..;
                let mut next = || Param::from_value(s.must(all.next().unwrap_or(0))?);
                $(let $bound = next()?;)+
                Ok(object(constraints::$name($($bound),+)))
            },
        );
    )*};
}
fn natural(v: &Value) -> Result<usize> {
    let n = i64::from_value(v)?;
    usize::try_from(n)
        .map_err(|_| Error::assertion(format!("reinterpreted_batch_ndims must be >= 0, got {n}")))
}
fn independent(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["base_constraint", "reinterpreted_batch_ndims"];
    let s = Slots::new("_IndependentConstraint.__init__", names, args, kwargs)?;
    Ok(object(constraints::independent(must(s.must(0)?)?, natural(s.must(1)?)?)))
}
fn cat(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("_Cat.__init__", &["cseq", "dim", "lengths"], args, kwargs)?;
    Ok(object(constraints::try_cat(list(s.must(0)?)?, s.get(1)?.unwrap_or(0), s.get(2)?)?))
}
fn stack(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("_Stack.__init__", &["cseq", "dim"], args, kwargs)?;
    Ok(object(constraints::stack(list(s.must(0)?)?, s.get(1)?.unwrap_or(0))))
}
fn mixture(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("MixtureSameFamilyConstraint.__init__", &["base_constraint"], args, kwargs)?;
    Ok(object(Constraint::MixtureSameFamily(Box::new(must(s.must(0)?)?))))
}
/// A constraint that follows from others, of a function that computes it.
fn dependent_property(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("_DependentProperty.__init__", &["fn", "is_discrete", "event_dim"], args, kwargs)?;
    let event_dim = s.get::<i64>(2)?.and_then(|n| usize::try_from(n).ok());
    let constraint = Constraint::Dependent { is_discrete: s.get(1)?, event_dim };
    Ok(ObjectRef::new(ConstraintObject { constraint, property: true }))
}
fn is_dependent(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("is_dependent", &["constraint"], args, kwargs)?;
    one(of(s.must(0)?).is_some_and(|c| c.is_dependent()))
}

/// A registry of the user's.
struct RegistryObject(Arc<ConstraintRegistry>);
/// What `register` without a factory gives: it takes the factory.
struct Decorator(Arc<ConstraintRegistry>, Constraint);
impl Object for Decorator {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let s = Slots::new("<lambda>", &["factory"], args, kwargs)?;
        link(&self.0, &self.1, s.must(0)?)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// Links a kind of constraint to a factory, and gives the factory back.
fn link(registry: &ConstraintRegistry, kind: &Constraint, factory: &Value) -> Result<Vec<Value>> {
    let Value::Object(factory) = factory else {
        return Err(Error::type_(format!("'{}' object is not callable", factory.type_name())));
    };
    let (given, factory) = (Value::Object(factory.clone()), factory.clone());
    registry.register(kind, move |c| {
        let made = factory.call(&[Value::Object(object(c.clone()))], &[])?;
        let made = made.first().and_then(transform::of);
        made.ok_or_else(|| Error::type_("the factory gave no transform"))
    });
    Ok(vec![given])
}
impl Object for RegistryObject {
    fn type_name(&self) -> &'static str {
        "ConstraintRegistry"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let s = Slots::new("ConstraintRegistry.__call__", &["constraint"], args, kwargs)?;
        let given = s.must(0)?;
        let constraint = of(given).ok_or_else(|| {
            Error::unsupported(format!("Cannot transform {} constraints", given.type_name()))
        })?;
        let t = self.0.try_transform(&constraint)?;
        Ok(vec![Value::Object(transform::object(t))])
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        ensure!(name == "register", Attribute, "'ConstraintRegistry' object has no attribute '{name}'");
        let s = Slots::new("register", &["constraint", "factory"], args, kwargs)?;
        let kind = s.must(0)?;
        let Some(kind) = of(kind).or_else(|| of_class(kind)) else {
            return Err(Error::type_(format!(
                "Expected constraint to be either a Constraint subclass or instance, but got {}",
                flambeau_core::text::repr(kind)?
            )));
        };
        match s.values[1] {
            None | Some(Value::None) => {
                Ok(vec![Value::Object(ObjectRef::new(Decorator(self.0.clone(), kind)))])
            }
            Some(factory) => link(&self.0, &kind, factory),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// A constraint of the class that a value names.
fn of_class(v: &Value) -> Option<Constraint> {
    let Value::Object(o) = v else { return None };
    let path = o.documented_name()?.to_owned();
    let bounds = [Value::Float(0.0), Value::Float(1.0)];
    let made = [&[][..], &bounds[..1], &bounds]
        .into_iter()
        .find_map(|args| flambeau_library::object::construct(&path, args, &[]).ok());
    of(&Value::Object(made?))
}
fn registry(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    Slots::new("ConstraintRegistry.__init__", &[], args, kwargs)?;
    Ok(ObjectRef::new(RegistryObject(Arc::new(ConstraintRegistry::new()))))
}
fn by(
    find: fn(&Constraint) -> Result<crate::transforms::AnyTransform>,
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Value>> {
    let s = Slots::new("ConstraintRegistry.__call__", &["constraint"], args, kwargs)?;
    let given = s.must(0)?;
    let property =
        |o: &ObjectRef| o.downcast::<ConstraintObject>().filter(|c| c.property).map(ConstraintObject::class);
    if let Value::Object(o) = given
        && let Some(class) = property(o)
    {
        return Err(Error::unsupported(format!("Cannot transform _{class} constraints")));
    }
    let constraint = of(given)
        .ok_or_else(|| Error::unsupported(format!("Cannot transform {} constraints", given.type_name())))?;
    Ok(vec![Value::Object(transform::object(find(&constraint)?))])
}

pub(super) fn register() {
    constants!(
        boolean,
        one_hot,
        nonnegative_integer,
        positive_integer,
        real,
        real_vector,
        positive,
        nonnegative,
        unit_interval,
        simplex,
        lower_triangular,
        lower_cholesky,
        corr_cholesky,
        square,
        symmetric,
        positive_semidefinite,
        positive_definite,
        dependent,
    );
    bounded! {
        integer_interval(lower_bound, upper_bound);
        greater_than(lower_bound);
        greater_than_eq(lower_bound);
        less_than(upper_bound);
        interval(lower_bound, upper_bound);
        half_open_interval(lower_bound, upper_bound);
        multinomial(upper_bound);
    }
    let prefix = "torch.distributions.constraints.";
    let made: [(&str, classes::Constructor); 5] = [
        ("independent", independent),
        ("cat", cat),
        ("stack", stack),
        ("MixtureSameFamilyConstraint", mixture),
        ("dependent_property", dependent_property),
    ];
    for (name, make) in made {
        classes::register_class(&format!("{prefix}{name}"), make);
    }
    register_function("torch.distributions.constraints.is_dependent", is_dependent);
    classes::register_class("torch.distributions.constraint_registry.ConstraintRegistry", registry);
    for module in ["torch.distributions", "torch.distributions.constraint_registry"] {
        register_function(&format!("{module}.biject_to"), |a, k| by(try_biject_to, a, k));
        register_function(&format!("{module}.transform_to"), |a, k| by(try_transform_to, a, k));
    }
}
