//! The order in which divide and conquer goes through a matrix.

use crate::engine::parallel::{num_threads, parallel_chunks};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The place where a range is divided.
pub fn half(r: &Range<usize>) -> usize {
    r.start + r.len() / 2
}

/// Halves `0..n` until ranges have at most `least` places, which leaves `between` places out where a range is divided. Calls
/// `part` for the ranges that are not divided, and `join` for the others, after both halves. False, and no further calls, once
/// one has given that.
///
/// Ranges of one length are independent: where there are at least as many of them as threads, each has one thread; before the
/// root there are fewer, and each has all threads.
pub fn bottom_up(
    n: usize,
    least: usize,
    between: usize,
    part: impl Fn(Range<usize>) -> bool + Sync,
    join: impl Fn(Range<usize>) -> bool + Sync,
) -> bool {
    let mut levels = vec![vec![0..n]];
    while let Some(last) = levels.last() {
        let divided = last.iter().filter(|r| r.len() > least);
        let next: Vec<_> = divided.flat_map(|r| [r.start..half(r), half(r) + between..r.end]).collect();
        if next.is_empty() {
            break;
        }
        levels.push(next);
    }
    let good = AtomicBool::new(true);
    let one = |r: &Range<usize>| {
        if good.load(Ordering::Relaxed) {
            let done = if r.len() > least { join(r.clone()) } else { part(r.clone()) };
            good.fetch_and(done, Ordering::Relaxed);
        }
    };
    for level in levels.iter().rev() {
        if level.len() < num_threads() {
            level.iter().for_each(one);
        } else {
            parallel_chunks(level.len(), &|i| one(&level[i]));
        }
    }
    good.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn halves_come_before_the_whole() {
        for (n, between) in [(5, 0), (41, 0), (97, 1), (160, 1)] {
            let done = Mutex::new(Vec::new());
            let note = |r: Range<usize>| {
                done.lock().unwrap().push(r);
                true
            };
            assert!(bottom_up(n, 10, between, note, note));
            let done = done.into_inner().unwrap();
            assert_eq!(done.last(), Some(&(0..n)));
            for (at, r) in done.iter().enumerate().filter(|(_, r)| r.len() > 10) {
                for part in [r.start..half(r), half(r) + between..r.end] {
                    assert!(done[..at].contains(&part), "{part:?} before {r:?}");
                }
            }
        }
        assert!(!bottom_up(100, 10, 0, |r| r.start != 0, |_| true));
        assert!(!bottom_up(100, 10, 0, |_| true, |r| r.len() != 100));
    }
}
