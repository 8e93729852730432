//! A turn: work is seen whole, a thread may take it again, and a panic gives it back.

use flambeau_memory::turn::{Turn, this_thread};
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn whoever_finds_it_taken_sees_the_work_done() {
    static TURN: Turn = Turn::new();
    static DONE: AtomicU32 = AtomicU32::new(0);
    std::thread::scope(|s| {
        let (begun, wait) = std::sync::mpsc::channel();
        s.spawn(move || {
            let _outer = TURN.take();
            let inner = TURN.take();
            begun.send(()).unwrap();
            // time for the other thread to come too early, if it can
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(inner);
            assert!(!TURN.is_free());
            DONE.store(7, Ordering::Relaxed);
        });
        wait.recv().unwrap();
        assert!(!TURN.is_free());
        let _mine = TURN.take();
        assert_eq!(DONE.load(Ordering::Relaxed), 7);
    });
    assert!(TURN.is_free());
}

#[test]
fn a_panic_gives_it_back() {
    let turn = Turn::new();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _taken = turn.take();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(done.is_err() && turn.is_free());
}

#[test]
fn threads_have_numbers_of_their_own() {
    let (mine, other) = (this_thread(), std::thread::scope(|s| s.spawn(this_thread).join().unwrap()));
    assert!(mine != other && mine != 0 && mine == this_thread());
}
