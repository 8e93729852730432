//! The meta device foretells sizes, dtypes and strides.

use super::calls::*;
use super::layouts;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::Form;
use flambeau_test_support::alone;
use torch::__core::Value;
use torch::__core::internal::RawTensor as _;
use torch::{DType, Device, Tensor, ops};

fn geometry(v: &[Value], into: &mut Vec<String>) {
    for v in v {
        match v {
            // strides of no element are what they happen to be, in PyTorch too
            Value::Tensor(t) if t.numel() == 0 => into.push(format!("{:?} {}", t.sizes(), t.dtype())),
            Value::Tensor(t) => into.push(format!("{:?} {:?} {}", t.sizes(), t.strides(), t.dtype())),
            Value::List(l) | Value::Tuple(l) => geometry(l, into),
            // a number, known without data too
            other => into.push(other.type_name().to_string()),
        }
    }
}
fn on_meta(t: &Tensor) -> Tensor {
    let m = Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta).unwrap();
    if t.is_wrapped_number() { m.into_wrapped_number() } else { m }
}
/// Dimensions in reverse order in memory: what preserves strides shows it.
fn permuted(t: &Tensor) -> Tensor {
    let dims: Vec<i64> = (0..t.dim() as i64).rev().collect();
    ops::permute(&fresh(&ops::permute(t, &dims).unwrap()), &dims).unwrap()
}

#[test]
fn meta_foretells_results() {
    alone!();
    let mut l = Ledger::new("meta", "meta");
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        let device = s.op.info().schema.args.iter().position(|a| a.name == "device");
        let dtypes = [DType::F32, DType::C64, DType::I64, DType::Bool];
        for c in cases(s, &dtypes, &[Run::Positive, Run::ZeroDim, Run::Empty]) {
            for (how, f) in [
                ("dense", fresh as fn(&Tensor) -> Tensor),
                ("permuted", permuted),
                ("strided", layouts::strided),
            ] {
                let real = map_tensors(&c.args, &mut |t| f(t));
                let mut meta = map_tensors(&real, &mut on_meta);
                if tensors(&real).is_empty() {
                    let Some(i) = device else { continue };
                    meta[i] = Value::Device(Device::Meta);
                }
                let Outcome::Ok(want) = call(s, &real) else { continue };
                let verdict = match call(s, &meta) {
                    Outcome::Ok(got) => {
                        let (mut a, mut b) = (Vec::new(), Vec::new());
                        geometry(&want, &mut a);
                        geometry(&got, &mut b);
                        (a != b).then(|| format!("{a:?} against {b:?} on meta"))
                    }
                    other => Some(format!("no error against {} on meta", other.kind())),
                };
                l.note(s, &format!("{}, {how}", c.what), verdict);
            }
        }
    }
    l.finish(700);
}
