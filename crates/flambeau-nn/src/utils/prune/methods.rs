//! The documented pruning methods.

use super::{BasePruningMethod, PruningType, copy, kept};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops};
use std::sync::Arc;

/// How much is pruned: a fraction, or a number of elements (slices).
///
/// ```
/// use torch::nn::utils::prune::Amount;
/// assert_eq!((Amount::from(0.5), Amount::from(3)), (Amount::Fraction(0.5), Amount::Count(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Of all that is there.
    Fraction(f64),
    /// That many.
    Count(i64),
}
impl From<f64> for Amount {
    fn from(f: f64) -> Self {
        Amount::Fraction(f)
    }
}
impl From<i32> for Amount {
    fn from(n: i32) -> Self {
        Amount::Count(n.into())
    }
}
impl From<i64> for Amount {
    fn from(n: i64) -> Self {
        Amount::Count(n)
    }
}
impl From<usize> for Amount {
    fn from(n: usize) -> Self {
        Amount::Count(n as i64)
    }
}
impl Amount {
    fn check(self) -> Result<Self> {
        let (ok, text) = match self {
            Amount::Count(n) => (n >= 0, n.to_string()),
            Amount::Fraction(f) => ((0.0..=1.0).contains(&f), f.py_text()),
        };
        ensure!(
            ok,
            Value,
            "amount={text} should either be a float in the range [0, 1] or a non-negative integer"
        );
        Ok(self)
    }
    /// The number of `n` things.
    fn of(self, n: i64) -> Result<i64> {
        let k = match self {
            Amount::Count(k) => k,
            // to even, as Python rounds
            Amount::Fraction(f) => (f * n as f64).round_ties_even() as i64,
        };
        ensure!(k <= n, Value, "amount={k} should be smaller than the number of parameters to prune={n}");
        Ok(k)
    }
}

/// The norm that slices are compared by.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, LnStructured, Norm};
/// let t = torch::tensor([[3.0, 4.0], [5.5, 0.0]]);
/// let pruned = |n: Norm| LnStructured::new(1, n, 0).prune(&t, None, None).unwrap().ne(0.0);
/// assert!(pruned(Norm::Fro).equal(&torch::tensor([[false, false], [true, false]])));
/// assert!(pruned(Norm::P(1.0)).equal(&torch::tensor([[true, true], [false, false]])));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// `(sum |x|^p)^(1/p)`, infinities included.
    P(f64),
    /// The Frobenius norm.
    Fro,
    /// The nuclear norm.
    Nuc,
}
impl From<f64> for Norm {
    fn from(p: f64) -> Self {
        Norm::P(p)
    }
}
impl From<i32> for Norm {
    fn from(p: i32) -> Self {
        Norm::P(p.into())
    }
}

/// Nothing.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, Identity};
/// let t = torch::tensor([1.0, 2.0]);
/// assert_eq!(Identity.prune(&t, None, None)?.to_vec::<f32>(), [1.0, 2.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "torch.nn.utils.prune.Identity")]
pub struct Identity;
impl BasePruningMethod for Identity {
    fn pruning_type(&self) -> PruningType {
        PruningType::Unstructured
    }
    fn compute_mask(&self, _: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        Ok(default_mask.clone())
    }
}

/// A mask with zeros at positions of its row-major order.
fn cleared(mask: &Tensor, positions: &Tensor) -> Result<Tensor> {
    let mask = copy(mask)?;
    ops::index_fill_(&ops::reshape(&mask, &[-1])?, 0, positions, Scalar::Int(0))?;
    Ok(mask)
}
macro_rules! amounts {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            amount: Amount,
        }
        impl $name {
            /// Of so many elements. Panics where [`Self::try_new`] gives an error.
            #[track_caller]
            pub fn new(amount: impl Into<Amount>) -> Self {
                expect(Self::try_new(amount))
            }
            /// Of so many elements.
            ///
            /// # Errors
            /// A negative amount, or a fraction above one.
            pub fn try_new(amount: impl Into<Amount>) -> Result<Self> {
                Ok($name { amount: amount.into().check()? })
            }
        }
    )*};
}
amounts! {
    /// Elements at random.
    ///
    /// ```
    /// use torch::nn::utils::prune::{BasePruningMethod, RandomUnstructured};
    /// let left = RandomUnstructured::new(3).prune(&torch::ones([5]), None, None)?;
    /// assert_eq!(left.sum().item::<f64>(), 2.0);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[doc(alias = "torch.nn.utils.prune.RandomUnstructured")]
    RandomUnstructured;
    /// The elements of smallest magnitude.
    ///
    /// ```
    /// use torch::nn::utils::prune::{BasePruningMethod, L1Unstructured};
    /// let left = L1Unstructured::new(1).prune(&torch::tensor([3.0, -1.0, 2.0]), None, None)?;
    /// assert_eq!(left.to_vec::<f32>(), [3.0, 0.0, 2.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[doc(alias = "torch.nn.utils.prune.L1Unstructured")]
    L1Unstructured;
}
impl BasePruningMethod for RandomUnstructured {
    fn pruning_type(&self) -> PruningType {
        PruningType::Unstructured
    }
    fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        let k = self.amount.of(t.numel())?;
        if k == 0 {
            return copy(default_mask);
        }
        let draw = ops::rand_like(t, None, None, None, None, None)?;
        cleared(default_mask, &ops::topk(&ops::reshape(&draw, &[-1])?, k, -1, true, true)?.1)
    }
}
impl BasePruningMethod for L1Unstructured {
    fn pruning_type(&self) -> PruningType {
        PruningType::Unstructured
    }
    fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        let k = self.amount.of(t.numel())?;
        if k == 0 {
            return copy(default_mask);
        }
        let size = ops::reshape(&ops::abs(&t.alias_detached())?, &[-1])?;
        cleared(default_mask, &ops::topk(&size, k, -1, false, true)?.1)
    }
}

