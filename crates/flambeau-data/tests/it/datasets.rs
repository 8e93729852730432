//! Datasets, samplers and the loader. Orders are PyTorch's: some recorded here, many more from a live PyTorch where
//! FLAMBEAU_PYTHON has one.

#[path = "data/live.rs"]
mod live;
#[path = "data/loader.rs"]
mod loader;

use flambeau_core::{ErrorKind, Generator, Result, Tensor, functions as torch};
use flambeau_data::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

/// The default generator is one for all tests of the process.
fn seeded(seed: u64) -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock().unwrap_or_else(|e| e.into_inner());
    flambeau_core::generator::manual_seed(seed);
    guard
}
fn generator(seed: u64) -> Generator {
    let g = Generator::new();
    g.manual_seed(seed);
    g
}
fn text<T>(r: Result<T>, kind: ErrorKind) -> String {
    match r {
        Ok(_) => panic!("no error"),
        Err(e) => {
            assert_eq!(e.kind(), kind, "{e}");
            e.message().to_string()
        }
    }
}
fn all<S: Sampler>(s: &S) -> Vec<S::Index> {
    s.iter().collect()
}

#[test]
fn tensor_datasets() {
    let (x, y) = (torch::arange(6).reshape([3, 2]), torch::arange(3));
    let d = TensorDataset::new((x.clone(), y.clone()));
    assert_eq!((d.len(), d.is_empty()), (3, false));
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
    let _seed = seeded(0);
    let parts = random_split(0..10i64, [3, 7]);
    assert_eq!(parts[0].indices(), [4, 1, 7]);
    let lengths = |total: i64, parts: &[f64]| {
        let parts = try_random_split(0..total, parts, Some(&generator(1)));
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

#[test]
fn samplers() {
    let _seed = seeded(0);
    assert_eq!(all(&SequentialSampler::new(3)), [0, 1, 2]);
    assert_eq!(all(&RandomSampler::new(&(0..5i64))), [1, 3, 4, 2, 0]);
    let s = RandomSamplerOptions::new(3).num_samples(8).generator(&generator(2)).build();
    let drawn = all(&s);
    assert_eq!((drawn.len(), s.length()), (8, Some(8)));
    for pass in [&drawn[..3], &drawn[3..6]] {
        let mut sorted = pass.to_vec();
        sorted.sort();
        assert_eq!(sorted, [0, 1, 2]);
    }
    let mut sorted = all(&SubsetRandomSampler::new([7, 9, 8]));
    sorted.sort();
    assert_eq!(sorted, [7, 8, 9]);
    let heavy = WeightedRandomSampler::new([0.0, 1.0, 0.0], 5);
    assert_eq!(all(&heavy), [1; 5]);
    let batches = BatchSampler::new(vec![4, 5, 6], 2, false);
    assert_eq!((all(&batches), batches.length()), (vec![vec![4, 5], vec![6]], Some(2)));
    let batches = BatchSampler::new(vec![4, 5, 6], 2, true);
    assert_eq!((all(&batches), batches.length()), (vec![vec![4, 5]], Some(1)));

    let positive = "num_samples should be a positive integer value, but got num_samples=0";
    assert_eq!(text(RandomSamplerOptions::new(0).try_build(), ErrorKind::Value), positive);
    assert_eq!(text(RandomSamplerOptions::new(3).num_samples(0).try_build(), ErrorKind::Value), positive);
    assert_eq!(text(WeightedRandomSamplerOptions::new([1.0], 0).try_build(), ErrorKind::Value), positive);
    let e = text(BatchSampler::try_new(vec![1], 0, false), ErrorKind::Value);
    assert_eq!(e, "batch_size should be a positive integer value, but got batch_size=0");
    let few = WeightedRandomSamplerOptions::new([1.0], 2).replacement(false).build();
    assert!(few.indices().next().unwrap().is_err());
    let mut broken = RandomSamplerOptions::new(0).num_samples(1).build().indices().collect::<Vec<_>>();
    assert!(broken.len() == 1 && broken.remove(0).is_err());
}

#[test]
fn distributed() {
    let part = |n: usize, replicas, rank, drop| {
        all(&DistributedSamplerOptions::new(n, replicas, rank).shuffle(false).drop_last(drop).build())
    };
    assert_eq!(part(5, 2, 1, true), [1, 3]);
    // more processes than samples: everything again and again
    assert_eq!((0..5).map(|r| part(2, 5, r, false)[0]).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    assert_eq!(part(2, 5, 0, true), [0; 0]);
    let s = std::sync::Arc::new(DistributedSampler::new(10, 2, 0));
    let first = all(&s);
    assert_eq!(all(&s), first);
    s.set_epoch(1);
    assert_ne!(all(&s), first);
    assert_eq!(s.length(), Some(5));
    let e = text(DistributedSamplerOptions::new(3, 2, 2).try_build(), ErrorKind::Value);
    assert_eq!(e, "Invalid rank 2, rank should be in the interval [0, 1]");
}
