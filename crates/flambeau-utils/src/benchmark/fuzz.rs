//! Random sizes and layouts for measurements, as PyTorch draws them: the same seed gives the same tensors.

use flambeau_core::tensor::generator;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Tensor, bail, ensure, ops};
use flambeau_cpu::random::Mt19937;
use flambeau_sparse::SparseOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// More dimensions than any operator is tried with.
const MOST_DIMENSIONS: usize = 64;

/// A drawn value.
///
/// ```
/// use torch::utils::benchmark::Drawn;
/// assert_eq!([Drawn::from(true), 0.5.into()], [Drawn::Int(1), Drawn::Float(0.5)]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Drawn {
    /// A whole number; 0 and 1 stand for false and true too.
    Int(i64),
    /// A number.
    Float(f64),
}
impl Drawn {
    fn int(self) -> i64 {
        match self {
            Drawn::Int(i) => i,
            Drawn::Float(f) => f as i64,
        }
    }
    fn float(self) -> f64 {
        match self {
            Drawn::Int(i) => i as f64,
            Drawn::Float(f) => f,
        }
    }
}
impl From<i64> for Drawn {
    fn from(v: i64) -> Drawn {
        Drawn::Int(v)
    }
}
impl From<f64> for Drawn {
    fn from(v: f64) -> Drawn {
        Drawn::Float(v)
    }
}
impl From<bool> for Drawn {
    fn from(v: bool) -> Drawn {
        Drawn::Int(v.into())
    }
}
/// All parameters of a draw, by name.
///
/// ```
/// use torch::utils::benchmark::{Distribution, FuzzedParameter, FuzzedTensor, Fuzzer, Params};
/// let number = |n: &str| FuzzedParameter::new(n, Distribution::Uniform(1, 9));
/// let unequal = |p: &Params| p["n"] != p["m"];
/// let draw = Fuzzer::new([number("n"), number("m")], [] as [FuzzedTensor; 0]).constraint(unequal).seed(0).take(1)?.remove(0);
/// assert_ne!(draw.params["n"], draw.params["m"]);
/// # Ok::<(), torch::Error>(())
/// ```
pub type Params = BTreeMap<String, Drawn>;

/// The value of another parameter, as a choice of [`Distribution::Choice`].
///
/// ```
/// use torch::utils::benchmark::{Choice, Distribution, FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias};
/// let n = FuzzedParameter::new("n", Distribution::Uniform(1, 9));
/// let same = ParameterAlias { alias_to: "n".into() };
/// let m = FuzzedParameter::new("m", Distribution::Choice(vec![(Choice::from(same), 1.0)]));
/// let draw = Fuzzer::new([n, m], [] as [FuzzedTensor; 0]).seed(0).take(1)?.remove(0);
/// assert_eq!(draw.params["n"], draw.params["m"]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.benchmark.ParameterAlias")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterAlias {
    /// That parameter.
    pub alias_to: String,
}
/// What may be chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum Choice {
    /// This value.
    Value(Drawn),
    /// What another parameter has.
    Alias(ParameterAlias),
}
impl<T: Into<Drawn>> From<T> for Choice {
    fn from(v: T) -> Choice {
        Choice::Value(v.into())
    }
}
impl From<ParameterAlias> for Choice {
    fn from(v: ParameterAlias) -> Choice {
        Choice::Alias(v)
    }
}

/// How a parameter is drawn.
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// Whole numbers whose logarithms are even, both ends among them.
    LogUniform(i64, i64),
    /// Even whole numbers, both ends among them.
    Uniform(i64, i64),
    /// Even numbers.
    UniformFloat(f64, f64),
    /// One of these, with these probabilities, which sum to one.
    Choice(Vec<(Choice, f64)>),
}

