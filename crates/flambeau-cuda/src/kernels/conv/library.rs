//! Convolutions by the maker's library, cuDNN.

use super::super::{address, lists};
use super::Conv;
use super::implicit::by_units;
use crate::device::{here, ordinal};
use crate::driver::convolutions::{Convolution, Direction};
use crate::driver::driver;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::determinism;
use flambeau_core::{DType, Result, Tensor};
use flambeau_devices::backends::cudnn;

impl Conv {
    /// Whether few channels are read at many places, as images are by the first layer of a network: cuDNN, which lays channels
    /// side by side in eights first, takes up to twice as long as our own kernels (measured on an H200).
    fn thin(&self, direction: Direction) -> bool {
        direction == Direction::Forward
            && self.groups == 1
            && self.of() <= 4
            && self.places() >= 4096
            && !self.pointwise()
    }
    /// By the maker's library, as the switches of `torch.backends.cudnn` say: of image, weight and output one is found from the
    /// others. `false` where our own kernels serve.
    pub(super) fn by_library(&self, direction: Direction, [x, w, y]: [&Tensor; 3]) -> Result<bool> {
        let d = x.dtype();
        let taken = matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        // of channels by themselves our own kernels are faster; PyTorch has some for these as well
        let own = self.window(d, direction).is_some()
            || self.thin(direction) && by_units(d, x)? && (d != DType::F32 || cudnn::allow_tf32());
        // larger tensors go beyond the numbers that engines count with
        let small = [x, w, y].iter().all(|t| t.numel() < i64::from(i32::MAX));
        if !taken || !small || !cudnn::enabled() || own {
            return Ok(false);
        }
        // what has no depth has two dimensions
        let flat =
            [self.input[0], self.kernel[0], self.stride[0], self.output[0]] == [1; 4] && self.pad[0] == 0;
        let dims = if flat { 2 } else { 3 };
        let last = |v: [i64; 3]| if flat { [v[1], v[2], 0] } else { v };
        let sizes = |n: i64, c: i64, v: [i64; 3]| {
            let v = last(v);
            [n, c, v[0], v[1], v[2]]
        };
        let c = Convolution {
            direction,
            dtype: d,
            dims,
            image: sizes(self.n, self.c, self.input),
            weight: sizes(self.o, self.of(), self.kernel),
            output: sizes(self.n, self.o, self.output),
            stride: last(self.stride),
            pad: last(self.pad),
            dilation: last(self.dilation),
            tf32: cudnn::allow_tf32(),
            deterministic: cudnn::deterministic() || determinism::are_deterministic_algorithms_enabled(),
            tried: cudnn::benchmark().then(|| cudnn::benchmark_limit().max(0) as usize),
        };
        let at = [address(x)?, address(w)?, address(y)?];
        let device = ordinal(x.device())?;
        lists::flush()?;
        // several engines may want memory one after the other; all of it stays until the call is queued
        let mut held = Vec::new();
        let mut room = |nbytes: usize| {
            let t = Tensor::empty_raw(&[nbytes as i64], DType::U8, x.device())?;
            let found = address(&t)?;
            held.push(t);
            Ok(found)
        };
        driver()?.convolution(device, here(device)?, &c, at, &mut room)
    }
}
