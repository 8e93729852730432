//! `torch.nn.utils.rnn`: sequences of different lengths, padded side by side or packed step by step.
//!
//! ```
//! use torch::tensor;
//! use torch::nn::utils::rnn::{pack_sequence, unpack_sequence};
//!
//! let packed = pack_sequence(&[tensor([1, 2, 3]), tensor([4, 5]), tensor([6])]);
//! assert_eq!(packed.data.to_vec::<i64>(), [1, 4, 6, 2, 5, 3]);
//! assert_eq!(packed.batch_sizes.to_vec::<i64>(), [3, 2, 1]);
//! assert_eq!(unpack_sequence(&packed)[1].to_vec::<i64>(), [4, 5]);
//! ```

use crate::module::tensors::Tensors;
use flambeau_core::api::convert::Dim;
use flambeau_core::api::ergonomic::{TensorList, expect};
use flambeau_core::dispatch::value::{FromValue, IntoValue, NamedTuple, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::to_text;
use flambeau_core::{DType, Device, Error, IntoTensorOptions, Result, Scalar, Tensor, ensure, ops};
use flambeau_nn_functional::ops as f;
use std::fmt;

pub(crate) const CLASS: &str = "PackedSequence";
pub(crate) const FIELDS: [&str; 4] = ["data", "batch_sizes", "sorted_indices", "unsorted_indices"];

/// Sequences of different lengths without padding: the elements of all sequences step by step, the longest sequence
/// first. The functions of this module make it, and every recurrent module takes it.
///
/// ```
/// use torch::{nn, prelude::*, randn};
/// use torch::nn::utils::rnn::{PackedSequence, pack_sequence, unpack_sequence};
/// let packed: PackedSequence = pack_sequence(&[randn([4, 2]), randn([1, 2])]);
/// let (out, _) = nn::GRU::new(2, 3).call(&packed, None);
/// let each: Vec<Vec<i64>> = unpack_sequence(&out).iter().map(|t| t.sizes().to_vec()).collect();
/// assert_eq!(each, [[4, 3], [1, 3]]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.nn.utils.rnn.PackedSequence")]
pub struct PackedSequence {
    /// `(rows, *)`: of each step the elements of the sequences that have it.
    pub data: Tensor,
    /// How many sequences have each step: int64 on the CPU, never growing.
    pub batch_sizes: Tensor,
    /// Where each sequence stood before they were sorted; `None` if they were not.
    pub sorted_indices: Option<Tensor>,
    /// Where each sequence stands now, in the order from before; `None` if they were not sorted.
    pub unsorted_indices: Option<Tensor>,
}
impl PackedSequence {
    /// Of its parts; without `unsorted_indices` they are the inverse of `sorted_indices`.
    ///
    /// # Errors
    /// Batch sizes that are not on the CPU; indices that are no permutation.
    pub fn try_new(
        data: &Tensor,
        batch_sizes: &Tensor,
        sorted_indices: Option<&Tensor>,
        unsorted_indices: Option<&Tensor>,
    ) -> Result<PackedSequence> {
        let unsorted = match (unsorted_indices, sorted_indices) {
            (Some(u), _) => Some(u.clone()),
            (None, Some(s)) => Some(try_invert_permutation(s)?),
            (None, None) => None,
        };
        ensure!(
            batch_sizes.device() == Device::Cpu,
            Value,
            "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
        );
        Ok(PackedSequence {
            data: data.clone(),
            batch_sizes: batch_sizes.clone(),
            sorted_indices: sorted_indices.cloned(),
            unsorted_indices: unsorted,
        })
    }
    /// [`PackedSequence::try_new`] that panics with the error's text.
    #[track_caller]
    pub fn new(data: &Tensor, batch_sizes: &Tensor, sorted_indices: Option<&Tensor>) -> PackedSequence {
        expect(Self::try_new(data, batch_sizes, sorted_indices, None))
    }
    /// The same with `data` in another dtype or on another device, to which the indices follow.
    ///
    /// # Errors
    /// A device that is not there.
    pub fn try_to(&self, options: impl IntoTensorOptions) -> Result<PackedSequence> {
        let o = options.into_tensor_options()?;
        let device = o.device.unwrap_or(self.data.device());
        let copy = |t: &Tensor, d: Option<DType>| {
            if d.is_none_or(|d| d == t.dtype()) && t.device() == device {
                return Ok(t.clone());
            }
            ops::to_copy(t, d, None, Some(device), None, false, None)
        };
        let follow = |t: &Option<Tensor>| t.as_ref().map(|t| copy(t, None)).transpose();
        Ok(PackedSequence {
            data: copy(&self.data, o.dtype)?,
            batch_sizes: self.batch_sizes.clone(),
            sorted_indices: follow(&self.sorted_indices)?,
            unsorted_indices: follow(&self.unsorted_indices)?,
        })
    }
    /// [`PackedSequence::try_to`] that panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.nn.utils.rnn.PackedSequence.to")]
    pub fn to(&self, options: impl IntoTensorOptions) -> PackedSequence {
        expect(self.try_to(options))
    }
    /// Whether `data` lies on a GPU.
    #[doc(alias = "torch.nn.utils.rnn.PackedSequence.is_cuda")]
    pub fn is_cuda(&self) -> bool {
        matches!(self.data.device(), Device::Cuda(_))
    }
    /// Sequences.
    pub(crate) fn batch(&self) -> Result<i64> {
        Ok(self.batch_sizes.try_to_vec::<i64>()?.first().copied().unwrap_or(0))
    }
    /// The same indices and steps over other data.
    pub(crate) fn with_data(&self, data: Tensor) -> PackedSequence {
        PackedSequence { data, ..self.clone() }
    }
    /// Python's text.
    fn text(&self) -> Result<String> {
        let one = |t: &Tensor| to_text(t);
        let index = |t: &Option<Tensor>| t.as_ref().map_or(Ok("None".to_owned()), one);
        Ok(format!(
            "{CLASS}(data={}, batch_sizes={}, sorted_indices={}, unsorted_indices={})",
            one(&self.data)?,
            one(&self.batch_sizes)?,
            index(&self.sorted_indices)?,
            index(&self.unsorted_indices)?
        ))
    }
}
macro_rules! dtypes {
    ($($name:ident $dtype:ident;)*) => {
        impl PackedSequence {
            $(
                #[doc = concat!("With `data` as ", stringify!($dtype), ".")]
                #[track_caller]
                pub fn $name(&self) -> PackedSequence {
                    self.to(DType::$dtype)
                }
            )*
        }
    };
}
dtypes! {
    double F64;
    float F32;
    half F16;
    long I64;
    int I32;
    short I16;
    char I8;
    byte U8;
}
impl fmt::Display for PackedSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text().map_err(|_| fmt::Error)?)
    }
}
impl IntoValue for PackedSequence {
    fn into_value(self) -> Value {
        let PackedSequence { data, batch_sizes, sorted_indices, unsorted_indices } = self;
        let items = vec![
            Value::Tensor(data),
            Value::Tensor(batch_sizes),
            sorted_indices.into_value(),
            unsorted_indices.into_value(),
        ];
        Value::Named(NamedTuple { class: CLASS.into(), fields: FIELDS.to_vec(), items })
    }
}
impl FromValue for PackedSequence {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Named(t) if t.class == CLASS => match t.items.as_slice() {
                [data, sizes, sorted, unsorted] => Ok(PackedSequence {
                    data: Tensor::from_value(data)?,
                    batch_sizes: Tensor::from_value(sizes)?,
                    sorted_indices: FromValue::from_value(sorted)?,
                    unsorted_indices: FromValue::from_value(unsorted)?,
                }),
                _ => Err(Error::type_("a PackedSequence has four parts")),
            },
            other => Err(Error::type_(format!("expected PackedSequence, not {}", other.type_name()))),
        }
    }
}
impl Tensors for PackedSequence {
    /// Data, batch sizes, then the indices if there are any.
    fn visit_tensors(&self, f: &mut dyn FnMut(&Tensor)) {
        let indices = self.sorted_indices.iter().chain(&self.unsorted_indices);
        [&self.data, &self.batch_sizes].into_iter().chain(indices).for_each(f);
    }
    fn visit_tensors_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        let indices = self.sorted_indices.iter_mut().chain(&mut self.unsorted_indices);
        [&mut self.data, &mut self.batch_sizes].into_iter().chain(indices).for_each(f);
    }
    fn same(&self) -> Self {
        self.clone()
    }
}
crate::module::tensors::owned_inputs!([] PackedSequence;);

