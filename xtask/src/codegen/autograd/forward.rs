//! Forward mode of the wrappers.

use super::*;

/// How forward mode goes.
#[derive(Clone, Copy)]
pub(super) enum Jvp<'a> {
    Linear,
    Elementwise,
    Expression(&'a str),
    /// No rule: from the backward formula.
    Transposed,
}
impl Jvp<'_> {
    /// Whether the formulas read argument `n`'s value.
    pub(super) fn uses(&self, d: &Diff, n: &str) -> bool {
        match self {
            Jvp::Linear => false,
            Jvp::Elementwise => d.formulas.iter().any(|f| idents(f.1).contains(n)),
            Jvp::Expression(e) => idents(e).contains(n),
            Jvp::Transposed => true,
        }
    }
}

pub(super) fn jvp_of(row: &Row) -> Jvp<'_> {
    match row.jvp.as_deref() {
        Some("auto_linear") => Jvp::Linear,
        Some("auto_elementwise") => Jvp::Elementwise,
        Some("auto_transposed") => Jvp::Transposed,
        Some(e) => Jvp::Expression(e),
        None if row.kind == Kind::Pointwise => Jvp::Elementwise,
        None if row.kind == Kind::View => Jvp::Linear,
        None => Jvp::Transposed,
    }
}

/// What forward mode computes for a row.
struct Rule {
    /// Body of the closure that gives the tangents; `{old}` stands where the overwritten value takes its argument's name.
    body: String,
    /// Results that it reads: the name in the formula, and which result.
    results: Vec<(String, usize)>,
    /// The argument whose value it reads although the in-place form overwrites it.
    old: Option<String>,
    /// Whether it gives one tangent or none, and so stands in one function for all forms of the row.
    one: bool,
    /// Whether the body is a call that turns forward mode off inside.
    whole: bool,
}

impl Rule {
    fn new(row: &Row, d: &Diff) -> Result<Self, String> {
        let jvp = jvp_of(row);
        let diff = d.scope.diff_outputs();
        let one = diff.len() == 1 && row.schema.returns.len() == 1 && !d.scope.list_result();
        let one = one && !row.schema.mutates();
        let mut ids = BTreeSet::new();
        let (before, value) = match jvp {
            Jvp::Elementwise => {
                if diff.len() != 1 || d.formulas.iter().any(|f| f.0.len() != 1) {
                    return Err("auto_elementwise needs one result and one formula per input".into());
                }
                let (mut inputs, mut values) = (Vec::new(), Vec::new());
                for (at, text) in &d.formulas {
                    let a = d.edges[at[0]];
                    let n = arg_ident(&a.name);
                    inputs.push(match (a.ty.list.is_some(), a.ty.opt) {
                        (false, false) => format!("Some({n})"),
                        (false, true) => n,
                        _ => return Err("auto_elementwise takes no lists".into()),
                    });
                    values.push(text);
                    ids.extend(idents(text));
                }
                let (index, value) = match &values[..] {
                    [one] => ("_", one.to_string()),
                    [first @ .., last] => {
                        let first: String =
                            first.iter().enumerate().map(|(i, t)| format!("{i} => {t},\n")).collect();
                        ("i", format!("match i {{\n{first}_ => {last},\n}}"))
                    }
                    [] => return Err("auto_elementwise needs a formula".into()),
                };
                let before = format!(
                    "rt::elementwise(&[{}], &mut |({index}, grad): (usize, &Tensor)| -> Result<Tensor> {{\n",
                    inputs.join(", ")
                );
                (before, format!("{value}\n}})"))
            }
            Jvp::Transposed => {
                let duals = format!("let duals: &[&Tensor] = {};\n", tensor_slice(&d.edges));
                (duals, transposed(row, d, one)?)
            }
            Jvp::Linear => {
                let mut args: Vec<String> = Vec::new();
                let mut lets = String::new();
                for a in &row.schema.args {
                    let n = arg_ident(&a.name);
                    if !d.edges.iter().any(|e| e.name == a.name) {
                        args.push(n);
                        continue;
                    }
                    let t = format!("{}_t", a.name.to_ascii_lowercase());
                    args.push(tangent(&mut lets, a, &t));
                }
                let plain = Form { row, mode: Mode::Plain };
                let call = format!("ops::{}({})", plain.ident(), args.join(", "));
                let call = if row.schema.mutates() {
                    // the operator writes to a copy of the tangent
                    let _ = writeln!(lets, "let self_t = flambeau_core::ops::clone(&self_t, None)?;");
                    format!("{call}?;\nOk(Some(self_t))")
                } else {
                    format!("{call}.map(Some)")
                };
                (lets, call)
            }
            Jvp::Expression(e) => {
                ids = idents(e);
                let mut lets = String::new();
                for a in &d.edges {
                    let t = format!("{}_t", a.name.to_ascii_lowercase());
                    if ids.contains(&t) {
                        let expr = tangent(&mut lets, a, &format!("{t}_"));
                        let _ = writeln!(lets, "let {t} = {expr};");
                    }
                }
                (lets, format!("ok({e}).map(Some)"))
            }
        };
        let (mut results, mut metas) = (Vec::new(), String::new());
        for (n, save) in d.scope.names(&ids) {
            match save {
                Save::Result { index, .. } => results.push((n, index)),
                Save::Meta { .. } => {
                    let _ = writeln!(metas, "let {n} = {};", save.direct());
                }
                _ => {}
            }
        }
        let forms = Form::all(row);
        let written = forms.iter().filter(|f| f.writes() && f.mode != Mode::Out);
        let written = written.flat_map(|f| f.schema_args()).find(|a| a.mutated).map(|a| arg_ident(&a.name));
        let old = written.filter(|w| jvp.uses(d, w));
        // these turn forward mode off themselves
        let whole = matches!(jvp, Jvp::Elementwise | Jvp::Transposed);
        Ok(Self { body: format!("{before}{metas}{{old}}{value}"), results, old, one, whole })
    }

