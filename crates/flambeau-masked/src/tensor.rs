//! Tensors with a mask.

use crate::ops::wrapped;
use flambeau_autograd::TensorAutogradExt as _;
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::graph;
use flambeau_core::tensor::wrapper::{Shown, Wrapped};
use flambeau_core::{DType, Error, Layout, Result, Scalar, Tensor, bail, ensure, ops as core};
use flambeau_sparse::generated::ops as sparse;
use std::any::Any;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// The name of the class of wrappers.
pub(crate) const CLASS: &str = "MaskedTensor";

/// A tensor of which a mask says which elements count: those where it is true.
///
/// It is a [`Tensor`]: operators and methods take it, work on the elements that count and give masked tensors again.
/// Unary functions keep the mask; binary ones ask for equal masks; reductions leave the hidden elements out; views view both.
/// Gradients of masked tensors are masked tensors.
///
/// ```
/// use torch::masked::masked_tensor;
/// let data = torch::tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let mask = torch::tensor([[true, false], [true, true]]);
/// let x = masked_tensor(&data, &mask);
/// assert_eq!(x.to_tensor(0.0).to_vec::<f32>(), [1.0, 0.0, 3.0, 4.0]);
/// let total = torch::masked::MaskedTensor::of(&x.sum()).unwrap();
/// assert_eq!(total.get_data().to_vec::<f32>(), [8.0]);
/// assert_eq!(x.to_string(), "MaskedTensor(\n  [\n    [  1.0000,       --],\n    [  3.0000,   4.0000]\n  ]\n)");
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.masked.MaskedTensor")]
pub struct MaskedTensor(Tensor);

impl Deref for MaskedTensor {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}
impl std::fmt::Display for MaskedTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl AsRef<Tensor> for MaskedTensor {
    fn as_ref(&self) -> &Tensor {
        &self.0
    }
}
impl From<MaskedTensor> for Tensor {
    fn from(m: MaskedTensor) -> Tensor {
        m.0
    }
}

