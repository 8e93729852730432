//! Quasi-random points: `torch.quasirandom.SobolEngine`.
//!
//! `joe_kuo.bin` holds the initial direction numbers of S. Joe and F. Y. Kuo (new-joe-kuo-6.21201, BSD licence), as PyTorch
//! uses them: of dimension 1 on, for the primitive polynomials over GF(2) in ascending order, the odd numbers
//! `m_1 .. m_degree`, of each the `i - 1` bits above the lowest, packed without gaps, low bits first. The polynomials are
//! searched for.

use crate::iter::promotion;
use crate::tensor::generator::Generator;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::{DType, ensure, ops};

static DIRECTIONS: &[u8] = include_bytes!("joe_kuo.bin");

/// Bits of a point's coordinates.
pub const MAXBIT: usize = 30;
/// The most dimensions.
pub const MAXDIM: i64 = 21201;
/// 2^-30.
const SCALE: f64 = 1.0 / (1u64 << MAXBIT) as f64;

/// Points that fill the unit cube more evenly than random ones, optionally scrambled by a random linear map and shift.
///
/// ```
/// # use torch::quasirandom::SobolEngine;
/// let mut sobol = SobolEngine::new(2).unwrap();
/// let points = sobol.draw(3, None).unwrap();
/// assert_eq!(points.to_vec::<f32>(), [0.0, 0.0, 0.5, 0.5, 0.75, 0.25]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.quasirandom.SobolEngine")]
pub struct SobolEngine {
    scramble: bool,
    seed: Option<i64>,
    directions: Vec<[u32; MAXBIT]>,
    shift: Vec<u32>,
    quasi: Vec<u32>,
    generated: u64,
}

/// Product of polynomials over GF(2) modulo `p` of that degree.
fn times(mut a: u32, mut b: u32, p: u32, degree: u32) -> u32 {
    let mut r = 0;
    while b != 0 {
        r ^= if b & 1 != 0 { a } else { 0 };
        b >>= 1;
        a <<= 1;
        a ^= if a >> degree & 1 != 0 { p } else { 0 };
    }
    r
}
/// Whether powers of x run through all non-zero remainders.
fn is_primitive(p: u32, degree: u32) -> bool {
    let order = (1u32 << degree) - 1;
    let power = |mut e: u32| {
        let (mut r, mut base) = (1, if degree == 1 { 2 ^ p } else { 2 });
        while e != 0 {
            if e & 1 != 0 {
                r = times(r, base, p, degree);
            }
            base = times(base, base, p, degree);
            e >>= 1;
        }
        r
    };
    let mut rest = order;
    let mut factors = Vec::new();
    let mut f = 2;
    while f * f <= rest {
        if rest.is_multiple_of(f) {
            factors.push(f);
            while rest.is_multiple_of(f) {
                rest /= f;
            }
        }
        f += 1;
    }
    if rest > 1 {
        factors.push(rest);
    }
    power(order) == 1 && factors.iter().all(|f| power(order / f) != 1)
}

/// Direction numbers of the first dimensions.
fn directions(dimension: usize) -> Vec<[u32; MAXBIT]> {
    let mut all = vec![std::array::from_fn(|j| 1 << (MAXBIT - 1 - j))];
    let mut bit = 0;
    let mut next = |n: usize| {
        let mut v = 0u32;
        for i in 0..n {
            v |= u32::from(DIRECTIONS[bit / 8] >> (bit % 8) & 1) << i;
            bit += 1;
        }
        v
    };
    let mut degree = 1;
    while all.len() < dimension {
        for p in ((1u32 << degree | 1)..2 << degree).step_by(2) {
            if all.len() == dimension {
                break;
            }
            if !is_primitive(p, degree) {
                continue;
            }
            let d = degree as usize;
            let mut m = [0u32; MAXBIT];
            for (i, v) in m.iter_mut().enumerate().take(d) {
                *v = next(i) << 1 | 1;
            }
            for j in d..MAXBIT {
                m[j] = (0..d).fold(m[j - d], |v, k| {
                    v ^ if p >> (degree - 1 - k as u32) & 1 != 0 { m[j - k - 1] << (k + 1) } else { 0 }
                });
            }
            for (j, v) in m.iter_mut().enumerate() {
                *v <<= MAXBIT - 1 - j;
            }
            all.push(m);
        }
        degree += 1;
    }
    all
}

