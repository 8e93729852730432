//! Hostile calls of the parts whose functions are no operators: graphs, function transforms, futures, processes, tools. Each call
//! gives a value or an error and comes back; what may panic by its documentation is not here.

use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use torch::distributed::{HashStore, Store as _, TCPStore, TCPStoreOptions};
use torch::func::{VmapOptions, try_grad_and_value, try_jvp, try_rearrange, try_vmap};
use torch::futures::{Future, collect_all};
use torch::fx::{Argument, Graph, GraphModule, python, symbolic};
use torch::library::Value;
use torch::multiprocessing::{Message, SimpleQueue};
use torch::options::BackwardOptions;
use torch::prelude::*;
use torch::{DType, Tensor, monitor, ops, testing};

/// A call, and what is wrong with its outcome.
pub(super) type Call = (&'static str, fn() -> Option<String>);

pub(super) fn fails<T>(r: torch::Result<T>) -> Option<String> {
    match r {
        Ok(_) => Some("accepted".into()),
        Err(e) if e.message().is_empty() => Some("an error without a text".into()),
        Err(_) => None,
    }
}
pub(super) fn ends<T>(_: T) -> Option<String> {
    None
}
pub(super) fn is(right: bool, what: &str) -> Option<String> {
    (!right).then(|| what.to_string())
}
fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Int(1), |v, _| Value::List(vec![v]))
}
const DEEP: usize = 1_000_000;
const NO_KEYWORDS: [(&str, Argument); 0] = [];

/// A chain of sums.
fn long_graph(n: usize) -> (Graph, torch::fx::Node) {
    let mut g = Graph::new();
    let mut at = g.placeholder("x");
    for _ in 0..n {
        at = g.call_function(
            "operator.add",
            [Argument::Node(at), Argument::Value(Value::Int(1))],
            NO_KEYWORDS,
        );
    }
    let out = g.output(at);
    (g, out)
}

