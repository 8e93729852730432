//! Computed weights.

use crate::t;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, ops};
use flambeau_nn as nn;
use flambeau_nn::StateDict;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::parametrize::{Inverse, Parametrization};
use flambeau_nn::utils::{parametrizations, parametrize};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Debug, Module)]
pub struct Double {}

impl Forward<&Tensor> for Double {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        x * 2.0
    }
}

#[derive(Debug, Module)]
struct Exp {}

impl Parametrization for Exp {
    fn compute(&self, originals: &[Tensor]) -> Result<Tensor> {
        ops::exp(&originals[0])
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Inverse> {
        ops::log(value).map(Inverse::One)
    }
}

#[derive(Debug, Module)]
struct Narrow {}

impl Forward<&Tensor> for Narrow {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        x.narrow(0, 0, 1)
    }
}

#[test]
fn parametrized_weights() {
    let mut m = nn::Linear::new(2, 2);
    let first = m.weight.clone();
    ops::copy_(&first.tensor().alias_detached(), &t(&[1., 2., 3., 4.], &[2, 2]), false).unwrap();
    parametrize::try_register_parametrization(&mut m, "weight", Exp {}).unwrap();
    parametrize::try_register_parametrization(&mut m, "weight", Box::new(Double {})).unwrap();
    // the parameter stays the same one for optimizers
    assert!(m.get_parameter("parametrizations.weight.original").unwrap().is_same(&first));
    assert!(m.weight.is_computed() && m.weight.sizes() == [2, 2] && m.weight.dtype() == DType::F32);
    let close =
        |a: Vec<f32>, b: &[f32]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
    close(m.weight.value().to_vec::<f32>(), &[2., 4., 6., 8.]);
    close(m.weight.to_vec::<f32>(), &[2., 4., 6., 8.]);
    assert!(m.weight.try_elements::<f32>().is_err());
    assert_eq!(
        m.to_string(),
        "ParametrizedLinear(\n  in_features=2, out_features=2, bias=True\n  (parametrizations): ModuleDict(\n    (weight): \
         ParametrizationList(\n      (0): Exp()\n      (1): Double()\n    )\n  )\n)"
    );
    assert_eq!(m.get_parameter("weight").unwrap_err().message(), "`weight` is not an nn.Parameter");
    let e = m.load_state_dict(&StateDict::new()).unwrap_err();
    assert!(
        e.message().starts_with("Error(s) in loading state_dict for ParametrizedLinear:\n\tMissing key(s)"),
        "{e}"
    );
    // gradients reach the original: d(2 exp(o) x)/do
    m.call(&t(&[1., 1.], &[1, 2])).sum().backward();
    close(first.grad().unwrap().to_vec::<f32>(), &[2., 4., 6., 8.]);
    // assignments need an inverse of every step
    let e = parametrize::try_assign(&m, "weight", &t(&[1.; 4], &[2, 2])).unwrap_err();
    assert_eq!(e.message(), "parametrization Double does not implement right_inverse.");
    m.double();
    assert_eq!((m.weight.dtype(), m.weight.value().dtype()), (DType::F64, DType::F64));
    assert_eq!(m.forward(&t(&[1., 1.], &[1, 2]).try_to(DType::F64).unwrap()).dtype(), DType::F64);
    m.float();
    parametrize::try_remove_parametrizations(&mut m, "weight", true).unwrap();
    close(m.weight.to_vec::<f32>(), &[2., 4., 6., 8.]);
    assert!(!m.weight.is_computed() && !parametrize::is_parametrized(&m, None));
    assert_eq!(m.to_string(), "Linear(in_features=2, out_features=2, bias=True)");
    let e = parametrize::try_remove_parametrizations(&mut m, "weight", true).unwrap_err();
    assert!(e.message().ends_with("does not have a parametrization on weight"), "{e}");
    let e = parametrize::try_register_parametrization(&mut m, "nothing", Exp {}).unwrap_err();
    assert_eq!(
        e.message(),
        "Module 'Linear(in_features=2, out_features=2, bias=True)' does not have a parameter, a buffer, or a parametrized \
         element with name 'nothing'"
    );
    let e = parametrize::try_register_parametrization(&mut m, "weight", Box::new(Narrow {})).unwrap_err();
    assert_eq!(
        e.message(),
        "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n\
         unparametrized shape: torch.Size([2, 2])\nparametrized shape: torch.Size([1, 2])"
    );
    assert!(!m.weight.is_computed() && m.state_dict().len() == 2);
    parametrize::try_register_parametrization_unchecked(&mut m, "weight", Box::new(Narrow {})).unwrap();
    assert_eq!(m.weight.sizes(), [1, 2]);
}

