//! The random generator and everything that draws from it: the streams of `torch.Generator` on the CPU, bit for bit.
//!
//! All functions fill contiguous slices, in order. A tensor that is not contiguous is filled through a contiguous
//! temporary in the order of its memory (dimensions by falling stride), not of its indices: that is how PyTorch's
//! iterator walks it. One exception: [`normal`](Generator::normal) has another stream for 16 or more elements than for
//! fewer, and any tensor that is not contiguous takes the one for few
//! ([`normal_serial`](Generator::normal_serial), pairs of 53-bit draws).
//!
//! | module | what |
//! |---|---|
//! | [`mt19937`] | the engine |
//! | `fill` | uniform and normal |
//! | `discrete` | Bernoulli, dropout masks, integers, permutations |
//! | `transform` | exponential, geometric, Cauchy, log-normal |
//! | `rejection` | Poisson, binomial, gamma, Dirichlet |
//! | `multinomial` | weighted choice |
//!
//! Products and sums are fused on every machine, as in PyTorch's vector kernels, so that a seed means the same numbers
//! everywhere. Only functions of the C library (`log1p`, `sin`, ...) may differ in the last bit between systems.
//!
//! Arguments are checked by the operators above; here a bad scalar (a negative rate, say) gives unusable numbers and no
//! panic. Functions that look at a tensor of parameters return an error for a bad element.

mod bulk;
mod discrete;
pub mod erased;
mod fill;
pub mod mt19937;
mod multinomial;
mod rejection;
#[cfg(test)]
mod tests;
mod transform;

pub use bulk::{RandomFloat, RandomInt, RandomValue};
pub use mt19937::Mt19937;
pub use rejection::GammaFloat;

/// A source of random numbers with PyTorch's streams (`torch.Generator`). It holds no lock: the owner shares it.
#[derive(Clone)]
pub struct Generator {
    /// The stream of words.
    pub engine: Mt19937,
    /// A float32 normal kept for the next call. Only part of the saved state: no draw of this crate uses it.
    pub next_normal_f32: Option<f32>,
    /// The second normal of the last pair, kept for the next call.
    pub next_normal_f64: Option<f64>,
    /// How far devices with counters for generators (Philox) have drawn by this seed, in numbers of 32 bits.
    pub philox_offset: u64,
    seed: u64,
}

/// Bytes of [`Generator::get_state`].
pub const STATE_BYTES: usize = 5056;
/// Where the 64-bit words of the saved state end and the cached normals begin.
const NORMALS_AT: usize = 24 + 8 * mt19937::N;

impl Default for Generator {
    /// The seed of a new `torch.Generator()`.
    fn default() -> Self {
        Generator::new(67_280_421_310_721)
    }
}

impl Generator {
    /// A generator seeded with `seed`, of which the engine uses the low 32 bits.
    pub fn new(seed: u64) -> Self {
        Generator {
            engine: Mt19937::new(seed as u32),
            next_normal_f32: None,
            next_normal_f64: None,
            philox_offset: 0,
            seed,
        }
    }
    /// Starts the stream of `seed` anew and forgets the cached normals.
    pub fn manual_seed(&mut self, seed: u64) {
        *self = Generator::new(seed);
    }
    /// The seed of the stream.
    pub fn initial_seed(&self) -> u64 {
        self.seed
    }
    /// Seeds from the system's entropy and returns the seed.
    pub fn seed(&mut self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        // The keys of a `RandomState` come from the system's entropy; time and address separate calls in one process.
        let mut h = std::collections::hash_map::RandomState::new().build_hasher();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        h.write_u128(now.map_or(0, |d| d.as_nanos()));
        // 53 bits, so that a seed survives a trip through a double.
        let seed = h.finish() & ((1 << 53) - 1);
        self.manual_seed(seed);
        seed
    }

    /// The next 32-bit word.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.engine.next_u32()
    }
    /// The next two words, the first one high.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        self.engine.next_u64()
    }
    /// A float32 in [0, 1) from one word (low 24 bits).
    #[inline]
    pub fn uniform24(&mut self) -> f32 {
        bulk::unit24(self.random())
    }
    /// A float64 in [0, 1) from two words (low 53 bits).
    #[inline]
    pub fn uniform53(&mut self) -> f64 {
        bulk::unit53(self.random64())
    }
    /// A standard normal from a pair of 53-bit uniforms; every second call returns the cached half of a pair.
    #[inline]
    pub fn standard_normal(&mut self) -> f64 {
        if let Some(v) = self.next_normal_f64.take() {
            return v;
        }
        let u1 = self.uniform53();
        let u2 = self.uniform53();
        let r = (-2.0 * (-u2).ln_1p()).sqrt();
        let theta = 2.0 * std::f64::consts::PI * u1;
        self.next_normal_f64 = Some(r * theta.sin());
        r * theta.cos()
    }

    /// The whole state, byte for byte as `torch.get_rng_state()` gives it ([`STATE_BYTES`] bytes).
    pub fn get_state(&self) -> Vec<u8> {
        let (state, left, next) = self.engine.parts();
        let mut b = Vec::with_capacity(STATE_BYTES);
        b.extend_from_slice(&self.seed.to_le_bytes());
        b.extend_from_slice(&(left as u32).to_le_bytes());
        b.extend_from_slice(&1u32.to_le_bytes());
        b.extend_from_slice(&(next as u64).to_le_bytes());
        for w in state {
            b.extend_from_slice(&u64::from(*w).to_le_bytes());
        }
        // a word that PyTorch has no use for
        b.extend_from_slice(&self.philox_offset.to_le_bytes());
        b.extend_from_slice(&self.next_normal_f64.unwrap_or(0.0).to_le_bytes());
        b.extend_from_slice(&[0; 8]);
        b.extend_from_slice(&u64::from(self.next_normal_f64.is_some()).to_le_bytes());
        b.extend_from_slice(&self.next_normal_f32.unwrap_or(0.0).to_le_bytes());
        b.extend_from_slice(&u32::from(self.next_normal_f32.is_some()).to_le_bytes());
        b
    }

    /// Continues from a saved state. An error (and no change) if the size or the engine's part is wrong.
    pub fn set_state(&mut self, s: &[u8]) -> Result<(), String> {
        if s.len() != STATE_BYTES {
            return Err(format!(
                "Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {}",
                s.len()
            ));
        }
        let u32_at = |i: usize| u32::from_le_bytes([s[i], s[i + 1], s[i + 2], s[i + 3]]);
        let u64_at = |i: usize| u64::from(u32_at(i)) | (u64::from(u32_at(i + 4)) << 32);
        let (left, seeded, next) = (u32_at(8), u32_at(12), u64_at(16));
        if seeded == 0 {
            return Err("Invalid mt19937 state".into());
        }
        let mut state = [0u32; mt19937::N];
        for (i, w) in state.iter_mut().enumerate() {
            *w = u32_at(24 + 8 * i);
        }
        let next = usize::try_from(next).unwrap_or(usize::MAX).min(mt19937::N + 1);
        self.engine = Mt19937::from_parts(state, left as usize, next)?;
        self.seed = u64_at(0);
        let n = NORMALS_AT;
        self.philox_offset = u64_at(n);
        self.next_normal_f64 = (u32_at(n + 24) != 0).then(|| f64::from_bits(u64_at(n + 8)));
        self.next_normal_f32 = (s[n + 36] != 0).then(|| f32::from_bits(u32_at(n + 32)));
        Ok(())
    }
}
