//! Matrix and vector products.

mod vectors;

pub use vectors::*;

use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::{copy_into, resolve_lazy};
use crate::generated::args;
use crate::iter::promotion::{ResultTypeState, can_cast};
use crate::tensor::geometry::{self, SizeVec, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, Error, bail, ensure, ops};
use flambeau_cpu::blas::erased::{self, MatAny, MatAnyMut};
use num_complex::Complex;

fn same_dtype(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        DType,
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        a.dtype().c_name(),
        b.dtype().c_name()
    );
    Ok(())
}
fn two(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// A matrix operand: itself where its strides serve, else a copy.
fn operand(t: &Tensor) -> Result<Tensor> {
    resolve_lazy(t)
}
fn strides2(t: &Tensor) -> (usize, usize) {
    let n = t.dim();
    (t.strides()[n - 2] as usize, t.strides()[n - 1] as usize)
}
/// `out = alpha a b + beta out`, all ready: same dtype, no lazy bits, `[b, m, k] x [b, k, n]` (2-d: without b).
fn gemm_into(label: &str, alpha: Scalar, a: &Tensor, b: &Tensor, beta: Scalar, out: &Tensor) -> Result<()> {
    let r = a.dim();
    let (m, k, n) = (a.sizes()[r - 2] as usize, a.sizes()[r - 1] as usize, b.sizes()[r - 1] as usize);
    if out.numel() == 0 {
        return Ok(());
    }
    let acc = Access::new(&[a, b], &[out])?;
    let (ar, ac) = strides2(a);
    let (br, bc) = strides2(b);
    let (or, oc) = strides2(out);
    let (x, y) =
        (MatAny { data: acc.any(0)?, row: ar, col: ac }, MatAny { data: acc.any(1)?, row: br, col: bc });
    let z = MatAnyMut { data: acc.any_mut(0)?, row: or, col: oc };
    let done = if r == 2 {
        erased::gemm(m, n, k, alpha.param(), x, y, beta.param(), z)
    } else {
        let s = |t: &Tensor| if t.sizes()[0] == 1 { 0 } else { t.strides()[0] as usize };
        erased::gemm_batched(
            out.sizes()[0] as usize,
            m,
            n,
            k,
            alpha.param(),
            (x, s(a)),
            (y, s(b)),
            beta.param(),
            (z, out.strides()[0] as usize),
        )
    };
    done.ok_or_else(|| Error::not_implemented_for(label, a.dtype()))
}
/// PyTorch's CPU products have no kernel for bool.
fn no_bool(label: &str, t: &Tensor) -> Result<()> {
    ensure!(t.dtype() != DType::Bool, Unsupported, "\"{label}\" not implemented for 'Bool'");
    Ok(())
}

/// `mm`
pub fn mm_shape(&args::Mm { self_, mat2 }: &args::Mm) -> Result<OutMeta> {
    product_meta("mm", self_, mat2)
}
/// The shape rule of a product of matrices.
fn product_meta(name: &str, self_: &Tensor, mat2: &Tensor) -> Result<OutMeta> {
    ensure!(self_.dim() == 2, Runtime, "{name}: self must be a matrix, got {}-D tensor", self_.dim());
    ensure!(mat2.dim() == 2, Runtime, "{name}: mat2 must be a matrix, got {}-D tensor", mat2.dim());
    ensure!(
        self_.sizes()[1] == mat2.sizes()[0],
        Runtime,
        "{name}: mat1 and mat2 shapes cannot be multiplied ({} and {})",
        two(self_.sizes()),
        two(mat2.sizes())
    );
    same_dtype(self_, mat2)?;
    Ok(OutMeta::of(
        &[self_.sizes()[0], mat2.sizes()[1]],
        self_.dtype(),
        crate::iter::common_device(&[self_, mat2])?,
    ))
}
/// `mm`
pub fn mm_cpu(&args::Mm { self_, mat2 }: &args::Mm, out: &Tensor) -> Result<()> {
    no_bool(ADDMM, self_)?;
    gemm_into(ADDMM, Scalar::Int(1), &operand(self_)?, &operand(mat2)?, Scalar::Int(0), out)
}

/// `bmm`
pub fn bmm_shape(&args::Bmm { self_, mat2 }: &args::Bmm) -> Result<OutMeta> {
    ensure!(self_.dim() == 3, Runtime, "batch1 must be a 3D tensor");
    ensure!(mat2.dim() == 3, Runtime, "batch2 must be a 3D tensor");
    let (s, t) = (self_.sizes(), mat2.sizes());
    ensure!(
        s[0] == t[0] && s[2] == t[1],
        Runtime,
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        s[0],
        s[2],
        t[0],
        t[1]
    );
    let small = few_products(self_, mat2);
    if self_.dtype() != mat2.dtype() && small {
        no_bool("bmm", self_)?;
    }
    let by_library = matches!(mat2.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128);
    if !small && !by_library {
        same_dtype(self_, mat2)?;
    }
    // which of the two is called wrong depends on the way that PyTorch takes
    let (want, found) = if small { (self_, mat2) } else { (mat2, self_) };
    ensure!(
        want.dtype() == found.dtype(),
        DType,
        "expected scalar type {} but found {}",
        want.dtype().scalar_type_name(),
        found.dtype().scalar_type_name()
    );
    Ok(OutMeta::of(&[s[0], s[1], t[2]], self_.dtype(), crate::iter::common_device(&[self_, mat2])?))
}
/// Products that PyTorch computes by plain loops. Larger ones go matrix by matrix, which names another function in errors.
fn few_products(a: &Tensor, b: &Tensor) -> bool {
    let (s, t) = (a.sizes(), b.sizes());
    s[1].saturating_mul(s[2]).saturating_mul(t[2]) < 400
}
/// `bmm`
pub fn bmm_cpu(&args::Bmm { self_, mat2 }: &args::Bmm, out: &Tensor) -> Result<()> {
    no_bool(if few_products(self_, mat2) { "bmm" } else { ADDMM }, self_)?;
    gemm_into("bmm", Scalar::Int(1), &operand(self_)?, &operand(mat2)?, Scalar::Int(0), out)
}

fn check_scale(dtype: DType, s: Scalar, name: &str) -> Result<()> {
    if dtype.is_integral(true) {
        ensure!(
            s.is_integral(true),
            Runtime,
            "For integral input tensors, argument {name} must not be a floating point number."
        );
    }
    Ok(())
}
/// A factor in the dtype of a product: of integers its whole part.
fn scale(dtype: DType, s: Scalar) -> Result<Scalar> {
    if !dtype.is_integral(true) {
        // the imaginary part of a number is not dropped
        if !dtype.is_complex() && s.to_complex().im != 0.0 {
            return Err(crate::types::scalar::too_large(dtype));
        }
        return Ok(s);
    }
    ensure!(!s.is_complex(), Runtime, "value cannot be converted to type int64_t without overflow");
    Ok(Scalar::Int(s.to_i64()))
}
/// What "not implemented for" calls PyTorch's product of two matrices.
const ADDMM: &str = "addmm_impl_cpu_";
/// `out = beta self + alpha (a b)`, with `self` broadcast; a zero `beta` ignores `self`, NaN included.
fn scaled_into(
    label: &str,
    self_: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    out: &Tensor,
) -> Result<()> {
    if label == ADDMM && a.numel() == 0 && out.numel() > 0 && beta.to_complex() != Complex::ZERO {
        // without products PyTorch multiplies by beta, and says what that says
        let mut d = ResultTypeState::default();
        d.tensor(self_)?;
        d.scalar(beta)?;
        let d = d.finish()?;
        ensure!(
            can_cast(d, out.dtype()),
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            d.scalar_type_name(),
            out.dtype().scalar_type_name()
        );
    }
    no_bool(label, a)?;
    let (beta, alpha) = (scale(a.dtype(), beta)?, scale(a.dtype(), alpha)?);
    if out.numel() == 0 {
        return Ok(());
    }
    if !beta.equals(0.0) {
        copy_into(out, self_)?;
    }
    gemm_into(label, alpha, &operand(a)?, &operand(b)?, beta, out)
}
/// A size that is asked for before the number of dimensions is checked.
fn size_at(t: &Tensor, dim: i64) -> Result<i64> {
    Ok(t.sizes()[geometry::wrap_dim_strict(dim, t.dim())?])
}
fn broadcasts(self_: &Tensor, sizes: &[i64]) -> Result<()> {
    ops::expand(self_, sizes, false).map(drop)
}
fn same_self(self_: &Tensor, a: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == a.dtype(),
        DType,
        "self and mat2 must have the same dtype, but got {} and {}",
        self_.dtype().scalar_type_name(),
        a.dtype().scalar_type_name()
    );
    Ok(())
}

