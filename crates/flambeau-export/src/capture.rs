//! Programs captured for export: at the sizes of the example, and at others where sizes are dynamic.

use crate::conditions::{Size, conditions};
use crate::dims::{Dim, DynamicShapes, Named};
use crate::failures;
use crate::graph_signature::{
    ArgumentSpec, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
};
use crate::merge;
use crate::preserved::{Calls, Preserved};
use crate::program::{ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range};
use crate::refusals::{self, Violation};
use crate::solve::Points;
use crate::specs;
use crate::spelling::Aten;
use crate::unbacked;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::stand_in::substituting;
use flambeau_core::{Error, Result, Tensor, Value, ops};
use flambeau_fx::capture::{Capture, Leaves, Level};
use flambeau_fx::pytree::{self, TreeSpec};
use flambeau_fx::symbolic::{Bindings, Expr, Number};
use flambeau_fx::{Argument, GraphModule, Op, Val};
use flambeau_nn::Module;
use sha2::{Digest, Sha256};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

mod narrow;

/// How [`export_with`](crate::export_with) captures.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    pub(crate) names: Vec<String>,
    pub(crate) kwargs: Vec<(String, Value)>,
    pub(crate) dynamic: DynamicShapes,
    pub(crate) preserved: Vec<String>,
}
impl ExportOptions {
    /// All sizes are those of the example.
    pub fn new() -> ExportOptions {
        ExportOptions::default()
    }
    /// Names of the program's parameters, as guards and printed programs show them.
    pub fn names(mut self, names: &[&str]) -> ExportOptions {
        self.names = names.iter().map(|n| n.to_string()).collect();
        self
    }
    /// Keyword arguments.
    pub fn kwargs(mut self, kwargs: &Kwargs) -> ExportOptions {
        self.kwargs = kwargs.to_vec();
        self
    }
    /// Which sizes may differ from call to call.
    pub fn dynamic_shapes(mut self, shapes: DynamicShapes) -> ExportOptions {
        self.dynamic = shapes;
        self
    }
    /// Dims of one input: the same as an entry of [`ExportOptions::dynamic_shapes`].
    pub fn dynamic(mut self, input: &str, dims: impl IntoIterator<Item = (usize, Dim)>) -> ExportOptions {
        self.dynamic = self.dynamic.with(input, dims);
        self
    }
    /// Paths of modules of which the program keeps how they are called, so that [`unflatten`](crate::unflatten) gives them with their
    /// own arguments. Of a call the tensors are kept: as positional arguments, and as one result or a tuple of them.
    pub fn preserve_module_call_signature(mut self, paths: &[&str]) -> ExportOptions {
        self.preserved = paths.iter().map(|p| p.to_string()).collect();
        self
    }
}

fn own_names(names: &[String], args: usize, kwargs: &Kwargs) -> Vec<String> {
    let mut all: Vec<String> = (0..args)
        .map(|i| {
            let plain = || if args == 1 { "x".to_string() } else { format!("args_{i}") };
            names.get(i).cloned().unwrap_or_else(plain)
        })
        .collect();
    all.extend(kwargs.iter().map(|(k, _)| k.clone()));
    all
}
/// `['x'][0]` as `x[0]`.
fn shown(path: &str) -> String {
    match path.strip_prefix("['").and_then(|p| p.split_once("']")) {
        Some((name, rest)) => format!("{name}{rest}"),
        None => path.to_string(),
    }
}
struct Leaf {
    /// `['x'][0]`
    path: String,
    value: Value,
}
impl Leaf {
    /// The text that reads a size of it: `L['x'].size()[0]`; of a number, that reads the number.
    fn source(&self, dim: usize) -> String {
        match &self.value {
            Value::Tensor(_) => format!("L{}.size()[{dim}]", self.path),
            _ => format!("L{}", self.path),
        }
    }
}
fn leaves_of(names: &[String], args: &[Value], kwargs: &Kwargs) -> (TreeSpec, Vec<Leaf>) {
    let mut values = Vec::new();
    let all = Value::Tuple(vec![Value::Tuple(args.to_vec()), Value::Dict(kwargs.to_vec())]);
    let spec = TreeSpec::flatten(&all, &mut values);
    let mut paths = Vec::new();
    let children: Vec<&TreeSpec> = spec.children.iter().flat_map(|c| &c.children).collect();
    for (name, s) in names.iter().zip(children) {
        specs::paths(s, &format!("['{name}']"), &mut paths);
    }
    let leaves = paths.into_iter().zip(values).map(|(path, value)| Leaf { path, value }).collect();
    (spec, leaves)
}
/// The leaves of arguments with the texts that read them.
pub(crate) fn named_leaves(names: &[&str], args: &[Value], kwargs: &Kwargs) -> Vec<(String, Value)> {
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    let names = own_names(&names, args.len(), kwargs);
    leaves_of(&names, args, kwargs).1.into_iter().map(|l| (shown(&l.path), l.value)).collect()
}

