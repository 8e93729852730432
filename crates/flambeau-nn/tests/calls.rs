//! Calls whose errors are results, hooks that see keywords, and copies of modules.

use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, ErrorKind, Result, Tensor, Value, functions as torch};
use flambeau_nn as nn;
use flambeau_nn::attention::flex_attention as flex;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::parametrize;
use flambeau_nn::{
    AttentionArgs, Buffer, EncoderArgs, HookOptions, MultiheadAttention, TransformerDecoderLayerOptions,
    TransformerEncoderLayerOptions, TransformerEncoderOptions, TransformerOptions,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn text<T>(r: Result<T>) -> String {
    match r {
        Ok(_) => panic!("an error was expected"),
        Err(e) => e.message().to_owned(),
    }
}
fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>()
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
    assert_eq!(text(layer.try_forward(&source, &EncoderArgs::new())), wanted);
    let stack = TransformerEncoderOptions::new(layer, 2).enable_nested_tensor(false).build();
    assert_eq!(text(stack.try_forward(&source, &EncoderArgs::new())), wanted);
    let decoder = TransformerDecoderLayerOptions::new(4, 2).dim_feedforward(4).build();
    decoder.multihead_attn.register_forward_pre_hook(|_, _| Some(vec![]));
    let e = text(decoder.try_call((&source, &source)));
    assert_eq!(e, "MultiheadAttention.forward() takes another number of tensors than the 0 that a hook gave");
    let gru = nn::GRU::new(3, 3);
    gru.register_forward_pre_hook(|_, x| Some(x[..1].to_vec()));
    let packed = nn::utils::rnn::pack_sequence(&[torch::ones([2, 3])], true);
    assert!(
        text(gru.try_call(&packed)).starts_with("GRU.forward() takes another number of tensors than the 1")
    );
}

#[test]
fn wrong_backward_hooks_are_errors() {
    let x = torch::ones([2, 3]).with_grad();
    let m = nn::Linear::new(3, 3);
    let hook = m.register_full_backward_hook(|_, _, _| Some(vec![]));
    assert_eq!(
        text(m.call(&x).sum().try_backward(&Default::default())),
        "Backward hook returned an invalid number of grad_input, got 0, but expected 1"
    );
    hook.remove();
    let hook = m.register_full_backward_pre_hook(|_, _| Some(vec![]));
    assert_eq!(
        text(m.call(&x).sum().try_backward(&Default::default())),
        "Backward pre hook returned an invalid number of grad_output, got 0, but expected 1"
    );
    hook.remove();
    m.register_full_backward_hook(|_, _, o| Some(o.to_vec()));
    let e = text(m.call(&torch::ones([2, 3])).sum().try_backward(&Default::default()));
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
    let given = nn::utils::stateless::functional_call(&net, &nn::StateDict::new(), &torch::ones([2, 3]));
    assert!(text(given).contains("cannot be multiplied"));

    let mut layer = nn::Linear::new(3, 3);
    nn::utils::spectral_norm(&mut layer, "weight").unwrap();
    layer.try_base().unwrap().register_parameter("weight_orig", Parameter::new(torch::ones([2, 2]))).unwrap();
    assert!(layer.try_call(&torch::ones([1, 3])).is_err());
}

