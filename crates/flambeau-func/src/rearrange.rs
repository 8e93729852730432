//! `rearrange`: dimensions moved, joined and taken apart by a pattern.

use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Error, Result, Tensor, bail, ensure, ops};

/// A part of a pattern: names that are one dimension together, or the dimensions that have no name.
#[derive(Clone, PartialEq, Debug)]
enum Part {
    Names(Vec<String>),
    Rest,
}

fn words(side: &str) -> Result<Vec<Part>> {
    let (mut parts, mut open): (Vec<Part>, Option<Vec<String>>) = (Vec::new(), None);
    let unbalanced = || Error::value(format!("Imbalanced parentheses in expression: '{side}'"));
    let mut chars = side.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' => {}
            '(' => {
                ensure!(
                    open.is_none(),
                    Value,
                    "Axis composition is one-level (brackets inside brackets not allowed)"
                );
                open = Some(Vec::new());
            }
            ')' => parts.push(Part::Names(open.take().ok_or_else(unbalanced)?)),
            '.' => {
                ensure!(
                    chars.next() == Some('.') && chars.next() == Some('.'),
                    Value,
                    "Expression may contain dots only inside ellipsis (...)"
                );
                ensure!(!parts.contains(&Part::Rest), Value, "Expression may contain only one ellipsis");
                ensure!(open.is_none(), Value, "Ellipsis is not allowed inside parentheses here");
                parts.push(Part::Rest);
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut name = c.to_string();
                while let Some(c) = chars.peek().copied().filter(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                    chars.next();
                }
                ensure!(
                    name.parse::<i64>().is_ok() || name.starts_with(|c: char| c.is_alphabetic() || c == '_'),
                    Value,
                    "Invalid axis identifier: '{name}'\nnot a valid python identifier"
                );
                match (&mut open, name.as_str()) {
                    (Some(l), "1") => drop(l.iter()),
                    (None, "1") => parts.push(Part::Names(Vec::new())),
                    (_, n) if n.parse::<i64>().is_ok() => {
                        bail!(Value, "Anonymous axis of size {n} is not allowed")
                    }
                    (Some(l), _) => l.push(name),
                    (None, _) => parts.push(Part::Names(vec![name])),
                }
            }
            c => bail!(Value, "Unknown character '{c}'"),
        }
    }
    if open.is_some() {
        return Err(unbalanced());
    }
    Ok(parts)
}
fn names(parts: &[Part]) -> Vec<&String> {
    parts.iter().flat_map(|p| if let Part::Names(l) = p { &l[..] } else { &[] }).collect()
}

