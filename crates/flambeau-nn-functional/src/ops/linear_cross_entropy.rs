//! Cross-entropy of a linear map.

use super::operands::{cast, number, wide};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::determinism::warn;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops as core};

/// How rows are worked on in chunks: the fields of `torch.nn.LinearCrossEntropyOptions` that change results.
#[derive(Clone, Debug)]
pub struct Chunking<'a> {
    /// Rows of a chunk.
    pub batch_chunk_size: Option<i64>,
    /// What their number is computed by: `"auto"`, `"aspect_ratio"`, `"aspect_ratio:2"`.
    pub chunking_method: Option<&'a str>,
    /// `"auto"`, `"accurate"` or `"compact"`.
    pub acc_policy: &'a str,
    /// Dtype of logits and sums.
    pub acc_dtype: Option<DType>,
}
/// `'text'`, or `None`.
fn quoted(s: Option<&str>) -> String {
    s.map_or_else(|| "None".into(), |s| format!("'{s}'"))
}
/// The factor of a method `aspect_ratio:FACTOR`.
fn factor(method: &str) -> Option<i64> {
    let (name, factor) = method.split_once(':').unwrap_or((method, "1"));
    let digits = !factor.is_empty() && factor.bytes().all(|b| b.is_ascii_digit());
    factor.parse().ok().filter(|f| name == "aspect_ratio" && digits && *f > 0)
}
impl Chunking<'_> {
    /// Checks each field by itself.
    ///
    /// # Errors
    /// Values outside their range.
    pub fn check(&self) -> Result<()> {
        ensure!(
            matches!(self.acc_policy, "auto" | "accurate" | "compact"),
            Value,
            "invalid acc_policy: '{}'; expected one of 'auto', 'accurate', 'compact'",
            self.acc_policy
        );
        ensure!(
            self.chunking_method.is_none_or(|m| m == "auto" || factor(m).is_some()),
            Value,
            "invalid chunking_method: {}",
            quoted(self.chunking_method)
        );
        ensure!(
            self.batch_chunk_size.is_none_or(|n| n > 0),
            Value,
            "batch_chunk_size must be positive int or None, got {}",
            self.batch_chunk_size.py_text()
        );
        let known = [DType::F16, DType::BF16, DType::F32, DType::F64];
        ensure!(
            self.acc_dtype.is_none_or(|d| known.contains(&d)),
            Value,
            "acc_dtype must be one of {{None, torch.float16, torch.bfloat16, torch.float32, torch.float64}}, got torch.{}. Pass acc_dtype=None to let the op pick automatically.",
            self.acc_dtype.map_or("", DType::name)
        );
        Ok(())
    }
    /// Rows of a chunk and the dtype of sums for a call.
    fn resolve(
        &self,
        rows: i64,
        features: i64,
        classes: i64,
        dtype: DType,
        soft: bool,
    ) -> Result<(i64, DType)> {
        self.check()?;
        let halves = wide(dtype) != dtype;
        let compact = match self.acc_policy {
            "auto" => !halves,
            policy => policy == "compact",
        };
        let auto = self.chunking_method == Some("auto");
        let method = match self.chunking_method {
            Some("auto") if self.batch_chunk_size.is_some() => None,
            Some("auto") => Some("aspect_ratio"),
            m => m,
        };
        let mut chunk = self.batch_chunk_size.map_or(rows, |n| n.min(rows));
        if let Some(m) = method {
            let ratio = classes.div_euclid(features.max(1)) + i64::from(classes % features.max(1) != 0);
            let ratio = ratio.max(1);
            let target = rows / ratio + i64::from(rows % ratio != 0);
            let power = (target.max(1) as u64).next_power_of_two() as i64;
            chunk = (power / factor(m).unwrap_or(1)).min(rows);
            if auto && compact {
                let fitting =
                    if soft { rows / 2 } else { rows.saturating_mul(classes) / (4 * features.max(1)) };
                let fitting = if fitting >= 1 { 1 << (63 - fitting.leading_zeros()) } else { 1 };
                chunk = chunk.min(fitting).max(1);
            }
            ensure!(
                self.batch_chunk_size.is_none_or(|n| n == chunk),
                Value,
                "batch_chunk_size (={}) and chunking_method ('{m}') give different chunk sizes ({} vs {chunk}); pass only one.",
                self.batch_chunk_size.py_text(),
                self.batch_chunk_size.py_text()
            );
        }
        let acc = match self.acc_dtype {
            Some(d) => d,
            None if self.acc_policy == "auto" => wide(dtype),
            None => dtype,
        };
        ensure!(
            acc == dtype || (halves && acc == DType::F32),
            Runtime,
            "linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, but got torch.{} acc_dtype and torch.{} inputs.",
            acc.name(),
            dtype.name()
        );
        Ok((chunk.max(1), acc))
    }
}

