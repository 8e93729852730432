//! What pooling checks of its arguments, with PyTorch's texts in PyTorch's order.

use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes};
use flambeau_core::{Error, Result, Tensor, bail, ensure};

/// "1x2x3"
pub(super) fn by(v: &[i64]) -> String {
    v.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("x")
}

/// The inputs of functions over one dimension that PyTorch makes of two.
pub(super) fn check_rank_1d(input: &Tensor, name: &str) -> Result<()> {
    ensure!(
        matches!(input.dim(), 2 | 3),
        Runtime,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for {name})",
        input.dim()
    );
    Ok(())
}

/// What is taken of each window: PyTorch's checks differ.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Take {
    Largest,
    Mean,
    /// The gradient of the mean, which checks less.
    MeanBackward,
}

/// Output sizes of fixed windows, with PyTorch's checks in its order: the length along each dimension
/// (`pooling_output_shape`), then what `pool2d_shape_check` and `pool3d_shape_check` look at. One dimension is the second
/// of two.
pub(super) fn windows(
    sizes: &[i64],
    kernel: &[i64],
    stride: &[i64],
    pad: &[i64],
    dilation: &[i64],
    ceil: bool,
    take: Take,
) -> Result<SizeVec> {
    let n = kernel.len();
    ensure!((1..=3).contains(&n), Shape, "pooling: expected 1 to 3 spatial dimensions, got {n}");
    ensure!(
        stride.len() == n && pad.len() == n && dilation.len() == n,
        Shape,
        "pooling: one stride, padding and dilation per spatial dimension"
    );
    let given = [kernel, stride, pad, dilation];
    ensure!(
        given.iter().all(|l| l.iter().all(|v| i32::try_from(*v).is_ok())),
        Runtime,
        "value cannot be converted to type int without overflow"
    );
    match n {
        2 if take == Take::Largest => ensure!(
            matches!(sizes.len(), 3 | 4),
            Runtime,
            "non-empty 3D or 4D (batch mode) tensor expected for input"
        ),
        3 => check_rank_3d(sizes)?,
        _ => {}
    }
    // of fewer dimensions than windows have, the missing ones are found further below
    let first = sizes.len().saturating_sub(n);
    let mut out = SizeVec::from_slice(&sizes[..first]);
    for d in 0..n {
        ensure!(stride[d] != 0, Runtime, "stride should not be zero");
        ensure!(pad[d] >= 0, Runtime, "pad must be non-negative, but got pad: {}", pad[d]);
        ensure!(
            pad[d] <= (dilation[d] * (kernel[d] - 1) + 1) / 2,
            Runtime,
            "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
            pad[d],
            kernel[d],
            dilation[d]
        );
        // an expanded input may be as long as any number; the rest fits in 32 bits
        let size = sizes.get(first + d).copied().unwrap_or(1);
        let room = size.saturating_add(2 * pad[d]) - dilation[d] * (kernel[d] - 1) - 1;
        let mut o =
            room.saturating_add(if ceil { stride[d] - 1 } else { 0 }).div_euclid(stride[d]).saturating_add(1);
        if ceil && (o - 1).saturating_mul(stride[d]) >= size.saturating_add(pad[d]) {
            o -= 1;
        }
        out.push(o);
    }
    let positive = |v: &[i64], what: &str, short: &str, other: i64| -> Result<()> {
        ensure!(
            v.iter().all(|k| *k > 0),
            Runtime,
            "{what} should be greater than zero, but got {}",
            named(&planar(v, other), short)
        );
        Ok(())
    };
    positive(kernel, "kernel size", "k", 1)?;
    positive(stride, "stride", "d", 1)?;
    positive(dilation, "dilation", "dilation", 1)?;
    check_sizes(sizes, n, take)?;
    if n == 3 && take == Take::Mean {
        let image = &sizes[first..];
        ensure!(
            image.iter().zip(kernel).all(|(i, k)| i >= k),
            Runtime,
            "input image ({}) smaller than kernel size ({})",
            named(image, ""),
            named(kernel, "k")
        );
    }
    if kernel.iter().zip(pad).any(|(k, p)| k / 2 < *p) {
        let (k, p) = (planar(kernel, 1), planar(pad, 0));
        let list = |what: &str, between: &str, v: &[i64], end: &str| {
            // PyTorch names the width before the height
            let last = v.len() - 1;
            let depth = if last == 2 { format!("{what}T{between}{}{end}", v[0]) } else { String::new() };
            format!("{depth}{what}W{between}{}{end}{what}H{between}{}", v[last], v[last - 1])
        };
        let told = if n == 3 {
            format!("{} {}", list("k", ": ", &k, " "), list("pad", ": ", &p, " "))
        } else {
            format!("{}, {}", list("pad", " = ", &p, ", "), list("k", " = ", &k, ", "))
        };
        bail!(Runtime, "pad should be smaller than or equal to half of kernel size, but got {told}");
    }
    let one: &[i64] = if n == 1 { &[1] } else { &[] };
    ensure!(
        out[first..].iter().all(|o| *o >= 1),
        Runtime,
        "Given input size: ({}). Calculated output size: ({}). Output size is too small",
        by(&[&[sizes[first - 1]], one, &sizes[first..]].concat()),
        by(&[&[sizes[first - 1]], one, &out[first..]]
            .concat()
            .iter()
            .map(|d| (*d).max(0))
            .collect::<Vec<_>>())
    );
    Ok(out)
}
pub(super) fn check_rank_3d(sizes: &[i64]) -> Result<()> {
    ensure!(
        matches!(sizes.len(), 4 | 5),
        Runtime,
        "non-empty 4D or 5D (batch mode) tensor expected for input"
    );
    Ok(())
}
/// The numbers as PyTorch has them, which makes two dimensions of one: `other` is the first.
pub(super) fn planar(v: &[i64], other: i64) -> SizeVec {
    if v.len() == 1 { SizeVec::from_slice(&[other, v[0]]) } else { SizeVec::from_slice(v) }
}
/// The sizes as PyTorch has them, with a dimension of one before the last where there is only one to pool over.
pub(super) fn planar_sizes(sizes: &[i64], n: usize) -> SizeVec {
    let mut all = SizeVec::from_slice(sizes);
    if n == 1 && !all.is_empty() {
        all.insert(all.len() - 1, 1);
    }
    all
}
/// The number of dimensions, and that none is empty but for the batch.
pub(super) fn check_sizes(sizes: &[i64], n: usize, take: Take) -> Result<()> {
    if n == 3 {
        let batch = usize::from(sizes.len() == 5);
        let name = match take {
            Take::Largest => "max_pool3d_with_indices_out_cpu_template()",
            _ => "avg_pool3d()",
        };
        let empty = (batch..sizes.len()).find(|d| sizes[*d] == 0);
        ensure!(
            empty.is_none(),
            Runtime,
            "{name}: Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with \
             dimension {} being empty",
            fmt_sizes(sizes),
            empty.unwrap_or(0)
        );
        return Ok(());
    }
    let all = planar_sizes(sizes, n);
    let batch = usize::from(all.len() == 4);
    ensure!(
        matches!(all.len(), 3 | 4) && all[batch..].iter().all(|d| *d > 0),
        Runtime,
        "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
        fmt_sizes(&all)
    );
    Ok(())
}
/// What PyTorch checks first where a maximum over one dimension is asked for without positions.
pub(super) fn check_max_pool1d(
    input: &Tensor,
    kernel: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    dilation: &[i64],
    ceil: bool,
) -> Result<()> {
    let sizes = input.sizes();
    let batch = usize::from(sizes.len() == 3);
    ensure!(
        matches!(sizes.len(), 2 | 3) && sizes[batch..].iter().all(|d| *d > 0),
        Runtime,
        "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
        fmt_sizes(sizes)
    );
    let one = |v: &[i64], what: &str, kinds: &str| -> Result<i64> {
        ensure!(
            v.len() == 1,
            Runtime,
            "max_pool1d() {what} must be {kinds} of size 1 but got size {}",
            v.len()
        );
        Ok(v[0])
    };
    let kernel = one(kernel, "kernel_size", "an int, list of ints or tuple of ints")?;
    let stride = match stride {
        None | Some([]) => kernel,
        Some(s) => one(s, "stride", "None, an int, list of ints, or tuple of ints")?,
    };
    let pad = one(padding, "padding", "an int, list of ints, or tuple of ints")?;
    let dilation = one(dilation, "dilation", "an int, list of ints or tuple of ints")?;
    let least = |v: i64, what: &str| -> Result<()> {
        ensure!(v > 0, Runtime, "max_pool1d() {what} must be greater than zero, but got {v}");
        Ok(())
    };
    least(kernel, "kernel_size")?;
    least(stride, "stride")?;
    ensure!(pad >= 0, Runtime, "max_pool1d() padding must be non-negative, but got {pad}");
    ensure!(
        pad <= kernel / 2,
        Runtime,
        "max_pool1d() padding should be at most half of kernel size, but got padding={pad} and kernel_size={kernel}"
    );
    least(dilation, "dilation")?;
    let n = input.sizes()[input.dim() - 1];
    let Some(reach) = dilation.checked_mul(kernel - 1).and_then(|r| r.checked_add(1)) else {
        bail!(
            Runtime,
            "effective kernel size overflows, but got kernel_size={kernel} and dilation={dilation}"
        );
    };
    let room = n.saturating_add(2 * pad).saturating_sub(reach);
    let mut out = room.saturating_add(if ceil { stride - 1 } else { 0 }).div_euclid(stride) + 1;
    if ceil && (out - 1).saturating_mul(stride) >= n + pad {
        out -= 1;
    }
    ensure!(out > 0, Runtime, "max_pool1d() Invalid computed output size: {out}");
    if !input.dtype().is_floating() {
        return Err(Error::not_implemented_for("max_pool1d_impl", input.dtype()));
    }
    Ok(())
}
pub(super) fn named(v: &[i64], what: &str) -> String {
    let axis = ["T", "H", "W"];
    v.iter()
        .enumerate()
        .map(|(i, k)| format!("{what}{}: {k}", axis[3 - v.len() + i]))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Kernel, stride (the kernel where none is given), padding, dilation, one per dimension.
pub(super) fn options(
    name: &str,
    n: usize,
    kernel: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    dilation: &[i64],
) -> Result<[SizeVec; 4]> {
    // the mean over volumes has words of its own
    let must = if n == 3 && name.starts_with("avg") { "must" } else { "must either" };
    let ints = ["", "two", "three"][n - 1];
    let each = |v: &[i64], what: &str, text: &str| match v.len() {
        l if l == n => Ok(SizeVec::from_slice(v)),
        l if n == 1 => {
            bail!(Runtime, "{name}() argument '{what}' should contain one int (got {l})")
        }
        1 => Ok(SizeVec::from_elem(v[0], n)),
        _ => bail!(Runtime, "{name}: {what} {text} a single int, or a tuple of {ints} ints"),
    };
    let kernel = each(kernel, "kernel_size", &format!("{must} be"))?;
    let stride = match stride {
        None | Some([]) => kernel.clone(),
        Some(s) => each(s, "stride", &format!("{must} be omitted,"))?,
    };
    let padding = each(padding, "padding", &format!("{must} be"))?;
    Ok([kernel, stride, padding, each(dilation, "dilation", "must be either")?])
}
/// A size per dimension; `None` cannot be said here, 0 means 0.
pub(super) fn adaptive_size(name: &str, n: usize, output_size: &[i64], text: &str) -> Result<SizeVec> {
    match output_size.len() {
        l if l == n => Ok(SizeVec::from_slice(output_size)),
        1 => Ok(SizeVec::from_elem(output_size[0], n)),
        l if n == 1 => bail!(Runtime, "{name}() argument 'output_size' should contain one int (got {l})"),
        _ => bail!(
            Runtime,
            "{name}{text}output_size{} must be {n}",
            if text.contains("internal") { ".size()" } else { "" }
        ),
    }
}

/// Whether the strides of a batch are ordered with the channels innermost: what picks PyTorch's kernel, dense or not.
pub(super) fn channels_last(t: &Tensor) -> bool {
    let (sizes, strides) = (t.sizes(), t.strides());
    let order: &[usize] = match sizes.len() {
        4 => &[1, 3, 2, 0],
        5 => &[1, 4, 3, 2, 0],
        _ => return false,
    };
    let mut least = 0;
    for &d in order {
        // one channel of one place is no order
        if sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1]) {
            return false;
        }
        least = strides[d].saturating_mul(sizes[d].max(1));
    }
    strides[1] != 0
}
