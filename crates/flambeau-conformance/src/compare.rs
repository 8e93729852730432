//! Results against records.

use crate::decode::{ints, number, tensor};
use crate::elements::{self, Elements};
use crate::store::Store;
use flambeau_core::{Tensor, Value};
use serde_json::Value as J;
use sha2::{Digest, Sha256};

/// How close numbers must be.
#[derive(Clone, Copy, Debug)]
pub enum Tol {
    /// `|got - want| <= atol + rtol * |want|`, NaN equals NaN.
    Close {
        /// Relative part.
        rtol: f64,
        /// Absolute part.
        atol: f64,
    },
    /// Bit for bit.
    Bits,
    /// Structure, shapes and dtypes only.
    Shape,
}

/// The tolerance fields of a case, as `rtol` or `grad_rtol`.
pub fn tolerance(case: &J, prefix: &str) -> Tol {
    let get = |k: &str| case.get(format!("{prefix}{k}")).map_or(0.0, number);
    Tol::Close { rtol: get("rtol"), atol: get("atol") }
}

/// What a result must equal: a recorded value, or `null`.
///
/// # Errors
/// Says where and how they differ.
pub fn value(got: &Value, want: &J, store: &Store, tol: Tol) -> Result<(), String> {
    let differ = || Err(format!("got {}, expected {}", describe(got), brief(want)));
    let same = |ok: bool| if ok { Ok(()) } else { differ() };
    match want {
        J::Null => same(matches!(got, Value::None)),
        J::Bool(b) => same(matches!(got, Value::Bool(g) if g == b)),
        J::String(s) => same(matches!(got, Value::Str(g) if g == s)),
        J::Number(n) => match (got, n.as_i64()) {
            (Value::Int(g), Some(i)) => same(*g == i),
            (Value::Float(g), None) => close_numbers(*g, number(want), tol),
            _ => differ(),
        },
        J::Array(l) => list(got, l, store, tol),
        J::Object(m) if m.contains_key("t") => match got {
            Value::Tensor(t) => compare_tensors(t, &tensor(store, want)?, tol),
            _ => differ(),
        },
        J::Object(m) if m.contains_key("sha256") => match got {
            Value::Tensor(t) => digest(t, want, store, tol),
            _ => differ(),
        },
        J::Object(m) => {
            let Some((tag, v)) = m.iter().next() else { return differ() };
            let word = v.as_str().unwrap_or("");
            match (tag.as_str(), got) {
                ("list" | "tuple", _) => match v {
                    J::Array(l) => list(got, l, store, tol),
                    _ => differ(),
                },
                ("dict", Value::Dict(g)) => match v {
                    J::Object(w) => dict(g, w, store, tol),
                    _ => differ(),
                },
                ("float", Value::Float(g)) => close_numbers(*g, number(want), tol),
                ("complex", Value::Complex(g)) => close_numbers(g.re, number(&v[0]), tol)
                    .and_then(|()| close_numbers(g.im, number(&v[1]), tol)),
                ("dtype", Value::DType(d)) => same(d.name() == word),
                ("layout", Value::Layout(d)) => same(d.name() == word),
                ("memory_format", Value::MemoryFormat(d)) => same(d.name() == word),
                ("device", Value::Device(d)) => same(d.to_string() == word),
                (t, Value::Object(o)) if t.starts_with("sparse_") => {
                    Err(format!("a {} for a sparse tensor", o.type_name()))
                }
                (t, Value::Tensor(g)) if t.starts_with("sparse_") => sparse(g, t, want, store, tol),
                _ => differ(),
            }
        }
    }
}

