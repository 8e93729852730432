//! Group norm.

use super::forms::{check_alike, check_mixed};
use super::{Operands, check_float, like, mask_len, opt, opt_mut, stat_dtype};
use crate::generated::args;
use crate::ops::operands::{done, plain, plain_opt};
use flambeau_core::backend::out::{Chosen, OutMeta};
use flambeau_core::tensor::geometry::{checked_numel, fmt_sizes};
use flambeau_core::{Result, Tensor, ensure, ops as core_ops};
use flambeau_cpu::norm::batch::NormShape;
use flambeau_cpu::norm::erased as kernels;

/// `_fused_group_norm`
pub fn fused_group_norm_shape(
    &args::FusedGroupNorm { input, weight, bias, n, c, hxw, group, .. }: &args::FusedGroupNorm,
) -> Result<[OutMeta; 3]> {
    shape(input, [weight, bias], [n, c, hxw], group)
}
fn shape(
    input: &Tensor,
    [weight, bias]: [Option<&Tensor>; 2],
    [n, c, hxw]: [i64; 3],
    group: i64,
) -> Result<[OutMeta; 3]> {
    ensure!(group > 0, Runtime, "Expected num groups to be greater than 0, got {group}");
    ensure!(c > 0, Runtime, "Expected number of channels to be greater than 0, got {c}");
    ensure!(
        hxw > 0 || input.numel() == 0 && hxw == 0,
        Runtime,
        "Expected HxW to be greater than 0, got {hxw}"
    );
    ensure!(
        c % group == 0,
        Runtime,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={group}",
        fmt_sizes(input.sizes())
    );
    for (t, name) in [(weight, "weight"), (bias, "bias")] {
        if let Some(t) = t {
            ensure!(
                t.sizes() == [c],
                Runtime,
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} and input of shape {}",
                fmt_sizes(t.sizes()),
                fmt_sizes(input.sizes())
            );
        }
    }
    // negative sizes are refused before the dtype is
    let stat = OutMeta::of(&[n, group], stat_dtype(input, weight), input.device());
    checked_numel(&stat.sizes)?;
    check_mixed(input, &[weight, bias])?;
    check_float(input, "GroupNormKernelImpl")?;
    check_alike(input, &[weight, bias])?;
    ensure!(
        n.saturating_mul(c).saturating_mul(hxw) == input.numel(),
        Runtime,
        "Expected X.numel() == N * C * HxW to be true, but got false.  (Could this error message be improved?  If so, please \
         report an enhancement request to PyTorch.)"
    );
    Ok([like(input), stat.clone(), stat])
}
/// `_fused_group_norm`
pub fn fused_group_norm_cpu(
    &args::FusedGroupNorm { input, weight, bias, n, c, hxw, group, eps }: &args::FusedGroupNorm,
    [y, mean, rstd]: [&Tensor; 3],
) -> Result<()> {
    let (x, w, b) = (plain(input)?, plain_opt(weight)?, plain_opt(bias)?);
    if x.numel() == 0 {
        return Ok(());
    }
    let mut o = Operands::default();
    let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
    let (iy, im, ir) = (o.write(y), o.write(mean), o.write(rstd));
    let a = o.hold()?;
    let r = kernels::group_norm(
        NormShape { n: n as usize, c: c as usize, l: hxw as usize },
        group as usize,
        a.any(ix)?,
        opt(&a, iw)?,
        opt(&a, ib)?,
        eps,
        a.any_mut(iy)?,
        a.any_mut(im)?,
        a.any_mut(ir)?,
    );
    done(r, "GroupNormKernelImpl", x.dtype())
}

/// `native_group_norm_backward`
pub fn native_group_norm_backward_shape(
    &args::NativeGroupNormBackward { grad_out, input, mean, rstd, weight, n, c, hxw, group, output_mask }: &args::NativeGroupNormBackward,
) -> Result<Chosen> {
    mask_len(output_mask, 3)?;
    shape(input, [weight, None], [n, c, hxw], group)?;
    ensure!(
        grad_out.sizes() == input.sizes()
            && grad_out.dtype() == input.dtype()
            && mean.numel() == n * group
            && rstd.numel() == n * group,
        Shape,
        "group_norm_backward: gradient or statistics do not fit the input"
    );
    let param = OutMeta::of(&[c], stat_dtype(input, weight), input.device());
    let all = [like(input), param.clone(), param];
    Ok(Chosen::new(all.into_iter().zip(output_mask).map(|(m, on)| on.then_some(m)), input))
}
/// `native_group_norm_backward`
pub fn native_group_norm_backward_cpu(
    &args::NativeGroupNormBackward { grad_out, input, mean, rstd, weight, n, c, hxw, group, .. }: &args::NativeGroupNormBackward,
    grads: &[Option<&Tensor>],
) -> Result<()> {
    let (g, x, w) = (plain(grad_out)?, plain(input)?, plain_opt(weight)?);
    let (mean, rstd) = (plain(mean)?, plain(rstd)?);
    if x.numel() == 0 {
        return grads[1..].iter().flatten().try_for_each(|t| core_ops::zero_(t));
    }
    let mut o = Operands::default();
    let (ig, ix, iw) = (o.read(&g), o.read(&x), o.read_opt(&w));
    let (im, ir) = (o.read(&mean), o.read(&rstd));
    let [ogx, ogw, ogb] = [0, 1, 2].map(|i| grads[i].map(|t| o.write(t)));
    let a = o.hold()?;
    let r = kernels::group_norm_backward(
        NormShape { n: n as usize, c: c as usize, l: hxw as usize },
        group as usize,
        a.any(ig)?,
        a.any(ix)?,
        opt(&a, iw)?,
        a.any(im)?,
        a.any(ir)?,
        opt_mut(&a, ogx)?,
        opt_mut(&a, ogw)?,
        opt_mut(&a, ogb)?,
    );
    done(r, "GroupNormBackwardKernelImpl", x.dtype())
}