/// `addmm`
pub fn addmm_shape(&args::Addmm { self_, mat1, mat2, .. }: &args::Addmm) -> Result<OutMeta> {
    same_self(self_, mat2)?;
    ensure!(
        mat1.dtype() == mat2.dtype(),
        DType,
        "mat1 and mat2 must have the same dtype, but got {} and {}",
        mat1.dtype().scalar_type_name(),
        mat2.dtype().scalar_type_name()
    );
    let m = product_meta("addmm", mat1, mat2)?;
    broadcasts(self_, &m.sizes)?;
    Ok(m)
}
/// `addmm`
pub fn addmm_cpu(&args::Addmm { self_, mat1, mat2, beta, alpha }: &args::Addmm, out: &Tensor) -> Result<()> {
    scaled_into(ADDMM, self_, mat1, mat2, beta, alpha, out)
}
/// `baddbmm`
pub fn baddbmm_shape(&args::Baddbmm { self_, batch1, batch2, .. }: &args::Baddbmm) -> Result<OutMeta> {
    broadcasts(self_, &[size_at(batch1, 0)?, size_at(batch1, 1)?, size_at(batch2, 2)?])?;
    ensure!(
        self_.dtype() == batch1.dtype(),
        DType,
        "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
        self_.dtype().c_name(),
        batch1.dtype().c_name(),
        batch2.dtype().c_name()
    );
    bmm_shape(&args::Bmm { self_: batch1, mat2: batch2 })
}
/// `baddbmm`
pub fn baddbmm_cpu(
    &args::Baddbmm { self_, batch1, batch2, beta, alpha }: &args::Baddbmm,
    out: &Tensor,
) -> Result<()> {
    scaled_into("baddbmm", self_, batch1, batch2, beta, alpha, out)
}
/// `addbmm`: the sum of the batch's products.
pub fn addbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    broadcasts(self_, &[size_at(batch1, 1)?, size_at(batch2, 2)?])?;
    ensure!(batch1.dim() == 3, Runtime, "batch1 must be a 3D tensor");
    ensure!(batch2.dim() == 3, Runtime, "batch2 must be a 3D tensor");
    let (s, t) = (batch1.sizes(), batch2.sizes());
    ensure!(
        s[0] == t[0],
        Runtime,
        "batch1 and batch2 must have same number of batches, got {} and {}",
        s[0],
        t[0]
    );
    ensure!(
        s[2] == t[1],
        Runtime,
        "Incompatible matrix sizes for bmm ({} and {})",
        two(&s[1..]),
        two(&t[1..])
    );
    let (b, r, k) = (batch1.sizes()[0], batch1.sizes()[1], batch1.sizes()[2]);
    let c = batch2.sizes()[2];
    if b > 0 && matches!(batch1.dtype(), DType::F16 | DType::BF16) {
        // PyTorch adds one product after the other, and each sum is rounded
        let add = |sum: Result<Tensor>, i: i64| {
            let beta = if i == 0 { beta } else { Scalar::Int(1) };
            ops::addmm(&sum?, &ops::select(batch1, 0, i)?, &ops::select(batch2, 0, i)?, beta, alpha)
        };
        return (0..b).fold(Ok(self_.clone()), add);
    }
    // one product of [r, b k] and [b k, c]
    let x = ops::reshape(&ops::transpose(batch1, 0, 1)?, &[r, b * k])?;
    let y = ops::reshape(batch2, &[b * k, c])?;
    ops::addmm(self_, &x, &y, beta, alpha)
}

