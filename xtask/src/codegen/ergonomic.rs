//! The panicking layer: functions by Python module, methods of `Tensor`, option structs, named results.

use super::form::{FACTORY, Form, Mode, arg_ident, is_factory};
use super::ops::{aliases, docs};
use super::types::{
    camel, default_doc, default_owned, default_param, ident, lend, owned_ty, param_ty, return_ty,
};
use crate::schema::{Arg, Base, Default};
use crate::table::{CrateTable, Row, Short};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// One function or method: documentation and attributes, signature, body.
struct Item {
    docs: String,
    sig: String,
    body: String,
    /// The options struct that it takes.
    options: Option<String>,
}

/// Where a documented name lives: `None` for methods of Tensor, else the generated module.
fn place(python: &str) -> (Option<String>, String) {
    if let Some(m) = python.strip_prefix("Tensor.") {
        return (None, m.to_string());
    }
    let path = python.strip_prefix("torch.").unwrap_or(python);
    match path.rsplit_once('.') {
        None => (Some("functions".into()), path.to_string()),
        Some(("nn.functional", last)) => (Some("functional".into()), last.to_string()),
        Some((module, last)) => (Some(module.replace('.', "_")), last.to_string()),
    }
}

/// The short form's name under a documented name: `sum_dim` of `sum` is `nansum_dim` under `nansum`.
fn name_under(row: &Row, last: &str, short: &str) -> String {
    match short.strip_prefix(row.schema.base.as_str()) {
        Some(suffix) => format!("{last}{suffix}"),
        None => short.to_string(),
    }
}

/// The argument that a method takes as `self`.
fn receiver(row: &Row) -> Option<usize> {
    let args = &row.schema.args;
    let by_name = args.iter().position(|a| a.name == "self" && a.ty.is_one_tensor());
    by_name.or_else(|| args.iter().position(|a| a.ty.is_one_tensor()))
}

/// Defaulted arguments that get a field of their own in the option struct.
fn fields(row: &Row) -> Vec<&Arg> {
    let factory = is_factory(row);
    let own = |a: &&Arg| a.default.is_some() && !(factory && FACTORY.contains(&a.name.as_str()));
    row.schema.args.iter().filter(own).collect()
}

/// The type of `_with`'s last parameter.
fn options_ty(row: &Row) -> Option<String> {
    match (fields(row).is_empty(), is_factory(row)) {
        (true, false) => None,
        (true, true) => Some("TensorOptions".into()),
        (false, _) => Some(format!("{}Options", camel(&Form { row, mode: Mode::Plain }.stem()))),
    }
}

fn result_name(row: &Row) -> Option<String> {
    let r = &row.schema.returns;
    let named = r.len() > 1 && r.iter().all(|r| !r.0.is_empty());
    // PyTorch's inner names say nothing to those who read the type (`_unique2`)
    let base = if row.schema.base.starts_with('_') { &row.rust } else { &row.schema.base };
    named.then(|| format!("{}Result", camel(base)))
}

/// How one call is written.
struct Call<'a> {
    form: &'a Form<'a>,
    method: bool,
    /// Defaulted arguments that are positional here.
    positional: &'a [String],
    with: bool,
    /// What those want who give an argument more.
    advice: &'a str,
}

