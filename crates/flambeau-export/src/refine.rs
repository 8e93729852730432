//! Dims after the fixes that an error suggested, and captures that go on where a size cannot be dynamic.

use crate::capture::{self, ExportOptions};
use crate::dims::{Dim, DynamicShapes};
use crate::program::ExportedProgram;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_nn::Module;
use std::collections::HashMap;

/// Dims as an error of an export suggests them: the lines below "Suggested fixes:" (`n = 4`, `b = a`, `n = Dim('n', max=10)`,
/// `n = 4*_n`).
///
/// ```
/// use torch::export::{Dim, DynamicShapes, refine_dynamic_shapes_from_suggested_fixes as refine};
///
/// let shapes = DynamicShapes::new().with("x", [(0, Dim::new("n"))]);
/// let text = "Constraints violated (n)!\nSuggested fixes:\n  _n = Dim('_n', min=1, max=oo)\n  n = 4*_n\n";
/// let refined = refine(text, &shapes).unwrap();
/// assert_eq!(refined, DynamicShapes::new().with("x", [(0, 4 * Dim::new("_n").min(1))]));
/// ```
///
/// # Errors
/// A text without suggestions, or with one of another form.
#[doc(alias = "torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes")]
pub fn refine_dynamic_shapes_from_suggested_fixes(
    text: &str,
    shapes: &DynamicShapes,
) -> Result<DynamicShapes> {
    let Some((_, fixes)) = text.split_once("Suggested fixes:") else {
        return Err(Error::value("Suggested fixes not found in the error's text"));
    };
    let mut new: HashMap<String, Dim> = HashMap::new();
    let known = |new: &HashMap<String, Dim>, name: &str| -> Option<Dim> {
        let of_shapes = || {
            shapes.of.iter().flat_map(|(_, d)| d).map(|(_, d)| d).find_map(|d| match d {
                Dim::Named(n) if n.name == name => Some(d.clone()),
                Dim::Derived { root, .. } if root.name == name => Some(Dim::Named(root.clone())),
                _ => None,
            })
        };
        new.get(name).cloned().or_else(of_shapes)
    };
    for line in fixes.lines().map(str::trim).skip_while(|l| l.is_empty()).take_while(|l| !l.is_empty()) {
        let wrong = || Error::value(format!("the fix '{line}' is of a form that is not known"));
        let (name, value) = line.split_once(" = ").ok_or_else(wrong)?;
        let dim = if value.parse::<i64>().is_ok() {
            Dim::Static
        } else if let Some(inner) = value.strip_prefix("Dim('").and_then(|v| v.strip_suffix(')')) {
            let (own, bounds) = inner.split_once('\'').ok_or_else(wrong)?;
            let mut d = Dim::new(own);
            for b in bounds.split(',').map(str::trim).filter(|b| !b.is_empty()) {
                let (key, n) = b.split_once('=').ok_or_else(wrong)?;
                d = match (key, n.parse::<i64>()) {
                    ("min", Ok(n)) => d.min(n),
                    ("max", Ok(n)) => d.max(n),
                    ("max", Err(_)) if matches!(n, "oo" | "int_oo") => d,
                    _ => return Err(wrong()),
                };
            }
            d
        } else {
            // FACTOR*ROOT + OFFSET
            let (product, offset) = match value.split_once(" + ") {
                Some((p, n)) => (p, n.parse::<i64>().map_err(|_| wrong())?),
                None => match value.split_once(" - ") {
                    Some((p, n)) => (p, -n.parse::<i64>().map_err(|_| wrong())?),
                    None => (value, 0),
                },
            };
            let (factor, root) = match product.split_once('*') {
                Some((f, r)) => (f.parse::<i64>().map_err(|_| wrong())?, r),
                None => (1, product),
            };
            let root = known(&new, root).ok_or_else(wrong)?;
            if (factor, offset) == (1, 0) { root } else { root * factor + offset }
        };
        new.insert(name.to_string(), dim);
    }
    let mut out = shapes.clone();
    for (_, d) in out.of.iter_mut().flat_map(|(_, dims)| dims) {
        *d = match &*d {
            Dim::Named(n) => new.get(&n.name).cloned().unwrap_or_else(|| d.clone()),
            Dim::Derived { root, factor, offset } => match new.get(&root.name) {
                Some(r) => r.clone() * *factor + *offset,
                None => d.clone(),
            },
            hint => hint.clone(),
        };
    }
    Ok(out)
}

/// What a draft found.
#[derive(Clone, Debug, Default)]
pub struct DraftReport {
    /// Why sizes are not dynamic, one text for each refusal of [`export`](fn@crate::export).
    pub failures: Vec<String>,
}
impl DraftReport {
    /// Whether the program is what was asked for.
    pub fn successful(&self) -> bool {
        self.failures.is_empty()
    }
}
/// As [`try_export_with`](crate::try_export_with), but that a size which the program does not hold for becomes what the suggested fix
/// says, or the size of the example, instead of an error; the report says which.
///
/// ```
/// use torch::export::{self, Dim, DraftReport, ExportOptions};
/// use torch::{Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let w = torch::ones([4, 1]);
/// let options = ExportOptions::new().dynamic("x", [(0, Dim::new("n"))]);
/// let (program, report): (_, DraftReport) =
///     export::draft_export(&net, |x: &[Tensor]| Ok(net.try_call(&x[0])? + &w), &[&torch::zeros([4, 2])], options)?;
/// assert!(!report.successful() && report.failures[0].contains("n = 4"));
/// assert!(program.range_constraints.is_empty());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the program, and refusals that have no fix.
#[doc(alias = "torch.export.draft_export")]
pub fn draft_export<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
    mut options: ExportOptions,
) -> Result<(ExportedProgram, DraftReport)> {
    let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
    let run = |args: &[Value], _: &Kwargs| -> Result<Value> {
        let tensors = args.iter().map(|v| match v {
            Value::Tensor(t) => Ok(t.clone()),
            v => Err(Error::type_(format!("a tensor was expected, not {}", v.type_name()))),
        });
        Ok(forward(&tensors.collect::<Result<Vec<_>>>()?)?.into())
    };
    let mut report = DraftReport::default();
    loop {
        let e = match capture::export(Some(module), &run, &args, &options) {
            Ok(p) => return Ok((p, report)),
            Err(e) => e,
        };
        let shapes = match refine_dynamic_shapes_from_suggested_fixes(e.message(), &options.dynamic) {
            Ok(new) if new != options.dynamic => new,
            _ => return Err(e),
        };
        report.failures.push(e.message().to_string());
        options.dynamic = shapes;
    }
}
