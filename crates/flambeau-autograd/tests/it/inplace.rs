//! In-place operations: version checks, histories, views.

use flambeau_autograd::prelude::*;
use flambeau_autograd::{detect_anomaly, no_grad};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{BackwardOptions, Error, Tensor, ops};

fn leaf(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64]).requires_grad_(true)
}
fn g(t: &Tensor) -> Vec<f64> {
    t.grad().expect("a gradient").to_vec()
}
fn fails<T>(r: Result<T, Error>, text: &str) -> String {
    match r {
        Ok(_) => panic!("expected an error: {text}"),
        Err(e) => {
            assert!(e.message().contains(text), "{e}\nexpected: {text}");
            e.message().to_string()
        }
    }
}
fn total(t: &Tensor) -> Tensor {
    ops::sum(t, None, false, None).unwrap()
}
fn run(t: &Tensor) -> Result<(), Error> {
    total(t).try_backward(BackwardOptions::new())
}
fn add_one(t: &Tensor) -> Result<(), Error> {
    ops::add_(t, &Tensor::from_slice(&[1.0f64], [1]), 1.into())
}

#[test]
fn overwritten_saved_tensors_are_noticed() {
    let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0], [3]).requires_grad_(true);
    let y = &x + 1.0;
    let z = &y * &y;
    ops::add_(&y, &x, 1.into()).unwrap();
    let text = fails(
        run(&z),
        "one of the variables needed for gradient computation has been modified by an inplace operation: \
         [torch.FloatTensor [3]], which is output 0 of Add, is at version 1; expected version 0 instead. Hint: enable \
         anomaly detection",
    );
    assert!(
        text.contains("saved as 'other' for the gradient of Mul") || text.contains("saved as 'self'"),
        "{text}"
    );
    let (a, b) = (leaf(&[1.0]), Tensor::from_slice(&[2.0f64], [1]));
    let z = &a * &b;
    add_one(&b).unwrap();
    fails(run(&z), "[torch.DoubleTensor [1]] is at version 1; expected version 0 instead");
}

#[test]
fn anomaly_mode_names_the_place() {
    let text = detect_anomaly(|| {
        let x = leaf(&[1.0]);
        let y = &x + 1.0;
        let z = &y * &y;
        ops::add_(&y, &x, 1.into()).unwrap();
        fails(run(&z), "modified by an inplace operation")
    });
    assert!(text.contains("Forward call of MulBackward0") && text.contains("inplace.rs"), "{text}");
}

#[test]
fn overwritten_results_too() {
    let x = leaf(&[1.0]);
    let y = ops::exp(&x).unwrap();
    add_one(&y).unwrap();
    fails(
        run(&y),
        "modified by an inplace operation: [torch.DoubleTensor [1]], which is output 0 of Exp, is at version 1",
    );
}

#[test]
fn leaves_are_protected() {
    let x = leaf(&[1.0, 2.0]);
    fails(add_one(&x), "a leaf Variable that requires grad is being used in an in-place operation.");
    let v = ops::select(&x, 0, 0).unwrap();
    fails(
        ops::add_(&v, &v, 1.into()),
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
    );
    no_grad(|| add_one(&x)).unwrap();
    assert_eq!(x.to_vec::<f64>(), [2.0, 3.0]);
    assert!(x.is_leaf());
}

#[test]
fn histories_are_rewritten() {
    let x = leaf(&[2.0, 3.0]);
    let y = &x * 1.0;
    ops::mul_(&y, &x).unwrap();
    assert_eq!(y.grad_fn().unwrap().name(), "MulBackward0");
    ops::mul_(&y, &x).unwrap();
    run(&y).unwrap();
    assert_eq!(g(&x), [12.0, 27.0]);
}

#[test]
fn constants_become_part_of_a_graph() {
    let x = leaf(&[2.0, 3.0]);
    let buffer = Tensor::from_slice(&[0.0f64, 0.0, 0.0], [3]);
    let early = ops::slice(&buffer, 0, Some(0), Some(2), 1).unwrap();
    let part = ops::slice(&buffer, 0, Some(1), Some(3), 1).unwrap();
    ops::copy_(&part, &(&x * &x), false).unwrap();
    assert!(buffer.requires_grad() && part.requires_grad() && early.requires_grad());
    assert_eq!(buffer.grad_fn().unwrap().name(), "CopySlices");
    // a view made before the write sees it
    run(&(&early * 10.0)).unwrap();
    assert_eq!(g(&x), [40.0, 0.0]);
    x.set_grad(None);
}