/// Lengths of sequences: numbers, or an integer tensor.
///
/// ```
/// use torch::nn::utils::rnn::{PackedSequence, pack_padded_sequence};
/// let padded = torch::zeros([3, 2]);
/// let sizes = |p: PackedSequence| p.batch_sizes.to_vec::<i64>();
/// assert_eq!(sizes(pack_padded_sequence(&padded, &[3, 1])), [2, 1, 1]);
/// assert_eq!(sizes(pack_padded_sequence(&padded, &torch::tensor([3, 1]))), [2, 1, 1]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no lengths of sequences",
    label = "lengths are wanted here",
    note = "numbers in an array, slice or vector, or an integer tensor"
)]
pub trait Lengths {
    /// As int64 on the CPU.
    ///
    /// # Errors
    /// A tensor that cannot be converted.
    fn lengths(&self) -> Result<Tensor>;
}
impl Lengths for Tensor {
    fn lengths(&self) -> Result<Tensor> {
        if self.dtype() == DType::I64 {
            return Ok(self.clone());
        }
        ops::to_copy(self, Some(DType::I64), None, None, None, false, None)
    }
}
impl<D: Dim> Lengths for [D] {
    fn lengths(&self) -> Result<Tensor> {
        let all: Vec<i64> = self.iter().map(|d| d.dim()).collect();
        let n = all.len() as i64;
        Tensor::from_vec_raw(all, &[n])
    }
}
impl<D: Dim, const N: usize> Lengths for [D; N] {
    fn lengths(&self) -> Result<Tensor> {
        self[..].lengths()
    }
}
impl<D: Dim> Lengths for Vec<D> {
    fn lengths(&self) -> Result<Tensor> {
        self[..].lengths()
    }
}

