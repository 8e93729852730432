//! Hooks, members that are added at run time, computed weights, containers, and the rest of `nn.utils`.

use flambeau_core::{DType, Device, MemoryFormat, Result, Tensor, Value, ops};
use flambeau_library::object::construct;
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::parametrize::{Inverse, Parametrization};
use flambeau_nn::utils::stateless::{functional_call, functional_call_with};
use flambeau_nn::utils::{self, parametrizations, parametrize, prune};
use flambeau_nn::{Buffer, HookOptions, LoadStateDictOptions, NamedOptions, StateDict, StateDictOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

fn t(v: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), sizes).unwrap()
}
fn log() -> (Arc<Mutex<Vec<String>>>, impl Fn(&str) + Clone + Send + Sync) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let to = all.clone();
    (all, move |s: &str| to.lock().unwrap().push(s.to_owned()))
}
fn taken(l: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    std::mem::take(&mut l.lock().unwrap())
}
/// Hooks of all modules reach every module of the process: tests that call modules with hooks take turns.
static TURNS: Mutex<()> = Mutex::new(());

#[test]
fn hooks_run_in_order() {
    let _turn = TURNS.lock().unwrap_or_else(|e| e.into_inner());
    let (seen, say) = log();
    let m = nn::Linear::new(2, 2);
    let note = |name: &'static str| {
        let say = say.clone();
        move |_: &dyn Module, _: &[Tensor]| {
            say(name);
            None
        }
    };
    let after = |name: &'static str| {
        let say = say.clone();
        move |_: &dyn Module, _: &[Tensor], out: &[Tensor]| {
            say(&format!("{name} {}", out.len()));
            None
        }
    };
    m.register_forward_pre_hook(note("pre 1"));
    let first =
        m.try_base().unwrap().register_forward_pre_hook_with(note("pre 0"), HookOptions::new().prepend(true));
    m.register_forward_hook(after("post 1"));
    m.try_base().unwrap().register_forward_hook_with(after("post 0"), HookOptions::new().prepend(true));
    let global = nn::modules::module::register_module_forward_pre_hook(note("all pre"));
    let global_after =
        nn::modules::module::register_module_forward_hook(after("all post"), HookOptions::new());
    m.call(&t(&[1., 2.], &[1, 2]));
    assert_eq!(taken(&seen), ["all pre", "pre 0", "pre 1", "all post 1", "post 0 1", "post 1 1"]);
    global.remove();
    global_after.remove();
    first.remove();
    first.remove();
    m.call(&t(&[1., 2.], &[1, 2]));
    assert_eq!(taken(&seen), ["pre 1", "post 0 1", "post 1 1"]);
    m.forward(&t(&[1., 2.], &[1, 2]));
    assert!(taken(&seen).is_empty());
}

#[test]
fn always_called_hooks_see_panics() {
    let (seen, say) = log();
    let m = nn::Linear::new(2, 2);
    let options = HookOptions::new().always_call(true);
    m.try_base().unwrap().register_forward_hook_with(
        move |_, ins, outs| {
            say(&format!("{} {}", ins.len(), outs.len()));
            panic!("silenced");
        },
        options,
    );
    let e = catch_unwind(AssertUnwindSafe(|| m.call(&t(&[1.], &[1, 1])))).unwrap_err();
    let text = e.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("mat1 and mat2 shapes cannot be multiplied"), "{text}");
    assert_eq!(taken(&seen), ["1 0"]);
}

