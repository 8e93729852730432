//! Linear maps and convolutions of integers: weights packed once, exact sums, and their rounding as FBGEMM and oneDNN do it.

use crate::tensor::{affine, cast, dense, uniform, wrap};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{filled, size_mul};
use flambeau_core::tensor::quantized::Quantizer;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
use flambeau_cpu::quantize::finish::{
    MovedThenRounded, Numbers, Place, Range, RoundedThenMoved, Zeros, finished,
};
use flambeau_cpu::quantize::product::Packed;
use flambeau_nn_functional::ops as nn;

/// A quantized weight, ready for products: by rows of the results' channels.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    groups: Vec<Packed>,
    scales: Vec<f32>,
    zeros: Vec<i32>,
    outputs: usize,
}
impl Weight {
    /// Of a qint8 tensor whose first dimension are the results' channels, in groups.
    pub(crate) fn new(w: &Tensor, groups: i64) -> Result<Weight> {
        ensure!(w.dtype() == DType::QI8, Runtime, "The weight tensor for quantized products must be qint8");
        let Some(q) = w.quantizer() else { return Err(Error::runtime("a weight that is not quantized")) };
        let (scales, zeros) = match &*q {
            Quantizer::PerTensor { scale, zero_point } => (vec![*scale as f32], vec![*zero_point as i32]),
            Quantizer::PerChannel { scales, zero_points, axis } => {
                ensure!(
                    *axis == 0,
                    Runtime,
                    "Only per-channel quantization along the first dimension is supported"
                );
                (
                    scales.try_to_vec::<f32>()?,
                    zero_points.try_to_vec::<i64>()?.into_iter().map(|z| z as i32).collect(),
                )
            }
        };
        let outputs = w.sizes().first().copied().unwrap_or(0) as usize;
        let groups = usize::try_from(groups).unwrap_or(0);
        ensure!(
            w.dim() >= 1 && groups >= 1 && outputs.is_multiple_of(groups),
            Runtime,
            "expected groups that divide the {outputs} output channels of the weight, got {groups}"
        );
        let fits = |n: usize| n == 1 || n == outputs;
        ensure!(
            fits(scales.len()) && fits(zeros.len()),
            Runtime,
            "expected {outputs} scales and zero points, got {} and {}",
            scales.len(),
            zeros.len()
        );
        let integers = channels_last(&w.integers()?)?;
        let all = integers.try_to_vec::<i8>()?;
        let terms = w.sizes()[1..].iter().product::<i64>() as usize;
        let each = outputs / groups;
        let packed = (0..groups)
            .map(|g| Packed::new(&all[g * each * terms..(g + 1) * each * terms], each, terms))
            .collect::<Option<Vec<_>>>();
        let groups = packed.ok_or_else(|| Error::runtime("a weight of another size"))?;
        Ok(Weight { groups, scales, zeros, outputs })
    }
    /// What one of a column's sums is worth, of inputs of a scale: one, or one for each column.
    fn units(&self, scale: f32) -> Vec<f32> {
        self.scales.iter().map(|s| scale * s).collect()
    }
    fn zeros_of(&self, group: usize) -> &[i32] {
        if self.zeros.len() == 1 {
            return &self.zeros;
        }
        let each = self.outputs / self.groups.len();
        &self.zeros[group * each..(group + 1) * each]
    }
}
/// The second dimension last, row-major: as it is where there are no more than two.
fn channels_last(t: &Tensor) -> Result<Tensor> {
    if t.dim() <= 2 {
        return ops::contiguous(t, flambeau_core::MemoryFormat::Contiguous);
    }
    let mut order: Vec<i64> = (0..t.dim() as i64).filter(|d| *d != 1).collect();
    order.push(1);
    ops::contiguous(&ops::permute(t, &order)?, flambeau_core::MemoryFormat::Contiguous)
}
/// The bytes of a quantized input, row-major, and its scale and zero point as unsigned ones.
fn bytes(x: &Tensor) -> Result<(Vec<u8>, f32, i32)> {
    let q = ops::contiguous(&x.integers()?, flambeau_core::MemoryFormat::Contiguous)?;
    bytes_of(x, &q)
}
/// Of the integers of `x` in another order.
fn bytes_of(x: &Tensor, q: &Tensor) -> Result<(Vec<u8>, f32, i32)> {
    let (scale, zero) = affine(x)?;
    match x.dtype() {
        DType::QU8 => Ok((q.try_to_vec::<u8>()?, scale as f32, zero as i32)),
        DType::QI8 => {
            let up = |v: i8| (i32::from(v) + 128) as u8;
            Ok((q.try_to_vec::<i8>()?.into_iter().map(up).collect(), scale as f32, zero as i32 + 128))
        }
        d => Err(Error::runtime(format!("Expected input data type quint8 but got {d}"))),
    }
}
fn numbers(bias: Option<&Tensor>, n: usize) -> Result<Vec<f32>> {
    let Some(b) = bias else { return Ok(Vec::new()) };
    let v = cast(&b.alias_detached(), DType::F32)?.try_to_vec::<f32>()?;
    ensure!(v.len() == n, Runtime, "bias should have N elements: {n}");
    Ok(v)
}
/// Rounded sums, the low byte of each, as a tensor of `dtype` (quint8, or qint8 as its input).
fn rounded(out: Vec<u8>, d: DType, sizes: &[i64]) -> Result<Tensor> {
    if d == DType::QI8 {
        return Tensor::from_vec_raw(out.into_iter().map(|v| v as i8).collect::<Vec<_>>(), sizes);
    }
    Tensor::from_vec_raw(out, sizes)
}
/// The range of results of a dtype.
fn range(d: DType, (scale, zero): (f64, i64), relu: bool) -> Range {
    let (low, high) = d.quantized_range().unwrap_or((0, 255));
    let low = if relu { zero.max(low) } else { low };
    Range { scale: scale as f32, zero: zero as i32, bounds: (low as i32, high as i32) }
}
/// Of a group's `n` columns, where there is one for each column of all groups.
fn of_group(all: &[f32], g: usize, n: usize) -> &[f32] {
    if all.len() <= 1 { all } else { &all[g * n..(g + 1) * n] }
}
/// `x W^T + b`, by the rule of the results.
pub(crate) fn linear(
    x: &Tensor,
    w: &Weight,
    bias: Option<&Tensor>,
    (scale, zero): (f64, i64),
    relu: bool,
) -> Result<Tensor> {
    let (a, sx, zx) = bytes(x)?;
    let (k, n) = (w.groups[0].terms(), w.outputs);
    ensure!(
        x.dim() >= 1 && x.sizes()[x.dim() - 1] == k as i64,
        Runtime,
        "The number of elements in the last dimension of the input must be {k}"
    );
    let m = x.sizes()[..x.dim() - 1].iter().product::<i64>() as usize;
    let b = numbers(bias, n)?;
    let mut out = filled(0u8, size_mul(m as i64, n as i64)?)?;
    let (units, range) = (w.units(sx), range(x.dtype(), (scale, zero), relu));
    let rule = RoundedThenMoved { units: &units, bias: &b, range };
    let zeros = Zeros { a: zx, b: w.zeros_of(0) };
    finished(&a, m, &w.groups[0], zeros, &rule, &mut out, Place { first: 0, step: n });
    let mut sizes = x.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = n as i64;
    }
    wrap(&rounded(out, x.dtype(), &sizes)?, x.dtype(), &uniform(scale, zero))
}
/// `x W^T + b` of numbers, whose integers are found for this call.
pub(crate) fn linear_dynamic(
    x: &Tensor,
    w: &Weight,
    bias: Option<&Tensor>,
    reduce_range: bool,
    relu: bool,
) -> Result<Tensor> {
    let q = crate::ops::quantize_per_tensor_dynamic(&x.alias_detached(), DType::QU8, reduce_range)?;
    let (a, sx, zx) = bytes(&q)?;
    let (k, n) = (w.groups[0].terms(), w.outputs);
    ensure!(
        x.dim() >= 1 && x.sizes()[x.dim() - 1] == k as i64,
        Runtime,
        "The number of elements in the last dimension of the input must be {k}"
    );
    let m = x.sizes()[..x.dim() - 1].iter().product::<i64>() as usize;
    let b = numbers(bias, n)?;
    let mut out = filled(0f32, size_mul(m as i64, n as i64)?)?;
    let (scales, zeros) = (w.units(sx), Zeros { a: zx, b: w.zeros_of(0) });
    let rule = Numbers { scales: &scales, bias: &b };
    finished(&a, m, &w.groups[0], zeros, &rule, &mut out, Place { first: 0, step: n });
    if relu {
        out.iter_mut().for_each(|v| *v = v.max(0.0));
    }
    let mut sizes = x.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = n as i64;
    }
    Tensor::from_vec_raw(out, &sizes)
}