fn structured(t: &Tensor, dim: i64) -> Result<i64> {
    ensure!(
        t.dim() > 1,
        Value,
        "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape torch.Size({}) with {} \
         dims",
        fmt_sizes(t.sizes()),
        t.dim()
    );
    let n = t.dim() as i64;
    ensure!(
        (-n..n).contains(&dim),
        Index,
        "Invalid index {dim} for tensor of size torch.Size({})",
        fmt_sizes(t.sizes())
    );
    Ok(if dim < 0 { dim + n } else { dim })
}
/// One at the given slices along `dim`, times the mask so far.
fn slices(t: &Tensor, dim: i64, keep: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
    let mask = Tensor::zeros_raw(t.sizes(), t.dtype(), t.device())?;
    ops::index_fill_(&mask, dim, keep, Scalar::Int(1))?;
    ops::mul(&mask, &default_mask.try_to(mask.dtype())?)
}

/// Slices along a dimension at random.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, RandomStructured};
/// let left = RandomStructured::new(1, 0).prune(&torch::ones([3, 4]), None, None)?;
/// assert_eq!(left.sum().item::<f64>(), 8.0);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "torch.nn.utils.prune.RandomStructured")]
pub struct RandomStructured {
    amount: Amount,
    dim: i64,
}
impl RandomStructured {
    /// Of so many slices along `dim`. Panics where [`Self::try_new`] gives an error.
    #[track_caller]
    pub fn new(amount: impl Into<Amount>, dim: i64) -> Self {
        expect(Self::try_new(amount, dim))
    }
    /// Of so many slices.
    ///
    /// # Errors
    /// A negative amount, or a fraction above one.
    pub fn try_new(amount: impl Into<Amount>, dim: i64) -> Result<Self> {
        Ok(RandomStructured { amount: amount.into().check()?, dim })
    }
}
impl BasePruningMethod for RandomStructured {
    fn pruning_type(&self) -> PruningType {
        PruningType::Structured
    }
    fn dim(&self) -> Option<i64> {
        Some(self.dim)
    }
    fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        let dim = structured(t, self.dim)?;
        let n = t.sizes()[dim as usize];
        let k = self.amount.of(n)?;
        if k == 0 {
            return Ok(default_mask.clone());
        }
        let draw = ops::rand(&[n], None, None, None, None, None)?;
        let (threshold, _) = ops::kthvalue(&draw, k, -1, false)?;
        let keep = ops::reshape(&ops::nonzero(&ops::gt(&draw, &threshold)?)?, &[-1])?;
        slices(t, dim, &keep, default_mask)
    }
}

/// The slices along a dimension of smallest norm.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, LnStructured};
/// let t = torch::tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(LnStructured::new(1, 2, 0).prune(&t, None, None)?.to_vec2::<f32>(), [[0.0, 0.0], [3.0, 4.0]]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "torch.nn.utils.prune.LnStructured")]
pub struct LnStructured {
    amount: Amount,
    n: Norm,
    dim: i64,
}
impl LnStructured {
    /// Of so many slices along `dim`, by their `n`-norm. Panics where [`Self::try_new`] gives an error.
    #[track_caller]
    pub fn new(amount: impl Into<Amount>, n: impl Into<Norm>, dim: i64) -> Self {
        expect(Self::try_new(amount, n, dim))
    }
    /// Of so many slices.
    ///
    /// # Errors
    /// A negative amount, or a fraction above one.
    pub fn try_new(amount: impl Into<Amount>, n: impl Into<Norm>, dim: i64) -> Result<Self> {
        Ok(LnStructured { amount: amount.into().check()?, n: n.into(), dim })
    }
}
impl BasePruningMethod for LnStructured {
    fn pruning_type(&self) -> PruningType {
        PruningType::Structured
    }
    fn dim(&self) -> Option<i64> {
        Some(self.dim)
    }
    fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        let dim = structured(t, self.dim)?;
        let n = t.sizes()[dim as usize];
        let k = self.amount.of(n)?;
        let rest: Vec<i64> = (0..t.dim() as i64).filter(|d| *d != dim).collect();
        let vector =
            |p: f64| ops::linalg_vector_norm(&t.alias_detached(), p.into(), Some(&rest), false, None);
        let norms = match self.n {
            Norm::P(p) => vector(p)?,
            Norm::Fro => vector(2.0)?,
            Norm::Nuc => ops::nuclear_norm_dim(&t.alias_detached(), &rest, false)?,
        };
        if k == 0 {
            return Ok(default_mask.clone());
        }
        let (_, keep) = ops::topk(&norms, n - k, -1, true, true)?;
        slices(t, dim, &keep, default_mask)
    }
}

