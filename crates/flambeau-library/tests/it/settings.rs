//! Settings of the library, generators and old tensor types, by name and in Rust.

use flambeau_core::api::literal;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::determinism::{self, DeterministicMode};
use flambeau_core::settings::{get_default_device, set_default_device};
use flambeau_core::tensor::generator::{
    default_generator, fork_rng, get_rng_state, manual_seed, set_rng_state,
};
use flambeau_core::{DType, Device, ErrorKind, Generator, Tensor, Value, functions as torch};
use flambeau_library::{call_value, method, repr};
use flambeau_test_support::alone;

fn call(path: &str, args: &[Value]) -> Value {
    call_value(path, args, &[]).unwrap()
}

fn fails(path: &str, args: &[Value]) -> String {
    call_value(path, args, &[]).unwrap_err().to_string()
}

fn text(v: &Value) -> String {
    repr(v).unwrap()
}

fn tensor(t: Tensor) -> Value {
    Value::Tensor(t)
}

fn s(t: &str) -> Value {
    Value::Str(t.into())
}

#[test]
fn the_default_device() {
    alone!();
    set_default_device(Device::Meta);
    let made = [
        torch::ones([2]),
        torch::rand([2]),
        torch::arange(3),
        literal::tensor([1.0]),
        torch::hann_window(4, true),
    ];
    let by_name =
        [call("torch.zeros", &[Value::Int(2)]), call("torch.tensor", &[Value::List(vec![Value::Int(1)])])];
    let here = torch::ones_with([2], Device::Cpu);
    let like = torch::ones_like(&here);
    set_default_device(None);
    assert!(made.iter().all(|t| t.device() == Device::Meta));
    assert!(by_name.iter().all(|v| matches!(v, Value::Tensor(t) if t.device() == Device::Meta)));
    assert_eq!((here.device(), like.device()), (Device::Cpu, Device::Cpu));
    assert_eq!(get_default_device(), Device::Cpu);
    call("torch.set_default_device", &[s("meta")]);
    assert_eq!(text(&call("torch.get_default_device", &[])), "device(type='meta')");
    // other threads have their own
    assert_eq!(std::thread::spawn(|| torch::ones([1]).device()).join().unwrap(), Device::Cpu);
    call("torch.set_default_device", &[Value::None]);
    assert_eq!(torch::ones([1]).device(), Device::Cpu);
}

#[test]
fn deterministic_mode_refuses_and_fills() {
    alone!();
    let x = torch::ones([2]);
    let (i, v) = (literal::tensor([0i64]), literal::tensor([1.0f32]));
    call("torch.use_deterministic_algorithms", &[Value::Bool(true)]);
    let put = flambeau_core::ops::put_(&x, &i, &v, false);
    let accumulated = flambeau_core::ops::put_(&x, &i, &v, true);
    let filled = [
        torch::empty([2]).to_string(),
        torch::empty_like(&x).to_string(),
        torch::empty_with([1], DType::I8).to_string(),
        torch::empty_with([1], DType::U64).to_string(),
        torch::empty_with([1], DType::Bool).to_string(),
    ];
    let mode = text(&call("torch.get_deterministic_debug_mode", &[]));
    determinism::set_deterministic_debug_mode(DeterministicMode::Default);
    assert!(
        put.unwrap_err()
            .to_string()
            .starts_with("put_ does not have a deterministic implementation, but you set")
    );
    assert!(accumulated.is_ok());
    assert_eq!(filled[0], "tensor([nan, nan])");
    assert_eq!(filled[1], "tensor([nan, nan])");
    assert_eq!(filled[2], "tensor([127], dtype=torch.int8)");
    assert_eq!(filled[3], "tensor([18446744073709551615], dtype=torch.uint64)");
    assert_eq!(filled[4], "tensor([True])");
    assert_eq!(mode, "2");
    call("torch.set_deterministic_debug_mode", &[s("warn")]);
    assert!(determinism::is_deterministic_algorithms_warn_only_enabled());
    let warned = flambeau_core::ops::put_(&x, &i, &v, false);
    call("torch.set_deterministic_debug_mode", &[Value::Int(0)]);
    assert!(warned.is_ok() && !determinism::are_deterministic_algorithms_enabled());
    let e = fails("torch.set_deterministic_debug_mode", &[s("x")]);
    assert_eq!(e, "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got x");
}