impl Call<'_> {
    /// Arguments that may be numbers or tensors, where two rows serve the one and the other.
    fn bounds(&self) -> Option<(Vec<String>, &str)> {
        let tensors = self.form.row.bounds.as_deref().filter(|_| !self.with)?;
        Some((self.positional.iter().map(|n| arg_ident(n)).collect(), tensors))
    }
    /// The argument that may be a range, and the row that serves one.
    fn range(&self) -> Option<(String, &str)> {
        let row = self.form.row;
        let first = row.schema.args.iter().find(|a| a.ty.base == Base::Int && a.ty.list.is_none())?;
        row.range.as_deref().map(|ranged| (arg_ident(&first.name), ranged))
    }
    /// The advice as a call of this function or method.
    fn advice(&self, python: &str) -> String {
        let path = python.rsplit_once('.').map_or(python, |(path, _)| path).replace('.', "::");
        let (f, x) = if self.method { ("x.".to_string(), "") } else { (format!("{path}::"), "&x, ") };
        self.advice.replace("{f}", &f).replace("{x}", x)
    }
    fn item(&self, name: &str, python: &str, core: bool) -> Item {
        let row = self.form.row;
        let recv = receiver(row);
        let taken = |n: &str| row.schema.args.iter().any(|a| a.name == n);
        let recv_name = if taken("input") { "self_" } else { "input" };
        let arg_name = |i: usize, a: &Arg| {
            if Some(i) == recv && self.method {
                "self".to_string()
            } else if a.name == "self" && a.ty.is_one_tensor() {
                recv_name.to_string()
            } else {
                arg_ident(&a.name)
            }
        };
        let options = if self.with { options_ty(row) } else { None };
        let factory = is_factory(row);
        // what is made of nothing goes to the default device
        let sourceless = factory && row.schema.args.iter().all(|a| !a.ty.is_tensor());
        let own_struct = options.as_deref().is_some_and(|o| o != "TensorOptions");
        let (mut params, mut exprs, mut pre) = (Vec::new(), Vec::new(), String::new());
        let mut number_or_tensor = String::new();
        for (i, a) in row.schema.args.iter().enumerate() {
            let n = arg_name(i, a);
            if n == "self" {
                exprs.push(n);
                continue;
            }
            let positional = a.default.is_none() || (!self.with && self.positional.contains(&a.name));
            if positional && self.bounds().is_some_and(|(names, _)| names.contains(&n)) {
                params.push(format!("{n}: impl Bound"));
                exprs.push(n);
            } else if positional && row.either.as_ref().is_some_and(|e| e.argument == a.name) {
                params.push(format!("{n}: impl Operand"));
                number_or_tensor.clone_from(&n);
                exprs.push(n);
            } else if self.range().is_some_and(|(name, _)| name == n) {
                params.push(format!("{n}: impl IntRange"));
                exprs.push(n);
            } else if positional {
                if row.operand.contains(&a.name) {
                    let _ = writeln!(pre, "let {n} = expect({n}.operand());");
                }
                let (ty, expr) = positional_param(row, a, &n);
                // the compiler shows the line when an argument is missing
                let default = a.default.as_ref().filter(|d| **d != Default::None);
                let default = default.map(|d| format!(" /* Python's default: {} */", default_doc(d)));
                params.push(format!("{n}: {ty}{}", default.unwrap_or_default()));
                exprs.push(expr);
            } else if self.with {
                let of_factory = factory && FACTORY.contains(&a.name.as_str());
                let place = match (of_factory, own_struct) {
                    // there is no pinned memory without a device that profits
                    (true, _) if a.name == "pin_memory" => "None".to_string(),
                    (true, true) => format!("o.tensor.{}", a.name),
                    _ => format!("o.{}", arg_ident(&a.name)),
                };
                exprs.push(if a.name == "device" && sourceless {
                    format!("chosen({place})")
                } else {
                    lend(a.ty, &place)
                });
            } else if a.name == "device" && sourceless {
                exprs.push("chosen(None)".into());
            } else {
                exprs.push(default_param(a.ty, a.default.as_ref().unwrap_or(&Default::None)));
            }
        }
        if let Some(o) = &options {
            if factory {
                params.push(format!("options: impl Into<{o}>"));
                pre.push_str("let o = options.into();\n");
            } else {
                params.push(format!("o: {o}"));
            }
        }
        for o in self.form.outs() {
            params.push(format!("{o}: &mut Tensor"));
            exprs.push(o);
        }
        let this = if self.form.self_mut() { "&mut self" } else { "&self" };
        if self.method {
            params.insert(0, this.into());
        }
        let advice = self.advice(python);
        if let Some(last) = params.last_mut().filter(|_| !advice.is_empty()) {
            // the compiler shows the line when it says that there are too many arguments
            *last += &format!(" /* for {advice} */");
        }
        let mut call = format!("ops::{}({})", self.form.ident(), exprs.join(", "));
        if let Some((names, tensors)) = self.bounds() {
            let lent = |e: &String| if names.contains(e) { format!("{e}.as_deref()") } else { e.clone() };
            let tensors = self.form.ident().replacen(&row.rust, tensors, 1);
            call = format!(
                "match expect(limits([{}])) {{\nLimits::Numbers([{names}]) => {call},\n\
                 Limits::Tensors([{names}]) => ops::{tensors}({}),\n}}",
                names.iter().map(|n| format!("{n}.bound()")).collect::<Vec<_>>().join(", "),
                exprs.iter().map(lent).collect::<Vec<_>>().join(", "),
                names = names.join(", "),
            );
        }
        if let Some(either) = &row.either {
            let n = number_or_tensor;
            let other = format!("ops::{}", self.form.ident().replacen(&row.rust, &either.row, 1));
            let this = format!("ops::{}", self.form.ident());
            let (numbers, tensors) = if either.other_number { (other, this) } else { (this, other) };
            let given = |as_given: &str| {
                let put = exprs.iter().map(|e| if *e == n { as_given.to_string() } else { e.clone() });
                put.collect::<Vec<_>>().join(", ")
            };
            let (guard, number, rest) = match either.float {
                true => (format!(" if !{n}.is_complex()"), format!("{n}.to_f64()"), "_"),
                false => (String::new(), n.clone(), "None"),
            };
            call = format!(
                "match {n}.number() {{\nSome({n}){guard} => {numbers}({}),\n{rest} => {tensors}({}),\n}}",
                given(&number),
                given(&format!("expect({n}.operand()).as_ref()")),
            );
        }
        if let Some((n, ranged)) = self.range() {
            let ranged = self.form.ident().replacen(&row.rust, ranged, 1);
            let both = exprs.iter().map(|e| if *e == n { format!("low, {n}") } else { e.clone() });
            call = format!(
                "match {n}.int_range() {{\n(None, {n}) => {call},\n(Some(low), {n}) => ops::{ranged}({}),\n}}",
                both.collect::<Vec<_>>().join(", "),
            );
        }
        if self.with && factory && self.form.mode == Mode::Plain {
            call = format!("finish(o{}.requires_grad, {call})", if own_struct { ".tensor" } else { "" });
        }
        let chained = self.method && self.form.writes();
        let (ret, body) = if chained {
            let ret = if self.form.self_mut() { " -> &mut Self" } else { " -> &Self" };
            (ret.to_string(), format!("{pre}expect({call});\nself"))
        } else if self.form.writes() {
            (String::new(), format!("{pre}expect({call});"))
        } else {
            match result_name(row) {
                Some(r) => (format!(" -> {r}"), format!("{pre}expect({call}).into()")),
                None => (format!(" -> {}", return_ty(&row.schema.returns)), format!("{pre}expect({call})")),
            }
        };
        let vis = if core || !self.method { "pub " } else { "" };
        let mut d = docs(row, self.form.mode, !self.with, false);
        if let (Some((what, call)), Some(end)) = (advice.split_once(": "), d.find('\n')) {
            d.insert_str(end, &format!(" For {what}: `{call}`."));
        }
        if self.with {
            let _ = writeln!(d, "///\n/// With all keyword arguments.");
        } else {
            let alias = if let Some(m) = python.strip_prefix("Tensor.") {
                let inplace = if self.form.mode == Mode::Inplace { "_" } else { "" };
                format!("torch.Tensor.{m}{inplace}")
            } else {
                python.to_string()
            };
            d += &aliases(&[alias]);
        }
        if let Some(note) = &row.deprecated {
            let _ = writeln!(d, "#[deprecated(note = {note:?})]");
        }
        Item {
            docs: d,
            sig: format!("{vis}fn {}({}){ret}", ident(name), params.join(", ")),
            body,
            options: options.filter(|_| own_struct),
        }
    }
}

