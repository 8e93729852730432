//! A network learns how a point moves, from where it was seen: a neural ordinary differential equation (Chen et al. 2018). Its gradient
//! is a custom function, the adjoint method, which solves a second equation backwards instead of keeping every step.
//! `cargo run --release --example neural_ode [-- --steps 1500] [--out neural_ode.png]`
//!
//! neural_ode.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, Frame, INK, RED};
use common::{Flags, Outcome, late, progress};
use std::sync::Arc;
use torch::autograd::function::{self, BackwardContext, Context, Function};
use torch::autograd::{GradOptions, grad, grad_with};
use torch::prelude::*;
use torch::{nn, optim};

/// Points of time at which the spiral is seen, in `DURATION`.
const POINTS: i64 = 200;
const DURATION: f64 = 10.0;
/// Pieces of the spiral in a batch, and their points.
const BATCH: i64 = 20;
const LENGTH: i64 = 10;

/// Where a point moves to, by its place: the equation's right-hand side.
#[derive(Debug, Module)]
struct Field {
    base: nn::Base,
    hidden: nn::Linear,
    out: nn::Linear,
}
impl Field {
    fn new() -> Self {
        let field =
            Field { base: nn::Base::new(), hidden: nn::Linear::new(2, 50), out: nn::Linear::new(50, 2) };
        for layer in [&field.hidden, &field.out] {
            nn::init::normal_(&layer.weight, 0.0, 0.1);
            nn::init::zeros_(layer.bias());
        }
        field
    }
}
#[nn::forward]
impl Field {
    fn forward(&self, y: &Tensor) -> Tensor {
        self.out.call(&self.hidden.call(&y.pow(3)).tanh())
    }
}

/// One step of the classical Runge-Kutta method for several quantities at once.
fn step(f: &dyn Fn(&[Tensor]) -> Vec<Tensor>, y: &[Tensor], h: f64) -> Vec<Tensor> {
    let moved = |k: &[Tensor], h: f64| -> Vec<Tensor> { y.iter().zip(k).map(|(y, k)| y + k * h).collect() };
    let k1 = f(y);
    let k2 = f(&moved(&k1, h / 2.0));
    let k3 = f(&moved(&k2, h / 2.0));
    let k4 = f(&moved(&k3, h));
    (0..y.len()).map(|i| &y[i] + (&k1[i] + 2 * (&k2[i] + &k3[i]) + &k4[i]) * (h / 6.0)).collect()
}

/// The places at `points` times, `h` apart, of a point that begins at `y0`: (points, ...).
fn solve(f: &dyn Fn(&Tensor) -> Tensor, y0: &Tensor, points: i64, h: f64) -> Tensor {
    let mut ys = vec![y0.clone()];
    for i in 1..points as usize {
        let next = step(&|y| vec![f(&y[0])], &ys[i - 1..i], h);
        ys.extend(next);
    }
    torch::stack(&ys, 0)
}

/// [`solve`] with the adjoint as its gradient. Inputs: where the point begins, and the field's parameters.
struct Adjoint {
    field: Arc<Field>,
    points: i64,
    h: f64,
}
impl Function for Adjoint {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> torch::Result<Vec<Tensor>> {
        let ys = solve(&|y| self.field.call(y), &inputs[0], self.points, self.h);
        ctx.save_for_backward(&[&ys]);
        Ok(vec![ys])
    }
    fn backward(
        &self,
        ctx: &BackwardContext,
        grads: &[Option<Tensor>],
    ) -> torch::Result<Vec<Option<Tensor>>> {
        let parameters: Vec<Tensor> = self.field.parameters().iter().map(|p| p.tensor().clone()).collect();
        let ys = &ctx.saved_tensors()?[0];
        let Some(grad) = &grads[0] else { return Ok(vec![None; 1 + parameters.len()]) };
        // the point, the adjoint (the loss's gradient by the point) and the gradients of the parameters, back in time
        let motion = |state: &[Tensor]| -> Vec<Tensor> {
            let y = state[0].detach().requires_grad_(true);
            let f = torch::enable_grad(|| self.field.call(&y));
            let wanted: Vec<&Tensor> = std::iter::once(&y).chain(&parameters).collect();
            let back = grad_with([&f], wanted, GradOptions::new().grad_outputs([Some(-&state[1])]));
            std::iter::once(f.detach()).chain(back.into_iter().flatten()).collect()
        };
        let mut adjoint = grad.i(-1);
        let mut totals: Vec<Tensor> = parameters.iter().map(torch::zeros_like).collect();
        for i in (1..self.points).rev() {
            let state: Vec<Tensor> = [ys.i(i), adjoint].into_iter().chain(totals).collect();
            let mut earlier = step(&motion, &state, -self.h);
            totals = earlier.split_off(2);
            adjoint = &earlier[1] + grad.i(i - 1);
        }
        Ok(std::iter::once(adjoint).chain(totals).map(Some).collect())
    }
}