#[test]
fn assignments_and_caching() {
    let mut m = nn::LinearOptions::new(2, 2).bias(false).build();
    parametrize::try_register_parametrization(&mut m, "weight", Box::new(Double {})).unwrap();
    let mut e = nn::LinearOptions::new(2, 2).bias(false).build();
    ops::fill_(&e.weight.tensor().alias_detached(), 1.into()).unwrap();
    parametrize::try_register_parametrization(&mut e, "weight", Exp {}).unwrap();
    parametrize::try_assign(&e, "weight", &t(&[3.; 4], &[2, 2])).unwrap();
    assert!(e.weight.to_vec::<f32>().iter().all(|w| (w - 3.0).abs() < 1e-5));
    let (a, b) = parametrize::cached(|| (m.weight.value(), m.weight.value()));
    assert!(a.is_same(&b));
    assert!(!m.weight.value().is_same(&a));
    let panicked = catch_unwind(AssertUnwindSafe(|| parametrize::cached(|| panic!("out"))));
    assert!(panicked.is_err() && !m.weight.value().is_same(&m.weight.value()));
    // what is computed of a module that is gone says so
    let hollow = m.weight.tensor().clone();
    drop(m);
    let gone = ops::exp(&hollow).unwrap_err();
    assert!(gone.message().contains("the module that computes it is gone"), "{gone}");
    let mut other = nn::LinearOptions::new(2, 2).bias(false).build();
    parametrize::try_transfer_parametrizations_and_params(&e, &mut other, None).unwrap();
    assert_eq!(other.weight.to_vec::<f32>(), e.weight.to_vec::<f32>());
    assert!(other.parameters()[0].is_same(&e.parameters()[0]));
}

#[test]
fn orthogonal_weights_are_orthogonal() {
    use parametrizations::{OrthogonalMap, OrthogonalOptions, try_orthogonal};
    for map in [OrthogonalMap::MatrixExp, OrthogonalMap::Cayley, OrthogonalMap::Householder] {
        for (n, k) in [(4, 4), (6, 3), (3, 6)] {
            for trivial in [true, false] {
                let mut m = nn::LinearOptions::new(k, n).bias(false).dtype(DType::F64).build();
                let o = OrthogonalOptions::new().orthogonal_map(map).use_trivialization(trivial);
                try_orthogonal(&mut m, "weight", o).unwrap();
                let check = |m: &nn::Linear| {
                    let q = m.weight.value();
                    let q = if n < k { q.transpose(0, 1) } else { q };
                    let gram = q.transpose(0, 1).matmul(&q).to_vec::<f64>();
                    let side = n.min(k) as usize;
                    for (i, g) in gram.iter().enumerate() {
                        let want = f64::from(i % (side + 1) == 0);
                        assert!((g - want).abs() < 1e-12, "{map:?} {n}x{k} {trivial}: {gram:?}");
                    }
                };
                check(&m);
                // a step along the gradient stays on the manifold
                m.weight.value().narrow(0, 0, 1).sum().backward();
                let p = m.parameters()[0].clone();
                let g = p.grad().unwrap();
                ops::add_(&p.tensor().alias_detached(), &g, 0.3.into()).unwrap();
                if map != OrthogonalMap::Householder {
                    check(&m);
                }
                let mut other = nn::LinearOptions::new(k, n).bias(false).dtype(DType::F64).build();
                parametrizations::try_orthogonal(&mut other, "weight", Default::default()).unwrap();
                let q = other.weight.value().alias_detached();
                let assigned = parametrize::try_assign(&m, "weight", &q);
                if trivial {
                    assigned.unwrap();
                    let error = (m.weight.value() - &q).abs().max().item::<f64>();
                    assert!(error < 1e-12, "{map:?} {n}x{k}: {error}");
                } else if map != OrthogonalMap::Householder {
                    assert!(
                        assigned
                            .unwrap_err()
                            .message()
                            .starts_with("It is not possible to assign to the matrix")
                    );
                }
            }
        }
    }
    let e = try_orthogonal(&mut nn::Linear::new(1, 1), "bias", OrthogonalOptions::new()).unwrap_err();
    assert_eq!(e.message(), "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions.");
}
