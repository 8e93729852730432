//! bfloat16 products by tiles (AMX-BF16): one instruction multiplies 16 rows of 32 factors by 32 rows of 16, sixteen times what
//! a vector instruction for float32 does.

use super::{LEFT, RIGHT, panels};
use crate::blas::{RawMat, tiles};
use crate::engine::SharedMut;
use crate::engine::isa;
use crate::engine::scratch::with_scratch;
use half::bf16;
use std::sync::atomic::{AtomicU8, Ordering};

/// Rows of a tile, and pairs of neighbours in each.
const SIDE: usize = 16;
/// Terms of a sum in a tile.
const TERMS: usize = 2 * SIDE;
/// Rows and columns of the block that four tiles hold.
const BLOCK: usize = 2 * SIDE;
/// Terms of a sum taken at a time.
const DEPTH: usize = 1024;

/// Whether the machine has the tiles, and the system lets this process use them.
pub(super) fn available() -> bool {
    if isa::level() != isa::Level::V4 {
        return false;
    }
    static FOUND: AtomicU8 = AtomicU8::new(0);
    match FOUND.load(Ordering::Relaxed) {
        0 => {
            let found = ask();
            FOUND.store(1 + u8::from(found), Ordering::Relaxed);
            found
        }
        known => known == 2,
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn ask() -> bool {
    false
}
/// Bits by Intel's manual (CPUID leaf 7, XCR0); the system's part by Linux's `Documentation/arch/x86/xstate.rst`: a process asks
/// for the registers once, for all its threads.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn ask() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    const BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
    const OS_SAVES: u32 = 1 << 27;
    const TILE_STATE: u64 = 0b11 << 17;
    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        // SAFETY: register 0 exists wherever the system saves extended registers.
        unsafe { _xgetbv(0) }
    }
    let has = __cpuid(0).eax >= 7
        && __cpuid_count(7, 0).edx & BF16_AND_TILE == BF16_AND_TILE
        && __cpuid(1).ecx & OS_SAVES != 0;
    // SAFETY: OSXSAVE says that the instruction may be used.
    if !has || unsafe { enabled() } & TILE_STATE != TILE_STATE {
        return false;
    }
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let mut answer = ARCH_PRCTL;
    // SAFETY: this call of the system reads no memory; it changes what the process may use, and the two registers named.
    unsafe {
        std::arch::asm!("syscall", inout("rax") answer, in("rdi") ARCH_REQ_XCOMP_PERM, in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _, out("r11") _, options(nostack));
    }
    answer == 0
}

/// 32 rows of 32 sums.
type Sums = [f32; BLOCK * BLOCK];

/// As [`super::product`], by tiles.
///
/// # Safety
/// As there; [`available`] said yes.
pub(super) unsafe fn product(
    m: usize,
    n: usize,
    k: usize,
    a: RawMat<bf16>,
    b: RawMat<bf16>,
    out: &mut [f32],
) {
    // SAFETY: the caller's promise.
    unsafe { by_blocks(m, n, k, a, b, out, &block) }
}

