//! What an export reports (`torch.onnx`'s diagnostics): rules, diagnostics of them, and logs in SARIF, the format that editors
//! and code hosts show.

mod sarif;

use crate::build::Fault;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to say.
    None,
    /// To know.
    Note,
    /// Results may differ.
    Warning,
    /// There is no result.
    Error,
}
impl Level {
    /// SARIF's name.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// Something that may be wrong with an export.
///
/// ```
/// use torch::onnx::diagnostics::{Rule, rules};
/// let Rule { id, name, .. } = rules::POE0001;
/// assert_eq!((id, name), ("POE0001", "node-missing-onnx-shape-inference"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its number: `POE0001`.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What is wrong.
    pub short_description: &'static str,
    /// What it means and what to do.
    pub full_description: &'static str,
}

/// The rules of the exporter.
pub mod rules {
    use super::Rule;
    use crate::build::Fault;

    /// Sizes of a node's result are not known.
    #[doc(alias = "torch.onnx.diagnostic:POE0001:node-missing-onnx-shape-inference")]
    pub const POE0001: Rule = Rule {
        id: "POE0001",
        name: "node-missing-onnx-shape-inference",
        short_description: "Node is missing ONNX shape inference.",
        full_description: "The program does not say the element type and sizes of the node's result, so that the model cannot either.",
    };
    /// A user's operator has no translation.
    #[doc(alias = "torch.onnx.diagnostic:POE0002:missing-custom-symbolic-function")]
    pub const POE0002: Rule = Rule {
        id: "POE0002",
        name: "missing-custom-symbolic-function",
        short_description: "Missing symbolic function for custom PyTorch operator, cannot translate node to ONNX.",
        full_description: "The operator is the program's own. Register a translation of it, and export with the table.",
    };
    /// One of PyTorch's operators has no translation.
    #[doc(alias = "torch.onnx.diagnostic:POE0003:missing-standard-symbolic-function")]
    pub const POE0003: Rule = Rule {
        id: "POE0003",
        name: "missing-standard-symbolic-function",
        short_description: "Missing symbolic function for standard PyTorch operator, cannot translate node to ONNX.",
        full_description: "The exporter does not translate this operator of PyTorch. Register a translation of it, and export with the table.",
    };
    /// A newer operator set has what is needed.
    #[doc(alias = "torch.onnx.diagnostic:POE0004:operator-supported-in-newer-opset-version")]
    pub const POE0004: Rule = Rule {
        id: "POE0004",
        name: "operator-supported-in-newer-opset-version",
        short_description: "Operator is supported in newer opset version.",
        full_description: "The operator set that was asked for lacks it. Export with a newer `opset_version`.",
    };
    /// All of them.
    pub const ALL: [Rule; 4] = [POE0001, POE0002, POE0003, POE0004];

    pub(crate) fn of(fault: Fault) -> Rule {
        match fault {
            Fault::NoShape => POE0001,
            Fault::NoCustom => POE0002,
            Fault::NoStandard => POE0003,
            Fault::NewerOpset => POE0004,
        }
    }
}
/// How bad a fault is.
pub(crate) fn level(fault: Fault) -> Level {
    match fault {
        Fault::NoShape => Level::Warning,
        _ => Level::Error,
    }
}

/// A frame of a stack.
///
/// ```
/// use torch::onnx::diagnostics::{ExportDiagnostic, Level, StackFrame, rules};
/// let mut d = ExportDiagnostic::new(rules::POE0003, Level::Error);
/// d.record_python_call_stack("  File \"net.py\", line 3, in forward\n    return foo(x)", 0);
/// let frame: &StackFrame = &d.stack()[0];
/// assert_eq!((frame.file.as_str(), frame.line), ("net.py", 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// The file.
    pub file: String,
    /// The line, counted from 1; 0 if it is not known.
    pub line: u32,
    /// The function, or the code in the line.
    pub message: String,
}

