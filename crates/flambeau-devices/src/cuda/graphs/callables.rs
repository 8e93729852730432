//! Functions whose forward and backward passes are graphs (`torch.cuda.make_graphed_callables`).

use super::{CUDAGraph, CaptureMode, GraphOptions, try_graph};
use crate::cuda::runtime::PoolId;
use crate::cuda::streams::{Stream, stream};
use flambeau_autograd::engine::GradOptions;
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::grad_fn::try_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::sync::Arc;

/// How [`make_graphed_callables`] records.
#[derive(Clone, Debug)]
pub struct GraphedOptions {
    pub(crate) parameters: Vec<Tensor>,
    pub(crate) num_warmup_iters: usize,
    pub(crate) allow_unused_input: bool,
    pub(crate) pool: Option<PoolId>,
    pub(crate) capture_error_mode: CaptureMode,
}
impl Default for GraphedOptions {
    fn default() -> GraphedOptions {
        GraphedOptions {
            parameters: Vec::new(),
            num_warmup_iters: 3,
            allow_unused_input: false,
            pool: None,
            capture_error_mode: CaptureMode::Global,
        }
    }
}
impl GraphedOptions {
    /// The documented defaults.
    pub fn new() -> GraphedOptions {
        GraphedOptions::default()
    }
    /// Parameters that the function reads beside its arguments, as a module does: they have gradients too.
    pub fn parameters(mut self, parameters: Vec<Tensor>) -> GraphedOptions {
        self.parameters = parameters;
        self
    }
    /// Calls before the recording, so that nothing is set up within.
    pub fn num_warmup_iters(mut self, num_warmup_iters: usize) -> GraphedOptions {
        self.num_warmup_iters = num_warmup_iters;
        self
    }
    /// Whether arguments may have no influence on the results.
    pub fn allow_unused_input(mut self, allow_unused_input: bool) -> GraphedOptions {
        self.allow_unused_input = allow_unused_input;
        self
    }
    /// The pool of memory; one of its own by default.
    pub fn pool(mut self, pool: Option<PoolId>) -> GraphedOptions {
        self.pool = pool;
        self
    }
    /// What threads may do meanwhile.
    pub fn capture_error_mode(mut self, capture_error_mode: CaptureMode) -> GraphedOptions {
        self.capture_error_mode = capture_error_mode;
        self
    }
}
/// A function that was recorded: its calls copy the arguments and run the graph.
#[derive(Clone)]
pub struct Graphed(Arc<Parts>);
struct Parts {
    forward: CUDAGraph,
    backward: CUDAGraph,
    /// How many of the inputs are arguments; the others are parameters.
    arguments: usize,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    output_grads: Vec<Option<Tensor>>,
    input_grads: Vec<Option<Tensor>>,
}
impl Graphed {
    /// Calls it. Panics with the text of [`Graphed::try_call`]'s error.
    #[track_caller]
    pub fn call(&self, arguments: &[Tensor]) -> Vec<Tensor> {
        expect(self.try_call(arguments))
    }
    /// Calls it. The next call overwrites the results.
    ///
    /// # Errors
    /// Another number of arguments than when it was recorded, or other sizes.
    pub fn try_call(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
        let n = self.0.arguments;
        ensure!(
            arguments.len() == n,
            Runtime,
            "the function was recorded with {} arguments, and called with {}",
            n,
            arguments.len()
        );
        let all: Vec<Tensor> = arguments.iter().chain(&self.0.inputs[n..]).cloned().collect();
        function::apply(self.clone(), &all)
    }
}
fn place(t: &Tensor) -> (bool, i64) {
    (t.is_contiguous(), t.storage_offset())
}
/// Whether two tensors are the same memory, seen alike.
fn alike(a: &Tensor, b: &Tensor) -> bool {
    a.storage().same(b.storage())
        && place(a) == place(b)
        && a.sizes() == b.sizes()
        && a.strides() == b.strides()
}
impl Function for Graphed {
    const ONCE_DIFFERENTIABLE: bool = true;
    fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let p = &self.0;
        for (own, given) in p.inputs.iter().zip(inputs).take(p.arguments) {
            if !alike(own, given) {
                ops::copy_(&own.detach(), &given.detach(), false)?;
            }
        }
        p.forward.try_replay()?;
        Ok(p.outputs.iter().map(Tensor::detach).collect())
    }
    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let p = &self.0;
        for (own, given) in p.output_grads.iter().zip(grads) {
            match (own, given) {
                (Some(own), Some(given)) if !alike(own, given) => ops::copy_(own, given, false)?,
                (Some(own), None) => ops::zero_(own)?,
                _ => {}
            }
        }
        p.backward.try_replay()?;
        Ok(p.input_grads.iter().map(|g| g.as_ref().map(Tensor::detach)).collect())
    }
}

