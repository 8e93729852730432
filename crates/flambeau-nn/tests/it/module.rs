//! The derive, names, loading, conversion, printing, hooks.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Tensor, TensorOptions, functions as torch_fn, ops};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::{Buffer, LoadStateDictOptions, StateDict};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Module)]
struct Block {
    base: nn::Base,
    fc: nn::Linear,
    scale: Parameter,
    mask: Buffer,
    scratch: Buffer,
    width: usize,
    note: Option<String>,
}
impl Block {
    fn new() -> Self {
        Block {
            base: nn::Base::new(),
            fc: nn::Linear::new(2, 2),
            scale: Parameter::new(ones(&[2])),
            mask: Buffer::new(ones(&[2])),
            scratch: Buffer::new(ones(&[1])).persistent(false),
            width: 2,
            note: None,
        }
    }
}
impl Forward<&Tensor> for Block {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        assert!(self.width == 2 && self.note.is_none());
        self.fc.call(x) * &self.scale
    }
}

#[derive(Debug, Module)]
struct Net {
    block: Block,
    maybe: Option<nn::Linear>,
    none: Option<nn::Linear>,
    many: Vec<nn::Linear>,
    named: BTreeMap<String, nn::ReLU>,
    list: Vec<Parameter>,
    boxed: Box<dyn nn::Layer>,
    shared: Arc<nn::Linear>,
    #[module(rename = "last")]
    other: nn::Linear,
    #[module(skip)]
    hidden: nn::Linear,
}
fn net() -> Net {
    let linear = || nn::Linear::new(1, 1);
    Net {
        block: Block::new(),
        maybe: Some(linear()),
        none: None,
        many: vec![linear(), linear()],
        named: [("a".to_owned(), nn::ReLU::new())].into(),
        list: vec![Parameter::new(ones(&[1]))],
        boxed: Box::new(nn::Sequential::new((linear(), nn::ReLU::new()))),
        shared: Arc::new(linear()),
        other: linear(),
        hidden: linear(),
    }
}
fn ones(sizes: &[i64]) -> Tensor {
    let t = Tensor::empty_raw(sizes, DType::F32, flambeau_core::Device::Cpu).unwrap();
    ops::fill_(&t, 1.into()).unwrap();
    t
}

#[test]
fn the_derive_walks_every_kind_of_field() {
    let m = net();
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    let want = [
        "block.scale",
        "block.fc.weight",
        "block.fc.bias",
        "maybe.weight",
        "maybe.bias",
        "many.0.weight",
        "many.0.bias",
        "many.1.weight",
        "many.1.bias",
        "list.0",
        "boxed.0.weight",
        "boxed.0.bias",
        "shared.weight",
        "shared.bias",
        "last.weight",
        "last.bias",
    ];
    assert_eq!(names, want);
    let state: Vec<String> = m.state_dict().keys().map(str::to_owned).collect();
    let mut want: Vec<&str> = want.to_vec();
    want.insert(1, "block.mask");
    assert_eq!(state, want);
    let modules: Vec<String> = m.named_modules().into_iter().map(|(n, _)| n).collect();
    assert_eq!(
        modules,
        [
            "", "block", "block.fc", "maybe", "many", "many.0", "many.1", "named", "named.a", "list",
            "boxed", "boxed.0", "boxed.1", "shared", "last"
        ]
    );
    assert_eq!(m.buffers().len(), 2);
    assert!(m.hidden.weight.requires_grad());
    assert_eq!(m.get_submodule("boxed.0").unwrap().type_name(), "Linear");
    assert_eq!(m.get_submodule("many.7").unwrap_err().message(), "ModuleList has no attribute `7`");
    assert_eq!(m.get_parameter("block.fc.weight").unwrap().sizes(), [2, 2]);
    let fc = m.get_submodule("block.fc").unwrap();
    assert!(fc.as_any().downcast_ref::<nn::Linear>().is_some());
}

