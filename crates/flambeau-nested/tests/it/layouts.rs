//! Both layouts: construction, conversion, and operators beside the same operators on each component.

use flambeau_core::{DType, Layout, Result, Scalar, Tensor, ops};
use flambeau_nested::functions::*;
use flambeau_nested::is_nested;
use flambeau_nn_functional::ops as nn;

pub fn t(v: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(v.to_vec(), sizes)
}
pub fn parts() -> Vec<Tensor> {
    vec![
        t(&[0.5, -1.0, 2.0, 3.0, 0.25, -0.75], &[2, 3]),
        t(&[1.5, 1.0, -2.0], &[1, 3]),
        t(&[-1.0, 0.0, 1.0, 2.0, -3.0, 4.0, 0.5, 0.5, 0.5], &[3, 3]),
    ]
}
pub const LAYOUTS: [Layout; 2] = [Layout::Strided, Layout::Jagged];
pub fn nested(layout: Layout) -> Tensor {
    nested_tensor_with(parts(), NestedOptions::new().layout(layout))
}
fn components(t: &Tensor) -> Vec<(Vec<i64>, Vec<f64>)> {
    assert!(is_nested(t));
    let all = ops::unbind(t, 0).unwrap();
    let wide = |t: &Tensor| ops::to_copy(t, Some(DType::F64), None, None, None, false, None).unwrap();
    all.iter()
        .map(|t| {
            (
                t.sizes().to_vec(),
                ops::contiguous(&wide(t), flambeau_core::MemoryFormat::Contiguous).unwrap().to_vec(),
            )
        })
        .collect()
}
/// The operator on the nested tensor gives what it gives on each component.
#[track_caller]
fn as_components(
    layout: Layout,
    on: impl Fn(&Tensor) -> Result<Tensor>,
    each: impl Fn(&Tensor) -> Result<Tensor>,
) {
    let got = on(&nested(layout)).unwrap();
    let want: Vec<Tensor> = parts().iter().map(|p| each(p).unwrap()).collect();
    let want = nested_tensor(&want);
    let (got, want) = (components(&got), components(&want));
    assert_eq!(got.len(), want.len());
    for ((gs, g), (ws, w)) in got.iter().zip(&want) {
        assert_eq!(gs, ws, "{layout:?}");
        assert!(g.iter().zip(w).all(|(a, b)| (a - b).abs() < 1e-12), "{layout:?}: {g:?} {w:?}");
    }
}

