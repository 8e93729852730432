//! Sizes of a convolution, checked once: fields are private to this crate, so whoever has a shape has one whose taps all
//! lie in the padded input, and whose lengths fit in 64 bits.

use crate::engine::span::{product, product_of};

/// The sizes of a convolution. Spatial dimensions are held as three (depth, height, width); missing leading ones are 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Batch.
    pub(crate) n: usize,
    /// Input channels.
    pub(crate) c: usize,
    /// Output channels.
    pub(crate) o: usize,
    /// Groups.
    pub(crate) groups: usize,
    /// Input extent.
    pub(crate) input: [usize; 3],
    /// Kernel extent.
    pub(crate) kernel: [usize; 3],
    /// Stride.
    pub(crate) stride: [usize; 3],
    /// Zero padding on both sides.
    pub(crate) pad: [usize; 3],
    /// Dilation.
    pub(crate) dilation: [usize; 3],
    /// Output extent.
    pub(crate) output: [usize; 3],
}

pub(crate) fn three(v: &[usize], fill: usize) -> [usize; 3] {
    let mut r = [fill; 3];
    r[3 - v.len()..].copy_from_slice(v);
    r
}

impl ConvShape {
    /// A convolution over 1 to 3 spatial dimensions.
    ///
    /// # Errors
    /// A text if the number of dimensions differ, channels do not divide into groups, a stride or dilation is 0, or
    /// the kernel does not fit.
    pub fn new(
        (n, c, o, groups): (usize, usize, usize, usize),
        input: &[usize],
        kernel: &[usize],
        stride: &[usize],
        pad: &[usize],
        dilation: &[usize],
    ) -> Result<Self, String> {
        let mut s = Self::unsized_output((n, c, o, groups), input, kernel, stride, pad, dilation)?;
        for d in 0..3 {
            let (reach, padded) = s.extents(d).ok_or_else(wraps)?;
            if padded < reach {
                return Err(format!(
                    "Kernel size can't be greater than actual input size (padded input {padded}, kernel reach {reach})"
                ));
            }
            s.output[d] = (padded - reach) / s.stride[d] + 1;
        }
        s.proven()
    }

    /// A convolution of known extents: `output` may be smaller than the largest that the input has room for, as where several
    /// inputs give the same output.
    ///
    /// # Errors
    /// As [`ConvShape::new`]; also if the output is larger.
    pub fn between(
        channels: (usize, usize, usize, usize),
        input: &[usize],
        output: &[usize],
        kernel: &[usize],
        stride: &[usize],
        pad: &[usize],
        dilation: &[usize],
    ) -> Result<Self, String> {
        let mut s = Self::unsized_output(channels, input, kernel, stride, pad, dilation)?;
        if output.len() != input.len() {
            return Err("convolution: output and input differ in their spatial dimensions".into());
        }
        s.output = three(output, 1);
        for d in 0..3 {
            let (reach, padded) = s.extents(d).ok_or_else(wraps)?;
            let most = padded.checked_sub(reach).map_or(0, |room| room / s.stride[d] + 1);
            if s.output[d] > most {
                return Err(format!("convolution: an output of {} where {most} fit", s.output[d]));
            }
        }
        s.proven()
    }
    /// Reach of the kernel and padded size, if they fit.
    fn extents(&self, d: usize) -> Option<(usize, usize)> {
        let reach = self.dilation[d].checked_mul(self.kernel[d].checked_sub(1)?)?.checked_add(1)?;
        let padded = self.pad[d].checked_mul(2)?.checked_add(self.input[d])?;
        // positions are signed numbers in the kernels
        (reach <= isize::MAX as usize && padded <= isize::MAX as usize).then_some((reach, padded))
    }
    /// With lengths that fit.
    fn proven(mut self) -> Result<Self, String> {
        let [i0, i1, i2] = self.input;
        let [o0, o1, o2] = self.output;
        let [k0, k1, k2] = self.kernel;
        let lens = [
            product_of(&[self.n, self.c, i0, i1, i2]),
            product_of(&[self.n, self.o, o0, o1, o2]),
            product_of(&[self.o, self.c / self.groups, k0, k1, k2]),
            product_of(&[i0, i1, i2]),
            product_of(&[o0, o1, o2]),
            product_of(&[k0, k1, k2]),
        ];
        if lens.contains(&None) {
            return Err(wraps());
        }
        // The step to a second result that there is not: kernels lay their copies out by it.
        for d in 0..3 {
            self.stride[d] = self.stride[d].min(self.input[d] + 2 * self.pad[d]).max(1);
        }
        Ok(self)
    }

