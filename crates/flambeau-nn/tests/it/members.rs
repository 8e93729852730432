//! Members, of the derive and added at run time: names, state dicts, extra state, conversions.

use crate::values;
use crate::{log, t, taken};
use flambeau_core::functions as torch;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, MemoryFormat, Result, Tensor};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::{self};
use flambeau_nn::{Buffer, NamedOptions, StateDict, StateDictOptions};
use std::sync::{Arc, Mutex};

#[test]
fn state_dict_hooks_and_options() {
    let (seen, say) = log();
    let net = nn::Sequential::new((nn::Linear::new(1, 1), nn::ReLU::new()));
    let inner = net[0].as_module();
    let speak = say.clone();
    inner
        .base()
        .unwrap()
        .register_state_dict_pre_hook(move |_, prefix, keep| speak(&format!("{prefix} {keep}")));
    net.register_state_dict_post_hook(|_, state, prefix| {
        let bias = state.remove(&format!("{prefix}0.bias")).unwrap();
        state.insert(format!("{prefix}0.shift"), bias);
    });
    net.register_load_state_dict_pre_hook(|_, state, prefix, _| {
        if let Some(b) = state.remove(&format!("{prefix}0.shift")) {
            state.insert(format!("{prefix}0.bias"), b);
        }
    });
    let speak = say.clone();
    inner.base().unwrap().register_load_state_dict_post_hook(move |m, keys| {
        speak(&format!("{} {:?}", m.type_name(), keys.missing_keys));
        keys.missing_keys.clear();
    });
    let state = net.state_dict_with(StateDictOptions::new().prefix("net.").keep_vars(true));
    assert_eq!(state.keys().collect::<Vec<_>>(), ["net.0.weight", "net.0.shift"]);
    assert!(state.get("net.0.weight").unwrap().requires_grad());
    assert_eq!(state.version("net.0"), Some(1));
    assert_eq!(taken(&seen), ["net.0. true"]);
    let mut state = net.state_dict();
    net.load_state_dict(&state).unwrap();
    assert_eq!(taken(&seen), ["0. false", "Linear []"]);
    state.remove("0.weight");
    assert_eq!(net.load_state_dict(&state).unwrap().to_string(), "<All keys matched successfully>");
    assert_eq!(taken(&seen), ["Linear [\"0.weight\"]"]);
}

/// Counts its calls and saves the count.
#[derive(Debug)]
struct Counter {
    base: nn::Base,
    count: Mutex<f32>,
}