/// `linear_cross_entropy`
pub fn linear_cross_entropy(
    input: &Tensor,
    linear_weight: &Tensor,
    target: &Tensor,
    linear_bias: Option<&Tensor>,
    weight: Option<&Tensor>,
    reduction: &str,
    ignore_index: Option<i64>,
    label_smoothing: f64,
    chunked: bool,
    batch_chunk_size: Option<i64>,
    chunking_method: Option<&str>,
    acc_policy: &str,
    acc_dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        matches!(input.dim(), 1 | 2),
        Runtime,
        "expected input with dimensionality 1 or 2, got {}",
        input.dim()
    );
    ensure!(
        linear_weight.dim() >= 2,
        Runtime,
        "expected linear_weight with dimensionality at least 2, got {}",
        linear_weight.dim()
    );
    let (x, w) = (input.sizes(), linear_weight.sizes());
    let features = x[x.len() - 1];
    ensure!(
        features == w[w.len() - 1],
        Runtime,
        "expected equal input and linear_weight last dimensions (in_features), got {features} and {}, respectively",
        w[w.len() - 1]
    );
    let outputs = &w[..w.len() - 1];
    if let Some(b) = linear_bias {
        ensure!(
            b.sizes() == outputs,
            Runtime,
            "expected linear_bias shape {}, got {}",
            outputs.to_vec().py_text(),
            b.sizes().to_vec().py_text()
        );
    }
    ensure!(
        outputs.len() == 1 || x.len() == 2,
        Runtime,
        "K-dimensional loss defined by linear_weight shape {} requires batched input, (N, {features}), got unbatched input with shape {}",
        w.to_vec().py_text(),
        x.to_vec().py_text()
    );
    let shape = [&x[..x.len() - 1], outputs].concat();
    let soft = target.sizes() == shape;
    ensure!(
        !soft || ignore_index.is_none(),
        Runtime,
        "ignore_index cannot be specified when target contains probabilities"
    );
    let ignore_index = ignore_index.unwrap_or(-100);
    if chunked {
        let o = Chunking { batch_chunk_size, chunking_method, acc_policy, acc_dtype };
        let wants_target = target.requires_grad() && flambeau_autograd::is_grad_enabled();
        let applies = matches!(reduction, "mean" | "sum" | "none")
            && label_smoothing == 0.0
            && (target.dtype() == DType::I64 || (soft && target.dtype() == input.dtype() && !wants_target))
            && outputs.len() == 1;
        if applies {
            return by_chunks(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, &o);
        }
        warn(&format!(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {{'mean','sum','none'}}, label_smoothing == 0, target.dtype == int64 (or a probability target with dtype matching input and requires_grad == False), out_features == (). Got reduction='{reduction}', label_smoothing={}, target.dtype=torch.{}, out_features={}, tracing=False, target.requires_grad={}, linear_bias.shape={}.",
            label_smoothing.py_text(),
            target.dtype().name(),
            outputs[1..].to_vec().py_text(),
            target.requires_grad().py_text(),
            linear_bias.map(|b| b.sizes().to_vec()).py_text(),
        ));
    }
    let flat =
        |t: &Tensor, sizes: &[i64]| if outputs.len() > 1 { core::reshape(t, sizes) } else { Ok(t.clone()) };
    let rows: i64 = outputs.iter().product();
    let w = flat(linear_weight, &[rows, features])?;
    let b = linear_bias.map(|b| flat(b, &[rows])).transpose()?;
    let logits = core::reshape(&super::linear(input, &w, b.as_ref())?, &shape)?;
    super::cross_entropy(&logits, target, weight, None, ignore_index, None, reduction, label_smoothing)
}
/// The call in chunks, with a batch dimension.
fn by_chunks(
    input: &Tensor,
    linear_weight: &Tensor,
    target: &Tensor,
    linear_bias: Option<&Tensor>,
    weight: Option<&Tensor>,
    reduction: &str,
    ignore_index: i64,
    o: &Chunking<'_>,
) -> Result<Tensor> {
    let batched = input.dim() == 2;
    let lead = |t: &Tensor| if batched { Ok(t.clone()) } else { core::unsqueeze(t, 0) };
    let (x, t) = (lead(input)?, lead(target)?);
    let soft = t.dtype().is_floating();
    let (chunk, acc) = o.resolve(x.size(0), x.size(1), linear_weight.size(0), x.dtype(), soft)?;
    let y = super::linear_cross_entropy_chunked(
        &x,
        linear_weight,
        &t,
        linear_bias,
        weight,
        reduction,
        ignore_index,
        chunk,
        acc,
    )?;
    if batched || y.dim() == 0 { Ok(y) } else { core::squeeze_dim(&y, 0) }
}

fn check_rows(input: &Tensor) -> Result<()> {
    ensure!(
        input.dim() == 2,
        Shape,
        "linear_cross_entropy: expected rows of features, got an input of size {}",
        fmt_sizes(input.sizes())
    );
    Ok(())
}

