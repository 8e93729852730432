//! Walks the operator table of one crate: every row has a gradient that is checked, or says that it has none.
//!
//! What a row is called with comes from its schema, and from its `sample` in the table where that does not do. There is
//! no code for single operators here; what cannot hold for a row stands in its `grad_test`, and is an error where it does hold.

#![forbid(unsafe_code)]

pub mod sample;
pub mod table;

use flambeau_autograd::forward_ad::{self, dual_level, make_dual};
use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck, try_gradgradcheck};
use flambeau_autograd::{GradOptions, enable_grad, grad};
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::dispatch::op::Differentiability;
use flambeau_core::dispatch::registry;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::generator;
use flambeau_core::{Error, ErrorKind, Result, Tensor, Value, ops};
use num_complex::Complex;
use sample::{Call, Run};
use std::collections::BTreeSet;
use std::path::Path;
use table::{Form, Row, caught, form, out_of, row_of, samples_of, table};

fn differentiable(t: &Tensor) -> bool {
    t.dtype().is_floating() || t.dtype().is_complex()
}
fn tensors(v: &[Value], into: &mut Vec<Tensor>) {
    for v in v {
        match v {
            Value::Tensor(t) => into.push(t.clone()),
            Value::List(l) | Value::Tuple(l) => tensors(l, into),
            _ => {}
        }
    }
}
/// The error of a row that has no forward mode, here or in PyTorch.
fn no_tangent(e: &Error) -> bool {
    e.kind() == ErrorKind::Missing || e.message().contains("is not differentiable with")
}
fn finite(t: &Tensor) -> bool {
    let t = t.alias_detached();
    if t.dtype().is_complex() {
        t.try_to_vec::<Complex<f64>>().is_ok_and(|v| v.iter().all(|c| c.re.is_finite() && c.im.is_finite()))
    } else {
        t.try_to_vec::<f64>().is_ok_and(|v| v.iter().all(|c| c.is_finite()))
    }
}

/// One operator form under test.
struct Subject<'a> {
    op: &'static dyn AnyOp,
    row: &'a Row,
    form: Form,
    /// In place: through a view of a larger tensor, which is then the result.
    through_view: bool,
}

impl Subject<'_> {
    /// What an in-place form writes: a copy of the tensor, or a part of a larger tensor, which is put into `whole`.
    fn fresh(&self, v: &Value, whole: &mut Vec<Tensor>) -> Result<Value> {
        let Value::Tensor(t) = v else { panic!("writes to {}", v.type_name()) };
        if !self.through_view {
            return Ok(Value::Tensor(ops::clone(t, None)?));
        }
        let mut sizes = t.sizes().to_vec();
        sizes.iter_mut().for_each(|n| *n += 1);
        let w = Tensor::zeros_raw(&sizes, t.dtype(), t.device())?;
        let mut part = w.clone();
        for d in 0..t.dim() {
            part = ops::narrow(&part, d as i64, 1, t.sizes()[d])?;
        }
        if part.is_same(&w) {
            part = ops::alias(&w)?;
        }
        ops::copy_(&part, t, false)?;
        whole.push(w);
        Ok(Value::Tensor(part))
    }
    /// The differentiable results, of a call that always draws the same random numbers.
    fn call(&self, call: &Call, leaves: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut args = call.with(leaves);
        let mut whole = Vec::new();
        if self.form == Form::Inplace {
            args[0] = match &args[0] {
                Value::List(l) => {
                    Value::List(l.iter().map(|v| self.fresh(v, &mut whole)).collect::<Result<_>>()?)
                }
                v => self.fresh(v, &mut whole)?,
            };
        }
        generator::manual_seed(7);
        let results = self.op.call_boxed(&args)?;
        if !whole.is_empty() {
            return Ok(whole);
        }
        let returns = self.op.info().schema.returns;
        let mut out = Vec::new();
        for (i, r) in results.iter().enumerate() {
            let named = returns.get(i).map_or("", |r| r.0);
            if self.row.diff_outputs.is_empty() || self.row.diff_outputs.iter().any(|d| d == named) {
                tensors(std::slice::from_ref(r), &mut out);
            }
        }
        out.retain(differentiable);
        Ok(out)
    }
}

