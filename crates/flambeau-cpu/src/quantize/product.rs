//! Products of matrices of bytes, `u8 x i8 -> i32`, exact: what quantized layers are made of. The right operand is packed
//! once. AVX512-VNNI multiplies and adds 64 pairs in one instruction, AVX2 32 pairs in three where no two products leave 16 bits
//! together, and otherwise 16 in two (widened, so that nothing saturates); the portable loop does the same sums.

use crate::engine::isa::{Level, level};
use crate::engine::parallel::{parallel_chunks, with_threads_for};
use crate::engine::room::filled;

/// Columns of a panel.
pub(super) const COLS: usize = 16;
/// Rows of a tile.
const ROWS: usize = 8;
/// Products of a piece of work, at least.
const WORK: usize = 1 << 17;
/// Bytes of the right operand below which threads are not worth a hand-over.
const PASSED: usize = 1 << 18;

/// The right operand: for each panel of 16 columns, for each four terms of the sums, four bytes of each column.
#[derive(Clone)]
pub struct Packed {
    panels: Vec<i8>,
    sums: Vec<i32>,
    /// The most that the sizes of two neighbouring terms of a column come to.
    most: i32,
    k: usize,
    n: usize,
}
impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packed").field("k", &self.k).field("n", &self.n).finish_non_exhaustive()
    }
}
impl Packed {
    /// Of a matrix by rows of `k` terms, one row for each of `n` columns of the result: a weight as layers have it.
    /// `None` where the length is another.
    pub fn new(weight: &[i8], n: usize, k: usize) -> Option<Packed> {
        if n.checked_mul(k)? != weight.len() {
            return None;
        }
        let quads = k.div_ceil(4);
        let mut panels = filled(0i8, n.div_ceil(COLS).checked_mul(quads)?.checked_mul(4 * COLS)?);
        let mut sums = filled(0i32, n);
        let mut most = 0;
        if k > 0 {
            for (j, row) in weight.chunks_exact(k).enumerate() {
                sums[j] = row.iter().map(|w| i32::from(*w)).sum();
                let size = |pair: &[i8]| pair.iter().map(|w| i32::from(*w).abs()).sum();
                most = row.chunks(2).map(size).fold(most, i32::max);
                let panel = &mut panels[j / COLS * quads * 4 * COLS..];
                for (p, w) in row.iter().enumerate() {
                    panel[p / 4 * 4 * COLS + j % COLS * 4 + p % 4] = *w;
                }
            }
        }
        Some(Packed { panels, sums, most, k, n })
    }
    /// Columns of the result.
    pub fn columns(&self) -> usize {
        self.n
    }
    /// Terms of a sum.
    pub fn terms(&self) -> usize {
        self.k
    }
    /// The sum of each column's bytes.
    pub fn sums(&self) -> &[i32] {
        &self.sums
    }
    fn quads(&self) -> usize {
        self.k.div_ceil(4)
    }
}

/// Up to eight rows of bytes, as many terms as the right operand has, in whole fours.
type Tile = [[i32; COLS]; ROWS];

