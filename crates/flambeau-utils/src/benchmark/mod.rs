//! `torch.utils.benchmark`: how long a statement takes, measured often enough to be believed, and tables of such figures.
//!
//! ```
//! use torch::utils::benchmark::Timer;
//! let x = torch::ones([64]);
//! let m = Timer::new("x + x", || drop(&x + &x)).label("sums").num_threads(1).timeit(100);
//! assert!(m.median() > 0.0);
//! assert!(m.to_string().starts_with("sums"));
//! ```

mod compare;
mod counts;
mod fuzz;

pub use compare::{Colorize, Compare};
pub use counts::{CallgrindStats, FunctionCount, FunctionCounts};
pub use fuzz::{
    Choice, Distribution, Draw, Drawn, FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, Fuzzer, Length,
    ParameterAlias, Params, SparseProperties, TensorProperties,
};

use flambeau_core::settings::threads::{get_num_threads, set_num_threads};
use std::fmt;
use std::time::Instant;

/// What was measured.
///
/// ```
/// use torch::utils::benchmark::{TaskSpec, Timer};
/// let task: TaskSpec = Timer::new("x + x", || ()).label("sums").sub_label("small").timeit(1).task_spec;
/// assert_eq!(task.title(), "sums: small");
/// ```
#[doc(alias = "torch.utils.benchmark.TaskSpec")]
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TaskSpec {
    /// The statement, as text.
    pub stmt: String,
    /// What was done before, as text.
    pub setup: String,
    /// What is compared.
    pub label: Option<String>,
    /// Which case of it.
    pub sub_label: Option<String>,
    /// Which of the things that are compared.
    pub description: Option<String>,
    /// Which surroundings.
    pub env: Option<String>,
    /// How many threads kernels used.
    pub num_threads: usize,
}
fn indented(text: &str) -> String {
    text.lines().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
}
impl TaskSpec {
    /// A headline: the label or the statement, and the case.
    pub fn title(&self) -> String {
        let case = |open: &str, close: &str| {
            self.sub_label
                .as_ref()
                .filter(|s| !s.is_empty())
                .map_or(String::new(), |s| format!("{open}{s}{close}"))
        };
        match &self.label {
            Some(l) => format!("{l}{}", case(": ", "")),
            None if !self.stmt.contains('\n') => format!("{}{}", self.stmt, case(": ", "")),
            None => format!("stmt:{}\n{}", case(" (", ")"), indented(&self.stmt)),
        }
    }
    fn summary(&self) -> String {
        let setup = match self.setup.as_str() {
            "" | "pass" => String::new(),
            s if s.contains('\n') => format!("setup:\n{}", indented(s)),
            s => format!("setup: {s}"),
        };
        let parts = [self.title(), self.description.clone().unwrap_or_default(), setup];
        let parts = parts.into_iter().filter(|p| !p.is_empty());
        parts.map(|p| if p.contains('\n') { format!("{p}\n") } else { p }).collect::<Vec<_>>().join("\n")
    }
}

