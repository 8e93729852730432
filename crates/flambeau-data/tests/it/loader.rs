//! The loader, alone and with workers.

use super::{generator, manual_seed, text};
use flambeau_core::settings::threads;
use flambeau_core::{Error, ErrorKind, Result, Tensor, functions as torch};
use flambeau_data::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Runs a test that must not hang.
fn timely(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel();
    let t = std::thread::spawn(move || {
        f();
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => {}
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(_) => std::panic::resume_unwind(t.join().unwrap_err()),
    }
}

/// A dataset made of a function.
struct By<F>(usize, F);
impl<T, F: Fn(usize) -> Result<T> + Send + Sync> Dataset for By<F> {
    type Item = T;
    fn get(&self, i: usize) -> Result<T> {
        (self.1)(i)
    }
    fn len(&self) -> usize {
        self.0
    }
}
/// A stream that every worker gives whole.
struct Count(i64, Option<usize>);
impl IterableDataset for Count {
    type Item = i64;
    fn iter(&self) -> Samples<'_, i64> {
        Box::new((0..self.0).map(Ok))
    }
    fn length(&self) -> Option<usize> {
        self.1
    }
}
fn values(loader: &DataLoader<Tensor>) -> Vec<Vec<i64>> {
    loader.iter().map(|b| b.to_vec::<i64>()).collect()
}

#[test]
fn batches_here_and_by_workers_are_equal() {
    timely(|| {
        for workers in [0, 1, 2, 5] {
            for drop_last in [false, true] {
                let options = || {
                    DataLoaderOptions::new(0..11i64).batch_size(3).num_workers(workers).drop_last(drop_last)
                };
                let mut want = vec![vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8], vec![9, 10]];
                want.truncate(if drop_last { 3 } else { 4 });
                let loader = options().build();
                assert_eq!((values(&loader), loader.len()), (want.clone(), want.len()));
                let shuffled = options().shuffle(true).generator(&generator(5)).build();
                let alone = DataLoaderOptions::new(0..11i64).batch_size(3).drop_last(drop_last).shuffle(true);
                let alone = alone.generator(&generator(5)).build();
                assert_eq!(values(&shuffled), values(&alone), "{workers} workers");
            }
        }
    });
}

#[test]
fn slow_samples_keep_their_order() {
    timely(|| {
        let slow = By(12, |i| {
            std::thread::sleep(Duration::from_millis(if i % 3 == 0 { 20 } else { 1 }));
            Ok(i as i64)
        });
        let data = Arc::new(slow);
        let loader = DataLoaderOptions::new(data.clone()).num_workers(3).prefetch_factor(1).build();
        assert_eq!(values(&loader).concat(), (0..12).collect::<Vec<_>>());
        let loose = DataLoaderOptions::new(data).num_workers(3).in_order(false).build();
        let mut got = values(&loose).concat();
        got.sort();
        assert_eq!(got, (0..12).collect::<Vec<_>>());
    });
}

