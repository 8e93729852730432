//! Constructors and conversions, as `torch.nested` names them.

use crate::ops::convert;
use crate::structure::{Jagged, Nested, Strided, from_components, is_nested, of};
use flambeau_core::api::ergonomic::{TensorList, expect};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::graph;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Tensor, ensure, ops as core};

/// Keyword arguments of [`nested_tensor_with`] and [`as_nested_tensor_with`].
#[derive(Clone, Debug, Default)]
pub struct NestedOptions {
    pub(crate) dtype: Option<DType>,
    pub(crate) layout: Option<Layout>,
    pub(crate) device: Option<Device>,
    pub(crate) requires_grad: bool,
}
impl NestedOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Dtype of the components (by default the first one's).
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }
    /// [`Layout::Strided`], the default: components of any sizes. [`Layout::Jagged`]: components that differ along one dimension.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }
    /// Device of the components (by default the first one's).
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// Makes the tensor a leaf that takes a gradient; of [`nested_tensor_with`] alone.
    pub fn requires_grad(mut self, on: bool) -> Self {
        self.requires_grad = on;
        self
    }
}

fn to(t: &Tensor, o: &NestedOptions) -> Result<Tensor> {
    core::to(t, o.dtype, None, o.device, None, false, false, None)
}
fn unsupported(layout: Layout) -> Error {
    Error::runtime(format!("Specified layout is unsupported for nested tensors: torch.{}", layout.name()))
}
/// Components in the jagged layout, with their history.
pub(crate) fn jagged_from_list(all: &[Tensor], o: &NestedOptions) -> Result<Tensor> {
    let Some(first) = all.first() else {
        return Err(Error::runtime("Cannot construct a nested tensor from an empty tensor list"));
    };
    let same = |what: &str, ok: bool| {
        ensure!(ok, Runtime, "When constructing a nested tensor, all tensors in list must {what}");
        Ok(())
    };
    same("have the same dtype", all.iter().all(|t| t.dtype() == first.dtype()))?;
    same("be on the same device", all.iter().all(|t| t.device() == first.device()))?;
    same("have the same dim", all.iter().all(|t| t.dim() == first.dim()))?;
    ensure!(first.dim() > 0, Runtime, "Cannot construct a nested tensor from a list of zero-dim tensors");
    let ragged: Vec<usize> =
        (0..first.dim()).filter(|d| all.iter().any(|t| t.sizes()[*d] != first.sizes()[*d])).collect();
    ensure!(
        ragged.len() <= 1,
        Runtime,
        "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only \
         allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
    );
    let j = from_components(all, ragged.first().map_or(1, |d| d + 1))?;
    Jagged { values: to(&j.values, o)?, ..j }.wrap()
}
/// Components in the strided layout, with their history.
pub(crate) fn strided_from_list(all: &[Tensor], o: &NestedOptions) -> Result<Tensor> {
    let (rank, dtype) = all.first().map_or((0, DType::F32), |t| (t.dim(), t.dtype()));
    for (i, t) in all.iter().enumerate() {
        ensure!(
            t.dim() == rank,
            Runtime,
            "All Tensors given to nested_tensor must have the same dimension. Found dimension {} for Tensor at index {i} and \
             dimension {rank} for Tensor at index 0.",
            t.dim()
        );
    }
    let dtype = o.dtype.unwrap_or(dtype);
    let o = NestedOptions { dtype: Some(dtype), ..o.clone() };
    let all = all.iter().map(|t| to(t, &o)).collect::<Result<Vec<_>>>()?;
    Strided::pack(&all, rank, dtype)?.wrap()
}

