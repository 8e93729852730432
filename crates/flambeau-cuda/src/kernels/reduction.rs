//! Reductions: one kernel for all of them, with a state each (`kernels/reduction/reduction.cuh`).

use super::dense::{power, up};
use super::{Args, Geometry, Which, address, by_the_cpu, element, launch};
use crate::device;
use crate::driver::{Shape, driver};
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, reduction};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use std::borrow::Cow;

/// What sums of a dtype are kept in.
pub(super) fn sum_type(d: DType) -> Option<(&'static str, DType)> {
    use DType::*;
    Some(match d {
        F16 | BF16 | F32 => ("float", F32),
        F64 => ("double", F64),
        C32 | C64 => ("Cx<float>", C64),
        C128 => ("Cx<double>", C128),
        U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 | Bool => ("i64", I64),
        _ => return None,
    })
}
/// The tensor without lazy bits, in that dtype.
fn plain(t: &Tensor, dtype: DType) -> Result<Cow<'_, Tensor>> {
    if !t.is_conj() && !t.is_neg() && t.dtype() == dtype {
        return Ok(Cow::Borrowed(t));
    }
    let own = Tensor::empty_raw(t.sizes(), dtype, t.device())?;
    matrices::write(&own, t)?;
    Ok(Cow::Owned(own))
}
/// How elements are reduced: the name of the state in the source, and the numbers it asks for.
#[derive(Clone, Copy)]
struct How(&'static str, f64);
/// What states hold besides elements of the input.
fn state(how: How, d: DType) -> Option<&'static str> {
    let real = matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    let (sum, _) = sum_type(d)?;
    match how.0 {
        "Sum" | "Mean" | "Prod" => Some(sum),
        "Nansum" => (sum != "i64").then_some(sum),
        "Variance" | "Deviation" | "LogSumExp" => real.then_some(sum),
        "Norm" | "NormMax" | "NormMin" => match sum {
            "Cx<float>" => Some("float"),
            "Cx<double>" => Some("double"),
            "i64" => None,
            s => Some(s),
        },
        "Amax" | "Amin" | "Argmax" | "Argmin" => (!d.is_complex()).then_some("i64"),
        _ => Some("i64"),
    }
}
/// As in kernels/reduction/reduction.cuh: all blocks of a shared result are on the device at once.
const RESIDENT: i64 = 4;
/// Threads and blocks of a reduction.
struct Plan {
    threads: i64,
    results: i64,
    turned: bool,
    parts: i64,
    groups: i64,
}
impl Plan {
    /// For `n` elements each of `m` results (or packs of results), whose strides innermost are these; a thread reads `pack`
    /// elements of one result at once.
    fn new(n: i64, m: i64, along: i64, kept: i64, pack: i64, processors: i64) -> Plan {
        let up = |n: i64, most: i64| (n.max(1) as u64).next_power_of_two().min(most as u64) as i64;
        let turned = m > 1 && kept.unsigned_abs() < along.unsigned_abs();
        let (threads, results) = match turned {
            true => {
                let results = up(m, 32);
                (up(n, 256 / results), results)
            }
            false => {
                let threads = up(n / pack.max(1), 256);
                (threads, up(m, (256 / threads).min(if threads < 32 { 32 } else { 8 })))
            }
        };
        let groups = (m as u64).div_ceil(results as u64) as i64;
        // each thread has some work to do before blocks share a result
        let most = n / (threads * 4 * pack.max(1));
        let parts = (processors * RESIDENT / groups.max(1)).min(most).clamp(1, 1024);
        Plan { threads, results, turned, parts, groups }
    }
}
/// Which kernel of a reduction.
#[derive(Clone, Copy)]
enum Part {
    Rows,
    Columns,
    Parts,
}
/// Reduces `dims` of `x` into `out`. `false` where there is no kernel for it.
fn reduce(how: How, x: &Tensor, dims: &[usize], out: &Tensor) -> Result<bool> {
    let (Some(state), Some(own), Some(to)) =
        (state(how, x.dtype()), element(x.dtype()), element(out.dtype()))
    else {
        return Ok(false);
    };
    if out.is_conj() || out.is_neg() || x.is_conj() || x.is_neg() {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let kept: Vec<usize> = (0..x.dim()).filter(|d| !dims.contains(d)).collect();
    let (size, to_size) = (x.dtype().size() as i64, out.dtype().size() as i64);
    let of_out: Vec<i64> = match out.dim() == x.dim() {
        true => kept.iter().map(|d| out.strides()[*d] * to_size).collect(),
        false => out.strides().iter().map(|s| s * to_size).collect(),
    };
    if of_out.len() != kept.len() {
        return Ok(false);
    }
    let sizes = |list: &[usize]| list.iter().map(|d| x.sizes()[*d]).collect::<Vec<i64>>();
    let strides = |list: &[usize]| list.iter().map(|d| x.strides()[*d] * size).collect::<Vec<i64>>();
    let start = vec![address(out)?, address(x)?];
    let outer = Geometry::joined(&sizes(&kept), &[of_out, strides(&kept)], start);
    let along = Geometry::joined(&sizes(dims), &[vec![0; dims.len()], strides(dims)], vec![0, 0]);
    let (Some(outer), Some(along)) = (outer, along) else { return Ok(false) };
    let d = device::ordinal(x.device())?;
    let inner = |g: &Geometry| g.stride(1).unwrap_or(0);
    let pack = 16 / size.min(16);
    // packs of neighbouring results: whole numbers of them, aligned
    let even = |g: &Geometry| g.strides_but_last(1).iter().all(|s| s % 16 == 0);
    let packed = pack > 1
        && outer.n > 1
        && inner(&outer) == size
        && outer.sizes.last().is_some_and(|n| n % pack == 0)
        && even(&outer)
        && outer.start_of(1) % 16 == 0
        && even(&along)
        && inner(&along) % 16 == 0;
    let processors = device::processors(d)?;
    let (plan, first) = match packed {
        true => {
            let p = Plan::new(along.n, outer.n / pack, i64::MAX, 16, 1, processors);
            (Plan { turned: true, ..p }, Part::Columns)
        }
        false => (Plan::new(along.n, outer.n, inner(&along), inner(&outer), pack, processors), Part::Rows),
    };
    let room = match plan.parts {
        1 => None,
        parts => Some(Tensor::empty_raw(&[outer.n * parts * 32], DType::U8, x.device())?),
    };
    let states = room.as_ref().map_or(Ok(0), address)?;
    let args = |threads: i64, results: i64| {
        let list = Args::new().geometry(&outer).geometry(&along).int(threads).int(results);
        let list = list.int(plan.turned.into()).int(plan.parts).word(states);
        list.number(how.1).number(0.0).int(0).number(0.0).number(0.0).int(0)
    };
    let state = match (how.0, along.n < i64::from(i32::MAX)) {
        ("Argmax" | "Argmin", true) => "i32",
        _ => state,
    };
    let all = driver()?.compiles_families();
    let text = |part: Part| {
        let instance = |part: Part| {
            let (kernel, name) = match part {
                Part::Rows => ("REDUCE", "reduce_k"),
                Part::Columns => ("REDUCE_COLUMNS", "reduce_k_columns"),
                Part::Parts => ("REDUCE_PARTS", "reduce_k_parts"),
            };
            (format!("{kernel}({name}, {}, {own}, {state}, {to})\n", how.0), name.to_string())
        };
        let (own, name) = instance(part);
        let kernels = match all {
            true => [Part::Rows, Part::Columns, Part::Parts].map(|p| instance(p).0).concat(),
            false => own,
        };
        (format!("#include \"reduction/reduction.cuh\"\n{kernels}"), name)
    };
    let which = |part: Part| {
        Which(how.0, 0, [x.dtype() as u8, out.dtype() as u8, part as u8, (state == "i32").into()])
    };
    let threads = (plan.threads * plan.results).max(1) as u32;
    let shape = Shape { blocks: (plan.groups * plan.parts).clamp(1, 1 << 20) as u32, threads };
    launch(d, which(first), || text(first), shape, args(plan.threads, plan.results))?;
    if plan.parts > 1 {
        let results = power(outer.n, 1, 32);
        let threads = power(plan.parts, 32 / results, 256 / results);
        let blocks = up(outer.n, results).clamp(1, 1 << 16) as u32;
        let shape = Shape { blocks, threads: (threads * results) as u32 };
        launch(d, which(Part::Parts), || text(Part::Parts), shape, args(threads, results))?;
    }
    Ok(true)
}
/// The dimensions of a list, all where there is none.
fn dims(x: &Tensor, list: Option<&[i64]>) -> Vec<usize> {
    let all = || (0..x.dim()).collect();
    match list {
        Some(l) if !l.is_empty() => {
            let n = x.dim() as i64;
            let mut d: Vec<usize> = l.iter().map(|d| if *d < 0 { d + n } else { *d } as usize).collect();
            d.sort_unstable();
            // a single number has dimension 0 as well
            d.retain(|d| *d < x.dim());
            d
        }
        _ => all(),
    }
}
fn one(x: &Tensor, dim: i64) -> Vec<usize> {
    dims(x, Some(&[dim]))
}
fn sum(a: &args::Sum, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    if reduce(How("Sum", 0.0), &x, &dims(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("sum", &[a.self_], out, |t| ops::sum(&t[0], a.dim, a.keepdim, a.dtype))
}
fn nansum(a: &args::Nansum, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    if reduce(How("Nansum", 0.0), &x, &dims(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("nansum", &[a.self_], out, |t| ops::nansum(&t[0], a.dim, a.keepdim, a.dtype))
}
fn prod(a: &args::Prod, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    if reduce(How("Prod", 0.0), &x, &dims(&x, None), out)? {
        return Ok(());
    }
    by_the_cpu("prod", &[a.self_], out, |t| ops::prod(&t[0], a.dtype))
}
fn prod_dim(a: &args::ProdDim, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    if reduce(How("Prod", 0.0), &x, &one(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("prod", &[a.self_], out, |t| ops::prod_dim(&t[0], a.dim, a.keepdim, a.dtype))
}
fn mean(a: &args::Mean, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    let list = dims(&x, a.dim);
    let n: i64 = list.iter().map(|d| x.sizes()[*d]).product();
    if reduce(How("Mean", n as f64), &x, &list, out)? {
        return Ok(());
    }
    by_the_cpu("mean", &[a.self_], out, |t| ops::mean(&t[0], a.dim, a.keepdim, a.dtype))
}
fn correction(c: Option<Scalar>) -> f64 {
    c.map_or(1.0, Scalar::to_f64)
}
fn var(a: &args::Var, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.self_.dtype())?;
    if reduce(How("Variance", correction(a.correction)), &x, &dims(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("var", &[a.self_], out, |t| ops::var(&t[0], a.dim, a.correction, a.keepdim))
}
fn std(a: &args::Std, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.self_.dtype())?;
    if reduce(How("Deviation", correction(a.correction)), &x, &dims(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("std", &[a.self_], out, |t| ops::std(&t[0], a.dim, a.correction, a.keepdim))
}
/// The dimensions of a list, of which an empty one has none.
fn truth_dims(x: &Tensor, list: Option<&[i64]>) -> Vec<usize> {
    if list.is_some_and(<[i64]>::is_empty) { Vec::new() } else { dims(x, list) }
}
/// Kernels of rows whose arguments hold nothing but the input and dimensions.
macro_rules! plain_rows {
    ($($name:ident($args:ident, $how:literal, $dims:expr, $by_cpu:expr);)*) => { $(
        fn $name(a: &args::$args, out: &Tensor) -> Result<()> {
            let x = plain(a.self_, a.self_.dtype())?;
            let list: Vec<usize> = $dims(&x, a);
            if reduce(How($how, 0.0), &x, &list, out)? {
                return Ok(());
            }
            by_the_cpu(stringify!($name), &[a.self_], out, |t| $by_cpu(&t[0], a))
        }
    )* };
}
plain_rows! {
    max(Max, "Amax", |x: &Tensor, _: &args::Max| dims(x, None), |t: &Tensor, _: &args::Max| ops::max(t));
    min(Min, "Amin", |x: &Tensor, _: &args::Min| dims(x, None), |t: &Tensor, _: &args::Min| ops::min(t));
    amax(Amax, "Amax", |x: &Tensor, a: &args::Amax| dims(x, Some(a.dim)), |t: &Tensor, a: &args::Amax| ops::amax(t, a.dim, a.keepdim));
    amin(Amin, "Amin", |x: &Tensor, a: &args::Amin| dims(x, Some(a.dim)), |t: &Tensor, a: &args::Amin| ops::amin(t, a.dim, a.keepdim));
    argmax(Argmax, "Argmax", |x: &Tensor, a: &args::Argmax| a.dim.map_or_else(|| dims(x, None), |d| one(x, d)),
        |t: &Tensor, a: &args::Argmax| ops::argmax(t, a.dim, a.keepdim));
    argmin(Argmin, "Argmin", |x: &Tensor, a: &args::Argmin| a.dim.map_or_else(|| dims(x, None), |d| one(x, d)),
        |t: &Tensor, a: &args::Argmin| ops::argmin(t, a.dim, a.keepdim));
    any(Any, "Any", |x: &Tensor, _: &args::Any| dims(x, None), |t: &Tensor, _: &args::Any| ops::any(t));
    any_dim(AnyDim, "Any", |x: &Tensor, a: &args::AnyDim| one(x, a.dim), |t: &Tensor, a: &args::AnyDim| ops::any_dim(t, a.dim, a.keepdim));
    all(All, "All", |x: &Tensor, _: &args::All| dims(x, None), |t: &Tensor, _: &args::All| ops::all(t));
    all_dim(AllDim, "All", |x: &Tensor, a: &args::AllDim| one(x, a.dim), |t: &Tensor, a: &args::AllDim| ops::all_dim(t, a.dim, a.keepdim));
    any_dims(AnyDims, "Any", |x: &Tensor, a: &args::AnyDims| truth_dims(x, a.dim),
        |t: &Tensor, a: &args::AnyDims| ops::any_dims(t, a.dim, a.keepdim));
    all_dims(AllDims, "All", |x: &Tensor, a: &args::AllDims| truth_dims(x, a.dim),
        |t: &Tensor, a: &args::AllDims| ops::all_dims(t, a.dim, a.keepdim));
    count_nonzero(CountNonzero, "CountNonzero", |x: &Tensor, a: &args::CountNonzero| dims(x, a.dim),
        |t: &Tensor, a: &args::CountNonzero| ops::count_nonzero(t, a.dim));
    logsumexp(Logsumexp, "LogSumExp", |x: &Tensor, a: &args::Logsumexp| dims(x, Some(a.dim)),
        |t: &Tensor, a: &args::Logsumexp| ops::logsumexp(t, a.dim, a.keepdim));
}
/// The largest or smallest elements and their places.
fn extreme(
    how: [&'static str; 2],
    x: &Tensor,
    list: &[usize],
    outs: [&Tensor; 2],
    by_cpu: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<()> {
    let own = plain(x, x.dtype())?;
    let [values, places] = outs;
    if reduce(How(how[0], 0.0), &own, list, values)? && reduce(How(how[1], 0.0), &own, list, places)? {
        return Ok(());
    }
    crate::count(how[0]);
    let (v, i) = by_cpu(&flambeau_core::backend::transfer::on_host(x)?)?;
    matrices::write(values, &v)?;
    matrices::write(places, &i)
}
fn max_dim(a: &args::MaxDim, outs: [&Tensor; 2]) -> Result<()> {
    let list = one(a.self_, a.dim);
    extreme(["Amax", "Argmax"], a.self_, &list, outs, |t| ops::max_dim(t, a.dim, a.keepdim))
}
fn min_dim(a: &args::MinDim, outs: [&Tensor; 2]) -> Result<()> {
    let list = one(a.self_, a.dim);
    extreme(["Amin", "Argmin"], a.self_, &list, outs, |t| ops::min_dim(t, a.dim, a.keepdim))
}
fn aminmax(a: &args::Aminmax, outs: [&Tensor; 2]) -> Result<()> {
    let list = a.dim.map_or_else(|| dims(a.self_, None), |d| one(a.self_, d));
    extreme(["Amin", "Amax"], a.self_, &list, outs, |t| ops::aminmax(t, a.dim, a.keepdim))
}
fn vector_norm(a: &args::LinalgVectorNorm, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    let order = a.ord.to_f64();
    let how = match order {
        f64::INFINITY => "NormMax",
        f64::NEG_INFINITY => "NormMin",
        _ => "Norm",
    };
    if reduce(How(how, order), &x, &dims(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("linalg_vector_norm", &[a.self_], out, |t| {
        ops::linalg_vector_norm(&t[0], a.ord, a.dim, a.keepdim, a.dtype)
    })
}

/// Fills the rows' tables.
pub(crate) fn register() {
    reduction::SUM_KERNEL.register(Key::Cuda, sum);
    reduction::NANSUM_KERNEL.register(Key::Cuda, nansum);
    reduction::PROD_KERNEL.register(Key::Cuda, prod);
    reduction::PROD_DIM_KERNEL.register(Key::Cuda, prod_dim);
    reduction::MEAN_KERNEL.register(Key::Cuda, mean);
    reduction::VAR_KERNEL.register(Key::Cuda, var);
    reduction::STD_KERNEL.register(Key::Cuda, std);
    reduction::MAX_KERNEL.register(Key::Cuda, max);
    reduction::MIN_KERNEL.register(Key::Cuda, min);
    reduction::AMAX_KERNEL.register(Key::Cuda, amax);
    reduction::AMIN_KERNEL.register(Key::Cuda, amin);
    reduction::ARGMAX_KERNEL.register(Key::Cuda, argmax);
    reduction::ARGMIN_KERNEL.register(Key::Cuda, argmin);
    reduction::MAX_DIM_KERNEL.register(Key::Cuda, max_dim);
    reduction::MIN_DIM_KERNEL.register(Key::Cuda, min_dim);
    reduction::AMINMAX_KERNEL.register(Key::Cuda, aminmax);
    reduction::ANY_KERNEL.register(Key::Cuda, any);
    reduction::ANY_DIM_KERNEL.register(Key::Cuda, any_dim);
    reduction::ANY_DIMS_KERNEL.register(Key::Cuda, any_dims);
    reduction::ALL_DIMS_KERNEL.register(Key::Cuda, all_dims);
    reduction::HASH_TENSOR_KERNEL.share(Key::Cuda);
    reduction::ALL_KERNEL.register(Key::Cuda, all);
    reduction::ALL_DIM_KERNEL.register(Key::Cuda, all_dim);
    reduction::COUNT_NONZERO_KERNEL.register(Key::Cuda, count_nonzero);
    reduction::LOGSUMEXP_KERNEL.register(Key::Cuda, logsumexp);
    reduction::LINALG_VECTOR_NORM_KERNEL.register(Key::Cuda, vector_norm);
}
