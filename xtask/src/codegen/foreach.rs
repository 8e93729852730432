//! List forms of rows: `foreach = true`, or the argument lists of several overloads, as PyTorch's `_foreach_*` schemas have
//! them. Each becomes a row of the family `foreach`, a composite whose body calls the base row for every element, and so
//! records what the base row records; with an in-place form where the base has one.

use super::form::arg_ident;
use super::types::{default_param, ident};
use crate::schema::{Arg, Base, Schema};
use crate::table::{Described, Family, Grad, Kind, Row, snake};
use std::path::PathBuf;

/// The family of all list forms; `None` where no row asks for any.
pub fn family(families: &[Family]) -> Result<Option<Family>, String> {
    let mut rows: Vec<(String, Row)> = Vec::new();
    for f in families {
        for base in &f.rows {
            for text in &base.foreach {
                let at = |e: String| {
                    format!("{}: {}: foreach `{text}`: {e}", f.file.display(), base.schema.full_name())
                };
                let new = forms(base, text).map_err(at)?;
                // a second row of the same name has the overloads with numbers, which Python tries first
                let from = base.schema.full_name();
                let other = |r: &(String, Row)| r.1.schema.base == new[0].schema.base && r.0 != from;
                let place = rows.iter().position(other).unwrap_or(rows.len());
                rows.splice(place..place, new.into_iter().map(|r| (from.clone(), r)));
            }
        }
    }
    let file = PathBuf::from("foreach");
    let rows: Vec<Row> = rows.into_iter().map(|r| r.1).collect();
    Ok((!rows.is_empty()).then(|| Family { name: "foreach".into(), module: "foreach".into(), file, rows }))
}

/// The rows of one list form: itself, and in place.
fn forms(base: &Row, text: &str) -> Result<Vec<Row>, String> {
    let schema = schema(base, text)?;
    let list = schema.args.first().is_some_and(|a| a.ty.is_tensor() && a.ty.list.is_some());
    let mut rows = vec![row(base, schema.clone(), false)?];
    if base.inplace && list {
        let mut s = schema;
        s.base += "_";
        s.args[0].mutated = true;
        rows.push(row(base, s, true)?);
    }
    Ok(rows)
}

/// `true` puts lists in the place of tensors; a text gives name and overload, which may be left out, and arguments.
fn schema(base: &Row, text: &str) -> Result<Schema, String> {
    let of = &base.schema;
    if text == "true" {
        let mut s = of.clone();
        s.base = format!("_foreach_{}", of.base);
        s.overload.clear();
        // a base row with keywords that the list form lacks says so by a text
        for a in s.args.iter_mut().filter(|a| a.ty.is_one_tensor()) {
            a.ty.list = Some(0);
        }
        for r in &mut s.returns {
            r.1.list = Some(0);
        }
        return Ok(s);
    }
    let (name, args) = text.split_once('(').ok_or("no arguments")?;
    let name = if name.contains('.') { name.to_string() } else { format!("{}.{name}", of.base) };
    Schema::parse(&format!("_foreach_{}({args} -> Tensor[]", name.trim_end_matches('.')))
}

fn row(base: &Row, schema: Schema, inplace: bool) -> Result<Row, String> {
    let overload =
        if schema.overload.is_empty() { String::new() } else { format!("_{}", snake(&schema.overload)) };
    let end = if schema.mutates() { "_" } else { "" };
    let each = if inplace { format!("{}_", base.rust) } else { ident(&base.rust) };
    let doc = base.doc.trim_end_matches('.');
    Ok(Row {
        rust: format!("{}{overload}{end}", schema.base.trim_end_matches('_')),
        python: vec![format!("torch.{}", schema.base)],
        alias: Vec::new(),
        kind: Kind::Composite,
        doc: format!("{doc}; for every tensor of a list.{}", if inplace { " In place." } else { "" }),
        details: String::new(),
        described: Described::default(),
        operand: Vec::new(),
        either: None,
        positional: schema.args.iter().filter(|a| a.default.is_some()).map(|a| a.name.clone()).collect(),
        inplace: false,
        inplace_by_hand: false,
        out: false,
        check: None,
        inplace_check: None,
        out_check: None,
        names: "unsupported".into(),
        grad: Grad::Composite,
        diff_outputs: Vec::new(),
        jvp: None,
        short: Vec::new(),
        deprecated: None,
        ergonomic: true,
        foreach: Vec::new(),
        aten: Vec::new(),
        conventions: Vec::new(),
        functional: false,
        vmap: "body".into(),
        reads: None,
        body: Some(body(base, &schema, &each)?),
        schema,
        ..base.clone()
    })
}