    /// The body with the overwritten value, if there is one, from expression `from`; from its argument if that is empty.
    fn body(&self, from: &str) -> String {
        let old = self.old.as_ref().filter(|_| !from.is_empty());
        let old = old.map(|w| format!("let {w} = {from};\n")).unwrap_or_default();
        self.body.replace("{old}", &old)
    }
}

/// The function that all forms of a row share: code that hardly any program runs, so it stays out of theirs.
pub(super) fn tangent_function(out: &mut String, row: &Row, d: &Diff) -> Result<(), String> {
    let rule = Rule::new(row, d)?;
    if !rule.one {
        return Ok(());
    }
    let plain = Form { row, mode: Mode::Plain };
    let mut params = plain.params_text();
    for n in rule.results.iter().map(|r| r.0.as_str()).chain(rule.old.is_some().then_some("old")) {
        let _ = write!(params, ", {n}: &Tensor");
    }
    let body = rule.body("old");
    let body = if rule.whole {
        body
    } else {
        format!("rt::jvp_one(&mut |()| -> Result<Option<Tensor>> {{\n{body}\n}})")
    };
    let _ = writeln!(
        out,
        "#[cold]\n#[inline(never)]\nfn {}_tangent({params}) -> Result<Option<Tensor>> {{\n{body}\n}}\n",
        plain.stem(),
    );
    Ok(())
}