fn portable(a: &[u8], lda: usize, rows: usize, quads: usize, panel: &[i8], out: &mut Tile) {
    for (i, sums) in out.iter_mut().enumerate().take(rows) {
        let row = &a[i * lda..i * lda + quads * 4];
        for (a, b) in row.chunks_exact(4).zip(panel.chunks_exact(4 * COLS)) {
            for (s, b) in sums.iter_mut().zip(b.chunks_exact(4)) {
                *s += (0..4).map(|q| i32::from(a[q]) * i32::from(b[q])).sum::<i32>();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{COLS, ROWS, Tile};
    use std::arch::x86_64::*;

    /// Bytes of a panel that are asked for before they are needed.
    const AHEAD: usize = 2048;

    /// # Safety
    /// The machine has AVX512-VNNI. `a` has `R` rows of at least `4 * quads` bytes at distances of `lda`; `panel` has `P`
    /// panels of `quads * 64` bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn vnni<const R: usize, const P: usize>(
        a: *const u8,
        lda: usize,
        quads: usize,
        panel: *const i8,
        out: &mut [Tile],
    ) {
        let mut sums = [[_mm512_setzero_si512(); P]; R];
        for q in 0..quads {
            // SAFETY: place `q` of each panel.
            let b: [__m512i; P] = std::array::from_fn(|p| unsafe {
                _mm512_loadu_si512(panel.add((p * quads + q) * 4 * COLS).cast())
            });
            for p in 0..P {
                // the machine's own reading ahead ends at each page
                let ahead = panel.wrapping_add((p * quads + q) * 4 * COLS + AHEAD);
                _mm_prefetch::<_MM_HINT_T0>(ahead);
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: four bytes within row `i`.
                let four = unsafe { a.add(i * lda + 4 * q).cast::<i32>().read_unaligned() };
                let four = _mm512_set1_epi32(four);
                for (s, b) in sums.iter_mut().zip(b) {
                    *s = _mm512_dpbusd_epi32(*s, four, b);
                }
            }
        }
        for (p, out) in out.iter_mut().enumerate().take(P) {
            for (i, sums) in sums.iter().enumerate() {
                // SAFETY: 16 integers of a row of the tile.
                unsafe { _mm512_storeu_si512(out[i].as_mut_ptr().cast(), sums[p]) };
            }
        }
    }

    /// Where no two products leave 16 bits together.
    ///
    /// # Safety
    /// The machine has AVX2; otherwise as [`vnni`], of one panel.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn short<const R: usize>(
        a: *const u8,
        lda: usize,
        quads: usize,
        panel: *const i8,
        out: &mut [[i32; COLS]],
    ) {
        let ones = _mm256_set1_epi16(1);
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        for q in 0..quads {
            let at = panel.wrapping_add(q * 4 * COLS);
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD));
            // SAFETY: place `q` of the panel.
            let b = unsafe { [_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(32).cast())] };
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: four bytes within row `i`.
                let four = unsafe { a.add(i * lda + 4 * q).cast::<i32>().read_unaligned() };
                let four = _mm256_set1_epi32(four);
                for (s, b) in sums.iter_mut().zip(b) {
                    *s = _mm256_add_epi32(*s, _mm256_madd_epi16(_mm256_maddubs_epi16(four, b), ones));
                }
            }
        }
        for (out, sums) in out.iter_mut().zip(&sums) {
            for (out, s) in out.chunks_exact_mut(8).zip(sums) {
                // SAFETY: eight integers of a row of the tile.
                unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), *s) };
            }
        }
    }

    /// # Safety
    /// The machine has AVX2; otherwise as [`vnni`], of one panel.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2<const R: usize>(
        a: *const u8,
        lda: usize,
        quads: usize,
        panel: *const i8,
        out: &mut [[i32; COLS]],
    ) {
        // sums of even and odd pairs of terms, of four columns each
        let mut sums = [[_mm256_setzero_si256(); 4]; R];
        for q in 0..quads {
            let b: [__m256i; 4] = std::array::from_fn(|p| {
                // SAFETY: 16 bytes of place `q` of the panel.
                let b = unsafe { _mm_loadu_si128(panel.add(q * 4 * COLS + p * 16).cast()) };
                _mm256_cvtepi8_epi16(b)
            });
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: four bytes within row `i`.
                let four = unsafe { a.add(i * lda + 4 * q).cast::<i32>().read_unaligned() };
                let four = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
                for (s, b) in sums.iter_mut().zip(b) {
                    *s = _mm256_add_epi32(*s, _mm256_madd_epi16(four, b));
                }
            }
        }
        let mut pairs = [0i32; 8];
        for (out, sums) in out.iter_mut().zip(&sums) {
            for (p, s) in sums.iter().enumerate() {
                // SAFETY: eight integers.
                unsafe { _mm256_storeu_si256(pairs.as_mut_ptr().cast(), *s) };
                for (o, pair) in out[p * 4..].iter_mut().zip(pairs.chunks_exact(2)) {
                    *o = pair[0] + pair[1];
                }
            }
        }
    }
    const _: () = assert!(ROWS == 8 && COLS == 16);
}

/// Which code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2, where no two products leave 16 bits together.
    #[cfg(target_arch = "x86_64")]
    Short,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}
fn way() -> Way {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if level() == Level::V4 && std::arch::is_x86_feature_detected!("avx512vnni") {
            return Way::Vnni;
        }
        if level() >= Level::V3 {
            return Way::Avx2;
        }
    }
    let _ = level;
    Way::Portable
}

