//! Backward nodes and the wrappers at the autograd key, from the `grad` tables.

mod forward;

use super::form::{Form, Mode, arg_ident, is_factory};
use super::formula::{Save, Scope, idents};
use super::types::{camel, lend};
use crate::schema::Arg;
use crate::table::{Family, Grad, Kind, NodeName, OutGrad, Row};
use forward::{forward, jvp_of, tangent_function};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Whether the form has a wrapper at the autograd key. Composites run their body there; what only makes new tensors
/// without a gradient does not concern it.
pub fn has_wrapper(form: &Form) -> bool {
    let row = form.row;
    if form.is_composite() {
        return false;
    }
    match row.grad {
        Grad::Formulas(_) => true,
        Grad::None => form.writes(),
        Grad::Composite => false,
    }
}

/// `generated/FAMILY_grad.rs`, or `None` if no row needs any.
pub fn emit(f: &Family, uses: &str) -> Result<Option<String>, String> {
    let mut out = String::new();
    for row in &f.rows {
        let at = |e: String| format!("{}: {}: {e}", f.file.display(), row.schema.full_name());
        let wrapped: Vec<Form> = Form::all(row).into_iter().filter(has_wrapper).collect();
        if let (Grad::Formulas(_), false) = (&row.grad, wrapped.is_empty()) {
            let d = Diff::new(row).map_err(at)?;
            d.node(&mut out).map_err(at)?;
            if wrapped.iter().any(|f| f.mode != Mode::Out) {
                tangent_function(&mut out, row, &d).map_err(at)?;
            }
        }
        for form in wrapped {
            wrapper(&mut out, &form).map_err(at)?;
        }
    }
    if out.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "//! Derivatives of the family `{}`.\n\n#![allow(unused_imports, unused_variables, clippy::redundant_closure, clippy::needless_borrow)]\n\n{uses}\
         use super::ok;\nuse super::ops;\n\n{out}",
        f.name
    )))
}

/// The arguments with a formula, as edges of the node.
struct Diff<'a> {
    row: &'a Row,
    /// Name of the node: `MulBackward`.
    name: String,
    /// Differentiable arguments in schema order.
    edges: Vec<&'a Arg>,
    /// Formulas: indices into `edges`, text.
    formulas: Vec<(Vec<usize>, &'a str)>,
    /// What is saved, by the name that formulas use.
    saves: BTreeMap<String, Save>,
    scope: Scope<'a>,
}

