//! The forms of a row: itself, in place, into given tensors. Names and signatures that all emitters share.

use super::types::{camel, ident, param_ty, return_ty};
use crate::schema::{Arg, Base, Default, Ty};
use crate::table::{Grad, Kind, Row};

/// Which form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The row itself.
    Plain,
    /// `add_`: writes the first argument.
    Inplace,
    /// `add_out`: writes given tensors.
    Out,
}

/// One form of a row.
#[derive(Clone, Copy)]
pub struct Form<'a> {
    pub row: &'a Row,
    pub mode: Mode,
}

impl<'a> Form<'a> {
    /// All forms of the row.
    pub fn all(row: &'a Row) -> Vec<Form<'a>> {
        let mut v = vec![Form { row, mode: Mode::Plain }];
        if row.inplace || row.inplace_by_hand {
            v.push(Form { row, mode: Mode::Inplace });
        }
        if row.out {
            v.push(Form { row, mode: Mode::Out });
        }
        v
    }
    /// Function name: `add`, `add_`, `add_out`.
    pub fn ident(&self) -> String {
        match self.mode {
            Mode::Plain => ident(&self.row.rust),
            Mode::Inplace => format!("{}_", self.row.rust),
            Mode::Out => format!("{}_out", self.row.rust.trim_end_matches('_')),
        }
    }
    /// Stem for further functions: never with an underscore at its end.
    pub fn stem(&self) -> String {
        let base = self.row.rust.trim_end_matches('_');
        match self.mode {
            Mode::Plain if self.row.rust.ends_with('_') => format!("{base}_inplace"),
            Mode::Plain => base.to_string(),
            Mode::Inplace => format!("{base}_inplace"),
            Mode::Out => format!("{base}_out"),
        }
    }
    /// The operator's static: `ADD`, `ADD_`, `ADD_OUT`.
    pub fn stat(&self) -> String {
        match self.mode {
            Mode::Plain => self.row.rust.to_ascii_uppercase(),
            Mode::Inplace => format!("{}_", self.row.rust.to_ascii_uppercase()),
            Mode::Out => format!("{}_OUT", self.row.rust.to_ascii_uppercase()),
        }
    }
    /// The function pointer's alias.
    pub fn fn_ty(&self) -> String {
        format!("{}Fn", camel(&self.stem()))
    }
    /// Name in ATen's style.
    pub fn aten(&self) -> String {
        let s = &self.row.schema;
        match self.mode {
            Mode::Plain => s.full_name(),
            Mode::Inplace if s.overload.is_empty() => format!("{}_", s.base),
            Mode::Inplace => format!("{}_.{}", s.base, s.overload),
            Mode::Out if s.overload.is_empty() || s.overload == "Tensor" => format!("{}.out", s.base),
            Mode::Out => format!("{}.{}_out", s.base, s.overload),
        }
    }
    /// Whether the first argument's geometry may change, so that it is taken by `&mut`.
    pub fn self_mut(&self) -> bool {
        self.mode == Mode::Inplace && self.row.kind == Kind::View
    }
    /// A body over other operators, differentiable through them. A composite with a formula of its own is none; an
    /// in-place view only replaces the handle.
    pub fn is_composite(&self) -> bool {
        self.self_mut() || (self.row.kind == Kind::Composite && !matches!(self.row.grad, Grad::Formulas(_)))
    }
    /// Names of the tensors that an out form writes.
    pub fn outs(&self) -> Vec<String> {
        let r = &self.row.schema.returns;
        match (self.mode, r.len()) {
            (Mode::Out, 1) => vec!["out".into()],
            (Mode::Out, n) => (0..n).map(|i| format!("out{i}")).collect(),
            _ => Vec::new(),
        }
    }
    /// The schema's arguments of this form (with `mutated` set and outs at the end).
    pub fn schema_args(&self) -> Vec<Arg> {
        let mut args = self.row.schema.args.clone();
        if self.mode == Mode::Inplace {
            args[0].mutated = true;
        }
        let ty = Ty { base: Base::Tensor, list: None, opt: false, opt_elem: false };
        for (i, o) in self.outs().into_iter().enumerate() {
            let named = &self.row.schema.returns[i].0;
            let name = if named.is_empty() { o } else { named.clone() };
            args.push(Arg { name, ty, default: None, kw_only: true, mutated: true });
        }
        args
    }
    /// Whether results are the written arguments themselves, so that the Rust function gives `()`.
    pub fn writes(&self) -> bool {
        self.mode != Mode::Plain || self.row.schema.mutates()
    }
    /// Parameters as (name, type).
    pub fn params(&self) -> Vec<(String, String)> {
        let mut v: Vec<_> =
            self.row.schema.args.iter().map(|a| (arg_ident(&a.name), param_ty(a.ty))).collect();
        if self.self_mut() {
            v[0].1 = "&mut Tensor".into();
        }
        v.extend(self.outs().into_iter().map(|o| (o, "&mut Tensor".to_string())));
        v
    }
    /// `self_: &Tensor, other: &Tensor`
    pub fn params_text(&self) -> String {
        self.params().iter().map(|(n, t)| format!("{n}: {t}")).collect::<Vec<_>>().join(", ")
    }
    /// `self_, other`
    pub fn names_text(&self) -> String {
        self.params().into_iter().map(|p| p.0).collect::<Vec<_>>().join(", ")
    }
    /// Result type without `Result`.
    pub fn ret(&self) -> String {
        if self.writes() { "()".into() } else { return_ty(&self.row.schema.returns) }
    }
    /// Keys of the call's arguments, as an expression.
    pub fn keys(&self) -> String {
        let mut keys: Vec<String> = Vec::new();
        for a in &self.row.schema.args {
            let n = arg_ident(&a.name);
            if a.ty.is_tensor() {
                keys.push(match (a.ty.list, a.ty.opt, a.ty.opt_elem) {
                    (None, false, _) => format!("{n}.key_set()"),
                    (None, true, _) => format!("opt_keys({n})"),
                    (Some(_), _, true) => format!("opt_list_keys({n})"),
                    (Some(_), _, false) => format!("list_keys({n})"),
                });
            }
        }
        keys.extend(self.outs().iter().map(|o| format!("{o}.key_set()")));
        if keys.is_empty() {
            return match self.row.schema.args.iter().find(|a| a.ty.base == Base::Device) {
                Some(a) if a.ty.opt => format!("device_keys({})", arg_ident(&a.name)),
                Some(a) => format!("device_keys(Some({}))", arg_ident(&a.name)),
                None => "KeySet::EMPTY".into(),
            };
        }
        keys.join(" | ")
    }
}

/// A schema argument's Rust name; matrices lose their capitals (`A`, `LU`).
pub fn arg_ident(s: &str) -> String {
    ident(&s.to_ascii_lowercase())
}

/// Arguments that are the common options of factories.
pub const FACTORY: [&str; 5] = ["dtype", "layout", "device", "pin_memory", "memory_format"];

/// Whether the row makes a tensor from dtype, layout, device and pin_memory.
pub fn is_factory(row: &Row) -> bool {
    let has =
        |n: &str| row.schema.args.iter().any(|a| a.name == n && a.ty.opt && a.default == Some(Default::None));
    has("dtype") && has("layout") && has("device") && has("pin_memory")
}
