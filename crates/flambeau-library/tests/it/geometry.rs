//! Geometry changed in place, buffers and files, in Rust and by name.

use flambeau_core::api::regeometry::{frombuffer, try_from_file, try_frombuffer};
use flambeau_core::{DType, ErrorKind, Tensor, Value, ops};
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
