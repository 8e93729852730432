//! Bags of embeddings: the bags as rows of equal length with a mask.

use super::embedding::check_indices;
use super::util::{cast, number};
use flambeau_core::{B8, DType, Device, Result, Tensor, bail, ensure, ops as core};

/// Where each bag starts, and the end of the last.
fn starts(input: &Tensor, offsets: Option<&Tensor>, include_last_offset: bool) -> Result<Vec<usize>> {
    match (input.dim(), offsets) {
        (2, Some(_)) => bail!(
            Value,
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type <class 'torch.Tensor'>"
        ),
        (2, None) => {
            let (b, n) = (input.sizes()[0] as usize, input.sizes()[1] as usize);
            Ok((0..=b).map(|i| i * n).collect())
        }
        (1, None) => bail!(Value, "offsets has to be a 1D Tensor but got None"),
        (1, Some(o)) => {
            ensure!(o.dim() == 1, Value, "offsets has to be a 1D Tensor");
            check_indices(o, "embedding_bag")?;
            let v = cast(o, DType::I64)?.try_to_vec::<i64>()?;
            let n = input.numel();
            ensure!(
                v.first().is_none_or(|f| *f == 0),
                Runtime,
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {}\n[ torch.LongTensor{{}} ]",
                v.first().copied().unwrap_or(0)
            );
            ensure!(
                v.last().is_none_or(|l| *l <= n) && v.windows(2).all(|w| w[0] <= w[1]),
                Runtime,
                "offsets[-1] can not be greater than input's length {n} but got offsets[-1] of {}",
                v.last().copied().unwrap_or(0)
            );
            let mut all: Vec<usize> = v.iter().map(|i| *i as usize).collect();
            if include_last_offset {
                ensure!(!all.is_empty(), Runtime, "include_last_offset: numBags should be at least 1");
            } else {
                all.push(n as usize);
            }
            Ok(all)
        }
        (d, _) => bail!(Value, "input has to be 1D or 2D Tensor, but got Tensor of dimension {d}"),
    }
}

