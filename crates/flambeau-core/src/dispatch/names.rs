//! Names of dimensions through operators. A call with a named tensor comes here first, by [`Key::Named`]: the row says what
//! names the results have ([`NameRule`]), the operator runs without this key, and the results get their names. So kernels,
//! gradients and composites know nothing of names, and tensors without names pay nothing.

use super::op::OpInfo;
use super::registry::{self, CrateReg};
use super::value::{NamedTuple, Value};
use crate::ensure;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::keys::{Key, KeySet};
use crate::types::names::{NameRule, Names};
use crate::types::schema::Ty;
use crate::types::thread_keys::ExcludeGuard;

/// Runs `f`; meanwhile no operator call of this thread looks at names.
#[doc(alias = "named-tensor.rule:autograd-ignores-names")]
pub fn ignoring<R>(f: impl FnOnce() -> R) -> R {
    let _off = ExcludeGuard::new(KeySet::of(Key::Named));
    f()
}

/// An operator's arguments, by their names in the schema.
struct Call<'a> {
    info: &'static OpInfo,
    args: &'a [Value],
}
impl<'a> Call<'a> {
    fn arg(&self, name: &str) -> Option<&'a Value> {
        let i = self.info.schema.args.iter().position(|a| a.name == name)?;
        self.args.get(i)
    }
    /// Tensors that are read, those of lists one by one.
    fn inputs(&self) -> Vec<&'a Tensor> {
        let mut all = Vec::new();
        for (a, v) in self.info.schema.args.iter().zip(self.args) {
            if !(a.mutated && a.kw_only) && is_tensor(a.ty) {
                tensors(v, &mut all);
            }
        }
        all
    }
    /// Tensors that are written, and whether each only takes the result.
    fn written(&self) -> Vec<(&'a Tensor, bool)> {
        let mut all = Vec::new();
        for (a, v) in self.info.schema.args.iter().zip(self.args).filter(|(a, _)| a.mutated) {
            let mut these = Vec::new();
            tensors(v, &mut these);
            all.extend(these.into_iter().map(|t| (t, a.kw_only)));
        }
        all
    }
    /// The dimensions of a tensor that an argument says, by any of its usual names; none where it says none.
    fn dims(&self, rank: usize) -> Option<Vec<usize>> {
        let v = ["dim", "dims", "axis"].iter().find_map(|n| self.arg(n))?;
        let all: Vec<i64> = match v {
            Value::Int(d) => vec![*d],
            v => v
                .items()?
                .iter()
                .filter_map(|d| if let Value::Int(d) = d { Some(*d) } else { None })
                .collect(),
        };
        let wrap = |d: i64| usize::try_from(if d < 0 { d + rank as i64 } else { d }).ok();
        let all: Vec<usize> = all.into_iter().filter_map(wrap).filter(|d| *d < rank).collect();
        (!all.is_empty()).then_some(all)
    }
    fn dim(&self, names: &[&str], default: i64, rank: usize) -> Option<usize> {
        let d = match names.iter().find_map(|n| self.arg(n)) {
            Some(Value::Int(d)) => *d,
            _ => default,
        };
        usize::try_from(if d < 0 { d + rank as i64 } else { d }).ok().filter(|d| *d < rank)
    }
    fn keeps_dims(&self) -> bool {
        matches!(self.arg("keepdim"), Some(Value::Bool(true)))
    }
}

fn is_tensor(ty: Ty) -> bool {
    matches!(ty, Ty::Tensor | Ty::OptTensor | Ty::TensorList | Ty::OptTensorList)
}
fn tensors<'a>(v: &'a Value, to: &mut Vec<&'a Tensor>) {
    match v {
        Value::Tensor(t) => to.push(t),
        Value::List(l) | Value::Tuple(l) | Value::Named(NamedTuple { items: l, .. }) => {
            l.iter().for_each(|v| tensors(v, to));
        }
        _ => {}
    }
}

