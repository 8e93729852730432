//! A line search for the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6),
//! with cubic interpolation.

use crate::algorithms::lbfgs::Problem;
use flambeau_core::{Result, Tensor, ops};

/// A point on the line: loss, gradient, and slope along the line.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub t: f64,
    pub f: f64,
    pub g: Tensor,
    pub slope: f64,
}

/// The minimum of the cubic through two points with their slopes, within bounds; their middle where it has none.
fn cubic(a: &Point, b: &Point, bounds: (f64, f64)) -> f64 {
    let d1 = a.slope + b.slope - 3.0 * (a.f - b.f) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    if square < 0.0 || square.is_nan() {
        return (bounds.0 + bounds.1) / 2.0;
    }
    let d2 = square.sqrt();
    let place = if a.t <= b.t {
        b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
    } else {
        a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2.0 * d2))
    };
    // Python's min and max keep the first where a comparison fails
    let low = if bounds.0 > place { bounds.0 } else { place };
    if bounds.1 < low { bounds.1 } else { low }
}
fn ordered(a: f64, b: f64) -> (f64, f64) {
    if a <= b { (a, b) } else { (b, a) }
}

/// A step length that meets the conditions, or the best that was found, with its loss and gradient; and how often the
/// loss was evaluated.
pub(crate) fn strong_wolfe(
    problem: &mut Problem<'_, '_>,
    x: &[Tensor],
    d: &Tensor,
    t: f64,
    start: Point,
    tolerance: f64,
    max_ls: i64,
) -> Result<(Point, i64)> {
    const C1: f64 = 1e-4;
    const C2: f64 = 0.9;
    let d_norm: f64 = ops::max(&ops::abs(d)?)?.try_item()?;
    let falls = |p: &Point| p.f <= start.f + C1 * p.t * start.slope;
    let level = |p: &Point| p.slope.abs() <= -C2 * start.slope;
    let mut new = problem.at(x, d, t)?;
    let mut evals = 1;
    let mut previous = start.clone();
    let mut iteration = 0;
    let mut bracket = None;
    while iteration < max_ls {
        if !falls(&new) || (iteration > 1 && new.f >= previous.f) {
            bracket = Some((previous.clone(), new.clone()));
            break;
        }
        if level(&new) {
            return Ok((new, evals));
        }
        if new.slope >= 0.0 {
            bracket = Some((previous.clone(), new.clone()));
            break;
        }
        let bounds = (new.t + 0.01 * (new.t - previous.t), new.t * 10.0);
        let next = cubic(&previous, &new, bounds);
        previous = std::mem::replace(&mut new, problem.at(x, d, next)?);
        evals += 1;
        iteration += 1;
    }
    let (a, b) = bracket.unwrap_or_else(|| (start.clone(), new));
    let mut ends = [a, b];
    let lower = |e: &[Point; 2]| if e[0].f <= e[1].f { (0, 1) } else { (1, 0) };
    let (mut low, mut high) = lower(&ends);
    let mut stuck = false;
    let mut done = false;
    while !done && iteration < max_ls {
        if (ends[1].t - ends[0].t).abs() * d_norm < tolerance {
            break;
        }
        let (least, most) = ordered(ends[0].t, ends[1].t);
        let mut t = cubic(&ends[0], &ends[1], (least, most));
        // too near to an end twice, or on it: a tenth of the bracket away from there
        let margin = 0.1 * (most - least);
        if (most - t).min(t - least) < margin {
            if stuck || t >= most || t <= least {
                t = if (t - most).abs() < (t - least).abs() { most - margin } else { least + margin };
                stuck = false;
            } else {
                stuck = true;
            }
        } else {
            stuck = false;
        }
        let new = problem.at(x, d, t)?;
        evals += 1;
        iteration += 1;
        if !falls(&new) || new.f >= ends[low].f {
            ends[high] = new;
            (low, high) = lower(&ends);
        } else {
            if level(&new) {
                done = true;
            } else if new.slope * (ends[high].t - ends[low].t) >= 0.0 {
                ends[high] = ends[low].clone();
            }
            ends[low] = new;
        }
    }
    let [a, b] = ends;
    Ok((if low == 0 { a } else { b }, evals))
}