#[test]
fn backward_hooks_see_and_replace_gradients() {
    let _turn = TURNS.lock().unwrap_or_else(|e| e.into_inner());
    let (seen, say) = log();
    let m = nn::LinearOptions::new(2, 1).bias(false).build();
    ops::copy_(&m.weight.tensor().alias_detached(), &t(&[3., 4.], &[1, 2]), false).unwrap();
    let speak = say.clone();
    m.register_full_backward_pre_hook(move |name, out| {
        speak(&format!("{name} pre {:?}", out[0].as_ref().unwrap().to_vec::<f32>()));
        Some(vec![out[0].as_ref().map(|g| g * 2.0)])
    });
    let speak = say.clone();
    let handle = m.register_full_backward_hook(move |name, ins, outs| {
        let show = |g: &[Option<Tensor>]| g[0].as_ref().map(|g| g.to_vec::<f32>());
        speak(&format!("{name} {:?} {:?}", show(ins), show(outs)));
        Some(vec![ins[0].as_ref().map(|g| g * 10.0)])
    });
    let x = t(&[1., 2.], &[1, 2]);
    x.requires_grad_(true);
    m.call(&x).sum().backward();
    assert_eq!(taken(&seen), ["Linear pre [1.0]", "Linear Some([6.0, 8.0]) Some([2.0])"]);
    assert_eq!(x.grad().unwrap().to_vec::<f32>(), [60., 80.]);
    assert_eq!(m.weight.grad().unwrap().to_vec::<f32>(), [2., 4.]);
    // no gradient is asked for below: the hook runs with none
    handle.remove();
    let speak = say.clone();
    m.register_full_backward_hook(move |_, ins, _| {
        speak(&format!("{}", ins[0].is_none()));
        None
    });
    m.call(&t(&[1., 2.], &[1, 2])).sum().backward();
    assert_eq!(taken(&seen), ["Linear pre [1.0]", "true"]);
    let e = m.try_base().unwrap().register_backward_hook(|_, _, _| None).err().unwrap();
    assert_eq!(
        e.message(),
        "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
    );
    // regular hooks sit on the last step
    let m = nn::ReLU::new();
    let speak = say.clone();
    m.register_backward_hook(move |name, ins, outs| {
        speak(&format!("{name} {} {}", ins.len(), outs.len()));
        None
    });
    m.call(&x).sum().backward();
    assert_eq!(taken(&seen), ["ReLU 1 1"]);
    // all modules
    let all = nn::modules::module::register_module_full_backward_hook(move |name, _, _| {
        say(name);
        None
    });
    let all = all.unwrap();
    let net = nn::Sequential::new((nn::Linear::new(2, 2), nn::Tanh::new()));
    net.call(&x).sum().backward();
    all.remove();
    assert_eq!(taken(&seen), ["Tanh", "Linear", "Sequential"]);
}

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
    let names = |o: NamedOptions| -> Vec<String> {
        m.named_parameters_with(&o).into_iter().map(|(n, _)| n).collect()
    };
    assert_eq!(names(NamedOptions::new().prefix("net")), ["net.0.weight", "net.0.bias"]);
    let all = NamedOptions::new().remove_duplicate(false);
    assert_eq!(names(all.clone()), ["0.weight", "0.bias", "1.weight", "1.bias"]);
    assert!(names(NamedOptions::new().recurse(false)).is_empty());
    assert_eq!(m.named_modules_with(&all).len(), 3);
    let m = nn::Linear::new(1, 1);
    m.forward(&t(&[2.], &[1, 1])).sum().backward();
    let grad = m.weight.grad().unwrap();
    m.zero_grad_with(false);
    assert!(m.weight.grad().unwrap().is_same(&grad) && grad.to_vec::<f32>() == [0.]);
}

#[test]
fn conversions() {
    let mut m = nn::Sequential::new((nn::Conv2d::new(3, 4, 2), nn::BatchNorm2d::new(4)));
    m.to_memory_format(MemoryFormat::ChannelsLast);
    assert!(m.parameters()[0].is_contiguous_format(MemoryFormat::ChannelsLast));
    let mut meta = nn::LinearOptions::new(2, 3).device(Device::Meta).build();
    meta.to_empty(Device::Cpu);
    assert_eq!(
        (meta.weight.device(), meta.weight.sizes(), meta.weight.requires_grad()),
        (Device::Cpu, &[3, 2][..], true)
    );
    let mut c = nn::Conv2d::new(3, 4, 2);
    utils::convert_conv2d_weight_memory_format(&mut c, MemoryFormat::ChannelsLast).unwrap();
    assert!(c.weight.is_contiguous_format(MemoryFormat::ChannelsLast));
    let before = c.weight.clone();
    utils::convert_conv3d_weight_memory_format(&mut c, MemoryFormat::ChannelsLast3d).unwrap();
    assert!(c.weight.is_same(&before));
    assert!(c.cuda(None).is_err() && c.compile().is_err());
    c.cpu();
    c.type_(DType::F64);
    assert_eq!(c.weight.dtype(), DType::F64);
}

