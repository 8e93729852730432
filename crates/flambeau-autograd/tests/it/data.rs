//! `x.data()`: the memory of `x` without its history, whose writes gradients do not notice.

use flambeau_autograd::no_grad;
use flambeau_core::api::indexing::Slice;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{BackwardOptions, ErrorKind, Tensor, ops};

fn leaf(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64]).requires_grad_(true)
}
fn run(t: &Tensor) -> flambeau_core::Result<()> {
    ops::sum(t, None, false, None)?.try_backward(BackwardOptions::new())
}

#[test]
fn writes_show_and_are_not_noticed() {
    // as PyTorch: the graph computes with what the memory holds now
    let x = leaf(&[2.0, 3.0]);
    let y = &x * &x;
    let d = x.data();
    assert!(!d.requires_grad() && d.is_leaf() && d.storage().same(x.storage()) && !d.is_same(&x));
    d.mul_(10);
    assert_eq!((x.to_vec::<f64>(), x.version(), d.version()), (vec![20.0, 30.0], 0, 1));
    run(&y).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [40.0, 60.0]);

    // the same by `detach` is an error
    let x = leaf(&[2.0, 3.0]);
    let y = &x * &x;
    x.detach().mul_(10);
    assert!(run(&y).unwrap_err().message().contains("modified by an inplace operation"));
}

#[test]
fn views_elements_lists_and_out_forms_count_there_too() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0]);
    let y = &x * &x;
    let d = x.data();
    d.i(0).fill_(5.0);
    d.set_i(Slice::new(1, 2, 1), 6.0);
    d.view([2, 2]).i((1, 0)).add_(4.0);
    d.elements_mut::<f64>()[3] = 8.0;
    assert_eq!((x.to_vec::<f64>(), x.version(), d.version()), (vec![5.0, 6.0, 7.0, 8.0], 0, 4));
    let mut out = x.data();
    ops::mul_out(&d, &d, &mut out).unwrap();
    ops::_foreach_neg_(&[d.clone(), out.clone()]).unwrap();
    assert_eq!((x.to_vec::<f64>(), x.version()), (vec![25.0, 36.0, 49.0, 64.0], 0));
    run(&y).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [50.0, 72.0, 98.0, 128.0]);
    // a copy is a tensor like any other
    let c = x.data().copy();
    let before = c.version();
    c.add_(1.0);
    assert_eq!((c.version() - before, x.to_vec::<f64>()[0]), (1, 25.0));
}

#[test]
fn each_counts_its_own_writes() {
    let (x, p) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let (d, e) = (x.data(), x.data());
    let y = &d * &p;
    // through another one and through x: not noticed
    e.mul_(2);
    no_grad(|| x.mul_(2));
    assert_eq!((d.version(), e.version(), x.version()), (0, 1, 1));
    run(&y).unwrap();
    assert_eq!(p.grad().unwrap().to_vec::<f64>(), [4.0, 8.0]);
    // through itself or what shares its count: noticed
    for aliased in [false, true] {
        let y = &d * &p;
        if aliased {
            d.detach().add_(1)
        } else {
            d.add_(1)
        };
        assert_eq!(run(&y).unwrap_err().kind(), ErrorKind::Autograd);
    }
    // data of data counts anew
    let f = d.data();
    let y = &d * &p;
    f.zero_();
    assert_eq!((f.version(), d.version()), (1, 2));
    run(&y).unwrap();
    assert_eq!(x.to_vec::<f64>(), [0.0, 0.0]);
}
