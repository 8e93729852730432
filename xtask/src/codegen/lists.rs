//! Rows that follow from rows which write to lists of tensors. `functional` makes the two forms that PyTorch derives from
//! such a schema: one that writes to copies and returns them, and one that puts the first list's result into `out`.
//! `reads` gives an overload, whose tensors of one element are numbers there, its body.

use super::form::arg_ident;
use crate::schema::{Arg, Base, Ty};
use crate::table::{Family, Grad, Kind, Row, snake};

/// Gives bodies to the rows that read others, and adds the forms that rows ask for.
pub fn complete(families: &mut [Family]) -> Result<(), String> {
    for f in families {
        let at = |row: &Row, e: String| format!("{}: {}: {e}", f.file.display(), row.schema.full_name());
        let mut new = Vec::new();
        for row in &f.rows {
            if row.functional {
                let plain = functional(row);
                let out = into_out(row, &plain);
                new.extend([plain, out]);
            }
        }
        let bodies: Vec<(usize, String)> = (f.rows.iter().enumerate())
            .filter_map(|(i, row)| Some((i, row, row.reads.as_ref()?)))
            .map(|(i, row, other)| match f.rows.iter().find(|r| r.rust == *other) {
                Some(to) => reading(row, to).map(|body| (i, body)).map_err(|e| at(row, e)),
                None => Err(at(row, format!("reads: the family has no row `{other}`"))),
            })
            .collect::<Result<_, _>>()?;
        for (i, body) in bodies {
            f.rows[i].body = Some(body);
        }
        f.rows.extend(new);
    }
    Ok(())
}

/// The call of `to` with this row's arguments, in the order there.
fn reading(row: &Row, to: &Row) -> Result<String, String> {
    let mut args = Vec::new();
    for want in &to.schema.args {
        let given = row.schema.args.iter().find(|a| a.name == want.name);
        let given = given.ok_or_else(|| format!("reads: no argument `{}`", want.name))?;
        let n = arg_ident(&given.name);
        args.push(match (given.ty == want.ty, given.ty.is_one_tensor(), want.ty.base) {
            (true, ..) => n,
            (_, true, Base::Float) if want.ty.list.is_none() && !want.ty.opt => format!("{n}.try_item()?"),
            _ => return Err(format!("reads: `{}` is no number of the other row", want.name)),
        });
    }
    Ok(format!("ops::{}({})", to.rust, args.join(", ")))
}

fn derived(row: &Row, rust: String, body: String, doc: &str) -> Row {
    Row {
        rust,
        kind: Kind::Composite,
        doc: format!("{}{doc}", row.doc),
        python: Vec::new(),
        alias: Vec::new(),
        grad: Grad::Composite,
        functional: false,
        vmap: "body".into(),
        reads: None,
        body: Some(body),
        ..row.clone()
    }
}

/// The form that writes to copies and returns them.
fn functional(row: &Row) -> Row {
    let rust = row.rust.trim_end_matches('_').to_string();
    let written: Vec<&Arg> = row.schema.args.iter().filter(|a| a.mutated).collect();
    let names: Vec<String> = written.iter().map(|a| arg_ident(&a.name)).collect();
    let mut body: String =
        names.iter().map(|n| format!("let {n} = f::copies({n})?;\n")).collect::<Vec<_>>().concat();
    let given: Vec<String> = (row.schema.args.iter())
        .map(|a| format!("{}{}", if a.mutated { "&" } else { "" }, arg_ident(&a.name)))
        .collect();
    body += &format!("ops::{}({})?;\n", row.rust, given.join(", "));
    body += &match &names[..] {
        [one] => format!("Ok({one})"),
        several => format!("Ok(({}))", several.join(", ")),
    };
    let mut new = derived(row, rust, body, " Writes to copies, and returns them.");
    new.schema.base = row.schema.base.trim_end_matches('_').to_string();
    new.schema.returns = written.iter().map(|a| (format!("{}_out", a.name), a.ty)).collect();
    new.schema.args.iter_mut().for_each(|a| a.mutated = false);
    new
}

/// The form that puts the first list's result into `out`, and writes to nothing else.
fn into_out(row: &Row, plain: &Row) -> Row {
    let given: Vec<String> = row.schema.args.iter().map(|a| arg_ident(&a.name)).collect();
    let first = if plain.schema.returns.len() == 1 { "&r" } else { "&r.0" };
    let body = format!("let r = ops::{}({})?;\nf::into_lists(out, {first})", plain.rust, given.join(", "));
    let rust = format!("{}_out", plain.rust);
    let mut new = derived(row, rust, body, " Of copies, of which the first list's go into `out`.");
    new.schema.base = plain.schema.base.clone();
    new.schema.overload = match row.schema.overload.as_str() {
        "" => "out".into(),
        o => format!("{}_out", snake(o)),
    };
    if let Some(first) = new.schema.args.iter_mut().find(|a| a.mutated) {
        first.mutated = false;
    }
    let ty = Ty { base: Base::Tensor, list: Some(0), opt: false, opt_elem: false };
    new.schema.args.push(Arg { name: "out".into(), ty, default: None, kw_only: true, mutated: true });
    new
}
