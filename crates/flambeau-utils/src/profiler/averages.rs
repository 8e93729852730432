//! Events by operator, and the table of them.

use super::recorder::Event;
use flambeau_core::{Error, Result};
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Deref;

/// What all calls of an operator took.
///
/// ```
/// use torch::profiler::{FunctionEventAvg, ProfileOptions, profile};
/// let p = profile(ProfileOptions::new(), |_| {
///     let x = torch::ones([2]);
///     let _ = x.exp().exp();
/// });
/// let averages = p.key_averages(false);
/// let exp: &FunctionEventAvg = averages.iter().find(|a| a.key == "aten::exp").unwrap();
/// assert!(exp.count == 2 && exp.cpu_time_total >= exp.self_cpu_time_total);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FunctionEventAvg {
    /// `aten::add`
    pub key: String,
    /// The number of calls.
    pub count: usize,
    /// Microseconds of all calls.
    pub cpu_time_total: f64,
    /// Microseconds without operators within.
    pub self_cpu_time_total: f64,
    /// Microseconds of the kernels and copies that all calls queued; of a kernel, its own.
    pub device_time_total: f64,
    /// The same without operators within.
    pub self_device_time_total: f64,
    /// The CUDA device of a kernel or a copy; none: the CPU.
    pub device: Option<i64>,
    /// Bytes taken less bytes given back.
    pub cpu_memory_usage: i64,
    /// The same without operators within.
    pub self_cpu_memory_usage: i64,
    /// Estimated operations.
    pub flops: u64,
    /// Sizes of the arguments, where calls are told apart by them.
    pub input_shapes: Vec<Vec<i64>>,
    /// Functions that called, the innermost first, of the first call.
    pub stack: Vec<String>,
    /// Whether some call stood within no other.
    top: bool,
}
impl FunctionEventAvg {
    /// Microseconds of a call.
    pub fn cpu_time(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.cpu_time_total / self.count as f64 }
    }
    /// Microseconds of a call's kernels and copies.
    pub fn device_time(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.device_time_total / self.count as f64 }
    }
    fn add(&mut self, e: &Event) {
        self.count += 1;
        self.cpu_time_total += e.cpu_time_total();
        self.self_cpu_time_total += e.self_cpu_time();
        self.device_time_total += e.device_time_total();
        self.self_device_time_total += e.self_device_time_total();
        self.cpu_memory_usage = self.cpu_memory_usage.saturating_add(e.cpu_memory_usage);
        self.self_cpu_memory_usage = self.self_cpu_memory_usage.saturating_add(e.self_cpu_memory_usage());
        self.flops = self.flops.saturating_add(e.flops);
        self.top |= e.parent.is_none();
        if self.stack.is_empty() {
            self.stack.clone_from(&e.stack);
        }
    }
}
pub(super) fn total(events: &[Event]) -> FunctionEventAvg {
    let mut all = FunctionEventAvg { key: "Total".into(), ..Default::default() };
    events.iter().for_each(|e| all.add(e));
    all
}

/// Which columns there are.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    pub(super) memory: bool,
    pub(super) flops: bool,
    pub(super) stack: bool,
}
/// A list of averages that prints as PyTorch's table.
///
/// ```
/// use torch::profiler::{Averages, ProfileOptions, profile};
/// let p = profile(ProfileOptions::new(), |_| drop(torch::ones([2]).exp()));
/// let all: Averages = p.key_averages(false);
/// assert!(all.iter().any(|row| row.key == "aten::exp") && all.to_string().contains("aten::exp"));
/// ```
#[doc(alias = "torch.autograd.profiler.EventList")]
pub struct Averages {
    rows: Vec<FunctionEventAvg>,
    shown: Shown,
    shapes: bool,
}
impl Deref for Averages {
    type Target = [FunctionEventAvg];
    fn deref(&self) -> &[FunctionEventAvg] {
        &self.rows
    }
}
/// How [`Averages::table`] looks.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// A column's name as PyTorch has it: `cpu_time`, `cpu_time_total`, `self_cpu_time_total`, `cpu_memory_usage`,
    /// `self_cpu_memory_usage`, `device_time`, `device_time_total`, `self_device_time_total` (also with `cuda`), `count`; the largest come first. Without it the first called come first.
    pub sort_by: Option<String>,
    /// How many rows there are; all if negative.
    pub row_limit: i64,
    /// A line above.
    pub header: Option<String>,
    /// Longer names are cut.
    pub max_name_column_width: usize,
    /// Longer stacks are cut.
    pub max_src_column_width: usize,
    /// Longer sizes are cut.
    pub max_shapes_column_width: usize,
    /// Leaves out what only ran within others.
    pub top_level_events_only: bool,
}
impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            sort_by: None,
            row_limit: 100,
            header: None,
            max_name_column_width: 55,
            max_src_column_width: 75,
            max_shapes_column_width: 80,
            top_level_events_only: false,
        }
    }
}
impl TableOptions {
    /// The largest of a column first.
    pub fn sort_by(mut self, column: &str) -> Self {
        self.sort_by = Some(column.into());
        self
    }
    /// How many rows there are; all if negative.
    pub fn row_limit(mut self, n: i64) -> Self {
        self.row_limit = n;
        self
    }
}

