//! Reductions of segments of a dimension.

use crate::ops::histogram::has_data;
use crate::tensor::geometry::{self, SizeVec, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, bail, ensure, ops};

/// One row of numbers as a tensor on the device of `like`.
fn vector<T: crate::Element>(v: Vec<T>, like: &Tensor) -> Result<Tensor> {
    let n = v.len() as i64;
    crate::backend::transfer::to_device(Tensor::from_vec_raw(v, &[n])?, like.device())
}
/// How the elements of a segment are combined.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
}

/// Which segment each place of the axis belongs to, row by row of the dimensions before it; places of none have the
/// number after the last. And how long the segments are.
struct Segments {
    of: Vec<i64>,
    lengths: Vec<i64>,
    /// Per row.
    count: i64,
}

/// Lengths as numbers, `[rows, count]`, or offsets, which are one more.
fn numbers(t: &Tensor, data: &Tensor, axis: usize, name: &str) -> Result<Vec<i64>> {
    ensure!(
        t.dim() >= 1 && t.dim() - 1 == axis,
        Runtime,
        "segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
    );
    ensure!(
        t.sizes()[..axis] == data.sizes()[..axis],
        Runtime,
        "segment_reduce(): Expected all dimensions of {name} before the axis to be those of data, but got {} and {}",
        geometry::fmt_sizes(t.sizes()),
        geometry::fmt_sizes(data.sizes())
    );
    if t.is_complex() && name == "lengths" {
        return Err(Error::not_implemented_for("min_all", t.dtype()));
    }
    if !matches!(t.dtype(), DType::I32 | DType::I64) {
        return Err(Error::not_implemented_for("_segment_reduce_lengths_cpu_kernel1", t.dtype()));
    }
    has_data(t, "segment_reduce")?;
    t.try_to_vec::<i64>()
}

fn by_lengths(data: &Tensor, axis: usize, lengths: &Tensor, unsafe_: bool) -> Result<Segments> {
    let lengths_v = numbers(lengths, data, axis, "lengths")?;
    let (n, count) = (data.sizes()[axis], lengths.sizes()[axis]);
    let rows: i64 = data.sizes()[..axis].iter().product();
    let mut of = geometry::room(geometry::size_mul(rows, n)?)?;
    for row in 0..rows {
        let l = &lengths_v[(row * count) as usize..((row + 1) * count) as usize];
        let mut total = 0i64;
        for (k, len) in l.iter().enumerate() {
            ensure!(*len >= 0, Runtime, "lengths contains negative value!");
            total = total.saturating_add(*len);
            ensure!(
                total <= n,
                Runtime,
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
            );
            of.extend(std::iter::repeat_n(k as i64, *len as usize));
        }
        ensure!(
            unsafe_ || total == n,
            Runtime,
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
        );
        of.extend(std::iter::repeat_n(count, (n - total) as usize));
    }
    Ok(Segments { of, lengths: lengths_v, count })
}
fn by_offsets(data: &Tensor, axis: usize, offsets: &Tensor) -> Result<Segments> {
    let o = numbers(offsets, data, axis, "offsets")?;
    let (n, each) = (data.sizes()[axis], offsets.sizes()[axis]);
    if each < 1 {
        let mut sizes = SizeVec::from_slice(data.sizes());
        sizes[axis] = -1;
        geometry::checked_numel(&sizes)?;
    }
    let count = each - 1;
    let rows: i64 = data.sizes()[..axis].iter().product();
    let mut of = geometry::room(geometry::size_mul(rows, n)?)?;
    let mut lengths = geometry::room(geometry::size_mul(rows, count)?)?;
    for row in 0..rows {
        let start = of.len();
        of.resize(start + n as usize, count);
        for (k, w) in o[(row * each) as usize..((row + 1) * each) as usize].windows(2).enumerate() {
            ensure!(
                w[0] >= 0 && w[0] <= w[1],
                Runtime,
                "Expected segment_length >= 0 to be true, but got false."
            );
            ensure!(w[1] <= n, Runtime, "segment_reduce(): offset {} is beyond the axis of size {n}", w[1]);
            of[start + w[0] as usize..start + w[1] as usize].fill(k as i64);
            lengths.push(w[1] - w[0]);
        }
    }
    Ok(Segments { of, lengths, count })
}

