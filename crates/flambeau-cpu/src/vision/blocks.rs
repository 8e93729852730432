//! Sliding blocks of images as columns, and back.

use crate::{Any, AnyMut, with_dtype};

/// Kernel, dilation, padding, stride of both dimensions, and the number of blocks along each.
pub struct Blocks {
    /// Sizes of the kernel.
    pub kernel: [i64; 2],
    /// Steps between its taps.
    pub dilation: [i64; 2],
    /// Added on each side.
    pub padding: [i64; 2],
    /// Steps between blocks.
    pub stride: [i64; 2],
    /// Sizes of the image.
    pub image: [i64; 2],
    /// Number of blocks.
    pub blocks: [i64; 2],
}

/// Calls `f(column element, image element)` for all pairs inside the images.
fn each(b: &Blocks, planes: usize, f: &mut impl FnMut(usize, usize)) {
    let [kh, kw] = b.kernel;
    let [bh, bw] = b.blocks;
    let [ih, iw] = b.image;
    let taps = (kh * kw) as usize;
    for p in 0..planes {
        for tap in 0..taps as i64 {
            let (ty, tx) = (tap / kw * b.dilation[0], tap % kw * b.dilation[1]);
            let column = (p * taps + tap as usize) * (bh * bw) as usize;
            for y in 0..bh {
                let iy = y * b.stride[0] - b.padding[0] + ty;
                if !(0..ih).contains(&iy) {
                    continue;
                }
                for x in 0..bw {
                    let ix = x * b.stride[1] - b.padding[1] + tx;
                    if (0..iw).contains(&ix) {
                        f(column + (y * bw + x) as usize, p * (ih * iw) as usize + (iy * iw + ix) as usize);
                    }
                }
            }
        }
    }
}
fn planes(b: &Blocks, images: usize) -> usize {
    images / (b.image[0] * b.image[1]) as usize
}
/// Columns from images; `out` is zero before.
pub fn gather(b: &Blocks, x: Any, out: AnyMut) -> Option<()> {
    with_dtype!(x.dtype(), T in [BOOL, HALF, FLOAT, COMPLEX] => {
        let (x, out) = (x.get::<T>(), out.get::<T>());
        each(b, planes(b, x.len()), &mut |c, i| out[c] = x[i]);
        Some(())
    }, else None)
}
/// Images from columns; `out` is zero before.
pub fn scatter(b: &Blocks, x: Any, out: AnyMut) -> Option<()> {
    with_dtype!(x.dtype(), T in [HALF, FLOAT, COMPLEX] => {
        let (x, out) = (x.get::<T>(), out.get::<T>());
        each(b, planes(b, out.len()), &mut |c, i| out[i] += x[c]);
        Some(())
    }, else None)
}
