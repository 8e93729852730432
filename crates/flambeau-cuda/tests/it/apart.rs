//! What changes a process for good or needs several: each in a process of its own, on emulated devices, or on the real one where
//! there is one and `FLAMBEAU_CUDA` is not set. The search for races, allocators of others, memory of several processes.

use crate::emulated::{agree, emulated, floats, numbers, there};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, ErrorKind, Result, Tensor, ops};
use flambeau_devices::cuda::{self, CUDAPluggableAllocator, Event, MemPool};
use flambeau_multiprocessing::{self as mp, Function, Message, SimpleQueue, SpawnOptions};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Runs a test of this file in a process of its own.
fn run(name: &str, more: &[(&str, &Path)]) -> Option<Output> {
    let emulated = std::env::var("FLAMBEAU_CUDA").is_ok() || !cuda::is_available();
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    if emulated && Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {compiler}");
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([&format!("apart::{name}"), "--exact", "--ignored", "--nocapture"]);
    if emulated {
        child.env("FLAMBEAU_CUDA", "emulated:2");
    }
    more.iter().for_each(|(k, v)| {
        child.env(k, v);
    });
    Some(child.output().unwrap())
}
/// What a process that failed printed.
fn failed(name: &str, out: &Output) -> Option<String> {
    let (text, said) = (String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    (!out.status.success()).then(|| format!("{name}\n{said}{text}"))
}
/// All of them; a device has them too.
#[test]
fn in_processes_of_their_own() {
    each_apart();
}
pub fn all() {
    each_apart();
}
fn each_apart() {
    let mut wrong = Vec::new();
    let mut each = |name: &str, more: &[(&str, &Path)]| {
        let out = run(name, more)?;
        wrong.extend(failed(name, &out));
        out.status.success().then_some(out)
    };
    let races = each("races", &[]);
    each("asked_by_the_environment", &[("TORCH_CUDA_SANITIZER", Path::new("1"))]);
    let folder = tempfile::tempdir().unwrap();
    if let Some(library) = allocator(folder.path()) {
        each("plugged", &[("FLAMBEAU_TEST_ALLOCATOR", &library)]);
        each("in_a_pool", &[("FLAMBEAU_TEST_ALLOCATOR", &library)]);
    }
    each("uncached", &[]);
    #[cfg(target_os = "linux")]
    each("between_processes", &[]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if let Some(out) = races {
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        for part in [
            "============================\nCSAN detected a possible data race on tensor with data pointer ",
            "\nAccess by stream ",
            " during kernel:\naten::mul.Tensor(Tensor self, Tensor other) -> Tensor\nreading from argument(s) self, other\nWith stack trace:\n",
            "Previous access by stream 0 during kernel:\naten::copy_\nwriting to argument(s) self\nWith stack trace:\n",
            "Tensor was allocated with stack trace:\n",
            "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor\nwriting to argument(s) self, other, and to the output\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}

/// Two accesses that nothing orders are an error; what an event, a wait or the host orders is none.
#[test]
#[ignore = "in_processes_of_their_own runs it"]
fn races() {
    cuda::sanitizer::enable_cuda_sanitizer();
    assert!(cuda::sanitizer::is_enabled());
    let x = there(&numbers(&[50]));
    let (main, side) = (cuda::current_stream(), cuda::Stream::new());
    let square = || ops::mul(&x, &x);
    let e = cuda::stream(Some(&side), square).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Runtime, "detected 1 errors"));
    side.wait_stream(&main);
    let y = cuda::stream(Some(&side), square).unwrap();
    // a read after a read is none, a write after it is one
    ops::add(&x, &x, 1.into()).unwrap();
    // of both calls on the other stream, the refused one too
    let e = ops::add_(&x, &x, 1.into()).unwrap_err();
    assert_eq!(e.message(), "detected 2 errors");
    side.synchronize();
    ops::add_(&x, &x, 1.into()).unwrap();
    // views are of the same memory
    let part = ops::narrow(&x, 0, 0, 7).unwrap();
    let read = |t: &Tensor| cuda::stream(Some(&side), || ops::neg(t));
    assert!(read(&part).is_err());
    let e = Event::new();
    e.record(None);
    side.wait_event(&e);
    read(&part).unwrap();
    // of an event, what came before it
    main.wait_stream(&side);
    ops::mul_(&x, &x).unwrap();
    side.wait_event(&e);
    assert!(read(&part).is_err());
    cuda::synchronize();
    read(&part).unwrap();
    // memory that goes back is somebody else's
    drop((part, y));
    let z = Tensor::empty_raw(&[50], DType::F32, Device::cuda(0)).unwrap();
    drop(x);
    ops::fill_(&z, 3.0.into()).unwrap();
    assert_eq!(floats(&z), [3.0; 50]);
    // a stream of another library is one like any other
    let theirs = crate::external::another();
    let x = there(&numbers(&[50]));
    let read = || cuda::stream(Some(&theirs), || ops::mul(&x, &x));
    assert!(read().is_err());
    theirs.wait_stream(&main);
    read().unwrap();
}
#[test]
#[ignore = "in_processes_of_their_own runs it"]
fn asked_by_the_environment() {
    let x = there(&numbers(&[50]));
    let side = cuda::Stream::new();
    assert!(cuda::sanitizer::is_enabled());
    let e = cuda::stream(Some(&side), || ops::mul(&x, &x)).unwrap_err();
    assert_eq!(e.message(), "detected 1 errors");
}

/// An allocator that counts, of the host's memory for emulated devices and of the driver's for others.
const ALLOCATOR: &str = r#"
#include <stdlib.h>
#include <stdio.h>
#include <sys/types.h>
#ifdef REAL
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
#endif
static long taken, given, bytes;
static void tell(void) {
    const char *path = getenv("FLAMBEAU_TEST_COUNTS");
    FILE *f = path ? fopen(path, "w") : 0;
    if (f) { fprintf(f, "%ld %ld %ld", taken, given, bytes); fclose(f); }
}
void *own_alloc(ssize_t size, int device, void *stream) {
    (void)device; (void)stream;
    taken += 1; bytes += size; tell();
#ifdef REAL
    unsigned long long at = 0;
    return cuMemAlloc_v2(&at, size) ? 0 : (void *)at;
#else
    return aligned_alloc(512, (size + 511) / 512 * 512);
#endif
}
void own_free(void *ptr, ssize_t size, int device, void *stream) {
    (void)device; (void)stream;
    given += 1; bytes -= size; tell();
#ifdef REAL
    cuMemFree_v2((unsigned long long)ptr);
#else
    free(ptr);
#endif
}
"#;
fn allocator(folder: &Path) -> Option<std::path::PathBuf> {
    let (source, library) = (folder.join("own.c"), folder.join("own.so"));
    std::fs::write(&source, ALLOCATOR).unwrap();
    let real = std::env::var("FLAMBEAU_CUDA").is_err() && cuda::is_available();
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&library);
    if real {
        compiler.args(["-DREAL", "-l:libcuda.so.1"]);
    }
    let out = compiler.output().ok()?;
    if !out.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&out.stderr));
        return None;
    }
    Some(library)
}
fn loaded() -> (CUDAPluggableAllocator, impl Fn() -> [i64; 3]) {
    let path = std::path::PathBuf::from(std::env::var_os("FLAMBEAU_TEST_ALLOCATOR").unwrap());
    let counts = path.with_extension(format!("{}", std::process::id()));
    // before there is a second thread that reads it
    let e = CUDAPluggableAllocator::try_new(&path, "nosuch", "own_free").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Attribute);
    assert!(e.message().ends_with("undefined symbol: nosuch"), "{e}");
    assert_eq!(CUDAPluggableAllocator::try_new("nosuch.so", "a", "b").unwrap_err().kind(), ErrorKind::Io);
    let told = std::env::var_os("FLAMBEAU_TEST_COUNTS").map_or(counts, Into::into);
    let read = move || {
        let text = std::fs::read_to_string(&told).unwrap_or_else(|_| "0 0 0".into());
        let all: Vec<i64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
        [all[0], all[1], all[2]]
    };
    (CUDAPluggableAllocator::new(path, "own_alloc", "own_free"), read)
}
/// Runs a test again with a file for the counts.
fn counted(name: &str) -> bool {
    if std::env::var_os("FLAMBEAU_TEST_COUNTS").is_some() {
        return true;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0 0 0").unwrap();
    if let Some(text) = run(name, &[("FLAMBEAU_TEST_COUNTS", file.path())]).and_then(|o| failed(name, &o)) {
        panic!("{text}");
    }
    false
}
#[test]
#[ignore = "in_processes_of_their_own runs it"]
fn plugged() {
    if !counted("plugged") {
        return;
    }
    let (own, counts) = loaded();
    assert!(!cuda::is_initialized());
    cuda::change_current_allocator(&own);
    assert_eq!(cuda::try_get_allocator_backend().unwrap(), "pluggable");
    let t = numbers(&[300]);
    let x = there(&t);
    let y = ops::mul(&x, &x).unwrap();
    agree("plugged", &y, &ops::mul(&t, &t).unwrap(), 0.0);
    let [taken, given, bytes] = counts();
    assert!(taken >= 2 && bytes >= 2 * 1200, "{taken} {given} {bytes}");
    drop((x, y));
    assert!(counts()[1] >= given + 2);
    let e = cuda::try_change_current_allocator(&own).unwrap_err();
    assert_eq!(e.message(), "Can't swap an already initialized allocator");
}
#[test]
#[ignore = "in_processes_of_their_own runs it"]
fn in_a_pool() {
    if !counted("in_a_pool") {
        return;
    }
    let (own, counts) = loaded();
    let pool = MemPool::with_allocator(&own, false, false).unwrap();
    let t = numbers(&[300]);
    let x = cuda::use_mem_pool(&pool, || there(&t));
    // a segment of the caching allocator's size
    assert_eq!(counts(), [1, 0, 2 << 20]);
    let y = there(&t);
    let z = ops::mul(&x, &y).unwrap();
    agree("in a pool", &z, &ops::mul(&t, &t).unwrap(), 0.0);
    assert_eq!(counts()[0], 1);
    drop((x, y, z, pool));
    cuda::empty_cache();
    assert_eq!(counts(), [1, 1, 0]);
}
/// Without the cache memory comes from the driver and goes back to it.
#[test]
#[ignore = "in_processes_of_their_own runs it"]
fn uncached() {
    let make = || Tensor::empty_raw(&[1 << 20], DType::F32, Device::cuda(0)).unwrap();
    drop(make());
    let reserved = cuda::memory_reserved();
    assert!(reserved > 0);
    let t = numbers(&[300]);
    cuda::caching_allocator_disabled(|| {
        let before = cuda::memory_allocated();
        let (free, x) = (cuda::mem_get_info().0, make());
        assert_eq!((cuda::memory_allocated(), cuda::memory_reserved()), (before, reserved));
        assert!(cuda::mem_get_info().0 <= free - (4 << 20));
        drop(x);
        assert!(!emulated() || cuda::mem_get_info().0 == free);
        agree("uncached", &ops::neg(&there(&t)).unwrap(), &ops::neg(&t).unwrap(), 0.0);
    });
    cuda::caching_allocator_enable(false);
    let x = make();
    cuda::caching_allocator_enable(true);
    let y = make();
    assert!(cuda::memory_allocated() >= 4 << 20);
    drop((x, y));
}

/// Adds one to what it gets, in place, and tells how much it has.
fn adds(_: usize, args: &[Message]) -> Result<()> {
    let (x, other, back, go_on) = (args[0].tensor()?, args[1].tensor()?, args[2].queue()?, args[3].queue()?);
    assert!(x.storage().same(other.storage()), "two tensors of one memory");
    ops::add_(&x, &Tensor::from_slice(&[1f32], [0i64; 0]), 1.into())?;
    cuda::try_synchronize()?;
    // of the same allocation
    let more = args[5].tensor()?;
    let own = ops::add(&ops::mul(&x, &x)?, &more, 1.into())?;
    let event: Vec<i64> = args[4].get()?;
    let event = Event::from_ipc_handle(0, &event.iter().map(|b| *b as u8).collect::<Vec<u8>>())?;
    event.try_wait(None)?;
    event.try_synchronize()?;
    back.put(&own)?;
    // this process has `own` until the other one says that it is done
    go_on.get()?;
    drop((x, other, more));
    Ok(())
}
#[test]
#[ignore = "in_processes_of_their_own runs it"]
fn between_processes() {
    const ALL: [(&str, Function); 1] = [("adds", adds)];
    mp::freeze_support(&ALL);
    let t = numbers(&[40, 30]);
    let x = there(&t);
    assert!(mp::is_shared(&x));
    let part = ops::narrow(&x, 0, 1, 7).unwrap();
    // within a process it is the same memory
    let q = SimpleQueue::new().unwrap();
    q.put(&part).unwrap();
    let same = q.get().unwrap().tensor().unwrap();
    assert!(same.storage().address().unwrap() == x.storage().address().unwrap());
    agree("same", &same, &ops::narrow(&t, 0, 1, 7).unwrap(), 0.0);
    let event = Event::interprocess().unwrap();
    event.record(None);
    let name: Vec<i64> = event.try_ipc_handle().unwrap().iter().map(|b| i64::from(*b)).collect();
    assert!(Event::new().try_ipc_handle().is_err());
    assert!(Event::from_ipc_handle(0, &[1, 2]).is_err());
    let (back, go_on) = (SimpleQueue::new().unwrap(), SimpleQueue::new().unwrap());
    let more = there(&t);
    let args: [Message; 6] =
        [(&x).into(), (&part).into(), back.clone().into(), go_on.clone().into(), name.into(), (&more).into()];
    let mut context = mp::start_processes("adds", &args, SpawnOptions::new()).unwrap();
    let Some(got) = back.get_timeout(Duration::from_secs(60)).unwrap() else {
        panic!("{:?}", context.join());
    };
    let one = ops::add(&t, &Tensor::from_slice(&[1f32], [0i64; 0]), 1.into()).unwrap();
    // what the other process wrote is in this one's tensor, and its result is read here
    agree("written there", &x, &one, 1e-6);
    let got = got.tensor().unwrap();
    let want = ops::add(&ops::mul(&one, &one).unwrap(), &t, 1.into()).unwrap();
    agree("made there", &got, &want, 1e-6);
    drop(got);
    go_on.put(1).unwrap();
    while !context.join().unwrap() {}
    let before = cuda::memory_allocated();
    drop((x, part, same, more, args));
    cuda::try_ipc_collect().unwrap();
    assert!(cuda::memory_allocated() < before, "memory that was sent goes back when nobody has it");
}
