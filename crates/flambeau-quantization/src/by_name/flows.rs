//! `prepare`, `convert` and their like by name, on modules as objects.

use super::observers::SPACES;
use crate::flow::{self, Mapping};
use crate::objects::{QConfigObject, qconfig_in, qconfig_value};
use crate::qconfig::{QConfig, qconfig_of, try_get_default_qat_qconfig, try_get_default_qconfig};
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_library::NativeFn;
use flambeau_library::slots::Slots;
use flambeau_nn::Module;
use flambeau_nn::internal::ModuleObject;

pub(super) fn object(v: &Value) -> Result<&ModuleObject> {
    match v {
        Value::Object(o) => o.downcast::<ModuleObject>(),
        _ => None,
    }
    .ok_or_else(|| Error::type_(format!("expected a module, but got {}", v.type_name())))
}
/// Changes the module itself, or a copy.
fn changed(v: &Value, inplace: bool, f: impl FnOnce(&mut dyn Module) -> Result<()>) -> Result<Vec<Value>> {
    let of = object(v)?;
    if inplace {
        of.with_mut(|m| f(m.as_module_mut()))?;
        return Ok(vec![v.clone()]);
    }
    let copy: ObjectRef = of.deepcopy()?;
    if let Some(m) = copy.downcast::<ModuleObject>() {
        m.with_mut(|m| f(m.as_module_mut()))?;
    }
    Ok(vec![Value::Object(copy)])
}
pub(super) fn items(v: &Value) -> Result<Vec<Value>> {
    if let Some(l) = v.items() {
        return Ok(l.to_vec());
    }
    if let Value::Object(o) = v
        && let [Value::List(l)] = &o.method("__iter__", &[], &[])?[..]
    {
        return Ok(l.clone());
    }
    Err(Error::type_(format!("'{}' object is not iterable", v.type_name())))
}
/// Configurations by path or class: a dictionary, or a set of classes for a default.
fn spec(v: &Value, dtype: DType) -> Result<Vec<(String, Option<QConfig>)>> {
    let last = |v: &Value| match v {
        Value::Str(s) => Ok(s.clone()),
        Value::Object(o) => {
            let n = o.documented_name().map(|n| n.rsplit('.').next().unwrap_or(n).to_string());
            n.ok_or_else(|| Error::type_("a class or a module's name is expected"))
        }
        other => {
            Err(Error::type_(format!("a class or a module's name is expected, not {}", other.type_name())))
        }
    };
    if let Value::Dict(d) = v {
        let one = |(n, q): &(String, Value)| {
            let q = qconfig_in(q).ok_or_else(|| Error::type_("a QConfig is expected"))?;
            Ok((n.clone(), q))
        };
        return d.iter().map(one).collect();
    }
    let default = flow::try_dynamic_default(dtype)?.0;
    items(v)?.iter().map(|c| Ok((last(c)?, Some(default.clone())))).collect()
}
fn on(s: &Slots<'_>, i: usize) -> Result<bool> {
    Ok(s.get(i)?.unwrap_or(false))
}
fn fuse(name: &'static str, training: bool, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(
        name,
        &["model", "modules_to_fuse", "inplace", "fuser_func", "fuse_custom_config_dict"],
        a,
        k,
    )?;
    let lists = items(s.must(1)?)?;
    let lists: Vec<Vec<String>> = match lists.first() {
        Some(Value::Str(_)) => vec![lists.iter().map(String::from_value).collect::<Result<_>>()?],
        _ => lists.iter().map(Vec::<String>::from_value).collect::<Result<_>>()?,
    };
    changed(s.must(0)?, on(&s, 2)?, |m| flow::try_fuse_modules_(m, &lists, training))
}
/// Calls a function on a model and further arguments.
fn run_on(model: &Value, f: &Value, args: &Value) -> Result<()> {
    let mut all = vec![model.clone()];
    all.extend(items(args)?);
    match f {
        Value::Object(f) => f.call(&all, &[]).map(drop),
        other => Err(Error::type_(format!("'{}' object is not callable", other.type_name()))),
    }
}
/// The default mapping of classes is the only one.
fn without_mapping(s: &Slots<'_>, i: usize) -> Result<()> {
    match s.values[i] {
        None | Some(Value::None) => Ok(()),
        Some(_) => Err(Error::missing("a mapping of one's own from layers to those that are trained")),
    }
}
macro_rules! qconfigs {
    ($($name:literal)*) => {
        const QCONFIGS: &[(&str, fn() -> Value)] = &[$(($name, || qconfig_value(qconfig_of($name)))),*];
    };
}
qconfigs! {
    "default_qconfig" "default_debug_qconfig" "default_per_channel_qconfig" "default_dynamic_qconfig"
    "float16_dynamic_qconfig" "float16_static_qconfig" "per_channel_dynamic_qconfig"
    "float_qparams_weight_only_qconfig" "float_qparams_weight_only_qconfig_4bit" "default_qat_qconfig"
    "default_qat_qconfig_v2" "default_dynamic_qat_qconfig" "default_weight_only_qconfig"
    "default_activation_only_qconfig" "default_reuse_input_qconfig" "default_embedding_qat_qconfig"
    "default_embedding_qat_qconfig_4bit" "default_symmetric_qnnpack_qconfig"
    "default_per_channel_symmetric_qnnpack_qconfig" "default_quint8_weight_qconfig"
    "default_symmetric_qnnpack_qat_qconfig" "default_per_channel_symmetric_qnnpack_qat_qconfig"
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("get_default_qconfig", |a, k| {
        let s = Slots::new("get_default_qconfig", &["backend", "version"], a, k)?;
        let q = try_get_default_qconfig(&s.get::<String>(0)?.unwrap_or_else(|| "x86".into()))?;
        Ok(vec![qconfig_value(Some(q))])
    }),
    ("get_default_qat_qconfig", |a, k| {
        let s = Slots::new("get_default_qat_qconfig", &["backend", "version"], a, k)?;
        let q = try_get_default_qat_qconfig(&s.get::<String>(0)?.unwrap_or_else(|| "x86".into()))?;
        Ok(vec![qconfig_value(Some(q))])
    }),
    ("qconfig_equals", |a, k| {
        let s = Slots::new("qconfig_equals", &["q1", "q2"], a, k)?;
        let of = |v: &Value| qconfig_in(v).ok_or_else(|| Error::type_("a QConfig is expected"));
        Ok(vec![Value::Bool(of(s.must(0)?)? == of(s.must(1)?)?)])
    }),
    ("QConfig", |a, k| {
        let s = Slots::new("QConfig", &["activation", "weight"], a, k)?;
        let make = |i| crate::arguments::make_of(s.must(i)?);
        let q = QConfig::new(make(0)?, make(1)?);
        Ok(vec![Value::Object(ObjectRef::new(QConfigObject(q)))])
    }),
    ("fuse_modules", |a, k| fuse("fuse_modules", false, a, k)),
    ("fuse_modules_qat", |a, k| fuse("fuse_modules_qat", true, a, k)),
    ("prepare", |a, k| {
        const P: &[&str] = &[
            "model",
            "inplace",
            "allow_list",
            "observer_non_leaf_module_list",
            "prepare_custom_config_dict",
        ];
        let s = Slots::new("prepare", P, a, k)?;
        changed(s.must(0)?, on(&s, 1)?, flow::try_prepare_)
    }),
    ("convert", |a, k| {
        let s =
            Slots::new("convert", &["module", "mapping", "inplace", "remove_qconfig", "is_reference"], a, k)?;
        changed(s.must(0)?, on(&s, 2)?, |m| flow::try_convert_(m, Mapping::Static))
    }),
    ("quantize_dynamic", |a, k| {
        let s =
            Slots::new("quantize_dynamic", &["model", "qconfig_spec", "dtype", "mapping", "inplace"], a, k)?;
        let dtype = s.get(2)?.unwrap_or(DType::QI8);
        let spec = match s.values[1] {
            None | Some(Value::None) => None,
            Some(v) => Some(spec(v, dtype)?),
        };
        changed(s.must(0)?, on(&s, 4)?, |m| flow::try_quantize_dynamic_(m, spec.as_deref(), dtype))
    }),
    ("quantize", |a, k| {
        let s = Slots::new("quantize", &["model", "run_fn", "run_args", "mapping", "inplace"], a, k)?;
        let prepared = changed(s.must(0)?, on(&s, 4)?, |m| {
            m.eval();
            flow::try_prepare_(m)
        })?;
        run_on(&prepared[0], s.must(1)?, s.must(2)?)?;
        changed(&prepared[0], true, |m| flow::try_convert_(m, Mapping::Static))
    }),
    ("propagate_qconfig_", |a, k| {
        let s = Slots::new(
            "propagate_qconfig_",
            &["module", "qconfig_dict", "prepare_custom_config_dict"],
            a,
            k,
        )?;
        let spec = match s.values[1] {
            None | Some(Value::None) => Vec::new(),
            Some(v) => spec(v, DType::QI8)?,
        };
        object(s.must(0)?)?.with(|m| {
            flow::propagate_qconfig_(m.as_module(), &spec);
            Ok(vec![Value::None])
        })
    }),
    ("prepare_qat", |a, k| {
        let s = Slots::new("prepare_qat", &["model", "mapping", "inplace"], a, k)?;
        without_mapping(&s, 1)?;
        changed(s.must(0)?, on(&s, 2)?, flow::try_prepare_qat_)
    }),
    ("quantize_qat", |a, k| {
        let s = Slots::new("quantize_qat", &["model", "run_fn", "run_args", "inplace"], a, k)?;
        let prepared = changed(s.must(0)?, on(&s, 3)?, |m| {
            m.train();
            flow::try_prepare_qat_(m)
        })?;
        run_on(&prepared[0], s.must(1)?, s.must(2)?)?;
        changed(&prepared[0], true, |m| flow::try_convert_(m, Mapping::Static))
    }),
    ("swap_module", |a, k| {
        let s = Slots::new(
            "swap_module",
            &["mod", "mapping", "custom_module_class_mapping", "use_precomputed_fake_quant"],
            a,
            k,
        )?;
        let classes = match s.must(1)? {
            Value::Dict(d) => d.len(),
            Value::Object(_) => 1,
            other => return Err(Error::type_(format!("'{}' object is not a mapping", other.type_name()))),
        };
        if classes == 0 {
            return Ok(vec![s.must(0)?.clone()]);
        }
        Err(Error::missing(
            "swap_module with a mapping of one's own: convert exchanges layers by the default ones",
        ))
    }),
    ("get_observer_state_dict", |a, k| {
        let s = Slots::new("get_observer_state_dict", &["mod"], a, k)?;
        object(s.must(0)?)?.with(|m| {
            let all = m.state_dict().into_iter().filter(|(n, _)| n.contains("activation_post_process"));
            Ok(vec![Value::Dict(all.map(|(n, t)| (n, Value::Tensor(t))).collect())])
        })
    }),
];
fn fuse_weights(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] = &["conv_w", "conv_b", "bn_rm", "bn_rv", "bn_eps", "bn_w", "bn_b", "transpose"];
    let s = Slots::new("fuse_conv_bn_weights", P, a, k)?;
    let t = |i: usize| Tensor::from_value(s.must(i)?);
    let (bias, w, b): (Option<Tensor>, Option<Tensor>, Option<Tensor>) = (s.get(1)?, s.get(5)?, s.get(6)?);
    let eps = f64::from_value(s.must(4)?)?;
    let (w, b) =
        flow::try_fuse_conv_bn_weights(&t(0)?, bias.as_ref(), (&t(2)?, &t(3)?), eps, w.as_ref(), b.as_ref())?;
    Ok(vec![Value::Tensor(w), Value::Tensor(b)])
}
pub(super) fn register() {
    for space in SPACES {
        for (name, f) in FUNCTIONS {
            flambeau_library::register_function(&format!("{space}.{name}"), *f);
        }
        for (name, make) in QCONFIGS {
            super::constant(&format!("{space}.{name}"), *make);
        }
    }
    flambeau_library::register_function("torch.nn.utils.fusion.fuse_conv_bn_weights", fuse_weights);
}
