//! Quantized tensors in files.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::{QScheme, Quantizer};
use flambeau_core::{DType, Tensor};
use flambeau_serialization::tensors::{LoadOptions, SaveOptions, load_from, save_to, save_to_with};
use std::io::Cursor;
use std::sync::Arc;

fn tensor(integers: Tensor, sizes: &[i64], dtype: DType, rule: Quantizer) -> Tensor {
    Tensor::from_integers(&integers, sizes, dtype, Arc::new(rule)).unwrap()
}
fn by_channel(zero_points: Tensor) -> Quantizer {
    Quantizer::PerChannel { scales: Tensor::from_vec(vec![0.1f64, 0.2], [2]), zero_points, axis: 0 }
}
fn integers(t: &Tensor) -> Vec<i64> {
    let i = t.integers().unwrap();
    flambeau_core::ops::to_copy(&i, Some(DType::I64), None, None, None, false, None).unwrap().to_vec()
}

/// What `make.py` saves with PyTorch.
#[test]
fn pytorchs_file() {
    let file = include_bytes!("../data/quantized.pth");
    let tree = load_from(Cursor::new(&file[..]), LoadOptions::new()).unwrap();
    let t = |name: &str| tree[name].as_tensor().unwrap().clone();
    let (a, b) = (t("tensor"), t("channels"));
    assert_eq!((a.dtype(), a.sizes()), (DType::QU8, &[2i64, 2][..]));
    assert!(
        matches!(&*a.quantizer().unwrap(), Quantizer::PerTensor { scale, zero_point: 3 } if (*scale - 0.1).abs() < 1e-12)
    );
    assert_eq!(integers(&a), [13, 23, 33, 43]);
    assert_eq!(b.quantizer().unwrap().scheme(), QScheme::PerChannelAffine);
    assert_eq!(integers(&b), [10, 20, 16, 21]);
    // a view of the same storage
    assert!(t("row").integers().unwrap().storage().same(a.integers().unwrap().storage()));
    assert_eq!(t("floats").quantizer().unwrap().scheme(), QScheme::PerChannelAffineFloatQParams);
    let packed = t("packed");
    assert_eq!((packed.dtype(), packed.sizes()), (DType::QU4X2, &[2i64, 2][..]));
    assert_eq!(t("wide").dtype(), DType::QI32);
}
#[test]
fn all_kinds_come_back() {
    let bytes = Tensor::from_vec(vec![1u8, 2, 3, 4], [2, 2]);
    let signed = Tensor::from_vec(vec![-1i8, 2, -3, 4], [2, 2]);
    let all = [
        tensor(bytes.clone(), &[2, 2], DType::QU8, Quantizer::PerTensor { scale: 0.5, zero_point: 7 }),
        tensor(signed, &[2, 2], DType::QI8, by_channel(Tensor::from_vec(vec![0i64, 1], [2]))),
        tensor(bytes, &[2, 2], DType::QU8, by_channel(Tensor::from_vec(vec![0f32, 1.5], [2]))),
        tensor(
            Tensor::from_vec(vec![0x21u8, 0x43, 0x05], [3]),
            &[2, 2],
            DType::QU4X2,
            by_channel(Tensor::from_vec(vec![0f32, 1.5], [2])),
        ),
    ];
    for legacy in [false, true] {
        for t in &all {
            let file = if legacy {
                save_to_with(t, Vec::new(), SaveOptions::new().use_new_zipfile_serialization(false))
            } else {
                save_to(t, Vec::new())
            };
            let back = load_from(Cursor::new(file.unwrap()), LoadOptions::new()).unwrap();
            let back = back.into_tensor().expect("a tensor");
            assert_eq!((back.dtype(), back.sizes()), (t.dtype(), t.sizes()));
            assert_eq!(integers(&back), integers(t));
            let (a, b) = (back.quantizer().unwrap(), t.quantizer().unwrap());
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
        }
    }
}
#[test]
fn scales_that_do_not_fit_are_errors() {
    let three = Quantizer::PerChannel {
        scales: Tensor::from_vec(vec![0.1f64; 3], [3]),
        zero_points: Tensor::from_vec(vec![0i64; 3], [3]),
        axis: 0,
    };
    let t = tensor(Tensor::from_vec(vec![1u8, 2, 3, 4], [2, 2]), &[2, 2], DType::QU8, three);
    let file = save_to(&t, Vec::new()).unwrap();
    let e = load_from(Cursor::new(file), LoadOptions::new()).unwrap_err();
    assert!(e.message().contains("scales that do not fit"), "{e}");
}
