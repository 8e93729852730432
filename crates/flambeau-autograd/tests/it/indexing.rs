//! Gradients of the indexing operators against finite differences.

use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck};
use flambeau_core::api::literal::{tensor, tensor_with};
use flambeau_core::{DType, Result, Scalar, Slice, Tensor, ops};

fn values(n: i64, sizes: &[i64]) -> Tensor {
    let v: Vec<f64> = (0..n).map(|i| ((i * 37 + 11) % 23) as f64 / 7.0 - 1.3).collect();
    Tensor::from_vec(v, sizes)
}
#[track_caller]
fn check(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let leaves: Vec<Tensor> =
        inputs.iter().map(|t| tensor_with(t.to_vec::<f64>(), DType::F64).view(t.sizes())).collect();
    for t in &leaves {
        t.requires_grad_(true);
    }
    if let Err(e) = try_gradcheck(|x| Ok(vec![f(x)?]), &leaves, GradcheckOptions::new().fast_mode(false)) {
        panic!("{name}: {e}");
    }
}

#[test]
fn formulas() {
    // no value occurs twice: ties have no derivative
    let all = values(20, &[5, 4]);
    let (x, s, row) = (all.i(0..3), all.i(3..5), values(4, &[4]));
    let idx = tensor([[0, 2, 1, 0], [2, 2, 0, 1]]);
    let v = tensor([2, 0]);
    let mask = tensor([[true, false, true, false], [false, false, true, true], [true, true, false, false]]);
    let at = [Some(tensor([0, 2])), None];
    let one = Scalar::Int(1);
    check("index", &[x.clone()], |a| ops::index(&a[0], &at));
    for acc in [false, true] {
        check("index_put", &[x.clone(), row.clone()], |a| ops::index_put(&a[0], &at, &a[1], acc));
        check("put", &[x.clone(), values(2, &[2])], |a| ops::put(&a[0], &v, &a[1], acc));
    }
    check("gather", &[x.clone()], |a| ops::gather(&a[0], 0, &idx, false));
    let distinct = tensor([[0, 2, 1, 0], [2, 1, 0, 1]]);
    check("scatter", &[x.clone(), s.clone()], |a| ops::scatter(&a[0], 0, &distinct, &a[1]));
    check("scatter_value", &[x.clone()], |a| ops::scatter_value(&a[0], 0, &idx, one));
    check("scatter_add", &[x.clone(), s.clone()], |a| ops::scatter_add(&a[0], 0, &idx, &a[1]));
    for how in ["sum", "prod", "mean", "amax", "amin"] {
        for own in [true, false] {
            check(how, &[x.clone(), s.clone()], |a| ops::scatter_reduce(&a[0], 0, &idx, &a[1], how, own));
            if how != "sum" {
                check(how, &[x.clone(), s.clone()], |a| ops::index_reduce(&a[0], 0, &v, &a[1], how, own));
            }
        }
    }
    check("index_select", &[x.clone()], |a| ops::index_select(&a[0], 0, &v));
    check("index_add", &[x.clone(), s.clone()], |a| ops::index_add(&a[0], 0, &v, &a[1], Scalar::Int(3)));
    check("index_copy", &[x.clone(), s.clone()], |a| ops::index_copy(&a[0], 0, &v, &a[1]));
    check("index_fill", &[x.clone(), values(1, &[])], |a| ops::index_fill_tensor(&a[0], 0, &v, &a[1]));
    check("masked_select", &[x.clone()], |a| ops::masked_select(&a[0], &mask));
    check("masked_fill", &[x.clone(), values(1, &[])], |a| ops::masked_fill_tensor(&a[0], &mask, &a[1]));
    check("masked_scatter", &[x.clone(), s.clone()], |a| ops::masked_scatter(&a[0], &mask, &a[1]));
    check("take", &[x.clone()], |a| ops::take(&a[0], &idx));
    check("select_scatter", &[x.clone(), row], |a| ops::select_scatter(&a[0], &a[1], 0, 1));
    check("slice_scatter", &[x.clone(), s], |a| ops::slice_scatter(&a[0], &a[1], 0, Some(1), None, 1));
    check("diagonal_scatter", &[x.clone(), values(3, &[3])], |a| {
        ops::diagonal_scatter(&a[0], &a[1], 0, 0, 1)
    });
    check("assignment", &[x.clone(), values(2, &[2])], |a| {
        let y = ops::clone(&a[0], None)?;
        y.try_set_i((1, Slice::step(2)), &a[1])?;
        y.try_set_i((&tensor([0, 2]), -1), &a[1])?;
        y.try_i((.., &tensor([0, 3, 3])))
    });
}
