//! `einsum`: each pair of operands becomes one batched product.

use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::{bail, ensure, ops};
use smallvec::SmallVec;

/// A subscript: a letter, or one of the dimensions that an ellipsis stands for.
type Label = u32;
const ELLIPSIS: Label = 1000;
type Labels = SmallVec<[Label; 8]>;

fn invalid_subscript(at: usize) -> Error {
    Error::runtime(format!(
        "einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]"
    ))
}
/// Labels of operand `index`, whose subscripts stand at `start` of the equation.
fn parse_operand(text: &str, t: &Tensor, index: usize, start: usize) -> Result<Labels> {
    let mut out = Labels::new();
    let mut chars = text.chars().filter(|c| !c.is_whitespace());
    let letters = text.chars().filter(|c| c.is_ascii_alphabetic()).count();
    let mut seen = false;
    while let Some(c) = chars.next() {
        match c {
            '.' => {
                ensure!(
                    chars.next() == Some('.') && chars.next() == Some('.'),
                    Runtime,
                    "einsum(): found '.' for operand {index} that is not part of any ellipsis"
                );
                ensure!(
                    !seen,
                    Runtime,
                    "einsum(): found '.' for operand {index} for which an ellipsis was already found"
                );
                seen = true;
                let n = t.dim().checked_sub(letters).ok_or_else(|| dims_error(index, t, letters, true))?;
                out.extend((0..n as u32).map(|i| ELLIPSIS + n as u32 - 1 - i));
            }
            c if c.is_ascii_alphabetic() => out.push(c as Label),
            c => return Err(invalid_subscript(start + text.find(c).unwrap_or(0))),
        }
    }
    if out.len() != t.dim() {
        return Err(dims_error(index, t, out.len(), false));
    }
    Ok(out)
}
fn dims_error(index: usize, t: &Tensor, n: usize, ellipsis: bool) -> crate::Error {
    crate::Error::runtime(format!(
        "einsum(): the number of subscripts in the equation ({n}) {} the number of dimensions ({}) for operand {index}{}",
        if ellipsis { "is more than" } else { "does not match" },
        t.dim(),
        if ellipsis { "" } else { " and no ellipsis was given" }
    ))
}

/// Takes diagonals where a label occurs twice in one operand.
fn diagonals(mut t: Tensor, mut l: Labels) -> Result<(Tensor, Labels)> {
    let mut i = 0;
    while i < l.len() {
        if let Some(j) = (i + 1..l.len()).find(|j| l[*j] == l[i]) {
            ensure!(
                t.sizes()[i] == t.sizes()[j],
                Runtime,
                "einsum(): subscript {} is repeated for operand but the sizes don't match, {} != {}",
                char::from_u32(l[i]).unwrap_or('?'),
                t.sizes()[j],
                t.sizes()[i]
            );
            t = ops::diagonal(&t, 0, i as i64, j as i64)?;
            let label = l[i];
            l.remove(j);
            l.remove(i);
            l.push(label);
            i = 0;
        } else {
            i += 1;
        }
    }
    Ok((t, l))
}

/// Brings an operand's dimensions into the order of `want`, with size 1 where it lacks one.
fn arrange(t: &Tensor, l: &Labels, want: &Labels) -> Result<Tensor> {
    let order: SizeVec =
        want.iter().filter_map(|w| l.iter().position(|x| x == w)).map(|p| p as i64).collect();
    let mut r = ops::permute(t, &order)?;
    for (i, w) in want.iter().enumerate() {
        if !l.contains(w) {
            r = ops::unsqueeze(&r, i as i64)?;
        }
    }
    Ok(r)
}

