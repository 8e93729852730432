//! One index for each element, or for each slice, along one dimension.

use super::*;

/// Places along a dimension.
fn places<'a>(index: &'a Tensor, steps: &'a [i64], data: &Tensor, dim: usize) -> Places<'a> {
    Places {
        index,
        steps,
        size: data.sizes()[dim],
        stride: data.strides()[dim] * data.dtype().size() as i64,
        dim: dim as i64,
        wraps: false,
    }
}
/// `out = x` at the places of an index over the sizes of `out`.
fn pick(
    name: &'static str,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    slices: bool,
    out: &Tensor,
) -> Result<bool> {
    if x.dtype() != out.dtype() || out.is_conj() || out.is_neg() {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let (x, index, out) = (vector(&resolved(x)?)?, vector(index)?, vector(out)?);
    let at = wrapped(dim, x.dim());
    if !slices && (index.dim() != x.dim() || index.sizes() != out.sizes()) {
        return Ok(false);
    }
    let over = if slices { slice_steps(&index, out.dim(), at) } else { steps(&index) };
    let there = places(&index, &over, &x, at);
    at_places(name, Work::Pick, out.sizes(), (&out, &steps(&out)), Some((&x, &steps_without(&x, at))), there)
}
/// Steps of a vector of indices along one dimension.
fn slice_steps(index: &Tensor, rank: usize, dim: usize) -> Vec<i64> {
    let own = index.strides()[0] * index.dtype().size() as i64;
    (0..rank).map(|d| if d == dim && index.numel() > 1 { own } else { 0 }).collect()
}
fn gather(a: &args::Gather, out: &Tensor) -> Result<()> {
    if pick("gather", a.self_, a.dim, a.index, false, out)? {
        return Ok(());
    }
    by_the_cpu("gather", &[a.self_, a.index], out, |t| ops::gather(&t[0], a.dim, &t[1], false))
}
fn index_select(a: &args::IndexSelect, out: &Tensor) -> Result<()> {
    if pick("index_select", a.self_, a.dim, a.index, true, out)? {
        return Ok(());
    }
    by_the_cpu("index_select", &[a.self_, a.index], out, |t| ops::index_select(&t[0], a.dim, &t[1]))
}

/// Elements of `src`, of which the index covers a part, at the places of `index` in `out`.
fn scatter_by(
    name: &'static str,
    work: Work,
    out: &Tensor,
    dim: i64,
    index: &Tensor,
    src: Option<&Tensor>,
) -> Result<bool> {
    if index.numel() == 0 || out.numel() == 0 {
        return Ok(true);
    }
    let (out, index) = (vector(out)?, vector(index)?);
    let at = wrapped(dim, out.dim());
    let src = src.map(|s| vector(&resolved(s)?)).transpose()?;
    let over = steps(&index);
    let there = places(&index, &over, &out, at);
    let to = steps_without(&out, at);
    if let (Work::Join("Plus", alpha), Some(s)) = (work, &src)
        && reduce::in_order(out.dtype(), false)
    {
        return reduce::add_sorted(name, index.sizes(), (&out, &to), (s, &steps(s)), there, alpha);
    }
    let from = src.as_ref().map(|s| (s, steps(s)));
    at_places(name, work, index.sizes(), (&out, &to), from.as_ref().map(|(s, st)| (*s, &st[..])), there)
}
fn scatter(a: &args::Scatter, out: &Tensor) -> Result<()> {
    if scatter_by("scatter", Work::Put, out, a.dim, a.index, Some(a.src))? {
        return Ok(());
    }
    by_the_cpu("scatter", &[a.self_, a.index, a.src], out, |t| ops::scatter(&t[0], a.dim, &t[1], &t[2]))
}
fn scatter_value(a: &args::ScatterValue, out: &Tensor) -> Result<()> {
    let value = Work::Value(number(a.value, out.dtype())?);
    if scatter_by("scatter", value, out, a.dim, a.index, None)? {
        return Ok(());
    }
    by_the_cpu("scatter", &[a.self_, a.index], out, |t| ops::scatter_value(&t[0], a.dim, &t[1], a.value))
}
/// Joins elements of `src` with those of `out`.
fn joined(
    name: &'static str,
    out: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduction: &str,
    include_self: bool,
) -> Result<bool> {
    let d = out.dtype();
    // others the CPU refuses
    let sums = matches!(reduction, "sum" | "add") && include_self;
    let narrow = matches!(d, DType::C32 | DType::BC32 | DType::F8E4M3 | DType::F8E5M2);
    if narrow
        || d.is_complex() && !sums
        || d == DType::Bool && reduction == "mean"
        || index_type(index.dtype()).is_none()
    {
        return Ok(false);
    }
    if index.numel() == 0 || out.numel() == 0 {
        return Ok(true);
    }
    if !include_self {
        let start = match reduction {
            "prod" => Scalar::Int(1),
            "amax" if d.is_floating() => Scalar::Float(f64::NEG_INFINITY),
            "amin" if d.is_floating() => Scalar::Float(f64::INFINITY),
            "amax" | "amin" => least_or_most(d, reduction == "amin"),
            _ => Scalar::Int(0),
        };
        scatter_by(name, Work::Value(number(start, d)?), out, dim, index, None)?;
    }
    let op = match reduction {
        "prod" | "multiply" => "Times",
        "amax" => "Most",
        "amin" => "Least",
        _ => "Plus",
    };
    if !scatter_by(name, Work::Join(op, None), out, dim, index, Some(src))? {
        return Ok(false);
    }
    if reduction == "mean" {
        let n = Scalar::Int(include_self.into());
        let counts = ops::full(out.sizes(), n, Some(DType::I64), None, Some(out.device()), None)?;
        let ones = ops::full(&[], Scalar::Int(1), Some(DType::I64), None, Some(out.device()), None)?;
        let ones = ops::expand(&ones, index.sizes(), false)?;
        scatter_by(name, Work::Join("Plus", None), &counts, dim, index, Some(&ones))?;
        let counts = ops::clamp(&counts, Some(Scalar::Int(1)), None)?;
        let own = out.alias_detached();
        let made = match d.is_integral(true) {
            true => ops::div_mode(&own, &counts, Some("floor"))?,
            false => ops::div(&own, &counts)?,
        };
        matrices::write(out, &made)?;
    }
    Ok(true)
}
/// The least or the largest integer of a dtype.
fn least_or_most(d: DType, most: bool) -> Scalar {
    let (low, high) = match d {
        DType::Bool => (0, 1),
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::U16 => (0, i64::from(u16::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::U32 => (0, i64::from(u32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    Scalar::Int(if most { high } else { low })
}
fn scatter_src_reduce(a: &args::ScatterSrcReduce, out: &Tensor) -> Result<()> {
    if joined("scatter", out, a.dim, a.index, a.src, a.reduce, true)? {
        return Ok(());
    }
    by_the_cpu("scatter", &[a.self_, a.index, a.src], out, |t| {
        ops::scatter_src_reduce(&t[0], a.dim, &t[1], &t[2], a.reduce)
    })
}
fn scatter_value_reduce(a: &args::ScatterValueReduce, out: &Tensor) -> Result<()> {
    let v = ops::full(&[], a.value, Some(out.dtype()), None, Some(out.device()), None)?;
    let v = ops::expand(&v, a.index.sizes(), false)?;
    if joined("scatter", out, a.dim, a.index, &v, a.reduce, true)? {
        return Ok(());
    }
    by_the_cpu("scatter", &[a.self_, a.index], out, |t| {
        ops::scatter_value_reduce(&t[0], a.dim, &t[1], a.value, a.reduce)
    })
}
fn scatter_add(a: &args::ScatterAdd, out: &Tensor) -> Result<()> {
    if joined("scatter_add", out, a.dim, a.index, a.src, "sum", true)? {
        return Ok(());
    }
    by_the_cpu("scatter_add", &[a.self_, a.index, a.src], out, |t| {
        ops::scatter_add(&t[0], a.dim, &t[1], &t[2])
    })
}
fn scatter_reduce(a: &args::ScatterReduce, out: &Tensor) -> Result<()> {
    if joined("scatter_reduce", out, a.dim, a.index, a.src, a.reduce, a.include_self)? {
        return Ok(());
    }
    by_the_cpu("scatter_reduce", &[a.self_, a.index, a.src], out, |t| {
        ops::scatter_reduce(&t[0], a.dim, &t[1], &t[2], a.reduce, a.include_self)
    })
}

/// Slices of `out` at the places of a vector of indices.
fn slices(
    name: &'static str,
    work: Work,
    out: &Tensor,
    dim: i64,
    index: &Tensor,
    src: Option<&Tensor>,
) -> Result<bool> {
    if index.numel() == 0 || out.numel() == 0 {
        return Ok(true);
    }
    let (out, index) = (vector(out)?, vector(index)?);
    let at = wrapped(dim, out.dim());
    let mut sizes = out.sizes().to_vec();
    sizes[at] = index.numel();
    let src = src.map(|s| ops::reshape(&resolved(&s.alias_detached())?, &sizes)).transpose()?;
    let over = slice_steps(&index, out.dim(), at);
    let there = places(&index, &over, &out, at);
    let to = steps_without(&out, at);
    if let (Work::Join("Plus", alpha), Some(s)) = (work, &src)
        && reduce::in_order(out.dtype(), false)
    {
        return reduce::add_sorted(name, &sizes, (&out, &to), (s, &steps(s)), there, alpha);
    }
    let from = src.as_ref().map(|s| (s, steps(s)));
    at_places(name, work, &sizes, (&out, &to), from.as_ref().map(|(s, st)| (*s, &st[..])), there)
}
fn index_add(a: &args::IndexAdd, out: &Tensor) -> Result<()> {
    let one = !a.alpha.is_complex() && a.alpha.to_f64() == 1.0;
    let work = Work::Join("Plus", if one { None } else { Some(a.alpha) });
    let d = out.dtype();
    let known = !matches!(d, DType::BC32 | DType::F8E4M3 | DType::F8E5M2);
    if known && slices("index_add", work, out, a.dim, a.index, Some(a.source))? {
        return Ok(());
    }
    by_the_cpu("index_add", &[a.self_, a.index, a.source], out, |t| {
        ops::index_add(&t[0], a.dim, &t[1], &t[2], a.alpha)
    })
}
fn index_copy(a: &args::IndexCopy, out: &Tensor) -> Result<()> {
    if slices("index_copy_", Work::Put, out, a.dim, a.index, Some(a.source))? {
        return Ok(());
    }
    by_the_cpu("index_copy", &[a.self_, a.index, a.source], out, |t| {
        ops::index_copy(&t[0], a.dim, &t[1], &t[2])
    })
}
/// One number at slices; negative indices count from the end.
fn fill(out: &Tensor, dim: i64, index: &Tensor, value: Work, src: Option<&Tensor>) -> Result<bool> {
    if index.numel() == 0 || out.numel() == 0 {
        return Ok(true);
    }
    let (out, index) = (vector(out)?, vector(index)?);
    let at = wrapped(dim, out.dim());
    let mut sizes = out.sizes().to_vec();
    sizes[at] = index.numel();
    let over = slice_steps(&index, out.dim(), at);
    let there = Places { wraps: true, ..places(&index, &over, &out, at) };
    let none = vec![0; sizes.len()];
    at_places(
        "index_fill_",
        value,
        &sizes,
        (&out, &steps_without(&out, at)),
        src.map(|s| (s, &none[..])),
        there,
    )
}
fn index_fill(a: &args::IndexFill, out: &Tensor) -> Result<()> {
    if fill(out, a.dim, a.index, Work::Value(number(a.value, out.dtype())?), None)? {
        return Ok(());
    }
    by_the_cpu("index_fill", &[a.self_, a.index], out, |t| ops::index_fill(&t[0], a.dim, &t[1], a.value))
}
fn index_fill_tensor(a: &args::IndexFillTensor, out: &Tensor) -> Result<()> {
    let v = if a.value.device() == out.device() {
        a.value.clone()
    } else {
        transfer::to_device(a.value.alias_detached(), out.device())?
    };
    if fill(out, a.dim, a.index, Work::Put, Some(&super::super::cast(&v, out.dtype())?))? {
        return Ok(());
    }
    by_the_cpu("index_fill", &[a.self_, a.index, a.value], out, |t| {
        ops::index_fill_tensor(&t[0], a.dim, &t[1], &t[2])
    })
}
fn index_reduce(a: &args::IndexReduce, out: &Tensor) -> Result<()> {
    let d = out.dtype();
    // what the CPU refuses it refuses in its own words
    let known = !d.is_complex() && d != DType::Bool && a.index.numel() > 0 && a.source.dim() == out.dim();
    if known {
        let at = wrapped(a.dim, out.dim());
        let index = ops::indexing::spread_index(a.index, a.source, at)?;
        if joined("index_reduce", out, a.dim, &index, a.source, a.reduce, a.include_self)? {
            return Ok(());
        }
    }
    by_the_cpu("index_reduce", &[a.self_, a.index, a.source], out, |t| {
        ops::index_reduce(&t[0], a.dim, &t[1], &t[2], a.reduce, a.include_self)
    })
}

/// Fills the rows' tables.
pub(super) fn register() {
    indexing::GATHER_KERNEL.register(Key::Cuda, gather);
    indexing::INDEX_SELECT_KERNEL.register(Key::Cuda, index_select);
    indexing::SCATTER_KERNEL.register(Key::Cuda, scatter);
    indexing::SCATTER_VALUE_KERNEL.register(Key::Cuda, scatter_value);
    indexing::SCATTER_SRC_REDUCE_KERNEL.register(Key::Cuda, scatter_src_reduce);
    indexing::SCATTER_VALUE_REDUCE_KERNEL.register(Key::Cuda, scatter_value_reduce);
    indexing::SCATTER_ADD_KERNEL.register(Key::Cuda, scatter_add);
    indexing::SCATTER_REDUCE_KERNEL.register(Key::Cuda, scatter_reduce);
    indexing::INDEX_ADD_KERNEL.register(Key::Cuda, index_add);
    indexing::INDEX_COPY_KERNEL.register(Key::Cuda, index_copy);
    indexing::INDEX_FILL_KERNEL.register(Key::Cuda, index_fill);
    indexing::INDEX_FILL_TENSOR_KERNEL.register(Key::Cuda, index_fill_tensor);
    indexing::INDEX_REDUCE_KERNEL.register(Key::Cuda, index_reduce);
}