#[test]
fn small_settings() {
    alone!();
    call("torch.set_float32_matmul_precision", &[s("high")]);
    assert_eq!(text(&call("torch.get_float32_matmul_precision", &[])), "'high'");
    call("torch.set_float32_matmul_precision", &[s("highest")]);
    assert!(call_value("torch.set_float32_matmul_precision", &[s("x")], &[]).is_err());
    call("torch.set_default_tensor_type", &[s("torch.DoubleTensor")]);
    let double = torch::ones([1]).dtype();
    call("torch.set_default_tensor_type", &[s("torch.FloatTensor")]);
    assert_eq!(double, DType::F64);
    assert!(call_value("torch.set_default_tensor_type", &[s("torch.LongTensor")], &[]).is_err());
    call("torch.set_warn_always", &[Value::Bool(true)]);
    assert_eq!(text(&call("torch.is_warn_always_enabled", &[])), "True");
    call("torch.set_warn_always", &[Value::Bool(false)]);
    let can = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    assert_eq!(
        text(&call("torch.set_flush_denormal", &[Value::Bool(true)])),
        if can { "True" } else { "False" }
    );
    call("torch.set_flush_denormal", &[Value::Bool(false)]);
    assert_eq!(fails("torch._assert", &[Value::Bool(false), s("m")]), "m");
    assert_eq!(text(&call("torch._assert", &[Value::Bool(true), s("m")])), "None");
    assert!(text(&call("torch.__config__.show", &[])).contains("built with"));
    assert!(text(&call("torch.__config__.parallel_info", &[])).contains("get_num_threads"));
}

#[test]
fn shapes_together() {
    let shape = |l: &[i64]| Value::Tuple(l.iter().map(|n| Value::Int(*n)).collect());
    let r = call("torch.broadcast_shapes", &[shape(&[2]), shape(&[3, 1]), shape(&[1, 1, 1])]);
    assert_eq!(text(&r), "torch.Size([1, 3, 2])");
    assert_eq!(text(&call("torch.broadcast_shapes", &[])), "torch.Size([])");
    assert_eq!(
        fails("torch.broadcast_shapes", &[shape(&[2]), shape(&[3])]),
        "Attempting to broadcast a dimension of length 3 at -1! Mismatching argument at index 1 had (3,); but expected \
         shape should be broadcastable to [2]"
    );
    assert!(
        fails("torch.broadcast_shapes", &[Value::Int(2), Value::Float(3.5)])
            .ends_with("list of ints, got 3.5")
    );
}

#[test]
fn generators_by_name() {
    let g = call("torch.Generator", &[]);
    assert_eq!(text(&method(&g, "initial_seed", &[], &[]).unwrap()), "67280421310721");
    method(&g, "manual_seed", &[Value::Int(7)], &[]).unwrap();
    let state = method(&g, "get_state", &[], &[]).unwrap();
    let Value::Tensor(t) = &state else { panic!("{state:?}") };
    assert_eq!((t.sizes(), t.dtype()), (&[5056i64][..], DType::U8));
    let draw = |g: &Value| {
        let kwargs = [("generator".to_string(), g.clone())];
        text(&call_value("torch.rand", &[Value::Int(3)], &kwargs).unwrap())
    };
    let first = draw(&g);
    let copy = method(&g, "clone_state", &[], &[]).unwrap();
    let second = draw(&g);
    assert_eq!(draw(&copy), second);
    method(&g, "set_state", &[state], &[]).unwrap();
    assert_eq!(draw(&g), first);
    let wrong = |v: Value| method(&g, "set_state", &[v], &[]).unwrap_err().to_string();
    assert_eq!(
        wrong(tensor(torch::zeros_with([3], DType::U8))),
        "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 3"
    );
    assert_eq!(wrong(tensor(torch::zeros([5056]))), "RNG state must be a torch.ByteTensor");
    assert_eq!(wrong(tensor(torch::zeros_with([5056], DType::U8))), "Invalid mt19937 state");
    assert_eq!(wrong(s("a")), "expected a torch.ByteTensor, but got str");
    assert_eq!(call_value("torch.Generator", &[s("meta")], &[]).unwrap_err().kind(), ErrorKind::Device);
    assert!(matches!(call("torch.seed", &[]), Value::Int(_) | Value::Float(_)));
}