impl<'a> Diff<'a> {
    fn new(row: &'a Row) -> Result<Self, String> {
        let Grad::Formulas(list) = &row.grad else { return Err("no formulas".into()) };
        // histories are rewritten from the first edge on (`rt::rebase`)
        if (row.inplace || row.inplace_by_hand)
            && !list.iter().any(|(n, _)| row.schema.args.first().is_some_and(|a| n.contains(&a.name)))
        {
            return Err("an in-place form needs a formula for the tensor that it writes".into());
        }
        let edges: Vec<&Arg> =
            row.schema.args.iter().filter(|a| list.iter().any(|(n, _)| n.contains(&a.name))).collect();
        let scope = Scope::new(row);
        let mut formulas = Vec::new();
        let mut saves = BTreeMap::new();
        for (names, text) in list {
            let mut at = Vec::new();
            for n in names {
                at.push(edges.iter().position(|e| e.name == *n).ok_or("unknown input")?);
            }
            for id in idents(text) {
                if let Some(s) = scope.find(&id)? {
                    saves.insert(id, s);
                }
            }
            formulas.push((at, text.as_str()));
        }
        formulas.sort_by_key(|f: &(Vec<usize>, &str)| f.0[0]);
        let stem = Form { row, mode: Mode::Plain }.stem();
        let stem = stem.strip_suffix("_inplace").unwrap_or(&stem).to_string();
        Ok(Diff { row, name: format!("{}Backward", camel(&stem)), edges, formulas, saves, scope })
    }
    fn has_lists(&self) -> bool {
        self.edges.iter().any(|a| a.ty.list.is_some())
    }
    /// Position of edge `i`, where `len` gives the length of a list argument.
    fn pos(&self, i: usize, len: impl Fn(&Arg) -> String) -> String {
        let single = self.edges[..i].iter().filter(|a| a.ty.list.is_none()).count();
        let lists: Vec<String> =
            self.edges[..i].iter().filter(|a| a.ty.list.is_some()).map(|a| len(a)).collect();
        match (single, lists.is_empty()) {
            (n, true) => n.to_string(),
            (0, false) => lists.join(" + "),
            (n, false) => format!("{n} + {}", lists.join(" + ")),
        }
    }
    /// `call(i)` or `call_any(i..j)`: whether edge `i` wants a gradient.
    fn wants(&self, i: usize, call: &str, len: impl Fn(&Arg) -> String) -> String {
        let p = self.pos(i, &len);
        match self.edges[i].ty.list {
            // a node with one input exists only where that input wants a gradient
            _ if self.edges.len() == 1 => "true".into(),
            None => format!("{call}({p})"),
            Some(_) if p == "0" => format!("{call}_any(0..{})", len(self.edges[i])),
            Some(_) => format!("{call}_any({p}..{p} + {})", len(self.edges[i])),
        }
    }
    /// Names that formula `i` saves.
    fn used(&self, text: &str) -> Vec<(&String, &Save)> {
        let ids = idents(text);
        self.saves.iter().filter(|(n, _)| ids.contains(*n)).collect()
    }

