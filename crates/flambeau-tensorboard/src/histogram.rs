//! Histograms, as NumPy and TensorBoard make them.

use crate::proto::HistogramProto;
use flambeau_core::{Result, ensure};

/// Where the bins of a histogram lie.
///
/// ```
/// use torch::utils::tensorboard::{Bins, HistogramOptions, SummaryWriter};
/// # let dir = tempfile::tempdir()?;
/// # let log_dir = dir.path();
/// let writer = SummaryWriter::new(log_dir)?;
/// let ten = HistogramOptions::new().bins(Bins::Count(10));
/// writer.add_histogram_with("weights", &torch::randn([100]), 0, ten)?;
/// assert!(writer.add_histogram_with("weights", &torch::ones([3]), 0, HistogramOptions::new().bins(Bins::Edges(vec![]))).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Bins {
    /// TensorBoard's: from 1e-12 to 1e20 on both sides of zero, each 1.1 times as far out as the one before.
    #[default]
    TensorFlow,
    /// So many of equal width.
    Count(usize),
    /// Between these, which rise.
    Edges(Vec<f64>),
    /// Equal width by NumPy's `auto`: the finer of Freedman-Diaconis and Sturges.
    Auto,
    /// Equal width by Freedman and Diaconis: twice the quartiles' distance over the cube root of the number of values.
    Fd,
    /// Equal width by Scott: 3.49 deviations over the cube root of the number of values.
    Scott,
    /// Twice the cube root of the number of values.
    Rice,
    /// One more than the logarithm of the number of values.
    Sturges,
    /// Sturges' number, more where values are skewed (Doane).
    Doane,
    /// The square root of the number of values.
    Sqrt,
}

/// Options of [`add_histogram`](crate::SummaryWriter::add_histogram).
#[derive(Clone, Debug, Default)]
pub struct HistogramOptions {
    pub(crate) bins: Bins,
    pub(crate) max_bins: Option<usize>,
}
impl HistogramOptions {
    /// TensorBoard's bins, all of them.
    pub fn new() -> Self {
        Self::default()
    }
    /// Where the bins lie.
    pub fn bins(mut self, bins: Bins) -> Self {
        self.bins = bins;
        self
    }
    /// Joins neighbours until there are about so many.
    pub fn max_bins(mut self, n: usize) -> Self {
        self.max_bins = Some(n);
        self
    }
}

/// A histogram that was counted elsewhere.
///
/// ```
/// use torch::utils::tensorboard::{RawHistogram, SummaryWriter};
/// # let dir = tempfile::tempdir()?;
/// # let log_dir = dir.path();
/// // 1, 2 and 3 in two buckets
/// let counted = RawHistogram {
///     min: 1.0,
///     max: 3.0,
///     num: 3.0,
///     sum: 6.0,
///     sum_squares: 14.0,
///     bucket_limits: vec![2.0, 3.0],
///     bucket_counts: vec![2.0, 1.0],
/// };
/// let writer = SummaryWriter::new(log_dir)?;
/// writer.add_histogram_raw("ages", &counted, 0)?;
/// assert!(writer.add_histogram_raw("ages", &RawHistogram { bucket_counts: vec![3.0], ..counted }, 0).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RawHistogram {
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The number of values.
    pub num: f64,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub sum_squares: f64,
    /// The upper end of each bucket.
    pub bucket_limits: Vec<f64>,
    /// The number of values in each bucket.
    pub bucket_counts: Vec<f64>,
}
impl RawHistogram {
    pub(crate) fn proto(&self) -> Result<HistogramProto> {
        ensure!(
            self.bucket_limits.len() == self.bucket_counts.len(),
            Value,
            "len(bucket_limits) != len(bucket_counts), see the document."
        );
        Ok(HistogramProto {
            min: self.min,
            max: self.max,
            num: self.num,
            sum: self.sum,
            sum_squares: self.sum_squares,
            bucket_limit: self.bucket_limits.clone(),
            bucket: self.bucket_counts.clone(),
        })
    }
}

fn tensorflow() -> Vec<f64> {
    let outward: Vec<f64> =
        std::iter::successors(Some(1e-12), |v| Some(v * 1.1)).take_while(|v| *v < 1e20).collect();
    outward.iter().rev().map(|v| -v).chain([0.0]).chain(outward.iter().copied()).collect()
}

fn percentile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let (a, b) = (sorted[low], sorted[(low + 1).min(sorted.len() - 1)]);
    a + (b - a) * part
}