/// Type and conversion of an argument that is given by position.
fn positional_param(row: &Row, a: &Arg, n: &str) -> (String, String) {
    if row.operand.contains(&a.name) {
        return ("impl Operand".into(), format!("&{n}"));
    }
    // a defaulted argument that is given at all is not None; a tensor may come from an Option field
    let unwrap = a.ty.opt && a.ty.base != Base::Tensor && a.default.is_some();
    let some = |e: String| if unwrap { format!("Some({e})") } else { e };
    let bare = crate::schema::Ty { opt: a.ty.opt && !unwrap, ..a.ty };
    match (bare.base, bare.list, bare.opt) {
        (Base::Int, Some(_), false) if unwrap => ("impl IntoDims".into(), format!("Some(&*{n}.into_dims())")),
        (Base::Int, Some(_), false) => ("impl IntoDims".into(), format!("&{n}.into_dims()")),
        (Base::Scalar, None, false) => ("impl Into<Scalar>".into(), some(format!("{n}.into()"))),
        (Base::Float, None, false) => ("impl IntoFloat".into(), some(format!("{n}.into_float()"))),
        // `cat([&x, &y], 0)` as well as `cat(&list, 0)`
        (Base::Tensor, Some(_), false) if !bare.opt_elem => {
            ("impl TensorList".into(), format!("&{n}.tensor_list()"))
        }
        // `[&i, &j]` as well as `[Some(i), None]`
        (Base::Tensor, Some(_), false) => {
            ("impl OptionalTensorList".into(), format!("&{n}.optional_tensor_list()"))
        }
        _ => (param_ty(bare), some(n.to_string())),
    }
}

