//! Which operators are decomposed.

use super::rules;
use std::collections::BTreeSet;

/// The operators that [`run_decompositions`](crate::ExportedProgram::run_decompositions) decomposes, by name: all that have a
/// rule, but for those that were taken away.
///
/// PyTorch's table maps operators to functions; the functions here are PyTorch's own, so a table says which of them are used.
///
/// ```
/// use torch::export::{CustomDecompTable, default_decompositions};
///
/// let mut table = default_decompositions();
/// assert!(table.contains("aten.linear.default") && !table.contains("aten.addmm.default"));
/// assert!(table.remove("aten.linear.default") && !table.contains("aten.linear.default"));
/// // nothing is decomposed: writes in place still become new values
/// assert!(!CustomDecompTable::empty().contains("aten.softmax.int"));
/// ```
#[doc(alias = "torch.export.decomp_utils.CustomDecompTable")]
#[derive(Clone, Debug, Default)]
pub struct CustomDecompTable {
    none: bool,
    kept: BTreeSet<String>,
}
/// The table of PyTorch's core set.
#[doc(alias = "torch.export.exported_program.default_decompositions")]
pub fn default_decompositions() -> CustomDecompTable {
    CustomDecompTable::default()
}
impl CustomDecompTable {
    /// The table without any operator.
    pub fn empty() -> CustomDecompTable {
        CustomDecompTable { none: true, kept: BTreeSet::new() }
    }
    /// Keeps an operator (`aten.linear.default`) as it is; says whether it was decomposed before.
    pub fn remove(&mut self, operator: &str) -> bool {
        let was = self.contains(operator);
        self.kept.insert(operator.to_string());
        was
    }
    /// Whether an operator is decomposed.
    pub fn contains(&self, operator: &str) -> bool {
        let name = operator.strip_prefix("aten.").unwrap_or(operator);
        !self.none && !self.kept.contains(operator) && rules::NAMES.contains(&name)
    }
    /// The names of all operators in the table.
    #[doc(alias = "torch.export.decomp_utils.CustomDecompTable.materialize")]
    pub fn materialize(&self) -> Vec<String> {
        rules::NAMES.iter().map(|n| format!("aten.{n}")).filter(|n| self.contains(n)).collect()
    }
}
