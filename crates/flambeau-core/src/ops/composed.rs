//! Operators that are short compositions of others.

use crate::backend::transfer::to_device;
use crate::ops::creation::factory;
use crate::tensor::geometry;
use crate::tensor::geometry::{SizeVec, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::tensor::number::wrapped_number;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::Layout;
use crate::types::scalar::Scalar;
use crate::{DType, bail, ensure, ops};

const ONE: Scalar = Scalar::Int(1);

fn number(s: impl Into<Scalar>) -> Result<Tensor> {
    wrapped_number(s.into())
}
fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, ONE)
}
/// Indices on a device.
fn vector(v: Vec<i64>, device: Device) -> Result<Tensor> {
    let n = v.len() as i64;
    to_device(Tensor::from_vec_raw(v, &[n])?, device)
}

/// `fill.Scalar`
pub fn fill(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let out = ops::clone(self_, None)?;
    ops::fill_(&out, value)?;
    Ok(out)
}
/// `fill.Tensor`
pub fn fill_with(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    let out = ops::clone(self_, None)?;
    ops::fill_tensor_(&out, value)?;
    Ok(out)
}

/// `diff`
pub fn diff(
    self_: &Tensor,
    n: i64,
    dim: i64,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Runtime, "diff expects input to be at least one-dimensional");
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(n >= 0, Runtime, "order must be non-negative but got {n}");
    for t in [prepend, append].into_iter().flatten() {
        ensure!(
            t.dim() == self_.dim(),
            Runtime,
            "diff expects prepend or append to be the same dimension as input"
        );
        for i in 0..t.dim() {
            ensure!(
                i == d || t.sizes()[i] == self_.sizes()[i],
                Runtime,
                "diff expects the shape of tensor to prepend or append to match that of input except along the \
                 differencing dimension; input.size({i}) = {}, but got tensor.size({i}) = {}",
                self_.sizes()[i],
                t.sizes()[i]
            );
        }
    }
    if n == 0 {
        return ops::clone(self_, None);
    }
    let parts: Vec<Tensor> =
        [prepend, Some(self_), append].into_iter().flatten().map(Tensor::clone).collect();
    let mut x = if parts.len() == 1 { self_.clone() } else { ops::cat(&parts, d as i64)? };
    let size = x.sizes()[d];
    if n > 0 && (x.dtype().is_wide_unsigned() || matches!(x.dtype(), DType::F8E4M3 | DType::F8E5M2)) {
        return Err(Error::not_implemented_for("add_stub", x.dtype()));
    }
    if n >= size || x.device() == Device::Meta {
        // nothing is left, or only the size is asked for
        let format = (size <= n).then_some(crate::MemoryFormat::Contiguous);
        return ops::clone(&ops::narrow(&x, d as i64, 0, (size - n).max(0))?, format);
    }
    for _ in 0..n {
        let rest = x.sizes()[d] - 1;
        let (low, high) = (ops::narrow(&x, d as i64, 0, rest)?, ops::narrow(&x, d as i64, 1, rest)?);
        x = if x.dtype() == DType::Bool { ops::logical_xor(&high, &low)? } else { sub(&high, &low)? };
    }
    Ok(x)
}

/// `dist`
pub fn dist(self_: &Tensor, other: &Tensor, p: Scalar) -> Result<Tensor> {
    let d = sub(self_, other)?;
    ensure!(
        d.dtype().is_floating() || d.is_complex(),
        Unsupported,
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        d.dtype().scalar_type_name()
    );
    ops::linalg_vector_norm(&d, p, None, false, None)
}

