//! Exported programs: read, printed, made a module of, and run on small tensors where they take such. Seeds: `.pt2` files.
#![no_main]

use flambeau_core::{Tensor, Value};
use flambeau_export::load;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let path = std::env::temp_dir().join(format!("flambeau-fuzz-{}.pt2", std::process::id()));
    if std::fs::write(&path, data).is_err() {
        return;
    }
    if let Ok(program) = load(&path) {
        let _ = program.to_string();
        if let Ok(module) = program.module() {
            let x = Tensor::from_vec(vec![1f32; 4], [4]);
            let _ = module.run(&[Value::Tensor(x)], &[]);
        }
    }
});