#[test]
fn printed_as_pytorch_prints() {
    #[derive(Debug, Module)]
    struct N {
        conv: nn::Conv2d,
        bn: nn::BatchNorm2d,
        l: nn::ModuleList<nn::Linear>,
        d: nn::ModuleDict<Box<dyn nn::Layer>>,
        s: nn::Sequential,
        p: nn::ParameterList<Parameter>,
        e: nn::Embedding,
        ln: nn::LayerNorm,
        i: nn::Identity,
        ce: nn::CrossEntropyLoss,
        c1: nn::Conv1d,
        lr: nn::LeakyReLU,
        g: nn::GELU,
        r: nn::ReLU,
        empty: nn::ModuleList<nn::Linear>,
    }
    let n = N {
        conv: nn::Conv2dOptions::new(1, 2, 3).padding(1).bias(false).build(),
        bn: nn::BatchNorm2d::new(2),
        l: nn::ModuleList::new((0..3).map(|_| nn::Linear::new(2, 2))),
        d: nn::ModuleDict::new([
            ("a", Box::new(nn::ReLU::new()) as Box<dyn nn::Layer>),
            ("b", Box::new(nn::Dropout::new(0.5))),
        ]),
        s: nn::Sequential::new((nn::MaxPool2d::new(2), nn::Flatten::new(), nn::AvgPool2d::new((2, 2)))),
        p: nn::ParameterList::new([Parameter::new(ones(&[2]))]),
        e: nn::EmbeddingOptions::new(3, 2).padding_idx(0).build(),
        ln: nn::LayerNorm::new(2),
        i: nn::Identity::new(),
        ce: nn::CrossEntropyLoss::new(),
        c1: nn::Conv1dOptions::new(1, 2, 3).padding("same").build(),
        lr: nn::LeakyReLU::new(0.01),
        g: nn::GELU::new(),
        r: nn::ReLUOptions::new().inplace(true).build(),
        empty: nn::ModuleList::new([]),
    };
    // text of the same modules in PyTorch
    let want = "N(
  (conv): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
  (bn): BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
  (l): ModuleList(
    (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
  )
  (d): ModuleDict(
    (a): ReLU()
    (b): Dropout(p=0.5, inplace=False)
  )
  (s): Sequential(
    (0): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    (1): Flatten(start_dim=1, end_dim=-1)
    (2): AvgPool2d(kernel_size=(2, 2), stride=(2, 2), padding=0)
  )
  (p): ParameterList(  (0): Parameter containing: [torch.float32 of size 2])
  (e): Embedding(3, 2, padding_idx=0)
  (ln): LayerNorm((2,), eps=1e-05, elementwise_affine=True, bias=True)
  (i): Identity()
  (ce): CrossEntropyLoss()
  (c1): Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding=same)
  (lr): LeakyReLU(negative_slope=0.01)
  (g): GELU(approximate='none')
  (r): ReLU(inplace=True)
  (empty): ModuleList()
)";
    assert_eq!(n.to_string(), want);
}

