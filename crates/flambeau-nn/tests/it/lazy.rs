//! Modules that take their sizes from the first input.

use crate::{close, full, randn};
use flambeau_core::DType;
use flambeau_nn as nn;
use flambeau_test_support::alone;
use nn::prelude::*;
use nn::{LazyModule, LoadStateDictOptions, Parameter};

fn names(m: &dyn Module) -> Vec<String> {
    m.state_dict().keys().map(str::to_owned).collect()
}

#[test]
fn lazy_modules_take_their_sizes_from_the_first_input() {
    alone!();
    let lazy = nn::LazyLinear::new(5);
    assert_eq!(lazy.to_string(), "LazyLinear(in_features=0, out_features=5, bias=True)");
    assert!(lazy.has_uninitialized_params() && lazy.materialized().is_none());
    let before = lazy.state_dict();
    assert_eq!(before.keys().collect::<Vec<_>>(), ["weight", "bias"]);
    assert!(before.is_uninitialized("weight") && before.is_uninitialized("bias"));
    let held: Vec<Parameter> = lazy.parameters();
    assert!(held.iter().all(|p| p.is_uninitialized() && p.requires_grad()));
    assert_eq!(format!("{:?}", held[0]), "<UninitializedParameter>");

    let x = randn(&[2, 3]);
    let y = lazy.call(&x);
    assert_eq!(y.sizes(), [2, 5]);
    assert_eq!(lazy.to_string(), "Linear(in_features=3, out_features=5, bias=True)");
    // the parameters that were taken before are those of the module still
    assert_eq!(held[0].sizes(), [5, 3]);
    y.sum().backward();
    assert_eq!(held[1].grad().unwrap().to_vec::<f32>(), [2.0; 5]);
    assert!(!lazy.state_dict().is_uninitialized("weight"));
    // the same numbers as the regular module has
    flambeau_core::tensor::generator::manual_seed(3);
    let lazy = nn::LazyConv2dOptions::new(4, 3).padding(1).build();
    let made = lazy.forward(&full(&[1, 2, 5, 5], 1.0));
    flambeau_core::tensor::generator::manual_seed(3);
    let plain = nn::Conv2dOptions::new(2, 4, 3).padding(1).build();
    close(&made, &plain.forward(&full(&[1, 2, 5, 5], 1.0)));
    assert_eq!(lazy.to_string(), plain.to_string());
}

#[test]
fn lazy_modules_load_and_convert_before_their_first_input() {
    let full = nn::BatchNorm2d::new(3);
    let lazy = nn::LazyBatchNorm2d::new();
    assert_eq!(names(&lazy), names(&full));
    lazy.load_state_dict(&full.state_dict()).unwrap();
    assert!(!lazy.has_uninitialized_params());
    assert_eq!(lazy.get_buffer("running_var").unwrap().sizes(), [3]);
    // nothing to load yet on either side
    nn::LazyLinear::new(2).load_state_dict(&nn::LazyLinear::new(2).state_dict()).unwrap();
    // sizes that are known do not load what has none
    let e = nn::Linear::new(3, 2).load_state_dict(&nn::LazyLinear::new(2).state_dict()).unwrap_err();
    assert!(e.to_string().contains("While copying the parameter named \"weight\""), "{e}");
    let e = lazy.load_state_dict(&nn::BatchNorm2d::new(4).state_dict()).unwrap_err();
    assert!(e.to_string().contains("size mismatch for weight"), "{e}");

    let mut lazy = nn::LazyConvTranspose1d::new(4, 3);
    lazy.to(DType::F64);
    assert!(lazy.has_uninitialized_params());
    assert_eq!(lazy.forward(&randn(&[2, 3, 6]).to(DType::F64)).dtype(), DType::F64);
    let mut lazy = nn::LazyLinear::new(2);
    lazy.assign_state_dict(&nn::Linear::new(3, 2).state_dict(), LoadStateDictOptions::new()).unwrap();
    assert_eq!(lazy.forward(&randn(&[1, 3])).sizes(), [1, 2]);
}

#[test]
fn lazy_errors() {
    let e = nn::LazyConv2d::new(4, 3).try_forward(&randn(&[3, 3])).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Expected 3D (unbatched) or 4D (batched) input to LazyConv2d, but got input of size: torch.Size([3, 3])"
    );
    let e = nn::LazyConv1dOptions::new(4, 3).groups(2).build().try_forward(&randn(&[1, 3, 5])).unwrap_err();
    assert_eq!(e.to_string(), "in_channels must be divisible by groups");
    let e = nn::LazyConv2dOptions::new(4, -3).try_build().unwrap_err();
    assert_eq!(e.to_string(), "Trying to create tensor with negative dimension -3: [0, 0, -3, -3]");
    let lazy = nn::LazyLinear::new(2);
    lazy.load_state_dict(&nn::Linear::new(3, 2).state_dict()).unwrap();
    let e = lazy.try_forward(&randn(&[1, 4])).unwrap_err();
    assert!(e.to_string().starts_with("The in_features inferred from input: 4 is not equal"), "{e}");
    let p = Parameter::uninitialized(true, Some(DType::F64), None).unwrap();
    p.materialize(&[2, 2]).unwrap();
    assert_eq!((p.sizes(), p.dtype(), p.requires_grad()), (&[2, 2][..], DType::F64, true));
    assert!(p.materialize(&[2, 2]).is_err());
    assert!(Parameter::uninitialized(true, Some(DType::I64), None).is_err());
}