/// `embedding_bag`
pub fn embedding_bag(
    input: &Tensor,
    weight: &Tensor,
    offsets: Option<&Tensor>,
    max_norm: Option<f64>,
    norm_type: f64,
    scale_grad_by_freq: bool,
    mode: &str,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: Option<i64>,
) -> Result<Tensor> {
    // the arguments' order before PyTorch 1.0, which it still takes
    let swapped = weight.dtype() == DType::I64 && input.is_floating_point();
    let (input, weight) = if swapped { (weight, input) } else { (input, weight) };
    ensure!(
        weight.dim() == 2,
        Value,
        "weight has to be a 2D Tensor, but got Tensor of dimension {}",
        weight.dim()
    );
    check_indices(input, "embedding_bag")?;
    if !weight.dtype().is_floating() {
        bail!(
            Runtime,
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got {} instead (while checking arguments for embedding_bag)",
            super::embedding::legacy_type(weight.dtype())
        );
    }
    if let Some(p) = per_sample_weights {
        ensure!(
            p.sizes() == input.sizes(),
            Value,
            "embedding_bag: If per_sample_weights ({}) is not None, then it must have the same shape as the input ({})",
            super::util::torch_size(p.sizes()),
            super::util::torch_size(input.sizes())
        );
        ensure!(
            mode == "sum",
            Unsupported,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        );
    }
    if let Some(p) = per_sample_weights {
        ensure!(
            p.dtype() == weight.dtype(),
            Runtime,
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type {} does not equal {} (while checking arguments for embedding_bag)",
            super::embedding::legacy_type(weight.dtype()),
            super::embedding::legacy_type(p.dtype())
        );
    }
    ensure!(matches!(mode, "sum" | "mean" | "max"), Value, "mode has to be one of sum, mean or max");
    ensure!(
        !(mode == "max" && scale_grad_by_freq),
        Value,
        "max mode does not support scaling the gradient by the frequency"
    );
    ensure!(!(mode == "max" && sparse), Value, "max mode does not support sparse weights");
    let rows = weight.sizes()[0];
    let padding = match padding_idx {
        None => -1,
        Some(p) => {
            ensure!(
                if p >= 0 { p < rows } else { p >= -rows },
                Runtime,
                "padding_idx must be within the number of embeddings, 0 through {}, but got {p}",
                rows - 1
            );
            if p < 0 { p + rows } else { p }
        }
    };
    if weight.device() == Device::Meta {
        let bags = match offsets {
            Some(o) => o.numel() - i64::from(include_last_offset),
            None => input.sizes().first().copied().unwrap_or(0),
        };
        return Tensor::empty_raw(&[bags, weight.sizes()[1]], weight.dtype(), Device::Meta);
    }
    if let Some(m) = max_norm {
        flambeau_autograd::no_grad(|| super::embedding_renorm_(weight, input, m, norm_type))?;
    }
    let at = starts(input, offsets, include_last_offset)?;
    let bags = at.len() - 1;
    let idx = cast(input, DType::I64)?.try_to_vec::<i64>()?;
    if let Some((i, v)) = idx.iter().enumerate().find(|(_, v)| !(0..rows).contains(*v)) {
        // PyTorch has two kernels, each with a text of its own
        ensure!(
            mode == "max" || padding >= 0 || weight.dtype() == DType::F64,
            Runtime,
            "Index {i} of input takes value {v} which is not in the valid range [0, {rows})"
        );
        bail!(Runtime, "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {v}");
    }
    // rows of equal length: indices, where they come from, and whether they count
    let long = (0..bags).map(|b| at[b + 1] - at[b]).max().unwrap_or(0).max(1);
    let (mut all, mut from) = (vec![0i64; bags * long], vec![0i64; bags * long]);
    let mut used = vec![B8::from(false); bags * long];
    let mut counts = vec![0f64; bags];
    for b in 0..bags {
        for (k, i) in (at[b]..at[b + 1]).enumerate() {
            if idx[i] != padding {
                (all[b * long + k], from[b * long + k]) = (idx[i], i as i64);
                used[b * long + k] = B8::from(true);
                counts[b] += 1.0;
            }
        }
    }
    let shape = [bags as i64, long as i64];
    let used = core::unsqueeze(&Tensor::from_vec_raw(used, &shape)?, -1)?;
    if idx.is_empty() {
        return core::mul(
            &core::sum(weight, None, false, None)?,
            &Tensor::zeros_raw(&[bags as i64, weight.sizes()[1]], weight.dtype(), weight.device())?,
        );
    }
    let all = Tensor::from_vec_raw(all, &shape)?;
    let mut e = if scale_grad_by_freq {
        // the rows that fill up short bags do not count
        let own = super::embedding_lookup(
            weight,
            &Tensor::from_vec_raw(idx.clone(), &[idx.len() as i64])?,
            -1,
            true,
            sparse,
        )?;
        let at = Tensor::from_vec_raw(from.clone(), &[(bags * long) as i64])?;
        core::reshape(&core::index_select(&own, 0, &at)?, &[bags as i64, long as i64, weight.sizes()[1]])?
    } else {
        super::embedding_lookup(weight, &all, -1, false, sparse)?
    };
    // halves are weighted and summed in float32
    e = cast(&e, super::util::wide(weight.dtype()))?;
    if let Some(p) = per_sample_weights {
        let flat = core::reshape(p, &[1, p.numel()])?;
        let from = Tensor::from_vec_raw(from, &[1, (bags * long) as i64])?;
        let w = core::reshape(&super::plane_gather(&flat, &from, 1)?, &shape)?;
        e = core::mul(&e, &cast(&core::unsqueeze(&w, -1)?, e.dtype())?)?;
    }
    if mode == "max" {
        let low = core::where_(&used, &e, &number(f64::NEG_INFINITY)?)?;
        let best = core::max_dim(&low, 1, false)?.0;
        let empty: Vec<B8> = counts.iter().map(|c| B8::from(*c == 0.0)).collect();
        let empty = Tensor::from_vec_raw(empty, &[bags as i64, 1])?;
        return cast(&core::where_(&empty, &number(0)?, &best)?, weight.dtype());
    }
    let sum = core::sum(&core::where_(&used, &e, &number(0)?)?, Some(&[1]), false, None)?;
    if mode == "sum" {
        return cast(&sum, weight.dtype());
    }
    let counts: Vec<f64> = counts.iter().map(|c| c.max(1.0)).collect();
    let counts = cast(&Tensor::from_vec_raw(counts, &[bags as i64, 1])?, sum.dtype())?;
    cast(&core::div(&sum, &counts)?, weight.dtype())
}
