//! Conditions on inputs: Python expressions over sizes and numbers, as files hold them.

use flambeau_core::{Error, Result, Value};
use flambeau_fx::symbolic::floor_div;
use std::fmt;

/// A condition.
#[derive(Clone, Debug)]
pub struct Guard {
    expr: Expr,
}
#[derive(Clone, Debug)]
enum Expr {
    Int(i64),
    Truth(bool),
    Float(f64),
    Str(String),
    /// An input, or one of its sizes: number, shown text, dimension.
    Input(usize, String, Option<usize>),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<(Expr, Expr)>),
    Compare(&'static str, Box<(Expr, Expr)>),
    Bool(&'static str, Vec<Expr>),
    Call(&'static str, Vec<Expr>),
}
/// Functions of numbers in guards.
const FUNCTIONS: [&str; 9] =
    ["torch.sym_max", "torch.sym_min", "max", "min", "math.trunc", "math.floor", "math.ceil", "float", "int"];
#[derive(Clone, PartialEq)]
enum Worth {
    Int(i64),
    Float(f64),
    Str(String),
}
/// A guard in a file is at most this deep.
const DEEPEST: usize = 200;

impl Guard {
    /// Reads a condition; inputs are named as `L['x']` with these paths (`['x'][0]`), in order.
    pub fn parse(text: &str, paths: &[String]) -> Result<Guard> {
        let mut p = Parser { text, at: 0, paths };
        let expr = p.or(0)?;
        p.space();
        if p.at != text.len() {
            return p.wrong();
        }
        Ok(Guard { expr })
    }
    /// `input.size()[dim] OP n`
    pub fn size(input: usize, path: &str, dim: usize, op: &'static str, n: i64) -> Guard {
        let left = Expr::Input(input, format!("{}.size()[{dim}]", shown(path)), Some(dim));
        Guard { expr: Expr::Compare(op, Box::new((left, Expr::Int(n)))) }
    }
    /// Two sizes or numbers of inputs are equal: input, path, dimension of both.
    pub fn equal(a: (usize, &str, Option<usize>), b: (usize, &str, Option<usize>)) -> Guard {
        let one = |(i, path, dim): (usize, &str, Option<usize>)| {
            let text = match dim {
                Some(d) => format!("{}.size()[{d}]", shown(path)),
                None => shown(path),
            };
            Expr::Input(i, text, dim)
        };
        Guard { expr: Expr::Compare("==", Box::new((one(a), one(b)))) }
    }
    /// An input is that constant; `None` for constants that are not compared.
    pub fn constant(input: usize, path: &str, op: &'static str, v: &Value) -> Option<Guard> {
        let right = match v {
            Value::Int(i) => Expr::Int(*i),
            Value::Bool(b) => Expr::Truth(*b),
            Value::Float(x) => Expr::Float(*x),
            Value::Str(s) => Expr::Str(s.clone()),
            _ => return None,
        };
        Some(Guard { expr: Expr::Compare(op, Box::new((Expr::Input(input, shown(path), None), right))) })
    }
    /// Checks the inputs.
    ///
    /// # Errors
    /// An assertion error with PyTorch's text where it does not hold.
    pub fn check(&self, inputs: &[Value]) -> Result<()> {
        let holds = match self.expr.evaluate(inputs) {
            Some(Worth::Int(n)) => n != 0,
            Some(Worth::Float(x)) => x != 0.0,
            Some(Worth::Str(s)) => !s.is_empty(),
            None => false,
        };
        if holds {
            return Ok(());
        }
        Err(Error::new(flambeau_core::ErrorKind::Assertion, format!("Guard failed: {self}")))
    }
}
/// `['x'][0]` as `x[0]`.
fn shown(path: &str) -> String {
    match path.strip_prefix("['").and_then(|p| p.split_once("']")) {
        Some((name, rest)) => format!("{name}{rest}"),
        None => path.to_string(),
    }
}
/// A function of numbers.
fn called(name: &str, all: &[Worth]) -> Option<Worth> {
    let float = |w: &Worth| match w {
        Worth::Int(i) => Some(*i as f64),
        Worth::Float(x) => Some(*x),
        Worth::Str(_) => None,
    };
    if name.ends_with("max") || name.ends_with("min") {
        // the first of equal ones, as Python
        let mut best = all.first()?.clone();
        for w in &all[1..] {
            let (a, b) = (float(&best)?, float(w)?);
            let better = if name.ends_with("max") { b > a } else { b < a };
            if better {
                best = w.clone();
            }
        }
        return Some(best);
    }
    let [one] = all else { return None };
    let x = float(one)?;
    let whole = match name {
        "float" => return Some(Worth::Float(x)),
        _ if matches!(one, Worth::Int(_)) => return Some(one.clone()),
        "math.floor" => x.floor(),
        "math.ceil" => x.ceil(),
        _ => x.trunc(),
    };
    (whole.abs() < 9e18).then_some(Worth::Int(whole as i64))
}
impl Expr {
    fn evaluate(&self, inputs: &[Value]) -> Option<Worth> {
        use Worth::{Float, Int};
        let number = |w: &Worth| match w {
            Int(i) => Some(*i as f64),
            Float(x) => Some(*x),
            Worth::Str(_) => None,
        };
        Some(match self {
            Expr::Int(i) => Int(*i),
            Expr::Truth(b) => Int(i64::from(*b)),
            Expr::Float(x) => Float(*x),
            Expr::Str(s) => Worth::Str(s.clone()),
            Expr::Input(i, _, dim) => match (inputs.get(*i)?, dim) {
                (Value::Tensor(t), Some(d)) => Int(*t.sizes().get(*d)?),
                (Value::Int(n), None) => Int(*n),
                (Value::Bool(b), None) => Int(i64::from(*b)),
                (Value::Float(x), None) => Float(*x),
                (Value::Str(s), None) => Worth::Str(s.clone()),
                _ => return None,
            },
            Expr::Unary(op, e) => match (*op, e.evaluate(inputs)?) {
                ("-", Int(i)) => Int(i.checked_neg()?),
                ("-", Float(x)) => Float(-x),
                ("not ", w) => Int(i64::from(number(&w)? == 0.0)),
                _ => return None,
            },
            Expr::Binary(op, p) => match (*op, p.0.evaluate(inputs)?, p.1.evaluate(inputs)?) {
                ("+", Int(a), Int(b)) => Int(a.checked_add(b)?),
                ("-", Int(a), Int(b)) => Int(a.checked_sub(b)?),
                ("*", Int(a), Int(b)) => Int(a.checked_mul(b)?),
                ("//", Int(a), Int(b)) => Int(floor_div(a, b)?),
                ("%", Int(a), Int(b)) => Int(a.checked_sub(floor_div(a, b)?.checked_mul(b)?)?),
                ("**", Int(a), Int(b)) => Int(a.checked_pow(u32::try_from(b).ok()?)?),
                (op, a, b) => {
                    let (a, b) = (number(&a)?, number(&b)?);
                    Float(match op {
                        "+" => a + b,
                        "-" => a - b,
                        "*" => a * b,
                        "/" => a / b,
                        "//" => (a / b).floor(),
                        "%" => a - b * (a / b).floor(),
                        _ => a.powf(b),
                    })
                }
            },
            Expr::Compare(op, p) => {
                let (a, b) = (p.0.evaluate(inputs)?, p.1.evaluate(inputs)?);
                let order = match (&a, &b) {
                    (Int(a), Int(b)) => Some(a.cmp(b)),
                    (Worth::Str(a), Worth::Str(b)) => Some(a.cmp(b)),
                    _ => match (number(&a), number(&b)) {
                        (Some(a), Some(b)) => a.partial_cmp(&b),
                        _ => None,
                    },
                };
                Int(i64::from(match (*op, order) {
                    ("!=", o) => o.is_none_or(std::cmp::Ordering::is_ne),
                    (_, None) => false,
                    ("==", Some(o)) => o.is_eq(),
                    ("<", Some(o)) => o.is_lt(),
                    ("<=", Some(o)) => o.is_le(),
                    (">", Some(o)) => o.is_gt(),
                    (_, Some(o)) => o.is_ge(),
                }))
            }
            Expr::Call(name, l) => {
                let all = l.iter().map(|e| e.evaluate(inputs)).collect::<Option<Vec<_>>>()?;
                called(name, &all)?
            }
            Expr::Bool(op, l) => {
                let mut all = l.iter().map(|e| Some(number(&e.evaluate(inputs)?)? != 0.0));
                let any = *op == "or";
                Int(i64::from(all.try_fold(!any, |s, v| Some(if any { s || v? } else { s && v? }))?))
            }
        })
    }
    fn binding(&self) -> u8 {
        match self {
            Expr::Bool("or", _) => 1,
            Expr::Bool(..) => 2,
            Expr::Unary("not ", _) => 3,
            Expr::Compare(..) => 4,
            Expr::Binary("+" | "-", _) => 5,
            Expr::Binary("**", _) => 8,
            Expr::Binary(..) => 6,
            Expr::Unary(..) => 7,
            _ => 9,
        }
    }
    fn within(&self, least: u8) -> String {
        if self.binding() < least { format!("({self})") } else { self.to_string() }
    }
}
/// As Python's `ast.unparse`.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Int(i) => write!(f, "{i}"),
            Expr::Truth(b) => f.write_str(if *b { "True" } else { "False" }),
            Expr::Float(x) => f.write_str(&flambeau_library::repr(&Value::Float(*x)).unwrap_or_default()),
            Expr::Str(s) => f.write_str(&flambeau_library::repr(&Value::Str(s.clone())).unwrap_or_default()),
            Expr::Input(_, text, _) => f.write_str(text),
            Expr::Unary(op, e) => write!(f, "{op}{}", e.within(if *op == "-" { 7 } else { 3 })),
            Expr::Binary(op, p) => {
                let b = self.binding();
                let (l, r) = if *op == "**" { (b + 1, b) } else { (b, b + 1) };
                write!(f, "{} {op} {}", p.0.within(l), p.1.within(r))
            }
            Expr::Compare(op, p) => write!(f, "{} {op} {}", p.0.within(5), p.1.within(5)),
            Expr::Call(name, l) => {
                let all: Vec<String> = l.iter().map(Expr::to_string).collect();
                write!(f, "{name}({})", all.join(", "))
            }
            Expr::Bool(op, l) => {
                let b = self.binding() + 1;
                let all: Vec<String> = l.iter().map(|e| e.within(b)).collect();
                f.write_str(&all.join(&format!(" {op} ")))
            }
        }
    }
}
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    paths: &'a [String],
}
impl Parser<'_> {
    fn wrong<T>(&self) -> Result<T> {
        let shown: String = self.text.chars().take(120).collect();
        Err(Error::serialization(format!("the guard '{shown}' is of a form that is not known")))
    }
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }
    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\n']).len();
    }
    fn eat(&mut self, s: &str) -> bool {
        self.space();
        let is = self.rest().starts_with(s);
        self.at += if is { s.len() } else { 0 };
        is
    }
    fn word(&mut self, s: &str) -> bool {
        self.space();
        let next = self.rest().strip_prefix(s).map(|r| r.chars().next());
        let is = matches!(next, Some(c) if !c.is_some_and(|c| c.is_alphanumeric() || c == '_'));
        self.at += if is { s.len() } else { 0 };
        is
    }
    fn list(
        &mut self,
        op: &'static str,
        depth: usize,
        next: fn(&mut Self, usize) -> Result<Expr>,
    ) -> Result<Expr> {
        let first = next(self, depth)?;
        let mut all = vec![first];
        while self.word(op) {
            all.push(next(self, depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expr::Bool(op, all) })
    }
    fn or(&mut self, depth: usize) -> Result<Expr> {
        if depth > DEEPEST {
            return Err(Error::serialization("a guard that is nested too deeply"));
        }
        self.list("or", depth, Self::and)
    }
    fn and(&mut self, depth: usize) -> Result<Expr> {
        self.list("and", depth, Self::not)
    }
    fn not(&mut self, depth: usize) -> Result<Expr> {
        if self.word("not") {
            return Ok(Expr::Unary("not ", Box::new(self.compare(depth)?)));
        }
        self.compare(depth)
    }
    fn compare(&mut self, depth: usize) -> Result<Expr> {
        let a = self.sum(depth)?;
        for op in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.eat(op) {
                return Ok(Expr::Compare(op, Box::new((a, self.sum(depth)?))));
            }
        }
        Ok(a)
    }
    fn sum(&mut self, depth: usize) -> Result<Expr> {
        let mut a = self.product(depth)?;
        loop {
            let Some(op) = ["+", "-"].into_iter().find(|o| self.eat(o)) else { return Ok(a) };
            a = Expr::Binary(op, Box::new((a, self.product(depth)?)));
        }
    }
    fn product(&mut self, depth: usize) -> Result<Expr> {
        let mut a = self.factor(depth)?;
        loop {
            self.space();
            if self.rest().starts_with("**") {
                return self.wrong();
            }
            let Some(op) = ["*", "//", "/", "%"].into_iter().find(|o| self.eat(o)) else { return Ok(a) };
            a = Expr::Binary(op, Box::new((a, self.factor(depth)?)));
        }
    }
    fn factor(&mut self, depth: usize) -> Result<Expr> {
        if depth > DEEPEST {
            return Err(Error::serialization("a guard that is nested too deeply"));
        }
        if self.eat("-") {
            return Ok(Expr::Unary("-", Box::new(self.factor(depth + 1)?)));
        }
        let a = self.atom(depth)?;
        if self.eat("**") {
            return Ok(Expr::Binary("**", Box::new((a, self.factor(depth + 1)?))));
        }
        Ok(a)
    }
    fn atom(&mut self, depth: usize) -> Result<Expr> {
        if self.eat("(") {
            let e = self.or(depth + 1)?;
            return if self.eat(")") { Ok(e) } else { self.wrong() };
        }
        self.space();
        if self.rest().starts_with("L[") {
            return self.input();
        }
        if let Some(rest) = self.rest().strip_prefix('\'') {
            let Some(end) = rest.find('\'') else { return self.wrong() };
            let s = rest[..end].to_string();
            self.at += end + 2;
            return Ok(Expr::Str(s));
        }
        if let Some(name) =
            FUNCTIONS.into_iter().find(|f| self.rest().strip_prefix(f).is_some_and(|r| r.starts_with('(')))
        {
            self.at += name.len() + 1;
            let mut all = vec![self.or(depth + 1)?];
            while self.eat(",") {
                all.push(self.or(depth + 1)?);
            }
            return if self.eat(")") { Ok(Expr::Call(name, all)) } else { self.wrong() };
        }
        let n = self.rest().find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest().len());
        let digits = self.rest()[..n].to_string();
        if digits.is_empty() {
            return self.wrong();
        }
        self.at += n;
        if let Ok(i) = digits.parse::<i64>() {
            return Ok(Expr::Int(i));
        }
        digits.parse().map(Expr::Float).or_else(|_| self.wrong())
    }
    fn input(&mut self) -> Result<Expr> {
        let rest = &self.rest()[1..];
        let best = self.paths.iter().enumerate().filter(|(_, p)| rest.starts_with(p.as_str()));
        let Some((i, path)) = best.max_by_key(|(_, p)| p.len()) else { return self.wrong() };
        let (mut text, after) = (shown(path), &rest[path.len()..]);
        let mut used = 1 + path.len();
        let mut dim = None;
        if let Some(tail) = after.strip_prefix(".size()[") {
            let Some((n, _)) = tail.split_once(']') else { return self.wrong() };
            let Ok(d) = n.parse::<usize>() else { return self.wrong() };
            dim = Some(d);
            text.push_str(&format!(".size()[{d}]"));
            used += ".size()[".len() + n.len() + 1;
        }
        self.at += used;
        Ok(Expr::Input(i, text, dim))
    }
}
