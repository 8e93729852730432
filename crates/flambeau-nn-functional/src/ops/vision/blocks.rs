//! Sliding blocks as columns, and back.

use crate::generated::args;
use crate::ops::operands::{done, per_dim, plain};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{fmt_sizes, size_mul, wrap_dim_strict};
use flambeau_core::{Result, Tensor, bail, ensure, ops as core};
use flambeau_cpu::vision::blocks::{Blocks, gather, scatter};

/// A list is of two numbers; one stands for both.
fn two(v: &[i64], what: &str) -> Result<()> {
    ensure!(matches!(v.len(), 1 | 2), Runtime, "It is expected {what} equals to 2, but got size {}", v.len());
    Ok(())
}
fn pair(v: &[i64], what: &str, least: i64) -> Result<[i64; 2]> {
    let whole = if what == "kernel" { "kernel_size" } else { what };
    two(v, whole)?;
    let v = per_dim(v, 2, "im2col", whole)?;
    let (what, part, text) = match what {
        "padding" => ("padding", "pad", "non-negative"),
        "kernel" => ("kernel size", "kernel", "greater than zero"),
        _ => (what, what, "greater than zero"),
    };
    ensure!(
        v.iter().all(|d| *d >= least),
        Runtime,
        "{what} should be {text}, but got {part}_height: {} {part}_width: {}",
        v[0],
        v[1]
    );
    Ok([v[0], v[1]])
}