/// How many ways there are to choose `r` of `n`; the largest number where it does not fit.
fn combination_count(n: i64, r: i64, with_replacement: bool) -> i64 {
    let n = if with_replacement && n > 0 { n.saturating_add(r - 1) } else { n };
    if r > n {
        return 0;
    }
    let r = r.min(n - r);
    (1..=r)
        .try_fold(1i128, |c, k| {
            let c = c * (n - r + k) as i128 / k as i128;
            (c < i64::MAX as i128).then_some(c)
        })
        .map_or(i64::MAX, |c| c as i64)
}
/// `combinations`
pub fn combinations(self_: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    ensure!(
        self_.dim() == 1,
        Runtime,
        "Expect a 1D vector, but got shape {}",
        crate::tensor::geometry::fmt_sizes(self_.sizes())
    );
    ensure!(r >= 0, Runtime, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return Tensor::empty_raw(&[0], self_.dtype(), self_.device());
    }
    // PyTorch picks them out of the grid of all tuples
    let tuples = u32::try_from(r).ok().and_then(|r| self_.numel().checked_pow(r));
    ensure!(tuples.is_some(), Runtime, "numel: integer multiplication overflow");
    let (n, count) = (self_.numel(), combination_count(self_.numel(), r, with_replacement));
    if count == 0 {
        return ops::index_select(self_, 0, &vector(vec![], self_.device())?)
            .and_then(|e| ops::reshape(&e, &[0, r]));
    }
    let mut all: Vec<i64> = geometry::room(count.saturating_mul(r))?;
    let mut at: Vec<i64> = geometry::room(r)?;
    at.extend((0..r).map(|k| if with_replacement { 0 } else { k }));
    let r = r as usize;
    let last = |k: usize| if with_replacement { n - 1 } else { n - (r - k) as i64 };
    while at.iter().enumerate().all(|(k, i)| *i <= last(k)) {
        all.extend_from_slice(&at);
        let Some(k) = (0..r).rev().find(|k| at[*k] < last(*k)) else { break };
        let mut next = at[k] + 1;
        for i in &mut at[k..] {
            *i = next;
            next += i64::from(!with_replacement);
        }
    }
    let rows = (all.len() / r) as i64;
    ops::reshape(&ops::index_select(self_, 0, &vector(all, self_.device())?)?, &[rows, r as i64])
}

fn weights(w: &Tensor, name: &str, observations: i64, kind: &str, fits: bool) -> Result<()> {
    ensure!(
        w.dim() <= 1,
        Runtime,
        "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
        w.dim()
    );
    ensure!(
        fits,
        Runtime,
        "cov(): expected {name} to have {kind} dtype but got {name} with {} dtype",
        w.dtype().scalar_type_name()
    );
    ensure!(
        w.numel() == observations,
        Runtime,
        "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {observations}",
        w.numel()
    );
    let least = if observations == 0 { 0.0 } else { ops::min(&w.alias_detached())?.try_item::<f64>()? };
    ensure!(least >= 0.0, Runtime, "cov(): {name} cannot be negative");
    Ok(())
}
/// `cov`
pub fn cov(
    self_: &Tensor,
    correction: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    ensure!(self_.dtype() != DType::Bool, Unsupported, "cov(): bool dtype is not supported for input");
    let x = if self_.dim() < 2 { ops::reshape(self_, &[1, -1])? } else { self_.clone() };
    let n = x.sizes()[1];
    let mut w = None;
    if let Some(f) = fweights {
        weights(f, "fweights", n, "integral", f.dtype().is_integral(false))?;
        w = Some(f.clone());
    }
    if let Some(a) = aweights {
        weights(a, "aweights", n, "floating point", a.dtype().is_floating())?;
        w = Some(match w {
            Some(f) => ops::mul(&f, a)?,
            None => a.clone(),
        });
    }
    let total = match &w {
        Some(w) => ops::sum(w, None, false, None)?,
        None => number(n)?,
    };
    if w.is_some() {
        ensure!(total.try_item::<f64>()? != 0.0, Runtime, "cov(): weights sum to zero, can't be normalized");
    }
    let weighted = |x: &Tensor| w.as_ref().map_or_else(|| Ok(x.clone()), |w| ops::mul(x, w));
    let mean = ops::div(&ops::sum(&weighted(&x)?, Some(&[1]), false, None)?, &total)?;
    let mut factor = match (&w, aweights) {
        (Some(w), Some(a)) if correction != 0 => {
            let spread = ops::mul(&ops::sum(&ops::mul(w, a)?, None, false, None)?, &number(correction)?)?;
            sub(&total, &ops::div(&spread, &total)?)?
        }
        _ => sub(&total, &number(correction)?)?,
    };
    if factor.try_item::<f64>()? <= 0.0 {
        factor = ops::zeros_like(&factor, None, None, None, None, None)?;
    }
    let d = sub(&x, &ops::unsqueeze(&mean, 1)?)?;
    let c = ops::mm(&d, &ops::conj(&ops::t(&weighted(&d)?)?)?)?;
    ops::squeeze(&ops::div(&c, &factor)?)
}
/// `corrcoef`
pub fn corrcoef(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    let c = ops::cov(self_, 1, None, None)?;
    if c.dim() == 0 {
        // one variable: 1, or NaN
        return ops::div(&c, &c)?.try_to(c.dtype());
    }
    let d = ops::diagonal(&c, 0, 0, 1)?;
    let std = ops::sqrt(&if d.is_complex() { ops::real(&d)? } else { d })?;
    let r = ops::div(&ops::div(&c, &ops::reshape(&std, &[-1, 1])?)?, &ops::reshape(&std, &[1, -1])?)?;
    let clip = |t: &Tensor| ops::clamp(t, Some(Scalar::Int(-1)), Some(Scalar::Int(1)));
    if r.is_complex() {
        return ops::complex(&clip(&ops::real(&r)?)?, &clip(&ops::imag(&r)?)?);
    }
    clip(&r)
}