#[test]
fn without_batches() {
    let loader = DataLoaderOptions::new(vec!["a", "b"]).unbatched().build();
    assert_eq!(loader.iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((loader.len(), loader.batch_size()), (2, None));
    let loader =
        DataLoaderOptions::new(0..3i64).unbatched().convert_fn(|i| Ok(i * 10)).num_workers(2).build();
    assert_eq!(loader.iter().collect::<Vec<_>>(), [0, 10, 20]);
    let stream = DataLoaderOptions::iterable(Count(3, None)).unbatched().build();
    assert_eq!(stream.iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn custom_samplers() {
    let own = DataLoaderOptions::new(0..9i64).sampler(vec![8, 0, 4]).batch_size(2).build();
    assert_eq!(values(&own), [vec![8, 0], vec![4]]);
    let batches =
        DataLoaderOptions::new(0..9i64).batch_sampler(vec![vec![1], vec![2, 3]]).num_workers(1).build();
    assert_eq!((values(&batches), batches.batch_size()), (vec![vec![1], vec![2, 3]], None));
    let empty = DataLoaderOptions::new(Vec::<i64>::new()).build();
    assert!(empty.is_empty() && values(&empty).is_empty());
    let wrong = DataLoaderOptions::new(0..9i64).sampler(vec![9]).build();
    let e = text(wrong.try_iter().next().unwrap(), ErrorKind::Index);
    assert_eq!(e, "range object index out of range");
    let few = WeightedRandomSamplerOptions::new([1.0], 3).replacement(false).build();
    let failing = DataLoaderOptions::new(0..1i64).sampler(few).num_workers(1).build();
    let got: Vec<_> = failing.try_iter().collect();
    assert!(got.len() == 1 && got[0].is_err());
}

#[test]
fn streams() {
    timely(|| {
        let loader = DataLoaderOptions::iterable(Count(5, Some(5))).batch_size(2).build();
        assert_eq!((values(&loader), loader.len()), (vec![vec![0, 1], vec![2, 3], vec![4]], 3));
        // every worker gives everything, in turn
        let loader = DataLoaderOptions::iterable(Count(3, None)).batch_size(2).num_workers(2).build();
        assert_eq!(values(&loader), [vec![0, 1], vec![0, 1], vec![2], vec![2]]);
        assert_eq!(text(loader.try_len(), ErrorKind::Type), "object of type 'IterableDataset' has no len()");
        let dropped = DataLoaderOptions::iterable(Count(3, None)).batch_size(2).drop_last(true);
        assert_eq!(
            values(&dropped.num_workers(3).persistent_workers(true).build()),
            [[0, 1], [0, 1], [0, 1]]
        );
        let chain = ChainDataset::new([Count(2, Some(2)), Count(1, Some(1))]);
        assert_eq!(chain.length(), Some(3));
        let loader = DataLoaderOptions::iterable(chain).batch_size(9).num_workers(1).persistent_workers(true);
        let loader = loader.build();
        assert_eq!(values(&loader), [[0, 1, 0]]);
        assert_eq!(values(&loader), [[0, 1, 0]]);
        let e = text(DataLoaderOptions::iterable(Count(1, None)).shuffle(true).try_build(), ErrorKind::Value);
        let want =
            "DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True";
        assert_eq!(e, want);
        assert!(DataLoaderOptions::iterable(Count(1, None)).sampler(vec![0]).try_build().is_err());
    });
}

#[test]
fn errors_and_panics_of_workers_arrive() {
    timely(|| {
        let data = Arc::new(By(6, |i| match i {
            2 => Err(Error::value("sample 2 is torn")),
            4 => panic!("sample {i} explodes"),
            _ => Ok(i as i64),
        }));
        let loader = DataLoaderOptions::new(data.clone()).num_workers(2).build();
        let got: Vec<Result<i64>> = loader.try_iter().map(|b| b.map(|t| t.item::<i64>())).collect();
        assert_eq!(got.len(), 6);
        let e = got[2].as_ref().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Value);
        assert_eq!(
            e.message(),
            "Caught ValueError in DataLoader worker thread 0.\nOriginal error: ValueError: sample 2 is torn"
        );
        let e = got[4].as_ref().unwrap_err();
        let want = "Caught a panic in DataLoader worker thread 0.\nOriginal panic: sample 4 explodes";
        assert_eq!(e.message(), want);
        for i in [0, 1, 3, 5] {
            assert_eq!(*got[i].as_ref().unwrap(), i as i64);
        }
        // the panicking iterator says the same
        let panic = catch_unwind(AssertUnwindSafe(|| loader.iter().count())).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("sample 2 is torn"));
        // and without workers nothing is caught
        let here = DataLoaderOptions::new(data).build();
        assert_eq!(text(here.try_iter().nth(2).unwrap(), ErrorKind::Value), "sample 2 is torn");
        assert!(catch_unwind(AssertUnwindSafe(|| here.try_iter().count())).is_err());
    });
}

#[test]
fn workers_know_themselves() {
    flambeau_test_support::alone!();
    timely(|| {
        manual_seed(0);
        assert!(get_worker_info().is_none());
        let seen = Arc::new(AtomicUsize::new(0));
        let count = seen.clone();
        let data = By(4, |_| {
            let w = get_worker_info().unwrap();
            assert_eq!(w.generator.initial_seed(), w.seed);
            assert_eq!(threads::get_num_threads(), 1);
            assert!(w.dataset::<String>().is_none());
            Ok((w.id as i64, w.num_workers as i64, w.seed as i64))
        });
        let loader = DataLoaderOptions::new(data)
            .num_workers(2)
            .worker_init_fn(move |id| {
                assert_eq!(get_worker_info().unwrap().id, id);
                count.fetch_add(1, SeqCst);
                Ok(())
            })
            .build();
        let all: Vec<(i64, i64, i64)> = loader
            .iter()
            .map(|(id, n, seed)| (id.item::<i64>(), n.item::<i64>(), seed.item::<i64>()))
            .collect();
        assert_eq!(all.iter().map(|w| (w.0, w.1)).collect::<Vec<_>>(), [(0, 2), (1, 2), (0, 2), (1, 2)]);
        assert_eq!(all[1].2, all[0].2 + 1);
        assert_eq!(seen.load(SeqCst), 2);
        assert!(get_worker_info().is_none());

        let failing = DataLoaderOptions::new(0..2i64).num_workers(1);
        let failing = failing.worker_init_fn(|_| Err(Error::runtime("no disk"))).build();
        let e = text(failing.try_iter().next().unwrap(), ErrorKind::Runtime);
        assert!(e.ends_with("RuntimeError: no disk"), "{e}");
    });
}

#[test]
fn early_ends_do_not_hang() {
    timely(|| {
        let reads = Arc::new(AtomicUsize::new(0));
        for persistent in [false, true] {
            let count = reads.clone();
            let data = By(1_000_000, move |i: usize| {
                count.fetch_add(1, SeqCst);
                Ok(i as i64)
            });
            let loader = DataLoaderOptions::new(data).num_workers(3).persistent_workers(persistent).build();
            for _ in 0..50 {
                let mut pass = loader.iter();
                assert_eq!(pass.next().unwrap().item::<i64>(), 0);
                assert_eq!(pass.next().unwrap().item::<i64>(), 1);
            }
            // two passes at once, each in its own order
            let (mut a, mut b) = (loader.iter(), loader.iter());
            for i in 0..20 {
                assert_eq!(a.next().unwrap().item::<i64>(), i);
                assert_eq!(b.next().unwrap().item::<i64>(), i);
            }
        }
        // nothing was read that nobody asked for
        assert!(reads.load(SeqCst) < 2_000, "{} samples read", reads.load(SeqCst));
    });
}

#[test]
fn a_stuck_worker_holds_nobody() {
    timely(|| {
        let stuck = By(4, |i| {
            if i == 1 {
                std::thread::sleep(Duration::from_secs(20));
            }
            Ok(i as i64)
        });
        let loader = DataLoaderOptions::new(stuck).num_workers(2).timeout(0.2).build();
        let start = Instant::now();
        let mut pass = loader.try_iter();
        assert_eq!(pass.next().unwrap().unwrap().item::<i64>(), 0);
        let e = text(pass.next().unwrap(), ErrorKind::Runtime);
        assert_eq!(e, "DataLoader timed out after 0.2 seconds");
        drop(pass);
        drop(loader);
        assert!(start.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn one_loader_in_many_threads() {
    timely(|| {
        let loader =
            DataLoaderOptions::new(0..40i64).batch_size(4).num_workers(2).persistent_workers(true).build();
        std::thread::scope(|s| {
            for _ in 0..6 {
                s.spawn(|| {
                    for _ in 0..5 {
                        assert_eq!(values(&loader).concat(), (0..40).collect::<Vec<_>>());
                    }
                });
            }
        });
        // and a loader within a worker of another
        let nested = By(3, |i| {
            let inner = DataLoaderOptions::new(0..4i64).num_workers(2).build();
            Ok(values(&inner).concat().iter().sum::<i64>() + i as i64)
        });
        assert_eq!(values(&DataLoaderOptions::new(nested).num_workers(2).build()).concat(), [6, 7, 8]);
    });
}

#[test]
fn persistent_workers_stay() {
    timely(|| {
        let data = By(2, |_| Ok(format!("{:?}", std::thread::current().id())));
        let loader = DataLoaderOptions::new(data).num_workers(2).persistent_workers(true).build();
        let first: Vec<_> = loader.iter().collect();
        assert_eq!(loader.iter().collect::<Vec<_>>(), first);
        assert_ne!(first[0], first[1]);
    });
}

#[test]
fn options_are_checked() {
    let o = || DataLoaderOptions::new(0..4i64);
    let value = |r: Result<DataLoader<Tensor>>| text(r, ErrorKind::Value);
    let exclusive =
        "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last";
    assert_eq!(value(o().batch_sampler(vec![vec![0]]).batch_size(2).try_build()), exclusive);
    assert_eq!(value(o().batch_sampler(vec![vec![0]]).drop_last(true).try_build()), exclusive);
    let e = "sampler option is mutually exclusive with shuffle";
    assert_eq!(value(o().sampler(vec![0]).shuffle(true).try_build()), e);
    let e = "persistent_workers option needs num_workers > 0";
    assert_eq!(value(o().persistent_workers(true).try_build()), e);
    assert_eq!(value(o().timeout(-1.0).try_build()), "timeout option should be non-negative");
    let e = "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable \
             multiprocessing, otherwise set prefetch_factor to None.";
    assert_eq!(value(o().prefetch_factor(2).try_build()), e);
    let e = "batch_size should be a positive integer value, but got batch_size=0";
    assert_eq!(value(o().batch_size(0).try_build()), e);
    let e = "batch_size=None option disables auto-batching and is mutually exclusive with drop_last";
    assert_eq!(text(o().unbatched().drop_last(true).try_build(), ErrorKind::Value), e);
    let e = "num_samples should be a positive integer value, but got num_samples=0";
    assert_eq!(value(DataLoaderOptions::new(Vec::<i64>::new()).shuffle(true).try_build()), e);
    assert!(o().timeout(1.0).try_build().is_err() && o().timeout(f64::NAN).try_build().is_err());
    assert!(o().num_workers(1).timeout(1e300).try_build().is_err());
    let loader = o().batch_size(2).num_workers(1).build();
    assert_eq!((loader.batch_size(), loader.num_workers(), loader.dataset_len()), (Some(2), 1, Some(4)));
    assert_eq!(*loader.dataset::<std::ops::Range<i64>>().unwrap(), 0..4);
    // what a builder may be asked for is far beyond any data
    assert_eq!(o().batch_size(usize::MAX).build().iter().next().unwrap().numel(), 4);
}

#[test]
fn gradients_pass_through_batches() {
    let x = torch::arange(6).reshape([3, 2]).to(flambeau_core::DType::F32);
    let loader = DataLoaderOptions::new(TensorDataset::new((x,))).batch_size(2).build();
    let (first,) = loader.iter().next().unwrap();
    assert_eq!(first.to_vec::<f32>(), [0.0, 1.0, 2.0, 3.0]);
}