#[test]
fn hooks_see_and_change_keywords() {
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
    let args = AttentionArgs::new().attn_mask(&mask).need_weights(false);
    assert!(m.call((&x, &x, &x, &args)).1.is_none());
    m.call((&x, &x, &x));
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
    let args = AttentionArgs::new().attn_mask(&all).need_weights(false);
    let (y, weights) = m.call((&x, &x, &x, &args));
    let later = weights.unwrap().triu(1);
    assert_eq!(later.sum().item::<f32>(), 0.0);
    hook.remove();
    let (wanted, _) = m.call((&x, &x, &x, &AttentionArgs::new().attn_mask(&mask)));
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
    layer.call((&x, &EncoderArgs::new().mask(&mask)));
    assert_eq!(*seen.lock().unwrap(), ["src_mask", "attn need_weights", "attn attn_mask"]);
    let hook = nn::modules::module::register_module_forward_hook_with_kwargs(
        |m, _, kwargs, _| match m.type_name().as_ref() {
            "Bilinear" => Err(Error::value(format!("{} keywords", kwargs.len()))),
            _ => Ok(None),
        },
        HookOptions::new(),
    );
    let bilinear = nn::Bilinear::new(2, 2, 1);
    assert_eq!(text(bilinear.try_call((&torch::ones([1, 2]), &torch::ones([1, 2])))), "0 keywords");
    hook.remove();
}

#[derive(Debug, Module)]
struct Net {
    base: nn::Base,
    first: nn::Linear,
    shared: Arc<nn::Linear>,
    again: Arc<nn::Linear>,
    layers: Vec<Box<dyn nn::Layer>>,
    free: Parameter,
    also_free: Parameter,
    seen: Buffer,
    scale: f64,
    named: std::collections::BTreeMap<String, nn::Linear>,
    maybe: Option<[nn::Linear; 2]>,
}
impl Forward<&Tensor> for Net {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.again.call(&self.shared.call(&self.first.call(x)));
        self.layers.iter().fold(x, |x, l| l.call(&x)) * self.scale
            + &(self.free.tensor() * self.also_free.tensor())
    }
}
fn net() -> Net {
    let shared = Arc::new(nn::Linear::new(3, 3));
    let free = Parameter::new(torch::ones([3]));
    Net {
        base: nn::Base::new(),
        first: nn::Linear::new(3, 3),
        again: shared.clone(),
        shared,
        layers: vec![Box::new(nn::ReLU::new()), Box::new(nn::BatchNorm1d::new(3))],
        also_free: free.clone(),
        free,
        seen: Buffer::new(torch::zeros([1])).persistent(false),
        scale: 0.5,
        named: [("one".to_owned(), nn::Linear::new(1, 1))].into(),
        maybe: Some([nn::Linear::new(1, 1), nn::Linear::new(1, 1)]),
    }
}

#[test]
fn copies_are_like_their_originals_and_apart() {
    let m = net();
    m.register_buffer("extra", Buffer::new(torch::ones([2]))).unwrap();
    m.parameters()[0].requires_grad_(false);
    let x = torch::randn([4, 3]);
    m.call(&x).sum().backward();
    m.eval();
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    m.first.register_forward_hook(move |_, _, _| {
        count.fetch_add(1, Ordering::Relaxed);
        None
    });
    let copy = m.deepcopy();
    assert_eq!(copy.repr(), m.repr());
    assert_eq!(values(&copy.call(&x)), values(&m.call(&x)));
    assert_eq!(called.load(Ordering::Relaxed), 2);
    assert!(!copy.is_training() && !copy.layers[1].is_training());
    let (old, new) = (m.named_parameters(), copy.named_parameters());
    assert_eq!(old.len(), new.len());
    for ((a, p), (b, q)) in old.iter().zip(&new) {
        assert_eq!((a, p.requires_grad(), values(p)), (b, q.requires_grad(), values(q)));
        assert!(!p.is_same(q) && q.grad().is_none() && q.is_leaf());
        assert_ne!(p.data_ptr().unwrap(), q.data_ptr().unwrap());
    }
    // what was shared is shared, and nothing with the original
    assert!(Arc::ptr_eq(&copy.shared, &copy.again) && !Arc::ptr_eq(&copy.shared, &m.shared));
    assert!(copy.free.is_same(&copy.also_free));
    assert!(!copy.seen.is_persistent() && copy.get_buffer("extra").is_ok());
    copy.get_buffer("extra").unwrap().fill_(7);
    assert_eq!(values(&m.get_buffer("extra").unwrap()), [1.0, 1.0]);
    let keys = |m: &Net| m.state_dict().keys().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(keys(&m), keys(&copy));
}

