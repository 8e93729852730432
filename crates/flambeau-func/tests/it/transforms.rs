//! Transforms and their compositions.

use flambeau_core::{Result, Tensor, ops};
use flambeau_func::{
    VmapOptions, grad, hessian, jacfwd, jacrev, jvp, linearize, try_vmap, vjp, vmap, vmap_with,
};
use flambeau_test_support as _;

fn t(v: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(v.to_vec(), sizes)
}
fn close(a: &Tensor, b: &[f64]) {
    let a = a.to_vec::<f64>();
    assert_eq!(a.len(), b.len(), "{a:?} against {b:?}");
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() < 1e-9, "{a:?} against {b:?}");
    }
}

#[test]
fn slices_along_any_dimension() {
    let m = t(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    close(&vmap(|x: &Tensor| x.sum())(&m), &[6.0, 15.0]);
    let columns = vmap_with(|x: &Tensor| x.sum(), VmapOptions::new().in_dims(1));
    close(&columns(&m), &[5.0, 7.0, 9.0]);
    let out = vmap_with(|x: &Tensor| x * 2.0, VmapOptions::new().in_dims(1).out_dims(1));
    close(&out(&m), &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    let outer = vmap(|x: &Tensor| vmap(|y: &Tensor| y * y)(x));
    close(&outer(&m), &[1.0, 4.0, 9.0, 16.0, 25.0, 36.0]);
    let chunks = vmap_with(|x: &Tensor| x.sum(), VmapOptions::new().chunk_size(1));
    close(&chunks(&m), &[6.0, 15.0]);
    // a mask that all slices share may be smaller than they
    let places = ops::ones(&[1], Some(flambeau_core::DType::Bool), None, None, None).unwrap();
    close(&vmap(|x: &Tensor| ops::masked_select(x, &places).unwrap())(&m), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}
#[test]
fn gradients_of_slices() {
    let m = t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let w = t(&[1.0, -1.0], &[2]);
    close(&vmap(grad(|x: &Tensor| (x * x * x).sum()))(&m), &[3.0, 12.0, 27.0, 48.0]);
    // of what all slices share: one gradient each
    let loss = |(w, x): &(Tensor, Tensor)| (w * x).sum();
    let both = vmap_with(grad(loss), VmapOptions::new().in_dims([None, Some(0)]));
    let (gw, gx) = both(&(w.clone(), m.clone()));
    close(&gw, &[1.0, 2.0, 3.0, 4.0]);
    close(&gx, &[1.0, -1.0, 1.0, -1.0]);
}
#[test]
fn derivatives_of_derivatives() {
    let x = t(&[1.0, 2.0], &[2]);
    let f = |x: &Tensor| (x * x * x).sum();
    close(&hessian(f)(&x), &[6.0, 0.0, 0.0, 12.0]);
    close(&jacrev(jacrev(f))(&x), &[6.0, 0.0, 0.0, 12.0]);
    close(&jacfwd(jacfwd(f))(&x), &[6.0, 0.0, 0.0, 12.0]);
    close(&jacrev(jacfwd(f))(&x), &[6.0, 0.0, 0.0, 12.0]);
    close(&jacrev(jacrev(jacrev(f)))(&x), &[6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 6.0]);
    let (_, hv) = jvp(grad(f), &x, &t(&[1.0, 1.0], &[2]));
    close(&hv, &[6.0, 12.0]);
    let (_, pull) = vjp(grad(f), &x);
    close(&pull(&t(&[1.0, 2.0], &[2])), &[6.0, 24.0]);
    let (y, push) = linearize(|x: &Tensor| x * x, &x);
    close(&y, &[1.0, 4.0]);
    close(&push(&t(&[1.0, 10.0], &[2])), &[2.0, 40.0]);
    // an inner function's variable is not the outer one's
    let nested = grad(|x: &Tensor| x * &grad(|y: &Tensor| x + y)(&t(&[1.0], &[])));
    close(&nested(&t(&[3.0], &[])), &[1.0]);
}
#[test]
fn captured_tensors_stay_in_their_graph() {
    let w = t(&[2.0], &[]).requires_grad_(true);
    let g = grad(|x: &Tensor| x * x * &w)(&t(&[3.0], &[]));
    assert!(g.requires_grad());
    g.backward();
    close(&w.grad().unwrap(), &[6.0]);
    let plain = grad(|x: &Tensor| x * x)(&t(&[3.0], &[]));
    assert!(!plain.requires_grad());
}
/// What `vjp` and `linearize` give holds no borrow of the point, which may be a temporary.
#[test]
fn points_may_be_temporaries() {
    let x = t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let (_, pull) = vjp(|x: &Tensor| x * x, &ops::select(&x, 0, 1).unwrap());
    assert_eq!(pull(&t(&[1.0, 10.0], &[2])).to_vec::<f64>(), [6.0, 80.0]);
    let (_, push) = linearize(|x: &Tensor| x * x, &ops::select(&x, 0, 0).unwrap());
    assert_eq!(push(&t(&[1.0, 10.0], &[2])).to_vec::<f64>(), [2.0, 40.0]);
}
/// An index that differs from slice to slice.
#[test]
fn slices_have_indices_of_their_own() {
    let x = Tensor::from_vec((0..12).map(f64::from).collect(), [3, 4]);
    let at = Tensor::from_vec(vec![0i64, 3, 1], [3]);
    let got = vmap(|(x, i): &(Tensor, Tensor)| x.i(i))(&(x.clone(), at.clone()));
    assert_eq!(got.to_vec::<f64>(), [0.0, 7.0, 9.0]);
    let same = vmap(|i: &Tensor| x.i((.., i)))(&at);
    assert_eq!(same.to_vec::<f64>(), [0.0, 4.0, 8.0, 3.0, 7.0, 11.0, 1.0, 5.0, 9.0]);
}
/// Slices attend as they do alone, lengths first and batch first: a tensor of vmap is no nested tensor.
#[test]
fn attention_of_slices() {
    use flambeau_nn::prelude::*;
    let x = Tensor::from_vec((0..144).map(|i| (i as f32).sin()).collect(), [3, 4, 3, 4]);
    for first in [false, true] {
        let layer = flambeau_nn::TransformerEncoderLayerOptions::new(4, 2)
            .dim_feedforward(8)
            .dropout(0.0)
            .batch_first(first)
            .build();
        let attention = flambeau_nn::MultiheadAttentionOptions::new(4, 2).batch_first(first).build();
        for training in [true, false] {
            if training {
                layer.train();
            } else {
                layer.eval();
            }
            let all = vmap(|x: &Tensor| layer.call(x))(&x);
            let (attended, weights): (Tensor, Tensor) = vmap(|x: &Tensor| {
                let (y, w) = attention.call(x, x, x);
                (y, w.unwrap())
            })(&x);
            for i in 0..3 {
                let slice = ops::select(&x, 0, i).unwrap();
                let alone = attention.call(&slice, &slice, &slice);
                for (of_all, want) in
                    [(&all, layer.call(&slice)), (&attended, alone.0), (&weights, alone.1.unwrap())]
                {
                    let got = ops::select(of_all, 0, i).unwrap();
                    assert!(
                        ops::allclose(&got, &want, 1e-5, 1e-6, false).unwrap(),
                        "{first} {training} {got} {want}"
                    );
                }
            }
        }
    }
}
#[test]
fn refusals() {
    let m = t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let says = |f: &dyn Fn(&Tensor) -> Result<Tensor>, text: &str| {
        let e = try_vmap(|x: &Tensor| f(x), VmapOptions::new())(&m).unwrap_err();
        assert!(e.message().contains(text), "{e}");
    };
    says(&|x| x.try_item::<f64>().map(|v| t(&[v], &[])), "calling .item()");
    says(&|x| ops::nonzero(x), "dynamic shape");
    says(&|x| ops::rand(x.sizes(), None, None, None, None, None), "randomness error mode");
    let o = VmapOptions::new().randomness("same");
    let same = try_vmap(|x: &Tensor| ops::rand(x.sizes(), None, None, None, None, None), o)(&m).unwrap();
    let v = same.to_vec::<f32>();
    assert_eq!(v[..2], v[2..]);
}