#[test]
fn loading_reports_as_pytorch_does() {
    #[derive(Debug, Module)]
    struct N {
        fc: nn::Linear,
        bn: nn::BatchNorm1d,
    }
    let make = || N { fc: nn::Linear::new(2, 1), bn: nn::BatchNorm1d::new(1) };
    let (a, mut b) = (make(), make());
    assert_eq!(a.load_state_dict(&b.state_dict()).unwrap().to_string(), "<All keys matched successfully>");
    assert_eq!(a.fc.weight.to_vec::<f32>(), b.fc.weight.to_vec::<f32>());
    assert!(a.fc.weight.requires_grad() && a.fc.weight.is_leaf());
    let bad: StateDict = [("fc.weight", ones(&[1])), ("zz", ones(&[1]))].into_iter().collect();
    assert_eq!(
        a.load_state_dict(&bad).unwrap_err().message(),
        "Error(s) in loading state_dict for N:\n\tMissing key(s) in state_dict: \"fc.bias\", \"bn.weight\", \
         \"bn.bias\", \"bn.running_mean\", \"bn.running_var\". \n\tUnexpected key(s) in state_dict: \"zz\". \n\tsize \
         mismatch for fc.weight: copying a param with shape torch.Size([1]) from checkpoint, the shape in current \
         model is torch.Size([1, 2])."
    );
    let mut extra = b.state_dict();
    extra.insert("zz", ones(&[1]));
    let keys = b.load_state_dict_with(&extra, LoadStateDictOptions::new().strict(false)).unwrap();
    assert_eq!(keys.to_string(), "_IncompatibleKeys(missing_keys=[], unexpected_keys=['zz'])");
    // assigned tensors are the dict's own memory, and the old parameters know that they were replaced
    let old = b.fc.weight.clone();
    let state = a.state_dict();
    b.assign_state_dict(&state, LoadStateDictOptions::new()).unwrap();
    assert!(b.fc.weight.storage().same(a.fc.weight.storage()) && old.is_replaced());
}

#[test]
fn conversion_replaces_each_parameter_once() {
    #[derive(Debug, Module)]
    struct Tied {
        a: nn::Linear,
        b: nn::Linear,
    }
    let mut m = Tied { a: nn::Linear::new(2, 2), b: nn::Linear::new(2, 2) };
    m.b.weight = m.a.weight.clone();
    let old = m.a.weight.clone();
    assert_eq!(m.parameters().len(), 3);
    m.to(DType::F64);
    assert!(m.a.weight.is_same(&m.b.weight) && old.is_replaced() && !m.a.weight.is_replaced());
    assert_eq!(m.a.weight.dtype(), DType::F64);
    assert!(m.a.weight.requires_grad());
    let same = m.a.weight.clone();
    m.double();
    assert!(same.is_same(&m.a.weight) && !same.is_replaced());
    let text = m.try_convert(TensorOptions::from(DType::I32)).unwrap_err();
    assert!(text.message().ends_with("got desired dtype=torch.int32"), "{text}");
    let mut bn = nn::BatchNorm1d::new(2);
    bn.half();
    assert_eq!(bn.num_batches_tracked.as_ref().unwrap().dtype(), DType::I64);
    assert_eq!(bn.running_mean.as_ref().unwrap().dtype(), DType::F16);
    let shared = Arc::new(nn::Linear::new(1, 1));
    let mut both = vec![shared.clone(), shared];
    assert_eq!(both.parameters().len(), 2);
    assert!(both.try_convert(DType::F64.into()).unwrap_err().message().contains("share"));
}

#[test]
fn modes_reach_all_modules() {
    let m = net();
    assert!(m.is_training());
    m.eval();
    assert!(m.modules().into_iter().filter_map(|m| m.base()).all(|b| !b.is_training()));
    m.train();
    assert!(m.block.fc.is_training());
    let mut order = Vec::new();
    m.block.apply(|m| order.push(m.type_name().into_owned()));
    assert_eq!(order, ["Linear", "Block"]);
    m.requires_grad_(false);
    assert!(m.parameters().iter().all(|p| !p.requires_grad()));
}

#[test]
fn hooks_run_on_call_and_can_replace() {
    let m = Block::new();
    let x = ones(&[1, 2]);
    let plain = m.forward(&x);
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let hook = m.register_forward_hook(move |m, ins, outs| {
        assert_eq!((m.type_name().as_ref(), ins.len(), outs.len()), ("Block", 1, 1));
        seen.fetch_add(1, Ordering::Relaxed);
        Some(vec![&outs[0] * 2.0])
    });
    let pre = m.fc.register_forward_pre_hook(|_, ins| Some(vec![&ins[0] * 0.0]));
    let hooked = m.call(&x);
    let bias = m.fc.bias.as_ref().unwrap().to_vec::<f32>();
    assert_eq!(hooked.to_vec::<f32>(), [bias[0] * 2.0, bias[1] * 2.0]);
    hook.remove();
    pre.remove();
    assert_eq!(m.call(&x).to_vec::<f32>(), plain.to_vec::<f32>());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let text = net().try_base().unwrap_err();
    assert!(text.message().contains("`base: nn::Base`"), "{text}");
    m.register_buffer("extra", Buffer::new(ones(&[1]))).unwrap();
    assert!(m.state_dict().get("extra").is_some());
    assert!(m.register_buffer("mask", Buffer::new(ones(&[1]))).is_err());
    assert!(m.register_buffer("a.b", Buffer::new(ones(&[1]))).is_err());
}

