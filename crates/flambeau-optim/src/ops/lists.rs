//! From lists of tensors to the slices that fused rules work on: as many parameters as possible in one call.

use crate::step::elsewhere::Told;
use flambeau_core::backend::kernel::written;
use flambeau_core::backend::lists::{self, StepItem};
use flambeau_core::backend::{matrices, transfer};
use flambeau_core::internal::{Access, RawTensor as _};
use flambeau_core::tensor::geometry;
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure, ops};
use flambeau_cpu::optim::{Item, KEPT};
use flambeau_cpu::{Any, AnyMut};
use std::borrow::Cow;

/// What one step goes over, as the row got it.
pub(super) struct Lists<'a> {
    /// What PyTorch's errors call the kernel.
    pub label: &'static str,
    pub params: &'a [Tensor],
    pub grads: &'a [Tensor],
    /// The kept tensors, in the rule's order.
    pub kept: &'a [&'a [Tensor]],
    /// What the kernel of another device is to make of gradients.
    pub scaling: Scaling<'a>,
}
/// What gradients are divided by first, in place, and where nothing is done.
#[derive(Clone, Copy, Default)]
pub(super) struct Scaling<'a> {
    pub scale: Option<&'a Tensor>,
    pub found_inf: Option<&'a Tensor>,
}

/// A tensor that the kernel writes: itself, or a copy that lies as the kernel wants it and goes back afterwards.
enum Place<'a> {
    Own(&'a Tensor),
    Copy(Tensor, &'a Tensor),
}
impl Place<'_> {
    fn work(&self) -> &Tensor {
        match self {
            Place::Own(t) => t,
            Place::Copy(t, _) => t,
        }
    }
    fn finish(&self) -> Result<()> {
        match self {
            Place::Own(_) => Ok(()),
            Place::Copy(t, back) => ops::copy_(back, t, false),
        }
    }
}

/// One parameter with all that its step touches, as dense tensors of equal strides and storages of their own.
struct Ready<'a> {
    param: Place<'a>,
    grad: Cow<'a, Tensor>,
    kept: [Option<Place<'a>>; KEPT],
}
impl Ready<'_> {
    fn written(&self) -> impl Iterator<Item = &Place<'_>> {
        std::iter::once(&self.param).chain(self.kept.iter().flatten())
    }
    fn outs(&self) -> impl Iterator<Item = &Tensor> {
        self.written().map(Place::work)
    }
    /// Whether a kernel that writes to `t` would touch what stands here.
    fn meets(&self, t: &Tensor) -> bool {
        self.outs().chain([&*self.grad]).any(|o| o.storage().same(t.storage()))
    }
}

fn copied(t: &Tensor, strides: &[i64]) -> Result<Tensor> {
    let out = ops::empty_strided(t.sizes(), strides, Some(t.dtype()), None, Some(t.device()), None)?;
    ops::copy_(&out, t, false)?;
    Ok(out)
}
/// Whether the elements lie in the same order; a dimension of one element has none.
fn lies_like(t: &Tensor, like: &Tensor) -> bool {
    let mut each = t.sizes().iter().zip(t.strides().iter().zip(like.strides()));
    !t.is_neg() && each.all(|(n, (a, b))| *n == 1 || a == b)
}
fn fits(what: &str, t: &Tensor, param: &Tensor) -> Result<()> {
    ensure!(
        t.dtype() == param.dtype(),
        DType,
        "expected scalar type {} but found {}",
        param.dtype().scalar_type_name(),
        t.dtype().scalar_type_name()
    );
    ensure!(
        t.sizes() == param.sizes(),
        Shape,
        "{what} of {} does not fit a parameter of {}",
        geometry::fmt_sizes(t.sizes()),
        geometry::fmt_sizes(param.sizes())
    );
    Ok(())
}