fn sparse(got: &Tensor, tag: &str, want: &J, store: &Store, tol: Tol) -> Result<(), String> {
    if got.layout().name() != tag || got.sizes() != ints(&want["size"]) {
        return Err(format!(
            "layout {} and shape {:?}, expected {tag} {}",
            got.layout().name(),
            got.sizes(),
            want["size"]
        ));
    }
    let parts = want[tag].as_object().ok_or("a sparse tag without fields")?;
    for (field, w) in parts {
        let name = match (tag, field.as_str()) {
            // uncoalesced tensors give their parts by these names only
            ("sparse_coo", "indices") => "torch.Tensor._indices",
            ("sparse_coo", "values") => "torch.Tensor._values",
            (_, f) => &format!("torch.Tensor.{f}"),
        };
        let r = flambeau_library::call(name, &[Value::Tensor(got.clone())], &[])
            .map_err(|e| format!("{name}: {e}"))?;
        value(r.first().unwrap_or(&Value::None), w, store, tol).map_err(|e| format!("{field}: {e}"))?;
    }
    Ok(())
}

fn list(got: &Value, want: &[J], store: &Store, tol: Tol) -> Result<(), String> {
    let Some(items) = got.items() else {
        return Err(format!("got {}, expected {} values", describe(got), want.len()));
    };
    if items.len() != want.len() {
        return Err(format!("got {} values, expected {}", items.len(), want.len()));
    }
    items
        .iter()
        .zip(want)
        .enumerate()
        .try_for_each(|(i, (g, w))| value(g, w, store, tol).map_err(|e| format!("[{i}]: {e}")))
}

/// Dictionaries with the same keys, in any order.
///
/// # Errors
/// As [`value`].
pub fn dict(
    got: &[(String, Value)],
    want: &serde_json::Map<String, J>,
    store: &Store,
    tol: Tol,
) -> Result<(), String> {
    for (k, w) in want {
        let Some((_, g)) = got.iter().find(|(n, _)| n == k) else { return Err(format!("no entry '{k}'")) };
        value(g, w, store, tol).map_err(|e| format!("{k}: {e}"))?;
    }
    match got.iter().find(|(k, _)| !want.contains_key(k)) {
        Some((k, _)) => Err(format!("an entry '{k}' too many")),
        None => Ok(()),
    }
}

fn close(got: f64, want: f64, rtol: f64, atol: f64) -> bool {
    got == want
        || (got.is_nan() && want.is_nan())
        || (got - want).abs() <= atol + rtol * want.abs() && want.is_finite()
}
fn close_numbers(got: f64, want: f64, tol: Tol) -> Result<(), String> {
    let ok = match tol {
        Tol::Close { rtol, atol } => close(got, want, rtol, atol),
        Tol::Bits => got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
        Tol::Shape => true,
    };
    if ok { Ok(()) } else { Err(format!("got {got:?}, expected {want:?}")) }
}

/// Integers that may differ by so many steps.
pub fn within_steps(got: &Value, want: &J, store: &Store, steps: i64) -> Result<(), String> {
    let Value::Tensor(got) = got else { return Err(format!("got {}, expected a tensor", describe(got))) };
    let want = tensor(store, want)?;
    same_form(got, &want)?;
    let whole = |t: &Tensor| t.try_to_vec::<i64>().map_err(|e| e.to_string());
    let (g, w) = (whole(got)?, whole(&want)?);
    match g.iter().zip(&w).enumerate().find(|(_, (g, w))| (**g - **w).abs() > steps) {
        Some((i, (g, w))) => Err(format!("element {i} is {g}, expected {w} within {steps}")),
        None => Ok(()),
    }
}

