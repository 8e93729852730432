//! Nested values as lists of leaves and a description: Python's `torch.utils._pytree`.

use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::NamedTuple;
use flambeau_core::types::deep::LEVELS;
use flambeau_core::{Error, Result, Value};
use std::any::Any;

/// What holds the leaves.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nothing: this is a leaf.
    Leaf,
    /// A list.
    List,
    /// A tuple.
    Tuple,
    /// A dictionary with these keys.
    Dict(Vec<String>),
    /// A tuple of a class with these fields.
    Named(String, Vec<String>),
    /// A record: an `OrderedDict`, a `defaultdict`, or a class with fields. Python's name of it, and the keys; of a class, those
    /// too of the fields that are `None`, which are no leaves.
    Record(String, Vec<String>, Box<[String]>),
}
/// How leaves stand in a value.
///
/// ```
/// use torch::fx::pytree::{Kind, TreeSpec};
/// use torch::library::Value;
/// let mut leaves = Vec::new();
/// let pair = Value::Tuple(vec![1.into(), Value::List(vec![2.into()])]);
/// let spec: TreeSpec = TreeSpec::flatten(&pair, &mut leaves);
/// assert_eq!((spec.kind.clone(), spec.leaves()), (Kind::Tuple, 2));
/// assert!(matches!(&spec.unflatten(&leaves)?, Value::Tuple(items) if items.len() == 2));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TreeSpec {
    /// What holds them.
    pub kind: Kind,
    /// What each of its items is.
    pub children: Vec<TreeSpec>,
}
/// A value with named parts and a class: an `OrderedDict`, a `defaultdict`, or an object of a data class.
///
/// ```
/// use torch::fx::pytree::{Record, leaves};
/// use torch::library::Value;
/// let point = Record::value("Point", vec![("x".into(), 1.into()), ("y".into(), Value::None)]);
/// assert_eq!(leaves(&point).len(), 1);
/// ```
pub struct Record {
    /// Python's name of the class.
    pub class: String,
    /// The parts, in order.
    pub fields: Vec<(String, Value)>,
}
impl Record {
    /// As a value.
    pub fn value(class: &str, fields: Vec<(String, Value)>) -> Value {
        Value::Object(ObjectRef::new(Record { class: class.to_string(), fields }))
    }
    /// Whether it is an object of a data class, not one of Python's dictionaries.
    pub fn is_data_class(class: &str) -> bool {
        !class.starts_with("collections.")
    }
    /// Names of the fields that are leaves or hold some, and of those that are `None`: of a dictionary all are of the first kind.
    pub fn parts(&self) -> (Vec<String>, Vec<String>) {
        let drops = Record::is_data_class(&self.class);
        let names = |none: bool| {
            let of = self.fields.iter().filter(|(_, v)| (drops && matches!(v, Value::None)) == none);
            of.map(|(k, _)| k.clone()).collect()
        };
        (names(false), names(true))
    }
}
impl Object for Record {
    fn type_name(&self) -> &'static str {
        match self.class.as_str() {
            "collections.OrderedDict" => "OrderedDict",
            "collections.defaultdict" => "defaultdict",
            _ => "object",
        }
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let found = self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        found.ok_or_else(|| no_attribute(self.type_name(), name))
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("__getitem__", [Value::Str(k)]) => self.attribute(k).map(|v| vec![v]),
            _ => Err(no_attribute(self.type_name(), name)),
        }
    }
    fn repr(&self) -> String {
        let items: Vec<String> = self
            .fields
            .iter()
            .map(|(k, v)| format!("{k}={}", flambeau_library::repr(v).unwrap_or_default()))
            .collect();
        format!("{}({})", self.class.rsplit('.').next().unwrap_or(&self.class), items.join(", "))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// The field names that a tuple can have, which live as long as the program: a handful of classes.
fn field_names(names: &[String]) -> Vec<&'static str> {
    use flambeau_core::types::order::Mutex;
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    names
        .iter()
        .map(|n| match known.iter().find(|k| *k == n) {
            Some(k) => *k,
            None => {
                let new: &'static str = Box::leak(n.clone().into_boxed_str());
                known.push(new);
                new
            }
        })
        .collect()
}

impl TreeSpec {
    /// A leaf.
    pub const LEAF: TreeSpec = TreeSpec { kind: Kind::Leaf, children: Vec::new() };