/// [`nested_tensor_with`] with a result.
///
/// # Errors
/// Components of different numbers of dimensions; jagged ones that differ along several dimensions or in dtype; other layouts.
pub fn try_nested_tensor(components: impl TensorList, options: NestedOptions) -> Result<Tensor> {
    let plain: Vec<Tensor> = components.tensor_list().iter().map(Tensor::alias_detached).collect();
    let t = match options.layout.unwrap_or(Layout::Strided) {
        Layout::Strided => strided_from_list(&plain, &options)?,
        Layout::Jagged => jagged_from_list(&plain, &options)?,
        l => return Err(unsupported(l)),
    };
    if options.requires_grad {
        (graph::engine()?.set_requires_grad)(&t, true)?;
    }
    Ok(t)
}
/// A nested tensor of copies of the components, which have as many dimensions each: a leaf.
///
/// ```
/// use torch::nested::{TensorNestedExt, nested_tensor};
/// let x = nested_tensor(&[torch::tensor([1.0, 2.0]), torch::tensor([3.0])]);
/// assert!(x.is_nested());
/// assert_eq!(x.to_padded_tensor(0.0).to_vec::<f32>(), [1.0, 2.0, 3.0, 0.0]);
/// assert_eq!(x.to_string(), "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])");
/// ```
#[track_caller]
#[doc(alias = "torch.nested.nested_tensor")]
pub fn nested_tensor(components: impl TensorList) -> Tensor {
    expect(try_nested_tensor(components, NestedOptions::new()))
}
/// [`nested_tensor`] with all keyword arguments.
#[track_caller]
pub fn nested_tensor_with(components: impl TensorList, options: NestedOptions) -> Tensor {
    expect(try_nested_tensor(components, options))
}

/// [`as_nested_tensor_with`] with a result.
///
/// # Errors
/// As [`try_nested_tensor`].
pub fn try_as_nested_tensor(components: impl TensorList, options: NestedOptions) -> Result<Tensor> {
    match options.layout.unwrap_or(Layout::Strided) {
        Layout::Strided => strided_from_list(&components.tensor_list(), &options),
        Layout::Jagged => jagged_from_list(&components.tensor_list(), &options),
        l => Err(unsupported(l)),
    }
}
/// A nested tensor of copies of the components that keeps their history: gradients flow to them.
///
/// ```
/// use torch::nested::{TensorNestedExt, as_nested_tensor};
/// let (a, b) = (torch::tensor([1.0, 2.0]).requires_grad_(true), torch::tensor([3.0]));
/// let x = as_nested_tensor(&[a.clone(), b]);
/// (&x * &x).to_padded_tensor(0.0).sum().backward();
/// assert_eq!(a.grad().unwrap().to_vec::<f32>(), [2.0, 4.0]);
/// ```
#[track_caller]
#[doc(alias = "torch.nested.as_nested_tensor")]
pub fn as_nested_tensor(components: impl TensorList) -> Tensor {
    expect(try_as_nested_tensor(components, NestedOptions::new()))
}
/// [`as_nested_tensor`] with all keyword arguments.
#[track_caller]
pub fn as_nested_tensor_with(components: impl TensorList, options: NestedOptions) -> Tensor {
    expect(try_as_nested_tensor(components, options))
}
/// A tensor as a nested tensor of its rows, which are all of one size; a nested tensor stays what it is.
///
/// ```
/// use torch::nested::{NestedOptions, TensorNestedExt, try_nested_rows};
/// let rows = try_nested_rows(&torch::ones([3, 2]), NestedOptions::new())?;
/// assert!(rows.is_nested());
/// assert_eq!(rows.to_padded_tensor(0.0).sizes(), &[3, 2]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Fewer than two dimensions; a nested tensor of another layout.
pub fn try_nested_rows(t: &Tensor, options: NestedOptions) -> Result<Tensor> {
    ensure!(t.dim() > 1, Runtime, "as_nested_tensor(): Expected tensor argument to have dim() > 1");
    if is_nested(t) {
        ensure!(
            options.layout == Some(t.layout()),
            Runtime,
            "as_nested_tensor(): Converting between nested tensor layouts is not supported"
        );
        return to(t, &options);
    }
    let (batch, rows) = (t.sizes()[0], t.sizes()[1]);
    match options.layout.unwrap_or(Layout::Strided) {
        Layout::Strided => {
            let buffer = to(&core::reshape(t, &[-1])?, &options)?;
            let size = t.sizes()[1..].to_vec();
            let n: i64 = size.iter().product();
            let parts = (0..batch).map(|i| crate::structure::packed(&size, i * n)).collect();
            Strided { buffer, parts: std::sync::Arc::new(parts), rank: size.len() }.wrap()
        }
        Layout::Jagged => {
            let dense = core::contiguous(t, MemoryFormat::Contiguous)?;
            let values = to(&core::flatten(&dense, 0, 1)?, &options)?;
            let offsets: Vec<i64> = (0..=batch).map(|i| i * rows).collect();
            let n = offsets.len() as i64;
            Jagged::new(values, Tensor::from_vec_raw(offsets, &[n])?, None, 1, Some(rows))?.wrap()
        }
        l => Err(unsupported(l)),
    }
}