fn powers(x: &Tensor, n: i64) -> Result<Tensor> {
    let mut shape = SizeVec::from_slice(x.sizes());
    shape.push(n);
    ops::cumprod(&ops::expand(&ops::unsqueeze(x, -1)?, &shape, false)?, -1, None)
}
/// `vander`
#[allow(non_snake_case)]
pub fn vander(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure!(x.dim() == 1, Runtime, "x must be a one-dimensional tensor.");
    let len = x.sizes()[0];
    let n = n.unwrap_or(len);
    ensure!(n >= 0, Runtime, "N must be non-negative.");
    let d = if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() };
    let x = ops::to(x, Some(d), None, None, None, false, false, None)?;
    let ones = ops::ones(&[len, n.min(1)], Some(d), None, Some(x.device()), None)?;
    let up = if n <= 1 { ones } else { ops::cat(&[ones, powers(&x, n - 1)?], 1)? };
    if increasing { Ok(up) } else { ops::flip(&up, &[1]) }
}
/// `linalg_vander`
pub fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    ensure!(
        !matches!(x.dtype(), DType::Bool | DType::F16 | DType::BF16),
        Unsupported,
        "linalg.vander supports floating point, complex, and integer tensors, but got {}",
        x.dtype().scalar_type_name()
    );
    let x = if x.dim() == 0 { ops::unsqueeze(x, -1)? } else { x.clone() };
    let n = n.unwrap_or(x.sizes()[x.dim() - 1]);
    ensure!(n > 1, Runtime, "N must be greater than 1.");
    let p = powers(&x, n - 1)?;
    let mut shape = SizeVec::from_slice(x.sizes());
    shape.push(1);
    ops::cat(&[ops::ones(&shape, Some(p.dtype()), None, Some(p.device()), None)?, p], -1)
}

