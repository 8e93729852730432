//! How nested tensors are represented.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::wrapper::{Shown, Wrapped};
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Error, Layout, MemoryFormat, Result, Tensor, ensure, ops as core};
use std::any::Any;
use std::sync::{Arc, PoisonError, Weak};

/// The name of the class of wrappers.
pub(crate) const CLASS: &str = "NestedTensor";

/// Where a component lies in the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) offset: i64,
}
impl Part {
    pub(crate) fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }
    fn is_dense(&self) -> bool {
        let mut step = 1;
        self.sizes.iter().zip(&self.strides).rev().all(|(n, s)| {
            let fits = *n == 1 || *s == step;
            step *= n.max(&1);
            fits
        }) || self.numel() == 0
    }
}

/// Components of any sizes in one buffer of one dimension.
#[derive(Clone)]
pub(crate) struct Strided {
    pub(crate) buffer: Tensor,
    pub(crate) parts: Arc<Vec<Part>>,
    /// Number of dimensions of a component.
    pub(crate) rank: usize,
}

/// The identity of a ragged size: tensors with the same offsets have the same.
pub(crate) struct Ragged {
    /// What prints as `j1`.
    pub(crate) number: i64,
    source: Tensor,
}
static RAGGED: Mutex<(i64, Vec<(usize, Weak<Ragged>)>)> = Mutex::new((0, Vec::new()));
/// The identity that belongs to offsets (or lengths): of the same tensor always the same, while a nested tensor has it.
fn ragged_of(source: &Tensor) -> Arc<Ragged> {
    let mut all = RAGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(r) = all.1.iter().find(|(id, _)| *id == source.id()).and_then(|(_, r)| r.upgrade()) {
        return r;
    }
    all.1.retain(|(_, r)| r.strong_count() > 0);
    let r = Arc::new(Ragged { number: all.0, source: source.clone() });
    all.0 += 1;
    // the handle that is kept alive holds the number
    let id = r.source.id();
    all.1.push((id, Arc::downgrade(&r)));
    r
}

/// Rows of one tensor: component `i` is `values[offsets[i] .. offsets[i] + lengths[i]]` along the ragged dimension.
#[derive(Clone)]
pub(crate) struct Jagged {
    pub(crate) values: Tensor,
    pub(crate) offsets: Tensor,
    /// Where not all rows between offsets belong to a component.
    pub(crate) lengths: Option<Tensor>,
    /// The ragged dimension of the nested tensor, at least 1.
    pub(crate) ragged: usize,
    pub(crate) identity: Arc<Ragged>,
    /// The longest component, where it is known.
    pub(crate) longest: Option<i64>,
}

