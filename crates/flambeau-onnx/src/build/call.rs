//! A call of an operator in the program that is exported.

use super::value::{Arg, Dim, Var, known_shape};
use flambeau_core::{DType, Error, Result};
use flambeau_fx::{TensorMeta, Val};

/// A call of an operator: its name, its arguments, and what is known of its result.
///
/// Arguments are found by their place in the operator's schema, or by their name if they are given by name.
///
/// ```
/// use torch::onnx::{Arg, Builder, Call, Registry};
/// fn same(_: &mut Builder, call: &Call) -> torch::Result<Arg> {
///     Ok(Arg::Var(call.tensor(0, "x")?))
/// }
/// assert!(Registry::new().register("mine::same", same).has("mine.same.default"));
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) target: String,
    pub(crate) args: Vec<Arg>,
    pub(crate) kwargs: Vec<(String, Arg)>,
    pub(crate) result: Option<Val>,
}
impl Call {
    /// The operator: `aten.add.Tensor`.
    pub fn target(&self) -> &str {
        &self.target
    }
    /// The overload: `Tensor`.
    pub fn overload(&self) -> &str {
        self.target.rsplit('.').next().unwrap_or("")
    }
    /// An argument; [`Arg::None`] if it is not given.
    pub fn arg(&self, at: usize, name: &str) -> &Arg {
        const NONE: Arg = Arg::None;
        let by_name = || self.kwargs.iter().find(|(k, _)| k == name).map(|(_, a)| a);
        self.args.get(at).or_else(by_name).unwrap_or(&NONE)
    }
    fn wrong<T>(&self, name: &str, want: &str, got: &Arg) -> Result<T> {
        Err(Error::type_(format!("argument '{name}' is {}, not {want}", got.kind())))
    }
    /// A tensor, or a number that only the program knows.
    ///
    /// # Errors
    /// Another argument.
    pub fn tensor(&self, at: usize, name: &str) -> Result<Var> {
        match self.arg(at, name) {
            Arg::Var(v) => Ok(v.clone()),
            other => self.wrong(name, "a tensor", other),
        }
    }
    /// A tensor that may be left out.
    ///
    /// # Errors
    /// Another argument.
    pub fn optional(&self, at: usize, name: &str) -> Result<Option<Var>> {
        match self.arg(at, name) {
            Arg::None => Ok(None),
            Arg::Var(v) => Ok(Some(v.clone())),
            other => self.wrong(name, "a tensor", other),
        }
    }
    /// Tensors of a list; `None` for those that are left out.
    ///
    /// # Errors
    /// Another argument.
    pub fn optional_tensors(&self, at: usize, name: &str) -> Result<Vec<Option<Var>>> {
        let got = self.arg(at, name);
        let Arg::List(l) = got else { return self.wrong(name, "a list of tensors", got) };
        l.iter()
            .map(|a| match a {
                Arg::Var(v) => Ok(Some(v.clone())),
                Arg::None => Ok(None),
                other => self.wrong(name, "a list of tensors", other),
            })
            .collect()
    }
    /// A list of tensors.
    ///
    /// # Errors
    /// Another argument.
    pub fn tensors(&self, at: usize, name: &str) -> Result<Vec<Var>> {
        let all = self.optional_tensors(at, name)?;
        all.into_iter()
            .map(|v| v.ok_or_else(|| Error::type_(format!("argument '{name}' has no tensor"))))
            .collect()
    }
    /// An integer constant.
    ///
    /// # Errors
    /// Another argument, none, or a number that only the program knows.
    pub fn int(&self, at: usize, name: &str) -> Result<i64> {
        match self.arg(at, name) {
            Arg::Int(n) => Ok(*n),
            Arg::Bool(b) => Ok(i64::from(*b)),
            Arg::Float(x) if x.fract() == 0.0 => Ok(*x as i64),
            Arg::Var(v) => match v.known_ints().as_deref() {
                Some([n]) => Ok(*n),
                _ => self.wrong(name, "a constant", &Arg::Var(v.clone())),
            },
            other => self.wrong(name, "an int", other),
        }
    }
    /// An integer constant with a default.
    ///
    /// # Errors
    /// As [`int`](Call::int).
    pub fn int_or(&self, at: usize, name: &str, default: i64) -> Result<i64> {
        if self.arg(at, name).is_none() { Ok(default) } else { self.int(at, name) }
    }
    /// A floating constant with a default.
    ///
    /// # Errors
    /// Another argument.
    pub fn float_or(&self, at: usize, name: &str, default: f64) -> Result<f64> {
        match self.arg(at, name) {
            Arg::None => Ok(default),
            Arg::Float(x) => Ok(*x),
            Arg::Int(n) => Ok(*n as f64),
            Arg::Bool(b) => Ok(f64::from(u8::from(*b))),
            other => self.wrong(name, "a float", other),
        }
    }
    /// A bool with a default.
    ///
    /// # Errors
    /// Another argument.
    pub fn bool_or(&self, at: usize, name: &str, default: bool) -> Result<bool> {
        match self.arg(at, name) {
            Arg::None => Ok(default),
            Arg::Bool(b) => Ok(*b),
            Arg::Int(n) => Ok(*n != 0),
            other => self.wrong(name, "a bool", other),
        }
    }
    /// A text with a default.
    ///
    /// # Errors
    /// Another argument.
    pub fn text_or<'a>(&'a self, at: usize, name: &str, default: &'a str) -> Result<&'a str> {
        match self.arg(at, name) {
            Arg::None => Ok(default),
            Arg::Str(s) => Ok(s),
            other => self.wrong(name, "a text", other),
        }
    }
    /// Integer constants; a single one is a list of one.
    ///
    /// # Errors
    /// Other arguments, and numbers that only the program knows.
    pub fn ints(&self, at: usize, name: &str) -> Result<Vec<i64>> {
        match self.arg(at, name) {
            Arg::None => Ok(Vec::new()),
            Arg::List(l) => l
                .iter()
                .map(|a| match a {
                    Arg::Int(n) => Ok(*n),
                    other => self.wrong(name, "a list of constants", other),
                })
                .collect(),
            _ => Ok(vec![self.int(at, name)?]),
        }
    }
    /// Integers that the program may find out; a single one is a list of one.
    ///
    /// # Errors
    /// Other arguments.
    pub fn dims(&self, at: usize, name: &str) -> Result<Vec<Dim>> {
        let got = self.arg(at, name);
        let items = match got {
            Arg::None => return Ok(Vec::new()),
            Arg::List(l) => l.as_slice(),
            one => std::slice::from_ref(one),
        };
        items
            .iter()
            .map(|a| match a {
                Arg::Int(n) => Ok(Dim::Int(*n)),
                Arg::Bool(b) => Ok(Dim::Int(i64::from(*b))),
                Arg::Var(v) => Ok(Dim::Var(v.clone())),
                other => self.wrong(name, "a list of ints", other),
            })
            .collect()
    }
    /// Floating constants.
    ///
    /// # Errors
    /// Other arguments.
    pub fn floats(&self, at: usize, name: &str) -> Result<Vec<f64>> {
        let got = self.arg(at, name);
        let items = match got {
            Arg::None => return Ok(Vec::new()),
            Arg::List(l) => l.as_slice(),
            one => std::slice::from_ref(one),
        };
        items
            .iter()
            .map(|a| match a {
                Arg::Float(x) => Ok(*x),
                Arg::Int(n) => Ok(*n as f64),
                other => self.wrong(name, "a list of floats", other),
            })
            .collect()
    }
    /// An integer that the program may find out.
    ///
    /// # Errors
    /// Another argument, or none.
    pub fn dim(&self, at: usize, name: &str) -> Result<Dim> {
        match self.arg(at, name) {
            Arg::Int(n) => Ok(Dim::Int(*n)),
            Arg::Var(v) => Ok(Dim::Var(v.clone())),
            other => self.wrong(name, "an int", other),
        }
    }
    /// An element type that may be left out.
    ///
    /// # Errors
    /// Another argument.
    pub fn dtype(&self, at: usize, name: &str) -> Result<Option<DType>> {
        match self.arg(at, name) {
            Arg::None => Ok(None),
            Arg::DType(d) => Ok(Some(*d)),
            other => self.wrong(name, "a dtype", other),
        }
    }
    /// What is known of result number `i`.
    pub(crate) fn meta(&self, i: usize) -> Option<&TensorMeta> {
        match self.result.as_ref()? {
            Val::Tensor(t) if i == 0 => Some(t),
            Val::List(l) => match l.get(i)? {
                Val::Tensor(t) => Some(t),
                _ => None,
            },
            _ => None,
        }
    }
    /// The result's element type, where the program says it.
    pub fn result_dtype(&self) -> Option<DType> {
        self.meta(0).map(|m| m.dtype)
    }
    /// The result's sizes, where the program says them.
    pub fn result_shape(&self) -> Option<Vec<Option<i64>>> {
        self.meta(0).map(known_shape)
    }
    /// A dimension, counted from the front.
    ///
    /// # Errors
    /// Another argument, and a dimension that is not there.
    pub(crate) fn axis(&self, at: usize, name: &str, default: Option<i64>, rank: usize) -> Result<i64> {
        let d = match default {
            Some(d) => self.int_or(at, name, d)?,
            None => self.int(at, name)?,
        };
        normal(d, rank)
    }
    /// Dimensions, counted from the front; none means all.
    pub(crate) fn axes(&self, at: usize, name: &str, rank: usize) -> Result<Vec<i64>> {
        let l = self.ints(at, name)?;
        if l.is_empty() {
            return Ok((0..rank as i64).collect());
        }
        l.into_iter().map(|d| normal(d, rank)).collect()
    }
}
/// A dimension counted from the front.
pub(crate) fn normal(d: i64, rank: usize) -> Result<i64> {
    let n = (rank as i64).max(1);
    let at = if d < 0 { d + n } else { d };
    if (0..n).contains(&at) {
        return Ok(at);
    }
    Err(Error::index(format!(
        "Dimension out of range (expected to be in range of [{}, {}], but got {d})",
        -n,
        n - 1
    )))
}
