//! No user code runs under a lock of the library, and what user code gives is checked where it enters: calls that once hung,
//! or brought the process down.

use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use torch::__core::internal::RawTensor as _;
use torch::library::{Library, LibraryKind, Value, call, one};
use torch::overrides::{OperatorCall, push_dispatch_mode};
use torch::prelude::*;
use torch::serialization::{
    SafeGlobal, Tree, add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals,
};
use torch::{Result, Tensor, ops};

/// Runs `f` on a thread of its own, which must end.
fn ends<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        let r = f();
        let _ = done.send(());
        r
    });
    assert_ne!(
        ended.recv_timeout(Duration::from_secs(60)),
        Err(std::sync::mpsc::RecvTimeoutError::Timeout),
        "it hangs"
    );
    thread.join().expect("it panicked")
}
fn text<T>(r: Result<T>) -> String {
    r.err().expect("an error").message().to_owned()
}
struct OnDrop<F: FnMut()>(F);
impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn constructors_of_safe_globals_are_dropped_without_the_lock() {
    ends(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let make = |name: &str| {
            let count = dropped.clone();
            let on_drop = OnDrop(move || {
                drop(get_safe_globals());
                count.fetch_add(1, Ordering::Relaxed);
            });
            SafeGlobal::with(name, move |_| {
                let _ = &on_drop;
                Ok(Tree::None)
            })
        };
        add_safe_globals([make("lock.A")]);
        add_safe_globals([make("lock.A")]);
        drop(safe_globals([make("lock.B")]));
        clear_safe_globals();
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_generator_within_its_own_draw_is_an_error() {
    ends(|| {
        let g = torch::Generator::new();
        let within = g.draw(|_| text(ops::randperm(4, Some(&g), None, None, None, None))).unwrap();
        assert!(within.contains("within its own draw"), "{within}");
        assert!(text(g.draw(|_| g.draw(|_| ())).unwrap()).contains("within its own draw"));
        assert_eq!(ops::randperm(4, Some(&g), None, None, None, None).unwrap().sizes(), [4]);
    });
}

#[test]
fn operators_within_borrowed_bytes_are_errors_that_name_the_place() {
    ends(|| {
        let t = torch::ones([4]);
        let e = t.storage().with_bytes(|_| text(ops::add_(&t, &t, 1.into()))).unwrap();
        assert!(e.contains("soundness.rs"), "{e}");
        t.storage().with_bytes(|_| ops::add(&t, &t, 1.into()).unwrap()).unwrap();
        let e = t.storage().with_bytes_mut(|_| text(ops::add(&t, &t, 1.into()))).unwrap();
        assert!(e.contains("soundness.rs"), "{e}");
        // another thread's kernel does not wait for the closure
        let other = t.clone();
        t.storage()
            .with_bytes(|_| {
                std::thread::spawn(move || text(ops::add_(&other, &other, 1.into()))).join().unwrap()
            })
            .unwrap();
    });
}

/// A writer that uses the tensor that is written.
struct Uses(Tensor, bool, Vec<u8>);
impl Write for Uses {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.1 {
            ops::add_(&self.0, &self.0, 1.into()).unwrap();
        } else {
            ops::exp(&self.0).unwrap();
        }
        self.2.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
#[test]
fn writers_run_under_no_lock() {
    ends(|| {
        // several blocks, so that there is something in between
        let t = torch::ones([600_000]);
        let reads = torch::serialization::save_to(&t, Uses(t.clone(), false, Vec::new())).unwrap();
        assert!(reads.2.len() > 2_400_000);
        // a whole version, or an error
        let e = torch::serialization::save_to(&t, Uses(t.clone(), true, Vec::new())).map(drop);
        assert!(text(e).contains("written to"));
    });
}

#[test]
fn hooks_are_dropped_without_the_lock() {
    ends(|| {
        let x = torch::ones([2]).requires_grad_(true);
        let seen = Arc::new(AtomicBool::new(false));
        let hook = |x: &Tensor| {
            let (x, seen) = (x.clone(), seen.clone());
            let d = OnDrop(move || {
                drop(x.grad());
                x.register_hook(|_| None).remove();
                seen.store(true, Ordering::Relaxed);
            });
            move |_: &Tensor| {
                let _ = &d;
                None
            }
        };
        x.register_hook(hook(&x)).remove();
        assert!(seen.swap(false, Ordering::Relaxed));
        let y = x.exp();
        y.register_hook(hook(&x)).remove();
        assert!(seen.load(Ordering::Relaxed));
    });
}

#[test]
fn storages_by_name_are_no_locks() {
    ends(|| {
        let s = call("torch.FloatStorage", &[Value::List(vec![Value::Float(1.0), Value::Float(2.0)])], &[]);
        let s = s.unwrap().remove(0);
        call("torch.FloatStorage.copy_", &[s.clone(), s.clone()], &[]).unwrap();
        let again = s.clone();
        let _mode = push_dispatch_mode(move |c: &OperatorCall<'_>| {
            let _ = call("torch.FloatStorage.size", std::slice::from_ref(&again), &[]);
            c.call_on()
        });
        call("torch.FloatStorage.fill_", &[s.clone(), Value::Float(3.0)], &[]).unwrap();
        call("torch.FloatStorage.resize_", &[s.clone(), Value::Int(5)], &[]).unwrap();
        let size = call("torch.FloatStorage.size", &[s], &[]).unwrap();
        assert!(matches!(size[0], Value::Int(5)));
    });
    let meta = torch::ones([3]).to(torch::Device::Meta);
    assert!(call("torch.FloatStorage.from_buffer", &[Value::Tensor(meta)], &[]).is_err());
}

#[test]
fn backward_within_backward_of_the_same_leaf() {
    ends(|| {
        let x = torch::ones([3]).requires_grad_(true);
        // made outside: below the gradients, where the mode is, nothing is recorded
        let other = RefCell::new(Some(x.exp().sum()));
        let y = [x.mul(2.0).sum(), x.mul(2.0).sum()];
        let mode = push_dispatch_mode(move |c: &OperatorCall<'_>| {
            if ["add_", "clone", "copy_"].iter().any(|n| c.name().starts_with(n)) {
                let other = other.borrow_mut().take();
                if let Some(y) = other {
                    y.backward();
                }
            }
            c.call_on()
        });
        y.iter().for_each(Tensor::backward);
        drop(mode);
        for g in x.grad().unwrap().to_vec::<f64>() {
            assert!((g - 4.0 - std::f64::consts::E).abs() < 1e-5, "{g}");
        }
    });
}

#[test]
fn modes_read_retained_gradients() {
    ends(|| {
        let x = torch::ones([3]).requires_grad_(true);
        let y = x.exp();
        y.retain_grad();
        let z = y.clone();
        let _mode = push_dispatch_mode(move |c: &OperatorCall<'_>| {
            drop(z.grad());
            c.call_on()
        });
        for _ in 0..3 {
            y.mul(2.0).sum().backward_with(torch::__core::BackwardOptions::default().retain_graph(true));
        }
        assert_eq!(y.grad().unwrap().to_vec::<f32>(), [6.0; 3]);
    });
}

