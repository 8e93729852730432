//! The operator table: `crates/*/ops/*.toml`.

mod either;
mod outputs;
mod short;

use crate::autocast::RawAutocast;
use crate::conventions::{self, Convention, Flag, Operator, Words};
pub use crate::out_rules::{EXACT, OutRule};
use crate::out_rules::{OutRules, out_rule};
use crate::schema::Schema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use either::Either;
pub use outputs::{Apart, OutGrad};
pub use short::Short;

/// How a row is implemented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A scalar kernel that the iterator runs.
    Pointwise,
    /// A shape rule and a kernel.
    Structured,
    /// Shares its input's storage.
    View,
    /// A body over other operators.
    Composite,
    /// One function that allocates for itself.
    Direct,
}

/// The verdict on a row's gradient.
#[derive(Clone, PartialEq, Debug)]
pub enum Grad {
    None,
    Composite,
    /// Input names (one, or several with commas) and their formulas.
    Formulas(Vec<(Vec<String>, String)>),
}

/// What `grad_fn` calls a row's node.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub enum NodeName {
    Always(String),
    /// For rows that are two overloads of PyTorch's, told apart by an optional argument that a formula uses.
    ByArgument {
        argument: String,
        given: String,
        absent: String,
    },
    /// For rows whose tensor arguments may be numbers, which PyTorch has overloads for: names by argument.
    ByNumber {
        number: BTreeMap<String, String>,
        otherwise: String,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Sample {
    One(toml::Table),
    Several(Vec<toml::Table>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ForEach {
    Plain(bool),
    Several(Vec<String>),
}

/// What list forms say in other words than usual.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForEachErrors {
    pub empty: Option<String>,
    pub lengths: Option<String>,
    pub elements: Option<String>,
}

/// What errors call a pointwise row.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    #[serde(default)]
    pub name: String,
    pub narrow: Option<String>,
    pub narrow_number: Option<String>,
    pub real: Option<String>,
    #[serde(default)]
    pub refuse_narrow_number: bool,
}
#[derive(Deserialize)]
#[serde(untagged)]
enum RawLabel {
    Name(String),
    Table(Label),
}

const GRAD_TESTS: [&str; 8] =
    ["constant", "refused", "zero", "defined", "once", "no_forward", "phases", "memory"];
const PROPERTY_TESTS: [&str; 11] = [
    "vmap",
    "layouts",
    "conjugated",
    "meta",
    "storages",
    "in_place",
    "out",
    "elements",
    "threads",
    "values",
    "statistics",
];

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    /// ATen's schema: name, arguments with types and defaults, results.
    schema: String,
    /// The Rust name, where the schema's is taken or misleading.
    rust: Option<String>,
    /// Documented Python names.
    #[serde(default)]
    python: Vec<String>,
    /// Further Python names of the same thing.
    #[serde(default)]
    alias: Vec<String>,
    /// `pointwise`, `structured`, `view`, `composite` or `direct`: what is written by hand.
    kind: Kind,
    /// One line of documentation: what it computes.
    doc: String,
    /// More of it: what the line leaves out, what differs from PyTorch.
    #[serde(default)]
    details: String,
    /// Sizes of inputs and results, for the documentation.
    shapes: Option<String>,
    /// Dtypes that are taken and given.
    dtypes: Option<String>,
    /// What is refused.
    errors: Option<String>,
    /// A program for the documentation, in Rust over `torch::` alone, as whole as a documentation test; it becomes a test of the
    /// facade. Not needed without `python`. Every row says these four, but for those that `xtask/undescribed.txt` lists.
    example: Option<String>,
    /// Arguments that may be a tensor or a number.
    #[serde(default)]
    operand: Vec<String>,
    /// What those want who type an argument more: `one dimension: {f}sum_dim({x}1, false)`, in the signature, which the compiler
    /// shows, and in the documentation's first line; `{f}` and `{x}` make it a call of the function or the method.
    #[serde(default)]
    advice: String,
    /// The row that takes this one's two bounds, which are numbers, as tensors: the short forms take either.
    bounds: Option<String>,
    /// The row that takes this one's number as a tensor, or its tensor as a number: the short forms take either.
    either: Option<String>,
    /// The row that takes a lower bound before this one's first number: the forms take a number or a range, `low..high`.
    range: Option<String>,
    /// Defaulted arguments that the short form takes by position.
    #[serde(default)]
    positional: Vec<String>,
    /// Generate the in-place form.
    #[serde(default)]
    inplace: bool,
    /// The in-place form is written by hand.
    #[serde(default)]
    inplace_by_hand: bool,
    /// Generate the `out=` form.
    #[serde(default)]
    out: bool,
    /// To which dtypes the `out=` form writes its result, and what it says of others (docs/contributing.md has the words).
    #[serde(default)]
    out_dtype: OutRules,
    /// Strides of a resized output: `contiguous` of rows with a shape rule, `result` of others, where that is not the rule.
    out_resized: Option<String>,
    /// What PyTorch calls the `out=` form that refuses gradients, where not by the row's name; empty where it does not refuse; `aten::NAME` where it asks its outputs alone; `late NAME` where all else is refused before, `leaf` where it copies at last, `leaf NAME` where it says first that such an output has another shape, `resize` where it resizes its output whatever the size.
    #[serde(default)]
    out_grad: OutGrad,
    /// The `out=` form refuses outputs that share memory with inputs; a text: with each other too, in these words.
    out_apart: Option<Apart>,
    /// The `out=` form asks whether its output overlaps itself before it resizes it.
    #[serde(default)]
    out_overlap_first: bool,
    /// Direct: the function asks the tables of back ends for all that it needs, and so serves every device.
    #[serde(default)]
    any_device: bool,
    /// Structured: the argument that the kernel updates. In place it is that tensor itself wherever the kernel can write there,
    /// else a copy; the kernel reads and writes its output, and the argument only for what sizes and dtype say. The shape rule
    /// gives an `Update`.
    updates: Option<String>,
    /// Structured: the kernel finds the sizes of the results in the data and makes them; there is no shape rule.
    #[serde(default)]
    found: bool,
    /// Pointwise: the formula's static in flambeau-cpu.
    kernel: Option<String>,
    /// Pointwise: in which of the dtypes that PyTorch has few loops for the row computes (`complex32`, `bcomplex32`, `float8`,
    /// `unsigned`, `all`); `["unsigned"]` if left out.
    rare: Option<Vec<String>>,
    /// Pointwise: scalar arguments that the formula gets, in its order.
    #[serde(default)]
    params: Vec<String>,
    /// Pointwise: a function of all arguments that says which formula runs in which dtype.
    plan: Option<String>,
    /// Pointwise: the promotion rule (`default`, `int_to_float`, `skip_first`, `first`, `reversed`, `divide`).
    promote: Option<String>,
    /// A function of all arguments that is called first in every form.
    check: Option<String>,
    /// Called after `check` in the in-place form.
    inplace_check: Option<String>,
    /// Called before `check` in the `out=` form, with the output as the last argument.
    out_check: Option<String>,
    /// Pointwise: what "not implemented for" errors call the row, `NAME_cpu` if left out; or a table `{ name, narrow,
    /// narrow_number, real, refuse_narrow_number }` where PyTorch has loops of other names for some operands (float8, float8
    /// and a single number, what is not complex).
    label: Option<RawLabel>,
    /// What it does with tensors of which vmap hides a dimension: a rule of flambeau-func (`dims`, `batch`, `fold`, ...), or
    /// `loop: WHY`, a call for each slice. Pointwise rows, composites and rows without tensors need not say it.
    vmap: Option<String>,
    /// What it makes of names of dimensions, a word of core's `NameRule`; left out: tensors with names are refused.
    names: Option<String>,
    /// What autocast does with its arguments: `lower`, `fp32`, `opt_dtype`, `promote`, `banned`, `whole` (nothing, nor with
    /// what its body calls: a kernel in PyTorch, a body here) or `product` (only its results, as of `lower`), for all types of devices or by
    /// `{ cpu, gpu, cuda, xpu, mps, mtia }`, where `gpu` stands for those of them that are not named; left out: nothing. `for`
    /// lists operators of PyTorch's without a row here whose work this row does.
    autocast: Option<RawAutocast>,
    /// PyTorch's tags of the operator that the rest of the row does not say: `dynamic_output_shape`, `data_dependent_output`,
    /// `maybe_aliasing_or_mutating`, `nondeterministic_seeded` of rows without a generator (docs: `torch.Tag`).
    #[serde(default)]
    tags: Vec<String>,
    /// The verdict on gradients: formulas by input (one that begins with `?` gives an option: no gradient at all is an answer),
    /// `"composite"`, or `"none"`.
    grad: Option<toml::Value>,
    /// What `grad_fn` calls the row's node where that is not `NameBackward0`: PyTorch numbers overloads (`PowBackward1`), and
    /// gives names of their own to rows that are composites here. `{ argument, given, absent }` for two overloads in one row,
    /// `{ number = { ARGUMENT = NAME }, otherwise }` where a tensor argument may be a number.
    node: Option<NodeName>,
    /// Which results have gradients, if not all.
    #[serde(default)]
    diff_outputs: Vec<String>,
    /// The rule of forward mode; by default elementwise, the operator itself, or from the backward formulas.
    jvp: Option<String>,
    /// Further short forms: a name and the defaulted arguments that it takes.
    #[serde(default)]
    short: Vec<Short>,
    /// The row's functions and methods are deprecated: what to use instead.
    deprecated: Option<String>,
    /// `false`: the row has no generated ergonomic forms (they are written by hand, or their names are taken).
    #[serde(default = "yes")]
    ergonomic: bool,
    /// Forms over lists of tensors: `true`, or the argument lists of overloads.
    foreach: Option<ForEach>,
    /// Of the list forms: what PyTorch says where its usual text does not hold, of lists without tensors (`empty`), of lists of
    /// different lengths (`lengths`), and of tensors without elements, which are fine otherwise (`elements`).
    #[serde(default)]
    foreach_errors: ForEachErrors,
    /// Further names in ATen; one that ends with `_` is the in-place form's.
    #[serde(default)]
    aten: Vec<String>,
    /// Calls by name: a flag that calls another function, `{ name = "return_indices", position = 6, then = FUNCTION }`, with
    /// `of` where it is one documented name's alone.
    python_flag: Option<Flag>,
    /// Calls by name: how arguments are put in order first, by a word of flambeau-library's `routes.rs`; or a table by
    /// documented name.
    python_arguments: Option<Words>,
    /// Calls by name: what takes calls whose arguments ask for it, by a word as above.
    python_instead: Option<Words>,
    /// Python's operator that the method is: `"sub"` for `__sub__`, `__isub__` and `__rsub__`, or `{ name, right }` where the
    /// right-hand form is the method itself (`same`), a product (`reciprocal`), or there is none, nor in place (`none`).
    python_operator: Option<Operator>,
    /// Calls by name, how overloads are bound: `numbers_as_tensors` (no overload for numbers), `hidden_overload` (a deprecated
    /// one), `whole` (one without dimensions), `number_first` (one for a number on the left), `whole_out` and
    /// `number_first_out` where that has `out=`, `variadic` (tensors for a list of tensors).
    #[serde(default)]
    python_binding: Vec<String>,
    /// Calls by name: functions written in Python; by argument the attribute that what does not fit lacks, or what is said of it (`ValueError: {value} is ...`, `{type}`).
    #[serde(default)]
    python_defined: BTreeMap<String, BTreeMap<String, String>>,
    /// A loss that ATen shows as `torch.NAME` too, with the reduction as a number: its arguments in order.
    #[serde(default)]
    aten_loss: Vec<String>,
    /// What does not hold for the row in the gradient tests: `constant` (`grad = "none"` although floating arguments give floating
    /// results), `refused` (the gradient is an error, as in PyTorch), `zero` (by definition), `defined` (by definition another
    /// than the slope), `once` (no gradients of gradients), `no_forward` (no forward mode), `phases` (only functions that do not depend on
    /// the phases of the results have a gradient), `memory` (reads memory, not elements).
    #[serde(default)]
    grad_test: Vec<String>,
    /// Which property tests do not hold for the row, and why: `layouts`, `conjugated`, `meta`, `storages`, `in_place`, `out`,
    /// `elements`, `threads`, with `foreach_` before those of its list forms; `values` of results that mean nothing, `statistics`
    /// of arguments that are written though the schema does not say so.
    #[serde(default)]
    property_test: BTreeMap<String, String>,
    /// Of a row that writes to lists: makes the forms that PyTorch derives of it too, the functional one, which works on copies,
    /// and the one with `out`.
    #[serde(default)]
    functional: bool,
    /// Composite: the body calls the row of this Rust name, with the numbers of the arguments that are tensors here alone.
    reads: Option<String>,
    /// Arguments for the gradient tests where the schema does not say enough: `{ dim = 1, index = "i(2,3) 3" }`, or a list of
    /// such tables. Tensors as text: `f(2,3)` wants a gradient, `n(..)` is a constant, `s(..)` one of float32, `i(..) 5` int64
    /// below 5, `b(..)` bool, `f(..) 1..2` within a range, `i[0,2]` given values; see tests/rows.
    sample: Option<Sample>,
}