/// [`invert_permutation`] with an error instead of a panic.
///
/// # Errors
/// Indices that are no permutation, or not int64.
pub fn try_invert_permutation(permutation: &Tensor) -> Result<Tensor> {
    let out = ops::empty_like(permutation, None, None, None, None, None)?;
    let places = ops::arange(
        Scalar::Int(permutation.numel()),
        Some(DType::I64),
        None,
        Some(permutation.device()),
        None,
    )?;
    ops::scatter_(&out, 0, permutation, &places)?;
    Ok(out)
}
/// The inverse of a permutation `(n)`: where each place went.
///
/// ```
/// use torch::nn::utils::rnn::invert_permutation;
/// assert_eq!(invert_permutation(&torch::tensor([2, 0, 1])).to_vec::<i64>(), [1, 2, 0]);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.invert_permutation")]
pub fn invert_permutation(permutation: &Tensor) -> Tensor {
    expect(try_invert_permutation(permutation))
}

/// Keywords of [`pack_padded_sequence_with`].
#[flambeau_macros::options]
pub struct PackPaddedSequenceOptions {
    /// Whether the batch comes first. Default: false.
    #[default(false)]
    pub(crate) batch_first: bool,
    /// Whether lengths that grow are an error; else the result remembers the order. Default: true.
    #[default(true)]
    pub(crate) enforce_sorted: bool,
}
/// Keywords of [`pad_packed_sequence_with`].
#[flambeau_macros::options]
pub struct PadPackedSequenceOptions {
    /// Whether the batch comes first. Default: false.
    #[default(false)]
    pub(crate) batch_first: bool,
    /// What stands behind the ends. Default: 0.
    #[default(0.0)]
    pub(crate) padding_value: Scalar,
    /// The number of steps where it shall not be that of the longest sequence.
    pub(crate) total_length: Option<i64>,
}
/// Keywords of [`pad_sequence_with`].
#[flambeau_macros::options]
pub struct PadSequenceOptions {
    /// Whether the batch comes first. Default: false.
    #[default(false)]
    pub(crate) batch_first: bool,
    /// What stands behind the ends. Default: 0.
    #[default(0.0)]
    pub(crate) padding_value: f64,
    /// `"right"` or `"left"`. Default: right.
    #[default("right")]
    pub(crate) padding_side: String,
}
/// Keywords of [`unpad_sequence_with`].
#[flambeau_macros::options]
pub struct UnpadSequenceOptions {
    /// Whether the batch comes first. Default: false.
    #[default(false)]
    pub(crate) batch_first: bool,
}
/// Keywords of [`pack_sequence_with`].
#[flambeau_macros::options]
pub struct PackSequenceOptions {
    /// Whether lengths that grow are an error. Default: true.
    #[default(true)]
    pub(crate) enforce_sorted: bool,
}

