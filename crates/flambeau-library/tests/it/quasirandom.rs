//! Quasi-random points by name.

use flambeau_core::Value;
use flambeau_library::{call_value, method, repr};

#[test]
fn by_name() {
    let args = [Value::Int(2), Value::Bool(true), Value::Int(3)];
    let e = call_value("torch.quasirandom.SobolEngine", &args, &[]).unwrap();
    assert_eq!(repr(&e).unwrap(), "SobolEngine(dimension=2, scramble=True, seed=3)");
    let x = method(&e, "draw", &[Value::Int(4)], &[]).unwrap();
    assert!(matches!(&x, Value::Tensor(t) if t.sizes() == [4, 2]));
}
