//! Contiguous, strided, expanded and offset tensors with the same elements give the same results.

use super::calls::*;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::Form;
use flambeau_test_support::alone;
use torch::__core::internal::RawTensor as _;
use torch::{DType, Tensor, ops};

/// The same elements with the first and last dimension exchanged in memory, every second element used.
pub fn strided(t: &Tensor) -> Tensor {
    if t.dim() == 0 {
        return offset(t);
    }
    let last = t.dim() as i64 - 1;
    let swapped = fresh(&ops::transpose(t, 0, last).unwrap());
    let pairs = ops::stack(&[swapped.clone(), swapped], -1).unwrap();
    ops::transpose(&ops::select(&pairs, -1, 0).unwrap(), 0, last).unwrap()
}
/// The same elements, densely, from the third element of a storage on.
pub fn offset(t: &Tensor) -> Tensor {
    let t = fresh(t);
    let all = Tensor::zeros_raw(&[t.numel() + 5], t.dtype(), t.device()).unwrap();
    let part = ops::narrow(&all, 0, 3, t.numel()).unwrap();
    let view = ops::view(&part, t.sizes()).unwrap();
    ops::copy_(&view, &t, false).unwrap();
    view
}
/// The same elements, conjugated twice: once in memory, once by the view's bit.
fn conjugated(t: &Tensor) -> Tensor {
    if !t.is_complex() {
        return fresh(t);
    }
    let c = ops::resolve_conj(&ops::conj(t).unwrap()).unwrap();
    ops::conj(&c).unwrap()
}
/// All along the first dimension equal, and one place of memory for them.
fn expanded(t: &Tensor) -> Tensor {
    if t.dim() == 0 || t.sizes()[0] < 2 {
        return t.clone();
    }
    ops::expand(&ops::narrow(t, 0, 0, 1).unwrap(), t.sizes(), false).unwrap()
}

#[test]
fn layouts_do_not_matter() {
    alone!();
    let mut l = Ledger::new("layouts", "layouts");
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        let same = if s.row.kind == "pointwise" { Same::Bits } else { Same::Close };
        for c in cases(s, &ALL, &[Run::Positive, Run::Signed]) {
            let plain = call(s, &own(s, &c.args));
            if matches!(plain, Outcome::Err(_)) {
                continue;
            }
            for (how, f) in [("strided", strided as fn(&Tensor) -> Tensor), ("offset", offset)] {
                let other = call(s, &map_tensors(&c.args, &mut |t| f(t)));
                l.note(s, &format!("{}, {how}", c.what), compare(&plain, &other, same));
            }
            // what is written must not share its elements
            if s.row.property_test.contains_key("statistics") {
                continue;
            }
            let mut i = 0;
            let wide = map_tensors(&c.args, &mut |t| {
                i += 1;
                if i == 1 && s.form == Form::Inplace { t.clone() } else { expanded(t) }
            });
            let dense = own(s, &map_tensors(&wide, &mut fresh));
            let verdict = compare(&call(s, &dense), &call(s, &own(s, &wide)), same);
            l.note(s, &format!("{}, expanded", c.what), verdict);
        }
    }
    l.finish(700);
}

/// A conjugated view is as good as the numbers that it stands for.
#[test]
fn conjugated_views_are_numbers() {
    alone!();
    let mut l = Ledger::new("conjugated views", "conjugated");
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        let same = if s.row.kind == "pointwise" { Same::Bits } else { Same::Close };
        for c in cases(s, &[DType::C128, DType::C64], &[Run::Positive, Run::Signed]) {
            if !tensors(&c.args).iter().any(Tensor::is_complex) {
                continue;
            }
            let plain = call(s, &own(s, &c.args));
            if matches!(plain, Outcome::Err(_)) {
                continue;
            }
            let other = call(s, &map_tensors(&c.args, &mut conjugated));
            l.note(s, &c.what, compare(&plain, &other, same));
        }
    }
    l.finish(400);
}
