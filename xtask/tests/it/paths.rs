//! No file names a place on the machine where it was made: neither texts nor what archives hold.

use super::{report, root};
use std::fs;
use std::io::Read;
use std::path::Path;

/// Where people and their machines keep things.
const PLACES: &[&str] = &["/work/", "/tmp/", "/root/", "/home/", "/Users/", "/mnt/", "/opt/", ":\\Users\\"];

/// Files whose subject such paths are.
const ABOUT_PATHS: &[&str] = &[
    // what tells the library's own sources from a program's
    "crates/flambeau-autograd/tests/it/frames.rs",
    "xtask/tests/it/paths.rs",
];

/// What fuzzing made of archives need not open.
const BROKEN: &str = "tests/fuzz/corpus/";

/// Where `bytes` name a place: it stands at the beginning of a path, and something follows.
fn places(bytes: &[u8]) -> Vec<String> {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"._~-)}]/$*".contains(&b);
    let mut found = Vec::new();
    for place in PLACES {
        let p = place.as_bytes();
        for at in (0..bytes.len().saturating_sub(p.len())).filter(|i| bytes[*i..].starts_with(p)) {
            let begins = p[0] != b'/' || at == 0 || !inside(bytes[at - 1]);
            let after = bytes[at + p.len()];
            if begins && (after.is_ascii_alphanumeric() || after == b'.' || after == b'_') {
                let end = bytes[at..].iter().take(60).take_while(|b| b.is_ascii_graphic()).count();
                found.push(String::from_utf8_lossy(&bytes[at..at + end]).into_owned());
            }
        }
    }
    found
}

/// The same in a file, and in the members of an archive.
fn places_in(name: &str, bytes: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = places(bytes).into_iter().map(|p| format!("{name}: {p}")).collect();
    if bytes.starts_with(b"PK\x03\x04") && !name.starts_with(BROKEN) {
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("an archive opens");
        for i in 0..archive.len() {
            let mut member = archive.by_index(i).expect("a member");
            let within = format!("{name} ({})", member.name().expect("a member's name"));
            let mut text = Vec::new();
            member.read_to_end(&mut text).expect("a member unpacks");
            found.extend(places_in(&within, &text));
        }
    }
    found
}

/// All files below a folder, but for what git ignores.
fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for e in fs::read_dir(dir).expect("a folder").map(|e| e.expect("a directory entry")) {
        let name = e.file_name();
        let name = name.to_string_lossy();
        let kind = e.file_type().expect("a file's kind");
        if kind.is_dir() {
            if name != ".git" && name != "shared" && name != "__pycache__" && !name.starts_with("target") {
                files(&e.path(), found);
            }
        } else if kind.is_file() && name != ".git" && !name.ends_with(".pt") {
            found.push(e.path());
        }
    }
}

#[test]
fn nothing_names_a_machine() {
    let root = root();
    let mut all = Vec::new();
    files(&root, &mut all);
    assert!(all.len() > 500, "only {} files found: the walk is broken", all.len());
    let mut broken = Vec::new();
    for file in all {
        let name = file.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
        if !ABOUT_PATHS.contains(&name.as_str()) {
            broken.extend(places_in(&name, &fs::read(&file).expect("a file")));
        }
    }
    report("files and fixtures carry no paths of a machine", &broken);
}

#[test]
fn places_are_found_in_archives_too() {
    assert_eq!(places(b"see \"/home/me/x.py\", line 3"), ["/home/me/x.py\","]);
    assert_eq!(places(b"X\x13\0\0\0/tmp/mk/make.py"), ["/tmp/mk/make.py"]);
    assert_eq!(places(b"C:\\Users\\me\\x"), [":\\Users\\me\\x"]);
    for fine in ["crates/work/x", "/usr/bin/env", "/tmp/", "https://x.org/home/x", "std::env::temp_dir()"] {
        assert!(places(fine.as_bytes()).is_empty(), "{fine}");
    }
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("a/b", zip::write::SimpleFileOptions::default()).expect("a member begins");
    std::io::Write::write_all(&mut archive, &b"0 /root/x ".repeat(50)).expect("a member is written");
    let bytes = archive.finish().expect("an archive ends").into_inner();
    assert_eq!(places_in("f", &bytes).len(), 50);
}