/// Definers, finders and callers at once: nobody waits for somebody who waits for them.
#[test]
fn operators_are_defined_looked_up_and_called_by_many_threads() {
    ends(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let steps: Arc<[AtomicUsize; 3]> = Arc::default();
        let mut all = Vec::new();
        for t in 0..6 {
            let (stop, steps) = (stop.clone(), steps.clone());
            all.push(std::thread::spawn(move || {
                let x = torch::ones([2]).requires_grad_(true);
                while !stop.load(Ordering::Relaxed) {
                    match t % 3 {
                        0 => {
                            let mut lib = Library::new("locks", LibraryKind::Fragment).unwrap();
                            if lib.define(&format!("f{t}(Tensor x) -> Tensor")).is_ok() {
                                let kernel = |a: &[Value]| one(torch::library::arg::<Tensor>(a, 0)?.mul(2.0));
                                lib.impl_(&format!("locks::f{t}"), kernel, "CPU").unwrap();
                            }
                        }
                        1 => drop(torch::library::find("locks::f0")),
                        _ => drop(call("locks::f3", &[Value::Tensor(x.clone())], &[])),
                    }
                    steps[t % 3].fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        all.into_iter().for_each(|t| t.join().unwrap());
        assert!(steps.iter().all(|s| s.load(Ordering::Relaxed) > 10), "{steps:?}");
    });
}

/// Kernels of existing operators that give something else than the operator.
#[test]
fn results_of_kernels_are_checked() {
    flambeau_test_support::alone!();
    type Make = fn(&[Value]) -> Result<Vec<Value>>;
    static SPARSE: std::sync::OnceLock<Tensor> = std::sync::OnceLock::new();
    SPARSE.get_or_init(|| torch::ones([4]).to_sparse());
    let kernels: [(&str, Make); 7] = [
        ("aten::view", |_| Ok(vec![SPARSE.get().unwrap().clone().into()])),
        ("aten::view", |_| Ok(vec![torch::ones([4]).to(torch::Device::Meta).into()])),
        ("aten::view", |_| Ok(Vec::new())),
        ("aten::mul.Tensor", |_| Ok(vec![torch::ones([1]).expand([1i64 << 20, 1 << 20]).into()])),
        ("aten::mul.Tensor", |a| one(ops::mul(&torch::library::arg(a, 0)?, &torch::library::arg(a, 1)?)?)),
        ("aten::expand", |_| Ok(vec![torch::ones([1, 1, 1]).into()])),
        ("aten::add.Tensor", |_| Ok(vec![Value::Int(3)])),
    ];
    let attention = torch::nn::MultiheadAttention::new(4, 2);
    for (name, make) in kernels {
        let mut lib = Library::new("aten", LibraryKind::Impl).unwrap();
        lib.impl_(name, make, "CPU").unwrap();
        let (q, w) = (torch::ones([2, 3, 4]), torch::ones([4, 4]));
        let _ = ops::mul(&q, &q);
        let _ = ops::view(&q, &[6, 4]);
        let _ = ops::expand(&torch::ones([1, 4]), &[3, 4], false);
        let _ = ops::matmul(&q, &w);
        let _ = ops::add(&q, &q, 1.into());
        let _ = ops::softmax(&q, -1, None);
        let _ = attention.try_call(&q, &q, &q);
        drop(lib);
    }
    assert_eq!(ops::mul(&torch::ones([2]), &torch::ones([2])).unwrap().to_vec::<f32>(), [1.0; 2]);
}

#[test]
fn a_sparse_output_of_dense_factors_is_an_error() {
    let x = torch::ones([3, 3]);
    for out in [x.to_sparse(), ops::to_sparse_csr(&x, None).unwrap(), ops::to_sparse_csc(&x, None).unwrap()] {
        for name in ["torch.mul", "torch.add", "torch.sub", "torch.div"] {
            let args = [Value::Tensor(x.clone()), Value::Tensor(x.clone())];
            assert!(call(name, &args, &[("out".into(), Value::Tensor(out.clone()))]).is_err());
        }
    }
}

#[test]
fn shared_schedules_are_no_locks() {
    use torch::optim::lr_scheduler::{LRScheduler, LambdaLR, Shared};
    let seen = Arc::new(Mutex::new(None::<Shared>));
    let ask = seen.clone();
    let p = torch::nn::Parameter::new(torch::ones([1]));
    let mut o = torch::optim::SGDOptions::new().lr(0.1).build([&p]);
    let s = LambdaLR::new(&mut o, move |e| {
        let s = ask.lock().unwrap().clone();
        if let Some(s) = s {
            assert!(matches!(s.state_dict(), Tree::None));
        }
        0.5f64.powi(e as i32)
    });
    let mut s = Shared::new(Box::new(s));
    *seen.lock().unwrap() = Some(s.clone());
    s.try_step(&mut o).unwrap();
    assert_eq!(s.get_last_lr(), [0.05]);
    *seen.lock().unwrap() = None;
}

/// A tensor without elements may have any number of rows: lists of them are an error where there is no memory for so many.
#[test]
fn lists_of_rows_that_no_memory_holds() {
    let t = ops::zeros(&[1 << 62, 0], None, None, None, None).expect("nothing");
    assert!(t.try_tolist().is_err() && t.try_to_nested::<Vec<Vec<f32>>>().is_err());
}
