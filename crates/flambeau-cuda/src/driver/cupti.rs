//! CUPTI, NVIDIA's library that tells what devices did, loaded at run time. Its records grow with its versions at their ends alone, so
//! their beginnings are read, at offsets that all versions since CUDA 11 have.
#![allow(unsafe_code)]

use crate::activity::{self, Activity, What};
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result};
use std::alloc::Layout;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_void};
use std::sync::{OnceLock, PoisonError};
use std::time::Instant;

/// Kinds of records: `CUpti_ActivityKind`.
mod kind {
    pub const MEMCPY: u32 = 1;
    pub const MEMSET: u32 = 2;
    pub const DRIVER: u32 = 4;
    pub const RUNTIME: u32 = 5;
    pub const KERNEL: u32 = 10;
    pub const EXTERNAL_CORRELATION: u32 = 39;
}
const WATCHED: [u32; 6] =
    [kind::MEMCPY, kind::MEMSET, kind::DRIVER, kind::RUNTIME, kind::KERNEL, kind::EXTERNAL_CORRELATION];
/// Which of its numberings of operators is ours: `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`.
const OURS: u32 = 3;
/// `CUPTI_CB_DOMAIN_DRIVER_API` and `CUPTI_CB_DOMAIN_RUNTIME_API`.
const DOMAINS: [u32; 2] = [1, 2];

type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type Result32 = u32;
/// The functions that are asked.
struct Cupti {
    register: unsafe extern "C" fn(Request, Completed) -> Result32,
    enable: unsafe extern "C" fn(u32) -> Result32,
    disable: unsafe extern "C" fn(u32) -> Result32,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Result32,
    flush: unsafe extern "C" fn(u32) -> Result32,
    push: unsafe extern "C" fn(u32, u64) -> Result32,
    pop: unsafe extern "C" fn(u32, *mut u64) -> Result32,
    timestamp: unsafe extern "C" fn(*mut u64) -> Result32,
    name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Result32,
}
fn missing() -> Error {
    Error::runtime(
        "kernels are timed by CUPTI, which is not there: install libcupti of CUDA 12 or 13 (the package cuda-cupti, or \
         nvidia-cuda-cupti of the Python index)",
    )
}
fn library() -> Result<&'static Cupti> {
    static FOUND: OnceLock<Option<Cupti>> = OnceLock::new();
    FOUND.get_or_init(open).as_ref().ok_or_else(missing)
}
fn open() -> Option<Cupti> {
    let toolkit = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let inside = toolkit.map(|t| std::path::PathBuf::from(t).join("extras/CUPTI/lib64/libcupti.so"));
    let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"].into_iter().map(Into::into).chain(inside);
    for name in names {
        // SAFETY: the library is NVIDIA's, whose initialisers are made for this.
        let Ok(l) = (unsafe { libloading::Library::new(&name) }) else { continue };
        // it stays: CUPTI's threads may call back until the program ends
        let l: &'static libloading::Library = Box::leak(Box::new(l));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the function has this type in all versions of CUPTI.
                *unsafe { l.get(concat!($name, "\0").as_bytes()) }.ok()?
            };
        }
        return Some(Cupti {
            register: function!("cuptiActivityRegisterCallbacks"),
            enable: function!("cuptiActivityEnable"),
            disable: function!("cuptiActivityDisable"),
            next: function!("cuptiActivityGetNextRecord"),
            flush: function!("cuptiActivityFlushAll"),
            push: function!("cuptiActivityPushExternalCorrelationId"),
            pop: function!("cuptiActivityPopExternalCorrelationId"),
            timestamp: function!("cuptiGetTimestamp"),
            name: function!("cuptiGetCallbackName"),
        });
    }
    None
}
fn check(what: &str, r: Result32) -> Result<()> {
    if r == 0 { Ok(()) } else { Err(Error::runtime(format!("CUPTI: {what}: error {r}"))) }
}

/// Records as they came, with CUPTI's times.
#[derive(Default)]
struct Records {
    activities: Vec<Activity>,
    /// Operators by correlation.
    operators: HashMap<u64, u64>,
    /// Calls: whose interface, which, times, correlation, thread.
    calls: Vec<(u32, u32, [u64; 2], u64, u64)>,
    /// CUPTI's time, and nanoseconds from the recording's begin, at one moment.
    at: (u64, u64),
}
static RECORDS: Mutex<Option<Records>> = Mutex::new(None);
fn records() -> MutexGuard<'static, Option<Records>> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

