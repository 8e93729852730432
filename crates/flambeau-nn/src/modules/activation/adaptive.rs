//! The adaptive softmax (Grave et al. 2017).

use crate::by_name::Run;
use crate::module::base::Base;
use crate::modules::options::Factory;
use crate::modules::{Linear, LinearOptions, Sequential};
use flambeau_core::api::ergonomic::{expect, wrapped_number};
use flambeau_core::backend::transfer::to_device;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

#[class("torch.nn.AdaptiveLogSoftmaxWithLoss", build = AdaptiveLogSoftmaxWithLoss, include(Factory))]
pub struct AdaptiveLogSoftmaxWithLossOptions {
    /// Size of the input.
    pub in_features: i64,
    /// Number of classes.
    pub n_classes: i64,
    /// Where the clusters of rarer and rarer classes begin.
    pub cutoffs: Vec<i64>,
    /// By how much each cluster's projection is smaller than the one before.
    #[default(4.0)]
    pub div_value: f64,
    /// Whether the first cluster has a bias.
    #[default(false)]
    pub head_bias: bool,
}
/// An approximation of the softmax for many classes of very different frequency, sorted by it: frequent ones stand in a
/// short list, the others in clusters with smaller projections. `forward` takes the input `(N, in_features)` and the
/// classes `(N)`, and gives the log-probability of each row's class and the mean loss.
#[derive(Debug, Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    base: Base,
    /// The arguments.
    pub options: AdaptiveLogSoftmaxWithLossOptions,
    /// The short list and the clusters.
    pub head: Linear,
    /// The classes of each cluster.
    pub tail: Vec<Sequential>,
}
#[flambeau_macros::forward]
impl AdaptiveLogSoftmaxWithLoss {
    fn from_options(o: AdaptiveLogSoftmaxWithLossOptions) -> Result<Self> {
        ensure!(!o.cutoffs.is_empty(), Value, "cutoffs should be a sequence of length larger than 0");
        let ascending = o.cutoffs.windows(2).all(|w| w[0] < w[1]);
        ensure!(
            ascending && o.cutoffs.iter().all(|c| 0 < *c && *c < o.n_classes),
            Value,
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is \
             between 1 and n_classes-1"
        );
        let linear = |inputs: i64, outputs: i64, bias: bool| {
            LinearOptions::new(inputs, outputs).bias(bias).with_factory(&o).try_build()
        };
        let clusters = o.cutoffs.len() as i64;
        let head = linear(o.in_features, o.cutoffs[0] + clusters, o.head_bias)?;
        let mut tail = Vec::new();
        for (i, start) in o.cutoffs.iter().enumerate() {
            let end = o.cutoffs.get(i + 1).copied().unwrap_or(o.n_classes);
            let small = (o.in_features as f64 / o.div_value.powi(i as i32 + 1)).floor() as i64;
            tail.push(Sequential::new((
                linear(o.in_features, small, false)?,
                linear(small, end - start, false)?,
            )));
        }
        Ok(AdaptiveLogSoftmaxWithLoss { base: Base::new(), options: o, head, tail })
    }
    /// Draws all weights anew.
    ///
    /// # Errors
    /// A parameter that is borrowed.
    pub fn try_reset_parameters(&self) -> Result<()> {
        self.head.try_reset_parameters()?;
        for p in &self.tail {
            for i in 0..p.len() {
                if let Some(l) = p[i].downcast_ref::<Linear>() {
                    l.try_reset_parameters()?;
                }
            }
        }
        Ok(())
    }
    fn shortlist(&self) -> i64 {
        self.options.cutoffs[0]
    }
    /// Log-probabilities of a cluster's classes, given the cluster.
    fn cluster(&self, i: usize, input: &Tensor) -> Result<Tensor> {
        let p = &self.tail[i];
        f::log_softmax(
            &linear_of(p, 1)?.try_forward(&linear_of(p, 0)?.try_forward(input)?)?,
            Some(1),
            3,
            None,
        )
    }
    fn head_of(&self, input: &Tensor) -> Result<Tensor> {
        f::log_softmax(&self.head.try_forward(input)?, Some(1), 3, None)
    }
    /// The log-probability of each row's class, and the mean loss.
    ///
    /// # Errors
    /// Inputs that do not fit, classes out of range.
    pub fn try_forward(&self, input: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
        let batched = match target.dim() {
            1 => {
                ensure!(
                    input.dim() > 0 && input.sizes()[0] == target.sizes()[0],
                    Runtime,
                    "Input and target should have the same size in the batch dimension."
                );
                ensure!(
                    input.dim() == 2,
                    Runtime,
                    "1D target tensor expects 2D input tensors, but found inputs with size torch.Size({})",
                    fmt_sizes(input.sizes())
                );
                true
            }
            0 => {
                ensure!(
                    input.dim() == 1,
                    Runtime,
                    "0D target tensor expects 1D input tensors, but found inputs with size torch.Size({})",
                    fmt_sizes(input.sizes())
                );
                false
            }
            _ => bail!(Runtime, "0D or 1D target tensor expected, multi-target not supported"),
        };
        let whole = |t: &Tensor| if batched { Ok(t.clone()) } else { ops::unsqueeze(t, 0) };
        let (input, target) = (whole(input)?, whole(target)?);
        let classes: Vec<i64> = target.try_to(DType::I64)?.try_to_vec()?;
        let rows = classes.len() as i64;
        let o = &self.options;
        if let (Some(low), Some(high)) = (classes.iter().min(), classes.iter().max()) {
            ensure!(
                *low >= 0 && *high < o.n_classes,
                Runtime,
                "Target values should be in [0, {}], but values in range [{low}, {high}] were found. ",
                o.n_classes - 1
            );
        }
        ensure!(
            matches!(target.dtype(), DType::I32 | DType::I64),
            Runtime,
            "gather(): Expected dtype int32/int64 for index"
        );
        let mut output = Tensor::zeros_raw(&[rows], input.dtype(), input.device())?;
        let mut places = classes.clone();
        for (i, start) in o.cutoffs.iter().enumerate() {
            let end = o.cutoffs.get(i + 1).copied().unwrap_or(o.n_classes);
            let inside: Vec<i64> =
                (0..rows).filter(|r| (*start..end).contains(&classes[*r as usize])).collect();
            if inside.is_empty() {
                continue;
            }
            let within: Vec<i64> = inside.iter().map(|r| classes[*r as usize] - start).collect();
            inside.iter().for_each(|r| places[*r as usize] = self.shortlist() + i as i64);
            let n = inside.len() as i64;
            let there =
                |v: Vec<i64>, sizes: &[i64]| to_device(Tensor::from_vec_raw(v, sizes)?, input.device());
            let inside = there(inside, &[n])?;
            let local = self.cluster(i, &ops::index_select(&input, 0, &inside)?)?;
            let local = ops::gather(&local, 1, &there(within, &[n, 1])?, false)?;
            output = ops::index_copy(&output, 0, &inside, &ops::squeeze_dim(&local, 1)?)?;
        }
        let places = to_device(Tensor::from_vec_raw(places, &[rows, 1])?, input.device())?;
        let head = ops::gather(&self.head_of(&input)?, 1, &places, false)?;
        output = ops::add(&output, &ops::squeeze_dim(&head, 1)?, Scalar::Int(1))?;
        let loss = ops::mean(&ops::neg(&output)?, None, false, None)?;
        if !batched {
            output = ops::squeeze_dim(&output, 0)?;
        }
        Ok((output, loss))
    }
    /// Log-probabilities of all classes: `(N, n_classes)`.
    ///
    /// # Errors
    /// Inputs that do not fit.
    pub fn try_log_prob(&self, input: &Tensor) -> Result<Tensor> {
        let head = self.head_of(input)?;
        let n = self.shortlist();
        let mut all = vec![ops::slice(&head, 1, Some(0), Some(n), 1)?];
        for i in 0..self.tail.len() {
            let at = n + i as i64;
            let cluster = ops::slice(&head, 1, Some(at), Some(at + 1), 1)?;
            all.push(ops::add(&self.cluster(i, input)?, &cluster, Scalar::Int(1))?);
        }
        ops::cat(&all, 1)
    }
    /// Log-probabilities of all classes: `(N, n_classes)`. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.nn.AdaptiveLogSoftmaxWithLoss.log_prob")]
    pub fn log_prob(&self, input: &Tensor) -> Tensor {
        expect(self.try_log_prob(input))
    }
    /// The most probable class of each row.
    ///
    /// # Errors
    /// Inputs that do not fit.
    pub fn try_predict(&self, input: &Tensor) -> Result<Tensor> {
        let best = ops::argmax(&self.head.try_forward(input)?, Some(1), false)?;
        let rare = ops::ge(&best, &wrapped_number(Scalar::Int(self.shortlist()))?)?;
        let full = ops::argmax(&self.try_log_prob(input)?, Some(1), false)?;
        ops::where_(&rare, &full, &best)
    }
    /// The most probable class of each row. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.nn.AdaptiveLogSoftmaxWithLoss.predict")]
    pub fn predict(&self, input: &Tensor) -> Tensor {
        expect(self.try_predict(input))
    }
}
fn linear_of(p: &Sequential, i: usize) -> Result<&Linear> {
    let found = p[i].downcast_ref::<Linear>();
    found.ok_or_else(|| Error::type_("AdaptiveLogSoftmaxWithLoss: a cluster is two linear layers"))
}
impl Run for AdaptiveLogSoftmaxWithLoss {
    fn class(&self) -> &'static str {
        "AdaptiveLogSoftmaxWithLoss"
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [input, target] => self.try_forward(input, target).map(|(a, b)| vec![a, b]),
            _ => Err(Error::type_("AdaptiveLogSoftmaxWithLoss.forward() takes an input and a target")),
        }
    }
}
#[cfg(feature = "by-name")]
impl flambeau_core::dispatch::object::Instance for AdaptiveLogSoftmaxWithLoss {
    fn into_object(self) -> flambeau_core::dispatch::object::ObjectRef {
        crate::by_name::ModuleObject::make(self)
    }
}
