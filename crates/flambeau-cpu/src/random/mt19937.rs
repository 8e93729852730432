//! The Mersenne Twister engine, a whole block of 624 words at a time.

use crate::engine::isa::{self, Isa, Job};

/// Words of the state, and of a block.
pub const N: usize = 624;
const M: usize = 397;
/// `N - M`: how far back the second half of the recurrence looks into the new block.
const D: usize = N - M;

/// MT19937 with 32-bit output.
#[derive(Clone)]
pub struct Mt19937 {
    state: [u32; N],
    /// The tempered words of `state`: what the draws return.
    tempered: [u32; N],
    /// Index of the next word to return.
    next: usize,
    /// Draws until the next block is made, plus one (the layout of the saved state).
    left: usize,
}

struct NextBlock<'a>(&'a mut [u32; N], &'a mut [u32; N]);
struct TemperBlock<'a>(&'a [u32; N], &'a mut [u32; N]);

#[inline(always)]
fn twist(u: u32, v: u32) -> u32 {
    let mixed = (u & 0x8000_0000) | (v & 0x7fff_ffff);
    (mixed >> 1) ^ ((v & 1).wrapping_neg() & 0x9908_b0df)
}

/// `out[i] = far[i] ^ twist(old[i], old[i + 1])`; the slices do not overlap, so this becomes vector code.
#[inline(always)]
fn twist_run(out: &mut [u32], far: &[u32], old: &[u32]) {
    let n = out.len();
    let (far, u, v) = (&far[..n], &old[..n], &old[1..n + 1]);
    for i in 0..n {
        out[i] = far[i] ^ twist(u[i], v[i]);
    }
}

#[inline(always)]
fn temper_all(state: &[u32; N], out: &mut [u32; N]) {
    for (o, s) in out.iter_mut().zip(state) {
        let mut y = *s;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        *o = y ^ (y >> 18);
    }
}

impl Job for NextBlock<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let NextBlock(state, tempered) = self;
        let old = *state;
        let (a, rest) = state.split_at_mut(D);
        let (b, c) = rest.split_at_mut(D);
        let last = c.len() - 1;
        twist_run(a, &old[M..], &old);
        twist_run(b, a, &old[D..]);
        twist_run(&mut c[..last], b, &old[2 * D..]);
        c[last] = b[last] ^ twist(old[N - 1], a[0]);
        temper_all(state, tempered);
    }
}
impl Job for TemperBlock<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        temper_all(self.0, self.1);
    }
}

impl Mt19937 {
    /// An engine seeded with one word.
    pub fn new(seed: u32) -> Self {
        let mut state = [0u32; N];
        state[0] = seed;
        for j in 1..N {
            let p = state[j - 1];
            state[j] = 1_812_433_253u32.wrapping_mul(p ^ (p >> 30)).wrapping_add(j as u32);
        }
        Mt19937 { state, tempered: [0; N], next: 0, left: 1 }
    }

    /// An engine from its saved parts; an error text if they cannot be an engine's.
    pub fn from_parts(state: [u32; N], left: usize, next: usize) -> Result<Self, String> {
        // A block is only read up to its end: `next` may advance `left - 1` more times.
        if left == 0 || left > N || next > N || next + left > N + 1 {
            return Err("Invalid mt19937 state".into());
        }
        let mut tempered = [0; N];
        isa::run(TemperBlock(&state, &mut tempered));
        Ok(Mt19937 { state, tempered, next, left })
    }

    /// The state words, draws left in the block plus one, and the index of the next word.
    pub fn parts(&self) -> (&[u32; N], usize, usize) {
        (&self.state, self.left, self.next)
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        isa::run(NextBlock(&mut self.state, &mut self.tempered));
        self.next = 0;
        self.left = N + 1;
    }

    /// The next word.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.left == 1 {
            self.refill();
        }
        self.left -= 1;
        let w = self.tempered[self.next];
        self.next += 1;
        w
    }

    /// Two words, the first one high.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let hi = self.next_u32();
        (u64::from(hi) << 32) | u64::from(self.next_u32())
    }

    /// Draws between 1 and `max` words at once, as many as the block still holds. Empty only if `max` is 0.
    #[inline]
    pub fn words(&mut self, max: usize) -> &[u32] {
        if self.left == 1 && max > 0 {
            self.refill();
        }
        let n = max.min(self.left - 1);
        let start = self.next;
        self.next += n;
        self.left -= n;
        &self.tempered[start..start + n]
    }

    /// Words that can be drawn before the next block is made.
    #[inline]
    pub fn available(&self) -> usize {
        self.left - 1
    }
}