/// A symbol: its name, the dim that it is, the example's value, bounds.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub name: String,
    /// What PyTorch's errors call it: the dim's name, or that of the size.
    pub dim: String,
    /// `L['x'].size()[0]`
    pub source: String,
    pub hint: bool,
    /// No size is it as it is.
    pub phantom: bool,
    /// The program reads it from a tensor.
    pub unbacked: bool,
    pub may_be_static: bool,
    pub at: i64,
    pub min: Option<i64>,
    pub max: Option<i64>,
}
fn hashed(source: &str) -> u64 {
    Sha256::digest(source.as_bytes()).iter().fold(0u64, |n, b| (n * 256 + u64::from(*b)) % 100)
}
/// The name of the symbol of a size: from the text that reads it.
pub(crate) fn symbol_of(source: &str) -> String {
    format!("s{}", hashed(source))
}
/// Sizes of inputs as expressions.
struct Sizes {
    symbols: Vec<Symbol>,
    /// By leaf and dimension.
    of: Vec<(usize, usize, Expr)>,
    taken: Vec<u64>,
    /// A size of the example that does not follow from another one as its dim says.
    unequal: Option<String>,
}
impl Sizes {
    /// PyTorch's number of a symbol: from the text that reads it.
    fn number(&mut self, source: &str) -> u64 {
        let mut n = hashed(source);
        while self.taken.contains(&n) {
            n += 1;
        }
        self.taken.push(n);
        n
    }
    fn of(dynamic: &DynamicShapes, leaves: &[Leaf], names: &[String]) -> Result<Sizes> {
        let mut all = Sizes { symbols: Vec::new(), of: Vec::new(), taken: Vec::new(), unequal: None };
        let mut wanted: Vec<(usize, usize, Dim)> = Vec::new();
        for (input, dims) in &dynamic.of {
            let Some(i) = leaves.iter().position(|l| shown(&l.path) == *input) else {
                let given: Vec<String> = dynamic.of.iter().map(|(n, _)| format!("'{n}'")).collect();
                let known: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
                return Err(refusals::user(format!(
                    "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names [{}] of `inputs`, but \
                     here they are [{}]. Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as \
                     a list/tuple matching `inputs`. For more information about this error, see: \
                     https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation",
                    known.join(", "),
                    given.join(", ")
                )));
            };
            wanted.extend(dims.iter().map(|(d, dim)| (i, *d, dim.clone())));
        }
        wanted.sort_by_key(|(i, d, _)| (*i, *d));
        let at =
            |i: usize, d: usize| match &leaves[i].value {
                Value::Tensor(t) => t.sizes().get(d).copied().ok_or_else(|| {
                    refusals::user(format!("'{}' has no dimension {d}", shown(&leaves[i].path)))
                }),
                Value::Int(n) => Ok(*n),
                v => Err(refusals::user(format!(
                    "'{}' is no tensor but a {}",
                    shown(&leaves[i].path),
                    v.type_name()
                ))),
            };
        let source = |i: usize, d: usize| leaves[i].source(d);
        // dims that stand somewhere as they are, then those that others follow from
        for (i, d, dim) in &wanted {
            let n = at(*i, *d)?;
            let (named, hint) = match dim {
                Dim::Named(named) => (Some(named), false),
                Dim::Auto | Dim::Dynamic => (None, true),
                _ => continue,
            };
            // sizes of 0 and 1 are what they are
            if hint && n < 2 {
                if *dim == Dim::Auto {
                    continue;
                }
                return Err(refusals::constraints(&[Violation::Constant { dim: source(*i, *d), value: n }]));
            }
            if let Some(known) = named.and_then(|k| all.symbols.iter().find(|s| s.dim == k.name)) {
                if known.at != n {
                    return Err(refusals::constraints(&[Violation::NotEqual {
                        a: (known.dim.clone(), source(*i, *d)),
                        b: (known.dim.clone(), known.source.clone()),
                    }]));
                }
                // PyTorch keeps the symbol that it met last
                let old = known.name.clone();
                let name = format!("s{}", all.number(&source(*i, *d)));
                all.rename(&old, &name);
                all.of.push((*i, *d, Expr::symbol(&name)));
                continue;
            }
            let symbol = Symbol {
                name: String::new(),
                dim: named.map_or_else(|| source(*i, *d), |k| k.name.clone()),
                source: source(*i, *d),
                hint,
                phantom: false,
                unbacked: false,
                may_be_static: *dim == Dim::Auto,
                at: n,
                min: named.and_then(|k| k.min),
                max: named.and_then(|k| k.max),
            };
            all.add(symbol, *i, *d)?;
        }
        for (i, d, dim) in &wanted {
            let Dim::Derived { root, factor, offset } = dim else { continue };
            let n = at(*i, *d)?;
            let name = match all.symbols.iter().find(|s| s.dim == root.name) {
                Some(s) => {
                    if factor.checked_mul(s.at).and_then(|v| v.checked_add(*offset)) != Some(n) {
                        all.unequal = Some(format!(
                            "Expected input {} to be equal to {dim}, where {} = {}, but got {n}",
                            source(*i, *d),
                            root.name,
                            s.at
                        ));
                    }
                    s.name.clone()
                }
                None => all.phantom(root, n, *factor, *offset)?,
            };
            let e = crate::solve::sum(vec![
                crate::solve::product(*factor, vec![Expr::symbol(&name)]),
                Expr::Int(*offset),
            ]);
            all.of.push((*i, *d, e));
        }
        all.of.sort_by_key(|(i, d, _)| (*i, *d));
        Ok(all)
    }
    /// By leaf and dimension: the example's size, how it is read, and its expression.
    fn read(&self, leaves: &[Leaf]) -> Vec<(usize, usize, i64, Size)> {
        let at = |i: usize, d: usize| match &leaves[i].value {
            Value::Tensor(t) => t.sizes().get(d).copied().unwrap_or(0),
            Value::Int(n) => *n,
            _ => 0,
        };
        let one = |(i, d, e): &(usize, usize, Expr)| {
            (*i, *d, at(*i, *d), Size { source: leaves[*i].source(*d), expr: e.clone() })
        };
        self.of.iter().map(one).collect()
    }
    fn check(s: &Symbol) -> Result<()> {
        let (low, high) = (s.min.unwrap_or(0), s.max.unwrap_or(i64::MAX));
        if s.at < low || s.at > high {
            let top = s.max.map_or("int_oo".to_string(), |m| m.to_string());
            return Err(refusals::user(format!("{} not in range [{low}, {top}]", s.at)));
        }
        Ok(())
    }
    fn add(&mut self, mut s: Symbol, i: usize, d: usize) -> Result<()> {
        Sizes::check(&s)?;
        s.name = format!("s{}", self.number(&s.source));
        self.of.push((i, d, Expr::symbol(&s.name)));
        self.symbols.push(s);
        Ok(())
    }
    /// The symbol of a dim that no size is as it is.
    fn phantom(&mut self, root: &Named, n: i64, factor: i64, offset: i64) -> Result<String> {
        if factor == 0 || (n - offset) % factor != 0 {
            return Err(refusals::user(format!(
                "Expected input size {n} to be of the form {}",
                Dim::Derived { root: root.clone(), factor, offset }
            )));
        }
        let name = format!("s{}", self.number(&root.name));
        let s = Symbol {
            name: name.clone(),
            dim: root.name.clone(),
            source: root.name.clone(),
            hint: false,
            phantom: true,
            unbacked: false,
            may_be_static: false,
            at: (n - offset) / factor,
            min: root.min,
            max: root.max,
        };
        Sizes::check(&s)?;
        self.symbols.push(s);
        Ok(name)
    }
    fn bindings(&self, p: &[i64]) -> Bindings {
        self.symbols.iter().map(|s| s.name.clone()).zip(p.iter().copied()).collect()
    }
    /// The answers to the program's reads.
    fn answers(&self, p: &[i64]) -> Vec<i64> {
        self.symbols.iter().zip(p).filter(|(s, _)| s.unbacked).map(|(_, v)| *v).collect()
    }
    /// A symbol for an integer that the program reads.
    fn read_number(&mut self, k: usize, at: i64) {
        self.symbols.push(Symbol {
            name: format!("u{k}"),
            dim: String::new(),
            source: String::new(),
            hint: false,
            phantom: false,
            unbacked: true,
            may_be_static: false,
            at,
            min: None,
            max: None,
        });
    }
    fn rename(&mut self, old: &str, new: &str) {
        for s in self.symbols.iter_mut().filter(|s| s.name == old) {
            s.name = new.to_string();
        }
        for (_, _, e) in self.of.iter_mut().filter(|(_, _, e)| e.as_symbol() == Some(old)) {
            *e = Expr::symbol(new);
        }
    }
    /// Puts another expression in a symbol's place everywhere.
    fn replace(&mut self, name: &str, by: &Expr) {
        for (_, _, e) in &mut self.of {
            if e.as_symbol() == Some(name) {
                *e = by.clone();
            }
        }
        self.symbols.retain(|s| s.name != name);
        self.of.retain(|(_, _, e)| !matches!(e, Expr::Int(_)));
    }
}
/// A tensor like the example with another size: its elements again and again.
fn resized(t: &Tensor, dim: usize, size: i64) -> Result<Tensor> {
    let old = t.sizes()[dim];
    if old == size {
        return Ok(t.clone());
    }
    if old == 0 {
        return Err(Error::value("a dynamic size of an example is at least 1"));
    }
    let index: Vec<i64> = (0..size).map(|i| i % old).collect();
    let n = index.len() as i64;
    let index = Tensor::from_vec(index, [n]);
    flambeau_autograd::no_grad(|| ops::index_select(&ops::detach(t)?, dim as i64, &index))
}

