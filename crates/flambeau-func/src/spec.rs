//! Trees of values: tuples, lists and dictionaries with tensors at the leaves, as PyTorch's `pytree` sees them.

use flambeau_core::dispatch::value::{NamedTuple, Value};
use flambeau_core::{Error, Result, Tensor};

/// The structure of a value without its leaves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    Leaf,
    Tuple(Vec<Spec>),
    List(Vec<Spec>),
    Dict(Vec<String>, Vec<Spec>),
    Named(String, Vec<&'static str>, Vec<Spec>),
}
impl Spec {
    pub fn children(&self) -> &[Spec] {
        match self {
            Spec::Leaf => &[],
            Spec::Tuple(l) | Spec::List(l) | Spec::Dict(_, l) | Spec::Named(_, _, l) => l,
        }
    }
    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        if *self == Spec::Leaf { 1 } else { self.children().iter().map(Spec::leaves).sum() }
    }
    /// As PyTorch prints it.
    pub fn text(&self) -> String {
        self.indented(0)
    }
    fn indented(&self, by: usize) -> String {
        let (name, context) = match self {
            Spec::Leaf => return "*".into(),
            Spec::Tuple(_) => ("tuple", "None".to_string()),
            Spec::List(_) => ("list", "None".to_string()),
            Spec::Dict(keys, _) => {
                let keys: Vec<String> = keys.iter().map(|k| format!("'{k}'")).collect();
                ("dict", format!("[{}]", keys.join(", ")))
            }
            Spec::Named(class, _, _) => ("namedtuple", class.clone()),
        };
        let by = by + 2;
        let all: Vec<String> = self.children().iter().map(|c| c.indented(by)).collect();
        format!("TreeSpec({name}, {context}, [{}])", all.join(&format!(",\n{}", " ".repeat(by))))
    }
    /// As Python prints the structure with a star for each leaf.
    pub fn stars(&self) -> String {
        let all: Vec<String> = self.children().iter().map(Spec::stars).collect();
        match self {
            Spec::Leaf => "*".into(),
            Spec::Tuple(_) if all.len() == 1 => format!("({},)", all[0]),
            Spec::Tuple(_) | Spec::Named(..) => format!("({})", all.join(", ")),
            Spec::List(_) => format!("[{}]", all.join(", ")),
            Spec::Dict(keys, _) => {
                let all: Vec<String> = keys.iter().zip(all).map(|(k, v)| format!("'{k}': {v}")).collect();
                format!("{{{}}}", all.join(", "))
            }
        }
    }
    /// A value of this structure.
    pub fn build(&self, leaves: &mut dyn Iterator<Item = Value>) -> Value {
        let mut each = |l: &[Spec]| l.iter().map(|s| s.build(leaves)).collect::<Vec<_>>();
        match self {
            Spec::Leaf => leaves.next().unwrap_or(Value::None),
            Spec::Tuple(l) => Value::Tuple(each(l)),
            Spec::List(l) => Value::List(each(l)),
            Spec::Dict(keys, l) => Value::Dict(keys.iter().cloned().zip(each(l)).collect()),
            Spec::Named(class, fields, l) => {
                Value::Named(NamedTuple { class: class.clone(), fields: fields.clone(), items: each(l) })
            }
        }
    }
}

/// Structure and leaves.
pub(crate) fn flatten(v: &Value) -> (Spec, Vec<Value>) {
    let mut leaves = Vec::new();
    let spec = walk(v, &mut leaves);
    (spec, leaves)
}
fn walk(v: &Value, leaves: &mut Vec<Value>) -> Spec {
    let mut each = |l: &[Value]| l.iter().map(|v| walk(v, leaves)).collect::<Vec<_>>();
    match v {
        Value::Tuple(l) => Spec::Tuple(each(l)),
        Value::List(l) => Spec::List(each(l)),
        Value::Named(t) if t.class != "torch.Size" => {
            Spec::Named(t.class.clone(), t.fields.clone(), each(&t.items))
        }
        Value::Named(t) => Spec::Tuple(each(&t.items)),
        Value::Dict(d) => {
            let all = d.iter().map(|(_, v)| walk(v, leaves)).collect();
            Spec::Dict(d.iter().map(|(k, _)| k.clone()).collect(), all)
        }
        leaf => {
            leaves.push(leaf.clone());
            Spec::Leaf
        }
    }
}
/// The value with `f` of each tensor in it.
pub(crate) fn map_tensors(v: &Value, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Value> {
    let (spec, mut leaves) = flatten(v);
    for v in &mut leaves {
        if let Value::Tensor(t) = v {
            *v = Value::Tensor(f(t)?);
        }
    }
    Ok(spec.build(&mut leaves.into_iter()))
}
/// What a tree of dimensions says of each leaf of another tree: one for all leaves below it. `None` where they do not fit.
pub(crate) fn broadcast(prefix: &Value, spec: &Spec) -> Option<Vec<Value>> {
    let parts: &[Value] = match (prefix, spec) {
        (Value::Tuple(l), Spec::Tuple(_)) | (Value::List(l), Spec::List(_)) => l,
        (Value::Named(t), Spec::Tuple(_)) => &t.items,
        (Value::Dict(d), Spec::Dict(keys, children)) => {
            if d.len() != keys.len() {
                return None;
            }
            let mut all = Vec::new();
            for (k, s) in keys.iter().zip(children) {
                all.extend(broadcast(&d.iter().find(|(n, _)| n == k)?.1, s)?);
            }
            return Some(all);
        }
        (Value::Tuple(_) | Value::List(_) | Value::Dict(_) | Value::Named(_), _) => return None,
        (leaf, spec) => return Some(vec![leaf.clone(); spec.leaves()]),
    };
    let children = spec.children();
    if parts.len() != children.len() {
        return None;
    }
    let mut all = Vec::new();
    for (p, s) in parts.iter().zip(children) {
        all.extend(broadcast(p, s)?);
    }
    Some(all)
}
/// The tensors of leaves that must all be such; else the type that is none.
pub(crate) fn tensors(leaves: &[Value]) -> Result<Vec<Tensor>, &'static str> {
    leaves
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => Ok(t.clone()),
            v => Err(v.type_name()),
        })
        .collect()
}
/// A value as Python prints it, in error texts.
pub(crate) fn python(v: &Value) -> String {
    let each = |l: &[Value]| l.iter().map(python).collect::<Vec<_>>();
    match v {
        Value::None => "None".into(),
        Value::Bool(b) => if *b { "True" } else { "False" }.into(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::Str(s) => s.clone(),
        Value::List(l) => format!("[{}]", each(l).join(", ")),
        Value::Tuple(l) if l.len() == 1 => format!("({},)", python(&l[0])),
        Value::Tuple(l) => format!("({})", each(l).join(", ")),
        Value::Dict(d) => {
            let all: Vec<String> = d.iter().map(|(k, v)| format!("'{k}': {}", python(v))).collect();
            format!("{{{}}}", all.join(", "))
        }
        v => format!("<{}>", v.type_name()),
    }
}
/// Of a leaf that should be a tensor.
pub(crate) fn no_tensor(what: &str, name: &str) -> Error {
    Error::runtime(format!("{what}, got unsupported type <class '{name}'>"))
}
