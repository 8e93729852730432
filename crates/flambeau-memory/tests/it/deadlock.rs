//! Kernels that hold storages and work in parallel, called from user threads and from rayon tasks at once. With
//! rayon inside the kernels this hangs at once; with flambeau-cpu's parallel-for it must end.

use std::cell::UnsafeCell;
use std::panic::Location;
use std::sync::mpsc;
use std::time::Duration;

use crate::take::Take;
use flambeau_cpu::engine::parallel;
use flambeau_memory::{Holds, StorageLock};

const N: usize = 20_000;

struct Storage {
    lock: StorageLock,
    data: UnsafeCell<Vec<f32>>,
}
// SAFETY: `data` is touched only under `lock`.
unsafe impl Sync for Storage {}

struct Out(*mut f32);
// SAFETY: chunks write disjoint parts.
unsafe impl Sync for Out {}

impl Storage {
    fn new(v: f32) -> Self {
        Storage { lock: StorageLock::new(), data: UnsafeCell::new(vec![v; N]) }
    }
}

impl Out {
    /// # Safety
    /// `r` lies in the memory, which the caller holds for writing, and no other chunk has it.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, r: std::ops::Range<usize>) -> &mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(r.start), r.len()) }
    }
}

/// Long enough for other threads to take chunks and to run into the locks, on few cores too.
fn linger() {
    std::thread::sleep(Duration::from_micros(20));
}

/// `a += 1`, as a kernel: hold, then parallel parts.
fn add_one(a: &Storage) {
    let _h = Holds::one(&a.lock, true).unwrap();
    // SAFETY: held for writing.
    let out = Out(unsafe { (*a.data.get()).as_mut_ptr() });
    parallel::parallel_for(N, 4000, |r| {
        linger();
        // SAFETY: held for writing, and the ranges are disjoint.
        unsafe { out.part(r) }.iter_mut().for_each(|x| *x += 1.0);
    });
}

/// `a += b - b[0]`, which changes nothing but needs both.
fn add_zero(a: &Storage, b: &Storage) {
    if std::ptr::eq(a, b) {
        return;
    }
    let _h = Holds::two((&a.lock, true), (&b.lock, false)).unwrap();
    // SAFETY: held for writing.
    let out = Out(unsafe { (*a.data.get()).as_mut_ptr() });
    // SAFETY: held for reading.
    let b = unsafe { &*b.data.get() };
    parallel::parallel_for(N, 4000, |r| {
        linger();
        // SAFETY: held for writing, and the ranges are disjoint.
        unsafe { out.part(r.clone()) }.iter_mut().zip(&b[r]).for_each(|(x, y)| *x += y - b[0]);
    });
}

fn within<T: Send + 'static>(seconds: u64, what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(f()));
    receive.recv_timeout(Duration::from_secs(seconds)).unwrap_or_else(|_| panic!("{what}: deadlock or panic"))
}

fn check(storages: &[Storage], ops: usize) {
    let sum: f32 = storages
        .iter()
        .map(|s| {
            let _h = Holds::one(&s.lock, false).unwrap();
            // SAFETY: held for reading.
            let d = unsafe { &*s.data.get() };
            assert!(d.iter().all(|x| *x == d[0]));
            d[0]
        })
        .sum();
    assert_eq!(sum, ops as f32);
}

fn pool() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(6).build().unwrap()
}

#[test]
fn operators_in_rayon_tasks_end() {
    parallel::set_num_threads(6);
    within(60, "scope", || {
        let storages: Vec<Storage> = (0..3).map(|_| Storage::new(0.0)).collect();
        pool().scope(|s| {
            for i in 0..200 {
                let storages = &storages;
                s.spawn(move |_| {
                    add_one(&storages[i % 3]);
                    add_zero(&storages[i % 3], &storages[(i / 3 + 1) % 3]);
                });
            }
        });
        check(&storages, 200);
    });
}

#[test]
fn operators_in_tasks_and_plain_threads_end() {
    parallel::set_num_threads(6);
    within(60, "spawn", || {
        let storages: Vec<Storage> = (0..2).map(|_| Storage::new(0.0)).collect();
        let pool = pool();
        std::thread::scope(|t| {
            for k in 0..2 {
                let storages = &storages;
                t.spawn(move || {
                    for i in 0..100 {
                        add_one(&storages[(i + k) % 2]);
                        add_zero(&storages[i % 2], &storages[(i + 1) % 2]);
                    }
                });
            }
            pool.scope(|s| {
                for i in 0..200 {
                    let storages = &storages;
                    s.spawn(move |_| {
                        add_zero(&storages[i % 2], &storages[(i + 1) % 2]);
                        add_one(&storages[i % 2]);
                    });
                }
            });
        });
        check(&storages, 400);
    });
}

/// A guard and a kernel on one thread: an error, not a hang.
#[test]
fn a_guard_and_a_kernel_on_one_thread_end() {
    within(10, "guard", || {
        let s = Storage::new(0.0);
        s.lock.take_guard_read(Location::caller()).unwrap();
        assert!(Holds::one(&s.lock, true).is_err());
        // SAFETY: taken above.
        unsafe { s.lock.unlock_guard_read() };
        add_one(&s);
        check(std::slice::from_ref(&s), 1);
    });
}
