//! `torch.utils.bottleneck`: a first look at where a program's time goes. PyTorch's is a command around a script; this one is a call
//! around a closure, which it runs twice: once as it is, for the clock, and once under the [profiler](crate::profiler).

use crate::profiler::{Profile, ProfileOptions, TableOptions, profile};
use flambeau_core::Result;
use flambeau_core::settings::config;
use std::fmt::{self, Display};
use std::time::{Duration, Instant};

/// Rows of each table.
const ROWS: i64 = 15;
const RULE: &str = "--------------------------------------------------------------------------------";

/// Where the time went: [`run`]. Printed, it is PyTorch's report: the environment, the program as a whole, and operators by
/// their own time and by that of all that they call.
///
/// ```
/// use torch::utils::bottleneck::{Report, run};
/// let report: Report = run(|| drop(torch::ones([2]).exp()))?;
/// assert!(report.in_operators() > std::time::Duration::ZERO);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
pub struct Report {
    elapsed: Duration,
    environment: String,
    in_operators: Duration,
    profiled: Duration,
    calls: i64,
    by_self: String,
    by_total: String,
}
impl Report {
    fn new(elapsed: Duration, profiled: Duration, p: &Profile) -> Result<Self> {
        let averages = p.key_averages(false);
        let table = |column: &str| averages.table(TableOptions::default().sort_by(column).row_limit(ROWS));
        Ok(Report {
            elapsed,
            environment: format!("{}\n{}", config::show().trim_end(), config::parallel_info().trim_end()),
            in_operators: Duration::from_secs_f64(averages.self_cpu_time_total() / 1e6),
            profiled,
            calls: averages.iter().map(|a| a.count as i64).sum(),
            by_self: table("self_cpu_time_total")?,
            by_total: table("cpu_time_total")?,
        })
    }
    /// How long the closure took without the profiler.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
    /// How long its operators took under the profiler, one thread's.
    pub fn in_operators(&self) -> Duration {
        self.in_operators
    }
}
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = |f: &mut fmt::Formatter<'_>, title: &str| writeln!(f, "{RULE}\n  {title}\n{RULE}");
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        head(f, "Environment Summary")?;
        writeln!(f, "{}", self.environment)?;
        head(f, "Program")?;
        writeln!(f, "{:12.3} ms  without the profiler", ms(self.elapsed))?;
        writeln!(f, "{:12.3} ms  under the profiler", ms(self.profiled))?;
        writeln!(f, "{:12.3} ms  of that in {} calls of operators", ms(self.in_operators), self.calls)?;
        let outside = self.profiled.saturating_sub(self.in_operators);
        writeln!(f, "{:12.3} ms  of that elsewhere: the program itself, reading data", ms(outside))?;
        head(f, "autograd profiler output (CPU mode)")?;
        writeln!(
            f,
            "        top {ROWS} events sorted by self_cpu_time_total\n\n{}",
            self.by_self.trim_end()
        )?;
        writeln!(f, "\n        top {ROWS} events sorted by cpu_time_total\n\n{}", self.by_total.trim_end())
    }
}

/// Runs the closure twice, as it is and under the profiler, and reports where its time goes. It should be short: every call
/// of an operator is kept until the end. What it prints appears twice.
///
/// ```
/// use torch::utils::bottleneck;
/// let x = torch::rand([64, 64]);
/// let report = bottleneck::run(|| {
///     let _ = x.matmul(&x).relu().sum();
/// })
/// .unwrap();
/// let text = report.to_string();
/// assert!(text.contains("Environment Summary") && text.contains("aten::matmul"));
/// println!("{text}");
/// ```
///
/// # Errors
/// None of its own; those of the profiler's table.
#[doc(alias = "torch.utils.bottleneck")]
#[doc(alias = "torch.utils.bottleneck:cli")]
pub fn run(mut program: impl FnMut()) -> Result<Report> {
    let start = Instant::now();
    program();
    let elapsed = start.elapsed();
    let mut profiled = Duration::ZERO;
    let p = profile(ProfileOptions::new(), |_| {
        let start = Instant::now();
        program();
        profiled = start.elapsed();
    });
    Report::new(elapsed, profiled, &p)
}
