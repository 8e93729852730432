//! Links of the documents lead somewhere.

use super::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Documents for people, below the root; not what others wrote.
fn documents(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // links, which lead to files that are read anyway
        if path.is_symlink() || name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Where the links of a text lead: `[text](place)`, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut code = false;
    let mut all = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        // every second part stands between backticks
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("");
        for (at, _) in prose.match_indices("](") {
            if let Some((place, _)) = prose[at + 2..].split_once(')') {
                all.push(place.to_owned());
            }
        }
    }
    all
}

#[test]
fn links_are_found() {
    assert_eq!(links("a [b](c) [`d`](e/f.md#g) `[h](i)`\n```\n[j](k)\n```\n[l](m)"), ["c", "e/f.md#g", "m"]);
}

#[test]
fn links_lead_to_files() {
    let mut files = Vec::new();
    documents(&root(), &mut files);
    let (mut count, mut lost) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).expect("a text");
        for place in links(&text) {
            let path = place.split('#').next().unwrap_or_default();
            // names of items, which rustdoc resolves, and addresses
            if path.is_empty() || path.contains("::") || path.contains(':') || !path.contains(['/', '.']) {
                continue;
            }
            count += 1;
            // chapters of the book link to pages as they are built
            let source = path.strip_suffix("index.html").map_or(path.to_owned(), |p| format!("{p}index.md"));
            if !file.with_file_name("").join(source).exists() {
                lost.push(format!("{}: {place}", file.display()));
            }
        }
    }
    assert!(count > 50, "{count}");
    assert!(lost.is_empty(), "links that lead nowhere: {lost:#?}");
}

/// The book has the chapters that its table of contents names, in the folder that mdBook reads.
#[test]
fn the_book_has_its_chapters() {
    let manifest = fs::read_to_string(root().join("docs/book/book.toml")).expect("the book's manifest");
    let manifest: toml::Value = toml::from_str(&manifest).expect("a manifest");
    let source = root().join("docs/book").join(manifest["book"]["src"].as_str().expect("a folder"));
    let contents = links(&fs::read_to_string(source.join("SUMMARY.md")).expect("the table of contents"));
    let folders = fs::read_dir(&source).expect("the book").flatten().filter(|e| e.path().is_dir());
    let mut chapters: Vec<String> =
        folders.map(|e| format!("{}/index.md", e.file_name().to_string_lossy())).collect();
    let mut named = contents.clone();
    (named.sort(), chapters.sort());
    assert_eq!(named, chapters);
    assert!(contents.len() > 10, "{contents:?}");
}
