//! Programs whose weights are parts of a mapped file. The one test file with `unsafe`: it gives the promise that maps ask for.

use crate::archive::{model, saved};
use crate::exporting::floats;
use flambeau_core::Tensor;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::{MapMode, MappedFile};
use flambeau_export::{export, load, load_mapped, save};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_serialization::tensors::{LoadOptions, load_exported_mapped};
use std::path::Path;

fn map(path: &Path) -> MappedFile {
    // SAFETY: the files are this test's own, and nobody writes to them while they are mapped.
    unsafe { MappedFile::open(path, MapMode::Private).unwrap() }
}

#[test]
fn weights_are_parts_of_the_file() {
    let net = nn::Sequential::new((nn::Linear::new(4, 64), nn::BatchNorm1d::new(64), nn::Linear::new(64, 3)));
    net.eval();
    let x = floats(&[5, 4]);
    let program = export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
    let path = std::env::temp_dir().join(format!("flambeau_export_{}_mapped.pt2", std::process::id()));
    save(&program, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let file = map(&path);
    let mapped = load_mapped(&file).unwrap();
    let copied = load(&path).unwrap();
    assert_eq!(mapped.to_string(), copied.to_string());
    assert_eq!(format!("{:?}", mapped.example_inputs), format!("{:?}", copied.example_inputs));
    assert!(mapped.example_inputs.is_some());
    assert_eq!(mapped.state_dict.len(), copied.state_dict.len());
    for ((n, a), (m, b)) in mapped.state_dict.iter().zip(&copied.state_dict) {
        assert_eq!((n, a.is_parameter(), a.requires_grad()), (m, b.is_parameter(), b.requires_grad()));
        assert_eq!(a.to_vec::<f32>(), b.to_vec::<f32>(), "{n}");
    }
    // a map serves one load
    let e = load_mapped(&file).unwrap_err();
    assert!(e.message().contains("belong to another storage already"), "{e}");
    // weights outlive the map, and what is written to them is the program's own
    drop(file);
    let want = net.call(&x);
    let m = mapped.module().unwrap();
    assert_eq!(m.try_forward(&[&x]).unwrap().to_vec::<f32>(), want.to_vec::<f32>());
    let (_, w) = mapped.state_dict.iter().find(|(n, _)| n == "0.weight").unwrap();
    w.data().fill_(0.0);
    assert_ne!(m.try_forward(&[&x]).unwrap().to_vec::<f32>(), want.to_vec::<f32>());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
}
#[test]
fn sums_are_compared_where_that_is_asked_for() {
    let path = saved("sums", &model());
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(4).position(|w| w == 10f32.to_le_bytes()).unwrap();
    bytes[at..at + 4].copy_from_slice(&11f32.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert!(load(&path).is_err());
    assert!(load_exported_mapped(&map(&path), LoadOptions::new().verify(true)).is_err());
    let p = load_mapped(&map(&path)).unwrap();
    assert_eq!(p.state_dict[0].1.to_vec::<f32>(), [11.0]);
    assert_eq!(p.state_dict[0].1.storage().address().unwrap() % 16, 0);
    std::fs::remove_file(&path).unwrap();
}
#[test]
fn damaged_files_are_refused() {
    let path = saved("shape", &model());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let e = load_mapped(&map(&path)).unwrap_err();
    assert!(e.message().starts_with("the mapped file: "), "{e}");
    std::fs::write(&path, b"").unwrap();
    assert!(load_mapped(&map(&path)).is_err());
    let mut j = model();
    j["graph_module"]["graph"]["nodes"][1]["name"] = serde_json::json!("relu");
    std::fs::remove_file(&path).unwrap();
    let path = saved("twice_mapped", &j);
    let e = load_mapped(&map(&path)).unwrap_err();
    assert!(
        e.message().contains("the mapped file: models/model.json: ") && e.message().contains("'relu'"),
        "{e}"
    );
    std::fs::remove_file(&path).unwrap();
}
