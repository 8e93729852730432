//! Operators at sizes over five decades. `growth.py` has the same.

use crate::input::{fill, ints};
use crate::row::{Body, Rows};
use serde_json::Value;
use torch::nn::functional as F;
use torch::prelude::*;

/// Sides of squares, and operators with what they move and compute for an element.
const LIST: &str = include_str!("../growth.json");

/// Of a side: inputs of its square's size, and the call.
type Make = fn(i64) -> Box<dyn Body>;

fn flat(side: i64, seed: u32) -> Tensor {
    fill([side * side], seed)
}
fn square(side: i64, seed: u32) -> Tensor {
    fill([side, side], seed)
}
fn unary(x: Tensor, f: impl Fn(&Tensor) -> Tensor + 'static) -> Box<dyn Body> {
    Box::new(move || f(&x))
}

const OPERATORS: &[(&str, Make)] = &[
    ("add", |s| {
        let b = flat(s, 2);
        unary(flat(s, 1), move |a| a + &b)
    }),
    ("sum", |s| unary(flat(s, 1), |x| x.sum())),
    ("sum_rows", |s| unary(square(s, 1), |x| x.sum_dim(1, false))),
    ("sum_columns", |s| unary(square(s, 1), |x| x.sum_dim(0, false))),
    ("softmax", |s| unary(square(s, 1), |x| x.softmax(-1))),
    ("matmul", |s| {
        let b = square(s, 2);
        unary(square(s, 1), move |a| a.matmul(&b))
    }),
    ("conv", |s| {
        let side = (s / 4).max(3);
        let w = fill([16, 16, 3, 3], 2);
        unary(fill([1, 16, side, side], 1), move |x| {
            F::conv2d_with(x, &w, torch::options::Conv2dOptions::new().padding(1))
        })
    }),
    ("sort", |s| {
        let x = flat(s, 1);
        Box::new(move || <(Tensor, Tensor)>::from(x.sort(-1, false)))
    }),
    ("gather", |s| {
        let i = ints([s * s], (s * s) as u32, 2);
        unary(flat(s, 1), move |x| x.gather(0, &i))
    }),
    ("index_add", |s| {
        let (i, y) = (ints([s], s as u32, 2), square(s, 3));
        unary(square(s, 1), move |x| x.index_add(0, &i, &y))
    }),
    ("cat", |s| {
        let half = s * s / 2;
        let both = [fill([half], 1), fill([half], 2)];
        Box::new(move || torch::cat(&both, 0))
    }),
    ("copy_transposed", |s| unary(square(s, 1), |x| x.t().contiguous())),
    ("randn", |s| Box::new(move || torch::randn(s * s))),
];

/// All operators at all sizes, `OPERATOR@ELEMENTS`; those that the list has and this program has not are errors.
pub fn rows() -> Result<Rows, String> {
    let list: Value = serde_json::from_str(LIST).map_err(|e| format!("growth.json: {e}"))?;
    let none = Vec::new();
    let items = |key: &str| list[key].as_array().unwrap_or(&none).clone();
    let mut rows = Rows::default();
    for o in items("operators") {
        let name = o["op"].as_str().unwrap_or_default();
        let make =
            OPERATORS.iter().find(|o| o.0 == name).ok_or(format!("growth.json: {name} is not here"))?.1;
        for side in items("sides").iter().filter_map(Value::as_i64) {
            rows.boxed(format!("{name}@{}", side * side), move || make(side)).no_grad().no_check();
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_and_list_agree() {
        let rows = rows().unwrap();
        assert_eq!(rows.0.len(), OPERATORS.len() * 11);
        assert!(rows.get("add@100").is_some() && rows.get("matmul@9998244").is_some());
    }
}
