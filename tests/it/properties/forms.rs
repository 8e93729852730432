//! Functional, in-place and `out=` forms of one operator agree.

use super::calls::*;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::{self, Form};
use flambeau_test_support::alone;
use torch::__core::Value;
use torch::__core::internal::RawTensor as _;
use torch::__core::iter::promotion::can_cast;
use torch::{DType, Tensor, ops};

/// The functional form with the same arguments.
fn functional(s: &Subject) -> Option<&'static Subject> {
    if s.form == Form::Out {
        let name = table::out_of(s.op)?;
        return subjects().iter().find(|o| o.name() == name);
    }
    let base = |n: &'static str| n.split('.').next().unwrap_or(n);
    let want = base(s.name()).strip_suffix('_')?;
    let args = s.op.info().schema.args;
    subjects().iter().find(|o| {
        let theirs = o.op.info().schema.args;
        o.form == Form::Plain
            && base(o.name()) == want
            && theirs.len() == args.len()
            && theirs.iter().zip(args).all(|(a, b)| (a.name, a.ty) == (b.name, b.ty))
    })
}

#[test]
fn in_place_is_functional() {
    alone!();
    let mut l = Ledger::new("in place", "in_place");
    for s in subjects().iter().filter(|s| s.form == Form::Inplace) {
        let Some(plain) = functional(s) else { continue };
        for c in cases(s, &ALL, &[Run::Positive, Run::Signed, Run::ZeroDim, Run::Empty]) {
            let args = own(s, &c.args);
            let Outcome::Ok(want) = call(plain, &c.args) else {
                let bad = matches!(call(s, &args), Outcome::Panic(_));
                l.note(s, &c.what, bad.then(|| "a panic".to_string()));
                continue;
            };
            let (Some(Value::Tensor(own)), Some(Value::Tensor(want))) = (args.first(), want.first()) else {
                continue;
            };
            let fits = own.sizes() == want.sizes() && can_cast(want.dtype(), own.dtype());
            let sizes = own.sizes().to_vec();
            let verdict = match call(s, &args) {
                Outcome::Ok(_) if !fits && own.sizes() == sizes && !can_cast(want.dtype(), own.dtype()) => {
                    Some(format!("{} written into {}", want.dtype(), own.dtype()))
                }
                Outcome::Ok(got) => {
                    let Some(Value::Tensor(got)) = got.first() else { continue };
                    let kept = got.storage().same(own.storage());
                    let why = differ(&cast(want, got.dtype()), got, Same::Bits);
                    why.or_else(|| (!kept).then(|| "returns another tensor".to_string()))
                }
                Outcome::Err(_) if !fits => None,
                other => Some(format!("{} in place", other.kind())),
            };
            l.note(s, &c.what, verdict);
        }
    }
    l.finish(130);
}

/// Memory of the right sizes, every second element used, in another order than usual.
fn odd(t: &Tensor) -> Tensor {
    let mut sizes: Vec<i64> = t.sizes().iter().rev().copied().collect();
    sizes.push(2);
    let all = Tensor::zeros_raw(&sizes, t.dtype(), t.device()).unwrap();
    let dims: Vec<i64> = (0..t.dim() as i64).rev().collect();
    ops::permute(&ops::select(&all, -1, 1).unwrap(), &dims).unwrap()
}

#[test]
fn out_is_functional() {
    alone!();
    let mut l = Ledger::new("out", "out");
    for s in subjects().iter().filter(|s| s.form == Form::Out) {
        let Some(plain) = functional(s) else { continue };
        let n = s.mutated().count();
        for c in cases(plain, &ALL, &[Run::Positive, Run::Signed, Run::ZeroDim, Run::Empty]) {
            let Outcome::Ok(want) = call(plain, &c.args) else {
                let mut args = c.args.clone();
                args.extend((0..n).map(|_| Value::Tensor(torch::zeros([0]))));
                let bad = matches!(call(s, &args), Outcome::Panic(_));
                l.note(s, &c.what, bad.then(|| "a panic".to_string()));
                continue;
            };
            let want = tensors(&want);
            if want.len() != n {
                continue;
            }
            let with = |make: &dyn Fn(&Tensor) -> Tensor| {
                let outs: Vec<Tensor> = want.iter().map(make).collect();
                let mut args = c.args.clone();
                args.extend(outs.iter().map(Value::from));
                (outs, call(s, &args))
            };
            let check = |(outs, got): (Vec<Tensor>, Outcome), resized: bool| match got {
                Outcome::Ok(got) => tensors(&got).iter().zip(&want).zip(&outs).find_map(|((g, w), o)| {
                    let why = differ(w, g, Same::Bits);
                    let why = why.or_else(|| {
                        (resized && w.is_contiguous() != g.is_contiguous() && w.numel() > 0)
                            .then(|| format!("strides {:?} against {:?}", w.strides(), g.strides()))
                    });
                    let kept = resized || g.strides() == o.strides() && g.storage().same(o.storage());
                    why.or_else(|| (!kept).then(|| "out was replaced".to_string()))
                }),
                other => Some(other.kind()),
            };
            let empty = |t: &Tensor| Tensor::zeros_raw(&[0], t.dtype(), t.device()).unwrap();
            l.note(s, &format!("{}, resized", c.what), check(with(&empty), true));
            l.note(s, &format!("{}, strided", c.what), check(with(&odd), false));
            // a result that does not fit the dtype of `out`
            let narrow = |t: &Tensor| {
                let d = if t.dtype().is_complex() { DType::F32 } else { DType::I64 };
                Tensor::zeros_raw(t.sizes(), d, t.device()).unwrap()
            };
            if want.iter().any(|t| !can_cast(t.dtype(), narrow(t).dtype())) {
                let why = match with(&narrow).1 {
                    Outcome::Err(_) => None,
                    other => Some(other.kind()),
                };
                l.note(s, &format!("{}, out of another kind", c.what), why);
            }
        }
    }
    l.finish(200);
}