/// A number that is drawn.
#[doc(alias = "torch.utils.benchmark.FuzzedParameter")]
#[derive(Clone, PartialEq, Debug)]
pub struct FuzzedParameter {
    name: String,
    distribution: Distribution,
    strict: bool,
}
impl FuzzedParameter {
    /// A parameter.
    pub fn new(name: impl Into<String>, distribution: Distribution) -> Self {
        FuzzedParameter { name: name.into(), distribution, strict: false }
    }
    /// Whether it keeps its value while others are drawn again because they do not fit together. Default: no.
    pub fn strict(mut self, on: bool) -> Self {
        self.strict = on;
        self
    }
    fn check(&self) -> Result<()> {
        if let Distribution::Choice(all) = &self.distribution {
            ensure!(all.iter().all(|c| c.1 >= 0.0), Assertion, "Probabilities cannot be negative");
            let sum: f64 = all.iter().map(|c| c.1).sum();
            ensure!((sum - 1.0).abs() <= 1e-5, Assertion, "Distribution is not normalized");
        }
        Ok(())
    }
    fn sample(&self, state: &mut State) -> Choice {
        match &self.distribution {
            Distribution::LogUniform(lo, hi) => {
                let drawn = state.uniform((*lo as f64).log2(), (*hi as f64).log2()).exp2() as i64;
                Drawn::Int(drawn.clamp(*lo, (*hi).max(*lo))).into()
            }
            Distribution::Uniform(lo, hi) => Drawn::Int(state.randint(*lo, *hi)).into(),
            Distribution::UniformFloat(lo, hi) => Drawn::Float(state.uniform(*lo, *hi)).into(),
            Distribution::Choice(all) => {
                let total: f64 = all.iter().map(|c| c.1).sum();
                let at = state.random();
                let mut sum = 0.0;
                let hit = all.iter().position(|c| {
                    sum += c.1;
                    sum / total > at
                });
                all[hit.unwrap_or(all.len() - 1)].0.clone()
            }
        }
    }
}
/// A length of a tensor: a number or a parameter's name.
///
/// ```
/// use torch::utils::benchmark::{FuzzedTensor, Fuzzer, Length};
/// let x = FuzzedTensor::new("x", [Length::from(2), 3.into()]);
/// assert_eq!(Fuzzer::new([], [x]).seed(0).take(1)?[0].tensors["x"].sizes(), &[2, 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Length {
    /// This one.
    Fixed(i64),
    /// The parameter's.
    Of(String),
}
impl From<i64> for Length {
    fn from(n: i64) -> Length {
        Length::Fixed(n)
    }
}
impl From<&str> for Length {
    fn from(name: &str) -> Length {
        Length::Of(name.into())
    }
}
fn lengths<T: Into<Length>>(all: impl IntoIterator<Item = T>) -> Vec<Length> {
    all.into_iter().map(Into::into).collect()
}

type Constructor = Arc<dyn Fn(&[i64], DType, &Params) -> Result<Tensor> + Send + Sync>;

