//! Hooks with which gradients travel as bytes: whole numbers from 0 to 255, by a scale and a zero point.

use super::bucket::{CommHook, GradBucket};
use super::hooks::{cast, divide, group_or_world};
use crate::group::ProcessGroup;
use crate::{CollectiveOptions, try_all_gather};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Scalar, Tensor, ops};
use flambeau_futures::Future;

/// A hook with which gradients travel as bytes, by one scale for a bucket, or one for each 512 elements.
///
/// Each rank tells its scales and sends its bytes to all; each averages what they stand for.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{DistributedDataParallel, QuantizationHook}};
/// use torch::prelude::*;
/// let slopes = run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     model.register_comm_hook(QuantizationHook::per_tensor());
///     model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///     model.parameters()[0].grad().unwrap().item::<f32>()
/// });
/// assert!((slopes[0] - 0.5).abs() < 0.01 && slopes[0] == slopes[1]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks.quantization_pertensor_hook")]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks.quantization_perchannel_hook")]
pub struct QuantizationHook {
    group: Option<ProcessGroup>,
    channel: Option<i64>,
}
impl QuantizationHook {
    /// One scale for a bucket.
    pub fn per_tensor() -> QuantizationHook {
        QuantizationHook { group: None, channel: None }
    }
    /// One scale for so many elements; PyTorch has 512.
    pub fn per_channel(bucket_size: i64) -> QuantizationHook {
        QuantizationHook { group: None, channel: Some(bucket_size.max(1)) }
    }
    /// Over this group.
    pub fn over(mut self, group: &ProcessGroup) -> QuantizationHook {
        self.group = Some(group.clone());
        self
    }
}
/// Scale and zero point by which all values between these, and 0, are bytes.
fn by_range(low: f32, high: f32) -> (f32, f32) {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let scale = ((high - low) / 255.0).max(f32::EPSILON);
    let zero = (-(low / scale).round_ties_even()).clamp(0.0, 255.0);
    (scale, zero)
}
fn list_like(t: &Tensor, n: i64) -> Result<Vec<Tensor>> {
    (0..n).map(|_| Tensor::zeros_raw(t.sizes(), t.dtype(), Device::Cpu)).collect()
}
impl CommHook for QuantizationHook {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        let group = group_or_world(&self.group)?;
        let (n, flat) = (group.size(), cast(bucket.buffer(), DType::F32)?);
        let len = flat.numel();
        // rows with a scale each
        let rows = match self.channel {
            None => ops::view(&flat, &[1, len])?,
            Some(c) => {
                // PyTorch adds a whole row of zeros where nothing is left over
                let padded = (len / c + 1) * c;
                let whole = Tensor::zeros_raw(&[padded], DType::F32, Device::Cpu)?;
                ops::copy_(&ops::narrow(&whole, 0, 0, len)?, &flat, false)?;
                ops::view(&whole, &[padded / c, c])?
            }
        };
        let count = rows.sizes()[0];
        let values = rows.to_vec::<f32>();
        let width = (values.len() / count.max(1) as usize).max(1);
        let ranges: Vec<(f32, f32)> = values
            .chunks(width)
            .map(|r| {
                let (low, high) =
                    r.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
                by_range(low, high)
            })
            .collect();
        let told: Vec<f32> = ranges.iter().map(|r| r.0).chain(ranges.iter().map(|r| r.1)).collect();
        let shape: &[i64] = if self.channel.is_some() { &[2, count] } else { &[2] };
        let told = Tensor::from_vec_raw(told, shape)?;
        let o = || CollectiveOptions::new().group(&group);
        let all_told = list_like(&told, n)?;
        try_all_gather(&all_told, &told, o())?;
        let parts = |t: &Tensor| -> Result<(Tensor, Tensor)> {
            let t = ops::view(t, &[2, count, 1])?;
            Ok((ops::select(&t, 0, 0)?, ops::select(&t, 0, 1)?))
        };
        let (scale, zero) = parts(&told)?;
        let whole = ops::add(&ops::round(&ops::div(&rows, &scale)?)?, &zero, Scalar::from(1i64))?;
        let whole = ops::clamp(&whole, Some(Scalar::from(0i64)), Some(Scalar::from(255i64)))?;
        let mut own = cast(&whole, DType::U8)?;
        if self.channel.is_none() {
            own = ops::view(&own, &[len])?;
        }
        let all = list_like(&own, n)?;
        try_all_gather(&all, &own, o())?;
        let sum = Tensor::zeros_raw(rows.sizes(), DType::F32, Device::Cpu)?;
        for (b, t) in all.iter().zip(&all_told) {
            let (scale, zero) = parts(t)?;
            let b = ops::view(&cast(b, DType::F32)?, rows.sizes())?;
            let back = ops::mul(&scale, &ops::sub(&b, &zero, Scalar::from(1i64))?)?;
            ops::add_(&sum, &back, Scalar::from(1i64))?;
        }
        let mean = ops::narrow(&ops::view(&sum, &[sum.numel()])?, 0, 0, len)?;
        divide(&mean, n)?;
        Ok(Future::ready(mean))
    }
}
