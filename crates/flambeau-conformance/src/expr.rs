//! The small Python expressions of a set: invariants (`o0 @ o1.mH`), printed objects (`torch.nn.Linear(3, 4)`) and
//! schedules (`0.95 ** epoch`). Tensors are computed through the library, so that gradients flow.

use crate::decode::{Stop, build};
use flambeau_core::{Tensor, Value};
use flambeau_library as library;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number, string, bool or None.
    Literal(Lit),
    /// `o0`, `torch`
    Name(String),
    /// `x.name`
    Attr(Box<Expr>, String),
    /// `f(a, k=b)`
    Call(Box<Expr>, Vec<Expr>, Vec<(String, Expr)>),
    /// `x[a, b:c, ...]`
    Index(Box<Expr>, Vec<Item>),
    /// `a OP b`
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `-a`
    Neg(Box<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `{'a': b}`
    Dict(Vec<(String, Expr)>),
    /// `a if c else b`
    If(Box<[Expr; 3]>),
}
/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Lit {
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(String),
    /// True or False.
    Bool(bool),
    /// None.
    None,
}
/// One part of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `...`
    Ellipsis,
    /// `a:b`
    Slice(Option<Expr>, Option<Expr>),
    /// A position.
    At(Expr),
}
/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `//`
    FloorDiv,
    /// `%`
    Mod,
    /// `@`
    MatMul,
    /// `**`
    Pow,
    /// `==`
    Eq,
}

