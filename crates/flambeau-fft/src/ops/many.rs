//! Transforms in several dimensions.

use super::util::{as_dims, norm_of, points, promoted, resized, shape_and_dims};
use flambeau_core::{Result, Tensor, ensure, ops as core};

type Norm<'a> = Option<&'a str>;
type Ints<'a> = Option<&'a [i64]>;

fn complex(t: &Tensor, s: Ints, dim: Ints, norm: Norm, forward: bool) -> Result<Tensor> {
    let (sizes, dims) = shape_and_dims(t, s, dim)?;
    let x = resized(&promoted(t, true)?, &dims, &sizes)?;
    super::fft_c2c(&x, &as_dims(&dims), norm_of(norm, forward)?, forward)
}
fn some_axis(dims: &[usize], name: &str) -> Result<()> {
    ensure!(!dims.is_empty(), Runtime, "{name} must transform at least one axis");
    Ok(())
}
/// Of half a spectrum: the dimensions, the sizes to cut or fill the input to, and the last size of the result.
fn half(name: &str, t: &Tensor, s: Ints, dim: Ints) -> Result<(Vec<i64>, Vec<usize>, i64)> {
    let (mut sizes, dims) = shape_and_dims(t, s, dim)?;
    some_axis(&dims, name)?;
    let last = dims.len() - 1;
    let size = match s.and_then(|s| s.last()) {
        None | Some(-1) => 2 * (t.sizes()[dims[last]] - 1),
        Some(_) => sizes[last],
    };
    points(size)?;
    sizes[last] = size / 2 + 1;
    Ok((sizes, dims, size))
}

/// `fft_fftn`
pub fn fft_fftn(self_: &Tensor, s: Ints, dim: Ints, norm: Norm) -> Result<Tensor> {
    complex(self_, s, dim, norm, true)
}
/// `fft_ifftn`
pub fn fft_ifftn(self_: &Tensor, s: Ints, dim: Ints, norm: Norm) -> Result<Tensor> {
    complex(self_, s, dim, norm, false)
}
/// `fft_rfftn`
pub fn fft_rfftn(self_: &Tensor, s: Ints, dim: Ints, norm: Norm) -> Result<Tensor> {
    ensure!(
        !self_.dtype().is_complex(),
        Type,
        "rfftn expects a real-valued input tensor, but got {}",
        self_.dtype().scalar_type_name()
    );
    let (sizes, dims) = shape_and_dims(self_, s, dim)?;
    some_axis(&dims, "rfftn")?;
    let x = resized(&promoted(self_, false)?, &dims, &sizes)?;
    super::fft_r2c(&x, &as_dims(&dims), norm_of(norm, true)?, true)
}
/// `fft_irfftn`
pub fn fft_irfftn(self_: &Tensor, s: Ints, dim: Ints, norm: Norm) -> Result<Tensor> {
    let (sizes, dims, size) = half("irfftn", self_, s, dim)?;
    let x = resized(&promoted(self_, true)?, &dims, &sizes)?;
    super::fft_c2r(&x, &as_dims(&dims), norm_of(norm, false)?, size)
}
/// `fft_hfftn`
pub fn fft_hfftn(self_: &Tensor, s: Ints, dim: Ints, norm: Norm) -> Result<Tensor> {
    let (sizes, dims, size) = half("hfftn", self_, s, dim)?;
    let mut x = resized(&promoted(self_, true)?, &dims, &sizes)?;
    let norm = norm_of(norm, true)?;
    let dims = as_dims(&dims);
    let (rest, last) = dims.split_at(dims.len() - 1);
    if !rest.is_empty() {
        x = super::fft_c2c(&x, rest, norm, true)?;
    }
    super::fft_c2r(&core::conj(&x)?, last, norm, size)
}
/// `fft_ihfftn`
pub fn fft_ihfftn(self_: &Tensor, s: Ints, dim: Ints, norm: Norm) -> Result<Tensor> {
    let (sizes, dims) = shape_and_dims(self_, s, dim)?;
    some_axis(&dims, "ihfftn")?;
    let x = resized(&promoted(self_, false)?, &dims, &sizes)?;
    let norm = norm_of(norm, false)?;
    let dims = as_dims(&dims);
    let (rest, last) = dims.split_at(dims.len() - 1);
    let y = super::fft_r2c(&x, last, norm, true)?;
    if rest.is_empty() {
        return core::conj(&y);
    }
    super::fft_c2c(&core::conj_physical(&y)?, rest, norm, false)
}

macro_rules! two {
    ($($two:ident $many:ident;)*) => {$(
        #[doc = concat!("`", stringify!($two), "`")]
        pub fn $two(self_: &Tensor, s: Ints, dim: &[i64], norm: Norm) -> Result<Tensor> {
            $many(self_, s, Some(dim), norm)
        }
    )*};
}
two! {
    fft_fft2 fft_fftn;
    fft_ifft2 fft_ifftn;
    fft_rfft2 fft_rfftn;
    fft_irfft2 fft_irfftn;
    fft_hfft2 fft_hfftn;
    fft_ihfft2 fft_ihfftn;
}