/// What documentation says besides the one line; empty where the row does not say it.
#[derive(Clone, Debug, Default)]
pub struct Described {
    pub shapes: String,
    pub dtypes: String,
    pub errors: String,
    pub example: String,
}

/// One operator.
#[derive(Clone, Debug)]
pub struct Row {
    pub schema: Schema,
    /// Rust name, not yet escaped where it is a keyword.
    pub rust: String,
    pub python: Vec<String>,
    pub alias: Vec<String>,
    pub kind: Kind,
    pub doc: String,
    pub details: String,
    pub described: Described,
    pub operand: Vec<String>,
    pub advice: String,
    pub bounds: Option<String>,
    pub either: Option<Either>,
    pub range: Option<String>,
    pub positional: Vec<String>,
    pub inplace: bool,
    pub inplace_by_hand: bool,
    pub out: bool,
    /// One per output, or one for all; none where the result is cast.
    pub out_dtype: Vec<OutRule>,
    pub out_resized: Option<String>,
    pub out_grad: OutGrad,
    pub out_apart: Option<Apart>,
    pub out_overlap_first: bool,
    pub any_device: bool,
    pub updates: Option<String>,
    pub found: bool,
    pub kernel: Option<String>,
    /// Dtypes that PyTorch has few loops for in which the row computes all the same.
    pub rare: Vec<String>,
    pub params: Vec<String>,
    pub plan: Option<String>,
    pub promote: String,
    pub check: Option<String>,
    pub inplace_check: Option<String>,
    pub out_check: Option<String>,
    pub label: Label,
    pub names: String,
    pub vmap: String,
    pub autocast: Option<crate::autocast::Autocast>,
    pub tags: Vec<String>,
    pub grad: Grad,
    pub node: Option<NodeName>,
    pub diff_outputs: Vec<String>,
    pub jvp: Option<String>,
    pub short: Vec<Short>,
    pub deprecated: Option<String>,
    pub ergonomic: bool,
    /// Forms over lists of tensors, as codegen/foreach.rs reads them.
    pub foreach: Vec<String>,
    pub foreach_errors: ForEachErrors,
    pub aten: Vec<String>,
    pub conventions: Vec<Convention>,
    pub functional: bool,
    /// The row that the body calls, as codegen/lists.rs reads it.
    pub reads: Option<String>,
    /// The text of a generated body; by hand if there is none.
    pub body: Option<String>,
}

