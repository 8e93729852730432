//! `generated/FAMILY.rs`: operator objects, kernels' slots, boxed calls, adaptors.

use super::calls::Calls;
use super::form::{Form, Mode, arg_ident, is_factory};
use super::types::{core_default, core_ty};
use crate::schema::{Arg, Base, Default};
use crate::table::{Apart, Family, Grad, Kind, NodeName, OutGrad, OutRule, Row};
use std::fmt::Write;

/// Emits the file's text (not formatted); `all` are the crate's families.
pub fn emit(f: &Family, all: &[Family], calls: &Calls, package: &str) -> Result<String, String> {
    let mut out = format!(
        "//! Operators of the family `{0}`.\n\n\
         #[allow(unused_imports)]\nuse super::{{D, a, args, calls, kw, mu, nu, ops, prelude::*}};\n\
         #[allow(unused_imports)]\nuse crate::ops::{0} as f;\n\n",
        f.name
    );
    for row in &f.rows {
        for form in Form::all(row) {
            op(&mut out, &form, all, calls, package, &f.module)
                .map_err(|e| format!("{}: {}: {e}", f.file.display(), form.aten()))?;
        }
    }
    Ok(out)
}

fn check_call(form: &Form) -> String {
    let row = form.row;
    let args: Vec<String> = row.schema.args.iter().map(|a| arg_ident(&a.name)).collect();
    let inplace = row.inplace_check.as_ref().filter(|_| form.mode == Mode::Inplace);
    let out = row.out_check.as_ref().filter(|_| form.mode == Mode::Out);
    let out = out.map(|c| format!("f::{c}({}, out)?;\n", args.join(", ")));
    let all = row.check.iter().chain(inplace).map(|c| format!("f::{c}({})?;\n", args.join(", ")));
    out.into_iter().chain(all).collect()
}

fn op(
    out: &mut String,
    form: &Form,
    all: &[Family],
    calls: &Calls,
    package: &str,
    module: &str,
) -> Result<(), String> {
    let row = form.row;
    let (stem, stat, fn_ty, ret) = (form.stem(), form.stat(), form.fn_ty(), form.ret());
    let w = |out: &mut String, s: std::fmt::Arguments| out.write_fmt(s).map_err(|e| e.to_string());
    let kernels = kernels(out, form)?;
    let types: Vec<String> = form.params().into_iter().map(|p| p.1).collect();
    w(
        out,
        format_args!(
            "/// Type of [`{stat}`].\npub type {fn_ty} = fn({}) -> Result<{ret}>;\n",
            types.join(", ")
        ),
    )?;

    let grad = match &row.grad {
        Grad::None => "None",
        Grad::Composite => "Composite",
        Grad::Formulas(_) => "Formula",
    };
    w(out, format_args!("/// `{}`: {}\n", form.aten(), row.doc))?;
    let make = if form.is_composite() {
        format!("Op::composite(&{stat}_INFO, {}, {stem}_adaptor)", kernels[0].1)
    } else {
        let mut slots: Vec<String> = kernels.iter().map(|(k, f)| format!("(Key::{k}, {f})")).collect();
        if super::autograd::has_wrapper(form) {
            slots.push(format!("(Key::Autograd, super::{module}_grad::{stem}_autograd)"));
        }
        format!("Op::new(&{stat}_INFO, &[{}], {stem}_adaptor)", slots.join(", "))
    };
    w(out, format_args!("pub static {stat}: Op<{fn_ty}> = {make};\n"))?;

    let mut args = Vec::new();
    for a in form.schema_args() {
        let name = if a.kw_only { "kw" } else { "a" };
        let text = format!("{name}({:?}, {}, {})", a.name, core_ty(a.ty)?, core_default(&a));
        let text = if row.operand.contains(&a.name) { format!("nu({text})") } else { text };
        args.push(if a.mutated { format!("mu({text})") } else { text });
    }
    let mut returns = Vec::new();
    for (n, t) in &row.schema.returns {
        returns.push(format!("({n:?}, {})", core_ty(*t)?));
    }
    let (aten, conventions) = by_name(form);
    let python: Vec<String> = python_names(form).iter().map(|p| format!("{p:?}")).collect();
    w(
        out,
        format_args!(
            "pub(super) static {stat}_INFO: OpInfo = OpInfo {{ name: {:?}, owner: {package:?}, schema: Schema {{ args: &[{}], \
             returns: &[{}] }}, python: &[{}], aten: &{aten:?}, conventions: {conventions}, composite: {}, pointwise: {}, names: NameRule::{}, autocast: {}, boxed: {stem}_boxed, doc: {:?}, \
             grad: Differentiability::{grad}, functional: {} }};\n",
            form.aten(),
            args.join(", "),
            returns.join(", "),
            python.join(", "),
            form.is_composite(),
            row.kind == Kind::Pointwise,
            super::types::camel(&row.names),
            crate::autocast::text(row.autocast.as_ref().filter(|_| form.mode == Mode::Plain)),
            row.doc,
            functional(form, all),
        ),
    )?;
    calls.of(out, form);
    out.push('\n');
    Ok(())
}

