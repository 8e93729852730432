//! gradcheck on itself and on the rows of core's table; forward mode; the functional interface.

use flambeau_autograd::forward_ad::{dual_level, make_dual, unpack_dual};
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::functional::{hessian, hvp, jacobian, jvp, vjp};
use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck, try_gradgradcheck};
use flambeau_core::{Result, Tensor, ops};
use num_complex::Complex;

fn input(n: i64, sizes: &[i64]) -> Tensor {
    let count = sizes.iter().product::<i64>();
    let v: Vec<f64> = (0..count).map(|i| 0.3 + 0.7 * ((i * 7 + n * 3) % 11) as f64 / 3.0).collect();
    Tensor::from_slice(&v, sizes.to_vec()).requires_grad_(true)
}
fn complex(n: i64, sizes: &[i64]) -> Tensor {
    let count = sizes.iter().product::<i64>();
    let v: Vec<Complex<f64>> = (0..count)
        .map(|i| Complex::new(0.4 + (i * 5 + n) as f64 % 3.0, 0.2 - ((i + n) % 4) as f64 / 2.0))
        .collect();
    Tensor::from_slice(&v, sizes.to_vec()).requires_grad_(true)
}
fn all(f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    let o = GradcheckOptions::new().check_forward_ad(true);
    try_gradcheck(&f, inputs, o.clone()).unwrap();
    try_gradcheck(&f, inputs, GradcheckOptions::new().fast_mode(false)).unwrap();
    try_gradgradcheck(&f, inputs, None, GradcheckOptions::new()).unwrap();
}
fn one(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) {
    all(|a| Ok(vec![f(&a[0])?]), std::slice::from_ref(x));
}
fn two(f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>, x: &Tensor, y: &Tensor) {
    all(|a| Ok(vec![f(&a[0], &a[1])?]), &[x.clone(), y.clone()]);
}