impl Row {
    /// The keys of documentation that the row lacks.
    pub fn undescribed(&self) -> Vec<&'static str> {
        let d = &self.described;
        let example = if self.python.is_empty() { "-" } else { &d.example };
        [("shapes", d.shapes.as_str()), ("dtypes", &d.dtypes), ("errors", &d.errors), ("example", example)]
            .into_iter()
            .filter_map(|(key, text)| text.trim().is_empty().then_some(key))
            .collect()
    }
    /// Whether a documented name is that of the in-place form alone: `torch.nn.functional.elu_`.
    pub fn names_inplace(&self, python: &str) -> bool {
        self.inplace && python.ends_with('_')
    }
}

/// One table file.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    /// Its generated module: the name, unless that is taken.
    pub module: String,
    pub file: PathBuf,
    pub rows: Vec<Row>,
}

/// One crate with tables.
#[derive(Clone, Debug)]
pub struct CrateTable {
    /// Package name, which is also the folder's.
    pub package: String,
    pub dir: PathBuf,
    pub families: Vec<Family>,
}

/// `max.dim` gives `max_dim`: what a row is called that gives no name.
pub fn snake(s: &str) -> String {
    let mut out = String::new();
    for c in s.chars() {
        if c.is_ascii_uppercase() {
            if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        } else {
            out.push(c);
        }
    }
    out
}