fn prepare<'a>(l: &Lists<'a>, i: usize) -> Result<Ready<'a>> {
    let (p, g) = (&l.params[i], &l.grads[i]);
    if !matches!(p.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(Error::not_implemented_for(l.label, p.dtype()));
    }
    fits("a gradient", g, p)?;
    let dense = geometry::is_non_overlapping_and_dense(p.sizes(), p.strides()) && !p.is_neg();
    let param = match dense {
        true => Place::Own(p),
        false => Place::Copy(copied(p, &geometry::contiguous_strides(p.sizes()))?, p),
    };
    let like = param.work().clone();
    let grad = match lies_like(g, &like) && !g.storage().same(like.storage()) {
        true => Cow::Borrowed(g),
        false => Cow::Owned(copied(g, like.strides())?),
    };
    let mut ready = Ready { param, grad, kept: [const { None }; KEPT] };
    for (j, list) in l.kept.iter().enumerate() {
        let k = &list[i];
        fits("a kept tensor", k, p)?;
        ready.kept[j] = Some(match lies_like(k, &like) && !ready.meets(k) {
            true => Place::Own(k),
            false => Place::Copy(copied(k, like.strides())?, k),
        });
    }
    Ok(ready)
}

/// The rules of a batch without their type, which few lines need.
struct Rules<'r> {
    name: &'static str,
    numbers: &'r dyn Fn(usize) -> Vec<f64>,
    step: &'r dyn Fn(usize, Slices<'_>) -> Option<std::result::Result<(), String>>,
}
/// The elements of one parameter's step.
struct Slices<'a> {
    param: AnyMut<'a>,
    grad: Any<'a>,
    kept: [Option<AnyMut<'a>>; KEPT],
}
impl<'a> Slices<'a> {
    fn with<R>(self, rule: R) -> Item<'a, R> {
        Item { rule, param: self.param, grad: self.grad, kept: self.kept }
    }
}
fn finished(done: Option<std::result::Result<(), String>>) -> Result<()> {
    done.unwrap_or_else(|| Err("dtypes of a parameter and its state differ".into())).map_err(Error::runtime)
}

