//! Plans that run: no allocation after the first runs, values those of the interpreter, whatever a program does with results.

use super::models::GptBlock;
use crate::pytorch::resnet::ResNet18;
use flambeau_memory::pool;
use flambeau_test_support::alone;
use torch::fx::{self, GraphModule, Interpreter, PlannedInterpreter};
use torch::library::Value;
use torch::prelude::*;
use torch::{Tensor, nn};

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.sizes() == b.sizes() && a.strides() == b.strides() && a.equal(b)
}
fn run(m: &GraphModule, x: &Tensor) -> Tensor {
    Interpreter::new(m).run(&[x.into()]).unwrap().into_tensor().unwrap()
}
/// Blocks that were taken from the allocator so far, of any size: tensors' memory and handles.
fn taken() -> u64 {
    let s = pool::stats();
    s.hits + s.misses
}
/// Runs a plan until it runs without a look at names, then counts: no block of memory but for so many handles on views, which
/// operators make within themselves.
fn allocates_nothing(m: &GraphModule, x: &Tensor, handles: u64) {
    let plan = PlannedInterpreter::new(m.clone());
    let inputs = [Value::from(x)];
    let want = plan.run(&inputs).unwrap().into_tensor().unwrap().clone();
    for _ in 0..2 {
        let y = plan.run(&inputs).unwrap().into_tensor().unwrap();
        assert!(same(&y, &want));
    }
    let before = taken();
    for _ in 0..5 {
        drop(plan.run(&inputs).unwrap());
    }
    let blocks = taken() - before;
    assert_eq!(blocks, 5 * handles, "{:?}\n{}", plan.reports(), m.graph);
    assert!(same(&plan.run(&inputs).unwrap().into_tensor().unwrap(), &want));
    let report = &plan.reports()[0];
    assert!(report.arena * 2 < report.made, "{report:?}");
    assert!(report.in_place > 0, "{report:?}");
}