    /// The description of a value, whose leaves are added to the list. What stands more than 100 levels deep is a leaf; [`check`]
    /// refuses such values.
    pub fn flatten(v: &Value, leaves: &mut Vec<Value>) -> TreeSpec {
        TreeSpec::flatten_at(v, leaves, 1)
    }
    fn flatten_at(v: &Value, leaves: &mut Vec<Value>, level: usize) -> TreeSpec {
        if level > LEVELS {
            leaves.push(v.clone());
            return TreeSpec::LEAF;
        }
        let inner = level + 1;
        let mut all = |l: &[Value]| l.iter().map(|v| TreeSpec::flatten_at(v, leaves, inner)).collect();
        let (kind, children) = match v {
            Value::List(l) => (Kind::List, all(l)),
            Value::Tuple(l) => (Kind::Tuple, all(l)),
            Value::Named(t) if t.fields.is_empty() => (Kind::Tuple, all(&t.items)),
            Value::Named(t) => {
                let fields = t.fields.iter().map(|f| f.to_string()).collect();
                (Kind::Named(t.class.clone(), fields), all(&t.items))
            }
            Value::Dict(d) => {
                let keys = d.iter().map(|(k, _)| k.clone()).collect();
                (Kind::Dict(keys), d.iter().map(|(_, v)| TreeSpec::flatten_at(v, leaves, inner)).collect())
            }
            Value::Object(o) => match o.downcast::<Record>() {
                Some(r) => {
                    let (keys, none) = r.parts();
                    let there = r.fields.iter().filter(|(k, _)| !none.contains(k));
                    let children = there.map(|(_, v)| TreeSpec::flatten_at(v, leaves, inner)).collect();
                    (Kind::Record(r.class.clone(), keys, none.into()), children)
                }
                None => {
                    leaves.push(v.clone());
                    return TreeSpec::LEAF;
                }
            },
            v => {
                leaves.push(v.clone());
                return TreeSpec::LEAF;
            }
        };
        TreeSpec { kind, children }
    }
    /// How many leaves there are.
    pub fn leaves(&self) -> usize {
        match self.kind {
            Kind::Leaf => 1,
            _ => self.children.iter().map(TreeSpec::leaves).sum(),
        }
    }
    /// The value with these leaves.
    ///
    /// # Errors
    /// Another number of leaves.
    pub fn unflatten(&self, leaves: &[Value]) -> Result<Value> {
        if leaves.len() != self.leaves() {
            return Err(Error::value(format!(
                "tree_unflatten(leaves, treespec): `leaves` has length {} but the spec refers to a pytree that holds {} items",
                leaves.len(),
                self.leaves()
            )));
        }
        let mut it = leaves.iter().cloned();
        Ok(self.build(&mut it))
    }
    fn build(&self, leaves: &mut dyn Iterator<Item = Value>) -> Value {
        if self.kind == Kind::Leaf {
            return leaves.next().unwrap_or(Value::None);
        }
        let items: Vec<Value> = self.children.iter().map(|c| c.build(leaves)).collect();
        match &self.kind {
            Kind::Leaf => Value::None,
            Kind::List => Value::List(items),
            Kind::Tuple => Value::Tuple(items),
            Kind::Dict(keys) => Value::Dict(keys.iter().cloned().zip(items).collect()),
            Kind::Named(class, fields) => {
                Value::Named(NamedTuple { class: class.clone(), fields: field_names(fields), items })
            }
            Kind::Record(class, keys, none) => {
                let none = none.iter().map(|k| (k.clone(), Value::None));
                Record::value(class, keys.iter().cloned().zip(items).chain(none).collect())
            }
        }
    }
    /// Python's `repr`.
    pub fn repr(&self) -> String {
        self.repr_at(0)
    }
    fn repr_at(&self, indent: usize) -> String {
        let keys = |l: &[String]| {
            let all: Vec<String> = l.iter().map(|k| format!("'{k}'")).collect();
            format!("[{}]", all.join(", "))
        };
        let (class, context) = match &self.kind {
            Kind::Leaf => return "*".into(),
            Kind::List => ("list", "None".to_string()),
            Kind::Tuple => ("tuple", "None".to_string()),
            Kind::Dict(k) => ("dict", keys(k)),
            Kind::Named(c, _) => ("namedtuple", c.rsplit('.').next().unwrap_or(c).to_string()),
            Kind::Record(c, k, none) if Record::is_data_class(c) => {
                (c.rsplit('.').next().unwrap_or(c), format!("[{}, {}]", keys(k), keys(none)))
            }
            Kind::Record(c, k, _) => (c.rsplit('.').next().unwrap_or(c), keys(k)),
        };
        let pad = " ".repeat(indent + 2);
        let children: Vec<String> = self.children.iter().map(|c| c.repr_at(indent + 2)).collect();
        format!("TreeSpec({class}, {context}, [{}])", children.join(&format!(",\n{pad}")))
    }
}
/// Refuses values that are nested too deeply to be taken apart, records in records among them. It stands where values enter.
///
/// ```
/// use torch::fx::pytree::check;
/// use torch::library::Value;
/// let deep = (0..200).fold(Value::None, |v, _| Value::List(vec![v]));
/// assert!(check([&deep]).is_err() && check([&Value::Int(1)]).is_ok());
/// ```
///
/// # Errors
/// More than 100 levels.
pub fn check<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    fn within(v: &Value, level: usize) -> Result<()> {
        if level > LEVELS {
            return Err(Error::runtime(format!(
                "maximum recursion depth exceeded: a value is nested more than {LEVELS} levels deep"
            )));
        }
        let all = |mut l: &mut dyn Iterator<Item = &Value>| (&mut l).try_for_each(|v| within(v, level + 1));
        match v {
            Value::List(l) | Value::Tuple(l) => all(&mut l.iter()),
            Value::Named(t) => all(&mut t.items.iter()),
            Value::Dict(d) => all(&mut d.iter().map(|(_, v)| v)),
            Value::Object(o) => match o.downcast::<Record>() {
                Some(r) => all(&mut r.fields.iter().map(|(_, v)| v)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
    values.into_iter().try_for_each(|v| within(v, 1))
}
/// All leaves of a value.
pub fn leaves(v: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    TreeSpec::flatten(v, &mut all);
    all
}
/// The same tree with other leaves.
///
/// ```
/// use torch::fx::pytree::map;
/// use torch::library::Value;
/// let both = Value::Tuple(vec![1.into(), 2.into()]);
/// let negative = map(&both, &mut |v| match v {
///     Value::Int(n) => Ok(Value::Int(-n)),
///     other => Ok(other.clone()),
/// })?;
/// assert!(matches!(&negative, Value::Tuple(l) if matches!(l[1], Value::Int(-2))));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the function.
pub fn map(v: &Value, f: &mut dyn FnMut(&Value) -> Result<Value>) -> Result<Value> {
    let mut all = Vec::new();
    let spec = TreeSpec::flatten(v, &mut all);
    let new = all.iter().map(f).collect::<Result<Vec<_>>>()?;
    spec.unflatten(&new)
}