/// `rows` rows (up to eight) times `tiles.len()` panels (up to four) from panel `first` on.
fn tile(way: Way, a: &[u8], lda: usize, rows: usize, b: &Packed, first: usize, tiles: &mut [Tile]) {
    let quads = b.quads();
    let size = quads * 4 * COLS;
    let panels = &b.panels[first * size..(first + tiles.len()) * size];
    assert!(
        rows <= ROWS && (rows == 0 || a.len() >= (rows - 1) * lda + quads * 4),
        "rows of a quantized product"
    );
    match way {
        Way::Portable => {
            for (t, panel) in tiles.iter_mut().zip(panels.chunks_exact(size.max(1))) {
                *t = [[0; COLS]; ROWS];
                portable(a, lda, rows, quads, panel, t);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Way::Avx2 | Way::Short => {
            // as many sums as there are registers for
            let once = if way == Way::Avx2 { 2 } else { 4 };
            for (p, t) in tiles.iter_mut().enumerate() {
                let panel = panels[p * size..].as_ptr();
                for from in (0..rows).step_by(once) {
                    let (a, t) = (a[from * lda..].as_ptr(), &mut t[from..]);
                    // SAFETY: `way` found AVX2; rows and panel were checked above.
                    unsafe {
                        match (way == Way::Avx2, rows - from) {
                            (true, 1) => x86::avx2::<1>(a, lda, quads, panel, t),
                            (true, _) => x86::avx2::<2>(a, lda, quads, panel, t),
                            (false, 1) => x86::short::<1>(a, lda, quads, panel, t),
                            (false, 2) => x86::short::<2>(a, lda, quads, panel, t),
                            (false, 3) => x86::short::<3>(a, lda, quads, panel, t),
                            (false, _) => x86::short::<4>(a, lda, quads, panel, t),
                        }
                    }
                }
            }
        }
        #[cfg(target_arch = "x86_64")]
        Way::Vnni => {
            let (a, p) = (a.as_ptr(), panels.as_ptr());
            // SAFETY: `way` found AVX512-VNNI; rows and panels were checked above.
            unsafe {
                match (rows, tiles.len()) {
                    (1, 4) => x86::vnni::<1, 4>(a, lda, quads, p, tiles),
                    (2, 4) => x86::vnni::<2, 4>(a, lda, quads, p, tiles),
                    (3, 4) => x86::vnni::<3, 4>(a, lda, quads, p, tiles),
                    (4, 4) => x86::vnni::<4, 4>(a, lda, quads, p, tiles),
                    // as many sums as registers hold
                    (5, 3) => x86::vnni::<5, 3>(a, lda, quads, p, tiles),
                    (6, 3) => x86::vnni::<6, 3>(a, lda, quads, p, tiles),
                    (7, 3) => x86::vnni::<7, 3>(a, lda, quads, p, tiles),
                    (8, 3) => x86::vnni::<8, 3>(a, lda, quads, p, tiles),
                    _ => {
                        for (i, t) in tiles.iter_mut().enumerate() {
                            let (p, t) = (panels[i * size..].as_ptr(), std::slice::from_mut(t));
                            match rows {
                                1 => x86::vnni::<1, 1>(a, lda, quads, p, t),
                                2 => x86::vnni::<2, 1>(a, lda, quads, p, t),
                                3 => x86::vnni::<3, 1>(a, lda, quads, p, t),
                                4 => x86::vnni::<4, 1>(a, lda, quads, p, t),
                                5 => x86::vnni::<5, 1>(a, lda, quads, p, t),
                                6 => x86::vnni::<6, 1>(a, lda, quads, p, t),
                                7 => x86::vnni::<7, 1>(a, lda, quads, p, t),
                                _ => x86::vnni::<8, 1>(a, lda, quads, p, t),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What is done with the sums of some rows, of which the first is given, and of a run of at most [`COLS`] columns.
pub(super) type Done<'a> = &'a (dyn Fn(usize, std::ops::Range<usize>, &[[i32; COLS]]) + Sync);
/// Calls `done` for all rows of `A B`, `A` being `m` x `k` bytes by rows: the exact sums. Runs are shared out among threads.
///
/// Sums are those of 32-bit integers; they wrap beyond 2^31, which takes more than 65,000 terms.
pub(super) fn product(a: &[u8], m: usize, b: &Packed, done: Done) {
    run(narrowed(way(), a, b), a, m, b, done);
}
/// A faster way for these operands, where there is one.
fn narrowed(way: Way, a: &[u8], b: &Packed) -> Way {
    #[cfg(target_arch = "x86_64")]
    if way == Way::Avx2 {
        let most = i32::from(a.iter().fold(0, |most, v| most.max(*v)));
        // up to 128 the least sum is that of twice -128, which 16 bits hold, and the largest that of twice 127
        if most <= 128 || most * b.most <= i32::from(i16::MAX) {
            return Way::Short;
        }
    }
    let _ = (a, b.most);
    way
}
fn run(way: Way, a: &[u8], m: usize, b: &Packed, done: Done) {
    let (k, n) = (b.k, b.n);
    assert!(m.checked_mul(k) == Some(a.len()), "a quantized product of other sizes");
    if m == 0 || n == 0 {
        return;
    }
    let quads = b.quads();
    // rows in whole fours of terms
    let lda = quads * 4;
    let padded;
    let a = if lda == k {
        a
    } else {
        let mut all = filled(0u8, m * lda);
        for (to, from) in all.chunks_exact_mut(lda).zip(a.chunks_exact(k.max(1))) {
            to[..k].copy_from_slice(from);
        }
        padded = all;
        &padded
    };
    let panels = n.div_ceil(COLS);
    // few rows have few sums in registers: more panels at a time
    let wide = if m <= 4 { 4 } else { 3 };
    let groups = panels.div_ceil(wide);
    let each = (WORK / (ROWS * wide * COLS * k.max(1))).max(1);
    let tiles = m.div_ceil(ROWS) * groups;
    // the right operand passes once for eight rows
    let passed = n.saturating_mul(k).saturating_mul(m.div_ceil(ROWS));
    let one = |chunk: usize| {
        let mut sums = [[[0i32; COLS]; ROWS]; 4];
        for t in chunk * each..((chunk + 1) * each).min(tiles) {
            let (g, i0) = (t / m.div_ceil(ROWS), t % m.div_ceil(ROWS) * ROWS);
            let (first, rows) = (g * wide, ROWS.min(m - i0));
            let count = wide.min(panels - first);
            tile(way, &a[i0 * lda..], lda, rows, b, first, &mut sums[..count]);
            for (p, sums) in sums.iter().enumerate().take(count) {
                let j = (first + p) * COLS;
                done(i0, j..n.min(j + COLS), &sums[..rows]);
            }
        }
    };
    with_threads_for(passed, PASSED, || parallel_chunks(tiles.div_ceil(each), &one));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn bytes(n: usize, step: usize) -> Vec<u8> {
        (0..n).map(|i| (i * step + i / 7) as u8).collect()
    }
    #[test]
    fn every_way_gives_the_exact_sums() {
        for (m, n, k) in [
            (1, 1, 1),
            (1, 70, 33),
            (5, 16, 64),
            (7, 100, 130),
            (3, 17, 0),
            (0, 4, 4),
            (9, 64, 257),
            (16, 40, 12),
            (14, 80, 8),
        ] {
            for most in [255u8, 128] {
                let a: Vec<u8> = bytes(m * k, 37).iter().map(|v| *v.min(&most)).collect();
                let w: Vec<i8> = bytes(n * k, 91).iter().map(|b| *b as i8).collect();
                let b = Packed::new(&w, n, k).unwrap();
                let mut want = vec![0i32; m * n];
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    want[i * n + j] = (0..k).map(|p| i32::from(a[i * k + p]) * i32::from(w[j * k + p])).sum();
                }
                let mut ways = vec![Way::Portable];
                #[cfg(target_arch = "x86_64")]
                ways.extend([Way::Avx2, Way::Short, Way::Vnni].into_iter().filter(|w| match w {
                    Way::Vnni => way() == Way::Vnni,
                    Way::Short => level() >= Level::V3 && narrowed(Way::Avx2, &a, &b) == Way::Short,
                    _ => level() >= Level::V3,
                }));
                for w in ways {
                    let got = Mutex::new(vec![0i32; m * n]);
                    run(w, &a, m, &b, &|i0, run, rows| {
                        let mut got = got.lock().unwrap();
                        for (i, row) in rows.iter().enumerate() {
                            got[(i0 + i) * n + run.start..][..run.len()].copy_from_slice(&row[..run.len()]);
                        }
                    });
                    assert_eq!(got.into_inner().unwrap(), want, "{w:?} {m} {n} {k}");
                }
            }
        }
    }
}
