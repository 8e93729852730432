//! Copies of modules.

use crate::{text, values};
use flambeau_core::{ErrorKind, Tensor, functions as torch};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::parametrize;
use flambeau_nn::{Buffer, TransformerOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Module)]
struct Net {
    base: nn::Base,
    first: nn::Linear,
    shared: Arc<nn::Linear>,
    again: Arc<nn::Linear>,
    layers: Vec<Box<dyn nn::Layer>>,
    free: Parameter,
    also_free: Parameter,
    seen: Buffer,
    scale: f64,
    named: std::collections::BTreeMap<String, nn::Linear>,
    maybe: Option<[nn::Linear; 2]>,
}

impl Forward<&Tensor> for Net {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.again.call(&self.shared.call(&self.first.call(x)));
        self.layers.iter().fold(x, |x, l| l.call(&x)) * self.scale
            + &(self.free.tensor() * self.also_free.tensor())
    }
}

fn net() -> Net {
    let shared = Arc::new(nn::Linear::new(3, 3));
    let free = Parameter::new(torch::ones([3]));
    Net {
        base: nn::Base::new(),
        first: nn::Linear::new(3, 3),
        again: shared.clone(),
        shared,
        layers: vec![Box::new(nn::ReLU::new()), Box::new(nn::BatchNorm1d::new(3))],
        also_free: free.clone(),
        free,
        seen: Buffer::new(torch::zeros([1])).persistent(false),
        scale: 0.5,
        named: [("one".to_owned(), nn::Linear::new(1, 1))].into(),
        maybe: Some([nn::Linear::new(1, 1), nn::Linear::new(1, 1)]),
    }
}

#[test]
fn copies_are_like_their_originals_and_apart() {
    let m = net();
    m.register_buffer("extra", Buffer::new(torch::ones([2]))).unwrap();
    m.parameters()[0].requires_grad_(false);
    let x = torch::randn([4, 3]);
    m.call(&x).sum().backward();
    m.eval();
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    m.first.register_forward_hook(move |_, _, _| {
        count.fetch_add(1, Ordering::Relaxed);
        None
    });
    let copy = m.deepcopy();
    assert_eq!(copy.repr(), m.repr());
    assert_eq!(values(&copy.call(&x)), values(&m.call(&x)));
    assert_eq!(called.load(Ordering::Relaxed), 2);
    assert!(!copy.is_training() && !copy.layers[1].is_training());
    let (old, new) = (m.named_parameters(), copy.named_parameters());
    assert_eq!(old.len(), new.len());
    for ((a, p), (b, q)) in old.iter().zip(&new) {
        assert_eq!((a, p.requires_grad(), values(p)), (b, q.requires_grad(), values(q)));
        assert!(!p.is_same(q) && q.grad().is_none() && q.is_leaf());
        assert_ne!(p.data_ptr().unwrap(), q.data_ptr().unwrap());
    }
    // what was shared is shared, and nothing with the original
    assert!(Arc::ptr_eq(&copy.shared, &copy.again) && !Arc::ptr_eq(&copy.shared, &m.shared));
    assert!(copy.free.is_same(&copy.also_free));
    assert!(!copy.seen.is_persistent() && copy.get_buffer("extra").is_ok());
    copy.get_buffer("extra").unwrap().fill_(7);
    assert_eq!(values(&m.get_buffer("extra").unwrap()), [1.0, 1.0]);
    let keys = |m: &Net| m.state_dict().keys().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(keys(&m), keys(&copy));
}

#[test]
fn library_modules_are_copied() {
    let x = torch::randn([2, 3, 4]);
    let whole = TransformerOptions::new().d_model(4).nhead(2).dim_feedforward(4).build();
    whole.eval();
    assert_eq!(values(&whole.deepcopy().call(&x, &x)), values(&whole.call(&x, &x)));
    let lazy = nn::LazyLinear::new(2);
    let open = lazy.deepcopy();
    assert_eq!(open.call(&x).sizes(), [2, 3, 2]);
    assert!(lazy.materialized().is_none());
    let closed = open.deepcopy();
    assert_eq!(values(&closed.call(&x)), values(&open.call(&x)));
    let any: Box<dyn Module> = Box::new(nn::GRU::new(4, 4));
    assert_eq!(any.deepcopy().state_dict().len(), any.state_dict().len());
    let adaptive = nn::AdaptiveLogSoftmaxWithLoss::new(4, 10, vec![2, 5]);
    assert_eq!(adaptive.deepcopy().repr(), adaptive.repr());
    let dict = nn::ModuleDict::new([("a", nn::Linear::new(1, 1))]);
    assert!(!dict.deepcopy()["a"].weight.is_same(&dict["a"].weight));
    let loss = nn::CrossEntropyLossOptions::new().weight(torch::ones([2])).build();
    assert_eq!(loss.deepcopy().state_dict().len(), 1);
}

#[derive(Debug, Module)]
struct Counted {
    number: AtomicUsize,
}

#[test]
fn what_cannot_be_copied_says_so() {
    let e = Counted { number: AtomicUsize::new(0) }.try_deepcopy().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Missing);
    assert!(e.message().contains("Counted.number"), "{e}");
    let mut layer = nn::Linear::new(2, 2);
    parametrize::try_register_parametrization(&mut layer, "weight", Box::new(nn::Identity::new())).unwrap();
    let e = nn::Sequential::new((layer,)).try_deepcopy().unwrap_err();
    assert!(e.kind() == ErrorKind::Missing && e.message().contains("computed from others"), "{e}");
    let m = nn::Linear::new(2, 2);
    m.register_buffer("made", Buffer::new(m.weight.tensor() * 2.0)).unwrap();
    assert!(text(m.try_deepcopy()).starts_with("Only Tensors created explicitly by the user (graph leaves)"));
}