/// What a given mask says.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, CustomFromMask};
/// let method = CustomFromMask::new(&torch::tensor([0.0, 1.0]));
/// assert_eq!(method.prune(&torch::tensor([5.0, 6.0]), None, None)?.to_vec::<f32>(), [0.0, 6.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.nn.utils.prune.CustomFromMask")]
pub struct CustomFromMask {
    mask: Tensor,
}
impl CustomFromMask {
    /// Of a mask of the parameter's shape.
    pub fn new(mask: &Tensor) -> Self {
        CustomFromMask { mask: mask.clone() }
    }
}
impl BasePruningMethod for CustomFromMask {
    fn pruning_type(&self) -> PruningType {
        PruningType::Global
    }
    fn compute_mask(&self, _: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        ensure!(
            default_mask.sizes() == self.mask.sizes(),
            Assertion,
            "default_mask shape torch.Size({}) must match self.mask shape torch.Size({})",
            fmt_sizes(default_mask.sizes()),
            fmt_sizes(self.mask.sizes())
        );
        ops::mul(default_mask, &self.mask.try_to(default_mask.dtype())?)
    }
}

/// Methods that were applied to one parameter, in order. Its mask is what the last adds to the mask so far.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, L1Unstructured, PruningContainer};
/// let mut methods = PruningContainer::new();
/// methods.add_pruning_method(L1Unstructured::new(1));
/// let (t, mask) = (torch::tensor([3.0, 1.0, 2.0]), torch::tensor([1.0, 0.0, 1.0]));
/// // of what is left, the smallest
/// assert_eq!(methods.compute_mask(&t, &mask)?.to_vec::<f32>(), [1.0, 0.0, 0.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.nn.utils.prune.PruningContainer")]
pub struct PruningContainer {
    methods: Vec<Arc<dyn BasePruningMethod>>,
}
impl PruningContainer {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a method.
    #[doc(alias = "torch.nn.utils.prune.PruningContainer.add_pruning_method")]
    pub fn add_pruning_method(&mut self, method: impl BasePruningMethod) {
        self.add(Arc::new(method));
    }
    pub(super) fn add(&mut self, method: Arc<dyn BasePruningMethod>) {
        self.methods.push(method);
    }
    /// Number of methods.
    pub fn len(&self) -> usize {
        self.methods.len()
    }
    /// No methods.
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
    }
    /// The methods in order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn BasePruningMethod> {
        self.methods.iter().map(|m| &**m)
    }
}
impl BasePruningMethod for PruningContainer {
    fn pruning_type(&self) -> PruningType {
        PruningType::Global
    }
    fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
        let method = self.methods.last().ok_or_else(|| Error::index("tuple index out of range"))?;
        let mask = copy(default_mask)?.try_to(t.dtype())?;
        match method.pruning_type() {
            PruningType::Global => method.compute_mask(t, &mask),
            PruningType::Unstructured => {
                let one = Tensor::from_vec_raw(vec![1i64], &[])?;
                let left =
                    ops::reshape(&ops::nonzero(&ops::reshape(&ops::eq(&mask, &one)?, &[-1])?)?, &[-1])?;
                let pick = |t: &Tensor| ops::index_select(&ops::reshape(t, &[-1])?, 0, &left);
                let part = method.compute_mask(&pick(t)?, &pick(&mask)?)?;
                let flat = ops::reshape(&mask, &[-1])?;
                ops::put_(&flat, &left, &part.try_to(mask.dtype())?, false)?;
                Ok(mask)
            }
            PruningType::Structured => {
                let dim = method.dim().ok_or_else(|| {
                    Error::attribute(
                        "Pruning methods of PRUNING_TYPE \"structured\" need to have the attribute `dim` defined.",
                    )
                })?;
                let n = t.dim() as i64;
                let at = if dim < 0 { dim + n } else { dim };
                ensure!((0..n).contains(&at), Index, "Index is out of bounds for tensor with dimensions {n}");
                let rest: Vec<i64> = (0..n).filter(|d| *d != at).collect();
                let left = kept(&ops::sum(&mask, Some(&rest), false, Some(DType::F64))?)?;
                let left = ops::reshape(&ops::nonzero(&left)?, &[-1])?;
                let part = method
                    .compute_mask(&ops::index_select(t, at, &left)?, &ops::index_select(&mask, at, &left)?)?;
                ops::index_copy_(&mask, at, &left, &part.try_to(mask.dtype())?)?;
                Ok(mask)
            }
        }
    }
}