/// Keyword arguments of [`nested_tensor_from_jagged_with`].
#[derive(Clone, Debug, Default)]
pub struct JaggedOptions {
    lengths: Option<Tensor>,
    jagged_dim: Option<i64>,
    min_seqlen: Option<i64>,
    max_seqlen: Option<i64>,
}
impl JaggedOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// How many rows each component has from its offset on; without offsets, one component follows the other.
    pub fn lengths(mut self, lengths: &Tensor) -> Self {
        self.lengths = Some(lengths.clone());
        self
    }
    /// The ragged dimension, by default 1.
    pub fn jagged_dim(mut self, dim: i64) -> Self {
        self.jagged_dim = Some(dim);
        self
    }
    /// The length of the shortest component, where it is known.
    pub fn min_seqlen(mut self, n: i64) -> Self {
        self.min_seqlen = Some(n);
        self
    }
    /// The length of the longest component, where it is known: what padding pads to.
    pub fn max_seqlen(mut self, n: i64) -> Self {
        self.max_seqlen = Some(n);
        self
    }
}
/// Where components of these lengths begin, and where the last one ends.
fn ends(lengths: &Tensor) -> Result<Tensor> {
    let sums = core::cumsum(lengths, 0, None)?;
    let zero = Tensor::zeros_raw(&[1], sums.dtype(), sums.device())?;
    core::cat(&[zero, sums], 0)
}
/// [`nested_tensor_from_jagged_with`] with a result.
///
/// # Errors
/// Neither offsets nor lengths; lengths that are not as many as the offsets say; `jagged_dim` below 1.
pub fn try_nested_tensor_from_jagged(
    values: &Tensor,
    offsets: Option<&Tensor>,
    options: JaggedOptions,
) -> Result<Tensor> {
    let (offsets, lengths) = match (offsets, &options.lengths) {
        (None, None) => {
            return Err(Error::runtime(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required.",
            ));
        }
        (None, Some(l)) => (ends(l)?, None),
        (Some(o), l) => (o.clone(), l.clone()),
    };
    let dim = options.jagged_dim.unwrap_or(1);
    ensure!(dim >= 1, Value, "Expected jagged_dim >=1, but got {dim}.");
    if let (Some(least), Some(most)) = (options.min_seqlen, options.max_seqlen) {
        ensure!(least <= most, Value, "min_seqlen {least} is above max_seqlen {most}");
    }
    Jagged::new(values.clone(), offsets, lengths, dim as usize, options.max_seqlen)?.wrap()
}
/// A nested tensor of the jagged layout over a tensor whose rows `offsets[i] .. offsets[i + 1]` are component `i`. It shares the
/// memory of `values` and gradients flow there.
///
/// ```
/// use torch::nested::{TensorNestedExt, nested_tensor_from_jagged};
/// let x = nested_tensor_from_jagged(&torch::tensor([1.0, 2.0, 3.0]), &torch::tensor([0, 2, 3]));
/// assert_eq!(x.to_padded_tensor(0.0).to_vec2::<f32>(), [[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]]);
/// ```
#[track_caller]
#[doc(alias = "torch.nested.nested_tensor_from_jagged")]
pub fn nested_tensor_from_jagged(values: &Tensor, offsets: &Tensor) -> Tensor {
    expect(try_nested_tensor_from_jagged(values, Some(offsets), JaggedOptions::new()))
}
/// [`nested_tensor_from_jagged`] with all keyword arguments.
#[track_caller]
pub fn nested_tensor_from_jagged_with(
    values: &Tensor,
    offsets: Option<&Tensor>,
    options: JaggedOptions,
) -> Tensor {
    expect(try_nested_tensor_from_jagged(values, offsets, options))
}

