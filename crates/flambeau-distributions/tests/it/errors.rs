use flambeau_core::api::literal::tensor;
use flambeau_core::{ErrorKind, Tensor};
use flambeau_distributions::*;

#[test]
fn arguments_outside_their_constraint_are_named() {
    let e = NormalOptions::new(0.0, -1.0).try_build().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Value);
    assert_eq!(
        e.message(),
        "Expected parameter scale (Tensor of shape ()) of distribution Normal(loc: 0.0, scale: -1.0) to satisfy the \
         constraint GreaterThan(lower_bound=0.0), but found invalid values:\n-1.0"
    );
    assert!(NormalOptions::new(0.0, -1.0).validate_args(false).try_build().is_ok());
    let e = BernoulliOptions::new().try_build().unwrap_err();
    assert_eq!(e.message(), "Either `probs` or `logits` must be specified, but not both.");
    assert!(BernoulliOptions::new().probs(0.5).logits(0.1).try_build().is_err());
    let e = UniformOptions::new(2.0, 1.0).try_build().unwrap_err();
    assert!(e.message().contains("LessThan(upper_bound=1.0)"), "{e}");
}
#[test]
fn values_outside_the_support_are_refused() {
    let d = Exponential::new(1.0);
    let e = d.try_log_prob(&tensor([-1.0, 2.0])).unwrap_err();
    assert!(
        e.message().starts_with("Expected value argument (Tensor of shape (2,)) to be within the support"),
        "{e}"
    );
    let d = Normal::new(tensor([0.0, 1.0, 2.0]), 1.0);
    let e = d.try_log_prob(&tensor([1.0, 2.0])).unwrap_err();
    assert_eq!(
        e.message(),
        "Value is not broadcastable with batch_shape+event_shape: torch.Size([2]) vs torch.Size([3])."
    );
    let d = Dirichlet::new(tensor([1.0, 2.0, 3.0]));
    let e = d.try_log_prob(&tensor([0.5, 0.5])).unwrap_err();
    assert_eq!(
        e.message(),
        "The right-most size of value must match event_shape: torch.Size([2]) vs torch.Size([3])."
    );
}
#[test]
fn what_a_distribution_cannot_do_is_an_error() {
    let d = Poisson::new(1.0);
    for e in [
        d.try_rsample(&[2]).unwrap_err(),
        d.try_cdf(&tensor(1.0)).unwrap_err(),
        d.try_entropy().unwrap_err(),
        try_kl_divergence(&Gumbel::new(0.0, 1.0), &Poisson::new(1.0)).unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::Unsupported);
    }
    assert_eq!(
        LKJCholesky::new(3, 1.0).try_mode().unwrap_err().message(),
        "<class 'torch.distributions.lkj_cholesky.LKJCholesky'> does not implement mode"
    );
    assert!(try_biject_to(&constraints::boolean()).is_err());
    assert!(constraints::dependent().try_check(&tensor(1.0)).is_err());
}
#[test]
fn hostile_shapes_are_errors_and_no_panics() {
    let scalar = tensor(0.5);
    assert!(constraints::square().try_check(&scalar).is_err());
    assert!(constraints::lower_cholesky().try_check(&scalar).is_err());
    assert!(constraints::stack(vec![constraints::real()], 3).try_check(&scalar).is_err());
    let d = Categorical::by_probs(tensor([0.5, 0.5]));
    assert!(d.try_log_prob(&tensor(7)).is_err());
    assert!(d.try_sample(&[i64::MAX, i64::MAX]).is_err());
    assert!(d.try_sample(&[-1]).is_err());
    assert!(CategoricalOptions::new().probs(&scalar).try_build().is_err());
    assert!(d.try_expand(&[-5]).is_err());
    use transforms::Transform as _;
    for t in [
        transforms::StickBreakingTransform.try_call(&scalar),
        transforms::LowerCholeskyTransform.try_call(&scalar),
    ] {
        assert!(t.is_err());
    }
    let nan = Tensor::from_slice(&[f64::NAN], [1]);
    assert!(Normal::new(0.0, 1.0).try_log_prob(&nan).is_err());
}

/// Python turns `number < tensor` round, and errors name the operator that is left.
#[test]
fn comparisons_with_numbers_name_pythons_operator() {
    let z = tensor([1.0, 2.0]).to(flambeau_core::DType::C64);
    let name = |c: Constraint| c.try_check(&z).unwrap_err().message().split('_').next().unwrap().to_string();
    assert_eq!(name(constraints::greater_than(0.0)), "\"gt");
    assert_eq!(name(constraints::greater_than(tensor([0.0]))), "\"lt");
    assert_eq!(name(constraints::greater_than_eq(0.0)), "\"ge");
    assert_eq!(name(constraints::interval(tensor([0.0]), 1.0)), "\"le");
    assert_eq!(name(constraints::interval(0.0, 1.0)), "\"ge");
}
