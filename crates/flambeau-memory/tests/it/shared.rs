//! Counted handles and slots: counts, drops, threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::take::Take;
use flambeau_memory::{Few, Shared, Slot, StorageLock, arc_with};

struct Counted<'a>(&'a AtomicUsize, [u64; 20]);
impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_last_handle_drops_the_value() {
    let drops = AtomicUsize::new(0);
    let mut a = Shared::new(Counted(&drops, [7; 20]));
    assert!(Shared::get_mut(&mut a).is_some());
    let b = a.clone();
    assert!(Shared::same(&a, &b) && Shared::get_mut(&mut a).is_none());
    drop(a);
    assert_eq!((drops.load(Ordering::Relaxed), Shared::count(&b), b.1[19]), (0, 1, 7));
    drop(b);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    // the memory is used again, by another value
    let c = Shared::with(|| Counted(&drops, [8; 20]));
    assert_eq!(c.1, [8; 20]);
}

#[test]
fn threads_drop_a_value_once() {
    let drops = AtomicUsize::new(0);
    for _ in 0..200 {
        let a = Shared::new(Counted(&drops, [1; 20]));
        std::thread::scope(|s| {
            for _ in 0..4 {
                let mine = a.clone();
                s.spawn(move || {
                    for _ in 0..20 {
                        assert_eq!(mine.clone().1[3], 1);
                    }
                });
            }
            drop(a);
        });
    }
    assert_eq!(drops.load(Ordering::Relaxed), 200);
}

#[test]
fn a_slot_admits_one_thread() {
    let slot = Slot::new((0u64, 0u64));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..10_000 {
                    slot.with(|v| {
                        v.0 += 1;
                        v.1 += 1;
                        assert_eq!(v.0, v.1);
                    });
                }
            });
        }
    });
    assert_eq!(slot.with(|v| v.0), 40_000);
    // a panic leaves it free
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| slot.with(|_| panic!("inside"))));
    assert!(panics.is_err());
    assert_eq!(slot.with(|v| v.1), 40_000);
}

#[test]
fn arcs_are_made_in_place() {
    let drops = AtomicUsize::new(0);
    let a: Arc<Counted> = arc_with(|| Counted(&drops, [3; 20]));
    let weak = Arc::downgrade(&a);
    assert_eq!((a.1[5], Arc::strong_count(&a), Arc::weak_count(&a)), (3, 1, 1));
    drop(a);
    assert!(weak.upgrade().is_none());
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn few_takes_each_lock_once_or_none() {
    let locks = [StorageLock::new(), StorageLock::new(), StorageLock::new()];
    let [a, b, c] = [&locks[0], &locks[1], &locks[2]];
    let versions = || locks.each_ref().map(StorageLock::version);
    for order in [[a, b, c], [c, b, a], [b, c, a], [a, c, b]] {
        drop(Few::new(order, 3).expect("free"));
    }
    assert_eq!(versions(), [0, 0, 0]);
    drop(Few::new([c, a, c], 0).expect("free"));
    drop(Few::new([b, b], 1).expect("free"));
    drop(Few::new([a], 1).expect("free"));
    assert_eq!(versions(), [0, 1, 1]);
    // against a guard nothing stays held, and nothing counts as written
    let here = std::panic::Location::caller();
    b.take_guard_write(here).expect("free");
    assert!(Few::new([a, b, c], 0).is_err() && Few::new([c, b], 0).is_err());
    // SAFETY: the guard hold was taken above.
    unsafe { b.unlock_guard_write(false) };
    assert_eq!(versions(), [0, 1, 1]);
    for l in [a, b, c] {
        drop(Few::new([l], 0).expect("free again"));
    }
}
