//! TorchScript archives (`torch.jit.save`): their tensors and attributes. The code in them is not run.

use super::load::read_options;
use super::{LoadOptions, Sink, outward};
use crate::container::ZipFile;
use crate::torch_format::{ArchivePart, Object, Tree, load_part};
use flambeau_core::{Error, Result, Tensor};
use std::collections::{HashMap, HashSet};
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// What a TorchScript archive holds beside its code.
#[derive(Clone, Debug)]
pub struct ScriptArchive {
    /// Parameters under dotted names, in the order of their modules.
    pub parameters: Vec<(String, Tensor)>,
    /// Buffers under dotted names.
    pub buffers: Vec<(String, Tensor)>,
    /// All other attributes under dotted names: numbers, lists, tensors that are neither.
    pub attributes: Vec<(String, Tree<Tensor>)>,
    /// Tensors that the code names, in the order of their numbers.
    pub constants: Vec<Tree<Tensor>>,
    /// Dotted names of the modules and their classes, the root first under the empty name.
    pub modules: Vec<(String, String)>,
}
impl ScriptArchive {
    /// Parameters and buffers of each module, as its `state_dict()` would have them.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        let of = |list: &[(String, Tensor)], module: &str| -> Vec<(String, Tensor)> {
            let own = list.iter().filter(|(n, _)| n.rsplit_once('.').map_or("", |(m, _)| m) == module);
            own.cloned().collect()
        };
        let both = self.modules.iter().flat_map(|(m, _)| {
            let mut own = of(&self.parameters, m);
            own.extend(of(&self.buffers, m));
            own
        });
        both.collect()
    }
}

/// Reads the parameters, buffers and attributes of a TorchScript archive. Its code is not run: only the lists that
/// say which attribute is a parameter and which a buffer are looked up in it.
///
/// # Errors
/// Of the file system; damaged files; archives of PyTorch before 1.4, which have another layout.
pub fn load_torchscript(path: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<ScriptArchive> {
    let path = path.as_ref();
    let mut reader = BufReader::new(super::open(path)?);
    super::load::check_sums(&mut reader, &options).map_err(|e| e.at_path(path))?;
    let mut file = ZipFile::open_any(reader).map_err(outward)?;
    if file.has("model.json") {
        return Err(Error::missing("TorchScript archives of PyTorch before 1.4 (model.json)"));
    }
    if !file.is_torchscript() || !file.has("data.pkl") {
        return Err(Error::unsupported(
            "this zip archive is not a TorchScript archive: it has no constants.pkl",
        ));
    }
    // names of the archive's own classes are unknown, and nothing is executed
    let read = read_options(false, &[]);
    let mut sink = Sink::new(&options.map_location);
    let tree = load_part(&mut file, ArchivePart::CHECKPOINT, &mut sink, &read).map_err(outward)?;
    let mut sink = Sink::new(&options.map_location);
    let constants = load_part(&mut file, ArchivePart::CONSTANTS, &mut sink, &read).map_err(outward)?;
    let constants = constants.items().map(<[_]>::to_vec).unwrap_or_default();
    let out = ScriptArchive {
        parameters: Vec::new(),
        buffers: Vec::new(),
        attributes: Vec::new(),
        constants,
        modules: Vec::new(),
    };
    let mut walk = Walk { file: &mut file, lists: HashMap::new(), out };
    match &tree {
        Tree::Object(root) if is_module(root) => walk.module("", root)?,
        other => {
            return Err(Error::serialization(format!("a module is expected, but got {}", other.type_name())));
        }
    }
    Ok(walk.out)
}

fn is_module(o: &Object<Tensor>) -> bool {
    o.module.starts_with("__torch__") && o.state.as_ref().is_some_and(|s| s.entries().is_some())
}

/// Names of a class's parameters and buffers.
type Lists = (HashSet<String>, HashSet<String>);

struct Walk<'a> {
    file: &'a mut ZipFile<'static>,
    /// By the record of the code, and the class in it: each record is read once.
    lists: HashMap<String, HashMap<String, Arc<Lists>>>,
    out: ScriptArchive,
}
impl Walk<'_> {
    fn module(&mut self, path: &str, o: &Object<Tensor>) -> Result<()> {
        self.out.modules.push((path.to_owned(), format!("{}.{}", o.module, o.name)));
        let lists = self.lists(&o.module, &o.name)?;
        let (parameters, buffers) = &*lists;
        let Some(Tree::Dict(entries)) = &o.state else { return Ok(()) };
        for (key, value) in entries {
            let Tree::Str(key) = key else { continue };
            let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                Tree::Tensor(t) if parameters.contains(key) => self.out.parameters.push((name, t.clone())),
                Tree::Tensor(t) if buffers.contains(key) => self.out.buffers.push((name, t.clone())),
                Tree::Object(child) if is_module(child) => self.module(&name, child)?,
                other => self.out.attributes.push((name, plain(other))),
            }
        }
        Ok(())
    }

    /// The lists in the text of the class, which is not run.
    fn lists(&mut self, module: &str, class: &str) -> Result<Arc<Lists>> {
        let record = format!("code/{}.py", module.replace('.', "/"));
        if !self.lists.contains_key(&record) {
            if !self.file.has(&record) {
                return Err(Error::serialization(format!("the archive has no code of {module}.{class}")));
            }
            let text = self.file.read(&record).map_err(outward)?;
            let all = classes(&String::from_utf8_lossy(&text));
            self.lists.insert(record.clone(), all.into_iter().map(|(n, l)| (n, Arc::new(l))).collect());
        }
        Ok(self.lists.get(&record).and_then(|c| c.get(class)).cloned().unwrap_or_default())
    }
}

/// The lists of all classes in a text.
fn classes(text: &str) -> HashMap<String, Lists> {
    let mut out: HashMap<String, Lists> = HashMap::new();
    let mut class = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("class ") {
            class = rest.split(['(', ':']).next().unwrap_or_default();
        } else if let Some(rest) = line.trim_start().strip_prefix("__parameters__ = ") {
            out.entry(class.to_owned()).or_default().0 = names(rest);
        } else if let Some(rest) = line.trim_start().strip_prefix("__buffers__ = ") {
            out.entry(class.to_owned()).or_default().1 = names(rest);
        }
    }
    out
}

/// The strings of a list as TorchScript prints it.
fn names(list: &str) -> HashSet<String> {
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Typed lists (`build_intlist` and the like) and tagged values as what they hold.
fn plain(tree: &Tree<Tensor>) -> Tree<Tensor> {
    match tree {
        Tree::Object(o) if o.module == "torch.jit._pickle" => {
            let keep = o.name.starts_with("build_") || o.name == "restore_type_tag";
            match o.args.first() {
                Some(first) if keep => plain(first),
                _ => tree.clone(),
            }
        }
        other => other.clone(),
    }
}
