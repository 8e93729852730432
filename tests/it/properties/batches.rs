//! vmap of an operator is the same as its calls slice by slice, wherever the hidden dimension stands.

use super::calls::*;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::{self, Form};
use flambeau_test_support::alone;
use torch::__core::Value;
use torch::__core::tensor::generator;
use torch::func::{Randomness, VmapOptions, try_vmap};
use torch::{DType, Tensor, ops};

/// How many slices.
const N: i64 = 3;

/// Slices of a tensor: the tensor, and others of its sizes whose elements are from the tensor, in another order.
fn slices(t: &Tensor) -> Vec<Tensor> {
    let flat = ops::reshape(t, &[-1]).unwrap();
    (0..N)
        .map(|i| {
            let other = if flat.numel() > 1 && !t.is_complex() && t.dtype() != DType::I64 {
                ops::roll(&flat, &[i], &[0]).unwrap()
            } else {
                flat.clone()
            };
            fresh(&ops::reshape(&other, t.sizes()).unwrap())
        })
        .collect()
}
/// The arguments with slice `i` of those tensors that have slices.
fn slice(args: &[Value], all: &[Option<Vec<Tensor>>], i: usize) -> Vec<Value> {
    let mut k = 0;
    map_tensors(args, &mut |t| {
        k += 1;
        all[k - 1].as_ref().map_or_else(|| fresh(t), |s| fresh(&s[i]))
    })
}
fn results(s: &Subject, v: Outcome, args: &[Value]) -> Result<Vec<Tensor>, String> {
    match v {
        Outcome::Ok(r) if s.form == Form::Inplace => {
            let _ = r;
            Ok(s.mutated().flat_map(|i| tensors(&args[i..=i])).collect())
        }
        Outcome::Ok(r) => Ok(tensors(&r)),
        Outcome::Err(e) => Err(e),
        Outcome::Panic(e) => Err(format!("panic: {e}")),
    }
}

/// What operators say whose arguments must lie in some way.
const STRIDES: [&str; 4] = [
    "to be contiguous",
    "view size is not compatible",
    "last dimension with stride 1",
    "self.stride(-1) must be 1",
];

#[test]
fn vmap_is_the_stacked_loop() {
    alone!();
    let mut l = Ledger::new("vmap", "vmap");
    l.lenient();
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        for c in cases(s, &[DType::F64], &[Run::Positive]) {
            let given = tensors(&c.args);
            if given.is_empty() {
                continue;
            }
            let written: Vec<bool> = {
                let mut w = Vec::new();
                for (i, v) in c.args.iter().enumerate() {
                    let here = tensors(std::slice::from_ref(v)).len();
                    w.extend(std::iter::repeat_n(s.mutated().any(|m| m == i), here));
                }
                w
            };
            // all tensors have slices, or each alone
            let mut choices: Vec<Vec<bool>> = vec![vec![true; given.len()]];
            if given.len() > 1 {
                choices.extend(
                    (0..given.len()).map(|k| (0..given.len()).map(|j| j == k || written[j]).collect()),
                );
            }
            for chosen in choices {
                let all: Vec<Option<Vec<Tensor>>> =
                    given.iter().zip(&chosen).map(|(t, on)| on.then(|| slices(t))).collect();
                let mut each = Vec::new();
                for i in 0..N as usize {
                    let args = slice(&c.args, &all, i);
                    each.push(results(s, call(s, &args), &args));
                }
                let Ok(each) = each.into_iter().collect::<Result<Vec<_>, _>>() else { continue };
                if each.iter().any(|r| r.iter().zip(&each[0]).any(|(a, b)| a.sizes() != b.sizes())) {
                    continue;
                }
                let deepest =
                    given.iter().zip(&chosen).filter(|(_, on)| **on).map(|(t, _)| t.dim()).max().unwrap_or(0);
                for at in 0..=deepest {
                    let (mut inputs, mut dims) = (Vec::new(), Vec::new());
                    for (t, s) in given.iter().zip(&all) {
                        match s {
                            Some(s) => {
                                let d = at.min(t.dim()) as i64;
                                inputs.push(ops::stack(s, d).unwrap());
                                dims.push(Some(d));
                            }
                            None => {
                                inputs.push(fresh(t));
                                dims.push(None);
                            }
                        }
                    }
                    let f = |ts: &Vec<Tensor>| -> torch::Result<Vec<Tensor>> {
                        let mut ts = ts.iter();
                        let args =
                            map_tensors(&c.args, &mut |t| ts.next().cloned().unwrap_or_else(|| t.clone()));
                        let r = s.op.call_boxed(&args)?;
                        if s.form == Form::Inplace {
                            return Ok(s.mutated().flat_map(|i| tensors(&args[i..=i])).collect());
                        }
                        Ok(tensors(&r))
                    };
                    let o = VmapOptions::new().in_dims(dims.clone()).randomness(Randomness::Same);
                    let got = table::unwinding(|| {
                        generator::manual_seed(7);
                        try_vmap(f, o)(&inputs)
                    });
                    let wrong = match got {
                        Err(p) => Some(format!("a panic: {p}")),
                        // what cannot be: PyTorch's refusals, which name vmap
                        Ok(Err(e)) if e.message().to_lowercase().contains("vmap") => None,
                        Ok(Err(e)) if e.message().contains("has no batching rule") => None,
                        Ok(Err(e)) if e.message().contains("Batch norm got a batched") => None,
                        // slices of what was stacked in a later place lie otherwise than what was stacked
                        Ok(Err(e)) if at > 0 && STRIDES.iter().any(|s| e.message().contains(s)) => None,
                        Ok(Err(e)) => Some(format!("an error: {e}")),
                        Ok(Ok(got)) => {
                            let want: Vec<Value> = (0..each[0].len())
                                .map(|k| {
                                    let parts: Vec<Tensor> = each.iter().map(|r| r[k].clone()).collect();
                                    Value::Tensor(ops::stack(&parts, 0).unwrap())
                                })
                                .collect();
                            let got: Vec<Value> = got.into_iter().map(Value::Tensor).collect();
                            differ_all(&got, &want, Same::Close)
                        }
                    };
                    l.note(s, &format!("{}, {chosen:?} at {at}", c.what), wrong);
                }
            }
        }
    }
    l.finish(1100);
}
