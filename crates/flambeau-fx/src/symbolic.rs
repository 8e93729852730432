//! Numbers that a program does not know before it runs, as expressions of symbols.
//!
//! The forms are those that exported programs hold: integers, symbols, sums, products, powers, divisions, remainders, largest
//! and smallest ones, comparisons, and what joins them. They are read from sympy's `srepr` and printed as sympy prints them.

use flambeau_core::types::deep::{self, Nest};
use flambeau_core::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// A comparison.
///
/// ```
/// use torch::fx::symbolic::{Expr, Relation};
/// assert!(matches!(Expr::read("s0 >= 2")?, Expr::Relation(Relation::Ge, _)));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Relation {
    /// `Eq(a, b)`
    Eq,
    /// `Ne(a, b)`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

/// A number, or what it follows from.
pub enum Expr {
    /// An integer.
    Int(i64),
    /// A floating number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// An unknown number.
    Symbol {
        /// `s0` for sizes of inputs, `u0` for what data says.
        name: String,
        /// Known to be above zero.
        positive: bool,
    },
    /// A sum, in printing order.
    Add(Vec<Expr>),
    /// A product, in printing order.
    Mul(Vec<Expr>),
    /// A power.
    Pow(Box<(Expr, Expr)>),
    /// Division towards minus infinity.
    FloorDiv(Box<(Expr, Expr)>),
    /// Division that gives a floating number.
    TrueDiv(Box<(Expr, Expr)>),
    /// The remainder of [`Expr::FloorDiv`].
    Mod(Box<(Expr, Expr)>),
    /// The largest.
    Max(Vec<Expr>),
    /// The smallest.
    Min(Vec<Expr>),
    /// A comparison.
    Relation(Relation, Box<(Expr, Expr)>),
    /// All of them.
    And(Vec<Expr>),
    /// One of them.
    Or(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// A number of another kind.
    Convert(Conversion, Box<Expr>),
}
/// How a number becomes one of another kind.
///
/// ```
/// use torch::fx::symbolic::{Bindings, Conversion, Expr, Number};
/// assert_eq!(Conversion::TruncToInt.name(), "TruncToInt");
/// let up = Expr::Convert(Conversion::CeilToInt, Box::new(Expr::Float(1.5)));
/// assert_eq!(up.evaluate(&Bindings::new()), Some(Number::Int(2)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conversion {
    /// The floating number.
    ToFloat,
    /// The integer towards zero.
    TruncToInt,
    /// The same as a floating number.
    TruncToFloat,
    /// The integer below.
    FloorToInt,
    /// The integer above.
    CeilToInt,
    /// The nearest integer, the even one of two.
    RoundToInt,
}
impl Conversion {
    const ALL: [(&'static str, Conversion); 6] = [
        ("ToFloat", Conversion::ToFloat),
        ("TruncToInt", Conversion::TruncToInt),
        ("TruncToFloat", Conversion::TruncToFloat),
        ("FloorToInt", Conversion::FloorToInt),
        ("CeilToInt", Conversion::CeilToInt),
        ("RoundToInt", Conversion::RoundToInt),
    ];
    /// PyTorch's name of the function.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|a| a.1 == self).map_or("", |a| a.0)
    }
    /// The function of that name.
    pub fn named(name: &str) -> Option<Conversion> {
        Self::ALL.iter().find(|a| a.0 == name).map(|a| a.1)
    }
    /// Whether the result is a floating number.
    pub fn is_float(self) -> bool {
        matches!(self, Conversion::ToFloat | Conversion::TruncToFloat)
    }
    fn of(self, n: Number) -> Option<Number> {
        let x = n.float();
        let rounded = match self {
            Conversion::ToFloat => return Some(Number::Float(x)),
            Conversion::TruncToFloat => return Some(Number::Float(x.trunc())),
            Conversion::TruncToInt => x.trunc(),
            Conversion::FloorToInt => x.floor(),
            Conversion::CeilToInt => x.ceil(),
            Conversion::RoundToInt => x.round_ties_even(),
        };
        if let Some(i) = n.int() {
            return Some(Number::Int(i));
        }
        // beyond this an integer has no floating number of its own
        (rounded.abs() < 9e18).then_some(Number::Int(rounded as i64))
    }
}