/// One call's operands, in the dtype of the sums.
pub(crate) struct Job {
    pub(crate) input: Tensor,
    pub(crate) linear_weight: Tensor,
    pub(crate) linear_bias: Option<Tensor>,
    target: Tensor,
    weight: Option<Tensor>,
    ignore_index: i64,
    chunk: i64,
}
impl Job {
    pub(crate) fn new(
        input: &Tensor,
        linear_weight: &Tensor,
        target: &Tensor,
        linear_bias: Option<&Tensor>,
        weight: Option<&Tensor>,
        ignore_index: i64,
        chunk: i64,
        acc: DType,
    ) -> Result<Job> {
        let up = |t: &Tensor| cast(&t.alias_detached(), acc);
        ensure!(chunk > 0, Value, "batch_chunk_size must be positive int or None, got {chunk}");
        check_rows(input)?;
        if input.is_complex() || acc.is_complex() {
            return Err(Error::not_implemented_for("log_softmax_lastdim_kernel_impl", input.dtype()));
        }
        ensure!(
            target.dim() >= 1 && target.size(0) == input.size(0),
            Shape,
            "linear_cross_entropy: a target of size {} does not fit an input of size {}",
            fmt_sizes(target.sizes()),
            fmt_sizes(input.sizes())
        );
        let target = if target.dtype().is_floating() { up(target)? } else { target.clone() };
        Ok(Job {
            input: up(input)?,
            linear_weight: up(linear_weight)?,
            linear_bias: linear_bias.map(up).transpose()?,
            target,
            weight: weight.map(up).transpose()?,
            ignore_index,
            chunk,
        })
    }
    /// Start and length of each chunk.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let (n, chunk) = (self.input.size(0), self.chunk);
        (0..n).step_by(chunk as usize).map(move |start| (start, chunk.min(n - start)))
    }
    /// The loss of some rows, `"sum"` or `"none"`.
    pub(crate) fn loss(
        &self,
        (start, n): (i64, i64),
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        reduction: &str,
    ) -> Result<Tensor> {
        let t = core::narrow(&self.target, 0, start, n)?;
        let logits = super::linear(x, w, b)?;
        let weight = self.weight.as_ref();
        super::cross_entropy(&logits, &t, weight, None, self.ignore_index, None, reduction, 0.0)
    }
    /// What a mean divides by: the weights of all targets that count, or the number of rows for probabilities.
    pub(crate) fn total(&self) -> Result<Tensor> {
        let dtype = self.input.dtype();
        if self.target.dtype().is_floating() {
            return core::full(
                &[],
                Scalar::Int(self.input.size(0)),
                Some(dtype),
                None,
                Some(self.input.device()),
                None,
            );
        }
        let counts = core::ne(&self.target, &number(self.ignore_index as f64)?)?;
        let each = match &self.weight {
            Some(w) => {
                let class = core::masked_fill(&self.target, &core::logical_not(&counts)?, Scalar::Int(0))?;
                core::mul(&core::index_select(w, 0, &class)?, &counts)?
            }
            None => cast(&counts, dtype)?,
        };
        core::sum(&each, None, false, None)
    }
}

/// `_linear_cross_entropy_chunked`
pub fn linear_cross_entropy_chunked(
    input: &Tensor,
    linear_weight: &Tensor,
    target: &Tensor,
    linear_bias: Option<&Tensor>,
    weight: Option<&Tensor>,
    reduction: &str,
    ignore_index: i64,
    batch_chunk_size: i64,
    acc_dtype: DType,
) -> Result<Tensor> {
    let job = Job::new(
        input,
        linear_weight,
        target,
        linear_bias,
        weight,
        ignore_index,
        batch_chunk_size,
        acc_dtype,
    )?;
    let each = if reduction == "none" { "none" } else { "sum" };
    let mut parts = Vec::new();
    for rows in job.chunks() {
        let x = core::narrow(&job.input, 0, rows.0, rows.1)?;
        parts.push(job.loss(rows, &x, &job.linear_weight, job.linear_bias.as_ref(), each)?);
    }
    let empty = || {
        let n: &[i64] = if each == "none" { &[0] } else { &[] };
        core::zeros(n, Some(job.input.dtype()), None, Some(input.device()), None)
    };
    let out = match reduction {
        "none" if parts.is_empty() => empty()?,
        "none" => core::cat(&parts, 0)?,
        "sum" | "mean" => {
            let mut sum = empty()?;
            for p in &parts {
                sum = core::add(&sum, p, Scalar::Int(1))?;
            }
            if reduction == "mean" { core::div(&sum, &job.total()?)? } else { sum }
        }
        other => bail!(Unsupported, "linear_cross_entropy does not support reduction='{other}'"),
    };
    cast(&out, input.dtype())
}