/// `mv`
pub fn mv(self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    size_at(self_, 0)?;
    ensure!(
        self_.dim() == 2 && vec.dim() == 1,
        Runtime,
        "vector + matrix @ vector expected, got 1, {}, {}",
        self_.dim(),
        vec.dim()
    );
    ensure!(
        self_.sizes()[1] == vec.sizes()[0],
        Runtime,
        "size mismatch, got input ({}), mat ({}), vec ({})",
        self_.sizes()[0],
        two(self_.sizes()),
        vec.sizes()[0]
    );
    same_in_addmv(vec, self_, vec)?;
    ops::squeeze_dim(&ops::mm(self_, &ops::unsqueeze(vec, 1)?)?, 1)
}
/// Products with a vector do not promote, and have no kernel for bool.
fn same_in_addmv(self_: &Tensor, mat: &Tensor, vec: &Tensor) -> Result<()> {
    ensure!(
        mat.dtype() == vec.dtype() && self_.dtype() == vec.dtype(),
        DType,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        self_.dtype().scalar_type_name(),
        mat.dtype().scalar_type_name(),
        vec.dtype().scalar_type_name()
    );
    no_bool("addmv_impl_cpu", mat)
}
/// `addmv`
pub fn addmv(self_: &Tensor, mat: &Tensor, vec: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    ensure!(
        mat.dim() == 2 && vec.dim() == 1 && self_.dim() <= 1,
        Runtime,
        "vector + matrix @ vector expected, got {}, {}, {}",
        self_.dim(),
        mat.dim(),
        vec.dim()
    );
    if mat.sizes()[1] != vec.sizes()[0] || (self_.numel() != mat.sizes()[0] && self_.numel() != 1) {
        let (input, mat) = (size_at(self_, 0)?, two(mat.sizes()));
        bail!(Runtime, "size mismatch, got input ({input}), mat ({mat}), vec ({})", vec.sizes()[0]);
    }
    same_in_addmv(self_, mat, vec)?;
    let bias = ops::expand(self_, &[mat.sizes()[0]], false)?;
    let r = ops::addmm(&ops::unsqueeze(&bias, 1)?, mat, &ops::unsqueeze(vec, 1)?, beta, alpha)?;
    ops::squeeze_dim(&r, 1)
}
/// `addmv_` keeps the size of its input, after the checks of all forms.
pub fn addmv_inplace_check(self_: &Tensor, mat: &Tensor, vec: &Tensor, _: Scalar, _: Scalar) -> Result<()> {
    if mat.dim() != 2 || vec.dim() != 1 || self_.dim() > 1 || mat.sizes()[1] != vec.sizes()[0] {
        return Ok(());
    }
    same_in_addmv(self_, mat, vec)?;
    ensure!(
        self_.numel() != 1 || self_.sizes() == [mat.sizes()[0]],
        Shape,
        "Bad in-place call: input tensor size {} and output tensor size [{}] should match",
        fmt_sizes(self_.sizes()),
        mat.sizes()[0]
    );
    Ok(())
}
/// `addr_` takes its input as it is, without broadcasting.
pub fn addr_inplace_check(self_: &Tensor, vec1: &Tensor, vec2: &Tensor, _: Scalar, _: Scalar) -> Result<()> {
    if vec1.dim() != 1 || vec2.dim() != 1 {
        // the check of all forms says that
        return Ok(());
    }
    ensure!(self_.dim() == 2, Runtime, "2D tensor expected, got {}D tensor for input", self_.dim());
    ensure!(
        self_.sizes() == [vec1.numel(), vec2.numel()],
        Runtime,
        "size mismatch, input: {}, v1: {}, v2: {}",
        fmt_sizes(self_.sizes()),
        fmt_sizes(vec1.sizes()),
        fmt_sizes(vec2.sizes())
    );
    Ok(())
}
/// `addr`
pub fn addr(self_: &Tensor, vec1: &Tensor, vec2: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    ensure!(
        vec1.dim() == 1 && vec2.dim() == 1,
        Runtime,
        "addr: Expected 1-D argument vec{}, but got {}-D",
        if vec1.dim() == 1 { 2 } else { 1 },
        if vec1.dim() == 1 { vec2.dim() } else { vec1.dim() }
    );
    let number = crate::tensor::wrapped_number::wrapped_number;
    let common = crate::iter::promotion::result_type(&[self_, vec1, vec2])?;
    let bool_out = common == DType::Bool;
    if !bool_out {
        check_scale(common, beta, "beta")?;
        check_scale(common, alpha, "alpha")?;
        if common.is_floating() {
            scale(common, beta)?;
            scale(common, alpha)?;
        }
    }
    broadcasts(self_, &[vec1.numel(), vec2.numel()])?;
    let cast = |t: &Tensor| ops::to(t, Some(common), None, None, None, false, false, None);
    let o = ops::outer(&cast(vec1)?, &cast(vec2)?)?;
    let o = if alpha.equals(1.0) { o } else { ops::mul(&o, &number(alpha)?)? };
    let s = cast(self_)?;
    if beta.equals(0.0) {
        // what `self` holds does not count
        return Ok(o);
    }
    let s = if beta.equals(1.0) { s } else { ops::mul(&s, &number(beta)?)? };
    let r = ops::add(&s, &o, Scalar::Int(1))?;
    ops::to(&r, Some(common), None, None, None, false, false, None)
}
/// `outer`
pub fn outer(self_: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() == 1, Runtime, "outer: Expected 1-D argument self, but got {}-D", self_.dim());
    ensure!(vec2.dim() == 1, Runtime, "outer: Expected 1-D argument vec2, but got {}-D", vec2.dim());
    ops::mul(&ops::unsqueeze(self_, 1)?, vec2)
}

