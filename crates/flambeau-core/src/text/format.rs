//! One element as text: which notation all elements of a tensor share, and how wide it is.

use super::options::Limits;

/// A notation and a width.
pub(super) struct Formatter {
    notation: Notation,
    precision: usize,
    width: usize,
}
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// Floats that are all whole: `3.`
    Whole,
    /// Digits after the point.
    Fixed,
    /// With an exponent.
    Sci,
}

/// The larger ratio of the largest to the smallest magnitude, and magnitudes outside of these bounds, switch to
/// scientific notation.
const SCI_RATIO: f64 = 1000.0;
const SCI_ABOVE: f64 = 1e8;
const SCI_BELOW: f64 = 1e-4;

impl Formatter {
    /// For floats. Zeros, NaN and infinities have no say in notation and width.
    pub(super) fn of_floats(values: &[f64], l: &Limits) -> Formatter {
        let mut f = Formatter { notation: Notation::Whole, precision: l.precision, width: 1 };
        let counts = || values.iter().copied().filter(|v| v.is_finite() && *v != 0.0);
        let (mut min, mut max, mut whole) = (f64::INFINITY, 0.0f64, true);
        for v in counts() {
            min = min.min(v.abs());
            max = max.max(v.abs());
            whole &= v == v.ceil();
        }
        if max == 0.0 {
            return f;
        }
        let sci = l.sci_mode.unwrap_or(max / min > SCI_RATIO || max > SCI_ABOVE || min < SCI_BELOW);
        f.notation = match (sci, whole) {
            (true, _) => Notation::Sci,
            (false, true) => Notation::Whole,
            (false, false) => Notation::Fixed,
        };
        f.width = counts().map(|v| f.bare(v).len()).max().unwrap_or(1);
        f
    }
    /// For texts that are ready.
    pub(super) fn of_texts(texts: &[String]) -> Formatter {
        let width = texts.iter().map(String::len).max().unwrap_or(1);
        Formatter { notation: Notation::Whole, precision: 0, width }
    }
    pub(super) fn width(&self) -> usize {
        self.width
    }
    fn bare(&self, v: f64) -> String {
        match self.notation {
            Notation::Sci => sci(v, self.precision),
            Notation::Fixed => fixed(v, self.precision),
            Notation::Whole if v.is_finite() => fixed(v, 0) + ".",
            Notation::Whole => fixed(v, 0),
        }
    }
    /// The number, padded on the left.
    pub(super) fn float(&self, v: f64) -> String {
        self.pad(&self.bare(v))
    }
    /// The text, padded on the left.
    pub(super) fn pad(&self, text: &str) -> String {
        format!("{text:>0$}", self.width)
    }
}

/// The digits to ask for, and the zeros behind them: no double has more than 1,074 digits after the point, and formatting
/// takes no more than 65,535 of them. More zeros than a page of them are nobody's wish.
fn exact(digits: usize) -> (usize, usize) {
    const MOST: usize = 1_100;
    (digits.min(MOST), digits.saturating_sub(MOST).min(1 << 14))
}

/// Python's `f"{v:.{digits}f}"`.
pub fn fixed(v: f64, digits: usize) -> String {
    let (digits, zeros) = exact(digits);
    if !v.is_finite() {
        return if v.is_nan() { "nan".into() } else { format!("{v}") };
    }
    let mut s = format!("{v:.digits$}");
    s.extend(std::iter::repeat_n('0', zeros));
    s
}
/// Python's `f"{v:.{digits}e}"`: the exponent has a sign and at least two digits.
pub fn sci(v: f64, digits: usize) -> String {
    if !v.is_finite() {
        return fixed(v, digits);
    }
    let (digits, zeros) = exact(digits);
    let s = format!("{v:.digits$e}");
    match s.split_once('e') {
        Some((m, e)) => {
            let (sign, e) = e.strip_prefix('-').map_or(('+', e), |e| ('-', e));
            format!("{m}{}e{sign}{e:0>2}", "0".repeat(zeros))
        }
        None => s,
    }
}

/// A complex number of two formatted parts: `1.-2.j`.
pub(super) fn complex(re: &Formatter, im: &Formatter, v: num_complex::Complex<f64>) -> String {
    let i = im.float(v.im);
    let i = i.trim_start();
    let plus = if i.starts_with(['+', '-']) { "" } else { "+" };
    format!("{}{plus}{i}j", re.float(v.re))
}
