//! The pool: contents, reuse, bounds, threads.
#![allow(clippy::disallowed_methods, reason = "the test's own thread-locals, while its threads live")]

use std::sync::mpsc;

use flambeau_memory::{Block, pool};

#[allow(clippy::mut_from_ref)]
fn bytes(b: &Block) -> &mut [u8] {
    // SAFETY: the block is owned by this test and initialised.
    unsafe { std::slice::from_raw_parts_mut(b.as_ptr(), b.len()) }
}

fn off() -> bool {
    std::env::var_os("FLAMBEAU_POOL").is_some_and(|v| v == "off")
}

#[test]
fn every_size_is_aligned_disjoint_and_zeroed_on_request() {
    let mut live = Vec::new();
    for round in 0..2 {
        for &n in &[0, 1, 63, 64, 65, 512, 4096, 4097, 1 << 20, (1 << 20) + 1, 3 << 20, (5 << 20) + 77] {
            let b = pool::alloc_zeroed(n).unwrap();
            assert_eq!((b.len(), b.as_ptr().addr() % 64), (n, 0), "{n}");
            assert!(b.capacity() >= n);
            assert!(bytes(&b).iter().all(|x| *x == 0), "{n} in round {round}");
            bytes(&b).fill(0xa5);
            live.push(b);
        }
        let mut ends: Vec<_> =
            live.iter().map(|b| (b.as_ptr().addr(), b.as_ptr().addr() + b.len())).collect();
        ends.sort_unstable();
        assert!(ends.windows(2).all(|w| w[0].1 <= w[1].0));
        live.clear();
    }
}

#[test]
fn absurd_sizes_are_refused() {
    for n in [usize::MAX, isize::MAX as usize, 1 << 60] {
        assert!(pool::alloc(n).is_none());
        assert!(pool::alloc_zeroed(n).is_none());
    }
}

#[test]
fn freed_blocks_are_used_again() {
    if off() {
        return;
    }
    for n in [100, 70_000, 9 << 20] {
        let b = pool::alloc(n).unwrap();
        let at = b.as_ptr();
        drop(b);
        let again = pool::alloc(n).unwrap();
        if n < 1 << 20 {
            assert_eq!(again.as_ptr(), at, "{n}");
        }
        drop(again);
    }
}

#[test]
fn blocks_cross_threads() {
    let (send, receive) = mpsc::sync_channel::<(u8, Block)>(256);
    let consumer = std::thread::spawn(move || {
        let mut n = 0usize;
        let mut kept = Vec::new();
        for (mark, b) in receive {
            assert!(bytes(&b).iter().all(|x| *x == mark));
            n += 1;
            if n.is_multiple_of(7) {
                kept.push(b);
            }
            if kept.len() > 40 {
                kept.clear();
            }
        }
        n
    });
    let producers: Vec<_> = (0..4u8)
        .map(|t| {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut seed = 12345u32 + t as u32;
                for i in 0..3000 {
                    seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
                    let size = match i % 100 {
                        0 => (1 << 20) + (seed >> 12) as usize,
                        1..10 => (seed >> 16) as usize,
                        _ => (seed >> 22) as usize,
                    };
                    let b = if i % 2 == 0 { pool::alloc(size) } else { pool::alloc_zeroed(size) }.unwrap();
                    bytes(&b).fill(t + 1);
                    send.send((t + 1, b)).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    for p in producers {
        p.join().unwrap();
    }
    assert_eq!(consumer.join().unwrap(), 12_000);
}

#[test]
fn a_block_may_die_in_a_thread_local_destructor() {
    use std::cell::RefCell;
    thread_local! {
        static KEPT: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
    }
    for _ in 0..20 {
        std::thread::spawn(|| {
            KEPT.with(|k| k.borrow_mut().extend((0..100).map(|i| pool::alloc(i * 40).unwrap())));
            drop(pool::alloc(64));
        })
        .join()
        .unwrap();
    }
}
