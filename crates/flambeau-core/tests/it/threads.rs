//! Several threads on one storage: through aliases, through guards on elements, and from a user's rayon tasks.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, ErrorKind, Result, Tensor, functions as torch, ops};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Under the memory checkers everything is many times slower.
fn checked() -> bool {
    std::env::var_os("FLAMBEAU_POOL").is_some_and(|v| v == "off")
}

/// Whether the call went through. The one refusal allowed is that somebody's guard borrows the storage.
fn done<T>(r: Result<T>) -> Option<T> {
    match r {
        Ok(v) => Some(v),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Storage, "{e}");
            assert!(e.message().contains("borrowed"), "{e}");
            None
        }
    }
}

fn uniform<T: PartialEq + std::fmt::Debug>(v: &[T], what: &str) {
    assert!(v.iter().all(|x| *x == v[0]), "{what}: a torn read of {:?} and others", v[0]);
}

/// Writers add one to all elements or to one half of them; readers must see each half as a whole. In the end every
/// successful write is there, once.
#[test]
fn hammer_one_storage_through_aliases() {
    const N: i64 = 4096;
    let x = torch::zeros([N]).to(DType::I64);
    let (low, high) = (x.narrow(0, 0, N / 2), x.narrow(0, N / 2, N / 2));
    let grid = x.view([64, 64]).transpose(0, 1);
    let one = torch::ones([1]).to(DType::I64);
    let version = x.version() as usize;
    let (full, lows, highs) = (AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    let (writes, reads, guards) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_millis(1000);
    let halves = |v: &[i64]| {
        uniform(&v[..v.len() / 2], "low half");
        uniform(&v[v.len() / 2..], "high half");
    };
    let add = |t: &Tensor, n: &AtomicI64| {
        if done(ops::add_(t, &one, 1.into())).is_some() {
            n.fetch_add(1, Ordering::SeqCst);
            writes.fetch_add(1, Ordering::SeqCst);
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| {
            while Instant::now() < end {
                add(&x, &full);
                add(&grid, &full);
            }
        });
        s.spawn(|| {
            while Instant::now() < end {
                add(&low, &lows);
                add(&high, &highs);
            }
        });
        // an operand that aliases what is written: x += x - x changes nothing, and must not deadlock on its own storage
        s.spawn(|| {
            while Instant::now() < end {
                if done(ops::add_(&low, &low, 0.into())).is_some() {
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        s.spawn(|| {
            while Instant::now() < end {
                if let Some(v) = done(x.try_to_vec::<i64>()) {
                    halves(&v);
                    reads.fetch_add(1, Ordering::SeqCst);
                }
                if let Some(c) = done(ops::to_copy(&x, Some(DType::F64), None, None, None, false, None)) {
                    let v = c.to_vec::<f64>();
                    uniform(&v[..v.len() / 2], "cast, low half");
                    uniform(&v[v.len() / 2..], "cast, high half");
                }
                if let Some(t) = done(ops::sum(&high, None, false, None)) {
                    assert_eq!(t.item::<i64>() % (N / 2), 0, "a torn sum");
                }
                if let Some(v) = done(ops::view(&low, &[32, 64]).and_then(|v| v.try_to_vec::<i64>())) {
                    uniform(&v, "view");
                }
            }
        });
        s.spawn(|| {
            while Instant::now() < end {
                if let Some(d) = done(x.try_elements::<i64>()) {
                    halves(&d);
                    std::hint::black_box(d.len());
                    halves(&d);
                    guards.fetch_add(1, Ordering::SeqCst);
                }
                std::thread::yield_now();
                if let Some(mut d) = done(x.try_elements_mut::<i64>()) {
                    halves(&d);
                    d.iter_mut().for_each(|v| *v += 1);
                    full.fetch_add(1, Ordering::SeqCst);
                    writes.fetch_add(1, Ordering::SeqCst);
                    drop(d);
                    guards.fetch_add(1, Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
    });
    let v = x.to_vec::<i64>();
    let n = |a: &AtomicI64| a.load(Ordering::SeqCst);
    assert!(
        v[..N as usize / 2].iter().all(|e| *e == n(&full) + n(&lows)),
        "low half: a write was lost or doubled"
    );
    assert!(
        v[N as usize / 2..].iter().all(|e| *e == n(&full) + n(&highs)),
        "high half: a write was lost or doubled"
    );
    let counted = |a: &AtomicUsize| a.load(Ordering::SeqCst);
    assert_eq!(x.version() as usize - version, counted(&writes), "each write counts once");
    assert!(
        n(&full) > 0 && n(&lows) > 0 && counted(&reads) > 0 && counted(&guards) > 0,
        "every thread had its turn"
    );
    drop(x.try_elements_mut::<i64>().expect("no hold is left behind"));
}

/// A view whose elements share memory is written by one thread: two would race, and the result would be another each time.
#[test]
fn views_over_themselves_have_one_writer() {
    let n = if checked() { 1 << 10 } else { 1 << 18 };
    let run = || {
        let x = torch::zeros([n + 2]);
        let over = ops::unfold(&x, 0, 3, 1).unwrap();
        for _ in 0..3 {
            ops::add_(&over, &torch::ones([1]), 1.into()).unwrap();
            ops::copy_(&ops::t(&over).unwrap(), &torch::ones([n]), false).unwrap();
            ops::add_(&over, &over, 1.into()).unwrap();
        }
        x.to_vec::<f32>()
    };
    let first = run();
    for _ in 0..5 {
        assert_eq!(run(), first);
    }
}

/// A guard and a kernel on one thread: an error at once that names the guard's place, not a hang.
#[test]
fn a_guard_refuses_writers_of_its_own_thread() {
    let x = torch::zeros([8]);
    let alias = x.view([2, 4]);
    let d = x.elements::<f32>();
    let e = ops::add_(&alias, &torch::ones([1]), 1.into()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Storage);
    assert!(e.message().contains("borrowed") && e.message().contains("threads.rs"), "{e}");
    assert_eq!(ops::sum(&alias, None, false, None).unwrap().item::<f32>(), 0.0, "readers share");
    drop(d);
    let m = x.elements_mut::<f32>();
    assert!(ops::sum(&alias, None, false, None).is_err());
    assert!(x.try_elements::<f32>().is_err());
    drop(m);
    ops::add_(&alias, &torch::ones([1]), 1.into()).unwrap();
    assert_eq!(x.to_vec::<f32>(), [1.0; 8]);
}

/// A deadline is a moment, however long it is from now.
#[test]
fn no_time_is_too_long() {
    use flambeau_core::types::time::deadline;
    for d in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_millis(1), Duration::ZERO] {
        assert!(deadline(d) >= Instant::now() - Duration::from_secs(1));
    }
}

/// Runs `f` on a thread of its own and fails if it has not ended in time: a deadlock must not hang the whole run.
fn within(limit: Duration, name: &str, f: impl FnOnce() + Send + 'static) {
    let (tx, rx) = mpsc::channel();
    let t = std::thread::spawn(move || {
        f();
        let _ = tx.send(());
    });
    match rx.recv_timeout(limit) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(p) = t.join() {
                std::panic::resume_unwind(p);
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name}: not done after {limit:?}: deadlock"),
    }
}

/// Large enough that the kernels work in parallel while they hold the storage.
fn large() -> Tensor {
    torch::zeros([if checked() { 1 << 14 } else { 1 << 19 }])
}

fn operation(i: usize, a: &Tensor, b: &Tensor) {
    match i % 4 {
        0 => ops::add_(a, &torch::ones([1]), 1.into()),
        1 => ops::add_(b, &torch::ones([1]), 1.into()),
        // both storages, in both orders
        2 => ops::add_(a, b, 0.into()),
        _ => ops::add_(b, a, 0.into()),
    }
    .unwrap();
    if i.is_multiple_of(10) {
        ops::sum(a, None, false, None).unwrap();
    }
}

// rayon is what a user may use; the ban is on kernels
#[allow(clippy::disallowed_methods)]
#[test]
fn rayon_tasks_on_the_same_tensors_end() {
    let limit = Duration::from_secs(120);
    let n = if checked() { 40 } else { 200 };
    within(limit, "tasks of a rayon scope, 6 threads", move || {
        let (a, b) = (large(), large());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(6).build().unwrap();
        pool.scope(|s| {
            for i in 0..n {
                let (a, b) = (&a, &b);
                s.spawn(move |_| operation(i, a, b));
            }
        });
        let want = (n / 4) as f32;
        assert!(a.to_vec::<f32>().iter().chain(&b.to_vec::<f32>()).all(|v| *v == want));
    });
    within(limit, "nested joins", move || {
        let a = large();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(6).build().unwrap();
        fn split(n: usize, a: &Tensor) {
            if n <= 1 {
                ops::add_(a, &torch::ones([1]), 1.into()).unwrap();
            } else {
                rayon::join(|| split(n / 2, a), || split(n - n / 2, a));
            }
        }
        pool.install(|| split(n / 2, &a));
        assert!(a.to_vec::<f32>().iter().all(|v| *v == (n / 2) as f32));
    });
    within(limit, "a plain thread and rayon::spawn", move || {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        static FAILED: AtomicBool = AtomicBool::new(false);
        let (a, b) = (large(), large());
        LEFT.store(n, Ordering::SeqCst);
        for i in 0..n {
            let (a2, b2) = (a.clone(), b.clone());
            rayon::spawn(move || {
                let call = std::panic::AssertUnwindSafe(|| operation(i, &a2, &b2));
                if std::panic::catch_unwind(call).is_err() {
                    FAILED.store(true, Ordering::SeqCst);
                }
                LEFT.fetch_sub(1, Ordering::SeqCst);
            });
            operation(i, &a, &b);
        }
        while LEFT.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        assert!(!FAILED.load(Ordering::SeqCst));
        assert!(a.to_vec::<f32>().iter().all(|v| *v == (n / 2) as f32));
    });
}
