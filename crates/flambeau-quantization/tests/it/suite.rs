//! A quantized model beside its float model.

use flambeau_core::{Tensor, ops};
use flambeau_nn::{self as nn, Module as _};
use flambeau_quantization::flow;
use flambeau_quantization::numeric_suite::{
    LoggerKind, get_logger_dict, get_matching_activations, prepare_model_outputs, prepare_model_with_stubs,
};
use flambeau_quantization::qconfig::get_default_qconfig;
use flambeau_quantization::stubs::Stub;

fn models() -> (nn::Sequential, nn::Sequential, Tensor) {
    flambeau_core::tensor::generator::manual_seed(0);
    let float = nn::Sequential::new((
        Stub::quant(),
        nn::Linear::new(4, 6),
        nn::ReLU::new(),
        nn::Linear::new(6, 3),
        Stub::dequant(),
    ));
    float.eval();
    let x = Tensor::from_vec((0..40).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), [10, 4]);
    flow::set_qconfig(&float, Some(get_default_qconfig("x86")));
    let prepared = flow::prepare(&float);
    prepared.call(&x);
    let quantized = flow::convert(&prepared);
    (float, quantized, x)
}
fn near(float: &Tensor, quantized: &Tensor) -> bool {
    let q = flambeau_quantization::ops::dequantize(quantized).unwrap();
    let far = ops::amax(&ops::abs(&ops::sub(float, &q, 1.into()).unwrap()).unwrap(), &[], false).unwrap();
    far.item::<f32>() < 0.1
}

#[test]
fn results_that_belong_together() {
    flambeau_test_support::alone!();
    let (mut float, mut quantized, x) = models();
    prepare_model_outputs(&mut float, &mut quantized);
    float.call(&x);
    quantized.call(&x);
    let all = get_matching_activations(&float, &quantized);
    let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["0.stats", "1.stats", "3.stats"]);
    for (name, (f, q)) in &all[1..] {
        assert!(f.len() == 1 && q.len() == 1 && near(&f[0], &q[0]), "{name}");
    }
}
#[test]
fn shadows() {
    flambeau_test_support::alone!();
    let (float, mut quantized, x) = models();
    let want = quantized.call(&x);
    prepare_model_with_stubs(&float, &mut quantized, &["Linear".into()], LoggerKind::Pairs);
    assert!(ops::equal(&quantized.call(&x), &want).unwrap());
    let all = get_logger_dict(&quantized);
    let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["1.stats", "3.stats"]);
    for (_, stats) in &all {
        let [("float", f), ("quantized", q)] = &stats[..] else { panic!("pairs") };
        assert!(near(&f[0], &q[0]));
    }
}
