//! `cargo xtask package`: packs every published crate and looks into the packages. `cargo xtask notices`: docs/third-party.md, the
//! crates of others that a program may contain, with their licences. `cargo xtask features`: each feature alone.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What every package carries.
const CARRIED: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

fn cargo(root: &Path, args: &[&str]) -> Result<String, String> {
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        // features are those that are asked for, whatever the caller unifies
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION")
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

fn metadata(root: &Path) -> Result<Value, String> {
    let text = cargo(root, &["metadata", "--format-version", "1", "--all-features", "--locked"])?;
    serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))
}

fn list<'a>(v: &'a Value, key: &str) -> &'a [Value] {
    v[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(v: &'a Value, key: &str) -> &'a str {
    v[key].as_str().unwrap_or_default()
}

/// Members of the workspace that go to the registry.
fn published(metadata: &Value) -> Vec<&Value> {
    let members: BTreeSet<&str> =
        list(metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let goes = |p: &&Value| members.contains(text(p, "id")) && p["publish"].is_null();
    list(metadata, "packages").iter().filter(goes).collect()
}

/// `cargo xtask package [--allow-dirty]`.
pub fn package(root: &Path, args: &[String]) -> Result<bool, String> {
    let metadata = metadata(root)?;
    let names: Vec<&str> = published(&metadata).iter().map(|p| text(p, "name")).collect();
    // cargo orders them by their dependencies and lets them find each other before they are in the registry
    let mut command = vec!["package", "--no-verify", "--quiet"];
    command.extend(args.iter().map(String::as_str));
    command.extend(names.iter().flat_map(|n| ["-p", n]));
    cargo(root, &command)?;
    let mut well = true;
    for name in &names {
        let mut command = vec!["package", "--list", "-p", name];
        command.extend(args.iter().map(String::as_str));
        let files = cargo(root, &command)?;
        let files: BTreeSet<&str> = files.lines().collect();
        for file in CARRIED.iter().filter(|f| !files.contains(**f)) {
            println!("{name}: the package has no {file}");
            well = false;
        }
    }
    println!("{} packages", names.len());
    Ok(well)
}

/// `cargo xtask notices [--check]`.
pub fn notices(root: &Path, args: &[String]) -> Result<bool, String> {
    let metadata = metadata(root)?;
    let by_id: BTreeMap<&str, &Value> =
        list(&metadata, "packages").iter().map(|p| (text(p, "id"), p)).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"], "nodes").iter().map(|n| (text(n, "id"), n)).collect();
    // what a program links: dependencies that are neither for builds nor for tests, from the facade on
    let mut open: Vec<&str> = published(&metadata).iter().map(|p| text(p, "id")).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dep in nodes.get(id).map_or(&[][..], |n| list(n, "deps")) {
            if list(dep, "dep_kinds").iter().any(|k| k["kind"].is_null()) {
                open.push(text(dep, "pkg"));
            }
        }
    }
    let mut rows = BTreeSet::new();
    for p in seen.iter().filter_map(|id| by_id.get(id)).filter(|p| !p["source"].is_null()) {
        let authors: Vec<&str> = list(p, "authors").iter().filter_map(Value::as_str).collect();
        let plain = authors.join(", ").replace('|', "/");
        // addresses are nobody's business here
        let plain: Vec<&str> = plain.split(' ').filter(|w| !w.contains('@')).collect();
        let plain = plain.join(" ").trim_end_matches([',', ' ']).to_string();
        rows.insert((text(p, "name"), text(p, "version"), text(p, "license"), plain, text(p, "repository")));
    }
    let mut out = String::from(
        "# Third-party notices\n\nWritten by `cargo xtask notices`. Crates of others that a program with all features may contain, on any \
         platform; each\nsource package has the licence's text. Why each direct one is there: [dependencies.md](dependencies.md).\n\n\
         | crate | version | licence | authors | source |\n|---|---|---|---|---|\n",
    );
    for (name, version, licence, authors, source) in &rows {
        if licence.is_empty() {
            return Err(format!("{name} {version} states no licence"));
        }
        let _ = writeln!(out, "| `{name}` | {version} | {licence} | {authors} | {source} |");
    }
    let file = root.join("docs/third-party.md");
    if args.iter().any(|a| a == "--check") {
        let same = std::fs::read_to_string(&file).is_ok_and(|old| old == out);
        if !same {
            println!("docs/third-party.md is not what `cargo xtask notices` writes");
        }
        return Ok(same);
    }
    std::fs::write(&file, out).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("{} crates", rows.len());
    Ok(true)
}

/// `cargo xtask features [NAME]`: the facade without features, with each of them alone, as it comes, and with all; warnings are errors.
pub fn features(root: &Path, args: &[String]) -> Result<bool, String> {
    let metadata = metadata(root)?;
    let facade = list(&metadata, "packages").iter().find(|p| text(p, "name") == "flambeau");
    let all = facade.and_then(|p| p["features"].as_object()).ok_or("no features of flambeau")?;
    let wanted = |name: &str| args.is_empty() || args.iter().any(|a| a == name);
    // the two that need something of the system while they are built
    let mpi = Command::new("mpicc").arg("--version").output().is_ok_and(|o| o.status.success());
    if !mpi && (wanted("mpi") || wanted("all")) {
        println!("mpi: left out: there is no mpicc (Debian: libopenmpi-dev, libclang-dev)");
    }
    let archive = std::env::var_os("FLAMBEAU_KERNEL_ARCHIVE").is_some();
    if !archive && (wanted("cuda-prebuilt") || wanted("all")) {
        println!(
            "cuda-prebuilt: left out: FLAMBEAU_KERNEL_ARCHIVE names no file (cargo xtask kernels --archive)"
        );
    }
    let here = || all.keys().filter(|n| (mpi || *n != "mpi") && (archive || *n != "cuda-prebuilt"));
    let together = here().cloned().collect::<Vec<_>>().join(",");
    let mut sets: Vec<(String, Vec<&str>)> = vec![
        ("none".into(), vec!["--no-default-features"]),
        ("default".into(), vec![]),
        ("all".into(), vec!["--features", &together]),
    ];
    sets.extend(
        here()
            .filter(|n| *n != "default")
            .map(|n| (n.clone(), vec!["--no-default-features", "--features", n.as_str()])),
    );
    sets.retain(|(name, _)| wanted(name));
    if sets.is_empty() {
        return Err(format!("no feature {}", args.join(", ")));
    }
    let mut well = true;
    for (name, flags) in &sets {
        let command =
            [&["clippy", "--quiet", "-p", "flambeau"][..], flags, &["--", "-D", "warnings"]].concat();
        match cargo(root, &command) {
            Ok(_) => println!("{name}: passes"),
            Err(e) => {
                println!("{name}: fails\n{e}");
                well = false;
            }
        }
    }
    Ok(well)
}
