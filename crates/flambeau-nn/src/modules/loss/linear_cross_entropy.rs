//! The loss of a linear map.

use crate::module::base::Base;
use crate::modules::options::Factory;
use crate::modules::{Linear, LinearOptions, layer_of};
use crate::parameter::Buffer;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Result, Tensor, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;
use flambeau_nn_functional::ops::linear_cross_entropy::Chunking;

/// How [`LinearCrossEntropyLoss`] works on the rows of its input in chunks, so that the logits of all rows and classes
/// never exist together. Gradients come from the same chunks, worked on again in the backward pass.
#[class("torch.nn.LinearCrossEntropyOptions", make = object::make_options)]
pub struct LinearCrossEntropyOptions {
    /// Whether the graph may be kept for another backward pass. It may in any case: nothing is used up here.
    #[default(false)]
    pub allow_retain_graph: bool,
    /// Rows of a chunk.
    pub batch_chunk_size: Option<i64>,
    /// What their number is computed by, if it is not given: `"auto"`, `"aspect_ratio"` or `"aspect_ratio:FACTOR"`.
    #[default("auto")]
    pub chunking_method: Option<String>,
    /// `"auto"`, `"accurate"` or `"compact"`. What both say of buffers of halves does not arise: all sums are kept in
    /// `acc_dtype`.
    #[default("auto")]
    pub acc_policy: String,
    /// Dtype of logits and sums.
    pub acc_dtype: Option<DType>,
}
impl LinearCrossEntropyOptions {
    fn chunking(&self) -> Chunking<'_> {
        Chunking {
            batch_chunk_size: self.batch_chunk_size,
            chunking_method: self.chunking_method.as_deref(),
            acc_policy: &self.acc_policy,
            acc_dtype: self.acc_dtype,
        }
    }
    /// Checks each field by itself; the loss does so too.
    ///
    /// # Errors
    /// Values outside their range.
    pub fn check(&self) -> Result<()> {
        self.chunking().check()
    }
}
impl PyText for LinearCrossEntropyOptions {
    fn py_text(&self) -> String {
        let quoted = |s: Option<&str>| s.map_or_else(|| "None".to_owned(), |s| format!("'{s}'"));
        format!(
            "LinearCrossEntropyOptions(allow_retain_graph={}, batch_chunk_size={}, chunking_method={}, acc_policy={}, acc_dtype={})",
            self.allow_retain_graph.py_text(),
            self.batch_chunk_size.py_text(),
            quoted(self.chunking_method.as_deref()),
            quoted(Some(&self.acc_policy)),
            self.acc_dtype.map_or_else(|| "None".to_owned(), |d| format!("torch.{}", d.name()))
        )
    }
}
impl IntoArg<LinearCrossEntropyOptions> for LinearCrossEntropyOptions {
    fn into_arg(self) -> LinearCrossEntropyOptions {
        self
    }
}
/// The options as a value of calls by name.
#[cfg(feature = "by-name")]
mod object {
    use super::LinearCrossEntropyOptions;
    use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
    use flambeau_core::dispatch::value::{FromValue, IntoValue, Value};
    use flambeau_core::text::PyText;
    use flambeau_core::{Error, Result};
    use std::any::Any;

    impl FromValue for LinearCrossEntropyOptions {
        fn from_value(v: &Value) -> Result<Self> {
            let options = match v {
                Value::Object(o) => o.downcast::<OptionsObject>().map(|o| o.0.clone()),
                _ => None,
            };
            options.ok_or_else(|| {
                Error::type_(format!("expected LinearCrossEntropyOptions, not {}", v.type_name()))
            })
        }
    }
    struct OptionsObject(LinearCrossEntropyOptions);
    impl Object for OptionsObject {
        fn type_name(&self) -> &'static str {
            "LinearCrossEntropyOptions"
        }
        fn attribute(&self, name: &str) -> Result<Value> {
            let o = &self.0;
            Ok(match name {
                "allow_retain_graph" => o.allow_retain_graph.into_value(),
                "batch_chunk_size" => o.batch_chunk_size.into_value(),
                "chunking_method" => o.chunking_method.clone().into_value(),
                "acc_policy" => o.acc_policy.clone().into_value(),
                "acc_dtype" => o.acc_dtype.into_value(),
                _ => return Err(no_attribute(self.type_name(), name)),
            })
        }
        fn repr(&self) -> String {
            self.0.py_text()
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    pub(super) fn make_options(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
        let parameters = &LinearCrossEntropyOptions::PARAMETERS;
        let values =
            flambeau_core::dispatch::object::bind("LinearCrossEntropyOptions", parameters, args, kwargs)?;
        let options = LinearCrossEntropyOptions::from_values(&values)?;
        options.check()?;
        Ok(ObjectRef::new(OptionsObject(options)))
    }
}

#[class("torch.nn.LinearCrossEntropyLoss", build = LinearCrossEntropyLoss, include(Factory),
    order(in_features, num_classes, out_features, bias, Factory, reduction, weight, ignore_index, label_smoothing, options))]
