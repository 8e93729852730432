//! Divergences between normal distributions of vectors.

use super::Rules;
use crate::distribution::Distribution;
use crate::families::{
    LowRankMultivariateNormal, MultivariateNormal, batch_mahalanobis, half_log_det, lowrank_logdet,
    lowrank_mahalanobis, solve_lower,
};
use crate::formula::{Expr, e};
use flambeau_core::tensor::geometry;
use flambeau_core::{Error, Result, Tensor, ensure};

/// Traces of `m m^T`.
fn trace_of_square(m: &Expr) -> Expr {
    m.pow(2.0).sum_rightmost(2)
}
fn same_events(p: &dyn Distribution, q: &dyn Distribution, kind: &str) -> Result<f64> {
    ensure!(
        p.event_shape() == q.event_shape(),
        Value,
        "KL-divergence between two {kind} with                          different event shapes cannot be computed"
    );
    p.event_shape().first().map(|n| *n as f64).ok_or_else(|| Error::index("tuple index out of range"))
}
/// Both with the batch dimensions of either.
fn both(a: &Expr, b: &Expr) -> Result<(Expr, Expr)> {
    let (sa, sb) = (a.sizes()?, b.sizes()?);
    let (ba, ea) = sa.split_at(sa.len() - 2);
    let (bb, eb) = sb.split_at(sb.len() - 2);
    let batch = geometry::broadcast_all(&[ba, bb])?;
    Ok((a.expand(&[&batch[..], ea].concat()), b.expand(&[&batch[..], eb].concat())))
}
/// `chol(capacitance)^-1 W^T D^-1` of a low-rank distribution.
fn reduced(q: &LowRankMultivariateNormal) -> Expr {
    let (w, d) = (e(&q.own_factor), e(&q.own_diag));
    solve_lower(&e(&q.capacitance), &(w.mt() / d.unsqueeze(-2)))
}
fn normal(p: &MultivariateNormal, q: &MultivariateNormal) -> Result<Tensor> {
    let n = same_events(p, q, "Multivariate Normals")?;
    let t1 = half_log_det(&q.factor()) - half_log_det(&p.factor());
    let (ql, pl) = both(&q.factor(), &p.factor())?;
    let t2 = trace_of_square(&solve_lower(&ql, &pl));
    let t3 = batch_mahalanobis(&q.factor(), &(q.mean_of() - p.mean_of()));
    (t1 + 0.5 * (t2 + t3 - n)).0
}
fn low_rank(p: &LowRankMultivariateNormal, q: &LowRankMultivariateNormal) -> Result<Tensor> {
    let n = same_events(p, q, "Low Rank Multivariate Normals")?;
    let (pd, qd) = (e(&p.own_diag), e(&q.own_diag));
    let t1 = lowrank_logdet(q) - lowrank_logdet(p);
    let t3 = lowrank_mahalanobis(q, &(q.mean_of() - p.mean_of()));
    let a = reduced(q);
    let t21 = (&pd / &qd).sum(-1);
    let t22 = trace_of_square(&(e(&p.own_factor) * qd.rsqrt().unsqueeze(-1)));
    let t23 = trace_of_square(&(&a * pd.sqrt().unsqueeze(-2)));
    let t24 = trace_of_square(&a.matmul(&e(&p.own_factor)));
    (0.5 * (t1 + (t21 + t22 - t23 - t24) + t3 - n)).0
}
const MIXED: &str = "(Low Rank) Multivariate Normals";
pub(super) fn add(r: &mut Rules) {
    r.insert(normal);
    r.insert(low_rank);
    r.insert(|p: &MultivariateNormal, q: &LowRankMultivariateNormal| {
        let n = same_events(p, q, MIXED)?;
        let t1 = lowrank_logdet(q) - 2.0 * half_log_det(&p.factor());
        let t3 = lowrank_mahalanobis(q, &(q.mean_of() - p.mean_of()));
        let a = reduced(q);
        let t21 = trace_of_square(&(p.factor() * e(&q.own_diag).rsqrt().unsqueeze(-1)));
        let t22 = trace_of_square(&a.matmul(&p.factor()));
        (0.5 * (t1 + (t21 - t22) + t3 - n)).0
    });
    r.insert(|p: &LowRankMultivariateNormal, q: &MultivariateNormal| {
        let n = same_events(p, q, MIXED)?;
        let t1 = 2.0 * half_log_det(&q.factor()) - lowrank_logdet(p);
        let t3 = batch_mahalanobis(&q.factor(), &(q.mean_of() - p.mean_of()));
        let (ql, pw) = both(&q.factor(), &e(&p.own_factor))?;
        let (ql2, pd) = both(&q.factor(), &e(&p.own_diag).sqrt().diag_embed())?;
        let t2 = trace_of_square(&solve_lower(&ql, &pw)) + trace_of_square(&solve_lower(&ql2, &pd));
        (0.5 * (t1 + t2 + t3 - n)).0
    });
}