/// A tensor whose sizes, strides and elements are drawn.
#[doc(alias = "torch.utils.benchmark.FuzzedTensor")]
#[derive(Clone)]
pub struct FuzzedTensor {
    name: String,
    size: Vec<Length>,
    steps: Vec<Length>,
    probability_contiguous: f64,
    min_elements: Option<i64>,
    max_elements: Option<i64>,
    max_allocation_bytes: Option<i64>,
    dim_parameter: Option<String>,
    dtype: DType,
    constructor: Option<Constructor>,
    sparse: Option<bool>,
}
impl FuzzedTensor {
    /// A dense tensor of float32 with these lengths.
    pub fn new<T: Into<Length>>(name: impl Into<String>, size: impl IntoIterator<Item = T>) -> Self {
        FuzzedTensor {
            name: name.into(),
            size: lengths(size),
            steps: Vec::new(),
            probability_contiguous: 0.5,
            min_elements: None,
            max_elements: None,
            max_allocation_bytes: None,
            dim_parameter: None,
            dtype: DType::F32,
            constructor: None,
            sparse: None,
        }
    }
    /// Every so-many-th element of a larger tensor along each dimension. Default: all ones.
    pub fn steps<T: Into<Length>>(mut self, steps: impl IntoIterator<Item = T>) -> Self {
        self.steps = lengths(steps);
        self
    }
    /// How probable it is that the dimensions lie in their order. Default: 0.5.
    pub fn probability_contiguous(mut self, p: f64) -> Self {
        self.probability_contiguous = p;
        self
    }
    /// The least number of elements.
    pub fn min_elements(mut self, n: i64) -> Self {
        self.min_elements = Some(n);
        self
    }
    /// The largest number of elements.
    pub fn max_elements(mut self, n: i64) -> Self {
        self.max_elements = Some(n);
        self
    }
    /// The largest number of bytes of the tensor of which steps are taken.
    pub fn max_allocation_bytes(mut self, n: i64) -> Self {
        self.max_allocation_bytes = Some(n);
        self
    }
    /// The parameter that says how many dimensions there are.
    pub fn dim_parameter(mut self, name: impl Into<String>) -> Self {
        self.dim_parameter = Some(name.into());
        self
    }
    /// The element type. Default: float32.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }
    /// What makes the tensor of which steps are taken. Default: even numbers from 0 to 1, or whole ones from 1 to 126.
    pub fn tensor_constructor(
        mut self,
        f: impl Fn(&[i64], DType, &Params) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        self.constructor = Some(Arc::new(f));
        self
    }
    fn resolve(values: &[Length], params: &Params, dim: usize) -> Result<Vec<i64>> {
        let one = |l: &Length| match l {
            Length::Fixed(n) => Ok(*n),
            Length::Of(name) => params.get(name).map(|d| d.int()).ok_or_else(|| unknown(name)),
        };
        let mut all = values.iter().take(dim).map(one).collect::<Result<Vec<_>>>()?;
        ensure!(dim <= MOST_DIMENSIONS, Value, "a tensor of {dim} dimensions: at most {MOST_DIMENSIONS}");
        all.resize(dim, 1);
        Ok(all)
    }
    /// Sizes, steps, and sizes of what steps are taken of.
    fn sizes(&self, params: &Params) -> Result<(Vec<i64>, Vec<i64>, Vec<i64>)> {
        let dim = match &self.dim_parameter {
            Some(name) => params.get(name).ok_or_else(|| unknown(name))?.int().max(0) as usize,
            None => self.size.len(),
        };
        let (size, steps) =
            (Self::resolve(&self.size, params, dim)?, Self::resolve(&self.steps, params, dim)?);
        let whole = size.iter().zip(&steps).map(|(a, b)| a.saturating_mul(*b)).collect();
        Ok((size, steps, whole))
    }
    fn fits(&self, params: &Params) -> Result<bool> {
        let (size, _, whole) = self.sizes(params)?;
        let product =
            |v: &[i64], base: i64| v.iter().fold(i128::from(base), |a, b| a.saturating_mul(i128::from(*b)));
        let (elements, bytes) = (product(&size, 1), product(&whole, self.dtype.size() as i64));
        ensure!(elements >= 0, Assertion, "Computed number of elements is negative");
        let above = |n: i128, most: Option<i64>| most.is_some_and(|m| n > i128::from(m));
        let below = self.min_elements.is_some_and(|m| i128::from(m) > elements);
        Ok(!(above(elements, self.max_elements) || below || above(bytes, self.max_allocation_bytes)))
    }
    fn make(&self, params: &Params, state: &mut State) -> Result<(Tensor, TensorProperties)> {
        if self.sparse.is_some() {
            return self.make_sparse(params);
        }
        let (size, steps, whole) = self.sizes(params)?;
        let mut raw = match &self.constructor {
            Some(f) => f(&whole, self.dtype, params)?,
            None => random(&whole, self.dtype)?,
        };
        let dim = size.len();
        let sorted: Vec<i64> = (0..dim as i64).collect();
        let mut order = sorted.clone();
        if state.random() > self.probability_contiguous {
            while dim > 1 && order == sorted {
                order = state.permutation(dim);
            }
            let mut back = sorted.clone();
            back.sort_by_key(|i| order[*i as usize]);
            raw = ops::contiguous(&ops::permute(&raw, &order)?, MemoryFormat::Contiguous)?;
            raw = ops::permute(&raw, &back)?;
        }
        for (d, (n, step)) in size.iter().zip(&steps).enumerate() {
            raw = ops::slice(&raw, d as i64, Some(0), Some(n * step), *step)?;
        }
        let is_contiguous = raw.is_contiguous();
        let p = TensorProperties {
            numel: raw.numel() as i64,
            order,
            steps,
            is_contiguous,
            dtype: self.dtype,
            sparse: None,
        };
        Ok((raw, p))
    }
    fn make_sparse(&self, params: &Params) -> Result<(Tensor, TensorProperties)> {
        let (size, _, _) = self.sizes(params)?;
        let of = |name: &str| params.get(name).copied().ok_or_else(|| unknown(name));
        let (density, coalesced) = (of("density")?.float(), of("coalesced")?.int() != 0);
        let total = size.iter().fold(0i64, |n, m| n.saturating_add(*m));
        let nnz = (total as f64 * density).ceil() as i64;
        ensure!(nnz <= total, Assertion, "nnz cannot exceed total number of elements");
        let sparse_dim =
            if self.sparse == Some(true) { of("sparse_dim")?.int() as usize } else { size.len() };
        let sparse_dim = sparse_dim.min(size.len());
        let mut v_size = vec![nnz];
        v_size.extend(&size[sparse_dim..]);
        let mut v = random(&v_size, self.dtype)?;
        let i = ops::rand(&[sparse_dim as i64, nnz], None, None, None, None, None)?;
        let bounds =
            Tensor::from_vec(size[..sparse_dim].iter().map(|n| *n as f32).collect(), [sparse_dim as i64, 1]);
        let mut i = ops::mul(&i, &bounds)?.to(DType::I64);
        if !coalesced {
            let more = ops::randn_like(&v, None, None, None, None, None)?;
            v = ops::cat(&[v, more], 0)?;
            i = ops::cat(&[i.clone(), i], 1)?;
        }
        let mut x =
            flambeau_sparse::functions::try_sparse_coo_tensor(&i, &v, SparseOptions::new().size(&size[..]))?;
        if coalesced {
            x = flambeau_sparse::generated::ops::coalesce(&x)?;
        }
        let sparse = SparseProperties {
            shape: size.clone(),
            is_coalesced: coalesced,
            density,
            sparsity: 1.0 - density,
            sparse_dim,
            dense_dim: size.len() - sparse_dim,
        };
        let numel = x.numel() as i64;
        let p = TensorProperties {
            numel,
            order: Vec::new(),
            steps: Vec::new(),
            is_contiguous: false,
            dtype: self.dtype,
            sparse: Some(sparse),
        };
        Ok((x, p))
    }
}
fn unknown(name: &str) -> Error {
    Error::value(format!("no parameter is called '{name}'"))
}
fn random(size: &[i64], dtype: DType) -> Result<Tensor> {
    let (layout, device) = (Some(Layout::Strided), Some(Device::Cpu));
    if dtype.is_floating() || dtype.is_complex() {
        ops::rand(size, None, Some(dtype), layout, device, None)
    } else {
        ops::randint_low(1, 127, size, None, Some(dtype), layout, device, None)
    }
}

