//! Geometry changed in place, and Python's element-wise functions.

use flambeau_core::api::regeometry::{frombuffer, try_from_file, try_frombuffer};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, ErrorKind, MemoryFormat, Tensor, TypedStorage, Value, ops};
use flambeau_library::call;

fn ramp(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), sizes.to_vec())
}

#[test]
fn views_in_place() {
    let mut x = ramp(&[2, 3]);
    let other = x.clone();
    x.t_();
    assert_eq!((x.sizes(), x.strides()), (&[3, 2][..], &[1, 3][..]));
    // other handles keep their geometry, and share the memory
    assert_eq!(other.sizes(), [2, 3]);
    ops::fill_(&other, 7.0.into()).unwrap();
    assert_eq!(x.to_vec::<f32>(), [7.0; 6]);
    x.unsqueeze_(0).squeeze_().transpose_(0, 1).as_strided_(&[2], &[1], Some(1));
    assert_eq!((x.sizes(), x.storage_offset()), (&[2][..], 1));
    assert!(x.try_as_strided_(&[2], &[9], None).is_err());
    assert!(ramp(&[2, 2, 2]).try_t_().unwrap_err().message().contains("t_() expects"));
    let r =
        call("torch.Tensor.transpose_", &[Value::Tensor(ramp(&[2, 3])), Value::Int(0), Value::Int(1)], &[])
            .unwrap();
    assert!(matches!(&r[0], Value::Tensor(t) if t.sizes() == [3, 2]));
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

#[test]
fn buffers_and_files() {
    assert_eq!(frombuffer(vec![1, 2, 3, 4], DType::I16, -1, 0).to_vec::<i64>(), [0x0201, 0x0403]);
    assert_eq!(frombuffer(vec![1, 2, 3, 4], DType::I16, 1, 1).to_vec::<i64>(), [0x0302]);
    for (n, count, offset) in
        [(4, 5, 0), (4, 0, 0), (0, -1, 0), (3, -1, 0), (4, -1, 4), (4, -1, -1), (4, i64::MAX, 0)]
    {
        let e = try_frombuffer(vec![0; n], DType::I16, count, offset).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Value, "{n} {count} {offset}");
    }
    let path = std::env::temp_dir().join(format!("flambeau-from-file-{}", std::process::id()));
    std::fs::write(&path, 1f32.to_le_bytes().repeat(3)).unwrap();
    assert_eq!(try_from_file(&path, 2, DType::F32).unwrap().to_vec::<f32>(), [1.0, 1.0]);
    assert!(try_from_file(&path, 4, DType::F32).is_err());
    assert!(try_from_file(&path, 1 << 62, DType::F32).is_err());
    let name = Value::Str(path.to_string_lossy().into_owned());
    let e = call("torch.from_file", &[name, Value::Bool(true), Value::Int(1)], &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Missing);
    std::fs::remove_file(&path).unwrap();
}
