//! Result files of the benchmark: `{"meta": {...}, "rows": [{"id", "threads", "median_s", "min_s", "cpu_s", ...}]}`.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// One row at one number of threads. Further keys are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    pub id: String,
    pub threads: usize,
    pub median_s: Option<f64>,
    pub min_s: Option<f64>,
    pub cpu_s: Option<f64>,
    pub inner: Option<f64>,
    pub check: Option<f64>,
    /// Of networks: seconds of the first call, bytes beside those of the start, size of the error of float32.
    pub first_s: Option<f64>,
    pub memory: Option<f64>,
    pub deviation: Option<f64>,
    pub value: Option<f64>,
    pub error: Option<String>,
    /// What the library lacks for a row that is not implemented.
    pub lacks: Option<String>,
}

impl Row {
    /// How much longer the first call takes than a later one.
    pub fn first_beside_later(&self) -> Option<f64> {
        Some(self.first_s? / self.median_s?)
    }
}

/// The rows of one side.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Name and version.
    pub name: String,
    rows: BTreeMap<(String, usize), Row>,
    meta: Map<String, Value>,
    /// As they were read, for writing.
    lines: Vec<Value>,
}

impl Results {
    pub fn get(&self, id: &str, threads: usize) -> Option<&Row> {
        self.rows.get(&(id.to_string(), threads))
    }
    /// Whether the row has figures.
    pub fn runs(&self, id: &str, threads: usize) -> bool {
        self.get(id, threads).is_some_and(|r| r.error.is_none())
    }
    pub fn parse(text: &str) -> Result<Results, String> {
        let all: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let meta = all["meta"].as_object().cloned().unwrap_or_default();
        let word = |k: &str| meta.get(k).and_then(Value::as_str).unwrap_or("");
        let name = format!("{} {}", word("impl"), word("version")).trim().to_string();
        let lines = all["rows"].as_array().cloned().ok_or("no rows")?;
        let mut rows = BTreeMap::new();
        for line in &lines {
            let row: Row = serde_json::from_value(line.clone()).map_err(|e| format!("{line}: {e}"))?;
            rows.insert((row.id.clone(), row.threads), row);
        }
        Ok(Results { name, rows, meta, lines })
    }
    /// Adds rows of a further run of the same side.
    pub fn merge(&mut self, other: Results) {
        self.name = other.name;
        self.meta = other.meta;
        self.rows.extend(other.rows);
        self.lines.extend(other.lines);
    }
    /// All runs in one file; `threads` stands in the rows.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut meta = self.meta.clone();
        meta.remove("threads");
        let lines: Vec<String> = self.lines.iter().map(Value::to_string).collect();
        let text = format!("{{\"meta\": {}, \"rows\": [\n{}\n]}}\n", json!(meta), lines.join(",\n"));
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// A result file.
pub fn read(path: &Path) -> Result<Results, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Results::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The ids of the row list, in order.
pub fn ids(path: &Path) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Entry {
        id: String,
    }
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let all: Vec<Entry> = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(all.into_iter().map(|e| e.id).collect())
}
