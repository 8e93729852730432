//! From tensors to the slices that the fused steps work on: as many parameters as possible in one call.

use crate::optimizer::group::{Entry, State};
use flambeau_core::backend::transfer::on_host;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::{DType, Device, Error, Result, Tensor, ops};
use flambeau_cpu::optim::erased::Step;
use flambeau_cpu::optim::{Item, KEPT};

/// A complex tensor as its real parts; any other as it is.
pub(crate) fn real(t: &Tensor) -> Result<Tensor> {
    if t.is_complex() { ops::view_as_real(&ops::resolve_conj(t)?) } else { Ok(t.clone()) }
}

/// One parameter with all that its step touches, as dense tensors of equal strides.
struct Ready<R> {
    rule: R,
    /// The parameter, or a dense copy of it.
    work: Tensor,
    /// The parameter, if `work` is a copy.
    back: Option<Tensor>,
    grad: Tensor,
    kept: Vec<Tensor>,
    /// Kept tensors that do not lie like the parameter, and stand in `kept` as copies.
    kept_back: Vec<(usize, Tensor)>,
}
impl<R> Ready<R> {
    fn outs(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.work).chain(&self.kept)
    }
}

/// The tensor itself if it lies like `like`; else a copy that does.
fn laid_out(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    if t.strides() == like.strides() && !t.is_neg() && !t.is_conj() {
        return Ok(t.clone());
    }
    let out =
        ops::empty_strided(like.sizes(), like.strides(), Some(t.dtype()), None, Some(t.device()), None)?;
    ops::copy_(&out, t, false)?;
    Ok(out)
}

fn prepare<R>(name: &str, rule: R, e: &Entry<'_>, kept: &[&str]) -> Result<Ready<R>> {
    let p = e.param;
    if p.device() == Device::Meta {
        return Err(Error::missing(format!("{name}: parameters on {}", p.device())));
    }
    let target = real(&p.alias_detached())?;
    if !matches!(target.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(Error::missing(format!("{name}: parameters of dtype {}", p.dtype())));
    }
    // the kernels walk memory of the host: a parameter with gaps, or on another device, goes through a copy
    let dense = geometry::is_non_overlapping_and_dense(target.sizes(), target.strides());
    let here = on_host(&target)?;
    let work = if dense { here } else { ops::clone(&here, None)? };
    let grad = on_host(&real(&e.grad.alias_detached())?)?;
    if grad.sizes() != target.sizes() || grad.dtype() != target.dtype() {
        return Err(Error::shape(format!(
            "{name}: a gradient of {} {} does not fit a parameter of {} {}",
            geometry::fmt_sizes(e.grad.sizes()),
            e.grad.dtype(),
            geometry::fmt_sizes(p.sizes()),
            p.dtype()
        )));
    }
    let mut grad = laid_out(&grad, &work)?;
    if grad.storage().same(work.storage()) {
        grad = ops::clone(&grad, None)?;
    }
    let mut out = Ready {
        rule,
        back: (!work.is_same(&target)).then_some(target),
        work,
        grad,
        kept: Vec::new(),
        kept_back: vec![],
    };
    for (i, n) in kept.iter().enumerate() {
        let k = e.state.get(n);
        let k = k.ok_or_else(|| Error::runtime(format!("{name}: the state of a parameter has no {n}")))?;
        let k = real(&k.alias_detached())?;
        if k.sizes() != out.work.sizes() || k.dtype() != out.work.dtype() {
            return Err(Error::shape(format!(
                "{name}: {n} of {} {} does not fit its parameter of {} {}",
                geometry::fmt_sizes(k.sizes()),
                k.dtype(),
                geometry::fmt_sizes(out.work.sizes()),
                out.work.dtype()
            )));
        }
        let shared = out.outs().chain([&out.grad]).any(|t| t.storage().same(k.storage()));
        let mut lies = laid_out(&on_host(&k)?, &out.work)?;
        if shared {
            lies = ops::clone(&lies, None)?;
        }
        if !lies.is_same(&k) {
            out.kept_back.push((i, k));
        }
        out.kept.push(lies);
    }
    Ok(out)
}

fn run<R: Step>(name: &str, batch: &mut Vec<Ready<R>>) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    {
        let outs: Vec<&Tensor> = batch.iter().flat_map(Ready::outs).collect();
        let ins: Vec<&Tensor> = batch.iter().map(|r| &r.grad).collect();
        let access = Access::new(&ins, &outs)?;
        let mut items = Vec::with_capacity(batch.len());
        let mut next = 0;
        let mut out = || {
            next += 1;
            access.any_mut(next - 1)
        };
        for (i, r) in batch.iter().enumerate() {
            let param = out()?;
            let mut kept = [None, None, None];
            for k in kept.iter_mut().take(r.kept.len()) {
                *k = Some(out()?);
            }
            items.push(Item { rule: r.rule, param, grad: access.any(i)?, kept });
        }
        R::step(items)
            .unwrap_or_else(|| Err("dtypes of a parameter and its state differ".into()))
            .map_err(|e| Error::runtime(format!("{name}: {e}")))?;
    }
    for r in batch.drain(..) {
        if let Some(target) = &r.back {
            ops::copy_(target, &r.work, false)?;
        }
        for (i, k) in &r.kept_back {
            ops::copy_(k, &r.kept[*i], false)?;
        }
    }
    Ok(())
}

/// Outputs that one access may have.
const OUTS: usize = 32;

/// Runs fused steps over parameters. `f` readies a parameter's state and gives its rule and the names of the kept
/// tensors, in the rule's order.
///
/// # Errors
/// Gradients or states that do not fit, dtypes that the fused steps do not have, tensors that are borrowed.
pub(crate) fn step<R: Step>(
    name: &str,
    entries: &mut [Entry<'_>],
    mut f: impl FnMut(&Tensor, &mut State) -> Result<(R, Vec<&'static str>)>,
) -> Result<()> {
    let _no_grad = flambeau_autograd::no_grad_guard();
    let mut batch: Vec<Ready<R>> = Vec::new();
    for e in entries {
        let (rule, kept) = f(e.param, e.state)?;
        debug_assert!(kept.len() <= KEPT);
        let ready = prepare(name, rule, e, &kept)?;
        let outs = batch.iter().flat_map(Ready::outs).count() + 1 + kept.len();
        // parameters that share memory are updated one after the other
        let shared = batch.iter().any(|b| {
            b.outs().chain([&b.grad]).any(|t| ready.outs().any(|o| o.storage().same(t.storage())))
                || b.outs().any(|o| o.storage().same(ready.grad.storage()))
        });
        if outs > OUTS || shared {
            run(name, &mut batch)?;
        }
        batch.push(ready);
    }
    run(name, &mut batch)
}
