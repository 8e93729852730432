//! Structured rows: the struct of a row's arguments, its kernels by back end, and the one function that all forms and all
//! devices share: shape, outputs, kernel, finish.

use super::form::{Form, Mode, arg_ident};
use super::types::{camel, param_ty};
use crate::schema::{Arg, Ty};
use crate::table::{OutRule, Row};
use std::fmt::Write;

/// What a structured row gives.
enum Results {
    /// One tensor.
    One,
    /// So many tensors.
    Several(usize),
    /// A list, some of whose entries may not be asked for.
    Chosen,
}

fn results(row: &Row) -> Results {
    match &row.schema.returns[..] {
        [(_, ty)] if ty.list.is_some() => Results::Chosen,
        [_] => Results::One,
        several => Results::Several(several.len()),
    }
}

/// `AvgPool`: the struct of the row's arguments.
fn struct_name(row: &Row) -> String {
    camel(row.rust.trim_end_matches('_'))
}

/// A parameter's type with the struct's lifetime.
fn field_ty(ty: Ty) -> String {
    param_ty(ty).replace('&', "&'a ")
}

/// Whether the struct borrows anything.
fn borrows(row: &Row) -> bool {
    row.schema.args.iter().any(|a| param_ty(a.ty).contains('&'))
}

/// The struct of a row's arguments, for `generated/args.rs`.
pub fn arguments(out: &mut String, row: &Row) {
    let life = if borrows(row) { "<'a>" } else { "" };
    let _ = writeln!(out, "/// Arguments of `{}`.", row.schema.full_name());
    let _ = writeln!(out, "#[derive(Clone, Copy)]\npub struct {}{life} {{", struct_name(row));
    for a in &row.schema.args {
        let _ = writeln!(out, "/// `{}`\npub {}: {},", a.name, arg_ident(&a.name), field_ty(a.ty));
    }
    out.push_str("}\n\n");
}

/// The row's kernels: the CPU's function, written by hand, and a slot for each further back end.
fn kernels(out: &mut String, row: &Row) {
    let (name, base) = (struct_name(row), row.rust.trim_end_matches('_').to_ascii_uppercase());
    let outs = match results(row) {
        _ if row.found => "".to_string(),
        Results::One => "&Tensor".to_string(),
        Results::Several(n) => format!("[&Tensor; {n}]"),
        Results::Chosen => "&[Option<&Tensor>]".to_string(),
    };
    let forms: Vec<String> = Form::all(row).iter().map(|f| format!("{}.any()", f.stat())).collect();
    let aten = row.schema.full_name();
    let gives = if row.found { super::types::return_ty(&row.schema.returns) } else { "()".into() };
    let _ = writeln!(
        out,
        "/// A back end's kernel of `{aten}`.\npub type {name}Kernel = fn(&args::{name}, {outs}) -> Result<{gives}>;\n\
         /// The kernels of `{aten}`.\npub static {base}_KERNEL: Kernel<{name}Kernel> = \
         Kernel::new(f::{}_cpu, &[{}]);\n",
        row.rust.trim_end_matches('_'),
        forms.join(", ")
    );
}

/// The rule for the dtype of output `i` of the `out=` form.
pub fn out_dtype(row: &Row, i: usize) -> String {
    let text = |t: &str| format!("{t:?}");
    let rule = row.out_dtype.get(i).or(row.out_dtype.first());
    match rule.unwrap_or(&OutRule::Cast) {
        OutRule::Cast => "&OutDtype::Cast".into(),
        OutRule::CastOr(t, true) => format!("&OutDtype::CastOrType({})", text(t)),
        OutRule::CastOr(t, false) => format!("&OutDtype::CastOr({})", text(t)),
        OutRule::Any => "&OutDtype::Any".into(),
        OutRule::Follows => "&OutDtype::EXACT".into(),
        OutRule::Exact(t) if t == crate::table::EXACT => "&OutDtype::EXACT".into(),
        OutRule::Exact(t) => format!("&OutDtype::Exact({})", text(t)),
        OutRule::ExactOrByte(t) => format!("&OutDtype::ExactOrByte({})", text(t)),
        OutRule::Complex(t) => format!("&OutDtype::Complex({})", text(t)),
        OutRule::Floating(t) => format!("&OutDtype::Floating({})", text(t)),
        OutRule::Computed(t) => format!("&OutDtype::Computed({})", text(t)),
    }
}

/// The rest of a slot whose kernel makes its results: sizes that depend on data.
fn found(out: &mut String, form: &Form, tensors: &[&Arg]) {
    let row = form.row;
    let base = row.rust.trim_end_matches('_').to_ascii_uppercase();
    let device = match tensors {
        [one, ..] if one.ty.is_one_tensor() => format!("{}.device()", arg_ident(&one.name)),
        _ => "Device::Cpu".into(),
    };
    let call = format!("soft(|| {base}_KERNEL.here({device})?(&given))");
    let outs = form.outs();
    if outs.is_empty() {
        let _ = writeln!(out, "{call}\n}}");
        return;
    }
    let _ = writeln!(out, "let r = or_return!({call});");
    for (i, o) in outs.iter().enumerate() {
        let r = if outs.len() == 1 { "&r".to_string() } else { format!("&r.{i}") };
        let end = if i + 1 == outs.len() { "\n}" } else { "?;" };
        let copy = copy_to_out(row);
        let _ = writeln!(out, "out::{copy}({}, {o}, {r}){end}", out_dtype(row, i));
    }
}