#[test]
fn construction_and_padding() {
    for layout in LAYOUTS {
        let x = nested(layout);
        assert_eq!((x.dim(), x.numel(), x.layout(), x.sizes()[0], x.sizes()[2]), (3, 18, layout, 3, 3));
        assert!(x.sizes()[1] < 0 && x.is_contiguous() && x.is_leaf());
        let padded = x.to_padded_tensor(9.0);
        assert_eq!(padded.sizes(), [3, 3, 3]);
        assert_eq!(
            ops::select(&padded, 0, 1).unwrap().to_vec::<f64>(),
            [1.5, 1.0, -2.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]
        );
        assert_eq!(components(&x).iter().map(|c| c.1.len()).collect::<Vec<_>>(), [6, 3, 9]);
        let wide = x.try_to_padded_tensor(0.0, Some(&[3, 5, 3])).unwrap();
        assert_eq!(wide.sizes(), [3, 5, 3]);
    }
    // rows of one size
    let full = t(&[0.0; 12], &[2, 3, 2]);
    for layout in LAYOUTS {
        let x = try_nested_rows(&full, NestedOptions::new().layout(layout)).unwrap();
        assert_eq!(x.to_padded_tensor(1.0).sizes(), [2, 3, 2]);
    }
}
#[test]
fn jagged_views_share_their_rows() {
    let values = t(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &[7]);
    let offsets = Tensor::from_vec(vec![0i64, 2, 2, 7], [4]);
    let x = nested_tensor_from_jagged(&values, &offsets);
    assert_eq!(
        components(&x).iter().map(|c| c.1.clone()).collect::<Vec<_>>(),
        [vec![1.0, 2.0], vec![], vec![3.0, 4.0, 5.0, 6.0, 7.0]]
    );
    ops::mul_(&values, &t(&[10.0], &[1])).unwrap();
    assert_eq!(components(&x)[0].1, [10.0, 20.0]);
    // the same offsets make the same ragged size, others another
    let (same, other) = (
        nested_tensor_from_jagged(&values, &offsets),
        nested_tensor_from_jagged(&values, &ops::clone(&offsets, None).unwrap()),
    );
    assert_eq!(x.sizes(), same.sizes());
    assert_ne!(x.sizes(), other.sizes());
    assert!(ops::add(&x, &same, Scalar::Int(1)).is_ok());
    let e = ops::add(&x, &other, Scalar::Int(1)).unwrap_err();
    assert!(
        e.message()
            .starts_with("cannot call binary pointwise function add.Tensor with inputs of shapes (3, j"),
        "{e:?}"
    );
    // holes
    let lengths = Tensor::from_vec(vec![1i64, 0, 3], [3]);
    let x = nested_tensor_from_jagged_with(&values, Some(&offsets), JaggedOptions::new().lengths(&lengths));
    assert!(!x.is_contiguous() && x.numel() == 4);
    assert_eq!(components(&x)[2].1, [30.0, 40.0, 50.0]);
    assert!(ops::contiguous(&x, flambeau_core::MemoryFormat::Contiguous).unwrap().is_contiguous());
    let rows = narrow(
        &t(&(0..12).map(f64::from).collect::<Vec<_>>(), &[3, 4]),
        1,
        &Tensor::from_vec(vec![0i64, 1, 2], [3]),
        &Tensor::from_vec(vec![2i64], [1]),
    );
    assert_eq!(
        components(&rows).iter().flat_map(|c| c.1.clone()).collect::<Vec<_>>(),
        [0.0, 1.0, 5.0, 6.0, 10.0, 11.0]
    );
    let mask = ops::gt(&t(&[1.0, -1.0, 1.0, -1.0, -1.0, 1.0], &[2, 3]), &t(&[0.0], &[1])).unwrap();
    let chosen = masked_select(&t(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]), &mask);
    assert_eq!(
        components(&chosen).iter().map(|c| c.1.clone()).collect::<Vec<_>>(),
        [vec![1.0, 3.0], vec![6.0]]
    );
}
#[test]
fn element_by_element() {
    for layout in LAYOUTS {
        for f in [ops::sin, ops::exp, ops::neg, ops::abs, ops::relu, ops::sigmoid, ops::isnan, ops::square] {
            as_components(layout, f, f);
        }
        as_components(layout, |x| ops::mul(x, x), |x| ops::mul(x, x));
        as_components(layout, |x| ops::where_(&ops::gt(x, &t(&[0.0], &[]))?, x, &ops::neg(x)?), ops::abs);
        as_components(layout, |x| nn::gelu(x, "none"), |x| nn::gelu(x, "none"));
        as_components(
            layout,
            |x| ops::zeros_like(x, None, None, None, None, None),
            |x| ops::zeros_like(x, None, None, None, None, None),
        );
        let x = nested(layout);
        ops::fill_(&x, Scalar::Float(2.0)).unwrap();
        ops::mul_(&x, &x).unwrap();
        assert!(components(&x).iter().all(|c| c.1.iter().all(|v| *v == 4.0)));
    }
    let row = t(&[1.0, 10.0, 100.0], &[3]);
    as_components(Layout::Jagged, |x| ops::mul(x, &row), |x| ops::mul(x, &row));
    // one row for each component
    let each = t(&[1.0, 2.0, 3.0], &[3, 1, 1]);
    let y = components(
        &ops::mul(&ops::ones_like(&nested(Layout::Jagged), None, None, None, None, None).unwrap(), &each)
            .unwrap(),
    );
    assert_eq!(y.iter().map(|c| c.1[0]).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}
#[test]
fn views() {
    for layout in LAYOUTS {
        as_components(layout, |x| ops::transpose(x, 1, 2), |x| ops::transpose(x, 0, 1));
        as_components(layout, |x| ops::unsqueeze(x, 3), |x| ops::unsqueeze(x, 2));
        as_components(layout, |x| ops::unsqueeze(x, 1), |x| ops::unsqueeze(x, 0));
        as_components(layout, |x| ops::squeeze_dim(&ops::unsqueeze(x, 1)?, 1), |x| Ok(x.clone()));
        as_components(layout, |x| ops::select(x, 2, -1), |x| ops::select(x, 1, -1));
        as_components(layout, |x| ops::slice(x, 2, Some(1), None, 1), |x| ops::slice(x, 1, Some(1), None, 1));
        as_components(
            layout,
            |x| Ok(ops::chunk(x, 2, -1)?[0].clone()),
            |x| Ok(ops::chunk(x, 2, -1)?[0].clone()),
        );
        as_components(
            layout,
            |x| Ok(ops::split_with_sizes(x, &[1, 2], 2)?[1].clone()),
            |x| ops::slice(x, 1, Some(1), None, 1),
        );
        as_components(layout, |x| ops::reshape(x, &[3, -1, 3, 1]), |x| ops::reshape(x, &[-1, 3, 1]));
        as_components(layout, |x| ops::unflatten(x, 2, &[3, 1]), |x| ops::unflatten(x, 1, &[3, 1]));
        as_components(layout, |x| ops::flatten(&ops::unsqueeze(x, 3)?, 2, 3), |x| Ok(x.clone()));
        as_components(
            layout,
            |x| ops::cat(&[x.clone(), x.clone()], -1),
            |x| ops::cat(&[x.clone(), x.clone()], -1),
        );
        as_components(layout, ops::mt, |x| ops::transpose(x, 0, 1));
        let one = ops::select(&nested(layout), 0, -1).unwrap();
        assert_eq!(one.to_vec::<f64>(), parts()[2].to_vec::<f64>());
        assert_eq!(nested(layout).i((1, 0, 2)).item::<f64>(), -2.0);
    }
}
#[test]
fn layers_and_products() {
    let (w, b) = (t(&[1.0, 0.5, -1.0, 2.0, 0.0, 0.25], &[2, 3]), t(&[0.1, -0.1], &[2]));
    let (scale, shift) = (t(&[1.0, 2.0, 3.0], &[3]), t(&[0.5, 0.0, -0.5], &[3]));
    for layout in LAYOUTS {
        as_components(layout, |x| nn::linear(x, &w, Some(&b)), |x| nn::linear(x, &w, Some(&b)));
        as_components(layout, |x| ops::softmax(x, -1, None), |x| ops::softmax(x, -1, None));
        as_components(layout, |x| ops::softmax(x, 1, None), |x| ops::softmax(x, 0, None));
        let norm = |x: &Tensor| nn::layer_norm(x, &[3], Some(&scale), Some(&shift), 1e-5, true);
        as_components(layout, norm, norm);
        let rms = |x: &Tensor| nn::rms_norm(x, &[3], Some(&scale), None);
        as_components(layout, rms, rms);
    }
    as_components(Layout::Strided, |x| ops::bmm(x, &ops::transpose(x, 1, 2)?), |x| ops::mm(x, &ops::t(x)?));
    let m = ops::t(&w).unwrap();
    as_components(Layout::Jagged, |x| ops::matmul(x, &m), |x| ops::mm(x, &m));
    // components of a batch of matrices
    let batch = ops::stack(&[m.clone(), m.clone(), m.clone()], 0).unwrap();
    as_components(Layout::Jagged, |x| ops::bmm(x, &batch), |x| ops::mm(x, &m));
    // rows away: an ordinary tensor
    let x = nested(Layout::Jagged);
    let gram = ops::matmul(&ops::transpose(&x, 1, 2).unwrap(), &x).unwrap();
    assert_eq!(gram.sizes(), [3, 3, 3]);
    let table = t(&(0..8).map(f64::from).collect::<Vec<_>>(), &[4, 2]);
    for layout in LAYOUTS {
        let ids = [Tensor::from_vec(vec![0i64, 3], [2]), Tensor::from_vec(vec![1i64], [1])];
        let ids = nested_tensor_with(&ids, NestedOptions::new().layout(layout));
        let y = components(&nn::embedding(&ids, &table, None, None, 2.0, false, false).unwrap());
        assert_eq!(y[0], (vec![2, 2], vec![0.0, 1.0, 6.0, 7.0]));
    }
}
#[test]
fn reductions_of_jagged_tensors() {
    let x = nested(Layout::Jagged);
    let of =
        |f: &dyn Fn(&Tensor) -> Tensor| parts().iter().flat_map(|p| f(p).to_vec::<f64>()).collect::<Vec<_>>();
    let rows = |t: Tensor| {
        assert!(!is_nested(&t));
        t.to_vec::<f64>()
    };
    assert_eq!(
        rows(ops::sum(&x, Some(&[1]), false, None).unwrap()),
        of(&|p| ops::sum(p, Some(&[0]), false, None).unwrap())
    );
    assert_eq!(
        rows(ops::mean(&x, Some(&[1]), false, None).unwrap()),
        of(&|p| ops::mean(p, Some(&[0]), false, None).unwrap())
    );
    assert_eq!(rows(ops::amax(&x, &[1], false).unwrap()), of(&|p| ops::amax(p, &[0], false).unwrap()));
    let (values, places) = ops::max_dim(&x, 1, false).unwrap();
    assert_eq!((values.sizes(), places.sizes()), (&[3i64, 3][..], &[3i64, 3][..]));
    as_components(
        Layout::Jagged,
        |x| ops::sum(x, Some(&[-1]), false, None),
        |x| ops::sum(x, Some(&[-1]), false, None),
    );
    as_components(
        Layout::Jagged,
        |x| ops::var(x, Some(&[2]), None, true),
        |x| ops::var(x, Some(&[1]), None, true),
    );
    assert_eq!(
        ops::sum(&x, None, false, None).unwrap().item::<f64>(),
        of(&|p| p.clone()).iter().sum::<f64>()
    );
    // an empty component
    let empty = nested_tensor_with(
        &[t(&[], &[0, 3]), t(&[1.0, 2.0, 3.0], &[1, 3])],
        NestedOptions::new().layout(Layout::Jagged),
    );
    assert_eq!(
        ops::prod_dim(&empty, 1, false, None).unwrap().to_vec::<f64>(),
        [1.0, 1.0, 1.0, 1.0, 2.0, 3.0]
    );
    assert_eq!(ops::amax(&empty, &[1], false).unwrap().to_vec::<f64>()[0], f64::MIN);
}
#[test]
fn attention_without_padding() {
    let heads = |x: &Tensor| ops::transpose(&ops::unflatten(x, 2, &[1, 3])?, 1, 2);
    for causal in [false, true] {
        let attend = |x: &Tensor| nn::scaled_dot_product_attention(x, x, x, None, 0.0, causal, None, false);
        let y = attend(&heads(&nested(Layout::Jagged)).unwrap()).unwrap();
        let y = ops::flatten(&ops::transpose(&y, 1, 2).unwrap(), 2, 3).unwrap();
        let alone = |p: &Tensor| {
            ops::reshape(&attend(&ops::reshape(p, &[1, 1, -1, 3]).unwrap()).unwrap(), &[-1, 3]).unwrap()
        };
        for (got, p) in components(&y).iter().zip(parts()) {
            let want = alone(&p).to_vec::<f64>();
            assert!(got.1.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-9), "{got:?} {want:?}");
        }
    }
}
#[test]
fn printing() {
    let x = nested_tensor(&[t(&[1.0, 2.0], &[2]), t(&[3.0], &[1])]);
    let text =
        "nested_tensor([\n  tensor([1., 2.], dtype=torch.float64),\n  tensor([3.], dtype=torch.float64)\n])";
    assert_eq!(x.to_string(), text);
    x.requires_grad_(true);
    assert!(x.to_string().ends_with("\n], requires_grad=True)"), "{x}");
    let text = nested(Layout::Jagged).to_string();
    assert!(text.starts_with("NestedTensor(size=(3, j"), "{text}");
    assert!(text.ends_with(", 3), offsets=tensor([0, 2, 3, 6]), contiguous=True)"), "{text}");
}
