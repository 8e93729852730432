//! Samplers: orders and lengths.

use crate::{all, generator, manual_seed, text};
use flambeau_core::ErrorKind;
use flambeau_data::*;

#[test]
fn samplers() {
    flambeau_test_support::alone!();
    manual_seed(0);
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
