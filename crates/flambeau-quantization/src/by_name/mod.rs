//! Functions by their documented names that are no operators, and the schemes as values.

mod functional;
pub(crate) mod observers;

use crate::objects::scheme_value;
use crate::ops;
use flambeau_core::Value;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::tensor_arg;
use flambeau_core::tensor::quantized::QScheme;
use flambeau_library::{NativeFn, register_constant, register_function};

static REG: CrateReg = CrateReg { name: "flambeau-quantization names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, f) in FUNCTIONS {
        register_function(path, *f);
    }
    for (path, make) in SCHEMES {
        register_constant(path, *make);
    }
    functional::register();
    observers::register();
}

/// A value at a name that is put together: the few of them live as long as the program.
pub(crate) fn constant(path: &str, make: fn() -> Value) {
    register_constant(Box::leak(path.to_string().into_boxed_str()), make);
}

const SCHEMES: &[(&str, fn() -> Value)] = &[
    ("torch.per_tensor_affine", || scheme_value(QScheme::PerTensorAffine)),
    ("torch.per_channel_affine", || scheme_value(QScheme::PerChannelAffine)),
    ("torch.per_tensor_symmetric", || scheme_value(QScheme::PerTensorSymmetric)),
    ("torch.per_channel_symmetric", || scheme_value(QScheme::PerChannelSymmetric)),
    ("torch.per_channel_affine_float_qparams", || scheme_value(QScheme::PerChannelAffineFloatQParams)),
];

const FUNCTIONS: &[(&str, NativeFn)] =
    &[("torch.Tensor.qscheme", |a, _| Ok(vec![scheme_value(ops::parameters::qscheme(tensor_arg(a, 0)?)?)]))];