#[test]
fn writes_through_views_reach_the_base() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = &x * 1.0;
    let v = ops::select(&y, 0, 1).unwrap();
    ops::mul_(&v, &Tensor::scalar_raw(10.0f64).unwrap()).unwrap();
    assert_eq!(y.to_vec::<f64>(), [1.0, 20.0, 3.0]);
    run(&(&y * &y)).unwrap();
    assert_eq!(g(&x), [2.0, 400.0, 6.0]);
}

#[test]
fn views_follow_their_base() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = &x * 1.0;
    let v = ops::slice(&y, 0, Some(0), Some(2), 1).unwrap();
    let w = ops::slice(&v, 0, Some(1), Some(2), 1).unwrap();
    ops::mul_(&y, &x).unwrap();
    assert_eq!(v.grad_fn().unwrap().name(), "AsStridedBackward0");
    total(&v).backward_with(BackwardOptions::new().retain_graph(true));
    assert_eq!(g(&x), [2.0, 4.0, 0.0]);
    x.set_grad(None);
    run(&w).unwrap();
    assert_eq!(g(&x), [0.0, 4.0, 0.0]);
}

/// Parts of complex numbers, pairs of real ones, conjugates: written through, and read after the base was written.
#[test]
fn views_of_other_dtypes() {
    let number = |re: f64, im: f64| Tensor::scalar_raw(num_complex::Complex::new(re, im)).unwrap();
    let parts = |x: &Tensor| {
        let half = |k| ops::slice(x, 0, Some(k), Some(k + 2), 1).unwrap();
        ops::complex(&half(0), &half(2)).unwrap()
    };
    let weigh = |t: &Tensor, w: &[f64]| {
        let w = Tensor::from_slice(w, [2, 2]);
        run(&(&ops::view_as_real(&ops::resolve_conj(t).unwrap()).unwrap() * &w)).unwrap();
    };
    let x = leaf(&[2.0, 3.0, 5.0, 7.0]);
    // the real part becomes its square
    let z = parts(&x);
    let re = ops::real(&z).unwrap();
    ops::mul_(&re, &re.detach().clone().contiguous()).unwrap();
    weigh(&z, &[1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(z.grad_fn().unwrap().name(), "CopySlices");
    assert_eq!(g(&x), [2.0, 300.0, 10.0, 1000.0]);
    x.set_grad(None);
    // conj(z) * (1 + 2i) is written: z becomes z * (1 - 2i), and its imaginary part is then tripled through the conjugate
    let z = parts(&x);
    let c = ops::conj(&z).unwrap();
    ops::mul_(&c, &number(1.0, 2.0)).unwrap();
    ops::mul_(&ops::imag(&c).unwrap(), &Tensor::scalar_raw(3.0f64).unwrap()).unwrap();
    assert_eq!(ops::real(&z).unwrap().to_vec::<f64>(), [12.0, 17.0]);
    assert_eq!(ops::imag(&z).unwrap().to_vec::<f64>(), [3.0, 3.0]);
    weigh(&z, &[1.0, 10.0, 100.0, 1000.0]);
    // re = a + 2 b, im = 3 (b - 2 a)
    assert_eq!(g(&x), [1.0 - 60.0, 100.0 - 6000.0, 2.0 + 30.0, 200.0 + 3000.0]);
    x.set_grad(None);
    // pairs of real numbers times i
    let y = ops::reshape(&(&x * 1.0), &[2, 2]).unwrap();
    ops::mul_(&ops::view_as_complex(&y).unwrap(), &number(0.0, 1.0)).unwrap();
    assert_eq!(y.to_vec::<f64>(), [-3.0, 2.0, -7.0, 5.0]);
    run(&(&y * &Tensor::from_slice(&[1.0, 10.0, 100.0, 1000.0], [2, 2]))).unwrap();
    assert_eq!(g(&x), [10.0, -1.0, 1000.0, -100.0]);
    x.set_grad(None);
    // views that were there before
    let z = parts(&x);
    let (re, im, c) =
        (ops::real(&z).unwrap(), ops::imag(&ops::conj(&z).unwrap()).unwrap(), ops::conj(&z).unwrap());
    ops::mul_(&z, &number(1.0, 2.0)).unwrap();
    run(&re).unwrap();
    assert_eq!(g(&x), [1.0, 1.0, -2.0, -2.0]);
    x.set_grad(None);
    let z = parts(&x);
    let early = ops::imag(&ops::conj(&z).unwrap()).unwrap();
    ops::mul_(&z, &number(1.0, 2.0)).unwrap();
    assert_eq!(early.to_vec::<f64>(), [-9.0, -13.0]);
    run(&early).unwrap();
    assert_eq!(g(&x), [-2.0, -2.0, -1.0, -1.0]);
    x.set_grad(None);
    drop((im, c));
    let y = ops::reshape(&(&x * 1.0), &[2, 2]).unwrap();
    let w = ops::view_as_complex(&y).unwrap();
    ops::mul_(&y, &ops::reshape(&x, &[2, 2]).unwrap()).unwrap();
    weigh(&w, &[1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(g(&x), [4.0, 60.0, 1000.0, 14000.0]);
}

#[test]
fn transposed_and_expanded_views() {
    let x = Tensor::from_slice(&[1.0f64, 2.0, 3.0, 4.0], [2, 2]).requires_grad_(true);
    let y = &x * 1.0;
    let t = ops::transpose(&y, 0, 1).unwrap();
    ops::mul_(&t, &x).unwrap();
    run(&y).unwrap();
    // y = x * x^T elementwise
    assert_eq!(g(&x), [2.0, 6.0, 4.0, 8.0]);
}

#[test]
fn ambiguous_views_are_refused() {
    let x = leaf(&[1.0, 2.0]);
    let y = &x * 1.0;
    let v = no_grad(|| ops::slice(&y, 0, Some(0), Some(1), 1)).unwrap();
    fails(
        ops::mul_(&v, &x.select_first()),
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
    );
    // such a view is a leaf: what is computed from it does not reach the base
    assert!(v.requires_grad() && v.is_leaf());
    run(&(&v * 2.0)).unwrap();
    assert_eq!((g(&v), x.grad().is_none()), (vec![2.0], true));
    let parts = ops::unbind(&y, 0).unwrap();
    fails(
        ops::mul_(&parts[0], &parts[1]),
        "Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that returns \
         multiple views.",
    );
}
trait First {
    fn select_first(&self) -> Tensor;
}
impl First for Tensor {
    fn select_first(&self) -> Tensor {
        ops::slice(self, 0, Some(0), Some(1), 1).unwrap()
    }
}

#[test]
fn filling_cuts_history() {
    let x = leaf(&[1.0, 2.0]);
    let y = &x * &x;
    let first = ops::select(&y, 0, 0).unwrap();
    ops::zero_(&first).unwrap();
    run(&y).unwrap();
    assert_eq!(g(&x), [0.0, 4.0]);
}

#[test]
fn second_order_through_a_view_write() {
    use flambeau_autograd::{GradOptions, grad};
    let x = leaf(&[1.0, 2.0]);
    let y = &x * &x;
    let v = ops::select(&y, 0, 1).unwrap();
    ops::mul_(&v, &ops::select(&x, 0, 0).unwrap()).unwrap();
    // x0^2 + x0 x1^2
    let d =
        grad(&[total(&y)], &[x.clone()], GradOptions::new().create_graph(true)).unwrap().remove(0).unwrap();
    assert_eq!(d.to_vec::<f64>(), [6.0, 4.0]);
    let d0 = ops::select(&d, 0, 0).unwrap();
    let h = grad(&[d0], &[x.clone()], GradOptions::new()).unwrap().remove(0).unwrap();
    assert_eq!(h.to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn geometry_in_place_is_recorded() {
    let x = Tensor::from_slice(&[1f64, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    x.requires_grad_(true);
    let leaf = x.clone().try_t_().unwrap_err();
    assert!(leaf.message().starts_with("a leaf Variable that requires grad"), "{leaf}");
    let part = ops::select(&x, 0, 0).unwrap().try_unsqueeze_(0).unwrap_err();
    assert!(part.message().starts_with("a view of a leaf Variable"), "{part}");
    assert!(x.clone().try_resize_(&[3], None).is_err());
    assert!(x.try_apply_(|v: f64| Ok(v)).is_err());
    let mut y = ops::mul(&x, &x).unwrap();
    y.t_();
    let w = Tensor::from_slice(&[1f64, 2.0], 2);
    ops::sum(&ops::mul(&y, &w).unwrap(), None, false, None).unwrap().backward();
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [2.0, 4.0, 6.0, 16.0, 20.0, 24.0]);
    let z = ops::mul(&x, &x).unwrap();
    z.polygamma_(1);
    assert!(z.requires_grad());
    ops::sum(&z, None, false, None).unwrap().backward();
}

#[test]
fn what_another_input_s_gradient_needs_is_kept() {
    let (x, e) = (Tensor::from_slice(&[1.0f64, 2.0], [2]), leaf(&[1.0, 3.0]));
    ops::ldexp_(&x, &e).unwrap();
    run(&x).unwrap();
    let ln_2 = std::f64::consts::LN_2;
    assert!(g(&e).iter().zip([2.0 * ln_2, 16.0 * ln_2]).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", g(&e));
}