#[derive(Debug, Module)]
struct Double {}
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
    parametrize::register_parametrization(&mut m, "weight", Exp {}).unwrap();
    parametrize::register_parametrization(&mut m, "weight", Box::new(Double {})).unwrap();
    // the parameter stays the same one for optimizers
    assert!(m.get_parameter("parametrizations.weight.original").unwrap().is_same(&first));
    assert!(m.weight.is_computed() && m.weight.sizes() == [2, 2] && m.weight.dtype() == DType::F32);
    let close =
        |a: Vec<f32>, b: &[f32]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
    close(m.weight.value().to_vec::<f32>(), &[2., 4., 6., 8.]);
    close(m.weight.to_vec::<f32>(), &[2., 4., 6., 8.]);
    assert!(m.weight.try_data::<f32>().is_err());
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
    let e = parametrize::assign(&m, "weight", &t(&[1.; 4], &[2, 2])).unwrap_err();
    assert_eq!(e.message(), "parametrization Double does not implement right_inverse.");
    m.double();
    assert_eq!((m.weight.dtype(), m.weight.value().dtype()), (DType::F64, DType::F64));
    assert_eq!(m.forward(&t(&[1., 1.], &[1, 2]).try_to(DType::F64).unwrap()).dtype(), DType::F64);
    m.float();
    parametrize::remove_parametrizations(&mut m, "weight", true).unwrap();
    close(m.weight.to_vec::<f32>(), &[2., 4., 6., 8.]);
    assert!(!m.weight.is_computed() && !parametrize::is_parametrized(&m, None));
    assert_eq!(m.to_string(), "Linear(in_features=2, out_features=2, bias=True)");
    let e = parametrize::remove_parametrizations(&mut m, "weight", true).unwrap_err();
    assert!(e.message().ends_with("does not have a parametrization on weight"), "{e}");
    let e = parametrize::register_parametrization(&mut m, "nothing", Exp {}).unwrap_err();
    assert_eq!(
        e.message(),
        "Module 'Linear(in_features=2, out_features=2, bias=True)' does not have a parameter, a buffer, or a parametrized \
         element with name 'nothing'"
    );
    let e = parametrize::register_parametrization(&mut m, "weight", Box::new(Narrow {})).unwrap_err();
    assert_eq!(
        e.message(),
        "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n\
         unparametrized shape: torch.Size([2, 2])\nparametrized shape: torch.Size([1, 2])"
    );
    assert!(!m.weight.is_computed() && m.state_dict().len() == 2);
    parametrize::register_parametrization_unchecked(&mut m, "weight", Box::new(Narrow {})).unwrap();
    assert_eq!(m.weight.sizes(), [1, 2]);
}

#[test]
fn assignments_and_caching() {
    let mut m = nn::LinearOptions::new(2, 2).bias(false).build();
    parametrize::register_parametrization(&mut m, "weight", Box::new(Double {})).unwrap();
    let mut e = nn::LinearOptions::new(2, 2).bias(false).build();
    ops::fill_(&e.weight.tensor().alias_detached(), 1.into()).unwrap();
    parametrize::register_parametrization(&mut e, "weight", Exp {}).unwrap();
    parametrize::assign(&e, "weight", &t(&[3.; 4], &[2, 2])).unwrap();
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
    parametrize::transfer_parametrizations_and_params(&e, &mut other, None).unwrap();
    assert_eq!(other.weight.to_vec::<f32>(), e.weight.to_vec::<f32>());
    assert!(other.parameters()[0].is_same(&e.parameters()[0]));
}

