//! Tables of measurements.

use super::{Measurement, select_unit, trim_sigfig, unit_to_english};
use std::fmt;

/// Which of several times are coloured.
///
/// ```
/// use torch::utils::benchmark::Colorize;
/// assert_eq!(Colorize::default(), Colorize::None);
/// ```
#[doc(alias = "torch.utils.benchmark.Colorize")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Colorize {
    /// None.
    #[default]
    None,
    /// By their distance to the best of the column.
    Columnwise,
    /// By their distance to the best of the row.
    Rowwise,
}

/// Measurements beside each other: a table for each label, a row for each case, a column for each description.
///
/// ```
/// use torch::utils::benchmark::{Compare, Timer};
/// let sums = [8, 64].map(|n| {
///     let x = torch::ones([n]);
///     Timer::new("x.sum()", || drop(x.sum())).label("sums").sub_label(format!("{n} elements")).timeit(10)
/// });
/// let table = Compare::new(sums).to_string();
/// assert!(table.contains("sums") && table.contains("64 elements"));
/// ```
#[doc(alias = "torch.utils.benchmark.Compare")]
#[derive(Clone, Debug, Default)]
pub struct Compare {
    results: Vec<Measurement>,
    trim: bool,
    warnings: bool,
    colorize: Colorize,
}
impl Compare {
    /// A table of these.
    pub fn new(results: impl IntoIterator<Item = Measurement>) -> Compare {
        Compare { results: results.into_iter().collect(), ..Default::default() }
    }
    /// Adds more.
    pub fn extend_results(&mut self, results: impl IntoIterator<Item = Measurement>) {
        self.results.extend(results);
    }
    /// Shows no more digits than can be believed.
    pub fn trim_significant_figures(&mut self) {
        self.trim = true;
    }
    /// Says where times vary much.
    pub fn highlight_warnings(&mut self) {
        self.warnings = true;
    }
    /// Colours good and bad times by column, or by row.
    pub fn colorize(&mut self, rowwise: bool) {
        self.colorize = if rowwise { Colorize::Rowwise } else { Colorize::Columnwise };
    }
    /// Prints the tables.
    pub fn print(&self) {
        println!("{self}");
    }
}
fn centred(text: &str, width: usize) -> String {
    // Python puts the odd space to the left where the width is odd
    let space = width.saturating_sub(text.chars().count());
    let left = space / 2 + (space & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(space - left))
}
fn unique<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut v = Vec::new();
    for i in items {
        if !v.contains(&i) {
            v.push(i);
        }
    }
    v
}
type Key = (usize, String, String);
fn env(m: &Measurement) -> String {
    m.task_spec.env.clone().unwrap_or_else(|| "Unspecified env".into())
}
fn key(m: &Measurement) -> Key {
    (m.task_spec.num_threads, env(m), m.as_row_name())
}

