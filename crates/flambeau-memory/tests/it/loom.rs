//! A model of the lock's word: every interleaving of a few threads.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p flambeau-memory loom`

use std::panic::Location;

use crate::take::Take;
use flambeau_memory::turn::Turn;
use flambeau_memory::{Busy, Few, StorageLock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Storage {
    lock: StorageLock,
    data: UnsafeCell<u32>,
}
// SAFETY: `data` is touched only under `lock`; loom checks that.
unsafe impl Sync for Storage {}
// SAFETY: a number and a lock.
unsafe impl Send for Storage {}

fn storage() -> Arc<Storage> {
    Arc::new(Storage { lock: StorageLock::new(), data: UnsafeCell::new(0) })
}

/// Two storages that lie in one order in every run: locks are taken by their addresses, and loom repeats runs.
fn two() -> Arc<[Storage; 2]> {
    let one = || Storage { lock: StorageLock::new(), data: UnsafeCell::new(0) };
    Arc::new([one(), one()])
}

#[track_caller]
fn here() -> &'static Location<'static> {
    Location::caller()
}

impl Storage {
    fn write(&self) -> Result<(), Busy> {
        self.lock.take_write()?;
        // SAFETY: exclusive hold.
        self.data.with_mut(|d| unsafe { *d += 1 });
        // SAFETY: taken above.
        unsafe { self.lock.unlock_write(true) };
        Ok(())
    }

    fn read(&self) -> Result<u32, Busy> {
        self.lock.take_read()?;
        // SAFETY: shared hold.
        let v = self.data.with(|d| unsafe { *d });
        // Nobody can write now, so version and data agree.
        assert_eq!(self.lock.version(), v);
        // SAFETY: taken above.
        unsafe { self.lock.unlock_read() };
        Ok(v)
    }

    fn guard_read(&self) -> Result<u32, Busy> {
        self.lock.take_guard_read(here())?;
        // SAFETY: shared hold.
        let v = self.data.with(|d| unsafe { *d });
        // SAFETY: taken above.
        unsafe { self.lock.unlock_guard_read() };
        Ok(v)
    }

    fn guard_write(&self) -> Result<(), Busy> {
        self.lock.take_guard_write(here())?;
        // SAFETY: exclusive hold.
        self.data.with_mut(|d| unsafe { *d += 1 });
        // SAFETY: taken above.
        unsafe { self.lock.unlock_guard_write(true) };
        Ok(())
    }

    fn rests(&self) {
        let text = format!("{:?}", self.lock);
        assert!(text.contains("readers: 0, writer: false"), "{text}");
        assert!(self.read().is_ok(), "a wish or a guard was left behind");
        assert!(self.write().is_ok());
    }
}

/// Runs the operations on threads, two at most beside the main one.
fn model(bound: usize, ops: &'static [fn(&Storage)]) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(bound);
    b.check(move || {
        let s = storage();
        let hs: Vec<_> = ops[1..]
            .iter()
            .map(|op| {
                let s = s.clone();
                thread::spawn(move || op(&s))
            })
            .collect();
        ops[0](&s);
        for h in hs {
            h.join().unwrap();
        }
        s.rests();
    });
}

#[test]
fn loom_two_writers() {
    model(4, &[|s| s.write().unwrap(), |s| s.write().unwrap()]);
}

#[test]
fn loom_writers_and_reader() {
    model(2, &[|s| s.write().unwrap(), |s| s.write().unwrap(), |s| assert!(s.read().unwrap() <= 2)]);
}

#[test]
fn loom_readers_and_writer() {
    model(
        2,
        &[|s| assert!(s.read().unwrap() <= 1), |s| assert!(s.read().unwrap() <= 1), |s| s.write().unwrap()],
    );
}

#[test]
fn loom_guard_and_writer() {
    // The writer waits for the guard's word before the guard is announced: it must then fail, not sleep.
    model(
        4,
        &[
            |s| assert!(s.guard_read().unwrap() <= 1),
            |s| {
                let _ = s.write();
            },
        ],
    );
}

/// A guard that stays until the writer has failed or passed: a lost wake or a sleep against a guard is a deadlock here.
#[test]
fn loom_guard_outlives_writer() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(4);
    b.check(|| {
        let s = storage();
        let t = {
            let s = s.clone();
            thread::spawn(move || s.write().is_ok())
        };
        s.lock.take_guard_read(here()).unwrap();
        let passed = t.join().unwrap();
        assert_eq!(s.lock.version(), passed as u32);
        // SAFETY: taken above.
        unsafe { s.lock.unlock_guard_read() };
        s.rests();
    });
}

