//! `generated/calls.rs`: from a call by values to a typed one and back. What two rows or more with the same signature need
//! stands there once, with the row's function as an argument: there are far fewer signatures than rows.

use super::form::Form;
use super::types::unboxed;
use crate::schema::{Base, Ty};
use crate::table::Family;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The signatures of a crate's rows, by their letters: one form that has it, and how many do.
pub struct Calls<'a>(BTreeMap<String, (Form<'a>, usize)>);

impl<'a> Calls<'a> {
    pub fn new(families: &'a [Family]) -> Self {
        let mut all = BTreeMap::new();
        for form in families.iter().flat_map(|f| &f.rows).flat_map(Form::all) {
            all.entry(letters(&form)).or_insert((form, 0)).1 += 1;
        }
        Calls(all)
    }
    fn shared(&self, form: &Form) -> Option<String> {
        let letters = letters(form);
        self.0.get(&letters).is_some_and(|(_, n)| *n > 1).then_some(letters)
    }

    /// The file's text (not formatted).
    pub fn emit(&self) -> String {
        let mut out = String::from(
            "//! Calls by values, and calls as values, of rows that share a signature. Names say the signature, a letter per\n\
             //! type: `t` tensor, `w` tensor that is replaced, `n` number, `i` int, `f` float, `b` bool, `s` text, `d` dtype,\n\
             //! `v` device, `l` layout, `m` memory format, `g` generator; `o` before it: may be absent; `s` after it: a list\n\
             //! (`e` before it: of what may be absent); `to` stands before the results.\n\n\
             #[allow(unused_imports)]\nuse super::prelude::*;\n\n",
        );
        for (letters, (form, n)) in &self.0 {
            if *n < 2 {
                continue;
            }
            let types: Vec<String> = form.params().into_iter().map(|p| p.1).collect();
            let f = format!("fn({}) -> Result<{}>", types.join(", "), form.ret());
            let written = if gives_written(form) { ", written: &[usize]" } else { "" };
            let given = if takes_none(form) { "_a" } else { "a" };
            let body = boxed_body(form, "f", "copies(a, written)");
            let _ = writeln!(
                out,
                "#[inline(never)]\npub(super) fn boxed_{letters}(f: {f}, {given}: &[Value]{written}) -> Result<Vec<Value>> {{\n{body}}}"
            );
            let names: Vec<String> = (0..types.len()).map(|i| format!("a{i}")).collect();
            let params: String = names.iter().zip(&types).map(|(n, t)| format!(", {n}: {t}")).collect();
            let body = adaptor_body(form, &names, "info", "f");
            let _ = writeln!(
                out,
                "#[inline(never)]\npub(super) fn adapt_{letters}(info: &'static OpInfo, f: {f}{params}) -> Result<{}> {{\n{body}}}\n",
                form.ret()
            );
        }
        out
    }

    /// The row's boxed call and its adaptor.
    pub fn of(&self, out: &mut String, form: &Form) {
        let (stem, ident, stat) = (form.stem(), form.ident(), form.stat());
        let shared = self.shared(form);
        let given = if takes_none(form) && shared.is_none() { "_a" } else { "a" };
        let written: Vec<usize> = if gives_written(form) { written(form) } else { Vec::new() };
        let body = match &shared {
            Some(letters) if gives_written(form) => {
                format!("calls::boxed_{letters}(ops::{ident}, a, &{written:?})\n")
            }
            Some(letters) => format!("calls::boxed_{letters}(ops::{ident}, a)\n"),
            None => {
                let copies: Vec<String> = written.iter().map(|i| format!("a[{i}].clone()")).collect();
                boxed_body(form, &format!("ops::{ident}"), &format!("vec![{}]", copies.join(", ")))
            }
        };
        let _ = writeln!(out, "fn {stem}_boxed({given}: &[Value]) -> Result<Vec<Value>> {{\n{body}}}");
        let names: Vec<String> = form.params().into_iter().map(|p| p.0).collect();
        let body = match &shared {
            Some(letters) => {
                let names: String = names.iter().map(|n| format!(", {n}")).collect();
                format!("calls::adapt_{letters}(&{stat}_INFO, ops::{ident}{names})\n")
            }
            None => adaptor_body(form, &names, &format!("&{stat}_INFO"), &format!("ops::{ident}")),
        };
        let _ =
            writeln!(out, "fn {stem}_adaptor({}) -> Result<{}> {{\n{body}}}", form.params_text(), form.ret());
    }
}