/// Where points that begin at `y0` go by the field, with gradients by the adjoint.
fn odeint(field: &Arc<Field>, y0: &Tensor, points: i64, h: f64) -> torch::Result<Tensor> {
    let inputs: Vec<Tensor> =
        std::iter::once(y0.clone()).chain(field.parameters().iter().map(|p| p.tensor().clone())).collect();
    Ok(function::apply(Adjoint { field: field.clone(), points, h }, &inputs)?.remove(0))
}

/// By how much the adjoint's gradients differ from those through all steps of the solver, at most.
fn apart(field: &Arc<Field>, y0: &Tensor, h: f64) -> torch::Result<f64> {
    let parameters: Vec<Tensor> = field.parameters().iter().map(|p| p.tensor().clone()).collect();
    let adjoint = grad([odeint(field, y0, LENGTH, h)?.square().mean()], &parameters);
    let through = grad([solve(&|y| field.call(y), y0, LENGTH, h).square().mean()], &parameters);
    Ok(adjoint.iter().zip(&through).map(|(a, b)| (a - b).abs().max().item::<f64>()).fold(0.0, f64::max))
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps"])?;
    let steps: u64 = flags.number("--steps", 1500)?;
    torch::manual_seed(0);
    let h = DURATION / (POINTS - 1) as f64;
    // the spiral, by its equation
    let rule = torch::tensor([[-0.1, 2.0], [-2.0, -0.1]]);
    let start = torch::tensor([[2.0, 0.0]]);
    let spiral = solve(&|y| y.pow(3).matmul(&rule), &start, POINTS, h);

    let field = Arc::new(Field::new());
    let apart = apart(&field, &start, h)?;
    println!("gradients by the adjoint and through the solver differ by {apart:.1e}");
    let mut optimizer = optim::Adam::new(field.parameters(), 5e-3);
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        let begins = torch::randint(POINTS - LENGTH, BATCH);
        let seen = spiral.squeeze_dim(1).i(torch::arange(LENGTH).unsqueeze(1) + &begins);
        optimizer.zero_grad();
        let predicted = odeint(&field, &seen.i(0), LENGTH, h)?;
        let loss = (predicted - seen).abs().mean();
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.5}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();

    let learned = torch::no_grad(|| odeint(&field, &start, POINTS, h))?;
    let error = (&learned - &spiral).abs().mean().item::<f64>();
    let mut c = Canvas::new(980, 500);
    let frame = Frame { x: 20, y: 50, w: 430, h: 430 };
    let both = torch::cat([&spiral, &learned], 0).squeeze_dim(1);
    let at = c.spread(&both, frame);
    let (seen, learned) = at.split_at(POINTS as usize);
    c.text("seen", 20, 16, 3, INK);
    c.text("learned", 90, 16, 3, RED);
    learned.windows(2).for_each(|w| c.line(w[0], w[1], RED));
    seen.iter().for_each(|p| c.disc(*p, 2.5, INK));
    c.chart("training loss", Frame { x: 500, y: 16, w: 460, h: 470 }, &[("", BLUE, &losses)]);
    let out = flags.text("--out", "neural_ode.png");
    c.save(out)?;
    println!("drew {out}: the spiral, and where the learned equation leads");
    println!("loss {:.5}; the whole path is {error:.4} off on average", late(&losses));
    losses.push(error);
    flags.save_losses(&losses)
}
