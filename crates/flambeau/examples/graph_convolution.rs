//! Which side did each member of Zachary's karate club take? A graph convolution (Kipf and Welling 2017) is told of two members alone
//! and learns the rest from who meets whom.
//! `cargo run --release --example graph_convolution [-- --steps 300] [--out graph_convolution.png]`
//!
//! graph_convolution.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, Frame, GREY, INK, RED};
use common::{Flags, Outcome, late, progress};
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

/// The instructor and the president.
const TOLD: [i64; 2] = [0, 33];

/// The pairs of members who meet, and the side that each took: 0 for the instructor's.
fn club() -> Outcome<(Vec<(usize, usize)>, Tensor)> {
    let mut lines = include_str!("data/karate.txt").lines();
    let sides: Vec<i64> = lines.next().unwrap_or_default().chars().map(|c| i64::from(c == 'O')).collect();
    let mut pairs = Vec::new();
    for line in lines {
        let mut numbers = line.split(' ').map(str::parse::<usize>);
        let Some(one) = numbers.next().transpose()? else { continue };
        for other in numbers {
            pairs.push((one, other?));
        }
    }
    Ok((pairs, torch::tensor(sides)))
}

/// The matrix of the graph with loops, scaled by the roots of the degrees on both sides, as a sparse tensor.
fn normalized(pairs: &[(usize, usize)], nodes: usize) -> Tensor {
    let mut edges: Vec<(usize, usize)> = (0..nodes).map(|i| (i, i)).collect();
    edges.extend(pairs.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]));
    edges.sort_unstable();
    let column =
        |part: fn(&(usize, usize)) -> usize| torch::tensor(edges.iter().map(part).collect::<Vec<_>>());
    let (rows, columns) = (column(|e| e.0), column(|e| e.1));
    let scale = rows.bincount().to(torch::get_default_dtype()).rsqrt();
    let values = scale.i(&rows) * scale.i(&columns);
    torch::sparse_coo_tensor(&torch::stack([&rows, &columns], 0), &values, [nodes as i64, nodes as i64])
        .coalesce()
}

#[derive(Debug, Module)]
struct GraphConvolution {
    base: nn::Base,
    weight: Parameter,
    bias: Parameter,
}
impl GraphConvolution {
    fn new(from: i64, to: i64) -> Self {
        let weight = Parameter::new(torch::empty([from, to]));
        nn::init::xavier_uniform_(&weight);
        GraphConvolution { base: nn::Base::new(), weight, bias: Parameter::new(torch::zeros(to)) }
    }
}
#[nn::forward]
impl GraphConvolution {
    fn forward(&self, x: &Tensor, graph: &Tensor) -> Tensor {
        torch::sparse::mm(graph, &x.matmul(&self.weight)) + &self.bias
    }
}

#[derive(Debug, Module)]
struct Net {
    base: nn::Base,
    conv1: GraphConvolution,
    conv2: GraphConvolution,
    fc: nn::Linear,
}
impl Net {
    fn new(nodes: i64) -> Self {
        Net {
            base: nn::Base::new(),
            conv1: GraphConvolution::new(nodes, 8),
            conv2: GraphConvolution::new(8, 2),
            fc: nn::Linear::new(2, 2),
        }
    }
}
#[nn::forward]
impl Net {
    /// A place on the plane for each member, and the logits of the sides.
    fn forward(&self, x: &Tensor, graph: &Tensor) -> (Tensor, Tensor) {
        let x = self.conv1.call(x, graph).tanh();
        let places = self.conv2.call(&x, graph).tanh();
        let logits = self.fc.call(&places);
        (places, logits)
    }
}

/// The members at their places: coloured by the side that they took, ringed where the network says another.
fn draw(
    c: &mut Canvas,
    frame: Frame,
    places: &Tensor,
    pairs: &[(usize, usize)],
    sides: &[i64],
    said: &[i64],
) {
    let at = c.spread(places, frame);
    pairs.iter().for_each(|(a, b)| c.line(at[*a], at[*b], GREY));
    for (i, place) in at.into_iter().enumerate() {
        if said[i] != sides[i] {
            c.disc(place, 14.0, INK);
        }
        c.disc(place, 11.0, if sides[i] == 0 { BLUE } else { RED });
        let name = (i + 1).to_string();
        c.text(&name, (place.0 as usize).saturating_sub(4 * name.len()), place.1 as usize - 5, 2, [255; 3]);
    }
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps"])?;
    let steps: u64 = flags.number("--steps", 300)?;
    torch::manual_seed(0);
    let (pairs, sides) = club()?;
    let nodes = sides.len();
    let graph = normalized(&pairs, nodes);
    // nothing is known of the members themselves: each is only itself
    let features = torch::eye(nodes as i64);
    let told = torch::tensor(TOLD);
    let model = Net::new(nodes as i64);
    let (before, _) = torch::no_grad(|| model.call(&features, &graph));
    let mut optimizer = optim::AdamOptions::new().lr(1e-2).weight_decay(5e-4).build(model.parameters());
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        optimizer.zero_grad();
        let (_, logits) = model.call(&features, &graph);
        let loss = F::cross_entropy(&logits.i(&told), &sides.i(&told));
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.4}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();

    let (after, logits) = torch::no_grad(|| model.call(&features, &graph));
    let said = logits.argmax_dim(1, false);
    let right = said.eq(&sides).sum().item::<i64>();
    let mut c = Canvas::new(1280, 460);
    let (sides, said) = (sides.to_vec::<i64>(), said.to_vec::<i64>());
    c.text("untrained", 20, 16, 3, INK);
    draw(&mut c, Frame { x: 30, y: 60, w: 380, h: 370 }, &before, &pairs, &sides, &sides);
    c.text("trained", 460, 16, 3, INK);
    draw(&mut c, Frame { x: 470, y: 60, w: 380, h: 370 }, &after, &pairs, &sides, &said);
    c.chart("loss", Frame { x: 900, y: 16, w: 360, h: 430 }, &[("", INK, &losses)]);
    let out = flags.text("--out", "graph_convolution.png");
    c.save(out)?;
    println!("drew {out}: the club before and after, coloured by the sides that they took");
    println!("loss {:.4}; {right} of {nodes} members are on the side that the network says", late(&losses));
    losses.push(right as f64);
    flags.save_losses(&losses)
}
