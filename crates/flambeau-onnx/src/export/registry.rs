//! Translations of users' own.

use crate::build::{Arg, Builder, Call};
use flambeau_core::Result;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

type Own = Arc<dyn Fn(&mut Builder, &Call) -> Result<Arg> + Send + Sync>;

/// Translations of operators to ONNX that come before the exporter's own: for operators of a program's, and for other nodes than
/// the exporter would write.
///
/// ```
/// use torch::onnx::{Arg, Builder, Call, Registry, Var};
///
/// let table = Registry::new().register("mine.twice", |b: &mut Builder, call: &Call| {
///     let x: Var = call.tensor(0, "x")?;
///     Ok(Arg::Var(b.mul_number(&x, 2.0)?))
/// });
/// assert!(table.has("mine.twice.default"));
/// ```
#[doc(alias = "torch.onnx.note:adding-operators")]
#[derive(Clone, Default)]
pub struct Registry {
    own: HashMap<String, Own>,
}
impl Registry {
    /// A table without entries.
    pub fn new() -> Registry {
        Registry::default()
    }
    /// Adds a translation of an operator: of one overload, `mine.twice.default`, or of all, `mine.twice`; `mine::twice` is the same.
    pub fn register(
        mut self,
        name: &str,
        translation: impl Fn(&mut Builder, &Call) -> Result<Arg> + Send + Sync + 'static,
    ) -> Registry {
        let name = name.trim_start_matches("torch.ops.").replace("::", ".");
        self.own.insert(name, Arc::new(translation));
        self
    }
    /// Whether there is a translation of a user's for the operator.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
    pub(super) fn find(&self, name: &str) -> Option<Own> {
        let base = || name.rsplit_once('.').and_then(|(base, _)| self.own.get(base));
        self.own.get(name).or_else(base).cloned()
    }
}
impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&String> = self.own.keys().collect();
        names.sort();
        f.debug_tuple("Registry").field(&names).finish()
    }
}
/// The operators that the exporter translates, by their names without overloads, sorted.
///
/// ```
/// assert!(torch::onnx::supported_operators().contains(&"aten.relu"));
/// ```
pub fn supported_operators() -> Vec<&'static str> {
    crate::ops::names()
}
