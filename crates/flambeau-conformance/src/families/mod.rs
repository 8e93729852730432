//! One runner per folder of a set. A file is a list of cases; a case passes, fails, or has no such name.

pub mod distributions;
pub mod errors;
pub mod graphs;
pub mod modules;
pub mod ops;
pub mod optim;
pub mod print;
pub mod promotion;
pub mod rng;
pub mod rules;

use crate::decode::Stop;
use crate::distributed;
use crate::script;
use crate::store::Store;
use flambeau_core::{Tensor, Value};
use serde_json::{Map, Value as J};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// As recorded.
    Passed,
    /// Not as recorded.
    Failed(String),
    /// Not as recorded, in a case whose record is no firm expectation.
    Apart(String),
    /// Nothing has this name.
    Missing(String),
}
impl Outcome {
    /// From a case's run.
    pub fn of(r: Result<(), Stop>) -> Outcome {
        match r {
            Ok(()) => Outcome::Passed,
            Err(Stop::Missing(n)) => Outcome::Missing(n),
            Err(Stop::Failed(e)) => Outcome::Failed(e),
        }
    }
}

/// One case, ready to run.
pub struct Case<'a> {
    /// Its id, unique in the file.
    pub id: String,
    /// The documented name that it is about.
    pub call: String,
    /// Whether it belongs to the core operators ([`is_core`]).
    pub core: bool,
    /// Runs it.
    pub run: Box<dyn Fn() -> Outcome + 'a>,
}

/// One JSON file with its tensors.
pub struct File {
    /// `ops/add`
    pub name: String,
    /// The JSON text's content.
    pub json: J,
    /// The tensors next to it.
    pub store: Store,
    /// Where both are.
    pub folder: PathBuf,
}
impl File {
    /// Reads a file of a set and its tensors.
    ///
    /// # Errors
    /// When one is not well-formed.
    pub fn open(dir: &Path, name: &str) -> Result<File, String> {
        let family = name.split('/').next().unwrap_or("");
        if let Some(pack) = pack(dir, family)? {
            let json = pack.0.get(name).cloned().ok_or_else(|| format!("{name}: not in {family}.json"))?;
            let store = pack.1.within(&format!("{name}/"));
            return Ok(File { name: name.to_string(), json, store, folder: dir.to_path_buf() });
        }
        let json = read_json(&appended(&dir.join(name), "json"))?;
        let store = Store::open(&appended(&dir.join(name), "safetensors"))?;
        let folder = dir.join(name).parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(File { name: name.to_string(), json, store, folder })
    }
    /// The folder: `ops` of `ops/add`.
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or("")
    }
    /// The list `cases`.
    pub fn list(&self, key: &str) -> &[J] {
        self.json[key].as_array().map_or(&[], Vec::as_slice)
    }
    /// All cases.
    pub fn cases(&self) -> Vec<Case<'_>> {
        if let Some(all) = distributed::cases(self) {
            return all;
        }
        match text(&self.json, "format") {
            "script" => return script::cases(self),
            "errors" => return errors::cases(self),
            "rules" => {
                if let Some(all) = rules::cases(self) {
                    return all;
                }
                return vec![self.unread("rules")];
            }
            // tables of names, which nothing is compared with yet: counted, not passed over
            "names" => return vec![self.unread("names")],
            _ => {}
        }
        match self.family() {
            "ops" => ops::cases(self),
            "errors" => errors::cases(self),
            "rng" => rng::cases(self),
            "print" => print::cases(self),
            "promotion" => promotion::cases(self),
            "modules" => modules::cases(self),
            "optim" => optim::cases(self),
            "distributions" => distributions::cases(self),
            "fx" | "export" | "jit" | "onnx" | "models" => graphs::cases(self),
            _ => Vec::new(),
        }
    }
}
impl File {
    fn unread(&self, format: &str) -> Case<'_> {
        let what = format!("{}, a file of {format}", self.name);
        let run = Box::new(move || Outcome::Missing(what.clone()));
        Case { id: format.into(), call: self.name.clone(), core: false, run }
    }
}
/// File names hold dots (`nn.functional.relu`): the extension is appended, not replaced.
pub fn appended(path: &Path, ext: &str) -> PathBuf {
    let mut s = path.as_os_str().to_os_string();
    s.push(".");
    s.push(ext);
    PathBuf::from(s)
}
/// Reads a JSON file.
///
/// # Errors
/// When it is not there or not JSON.
pub fn read_json(path: &Path) -> Result<J, String> {
    let text = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// All files of a family in one: what small copies consist of.
type Pack = Arc<(Map<String, J>, Store)>;

fn pack(dir: &Path, family: &str) -> Result<Option<Pack>, String> {
    static PACKS: Mutex<BTreeMap<PathBuf, Option<Pack>>> = Mutex::new(BTreeMap::new());
    let path = appended(&dir.join(family), "json");
    let mut all = PACKS.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(p) = all.get(&path) {
        return Ok(p.clone());
    }
    let p = match path.exists() {
        false => None,
        true => match read_json(&path)? {
            J::Object(m) => Some(Arc::new((m, Store::open(&appended(&dir.join(family), "safetensors"))?))),
            _ => return Err(format!("{}: not an object", path.display())),
        },
    };
    all.insert(path, p.clone());
    Ok(p)
}

/// The folders of a set, in the order they are reported.
pub const FAMILIES: [&str; 26] = [
    "ops",
    "errors",
    "rng",
    "print",
    "promotion",
    "modules",
    "optim",
    "distributions",
    "func",
    "autocast",
    "quantized",
    "masked",
    "nested",
    "named",
    "distributions2",
    "linalg2",
    "fft2",
    "program",
    "errors2",
    "jit",
    "export",
    "fx",
    "onnx",
    "models/jit",
    "models/export",
    "models/onnx",
];

/// All files of a set, `ops/add` first.
///
/// # Errors
/// When the folder cannot be read.
pub fn files(dir: &Path) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for family in FAMILIES.into_iter().chain(distributed::SECTIONS) {
        if let Some(pack) = pack(dir, family)? {
            all.extend(pack.0.keys().cloned());
            continue;
        }
        let Ok(entries) = std::fs::read_dir(dir.join(family)) else { continue };
        let mut names: Vec<String> = entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter_map(|n| n.strip_suffix(".json").map(|n| format!("{family}/{n}")))
            .collect();
        names.sort();
        all.extend(names);
    }
    if all.is_empty() {
        return Err(format!("{} holds no conformance set", dir.display()));
    }
    Ok(all)
}