fn shorts(row: &Row) -> Vec<Short> {
    if row.short.is_empty() {
        vec![Short { name: row.rust.clone(), args: Vec::new(), advice: String::new() }]
    } else {
        row.short.clone()
    }
}

type Places = BTreeMap<Option<String>, BTreeMap<String, (Item, String)>>;

fn put(places: &mut Places, at: &Option<String>, name: String, item: Item, row: &Row) -> Result<(), String> {
    let here = row.schema.full_name();
    let module = at.clone().unwrap_or_else(|| "Tensor".into());
    match places.entry(at.clone()).or_default().insert(name.clone(), (item, here.clone())) {
        Some((_, old)) => {
            Err(format!("{module}::{name} comes from both {old} and {here}: give `rust` or `short`"))
        }
        None => Ok(()),
    }
}

fn row_items(places: &mut Places, row: &Row, core: bool) -> Result<(), String> {
    if !row.ergonomic {
        return Ok(());
    }
    for python in row.python.iter().chain(&row.alias) {
        let (at, last) = place(python);
        let method = at.is_none();
        if method && receiver(row).is_none() {
            return Err(format!("{}: `{python}` needs a tensor argument", row.schema.full_name()));
        }
        for form in Form::all(row) {
            if row.names_inplace(python) {
                // a documented function in place (`torch.nn.functional.elu_`): one short form
                if form.mode == Mode::Inplace {
                    let positional = &row.positional;
                    let call = Call { form: &form, method, positional, with: false, advice: "" };
                    put(places, &at, last.clone(), call.item(&last, python, core), row)?;
                }
                continue;
            }
            let (infix, suffix) = match form.mode {
                Mode::Plain => ("", ""),
                Mode::Inplace if method => ("", "_"),
                Mode::Out if !method => ("_out", ""),
                _ => continue,
            };
            for s in shorts(row) {
                let positional: Vec<String> = row.positional.iter().chain(&s.args).cloned().collect();
                let advice = match form.mode {
                    Mode::Plain if !s.advice.is_empty() => s.advice.as_str(),
                    Mode::Plain => row.advice.as_str(),
                    _ => "",
                };
                let call = Call { form: &form, method, positional: &positional, with: false, advice };
                let name = format!(
                    "{}{infix}{suffix}",
                    if infix.is_empty() {
                        name_under(row, &last, &s.name)
                    } else {
                        name_under(row, &last, &s.name).trim_end_matches('_').to_string()
                    }
                );
                put(places, &at, name.clone(), call.item(&name, python, core), row)?;
            }
            if options_ty(row).is_some() {
                let call = Call { form: &form, method, positional: &[], with: true, advice: "" };
                let stem = name_under(row, &last, &row.rust);
                let end = if stem.ends_with('_') { "_" } else { suffix };
                let name = format!("{}{infix}_with{end}", stem.trim_end_matches('_'));
                put(places, &at, name.clone(), call.item(&name, python, core), row)?;
            }
        }
    }
    Ok(())
}