const CALLS: &[Call] = &[
    // numbers of sizes
    ("fx: quotients at the ends", || {
        let text = "Add(Mul(Integer(-1), Symbol('s0', positive=True, integer=True)), Integer(0))";
        let Ok(e) = symbolic::Expr::parse(text) else { return Some("not read".into()) };
        let solved = [i64::MIN, i64::MAX, 0, -1].map(|n| e.solve(n));
        is(solved[0].is_none() && solved[1].is_some(), "-2^63 by -1")
    }),
    ("fx: floor of the least number", || is(symbolic::floor_div(i64::MIN, -1).is_none(), "a number")),
    ("fx: brackets without end", || fails(symbolic::Expr::parse(&"Not(".repeat(DEEP)))),
    ("fx: a long sum", || {
        let terms = vec!["Integer(9223372036854775807)"; 100_000].join(", ");
        let sum = symbolic::Expr::parse(&format!("Add({terms})"));
        is(sum.is_ok_and(|e| e.evaluate(&Default::default()).is_none()), "no overflow")
    }),
    // Python's operators
    ("fx: a list times much", || {
        let pair = Value::List(vec![Value::Int(1), Value::Int(2)]);
        [i64::MAX, 1 << 62, 1 << 40]
            .into_iter()
            .find_map(|n| fails(python::operator("mul", &[pair.clone(), Value::Int(n)])))
    }),
    ("fx: powers and shifts", || {
        let two = |name: &str, a: i64, b: i64| python::operator(name, &[Value::Int(a), Value::Int(b)]);
        fails(two("pow", 10, 1 << 40))
            .or(fails(two("lshift", 1, i64::MAX)))
            .or(fails(two("floordiv", i64::MIN, -1)))
            .or(fails(two("mod", 1, 0)))
            .or(ends(two("mod", i64::MIN, -1)))
            .or(ends(two("rshift", i64::MIN, i64::MAX)))
            .or(ends(two("rshift", 1, -1)))
    }),
    ("fx: items at the ends", || {
        let l = Value::List(vec![Value::Int(1); 3]);
        for key in [
            Value::Slice([Some(i64::MIN), Some(i64::MAX), Some(i64::MAX)]),
            Value::Slice([Some(i64::MAX), Some(i64::MIN), Some(i64::MIN)]),
            Value::Slice([None, None, Some(0)]),
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
        ] {
            let _ = python::getitem(&l, &key);
            let _ = python::operator("getitem", &[Value::Tensor(torch::ones([2])), key]);
        }
        None
    }),
    ("fx: targets that are none", || {
        let deep = nested(100);
        for target in [
            "",
            ".",
            "operator.",
            "math.",
            "torch.",
            "torch.ops.aten.",
            "getattr",
            "range",
            "slice",
            "len",
            "sum",
        ] {
            for args in [
                vec![],
                vec![deep.clone()],
                vec![Value::Int(i64::MIN); 3],
                vec![Value::Str(".".repeat(1000)); 2],
            ] {
                let _ = python::call(target, &args, &[]);
            }
        }
        None
    }),
    // graphs
    ("fx: a long graph", || {
        let (g, _) = long_graph(20_000);
        if let Err(e) = g.lint() {
            return Some(e.to_string());
        }
        let text = g.tabular().len() + g.to_string().len();
        let m = GraphModule::new(g);
        let r = m.run(&[Value::Int(0)], &Vec::new());
        is(text > 20_000 && matches!(r, Ok(Value::Int(20_000))), "another sum")
    }),
    ("fx: nodes of another graph", || {
        let (mut a, (b, out)) = (Graph::new(), long_graph(3));
        let x = a.placeholder("x");
        let foreign = a.call_function("operator.add", [Argument::Node(out), Argument::Node(x)], NO_KEYWORDS);
        a.output(foreign);
        let mut b = b;
        fails(a.lint())
            .or(fails(a.erase_node(out)))
            .or(fails(b.erase_node(x)))
            .or(fails(GraphModule::new(a).run(&[Value::Int(1)], &Vec::new())))
    }),
    ("fx: a node before its use is there", || {
        let (mut g, _) = long_graph(3);
        let nodes: Vec<_> = g.nodes().collect();
        g.move_before(nodes[2], nodes[1]);
        fails(g.lint()).or(fails(GraphModule::new(g).run(&[Value::Int(1)], &Vec::new())))
    }),
    ("fx: a pattern with many places", || {
        let (g, _) = long_graph(3_000);
        let mut p = Graph::new();
        let (x, y) = (p.placeholder("x"), p.placeholder("y"));
        let sum = p.call_function("operator.add", [Argument::Node(x), Argument::Node(y)], NO_KEYWORDS);
        p.output(sum);
        let Ok(m) = torch::fx::passes::SubgraphMatcher::new(&p) else { return Some("refused".into()) };
        is(m.find(&g).len() == 3_000, "another number of places")
    }),
    ("fx: modules that are not there", || {
        let mut g = Graph::new();
        let x = g.placeholder("x");
        let y = g.call_module("a.b.c", [Argument::Node(x)], NO_KEYWORDS);
        g.output(y);
        let mut m = GraphModule::new(g);
        m.set("a.b", 1i64);
        m.delete_all_unused_submodules();
        fails(m.run(&[Value::Int(1)], &Vec::new()))
            .or(fails(m.get(&"a.".repeat(DEEP))))
            .or(fails(m.submodule("")))
            .or(fails(m.submodule("a.b")))
    }),
    // transforms of functions
    ("func: pieces of no slices", || {
        let x = torch::ones([4, 2]);
        for n in [0, -1, i64::MIN, i64::MAX] {
            let _ =
                try_vmap(|x: &Tensor| ops::sum(x, None, false, None), VmapOptions::new().chunk_size(n))(&x);
        }
        None
    }),
    ("func: dimensions beyond", || {
        let x = torch::ones([4, 2]);
        [i64::MAX, i64::MIN, 2, -3].into_iter().find_map(|d| {
            let same = |x: &Tensor| Ok(x.clone());
            fails(try_vmap(same, VmapOptions::new().in_dims(d))(&x))
                .or(fails(try_vmap(same, VmapOptions::new().out_dims(d.saturating_mul(2)))(&x)))
        })
    }),
    ("func: more slices than memory", || {
        let Ok(x) = ops::expand(&torch::ones([1]), &[1 << 40], false) else { return Some("refused".into()) };
        let drawn = |x: &Tensor| ops::add(x, &ops::randn(&[2], None, None, None, None, None)?, 1.into());
        fails(try_vmap(drawn, VmapOptions::new().randomness(torch::func::Randomness::Different))(&x))
    }),
    ("func: a slice that gets away", || {
        let kept = Mutex::new(None);
        let keep = |x: &Tensor| {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(x.clone());
            Ok(x.clone())
        };
        let _ = try_vmap(keep, VmapOptions::new())(&torch::ones([3, 2]));
        let t = kept.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        let _ = (
            ops::add(&t, &t, 1.into()),
            t.try_to_vec::<f32>(),
            format!("{t}"),
            ops::sum(&t, None, false, None),
        );
        let other = std::thread::spawn(move || ops::mul(&t, &t).and_then(|t| t.try_to_vec::<f32>()));
        ends(other.join().map_err(|_| ()))
    }),
    ("func: a function that panics", || {
        let panics = |_: &Tensor| -> torch::Result<Tensor> { panic!("in a function") };
        let r = std::panic::catch_unwind(|| try_vmap(panics, VmapOptions::new())(&torch::ones([3, 2])));
        let g = std::panic::catch_unwind(|| try_grad_and_value(panics)(&torch::ones([2])));
        let x = torch::ones([2]).requires_grad_(true);
        let after = ops::sum(&ops::mul(&x, &x).ok()?, None, false, None)
            .and_then(|y| y.try_backward(BackwardOptions::new()));
        is(r.is_err() && g.is_err() && after.is_ok() && x.grad().is_some(), "state is left behind")
    }),
    ("func: transforms within each other", || {
        fn within(levels: usize, x: &Tensor) -> torch::Result<Tensor> {
            if levels == 0 {
                return ops::mul(x, x);
            }
            try_vmap(|x: &Tensor| within(levels - 1, x), VmapOptions::new())(x)
        }
        let sizes = [1i64; 40];
        ends(within(39, &torch::ones(sizes))).or(fails(within(60, &torch::ones(sizes))))
    }),
    ("func: gradients of what has none", || {
        let x = torch::ones([2, 2]);
        fails(try_grad_and_value(|x: &Tensor| Ok(x.clone()))(&x))
            .or(fails(try_grad_and_value(|x: &Tensor| ops::sum(x, None, false, None))(&torch::arange(3))))
            .or(fails(try_jvp(|x: &Tensor| ops::sin(x), &x, &torch::ones([3]))))
    }),
    ("func: patterns", || {
        let x = torch::ones([2, 3]);
        for p in [
            "",
            "->",
            "a b -> ",
            "(a b -> a b",
            "a b -> b a a",
            "... -> ... ...",
            "a (b c) -> (a b) c",
            "a b -> (a b) (c",
            "-> a",
            "a b->b a->a",
        ] {
            let _ = try_rearrange(&x, p, &[("b", 0), ("c", i64::MIN)]);
            let _ = try_rearrange(&x, p, &[("b", i64::MAX), ("c", i64::MAX), ("zz", 1)]);
        }
        fails(try_rearrange(&x, &"(".repeat(DEEP), &[]))
    }),
    ("pytree: levels without end", || {
        let v = nested(DEEP);
        fails(torch::utils::pytree::try_tree_flatten(&v))
            .or(fails(torch::utils::pytree::try_tree_map(&v, Clone::clone)))
            .or(fails(torch::utils::pytree::try_tree_leaves(&v)))
    }),
    // futures
    ("futures: a chain without end", || {
        let first = Future::<i64>::new();
        let last = (0..200_000).fold(first.clone(), |f, _| f.then(|f| Ok(f.value()? + 1)));
        is(first.set_result(0).is_ok() && matches!(last.value(), Ok(200_000)), "another number")
    }),
    ("futures: a chain that nobody completes", || {
        let first = Future::<i64>::new();
        let last = (0..200_000).fold(first.clone(), |f, _| f.then(|f| f.wait()));
        drop(last);
        drop(first);
        None
    }),
    ("futures: waits deep within callbacks", || {
        let first = Future::<i64>::new();
        let last = (0..200).fold(first.clone(), |f, _| {
            // a callback of a future that is there, deep within others: the wait must not wait for it
            f.then(|f| Future::ready(f.value()?).then(|f| Ok(f.value()? + 1)).wait())
        });
        is(first.set_result(0).is_ok() && matches!(last.value(), Ok(200)), "another number")
    }),
    ("futures: completed within its own callback", || {
        let f = Future::<i64>::new();
        let (inner, seen) = (f.clone(), Arc::new(Mutex::new(None)));
        let to = seen.clone();
        f.add_done_callback(move |_| {
            let again = inner.set_result(2).is_err();
            inner.add_done_callback(|_| panic!("in a callback"));
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some((again, inner.wait().ok()));
        });
        let done = f.set_result(1).is_ok();
        let seen = *seen.lock().unwrap_or_else(PoisonError::into_inner);
        is(done && seen == Some((true, Some(1))), "another end")
    }),
    ("futures: what a callback holds asks again", || {
        struct Asks(Future<i64>);
        impl Drop for Asks {
            fn drop(&mut self) {
                self.0.add_done_callback(|_| {});
                let _ = self.0.done();
            }
        }
        let f = Future::<i64>::new();
        let held = Asks(f.clone());
        f.add_done_callback(move |_| drop(held));
        fails(f.set_result(1).and_then(|()| f.set_result(2)))
    }),
    ("futures: many of many", || {
        let all: Vec<_> = (0..300).map(|_| Future::<i64>::new()).collect();
        let sets: Vec<_> = (0..300).map(|_| collect_all(&all)).collect();
        let done = all.iter().all(|f| f.set_result(1).is_ok());
        is(done && sets.iter().all(Future::done), "some are open")
    }),
    ("futures: asked again and again", || {
        let f = Future::<i64>::new();
        let waited = (0..1000).all(|_| matches!(f.wait_for(Duration::ZERO), Ok(None)));
        is(waited, "a result")
    }),
    // processes
    ("multiprocessing: levels without end", || {
        let Ok(q) = SimpleQueue::new() else { return None };
        fails(q.put(Message::Value(nested(DEEP))))
    }),
    ("multiprocessing: tensors of every kind", || {
        let Ok(q) = SimpleQueue::new() else { return None };
        let x = torch::ones([2, 2]);
        let strange = [
            ops::expand(&x.i((0, 0)), &[1 << 40], false),
            Ok(torch::eye(2).to_sparse()),
            ops::neg(&x),
            Ok(torch::zeros_with([1i64 << 40], torch::Device::Meta)),
            Ok(torch::zeros([0, 3])),
            Ok(torch::ones([1]).requires_grad_(true)),
        ];
        for t in strange.into_iter().flatten() {
            if q.put(&t).is_ok() {
                let _ = q.get();
            }
        }
        None
    }),
    ("distributed: a store of nothing", || {
        let s = HashStore::new();
        fails(s.wait_timeout(&["missing"], Duration::from_millis(1)))
            .or(ends(s.add("n", i64::MAX)))
            .or(ends(s.add("n", i64::MAX)))
            .or(ends(s.add("n", i64::MIN)))
            .or(ends(s.set("text", b"x")))
            .or(fails(s.add("text", 1)))
    }),
    ("distributed: strangers at the store's door", || {
        let Ok(s) = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true)) else {
            return None;
        };
        for n in [0u8, 1, 2, 7, 0x3c, 0xff] {
            let Ok(mut c) = TcpStream::connect(("127.0.0.1", s.port())) else { continue };
            let _ = c.write_all(&[n; 1]);
            let _ = c.write_all(&u64::MAX.to_le_bytes());
            let _ = c.write_all(&vec![n; 4096]);
        }
        let _open = TcpStream::connect(("127.0.0.1", s.port()));
        is(s.set("a", b"1").is_ok() && s.get("a").is_ok_and(|v| v == b"1"), "the store is gone")
    }),
    // tools
    ("testing: levels without end", || {
        // lists of lists: what Rust can nest
        let (a, b) = (vec![vec![0.5; 3]; 3], vec![vec![0.5; 2]; 3]);
        fails(testing::try_assert_close(a, b, &testing::AssertCloseOptions::new()))
    }),
    ("testing: tensors larger than memory", || {
        let made = |sizes: &[i64], low, high| {
            let bounds = testing::MakeTensorOptions { low, high, ..Default::default() };
            testing::make_tensor(sizes, DType::F32, bounds)
        };
        fails(made(&[1 << 62, 4], None, None))
            .or(fails(made(&[-1], None, None)))
            .or(fails(made(&[1 << 40], None, None)))
            .or(fails(made(&[3], Some(f64::NAN), Some(f64::INFINITY))))
    }),
    ("benchmark: digits", || {
        use torch::utils::benchmark::{select_unit, trim_sigfig};
        for x in [0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, -1e308, 3.0] {
            for n in [0, 1, 400, 1 << 31, (1 << 31) - 1, usize::MAX] {
                let _ = (trim_sigfig(x, n), select_unit(x));
            }
        }
        None
    }),
    ("monitor: handlers of handlers", || {
        let event = || monitor::Event {
            name: "x".into(),
            timestamp: std::time::SystemTime::now(),
            data: Default::default(),
        };
        let own = Arc::new(Mutex::new(None));
        let to = own.clone();
        struct Logs(monitor::Event);
        impl Drop for Logs {
            fn drop(&mut self) {
                monitor::log_event(&self.0);
            }
        }
        let held = Logs(event());
        let handle = monitor::register_event_handler(move |_| {
            let _ = &held;
            let own = to.lock().unwrap_or_else(PoisonError::into_inner).take();
            own.into_iter().for_each(monitor::unregister_event_handler);
        });
        *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        monitor::log_event(&event());
        monitor::log_event(&event());
        None
    }),
];

/// Makes the calls one after the other, each on a thread with a stack of the usual size, whatever the harness has.
pub(super) fn judge(test: &'static str, calls: &[Call]) {
    Calls {
        test,
        count: calls.len(),
        name: &|i| calls[i].0.to_string(),
        run: &|i| {
            let one = std::thread::Builder::new().stack_size(2 << 20).spawn(calls[i].1);
            match one.map(std::thread::JoinHandle::join) {
                Ok(Ok(wrong)) => wrong,
                Ok(Err(p)) => std::panic::resume_unwind(p),
                Err(e) => Some(e.to_string()),
            }
        },
    }
    .judge();
}
#[test]
fn parts_survive_hostile_calls() {
    judge(here!(), CALLS);
}