impl SobolEngine {
    /// The plain sequence in that many dimensions.
    ///
    /// # Errors
    /// Not between 1 and [`MAXDIM`].
    pub fn new(dimension: i64) -> Result<SobolEngine> {
        Self::with(dimension, false, None)
    }
    /// A scrambled sequence, with random numbers of that seed or of the default generator.
    ///
    /// # Errors
    /// As [`SobolEngine::new`].
    pub fn scrambled(dimension: i64, seed: Option<i64>) -> Result<SobolEngine> {
        Self::with(dimension, true, seed)
    }
    /// Either of them, with everything that Python's constructor takes.
    ///
    /// # Errors
    /// As [`SobolEngine::new`].
    pub fn with(dimension: i64, scramble: bool, seed: Option<i64>) -> Result<SobolEngine> {
        ensure!(
            (1..=MAXDIM).contains(&dimension),
            Value,
            "Supported range of dimensionality for SobolEngine is [1, {MAXDIM}]"
        );
        let n = dimension as usize;
        let mut e = SobolEngine {
            scramble,
            seed,
            directions: directions(n),
            shift: vec![0; n],
            quasi: vec![0; n],
            generated: 0,
        };
        if scramble {
            e.randomise()?;
        }
        e.quasi.clone_from(&e.shift);
        Ok(e)
    }
    fn randomise(&mut self) -> Result<()> {
        let generator = self.seed.map(|s| {
            let g = Generator::new();
            g.manual_seed(s as u64);
            g
        });
        let (dim, bits) = (self.dimension() as i64, MAXBIT as i64);
        let draw = |sizes: &[i64]| -> Result<Vec<i64>> {
            let t = ops::randint(
                2,
                sizes,
                generator.as_ref(),
                Some(DType::I64),
                None,
                Some(crate::Device::Cpu),
                None,
            )?;
            t.try_to_vec::<i64>()
        };
        let shifts = draw(&[dim, bits])?;
        let matrices = draw(&[dim, bits, bits])?;
        for (d, v) in self.shift.iter_mut().enumerate() {
            *v = shifts[d * MAXBIT..][..MAXBIT].iter().enumerate().fold(0, |s, (i, b)| s | (*b as u32) << i);
        }
        for (d, columns) in self.directions.iter_mut().enumerate() {
            // rows of a lower triangular matrix with a diagonal of ones, their first entry in the highest bit
            let row = |p: usize| -> u32 {
                let r = &matrices[(d * MAXBIT + p) * MAXBIT..][..p];
                let below = r.iter().enumerate().fold(0, |s, (k, b)| s | (*b as u32) << (MAXBIT - 1 - k));
                below | 1 << (MAXBIT - 1 - p)
            };
            let rows: [u32; MAXBIT] = std::array::from_fn(row);
            for v in columns {
                *v = rows.iter().fold(0, |s, r| s << 1 | (r & *v).count_ones() & 1);
            }
        }
        Ok(())
    }
    /// Number of dimensions.
    pub fn dimension(&self) -> usize {
        self.shift.len()
    }
    /// Whether the points are scrambled.
    pub fn is_scrambled(&self) -> bool {
        self.scramble
    }
    /// The seed of the scrambling, if one was given.
    pub fn seed(&self) -> Option<i64> {
        self.seed
    }
    /// Number of points drawn or skipped so far.
    pub fn num_generated(&self) -> u64 {
        self.generated
    }
    fn steps(&self, n: i64) -> Result<u64> {
        let n = u64::try_from(n).map_err(|_| Error::value(format!("n must be non-negative, but got {n}")))?;
        let most = 1 << MAXBIT;
        ensure!(
            self.generated.checked_add(n).is_some_and(|t| t <= most),
            Value,
            "At most 2**{MAXBIT} points can be drawn from a SobolEngine"
        );
        Ok(n)
    }
    /// Changes the point to the one `n` steps later: which direction numbers occur an odd number of times on the way.
    fn advance(&mut self, n: u64) {
        let Some(last) = (self.generated + n).checked_sub(1) else { return };
        let from = self.generated.saturating_sub(1);
        for bit in 0..MAXBIT {
            let count = |i: u64| (i >> bit) - (i >> (bit + 1));
            if (count(last) - count(from)) & 1 == 1 {
                for (q, d) in self.quasi.iter_mut().zip(&self.directions) {
                    *q ^= d[bit];
                }
            }
        }
        self.generated += n;
    }
    /// The next `n` points as a tensor `[n, dimension]`, of the default dtype unless another is given.
    ///
    /// # Errors
    /// `n` below 1 at the beginning; a dtype other than float32 and float64; more than 2^30 points in all.
    pub fn draw(&mut self, n: i64, dtype: Option<DType>) -> Result<Tensor> {
        let dtype = dtype.unwrap_or_else(promotion::default_dtype);
        if n == 0 && self.generated == 0 {
            return Err(Error::value("n must be non-negative, but got -1"));
        }
        let steps = self.steps(n)?;
        ensure!(
            matches!(dtype, DType::F32 | DType::F64),
            Unsupported,
            "\"_sobol_engine_draw\" not implemented for '{}'",
            dtype.scalar_type_name()
        );
        let dim = self.dimension();
        crate::tensor::geometry::checked_bytes(&[n, dim as i64], 8)?;
        let mut v: Vec<f64> = crate::tensor::geometry::room(n * dim as i64)?;
        for _ in 0..steps {
            let first = self.generated == 0;
            if !first {
                let bit = (self.generated - 1).trailing_ones() as usize;
                for (q, d) in self.quasi.iter_mut().zip(&self.directions) {
                    *q ^= d[bit];
                }
            }
            // PyTorch computes the first point in the default dtype
            let narrow = first && promotion::default_dtype() != DType::F64;
            let value = |q: &u32| if narrow { f64::from(*q as f32) * SCALE } else { f64::from(*q) * SCALE };
            v.extend(self.quasi.iter().map(value));
            self.generated += 1;
        }
        crate::backend::transfer::cast_to(&Tensor::from_vec_raw(v, &[n, dim as i64])?, dtype)
    }
    /// `2^m` points; the number of all points so far must then be a power of 2.
    ///
    /// # Errors
    /// As [`SobolEngine::draw`], and where the number is none.
    pub fn draw_base2(&mut self, m: u32, dtype: Option<DType>) -> Result<Tensor> {
        let n = 1u64.checked_shl(m).unwrap_or(u64::MAX);
        let total = self.generated.saturating_add(n);
        ensure!(
            total.is_power_of_two(),
            Value,
            "The balance properties of Sobol' points require n to be a power of 2. {0} points have been previously \
             generated, then: n={0}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()' instead.",
            self.generated
        );
        self.draw(i64::try_from(n).unwrap_or(i64::MAX), dtype)
    }
    /// Skips `n` points.
    ///
    /// # Errors
    /// A negative `n`, or more than 2^30 points in all.
    pub fn fast_forward(&mut self, n: i64) -> Result<&mut Self> {
        let n = self.steps(n)?;
        self.advance(n);
        Ok(self)
    }
    /// Back to the first point.
    pub fn reset(&mut self) -> &mut Self {
        self.quasi.clone_from(&self.shift);
        self.generated = 0;
        self
    }
}
impl std::fmt::Display for SobolEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SobolEngine(dimension={}", self.dimension())?;
        if self.scramble {
            f.write_str(", scramble=True")?;
        }
        if let Some(s) = self.seed {
            write!(f, ", seed={s}")?;
        }
        f.write_str(")")
    }
}