/// The same with a reader that the failing writer's wish may have kept out.
#[test]
fn loom_guard_outlives_writer_and_reader() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(2);
    b.check(|| {
        let s = storage();
        let w = {
            let s = s.clone();
            thread::spawn(move || s.write().is_ok())
        };
        let r = {
            let s = s.clone();
            thread::spawn(move || s.read().unwrap())
        };
        s.lock.take_guard_read(here()).unwrap();
        w.join().unwrap();
        r.join().unwrap();
        // SAFETY: taken above.
        unsafe { s.lock.unlock_guard_read() };
        s.rests();
    });
}

/// Two waiting writers against one guard: the first to fail clears the wish of both.
#[test]
fn loom_guard_outlives_two_writers() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(2);
    b.check(|| {
        let s = storage();
        let ts: Vec<_> = (0..2)
            .map(|_| {
                let s = s.clone();
                thread::spawn(move || s.write().is_ok())
            })
            .collect();
        s.lock.take_guard_read(here()).unwrap();
        let passed: u32 = ts.into_iter().map(|t| t.join().unwrap() as u32).sum();
        assert_eq!(s.lock.version(), passed);
        // SAFETY: taken above.
        unsafe { s.lock.unlock_guard_read() };
        s.rests();
    });
}

#[test]
fn loom_exclusive_guard_and_reader() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(4);
    b.check(|| {
        let s = storage();
        let t = {
            let s = s.clone();
            thread::spawn(move || s.read().is_ok())
        };
        s.lock.take_guard_write(here()).unwrap();
        t.join().unwrap();
        // SAFETY: taken above.
        unsafe { s.lock.unlock_guard_write(false) };
        s.rests();
    });
}

#[test]
fn loom_two_guards() {
    model(
        4,
        &[
            |s| {
                let _ = s.guard_write();
            },
            |s| {
                let _ = s.guard_read();
            },
        ],
    );
}

#[test]
fn loom_refusals_are_true() {
    // With kernels only, nobody is ever refused; a guard that came and went before a kernel began refuses nobody.
    model(
        2,
        &[
            |s| {
                let _ = s.guard_read();
                s.write().unwrap();
            },
            |s| assert!(s.read().unwrap() <= 1),
        ],
    );
}

/// `to += from` as a small call makes it: both holds at once, whichever order the operands come in.
fn add(from: &Storage, to: &Storage) -> Result<(), Busy> {
    let holds = Few::new([&from.lock, &to.lock], 1)?;
    // SAFETY: shared hold.
    let v = from.data.with(|d| unsafe { *d });
    // SAFETY: exclusive hold.
    to.data.with_mut(|d| unsafe { *d += v + 1 });
    drop(holds);
    Ok(())
}

#[test]
fn loom_few_in_opposite_orders() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(|| {
        let both = two();
        let t = {
            let both = both.clone();
            thread::spawn(move || add(&both[0], &both[1]).unwrap())
        };
        let [x, y] = &*both;
        add(y, x).unwrap();
        t.join().unwrap();
        // SAFETY: the other thread has ended.
        let (vx, vy) = unsafe { (x.data.with(|d| *d), y.data.with(|d| *d)) };
        // One of the two saw what the other wrote.
        assert!((vx, vy) == (1, 2) || (vx, vy) == (2, 1), "{vx} {vy}");
        assert_eq!((x.lock.version(), y.lock.version()), (1, 1));
    });
}

#[test]
fn loom_few_of_one_storage() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(|| {
        let x = storage();
        let t = {
            let x = x.clone();
            thread::spawn(move || drop(Few::new([&x.lock, &x.lock, &x.lock], 2).unwrap()))
        };
        drop(Few::new([&x.lock, &x.lock], 5).unwrap());
        t.join().unwrap();
        assert_eq!(x.lock.version(), 1);
        let text = format!("{:?}", x.lock);
        assert!(text.contains("readers: 0, writer: false"), "{text}");
    });
}

#[test]
fn loom_few_beside_a_guard() {
    // A refusal on the second storage gives the first one back, without a write counted on it.
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(|| {
        let both = two();
        let t = {
            let both = both.clone();
            thread::spawn(move || {
                let [x, y] = &*both;
                let ok = add(x, y).is_ok();
                let back = add(y, x).is_ok();
                (ok, back)
            })
        };
        let [x, y] = &*both;
        let _ = y.guard_read();
        let (ok, back) = t.join().unwrap();
        assert_eq!((x.lock.version(), y.lock.version()), (u32::from(back), u32::from(ok)));
        assert!(format!("{:?}", x.lock).contains("readers: 0, writer: false"));
        assert!(format!("{:?}", y.lock).contains("readers: 0, writer: false"));
        assert!(back, "readers do not refuse readers");
    });
}

