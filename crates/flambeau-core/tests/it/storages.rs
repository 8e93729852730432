//! `torch.FloatStorage` and the others.

use flambeau_core::{DType, ErrorKind, Scalar, TypedStorage, functions as torch};

#[test]
fn memory_is_shared_with_tensors() {
    let x = torch::arange(6).reshape([2, 3]);
    let s = TypedStorage::of(&x.select(0, 1));
    assert_eq!((s.size(), s.element_size(), s.dtype()), (6, 8, DType::I64));
    s.fill_(Scalar::Int(7)).unwrap();
    assert_eq!(x.to_vec::<i64>(), [7; 6]);
    let copy = s.try_clone().unwrap();
    s.fill_(Scalar::Int(1)).unwrap();
    assert_eq!(copy.tensor().unwrap().to_vec::<i64>(), [7; 6]);
    assert_eq!(copy.to(DType::F32).unwrap().tensor().unwrap().to_vec::<f32>(), [7.0; 6]);
}

#[test]
fn sizes_change() {
    let x = torch::ones([3]);
    let mut s = TypedStorage::of(&x);
    s.resize_(5).unwrap();
    assert_eq!((s.size(), x.to_vec::<f32>()), (5, vec![1.0; 3]));
    // the tensor relies on its memory
    assert_eq!(s.resize_(1).unwrap_err().kind(), ErrorKind::Missing);
    let mut own = TypedStorage::of(&torch::ones([3]));
    own.resize_(2).unwrap();
    assert_eq!(own.tensor().unwrap().to_vec::<f32>(), [1.0, 1.0]);
    assert_eq!(own.resize_(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(own.copy_(&TypedStorage::new(3, DType::F32).unwrap()).is_err());
}
