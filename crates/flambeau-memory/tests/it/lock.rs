//! The storage lock: modes, refusals, mutual exclusion.

use std::cell::UnsafeCell;
use std::panic::Location;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::take::Take;
use flambeau_memory::{Busy, Holds, StorageLock};

#[track_caller]
fn here() -> &'static Location<'static> {
    Location::caller()
}

#[test]
fn kernels_fail_against_guards_with_the_place() {
    let l = StorageLock::new();
    let at = here();
    l.take_guard_read(at).unwrap();
    l.take_guard_read(at).unwrap();
    l.take_read().unwrap();
    // SAFETY: taken above.
    unsafe { l.unlock_read() };
    assert_eq!(l.take_write(), Err(Busy::Guard { at, exclusive: false }));
    assert_eq!(l.take_guard_write(here()), Err(Busy::Guard { at, exclusive: false }));
    assert!(l.take_write().unwrap_err().to_string().contains("lock.rs"));
    // SAFETY: taken above.
    unsafe { l.unlock_guard_read() };
    assert!(l.take_write().is_err());
    // A refused writer leaves no wish behind that would keep readers out.
    l.take_read().unwrap();
    // SAFETY: taken above.
    unsafe { (l.unlock_read(), l.unlock_guard_read()) };
    l.take_guard_write(at).unwrap();
    assert_eq!(l.take_read(), Err(Busy::Guard { at, exclusive: true }));
    assert_eq!(l.take_write(), Err(Busy::Guard { at, exclusive: true }));
    assert_eq!(l.take_guard_read(here()), Err(Busy::Guard { at, exclusive: true }));
    // SAFETY: taken above.
    unsafe { l.unlock_guard_write(true) };
    l.take_write().unwrap();
    // SAFETY: taken above.
    unsafe { l.unlock_write(false) };
    assert_eq!(l.version(), 1);
    l.bump_version();
    assert_eq!(l.version(), 2);
}

#[test]
fn sets_take_each_lock_once_and_all_or_none() {
    let ls: Vec<StorageLock> = (0..20).map(|_| StorageLock::new()).collect();
    for n in 0..=20 {
        // Reversed, each twice, the even ones for writing in one of their two requests.
        let want: Vec<_> = (0..n).rev().flat_map(|i| [(&ls[i], i % 2 == 0), (&ls[i], false)]).collect();
        let before: Vec<_> = ls.iter().map(|l| l.version()).collect();
        let h = Holds::of(&want).unwrap();
        assert_eq!(h.len(), n);
        drop(h);
        for i in 0..20 {
            assert_eq!(ls[i].version() - before[i], (i < n && i % 2 == 0) as u32, "{i} of {n}");
            assert!(format!("{:?}", ls[i]).contains("readers: 0, writer: false"));
        }
    }
    for n in 1..=20 {
        for blocked in 0..n {
            let before: Vec<_> = ls.iter().map(|l| l.version()).collect();
            ls[blocked].take_guard_read(here()).unwrap();
            let want: Vec<_> = ls[..n].iter().map(|l| (l, true)).collect();
            assert!(Holds::of(&want).is_err());
            // SAFETY: taken above.
            unsafe { ls[blocked].unlock_guard_read() };
            drop(Holds::of(&ls.iter().map(|l| (l, false)).collect::<Vec<_>>()).unwrap());
            assert_eq!(ls.iter().map(|l| l.version()).collect::<Vec<_>>(), before);
            let h = Holds::of(&want).unwrap();
            h.release_unwritten();
            assert_eq!(ls.iter().map(|l| l.version()).collect::<Vec<_>>(), before);
        }
    }
}

/// A storage whose two halves must agree, or a hold was broken.
struct Cell {
    lock: StorageLock,
    data: UnsafeCell<[u64; 2]>,
    readers: AtomicI64,
}
// SAFETY: `data` is touched only under `lock`.
unsafe impl Sync for Cell {}

impl Cell {
    fn write(&self) {
        assert_eq!(self.readers.fetch_sub(1000, Ordering::Relaxed), 0);
        // SAFETY: called under an exclusive hold.
        let d = unsafe { &mut *self.data.get() };
        d[0] += 1;
        std::hint::spin_loop();
        d[1] += 1;
        self.readers.fetch_add(1000, Ordering::Relaxed);
    }

    fn read(&self) {
        assert!(self.readers.fetch_add(1, Ordering::Relaxed) >= 0);
        // SAFETY: called under a shared hold.
        let d = unsafe { &*self.data.get() };
        assert_eq!(d[0], d[1]);
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn hammer() {
    let cells: Vec<Cell> = (0..5)
        .map(|_| Cell { lock: StorageLock::new(), data: UnsafeCell::new([0; 2]), readers: AtomicI64::new(0) })
        .collect();
    let rounds = if std::env::var_os("FLAMBEAU_POOL").is_some() { 500 } else { 40_000 };
    let writes: Vec<u64> = std::thread::scope(|s| {
        let hs: Vec<_> = (0..6u64)
            .map(|t| {
                let cells = &cells;
                s.spawn(move || {
                    let mut seed = t + 1;
                    let mut wrote = 0;
                    let mut seen = [0u32; 5];
                    for _ in 0..rounds {
                        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        let r = (seed >> 33) as usize;
                        let (i, j, k) = (r % 5, r / 5 % 5, r / 25 % 5);
                        match r / 125 % 16 {
                            0 => {
                                if cells[i].lock.take_guard_read(here()).is_ok() {
                                    cells[i].read();
                                    std::thread::yield_now();
                                    // SAFETY: taken above.
                                    unsafe { cells[i].lock.unlock_guard_read() };
                                }
                            }
                            1 => {
                                if cells[i].lock.take_guard_write(here()).is_ok() {
                                    cells[i].write();
                                    std::thread::yield_now();
                                    wrote += 1;
                                    // SAFETY: taken above.
                                    unsafe { cells[i].lock.unlock_guard_write(true) };
                                }
                            }
                            2..6 => {
                                if let Ok(_h) = Holds::one(&cells[i].lock, false) {
                                    cells[i].read();
                                    if r & 1024 != 0 {
                                        std::thread::yield_now();
                                    }
                                }
                            }
                            _ => {
                                let want = [
                                    (&cells[i].lock, true),
                                    (&cells[j].lock, false),
                                    (&cells[k].lock, false),
                                    (&cells[i].lock, false),
                                ];
                                if let Ok(_h) = Holds::of(&want[..1 + r / 2048 % 4]) {
                                    cells[i].write();
                                    wrote += 1;
                                    if r & 1024 != 0 {
                                        std::thread::yield_now();
                                    }
                                }
                            }
                        }
                        let v = cells[i].lock.version();
                        assert!(v >= seen[i]);
                        seen[i] = v;
                    }
                    wrote
                })
            })
            .collect();
        hs.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let versions: u64 = cells.iter().map(|c| c.lock.version() as u64).sum();
    assert_eq!(versions, writes.iter().sum::<u64>());
    assert!(cells.iter().all(|c| c.data.get().addr() != 0 && c.lock.version() > 0));
}
