//! Bags of embeddings.

use crate::ops::embedding::{check_indices, sums};
use crate::ops::operands::{cast, number, on};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::{B8, DType, Device, Result, Scalar, Tensor, bail, ensure, ops as core};

/// Where each bag starts, and the end of the last.
fn starts(input: &Tensor, offsets: Option<&Tensor>, include_last_offset: bool) -> Result<Vec<usize>> {
    bags_are_given(input, offsets)?;
    match (input.dim(), offsets) {
        (2, None) => {
            let (b, n) = (input.sizes()[0] as usize, input.sizes()[1] as usize);
            Ok((0..=b).map(|i| i * n).collect())
        }
        (_, None) => bail!(Value, "offsets has to be a 1D Tensor but got None"),
        (_, Some(o)) => {
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
                ensure!(
                    !all.is_empty(),
                    Runtime,
                    "include_last_offset: number of offset should be at least 1"
                );
            } else {
                all.push(n as usize);
            }
            Ok(all)
        }
    }
}
/// The size of every bag, where they have one.
fn size_of_all(starts: &[usize]) -> Option<usize> {
    let mut sizes = starts.windows(2).map(|w| w[1] - w[0]);
    let first = sizes.next()?;
    sizes.all(|s| s == first).then_some(first)
}
/// Rows of a matrix are bags, a vector needs offsets.
fn bags_are_given(input: &Tensor, offsets: Option<&Tensor>) -> Result<()> {
    match (input.dim(), offsets) {
        (2, Some(_)) => bail!(
            Value,
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type <class 'torch.Tensor'>"
        ),
        (1, None) => bail!(Value, "offsets has to be a 1D Tensor but got None"),
        (1, Some(o)) => {
            ensure!(o.dim() == 1, Value, "offsets has to be a 1D Tensor");
            Ok(())
        }
        (2, None) => Ok(()),
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
    if let Some(p) = per_sample_weights {
        ensure!(
            p.sizes() == input.sizes(),
            Value,
            "embedding_bag: If per_sample_weights ({}) is not None, then it must have the same shape as the input ({})",
            crate::ops::operands::torch_size(p.sizes()),
            crate::ops::operands::torch_size(input.sizes())
        );
    }
    ensure!(
        weight.dim() == 2,
        Value,
        "weight has to be a 2D Tensor, but got Tensor of dimension {}",
        weight.dim()
    );
    bags_are_given(input, offsets)?;
    ensure!(matches!(mode, "sum" | "mean" | "max"), Value, "mode has to be one of sum, mean or max");
    ensure!(
        !(mode == "max" && scale_grad_by_freq),
        Value,
        "max mode does not support scaling the gradient by the frequency"
    );
    ensure!(!(mode == "max" && sparse), Value, "max mode does not support sparse weights");
    if max_norm.is_some() {
        // rows are shortened before anything else is looked at
        crate::ops::embedding::check_indices_at(input, 2, "embedding_renorm_")?;
    }
    if per_sample_weights.is_some() {
        ensure!(
            mode == "sum",
            Unsupported,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        );
    }
    let rows = weight.sizes()[0];
    let padding = match padding_idx {
        None => -1,
        Some(p) => {
            ensure!(
                if p >= 0 { p < rows } else { p >= -rows },
                Runtime,
                "padding_idx must be within the number of embeddings, -{rows} through {}, but got {p}",
                rows - 1
            );
            if p < 0 { p + rows } else { p }
        }
    };
    if input.dim() == 2 && (input.is_complex() || input.dtype() == DType::Bool) {
        // the offsets are counted in the indices' dtype
        return Err(flambeau_core::Error::not_implemented_for("arange_cpu", input.dtype()));
    }
    check_indices(input, "embedding_bag")?;
    if !weight.dtype().is_floating() {
        bail!(
            Runtime,
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got {} instead (while checking arguments for embedding_bag)",
            crate::ops::embedding::legacy_type(weight.dtype())
        );
    }
    if let Some(p) = per_sample_weights {
        ensure!(
            p.dtype() == weight.dtype(),
            Runtime,
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type {} does not equal {} (while checking arguments for embedding_bag)",
            crate::ops::embedding::legacy_type(weight.dtype()),
            crate::ops::embedding::legacy_type(p.dtype())
        );
    }
    if weight.device() == Device::Meta {
        let bags = match offsets {
            Some(o) => o.numel() - i64::from(include_last_offset),
            None => input.sizes().first().copied().unwrap_or(0),
        };
        return Tensor::empty_raw(&[bags, weight.sizes()[1]], weight.dtype(), Device::Meta);
    }
    if let Some(m) = max_norm {
        flambeau_autograd::no_grad(|| crate::ops::embedding_renorm_(weight, input, m, norm_type))?;
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
    if bags > 0 && mode != "max" && sums::suits(weight) {
        return Bags { weight, input, idx: &idx, at: &at, padding, factors: per_sample_weights }.summed(
            mode == "mean",
            scale_grad_by_freq,
            sparse,
        );
    }
    if let Some(n) = size_of_all(&at).filter(|n| *n > 0 && padding < 0 && mode != "max") {
        // bags of one size, of which every index counts: rows are summed where they lie
        let count = (bags * n) as i64;
        let flat = |t: &Tensor| core::narrow(&core::reshape(t, &[-1])?, 0, 0, count);
        let indices = flat(&cast(input, DType::I64)?)?;
        let e = crate::ops::embedding_lookup(weight, &indices, -1, scale_grad_by_freq, sparse)?;
        let mut e = cast(&e, crate::ops::operands::wide(weight.dtype()))?;
        if let Some(p) = per_sample_weights {
            e = core::mul(&e, &cast(&core::unsqueeze(&flat(p)?, -1)?, e.dtype())?)?;
        }
        let e = core::view(&e, &[bags as i64, n as i64, e.sizes()[1]])?;
        let one = match mode {
            "sum" => core::sum(&e, Some(&[1]), false, None)?,
            _ => core::mean(&e, Some(&[1]), false, None)?,
        };
        return cast(&one, weight.dtype());
    }
    // what counts: indices, their bags, and where they come from
    let (mut used, mut bag_of, mut from) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = geometry::filled(0i64, bags as i64)?;
    for b in 0..bags {
        for i in (at[b]..at[b + 1]).filter(|i| idx[*i] != padding) {
            used.push(idx[i]);
            bag_of.push(b as i64);
            from.push(i as i64);
            counts[b] += 1;
        }
    }
    let list = |v: Vec<i64>| {
        let n = v.len() as i64;
        on(Tensor::from_vec_raw(v, &[n])?, weight.device())
    };
    let mut e = crate::ops::embedding_lookup(weight, &list(used)?, -1, scale_grad_by_freq, sparse)?;
    // halves are weighted and summed in float32
    e = cast(&e, crate::ops::operands::wide(weight.dtype()))?;
    if let Some(p) = per_sample_weights {
        let p = core::index_select(&core::reshape(p, &[-1])?, 0, &list(from)?)?;
        e = core::mul(&e, &cast(&core::unsqueeze(&p, -1)?, e.dtype())?)?;
    }
    if mode == "max" {
        return cast(&greatest(&e, &counts)?, weight.dtype());
    }
    let zeros = Tensor::zeros_raw(&[bags as i64, e.sizes()[1]], e.dtype(), e.device())?;
    let sum = cast(&core::index_add(&zeros, 0, &list(bag_of)?, &e, Scalar::Int(1))?, weight.dtype())?;
    if mode == "sum" {
        return Ok(sum);
    }
    let counts = list(counts.iter().map(|c| (*c).max(1)).collect())?;
    core::div(&sum, &cast(&core::unsqueeze(&counts, -1)?, sum.dtype())?)
}

/// Bags whose rows are summed where they lie.
struct Bags<'a> {
    weight: &'a Tensor,
    input: &'a Tensor,
    /// The indices in `input`, which are rows of the weight.
    idx: &'a [i64],
    /// Where each bag starts, and the end of the last.
    at: &'a [usize],
    /// The index that does not count; negative where all do.
    padding: i64,
    factors: Option<&'a Tensor>,
}
impl Bags<'_> {
    fn summed(&self, mean: bool, scale_grad_by_freq: bool, sparse: bool) -> Result<Tensor> {
        let end = self.at.last().copied().unwrap_or(0);
        let flat = |t: &Tensor| core::narrow(&core::reshape(t, &[-1])?, 0, 0, end as i64);
        let list = |v: Vec<i64>| {
            let n = v.len() as i64;
            Tensor::from_vec_raw(v, &[n])
        };
        let (mut indices, mut factors) = (flat(self.input)?, self.factors.map(flat).transpose()?);
        let mut starts: Vec<i64> = self.at.iter().map(|s| *s as i64).collect();
        if self.padding >= 0 {
            let counts = |i: &usize| self.idx[*i] != self.padding;
            let of: Vec<usize> = (0..end).filter(counts).collect();
            starts = self.at.iter().map(|s| of.partition_point(|i| i < s) as i64).collect();
            let of = list(of.into_iter().map(|i| i as i64).collect())?;
            indices = core::index_select(&indices, 0, &of)?;
            factors = factors.map(|f| core::index_select(&f, 0, &of)).transpose()?;
        }
        let sizes: Vec<i64> = starts.windows(2).map(|w| (w[1] - w[0]).max(1)).collect();
        let sums = crate::ops::bag_sums(
            self.weight,
            &indices,
            &list(starts)?,
            factors.as_ref(),
            scale_grad_by_freq,
            sparse,
        )?;
        if !mean {
            return Ok(sums);
        }
        core::div(&sums, &cast(&core::unsqueeze(&list(sizes)?, -1)?, sums.dtype())?)
    }
}