struct Column {
    length: usize,
    decimals: usize,
    warns: bool,
}
impl Compare {
    fn column(&self, cells: &[Option<&Measurement>], scale: f64) -> Column {
        let given = || cells.iter().flatten();
        let digits = |m: &Measurement| (m.median() / scale).log10().ceil() as i64;
        let whole = given().map(|m| digits(m)).max().unwrap_or(1);
        let decimals = if self.trim {
            given().map(|m| (m.significant_figures() as i64 - digits(m)).max(0)).min().unwrap_or(0)
        } else {
            1
        };
        let length = (whole + decimals + i64::from(decimals > 0)).max(0) as usize;
        let warns = self.warnings && given().any(|m| m.has_warnings());
        Column { length, decimals: decimals as usize, warns }
    }
    fn cell(&self, c: &Column, m: Option<&Measurement>, scale: f64) -> String {
        let room = if c.warns { 7 } else { 0 };
        let Some(m) = m else { return " ".repeat(c.length.max(1) + room) };
        let value = m.median() / scale;
        let value = if self.trim { trim_sigfig(value, m.significant_figures()) } else { value };
        let note = if c.warns && m.has_warnings() {
            format!(" (! {:.0}%)", 100.0 * m.iqr() / m.median())
        } else {
            String::new()
        };
        format!("{value:>w$.d$}{note:>room$}", w = c.length, d = c.decimals)
    }
    fn coloured(text: String, value: f64, best: f64) -> String {
        let with = |codes: &str| format!("{codes}{text}\u{1b}[0m");
        match value {
            v if v <= best * 1.01 || v <= best + 100e-9 => with("\u{1b}[92m\u{1b}[1m"),
            v if v <= best * 1.1 => with("\u{1b}[34m\u{1b}[1m"),
            v if v >= best * 5.0 => with("\u{1b}[31m\u{1b}[1m"),
            v if v >= best * 2.0 => with("\u{1b}[2m\u{1b}[91m"),
            _ => text,
        }
    }
    fn table(&self, results: &[&Measurement], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = results.iter().map(|m| m.median()).fold(f64::INFINITY, f64::min);
        let (unit, scale) = select_unit(least);
        let mut rows: Vec<Key> = unique(results.iter().map(|m| key(m)));
        rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let columns: Vec<Option<String>> = unique(results.iter().map(|m| m.task_spec.description.clone()));
        let at = |r: &Key, c: &Option<String>| {
            results.iter().rev().find(|m| key(m) == *r && m.task_spec.description == *c).copied()
        };
        let several = unique(results.iter().map(|m| env(m))).len() > 1;
        let widest = results.iter().map(|m| env(m).chars().count()).max().unwrap_or(0);
        let formats: Vec<Column> = columns
            .iter()
            .map(|c| self.column(&rows.iter().map(|r| at(r, c)).collect::<Vec<_>>(), scale))
            .collect();
        let mut cells: Vec<Vec<String>> = Vec::new();
        let mut before: Option<&Key> = None;
        for r in &rows {
            let new = several && before.is_none_or(|b| b.0 != r.0 || b.1 != r.1);
            let shown = if new { format!("({})", r.1) } else { String::new() };
            let width = if several { widest + 4 } else { 4 };
            let mut line = vec![format!("  {shown:<width$}{}", r.2)];
            line.extend(columns.iter().zip(&formats).map(|(c, how)| self.cell(how, at(r, c), scale)));
            cells.push(line);
            before = Some(r);
        }
        let mut head = vec![String::new()];
        head.extend(columns.iter().map(|c| c.clone().unwrap_or_default()));
        let widths: Vec<usize> = (0..head.len())
            .map(|i| {
                cells.iter().map(|l| &l[i]).chain([&head[i]]).map(|t| t.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let first = head.iter().zip(&widths).map(|(t, w)| centred(t, *w)).collect::<Vec<_>>().join("  |  ");
        let whole = first.chars().count();
        let label = format!(" {} ", results[0].task_spec.label.clone().unwrap_or_default());
        let space = (whole.saturating_sub(2)).saturating_sub(label.chars().count());
        let left = space / 2 + (space & whole & 1);
        writeln!(f, "[{}{label}{}]", "-".repeat(left), "-".repeat(space - left))?;
        writeln!(f, "{first}")?;
        let mut threads = 0;
        for (r, line) in rows.iter().zip(&cells) {
            if r.0 != threads {
                threads = r.0;
                writeln!(f, "{:-<whole$}", format!("{threads} threads: "))?;
            }
            let mut out = vec![format!("{:<w$}", line[0], w = widths[0])];
            for (i, c) in columns.iter().enumerate() {
                let text = centred(&line[i + 1], widths[i + 1]);
                let best = match self.colorize {
                    Colorize::None => None,
                    Colorize::Rowwise => {
                        columns.iter().filter_map(|c| at(r, c)).map(|m| m.median()).reduce(f64::min)
                    }
                    Colorize::Columnwise => {
                        let group = rows.iter().filter(|k| k.0 == r.0);
                        group.filter_map(|k| at(k, c)).map(|m| m.median()).reduce(f64::min)
                    }
                };
                out.push(match (at(r, c), best) {
                    (Some(m), Some(best)) => Self::coloured(text, m.median(), best),
                    _ => text,
                });
            }
            writeln!(f, "{}", out.join("  |  "))?;
        }
        writeln!(f, "\nTimes are in {}s ({unit}).", unit_to_english(unit))?;
        if self.warnings && results.iter().any(|m| m.has_warnings()) {
            writeln!(f, "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")?;
        }
        Ok(())
    }
}
impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merged = Measurement::merge(&self.results);
        for (i, label) in unique(merged.iter().map(|m| m.task_spec.label.clone())).into_iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let group: Vec<&Measurement> = merged.iter().filter(|m| m.task_spec.label == label).collect();
            self.table(&group, f)?;
        }
        Ok(())
    }
}
