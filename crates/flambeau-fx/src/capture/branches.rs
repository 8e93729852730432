//! What the branches of a captured `cond` must be like, and what PyTorch says of those that are not.

use super::control::Written;
use super::wrapped::shown;
use crate::node::Op;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor};

/// An error of a branch that PyTorch cannot capture: what it is, why, what to do, and what was found.
fn refused(what: &str, why: &str, hint: &str, found: &str) -> Error {
    let hint = if hint.is_empty() { String::new() } else { format!("\n  Hint: {hint}") };
    Error::runtime(format!(
        "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph break/error:\n\n\
         {what}\n  Higher Order Operator: torch.cond\n  Explanation: {why}{hint}\n\n  Developer debug context: {found}"
    ))
}
/// A branch whose results are tensors of their own: no input, no view of one, and none twice.
pub(super) fn apart(w: Written) -> Result<Written> {
    let g = &w.module.graph;
    let name = |a: &crate::argument::Argument| match a.node() {
        Some(n) => g.node(n).name.clone(),
        None => "a constant".to_string(),
    };
    let of_input = |t: &Tensor| {
        let at = w.lifted.iter().position(|l| l.storage().same(t.storage()))?;
        let inputs = g.find_nodes(Op::Placeholder, None);
        inputs.get(inputs.len().checked_sub(w.lifted.len())? + at).map(|n| g.node(*n).name.clone())
    };
    let given = g.output_node().and_then(|n| g.node(n).args().first()?.items().map(<[_]>::to_vec));
    let names: Vec<String> = given.unwrap_or_default().iter().map(name).collect();
    let shown = |i: usize| names.get(i).map_or("a result", String::as_str);
    let twice = (0..w.results.len())
        .find_map(|j| (0..j).find(|i| w.results[*i].storage().same(w.results[j].storage())).map(|i| (i, j)));
    let found = match (twice, w.results.iter().enumerate().find_map(|(i, t)| Some((of_input(t)?, i)))) {
        (Some((i, j)), _) => {
            format!("Output-to-output aliasing detected at nodes {} and {}", shown(i), shown(j))
        }
        (None, Some((input, i))) => {
            format!("Input-to-output aliasing detected at nodes {input} and {}", shown(i))
        }
        (None, None) => return Ok(w),
    };
    let graph: String = g.to_string().trim_end().lines().map(|l| format!("\n     {l}")).collect();
    Err(refused(
        "Encountered aliasing during higher order op tracing",
        "Higher order ops do not support aliasing. Found in cond",
        "Replace `input` as a result with `input.copy()` to avoid aliasing.",
        &format!("{found} in{graph}"),
    ))
}
/// Refuses branches that give other tensors.
pub(super) fn alike(pred: &Tensor, operands: &[Tensor], yes: &[Tensor], no: &[Tensor]) -> Result<()> {
    if yes.len() != no.len() {
        return Err(refused(
            "torch.cond: differing branch outputs",
            "Expected branches to return the same pytree structure.",
            "",
            &format!("{} tensors and {}", yes.len(), no.len()),
        ));
    }
    for (a, b) in yes.iter().zip(no) {
        let differ = |what: &str, a: String, b: String| {
            let all: Vec<String> = operands.iter().map(shown).collect();
            let comma = if all.len() == 1 { "," } else { "" };
            Err(Error::runtime(format!(
                "RuntimeError when making fake tensor call\n  Explanation: Dynamo failed to run FX node with fake tensors: \
                 call_function cond(*({}, GraphModule(), GraphModule(), ({}{comma})), **{{}}): got RuntimeError(\"When merging two \
                 branches' output in torch.cond,  expected same {what} but got {a} and {b}.\")",
                shown(pred),
                all.join(", ")
            )))
        };
        if a.dtype() != b.dtype() {
            return differ("dtype", a.dtype().to_string(), b.dtype().to_string());
        }
        if a.device() != b.device() {
            return differ("device", a.device().to_string(), b.device().to_string());
        }
        if a.sizes().len() != b.sizes().len() {
            return differ("dim", a.sizes().len().to_string(), b.sizes().len().to_string());
        }
        if a.sizes() != b.sizes() {
            return Err(Error::missing(format!(
                "a captured cond whose branches give other sizes, {:?} and {:?}, which is a size that depends on data",
                a.sizes(),
                b.sizes()
            )));
        }
    }
    Ok(())
}
