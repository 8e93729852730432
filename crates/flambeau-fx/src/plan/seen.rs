//! What values were in one run, to notice where another run differs.

use crate::argument::same_value;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::arena::Piece;
use flambeau_core::types::deep;
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::{Device, Layout, Value};

/// A result: tensors by their geometry, the rest by its value.
pub(super) enum Seen {
    /// Anything: it is the plan's, or follows from what was looked at before.
    Any,
    Tensor(Piece, Device),
    Host(Value),
    Many(Vec<Seen>),
    /// What no later result is like.
    Never,
}
impl Seen {
    pub(super) fn of(v: &Value) -> Seen {
        if deep::check([v]).is_err() { Seen::Never } else { Seen::shallow(v) }
    }
    fn shallow(v: &Value) -> Seen {
        match v {
            Value::Tensor(t) => Seen::Tensor(Piece::of(t), t.device()),
            Value::Dict(l) => Seen::Many(l.iter().map(|(_, v)| Seen::shallow(v)).collect()),
            v => match v.items() {
                Some(l) => Seen::Many(l.iter().map(Seen::shallow).collect()),
                None => Seen::Host(v.clone()),
            },
        }
    }
    /// Whether a value is like it.
    #[inline]
    pub(super) fn is(&self, v: &Value) -> bool {
        match (self, v) {
            (Seen::Any, _) => true,
            (Seen::Tensor(p, d), Value::Tensor(t)) => {
                p.sizes == t.sizes() && p.strides == t.strides() && p.dtype == t.dtype() && *d == t.device()
            }
            (Seen::Host(a), b) => same(a, b),
            (Seen::Many(all), Value::Dict(l)) => {
                all.len() == l.len() && all.iter().zip(l).all(|(s, (_, v))| s.is(v))
            }
            (Seen::Many(all), v) => {
                v.items().is_some_and(|l| all.len() == l.len() && all.iter().zip(l).all(|(s, v)| s.is(v)))
            }
            _ => false,
        }
    }
}
/// Equal values without tensors.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Tensor(_), _) | (_, Value::Tensor(_)) => false,
        _ => same_value(a, b),
    }
}

/// An input.
pub(super) struct Given {
    seen: Seen,
    offset: i64,
    bits: (bool, bool, bool),
}
impl Given {
    pub(super) fn of(v: &Value) -> Given {
        let (offset, bits) = details(v);
        Given { seen: Seen::of(v), offset, bits }
    }
    pub(super) fn is(&self, v: &Value) -> bool {
        self.seen.is(v) && (self.offset, self.bits) == details(v)
    }
}
/// Whether inputs are such.
pub(super) fn are(given: &[Given], inputs: &[Value]) -> bool {
    given.len() == inputs.len() && given.iter().zip(inputs).all(|(g, v)| g.is(v))
}
/// What a tensor has beside its geometry that views depend on.
fn details(v: &Value) -> (i64, (bool, bool, bool)) {
    match v {
        Value::Tensor(t) => (t.storage_offset(), (t.is_conj(), t.is_neg(), t.is_inference())),
        _ => (0, (false, false, false)),
    }
}
/// Whether operators are called on a value as on any tensors in memory: no wrapper, no capture, no sparse tensor.
pub(super) fn is_plain(v: &Value) -> bool {
    !holds(v, |v| match v {
        Value::Tensor(t) => {
            let beyond = t.key_set().without(KeySet::BACKENDS).without(KeySet::of(Key::Autograd));
            beyond.0 != 0 || t.layout() != Layout::Strided || t.is_wrapper()
        }
        _ => false,
    })
}
/// Whether there is something of a kind in a value.
pub(super) fn holds(v: &Value, what: fn(&Value) -> bool) -> bool {
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        if what(v) {
            return true;
        }
        match v {
            Value::Dict(l) => open.extend(l.iter().map(|(_, v)| v)),
            v => open.extend(v.items().unwrap_or(&[])),
        }
    }
    false
}