/// The greatest of each bag's rows, which lie one after the other; of an empty bag, zeros. As in PyTorch the first row
/// stands until a greater one comes, so NaN stays where it is first, and is passed over elsewhere.
fn greatest(e: &Tensor, counts: &[i64]) -> Result<Tensor> {
    let (bags, width) = (counts.len(), e.sizes()[1] as usize);
    let size = [bags as i64, width as i64];
    if e.sizes()[0] == 0 {
        return core::mul(
            &core::sum(e, None, false, None)?,
            &Tensor::zeros_raw(&size, e.dtype(), e.device())?,
        );
    }
    let values = cast(&e.detach(), DType::F64)?.try_to_vec::<f64>()?;
    let value = |row: i64, column: usize| values[row as usize * width + column];
    let mut best = geometry::filled(0i64, geometry::size_mul(bags as i64, width as i64)?)?;
    let mut start = 0;
    for (best, n) in best.chunks_mut(width.max(1)).zip(counts) {
        for (column, best) in best.iter_mut().enumerate().filter(|_| *n > 0) {
            *best = (start..start + n)
                .fold(start, |at, row| if value(row, column) > value(at, column) { row } else { at });
        }
        start += n;
    }
    let best = core::gather(e, 0, &on(Tensor::from_vec_raw(best, &size)?, e.device())?, false)?;
    let empty: Vec<B8> = counts.iter().map(|c| B8::from(*c == 0)).collect();
    let empty = on(Tensor::from_vec_raw(empty, &[size[0], 1])?, e.device())?;
    core::where_(&empty, &number(0)?, &best)
}
