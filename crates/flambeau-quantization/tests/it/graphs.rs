//! Quantization of captured graphs.

use flambeau_core::{DType, Tensor, Value};
use flambeau_fx::{Argument, Graph, GraphModule, Op};
use flambeau_nn::internal::ModuleObject;
use flambeau_nn::{self as nn, Module as _};
use flambeau_quantization::TensorQuantizationExt as _;
use flambeau_quantization::fx::{
    self, BackendConfig, ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig, PrepareFxOptions,
    StandaloneModuleConfigEntry,
};
use flambeau_quantization::granularity::QuantType;
use flambeau_quantization::qconfig::qconfig_of;
use flambeau_quantization::qconfig_mapping::{
    QConfigMapping, get_default_qat_qconfig_mapping, get_default_qconfig_mapping,
};
use flambeau_quantization::stubs::QuantWrapper;

fn numbers(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), sizes)
}
fn farthest(a: &Tensor, b: &Tensor) -> f32 {
    a.to_vec::<f32>().iter().zip(b.to_vec::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
/// What nodes call, in order; of modules their texts.
fn calls(m: &GraphModule) -> Vec<String> {
    let shown = |d: &flambeau_fx::NodeData| match d.op {
        Op::CallModule => m.submodule(&d.target).unwrap().repr().lines().next().unwrap_or("").to_string(),
        _ => d.target.clone(),
    };
    m.graph.nodes().map(|n| shown(m.graph.node(n))).collect()
}
fn classes(m: &GraphModule) -> Vec<String> {
    calls(m).into_iter().map(|c| c.split('(').next().unwrap_or("").to_string()).collect()
}
fn x86() -> QConfigMapping {
    get_default_qconfig_mapping("x86")
}
/// `sigmoid(fc(flatten(hardswish(pool(relu(relu(bn(conv1 x)) + conv2(..)))))))`, with functions in between.
fn residual() -> GraphModule {
    flambeau_core::tensor::generator::manual_seed(0);
    let mut g = Graph::new();
    let x = g.placeholder("x");
    let c = g.call_module("conv1", [x], []);
    let b = g.call_module("bn1", [c], []);
    let r = g.call_function("torch.nn.functional.relu", [b], []);
    let d = g.call_module("conv2", [r], []);
    let s = g.call_function("operator.add", [r, d], []);
    let r = g.call_function("torch.relu", [s], []);
    let p = g.call_module("pool", [r], []);
    let h = g.call_module("act", [p], []);
    let f = g.call_function("torch.flatten", [Argument::from(h), 1i64.into()], []);
    let f = g.call_module("fc", [f], []);
    let y = g.call_method("sigmoid", [f], []);
    g.output(y);
    let mut m = GraphModule::new(g);
    m.set_module("conv1", ModuleObject::make(nn::Conv2dOptions::new(3, 4, 3).padding(1).build()));
    m.set_module("bn1", ModuleObject::make(nn::BatchNorm2d::new(4)));
    m.set_module("conv2", ModuleObject::make(nn::Conv2dOptions::new(4, 4, 3).padding(1).build()));
    m.set_module("pool", ModuleObject::make(nn::MaxPool2d::new(2)));
    m.set_module("act", ModuleObject::make(nn::Hardswish::new()));
    m.set_module("fc", ModuleObject::make(nn::Linear::new(16, 5)));
    m.train(false).unwrap();
    m
}

#[test]
fn graphs_of_layers_and_functions_become_ones_of_integers() {
    flambeau_test_support::alone!();
    let (m, x) = (residual(), numbers(&[2, 3, 4, 4]));
    let float = m.try_forward(&[&x]).unwrap();
    let prepared = fx::prepare_graph(m.clone(), &x86(), false, PrepareFxOptions::new());
    let seen = classes(&prepared);
    let observers = seen.iter().filter(|c| c.ends_with("Observer")).count();
    // as PyTorch puts them: input, conv1, conv2, add and relu, pool, hardswish, flatten, fc, sigmoid
    assert_eq!(observers, 9, "{seen:?}");
    assert_eq!(prepared.graph.len(), 20);
    prepared.try_forward(&[&x]).unwrap();
    let reference = fx::convert_to_reference_fx(&prepared);
    assert!(farthest(&reference.try_forward(&[&x]).unwrap(), &float) < 0.05);
    assert!(classes(&reference).iter().any(|c| c == "QuantizedConv2d"), "{:?}", classes(&reference));
    let quantized = fx::convert_fx(&prepared);
    let want = [
        "x",
        "conv1_input_scale_0",
        "conv1_input_zero_point_0",
        "torch.quantize_per_tensor",
        "QuantizedConvReLU2d",
        "QuantizedConv2d",
        "_scale_0",
        "_zero_point_0",
        "torch.ops.quantized.add_relu",
        "MaxPool2d",
        "QuantizedHardswish",
        "torch.flatten",
        "QuantizedLinear",
        "sigmoid",
        "dequantize",
        "output",
    ];
    assert_eq!(classes(&quantized), want);
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &float) < 0.05);
    assert!(quantized.attributes().iter().all(|(p, _)| !p.starts_with("activation_post_process")));
}
#[test]
fn observers_are_shared_where_results_keep_the_scale() {
    flambeau_test_support::alone!();
    let prepared = fx::prepare_graph(residual(), &x86(), false, PrepareFxOptions::new());
    let of = |name: &str| {
        let n = prepared.graph.named(name).unwrap();
        let observer = prepared.graph.node(n).users()[0];
        prepared.submodule(&prepared.graph.node(observer).target).unwrap()
    };
    let same = |a: &str, b: &str| std::ptr::addr_eq(of(a).as_any(), of(b).as_any());
    assert!(same("relu_1", "pool") && same("act", "flatten"));
    assert!(!same("pool", "act") && !same("conv2", "pool"));
}
/// `relu(linear(x, w, b))` of functions.
fn functional() -> GraphModule {
    let mut g = Graph::new();
    let (x, w, b) = (g.placeholder("x"), g.get_attr("w"), g.get_attr("b"));
    let l = g.call_function("torch.nn.functional.linear", [x, w, b], []);
    let y = g.call_function("torch.nn.functional.relu", [l], []);
    g.output(y);
    let mut m = GraphModule::new(g);
    m.set("w", numbers(&[3, 4]));
    m.set("b", numbers(&[3]));
    m
}
#[test]
fn weights_of_functions_are_packed() {
    let (m, x) = (functional(), numbers(&[5, 4]));
    let float = m.try_forward(&[&x]).unwrap();
    let prepared = fx::prepare_graph(m.clone(), &x86(), false, PrepareFxOptions::new());
    assert_eq!(classes(&prepared).iter().filter(|c| c.ends_with("Observer")).count(), 3);
    prepared.try_forward(&[&x]).unwrap();
    let quantized = fx::convert_fx(&prepared);
    assert!(classes(&quantized).contains(&"torch.ops.quantized.linear_relu".to_string()));
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &float) < 0.1);

    let dynamic = QConfigMapping::new().set_global(qconfig_of("default_dynamic_qconfig"));
    let prepared = fx::prepare_graph(m, &dynamic, false, PrepareFxOptions::new());
    let quantized = fx::convert_fx(&prepared);
    let want = ["x", "_packed_weight_0", "torch.ops.quantized.linear_relu_dynamic", "output"];
    assert_eq!(calls(&quantized), want);
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &float) < 0.1);
}
fn net() -> nn::Sequential {
    flambeau_core::tensor::generator::manual_seed(0);
    let m = nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new(), nn::Linear::new(8, 2)));
    m.eval();
    m
}
#[test]
fn parts_stay_float_where_the_configuration_says_so() {
    flambeau_test_support::alone!();
    let (m, x) = (net(), numbers(&[6, 4]));
    let prepared = fx::prepare_fx(&m, &x86().set_module_name("2", None), &[&x]);
    prepared.try_forward(&[&x]).unwrap();
    let found = classes(&fx::convert_fx(&prepared));
    assert!(
        found.contains(&"QuantizedLinearReLU".to_string()) && found.contains(&"Linear".to_string()),
        "{found:?}"
    );

    let dynamic = QConfigMapping::new().set_global(qconfig_of("default_dynamic_qconfig"));
    let quantized = fx::convert_fx(&fx::prepare_fx(&m, &dynamic, &[&x]));
    assert_eq!(classes(&quantized), ["x", "DynamicQuantizedLinearReLU", "DynamicQuantizedLinear", "output"]);
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &m.call(&x)) < 0.1);

    let nothing = PrepareFxOptions::new().backend_config(BackendConfig::new("none"));
    let prepared = fx::try_prepare_fx(&m, &x86(), &[&x], nothing).unwrap();
    assert_eq!(classes(&prepared), ["x", "Linear", "ReLU", "Linear", "output"]);
    let inner = QuantWrapper::new(Box::new(nn::Linear::new(4, 3)));
    let outer = nn::Sequential::new((inner, nn::Linear::new(3, 2)));
    outer.eval();
    let classes_with = |custom: PrepareCustomConfig| {
        let options = PrepareFxOptions::new().prepare_custom_config(custom);
        classes(&fx::try_prepare_fx(&outer, &x86(), &[&x], options).unwrap())
    };
    let found = classes_with(PrepareCustomConfig::new());
    assert!(!found.contains(&"QuantWrapper".to_string()), "{found:?}");
    let found = classes_with(PrepareCustomConfig::new().set_non_traceable_module_classes(&["QuantWrapper"]));
    assert!(found.contains(&"QuantWrapper".to_string()), "{found:?}");
    let found = classes_with(PrepareCustomConfig::new().set_non_traceable_module_names(&["0"]));
    assert!(found.contains(&"QuantWrapper".to_string()), "{found:?}");
}
#[test]
fn inputs_and_results_may_be_integers() {
    flambeau_test_support::alone!();
    let (m, x) = (net(), numbers(&[6, 4]));
    let custom =
        PrepareCustomConfig::new().set_input_quantized_indexes(&[0]).set_output_quantized_indexes(&[0]);
    let options = PrepareFxOptions::new().prepare_custom_config(custom);
    let prepared = fx::try_prepare_fx(&m, &x86(), &[&x], options).unwrap();
    prepared.try_forward(&[&x]).unwrap();
    let quantized = fx::convert_fx(&prepared);
    assert_eq!(classes(&quantized), ["x", "QuantizedLinearReLU", "QuantizedLinear", "output"]);
    let q = flambeau_quantization::generated::functions::quantize_per_tensor(&x, 0.01, 100, DType::QU8);
    let y = quantized.try_forward(&[&q]).unwrap();
    assert_eq!(y.dtype(), DType::QU8);
}
#[test]
fn graphs_are_trained_with_rounding() {
    flambeau_test_support::alone!();
    let (m, x) = (net(), numbers(&[6, 4]));
    m.train();
    let prepared = fx::prepare_qat_fx(&m, &get_default_qat_qconfig_mapping("x86"), &[&x]);
    let found = classes(&prepared);
    for name in ["LinearReLU", "Linear", "FusedMovingAvgObsFakeQuantize"] {
        assert!(found.iter().any(|c| c == name), "{name}: {found:?}");
    }
    let y = prepared.try_forward(&[&x]).unwrap();
    flambeau_core::ops::sum(&y, None, false, None).unwrap().backward();
    let parameters = prepared.parameters();
    assert_eq!(parameters.len(), 4);
    assert!(parameters.iter().all(|p| p.tensor().grad().is_some()));
    prepared.train(false).unwrap();
    let quantized = fx::convert_fx(&prepared);
    let want = ["QuantizedLinearReLU", "QuantizedLinear"];
    assert!(want.iter().all(|w| classes(&quantized).iter().any(|c| c == w)), "{:?}", classes(&quantized));
    let y = prepared.try_forward(&[&x]).unwrap();
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &y) < 0.1);
}
#[test]
fn layers_are_joined_for_evaluation_alone() {
    flambeau_test_support::alone!();
    let m = residual();
    m.train(true).unwrap();
    let e = fx::try_fuse_fx(m, fx::FuseFxOptions::new()).unwrap_err();
    assert_eq!(e.message(), "Fusion only for eval!");
    let (m, x) = (residual(), numbers(&[2, 3, 4, 4]));
    let fused = fx::fuse_fx(m.clone());
    assert_eq!(fused.graph.len(), m.graph.len() - 2);
    assert!(farthest(&fused.try_forward(&[&x]).unwrap(), &m.try_forward(&[&x]).unwrap()) < 1e-4);
}
#[test]
fn converted_graphs_are_called_by_name_and_print() {
    flambeau_test_support::alone!();
    let (m, x) = (net(), numbers(&[6, 4]));
    let prepared = fx::prepare_fx(&m, &x86(), &[&x]);
    prepared.try_forward(&[&x]).unwrap();
    let code = fx::convert_fx(&prepared).code();
    assert!(code.contains("torch.quantize_per_tensor") && code.contains(".dequantize()"), "{code}");
    let of =
        |name: &str| flambeau_library::call(name, &[Value::Int(1)], &[]).unwrap_err().message().to_string();
    assert!(of("torch.ao.quantization.quantize_fx.convert_fx").contains("produced by prepare_fx"));
}

