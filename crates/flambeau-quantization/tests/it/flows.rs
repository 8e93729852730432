//! From float models to quantized ones.

use flambeau_core::{DType, Tensor, Value, ops};
use flambeau_nn::{self as nn, Forward as _, Module as _};
use flambeau_quantization::fake_quantize::{FakeQuantizeClass, FakeQuantizeSpec};
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
fn layers_are_trained_as_they_will_be_quantized() {
    flambeau_test_support::alone!();
    flambeau_core::tensor::generator::manual_seed(0);
    let m = nn::Sequential::new((
        Stub::quant(),
        nn::Conv2d::new(1, 2, 3),
        nn::BatchNorm2d::new(2),
        nn::ReLU::new(),
        nn::Flatten::new(),
        nn::Linear::new(8, 3),
        Stub::dequant(),
    ));
    let mut m = m;
    let x = Tensor::from_vec((0..64).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), [4, 1, 4, 4]);
    flow::fuse_modules_(&mut m, &[["1", "2", "3"].map(String::from).to_vec()], true);
    flow::set_qconfig(&m, Some(flambeau_quantization::qconfig::get_default_qat_qconfig("fbgemm")));
    let e = flow::try_prepare_qat({
        m.eval();
        &m
    });
    assert_eq!(e.unwrap_err().message(), "prepare_qat only works on models in training mode");
    m.train();
    let prepared = flow::prepare_qat(&m);
    let found = classes(&prepared);
    for name in ["ConvBnReLU2d", "BatchNorm2d", "Linear", "FusedMovingAvgObsFakeQuantize"] {
        assert!(found.iter().any(|c| c == name), "{name}: {found:?}");
    }
    // parameters have the names of the float layers, and gradients
    let names: Vec<String> = prepared.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["1.weight", "1.bias", "1.bn.weight", "1.bn.bias", "5.weight", "5.bias"]);
    let y = prepared.call(&x);
    ops::sum(&ops::mul(&y, &y).unwrap(), None, false, None).unwrap().backward();
    assert!(prepared.named_parameters().iter().all(|(_, p)| p.tensor().grad().is_some()));
    prepared.eval();
    let fake = prepared.call(&x);
    let quantized = flow::convert(&prepared);
    assert!(!classes(&quantized).iter().any(|c| c.contains("Fake") || c.contains("BatchNorm")));
    assert!(farthest(&quantized.call(&x), &fake) < 0.1);
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
/// Python's set of classes: what is not in it stays, which a field of one type needs.
#[test]
fn dynamic_quantization_of_some_classes() {
    #[derive(Debug, nn::Module)]
    struct Net {
        lstm: nn::LSTM,
        fc: nn::Sequential,
    }
    let m = Net { lstm: nn::LSTM::new(3, 4), fc: nn::Sequential::new((nn::Linear::new(4, 2),)) };
    let e = flow::try_quantize_dynamic(&m, flow::QuantizeDynamicOptions::new()).unwrap_err();
    assert!(e.message().contains("field lstm") && e.message().contains("classes(&[..])"), "{e}");
    let q = flow::quantize_dynamic_with(&m, flow::QuantizeDynamicOptions::new().classes(&["Linear"]));
    assert!(classes(&q.fc).contains(&"DynamicQuantizedLinear".to_string()));
    let x = Tensor::from_slice(&[0.5f32, -1.0, 2.0], [1, 3]);
    let (want, got) = (m.lstm.call(&x, None).0, q.lstm.call(&x, None).0);
    assert!(farthest(&got, &want) == 0.0 && farthest(&q.fc.call(&got), &m.fc.call(&want)) < 0.1);
}
#[test]
fn observers_find_ranges() {
    let o = ObserverSpec::new(ObserverClass::MinMax).build();
    o.observe(&Tensor::from_slice(&[-1.0f32, 0.5], 2));
    o.observe(&Tensor::from_slice(&[2.0f32, 0.5], 2));
    let (scale, zero) = o.calculate_qparams();
    assert!((scale.item::<f32>() - 3.0 / 255.0).abs() < 1e-6 && zero.item::<i64>() == 85);
    let halves = Tensor::from_slice(&[-1.0f32, 0.5], 2).to(DType::F16);
    let h = ObserverSpec::new(ObserverClass::Histogram).build();
    h.observe(&halves);
    h.observe(&(&halves * 2.0));
    assert_eq!((h.min_val().unwrap().dtype(), h.min_val().unwrap().item::<f32>()), (DType::F32, -2.0));
    let fused = FakeQuantizeSpec::new(
        FakeQuantizeClass::FusedMovingAvgObs,
        ObserverSpec::new(ObserverClass::MovingAverageMinMax),
    );
    let e = fused.try_build().unwrap().try_forward(&halves).unwrap_err();
    assert_eq!(e.message(), "expected scalar type Float but found Half");
    let narrow = ObserverSpec::new(ObserverClass::MinMax).quant_min(5).quant_max(9).try_build();
    assert_eq!(narrow.unwrap_err().message(), "Used-specified quantization range must include 0.");
    assert!(default_of("default_observer").is_some() && qconfig_of("nothing").is_none());
    assert!(ops::equal(&o.min_val().unwrap(), &Tensor::from_vec(vec![-1.0f32], [0i64; 0])).unwrap());
}
#[test]
fn layers_with_rules_of_their_own_are_converted() {
    flambeau_test_support::alone!();
    flambeau_core::tensor::generator::manual_seed(0);
    let mut m = nn::Sequential::new((
        Stub::quant(),
        nn::ConvTranspose2d::new(1, 2, 3),
        nn::BatchNorm2d::new(2),
        nn::InstanceNorm2d::new(2),
        nn::PReLU::new(),
        Stub::dequant(),
    ));
    m.eval();
    let x = Tensor::from_vec((0..32).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), [2, 1, 4, 4]);
    let float = m.call(&x);
    flow::set_qconfig(&m, Some(get_default_qconfig("qnnpack")));
    flow::prepare_(&mut m);
    m.call(&x);
    flow::convert_(&mut m, flow::Mapping::Static);
    let found = classes(&m);
    for name in
        ["QuantizedConvTranspose2d", "QuantizedBatchNorm2d", "QuantizedInstanceNorm2d", "QuantizedPReLU"]
    {
        assert!(found.iter().any(|c| c == name), "{name}: {found:?}");
    }
    assert!(farthest(&m.call(&x), &float) < 0.15);
}
#[test]
fn sums_behind_convolutions_are_one_layer() {
    use flambeau_quantization::nn::conv_add::ConvAdd2d;
    flambeau_test_support::alone!();
    flambeau_core::tensor::generator::manual_seed(0);
    let x = Tensor::from_vec((0..32).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), [2, 1, 4, 4]);
    let y = Tensor::from_vec((0..64).map(|i| ((i * 5) % 13) as f32 / 6.0 - 1.0).collect(), [2, 2, 4, 4]);
    let conv = nn::Conv2dOptions::new(1, 2, 3).padding(1).build();
    let sum = ops::add(&conv.call(&x), &y, flambeau_core::Scalar::Int(1)).unwrap();
    let m = ConvAdd2d::with_relu(conv);
    assert_eq!(m.forward(&x, &y).to_vec::<f32>(), ops::relu(&sum).unwrap().to_vec::<f32>());
    // within another module, which exchanges it
    let mut holder = Holder { base: nn::Base::new(), layer: Box::new(m) };
    flow::set_qconfig(&holder, Some(get_default_qconfig("x86")));
    flow::prepare_(&mut holder);
    holder.run(&x, &y);
    flow::convert_(&mut holder, flow::Mapping::Static);
    assert_eq!(holder.layer.type_name(), "QuantizedConvAddReLU2d");
    let q = |t: &Tensor| flambeau_quantization::ops::quantize_per_tensor(t, 0.02, 100, DType::QU8).unwrap();
    let z = flambeau_quantization::ops::dequantize(&holder.run(&q(&x), &q(&y))).unwrap();
    assert!(farthest(&z, &ops::relu(&sum).unwrap()) < 0.1);
}
/// A module that holds a layer of two inputs.
#[derive(Debug)]
struct Holder {
    base: nn::Base,
    layer: Box<dyn nn::internal::Run>,
}
impl Holder {
    fn run(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let given = [Value::Tensor(x.clone()), Value::Tensor(y.clone())];
        let out = nn::internal::call_module(&*self.layer, &given, &[]).unwrap();
        match out.into_iter().next() {
            Some(Value::Tensor(ref t)) => t.clone(),
            other => panic!("{other:?}"),
        }
    }
}
impl nn::Module for Holder {
    fn type_name(&self) -> std::borrow::Cow<'static, str> {
        "Holder".into()
    }
    fn base(&self) -> Option<&nn::Base> {
        Some(&self.base)
    }
    fn base_mut(&mut self) -> Option<&mut nn::Base> {
        Some(&mut self.base)
    }
    fn visit<'a>(&'a self, v: &mut dyn nn::Visitor<'a>) {
        nn::Field::visit_field(&self.layer, "layer", v);
    }
    fn visit_mut(&mut self, v: &mut dyn nn::VisitorMut) -> flambeau_core::Result<()> {
        nn::Field::visit_field_mut(&mut self.layer, "layer", v)
    }
    fn as_module(&self) -> &dyn nn::Module {
        self
    }
    fn as_module_mut(&mut self) -> &mut dyn nn::Module {
        self
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
#[test]
fn sums_as_modules_are_observed_and_get_a_rule() {
    use flambeau_quantization::nn::float_functional::Functional;
    let mut f = Functional::new(false);
    let x = input();
    flow::set_qconfig(&f, Some(get_default_qconfig("x86")));
    flow::prepare_(&mut f);
    let y = f.add(&x, &x).unwrap();
    assert!(f.named_modules().iter().any(|(n, _)| n == "activation_post_process"));
    assert_eq!(y.sizes(), x.sizes());
    flow::convert_(&mut f, flow::Mapping::Static);
    assert_eq!(f.type_name(), "QFunctional");
    let q = flambeau_quantization::ops::quantize_per_tensor(&x, 0.02, 100, DType::QU8).unwrap();
    let z = flambeau_quantization::ops::dequantize(&f.add(&q, &q).unwrap()).unwrap();
    assert!(farthest(&z, &y) < 0.1);
}
