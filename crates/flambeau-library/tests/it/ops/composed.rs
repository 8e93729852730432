//! Differences, combinations, covariances, products, distances, and strided scatters.

use super::{call, floats, of};
use flambeau_core::{Tensor, Value, ops};

#[test]
fn as_strided_scatter_counts_from_the_start_of_the_memory() {
    let base = Tensor::from_slice(&[0f32, 1., 2., 3., 4., 5., 6., 7.], [8]);
    let x = ops::slice(&base, 0, Some(1), None, 2).unwrap();
    let scatter = |stride: i64, offset: Value| {
        let list = |v: i64| Value::Tuple(vec![Value::Int(v)]);
        let args = [of(&x), of(&floats(&[10., 20.])), list(2), list(stride), offset];
        call("torch.as_strided_scatter", &args, &[]).unwrap().to_vec::<f32>()
    };
    assert_eq!(scatter(2, Value::None), [10., 20., 5., 7.]);
    assert_eq!(scatter(3, Value::Int(0)), [1., 20., 5., 7.]);
    assert_eq!(base.to_vec::<f32>(), [0., 1., 2., 3., 4., 5., 6., 7.]);
}
