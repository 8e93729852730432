//! One call for each slice: right for every operator, and slow.

use crate::call::Call;
use flambeau_core::dispatch::value::Value;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, ops};

/// The slices of a value, made one by one.
fn slice(call: &Call<'_>, v: &Value, at: i64) -> Result<Value> {
    let all = |l: &[Value]| l.iter().map(|v| slice(call, v, at)).collect::<Result<Vec<_>>>();
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(match call.parts(t) {
            // of an empty batch: any elements will do, only sizes are asked for
            (t, Some(d)) if call.batch() == 0 => {
                let mut sizes = t.sizes().to_vec();
                sizes.remove(d);
                Tensor::zeros_raw(&sizes, t.dtype(), t.device())?
            }
            (t, Some(d)) => ops::select(&t, d as i64, at)?,
            (t, None) => t,
        }),
        Value::List(l) => Value::List(all(l)?),
        Value::Tuple(l) => Value::Tuple(all(l)?),
        v => v.clone(),
    })
}
/// Results of all slices as one.
fn joined(call: &Call<'_>, all: &[&Value]) -> Result<Value> {
    let items = |i: usize| -> Vec<&Value> { all.iter().filter_map(|v| v.items()?.get(i)).collect() };
    let each = |n: usize| (0..n).map(|i| joined(call, &items(i))).collect::<Result<Vec<_>>>();
    Ok(match all[0] {
        Value::Tensor(first) => {
            let ts: Vec<Tensor> = all
                .iter()
                .filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None })
                .collect();
            if ts.iter().any(|t| t.sizes() != first.sizes()) {
                return Err(Error::runtime(format!(
                    "vmap: {} gives results of another size for each slice",
                    call.info.name
                )));
            }
            let t = ops::stack(&ts, 0)?;
            let t = if call.batch() == 0 { ops::slice(&t, 0, Some(0), Some(0), 1)? } else { t };
            call.hidden(&t, 0)?
        }
        Value::List(l) => Value::List(each(l.len())?),
        Value::Tuple(l) => Value::Tuple(each(l.len())?),
        v => v.clone(),
    })
}
/// Calls the operator for each slice.
pub(crate) fn looped(call: &Call<'_>) -> Result<Vec<Value>> {
    call.check_written()?;
    let mut all: Vec<Vec<Value>> = Vec::new();
    for at in 0..call.batch().max(1) {
        let args = call.args.iter().map(|v| slice(call, v, at)).collect::<Result<Vec<_>>>()?;
        all.push(call.info.call(&args)?);
    }
    if let Some(i) = call.written() {
        return Ok(vec![call.args[i].clone()]);
    }
    (0..all[0].len()).map(|i| joined(call, &all.iter().map(|r| &r[i]).collect::<Vec<_>>())).collect()
}
