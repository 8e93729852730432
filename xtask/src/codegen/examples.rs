//! The rows' examples as tests of the facade, which is the crate that they name: one binary for all.

use crate::table::CrateTable;
use std::collections::BTreeMap;
use std::fmt::Write;

pub const DIR: &str = "crates/flambeau/tests/it/generated";

/// One module per family, a test per row.
pub fn emit(tables: &[CrateTable]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut modules = String::new();
    for t in tables {
        for f in &t.families {
            let mut s = String::new();
            for row in f.rows.iter().filter(|r| !r.described.example.is_empty()) {
                let name = super::types::ident(&row.rust);
                let _ = writeln!(s, "#[test]\nfn {name}() {{\n{}\n}}\n", row.described.example.trim());
            }
            if !s.is_empty() {
                let module =
                    format!("{}_{}", t.package.trim_start_matches("flambeau-").replace('-', "_"), f.name);
                let _ = writeln!(modules, "mod {module};");
                let text = format!("//! Examples of the rows in `{}`.\n\n{s}", f.file.display());
                files.insert(format!("{module}.rs"), text);
            }
        }
    }
    files.insert("mod.rs".into(), format!("//! The examples of the operators' documentation.\n\n{modules}"));
    files
}