const ROOM: Layout = match Layout::from_size_align(4 << 20, 8) {
    Ok(l) => l,
    Err(_) => Layout::new::<u64>(),
};
/// CUPTI wants room for records.
unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    // SAFETY: CUPTI gives three places to write to. Without memory it gets none and drops records.
    unsafe {
        *buffer = std::alloc::alloc(ROOM);
        *size = if (*buffer).is_null() { 0 } else { ROOM.size() };
        *most = 0;
    }
}
/// CUPTI gives it back.
unsafe extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    if let (Ok(cupti), Some(to)) = (library(), records().as_mut()) {
        let mut record = std::ptr::null_mut();
        // SAFETY: the buffer is one of `request`'s with as many valid bytes; CUPTI writes the place of the next record in it.
        while unsafe { (cupti.next)(buffer, valid, &mut record) } == 0 {
            // SAFETY: the record is a whole one, of the kind that it says.
            unsafe { to.take(record) };
        }
    }
    // SAFETY: `request` took it with this layout, and CUPTI is done with it.
    unsafe { std::alloc::dealloc(buffer, ROOM) };
}
/// A field of a record.
///
/// # Safety
/// The record has a field of this type there.
unsafe fn field<T: Copy>(record: *const u8, at: usize) -> T {
    // SAFETY: as the caller promises; records are aligned to 8 bytes, and their fields perhaps to less.
    unsafe { record.add(at).cast::<T>().read_unaligned() }
}
impl Records {
    /// Notes a record.
    ///
    /// # Safety
    /// It is one of CUPTI's, with the fields of its kind: those of `CUpti_ActivityKernel5`, `CUpti_ActivityMemcpy3`,
    /// `CUpti_ActivityMemset2`, `CUpti_ActivityAPI` and `CUpti_ActivityExternalCorrelation`, and of their later versions.
    unsafe fn take(&mut self, record: *const u8) {
        // SAFETY: as the caller promises. The name of a kernel ends with zero and lives as long as the record, or is null.
        unsafe {
            let number = |at| u64::from(field::<u32>(record, at));
            match field::<u32>(record, 0) {
                kind::KERNEL => {
                    let name: *const c_char = field(record, 104);
                    let name = if name.is_null() { c"kernel" } else { CStr::from_ptr(name) };
                    let what = What::Kernel {
                        grid: field(record, 52),
                        block: field(record, 64),
                        registers: u32::from(field::<u16>(record, 6)),
                        shared: field::<u32>(record, 76).wrapping_add(field(record, 80)),
                    };
                    let name = name.to_string_lossy().into_owned();
                    let times = [field(record, 16), field(record, 24)];
                    self.did(what, name, times, number(40), number(48), number(92));
                }
                kind::MEMCPY => {
                    let name = copied(field(record, 4), field(record, 5), field(record, 6));
                    let times = [field(record, 16), field(record, 24)];
                    self.did(What::Copy(field(record, 8)), name, times, number(32), number(40), number(44));
                }
                kind::MEMSET => {
                    let times = [field(record, 16), field(record, 24)];
                    let name = "Memset (Device)".to_string();
                    self.did(What::Fill(field(record, 8)), name, times, number(32), number(40), number(44));
                }
                k @ (kind::DRIVER | kind::RUNTIME) => {
                    let times = [field(record, 8), field(record, 16)];
                    let domain = DOMAINS[usize::from(k == kind::RUNTIME)];
                    self.calls.push((domain, field(record, 4), times, number(32), number(28)));
                }
                kind::EXTERNAL_CORRELATION if field::<u32>(record, 4) == OURS => {
                    self.operators.insert(number(16), field(record, 8));
                }
                _ => {}
            }
        }
    }
    fn did(&mut self, what: What, name: String, times: [u64; 2], device: u64, stream: u64, correlation: u64) {
        let [start, end] = times;
        let (device, operator, thread) = (device as i64, None, 0);
        self.activities.push(Activity {
            what,
            name,
            device,
            stream,
            start,
            end,
            correlation,
            operator,
            thread,
        });
    }
    /// Notes all of it, with times of the recording.
    fn give(self, cupti: &Cupti) {
        let time = |t: u64| (t + self.at.1).saturating_sub(self.at.0);
        let queued: HashSet<u64> = self.activities.iter().map(|a| a.correlation).collect();
        let places: HashMap<u64, (i64, u64)> =
            self.activities.iter().map(|a| (a.correlation, (a.device, a.stream))).collect();
        for (domain, which, [start, end], correlation, thread) in self.calls {
            let mut name = std::ptr::null();
            // SAFETY: writes the address of a text that lives as long as the library.
            let known = unsafe { (cupti.name)(domain, which, &mut name) } == 0 && !name.is_null();
            // SAFETY: the text ends with zero.
            let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "call".into() };
            // only what queued something, and what waited
            if !queued.contains(&correlation) && !name.contains("Synchronize") {
                continue;
            }
            // the runtime's names end with the version that they are since
            let name = name.split("_v").next().unwrap_or_default().to_string();
            let (device, stream) = places.get(&correlation).copied().unwrap_or((0, 0));
            let operator = self.operators.get(&correlation).copied();
            let (start, end) = (time(start), time(end));
            activity::note(Activity {
                what: What::Call,
                name,
                device,
                stream,
                start,
                end,
                correlation,
                operator,
                thread,
            });
        }
        for mut a in self.activities {
            (a.start, a.end) = (time(a.start), time(a.end));
            a.operator = self.operators.get(&a.correlation).copied();
            activity::note(a);
        }
    }
}
/// As PyTorch's traces call a copy: `CUpti_ActivityMemcpyKind`, `CUpti_ActivityMemoryKind`.
fn copied(kind: u8, from: u8, to: u8) -> String {
    let kind = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
        .get(usize::from(kind))
        .copied()
        .unwrap_or("Unknown");
    let memory = |k: u8| {
        let all = ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed"];
        all.get(usize::from(k)).copied().unwrap_or("Unknown")
    };
    format!("Memcpy {kind} ({} -> {})", memory(from), memory(to))
}

