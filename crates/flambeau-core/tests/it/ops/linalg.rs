//! Inverses, determinants, exponentials of matrices, and norms over singular values.

use super::{near, t};
use flambeau_core::{ErrorKind, Value, ops};
use flambeau_library::call;

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

#[test]
fn nuclear_norms() {
    let x = t(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let by_name = |kw: &[(String, Value)]| call("torch.norm", &[(&x).into()], kw);
    let p = |s: &str| ("p".to_string(), Value::Str(s.into()));
    let want = 10.280_901_636_369_205;
    match &by_name(&[p("nuc")]).unwrap()[..] {
        [Value::Tensor(n)] => near(n, &[want]),
        other => panic!("{other:?}"),
    }
    assert_eq!(by_name(&[p("bad")]).unwrap_err().message(), "linalg.matrix_norm: Order bad not supported.");
    let y = ops::nuclear_norm_dim(&ops::unsqueeze(&x, 1).unwrap(), &[2, 0], true).unwrap();
    assert_eq!(y.sizes(), [1, 1, 1]);
    near(&y, &[want]);
    let nan = ops::nuclear_norm(&t(&[f64::NAN; 4], &[2, 2]), false).unwrap_err();
    assert!(nan.message().ends_with("contained non-finite values."));
}
