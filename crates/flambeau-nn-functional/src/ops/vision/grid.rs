//! Sampling at the positions of a grid, by differentiable operators.

use crate::ops::operands::{cast, number, on, wide};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, fmt_sizes, wrap_dim_strict};
use flambeau_core::text::size_tuple;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops as core};

const ONE: Scalar = Scalar::Int(1);

fn plus(a: &Tensor, s: f64) -> Result<Tensor> {
    core::add(a, &number(s)?, ONE)
}
fn times(a: &Tensor, s: f64) -> Result<Tensor> {
    core::mul(a, &number(s)?)
}
fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    core::sub(a, b, ONE)
}
fn clip(x: &Tensor, size: i64) -> Result<Tensor> {
    core::clamp(x, Some(Scalar::Float(0.0)), Some(Scalar::Float((size - 1) as f64)))
}

/// What happens to positions outside.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// From -1..1 to positions, each step rounded as PyTorch's kernels do: those of planes and those of volumes differ.
fn position(x: &Tensor, size: i64, aligned: bool, planes: bool) -> Result<Tensor> {
    let from_zero = plus(x, 1.0)?;
    match (planes, aligned) {
        (true, true) => times(&from_zero, (size - 1) as f64 / 2.0),
        (true, false) => plus(&times(&from_zero, size as f64 / 2.0)?, -0.5),
        (false, true) => times(&times(&from_zero, 0.5)?, (size - 1) as f64),
        (false, false) => times(&plus(&times(&from_zero, size as f64)?, -1.0)?, 0.5),
    }
}
/// Positions outside moved inside, unless zeros are wanted there.
fn bounded(x: &Tensor, size: i64, outside: Outside, aligned: bool) -> Result<Tensor> {
    match outside {
        Outside::Zeros => Ok(x.clone()),
        Outside::Border => clip(x, size),
        Outside::Reflection => {
            let (low, high) = if aligned { (0, 2 * (size - 1)) } else { (-1, 2 * size - 1) };
            if low == high {
                return times(x, 0.0);
            }
            let (min, span) = (low as f64 / 2.0, (high - low) as f64 / 2.0);
            let a = core::abs(&plus(x, -min)?)?;
            let plain = a.alias_detached();
            let flips = core::floor(&times(&plain, 1.0 / span)?)?;
            let extra = sub(&a, &times(&flips, span)?)?;
            let even = core::eq(&core::fmod(&flips, &number(2)?)?, &number(0)?)?;
            let forth = plus(&extra, min)?;
            let back = plus(&core::neg(&extra)?, span + min)?;
            clip(&core::where_(&even, &forth, &back)?, size)
        }
    }
}

/// The input's elements at whole positions (one tensor `[N, *]` per spatial dimension, slowest first), 0 outside.
fn fetch(input: &Tensor, at: &[Tensor]) -> Result<Tensor> {
    let n = at.len();
    let sizes = &input.sizes()[2..];
    let mut flat: Option<Tensor> = None;
    let mut inside: Option<Tensor> = None;
    for (p, s) in at.iter().zip(sizes) {
        let p = p.alias_detached();
        let ok = core::logical_and(&core::ge(&p, &number(0)?)?, &core::le(&p, &number((*s - 1) as f64)?)?)?;
        // positions that are not numbers are outside
        let p = core::where_(&ok, &p, &number(0)?)?;
        let p = cast(&p, DType::I64)?;
        flat = Some(match flat {
            None => p,
            Some(f) => core::add(&core::mul(&f, &number(*s)?)?, &p, ONE)?,
        });
        inside = Some(match inside {
            None => ok,
            Some(i) => core::logical_and(&i, &ok)?,
        });
    }
    let (Some(flat), Some(inside)) = (flat, inside) else {
        bail!(Runtime, "grid_sample: no spatial dimension");
    };
    let mut shape = flat.sizes().to_vec();
    shape.insert(1, input.sizes()[1]);
    let flat = core::expand(&core::unsqueeze(&flat, 1)?, &shape, false)?;
    let v = crate::ops::plane_gather(input, &flat, n as i64)?;
    core::where_(&core::unsqueeze(&inside, 1)?, &v, &number(0)?)
}

