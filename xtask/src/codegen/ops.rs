//! `generated/ops.rs`: the fallible functions, every argument explicit.

use super::form::{Form, Mode};
use super::types::default_doc;
use crate::table::{Family, Row};
use std::fmt::Write;

/// Emits the file's text (not formatted).
pub fn emit(families: &[Family]) -> String {
    let modules: Vec<&str> = families.iter().map(|f| f.module.as_str()).collect();
    let mut out = format!(
        "//! Every operator as a function with all arguments, errors as values.\n\n\
         #[allow(unused_imports)]\nuse super::{{prelude::*, {}}};\n\n",
        modules.join(", ")
    );
    for f in families {
        for row in &f.rows {
            for form in Form::all(row) {
                one(&mut out, &f.module, &form);
            }
        }
    }
    out
}

/// Doc lines: the row's sentence, its details, sizes, dtypes and errors, the example, the documented defaults.
pub fn docs(row: &Row, mode: Mode, example: bool, defaults: bool) -> String {
    let mut s = format!("/// {}", row.doc.trim());
    match mode {
        Mode::Plain => s.push('\n'),
        Mode::Inplace => s.push_str(" In place: the first tensor takes the result.\n"),
        Mode::Out => s.push_str(" Into `out`, which is resized where its shape differs.\n"),
    }
    if !row.details.is_empty() {
        s.push_str("///\n");
        for l in row.details.trim().lines() {
            let _ = writeln!(s, "/// {}", l.trim_end());
        }
    }
    let said = &row.described;
    let mut begin = "///\n";
    for (what, text) in [("Shapes", &said.shapes), ("Dtypes", &said.dtypes), ("Errors", &said.errors)] {
        if !text.is_empty() {
            let text: Vec<&str> = text.split_whitespace().collect();
            let _ = writeln!(s, "{begin}/// - {what}: {}", text.join(" "));
            begin = "";
        }
    }
    if example && mode == Mode::Plain && !said.example.is_empty() {
        // not as Rust: thousands of documentation tests would take hours; the facade's tests run it
        s.push_str("///\n/// ```text\n");
        for l in said.example.trim().lines() {
            let _ = writeln!(s, "/// {}", l.trim_end());
        }
        s.push_str("/// ```\n");
    }
    let d: Vec<String> = row
        .schema
        .args
        .iter()
        .filter_map(|a| a.default.as_ref().map(|d| format!("`{} = {}`", a.name, default_doc(d))))
        .collect();
    if defaults && !d.is_empty() {
        let _ = writeln!(s, "///\n/// Documented defaults: {}.", d.join(", "));
    }
    s
}

/// `#[doc(alias)]` for documented names.
pub fn aliases(names: &[String]) -> String {
    let mut s = String::new();
    for n in names {
        let _ = writeln!(s, "#[doc(alias = {n:?})]");
    }
    s
}

fn one(out: &mut String, family: &str, form: &Form) {
    out.push_str(&docs(form.row, form.mode, true, true));
    out.push_str(&aliases(&super::family::python_names(form)));
    let mut check = String::new();
    for (a, (n, _)) in form.schema_args().iter().zip(form.params()) {
        if a.mutated && a.ty.is_one_tensor() {
            let _ = writeln!(check, "or_return!(out::writable({n}));");
        } else if a.mutated && a.ty.list.is_some() && !a.ty.opt_elem {
            let _ = writeln!(check, "for t in {n} {{ or_return!(out::writable(t)); }}");
        }
    }
    let pins = |a: &&crate::schema::Arg| a.name == "pin_memory" && a.ty.opt;
    if form.mode == Mode::Plain && form.ret() == "Tensor" && form.row.schema.args.iter().any(|a| pins(&a)) {
        // made as without it, and moved
        let names = form.params().into_iter().map(|(n, _)| if n == "pin_memory" { "None".into() } else { n });
        let names = names.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            check,
            "if pin_memory == Some(true) {{ return pinned::made({}({names})?); }}",
            form.ident()
        );
    }
    let get = if form.mode == Mode::Out || form.row.body.is_some() { "look_up" } else { "get" };
    let _ = writeln!(
        out,
        "pub fn {}({}) -> Result<{}> {{\n{check}match {family}::{}.{get}({}) {{\nOk(f) => f({}),\nErr(e) => Err(e),\n}}\n}}\n",
        form.ident(),
        form.params_text(),
        form.ret(),
        form.stat(),
        form.keys(),
        form.names_text(),
    );
}