impl Module for Counter {
    fn type_name(&self) -> std::borrow::Cow<'static, str> {
        "Counter".into()
    }
    fn base(&self) -> Option<&nn::Base> {
        Some(&self.base)
    }
    fn get_extra_state(&self) -> Option<Tensor> {
        Some(t(&[*self.count.lock().unwrap()], &[]))
    }
    fn set_extra_state(&self, state: &Tensor) -> Result<()> {
        *self.count.lock().unwrap() = state.try_item()?;
        Ok(())
    }
    fn visit<'a>(&'a self, _: &mut dyn nn::Visitor<'a>) {}
    fn visit_mut(&mut self, _: &mut dyn nn::VisitorMut) -> Result<()> {
        Ok(())
    }
    fn as_module(&self) -> &dyn Module {
        self
    }
    fn as_module_mut(&mut self) -> &mut dyn Module {
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
fn extra_state_is_saved_and_reported() {
    let m = Counter { base: nn::Base::new(), count: Mutex::new(3.0) };
    let state = m.state_dict();
    assert_eq!(state.keys().collect::<Vec<_>>(), ["_extra_state"]);
    *m.count.lock().unwrap() = 0.0;
    m.load_state_dict(&state).unwrap();
    assert_eq!(*m.count.lock().unwrap(), 3.0);
    let e = m.load_state_dict(&StateDict::new()).unwrap_err();
    assert_eq!(
        e.message(),
        "Error(s) in loading state_dict for Counter:\n\tMissing key(s) in state_dict: \"_extra_state\". "
    );
    let e = nn::ReLU::new().load_state_dict(&state).unwrap_err();
    assert!(e.message().ends_with("Unexpected key(s) in state_dict: \"_extra_state\". "), "{e}");
}

#[test]
fn members_at_run_time() {
    let mut m = nn::Linear::new(2, 2);
    m.register_parameter("scale", Parameter::new(t(&[2.], &[1]))).unwrap();
    m.register_buffer("count", Buffer::new(t(&[0.], &[1])).persistent(false)).unwrap();
    m.register_module("extra", Box::new(nn::Linear::new(1, 1))).unwrap();
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["weight", "bias", "scale", "extra.weight", "extra.bias"]);
    assert_eq!(m.state_dict().keys().collect::<Vec<_>>(), names);
    let text = "Linear(\n  in_features=2, out_features=2, bias=True\n  (extra): Linear(in_features=1, out_features=1, bias=True)\n)";
    assert_eq!(m.to_string(), text);
    let key = |r: Result<()>| r.unwrap_err().message().to_owned();
    assert_eq!(
        key(m.register_parameter("weight", Parameter::new(t(&[1.], &[1])))),
        "attribute 'weight' already exists"
    );
    assert_eq!(key(m.register_buffer("a.b", Buffer::new(t(&[1.], &[1])))), "buffer name can't contain \".\"");
    assert_eq!(
        key(m.register_parameter("", Parameter::new(t(&[1.], &[1])))),
        "parameter name can't be empty string \"\""
    );
    assert_eq!(
        key(m.register_module("a.b", Box::new(nn::ReLU::new()))),
        "module name can't contain \".\", got: a.b"
    );
    let computed = Parameter::of_leaf(m.weight.tensor() * 2.0);
    assert!(
        key(m.register_parameter("w2", computed))
            .starts_with("Cannot assign non-leaf Tensor to parameter 'w2'.")
    );
    assert_eq!(m.get_parameter("extra").unwrap_err().message(), "`extra` is not an nn.Parameter");
    assert_eq!(m.get_buffer("scale").unwrap_err().message(), "`scale` is not a buffer");
    m.double();
    assert_eq!(m.try_base().unwrap().parameter("scale").unwrap().dtype(), DType::F64);
    assert_eq!(m.get_submodule("extra").unwrap().parameters()[0].dtype(), DType::F64);
    m.set_submodule("extra", Box::new(nn::ReLU::new()), true).unwrap();
    assert_eq!(m.get_submodule("extra").unwrap().type_name(), "ReLU");
    assert_eq!(
        key(m.set_submodule("", Box::new(nn::ReLU::new()), false)),
        "Cannot set the submodule without a target name!"
    );
    assert_eq!(
        key(m.set_submodule("none", Box::new(nn::ReLU::new()), true)),
        "Linear has no attribute `none`"
    );
    assert_eq!(
        key(m.set_submodule("weight", Box::new(nn::ReLU::new()), false)),
        "`weight` is not an nn.Module"
    );
    let mut net = nn::Sequential::new((nn::Linear::new(1, 1), nn::ReLU::new()));
    net.set_submodule("0", Box::new(nn::LinearOptions::new(1, 3).bias(false).build()), true).unwrap();
    assert_eq!(net.parameters()[0].sizes(), [3, 1]);
    assert!(
        key(net.set_submodule("0", Box::new(nn::ReLU::new()), true)).contains("holds modules of one type")
    );
    // a hook sees and replaces what is registered
    let hook = nn::modules::module::register_module_parameter_registration_hook(|_, name, p| {
        (name == "doubled").then(|| Parameter::new(p.tensor().alias_detached() * 2.0))
    });
    m.register_parameter("doubled", Parameter::new(t(&[2.], &[1]))).unwrap();
    hook.remove();
    assert_eq!(m.try_base().unwrap().parameter("doubled").unwrap().to_vec::<f32>(), [4.]);
}

