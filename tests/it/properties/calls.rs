//! Calls of all rows, their outcomes, and what counts as the same.

use flambeau_test_rows::sample::{self, Run};
use flambeau_test_rows::table::{self, Form, Row};
use num_complex::Complex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use torch::__core::Value;
use torch::__core::dispatch::op::AnyOp;
use torch::__core::dispatch::registry;
use torch::__core::tensor::generator;
use torch::{DType, Tensor, ops};

/// One operator form.
pub struct Subject {
    pub op: &'static dyn AnyOp,
    pub row: &'static Row,
    pub form: Form,
}
impl Subject {
    pub fn name(&self) -> &'static str {
        self.op.info().name
    }
    pub fn samples(&self) -> Vec<(usize, toml::Table)> {
        table::samples_of(self.op, self.row).into_iter().enumerate().collect()
    }
    pub fn mutated(&self) -> impl Iterator<Item = usize> {
        self.op.info().schema.args.iter().enumerate().filter(|(_, a)| a.mutated).map(|(i, _)| i)
    }
}

/// All operators of all tables.
pub fn subjects() -> &'static [Subject] {
    static ALL: OnceLock<Vec<Subject>> = OnceLock::new();
    ALL.get_or_init(|| {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut rows = BTreeMap::new();
        for dir in std::fs::read_dir(crates).unwrap().map(|d| d.unwrap().path().join("ops")) {
            if dir.is_dir() {
                rows.extend(table::table(&dir));
            }
        }
        let rows: &'static BTreeMap<String, Row> = Box::leak(Box::new(rows));
        let all = registry::crates().iter().flat_map(|c| c.ops).copied().collect::<Vec<_>>();
        assert!(all.len() >= rows.len(), "the registry has {} operators for {} rows", all.len(), rows.len());
        all.into_iter()
            // no strides, storages or dtypes by the element to vary, or lists that are written and must fit each other: the
            // tests of these crates hold their rows' properties
            .filter(|op| {
                !matches!(op.info().owner, "flambeau-sparse" | "flambeau-optim" | "flambeau-quantization")
            })
            .map(|op| {
                let (name, form) = (op.info().name, table::form(op));
                let plain = if form == Form::Out { table::out_of(op).unwrap_or(name) } else { name };
                let row = table::row_of(rows, plain).unwrap_or_else(|| panic!("{name}: no row of that name"));
                Subject { op, row, form }
            })
            .collect()
    })
}

/// Arguments to call a subject with.
#[derive(Clone)]
pub struct Case {
    pub args: Vec<Value>,
    pub what: String,
}

pub const ALL: [DType; 12] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::C128,
    DType::C64,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::Bool,
];