/// Two tensors: shape and dtype exactly, then elements.
///
/// # Errors
/// Says which element differs how.
pub fn compare_tensors(got: &Tensor, want: &Tensor, tol: Tol) -> Result<(), String> {
    same_form(got, want)?;
    match tol {
        Tol::Shape => Ok(()),
        Tol::Close { rtol, atol } => same_elements(&elements::of(got)?, &elements::of(want)?, rtol, atol),
        Tol::Bits => {
            let (g, w) = (elements::bytes(got)?, elements::bytes(want)?);
            if g == w {
                return Ok(());
            }
            // NaNs of any payload are equal
            same_elements(&elements::decode(got.dtype(), &g), &elements::decode(want.dtype(), &w), 0.0, 0.0)?;
            let n = got.element_size();
            let signed_zero =
                g.chunks(n).zip(w.chunks(n)).position(|(a, b)| a != b && is_zero(a) && is_zero(b));
            signed_zero.map_or(Ok(()), |i| Err(format!("element {i}: the sign of zero")))
        }
    }
}
fn is_zero(b: &[u8]) -> bool {
    b[..b.len() - 1].iter().all(|x| *x == 0) && b[b.len() - 1] & 0x7f == 0
}
/// Shape and dtype.
///
/// # Errors
/// When they differ.
pub fn same_form(got: &Tensor, want: &Tensor) -> Result<(), String> {
    if got.dtype() != want.dtype() {
        return Err(format!("dtype {}, expected {}", got.dtype().name(), want.dtype().name()));
    }
    if got.sizes() != want.sizes() {
        return Err(format!("shape {:?}, expected {:?}", got.sizes(), want.sizes()));
    }
    Ok(())
}
/// Elements within a tolerance; integers exactly.
///
/// # Errors
/// Says which element differs how, and how many do.
pub fn same_elements(got: &Elements, want: &Elements, rtol: f64, atol: f64) -> Result<(), String> {
    fn check<T: std::fmt::Debug>(g: &[T], w: &[T], ok: impl Fn(&T, &T) -> bool) -> Result<(), String> {
        if g.len() != w.len() {
            return Err(format!("{} elements, expected {}", g.len(), w.len()));
        }
        let bad: Vec<usize> = (0..g.len()).filter(|&i| !ok(&g[i], &w[i])).collect();
        match bad.first() {
            None => Ok(()),
            Some(&i) => Err(format!(
                "element {i} is {:?}, expected {:?} ({} of {} differ)",
                g[i],
                w[i],
                bad.len(),
                g.len()
            )),
        }
    }
    match (got, want) {
        (Elements::Int(g), Elements::Int(w)) => check(g, w, |a, b| a == b),
        (Elements::Float(g), Elements::Float(w)) => check(g, w, |a, b| close(*a, *b, rtol, atol)),
        (Elements::Complex(g), Elements::Complex(w)) => check(g, w, |a, b| {
            let parts = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan());
            parts(a.re, b.re) && parts(a.im, b.im)
                || (a.is_nan() && b.is_nan())
                || (b.is_finite() && (a - b).norm() <= atol + rtol * b.norm())
        }),
        _ => Err("elements of different kinds".into()),
    }
}

/// Large random results: a digest of their bytes, and their ends. Where the record has a tolerance, bytes may differ and
/// the ends tell.
fn digest(got: &Tensor, want: &J, store: &Store, tol: Tol) -> Result<(), String> {
    if got.dtype().name() != want["dtype"].as_str().unwrap_or("") || got.sizes() != ints(&want["size"]) {
        return Err(format!(
            "{} {:?}, expected {} {}",
            got.dtype().name(),
            got.sizes(),
            want["dtype"],
            want["size"]
        ));
    }
    let b = elements::bytes(got)?;
    let hex: String = Sha256::digest(&b).iter().map(|x| format!("{x:02x}")).collect();
    if hex == want["sha256"].as_str().unwrap_or("") {
        return Ok(());
    }
    let all = elements::decode(got.dtype(), &b);
    for (name, from_end) in [("first", false), ("last", true)] {
        let w = elements::of(&tensor(store, &want[name])?)?;
        let n = w.len().min(all.len());
        for i in 0..n {
            let at = if from_end { all.len() - n + i } else { i };
            let (x, y) = (all.at(at), w.at(i));
            let near = match tol {
                Tol::Close { rtol, atol } => (x - y).norm() <= atol + rtol * y.norm(),
                _ => false,
            };
            if x != y && !near && !(x.is_nan() && y.is_nan()) {
                return Err(format!("element {at} is {x}, expected {y}"));
            }
        }
    }
    match tol {
        Tol::Close { .. } => Ok(()),
        _ => Err("the digest differs, first and last elements do not".into()),
    }
}

