//! Autocast: dtypes by operator. While it is on for a type of devices, every call comes here first, by [`Key::Autocast`]; the
//! row of the operator says what becomes of its arguments ([`Cast`]), and the operator runs on with autocast off. Operators
//! without a rule go on at once, and what composites call comes here again. Off, no call looks.

use super::custom::{Library, named};
use super::op::OpInfo;
use super::registry;
use super::value::{NamedTuple, Value};
use crate::tensor::graph;
use crate::tensor::handle::Tensor;
use crate::types::autocast::{self, Cast, Entering, TYPES};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::Key;
use crate::types::schema::Ty;
use crate::types::thread_keys::ExcludeGuard;
use crate::{DType, ensure, ops};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

pub use crate::types::autocast::{Autocast, DeviceType, State, set_state, state};

/// Names of types of devices that PyTorch knows, with their autocast where they have one.
const NAMES: [(&str, Option<DeviceType>); 19] = [
    ("cpu", Some(DeviceType::Cpu)),
    ("cuda", Some(DeviceType::Cuda)),
    ("ipu", Some(DeviceType::Ipu)),
    ("xpu", Some(DeviceType::Xpu)),
    ("mkldnn", None),
    ("opengl", None),
    ("opencl", None),
    ("ideep", None),
    ("hip", None),
    ("ve", None),
    ("fpga", None),
    ("maia", Some(DeviceType::Maia)),
    ("xla", Some(DeviceType::Xla)),
    ("lazy", None),
    ("vulkan", None),
    ("mps", Some(DeviceType::Mps)),
    ("meta", None),
    ("hpu", Some(DeviceType::Hpu)),
    ("mtia", Some(DeviceType::Mtia)),
];

/// The type of devices of a name; none where it has no autocast.
///
/// # Errors
/// No type of devices has this name.
pub fn device_type(name: &str) -> Result<Option<DeviceType>> {
    if let Some((_, t)) = NAMES.iter().find(|(n, _)| *n == name) {
        return Ok(*t);
    }
    // the name of a back end from outside is known to the devices
    match Device::parse(name)? {
        Device::Private(_) => Ok(Some(DeviceType::Private)),
        _ => Err(Error::runtime(format!("Invalid device string: '{name}'"))),
    }
}
/// The type of a device.
pub const fn type_of(d: Device) -> Option<DeviceType> {
    match d {
        Device::Cpu => Some(DeviceType::Cpu),
        Device::Cuda(_) => Some(DeviceType::Cuda),
        Device::Private(_) => Some(DeviceType::Private),
        Device::Meta => None,
    }
}

thread_local! {
    static NESTING: Cell<i64> = const { Cell::new(0) };
    static CASTS: RefCell<HashMap<(usize, bool, DType), Kept>> = RefCell::default();
}
/// A cast of a weight. The weight is kept too, so that nothing else takes its place, and its count of writes.
struct Kept {
    cast: Tensor,
    of: Tensor,
    version: u32,
}

/// Whether autocast changes a tensor on such devices: floating, and no float64.
fn eligible(t: &Tensor, on: DeviceType) -> bool {
    t.dtype().is_floating() && t.dtype() != DType::F64 && type_of(t.device()) == Some(on)
}
fn tensors<'a>(v: &'a Value, f: &mut dyn FnMut(&'a Tensor)) {
    match v {
        Value::Tensor(t) => f(t),
        v => v.items().unwrap_or(&[]).iter().for_each(|v| tensors(v, f)),
    }
}
fn mapped(v: &Value, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Value> {
    let all = |l: &[Value]| l.iter().map(|v| mapped(v, f)).collect::<Result<Vec<_>>>();
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(f(t)?),
        Value::List(l) => Value::List(all(l)?),
        Value::Tuple(l) => Value::Tuple(all(l)?),
        Value::Named(t) => {
            let (class, fields) = (t.class.clone(), t.fields.clone());
            Value::Named(NamedTuple { class, fields, items: all(&t.items)? })
        }
        Value::Dict(d) => {
            let one = |(k, v): &(String, Value)| Ok((k.clone(), mapped(v, f)?));
            Value::Dict(d.iter().map(one).collect::<Result<_>>()?)
        }
        v => v.clone(),
    })
}
/// A value whose floating tensors on such devices are cast, those in lists and dictionaries too; float64 stays.
///
/// # Errors
/// Those of the cast.
pub fn cast(v: &Value, to: DType, on: DeviceType) -> Result<Value> {
    mapped(v, &|t| if eligible(t, on) { converted(t, to) } else { Ok(t.clone()) })
}
fn converted(t: &Tensor, to: DType) -> Result<Tensor> {
    ops::to(t, Some(to), None, None, None, false, false, None)
}