fn wanting(ts: &[Tensor]) -> Vec<Tensor> {
    ts.iter()
        .map(|t| {
            let t = t.alias_detached();
            t.requires_grad_(true);
            t
        })
        .collect()
}
fn fail(text: impl Into<String>) -> Error {
    Error::assertion(text)
}
fn within(e: Error, what: &str) -> Error {
    let text = format!("{what}: {}", e.message());
    if e.kind() == ErrorKind::Missing { Error::missing(text) } else { fail(text) }
}
fn close(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + scale)
}

/// `<v, J u>` by forward mode against `<J^T v, u>` by backward: the same number up to rounding.
fn transpose_identity(s: &Subject, c: &Call, leaves: &[Tensor]) -> Result<()> {
    let random = |t: &Tensor, seed: u64| -> Result<Tensor> {
        let g = generator::Generator::new();
        g.manual_seed(seed);
        let n = ops::empty_like(t, None, None, None, None, None)?;
        ops::normal_(&n, 0.0, 1.0, Some(&g))?;
        Ok(n)
    };
    let dot = |a: &Tensor, b: &Tensor| -> Result<f64> {
        let p = ops::mul(&ops::resolve_conj(&ops::conj(a)?)?, b)?;
        let p = if p.dtype().is_complex() { ops::real(&p)? } else { p };
        ops::sum(&p, None, false, None)?.try_item::<f64>()
    };
    let args = wanting(leaves);
    let outs = s.call(c, &args)?;
    let recorded: Vec<usize> = (0..outs.len()).filter(|i| outs[*i].requires_grad()).collect();
    let u: Vec<Tensor> =
        leaves.iter().enumerate().map(|(i, t)| random(t, 11 + i as u64)).collect::<Result<_>>()?;
    let v: Vec<Tensor> = recorded.iter().map(|&i| random(&outs[i], 90 + i as u64)).collect::<Result<_>>()?;
    let o = GradOptions::new().grad_outputs(v.iter().cloned().map(Some)).materialize_grads(true);
    let roots: Vec<Tensor> = recorded.iter().map(|&i| outs[i].clone()).collect();
    let mut back = 0.0;
    let mut scale = 0.0;
    for (g, u) in grad(&roots, &args, o)?.iter().flatten().zip(&u) {
        let d = dot(g, u)?;
        back += d;
        scale += d.abs();
    }
    let _level = dual_level()?;
    let duals: Vec<Tensor> =
        leaves.iter().zip(&u).map(|(t, u)| make_dual(&t.alias_detached(), u)).collect::<Result<_>>()?;
    let outs = s.call(c, &duals)?;
    let mut forth = 0.0;
    for (&i, v) in recorded.iter().zip(&v) {
        if let Some(t) = forward_ad::tangent(&outs[i]) {
            if t.sizes() != outs[i].sizes() || t.dtype() != outs[i].dtype() {
                return Err(fail(format!("tangent of sizes {:?} and dtype {}", t.sizes(), t.dtype().name())));
            }
            let d = dot(v, &t)?;
            forth += d;
            scale += d.abs();
        }
    }
    if close(back, forth, scale) {
        return Ok(());
    }
    Err(fail(format!("<J^T v, u> = {back:e}, <v, J u> = {forth:e}")))
}

/// Gradients of expanded and of strided tensors are those of plain ones.
fn layouts(s: &Subject, c: &Call, leaves: &[Tensor], strided: bool) -> Result<()> {
    let run = |args: &[Tensor], outs: &[Tensor], expanded: bool| -> Result<Vec<Tensor>> {
        let roots: Vec<Tensor> = outs.iter().filter(|t| t.requires_grad()).cloned().collect();
        let ones = |t: &Tensor| -> Result<Option<Tensor>> {
            let one = ops::ones(&[], Some(t.dtype()), None, None, None)?;
            let e = ops::expand(&one, t.sizes(), false)?;
            Ok(Some(if expanded {
                e
            } else {
                ops::clone(&e, Some(flambeau_core::MemoryFormat::Contiguous))?
            }))
        };
        let g: Vec<Option<Tensor>> = roots.iter().map(ones).collect::<Result<_>>()?;
        let o = GradOptions::new().grad_outputs(g).materialize_grads(true);
        Ok(grad(&roots, args, o)?.into_iter().flatten().collect())
    };
    let args = wanting(leaves);
    let plain = run(&args, &s.call(c, &args)?, false)?;
    let expanded = run(&args, &s.call(c, &args)?, true)?;
    // the same values with the first and last dimension exchanged in memory, every second element used
    let rearranged: Vec<Tensor> = args
        .iter()
        .map(|t| {
            if t.dim() == 0 || !strided {
                return Ok(t.clone());
            }
            let last = t.dim() as i64 - 1;
            let swapped =
                ops::clone(&ops::transpose(t, 0, last)?, Some(flambeau_core::MemoryFormat::Contiguous))?;
            let pairs = ops::stack(&[swapped.clone(), swapped], -1)?;
            ops::transpose(&ops::select(&pairs, -1, 0)?, 0, last)
        })
        .collect::<Result<_>>()?;
    let strided = run(&args, &s.call(c, &rearranged)?, false)?;
    for (what, other) in [("an expanded gradient", expanded), ("strided inputs", strided)] {
        for (i, (a, b)) in plain.iter().zip(&other).enumerate() {
            if !ops::allclose(a, b, 1e-8, 1e-10, true)? {
                return Err(fail(format!("leaf {i}: another gradient with {what}")));
            }
        }
    }
    Ok(())
}