/// A sparse tensor whose sizes, density and elements are drawn: parameters `density`, `coalesced`, and with
/// [`FuzzedSparseTensor::sparse_dim`] the parameter of that name.
///
/// ```
/// use torch::utils::benchmark::{Distribution, FuzzedParameter, FuzzedSparseTensor, Fuzzer};
/// let half = FuzzedParameter::new("density", Distribution::UniformFloat(0.5, 0.5));
/// let coalesced = FuzzedParameter::new("coalesced", Distribution::Uniform(1, 1));
/// let x = FuzzedSparseTensor::new("x", [4, 5]);
/// let draw = Fuzzer::new([half, coalesced], [x]).seed(0).take(1)?.remove(0);
/// let became = draw.tensor_properties["x"].sparse.as_ref().unwrap();
/// assert!(draw.tensors["x"].is_sparse() && became.is_coalesced);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.benchmark.FuzzedSparseTensor")]
#[derive(Clone)]
pub struct FuzzedSparseTensor(FuzzedTensor);
impl FuzzedSparseTensor {
    /// A sparse tensor of float32 with these lengths.
    pub fn new<T: Into<Length>>(name: impl Into<String>, size: impl IntoIterator<Item = T>) -> Self {
        let mut t = FuzzedTensor::new(name, size);
        t.sparse = Some(false);
        FuzzedSparseTensor(t)
    }
    /// The least number of elements, zeros among them.
    pub fn min_elements(self, n: i64) -> Self {
        FuzzedSparseTensor(self.0.min_elements(n))
    }
    /// The largest number of elements, zeros among them.
    pub fn max_elements(self, n: i64) -> Self {
        FuzzedSparseTensor(self.0.max_elements(n))
    }
    /// The parameter that says how many dimensions there are.
    pub fn dim_parameter(self, name: impl Into<String>) -> Self {
        FuzzedSparseTensor(self.0.dim_parameter(name))
    }
    /// Whether the parameter `sparse_dim` says how many dimensions are sparse. Default: all are.
    pub fn sparse_dim(mut self, on: bool) -> Self {
        self.0.sparse = Some(on);
        self
    }
    /// The element type. Default: float32.
    pub fn dtype(self, dtype: DType) -> Self {
        FuzzedSparseTensor(self.0.dtype(dtype))
    }
}
impl From<FuzzedSparseTensor> for FuzzedTensor {
    fn from(t: FuzzedSparseTensor) -> FuzzedTensor {
        t.0
    }
}