/// [`narrow`] with a result.
///
/// # Errors
/// Another dimension than 1; starts and lengths that are not one per row; rows beyond the tensor's.
pub fn try_narrow(t: &Tensor, dim: i64, start: &Tensor, length: &Tensor) -> Result<Tensor> {
    ensure!(dim == 1, Runtime, "jagged layout only supports dim=1");
    let batch = t.sizes().first().copied().unwrap_or(0);
    let fits = |x: &Tensor| x.dim() == 0 || (x.dim() == 1 && (x.sizes()[0] == batch || x.sizes()[0] == 1));
    ensure!(
        fits(start) && fits(length),
        Runtime,
        "When constructing a jagged nested tensor using narrow(), your start and length must be Tensors that broadcast to \
         input.shape[0]"
    );
    ensure!(t.dim() >= 2, Assertion, "tensor must at least be 2D for the nested narrow op to work");
    let (starts, lengths) = (core::expand(start, &[batch], false)?, core::expand(length, &[batch], false)?);
    let (from, count) = (crate::structure::ints(&starts)?, crate::structure::ints(&lengths)?);
    let rows = t.sizes()[1];
    for (s, l) in from.iter().zip(&count) {
        ensure!(
            *s >= 0 && *l >= 0 && s.checked_add(*l).is_some_and(|e| e <= rows),
            Runtime,
            "start ({s}) + length ({l}) exceeds dimension size ({rows})."
        );
    }
    let mut offsets: Vec<i64> = from.iter().enumerate().map(|(i, s)| i as i64 * rows + s).collect();
    offsets.push(batch * rows);
    let values = core::flatten(&core::contiguous(t, MemoryFormat::Contiguous)?, 0, 1)?;
    let longest = count.iter().copied().max();
    // rows that follow each other without a gap need no lengths
    let packed = count.iter().enumerate().all(|(i, l)| offsets[i] + l == offsets[i + 1]);
    let n = offsets.len() as i64;
    if packed && batch > 0 {
        let first = offsets[0];
        let values = core::slice(&values, 0, Some(first), None, 1)?;
        let offsets = offsets.iter().map(|o| o - first).collect();
        return Jagged::new(values, Tensor::from_vec_raw(offsets, &[n])?, None, 1, longest)?.wrap();
    }
    Jagged::new(values, Tensor::from_vec_raw(offsets, &[n])?, Some(lengths), 1, longest)?.wrap()
}
/// Rows `start[i] .. start[i] + length[i]` of each matrix of a batch, as a nested tensor of the jagged layout over the same memory.
/// `start` and `length` have one element or one for each matrix.
///
/// ```
/// use torch::nested::narrow;
/// let x = torch::tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let parts = narrow(&x, 1, &torch::tensor([0, 1]), &torch::tensor([1, 2]));
/// let rows: Vec<Vec<f32>> = parts.unbind(0).iter().map(|row| row.to_vec()).collect();
/// assert_eq!(rows, [vec![1.0], vec![5.0, 6.0]]);
/// ```
#[track_caller]
#[doc(alias = "torch.nested.narrow")]
pub fn narrow(t: &Tensor, dim: i64, start: &Tensor, length: &Tensor) -> Tensor {
    expect(try_narrow(t, dim, start, length))
}

