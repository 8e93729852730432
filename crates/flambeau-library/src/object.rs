//! Classes of objects by their documented names.

use flambeau_core::dispatch::registry;
use flambeau_core::types::order::RwLock;
use flambeau_core::{Error, Result, Value};
use std::collections::HashMap;

use flambeau_core::dispatch::object::entering;
pub use flambeau_core::dispatch::object::{Constructor, Kwargs, Object, ObjectRef, no_attribute};

static CLASSES: RwLock<Option<HashMap<String, Constructor>>> = RwLock::new(None);

/// Makes a class known under its documented name (`torch.nn.Linear`). Crates call it from their `fills`. The first
/// registration stays; later ones return `false`.
///
/// ```
/// use torch::library::object::{Kwargs, construct, register_class};
/// use torch::library::Value;
/// let make = |args: &[Value], names: &Kwargs| construct("torch.nn.ReLU", args, names);
/// assert!(register_class("mylib.Rectifier", make));
/// assert!(construct("mylib.Rectifier", &[], &[]).is_ok());
/// ```
pub fn register_class(path: &str, make: Constructor) -> bool {
    let mut all = CLASSES.write().unwrap_or_else(|e| e.into_inner());
    let all = all.get_or_insert_default();
    if all.contains_key(path) {
        return false;
    }
    all.insert(path.to_string(), make);
    true
}

/// The constructor of a class, if the name is known. It checks how deep its arguments are nested.
///
/// ```
/// use torch::library::object::{class, class_names};
/// let linear = class("torch.nn.Linear").expect("it is documented");
/// assert!(linear(&[3.into(), 1.into()], &[]).is_ok());
/// assert!(class_names().iter().any(|n| n == "torch.nn.Linear"));
/// ```
pub fn class(path: &str) -> Option<impl Fn(&[Value], &Kwargs) -> Result<ObjectRef> + Copy + use<>> {
    let make = constructor(path)?;
    Some(move |args: &[Value], kwargs: &Kwargs| {
        entering(args, kwargs)?;
        make(args, kwargs)
    })
}
fn constructor(path: &str) -> Option<Constructor> {
    registry::init();
    let by_hand =
        CLASSES.read().unwrap_or_else(|e| e.into_inner()).as_ref().and_then(|m| m.get(path).copied());
    by_hand.or_else(|| crate::class::find(path).map(|c| c.make))
}

/// Names of all classes, sorted.
pub fn class_names() -> Vec<String> {
    registry::init();
    let all = CLASSES.read().unwrap_or_else(|e| e.into_inner());
    let mut v: Vec<String> = all.iter().flat_map(|m| m.keys().cloned()).collect();
    v.extend(crate::class::classes().iter().map(|c| c.path.to_string()));
    v.sort();
    v.dedup();
    v
}

/// Constructs an object of the class with that documented name.
///
/// # Errors
/// `Missing` for an unknown name, and those of the constructor.
pub fn construct(path: &str, args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    match class(path) {
        Some(make) => make(args, kwargs),
        None => Err(Error::missing(format!("no class named '{path}'"))),
    }
}
