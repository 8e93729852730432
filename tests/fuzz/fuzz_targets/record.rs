//! One record of an archive, whose checksums fit: mutations reach what stands behind the archive. The first byte says which
//! record of which archive the rest is.
#![no_main]

use flambeau_core::{Tensor, Value};
use flambeau_serialization::container::{ArchiveWriter, ZipFile};
use flambeau_serialization::tensors::{LoadOptions, load_exported, load_from, load_torchscript};
use std::io::Cursor;
use std::path::Path;

const CHECKPOINT: &[u8] = include_bytes!("../../../crates/flambeau-serialization/tests/data/checkpoint.pth");
const QUANTIZED: &[u8] = include_bytes!("../../../crates/flambeau-serialization/tests/data/quantized.pth");
const SCRIPT: &[u8] = include_bytes!("../../../crates/flambeau-serialization/tests/data/script.jit");
const PROGRAM: &[u8] = include_bytes!("../../../crates/flambeau-serialization/tests/data/program.pt2");

/// The archive with another record of this name.
fn archive(whole: &[u8], record: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = ZipFile::open_any(Cursor::new(whole)).ok()?;
    let mut out = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
    for name in file.names().ok()? {
        // the writer has its own
        if name == "version" || name == ".data/serialization_id" {
            continue;
        }
        let old = file.read(&name).ok()?;
        out.record(&name, if name == record { bytes } else { &old }).ok()?;
    }
    out.finish().ok().map(Cursor::into_inner)
}
fn program(path: &Path) {
    let Ok(program) = flambeau_export::load(path) else { return };
    let _ = (program.to_string(), program.operators(), program.ranges_text());
    if let Ok(module) = program.module() {
        let x = Tensor::from_vec(vec![1f32; 4], [2, 2]);
        let _ = module.run(&[Value::Tensor(x)], &[]);
    }
    let _ = torch::onnx::try_export(&program, torch::onnx::ExportOptions::new());
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let (whole, record) = match kind % 8 {
        0 => (CHECKPOINT, "data.pkl"),
        1 => (CHECKPOINT, "byteorder"),
        2 => (QUANTIZED, "data.pkl"),
        3 => (SCRIPT, "data.pkl"),
        4 => (SCRIPT, "code/__torch__.py"),
        5 => (PROGRAM, "data/weights/model_weights_config.json"),
        6 => (PROGRAM, "data/constants/model_constants_config.json"),
        _ => (PROGRAM, "models/model.json"),
    };
    let Some(file) = archive(whole, record, bytes) else { return };
    if kind % 8 < 3 {
        let options = LoadOptions::new().map_location("cpu").weights_only(bytes.len() % 2 == 0);
        let _ = load_from(Cursor::new(file), options).map(|t| format!("{t:?}"));
        return;
    }
    let path = std::env::temp_dir().join(format!("flambeau-fuzz-record-{}", std::process::id()));
    if std::fs::write(&path, &file).is_err() {
        return;
    }
    match kind % 8 {
        3 | 4 => drop(load_torchscript(&path, LoadOptions::new())),
        5 | 6 => drop(load_exported(&path, LoadOptions::new())),
        _ => program(&path),
    }
});
