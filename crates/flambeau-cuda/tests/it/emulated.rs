//! Values of the emulated device are the CPU's: copies, formulas, sums, products, softmax, picks; streams, memory, errors. The
//! driver is chosen once in a process, so all of it stands in one test that runs in a process of its own. On a machine with a
//! device, `cargo test -p flambeau-cuda -- --ignored` runs it there.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Tensor, backend, ops};
use flambeau_devices::cuda;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Instant;

pub fn numbers(sizes: &[i64]) -> Tensor {
    let n = sizes.iter().product::<i64>();
    let v: Vec<f32> = (0..n).map(|i| ((i as f32 + 1.3) * 0.7).sin() + 0.05).collect();
    Tensor::from_slice(&v, sizes)
}
/// A copy of another dtype.
pub fn cast(t: &Tensor, d: DType) -> Tensor {
    let out = Tensor::empty_raw(t.sizes(), d, t.device()).unwrap();
    ops::copy_(&out, t, false).unwrap();
    out
}
pub fn there(t: &Tensor) -> Tensor {
    backend::transfer::to_device(t.clone(), Device::cuda(0)).unwrap()
}
pub fn floats(t: &Tensor) -> Vec<f64> {
    t.try_to_vec::<f64>().unwrap()
}
pub fn agree(what: &str, got: &Tensor, want: &Tensor, tolerance: f64) {
    assert_eq!(got.device(), Device::cuda(0), "{what}");
    assert_eq!((got.sizes(), got.dtype()), (want.sizes(), want.dtype()), "{what}");
    let parts = |t: &Tensor| if t.is_complex() { ops::view_as_real(t).unwrap() } else { t.clone() };
    for (a, b) in floats(&parts(got)).iter().zip(floats(&parts(want))) {
        let fine = (a - b).abs() <= tolerance * b.abs().max(1.0) || a.is_nan() && b.is_nan() || *a == b;
        assert!(fine, "{what}: {a} {b}");
    }
}

