//! Items through queues, within one process.

use flambeau_autograd as _;
use flambeau_core::{DType, Tensor, Value, functions as torch};
use flambeau_multiprocessing::{self as mp, Message, SimpleQueue};
use std::time::Duration;

fn through(v: impl Into<Message>) -> Message {
    let q = SimpleQueue::new().unwrap();
    q.put(v).unwrap();
    q.get().unwrap()
}
fn arange(n: i64) -> Tensor {
    Tensor::from_vec((0..n).map(|i| i as f32).collect(), [n])
}

#[test]
fn values() {
    let all = Value::List(vec![
        Value::None,
        Value::Bool(true),
        Value::Int(-3),
        Value::Float(f64::NEG_INFINITY),
        Value::Str("text \u{e9}".into()),
        Value::DType(DType::BF16),
        Value::Slice([None, Some(2), Some(-1)]),
        Value::Tuple(vec![Value::Ellipsis]),
        Value::Dict(vec![("k".into(), Value::List(vec![]))]),
    ]);
    let back = through(Message::Value(all.clone()));
    assert_eq!(format!("{back:?}"), format!("{all:?}"));
    // longer than a packet
    let long = "x".repeat(1 << 20);
    assert_eq!(through(&*long).get::<String>().unwrap(), long);
}
#[test]
fn tensors_are_copies_unless_shared() {
    let x = arange(6).reshape([2, 3]).t();
    let y = through(&x).tensor().unwrap();
    assert_eq!((y.sizes(), y.strides()), (x.sizes(), x.strides()));
    assert_eq!(y.to_vec::<f32>(), x.to_vec::<f32>());
    y.fill_(7.0);
    assert_eq!(x.sum().item::<f32>(), 15.0);
    assert!(!mp::is_shared(&y));
    // two tensors of one memory stay such
    let both = through(Message::Value(Value::List(vec![Value::Tensor(x.clone()), Value::Tensor(x.t())])));
    let both: Vec<Tensor> = both.get().unwrap();
    both[0].fill_(1.0);
    assert_eq!(both[1].sum().item::<f32>(), 6.0);
    assert_eq!(through(torch::zeros([0, 3])).tensor().unwrap().sizes(), [0, 3]);
}
#[test]
fn shared_memory() {
    for strategy in mp::get_all_sharing_strategies().into_iter().rev() {
        mp::set_sharing_strategy(strategy).unwrap();
        let mut x = arange(4);
        let part = x.narrow(0, 1, 2);
        // SAFETY: one process and one thread.
        unsafe { mp::share_memory_(&x).unwrap() };
        assert!(mp::is_shared(&x) && mp::is_shared(&part));
        assert_eq!(x.to_vec::<f32>(), [0.0, 1.0, 2.0, 3.0]);
        let y = through(&part).tensor().unwrap();
        y.fill_(9.0);
        assert_eq!(x.to_vec::<f32>(), [0.0, 9.0, 9.0, 3.0]);
        let e = x.try_resize_(&[100], None).unwrap_err();
        assert!(e.message().contains("not resizable"), "{e}");
    }
}
#[test]
fn gradients_do_not_travel() {
    let x = arange(3).requires_grad_(true);
    assert!(through(&x).tensor().unwrap().requires_grad());
    let e = SimpleQueue::new().unwrap().put(&(&x * 2.0)).unwrap_err();
    assert!(e.message().starts_with("Cowardly refusing to serialize non-leaf tensor"));
}
#[test]
fn queues_through_queues() {
    let inner = SimpleQueue::new().unwrap();
    let other = through(inner.clone());
    assert!(inner.empty().unwrap());
    other.queue().unwrap().put(5).unwrap();
    assert!(!inner.empty().unwrap());
    assert_eq!(inner.get().unwrap().int().unwrap(), 5);
    assert!(inner.get_timeout(Duration::from_millis(10)).unwrap().is_none());
}
#[test]
fn strategies() {
    let e = mp::set_sharing_strategy("nosuch").unwrap_err();
    assert_eq!(
        e.message(),
        "invalid sharing strategy 'nosuch', expected one of {'file_descriptor', 'file_system'}"
    );
}