#[test]
fn arithmetic() {
    for (x, y) in [
        (input(1, &[2, 3]), input(2, &[3])),
        (input(1, &[]), input(2, &[2])),
        (complex(1, &[3]), complex(2, &[2, 3])),
    ] {
        two(|x, y| ops::add(x, y, 2.into()), &x, &y);
        two(|x, y| ops::sub(x, y, 3.into()), &x, &y);
        two(ops::mul, &x, &y);
        two(ops::div, &x, &y);
        one(ops::neg, &x);
        one(ops::exp, &x);
    }
}
#[test]
fn real_and_complex_mixed() {
    two(ops::mul, &input(1, &[3]), &complex(2, &[3]));
    two(ops::div, &complex(1, &[2]), &input(2, &[2]));
}
#[test]
fn where_() {
    let mask = Tensor::from_slice(&[flambeau_core::B8::from(true), flambeau_core::B8::from(false)], [2]);
    two(|x, y| ops::where_(&mask, x, y), &input(1, &[3, 2]), &input(2, &[2]));
}
#[test]
fn reductions() {
    let x = input(1, &[2, 3]);
    one(|x| ops::sum(x, None, false, None), &x);
    one(|x| ops::sum(x, Some(&[1]), true, None), &x);
    one(|x| ops::sum(x, Some(&[-1]), false, None), &x);
    let distinct = Tensor::from_slice(&[1.0f64, 5.0, 3.0, 9.0, 2.0, 4.0], [2, 3]).requires_grad_(true);
    for (dim, keepdim) in [(1, false), (0, true)] {
        let f = |a: &[Tensor]| Ok(vec![ops::max_dim(&a[0], dim, keepdim)?.0]);
        let o = GradcheckOptions::new();
        try_gradcheck(f, std::slice::from_ref(&distinct), o.clone()).unwrap();
        try_gradgradcheck(f, std::slice::from_ref(&distinct), None, o.clone()).unwrap();
    }
}
#[test]
fn views() {
    let x = input(1, &[2, 3, 2]);
    one(|x| ops::view(x, &[3, 4]), &x);
    one(|x| ops::transpose(x, 0, 2), &x);
    one(|x| ops::permute(x, &[2, 0, 1]), &x);
    one(|x| ops::expand(&ops::unsqueeze(x, 1)?, &[2, 4, 3, 2], false), &x);
    one(|x| ops::select(x, 1, -1), &x);
    one(|x| ops::slice(x, 1, Some(0), Some(3), 2), &x);
    one(|x| ops::diagonal(x, 1, 0, 1), &x);
    one(|x| ops::unfold(x, 1, 2, 1), &x);
    one(|x| ops::as_strided(x, &[2, 2], &[1, 3], Some(2)), &x);
    one(|x| ops::as_strided(x, &[3, 3], &[1, 1], Some(0)), &x);
    all(|a| ops::unbind(&a[0], 1), std::slice::from_ref(&x));
    all(|a| ops::split(&a[0], 2, 1), std::slice::from_ref(&x));
    all(|a| ops::split_with_sizes(&a[0], &[1, 2], 1), std::slice::from_ref(&x));
    one(|x| ops::squeeze(&ops::unsqueeze(x, 1)?), &x);
    let c = complex(1, &[3]);
    one(ops::view_as_real, &c);
    one(|x| ops::mul(&ops::conj(x)?, x), &c);
    one(|x| ops::view_as_complex(&ops::view(x, &[6, 2])?), &x);
}
#[test]
fn copies_and_in_place() {
    let x = input(1, &[3]);
    one(|x| ops::clone(x, None), &x);
    two(
        |x, y| {
            let z = ops::clone(x, None)?;
            ops::mul_(&z, y)?;
            ops::add_(
                &ops::slice(&z, 0, Some(1), None, 1)?,
                &ops::slice(y, 0, Some(0), Some(2), 1)?,
                2.into(),
            )?;
            ops::exp_(&z)?;
            Ok(z)
        },
        &x,
        &input(2, &[3]),
    );
    two(
        |x, y| {
            let z = ops::clone(x, None)?;
            ops::copy_(&ops::select(&z, 0, 0)?, &ops::sum(y, None, false, None)?, false)?;
            Ok(z)
        },
        &x,
        &input(2, &[2]),
    );
}

struct WrongGradient;
impl Function for WrongGradient {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(&[&inputs[0]]);
        Ok(vec![ops::mul(&inputs[0], &inputs[0])?])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &ctx.saved_tensors()?[0];
        Ok(vec![grads[0].as_ref().map(|g| g * x)])
    }
}
#[test]
fn gradcheck_finds_wrong_gradients() {
    let f = |a: &[Tensor]| function::apply(WrongGradient, a);
    let x = input(1, &[3]);
    let e = try_gradcheck(f, std::slice::from_ref(&x), GradcheckOptions::new()).unwrap_err();
    assert!(e.message().contains("Jacobian mismatch for output 0 with respect to input 0"), "{e}");
    assert!(e.message().contains("numerical:"), "{e}");
    assert!(try_gradcheck(f, &[x], GradcheckOptions::new().fast_mode(false)).is_err());
    let y = Tensor::from_slice(&[1.0f64], [1]);
    assert!(try_gradcheck(|a| Ok(a.to_vec()), &[y], GradcheckOptions::new()).is_err());
}

#[test]
fn duals() {
    let level = dual_level().unwrap();
    assert!(dual_level().is_err());
    let x = Tensor::from_slice(&[2.0f64, 3.0], [2]);
    let t = Tensor::from_slice(&[1.0f64, 10.0], [2]);
    let d = make_dual(&x, &t).unwrap();
    let y = ops::mul(&d, &d).unwrap();
    let (primal, tangent) = unpack_dual(&y).unwrap();
    assert_eq!(primal.to_vec::<f64>(), [4.0, 9.0]);
    assert_eq!(tangent.unwrap().to_vec::<f64>(), [4.0, 60.0]);
    assert!(unpack_dual(&x).unwrap().1.is_none());
    assert!(make_dual(&d, &t).is_err());
    assert!(make_dual(&x, &Tensor::from_slice(&[1.0f64], [1])).is_err());
    drop(level);
    assert!(unpack_dual(&y).unwrap().1.is_none());
    assert!(make_dual(&x, &t).is_err());
}