fn time(us: f64) -> String {
    match us {
        t if t >= 1e6 => format!("{:.3}s", t / 1e6),
        t if t >= 1e3 => format!("{:.3}ms", t / 1e3),
        t => format!("{t:.3}us"),
    }
}
fn bytes(n: i64) -> String {
    let size = n.unsigned_abs();
    let scaled = |unit: u32, name: &str| format!("{:.2} {name}", n as f64 / f64::from(1u32 << unit));
    match size {
        s if s >= 1 << 30 => scaled(30, "GB"),
        s if s >= 1 << 20 => scaled(20, "MB"),
        s if s >= 1 << 10 => scaled(10, "KB"),
        _ => format!("{n} B"),
    }
}
fn share(part: f64, whole: f64) -> String {
    if whole == 0.0 { "NaN".into() } else { format!("{:.2}%", 100.0 * part / whole) }
}
fn list(shapes: &[Vec<i64>]) -> String {
    format!("{shapes:?}")
}
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() >= width.saturating_sub(3) {
        format!("{}...", text.chars().take(width.saturating_sub(3)).collect::<String>())
    } else {
        text.into()
    }
}

impl Averages {
    pub(super) fn new(events: &[Event], shapes: bool, shown: &Shown) -> Averages {
        let mut places: HashMap<(&str, &[Vec<i64>], Option<i64>), usize> = HashMap::new();
        let mut rows: Vec<FunctionEventAvg> = Vec::new();
        for e in events {
            let by: &[Vec<i64>] = if shapes { &e.input_shapes } else { &[] };
            let i = *places.entry((&*e.name, by, e.device)).or_insert_with(|| {
                rows.push(FunctionEventAvg {
                    key: e.name.to_string(),
                    input_shapes: by.to_vec(),
                    device: e.device,
                    ..Default::default()
                });
                rows.len() - 1
            });
            rows[i].add(e);
        }
        Averages { rows, shown: *shown, shapes }
    }
    /// One row an event.
    pub(super) fn single(events: &[Event], shown: &Shown) -> Averages {
        let rows = events.iter().map(|e| {
            let mut a = FunctionEventAvg {
                key: e.name.to_string(),
                input_shapes: e.input_shapes.clone(),
                device: e.device,
                ..Default::default()
            };
            a.add(e);
            a
        });
        let rows: Vec<_> = rows.collect();
        let shapes = rows.iter().any(|r| !r.input_shapes.is_empty());
        Averages { rows, shown: *shown, shapes }
    }
    /// Microseconds of all operators without those within them.
    pub fn self_cpu_time_total(&self) -> f64 {
        self.rows.iter().map(|r| r.self_cpu_time_total).sum()
    }
    /// Microseconds of all kernels and copies of devices.
    pub fn self_device_time_total(&self) -> f64 {
        self.rows.iter().filter(|r| r.device.is_some()).map(|r| r.self_device_time_total).sum()
    }
    fn sorted(&self, by: Option<&str>) -> Result<Vec<&FunctionEventAvg>> {
        let mut rows: Vec<&FunctionEventAvg> = self.rows.iter().collect();
        let Some(by) = by else { return Ok(rows) };
        let column: fn(&FunctionEventAvg) -> f64 = match by {
            "cpu_time" => FunctionEventAvg::cpu_time,
            "cpu_time_total" => |r| r.cpu_time_total,
            "self_cpu_time_total" => |r| r.self_cpu_time_total,
            "cpu_memory_usage" => |r| r.cpu_memory_usage as f64,
            "self_cpu_memory_usage" => |r| r.self_cpu_memory_usage as f64,
            "count" => |r| r.count as f64,
            "flops" => |r| r.flops as f64,
            "device_time" | "cuda_time" => FunctionEventAvg::device_time,
            "device_time_total" | "cuda_time_total" => |r| r.device_time_total,
            "self_device_time_total" | "self_cuda_time_total" => |r| r.self_device_time_total,
            // memory of devices is not noted by operator
            "device_memory_usage" | "self_device_memory_usage" => |_| 0.0,
            other => {
                return Err(Error::attribute(format!(
                    "'FunctionEventAvg' object has no attribute '{other}'"
                )));
            }
        };
        rows.sort_by(|a, b| column(b).total_cmp(&column(a)));
        Ok(rows)
    }
    /// PyTorch's table.
    ///
    /// # Errors
    /// A column to sort by that there is none of.
    pub fn table(&self, o: TableOptions) -> Result<String> {
        let rows = self.sorted(o.sort_by.as_deref())?;
        let widest = |f: &dyn Fn(&FunctionEventAvg) -> usize, most: usize| {
            (rows.iter().map(|r| f(r)).max().unwrap_or(0) + 4).min(most)
        };
        let mut columns: Vec<(&str, usize)> =
            vec![("Name", widest(&|r| r.key.chars().count(), o.max_name_column_width))];
        let plain = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"];
        columns.extend(plain.map(|n| (n, 12)));
        let on_devices = rows.iter().any(|r| r.self_device_time_total > 0.0);
        if on_devices {
            columns.extend(
                ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"].map(|n| (n, 12.max(n.len()))),
            );
        }
        if self.shown.memory {
            columns.extend([("CPU Mem", 12), ("Self CPU Mem", 12)]);
        }
        columns.push(("# of Calls", 12));
        if self.shapes {
            columns
                .push(("Input Shapes", widest(&|r| list(&r.input_shapes).len(), o.max_shapes_column_width)));
        }
        if self.shown.stack {
            let longest = |r: &FunctionEventAvg| r.stack.iter().map(|s| s.chars().count()).max().unwrap_or(0);
            columns.push(("Source Location", widest(&longest, o.max_src_column_width)));
        }
        let most = rows.iter().map(|r| r.flops).max().unwrap_or(0);
        let (scale, unit) = match most {
            n if n >= 1_000_000_000 => (1e9, "Total GFLOPs"),
            n if n >= 1_000_000 => (1e6, "Total MFLOPs"),
            n if n >= 1_000 => (1e3, "Total KFLOPs"),
            _ => (1.0, "Total FLOPs"),
        };
        if self.shown.flops {
            columns.push((unit, 12));
        }
        let rule: String = columns.iter().map(|c| format!("{}  ", "-".repeat(c.1))).collect();
        let length = rule.len().saturating_sub(2);
        let mut s = String::new();
        if let Some(h) = &o.header {
            let _ = writeln!(s, "{}\n{h}", "=".repeat(length));
        }
        if o.top_level_events_only {
            let _ = writeln!(s, "{}\nThis report only display top-level ops statistics", "=".repeat(length));
        }
        let line = |cells: &[String]| -> String {
            let cell = |(c, text): (&(&str, usize), &String)| {
                if c.0 == "Source Location" {
                    format!("{text:<w$}  ", w = c.1)
                } else {
                    format!("{text:>w$}  ", w = c.1)
                }
            };
            columns.iter().zip(cells).map(cell).collect()
        };
        let heads: Vec<String> = columns.iter().map(|c| c.0.to_string()).collect();
        let _ = writeln!(s, "{rule}\n{}\n{rule}", line(&heads));
        let (whole, whole_devices) = (self.self_cpu_time_total(), self.self_device_time_total());
        let limit = usize::try_from(o.row_limit).unwrap_or(usize::MAX);
        for r in rows.iter().filter(|r| !o.top_level_events_only || r.top).take(limit) {
            let mut cells = vec![
                cut(&r.key, o.max_name_column_width),
                share(r.self_cpu_time_total, whole),
                time(r.self_cpu_time_total),
                share(r.cpu_time_total, whole),
                time(r.cpu_time_total),
                time(r.cpu_time()),
            ];
            if on_devices {
                cells.extend([
                    time(r.self_device_time_total),
                    share(r.self_device_time_total, whole_devices),
                    time(r.device_time_total),
                    time(r.device_time()),
                ]);
            }
            if self.shown.memory {
                cells.extend([bytes(r.cpu_memory_usage), bytes(r.self_cpu_memory_usage)]);
            }
            cells.push(r.count.to_string());
            if self.shapes {
                cells.push(list(&r.input_shapes).chars().take(o.max_shapes_column_width).collect());
            }
            if self.shown.stack {
                cells.push(r.stack.first().map_or(String::new(), |f| cut(f, o.max_src_column_width)));
            }
            if self.shown.flops {
                cells.push(if r.flops == 0 {
                    "--".into()
                } else {
                    format!("{:8.3}", r.flops as f64 / scale)
                });
            }
            let _ = writeln!(s, "{}", line(&cells));
        }
        let _ = writeln!(s, "{rule}\nSelf CPU time total: {}", time(whole));
        if on_devices {
            let _ = writeln!(s, "Self CUDA time total: {}", time(whole_devices));
        }
        Ok(s)
    }
}
impl std::fmt::Display for Averages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // without a column to sort by nothing fails
        f.write_str(&self.table(TableOptions::default()).unwrap_or_default())
    }
}