#[test]
fn resnet_allocates_nothing_after_the_first_runs() {
    alone!();
    torch::manual_seed(1);
    let net = ResNet18::new(10, 8);
    net.eval();
    let x = torch::randn([1, 3, 64, 64]);
    let _guard = torch::no_grad_guard();
    let traced = fx::symbolic_trace(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
    allocates_nothing(&traced, &x, 0);
    let low = fx::make_fx(|x: &[Tensor]| net.call(&x[0]))(&[&x]);
    allocates_nothing(&low, &x, 0);
}
#[test]
fn a_gpt_block_allocates_nothing_after_the_first_runs() {
    alone!();
    torch::manual_seed(1);
    let block = GptBlock::new(32, 4);
    block.eval();
    let x = torch::randn([2, 16, 32]);
    let _guard = torch::no_grad_guard();
    allocates_nothing(&fx::make_fx(|x: &[Tensor]| block.call(&x[0]))(&[&x]), &x, 0);
    // `reshape` copies, and gives a view of the copy
    allocates_nothing(&fx::symbolic_trace(&block, |x: &[Tensor]| block.call(&x[0]), &[&x]), &x, 1);
}

#[test]
fn other_sizes_make_another_plan() {
    let w = torch::randn([3, 4]);
    let m = fx::make_fx(|x: &[Tensor]| (x[0].matmul(&w).tanh() * 2.0).relu())(&[&torch::zeros([2, 3])]);
    let plan = PlannedInterpreter::new(m.clone());
    for _ in 0..3 {
        for n in [2, 5, 0, 1] {
            let x = torch::randn([n, 3]);
            let y = plan.try_forward(&[&x]).unwrap();
            assert!(same(&y, &run(&m, &x)), "{n}");
        }
        // another layout is another plan
        let x = torch::randn([3, 2]).t();
        assert!(same(&plan.try_forward(&[&x]).unwrap(), &run(&m, &x)));
    }
    assert_eq!(plan.reports().len(), 5);
    for n in 6..40 {
        plan.try_forward(&[&torch::randn([n, 3])]).unwrap();
    }
    assert_eq!(plan.reports().len(), 16);
    let e = plan.try_forward(&[&torch::randn([2, 2])]).unwrap_err();
    assert!(e.message().contains("cannot be multiplied"), "{e}");
    assert!(same(&plan.try_forward(&[&torch::ones([2, 3])]).unwrap(), &run(&m, &torch::ones([2, 3]))));
}

/// What a program keeps, whole or in part, is never written over.
#[test]
fn results_that_are_kept_stay() {
    let m = fx::make_fx(|x: &[Tensor]| {
        let y = x[0].exp();
        let z = &y + 1.0;
        let rows = z.split(1, 0);
        Value::Tuple(vec![rows[1].clone().into(), (&y * 2.0).into(), z.t().into(), x[0].t().into()])
    })(&[&torch::zeros([2, 3])]);
    let plan = PlannedInterpreter::new(m.clone());
    let mut all: Vec<(Value, Value)> = Vec::new();
    for i in 0..8 {
        let x = torch::full([2, 3], 0.1 * f64::from(i));
        let got = plan.run(&[(&x).into()]).unwrap();
        let want = Interpreter::new(&m).run(&[(&x).into()]).unwrap();
        // some are dropped, some in part
        match i % 3 {
            0 => all.push((got, want)),
            1 => all.push((got.items().unwrap()[0].clone(), want.items().unwrap()[0].clone())),
            _ => {}
        }
        for (got, want) in &all {
            let items = |v: &Value| v.items().map_or_else(|| vec![v.clone()], <[Value]>::to_vec);
            for (a, b) in items(got).into_iter().zip(items(want)) {
                assert!(same(&a.into_tensor().unwrap(), &b.into_tensor().unwrap()), "{i}");
            }
        }
    }
}

/// A module that keeps what passes by, and changes it later.
#[test]
fn what_calls_see_and_keep_stays() {
    struct Keeping<'a>(&'a GraphModule, Vec<(Tensor, Vec<f32>)>);
    impl fx::Calls for Keeping<'_> {
        fn module(&self) -> &GraphModule {
            self.0
        }
        fn saw(&mut self, _: fx::Node, v: &Value) -> torch::Result<()> {
            if let Value::Tensor(t) = v {
                self.1.push((t.clone(), t.to_vec()));
            }
            Ok(())
        }
    }
    let m = fx::make_fx(|x: &[Tensor]| ((x[0].sin() + 1.0).t().relu() * 3.0).cos())(&[&torch::zeros([2, 3])]);
    let plan = PlannedInterpreter::new(m.clone());
    let mut calls = Keeping(&m, Vec::new());
    for i in 0..5 {
        let x = torch::full([2, 3], f64::from(i));
        let y = plan.run_with(&[(&x).into()], &mut calls).unwrap().into_tensor().unwrap();
        assert!(same(&y, &run(&m, &x)));
        for (t, was) in &calls.1 {
            assert_eq!(&t.to_vec::<f32>(), was);
        }
        if i == 2 {
            calls.1.clear();
        }
    }
}

#[test]
fn writes_and_aliases_are_kept_apart() {
    // in place on a view of an intermediate, whose base is used again; writes into the input; a result that is the input
    let program = |x: &[Tensor]| {
        let y = x[0].exp();
        let view = y.select(0, 1);
        view.mul_(2.0);
        let z = y.relu();
        x[1].add_(&z);
        let w = y.sub(&y);
        Value::Tuple(vec![z.into(), x[1].clone().into(), w.into(), y.view([6]).into()])
    };
    let inputs = || [torch::ones([2, 3]), torch::zeros([2, 3])];
    let m = fx::make_fx(program)(&[&inputs()[0], &inputs()[1]]);
    let plan = PlannedInterpreter::new(m);
    for i in 0..4 {
        let (a, b) = (inputs(), inputs());
        a[0].add_(f64::from(i));
        b[0].add_(f64::from(i));
        let want = program(&a);
        let got = plan.run(&b.iter().map(Value::from).collect::<Vec<_>>()).unwrap();
        for (w, g) in want.items().unwrap().iter().zip(got.items().unwrap()) {
            let (Value::Tensor(w), Value::Tensor(g)) = (w, g) else { panic!("tensors") };
            assert!(same(w, g), "{i}");
        }
        assert!(same(&a[1], &b[1]));
        let (Value::Tensor(g), b) = (&got.items().unwrap()[1], &b[1]) else { panic!("a tensor") };
        assert!(g.is_same(b));
    }
}

