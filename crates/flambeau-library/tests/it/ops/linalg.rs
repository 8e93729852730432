//! Inverses, determinants, exponentials of matrices, and norms over singular values.

use super::{near, t};
use flambeau_core::{Value, ops};
use flambeau_library::call;

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
