//! Gradients of a program's own operators (`torch.library.register_autograd`).

use crate::function::{self, BackwardContext, Context, Function};
use crate::node;
use flambeau_core::dispatch::custom::{self, CustomOpDef, UserOp};
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::types::keys::Key;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use std::borrow::Cow;
use std::sync::Arc;

type SetupFn = dyn Fn(&mut Context, &[Value], &[Value]) -> Result<()> + Send + Sync;
type BackwardFn =
    dyn Fn(&BackwardContext<'_>, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> + Send + Sync;

/// What a gradient rule consists of.
struct Rule {
    setup: Box<SetupFn>,
    backward: Box<BackwardFn>,
}

/// Gives an operator its gradient. `setup_context` sees arguments and results of a call and keeps what `backward` needs;
/// `backward` takes the gradients of the results' tensors to those of the arguments' tensors, one for each in order (the
/// tensors of lists one after the other).
///
/// ```
/// use torch::Tensor;
/// use torch::library::{Value, arg, custom_op, one, register_autograd};
/// let kernel = |a: &[Value]| one(torch::ops::exp(&arg::<Tensor>(a, 0)?)?);
/// let mut exp = custom_op("doc::exp", "(Tensor x) -> Tensor", kernel)?;
/// register_autograd(
///     &mut exp,
///     |ctx, _, results| {
///         ctx.save_for_backward(&[&arg::<Tensor>(results, 0)?]);
///         Ok(())
///     },
///     |ctx, grads| Ok(vec![grads[0].as_ref().map(|g| g * &ctx.saved_tensors().unwrap()[0])]),
/// )?;
/// let x = torch::tensor(0.0).requires_grad_(true).clone();
/// arg::<Tensor>(&exp.call(&[(&x).into()], &[])?, 0)?.backward();
/// assert_eq!(x.grad().unwrap().item::<f32>(), 1.0);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Operators that write to their arguments.
#[doc(alias = "torch.library.register_autograd")]
pub fn register_autograd(
    op: &mut CustomOpDef,
    setup_context: impl Fn(&mut Context, &[Value], &[Value]) -> Result<()> + Send + Sync + 'static,
    backward: impl Fn(&BackwardContext<'_>, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>
    + Send
    + Sync
    + 'static,
) -> Result<()> {
    let name = op.name();
    register_autograd_in(op.library(), name, setup_context, backward)
}
/// The same for an operator of a library.
///
/// ```
/// use torch::Tensor;
/// use torch::library::{Library, LibraryKind, Value, arg, one, register_autograd_in};
/// let mut library = Library::new("doc", LibraryKind::Def)?;
/// library.define("twice(Tensor x) -> Tensor")?;
/// let kernel = |a: &[Value]| one(arg::<Tensor>(a, 0)? * 2.0);
/// library.impl_("twice", kernel, "CompositeExplicitAutograd")?;
/// let backward = |g: &[Option<Tensor>]| Ok(vec![g[0].as_ref().map(|g| g * 2.0)]);
/// register_autograd_in(&mut library, "twice", |_, _, _| Ok(()), move |_, g| backward(g))?;
/// let x = torch::tensor(3.0).requires_grad_(true).clone();
/// arg::<Tensor>(&torch::library::call("doc::twice", &[(&x).into()], &[])?, 0)?.backward();
/// assert_eq!(x.grad().unwrap().item::<f32>(), 2.0);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`register_autograd`], and unknown names.
pub fn register_autograd_in(
    library: &mut custom::Library,
    name: &str,
    setup_context: impl Fn(&mut Context, &[Value], &[Value]) -> Result<()> + Send + Sync + 'static,
    backward: impl Fn(&BackwardContext<'_>, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>
    + Send
    + Sync
    + 'static,
) -> Result<()> {
    library
        .set_gradient(name, Arc::new(Rule { setup: Box::new(setup_context), backward: Box::new(backward) }))
}

/// The tensors of values, those in lists included.
fn tensors(values: &[Value], into: &mut Vec<Tensor>) {
    for v in values {
        match v {
            Value::Tensor(t) => into.push(t.clone()),
            Value::List(l) | Value::Tuple(l) => tensors(l, into),
            _ => {}
        }
    }
}
pub(crate) fn tensors_of(values: &[Value]) -> Vec<Tensor> {
    let mut all = Vec::new();
    tensors(values, &mut all);
    all
}
/// The values with other tensors in their places.
pub(crate) fn refilled(values: &[Value], with: &mut dyn Iterator<Item = Tensor>) -> Vec<Value> {
    let one = |v: &Value, with: &mut dyn Iterator<Item = Tensor>| match v {
        Value::Tensor(t) => Value::Tensor(with.next().unwrap_or_else(|| t.clone())),
        Value::List(l) => Value::List(refilled(l, with)),
        Value::Tuple(l) => Value::Tuple(refilled(l, with)),
        v => v.clone(),
    };
    values.iter().map(|v| one(v, with)).collect()
}

/// One recorded call.
struct Call {
    op: &'static UserOp,
    rule: Option<Arc<Rule>>,
    args: Vec<Value>,
    /// What the operator gave, numbers and lists included.
    results: Arc<Mutex<Vec<Value>>>,
}
impl Function for Call {
    fn name(&self) -> Cow<'static, str> {
        Cow::Owned(self.op.info().name.replace("::", "_").replace('.', "_"))
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let args = refilled(&self.args, &mut inputs.iter().cloned());
        let results = custom::call_below(Key::Autograd, self.op.info(), &args)?;
        if let Some(rule) = &self.rule {
            (rule.setup)(ctx, &args, &results)?;
        }
        let all = tensors_of(&results);
        *self.results.lock().unwrap_or_else(|e| e.into_inner()) = results;
        Ok(all)
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let name = self.op.info().name;
        let Some(rule) = &self.rule else {
            return Err(Error::autograd(format!(
                "Trying to backward through {name} but no autograd formula was registered. Please use register_autograd to \
                 add one."
            )));
        };
        let made = (rule.backward)(ctx, grads)?;
        let want = tensors_of(&self.args).len();
        ensure!(
            made.len() == want,
            Autograd,
            "{name}: its backward gave {} gradients for {want} tensors among its arguments",
            made.len()
        );
        Ok(made)
    }
}

/// What the autograd key does with a program's operator.
fn record(op: &'static UserOp, args: &[Value]) -> Result<Vec<Value>> {
    let inputs = tensors_of(args);
    let below = || custom::call_below(Key::Autograd, op.info(), args);
    if !node::recording_list(&inputs) {
        return below();
    }
    if op.info().schema.mutates() {
        for (a, v) in op.info().schema.args.iter().zip(args).filter(|(a, _)| a.mutated) {
            ensure!(
                !tensors_of(std::slice::from_ref(v)).iter().any(Tensor::requires_grad),
                Autograd,
                "{}: argument '{}' requires a gradient and would be written, which has no gradient formula",
                op.info().name,
                a.name
            );
        }
        return below();
    }
    let rule = op.gradient().and_then(|r| r.downcast::<Rule>().ok());
    let results = Arc::new(Mutex::new(Vec::new()));
    let call = Call { op, rule, args: args.to_vec(), results: results.clone() };
    let made = function::apply(call, &inputs)?;
    let results = results.lock().unwrap_or_else(|e| e.into_inner()).clone();
    Ok(refilled(&results, &mut made.into_iter()))
}
/// Fills in the engine's part of user-defined operators.
pub(crate) fn install() {
    custom::set_gradient(record);
}
