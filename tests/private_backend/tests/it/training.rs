//! Gradients, modules and optimizers on the vault: the CPU's values.

use crate::{agree, floats, numbers, reads, vault};
use flambeau_test_support::alone;
use torch::prelude::*;
use torch::{nn, optim};

fn model() -> nn::Sequential {
    torch::manual_seed(3);
    nn::Sequential::new((
        nn::Linear::new(5, 8),
        nn::LayerNorm::new(8),
        nn::ReLU::new(),
        nn::Linear::new(8, 3),
    ))
}
/// Losses and parameters of some steps.
fn trained(
    device: torch::Device,
    optimizer: impl FnOnce(&nn::Sequential) -> Box<dyn optim::Optimizer>,
) -> (Vec<f32>, Vec<Tensor>) {
    let mut model = model();
    model.to(device);
    let mut optimizer = optimizer(&model);
    let (x, y) = (numbers(&[7, 5]).to(device), torch::tensor([0i64, 2, 1, 1, 0, 2, 2]).to(device));
    let criterion = nn::CrossEntropyLoss::new();
    let mut losses = Vec::new();
    for _ in 0..4 {
        optimizer.zero_grad();
        let loss = criterion.call(&model.call(&x), &y);
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f32>());
    }
    (losses, model.parameters().iter().map(|p| p.tensor().clone()).collect())
}

#[test]
fn training_gives_the_cpus_values() {
    flambeau_test_support::alone!();
    type Make = fn(&nn::Sequential) -> Box<dyn optim::Optimizer>;
    let all: [(&str, Make); 5] = [
        ("SGD", |m| Box::new(optim::SGDOptions::new().lr(0.1).momentum(0.9).build(m.parameters()))),
        ("Adam", |m| Box::new(optim::AdamOptions::new().lr(0.01).amsgrad(true).build(m.parameters()))),
        ("Adagrad", |m| Box::new(optim::Adagrad::new(m.parameters(), 0.1))),
        ("NAdam", |m| Box::new(optim::NAdam::new(m.parameters(), 0.01))),
        ("RMSprop", |m| Box::new(optim::RMSpropOptions::new().lr(0.01).centered(true).build(m.parameters()))),
    ];
    for (name, make) in all {
        let (here, there) = (trained(torch::Device::Cpu, make), trained(vault(), make));
        for (a, b) in there.0.iter().zip(&here.0) {
            assert!((a - b).abs() < 1e-4, "{name}: {a} {b}");
        }
        there.1.iter().zip(&here.1).for_each(|(a, b)| agree(name, a, b, 1e-4));
    }
}

/// The vault has a kernel of its own for SGD: nothing comes to the host. Adam goes by way of the CPU.
#[test]
fn a_fused_step_stays_where_it_is() {
    alone!();
    let steps = |adam: bool| {
        let p: Vec<_> = [3i64, 40].map(|n| nn::Parameter::new(numbers(&[n]).to(vault()))).into();
        let mut o: Box<dyn optim::Optimizer> = match adam {
            true => Box::new(optim::Adam::new(&p, 0.1)),
            false => Box::new(optim::SGDOptions::new().lr(0.1).momentum(0.9).build(&p)),
        };
        p.iter().for_each(|p| p.set_grad(Some(p.detach() * 2.0)));
        o.step();
        let before = reads();
        (0..3).for_each(|_| o.step());
        (reads() - before, p)
    };
    let (read, p) = steps(false);
    assert_eq!(read, 0);
    let here = nn::Parameter::new(numbers(&[40]));
    let mut o = optim::SGDOptions::new().lr(0.1).momentum(0.9).build([&here]);
    here.set_grad(Some(here.detach() * 2.0));
    (0..4).for_each(|_| o.step());
    agree("momentum", p[1].tensor(), here.tensor(), 1e-6);
    assert!(steps(true).0 > 0);
}

#[test]
fn parameters_of_two_devices() {
    let p = [nn::Parameter::new(numbers(&[3])), nn::Parameter::new(numbers(&[3]).to(vault()))];
    let mut o = optim::Adam::new(&p, 0.1);
    p.iter().for_each(|p| p.set_grad(Some(p.detach() * 2.0)));
    o.step();
    agree("Adam", p[1].tensor(), p[0].tensor(), 1e-6);
}

#[test]
fn gradients() {
    let run = |device| {
        let x = numbers(&[4, 3]).to(device);
        x.requires_grad_(true);
        let y = (x.exp() * &x.narrow(1, 0, 1)).cumsum(0);
        let hooked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = hooked.clone();
        y.register_hook(move |g| {
            seen.store(g.device() != torch::Device::Cpu, std::sync::atomic::Ordering::Relaxed);
            None
        });
        y.sum().backward();
        (x.grad().unwrap(), hooked.load(std::sync::atomic::Ordering::Relaxed))
    };
    let ((there, hooked), (here, _)) = (run(vault()), run(torch::Device::Cpu));
    agree("gradient", &there, &here, 1e-5);
    assert!(hooked);
    // what was saved for a backward pass and written since is refused there as here
    let x = numbers(&[3]).to(vault());
    x.requires_grad_(true);
    let y = &x * 2.0;
    let z = (&y * &y).sum();
    y.add_(1.0);
    let e = z.try_backward(Default::default()).unwrap_err();
    assert!(e.message().contains("modified by an inplace operation"), "{e}");
}

#[test]
fn files() {
    flambeau_test_support::alone!();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.pt");
    let mut there = model();
    there.to(vault());
    torch::save(&there.state_dict(), &path).unwrap();
    // storages go where they were
    let state = torch::load(&path).unwrap();
    let mut again = model();
    again.to(vault());
    again.parameters().iter().for_each(|p| {
        torch::no_grad(|| p.tensor().zero_());
    });
    again.load_state_dict(&state).unwrap();
    for (a, b) in again.parameters().iter().zip(model().parameters()) {
        agree("loaded", a.tensor(), b.tensor(), 0.0);
    }
    // or to another place
    let options = torch::serialization::LoadOptions::new().map_location("cpu");
    let state: nn::StateDict = torch::serialization::load_with(&path, options).unwrap().try_into().unwrap();
    let here = model();
    here.load_state_dict(&state).unwrap();
    assert_eq!(floats(here.parameters()[0].tensor()), floats(model().parameters()[0].tensor()));
}
