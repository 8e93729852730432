//! Python-side signatures of operators: what may be passed how, and how PyTorch prints it.

use flambeau_core::dispatch::convention::Habit;
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::types::schema::{Arg, Default_, Schema, Ty};
use std::fmt::Write;

/// What an argument of a signature is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// As the schema says.
    Plain,
    /// A tensor; a Python number counts as one.
    TensorOrNumber,
    /// A tensor in the schema, given as a Python number: the overload that PyTorch has for it.
    Number,
    /// Required, though the schema has a default: one of the overloads that a row here stands for.
    Required,
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Documented name.
    pub name: &'static str,
    /// The schema's argument.
    pub arg: &'static Arg,
    /// Its position in the schema.
    pub index: usize,
    /// How it is taken.
    pub kind: Kind,
}
impl Param {
    /// May be left out.
    pub fn optional(&self) -> bool {
        self.arg.default != Default_::Required && self.kind != Kind::Required
    }
    /// `None` may be given.
    pub fn allows_none(&self) -> bool {
        self.arg.default == Default_::None
            || matches!(
                self.arg.ty,
                Ty::OptTensor
                    | Ty::OptScalar
                    | Ty::OptInt
                    | Ty::OptIntList(_)
                    | Ty::OptFloat
                    | Ty::OptFloatList
                    | Ty::OptBool
                    | Ty::OptStr
                    | Ty::OptDType
                    | Ty::OptLayout
                    | Ty::OptDevice
                    | Ty::OptMemoryFormat
                    | Ty::OptGenerator
            )
    }
    /// The type as error texts name it.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Number => "Number",
            _ => type_name(self.arg.ty),
        }
    }
    /// Other spellings of the name: NumPy's, and ATen's for what Python renames.
    pub fn synonyms(&self) -> &'static [&'static str] {
        match (self.name, self.arg.name) {
            ("dim", _) => &["axis"],
            ("keepdim", _) => &["keepdims"],
            ("input", "self") => &["x", "a", "x1", "self"],
            ("input", _) => &["x", "a", "x1"],
            ("other", _) => &["x2"],
            _ => &[],
        }
    }
}

/// Python's names of schema types in error texts.
pub fn type_name(ty: Ty) -> &'static str {
    match ty {
        Ty::Tensor | Ty::OptTensor => "Tensor",
        Ty::TensorList | Ty::OptTensorList => "tuple of Tensors",
        Ty::Scalar | Ty::OptScalar => "Number",
        Ty::ScalarList => "tuple of Scalars",
        Ty::Int | Ty::OptInt => "int",
        Ty::IntList(_) | Ty::OptIntList(_) => "tuple of ints",
        Ty::Float | Ty::OptFloat => "float",
        Ty::FloatList | Ty::OptFloatList => "tuple of floats",
        Ty::Bool | Ty::OptBool => "bool",
        Ty::BoolList => "tuple of bools",
        Ty::Str | Ty::OptStr => "str",
        Ty::DType | Ty::OptDType => "torch.dtype",
        Ty::OptLayout => "torch.layout",
        Ty::Device | Ty::OptDevice => "torch.device",
        Ty::MemoryFormat | Ty::OptMemoryFormat => "torch.memory_format",
        Ty::OptGenerator => "torch.Generator",
    }
}