/// All files of the layer as (module name, text).
pub fn emit(c: &CrateTable, core: &str) -> Result<Vec<(String, String)>, String> {
    let is_core = core == "crate";
    let mut places = Places::new();
    for row in c.families.iter().flat_map(|f| &f.rows) {
        row_items(&mut places, row, is_core)?;
    }
    let mut out = Vec::new();
    let uses =
        "#[allow(unused_imports)]\nuse super::{chosen, finish, ops, options::*, prelude::*, results::*};\n\n";
    let mut of_torch = BTreeSet::new();
    for (at, items) in places {
        let taken: BTreeSet<String> = items.values().filter_map(|(i, _)| i.options.clone()).collect();
        let torchs = at.as_ref().is_none_or(|m| m == "functions");
        if torchs {
            of_torch.extend(taken.iter().cloned());
        }
        let Some(module) = at else {
            out.push((
                "methods".to_string(),
                methods(c, &items.into_values().collect::<Vec<_>>(), is_core, uses),
            ));
            continue;
        };
        let mut s = format!("//! Functions of `{}`.\n\n{uses}", python_module(&module));
        if !torchs {
            s += &reexport(&taken);
        }
        for (i, _) in items.values() {
            let _ = writeln!(s, "{}#[track_caller]\n{} {{\n{}\n}}\n", i.docs, i.sig, i.body);
        }
        out.push((module, s));
    }
    out.push(("options".into(), options(c)));
    let keywords = "//! Keyword arguments of `torch.*` and of methods of `Tensor`; those of other functions stand beside them.\n\n";
    out.push(("keywords".into(), keywords.to_string() + &reexport(&of_torch)));
    out.push(("results".into(), results(c)?));
    Ok(out)
}

/// Names a module's options in it.
fn reexport(options: &BTreeSet<String>) -> String {
    if options.is_empty() {
        return String::new();
    }
    format!("pub use super::options::{{{}}};\n\n", options.iter().cloned().collect::<Vec<_>>().join(", "))
}

fn python_module(module: &str) -> String {
    match module {
        "functions" => "torch".into(),
        "functional" => "torch.nn.functional".into(),
        m => format!("torch.{m}"),
    }
}

fn methods(c: &CrateTable, items: &[(Item, String)], core: bool, uses: &str) -> String {
    let mut s = format!("//! Methods of `Tensor`.\n\n{uses}");
    if core {
        s.push_str("impl Tensor {\n");
        for (i, _) in items {
            let _ = writeln!(s, "{}#[track_caller]\n{} {{\n{}\n}}\n", i.docs, i.sig, i.body);
        }
        s.push_str("}\n");
        return s;
    }
    let name = format!("Tensor{}Ext", camel(&c.package.trim_start_matches("flambeau-").replace('-', "_")));
    let _ = writeln!(s, "/// Methods that this crate adds to `Tensor`.\npub trait {name} {{");
    for (i, _) in items {
        let _ = writeln!(s, "{}#[track_caller]\n{};\n", i.docs, i.sig);
    }
    let _ = writeln!(s, "}}\n\nimpl {name} for Tensor {{");
    for (i, _) in items {
        let _ = writeln!(s, "#[track_caller]\n{} {{\n{}\n}}\n", i.sig, i.body);
    }
    s.push_str("}\n");
    s
}

