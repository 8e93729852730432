//! Divergences within one family.

use super::Rules;
use crate::distribution::Distribution;
use crate::families::{
    Bernoulli, Beta, Binomial, Categorical, Cauchy, ContinuousBernoulli, Dirichlet, EULER, Exponential,
    Gamma, Geometric, Gumbel, HalfNormal, Laplace, Normal, OneHotCategorical, Pareto, Poisson, Uniform,
};
use crate::formula::{Expr, e};
use flambeau_core::{Error, ops};

fn normal(p: &Normal, q: &Normal) -> Expr {
    let ratio = (e(p.scale()) / e(q.scale())).pow(2.0);
    let t = ((e(p.loc()) - e(q.loc())) / e(q.scale())).pow(2.0);
    0.5 * (&ratio + t - 1.0 - ratio.log())
}
fn categorical(p: &Categorical, q: &Categorical) -> Expr {
    let t = p.p() * (p.l() - q.l());
    let like = |mask: Expr| mask.with(&t, |m, t| ops::broadcast_to(m, t.sizes()));
    let t = t.fill(&like(q.p().eq(0.0)), f64::INFINITY).fill(&like(p.p().eq(0.0)), 0.0);
    t.sum(-1)
}
fn binomial(p: &Binomial, q: &Binomial) -> Expr {
    let (n, m) = (e(p.total_count()), e(q.total_count()));
    let fewer = n.lt(&m).map(ops::any).0.and_then(|t| t.try_item::<bool>());
    match fewer {
        Err(e) => Expr(Err(e)),
        Ok(true) => Expr(Err(Error::unsupported(
            "KL between Binomials where q.total_count > p.total_count is not implemented",
        ))),
        Ok(false) => {
            let kl = &n * (p.p() * (p.l() - q.l()) + (-p.p()).log1p() - (-q.p()).log1p());
            kl.fill(&n.gt(&m), f64::INFINITY)
        }
    }
}
pub(super) fn add(r: &mut Rules) {
    r.add(|p: &Bernoulli, q: &Bernoulli| {
        let t1 = p.p() * ((-q.l()).softplus() - (-p.l()).softplus());
        let t1 = t1.fill(&q.p().eq(0.0), f64::INFINITY).fill(&p.p().eq(0.0), 0.0);
        let t2 = (1.0 - p.p()) * (q.l().softplus() - p.l().softplus());
        t1 + t2.fill(&q.p().eq(1.0), f64::INFINITY).fill(&p.p().eq(1.0), 0.0)
    });
    r.add(|p: &Beta, q: &Beta| {
        let (sp, sq) = (p.a() + p.b(), q.a() + q.b());
        let t1 = q.a().lgamma() + q.b().lgamma() + sp.lgamma();
        let t2 = p.a().lgamma() + p.b().lgamma() + sq.lgamma();
        let t3 = (p.a() - q.a()) * p.a().digamma();
        let t4 = (p.b() - q.b()) * p.b().digamma();
        t1 - t2 + t3 + t4 + (&sq - &sp) * sp.digamma()
    });
    r.add(binomial);
    r.add(categorical);
    r.add(|p: &OneHotCategorical, q: &OneHotCategorical| categorical(p.categorical(), q.categorical()));
    r.add(|p: &ContinuousBernoulli, q: &ContinuousBernoulli| {
        let t1 = Expr(p.try_mean()) * (p.l() - q.l());
        t1 + (p.log_norm() + (-p.p()).log1p()) + (-q.log_norm() - (-q.p()).log1p())
    });
    r.add(|p: &Dirichlet, q: &Dirichlet| {
        let (cp, cq) = (e(p.concentration()), e(q.concentration()));
        let (sp, sq) = (cp.sum(-1), cq.sum(-1));
        let t1 = sp.lgamma() - sq.lgamma();
        let t2 = (cp.lgamma() - cq.lgamma()).sum(-1);
        let t4 = cp.digamma() - sp.digamma().unsqueeze(-1);
        t1 - t2 + ((cp - cq) * t4).sum(-1)
    });
    r.add(|p: &Exponential, q: &Exponential| {
        let ratio = e(q.rate()) / e(p.rate());
        -ratio.log() + ratio - 1.0
    });
    r.add(|p: &Gamma, q: &Gamma| {
        let (cp, cq, rp, rq) = (e(p.concentration()), e(q.concentration()), e(p.rate()), e(q.rate()));
        let t1 = &cq * (&rp / &rq).log();
        let t2 = cq.lgamma() - cp.lgamma();
        let t3 = (&cp - &cq) * cp.digamma();
        t1 + t2 + t3 + (&rq - &rp) * (&cp / &rp)
    });
    r.add(|p: &Gumbel, q: &Gumbel| {
        let scale = e(q.scale());
        let (c1, c2, c3) = (e(p.scale()) / &scale, e(q.loc()) / &scale, e(p.loc()) / &scale);
        let t1 = -c1.log() - &c2 + &c3;
        let t2 = &c1 * EULER;
        t1 + t2 + (&c2 + (1.0 + &c1).lgamma() - &c3).exp() - (1.0 + EULER)
    });
    r.add(|p: &Geometric, q: &Geometric| -Expr(p.try_entropy()) - (-q.p()).log1p() / p.p() - q.l());
    r.add(|p: &HalfNormal, q: &HalfNormal| match (p.normal(), q.normal()) {
        (Some(p), Some(q)) => normal(p, q),
        _ => Expr(Err(Error::assertion("the base of a half-normal variable is normal"))),
    });
    r.add(|p: &Laplace, q: &Laplace| {
        let ratio = e(p.scale()) / e(q.scale());
        let off = (e(p.loc()) - e(q.loc())).abs();
        let t2 = &off / e(q.scale());
        -ratio.log() + t2 + &ratio * (-&off / e(p.scale())).exp() - 1.0
    });
    r.add(normal);
    r.add(|p: &Pareto, q: &Pareto| {
        let ratio = e(p.scale()) / e(q.scale());
        let alpha = e(q.alpha()) / e(p.alpha());
        let out = e(q.alpha()) * ratio.log() + -alpha.log() + &alpha - 1.0;
        out.fill(&e(p.scale()).lt(&e(q.scale())), f64::INFINITY)
    });
    r.add(|p: &Poisson, q: &Poisson| {
        let (a, b) = (e(p.rate()), e(q.rate()));
        &a * (a.log() - b.log()) - (&a - &b)
    });
    r.add(|p: &Uniform, q: &Uniform| {
        let out = ((e(q.high()) - e(q.low())) / (e(p.high()) - e(p.low()))).log();
        out.fill(&(e(q.low()).gt(&e(p.low())) | e(q.high()).lt(&e(p.high()))), f64::INFINITY)
    });
    r.add(|p: &Cauchy, q: &Cauchy| {
        let (a, b) = (e(p.scale()), e(q.scale()));
        let t1 = ((&a + &b).pow(2.0) + (e(p.loc()) - e(q.loc())).pow(2.0)).log();
        t1 - (4.0 * a * b).log()
    });
}