/// Checks, then a call of the base for every element. Arguments meet by name, the others in order; what the list form does
/// not have takes the base's default.
fn body(row: &Row, list: &Schema, each: &str) -> Result<String, String> {
    let (base, said) = (&row.schema, &row.foreach_errors);
    let mut rest = list.args.iter().filter(|l| !base.args.iter().any(|b| b.name == l.name));
    let mut pairs: Vec<(&Arg, Option<&Arg>)> = Vec::new();
    for b in &base.args {
        let same = list.args.iter().find(|l| l.name == b.name);
        pairs.push((b, same.or_else(|| rest.next())));
    }
    if rest.next().is_some() {
        return Err("more arguments than the base row has".into());
    }
    let (mut checks, mut pre, mut args) = (String::new(), String::new(), Vec::new());
    let lead =
        list.args.iter().find(|a| a.ty.is_tensor() && a.ty.list.is_some()).ok_or("no list of tensors")?;
    for (b, l) in pairs {
        let Some(l) = l else {
            let d = b.default.as_ref().ok_or_else(|| format!("`{}` is given by nothing", b.name))?;
            args.push(default_param(b.ty, d));
            continue;
        };
        let n = arg_ident(&l.name);
        args.push(match (b.ty.base, l.ty.base, l.ty.list.is_some()) {
            (Base::Tensor, Base::Tensor, true) if l.name == lead.name => format!("&{n}[i]"),
            (Base::Tensor, Base::Tensor, true) => {
                checks += &format!("f::same_lengths({}, {n}, {:?})?;\n", arg_ident(&lead.name), said.lengths);
                format!("&{n}[i]")
            }
            (Base::Tensor, Base::Scalar, true) => {
                checks += &format!("f::as_many_numbers({}, {n}.len())?;\n", arg_ident(&lead.name));
                format!("&f::number({n}[i])?")
            }
            (Base::Scalar, Base::Scalar, true) => {
                checks += &format!("f::as_many_numbers({}, {n}.len())?;\n", arg_ident(&lead.name));
                format!("{n}[i]")
            }
            (Base::Tensor, Base::Scalar, false) => {
                pre += &format!("let {n} = f::number({n})?;\n");
                format!("&{n}")
            }
            (Base::Tensor, Base::Tensor, false) => {
                checks += &format!("f::one_number({n})?;\n");
                n
            }
            (Base::Scalar, Base::Tensor, false) => {
                pre += &format!("let {n} = f::unpacked({}, {n})?;\n", arg_ident(&lead.name));
                format!("{n}[i]")
            }
            (x, y, false) if x == y => n,
            _ => return Err(format!("`{}` cannot become `{}`", l.name, b.name)),
        });
    }
    let n = arg_ident(&lead.name);
    let call = format!("ops::{each}({})", args.join(", "));
    let all = if list.mutates() {
        format!("f::each_({n}, &mut |i: usize| -> Result<()> {{ {call} }})")
    } else {
        format!("f::each({n}, &mut |i: usize| -> Result<Tensor> {{ {call} }})")
    };
    let elements =
        said.elements.as_ref().map(|t| format!("f::with_elements({n}, {t:?})?;\n")).unwrap_or_default();
    Ok(format!("f::some({n}, {:?})?;\n{elements}{checks}{pre}{all}", said.empty))
}