fn zero_gradients(outs: &[Tensor], leaves: &[Tensor]) -> Result<()> {
    let ones = |t: &Tensor| ops::ones_like(t, None, None, None, None, None).map(Some);
    let o = GradOptions::new()
        .grad_outputs(outs.iter().map(ones).collect::<Result<Vec<_>>>()?)
        .allow_unused(true);
    for g in grad(outs, leaves, o)?.iter().flatten() {
        if ops::count_nonzero(g, None)?.try_item::<i64>()? != 0 {
            return Err(fail("the gradient is not zero"));
        }
    }
    Ok(())
}

/// Rows by what was found out about them.
#[derive(Default)]
pub struct Report {
    pub checked: BTreeSet<String>,
    pub complex: BTreeSet<String>,
    pub constant: BTreeSet<String>,
    pub discrete: BTreeSet<String>,
    pub refused: BTreeSet<String>,
    pub out_forms: usize,
    pub calls: usize,
    failed: Vec<String>,
    /// What rows say in `grad_test` that was needed.
    used: BTreeSet<(&'static str, String)>,
}

#[derive(Default)]
struct Walk {
    r: Report,
}

impl Walk {
    fn allowed(&mut self, word: &'static str, row: &Row) -> bool {
        let said = row.says(word);
        if said {
            self.r.used.insert((word, row.name.clone()));
        }
        said
    }

    fn gradients(&mut self, name: &str, s: &Subject, c: &Call, complex: bool) -> Result<()> {
        let leaves = wanting(&c.leaf_tensors());
        let f = |ts: &[Tensor]| s.call(c, ts);
        let o = GradcheckOptions::new();
        if self.allowed("zero", s.row) {
            return zero_gradients(&f(&leaves)?, &leaves);
        }
        if let Err(e) = try_gradcheck(f, &leaves, o.clone())
            && e.message().contains("ill-defined")
            && self.allowed("phases", s.row)
        {
            return Ok(());
        }
        let strided = !self.allowed("memory", s.row);
        if self.allowed("defined", s.row) {
            layouts(s, c, &leaves, strided)?;
            return match transpose_identity(s, c, &leaves) {
                Err(e) if no_tangent(&e) && self.allowed("no_forward", s.row) => Ok(()),
                r => r.map_err(|e| within(e, "forward mode")),
            };
        }
        try_gradcheck(f, &leaves, o.clone())?;
        layouts(s, c, &leaves, strided)?;
        match try_gradgradcheck(f, &leaves, None, o) {
            Ok(_) => {}
            Err(e) if e.kind() != ErrorKind::Assertion && self.allowed("once", s.row) => {}
            Err(e) => return Err(within(e, "second order")),
        }
        let forward = GradcheckOptions::new().check_forward_ad(true).check_backward_ad(false);
        let check =
            transpose_identity(s, c, &leaves).and_then(|()| try_gradcheck(f, &leaves, forward).map(drop));
        match check {
            Ok(()) => {}
            Err(e) if no_tangent(&e) && self.allowed("no_forward", s.row) => {}
            Err(e) => return Err(within(e, "forward mode")),
        }
        if complex {
            self.r.complex.insert(name.to_string());
        }
        Ok(())
    }

