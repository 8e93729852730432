//! Datasets, datasets of datasets, and splits.

use crate::{generator, manual_seed, text};
use flambeau_core::{ErrorKind, Result, Tensor, functions as torch};
use flambeau_data::*;
use std::collections::BTreeMap;

#[test]
fn tensor_datasets() {
    let (x, y) = (torch::arange(6).reshape([3, 2]), torch::arange(3));
    let d = TensorDataset::new((x.clone(), y.clone()));
    assert_eq!((d.len(), d.is_empty()), (3, false));
    let same = TensorDataset::new((&x, &y));
    assert!(same.tensors().0.is_same(&x) && same.len() == 3);
    let (a, b) = d.get(2).unwrap();
    assert_eq!((a.to_vec::<i64>(), b.item::<i64>()), (vec![4, 5], 2));
    let e = text(d.get(3), ErrorKind::Index);
    assert_eq!(e, "index 3 is out of bounds for dimension 0 with size 3");
    // the way around single samples gives the same
    for indices in [vec![2, 0], vec![1, 1, 1], vec![0]] {
        let direct = d.collate_many(&indices).unwrap().unwrap();
        let stacked = default_collate(d.get_many(&indices).unwrap()).unwrap();
        assert!(torch::equal(&direct.0, &stacked.0) && torch::equal(&direct.1, &stacked.1));
    }
    assert!(d.collate_many(&[0, 3]).unwrap().is_err());
    let e = text(TensorDataset::try_new((x.clone(), torch::arange(4))), ErrorKind::Assertion);
    assert_eq!(e, "Size mismatch between tensors");
    assert!(TensorDataset::try_new(Vec::<Tensor>::new()).is_err());
    assert!(TensorDataset::try_new(torch::arange(3).select(0, 0)).is_err());
    assert_eq!(TensorDataset::new(x).get(1).unwrap().to_vec::<i64>(), [2, 3]);
    let transposed = TensorDataset::new([torch::arange(6).reshape([2, 3]).t(), y]);
    let [t, _] = transposed.collate_many(&[2, 1]).unwrap().unwrap();
    assert_eq!(t.to_vec::<i64>(), [2, 5, 1, 4]);
}

#[test]
fn datasets_of_datasets() {
    let subset = Subset::new(0..10i64, [5, 1, 9]);
    assert_eq!((subset.len(), subset.get(2).unwrap()), (3, 9));
    assert_eq!(subset.get_many(&[0, 1]).unwrap(), [5, 1]);
    assert_eq!(text(subset.get(3), ErrorKind::Index), "list index out of range");
    assert_eq!(text(Subset::new(0..2i64, [7]).get(0), ErrorKind::Index), "range object index out of range");

    let both = ConcatDataset::new([0..3i64, 10..10, 20..22]);
    let values: Vec<i64> = (0..both.len()).map(|i| both.get(i).unwrap()).collect();
    assert_eq!(values, [0, 1, 2, 20, 21]);
    assert_eq!(both.cumulative_sizes(), [3, 3, 5]);
    assert!(both.get(5).is_err());
    let boxed: Vec<Box<dyn Dataset<Item = i64>>> = vec![Box::new(0..2i64), Box::new(vec![7i64, 8])];
    assert_eq!(ConcatDataset::new(boxed).get(3).unwrap(), 8);
    let none = ConcatDataset::<Vec<i64>>::try_new([]);
    assert_eq!(text(none, ErrorKind::Assertion), "datasets should not be an empty iterable");

    let stack = StackDataset::new((0..3i64, vec!["a", "b", "c"]));
    assert_eq!(stack.get(1).unwrap(), (1, "b"));
    assert_eq!(stack.get_many(&[2, 0]).unwrap(), [(2, "c"), (0, "a")]);
    let named = StackDataset::new(BTreeMap::from([("x", 0..2i64), ("y", 5..7)]));
    assert_eq!(named.get(1).unwrap(), BTreeMap::from([("x", 1), ("y", 6)]));
    assert_eq!(named.get_many(&[1]).unwrap()[0]["y"], 6);
    assert_eq!(StackDataset::new(vec![0..2i64, 3..5]).get_many(&[1, 0]).unwrap(), [[1, 4], [0, 3]]);
    let e = text(StackDataset::try_new((0..3i64, 0..4i64)), ErrorKind::Value);
    assert_eq!(e, "Size mismatch between datasets");
    let e = text(StackDataset::try_new(Vec::<Vec<i64>>::new()), ErrorKind::Value);
    assert_eq!(e, "At least one dataset should be passed");
}

/// A dataset whose batches are too small.
struct Lossy;

impl Dataset for Lossy {
    type Item = i64;
    fn get(&self, i: usize) -> Result<i64> {
        Ok(i as i64)
    }
    fn len(&self) -> usize {
        4
    }
    fn get_many(&self, indices: &[usize]) -> Result<Vec<i64>> {
        Ok(vec![0; indices.len() - 1])
    }
}

#[test]
fn nested_sizes_are_checked() {
    let e = text(StackDataset::new((Lossy, 0..4i64)).get_many(&[0, 1]), ErrorKind::Value);
    assert_eq!(e, "Nested dataset's output size mismatch. Expected 2, got 1");
}

#[test]
fn splits() {
    flambeau_test_support::alone!();
    manual_seed(0);
    let parts = random_split(0..10i64, [3, 7]);
    assert_eq!(parts[0].indices(), [4, 1, 7]);
    let lengths = |total: i64, parts: &[f64]| {
        let parts = try_random_split(0..total, parts, RandomSplitOptions::new().generator(&generator(1)));
        parts.map(|p| p.iter().map(|s| s.len()).collect::<Vec<_>>())
    };
    assert_eq!(lengths(10, &[0.1, 0.2, 0.7]).unwrap(), [1, 2, 7]);
    assert_eq!(lengths(11, &[0.5, 0.5]).unwrap(), [6, 5]);
    assert_eq!(lengths(3, &[0.2; 5]).unwrap(), [1, 1, 1, 0, 0]);
    assert_eq!(lengths(7, &[1.0]).unwrap(), [7]);
    let sum = "Sum of input lengths does not equal the length of the input dataset!";
    assert_eq!(text(lengths(10, &[0.5, 0.6]), ErrorKind::Value), sum);
    assert_eq!(text(lengths(10, &[3.0, 6.0]), ErrorKind::Value), sum);
    let e = text(lengths(10, &[1.5, -0.5]), ErrorKind::Value);
    assert_eq!(e, "Fraction at index 0 is not between 0 and 1");
}