#[test]
fn functional() {
    let f = |a: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![ops::mul(&ops::mul(&a[0], &a[0])?, &a[1])?]) };
    let x = Tensor::from_slice(&[1.0f64, 2.0], [2]);
    let y = Tensor::from_slice(&[3.0f64, 4.0], [2]);
    let both = [x.clone(), y.clone()];
    let j = jacobian(f, &both);
    assert_eq!(j[0][0].to_vec::<f64>(), [6.0, 0.0, 0.0, 16.0]);
    assert_eq!(j[0][1].to_vec::<f64>(), [1.0, 0.0, 0.0, 4.0]);
    let v = Tensor::from_slice(&[1.0f64, 10.0], [2]);
    let (_, g) = vjp(f, &both, Some(&[v.clone()]));
    assert_eq!((g[0].to_vec::<f64>(), g[1].to_vec::<f64>()), (vec![6.0, 160.0], vec![1.0, 40.0]));
    let (_, t) = jvp(f, &both, Some(&[v.clone(), v.clone()]));
    assert_eq!(t[0].to_vec::<f64>(), [7.0, 200.0]);
    let s = |a: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![ops::sum(&f(a)?[0], None, false, None)?]) };
    let h = hessian(s, &both);
    assert_eq!(h[0][0].to_vec::<f64>(), [6.0, 0.0, 0.0, 8.0]);
    assert_eq!(h[0][1].to_vec::<f64>(), [2.0, 0.0, 0.0, 4.0]);
    assert_eq!(h[1][1].to_vec::<f64>(), [0.0; 4]);
    let (_, p) = hvp(s, &[x.clone(), y], &[v.clone(), v]);
    assert_eq!((p[0].to_vec::<f64>(), p[1].to_vec::<f64>()), (vec![8.0, 120.0], vec![2.0, 40.0]));
    assert!(x.grad().is_none());
}

#[test]
fn compositions() {
    let x = Tensor::from_slice(&[1.0f64, 5.5, 3.0, 9.0, 2.0, 4.0], [2, 3]).requires_grad_(true);
    one(|x| ops::diff(x, 2, -1, None, Some(x)), &x);
    one(|x| ops::cov(x, 1, None, None), &x);
    one(|x| ops::renorm(x, 2.into(), 0, 7.into()), &x);
    one(|x| ops::linalg_vander(x, Some(3)), &x);
    one(|x| ops::diagonal_copy(x, 1, 0, 1), &x);
    one(|x| Ok(ops::unbind_copy(x, 1)?.swap_remove(2)), &x);
    one(|x| ops::pdist(x, 3.0), &x);
    two(|x, y| ops::cross(x, y, None), &x, &input(2, &[2, 3]));
    two(ops::fill_with, &x, &input(2, &[]));
    let o = GradcheckOptions::new();
    let far = Tensor::from_slice(&[-4.0f64, -7.0, -3.5], [1, 3]).requires_grad_(true);
    for p in [1.0, 2.0, 3.0] {
        let f = |a: &[Tensor]| Ok(vec![ops::cdist(&a[0], &a[1], p, None)?]);
        try_gradcheck(f, &[x.clone(), far.clone()], o.clone()).unwrap();
    }
}
#[test]
fn an_index_that_occurs_twice_fills_once() {
    let index = Tensor::from_slice(&[0i64, 2, 0], 3);
    two(|x, v| ops::index_fill_tensor(x, 0, &index, v), &input(1, &[3, 2]), &input(2, &[]));
}
#[test]
fn relu_passes_the_gradient_of_nan() {
    let x = Tensor::from_slice(&[f64::NAN, -1.0, 2.0], 3).requires_grad_(true);
    ops::relu(&x).unwrap().sum().backward();
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 0.0, 1.0]);
}
