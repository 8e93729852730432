//! Calls with any inputs and outputs, fields of any kinds, modules of unknown type, state dicts as maps.

use flambeau_core::Tensor;
use flambeau_core::functions as torch;
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

#[derive(Debug, nn::Tensors)]
struct Boxes {
    corners: Tensor,
    scores: Option<Tensor>,
    image: usize,
}
#[derive(nn::Tensors)]
struct Batch<'a> {
    x: &'a Tensor,
    lengths: &'a [i64],
    mask: Option<&'a Tensor>,
}
#[derive(Clone, Debug, nn::Tensors)]
enum Mode {
    Plain,
    Shifted { by: Tensor },
}

#[derive(Debug, Module)]
struct Net {
    base: nn::Base,
    linear: nn::Linear,
}
#[nn::forward]
impl Net {
    fn forward(
        &self,
        x: &Tensor,
        times: usize,
        mode: &Mode,
        others: &[Tensor],
    ) -> (Tensor, Vec<Tensor>, (Boxes, i64)) {
        let mut y = x.clone();
        for _ in 0..times {
            y = self.linear.call(&y);
        }
        if let Mode::Shifted { by } = mode {
            y = &y + by;
        }
        let boxes = Boxes { corners: y.neg(), scores: others.first().cloned(), image: times };
        (y, others.to_vec(), (boxes, 7))
    }
}
fn net() -> Net {
    let linear = nn::Linear::new(2, 2);
    nn::init::ones_(&linear.weight);
    nn::init::zeros_(linear.bias());
    Net { base: nn::Base::new(), linear }
}

#[derive(Debug, Module)]
struct Fallible {
    base: nn::Base,
    scale: f64,
}
#[nn::forward]
impl Fallible {
    /// What may fail is written once.
    fn forward(&self, batch: Batch<'_>) -> flambeau_core::Result<Tensor> {
        flambeau_core::ensure!(batch.lengths.len() < 3, Value, "too many lengths: {}", batch.lengths.len());
        let y = batch.x * self.scale;
        Ok(match batch.mask {
            Some(m) => &y * m,
            None => y,
        })
    }
}

#[test]
fn call_takes_and_gives_what_forward_does() {
    let m = net();
    let (x, other) = (torch::ones([2]), torch::zeros([3]));
    let (y, list, (boxes, seven)) = m.call(&x, 2, &Mode::Plain, &[other]);
    assert_eq!(y.to_vec::<f32>(), [4.0, 4.0]);
    assert_eq!((list.len(), boxes.image, seven), (1, 2, 7));
    assert_eq!(boxes.corners.to_vec::<f32>(), [-4.0, -4.0]);
    let by = torch::ones([2]);
    let (y, ..) = m.call(&x, 1, &Mode::Shifted { by }, &[]);
    assert_eq!(y.to_vec::<f32>(), [3.0, 3.0]);
    // behind a pointer and in generic code the arguments are one tuple
    fn generic<'x, M>(m: &M, x: &'x Tensor, mode: &'x Mode) -> Tensor
    where
        M: for<'a> Forward<
                (&'a Tensor, usize, &'a Mode, &'a [Tensor]),
                Output = (Tensor, Vec<Tensor>, (Boxes, i64)),
            >,
    {
        m.call((x, 1usize, mode, &[][..])).0
    }
    assert_eq!(generic(&Arc::new(m), &x, &Mode::Plain).to_vec::<f32>(), [2.0, 2.0]);
}

#[test]
fn hooks_see_every_tensor_and_may_replace_it() {
    let m = net();
    let seen: Arc<Mutex<Vec<(usize, usize)>>> = Arc::default();
    let inner = seen.clone();
    m.register_forward_hook(move |_, inputs, outputs| {
        inner.lock().unwrap().push((inputs.len(), outputs.len()));
        None
    });
    m.register_forward_pre_hook(|_, inputs| Some(inputs.iter().map(|t| t * 10.0).collect()));
    let (x, by) = (torch::ones([2]), torch::ones([2]));
    let (y, list, (boxes, _)) = m.call(&x, 1, &Mode::Shifted { by }, &[torch::ones([1]), torch::ones([1])]);
    // x, by and two more go in; y, two of the list, the corners and the scores come out
    assert_eq!(*seen.lock().unwrap(), [(4, 5)]);
    assert_eq!(y.to_vec::<f32>(), [30.0, 30.0]);
    assert_eq!(list[1].to_vec::<f32>(), [10.0]);
    assert_eq!(boxes.scores.unwrap().to_vec::<f32>(), [10.0]);
    // outputs are replaced where they stand
    m.register_forward_hook(|_, _, outputs| Some(outputs.iter().map(|t| t * 0.0).collect()));
    let (y, _, (boxes, seven)) = m.call(&x, 1, &Mode::Plain, &[]);
    assert_eq!((y.to_vec::<f32>(), boxes.corners.to_vec::<f32>(), seven), (vec![0.0; 2], vec![0.0; 2], 7));
    m.register_forward_hook(|_, _, outputs| Some(outputs[1..].to_vec()));
    let e = m.try_call(&x, 1, &Mode::Plain, &[]).unwrap_err();
    assert_eq!(e.message(), "Net.forward(): a hook gave another number of outputs than the module has");
}

#[test]
fn forward_may_fail_and_borrow() {
    let m = Fallible { base: nn::Base::new(), scale: 3.0 };
    let (x, mask) = (torch::ones([2]), torch::zeros([2]));
    assert_eq!(m.call(Batch { x: &x, lengths: &[1], mask: None }).to_vec::<f32>(), [3.0, 3.0]);
    m.register_forward_pre_hook(|_, inputs| {
        assert_eq!(inputs.len(), 2);
        Some(vec![inputs[0].clone(), torch::ones([2])])
    });
    assert_eq!(m.call(Batch { x: &x, lengths: &[1], mask: Some(&mask) }).to_vec::<f32>(), [3.0, 3.0]);
    assert_eq!(m.forward(Batch { x: &x, lengths: &[], mask: Some(&mask) }).to_vec::<f32>(), [0.0, 0.0]);
    let e = m.try_forward(Batch { x: &x, lengths: &[1, 2, 3], mask: None }).unwrap_err();
    assert_eq!(e.message(), "too many lengths: 3");
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| {
        m.forward(Batch { x: &x, lengths: &[1, 2, 3], mask: None })
    }));
    assert_eq!(panic.unwrap_err().downcast_ref::<String>().unwrap(), "too many lengths: 3");
}

