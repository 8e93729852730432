//! Classes and functions that checkpoints may name beside the built-in list, for the whole process.
//!
//! Nothing in a file is executed. A name that is marked as safe comes as an opaque [`Tree::Object`]; if a
//! constructor was given with the name, it makes the value.

use crate::container::{self, Kind, ZipFile};
use crate::error::BLOCKED_MODULES;
use crate::pickle::{self, Value};
use crate::tensors::outward;
use crate::torch_format::{Object, Tree, is_known_global};
use flambeau_core::types::order::RwLock;
use flambeau_core::types::order::none_held;
use flambeau_core::{Error, Result, Tensor};
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Makes a value of a call or an instance in a checkpoint.
pub type Constructor = Arc<dyn Fn(Object<Tensor>) -> Result<Tree<Tensor>> + Send + Sync>;

/// A Python class or function that may stand in checkpoints.
#[derive(Clone)]
pub struct SafeGlobal {
    path: String,
    constructor: Option<Constructor>,
}
impl SafeGlobal {
    /// Values of this name, as in `package.module.Class`, come as opaque objects.
    pub fn new(path: impl Into<String>) -> SafeGlobal {
        SafeGlobal { path: path.into(), constructor: None }
    }
    /// Values of this name are what the constructor makes of them.
    pub fn with(
        path: impl Into<String>,
        make: impl Fn(Object<Tensor>) -> Result<Tree<Tensor>> + Send + Sync + 'static,
    ) -> SafeGlobal {
        SafeGlobal { path: path.into(), constructor: Some(Arc::new(make)) }
    }
    /// The full name.
    pub fn path(&self) -> &str {
        &self.path
    }
}
impl From<&str> for SafeGlobal {
    fn from(path: &str) -> SafeGlobal {
        SafeGlobal::new(path)
    }
}
impl From<String> for SafeGlobal {
    fn from(path: String) -> SafeGlobal {
        SafeGlobal::new(path)
    }
}
impl std::fmt::Debug for SafeGlobal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SafeGlobal({})", self.path)
    }
}

static MARKED: RwLock<Vec<SafeGlobal>> = RwLock::new(Vec::new());