/// How one overload is called from Python.
#[derive(Clone)]
pub struct Signature {
    /// The operator.
    pub op: &'static dyn AnyOp,
    /// Its `out=` form, and how many tensors that writes.
    pub out: Option<(&'static dyn AnyOp, usize)>,
    /// Parameters without self (of methods) and out.
    pub params: Vec<Param>,
    /// Position of self in the schema, for methods.
    pub self_index: Option<usize>,
    /// Takes `requires_grad=`: makes a tensor from dtype, layout and device.
    pub factory: bool,
    /// Takes its one list of tensors as separate arguments too.
    pub variadic_tensors: bool,
    /// Of a function that is written in Python ([`Habit::Defined`]).
    pub defined: Option<&'static [(&'static str, &'static str)]>,
}

impl Signature {
    /// All signatures of an operator under a documented name: one, and one more for each tensor argument that may be a
    /// number by an overload of its own.
    pub fn of(op: &'static dyn AnyOp, out: Option<&'static dyn AnyOp>, path: &str) -> Vec<Signature> {
        let schema: &'static Schema = &op.info().schema;
        let method = path.starts_with("torch.Tensor.");
        // what rows say holds of documented names
        let exact = path.contains("::");
        let habits: Vec<Habit> = op.info().habits(path).filter(|_| !exact).collect();
        let self_index = method.then(|| self_index(schema));
        let silent = habits.contains(&Habit::NumbersAsTensors);
        // an operator registered for `out=` alone has the written tensors at its end
        let plain_args = match out {
            Some(o) if std::ptr::eq(o.info(), op.info()) => schema.args.len() - written(schema),
            _ => schema.args.len(),
        };
        let params: Vec<Param> = schema
            .args
            .iter()
            .enumerate()
            .take(plain_args)
            .filter(|(i, _)| Some(*i) != self_index)
            .map(|(index, arg)| Param {
                // lists keep their name
                name: if arg.name == "self" && arg.ty == Ty::Tensor && !method { "input" } else { arg.name },
                arg,
                index,
                kind: if silent && arg.ty == Ty::Tensor { Kind::TensorOrNumber } else { Kind::Plain },
            })
            .collect();
        let has = |n: &str| schema.args.iter().any(|a| a.name == n && a.kw_only);
        let base = Signature {
            op,
            out: out.filter(|_| !method).map(|o| (o, written(&o.info().schema))),
            params,
            self_index,
            factory: has("dtype") && has("layout") && has("device"),
            variadic_tensors: habits.contains(&Habit::Variadic),
            defined: habits.iter().find_map(|h| if let Habit::Defined(a) = h { Some(*a) } else { None }),
        };
        let whole = habits.iter().find_map(|h| if let Habit::Whole { out } = h { Some(*out) } else { None });
        if let Some(out) = whole {
            let mut all_dims = base.clone();
            all_dims.params.retain(|p| !matches!(p.name, "dim" | "keepdim"));
            all_dims.out = all_dims.out.filter(|_| out);
            let mut some = base;
            some.params.iter_mut().filter(|p| p.name == "dim").for_each(|p| p.kind = Kind::Required);
            return vec![all_dims, some];
        }
        let mut all = vec![base.clone()];
        if !silent {
            let any = base.params.iter().any(|p| p.arg.number);
            // a self that is not the first argument is an operand as its peer is (`where`)
            let operand = |p: &Param| p.arg.number || (any && !method && p.arg.name == "self" && p.index > 0);
            let numbers: Vec<usize> = (0..base.params.len()).filter(|&i| operand(&base.params[i])).collect();
            let variant = |which: &[usize]| {
                let mut s = base.clone();
                for &i in which {
                    s.params[i].kind = Kind::Number;
                    // Python renames tensors only
                    s.params[i].name = s.params[i].arg.name;
                }
                s
            };
            let special = path.starts_with("torch.special.") && numbers.len() == 1 && base.params.len() == 2;
            let first = habits
                .iter()
                .find_map(|h| if let Habit::NumberFirst { out } = h { Some(*out) } else { None });
            if let (Some(out), false, false) =
                (first.or(special.then_some(true)), method, numbers.contains(&0))
            {
                let mut s = variant(&[0]);
                s.out = s.out.filter(|_| out);
                all.push(s);
            }
            for &i in &numbers {
                let mut s = variant(&[i]);
                if i == 0 && first == Some(false) {
                    s.out = None;
                }
                all.push(s);
            }
            // only selection among values takes nothing but numbers
            if numbers.len() > 1 && base.params.len() > numbers.len() && !numbers.contains(&0) {
                all.push(variant(&numbers));
            }
        }
        all
    }
    /// Number of parameters that may be given by position.
    pub fn max_pos(&self) -> usize {
        self.params.iter().filter(|p| !p.arg.kw_only).count()
    }
    /// Number of parameters that must be given.
    pub fn min_args(&self) -> usize {
        self.params.iter().filter(|p| !p.optional()).count()
    }
    /// Number of parameters in all.
    pub fn max_args(&self) -> usize {
        self.params.len() + usize::from(self.out.is_some()) + usize::from(self.factory)
    }
    /// `(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)`
    pub fn text(&self) -> String {
        let parts = self.parts();
        format!("({})", parts.join(", "))
    }
    /// The parts between the commas of [`Signature::text`].
    pub fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        let mut star = false;
        let mut star_once = |parts: &mut Vec<String>| {
            if !std::mem::replace(&mut star, true) {
                parts.push("*".to_string());
            }
        };
        let out =
            self.out.map(|(_, n)| if n == 1 { "Tensor out = None" } else { "tuple of Tensors out = None" });
        let mut out_due = out;
        // PyTorch puts a factory's memory format before its other options
        let (format, others): (Vec<&Param>, Vec<&Param>) =
            self.params.iter().partition(|p| self.factory && p.name == "memory_format");
        let at = others.iter().position(|p| p.name == "dtype").unwrap_or(others.len());
        for p in others[..at].iter().chain(&format).chain(&others[at..]) {
            if p.arg.kw_only {
                star_once(&mut parts);
                // PyTorch puts out= before the options of factories, after keywords of the operator itself
                if self.factory && matches!(p.name, "dtype" | "layout" | "device" | "pin_memory") {
                    parts.extend(out_due.take().map(str::to_string));
                }
            }
            let mut s = format!("{} {}", p.type_name(), p.name);
            match (self.factory, p.name) {
                (true, "pin_memory") => s.push_str(" = False"),
                _ if p.kind == Kind::Required => {}
                _ => default_text(&mut s, p.arg),
            }
            parts.push(s);
        }
        if let Some(o) = out_due {
            star_once(&mut parts);
            parts.push(o.to_string());
        }
        if self.factory {
            star_once(&mut parts);
            parts.push("bool requires_grad = False".to_string());
        }
        parts
    }
}

