//! Random numbers.

use crate::input::fill;
use crate::row::Rows;
use torch::nn::functional as F;

const COUNT: i64 = 10_000_000;

pub fn rows(r: &mut Rows) {
    r.add("rng/rand_1e7", || || torch::rand(COUNT)).no_check();
    r.add("rng/randn_1e7", || || torch::randn(COUNT)).no_check();
    r.add("rng/bernoulli_1e7", || || torch::empty(COUNT).bernoulli_(0.5).clone()).no_check();
    r.add("rng/dropout_1e7", || {
        let x = fill([COUNT], 1);
        move || F::dropout(&x, 0.5, true)
    })
    .no_check();
    r.add("rng/randperm_1e6", || || torch::randperm(1_000_000)).no_check();
}
