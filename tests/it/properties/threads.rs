//! Two threads compute what one computes, bit for bit.

use super::calls::*;
use flambeau_test_rows::sample::{self, Run};
use flambeau_test_rows::table::Form;
use flambeau_test_support::alone;
use torch::__core::Value;
use torch::{DType, set_num_threads};

/// The sample with sizes multiplied so far that threads are worth waking; none where only its own sizes are valid.
fn large(s: &Subject, row: &toml::Table, d: DType) -> Option<Vec<Value>> {
    let args = s.op.info().schema.args;
    let small = sample::call(args, row, Run::Signed, 3);
    let sizes = tensors(&small.args);
    let scale = sizes.iter().filter(|t| t.dim() > 0 && t.numel() > 1).map(|t| {
        let rank = t.sizes().iter().filter(|n| **n > 1).count().max(1);
        (60_000.0 / t.numel() as f64).powf(1.0 / rank as f64) as i64
    });
    let mut scale = scale.min()?.max(1);
    // results may grow faster: as products of sizes, or of numbers of elements
    let twice = sample::scaled(args, row, Run::Signed, 3, 2);
    if let (Outcome::Ok(a), Outcome::Ok(b)) = (call(s, &own(s, &small.args)), call(s, &own(s, &twice.args))) {
        for (a, b) in tensors(&a).iter().zip(tensors(&b)).filter(|(a, b)| b.numel() > a.numel()) {
            let a = a.numel().max(1) as f64;
            let power = (b.numel() as f64 / a).log2();
            scale = scale.min((400_000.0 / a).powf(1.0 / power) as i64).max(1);
        }
    }
    let big = sample::scaled(args, row, Run::Signed, 3, scale);
    Some(map_tensors(&big.args, &mut |t| if t.dtype() == DType::F64 { cast(t, d) } else { t.clone() }))
}

#[test]
fn threads_change_nothing() {
    alone!();
    let mut l = Ledger::new("threads", "threads");
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        for (k, row) in &s.samples() {
            let Some(args) = large(s, row, DType::F32) else { continue };
            set_num_threads(1);
            let one = call(s, &own(s, &args));
            if matches!(one, Outcome::Err(_)) {
                continue;
            }
            set_num_threads(2);
            let two = call(s, &own(s, &args));
            l.note(s, &format!("sample {k}"), compare(&one, &two, Same::Bits));
        }
    }
    l.finish(600);
}
