//! Functions of `torch.nn` that are no operators, by their documented names: initialisation, and functions of functions.

use super::ForwardArgs;
use crate::init::{self, KaimingOptions};
use crate::modules::Distance;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::text::PyText;
use flambeau_core::{Generator, Result, Scalar, Tensor, Value, bail, ensure};
use flambeau_library::{NativeFn, register_function};
use flambeau_nn_functional::ops as f;
use flambeau_nn_functional::ops::loss::triplet_distance::try_triplet_margin_with_distance_loss;

/// What this crate brings to the by-name layer.
static REG: CrateReg = CrateReg { name: "flambeau-nn", ops: &[], fills: &[install] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn install() {
    for (path, f) in FILLS.iter().chain(FUNCTIONS) {
        register_function(path, *f);
    }
}

fn generator(a: &ForwardArgs, i: usize) -> Result<Option<Generator>> {
    a.get(i)
}
fn float(a: &ForwardArgs, i: usize, default: f64) -> Result<f64> {
    Ok(a.get(i)?.unwrap_or(default))
}
fn kaiming(a: &ForwardArgs) -> Result<KaimingOptions> {
    let mut k = KaimingOptions::new().a(float(a, 1, 0.0)?);
    if let Some(mode) = a.get::<String>(2)? {
        k = k.mode(&mode);
    }
    if let Some(name) = a.get::<String>(3)? {
        k = k.nonlinearity(&name);
    }
    Ok(match generator(a, 4)? {
        Some(g) => k.generator(&g),
        None => k,
    })
}

/// Fills by name, under their present name and the deprecated one without the underscore where there is one.
macro_rules! fills {
    ($($name:ident [$($alias:literal),*] ($($p:literal),*) $required:literal |$t:ident, $a:ident| $e:expr;)*) => {
        mod fill {
            use super::*;
            $(pub fn $name(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
                let $a = &ForwardArgs::of_function(stringify!($name), &["tensor", $($p),*], $required, args, kwargs)?;
                let $t = &Tensor::from_value($a.value(0))?;
                $e?;
                Ok(vec![Value::Tensor($t.clone())])
            })*
        }
        const FILLS: &[(&str, NativeFn)] = &[
            $((concat!("torch.nn.init.", stringify!($name)), fill::$name), $(($alias, fill::$name),)*)*
        ];
    };
}
fills! {
    uniform_ ["torch.nn.init.uniform"] ("a", "b", "generator") 1
        |t, a| init::try_uniform_(t, float(a, 1, 0.0)?, float(a, 2, 1.0)?, generator(a, 3)?.as_ref());
    normal_ ["torch.nn.init.normal"] ("mean", "std", "generator") 1
        |t, a| init::try_normal_(t, float(a, 1, 0.0)?, float(a, 2, 1.0)?, generator(a, 3)?.as_ref());
    trunc_normal_ [] ("mean", "std", "a", "b", "generator") 1
        |t, a| {
            let (mean, std) = (float(a, 1, 0.0)?, float(a, 2, 1.0)?);
            init::try_trunc_normal_(t, mean, std, float(a, 3, -2.0)?, float(a, 4, 2.0)?, generator(a, 5)?.as_ref())
        };
    constant_ ["torch.nn.init.constant"] ("val") 2 |t, a| init::try_constant_(t, a.must(1)?);
    ones_ [] () 1 |t, _a| init::try_ones_(t);
    zeros_ [] () 1 |t, _a| init::try_zeros_(t);
    eye_ ["torch.nn.init.eye"] () 1 |t, _a| init::try_eye_(t);
    dirac_ ["torch.nn.init.dirac"] ("groups") 1 |t, a| init::try_dirac_(t, a.get(1)?.unwrap_or(1));
    xavier_uniform_ ["torch.nn.init.xavier_uniform"] ("gain", "generator") 1
        |t, a| init::try_xavier_uniform_(t, float(a, 1, 1.0)?, generator(a, 2)?.as_ref());
    xavier_normal_ ["torch.nn.init.xavier_normal"] ("gain", "generator") 1
        |t, a| init::try_xavier_normal_(t, float(a, 1, 1.0)?, generator(a, 2)?.as_ref());
    kaiming_uniform_ ["torch.nn.init.kaiming_uniform"] ("a", "mode", "nonlinearity", "generator") 1
        |t, a| init::try_kaiming_uniform_(t, kaiming(a)?);
    kaiming_normal_ ["torch.nn.init.kaiming_normal"] ("a", "mode", "nonlinearity", "generator") 1
        |t, a| init::try_kaiming_normal_(t, kaiming(a)?);
    orthogonal_ ["torch.nn.init.orthogonal"] ("gain", "generator") 1
        |t, a| init::try_orthogonal_(t, float(a, 1, 1.0)?, generator(a, 2)?.as_ref());
    sparse_ ["torch.nn.init.sparse"] ("sparsity", "std", "generator") 2
        |t, a| init::try_sparse_(t, a.must(1)?, float(a, 2, 0.01)?, generator(a, 3)?.as_ref());
}

fn calculate_gain(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = ForwardArgs::of_function("calculate_gain", &["nonlinearity", "param"], 1, args, kwargs)?;
    let name: String = a.must(0)?;
    let param = match a.value(1) {
        Value::None => None,
        Value::Int(n) => Some(*n as f64),
        Value::Float(v) => Some(*v),
        _ if name != "leaky_relu" => None,
        Value::Bool(b) => bail!(Value, "negative_slope {} not a valid number", b.py_text()),
        Value::Str(s) => bail!(Value, "negative_slope {s} not a valid number"),
        other => bail!(Value, "negative_slope {other:?} not a valid number"),
    };
    let gain = init::try_calculate_gain(&name, param)?;
    Ok(vec![if gain == 1.0 { Value::Int(1) } else { Value::Float(gain) }])
}

fn triplet_margin_with_distance_loss(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    const NAME: &str = "triplet_margin_with_distance_loss";
    let names = ["anchor", "positive", "negative", "distance_function", "margin", "swap", "reduction"];
    ensure!(args.len() <= 3, Type, "{NAME}() takes 3 positional arguments but {} were given", args.len());
    let a = ForwardArgs::of_function(NAME, &names, 3, args, kwargs)?;
    let (anchor, positive, negative): (Tensor, Tensor, Tensor) = (a.must(0)?, a.must(1)?, a.must(2)?);
    let given: Option<Distance> = a.get(3)?;
    let distance = |x: &Tensor, y: &Tensor| match &given {
        Some(d) => d.of(x, y),
        None => f::pairwise_distance(x, y, 2.0, 1e-6, false),
    };
    let margin = a.get(4)?.unwrap_or(Scalar::Float(1.0));
    let swap = a.get(5)?.unwrap_or(false);
    let reduction = a.get(6)?.unwrap_or_else(|| "mean".to_owned());
    let out = try_triplet_margin_with_distance_loss(
        &anchor, &positive, &negative, &distance, margin, swap, &reduction,
    )?;
    Ok(vec![Value::Tensor(out)])
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.nn.init.calculate_gain", calculate_gain),
    ("torch.nn.Transformer.generate_square_subsequent_mask", |args, kwargs| {
        let name = "generate_square_subsequent_mask";
        let a = ForwardArgs::of_function(name, &["sz", "device", "dtype"], 1, args, kwargs)?;
        let mask = crate::Transformer::try_generate_square_subsequent_mask(a.must(0)?, a.get(1)?, a.get(2)?)?;
        Ok(vec![Value::Tensor(mask)])
    }),
    ("torch.nn.functional.triplet_margin_with_distance_loss", triplet_margin_with_distance_loss),
];