/// One thing that an export reports.
///
/// ```
/// use torch::onnx::diagnostics::{ExportDiagnostic, Level, rules};
///
/// let mut d = ExportDiagnostic::new(rules::POE0003, Level::Error).message("aten.foo.default");
/// d.record_python_call_stack("  File \"net.py\", line 3, in forward\n    return foo(x)", 0);
/// assert_eq!(d.stack()[0].line, 3);
/// ```
#[doc(alias = "torch.onnx._internal.diagnostics.ExportDiagnostic")]
#[derive(Clone, Debug)]
pub struct ExportDiagnostic {
    rule: Rule,
    level: Level,
    message: String,
    stack: Vec<StackFrame>,
}
impl ExportDiagnostic {
    /// A diagnostic of a rule.
    pub fn new(rule: Rule, level: Level) -> ExportDiagnostic {
        ExportDiagnostic { rule, level, message: rule.short_description.to_string(), stack: Vec::new() }
    }
    /// Says more than the rule does.
    pub fn message(mut self, text: impl Into<String>) -> ExportDiagnostic {
        self.message = text.into();
        self
    }
    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }
    /// How bad it is.
    pub fn level(&self) -> Level {
        self.level
    }
    /// What it says.
    pub fn text(&self) -> &str {
        &self.message
    }
    /// Where it comes from, the outermost frame first.
    pub fn stack(&self) -> &[StackFrame] {
        &self.stack
    }
    /// Records where a Python program made the node: the trace that exported programs keep, without its last frames.
    #[doc(alias = "torch.onnx._internal.diagnostics.ExportDiagnostic.record_python_call_stack")]
    pub fn record_python_call_stack(&mut self, trace: &str, frames_to_skip: usize) {
        let mut all: Vec<StackFrame> = Vec::new();
        for line in trace.lines() {
            let line = line.trim();
            match line.strip_prefix("File \"").and_then(|l| l.split_once("\", line ")) {
                Some((file, rest)) => {
                    let (number, within) = rest.split_once(',').unwrap_or((rest, ""));
                    all.push(StackFrame {
                        file: file.to_string(),
                        line: number.trim().parse().unwrap_or(0),
                        message: within.trim().trim_start_matches("in ").to_string(),
                    });
                }
                None if line.is_empty() => {}
                None => {
                    if let Some(last) = all.last_mut() {
                        last.message = line.to_string();
                    }
                }
            }
        }
        all.truncate(all.len().saturating_sub(frames_to_skip));
        self.stack.extend(all);
    }
    /// Records where the exporter itself is, without its innermost frames; needs `RUST_BACKTRACE`'s symbols to say much.
    #[doc(alias = "torch.onnx._internal.diagnostics.ExportDiagnostic.record_cpp_call_stack")]
    pub fn record_cpp_call_stack(&mut self, frames_to_skip: usize) {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        let mut all: Vec<StackFrame> = Vec::new();
        for line in trace.lines() {
            let line = line.trim();
            if let Some(place) = line.strip_prefix("at ") {
                let mut parts = place.rsplitn(3, ':');
                let _column = parts.next();
                let number = parts.next().and_then(|n| n.parse().ok()).unwrap_or(0);
                if let (Some(last), Some(file)) = (all.last_mut(), parts.next()) {
                    (last.file, last.line) = (file.to_string(), number);
                }
            } else if let Some((_, name)) = line.split_once(": ") {
                all.push(StackFrame { file: String::new(), line: 0, message: name.to_string() });
            }
        }
        self.stack.extend(all.into_iter().skip(frames_to_skip).rev());
    }
}

