//! Products that grow what they write.

use super::{near, t};
use flambeau_core::Value;
use flambeau_library::call;

#[test]
fn addbmm_grows_what_it_writes() {
    let ones = |s: &[i64]| t(&vec![1.0; s.iter().product::<i64>() as usize], s);
    let x = ones(&[4]);
    let r =
        call("torch.Tensor.addbmm_", &[(&x).into(), ones(&[2, 2, 3]).into(), ones(&[2, 3, 4]).into()], &[])
            .unwrap();
    match &r[..] {
        [Value::Tensor(r)] => {
            assert_eq!(r.sizes(), [2, 4]);
            near(r, &[7.0; 8]);
        }
        other => panic!("{other:?}"),
    }
}
