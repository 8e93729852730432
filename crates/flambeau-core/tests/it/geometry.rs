//! Geometry changed in place, and Python's element-wise functions.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, MemoryFormat, Tensor, TypedStorage, ops};

fn ramp(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), sizes.to_vec())
}

#[test]
fn resizing() {
    let mut x = ramp(&[4]);
    let part = ops::narrow(&x, 0, 1, 2).unwrap();
    x.resize_([2, 2]);
    assert_eq!(x.to_vec::<f32>(), [0.0, 1.0, 2.0, 3.0]);
    x.resize_([2, 500]);
    assert_eq!(x.to_vec::<f32>()[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(part.to_vec::<f32>(), [1.0, 2.0]);
    // nothing changes where the sizes are the same
    let mut turned = ops::t(&ramp(&[3, 2])).unwrap();
    turned.resize_([2, 3]);
    assert_eq!(turned.strides(), [1, 2]);
    turned.resize_([3, 2]);
    assert_eq!(turned.strides(), [2, 1]);
    x.try_resize_(&[1, 2, 3, 4], Some(MemoryFormat::ChannelsLast)).unwrap();
    assert_eq!(x.strides(), [24, 1, 8, 2]);
    let mut y = ramp(&[2]);
    y.try_resize_as_(&x, Some(MemoryFormat::Preserve)).unwrap();
    assert_eq!(y.strides(), x.strides());
    for bad in [&[-1][..], &[1 << 62], &[1 << 31, 1 << 31, 1 << 31], &[1 << 50]] {
        assert!(ramp(&[2]).try_resize_(bad, None).is_err());
    }
    let mut meta = Tensor::empty_raw(&[2], DType::F32, Device::Meta).unwrap();
    meta.resize_([1i64 << 40]);
    assert_eq!(meta.numel(), 1 << 40);
}

#[test]
fn other_memory() {
    let mut x = ramp(&[2]);
    let source = ramp(&[6]);
    x.set_(&source);
    assert!(x.is_set_to(&source) && !ramp(&[6]).is_set_to(&source));
    x.try_set_storage_(&TypedStorage::of(&source), 2, Some(&[2, 2]), &[1, 1]).unwrap();
    assert_eq!(x.to_vec::<f32>(), [2.0, 3.0, 3.0, 4.0]);
    // memory that is too small grows, for all its tensors
    x.try_set_storage_(&TypedStorage::of(&source), 2, Some(&[5, 2]), &[]).unwrap();
    assert_eq!(x.to_vec::<f32>()[..4], [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(source.to_vec::<f32>()[5], 5.0);
    assert!(x.try_set_storage_(&TypedStorage::of(&source), -1, Some(&[1]), &[]).is_err());
    assert!(x.try_set_storage_(&TypedStorage::of(&source), 0, Some(&[1 << 60]), &[]).is_err());
    assert!(x.try_set_storage_(&TypedStorage::of(&source), 0, Some(&[2]), &[i64::MAX]).is_err());
    let e = x.try_set_(Some(&Tensor::from_slice(&[1i64], 1))).unwrap_err();
    assert_eq!(e.message(), "Could not set tensor of type long int to a tensor of type float");
    x.try_set_(None).unwrap();
    assert_eq!(x.sizes(), [0]);
}

#[test]
fn functions_of_elements() {
    let x = ops::t(&ramp(&[2, 2])).unwrap();
    let mut order = Vec::new();
    x.apply_(|v: f64| {
        order.push(v);
        v * 2.0
    });
    assert_eq!(order, [0.0, 2.0, 1.0, 3.0]);
    assert_eq!(x.to_vec::<f32>(), [0.0, 4.0, 2.0, 6.0]);
    x.map_(&ramp(&[1]), |a: f32, b: f32| a + b + 1.0);
    assert_eq!(x.to_vec::<f32>(), [1.0, 5.0, 3.0, 7.0]);
    x.map2_(&ramp(&[2]), &ramp(&[2]), |a: f32, b: f32, c: f32| a * b + c);
    assert_eq!(x.to_vec::<f32>(), [0.0, 6.0, 0.0, 8.0]);
    let e = x.try_map_(&Tensor::from_slice(&[1i64], 1), |a: f32, _| Ok(a)).unwrap_err();
    assert_eq!(e.message(), "map_: expected torch.FloatTensor for 'other' (got torch.LongTensor)");
    // the tensor may be used while its elements are looked at
    x.apply_(|v: f32| v + x.numel() as f32);
    assert_eq!(x.to_vec::<f32>()[0], 4.0);
    let p = Tensor::from_slice(&[1f64], 1);
    p.polygamma_(1);
    assert!((p.item::<f64>() - 1.6449340668482264).abs() < 1e-12);
}