    /// The struct and its `Backward`.
    fn node(&self, out: &mut String) -> Result<(), String> {
        let own_len = |a: &Arg| format!("self.{}_len", arg_ident(&a.name));
        let mut fields = String::new();
        for (n, s) in &self.saves {
            let _ = writeln!(fields, "{n}: {},", s.field_ty());
        }
        if self.has_lists() {
            for a in self.edges.iter().filter(|a| a.ty.list.is_some()) {
                let _ = writeln!(fields, "{}_len: usize,", arg_ident(&a.name));
            }
        }
        let mut body = String::new();
        let ids: BTreeSet<String> = self.formulas.iter().flat_map(|f| idents(f.1)).collect();
        let single = self.scope.diff_outputs().len() == 1 && !self.scope.list_result();
        if single {
            body.push_str("let Some(grad) = &grads[0] else { return Ok(rt::no_grads(cx)) };\n");
        } else if ids.contains("grad") {
            body.push_str("let grad = grads[0].as_ref();\n");
        }
        if ids.contains("need") {
            body.push_str("let need = cx.needs();\nlet need = &need[..];\n");
        }
        for (n, s) in self.saves.iter().filter(|s| !s.1.is_tensor()) {
            let _ = writeln!(body, "let {n} = {};", s.bind(n));
        }
        let mut names: Vec<String> = vec![String::new(); self.edges.len()];
        for (at, text) in &self.formulas {
            let mut unpack = String::new();
            for (n, s) in self.used(text).into_iter().filter(|s| s.1.is_tensor()) {
                let uses = self.formulas.iter().filter(|f| idents(f.1).contains(n)).count();
                let text = s.unpack(n);
                // what no other formula needs is handed over
                unpack.push_str(&if uses == 1 && s.field_ty() == "Saved" {
                    text.replace(".unpack(", ".unpack_last(")
                } else {
                    text
                });
            }
            let wanted: Vec<String> = at.iter().map(|i| self.wants(*i, "cx.need", own_len)).collect();
            for i in at {
                names[*i] = format!("g{i}");
            }
            let is_list = at.iter().any(|i| self.edges[*i].ty.list.is_some());
            if let [i] = at[..] {
                let value = tried(text);
                let (value, none) = if is_list {
                    (value, format!("vec![None; {}]", own_len(self.edges[i])))
                } else if text.starts_with('?') {
                    // the formula itself says whether there is a gradient
                    (value, "None".into())
                } else {
                    (format!("Some({value})"), "None".into())
                };
                if wanted[0] == "true" {
                    let _ = writeln!(body, "{unpack}let g{i} = {value};");
                } else {
                    let _ = writeln!(
                        body,
                        "let g{i} = if {} {{ {unpack}{value} }} else {{ {none} }};",
                        wanted[0]
                    );
                }
            } else {
                if is_list {
                    return Err("a list of tensors needs a formula of its own".into());
                }
                let vars: Vec<String> = at.iter().map(|i| format!("g{i}")).collect();
                let nones = vec!["None"; at.len()].join(", ");
                let _ = writeln!(
                    body,
                    "let [{}] = if {} {{ {unpack}{} }} else {{ [{nones}] }};",
                    vars.join(", "),
                    wanted.join(" || "),
                    tried(text)
                );
            }
        }
        let all: Vec<String> = names.clone();
        if self.has_lists() {
            body.push_str("let mut out = Grads::new();\n");
            for (i, n) in all.iter().enumerate() {
                let m = if self.edges[i].ty.list.is_some() { "extend" } else { "push" };
                let _ = writeln!(body, "out.{m}({n});");
            }
            body.push_str("Ok(out)\n");
        } else {
            // two lie inline
            let _ = match &all[..] {
                [a] => writeln!(body, "Ok(Grads::from_buf_and_len([{a}, None], 1))"),
                [a, b] => writeln!(body, "Ok(Grads::from_buf([{a}, {b}]))"),
                _ => writeln!(body, "Ok(Grads::from_iter([{}]))", all.join(", ")),
            };
        }
        let name = &self.name;
        let base = self.row.schema.base.trim_end_matches('_');
        let (shown, by_argument) = match &self.row.node {
            None => (format!("{}Backward0", camel(base)), String::new()),
            Some(NodeName::Always(n) | NodeName::ByNumber { otherwise: n, .. }) => (n.clone(), String::new()),
            Some(NodeName::ByArgument { argument, given, absent }) => {
                if !matches!(self.saves.get(argument), Some(Save::Value(a)) if a.ty.opt) {
                    return Err(format!("node: no formula uses an optional argument `{argument}`"));
                }
                let body = format!(
                    "fn name(&self) -> &'static str {{\nif self.{argument}.is_some() {{ {given:?} }} else {{ {absent:?} }}\n}}\n"
                );
                (given.clone(), body)
            }
        };
        let doc = self.row.schema.full_name();
        let (open, close) = if fields.is_empty() { ("", ";") } else { (" {\n", "}") };
        let _ = writeln!(out, "/// Node of `{doc}`.\npub struct {name}{open}{fields}{close}");
        let _ = writeln!(
            out,
            "impl Backward for {name} {{\nconst NAME: &'static str = \"{shown}\";\n{by_argument}\
             fn apply(&self, cx: &Cx<'_>, grads: &[Option<Tensor>]) -> Result<Grads> {{\n{body}}}"
        );
        let tensors: Vec<_> = self.saves.iter().filter(|s| s.1.is_tensor()).map(|s| s.0).collect();
        if !tensors.is_empty() {
            out.push_str("fn release(&self) {\n");
            for t in tensors {
                let _ = writeln!(out, "self.{t}.release();");
            }
            out.push_str("}\n");
        }
        out.push_str("}\n");
        Ok(())
    }