/// The tensor in another dtype. Casts of float32 weights to the dtype of autocast are kept until the outermost region ends, or
/// the weight is written: a weight that is used several times is cast once, and its gradients meet before they are cast back.
fn cached(t: &Tensor, to: DType, on: DeviceType, s: &State) -> Result<Tensor> {
    if !eligible(t, on) || t.dtype() == to {
        return Ok(t.clone());
    }
    let weight = to == s.dtype(on) && t.dtype() == DType::F32 && s.is_cache_enabled();
    if !weight || !t.requires_grad() || !t.is_leaf() || t.view_base().is_some() || t.is_inference() {
        return converted(t, to);
    }
    // what is cast without recording has no history, and must not stand for what has one
    let key = (t.id(), graph::engine().is_ok_and(|e| (e.is_recording)()), to);
    let found = CASTS.try_with(|c| {
        let c = c.borrow();
        c.get(&key).filter(|k| k.version == t.version()).map(|k| k.cast.clone())
    });
    if let Ok(Some(cast)) = found {
        return Ok(cast);
    }
    let version = t.version();
    let cast = converted(t, to)?;
    if !cast.is_inference() {
        let kept = Kept { cast: cast.clone(), of: t.clone(), version };
        // what it replaces is dropped when nobody looks at the table
        drop(CASTS.try_with(|c| c.borrow_mut().insert(key, kept)));
    }
    Ok(cast)
}
/// Forgets the casts of weights that this thread keeps.
pub fn clear_cache() {
    let gone = CASTS.try_with(|c| std::mem::take(&mut *c.borrow_mut()));
    debug_assert!(gone.iter().flat_map(HashMap::values).all(|k| k.of.dtype() == DType::F32));
    drop(gone);
}
/// One region more around what runs; gives how many there are.
pub fn increment_nesting() -> i64 {
    NESTING.set(NESTING.get() + 1);
    NESTING.get()
}
/// One region less.
pub fn decrement_nesting() -> i64 {
    NESTING.set(NESTING.get() - 1);
    NESTING.get()
}

/// A region with a state of its own, until it is dropped. Guards may be dropped in any order.
#[must_use = "autocast ends with its guard"]
pub struct Region {
    state: Option<Entering>,
}
impl Region {
    /// Begins.
    pub fn enter(s: State) -> Region {
        increment_nesting();
        Region { state: Some(autocast::enter(s)) }
    }
}
impl Drop for Region {
    fn drop(&mut self) {
        if decrement_nesting() == 0 {
            clear_cache();
        }
        self.state = None;
    }
}

/// What arguments become by a rule.
fn applied(
    info: &'static OpInfo,
    rule: Cast,
    on: DeviceType,
    s: &State,
    mut args: Vec<Value>,
) -> Result<Vec<Value>> {
    let to = match rule {
        Cast::None | Cast::Whole | Cast::Product => return Ok(args),
        Cast::Lower => s.dtype(on),
        Cast::Fp32 => DType::F32,
        Cast::Promote => widest(&args, on, s.dtype(on))?,
        Cast::OptDtype => {
            let first = matches!(args.first(), Some(Value::Tensor(t)) if eligible(t, on));
            let dtype = info.schema.args.iter().position(|a| a.ty == Ty::OptDType);
            if let (true, Some(v)) = (first, dtype.and_then(|i| args.get_mut(i)))
                && matches!(v, Value::None)
            {
                *v = Value::DType(DType::F32);
            }
            return Ok(args);
        }
        Cast::Banned => return Err(banned()),
    };
    args.iter().map(|v| mapped(v, &|t| cached(t, to, on, s))).collect()
}
/// The widest dtype among floating tensors: that of autocast, or float32 where there is one.
fn widest(args: &[Value], on: DeviceType, lower: DType) -> Result<DType> {
    let (mut to, mut odd) = (lower, false);
    args.iter().for_each(|v| {
        tensors(v, &mut |t| match t.dtype() {
            _ if !eligible(t, on) => {}
            DType::F32 => to = DType::F32,
            d => odd |= d != lower && to != DType::F32,
        });
    });
    ensure!(!odd, Runtime, "Unexpected floating ScalarType in at::autocast::prioritize");
    Ok(to)
}
#[cold]
fn banned() -> Error {
    Error::runtime(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n\
         Many models use a sigmoid layer right before the binary cross entropy layer.\n\
         In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n\
         or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n\
         safe to autocast.",
    )
}

/// Every operator that has a rule where autocast is on.
fn through(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let s = state();
    let mut present = [false; TYPES];
    args.iter().for_each(|v| {
        tensors(v, &mut |t| {
            if let Some(on) = type_of(t.device()) {
                present[on as usize] = true;
            }
        });
    });
    for on in DeviceType::ALL.into_iter().rev() {
        let rule = info.autocast.on(on);
        if !present[on as usize] || !s.is_enabled(on) || rule == Cast::None {
            continue;
        }
        let args = applied(info, rule, on, &s, args)?;
        let _off = autocast::enter(s.enabled(on, false));
        let results = info.call(&args)?;
        if rule == Cast::Product {
            return results.iter().map(|v| cast(v, s.dtype(on), on)).collect();
        }
        return Ok(results);
    }
    autocast::passing(std::ptr::from_ref(info).cast(), || info.call(&args))
}

/// Runs `f` with autocast off for a type of devices: what a body uses that brings dtypes of its own.
pub fn without<R>(on: DeviceType, f: impl FnOnce() -> R) -> R {
    let s = state();
    let _off = s.is_enabled(on).then(|| autocast::enter(s.enabled(on, false)));
    f()
}

impl Library {
    /// Under autocast, floating tensors reach the operator in `cast_inputs`, and autocast ends there.
    ///
    /// # Errors
    /// Unknown operators; devices without autocast.
    pub fn register_autocast(&mut self, name: &str, device_type: &str, cast_inputs: DType) -> Result<()> {
        let unknown = || Error::value(format!("Unknown device type for autocast: {device_type}"));
        let (op, on) = (named(&self.full(name))?, self::device_type(device_type)?.ok_or_else(unknown)?);
        let kernel = move |args: &[Value]| {
            // a region for other devices: the call goes on as if nobody had asked
            let args = if state().is_enabled(on) {
                args.iter().map(|v| cast(v, cast_inputs, on)).collect::<Result<_>>()?
            } else {
                args.to_vec()
            };
            let _off = ExcludeGuard::from_up(Key::Autocast);
            op.info.call(&args)
        };
        self.impl_(name, kernel, "Autocast")
    }
}

/// Part of what core registers.
pub(crate) fn install() {
    registry::set_fallback(Key::Autocast, Some(through));
}
