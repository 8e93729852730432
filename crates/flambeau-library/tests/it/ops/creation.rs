//! Sequences.

use super::t;
use flambeau_core::{DType, Value, ops};
use flambeau_library::call;

#[test]
fn sequences_with_tensors_as_ends() {
    let ends = [Value::Tensor(t(&[4.3], &[])), Value::Float(0.0), Value::Int(1)];
    let r = call("torch.linspace", &ends, &[]).unwrap();
    assert!(matches!(&r[..], [Value::Tensor(t)] if t.to_vec::<f32>() == [4.3]));
    let ints = ops::linspace(0.into(), 7.into(), 50, Some(DType::I64), None, None, None).unwrap();
    assert_eq!(ints.to_vec::<i64>()[28], 4);
    let e = call("torch.linspace", &[Value::Tensor(t(&[1.0, 2.0], &[2])), Value::Int(1), Value::Int(3)], &[]);
    assert_eq!(
        e.unwrap_err().message(),
        "linspace only supports 0-dimensional start and end tensors, but got start with 1 dimension(s)."
    );
}