/// Position of a method's self: the argument of that name, else the first tensor.
fn self_index(schema: &Schema) -> usize {
    let named = schema.args.iter().position(|a| a.name == "self");
    named.or_else(|| schema.args.iter().position(|a| a.ty == Ty::Tensor)).unwrap_or(0)
}
/// Number of tensors at the end that an `out=` form writes.
fn written(schema: &Schema) -> usize {
    schema.args.iter().rev().take_while(|a| a.mutated && a.kw_only).count()
}
/// Whether `out` is the `out=` form of `op`: the same arguments and written tensors at the end.
pub fn is_out_of(out: &Schema, op: &Schema) -> bool {
    let n = written(out);
    n > 0
        && out.args.len() == op.args.len() + n
        && out.args.iter().zip(op.args).all(|(a, b)| a.name == b.name && a.ty == b.ty)
}
/// Whether the operator is an `out=` form.
pub fn is_out(schema: &Schema) -> bool {
    written(schema) > 0
}
/// Whether error texts must count a hidden deprecated overload, which the operator's own name alone has.
pub fn has_hidden_overload(path: &str, all: &[Signature]) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).trim_end_matches('_');
    let hidden = |s: &Signature| {
        let info = s.op.info();
        info.habits(path).any(|h| h == Habit::HiddenOverload)
            && crate::base(info).trim_end_matches('_') == name
    };
    !path.contains("::") && all.iter().any(hidden)
}