fn check_dot(self_: &Tensor, other: &Tensor) -> Result<()> {
    ensure!(
        self_.dim() == 1 && other.dim() == 1,
        Runtime,
        "1D tensors expected, but got {}D and {}D tensors",
        self_.dim(),
        other.dim()
    );
    ensure!(
        self_.dtype() == other.dtype(),
        DType,
        "dot : expected both vectors to have same dtype, but found {} and {}",
        self_.dtype().scalar_type_name(),
        other.dtype().scalar_type_name()
    );
    ensure!(
        self_.numel() == other.numel(),
        Runtime,
        "inconsistent tensor size, expected tensor {} and src {} to have the same number of elements, but got {} and {} elements respectively",
        fmt_sizes(self_.sizes()),
        fmt_sizes(other.sizes()),
        self_.numel(),
        other.numel()
    );
    Ok(())
}
/// `dot`
pub fn dot_shape(&args::Dot { self_, tensor }: &args::Dot) -> Result<OutMeta> {
    check_dot(self_, tensor)?;
    Ok(OutMeta::of(&[], self_.dtype(), self_.device()))
}
/// `dot`
pub fn dot_cpu(&args::Dot { self_, tensor }: &args::Dot, out: &Tensor) -> Result<()> {
    no_bool("dot", self_)?;
    if self_.dtype() == DType::C32 {
        return Err(Error::not_implemented_for("dot", self_.dtype()));
    }
    let (x, y) = (resolve_lazy(self_)?, resolve_lazy(tensor)?);
    let a = Access::new(&[&x, &y], &[out])?;
    erased::dot(
        x.numel() as usize,
        a.any(0)?,
        x.strides()[0] as usize,
        a.any(1)?,
        y.strides()[0] as usize,
        a.any_mut(0)?,
    )
    .ok_or_else(|| Error::not_implemented_for("dot", x.dtype()))
}
/// `vdot`
pub fn vdot(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    check_dot(self_, other)?;
    if self_.dtype() == DType::C32 {
        return Err(Error::not_implemented_for("vdot", self_.dtype()));
    }
    ops::dot(&ops::conj(self_)?, other)
}
/// `inner`
pub fn inner(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 || other.dim() == 0 {
        return ops::mul(self_, other);
    }
    let alike = self_.dtype() == other.dtype();
    if alike
        && self_.dim() == 1
        && self_.sizes() == other.sizes()
        && self_.numel() != 1
        && !self_.dtype().is_wide_unsigned()
    {
        return ops::dot(self_, other);
    }
    ensure!(
        self_.sizes().last() == other.sizes().last(),
        Runtime,
        "inner() the last dimension must match on both input tensors but got shapes {} and {}",
        fmt_sizes(self_.sizes()),
        fmt_sizes(other.sizes())
    );
    ensure!(alike, DType, "both inputs should have same dtype");
    ops::tensordot(self_, other, &[-1], &[-1])
}