/// The product by a function that multiplies two panels.
///
/// # Safety
/// The matrices are valid for these sizes.
unsafe fn by_blocks(
    m: usize,
    n: usize,
    k: usize,
    a: RawMat<bf16>,
    b: RawMat<bf16>,
    out: &mut [f32],
    block: &(dyn Fn(&[u32], &[u32], &mut Sums) + Sync),
) {
    let c = SharedMut::new(out);
    let depth = DEPTH.min(k.next_multiple_of(TERMS));
    tiles(m, n, k, &|i0, rows, j0, cols| {
        let (wide, high) = (RIGHT.min(cols).next_multiple_of(BLOCK), LEFT.min(rows).next_multiple_of(BLOCK));
        // one place for the sums of all blocks: it is written as a whole, and neither cleared nor copied
        let mut sums = [0f32; BLOCK * BLOCK];
        with_scratch::<u32, _>(depth / 2 * wide, |right| {
            with_scratch::<u32, _>(depth / 2 * high, |left| {
                for j in (j0..j0 + cols).step_by(RIGHT) {
                    let nj = RIGHT.min(j0 + cols - j);
                    for p in (0..k).step_by(DEPTH) {
                        let terms = DEPTH.min(k - p);
                        let pairs = terms.next_multiple_of(TERMS) / 2;
                        // SAFETY: a part of B.
                        unsafe { panels::<BLOCK>(terms, pairs, nj, b.at(p, j), right) };
                        for i in (i0..i0 + rows).step_by(LEFT) {
                            let ni = LEFT.min(i0 + rows - i);
                            // SAFETY: a part of A.
                            unsafe { rows_of_tiles(ni, terms, pairs, a.at(i, p), left) };
                            for (jb, right) in (0..nj).step_by(BLOCK).zip(right.chunks_exact(pairs * BLOCK)) {
                                let lefts = left.chunks_exact(pairs * BLOCK);
                                for (ib, left) in (0..ni).step_by(BLOCK).zip(lefts) {
                                    block(left, right, &mut sums);
                                    let (height, width) = (BLOCK.min(ni - ib), BLOCK.min(nj - jb));
                                    for (r, sums) in sums.chunks_exact(BLOCK).take(height).enumerate() {
                                        let to = c.ptr().wrapping_add((i + ib + r) * n + j + jb);
                                        // SAFETY: rows of different tasks and blocks are disjoint parts of C.
                                        let to = unsafe { std::slice::from_raw_parts_mut(to, width) };
                                        for (to, sum) in to.iter_mut().zip(sums) {
                                            *to = if p > 0 { *to + sum } else { *sum };
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            })
        })
    });
}

/// The left operand, 32 rows at a time: for each 32 terms two tiles, each with 16 rows of 32 neighbours. What is missing is zero.
///
/// # Safety
/// `mat` is valid for `m` x `terms`.
unsafe fn rows_of_tiles(m: usize, terms: usize, pairs: usize, mat: RawMat<bf16>, to: &mut [u32]) {
    for (i, part) in (0..m).step_by(BLOCK).zip(to.chunks_exact_mut(pairs * BLOCK)) {
        for (p, two) in (0..terms).step_by(TERMS).zip(part.chunks_exact_mut(BLOCK * SIDE)) {
            let few = TERMS.min(terms - p);
            for (r, row) in two.chunks_exact_mut(SIDE).enumerate() {
                if i + r >= m {
                    row.fill(0);
                    continue;
                }
                let from = mat.at(i + r, p);
                let term = |t: usize| {
                    if t < few {
                        // SAFETY: term `p + t` of row `i + r`, inside the matrix.
                        u32::from(unsafe { from.at(0, t).p.read() }.to_bits())
                    } else {
                        0
                    }
                };
                if mat.cs == 1 && few == TERMS {
                    // SAFETY: 32 neighbours in the row; both places have 64 bytes.
                    unsafe { from.p.cast::<u8>().copy_to_nonoverlapping(row.as_mut_ptr().cast(), 4 * SIDE) };
                } else {
                    row.iter_mut().enumerate().for_each(|(t, to)| *to = term(2 * t) | term(2 * t + 1) << 16);
                }
            }
        }
    }
}

/// What `ldtilecfg` reads: eight tiles of 16 rows of 64 bytes.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[repr(C, align(64))]
struct Shape([u8; 64]);
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
static SHAPE: Shape = {
    let mut s = [0; 64];
    s[0] = 1;
    let mut i = 0;
    while i < 8 {
        (s[16 + 2 * i], s[48 + i]) = (64, 16);
        i += 1;
    }
    Shape(s)
};

/// 32 rows of 32 sums of panels with a whole number of tiles.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn block(left: &[u32], right: &[u32], sums: &mut Sums) {
    let steps = left.len() / (BLOCK * SIDE);
    assert!(steps > 0 && left.len() == right.len() && left.len() == steps * BLOCK * SIDE && available());
    // SAFETY: the machine has the instructions and the system lets this process use them. Each step reads two tiles of 1024
    // bytes of `left` and 16 rows of 128 bytes of `right`; the ends store into 32 rows of 128 bytes. The tiles are given back.
    unsafe {
        std::arch::asm!(
            "ldtilecfg [{shape}]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{left} + {line} * 1]",
            "tileloadd tmm6, [{right} + {line} * 2]",
            "tileloadd tmm7, [{right} + {line} * 2 + 64]",
            "tileloadd tmm5, [{left} + {line} * 1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {left}, 2048",
            "add {right}, 2048",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{to} + {line} * 2], tmm0",
            "tilestored [{to} + {line} * 2 + 64], tmm1",
            "tilestored [{to} + {line} * 2 + 2048], tmm2",
            "tilestored [{to} + {line} * 2 + 2112], tmm3",
            "tilerelease",
            shape = in(reg) &raw const SHAPE,
            left = inout(reg) left.as_ptr() => _,
            right = inout(reg) right.as_ptr() => _,
            steps = inout(reg) steps => _,
            to = in(reg) sums.as_mut_ptr(),
            line = in(reg) 64usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn block(_: &[u32], _: &[u32], _: &mut Sums) {
    unreachable!("no machine of this kind is available")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tiles compute, term by term.
    fn plain(left: &[u32], right: &[u32], sums: &mut Sums) {
        let halves = |v: u32| [v as u16, (v >> 16) as u16].map(|v| bf16::from_bits(v).to_f32());
        let pairs = left.len() / BLOCK;
        sums.fill(0.0);
        for (i, j, p) in
            (0..BLOCK).flat_map(|i| (0..BLOCK * pairs).map(move |at| (i, at / pairs, at % pairs)))
        {
            let a = halves(left[p / SIDE * BLOCK * SIDE + i * SIDE + p % SIDE]);
            let b = halves(right[p * BLOCK + j]);
            sums[i * BLOCK + j] += a[0] * b[0] + a[1] * b[1];
        }
    }

    #[test]
    fn blocks_of_all_sizes_and_layouts() {
        let value = |i: usize| bf16::from_f32(((i * 7919) % 61) as f32 / 8.0 - 3.5);
        let data: Vec<bf16> = (0..160_000).map(value).collect();
        for (m, n, k) in [(8, 48, 64), (37, 51, 33), (33, 40, 1061), (200, 31, 40), (4, 1570, 9)] {
            for (a_by_rows, b_by_rows) in [(true, true), (false, true), (true, false), (false, false)] {
                let mat = |rows: usize, cols: usize, by_rows: bool| {
                    let (rs, cs) = if by_rows { (cols + 1, 1) } else { (1, rows + 1) };
                    RawMat::new(data.as_ptr(), rs, cs)
                };
                let (a, b) = (mat(m, k, a_by_rows), mat(k, n, b_by_rows));
                let mut out = vec![f32::NAN; m * n];
                // SAFETY: both matrices lie in `data`.
                let of = |mat: RawMat<bf16>, i, j| f64::from(unsafe { mat.at(i, j).p.read() });
                let expected: Vec<f64> =
                    (0..m * n).map(|at| (0..k).map(|p| of(a, at / n, p) * of(b, p, at % n)).sum()).collect();
                let check = |out: &[f32]| {
                    // sums of eighths squared below 2^24 are exact in float32
                    assert!(out.iter().zip(&expected).all(|(o, e)| f64::from(*o) == *e), "{m} {n} {k}");
                };
                // SAFETY: as above.
                unsafe { by_blocks(m, n, k, a, b, &mut out, &plain) };
                check(&out);
                if available() {
                    out.fill(f32::NAN);
                    // SAFETY: as above; the machine has the tiles.
                    unsafe { product(m, n, k, a, b, &mut out) };
                    check(&out);
                }
            }
        }
    }
}