/// Forward mode: `outs` are the variables of the results (the written tensor in place).
pub(super) fn forward(out: &mut String, form: &Form, d: &Diff, outs: &[String]) -> Result<(), String> {
    let row = form.row;
    let _ = writeln!(out, "if rt::dual_active() && rt::any_tangent({}) {{", tensor_slice(&d.edges));
    let rule = Rule::new(row, d)?;
    let writes = form.writes();
    let set = if writes { "rt::set_tangent_inplace" } else { "rt::set_tangent" };
    let place = |v: &str| if writes { v.to_string() } else { format!("&{v}") };
    let taken = |index: usize| place(&outs[if writes { 0 } else { index }]);
    let kept = rule.old.as_ref().filter(|_| writes).map(|w| format!("old.as_ref().unwrap_or({w})"));
    if rule.one {
        let plain = Form { row, mode: Mode::Plain };
        let mut args = vec![plain.names_text()];
        args.extend(rule.results.iter().map(|r| taken(r.1)));
        args.extend(kept.or(rule.old));
        let _ = writeln!(
            out,
            "let t = {}_tangent({});\nor_return!({set}({}, t));\n}}",
            plain.stem(),
            args.join(", "),
            place(&outs[0])
        );
        return Ok(());
    }
    for (n, index) in &rule.results {
        let _ = writeln!(out, "let {n} = {};", taken(*index));
    }
    let body = rule.body(&kept.unwrap_or_default());
    let _ = match rule.whole {
        true => writeln!(out, "let t = {{\n{body}\n}}?;"),
        false => writeln!(out, "let t = rt::jvp(|| {{\n{body}\n}})?;"),
    };
    let diff = if writes { vec![0] } else { d.scope.diff_outputs().to_vec() };
    let targets: Vec<String> = diff.iter().map(|i| place(&outs[*i])).collect();
    match jvp_of(row) {
        Jvp::Transposed => {
            let targets = match &targets[..] {
                [one] if d.scope.list_result() => format!("{}.iter()", one.trim_start_matches('&')),
                many => format!("[{}].into_iter()", many.join(", ")),
            };
            let _ = writeln!(out, "for (o, t) in {targets}.zip(t) {{\n{set}(o, Ok(Some(t)))?;\n}}");
        }
        Jvp::Linear if d.scope.list_result() => out.push_str(
            "for (o, t) in out.iter().zip(t.into_iter().flatten()) {\nrt::set_tangent(o, Ok(Some(t)))?;\n}\n",
        ),
        Jvp::Linear if row.schema.returns.len() > 1 => {
            out.push_str("if let Some(t) = t {\n");
            for i in diff {
                let _ = writeln!(out, "rt::set_tangent(&{}, Ok(Some(t.{i})))?;", outs[i]);
            }
            out.push_str("}\n");
        }
        _ if targets.len() == 1 => {
            let _ = writeln!(out, "{set}({}, Ok(t))?;", targets[0]);
        }
        _ => {
            let _ = writeln!(
                out,
                "for (o, t) in [{}].into_iter().zip(t.into_iter().flatten()) {{\nrt::set_tangent(o, Ok(Some(t)))?;\n}}",
                targets.join(", ")
            );
        }
    }
    out.push_str("}\n");
    Ok(())
}

/// Forward mode from the backward formula: the plain form is called again on what `rt::transposed` gives.
fn transposed(row: &Row, d: &Diff, one: bool) -> Result<String, String> {
    if row.schema.mutates() {
        return Err("a row that writes its arguments needs `jvp`".into());
    }
    let mut lets = String::new();
    // an argument may have the name of what hands the arguments out
    let from = if d.edges.iter().any(|a| arg_ident(&a.name) == "a") { "given" } else { "a" };
    for a in &d.edges {
        let n = arg_ident(&a.name);
        let _ = match (a.ty.list.is_some(), a.ty.opt, a.ty.opt_elem) {
            (false, false, _) => writeln!(lets, "let {n} = {from}.one()?;"),
            (false, true, _) => writeln!(lets, "let {n} = {n}.map(|_| {from}.one()).transpose()?;"),
            (true, _, false) => writeln!(lets, "let {n} = {from}.list({n}.len())?;"),
            (true, _, true) => return Err("lists with gaps need `jvp`".into()),
        };
    }
    let plain = Form { row, mode: Mode::Plain };
    let results = if d.scope.list_result() {
        "Ok(r)".to_string()
    } else if row.schema.returns.len() == 1 {
        "Ok(vec![r])".to_string()
    } else {
        let picked: Vec<String> = d.scope.diff_outputs().iter().map(|i| format!("r.{i}")).collect();
        format!("Ok(vec![{}])", picked.join(", "))
    };
    Ok(format!(
        "rt::transposed{}(duals, {}, &mut |mut {from}: rt::Inputs<'_>| -> Result<Vec<Tensor>> {{\n{lets}let r = ops::{}({})?;\n{results}\n}})",
        if one { "_one" } else { "" },
        tensor_slice(&d.edges),
        plain.ident(),
        plain.names_text()
    ))
}

/// Binds the tangent of `a`, zeros where there is none, to `var`; gives the expression of the argument's type.
fn tangent(lets: &mut String, a: &Arg, var: &str) -> String {
    let n = arg_ident(&a.name);
    let _ = match (a.ty.list.is_some(), a.ty.opt || a.ty.opt_elem) {
        (false, false) => writeln!(lets, "let {var} = rt::tangent_or_zeros({n})?;"),
        (false, true) => writeln!(lets, "let {var} = {n}.map(rt::tangent_or_zeros).transpose()?;"),
        (true, false) => {
            writeln!(lets, "let {var} = {n}.iter().map(rt::tangent_or_zeros).collect::<Result<Vec<_>>>()?;")
        }
        (true, true) => writeln!(
            lets,
            "let {var} = {n}.iter().map(|t| t.as_ref().map(rt::tangent_or_zeros).transpose()).collect::<Result<Vec<_>>>()?;"
        ),
    };
    lend(a.ty, var)
}