#[test]
fn the_default_generator_forks() {
    alone!();
    manual_seed(3);
    let inside = fork_rng(|| torch::rand([4]).to_vec::<f32>());
    assert_eq!(torch::rand([4]).to_vec::<f32>(), inside);
    let state = get_rng_state().unwrap();
    let next = torch::randn([5]).to_vec::<f32>();
    set_rng_state(&state).unwrap();
    assert_eq!(torch::randn([5]).to_vec::<f32>(), next);
    assert_eq!(*default_generator(), manual_seed(3));
    assert_eq!(Generator::new().manual_seed(-1i64 as u64).initial_seed(), u64::MAX);
}

#[test]
fn old_tensor_types() {
    let shape = |v: &Value| match v {
        Value::Tensor(t) => (t.sizes().to_vec(), t.dtype()),
        v => panic!("{v:?}"),
    };
    assert_eq!(shape(&call("torch.FloatTensor", &[Value::Int(2), Value::Int(3)])), (vec![2, 3], DType::F32));
    assert_eq!(shape(&call("torch.FloatTensor", &[])), (vec![0], DType::F32));
    let l = call("torch.LongTensor", &[Value::List(vec![Value::Int(1), Value::Int(2)])]);
    assert_eq!(text(&l), "tensor([1, 2])");
    let x = torch::ones([2]);
    let same = call("torch.FloatTensor", &[tensor(x.clone())]);
    assert!(matches!(&same, Value::Tensor(t) if t.data_ptr().unwrap() == x.data_ptr().unwrap()));
    assert!(call_value("torch.LongTensor", &[tensor(x)], &[]).is_err());
    assert_eq!(fails("torch.FloatTensor", &[s("a")]), "new(): invalid data type 'str'");
    assert_eq!(
        call_value("torch.cuda.FloatTensor", &[Value::Int(2)], &[]).unwrap_err().kind(),
        ErrorKind::Device
    );
    assert!(fails("torch.ByteTensor", &[Value::List(vec![Value::Int(300)])]).contains("without overflow"));
}

#[test]
fn what_a_tensor_knows_of_itself() {
    let x = tensor(torch::ones([2, 3]));
    let ask = |n: &str| text(&method(&x, n, &[], &[]).unwrap());
    for (name, want) in [
        ("is_cpu", "True"),
        ("is_cuda", "False"),
        ("is_meta", "False"),
        ("is_quantized", "False"),
        ("is_sparse", "False"),
        ("is_pinned", "False"),
        ("is_shared", "False"),
        ("is_leaf", "True"),
        ("get_device", "-1"),
        ("dim_order", "(0, 1)"),
        ("storage_type", "'torch.FloatStorage'"),
    ] {
        assert_eq!(ask(name), want, "{name}");
    }
    assert_eq!(torch::ones([1, 2, 3, 4]).permute([0, 2, 3, 1]).dim_order(), [0, 3, 1, 2]);
    assert!(matches!(method(&x, "cpu", &[], &[]), Ok(Value::Tensor(_))));
    assert_eq!(method(&x, "cuda", &[], &[]).unwrap_err().kind(), ErrorKind::Device);
    let meta = tensor(torch::ones_with([2], Device::Meta));
    assert!(
        method(&meta, "cpu", &[], &[]).unwrap_err().to_string().starts_with("Cannot copy out of meta tensor")
    );
    let data = method(&x, "data", &[], &[]).unwrap();
    let (Value::Tensor(a), Value::Tensor(b)) = (&x, &data) else { panic!() };
    assert!(a.storage().same(b.storage()) && !b.requires_grad());
}
