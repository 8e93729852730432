//! Tensors to other libraries and from them.

use flambeau_autograd as _;
use flambeau_core::{DType, Error, ErrorKind, functions as torch};
use flambeau_dlpack::*;

#[test]
fn both_ways_are_the_same_memory() {
    let x = torch::arange(6).reshape([2, 3]).t();
    let exported = to_dlpack(&x).unwrap();
    assert_eq!(exported.device().device_type, DLDeviceType::kDLCPU);
    // SAFETY: made here for here; one thread.
    let y = unsafe { from_dlpack(exported.into_raw()).unwrap() };
    assert_eq!((y.sizes(), y.strides()), (x.sizes(), x.strides()));
    y.fill_(4);
    assert_eq!(x.to_vec::<i64>(), [4; 6]);
    drop(x);
    assert_eq!(y.to_vec::<i64>(), [4; 6]);
    // SAFETY: as above.
    let z = unsafe { from_dlpack_legacy(to_dlpack(&y).unwrap().into_raw_legacy()).unwrap() };
    drop(y);
    assert_eq!(z.to_vec::<i64>(), [4; 6]);
}
#[test]
fn what_cannot_be_written_or_is_not_aligned_is_copied() {
    let x = torch::arange(4).to(DType::F32);
    let m = to_dlpack(&x).unwrap().into_raw();
    // SAFETY: made here; nobody else has it.
    let y = unsafe {
        (*m).flags = FLAG_READ_ONLY;
        from_dlpack(m).unwrap()
    };
    y.fill_(9.0);
    assert_eq!(x.to_vec::<f32>(), [0.0, 1.0, 2.0, 3.0]);
    // SAFETY: as above.
    let z = unsafe { from_dlpack(to_dlpack(&x.narrow(0, 1, 2)).unwrap().into_raw()).unwrap() };
    assert_eq!(z.to_vec::<f32>(), [1.0, 2.0]);
}
#[test]
fn refused() {
    let says = |e: Error| e.message().to_string();
    let x = torch::ones([2]);
    x.requires_grad_(true);
    assert_eq!(
        says(to_dlpack(&x).unwrap_err()),
        "Can't export tensors that require gradient, use tensor.detach()"
    );
    // SAFETY: null is allowed.
    let e = unsafe { from_dlpack(std::ptr::null_mut()).unwrap_err() };
    assert_eq!(says(e), "from_dlpack received an invalid capsule");
    let bad = |change: fn(&mut DLManagedTensorVersioned)| {
        let m = to_dlpack(&torch::ones([2, 2])).unwrap().into_raw();
        // SAFETY: made here; nobody else has it.
        unsafe {
            change(&mut *m);
            from_dlpack(m).unwrap_err()
        }
    };
    assert!(says(bad(|m| m.version.major = 2)).contains("newer than 1.0"));
    assert_eq!(bad(|m| m.dl_tensor.device.device_type = DLDeviceType::kDLCUDA).kind(), ErrorKind::Missing);
    assert_eq!(says(bad(|m| m.dl_tensor.dtype.lanes = 2)), "ATen does not support lanes != 1");
    // SAFETY: `strides` has two numbers.
    let e = bad(|m| unsafe { *m.dl_tensor.strides = -1 });
    assert_eq!(says(e), "as_strided: Negative strides are not supported at the moment");
}

/// NumPy and PyTorch load a library of ours, where there is a Python with them.
#[test]
fn python_libraries() {
    let probe = std::env::current_exe().unwrap().with_file_name("../examples/libdlpack_probe.so");
    let python = std::env::var("FLAMBEAU_PYTHON").unwrap_or_else(|_| "python3".into());
    let has = std::process::Command::new(&python).args(["-c", "import numpy, torch"]).output();
    if !probe.exists() || !has.is_ok_and(|o| o.status.success()) {
        println!("no library or no Python with NumPy and PyTorch: skipped");
        return;
    }
    let script = r#"
import ctypes, sys
import numpy, torch
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
lib = ctypes.CDLL(sys.argv[1])
lib.flambeau_add_one.restype = ctypes.c_void_p
lib.flambeau_add_one.argtypes = [ctypes.c_void_p]
NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"

class Given:
    def __init__(self, pointer):
        self.pointer = pointer
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, **kwargs):
        return api.PyCapsule_New(self.pointer, NAME, None)

def through(x):
    capsule = x.__dlpack__(max_version=(1, 0))
    pointer = api.PyCapsule_GetPointer(capsule, NAME)
    api.PyCapsule_SetName(capsule, USED)
    out = lib.flambeau_add_one(pointer)
    assert out
    return Given(out)

for module in (numpy, torch):
    for dtype in ("float32", "float64", "int64", "uint8", "complex64"):
        x = module.ones((3, 2), dtype=getattr(module, dtype))
        y = module.from_dlpack(through(x))
        assert tuple(y.shape) == (2, 3), y.shape
        assert bool((x == 2).all()) and bool((y == 2).all()), (dtype, x, y)
        y[0, 1] = 7
        assert x[1, 0] == 7
        del x
        assert y[0, 1] == 7
print("ok")
"#;
    let out = std::process::Command::new(&python).args(["-c", script]).arg(&probe).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.trim() == "ok", "{said}{}", String::from_utf8_lossy(&out.stderr));
}
