//! Containers, in Rust and by name.

use crate::t;
use flambeau_core::Value;
use flambeau_library::object::construct;
use flambeau_nn as nn;
use flambeau_nn::prelude::*;

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

/// Modules in modules in modules: what walks or calls them ends in an error, and dropping does not recurse, at a thread's
/// end neither.
#[test]
fn modules_of_many_levels() {
    fn nested(levels: usize) -> nn::Sequential {
        (0..levels).fold(nn::Sequential::new((nn::ReLU::new(),)), |inner, _| nn::Sequential::new((inner,)))
    }
    let x = flambeau_core::Tensor::from_slice(&[1f32], [1]);
    let fine = nested(200);
    assert_eq!(fine.try_call(&x).unwrap().to_vec::<f32>(), [1.0]);
    assert_eq!(fine.modules().len(), 202);
    fine.try_deepcopy().unwrap();
    let mut deep = nested(300_000);
    let said = |e: flambeau_core::Error| e.message().to_owned();
    assert_eq!(said(deep.try_call(&x).unwrap_err()), "maximum recursion depth exceeded");
    assert_eq!(said(deep.try_deepcopy().unwrap_err()), "maximum recursion depth exceeded");
    assert!(deep.try_to_memory_format(flambeau_core::MemoryFormat::ChannelsLast).is_err());
    let walks: [&dyn Fn(); 5] = [
        &|| drop(deep.state_dict()),
        &|| drop(deep.parameters()),
        &|| drop(deep.named_modules()),
        &|| drop(deep.repr()),
        &|| deep.eval(),
    ];
    for walk in walks {
        let e = std::panic::catch_unwind(std::panic::AssertUnwindSafe(walk)).unwrap_err();
        let text = e.downcast_ref::<String>().map_or("", |s| s);
        assert!(text.contains("maximum recursion depth exceeded"), "{text}");
    }
    // what failed left no level behind
    assert_eq!(fine.try_call(&x).unwrap().to_vec::<f32>(), [1.0]);
    let list = (0..100_000).fold(nn::ModuleList::<Box<dyn nn::Module>>::new([]), |inner, _| {
        nn::ModuleList::new([Box::new(inner) as Box<dyn nn::Module>])
    });
    drop(list);
    drop(deep);
    thread_local!(static KEPT: std::cell::RefCell<Option<nn::Sequential>> = const { std::cell::RefCell::new(None) });
    let kept = nested(100_000);
    let end = std::thread::spawn(move || {
        drop(nested(2));
        let _ = KEPT.try_with(|k| *k.borrow_mut() = Some(kept));
    });
    end.join().unwrap();
}
