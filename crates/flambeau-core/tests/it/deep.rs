//! What owns things of its own kind without end is dropped in a loop.

use flambeau_core::types::deep::Deep;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Chain(#[allow(dead_code)] Option<Deep<Box<Chain>>>, Arc<AtomicUsize>);
impl Drop for Chain {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}
fn chain(n: usize, count: &Arc<AtomicUsize>) -> Chain {
    (0..n).fold(Chain(None, count.clone()), |c, _| Chain(Some(Deep::new(Box::new(c))), count.clone()))
}

#[test]
fn owners_of_owners_drop_in_a_loop_at_a_threads_end_too() {
    thread_local!(static KEPT: RefCell<Option<Chain>> = const { RefCell::new(None) });
    let count = Arc::new(AtomicUsize::new(0));
    drop(chain(1_000_000, &count));
    assert_eq!(count.swap(0, Ordering::Relaxed), 1_000_001);
    let long = chain(100_000, &count);
    std::thread::spawn(move || {
        drop(Deep::new(1));
        let _ = KEPT.try_with(|k| *k.borrow_mut() = Some(long));
    })
    .join()
    .expect("no panic");
    assert_eq!(count.load(Ordering::Relaxed), 100_001);
    assert_eq!(Deep::new(3).take(), 3);
}