/// How a convolution moves: of one to three dimensions.
#[derive(Clone, Debug)]
pub(crate) struct Moves {
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
}
fn three(v: &[i64], fill: i64) -> [usize; 3] {
    let mut all = [fill as usize; 3];
    for (to, from) in all[3 - v.len()..].iter_mut().zip(v) {
        *to = *from as usize;
    }
    all
}
/// A convolution by patches: each result is a row of bytes, borders are the integer that stands for zero.
pub(crate) fn conv(
    x: &Tensor,
    (w, kernel): (&Weight, &[i64]),
    bias: Option<&Tensor>,
    moves: &Moves,
    (scale, zero): (f64, i64),
    relu: bool,
) -> Result<Tensor> {
    let spatial = kernel.len().saturating_sub(2);
    let whole = |v: &[i64], least: i64| v.len() == spatial && v.iter().all(|n| *n >= least);
    ensure!(
        (1..=3).contains(&spatial)
            && whole(&kernel[2..], 1)
            && whole(&moves.stride, 1)
            && whole(&moves.padding, 0)
            && whole(&moves.dilation, 1),
        Runtime,
        "expected a window of one to three dimensions with steps above zero and no negative padding, got kernel {:?}, stride \
         {:?}, padding {:?}, dilation {:?}",
        kernel.get(2..).unwrap_or(&[]),
        moves.stride,
        moves.padding,
        moves.dilation
    );
    ensure!(
        x.dim() == spatial + 2,
        Runtime,
        "Expected activation tensor to have {} dimensions, got {}",
        spatial + 2,
        x.dim()
    );
    let (n, c) = (x.sizes()[0] as usize, x.sizes()[1]);
    ensure!(
        c == kernel[1].saturating_mul(moves.groups),
        Runtime,
        "[QConv] each dimension of output tensor should be greater than 0: expected input channels {}, got {c}",
        kernel[1].saturating_mul(moves.groups)
    );
    let input = three(&x.sizes()[2..], 1);
    let (k, s) = (three(&kernel[2..], 1), three(&moves.stride, 1));
    let (p, d) = (three(&moves.padding, 0), three(&moves.dilation, 1));
    let mut output = [0usize; 3];
    for i in 0..3 {
        let reach = d[i].saturating_mul(k[i] - 1).saturating_add(1);
        let room = p[i].saturating_mul(2).saturating_add(input[i]);
        // what saturates has no memory in any case
        ensure!(room < usize::MAX, Runtime, "a padding of {} is too large", p[i]);
        ensure!(
            room >= reach,
            Runtime,
            "Kernel size can't be greater than actual input size: {reach} beside {room}"
        );
        output[i] = (room - reach) / s[i] + 1;
    }
    let (a, sx, zx) = bytes_of(x, &channels_last(&x.integers()?)?)?;
    let groups = moves.groups as usize;
    let (channels, outputs) = (c as usize / groups, w.outputs / groups);
    let product = |all: &[usize]| all.iter().try_fold(1, |n, m| size_mul(n, *m as i64)).map(|n| n as usize);
    let (places, volume) = (product(&output)?, product(&input)?);
    let terms = product(&[channels, k[0], k[1], k[2]])?;
    product(&[places, terms])?;
    let b = numbers(bias, w.outputs)?;
    let (units, range) = (w.units(sx), range(x.dtype(), (scale, zero), relu));
    let mut out = filled(0u8, product(&[n, places, w.outputs])? as i64)?;
    // a window of one place that visits all of them in order reads rows that lie there already
    let in_place = groups == 1 && k == [1; 3] && s == [1; 3] && p == [0; 3];
    // small images go together, so that their rows fill a product
    let together = (PATCHES / (places * terms).max(1)).clamp(1, n.max(1));
    let mut patches = filled(0u8, if in_place { 0 } else { product(&[together, places, terms])? as i64 })?;
    let window = Window { channels, border: zx as u8, of: c as usize, input, output, k, s, p, d };
    for first in (0..n).step_by(together) {
        let count = together.min(n - first);
        let images = &a[first * c as usize * volume..][..count * c as usize * volume];
        let to = &mut out[first * places * w.outputs..][..count * places * w.outputs];
        for g in 0..groups {
            let rows: &[u8] = if in_place {
                images
            } else {
                for i in 0..count {
                    let image = &images[i * c as usize * volume..][..c as usize * volume];
                    window.gather(image, g, &mut patches[i * places * terms..][..places * terms]);
                }
                &patches[..count * places * terms]
            };
            let rule = MovedThenRounded {
                units: of_group(&units, g, outputs),
                bias: of_group(&b, g, outputs),
                range,
            };
            let zeros = Zeros { a: zx, b: w.zeros_of(g) };
            let place = Place { first: g * outputs, step: w.outputs };
            finished(rows, count * places, &w.groups[g], zeros, &rule, to, place);
        }
    }
    // channels last, as PyTorch's kernels leave it
    let mut last = vec![n as i64];
    last.extend(output[3 - spatial..].iter().map(|v| *v as i64));
    last.push(w.outputs as i64);
    let mut order = vec![0, spatial as i64 + 1];
    order.extend(1..=spatial as i64);
    let y = ops::permute(&rounded(out, x.dtype(), &last)?, &order)?;
    let y = if spatial == 1 {
        dense(&ops::clone(&y, Some(flambeau_core::MemoryFormat::Contiguous))?)?
    } else {
        y
    };
    wrap(&y.alias_detached(), x.dtype(), &uniform(scale, zero))
}
type Three = [usize; 3];
/// Bytes of patches that are made at once, where one image does not take more.
const PATCHES: usize = 1 << 18;
/// How patches are made of an image whose channels lie together.
struct Window {
    /// Channels of a group.
    channels: usize,
    /// The byte beyond the image.
    border: u8,
    /// Channels of the image.
    of: usize,
    input: Three,
    output: Three,
    k: Three,
    s: Three,
    p: Three,
    d: Three,
}
impl Window {
    /// Where a tap reads, along one dimension.
    fn at(&self, i: usize, place: usize, tap: usize) -> Option<usize> {
        (place * self.s[i] + tap * self.d[i]).checked_sub(self.p[i]).filter(|q| *q < self.input[i])
    }
    /// The rows of patches of one image and one group: for each place the taps, for each tap the channels.
    fn gather(&self, image: &[u8], group: usize, patches: &mut [u8]) {
        let (channels, line) = (self.channels, self.k[2] * self.channels);
        // taps of a line lie together where nothing stands between them
        let together = self.d[2] == 1 && channels == self.of;
        if line == 0 {
            return;
        }
        let mut lines = patches.chunks_exact_mut(line);
        for z in 0..self.output[0] {
            for y in 0..self.output[1] {
                for x in 0..self.output[2] {
                    for tz in 0..self.k[0] {
                        for ty in 0..self.k[1] {
                            let Some(to) = lines.next() else { return };
                            let (Some(iz), Some(iy)) = (self.at(0, z, tz), self.at(1, y, ty)) else {
                                to.fill(self.border);
                                continue;
                            };
                            let row = (iz * self.input[1] + iy) * self.input[2];
                            let left = x * self.s[2];
                            if together && left >= self.p[2] && left - self.p[2] + self.k[2] <= self.input[2]
                            {
                                let from = (row + left - self.p[2]) * channels;
                                to.copy_from_slice(&image[from..from + line]);
                                continue;
                            }
                            for (tx, to) in to.chunks_exact_mut(channels).enumerate() {
                                match self.at(2, x, tx) {
                                    Some(ix) => {
                                        let from = (row + ix) * self.of + group * channels;
                                        to.copy_from_slice(&image[from..from + channels]);
                                    }
                                    None => to.fill(self.border),
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
/// The numbers of a float16 weight: `x W^T + b` with the weight rounded to halves.
pub(crate) fn linear_half(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, relu: bool) -> Result<Tensor> {
    let y = nn::linear(&x.alias_detached(), &cast(&cast(w, DType::F16)?, DType::F32)?, bias)?;
    if relu { ops::relu(&y) } else { Ok(y) }
}