/// Moves, joins and takes apart dimensions by a pattern: `"b (h w) c -> b c h w"`. `sizes` gives those of names that cannot be worked
/// out. `...` stands for dimensions without names, `1` for one of size 1.
///
/// Source: PyTorch's `functorch.dim.rearrange`, einops' `rearrange`.
///
/// ```
/// let x = torch::arange(6).view([2, 3]);
/// assert_eq!(torch::func::rearrange(&x, "a b -> b a", &[]).sizes(), [3, 2]);
/// assert_eq!(torch::func::rearrange(&x, "a b -> (a b)", &[]).sizes(), [6]);
/// ```
///
/// # Panics
/// Where [`try_rearrange`] gives an error.
#[doc(alias = "torch.func.rearrange")]
#[track_caller]
pub fn rearrange(t: &Tensor, pattern: &str, sizes: &[(&str, i64)]) -> Tensor {
    expect(try_rearrange(t, pattern, sizes))
}
/// [`rearrange`] with errors.
///
/// # Errors
/// A pattern that does not parse, whose sides have different names, or that does not fit the tensor.
pub fn try_rearrange(t: &Tensor, pattern: &str, sizes: &[(&str, i64)]) -> Result<Tensor> {
    let sides: Vec<&str> = pattern.split("->").collect();
    let [left, right] = sides[..] else {
        return Err(Error::value("Pattern must contain a single '->' separator"));
    };
    let (left, right) = (words(left)?, words(right)?);
    for side in [&left, &right] {
        let all = names(side);
        if let Some(n) = all.iter().enumerate().find(|(i, n)| all[..*i].contains(n)).map(|(_, n)| n) {
            bail!(Value, "Indexing expression contains duplicate dimension '{n}'");
        }
    }
    let rests = (left.contains(&Part::Rest), right.contains(&Part::Rest));
    ensure!(
        rests.0 || !rests.1,
        Value,
        "Ellipsis found in right side, but not left side of a pattern {pattern}"
    );
    let (a, b) = (names(&left), names(&right));
    let mut lone: Vec<&&String> =
        a.iter().filter(|n| !b.contains(n)).chain(b.iter().filter(|n| !a.contains(n))).collect();
    lone.sort();
    if !lone.is_empty() {
        let all: Vec<String> = lone.iter().map(|n| format!("'{n}'")).collect();
        bail!(
            Value,
            "Identifiers only on one side of rearrange expression (should be on both): {{{}}}",
            all.join(", ")
        );
    }
    let strange: Vec<String> =
        sizes.iter().filter(|(n, _)| !a.iter().any(|m| m == n)).map(|(n, _)| format!("'{n}'")).collect();
    ensure!(
        strange.is_empty(),
        Value,
        "Identifiers not found in rearrange expression: {{{}}}",
        strange.join(", ")
    );
    let (rank, own) = (t.dim(), left.iter().filter(|p| **p != Part::Rest).count());
    ensure!(
        own == rank || rests.0 && own <= rank,
        Value,
        "Number of dimensions in pattern ({own}) must be equal to the number of dimensions in the tensor ({rank})"
    );
    // every name a dimension of its own, in the order of the left side
    let mut flat: Vec<(Option<&String>, i64)> = Vec::new();
    let mut dims = t.sizes().iter();
    for p in &left {
        match p {
            Part::Rest => flat.extend(dims.by_ref().take(rank - own).map(|n| (None, *n))),
            Part::Names(l) => {
                let n = dims.next().copied().unwrap_or(1);
                let given = |name: &String| sizes.iter().find(|(m, _)| m == name).map(|s| s.1);
                let known: i64 = l.iter().filter_map(given).product();
                let open: Vec<usize> = (0..l.len()).filter(|i| given(&l[*i]).is_none()).collect();
                let shown = || {
                    let all: Vec<String> =
                        l.iter().map(|n| given(n).map_or("'?'".into(), |s| s.to_string())).collect();
                    all.join(", ")
                };
                ensure!(
                    open.len() <= 1,
                    Other,
                    "cannot infer the sizes of two dimensions at once {}",
                    open.iter().enumerate().map(|(k, _)| format!("d{k}")).collect::<Vec<_>>().join(" and ")
                );
                ensure!(
                    known != 0 && n % known == 0 && (!open.is_empty() || known == n),
                    Other,
                    "inferred dimension does not evenly fit into larger dimension: {n} vs ({})",
                    shown()
                );
                flat.extend(l.iter().map(|name| (Some(name), given(name).unwrap_or(n / known))));
            }
        }
    }
    let sizes: Vec<i64> = flat.iter().map(|f| f.1).collect();
    let parted = ops::reshape(t, &sizes)?;
    let (mut order, mut joined) = (Vec::new(), Vec::new());
    for p in &right {
        match p {
            Part::Rest => {
                for (i, f) in flat.iter().enumerate().filter(|(_, f)| f.0.is_none()) {
                    order.push(i as i64);
                    joined.push(f.1);
                }
            }
            Part::Names(l) => {
                let mut n = 1;
                for name in l {
                    if let Some(i) = flat.iter().position(|f| f.0 == Some(name)) {
                        order.push(i as i64);
                        n *= flat[i].1;
                    }
                }
                joined.push(n);
            }
        }
    }
    ensure!(
        order.len() == flat.len(),
        Value,
        "Ellipsis found in left side, but not right side of a pattern {pattern}"
    );
    ops::reshape(&ops::permute(&parted, &order)?, &joined)
}