/// A program's kernel at a key of an existing operator, as flambeau-core's `dispatch/diverted.rs` puts it there and takes it
/// away: a slot that calls read without a lock, and a table behind a lock. Whoever is sent to the table runs the program's
/// kernel, or learns that it has ended and finds in the slot what stood there before; a slot never keeps the adaptor.
#[test]
fn kernels_come_and_go_under_calls() {
    use loom::sync::RwLock;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    const BEFORE: usize = 1;
    const ADAPTOR: usize = 2;
    /// What stood in the slot, and the kernels; `None` where nobody ever diverted.
    type Table = Option<(usize, Vec<u32>)>;
    struct Operator {
        slot: AtomicUsize,
        table: RwLock<Table>,
    }
    impl Operator {
        fn divert(&self, id: u32) {
            let mut table = self.table.write().unwrap();
            if let Some((_, kernels)) = &mut *table
                && !kernels.is_empty()
            {
                return kernels.push(id);
            }
            let before = self.slot.swap(ADAPTOR, Ordering::AcqRel);
            *table = Some((before, vec![id]));
        }
        fn restore(&self, id: u32) {
            let mut table = self.table.write().unwrap();
            let (before, kernels) = table.as_mut().unwrap();
            let n = kernels.len();
            kernels.retain(|k| *k != id);
            if kernels.is_empty() && n > 0 {
                self.slot.store(*before, Ordering::Release);
            }
        }
        /// The kernel that a call runs: a program's, or 0 for what stood there before.
        fn call(&self) -> u32 {
            loop {
                match self.slot.load(Ordering::Acquire) {
                    BEFORE => return 0,
                    ADAPTOR => {}
                    other => panic!("{other} in the slot"),
                }
                let table = self.table.read().unwrap();
                let (_, kernels) = table.as_ref().expect("sent here before the kernel stands in the table");
                if let Some(k) = kernels.last() {
                    return *k;
                }
            }
        }
    }
    loom::model(|| {
        let op = Arc::new(Operator { slot: AtomicUsize::new(BEFORE), table: RwLock::new(None) });
        let library = |id: u32| {
            let op = op.clone();
            thread::spawn(move || {
                op.divert(id);
                assert_ne!(op.call(), 0, "its own kernel or a later one");
                op.restore(id);
            })
        };
        let all = [library(1), library(2)];
        assert!(op.call() <= 2);
        for t in all {
            t.join().unwrap();
        }
        assert_eq!(op.slot.load(Ordering::Acquire), BEFORE);
        assert_eq!(op.call(), 0);
    });
}

/// Registration: a list that says what has begun, and the work itself. Whoever registers the same thing, or asks whether anything
/// is being registered, finds the work done; the one at work may ask again.
#[test]
fn loom_registrations_are_seen_whole() {
    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicU32, Ordering};
    struct Registry {
        turn: Turn,
        begun: Mutex<bool>,
        filled: AtomicU32,
    }
    impl Registry {
        fn register(&self) {
            let _turn = self.turn.take();
            if std::mem::replace(&mut *self.begun.lock().unwrap(), true) {
                return;
            }
            self.filled.fetch_add(1, Ordering::Relaxed);
            // a fill that calls an operator
            drop(self.turn.take());
            self.filled.fetch_add(1, Ordering::Relaxed);
        }
        fn look_up(&self) {
            let begun = *self.begun.lock().unwrap();
            if !self.turn.is_free() {
                drop(self.turn.take());
            }
            if begun {
                assert_eq!(self.filled.load(Ordering::Relaxed), 2);
            }
        }
    }
    loom::model(|| {
        let r = Arc::new(Registry { turn: Turn::new(), begun: Mutex::new(false), filled: AtomicU32::new(0) });
        let others: Vec<_> = (0..2)
            .map(|i| {
                let r = r.clone();
                thread::spawn(move || if i == 0 { r.register() } else { r.look_up() })
            })
            .collect();
        r.register();
        assert_eq!(r.filled.load(Ordering::Relaxed), 2);
        for t in others {
            t.join().unwrap();
        }
    });
}
