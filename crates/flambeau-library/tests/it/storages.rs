//! `torch.FloatStorage` and the others.

use flambeau_core::{DType, ErrorKind, TypedStorage, Value, functions as torch};
use flambeau_library::{call_value, method, repr};

fn call(path: &str, args: &[Value]) -> Value {
    call_value(path, args, &[]).unwrap()
}

fn text(v: &Value) -> String {
    repr(v).unwrap()
}

#[test]
fn by_name() {
    let s = call("torch.FloatStorage", &[Value::List(vec![Value::Float(1.5), Value::Int(2)])]);
    assert_eq!(
        text(&s),
        " 1.5\n 2.0\n[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 2]"
    );
    assert_eq!(text(&call("torch.FloatStorage.tolist", &[s.clone()])), "[1.5, 2.0]");
    assert_eq!(text(&call("torch.FloatStorage.fill_", &[s.clone(), Value::Int(3)])), text(&s));
    assert_eq!(text(&method(&s, "__getitem__", &[Value::Int(-1)], &[]).unwrap()), "3.0");
    assert!(method(&s, "__getitem__", &[Value::Int(2)], &[]).is_err());
    assert_eq!(
        text(&method(&s, "long", &[], &[]).unwrap()),
        " 3\n 3\n[torch.storage.TypedStorage(dtype=torch.int64, device=cpu) of size 2]"
    );
    assert_eq!(text(&method(&s, "type", &[], &[]).unwrap()), "'torch.FloatStorage'");
    assert_eq!(text(&call("torch.is_storage", &[s])), "True");
    let x = Value::Tensor(torch::ones([2]));
    let u = method(&x, "untyped_storage", &[], &[]).unwrap();
    assert_eq!(text(&method(&u, "nbytes", &[], &[]).unwrap()), "8");
    assert_eq!(text(&method(&u, "tolist", &[], &[]).unwrap()), "[0, 0, 128, 63, 0, 0, 128, 63]");
    let e = call_value("torch.FloatStorage.cuda", &[call("torch.FloatStorage", &[])], &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Device);
}

#[test]
fn from_bytes_and_files() {
    let bytes: Vec<Value> = [0, 0, 128, 63, 0, 0, 0, 64].map(Value::Int).to_vec();
    let little = ("byte_order".to_string(), Value::Str("little".into()));
    let s = call_value("torch.FloatStorage.from_buffer", &[Value::List(bytes.clone())], &[little]).unwrap();
    assert_eq!(text(&method(&s, "tolist", &[], &[]).unwrap()), "[1.0, 2.0]");
    let swapped: Vec<Value> = [63, 128, 0, 0].map(Value::Int).to_vec();
    let big = ("byte_order".to_string(), Value::Str("big".into()));
    let s = call_value("torch.FloatStorage.from_buffer", &[Value::List(swapped)], &[big]).unwrap();
    assert_eq!(text(&method(&s, "tolist", &[], &[]).unwrap()), "[1.0]");
    assert!(TypedStorage::from_buffer(&[0; 6], DType::F32).is_err());

    let path = std::env::temp_dir().join(format!("flambeau-storage-{}", std::process::id()));
    std::fs::write(&path, 1.5f32.to_le_bytes()).unwrap();
    let s = TypedStorage::from_file(&path, 1, DType::F32).unwrap();
    assert_eq!(s.tensor().unwrap().to_vec::<f32>(), [1.5]);
    assert!(TypedStorage::from_file(&path, 2, DType::F32).unwrap_err().to_string().contains("smaller than"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(TypedStorage::from_file(&path, 1, DType::F32).unwrap_err().kind(), ErrorKind::Io);
}
