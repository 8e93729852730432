//! Training in bfloat16 goes where training in float32 goes.

use flambeau_amp::{AutocastOptions, autocast};
use flambeau_core::tensor::generator::manual_seed;
use flambeau_core::{DType, functions as torch};
use flambeau_nn::{Linear, Module as _, Sequential, Tanh};
use flambeau_nn_functional::functional as F;
use flambeau_optim::{Adam, Optimizer as _};

fn losses(lower: Option<DType>) -> (f32, f32) {
    manual_seed(3);
    let model = Sequential::new((Linear::new(4, 32), Tanh::new(), Linear::new(32, 1)));
    let mut optimizer = Adam::new(model.parameters(), 0.02);
    let x = torch::randn([256, 4]);
    let y = (x.select(1, 0) * x.select(1, 1)).unsqueeze(1);
    let mut seen = Vec::new();
    for _ in 0..150 {
        optimizer.zero_grad();
        let step = || F::mse_loss(&model.call(&x), &y);
        let loss = match lower {
            Some(d) => autocast(AutocastOptions::new("cpu").dtype(d), step),
            None => step(),
        };
        assert_eq!(loss.dtype(), DType::F32);
        loss.backward();
        optimizer.step();
        seen.push(loss.item::<f32>());
    }
    (seen[0], seen[seen.len() - 1])
}

#[test]
fn bfloat16_converges_beside_float32() {
    flambeau_test_support::alone!();
    let (first, plain) = losses(None);
    let (_, brain) = losses(Some(DType::BF16));
    let (_, half) = losses(Some(DType::F16));
    assert!(plain < first * 0.05, "{first} -> {plain}");
    assert!(brain < first * 0.08 && half < first * 0.06, "{first} -> {brain} and {half}, float32 {plain}");
}