#[test]
fn modules_stay_graphs_of_their_own() {
    flambeau_test_support::alone!();
    let x = numbers(&[6, 4]);
    let inner = nn::Sequential::new((nn::Linear::new(4, 4), nn::ReLU::new()));
    type Inner = nn::Sequential;
    let net = nn::Sequential::new((nn::Linear::new(4, 4), inner, nn::Linear::new(4, 2)));
    net.eval();
    let hidden = numbers(&[6, 4]);
    // numbers between the model and the module
    let entry = StandaloneModuleConfigEntry::new(&[&hidden]);
    let custom = PrepareCustomConfig::new().set_standalone_module_name::<Inner>("1", entry.clone());
    let options = PrepareFxOptions::new().prepare_custom_config(custom);
    let prepared = fx::try_prepare_fx(&net, &x86(), &[&x], options).unwrap();
    prepared.try_forward(&[&x]).unwrap();
    let quantized = fx::convert_fx(&prepared);
    let of = |m: &GraphModule| classes(m.submodule("1").unwrap().downcast::<GraphModule>().unwrap());
    assert!(of(&prepared).contains(&"LinearReLU".to_string()), "{:?}", of(&prepared));
    let want = ["x", "torch.quantize_per_tensor", "QuantizedLinearReLU", "dequantize", "output"];
    assert_eq!(
        of(&quantized).iter().filter(|c| !c.contains('_') || c.starts_with("torch.")).collect::<Vec<_>>(),
        want
    );
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &net.call(&x)) < 0.1);
    // integers
    let integers =
        PrepareCustomConfig::new().set_input_quantized_indexes(&[0]).set_output_quantized_indexes(&[0]);
    let custom = PrepareCustomConfig::new()
        .set_standalone_module_class::<Inner>(entry.prepare_custom_config(integers));
    let options = PrepareFxOptions::new().prepare_custom_config(custom);
    let prepared = fx::try_prepare_fx(&net, &x86(), &[&x], options).unwrap();
    prepared.try_forward(&[&x]).unwrap();
    let quantized = fx::convert_fx(&prepared);
    assert_eq!(of(&quantized), ["x", "QuantizedLinearReLU", "output"]);
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &net.call(&x)) < 0.1);
    let reference = fx::convert_to_reference_fx(&prepared);
    assert!(of(&reference).contains(&"LinearReLU".to_string()), "{:?}", of(&reference));
}
/// A layer of the program's own.
#[derive(Debug, nn::Module)]
struct Scale {
    by: f64,
}
#[nn::forward]
impl Scale {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * self.by
    }
}
#[derive(Debug, nn::Module)]
struct ScaleIntegers {
    by: f64,
    scale: f64,
    zero_point: i64,
}
#[nn::forward]
impl ScaleIntegers {
    fn forward(&self, x: &Tensor) -> Tensor {
        assert_eq!(x.dtype(), DType::QU8);
        let y = x.dequantize() * self.by;
        flambeau_quantization::generated::functions::quantize_per_tensor(
            &y,
            self.scale,
            self.zero_point,
            DType::QU8,
        )
    }
}
#[test]
fn modules_of_a_program_are_exchanged_by_its_functions() {
    flambeau_test_support::alone!();
    let x = numbers(&[6, 4]);
    let net = nn::Sequential::new((nn::Linear::new(4, 4), Scale { by: 3.0 }, nn::Linear::new(4, 2)));
    net.eval();
    let custom = PrepareCustomConfig::new()
        .set_float_to_observed_mapping(|s: &Scale| Ok(Scale { by: s.by }))
        .set_preserved_attributes(&["0.bias", "2"]);
    let options = PrepareFxOptions::new().prepare_custom_config(custom);
    let prepared = fx::try_prepare_fx(&net, &x86(), &[&x], options).unwrap();
    prepared.try_forward(&[&x]).unwrap();
    let found = classes(&prepared);
    let at = found.iter().position(|c| c == "Scale").unwrap();
    assert!(found[at - 1].ends_with("Observer") && found[at + 1].ends_with("Observer"), "{found:?}");
    let none = fx::try_convert_fx(&prepared, fx::ConvertFxOptions::new());
    assert!(none.is_ok(), "a class that nothing is said of stays: {:?}", none.err());
    let convert = |kind: QuantType| {
        let custom = ConvertCustomConfig::new()
            .set_observed_to_quantized_mapping(kind, |s: &Scale, found: Option<&(Tensor, Tensor)>| {
                let (scale, zero) = found.expect("an observer stands behind it");
                Ok(ScaleIntegers { by: s.by, scale: scale.item(), zero_point: zero.item() })
            })
            .set_preserved_attributes(&["0.bias"]);
        fx::try_convert_fx(&prepared, fx::ConvertFxOptions::new().convert_custom_config(custom))
    };
    let quantized = convert(QuantType::STATIC).unwrap();
    let found = classes(&quantized);
    let at = found.iter().position(|c| c == "ScaleIntegers").unwrap();
    assert_eq!((&*found[at - 1], &*found[at + 1]), ("QuantizedLinear", "QuantizedLinear"), "{found:?}");
    assert!(farthest(&quantized.try_forward(&[&x]).unwrap(), &net.call(&x)) < 0.2);
    assert!(quantized.get("0.bias").is_ok());
    let e = convert(QuantType::DYNAMIC).unwrap_err();
    assert!(e.message().starts_with("did not find corresponding observed module class for Scale"), "{e}");
}
#[test]
fn joining_keeps_what_is_asked_for() {
    flambeau_test_support::alone!();
    let mut m = residual();
    m.set_module("spare", ModuleObject::make(nn::Linear::new(2, 2)));
    assert!(fx::fuse_fx(m.clone()).get("spare").is_err());
    let options = fx::FuseFxOptions::new()
        .fuse_custom_config(FuseCustomConfig::new().set_preserved_attributes(&["spare"]));
    assert!(fx::fuse_fx_with(m, options).get("spare").is_ok());
}
