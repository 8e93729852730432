//! Steps of optimizers and scales of gradients, over lists of tensors by few launches.

use super::{Args, Which, address, element, launch};
use crate::device;
use crate::driver::Shape;
use flambeau_core::backend::lists::{Lists, Step};
use flambeau_core::backend::transfer;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::is_non_overlapping_and_dense;
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure, ops};

/// As in kernels/optim/step.cuh.
const ITEMS: usize = 48;
const NUMBERS: usize = 12;
const BLOCK: i64 = 4096;

fn text(line: &str) -> (String, String) {
    (format!("#include \"optim/step.cuh\"\n{line}\n"), "step_k".to_string())
}
fn floats(d: DType) -> Option<&'static str> {
    element(d).filter(|_| matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64))
}
/// As many words as there may be items.
fn padded(list: Args, words: impl Iterator<Item = u64>, n: usize) -> Args {
    words.chain(std::iter::repeat(0)).take(n).fold(list, Args::word)
}
/// Blocks before each of some tensors, and of all.
fn blocks(sizes: &[i64]) -> Vec<u64> {
    let mut all = vec![0];
    for n in sizes {
        let last = all.last().copied().unwrap_or(0);
        all.push(last + (*n as u64).div_ceil(BLOCK as u64));
    }
    all
}
/// A number of a gradient scaler on the device: its address, and what keeps it.
fn number(t: Option<&Tensor>, device: Device) -> Result<(u64, Option<Tensor>)> {
    let Some(t) = t else { return Ok((0, None)) };
    ensure!(
        t.dtype() == DType::F32,
        DType,
        "expected scalar type Float but found {}",
        t.dtype().scalar_type_name()
    );
    let here =
        if t.device() == device { t.clone() } else { transfer::to_device(t.alias_detached(), device)? };
    Ok((address(&here)?, Some(here)))
}

/// What is done with lists.
pub(crate) struct OnLists;
impl Lists for OnLists {
    fn step(&self, step: &Step) -> Result<bool> {
        let Some(first) = step.items.first() else { return Ok(true) };
        let (d, here) = (first.param.dtype(), first.param.device());
        let Some(own) = floats(d).filter(|_| step.numbers.len() <= NUMBERS) else { return Ok(false) };
        let device = device::ordinal(here)?;
        let (scale, _kept_scale) = number(step.scale, here)?;
        let (found, _kept_found) = number(step.found_inf, here)?;
        let some: Vec<_> = step.items.iter().filter(|i| i.param.numel() > 0).collect();
        for items in some.chunks(ITEMS) {
            let places = |f: &dyn Fn(&flambeau_core::backend::lists::StepItem) -> Result<u64>| {
                items.iter().map(|i| f(i)).collect::<Result<Vec<_>>>()
            };
            let mut list = padded(Args::new(), places(&|i| address(i.param))?.into_iter(), ITEMS);
            list = padded(list, places(&|i| address(i.grad))?.into_iter(), ITEMS);
            for k in 0..3 {
                list = padded(list, places(&|i| i.kept[k].map_or(Ok(0), address))?.into_iter(), ITEMS);
            }
            let sizes: Vec<i64> = items.iter().map(|i| i.param.numel()).collect();
            list = padded(list, sizes.iter().map(|n| *n as u64), ITEMS);
            let before = blocks(&sizes);
            list = padded(list, before.iter().copied(), ITEMS + 1).int(items.len() as i64);
            list = padded(list, step.numbers.iter().map(|x| x.to_bits()), NUMBERS).word(scale).word(found);
            let all = before.last().copied().unwrap_or(0);
            let text = || text(&format!("STEP(step_k, {own}, {})", step.rule));
            let shape = Shape { blocks: all as u32, threads: 256 };
            launch(device, Which(step.rule, 4, [d as u8, 0, 0, 0]), text, shape, list)?;
        }
        Ok(true)
    }
    fn unscale(&self, tensors: &[Tensor], found_inf: &Tensor, inv_scale: &Tensor) -> Result<bool> {
        let here = found_inf.device();
        let real = |t: &Tensor| match t.is_complex() {
            true => ops::view_as_real(&t.alias_detached()),
            false => Ok(t.alias_detached()),
        };
        let all = tensors.iter().map(real).collect::<Result<Vec<_>>>()?;
        // what lies scattered, and what is of other kinds, goes one by one
        let dense = |t: &&Tensor| {
            t.device() == here
                && floats(t.dtype()).is_some()
                && !t.is_neg()
                && is_non_overlapping_and_dense(t.sizes(), t.strides())
        };
        if !all.iter().all(|t| dense(&t)) {
            return Ok(false);
        }
        let device = device::ordinal(here)?;
        let (scale, _kept) = number(Some(inv_scale), here)?;
        let found = address(found_inf)?;
        let some: Vec<&Tensor> = all.iter().filter(|t| t.numel() > 0).collect();
        for alike in some.chunk_by(|a, b| a.dtype() == b.dtype()) {
            let d = alike[0].dtype();
            let own = floats(d).ok_or_else(|| Error::not_implemented_for("unscale", d))?;
            for items in alike.chunks(ITEMS) {
                let places = items.iter().map(|t| address(t)).collect::<Result<Vec<_>>>()?;
                let sizes: Vec<i64> = items.iter().map(|t| t.numel()).collect();
                let before = blocks(&sizes);
                let list = padded(Args::new(), places.into_iter(), ITEMS);
                let list = padded(list, sizes.iter().map(|n| *n as u64), ITEMS);
                let list = padded(list, before.iter().copied(), ITEMS + 1).int(items.len() as i64);
                let shape = Shape { blocks: before.last().copied().unwrap_or(0) as u32, threads: 256 };
                let text = || text(&format!("UNSCALE(step_k, {own})"));
                let which = Which("unscale", 0, [d as u8, 0, 0, 0]);
                launch(device, which, text, shape, list.word(found).word(scale))?;
            }
        }
        Ok(true)
    }
    fn together(&self, calls: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        super::lists::together(calls)
    }
    fn update_scale(
        &self,
        scale: &Tensor,
        tracker: &Tensor,
        found_inf: &Tensor,
        factors: [f64; 2],
        interval: i64,
    ) -> Result<bool> {
        let here = scale.device();
        if tracker.device() != here || found_inf.device() != here {
            return Ok(false);
        }
        let list = Args::new().word(address(scale)?).word(address(tracker)?).word(address(found_inf)?);
        let list = list.number(factors[0]).number(factors[1]).int(interval);
        let shape = Shape { blocks: 1, threads: 1 };
        let text = || text("UPDATE_SCALE(step_k)");
        launch(device::ordinal(here)?, Which("update_scale", 0, [0; 4]), text, shape, list)?;
        Ok(true)
    }
}
