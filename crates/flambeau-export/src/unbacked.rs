//! Integers that a program reads from its tensors: symbols that no input says, and of which a capture knows one value.
//!
//! The program is captured again with other answers in their place. Where operators refuse an answer it lies outside of the symbol's
//! range, which the exported program asserts, as PyTorch's does. Where the program goes another way the integer decides what it
//! does, which is PyTorch's error about a guard on data; the condition is that which the answers show.

use crate::capture::Captured;
use crate::merge;
use crate::program::Range;
use crate::refusals;
use flambeau_core::{Error, Result};
use flambeau_fx::{Argument, GraphModule, Op, Val};

/// What a program is with another answer.
enum Tried {
    Same,
    Other(Box<Captured>),
    Refused,
}
/// How far an answer is looked for beyond the example's.
const FAR: i64 = 64;

/// The least or the greatest answer that operators take.
pub(crate) enum Bound {
    Least(i64),
    Most(i64),
}
/// Why a program does not hold for all answers: a bound, or the error.
pub(crate) fn narrowed(
    name: &str,
    at: i64,
    range: Range,
    first: &Captured,
    program: &dyn Fn(i64) -> Result<Captured>,
) -> Result<Bound> {
    let tried = |v: i64| match program(v) {
        Ok(c) if merge::same_way(first, &c).is_none() => Tried::Same,
        Ok(c) => Tried::Other(Box::new(c)),
        Err(_) => Tried::Refused,
    };
    let within = |v: &i64| range.min.is_none_or(|m| *v >= m) && range.max.is_none_or(|m| *v <= m);
    let steps = [1, 2, 3, 4, 8, 16, 32, FAR];
    let mut below: Vec<i64> = steps.iter().map(|d| at - d).chain([1, 0, -1]).filter(|v| *v < at).collect();
    let mut above: Vec<i64> = steps.iter().map(|d| at + d).chain([-1, 0, 1]).filter(|v| *v > at).collect();
    below.sort_by_key(|v| -v);
    above.sort_unstable();
    // the nearest answer on a side that the program does not hold for
    let nearest = |side: &[i64]| -> Option<(i64, Tried)> {
        let mut good = at;
        let mut bad = side.iter().filter(|v| within(v)).find_map(|v| match tried(*v) {
            Tried::Same => {
                good = *v;
                None
            }
            other => Some((*v, other)),
        })?;
        while (bad.0 - good).abs() > 1 {
            let middle = good + (bad.0 - good) / 2;
            match tried(middle) {
                Tried::Same => good = middle,
                other => bad = (middle, other),
            }
        }
        Some(bad)
    };
    let (low, high) = (nearest(&below), nearest(&above));
    let u = name;
    let guard = |condition: String| Err(refusals::data_dependent(&condition));
    match (low, high) {
        (Some((l, Tried::Other(a))), Some((h, Tried::Other(b)))) if h - l == 2 => {
            let holds = |v: i64| matches!(tried(v), Tried::Same);
            if let Some(d) = (2..=8).find(|d| holds(at + d) && holds(at + 2 * d)) {
                return guard(format!("Eq(PythonMod({u}, {d}), {})", at.rem_euclid(d)));
            }
            if merge::same_way(&a, &b).is_none() {
                return guard(format!("Eq({u}, {at})"));
            }
            Err(refusals::integer_needed(u))
        }
        (Some((v, Tried::Other(_))), _) => guard(format!("{u} > {v}")),
        (_, Some((v, Tried::Other(_)))) => guard(format!("{u} < {v}")),
        (Some((l, Tried::Refused)), Some((h, Tried::Refused))) if h - l == 2 => {
            guard(format!("Eq({u}, {at})"))
        }
        (Some((v, _)), _) => Ok(Bound::Least(v + 1)),
        (_, Some((v, _))) => Ok(Bound::Most(v - 1)),
        (None, None) => Err(refusals::integer_needed(u)),
    }
}
/// Puts the assertions of a symbol's range behind the node that reads it.
pub(crate) fn asserted(m: &mut GraphModule, name: &str, range: Range) -> Result<()> {
    let g = &mut m.graph;
    let is_read = |d: &flambeau_fx::NodeData| {
        d.target == "torch.ops.aten.item.default" && matches!(&d.meta.val, Some(Val::Sym(s)) if s == name)
    };
    let Some(read) = g.nodes().find(|n| is_read(g.node(*n))) else { return Ok(()) };
    let stack = g.node(read).meta.nn_module_stack.clone();
    let mut last = read;
    for (wish, sign, bound) in [("ge", ">=", range.min), ("le", "<=", range.max)] {
        let Some(bound) = bound else { continue };
        let condition = format!("{name} {sign} {bound}");
        g.inserting_after(last);
        let args = vec![Argument::Node(read), Argument::from(bound)];
        let test = g.create_node(Op::CallFunction, &format!("operator.{wish}"), args, Vec::new(), Some(wish));
        let text =
            format!("Runtime assertion failed for expression {condition} on node '{}'", g.node(test).name);
        g.inserting_after(test);
        let args = vec![Argument::Node(test), Argument::from(text.as_str())];
        let target = "torch.ops.aten._assert_scalar.default";
        let assertion =
            g.create_node(Op::CallFunction, target, args, Vec::new(), Some("_assert_scalar_default"));
        let meta = g.meta_mut(test);
        meta.val = Some(Val::Sym(condition));
        meta.nn_module_stack = stack.clone();
        let meta = g.meta_mut(assertion);
        meta.val = Some(Val::None);
        meta.nn_module_stack = stack.clone();
        last = assertion;
    }
    g.inserting_at_end();
    Ok(())
}
/// An error where a capture cannot read a number.
pub(crate) fn refused(condition: &str) -> Error {
    refusals::data_dependent(condition)
}