fn options(c: &CrateTable) -> String {
    let mut s = String::from(
        "//! Keyword arguments of operators.\n\n#[allow(unused_imports)]\nuse super::prelude::*;\n\n",
    );
    for row in c.families.iter().flat_map(|f| &f.rows) {
        let Some(name) = options_ty(row).filter(|n| n != "TensorOptions") else { continue };
        if row.python.is_empty() || !row.ergonomic {
            continue;
        }
        let factory = is_factory(row);
        let fields = fields(row);
        let _ = writeln!(
            s,
            "/// Keyword arguments of `{}`.\n#[derive(Clone, Debug)]\npub struct {name} {{",
            row.python[0]
        );
        for a in &fields {
            let _ = writeln!(s, "pub(super) {}: {},", arg_ident(&a.name), owned_ty(a.ty));
        }
        if factory {
            s.push_str("pub(super) tensor: TensorOptions,\n");
        }
        let _ = writeln!(s, "}}\nimpl Default for {name} {{\nfn default() -> Self {{\nSelf::new()\n}}\n}}");
        let _ =
            writeln!(s, "impl {name} {{\n/// The documented defaults.\npub fn new() -> Self {{\n{name} {{");
        for a in &fields {
            let d = default_owned(a.ty, a.default.as_ref().unwrap_or(&Default::None));
            let _ = writeln!(s, "{}: {d},", arg_ident(&a.name));
        }
        if factory {
            s.push_str("tensor: TensorOptions::default(),\n");
        }
        s.push_str("}\n}\n");
        for a in &fields {
            setter(&mut s, a);
        }
        if factory {
            s.push_str(
                "/// Dtype, device and the like of the result.\n\
                 pub fn options(mut self, options: impl Into<TensorOptions>) -> Self {\n\
                 self.tensor = options.into();\nself\n}\n",
            );
        }
        s.push_str("}\n");
        if factory {
            let _ = writeln!(
                s,
                "impl<T: Into<TensorOptions>> From<T> for {name} {{\nfn from(o: T) -> Self {{\nSelf::new().options(o)\n}}\n}}"
            );
        }
        s.push('\n');
    }
    s
}

fn setter(s: &mut String, a: &Arg) {
    let n = arg_ident(&a.name);
    let (ty, expr) = match (a.ty.base, a.ty.list.is_some()) {
        (Base::Int, true) => ("impl IntoDims".to_string(), format!("{n}.into_dims().to_vec()")),
        (Base::Float, true) => ("impl IntoFloats".to_string(), format!("{n}.into_floats()")),
        (Base::Scalar, false) => ("impl Into<Scalar>".to_string(), format!("{n}.into()")),
        (Base::Str, false) => ("&str".to_string(), format!("{n}.to_string()")),
        (Base::Tensor | Base::Generator, false) => {
            (format!("&{}", super::types::base_ty(a.ty.base)), format!("{n}.clone()"))
        }
        (_, true) => (param_ty(crate::schema::Ty { opt: false, ..a.ty }), format!("{n}.to_vec()")),
        (b, false) => (super::types::base_ty(b).to_string(), n.clone()),
    };
    let expr = if a.ty.opt { format!("Some({expr})") } else { expr };
    let default = a.default.as_ref().map_or(String::new(), default_doc);
    let _ = writeln!(
        s,
        "/// Sets `{}` (default `{default}`).\npub fn {n}(mut self, {n}: {ty}) -> Self {{\nself.{n} = {expr};\nself\n}}",
        a.name
    );
}

fn results(c: &CrateTable) -> Result<String, String> {
    let mut s =
        String::from("//! Results with names.\n\n#[allow(unused_imports)]\nuse super::prelude::*;\n\n");
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in c.families.iter().flat_map(|f| &f.rows) {
        let Some(name) = result_name(row).filter(|_| row.ergonomic && !row.python.is_empty()) else {
            continue;
        };
        let names: Vec<String> = row.schema.returns.iter().map(|r| arg_ident(&r.0)).collect();
        if let Some(old) = seen.get(&name) {
            if *old != names {
                return Err(format!(
                    "{}: {name} has other fields in another overload",
                    row.schema.full_name()
                ));
            }
            continue;
        }
        seen.insert(name.clone(), names.clone());
        let tuple = return_ty(&row.schema.returns);
        let _ = writeln!(
            s,
            "/// Result of `{0}`.\n#[derive(Clone, Debug)]\n#[doc(alias = \"torch.return_types.{0}\")]\npub struct {name} {{",
            row.schema.base
        );
        for (n, r) in names.iter().zip(&row.schema.returns) {
            let _ = writeln!(s, "/// The result `{}`.\npub {n}: {},", r.0, owned_ty(r.1));
        }
        let from = names.iter().map(|n| format!("r.{n}")).collect::<Vec<_>>().join(", ");
        let list = names.join(", ");
        let _ = writeln!(
            s,
            "}}\nimpl From<{name}> for {tuple} {{\nfn from(r: {name}) -> Self {{\n({from})\n}}\n}}\n\
             impl From<{tuple}> for {name} {{\nfn from(({list}): {tuple}) -> Self {{\n{name} {{ {list} }}\n}}\n}}\n"
        );
    }
    Ok(s)
}