    /// When the saved `name` is needed: `None` if always.
    fn condition(&self, name: &str) -> Option<String> {
        let mut wanted = BTreeSet::new();
        for (at, text) in &self.formulas {
            if idents(text).contains(name) {
                wanted.extend(at.iter().copied());
            }
        }
        if wanted.len() == self.edges.len() {
            return None;
        }
        let len = |a: &Arg| format!("{}.len()", arg_ident(&a.name));
        Some(wanted.into_iter().map(|i| self.wants(i, "edges.wants", len)).collect::<Vec<_>>().join(" || "))
    }
    /// `Edges::of([Some(self_)])`, or `Edges::new().list(tensors)`.
    fn edges_text(&self) -> String {
        if self.edges.len() <= 3 && self.edges.iter().all(|a| a.ty.list.is_none()) {
            let name = |a: &&Arg| match arg_ident(&a.name) {
                n if a.ty.opt => n,
                n => format!("Some({n})"),
            };
            let names: Vec<String> = self.edges.iter().map(name).collect();
            return format!("Edges::of([{}])", names.join(", "));
        }
        let mut s = String::from("Edges::new()");
        for a in &self.edges {
            let m = match (a.ty.list.is_some(), a.ty.opt, a.ty.opt_elem) {
                (false, false, _) => "tensor",
                (false, true, _) => "opt",
                (true, _, false) => "list",
                (true, _, true) => "opt_list",
            };
            let _ = write!(s, ".{m}({})", arg_ident(&a.name));
        }
        s
    }
}

/// The value of a formula, passing errors on. `Ok(x)` is x itself: there the error's type would be open, as it may be
/// in anything that is not a plain call.
fn tried(text: &str) -> String {
    let t = text.trim().trim_start_matches('?');
    // whether the first bracket closes with the last character
    let open = t.find('(').unwrap_or(t.len());
    let plain = t[..open].chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':') && open > 0;
    let mut depth = 0;
    let mut whole = plain && t.ends_with(')');
    for (i, c) in t.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        whole &= !(depth == 0 && i >= open && i + 1 < t.len());
    }
    match (whole, &t[..open]) {
        (true, "Ok") => t[3..t.len() - 1].to_string(),
        (true, _) => format!("or_return!({t})"),
        _ => format!("or_return!(ok({t}))"),
    }
}

/// `rt::recording(..)` over arguments of all shapes.
fn recording(args: &[&Arg]) -> String {
    let of = |list: bool, opt: bool| -> Vec<String> {
        let hit = |a: &&&Arg| a.ty.list.is_some() == list && (a.ty.opt || a.ty.opt_elem) == opt;
        args.iter().filter(hit).map(|a| arg_ident(&a.name)).collect()
    };
    let mut parts = Vec::new();
    let (one, opt) = (of(false, false), of(false, true));
    if !one.is_empty() {
        parts.push(format!("rt::recording(&[{}])", one.join(", ")));
    }
    if !opt.is_empty() {
        parts.push(format!("rt::recording_opt(&[{}])", opt.join(", ")));
    }
    parts.extend(of(true, false).iter().map(|l| format!("rt::recording_list({l})")));
    parts.extend(of(true, true).iter().map(|l| format!("rt::recording_opt_list({l})")));
    parts.join(" || ")
}

/// The tensors among the arguments as one `&[&Tensor]`.
pub fn tensor_slice(args: &[&Arg]) -> String {
    if args.iter().all(|a| a.ty.is_one_tensor()) {
        return format!("&[{}]", args.iter().map(|a| arg_ident(&a.name)).collect::<Vec<_>>().join(", "));
    }
    let mut s = String::from("&{ let mut v: Vec<&Tensor> = Vec::new();");
    for a in args {
        let n = arg_ident(&a.name);
        let _ = match (a.ty.list.is_some(), a.ty.opt, a.ty.opt_elem) {
            (false, false, _) => write!(s, " v.push({n});"),
            (true, _, true) => write!(s, " v.extend({n}.iter().flatten());"),
            _ => write!(s, " v.extend({n});"),
        };
    }
    s.push_str(" v }");
    s
}

