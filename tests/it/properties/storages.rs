//! Tensors of one storage are as good as tensors with storages of their own, and arguments are only read.

use super::calls::*;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::Form;
use flambeau_test_support::alone;
use torch::__core::internal::RawTensor as _;
use torch::__core::types::schema::Ty;
use torch::{DType, Tensor, ops};

/// All tensors of a dtype one after the other in one storage.
fn in_one_storage(args: &[torch::__core::Value]) -> Vec<torch::__core::Value> {
    let all = tensors(args);
    let dtypes: std::collections::BTreeSet<u8> = all.iter().map(|t| t.dtype() as u8).collect();
    let mut homes: Vec<(DType, Tensor, i64)> = Vec::new();
    for d in dtypes {
        let of: Vec<&Tensor> = all.iter().filter(|t| t.dtype() as u8 == d).collect();
        let n: i64 = of.iter().map(|t| t.numel()).sum();
        homes.push((of[0].dtype(), Tensor::zeros_raw(&[n], of[0].dtype(), of[0].device()).unwrap(), 0));
    }
    map_tensors(args, &mut |t| {
        let (_, home, at) = homes.iter_mut().find(|h| h.0 == t.dtype()).unwrap();
        let part = ops::view(&ops::narrow(home, 0, *at, t.numel()).unwrap(), t.sizes()).unwrap();
        *at += t.numel();
        ops::copy_(&part, t, false).unwrap();
        part
    })
}
/// Arguments of the same sizes and dtype are one tensor (`f(x, x)`), or copies of it.
fn one_tensor(args: &[torch::__core::Value], copies: bool) -> Vec<torch::__core::Value> {
    let mut seen: Vec<Tensor> = Vec::new();
    map_tensors(args, &mut |t| match seen.iter().find(|s| (s.sizes(), s.dtype()) == (t.sizes(), t.dtype())) {
        Some(s) if copies => fresh(s),
        Some(s) => s.clone(),
        None => {
            let t = fresh(t);
            seen.push(t.clone());
            t
        }
    })
}

#[test]
fn shared_storage_changes_nothing() {
    alone!();
    let mut l = Ledger::new("storages", "storages");
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        for c in cases(s, &[DType::F64, DType::C64, DType::I32], &[Run::Positive, Run::Signed]) {
            let plain = call(s, &own(s, &c.args));
            if !matches!(plain, Outcome::Ok(_)) {
                continue;
            }
            let shared = in_one_storage(&c.args);
            let got = call(s, &shared);
            l.note(s, &format!("{}, one storage", c.what), compare(&plain, &got, Same::Bits));
            let written: Vec<usize> = s.mutated().collect();
            let read = (0..c.args.len()).filter(|i| !written.contains(i)).find_map(|i| {
                let (a, b) = (&c.args[i..=i], &shared[i..=i]);
                differ_all(a, b, Same::Bits).map(|w| format!("argument {i} was written: {w}"))
            });
            l.note(s, &c.what, read);
            // a tensor that stands twice in a list that is written is written twice, as in PyTorch
            if s.op.info().schema.args.iter().any(|a| a.mutated && a.ty == Ty::TensorList) {
                continue;
            }
            let apart = call(s, &one_tensor(&c.args, true));
            let verdict = match (&apart, call(s, &one_tensor(&c.args, false))) {
                // PyTorch refuses where a write would be seen by later reads
                (_, Outcome::Err(e)) if s.form == Form::Inplace && e.contains("unsupported operation") => {
                    None
                }
                (a, b) => compare(a, &b, Same::Bits),
            };
            l.note(s, &format!("{}, one tensor", c.what), verdict);
        }
    }
    l.finish(700);
}
