//! The structures of `dlpack.h`.

use flambeau_core::{DType, Error, Result};
use std::ffi::c_void;

/// The version of the structures: `major.minor`.
///
/// ```
/// use torch::utils::dlpack::{DLPackVersion, VERSION};
/// assert_eq!((VERSION.major, VERSION.minor), (1, 0));
/// let _: DLPackVersion = VERSION;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLPackVersion {
    /// Another one has other structures.
    pub major: u32,
    /// A later one has more kinds of devices and elements.
    pub minor: u32,
}
/// The version that is written here.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };
/// Nobody may write to the memory.
pub const FLAG_READ_ONLY: u64 = 1;
/// The memory is a copy that was made for this structure.
pub const FLAG_IS_COPIED: u64 = 2;

/// A kind of device, by DLPack's numbers. A number of a later version is one too.
///
/// ```
/// use torch::utils::dlpack::{DLDevice, DLDeviceType, to_dlpack};
/// let device: DLDevice = to_dlpack(&torch::ones([2]))?.device();
/// assert!(device.device_type == DLDeviceType::kDLCPU && device.device_id == 0);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.dlpack.DLDeviceType")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct DLDeviceType(pub i32);
#[allow(non_upper_case_globals, reason = "names of DLPack")]
impl DLDeviceType {
    /// The CPU.
    pub const kDLCPU: DLDeviceType = DLDeviceType(1);
    /// CUDA.
    pub const kDLCUDA: DLDeviceType = DLDeviceType(2);
    /// Memory of the host that CUDA reaches.
    pub const kDLCUDAHost: DLDeviceType = DLDeviceType(3);
    /// OpenCL.
    pub const kDLOpenCL: DLDeviceType = DLDeviceType(4);
    /// Vulkan.
    pub const kDLVulkan: DLDeviceType = DLDeviceType(7);
    /// Metal.
    pub const kDLMetal: DLDeviceType = DLDeviceType(8);
    /// A simulator of Verilog.
    pub const kDLVPI: DLDeviceType = DLDeviceType(9);
    /// ROCm.
    pub const kDLROCM: DLDeviceType = DLDeviceType(10);
    /// Memory of the host that ROCm reaches.
    pub const kDLROCMHost: DLDeviceType = DLDeviceType(11);
    /// A device of a back end from outside.
    pub const kDLExtDev: DLDeviceType = DLDeviceType(12);
    /// Managed memory of CUDA.
    pub const kDLCUDAManaged: DLDeviceType = DLDeviceType(13);
    /// oneAPI.
    pub const kDLOneAPI: DLDeviceType = DLDeviceType(14);
    /// WebGPU.
    pub const kDLWebGPU: DLDeviceType = DLDeviceType(15);
    /// Hexagon.
    pub const kDLHexagon: DLDeviceType = DLDeviceType(16);
    /// MAIA.
    pub const kDLMAIA: DLDeviceType = DLDeviceType(17);
}

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLDevice {
    /// Its kind.
    pub device_type: DLDeviceType,
    /// Its number.
    pub device_id: i32,
}
/// An element type.
///
/// ```
/// use torch::utils::dlpack::DLDataType;
/// let float = DLDataType::of(torch::float32)?;
/// assert_eq!((float.bits, float.lanes, float.dtype()?), (32, 1, torch::float32));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLDataType {
    /// Its kind.
    pub code: u8,
    /// Bits of one number.
    pub bits: u8,
    /// Numbers of one element: 1.
    pub lanes: u16,
}
impl DLDataType {
    /// Of an element type.
    ///
    /// # Errors
    /// It is none of DLPack's.
    pub fn of(dtype: DType) -> Result<DLDataType> {
        let code = match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
            DType::F16 | DType::F32 | DType::F64 => 2,
            DType::BF16 => 4,
            DType::C32 | DType::C64 | DType::C128 => 5,
            DType::Bool => 6,
            DType::F8E4M3 => 10,
            DType::F8E5M2 => 12,
            other => return Err(Error::type_(format!("{} types are not supported by dlpack", other.name()))),
        };
        Ok(DLDataType { code, bits: (dtype.size() * 8) as u8, lanes: 1 })
    }
    /// The element type.
    ///
    /// # Errors
    /// There is none here.
    pub fn dtype(self) -> Result<DType> {
        Ok(match (self.code, self.bits, self.lanes) {
            (0, 8, 1) => DType::I8,
            (0, 16, 1) => DType::I16,
            (0, 32, 1) => DType::I32,
            (0, 64, 1) => DType::I64,
            (1, 8, 1) => DType::U8,
            (1, 16, 1) => DType::U16,
            (1, 32, 1) => DType::U32,
            (1, 64, 1) => DType::U64,
            (2, 16, 1) => DType::F16,
            (2, 32, 1) => DType::F32,
            (2, 64, 1) => DType::F64,
            (4, 16, 1) => DType::BF16,
            (5, 32, 1) => DType::C32,
            (5, 64, 1) => DType::C64,
            (5, 128, 1) => DType::C128,
            (6, 8, 1) => DType::Bool,
            (10, 8, 1) => DType::F8E4M3,
            (12, 8, 1) => DType::F8E5M2,
            (_, _, lanes) if lanes != 1 => return Err(Error::runtime("ATen does not support lanes != 1")),
            (code, bits, _) => {
                return Err(Error::runtime(format!(
                    "Unsupported DLPack dtype: code {code} with {bits} bits"
                )));
            }
        })
    }
}
/// Elements in memory.
#[derive(Debug)]
#[repr(C)]
pub struct DLTensor {
    /// Memory of the device.
    pub data: *mut c_void,
    /// The device.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// Sizes.
    pub shape: *mut i64,
    /// Strides in elements; null for row-major ones.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}
/// A tensor and who frees it, of version 1.
///
/// ```
/// use torch::utils::dlpack::{DLManagedTensorVersioned, DLTensor, from_dlpack, to_dlpack};
/// let managed: *mut DLManagedTensorVersioned = to_dlpack(&torch::ones([2, 3]))?.into_raw();
/// // SAFETY: the structure was just made, and nobody else has it
/// let t: &DLTensor = unsafe { &(*managed).dl_tensor };
/// assert_eq!(t.ndim, 2);
/// // SAFETY: as above; whoever takes it frees it
/// let x = unsafe { from_dlpack(managed)? };
/// assert_eq!(x.sizes(), &[2, 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version.
    pub version: DLPackVersion,
    /// What the owner knows it by.
    pub manager_ctx: *mut c_void,
    /// Frees the structure and the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`FLAG_READ_ONLY`], [`FLAG_IS_COPIED`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}
/// A tensor and who frees it, of the version before.
///
/// ```
/// use torch::utils::dlpack::{DLManagedTensor, from_dlpack_legacy, to_dlpack};
/// let managed: *mut DLManagedTensor = to_dlpack(&torch::ones([2]))?.into_raw_legacy();
/// // SAFETY: the structure was just made, and nobody else has it
/// let x = unsafe { from_dlpack_legacy(managed)? };
/// assert_eq!(x.to_vec::<f32>(), [1.0, 1.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// What the owner knows it by.
    pub manager_ctx: *mut c_void,
    /// Frees the structure and the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}