/// `linalg_vecdot`
pub fn linalg_vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    let inexact = |t: &Tensor| t.dtype().is_floating() || t.is_complex();
    ensure!(
        inexact(x),
        Unsupported,
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    ensure!(
        x.dtype() == y.dtype(),
        Runtime,
        "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} instead",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    ops::sum(&ops::mul(&ops::conj(x)?, y)?, Some(&[dim]), false, None)
}
/// `linalg_diagonal`
pub fn linalg_diagonal(a: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    ops::diagonal(a, offset, dim1, dim2)
}

/// `linalg_cross`
pub fn linalg_cross(self_: &Tensor, other: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(
        self_.dim() == other.dim(),
        Runtime,
        "linalg.cross: inputs must have the same number of dimensions."
    );
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(
        self_.dim() > 0 && self_.sizes()[d] == 3 && other.sizes()[d] == 3,
        Runtime,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        self_.sizes().get(d).copied().unwrap_or(1),
        other.sizes().get(d).copied().unwrap_or(1)
    );
    for t in [self_, other] {
        if matches!(t.dtype(), DType::Bool) {
            return Err(Error::not_implemented_for("cross", t.dtype()));
        }
    }
    ensure!(
        self_.dtype() == other.dtype(),
        DType,
        "expected scalar type {} but found {}",
        self_.dtype().scalar_type_name(),
        other.dtype().scalar_type_name()
    );
    // the component after the next, and the one after that, of each
    let turned = |t: &Tensor, by: i64| ops::roll(t, &[-by], &[d as i64]);
    sub(
        &ops::mul(&turned(self_, 1)?, &turned(other, 2)?)?,
        &ops::mul(&turned(self_, 2)?, &turned(other, 1)?)?,
    )
}
/// `cross`
pub fn cross(self_: &Tensor, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let d = match dim {
        Some(d) => d,
        None => match self_.sizes().iter().position(|s| *s == 3) {
            Some(d) => d as i64,
            None => bail!(Runtime, "no dimension of size 3 in input"),
        },
    };
    ops::linalg_cross(self_, other, d)
}

/// `renorm`
pub fn renorm(self_: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    ensure!(!p.is_complex(), Runtime, "renorm: p must be real-valued");
    ensure!(p.to_f64() > 0.0, Runtime, "renorm: non-positive-norm not supported");
    ensure!(!maxnorm.is_complex(), Runtime, "renorm: maxnorm must be real-valued");
    let most = maxnorm.to_f64();
    ensure!(most >= 0.0, Runtime, "renorm: expected maxnorm to be >= 0 but got {most}");
    ensure!(
        self_.dim() > 1,
        Runtime,
        "renorm: input needs at least 2 dimensions, got {} dimensions",
        self_.dim()
    );
    let d = wrap_dim(dim, self_.dim())?;
    let others: Vec<i64> = (0..self_.dim() as i64).filter(|i| *i != d as i64).collect();
    let norm = |x: &Tensor| ops::linalg_vector_norm(x, p, Some(&others), true, None);
    let mut norms = norm(self_)?;
    let above = ops::gt(&norms, &number(most)?)?;
    if self_.requires_grad() {
        // slices that stay as they are have no part in the norms' gradient, which NaN would get out of
        norms = norm(&ops::where_(&above, self_, &number(1)?)?)?;
    }
    let down = ops::div(&number(most)?, &ops::add(&norms, &number(1e-7)?, ONE)?)?;
    ops::mul(self_, &ops::where_(&above, &down, &number(1)?)?)
}

/// `as_strided_scatter`
pub fn as_strided_scatter(
    self_: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    // what does not lie in the memory is reported before the sizes
    let out = same_layout(self_)?;
    let slice = ops::as_strided(&out, size, stride, storage_offset)?;
    ensure!(
        src.sizes() == size,
        Runtime,
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        crate::tensor::geometry::fmt_sizes(src.sizes()),
        crate::tensor::geometry::fmt_sizes(size)
    );
    ops::copy_(&slice, src, false)?;
    Ok(out)
}
/// A copy of a tensor's whole memory, with the tensor's place in it.
fn same_layout(t: &Tensor) -> Result<Tensor> {
    if geometry::has_internal_overlap(t.sizes(), t.strides()) {
        return ops::clone(t, None);
    }
    if t.device() == Device::Meta {
        return Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta);
    }
    let n = (t.storage().nbytes() / t.element_size()) as i64;
    let all = Tensor::from_storage(t.storage(), &[n], &[1], 0, t.dtype())?;
    let (sizes, strides) = (SizeVec::from_slice(t.sizes()), SizeVec::from_slice(t.strides()));
    ops::clone(&all, None)?.view_typed(sizes, strides, t.storage_offset(), t.dtype(), t.lazy_bits())
}