#[test]
fn library_modules_are_copied() {
    let x = torch::randn([2, 3, 4]);
    let whole = TransformerOptions::new().d_model(4).nhead(2).dim_feedforward(4).build();
    whole.eval();
    assert_eq!(values(&whole.deepcopy().call((&x, &x))), values(&whole.call((&x, &x))));
    let lazy = nn::LazyLinear::new(2);
    let open = lazy.deepcopy();
    assert_eq!(open.call(&x).sizes(), [2, 3, 2]);
    assert!(lazy.materialized().is_none());
    let closed = open.deepcopy();
    assert_eq!(values(&closed.call(&x)), values(&open.call(&x)));
    let any: Box<dyn Module> = Box::new(nn::GRU::new(4, 4));
    assert_eq!(any.deepcopy().state_dict().len(), any.state_dict().len());
    let adaptive = nn::AdaptiveLogSoftmaxWithLoss::new(4, 10, vec![2, 5]);
    assert_eq!(adaptive.deepcopy().repr(), adaptive.repr());
    let dict = nn::ModuleDict::new([("a", nn::Linear::new(1, 1))]);
    assert!(!dict.deepcopy()["a"].weight.is_same(&dict["a"].weight));
    let loss = nn::CrossEntropyLossOptions::new().weight(torch::ones([2])).build();
    assert_eq!(loss.deepcopy().state_dict().len(), 1);
}

#[test]
fn data_parallel_calls_its_module() {
    use flambeau_library::object::construct;
    let model = nn::DataParallel::new(nn::LSTM::new(2, 3));
    let x = torch::randn([4, 1, 2]);
    let (y, _) = model.call(&x);
    assert_eq!(values(&y), values(&model.module.call(&x).0));
    assert_eq!(model.state_dict().keys().next(), Some("module.weight_ih_l0"));
    assert_eq!(values(&nn::data_parallel(&nn::Identity::new(), &x)), values(&x));
    let e = nn::try_data_parallel(&nn::Identity::new(), &x, &[flambeau_core::Device::cuda(0)]);
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Missing);
    let linear = construct("torch.nn.Linear", &[Value::Int(2), Value::Int(3)], &[]).unwrap();
    let named = construct("torch.nn.DataParallel", &[Value::Object(linear)], &[]).unwrap();
    let y = named.call(&[Value::Tensor(x)], &[]).unwrap();
    assert_eq!(Tensor::from_value(&y[0]).unwrap().sizes(), [4, 1, 3]);
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
    m.try_zero_grad(false).unwrap();
    assert_eq!(values(&m.weight.grad().unwrap()), [0.0; 4]);
}

#[derive(Debug, Module)]
struct Counted {
    number: AtomicUsize,
}

#[test]
fn what_cannot_be_copied_says_so() {
    let e = Counted { number: AtomicUsize::new(0) }.try_deepcopy().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Missing);
    assert!(e.message().contains("Counted.number"), "{e}");
    let mut layer = nn::Linear::new(2, 2);
    parametrize::register_parametrization(&mut layer, "weight", Box::new(nn::Identity::new())).unwrap();
    let e = nn::Sequential::new((layer,)).try_deepcopy().unwrap_err();
    assert!(e.kind() == ErrorKind::Missing && e.message().contains("computed from others"), "{e}");
    let m = nn::Linear::new(2, 2);
    m.register_buffer("made", Buffer::new(m.weight.tensor() * 2.0)).unwrap();
    assert!(text(m.try_deepcopy()).starts_with("Only Tensors created explicitly by the user (graph leaves)"));
}