#[test]
fn sizes_that_depend_on_data_leave_the_plan() {
    let mut g = fx::Graph::new();
    let x = g.placeholder("x");
    let y = g.call_function("torch.exp", [x], []);
    let found = g.call_function("torch.nonzero", [x], []);
    let n = g.call_method("size", [fx::Argument::from(found), 0i64.into()], []);
    let total = g.call_function("torch.sum", [x], []);
    let number = g.call_method("item", [total], []);
    let z = g.call_function("operator.mul", [y, n], []);
    let z = g.call_function("operator.add", [z, number], []);
    let z = g.call_function("torch.relu", [z], []);
    g.output(z);
    let m = GraphModule::new(g);
    let plan = PlannedInterpreter::new(m.clone());
    for l in [[0.0, 1.0, 2.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0], [0.0, 1.0, 2.0]] {
        let x = torch::tensor(&l[..]);
        assert!(same(&plan.try_forward(&[&x]).unwrap(), &run(&m, &x)), "{l:?}");
    }
    assert_eq!(plan.reports().len(), 1);
}

#[test]
fn random_numbers_and_training_are_the_interpreters() {
    let net = nn::Sequential::new((
        nn::Linear::new(4, 8),
        nn::BatchNorm1d::new(8),
        nn::ReLU::new(),
        nn::DropoutOptions::new().p(0.5).build(),
    ));
    let x = torch::randn([5, 4]);
    let m = fx::symbolic_trace(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
    let runs = |f: &dyn Fn() -> Tensor| {
        torch::manual_seed(3);
        (0..3).map(|_| f()).collect::<Vec<_>>()
    };
    let plan = PlannedInterpreter::new(m.clone());
    let a = runs(&|| plan.try_forward(&[&x]).unwrap());
    let b = runs(&|| run(&m, &x));
    assert!(a.iter().zip(&b).all(|(a, b)| same(a, &b.detach())));
    assert!(!a[0].requires_grad() && b[0].requires_grad());
}

#[test]
fn captures_and_modes_run_without_a_plan() {
    let m = fx::make_fx(|x: &[Tensor]| (x[0].exp() + 1.0).relu())(&[&torch::zeros([3])]);
    let plan = PlannedInterpreter::new(m.clone());
    let x = torch::ones([3]);
    let want = run(&m, &x);
    for _ in 0..2 {
        plan.try_forward(&[&x]).unwrap();
    }
    // a graph that is run within a capture is captured
    let again = fx::make_fx(|x: &[Tensor]| plan.try_forward(&[&x[0]]).unwrap())(&[&x]);
    assert_eq!(again.graph.find_nodes(fx::Op::CallFunction, None).len(), 3);
    assert!(same(&run(&again, &x), &want));
    let mapped = torch::func::vmap(|x: &Tensor| plan.try_forward(&[x]).unwrap())(&torch::ones([2, 3]));
    assert!(same(&mapped.select(0, 1), &want));
    torch::inference_mode(|| {
        let y = plan.try_forward(&[&x]).unwrap();
        assert!(y.is_inference() && y.equal(&want));
    });
    assert!(!plan.try_forward(&[&x]).unwrap().is_inference());
}

#[test]
fn threads_run_one_plan_at_once() {
    let w = torch::randn([8, 8]);
    let m =
        fx::make_fx(|x: &[Tensor]| x[0].matmul(&w).relu().matmul(&w).tanh() * 2.0)(&[&torch::zeros([4, 8])]);
    let plan = PlannedInterpreter::new(m.clone());
    std::thread::scope(|s| {
        for t in 0..4 {
            let (plan, m) = (&plan, &m);
            s.spawn(move || {
                let mut kept: Vec<(Tensor, Tensor)> = Vec::new();
                for i in 0..30 {
                    let x = torch::full([4, 8], f64::from(t * 30 + i) * 0.01);
                    kept.push((plan.try_forward(&[&x]).unwrap(), run(m, &x)));
                    if i % 4 == 0 {
                        kept.remove(0);
                    }
                    assert!(kept.iter().all(|(a, b)| same(a, b)));
                }
            });
        }
    });
    assert_eq!(plan.reports().len(), 1);
}
