//! What is no nested tensor, and forged offsets.

use crate::layouts::{nested, t};
use flambeau_core::{Error, ErrorKind, Layout, Scalar, Tensor, ops};
use flambeau_nested::functions::*;
use flambeau_nn_functional::ops as nn;

#[track_caller]
fn says<T>(r: Result<T, Error>, kind: ErrorKind, text: &str) {
    let Err(e) = r else { panic!("no error: {text}") };
    assert_eq!((e.kind(), e.message()), (kind, text));
}
#[test]
fn constructors() {
    let jagged = NestedOptions::new().layout(Layout::Jagged);
    let (a, b) = (t(&[1.0, 2.0], &[2]), t(&[1.0, 2.0], &[1, 2]));
    says(
        try_nested_tensor(&[a.clone(), b.clone()], NestedOptions::new()),
        ErrorKind::Runtime,
        "All Tensors given to nested_tensor must have the same dimension. Found dimension 2 for Tensor at index 1 and \
         dimension 1 for Tensor at index 0.",
    );
    says(
        try_nested_tensor(&[a.clone(), b], jagged.clone()),
        ErrorKind::Runtime,
        "When constructing a nested tensor, all tensors in list must have the same dim",
    );
    says(
        try_nested_tensor(&[] as &[Tensor], jagged.clone()),
        ErrorKind::Runtime,
        "Cannot construct a nested tensor from an empty tensor list",
    );
    says(
        try_nested_tensor(&[a.clone()], NestedOptions::new().layout(Layout::SparseCoo)),
        ErrorKind::Runtime,
        "Specified layout is unsupported for nested tensors: torch.sparse_coo",
    );
    says(
        try_nested_tensor_from_jagged(&a, None, JaggedOptions::new()),
        ErrorKind::Runtime,
        "nested_tensor_from_jagged(): At least one of offsets or lengths is required.",
    );
    says(
        a.try_to_padded_tensor(0.0, None),
        ErrorKind::Unsupported,
        "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend.",
    );
}
#[test]
fn operators() {
    let (s, j) = (nested(Layout::Strided), nested(Layout::Jagged));
    says(
        ops::sum(&s, Some(&[1]), false, None),
        ErrorKind::Runtime,
        "NestedTensor can only be reduced across the last dimension for now got dimension 1 instead.",
    );
    says(
        nn::layer_norm(&s, &[3], None, None, 1e-5, true),
        ErrorKind::Value,
        "NestedTensor layer_norm requires weight and bias",
    );
    says(ops::transpose(&s, 0, 1), ErrorKind::Runtime, "Nested tensor dimension 0 cannot be transposed");
    says(ops::softmax(&s, 0, None), ErrorKind::Runtime, "Cannot apply softmax across nested dimension 0");
    says(
        ops::mul(&s, &t(&[1.0, 2.0], &[2])),
        ErrorKind::Runtime,
        "Expected both self and other to be nested, but got a nested self and non-nested other",
    );
    says(
        ops::erfinv_out(&s, &mut t(&[0.0], &[1])),
        ErrorKind::Unsupported,
        "Could not run 'aten::erfinv.out' with arguments from the 'NestedTensorCPU' backend.",
    );
    says(
        ops::sum(&j, Some(&[0]), false, None),
        ErrorKind::Runtime,
        "sum(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors",
    );
    says(
        ops::softmax(&j, 0, None),
        ErrorKind::Runtime,
        "softmax(): not supported when reducing across the batch dimension for NestedTensor",
    );
    says(ops::unsqueeze(&j, 0), ErrorKind::Runtime, "unsqueeze(): not supported for NestedTensor on dim=0");
    says(ops::flip(&j, &[2]), ErrorKind::Unsupported, "aten.flip.default");
    // both layouts at once
    assert!(ops::add(&j, &s, Scalar::Int(1)).is_err());
    // no memory of its own
    for x in [&s, &j] {
        assert!(x.try_to_vec::<f64>().is_err());
        assert!(x.try_elements::<f64>().is_err());
    }
}
/// Offsets and lengths are a user's and may be written later: whatever they say, rows beyond the values are errors.
#[test]
fn forged_offsets() {
    let values = t(&[1.0, 2.0, 3.0, 4.0], &[4]);
    for forged in
        [vec![0i64, 9, 4], vec![-3, 1, 4], vec![0, 3, 1], vec![i64::MIN, i64::MAX, 4], vec![0, i64::MAX, 4]]
    {
        let x = nested_tensor_from_jagged(&values, &Tensor::from_vec(forged.clone(), [3]));
        assert!(ops::unbind(&x, 0).is_err(), "{forged:?}");
        assert!(x.try_to_padded_tensor(0.0, None).is_err(), "{forged:?}");
        assert!(ops::softmax(&x, 1, None).is_err(), "{forged:?}");
        assert!(ops::sum(&x, Some(&[1]), false, None).is_err(), "{forged:?}");
        // elements alone need no offsets
        assert!(ops::neg(&x).is_ok());
    }
    let offsets = Tensor::from_vec(vec![0i64, 2, 4], [3]);
    let x = nested_tensor_from_jagged(&values, &offsets);
    ops::fill_(&offsets, Scalar::Int(77)).unwrap();
    assert!(ops::unbind(&x, 0).is_err());
    let lengths = Tensor::from_vec(vec![1i64, i64::MAX], [2]);
    let o = JaggedOptions::new().lengths(&lengths);
    assert!(
        try_nested_tensor_from_jagged(&values, Some(&Tensor::from_vec(vec![0i64, 2, 4], [3])), o).is_err()
    );
    // a length that nothing holds
    assert!(nested(Layout::Jagged).try_to_padded_tensor(0.0, Some(&[3, -1, 3])).is_err());
    assert!(nested(Layout::Jagged).try_to_padded_tensor(0.0, Some(&[3, i64::MAX, 3])).is_err());
}