#[test]
fn orthogonal_weights_are_orthogonal() {
    use parametrizations::{OrthogonalMap, OrthogonalOptions, orthogonal_with};
    for map in [OrthogonalMap::MatrixExp, OrthogonalMap::Cayley, OrthogonalMap::Householder] {
        for (n, k) in [(4, 4), (6, 3), (3, 6)] {
            for trivial in [true, false] {
                let mut m = nn::LinearOptions::new(k, n).bias(false).dtype(DType::F64).build();
                let o = OrthogonalOptions::new().orthogonal_map(map).use_trivialization(trivial);
                orthogonal_with(&mut m, "weight", o).unwrap();
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
                parametrizations::orthogonal(&mut other, "weight").unwrap();
                let q = other.weight.value().alias_detached();
                let assigned = parametrize::assign(&m, "weight", &q);
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
    let e = orthogonal_with(&mut nn::Linear::new(1, 1), "bias", OrthogonalOptions::new()).unwrap_err();
    assert_eq!(e.message(), "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions.");
}

#[test]
fn pruned_weights() {
    let mut m = nn::Linear::new(4, 3);
    let before = m.weight.clone();
    prune::l1_unstructured(&mut m, "weight", 0.5, None).unwrap();
    prune::ln_structured(&mut m, "weight", 1, 2, 0, None).unwrap();
    assert_eq!(prune::pruning_methods(&m, "weight").unwrap().len(), 2);
    let zeros = |t: &Tensor| t.to_vec::<f32>().iter().filter(|w| **w == 0.0).count();
    assert!(zeros(&m.weight.value()) >= 6);
    m.call(&t(&[1.; 4], &[1, 4])).sum().backward();
    assert_eq!(
        before.grad().unwrap().to_vec::<f32>(),
        m.state_dict().get("weight_mask").unwrap().to_vec::<f32>()
    );
    m.half();
    assert_eq!(m.weight.value().dtype(), DType::F16);
    m.float();
    assert!(prune::is_pruned(&m));
    prune::remove(&mut m, "weight").unwrap();
    assert!(zeros(m.weight.tensor()) >= 6 && m.state_dict().len() == 2);
    let text = |r: Result<()>| r.unwrap_err().message().to_owned();
    assert_eq!(
        text(prune::remove(&mut m, "weight")),
        "Parameter 'weight' of module Linear(in_features=4, out_features=3, bias=True) has to be pruned before pruning can \
         be removed"
    );
    assert_eq!(
        text(prune::l1_unstructured(&mut m, "weight", 1.5, None)),
        "amount=1.5 should either be a float in the range [0, 1] or a non-negative integer"
    );
    assert_eq!(
        text(prune::random_unstructured(&mut m, "weight", 13)),
        "amount=13 should be smaller than the number of parameters to prune=12"
    );
    assert!(!m.weight.is_computed());
    assert_eq!(
        text(prune::random_structured(&mut m, "bias", 1, 0)),
        "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape torch.Size([3]) with 1 dims"
    );
    assert_eq!(
        text(prune::ln_structured(&mut m, "weight", 1, 2, 2, None)),
        "Invalid index 2 for tensor of size torch.Size([3, 4])"
    );
    assert_eq!(
        text(prune::custom_from_mask(&mut m, "weight", &t(&[1.], &[1]))),
        "default_mask shape torch.Size([3, 4]) must match self.mask shape torch.Size([1])"
    );
    let method = prune::RandomStructured::try_new(1, 0).unwrap();
    let mut root = nn::Sequential::new((m,));
    assert!(
        text(prune::global_unstructured(&mut root, &["0.weight"], method, None))
            .starts_with("Only \"unstructured\"")
    );
}

#[test]
fn older_norms_say_what_is_wrong() {
    let mut m = nn::Linear::new(2, 2);
    utils::weight_norm(&mut m, "weight", Some(0)).unwrap();
    let text = |r: Result<()>| r.unwrap_err().message().to_owned();
    assert_eq!(
        text(utils::weight_norm(&mut m, "weight", Some(0))),
        "Cannot register two weight_norm hooks on the same parameter weight"
    );
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["bias", "weight_g", "weight_v"]);
    utils::remove_weight_norm(&mut m, "weight").unwrap();
    assert_eq!(
        text(utils::remove_weight_norm(&mut m, "weight")),
        "weight_norm of 'weight' not found in Linear(in_features=2, out_features=2, bias=True)"
    );
    utils::spectral_norm(&mut m, "weight").unwrap();
    let x = t(&[1., 1.], &[1, 2]);
    // two calls before one backward: each graph keeps what it was computed with
    (m.call(&x) + m.call(&x)).sum().backward();
    assert!(m.get_parameter("weight_orig").unwrap().grad().is_some());
    utils::remove_spectral_norm(&mut m, "weight").unwrap();
    assert_eq!(m.named_parameters().len(), 2);
    // checkpoints of the older weight norm load into the newer
    let mut old = nn::Linear::new(2, 2);
    utils::weight_norm(&mut old, "weight", Some(0)).unwrap();
    let mut new = nn::Linear::new(2, 2);
    parametrizations::weight_norm(&mut new, "weight", Some(0)).unwrap();
    new.load_state_dict(&old.state_dict()).unwrap();
    assert_eq!(new.weight.to_vec::<f32>(), old.weight.to_vec::<f32>());
    // and are taken over instead of copied
    let taken = old.state_dict();
    new.load_state_dict_with(&taken, LoadStateDictOptions::new().assign(true)).unwrap();
    let g = new.get_parameter("parametrizations.weight.original0").unwrap();
    assert!(g.storage().same(taken.get("weight_g").unwrap().storage()));
}

#[test]
fn calls_with_other_parameters() {
    let net = nn::Sequential::new((nn::Linear::new(1, 1), nn::BatchNorm1d::new(1)));
    let x = t(&[1., 2., 4.], &[3, 1]);
    let weight = t(&[5.], &[1, 1]);
    weight.requires_grad_(true);
    let mean = t(&[0.], &[1]);
    let given: StateDict =
        [("0.weight", weight.clone()), ("1.running_mean", mean.clone())].into_iter().collect();
    let before = net.state_dict().iter().map(|(_, t)| t.to_vec::<f64>()).collect::<Vec<_>>();
    let y = functional_call(&net, &given, &x).unwrap();
    (&y * &t(&[1., 0., 0.], &[3, 1])).sum().backward();
    assert!(weight.grad().is_some() && net.parameters()[0].grad().is_none());
    assert!(mean.to_vec::<f32>()[0] != 0.0, "changes of buffers go to the given ones");
    let after = net.state_dict().iter().map(|(_, t)| t.to_vec::<f64>()).collect::<Vec<_>>();
    for (i, (a, b)) in before.iter().zip(&after).enumerate() {
        assert!(a == b || [3, 4, 5, 6].contains(&i), "{i}: {a:?} {b:?}");
    }
    let e = functional_call_with(&net, &given, true, |_| ()).unwrap_err();
    assert_eq!(
        e.message(),
        "Error(s) in reparametrizing for Sequential:\n\tMissing key(s): '0.bias', '1.weight', '1.bias', '1.running_var', \
         '1.num_batches_tracked'."
    );
    // computed weights can be given too, and a panic inside ends the substitution
    let mut p = nn::LinearOptions::new(1, 1).bias(false).build();
    parametrize::register_parametrization(&mut p, "weight", Box::new(Double {})).unwrap();
    let given: StateDict = [("weight", t(&[7.], &[1, 1]))].into_iter().collect();
    assert_eq!(functional_call(&p, &given, &t(&[1.], &[1, 1])).unwrap().item::<f32>(), 7.0);
    let given: StateDict = [("parametrizations.weight.original", t(&[4.], &[1, 1]))].into_iter().collect();
    assert_eq!(functional_call(&p, &given, &t(&[1.], &[1, 1])).unwrap().item::<f32>(), 8.0);
    let ended = catch_unwind(AssertUnwindSafe(|| functional_call_with(&p, &given, false, |_| panic!("out"))));
    assert!(ended.is_err());
    assert!(p.call(&t(&[1.], &[1, 1])).item::<f32>() != 8.0);
    let tied = Arc::new(nn::LinearOptions::new(1, 1).bias(false).build());
    let both = nn::ModuleList::new([tied.clone(), tied]);
    let given: StateDict =
        [("0.weight", t(&[1.], &[1, 1])), ("1.weight", t(&[2.], &[1, 1]))].into_iter().collect();
    let e = functional_call_with(&both, &given, false, |_| ()).unwrap_err();
    assert_eq!(
        e.message(),
        "functional_call got multiple values for keys ['0.weight', '1.weight'], which are tied. Consider using tie_weights=False"
    );
}

#[test]
fn gradients_are_clipped() {
    let m = nn::Linear::new(2, 2);
    let set = |v: &[f32]| m.weight.try_set_grad(Some(t(v, &[2, 2]))).unwrap();
    set(&[3., 0., 4., 0.]);
    let total = utils::clip_grad_norm_(&m.parameters(), 1.0);
    assert_eq!(total.item::<f32>(), 5.0);
    let norm = |o| utils::get_total_norm_with(&[m.weight.grad().unwrap()], o).unwrap().item::<f32>();
    assert!((norm(utils::ClipGradOptions::new()) - 1.0).abs() < 1e-5);
    set(&[3., -9., 4., 0.]);
    assert_eq!(norm(utils::ClipGradOptions::new().norm_type(f64::INFINITY)), 9.0);
    assert_eq!(norm(utils::ClipGradOptions::new().norm_type(1.0)), 16.0);
    utils::clip_grad_value_(&m.parameters(), 3.5);
    assert_eq!(m.weight.grad().unwrap().to_vec::<f32>(), [3., -3.5, 3.5, 0.]);
    set(&[f32::NAN, 0., 0., 0.]);
    let strict = utils::ClipGradOptions::new().error_if_nonfinite(true);
    let e = utils::clip_grad_norm_with(&m.parameters(), 1.0, strict).unwrap_err();
    assert!(
        e.message().starts_with("The total norm of order 2.0 for gradients from `parameters` is non-finite"),
        "{e}"
    );
    assert_eq!(utils::get_total_norm(&[]).unwrap().item::<f32>(), 0.0);
    let half = t(&[3.], &[1]).try_to(DType::F16).unwrap();
    assert_eq!(utils::get_total_norm(&[half, t(&[4.], &[1])]).unwrap().dtype(), DType::F32);
    let v = utils::parameters_to_vector(&m.parameters()).unwrap();
    utils::vector_to_parameters(&(&v * 0.0), &m.parameters()).unwrap();
    assert_eq!(m.weight.to_vec::<f32>(), [0.; 4]);
}

#[test]
fn fused_layers_compute_the_same() {
    let net =
        nn::Sequential::new((nn::Conv2dOptions::new(2, 3, 2).bias(false).build(), nn::BatchNorm2d::new(3)));
    let x = Tensor::from_vec_raw((0..32).map(|i| (i as f32).sin()).collect(), &[1, 2, 4, 4]).unwrap();
    net.call(&x);
    let (conv, bn) = (
        net[0].as_any().downcast_ref::<nn::Conv2d>().unwrap(),
        net[1].as_any().downcast_ref::<nn::BatchNorm2d>().unwrap(),
    );
    let e = utils::fuse_conv_bn_eval(conv, bn, false).unwrap_err();
    assert_eq!(e.message(), "Fusion only for eval!");
    net.eval();
    let fused = utils::fuse_conv_bn_eval(conv, bn, false).unwrap();
    assert!(!fused.is_training() && fused.weight.requires_grad());
    for (a, b) in fused.call(&x).to_vec::<f32>().iter().zip(net.call(&x).to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let (linear, bn) = (nn::Linear::new(2, 3), nn::BatchNorm1d::new(3));
    linear.eval();
    bn.eval();
    let fused = utils::fuse_linear_bn_eval(&linear, &bn).unwrap();
    let x = t(&[1., 2.], &[1, 2]);
    for (a, b) in fused.call(&x).to_vec::<f32>().iter().zip(bn.call(&linear.call(&x)).to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let wrong = nn::BatchNorm1d::new(2);
    wrong.eval();
    assert!(
        utils::fuse_linear_bn_eval(&linear, &wrong).unwrap_err().message().ends_with("bn.num_features=2")
    );
}

#[test]
fn containers() {
    let l = |o: i64| nn::Linear::new(1, o);
    let mut s = nn::Sequential::new((l(1), l(2)));
    s.insert(1, nn::ReLU::new()).unwrap();
    s.extend(nn::Sequential::new((nn::Tanh::new(),)));
    let classes =
        |s: &nn::Sequential| -> Vec<String> { s.iter().map(|m| m.type_name().into_owned()).collect() };
    assert_eq!(classes(&s), ["Linear", "ReLU", "Linear", "Tanh"]);
    assert_eq!(s.pop(-1).unwrap().type_name(), "Tanh");
    s.set(0, nn::Sigmoid::new()).unwrap();
    assert_eq!(s.get(9).err().unwrap().message(), "index 9 is out of range");
    assert_eq!(s.insert(9, nn::ReLU::new()).err().unwrap().message(), "Index out of range: 9");
    let part = s.slice(1..);
    assert_eq!(classes(&part), ["ReLU", "Linear"]);
    assert_eq!(part.state_dict().keys().collect::<Vec<_>>(), ["2.weight", "2.bias"]);
    assert_eq!(classes(&(part * 2)), ["ReLU", "Linear", "ReLU", "Linear"]);
    let taken = s.drain(..1);
    assert_eq!((classes(&taken), s.len()), (vec!["Sigmoid".to_owned()], 2));
    assert_eq!(classes(&(taken + s)), ["Sigmoid", "ReLU", "Linear"]);
    let mut m = nn::ModuleList::new([l(1), l(1), l(2)]);
    m.insert(-1, l(1)).unwrap();
    assert_eq!(
        m.to_string_repr(),
        "ModuleList(\n  (0-2): 3 x Linear(in_features=1, out_features=1, bias=True)\n  (3): Linear(in_features=1, \
         out_features=2, bias=True)\n)"
    );
    assert_eq!(m.pop(0).unwrap().options.out_features, 1);
    let mut d = nn::ParameterDict::new([("b", Parameter::new(t(&[1., 2.], &[2])))]);
    d.update([("a", Parameter::new(t(&[1.], &[])))]);
    assert_eq!(
        d.to_string_repr(),
        "ParameterDict(\n    (b): Parameter containing: [torch.FloatTensor of size 2]\n    (a): Parameter containing: \
         [torch.FloatTensor of size ]\n)"
    );
    assert_eq!(d.keys().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(d.pop("z").unwrap_err().message(), "'z'");
    assert!(d.popitem().is_some_and(|(n, _)| n == "a") && d.contains_key("b"));
    d.clear();
    assert!(d.is_empty());
    let p = nn::ParameterList::new([Parameter::new(t(&[1.], &[1])), Parameter::new(t(&[2.], &[1]))]);
    assert_eq!(p.slice(1..).parameters()[0].to_vec::<f32>(), [2.]);
}
trait Text: Module {
    fn to_string_repr(&self) -> String {
        Module::repr(self)
    }
}
impl<M: Module> Text for M {}

#[test]
fn containers_by_name() {
    let linear = || Value::Object(construct("torch.nn.Linear", &[1i64.into(), 1i64.into()], &[]).unwrap());
    let s = construct("torch.nn.Sequential", &[linear(), linear()], &[]).unwrap();
    assert_eq!(s.call(&[t(&[1.], &[1, 1]).into()], &[]).unwrap().len(), 1);
    assert!(s.call(&[t(&[1., 2.], &[1, 2]).into()], &[]).is_err());
    let named = construct("torch.nn.Sequential", &[Value::Dict(vec![("a".into(), linear())])], &[]).unwrap();
    assert!(named.repr().contains("(a): Linear"), "{}", named.repr());
    let list = construct("torch.nn.ModuleList", &[Value::List(vec![linear(), linear()])], &[]).unwrap();
    assert!(list.repr().contains("(0-1): 2 x Linear"), "{}", list.repr());
    let e = list.call(&[], &[]).unwrap_err();
    assert_eq!(e.message(), "Module [ModuleList] is missing the required \"forward\" function");
    let tensors = Value::List(vec![t(&[1., 2.], &[2]).into()]);
    let p = construct("torch.nn.ParameterList", &[tensors], &[]).unwrap();
    assert_eq!(p.repr(), "ParameterList(  (0): Parameter containing: [torch.float32 of size 2])");
    let e = construct("torch.nn.Sequential", &[], &[("x".into(), Value::Int(1))]).unwrap_err();
    assert_eq!(e.message(), "Sequential.__init__() got an unexpected keyword argument 'x'");
}

#[test]
fn modules_are_changed_by_name() {
    use flambeau_library::call;
    let linear = Value::Object(construct("torch.nn.Linear", &[4i64.into(), 3i64.into()], &[]).unwrap());
    let Value::Object(o) = &linear else { unreachable!() };
    let amount = [("amount".to_owned(), Value::Float(0.5))];
    call("torch.nn.utils.prune.l1_unstructured", &[linear.clone(), Value::Str("weight".into())], &amount)
        .unwrap();
    let pruned = || call("torch.nn.utils.prune.is_pruned", std::slice::from_ref(&linear), &[]).unwrap();
    assert!(matches!(pruned()[..], [Value::Bool(true)]));
    call("torch.nn.utils.prune.remove", &[linear.clone(), Value::Str("weight".into())], &[]).unwrap();
    assert!(matches!(pruned()[..], [Value::Bool(false)]));
    call("torch.nn.utils.parametrizations.orthogonal", std::slice::from_ref(&linear), &[]).unwrap();
    assert!(o.repr().starts_with("ParametrizedLinear("), "{}", o.repr());
    assert_eq!(o.call(&[t(&[1.; 4], &[1, 4]).into()], &[]).unwrap().len(), 1);
    let e = call("torch.nn.utils.prune.identity", &[Value::Int(1), Value::Str("weight".into())], &[])
        .unwrap_err();
    assert_eq!(e.message(), "expected a Module, got int");
}
