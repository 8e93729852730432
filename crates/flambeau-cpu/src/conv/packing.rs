//! Planes with their border, laid out so that each tap of neighbouring windows is a run of neighbours.

use crate::engine::room::room;
use crate::engine::span::{in_proportion, product_of};

/// Lanes that are computed at once.
pub(crate) const L: usize = 16;

/// A padded plane whose columns are sorted by their remainder by the stride. Rows end with slack, so that runs are always
/// whole vectors.
pub(crate) struct Packing {
    input: [usize; 3],
    pad: [usize; 3],
    /// Remainders of the columns.
    phases: usize,
    /// Padded rows of a depth slice.
    rows: usize,
    /// Elements per row and remainder.
    width: usize,
    /// Elements of all.
    pub len: usize,
    /// Where each tap starts, from a window's own place on.
    pub taps: Vec<usize>,
}
impl Packing {
    /// `None` where the copy is out of proportion to the planes that are read and written.
    pub fn new(
        input: [usize; 3],
        output: [usize; 3],
        kernel: [usize; 3],
        stride: [usize; 3],
        pad: [usize; 3],
        dilation: [usize; 3],
    ) -> Option<Self> {
        let phases = stride[2];
        // the last window may reach beyond the border
        let extent = [0, 1, 2].map(|d| {
            let reach = output[d].saturating_sub(1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1;
            reach.max(input[d] + 2 * pad[d])
        });
        let width = extent[2].div_ceil(phases) + L;
        let len = product_of(&[extent[0], extent[1], phases, width]);
        let count = product_of(&kernel);
        let moved = product_of(&input)?.saturating_add(product_of(&output)?);
        if !in_proportion(len, moved) || !in_proportion(count, moved) {
            return None;
        }
        let mut taps = room(count?);
        for kd in 0..kernel[0] {
            for kh in 0..kernel[1] {
                for kw in 0..kernel[2] {
                    let row = kd * dilation[0] * extent[1] + kh * dilation[1];
                    let shift = kw * dilation[2];
                    taps.push((row * phases + shift % phases) * width + shift / phases);
                }
            }
        }
        Some(Packing { input, pad, phases, rows: extent[1], width, len: len?, taps })
    }
    /// Where the padded row `h` of the depth `d` starts.
    #[inline(always)]
    pub fn row(&self, d: usize, h: usize) -> usize {
        (d * self.rows + h) * self.phases * self.width
    }
    /// Copies a plane into the middle of `to`, whose border stays.
    #[inline(always)]
    pub fn pack<T: Copy, U: Copy>(&self, x: &[T], to: &mut [U], f: impl Fn(T) -> U) {
        if x.is_empty() {
            return;
        }
        let [_, height, columns] = self.input;
        for (r, x) in x.chunks_exact(columns).enumerate() {
            let row = self.row(r / height + self.pad[0], r % height + self.pad[1]);
            let row = &mut to[row..row + self.phases * self.width];
            for phase in 0..self.phases.min(columns) {
                // the first column that lands in this part, and its place there
                let column = phase + self.pad[2];
                let at = column % self.phases * self.width + column / self.phases;
                let to = row[at..].iter_mut();
                let from = &x[phase..];
                match self.phases {
                    1 => to.zip(from).for_each(|(t, v)| *t = f(*v)),
                    2 => to.zip(from.iter().step_by(2)).for_each(|(t, v)| *t = f(*v)),
                    n => to.zip(from.iter().step_by(n)).for_each(|(t, v)| *t = f(*v)),
                }
            }
        }
    }
}
