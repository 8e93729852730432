//! The functions that change a module, by their documented names: on module objects, which they give back.

use super::Arguments;
use crate::by_name::ModuleObject;
use crate::module::Module;
use crate::utils::prune::{self, Amount, Norm};
use crate::utils::{self, SpectralNormOptions, parametrizations as new, parametrize};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, Result, Value};
use flambeau_library::NativeFn;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.nn.utils.weight_norm", |a, k| {
        on("weight_norm", &["module", "name", "dim"], a, k, |m, a| {
            utils::try_weight_norm(m, &a.name()?, utils::WeightNormOptions::new().dim(a.dim(2, Some(0))?))
        })
    }),
    ("torch.nn.utils.remove_weight_norm", |a, k| {
        on("remove_weight_norm", &["module", "name"], a, k, |m, a| {
            utils::try_remove_weight_norm(m, &a.name()?)
        })
    }),
    ("torch.nn.utils.spectral_norm", |a, k| {
        on("spectral_norm", SPECTRAL, a, k, |m, a| utils::try_spectral_norm(m, &a.name()?, a.spectral()?))
    }),
    ("torch.nn.utils.remove_spectral_norm", |a, k| {
        on("remove_spectral_norm", &["module", "name"], a, k, |m, a| {
            utils::try_remove_spectral_norm(m, &a.name()?)
        })
    }),
    ("torch.nn.utils.parametrizations.weight_norm", |a, k| {
        on("weight_norm", &["module", "name", "dim"], a, k, |m, a| {
            new::try_weight_norm(m, &a.name()?, utils::WeightNormOptions::new().dim(a.dim(2, Some(0))?))
        })
    }),
    ("torch.nn.utils.parametrizations.spectral_norm", |a, k| {
        on("spectral_norm", SPECTRAL, a, k, |m, a| new::try_spectral_norm(m, &a.name()?, a.spectral()?))
    }),
    ("torch.nn.utils.parametrizations.orthogonal", |a, k| {
        let names = &["module", "name", "orthogonal_map", "use_trivialization"];
        on("orthogonal", names, a, k, |m, a| {
            let mut o = new::OrthogonalOptions::new().use_trivialization(a.or(3, true)?);
            if let Some(Value::Str(map)) = a.values[2] {
                o = o.orthogonal_map(new::OrthogonalMap::from_name(map)?);
            }
            new::try_orthogonal(m, &a.name()?, o)
        })
    }),
    ("torch.nn.utils.parametrize.remove_parametrizations", |a, k| {
        let names = &["module", "tensor_name", "leave_parametrized"];
        on("remove_parametrizations", names, a, k, |m, a| {
            parametrize::try_remove_parametrizations(m, &a.must::<String>(1)?, a.or(2, true)?)
        })
    }),
    ("torch.nn.utils.parametrize.is_parametrized", |a, k| {
        let a = Arguments::new("is_parametrized", &["module", "tensor_name"], a, k)?;
        let name: Option<String> = a.or(1, None)?;
        ask(&a, |m| parametrize::is_parametrized(m, name.as_deref()))
    }),
    ("torch.nn.utils.prune.is_pruned", |a, k| {
        ask(&Arguments::new("is_pruned", &["module"], a, k)?, |m| prune::is_pruned(m.as_module()))
    }),
    ("torch.nn.utils.prune.identity", |a, k| {
        on("identity", &["module", "name"], a, k, |m, a| prune::try_identity(m, &a.must::<String>(1)?))
    }),
    ("torch.nn.utils.prune.remove", |a, k| {
        on("remove", &["module", "name"], a, k, |m, a| prune::try_remove(m, &a.must::<String>(1)?))
    }),
    ("torch.nn.utils.prune.random_unstructured", |a, k| {
        on("random_unstructured", &["module", "name", "amount"], a, k, |m, a| {
            prune::try_random_unstructured(m, &a.must::<String>(1)?, a.amount()?)
        })
    }),
    ("torch.nn.utils.prune.l1_unstructured", |a, k| {
        on("l1_unstructured", &["module", "name", "amount", "importance_scores"], a, k, |m, a| {
            prune::try_l1_unstructured(m, &a.must::<String>(1)?, a.amount()?, a.tensor(3)?.as_ref())
        })
    }),
    ("torch.nn.utils.prune.random_structured", |a, k| {
        on("random_structured", &["module", "name", "amount", "dim"], a, k, |m, a| {
            prune::try_random_structured(m, &a.must::<String>(1)?, a.amount()?, a.must(3)?)
        })
    }),
    ("torch.nn.utils.prune.ln_structured", |a, k| {
        let names = &["module", "name", "amount", "n", "dim", "importance_scores"];
        on("ln_structured", names, a, k, |m, a| {
            let n = match a.values[3] {
                Some(Value::Str(s)) if s == "fro" => Norm::Fro,
                Some(Value::Str(s)) if s == "nuc" => Norm::Nuc,
                _ => Norm::P(a.must(3)?),
            };
            let scores = a.tensor(5)?;
            prune::try_ln_structured(m, &a.must::<String>(1)?, a.amount()?, n, a.must(4)?, scores.as_ref())
        })
    }),
    ("torch.nn.utils.prune.custom_from_mask", |a, k| {
        on("custom_from_mask", &["module", "name", "mask"], a, k, |m, a| {
            prune::try_custom_from_mask(m, &a.must::<String>(1)?, &a.must(2)?)
        })
    }),
];
const SPECTRAL: &[&str] = &["module", "name", "n_power_iterations", "eps", "dim"];