/// The operator that gives what this form writes, or a copy of what it is a view of: the row's own plain form, or the row
/// that PyTorch names after it (`normal_` and `normal`, `select` and `select_copy`).
fn functional(form: &Form, all: &[Family]) -> String {
    let named = |module: &str, row: &Row| {
        let stat = Form { row, mode: Mode::Plain }.stat();
        format!("Some(&super::{module}::{stat}_INFO)")
    };
    let row = form.row;
    if form.mode != Mode::Plain {
        return match row.schema.mutates() {
            true => "None".into(),
            false => format!("Some(&{}_INFO)", Form { row, mode: Mode::Plain }.stat()),
        };
    }
    let base = match row.schema.mutates() {
        true => row.schema.base.strip_suffix('_').map(str::to_string),
        false => Some(format!("{}_copy", row.schema.base)),
    };
    let args = &row.schema.args;
    // flags may follow, which are left out
    let same = |all: &[Arg]| {
        all.len() >= args.len()
            && all.iter().zip(args).all(|(a, b)| a.name == b.name)
            && all[args.len()..].iter().all(|a| matches!(a.default, Some(Default::Bool(false))))
    };
    let is = |r: &&Row| {
        base.as_ref() == Some(&r.schema.base)
            && r.schema.overload == row.schema.overload
            && !r.schema.mutates()
            && same(&r.schema.args)
    };
    let found = all.iter().find_map(|f| Some((f, f.rows.iter().find(is)?)));
    found.map_or_else(|| "None".into(), |(f, r)| named(&f.module, r))
}

/// Further names in ATen, and what calls by name ask for, which `out=` forms follow their operator in.
fn by_name(form: &Form) -> (Vec<String>, String) {
    let row = form.row;
    let own = |n: &&String| n.ends_with('_') == (form.mode == Mode::Inplace || row.schema.mutates());
    let conventions = if form.mode == Mode::Out { &[][..] } else { &row.conventions };
    (row.aten.iter().filter(own).cloned().collect(), crate::conventions::text(conventions))
}

/// Documented names of this form.
pub fn python_names(form: &Form) -> Vec<String> {
    let row = form.row;
    let all = row.python.iter().chain(&row.alias);
    let full = |p: &str| if p.starts_with("Tensor.") { format!("torch.{p}") } else { p.to_string() };
    let all: Vec<&String> = all.collect();
    let own = all.iter().filter(|p| row.names_inplace(p)).map(|p| full(p));
    let plain = all.iter().filter(|p| !row.names_inplace(p));
    match form.mode {
        Mode::Plain => plain.map(|p| full(p)).collect(),
        Mode::Inplace => {
            let methods = plain.filter(|p| p.starts_with("Tensor.")).map(|p| format!("torch.{p}_"));
            methods.chain(own).collect()
        }
        Mode::Out => plain.filter(|p| !p.starts_with("Tensor.")).map(|p| full(p)).collect(),
    }
}