#[test]
fn fields_of_many_kinds_are_state() {
    #[derive(Debug, Module)]
    struct Many {
        pair: (nn::Linear, nn::ReLU),
        boxed: Box<[nn::Linear]>,
        by_number: BTreeMap<i64, nn::Linear>,
        hashed: HashMap<u8, nn::Linear>,
        names: Vec<String>,
        factor: Option<f64>,
        #[module(skip)]
        last: Mutex<Option<Tensor>>,
    }
    let l = || nn::LinearOptions::new(1, 1).bias(false).build();
    let m = Many {
        pair: (l(), nn::ReLU::new()),
        boxed: vec![l(), l()].into(),
        by_number: BTreeMap::from([(-1, l()), (10, l())]),
        hashed: HashMap::from([(2, l()), (1, l())]),
        names: vec!["a".into()],
        factor: Some(2.0),
        last: Mutex::new(None),
    };
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    let wanted = [
        "pair.0.weight",
        "boxed.0.weight",
        "boxed.1.weight",
        "by_number.-1.weight",
        "by_number.10.weight",
        "hashed.1.weight",
        "hashed.2.weight",
    ];
    assert_eq!(names, wanted);
    assert_eq!((m.names.len(), m.factor, m.last.lock().unwrap().is_none()), (1, Some(2.0), true));
}

#[test]
fn modules_of_unknown_type() {
    let layers: Vec<nn::Linear> = (0..3).map(|_| nn::Linear::new(2, 2)).collect();
    let mut net = nn::Sequential::new(layers);
    net.extend((nn::ReLU::new(), nn::Linear::new(2, 5)));
    net.append(nn::Tanh::new());
    let boxed: Vec<Box<dyn nn::Layer>> = vec![Box::new(nn::ReLU::new()), Box::new(nn::Linear::new(5, 1))];
    net.extend(boxed);
    let again: nn::Sequential = (0..2).map(|_| nn::ReLU::new()).collect();
    assert_eq!((net.len(), again.len(), (&net).into_iter().count()), (8, 2, 8));
    assert_eq!(net.call(&torch::ones([4, 2])).sizes(), [4, 1]);
    // a boxed layer is that layer, in names and downcasts
    assert!(net[6].is::<nn::ReLU>() && net[7].downcast_ref::<nn::Linear>().unwrap().in_features() == 5);
    assert_eq!(net.state_dict().keys().last(), Some("7.bias"));
    let mut count = 0;
    net.apply(|m| {
        if let Some(l) = m.downcast_ref::<nn::Linear>() {
            nn::init::constant_(&l.weight, 2);
            count += 1;
        }
    });
    assert_eq!(count, 5);
    let any: &dyn Module = &net;
    any.apply(|m| assert!(!m.is::<nn::Conv2d>()));
    assert_eq!(any.modules().iter().filter(|m| m.is::<nn::Linear>()).count(), 5);
    let bare = nn::LinearOptions::new(2, 2).bias(false).build();
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| bare.bias().clone())).unwrap_err();
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "Linear has no bias: it was made without one");
}

#[test]
fn state_dicts_are_maps() {
    let mut s = nn::StateDict::from([("module.a.weight", torch::ones([1])), ("module.b", torch::zeros([1]))]);
    assert!(
        s.insert("module.c", torch::ones([2])).is_none() && s.insert("module.c", torch::ones([3])).is_some()
    );
    assert!(s.contains_key("module.b") && s["module.c"].sizes() == [3] && s.len() == 3);
    s.retain(|name, t| name != "module.b" && t.numel() > 0);
    let s = s.rename(|n| n.replace("module.", ""));
    let pairs: Vec<(&str, i64)> = (&s).into_iter().map(|(n, t)| (n, t.numel())).collect();
    assert_eq!(pairs, [("a.weight", 1), ("c", 3)]);
    let map: HashMap<String, Tensor> = s.into();
    assert_eq!(nn::StateDict::from(map).keys().collect::<Vec<_>>(), ["a.weight", "c"]);
    // metadata moves along with the names of its modules
    let bn = nn::Sequential::new((nn::BatchNorm1d::new(2),));
    let under = bn.state_dict_with(nn::StateDictOptions::new().prefix("module."));
    let back = under.rename(|n| n.strip_prefix("module.").unwrap_or(n).to_owned());
    assert_eq!(back.version("0"), Some(2));
    bn.load_state_dict(&back).unwrap();
    let few = nn::StateDict::from([("0.weight", torch::ones([2]))]);
    let keys = bn.load_state_dict_with(&few, nn::LoadStateDictOptions::new().strict(false)).unwrap();
    // the number of batches may be missing: the dict says no version
    assert_eq!(keys.missing_keys, ["0.bias", "0.running_mean", "0.running_var"]);
}
