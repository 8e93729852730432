//! Whole files of the kinds that are read from a path: the first byte says which reader has it. Seeds: files of
//! crates/flambeau-serialization/tests/data with such a byte before them.
#![no_main]

use flambeau_core::tensor::storage::{MapMode, MappedFile};
use flambeau_serialization::tensors as read;
use flambeau_serialization::tensors::LoadOptions;
use std::path::Path;

/// The file mapped.
fn map(path: &Path) -> Option<MappedFile> {
    // SAFETY: this process alone knows the file, and writes to it when no map of it is left.
    unsafe { MappedFile::open(path, MapMode::Private).ok() }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let folder = std::env::temp_dir().join(format!("flambeau-fuzz-archive-{}", std::process::id()));
    let name = match kind % 12 {
        9 => "model.safetensors.index.json",
        10 => "pytorch_model.bin",
        _ => "file",
    };
    let path = folder.join(name);
    if std::fs::create_dir_all(&folder).is_err() || std::fs::write(&path, bytes).is_err() {
        return;
    }
    let options = || LoadOptions::new().map_location("cpu");
    match kind % 12 {
        0 => drop(read::load_safetensors(&path)),
        1 => drop(map(&path).map(|f| read::load_safetensors_mapped(&f))),
        2 => drop(read::load_npz(&path)),
        3 => drop(read::load_torchscript(&path, options())),
        4 => drop(read::load_exported(&path, options())),
        5 => drop(map(&path).map(|f| read::load_exported_mapped(&f, options()))),
        6 => drop(map(&path).map(|f| read::load_mapped(&f, options()))),
        7 => drop(read::load_with(&path, options().verify(true))),
        8 => drop(read::load_npy(&path)),
        9 | 10 => drop(read::load_pretrained(&folder, options())),
        _ => drop(map(&path).map(|f| flambeau_export::load_mapped(&f).map(|p| p.to_string()))),
    }
    let _ = std::fs::remove_file(&path);
});
