//! Instructions by function, as valgrind's callgrind counts them.

use flambeau_core::{Error, Result, ensure};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Sub};
use std::path::Path;
use std::process::Command;

/// The instructions of a function.
#[doc(alias = "torch.utils.benchmark.FunctionCount")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionCount {
    /// How many.
    pub count: i64,
    /// The function.
    pub function: String,
}

/// Functions by their instructions, the most first.
///
/// ```
/// use torch::utils::benchmark::{FunctionCount, FunctionCounts};
/// let count = |count, function: &str| FunctionCount { count, function: function.into() };
/// let all = FunctionCounts::new([count(3, "add"), count(9, "mul"), count(1, "add")], false);
/// assert_eq!((all.sum(), all.iter().next().unwrap().function.as_str()), (13, "mul"));
/// ```
#[doc(alias = "torch.utils.benchmark.FunctionCounts")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FunctionCounts {
    counts: Vec<FunctionCount>,
    /// Whether they include what the functions called.
    pub inclusive: bool,
}
impl FunctionCounts {
    /// Functions with the same name count together.
    pub fn new(counts: impl IntoIterator<Item = FunctionCount>, inclusive: bool) -> FunctionCounts {
        let mut all: BTreeMap<String, i64> = BTreeMap::new();
        for c in counts {
            let sum = all.entry(c.function).or_default();
            *sum = sum.saturating_add(c.count);
        }
        let mut counts: Vec<FunctionCount> = all
            .into_iter()
            .filter(|(_, n)| *n != 0)
            .map(|(function, count)| FunctionCount { count, function })
            .collect();
        counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.function.cmp(&b.function)));
        FunctionCounts { counts, inclusive }
    }
    /// The functions.
    pub fn iter(&self) -> impl Iterator<Item = &FunctionCount> {
        self.counts.iter()
    }
    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
    /// All instructions; the largest number where they are more.
    pub fn sum(&self) -> i64 {
        self.counts.iter().fold(0i64, |n, c| n.saturating_add(c.count))
    }
    /// Under other names; what gets the same name counts together.
    #[doc(alias = "torch.utils.benchmark.FunctionCounts.transform")]
    pub fn transform(&self, f: impl Fn(&str) -> String) -> FunctionCounts {
        let renamed = self.counts.iter().map(|c| FunctionCount { count: c.count, function: f(&c.function) });
        FunctionCounts::new(renamed, self.inclusive)
    }
    /// Those whose names fit.
    #[doc(alias = "torch.utils.benchmark.FunctionCounts.filter")]
    pub fn filter(&self, f: impl Fn(&str) -> bool) -> FunctionCounts {
        FunctionCounts::new(self.counts.iter().filter(|c| f(&c.function)).cloned(), self.inclusive)
    }
    /// Without functions that cost different amounts from run to run: the memory allocator's and the hash maps'.
    #[doc(alias = "torch.utils.benchmark.FunctionCounts.denoise")]
    pub fn denoise(&self) -> FunctionCounts {
        let noisy =
            ["malloc", "free", "calloc", "realloc", "_int_malloc", "_int_free", "hashbrown::", "SipHasher"];
        self.filter(|name| !noisy.iter().any(|n| name.contains(n)))
    }
}
impl Sub for &FunctionCounts {
    type Output = FunctionCounts;
    fn sub(self, other: &FunctionCounts) -> FunctionCounts {
        let less = other
            .counts
            .iter()
            .map(|c| FunctionCount { count: c.count.saturating_neg(), function: c.function.clone() });
        FunctionCounts::new(self.counts.iter().cloned().chain(less), self.inclusive)
    }
}
impl Add for &FunctionCounts {
    type Output = FunctionCounts;
    fn add(self, other: &FunctionCounts) -> FunctionCounts {
        FunctionCounts::new(self.counts.iter().chain(&other.counts).cloned(), self.inclusive)
    }
}
impl fmt::Display for FunctionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.counts.iter().map(|c| c.count.to_string().len()).max().unwrap_or(0) + 2;
        for (i, c) in self.counts.iter().enumerate() {
            // the many in the middle say little
            if self.counts.len() > 18 && i == 9 {
                writeln!(f, "{:>width$}", "...")?;
            }
            if self.counts.len() <= 18 || i < 9 || i >= self.counts.len() - 9 {
                writeln!(f, "{:>width$}  {}", c.count, c.function)?;
            }
        }
        write!(f, "\nTotal: {}", self.sum())
    }
}

