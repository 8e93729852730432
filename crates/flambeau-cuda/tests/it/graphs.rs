//! Graphs: what a stream records runs again with other inputs, other random numbers and its own memory; what is not allowed
//! meanwhile; pools.

use crate::emulated::{agree, emulated, floats, numbers, there};
use flambeau_autograd::engine::GradOptions;
use flambeau_autograd::grad_fn::try_grad;
use flambeau_autograd::no_grad;
use flambeau_core::types::generator::{Generator, manual_seed};
use flambeau_core::{DType, Device, ErrorKind, Result, Tensor, ops};
use flambeau_devices::backends::cudnn;
use flambeau_devices::cuda::{self, CUDAGraph, CaptureMode, GraphOptions, GraphedOptions, MemPool};

fn fresh(sizes: &[i64], v: f64) -> Tensor {
    ops::full(sizes, v.into(), Some(DType::F32), None, Some(Device::cuda(0)), None).unwrap()
}
pub fn all() {
    again();
    numbers_of_the_host();
    convolutions();
    training();
    random();
    forks();
    memory();
    pools();
    callables();
    pictures();
    refusals();
}
/// Inputs are read anew at each run, on whatever stream, also by a graph that outlives those who made them.
fn again() {
    let x = fresh(&[3, 40], 1.0);
    let g = CUDAGraph::new();
    assert!(!cuda::is_current_stream_capturing());
    let y = cuda::graph(&g, || {
        assert!(cuda::is_current_stream_capturing());
        let y = ops::mul(&x, &x).unwrap();
        ops::add(&y, &x, 1.into()).unwrap()
    });
    assert!(!cuda::is_current_stream_capturing());
    for v in [2.0, -3.0] {
        ops::fill_(&x, v.into()).unwrap();
        g.replay();
        assert_eq!(floats(&y), vec![v * v + v; 120]);
    }
    let side = cuda::Stream::new();
    ops::fill_(&x, 5.0.into()).unwrap();
    side.wait_stream(&cuda::current_stream());
    cuda::stream(Some(&side), || g.replay());
    cuda::current_stream().wait_stream(&side);
    assert_eq!(floats(&y)[0], 30.0);
    // what it reads stays as long as the graph
    ops::fill_(&x, 4.0.into()).unwrap();
    drop(x);
    cuda::empty_cache();
    let others: Vec<Tensor> = (0..20).map(|_| fresh(&[3, 40], 9.0)).collect();
    g.replay();
    assert_eq!(floats(&y)[7], 20.0);
    drop(others);
    g.reset();
    let e = g.try_replay().unwrap_err();
    assert_eq!(e.message(), "Called CUDAGraph::replay without a preceding successful capture.");
}
/// Numbers that kernels read from the host: in the graph, and for those who come after it.
fn numbers_of_the_host() {
    let x = fresh(&[8], 2.0);
    let number = |v: f64| Tensor::from_slice(&[v], [0i64; 0]);
    let g = CUDAGraph::new();
    let y =
        cuda::graph(&g, || ops::mul(&ops::add(&x, &number(0.625), 1.into()).unwrap(), &number(3.5)).unwrap());
    let eager = ops::add(&x, &number(0.625), 1.into()).unwrap();
    assert_eq!(floats(&eager), [2.625; 8]);
    g.replay();
    assert_eq!(floats(&y), [2.625 * 3.5; 8]);
    // a table that a kernel asks for is sent at each run
    let image = there(&numbers(&[1, 2, 6, 6]));
    let resized = |t: &Tensor| {
        flambeau_nn_functional::ops::resample(t, 2, 9, "linear", false, false, None, None).unwrap()
    };
    let want = resized(&numbers(&[1, 2, 6, 6]));
    let g = CUDAGraph::new();
    let z = cuda::graph(&g, || resized(&image));
    for _ in 0..2 {
        g.replay();
        agree("resized", &z, &want, 1e-6);
    }
}
/// Convolutions and their gradients, by a library that works in memory of the graph's pool, also where they are met first while a
/// stream records and while others are timed.
fn convolutions() {
    use flambeau_nn_functional::ops as nn;
    cudnn::set_allow_tf32(false);
    let inputs = [numbers(&[2, 16, 12, 12]), numbers(&[24, 16, 3, 3]), numbers(&[2, 24, 12, 12])];
    let all = |t: &[Tensor; 3]| {
        let [x, w, g] = t;
        let one = [1, 1];
        vec![
            nn::convolution(x, w, None, &one, &one, &one, false, &[0, 0], 1).unwrap(),
            nn::convolution_input_grad(g, w, x.sizes(), &one, &one, &one, 1).unwrap(),
            nn::convolution_weight_grad(g, x, w.sizes(), &one, &one, &one, 1).unwrap(),
        ]
    };
    let want = all(&inputs);
    let near = |got: &[Tensor]| {
        got.iter().zip(&want).for_each(|(got, want)| agree("a convolution of a graph", got, want, 1e-3));
    };
    for benchmark in [false, true] {
        cudnn::set_benchmark(benchmark);
        let moved = inputs.each_ref().map(there);
        let g = CUDAGraph::new();
        let recorded = cuda::graph(&g, || all(&moved));
        g.replay();
        near(&recorded);
        near(&all(&moved));
        moved.iter().for_each(|t| ops::fill_(t, 0.0.into()).unwrap());
        g.replay();
        recorded.iter().for_each(|t| assert!(floats(t).iter().all(|v| *v == 0.0)));
    }
    cudnn::set_benchmark(false);
}
/// One step: forward, backward and the optimizer.
fn step(w: &[Tensor; 2], velocity: &[Tensor; 2], x: &Tensor, y: &Tensor) -> Tensor {
    let hidden = ops::tanh(&ops::mm(x, &w[0]).unwrap()).unwrap();
    let d = ops::sub(&ops::mm(&hidden, &w[1]).unwrap(), y, 1.into()).unwrap();
    let loss = ops::mean(&ops::mul(&d, &d).unwrap(), None, false, None).unwrap();
    let grads = try_grad([&loss], [&w[0], &w[1]], GradOptions::new()).unwrap();
    let grads: Vec<Tensor> = grads.into_iter().map(Option::unwrap).collect();
    no_grad(|| {
        flambeau_optim::ops::fused_sgd_(
            w, &grads, velocity, 0.0, 0.9, 0.1, 0.0, false, false, false, None, None,
        )
        .unwrap();
    });
    loss.detach()
}
fn training() {
    let data = |i: i64| {
        (
            ops::mul(&numbers(&[16, 5]), &Tensor::from_slice(&[i as f32], [0i64; 0])).unwrap(),
            numbers(&[16, 2]),
        )
    };
    let made = |to: &dyn Fn(&Tensor) -> Tensor| {
        let w = [numbers(&[5, 7]), numbers(&[7, 2])].map(|t| to(&t).requires_grad_(true));
        let v = [[5, 7], [7, 2]].map(|s| to(&ops::zeros(&s, None, None, None, None).unwrap()));
        (w, v)
    };
    let (w, v) = made(&|t| t.clone());
    let want: Vec<f64> = (1..6).map(|i| floats(&step(&w, &v, &data(i).0, &data(i).1))[0]).collect();
    let (w2, v2) = made(&there);
    let (x, y) = (there(&data(1).0), there(&data(1).1));
    // the first steps make what is made once, on a stream of their own
    let side = cuda::Stream::new();
    let first = cuda::stream(Some(&side), || {
        side.wait_stream(&cuda::try_default_stream().unwrap());
        step(&w2, &v2, &x, &y)
    });
    cuda::synchronize();
    let mut got = vec![floats(&first)[0]];
    let g = CUDAGraph::new();
    let loss = cuda::graph(&g, || step(&w2, &v2, &x, &y));
    for i in 2..6 {
        ops::copy_(&x, &data(i).0, false).unwrap();
        g.replay();
        got.push(floats(&loss)[0]);
    }
    for (a, b) in got.iter().zip(&want) {
        assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{got:?} {want:?}");
    }
    for (a, b) in w2.iter().zip(&w) {
        agree("weights", &a.detach(), &b.detach(), 1e-5);
    }
}
/// Each run draws what a call would draw then, also of a generator of one's own.
fn random() {
    let g2 = Generator::new();
    let draw = |t: &[Tensor; 3]| {
        ops::uniform_(&t[0], 0.0, 1.0, None).unwrap();
        ops::normal_(&t[1], 0.0, 1.0, None).unwrap();
        ops::uniform_(&t[2], 0.0, 1.0, Some(&g2)).unwrap();
    };
    let t = [fresh(&[1000], 0.0), fresh(&[700], 0.0), fresh(&[10], 0.0)];
    let read = || t.iter().flat_map(floats).collect::<Vec<f64>>();
    manual_seed(11);
    g2.manual_seed(5);
    let want: Vec<Vec<f64>> = (0..3)
        .map(|_| {
            draw(&t);
            read()
        })
        .collect();
    assert_ne!(want[0], want[1]);
    let g = CUDAGraph::new();
    cuda::graph(&g, || draw(&t));
    manual_seed(11);
    g2.manual_seed(5);
    for w in &want[..2] {
        g.replay();
        assert_eq!(&read(), w);
    }
    // and a call after it goes on where it stopped
    draw(&t);
    assert_eq!(read(), want[2]);
    let mut state = cuda::get_rng_state().try_to_vec::<u8>().unwrap();
    state[8] |= 1;
    let odd = Tensor::from_slice(&state, [16]);
    let before = cuda::get_rng_state();
    cuda::set_rng_state(odd);
    assert_eq!(floats(&cuda::get_rng_state()), floats(&before), "offsets are multiples of 4");
}
/// Work of a second stream is part of the graph where events join it.
fn forks() {
    let x = fresh(&[500], 3.0);
    let (g, other) = (CUDAGraph::new(), cuda::Stream::new());
    let y = cuda::graph(&g, || {
        let main = cuda::current_stream();
        let y = ops::mul(&x, &x).unwrap();
        other.wait_stream(&main);
        let z = cuda::stream(Some(&other), || {
            assert!(cuda::is_current_stream_capturing());
            ops::add(&y, &x, 1.into()).unwrap()
        });
        let v = ops::sub(&y, &x, 1.into()).unwrap();
        main.wait_stream(&other);
        ops::mul(&z, &v).unwrap()
    });
    for v in [2.0, 5.0] {
        ops::fill_(&x, v.into()).unwrap();
        g.replay();
        assert_eq!(floats(&y), vec![(v * v + v) * (v * v - v); 500]);
    }
    // what does not join it is an error
    let g = CUDAGraph::new();
    let e = cuda::try_graph(&g, GraphOptions::new(), || {
        other.wait_stream(&cuda::current_stream());
        cuda::stream(Some(&other), || ops::mul(&x, &x).unwrap())
    });
    assert_eq!(e.unwrap_err().message(), "CUDA error: capturing stream has unjoined work");
    assert_eq!(floats(&ops::add(&x, &x, 1.into()).unwrap())[0], 10.0);
}
/// Memory of a graph is nobody else's until it is reset.
fn memory() {
    cuda::synchronize();
    cuda::empty_cache();
    let reserved = cuda::memory_reserved();
    let x = fresh(&[1 << 20], 1.0);
    let before = cuda::memory_reserved();
    let g = CUDAGraph::new();
    let y = cuda::graph(&g, || {
        let t = ops::mul(&x, &x).unwrap();
        ops::add(&t, &x, 1.into()).unwrap()
    });
    assert!(cuda::memory_reserved() > before);
    let held = cuda::memory_reserved();
    cuda::empty_cache();
    assert_eq!(cuda::memory_reserved(), held, "a graph's pool is not given back");
    // tensors that were dropped while it was recorded are written again at each run
    let others: Vec<Tensor> = (0..3).map(|_| fresh(&[1 << 20], 7.0)).collect();
    g.replay();
    assert_eq!(floats(&y)[99], 2.0);
    assert!(others.iter().all(|t| floats(t)[99] == 7.0));
    drop((x, y, others));
    g.reset();
    cuda::empty_cache();
    assert!(cuda::memory_reserved() <= reserved, "{} {reserved}", cuda::memory_reserved());
}
fn pools() {
    let pool = MemPool::new();
    assert!(pool.id().0 == 0 && pool.id().1 > 0 && pool.use_count() == 1);
    let x = cuda::use_mem_pool(&pool, || {
        assert_eq!(pool.use_count(), 2);
        fresh(&[1 << 19], 2.0)
    });
    let own = pool.snapshot();
    assert_eq!(own.iter().map(|s| s.total_size).sum::<i64>(), 20 << 20);
    assert_eq!(own[0].blocks.iter().filter(|b| b.used).count(), 1);
    let y = fresh(&[1 << 19], 2.0);
    assert_eq!(pool.snapshot()[0].blocks.iter().filter(|b| b.used).count(), 1);
    // graphs that run one after the other share memory
    let (a, b) = (CUDAGraph::new(), CUDAGraph::new());
    let how = || GraphOptions::new().pool(Some(pool.id()));
    let p = cuda::graph_with(&a, how(), || ops::add(&x, &y, 1.into()).unwrap());
    assert_eq!((a.pool(), pool.use_count()), (pool.id(), 2));
    let q = cuda::graph_with(&b, how().pool(Some(a.pool())), || ops::mul(&p, &y).unwrap());
    assert_eq!(pool.use_count(), 3);
    a.replay();
    b.replay();
    assert_eq!(floats(&q)[5], 8.0);
    drop((x, p, q));
    let reserved = cuda::memory_reserved();
    drop((a, b));
    drop(pool);
    assert!(cuda::memory_reserved() <= reserved - (20 << 20), "the last owner gives a pool back");
    // segments that are not cut
    let whole = MemPool::try_new(false, true).unwrap();
    let t = cuda::use_mem_pool(&whole, || [fresh(&[4], 1.0), fresh(&[4], 2.0)]);
    assert_eq!(whole.snapshot().len(), 2);
    drop(t);
}
fn message<T>(r: Result<T>) -> String {
    r.err().unwrap().message().to_string()
}
fn refusals() {
    let x = fresh(&[4], 1.0);
    let g = CUDAGraph::new();
    assert!(
        message(g.try_capture_begin(None, CaptureMode::Global))
            .starts_with("CUDA graphs must be captured on a non-default")
    );
    assert_eq!(message(g.try_capture_end()), "capture_end() called before capture_begin().");
    assert_eq!(message(g.try_pool()), "Called CUDAGraph::pool() without a preceding successful capture.");
    assert!(message(g.try_instantiate()).starts_with("capture_end() must have been called"));
    // what waits for the device breaks the recording
    const REFUSED: &str = "CUDA error: operation not permitted when stream is capturing";
    const BROKEN: &str = "CUDA error: operation failed due to a previous error during capture";
    let waits: [(&str, &dyn Fn() -> Result<()>); 4] = [
        ("read", &|| x.try_to_vec::<f32>().map(|_| ())),
        ("item", &|| ops::sum(&x, None, false, None)?.try_item::<f32>().map(|_| ())),
        ("synchronize", &cuda::try_synchronize),
        ("stream", &|| cuda::current_stream().try_synchronize()),
    ];
    for (what, f) in waits {
        let g = CUDAGraph::new();
        let e = cuda::try_graph(&g, GraphOptions::new(), || assert_eq!(message(f()), REFUSED, "{what}"));
        assert_eq!(message(e), BROKEN, "{what}");
        assert!(g.try_replay().is_err());
    }
    // values of the host would be those of this moment for ever
    let g = CUDAGraph::new();
    cuda::graph(&g, || {
        let e = ops::copy_(&x, &numbers(&[4]), false).unwrap_err();
        assert_eq!(
            (e.kind(), e.message()),
            (
                ErrorKind::Runtime,
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use \
                 tensor.pin_memory() or allocate the tensor with pin_memory=True."
            )
        );
        ops::neg(&x).unwrap()
    });
    assert!(
        message(g.try_capture_begin(None, CaptureMode::Global))
            .starts_with("This CUDAGraph instance already owns")
    );
    // events of a recording mark nothing outside of it
    let e = cuda::Event::new();
    cuda::graph(&CUDAGraph::new(), || {
        ops::neg(&x).unwrap();
        e.record(None);
    });
    if emulated() {
        // what NVIDIA's driver says of such an event is its own
        let said = message(e.try_synchronize());
        assert!(said.starts_with("CUDA error: operation not permitted on an event last recorded"), "{said}");
    }
    let early = cuda::try_current_stream().unwrap().record_event(None);
    let g = CUDAGraph::new();
    let broken = cuda::try_graph(&g, GraphOptions::new(), || {
        assert_eq!(
            message(early.try_wait(None)),
            "CUDA error: dependency created on uncaptured work in another stream"
        );
    });
    assert_eq!(message(broken), BROKEN);
    assert_eq!(floats(&ops::neg(&x).unwrap()), [-1.0; 4]);
}
fn callables() {
    let (w, t) = (numbers(&[6, 3]), numbers(&[4, 6]));
    let f = |w: &Tensor, x: &Tensor| ops::tanh(&ops::mm(x, w)?);
    let away = there(&w).requires_grad_(true);
    let sample = there(&t).requires_grad_(true);
    let graphed = cuda::make_graphed_callables(
        |a| Ok(vec![f(&away, &a[0])?]),
        &[sample],
        GraphedOptions::new().parameters(vec![away.clone()]),
    );
    for k in [1.0, 2.0] {
        let x = ops::mul(&t, &Tensor::from_slice(&[k as f32], [0i64; 0])).unwrap();
        let (wh, xh) = (w.detach().requires_grad_(true), x.detach().requires_grad_(true));
        let want = f(&wh, &xh).unwrap();
        let gw =
            try_grad([&ops::sum(&want, None, false, None).unwrap()], [&wh, &xh], GradOptions::new()).unwrap();
        let x = there(&x).requires_grad_(true);
        let got = graphed.call(&[x.clone()]).remove(0);
        agree("forward", &got.detach(), &want.detach(), 1e-6);
        let gg =
            try_grad([&ops::sum(&got, None, false, None).unwrap()], [&away, &x], GradOptions::new()).unwrap();
        for (a, b) in gg.iter().zip(&gw) {
            agree("gradient", a.as_ref().unwrap(), b.as_ref().unwrap(), 1e-5);
        }
    }
    assert!(graphed.try_call(&[]).is_err());
}
fn pictures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.dot");
    let x = fresh(&[4], 1.0);
    let g = CUDAGraph::try_new(true).unwrap();
    cuda::graph(&g, || ops::neg(&ops::mul(&x, &x).unwrap()).unwrap());
    g.try_debug_dump(&path, true).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("digraph") && text.contains("->"), "{text}");
    g.try_instantiate().unwrap();
    g.replay();
}
