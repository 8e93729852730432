//! Convolutions of one to three dimensions and their gradients: by the maker's library where it has one for them (`library`); direct
//! sums where groups have few channels (`depthwise` for one by usual windows); products by matrix units that read the image where it lies (`implicit`); and for all else
//! columns of the image times the weight, by the products of matrices that there are. Sliding blocks of images are the same columns.

mod depthwise;
mod implicit;
mod library;

use super::blas::{added, product, unrounded};
use super::dense::{address_of, dense, quotient, text, up};
use super::reduction::sum_type;
use super::{Args, Which, address, by_the_cpu, element, launch, opaque, shape};
use crate::device::ordinal;
use crate::driver::Shape;
use crate::driver::convolutions::Direction;
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ops};
use flambeau_nn_functional::generated::{args, conv as rows, vision};
use flambeau_nn_functional::ops as nn;

const FILE: &str = "conv/conv.cuh";
/// Bytes of columns at a time.
const ROOM: i64 = 1 << 28;
/// Up to so many products for each output, groups are summed directly.
const DIRECT: i64 = 512;

/// Three numbers, the missing first ones being `v`; a single one may stand for all of `n`.
fn three(list: &[i64], n: usize, v: i64) -> [i64; 3] {
    std::array::from_fn(|d| match (d + n).checked_sub(3) {
        None => v,
        Some(i) => list.get(i).or(list.first()).copied().unwrap_or(v),
    })
}
/// The sizes of a convolution from `input` to `output`.
struct Conv {
    n: i64,
    c: i64,
    o: i64,
    groups: i64,
    input: [i64; 3],
    kernel: [i64; 3],
    stride: [i64; 3],
    pad: [i64; 3],
    dilation: [i64; 3],
    output: [i64; 3],
}
/// A part of it, with what memory it is about.
struct Part<'a> {
    image: &'a Tensor,
    columns: &'a Tensor,
    weight: Option<&'a Tensor>,
    /// Of each channel of what is written.
    bias: Option<&'a Tensor>,
    n: i64,
    c: i64,
    /// Elements of the columns between two samples, channels, taps.
    steps: [i64; 3],
}
impl Conv {
    fn new(x: &[i64], y: &[i64], w: &[i64], [stride, pad, dilation]: [&[i64]; 3], groups: i64) -> Conv {
        let n = w.len() - 2;
        Conv {
            n: x[0],
            c: x[1],
            o: y[1],
            groups,
            input: three(&x[2..], n, 1),
            kernel: three(&w[2..], n, 1),
            stride: three(stride, n, 1),
            pad: three(pad, n, 0),
            dilation: three(dilation, n, 1),
            output: three(&y[2..], n, 1),
        }
    }
    fn taps(&self) -> i64 {
        self.kernel.iter().product()
    }
    fn inside(&self) -> i64 {
        self.input.iter().product()
    }
    fn places(&self) -> i64 {
        self.output.iter().product()
    }
    /// Input and output channels of a group.
    fn of(&self) -> i64 {
        self.c / self.groups
    }
    fn to(&self) -> i64 {
        self.o / self.groups
    }
    /// Whether the columns are the image itself.
    fn pointwise(&self) -> bool {
        self.taps() == 1 && self.stride == [1; 3] && self.pad == [0; 3]
    }
    fn direct(&self) -> bool {
        self.groups > 1 && self.of().max(self.to()) * self.taps() <= DIRECT
    }
    /// Samples whose columns fit the room.
    fn samples(&self, size: i64) -> i64 {
        let each = self.of() * self.taps() * self.places() * size;
        (ROOM / each.max(1)).clamp(1, self.n.max(1))
    }
    /// Whether few places make one product over all samples better than one for each.
    fn joined(&self, samples: i64) -> bool {
        samples > 1 && self.places() < 256
    }
    fn args(&self, p: &Part) -> Result<Args> {
        let list = Args::new().word(address(p.image)?).word(address(p.columns)?);
        let list = list.word(address_of(p.weight)?).word(address_of(p.bias)?).int(p.n).int(p.c).int(self.o);
        let mut list =
            list.int(self.c * self.inside()).int(self.o * self.places()).int(self.of()).int(self.to());
        for v in [self.input, self.kernel, self.stride, self.pad, self.dilation, self.output] {
            list = v.iter().fold(list, |l, v| l.int(*v));
        }
        list = self.input.iter().chain(&self.output).fold(list, |l, v| l.word(quotient(*v)));
        Ok(p.steps.iter().fold(list, |l, v| l.int(*v)))
    }
    fn im2col(&self, p: &Part) -> Result<()> {
        let size = p.image.dtype().size();
        let text = || text(FILE, &format!("IM2COL(k, {})", opaque(size)));
        let n = p.n * p.c * self.places();
        launch(
            ordinal(p.image.device())?,
            Which("im2col", 0, [size as u8, 0, 0, 0]),
            text,
            shape(n),
            self.args(p)?,
        )
    }
    fn col2im(&self, p: &Part) -> Result<()> {
        let (own, sum) = names(p.image.dtype())?;
        let (columns, _) = names(p.columns.dtype())?;
        let text = || text(FILE, &format!("COL2IM(k, {own}, {sum}, {columns})"));
        let n = p.n * p.c * self.inside();
        let which = Which("col2im", 0, [p.image.dtype() as u8, p.columns.dtype() as u8, 0, 0]);
        launch(ordinal(p.image.device())?, which, text, shape(n), self.args(p)?)
    }
    /// A direct kernel: `f` of kernels/conv/conv.cuh.
    fn run(
        &self,
        f: &'static str,
        image: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        output: &Tensor,
    ) -> Result<()> {
        let (own, sum) = names(image.dtype())?;
        let p =
            Part { image, columns: output, weight: Some(weight), bias, n: self.n, c: self.c, steps: [0; 3] };
        let d = ordinal(image.device())?;
        let which = Which(f, 0, [image.dtype() as u8, 0, 0, 0]);
        if f == "conv_direct_weight" {
            let threads = super::dense::power(self.n * self.places(), 32, 256);
            let shape = Shape { blocks: weight.numel().clamp(1, 1 << 20) as u32, threads: threads as u32 };
            let text = || text(FILE, &format!("CONV_DIRECT_WEIGHT(k, {own}, {sum})"));
            return launch(d, which, text, shape, self.args(&p)?);
        }
        let n = if f == "conv_direct" { output.numel() } else { image.numel() };
        launch(
            d,
            which,
            || text(FILE, &format!("CONV_DIRECT(k, {f}, {own}, {sum})")),
            shape(n),
            self.args(&p)?,
        )
    }
    /// The channels of a group, of some samples.
    fn slice(
        t: &Tensor,
        [first, samples]: [i64; 2],
        [channel, channels]: [i64; 2],
        places: i64,
    ) -> Result<Tensor> {
        let all = t.sizes()[1];
        let offset = t.storage_offset() + (first * all + channel) * places;
        t.view_raw([samples, channels, places], [all * places, places, 1], offset)
    }
    /// The columns of a group of some samples: `[samples, of * taps, places]`, or `[of * taps, samples * places]` if joined.
    fn columns(&self, x: &Tensor, part: [i64; 2], group: i64, joined: bool) -> Result<Tensor> {
        let (samples, of, taps, places) = (part[1], self.of(), self.taps(), self.places());
        let image = Conv::slice(x, part, [group * of, of], self.inside())?;
        if self.pointwise() {
            return if joined { side_by_side(&image) } else { Ok(image) };
        }
        let (sizes, steps) = match joined {
            true => (vec![of * taps, samples * places], [places, taps * samples * places, samples * places]),
            false => (vec![samples, of * taps, places], [of * taps * places, taps * places, places]),
        };
        let columns = Tensor::empty_raw(&sizes, x.dtype(), x.device())?;
        let p = Part { image: &image, columns: &columns, weight: None, bias: None, n: samples, c: of, steps };
        self.im2col(&p)?;
        Ok(columns)
    }
    /// The weight of a group as a matrix.
    fn matrix(&self, w: &Tensor, group: i64) -> Result<Tensor> {
        let (rows, columns) = (self.to(), self.of() * self.taps());
        w.view_raw([rows, columns], [columns, 1], w.storage_offset() + group * rows * columns)
    }
    /// Calls `f` with samples and groups.
    fn parts(&self, size: i64, mut f: impl FnMut([i64; 2], i64) -> Result<()>) -> Result<()> {
        let each = self.samples(size);
        for group in 0..self.groups {
            for first in (0..self.n).step_by(each as usize) {
                f([first, each.min(self.n - first)], group)?;
            }
        }
        Ok(())
    }
    fn forward(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, out: &Tensor) -> Result<()> {
        if self.by_library(Direction::Forward, [x, w, out])? {
            return bias.map_or(Ok(()), |b| self.add_bias(out, b, self.places()));
        }
        if self.depthwise(Direction::Forward, [x, w, out], bias)? {
            return Ok(());
        }
        if self.direct() {
            return self.run("conv_direct", x, w, bias, out);
        }
        if self.implicit(false, x, w, bias, out)? {
            return Ok(());
        }
        // halves round once, the bias included
        let early = bias.filter(|b| super::dense::wide(b.dtype()) != b.dtype());
        self.parts(x.dtype().size() as i64, |part, group| {
            let (samples, to, places) = (part[1], self.to(), self.places());
            let joined = self.joined(samples);
            let columns = self.columns(x, part, group, joined)?;
            let y = Conv::slice(out, part, [group * to, to], places)?;
            let w = self.matrix(w, group)?;
            let b =
                early.map(|b| b.view_raw([to, 1], [1, 1], b.storage_offset() + group * to)).transpose()?;
            if !joined {
                let w = ops::expand(&w, &[samples, to, w.sizes()[1]], false)?;
                return multiplied(&w, &columns, b.as_ref(), &y);
            }
            let made = Tensor::empty_raw(&[to, samples * places], out.dtype(), out.device())?;
            multiplied(&w, &columns, b.as_ref(), &made)?;
            matrices::write(&y, &apart(&made, samples, places)?)
        })?;
        match bias.filter(|_| early.is_none()) {
            Some(b) => self.add_bias(out, b, self.places()),
            None => Ok(()),
        }
    }
    /// The gradient of the input, which is what a transposed convolution computes.
    fn input_grad(&self, g: &Tensor, w: &Tensor, bias: Option<&Tensor>, out: &Tensor) -> Result<()> {
        if self.by_library(Direction::Image, [out, w, g])? {
            return bias.map_or(Ok(()), |b| self.add_bias(out, b, self.inside()));
        }
        if self.depthwise(Direction::Image, [g, w, out], bias)? {
            return Ok(());
        }
        if self.direct() {
            return self.run("conv_direct_input", out, w, bias, g);
        }
        if self.implicit(true, g, w, bias, out)? {
            return Ok(());
        }
        self.parts(out.dtype().size() as i64, |part, group| {
            let (samples, of, to, taps, places) = (part[1], self.of(), self.to(), self.taps(), self.places());
            let joined = self.joined(samples);
            let image = Conv::slice(out, part, [group * of, of], self.inside())?;
            let w = ops::t(&self.matrix(w, group)?)?;
            let g = Conv::slice(g, part, [group * to, to], places)?;
            let b = bias.map(|b| b.view_raw([of, 1], [1, 1], b.storage_offset() + group * of)).transpose()?;
            // columns of halves are kept in float32, so that their sums round once
            let empty =
                |sizes: &[i64]| Tensor::empty_raw(sizes, super::dense::wide(out.dtype()), out.device());
            let (columns, steps) = if joined {
                let columns = empty(&[of * taps, samples * places])?;
                multiplied(&w, &side_by_side(&g)?, None, &columns)?;
                (columns, [places, taps * samples * places, samples * places])
            } else {
                let w = ops::expand(&w, &[samples, of * taps, to], false)?;
                if self.pointwise() {
                    return multiplied(&w, &g, b.as_ref(), &image);
                }
                let columns = empty(&[samples, of * taps, places])?;
                multiplied(&w, &g, None, &columns)?;
                (columns, [of * taps * places, taps * places, places])
            };
            let b = b.as_ref();
            self.col2im(&Part {
                image: &image,
                columns: &columns,
                weight: None,
                bias: b,
                n: samples,
                c: of,
                steps,
            })
        })
    }
    fn weight_grad(&self, g: &Tensor, x: &Tensor, out: &Tensor) -> Result<()> {
        if self.by_library(Direction::Weight, [x, out, g])? {
            return Ok(());
        }
        if self.depthwise_weight(g, x, out)? {
            return Ok(());
        }
        if self.direct() {
            return self.run("conv_direct_weight", x, out, None, g);
        }
        self.parts(x.dtype().size() as i64, |part, group| {
            let columns = self.columns(x, part, group, true)?;
            let g = side_by_side(&Conv::slice(g, part, [group * self.to(), self.to()], self.places())?)?;
            let to = self.matrix(out, group)?;
            if part[0] == 0 {
                return multiplied(&g, &ops::t(&columns)?, None, &to);
            }
            let more = Tensor::empty_raw(to.sizes(), to.dtype(), to.device())?;
            multiplied(&g, &ops::t(&columns)?, None, &more)?;
            ops::add_(&to, &more, Scalar::Int(1)).map(drop)
        })
    }
    /// Adds the bias to channels of so many places.
    fn add_bias(&self, out: &Tensor, b: &Tensor, places: i64) -> Result<()> {
        let (own, sum) = names(out.dtype())?;
        let list = Args::new().word(address(out)?).word(address(b)?).int(out.numel()).int(b.numel());
        let list = list.int(places).word(quotient(places));
        let which = Which("add_bias", 0, [out.dtype() as u8, 0, 0, 0]);
        let text = || text(FILE, &format!("ADD_BIAS(k, {own}, {sum})"));
        launch(ordinal(out.device())?, which, text, shape(up(out.numel(), 4)), list)
    }
}
/// `[n, c, l]` as `[c, n * l]`: a copy where there are several.
fn side_by_side(t: &Tensor) -> Result<Tensor> {
    let [n, c, l] = [0, 1, 2].map(|d| t.sizes()[d]);
    if n == 1 {
        return t.view_raw([c, l], [t.strides()[1], t.strides()[2]], t.storage_offset());
    }
    ops::view(&matrices::rows(&ops::transpose(t, 0, 1)?)?, &[c, n * l])
}
/// `[c, n * l]` as `[n, c, l]`.
fn apart(t: &Tensor, n: i64, l: i64) -> Result<Tensor> {
    ops::transpose(&ops::view(t, &[t.sizes()[0], n, l])?, 0, 1)
}
/// Elements and sums.
fn names(d: DType) -> Result<(&'static str, &'static str)> {
    match (element(d), sum_type(d)) {
        (Some(own), Some((sum, _))) => Ok((own, sum)),
        _ => Err(Error::not_implemented_for("convolution", d)),
    }
}
/// `out = a b`, and what is added to each row.
fn multiplied(a: &Tensor, b: &Tensor, add: Option<&Tensor>, out: &Tensor) -> Result<()> {
    let done = match add {
        None if a.dtype() != out.dtype() => unrounded(a, b, out)?,
        Some(c) => added(a, b, c, [Scalar::Int(1), Scalar::Int(1)], out)?,
        None => product(a, b, out)?,
    };
    if done { Ok(()) } else { Err(Error::not_implemented_for("convolution", out.dtype())) }
}
/// What convolutions are computed in.
fn taken(all: &[&Tensor]) -> bool {
    use DType::*;
    let d = all[0].dtype();
    matches!(d, I64 | F16 | BF16 | F32 | F64 | C64 | C128) && all.iter().all(|t| t.dtype() == d)
}
fn convolution(a: &args::Convolution, out: &Tensor) -> Result<()> {
    if !taken(&[a.input, a.weight]) {
        let all: Vec<&Tensor> = [a.input, a.weight].into_iter().chain(a.bias).collect();
        return by_the_cpu("convolution", &all, out, |t| {
            let (stride, extra) = (a.stride, a.output_padding);
            nn::convolution(
                &t[0],
                &t[1],
                t.get(2),
                stride,
                a.padding,
                a.dilation,
                a.transposed,
                extra,
                a.groups,
            )
        });
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, w) = (dense(a.input)?, dense(a.weight)?);
    let numbers = [a.stride, a.padding, a.dilation];
    let (from, to) = if a.transposed { (out, &x) } else { (&x, out) };
    let conv = Conv::new(from.sizes(), to.sizes(), w.sizes(), numbers, a.groups);
    let bias = a.bias.map(|b| super::dense::cast(b, out.dtype())).transpose()?;
    let bias = bias.as_ref();
    match x.numel() == 0 || w.numel() == 0 {
        true => match bias {
            Some(b) => {
                let n = out.sizes()[1];
                let sizes: Vec<i64> = (1..out.dim()).map(|d| if d == 1 { n } else { 1 }).collect();
                matrices::write(out, &ops::view(b, &sizes)?)
            }
            None => ops::zero_(out),
        },
        false if a.transposed => conv.input_grad(&x, &w, bias, out),
        false => conv.forward(&x, &w, bias, out),
    }
}
fn input_grad(a: &args::ConvolutionInputGrad, out: &Tensor) -> Result<()> {
    if !taken(&[a.grad_output, a.weight]) {
        return by_the_cpu("_convolution_input_grad", &[a.grad_output, a.weight], out, |t| {
            nn::convolution_input_grad(&t[0], &t[1], a.input_sizes, a.stride, a.padding, a.dilation, a.groups)
        });
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let (g, w) = (dense(a.grad_output)?, dense(a.weight)?);
    if g.numel() == 0 || w.numel() == 0 {
        return ops::zero_(out);
    }
    let numbers = [a.stride, a.padding, a.dilation];
    Conv::new(a.input_sizes, g.sizes(), w.sizes(), numbers, a.groups).input_grad(&g, &w, None, out)
}
fn weight_grad(a: &args::ConvolutionWeightGrad, out: &Tensor) -> Result<()> {
    if !taken(&[a.grad_output, a.input]) {
        return by_the_cpu("_convolution_weight_grad", &[a.grad_output, a.input], out, |t| {
            nn::convolution_weight_grad(
                &t[0],
                &t[1],
                a.weight_sizes,
                a.stride,
                a.padding,
                a.dilation,
                a.groups,
            )
        });
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let (g, x) = (dense(a.grad_output)?, dense(a.input)?);
    if g.numel() == 0 || x.numel() == 0 {
        return ops::zero_(out);
    }
    let numbers = [a.stride, a.padding, a.dilation];
    Conv::new(x.sizes(), g.sizes(), a.weight_sizes, numbers, a.groups).weight_grad(&g, &x, out)
}

/// Blocks of images of two dimensions: batch, channels, sizes, and the number of blocks along each.
fn blocks(image: [i64; 4], numbers: [&[i64]; 4]) -> Conv {
    let [kernel, dilation, padding, stride] = numbers;
    let [n, c, h, w] = image;
    let (k, s, p, d) =
        (three(kernel, 2, 1), three(stride, 2, 1), three(padding, 2, 0), three(dilation, 2, 1));
    let input = [1, h, w];
    let output = std::array::from_fn(|i| (input[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1).div_euclid(s[i]) + 1);
    Conv { n, c, o: c, groups: 1, input, kernel: k, stride: s, pad: p, dilation: d, output }
}
fn im2col(a: &args::Im2col, out: &Tensor) -> Result<()> {
    let d = a.self_.dtype();
    if !(d == DType::Bool || d.is_floating() || d.is_complex())
        || element(d).is_none()
        || d.size() == 1 && d != DType::Bool
    {
        return Err(Error::not_implemented_for("im2col_out_cpu", d));
    }
    let x = dense(a.self_)?;
    let batch = if x.dim() == 4 { x.sizes()[0] } else { 1 };
    let [c, h, w] = [3, 2, 1].map(|k| x.sizes()[x.dim() - k]);
    let conv = blocks([batch, c, h, w], [a.kernel_size, a.dilation, a.padding, a.stride]);
    if out.numel() == 0 {
        return Ok(());
    }
    let (taps, places) = (conv.taps(), conv.places());
    let steps = [c * taps * places, taps * places, places];
    conv.im2col(&Part { image: &x, columns: out, weight: None, bias: None, n: batch, c, steps })
}
fn col2im(a: &args::Col2im, out: &Tensor) -> Result<()> {
    let d = a.self_.dtype();
    if !(d.is_floating() || d.is_complex()) || sum_type(d).is_none() {
        return Err(Error::not_implemented_for("col2im_out_cpu", d));
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let x = dense(a.self_)?;
    let batch = if out.dim() == 4 { out.sizes()[0] } else { 1 };
    let [c, h, w] = [3, 2, 1].map(|k| out.sizes()[out.dim() - k]);
    let conv = blocks([batch, c, h, w], [a.kernel_size, a.dilation, a.padding, a.stride]);
    let (taps, places) = (conv.taps(), conv.places());
    let steps = [c * taps * places, taps * places, places];
    conv.col2im(&Part { image: out, columns: &x, weight: None, bias: None, n: batch, c, steps })
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::CONVOLUTION_KERNEL.register(Key::Cuda, convolution);
    rows::CONVOLUTION_INPUT_GRAD_KERNEL.register(Key::Cuda, input_grad);
    rows::CONVOLUTION_WEIGHT_GRAD_KERNEL.register(Key::Cuda, weight_grad);
    vision::IM2COL_KERNEL.register(Key::Cuda, im2col);
    vision::COL2IM_KERNEL.register(Key::Cuda, col2im);
}