    /// The convolution whose input gradient is the transposed convolution of `x [n, o, x_size...]` with the weight
    /// `[o, c / groups, kernel...]`. Its `input` is the result's extent.
    ///
    /// # Errors
    /// As [`ConvShape::new`]; also if `output_pad` is not below the larger of stride and dilation.
    pub fn transposed(
        (n, c, o, groups): (usize, usize, usize, usize),
        x_size: &[usize],
        kernel: &[usize],
        stride: &[usize],
        pad: &[usize],
        output_pad: &[usize],
        dilation: &[usize],
    ) -> Result<Self, String> {
        let mut s = Self::unsized_output((n, c, o, groups), x_size, kernel, stride, pad, dilation)?;
        if output_pad.len() != x_size.len() {
            return Err("transposed convolution: output padding has the wrong number of dimensions".into());
        }
        let extra = three(output_pad, 0);
        s.output = s.input;
        for d in 0..3 {
            if extra[d] >= s.stride[d].max(s.dilation[d]) && extra[d] > 0 {
                return Err(format!(
                    "output padding must be smaller than either stride or dilation, but got output_padding {}, stride {}, dilation {}",
                    extra[d], s.stride[d], s.dilation[d]
                ));
            }
            if s.output[d] == 0 {
                return Err("transposed convolution: empty input extent".into());
            }
            let (reach, _) = s.extents(d).ok_or_else(wraps)?;
            let steps = (s.output[d] - 1).checked_mul(s.stride[d]);
            let full = steps.and_then(|n| n.checked_add(reach)?.checked_add(extra[d])).ok_or_else(wraps)?;
            if full <= 2 * s.pad[d] {
                return Err(format!("transposed convolution: output size of dimension {d} is too small"));
            }
            s.input[d] = full - 2 * s.pad[d];
            s.extents(d).ok_or_else(wraps)?;
        }
        s.proven()
    }

    fn unsized_output(
        (n, c, o, groups): (usize, usize, usize, usize),
        input: &[usize],
        kernel: &[usize],
        stride: &[usize],
        pad: &[usize],
        dilation: &[usize],
    ) -> Result<Self, String> {
        let rank = input.len();
        if !(1..=3).contains(&rank) || [kernel, stride, pad, dilation].iter().any(|v| v.len() != rank) {
            return Err(format!(
                "convolution: expected 1 to 3 spatial dimensions, the same everywhere, got {rank}"
            ));
        }
        if groups == 0 || c % groups != 0 || o % groups != 0 {
            return Err(format!(
                "convolution: {c} input and {o} output channels do not divide into {groups} groups"
            ));
        }
        if stride.contains(&0) || dilation.contains(&0) || kernel.contains(&0) {
            return Err("convolution: stride, dilation and kernel size must be positive".into());
        }
        Ok(ConvShape {
            n,
            c,
            o,
            groups,
            input: three(input, 1),
            kernel: three(kernel, 1),
            stride: three(stride, 1),
            pad: three(pad, 0),
            dilation: three(dilation, 1),
            output: [0; 3],
        })
    }

    /// Elements of the kernel of one channel pair.
    pub fn taps(&self) -> usize {
        product(self.kernel)
    }
    /// Positions of one output plane.
    pub fn out_plane(&self) -> usize {
        product(self.output)
    }
    /// Positions of one input plane.
    pub fn in_plane(&self) -> usize {
        product(self.input)
    }
    /// Elements of the input.
    pub fn x_len(&self) -> usize {
        product([self.n, self.c, self.in_plane()])
    }
    /// Elements of the output.
    pub fn y_len(&self) -> usize {
        product([self.n, self.o, self.out_plane()])
    }
    /// Elements of the weight.
    pub fn w_len(&self) -> usize {
        product([self.o, self.c / self.groups, self.taps()])
    }
    /// A kernel of one tap, stride 1, no padding: a plain matrix product.
    pub(super) fn pointwise(&self) -> bool {
        self.taps() == 1 && self.stride == [1; 3] && self.pad == [0; 3] && self.input == self.output
    }
    /// Of a kernel of one tap with a stride and no padding: the plain product over what the results see.
    pub(super) fn thinned(&self) -> Option<ConvShape> {
        let strided = self.taps() == 1 && self.pad == [0; 3] && self.stride != [1; 3];
        strided.then(|| ConvShape { input: self.output, stride: [1; 3], ..self.clone() })
    }
    /// Elements that all planes together are read and written with: what scratch memory is measured by.
    pub(super) fn moved(&self) -> usize {
        self.in_plane().saturating_add(self.out_plane()).saturating_add(self.taps())
    }
    /// One input channel per group.
    pub(super) fn depthwise(&self) -> bool {
        self.groups == self.c && self.c > 1 && self.o == self.c
    }
}

#[cold]
fn wraps() -> String {
    "convolution: a size does not fit in 64 bits".into()
}
