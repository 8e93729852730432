//! What an operator that does not fit says of a program with dynamic sizes: they stand in its text as expressions, as in PyTorch's.

use crate::capture::{Program, symbol_of};
use crate::conditions::Size;
use crate::solve::Points;
use flambeau_core::Error;

/// A text as what stands between its numbers, and the numbers.
fn split(text: &str) -> (Vec<String>, Vec<i64>) {
    let (mut between, mut numbers) = (vec![String::new()], Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |n| at + n);
        let last = between.len() - 1;
        between[last].push_str(&rest[..at]);
        match rest[at..end].parse() {
            Ok(n) => {
                numbers.push(n);
                between.push(String::new());
            }
            Err(_) => between[last].push_str(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    let last = between.len() - 1;
    between[last].push_str(rest);
    (between, numbers)
}
/// The error of a program at its example's sizes, with expressions where other sizes give other numbers. Each size is a symbol of
/// its own but for those of one dim.
pub(crate) fn at_symbols(program: &Program<'_>, sizes: &[(usize, usize, i64, Size)], e: Error) -> Error {
    let mut symbols: Vec<(String, i64, i64, i64)> = Vec::new();
    let mut of = Vec::new();
    for (i, d, n, size) in sizes {
        let name = size.expr.as_symbol().map_or_else(|| symbol_of(&size.source), str::to_string);
        let k = symbols.iter().position(|s| s.0 == name).unwrap_or(symbols.len());
        if k == symbols.len() {
            symbols.push((name, *n, 2, i64::MAX));
        }
        of.push((*i, *d, k));
    }
    if symbols.is_empty() {
        return e;
    }
    let points = Points::new(&symbols);
    let (between, first) = split(e.message());
    let mut all = vec![first];
    for p in points.all.iter().skip(1) {
        let at: Vec<(usize, usize, i64)> = of.iter().map(|(i, d, k)| (*i, *d, p[*k])).collect();
        let Err(other) = program.at(&at, &[]) else { return e };
        let (text, numbers) = split(other.message());
        if text != between || other.kind() != e.kind() {
            return e;
        }
        all.push(numbers);
    }
    let mut text = String::new();
    for (j, part) in between.iter().enumerate() {
        text.push_str(part);
        if j + 1 < between.len() {
            let series: Vec<i64> = all.iter().map(|l| l[j]).collect();
            match points.solve(&series) {
                Some(found) => text.push_str(&found.to_string()),
                None => return e,
            }
        }
    }
    if text == e.message() {
        return e;
    }
    // PyTorch's text of sums and products of symbolic sizes ends with a parenthesis that nothing opened
    if text.starts_with("The size of tensor a (") {
        text.push(')');
    }
    Error::new(e.kind(), text)
}
