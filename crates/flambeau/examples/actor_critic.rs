//! A pole is balanced on a cart by an actor and a critic (Barto, Sutton and Anderson 1983; the network of pytorch/examples).
//! `cargo run --release --example actor_critic [-- --episodes 400]`

use std::collections::VecDeque;
use torch::distributions::Categorical;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

/// The cart, the pole, and the steps since they were put up.
struct Cart {
    state: [f64; 4],
    steps: usize,
}
impl Cart {
    fn new() -> Cart {
        let start = torch::rand(4) * 0.1 - 0.05;
        let state = start.to_vec::<f64>();
        Cart { state: [state[0], state[1], state[2], state[3]], steps: 0 }
    }
    /// Pushes the cart to the right (1) or to the left (0); whether the pole has fallen or the cart left the track.
    fn step(&mut self, action: i64) -> bool {
        let [x, speed, angle, turn] = self.state;
        let force = if action == 1 { 10.0 } else { -10.0 };
        let pushed = (force + 0.05 * turn * turn * angle.sin()) / 1.1;
        let turning = (9.8 * angle.sin() - angle.cos() * pushed)
            / (0.5 * (4.0 / 3.0 - 0.1 * angle.cos() * angle.cos() / 1.1));
        let moving = pushed - 0.05 * turning * angle.cos() / 1.1;
        let dt = 0.02;
        self.state = [x + dt * speed, speed + dt * moving, angle + dt * turn, turn + dt * turning];
        self.steps += 1;
        self.state[0].abs() > 2.4 || self.state[2].abs() > 0.2095 || self.steps == 500
    }
}

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

/// One episode and one step of the optimizer; how long the pole stood.
fn episode(model: &Policy, optimizer: &mut optim::Adam) -> usize {
    let mut cart = Cart::new();
    let mut taken = Vec::new();
    loop {
        let (probs, value) = model.call(&torch::tensor(cart.state).float());
        let m = Categorical::new(&probs);
        let action = m.sample();
        taken.push((m.log_prob(&action), value));
        if cart.step(action.item()) {
            break;
        }
    }
    let (mut r, mut returns) = (0.0, VecDeque::new());
    for _ in &taken {
        r = 1.0 + 0.99 * r;
        returns.push_front(r);
    }
    let returns = torch::tensor(Vec::from(returns));
    let returns = (&returns - returns.mean()) / (returns.std() + torch::finfo(f32).eps);
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
    cart.steps
}

/// Trains for some episodes; the mean of the last steps, as the one before them counts most.
pub fn train(episodes: usize, log: bool) -> f64 {
    torch::manual_seed(543);
    let model = Policy::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 3e-3);
    let mut running = 10.0;
    for i in 1..=episodes {
        let steps = episode(&model, &mut optimizer);
        running = 0.05 * steps as f64 + 0.95 * running;
        if log && i % 20 == 0 {
            println!("episode {i:4}: {steps:3} steps, {running:6.1} on average");
        }
    }
    running
}

#[allow(dead_code)] // a test runs `train` alone
fn main() {
    let episodes = std::env::args().skip_while(|a| a != "--episodes").nth(1);
    train(episodes.map_or(400, |n| n.parse().expect("a number of episodes")), true);
}