/// `matmul`
pub fn matmul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (a, b) = (self_, other);
    ensure!(
        a.dim() != 0 && b.dim() != 0,
        Runtime,
        "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
        a.dim(),
        b.dim()
    );
    match (a.dim(), b.dim()) {
        (1, 1) => return ops::dot(a, b),
        (2, 1) => return ops::mv(a, b),
        (1, 2) => {
            return ops::squeeze_dim(&ops::mm(&ops::unsqueeze(a, 0)?, b)?, 0);
        }
        (2, 2) => return ops::mm(a, b),
        _ => {}
    }
    // a batch of rows against one matrix is a single product
    if a.dim() >= 3 && b.dim() <= 2 {
        let k = a.sizes()[a.dim() - 1];
        let rows: i64 = a.sizes()[..a.dim() - 1].iter().product();
        let flat = ops::reshape(a, &[rows, k])?;
        let mut shape = SizeVec::from_slice(&a.sizes()[..a.dim() - 1]);
        return if b.dim() == 1 {
            ops::reshape(&ops::mv(&flat, b)?, &shape)
        } else {
            shape.push(b.sizes()[1]);
            ops::reshape(&ops::mm(&flat, b)?, &shape)
        };
    }
    let (squeeze_a, squeeze_b) = (a.dim() == 1, b.dim() == 1);
    let a = if squeeze_a { ops::unsqueeze(a, 0)? } else { a.clone() };
    let b = if squeeze_b { ops::unsqueeze(b, -1)? } else { b.clone() };
    let (ra, rb) = (a.dim(), b.dim());
    let batch = geometry::broadcast_shapes(&a.sizes()[..ra - 2], &b.sizes()[..rb - 2])?;
    let (m, k) = (a.sizes()[ra - 2], a.sizes()[ra - 1]);
    let (k2, n) = (b.sizes()[rb - 2], b.sizes()[rb - 1]);
    let count: i64 = batch.iter().product();
    let full = |t: &Tensor, r: i64, c: i64| -> Result<Tensor> {
        let mut shape = batch.clone();
        shape.extend_from_slice(&[r, c]);
        ops::reshape(&ops::expand(t, &shape, false)?, &[count, r, c])
    };
    let _ = k2;
    let r = ops::bmm(&full(&a, m, k)?, &full(&b, k2, n)?)?;
    let mut shape = batch.clone();
    if !squeeze_a {
        shape.push(m);
    }
    if !squeeze_b {
        shape.push(n);
    }
    ops::reshape(&r, &shape)
}

