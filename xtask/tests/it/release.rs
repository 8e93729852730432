//! A crate that goes to the registry has what its page there needs.

use super::root;
use std::fs;

const INHERITED: [&str; 5] = ["license", "repository", "readme", "keywords", "categories"];

#[test]
fn published_crates_are_ready() {
    let mut published = 0;
    for dir in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let Ok(text) = fs::read_to_string(dir.path().join("Cargo.toml")) else { continue };
        let manifest: toml::Value = toml::from_str(&text).expect("a manifest");
        let (name, package) = (dir.file_name(), &manifest["package"]);
        if package.get("publish").is_some_and(|p| p.as_bool() == Some(false)) {
            continue;
        }
        published += 1;
        for key in INHERITED {
            let inherited = package.get(key).and_then(|v| v.get("workspace")).and_then(toml::Value::as_bool);
            assert_eq!(inherited, Some(true), "{name:?}: write `{key}.workspace = true` below `[package]`");
        }
        assert!(package.get("description").is_some(), "{name:?} has no description");
        let docs = package.get("metadata").and_then(|m| m.get("docs")).and_then(|d| d.get("rs"));
        assert!(docs.is_some(), "{name:?}: write `[package.metadata.docs.rs]` with `all-features = true`");
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let (own, root) = (
                fs::read(dir.path().join(file)).unwrap_or_default(),
                fs::read(root().join(file)).expect(file),
            );
            assert!(own == root, "{name:?}: link `{file}` to the one in the root: ln -s ../../{file}");
        }
    }
    assert!(published > 25, "{published}");
}

/// The front page lists each feature, and says rightly whether it is on by default.
#[test]
fn features_are_listed() {
    let read = |file: &str| fs::read_to_string(root().join("crates/flambeau").join(file)).expect(file);
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).expect("a manifest");
    let page = read("src/front_page.md");
    let features = manifest["features"].as_table().expect("features");
    let defaults = features["default"].as_array().expect("a list");
    for name in features.keys().filter(|n| *n != "default") {
        let row = page.lines().find(|l| l.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("the front page does not list the feature {name}"));
        let yes = defaults.iter().any(|d| d.as_str() == Some(name));
        assert!(row.ends_with(if yes { "| yes |" } else { "| no |" }), "{row}");
    }
}
