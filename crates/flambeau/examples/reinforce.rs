//! A pole is balanced on a cart by trial alone: REINFORCE (Williams 1992), with the network of pytorch/examples.
//! `cargo run --release --example reinforce [-- --episodes 300] [--out reinforce.png]`
//!
//! reinforce.py is the same program in Python.

#[path = "common/cart_pole.rs"]
mod cart_pole;
mod common;

use cart_pole::{Cart, Episode};
use common::{Flags, Outcome};
use torch::distributions::Categorical;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

#[derive(Debug, Module)]
struct Policy {
    base: nn::Base,
    affine1: nn::Linear,
    dropout: nn::Dropout,
    affine2: nn::Linear,
}
impl Policy {
    fn new() -> Policy {
        Policy {
            base: nn::Base::new(),
            affine1: nn::Linear::new(4, 128),
            dropout: nn::Dropout::new(0.6),
            affine2: nn::Linear::new(128, 2),
        }
    }
}
#[nn::forward]
impl Policy {
    /// Probabilities of the actions (N, 2) in states (N, 4).
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.dropout.call(&self.affine1.call(x)).relu();
        F::softmax(&self.affine2.call(&x), 1)
    }
}

/// One episode and one step of the optimizer.
fn episode(policy: &Policy, optimizer: &mut optim::Adam) -> Episode {
    let mut cart = Cart::new();
    let (mut log_probs, mut path) = (Vec::new(), Vec::new());
    loop {
        let probs = policy.call(&torch::tensor(cart.state).unsqueeze(0));
        let m = Categorical::new(&probs);
        let action = m.sample();
        log_probs.push(m.log_prob(&action));
        let fallen = cart.step(action.item());
        path.push((cart.state[0], cart.state[2]));
        if fallen {
            break;
        }
    }
    let loss = (-torch::cat(&log_probs, 0) * cart_pole::returns(cart.steps)).sum();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    Episode { loss: loss.item(), path }
}

fn main() -> Outcome {
    let flags = Flags::read(&["--episodes"])?;
    torch::manual_seed(543);
    let policy = Policy::new();
    let mut optimizer = optim::Adam::new(policy.parameters(), 1e-2);
    let (losses, lengths) =
        cart_pole::train(flags.number("--episodes", 300)?, flags.text("--out", "reinforce.png"), || {
            Ok(episode(&policy, &mut optimizer))
        })?;
    flags.save_losses(&[losses, lengths].concat())
}