/// A letter or two per type.
fn letter(t: Ty) -> String {
    let base = match t.base {
        Base::Tensor => "t",
        Base::Scalar => "n",
        Base::Int => "i",
        Base::Float => "f",
        Base::Bool => "b",
        Base::Str => "s",
        Base::DType => "d",
        Base::Layout => "l",
        Base::Device => "v",
        Base::MemoryFormat => "m",
        Base::Generator => "g",
    };
    let (opt, elem) = (if t.opt { "o" } else { "" }, if t.opt_elem { "e" } else { "" });
    format!("{opt}{elem}{base}{}", if t.list.is_some() { "s" } else { "" })
}
/// The form's signature as part of a name.
fn letters(form: &Form) -> String {
    let mut all: Vec<String> = form.row.schema.args.iter().map(|a| letter(a.ty)).collect();
    if form.self_mut() {
        all[0] = "w".into();
    }
    all.extend(form.outs().iter().map(|_| "w".to_string()));
    if !form.writes() {
        all.push("to".into());
        all.extend(form.row.schema.returns.iter().map(|r| letter(r.1)));
    }
    if all.is_empty() { "nothing".into() } else { all.join("_") }
}

/// Whether the boxed call looks at none of its arguments.
fn takes_none(form: &Form) -> bool {
    form.row.schema.args.is_empty() && form.outs().is_empty()
}
/// Whether the boxed call gives the arguments that were written, as they came.
fn gives_written(form: &Form) -> bool {
    form.writes() && !form.self_mut() && form.outs().is_empty()
}
/// Those arguments.
fn written(form: &Form) -> Vec<usize> {
    let args = form.schema_args();
    let given = |a: &crate::schema::Arg| a.mutated && !form.row.schema.returns.is_empty();
    args.iter().enumerate().filter(|(_, a)| given(a)).map(|(i, _)| i).collect()
}

/// From values to the arguments of `f`, and from its results to values; `written` gives the values of what is written.
fn boxed_body(form: &Form, f: &str, written: &str) -> String {
    let row = form.row;
    let mut body = String::new();
    let mut args: Vec<String> = row.schema.args.iter().enumerate().map(|(i, a)| unboxed(a.ty, i)).collect();
    let mut replaced = Vec::new();
    if form.self_mut() {
        replaced.push(("s".to_string(), 0));
        args[0] = "&mut s".into();
    }
    for (i, o) in form.outs().into_iter().enumerate() {
        args.push(format!("&mut {o}"));
        replaced.push((o, row.schema.args.len() + i));
    }
    for (name, i) in &replaced {
        let _ = writeln!(body, "let mut {name} = or_return!(arg::<Tensor>(a, {i}));");
    }
    let call = format!("{f}({})", args.join(", "));
    if !replaced.is_empty() {
        let values: Vec<String> = replaced.iter().map(|(n, _)| format!("{n}.into_value()")).collect();
        let _ = writeln!(body, "or_return!({call});\nOk(vec![{}])", values.join(", "));
    } else if form.writes() {
        let _ = writeln!(body, "or_return!({call});\nOk({written})");
    } else {
        let _ = writeln!(body, "or_return!({call}).into_values()");
    }
    body
}

/// From the arguments `names` to values, and from values to the results; `again` is the call that a watcher alone sent here.
fn adaptor_body(form: &Form, names: &[String], info: &str, again: &str) -> String {
    let replaced: Vec<bool> = form.params().iter().map(|p| p.1 == "&mut Tensor").collect();
    let value = |(n, replaced): (&String, &bool)| if *replaced { format!("&&*{n}") } else { format!("&{n}") };
    let values: Vec<String> = names.iter().zip(&replaced).map(value).collect();
    let (values, call) = (values.join(", "), format!("{again}({})", names.join(", ")));
    let targets: Vec<&String> = names.iter().zip(&replaced).filter(|p| *p.1).map(|p| p.0).collect();
    if targets.is_empty() {
        return format!("adapted({info}, &[{values}], &mut |()| {call})\n");
    }
    let mut body = format!(
        "let values_: &[&dyn AsValue] = &[{values}];\nif let Some(_seen) = watched({info}, values_) {{\nreturn {call};\n}}\n\
         let v = or_return!(call_fallback({info}, values_));\n"
    );
    for (i, o) in targets.iter().enumerate() {
        let _ = writeln!(body, "*{o} = or_return!(arg(&v, {i}));");
    }
    body + "Ok(())\n"
}