/// Times of a statement, and figures of them.
///
/// ```
/// use torch::utils::benchmark::Measurement;
/// let m = Measurement { number_per_run: 10, raw_times: vec![1.0, 2.0, 4.0], task_spec: Default::default() };
/// assert_eq!((m.median(), m.times()), (0.2, vec![0.1, 0.2, 0.4]));
/// ```
#[doc(alias = "torch.utils.benchmark.Measurement")]
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// How often the statement ran in each time.
    pub number_per_run: usize,
    /// Seconds.
    pub raw_times: Vec<f64>,
    /// What was measured.
    pub task_spec: TaskSpec,
}
impl Measurement {
    /// Seconds of one run of the statement.
    pub fn times(&self) -> Vec<f64> {
        self.raw_times.iter().map(|t| t / self.number_per_run as f64).collect()
    }
    fn sorted(&self) -> Vec<f64> {
        let mut v = self.times();
        v.sort_by(f64::total_cmp);
        v
    }
    fn quantile(&self, q: f64) -> f64 {
        let v = self.sorted();
        let Some(last) = v.len().checked_sub(1) else { return f64::NAN };
        let at = q * last as f64;
        let (i, part) = (at.floor() as usize, at.fract());
        v[i] + (v[(i + 1).min(last)] - v[i]) * part
    }
    /// The middle time.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
    /// The average.
    pub fn mean(&self) -> f64 {
        self.times().iter().sum::<f64>() / self.raw_times.len() as f64
    }
    /// The range of the middle half of the times.
    pub fn iqr(&self) -> f64 {
        self.quantile(0.75) - self.quantile(0.25)
    }
    /// Whether the middle half of the times lies within a part of the median.
    pub fn meets_confidence(&self, threshold: f64) -> bool {
        self.iqr() / self.median() < threshold
    }
    /// How many digits of the median can be believed, from 1 to 4: from the spread of the middle half.
    #[doc(alias = "torch.utils.benchmark.Measurement.significant_figures")]
    pub fn significant_figures(&self) -> usize {
        let v = self.sorted();
        let middle = &v[v.len() / 4..(3 * v.len()).div_ceil(4)];
        let n = middle.len() as f64;
        let mean = middle.iter().sum::<f64>() / n;
        let spread = (middle.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n).sqrt();
        let interval = (1.645 * spread / n.sqrt()).max(25e-9);
        ((self.median() / interval).log10().floor() as i64).clamp(1, 4) as usize
    }
    /// Whether the times vary so much that something else ran.
    pub fn has_warnings(&self) -> bool {
        !self.meets_confidence(0.1)
    }
    /// A headline.
    pub fn title(&self) -> String {
        self.task_spec.title()
    }
    /// What names its row in a table.
    pub fn as_row_name(&self) -> String {
        let s = &self.task_spec;
        let name = s.sub_label.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| s.stmt.clone());
        if name.is_empty() { "[Unknown]".into() } else { name }
    }
    /// Measurements of the same thing as one.
    #[doc(alias = "torch.utils.benchmark.Measurement.merge")]
    pub fn merge(measurements: &[Measurement]) -> Vec<Measurement> {
        let mut all: Vec<Measurement> = Vec::new();
        for m in measurements {
            match all.iter_mut().find(|a| a.task_spec == m.task_spec) {
                Some(a) => a.raw_times.extend(m.times()),
                None => all.push(Measurement {
                    number_per_run: 1,
                    raw_times: m.times(),
                    task_spec: m.task_spec.clone(),
                }),
            }
        }
        all
    }
}
impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.raw_times.len();
        let (unit, scale) = select_unit(self.median());
        let shown = |t: f64| format!("{:.2}", t / scale);
        let many = n > 1;
        writeln!(f, "{}", self.task_spec.summary())?;
        writeln!(f, "  {}{} {unit}", if many { "Median: " } else { "" }, shown(self.median()))?;
        if n >= 4 {
            let (low, high) = (shown(self.quantile(0.25)), shown(self.quantile(0.75)));
            writeln!(f, "  IQR:    {} {unit} ({low} to {high})", shown(self.iqr()))?;
        }
        let threads = self.task_spec.num_threads;
        write!(
            f,
            "  {n} measurement{}, {} runs {} {threads} thread{}",
            if many { "s" } else { "" },
            self.number_per_run,
            if many { "per measurement," } else { "," },
            if threads > 1 { "s" } else { "" }
        )?;
        if self.has_warnings() {
            let why = if self.meets_confidence(0.25) {
                "This could indicate system fluctuation."
            } else {
                "This suggests significant environmental influence."
            };
            write!(
                f,
                "\n  WARNING: Interquartile range is {:.1}% of the median measurement.\n           {why}",
                100.0 * self.iqr() / self.median()
            )?;
        }
        Ok(())
    }
}

/// The unit in which a time reads best, and how many seconds it has.
///
/// ```
/// use torch::utils::benchmark::{select_unit, unit_to_english};
/// let (unit, seconds) = select_unit(0.002);
/// assert_eq!((unit_to_english(unit), seconds), ("millisecond", 1e-3));
/// ```
#[doc(alias = "torch.utils.benchmark.select_unit")]
pub fn select_unit(seconds: f64) -> (&'static str, f64) {
    match ((seconds as f32).log10() / 3.0).floor() as i64 {
        -3 => ("ns", 1e-9),
        -2 => ("us", 1e-6),
        -1 => ("ms", 1e-3),
        _ => ("s", 1.0),
    }
}
/// The whole name of a unit of [`select_unit`].
#[doc(alias = "torch.utils.benchmark.unit_to_english")]
pub fn unit_to_english(unit: &str) -> &'static str {
    match unit {
        "ns" => "nanosecond",
        "us" => "microsecond",
        "ms" => "millisecond",
        _ => "second",
    }
}
/// A number cut to so many digits.
///
/// ```
/// assert_eq!(torch::utils::benchmark::trim_sigfig(3.14159, 2), 3.1);
/// ```
#[doc(alias = "torch.utils.benchmark.trim_sigfig")]
pub fn trim_sigfig(x: f64, n: usize) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    // beyond that many digits nothing is cut, and a number that is not finite has none
    let digits = n.min(400) as i32 - (x.abs().log10().ceil() as i32).clamp(-400, 400);
    if digits >= 0 {
        (x * 10f64.powi(digits)).round_ties_even() / 10f64.powi(digits)
    } else {
        (x / 10f64.powi(-digits)).round_ties_even() * 10f64.powi(-digits)
    }
}
/// Runs a closure with so many threads for kernels.
///
/// ```
/// use torch::utils::benchmark::set_torch_threads;
/// assert_eq!(set_torch_threads(1, torch::get_num_threads), 1);
/// ```
#[doc(alias = "torch.utils.benchmark.set_torch_threads")]
pub fn set_torch_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
    struct Back(usize);
    impl Drop for Back {
        fn drop(&mut self) {
            set_num_threads(self.0);
        }
    }
    let _back = Back(get_num_threads());
    set_num_threads(n);
    f()
}

