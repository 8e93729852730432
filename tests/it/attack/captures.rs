//! Captures that meet each other, what is caught in them, panics, threads and the ends of threads.

use super::parts::{Call, ends, is, judge};
use super::ramp;
use flambeau_test_support::here;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use torch::func::{VmapOptions, try_functionalize, try_grad_and_value, try_jvp, try_vmap};
use torch::fx::{
    MakeFxOptions, SymbolicTraceOptions, try_make_fx, try_make_fx_with, try_symbolic_trace_with,
};
use torch::library::Value;
use torch::options::BackwardOptions;
use torch::overrides::{OperatorCall, push_dispatch_mode, push_function_mode};
use torch::{Result, Tensor, nn, ops};

/// The thread has no capture any more, and works.
fn as_before() -> Option<String> {
    let x = torch::ones([2, 2]).requires_grad_(true);
    let y = ops::matmul(&x, &x).and_then(|y| ops::sum(&y, None, false, None));
    let back = y.and_then(|y| y.try_backward(BackwardOptions::new()));
    let m = try_make_fx(|x: &[Tensor]| ops::relu(&x[0]), &[&ramp(&[2])]);
    let nodes = m.map(|m| m.graph.len());
    is(back.is_ok() && x.grad().is_some() && matches!(nodes, Ok(3)), "the thread is another one now")
}
fn captured(f: impl FnOnce(&[Tensor]) -> Result<Tensor> + Clone) -> Option<String> {
    let x = ramp(&[2, 2]);
    for above in [false, true] {
        let o = MakeFxOptions::new().pre_dispatch(above);
        let f = f.clone();
        if let Ok(m) = try_make_fx_with(move |x: &[Tensor]| f(x), &[&x], o) {
            let _ = (m.graph.to_string(), m.code(), m.graph.lint(), m.lint());
            let _ = m.run(&[Value::Tensor(ramp(&[2, 2]))], &Vec::new());
            let _ = m.run(&[Value::Int(1)], &Vec::new());
            let _ = m.run(&[], &Vec::new());
        }
    }
    as_before()
}

thread_local!(static KEPT: RefCell<Option<AtEnd>> = const { RefCell::new(None) });
struct AtEnd(Box<dyn FnMut()>);
impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}
/// Runs `f` in the destructor of a thread-local, before and after the library's own are gone.
fn at_the_end(f: fn()) -> Option<String> {
    for first in [true, false] {
        let t = std::thread::Builder::new().spawn(move || {
            if first {
                f();
            }
            let _ = KEPT.try_with(|k| k.replace(Some(AtEnd(Box::new(f)))));
            f();
        });
        match t.map(std::thread::JoinHandle::join) {
            Ok(Ok(())) => {}
            _ => return Some("the thread panicked".into()),
        }
    }
    None
}

