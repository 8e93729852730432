//! Tensors for other libraries.

use crate::structures::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLTensor, VERSION,
};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, Layout, Result, Tensor, bail, ensure};
use std::ffi::c_void;

/// A tensor that is ready for another library.
///
/// ```
/// use torch::utils::dlpack::{Exported, from_dlpack, to_dlpack};
/// let exported: Exported = to_dlpack(&torch::arange(3))?;
/// // SAFETY: the structure was just made, and nobody else has it
/// let x = unsafe { from_dlpack(exported.into_raw())? };
/// assert_eq!(x.to_vec::<i64>(), [0, 1, 2]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
pub struct Exported {
    tensor: Tensor,
    dtype: DLDataType,
    address: usize,
}
/// What the structure points to; it lives as long as the structure.
struct Context<M> {
    /// Keeps the memory.
    _tensor: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    managed: Option<M>,
}

/// Prepares a tensor for another library, which then has the same memory.
///
/// # Errors
/// Tensors that want gradients, that are lazily conjugated or negated, that are not dense or not on the CPU; element types that DLPack
/// lacks.
#[doc(alias = "torch.utils.dlpack.to_dlpack")]
#[doc(alias = "torch.Tensor.__dlpack__")]
pub fn to_dlpack(tensor: &Tensor) -> Result<Exported> {
    ensure!(
        !tensor.requires_grad(),
        Runtime,
        "Can't export tensors that require gradient, use tensor.detach()"
    );
    ensure!(!tensor.is_conj(), Runtime, "Can't export tensors with the conjugate bit set");
    ensure!(!tensor.is_neg(), Runtime, "Can't export tensors with the negative bit set");
    ensure!(
        tensor.layout() == Layout::Strided && tensor.quantizer().is_none(),
        Runtime,
        "Can't export tensors with layout other than torch.strided"
    );
    if tensor.device() != Device::Cpu {
        bail!(Missing, "DLPack of tensors on {}", tensor.device());
    }
    let dtype = DLDataType::of(tensor.dtype())?;
    let first = tensor.storage().address()?;
    let address = first + tensor.storage_offset() as usize * tensor.dtype().size();
    Ok(Exported { tensor: tensor.clone(), dtype, address })
}
impl Exported {
    /// The device that the memory is on.
    #[doc(alias = "torch.Tensor.__dlpack_device__")]
    pub fn device(&self) -> DLDevice {
        DLDevice { device_type: DLDeviceType::kDLCPU, device_id: 0 }
    }
    fn context<M>(self, wrap: impl FnOnce(DLTensor, *mut c_void) -> M) -> *mut M {
        let (shape, strides) = (self.tensor.sizes().to_vec(), self.tensor.strides().to_vec());
        let device = self.device();
        let ndim = shape.len() as i32;
        let context = Context { _tensor: self.tensor, shape, strides, managed: None };
        let context = Box::leak(Box::new(context));
        let tensor = DLTensor {
            // the address is that of memory which the context keeps
            data: if context._tensor.numel() == 0 {
                std::ptr::null_mut()
            } else {
                self.address as *mut c_void
            },
            device,
            ndim,
            dtype: self.dtype,
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let whole: *mut Context<M> = context;
        // SAFETY: `whole` was just leaked, and nobody else has it.
        unsafe { std::ptr::from_mut((*whole).managed.insert(wrap(tensor, whole.cast()))) }
    }
    /// The structure of version 1. Whoever gets it calls its `deleter` once; until then the tensor keeps its memory, and must not be
    /// made larger. Reading and writing what it points to is up to them: no lock of this library knows of it.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        self.context(|dl_tensor, manager_ctx| DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx,
            deleter: Some(free_versioned),
            flags: 0,
            dl_tensor,
        })
    }
    /// The same of the version before.
    pub fn into_raw_legacy(self) -> *mut DLManagedTensor {
        self.context(|dl_tensor, manager_ctx| DLManagedTensor {
            dl_tensor,
            manager_ctx,
            deleter: Some(free_legacy),
        })
    }
}
/// # Safety
/// `m` comes from [`Exported::into_raw`], and is used no more.
unsafe extern "C" fn free_versioned(m: *mut DLManagedTensorVersioned) {
    if !m.is_null() {
        // SAFETY: the context was leaked by `Exported::context` with this type, and is given back once.
        drop(unsafe { Box::from_raw((*m).manager_ctx.cast::<Context<DLManagedTensorVersioned>>()) });
    }
}
/// # Safety
/// `m` comes from [`Exported::into_raw_legacy`], and is used no more.
unsafe extern "C" fn free_legacy(m: *mut DLManagedTensor) {
    if !m.is_null() {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw((*m).manager_ctx.cast::<Context<DLManagedTensor>>()) });
    }
}