/// The diagnostics of one export.
///
/// ```
/// use torch::onnx::diagnostics::{DiagnosticContext, ExportDiagnostic, Level, rules};
/// let mut all = DiagnosticContext::new("mine", "1.0");
/// all.diagnose(ExportDiagnostic::new(rules::POE0001, Level::Warning));
/// assert!(all.sarif_log().contains("POE0001"));
/// ```
#[derive(Clone, Debug)]
pub struct DiagnosticContext {
    name: String,
    version: String,
    diagnostics: Vec<ExportDiagnostic>,
}
impl DiagnosticContext {
    /// Of a tool by its name and version.
    pub fn new(name: &str, version: &str) -> DiagnosticContext {
        DiagnosticContext { name: name.into(), version: version.into(), diagnostics: Vec::new() }
    }
    /// Adds a diagnostic.
    pub fn diagnose(&mut self, d: ExportDiagnostic) {
        self.diagnostics.push(d);
    }
    /// All of them.
    pub fn diagnostics(&self) -> &[ExportDiagnostic] {
        &self.diagnostics
    }
    /// The log in SARIF 2.1.0, as JSON.
    pub fn sarif_log(&self) -> String {
        sarif::log(std::slice::from_ref(self))
    }
}

/// Diagnostics of several exports.
///
/// ```
/// use torch::onnx::diagnostics::{DiagnosticEngine, ExportDiagnostic, Level, rules};
///
/// let mut engine = DiagnosticEngine::new();
/// let context = engine.create_diagnostic_context("torch.onnx.export", "1.0");
/// context.diagnose(ExportDiagnostic::new(rules::POE0002, Level::Error));
/// assert!(engine.sarif_log().contains("POE0002"));
/// engine.clear();
/// assert!(!engine.sarif_log().contains("POE0002"));
/// ```
#[doc(alias = "torch.onnx._internal.diagnostics.infra.DiagnosticEngine")]
#[derive(Clone, Debug, Default)]
pub struct DiagnosticEngine {
    contexts: Vec<DiagnosticContext>,
}
impl DiagnosticEngine {
    /// An engine without contexts.
    pub fn new() -> DiagnosticEngine {
        DiagnosticEngine::default()
    }
    /// Begins the diagnostics of an export.
    #[doc(alias = "torch.onnx._internal.diagnostics.infra.DiagnosticEngine.create_diagnostic_context")]
    pub fn create_diagnostic_context(&mut self, name: &str, version: &str) -> &mut DiagnosticContext {
        self.contexts.push(DiagnosticContext::new(name, version));
        let last = self.contexts.len() - 1;
        &mut self.contexts[last]
    }
    /// Forgets all diagnostics.
    #[doc(alias = "torch.onnx._internal.diagnostics.infra.DiagnosticEngine.clear")]
    pub fn clear(&mut self) {
        self.contexts.clear();
    }
    /// All contexts.
    pub fn contexts(&self) -> &[DiagnosticContext] {
        &self.contexts
    }
    /// The diagnostics as text for people: those at least as bad as `level`; with `verbose`, where they come from too.
    #[doc(alias = "torch.onnx._internal.diagnostics.infra.DiagnosticEngine.pretty_print")]
    pub fn pretty_print(&self, verbose: bool, level: Level) -> String {
        let mut out = String::new();
        for c in &self.contexts {
            out.push_str(&format!("== Diagnostics of {} {} ==\n", c.name, c.version));
            for d in c.diagnostics.iter().filter(|d| d.level >= level) {
                out.push_str(&format!("{}: {} {}: {}\n", d.level.name(), d.rule.id, d.rule.name, d.message));
                for f in d.stack.iter().filter(|_| verbose) {
                    out.push_str(&format!("    {}:{}: {}\n", f.file, f.line, f.message));
                }
            }
        }
        out
    }
    /// The log of all contexts in SARIF 2.1.0, as JSON.
    pub fn sarif_log(&self) -> String {
        sarif::log(&self.contexts)
    }
}
/// A diagnostic of what a translation said.
pub(crate) fn of_fault(fault: Fault, what: &str) -> ExportDiagnostic {
    let rule = rules::of(fault);
    ExportDiagnostic::new(rule, level(fault)).message(format!("{what}: {}", rule.short_description))
}