/// The function that serves the form on every device.
pub fn slot(out: &mut String, form: &Form, head: impl Fn(&mut String, &str)) -> Vec<(&'static str, String)> {
    let row = form.row;
    if form.mode == Mode::Plain {
        kernels(out, row);
    }
    let base = row.rust.trim_end_matches('_').to_ascii_uppercase();
    let name = format!("{}_slot", form.stem());
    head(out, &name);
    let fields: Vec<String> = row.schema.args.iter().map(|a| arg_ident(&a.name)).collect();
    if form.mode == Mode::Out && row.out_dtype.first() == Some(&OutRule::Follows) {
        out.push_str("let dtype = dtype.or(Some(out.dtype()));\n");
    }
    let _ = writeln!(out, "let given = args::{} {{ {} }};", struct_name(row), fields.join(", "));
    let run = |device: &str, outs: &str| {
        format!(
            "or_return!({base}_KERNEL.run({device}, &mut |kernel: {}Kernel| -> Result<()> {{ kernel(&given, {outs}) }}));\n",
            struct_name(row)
        )
    };
    let shape = format!("or_return!(f::{}_shape(&given))", row.rust.trim_end_matches('_'));
    let tensors: Vec<_> = row.schema.args.iter().filter(|a| a.ty.is_tensor()).collect();
    let inputs = super::autograd::tensor_slice(&tensors);
    if row.found {
        found(out, form, &tensors);
        return vec![("Cpu", name)];
    }
    if let Some(updated) = &row.updates {
        let others: Vec<_> = tensors.iter().copied().filter(|a| a.name != *updated).collect();
        let others = super::autograd::tensor_slice(&others);
        let to = arg_ident(updated);
        let run = |outs: &str| run("m.device", outs);
        let _ = writeln!(out, "let m = {shape};");
        let _ = match form.mode {
            Mode::Plain if !row.schema.mutates() => {
                writeln!(out, "let o = or_return!(m.copy({to}));\n{}Ok(o)\n}}", run("&o"))
            }
            Mode::Plain | Mode::Inplace => {
                writeln!(
                    out,
                    "let o = or_return!(m.inplace({to}, {others}));\n{}o.finish()\n}}",
                    run("o.tensor()")
                )
            }
            Mode::Out => writeln!(
                out,
                "let o = or_return!(m.out({}, out, {to}, {inputs}));\n{}o.finish()\n}}",
                out_dtype(row, 0),
                run("o.tensor()")
            ),
        };
        return vec![("Cpu", name.clone()), ("Meta", name)];
    }
    match (form.mode, results(row)) {
        (Mode::Plain, Results::One) => {
            let _ = writeln!(
                out,
                "let m = {shape};\nlet o = or_return!(m.alloc());\n{}Ok(o)\n}}",
                run("m.device", "&o")
            );
        }
        (Mode::Plain, Results::Several(n)) => {
            let each = |f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                out,
                "let m = {shape};\nlet o = [{}];\n{}let [{o}] = o;\nOk(({o}))\n}}",
                each(&|i| format!("or_return!(m[{i}].alloc())")),
                run("m[0].device", &format!("[{}]", each(&|i| format!("&o[{i}]")))),
                o = each(&|i| format!("o{i}")),
            );
        }
        (Mode::Plain, Results::Chosen) => {
            let _ = writeln!(
                out,
                "let m = {shape};\nlet o = or_return!(m.alloc());\n{}Ok(o)\n}}",
                run("m.device()", "&m.wanted(&o)")
            );
        }
        (Mode::Inplace, _) => {
            let _ = writeln!(
                out,
                "let m = {shape};\nlet o = or_return!(m.inplace({}));\n{}o.finish()\n}}",
                fields[0],
                run("m.device", "o.tensor()")
            );
        }
        (Mode::Out, results) => {
            let outs = form.outs();
            let _ = writeln!(out, "let m = {shape};");
            let one = matches!(results, Results::One);
            for (i, o) in outs.iter().enumerate() {
                let m = if one { "m".to_string() } else { format!("m[{i}]") };
                let call =
                    if row.out_resized.as_deref() == Some("contiguous") { "out_contiguous" } else { "out" };
                let _ =
                    writeln!(out, "let o{i} = or_return!({m}.{call}({}, {o}, {inputs}));", out_dtype(row, i));
            }
            let written: Vec<String> = (0..outs.len()).map(|i| format!("o{i}.tensor()")).collect();
            out.push_str(&match one {
                true => run("m.device", &written[0]),
                false => run("m[0].device", &format!("[{}]", written.join(", "))),
            });
            for i in 0..outs.len() {
                let _ = writeln!(out, "o{i}.finish(){}", if i + 1 == outs.len() { "\n}" } else { "?;" });
            }
        }
    }
    vec![("Cpu", name.clone()), ("Meta", name)]
}

/// The function that copies a result over an output of this row.
pub(super) fn copy_to_out(row: &Row) -> &'static str {
    if row.out_resized.as_deref() == Some("result") { "copy_to_out_as_it_lies" } else { "copy_to_out" }
}