/// `segment_reduce`: every element is scattered to its segment.
pub fn segment_reduce(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    unsafe_: bool,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let axis = wrap_dim(axis, data.dim())?;
    ensure!(data.dim() > 0, Runtime, "segment_reduce(): data must have at least one dimension");
    let how = match reduce {
        "sum" => How::Sum,
        "mean" => How::Mean,
        "prod" => How::Prod,
        "max" | "amax" => How::Max,
        "min" | "amin" => How::Min,
        _ => bail!(Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"),
    };
    ensure!(indices.is_none(), Runtime, "segment_reduce(): indices based reduction is not supported yet.");
    let s = match (offsets, lengths) {
        (Some(o), _) => by_offsets(data, axis, o)?,
        (None, Some(l)) => by_lengths(data, axis, l, unsafe_)?,
        (None, None) => bail!(Runtime, "segment_reduce(): Either lengths or offsets must be defined."),
    };
    if !data.dtype().is_floating() {
        return Err(Error::not_implemented_for("_segment_reduce_cpu", data.dtype()));
    }
    // indices and lengths, with a size of 1 for the dimensions behind the axis
    let lead = &data.sizes()[..axis];
    let along = |n: i64| -> SizeVec {
        let mut v = SizeVec::from_slice(lead);
        v.push(n);
        v.extend(std::iter::repeat_n(1, data.dim() - axis - 1));
        v
    };
    let index = ops::reshape(&vector(s.of, data)?, &along(data.sizes()[axis]))?;
    let index = ops::expand(&index, data.sizes(), false)?;
    let mut sizes = SizeVec::from_slice(data.sizes());
    sizes[axis] = s.count + 1;
    let given = initial.map(|i| i.to_f64());
    // what stands where a segment has no element, and whether it takes part where it has some
    let (op, start) = match how {
        How::Sum | How::Mean => ("sum", 0.0),
        How::Prod => ("prod", 1.0),
        How::Max => ("amax", given.unwrap_or(f64::NEG_INFINITY)),
        How::Min => ("amin", given.unwrap_or(f64::INFINITY)),
    };
    let joins = matches!(how, How::Sum | How::Mean | How::Prod);
    let base = ops::full(&sizes, Scalar::Float(start), Some(data.dtype()), None, Some(data.device()), None)?;
    let all = ops::scatter_reduce(&base, axis as i64, &index, data, op, joins)?;
    let r = ops::narrow(&all, axis as i64, 0, s.count)?;
    let number = |v: f64| wrapped_number(Scalar::Float(v));
    Ok(match (how, given) {
        (How::Sum, None) | (How::Prod | How::Max | How::Min, None) => r,
        (How::Sum, Some(i)) => ops::add(&r, &number(i)?, Scalar::Int(1))?,
        (How::Prod, Some(i)) => ops::mul(&r, &number(i)?)?,
        (How::Max | How::Min, Some(i)) => {
            let i = number(i)?;
            let beaten = if how == How::Max { ops::lt(&r, &i)? } else { ops::gt(&r, &i)? };
            ops::where_(&beaten, &i, &r)?
        }
        (How::Mean, _) => {
            let divisors: Vec<f64> = s
                .lengths
                .iter()
                .map(|l| match (*l, given) {
                    (0, None) => 0.0,
                    (l, _) => l.max(1) as f64,
                })
                .collect();
            let divisors = ops::reshape(&vector(divisors, data)?, &along(s.count))?;
            let divisors = ops::to(&divisors, Some(data.dtype()), None, None, None, false, false, None)?;
            let sum = match given {
                Some(i) => ops::add(&r, &number(i)?, Scalar::Int(1))?,
                None => r,
            };
            // 0 / 0: the mean of nothing is no number
            ops::div(&sum, &divisors)?
        }
    })
}
