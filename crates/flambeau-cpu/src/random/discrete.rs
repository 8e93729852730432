//! Bernoulli, dropout, integers, permutations.

use super::Generator;
use super::bulk::{RandomFloat, RandomInt, RandomValue, unit24, unit53};
use crate::engine::cache::prefetch;
use crate::engine::isa::{self, Isa, Job};
use crate::engine::room::collected;
use flambeau_dtype::DType;

/// Above this length a 32-bit draw modulo the length is too uneven, and PyTorch's algorithm changes.
const RANDPERM_SMALL: usize = (u32::MAX / 20) as usize;

/// `w % m` for words, by a float64 division that cannot round across an integer: the quotient is below 2^32, so the
/// error is below 1 / m.
#[inline(always)]
fn rem(w: u32, m: u32) -> u32 {
    let q = (f64::from(w) / f64::from(m)).floor();
    (-q).mul_add(f64::from(m), f64::from(w)) as u32
}

struct Targets<'a>(&'a [u32], &'a mut [u32], u32);
impl Job for Targets<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Targets(words, out, n) = self;
        for (i, (o, w)) in out.iter_mut().zip(words).enumerate() {
            *o = rem(*w, n - i as u32);
        }
    }
}

impl Generator {
    /// One with probability `p`, else zero (`bernoulli_(p)`): two words per element for every dtype.
    pub fn bernoulli<T: RandomValue>(&mut self, out: &mut [T], p: f64) {
        self.choose(out, p, T::of_i64(1), T::of_i64(0));
    }
    /// `yes` with probability `p`, else `no`. A matter of bits, so one body for all types of a size.
    fn choose<T: RandomValue>(&mut self, out: &mut [T], p: f64, yes: T, no: T) {
        // u < p for u = k / 2^53, decided on integers.
        let limit = (p * 9_007_199_254_740_992.0).ceil() as u64;
        fn pick<B: bytemuck::Pod>(g: &mut Generator, limit: u64, out: &mut [B], yes: B, no: B) {
            g.map64(out, |w| if (w & ((1 << 53) - 1)) < limit { yes } else { no });
        }
        fn of<T: RandomValue, B: bytemuck::Pod>(g: &mut Generator, limit: u64, out: &mut [T], yes: T, no: T) {
            pick::<B>(g, limit, bytemuck::cast_slice_mut(out), bytemuck::cast(yes), bytemuck::cast(no));
        }
        match size_of::<T>() {
            1 => of::<T, u8>(self, limit, out, yes, no),
            2 => of::<T, u16>(self, limit, out, yes, no),
            4 => of::<T, u32>(self, limit, out, yes, no),
            _ => of::<T, u64>(self, limit, out, yes, no),
        }
    }

