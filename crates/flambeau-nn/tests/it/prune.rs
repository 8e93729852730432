//! Pruned weights.

use crate::t;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::prune;

#[test]
fn pruned_weights() {
    let mut m = nn::Linear::new(4, 3);
    let before = m.weight.clone();
    prune::try_l1_unstructured(&mut m, "weight", 0.5, None).unwrap();
    prune::try_ln_structured(&mut m, "weight", 1, 2, 0, None).unwrap();
    assert_eq!(prune::pruning_methods(&m, "weight").unwrap().len(), 2);
    let zeros = |t: &Tensor| t.to_vec::<f32>().iter().filter(|w| **w == 0.0).count();
    assert!(zeros(&m.weight.value()) >= 6);
    m.call(&t(&[1.; 4], &[1, 4])).sum().backward();
    assert_eq!(
        before.grad().unwrap().to_vec::<f32>(),
        m.state_dict().get("weight_mask").unwrap().to_vec::<f32>()
    );
    m.half();
    assert_eq!(m.weight.value().dtype(), DType::F16);
    m.float();
    assert!(prune::is_pruned(&m));
    prune::try_remove(&mut m, "weight").unwrap();
    assert!(zeros(m.weight.tensor()) >= 6 && m.state_dict().len() == 2);
    let text = |r: Result<()>| r.unwrap_err().message().to_owned();
    assert_eq!(
        text(prune::try_remove(&mut m, "weight")),
        "Parameter 'weight' of module Linear(in_features=4, out_features=3, bias=True) has to be pruned before pruning can \
         be removed"
    );
    assert_eq!(
        text(prune::try_l1_unstructured(&mut m, "weight", 1.5, None)),
        "amount=1.5 should either be a float in the range [0, 1] or a non-negative integer"
    );
    assert_eq!(
        text(prune::try_random_unstructured(&mut m, "weight", 13)),
        "amount=13 should be smaller than the number of parameters to prune=12"
    );
    assert!(!m.weight.is_computed());
    assert_eq!(
        text(prune::try_random_structured(&mut m, "bias", 1, 0)),
        "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape torch.Size([3]) with 1 dims"
    );
    assert_eq!(
        text(prune::try_ln_structured(&mut m, "weight", 1, 2, 2, None)),
        "Invalid index 2 for tensor of size torch.Size([3, 4])"
    );
    assert_eq!(
        text(prune::try_custom_from_mask(&mut m, "weight", &t(&[1.], &[1]))),
        "default_mask shape torch.Size([3, 4]) must match self.mask shape torch.Size([1])"
    );
    let method = prune::RandomStructured::try_new(1, 0).unwrap();
    let mut root = nn::Sequential::new((m,));
    assert!(
        text(prune::try_global_unstructured(&mut root, &["0.weight"], method, None))
            .starts_with("Only \"unstructured\"")
    );
}

/// The mask is PyTorch's for the same weight.
#[test]
fn pruned_by_the_nuclear_norm() {
    let mut m = nn::Conv1d::new(3, 4, 2);
    let values: Vec<f32> = (0..24).map(|i| ((i * i) as f32).sin()).collect();
    let fresh = Tensor::from_vec_raw(values, &[4, 3, 2]).unwrap();
    flambeau_core::ops::copy_(&m.weight.tensor().alias_detached(), &fresh, false).unwrap();
    nn::utils::prune::try_ln_structured(&mut m, "weight", 2, nn::utils::prune::Norm::Nuc, 0, None).unwrap();
    let mask = m.get_buffer("weight_mask").unwrap();
    assert_eq!(mask.select(1, 0).select(1, 0).to_vec::<f32>(), [0.0, 1.0, 1.0, 0.0]);
    let mut flat = nn::Linear::new(3, 2);
    let e = nn::utils::prune::try_ln_structured(&mut flat, "weight", 1, nn::utils::prune::Norm::Nuc, 0, None)
        .unwrap_err();
    assert_eq!(e.message(), "linalg.matrix_norm: dim must be a 2-tuple. Got 1");
}