/// The kernel's numbers, of which there are two each.
fn pairs(kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<[[i64; 2]; 4]> {
    for (v, what) in
        [(kernel, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride")]
    {
        two(v, what)?;
    }
    let (kernel, dilation) = (pair(kernel, "kernel", 1)?, pair(dilation, "dilation", 1)?);
    Ok([kernel, dilation, pair(padding, "padding", 0)?, pair(stride, "stride", 1)?])
}
fn blocks(
    image: [i64; 2],
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
    of_output: bool,
) -> Result<Blocks> {
    let [kernel, dilation, padding, stride] = pairs(kernel, dilation, padding, stride)?;
    let mut n = [0i64; 2];
    let mut sane = true;
    for d in 0..2 {
        let end = image[d].saturating_add(padding[d].saturating_mul(2));
        let reach = dilation[d].saturating_mul(kernel[d] - 1).saturating_add(1);
        n[d] = end.saturating_sub(reach).div_euclid(stride[d]).saturating_add(1);
        // positions are computed as `block * stride + tap * dilation - padding`
        sane &= [end, reach, padding[d]].iter().all(|v| *v < 1 << 61);
    }
    if !of_output && (n[0] < 1 || n[1] < 1) {
        let t = |v: [i64; 2]| format!("({}, {})", v[0], v[1]);
        let sizes = format!("kernel_size={}, dilation={}, padding={}", t(kernel), t(dilation), t(padding));
        bail!(
            Runtime,
            "Given input with spatial size {}, {sizes}, calculated shape of the array of sliding blocks as {}, but its components must be at least one.",
            t(image),
            t(n)
        );
    }
    ensure!(sane, Runtime, "sliding blocks: the padded image is too large");
    Ok(Blocks { kernel, dilation, padding, stride, image, blocks: n })
}

/// `im2col`
pub fn im2col_shape(
    &args::Im2col { self_, kernel_size, dilation, padding, stride }: &args::Im2col,
) -> Result<OutMeta> {
    let x = self_.sizes();
    let batch = usize::from(x.len() == 4);
    pairs(kernel_size, dilation, padding, stride)?;
    ensure!(
        (x.len() == 3 || x.len() == 4) && x[batch..].iter().all(|d| *d != 0),
        Runtime,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {}",
        fmt_sizes(x)
    );
    let b = blocks([x[batch + 1], x[batch + 2]], kernel_size, dilation, padding, stride, false)?;
    let mut sizes = x[..batch].to_vec();
    let taps = size_mul(b.kernel[0], b.kernel[1])?;
    sizes.extend([size_mul(x[batch], taps)?, size_mul(b.blocks[0], b.blocks[1])?]);
    Ok(OutMeta::of(&sizes, self_.dtype(), self_.device()))
}
/// `im2col`
pub fn im2col_cpu(
    &args::Im2col { self_, kernel_size, dilation, padding, stride }: &args::Im2col,
    out: &Tensor,
) -> Result<()> {
    let x = plain(self_)?;
    let n = x.dim();
    let b = blocks([x.sizes()[n - 2], x.sizes()[n - 1]], kernel_size, dilation, padding, stride, false)?;
    core::zero_(out)?;
    let a = Access::new(&[&x], &[out])?;
    done(gather(&b, a.any(0)?, a.any_mut(0)?), "im2col_out_cpu", x.dtype())
}
/// `col2im`
pub fn col2im_shape(
    &args::Col2im { self_, output_size, kernel_size, dilation, padding, stride }: &args::Col2im,
) -> Result<OutMeta> {
    let x = self_.sizes();
    let image = pair(output_size, "output_size", i64::MIN)?;
    pairs(kernel_size, dilation, padding, stride)?;
    let batch = usize::from(x.len() == 3);
    ensure!(
        (x.len() == 2 || x.len() == 3) && x[batch..].iter().all(|d| *d != 0),
        Runtime,
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {}",
        fmt_sizes(x)
    );
    let kernel = pair(kernel_size, "kernel", 1)?;
    let taps = size_mul(kernel[0], kernel[1])?;
    ensure!(
        x[batch] % taps == 0,
        Runtime,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={} and kernel_size=({}, {}).",
        x[batch],
        kernel[0],
        kernel[1]
    );
    let b = blocks(image, kernel_size, dilation, padding, stride, true)?;
    let want = b.blocks[0].saturating_mul(b.blocks[1]);
    let t = |v: [i64; 2]| format!("({}, {})", v[0], v[1]);
    let given = format!(
        "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}",
        t(image),
        t(b.kernel),
        t(b.dilation),
        t(b.padding),
        t(b.stride)
    );
    ensure!(
        x[batch + 1] == want,
        Runtime,
        "{given}, expected size of input's dimension 2 to match the calculated number of sliding blocks {} * {} = {want}, but got input.size(2)={}.",
        b.blocks[0],
        b.blocks[1],
        x[batch + 1]
    );
    ensure!(
        b.blocks.iter().all(|n| *n > 0),
        Runtime,
        "{given}, calculated shape of the array of sliding blocks as {}, which is too small (non-positive)",
        t(b.blocks)
    );
    let mut sizes = x[..batch].to_vec();
    sizes.extend([x[batch] / taps, image[0], image[1]]);
    Ok(OutMeta::of(&sizes, self_.dtype(), self_.device()))
}
/// `col2im`
pub fn col2im_cpu(
    &args::Col2im { self_, output_size, kernel_size, dilation, padding, stride }: &args::Col2im,
    out: &Tensor,
) -> Result<()> {
    let x = plain(self_)?;
    let image = pair(output_size, "output_size", i64::MIN)?;
    let b = blocks(image, kernel_size, dilation, padding, stride, true)?;
    core::zero_(out)?;
    let a = Access::new(&[&x], &[out])?;
    done(scatter(&b, a.any(0)?, a.any_mut(0)?), "col2im_out_cpu", x.dtype())
}
/// `torch.nn.functional.unfold`
pub fn unfold(
    input: &Tensor,
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    pairs(kernel_size, dilation, padding, stride)?;
    // PyTorch reads the sizes before it checks how many there are
    for d in 0..3 {
        wrap_dim_strict(d, input.dim())?;
    }
    crate::ops::im2col(input, kernel_size, dilation, padding, stride)
}
/// `torch.nn.functional.fold`
pub fn fold(
    input: &Tensor,
    output_size: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    crate::ops::col2im(input, output_size, kernel_size, dilation, padding, stride)
}