fn grad(row: &RawRow, schema: &Schema) -> Result<Grad, String> {
    match &row.grad {
        None if row.kind == Kind::Composite => Ok(Grad::Composite),
        None => Err("no gradient verdict: give `grad`".into()),
        Some(toml::Value::String(s)) if s == "none" => Ok(Grad::None),
        Some(toml::Value::String(s)) if s == "composite" => Ok(Grad::Composite),
        Some(toml::Value::Table(t)) => {
            let mut out = Vec::new();
            for (k, v) in t {
                let names: Vec<String> = k.split(',').map(|n| n.trim().to_string()).collect();
                for n in &names {
                    if !schema.args.iter().any(|a| a.name == *n && a.ty.is_tensor()) {
                        return Err(format!("grad: `{n}` is no tensor argument"));
                    }
                }
                let v = v.as_str().ok_or_else(|| format!("grad.{k} must be a string"))?;
                out.push((names, v.to_string()));
            }
            Ok(Grad::Formulas(out))
        }
        Some(_) => Err("grad must be \"none\", \"composite\" or a table of formulas".into()),
    }
}

fn row(raw: RawRow) -> Result<Row, String> {
    let schema = Schema::parse(&raw.schema)?;
    let grad = grad(&raw, &schema)?;
    let has = |what: &str, names: &[String]| match names
        .iter()
        .find(|n| !schema.args.iter().any(|a| a.name == **n))
    {
        Some(n) => Err(format!("{what}: `{n}` is no argument")),
        None => Ok(()),
    };
    has("operand", &raw.operand)?;
    has("positional", &raw.positional)?;
    has("params", &raw.params)?;
    for s in &raw.short {
        has("short", &s.args)?;
        if let Some(n) =
            s.args.iter().find(|n| schema.args.iter().any(|a| a.name == **n && a.default.is_none()))
        {
            return Err(format!(
                "short: `{n}` is required and so in every form; list only defaulted arguments"
            ));
        }
    }
    if raw.plan.is_some() {
        let given =
            raw.kernel.is_some() || !raw.params.is_empty() || raw.promote.is_some() || raw.rare.is_some();
        if raw.kind != Kind::Pointwise || given {
            return Err(
                "plan is for pointwise rows, and takes the place of kernel, rare, params and promote".into(),
            );
        }
    } else if raw.kind == Kind::Pointwise {
        if raw.kernel.is_none() {
            return Err("a pointwise row needs `kernel`".into());
        }
        for a in &schema.args {
            let used = a.ty.is_one_tensor() || raw.params.contains(&a.name) || raw.check.is_some();
            if !used || (a.ty.is_tensor() && !a.ty.is_one_tensor()) {
                return Err(format!("argument `{}` reaches no pointwise kernel", a.name));
            }
        }
    } else if raw.kernel.is_some() || !raw.params.is_empty() || raw.promote.is_some() || raw.rare.is_some() {
        return Err("kernel, rare, params and promote are for pointwise rows".into());
    }
    let mutated: Vec<&String> = schema.args.iter().filter(|a| a.mutated).map(|a| &a.name).collect();
    if raw.reads.is_some() && raw.kind != Kind::Composite {
        return Err("reads is for composites".into());
    }
    if raw.functional && !schema.args.iter().any(|a| a.mutated && a.ty.list.is_some()) {
        return Err("functional is for rows that write to lists".into());
    }
    let own = match raw.kind {
        Kind::Direct => raw.reads.is_none(),
        Kind::Composite => raw.reads.is_some(),
        _ => raw.updates.as_ref().is_some_and(|u| mutated == [u]),
    };
    if schema.mutates() && (raw.inplace || raw.out || !own) {
        return Err(
            "a schema that writes to its arguments is `direct`, or structured and `updates` the one argument, \
             without inplace and out"
                .into(),
        );
    }
    if raw.inplace && raw.inplace_by_hand {
        return Err("inplace and inplace_by_hand".into());
    }
    let tensor_result = schema.returns.len() == 1 && schema.returns[0].1.is_one_tensor();
    let first = schema.args.first();
    if (raw.inplace || raw.inplace_by_hand) && !(tensor_result && first.is_some_and(|a| a.ty.is_one_tensor()))
    {
        return Err("inplace needs one tensor result and a tensor as first argument".into());
    }
    if raw.out && !schema.returns.iter().all(|r| r.1.is_one_tensor()) {
        return Err("out needs tensor results".into());
    }
    let factory = schema.args.iter().any(|a| a.name == "layout");
    if raw.kind == Kind::View && raw.out && !factory {
        return Err("views have no out form".into());
    }
    if grad == Grad::Composite && raw.kind != Kind::Composite {
        return Err("grad = \"composite\" is for composites".into());
    }
    if raw.node.is_some() && grad == Grad::None {
        return Err("node names the gradient's node: the row has none".into());
    }
    if (raw.out_apart.is_some() || raw.out_overlap_first) && !raw.out {
        return Err("out_apart and out_overlap_first are for rows with `out`".into());
    }
    if raw.any_device && raw.kind != Kind::Direct {
        return Err("any_device is for direct rows: the others serve every device anyway".into());
    }
    if (raw.updates.is_some() || raw.found) && raw.kind != Kind::Structured {
        return Err("updates and found are for structured rows".into());
    }
    if raw.updates.is_some() && (raw.found || schema.returns.len() > 1 || raw.inplace_by_hand) {
        return Err("a row that updates an argument has that as its one result".into());
    }
    if raw.found && raw.inplace {
        return Err("a result whose size is found fits no tensor in place".into());
    }
    if let Some(n) = &raw.updates
        && !schema.args.iter().any(|a| a.name == *n && a.ty.is_one_tensor())
    {
        return Err(format!("updates: `{n}` is no tensor argument"));
    }
    if raw.out_grad == OutGrad::Resize && raw.kind == Kind::Composite {
        return Err("out_grad: a composite row has no output of its own to resize".into());
    }
    for p in raw.python.iter().chain(&raw.alias) {
        if !p.starts_with("torch.") && !p.starts_with("Tensor.") {
            return Err(format!("python name `{p}` must begin with torch. or Tensor."));
        }
    }
    if raw.alias.iter().any(|a| raw.python.contains(a)) {
        return Err("an alias repeats a python name".into());
    }
    if let Some(d) = raw.diff_outputs.iter().find(|d| !schema.returns.iter().any(|r| r.0 == **d)) {
        return Err(format!("diff_outputs: no result `{d}`"));
    }
    let samples = match &raw.sample {
        None => &[][..],
        Some(Sample::One(s)) => std::slice::from_ref(s),
        Some(Sample::Several(l)) => &l[..],
    };
    for s in samples {
        has("sample", &s.keys().cloned().collect::<Vec<_>>())?;
    }
    let known = |what: &str, word: &str, words: &[&str]| {
        let ok = words.contains(&word);
        if ok {
            Ok(())
        } else {
            Err(format!("{what}: unknown word `{word}`; there are {}", words.join(", ")))
        }
    };
    raw.grad_test.iter().try_for_each(|w| known("grad_test", w, &GRAD_TESTS))?;
    for (w, why) in &raw.property_test {
        known("property_test", w.strip_prefix("foreach_").unwrap_or(w), &PROPERTY_TESTS)?;
        if why.trim().is_empty() {
            return Err(format!("property_test: `{w}` needs its reason"));
        }
    }
    let out_dtype = match &raw.out_dtype {
        OutRules::None => Vec::new(),
        OutRules::One(r) => vec![out_rule(r)?],
        OutRules::Several(l) => l.iter().map(out_rule).collect::<Result<_, _>>()?,
    };
    if !out_dtype.is_empty() && !raw.out {
        return Err("out_dtype is for rows with `out`".into());
    }
    let mut names = Vec::new();
    for p in raw.python.iter().chain(&raw.alias) {
        let full = if p.starts_with("Tensor.") { format!("torch.{p}") } else { p.clone() };
        names.push(full.clone());
        if (raw.inplace || raw.inplace_by_hand) && p.starts_with("Tensor.") {
            names.push(full + "_");
        }
    }
    let conventions = conventions::read(
        conventions::Keys {
            flag: raw.python_flag,
            arguments: raw.python_arguments,
            instead: raw.python_instead,
            operator: raw.python_operator,
            binding: raw.python_binding,
            aten_loss: raw.aten_loss,
            defined: raw.python_defined,
        },
        &names,
    )?;
    let name_rule = raw.names.unwrap_or_else(|| "unsupported".into());
    known("names", &name_rule, &conventions::NAME_RULES)?;
    let tensors = schema.args.iter().any(|a| a.ty.is_tensor());
    let vmap = crate::codegen::vmap::verdict(raw.kind, raw.vmap.as_deref(), tensors)?;
    let mut rust = raw.rust.unwrap_or_else(|| snake(&schema.base));
    // `where_` is `where` with the underscore that generated names get anyway
    if rust.ends_with('_') && !schema.mutates() {
        rust.pop();
    }
    Ok(Row {
        label: match raw.label {
            None => Label { name: format!("{rust}_cpu"), ..Label::default() },
            Some(RawLabel::Name(name)) => Label { name, ..Label::default() },
            Some(RawLabel::Table(l)) if l.name.is_empty() => Label { name: format!("{rust}_cpu"), ..l },
            Some(RawLabel::Table(l)) => l,
        },
        rust,
        schema,
        python: raw.python,
        alias: raw.alias,
        kind: raw.kind,
        doc: raw.doc,
        details: raw.details,
        described: Described {
            shapes: raw.shapes.unwrap_or_default(),
            dtypes: raw.dtypes.unwrap_or_default(),
            errors: raw.errors.unwrap_or_default(),
            example: raw.example.unwrap_or_default(),
        },
        operand: raw.operand,
        advice: raw.advice,
        bounds: raw.bounds,
        either: None,
        range: raw.range,
        positional: raw.positional,
        inplace: raw.inplace,
        inplace_by_hand: raw.inplace_by_hand,
        out: raw.out,
        out_dtype,
        out_resized: raw.out_resized,
        out_grad: raw.out_grad,
        out_apart: raw.out_apart.filter(|a| !matches!(a, Apart::OfInputs(false))),
        out_overlap_first: raw.out_overlap_first,
        any_device: raw.any_device,
        updates: raw.updates,
        found: raw.found,
        kernel: raw.kernel,
        rare: raw.rare.unwrap_or_else(|| vec!["unsigned".into()]),
        params: raw.params,
        plan: raw.plan,
        promote: raw.promote.unwrap_or_else(|| "default".into()),
        check: raw.check,
        inplace_check: raw.inplace_check,
        out_check: raw.out_check,
        names: name_rule,
        vmap,
        autocast: raw.autocast.map(crate::autocast::read).transpose()?,
        tags: crate::codegen::tags::checked(raw.tags)?,
        grad,
        node: raw.node,
        diff_outputs: raw.diff_outputs,
        jvp: raw.jvp,
        short: raw.short,
        deprecated: raw.deprecated.clone(),
        ergonomic: raw.ergonomic,
        foreach_errors: raw.foreach_errors,
        aten: raw.aten,
        conventions,
        foreach: match raw.foreach {
            None | Some(ForEach::Plain(false)) => Vec::new(),
            Some(ForEach::Plain(true)) => vec!["true".into()],
            Some(ForEach::Several(l)) => l,
        },
        functional: raw.functional,
        reads: raw.reads,
        body: None,
    })
}

