//! Divergences from distributions over unbounded intervals to those of other families.

use super::{Rules, infinite};
use crate::distribution::Distribution;
use crate::families::{
    Beta, ContinuousBernoulli, EULER, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto, Uniform,
};
use crate::formula::{Expr, e};
use std::f64::consts::PI;

/// Infinite: the first kind of distribution has values that the others cannot have.
macro_rules! never {
    ($r:ident, $p:ident by $like:ident: $($q:ident),+) => {
        $($r.add(|p: &$p, _q: &$q| infinite(p.$like()));)+
    };
}
pub(super) fn add(r: &mut Rules) {
    never!(r, Exponential by rate: Beta, ContinuousBernoulli, Pareto, Uniform);
    never!(r, Gamma by concentration: Beta, ContinuousBernoulli, Pareto, Uniform);
    never!(r, Gumbel by loc: Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform);
    never!(r, Laplace by loc: Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform);
    never!(r, Normal by loc: Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform);
    never!(r, Pareto by scale: Beta, ContinuousBernoulli, Uniform);

    r.add(|p: &Exponential, q: &Gamma| {
        let (ratio, c) = (e(q.rate()) / e(p.rate()), e(q.concentration()));
        -&c * ratio.log() + &ratio + c.lgamma() + &c * EULER - (1.0 + EULER)
    });
    r.add(|p: &Exponential, q: &Gumbel| {
        let product = e(p.rate()) * e(q.scale());
        let ratio = e(q.loc()) / e(q.scale());
        let t2 = ratio.exp() * &product / (&product + 1.0);
        product.log() - 1.0 - ratio + t2 + product.reciprocal()
    });
    r.add(|p: &Exponential, q: &Normal| {
        let (var, square) = (e(q.scale()).pow(2.0), e(p.rate()).pow(2.0));
        let t1 = 0.5 * (&square * &var * 2.0 * PI).log();
        let (t3, t4) = (e(q.loc()) / e(p.rate()), e(q.loc()).pow(2.0) * 0.5);
        t1 - 1.0 + (square.reciprocal() - t3 + t4) / var
    });

    r.add(|p: &Gamma, q: &Exponential| {
        let entropy = Expr(p.try_entropy());
        -entropy - e(q.rate()).log() + e(q.rate()) * e(p.concentration()) / e(p.rate())
    });
    r.add(|p: &Gamma, q: &Gumbel| {
        let (c, product) = (e(p.concentration()), e(p.rate()) * e(q.scale()));
        let ratio = e(q.loc()) / e(q.scale());
        let t1 = (&c - 1.0) * c.digamma() - c.lgamma() - &c;
        let t2 = product.log() + &c / &product;
        let t3 = ratio.exp() * (1.0 + product.reciprocal()).pow(-&c) - &ratio;
        t1 + t2 + t3
    });
    r.add(|p: &Gamma, q: &Normal| {
        let c = e(p.concentration());
        let (var, square) = (e(q.scale()).pow(2.0), e(p.rate()).pow(2.0));
        let t1 = 0.5 * (&square * &var * 2.0 * PI).log() - &c - c.lgamma();
        let t2 = 0.5 * (c.pow(2.0) + &c) / &square;
        let t3 = e(q.loc()) * &c / e(p.rate());
        let t4 = 0.5 * e(q.loc()).pow(2.0);
        t1 + (&c - 1.0) * c.digamma() + (t2 - t3 + t4) / var
    });

    r.add(|p: &Gumbel, q: &Normal| {
        let ratio = e(p.scale()) / e(q.scale());
        let t1 = (&ratio / (2.0 * PI).sqrt()).log();
        let t2 = (PI * &ratio * 0.5).pow(2.0) / 3.0;
        let t3 = ((e(p.loc()) + e(p.scale()) * EULER - e(q.loc())) / e(q.scale())).pow(2.0) * 0.5;
        -t1 + t2 + t3 - (EULER + 1.0)
    });
    r.add(|p: &Laplace, q: &Normal| {
        let var = e(q.scale()).pow(2.0);
        let ratio = e(p.scale()).pow(2.0) / &var;
        let t1 = 0.5 * (2.0 * &ratio / PI).log();
        let (t2, t3) = (0.5 * e(p.loc()).pow(2.0), e(p.loc()) * e(q.loc()));
        let t4 = 0.5 * e(q.loc()).pow(2.0);
        -t1 + ratio + (t2 - t3 + t4) / var - 1.0
    });
    r.add(|p: &Normal, q: &Gumbel| {
        let mean = e(p.loc()) / e(q.scale());
        let var = (e(p.scale()) / e(q.scale())).pow(2.0);
        let loc = e(q.loc()) / e(q.scale());
        let t1 = var.log() * 0.5;
        let t3 = (-&mean + 0.5 * &var + &loc).exp();
        -t1 + (mean - loc) + t3 - 0.5 * (1.0 + (2.0 * PI).ln())
    });
    r.add(|p: &Normal, q: &Laplace| {
        let off = e(p.loc()) - e(q.loc());
        let t1 = (e(p.scale()) / e(q.scale())).log();
        let ratio = &off / e(p.scale());
        let t2 = (2.0 / PI).sqrt() * e(p.scale()) * (-0.5 * ratio.pow(2.0)).exp();
        let t3 = &off * (0.5f64.sqrt() * &ratio).erf();
        -t1 + (t2 + t3) / e(q.scale()) - 0.5 * (1.0 + (0.5 * PI).ln())
    });

    r.add(|p: &Pareto, q: &Exponential| {
        let (a, product) = (e(p.alpha()), e(p.scale()) * e(q.rate()));
        let t1 = (&a / &product).log();
        let t3 = &a * &product / (&a - 1.0);
        (t1 - a.reciprocal() + t3 - 1.0).fill(&a.le(1.0), f64::INFINITY)
    });
    r.add(|p: &Pareto, q: &Gamma| {
        let (a, c) = (e(p.alpha()), e(q.concentration()));
        let common = e(p.scale()).log() + a.reciprocal();
        let t1 = a.log() - &common;
        let t2 = c.lgamma() - &c * e(q.rate()).log();
        let t3 = (1.0 - &c) * &common;
        let t4 = e(q.rate()) * &a * e(p.scale()) / (&a - 1.0);
        (t1 + t2 + t3 + t4 - 1.0).fill(&a.le(1.0), f64::INFINITY)
    });
    r.add(|p: &Pareto, q: &Normal| {
        let a = e(p.alpha());
        let var = 2.0 * e(q.scale()).pow(2.0);
        let common = e(p.scale()) / (&a - 1.0);
        let t1 = ((2.0 * PI).sqrt() * e(q.scale()) * &a / e(p.scale())).log();
        let t3 = &a * common.pow(2.0) / (&a - 2.0);
        let t4 = (&a * &common - e(q.loc())).pow(2.0);
        (t1 - a.reciprocal() + (t3 + t4) / var - 1.0).fill(&a.le(2.0), f64::INFINITY)
    });
}