const CALLS: &[Call] = &[
    ("a capture within a capture", || {
        captured(|x| {
            let inner = try_make_fx(|y: &[Tensor]| ops::add(&y[0], &x[0], 1.into()), &[&x[0]])?;
            let r = inner.run(&[Value::Tensor(x[0].clone())], &Vec::new())?;
            r.into_tensor().map_err(|_| torch::Error::runtime("no tensor"))
        })
    }),
    ("a capture of a transform", || {
        captured(|x| try_vmap(|y: &Tensor| ops::exp(y), VmapOptions::new())(&x[0]))
            .or(captured(|x| {
                Ok(try_grad_and_value(|y: &Tensor| ops::sum(&ops::exp(y)?, None, false, None))(&x[0])?.0)
            }))
            .or(captured(|x| Ok(try_jvp(|y: &Tensor| ops::exp(y), &x[0], &x[0])?.1)))
            .or(captured(|x| {
                try_functionalize(
                    |y: &Tensor| {
                        ops::add_(y, y, 1.into())?;
                        Ok(y.clone())
                    },
                    Default::default(),
                )(&x[0])
            }))
    }),
    ("a transform of a capture", || {
        let f = |x: &Tensor| {
            let m = try_make_fx(|y: &[Tensor]| ops::exp(&y[0]), &[x])?;
            m.run(&[Value::Tensor(x.clone())], &Vec::new())?
                .into_tensor()
                .map_err(|_| torch::Error::runtime("no tensor"))
        };
        let _ = try_vmap(f, VmapOptions::new())(&ramp(&[3, 2]));
        let _ = try_grad_and_value(|x: &Tensor| ops::sum(&f(x)?, None, false, None))(&ramp(&[2]));
        as_before()
    }),
    ("a capture that is left by a panic", || {
        let r = catch_unwind(AssertUnwindSafe(|| {
            drop(try_make_fx(|_: &[Tensor]| -> Result<Tensor> { panic!("in a capture") }, &[&ramp(&[2])]));
        }));
        is(r.is_err(), "no panic").or_else(as_before)
    }),
    ("tensors that outlive their capture", || {
        let kept = RefCell::new(Vec::new());
        let _ = try_make_fx(
            |x: &[Tensor]| {
                kept.borrow_mut().extend([x[0].clone(), ops::exp(&x[0])?, ops::t(&x[0])?]);
                Ok(x[0].clone())
            },
            &[&ramp(&[2, 2])],
        );
        for t in kept.borrow().iter() {
            let _ = (ops::exp(t), ops::add_(t, t, 1.into()), t.try_to_vec::<f32>(), format!("{t} {t:?}"));
            let _ = try_make_fx(|x: &[Tensor]| ops::mul(&x[0], t), &[&ramp(&[2, 2])]);
            let _ = torch::serialization::save_to(t, Vec::new());
            let sent = t.clone();
            let _ = std::thread::spawn(move || drop(ops::exp(&sent))).join();
        }
        as_before()
    }),
    ("a captured tensor on another thread", || {
        captured(|x| {
            let sent = x[0].clone();
            std::thread::spawn(move || ops::exp(&sent))
                .join()
                .map_err(|_| torch::Error::runtime("another thread panicked"))?
        })
    }),
    ("elements of a captured tensor", || {
        captured(|x| {
            let _ = (x[0].try_to_vec::<f32>(), format!("{:?}", x[0]), x[0].try_item::<f32>());
            let _ = (ops::nonzero(&x[0]), torch::serialization::save_to(&x[0], Vec::new()));
            let _ = x[0].try_elements::<f32>().map(|e| e.len());
            ops::neg(&x[0])
        })
    }),
    ("writes in captures", || {
        captured(|x| {
            let own = torch::zeros([2, 2]);
            ops::add_(&own, &x[0], 1.into())?;
            ops::mul_(&ops::select(&x[0], 0, 0)?, &ops::select(&own, 0, 1)?)?;
            ops::copy_(&x[0], &own, false)?;
            ops::add(&x[0], &own, 1.into())
        })
    }),
    ("modes within captures", || {
        captured(|x| {
            let _a = push_dispatch_mode(|c: &OperatorCall<'_>| c.call_on());
            let _b = push_function_mode(|c: &OperatorCall<'_>| {
                let _ = try_make_fx(|x: &[Tensor]| ops::neg(&x[0]), &[&ramp(&[2])]);
                c.call_on()
            });
            ops::exp(&ops::matmul(&x[0], &x[0])?)
        })
    }),
    ("captures within modes", || {
        let _mode = push_dispatch_mode(|c: &OperatorCall<'_>| c.call_on());
        let r = captured(|x| ops::exp(&x[0]));
        drop(_mode);
        r
    }),
    ("a mode that outlives the capture it was pushed in", || {
        let kept = RefCell::new(None);
        let r = captured(|x| {
            *kept.borrow_mut() = Some(push_dispatch_mode(|c: &OperatorCall<'_>| c.call_on()));
            ops::exp(&x[0])
        });
        drop(kept.borrow_mut().take());
        r.or_else(as_before)
    }),
    ("backward passes in captures", || {
        captured(|x| {
            let w = torch::ones([2, 2]).requires_grad_(true);
            let y = ops::sum(&ops::matmul(&x[0], &w)?, None, false, None)?;
            y.register_hook(|g: &Tensor| Some(g * 2.0));
            y.try_backward(BackwardOptions::new().create_graph(true))?;
            w.grad().ok_or_else(|| torch::Error::runtime("no gradient"))
        })
    }),
    ("modules traced while they are called", || {
        let net = nn::Linear::new(2, 2);
        let x = ramp(&[3, 2]);
        let plain = |x: &[Tensor]| net.try_call(&x[0]);
        let within = |x: &[Tensor]| {
            let _ = try_symbolic_trace_with(&net, plain, &[&x[0]], SymbolicTraceOptions::new());
            net.try_call(&x[0])
        };
        let traced = [
            try_symbolic_trace_with(&net, plain, &[&x], SymbolicTraceOptions::new()),
            try_symbolic_trace_with(&net, within, &[&x], SymbolicTraceOptions::new()),
        ];
        for m in traced.into_iter().flatten() {
            let _ = (m.graph.to_string(), m.run(&[Value::Tensor(x.clone())], &Vec::new()));
        }
        as_before()
    }),
    ("captures at the end of a thread", || {
        at_the_end(|| {
            let x = ramp(&[2, 2]);
            let _ = try_make_fx(|x: &[Tensor]| ops::exp(&x[0]), &[&x]).map(|m| m.graph.to_string());
            let _ = try_vmap(|x: &Tensor| ops::exp(x), VmapOptions::new())(&x);
            let _ = try_functionalize(|x: &Tensor| ops::exp(x), Default::default())(&x);
        })
    }),
    ("tools at the end of a thread", || {
        at_the_end(|| {
            let x = ramp(&[2, 2]);
            let p = torch::profiler::profile(Default::default(), |_| drop(ops::exp(&x)));
            let _ = p.table(Default::default());
            let mut c = torch::utils::flop_counter::FlopCounterMode::new();
            let _ = ops::matmul(&x, &x);
            c.stop();
            let _ = torch::amp::try_autocast("cpu", || ops::matmul(&x, &x));
            let f = torch::futures::Future::new();
            let g = f.then(|f| Ok(f.value()? + 1));
            let _ = (f.set_result(1), g.wait());
            let _ = torch::library::call("torch.nn.functional.relu", &[Value::Tensor(x)], &[]);
        })
    }),
    ("jobs and tensors of tensors at the end of a thread", || {
        at_the_end(|| {
            let x = ramp(&[2, 2]);
            let _ = torch::distributed::is_initialized();
            let _ = torch::distributed::try_all_reduce(&x, Default::default());
            let _ = torch::distributed::simulation::elapsed();
            let t = torch::library::call(
                "torch.nested.nested_tensor",
                &[Value::List(vec![Value::Tensor(x.clone()), Value::Tensor(x.clone())])],
                &[],
            );
            let _ = t.map(|mut t| t.pop().map(|t| torch::library::call("torch.sin", &[t], &[])));
            let q = ops::quantize_per_tensor(&x, 0.1, 0, torch::DType::QU8);
            let _ = q.and_then(|q| ops::dequantize(&q));
            let m = nn::Linear::new(2, 2);
            let _ = m
                .try_call(&x)
                .and_then(|y| ops::sum(&y, None, false, None)?.try_backward(BackwardOptions::new()));
            let mut o = torch::optim::SGD::new(torch::nn::Module::parameters(&m), 0.1);
            let _ = torch::optim::Optimizer::try_step(&mut o);
            let _ = torch::utils::data::get_worker_info();
        })
    }),
    ("graphs that are dropped on many threads", || {
        let m = try_make_fx(|x: &[Tensor]| ops::exp(&x[0]), &[&ramp(&[2])]).ok()?;
        let m = Arc::new(Mutex::new(Some(m)));
        let all: Vec<_> = (0..8)
            .map(|_| {
                let m = m.clone();
                std::thread::spawn(move || {
                    let gone = m.lock().ok().and_then(|mut m| m.take());
                    drop(gone);
                })
            })
            .collect();
        all.into_iter().find_map(|t| t.join().err().map(|_| "a panic".into())).or(ends(()))
    }),
];

#[test]
fn captures_survive_each_other() {
    judge(here!(), CALLS);
}