/// The product of two operands, summed over the labels that nothing later needs.
fn pair(a: (Tensor, Labels), b: (Tensor, Labels), keep: &dyn Fn(Label) -> bool) -> Result<(Tensor, Labels)> {
    let size = |t: &(Tensor, Labels), l: Label| t.1.iter().position(|x| *x == l).map(|p| t.0.sizes()[p]);
    let (mut a, mut b) = (a, b);
    // labels of one operand that end here, and broadcast ones, are summed before the product
    for this in [true, false] {
        let (x, y) = if this { (&mut a, &b) } else { (&mut b, &a) };
        let gone: SizeVec = (0..x.1.len())
            .filter(|&i| {
                let l = x.1[i];
                !keep(l) && size(y, l).is_none_or(|s| s == 1 && x.0.sizes()[i] != 1)
            })
            .map(|i| i as i64)
            .collect();
        if !gone.is_empty() {
            x.0 = ops::sum(&x.0, Some(&gone), false, None)?;
            x.1 = (0..x.1.len()).filter(|i| !gone.contains(&(*i as i64))).map(|i| x.1[i]).collect();
        }
    }
    let (mut batch, mut left, mut right, mut inner) =
        (Labels::new(), Labels::new(), Labels::new(), Labels::new());
    for &l in &a.1 {
        match size(&b, l) {
            Some(_) if keep(l) => batch.push(l),
            Some(_) => inner.push(l),
            None => left.push(l),
        }
    }
    right.extend(b.1.iter().copied().filter(|l| !a.1.contains(l)));
    let extent = |l: Label| size(&a, l).unwrap_or(1).max(size(&b, l).unwrap_or(1));
    let zero_or = |l: Label| {
        let (s, t) = (size(&a, l), size(&b, l));
        if s == Some(0) || t == Some(0) { 0 } else { extent(l) }
    };
    let product = |ls: &Labels| -> i64 { ls.iter().map(|l| zero_or(*l)).product() };
    let (bn, m, n, k) = (product(&batch), product(&left), product(&right), product(&inner));
    let shaped = |t: &(Tensor, Labels), parts: [&Labels; 3], sizes: [i64; 3]| -> Result<Tensor> {
        let want: Labels = parts.iter().flat_map(|p| p.iter().copied()).collect();
        let x = arrange(&t.0, &t.1, &want)?;
        let full: SizeVec = want.iter().map(|l| zero_or(*l)).collect();
        ops::reshape(&ops::expand(&x, &full, false)?, &sizes)
    };
    let x = shaped(&a, [&batch, &left, &inner], [bn, m, k])?;
    let y = shaped(&b, [&batch, &inner, &right], [bn, k, n])?;
    let r = if inner.is_empty() { ops::mul(&x, &y)? } else { ops::bmm(&x, &y)? };
    let labels: Labels = batch.iter().chain(&left).chain(&right).copied().collect();
    let full: SizeVec = labels.iter().map(|l| zero_or(*l)).collect();
    Ok((ops::reshape(&r, &full)?, labels))
}

