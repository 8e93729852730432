//! What takes tensors takes parameters, and what takes a state dict takes what files give.

use flambeau_autograd::grad_fn as autograd;
use flambeau_core::{BackwardOptions, Tensor, functions as torch};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use std::collections::{BTreeMap, HashMap};

#[test]
fn parameters_are_lists_of_tensors() {
    let m = nn::Linear::new(2, 1);
    let x = flambeau_core::api::literal::tensor([[3.0f32, 5.0]]);
    let loss = m.call(&x).sum();
    let all = autograd::grad(&loss, m.parameters());
    assert_eq!((all[0].to_vec::<f32>(), all[1].to_vec::<f32>()), (vec![3., 5.], vec![1.]));
    let loss = m.call(&x).sum();
    let one = autograd::grad([&loss], &m.weight);
    assert!(one[0].equal(&all[0]) && one.len() == 1);
    let loss = m.call(&x).sum();
    loss.backward_with(BackwardOptions::new().inputs(&m.weight));
    assert!(m.weight.grad().unwrap().equal(&all[0]) && m.bias().grad().is_none());
    // lists of parameters, buffers and references to them
    let norm = nn::BatchNorm1d::new(2);
    assert_eq!(torch::stack(norm.parameters(), 0).sizes(), [2, 2]);
    assert_eq!(torch::cat([m.weight.tensor(), &x], 0).sizes(), [2, 2]);
    let held: Vec<&nn::Parameter> = vec![&m.weight, &m.weight];
    assert_eq!(torch::cat(&held, 1).sizes(), [1, 4]);
    let buffers: Vec<Tensor> = norm.buffers().iter().map(|b| b.tensor().clone()).collect();
    assert_eq!(buffers.len(), norm.buffers().len());
}

#[test]
fn state_dicts_of_every_kind() {
    let (a, b) = (nn::Linear::new(2, 3), nn::Linear::new(2, 3));
    let state = a.state_dict();
    let same = || {
        let yes = torch::equal(&a.weight, &b.weight) && torch::equal(a.bias(), b.bias());
        nn::init::zeros_(&b.weight);
        yes
    };
    b.load_state_dict(&state).unwrap();
    assert!(same());
    let map: HashMap<String, Tensor> = state.clone().into();
    b.load_state_dict(&map).unwrap();
    assert!(same());
    let map: BTreeMap<String, Tensor> = state.clone().into();
    b.load_state_dict_with(&map, nn::LoadStateDictOptions::new().strict(false)).unwrap();
    assert!(same());
    let path = std::env::temp_dir().join(format!("flambeau-lists-{}.pt", std::process::id()));
    flambeau_serialization::tensors::save(&state, &path).unwrap();
    let tree = flambeau_serialization::tensors::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    b.load_state_dict(&tree).unwrap();
    assert!(same());
    // a file that holds something else
    let e = b.load_state_dict(&flambeau_serialization::Tree::<Tensor>::Int(3)).unwrap_err();
    assert!(!e.to_string().is_empty());
}
