//! Files as memory. The one test file with `unsafe`: it gives the promise that mapped files ask for.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::{MapMode, MappedFile, Storage};
use flambeau_core::{DType, TypedStorage, functions as torch};
use flambeau_serialization::tensors::{
    LoadOptions, SaveOptions, load, load_mapped, load_safetensors_mapped, save, save_safetensors, save_with,
};
use flambeau_serialization::{Tree, config};
use flambeau_test_support::alone;
use std::path::Path;

fn map(path: &Path, mode: MapMode) -> MappedFile {
    // SAFETY: the files lie in a folder of this test's own, and nobody writes to them while they are mapped.
    unsafe { MappedFile::open(path, mode).unwrap() }
}

#[test]
fn mapped_checkpoints() {
    alone!();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.pt");
    let a = torch::arange(6).reshape((2, 3));
    save(
        &Tree::List(vec![Tree::Tensor(a.clone()), Tree::Tensor(a.t()), Tree::Tensor(torch::ones(4))]),
        &path,
    )
    .unwrap();
    let before = std::fs::read(&path).unwrap();
    let file = map(&path, MapMode::Private);
    let tree = load_mapped(&file, LoadOptions::new()).unwrap();
    let first = tree[0].as_tensor().unwrap();
    assert_eq!(first.to_vec::<i64>(), [0, 1, 2, 3, 4, 5]);
    assert!(first.storage().same(tree[1].as_tensor().unwrap().storage()));
    // writes are private, and the tensors outlive the map
    drop(file);
    first.fill_(7);
    assert_eq!(tree[1].as_tensor().unwrap().to_vec::<i64>(), [7; 6]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // a storage that grows leaves the map
    let t = tree[2].as_tensor().unwrap();
    t.storage().grow(64).unwrap();
    assert_eq!(t.to_vec::<f32>(), [1.0; 4]);
    // pages instead of 64 bytes
    config::set_storage_alignment(4096).unwrap();
    save(&a, &path).unwrap();
    config::set_storage_alignment(64).unwrap();
    let t = load_mapped(&map(&path, MapMode::Private), LoadOptions::new()).unwrap();
    assert_eq!(t.as_tensor().unwrap().storage().address().unwrap() % 4096, 0);
}

/// Kilobytes of a mapped file that are in this process's memory.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let name = path.to_str().unwrap();
    let of_file = maps.lines().skip_while(|l| !l.ends_with(name)).skip(1);
    let rss = of_file.filter_map(|l| l.strip_prefix("Rss:")).next().expect("the file is mapped");
    rss.trim().trim_end_matches(" kB").parse().unwrap()
}
#[cfg(target_os = "linux")]
#[test]
fn only_what_is_used_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("two.pt");
    let n = 4 << 20;
    save(&Tree::List(vec![Tree::Tensor(torch::ones(n)), Tree::Tensor(torch::ones(n))]), &path).unwrap();
    let file = map(&path, MapMode::Private);
    let tree = load_mapped(&file, LoadOptions::new()).unwrap();
    let (one, tensor) = (4 * n as u64 / 1024, |i: usize| tree[i].as_tensor().unwrap().clone());
    assert!(resident(&path) < one / 8, "{} kB after loading", resident(&path));
    assert_eq!(tensor(1).sum().item::<f32>(), n as f32);
    let half = resident(&path);
    assert!(half >= one && half < one + one / 8, "{half} kB after one of two tensors of {one} kB");
    assert_eq!(tensor(0).sum().item::<f32>(), n as f32);
    assert!(resident(&path) >= 2 * one, "{} kB after both", resident(&path));
}

#[test]
fn shared_maps_write_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.pt");
    save(&torch::zeros(4), &path).unwrap();
    let t = load_mapped(&map(&path, MapMode::Shared), LoadOptions::new()).unwrap();
    t.as_tensor().unwrap().fill_(3);
    drop(t);
    // its checksum is the old one, which the plain reader notices and a map does not
    assert!(load(&path).is_err());
    let t = load_mapped(&map(&path, MapMode::Private), LoadOptions::new()).unwrap();
    assert_eq!(t.as_tensor().unwrap().to_vec::<f32>(), [3.0; 4]);

    let path = dir.path().join("raw.bin");
    // SAFETY: as for `map`.
    let storage = unsafe { Storage::map_shared(&path, 12).unwrap() };
    let t = TypedStorage::over(storage, DType::F32).tensor().unwrap();
    t.fill_(1.5);
    drop(t);
    assert_eq!(std::fs::read(&path).unwrap(), 1.5f32.to_le_bytes().repeat(3));
}

#[test]
fn no_byte_has_two_locks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("raw");
    std::fs::write(&path, vec![1u8; 256]).unwrap();
    let file = map(&path, MapMode::Private);
    assert_eq!(file.len(), 256);
    assert!(file.storage(64, 64).unwrap().is_some());
    for (at, n) in [(64, 64), (0, 65), (0, 256), (112, 32), (112, 1)] {
        assert!(file.storage(at, n).is_err(), "{at}+{n}");
    }
    assert!(file.storage(128, 128).unwrap().is_some());
    assert!(file.storage(0, 64).unwrap().is_some());
    assert!(file.storage(8, 0).unwrap().is_some());
    assert!(file.storage(240, 17).is_err() && file.storage(usize::MAX, 2).is_err());
    assert!(map(&path, MapMode::Private).storage(8, 8).unwrap().is_none(), "not aligned");
    std::fs::write(&path, b"").unwrap();
    assert!(map(&path, MapMode::Private).is_empty());
}

#[test]
fn what_cannot_be_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.pt");
    let t = torch::arange(5);
    save_with(&t, &path, SaveOptions::new().use_new_zipfile_serialization(false)).unwrap();
    let e = load_mapped(&map(&path, MapMode::Private), LoadOptions::new()).unwrap_err();
    assert!(e.message().starts_with("mmap can only be used with files saved with"), "{e}");
    save(&t, &path).unwrap();
    let file = map(&path, MapMode::Private);
    let _first = load_mapped(&file, LoadOptions::new()).unwrap();
    let e = load_mapped(&file, LoadOptions::new()).unwrap_err();
    assert!(e.message().contains("belong to another storage already"), "{e}");

    let path = dir.path().join("m.safetensors");
    save_safetensors([("a", torch::arange(5)), ("b", torch::ones(3))], &path, None).unwrap();
    let list = load_safetensors_mapped(&map(&path, MapMode::Private)).unwrap();
    assert_eq!(list["a"].to_vec::<i64>(), [0, 1, 2, 3, 4]);
    assert_eq!(list["b"].to_vec::<f32>(), [1.0; 3]);
}