#[test]
fn gradients_reach_parameters() {
    let m = Block::new();
    let loss = torch_fn::sum(&m.call(&ones(&[3, 2])));
    loss.backward();
    assert_eq!(m.fc.bias.as_ref().unwrap().grad().unwrap().to_vec::<f32>(), [3.0, 3.0]);
    m.zero_grad();
    assert!(m.fc.weight.grad().is_none());
}

#[test]
fn constructors_refuse_with_pytorch_texts() {
    let text = |e: flambeau_core::Error| e.message().to_owned();
    let e = nn::Conv2dOptions::new(3, 4, 3).groups(2).try_build().unwrap_err();
    assert_eq!(text(e), "in_channels must be divisible by groups");
    let e = nn::Conv2dOptions::new(2, 2, 2).padding("x").try_build().unwrap_err();
    assert_eq!(text(e), "Invalid padding string 'x', should be one of {'valid', 'same'}");
    let e = nn::Conv2dOptions::new(2, 2, 2).padding("same").stride(2).try_build().unwrap_err();
    assert_eq!(text(e), "padding='same' is not supported for strided convolutions");
    let e = nn::DropoutOptions::new().p(2).try_build().unwrap_err();
    assert_eq!(text(e), "dropout probability has to be between 0 and 1, but got 2");
    assert!(nn::DropoutOptions::new().p(f64::NAN).try_build().is_ok());
    let e = nn::BatchNorm1dOptions::new(-2).affine(false).try_build().unwrap_err();
    assert_eq!(text(e), "zeros: Dimension size must be non-negative.");
    let e = nn::LinearOptions::new(2, 2).dtype(flambeau_core::DType::I64).try_build().unwrap_err();
    assert_eq!(text(e), "Only Tensors of floating point and complex dtype can require gradients");
    let e = nn::Unflatten::new(1, [2, -2]).try_forward(&ones(&[1, 5])).unwrap_err();
    assert_eq!(
        text(e),
        "unflatten got an unexpected error:\ninvalid shape dimension -2 at index 1 of shape [2, -2]"
    );
    let e = nn::BatchNorm2d::new(2).try_forward(&ones(&[1, 2])).unwrap_err();
    assert_eq!(text(e), "expected 4D input (got 2D input)");
}

#[test]
fn by_name() {
    use flambeau_library::object::construct;
    let m =
        construct("torch.nn.Linear", &[2i64.into(), 3i64.into()], &[("bias".into(), false.into())]).unwrap();
    assert_eq!(m.repr(), "Linear(in_features=2, out_features=3, bias=False)");
    let out = m.call(&[ones(&[1, 2]).into()], &[]).unwrap();
    assert_eq!(out.len(), 1);
    let e = construct("torch.nn.Linear", &[2i64.into()], &[]).unwrap_err();
    assert_eq!(e.message(), "Linear.__init__() missing 1 required positional argument: 'out_features'");
    let e = construct(
        "torch.nn.Conv2d",
        &[2i64.into(), 2i64.into(), 1i64.into()],
        &[("foo".into(), 1i64.into())],
    );
    assert_eq!(e.unwrap_err().message(), "Conv2d.__init__() got an unexpected keyword argument 'foo'");
}