/// A capture at one point.
pub(crate) struct Captured {
    pub module: GraphModule,
    pub out_spec: TreeSpec,
    /// Of the user's inputs, in the graph's order.
    pub inputs: Vec<String>,
    pub called: Vec<String>,
    pub preserved: Vec<Preserved>,
    /// Integers that the program read.
    pub read: Vec<i64>,
}
impl Captured {
    /// A graph without anything around it.
    pub fn of(module: GraphModule) -> Captured {
        Captured {
            module,
            out_spec: TreeSpec::LEAF,
            inputs: Vec::new(),
            called: Vec::new(),
            preserved: Vec::new(),
            read: Vec::new(),
        }
    }
}
/// The program to be captured.
pub(crate) struct Program<'a> {
    module: Option<&'a dyn Module>,
    forward: &'a dyn Fn(&[Value], &Kwargs) -> Result<Value>,
    spec: TreeSpec,
    leaves: Vec<Leaf>,
    preserved: &'a [String],
}
/// `['x'][0].y` as `x_0_y`.
fn identifier(path: &str) -> String {
    let mut out = String::new();
    for c in path.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            out.push(c);
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_string()
}
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the program panicked").to_string()
}
impl Program<'_> {
    /// The program at these sizes of its inputs, and with these answers to what it reads from its tensors.
    pub(crate) fn at(&self, sizes: &[(usize, usize, i64)], answers: &[i64]) -> Result<Captured> {
        let capture = Capture::new(Level::Calls, Rc::new(Aten));
        capture.answer(answers, unbacked::refused);
        let mut pairs = Vec::new();
        if let Some(m) = self.module {
            for (path, p) in m.named_parameters() {
                let w = capture.weight(&format!("p_{}", identifier(&path)), &p)?;
                pairs.push((Tensor::clone(&p), w));
            }
            for (path, b) in m.named_buffers() {
                // what the program writes to it must not stay
                let copy = flambeau_autograd::no_grad(|| ops::clone(b.tensor(), None))?;
                let w = capture.weight(&format!("b_{}", identifier(&path)), &copy)?;
                pairs.push((b.tensor().clone(), w));
            }
        }
        let (mut given, mut inputs) = (Vec::new(), Vec::new());
        for (i, l) in self.leaves.iter().enumerate() {
            let mut v = l.value.clone();
            for (_, d, n) in sizes.iter().filter(|(leaf, _, _)| *leaf == i) {
                v = match &v {
                    Value::Tensor(t) => Value::Tensor(resized(t, *d, *n)?),
                    _ => Value::Int(*n),
                };
            }
            let name = identifier(&l.path);
            given.push(capture.input(&name, &v)?);
            inputs.push(name);
        }
        let all = self.spec.unflatten(&given)?;
        let parts = all.items().unwrap_or(&[]);
        let args = parts.first().and_then(Value::items).unwrap_or(&[]).to_vec();
        let kwargs = match parts.get(1) {
            Some(Value::Dict(d)) => d.clone(),
            _ => Vec::new(),
        };
        let watched = self.module.map(|m| Leaves::watch(m, Rc::new(|_: &dyn Module, _: &str| false)));
        let calls = self.module.map(|m| Calls::watch(m, self.preserved)).transpose()?;
        let run = || capture.run(|| substituting(&pairs, || (self.forward)(&args, &kwargs)));
        let out = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(out) => out?,
            Err(panic) => return Err(Error::runtime(text_of(&*panic))),
        };
        drop(watched);
        let seen = calls.map(Calls::seen).unwrap_or_default();
        pytree::check([&out])?;
        let mut leaves = Vec::new();
        let out_spec = TreeSpec::flatten(&out, &mut leaves);
        if let Some(v) = leaves.iter().find(|v| matches!(v, Value::Object(_))) {
            return Err(Error::runtime(format!(
                "Found <class '{}'> in output, which is not a known type. If this type holds tensors, you need to register a \
                 pytree for it. See https://github.com/pytorch/functorch/issues/475 for a brief explanation why. If you don't \
                 need to register a pytree, please leave a comment explaining your use case and we'll make this more ergonomic \
                 to deal with",
                v.type_name()
            )));
        }
        let output: Vec<Argument> = leaves.iter().map(|v| capture.result(v)).collect();
        let nodes =
            |l: &[Tensor]| l.iter().map(|t| capture.result(&Value::Tensor(t.clone()))).collect::<Vec<_>>();
        let seen: Vec<_> = seen.iter().map(|c| (c, nodes(&c.inputs), nodes(&c.outputs))).collect();
        let read = capture.answered();
        let module = capture.finish(Argument::Tuple(output))?;
        let preserved =
            seen.iter().map(|(c, i, o)| c.preserved(&module, i, o)).collect::<Result<Vec<_>>>()?;
        let mut called = Vec::new();
        for n in module.graph.nodes() {
            for (_, path, _) in &module.graph.node(n).meta.nn_module_stack {
                if !path.is_empty() && !called.contains(path) {
                    called.push(path.clone());
                }
            }
        }
        Ok(Captured { module, out_spec, inputs, called, preserved, read })
    }
}

