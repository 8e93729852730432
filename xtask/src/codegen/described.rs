//! The list of rows that do not say yet what documentation needs, `xtask/undescribed.txt`: a new row says it, and a row
//! that says it leaves the list.

use crate::table::CrateTable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub const LIST: &str = "xtask/undescribed.txt";

/// The list's place, and its text without the rows that need it no longer.
pub fn list(root: &Path, tables: &[CrateTable]) -> Result<(PathBuf, String), String> {
    let path = root.join(LIST);
    let old = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok((path, shorter(&old, tables)?))
}

/// The list without rows that are described or gone. A row that is neither described nor listed is an error.
pub fn shorter(old: &str, tables: &[CrateTable]) -> Result<String, String> {
    let listed: BTreeSet<&str> = old.lines().collect();
    let mut left = BTreeSet::new();
    for f in tables.iter().flat_map(|t| &t.families) {
        for row in &f.rows {
            let missing = row.undescribed();
            if missing.is_empty() {
                continue;
            }
            let name = row.schema.full_name();
            if !listed.contains(name.as_str()) {
                return Err(format!(
                    "{}: {name}: a new row describes itself: it lacks `{}` ({LIST} takes no new rows)",
                    f.file.display(),
                    missing.join("`, `")
                ));
            }
            left.insert(name);
        }
    }
    Ok(left.into_iter().map(|n| n + "\n").collect())
}