    /// Bernoulli with a probability per element (`bernoulli_(tensor)`): one word per element, two for float64
    /// probabilities. `p` has as many elements as `out`; an error for one outside [0, 1], after PyTorch's wording.
    pub fn bernoulli_each<T: RandomValue, P: RandomFloat>(
        &mut self,
        out: &mut [T],
        p: &[P],
    ) -> Result<(), String> {
        for (o, p) in out.iter_mut().zip(p) {
            *o = T::of_i64(self.bernoulli_one(p.to_f64(), P::WIDE)? as i64);
        }
        Ok(())
    }
    fn bernoulli_one(&mut self, p: f64, wide: bool) -> Result<bool, String> {
        if !(0.0..=1.0).contains(&p) {
            return Err(
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be \
                        improved?  If so, please report an enhancement request to PyTorch.)"
                    .into(),
            );
        }
        let u = if wide { unit53(self.random64()) } else { f64::from(unit24(self.random())) };
        Ok(u < p)
    }

    /// The factors of dropout: `1 / (1 - p)` for a kept element, 0 for a dropped one (`bernoulli_(1 - p)` divided by
    /// `1 - p` in the dtype). With `p == 1` everything is dropped and nothing drawn is divided by zero.
    pub fn dropout_mask<T: RandomFloat>(&mut self, out: &mut [T], p: f64) {
        let keep = 1.0 - p;
        let zero = T::of_f64(0.0);
        let scaled = if T::WIDE { T::of_f64(1.0 / keep) } else { T::of_f32(1.0 / keep as f32) };
        self.choose(out, keep, if keep > 0.0 { scaled } else { zero }, zero);
    }

    /// Integers from `from`, `range` different values (`random_(from, to)`, `randint`; `range` is `to - from`). Ranges
    /// of 2^28 and more take two words per element, others one. `range` 0 stands for all 2^64 values.
    pub fn random_from_to<T: RandomValue>(&mut self, out: &mut [T], range: u64, from: i64) {
        self.integers(out, |g, out| g.in_range(out, range, from));
    }
    fn in_range(&mut self, out: &mut [i64], range: u64, from: i64) {
        if range == 0 {
            self.map64(out, |w| w as i64);
        } else if range >= 1 << 28 {
            self.map64(out, |w| ((w % range) as i64).wrapping_add(from));
        } else {
            self.map32(out, |w| i64::from(rem(w, range as u32)).wrapping_add(from));
        }
    }
    fn below64(&mut self, out: &mut [i64], bound: u64) {
        self.map64(out, |w| (w % bound) as i64);
    }
    fn below32(&mut self, out: &mut [i64], bound: u64) {
        self.map32(out, |w| (u64::from(w) % bound) as i64);
    }
    /// Integers drawn into i64 by `draw`, a block at a time, and converted.
    fn integers<T: RandomValue>(&mut self, out: &mut [T], draw: impl Fn(&mut Generator, &mut [i64])) {
        if T::DTYPE == DType::I64
            && let Ok(out) = bytemuck::try_cast_slice_mut::<T, i64>(out)
        {
            return draw(self, out);
        }
        let mut block = [0; 1024];
        for out in out.chunks_mut(block.len()) {
            let block = &mut block[..out.len()];
            draw(self, block);
            out.iter_mut().zip(block).for_each(|(o, v)| *o = T::of_i64(*v));
        }
    }

    /// Integers over the non-negative values of the dtype, or up to the largest exact integer of a floating one
    /// (`random_()`).
    pub fn random_full<T: RandomInt>(&mut self, out: &mut [T]) {
        let draw = if T::WIDE { Generator::below64 } else { Generator::below32 };
        self.integers(out, |g, out| draw(g, out, T::BOUND));
    }

    /// A random permutation of `0..out.len()` (`randperm`).
    pub fn randperm<T: RandomValue>(&mut self, out: &mut [T]) {
        let n = out.len();
        if n >= RANDPERM_SMALL {
            // Inside-out shuffle with 64-bit draws.
            for i in 0..n {
                let z = (self.random64() % (i as u64 + 1)) as usize;
                out[i] = out[z];
                out[z] = T::of_i64(i as i64);
            }
            return;
        }
        out.iter_mut().zip(self.shuffled(n)).for_each(|(o, v)| *o = T::of_i64(i64::from(v)));
    }
    fn shuffled(&mut self, n: usize) -> Vec<u32> {
        /// How many steps ahead the far one of two elements is asked for, and from which length on that pays.
        const AHEAD: usize = 32;
        const FAR: usize = 1 << 21;
        // The shuffle runs on 32-bit words: half the memory of the usual int64 result. Its targets are computed a block
        // ahead, so that the loads of one step do not wait for the division of the next, and are known early.
        let far = n > FAR;
        let mut perm: Vec<u32> = collected(0..n as u32);
        let mut targets = [0u32; super::mt19937::N];
        let mut i = 0;
        while i + 1 < n {
            let words = self.engine.words(n - 1 - i);
            let count = words.len();
            let t = &mut targets[..count];
            isa::run(Targets(words, t, (n - i) as u32));
            for (k, z) in t.iter().enumerate() {
                if far && let Some(later) = t.get(k + AHEAD) {
                    prefetch(perm.as_ptr().wrapping_add(i + k + AHEAD + *later as usize).cast());
                }
                perm.swap(i + k, i + k + *z as usize);
            }
            i += count;
        }
        perm
    }
}