/// `grid_sample`
pub fn grid_sample(
    input: &Tensor,
    grid: &Tensor,
    mode: &str,
    padding_mode: &str,
    align_corners: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        matches!(mode, "bilinear" | "nearest" | "bicubic"),
        Value,
        "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
    );
    let outside = match padding_mode {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        _ => bail!(
            Value,
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        ),
    };
    fits(input, grid, rank_of(input))?;
    sampled(input, grid, mode, outside, align_corners.unwrap_or(false))
}
/// Four for images, and five for whatever else.
fn rank_of(input: &Tensor) -> usize {
    if input.dim() == 4 { 4 } else { 5 }
}
/// [`grid_sample`] with numbers for the modes, of tensors with `rank` dimensions.
fn by_number(
    input: &Tensor,
    grid: &Tensor,
    mode: i64,
    padding: i64,
    aligned: bool,
    rank: usize,
) -> Result<Tensor> {
    fits(input, grid, rank)?;
    let mode = match mode {
        0 => "bilinear",
        1 => "nearest",
        2 => "bicubic",
        _ => bail!(Value, "grid_sampler(): unknown interpolation mode {mode}"),
    };
    let outside = match padding {
        0 => Outside::Zeros,
        1 => Outside::Border,
        2 => Outside::Reflection,
        _ => bail!(Value, "grid_sampler(): unknown padding mode {padding}"),
    };
    sampled(input, grid, mode, outside, aligned)
}
/// `grid_sampler`
pub fn grid_sampler(input: &Tensor, grid: &Tensor, mode: i64, padding: i64, aligned: bool) -> Result<Tensor> {
    by_number(input, grid, mode, padding, aligned, rank_of(input))
}
/// `grid_sampler_2d`
pub fn grid_sampler_2d(
    input: &Tensor,
    grid: &Tensor,
    mode: i64,
    padding: i64,
    aligned: bool,
) -> Result<Tensor> {
    by_number(input, grid, mode, padding, aligned, 4)
}
/// `grid_sampler_3d`
pub fn grid_sampler_3d(
    input: &Tensor,
    grid: &Tensor,
    mode: i64,
    padding: i64,
    aligned: bool,
) -> Result<Tensor> {
    by_number(input, grid, mode, padding, aligned, 5)
}

