//! A pole on a cart (Barto, Sutton and Anderson 1983), and what the programs that balance it share.

use crate::common::canvas::{BLUE, Canvas, Frame, GREY, INK, RED};
use crate::common::{Outcome, progress};
use torch::prelude::*;

/// The cart, the pole, and the steps since they were put up.
pub struct Cart {
    /// Place and speed of the cart, angle and turning of the pole.
    pub state: [f64; 4],
    pub steps: usize,
}
impl Cart {
    pub fn new() -> Cart {
        let start = torch::rand(4) * 0.1 - 0.05;
        let state = start.to_vec::<f64>();
        Cart { state: [state[0], state[1], state[2], state[3]], steps: 0 }
    }
    /// Pushes the cart to the right (1) or to the left (0); whether the pole has fallen or the cart left the track.
    pub fn step(&mut self, action: i64) -> bool {
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

/// What is won from each step on, later rewards for less, scaled to mean 0 and deviation 1.
pub fn returns(steps: usize) -> Tensor {
    let mut r = 0.0;
    let mut all: Vec<f64> = (0..steps)
        .map(|_| {
            r = 1.0 + 0.99 * r;
            r
        })
        .collect();
    all.reverse();
    let all = torch::tensor(all);
    (&all - all.mean()) / (all.std() + torch::finfo(f32).eps)
}

/// What happened in an episode.
pub struct Episode {
    pub loss: f64,
    /// Places of the cart and angles of the pole.
    pub path: Vec<(f64, f64)>,
}

/// Runs the episodes with a bar; gives their losses and lengths, and draws the lengths and some moments of the last episode.
pub fn train(
    episodes: u64,
    out: &str,
    mut one: impl FnMut() -> Outcome<Episode>,
) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let bar = progress(episodes, "episode");
    let (mut losses, mut lengths, mut running, mut path) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut average = 10.0;
    for _ in 0..episodes {
        let episode = one()?;
        path = episode.path;
        losses.push(episode.loss);
        lengths.push(path.len() as f64);
        average = 0.05 * path.len() as f64 + 0.95 * average;
        running.push(average);
        bar.set_message(format!("{} steps, {average:.1} on average", path.len()));
        bar.inc(1);
    }
    bar.finish();
    let mut c = Canvas::new(980, 420);
    let series = [("of an episode", GREY, &lengths[..]), ("on average", BLUE, &running[..])];
    c.chart("steps that the pole stands", Frame { x: 16, y: 16, w: 580, h: 390 }, &series);
    c.text("the last episode", 640, 16, 3, INK);
    const MOMENTS: usize = 5;
    for i in 0..MOMENTS.min(path.len()) {
        let (x, angle) = path[i * (path.len() - 1) / (MOMENTS - 1)];
        let ground = 110 + 70 * i;
        let cart = 790.0 + x / 2.4 * 140.0;
        c.fill(640, ground, 300, 1, GREY);
        c.fill((cart - 16.0).max(0.0) as usize, ground - 10, 32, 10, INK);
        let foot = (cart as f32, ground as f32 - 10.0);
        c.line(foot, (foot.0 + 40.0 * angle.sin() as f32, foot.1 - 40.0 * angle.cos() as f32), RED);
    }
    c.save(out)?;
    println!("drew {out}: how long the pole stood, and moments of the last episode");
    println!("the pole stands {average:.1} steps, on average of the late episodes");
    Ok((losses, lengths))
}
