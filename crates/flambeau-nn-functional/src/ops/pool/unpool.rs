//! The inverse of max pooling.

use crate::ops::pool::options;
use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes};
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, bail, ensure};

/// "(2, 3)"
fn tuple(v: &[i64]) -> String {
    let list = v.iter().map(|d| d.to_string()).collect::<Vec<_>>().join(", ");
    format!("({list}{})", if v.len() == 1 { "," } else { "" })
}

/// `max_unpool1d` to `max_unpool3d`
pub(super) fn unpool(
    name: &str,
    n: usize,
    input: &Tensor,
    indices: &Tensor,
    kernel: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    output_size: Option<&[i64]>,
) -> Result<Tensor> {
    let x = input.sizes();
    // sizes are asked for first, as many as the kernel has
    if kernel.len() != 1 && kernel.len() != n {
        let many = |v: &[i64]| if v.len() == 1 { vec![v[0]; n] } else { v.to_vec() };
        let (s, p) = (many(stride.filter(|s| !s.is_empty()).unwrap_or(kernel)), many(padding));
        let enough = s.len().min(p.len()).min(x.len()) >= kernel.len();
        ensure!(enough, Index, "tuple index out of range");
        unpooled(x, kernel, &s, &p, output_size)?;
    }
    let [k, s, p, _] = options(name, n, kernel, stride, padding, &[1])?;
    ensure!(x.len() >= n, Index, "tuple index out of range");
    let out = unpooled(x, &k, &s, &p, output_size)?;
    // one dimension is unpooled as two
    let as_ = n.max(2);
    let rank = x.len() + as_ - n;
    ensure!(
        rank == as_ + 1 || rank == as_ + 2,
        Runtime,
        "Input to max_unpooling{as_}d should be a {}d or {}d Tensor, but got a tensor with {rank} dimensions.",
        as_ + 1,
        as_ + 2
    );
    if !input.dtype().is_floating() {
        // planes whose channels lie together have a loop of their own in PyTorch
        let last =
            as_ == 2 && !input.is_contiguous() && input.is_contiguous_format(MemoryFormat::ChannelsLast);
        let label = format!("max_unpool{as_}d{}", if last { "_channels_last" } else { "" });
        return Err(Error::not_implemented_for(&label, input.dtype()));
    }
    ensure!(
        n != 3 || s.iter().all(|s| *s > 0),
        Runtime,
        "strides should be greater than zero, but got stride: {}",
        fmt_sizes(&s)
    );
    ensure!(
        indices.dtype() == DType::I64,
        Runtime,
        "elements in indices should be type int64 but got: {}",
        indices.dtype().scalar_type_name()
    );
    let as_planes = |sizes: &[i64]| fmt_sizes(&[sizes, &[1][..as_ - n]].concat());
    ensure!(
        input.sizes() == indices.sizes(),
        Runtime,
        "Expected shape of indices to be same as that of the input tensor ({}) but got indices tensor with shape: {}",
        as_planes(x),
        as_planes(indices.sizes())
    );
    let mut sizes = SizeVec::from_slice(&x[..x.len() - n]);
    sizes.extend_from_slice(&out);
    crate::ops::plane_unpool(input, indices, &sizes, n as i64)
}
/// The spatial sizes: those that are asked for, which come before all other checks, or the smallest that pooling makes the
/// input of.
fn unpooled(x: &[i64], k: &[i64], s: &[i64], p: &[i64], output_size: Option<&[i64]>) -> Result<Vec<i64>> {
    let n = k.len();
    let first = x.len() - n;
    // what does not fit is too large for any storage, which the allocation says
    let default: Vec<i64> = (0..n)
        .map(|d| {
            let end = (x[first + d] - 1).saturating_mul(s[d]).saturating_add(k[d]);
            end.saturating_sub(p[d].saturating_mul(2))
        })
        .collect();
    let size = match output_size {
        None => default,
        Some(o) => {
            let o = if o.len() == n + 2 { &o[2..] } else { o };
            ensure!(
                o.len() == n,
                Value,
                "output_size should be a sequence containing {n} or {} elements, but it has a length of '{}'",
                n + 2,
                o.len()
            );
            for d in 0..n {
                let (low, high) = (default[d].saturating_sub(s[d]), default[d].saturating_add(s[d]));
                ensure!(
                    low < o[d] && o[d] < high,
                    Value,
                    "invalid output_size \"{}\" (dim {d} must be between {low} and {high})",
                    tuple(o)
                );
            }
            o.to_vec()
        }
    };
    if let Some((d, s)) = size.iter().enumerate().find(|(_, s)| **s < 0) {
        bail!(
            Value,
            "max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={s}"
        );
    }
    Ok(size)
}
