//! The device that the recorded calls run on. The cases were recorded on the CPU; on another device their tensors are moved
//! there first, and results are moved back to be compared.

use crate::decode::Stop;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::{Device, Layout, Result, Tensor, backend, settings};
use std::sync::OnceLock;

static DEVICE: OnceLock<Device> = OnceLock::new();

/// Runs this process's calls on a device: `vault`.
///
/// # Errors
/// No such device.
pub fn choose(name: &str) -> Result<()> {
    let device = Device::parse(name)?;
    DEVICE.get_or_init(|| device);
    if device != Device::Cpu {
        backend::of(device)?;
        settings::set_default_device(device);
        // the recorded numbers have all digits of float32
        torch::backends::cudnn::set_allow_tf32(false);
    }
    Ok(())
}
fn chosen() -> Device {
    DEVICE.get().copied().unwrap_or(Device::Cpu)
}

/// The same tensor on the chosen device, geometry and lazy bits kept.
///
/// # Errors
/// Of the device; `Missing` for layouts that it has no tensors of.
pub fn there(t: Tensor) -> Result<Tensor, Stop> {
    let device = chosen();
    if device == Device::Cpu {
        return Ok(t);
    }
    if t.layout() != Layout::Strided {
        return Err(Stop::Missing(format!("tensors of layout {:?} on {device}", t.layout())));
    }
    let (from, nbytes) = (t.storage(), t.storage().nbytes());
    let to = Storage::empty(nbytes, device)?;
    if let Some(memory) = to.handle()? {
        from.with_bytes(|b| backend::of(device)?.write(&memory, 0, b))??;
    }
    let (sizes, strides, offset) = (t.sizes(), t.strides(), t.storage_offset());
    let plain = Tensor::from_storage(&to, sizes, strides, offset, t.dtype())?;
    if !t.is_conj() && !t.is_neg() {
        return Ok(plain);
    }
    Ok(plain.view_typed(sizes, strides, offset, t.dtype(), t.lazy_bits())?)
}
/// A tensor of the chosen device on the CPU; others as they are.
///
/// # Errors
/// Of the device: of kernels that it ran late, too.
pub fn here(t: &Tensor) -> Result<Tensor> {
    if t.device() == Device::Cpu || t.device() != chosen() {
        return Ok(t.clone());
    }
    backend::transfer::on_host(t)
}
/// A tensor's text without the name of the chosen device: the record is of the CPU, which is not named.
pub fn without_device(text: &str) -> String {
    match other() {
        None => text.to_string(),
        Some(d) => {
            let named = format!("device='{d}'");
            text.replace(&format!(", {named}"), "").replace(&format!(",\n       {named}"), "")
        }
    }
}
/// Calls with the CPU as the default device, whose streams initial parameters were drawn from.
pub fn on_the_cpu<R>(f: impl FnOnce() -> R) -> R {
    let before = settings::get_default_device();
    settings::set_default_device(Device::Cpu);
    let r = f();
    settings::set_default_device(before);
    r
}
/// The chosen device, if it is another than the CPU.
pub fn other() -> Option<Device> {
    Some(chosen()).filter(|d| *d != Device::Cpu)
}
/// Waits for what the chosen device has to do still.
///
/// # Errors
/// What a kernel that ran late met.
pub fn wait() -> Result<()> {
    match chosen() {
        Device::Cpu => Ok(()),
        device => backend::synchronize(device),
    }
}