/// A function whose forward and backward passes are graphs. Panics with the text of [`try_make_graphed_callables`]'s error.
#[track_caller]
pub fn make_graphed_callables(
    callable: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    sample_args: &[Tensor],
    options: GraphedOptions,
) -> Graphed {
    expect(try_make_graphed_callables(callable, sample_args, options))
}
/// A function whose forward and backward passes are graphs. It is called with `sample_args` some times, and then recorded with
/// them: they are the memory that later calls copy their arguments into. Arguments that want a gradient later have to want it
/// here; gradients of gradients are not there.
///
/// # Errors
/// There is no device; those of the function; what a recording does not allow.
#[doc(alias = "torch.cuda.make_graphed_callables")]
pub fn try_make_graphed_callables(
    callable: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    sample_args: &[Tensor],
    options: GraphedOptions,
) -> Result<Graphed> {
    let inputs: Vec<Tensor> = sample_args.iter().chain(&options.parameters).cloned().collect();
    let wanted: Vec<Tensor> = inputs.iter().filter(|t| t.requires_grad()).cloned().collect();
    let pool = options.pool.unwrap_or_else(super::graph_pool_handle);
    let gradients = |outputs: &[Tensor], grads: &[Tensor]| -> Result<Vec<Option<Tensor>>> {
        let outputs: Vec<&Tensor> = outputs.iter().filter(|t| t.requires_grad()).collect();
        let how =
            GradOptions::new().grad_outputs(grads.iter().cloned()).allow_unused(options.allow_unused_input);
        try_grad(outputs, wanted.as_slice(), how)
    };
    let like = |t: &Tensor| ops::empty_like(&t.detach(), None, None, None, None, None);
    crate::cuda::try_synchronize()?;
    let side = Stream::try_new()?;
    stream(Some(&side), || -> Result<()> {
        for _ in 0..options.num_warmup_iters {
            let outputs = callable(sample_args)?;
            let grads = outputs.iter().filter(|t| t.requires_grad()).map(like).collect::<Result<Vec<_>>>()?;
            if !grads.is_empty() && !wanted.is_empty() {
                gradients(&outputs, &grads)?;
            }
        }
        Ok(())
    })?;
    crate::cuda::try_synchronize()?;
    let how = || {
        GraphOptions::new()
            .pool(Some(pool))
            .stream(Some(side.clone()))
            .capture_error_mode(options.capture_error_mode)
    };
    let (forward, backward) = (CUDAGraph::try_new(false)?, CUDAGraph::try_new(false)?);
    let outputs = try_graph(&forward, how(), || callable(sample_args))??;
    let output_grads =
        outputs.iter().map(|t| t.requires_grad().then(|| like(t)).transpose()).collect::<Result<Vec<_>>>()?;
    let given: Vec<Tensor> = output_grads.iter().flatten().cloned().collect();
    let found = match given.is_empty() || wanted.is_empty() {
        true => Vec::new(),
        false => try_graph(&backward, how(), || gradients(&outputs, &given))??,
    };
    let mut found = found.into_iter();
    let input_grads =
        inputs.iter().map(|t| if t.requires_grad() { found.next().flatten() } else { None }).collect();
    if outputs.is_empty() {
        return Err(Error::runtime("a function without results has nothing to record"));
    }
    let arguments = sample_args.len();
    // what the recorded passes saved lies in the pool: only memory is kept
    let outputs = outputs.iter().map(Tensor::detach).collect();
    Ok(Graphed(Arc::new(Parts { forward, backward, arguments, inputs, outputs, output_grads, input_grads })))
}