/// Whether it is there.
///
/// # Errors
/// It is not: what to install.
pub(super) fn present() -> Result<()> {
    library().map(|_| ())
}
/// Begins.
///
/// # Errors
/// It is not there, or refuses.
pub(super) fn begin() -> Result<()> {
    let cupti = library()?;
    static REGISTERED: OnceLock<Result32> = OnceLock::new();
    // SAFETY: both functions have the types that CUPTI wants, and stay.
    let registered = REGISTERED.get_or_init(|| unsafe { (cupti.register)(request, completed) });
    check("cuptiActivityRegisterCallbacks", *registered)?;
    let mut now = 0;
    // SAFETY: writes one number.
    check("cuptiGetTimestamp", unsafe { (cupti.timestamp)(&mut now) })?;
    *records() = Some(Records { at: (now, activity::since_begin(Instant::now())), ..Records::default() });
    for kind in WATCHED {
        // SAFETY: takes a number.
        let done = check("cuptiActivityEnable", unsafe { (cupti.enable)(kind) });
        if let Err(e) = done {
            stop(cupti);
            *records() = None;
            return Err(e);
        }
    }
    Ok(())
}
fn stop(cupti: &Cupti) {
    for kind in WATCHED {
        // SAFETY: takes a number; one that is not watched is refused.
        unsafe { (cupti.disable)(kind) };
    }
}
/// Ends it, when all work is done, and notes what was done.
///
/// # Errors
/// CUPTI refuses.
pub(super) fn end() -> Result<()> {
    let cupti = library()?;
    // SAFETY: takes a number. 1: buffers that are not full, too. It calls `completed` for each before it returns.
    let flushed = check("cuptiActivityFlushAll", unsafe { (cupti.flush)(1) });
    stop(cupti);
    let found = records().take();
    if let Some(r) = found {
        r.give(cupti);
    }
    flushed
}
/// What this thread queues from here on belongs to an operator, or to the one before again.
pub(super) fn operator(entered: Option<u64>) {
    let Ok(cupti) = library() else { return };
    let mut last = 0;
    // SAFETY: they take numbers, and write one.
    unsafe {
        match entered {
            Some(id) => (cupti.push)(OURS, id),
            None => (cupti.pop)(OURS, &mut last),
        }
    };
}
