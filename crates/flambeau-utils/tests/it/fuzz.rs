//! Draws are those of PyTorch 2.15 for the same seed.

use flambeau_utils::benchmark::{
    Choice, Distribution, FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, Fuzzer, ParameterAlias,
};

fn parameter(name: &str, d: Distribution) -> FuzzedParameter {
    FuzzedParameter::new(name, d)
}

#[test]
fn dense_draws() {
    flambeau_test_support::alone!();
    let mut f = Fuzzer::new(
        [
            parameter("n", Distribution::Uniform(1, 8)),
            parameter("m", Distribution::LogUniform(4, 1000)),
            parameter("d", Distribution::Uniform(1, 3)).strict(true),
        ],
        [FuzzedTensor::new("x", ["m", "n", "n"])
            .steps([1, 2, 1])
            .min_elements(5)
            .max_elements(5000)
            .dim_parameter("d")],
    )
    .seed(0);
    let draws = f.take(3).unwrap();
    let of = |i: usize| {
        let x = &draws[i].tensors["x"];
        let order = draws[i].tensor_properties["x"].order.clone();
        (x.sizes().to_vec(), x.strides().to_vec(), order, x.reshape([-1]).to_vec::<f32>()[0])
    };
    assert_eq!(of(0), (vec![423, 6], vec![1, 846], vec![1, 0], 0.782_139_9));
    assert_eq!(of(1), (vec![20], vec![1], vec![0], 0.919_171_5));
    assert_eq!(of(2), (vec![55, 3, 3], vec![18, 2, 6], vec![0, 2, 1], 0.912_735_2));
    assert_eq!(f.rejection_rate(), 0.0);
}
#[test]
fn sparse_draws() {
    flambeau_test_support::alone!();
    let mut f = Fuzzer::new(
        [
            parameter("n", Distribution::Uniform(4, 8)),
            parameter("density", Distribution::UniformFloat(0.1, 0.5)),
            parameter("coalesced", Distribution::Uniform(0, 1)),
        ],
        [FuzzedSparseTensor::new("x", ["n", "n"])],
    )
    .seed(3);

    let draws = f.take(2).unwrap();
    let p = draws[0].tensor_properties["x"].sparse.clone().unwrap();
    assert_eq!((p.density, p.is_coalesced, &p.shape[..]), (0.435_979_617_508_961_97, false, &[5, 5][..]));
    assert_eq!(draws[1].params["density"], 0.327_724_530_973_872_4.into());
}
#[test]
fn parameters_that_do_not_fit() {
    flambeau_test_support::alone!();
    let n = || parameter("n", Distribution::Uniform(1, 8));
    let alias = |to: &str| Choice::from(ParameterAlias { alias_to: to.into() });
    let same = parameter("m", Distribution::Choice(vec![(alias("n"), 0.5), (1.into(), 0.5)]));
    let mut f =
        Fuzzer::new([n(), same], [FuzzedTensor::new("x", ["n", "m"])]).constraint(|p| p["m"] == p["n"]);
    assert!(f.take(4).unwrap().iter().all(|d| d.params["m"] == d.params["n"]));
    let mut f = Fuzzer::new([n()], [FuzzedTensor::new("x", ["n"]).min_elements(9)]);
    assert_eq!(f.take(1).unwrap_err().message(), "Failed to generate a set of valid parameters.");
    assert_eq!(f.rejection_rate(), 1.0);
    let round = parameter("m", Distribution::Choice(vec![(alias("m"), 1.0)]));
    let e = Fuzzer::new([round], Vec::<FuzzedTensor>::new()).take(1).unwrap_err();
    assert!(e.message().starts_with("ParameterAlias cycle detected"));
    let e = Fuzzer::new([n()], [FuzzedTensor::new("n", [1])]).take(1).unwrap_err();
    assert_eq!(e.message(), "Duplicate names in parameters and tensors: {'n'}");
}