/// `tensordot`
pub fn tensordot(self_: &Tensor, other: &Tensor, dims_self: &[i64], dims_other: &[i64]) -> Result<Tensor> {
    ensure!(dims_self.len() == dims_other.len(), Runtime, "both dimension lists should have same length");
    ensure!(self_.dtype() == other.dtype(), DType, "both inputs should have same dtype");
    let (mut a, mut b) = (self_.clone(), other.clone());
    let mut contracted: i64 = 1;
    for (x, y) in dims_self.iter().zip(dims_other) {
        let (s, t) = (size_at(&a, *x)?, size_at(&b, *y)?);
        // what is broadcast is summed first, and so is a single element
        if t == 1 {
            a = ops::sum(&a, Some(&[*x]), true, Some(a.dtype()))?;
        } else if s == 1 {
            b = ops::sum(&b, Some(&[*y]), true, Some(b.dtype()))?;
        } else {
            ensure!(
                s == t,
                Runtime,
                "contracted dimensions need to match, but first has size {s} in dim {x} and second has size {t} in dim {y}"
            );
            contracted *= s;
        }
    }
    let da = geometry::wrap_dims(dims_self, self_.dim())?;
    let db = geometry::wrap_dims(dims_other, other.dim())?;
    let free = |t: &Tensor, d: &[usize]| -> SizeVec {
        (0..t.dim()).filter(|i| !d.contains(i)).map(|i| i as i64).collect()
    };
    let (fa, fb) = (free(&a, &da), free(&b, &db));
    let used = |t: &Tensor, d: &[usize]| -> SizeVec {
        d.iter().filter(|i| **i < t.dim()).map(|i| *i as i64).collect()
    };
    let order_a: SizeVec = fa.iter().copied().chain(used(&a, &da)).collect();
    let order_b: SizeVec = used(&b, &db).into_iter().chain(fb.iter().copied()).collect();
    let rows: i64 = fa.iter().map(|d| a.sizes()[*d as usize]).product();
    let cols: i64 = fb.iter().map(|d| b.sizes()[*d as usize]).product();
    let shape: SizeVec =
        fa.iter().map(|d| a.sizes()[*d as usize]).chain(fb.iter().map(|d| b.sizes()[*d as usize])).collect();
    geometry::checked_bytes(&shape, a.element_size())?;
    let x = ops::reshape(&ops::permute(&a, &order_a)?, &[rows, contracted])?;
    let y = ops::reshape(&ops::permute(&b, &order_b)?, &[contracted, cols])?;
    if rows == 1 && cols == 1 {
        // the products are summed there
        let d = a.dtype();
        if d.is_wide_unsigned() || matches!(d, DType::C32 | DType::F8E4M3 | DType::F8E5M2) {
            return Err(Error::not_implemented_for("sum_cpu", d));
        }
        let dot = ops::dot(&ops::reshape(&x, &[contracted])?, &ops::reshape(&y, &[contracted])?)?;
        return ops::reshape(&dot, &shape);
    }
    ops::reshape(&ops::mm(&x, &y)?, &shape)
}