/// [`pack_padded_sequence_with`] with an error instead of a panic.
///
/// # Errors
/// Lengths that are not positive, not as many as sequences, or not sorted although they should be; an empty input.
pub fn try_pack_padded_sequence(
    input: &Tensor,
    lengths: &(impl Lengths + ?Sized),
    options: PackPaddedSequenceOptions,
) -> Result<PackedSequence> {
    let PackPaddedSequenceOptions { batch_first, enforce_sorted } = options;
    let lengths = lengths.lengths()?;
    if enforce_sorted {
        let (data, sizes) = f::pack_padded_rows(input, &lengths, batch_first)?;
        return PackedSequence::try_new(&data, &sizes, None, None);
    }
    let (lengths, order) = ops::sort(&lengths, -1, true)?;
    // lengths stay on the CPU
    let order = flambeau_core::backend::transfer::to_device(order, input.device())?;
    let input = ops::index_select(input, i64::from(!batch_first), &order)?;
    let (data, sizes) = f::pack_padded_rows(&input, &lengths, batch_first)?;
    PackedSequence::try_new(&data, &sizes, Some(&order), None)
}
/// Packs padded sequences, `(T, B, *)`. The lengths, one per sequence, must not grow.
///
/// ```
/// use torch::nn::utils::rnn::pack_padded_sequence;
/// let padded = torch::tensor([[1, 4], [2, 5], [3, 0]]);
/// assert_eq!(pack_padded_sequence(&padded, &[3, 2]).data.to_vec::<i64>(), [1, 4, 2, 5, 3]);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.pack_padded_sequence")]
pub fn pack_padded_sequence(input: &Tensor, lengths: &(impl Lengths + ?Sized)) -> PackedSequence {
    expect(try_pack_padded_sequence(input, lengths, PackPaddedSequenceOptions::new()))
}
/// [`pack_padded_sequence`] with all keywords: `(B, T, *)` with `batch_first`, lengths in any order without `enforce_sorted`.
#[track_caller]
pub fn pack_padded_sequence_with(
    input: &Tensor,
    lengths: &(impl Lengths + ?Sized),
    options: PackPaddedSequenceOptions,
) -> PackedSequence {
    expect(try_pack_padded_sequence(input, lengths, options))
}

