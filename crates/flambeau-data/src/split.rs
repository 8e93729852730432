//! Random parts of a dataset.

use crate::dataset::{Dataset, Subset};
use crate::expect;
use flambeau_core::settings::determinism::warn;
use flambeau_core::{Generator, Result, ensure, ops};
use std::sync::Arc;

/// A number that says how long a part is: samples, or a fraction.
#[diagnostic::on_unimplemented(
    message = "`{Self}` says no length of a part",
    label = "samples or fractions are wanted here",
    note = "`[80, 20]` or `[0.8, 0.2]`"
)]
pub trait PartLength: Copy {
    /// As it stands in a sum.
    fn number(self) -> f64;
}
macro_rules! lengths {
    ($($t:ty),*) => {$(impl PartLength for $t {
        fn number(self) -> f64 {
            self as f64
        }
    })*};
}
lengths!(i32, i64, usize, f64);

/// The sum with the rounding errors of each step added at the end, so that `0.1 + 0.2 + 0.7` is 1.
fn sum(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for v in values {
        let next = sum + v;
        lost += if sum.abs() >= v.abs() { (sum - next) + v } else { (v - next) + sum };
        sum = next;
    }
    sum + lost
}

fn lengths_of(total: usize, asked: &[f64]) -> Result<Vec<usize>> {
    let whole = sum(asked);
    let close = (whole - 1.0).abs() <= 1e-9 * whole.abs().max(1.0);
    if !(close && whole <= 1.0) {
        ensure!(
            whole == total as f64 && asked.iter().all(|n| *n >= 0.0 && n.fract() == 0.0),
            Value,
            "Sum of input lengths does not equal the length of the input dataset!"
        );
        return Ok(asked.iter().map(|n| *n as usize).collect());
    }
    let mut lengths = Vec::with_capacity(asked.len());
    for (i, fraction) in asked.iter().enumerate() {
        ensure!((0.0..=1.0).contains(fraction), Value, "Fraction at index {i} is not between 0 and 1");
        lengths.push((total as f64 * fraction).floor() as usize);
    }
    let rest = total.saturating_sub(lengths.iter().sum());
    for i in 0..rest {
        let at = i % lengths.len();
        lengths[at] += 1;
    }
    for i in (0..lengths.len()).filter(|i| lengths[*i] == 0) {
        warn(&format!("Length of split at index {i} is 0. This might result in an empty dataset."));
    }
    Ok(lengths)
}

/// Parts of the dataset by a random permutation: of given lengths, or of fractions that sum to 1.
///
/// Of fractions, each part has `floor(fraction * len)` samples and the first parts one more until none is left. The
/// permutation is PyTorch's for the default generator's state. Panics where [`try_random_split`] gives an error.
///
/// ```
/// use torch::utils::data::{Dataset, random_split};
///
/// torch::manual_seed(0);
/// let parts = random_split(0..10i64, [0.7, 0.3]);
/// assert_eq!([parts[0].len(), parts[1].len()], [7, 3]);
/// assert_eq!(parts[1].indices(), [8, 6, 2]);
/// ```
#[doc(alias = "torch.utils.data.random_split")]
#[track_caller]
pub fn random_split<D: Dataset, L: PartLength>(dataset: D, lengths: impl AsRef<[L]>) -> Vec<Subset<Arc<D>>> {
    expect(try_random_split(dataset, lengths, RandomSplitOptions::new()))
}
/// Keywords of [`random_split_with`].
#[derive(Clone, Debug, Default)]
pub struct RandomSplitOptions {
    generator: Option<Generator>,
}
impl RandomSplitOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Draws the permutation. Default: the default generator.
    pub fn generator(mut self, generator: &Generator) -> Self {
        self.generator = Some(generator.clone());
        self
    }
}
/// [`random_split`] with its keywords.
///
/// ```
/// use torch::utils::data::{RandomSplitOptions, random_split_with};
/// let generator = torch::Generator::new();
/// generator.manual_seed(42);
/// let parts = random_split_with(0..10i64, [7, 3], RandomSplitOptions::new().generator(&generator));
/// assert_eq!(parts.len(), 2);
/// ```
#[track_caller]
pub fn random_split_with<D: Dataset, L: PartLength>(
    dataset: D,
    lengths: impl AsRef<[L]>,
    options: RandomSplitOptions,
) -> Vec<Subset<Arc<D>>> {
    expect(try_random_split(dataset, lengths, options))
}
/// See [`random_split`].
///
/// # Errors
/// The lengths do not sum to the dataset's, or a fraction is not between 0 and 1.
pub fn try_random_split<D: Dataset, L: PartLength>(
    dataset: D,
    lengths: impl AsRef<[L]>,
    options: RandomSplitOptions,
) -> Result<Vec<Subset<Arc<D>>>> {
    let asked: Vec<f64> = lengths.as_ref().iter().map(|l| l.number()).collect();
    let lengths = lengths_of(dataset.len(), &asked)?;
    let n = dataset.len() as i64;
    let order = ops::randperm(n, options.generator.as_ref(), None, None, None, None)?.try_to_vec::<i64>()?;
    let dataset = Arc::new(dataset);
    let mut rest = order.iter().map(|i| *i as usize);
    Ok(lengths
        .iter()
        .map(|n| Subset::new(dataset.clone(), rest.by_ref().take(*n).collect::<Vec<_>>()))
        .collect())
}
