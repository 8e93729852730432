//! A gradient that exists in float32 exists in the narrower dtypes too, where the forward call does, and is finite in bfloat16,
//! whose range is float32's.

use super::calls::*;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::{self, Form};
use flambeau_test_support::alone;
use torch::__core::Value;
use torch::__core::dispatch::op::Differentiability;
use torch::autograd::{GradOptions, try_grad};
use torch::{DType, Tensor};

/// The gradients of the sum of all results, or none where the call itself is refused or nothing depends on its arguments.
fn gradients(s: &'static Subject, args: &[Value]) -> Option<Result<Vec<Option<Tensor>>, String>> {
    let mut leaves = Vec::new();
    let args = map_tensors(args, &mut |t| {
        if !t.dtype().is_floating() {
            return t.clone();
        }
        let leaf = fresh(t).requires_grad_(true);
        leaves.push(leaf.clone());
        leaf
    });
    let Outcome::Ok(results) = call(s, &args) else { return None };
    let outputs: Vec<Tensor> = tensors(&results).into_iter().filter(|t| t.requires_grad()).collect();
    if outputs.is_empty() {
        return None;
    }
    let ones: Vec<_> = outputs.iter().map(|t| Some(torch::ones_like(t))).collect();
    let options = || GradOptions::new().grad_outputs(ones.clone()).allow_unused(true);
    let run = || try_grad(&outputs, &leaves, options());
    Some(match table::unwinding(run) {
        Err(e) => Err(format!("a panic ({e})")),
        Ok(Err(e)) => Err(format!("an error ({e})")),
        Ok(Ok(g)) => Ok(g),
    })
}
fn finite(g: &[Option<Tensor>]) -> bool {
    g.iter().flatten().all(|t| t.isfinite().all().item::<bool>())
}

#[test]
fn narrow_gradients_exist() {
    alone!();
    let mut l = Ledger::new("narrow gradients", "gradients");
    let differentiable =
        |s: &&'static Subject| s.form == Form::Plain && s.op.info().grad != Differentiability::None;
    for s in subjects().iter().filter(differentiable) {
        let of = |d: DType| cases(s, &[d], &[Run::Positive, Run::Signed]);
        for wide in of(DType::F32).iter() {
            let Some(Ok(exact)) = gradients(s, &wide.args) else { continue };
            for narrow in [DType::BF16, DType::F16] {
                let args = map_tensors(&wide.args, &mut |t| {
                    if t.dtype() == DType::F32 { cast(t, narrow) } else { t.clone() }
                });
                let Some(got) = gradients(s, &args) else { continue };
                let wrong = match got {
                    Err(e) => Some(e),
                    Ok(g) if narrow == DType::BF16 && finite(&exact) && !finite(&g) => {
                        Some("infinite or NaN, float32's is not".into())
                    }
                    Ok(_) => None,
                };
                l.note(s, &format!("{}, {}", wide.what, narrow.name()), wrong);
            }
        }
    }
    l.finish(300);
}