/// [`pad_packed_sequence_with`] with an error instead of a panic.
///
/// # Errors
/// A total length below that of the longest sequence.
pub fn try_pad_packed_sequence(
    sequence: &PackedSequence,
    options: PadPackedSequenceOptions,
) -> Result<(Tensor, Tensor)> {
    let PadPackedSequenceOptions { batch_first, padding_value, total_length } = options;
    let steps = sequence.batch_sizes.sizes().first().copied().unwrap_or(0);
    if let Some(n) = total_length {
        ensure!(
            n >= steps,
            Value,
            "Expected total_length to be at least the length of the longest sequence in input, but got total_length={n} and max sequence length being {steps}"
        );
    }
    let (padded, lengths) = f::pad_packed_rows(
        &sequence.data,
        &sequence.batch_sizes,
        batch_first,
        padding_value,
        total_length.unwrap_or(steps),
    )?;
    match &sequence.unsorted_indices {
        Some(u) => Ok((
            ops::index_select(&padded, i64::from(!batch_first), u)?,
            ops::index_select(
                &lengths,
                0,
                &ops::to_copy(u, None, None, Some(Device::Cpu), None, false, None)?,
            )?,
        )),
        None => Ok((padded, lengths)),
    }
}
/// Pads a packed batch: `(T, B, *)` in the order from before the packing, and the lengths.
///
/// ```
/// use torch::nn::utils::rnn::{pack_padded_sequence, pad_packed_sequence};
/// let padded = torch::tensor([[1, 4], [2, 5], [3, 0]]);
/// let (again, lengths) = pad_packed_sequence(&pack_padded_sequence(&padded, &[3, 2]));
/// assert_eq!(again.to_vec2::<i64>(), padded.to_vec2::<i64>());
/// assert_eq!(lengths.to_vec::<i64>(), [3, 2]);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.pad_packed_sequence")]
pub fn pad_packed_sequence(sequence: &PackedSequence) -> (Tensor, Tensor) {
    expect(try_pad_packed_sequence(sequence, PadPackedSequenceOptions::new()))
}
/// [`pad_packed_sequence`] with all keywords.
#[track_caller]
pub fn pad_packed_sequence_with(
    sequence: &PackedSequence,
    options: PadPackedSequenceOptions,
) -> (Tensor, Tensor) {
    expect(try_pad_packed_sequence(sequence, options))
}

/// [`pad_sequence_with`] with an error instead of a panic.
///
/// # Errors
/// No sequences; sequences that differ in more than their lengths.
pub fn try_pad_sequence(sequences: impl TensorList, options: PadSequenceOptions) -> Result<Tensor> {
    let PadSequenceOptions { batch_first, padding_value, padding_side } = options;
    f::pad_sequence(&sequences.tensor_list(), batch_first, padding_value, &padding_side)
}
/// Sequences `(L, *)` side by side as `(T, B, *)`, filled up with zeros.
///
/// ```
/// use torch::nn::utils::rnn::{PadSequenceOptions, pad_sequence, pad_sequence_with};
/// let (a, b) = (torch::tensor([1, 2]), torch::tensor([3]));
/// assert_eq!(pad_sequence([&a, &b]).sizes(), [2, 2]);
/// let rows = pad_sequence_with([&a, &b], PadSequenceOptions::new().batch_first(true).padding_value(-1));
/// assert_eq!(rows.to_vec2::<i64>(), [[1, 2], [3, -1]]);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.pad_sequence")]
pub fn pad_sequence(sequences: impl TensorList) -> Tensor {
    expect(try_pad_sequence(sequences, PadSequenceOptions::new()))
}
/// [`pad_sequence`] with all keywords.
#[track_caller]
pub fn pad_sequence_with(sequences: impl TensorList, options: PadSequenceOptions) -> Tensor {
    expect(try_pad_sequence(sequences, options))
}

