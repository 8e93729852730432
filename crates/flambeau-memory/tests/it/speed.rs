//! Short timings, printed on request: `cargo test --release -p flambeau-memory --test it -- --ignored --nocapture speed`.

use std::hint::black_box;
use std::time::Instant;

use crate::take::Take;
use flambeau_memory::{Block, Busy, Holds, StorageLock, pool};

fn ns(name: &str, mut f: impl FnMut()) {
    const N: u32 = 20_000;
    let mut best = f64::MAX;
    for _ in 0..50 {
        let t = Instant::now();
        for _ in 0..N {
            f();
        }
        best = best.min(t.elapsed().as_secs_f64() * 1e9 / N as f64);
    }
    println!("{name:24} {best:6.1} ns");
}

/// The compiler must make the memory, but need not move the handle.
fn touch(b: &Option<Block>) {
    black_box(b.as_ref().map(|b| b.as_ptr()));
}

#[inline(always)]
fn hold(h: Result<Holds, Busy>) {
    let h = h.unwrap();
    black_box(h.len());
}

#[test]
#[ignore = "prints figures"]
fn figures() {
    for n in [4, 64, 512, 65_536] {
        ns(&format!("alloc+free {n}"), || touch(&pool::alloc(black_box(n))));
    }
    ns("alloc_zeroed+free 64", || touch(&pool::alloc_zeroed(black_box(64))));
    ns("alloc+free 8 MB", || touch(&pool::alloc(black_box(8 << 20))));
    let l: Vec<StorageLock> = (0..12).map(|_| StorageLock::new()).collect();
    ns("read+unlock", || hold(Holds::one(black_box(&l[0]), false)));
    ns("write+unlock", || hold(Holds::one(black_box(&l[0]), true)));
    ns("raw read+unlock", || {
        black_box(&l[0]).take_read().unwrap();
        // SAFETY: taken above.
        unsafe { black_box(&l[0]).unlock_read() }
    });
    ns("two", || hold(Holds::two(black_box((&l[1], false)), (&l[0], true))));
    ns("two, same", || hold(Holds::two(black_box((&l[1], false)), (&l[1], true))));
    ns("three", || hold(Holds::three(black_box((&l[1], false)), (&l[0], true), (&l[2], false))));
    for n in [4, 8, 12] {
        let want: Vec<_> = l[..n].iter().rev().map(|l| (l, false)).collect();
        ns(&format!("of {n}"), || hold(Holds::of(black_box(&want))));
    }
    ns("version", || {
        black_box(black_box(&l[0]).version());
    });
}
