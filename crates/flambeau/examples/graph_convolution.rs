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
}
impl Net {
    fn new(nodes: i64) -> Self {
        Net {
            base: nn::Base::new(),
            conv1: GraphConvolution::new(nodes, 16),
            conv2: GraphConvolution::new(16, 2),
        }
    }
}
#[nn::forward]
impl Net {
    /// Logits of the sides, for each member.
    fn forward(&self, x: &Tensor, graph: &Tensor) -> Tensor {
        let x = self.conv1.call(x, graph).tanh();
        self.conv2.call(&x, graph)
    }
}

/// The members at their places, in colours between blue, the instructor's side, and red.
fn draw(c: &mut Canvas, at: &[(f32, f32)], pairs: &[(usize, usize)], sides: &[f32]) {
    pairs.iter().for_each(|(a, b)| c.line(at[*a], at[*b], GREY));
    for (i, (place, side)) in at.iter().zip(sides).enumerate() {
        let mixed = |k: usize| (f32::from(BLUE[k]) * (1.0 - side) + f32::from(RED[k]) * side) as u8;
        c.disc(*place, 11.0, [mixed(0), mixed(1), mixed(2)]);
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
    let mut optimizer = optim::AdamOptions::new().lr(1e-2).weight_decay(5e-4).build(model.parameters());
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        optimizer.zero_grad();
        let logits = model.call(&features, &graph);
        let loss = F::cross_entropy(&logits.i(&told), &sides.i(&told));
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.4}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();

    let logits = torch::no_grad(|| model.call(&features, &graph));
    let right = logits.argmax_dim(1, false).eq(&sides).sum().item::<i64>();
    let mut c = Canvas::new(1280, 460);
    // members who meet stand together: the plane of two eigenvectors of the graph
    let (_, vectors) = torch::linalg::eigh(&graph.to_dense(), "L").into();
    let places = vectors.i((.., Slice::new(-3, -1, 1)));
    let said = logits.softmax(1).i((.., 1)).to_vec::<f32>();
    for (x, title, sides) in
        [(20, "the side that each took", sides.to_vec::<f32>()), (460, "as the network says", said)]
    {
        c.text(title, x, 16, 3, INK);
        let at = c.spread(&places, Frame { x: x + 10, y: 60, w: 380, h: 370 });
        draw(&mut c, &at, &pairs, &sides);
    }
    c.chart("loss", Frame { x: 900, y: 16, w: 360, h: 430 }, &[("", INK, &losses)]);
    let out = flags.text("--out", "graph_convolution.png");
    c.save(out)?;
    println!("drew {out}: the sides that the members took, and what the network makes of two of them");
    println!("loss {:.4}; {right} of {nodes} members are on the side that the network says", late(&losses));
    losses.push(right as f64);
    flags.save_losses(&losses)
}
