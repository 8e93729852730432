//! Computed weights have no memory: whatever way leads to their tensor, nobody reads or writes what is not theirs.

use crate::{close, randn, text};
use flambeau_autograd::checkpoint::checkpoint;
use flambeau_autograd::no_grad;
use flambeau_core::dispatch::stand_in::{Source, StandIn};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Tensor, ops};
use flambeau_nn as nn;
use flambeau_nn::utils::parametrizations::weight_norm;
use flambeau_nn::utils::parametrize;
use std::any::Any;
use std::sync::{Arc, OnceLock};

fn computed() -> nn::Linear {
    let mut l = nn::Linear::new(16, 16);
    weight_norm(&mut l, "weight");
    l
}
/// Tensors whose elements nobody may change.
fn witnesses() -> Vec<Tensor> {
    (0..200).map(|i| Tensor::from_slice(&[i as f32; 256], [16, 16])).collect()
}
fn untouched(all: &[Tensor]) {
    for (i, t) in all.iter().enumerate() {
        assert!(t.to_vec::<f32>().iter().all(|v| *v == i as f32), "tensor {i} was written to");
    }
}

#[test]
fn a_parameter_of_a_computed_weight_has_its_value() {
    let around = witnesses();
    let l = computed();
    let p = nn::Parameter::new(&*l.weight);
    assert_eq!(p.storage().nbytes(), 1024);
    close(&p, &l.weight.value());
    no_grad(|| p.add_(1.0));
    untouched(&around);
}

#[test]
fn every_alias_of_a_computed_weight_stands_for_it() {
    let around = witnesses();
    let l = computed();
    let value = l.weight.value();
    let w: &Tensor = &l.weight;
    for alias in [w.alias_detached(), w.alias_parameter(), w.alias_detached().alias_parameter()] {
        close(&ops::mul(&alias, &alias).unwrap(), &ops::mul(&value, &value).unwrap());
        assert!(text(alias.try_elements::<f32>()).contains("computed"));
        assert!(alias.view_raw([16i64, 16], [16i64, 1], 0).is_err());
        assert!(alias.storage().with_bytes(|b| b.is_empty()).unwrap());
    }
    let wrapped = w.alias_detached().into_wrapped_number();
    assert!(ops::add(&wrapped, &value, 1.into()).is_ok());
    untouched(&around);
}

#[test]
fn no_key_is_load_bearing() {
    use flambeau_core::internal::excluding;
    use flambeau_core::types::keys::{ALL_KEYS, Key, KeySet};
    let around = witnesses();
    let l = computed();
    let other = randn(&[16, 16]);
    for w in [l.weight.alias_detached(), l.weight.tensor().clone()] {
        let all = |w: &Tensor| {
            let _ = ops::mul(w, w);
            let _ = ops::mul(&other, w);
            let _ = ops::matmul(w, &other);
            let _ = ops::sum(w, None, false, None);
            let _ = ops::clone(w, None);
            let _ = ops::reshape(w, &[-1]).map(|t| t.to_vec::<f32>());
            let _ = ops::copy_(&ops::clone(&other, None).unwrap(), w, false);
            let _ = no_grad(|| ops::add_(w, &other, 1.into()));
            let _ = no_grad(|| ops::fill_(w, 3.into()));
            let _ = no_grad(|| ops::zero_(w));
        };
        excluding(KeySet::of(Key::StandIn), || all(&w));
        w.set_key(Key::StandIn, false);
        all(&w);
        for k in ALL_KEYS {
            w.set_key(k, true);
            let _ = ops::mul(&w, &w);
            w.set_key(k, false);
        }
        w.set_key(Key::Cpu, true);
        w.set_key(Key::StandIn, true);
    }
    untouched(&around);
}

#[test]
fn checkpoints_see_the_value_of_a_computed_weight() {
    let l = computed();
    let x = randn(&[4, 16]).requires_grad_(true);
    let body = |i: &[Tensor]| Ok(vec![ops::matmul(&i[0], &i[1])?]);
    let y = checkpoint(body, [&x, l.weight.tensor()]).unwrap();
    y[0].sum().backward();
    let want =
        ops::matmul(&Tensor::from_slice(&[1f32; 64], [4, 16]), &ops::t(&l.weight.value()).unwrap()).unwrap();
    close(&x.grad().unwrap(), &want);
}

/// Gives the stand-in that it computes.
#[derive(Default)]
struct Itself(OnceLock<Tensor>);
impl Source for Itself {
    fn value(&self) -> Result<Tensor> {
        let t = self.0.get().unwrap();
        ops::add(t, t, 1.into())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn a_weight_that_needs_itself_is_an_error() {
    let source = Arc::new(Itself::default());
    let s = StandIn::new(&[2], &[1], DType::F32, Device::Cpu, source.clone()).unwrap();
    source.0.set(s.tensor().clone()).unwrap();
    assert!(text(ops::exp(s.tensor())).contains("stands for itself"));
    assert!(StandIn::new(&[2], &[1, 1], DType::F32, Device::Cpu, source.clone()).is_err());
    assert!(StandIn::new(&[1 << 40, 1 << 40], &[1, 1], DType::F32, Device::Cpu, source).is_err());
}

#[test]
fn cached_weights_are_those_of_their_own_module() {
    parametrize::cached(|| {
        for _ in 0..200 {
            let mut l = nn::Linear::new(2, 2);
            let first = l.weight.clone();
            let double = Box::new(crate::parametrize::Double {});
            parametrize::try_register_parametrization(&mut l, "weight", double).unwrap();
            close(&l.weight.value(), &ops::add(&first, &first, 1.into()).unwrap());
        }
    });
}