/// Whether this process has emulated devices.
pub fn emulated() -> bool {
    std::env::var("FLAMBEAU_CUDA").is_ok_and(|v| v.starts_with("emulated"))
}
/// Whether there is a C++ compiler; says so where there is none.
fn compiles() -> bool {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let found = Command::new(&compiler).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no {compiler}");
    }
    found
}
/// Runs a test of this file on two emulated devices, in a process of its own.
///
/// # Errors
/// What a process that fails prints.
fn on_emulated_devices(name: &str) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([&format!("emulated::{name}"), "--exact", "--ignored", "--nocapture"]);
    let out = child.env("FLAMBEAU_CUDA", "emulated:2").output().unwrap();
    let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    // a name that is no test's would pass
    if out.status.success() && said.contains("1 passed") { Ok(()) } else { Err(format!("{name}\n{said}")) }
}
/// Runs [`the_back_end`], where there is a C++ compiler. The families of kernels, which take the compiler minutes, are asked for by
/// `cargo test -p flambeau-cuda -- --ignored families_at_once`.
#[test]
fn on_the_emulated_device() {
    if compiles() {
        on_emulated_devices("the_back_end").unwrap_or_else(|e| panic!("{e}"));
    }
}
/// Every family, as many at a time as there are processors.
#[test]
#[ignore = "takes the C++ compiler minutes"]
fn families_at_once() {
    if !compiles() {
        return;
    }
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(name) = on_a_device::NAMES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            let done = on_emulated_devices(&format!("on_a_device::{name}"));
            let word = if done.is_ok() { "passes" } else { "fails" };
            eprintln!("{name} {word} after {:.1} s", start.elapsed().as_secs_f64());
            wrong.lock().unwrap().extend(done.err());
        }
    };
    std::thread::scope(|s| {
        (0..available_parallelism().map_or(1, usize::from)).for_each(|_| drop(s.spawn(work)));
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
/// Without a driver there is no device, and what asks for one is told what to install.
#[test]
fn without_a_driver() {
    if cuda::is_available() {
        return;
    }
    assert_eq!(cuda::device_count(), 0);
    let e = cuda::try_synchronize().unwrap_err();
    assert!(e.message().contains("NVIDIA driver") || e.message().contains("No CUDA GPUs"), "{e}");
    let e = ops::empty(&[2], None, None, Some(Device::cuda(0)), None, None).unwrap_err();
    assert!(e.message().contains("driver") || e.message().contains("CUDA"), "{e}");
}

/// Alone in its process: it counts memory.
#[test]
#[ignore = "on_the_emulated_device runs it with the emulated driver"]
fn the_back_end() {
    assert!(cuda::is_available() && (!emulated() || cuda::device_count() == 2));
    copies();
    formulas();
    families();
    streams();
    memory();
    errors();
}
/// What needs a device: an emulated one (`FLAMBEAU_CUDA=emulated:2`), or a real one. One after the other: they count what went by way of
/// the CPU.
mod on_a_device {
    /// A test for each family.
    macro_rules! families {
        ($($name:ident)*) => {
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            #[ignore = "needs a device, emulated or real"]
            fn $name() {
                crate::$name::all();
            }
        )* };
    }
    families! {
        reductions products layers images attention halves places sorts random steps lists graphs host runtime external profiler apart
    }
}
fn copies() {
    let t = numbers(&[3, 4]);
    let x = there(&t);
    agree("there", &x, &t, 0.0);
    let turned = ops::t(&x).unwrap();
    agree("dense", &backend::matrices::rows(&turned).unwrap(), &ops::t(&t).unwrap(), 0.0);
    for d in [DType::F16, DType::BF16, DType::I32, DType::U8, DType::Bool, DType::F64, DType::F8E4M3] {
        let (a, b) =
            (Tensor::empty_raw(&[3, 4], d, Device::cuda(0)), Tensor::empty_raw(&[3, 4], d, Device::Cpu));
        let (a, b) = (a.unwrap(), b.unwrap());
        ops::copy_(&a, &x, false).unwrap();
        ops::copy_(&b, &t, false).unwrap();
        agree(&format!("{d}"), &a, &b, 0.0);
    }
    if cuda::device_count() > 1 {
        let second = backend::transfer::to_device(x.clone(), Device::cuda(1)).unwrap();
        assert_eq!(floats(&second), floats(&t));
    }
}
fn formulas() {
    let (t, u) = (numbers(&[3, 4]), numbers(&[4]));
    let (x, y) = (there(&t), there(&u));
    agree("add", &ops::add(&x, &y, 2.into()).unwrap(), &ops::add(&t, &u, 2.into()).unwrap(), 1e-6);
    agree("exp", &ops::exp(&x).unwrap(), &ops::exp(&t).unwrap(), 1e-6);
    agree("sin", &ops::sin(&x).unwrap(), &ops::sin(&t).unwrap(), 1e-6);
    agree("cos", &ops::cos(&x).unwrap(), &ops::cos(&t).unwrap(), 1e-6);
    agree("lgamma", &ops::lgamma(&x).unwrap(), &ops::lgamma(&t).unwrap(), 1e-5);
    agree("gt", &ops::gt(&x, &y).unwrap(), &ops::gt(&t, &u).unwrap(), 0.0);
    let number = Tensor::from_slice(&[2f32], [0i64; 0]);
    agree("0-d", &ops::mul(&x, &number).unwrap(), &ops::mul(&t, &number).unwrap(), 0.0);
    let (mask, other) = (ops::gt(&t, &u).unwrap(), ops::neg(&t).unwrap());
    let chosen = ops::where_(&there(&mask), &x, &there(&other)).unwrap();
    agree("where", &chosen, &ops::where_(&mask, &t, &other).unwrap(), 0.0);
}
fn families() {
    let (t, u) = (numbers(&[5, 7]), numbers(&[7, 9]));
    let (x, y) = (there(&t), there(&u));
    agree("mm", &ops::mm(&x, &y).unwrap(), &ops::mm(&t, &u).unwrap(), 1e-5);
    agree(
        "sum",
        &ops::sum(&x, Some(&[1]), false, None).unwrap(),
        &ops::sum(&t, Some(&[1]), false, None).unwrap(),
        1e-5,
    );
    agree("all", &ops::sum(&x, None, false, None).unwrap(), &ops::sum(&t, None, false, None).unwrap(), 1e-5);
    agree(
        "mean",
        &ops::mean(&x, Some(&[0]), true, None).unwrap(),
        &ops::mean(&t, Some(&[0]), true, None).unwrap(),
        1e-6,
    );
    agree(
        "prod",
        &ops::prod_dim(&x, 1, false, None).unwrap(),
        &ops::prod_dim(&t, 1, false, None).unwrap(),
        1e-5,
    );
    let soft = |t: &Tensor| ops::softmax_data(t, 1, false).unwrap();
    agree("softmax", &soft(&x), &soft(&t), 1e-6);
    let index = Tensor::from_slice(&[4i64, 0], 2);
    let picked = ops::index_select(&x, 0, &there(&index)).unwrap();
    agree("index_select", &picked, &ops::index_select(&t, 0, &index).unwrap(), 0.0);
    // no kernel of its own: by way of the CPU, counted
    let small = ops::abs(&t).unwrap();
    let by_cpu = ops::igamma(&there(&small), &there(&small)).unwrap();
    agree("igamma", &by_cpu, &ops::igamma(&small, &small).unwrap(), 1e-6);
    assert!(flambeau_cuda::fallbacks().contains_key("igamma"), "{:?}", flambeau_cuda::fallbacks());
    assert!(["add", "sin", "cos"].iter().all(|n| !flambeau_cuda::fallbacks().contains_key(n)));
}
fn streams() {
    let side = cuda::Stream::new();
    let x = there(&numbers(&[8]));
    let start = cuda::Event::with(true).unwrap();
    start.record(None);
    // the other stream waits for the first before it reads
    side.wait_event(&start);
    let y = cuda::stream(Some(&side), || ops::mul(&x, &x).unwrap());
    let end = side.record_event(Some(cuda::Event::with(true).unwrap()));
    let main = cuda::try_current_stream().unwrap();
    assert!(!emulated() || !side.query(), "the emulated device runs late");
    main.wait_event(&end);
    let t = numbers(&[8]);
    agree("streams", &y, &ops::mul(&t, &t).unwrap(), 0.0);
    end.synchronize();
    assert!(end.query() && start.elapsed_time(&end) >= 0.0);
}
fn memory() {
    let before = cuda::memory_allocated();
    let x = Tensor::empty_raw(&[1000], DType::F32, Device::cuda(0)).unwrap();
    assert_eq!(cuda::memory_allocated() - before, 4096);
    let stats = cuda::memory_stats();
    assert!(stats["segment.small_pool.current"] >= 1 && stats["reserved_bytes.all.current"] >= 2 << 20);
    drop(x);
    assert_eq!(cuda::memory_allocated(), before);
    let e = Tensor::empty_raw(&[1 << 40], DType::F32, Device::cuda(0)).unwrap_err();
    assert!(e.message().starts_with("CUDA out of memory. Tried to allocate 4096.00 GiB."), "{e}");
    assert_eq!(cuda::memory_stats()["num_ooms"], 1);
    cuda::empty_cache();
}
fn errors() {
    let x = there(&numbers(&[3, 4]));
    let e = ops::mul(&x, &numbers(&[3, 4])).unwrap_err();
    assert!(e.message().contains("at least two devices"), "{e}");
    let bad = there(&Tensor::from_slice(&[1i64, 7], 2));
    let y = ops::index_select(&x, 0, &bad).unwrap();
    let e = y.try_to_vec::<f32>().unwrap_err();
    assert_eq!(e.message(), "index_select(): index 7 is out of bounds for dimension 0 with size 3");
    // and the device goes on
    agree("after", &ops::neg(&x).unwrap(), &ops::neg(&numbers(&[3, 4])).unwrap(), 0.0);
    assert!(backend::synchronize(Device::cuda(77)).is_err());
}