/// Emits the slot functions of the form and says which key has which.
fn kernels(out: &mut String, form: &Form) -> Result<Vec<(&'static str, String)>, String> {
    match form.row.kind {
        Kind::Pointwise => pointwise(out, form),
        Kind::Structured => {
            // checks of the `out=` form come before anything is computed
            Ok(super::structured::slot(out, form, |out, name| {
                head(out, form, name);
                out_checks(out, form);
            }))
        }
        Kind::View | Kind::Composite | Kind::Direct => Ok(by_hand(out, form)),
    }
}

fn head(out: &mut String, form: &Form, name: &str) {
    let _ = writeln!(out, "fn {name}({}) -> Result<{}> {{", form.params_text(), form.ret());
    out.push_str(&check_call(form));
}

fn pointwise(out: &mut String, form: &Form) -> Result<Vec<(&'static str, String)>, String> {
    let row = form.row;
    let name = format!("{}_kernel", form.stem());
    if let Some(plan) = &row.plan {
        let args: Vec<String> = row.schema.args.iter().map(|a| arg_ident(&a.name)).collect();
        let run = match form.mode {
            Mode::Plain => "run()".to_string(),
            Mode::Inplace => format!("run_inplace({})", args[0]),
            Mode::Out => format!("run_out({}, out)", super::structured::out_dtype(row, 0)),
        };
        let kernels = format!("{}_KERNELS", row.rust.trim_end_matches('_').to_ascii_uppercase());
        if form.mode == Mode::Plain {
            let forms: Vec<String> = Form::all(row).iter().map(|f| format!("{}.any()", f.stat())).collect();
            let _ = writeln!(
                out,
                "/// Kernels of `{}` on devices that are not built in.\npub static {kernels}: Kernels<PointwiseKernel> = \
                 Kernels::new(&[{}]);",
                row.schema.full_name(),
                forms.join(", ")
            );
        }
        head(out, form, &name);
        let _ = writeln!(out, "f::{plan}({})?.on(&{kernels}).{run}\n}}", args.join(", "));
        return Ok(vec![("Cpu", name.clone()), ("Meta", name)]);
    }
    let base = row.rust.trim_end_matches('_').to_ascii_uppercase();
    let inputs: Vec<String> =
        row.schema.args.iter().filter(|a| a.ty.is_tensor()).map(|a| arg_ident(&a.name)).collect();
    let mut params = Vec::new();
    for p in &row.params {
        let a = row.schema.args.iter().find(|a| a.name == *p).ok_or("no such parameter")?;
        if a.ty.opt || a.ty.list.is_some() {
            return Err(format!("parameter `{p}` must be a plain number"));
        }
        let n = arg_ident(p);
        params.push(match a.ty.base {
            Base::Scalar => format!("{n}.param()"),
            Base::Int | Base::Float | Base::Bool => format!("Scalar::from({n}).param()"),
            _ => return Err(format!("parameter `{p}` must be a number")),
        });
    }
    let operands = format!("&[{}], &[{}]", inputs.join(", "), params.join(", "));
    let call = format!("&{base}_SPEC, {operands}");
    let body = match form.mode {
        Mode::Plain => format!("pointwise::pointwise({call})"),
        Mode::Inplace => format!("pointwise::pointwise_inplace({call})"),
        Mode::Out => {
            let rule = super::structured::out_dtype(row, 0);
            format!("pointwise::pointwise_out(&{base}_SPEC, {rule}, {operands}, out)")
        }
    };
    {
        if form.mode == Mode::Plain {
            let kernel = row.kernel.as_deref().unwrap_or("");
            let _ = writeln!(
                out,
                "/// `{}`: formula and rules.\npub static {base}_SPEC: PointwiseSpec = PointwiseSpec {{ name: {:?}, label: {}, \
                 kernel: &flambeau_cpu::pointwise::{kernel}, promote: Promote::{}, rare: {}, \
                 kernels: Kernels::new(&[{}]) }};",
                row.schema.full_name(),
                row.rust,
                label(&row.label),
                super::types::camel(&row.promote),
                rare(&row.rare),
                Form::all(row).iter().map(|f| format!("{}.any()", f.stat())).collect::<Vec<_>>().join(", "),
            );
        }
        head(out, form, &name);
        let _ = writeln!(out, "{body}\n}}");
    }
    Ok(vec![("Cpu", name.clone()), ("Meta", name)])
}