/// What an expression is worth.
///
/// ```
/// use torch::fx::symbolic::{Bindings, Expr, Number};
/// let sizes: Bindings = [("s0".to_string(), 7)].into();
/// let half = Expr::read("(s0//2) + 1")?;
/// assert_eq!(half.evaluate(&sizes), Some(Number::Int(4)));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A floating number.
    Float(f64),
    /// True or false.
    Bool(bool),
}
impl Number {
    /// The integer, if it is one.
    pub fn int(self) -> Option<i64> {
        match self {
            Number::Int(i) => Some(i),
            Number::Bool(b) => Some(i64::from(b)),
            Number::Float(_) => None,
        }
    }
    fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Bool(b) => f64::from(u8::from(b)),
            Number::Float(f) => f,
        }
    }
    fn truth(self) -> bool {
        self.float() != 0.0
    }
}

/// Values of symbols.
pub type Bindings = BTreeMap<String, i64>;

/// An expression in a file is at most this deep: real ones have some ten levels.
const DEEPEST: usize = 100;

impl Expr {
    /// A symbol of that name.
    pub fn symbol(name: &str) -> Expr {
        Expr::Symbol { name: name.to_string(), positive: name.starts_with('s') }
    }
    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Expr::Int(i) => Some(*i),
            _ => None,
        }
    }
    /// The symbol's name, if it is nothing but one.
    pub fn as_symbol(&self) -> Option<&str> {
        match self {
            Expr::Symbol { name, .. } => Some(name),
            _ => None,
        }
    }
    /// The expressions that it is made of, in order.
    pub fn parts(&self) -> Vec<&Expr> {
        let mut all = Vec::new();
        Nest::parts(self, &mut |e| all.push(e));
        all
    }
    /// Whether it is a floating number.
    pub fn is_float(&self) -> bool {
        match self {
            Expr::TrueDiv(_) | Expr::Float(_) => true,
            Expr::Convert(c, _) => c.is_float(),
            Expr::Add(l) | Expr::Mul(l) | Expr::Max(l) | Expr::Min(l) => l.iter().any(Expr::is_float),
            _ => false,
        }
    }
    /// The names of all symbols in it, each once, in order.
    pub fn symbols(&self) -> Vec<String> {
        let (mut all, mut open) = (Vec::new(), vec![self]);
        while let Some(e) = open.pop() {
            if let Expr::Symbol { name, .. } = e
                && !all.contains(name)
            {
                all.push(name.clone());
            }
            open.extend(e.parts().into_iter().rev());
        }
        all
    }
    /// What it is worth where the symbols have these values; `None` for a symbol without one, overflow and division by zero, and
    /// expressions that are nested more deeply than a call may be.
    pub fn evaluate(&self, b: &Bindings) -> Option<Number> {
        deep::check([self]).ok()?;
        self.worth(b)
    }
    fn worth(&self, b: &Bindings) -> Option<Number> {
        use Number::{Bool, Float, Int};
        let fold = |l: &[Expr], int: fn(i64, i64) -> Option<i64>, float: fn(f64, f64) -> f64| {
            let mut all = l.iter().map(|e| e.worth(b));
            let mut n = all.next()??;
            for m in all {
                n = match (n, m?) {
                    (Int(x), Int(y)) => Int(int(x, y)?),
                    (x, y) => Float(float(x.float(), y.float())),
                };
            }
            Some(n)
        };
        let pair = |p: &(Expr, Expr)| Some((p.0.worth(b)?, p.1.worth(b)?));
        Some(match self {
            Expr::Int(i) => Int(*i),
            Expr::Float(f) => Float(*f),
            Expr::Bool(v) => Bool(*v),
            Expr::Symbol { name, .. } => Int(*b.get(name)?),
            Expr::Add(l) => fold(l, i64::checked_add, |x, y| x + y)?,
            Expr::Mul(l) => fold(l, i64::checked_mul, |x, y| x * y)?,
            Expr::Max(l) => fold(l, |x, y| Some(x.max(y)), f64::max)?,
            Expr::Min(l) => fold(l, |x, y| Some(x.min(y)), f64::min)?,
            Expr::Pow(p) => match pair(p)? {
                (Int(x), Int(y)) if y >= 0 => Int(x.checked_pow(u32::try_from(y).ok()?)?),
                (x, y) => Float(x.float().powf(y.float())),
            },
            Expr::FloorDiv(p) => match pair(p)? {
                (Int(x), Int(y)) => Int(floor_div(x, y)?),
                (x, y) => Float((x.float() / y.float()).floor()),
            },
            Expr::Mod(p) => match pair(p)? {
                (Int(x), Int(y)) => Int(x.checked_sub(floor_div(x, y)?.checked_mul(y)?)?),
                (x, y) => Float(x.float() - y.float() * (x.float() / y.float()).floor()),
            },
            Expr::TrueDiv(p) => {
                let (x, y) = pair(p)?;
                Float(x.float() / y.float())
            }
            Expr::Relation(r, p) => {
                let (x, y) = pair(p)?;
                let order = match (x, y) {
                    (Int(x), Int(y)) => x.cmp(&y),
                    (x, y) => x.float().partial_cmp(&y.float())?,
                };
                Bool(match r {
                    Relation::Eq => order.is_eq(),
                    Relation::Ne => order.is_ne(),
                    Relation::Lt => order.is_lt(),
                    Relation::Le => order.is_le(),
                    Relation::Gt => order.is_gt(),
                    Relation::Ge => order.is_ge(),
                })
            }
            Expr::And(l) => {
                let all: Option<Vec<Number>> = l.iter().map(|e| e.worth(b)).collect();
                Bool(all?.into_iter().all(Number::truth))
            }
            Expr::Or(l) => {
                let all: Option<Vec<Number>> = l.iter().map(|e| e.worth(b)).collect();
                Bool(all?.into_iter().any(Number::truth))
            }
            Expr::Not(e) => Bool(!e.worth(b)?.truth()),
            Expr::Convert(c, e) => c.of(e.worth(b)?)?,
        })
    }
    /// The value that its one symbol must have for the expression to be worth `n`; `None` where it cannot be told.
    pub fn solve(&self, n: i64) -> Option<(String, i64)> {
        deep::check([self]).ok()?;
        let rest = |l: &[Expr], add: bool| -> Option<(i64, Expr)> {
            let (mut known, mut open) = (i64::from(!add), None);
            for e in l {
                match (e.evaluate(&Bindings::new()), &open) {
                    (Some(Number::Int(i)), _) => {
                        known = if add { known.checked_add(i)? } else { known.checked_mul(i)? };
                    }
                    (None, None) => open = Some(e.clone()),
                    _ => return None,
                }
            }
            Some((known, open?))
        };
        match self {
            Expr::Symbol { name, .. } => Some((name.clone(), n)),
            Expr::Add(l) => {
                let (known, open) = rest(l, true)?;
                open.solve(n.checked_sub(known)?)
            }
            Expr::Mul(l) => {
                let (known, open) = rest(l, false)?;
                // neither by 0 nor -2^63 by -1
                if n.checked_rem(known)? != 0 { None } else { open.solve(n.checked_div(known)?) }
            }
            _ => None,
        }
    }
    /// Reads sympy's `srepr`: `Mul(Integer(2), Symbol('s0', positive=True, integer=True))`.
    ///
    /// # Errors
    /// Text of another form.
    pub fn parse(text: &str) -> Result<Expr> {
        let mut p = Parser { text: text.as_bytes(), at: 0 };
        let e = p.expr(0)?;
        p.space();
        if p.at != p.text.len() {
            return p.wrong();
        }
        Ok(e)
    }
    /// The `srepr`; an ellipsis of what is nested too deeply to be read again.
    pub fn srepr(&self) -> String {
        if deep::check([self]).is_err() {
            return "...".into();
        }
        let all = |l: &[Expr]| l.iter().map(Expr::srepr).collect::<Vec<_>>().join(", ");
        let pair = |p: &(Expr, Expr)| format!("{}, {}", p.0.srepr(), p.1.srepr());
        match self {
            Expr::Int(i) => format!("Integer({i})"),
            Expr::Float(f) => format!("Float('{f}', precision=53)"),
            Expr::Bool(true) => "true".into(),
            Expr::Bool(false) => "false".into(),
            Expr::Symbol { name, positive: true } => format!("Symbol('{name}', positive=True, integer=True)"),
            Expr::Symbol { name, .. } => format!("Symbol('{name}', integer=True)"),
            Expr::Add(l) => format!("Add({})", all(l)),
            Expr::Mul(l) => format!("Mul({})", all(l)),
            Expr::Max(l) => format!("Max({})", all(l)),
            Expr::Min(l) => format!("Min({})", all(l)),
            Expr::And(l) => format!("And({})", all(l)),
            Expr::Or(l) => format!("Or({})", all(l)),
            Expr::Not(e) => format!("Not({})", e.srepr()),
            Expr::Convert(c, e) => format!("{}({})", c.name(), e.srepr()),
            Expr::Pow(p) => format!("Pow({})", pair(p)),
            Expr::FloorDiv(p) => format!("FloorDiv({})", pair(p)),
            Expr::TrueDiv(p) => format!("{}({})", division(p), pair(p)),
            Expr::Mod(p) => format!("Mod({})", pair(p)),
            Expr::Relation(r, p) => {
                let name = match r {
                    Relation::Eq => "Equality",
                    Relation::Ne => "Unequality",
                    Relation::Lt => "StrictLessThan",
                    Relation::Le => "LessThan",
                    Relation::Gt => "StrictGreaterThan",
                    Relation::Ge => "GreaterThan",
                };
                format!("{name}({})", pair(p))
            }
        }
    }
    /// How tightly it binds in print: what binds less than its surroundings stands in brackets.
    fn binding(&self) -> u8 {
        match self {
            Expr::Or(_) => 1,
            Expr::And(_) => 2,
            Expr::Relation(Relation::Eq | Relation::Ne, _) => 9,
            // PyTorch's own functions bind less than sums
            Expr::Relation(..) | Expr::FloorDiv(_) | Expr::Mod(_) | Expr::TrueDiv(_) => 3,
            Expr::Add(_) => 4,
            Expr::Int(i) if *i < 0 => 4,
            Expr::Float(f) if *f < 0.0 => 4,
            Expr::Mul(l) if matches!(l.first(), Some(Expr::Int(i)) if *i < 0) => 4,
            Expr::Mul(_) => 5,
            Expr::Not(_) => 6,
            Expr::Pow(_) => 7,
            // sympy's functions print their own brackets
            _ => 9,
        }
    }
    fn shown(&self, within: u8) -> String {
        if self.binding() < within { format!("({self})") } else { self.to_string() }
    }
}
/// Division towards minus infinity.
///
/// ```
/// assert_eq!(torch::fx::symbolic::floor_div(-3, 2), Some(-2));
/// ```
pub fn floor_div(x: i64, y: i64) -> Option<i64> {
    let q = x.checked_div(y)?;
    Some(if x.checked_rem(y)? != 0 && ((x < 0) != (y < 0)) { q - 1 } else { q })
}

