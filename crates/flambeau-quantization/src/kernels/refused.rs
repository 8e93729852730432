//! What PyTorch says of operators that it has no quantized kernel for. It names the operator at which a call ends, which is
//! often another than the one that was called: `refused.txt` has those, as PyTorch's own table of operators says. A star
//! marks elementwise ones: where their operands do not lie alike, they end earlier, when the result is made.

use crate::tensor::could_not_run;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::registry::set_fallback;
use flambeau_core::types::keys::Key::{self, QuantizedCpu};
use flambeau_core::{Error, Result, Tensor, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

static ENDS: LazyLock<HashMap<&str, &str>> =
    LazyLock::new(|| include_str!("refused.txt").lines().filter_map(|l| l.split_once(' ')).collect());

fn tensors<'a>(args: &'a [Value], all: &mut Vec<&'a Tensor>) {
    for v in args {
        match v {
            Value::Tensor(t) => all.push(t),
            other => tensors(other.items().unwrap_or(&[]), all),
        }
    }
}
/// All of the same sizes and without gaps in the same order.
fn lie_alike(args: &[Value]) -> bool {
    let mut all = Vec::new();
    tensors(args, &mut all);
    all.windows(2).all(|p| p[0].sizes() == p[1].sizes() && p[0].strides() == p[1].strides())
        && all.first().is_none_or(|t| t.is_contiguous())
}
fn refuse(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let end = ENDS.get(info.name).copied().unwrap_or(info.name);
    if let Some(end) = end.strip_suffix('*') {
        if lie_alike(&args) {
            return Err(could_not_run(end, "QuantizedCPU"));
        }
        return Err(Error::runtime(
            "empty_strided not supported on quantized tensors yet see https://github.com/pytorch/pytorch/issues/74540",
        ));
    }
    Err(could_not_run(end, "QuantizedCPU"))
}

pub(super) fn fill() {
    set_fallback(QuantizedCpu, Some(refuse));
}
