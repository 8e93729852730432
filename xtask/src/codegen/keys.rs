//! The table of a row's keys in docs/contributing.md, from the reader's own fields and their comments.

use std::fmt::Write;
use std::path::Path;

const READER: &str = include_str!("../table.rs");
const START: &str = "| key | meaning |\n|---|---|\n";
const END: &str = "\nUnknown keys are errors";

/// Key and meaning, in the order of the fields.
fn keys() -> Result<Vec<(String, String)>, String> {
    let (_, rest) = READER.split_once("struct RawRow {\n").ok_or("table.rs has no struct RawRow")?;
    let (fields, _) = rest.split_once("\n}\n").ok_or("struct RawRow has no end")?;
    let (mut found, mut doc) = (Vec::new(), Vec::new());
    for line in fields.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
        } else if !line.starts_with("#[") {
            let key = line.split(':').next().unwrap_or(line);
            if doc.is_empty() {
                return Err(format!("table.rs: the key `{key}` has no comment"));
            }
            found.push((key.to_string(), std::mem::take(&mut doc).join(" ")));
        }
    }
    Ok(found)
}

/// The document's new text.
pub fn document(root: &Path) -> Result<(std::path::PathBuf, String), String> {
    let path = root.join("docs/contributing.md");
    let old = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let bounds = old.find(START).zip(old.find(END));
    let (start, end) = bounds.filter(|(s, e)| s < e).ok_or("contributing.md has no table of a row's keys")?;
    let mut table = String::from(START);
    for (key, meaning) in keys()? {
        let _ = writeln!(table, "| `{key}` | {} |", meaning.replace('|', "\\|"));
    }
    Ok((path, format!("{}{table}{}", &old[..start], &old[end..])))
}
