//! Joining contiguous tensors, row by row of the result.

use crate::engine::SharedMut;
use crate::engine::cache::{copy_run, finish, streams};
use crate::engine::erase::erased;
use crate::engine::parallel::{num_threads, parallel_for};
use crate::engine::room::collected;
use crate::reduction::fold::GRAIN;
use crate::{Any, AnyMut};

/// Bytes that a part gives to a row from which on copying row by row pays off.
const RUN: usize = 128;

/// Whether [`join`] suits parts that give so many bytes to each of so many rows: short runs are better moved column by column.
pub fn suits(parts: usize, rows: usize, row_bytes: usize) -> bool {
    rows > 0 && row_bytes >= RUN * parts
}

/// `out[r] = parts[0][r] ++ parts[1][r] ++ ..` for each of `rows` rows. The result is written front to back, which its memory
/// takes faster than one part after the other. `None` where the dtypes differ.
///
/// # Panics
/// When a part is no whole number of rows, or `out` is not as long as all parts together.
pub fn join(parts: &[Any], rows: usize, out: AnyMut) -> Option<()> {
    if parts.iter().any(|p| p.dtype() != out.dtype()) {
        return None;
    }
    let out = out.as_bits();
    erased!(out, T in [BYTE, UINT, COMPLEX, C32, BC32] => {
        let parts: Vec<&[T]> = collected(parts.iter().map(|p| p.as_bits().get()));
        join_typed(&parts, rows, out.get())
    })
}

fn join_typed<T: Copy + Send + Sync>(parts: &[&[T]], rows: usize, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    assert!(parts.iter().all(|p| p.len().is_multiple_of(rows)), "join: a part of broken rows");
    assert_eq!(parts.iter().map(|p| p.len()).sum::<usize>(), out.len(), "join: a wrong number of results");
    let (width, all) = (out.len() / rows, 2 * size_of_val(out));
    let bytes = |part: &&[T]| size_of_val(*part) / rows;
    let stream = parts.iter().all(|p| streams(out.as_ptr().cast(), bytes(p), all));
    let len = out.len();
    let place = SharedMut::new(out);
    if rows < 4 * num_threads() {
        // few long rows are cut, at lines of memory so that each piece may be streamed
        let starts: Vec<usize> = collected(parts.iter().scan(0, |end, p| {
            let start = *end;
            *end += p.len() / rows;
            Some(start)
        }));
        let line = 64 / size_of::<T>();
        return parallel_for(len.div_ceil(line), GRAIN.div_ceil(line), |lines| {
            let (mut at, end) = (lines.start * line, len.min(lines.end * line));
            while at < end {
                let (row, column) = (at / width, at % width);
                // the last part that begins here or before: the empty ones before it have nothing to copy
                let k = starts.partition_point(|s| *s <= column) - 1;
                let n = parts[k].len() / rows;
                let from = &parts[k][row * n..][column - starts[k]..n];
                let from = &from[..from.len().min(end - at)];
                // SAFETY: each element is handled by one task.
                copy_run(unsafe { place.slice(at, from.len()) }, from, stream);
                at += from.len();
            }
            finish(stream);
        });
    }
    parallel_for(rows, GRAIN.div_ceil(width), |range| {
        for r in range {
            // SAFETY: each row is handled by one task.
            let mut row = unsafe { place.slice(r * width, width) };
            for part in parts {
                let n = part.len() / rows;
                let (head, rest) = row.split_at_mut(n);
                copy_run(head, &part[r * n..][..n], stream);
                row = rest;
            }
        }
        finish(stream);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_joined() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..6000).collect(), (10_000..10_000 + 9000).collect());
        let mut out = vec![0u32; 15_000];
        let none: [u32; 0] = [];
        let parts = [Any::new(&a[..]), Any::new(&none[..]), Any::new(&b[..])];
        assert_eq!(join(&parts, 3000, AnyMut::new(&mut out[..])), Some(()));
        for r in 0..3000 {
            assert_eq!(out[5 * r..][..2], a[2 * r..][..2]);
            assert_eq!(out[5 * r + 2..][..3], b[3 * r..][..3]);
        }
        // few rows, cut inside of the parts and between them
        for rows in [1, 2, 3] {
            let parts: Vec<Vec<u32>> =
                [7usize, 0, 40_000, 64, 23_331].iter().map(|n| (0..(n * rows) as u32).collect()).collect();
            let mut out = vec![u32::MAX; parts.iter().map(Vec::len).sum()];
            let all: Vec<Any> = parts.iter().map(|p| Any::new(&p[..])).collect();
            assert_eq!(join(&all, rows, AnyMut::new(&mut out[..])), Some(()));
            let row =
                |r: usize| parts.iter().flat_map(move |p| p[p.len() / rows * r..][..p.len() / rows].to_vec());
            assert!(out.iter().copied().eq((0..rows).flat_map(row)), "{rows}");
        }
        let other = [1i32];
        assert_eq!(join(&[Any::new(&other[..])], 1, AnyMut::new(&mut out[..1])), None);
    }
}