impl Arguments<'_> {
    /// The tensor's name, by default that of a layer's weight.
    fn name(&self) -> Result<String> {
        self.or(1, "weight".to_owned())
    }
    /// A dimension, which may be given as `None`.
    fn dim(&self, i: usize, default: Option<i64>) -> Result<Option<i64>> {
        match self.values[i] {
            None => Ok(default),
            Some(Value::None) => Ok(None),
            Some(_) => self.must(i).map(Some),
        }
    }
    fn spectral(&self) -> Result<SpectralNormOptions> {
        let o = SpectralNormOptions::new().n_power_iterations(self.or(2, 1)?).eps(self.or(3, 1e-12)?);
        Ok(match self.dim(4, None)? {
            Some(d) => o.dim(d),
            None => o,
        })
    }
    fn amount(&self) -> Result<Amount> {
        match self.values[2] {
            Some(Value::Int(n)) => Ok(Amount::Count(*n)),
            Some(Value::Float(f)) => Ok(Amount::Fraction(*f)),
            Some(v) => Err(Error::type_(format!(
                "Invalid type for amount: {}. Must be int or float.",
                flambeau_core::text::repr(v)?
            ))),
            None => self.must::<f64>(2).map(Amount::Fraction),
        }
    }
    fn module(&self) -> Result<&ModuleObject> {
        match self.values[0] {
            Some(Value::Object(o)) => o
                .downcast::<ModuleObject>()
                .ok_or_else(|| Error::type_(format!("expected a Module, got {}", o.type_name()))),
            Some(v) => Err(Error::type_(format!("expected a Module, got {}", v.type_name()))),
            None => self.must::<i64>(0).and_then(|_| Err(Error::type_("expected a Module, got int"))),
        }
    }
}
/// Changes the module and gives it back.
fn on(
    name: &'static str,
    names: &'static [&'static str],
    args: &[Value],
    kwargs: &Kwargs,
    f: impl FnOnce(&mut dyn Module, &Arguments<'_>) -> Result<()>,
) -> Result<Vec<Value>> {
    let a = Arguments::new(name, names, args, kwargs)?;
    a.module()?.with_mut(|m| f(m.as_module_mut(), &a))?;
    Ok(a.values[0].cloned().into_iter().collect())
}
fn ask(a: &Arguments<'_>, f: impl FnOnce(&dyn Module) -> bool) -> Result<Vec<Value>> {
    Ok(vec![Value::Bool(a.module()?.with_mut(|m| Ok(f(m.as_module())))?)])
}