/// What errors call the row.
fn label(l: &crate::table::Label) -> String {
    let plain = format!("Label::plain({:?})", l.name);
    let mut fields: Vec<String> =
        [("narrow", &l.narrow), ("narrow_number", &l.narrow_number), ("real", &l.real)]
            .into_iter()
            .filter_map(|(field, text)| text.as_ref().map(|t| format!("{field}: Some({t:?})")))
            .collect();
    if l.refuse_narrow_number {
        fields.push("refuse_narrow_number: true".into());
    }
    if fields.is_empty() { plain } else { format!("Label {{ {}, ..{plain} }}", fields.join(", ")) }
}

/// The set of dtypes that `rare` names.
fn rare(names: &[String]) -> String {
    let parts: Vec<String> = names.iter().map(|n| format!("Rare::{}", n.to_uppercase())).collect();
    if parts.is_empty() { "Rare::NONE".into() } else { parts.join(".and(") + &")".repeat(parts.len() - 1) }
}

/// What an `out=` form asks of its outputs before anything else.
fn out_checks(out: &mut String, form: &Form) {
    let row = form.row;
    if form.mode != Mode::Out || row.out_apart.is_none() && !row.out_overlap_first {
        return;
    }
    let outs = form.outs();
    if row.out_overlap_first {
        for o in &outs {
            let _ = writeln!(out, "crate::iter::check_no_internal_overlap({o})?;");
        }
    }
    if let Some(apart) = &row.out_apart {
        let tensors: Vec<_> = row.schema.args.iter().filter(|a| a.ty.is_tensor()).collect();
        let outs: Vec<String> = outs.iter().map(|o| format!("&*{o}")).collect();
        let inputs = super::autograd::tensor_slice(&tensors);
        let text = match apart {
            Apart::OfEachOther(text) => format!("Some({text:?})"),
            Apart::OfInputs(_) => "None".into(),
        };
        let _ = writeln!(out, "out::apart({text}, {inputs}, &[{}])?;", outs.join(", "));
    }
}

