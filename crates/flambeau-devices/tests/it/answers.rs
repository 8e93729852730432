//! The answers of a library that was built without accelerators, by name and in Rust.

use flambeau_core::{Device, ErrorKind, Tensor, Value};
use flambeau_devices::{accelerator, backends, cpu, cuda, mps, mtia, stream, xpu};
use flambeau_library::{call, constant, method};
use flambeau_test_support::alone;

fn plain(path: &str) -> Value {
    call(path, &[], &[]).unwrap().remove(0)
}
fn refused(path: &str, args: &[Value]) -> (ErrorKind, String) {
    let e = call(path, args, &[]).unwrap_err();
    (e.kind(), e.message().to_string())
}

#[test]
fn what_is_not_there_says_so() {
    for device in ["cuda", "xpu", "mps", "mtia", "accelerator"] {
        assert!(matches!(plain(&format!("torch.{device}.is_available")), Value::Bool(false)), "{device}");
        assert!(matches!(plain(&format!("torch.{device}.device_count")), Value::Int(0)), "{device}");
    }
    assert!(matches!(plain("torch.cpu.is_available"), Value::Bool(true)));
    assert!(matches!(&plain("torch.cuda.memory_stats"), Value::Dict(d) if d.is_empty()));
    assert!(matches!(&plain("torch.cuda.get_rng_state_all"), Value::List(l) if l.is_empty()));
    assert!(!cuda::is_available() && !xpu::is_initialized() && cpu::device_count() == 1);
    assert_eq!(cuda::memory_allocated() + xpu::memory_reserved() + mtia::memory_allocated(), 0);
    assert!(accelerator::current_accelerator().is_none());
}

#[test]
fn errors_are_pytorchs() {
    let absent = (ErrorKind::Assertion, "Torch not compiled with CUDA enabled".to_string());
    for name in ["current_device", "synchronize", "init", "current_stream", "get_device_name", "mem_get_info"]
    {
        assert_eq!(refused(&format!("torch.cuda.{name}"), &[]), absent, "{name}");
    }
    assert_eq!(refused("torch.xpu.synchronize", &[]).1, "Torch not compiled with XPU enabled");
    assert_eq!(
        refused("torch.mps.current_allocated_memory", &[]),
        (ErrorKind::Runtime, "Cannot execute getCurrentAllocatedMemory() without MPS backend.".into())
    );
    assert_eq!(
        mtia::try_empty_cache().unwrap_err().message(),
        "Cannot execute emptyCache() without MTIA backend."
    );
    assert_eq!(mps::try_compile_shader("x".into()).unwrap_err().message(), "MPS is not available");
    assert_eq!(refused("torch.cuda.Event", &[]).1, "Tried to instantiate dummy base class Event");
    assert_eq!(
        cuda::Stream::try_new().unwrap_err().message(),
        "Tried to instantiate dummy base class Stream"
    );
    assert_eq!(
        refused("torch.cuda.nvtx.range_push", &["x".into()]).1,
        "NVTX functions not installed. Are you sure you have a CUDA build?"
    );
    assert_eq!(refused("torch.cuda.CUDAGraph", &[]).1, "Tried to instantiate dummy base class CUDAGraph");
    for name in ["MemPool", "get_sync_debug_mode", "memory._record_memory_history", "memory._dump_snapshot"] {
        assert_eq!(refused(&format!("torch.cuda.{name}"), &[]), absent, "{name}");
    }
    let files: Vec<Value> = ["a.so", "b", "c"].map(Value::from).into();
    assert_eq!(refused("torch.cuda.CUDAPluggableAllocator", &files), absent);
    assert_eq!(refused("torch.cuda.CUDAPluggableAllocator", &files[..2]).0, ErrorKind::Type);
    assert_eq!(refused("torch.cuda.change_current_allocator", &[Value::Int(1)]), absent);
    assert_eq!(refused("torch.cuda.ipc_collect", &[]), absent);
    assert!(call("torch.cuda.caching_allocator_enable", &[Value::Bool(false)], &[]).is_ok());
    let handle = [Value::Int(0), Value::List(vec![Value::Int(1); 64])];
    assert_eq!(
        refused("torch.cuda.Event.from_ipc_handle", &handle).1,
        "Tried to instantiate dummy base class Event"
    );
    let jitted = "template <typename T> T f(T x) { return x; }";
    let f = call("torch.cuda.jiterator._create_jit_fn", &[jitted.into()], &[]).unwrap().remove(0);
    let e = f.into_object().unwrap().call(&[Value::Tensor(Tensor::from_slice(&[1f32], 1))], &[]).unwrap_err();
    assert_eq!(e.message(), "Jiterator is only supported on CUDA and ROCm GPUs, none are available.");
    // there is no device that would read pinned memory
    const NONE: &str = "Cannot access accelerator device when none is available.";
    let pinned = [("pin_memory".to_string(), Value::Bool(true))];
    for name in ["torch.zeros", "torch.rand", "torch.empty"] {
        assert_eq!(call(name, &[Value::Int(2)], &pinned).unwrap_err().message(), NONE, "{name}");
    }
    let t = Tensor::from_slice(&[1f32], 1);
    assert!(!t.is_pinned());
    assert_eq!(t.try_pin_memory().unwrap_err().message(), NONE);
    let one = Value::List(vec![Value::Tensor(Tensor::from_slice(&[1f32], 1))]);
    assert_eq!(
        refused("torch.cuda.comm.reduce_add", &[one]),
        (ErrorKind::Assertion, "reduce_add expects all inputs to be on GPUs, but input 0 is on CPU".into())
    );
}