/// [`unpad_sequence_with`] with an error instead of a panic.
///
/// # Errors
/// Another number of lengths than of sequences.
pub fn try_unpad_sequence(
    padded_sequences: &Tensor,
    lengths: &(impl Lengths + ?Sized),
    options: UnpadSequenceOptions,
) -> Result<Vec<Tensor>> {
    let UnpadSequenceOptions { batch_first } = options;
    let x = if batch_first { padded_sequences.clone() } else { ops::transpose(padded_sequences, 0, 1)? };
    let lengths = lengths.lengths()?.try_to_vec::<i64>()?;
    ensure!(x.dim() >= 2, Index, "tuple index out of range");
    let (batch, longest) = (x.sizes()[0] as usize, x.sizes()[1]);
    ensure!(
        batch == lengths.len(),
        Value,
        "zip() argument 2 is {} than argument 1",
        if batch < lengths.len() { "longer" } else { "shorter" }
    );
    let one = |(i, n): (usize, &i64)| {
        let row = ops::select(&x, 0, i as i64)?;
        ops::clone(&ops::narrow(&row, 0, 0, (*n).clamp(0, longest))?, None)
    };
    lengths.iter().enumerate().map(one).collect()
}
/// The sequences of a padded batch `(T, B, *)`, each without its padding.
///
/// ```
/// use torch::nn::utils::rnn::unpad_sequence;
/// let each = unpad_sequence(&torch::tensor([[1, 4], [2, 0]]), &[2, 1]);
/// assert_eq!((each[0].to_vec::<i64>(), each[1].to_vec::<i64>()), (vec![1, 2], vec![4]));
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.unpad_sequence")]
pub fn unpad_sequence(padded_sequences: &Tensor, lengths: &(impl Lengths + ?Sized)) -> Vec<Tensor> {
    expect(try_unpad_sequence(padded_sequences, lengths, UnpadSequenceOptions::new()))
}
/// [`unpad_sequence`] with all keywords.
#[track_caller]
pub fn unpad_sequence_with(
    padded_sequences: &Tensor,
    lengths: &(impl Lengths + ?Sized),
    options: UnpadSequenceOptions,
) -> Vec<Tensor> {
    expect(try_unpad_sequence(padded_sequences, lengths, options))
}

/// [`pack_sequence_with`] with an error instead of a panic.
///
/// # Errors
/// As [`try_pad_sequence`] and [`try_pack_padded_sequence`].
pub fn try_pack_sequence(sequences: impl TensorList, options: PackSequenceOptions) -> Result<PackedSequence> {
    let sequences = sequences.tensor_list();
    let length = |s: &Tensor| {
        s.sizes()
            .first()
            .copied()
            .ok_or_else(|| Error::index("Dimension specified as 0 but tensor has no dimensions"))
    };
    let lengths = sequences.iter().map(length).collect::<Result<Vec<i64>>>()?;
    let padded = try_pad_sequence(&*sequences, PadSequenceOptions::new())?;
    let options = PackPaddedSequenceOptions::new().enforce_sorted(options.enforce_sorted);
    try_pack_padded_sequence(&padded, &lengths, options)
}
/// Packs sequences `(L, *)`, whose lengths must not grow.
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.pack_sequence")]
pub fn pack_sequence(sequences: impl TensorList) -> PackedSequence {
    expect(try_pack_sequence(sequences, PackSequenceOptions::new()))
}
/// [`pack_sequence`] with all keywords: lengths in any order without `enforce_sorted`.
#[track_caller]
pub fn pack_sequence_with(sequences: impl TensorList, options: PackSequenceOptions) -> PackedSequence {
    expect(try_pack_sequence(sequences, options))
}

/// [`unpack_sequence`] with an error instead of a panic.
///
/// # Errors
/// Parts of a packed sequence that do not fit each other.
pub fn try_unpack_sequence(packed_sequences: &PackedSequence) -> Result<Vec<Tensor>> {
    let (padded, lengths) =
        try_pad_packed_sequence(packed_sequences, PadPackedSequenceOptions::new().batch_first(true))?;
    try_unpad_sequence(&padded, &lengths, UnpadSequenceOptions::new().batch_first(true))
}
/// The sequences of a packed batch, in the order from before the packing.
#[track_caller]
#[doc(alias = "torch.nn.utils.rnn.unpack_sequence")]
pub fn unpack_sequence(packed_sequences: &PackedSequence) -> Vec<Tensor> {
    expect(try_unpack_sequence(packed_sequences))
}
