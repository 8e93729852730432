//! A boxed kernel for every operator that a back end has none for: the CPU computes it.

use super::transfer::{copy_into, on_host, to_device};
use crate::dispatch::op::OpInfo;
use crate::dispatch::registry::set_fallback;
use crate::dispatch::value::Value;
use crate::tensor::handle::Tensor;
use crate::types::deep;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::Key;
use crate::types::schema::Ty;

/// Lets the CPU compute what the back end of `key` has no kernel for: arguments are copied to it, results and what was
/// written are copied back. `false` if the key has a fallback already.
pub fn through_the_cpu(key: Key) -> bool {
    set_fallback(key, Some(run))
}

/// One call by way of the CPU: what a back end's own fallback calls once it has counted.
///
/// # Errors
/// Of the copies and of the operator.
pub fn run(info: &'static OpInfo, key: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let mut device = None;
    let mut host = args.iter().map(|v| moved(v, key, &mut device)).collect::<Result<Vec<_>>>()?;
    if let Some(device) = device {
        // numbers are drawn by the device's generator where none is given
        for (arg, v) in info.schema.args.iter().zip(&mut host) {
            if arg.ty == Ty::OptGenerator && matches!(v, Value::None) {
                *v = Value::Generator(super::of(device)?.default_generator(device).clone());
            }
        }
    }
    let mut copies: Vec<(Tensor, Tensor)> = Vec::new();
    args.iter().zip(&host).for_each(|(given, host)| pairs(given, host, &mut copies));
    let before: Vec<u32> = copies.iter().map(|(_, host)| host.version()).collect();
    let results = info.call(&host)?;
    let Some(device) = device else { return Ok(results) };
    // what was written goes back to where it came from. The copies' versions tell, since not every schema does: running
    // statistics of norms. A result of an `out=` form may have other sizes
    let changed = copies.into_iter().zip(before).filter(|((_, host), before)| host.version() != *before);
    let written: Vec<(Tensor, Tensor)> = changed.map(|(pair, _)| pair).collect();
    let mut back = |v: Value| returned(v, device, &written);
    let results = results.into_iter().map(&mut back).collect::<Result<Vec<_>>>()?;
    for (given, host) in &written {
        if given.device() != Device::Cpu && given.sizes() == host.sizes() {
            copy_into(given, host)?;
        }
    }
    Ok(results)
}

/// The value with its tensors of that key's devices on the CPU; notes the device.
fn moved(v: &Value, key: Key, device: &mut Option<Device>) -> Result<Value> {
    let mut v = v.clone();
    deep::leaves_mut(&mut v, |leaf| {
        match leaf {
            Value::Tensor(t) if t.device().key_set().has(key) => {
                device.get_or_insert(t.device());
                let host = on_host(t)?;
                *t = if t.is_wrapped_number() { host.into_wrapped_number() } else { host };
            }
            Value::Device(d) if d.key_set().has(key) => {
                device.get_or_insert(*d);
                *d = Device::Cpu;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(v)
}
/// Tensors with their copies on the CPU.
fn pairs(given: &Value, host: &Value, found: &mut Vec<(Tensor, Tensor)>) {
    let (mut of_given, mut of_host) = (Vec::new(), Vec::new());
    deep::leaves(given, |v| of_given.push(v));
    deep::leaves(host, |v| of_host.push(v));
    for pair in of_given.into_iter().zip(of_host) {
        if let (Value::Tensor(g), Value::Tensor(h)) = pair {
            found.push((g.clone(), h.clone()));
        }
    }
}
/// A result on the device: the tensor that was given where it is one that was written.
fn returned(mut v: Value, device: Device, written: &[(Tensor, Tensor)]) -> Result<Value> {
    deep::leaves_mut(&mut v, |leaf| {
        if let Value::Tensor(t) = leaf {
            let same = |(g, h): &&(Tensor, Tensor)| h.storage().same(t.storage()) && g.device() == device;
            *t = match written.iter().find(same) {
                Some((given, _)) if given.sizes() == t.sizes() => given.clone(),
                Some((given, _)) => {
                    let resized = super::out::resized(given, t.sizes())?;
                    copy_into(&resized, t)?;
                    resized
                }
                None => like_on(t, device)?,
            };
        }
        Ok(())
    })?;
    Ok(v)
}
/// A copy on the device that keeps strides.
fn like_on(t: &Tensor, device: Device) -> Result<Tensor> {
    if t.is_contiguous() || t.device() == device {
        return to_device(t.clone(), device);
    }
    let strides = super::transfer::preserved_strides(t);
    let out = Tensor::empty_strided_raw(t.sizes(), &strides, t.dtype(), device)?;
    copy_into(&out, t)?;
    Ok(out)
}