#[test]
fn arguments_are_checked_by_name() {
    let (kind, text) = refused("torch.cuda.manual_seed", &[]);
    assert_eq!(kind, ErrorKind::Type);
    assert_eq!(text, "manual_seed() missing 1 required positional argument: 'seed'");
    assert!(matches!(call("torch.cuda.manual_seed", &[Value::Int(3)], &[]).unwrap()[..], [Value::None]));
    assert_eq!(refused("torch.cuda.memory_allocated", &[Value::Float(0.5)]).0, ErrorKind::Type);
    assert!(call("torch.cuda.memory_allocated", &["cuda:0".into()], &[]).is_ok());
    assert_eq!(refused("torch.cuda.Event.query", &[Value::Int(1)]).0, ErrorKind::Type);
}

#[test]
fn pools_have_numbers_without_a_device() {
    let handle = |v: Vec<Value>| match &v[0] {
        Value::Tuple(l) => match l[..] {
            [Value::Int(a), Value::Int(b)] => (a, b),
            _ => panic!(),
        },
        _ => panic!(),
    };
    let one = handle(call("torch.cuda.graph_pool_handle", &[], &[]).unwrap());
    let two = handle(call("torch.cuda.graph_pool_handle", &[], &[]).unwrap());
    assert!(one.0 == 0 && two.0 == 0 && two.1 > one.1 && one.1 > 0);
    assert!(matches!(plain("torch.cuda.is_current_stream_capturing"), Value::Bool(false)));
    let snapshot = plain("torch.cuda.memory._snapshot");
    let Value::Dict(d) = &snapshot else { panic!() };
    let keys: Vec<&str> = d.iter().map(|(k, _)| k.as_str()).collect();
    let all = [
        "segments",
        "device_traces",
        "allocator_settings",
        "external_annotations",
        "host_segments",
        "host_traces",
    ];
    assert_eq!(keys, all);
}

#[test]
fn contexts_of_no_device_change_nothing() {
    let o = call("torch.cuda.device", &[Value::Int(0)], &[]).unwrap().remove(0).into_object().unwrap();
    let e = o.method("__enter__", &[], &[]).unwrap_err();
    assert_eq!(e.message(), "PyTorch was compiled without CUDA support");
    let t = Value::Tensor(Tensor::from_slice(&[1f32], 1));
    let o = call("torch.cuda.device_of", &[t], &[]).unwrap().remove(0).into_object().unwrap();
    o.method("__enter__", &[], &[]).unwrap();
    assert_eq!(cuda::device(-1i64, || 3), 3);
    assert_eq!(cuda::stream(None, || 4), 4);
}

