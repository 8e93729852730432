//! Normalisation over neighbouring channels.

use crate::modules::{layer, plain};
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::shorthand::number;
use flambeau_core::backend::transfer::to_device;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::{class, fields};
use flambeau_nn_functional::ops as f;

/// What the neighbours count for.
#[fields]
pub(crate) struct Response {
    /// Number of neighbouring channels.
    pub size: i64,
    /// Factor of the mean square.
    #[default(1e-4)]
    pub alpha: Scalar,
    /// Exponent.
    #[default(0.75)]
    pub beta: Scalar,
    /// Added to the mean square.
    #[default(1.0)]
    pub k: Scalar,
}

#[class("torch.nn.LocalResponseNorm", build = LocalResponseNorm, include(Response), repr(size, alpha=, beta=, k=))]
pub struct LocalResponseNormOptions {}
plain!(
    /// `x / (k + alpha * mean(x^2 of neighbouring channels))^beta` (Krizhevsky et al. 2012), of `(N, C, *)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let norm = nn::LocalResponseNorm::new(2);
    /// assert_eq!(norm.call(&torch::randn([1, 3, 4, 4])).sizes(), [1, 3, 4, 4]);
    /// ```
    LocalResponseNorm, LocalResponseNormOptions
);
layer!(LocalResponseNorm, |m, x| {
    let o = &m.options;
    f::local_response_norm(x, o.size, o.alpha.to_f64(), o.beta.to_f64(), o.k.to_f64())
});

#[class("torch.nn.CrossMapLRN2d", build = CrossMapLRN2d, include(Response(k = 1)), repr(size, alpha=, beta=, k=))]
pub struct CrossMapLRN2dOptions {}
plain!(
    /// The former form of [`LocalResponseNorm`], of `(N, C, H, W)`. Values and gradients are PyTorch's, whose running sums
    /// never let go of the first channel.
    CrossMapLRN2d, CrossMapLRN2dOptions
);
layer!(CrossMapLRN2d, |m, x| {
    let o = &m.options;
    ensure!(x.dim() == 4, Value, "CrossMapLRN2d: Expected input to be 4D, got {}D instead.", x.dim());
    ensure!(o.size != 0, Value, "CrossMapLRN2d: division by zero, size={}", o.size.py_text());
    let lrn = Lrn { size: o.size, alpha: o.alpha.to_f64(), beta: o.beta.to_f64(), k: o.k.to_f64() };
    let mut out = function::apply(lrn, std::slice::from_ref(x))?;
    out.pop().ok_or_else(|| Error::runtime("CrossMapLRN2d gave no tensor"))
});

struct Lrn {
    size: i64,
    alpha: f64,
    beta: f64,
    k: f64,
}
/// Sums over channels: row `c` of the matrix says which ones count for channel `c`.
fn mix(x: &Tensor, counts: impl Fn(i64, i64) -> bool) -> Result<Tensor> {
    let c = x.sizes()[1];
    let matrix: Vec<f64> = (0..c * c).map(|i| f64::from(u8::from(counts(i / c, i % c)))).collect();
    let matrix = Tensor::from_vec_raw(matrix, &[c, c])?.try_to(x.dtype())?;
    let matrix = to_device(matrix, x.device())?;
    let flat = ops::flatten(x, 2, -1)?;
    ops::reshape(&ops::matmul(&matrix, &flat)?, x.sizes())
}
fn times(x: &Tensor, by: f64) -> Result<Tensor> {
    ops::mul(x, &number(by)?)
}
impl Function for Lrn {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "CrossMapLRN2d".into()
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let before = ((self.size - 1) as f64 / 2.0 + 1.0) as i64;
        let channels = x.sizes()[1];
        // as the running sum has it: up to `before - 1` channels further, less those that it subtracted
        let counts = |c: i64, j: i64| {
            let added = j < before.min(channels) || (j < channels && j < c + before);
            let removed = c > before && j >= 1 && j <= c - before;
            added && !removed
        };
        let squares = ops::mul(x, x)?;
        let sum = times(&mix(&squares, counts)?, self.alpha / self.size as f64)?;
        let scale = ops::add(&sum, &number(self.k)?, Scalar::Int(1))?;
        let root = ops::pow(&scale, &number(-self.beta)?)?;
        let out = ops::mul(&root, x)?;
        ctx.save_for_backward(&[x, &out, &scale, &root]);
        Ok(vec![out])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        let [x, out, scale, root] = &saved[..] else {
            return Err(Error::runtime("CrossMapLRN2d: nothing saved"));
        };
        let Some(g) = &grads[0] else { return Ok(vec![None]) };
        let first = (self.size as f64 - (self.size - 1) as f64 / 2.0) as i64;
        let ratio = ops::div(&ops::mul(g, out)?, scale)?;
        let near = mix(&ratio, |c, j| (c - first..c - first + self.size).contains(&j))?;
        let indirect = times(&ops::mul(x, &near)?, 2.0 * self.alpha * self.beta / self.size as f64)?;
        Ok(vec![Some(ops::sub(&ops::mul(root, g)?, &indirect, Scalar::Int(1))?)])
    }
}