#[test]
fn masks_that_fail_are_errors() {
    let (q, k) = (torch::randn([1, 1, 4, 2]), torch::randn([1, 1, 4, 2]));
    let bad = |_: &Tensor, _: &Tensor, q: &Tensor, _: &Tensor| q.to(flambeau_core::DType::F32);
    let fine = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
    let options = flex::BlockMaskOptions::new().block_size((2, 2));
    assert!(flex::try_create_block_mask(flex::and_masks(bad, fine), None, None, 4, 4, &options).is_err());
    assert!(flex::try_create_block_mask(flex::or_masks(fine, bad), None, None, 4, 4, &options).is_err());
    let e = flex::try_create_mask(fine, None, None, -1, 4, flambeau_core::Device::Cpu);
    assert!(e.is_err());
    let fails = |_: &Tensor, _: &Tensor, _: &Tensor, _: &Tensor, _: &Tensor| {
        Err::<Tensor, _>(Error::value("no score"))
    };
    let options = flex::FlexAttentionOptions::new().score_mod(fails);
    let e = flex::try_flex_attention(&q, &k, &k, &options, flex::AuxRequest::default());
    assert_eq!(text(e.map(|(y, _)| y)), "no score");

    let (n, i) = (torch::zeros([1, 1, 2]), torch::zeros([1, 1, 2, 2]));
    let of = |block, lengths| {
        flex::BlockMask::from_kv_blocks(&n, &i, None, block, None, lengths).map(|m| m.numel())
    };
    assert_eq!(text(of((0, 2), None)), "BLOCK_SIZE must be positive, got (0, 2)");
    assert!(text(of((2, 2), Some((-2, 4)))).contains("must not be negative"));
    assert!(text(of((2, 2), Some((40, 4)))).contains("are not enough for 40"));
    assert!(text(of((i64::MAX, 2), None)).contains("too large"));
    assert_eq!(of((2, 2), None).unwrap(), 16);
    let full = (torch::zeros([1, 1, 3]), torch::zeros([1, 1, 3, 2]));
    let e = flex::BlockMask::from_kv_blocks(&n, &i, Some((&full.0, &full.1)), (2, 2), None, None);
    assert!(text(e).contains("whole blocks of sizes"));
    let mut mask = flex::BlockMask::from_kv_blocks(&n, &i, None, (2, 2), None, None).unwrap();
    assert!(mask.adjust(-1, 2).is_err());
    mask.block_size = (0, 0);
    assert!(mask.try_sparsity().is_err() && mask.to_string().contains("BLOCK_SIZE"));
    assert!(mask.strips_error(&q, &k));
}
trait StripsError {
    fn strips_error(&self, q: &Tensor, k: &Tensor) -> bool;
}
impl StripsError for flex::BlockMask {
    fn strips_error(&self, q: &Tensor, k: &Tensor) -> bool {
        let options = flex::FlexAttentionOptions::new().block_mask(self);
        flex::try_flex_attention(q, k, k, &options, flex::AuxRequest::default()).is_err()
    }
}

/// The mask is PyTorch's for the same weight.
#[test]
fn pruned_by_the_nuclear_norm() {
    let mut m = nn::Conv1d::new(3, 4, 2);
    let values: Vec<f32> = (0..24).map(|i| ((i * i) as f32).sin()).collect();
    let fresh = Tensor::from_vec_raw(values, &[4, 3, 2]).unwrap();
    flambeau_core::ops::copy_(&m.weight.tensor().alias_detached(), &fresh, false).unwrap();
    nn::utils::prune::ln_structured(&mut m, "weight", 2, nn::utils::prune::Norm::Nuc, 0, None).unwrap();
    let mask = m.get_buffer("weight_mask").unwrap();
    assert_eq!(mask.select(1, 0).select(1, 0).to_vec::<f32>(), [0.0, 1.0, 1.0, 0.0]);
    let mut flat = nn::Linear::new(3, 2);
    let e = nn::utils::prune::ln_structured(&mut flat, "weight", 1, nn::utils::prune::Norm::Nuc, 0, None)
        .unwrap_err();
    assert_eq!(e.message(), "linalg.matrix_norm: dim must be a 2-tuple. Got 1");
}