pub(crate) fn export(
    module: Option<&dyn Module>,
    forward: &dyn Fn(&[Value], &Kwargs) -> Result<Value>,
    args: &[Value],
    options: &ExportOptions,
) -> Result<ExportedProgram> {
    let names = own_names(&options.names, args.len(), &options.kwargs);
    pytree::check(args.iter().chain(options.kwargs.iter().map(|(_, v)| v)))?;
    let (spec, leaves) = leaves_of(&names, args, &options.kwargs);
    let mut sizes = Sizes::of(&options.dynamic, &leaves, &names)?;
    let program = Program { module, forward, spec, leaves, preserved: &options.preserved };
    let first = match (program.at(&[], &[]), &sizes.unequal) {
        (Err(e), _) => return Err(failures::at_symbols(&program, &sizes.read(&program.leaves), e)),
        (Ok(_), Some(text)) => return Err(refusals::user(text.clone())),
        (Ok(first), None) => first,
    };
    for (k, n) in first.read.iter().enumerate() {
        sizes.read_number(k, *n);
    }
    let (captures, points) = loop {
        let points = Points::new(
            &sizes
                .symbols
                .iter()
                .map(|s| {
                    let least =
                        if s.unbacked { s.min.unwrap_or(i64::MIN) } else { s.min.unwrap_or(2).max(1) };
                    (s.name.clone(), s.at, least, s.max.unwrap_or(i64::MAX))
                })
                .collect::<Vec<_>>(),
        );
        match narrow::others(&program, &sizes, &points, &first) {
            Ok(others) => break (others, points),
            Err(j) => narrow::narrow(&program, &mut sizes, &points, &first, j)?,
        }
    };
    let mut all = vec![first];
    all.extend(captures);
    let mut merged = merge::merge(&all, &points, &program_sizes(&program, &sizes))?;
    for s in sizes.symbols.iter().filter(|s| s.unbacked) {
        unbacked::asserted(&mut merged.module, &s.name, Range { min: s.min, max: s.max })?;
    }
    assemble(&program, &names, sizes, merged, &all[0])
}
/// The expressions of inputs' sizes: by the name of the input and the dimension.
fn program_sizes(p: &Program<'_>, s: &Sizes) -> Vec<(String, Option<usize>, Expr)> {
    s.of.iter()
        .map(|(i, d, e)| {
            let of_tensor = matches!(p.leaves[*i].value, Value::Tensor(_));
            (identifier(&p.leaves[*i].path), of_tensor.then_some(*d), e.clone())
        })
        .collect()
}
/// All parts together.
fn assemble(
    program: &Program<'_>,
    names: &[String],
    sizes: Sizes,
    mut merged: merge::Merged,
    first: &Captured,
) -> Result<ExportedProgram> {
    let mut signature = ExportGraphSignature::default();
    let (mut state, mut constants) = (Vec::new(), Vec::new());
    let mut add = |kind, arg, target: Option<&str>, persistent| {
        let target = target.map(str::to_string);
        signature.input_specs.push(InputSpec { kind, arg, target, persistent });
    };
    let tensor = |name: String| ArgumentSpec::Tensor(name);
    if let Some(m) = program.module {
        for (path, p) in m.named_parameters() {
            add(InputKind::Parameter, tensor(format!("p_{}", identifier(&path))), Some(&path), None);
            state.push((path, Tensor::clone(&p)));
        }
        for (path, b) in m.named_buffers() {
            let persistent = b.is_persistent();
            add(InputKind::Buffer, tensor(format!("b_{}", identifier(&path))), Some(&path), Some(persistent));
            let list = if persistent { &mut state } else { &mut constants };
            list.push((path, b.tensor().clone()));
        }
    }
    // constants become inputs, before those of the caller
    let g = &mut merged.module.graph;
    let user = first.inputs.first().and_then(|n| g.named(n));
    let mut lifted = Vec::new();
    for (path, v) in merged.module.attributes() {
        if let Value::Tensor(t) = v {
            lifted.push((path.clone(), t.clone()));
        }
    }
    for (i, (path, t)) in lifted.iter().enumerate() {
        let (target, name) = (format!("lifted_tensor_{i}"), format!("c_lifted_tensor_{i}"));
        let g = &mut merged.module.graph;
        match user {
            Some(n) => g.inserting_before(n),
            None => {
                let first = g.nodes().next();
                if let Some(n) = first {
                    g.inserting_before(n);
                }
            }
        }
        let input = g.create_node(Op::Placeholder, &name, Vec::new(), Vec::new(), Some(&name));
        g.meta_mut(input).val = Some(Val::Tensor(flambeau_fx::TensorMeta::of(t)));
        g.inserting_at_end();
        for n in g.find_nodes(Op::GetAttr, Some(path)) {
            g.replace_all_uses_with(n, input);
            g.erase_node(n)?;
        }
        add(InputKind::ConstantTensor, tensor(name), Some(&target), None);
        constants.push((target, t.clone()));
    }
    for (path, _) in &lifted {
        merged.module.remove(path);
    }
    for (l, name) in program.leaves.iter().zip(&first.inputs) {
        let arg =
            match &l.value {
                Value::Tensor(_) => ArgumentSpec::Tensor(name.clone()),
                Value::Int(_)
                    if merged.module.graph.named(name).is_some_and(|n| {
                        matches!(merged.module.graph.node(n).meta.val, Some(Val::Sym(_)))
                    }) =>
                {
                    ArgumentSpec::SymInt(name.clone())
                }
                v => ArgumentSpec::Constant(name.clone(), v.clone()),
            };
        add(InputKind::UserInput, arg, None, None);
    }
    let g = &merged.module.graph;
    for a in &merged.output {
        let arg = match a {
            Argument::Node(n) => {
                let d = g.node(*n);
                match &d.meta.val {
                    Some(Val::Sym(_)) => ArgumentSpec::SymInt(d.name.clone()),
                    _ => ArgumentSpec::Tensor(d.name.clone()),
                }
            }
            Argument::Value(v) => ArgumentSpec::Constant(String::new(), v.clone()),
            _ => return Err(Error::missing("a result that holds a container within a leaf")),
        };
        signature.output_specs.push(OutputSpec { kind: OutputKind::UserOutput, arg, target: None });
    }
    // symbols that are sizes, sizes that follow from them, then symbols that no size is
    let mut ranges: Vec<(String, Range)> = Vec::new();
    let range = |s: &Symbol| {
        // PyTorch knows of no size below 2 where it makes the symbol itself
        let min = if s.hint { 2 } else { s.min.unwrap_or(0) };
        if s.unbacked {
            return (s.name.clone(), Range { min: s.min, max: s.max });
        }
        (s.name.clone(), Range { min: Some(if s.phantom { min.max(2) } else { min }), max: s.max })
    };
    ranges.extend(sizes.symbols.iter().filter(|s| !s.phantom).map(range));
    for (_, _, e) in &sizes.of {
        let shown = e.to_string();
        if e.as_symbol().is_some() || ranges.iter().any(|(n, _)| *n == shown) {
            continue;
        }
        let Some(s) = e.symbols().first().and_then(|n| sizes.symbols.iter().find(|s| s.name == *n)) else {
            continue;
        };
        let at = |n: Option<i64>| {
            let b: Bindings = [(s.name.clone(), n?)].into_iter().collect();
            e.evaluate(&b).and_then(Number::int)
        };
        ranges.push((shown, Range { min: at(Some(s.min.unwrap_or(0))), max: at(s.max) }));
    }
    ranges.extend(sizes.symbols.iter().rev().filter(|s| s.phantom).map(range));
    let mut calls = vec![ModuleCallEntry {
        fqn: String::new(),
        signature: Some(ModuleCallSignature {
            inputs: Vec::new(),
            outputs: Vec::new(),
            in_spec: program.spec.clone(),
            out_spec: first.out_spec.clone(),
            forward_arg_names: Some(names.to_vec()),
            texts: (specs::text(&program.spec), specs::text(&first.out_spec)),
        }),
    }];
    for fqn in &first.called {
        let of_module = |p: &&Preserved| p.fqn.split('@').next() == Some(fqn);
        let kept: Vec<&Preserved> = first.preserved.iter().filter(of_module).collect();
        if kept.is_empty() {
            calls.push(ModuleCallEntry { fqn: fqn.clone(), signature: None });
        }
        for p in kept {
            calls.push(ModuleCallEntry { fqn: p.fqn.clone(), signature: Some(p.signature(&merged.module)?) });
        }
    }
    let leaves: Vec<Value> = program.leaves.iter().map(|l| l.value.clone()).collect();
    let of_inputs: Vec<Size> = sizes.read(&program.leaves).into_iter().map(|(.., size)| size).collect();
    let guards_code = conditions(&sizes.symbols, &of_inputs, &merged.module.graph);
    Ok(ExportedProgram {
        graph_module: merged.module,
        graph_signature: signature,
        state_dict: state,
        constants,
        range_constraints: ranges,
        module_call_graph: calls,
        example_inputs: program.spec.unflatten(&leaves).ok(),
        guards_code,
    })
}
