//! Documented names of classes, functions and methods: which of them are the same thing.
//!
//! A Rust program that is captured says which operator it calls and not how: `x.relu()`, `torch::relu(&x)` and
//! `nn::functional::relu(&x)` are one call. So a function and a method of one name count as the same.

/// What a documented name stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ObjectType {
    /// A class, by its documented path.
    Class(String),
    /// A function or a method, by its name alone.
    Call(String),
}
impl ObjectType {
    /// Of a documented name, or of the name by which Python prints a class or a function.
    pub(crate) fn of(name: &str) -> ObjectType {
        let last = name.rsplit('.').next().unwrap_or(name);
        if last.starts_with(|c: char| c.is_ascii_uppercase()) {
            // classes stand in modules that users do not name: `torch.nn.modules.linear.Linear`
            let place = match name.find(".modules.") {
                Some(i) => &name[..i],
                None => name.strip_suffix(last).and_then(|p| p.strip_suffix('.')).unwrap_or("torch.nn"),
            };
            let place = match place.strip_prefix("torch.nn.") {
                Some(rest)
                    if rest.starts_with("intrinsic")
                        || rest.starts_with("qat")
                        || rest.starts_with("quantiz") =>
                {
                    format!("torch.ao.nn.{rest}")
                }
                _ => place.to_string(),
            };
            return ObjectType::Class(format!("{place}.{last}"));
        }
        const PLACES: &[&str] = &[
            "torch.nn.functional.",
            "torch._C._nn.",
            "torch.functional.",
            "torch.Tensor.",
            "Tensor.",
            "_operator.",
            "operator.",
        ];
        let short = PLACES.iter().find_map(|p| name.strip_prefix(p));
        let short = short.or_else(|| name.strip_prefix("torch.").filter(|rest| !rest.contains('.')));
        ObjectType::Call(short.unwrap_or(name).to_string())
    }
    /// The name of a function or a method.
    #[cfg(feature = "graphs")]
    pub(crate) fn call(&self) -> Option<&str> {
        match self {
            ObjectType::Call(n) => Some(n),
            ObjectType::Class(_) => None,
        }
    }
}
/// Whether two documented names are of the same thing.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a == b || ObjectType::of(a) == ObjectType::of(b)
}