/// `linalg_multi_dot`
pub fn linalg_multi_dot(tensors: &[Tensor]) -> Result<Tensor> {
    let [first, .., last] = tensors else {
        bail!(Runtime, "multi_dot(): expected at least 2 tensors but got {}", tensors.len());
    };
    let mut all = tensors.to_vec();
    let ends = |t: &Tensor, name: &str| -> Result<()> {
        ensure!(
            matches!(t.dim(), 1 | 2),
            Runtime,
            "multi_dot(): the {name} tensor must be 1D or 2D but got {}D",
            t.dim()
        );
        Ok(())
    };
    ends(first, "first")?;
    ends(last, "last")?;
    let (row, column) = (first.dim() == 1, last.dim() == 1);
    if row {
        all[0] = ops::unsqueeze(first, 0)?;
    }
    let k = all.len() - 1;
    if column {
        all[k] = ops::unsqueeze(last, -1)?;
    }
    for (i, t) in all.iter().enumerate() {
        ensure!(t.dim() == 2, Runtime, "multi_dot(): tensor {i} must be 2D but got {}D", t.dim());
        ensure!(
            t.dtype() == all[0].dtype(),
            Runtime,
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            all[0].dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        );
        ensure!(
            i == 0 || all[i - 1].sizes()[1] == t.sizes()[0],
            Runtime,
            "multi_dot(): tensors {} and {i} with shapes {} and {} cannot be multiplied",
            i.saturating_sub(1),
            crate::tensor::geometry::fmt_sizes(all[i.saturating_sub(1)].sizes()),
            crate::tensor::geometry::fmt_sizes(t.sizes())
        );
    }
    let mut r = ops::chain_matmul(&all)?;
    if column {
        r = ops::squeeze_dim(&r, -1)?;
    }
    if row { ops::squeeze_dim(&r, 0) } else { Ok(r) }
}

/// `isin.Tensor_Tensor`
pub fn isin(elements: &Tensor, test_elements: &Tensor, _assume_unique: bool, invert: bool) -> Result<Tensor> {
    isin_takes(elements.dtype())?;
    isin_takes(test_elements.dtype())?;
    let d = crate::iter::promotion::result_type(&[elements, test_elements])?;
    if d.is_complex() || d.is_wide_unsigned() || matches!(d, DType::F8E4M3 | DType::F8E5M2) {
        return Err(Error::not_implemented_for("isin_default_cpu", d));
    }
    found_among(elements, test_elements, invert)
}
fn isin_takes(d: DType) -> Result<()> {
    ensure!(
        !matches!(d, DType::Bool | DType::C64 | DType::C128),
        Unsupported,
        "Unsupported input type encountered for isin(): {}",
        d.scalar_type_name()
    );
    Ok(())
}
fn found_among(elements: &Tensor, test_elements: &Tensor, invert: bool) -> Result<Tensor> {
    let found = if test_elements.dim() == 0 {
        ops::eq(elements, test_elements)?
    } else if elements.numel().saturating_mul(test_elements.numel()) > 1 << 16
        && elements.dtype() == test_elements.dtype()
    {
        // every pair would be too much: the place where each element belongs among the sorted ones
        let sorted = ops::sort(&ops::flatten(test_elements, 0, -1)?, 0, false)?.0;
        let at = ops::searchsorted(&sorted, elements, false, false, None, None)?;
        let last = Scalar::Int(sorted.numel() - 1);
        ops::eq(&ops::take(&sorted, &ops::clamp(&at, None, Some(last))?)?, elements)?
    } else {
        let pairs = ops::eq(&ops::unsqueeze(elements, -1)?, &ops::flatten(test_elements, 0, -1)?)?;
        ops::any_dim(&pairs, -1, false)?
    };
    if invert { ops::logical_not(&found) } else { Ok(found) }
}
/// `isin.Tensor_Scalar`
pub fn isin_number(elements: &Tensor, test_element: Scalar, _unique: bool, invert: bool) -> Result<Tensor> {
    isin_takes(elements.dtype())?;
    match test_element {
        Scalar::Bool(_) => isin_takes(DType::Bool)?,
        Scalar::Complex(_) => isin_takes(DType::C128)?,
        _ => {}
    }
    let one = ops::eq(elements, &crate::tensor::number::wrapped_number(test_element)?)?;
    if invert { ops::logical_not(&one) } else { Ok(one) }
}
/// `isin.Scalar_Tensor`
pub fn number_isin(element: Scalar, test_elements: &Tensor, unique: bool, invert: bool) -> Result<Tensor> {
    let element = number(element)?;
    let element = match test_elements.device() {
        Device::Meta => Tensor::empty_raw(&[], element.dtype(), Device::Meta)?,
        _ => element,
    };
    isin(&element, test_elements, unique, invert)
}

