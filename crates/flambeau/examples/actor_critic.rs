//! A pole is balanced on a cart by an actor, who is advised by a critic (Barto, Sutton and Anderson 1983; the network of
//! pytorch/examples).
//! `cargo run --release --example actor_critic [-- --episodes 400] [--out actor_critic.png]`
//!
//! actor_critic.py is the same program in Python.

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
    action_head: nn::Linear,
    value_head: nn::Linear,
}
impl Policy {
    fn new() -> Policy {
        Policy {
            base: nn::Base::new(),
            affine1: nn::Linear::new(4, 128),
            action_head: nn::Linear::new(128, 2),
            value_head: nn::Linear::new(128, 1),
        }
    }
}
#[nn::forward]
impl Policy {
    /// Probabilities of the actions, and what is still to be won.
    fn forward(&self, x: &Tensor) -> (Tensor, Tensor) {
        let x = F::relu(&self.affine1.call(x));
        (F::softmax(&self.action_head.call(&x), -1), self.value_head.call(&x))
    }
}

/// One episode and one step of the optimizer.
fn episode(model: &Policy, optimizer: &mut optim::Adam) -> Episode {
    let mut cart = Cart::new();
    let (mut taken, mut path) = (Vec::new(), Vec::new());
    loop {
        let (probs, value) = model.call(&torch::tensor(cart.state));
        let m = Categorical::new(&probs);
        let action = m.sample();
        taken.push((m.log_prob(&action), value));
        let fallen = cart.step(action.item());
        path.push((cart.state[0], cart.state[2]));
        if fallen {
            break;
        }
    }
    let returns = cart_pole::returns(cart.steps);
    let (mut policy_losses, mut value_losses) = (vec![], vec![]);
    for ((log_prob, value), r) in taken.iter().zip(&returns) {
        let advantage = r.item::<f64>() - value.item::<f64>();
        policy_losses.push(-log_prob * advantage);
        value_losses.push(F::smooth_l1_loss(value, &r.unsqueeze(0)));
    }
    optimizer.zero_grad();
    let loss = torch::stack(&policy_losses, 0).sum() + torch::stack(&value_losses, 0).sum();
    loss.backward();
    optimizer.step();
    Episode { loss: loss.item(), path }
}

fn main() -> Outcome {
    let flags = Flags::read(&["--episodes"])?;
    torch::manual_seed(543);
    let model = Policy::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 3e-3);
    let (losses, lengths) =
        cart_pole::train(flags.number("--episodes", 400)?, flags.text("--out", "actor_critic.png"), || {
            Ok(episode(&model, &mut optimizer))
        })?;
    flags.save_losses(&[losses, lengths].concat())
}
