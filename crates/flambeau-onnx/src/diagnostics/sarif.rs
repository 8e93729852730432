//! Logs in SARIF, the Static Analysis Results Interchange Format.

use super::{DiagnosticContext, ExportDiagnostic, Rule};
use serde_json::{Value as J, json};

pub(super) fn log(contexts: &[DiagnosticContext]) -> String {
    let runs: Vec<J> = contexts.iter().map(run).collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/cs01/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": runs,
    })
    .to_string()
}
fn run(c: &DiagnosticContext) -> J {
    let mut rules: Vec<Rule> = Vec::new();
    for d in &c.diagnostics {
        if !rules.contains(&d.rule) {
            rules.push(d.rule);
        }
    }
    let described: Vec<J> = rules
        .iter()
        .map(|r| {
            json!({
                "id": r.id,
                "name": r.name,
                "shortDescription": { "text": r.short_description },
                "fullDescription": { "text": r.full_description },
            })
        })
        .collect();
    let results: Vec<J> = c.diagnostics.iter().map(|d| result(d, &rules)).collect();
    json!({
        "tool": { "driver": { "name": c.name, "version": c.version, "rules": described } },
        "results": results,
    })
}
fn result(d: &ExportDiagnostic, rules: &[Rule]) -> J {
    let mut out = json!({
        "ruleId": d.rule.id,
        "ruleIndex": rules.iter().position(|r| *r == d.rule).unwrap_or(0),
        "level": d.level.name(),
        "message": { "text": d.message },
    });
    if !d.stack.is_empty() {
        // SARIF counts lines from 1
        let frames: Vec<J> = d
            .stack
            .iter()
            .map(|f| {
                json!({ "location": {
                    "message": { "text": f.message },
                    "physicalLocation": {
                        "artifactLocation": { "uri": f.file },
                        "region": { "startLine": f.line.max(1) },
                    },
                } })
            })
            .collect();
        out["stacks"] = json!([{ "frames": frames }]);
    }
    out
}
