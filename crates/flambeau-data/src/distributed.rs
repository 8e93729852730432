//! Parts of a dataset for processes that train together (`torch.utils.data.distributed`).

use crate::expect;
use crate::sampler::{Indices, Length, Sampler};
use flambeau_core::tensor::geometry;
use flambeau_core::{Error, Generator, Result, ensure, ops};
use std::sync::atomic::{AtomicU64, Ordering};

/// Options of [`DistributedSampler`].
#[derive(Clone, Debug)]
pub struct DistributedSamplerOptions {
    count: usize,
    num_replicas: usize,
    rank: usize,
    shuffle: bool,
    seed: u64,
    drop_last: bool,
}
impl DistributedSamplerOptions {
    /// For a dataset, the number of processes, and this process's number among them. PyTorch takes these from its process
    /// group where they are not given; there is no such group here.
    pub fn new(dataset: impl Length, num_replicas: usize, rank: usize) -> Self {
        DistributedSamplerOptions {
            count: dataset.count(),
            num_replicas,
            rank,
            shuffle: true,
            seed: 0,
            drop_last: false,
        }
    }
    /// Whether the order is random. Default: yes.
    pub fn shuffle(mut self, on: bool) -> Self {
        self.shuffle = on;
        self
    }
    /// The seed of the order, the same in all processes. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    /// Whether the tail is dropped where the samples cannot be shared evenly. Default: the first ones are given twice.
    pub fn drop_last(mut self, on: bool) -> Self {
        self.drop_last = on;
        self
    }
    /// Panics where [`DistributedSamplerOptions::try_build`] gives an error.
    #[track_caller]
    pub fn build(self) -> DistributedSampler {
        expect(self.try_build())
    }
    /// The sampler.
    ///
    /// # Errors
    /// The rank is not below the number of processes.
    pub fn try_build(self) -> Result<DistributedSampler> {
        ensure!(
            self.rank < self.num_replicas,
            Value,
            "Invalid rank {}, rank should be in the interval [0, {}]",
            self.rank,
            self.num_replicas as i64 - 1
        );
        let num_samples = if self.drop_last {
            self.count / self.num_replicas
        } else {
            self.count.div_ceil(self.num_replicas)
        };
        Ok(DistributedSampler { o: self, num_samples, epoch: AtomicU64::new(0) })
    }
}

/// This process's part of a dataset: every `num_replicas`-th index of an order that all processes agree on.
///
/// Behind an `Arc` it is still a sampler, so a program can keep it and [`set_epoch`](DistributedSampler::set_epoch).
///
/// ```
/// use torch::utils::data::DistributedSamplerOptions;
///
/// let part = |rank| DistributedSamplerOptions::new(5, 2, rank).shuffle(false).build().iter().collect::<Vec<_>>();
/// assert_eq!(part(0), [0, 2, 4]);
/// assert_eq!(part(1), [1, 3, 0]);
/// ```
#[doc(alias = "torch.utils.data.distributed.DistributedSampler")]
#[derive(Debug)]
pub struct DistributedSampler {
    o: DistributedSamplerOptions,
    num_samples: usize,
    epoch: AtomicU64,
}
impl DistributedSampler {
    /// A shuffled part; panics where the rank is not below `num_replicas`.
    #[track_caller]
    pub fn new(dataset: impl Length, num_replicas: usize, rank: usize) -> Self {
        DistributedSamplerOptions::new(dataset, num_replicas, rank).build()
    }
    /// The number of the next pass, which goes into its order. Without it every pass has the same one.
    #[doc(alias = "torch.utils.data.distributed.DistributedSampler.set_epoch")]
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }
    fn part(&self) -> Result<Vec<usize>> {
        let n = self.o.count;
        let total = self.num_samples.checked_mul(self.o.num_replicas).and_then(|t| i64::try_from(t).ok());
        let (Some(total), Ok(_)) = (total, i64::try_from(n)) else {
            return Err(Error::value(format!(
                "DistributedSampler: {n} samples in {} parts are too many",
                self.o.num_replicas
            )));
        };
        if n == 0 {
            return Ok(Vec::new());
        }
        // what is filled up goes round as often as it must, so a part is computed without the whole
        let mut order: Vec<usize> = if self.o.shuffle {
            let g = Generator::new();
            g.manual_seed(self.o.seed.wrapping_add(self.epoch.load(Ordering::Relaxed)));
            let order = ops::randperm(n as i64, Some(&g), None, None, None, None)?.try_to_vec::<i64>()?;
            order.into_iter().map(|i| i as usize).collect()
        } else {
            Vec::new()
        };
        // too few are filled up from the beginning, too many cut
        let mut part = geometry::room(self.num_samples as i64)?;
        let places = (self.o.rank..total as usize).step_by(self.o.num_replicas);
        part.extend(places.map(|i| order.get(i % n).copied().unwrap_or(i % n)));
        order.clear();
        Ok(part)
    }
}
crate::sampler::iterated! { [] DistributedSampler, usize; }
impl Sampler for DistributedSampler {
    type Index = usize;
    fn indices(&self) -> Indices<'_, usize> {
        match self.part() {
            Ok(part) => Box::new(part.into_iter().map(Ok)),
            Err(e) => Box::new(std::iter::once(Err(e))),
        }
    }
    fn length(&self) -> Option<usize> {
        Some(self.num_samples)
    }
}
