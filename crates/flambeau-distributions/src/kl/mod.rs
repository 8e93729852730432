//! `torch.distributions.kl`: divergences of Kullback and Leibler.

mod bounded;
mod matrices;
mod same;
mod unbounded;

use crate::distribution::{Distribution, at_natural};
use crate::families::{Independent, TransformedDistribution};
use crate::formula::{Expr, e};
use crate::transforms::same_list;
use flambeau_core::types::order::RwLock;
use flambeau_core::{Error, Result, Tensor};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

type Rule = Arc<dyn Fn(&dyn Distribution, &dyn Distribution) -> Result<Tensor> + Send + Sync>;
/// Rules by the types of both distributions.
#[derive(Default)]
struct Rules(HashMap<(TypeId, TypeId), Rule>);
impl Rules {
    fn add<P: Distribution, Q: Distribution>(&mut self, f: impl Fn(&P, &Q) -> Expr + Send + Sync + 'static) {
        self.insert(move |p: &P, q: &Q| f(p, q).0);
    }
    fn insert<P: Distribution, Q: Distribution>(
        &mut self,
        f: impl Fn(&P, &Q) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Option<Rule> {
        let rule = move |p: &dyn Distribution, q: &dyn Distribution| match (
            p.as_case_of::<P>(),
            q.as_case_of::<Q>(),
        ) {
            (Some(p), Some(q)) => f(p, q),
            _ => Err(Error::assertion("a divergence was chosen for other distributions")),
        };
        self.0.insert((TypeId::of::<P>(), TypeId::of::<Q>()), Arc::new(rule))
    }
}
static RULES: LazyLock<RwLock<Rules>> = LazyLock::new(|| {
    let mut r = Rules::default();
    same::add(&mut r);
    bounded::add(&mut r);
    unbounded::add(&mut r);
    matrices::add(&mut r);
    r.insert(|p: &Independent, q: &Independent| {
        if p.reinterpreted_batch_ndims() != q.reinterpreted_batch_ndims() {
            return Err(Error::unsupported(""));
        }
        let each = try_kl_divergence(&**p.base(), &**q.base())?;
        e(&each).sum_rightmost(p.reinterpreted_batch_ndims()).0
    });
    r.insert(|p: &TransformedDistribution, q: &TransformedDistribution| {
        if !same_list(p.transforms(), q.transforms()) || p.event_shape() != q.event_shape() {
            return Err(Error::unsupported(""));
        }
        try_kl_divergence(&**p.base(), &**q.base())
    });
    RwLock::new(r)
});

/// Makes the divergence of two types of distributions known; it serves cases of them too, unless there is one of their
/// own. A later one takes the place of an earlier one.
///
/// ```
/// use torch::{Result, Tensor};
/// use torch::distributions::{Distribution, Normal, VonMises, kl_divergence, register_kl};
/// register_kl(|p: &VonMises, _q: &Normal| -> Result<Tensor> { Ok(p.loc().clone()) });
/// let k = kl_divergence(&VonMises::new(0.5, 1.0), &Normal::new(0.0, 1.0));
/// assert_eq!(k.item::<f64>(), 0.5);
/// ```
#[doc(alias = "torch.distributions.kl.register_kl")]
#[doc(alias = "torch.distributions.register_kl")]
pub fn register_kl<P: Distribution, Q: Distribution>(
    rule: impl Fn(&P, &Q) -> Result<Tensor> + Send + Sync + 'static,
) {
    let old = RULES.write().unwrap_or_else(|e| e.into_inner()).insert(rule);
    drop(old);
}
/// The divergence `KL(p || q)`, the mean of `log p(x) - log q(x)` under p: of shape `batch_shape`.
///
/// ```
/// use torch::distributions::{Uniform, kl_divergence};
/// let (p, q) = (Uniform::new(0.0, 1.0), Uniform::new(0.0, 2.0));
/// assert!((kl_divergence(&p, &q).item::<f64>() - 2f64.ln()).abs() < 1e-6);
/// assert_eq!(kl_divergence(&q, &p).item::<f64>(), f64::INFINITY);
/// ```
///
/// # Errors
/// Panics where none is known for the two types; [`try_kl_divergence`] gives an error.
#[doc(alias = "torch.distributions.kl.kl_divergence")]
#[track_caller]
pub fn kl_divergence(p: &dyn Distribution, q: &dyn Distribution) -> Tensor {
    flambeau_core::api::ergonomic::expect(try_kl_divergence(p, q))
}
/// See [`kl_divergence`].
///
/// # Errors
/// Where none is known for the two types; those of its formula.
pub fn try_kl_divergence(p: &dyn Distribution, q: &dyn Distribution) -> Result<Tensor> {
    let found = {
        let rules = RULES.read().unwrap_or_else(|e| e.into_inner());
        let (ps, qs) = (p.type_ids(), q.type_ids());
        let mut pairs = ps.iter().flat_map(|a| qs.iter().map(move |b| (*a, *b)));
        pairs.find_map(|pair| rules.0.get(&pair).cloned())
    };
    match found {
        Some(rule) => rule(p, q),
        None => of_families(p, q),
    }
}
/// By the Bregman divergence of the log normalizer, within one exponential family.
fn of_families(p: &dyn Distribution, q: &dyn Distribution) -> Result<Tensor> {
    let (Some(pf), Some(qf)) = (p.family(), q.family()) else {
        return Err(Error::unsupported(format!(
            "No KL(p || q) is implemented for p type {} and q type {}",
            p.name(),
            q.name()
        )));
    };
    if p.type_ids()[0] != q.type_ids()[0] {
        return Err(Error::unsupported(
            "The cross KL-divergence between different exponential families cannot                             be computed \
             using Bregman divergences",
        ));
    }
    let (natural, normalizer, grads) = at_natural(pf)?;
    let other = qf.natural_params()?;
    let mut out = e(&qf.log_normalizer(&other)?) - e(&normalizer);
    for ((a, b), g) in natural.iter().zip(&other).zip(&grads) {
        out = out - ((e(b) - e(a)) * e(g)).sum_rightmost(q.event_shape().len());
    }
    out.0
}

/// Infinity everywhere.
fn infinite(like: &Tensor) -> Expr {
    e(like).full(f64::INFINITY)
}
