//! Sparse gradients through a whole program: embeddings, accumulation, clipping, optimizers, files. Numbers are those of
//! PyTorch 2.15.

use torch::nn;
use torch::optim::{self, Optimizer};
use torch::prelude::*;

/// Four rows of two, of which the gradient names 1, 2 and 1 again.
fn embedding() -> nn::Embedding {
    let weight = torch::arange(8).to(f32).view([4, 2]);
    let e = nn::EmbeddingOptions::new(4, 2).sparse(true)._weight(&weight).build();
    backward(&e);
    e
}
fn backward(e: &nn::Embedding) {
    let by = torch::arange(6).to(f32).view([3, 2]);
    (&e.call(&torch::tensor([1, 2, 1])) * &by).sum().backward();
}
fn grad(e: &nn::Embedding) -> Tensor {
    e.weight.grad().unwrap()
}
#[track_caller]
fn assert_close(t: &Tensor, want: &[f32]) {
    let got = t.to_vec::<f32>();
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5),
        "{got:?} {want:?}"
    );
}

#[test]
fn gradients_accumulate() {
    let e = embedding();
    let g = grad(&e);
    assert!(g.is_sparse() && !g.is_coalesced() && g.sizes() == [4, 2]);
    assert_eq!(g._indices().to_vec::<i64>(), [1, 2, 1]);
    assert_eq!(g.to_dense().to_vec::<f32>(), [0.0, 0.0, 4.0, 6.0, 2.0, 3.0, 0.0, 0.0]);
    // sparse and sparse, then a dense one: from then on the gradient is dense
    e.call(&torch::tensor([3, 1])).sum().backward();
    assert_eq!(grad(&e)._nnz(), 5);
    (e.weight.tensor() * 2.0).sum().backward();
    assert!(!grad(&e).is_sparse());
    backward(&e);
    assert_eq!(grad(&e).to_vec::<f32>(), [2.0, 2.0, 11.0, 15.0, 6.0, 8.0, 3.0, 3.0]);
    // both kinds within one pass
    e.weight.set_grad(None);
    (e.call(&torch::tensor([3, 1])).sum() + e.weight.tensor().sum()).backward();
    assert_eq!(grad(&e).to_vec::<f32>(), [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);

    let padded = nn::EmbeddingOptions::new(4, 2).sparse(true).padding_idx(1).build();
    padded.call(&torch::tensor([3, 1, 0])).sum().backward();
    assert_eq!(padded.weight.grad().unwrap()._indices().to_vec::<i64>(), [3, 0]);
    let bag = nn::EmbeddingBagOptions::new(4, 2).sparse(true).mode("mean").build();
    bag.try_forward(&torch::tensor([[3, 3], [1, 0]]), None, None).unwrap().sum().backward();
    let g = bag.weight.grad().unwrap();
    assert_eq!((g._indices().to_vec::<i64>(), g._values().to_vec::<f32>()), (vec![3, 3, 1, 0], vec![0.5; 8]));
    let counted = nn::EmbeddingOptions::new(4, 2).sparse(true).scale_grad_by_freq(true).build();
    let e = counted.call(&torch::tensor([3])).sum().try_backward(&Default::default()).unwrap_err();
    assert!(e.message().contains("scale_grad_by_freq not supported with sparse gradients"), "{e}");
}

#[test]
fn clipping_and_zeroing() {
    let e = embedding();
    let norm = nn::utils::clip_grad_norm_(&[e.weight.tensor().clone()], 1.0);
    assert_close(&norm, &[65f32.sqrt()]);
    assert!(grad(&e).is_sparse());
    assert_close(&grad(&e)._values(), &[0.0, 0.124035, 0.248069, 0.372104, 0.496139, 0.620174]);
    let mut o = optim::SGD::new([&e.weight], 0.1);
    o.try_zero_grad(false).unwrap();
    assert_eq!((grad(&e)._nnz(), grad(&e).is_sparse()), (0, true));
    o.zero_grad();
    assert!(e.weight.grad().is_none());
}

/// Two steps with the same gradient.
fn steps<O: Optimizer>(make: impl Fn(&nn::Parameter) -> O) -> (O, Tensor) {
    let e = embedding();
    let mut o = make(&e.weight);
    o.step();
    o.zero_grad();
    backward(&e);
    o.step();
    (o, e.weight.tensor().detach())
}

#[test]
fn optimizers_move_the_named_rows() {
    let sgd = || optim::SGDOptions::new().lr(0.1);
    assert_close(&steps(|w| sgd().build([w])).1, &[0.0, 1.0, 1.2, 1.8, 3.6, 4.4, 6.0, 7.0]);
    assert_close(&steps(|w| sgd().maximize(true).build([w])).1, &[0.0, 1.0, 2.8, 4.2, 4.4, 5.6, 6.0, 7.0]);
    let (o, w) = steps(|w| sgd().momentum(0.9).build([w]));
    assert_close(&w, &[0.0, 1.0, 0.84, 1.26, 3.42, 4.13, 6.0, 7.0]);
    let buffer = o.param_state(0, 0).get("momentum_buffer").unwrap();
    assert_eq!(buffer._indices().to_vec::<i64>(), [1, 2, 1]);
    assert_close(&buffer._values(), &[0.0, 1.9, 3.8, 5.7, 7.6, 9.5]);
    let nesterov = steps(|w| sgd().momentum(0.9).nesterov(true).build([w])).1;
    assert_close(&nesterov, &[0.0, 1.0, 0.156, 0.234, 3.078, 3.617, 6.0, 7.0]);
    let (o, w) = steps(|w| optim::AdagradOptions::new().lr(0.1).build([w]));
    assert_close(&w, &[0.0, 1.0, 1.829289, 2.829289, 3.829289, 4.829289, 6.0, 7.0]);
    assert_close(o.param_state(0, 0).get("sum").unwrap(), &[0.0, 0.0, 32.0, 72.0, 8.0, 18.0, 0.0, 0.0]);
    let (o, w) = steps(|w| optim::SparseAdam::new([w], 0.1));
    assert_close(&w, &[0.0, 1.0, 1.8, 2.8, 3.8, 4.8, 6.0, 7.0]);
    assert_close(o.param_state(0, 0).get("exp_avg").unwrap(), &[0.0, 0.0, 0.76, 1.14, 0.38, 0.57, 0.0, 0.0]);
    assert_eq!(o.param_state(0, 0).number("step"), Some(2.0));
    let second = [0.0, 0.0, 0.031984, 0.071964, 0.007996, 0.017991, 0.0, 0.0];
    assert_close(o.param_state(0, 0).get("exp_avg_sq").unwrap(), &second);

    let refused = |o: &mut dyn Optimizer| o.try_step().unwrap_err().message().to_string();
    let e = embedding();
    let text = "Adam does not support sparse gradients, please consider SparseAdam instead";
    assert_eq!(refused(&mut optim::Adam::new([&e.weight], 0.1)), text);
    assert_eq!(refused(&mut optim::AdamW::new([&e.weight], 0.1)), text);
    assert_eq!(
        refused(&mut optim::RMSprop::new([&e.weight], 0.1)),
        "RMSprop does not support sparse gradients"
    );
    assert_eq!(
        refused(&mut sgd().weight_decay(0.1).build([&e.weight])),
        "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
    );
    assert_eq!(
        refused(&mut optim::AdagradOptions::new().lr(0.1).weight_decay(0.1).build([&e.weight])),
        "weight_decay option is not compatible with sparse gradients"
    );
}

#[test]
fn files_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse.pt");
    let t = torch::tensor([[0.0, 1.0], [2.0, 0.0]]);
    for s in [t.to_sparse(), t.to_sparse_csr(), t.to_sparse_bsr([1, 2])] {
        torch::save(&s, &path).unwrap();
        let back = torch::load(&path).unwrap();
        let back = back.as_tensor().unwrap();
        assert_eq!(back.layout(), s.layout());
        assert_eq!(back.to_string(), s.to_string());
    }
    let by_name =
        torch::library::call("torch.Tensor.to_sparse", &[torch::library::Value::Tensor(t.clone())], &[])
            .unwrap();
    assert!(matches!(&by_name[0], torch::library::Value::Tensor(s) if s._nnz() == 2));
    assert_eq!(torch::sparse::mm(&t.to_sparse(), &t).to_vec::<f32>(), [2.0, 0.0, 0.0, 2.0]);
}
