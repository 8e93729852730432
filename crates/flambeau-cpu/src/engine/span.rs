//! What sizes and steps reach, by arithmetic that cannot wrap. Bounds are computed here and nowhere else: a product that
//! wraps would let a kernel read behind its slice.
#![deny(clippy::arithmetic_side_effects)]

/// The product of sizes.
///
/// # Panics
/// When it does not fit: no slice has so many elements, so a caller's check would fail as well.
#[inline]
#[track_caller]
pub fn product<const N: usize>(sizes: [usize; N]) -> usize {
    match product_of(&sizes) {
        Some(n) => n,
        None => too_large(),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn too_large() -> ! {
    panic!("the product of the sizes does not fit in 64 bits")
}

/// The product of sizes, if it fits. A size of 0 gives 0, whatever the others are.
#[inline]
pub fn product_of(sizes: &[usize]) -> Option<usize> {
    if sizes.contains(&0) {
        return Some(0);
    }
    sizes.iter().try_fold(1usize, |n, s| n.checked_mul(*s))
}

/// Elements from the first to the last that these sizes and steps reach, both included; 0 without elements. `None` where
/// that does not fit.
#[inline]
pub fn reach(dims: &[(usize, usize)]) -> Option<usize> {
    if dims.iter().any(|d| d.0 == 0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |end, (n, step)| end.checked_add(n.saturating_sub(1).checked_mul(*step)?))
}

/// Whether everything that these sizes and steps reach lies in a slice of `len` elements.
#[inline]
pub fn fits(dims: &[(usize, usize)], len: usize) -> bool {
    reach(dims).is_some_and(|end| end <= len)
}

/// Elements of scratch memory that any call may have, however little it reads and writes.
const FREE: usize = 1 << 16;

/// Whether `scratch` elements of work memory are in proportion to the `moved` ones that a kernel reads and writes. What is
/// not is computed in another way: sizes of a call that are no sizes of its tensors (padding, strides, dilation) would
/// decide otherwise how much memory it takes.
pub(crate) fn in_proportion(scratch: Option<usize>, moved: usize) -> bool {
    scratch.is_some_and(|n| n <= moved.saturating_mul(32).max(FREE))
}

/// Whether different coordinates are known to be different places: each step is beyond all that the smaller ones reach.
pub fn apart<const N: usize>(mut dims: [(usize, usize); N]) -> bool {
    dims.sort_unstable_by_key(|d| d.1);
    let mut far = 0usize;
    for (n, step) in dims {
        if n <= 1 {
            continue;
        }
        if step <= far {
            return false;
        }
        match n.saturating_sub(1).checked_mul(step).and_then(|x| x.checked_add(far)) {
            Some(further) => far = further,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{FREE, apart, fits, in_proportion, product_of, reach};

    #[test]
    fn scratch_follows_what_is_moved() {
        assert!(in_proportion(Some(FREE), 0) && in_proportion(Some(320_000), 10_000));
        assert!(!in_proportion(Some(FREE + 1), 0) && !in_proportion(None, usize::MAX));
        assert!(in_proportion(Some(usize::MAX), usize::MAX));
    }

    /// Against numbers that hold everything.
    #[test]
    fn as_in_wide_numbers() {
        let parts =
            [0, 1, 2, 3, 5, 1 << 16, (1 << 31) - 1, 1 << 32, (1 << 33) + 1, usize::MAX / 2, usize::MAX];
        for a in parts {
            for b in parts {
                for c in parts {
                    let wide = [a, b, c].iter().try_fold(1u128, |n, s| n.checked_mul(*s as u128));
                    let want = if [a, b, c].contains(&0) { Some(0) } else { wide };
                    assert_eq!(product_of(&[a, b, c]), want.and_then(|n| n.try_into().ok()));
                    for d in parts {
                        // two such products can leave even these numbers
                        let part = |n: usize, step: usize| (n as u128).saturating_sub(1) * step as u128;
                        let end = part(a, b).saturating_add(part(c, d)).saturating_add(1);
                        let end = if a == 0 || c == 0 { 0 } else { end };
                        let got = reach(&[(a, b), (c, d)]);
                        assert_eq!(got, end.try_into().ok());
                        assert_eq!(fits(&[(a, b), (c, d)], 1 << 40), end <= 1 << 40);
                    }
                }
            }
        }
    }

    #[test]
    fn places_apart() {
        let small = [0usize, 1, 2, 3, 4, 6, 12];
        for (n, m, k) in [(2, 3, 2), (1, 2, 3), (3, 1, 1), (2, 2, 2)] {
            for a in small {
                for b in small {
                    for c in small {
                        let mut seen = std::collections::HashSet::new();
                        let mut twice = false;
                        for i in 0..n {
                            for j in 0..m {
                                (0..k).for_each(|l| twice |= !seen.insert(i * a + j * b + l * c));
                            }
                        }
                        // what it lets through is apart; it may refuse more
                        assert!(!(apart([(n, a), (m, b), (k, c)]) && twice));
                    }
                }
            }
        }
        assert!(apart([(2, 6), (3, 2), (2, 1)]) && !apart([(2, usize::MAX), (3, usize::MAX)]));
    }
}
