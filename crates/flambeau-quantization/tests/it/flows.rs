//! From float models to quantized ones.

use flambeau_core::{DType, Tensor, ops};
use flambeau_nn::{self as nn, Module as _};
use flambeau_quantization::flow;
use flambeau_quantization::observers::{ObserverClass, ObserverSpec};
use flambeau_quantization::qconfig::{default_of, get_default_qconfig, qconfig_of};
use flambeau_quantization::stubs::Stub;

fn model() -> nn::Sequential {
    let m = nn::Sequential::new((
        Stub::quant(),
        nn::Linear::new(4, 6),
        nn::ReLU::new(),
        nn::Linear::new(6, 3),
        Stub::dequant(),
    ));
    m.eval();
    m
}
fn input() -> Tensor {
    Tensor::from_vec((0..40).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), [10, 4])
}
fn farthest(a: &Tensor, b: &Tensor) -> f32 {
    a.to_vec::<f32>().iter().zip(b.to_vec::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
fn classes(m: &nn::Sequential) -> Vec<String> {
    m.named_modules().iter().map(|(_, m)| m.type_name().into_owned()).collect()
}

#[test]
fn static_quantization_keeps_what_the_model_computes() {
    let (mut m, x) = (model(), input());
    let float = m.call(&x);
    let names = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
    flow::fuse_modules_(&mut m, &[names("1", "2")], false);
    flow::set_qconfig(&m, Some(get_default_qconfig("x86")));
    let prepared = flow::prepare(&m);
    assert!(classes(&m).iter().all(|c| !c.contains("Observer")), "the copy alone is observed");
    prepared.call(&x);
    let quantized = flow::convert(&prepared);
    let found = classes(&quantized);
    let want = [
        "Sequential",
        "Quantize",
        "QuantizedLinearReLU",
        "LinearPackedParams",
        "Identity",
        "QuantizedLinear",
    ];
    assert_eq!(found[..6], want);
    assert!(farthest(&quantized.call(&x), &float) < 0.1);
}
#[test]
fn dynamic_quantization_needs_no_data() {
    let (mut m, x) = (model(), input());
    let float = m.call(&x);
    flow::quantize_dynamic_(&mut m, None, DType::QI8);
    assert!(classes(&m).contains(&"DynamicQuantizedLinear".to_string()));
    assert!(farthest(&m.call(&x), &float) < 0.1);
}
#[test]
fn a_field_of_one_type_says_what_to_do() {
    #[derive(Debug, nn::Module)]
    struct Net {
        linear: nn::Linear,
    }
    let mut m = Net { linear: nn::Linear::new(2, 2) };
    let e = flow::try_quantize_dynamic_(&mut m, None, DType::QI8).unwrap_err();
    assert!(e.message().contains("Box<dyn nn::Layer>"), "{e}");
}
#[test]
fn observers_find_ranges() {
    let o = ObserverSpec::new(ObserverClass::MinMax).build();
    o.observe(&Tensor::from_slice(&[-1.0f32, 0.5], 2));
    o.observe(&Tensor::from_slice(&[2.0f32, 0.5], 2));
    let (scale, zero) = o.calculate_qparams();
    assert!((scale.item::<f32>() - 3.0 / 255.0).abs() < 1e-6 && zero.item::<i64>() == 85);
    let narrow = ObserverSpec::new(ObserverClass::MinMax).quant_min(5).quant_max(9).try_build();
    assert_eq!(narrow.unwrap_err().message(), "Used-specified quantization range must include 0.");
    assert!(default_of("default_observer").is_some() && qconfig_of("nothing").is_none());
    assert!(ops::equal(&o.min_val().unwrap(), &Tensor::from_vec(vec![-1.0f32], [0i64; 0])).unwrap());
}