/// What callgrind counted of a run of a program.
#[doc(alias = "torch.utils.benchmark.CallgrindStats")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallgrindStats {
    exclusive: FunctionCounts,
    inclusive: FunctionCounts,
}
impl CallgrindStats {
    /// Runs a program under `valgrind --tool=callgrind` and reads what it counted.
    ///
    /// # Errors
    /// No valgrind on this machine; the program fails.
    #[doc(alias = "torch.utils.benchmark.Timer.collect_callgrind")]
    pub fn collect(program: &mut Command) -> Result<CallgrindStats> {
        let folder = std::env::temp_dir().join(format!("callgrind.{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| Error::from(e).at_path(&folder))?;
        let out = folder.join("out");
        let mut run = Command::new("valgrind");
        run.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", out.display()));
        run.arg(program.get_program()).args(program.get_args());
        let done = run.output().map_err(|e| Error::runtime(format!("Could not run `valgrind`: {e}")))?;
        ensure!(
            done.status.success(),
            Runtime,
            "Failed to collect callgrind profile:\n{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let stats = Self::read(&out);
        let _ = std::fs::remove_dir_all(&folder);
        stats
    }
    /// Reads a file that callgrind wrote.
    ///
    /// # Errors
    /// Those of the system; `callgrind_annotate` is not there or cannot read the file.
    pub fn read(path: impl AsRef<Path>) -> Result<CallgrindStats> {
        let of = |inclusive: bool| -> Result<FunctionCounts> {
            let mut run = Command::new("callgrind_annotate");
            run.args([
                "--auto=no",
                "--threshold=100",
                if inclusive { "--inclusive=yes" } else { "--inclusive=no" },
            ]);
            let done = run
                .arg(path.as_ref())
                .output()
                .map_err(|e| Error::runtime(format!("Could not run `callgrind_annotate`: {e}")))?;
            ensure!(done.status.success(), Runtime, "{}", String::from_utf8_lossy(&done.stderr));
            Ok(Self::parse(&String::from_utf8_lossy(&done.stdout), inclusive))
        };
        Ok(CallgrindStats { exclusive: of(false)?, inclusive: of(true)? })
    }
    /// Lines of `callgrind_annotate`: `1,234 (12.3%)  file:function [object]`.
    fn parse(text: &str, inclusive: bool) -> FunctionCounts {
        let row = |line: &str| {
            let line = line.trim_start();
            let (number, rest) = line.split_once(' ')?;
            let count: i64 = number.replace(',', "").parse().ok()?;
            let rest = rest.trim_start();
            let rest = match rest.strip_prefix('(') {
                Some(r) => r.split_once(')')?.1.trim_start(),
                None => rest,
            };
            (!rest.starts_with("PROGRAM TOTALS") && rest.contains(':'))
                .then(|| FunctionCount { count, function: rest.to_string() })
        };
        FunctionCounts::new(text.lines().filter_map(row), inclusive)
    }
    /// Instructions by function, of the functions alone or with what they called.
    #[doc(alias = "torch.utils.benchmark.CallgrindStats.stats")]
    pub fn stats(&self, inclusive: bool) -> &FunctionCounts {
        if inclusive { &self.inclusive } else { &self.exclusive }
    }
    /// All instructions; without those of the allocator and of hash maps if `denoise`.
    #[doc(alias = "torch.utils.benchmark.CallgrindStats.counts")]
    pub fn counts(&self, denoise: bool) -> i64 {
        if denoise { self.exclusive.denoise().sum() } else { self.exclusive.sum() }
    }
    /// What another run counted less.
    #[doc(alias = "torch.utils.benchmark.CallgrindStats.delta")]
    pub fn delta(&self, other: &CallgrindStats, inclusive: bool) -> FunctionCounts {
        self.stats(inclusive) - other.stats(inclusive)
    }
    /// Without what differs between builds and machines: folders of sources, names of objects, hashes of symbols.
    #[doc(alias = "torch.utils.benchmark.CallgrindStats.as_standardized")]
    pub fn as_standardized(&self) -> CallgrindStats {
        let plain = |name: &str| {
            let name = name.split(" [").next().unwrap_or(name);
            let (file, function) = name.split_once(':').unwrap_or(("", name));
            let file = file.rsplit('/').next().unwrap_or(file);
            let function = match function.rsplit_once("::h") {
                Some((f, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => f,
                _ => function,
            };
            format!("{file}:{function}")
        };
        CallgrindStats {
            exclusive: self.exclusive.transform(plain),
            inclusive: self.inclusive.transform(plain),
        }
    }
}