/// What a masked tensor is made of.
#[derive(Clone)]
pub(crate) struct Masked {
    pub(crate) data: Tensor,
    pub(crate) mask: Tensor,
    /// Of a gradient that reached a part of a masked tensor alone: the mask of the whole.
    pub(crate) whole: Option<Tensor>,
}
impl Wrapped for Masked {
    fn class(&self) -> &'static str {
        CLASS
    }
    fn carrier(&self) -> Tensor {
        self.data.clone()
    }
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>> {
        ensure!(carrier.sizes() == self.mask.sizes(), Value, "data.size() must equal mask.size()");
        // a gradient that is one already keeps the mask of the part that it is of
        let (data, part) = match of(&carrier) {
            Some(m) => (m.data.clone(), m.whole.is_some().then(|| m.mask.clone())),
            None => (carrier, None),
        };
        let mask = part.unwrap_or_else(|| self.mask.clone());
        Ok(Arc::new(Masked { data, mask, whole: None }))
    }
    fn text(&self, _: &Tensor) -> Result<String> {
        text(self)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What `t` is made of, if it is masked.
pub(crate) fn of(t: &Tensor) -> Option<&Masked> {
    t.wrapped()?.as_any().downcast_ref()
}
/// Whether a tensor has a mask.
///
/// ```
/// use torch::masked::{is_masked_tensor, masked_tensor};
/// let x = masked_tensor(&torch::tensor([1.0, 2.0]), &torch::tensor([true, false]));
/// assert!(is_masked_tensor(&x.sum()) && !is_masked_tensor(&torch::ones([2])));
/// ```
#[doc(alias = "torch.masked.is_masked_tensor")]
pub fn is_masked_tensor(t: &Tensor) -> bool {
    of(t).is_some()
}

/// Data and mask as they are, checked.
pub(crate) fn wrap(data: &Tensor, mask: &Tensor) -> Result<Tensor> {
    wrap_part(data, mask, None)
}
/// The same of a gradient of a part of a masked tensor, whose own mask is `whole`.
pub(crate) fn wrap_part(data: &Tensor, mask: &Tensor, whole: Option<Tensor>) -> Result<Tensor> {
    let layout = data.layout();
    ensure!(layout == mask.layout(), Type, "data and mask must have the same layout.");
    ensure!(
        matches!(layout, Layout::Strided | Layout::SparseCoo | Layout::SparseCsr),
        Type,
        "data layout of torch.{} is not supported.",
        layout.name()
    );
    match layout {
        Layout::SparseCoo => ensure!(
            wrapped::same_places(data, mask)?,
            Value,
            "data and mask are both sparse COO tensors but do not have the same indices."
        ),
        Layout::SparseCsr => ensure!(
            wrapped::same_places(data, mask)?,
            Value,
            "data and mask are both sparse CSR tensors but do not share either crow or col indices."
        ),
        _ => {}
    }
    ensure!(mask.dtype() == DType::Bool, Type, "mask must have dtype bool.");
    use DType::*;
    ensure!(
        matches!(data.dtype(), F16 | F32 | F64 | Bool | I8 | I16 | I32 | I64),
        Type,
        "{} is not supported in MaskedTensor.",
        data.dtype()
    );
    ensure!(data.dim() == mask.dim(), Value, "data.dim() must equal mask.dim()");
    ensure!(data.sizes() == mask.sizes(), Value, "data.size() must equal mask.size()");
    let shown = Shown {
        sizes: data.sizes(),
        strides: data.strides(),
        numel: data.numel(),
        contiguous: layout == Layout::Strided && data.is_contiguous(),
        layout,
        dtype: data.dtype(),
        device: data.device(),
    };
    wrapped::known();
    Tensor::wrap(&shown, Arc::new(Masked { data: data.clone(), mask: mask.clone(), whole }))
}

/// Copies of data and mask; sparse data get the mask's places.
fn prepared(data: &Tensor, mask: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(data.layout() == mask.layout(), Type, "data and mask must have the same layout.");
    let (mut data, mut mask) = (data.clone(), mask.clone());
    if data.layout() == Layout::SparseCoo {
        data = sparse::coalesce(&data)?;
        mask = sparse::coalesce(&mask)?;
    }
    if matches!(data.layout(), Layout::SparseCoo | Layout::SparseCsr)
        && sparse::nnz(&data)? != sparse::nnz(&mask)?
    {
        let size = |t: &Tensor| t.sizes().iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        ensure!(
            data.sizes() == mask.sizes(),
            Assertion,
            "mask.shape must match input.shape: torch.Size([{}]) vs torch.Size([{}])",
            size(&mask),
            size(&data)
        );
        data = sparse::sparse_mask(&sparse::to_dense(&data, None, None)?, &mask)?;
    }
    Ok((core::clone(&data, None)?, core::clone(&mask, None)?))
}

/// Of arguments that are masked already.
fn check_plain(data: &Tensor, mask: &Tensor) -> Result<()> {
    ensure!(of(data).is_none(), Type, "data must be a Tensor");
    ensure!(of(mask).is_none(), Type, "mask must be a Tensor");
    Ok(())
}
/// [`masked_tensor`] with a result.
///
/// # Errors
/// Sizes or layouts that differ; a mask that is not bool; complex, unsigned and bfloat16 data; gradients of integers.
pub fn try_masked_tensor(data: &Tensor, mask: &Tensor, requires_grad: bool) -> Result<MaskedTensor> {
    check_plain(data, mask)?;
    ensure!(
        !requires_grad || data.dtype().is_floating() || data.dtype().is_complex(),
        Runtime,
        "Only Tensors of floating point and complex dtype can require gradients"
    );
    let (data, mask) = prepared(&data.alias_detached(), &mask.alias_detached())?;
    let t = wrap(&data.alias_detached(), &mask.alias_detached())?;
    if requires_grad {
        (graph::engine()?.set_requires_grad)(&t, true)?;
    }
    Ok(MaskedTensor(t))
}
/// A masked tensor of copies of data and mask: a leaf. Data and mask have the same sizes and layout (strided, COO or CSR), the
/// mask is bool.
#[track_caller]
#[doc(alias = "torch.masked.masked_tensor")]
pub fn masked_tensor(data: &Tensor, mask: &Tensor) -> MaskedTensor {
    expect(try_masked_tensor(data, mask, false))
}

/// Passes data on; the gradient of the data is masked.
struct Constructor;
impl Function for Constructor {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("Constructor")
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [data, mask] = inputs else { bail!(Runtime, "data and a mask") };
        ctx.save_for_backward(&[mask]);
        Ok(vec![core::clone(data, None)?])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let mask = &ctx.saved_tensors()?[0];
        let Some(Some(grad)) = grads.first() else { return Ok(vec![None, None]) };
        Ok(vec![
            Some(match of(grad) {
                Some(m) if m.whole.is_some() => wrap(&m.data, &m.mask)?,
                Some(m) => wrap(&m.data, mask)?,
                None => wrap(grad, mask)?,
            }),
            None,
        ])
    }
}
/// Passes data on to an operator that takes a part of them; the gradient is masked by that part, as PyTorch's is.
struct Part;
impl Function for Part {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("MaskedPart")
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [data, part, whole] = inputs else { bail!(Runtime, "data, a part of their mask and all of it") };
        ctx.save_for_backward(&[part, whole]);
        Ok(vec![core::clone(data, None)?])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        let [part, whole] = &saved[..] else { bail!(Runtime, "the masks of a part") };
        let Some(Some(grad)) = grads.first() else { return Ok(vec![None, None, None]) };
        // a mask of its own: sums of gradients write it
        let part = core::clone(part, None)?;
        Ok(vec![Some(wrap_part(grad, &part, Some(whole.clone()))?), None, None])
    }
}
/// The data of a masked leaf for an operator that takes a part: gradients come back with the mask of the part, which `view` takes
/// of a tensor of the leaf's sizes. `None` where the data are no leaf's: a gradient that goes on is of numbers alone.
pub(crate) fn for_part(m: &Masked, view: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Option<Tensor>> {
    let leaf = || match m.data.grad_fn() {
        Some(f) => f.name() == "ConstructorBackward",
        None => true,
    };
    let wanted = m.data.layout() == Layout::Strided
        && m.data.requires_grad()
        && flambeau_autograd::grad_mode::is_grad_enabled()
        && leaf();
    if !wanted {
        return Ok(None);
    }
    let part = core::zeros_like(&m.mask, None, None, None, None, None)?;
    core::copy_(&view(&part)?, &view(&m.mask)?, false)?;
    let made = function::apply(Part, &[m.data.clone(), part, m.mask.clone()])?;
    Ok(made.into_iter().next())
}
/// [`as_masked_tensor`] with a result.
///
/// # Errors
/// As [`try_masked_tensor`].
pub fn try_as_masked_tensor(data: &Tensor, mask: &Tensor) -> Result<MaskedTensor> {
    check_plain(data, mask)?;
    let (d, mask) = prepared(data, &mask.alias_detached())?;
    if data.layout() == Layout::Strided && data.requires_grad() {
        let made = function::apply(Constructor, &[data.clone(), mask.clone()])?;
        return wrap(&made[0], &mask).map(MaskedTensor);
    }
    wrap(&d, &mask).map(MaskedTensor)
}
/// A masked tensor of a result that nobody else has: no copy.
pub(crate) fn as_masked(data: &Tensor, mask: &Tensor) -> Result<Tensor> {
    wrap(data, mask)
}
/// A masked tensor of a copy of data that keeps the data's history: gradients flow to `data`, as masked tensors.
///
/// ```
/// use torch::masked::as_masked_tensor;
/// let x = torch::tensor([1.0, 2.0]).requires_grad_(true).clone();
/// let total = as_masked_tensor(&(&x * 3.0), &torch::tensor([true, false])).sum();
/// assert_eq!(torch::masked::MaskedTensor::of(&total).unwrap().get_data().to_vec::<f32>(), [3.0]);
/// ```
#[track_caller]
#[doc(alias = "torch.masked.as_masked_tensor")]
pub fn as_masked_tensor(data: &Tensor, mask: &Tensor) -> MaskedTensor {
    expect(try_as_masked_tensor(data, mask))
}

impl MaskedTensor {
    /// A result of an operator as the masked tensor that it is.
    pub fn of(t: &Tensor) -> Option<MaskedTensor> {
        is_masked_tensor(t).then(|| MaskedTensor(t.clone()))
    }
    fn parts(&self) -> &Masked {
        // only masked tensors get into the struct
        match of(&self.0) {
            Some(m) => m,
            None => unreachable!("a masked tensor is made of data and a mask"),
        }
    }
    /// The data, hidden elements included. Its history is the masked tensor's.
    pub fn get_data(&self) -> Tensor {
        self.parts().data.clone()
    }
    /// The mask: true where an element counts.
    pub fn get_mask(&self) -> Tensor {
        self.parts().mask.clone()
    }
    /// The data with `value` where the mask is false.
    #[track_caller]
    pub fn to_tensor(&self, value: impl Into<Scalar>) -> Tensor {
        expect(to_tensor(&self.0, value.into()))
    }
}

pub(crate) fn to_tensor(t: &Tensor, value: Scalar) -> Result<Tensor> {
    let Some(m) = of(t) else { return Err(Error::type_("data must be a MaskedTensor")) };
    core::masked_fill(&m.data, &core::logical_not(&m.mask)?, value)
}

/// Elements as Python's `format` writes them.
fn elements(data: &Tensor) -> Result<Vec<String>> {
    let all = core::reshape(&core::detach(data)?, &[-1])?;
    Ok(match data.dtype() {
        DType::Bool => {
            let all = core::to_copy(&all, Some(DType::U8), None, None, None, false, None)?;
            all.try_to_vec::<u8>()?
                .iter()
                .map(|b| if *b == 0 { "False".into() } else { "True".into() })
                .collect()
        }
        d if d.is_floating() => {
            let all = core::to_copy(&all, Some(DType::F64), None, None, None, false, None)?;
            let text = |v: &f64| if v.is_nan() { format!("{:>8}", "nan") } else { format!("{v:8.4}") };
            all.try_to_vec::<f64>()?.iter().map(text).collect()
        }
        _ => {
            let all = core::to_copy(&all, Some(DType::I64), None, None, None, false, None)?;
            all.try_to_vec::<i64>()?.iter().map(i64::to_string).collect()
        }
    })
}
fn lines(sizes: &[i64], elements: &[String], mask: &[u8]) -> String {
    if sizes.len() <= 1 {
        let width = |(e, m): (&String, &u8)| if *m == 0 { 8 } else { e.len() };
        let widest = elements.iter().zip(mask).map(width).max().unwrap_or(0);
        let one = |(e, m): (&String, &u8)| if *m == 0 { format!("{:>widest$}", "--") } else { e.clone() };
        return format!("[{}]", elements.iter().zip(mask).map(one).collect::<Vec<_>>().join(", "));
    }
    let n = (elements.len() / (sizes[0].max(1) as usize)).max(1);
    let rows = elements.chunks(n).zip(mask.chunks(n)).map(|(e, m)| indented(&lines(&sizes[1..], e, m)));
    format!("[\n{}\n]", rows.collect::<Vec<_>>().join(",\n"))
}
fn indented(s: &str) -> String {
    s.split('\n').map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
}
fn text(m: &Masked) -> Result<String> {
    let dense = |t: &Tensor| match t.layout() {
        Layout::Strided => Ok(t.clone()),
        _ => sparse::to_dense(t, None, None),
    };
    let (data, mask) = (dense(&m.data)?, dense(&m.mask)?);
    let all = elements(&data)?;
    let flat = core::reshape(&core::to_copy(&mask, Some(DType::U8), None, None, None, false, None)?, &[-1])?;
    let hidden = flat.try_to_vec::<u8>()?;
    if data.dim() == 0 {
        let on = hidden.first() != Some(&0);
        let shown = if on { all.first().map_or("", String::as_str) } else { "--" };
        return Ok(format!("MaskedTensor({shown}, {})", if on { "True" } else { "False" }));
    }
    Ok(format!("MaskedTensor(\n{}\n)", indented(&lines(data.sizes(), &all, &hidden))))
}