/// Applies `f` to every tensor of the arguments, those in lists included.
pub fn map_tensors(args: &[Value], f: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<Value> {
    args.iter()
        .map(|v| match v {
            Value::Tensor(t) => Value::Tensor(f(t)),
            Value::List(l) => Value::List(map_tensors(l, f)),
            Value::Tuple(l) => Value::Tuple(map_tensors(l, f)),
            other => other.clone(),
        })
        .collect()
}
pub fn tensors(args: &[Value]) -> Vec<Tensor> {
    let mut all = Vec::new();
    map_tensors(args, &mut |t| {
        all.push(t.clone());
        t.clone()
    });
    all
}
pub fn cast(t: &Tensor, d: DType) -> Tensor {
    ops::to_copy(t, Some(d), None, None, None, false, None).unwrap()
}
/// An own copy in the plain layout.
pub fn fresh(t: &Tensor) -> Tensor {
    ops::clone(t, Some(torch::MemoryFormat::Contiguous)).unwrap()
}

/// The sample's floating tensors in another dtype: integers get ten times the values.
fn in_dtype(t: &Tensor, d: DType) -> Tensor {
    match t.dtype() {
        DType::F64 if d.is_complex() => cast(t, if d == DType::C64 { DType::F32 } else { DType::F64 }),
        DType::F64 if d.is_floating() => cast(t, d),
        DType::F64 if d == DType::Bool => t.gt(0.5),
        DType::F64 => cast(&t.mul(10), d),
        DType::C128 => cast(t, if d == DType::C64 || d == DType::F32 { DType::C64 } else { DType::C128 }),
        _ => t.clone(),
    }
}
fn floating(args: &[Value]) -> bool {
    tensors(args).iter().any(|t| t.dtype().is_floating() || t.dtype().is_complex())
}

/// The cases of a subject. What depends on no floating tensor comes once, not once per dtype.
pub fn cases(s: &Subject, dtypes: &[DType], runs: &[Run]) -> Vec<Case> {
    let mut all = Vec::new();
    for (k, row) in &s.samples() {
        for &run in runs {
            for (n, &d) in dtypes.iter().enumerate() {
                let drawn = if d.is_complex() && run == Run::Signed { Run::Complex } else { run };
                let c = sample::call(s.op.info().schema.args, row, drawn, 3);
                if run != runs[0] && !c.open || n > 0 && !floating(&c.args) {
                    continue;
                }
                let args = map_tensors(&c.args, &mut |t| in_dtype(t, d));
                all.push(Case { args, what: format!("sample {k}, {drawn:?}, {}", d.name()) });
            }
        }
    }
    all
}

/// What a call gave: results and written arguments, an error, or a panic.
pub enum Outcome {
    Ok(Vec<Value>),
    Err(String),
    Panic(String),
}
impl Outcome {
    pub fn kind(&self) -> String {
        match self {
            Outcome::Ok(_) => "no error".into(),
            Outcome::Err(e) => format!("an error ({e})"),
            Outcome::Panic(e) => format!("a panic ({e})"),
        }
    }
}

/// Calls with the same random numbers each time: each suite has a process, and so the default generator, of its own. Tensors that the operator writes are the caller's own.
pub fn call(s: &Subject, args: &[Value]) -> Outcome {
    let run = || {
        generator::manual_seed(7);
        s.op.call_boxed(args)
    };
    match table::unwinding(run) {
        Err(e) => Outcome::Panic(e),
        Ok(Err(e)) => Outcome::Err(e.message().to_string()),
        Ok(Ok(mut r)) => {
            r.extend(s.mutated().filter(|_| s.form == Form::Inplace).map(|i| args[i].clone()));
            Outcome::Ok(r)
        }
    }
}
/// The arguments with own copies of what the operator writes.
pub fn own(s: &Subject, args: &[Value]) -> Vec<Value> {
    let mut args = args.to_vec();
    for i in s.mutated() {
        args[i] = map_tensors(&args[i..=i], &mut fresh).remove(0);
    }
    args
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Same {
    /// Every bit, but for the payload of NaN.
    Bits,
    /// Up to rounding.
    Close,
}

fn tolerance(d: DType) -> f64 {
    match d {
        DType::F64 | DType::C128 => 1e-10,
        DType::F32 | DType::C64 => 1e-5,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    }
}
fn numbers(t: &Tensor) -> Vec<[f64; 2]> {
    if t.dtype().is_complex() {
        t.to_vec::<Complex<f64>>().iter().map(|c| [c.re, c.im]).collect()
    } else if t.dtype().is_floating() {
        t.to_vec::<f64>().iter().map(|x| [*x, 0.0]).collect()
    } else {
        // both halves, so that no bit of a long one is lost
        let wide = |i: &i64| [(*i >> 32) as f64, (*i & 0xffff_ffff) as f64];
        t.to_vec::<i64>().iter().map(wide).collect()
    }
}
fn equal(a: f64, b: f64, atol: Option<f64>) -> bool {
    match atol {
        _ if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
        None => a.to_bits() == b.to_bits(),
        Some(_) if a.is_infinite() || b.is_infinite() => a == b,
        Some(tol) => (a - b).abs() <= tol,
    }
}
/// Why two tensors are not the same.
pub fn differ(a: &Tensor, b: &Tensor, same: Same) -> Option<String> {
    if (a.sizes(), a.dtype()) != (b.sizes(), b.dtype()) {
        return Some(format!("{:?} {} against {:?} {}", a.sizes(), a.dtype(), b.sizes(), b.dtype()));
    }
    let values =
        |t: &Tensor| table::unwinding(|| numbers(t)).map_err(|e| format!("values cannot be read: {e}"));
    let (va, vb) = match (values(a), values(b)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(a), Err(b)) if a == b => return None,
        (Err(e), _) | (_, Err(e)) => return Some(e),
    };
    let top = va.iter().flatten().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    let atol = (same == Same::Close).then(|| tolerance(a.dtype()) * (1.0 + top));
    let at = va.iter().zip(&vb).position(|(x, y)| !(equal(x[0], y[0], atol) && equal(x[1], y[1], atol)))?;
    Some(format!("element {at}: {:?} against {:?}", va[at], vb[at]))
}
/// Why two lists of results are not the same.
pub fn differ_all(a: &[Value], b: &[Value], same: Same) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} results against {}", a.len(), b.len()));
    }
    a.iter().zip(b).enumerate().find_map(|(i, (a, b))| {
        let why = match (a, b) {
            (Value::Tensor(a), Value::Tensor(b)) => differ(a, b, same),
            (Value::List(a) | Value::Tuple(a), Value::List(b) | Value::Tuple(b)) => differ_all(a, b, same),
            (Value::Float(a), Value::Float(b)) if equal(*a, *b, Some(1e-10)) => None,
            (a, b) => (format!("{a:?}") != format!("{b:?}")).then(|| format!("{a:?} against {b:?}")),
        };
        why.map(|w| format!("result {i}: {w}"))
    })
}
/// Why two outcomes are not the same; errors are the same whatever they say.
pub fn compare(a: &Outcome, b: &Outcome, same: Same) -> Option<String> {
    match (a, b) {
        (Outcome::Ok(a), Outcome::Ok(b)) => differ_all(a, b, same),
        (Outcome::Err(_), Outcome::Err(_)) => None,
        (a, b) => Some(format!("{} against {}", a.kind(), b.kind())),
    }
}

