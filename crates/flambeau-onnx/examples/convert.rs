//! Writes exported programs as ONNX models: `convert FOLDER OPSET PROGRAM.pt2 ..`. Says of each that fails why.

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(opset)) = (args.next(), args.next().and_then(|n| n.parse::<i64>().ok())) else {
        eprintln!("usage: convert FOLDER OPSET PROGRAM.pt2 ..");
        std::process::exit(2);
    };
    let mut failed = 0;
    for file in args {
        let path = std::path::Path::new(&file);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let options = flambeau_onnx::ExportOptions::new().opset_version(opset);
        let made = flambeau_export::load(path)
            .and_then(|p| flambeau_onnx::try_export(&p, options))
            .and_then(|m| m.save(std::path::Path::new(&folder).join(format!("{name}.onnx"))));
        if let Err(e) = made {
            failed += 1;
            println!("{name}: {e}");
        }
    }
    std::process::exit(i32::from(failed > 0));
}