/// What a sparse tensor became.
///
/// ```
/// use torch::utils::benchmark::{Distribution, FuzzedParameter, FuzzedSparseTensor, Fuzzer, SparseProperties};
/// let half = FuzzedParameter::new("density", Distribution::UniformFloat(0.5, 0.5));
/// let coalesced = FuzzedParameter::new("coalesced", Distribution::Uniform(1, 1));
/// let draw = Fuzzer::new([half, coalesced], [FuzzedSparseTensor::new("x", [4, 5])]).seed(0).take(1)?.remove(0);
/// let became: &SparseProperties = draw.tensor_properties["x"].sparse.as_ref().unwrap();
/// assert_eq!((became.shape.as_slice(), became.sparse_dim, became.dense_dim), (&[4, 5][..], 2, 0));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct SparseProperties {
    /// Sizes.
    pub shape: Vec<i64>,
    /// Whether no index stands twice.
    pub is_coalesced: bool,
    /// The part of elements that are there.
    pub density: f64,
    /// The part of elements that are not.
    pub sparsity: f64,
    /// Dimensions with indices.
    pub sparse_dim: usize,
    /// Dimensions without.
    pub dense_dim: usize,
}
/// What a tensor became.
///
/// ```
/// use torch::utils::benchmark::{FuzzedTensor, Fuzzer, TensorProperties};
/// let draw = Fuzzer::new([], [FuzzedTensor::new("x", [2, 3])]).seed(0).take(1)?.remove(0);
/// let became: &TensorProperties = &draw.tensor_properties["x"];
/// assert_eq!((became.numel, became.dtype), (6, torch::float32));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct TensorProperties {
    /// Number of elements.
    pub numel: i64,
    /// The dimensions in the order in which they lie in memory.
    pub order: Vec<i64>,
    /// Steps along them.
    pub steps: Vec<i64>,
    /// Whether they lie in their order without gaps.
    pub is_contiguous: bool,
    /// The element type.
    pub dtype: DType,
    /// Of a sparse tensor.
    pub sparse: Option<SparseProperties>,
}
/// What was drawn at once.
///
/// ```
/// use torch::utils::benchmark::{Draw, FuzzedTensor, Fuzzer};
/// let all: Vec<Draw> = Fuzzer::new([], [FuzzedTensor::new("x", [2, 3])]).seed(0).take(2)?;
/// assert_eq!((all.len(), all[1].tensors["x"].sizes(), all[1].params.len()), (2, &[2, 3][..], 0));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Draw {
    /// The tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// What they became.
    pub tensor_properties: BTreeMap<String, TensorProperties>,
    /// The parameters.
    pub params: Params,
}

