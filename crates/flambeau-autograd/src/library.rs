//! Gradients of a program's own operators (`torch.library.register_autograd`), and [`opcheck`].

use crate::function::{self, BackwardContext, Context, Function};
use crate::grad_mode::{self, enable_grad};
use crate::gradcheck::{GradcheckOptions, gradcheck};
use crate::node;
use flambeau_core::dispatch::custom::{self, CustomOpDef, UserOp};
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::types::keys::Key;
use flambeau_core::{Device, Error, Result, Tensor, Value, ensure, library, ops};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

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
fn tensors_of(values: &[Value]) -> Vec<Tensor> {
    let mut all = Vec::new();
    tensors(values, &mut all);
    all
}
/// The values with other tensors in their places.
fn refilled(values: &[Value], with: &mut dyn Iterator<Item = Tensor>) -> Vec<Value> {
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

/// Which checks [`opcheck`] makes, and what counts as the same.
#[derive(Clone, Debug)]
pub struct OpcheckOptions {
    test_utils: Vec<String>,
}
impl Default for OpcheckOptions {
    fn default() -> Self {
        OpcheckOptions { test_utils: ALL.iter().map(|t| t.to_string()).collect() }
    }
}
const ALL: [&str; 4] = ["test_schema", "test_autograd_registration", "test_faketensor", "test_gradcheck"];
impl OpcheckOptions {
    /// All checks.
    pub fn new() -> Self {
        Self::default()
    }
    /// These checks alone: `test_schema`, `test_autograd_registration`, `test_faketensor`, `test_gradcheck`.
    pub fn test_utils(mut self, names: &[&str]) -> Self {
        self.test_utils = names.iter().map(|n| n.to_string()).collect();
        self
    }
}

/// Tests an operator (`mylib::scale`) with sample arguments: it writes and aliases what its schema says and no more; its
/// gradient is registered where gradients are registered; its fake rule foretells its results; and its gradients are those
/// of finite differences (float64 arguments that require one). Gives each check's verdict.
///
/// # Errors
/// Unknown operators or checks, and arguments that the operator does not take.
#[doc(alias = "torch.library.opcheck")]
pub fn opcheck(
    name: &str,
    args: &[Value],
    kwargs: &flambeau_core::dispatch::object::Kwargs,
    o: &OpcheckOptions,
) -> Result<BTreeMap<String, Result<()>>> {
    let f = library::lookup(name).ok_or_else(|| Error::missing(format!("no operator named '{name}'")))?;
    let (op, args) = f.bound(args, kwargs)?;
    let mut verdicts = BTreeMap::new();
    for test in &o.test_utils {
        let verdict = match test.as_str() {
            "test_schema" => schema(op, &args),
            "test_autograd_registration" => registration(op, &args),
            "test_faketensor" => fake(op, &args),
            "test_gradcheck" => gradients(op, &args),
            "test_aot_dispatch_static" | "test_aot_dispatch_dynamic" => {
                Err(Error::missing(format!("{test}: there is no compiler to test the operator with")))
            }
            other => return Err(Error::value(format!("opcheck knows no check '{other}'"))),
        };
        verdicts.insert(test.clone(), verdict);
    }
    Ok(verdicts)
}

fn wrong(op: &dyn AnyOp, what: String) -> Error {
    Error::assertion(format!("opcheck({}): {what}", op.info().name))
}
fn copies(args: &[Value]) -> Result<Vec<Value>> {
    let all = tensors_of(args);
    let made: Vec<Tensor> = all
        .iter()
        .map(|t| grad_mode::no_grad(|| ops::clone(&t.alias_detached(), None)))
        .collect::<Result<_>>()?;
    Ok(refilled(args, &mut made.into_iter()))
}

fn schema(op: &'static dyn AnyOp, args: &[Value]) -> Result<()> {
    let given = copies(args)?;
    let before = copies(&given)?;
    let versions = |v: &[Value]| -> Vec<u32> { tensors_of(v).iter().map(Tensor::version).collect() };
    let old_versions: Vec<Vec<u32>> = (0..given.len()).map(|i| versions(&given[i..=i])).collect();
    let results = tensors_of(&op.call_boxed(&given)?);
    let declared = op.info().schema.args;
    for (i, a) in declared.iter().enumerate() {
        let now = tensors_of(&given[i..=i]);
        for ((t, old), version) in now.iter().zip(tensors_of(&before[i..=i])).zip(&old_versions[i]) {
            let untouched = t.version() == *version;
            let same = t.sizes() == old.sizes() && t.dtype() == old.dtype();
            // what nobody wrote is the same, NaN included
            let same = same && (untouched || ops::equal(t, &old)?);
            if !same && !a.mutated {
                return Err(wrong(
                    op,
                    format!("argument {} is not defined as mutable but was mutated", a.name),
                ));
            }
            if !a.mutated && results.iter().any(|r| r.storage().same(t.storage())) {
                return Err(wrong(
                    op,
                    format!("argument {} is not defined to alias output but was aliasing", a.name),
                ));
            }
            if a.mutated && t.numel() > 0 && untouched {
                return Err(wrong(
                    op,
                    format!("argument {} is defined as mutable but was not mutated", a.name),
                ));
            }
        }
    }
    for (i, r) in results.iter().enumerate() {
        if results[..i].iter().any(|o| o.storage().same(r.storage())) && !op.info().schema.mutates() {
            return Err(wrong(op, format!("result {i} shares its memory with another result")));
        }
    }
    Ok(())
}

fn registration(op: &'static dyn AnyOp, args: &[Value]) -> Result<()> {
    if !tensors_of(args).iter().any(Tensor::requires_grad) {
        return Ok(());
    }
    let results = enable_grad(|| op.call_boxed(args))?;
    if !tensors_of(&results).iter().any(|t| t.dtype().is_floating() || t.dtype().is_complex()) {
        return Ok(());
    }
    let has = match custom::find(op.info().name) {
        Some(u) => u.has_autograd(),
        None => op.has(Key::Autograd),
    };
    if has || op.info().schema.mutates() {
        return Ok(());
    }
    Err(wrong(
        op,
        "no autograd formula is registered at the Autograd key, and its results are part of a graph: use register_autograd"
            .into(),
    ))
}

fn geometry(values: &[Value]) -> Vec<String> {
    tensors_of(values)
        .iter()
        .map(|t| format!("sizes {:?}, strides {:?}, {}", t.sizes(), t.strides(), t.dtype()))
        .collect()
}
fn fake(op: &'static dyn AnyOp, args: &[Value]) -> Result<()> {
    let real = op.call_boxed(&copies(args)?)?;
    let metas: Vec<Tensor> = tensors_of(args)
        .iter()
        .map(|t| Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta))
        .collect::<Result<_>>()?;
    let made = op.call_boxed(&refilled(args, &mut metas.into_iter()))?;
    let (a, b) = (geometry(&real), geometry(&made));
    if a != b {
        return Err(wrong(op, format!("real results {a:?}, but the fake rule gives {b:?}")));
    }
    Ok(())
}

fn gradients(op: &'static dyn AnyOp, args: &[Value]) -> Result<()> {
    let all = tensors_of(args);
    let double = |t: &&Tensor| {
        t.requires_grad() && matches!(t.dtype(), flambeau_core::DType::F64 | flambeau_core::DType::C128)
    };
    let leaves: Vec<Tensor> = all.iter().filter(double).cloned().collect();
    if leaves.is_empty() {
        return Ok(());
    }
    let f = |given: &[Tensor]| {
        let mut given = given.iter().cloned();
        let filled: Vec<Tensor> = all
            .iter()
            .map(|t| if double(&t) { given.next().unwrap_or_else(|| t.clone()) } else { t.clone() })
            .collect();
        let results = tensors_of(&op.call_boxed(&refilled(args, &mut filled.into_iter()))?);
        Ok(results.into_iter().filter(Tensor::requires_grad).collect())
    };
    gradcheck(f, &leaves, &GradcheckOptions::new())
}
