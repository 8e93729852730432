//! Why a program cannot be exported, in PyTorch's words.

use flambeau_core::Error;

const NOTE: &str = "\n\nThe error above occurred when calling torch.export.export. If you would like to view some more information about \
this error, and get a list of all other errors that may occur in your export call, you can replace your `export()` call with \
`draft_export()`.";

/// An error of who calls.
pub(crate) fn user(text: String) -> Error {
    Error::value(format!("{text}{NOTE}"))
}
/// A value of one run that decides what the program does.
fn of_data(what: &str, expression: &str) -> Error {
    Error::runtime(format!(
        "Could not {what} data-dependent expression {expression} (unhinted: {expression}).  (Size-like symbols: none)\n\nThe value is \
         that of one run: what the program does cannot depend on it. torch::cond and torch::where_ decide where the program \
         runs.{NOTE}"
    ))
}
/// A condition on data, which one run cannot decide for all.
pub(crate) fn data_dependent(condition: &str) -> Error {
    of_data("guard on", condition)
}
/// A number of data that the program's length, or something else that is not an argument, depends on.
pub(crate) fn integer_needed(expression: &str) -> Error {
    of_data("extract specialized integer from", expression)
}
/// A dynamic size that the program does not hold for.
pub(crate) enum Violation {
    /// It holds for one size alone.
    Constant { dim: String, value: i64 },
    /// Two sizes must be equal: dim and source of each.
    NotEqual { a: (String, String), b: (String, String) },
    /// Only multiples.
    Multiple { dim: String, source: String, step: i64, at: i64 },
    /// Up to a size.
    AtMost { dim: String, source: String, max: Option<i64>, most: i64 },
}
pub(crate) fn constraints(all: &[Violation]) -> Error {
    let (mut dims, mut lines, mut fixes) = (Vec::new(), Vec::new(), Vec::new());
    for v in all {
        match v {
            Violation::Constant { dim, value } => {
                dims.push(dim.clone());
                lines.push(format!(
                    "You marked {dim} as dynamic but your code specialized it to be a constant ({value}). If you're using \
                     mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either \
                     Dim.STATIC or Dim.AUTO."
                ));
                fixes.push(format!("{dim} = {value}"));
            }
            Violation::NotEqual { a, b } => {
                dims.push(a.0.clone());
                lines.push(format!(
                    "The values of {} = {} and {} = {} must always be equal.",
                    a.0, a.1, b.0, b.1
                ));
                fixes.push(format!("{} = {}", a.0, b.0));
            }
            Violation::Multiple { dim, source, step, at } => {
                dims.push(dim.clone());
                lines.push(format!(
                    "Not all values of {dim} = {source} in the specified range satisfy the generated guard ({source} % {step}) == 0."
                ));
                if at / step > 1 {
                    lines.push(format!(
                        "Not all values of {dim} = {source} in the specified range satisfy the generated guard ({source} // \
                         {step}) != 1."
                    ));
                }
                fixes.push(format!("_{dim} = Dim('_{dim}', min=1, max=oo)"));
                fixes.push(format!("{dim} = {step}*_{dim}"));
            }
            Violation::AtMost { dim, source, max, most } => {
                dims.push(dim.clone());
                let bound = max.map(|m| format!(" {dim} <= {m}")).unwrap_or_default();
                lines.push(format!(
                    "Not all values of {dim} = {source} in the specified range{bound} satisfy the generated guard 2 <= {source} and \
                     {source} <= {most}"
                ));
                fixes.push(format!("{dim} = Dim('{dim}', max={most})"));
            }
        }
    }
    let lines: Vec<String> = lines.iter().map(|l| format!("  - {l}")).collect();
    let fixes: Vec<String> = fixes.iter().map(|l| format!("  {l}")).collect();
    user(format!(
        "Constraints violated ({})! For more information, run with TORCH_LOGS=\"+dynamic\".\n{}\nSuggested fixes:\n{}",
        dims.join(", "),
        lines.join("\n"),
        fixes.join("\n")
    ))
}