/// The inputs that an `out=` form asks whether they are recorded. A composite's copy to its output is recorded itself.
pub fn asked(form: &Form, tensors: &[&Arg]) -> String {
    let outputs_alone = form.is_composite() && matches!(form.row.out_grad, OutGrad::Outputs(_));
    if outputs_alone { "&[]".into() } else { tensor_slice(tensors) }
}
/// The refusal of gradients that comes after all others: of what the form says in whole.
pub fn late(form: &Form) -> String {
    let row = form.row;
    let tensors: Vec<&Arg> = row.schema.args.iter().filter(|a| a.ty.is_tensor()).collect();
    let outs = form.outs();
    let mut args: Vec<String> = row.schema.args.iter().map(|a| arg_ident(&a.name)).collect();
    args.extend(outs.iter().map(|o| format!("own_{o}")));
    let says = match &row.out_grad {
        OutGrad::Leaf(None) => "leaves_late(None, ".to_string(),
        OutGrad::Leaf(Some(name)) => format!("leaves_late(Some({name:?}), "),
        refusal => {
            format!("gradients_late({:?}, {}, ", refusal.name(&row.schema.base), tensor_slice(&tensors))
        }
    };
    format!(
        "out::refuse_{says}[{}], |[{}]| ops::{}({}))?;\n",
        outs.iter().map(|o| format!("&*{o}")).collect::<Vec<_>>().join(", "),
        outs.iter().map(|o| format!("own_{o}")).collect::<Vec<_>>().join(", "),
        form.ident(),
        args.join(", ")
    )
}

fn wrapper(out: &mut String, form: &Form) -> Result<(), String> {
    let row = form.row;
    let _ = writeln!(
        out,
        "pub(super) fn {}_autograd({}) -> Result<{}> {{",
        form.stem(),
        form.params_text(),
        form.ret()
    );
    // a guard and no closure: hundreds of wrappers would each have a function of their own
    let below = format!("let _below = rt::Below::new();\nops::{}({})", form.ident(), form.names_text());
    let call = format!("{{\n{below}\n}}");
    let tensors: Vec<&Arg> = row.schema.args.iter().filter(|a| a.ty.is_tensor()).collect();
    if form.mode == Mode::Out && row.out_grad == OutGrad::Never {
        let _ = writeln!(out, "{below}\n}}");
        return Ok(());
    }
    if form.mode == Mode::Out && is_factory(row) {
        out.push_str("super::prelude::out::as_factory(out, dtype, layout, device)?;\n");
    }
    if form.mode == Mode::Out && row.out_grad.is_late() {
        // a kernel's write is not recorded, as a copy would be
        let inputs = match row.out_grad {
            OutGrad::Leaf(_) => {
                format!("rt::check_out({:?}, {}, &[])?;\n", row.schema.base, tensor_slice(&tensors))
            }
            _ => String::new(),
        };
        let _ = writeln!(out, "super::prelude::{}{inputs}{below}\n}}", late(form));
        return Ok(());
    }
    if form.mode == Mode::Out {
        let inputs = asked(form, &tensors);
        let outs = form.outs().iter().map(|o| format!("&*{o}")).collect::<Vec<_>>().join(", ");
        let check = match &row.out_grad {
            OutGrad::Resize => format!("check_resized({inputs}, &[{outs}])"),
            refusal => format!("check_out({:?}, {inputs}, &[{outs}])", refusal.name(&row.schema.base)),
        };
        let _ = writeln!(out, "or_return!(rt::{check});\n{below}\n}}");
        return Ok(());
    }
    if row.grad == Grad::None {
        let written: Vec<String> = form
            .schema_args()
            .iter()
            .filter(|a| a.mutated && a.ty.is_one_tensor())
            .map(|a| arg_ident(&a.name))
            .collect();
        if written.is_empty() {
            // of what is written in lists nothing is recorded, as in PyTorch
            let _ = writeln!(out, "{below}\n}}\n");
            return Ok(());
        }
        let _ = writeln!(out, "let rec = {};", recording(&tensors));
        for w in &written {
            let _ = writeln!(out, "if rec {{ rt::check_inplace({w})?; }}");
        }
        let _ = writeln!(out, "or_return!({call});");
        for w in &written {
            let _ = writeln!(out, "if rec {{ rt::rebase_none({w})?; }}");
        }
        out.push_str("Ok(())\n}\n");
        return Ok(());
    }
    let d = Diff::new(row)?;
    for a in tensors.iter().filter(|a| !d.edges.iter().any(|e| e.name == a.name)) {
        let (n, op) = (arg_ident(&a.name), &row.schema.base);
        let check = |t: &str| format!("rt::not_differentiable({op:?}, {:?}, {t})?;", a.name);
        let _ = match (a.ty.list.is_some(), a.ty.opt || a.ty.opt_elem) {
            (false, false) => writeln!(out, "{}", check(&n)),
            (false, true) => writeln!(out, "if let Some(t) = {n} {{ {} }}", check("t")),
            (true, false) => writeln!(out, "for t in {n} {{ {} }}", check("t")),
            (true, true) => writeln!(out, "for t in {n}.iter().flatten() {{ {} }}", check("t")),
        };
    }
    let _ = writeln!(out, "let rec = {};", recording(&d.edges));
    if form.writes() {
        inplace(out, form, &d, &call)?;
    } else {
        plain(out, form, &d, &call)?;
    }
    out.push_str("}\n\n");
    Ok(())
}

