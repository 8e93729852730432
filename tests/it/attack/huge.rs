//! Every operator with tensors of 2^33 to 2^40 elements that lie in no memory: all elements are one. A loop over so many elements
//! is long, as it is in PyTorch, and counts as an answer; an abort, a panic or an absurd allocation does not.

use crate::bad_input::plain;
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::time::Duration;
use torch::__core::dispatch::op::AnyOp;
use torch::__core::dispatch::registry;
use torch::__core::types::schema::Ty;
use torch::library::Value;
use torch::{DType, Result, Tensor, ops};

fn wide(sizes: &[i64], d: DType) -> Result<Tensor> {
    let one = ops::ones(&[1], Some(d), None, None, None)?;
    ops::expand(&ops::reshape(&one, &vec![1; sizes.len()])?, sizes, false)
}
fn small() -> Result<Tensor> {
    ops::ones(&[2, 2], None, None, None, None)
}
const WIDE: &[fn() -> Result<Tensor>] = &[
    || wide(&[1 << 40], DType::F32),
    || wide(&[1 << 36, 2], DType::F32),
    || wide(&[2, 1 << 36], DType::F64),
    || wide(&[1 << 18, 1 << 18], DType::F32),
    || wide(&[1, 2, 1 << 34, 2], DType::F32),
    || wide(&[1 << 40], DType::I64),
    || wide(&[1 << 20, 1 << 20], DType::I64),
    || wide(&[1 << 40], DType::Bool),
    || wide(&[1 << 36, 2, 2], DType::BF16),
    || wide(&[2, 1 << 33, 2], DType::C64),
];

struct Plan(&'static dyn AnyOp, usize, Option<usize>);

#[test]
#[ignore = "long: loops over 2^40 elements are stopped one by one"]
fn every_operator_of_tensors_in_no_memory() {
    let mut all = Vec::new();
    for &op in registry::crates().iter().flat_map(|c| c.ops) {
        let args = op.info().schema.args;
        let takes = |at: &usize| {
            matches!(args[*at].ty, Ty::Tensor | Ty::OptTensor | Ty::TensorList | Ty::OptTensorList)
        };
        let places: Vec<usize> = (0..args.len()).filter(takes).collect();
        if places.is_empty() {
            continue;
        }
        for w in 0..WIDE.len() {
            all.extend(places.iter().map(|at| Plan(op, w, Some(*at))));
            if places.len() > 1 {
                all.push(Plan(op, w, None));
            }
        }
    }
    Calls {
        test: here!(),
        count: all.len(),
        name: &|i| format!("aten::{} wide {} at {:?}", all[i].0.info().name, all[i].1, all[i].2),
        run: &|i| {
            let Plan(op, w, at) = &all[i];
            let one = |(here, a): (usize, &torch::__core::types::schema::Arg)| {
                let wide = at.is_none_or(|at| at == here);
                match (wide, a.ty) {
                    (true, Ty::OptTensor) => Ok(Value::Tensor(WIDE[*w]()?)),
                    (true, _) => plain(a, WIDE[*w]),
                    _ => plain(a, small),
                }
            };
            let Ok(values) = op.info().schema.args.iter().enumerate().map(one).collect::<Result<Vec<_>>>()
            else {
                return None;
            };
            match op.call_boxed(&values) {
                Err(e) if e.message().is_empty() => Some("an error without a text".into()),
                _ => None,
            }
        },
    }
    .judge_but_for_long_loops(Duration::from_secs(3));
}
