//! The allocator's settings and history, calls that wait, streams of others, kernels of C++ text, what NVIDIA's management library
//! measures.

use crate::emulated::{agree, cast, emulated, floats, numbers, there};
use flambeau_core::{DType, Device, ErrorKind, Tensor, ops};
use flambeau_devices::cuda::{self, SyncDebugMode, jiterator};
use std::process::Command;

const MB: i64 = 1 << 20;
fn bytes(n: i64) -> Tensor {
    ops::empty(&[n], Some(DType::U8), None, Some(Device::cuda(0)), None, None).unwrap()
}
pub fn all() {
    settings();
    splits();
    rounding();
    growth();
    limits();
    history();
    waits();
    jitted();
    measured();
}
/// What PyTorch 2.15 says of these settings.
fn settings() {
    let refused = [
        ("max_split_size_mb:10", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
        ("max_split_size_mb:abc", "stoull"),
        ("max_split_size_mb=40", "Unrecognized key 'max_split_size_mb=40' in Accelerator allocator config."),
        ("foo:1", "Unrecognized key 'foo' in Accelerator allocator config."),
        ("garbage_collection_threshold:1.5", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
        ("garbage_collection_threshold:x", "stod"),
        ("roundup_power2_divisions:3", "For roundups, the divisions has to be power of 2 "),
        (
            "roundup_power2_divisions:[256:3]",
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ",
        ),
        ("roundup_power2_divisions:[255:4]", "For roundups, the intervals have to be power of 2 "),
        (
            "expandable_segments:true",
            "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'",
        ),
        (
            "max_non_split_rounding_mb:3",
            "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20",
        ),
        ("max_split_size_mb:40,,foo:1", "Unrecognized key ',' in Accelerator allocator config."),
        ("large_segment_size_mb:1", "CachingAllocator option large_segment_size_mb must be > 10 MB"),
        ("backend:foo", "Unknown allocator backend, options are native and cudaMallocAsync"),
        ("pinned_num_register_threads:3", "Number of register threads has to be power of 2, got 3"),
        (
            "pinned_num_register_threads:256",
            "Number of register threads should be less than or equal to 128, got 256",
        ),
        ("pinned_reserve_segment_size_mb:0", "Pinned reserve segment size has to be greater than 0"),
    ];
    for (text, said) in refused {
        let e = cuda::set_allocator_settings(text).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::Value, said), "{text}");
    }
    for text in [
        "",
        "max_split_size_mb:40,",
        "backend:native",
        "garbage_collection_threshold:0.5",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
        "roundup_power2_divisions:[256:0,>:0]",
        "roundup_power2_divisions:4 , max_split_size_mb: 40",
        "pinned_use_background_threads:False",
        "large_segment_size_mb:32",
    ] {
        cuda::set_allocator_settings(text).unwrap();
    }
    let missing = ["backend:cudaMallocAsync", "pinned_use_background_threads:True"];
    for text in missing {
        assert_eq!(cuda::set_allocator_settings(text).unwrap_err().kind(), ErrorKind::Missing, "{text}");
    }
    cuda::set_allocator_settings("").unwrap();
}
fn begin(text: &str) {
    cuda::synchronize();
    cuda::empty_cache();
    cuda::set_allocator_settings(text).unwrap();
}
fn splits() {
    begin("max_split_size_mb:32,large_segment_size_mb:24");
    let stat = |k: &str| cuda::memory_stats()[k];
    let (reserved, segments) = (cuda::memory_reserved(), stat("segment.all.current"));
    let big = bytes(40 * MB);
    assert_eq!((stat("oversize_allocations.current"), stat("oversize_segments.current")), (1, 1));
    assert_eq!(stat("max_split_size"), 32 * MB);
    drop(big);
    // a block that is never cut serves no smaller request, and one that is nearly as large
    let small = bytes(2 * MB);
    assert_eq!(cuda::memory_reserved() - reserved, (40 + 24) * MB);
    let again = bytes(36 * MB);
    assert_eq!(stat("segment.all.current") - segments, 2);
    drop((small, again));
    begin("");
}
fn rounding() {
    begin("roundup_power2_divisions:[1:4,2:1,>:8]");
    for (asked, got) in [(MB + 300_000, MB + 512 * 1024), (2 * MB + 1, 2 * MB + MB / 4), (300, 512)] {
        let before = cuda::memory_allocated();
        let t = bytes(asked);
        assert_eq!(cuda::memory_allocated() - before, got, "{asked}");
        drop(t);
    }
    // sizes from 4 MB on are multiples of an eighth of a power of two
    let before = cuda::memory_allocated();
    let t = bytes(4 * MB + 1);
    assert_eq!(cuda::memory_allocated() - before, 4 * MB + MB / 2);
    drop(t);
    begin("");
}
/// One segment grows for blocks of all sizes, and shrinks again.
fn growth() {
    begin("expandable_segments:True");
    let stat = |k: &str| cuda::memory_stats()[k];
    let (reserved, segments) = (cuda::memory_reserved(), stat("segment.all.current"));
    let x = ops::full(&[5 * MB], 3.0.into(), Some(DType::F32), None, Some(Device::cuda(0)), None).unwrap();
    let y = ops::full(&[7 * MB], 4.0.into(), Some(DType::F32), None, Some(Device::cuda(0)), None).unwrap();
    assert_eq!(stat("segment.all.current") - segments, 1);
    assert_eq!(cuda::memory_reserved() - reserved, 60 * MB);
    // the gap and what grows behind it serve a block that is larger than both
    drop(y);
    let z = ops::full(&[12 * MB], 5.0.into(), Some(DType::F32), None, Some(Device::cuda(0)), None).unwrap();
    assert_eq!((cuda::memory_reserved() - reserved, stat("segment.all.current") - segments), (80 * MB, 1));
    assert_eq!((floats(&ops::sum(&x, None, false, None).unwrap())[0]), 15.0 * MB as f64);
    assert_eq!((floats(&ops::sum(&z, None, false, None).unwrap())[0]), 60.0 * MB as f64);
    let small: Vec<Tensor> = (0..3).map(|i| bytes(1000 + i)).collect();
    // small blocks have a segment of their own, or lie in one that a test before this left in use
    assert!((1..=2).contains(&(stat("segment.all.current") - segments)));
    assert!(cuda::memory_snapshot().len() >= 2);
    drop((z, small));
    cuda::empty_cache();
    assert_eq!((cuda::memory_reserved() - reserved, stat("segment.all.current") - segments), (20 * MB, 1));
    assert_eq!(floats(&ops::sum(&x, None, false, None).unwrap())[0], 15.0 * MB as f64);
    drop(x);
    begin("");
    assert_eq!((cuda::memory_reserved(), stat("segment.all.current")), (reserved, segments));
}
fn limits() {
    begin("garbage_collection_threshold:0.5");
    let total = cuda::mem_get_info().1;
    let kept = cuda::memory_reserved();
    cuda::set_per_process_memory_fraction((kept + 160 * MB) as f64 / total as f64);
    let blocks: Vec<Tensor> = (0..4).map(|_| bytes(30 * MB)).collect();
    drop(blocks);
    assert_eq!(cuda::memory_reserved() - kept, 120 * MB);
    // more than half of what is allowed is reserved: what is free goes back before more is taken
    let t = bytes(34 * MB);
    assert!(cuda::memory_reserved() - kept <= (80 + 34) * MB, "{}", cuda::memory_reserved() - kept);
    drop(t);
    let retries = cuda::memory_stats()["num_alloc_retries"];
    let e = ops::empty(&[200 * MB], Some(DType::U8), None, Some(Device::cuda(0)), None, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    assert!(
        e.message().starts_with("CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total"),
        "{e}"
    );
    assert!(e.message().contains("MiB allowed; Of the allocated memory"), "{e}");
    assert_eq!(cuda::memory_stats()["num_alloc_retries"], retries + 1);
    cuda::set_per_process_memory_fraction(1.0);
    begin("");
}
/// What was done, in a file that PyTorch's viewer opens.
fn history() {
    begin("");
    cuda::record_memory_history(&cuda::HistoryOptions::new().max_entries(1000)).unwrap();
    let x = bytes(3 * MB);
    drop(bytes(100));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    cuda::dump_snapshot(&path).unwrap();
    cuda::record_memory_history(&cuda::HistoryOptions::new().enabled(None).unwrap()).unwrap();
    drop(x);
    let Ok(python) = std::env::var("FLAMBEAU_PYTHON") else { return };
    let text = r#"
import pickle, sys
from torch.cuda import _memory_viz as v
s = pickle.load(open(sys.argv[1], "rb"))
t = s["device_traces"][0]
assert [e["action"] for e in t].count("alloc") == 2, t
assert [e["action"] for e in t][-2:] == ["free_requested", "free_completed"], t
used = [b for g in s["segments"] for b in g["blocks"] if b["state"] == "active_allocated"]
own = [b for b in used if b["requested_size"] == 3 << 20]
assert len(own) == 1 and any("history" in f["name"] for f in own[0]["frames"]), own
assert all(sum(b["size"] for b in g["blocks"]) == g["total_size"] for g in s["segments"])
v.segsum(s); v.trace(s); v.segment_plot(s); v.trace_plot(s)
"#;
    let out = Command::new(python).args(["-c", text]).arg(&path).output().unwrap();
    if String::from_utf8_lossy(&out.stderr).contains("No module named 'torch'") {
        return;
    }
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
fn waits() {
    let x = there(&numbers(&[3]));
    assert_eq!(cuda::get_sync_debug_mode(), 0);
    cuda::set_sync_debug_mode(SyncDebugMode::ERROR);
    let e = x.try_to_vec::<f32>().unwrap_err();
    let y = ops::mul(&x, &x);
    cuda::set_sync_debug_mode(SyncDebugMode::DEFAULT);
    assert_eq!(e.message(), "called a synchronizing CUDA operation");
    assert_eq!(floats(&y.unwrap()).len(), 3);
}
fn jitted() {
    let text = "template <typename T> T util_fn(T x, T y) { return ::sin(x) + ::cos(y); }
        template <typename T> T my_kernel(T x, T y, T val) { return ::min(val, util_fn(x, y)); }";
    let f = jiterator::try_create_jit_fn(text, &[("val", 0.5.into())]).unwrap();
    assert_eq!(f.name(), "my_kernel");
    let (t, u) = (numbers(&[4, 1, 6]), numbers(&[3, 6]));
    let want = |most: f64| {
        let sum = ops::add(&ops::sin(&t).unwrap(), &ops::cos(&u).unwrap(), 1.into()).unwrap();
        ops::clamp(&sum, None, Some(most.into())).unwrap()
    };
    let (x, y) = (there(&t), there(&u));
    for (given, most) in [(vec![], 0.5), (vec![("val", 1.25.into())], 1.25)] {
        agree("jit", &f.try_call(&[&x, &y], &given).unwrap()[0], &want(most), 1e-6);
    }
    let turned = there(&ops::t(&numbers(&[6, 3])).unwrap());
    let half = cast(&turned, DType::F16);
    let text = "template <typename T> void both(T x, T y, T alpha, T& sum, T& difference) { sum = x + alpha * y; difference = x - y; }";
    let f = jiterator::try_create_multi_output_jit_fn(text, 2, &[("alpha", 2.into())]).unwrap();
    let out = f.try_call(&[&half, &cast(&turned, DType::F16)], &[]).unwrap();
    let own = cast(&ops::t(&numbers(&[6, 3])).unwrap(), DType::F16);
    agree("sum", &out[0], &ops::mul(&own, &Tensor::from_slice(&[3f32], [0i64; 0])).unwrap(), 2e-3);
    assert!(floats(&out[1]).iter().all(|v| *v == 0.0));
    let whole = there(&Tensor::from_slice(&[1i64, -7, 9], 3));
    let text = "template <typename T> T odd(T x) { return x % 2 != 0 ? x : T(0); }";
    let out = jiterator::try_create_jit_fn(text, &[]).unwrap().try_call(&[&whole], &[]).unwrap();
    assert_eq!((out[0].dtype(), floats(&out[0])), (DType::I64, vec![1.0, -7.0, 9.0]));
    let e = f.try_call(&[&x], &[("beta", 1.into())]).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Index, "beta is not declared in function definition"));
    let wrong = jiterator::try_create_jit_fn("template <typename T> T f(T x) { return y; }", &[]).unwrap();
    assert!(wrong.try_call(&[&x], &[]).is_err());
    assert!(jiterator::try_create_jit_fn("T f(T x) { return x; }", &[]).is_err());
}
/// On a device NVIDIA's library answers; without one PyTorch's error says what is missing.
fn measured() {
    match cuda::try_temperature() {
        Ok(degrees) => {
            assert!((1..150).contains(&degrees), "{degrees}");
            assert!(
                (0..=100).contains(&cuda::utilization()) && cuda::power_draw() > 0 && cuda::clock_rate() > 0
            );
            assert!(cuda::device_memory_used() > 0);
            assert!(cuda::list_gpu_processes().starts_with("GPU:0\n"));
        }
        Err(e) => {
            let none = "nvidia-ml-py does not seem to be installed or it can't be imported.";
            assert_eq!((emulated(), e.message()), (true, none));
            assert!(cuda::list_gpu_processes().starts_with("pynvml module not found"));
        }
    }
}