/// Draws parameters and tensors that fit together.
///
/// ```
/// use torch::utils::benchmark::{Distribution, FuzzedParameter, FuzzedTensor, Fuzzer};
/// let mut fuzzer = Fuzzer::new(
///     [FuzzedParameter::new("n", Distribution::Uniform(1, 8))],
///     [FuzzedTensor::new("x", ["n"])],
/// ).seed(0);
/// let draw = &fuzzer.take(1)?[0];
/// assert_eq!(draw.params["n"], 6.into());
/// assert_eq!(draw.tensors["x"].sizes(), [6]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.benchmark.Fuzzer")]
pub struct Fuzzer {
    parameters: Vec<FuzzedParameter>,
    tensors: Vec<FuzzedTensor>,
    constraints: Vec<Box<dyn Fn(&Params) -> bool>>,
    seed: u32,
    rejections: usize,
    total: usize,
}
impl Fuzzer {
    /// A seed that nobody chose.
    pub fn new(
        parameters: impl IntoIterator<Item = FuzzedParameter>,
        tensors: impl IntoIterator<Item = impl Into<FuzzedTensor>>,
    ) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Fuzzer {
            parameters: parameters.into_iter().collect(),
            tensors: tensors.into_iter().map(Into::into).collect(),
            constraints: Vec::new(),
            seed: now.subsec_nanos() ^ now.as_secs() as u32,
            rejections: 0,
            total: 0,
        }
    }
    /// What parameters must fulfil besides the limits of the tensors.
    pub fn constraint(mut self, f: impl Fn(&Params) -> bool + 'static) -> Self {
        self.constraints.push(Box::new(f));
        self
    }
    /// The seed, of what is drawn and of PyTorch's default generator.
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }
    /// How many draws of parameters did not fit, of all.
    pub fn rejection_rate(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.rejections as f64 / self.total as f64 }
    }
    /// The first `n` draws of the seed. The default generator is seeded.
    ///
    /// # Errors
    /// Names that are both a parameter's and a tensor's, names of no parameter, probabilities that do not sum to one, aliases in a
    /// circle; no parameters fit within a thousand tries.
    pub fn take(&mut self, n: usize) -> Result<Vec<Draw>> {
        self.parameters.iter().try_for_each(FuzzedParameter::check)?;
        let both = self.parameters.iter().find(|p| self.tensors.iter().any(|t| t.name == p.name));
        if let Some(p) = both {
            bail!(Value, "Duplicate names in parameters and tensors: {{'{}'}}", p.name);
        }
        let mut state = State(Mt19937::new(self.seed));
        generator::manual_seed(state.randint(0, i64::MAX) as u64);
        (0..n).map(|_| self.draw(&mut state)).collect()
    }
    fn draw(&mut self, state: &mut State) -> Result<Draw> {
        let params = self.params(state)?;
        let (mut tensors, mut tensor_properties) = (BTreeMap::new(), BTreeMap::new());
        for t in &self.tensors {
            let (x, p) = t.make(&params, state)?;
            tensors.insert(t.name.clone(), x);
            tensor_properties.insert(t.name.clone(), p);
        }
        Ok(Draw { tensors, tensor_properties, params })
    }
    fn params(&mut self, state: &mut State) -> Result<Params> {
        let mut strict: BTreeMap<String, Choice> = BTreeMap::new();
        for _ in 0..1000 {
            let mut drawn = BTreeMap::new();
            for p in &self.parameters {
                let v = match strict.get(&p.name) {
                    Some(v) => v.clone(),
                    None => p.sample(state),
                };
                if p.strict {
                    strict.insert(p.name.clone(), v.clone());
                }
                drawn.insert(p.name.clone(), v);
            }
            let params = resolved(drawn)?;
            self.total += 1;
            let mut fits = self.constraints.iter().all(|f| f(&params));
            for t in &self.tensors {
                fits = fits && t.fits(&params)?;
            }
            if fits {
                return Ok(params);
            }
            self.rejections += 1;
        }
        Err(Error::value("Failed to generate a set of valid parameters."))
    }
}
/// Puts values in place of aliases.
fn resolved(drawn: BTreeMap<String, Choice>) -> Result<Params> {
    let mut out = Params::new();
    for (name, first) in &drawn {
        let (mut c, mut steps) = (first, 0);
        let value = loop {
            match c {
                Choice::Value(v) => break *v,
                Choice::Alias(a) => c = drawn.get(&a.alias_to).ok_or_else(|| unknown(&a.alias_to))?,
            }
            steps += 1;
            ensure!(steps <= drawn.len(), Value, "ParameterAlias cycle detected\n{drawn:?}");
        };
        out.insert(name.clone(), value);
    }
    Ok(out)
}

/// NumPy's `RandomState`.
struct State(Mt19937);
impl State {
    fn random(&mut self) -> f64 {
        let (a, b) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }
    fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.random()
    }
    /// A whole number up to `most`: words of as many bits, until one is not above it.
    fn up_to(&mut self, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let mask = u64::MAX >> most.leading_zeros();
        loop {
            let word = if most <= u64::from(u32::MAX) {
                u64::from(self.0.next_u32())
            } else {
                let high = u64::from(self.0.next_u32());
                high << 32 | u64::from(self.0.next_u32())
            };
            if word & mask <= most {
                return word & mask;
            }
        }
    }
    /// Both ends are among them.
    fn randint(&mut self, lo: i64, hi: i64) -> i64 {
        lo.wrapping_add(self.up_to(hi.saturating_sub(lo).max(0) as u64) as i64)
    }
    fn permutation(&mut self, n: usize) -> Vec<i64> {
        let mut all: Vec<i64> = (0..n as i64).collect();
        for i in (1..n).rev() {
            all.swap(i, self.up_to(i as u64) as usize);
        }
        all
    }
}