/// Positions that are not unique: where they differ, the input must hold an equal value at both.
///
/// # Errors
/// When no dimension explains the difference.
pub fn positions(got: &Tensor, want: &Tensor, input: &Tensor, dim: Option<i64>) -> Result<(), String> {
    same_form(got, want)?;
    let (g, w) = (elements::of(got)?, elements::of(want)?);
    if g == w {
        return Ok(());
    }
    let values = elements::of(input)?;
    let (Elements::Int(g), Elements::Int(w)) = (&g, &w) else {
        return Err("positions that are not integers".into());
    };
    let equal =
        |x: num_complex::Complex<f64>, y: num_complex::Complex<f64>| x == y || (x.is_nan() && y.is_nan());
    let nd = input.dim();
    let dims: Vec<usize> = match dim {
        Some(d) => vec![if d < 0 { (d + nd as i64).max(0) as usize } else { d as usize }],
        None => (0..nd).rev().collect(),
    };
    let n = input.sizes();
    let ok_along = |d: usize| -> bool {
        // the same number of rows before and after the dimension, however many positions in it
        let before: i64 = n[..d].iter().product();
        let after: i64 = n[d + 1..].iter().product();
        let rows = before * after;
        if rows == 0 || got.numel() % rows != 0 {
            return false;
        }
        let k = got.numel() / rows;
        (0..g.len()).all(|i| {
            let i64_ = i as i64;
            let (b, rest) = (i64_ / (k * after), i64_ % after);
            let at = |p: i128| ((b * n[d] + p as i64) * after + rest) as usize;
            let inside = |p: i128| (0..i128::from(n[d])).contains(&p);
            inside(g[i]) && inside(w[i]) && equal(values.at(at(g[i])), values.at(at(w[i])))
        })
    };
    let flat = || {
        let inside = |p: i128| (0..values.len() as i128).contains(&p);
        (0..g.len()).all(|i| {
            inside(g[i]) && inside(w[i]) && equal(values.at(g[i] as usize), values.at(w[i] as usize))
        })
    };
    if dims.into_iter().any(|d| d < nd && ok_along(d)) || (dim.is_none() && flat()) {
        return Ok(());
    }
    same_elements(&Elements::Int(g.clone()), &Elements::Int(w.clone()), 0.0, 0.0)
}

/// The same elements along the last dimension in any order.
///
/// # Errors
/// When an element has no partner.
pub fn unordered(got: &Tensor, want: &Tensor, tol: Tol) -> Result<(), String> {
    same_form(got, want)?;
    let Tol::Close { rtol, atol } = tol else { return compare_tensors(got, want, tol) };
    let (g, w) = (elements::of(got)?, elements::of(want)?);
    let n = got.sizes().last().copied().unwrap_or(1).max(1) as usize;
    for row in 0..g.len() / n {
        let mut left: Vec<usize> = (row * n..(row + 1) * n).collect();
        for i in row * n..(row + 1) * n {
            let target = w.at(i);
            let near = |j: usize| (g.at(j) - target).norm();
            let best = (0..left.len()).min_by(|&a, &b| near(left[a]).total_cmp(&near(left[b])));
            match best {
                Some(b)
                    if near(left[b]) <= atol + rtol * target.norm()
                        || (g.at(left[b]).is_nan() && target.is_nan()) =>
                {
                    left.swap_remove(b);
                }
                _ => return Err(format!("no element for {target} in row {row}")),
            }
        }
    }
    Ok(())
}

/// A short text of a value.
pub fn describe(v: &Value) -> String {
    match v {
        Value::Tensor(t) => format!("a {} tensor {:?}", t.dtype().name(), t.sizes()),
        Value::List(l) | Value::Tuple(l) => format!("a {} of {}", v.type_name(), l.len()),
        other => {
            let mut s = format!("{other:?}");
            s.truncate(s.char_indices().nth(120).map_or(s.len(), |(i, _)| i));
            s
        }
    }
}
fn brief(j: &J) -> String {
    let mut s = j.to_string();
    s.truncate(s.char_indices().nth(120).map_or(s.len(), |(i, _)| i));
    s
}