#[test]
fn named_members_take_options() {
    let shared = Arc::new(nn::Linear::new(1, 1));
    let m = nn::ModuleList::new([shared.clone(), shared]);
    let names =
        |o: NamedOptions| -> Vec<String> { m.named_parameters_with(o).into_iter().map(|(n, _)| n).collect() };
    assert_eq!(names(NamedOptions::new().prefix("net")), ["net.0.weight", "net.0.bias"]);
    let all = NamedOptions::new().remove_duplicate(false);
    assert_eq!(names(all.clone()), ["0.weight", "0.bias", "1.weight", "1.bias"]);
    assert!(names(NamedOptions::new().recurse(false)).is_empty());
    assert_eq!(m.named_modules_with(all).len(), 3);
    let m = nn::Linear::new(1, 1);
    m.forward(&t(&[2.], &[1, 1])).sum().backward();
    let grad = m.weight.grad().unwrap();
    m.zero_grad_with(flambeau_nn::ZeroGradOptions::new().set_to_none(false));
    assert!(m.weight.grad().unwrap().is_same(&grad) && grad.to_vec::<f32>() == [0.]);
}

#[test]
fn conversions() {
    let mut m = nn::Sequential::new((nn::Conv2d::new(3, 4, 2), nn::BatchNorm2d::new(4)));
    m.to_memory_format(MemoryFormat::ChannelsLast);
    assert!(m.parameters()[0].is_contiguous_format(MemoryFormat::ChannelsLast));
    // as an option of `to`, which leaves tensors of other dimensions as they are
    let mut m = nn::Sequential::new((nn::Conv2d::new(3, 4, 2), nn::Linear::new(4, 4)));
    m.to(MemoryFormat::ChannelsLast);
    assert!(m.parameters()[0].is_contiguous_format(MemoryFormat::ChannelsLast));
    assert!(m.parameters()[2].is_contiguous());
    let mut meta = nn::LinearOptions::new(2, 3).device(Device::Meta).build();
    meta.to_empty(Device::Cpu);
    assert_eq!(
        (meta.weight.device(), meta.weight.sizes(), meta.weight.requires_grad()),
        (Device::Cpu, &[3, 2][..], true)
    );
    let mut c = nn::Conv2d::new(3, 4, 2);
    utils::try_convert_conv2d_weight_memory_format(&mut c, MemoryFormat::ChannelsLast).unwrap();
    assert!(c.weight.is_contiguous_format(MemoryFormat::ChannelsLast));
    let before = c.weight.clone();
    utils::try_convert_conv3d_weight_memory_format(&mut c, MemoryFormat::ChannelsLast3d).unwrap();
    assert!(c.weight.is_same(&before));
    assert!(c.cuda(None).is_err() && c.compile().is_err());
    c.cpu();
    c.type_(DType::F64);
    assert_eq!(c.weight.dtype(), DType::F64);
}

#[test]
fn conversions_that_fail_are_errors() {
    let mut shared = nn::Sequential::new((nn::Linear::new(2, 2),));
    let _part = shared.slice(..1);
    assert!(shared.try_to_empty(flambeau_core::Device::Cpu).is_err());
    assert!(shared.try_type_(flambeau_core::DType::F64).is_err());
    assert!(shared.try_convert_floating(flambeau_core::DType::F64).is_err());
    let mut m = nn::Linear::new(2, 2);
    assert!(m.try_type_(flambeau_core::DType::I64).is_err(), "integers have no gradient");
    m.try_to_memory_format(flambeau_core::MemoryFormat::Contiguous).unwrap();
    m.call(&torch::ones([1, 2])).sum().backward();
    m.try_zero_grad(flambeau_nn::ZeroGradOptions::new().set_to_none(false)).unwrap();
    assert_eq!(values(&m.weight.grad().unwrap()), [0.0; 4]);
}
/// Parameters and buffers stand on either side of an operator, as the tensors that they are, and are differentiated.
#[test]
fn members_compute() {
    let (w, b) = (Parameter::new(t(&[1., 2.], &[2])), Buffer::new(t(&[4., 8.], &[2])));
    let y = 2.0 * &w + &w * &b - &w / 2 - 3 * &b + -&w + (1 - &b) * -&b;
    assert_eq!(y.to_vec::<f32>(), [4.5, 49.0]);
    y.sum().backward();
    assert_eq!(w.grad().unwrap().to_vec::<f32>(), [4.5, 8.5]);
    assert_eq!((w.clone() % 2.0).to_vec::<f32>(), [1.0, 0.0]);
    assert_eq!((w + b).to_vec::<f32>(), [5.0, 10.0]);
}
