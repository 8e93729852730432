//! A network that lays digits out on a plane, like ones together: it learns from pairs (Hadsell et al. 2006) or from triplets
//! (Schroff et al. 2015), never which digit is which.
//! `cargo run --release --example siamese [-- --loss triplet] [--steps 1500] [--out siamese.png]`
//!
//! siamese.py is the same program in Python.

mod common;

use common::canvas::{CLASSES, Canvas, Frame, INK};
use common::{Flags, Outcome, data, late, progress};
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

const BATCH: i64 = 128;
const MARGIN: f64 = 1.0;

/// Images to points of the plane.
fn network() -> nn::Sequential {
    let conv = |from, to| nn::Conv2dOptions::new(from, to, 3).padding(1).build();
    nn::Sequential::new((
        conv(1, 16),
        nn::ReLU::new(),
        nn::MaxPool2d::new(2),
        conv(16, 32),
        nn::ReLU::new(),
        nn::MaxPool2d::new(2),
        nn::Flatten::new(),
        nn::Linear::new(32 * 2 * 2, 64),
        nn::ReLU::new(),
        nn::Linear::new(64, 2),
    ))
}

/// The digits sorted by class, so that one of a class can be drawn.
struct ByClass {
    order: Tensor,
    starts: Tensor,
    counts: Tensor,
}
impl ByClass {
    fn new(labels: &Tensor) -> Self {
        let counts = labels.bincount();
        ByClass { order: labels.argsort_stable(true, -1, false), starts: counts.cumsum(0) - &counts, counts }
    }
    /// One digit of each of the given classes, at random.
    fn draw(&self, classes: &Tensor) -> Tensor {
        let nth = (torch::rand(classes.sizes()) * self.counts.i(classes)).floor().long();
        self.order.i(self.starts.i(classes) + nth)
    }
}
/// For each class one of the nine others, at random.
fn another(classes: &Tensor) -> Tensor {
    (classes + torch::randint_low(1, 10, classes.sizes())) % 10
}

/// Pairs of one class shall lie together, others at least the margin apart.
fn contrastive(a: &Tensor, b: &Tensor, alike: &Tensor) -> Tensor {
    let distance = F::pairwise_distance(a, b);
    let apart = (MARGIN - &distance).relu();
    torch::where_(alike, distance.square(), apart.square()).mean()
}

fn main() -> Outcome {
    let flags = Flags::read(&["--loss", "--steps"])?;
    let steps: u64 = flags.number("--steps", 1500)?;
    let triplets = match flags.text("--loss", "contrastive") {
        "contrastive" => false,
        "triplet" => true,
        other => return Err(format!("--loss {other}: contrastive or triplet").into()),
    };
    torch::manual_seed(0);
    let (train, test) = data::digits_apart()?;
    let by_class = ByClass::new(&train.labels);
    let model = network();
    let triplet = nn::TripletMarginLossOptions::new().margin(MARGIN).build();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        let anchors = torch::randint(train.labels.size(0), BATCH);
        let classes = train.labels.i(&anchors);
        let place = |at: &Tensor| model.call(&train.images.i(at));
        optimizer.zero_grad();
        let loss = if triplets {
            let (like, unlike) = (by_class.draw(&classes), by_class.draw(&another(&classes)));
            triplet.call(&place(&anchors), &place(&like), &place(&unlike))
        } else {
            let alike = torch::rand(BATCH).lt(0.5);
            let partners = by_class.draw(&torch::where_(&alike, &classes, another(&classes)));
            contrastive(&place(&anchors), &place(&partners), &alike)
        };
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.4}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();

    // an unseen digit is what its nearest neighbour among the known ones is
    let (known, unseen) = torch::no_grad(|| (model.call(&train.images), model.call(&test.images)));
    let nearest = torch::cdist(&unseen, &known).argmin_dim(1, false);
    let right = train.labels.i(&nearest).eq(&test.labels).double().mean().item::<f64>();

    let mut c = Canvas::new(980, 560);
    let frame = Frame { x: 20, y: 20, w: 520, h: 520 };
    for (place, label) in c.spread(&unseen, frame).into_iter().zip(test.labels.to_vec::<i64>()) {
        c.text(&label.to_string(), place.0 as usize, place.1 as usize, 2, CLASSES[label as usize]);
    }
    c.chart("training loss", Frame { x: 600, y: 20, w: 360, h: 300 }, &[("", INK, &losses)]);
    let out = flags.text("--out", "siamese.png");
    c.save(out)?;
    println!("drew {out}: unseen digits where the network places them");
    println!(
        "loss {:.4}; unseen digits whose nearest neighbour is of their class: {:.2} %",
        late(&losses),
        100.0 * right
    );
    losses.push(right);
    flags.save_losses(&losses)
}
