//! Convolutions of each channel by itself by windows of usual sizes (`kernels/conv/depthwise.cuh`).

use super::super::dense::{address_of, quotient, text, up};
use super::super::reduction::sum_type;
use super::super::{Args, Which, address, launch, shape};
use super::{Conv, names};
use crate::device::{ordinal, processors};
use crate::driver::Shape;
use crate::driver::convolutions::Direction;
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, ops};

const FILE: &str = "conv/depthwise.cuh";

impl Conv {
    /// The side of the window and its steps, where these kernels take the convolution in that direction.
    pub(super) fn window(&self, d: DType, direction: Direction) -> Option<(i64, i64)> {
        let [[depth, k, kw], [_, step, across]] = [self.kernel, self.stride];
        let each = self.groups > 1 && self.of() == 1 && self.to() == 1;
        let flat = depth == 1 && self.input[0] == 1 && self.output[0] == 1 && self.pad[0] == 0;
        let square = k == kw && step == across && self.dilation[1..] == [1, 1];
        let known = [3, 5, 7].contains(&k) && (step == 1 || step == 2 && direction != Direction::Image);
        let small = self.n * self.c * self.inside().max(self.places()) < i64::from(i32::MAX);
        let taken = matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        (each && flat && square && known && small && taken).then_some((k, step))
    }
    /// Arguments for an image and an output of these sizes.
    fn depthwise_args(
        &self,
        [image, weight, bias, out]: [u64; 4],
        sizes: [[i64; 3]; 2],
        pad: [i64; 2],
        turned: bool,
    ) -> Args {
        let [from, to] = sizes;
        let list = Args::new().word(image).word(weight).word(bias).word(out).int(self.n * self.c).int(self.c);
        let list = list.int(from[1]).int(from[2]).int(to[1]).int(to[2]).int(pad[0]).int(pad[1]);
        let list = list.int(turned.into()).word(quotient(up(to[2], 4))).word(quotient(to[1]));
        list.word(quotient(self.c))
    }
    /// The result of the convolution, or, of a step of one, the gradient of its image, which is a convolution by the window turned
    /// around. `false` where other kernels serve.
    pub(super) fn depthwise(
        &self,
        direction: Direction,
        [source, w, out]: [&Tensor; 3],
        bias: Option<&Tensor>,
    ) -> Result<bool> {
        let d = out.dtype();
        let Some((k, step)) = self.window(d, direction) else { return Ok(false) };
        let of_image = direction == Direction::Image;
        let sizes = if of_image { [self.output, self.input] } else { [self.input, self.output] };
        let pad = [1, 2].map(|i| if of_image { k - 1 - self.pad[i] } else { self.pad[i] });
        let at = [address(source)?, address(w)?, address_of(bias)?, address(out)?];
        let list = self.depthwise_args(at, sizes, pad, of_image).int(1).word(0);
        let (own, sum) = names(d)?;
        let which = Which("depthwise", 0, [d as u8, k as u8, step as u8, 0]);
        let kernel = || text(FILE, &format!("DEPTHWISE(k, {own}, {sum}, {k}, {step})"));
        let n = self.n * self.c * sizes[1][1] * up(sizes[1][2], 4);
        launch(ordinal(out.device())?, which, kernel, shape(n), list)?;
        Ok(true)
    }
    /// The gradient of the weight. `false` where other kernels serve.
    pub(super) fn depthwise_weight(&self, g: &Tensor, x: &Tensor, out: &Tensor) -> Result<bool> {
        let (d, device) = (out.dtype(), ordinal(out.device())?);
        let window = self.window(d, Direction::Weight);
        let (Some((k, step)), Some((_, wide))) = (window, sum_type(d)) else { return Ok(false) };
        // enough blocks for the device, and samples for each
        let parts = up(processors(device)? * 4, self.c).clamp(1, self.n);
        let sums = Tensor::empty_raw(&[parts, self.c * k * k], wide, out.device())?;
        let at = [address(x)?, 0, 0, address(g)?];
        let list = self.depthwise_args(at, [self.input, self.output], [self.pad[1], self.pad[2]], false);
        let list = list.int(parts).word(address(&sums)?);
        let (own, sum) = names(d)?;
        let which = Which("depthwise_weight", 0, [d as u8, k as u8, step as u8, 0]);
        let kernel = || text(FILE, &format!("DEPTHWISE_WEIGHT(k, {own}, {sum}, {k}, {step})"));
        let shape = Shape { blocks: (self.c * parts).clamp(1, 1 << 20) as u32, threads: 256 };
        launch(device, which, kernel, shape, list)?;
        let all = ops::sum(&sums, Some(&[0]), false, None)?;
        matrices::write(out, &ops::view(&all, out.sizes())?)?;
        Ok(true)
    }
}