fn by_hand(out: &mut String, form: &Form) -> Vec<(&'static str, String)> {
    let row = form.row;
    let rust = super::types::ident(&row.rust);
    let keys: &[&'static str] = match (row.kind, form.mode) {
        _ if form.is_composite() => &["Cpu"],
        (Kind::View | Kind::Composite, _) => &["Cpu", "Cuda", "Meta", "Private"],
        _ if row.any_device => &["Cpu", "Cuda", "Meta", "Private"],
        _ if row.schema.mutates() || (form.mode == Mode::Inplace && row.inplace_by_hand) => &["Cpu", "Meta"],
        _ => &["Cpu"],
    };
    let hand = form.mode == Mode::Plain || row.inplace_by_hand && form.mode == Mode::Inplace;
    let mut v = Vec::new();
    for key in keys {
        let below = format!("f::{rust}");
        if let Some(body) = &row.body {
            let name = format!("{}_each", form.stem());
            head(out, form, &name);
            let _ = writeln!(out, "{body}\n}}");
            v.push((*key, name));
            continue;
        }
        if hand {
            let target = if form.mode == Mode::Inplace { format!("f::{}", form.ident()) } else { below };
            let node = match &row.node {
                Some(NodeName::Always(n)) if form.is_composite() && form.mode == Mode::Plain => Some(n),
                _ => None,
            };
            if check_call(form).is_empty() && node.is_none() {
                v.push((*key, target));
                continue;
            }
            let name = format!("{}_{}", form.stem(), key.to_ascii_lowercase());
            {
                head(out, form, &name);
                let call = format!("{target}({})", form.names_text());
                let _ = match node {
                    Some(n) => writeln!(out, "graph::named(&{n:?}, || {call})\n}}"),
                    None => writeln!(out, "{call}\n}}"),
                };
            }
            v.push((*key, name));
            continue;
        }
        let name = format!("{}_{}", form.stem(), key.to_ascii_lowercase());
        let args: Vec<String> = row.schema.args.iter().map(|a| arg_ident(&a.name)).collect();
        {
            head(out, form, &name);
            if form.self_mut() {
                // the handle becomes the view; the call records it as one
                let _ =
                    writeln!(out, "*{} = or_return!(ops::{rust}({}));\nOk(())\n}}", args[0], args.join(", "));
                v.push((*key, name));
                continue;
            }
            let mut args = args;
            let to = args.first().cloned().unwrap_or_default();
            // the kind of output is asked for before anything else
            for (i, o) in form.outs().iter().enumerate() {
                let of_kind = match row.out_dtype.get(i).or(row.out_dtype.first()) {
                    Some(OutRule::Complex(_)) => "C64",
                    Some(OutRule::Floating(_) | OutRule::Computed(_)) => "F32",
                    _ => continue,
                };
                let rule = super::structured::out_dtype(row, i);
                let _ = writeln!(out, "out::check_out_dtype({rule}, DType::{of_kind}, {o}.dtype())?;");
            }
            if form.is_composite() && form.mode == Mode::Inplace {
                let others: Vec<_> = row.schema.args.iter().skip(1).filter(|a| a.ty.is_tensor()).collect();
                let others = super::autograd::tensor_slice(&others);
                let _ = writeln!(out, "let before = out::before_overwriting({to}, {others})?;");
                args[0] = "&before".into();
            } else if form.is_composite() && row.out_grad.is_late() {
                out.push_str(&super::autograd::late(form));
            } else if form.is_composite() && row.out_grad != OutGrad::Never {
                let tensors: Vec<_> = row.schema.args.iter().filter(|a| a.ty.is_tensor()).collect();
                let outs: Vec<String> = form.outs().iter().map(|o| format!("&*{o}")).collect();
                if is_factory(row) {
                    out.push_str("out::as_factory(out, dtype, layout, device)?;\n");
                }
                let _ = writeln!(
                    out,
                    "out::refuse_gradients({:?}, {}, &[{}])?;",
                    row.out_grad.name(&row.schema.base),
                    super::autograd::asked(form, &tensors),
                    outs.join(", ")
                );
            }
            out_checks(out, form);
            if form.mode == Mode::Out && is_factory(row) {
                // the tensor that is given decides what the call leaves open
                if !form.is_composite() {
                    out.push_str("out::as_factory(out, dtype, layout, device)?;\n");
                }
                out.push_str("let (dtype, device) = (Some(out.dtype()), Some(out.device()));\n");
            }
            let _ = writeln!(out, "let r = or_return!({below}({}));", args.join(", "));
            if form.mode == Mode::Inplace {
                let _ = writeln!(out, "out::copy_to_self({to}, &r)\n}}");
            } else {
                let outs = form.outs();
                let n = outs.len();
                for (i, o) in outs.iter().enumerate() {
                    let r = if n == 1 { "&r".to_string() } else { format!("&r.{i}") };
                    let end = if i + 1 == n { "\n}" } else { "?;" };
                    let rule = super::structured::out_dtype(row, i);
                    let copy = super::structured::copy_to_out(row);
                    let _ = writeln!(out, "out::{copy}({rule}, {o}, {r}){end}");
                }
            }
        }
        v.push((*key, name));
    }
    v
}
