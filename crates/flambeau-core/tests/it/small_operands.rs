//! Small calls take a way of their own to the kernel: the same results, errors and versions as on the general one.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Scalar, Tensor, functions as torch, ops};

fn range(n: i64, dtype: DType) -> Tensor {
    Tensor::from_vec((1..=n).map(|v| v as f64).collect(), [n]).to(dtype)
}
/// The same elements where no short way applies: a step of 2 through twice the memory.
fn spread(t: &Tensor) -> Tensor {
    let wide = torch::zeros([t.numel(), 2]).to(t.dtype());
    ops::copy_(&ops::select(&wide, 1, 0).expect("a dimension"), t, false).expect("the same sizes");
    ops::select(&wide, 1, 0).expect("a dimension")
}

#[test]
fn both_ways_agree() {
    for dtype in [DType::F32, DType::F64, DType::I64, DType::I32, DType::F16, DType::U8, DType::C64] {
        for n in [1, 2, 7, 64, 300, 5000] {
            let (a, b) = (range(n, dtype), range(n, dtype));
            let (sa, sb) = (spread(&a), spread(&b));
            let same = |x: Tensor, y: Tensor| {
                assert_eq!(x.dtype(), y.dtype());
                assert!(ops::equal(&x, &y).expect("comparable"), "{dtype} {n}");
            };
            same(&a + &b, &sa + &sb);
            same(&a * &b, &sa * &sb);
            for s in [Scalar::Int(3), Scalar::Float(2.5), Scalar::Bool(true)] {
                same(&a + s, &sa + s);
                same(&a * s, &sa * s);
            }
            same(&a - 2.5, &sa - 2.5);
            same(&a - 1, &sa - 1);
            same(1.5 - &a, 1.5 - &sa);
            same(7 * &a, 7 * &sa);
            let (x, y) = (a.copy(), spread(&a));
            x.add_(&b);
            y.add_(&sb);
            x.mul_(3);
            y.mul_(3);
            x.mul_(&x);
            y.mul_(&y);
            same(x, y);
        }
    }
}

#[test]
fn in_place_calls_count_one_write_and_see_aliases() {
    let base = range(8, DType::F32);
    let (low, high) = (base.i(0..4), base.i(4..8));
    let v = base.version();
    low.add_(&high);
    assert_eq!(base.version(), v + 1);
    assert_eq!(base.to_vec::<f32>(), [6., 8., 10., 12., 5., 6., 7., 8.]);
    low.add_(&low);
    assert_eq!((base.version(), low.to_vec::<f32>()), (v + 2, vec![12., 16., 20., 24.]));
    // partial overlap is refused as ever, and nothing is written
    assert!(ops::add_(&base.i(0..4), &base.i(2..6), 1.into()).is_err());
    assert_eq!(base.i(0..4).to_vec::<f32>(), [12., 16., 20., 24.]);
    // a number that is the tensor's own element
    let one = range(1, DType::F32);
    one.add_(&one);
    assert_eq!(one.item::<f32>(), 2.0);
}

#[test]
fn guards_stop_small_calls() {
    let (a, b) = (range(3, DType::F32), range(3, DType::F32));
    {
        let _d = a.elements::<f32>();
        assert!(ops::add_(&a, &b, 1.into()).is_err());
        assert_eq!((&a + &b).to_vec::<f32>(), [2., 4., 6.]);
    }
    {
        let _d = b.elements_mut::<f32>();
        assert!(ops::add(&a, &b, 1.into()).is_err());
        assert!(ops::add_(&a, &b, 1.into()).is_err());
    }
    let before = a.version();
    a.add_(&b);
    assert_eq!((a.version(), a.to_vec::<f32>()), (before + 1, vec![2., 4., 6.]));
}

#[test]
fn geometries_of_any_rank() {
    let t = range(64, DType::F32);
    let v = t.view([2, 2, 2, 2, 2, 2]);
    assert_eq!((v.dim(), v.strides()), (6, &[32, 16, 8, 4, 2, 1][..]));
    let w = v.transpose(0, 5);
    assert_eq!((w.strides(), w.is_contiguous()), (&[1, 16, 8, 4, 2, 32][..], false));
    assert_eq!((&v + &v).to_vec::<f32>(), (&t + &t).to_vec::<f32>());
    assert_eq!(v.i(1..2).sizes(), [1, 2, 2, 2, 2, 2]);
    // a view keeps the strides of its size-1 dimensions as PyTorch computes them
    let column = range(8, DType::F32).view([4, 2]).i((.., 0..1));
    assert_eq!(column.view([4, 1, 1]).strides(), [2, 1, 1]);
    // transposing back gives a row-major tensor again
    let m = t.view([8, 8]);
    assert!(m.transpose(0, 1).transpose(0, 1).is_contiguous());
    assert_eq!(m.transpose(0, 1).transpose(0, 1).view(64).to_vec::<f32>(), t.to_vec::<f32>());
    assert_eq!(torch::zeros([0, 3]).transpose(0, 1).sizes(), [3, 0]);
    assert!(ops::view(&t, &[1 << 40, 1 << 40]).is_err());
    assert!(ops::as_strided(&t, &[2], &[1 << 62], None).is_err());
    assert!(ops::as_strided(&t, &[2], &[1], Some(i64::MAX)).is_err());
}