/// Names of the results; none where they have no names.
fn computed(call: &Call<'_>) -> Result<Option<Names>> {
    let inputs = call.inputs();
    let Some(first) = inputs.first() else { return Ok(None) };
    let names = || first.dim_names();
    let rank = first.dim();
    let unified = || {
        let mut all = names();
        for t in &inputs[1..] {
            all = all.unify(&t.dim_names(), "broadcast")?;
        }
        Ok::<Names, Error>(all)
    };
    let without = |gone: &[usize]| {
        let kept = names().0.into_iter().enumerate().filter(|(i, _)| !gone.contains(i));
        Names(kept.map(|(_, n)| n).collect())
    };
    Ok(Some(match call.info.names {
        NameRule::Unsupported => {
            return Err(Error::runtime(format!(
                "{} is not yet supported with named tensors. Please drop names via `tensor = tensor.rename(None)`, call the \
                 op with an unnamed tensor, and set names on the result of the operation.",
                full_name(call.info)
            )));
        }
        NameRule::Nothing | NameRule::Factory => return Ok(None),
        NameRule::Keep => names(),
        NameRule::Unify => unified()?,
        NameRule::Match => {
            unified()?;
            return Ok(None);
        }
        NameRule::Remove => match call.dims(rank) {
            _ if call.keeps_dims() => names(),
            Some(dims) => without(&dims),
            None => return Ok(None),
        },
        NameRule::Squeeze => {
            let asked = call.dims(rank);
            let gone = |d: &usize| first.sizes()[*d] == 1 && asked.as_ref().is_none_or(|a| a.contains(d));
            without(&(0..rank).filter(gone).collect::<Vec<_>>())
        }
        NameRule::Permute => {
            let mut all = names();
            if let Some(dims) = call.arg("dims").and_then(|_| call.dims(rank)).filter(|d| d.len() == rank) {
                Names(dims.iter().map(|d| all.0[*d].clone()).collect())
            } else if rank >= 2 {
                let a = call.dim(&["dim0", "axis0"], -2, rank);
                let b = call.dim(&["dim1", "axis1"], -1, rank);
                if let (Some(a), Some(b)) = (a, b) {
                    all.0.swap(a, b);
                }
                all
            } else {
                all
            }
        }
        NameRule::Contract => match &inputs[..] {
            [a, b] => a.dim_names().product(&b.dim_names())?,
            [bias, a, b] => a.dim_names().product(&b.dim_names())?.unify(&bias.dim_names(), "broadcast")?,
            _ => return Ok(None),
        },
        NameRule::Pairs => match &inputs[..] {
            [a, b] => a.dim_names().pairs(&b.dim_names())?,
            _ => return Ok(None),
        },
        NameRule::Join => {
            let mut all: Option<Names> = None;
            for t in &inputs {
                let n = t.dim_names();
                ensure!(!n.0.is_empty(), Runtime, "zero-dimensional tensor cannot be concatenated");
                all = Some(match all {
                    None => n,
                    Some(all) => {
                        ensure!(
                            all.0.len() == n.0.len(),
                            Runtime,
                            "Tensors must have same number of dimensions: got {} and {}",
                            all.0.len(),
                            n.0.len()
                        );
                        all.unify(&n, "cat")?
                    }
                });
            }
            return Ok(all);
        }
        NameRule::Diagonal => {
            let at = |n: &str, default: i64| call.dim(&[n], default, rank);
            let (Some(a), Some(b)) = (at("dim1", 0), at("dim2", 1)) else { return Ok(None) };
            let mut all = without(&[a, b]);
            all.0.push(None);
            all
        }
        NameRule::Expand => {
            let n = call.arg("size").and_then(Value::items).map_or(rank, <[Value]>::len);
            let mut all = Names::none(n.saturating_sub(rank));
            all.0.extend(names().0);
            all
        }
    }))
}
fn full_name(info: &OpInfo) -> String {
    if info.name.contains("::") { info.name.to_string() } else { format!("aten::{}", info.name) }
}

/// Gives a result its names, if it is one that was made or written: what the operator only passes on keeps its own.
fn name(result: &Value, names: Option<&Names>, given: &[&Tensor], written: &[&Tensor]) -> Result<()> {
    let mut all = Vec::new();
    tensors(result, &mut all);
    for t in all {
        let same = |o: &&&Tensor| o.is_same(t);
        if given.iter().find(same).is_some() && written.iter().find(same).is_none() {
            continue;
        }
        match names.filter(|n| n.0.len() == t.dim()) {
            Some(n) => t.set_dim_names(n.clone())?,
            None => t.set_dim_names(Names::none(t.dim()))?,
        }
    }
    Ok(())
}

/// Every operator that is called with a named tensor: of `nn.functional` few have rules. What is written, `out` or in place, gets
/// the names of the result.
#[doc(alias = "named-tensor.rule:out-and-inplace")]
#[doc(alias = "named-tensor.rule:nn-functional-subset")]
fn through(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let call = Call { info, args: &args };
    let names = computed(&call)?;
    let written = call.written();
    for (out, takes_result) in &written {
        if *takes_result && out.has_names() {
            let (has, gets) = (out.dim_names(), names.clone().unwrap_or_default());
            ensure!(
                has == gets,
                Runtime,
                "Name mismatch: specified out tensor with names {has} are not the same as the computed output names {gets}. \
                 Please rename the out tensor's dims with `Tensor.rename`."
            );
        }
    }
    let results = ignoring(|| info.call(&args))?;
    let given = call.inputs();
    let written: Vec<&Tensor> = written.into_iter().map(|(t, _)| t).collect();
    // an operator that writes and computes nothing leaves names as they are
    if info.names == NameRule::Nothing && !written.is_empty() {
        return Ok(results);
    }
    for r in &results {
        name(r, names.as_ref(), &given, &written)?;
    }
    Ok(results)
}

fn install() {
    registry::set_fallback(Key::Named, Some(through));
}
static REG: CrateReg = CrateReg { name: "flambeau-core names", ops: &[], fills: &[install] };
#[allow(unsafe_code)]
#[linkme::distributed_slice(registry::CRATES)]
static LINKED: &CrateReg = &REG;