#[test]
fn streams_and_events_of_the_cpu() {
    let s = stream::Stream::new(Device::Cpu);
    assert!(s.query());
    assert_eq!(s.try_record_event(None).unwrap_err().message(), "cpu backend doesn't support events.");
    let e = stream::Event::new(Device::Cpu, false);
    assert!(e.query());
    assert_eq!(
        e.try_elapsed_time(&e).unwrap_err().message(),
        "Both events must be created with argument 'enable_timing=True'."
    );
    let by_name = call("torch.Stream", &[Value::Device(Device::Cpu)], &[]).unwrap().remove(0);
    assert!(matches!(method(&by_name, "query", &[], &[]).unwrap(), Value::Bool(true)));
    let Value::Object(o) = &by_name else { panic!() };
    assert_eq!(o.repr(), "torch.Stream device_type=cpu, device_index=-1, stream_id=0");
    assert!(call("torch.Stream", &[], &[]).is_err());
}

#[test]
fn switches_are_set_and_read() {
    alone!();
    let read = |p: &str| constant(p).unwrap();
    assert!(matches!(read("torch.backends.cudnn.benchmark"), Value::Bool(false)));
    call("torch.backends.cudnn.benchmark.__set__", &[Value::Bool(true)], &[]).unwrap();
    assert!(backends::cudnn::benchmark());
    let e = call("torch.backends.cudnn.benchmark_limit.__set__", &["x".into()], &[]).unwrap_err();
    assert_eq!(e.message(), "set_benchmark_limit_cudnn expects an int, but got str");
    let e = call("torch.backends.cuda.matmul.allow_tf32.__set__", &[Value::Int(3)], &[]).unwrap_err();
    assert_eq!(e.message(), "set_allow_tf32_cublas expects a bool, but got int");
    // the same fact as the precision of products
    backends::cuda::matmul::set_allow_tf32(true);
    assert_eq!(flambeau_core::settings::get_float32_matmul_precision().name(), "high");
    flambeau_core::settings::set_float32_matmul_precision(flambeau_core::settings::MatmulPrecision::Highest);
    assert!(!backends::cuda::matmul::allow_tf32());
    assert_eq!(
        refused("torch.backends.cuda.preferred_linalg_library", &["foo".into()]).1,
        "Unknown input value. Choose from: default, cusolver, magma."
    );
    assert_eq!(backends::cuda::preferred_linalg_library(Some("magma")).unwrap(), "Magma");
    assert_eq!(backends::cuda::preferred_linalg_library(None).unwrap(), "Magma");
    let math = backends::cuda::math_sdp_enabled();
    backends::cuda::sdp_kernel(true, false, true, true, || assert!(!backends::cuda::math_sdp_enabled()));
    assert_eq!(backends::cuda::math_sdp_enabled(), math);
    let e = backends::mkl::verbose(backends::mkl::VERBOSE_ON, || ()).unwrap_err();
    assert!(e.message().starts_with("Failed to set MKL into verbose mode."));
    assert_eq!(cuda::tunable::get_max_tuning_duration(), 30);
}

#[test]
fn memory_is_filled_unless_told_otherwise() {
    alone!();
    use flambeau_core::settings::determinism as d;
    d::use_deterministic_algorithms(true, false);
    let filled = |t: Tensor| t.to_vec::<f32>().iter().all(|x| x.is_nan());
    assert!(filled(flambeau_core::functions::empty([4])));
    backends::deterministic::set_fill_uninitialized_memory(false);
    flambeau_core::functions::empty([4]);
    assert!(!backends::deterministic::fill_uninitialized_memory());
    d::use_deterministic_algorithms(false, false);
}