/// Measures a closure, with one thread for kernels unless told otherwise.
#[doc(alias = "torch.utils.benchmark.Timer")]
pub struct Timer<F> {
    task_spec: TaskSpec,
    statement: F,
}
impl<F: FnMut()> Timer<F> {
    /// A statement: its text, for reports, and what it does.
    pub fn new(stmt: impl Into<String>, statement: F) -> Self {
        let task_spec =
            TaskSpec { stmt: stmt.into(), setup: "pass".into(), num_threads: 1, ..Default::default() };
        Timer { task_spec, statement }
    }
    /// What is compared.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.task_spec.label = Some(text.into());
        self
    }
    /// Which case of it: names a row of [`Compare`].
    pub fn sub_label(mut self, text: impl Into<String>) -> Self {
        self.task_spec.sub_label = Some(text.into());
        self
    }
    /// Which of the things that are compared: names a column of [`Compare`].
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.task_spec.description = Some(text.into());
        self
    }
    /// Which surroundings.
    pub fn env(mut self, text: impl Into<String>) -> Self {
        self.task_spec.env = Some(text.into());
        self
    }
    /// What was done before, for reports.
    pub fn setup(mut self, text: impl Into<String>) -> Self {
        self.task_spec.setup = text.into();
        self
    }
    /// How many threads kernels may use.
    pub fn num_threads(mut self, n: usize) -> Self {
        self.task_spec.num_threads = n.max(1);
        self
    }
    fn run(&mut self, number: usize) -> f64 {
        let begin = Instant::now();
        for _ in 0..number {
            (self.statement)();
        }
        begin.elapsed().as_secs_f64().max(1e-9)
    }
    fn measured(&self, number_per_run: usize, raw_times: Vec<f64>) -> Measurement {
        Measurement { number_per_run, raw_times, task_spec: self.task_spec.clone() }
    }
    /// Runs the statement so often, after a warm-up of a hundredth of it.
    #[doc(alias = "torch.utils.benchmark.Timer.timeit")]
    pub fn timeit(&mut self, number: usize) -> Measurement {
        set_torch_threads(self.task_spec.num_threads, || {
            self.run((number / 100).max(2));
            let t = self.run(number);
            self.measured(number, vec![t])
        })
    }
    /// So many runs that looking at the clock costs nothing beside them.
    fn block(&mut self, least: f64) -> usize {
        let mut looks: Vec<f64> = (0..5).map(|_| self.run(0)).collect();
        looks.sort_by(f64::total_cmp);
        let (look, mut number) = (looks[2], 1usize);
        loop {
            let t = self.run(number);
            if (look / t <= 1e-4 && t >= least / 1000.0) || t > least || number >= 200_000_000 {
                return number;
            }
            number *= 10;
        }
    }
    /// Runs blocks of the statement for at least so many seconds.
    #[doc(alias = "torch.utils.benchmark.Timer.blocked_autorange")]
    pub fn blocked_autorange(&mut self, min_run_time: f64) -> Measurement {
        set_torch_threads(self.task_spec.num_threads, || {
            let number = self.block(min_run_time);
            let mut times = Vec::new();
            while times.iter().sum::<f64>() < min_run_time || times.is_empty() {
                times.push(self.run(number));
            }
            self.measured(number, times)
        })
    }
    /// Runs blocks of the statement until the middle half of the times lies within `threshold` of the median, for at least and at most
    /// so many seconds.
    #[doc(alias = "torch.utils.benchmark.Timer.adaptive_autorange")]
    pub fn adaptive_autorange(
        &mut self,
        threshold: f64,
        min_run_time: f64,
        max_run_time: f64,
    ) -> Measurement {
        set_torch_threads(self.task_spec.num_threads, || {
            let number = self.block(0.05);
            let mut m = self.measured(number, Vec::new());
            loop {
                m.raw_times.push(self.run(number));
                let total: f64 = m.raw_times.iter().sum();
                let enough = m.raw_times.len() > 3 && total >= min_run_time && m.meets_confidence(threshold);
                if enough || total > max_run_time {
                    return m;
                }
            }
        })
    }
}