/// `kron`
pub fn kron(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let n = self_.dim().max(other.dim());
    let pad = |t: &Tensor| -> SizeVec {
        std::iter::repeat_n(1, n - t.dim()).chain(t.sizes().iter().copied()).collect()
    };
    let (sa, sb) = (pad(self_), pad(other));
    let (mut va, mut vb, mut out) = (SizeVec::new(), SizeVec::new(), SizeVec::new());
    for i in 0..n {
        va.extend_from_slice(&[sa[i], 1]);
        vb.extend_from_slice(&[1, sb[i]]);
        out.push(crate::tensor::geometry::size_mul(sa[i], sb[i])?);
    }
    crate::tensor::geometry::checked_numel(&out)?;
    ops::reshape(&ops::mul(&ops::reshape(self_, &va)?, &ops::reshape(other, &vb)?)?, &out)
}
/// `chain_matmul`
pub fn chain_matmul(matrices: &[Tensor]) -> Result<Tensor> {
    let Some((first, rest)) = matrices.split_first() else {
        bail!(Runtime, "chain_matmul(): Expected one or more matrices");
    };
    for m in matrices {
        ensure!(m.dim() == 2, Runtime, "Tensor dimension is {}, expected 2 instead.", m.dim());
    }
    for (i, m) in rest.iter().enumerate() {
        ensure!(
            m.dtype() == first.dtype(),
            Runtime,
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {} {}",
            first.dtype().c_name(),
            i + 1,
            m.dtype().c_name()
        );
        let (x, y) = (&matrices[i], m);
        ensure!(
            x.sizes()[1] == y.sizes()[0],
            Runtime,
            "multi_dot(): tensors {i} and {} with shapes {} and {} cannot be multiplied",
            i + 1,
            geometry::fmt_sizes(x.sizes()),
            geometry::fmt_sizes(y.sizes())
        );
    }
    // the order of products that takes the fewest multiplications, by dynamic programming
    let n = matrices.len();
    if n <= 2 {
        return rest.iter().try_fold(first.clone(), |acc, m| ops::mm(&acc, m));
    }
    let dims: Vec<f64> = std::iter::once(first.sizes()[0])
        .chain(matrices.iter().map(|m| m.sizes()[1]))
        .map(|d| d as f64)
        .collect();
    if let [a, b, c] = matrices {
        // the middle one joins the first unless that is dearer
        let [i, j, k, l] = [dims[0], dims[1], dims[2], dims[3]];
        return if i * k * (j + l) > j * l * (i + k) {
            ops::mm(a, &ops::mm(b, c)?)
        } else {
            ops::mm(&ops::mm(a, b)?, c)
        };
    }
    let mut cost = vec![vec![0.0f64; n]; n];
    let mut cut = vec![vec![0usize; n]; n];
    for len in 1..n {
        for i in 0..n - len {
            let j = i + len;
            cost[i][j] = f64::INFINITY;
            for k in i..j {
                let c = cost[i][k] + cost[k + 1][j] + dims[i] * dims[k + 1] * dims[j + 1];
                if c < cost[i][j] {
                    (cost[i][j], cut[i][j]) = (c, k);
                }
            }
        }
    }
    fn product(m: &[Tensor], cut: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
        if i == j {
            return Ok(m[i].clone());
        }
        let k = cut[i][j];
        ops::mm(&product(m, cut, i, k)?, &product(m, cut, k + 1, j)?)
    }
    product(matrices, &cut, 0, n - 1)
}

