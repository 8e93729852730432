//! Configurations of models, tables of classes, granularity.

use flambeau_core::Tensor;
use flambeau_nn::{BatchNorm2d, ConvTranspose2d, Module};
use flambeau_quantization::fusers::*;
use flambeau_quantization::granularity::*;
use flambeau_quantization::qconfig::{get_default_qconfig, qconfig_of};
use flambeau_quantization::qconfig_mapping::*;

#[test]
fn what_names_a_part_more_closely_counts_more() {
    let (all, other) = (get_default_qconfig("x86"), qconfig_of("default_dynamic_qconfig"));
    let m = QConfigMapping::new()
        .set_global(Some(all.clone()))
        .set_object_type("torch.nn.Linear", other.clone())
        .try_set_module_name_regex("head.*", None)
        .unwrap()
        .set_module_name("head.last", other.clone())
        .set_module_name_object_type_order("body", "torch.nn.ReLU", 1, None);
    assert_eq!(m.qconfig_of("body", "torch.nn.Conv2d"), Some(Some(all.clone())));
    assert_eq!(m.qconfig_of("body", "torch.nn.Linear"), Some(other.clone()));
    assert_eq!(m.qconfig_of("head.first", "torch.nn.Linear"), Some(None));
    assert_eq!(m.qconfig_of("head.last.inner", "torch.nn.Conv2d"), Some(other));
    assert_eq!(m.qconfig_of_call("body", "torch.nn.ReLU", 1), Some(None));
    assert_eq!(m.qconfig_of_call("body", "torch.nn.ReLU", 0), Some(Some(all)));
    assert_eq!(QConfigMapping::new().qconfig_of("x", "torch.nn.Linear"), None);
    assert!(QConfigMapping::new().try_set_module_name_regex("(", None).is_err());
}
#[test]
fn default_mappings_know_results_of_known_ranges() {
    let m = get_default_qconfig_mapping("x86");
    assert_eq!(m.object_types().len(), 23);
    let sigmoid = m.qconfig_of("a", "torch.nn.Sigmoid").flatten().unwrap();
    let prelu = m.qconfig_of("a", "torch.nn.PReLU").flatten();
    assert_ne!(sigmoid, m.global().unwrap().clone());
    assert_eq!(prelu, qconfig_of("default_quint8_weight_qconfig"));
    assert!(try_get_default_qat_qconfig_mapping("nothing").is_err());
}
#[test]
fn blocks_that_share_a_scale() {
    assert_eq!(get_block_size(&[2, 3, 4], &PerTensor), [2, 3, 4]);
    assert_eq!(get_block_size(&[2, 3, 4], &PerAxis { axis: -2 }), [2, 1, 4]);
    assert_eq!(get_block_size(&[2, 3, 4], &PerToken), [1, 1, 4]);
    assert!(try_get_block_size(&[2, 3, 4], &PerGroup { group_size: 2 }).is_err());
    assert!(try_get_block_size(&[2], &PerAxis { axis: 1 }).is_err());
    assert_eq!((TorchAODType::INT1.bounds(), TorchAODType::INT7.bounds()), ((-1, 0), (-64, 63)));
}
#[test]
fn classes_that_are_exchanged() {
    assert_eq!(get_default_static_quant_module_mappings().len(), 49);
    assert_eq!(get_static_quant_module_class("torch.nn.Linear", &[], false), "torch.ao.nn.quantized.Linear");
    let own = [("torch.nn.Linear", "mine.Linear")];
    assert_eq!(get_dynamic_quant_module_class("torch.nn.Linear", &own), "mine.Linear");
    let e = try_get_quantized_operator("torch.nn.Linear").unwrap_err().to_string();
    assert_eq!(
        e,
        "Operator <class 'torch.nn.modules.linear.Linear'> does not have corresponding quantized op"
    );
    assert!(try_get_fuser_method(&["Linear", "Linear"]).is_err());
}
#[test]
fn a_transposed_convolution_takes_the_norm_behind_it() {
    flambeau_test_support::alone!();
    flambeau_core::tensor::generator::manual_seed(0);
    let (c, b) = (ConvTranspose2d::new(2, 3, 2), BatchNorm2d::new(3));
    c.eval();
    b.eval();
    let mean = b.running_mean.as_ref().unwrap();
    flambeau_core::ops::copy_(mean.tensor(), &Tensor::from_vec(vec![0.5f32, -1.0, 2.0], [3]), false).unwrap();
    let x = Tensor::from_vec((0..18).map(|i| i as f32 / 7.0).collect::<Vec<_>>(), [1, 2, 3, 3]);
    let apart = b.forward(&c.forward(&x));
    let fused = fuse_convtranspose_bn(false, &c, &b);
    let together = fused.run(&[x]).unwrap().remove(0);
    let d = flambeau_core::ops::sub(&apart, &together, flambeau_core::Scalar::Int(1)).unwrap();
    let worst =
        flambeau_core::ops::abs(&d).unwrap().try_to_vec::<f32>().unwrap().into_iter().fold(0.0, f32::max);
    assert!(worst < 1e-5, "{worst}");
    assert!(try_fuse_convtranspose_bn(true, &c, &b).is_err());
}