/// `cdist`
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<&str>) -> Result<Tensor> {
    for (t, name) in [(x1, "X1"), (x2, "X2")] {
        ensure!(t.dim() >= 2, Runtime, "cdist only supports at least 2D tensors, {name} got: {}D", t.dim());
    }
    let (a, b) = (x1.sizes()[x1.dim() - 1], x2.sizes()[x2.dim() - 1]);
    ensure!(a == b, Runtime, "X1 and X2 must have the same number of columns. X1: {a} X2: {b}");
    for (t, name) in [(x1, "X1"), (x2, "X2")] {
        ensure!(
            t.dtype().is_floating(),
            Runtime,
            "cdist only supports floating-point dtypes, {name} got: {}",
            t.dtype().scalar_type_name()
        );
    }
    ensure!(p >= 0.0, Runtime, "cdist only supports non-negative p values");
    if let Some(m) = compute_mode {
        ensure!(
            matches!(
                m,
                "use_mm_for_euclid_dist_if_necessary"
                    | "use_mm_for_euclid_dist"
                    | "donot_use_mm_for_euclid_dist"
            ),
            Value,
            "{m} is not a valid value for compute_mode"
        );
    }
    // halves have the way over a matrix product only
    let large = x1.sizes()[x1.dim() - 2] > 25 || x2.sizes()[x2.dim() - 2] > 25;
    let by_product = p == 2.0
        && match compute_mode {
            Some("use_mm_for_euclid_dist") => true,
            Some("donot_use_mm_for_euclid_dist") => false,
            _ => large,
        };
    let half = matches!(x1.dtype(), DType::F16 | DType::BF16);
    if half && !by_product && a > 0 && x1.numel() > 0 && x2.numel() > 0 {
        return Err(Error::not_implemented_for("cdist", x1.dtype()));
    }
    let d = sub(&ops::unsqueeze(x1, -2)?, &ops::unsqueeze(x2, -3)?)?;
    if a == 0 {
        return ops::sum(&d, Some(&[-1]), false, None);
    }
    ops::linalg_vector_norm(&d, Scalar::Float(p), Some(&[-1]), false, None)
}
/// `pdist`
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    ensure!(self_.dim() == 2, Runtime, "pdist only supports 2D tensors, got: {}D", self_.dim());
    ensure!(self_.dtype().is_floating(), Runtime, "pdist only supports floating-point dtypes");
    if !matches!(self_.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented_for("pdist", self_.dtype()));
    }
    ensure!(p >= 0.0, Runtime, "pdist only supports non-negative p values");
    let n = self_.sizes()[0];
    let pairs = (n as i128 * (n as i128 - 1) / 2).clamp(0, i64::MAX as i128) as i64;
    let (mut a, mut b) = (geometry::room(pairs)?, geometry::room(pairs)?);
    for i in 0..n {
        for j in i + 1..n {
            a.push(i);
            b.push(j);
        }
    }
    let rows = |v: Vec<i64>| ops::index_select(self_, 0, &vector(v, self_.device())?);
    let d = sub(&rows(a)?, &rows(b)?)?;
    if self_.sizes()[1] == 0 {
        return ops::sum(&d, Some(&[-1]), false, None);
    }
    let n = ops::linalg_vector_norm(&d, Scalar::Float(p), Some(&[-1]), false, None)?;
    if p == 0.0 && self_.requires_grad() {
        // a count's gradient is zero here, unlike that of a norm, which is none
        let all = ops::ones_like(&ops::detach(&d)?, Some(DType::Bool), None, None, None, None)?;
        let none = ops::sum(&ops::masked_fill(&d, &all, Scalar::Int(0))?, Some(&[-1]), false, None)?;
        return ops::add(&n, &none, ONE);
    }
    Ok(n)
}

