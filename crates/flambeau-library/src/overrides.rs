//! Names of what modes see (`torch.overrides`).

/// The operators that modes see under a documented name.
///
/// ```
/// let names = torch::overrides::overridable_functions();
/// assert!(names.iter().any(|n| n == "torch.add"));
/// ```
#[doc(alias = "torch.overrides.get_overridable_functions")]
pub fn overridable_functions() -> Vec<String> {
    crate::names()
}
/// The documented name of the operator behind a name: `torch.add` of `aten::add.Tensor`.
///
/// ```
/// assert_eq!(torch::overrides::resolve_name("aten::exp").as_deref(), Some("torch.exp"));
/// ```
#[doc(alias = "torch.overrides.resolve_name")]
pub fn resolve_name(name: &str) -> Option<String> {
    let f = crate::lookup(name)?;
    let op = *f.operators().first()?;
    Some(op.info().python.first().map_or_else(|| op.info().name.to_string(), |p| p.to_string()))
}
