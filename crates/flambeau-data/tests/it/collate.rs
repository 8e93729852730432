//! Batches from samples.

use crate::text;
use flambeau_core::{ErrorKind, Tensor};
use flambeau_data::*;
use std::collections::HashMap;

#[test]
fn collation() {
    let t = |v: f32| Tensor::from_slice(&[v, v], 2);
    assert_eq!(default_collate(vec![t(1.0), t(2.0)]).unwrap().to_vec::<f32>(), [1.0, 1.0, 2.0, 2.0]);
    let floats = default_collate(vec![1.5f64, 2.0]).unwrap();
    assert_eq!((floats.dtype(), floats.to_vec::<f64>()), (flambeau_core::DType::F64, vec![1.5, 2.0]));
    assert_eq!(default_collate(vec![true, false]).unwrap().dtype(), flambeau_core::DType::Bool);
    assert_eq!(default_collate(vec![3usize]).unwrap().to_vec::<i64>(), [3]);
    assert_eq!(default_collate(vec!["a", "b"]).unwrap(), ["a", "b"]);
    let (n, s) = default_collate(vec![(1i64, "x".to_string()), (2, "y".to_string())]).unwrap();
    assert_eq!((n.to_vec::<i64>(), s), (vec![1, 2], vec!["x".to_string(), "y".to_string()]));
    let lists = default_collate(vec![vec![1i32, 2, 3], vec![4, 5, 6]]).unwrap();
    assert_eq!(lists.iter().map(|t| t.to_vec::<i32>()).collect::<Vec<_>>(), [[1, 4], [2, 5], [3, 6]]);
    let [a, b] = default_collate(vec![[1i64, 2], [3, 4]]).unwrap();
    assert_eq!((a.to_vec::<i64>(), b.to_vec::<i64>()), (vec![1, 3], vec![2, 4]));
    let map = |a: i64, b: i64| HashMap::from([("A", a), ("B", b)]);
    let maps = default_collate(vec![map(0, 1), map(100, 100)]).unwrap();
    assert_eq!(maps["B"].to_vec::<i64>(), [1, 100]);
    assert_eq!(default_convert((1, "a")), (1, "a"));

    let ragged = default_collate(vec![vec![1i64], vec![1, 2]]);
    assert_eq!(text(ragged, ErrorKind::Runtime), "each element in list of batch should be of equal size");
    let sizes = default_collate(vec![t(1.0), Tensor::from_slice(&[1f32], 1)]);
    let e = "stack expects each tensor to be equal size, but got [2] at entry 0 and [1] at entry 1";
    assert_eq!(text(sizes, ErrorKind::Runtime), e);
    let keys = default_collate(vec![map(0, 1), HashMap::from([("A", 1)])]);
    assert_eq!(text(keys, ErrorKind::Index), "KeyError: \"B\"");
    assert!(default_collate(Vec::<i64>::new()).is_err());
}

#[derive(Collate)]
struct Sample {
    image: Tensor,
    label: i64,
    name: &'static str,
}

#[test]
fn derived_collation() {
    let d: Vec<i64> = vec![0, 1, 2];
    let loader = DataLoaderOptions::new(d)
        .batch_size(2)
        .collate_fn(|labels| {
            let image = |l: i64| Tensor::from_slice(&[l as f32; 4], [2, 2]);
            default_collate(
                labels.into_iter().map(|label| Sample { image: image(label), label, name: "n" }).collect(),
            )
        })
        .build();
    let batch = loader.iter().next().unwrap();
    assert_eq!(batch.image.shape(), [2, 2, 2]);
    assert_eq!((batch.label.to_vec::<i64>(), batch.name), (vec![0, 1], vec!["n", "n"]));
}
