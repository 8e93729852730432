//! Infinities, NaN, the ends of the ranges and zeros of both signs are numbers like others: nothing panics, and where an
//! element stands does not matter to it.

use super::calls::*;
use super::layouts;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::Form;
use flambeau_test_support::alone;
use num_complex::Complex;
use torch::__core::Value;
use torch::__core::internal::RawTensor as _;
use torch::{DType, Tensor, ops};

const NUMBERS: [f64; 23] = [
    0.0,
    f64::INFINITY,
    1.0,
    f64::NEG_INFINITY,
    -1.0,
    f64::NAN,
    0.5,
    -0.0,
    800.0,
    -800.0,
    2.5,
    1e300,
    -1e300,
    3.0e38,
    -3.0e38,
    1e-40,
    5e-324,
    -2.0,
    65504.0,
    88.9,
    -103.5,
    1e-7,
    7.0,
];

/// The tensor's sizes filled with extremes, another order for each argument.
fn extreme(t: &Tensor, start: usize) -> Tensor {
    let at = |i: usize| NUMBERS[(i * 5 + start * 7) % NUMBERS.len()];
    let n = t.numel() as usize;
    match t.dtype() {
        d if d.is_complex() => {
            let v: Vec<Complex<f64>> = (0..n).map(|i| Complex::new(at(i), at(i * 3 + 1))).collect();
            cast(&Tensor::from_vec_raw(v, t.sizes()).unwrap(), d)
        }
        d if d.is_floating() => cast(&Tensor::from_vec_raw((0..n).map(at).collect(), t.sizes()).unwrap(), d),
        DType::Bool => t.clone(),
        d => {
            let ends = [i64::MAX, i64::MIN, 0, -1, 1, 127, -128, 255, 65536, 2];
            let v = (0..n).map(|i| ends[(i * 3 + start) % ends.len()]).collect();
            cast(&Tensor::from_vec_raw(v, t.sizes()).unwrap(), d)
        }
    }
}
/// Every floating tensor filled with extremes.
fn extremes(args: &[Value]) -> Vec<Value> {
    let mut i = 0;
    map_tensors(args, &mut |t| {
        i += 1;
        if t.dtype().is_floating() || t.dtype().is_complex() { extreme(t, i) } else { t.clone() }
    })
}

#[test]
fn extremes_are_numbers() {
    alone!();
    // probabilities beyond 1 are refused whatever the layout
    // what is drawn in the order of memory is no other here
    let mut l = Ledger::new("extremes", "layouts");
    l.lenient();
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        let same = if s.row.kind == "pointwise" { Same::Bits } else { Same::Close };
        for c in cases(s, &[DType::F64, DType::F32, DType::BF16, DType::C64], &[Run::Positive]) {
            let args = extremes(&c.args);
            let plain = call(s, &own(s, &args));
            let other = call(s, &map_tensors(&args, &mut layouts::strided));
            l.note(s, &c.what, compare(&plain, &other, same));
        }
        for c in cases(s, &ALL, &[Run::ZeroDim, Run::Empty]) {
            let bad = match call(s, &own(s, &c.args)) {
                Outcome::Panic(e) => Some(format!("a panic ({e})")),
                _ => None,
            };
            l.note(s, &c.what, bad);
        }
    }
    l.finish(700);
}

/// An element of a long vector is computed as if it were alone.
#[test]
fn elements_know_nothing_of_their_neighbours() {
    alone!();
    // more than the widest vectors hold, and a rest
    const LONG: i64 = 37;
    let mut l = Ledger::new("elements alone", "elements");
    for s in subjects().iter().filter(|s| s.form == Form::Plain && s.row.kind == "pointwise") {
        for c in cases(s, &ALL, &[Run::Positive]) {
            let mut i = 0;
            let long = map_tensors(&c.args, &mut |t| {
                i += 1;
                let times = LONG / t.numel().max(1) + 1;
                let flat = ops::repeat(&ops::reshape(t, &[-1]).unwrap(), &[times]).unwrap();
                extreme(&ops::narrow(&flat, 0, 0, LONG).unwrap(), i)
            });
            let Outcome::Ok(all) = call(s, &long) else { continue };
            let all = tensors(&all);
            let mut alone: Vec<Vec<Tensor>> = vec![Vec::new(); all.len()];
            for k in 0..LONG {
                let one = map_tensors(&long, &mut |t| ops::narrow(t, 0, k, 1).unwrap());
                match call(s, &one) {
                    Outcome::Ok(r) => {
                        tensors(&r).into_iter().zip(&mut alone).for_each(|(t, a)| a.push(t));
                    }
                    other => l.note(s, &format!("{}, element {k}", c.what), Some(other.kind())),
                }
            }
            let verdict = all.iter().zip(&alone).find_map(|(all, alone)| {
                let why = differ(all, &ops::cat(alone, 0).unwrap(), Same::Bits)?;
                Some(format!("{why}, of arguments {}", tensors(&long)[0]))
            });
            l.note(s, &c.what, verdict);
        }
    }
    l.finish(150);
}
