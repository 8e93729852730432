//! The pool's figures, in a process that no other test uses.

use flambeau_memory::pool;

#[test]
fn the_figures_add_up() {
    flambeau_test_support::alone!();
    if std::env::var_os("FLAMBEAU_POOL").is_some_and(|v| v == "off") {
        return;
    }
    let a = pool::alloc(1000).unwrap();
    let b = pool::alloc(4 << 20).unwrap();
    let s = pool::stats();
    assert_eq!((s.allocated, s.reserved, s.misses, s.hits), (1024 + (4 << 20), 1024 + (4 << 20), 2, 0));
    drop((a, b));
    let s = pool::stats();
    assert_eq!((s.allocated, s.reserved, s.cached), (0, 1024 + (4 << 20), 4 << 20));
    // 12.5 % is the worst fit that is taken.
    let c = pool::alloc((4 << 20) - (300 << 10)).unwrap();
    assert_eq!((c.capacity(), pool::stats().hits), (4 << 20, 1));
    drop(c);
    // Of a larger block a part, where that is possible.
    let c = pool::alloc(3 << 20).unwrap();
    let more = if cfg!(target_os = "linux") { 0 } else { 3 << 20 };
    assert_eq!((c.capacity(), pool::stats().reserved), (3 << 20, 1024 + (4 << 20) + more));
    drop(c);
    // Freed elsewhere: the sums over threads still fit, also when that thread is gone.
    let many: Vec<_> = (0..500).map(|_| pool::alloc(300).unwrap()).collect();
    assert_eq!(pool::stats().allocated, 500 * 512);
    std::thread::spawn(move || drop(many)).join().unwrap();
    assert_eq!(pool::stats().allocated, 0);
    let before = pool::stats();
    let many: Vec<_> = (0..500).map(|_| pool::alloc(300).unwrap()).collect();
    let s = pool::stats();
    assert_eq!((s.hits - before.hits, s.misses), (500, before.misses));
    drop(many);
    pool::empty_cache();
    let s = pool::stats();
    assert_eq!((s.allocated, s.reserved, s.cached), (0, 0, 0));
    assert!(s.peak >= (4 << 20) + 1024);
    // Beyond the bound (here 256 MB) nothing is kept.
    let big: Vec<_> = (0..5).map(|_| pool::alloc(100 << 20).unwrap()).collect();
    assert_eq!(pool::stats().reserved, 500 << 20);
    drop(big);
    assert!(pool::stats().cached <= 256 << 20);
}
