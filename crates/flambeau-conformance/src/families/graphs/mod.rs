//! `fx/`, `export/`, `jit/`, `onnx/`: programs as graphs.

pub mod export;
pub mod fx;
mod fx_ports;
pub mod onnx;
mod values;

use super::{Case, File, Outcome};

/// All cases of a file.
pub fn cases<'a>(f: &'a File) -> Vec<Case<'a>> {
    let family = f.family();
    let family = if family == "models" { f.name.split('/').nth(1).unwrap_or("") } else { family };
    match family {
        "fx" => fx::cases(f),
        "export" => export::cases(f),
        "onnx" => onnx::cases(f),
        other => {
            let what = format!("programs of {other}");
            let ids: Vec<String> = match f.json["cases"].as_array() {
                Some(l) if !l.is_empty() => {
                    l.iter().map(|c| c["id"].as_str().unwrap_or("case").to_string()).collect()
                }
                _ => vec!["case".into()],
            };
            ids.into_iter()
                .map(|id| {
                    let what = what.clone();
                    Case {
                        id,
                        call: f.name.clone(),
                        core: false,
                        run: Box::new(move || Outcome::Missing(what.clone())),
                    }
                })
                .collect()
        }
    }
}