/// Sizes and dtypes, in PyTorch's order.
fn fits(input: &Tensor, grid: &Tensor, rank: usize) -> Result<()> {
    let (x, g) = (input.sizes(), grid.sizes());
    wrap_dim_strict(0, x.len()).and(wrap_dim_strict(0, g.len()))?;
    ensure!(
        x[0] == g[0],
        Runtime,
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {} and grid with sizes {}",
        fmt_sizes(x),
        fmt_sizes(g)
    );
    let n = x.len() as i64 - 2;
    ensure!(
        g[g.len() - 1] == n,
        Runtime,
        "grid_sampler(): expected grid to have size {n} in last dimension, but got grid with sizes {}",
        fmt_sizes(g)
    );
    for (d, s) in x.iter().enumerate().skip(2) {
        ensure!(
            *s > 0,
            Runtime,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {} with dimension {d} being empty",
            fmt_sizes(x)
        );
    }
    ensure!(
        x.len() == rank && g.len() == rank,
        Runtime,
        "grid_sampler(): expected {rank}D input and grid with same number of dimensions, but got input with sizes {} and grid with sizes {}",
        fmt_sizes(x),
        fmt_sizes(g)
    );
    if !input.dtype().is_floating() {
        let kernel = if n == 2 { "grid_sampler_2d_cpu_kernel_impl" } else { "grid_sampler3d_cpu" };
        return Err(Error::not_implemented_for(kernel, input.dtype()));
    }
    ensure!(
        input.dtype() == grid.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        input.dtype().scalar_type_name(),
        grid.dtype().scalar_type_name()
    );
    Ok(())
}
fn sampled(input: &Tensor, grid: &Tensor, mode: &str, outside: Outside, aligned: bool) -> Result<Tensor> {
    let x = input.sizes();
    let n = x.len() - 2;
    if n == 3 && mode == "bicubic" && wide(input.dtype()) != input.dtype() {
        // in space PyTorch computes these halves in float32
        let (own, up) = (input.dtype(), wide(input.dtype()));
        return cast(&sampled(&cast(input, up)?, &cast(grid, up)?, mode, outside, aligned)?, own);
    }
    // slowest dimension first: the grid's last column belongs to it
    let raw: Vec<Tensor> = (0..n)
        .map(|d| position(&core::select(grid, -1, (n - 1 - d) as i64)?, x[d + 2], aligned, n == 2))
        .collect::<Result<_>>()?;
    if mode == "bicubic" {
        return bicubic(input, &raw, outside, aligned);
    }
    let at: Vec<Tensor> =
        raw.iter().zip(&x[2..]).map(|(p, s)| bounded(p, *s, outside, aligned)).collect::<Result<_>>()?;
    if mode == "nearest" {
        let at: Vec<Tensor> = at.iter().map(core::round).collect::<Result<_>>()?;
        // steps have a gradient for the grid, which is zero
        let first = core::select(grid, -1, 0)?;
        let all = core::full_like(
            &first.alias_detached(),
            Scalar::Bool(true),
            Some(DType::Bool),
            None,
            None,
            None,
            None,
        )?;
        let zero = core::unsqueeze(&core::masked_fill(&first, &all, Scalar::Int(0))?, 1)?;
        return core::add(&fetch(input, &at)?, &zero, ONE);
    }
    let low: Vec<Tensor> = at.iter().map(|p| core::floor(&p.alias_detached())).collect::<Result<_>>()?;
    let part: Vec<Tensor> = at.iter().zip(&low).map(|(p, l)| sub(p, l)).collect::<Result<_>>()?;
    let mut sum: Option<Tensor> = None;
    for corner in 0..1usize << n {
        let mut w: Option<Tensor> = None;
        let mut to = Vec::new();
        // the fastest dimension first, as PyTorch sums and multiplies
        for d in (0..n).rev() {
            let up = corner >> (n - 1 - d) & 1 == 1;
            let next = plus(&low[d], 1.0)?;
            let f = match (up, n) {
                (true, _) => part[d].clone(),
                (false, 2) => sub(&number(1)?, &part[d])?,
                (false, _) => sub(&next, &at[d])?,
            };
            to.insert(0, if up { next } else { low[d].clone() });
            w = Some(match w {
                None => f,
                Some(w) => core::mul(&w, &f)?,
            });
        }
        if let Some(w) = w {
            let v = core::mul(&fetch(input, &to)?, &core::unsqueeze(&w, 1)?)?;
            sum = Some(match sum {
                None => v,
                Some(s) => core::add(&s, &v, ONE)?,
            });
        }
    }
    sum.ok_or_else(|| flambeau_core::Error::runtime("grid_sample: no spatial dimension"))
}

/// Keys' four weights for a fraction, with a = -0.75.
fn cubic(t: &Tensor) -> Result<[Tensor; 4]> {
    const A: f64 = -0.75;
    let near = |x: &Tensor| -> Result<Tensor> {
        let p = plus(&times(x, A + 2.0)?, -(A + 3.0))?;
        plus(&core::mul(&core::mul(&p, x)?, x)?, 1.0)
    };
    let far = |x: &Tensor| -> Result<Tensor> {
        let p = plus(&core::mul(&plus(&times(x, A)?, -5.0 * A)?, x)?, 8.0 * A)?;
        plus(&core::mul(&p, x)?, -4.0 * A)
    };
    let u = sub(&number(1)?, t)?;
    Ok([far(&plus(t, 1.0)?)?, near(t)?, near(&u)?, far(&plus(&u, 1.0)?)?])
}
/// Of four positions in each dimension.
fn bicubic(input: &Tensor, raw: &[Tensor], outside: Outside, aligned: bool) -> Result<Tensor> {
    let sizes = &input.sizes()[2..];
    let (mut weights, mut places) = (Vec::new(), Vec::new());
    for (p, size) in raw.iter().zip(sizes) {
        let low = core::floor(&p.alias_detached())?;
        weights.push(cubic(&sub(p, &low)?)?);
        let at = |i: i64| bounded(&plus(&low, i as f64 - 1.0)?, *size, outside, aligned);
        places.push((0..4).map(at).collect::<Result<Vec<_>>>()?);
    }
    let mut sum: Option<Tensor> = None;
    for corner in 0..1usize << (2 * raw.len()) {
        // two bits for each dimension, the last one in the lowest
        let pick = |d: usize| corner >> (2 * (raw.len() - 1 - d)) & 3;
        let mut w = weights[0][pick(0)].clone();
        for (d, own) in weights.iter().enumerate().skip(1) {
            w = core::mul(&w, &own[pick(d)])?;
        }
        let at: Vec<Tensor> = places.iter().enumerate().map(|(d, p)| p[pick(d)].clone()).collect();
        let v = core::mul(&fetch(input, &at)?, &core::unsqueeze(&w, 1)?)?;
        sum = Some(match sum {
            None => v,
            Some(s) => core::add(&s, &v, ONE)?,
        });
    }
    sum.ok_or_else(|| flambeau_core::Error::runtime("grid_sample: no weights"))
}

