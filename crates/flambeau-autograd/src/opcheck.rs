//! Tests of a program's own operators (`torch.library.opcheck`).

use crate::grad_mode::{self, enable_grad};
use crate::gradcheck::{GradcheckOptions, try_gradcheck};
use crate::library::{refilled, tensors_of};
use flambeau_core::dispatch::custom;
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{Device, Error, Result, Tensor, Value, ops};
use std::collections::BTreeMap;

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
/// ```
/// use torch::Tensor;
/// use torch::library::{OpcheckOptions, Value, arg, custom_op, one, opcheck};
/// let kernel = |a: &[Value]| one(torch::ops::exp(&arg::<Tensor>(a, 0)?)?);
/// let mut exp = custom_op("doc::checked_exp", "(Tensor x) -> Tensor", kernel)?;
/// exp.register_fake(|a: &[Value]| one(torch::empty_like(&arg::<Tensor>(a, 0)?)))?;
/// let verdicts = opcheck("doc::checked_exp", &[torch::ones([2]).into()], &[], OpcheckOptions::new())?;
/// assert!(verdicts["test_schema"].is_ok() && verdicts["test_faketensor"].is_ok());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Unknown operators or checks, and arguments that the operator does not take.
#[doc(alias = "torch.library.opcheck")]
pub fn opcheck(
    name: &str,
    args: &[Value],
    kwargs: &flambeau_core::dispatch::object::Kwargs,
    o: OpcheckOptions,
) -> Result<BTreeMap<String, Result<()>>> {
    let f = flambeau_library::lookup(name)
        .ok_or_else(|| Error::missing(format!("no operator named '{name}'")))?;
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
        Ok(results.into_iter().filter(Tensor::requires_grad).collect::<Vec<_>>())
    };
    try_gradcheck(f, &leaves, GradcheckOptions::new()).map(drop)
}