#[derive(Clone, Debug, PartialEq)]
enum Tok {
    Name(String),
    Int(i64),
    Float(f64),
    Str(String),
    Sym(&'static str),
}
const SYMBOLS: [&str; 22] = [
    "...", "**", "//", "==", "(", ")", "[", "]", "{", "}", ",", ":", ".", "+", "-", "*", "/", "%", "@", "=",
    "<", ">",
];

fn tokens(s: &str) -> Result<Vec<Tok>, String> {
    let b = s.as_bytes();
    let mut v = Vec::new();
    let mut i = 0;
    while i < b.len() {
        let c = b[i];
        if c.is_ascii_whitespace() {
            i += 1;
        } else if c.is_ascii_alphabetic() || c == b'_' {
            let from = i;
            while i < b.len() && (b[i].is_ascii_alphanumeric() || b[i] == b'_') {
                i += 1;
            }
            v.push(Tok::Name(s[from..i].to_string()));
        } else if c.is_ascii_digit() || (c == b'.' && b.get(i + 1).is_some_and(u8::is_ascii_digit)) {
            let from = i;
            while i < b.len() && (b[i].is_ascii_digit() || b[i] == b'.') {
                i += 1;
            }
            let power = b.get(i).is_some_and(|c| matches!(c, b'e' | b'E'));
            let sign = usize::from(b.get(i + 1).is_some_and(|c| matches!(c, b'+' | b'-')));
            if power && b.get(i + 1 + sign).is_some_and(u8::is_ascii_digit) {
                i += 1 + sign;
                while i < b.len() && b[i].is_ascii_digit() {
                    i += 1;
                }
            }
            let text = &s[from..i];
            v.push(match text.parse::<i64>() {
                Ok(n) => Tok::Int(n),
                Err(_) => Tok::Float(text.parse().map_err(|_| format!("number {text}"))?),
            });
        } else if c == b'\'' || c == b'"' {
            let end = s[i + 1..].find(c as char).ok_or("string without end")? + i + 1;
            v.push(Tok::Str(s[i + 1..end].to_string()));
            i = end + 1;
        } else {
            let sym = SYMBOLS
                .iter()
                .find(|t| s[i..].starts_with(**t))
                .ok_or_else(|| format!("character {}", c as char))?;
            v.push(Tok::Sym(sym));
            i += sym.len();
        }
    }
    Ok(v)
}

struct Parser {
    t: Vec<Tok>,
    i: usize,
}
impl Parser {
    fn eat(&mut self, s: &str) -> bool {
        let hit = matches!(self.t.get(self.i), Some(Tok::Sym(x)) if *x == s);
        self.i += usize::from(hit);
        hit
    }
    fn word(&mut self, w: &str) -> bool {
        let hit = matches!(self.t.get(self.i), Some(Tok::Name(x)) if x == w);
        self.i += usize::from(hit);
        hit
    }
    fn need(&mut self, s: &str) -> Result<(), String> {
        if self.eat(s) { Ok(()) } else { Err(format!("`{s}` expected at token {}", self.i)) }
    }
    fn expr(&mut self) -> Result<Expr, String> {
        let a = self.equality()?;
        if self.word("if") {
            let c = self.equality()?;
            if !self.word("else") {
                return Err("`else` expected".into());
            }
            return Ok(Expr::If(Box::new([a, c, self.expr()?])));
        }
        Ok(a)
    }
    fn left(
        &mut self,
        next: fn(&mut Self) -> Result<Expr, String>,
        ops: &[(&str, Op)],
    ) -> Result<Expr, String> {
        let mut a = next(self)?;
        'more: loop {
            for (s, op) in ops {
                if self.eat(s) {
                    a = Expr::Binary(*op, Box::new(a), Box::new(next(self)?));
                    continue 'more;
                }
            }
            return Ok(a);
        }
    }
    fn equality(&mut self) -> Result<Expr, String> {
        self.left(Self::sum, &[("==", Op::Eq)])
    }
    fn sum(&mut self) -> Result<Expr, String> {
        self.left(Self::product, &[("+", Op::Add), ("-", Op::Sub)])
    }
    fn product(&mut self) -> Result<Expr, String> {
        let ops = [("*", Op::Mul), ("//", Op::FloorDiv), ("/", Op::Div), ("%", Op::Mod), ("@", Op::MatMul)];
        self.left(Self::unary, &ops)
    }
    fn unary(&mut self) -> Result<Expr, String> {
        if self.eat("-") {
            return Ok(Expr::Neg(Box::new(self.unary()?)));
        }
        let a = self.postfix()?;
        if self.eat("**") {
            return Ok(Expr::Binary(Op::Pow, Box::new(a), Box::new(self.unary()?)));
        }
        Ok(a)
    }
    fn postfix(&mut self) -> Result<Expr, String> {
        let mut e = self.primary()?;
        loop {
            if self.eat(".") {
                match self.t.get(self.i) {
                    Some(Tok::Name(n)) => e = Expr::Attr(Box::new(e), n.clone()),
                    _ => return Err("a name expected after `.`".into()),
                }
                self.i += 1;
            } else if self.eat("(") {
                let (mut args, mut kwargs) = (Vec::new(), Vec::new());
                while !self.eat(")") {
                    if !args.is_empty() || !kwargs.is_empty() {
                        self.need(",")?;
                    }
                    let key = match (self.t.get(self.i), self.t.get(self.i + 1)) {
                        (Some(Tok::Name(k)), Some(Tok::Sym("="))) => Some(k.clone()),
                        _ => None,
                    };
                    match key {
                        Some(k) => {
                            self.i += 2;
                            kwargs.push((k, self.expr()?));
                        }
                        None => args.push(self.expr()?),
                    }
                }
                e = Expr::Call(Box::new(e), args, kwargs);
            } else if self.eat("[") {
                let mut items = Vec::new();
                while !self.eat("]") {
                    if !items.is_empty() {
                        self.need(",")?;
                    }
                    items.push(self.item()?);
                }
                e = Expr::Index(Box::new(e), items);
            } else {
                return Ok(e);
            }
        }
    }
    fn item(&mut self) -> Result<Item, String> {
        if self.eat("...") {
            return Ok(Item::Ellipsis);
        }
        let from = if self.eat(":") { None } else { Some(self.expr()?) };
        if from.is_some() && !self.eat(":") {
            return from.map(Item::At).ok_or_else(|| "an index expected".into());
        }
        let end = matches!(self.t.get(self.i), Some(Tok::Sym("," | "]")));
        Ok(Item::Slice(from, if end { None } else { Some(self.expr()?) }))
    }
    fn many(&mut self, end: &str) -> Result<(Vec<Expr>, bool), String> {
        let (mut v, mut comma) = (Vec::new(), false);
        while !self.eat(end) {
            if !v.is_empty() {
                self.need(",")?;
                comma = true;
                if self.eat(end) {
                    break;
                }
            }
            v.push(self.expr()?);
        }
        Ok((v, comma))
    }
    fn primary(&mut self) -> Result<Expr, String> {
        let t = self.t.get(self.i).cloned().ok_or("an expression expected")?;
        self.i += 1;
        Ok(match t {
            Tok::Int(i) => Expr::Literal(Lit::Int(i)),
            Tok::Float(f) => Expr::Literal(Lit::Float(f)),
            Tok::Str(s) => Expr::Literal(Lit::Str(s)),
            Tok::Name(n) => match n.as_str() {
                "True" => Expr::Literal(Lit::Bool(true)),
                "False" => Expr::Literal(Lit::Bool(false)),
                "None" => Expr::Literal(Lit::None),
                _ => Expr::Name(n),
            },
            Tok::Sym("(") => match self.many(")")? {
                (mut v, false) if v.len() == 1 => v.remove(0),
                (v, _) => Expr::Tuple(v),
            },
            Tok::Sym("[") => Expr::List(self.many("]")?.0),
            Tok::Sym("{") => {
                let mut v = Vec::new();
                while !self.eat("}") {
                    if !v.is_empty() {
                        self.need(",")?;
                    }
                    let Expr::Literal(Lit::Str(k)) = self.expr()? else {
                        return Err("a string key expected".into());
                    };
                    self.need(":")?;
                    v.push((k, self.expr()?));
                }
                Expr::Dict(v)
            }
            Tok::Sym(s) => return Err(format!("unexpected `{s}`")),
        })
    }
}