/// `empty_permuted`
pub fn empty_permuted(
    size: &[i64],
    physical_layout: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    let n = size.len();
    ensure!(
        physical_layout.len() == n,
        Runtime,
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {n} is not equal to len(physical_layout) = {}",
        physical_layout.len()
    );
    let mut seen = vec![false; n];
    let mut strides = SizeVec::from_elem(0, n);
    let mut step = 1i64;
    for d in physical_layout.iter().rev() {
        let at = usize::try_from(*d).ok().filter(|i| *i < n);
        let Some(i) = at else {
            return Err(Error::runtime(format!(
                "Dimension out of range (expected to be between 0 and {}, but got {d} at index {}).  NB: negative dims not currently supported; file an issue if you want it.",
                n.saturating_sub(1),
                physical_layout.iter().position(|x| x == d).unwrap_or(0)
            )));
        };
        ensure!(!std::mem::replace(&mut seen[i], true), Runtime, "Duplicate dim not allowed");
        strides[i] = step;
        step = step.saturating_mul(size[i].max(1));
    }
    Tensor::empty_strided_raw(size, &strides, dtype, device)
}

/// `_chunk_cat`
pub fn chunk_cat(tensors: &[Tensor], dim: i64, num_chunks: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        bail!(Runtime, "_chunk_cat expects a non-empty input tensor list");
    };
    for t in tensors {
        ensure!(t.numel() > 0, Runtime, "_chunk_cat expects non-empty tensor");
        ensure!(
            t.dtype() == first.dtype(),
            Runtime,
            "_chunk_cat expects all input tensors with the same dtype"
        );
    }
    let d = if tensors.iter().all(|t| t.dim() == first.dim()) {
        wrap_dim(dim, first.dim())?
    } else {
        ensure!(
            dim >= 0,
            Runtime,
            "_chunk_cat expects non-negative dim when input tensors have different ndims"
        );
        dim as usize
    };
    ensure!(
        tensors.iter().all(|t| d < t.dim()),
        Runtime,
        "_chunk_cat expects dim < ndim for all input tensors"
    );
    ensure!(
        tensors.iter().all(|t| t.sizes()[..d] == first.sizes()[..d]),
        Runtime,
        "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
    );
    ensure!(num_chunks >= 1, Runtime, "_chunk_cat expects positive num_chunks");
    let at = d as i64;
    let parts = tensors.iter().map(|t| {
        let n = t.sizes()[d];
        let chunk = n / num_chunks + i64::from(n % num_chunks != 0);
        let missing = geometry::size_mul(chunk, num_chunks)? - n;
        let mut whole = t.clone();
        if missing > 0 {
            let mut sizes = SizeVec::from_slice(t.sizes());
            sizes[d] = missing;
            whole =
                ops::cat(&[whole, ops::zeros(&sizes, Some(t.dtype()), None, Some(t.device()), None)?], at)?;
        }
        let mut sizes = SizeVec::from_slice(&t.sizes()[..d]);
        sizes.extend_from_slice(&[num_chunks, -1]);
        ops::reshape(&whole, &sizes)
    });
    ops::cat(&parts.collect::<Result<Vec<_>>>()?, at + 1)
}
