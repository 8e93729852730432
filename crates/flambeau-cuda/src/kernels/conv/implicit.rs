//! Convolutions by matrix units without columns in memory (`kernels/conv/implicit.cuh`).

use super::super::dense::{address_of, float_units, matrix_units, quotient, text, up};
use super::super::{Args, Which, address, element, launch};
use super::Conv;
use crate::device::{ordinal, processors};
use crate::driver::Shape;
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, ops};
use flambeau_devices::backends::cudnn;

/// Whether the device of a tensor multiplies elements of this dtype by matrix units.
pub(super) fn by_units(d: DType, on: &Tensor) -> Result<bool> {
    let device = ordinal(on.device())?;
    Ok(matrix_units(d, device)? || float_units(d, device)?)
}
impl Conv {
    /// The result of the convolution, or the gradient of its image. `false` where other kernels serve: other dtypes and devices,
    /// windows of one place, whose columns are the image itself, and tensors that 31 bits do not count.
    pub(super) fn implicit(
        &self,
        of_image: bool,
        source: &Tensor,
        w: &Tensor,
        bias: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<bool> {
        let (d, device) = (out.dtype(), ordinal(out.device())?);
        let small = [source, w, out].iter().all(|t| t.numel() < i64::from(i32::MAX));
        let Some(own) = element(d).filter(|_| small && !self.pointwise()) else { return Ok(false) };
        if !by_units(d, out)? {
            return Ok(false);
        }
        let one = [1; 3];
        let back = |v: [i64; 3]| v.map(|n| -n);
        let (rows, channels, sizes) = match of_image {
            false => (self.to(), self.of(), [self.output, self.input]),
            true => (self.of(), self.to(), [self.input, self.output]),
        };
        let [mul, add, step, div] = match of_image {
            false => [self.stride, back(self.pad), self.dilation, one],
            true => [one, self.pad, back(self.dilation), self.stride],
        };
        let width = up(channels * self.taps() * d.size() as i64, 16) * 16 / d.size() as i64;
        let weight = self.weight_rows(w, of_image, width)?;
        let places: i64 = sizes[0].iter().product();
        let list = Args::new().word(address(source)?).word(address(&weight)?).word(address_of(bias)?);
        let mut list = list.word(address(out)?).int(self.n).int(self.groups).int(rows).int(channels);
        for v in [sizes[0], sizes[1], self.kernel, mul, add, step, div] {
            list = v.iter().fold(list, |l, n| l.int(*n));
        }
        let list = list.int(width);
        let list = sizes[0].iter().fold(list, |l, n| l.word(quotient(*n))).word(quotient(places));
        // float in parts takes more registers, and small tiles give each multiprocessor some work
        let exact = d == DType::F32 && !cudnn::allow_tf32();
        let blocks = |tile: i64| self.groups * up(rows, tile) * up(self.n * places, 128);
        let large = rows > 64 && !exact && blocks(128) >= processors(device)?;
        let (tile, divided) = (if large { 128 } else { 64 }, div != one);
        let shape = Shape { blocks: blocks(tile).clamp(1, 1 << 20) as u32, threads: 256 };
        let which = Which("implicit", tile as usize, [d as u8, exact.into(), divided.into(), 0]);
        let kernel = || text("conv/implicit.cuh", &format!("IMPLICIT(k, {own}, {tile}, {exact}, {divided})"));
        launch(device, which, kernel, shape, list)?;
        Ok(true)
    }
    /// A row of `width` elements for each channel of the result: the weight itself where it lies so.
    fn weight_rows(&self, w: &Tensor, of_image: bool, width: i64) -> Result<Tensor> {
        let (groups, to, of, taps) = (self.groups, self.to(), self.of(), self.taps());
        let aligned = address(w)? % 16 == 0;
        if !of_image && of * taps == width && aligned {
            return Ok(w.clone());
        }
        let (rows, channels) = if of_image { (of, to) } else { (to, of) };
        let made = Tensor::empty_raw(&[groups * rows, width], w.dtype(), w.device())?;
        if channels * taps != width {
            ops::zero_(&made)?;
        }
        let parts = [groups, rows, channels, taps];
        let room = made.view_raw(parts, [rows * width, width, taps, 1], made.storage_offset())?;
        let steps = if of_image {
            [to * of * taps, taps, of * taps, 1]
        } else {
            [to * of * taps, of * taps, taps, 1]
        };
        matrices::write(&room, &w.view_raw(parts, steps, w.storage_offset())?)?;
        Ok(made)
    }
}
