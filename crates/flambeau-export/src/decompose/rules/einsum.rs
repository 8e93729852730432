//! Sums of products by an equation.

use super::super::build::{Builder, Call, Item, op};
use super::view::{permuted, reshaped};
use flambeau_core::{Result, Value};

/// Of one tensor: diagonals, sums, another order.
fn einsum_of_one(b: &mut Builder, given: &str, wanted: &str, x: &Item) -> Result<Option<Item>> {
    // what an ellipsis stands for has letters that no equation has
    let named = given.chars().filter(|c| c.is_alphabetic()).count();
    let Some(more) = x.rank()?.checked_sub(named) else { return Ok(None) };
    let rest: String = (0..more as u32).filter_map(|i| char::from_u32(0x100 + i)).collect();
    let spread = |l: &str| l.replace("...", &rest).chars().collect::<Vec<char>>();
    let (mut given, wanted) = (spread(given), spread(wanted));
    let known = given.iter().chain(&wanted).all(|c| c.is_alphabetic());
    if !known || given.len() != x.rank()? || wanted.iter().any(|c| !given.contains(c)) {
        return Ok(None);
    }
    let mut x = x.clone();
    while let Some((i, j)) = (0..given.len())
        .flat_map(|i| (i + 1..given.len()).map(move |j| (i, j)))
        .find(|(i, j)| given[*i] == given[*j])
    {
        x = op!(b, "diagonal.default", &x, 0, i as i64, j as i64);
        let letter = given[i];
        given.retain(|c| *c != letter);
        // the diagonal comes last
        given.push(letter);
    }
    let summed = given.iter().filter(|c| !wanted.contains(c)).count();
    let all = wanted.iter().chain(given.iter().filter(|c| !wanted.contains(c)));
    let order: Vec<i64> = all.filter_map(|c| given.iter().position(|g| g == c)).map(|d| d as i64).collect();
    let n = wanted.len() as i64;
    let out = permuted(b, &x, order)?;
    if summed == 0 {
        return Ok(Some(out));
    }
    Ok(Some(op!(b, "sum.dim_IntList", &out, (n..n + summed as i64).collect::<Vec<i64>>())))
}
/// The letters of an operand, if none is there twice.
fn letters(l: &str) -> Option<Vec<char>> {
    let all: Vec<char> = l.chars().collect();
    let once = all.iter().enumerate().all(|(i, c)| c.is_alphabetic() && !all[..i].contains(c));
    once.then_some(all)
}
/// What an equation without a result means: the ellipsis, then letters that are there once.
fn implied(given: &str) -> String {
    let mut once: Vec<char> = given.chars().filter(|c| given.matches(*c).count() == 1).collect();
    once.retain(|c| c.is_alphabetic());
    once.sort_unstable();
    let rest = if given.contains("...") { "..." } else { "" };
    [rest, &once.into_iter().collect::<String>()].concat()
}
/// An equation of several tensors with letters in place of ellipses, which end together; none if a tensor has too few dimensions.
fn spelled(given: &str, wanted: &str, tensors: &[Item]) -> Result<Option<(String, String)>> {
    let parts: Vec<&str> = given.split(',').collect();
    let mut more = Vec::new();
    for (part, t) in parts.iter().zip(tensors) {
        let named = part.chars().filter(|c| c.is_alphabetic()).count();
        let Some(n) = t.rank()?.checked_sub(named) else { return Ok(None) };
        more.push(if part.contains("...") { n } else { 0 });
    }
    let most = more.iter().copied().max().unwrap_or(0) as u32;
    // letters that no equation has
    let last =
        |n: usize| (most - n as u32..most).filter_map(|i| char::from_u32(0x100 + i)).collect::<String>();
    let parts: Vec<String> = parts.iter().zip(&more).map(|(p, n)| p.replace("...", &last(*n))).collect();
    Ok(Some((parts.join(","), wanted.replace("...", &last(most as usize)))))
}
/// Products of tensors with a dimension for each letter, from the left to the right; a letter is summed over as soon as no later
/// tensor has it.
fn einsum(b: &mut Builder, text: &str, tensors: &[Item]) -> Result<Option<Item>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (given, wanted) = match text.split_once("->") {
        Some((given, wanted)) => (given, wanted.to_string()),
        None => (&*text, implied(&text)),
    };
    if let [x] = tensors {
        return einsum_of_one(b, given, &wanted, x);
    }
    let Some((given, wanted)) = spelled(given, &wanted, tensors)? else { return Ok(None) };
    let own: Option<Vec<Vec<char>>> = given.split(',').map(letters).collect();
    let (Some(own), Some(wanted)) = (own, letters(&wanted)) else { return Ok(None) };
    if own.len() != tensors.len() || wanted.iter().any(|c| !own.iter().any(|l| l.contains(c))) {
        return Ok(None);
    }
    // letters of the result, then those that are summed over; all tensors get a dimension for each
    let mut rest: Vec<char> = own.iter().flatten().copied().filter(|c| !wanted.contains(c)).collect();
    rest.sort_unstable();
    rest.dedup();
    let all: Vec<char> = wanted.iter().chain(&rest).copied().collect();
    let mut spread = Vec::new();
    for (t, own) in tensors.iter().zip(&own) {
        if t.rank()? != own.len() {
            return Ok(None);
        }
        let mut t = t.clone();
        let mut at: Vec<i64> = Vec::new();
        let mut next = own.len();
        for l in &all {
            at.push(own.iter().position(|o| o == l).unwrap_or_else(|| {
                next += 1;
                next - 1
            }) as i64);
        }
        for d in own.len()..next {
            t = op!(b, "unsqueeze.default", &t, d as i64);
        }
        spread.push(permuted(b, &t, at)?);
    }
    // how many tensors have more than one element of a letter
    let mut counts = vec![0; all.len()];
    for t in &spread {
        for (n, size) in counts.iter_mut().zip(t.sizes()?) {
            *n += i32::from(size != 1);
        }
    }
    let mut spread = spread.into_iter();
    let Some(mut x) = spread.next() else { return Ok(None) };
    for y in spread {
        let (sx, sy) = (x.sizes()?, y.sizes()?);
        let (mut both, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new());
        for d in wanted.len()..all.len() {
            if sx[d] != 1 && sy[d] != 1 {
                counts[d] -= 1;
                if counts[d] == 1 {
                    both.push(d);
                    counts[d] = 0;
                }
            } else if counts[d] == 1 && (sx[d] != 1 || sy[d] != 1) {
                if sx[d] != 1 {
                    left.push(d as i64)
                } else {
                    right.push(d as i64)
                }
                counts[d] = 0;
            }
        }
        let mut y = y;
        if !left.is_empty() {
            x = op!(b, "sum.dim_IntList", &x, left, true);
        }
        if !right.is_empty() {
            y = op!(b, "sum.dim_IntList", &y, right, true);
        }
        x = if both.is_empty() { op!(b, "mul.Tensor", &x, &y) } else { pair(b, &x, &y, &both)? };
    }
    if rest.is_empty() {
        return Ok(Some(x));
    }
    let new: Vec<i64> = x.sizes()?[..wanted.len()].to_vec();
    Ok(Some(op!(b, "view.default", &x, new)))
}
/// Products summed over dimensions, which stay with one element: as a product of matrices.
fn pair(b: &mut Builder, x: &Item, y: &Item, summed: &[usize]) -> Result<Item> {
    let (sx, sy) = (x.sizes()?, y.sizes()?);
    // in both; of the left; of the right
    let (mut both, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new());
    for d in (0..sx.len()).filter(|d| !summed.contains(d)) {
        match (sx[d] != 1, sy[d] != 1) {
            (true, true) => both.push(d),
            (true, false) => left.push(d),
            _ => right.push(d),
        }
    }
    let order =
        |parts: [&[usize]; 4]| -> Vec<i64> { parts.into_iter().flatten().map(|d| *d as i64).collect() };
    let count = |l: &[usize], s: &[i64]| -> i64 { l.iter().map(|d| s[*d]).product() };
    let px = permuted(b, x, order([&both, &left, summed, &right]))?;
    let px = reshaped(b, &px, vec![count(&both, &sx), count(&left, &sx), count(summed, &sx)])?;
    let py = permuted(b, y, order([&both, summed, &right, &left]))?;
    let py = reshaped(b, &py, vec![count(&both, &sy), count(summed, &sy), count(&right, &sy)])?;
    let out = op!(b, "bmm.default", &px, &py);
    let mut sizes: Vec<i64> = both.iter().chain(&left).map(|d| sx[*d]).collect();
    sizes.extend(summed.iter().map(|_| 1));
    sizes.extend(right.iter().map(|d| sy[*d]));
    let out = op!(b, "view.default", &out, sizes);
    let places = order([&both, &left, summed, &right]);
    let back: Vec<i64> =
        (0..sx.len() as i64).map(|d| places.iter().position(|p| *p == d).map_or(0, |p| p as i64)).collect();
    permuted(b, &out, back)
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    match (c.name.as_str(), c.args.first().map(|i| &i.value)) {
        ("einsum.default", Some(Value::Str(text))) => einsum(b, text, &c.need(1, "tensors")?.items()),
        _ => Ok(None),
    }
}