    /// One form with one sample in one run; whether the call was possible.
    fn one(&mut self, name: &str, s: &mut Subject, sample: &toml::Table, run: Run) -> Result<bool> {
        let info = s.op.info();
        let mut c = sample::call(info.schema.args, sample, run, 3);
        let shaped =
            !info.schema.args.iter().any(|a| sample.get(a.name).is_some_and(|v| v.is_str() || v.is_array()));
        if run != Run::Positive && (!c.open || matches!(run, Run::ZeroDim | Run::Empty) && !shaped) {
            return Ok(false);
        }
        // what has no formula says so at the call, and stays out of the rest
        if let Some(with) = &s.row.formulas {
            for (i, a) in info.schema.args.iter().enumerate() {
                if with.contains(a.name) || !c.leaves.iter().any(|l| l.0 == i) {
                    continue;
                }
                let e = s.call(&c, &wanting(&c.leaf_tensors())).err();
                if !e
                    .as_ref()
                    .is_some_and(|e| e.message().contains("is not differentiable with respect to argument"))
                {
                    return Err(fail(format!("no formula for `{}`, and no error: {e:?}", a.name)));
                }
                c.freeze(i);
            }
        }
        let values = c.leaf_tensors();
        let outs = match s.call(&c, &values) {
            Ok(o) => o,
            Err(_) if run != Run::Positive => return Ok(false),
            Err(e)
                if s.form == Form::Inplace
                    && ["match the broadcast shape", "Bad in-place call"]
                        .iter()
                        .any(|t| e.message().contains(t)) =>
            {
                return Ok(false);
            }
            Err(e) => return Err(e),
        };
        if !outs.iter().all(finite) {
            return if run == Run::Positive { Err(fail("results are not finite")) } else { Ok(false) };
        }
        self.r.calls += 1;
        if info.grad == Differentiability::None {
            return self.without(name, s, &c, &outs);
        }
        if outs.is_empty() {
            self.r.discrete.insert(name.to_string());
            return Ok(true);
        }
        if c.leaves.is_empty() {
            return Err(fail("no argument wants a gradient"));
        }
        let recorded = s.call(&c, &wanting(&values))?;
        if let Some(i) = recorded.iter().position(|t| !t.requires_grad()) {
            // a result may be made without the leaves: a weight's sum, a mask
            if outs.len() == 1 {
                return Err(fail(format!("result {i} lost its gradient")));
            }
        }
        if self.allowed("refused", s.row) {
            return self.refusal(name, &recorded[0]).map(|()| true);
        }
        let complex = run == Run::Complex;
        self.gradients(name, s, &c, complex)?;
        if s.form == Form::Inplace {
            s.through_view = true;
            let r = self.gradients(name, s, &c, complex);
            s.through_view = false;
            r.map_err(|e| within(e, "through a view"))?;
        }
        self.r.checked.insert(name.to_string());
        Ok(true)
    }
    fn refusal(&mut self, name: &str, out: &Tensor) -> Result<()> {
        let ones = ops::ones_like(out, None, None, None, None, None)?;
        match out.try_backward(flambeau_core::BackwardOptions::new().gradient(&ones)) {
            Err(e) if e.message().contains("is not implemented") => {
                self.r.refused.insert(name.to_string());
                Ok(())
            }
            other => Err(fail(format!("`refused` in `grad_test`, but backward gave {other:?}"))),
        }
    }
    /// A row with `grad = "none"`: nothing is recorded, and floating results of floating arguments are listed.
    fn without(&mut self, name: &str, s: &Subject, c: &Call, outs: &[Tensor]) -> Result<bool> {
        if outs.is_empty() || c.leaves.is_empty() {
            self.r.discrete.insert(name.to_string());
            return Ok(true);
        }
        let leaves = wanting(&c.leaf_tensors());
        let recorded = s.call(c, &leaves)?;
        if s.form == Form::Inplace {
            // overwritten with what does not depend on the old values
            zero_gradients(&recorded, &leaves)?;
            self.r.constant.insert(name.to_string());
            return Ok(true);
        }
        if recorded.iter().any(Tensor::requires_grad) {
            return Err(fail("grad = \"none\", but it was recorded"));
        }
        if !self.allowed("constant", s.row) {
            return Err(fail("floating results without a gradient, and no `constant` in `grad_test`"));
        }
        self.r.constant.insert(name.to_string());
        Ok(true)
    }
    /// `out=` refuses to lose gradients, or hands them on.
    fn out_form(&mut self, s: &Subject, sample: &toml::Table) -> Result<()> {
        let args = s.op.info().schema.args;
        let mut c = sample::call(args, sample, Run::Positive, 3);
        // the written tensors of the generic sample are no leaves
        for (i, _) in args.iter().enumerate().filter(|a| a.1.mutated) {
            c.freeze(i);
        }
        if c.leaves.is_empty() {
            return Ok(());
        }
        let r = s.op.call_boxed(&c.with(&wanting(&c.leaf_tensors())));
        let mut written = Vec::new();
        tensors(r.as_deref().unwrap_or_default(), &mut written);
        if written.iter().any(Tensor::requires_grad) {
            // a composite's copy to its output is recorded
            self.r.out_forms += 1;
            return Ok(());
        }
        match r.err() {
            Some(e) if e.message().contains("don't support automatic differentiation") => {
                self.r.out_forms += 1;
                Ok(())
            }
            // the generic sample's output is real, which these rows refuse before they ask for gradients
            Some(e) if e.message().contains("expects a complex output tensor") => Ok(()),
            // without a gradient there is nothing to lose, and the generic sample's output has another dtype than the result
            Some(e) if s.op.info().grad == Differentiability::None && e.kind() == ErrorKind::DType => Ok(()),
            // neither do results that are true or false, or positions, of rows made of others
            Some(e)
                if ["bool", "int,", "long int,"]
                    .iter()
                    .any(|d| e.message().contains(&format!("to have dtype {d}"))) =>
            {
                Ok(())
            }
            None if s.op.info().grad == Differentiability::None => {
                self.r.out_forms += 1;
                Ok(())
            }
            other => Err(fail(format!("out= with a leaf gave {other:?}"))),
        }
    }
}

/// In how many parts [`walk`] goes through a table.
pub const PARTS: usize = 2;

/// The part that a row belongs to.
fn part_of(name: &str) -> usize {
    name.bytes().map(usize::from).sum::<usize>() % PARTS
}

/// Walks the operators of one part of crate `owner`, whose table is in `dir`: all forms of a row belong to one part.
///
/// # Panics
/// With the list of everything that is wrong.
pub fn walk(owner: &str, dir: &Path, part: usize) -> Report {
    registry::init();
    let rows = table(dir);
    let mut w = Walk::default();
    let all: Vec<&'static dyn AnyOp> =
        registry::crates().iter().flat_map(|c| c.ops).copied().filter(|o| o.info().owner == owner).collect();
    assert!(all.len() >= rows.len(), "the registry has {} operators for {} rows", all.len(), rows.len());
    for op in all {
        let name = op.info().name;
        let form = form(op);
        // the out form of an overload has a name of its own
        let plain = if form == Form::Out { out_of(op).unwrap_or(name) } else { name };
        let Some(row) = row_of(&rows, plain) else {
            w.r.failed.push(format!("{name}: no row of that name"));
            continue;
        };
        if part_of(&row.name) != part {
            continue;
        }
        let mut s = Subject { op, row, form, through_view: false };
        if s.form == Form::Out {
            if let Err(e) = caught(|| w.out_form(&s, &row.samples[0])) {
                w.r.failed.push(format!("{name}: {e}"));
            }
            continue;
        }
        let mut possible = 0;
        for (k, sample) in samples_of(op, row).iter().enumerate() {
            for run in [Run::Positive, Run::Signed, Run::Complex, Run::ZeroDim, Run::Empty] {
                match caught(|| enable_grad(|| w.one(name, &mut s, sample, run))) {
                    Ok(ok) => possible += usize::from(ok),
                    Err(e) => {
                        possible += 1;
                        w.r.failed.push(format!("{name} ({run:?}, sample {k}): {e}"));
                    }
                }
            }
        }
        if possible == 0 {
            w.r.failed.push(format!("{name}: never called"));
        }
    }
    for row in rows.values().filter(|r| part_of(&r.name) == part) {
        for word in &row.grad_test {
            if !w.r.used.iter().any(|(u, of)| u == word && *of == row.name) {
                w.r.failed.push(format!("{}: `{word}` in `grad_test`, which it need not say", row.name));
            }
        }
    }
    let r = w.r;
    println!(
        "{owner}, part {part}: {} forms checked ({} with complex numbers) in {} calls; {} refuse, {} constant, {} discrete; {} out forms",
        r.checked.len(),
        r.complex.len(),
        r.calls,
        r.refused.len(),
        r.constant.len(),
        r.discrete.len(),
        r.out_forms
    );
    assert!(r.failed.is_empty(), "{} failures:\n{}", r.failed.len(), r.failed.join("\n"));
    r
}
