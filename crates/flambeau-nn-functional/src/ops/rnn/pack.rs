//! Sequences of different lengths: side by side with padding, and packed step by step without it.

use super::int_vector;
use crate::ops::operands::{cast, on};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{checked_numel, wrap_dim_strict};
use flambeau_core::{DType, Device, Result, Scalar, Tensor, bail, ensure, ops as core};

/// `_pack_padded_sequence`
pub fn pack_padded_rows(input: &Tensor, lengths: &Tensor, batch_first: bool) -> Result<(Tensor, Tensor)> {
    ensure!(input.numel() > 0, Runtime, "Cannot pack empty tensors.");
    let x = if batch_first { core::transpose(input, 0, 1)? } else { input.clone() };
    let lengths = int_vector(lengths)?;
    let batch = x.sizes()[wrap_dim_strict(1, x.dim())?];
    ensure!(
        lengths.len() as i64 == batch,
        Runtime,
        "Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={batch})",
        lengths.len()
    );
    ensure!(
        lengths.last().is_some_and(|n| *n > 0),
        Runtime,
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    );
    ensure!(
        lengths.windows(2).all(|w| w[0] >= w[1]),
        Runtime,
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
    );
    let longest = lengths[0];
    // allocated as a tensor, which refuses what there is no memory for
    let steps = Tensor::zeros_raw(&[longest], DType::I64, Device::Cpu)?;
    let rows: Vec<i64> = {
        let mut sizes = steps.try_elements_mut::<i64>()?;
        let mut alive = lengths.len();
        for (t, n) in sizes.iter_mut().enumerate() {
            while lengths[alive - 1] <= t as i64 {
                alive -= 1;
            }
            *n = alive as i64;
        }
        let present = sizes.iter().enumerate().take(x.sizes()[0] as usize);
        present.flat_map(|(t, n)| (0..*n).map(move |r| t as i64 * batch + r)).collect()
    };
    let count = rows.len() as i64;
    let rows = on(Tensor::from_vec_raw(rows, &[count])?, x.device())?;
    let data = core::index_select(&core::flatten(&x, 0, 1)?, 0, &rows)?;
    Ok((data, steps))
}

/// `_pad_packed_sequence`
pub fn pad_packed_rows(
    data: &Tensor,
    batch_sizes: &Tensor,
    batch_first: bool,
    padding_value: Scalar,
    total_length: i64,
) -> Result<(Tensor, Tensor)> {
    let sizes = int_vector(batch_sizes)?;
    ensure!(!sizes.is_empty(), Runtime, "batch_sizes can not be empty");
    let mut steps = sizes.len() as i64;
    if total_length > 0 {
        ensure!(
            total_length >= steps,
            Runtime,
            "Expected total_length to be at least the length of the longest sequence in input, but got total_length={total_length} and max sequence length being {steps}"
        );
        steps = total_length;
    }
    let batch = sizes[0];
    ensure!(
        sizes.windows(2).all(|w| w[0] >= w[1]) && sizes.last().is_none_or(|n| *n >= 0),
        Runtime,
        "batch_sizes must not grow, and not be negative"
    );
    ensure!(data.dim() > 0, Runtime, "packed data must have at least one dimension");
    let rows = data.sizes()[0];
    ensure!(
        sizes.iter().try_fold(0i64, |a, n| a.checked_add(*n)) == Some(rows),
        Runtime,
        "batch_sizes add up to another number of rows than the {rows} of the packed data"
    );
    let mut shape = vec![steps, batch];
    shape.extend(&data.sizes()[1..]);
    checked_numel(&shape)?;
    let places: Vec<i64> =
        sizes.iter().enumerate().flat_map(|(t, n)| (0..*n).map(move |r| t as i64 * batch + r)).collect();
    let places = on(Tensor::from_vec_raw(places, &[rows])?, data.device())?;
    let full = core::full(&shape, padding_value, Some(data.dtype()), None, Some(data.device()), None)?;
    let padded = core::index_copy(&core::flatten(&full, 0, 1)?, 0, &places, data)?;
    let padded = core::reshape(&padded, &shape)?;
    let padded = if batch_first { core::transpose(&padded, 0, 1)? } else { padded };
    let length = |r: i64| sizes.iter().take_while(|n| **n > r).count() as i64;
    Ok((padded, Tensor::from_vec_raw((0..batch).map(length).collect(), &[batch])?))
}

/// `pad_sequence`
pub fn pad_sequence(
    sequences: &[Tensor],
    batch_first: bool,
    padding_value: f64,
    padding_side: &str,
) -> Result<Tensor> {
    let Some(first) = sequences.first() else {
        bail!(Runtime, "received an empty list of sequences");
    };
    let left = match padding_side {
        "left" => true,
        "right" => false,
        other => bail!(Runtime, "Expected padding_side to be one of left or right, but got {other}."),
    };
    ensure!(first.dim() > 0, Runtime, "ArrayRef: invalid slice, N = 1; size = 0");
    let trailing = &first.sizes()[1..];
    let mut longest = 0;
    for s in sequences {
        longest = longest.max(s.sizes()[wrap_dim_strict(0, s.dim())?]);
    }
    let mut all = Vec::with_capacity(sequences.len());
    for s in sequences {
        let mut sizes = vec![s.sizes()[0]];
        sizes.extend(trailing);
        ensure!(
            s.dim() <= sizes.len(),
            Runtime,
            "The tensor a of dimension {} cannot hold a sequence with {} dimensions",
            sizes.len(),
            s.dim()
        );
        for (d, (want, got)) in sizes.iter().rev().zip(s.sizes().iter().rev()).enumerate() {
            ensure!(
                want == got || *got == 1,
                Runtime,
                "The size of tensor a ({want}) must match the size of tensor b ({got}) at non-singleton dimension {}",
                sizes.len() - 1 - d
            );
        }
        let mut x = cast(s, first.dtype())?;
        if x.sizes() != sizes {
            x = core::expand(&x, &sizes, false)?;
        }
        sizes[0] = longest - sizes[0];
        if sizes[0] > 0 {
            let value = Scalar::Float(padding_value);
            let rest = core::full(&sizes, value, Some(first.dtype()), None, Some(first.device()), None)?;
            x = core::cat(&if left { [rest, x] } else { [x, rest] }, 0)?;
        }
        all.push(x);
    }
    core::stack(&all, if batch_first { 0 } else { 1 })
}
