//! Unique values, and sorting and searching in rare dtypes.

use super::{call, of};
use flambeau_core::functions as f;
use flambeau_core::{DType, ErrorKind, Result, Tensor, Value, ops};
use flambeau_library as library;

#[test]
fn mixed_dtypes() {
    let (ints, truths) = (f::ones([1]).to(DType::I64), f::ones([1]).to(DType::Bool));
    let equal = |a: &Tensor, b: &Tensor| ops::equal(a, b);
    assert!(equal(&ints, &f::ones([1])).unwrap());
    assert!(equal(&truths, &ints).unwrap());
    assert!(equal(&f::ones([1]).to(DType::U16), &ints).is_err());
    // unsigned numbers above the signed range
    let big = Tensor::from_slice(&[u64::MAX, 1, 1 << 63], [3]);
    let (sorted, at) = ops::sort(&big, 0, false).unwrap();
    assert_eq!(sorted.to_vec::<u64>(), [1, 1 << 63, u64::MAX]);
    assert_eq!(at.to_vec::<i64>(), [1, 2, 0]);
    let kind = |r: Result<Tensor>| r.unwrap_err().kind();
    assert_eq!(kind(ops::topk(&truths, 1, 0, true, true).map(|r| r.0)), ErrorKind::Unsupported);
    assert_eq!(kind(ops::topk(&f::ones([1]).to(DType::C64), 1, 0, true, true).map(|r| r.0)), ErrorKind::Type);
    assert_eq!(kind(ops::isin(&truths, &truths, false, false)), ErrorKind::Unsupported);
    let found = call("torch.searchsorted", &[of(&truths), Value::Int(3)], &[]).unwrap();
    assert_eq!(found.dtype(), DType::I64);
    let r = library::call("torch.unravel_index", &[of(&ints.to(DType::I8)), Value::Int(4)], &[]).unwrap();
    let Some(Value::Tuple(parts)) = r.first() else { panic!("{r:?}") };
    assert!(matches!(&parts[0], Value::Tensor(t) if t.dtype() == DType::I64));
}