/// Constructor of the node; `saved` gives the expression of each field.
fn construct(d: &Diff, saved: impl Fn(&str, &Save) -> String) -> String {
    let mut s = d.name.clone();
    let mut fields = Vec::new();
    for (n, save) in &d.saves {
        let e = saved(n, save);
        fields.push(if e == *n { e } else { format!("{n}: {e}") });
    }
    if d.has_lists() {
        for a in d.edges.iter().filter(|a| a.ty.list.is_some()) {
            let n = arg_ident(&a.name);
            fields.push(format!("{n}_len: {n}.len()"));
        }
    }
    if !fields.is_empty() {
        let _ = write!(s, " {{ {} }}", fields.join(", "));
    }
    s
}

/// Asks whether saving inputs went well, where there are any.
fn check_saved(d: &Diff) -> &'static str {
    if d.saves.values().any(|s| matches!(s, Save::Input(_))) {
        "or_return!(rt::check_saved());\n"
    } else {
        ""
    }
}
fn input(d: &Diff, n: &str, s: &Save) -> String {
    s.input(n, d.condition(n))
}

/// Gives the node the name that it has where an argument is a number.
fn rename(row: &Row, result: &str) -> String {
    let Some(NodeName::ByNumber { number, .. }) = &row.node else { return String::new() };
    let one = |(argument, name): (&String, &String)| {
        let n = arg_ident(argument);
        format!(
            "if flambeau_core::internal::RawTensor::is_wrapped_number({n}) {{\nflambeau_core::tensor::graph::rename(&{name:?}, &{result});\n}}\n"
        )
    };
    number.iter().map(one).collect()
}

