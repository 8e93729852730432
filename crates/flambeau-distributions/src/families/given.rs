//! Probabilities given as such or as logits.

use crate::argument::Param;
use crate::constraints::Constraint;
use crate::distribution::{Argument, Held};
use crate::formula::{Expr, e};
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::{Error, Result, Scalar, Tensor, ensure, finfo, ops};
use std::sync::OnceLock;

/// What probabilities are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One event that happens or not.
    Binary,
    /// The same, kept away from 0 and 1 when they are computed from logits.
    Clamped,
    /// One of several events, along the last dimension.
    Categories,
}
/// Probabilities or logits, of which the others are computed when they are asked for, and kept.
#[derive(Clone, Debug)]
pub struct Odds {
    kind: Kind,
    probs: OnceLock<Tensor>,
    logits: OnceLock<Tensor>,
    by_logits: bool,
}
/// Within the open interval from 0 to 1, by the steps of the dtype.
pub fn clamp_probs(probs: &Expr) -> Expr {
    probs.map(|p| {
        let eps = finfo(p.dtype())?.eps;
        ops::clamp(p, Some(Scalar::Float(eps)), Some(Scalar::Float(1.0 - eps)))
    })
}
/// The one of the two arguments that was given.
pub fn either(probs: Option<Param>, logits: Option<Param>) -> Result<(Param, bool)> {
    match (probs, logits) {
        (Some(p), None) => Ok((p, false)),
        (None, Some(l)) => Ok((l, true)),
        _ => Err(Error::value("Either `probs` or `logits` must be specified, but not both.")),
    }
}
impl Odds {
    /// Of the argument, as [`either`] gave it.
    pub fn new(kind: Kind, given: Tensor, by_logits: bool) -> Odds {
        let (probs, logits) = if by_logits {
            (OnceLock::new(), OnceLock::from(given))
        } else {
            (OnceLock::from(given), OnceLock::new())
        };
        Odds { kind, probs, logits, by_logits }
    }
    /// What was given.
    pub fn param(&self) -> Result<&Tensor> {
        let found = if self.by_logits { self.logits.get() } else { self.probs.get() };
        found.ok_or_else(|| Error::assertion("neither probs nor logits"))
    }
    pub fn by_logits(&self) -> bool {
        self.by_logits
    }
    pub fn probs(&self) -> Result<Tensor> {
        if let Some(p) = self.probs.get() {
            return Ok(p.clone());
        }
        let l = e(self.param()?);
        let made = grad_mode::enable_grad(|| match self.kind {
            Kind::Binary => l.sigmoid(),
            Kind::Clamped => clamp_probs(&l.sigmoid()),
            Kind::Categories => l.map(|l| ops::softmax(l, -1, None)),
        });
        let made = made.0?;
        Ok(self.probs.get_or_init(|| made).clone())
    }
    pub fn logits(&self) -> Result<Tensor> {
        if let Some(l) = self.logits.get() {
            return Ok(l.clone());
        }
        let p = e(self.param()?);
        let made = grad_mode::enable_grad(|| {
            let p = clamp_probs(&p);
            match self.kind {
                Kind::Categories => p.log(),
                Kind::Binary | Kind::Clamped => p.log() - (-&p).log1p(),
            }
        });
        let made = made.0?;
        Ok(self.logits.get_or_init(|| made).clone())
    }
    /// Over another batch: what is known of both.
    pub fn expanded(&self, sizes: &[i64]) -> Result<Odds> {
        let wide = |t: &OnceLock<Tensor>| match t.get() {
            Some(t) => s::expand(t, sizes).map(OnceLock::from),
            None => Ok(OnceLock::new()),
        };
        Ok(Odds { probs: wide(&self.probs)?, logits: wide(&self.logits)?, ..*self })
    }
    /// The two arguments with their constraints.
    pub fn arguments(&self, probs: Constraint, logits: Constraint) -> Vec<Argument> {
        let held = |t: &OnceLock<Tensor>| t.get().map_or(Held::Later, |t| Held::Here(t.clone()));
        vec![
            Argument::new("probs", probs, held(&self.probs)),
            Argument::new("logits", logits, held(&self.logits)),
        ]
    }
    pub fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        match name {
            "probs" => self.probs().map(Some),
            "logits" => self.logits().map(Some),
            _ => Ok(None),
        }
    }
    /// The number of categories.
    pub fn events(&self) -> Result<i64> {
        Ok(self.param()?.sizes().last().copied().unwrap_or(0))
    }
    /// Categories: normalised, with at least one dimension.
    pub fn categories(probs: Option<Tensor>, logits: Option<Tensor>) -> Result<Odds> {
        let (given, by_logits) = either(probs.map(Param::Tensor), logits.map(Param::Tensor))?;
        let t = given.tensor()?;
        let name = if by_logits { "logits" } else { "probs" };
        ensure!(t.dim() >= 1, Value, "`{name}` parameter must be at least one-dimensional.");
        let x = e(&t);
        let normal = if by_logits { &x - x.logsumexp_keep() } else { &x / x.sum_keep(-1) };
        Ok(Odds::new(Kind::Categories, normal.0?, by_logits))
    }
}