/// `einsum`: `path` names which two operands are joined next, else from left to right.
pub fn einsum(equation: &str, tensors: &[Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    ensure!(
        !tensors.is_empty(),
        Value,
        "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
    );
    let (lhs, rhs) = match equation.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (equation, None),
    };
    let parts: Vec<&str> = lhs.split(',').collect();
    ensure!(
        parts.len() >= tensors.len(),
        Runtime,
        "einsum(): more operands were provided than specified in the equation"
    );
    ensure!(
        parts.len() == tensors.len(),
        Runtime,
        "einsum(): fewer operands were provided than specified in the equation"
    );
    let mut operands: Vec<(Tensor, Labels)> = Vec::with_capacity(tensors.len());
    let mut start = 0;
    for (i, (p, t)) in parts.iter().zip(tensors).enumerate() {
        operands.push(diagonals(t.clone(), parse_operand(p, t, i, start)?)?);
        start += p.len() + 1;
    }
    let ellipsis = operands
        .iter()
        .flat_map(|o| o.1.iter())
        .filter(|l| **l >= ELLIPSIS)
        .max()
        .map_or(0, |m| m - ELLIPSIS + 1);
    let mut out = Labels::new();
    match rhs {
        Some(r) => {
            let mut chars = r.chars().filter(|c| !c.is_whitespace());
            let mut seen = false;
            while let Some(c) = chars.next() {
                match c {
                    '.' => {
                        ensure!(
                            chars.next() == Some('.') && chars.next() == Some('.'),
                            Runtime,
                            "einsum(): found '.' for output but an ellipsis (...) was already found or it is not part of one"
                        );
                        ensure!(
                            !seen,
                            Runtime,
                            "einsum(): found '.' for output but an ellipsis (...) was already found"
                        );
                        seen = true;
                        out.extend((0..ellipsis).map(|i| ELLIPSIS + ellipsis - 1 - i));
                    }
                    c if c.is_ascii_alphabetic() => {
                        let l = c as Label;
                        ensure!(
                            !out.contains(&l),
                            Runtime,
                            "einsum(): output subscript {c} appears more than once in the output"
                        );
                        ensure!(
                            operands.iter().any(|o| o.1.contains(&l)),
                            Runtime,
                            "einsum(): output subscript {c} does not appear in the equation for any input operand"
                        );
                        out.push(l);
                    }
                    c => return Err(invalid_subscript(lhs.len() + 2 + r.find(c).unwrap_or(0))),
                }
            }
        }
        None => {
            out.extend((0..ellipsis).map(|i| ELLIPSIS + ellipsis - 1 - i));
            let mut letters: Vec<Label> =
                operands.iter().flat_map(|o| o.1.iter().copied()).filter(|l| *l < ELLIPSIS).collect();
            letters.sort_unstable();
            let text: Vec<Label> =
                lhs.chars().filter(|c| c.is_ascii_alphabetic()).map(|c| c as Label).collect();
            letters.dedup();
            out.extend(letters.into_iter().filter(|l| text.iter().filter(|t| *t == l).count() == 1));
        }
    }
    // sizes of one label must agree, but for 1
    for (i, (t, l)) in operands.iter().enumerate() {
        for (d, x) in l.iter().enumerate() {
            for (j, (u, m)) in operands[..i].iter().enumerate() {
                if let Some(e) = m.iter().position(|y| y == x) {
                    let (s, r) = (t.sizes()[d], u.sizes()[e]);
                    ensure!(
                        s == r || s == 1 || r == 1,
                        Runtime,
                        "einsum(): subscript {} has size {s} for operand {i} which does not broadcast with previously seen size {r}",
                        char::from_u32(*x)
                            .filter(|_| *x < ELLIPSIS)
                            .map_or("...".to_string(), |c| c.to_string())
                    );
                    let _ = j;
                }
            }
        }
    }
    let mut steps = path
        .map(|p| {
            p.chunks(2).map(|c| (c[0] as usize, c.get(1).map_or(0, |x| *x as usize))).collect::<Vec<_>>()
        })
        .unwrap_or_default();
    steps.reverse();
    while operands.len() > 1 {
        let (i, j) = match steps.pop() {
            Some((i, j)) => (i.min(j), i.max(j)),
            None => (0, 1),
        };
        ensure!(i != j && j < operands.len(), Runtime, "einsum(): invalid contraction path");
        let b = operands.remove(j);
        let a = operands.remove(i);
        let needed = |l: Label| out.contains(&l) || operands.iter().any(|o| o.1.contains(&l));
        let r = pair(a, b, &needed)?;
        // without a path the running product stays in front
        if path.is_some() { operands.push(r) } else { operands.insert(0, r) }
    }
    let Some((t, l)) = operands.pop() else { bail!(Runtime, "einsum(): no operand") };
    let gone: SizeVec = (0..l.len()).filter(|i| !out.contains(&l[*i])).map(|i| i as i64).collect();
    let (t, l) = if gone.is_empty() {
        (t, l)
    } else {
        let kept: Labels = l.iter().copied().filter(|x| out.contains(x)).collect();
        (ops::sum(&t, Some(&gone), false, None)?, kept)
    };
    arrange(&t, &l, &out)
}
