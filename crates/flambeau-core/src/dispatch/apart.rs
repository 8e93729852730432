//! Writes through `x.data()`: the operator runs as it would on any tensor, and what the storage counted meanwhile is taken
//! over by the tensor that was written through, so that gradients of `x` do not notice it.

use crate::dispatch::op::OpInfo;
use crate::dispatch::registry;
use crate::dispatch::value::Value;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::keys::{Key, KeySet};
use crate::types::thread_keys::ExcludeGuard;

/// Every operator that is given such a tensor.
fn through(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let mut written = Vec::new();
    let mutated = info.schema.args.iter().zip(&args).filter(|(a, _)| a.mutated);
    mutated.for_each(|(_, v)| find(v, &mut written));
    let results = {
        let _below = ExcludeGuard::new(KeySet::of(Key::Apart));
        info.call(&args)
    };
    for (t, before) in written {
        let n = t.storage().version().wrapping_sub(before);
        if let Some(apart) = t.apart().filter(|_| n > 0) {
            apart.wrote(n);
        }
    }
    results
}

/// Tensors in the value that count their own writes, each memory once, with the storage's count.
fn find(v: &Value, found: &mut Vec<(Tensor, u32)>) {
    match v {
        Value::Tensor(t)
            if t.apart().is_some() && !found.iter().any(|(f, _)| f.storage().same(t.storage())) =>
        {
            found.push((t.clone(), t.storage().version()));
        }
        Value::List(l) => l.iter().for_each(|v| find(v, found)),
        _ => {}
    }
}

/// Part of what core registers.
pub(crate) fn install() {
    registry::set_fallback(Key::Apart, Some(through));
}
