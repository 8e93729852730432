//! Inverses, determinants, exponentials of matrices, and norms over singular values.

use super::{near, t};
use flambeau_core::{ErrorKind, ops};

#[test]
fn inverses_determinants_and_exponentials() {
    let a = t(&[2.0, 1.0, 1.0, 3.0], &[2, 2]);
    near(&ops::matrix_power(&a, -2).unwrap(), &[0.4, -0.2, -0.2, 0.2]);
    let none = t(&[1.0, 2.0, 2.0, 4.0], &[1, 2, 2]);
    let e = ops::linalg_inv(&none).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Linalg);
    assert_eq!(
        e.message(),
        "linalg.inv: (Batch element 0): The diagonal element 2 is zero, the inversion could not be completed because the \
         input matrix is singular."
    );
    assert_eq!(ops::linalg_inv_ex(&none, false).unwrap().1.to_vec::<i32>(), [2]);
    let (sign, log) = ops::slogdet(&t(&[0.0, 2.0, 3.0, 4.0], &[2, 2])).unwrap();
    near(&sign, &[-1.0]);
    near(&log, &[6f64.ln()]);
    near(&ops::logdet(&t(&[0.0, 2.0, 3.0, 4.0], &[2, 2])).unwrap(), &[f64::NAN]);
    // a turn by one radian, and a matrix that is halved five times; each by its own norm
    let m = t(&[0.0, 1.0, -1.0, 0.0, 3.0, 1.0, 0.0, -30.0], &[2, 2, 2]);
    let (c, s, big) = (1f64.cos(), 1f64.sin(), 3f64.exp());
    let got = ops::matrix_exp(&m).unwrap();
    near(&got, &[c, s, -s, c, big, (big - (-30f64).exp()) / 33.0, 0.0, (-30f64).exp()]);
    assert_eq!(ops::matrix_exp(&t(&[], &[3, 0, 0])).unwrap().sizes(), [3, 0, 0]);
}