/// Parses one file's text.
pub fn parse_family(file: &Path, text: &str) -> Result<Family, String> {
    let at = |e: String| format!("{}: {e}", file.display());
    let top: toml::Table = text.parse().map_err(|e: toml::de::Error| at(e.to_string()))?;
    if let Some(k) = top.keys().find(|k| *k != "family" && *k != "op") {
        return Err(at(format!("unknown key `{k}`")));
    }
    let name = top.get("family").and_then(|f| f.as_str()).ok_or_else(|| at("`family` is missing".into()))?;
    let (mut rows, mut pairs) = (Vec::new(), Vec::new());
    let list = match top.get("op") {
        Some(toml::Value::Array(a)) => a.as_slice(),
        None => &[],
        Some(_) => return Err(at("`op` must be an array of tables".into())),
    };
    for (i, v) in list.iter().enumerate() {
        let label = v.get("schema").and_then(|s| s.as_str()).map_or(format!("row {i}"), str::to_string);
        let labelled = |e: String| at(format!("{label}: {}", e.trim_end()));
        let mut raw = v.clone().try_into::<RawRow>().map_err(|e| labelled(e.to_string()))?;
        pairs.push(raw.either.take());
        rows.push(row(raw).map_err(labelled)?);
    }
    for (i, pair) in pairs.into_iter().enumerate() {
        let found = pair.map(|other| either::either(&rows[i], &rows, &other)).transpose();
        rows[i].either = found.map_err(|e| at(format!("{}: either: {e}", rows[i].rust)))?;
    }
    Ok(Family { name: name.to_string(), module: name.to_string(), file: file.to_path_buf(), rows })
}