/// What PyTorch calls a division that gives a fraction: of integers it rounds once.
fn division(p: &(Expr, Expr)) -> &'static str {
    if p.0.is_float() || p.1.is_float() { "FloatTrueDiv" } else { "IntTrueDiv" }
}
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        deep::show(f, |f| self.write(f))
    }
}
impl Expr {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |l: &[Expr]| l.iter().map(Expr::to_string).collect::<Vec<_>>().join(", ");
        let joined =
            |l: &[Expr], by: &str, at: u8| l.iter().map(|e| e.shown(at)).collect::<Vec<_>>().join(by);
        match self {
            Expr::Int(i) => write!(f, "{i}"),
            Expr::Float(x) => write!(f, "{x:?}"),
            Expr::Bool(true) => f.write_str("True"),
            Expr::Bool(false) => f.write_str("False"),
            Expr::Symbol { name, .. } => f.write_str(name),
            Expr::Add(l) => {
                for (i, e) in l.iter().enumerate() {
                    // written once: twice at each level would be without end
                    let text = e.to_string();
                    if i > 0
                        && let Some(rest) = text.strip_prefix('-')
                    {
                        write!(f, " - {rest}")?;
                        continue;
                    }
                    f.write_str(if i > 0 { " + " } else { "" })?;
                    if e.binding() < 4 { write!(f, "({text})")? } else { f.write_str(&text)? }
                }
                Ok(())
            }
            Expr::Mul(l) => match l.split_first() {
                Some((Expr::Int(-1), rest)) if !rest.is_empty() => write!(f, "-{}", joined(rest, "*", 5)),
                Some((Expr::Int(i), rest)) if !rest.is_empty() => write!(f, "{i}*{}", joined(rest, "*", 5)),
                _ => f.write_str(&joined(l, "*", 5)),
            },
            Expr::Pow(p) => write!(f, "{}**{}", p.0.shown(8), p.1.shown(7)),
            Expr::FloorDiv(p) => write!(f, "({}//{})", p.0.shown(8), p.1.shown(8)),
            Expr::TrueDiv(p) => write!(f, "{}({}, {})", division(p), p.0, p.1),
            Expr::Mod(p) => write!(f, "Mod({}, {})", p.0, p.1),
            Expr::Max(l) => write!(f, "Max({})", listed(l)),
            Expr::Min(l) => write!(f, "Min({})", listed(l)),
            Expr::And(l) => f.write_str(&joined(l, " & ", 3)),
            Expr::Or(l) => f.write_str(&joined(l, " | ", 2)),
            Expr::Not(e) => write!(f, "~{}", e.shown(6)),
            Expr::Convert(c, e) => write!(f, "{}({e})", c.name()),
            Expr::Relation(r, p) => match r {
                Relation::Eq => write!(f, "Eq({}, {})", p.0, p.1),
                Relation::Ne => write!(f, "Ne({}, {})", p.0, p.1),
                Relation::Lt => write!(f, "{} < {}", p.0.shown(4), p.1.shown(4)),
                Relation::Le => write!(f, "{} <= {}", p.0.shown(4), p.1.shown(4)),
                Relation::Gt => write!(f, "{} > {}", p.0.shown(4), p.1.shown(4)),
                Relation::Ge => write!(f, "{} >= {}", p.0.shown(4), p.1.shown(4)),
            },
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}
impl Parser<'_> {
    fn wrong<T>(&self) -> Result<T> {
        let all = String::from_utf8_lossy(self.text);
        let shown: String = all.chars().take(80).collect();
        Err(Error::value(format!("'{shown}' is no expression that is known (at {})", self.at)))
    }
    fn space(&mut self) {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }
    fn eat(&mut self, c: u8) -> bool {
        self.space();
        let is = self.text.get(self.at) == Some(&c);
        self.at += usize::from(is);
        is
    }
    fn word(&mut self) -> String {
        self.space();
        let from = self.at;
        while self.text.get(self.at).is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.')) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[from..self.at]).into_owned()
    }
    fn quoted(&mut self) -> Result<String> {
        if !self.eat(b'\'') {
            return self.wrong();
        }
        let from = self.at;
        while self.text.get(self.at).is_some_and(|c| *c != b'\'') {
            self.at += 1;
        }
        let s = String::from_utf8_lossy(&self.text[from..self.at]).into_owned();
        if self.eat(b'\'') { Ok(s) } else { self.wrong() }
    }
    fn integer(&mut self) -> Result<i64> {
        let minus = self.eat(b'-');
        let digits = self.word();
        match format!("{}{digits}", if minus { "-" } else { "" }).parse() {
            Ok(n) => Ok(n),
            Err(_) => self.wrong(),
        }
    }
    fn expr(&mut self, depth: usize) -> Result<Expr> {
        if depth > DEEPEST {
            return Err(Error::value("an expression that is nested too deeply"));
        }
        let name = self.word();
        match name.as_str() {
            "true" => return Ok(Expr::Bool(true)),
            "false" => return Ok(Expr::Bool(false)),
            "int_oo" | "oo" => return Ok(Expr::Int(i64::MAX)),
            _ => {}
        }
        if !self.eat(b'(') {
            return self.wrong();
        }
        match name.as_str() {
            "Integer" => {
                let n = self.integer()?;
                return if self.eat(b')') { Ok(Expr::Int(n)) } else { self.wrong() };
            }
            "Float" => {
                let s = self.quoted()?;
                while self.text.get(self.at).is_some_and(|c| *c != b')') {
                    self.at += 1;
                }
                let Ok(x) = s.parse() else { return self.wrong() };
                return if self.eat(b')') { Ok(Expr::Float(x)) } else { self.wrong() };
            }
            "Symbol" => {
                let name = self.quoted()?;
                let mut positive = false;
                while self.eat(b',') {
                    let key = self.word();
                    if !self.eat(b'=') {
                        return self.wrong();
                    }
                    positive |= self.word() == "True" && key == "positive";
                }
                let symbol = Expr::Symbol { name, positive };
                return if self.eat(b')') { Ok(symbol) } else { self.wrong() };
            }
            _ => {}
        }
        let mut l = vec![self.expr(depth + 1)?];
        while self.eat(b',') {
            l.push(self.expr(depth + 1)?);
        }
        if !self.eat(b')') {
            return self.wrong();
        }
        let relation = match name.as_str() {
            "Equality" => Some(Relation::Eq),
            "Unequality" => Some(Relation::Ne),
            "StrictLessThan" => Some(Relation::Lt),
            "LessThan" => Some(Relation::Le),
            "StrictGreaterThan" => Some(Relation::Gt),
            "GreaterThan" => Some(Relation::Ge),
            _ => None,
        };
        match name.as_str() {
            "Add" => return Ok(Expr::Add(l)),
            "Mul" => return Ok(Expr::Mul(l)),
            "Max" => return Ok(Expr::Max(l)),
            "Min" => return Ok(Expr::Min(l)),
            "And" => return Ok(Expr::And(l)),
            "Or" => return Ok(Expr::Or(l)),
            _ => {}
        }
        if name == "Not"
            && let Ok([e]) = <[Expr; 1]>::try_from(l.clone())
        {
            return Ok(Expr::Not(Box::new(e)));
        }
        if let Some(c) = Conversion::named(&name)
            && let Ok([e]) = <[Expr; 1]>::try_from(l.clone())
        {
            return Ok(Expr::Convert(c, Box::new(e)));
        }
        let Ok([a, b]) = <[Expr; 2]>::try_from(l) else { return self.wrong() };
        let p = Box::new((a, b));
        Ok(match (relation, name.as_str()) {
            (Some(r), _) => Expr::Relation(r, p),
            (_, "Pow") => Expr::Pow(p),
            (_, "FloorDiv" | "CleanDiv") => Expr::FloorDiv(p),
            (_, "IntTrueDiv" | "FloatTrueDiv") => Expr::TrueDiv(p),
            (_, "Mod" | "PythonMod") => Expr::Mod(p),
            _ => return self.wrong(),
        })
    }
}