/// The width that a rule asks for; 0 where it has none.
fn width(rule: &Bins, values: &[f64], range: f64) -> f64 {
    let n = values.len() as f64;
    let mean = || values.iter().sum::<f64>() / n;
    let deviation = |mean: f64| (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    let sturges = range / (n.log2() + 1.0);
    let fd = || {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        2.0 * (percentile(&sorted, 0.75) - percentile(&sorted, 0.25)) / n.cbrt()
    };
    match rule {
        Bins::Fd => fd(),
        Bins::Auto => match fd() {
            0.0 => sturges,
            fd => fd.min(sturges),
        },
        Bins::Scott => (24.0 * std::f64::consts::PI.sqrt() / n).cbrt() * deviation(mean()),
        Bins::Rice => range / (2.0 * n.cbrt()),
        Bins::Sqrt => range / n.sqrt(),
        Bins::Doane if n > 2.0 => {
            let mean = mean();
            let sigma = deviation(mean);
            if sigma == 0.0 {
                return 0.0;
            }
            let skew = values.iter().map(|v| ((v - mean) / sigma).powi(3)).sum::<f64>() / n;
            let usual = (6.0 * (n - 2.0) / ((n + 1.0) * (n + 3.0))).sqrt();
            range / (1.0 + n.log2() + (1.0 + skew.abs() / usual).log2())
        }
        Bins::Doane => 0.0,
        Bins::Sturges | Bins::TensorFlow | Bins::Count(_) | Bins::Edges(_) => sturges,
    }
}

/// The most bins: one more would be a mistake, not a picture.
const MOST: usize = 1 << 24;

fn edges(bins: &Bins, values: &[f64]) -> Result<Vec<f64>> {
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    for v in values {
        (first, last) = (first.min(*v), last.max(*v));
    }
    let finite = values.iter().all(|v| v.is_finite());
    match bins {
        Bins::TensorFlow => return Ok(tensorflow()),
        Bins::Edges(e) => {
            ensure!(
                e.windows(2).all(|w| w[0] <= w[1]),
                Value,
                "`bins` must increase monotonically, when an array"
            );
            ensure!(e.len() >= 2, Value, "The histogram is empty, please file a bug report.");
            return Ok(e.clone());
        }
        _ => {}
    }
    ensure!(finite, Value, "autodetected range of [{first}, {last}] is not finite");
    if first == last {
        (first, last) = (first - 0.5, last + 0.5);
    }
    let range = last - first;
    let n = match bins {
        Bins::Count(n) => {
            ensure!(*n > 0, Value, "`bins` must be positive, when an integer");
            *n
        }
        rule => match width(rule, values, values_range(values)) {
            w if w > 0.0 => (range / w).ceil() as usize,
            _ => 1,
        },
    };
    ensure!(n <= MOST, Value, "{n} bins are more than {MOST}");
    let n = n.max(1);
    Ok((0..=n).map(|i| if i == n { last } else { first + range * i as f64 / n as f64 }).collect())
}
/// The distance between the extremes.
fn values_range(values: &[f64]) -> f64 {
    let fold = |f: fn(f64, f64) -> f64, start| values.iter().copied().fold(start, f);
    fold(f64::max, f64::NEG_INFINITY) - fold(f64::min, f64::INFINITY)
}

fn counts(values: &[f64], limits: &[f64]) -> Vec<f64> {
    let n = limits.len() - 1;
    let mut counts = vec![0.0; n];
    for v in values {
        // the last bin includes its end
        let at = if *v == limits[n] { n } else { limits.partition_point(|l| l <= v) };
        if let Some(c) = at.checked_sub(1).and_then(|i| counts.get_mut(i)) {
            *c += 1.0;
        }
    }
    counts
}

/// Joins neighbours until there are about `most` bins.
fn joined(counts: Vec<f64>, limits: Vec<f64>, most: usize) -> (Vec<f64>, Vec<f64>) {
    let each = counts.len() / most.max(1);
    if counts.len() <= most || each < 2 {
        return (counts, limits);
    }
    let last = limits[limits.len() - 1];
    let counts: Vec<f64> = counts.chunks(each).map(|c| c.iter().sum()).collect();
    let limits = limits[..limits.len() - 1].iter().step_by(each).copied().chain([last]).collect();
    (counts, limits)
}

/// The histogram of values: without the empty bins at either end, but one below the first.
pub fn make(values: &[f64], options: &HistogramOptions) -> Result<HistogramProto> {
    ensure!(!values.is_empty(), Value, "The input has no element.");
    let limits = edges(&options.bins, values)?;
    let counts = counts(values, &limits);
    let (counts, limits) = match options.max_bins {
        Some(most) => joined(counts, limits, most),
        None => (counts, limits),
    };
    let filled = |c: &f64| *c > 0.0;
    let ends = counts.iter().position(filled).zip(counts.iter().rposition(filled));
    ensure!(ends.is_some(), Value, "The histogram is empty, please file a bug report.");
    let (first, last) = ends.unwrap_or_default();
    let below = first.checked_sub(1).map_or(0.0, |i| counts[i]);
    let sum = |f: fn(f64) -> f64| values.iter().map(|v| f(*v)).sum::<f64>();
    let extreme = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(f64::NAN);
    // NumPy's extremes are NaN where a value is
    let nan = values.iter().any(|v| v.is_nan());
    let or_nan = |v: f64| if nan { f64::NAN } else { v };
    Ok(HistogramProto {
        min: or_nan(extreme(f64::min)),
        max: or_nan(extreme(f64::max)),
        num: values.len() as f64,
        sum: sum(|v| v),
        sum_squares: sum(|v| v * v),
        bucket_limit: limits[first..=last + 1].to_vec(),
        bucket: [below].into_iter().chain(counts[first..=last].iter().copied()).collect(),
    })
}
