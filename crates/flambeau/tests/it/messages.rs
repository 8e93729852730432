//! What the compiler says of the mistakes that newcomers make: the files of tests/messages, compiled against the library that
//! this test is linked with. A file's comments say what its messages must have: `//~ TEXT`, and `//~ errors: N`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The newest file of a name and an ending beside this test's program.
fn newest(deps: &Path, start: &str, end: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(deps).ok()?.flatten().map(|f| f.path());
    let named = files.filter(|p| {
        p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(start) && n.ends_with(end))
    });
    named.max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok())
}

/// The messages for a file; `None` where there is no compiler.
fn messages(file: &Path, deps: &Path, library: &Path, out: &Path) -> Option<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .arg(out)
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg("--extern")
        .arg(format!("torch={}", library.display()))
        .arg(file)
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        // the library's sources, whose lines messages show, have paths from here on
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output();
    Some(String::from_utf8_lossy(&done.ok()?.stderr).into_owned())
}

#[test]
fn mistakes_are_explained() {
    let program = std::env::current_exe().unwrap();
    let deps = program.parent().unwrap();
    let Some(library) = newest(deps, "libtorch-", ".rlib") else { panic!("no libtorch beside {program:?}") };
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages");
    std::fs::create_dir_all(&out).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().flatten().map(|f| f.path()).collect();
    files.sort();
    assert!(files.len() >= 30, "{}", files.len());
    let (queue, wrong) = (Mutex::new(files), Mutex::new(Vec::new()));
    let one = || {
        loop {
            let Some(file) = queue.lock().unwrap().pop() else { return };
            let Some(said) = messages(&file, deps, &library, &out) else {
                eprintln!("skipped: no rustc here");
                return;
            };
            let source = std::fs::read_to_string(&file).unwrap();
            // names that a feature leaves out are there where the whole workspace is built at once
            if source.contains("//~ without tensorboard") && cfg!(feature = "tensorboard") {
                continue;
            }
            // a message may be broken into lines anywhere
            let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let errors = said.lines().filter(|l| l.starts_with("error") && !l.contains("aborting")).count();
            for wanted in source.lines().filter_map(|l| l.strip_prefix("//~ ")) {
                if wanted == "without tensorboard" {
                    continue;
                }
                let holds = match wanted.strip_prefix("errors: ") {
                    Some(n) => n.parse() == Ok(errors),
                    None => flat.contains(wanted),
                };
                if !holds {
                    wrong.lock().unwrap().push(format!("{}: not so: {wanted}\n{said}", file.display()));
                }
            }
        }
    };
    std::thread::scope(|s| {
        s.spawn(one);
        s.spawn(one);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A library of the features' methods alone, with all features off, and a program that calls them.
#[test]
fn methods_left_out_name_their_feature() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without");
    std::fs::create_dir_all(&out).unwrap();
    let methods = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/without.rs");
    let library = format!("pub struct Tensor;\n#[path = {methods:?}]\nmod without;\npub use without::*;\n");
    let program =
        "use without::*;\npub fn f(x: &Tensor) {\n    x.svd();\n    x.stft(5);\n    x.dequantize();\n}\n";
    std::fs::write(out.join("without.rs"), library).unwrap();
    std::fs::write(out.join("program.rs"), program).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let run = |name: &str, more: &[&str]| {
        let mut run = Command::new(&rustc);
        run.args(["--edition", "2024", "--emit", "metadata", "-A", "warnings", "--crate-name", name]);
        run.args(["--crate-type", "lib"]).args(more).arg(format!("{name}.rs")).current_dir(&out);
        run.output().ok().map(|o| (o.status.success(), String::from_utf8_lossy(&o.stderr).into_owned()))
    };
    let Some((made, said)) = run("without", &[]) else {
        eprintln!("skipped: no rustc here");
        return;
    };
    assert!(made, "{said}");
    let (_, said) = run("program", &["--extern", "without=libwithout.rmeta"]).unwrap();
    for feature in ["linalg", "fft", "quantization"] {
        let text = format!("this method of `Tensor` comes with the feature `{feature}` of flambeau");
        assert!(said.contains(&text) && said.contains(&format!("features = [\"{feature}\"]")), "{said}");
    }
}