impl Expr {
    /// Parses.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(s: &str) -> Result<Expr, String> {
        let mut p = Parser { t: tokens(s)?, i: 0 };
        let e = p.expr()?;
        if p.i < p.t.len() {
            return Err(format!("text after the end of `{s}`"));
        }
        Ok(e)
    }
    /// The dotted path, if it is one that starts with `torch`.
    fn path(&self) -> Option<String> {
        match self {
            Expr::Name(n) if n == "torch" => Some(n.clone()),
            Expr::Attr(e, n) => Some(format!("{}.{n}", e.path()?)),
            _ => None,
        }
    }
    /// Evaluates with the given names.
    ///
    /// # Errors
    /// `Missing` for functions and classes that do not exist; the errors of calls.
    pub fn eval(&self, env: &[(String, Value)]) -> Result<Value, Stop> {
        let all = |v: &[Expr]| v.iter().map(|e| e.eval(env)).collect::<Result<Vec<_>, _>>();
        let named = |v: &[(String, Expr)]| {
            v.iter().map(|(k, e)| Ok((k.clone(), e.eval(env)?))).collect::<Result<Vec<_>, Stop>>()
        };
        if let Some(p) = self.path() {
            return constant(&p);
        }
        Ok(match self {
            Expr::Literal(l) => match l {
                Lit::Int(i) => Value::Int(*i),
                Lit::Float(f) => Value::Float(*f),
                Lit::Str(s) => Value::Str(s.clone()),
                Lit::Bool(b) => Value::Bool(*b),
                Lit::None => Value::None,
            },
            Expr::Name(n) => match env.iter().find(|(k, _)| k == n) {
                Some((_, v)) => v.clone(),
                None => return Err(Stop::Failed(format!("no value for `{n}`"))),
            },
            Expr::List(v) => Value::List(all(v)?),
            Expr::Tuple(v) => Value::Tuple(all(v)?),
            Expr::Dict(v) => Value::Dict(named(v)?),
            Expr::Attr(e, name) => attribute(&e.eval(env)?, name)?,
            Expr::Call(f, args, kwargs) => {
                let (args, kwargs) = (all(args)?, named(kwargs)?);
                if let Some(p) = f.path() {
                    return build(&p, &args, &kwargs);
                }
                let Expr::Attr(e, name) = &**f else {
                    return Err(Stop::Failed("a call of no function".into()));
                };
                let v = e.eval(env)?;
                if let Value::Tensor(_) = v {
                    known(&format!("torch.Tensor.{name}"))?;
                }
                library::method(&v, name, &args, &kwargs)?
            }
            Expr::Index(e, items) => index(e.eval(env)?, items, env)?,
            Expr::Neg(e) => binary(Op::Mul, e.eval(env)?, Value::Int(-1))?,
            Expr::Binary(op, a, b) => binary(*op, a.eval(env)?, b.eval(env)?)?,
            Expr::If(p) => {
                let c = p[1].eval(env)?.as_scalar().is_some_and(|s| s.to_bool());
                p[if c { 0 } else { 2 }].eval(env)?
            }
        })
    }
}