/// Names of `torch.*` that stand on LAPACK: they belong to linear algebra, not to the core operators.
const LAPACK: [&str; 24] = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "geqrf",
    "orgqr",
    "ormqr",
    "qr",
    "svd",
    "svd_lowrank",
    "pca_lowrank",
    "lobpcg",
    "lu",
    "lu_solve",
    "lu_unpack",
    "lstsq",
    "triangular_solve",
    "symeig",
    "eig",
    "inverse",
    "det",
    "logdet",
    "slogdet",
    "pinverse",
    "matrix_exp",
];

/// Whether a case belongs to the core operators: `torch.*`, `torch.Tensor.*` and `torch.special.*` without LAPACK,
/// `stft`, `istft` and sparse.
pub fn is_core(call: &str, case: &J) -> bool {
    let Some(rest) = call.strip_prefix("torch.") else { return false };
    let name = rest.strip_prefix("Tensor.").or_else(|| rest.strip_prefix("special.")).unwrap_or(rest);
    let bare = name.trim_end_matches('_');
    if name.contains('.')
        || LAPACK.contains(&bare)
        || matches!(bare, "stft" | "istft")
        || name.contains("sparse")
    {
        return false;
    }
    fn has_sparse(j: &J) -> bool {
        match j {
            J::Array(l) => l.iter().any(has_sparse),
            J::Object(m) => m.iter().any(|(k, v)| {
                k.starts_with("sparse_")
                    || (k == "layout" && v.as_str().is_some_and(|s| s != "strided"))
                    || has_sparse(v)
            }),
            _ => false,
        }
    }
    !["args", "kwargs", "outputs", "input"].iter().any(|k| has_sparse(&case[*k]))
}

/// Text of a field.
pub fn text<'a>(j: &'a J, key: &str) -> &'a str {
    j[key].as_str().unwrap_or("")
}
/// Seeds the default generator, if the case has a seed.
pub fn seed(case: &J) {
    // seeds are unsigned, and negative ones stand for those beyond 2^63
    let seed = &case["seed"];
    if let Some(s) = seed.as_u64().or_else(|| seed.as_i64().map(|s| s as u64)) {
        flambeau_core::tensor::generator::manual_seed(s);
    }
}
/// The results of a call as the list that the record holds.
pub fn outputs(got: Vec<Value>, kind: &str) -> Vec<Value> {
    match (&got[..], kind) {
        ([], _) => vec![Value::None],
        ([one], "single") => vec![one.clone()],
        ([Value::List(l) | Value::Tuple(l)], "tuple" | "list" | "namedtuple") => l.clone(),
        ([Value::Named(t)], "tuple" | "list" | "namedtuple") => t.items.clone(),
        (_, "single") => vec![Value::Tuple(got)],
        _ => got,
    }
}
/// The tensor at a path (`1.0`) of a list.
pub fn at_path<'a>(all: &'a [Value], path: &str) -> Option<&'a Value> {
    let (i, rest) = match path.split_once('.') {
        Some((i, r)) => (i, Some(r)),
        None => (path, None),
    };
    let v = all.get(i.parse::<usize>().ok()?)?;
    match rest {
        None => Some(v),
        Some(r) => at_path(v.items()?, r),
    }
}
/// Runs backward from several tensors with their cotangents, and returns the gradients of `leaves`.
///
/// # Errors
/// Those of the engine.
pub fn gradients(
    outs: &[(Tensor, Tensor)],
    leaves: &[(String, Tensor)],
) -> Result<Vec<Option<Tensor>>, Stop> {
    let engine = flambeau_core::tensor::graph::engine()?;
    let inputs: Vec<Tensor> = leaves.iter().map(|l| l.1.clone()).collect();
    for (i, (out, cotangent)) in outs.iter().enumerate() {
        if !out.requires_grad() {
            return Err(Stop::Failed("an output that should have a gradient does not require one".into()));
        }
        let retain = i + 1 < outs.len();
        (engine.backward)(out, Some(cotangent), Some(retain), false, Some(&inputs))?;
    }
    Ok(inputs.iter().map(|t| (engine.grad)(t)).collect())
}