fn plain(out: &mut String, form: &Form, d: &Diff, call: &str) -> Result<(), String> {
    let row = form.row;
    let n = row.schema.returns.len();
    let vars: Vec<String> =
        if n == 1 { vec!["out".into()] } else { (0..n).map(|i| format!("out{i}")).collect() };
    let pattern = if n == 1 { vars[0].clone() } else { format!("({})", vars.join(", ")) };
    let body = construct(d, |name, s| match s {
        Save::Result { list: true, .. } => "SavedList::output(&out, 0)".into(),
        Save::Result { index, diff, .. } => match diff {
            Some(nr) => format!("Saved::output(&{}, {nr})", vars[*index]),
            None => format!("Saved::input(&{})", vars[*index]),
        },
        s => input(d, name, s),
    });
    let first = d.edges.first().map(|a| arg_ident(&a.name)).unwrap_or_default();
    let diff: Vec<&String> = d.scope.diff_outputs().iter().map(|i| &vars[*i]).collect();
    let (record, otherwise) = match (row.kind, d.scope.list_result()) {
        (Kind::View, false) => (
            format!("rt::record_view({first}, &mut out, edges, body);"),
            format!(" else {{\nrt::view_unrecorded({first}, &out);\n}}"),
        ),
        (Kind::View, true) => (
            format!("rt::record_views({first}, &out, edges, body);"),
            format!(" else {{\nrt::views_unrecorded({first}, &out);\n}}"),
        ),
        (_, true) => ("rt::record_list(&out, edges, body);".into(), String::new()),
        _ if diff.len() == 1 => (format!("rt::record(&mut {}, edges, body);", diff[0]), String::new()),
        _ => {
            let refs: Vec<String> = diff.iter().map(|v| format!("&{v}")).collect();
            (format!("rt::record_multi(&[{}], edges, body);", refs.join(", ")), String::new())
        }
    };
    // what is recorded by itself gets its history without synchronisation
    let bound: Vec<String> = vars
        .iter()
        .map(|v| if record.contains(&format!("&mut {v},")) { format!("mut {v}") } else { v.clone() })
        .collect();
    let bound = if n == 1 { bound[0].clone() } else { format!("({})", bound.join(", ")) };
    let _ = writeln!(out, "let {bound} = or_return!({call});");
    let _ = writeln!(
        out,
        "if rec {{\nlet edges = {};\nlet body = {body};\n{}{record}\n{}}}{otherwise}",
        d.edges_text(),
        check_saved(d),
        rename(row, &vars[0])
    );
    forward(out, form, d, &vars)?;
    let _ = writeln!(out, "Ok({pattern})");
    Ok(())
}

fn inplace(out: &mut String, form: &Form, d: &Diff, call: &str) -> Result<(), String> {
    let written: Vec<Arg> = form.schema_args().into_iter().filter(|a| a.mutated).collect();
    let [w] = &written[..] else {
        return Err("a row that writes several arguments has no generated derivative".into());
    };
    if w.ty.list.is_some() {
        return Err("lists that are written to need a composite".into());
    }
    let w = arg_ident(&w.name);
    let before: Vec<(&String, &Save)> = d.saves.iter().filter(|s| matches!(s.1, Save::Input(_))).collect();
    let mut lets = format!("let edges = {};\n", d.edges_text());
    for (n, s) in &before {
        // what the call overwrites is copied first
        let e = if **n == w {
            match d.condition(n) {
                Some(c) => format!("Saved::copy_of_if({c}, {n})?"),
                None => format!("Saved::copy_of({n})?"),
            }
        } else {
            input(d, n, s)
        };
        let _ = writeln!(lets, "let s_{n} = {e};");
    }
    lets.push_str(check_saved(d));
    let old = jvp_of(form.row).uses(d, &w);
    let _ = writeln!(out, "if rec {{\nor_return!(rt::check_inplace({w}));\n}}");
    if old {
        let _ = writeln!(
            out,
            "let old = if rt::dual_active() {{ Some(rt::jvp(|| flambeau_core::ops::clone({w}, None))?) }} else {{ None }};"
        );
    }
    let body = construct(d, |n, s| match s {
        Save::Result { .. } => format!("Saved::output({w}, 0)"),
        Save::Input(_) => format!("s_{n}"),
        s => input(d, n, s),
    });
    let _ = writeln!(
        out,
        "if rec {{\n{lets}or_return!({call});\nlet body = {body};\nrt::rebase({w}, edges, body);\n{}}} else {{\nor_return!({call});\n}}",
        rename(form.row, &w)
    );
    forward(out, form, d, std::slice::from_ref(&w))?;
    out.push_str("Ok(())\n");
    Ok(())
}