fn default_text(s: &mut String, a: &Arg) {
    let _ = match a.default {
        Default_::Required => Ok(()),
        Default_::None => write!(s, " = None"),
        Default_::Int(i) => write!(s, " = {i}"),
        Default_::Float(f) => write!(s, " = {}", float_text(f)),
        Default_::Bool(b) => write!(s, " = {}", if b { "True" } else { "False" }),
        Default_::Str(t) => write!(s, " = \"{t}\""),
        Default_::IntList(l) if l.windows(2).all(|w| w[0] == w[1]) && !l.is_empty() => {
            write!(s, " = {}", l[0])
        }
        Default_::IntList(l) => {
            write!(s, " = ({})", l.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
        }
        Default_::MemoryFormat(m) => write!(s, " = torch.{}", m.name()),
        Default_::Layout(l) => write!(s, " = torch.{}", l.name()),
    };
}
/// A float as Python prints it.
fn float_text(f: f64) -> String {
    if f.is_infinite() {
        return if f > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let s = format!("{f:?}");
    match s.split_once('e') {
        Some((m, e)) => {
            let (sign, digits) = e.strip_prefix('-').map_or(("+", e), |d| ("-", d));
            format!("{}e{sign}{digits:0>2}", m.strip_suffix(".0").unwrap_or(m))
        }
        None => s,
    }
}

/// A schema as text: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
pub fn schema_text(name: &str, s: &Schema) -> String {
    let mut t = format!("{name}(");
    let mut star = false;
    for (i, a) in s.args.iter().enumerate() {
        if i > 0 {
            t.push_str(", ");
        }
        if a.kw_only && !std::mem::replace(&mut star, true) {
            t.push_str("*, ");
        }
        let _ = write!(t, "{} {}", aten_type(a.ty, a.mutated), a.name);
        let mut d = String::new();
        default_text(&mut d, a);
        if !d.is_empty() {
            t.push('=');
            t.push_str(&d[3..]);
        }
    }
    t.push_str(") -> ");
    let one = |(n, ty): &(&str, Ty)| {
        let ty = aten_type(*ty, false);
        if n.is_empty() { ty } else { format!("{ty} {n}") }
    };
    match s.returns {
        [r] => t.push_str(&one(r)),
        rs => {
            let _ = write!(t, "({})", rs.iter().map(one).collect::<Vec<_>>().join(", "));
        }
    }
    t
}
fn aten_type(ty: Ty, mutated: bool) -> String {
    let n = |k: u8| if k == 0 { "int[]".to_string() } else { format!("int[{k}]") };
    match ty {
        Ty::Tensor if mutated => "Tensor(a!)".into(),
        Ty::TensorList if mutated => "Tensor(a!)[]".into(),
        Ty::IntList(k) => n(k),
        Ty::OptIntList(k) => n(k) + "?",
        Ty::Tensor => "Tensor".into(),
        Ty::OptTensor => "Tensor?".into(),
        Ty::TensorList => "Tensor[]".into(),
        Ty::OptTensorList => "Tensor?[]".into(),
        Ty::Scalar => "Scalar".into(),
        Ty::OptScalar => "Scalar?".into(),
        Ty::ScalarList => "Scalar[]".into(),
        Ty::Int => "int".into(),
        Ty::OptInt => "int?".into(),
        Ty::Float => "float".into(),
        Ty::OptFloat => "float?".into(),
        Ty::FloatList => "float[]".into(),
        Ty::OptFloatList => "float[]?".into(),
        Ty::Bool => "bool".into(),
        Ty::OptBool => "bool?".into(),
        Ty::BoolList => "bool[]".into(),
        Ty::Str => "str".into(),
        Ty::OptStr => "str?".into(),
        Ty::DType => "ScalarType".into(),
        Ty::OptDType => "ScalarType?".into(),
        Ty::OptLayout => "Layout?".into(),
        Ty::Device => "Device".into(),
        Ty::OptDevice => "Device?".into(),
        Ty::MemoryFormat => "MemoryFormat".into(),
        Ty::OptMemoryFormat => "MemoryFormat?".into(),
        Ty::OptGenerator => "Generator?".into(),
    }
}
