//! Random numbers. With `different` every slice gets numbers of its own, in the order of the slices; with `same` all get those
//! that one call gives.

use crate::batched::repeated;
use crate::call::Call;
use crate::levels::Randomness;
use flambeau_core::dispatch::value::Value;
use flambeau_core::{Error, Result, Tensor, ensure, ops};

fn check(c: &Call<'_>) -> Result<()> {
    ensure!(
        c.level.randomness != Randomness::Error,
        Runtime,
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness \
         flags on vmap or perform the randomness operation out of vmap"
    );
    Ok(())
}
fn is(c: &Call<'_>, name: &str) -> bool {
    c.position(name).is_some()
}

/// A call none of whose tensors has the dimension.
pub(crate) fn unbatched(c: &Call<'_>) -> Result<Vec<Value>> {
    check(c)?;
    if c.level.randomness == Randomness::Same {
        return c.info.call(c.args);
    }
    ensure!(
        c.written().is_none(),
        Runtime,
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If \
         this is necessary for your usage, please file an issue with functorch."
    );
    if let Some(i) = c.position("size") {
        let mut args = c.args.to_vec();
        let mut sizes = vec![c.batch()];
        sizes.extend(c.ints(i)?);
        args[i] = Value::List(sizes.into_iter().map(Value::Int).collect());
        return c.run(&args);
    }
    if c.args.iter().any(|v| matches!(v, Value::Tensor(_))) {
        return different(c);
    }
    // a permutation for each slice
    let all = (0..c.batch().max(1)).map(|_| tensor(c.info.call(c.args)?)).collect::<Result<Vec<_>>>()?;
    let t = ops::stack(&all, 0)?;
    c.one(&if c.batch() == 0 { ops::slice(&t, 0, Some(0), Some(0), 1)? } else { t })
}
fn tensor(mut v: Vec<Value>) -> Result<Tensor> {
    match v.pop().map(Value::into_tensor) {
        Some(Ok(t)) => Ok(t),
        _ => Err(Error::runtime("a random operator without a tensor")),
    }
}
/// A call of which some tensor has the dimension.
pub(crate) fn batched(c: &Call<'_>) -> Result<Vec<Value>> {
    check(c)?;
    if c.written().is_some() {
        c.check_written()?;
    }
    if c.level.randomness == Randomness::Different {
        return different(c);
    }
    // sizes and dtype alone count, not the elements: one slice stands for all
    let only_sizes = c.args.iter().filter(|v| matches!(v, Value::Tensor(_))).count() == 1
        && (c.info.schema.args.iter().any(|a| a.name == "memory_format")
            || is(c, "_shape_only")
            || by_sizes(c));
    ensure!(
        only_sizes || c.written().is_some(),
        Runtime,
        "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
    );
    let whole = c.whole_at(0)?;
    let first = match c.batch() {
        0 => ops::reshape(&whole, c.tensor(0)?.sizes())?,
        _ => ops::select(&whole, 0, 0)?,
    };
    let mut args = c.args.to_vec();
    if c.written().is_some() {
        ensure!(
            !(1..c.args.len()).any(|i| c.is_batched(i)),
            Runtime,
            "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
        );
        let one = ops::empty_like(&first, None, None, None, None, None)?;
        args[0] = Value::Tensor(one.clone());
        c.info.call(&args)?;
        ops::copy_(&whole, &repeated(&one, 0, c.batch())?, false)?;
        return Ok(vec![c.args[0].clone()]);
    }
    args[0] = Value::Tensor(first);
    c.info.call(&args)
}
/// Operators that draw what only depends on the sizes of their tensor: masks of dropout.
fn by_sizes(c: &Call<'_>) -> bool {
    c.info.name.starts_with('_') && (is(c, "p") || is(c, "lower"))
}
fn different(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let rank =
        c.args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.dim()) } else { None }).max();
    for v in &mut args {
        if let Value::Tensor(t) = v {
            *v = Value::Tensor(super::pointwise::padded(&c.whole(t)?, rank.unwrap_or(0))?);
        }
    }
    // rows of probabilities: two dimensions at most
    if is(c, "num_samples")
        && let Value::Tensor(t) = &args[0]
        && t.dim() == 3
    {
        let (n, k) = (t.sizes()[1], t.sizes()[2]);
        args[0] = Value::Tensor(ops::reshape(t, &[c.batch() * n, k])?);
        let t = tensor(c.info.call(&args)?)?;
        let k = t.sizes()[1];
        return c.one(&ops::view(&t, &[c.batch(), n, k])?);
    }
    c.run(&args)
}
