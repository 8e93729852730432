//! Divergences from distributions over bounded intervals and counts to those of other families.

use super::{Rules, infinite};
use crate::distribution::Distribution;
use crate::families::{
    Bernoulli, Beta, Binomial, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Poisson,
    Uniform,
};
use crate::formula::{Expr, e};
use std::f64::consts::PI;

fn entropy(d: &impl Distribution) -> Expr {
    Expr(d.try_entropy())
}
fn mean(d: &impl Distribution) -> Expr {
    Expr(d.try_mean())
}
fn x_log_x(x: &Expr) -> Expr {
    x.xlogy(x)
}
pub(super) fn add(r: &mut Rules) {
    r.add(|p: &Bernoulli, q: &Poisson| {
        let rate = e(q.rate());
        -entropy(p) - (p.p() * rate.log() - rate)
    });
    r.add(|p: &Poisson, _q: &Bernoulli| infinite(p.rate()));
    r.add(|p: &Poisson, _q: &Binomial| infinite(p.rate()));

    r.add(|p: &Beta, q: &ContinuousBernoulli| {
        -entropy(p) - mean(p) * q.l() - (-q.p()).log1p() - q.log_norm()
    });
    r.add(|p: &Beta, _q: &Pareto| p.a().full(f64::INFINITY));
    r.add(|p: &Beta, q: &Exponential| {
        let rate = e(q.rate());
        -entropy(p) - rate.log() + &rate * (p.a() / (p.a() + p.b()))
    });
    r.add(|p: &Beta, q: &Gamma| {
        let (c, rate) = (e(q.concentration()), e(q.rate()));
        let t2 = c.lgamma() - &c * rate.log();
        let t3 = (&c - 1.0) * (p.a().digamma() - (p.a() + p.b()).digamma());
        let t4 = &rate * p.a() / (p.a() + p.b());
        -entropy(p) + t2 - t3 + t4
    });
    r.add(|p: &Beta, q: &Normal| {
        let m = p.a() / (p.a() + p.b());
        let var = e(q.scale()).pow(2.0);
        let t2 = 0.5 * (&var * 2.0 * PI).log();
        let t3 = (&m * (1.0 - &m) / (p.a() + p.b() + 1.0) + m.pow(2.0)) * 0.5;
        let t4 = e(q.loc()) * &m;
        let t5 = e(q.loc()).pow(2.0) * 0.5;
        -entropy(p) + t2 + (t3 - t4 + t5) / var
    });
    r.add(|p: &Beta, q: &Uniform| {
        let (low, high) = (e(q.low()), e(q.high()));
        let out = -entropy(p) + (&high - &low).log();
        out.fill(&(low.gt(0.0) | high.lt(1.0)), f64::INFINITY)
    });

    r.add(|p: &ContinuousBernoulli, _q: &Pareto| p.p().full(f64::INFINITY));
    r.add(|p: &ContinuousBernoulli, q: &Exponential| -entropy(p) - e(q.rate()).log() + e(q.rate()) * mean(p));
    r.add(|p: &ContinuousBernoulli, q: &Normal| {
        let (loc, scale, m) = (e(q.loc()), e(q.scale()), mean(p));
        let t2 = 0.5 * ((2.0 * PI).ln() + (&loc / &scale).square()) + scale.log();
        let t3 = (Expr(p.try_variance()) + m.square() - 2.0 * &loc * &m) / (2.0 * scale.square());
        -entropy(p) + t2 + t3
    });
    r.add(|p: &ContinuousBernoulli, q: &Uniform| {
        let out = -entropy(p) + (e(q.high()) - e(q.low())).log();
        (e(q.low()).ge(0.0) | e(q.high()).le(1.0)).choose(out.full(f64::INFINITY), &out)
    });

    r.add(|p: &Uniform, q: &Beta| {
        let (low, high) = (e(p.low()), e(p.high()));
        let width = &high - &low;
        let t2 = (q.a() - 1.0) * (x_log_x(&high) - x_log_x(&low) - &width) / &width;
        let t3 = (q.b() - 1.0) * (x_log_x(&(1.0 - &high)) - x_log_x(&(1.0 - &low)) + &width) / &width;
        let t4 = q.a().lgamma() + q.b().lgamma() - (q.a() + q.b()).lgamma();
        let out = t3 + t4 - width.log() - t2;
        out.fill(&(high.gt(1.0) | low.lt(0.0)), f64::INFINITY)
    });
    r.add(|p: &Uniform, q: &ContinuousBernoulli| {
        let out = -entropy(p) - mean(p) * q.l() - (-q.p()).log1p() - q.log_norm();
        (e(p.high()).ge(1.0) | e(p.low()).le(0.0)).choose(out.full(f64::INFINITY), &out)
    });
    r.add(|p: &Uniform, q: &Exponential| {
        let (low, high, rate) = (e(p.low()), e(p.high()), e(q.rate()));
        let out = &rate * (&high + &low) / 2.0 - ((&high - &low) * &rate).log();
        out.fill(&low.lt(0.0), f64::INFINITY)
    });
    r.add(|p: &Uniform, q: &Gamma| {
        let (low, high, c, rate) = (e(p.low()), e(p.high()), e(q.concentration()), e(q.rate()));
        let width = &high - &low;
        let t2 = c.lgamma() - &c * rate.log();
        let t3 = (1.0 - &c) * (x_log_x(&high) - x_log_x(&low) - &width) / &width;
        let out = -width.log() + t2 + t3 + &rate * (&high + &low) / 2.0;
        out.fill(&low.lt(0.0), f64::INFINITY)
    });
    r.add(|p: &Uniform, q: &Gumbel| {
        let width = e(q.scale()) / (e(p.high()) - e(p.low()));
        let high = (e(p.high()) - e(q.loc())) / e(q.scale());
        let low = (e(p.low()) - e(q.loc())) / e(q.scale());
        let t1 = width.log() + 0.5 * (&high + &low);
        t1 - &width * ((-&high).exp() - (-&low).exp())
    });
    r.add(|p: &Uniform, q: &Normal| {
        let width = e(p.high()) - e(p.low());
        let t1 = ((PI * 2.0).sqrt() * e(q.scale()) / &width).log();
        let t2 = width.pow(2.0) / 12.0;
        let t3 = ((e(p.high()) + e(p.low()) - 2.0 * e(q.loc())) / 2.0).pow(2.0);
        t1 + 0.5 * (t2 + t3) / e(q.scale()).pow(2.0)
    });
    r.add(|p: &Uniform, q: &Pareto| {
        let (low, high, a, scale) = (e(p.low()), e(p.high()), e(q.alpha()), e(q.scale()));
        let width = &high - &low;
        let t1 = (&a * scale.pow(&a) * &width).log();
        let t2 = (x_log_x(&high) - x_log_x(&low) - &width) / &width;
        (t2 * (&a + 1.0) - t1).fill(&low.lt(&scale), f64::INFINITY)
    });
}