/// `n` positions from -1 to 1, at the corners or at the middles of `n` equal parts.
fn line(n: i64, aligned: bool) -> Result<Vec<f64>> {
    if n <= 1 {
        return geometry::filled(0.0, n.max(0));
    }
    let spread = if aligned { 1.0 } else { (n - 1) as f64 / n as f64 };
    geometry::listed((0..n as usize).map(|i| (2.0 * i as f64 / (n - 1) as f64 - 1.0) * spread))
}
/// `affine_grid`
pub fn affine_grid(theta: &Tensor, size: &[i64], align_corners: Option<bool>) -> Result<Tensor> {
    let aligned = align_corners.unwrap_or(false);
    ensure!(
        theta.dtype().is_floating(),
        Value,
        "Expected theta to have floating point type, but got {}",
        theta.dtype()
    );
    let n = match size.len() {
        4 => 2,
        5 => 3,
        _ => bail!(
            Unsupported,
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {}.",
            size_tuple(size)
        ),
    };
    ensure!(
        theta.dim() == 3 && theta.sizes()[1..] == [n, n + 1],
        Value,
        "Expected a batch of {n}D affine matrices of shape Nx{n}x{} for size {}. Got torch.Size({}).",
        n + 1,
        size_tuple(size),
        fmt_sizes(theta.sizes())
    );
    ensure!(
        size.iter().all(|s| *s > 0),
        Value,
        "Expected non-zero, positive output size. Got {}",
        size_tuple(size)
    );
    ensure!(
        theta.sizes()[0] == size[0],
        Runtime,
        "Expected size for first two dimensions of batch2 tensor to be: [{0}, {1}] but got: [{2}, {1}].",
        size[0],
        n + 1,
        theta.sizes()[0]
    );
    let all = [&[size[0]], &size[2..], &[n + 1]].concat();
    let numbers = geometry::checked_bytes(&all, size_of::<f64>())? as i64 / 8 / size[0];
    let points = numbers / (n + 1);
    let mut base = geometry::room(numbers)?;
    let lines: Vec<Vec<f64>> = size[2..].iter().map(|s| line(*s, aligned)).collect::<Result<_>>()?;
    for p in 0..points {
        let (mut rest, mut row) = (p, Vec::new());
        for l in lines.iter().rev() {
            row.push(l[(rest % l.len() as i64) as usize]);
            rest /= l.len() as i64;
        }
        base.extend(row);
        base.push(1.0);
    }
    let base = cast(&Tensor::from_vec_raw(base, &[1, points, 1, n + 1])?, theta.dtype())?;
    let base = on(base, theta.device())?;
    let all = core::mul(&base, &core::unsqueeze(theta, 1)?)?;
    let grid = core::sum(&all, Some(&[-1]), false, None)?;
    let mut shape = vec![size[0]];
    shape.extend_from_slice(&size[2..]);
    shape.push(n);
    core::reshape(&grid, &shape)
}
