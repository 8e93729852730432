//! What a program's kernel of an existing operator gives, compared with what the operator gives: its other forms, and those
//! that are made of it, rely on number, sizes, dtype, layout and device.

use crate::dispatch::value::{NamedTuple, Value};
use crate::ensure;
use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::{Key, KeySet};
use crate::types::layout::Layout;
use crate::types::thread_keys::excluding;

/// Checks the results of a kernel at key `k` of the operator of that name, which `call` calls, and which may write to its
/// arguments (`mutates`).
///
/// # Errors
/// Another number or kind of results, a layout or device that the arguments do not have; where the operator has a rule for
/// tensors without data, other sizes and dtypes than it says.
pub(super) fn check(
    (name, mutates): (&str, bool),
    call: impl FnOnce(&[Value]) -> Result<Vec<Value>>,
    k: Key,
    args: &[Value],
    results: &[Value],
) -> Result<()> {
    if !KeySet::BACKENDS.has(k) {
        return Ok(());
    }
    let mut given = Vec::new();
    args.iter().for_each(|v| tensors(v, &mut given));
    let mut made = Vec::new();
    results.iter().for_each(|v| tensors(v, &mut made));
    for t in &made {
        ensure!(!t.is_hollow(), Runtime, "{name}: the kernel gave a computed weight, which has no memory");
        let known = t.layout() == Layout::Strided || given.iter().any(|g| g.layout() == t.layout());
        ensure!(
            known,
            Runtime,
            "{name}: the kernel gave a tensor of layout torch.{} for strided tensors",
            t.layout().name()
        );
        let near = given.is_empty() || given.iter().any(|g| g.device() == t.device());
        ensure!(near, Runtime, "{name}: the kernel gave a tensor on {}, where no argument is", t.device());
    }
    // what writes into its arguments gives them back
    if mutates {
        return Ok(());
    }
    let sparse = made.iter().chain(&given).any(|t| t.is_sparse_any());
    if sparse || k == Key::Meta {
        return Ok(());
    }
    let Some(rule) = foretold(call, args) else { return Ok(()) };
    let mut want = Vec::new();
    rule.iter().for_each(|v| tensors(v, &mut want));
    ensure!(
        made.len() == want.len(),
        Runtime,
        "{name}: the kernel gave {} tensors, the operator gives {}",
        made.len(),
        want.len()
    );
    for (got, want) in made.iter().zip(&want) {
        if got.sizes() != want.sizes() || got.dtype() != want.dtype() {
            return Err(Error::runtime(format!(
                "{name}: the kernel gave a {} tensor of sizes {}, the operator gives {} of sizes {}",
                got.dtype(),
                crate::tensor::geometry::fmt_sizes(got.sizes()),
                want.dtype(),
                crate::tensor::geometry::fmt_sizes(want.sizes())
            )));
        }
    }
    Ok(())
}

/// What the operator's own rule for tensors without data gives; none where only the data would tell.
fn foretold(call: impl FnOnce(&[Value]) -> Result<Vec<Value>>, args: &[Value]) -> Option<Vec<Value>> {
    let args = args.iter().map(on_meta).collect::<Option<Vec<_>>>()?;
    let above = KeySet(!(KeySet::of(Key::Meta).0 | KeySet::BACKENDS.0));
    excluding(above, || call(&args)).ok()
}

/// The sizes of all tensors in results.
pub(super) fn sizes(results: &[Value]) -> Vec<SizeVec> {
    let mut all = Vec::new();
    results.iter().for_each(|v| tensors(v, &mut all));
    all.into_iter().map(|t| t.sizes().into()).collect()
}
/// Checks what a mode gives instead of an operator's results.
///
/// # Errors
/// Another number of tensors or other sizes than the operator's rule for tensors without data says, where it has one.
pub(super) fn check_sizes(
    name: &str,
    call: impl FnOnce(&[Value]) -> Result<Vec<Value>>,
    args: &[Value],
    results: &[Value],
) -> Result<()> {
    let Some(rule) = foretold(call, args) else { return Ok(()) };
    let (got, want) = (sizes(results), sizes(&rule));
    ensure!(
        got == want,
        Runtime,
        "{name}: a mode gave tensors of sizes {got:?}, the operator gives {want:?}"
    );
    Ok(())
}

fn tensors<'a>(v: &'a Value, to: &mut Vec<&'a Tensor>) {
    match v {
        Value::Tensor(t) => to.push(t),
        Value::List(l) | Value::Tuple(l) | Value::Named(NamedTuple { items: l, .. }) => {
            l.iter().for_each(|v| tensors(v, to));
        }
        _ => {}
    }
}
/// The same without data; none for what has none there.
fn on_meta(v: &Value) -> Option<Value> {
    Some(match v {
        Value::Tensor(t) if t.is_wrapped_number() => v.clone(),
        Value::Tensor(t) => {
            let m = Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta);
            Value::Tensor(m.ok()?)
        }
        Value::List(l) => Value::List(l.iter().map(on_meta).collect::<Option<_>>()?),
        Value::Tuple(l) => Value::Tuple(l.iter().map(on_meta).collect::<Option<_>>()?),
        Value::Device(_) | Value::Generator(_) => return None,
        other => other.clone(),
    })
}