/// A nested tensor of either layout.
#[derive(Clone)]
pub(crate) enum Nested {
    Strided(Strided),
    Jagged(Jagged),
}
impl Wrapped for Nested {
    fn class(&self) -> &'static str {
        CLASS
    }
    fn is_nested(&self) -> bool {
        true
    }
    fn carrier(&self) -> Tensor {
        match self {
            Nested::Strided(s) => s.buffer.clone(),
            Nested::Jagged(j) => j.values.clone(),
        }
    }
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>> {
        ensure!(
            carrier.sizes() == self.carrier().sizes(),
            Shape,
            "a nested tensor of other sizes than its values have"
        );
        Ok(Arc::new(match self {
            Nested::Strided(s) => Nested::Strided(Strided { buffer: carrier, ..s.clone() }),
            Nested::Jagged(j) => Nested::Jagged(Jagged { values: carrier, ..j.clone() }),
        }))
    }
    fn text(&self, of: &Tensor) -> Result<String> {
        match self {
            Nested::Strided(s) => strided_text(s, of),
            Nested::Jagged(j) => Ok(jagged_text(j, of)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What a tensor is made of, if it is nested.
pub(crate) fn of(t: &Tensor) -> Option<&Nested> {
    t.wrapped()?.as_any().downcast_ref()
}
/// Whether a tensor is nested.
///
/// ```
/// use torch::nested::{is_nested, nested_tensor};
/// assert!(is_nested(&nested_tensor(&[torch::ones([2]), torch::ones([3])])));
/// assert!(!is_nested(&torch::ones([2])));
/// ```
#[doc(alias = "torch.Tensor.is_nested")]
pub fn is_nested(t: &Tensor) -> bool {
    of(t).is_some()
}
pub(crate) fn jagged_of(t: &Tensor) -> Option<&Jagged> {
    match of(t) {
        Some(Nested::Jagged(j)) => Some(j),
        _ => None,
    }
}
pub(crate) fn strided_of(t: &Tensor) -> Option<&Strided> {
    match of(t) {
        Some(Nested::Strided(s)) => Some(s),
        _ => None,
    }
}

fn strided_text(s: &Strided, of: &Tensor) -> Result<String> {
    let plain = Strided { buffer: core::detach(&s.buffer)?, ..s.clone() };
    let lines = |t: &Tensor| t.to_string().lines().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n");
    let all: Vec<String> = plain.components()?.iter().map(lines).collect();
    let grad = match grad_name(of) {
        Some(name) => format!(", grad_fn=<{name}>"),
        None if of.requires_grad() => ", requires_grad=True".into(),
        None => String::new(),
    };
    Ok(format!("nested_tensor([\n{}\n]{grad})", all.join(",\n")))
}
fn grad_name(of: &Tensor) -> Option<String> {
    let edge = flambeau_core::tensor::graph::history(&flambeau_core::tensor::wrapper::carrier(of))?;
    Some(flambeau_core::tensor::graph::node_name(&**edge.node()).into_owned())
}
fn jagged_text(j: &Jagged, of: &Tensor) -> String {
    let grad = match grad_name(of) {
        Some(name) => format!(", grad_fn=<{name}>"),
        None if of.requires_grad() => ", requires_grad=True".into(),
        None => String::new(),
    };
    format!(
        "NestedTensor(size={}, offsets={}{grad}, contiguous={})",
        size_text(of.sizes()),
        j.offsets,
        if of.is_contiguous() { "True" } else { "False" }
    )
}
/// Sizes with the names of ragged ones, as a Python tuple.
pub(crate) fn size_text(sizes: &[i64]) -> String {
    let one = |n: &i64| if *n < -1 { format!("j{}", -n - 2) } else { n.to_string() };
    format!("({})", sizes.iter().map(one).collect::<Vec<_>>().join(", "))
}

impl Strided {
    /// Components packed one after the other, in a new buffer.
    pub(crate) fn pack(components: &[Tensor], rank: usize, dtype: DType) -> Result<Strided> {
        let mut parts = Vec::with_capacity(components.len());
        let mut offset = 0;
        let mut flat = Vec::with_capacity(components.len());
        for t in components {
            let part = packed(t.sizes(), offset);
            offset += part.numel();
            parts.push(part);
            flat.push(core::reshape(t, &[-1])?);
        }
        let buffer = if flat.is_empty() {
            Tensor::empty_raw(&[0], dtype, flambeau_core::Device::Cpu)?
        } else {
            core::cat(&flat, 0)?
        };
        Ok(Strided { buffer, parts: Arc::new(parts), rank })
    }
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut at = 0;
        let packed = self.parts.iter().all(|p| {
            let here = p.is_dense() && (p.offset == at || p.numel() == 0);
            at += p.numel();
            here
        });
        packed && at == self.buffer.numel() && self.buffer.is_contiguous()
    }
    /// Views of the buffer, one for each component.
    pub(crate) fn components(&self) -> Result<Vec<Tensor>> {
        if self.is_contiguous() {
            let numels: Vec<i64> = self.parts.iter().map(Part::numel).collect();
            if numels.is_empty() {
                return Ok(Vec::new());
            }
            let flat = core::split_with_sizes(&self.buffer, &numels, 0)?;
            return flat.iter().zip(&*self.parts).map(|(t, p)| core::view(t, &p.sizes)).collect();
        }
        (0..self.parts.len()).map(|i| self.component(i)).collect()
    }
    /// One of them.
    pub(crate) fn component(&self, i: usize) -> Result<Tensor> {
        let p = &self.parts[i];
        if self.is_contiguous() {
            return core::view(&core::narrow(&self.buffer, 0, p.offset, p.numel())?, &p.sizes);
        }
        core::as_strided(&self.buffer, &p.sizes, &p.strides, Some(p.offset + self.buffer.storage_offset()))
    }
    /// The same parts over another buffer of as many elements.
    pub(crate) fn over(&self, buffer: Tensor) -> Result<Tensor> {
        Strided { buffer, ..self.clone() }.wrap()
    }
    /// As a tensor.
    pub(crate) fn wrap(self) -> Result<Tensor> {
        let mut sizes = vec![self.parts.len() as i64];
        for d in 0..self.rank {
            let first = self.parts.first().map_or(0, |p| p.sizes[d]);
            let same = self.parts.iter().all(|p| p.sizes[d] == first);
            sizes.push(if same { first } else { -1 });
        }
        let strides = vec![0; sizes.len()];
        let shown = Shown {
            sizes: &sizes,
            strides: &strides,
            numel: self.parts.iter().map(Part::numel).sum(),
            contiguous: self.is_contiguous(),
            layout: Layout::Strided,
            dtype: self.buffer.dtype(),
            device: self.buffer.device(),
        };
        crate::ops::known();
        Tensor::wrap(&shown, Arc::new(Nested::Strided(self.clone())))
    }
    /// Views of the components as a nested tensor over the same buffer.
    pub(crate) fn viewed(&self, components: &[Tensor], rank: usize) -> Result<Tensor> {
        let base = self.buffer.storage_offset();
        let part = |t: &Tensor| Part {
            sizes: t.sizes().to_vec(),
            strides: t.strides().to_vec(),
            offset: t.storage_offset() - base,
        };
        let parts = Arc::new(components.iter().map(part).collect());
        Strided { buffer: self.buffer.clone(), parts, rank }.wrap()
    }
}
/// A dense component at a place of the buffer.
pub(crate) fn packed(sizes: &[i64], offset: i64) -> Part {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    Part { sizes: sizes.to_vec(), strides, offset }
}

impl Jagged {
    pub(crate) fn new(
        values: Tensor,
        offsets: Tensor,
        lengths: Option<Tensor>,
        ragged: usize,
        longest: Option<i64>,
    ) -> Result<Jagged> {
        ensure!(offsets.dim() == 1, Assertion, "offsets must be 1D, but got {}D", offsets.dim());
        ensure!(!is_nested(&values), Assertion, "values must not be a NestedTensor");
        ensure!(
            values.device() == offsets.device(),
            Assertion,
            "values and offsets must be on the same device, but got values.device={} and offsets.device={}",
            values.device(),
            offsets.device()
        );
        ensure!(
            offsets.dtype().is_integral(false),
            DType,
            "offsets must be integers, but got {}",
            offsets.dtype()
        );
        ensure!(
            ragged >= 1 && ragged <= values.dim(),
            Index,
            "Dimension out of range (expected to be in range of [1, {}], but got {ragged})",
            values.dim()
        );
        if let Some(l) = &lengths {
            let b = offsets.numel() - 1;
            ensure!(
                l.dim() == 1 && l.sizes()[0] == b,
                Assertion,
                "offsets and lengths batch sizes must match: offsets.shape[0] - 1 = {b}, lengths.shape[0] = {}",
                l.sizes().first().copied().unwrap_or(0)
            );
        }
        ensure!(offsets.numel() >= 1, Value, "offsets must have at least one element");
        let identity = ragged_of(lengths.as_ref().unwrap_or(&offsets));
        let j = Jagged { values, offsets, lengths, ragged, identity, longest };
        Ok(j)
    }
    pub(crate) fn batch(&self) -> i64 {
        self.offsets.numel() - 1
    }
    pub(crate) fn rank(&self) -> usize {
        self.values.dim() + 1
    }
    pub(crate) fn sizes(&self) -> Vec<i64> {
        let mut sizes = vec![self.batch()];
        sizes.extend_from_slice(self.values.sizes());
        sizes[self.ragged] = -2 - self.identity.number;
        sizes
    }
    /// Start and length of each component; what an index says is checked by those who use it.
    pub(crate) fn bounds(&self) -> Result<Vec<(i64, i64)>> {
        let all = ints(&self.offsets)?;
        let lengths = self.lengths.as_ref().map(ints).transpose()?;
        let total = self.values.sizes()[self.ragged - 1];
        let mut bounds = Vec::with_capacity(all.len());
        for i in 0..all.len().saturating_sub(1) {
            let length = lengths
                .as_ref()
                .map_or(all[i + 1].saturating_sub(all[i]), |l| l.get(i).copied().unwrap_or(-1));
            ensure!(
                all[i] >= 0 && length >= 0 && all[i].saturating_add(length) <= total,
                Runtime,
                "unbind(): nested tensor offsets and lengths do not match ragged_idx dimension"
            );
            bounds.push((all[i], length));
        }
        Ok(bounds)
    }
    /// Whether the components are the whole of the values, one after the other.
    fn covers(bounds: &[(i64, i64)], total: i64) -> bool {
        let mut at = 0;
        bounds.iter().all(|(s, l)| {
            let here = *s == at;
            at = s.saturating_add(*l);
            here
        }) && at == total
    }
    /// Views of the values, one for each component.
    pub(crate) fn components(&self) -> Result<Vec<Tensor>> {
        let (bounds, dim) = (self.bounds()?, self.ragged as i64 - 1);
        if Self::covers(&bounds, self.values.sizes()[self.ragged - 1]) && !bounds.is_empty() {
            let lengths: Vec<i64> = bounds.iter().map(|b| b.1).collect();
            return core::split_with_sizes(&self.values, &lengths, dim);
        }
        bounds.iter().map(|(s, l)| core::narrow(&self.values, dim, *s, *l)).collect()
    }
    pub(crate) fn is_contiguous(&self) -> bool {
        self.lengths.is_none() && self.values.is_contiguous()
    }
    /// As a tensor.
    pub(crate) fn wrap(self) -> Result<Tensor> {
        let sizes = self.sizes();
        let mut strides = vec![0];
        strides.extend_from_slice(self.values.strides());
        let numel = match &self.lengths {
            None => self.values.numel(),
            Some(_) => {
                let rows = self.bounds()?.iter().fold(0i64, |n, b| n.saturating_add(b.1));
                let fixed = sizes.iter().enumerate().skip(1).filter(|(d, _)| *d != self.ragged);
                fixed.fold(rows, |all, (_, n)| all.saturating_mul(*n))
            }
        };
        let shown = Shown {
            sizes: &sizes,
            strides: &strides,
            numel,
            contiguous: self.is_contiguous(),
            layout: Layout::Jagged,
            dtype: self.values.dtype(),
            device: self.values.device(),
        };
        crate::ops::known();
        Tensor::wrap(&shown, Arc::new(Nested::Jagged(self.clone())))
    }
    /// The same structure over other values.
    pub(crate) fn over(&self, values: Tensor) -> Result<Tensor> {
        self.over_at(values, self.ragged)
    }
    /// The same with the ragged dimension elsewhere.
    pub(crate) fn over_at(&self, values: Tensor, ragged: usize) -> Result<Tensor> {
        Jagged { values, ragged, ..self.clone() }.wrap()
    }
    /// The same components without holes between them, packed densely.
    pub(crate) fn dense(&self) -> Result<Jagged> {
        if self.lengths.is_none() {
            let values = core::contiguous(&self.values, MemoryFormat::Contiguous)?;
            return Ok(Jagged { values, ..self.clone() });
        }
        from_components(&self.components()?, self.ragged)
    }
}
/// Elements of an integer tensor.
pub(crate) fn ints(t: &Tensor) -> Result<Vec<i64>> {
    let t = if t.dtype() == DType::I64 {
        t.clone()
    } else {
        core::to_copy(t, Some(DType::I64), None, None, None, false, None)?
    };
    core::contiguous(&t, MemoryFormat::Contiguous)?.try_to_vec::<i64>()
}
/// A jagged structure of components that agree but for the ragged dimension.
pub(crate) fn from_components(components: &[Tensor], ragged: usize) -> Result<Jagged> {
    let dim = ragged - 1;
    let mut offsets = vec![0i64];
    let lengths: Vec<i64> = components.iter().map(|t| t.sizes().get(dim).copied().unwrap_or(0)).collect();
    let mut at = 0i64;
    for l in &lengths {
        at = at.checked_add(*l).ok_or_else(|| Error::shape("too many rows"))?;
        offsets.push(at);
    }
    let n = offsets.len() as i64;
    let values = core::cat(components, dim as i64)?;
    let offsets = Tensor::from_vec_raw(offsets, &[n])?;
    Jagged::new(values, offsets, None, ragged, lengths.iter().copied().max())
}
