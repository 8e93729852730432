//! Recurrent networks.

use crate::input::{fill, leaf};
use crate::row::{Rows, forward_backward};
use torch::nn;
use torch::prelude::*;

/// The layer, with weights that are the same in every implementation.
fn lstm() -> nn::LSTM {
    let m = nn::LSTM::new(128, 256);
    torch::no_grad(|| {
        for (p, seed) in m.parameters().iter().zip(100..) {
            p.copy_(&(fill([p.numel()], seed).view_as(p) / 16));
        }
    });
    m
}

pub fn rows(r: &mut Rows) {
    r.add("rnn/lstm", || {
        let (m, x) = (lstm(), fill([64, 32, 128], 1));
        move || m.call(&x, None).0
    })
    .no_grad();
    r.add("rnn/lstm_fb", || {
        let (m, x) = (lstm(), leaf([64, 32, 128], 1));
        let mut leaves = vec![x.clone()];
        leaves.extend(m.parameters().iter().map(|p| p.tensor().clone()));
        forward_backward(leaves, move || m.call(&x, None).0)
    });
}