fn known(path: &str) -> Result<(), Stop> {
    if library::exists(path) { Ok(()) } else { Err(Stop::Missing(path.to_string())) }
}
fn call(path: &str, args: &[Value]) -> Result<Value, Stop> {
    known(path)?;
    Ok(library::call_value(path, args, &[])?)
}
fn constant(path: &str) -> Result<Value, Stop> {
    library::constant(path).ok_or_else(|| Stop::Missing(path.to_string()))
}
fn attribute(v: &Value, name: &str) -> Result<Value, Stop> {
    if let Value::Tensor(_) = v {
        known(&format!("torch.Tensor.{name}"))?;
    }
    Ok(library::attribute(v, name)?)
}
fn binary(op: Op, a: Value, b: Value) -> Result<Value, Stop> {
    if let (Some(x), Some(y)) = (a.as_scalar(), b.as_scalar()) {
        let (fx, fy) = (x.to_f64(), y.to_f64());
        if op == Op::Eq {
            return Ok(Value::Bool(fx == fy));
        }
        if let (Value::Int(i), Value::Int(j)) = (&a, &b) {
            let exact = match op {
                Op::Add => i.checked_add(*j),
                Op::Sub => i.checked_sub(*j),
                Op::Mul => i.checked_mul(*j),
                Op::FloorDiv => i.checked_div_euclid(*j),
                Op::Mod => i.checked_rem_euclid(*j),
                Op::Pow => u32::try_from(*j).ok().and_then(|j| i.checked_pow(j)),
                _ => None,
            };
            if let Some(n) = exact {
                return Ok(Value::Int(n));
            }
        }
        return Ok(Value::Float(match op {
            Op::Add => fx + fy,
            Op::Sub => fx - fy,
            Op::Mul => fx * fy,
            Op::Div => fx / fy,
            Op::FloorDiv => (fx / fy).floor(),
            Op::Mod => fx - fy * (fx / fy).floor(),
            Op::Pow => fx.powf(fy),
            Op::MatMul | Op::Eq => return Err(Stop::Failed("numbers have no such operator".into())),
        }));
    }
    let name = match op {
        Op::Add => "torch.add",
        Op::Sub => "torch.sub",
        Op::Mul => "torch.mul",
        Op::Div => "torch.div",
        Op::FloorDiv => "torch.floor_divide",
        Op::Mod => "torch.remainder",
        Op::MatMul => "torch.matmul",
        Op::Pow => "torch.pow",
        Op::Eq => "torch.eq",
    };
    call(name, &[a, b])
}
fn index(v: Value, items: &[Item], env: &[(String, Value)]) -> Result<Value, Stop> {
    let int = |e: &Expr| -> Result<i64, Stop> {
        match e.eval(env)? {
            Value::Int(i) => Ok(i),
            other => Err(Stop::Failed(format!("an index that is {}", other.type_name()))),
        }
    };
    match (&v, items) {
        (Value::List(_) | Value::Tuple(_) | Value::Named(_), [Item::At(e)]) => {
            let l = v.items().unwrap_or(&[]);
            let i = int(e)?;
            let at = if i < 0 { i + l.len() as i64 } else { i };
            l.get(at as usize).cloned().ok_or_else(|| Stop::Failed("index out of range".into()))
        }
        (Value::Tensor(t), _) => {
            let mut t: Tensor = t.clone();
            let after = items.iter().position(|i| *i == Item::Ellipsis).map_or(0, |p| items.len() - p - 1);
            let tail = &items[items.len() - after..];
            for (k, item) in tail.iter().enumerate() {
                let d = t.dim() as i64 - (after - k) as i64;
                if let Item::Slice(from, to) = item {
                    let n = t.sizes()[d.max(0) as usize];
                    let from = from.as_ref().map_or(Ok(0), int)?;
                    let to = to.as_ref().map_or(Ok(n), int)?.min(n);
                    if from == 0 && to == n {
                        continue;
                    }
                    let args = [Value::Tensor(t), Value::Int(d), Value::Int(from), Value::Int(to - from)];
                    match call("torch.narrow", &args)?.into_tensor() {
                        Ok(r) => t = r,
                        Err(_) => return Err(Stop::Failed("narrow gave no tensor".into())),
                    }
                }
            }
            Ok(Value::Tensor(t))
        }
        _ => Err(Stop::Failed(format!("a {} cannot be indexed", v.type_name()))),
    }
}
