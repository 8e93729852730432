//! Hooks: their order, what they see and change, keywords, and what is wrong with some. Those of all modules reach every
//! module of the process.

use crate::{log, t, taken, text, values};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Tensor, Value, functions as torch, ops};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::{
    HookOptions, MultiheadAttention, MultiheadAttentionArgs, TransformerDecoderLayerOptions,
    TransformerEncoderArgs, TransformerEncoderLayerOptions, TransformerEncoderOptions,
};
use flambeau_test_support::alone;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn hooks_run_in_order() {
    alone!();
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
    alone!();
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
fn wrong_hooks_are_errors() {
    let x = torch::ones([2, 3]);
    let m = nn::Linear::new(3, 3);
    let hook = m.register_forward_pre_hook(|_, x| Some(vec![x[0].clone(), x[0].clone()]));
    assert_eq!(
        text(m.try_call(&x)),
        "Linear.forward() takes another number of tensors than the 2 that a hook gave"
    );
    hook.remove();
    let hook = m.register_forward_hook(|_, _, _| Some(vec![]));
    assert_eq!(
        text(m.try_call(&x)),
        "Linear.forward(): a hook gave another number of outputs than the module has"
    );
    hook.remove();
    let hook = m.register_forward_pre_hook_with_kwargs(|_, x, _| {
        Ok(Some((x.to_vec(), vec![("alpha".to_owned(), Value::Int(1))])))
    });
    assert_eq!(text(m.try_call(&x)), "Linear.forward() got an unexpected keyword argument 'alpha'");
    hook.remove();
    let hook = m.register_forward_hook_with_kwargs(|_, _, _, _| Err(Error::value("no")));
    assert_eq!(text(m.try_call(&x)), "no");
    hook.remove();
    assert!(m.try_call(&x).is_ok());

    // in the middle of others' try_forward
    let layer = TransformerEncoderLayerOptions::new(4, 2).dim_feedforward(4).build();
    layer.linear1.register_forward_hook(|_, _, _| Some(vec![]));
    let source = torch::ones([2, 1, 4]);
    let wanted = "Linear.forward(): a hook gave another number of outputs than the module has";
    assert_eq!(text(layer.try_forward(&source)), wanted);
    let stack = TransformerEncoderOptions::new(layer, 2).enable_nested_tensor(false).build();
    assert_eq!(text(stack.try_forward(&source)), wanted);
    let decoder = TransformerDecoderLayerOptions::new(4, 2).dim_feedforward(4).build();
    decoder.multihead_attn.register_forward_pre_hook(|_, _| Some(vec![]));
    let e = text(decoder.try_call(&source, &source));
    assert_eq!(e, "MultiheadAttention.forward() takes another number of tensors than the 0 that a hook gave");
    let gru = nn::GRU::new(3, 3);
    gru.register_forward_pre_hook(|_, x| Some(x[..1].to_vec()));
    let packed = nn::utils::rnn::pack_sequence(&[torch::ones([2, 3])]);
    assert!(
        text(gru.try_call(&packed, None))
            .starts_with("GRU.forward() takes another number of tensors than the 1")
    );
}

#[test]
fn wrong_backward_hooks_are_errors() {
    let x = torch::ones([2, 3]).with_grad();
    let m = nn::Linear::new(3, 3);
    let hook = m.register_full_backward_hook(|_, _, _| Some(vec![]));
    assert_eq!(
        text(m.call(&x).sum().try_backward(Default::default())),
        "Backward hook returned an invalid number of grad_input, got 0, but expected 1"
    );
    hook.remove();
    let hook = m.register_full_backward_pre_hook(|_, _| Some(vec![]));
    assert_eq!(
        text(m.call(&x).sum().try_backward(Default::default())),
        "Backward pre hook returned an invalid number of grad_output, got 0, but expected 1"
    );
    hook.remove();
    m.register_full_backward_hook(|_, _, o| Some(o.to_vec()));
    let e = text(m.call(&torch::ones([2, 3])).sum().try_backward(Default::default()));
    assert!(
        e.starts_with("Backward hook for Modules where no input requires gradient should always return"),
        "{e}"
    );
}

trait WithGrad {
    fn with_grad(self) -> Self;
}

impl WithGrad for Tensor {
    fn with_grad(self) -> Self {
        self.requires_grad_(true);
        self
    }
}

#[test]
fn errors_go_through_containers_and_are_seen_by_hooks() {
    let net = nn::Sequential::new((nn::Linear::new(3, 4), nn::Linear::new(5, 2)));
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    net.try_base().unwrap().register_forward_hook_with(
        move |_, _, out| {
            assert!(out.is_empty());
            count.fetch_add(1, Ordering::Relaxed);
            None
        },
        HookOptions::new().always_call(true),
    );
    let e = net.try_call(&torch::ones([2, 3])).unwrap_err();
    assert!(e.message().contains("mat1 and mat2 shapes cannot be multiplied"), "{e}");
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    let given = nn::utils::stateless::try_functional_call(
        &net,
        &nn::StateDict::new(),
        &torch::ones([2, 3]),
        Default::default(),
    );
    assert!(text(given).contains("cannot be multiplied"));

    let mut layer = nn::Linear::new(3, 3);
    nn::utils::try_spectral_norm(&mut layer, "weight", Default::default()).unwrap();
    layer.try_base().unwrap().register_parameter("weight_orig", Parameter::new(torch::ones([2, 2]))).unwrap();
    assert!(layer.try_call(&torch::ones([1, 3])).is_err());
}

#[test]
fn hooks_see_and_change_keywords() {
    alone!();
    let m = MultiheadAttention::new(4, 2);
    let x = torch::randn([3, 1, 4]);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = seen.clone();
    m.register_forward_hook_with_kwargs(move |_, args, kwargs, _| {
        let names: Vec<&str> = kwargs.iter().map(|(n, _)| n.as_str()).collect();
        note.lock().unwrap().push(format!("{} {}", args.len(), names.join(" ")));
        Ok(None)
    });
    let mask = torch::ones([3, 3]).triu(1).eq(1);
    let args = MultiheadAttentionArgs::new().attn_mask(&mask).need_weights(false);
    assert!(m.call_with(&x, &x, &x, args.clone()).1.is_none());
    m.call(&x, &x, &x);
    assert_eq!(*seen.lock().unwrap(), ["3 need_weights attn_mask", "3 "]);

    // another mask, and the weights after all
    let causal = mask.clone();
    let hook = m.register_forward_pre_hook_with_kwargs(move |_, args, kwargs| {
        let mut kwargs: Vec<_> = kwargs.iter().filter(|(n, _)| n != "need_weights").cloned().collect();
        assert!(bool::from_value(&Value::Bool(true))?);
        kwargs.retain(|(n, _)| n != "attn_mask");
        kwargs.push(("attn_mask".to_owned(), Value::Tensor(causal.clone())));
        Ok(Some((args.to_vec(), kwargs)))
    });
    let all = torch::zeros([3, 3]).eq(1);
    let args = MultiheadAttentionArgs::new().attn_mask(&all).need_weights(false);
    let (y, weights) = m.call_with(&x, &x, &x, args.clone());
    let later = weights.unwrap().triu(1);
    assert_eq!(later.sum().item::<f32>(), 0.0);
    hook.remove();
    let (wanted, _) = m.call_with(&x, &x, &x, MultiheadAttentionArgs::new().attn_mask(&mask));
    assert_eq!(values(&y), values(&wanted));

    // PyTorch's names, also where the struct's differ, and from inside
    let layer = TransformerEncoderLayerOptions::new(4, 2).dim_feedforward(4).build();
    let (note, inner) = (seen.clone(), seen.clone());
    seen.lock().unwrap().clear();
    layer.register_forward_pre_hook_with_kwargs(move |_, _, kwargs| {
        note.lock().unwrap().extend(kwargs.iter().map(|(n, _)| n.clone()));
        Ok(Some((vec![torch::ones([3, 1, 4])], kwargs.to_vec())))
    });
    layer.self_attn.register_forward_pre_hook_with_kwargs(move |_, _, kwargs| {
        inner.lock().unwrap().extend(kwargs.iter().map(|(n, _)| format!("attn {n}")));
        Ok(None)
    });
    layer.call_with(&x, TransformerEncoderArgs::new().mask(&mask));
    assert_eq!(*seen.lock().unwrap(), ["src_mask", "attn need_weights", "attn attn_mask"]);
    let hook = nn::modules::module::register_module_forward_hook_with_kwargs(
        |m, _, kwargs, _| match m.type_name().as_ref() {
            "Bilinear" => Err(Error::value(format!("{} keywords", kwargs.len()))),
            _ => Ok(None),
        },
        HookOptions::new(),
    );
    let bilinear = nn::Bilinear::new(2, 2, 1);
    assert_eq!(text(bilinear.try_call(&torch::ones([1, 2]), &torch::ones([1, 2]))), "0 keywords");
    hook.remove();
}
