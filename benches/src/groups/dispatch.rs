//! What a call costs beside its arithmetic.

use crate::input::fill;
use crate::row::Rows;
use torch::nn;
use torch::prelude::*;

fn linear16() -> impl FnMut() -> Tensor {
    let (m, x) = (nn::Linear::new(16, 16), fill([1, 16], 1));
    torch::no_grad(|| {
        m.weight.copy_(&fill([16, 16], 2));
        if let Some(bias) = &m.bias {
            bias.copy_(&fill([16], 3));
        }
    });
    move || m.call(&x)
}

pub fn rows(r: &mut Rows) {
    for n in [1, 64] {
        r.add(format!("dispatch/add_{n}"), move || {
            let (a, b) = (fill([n], 1), fill([n], 2));
            move || &a + &b
        });
    }
    r.add("dispatch/chain10_64", || {
        let (a, b) = (fill([64], 1), fill([64], 2));
        move || {
            let mut y = a.clone();
            for _ in 0..5 {
                y = &y * &b;
                y = &y + &b;
            }
            y
        }
    });
    let square = || fill([32, 32], 1);
    r.add("dispatch/view", move || {
        let t = square();
        move || t.view([8, 128])
    });
    r.add("dispatch/slice", move || {
        let t = square();
        move || t.i(4..12)
    });
    r.add("dispatch/transpose", move || {
        let t = square();
        move || t.transpose(0, 1)
    });
    r.add("dispatch/autograd10", || {
        let x = torch::tensor(0.5).requires_grad_(true);
        move || {
            x.set_grad(None);
            let mut y = x.clone();
            for _ in 0..5 {
                y = &y * &x;
                y = &y + &x;
            }
            y.backward();
            x.grad().expect("the leaf has a gradient")
        }
    });
    r.add("dispatch/linear16", linear16);
    r.add("dispatch/linear16_nograd", linear16).no_grad();
}
