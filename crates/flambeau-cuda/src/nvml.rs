//! NVIDIA's management library, loaded at run time where it is there: what it measures of a device.
#![allow(unsafe_code)]

use crate::driver::driver;
use flambeau_core::{Error, Result};
use flambeau_devices::cuda::runtime::Measured;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

type Device = *mut c_void;
/// Percents of the last second.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}
/// `nvmlProcessInfo_v2_t`, which the third version of the call fills.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    used: c_ulonglong,
    instance: c_uint,
    compute: c_uint,
}
fn absent() -> Error {
    Error::runtime("nvidia-ml-py does not seem to be installed or it can't be imported.")
}
fn check(r: c_int) -> Result<()> {
    match r {
        0 => Ok(()),
        3 => Err(Error::runtime("NVML: Not Supported")),
        4 => Err(Error::runtime("NVML: Insufficient Permissions")),
        9 => Err(Error::runtime("cuda driver can't be loaded, is cuda enabled?")),
        r => Err(Error::runtime(format!("NVML: error {r}"))),
    }
}
/// The library, started.
fn library() -> Result<&'static Library> {
    static FOUND: OnceLock<std::result::Result<Library, Error>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: NVIDIA's library has no initialisers that do more than set up its own state.
        let l = ["libnvidia-ml.so.1", "nvml.dll"].into_iter().find_map(|n| unsafe { Library::new(n).ok() });
        let l = l.ok_or_else(absent)?;
        // SAFETY: the function of this name takes nothing, and is called once before all others.
        let start = unsafe { l.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").map(|f| f()) };
        check(start.map_err(|_| absent())?)?;
        Ok(l)
    });
    found.as_ref().map_err(Clone::clone)
}
/// A function of the library by its documented name.
macro_rules! function {
    ($library:expr, $name:literal, fn($($t:ty),*)) => {
        // SAFETY: the library documents the function of this name with this type; it is never unloaded.
        unsafe { $library.get::<unsafe extern "C" fn($($t),*) -> c_int>(concat!($name, "\0").as_bytes()) }
            .map_err(|_| Error::runtime(concat!("NVML has no ", $name)))?
    };
}
fn handle(l: &Library, device: usize) -> Result<Device> {
    let bus = driver()?.bus(device)?.ok_or_else(absent)?;
    let find = function!(l, "nvmlDeviceGetHandleByPciBusId_v2", fn(*const c_char, *mut Device));
    let mut found = std::ptr::null_mut();
    // SAFETY: the text ends with zero; writes one handle.
    check(unsafe { find(bus.as_ptr(), &mut found) })?;
    Ok(found)
}
/// Number of devices; `None` where there is no such library, or the environment chooses among them.
pub(crate) fn count() -> Option<i64> {
    let chosen = ["CUDA_VISIBLE_DEVICES", "FLAMBEAU_CUDA"].iter().any(|v| std::env::var_os(v).is_some());
    let l = library().ok().filter(|_| !chosen)?;
    let ask = || -> Result<c_uint> {
        let mut n = 0;
        let f = function!(l, "nvmlDeviceGetCount_v2", fn(*mut c_uint));
        // SAFETY: writes one number.
        check(unsafe { f(&mut n) })?;
        Ok(n)
    };
    ask().ok().map(i64::from)
}
/// What it measures of a device.
///
/// # Errors
/// There is no such library; it refuses.
pub(crate) fn measured(device: usize, what: Measured) -> Result<i64> {
    let l = library()?;
    let d = handle(l, device)?;
    let mut n: c_uint = 0;
    let (mut percents, mut memory) = (Utilization::default(), Memory::default());
    let result = match what {
        Measured::Utilization | Measured::MemoryUsage => {
            let f = function!(l, "nvmlDeviceGetUtilizationRates", fn(Device, *mut Utilization));
            // SAFETY: the handle is the library's; writes two numbers.
            unsafe { f(d, &mut percents) }
        }
        Measured::Temperature => {
            let f = function!(l, "nvmlDeviceGetTemperature", fn(Device, c_int, *mut c_uint));
            // SAFETY: the handle is the library's; writes one number. 0: of the chip.
            unsafe { f(d, 0, &mut n) }
        }
        Measured::PowerDraw => {
            let f = function!(l, "nvmlDeviceGetPowerUsage", fn(Device, *mut c_uint));
            // SAFETY: the handle is the library's; writes one number.
            unsafe { f(d, &mut n) }
        }
        Measured::ClockRate => {
            let f = function!(l, "nvmlDeviceGetClockInfo", fn(Device, c_int, *mut c_uint));
            // SAFETY: the handle is the library's; writes one number. 1: of the multiprocessors.
            unsafe { f(d, 1, &mut n) }
        }
        Measured::MemoryUsed => {
            let f = function!(l, "nvmlDeviceGetMemoryInfo", fn(Device, *mut Memory));
            // SAFETY: the handle is the library's; writes three numbers.
            unsafe { f(d, &mut memory) }
        }
    };
    check(result)?;
    Ok(match what {
        Measured::Utilization => i64::from(percents.gpu),
        Measured::MemoryUsage => i64::from(percents.memory),
        Measured::MemoryUsed => memory.used as i64,
        _ => i64::from(n),
    })
}
/// Processes that compute on a device, and their bytes of its memory.
///
/// # Errors
/// As [`measured`].
pub(crate) fn processes(device: usize) -> Result<Vec<(i64, i64)>> {
    let l = library()?;
    let d = handle(l, device)?;
    let f = function!(l, "nvmlDeviceGetComputeRunningProcesses_v3", fn(Device, *mut c_uint, *mut Process));
    let mut all = vec![Process::default(); 1024];
    let mut n = all.len() as c_uint;
    // SAFETY: the handle is the library's; it writes at most as many entries as it is told, and their number.
    check(unsafe { f(d, &mut n, all.as_mut_ptr()) })?;
    all.truncate(n as usize);
    // all ones: the library does not know
    let bytes = |p: &Process| if p.used == c_ulonglong::MAX { 0 } else { p.used as i64 };
    Ok(all.iter().map(|p| (i64::from(p.pid), bytes(p))).collect())
}
