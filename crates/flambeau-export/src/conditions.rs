//! Conditions that a program's dynamic sizes ask for, as files hold them (`guards_code`).
//!
//! Numbers, bounds and equal sizes are read from the graph by whoever loads a program. What is written here is the rest: how a size
//! that follows from another one relates to it, and what it must be a multiple of.

use crate::capture::Symbol;
use crate::solve::gcd;
use flambeau_core::Value;
use flambeau_fx::symbolic::{Bindings, Expr, Number};
use flambeau_fx::{Argument, Graph, Op, Val};

/// A dynamic size of an input: the text that reads it, and the expression that it is.
pub(crate) struct Size {
    pub source: String,
    pub expr: Expr,
}
/// `factor * symbol + offset`
struct Line {
    factor: i64,
    offset: i64,
}
impl Line {
    fn of(e: &Expr, symbol: &str) -> Option<Line> {
        let at = |n: i64| {
            let b: Bindings = [(symbol.to_string(), n)].into_iter().collect();
            e.evaluate(&b).and_then(Number::int)
        };
        let (zero, one) = (at(0)?, at(1)?);
        Some(Line { factor: one.checked_sub(zero)?, offset: zero })
    }
    /// The line at what that text reads.
    fn at(&self, text: &str) -> String {
        let product = if self.factor == 1 { text.to_string() } else { format!("({}*{text})", self.factor) };
        plus(self.offset, &product)
    }
}
/// A number and something, as sympy prints their sum.
fn plus(n: i64, text: &str) -> String {
    match n {
        0 => text.to_string(),
        n if n < 0 => format!("(({n}) + {text})"),
        n => format!("({n} + {text})"),
    }
}
/// All conditions of these sizes in a program.
pub(crate) fn conditions(symbols: &[Symbol], sizes: &[Size], graph: &Graph) -> Vec<String> {
    let mut out = Vec::new();
    for s in symbols {
        let of = |size: &&Size| size.expr.symbols().iter().any(|n| **n == *s.name);
        let mine: Vec<&Size> = sizes.iter().filter(of).collect();
        let direct = mine.iter().find(|size| size.expr.as_symbol().is_some());
        // what the symbol is, by the first size that says it
        let root = match (direct, mine.first()) {
            (Some(size), _) => size.source.clone(),
            (None, Some(size)) => {
                let Some(line) = Line::of(&size.expr, &s.name).filter(|l| l.factor != 0) else { continue };
                let at_zero = plus(line.offset.saturating_neg(), &size.source);
                if line.factor.abs() == 1 {
                    if line.factor == 1 { at_zero } else { format!("(-{at_zero})") }
                } else {
                    out.push(
                        split(size, &line, graph)
                            .unwrap_or_else(|| format!("({at_zero} % {}) == 0", line.factor)),
                    );
                    format!("({at_zero} // {})", line.factor)
                }
            }
            (None, None) => continue,
        };
        let mut seen: Vec<&Expr> = Vec::new();
        if direct.is_none() {
            seen.extend(mine.first().map(|size| &size.expr));
        }
        for size in mine.iter().filter(|size| size.expr.as_symbol().is_none()) {
            // sizes of one expression are equal, which is read from the graph
            if seen.contains(&&size.expr) {
                continue;
            }
            seen.push(&size.expr);
            let Some(line) = Line::of(&size.expr, &s.name) else { continue };
            out.push(if line.factor == 1 {
                format!("{root} == {}", plus(line.offset.saturating_neg(), &size.source))
            } else {
                format!("{} == {}", line.at(&root), size.source)
            });
        }
    }
    out
}
/// That a view with a size left open divides without rest, if that is what the size must be a multiple of.
fn split(size: &Size, line: &Line, graph: &Graph) -> Option<String> {
    let views = graph.nodes().map(|n| graph.node(n)).filter(|d| {
        let open = |a: &Argument| number(a) == Some(-1);
        d.op == Op::CallFunction
            && d.args().get(1).and_then(Argument::items).is_some_and(|l| l.iter().any(open))
    });
    for d in views {
        let [Argument::Node(from), shape] = d.args() else { continue };
        let (Some(shape), Some(Val::Tensor(given)), Some(Val::Tensor(made))) =
            (shape.items(), &graph.node(*from).meta.val, &d.meta.val)
        else {
            continue;
        };
        // a call with one size for each of the result's
        if made.shape.len() != shape.len() || line.offset != 0 {
            continue;
        }
        let known = shape.iter().map(number).collect::<Option<Vec<i64>>>();
        let Some(known) = known.filter(|l| l.iter().filter(|n| **n == -1).count() == 1) else { continue };
        let by = known.iter().filter(|n| **n != -1).try_fold(1i64, |a, n| a.checked_mul(*n))?;
        let (fixed, open): (Vec<&Expr>, Vec<&Expr>) = given.shape.iter().partition(|e| e.as_int().is_some());
        let times = fixed.iter().filter_map(|e| e.as_int()).try_fold(1i64, i64::checked_mul)?;
        if open[..] != [&size.expr] || by < 1 || (by / gcd(by, times)) % line.factor != 0 {
            continue;
        }
        let all = if times == 1 { size.source.clone() } else { format!("({times}*{})", size.source) };
        return Some(format!("({all} % {by}) == 0"));
    }
    None
}
fn number(a: &Argument) -> Option<i64> {
    match a.value() {
        Some(Value::Int(n)) => Some(*n),
        _ => None,
    }
}