/// [`masked_select`] with a result.
///
/// # Errors
/// Sparse tensors; a mask that does not broadcast.
pub fn try_masked_select(t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(
        t.layout() == Layout::Strided,
        Runtime,
        "torch.nested.masked_select requires a strided tensor, given torch.{}",
        t.layout().name()
    );
    ensure!(
        mask.layout() == Layout::Strided,
        Runtime,
        "torch.nested.masked_select requires a strided mask, given: torch.{}",
        mask.layout().name()
    );
    let values = core::masked_select(t, mask)?;
    let wide = core::expand(mask, t.sizes(), false)?;
    let lengths = core::reshape(&core::sum(&wide, Some(&[t.dim() as i64 - 1]), false, None)?, &[-1])?;
    Jagged::new(values, ends(&lengths)?, None, 1, None)?.wrap()
}
/// The elements that the mask chooses, as a nested tensor with a component for each row of the last dimension.
///
/// ```
/// use torch::nested::masked_select;
/// let x = torch::tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let large = masked_select(&x, &x.gt(2.0));
/// let rows: Vec<Vec<f32>> = large.unbind(0).iter().map(|row| row.to_vec()).collect();
/// assert_eq!(rows, [vec![3.0], vec![4.0, 5.0, 6.0]]);
/// ```
#[track_caller]
#[doc(alias = "torch.nested.masked_select")]
pub fn masked_select(t: &Tensor, mask: &Tensor) -> Tensor {
    expect(try_masked_select(t, mask))
}

/// Methods of nested tensors.
pub trait TensorNestedExt {
    /// Whether the tensor is nested.
    fn is_nested(&self) -> bool;
    /// Where the components of a jagged tensor begin and end.
    ///
    /// # Errors
    /// Other tensors.
    fn try_offsets(&self) -> Result<Tensor>;
    /// [`TensorNestedExt::try_offsets`] that panics.
    fn offsets(&self) -> Tensor;
    /// The lengths of the components of a jagged tensor with holes; none where the offsets say them.
    fn lengths(&self) -> Option<Tensor>;
    /// The tensor that the components are parts of: of a jagged tensor its rows, of a strided one the buffer.
    ///
    /// # Errors
    /// Tensors that are not nested.
    fn try_nested_values(&self) -> Result<Tensor>;
    /// An ordinary tensor with `padding` behind the components' elements.
    ///
    /// # Errors
    /// Tensors that are not nested; an `output_size` that is too small.
    fn try_to_padded_tensor(&self, padding: f64, output_size: Option<&[i64]>) -> Result<Tensor>;
    /// [`TensorNestedExt::try_to_padded_tensor`] to the size of the longest component, which panics.
    fn to_padded_tensor(&self, padding: f64) -> Tensor;
}
impl TensorNestedExt for Tensor {
    fn is_nested(&self) -> bool {
        is_nested(self)
    }
    fn try_offsets(&self) -> Result<Tensor> {
        match of(self) {
            Some(Nested::Jagged(j)) => Ok(j.offsets.clone()),
            _ => Err(flambeau_core::dispatch::object::no_attribute("Tensor", "offsets")),
        }
    }
    #[track_caller]
    fn offsets(&self) -> Tensor {
        expect(self.try_offsets())
    }
    fn lengths(&self) -> Option<Tensor> {
        match of(self) {
            Some(Nested::Jagged(j)) => j.lengths.clone(),
            _ => None,
        }
    }
    fn try_nested_values(&self) -> Result<Tensor> {
        match of(self) {
            Some(Nested::Jagged(j)) => Ok(j.values.clone()),
            Some(Nested::Strided(s)) => Ok(s.buffer.clone()),
            None => Err(Error::runtime("values of a tensor that is not nested")),
        }
    }
    fn try_to_padded_tensor(&self, padding: f64, output_size: Option<&[i64]>) -> Result<Tensor> {
        convert::to_padded_tensor(self, padding, output_size)
    }
    #[track_caller]
    fn to_padded_tensor(&self, padding: f64) -> Tensor {
        expect(self.try_to_padded_tensor(padding, None))
    }
}
/// [`TensorNestedExt::to_padded_tensor`] as a function.
///
/// # Errors
/// A tensor that is not nested.
#[doc(alias = "torch.nested.to_padded_tensor")]
#[flambeau_macros::short]
pub fn try_to_padded_tensor(t: &Tensor, padding: f64) -> Result<Tensor> {
    t.try_to_padded_tensor(padding, None)
}