/// Checks that names within a crate are unique.
pub fn check_names(families: &[Family]) -> Result<(), String> {
    let mut rust: BTreeMap<String, String> = BTreeMap::new();
    let mut schemas: BTreeMap<String, String> = BTreeMap::new();
    for f in families {
        for r in &f.rows {
            let here = format!("{} ({})", r.schema.full_name(), f.file.display());
            if let Some(old) = rust.insert(r.rust.clone(), here.clone()) {
                return Err(format!("rust name `{}` of {here} is taken by {old}: give `rust`", r.rust));
            }
            if let Some(old) = schemas.insert(r.schema.full_name(), here.clone()) {
                return Err(format!("{here} is declared twice, before in {old}"));
            }
        }
    }
    Ok(())
}

fn toml_files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for e in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let p = e.map_err(|e| e.to_string())?.path();
        if p.extension().is_some_and(|x| x == "toml") {
            files.push(p);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads all tables of the repository, crates and files in order of name.
pub fn load(root: &Path) -> Result<Vec<CrateTable>, String> {
    let crates = root.join("crates");
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(&crates)
        .map_err(|e| format!("{}: {e}", crates.display()))?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("ops").is_dir())
        .collect();
    dirs.sort();
    let mut out = Vec::new();
    for dir in dirs {
        let package = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let mut families = Vec::new();
        for file in toml_files(&dir.join("ops"))? {
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let short = file.strip_prefix(root).unwrap_or(&file);
            families.push(parse_family(short, &text)?);
        }
        families.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(w) = families.windows(2).find(|w| w[0].name == w[1].name) {
            return Err(format!(
                "family `{}` is in {} and {}",
                w[0].name,
                w[0].file.display(),
                w[1].file.display()
            ));
        }
        check_names(&families)?;
        out.push(CrateTable { package, dir, families });
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
