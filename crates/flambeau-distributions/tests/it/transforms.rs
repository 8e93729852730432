use flambeau_core::tensor::generator::manual_seed;
use flambeau_core::{Tensor, ops};
use flambeau_distributions::transforms::*;
use flambeau_distributions::{Normal, constraints};
use std::sync::Arc;

fn all() -> Vec<(AnyTransform, Vec<i64>)> {
    let number = |t: AnyTransform| (t, vec![4]);
    vec![
        number(ExpTransform.into()),
        number(SigmoidTransform.into()),
        number(SoftplusTransform.into()),
        number(TanhTransform.into()),
        number(AffineTransform::new(0.5, -2.0).into()),
        number(ComposeTransform::new([AffineTransform::new(0.5, 2.0).into(), ExpTransform.into()]).into()),
        number(CumulativeDistributionTransform::new(Arc::new(Normal::new(0.0, 1.0))).into()),
        number(ComposeTransform::new([ExpTransform.into(), PowerTransform::new(2.0).into()]).into()),
        (StickBreakingTransform.into(), vec![4]),
        (CorrCholeskyTransform.into(), vec![6]),
        (ReshapeTransform::new([4], [2, 2]).into(), vec![4]),
        (IndependentTransform::new(ExpTransform, 1).into(), vec![4]),
        (
            CatTransform::try_new(vec![ExpTransform.into(), TanhTransform.into()], 0, Some(vec![1, 3]))
                .unwrap()
                .into(),
            vec![4],
        ),
        (StackTransform::new([ExpTransform.into(), TanhTransform.into()], 0).into(), vec![2, 3]),
    ]
}
fn draw(shape: &[i64]) -> Tensor {
    manual_seed(5);
    let x = ops::randn(shape, None, Some(flambeau_core::DType::F64), None, None, None).unwrap();
    ops::mul(&x, &Tensor::from_slice(&[0.7f64], [1])).unwrap()
}
#[test]
fn short_forms_are_those_that_give_errors() {
    flambeau_test_support::alone!();
    for (t, shape) in all() {
        let x = draw(&shape);
        let y = t.call(&x);
        assert!(ops::equal(&y, &t.try_call(&x).unwrap()).unwrap(), "{t:?}");
        assert!(ops::equal(&t.inv(&y), &t.try_inverse(&y).unwrap()).unwrap(), "{t:?}");
        if t.bijective() {
            let want = t.try_log_abs_det_jacobian(&x, &y).unwrap();
            assert!(ops::equal(&t.log_abs_det_jacobian(&x, &y), &want).unwrap(), "{t:?}");
        }
    }
}
#[test]
fn inverses_give_the_input_back() {
    flambeau_test_support::alone!();
    for (t, shape) in all() {
        let x = draw(&shape);
        let y = t.try_call(&x).unwrap();
        assert_eq!(y.sizes(), t.try_forward_shape(&shape).unwrap(), "{t:?}");
        assert_eq!(shape, t.try_inverse_shape(y.sizes()).unwrap(), "{t:?}");
        let back = inverse(&t).try_call(&y).unwrap();
        for (a, b) in back.to_vec::<f64>().iter().zip(x.to_vec::<f64>()) {
            assert!((a - b).abs() < 1e-6, "{t:?}: {a} for {b}");
        }
        assert!(
            same(&*inverse(&inverse(&t)), &*t) || t.downcast_ref::<ComposeTransform>().is_some(),
            "{t:?}"
        );
        let inside = t.try_codomain().unwrap().try_check(&y).unwrap();
        assert!(ops::all(&inside).unwrap().item::<bool>(), "{t:?}: outside of its codomain");
    }
}
/// The log determinant of numbers' maps beside differences.
#[test]
fn jacobians_are_those_of_differences() {
    flambeau_test_support::alone!();
    for (t, shape) in all().into_iter().take(8) {
        let x = draw(&shape);
        let y = t.try_call(&x).unwrap();
        let j = t.try_log_abs_det_jacobian(&x, &y).unwrap().to_vec::<f64>();
        let h = Tensor::from_slice(&[1e-6f64], [1]);
        let up = t.try_call(&ops::add(&x, &h, 1.into()).unwrap()).unwrap().to_vec::<f64>();
        let down = t.try_call(&ops::sub(&x, &h, 1.into()).unwrap()).unwrap().to_vec::<f64>();
        for i in 0..j.len() {
            let slope = ((up[i] - down[i]) / 2e-6).abs().ln();
            assert!((slope - j[i]).abs() < 1e-4, "{t:?}: {} for {slope}", j[i]);
        }
    }
}
#[test]
fn a_cached_transform_gives_its_very_input() {
    let t = with_cache(&TanhTransform.into(), 1);
    let x = Tensor::from_slice(&[30.0f64], [1]);
    let y = t.try_call(&x).unwrap();
    // the inverse of tanh(30) = 1 is infinite
    assert_eq!(inverse(&t).try_call(&y).unwrap().to_vec::<f64>(), [30.0]);
    let plain = with_cache(&t, 0);
    assert_eq!(inverse(&plain).try_call(&y).unwrap().to_vec::<f64>(), [f64::INFINITY]);
    assert!(same(&*t, &*plain) && try_with_cache(&t, 2).is_err());
}
#[test]
fn constrained_numbers_satisfy_their_constraint() {
    flambeau_test_support::alone!();
    use flambeau_distributions::{biject_to, transform_to};
    let x = draw(&[3]);
    for c in [
        constraints::positive(),
        constraints::nonnegative(),
        constraints::less_than(-2.0),
        constraints::interval(-3.0, 7.5),
        constraints::simplex(),
        constraints::corr_cholesky(),
        constraints::unit_interval(),
    ] {
        for t in [biject_to(&c), transform_to(&c)] {
            let y = t.try_call(&x).unwrap();
            assert!(ops::all(&c.check(&y)).unwrap().item::<bool>(), "{c}: {t:?}");
        }
    }
}
