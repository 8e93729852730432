//! Short timings, printed on request: `cargo test --release -p flambeau-memory --test speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use flambeau_memory::{Holds, StorageLock, pool};

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

#[test]
#[ignore = "prints figures"]
fn figures() {
    for n in [4, 64, 512, 65_536] {
        ns(&format!("alloc+free {n}"), || drop(black_box(pool::alloc(black_box(n)))));
    }
    ns("alloc_zeroed+free 64", || drop(black_box(pool::alloc_zeroed(black_box(64)))));
    ns("alloc+free 8 MB", || drop(black_box(pool::alloc(black_box(8 << 20)))));
    let l: Vec<StorageLock> = (0..12).map(|_| StorageLock::new()).collect();
    ns("read+unlock", || drop(black_box(Holds::one(black_box(&l[0]), false))));
    ns("write+unlock", || drop(black_box(Holds::one(black_box(&l[0]), true))));
    ns("raw read+unlock", || {
        black_box(&l[0]).read_kernel().unwrap();
        // SAFETY: taken above.
        unsafe { black_box(&l[0]).unlock_read() }
    });
    ns("two", || drop(black_box(Holds::two(black_box((&l[1], false)), (&l[0], true)))));
    ns("two, same", || drop(black_box(Holds::two(black_box((&l[1], false)), (&l[1], true)))));
    ns("three", || drop(black_box(Holds::three(black_box((&l[1], false)), (&l[0], true), (&l[2], false)))));
    for n in [4, 8, 12] {
        let want: Vec<_> = l[..n].iter().rev().map(|l| (l, false)).collect();
        ns(&format!("of {n}"), || drop(black_box(Holds::of(black_box(&want)))));
    }
    ns("version", || {
        black_box(black_box(&l[0]).version());
    });
}