pub struct LinearCrossEntropyLossOptions {
    /// Size of each input.
    pub in_features: i64,
    /// Number of classes.
    pub num_classes: i64,
    /// Sizes of the targets of one input; empty for one target each.
    #[default(Vec::new())]
    pub out_features: Vec<i64>,
    /// Whether the linear map has a bias.
    #[default(false)]
    pub bias: bool,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
    /// Weight of each class.
    pub weight: Option<Tensor>,
    /// Target that does not count, -100 if it is not given; targets that are probabilities have none.
    pub ignore_index: Option<i64>,
    /// Part of the target that is spread over all classes.
    #[default(0.0)]
    pub label_smoothing: f64,
    /// Work in chunks, and how.
    pub options: Option<LinearCrossEntropyOptions>,
}
/// Cross-entropy of a linear map of the input: of `(N, in_features)` and targets `(N, *out_features)` of class indices,
/// or `(N, num_classes, *out_features)` of probabilities.
///
/// ```
/// use torch::nn::{LinearCrossEntropyLossOptions, LinearCrossEntropyOptions};
/// use torch::prelude::*;
///
/// let chunks = LinearCrossEntropyOptions::new().batch_chunk_size(64);
/// let criterion = LinearCrossEntropyLossOptions::new(16, 1000).options(chunks).build();
/// let (x, target) = (torch::randn([100, 16]), torch::randint(1000, [100]));
/// assert_eq!(criterion.call(&x, &target).dim(), 0);
/// ```
#[derive(Debug, Module)]
#[module(extra_repr)]
pub struct LinearCrossEntropyLoss {
    base: Base,
    /// The arguments.
    #[module(skip)]
    pub arguments: LinearCrossEntropyLossOptions,
    /// Weight of each class.
    pub weight: Option<Buffer>,
    /// The linear map.
    pub linear: Linear,
}
impl LinearCrossEntropyLoss {
    fn from_options(o: LinearCrossEntropyLossOptions) -> Result<Self> {
        if let Some(w) = &o.weight {
            ensure!(
                w.sizes() == [o.num_classes],
                Runtime,
                "expected weight shape to be ({},), got {}",
                o.num_classes,
                w.sizes().to_vec().py_text()
            );
        }
        ensure!(
            (0.0..=1.0).contains(&o.label_smoothing),
            Runtime,
            "expected label_smoothing to be in range [0, 1], got {}",
            o.label_smoothing.py_text()
        );
        if let Some(chunks) = &o.options {
            chunks.check()?;
        }
        let outputs = o.out_features.iter().fold(o.num_classes, |n, m| n.saturating_mul(*m));
        let linear = LinearOptions::new(o.in_features, outputs).bias(o.bias).with_factory(&o);
        let weight = o.weight.clone().map(Buffer::new);
        Ok(LinearCrossEntropyLoss { base: Base::new(), weight, linear: linear.try_build()?, arguments: o })
    }
    fn extra_repr(&self) -> String {
        let o = &self.arguments;
        format!(
            "in_features={}, num_classes={}, out_features={}, bias={}, reduction={}, ignore_index={}, label_smoothing={}, options={}",
            o.in_features,
            o.num_classes,
            o.out_features.py_text(),
            o.bias.py_text(),
            o.reduction,
            o.ignore_index.py_text(),
            o.label_smoothing.py_text(),
            o.options.py_text()
        )
    }
}
layer_of!(
    LinearCrossEntropyLoss,
    |m, input, target| {
        let o = &m.arguments;
        let outputs = [&[o.num_classes][..], &o.out_features].concat();
        let weight = ops::reshape(&m.linear.weight, &[&outputs[..], &[o.in_features]].concat())?;
        let bias = m.linear.bias.as_ref().map(|b| ops::reshape(b, &outputs)).transpose()?;
        let chunks = o.options.as_ref();
        let auto = LinearCrossEntropyOptions::new();
        let c = chunks.unwrap_or(&auto);
        f::linear_cross_entropy(
            input,
            &weight,
            target,
            bias.as_ref(),
            m.weight.as_deref(),
            &o.reduction,
            o.ignore_index,
            o.label_smoothing,
            chunks.is_some(),
            c.batch_chunk_size,
            c.chunking_method.as_deref(),
            &c.acc_policy,
            c.acc_dtype,
        )
    },
    arguments
);