/// What one suite found.
pub struct Ledger {
    suite: &'static str,
    /// The word in the rows' `property_test` that excepts them.
    word: &'static str,
    lenient: bool,
    used: BTreeSet<&'static str>,
    failed: BTreeMap<&'static str, Vec<String>>,
    pub checked: usize,
    rows: BTreeSet<&'static str>,
    spent: BTreeMap<&'static str, Duration>,
    last: Instant,
}
impl Ledger {
    pub fn new(suite: &'static str, word: &'static str) -> Ledger {
        Ledger {
            suite,
            word,
            lenient: false,
            used: BTreeSet::new(),
            failed: BTreeMap::new(),
            checked: 0,
            rows: BTreeSet::new(),
            spent: BTreeMap::new(),
            last: Instant::now(),
        }
    }
    /// Rows may be excepted that need not be: the word is another suite's, which asks.
    pub fn lenient(&mut self) {
        self.lenient = true;
    }
    /// Notes one check.
    pub fn note(&mut self, s: &'static Subject, what: &str, wrong: Option<String>) {
        let name = s.name();
        self.checked += 1;
        self.rows.insert(name);
        let now = Instant::now();
        *self.spent.entry(name).or_default() += now - std::mem::replace(&mut self.last, now);
        let Some(why) = wrong else { return };
        if s.row.property_test.contains_key("values") && why.contains("element ") {
            return;
        }
        if s.row.property_test.contains_key(self.word) {
            self.used.insert(&s.row.name);
            return;
        }
        self.failed.entry(name).or_default().push(format!("{what}: {why}"));
    }
    /// # Panics
    /// With everything that is wrong.
    #[track_caller]
    pub fn finish(self, least: usize) {
        let excepted: BTreeMap<&str, &str> = subjects()
            .iter()
            .filter_map(|s| Some((s.row.name.as_str(), s.row.property_test.get(self.word)?.as_str())))
            .collect();
        println!(
            "{}: {} checks of {} operators, {} rows excepted",
            self.suite,
            self.checked,
            self.rows.len(),
            excepted.len()
        );
        let mut slow: Vec<_> = self.spent.iter().map(|(n, t)| (t, n)).collect();
        slow.sort();
        let slow: Vec<String> = slow.iter().rev().take(4).map(|(t, n)| format!("{n} {t:.1?}")).collect();
        println!("{}: slowest {}", self.suite, slow.join(", "));
        let mut wrong: Vec<String> = Vec::new();
        for (name, all) in &self.failed {
            wrong.push(format!("{name}: {} times, first {}", all.len(), all[0]));
        }
        // one form of a list form's overloads is enough: they share the row's word
        let base = |n: &str| n.split('.').next().unwrap_or(n).trim_end_matches('_').to_string();
        let lists: BTreeSet<String> =
            self.used.iter().filter(|n| n.starts_with("_foreach_")).map(|n| base(n)).collect();
        for (name, reason) in &excepted {
            let needed = self.used.contains(name) || lists.contains(&base(name));
            if !needed && !self.lenient {
                wrong.push(format!("{name}: excepted ({reason}), which it need not be"));
            }
        }
        assert!(wrong.is_empty(), "{}: {} wrong:\n{}", self.suite, wrong.len(), wrong.join("\n"));
        assert!(self.rows.len() >= least, "only {} operators were reached", self.rows.len());
    }
}