/// Takes names out, and puts others in. What a constructor holds is dropped without the lock.
fn change(gone: impl Fn(&SafeGlobal) -> bool, new: Vec<SafeGlobal>) {
    let gone: Vec<SafeGlobal> = {
        let mut list = MARKED.write().unwrap_or_else(PoisonError::into_inner);
        let gone = list.extract_if(.., |g| gone(g)).collect();
        list.extend(new);
        gone
    };
    drop(gone);
}
pub(crate) fn marked() -> Vec<SafeGlobal> {
    MARKED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Marks names as safe to load. A name that is marked already gets the new constructor.
///
/// ```
/// use torch::serialization::{SafeGlobal, Tree, add_safe_globals, clear_safe_globals};
/// add_safe_globals([SafeGlobal::with("mypackage.Config", |object| {
///     // the attributes that Python would put into the instance
///     Ok(object.state.unwrap_or(Tree::None))
/// })]);
/// # clear_safe_globals();
/// ```
#[doc(alias = "torch.serialization.add_safe_globals")]
pub fn add_safe_globals<G: Into<SafeGlobal>>(globals: impl IntoIterator<Item = G>) {
    let new: Vec<SafeGlobal> = globals.into_iter().map(Into::into).collect();
    let names: Vec<String> = new.iter().map(|n| n.path.clone()).collect();
    change(|g| names.contains(&g.path), new);
}
/// The names that were marked as safe.
///
/// ```
/// use torch::serialization::{add_safe_globals, clear_safe_globals, get_safe_globals};
/// add_safe_globals(["mypackage.Config"]);
/// assert_eq!(get_safe_globals(), ["mypackage.Config"]);
/// clear_safe_globals();
/// assert!(get_safe_globals().is_empty());
/// ```
#[doc(alias = "torch.serialization.get_safe_globals")]
pub fn get_safe_globals() -> Vec<String> {
    marked().into_iter().map(|g| g.path).collect()
}
/// Unmarks all names.
#[doc(alias = "torch.serialization.clear_safe_globals")]
pub fn clear_safe_globals() {
    change(|_| true, Vec::new());
}

/// Unmarks its names when it is dropped.
#[must_use = "the names are safe while the guard lives"]
#[doc(alias = "torch.serialization.safe_globals")]
pub struct SafeGlobals(Vec<String>);
/// Marks names as safe until the guard is dropped.
///
/// ```
/// use torch::serialization::{SafeGlobals, get_safe_globals, safe_globals};
/// let marked: SafeGlobals = safe_globals(["mypackage.Config"]);
/// assert_eq!(get_safe_globals(), ["mypackage.Config"]);
/// drop(marked);
/// assert!(get_safe_globals().is_empty());
/// ```
pub fn safe_globals<G: Into<SafeGlobal>>(globals: impl IntoIterator<Item = G>) -> SafeGlobals {
    let new: Vec<SafeGlobal> = globals.into_iter().map(Into::into).collect();
    let names = new.iter().map(|g| g.path.clone()).collect();
    add_safe_globals(new);
    SafeGlobals(names)
}
impl Drop for SafeGlobals {
    fn drop(&mut self) {
        change(|g| self.0.contains(&g.path), Vec::new());
    }
}

/// Names in a checkpoint that [`load`](crate::tensors::load) would refuse, in the order of their appearance.
///
/// ```
/// use torch::Generator;
/// use torch::serialization::{get_unsafe_globals_in_checkpoint, save};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("g.pt");
/// save(&Generator::new(), &path)?;
/// assert_eq!(get_unsafe_globals_in_checkpoint(&path)?, ["torch._C.Generator"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Files that are no zip checkpoint.
#[doc(alias = "torch.serialization.get_unsafe_globals_in_checkpoint")]
pub fn get_unsafe_globals_in_checkpoint(path: impl AsRef<Path>) -> Result<Vec<String>> {
    let mut reader = BufReader::new(crate::tensors::open(path.as_ref())?);
    if !matches!(container::detect(&mut reader), Ok(Kind::Zip)) {
        return Err(Error::value("Expected input to be a checkpoint returned by torch.save"));
    }
    let mut file = ZipFile::open_any(reader).map_err(outward)?;
    if file.is_torchscript() {
        return Err(Error::value(
            "Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint",
        ));
    }
    let data = file.read("data.pkl").map_err(outward)?;
    let (graph, _) = pickle::load(&data).map_err(outward)?;
    let known = get_safe_globals();
    let mut out = Vec::new();
    for value in graph.values() {
        let Value::Global { module, name } = value else { continue };
        let module = if module == "__builtin__" { "builtins" } else { module };
        let path = format!("{module}.{name}");
        let safe =
            is_known_global(module, name) || known.contains(&path) && !BLOCKED_MODULES.contains(&module);
        if !safe && !out.contains(&path) {
            out.push(path);
        }
    }
    Ok(out)
}

/// Lets the constructors of marked names make their values, innermost first.
pub(crate) fn construct(tree: Tree<Tensor>, marked: &[SafeGlobal]) -> Result<Tree<Tensor>> {
    if marked.iter().all(|g| g.constructor.is_none()) {
        return Ok(tree);
    }
    tree.rewrite(&mut |t| match t.into_object() {
        Ok(o) => {
            let path = format!("{}.{}", o.module, o.name);
            match marked.iter().find(|g| g.path == path).and_then(|g| g.constructor.as_ref()) {
                Some(make) => {
                    none_held("a constructor of a program runs");
                    make(o)
                }
                None => Ok(Tree::Object(Box::new(o))),
            }
        }
        Err(other) => Ok(other),
    })
}