/// `matrix_power`
pub fn matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    ensure!(
        self_.dim() >= 2,
        Runtime,
        "linalg.matrix_power: The input tensor A must have at least 2 dimensions."
    );
    let d = self_.dim();
    ensure!(
        self_.sizes()[d - 1] == self_.sizes()[d - 2],
        Runtime,
        "linalg.matrix_power: A must be batches of square matrices, but they are {} by {} matrices",
        self_.sizes()[d - 2],
        self_.sizes()[d - 1]
    );
    if n < 0 {
        let inverse = ops::linalg_inv(self_)?;
        return matrix_power(&inverse, n.checked_neg().unwrap_or(i64::MAX));
    }
    if n == 0 {
        let eye = ops::eye(self_.sizes()[d - 1], Some(self_.dtype()), None, Some(self_.device()), None)?;
        // whatever the matrix, and its gradient is zero
        let all = ops::ones_like(self_, Some(DType::Bool), None, None, None, None)?;
        let nothing = ops::masked_fill(self_, &all, Scalar::Int(0))?;
        return ops::add(&nothing, &eye, Scalar::Int(1));
    }
    let (mut base, mut acc, mut e) = (self_.clone(), None, n);
    loop {
        if e & 1 == 1 {
            acc = Some(match acc {
                None => base.clone(),
                Some(a) => ops::matmul(&a, &base)?,
            });
        }
        e >>= 1;
        if e == 0 {
            break;
        }
        base = ops::matmul(&base, &base)?;
    }
    acc.map_or_else(|| ops::clone(self_, None), Ok)
}

/// Factors in the dtype that the result shall have.
fn widened(a: &Tensor, b: &Tensor, d: DType) -> Result<(Tensor, Tensor)> {
    let half = matches!(a.dtype(), DType::F16 | DType::BF16);
    ensure!(
        d == a.dtype() || (half && d == DType::F32),
        Runtime,
        "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs"
    );
    same_dtype(a, b)?;
    Ok((to_dtype(a, d)?, to_dtype(b, d)?))
}
fn to_dtype(t: &Tensor, d: DType) -> Result<Tensor> {
    ops::to(t, Some(d), None, None, None, false, false, None)
}
/// `mm.dtype`
pub fn mm_dtype(self_: &Tensor, mat2: &Tensor, out_dtype: DType) -> Result<Tensor> {
    let (a, b) = widened(self_, mat2, out_dtype)?;
    ops::mm(&a, &b)
}
/// `bmm.dtype`
pub fn bmm_dtype(self_: &Tensor, mat2: &Tensor, out_dtype: DType) -> Result<Tensor> {
    let (a, b) = widened(self_, mat2, out_dtype)?;
    ops::bmm(&a, &b)
}
/// `addmm.dtype`
pub fn addmm_dtype(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    out_dtype: DType,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let (a, b) = widened(mat1, mat2, out_dtype)?;
    ops::addmm(&to_dtype(self_, out_dtype)?, &a, &b, beta, alpha)
}
/// `baddbmm.dtype`
pub fn baddbmm_dtype(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    out_dtype: DType,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let (a, b) = widened(batch1, batch2, out_dtype)?;
    ops::baddbmm(&to_dtype(self_, out_dtype)?, &a, &b, beta, alpha)
}
