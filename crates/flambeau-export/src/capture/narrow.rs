//! Captures at other sizes, and what is said of sizes and numbers that a program does not hold for.

use super::{Captured, Program, Sizes};
use crate::merge;
use crate::program::Range;
use crate::refusals::{self, Violation};
use crate::solve::Points;
use crate::unbacked::{self, Bound};
use flambeau_core::{Error, Result};
use flambeau_fx::symbolic::{Expr, Number};

fn at_point(program: &Program<'_>, sizes: &Sizes, p: &[i64]) -> Result<Captured> {
    let b = sizes.bindings(p);
    let mut of = Vec::new();
    for (i, d, e) in &sizes.of {
        match e.evaluate(&b).and_then(Number::int) {
            Some(n) => of.push((*i, *d, n)),
            None => return Err(Error::value(format!("the size {e} has no value"))),
        }
    }
    program.at(&of, &sizes.answers(p))
}
/// The captures at all points but the first; else the symbol that the program does not hold for.
pub(super) fn others(
    program: &Program<'_>,
    sizes: &Sizes,
    points: &Points,
    first: &Captured,
) -> std::result::Result<Vec<Captured>, Option<usize>> {
    let mut all = Vec::new();
    for (k, p) in points.all.iter().enumerate().skip(1) {
        let who = points.alone.iter().position(|l| l.contains(&k));
        match at_point(program, sizes, p) {
            Ok(c) if merge::same_way(first, &c).is_none() => all.push(c),
            _ => return Err(who),
        }
    }
    Ok(all)
}
/// Takes a symbol away that the program does not hold for, or says why that is an error.
pub(super) fn narrow(
    program: &Program<'_>,
    sizes: &mut Sizes,
    points: &Points,
    first: &Captured,
    j: Option<usize>,
) -> Result<()> {
    let holds = |p: &[i64]| at_point(program, sizes, p).is_ok_and(|c| merge::same_way(first, &c).is_none());
    let Some(j) = j else {
        return Err(Error::runtime(
            "the program holds for each dynamic size alone, but not for several at once: no expression of the sizes fits",
        ));
    };
    let base = &points.all[0];
    let s = sizes.symbols[j].clone();
    let at = |v: i64| {
        let mut p = base.clone();
        p[j] = v;
        p
    };
    if s.unbacked {
        let answered = |v: i64| at_point(program, sizes, &at(v));
        match unbacked::narrowed(&s.name, s.at, Range { min: s.min, max: s.max }, first, &answered)? {
            Bound::Least(n) => sizes.symbols[j].min = Some(n),
            Bound::Most(n) => sizes.symbols[j].max = Some(n),
        }
        return Ok(());
    }
    // two sizes that must be equal
    for k in (0..sizes.symbols.len()).filter(|k| *k != j) {
        if sizes.symbols[k].at != s.at || sizes.symbols[k].unbacked {
            continue;
        }
        let together = |d: i64| {
            let mut p = base.clone();
            p[j] += d;
            p[k] += d;
            p
        };
        if holds(&together(1)) && holds(&together(2)) {
            let (gone, kept) = (j.max(k), j.min(k));
            let (gone, kept) = (sizes.symbols[gone].clone(), sizes.symbols[kept].clone());
            if gone.hint || kept.hint {
                // PyTorch keeps the one that it found last
                let (keep, drop) = if gone.hint && kept.hint { (gone, kept) } else { (kept, gone) };
                sizes.replace(&drop.name, &Expr::symbol(&keep.name));
                return Ok(());
            }
            return Err(refusals::constraints(&[Violation::NotEqual {
                a: (gone.dim, gone.source),
                b: (kept.dim, kept.source),
            }]));
        }
    }
    if s.may_be_static {
        sizes.replace(&s.name, &Expr::Int(s.at));
        return Ok(());
    }
    // multiples alone
    let good: Vec<i64> = (1..=16).filter(|d| holds(&at(s.at + d))).collect();
    if let Some(step) = good.first().copied().filter(|d| *d > 1)
        && good.iter().all(|d| d % step == 0)
        && s.at % step == 0
    {
        return Err(refusals::constraints(&[Violation::Multiple {
            dim: s.dim,
            source: s.source,
            step,
            at: s.at,
        }]));
    }
    // up to a size
    if good.first() == Some(&1) || good.is_empty() && s.at > 2 && holds(&at(s.at - 1)) {
        let (mut low, mut high) = (s.at, s.max.unwrap_or(s.at + 4096).min(s.at + 4096));
        if !holds(&at(high)) {
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if holds(&at(middle)) { low = middle } else { high = middle }
            }
            return Err(refusals::constraints(&[Violation::AtMost {
                dim: s.dim,
                source: s.source,
                max: s.max,
                most: low,
            }]));
        }
    }
    Err(refusals::constraints(&[Violation::Constant { dim: s.dim, value: s.at }]))
}
