//! A small copy of a set: the first cases of every file that fit, with the tensors that they use.

use crate::families::{FAMILIES, appended, files};
use serde_json::{Map, Value as J, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many cases of a family's files are copied, at most how large each may be, and how large all of the family.
const SHARES: [(&str, usize, usize, usize); 8] = [
    ("ops", 2, 1_200, 900_000),
    ("errors", 250, 2_000, 150_000),
    ("rng", 2, 1_500, 120_000),
    ("print", 60, 2_000, 60_000),
    ("promotion", 0, 0, 0),
    ("modules", 1, 1_500, 150_000),
    ("optim", 1, 6_000, 80_000),
    ("distributions", 1, 4_000, 100_000),
];

fn keys(j: &J, all: &mut BTreeSet<String>) {
    match j {
        J::Array(l) => l.iter().for_each(|v| keys(v, all)),
        J::Object(m) => {
            if let Some(k) = m.get("t").and_then(J::as_str) {
                all.insert(k.to_string());
            }
            m.values().for_each(|v| keys(v, all));
        }
        _ => {}
    }
}

struct Raw {
    bytes: Vec<u8>,
    header: Map<String, J>,
    start: usize,
}
impl Raw {
    fn open(path: &Path) -> Result<Raw, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let n = bytes.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b) as usize);
        let header = serde_json::from_slice(bytes.get(8..8 + n).unwrap_or(b"")).map_err(|e| e.to_string())?;
        Ok(Raw { bytes, header, start: 8 + n })
    }
    fn data(&self, key: &str) -> Option<(&J, &[u8])> {
        let e = self.header.get(key)?;
        let at = |i: usize| e["data_offsets"][i].as_u64().unwrap_or(0) as usize + self.start;
        Some((e, self.bytes.get(at(0)..at(1))?))
    }
    fn size(&self, all: &BTreeSet<String>) -> usize {
        all.iter().filter_map(|k| Some(self.data(k)?.1.len() + 80)).sum()
    }
}

/// Everything kept of one family: the files' JSON by name, their tensors by `NAME/KEY`.
#[derive(Default)]
struct Pack {
    files: Map<String, J>,
    header: Map<String, J>,
    data: Vec<u8>,
}
impl Pack {
    fn add(&mut self, raw: &Raw, name: &str, all: &BTreeSet<String>) -> Result<(), String> {
        for k in all {
            let (e, b) = raw.data(k).ok_or_else(|| format!("no tensor {k}"))?;
            let from = self.data.len();
            self.data.extend_from_slice(b);
            let offsets = [from, self.data.len()];
            self.header.insert(
                format!("{name}/{k}"),
                json!({"dtype": e["dtype"], "shape": e["shape"], "data_offsets": offsets}),
            );
        }
        Ok(())
    }
    fn write(self, base: &Path) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("{}: {e}", base.display());
        // one file per line, so that changes show as such
        let lines: Vec<String> = self.files.iter().map(|(k, v)| format!("{}: {v}", json!(k))).collect();
        std::fs::write(appended(base, "json"), format!("{{\n{}\n}}\n", lines.join(",\n"))).map_err(failed)?;
        let mut text = J::Object(self.header).to_string();
        while !text.len().is_multiple_of(8) {
            text.push(' ');
        }
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&self.data);
        std::fs::write(appended(base, "safetensors"), out).map_err(failed)
    }
}

/// Writes the copy.
///
/// # Errors
/// When the set cannot be read or the copy not written.
pub fn write(dir: &Path, out: &Path, seed: i64) -> Result<(), String> {
    let mut counts = Map::new();
    let mut packs: BTreeMap<String, Pack> = BTreeMap::new();
    let mut left: BTreeMap<&str, usize> = SHARES.iter().map(|s| (s.0, s.3)).collect();
    for name in files(dir)? {
        let family = name.split('/').next().unwrap_or("");
        let Some(&(_, per_file, per_case, _)) = SHARES.iter().find(|s| s.0 == family) else { continue };
        let text = std::fs::read(dir.join(format!("{name}.json"))).map_err(|e| e.to_string())?;
        let mut json: J = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let raw = Raw::open(&dir.join(format!("{name}.safetensors"))).ok();
        let Some(budget) = left.get_mut(family) else { continue };
        let mut used = BTreeSet::new();
        let mut kept = Vec::new();
        let mut dtypes = BTreeSet::new();
        let all = json["cases"].as_array().cloned().unwrap_or_default();
        // a spread over the file, and over dtypes where there are few
        let step = if per_file > 4 { (all.len() / per_file).max(1) } else { 1 };
        for c in all.into_iter().step_by(step) {
            if kept.len() == per_file {
                break;
            }
            if per_file <= 4 && !dtypes.is_empty() && dtypes.contains(&c["dtype"].to_string()) {
                continue;
            }
            let mut mine = BTreeSet::new();
            keys(&c, &mut mine);
            let size = c.to_string().len() + raw.as_ref().map_or(0, |r| r.size(&mine));
            if size > per_case || size > *budget {
                continue;
            }
            *budget -= size;
            dtypes.insert(c["dtype"].to_string());
            used.extend(mine);
            kept.push(c);
        }
        if kept.is_empty() && family != "promotion" {
            continue;
        }
        let n = kept.len();
        if family == "promotion" {
            shrink_promotion(&mut json);
        } else {
            json["cases"] = J::Array(kept);
        }
        let pack = packs.entry(family.to_string()).or_default();
        if let Some(r) = raw.filter(|_| !used.is_empty()) {
            pack.add(&r, &name, &used)?;
        }
        pack.files.insert(name.clone(), json);
        let c = counts.entry(family).or_insert(json!(0));
        *c = json!(c.as_u64().unwrap_or(0) + n as u64);
    }
    std::fs::create_dir_all(out).map_err(|e| e.to_string())?;
    for (family, pack) in packs {
        pack.write(&out.join(family))?;
    }
    let manifest = json!({"seed": seed, "sample": true, "families": FAMILIES, "cases": counts});
    std::fs::write(out.join("manifest.json"), manifest.to_string() + "\n").map_err(|e| e.to_string())
}

/// The tables of every second dtype, for the first default dtype.
fn shrink_promotion(j: &mut J) {
    let keep: Vec<String> =
        j["dtypes"].as_array().into_iter().flatten().filter_map(J::as_str).map(str::to_string).collect();
    let drop: BTreeSet<String> = keep.into_iter().skip(1).step_by(2).collect();
    fn prune(j: &mut J, drop: &BTreeSet<String>) {
        if let J::Object(m) = j {
            m.retain(|k, _| !drop.contains(k));
            m.values_mut().for_each(|v| prune(v, drop));
        } else if let J::Array(l) = j {
            l.iter_mut().for_each(|v| prune(v, drop));
        }
    }
    if let Some(t) = j["tables"].as_array_mut() {
        t.truncate(1);
    }
    prune(j, &drop);
}