/// On a device that is not built in: by its back end's kernel, or over copies.
#[cold]
fn run_elsewhere(batch: &[Ready<'_>], rules: &Rules<'_>, scaling: Scaling<'_>) -> Result<()> {
    let device = batch[0].param.work().device();
    let items: Vec<(Vec<f64>, StepItem<'_>)> = batch
        .iter()
        .enumerate()
        .map(|(i, r)| {
            let kept = [0, 1, 2].map(|i| r.kept[i].as_ref().map(Place::work));
            ((rules.numbers)(i), StepItem { param: r.param.work(), grad: &r.grad, kept })
        })
        .collect();
    let mut first = 0;
    for alike in items.chunk_by(|a, b| a.0 == b.0 && a.1.param.dtype() == b.1.param.dtype()) {
        let items: Vec<StepItem<'_>> = alike.iter().map(|i| i.1).collect();
        let Scaling { scale, found_inf } = scaling;
        let step = lists::Step { rule: rules.name, numbers: &alike[0].0, items: &items, scale, found_inf };
        let done = match lists::of(device) {
            Some(own) => own.step(&step)?,
            None => false,
        };
        ensure!(
            done || scale.is_none() && found_inf.is_none(),
            Missing,
            "scaled steps of {} on {device}",
            rules.name
        );
        if !done {
            items.iter().try_for_each(|i| by_the_cpu(rules, first, i))?;
        }
        first += alike.len();
    }
    batch.iter().flat_map(Ready::outs).for_each(written);
    Ok(())
}
/// One parameter over copies on the CPU, by the rule of that number.
fn by_the_cpu(rules: &Rules<'_>, rule: usize, item: &StepItem<'_>) -> Result<()> {
    let (p, g) = (transfer::on_host(item.param)?, transfer::on_host(item.grad)?);
    let own: Vec<&Tensor> = item.kept.iter().flatten().copied().collect();
    let kept = own.iter().map(|t| transfer::on_host(t)).collect::<Result<Vec<_>>>()?;
    {
        let outs: Vec<&Tensor> = std::iter::once(&p).chain(&kept).collect();
        let access = Access::new(&[&g], &outs)?;
        let mut slices = [None, None, None];
        for (i, k) in slices.iter_mut().enumerate().take(kept.len()) {
            *k = Some(access.any_mut(i + 1)?);
        }
        let (param, grad) = (access.any_mut(0)?, access.any(0)?);
        finished((rules.step)(rule, Slices { param, grad, kept: slices }))?;
    }
    matrices::write(item.param, &p)?;
    own.iter().zip(&kept).try_for_each(|(to, from)| matrices::write(to, from))
}

/// The memory of a batch on the CPU.
fn opened<'a>(batch: &'a [Ready<'_>]) -> Result<Access<'a>> {
    let outs: Vec<&Tensor> = batch.iter().flat_map(Ready::outs).collect();
    let ins: Vec<&Tensor> = batch.iter().map(|r| &*r.grad).collect();
    Access::new(&ins, &outs)
}
fn slices<'a>(batch: &[Ready<'_>], access: &'a Access<'_>) -> Result<Vec<Slices<'a>>> {
    let mut all = Vec::with_capacity(batch.len());
    let mut next = 0;
    let mut out = || {
        next += 1;
        access.any_mut(next - 1)
    };
    for (i, r) in batch.iter().enumerate() {
        let param = out()?;
        let mut kept = [None, None, None];
        for (k, _) in kept.iter_mut().zip(r.kept.iter().flatten()) {
            *k = Some(out()?);
        }
        all.push(Slices { param, grad: access.any(i)?, kept });
    }
    Ok(all)
}
fn finish(batch: &[Ready<'_>]) -> Result<()> {
    batch.iter().try_for_each(|r| r.written().try_for_each(Place::finish))
}

fn run<R: Told>(batch: &mut Vec<Ready<'_>>, rules: &mut Vec<R>, scaling: Scaling<'_>) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    if batch[0].param.work().device() != Device::Cpu {
        let all = Rules {
            name: R::NAME,
            numbers: &|i| rules[i].numbers(),
            step: &|i, slices| R::step(vec![slices.with(rules[i])]),
        };
        run_elsewhere(batch, &all, scaling)?;
    } else {
        let access = opened(batch)?;
        let mut items = Vec::with_capacity(rules.len());
        for (slices, rule) in slices(batch, &access)?.into_iter().zip(&*rules) {
            items.push(slices.with(*rule));
        }
        finished(R::step(items))?;
    }
    let done = finish(batch);
    batch.clear();
    rules.clear();
    done
}

/// Outputs that one access may have.
const OUTS: usize = 32;

/// Runs a fused rule over the lists, which are of one length; `rule` gives it with the numbers of parameter `i`.
///
/// # Errors
/// Tensors that do not fit their parameter, dtypes that the rules do not have, tensors that are borrowed.
pub(super) fn step<R: Told>(l: &Lists<'_>, mut rule: impl FnMut(usize) -> Result<R>) -> Result<()> {
    if on_meta(l.params) {
        return Ok(());
    }
    let (mut batch, mut rules) = (Vec::new(), Vec::new());
    let mut outs = 0;
    for i in 0..l.params.len() {
        let rule = rule(i)?;
        let ready = prepare(l, i)?;
        let more = 1 + l.kept.len();
        // parameters that share memory are updated one after the other
        let shared = meets_any(&batch, &ready);
        // the CPU borrows all of a batch at once
        let full = outs + more > OUTS && l.params[i].device() == Device::Cpu;
        if full || shared {
            // what was copied for this parameter may be out of date after the run
            run(&mut batch, &mut rules, l.scaling)?;
            outs = 0;
        }
        let ready = if shared { prepare(l, i)? } else { ready };
        outs += more;
        batch.push(ready);
        rules.push(rule);
    }
    run(&mut batch, &mut rules, l.scaling)
}
fn meets_any(batch: &[Ready<'_>], ready: &Ready<'_>) -> bool {
    batch
        .iter()
        .any(|b| ready.outs().any(|t| b.meets(t)) || b.outs().any(|t| t.storage().same(ready.grad.storage())))
}

/// Tensors on the meta device have no elements that a step could change.
pub(super) fn on_meta(params: &[Tensor]) -> bool {
    params.iter().any(|p| p.device() == Device::Meta)
}
