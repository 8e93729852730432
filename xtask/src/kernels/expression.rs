//! Rust's expressions as C++: the part of the language that formulas use. Everything else is an error.

use std::collections::HashMap;
use syn::{BinOp, Block, Expr, Lit, Pat, Stmt, UnOp};

/// What names mean outside of functions.
pub struct World {
    /// Functions by file and name, to their C++ names.
    pub functions: HashMap<String, Vec<(String, String)>>,
}
/// A function that is being translated.
pub struct Body<'a> {
    pub world: &'a World,
    pub path: &'a str,
    pub space: &'a str,
    /// The line of the item, for errors.
    pub line: usize,
    pub consts: HashMap<String, String>,
    scopes: Vec<HashMap<String, String>>,
    fresh: usize,
    /// How deep within a lambda that stands for an expression, where `return` would mean another thing.
    within: usize,
}
type Out = Result<String, String>;

/// How C++ writes a type.
pub fn type_name(t: &syn::Type) -> Option<String> {
    use quote::ToTokens;
    let text = t.to_token_stream().to_string().replace(' ', "");
    Some(match text.as_str() {
        "V" => "V".into(),
        "Cx<V>" => "Cx<V>".into(),
        "f64" => "double".into(),
        "f32" => "float".into(),
        "bool" => "bool".into(),
        "i64" => "i64".into(),
        "i32" => "i32".into(),
        "u32" => "u32".into(),
        "usize" => "u64".into(),
        "(f64,f64)" => "Two<double, double>".into(),
        _ => return None,
    })
}
fn consts(name: &str) -> Option<f64> {
    use std::f64::consts as c;
    Some(match name {
        "PI" => c::PI,
        "TAU" => c::TAU,
        "E" => c::E,
        "LN_2" => c::LN_2,
        "LN_10" => c::LN_10,
        "LOG2_E" => c::LOG2_E,
        "LOG10_E" => c::LOG10_E,
        "SQRT_2" => c::SQRT_2,
        "FRAC_PI_2" => c::FRAC_PI_2,
        "FRAC_PI_4" => c::FRAC_PI_4,
        "FRAC_1_SQRT_2" => c::FRAC_1_SQRT_2,
        "FRAC_2_SQRT_PI" => c::FRAC_2_SQRT_PI,
        "FRAC_1_PI" => c::FRAC_1_PI,
        "FRAC_2_PI" => c::FRAC_2_PI,
        _ => return None,
    })
}
fn safe(name: &str) -> String {
    format!("{name}_")
}

impl<'a> Body<'a> {
    pub fn new(
        world: &'a World,
        path: &'a str,
        space: &'a str,
        line: usize,
        consts: HashMap<String, String>,
    ) -> Self {
        Body { world, path, space, line, consts, scopes: vec![HashMap::new()], fresh: 0, within: 0 }
    }
    fn refuse<T>(&self, at: &impl quote::ToTokens, what: &str) -> Result<T, String> {
        let text: String = at.to_token_stream().to_string().chars().take(60).collect();
        Err(format!("{}:{}: {what} is not understood: {text}", self.path, self.line))
    }
    /// A name that nothing has yet.
    pub fn bind(&mut self, name: &str) -> String {
        self.fresh += 1;
        let own = format!("{}{}", safe(name), self.fresh);
        if let Some(s) = self.scopes.last_mut() {
            s.insert(name.into(), own.clone());
        }
        own
    }
    /// A name as C++ has it already.
    pub fn given(&mut self, name: &str, own: &str) {
        if let Some(s) = self.scopes.last_mut() {
            s.insert(name.into(), own.into());
        }
    }
    fn local(&self, name: &str) -> Option<&String> {
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }
    fn temporary(&mut self) -> String {
        self.fresh += 1;
        format!("t_{}", self.fresh)
    }
    fn function(&self, name: &str) -> Option<String> {
        let all = self.world.functions.get(name)?;
        let own = all.iter().find(|(space, _)| space == self.space).or_else(|| all.first())?;
        Some(own.1.clone())
    }

    /// A body that gives a value: statements, the last with `return`.
    pub fn tail(&mut self, b: &Block) -> Out {
        self.scopes.push(HashMap::new());
        let mut out = String::new();
        for (i, s) in b.stmts.iter().enumerate() {
            let last = i + 1 == b.stmts.len();
            out += &match s {
                Stmt::Expr(e, None) if last => self.tail_expr(e)?,
                s => self.statement(s)?,
            };
        }
        self.scopes.pop();
        Ok(out)
    }
    /// An expression whose value is the function's.
    pub fn tail_expr(&mut self, e: &Expr) -> Out {
        match e {
            Expr::If(i) => {
                let cond = self.expr(&i.cond)?;
                let then = self.tail(&i.then_branch)?;
                let other = match &i.else_branch {
                    Some((_, e)) => self.tail_expr(e)?,
                    None => String::new(),
                };
                Ok(format!("if ({cond}) {{ {then} }} else {{ {other} }}"))
            }
            Expr::Block(b) => Ok(format!("{{ {} }}", self.tail(&b.block)?)),
            Expr::Match(m) => self.arms(m, true),
            Expr::Loop(_) | Expr::Return(_) | Expr::While(_) | Expr::ForLoop(_) => self.statement_expr(e),
            Expr::Paren(p) => self.tail_expr(&p.expr),
            e => Ok(format!("return {};", self.expr(e)?)),
        }
    }
    fn block(&mut self, b: &Block) -> Out {
        self.scopes.push(HashMap::new());
        let all = b.stmts.iter().map(|s| self.statement(s)).collect::<Result<String, _>>();
        self.scopes.pop();
        Ok(format!("{{ {} }}", all?))
    }
    fn statement(&mut self, s: &Stmt) -> Out {
        match s {
            Stmt::Local(l) => {
                let Some(init) = &l.init else { return self.refuse(l, "a variable without a value") };
                // a first arm that leaves the function
                if let Expr::Match(m) = &*init.expr
                    && let Some(first) = m.arms.first()
                    && let Expr::Return(_) = &*first.body
                    && first.guard.is_none()
                {
                    let v = self.expr(&m.expr)?;
                    let mut tests = Vec::new();
                    self.pattern(&first.pat, &format!("({v})"), &mut tests)?;
                    let leave = self.statement_expr(&first.body)?;
                    let mut rest = m.clone();
                    rest.arms.remove(0);
                    let mut l = l.clone();
                    if let Some(init) = &mut l.init {
                        *init.expr = Expr::Match(rest);
                    }
                    let after = self.statement(&Stmt::Local(l))?;
                    return Ok(format!("if ({}) {{ {leave} }} {after}", tests.join(" && ")));
                }
                let pat = match &l.pat {
                    Pat::Type(t) => &*t.pat,
                    p => p,
                };
                match (pat, &*init.expr) {
                    (Pat::Ident(i), e) => {
                        let v = self.expr(e)?;
                        let name = self.bind(&i.ident.to_string());
                        Ok(format!("auto {name} = {v}; "))
                    }
                    (Pat::Tuple(p), Expr::Tuple(t)) if p.elems.len() == t.elems.len() => {
                        let values = t.elems.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
                        let mut out = String::new();
                        for (p, v) in p.elems.iter().zip(values) {
                            let Pat::Ident(i) = p else { return self.refuse(p, "this pattern") };
                            let name = self.bind(&i.ident.to_string());
                            out += &format!("auto {name} = {v}; ");
                        }
                        Ok(out)
                    }
                    (Pat::Tuple(p), e) => {
                        let v = self.expr(e)?;
                        let t = self.temporary();
                        let mut out = format!("auto {t} = {v}; ");
                        for (k, p) in p.elems.iter().enumerate() {
                            let Pat::Ident(i) = p else { return self.refuse(p, "this pattern") };
                            let name = self.bind(&i.ident.to_string());
                            out += &format!("auto {name} = {t}.v{k}; ");
                        }
                        Ok(out)
                    }
                    (p, _) => self.refuse(p, "this pattern"),
                }
            }
            Stmt::Item(syn::Item::Const(c)) => {
                let (declared, value) = self.constant(c)?;
                self.given(&c.ident.to_string(), &safe(&c.ident.to_string()));
                Ok(format!("constexpr {declared} = {value}; "))
            }
            Stmt::Expr(e, _) => self.statement_expr(e),
            other => self.refuse(other, "this statement"),
        }
    }
    /// Declarator and value of a constant: a number or an array of arrays of numbers.
    pub fn constant(&mut self, c: &syn::ItemConst) -> Result<(String, String), String> {
        let mut dims = String::new();
        let mut t = &*c.ty;
        loop {
            match t {
                syn::Type::Array(a) => {
                    dims += &format!("[{}]", self.expr(&a.len)?);
                    t = &a.elem;
                }
                syn::Type::Reference(r) => t = &r.elem,
                syn::Type::Slice(s) => {
                    dims += "[]";
                    t = &s.elem;
                }
                _ => break,
            }
        }
        let Some(ty) = type_name(t) else { return self.refuse(c, "this type") };
        let value = self.initial(&c.expr)?;
        Ok((format!("{ty} {}{dims}", safe(&c.ident.to_string())), value))
    }
    fn initial(&mut self, e: &Expr) -> Out {
        match e {
            Expr::Array(a) => {
                let all = a.elems.iter().map(|e| self.initial(e)).collect::<Result<Vec<_>, _>>()?;
                Ok(format!("{{{}}}", all.join(", ")))
            }
            Expr::Reference(r) => self.initial(&r.expr),
            e => self.expr(e),
        }
    }
    fn statement_expr(&mut self, e: &Expr) -> Out {
        match e {
            Expr::If(i) => {
                let cond = self.expr(&i.cond)?;
                let then = self.block(&i.then_branch)?;
                let other = match &i.else_branch {
                    Some((_, e)) => format!(" else {}", self.statement_expr(e)?),
                    None => String::new(),
                };
                Ok(format!("if ({cond}) {then}{other} "))
            }
            Expr::Block(b) => self.block(&b.block),
            Expr::While(w) => Ok(format!("while ({}) {} ", self.expr(&w.cond)?, self.block(&w.body)?)),
            Expr::Loop(l) => Ok(format!("for (;;) {} ", self.block(&l.body)?)),
            Expr::ForLoop(f) => {
                let named = match &*f.pat {
                    Pat::Ident(i) => i.ident.to_string(),
                    Pat::Wild(_) => "unused".into(),
                    p => return self.refuse(p, "this pattern"),
                };
                if let Expr::Path(p) = &*f.expr {
                    let all = self.value(p)?;
                    self.scopes.push(HashMap::new());
                    let name = self.bind(&named);
                    let body = self.block(&f.body)?;
                    self.scopes.pop();
                    return Ok(format!("for (auto {name} : {all}) {body} "));
                }
                let mut range = &*f.expr;
                let mut cast = "i64";
                if let Expr::MethodCall(m) = range
                    && m.method == "map"
                {
                    cast = "double";
                    range = &m.receiver;
                }
                while let Expr::Paren(p) = range {
                    range = &p.expr;
                }
                let Expr::Range(r) = range else { return self.refuse(range, "a loop over this") };
                let (Some(a), Some(b)) = (&r.start, &r.end) else { return self.refuse(r, "an open range") };
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let less = if matches!(r.limits, syn::RangeLimits::Closed(_)) { "<=" } else { "<" };
                let (counter, end) = (self.temporary(), self.temporary());
                self.scopes.push(HashMap::new());
                let name = self.bind(&named);
                let body = self.block(&f.body)?;
                self.scopes.pop();
                Ok(format!(
                    "{{ i64 {end} = {b}; for (i64 {counter} = {a}; {counter} {less} {end}; {counter}++) {{ {cast} {name} = \
                     ({cast}){counter}; {body} }} }} "
                ))
            }
            Expr::Match(m) => self.arms(m, false),
            Expr::Return(r) => {
                if self.within > 0 {
                    return self.refuse(r, "`return` within an expression");
                }
                match &r.expr {
                    Some(e) => self.tail_expr(e),
                    None => Ok("return;".into()),
                }
            }
            Expr::Break(b) if b.expr.is_none() => Ok("break; ".into()),
            Expr::Continue(_) => Ok("continue; ".into()),
            Expr::Assign(a) => match (&*a.left, &*a.right) {
                (Expr::Tuple(l), r) => {
                    let v = self.expr(r)?;
                    let t = self.temporary();
                    let mut out = format!("auto {t} = {v}; ");
                    for (k, e) in l.elems.iter().enumerate() {
                        out += &format!("{} = {t}.v{k}; ", self.expr(e)?);
                    }
                    Ok(format!("{{ {out} }} "))
                }
                (l, r) => Ok(format!("{} = {}; ", self.expr(l)?, self.expr(r)?)),
            },
            Expr::Paren(p) => self.statement_expr(&p.expr),
            e => Ok(format!("{}; ", self.expr(e)?)),
        }
    }
    fn arms(&mut self, m: &syn::ExprMatch, tail: bool) -> Out {
        let v = self.expr(&m.expr)?;
        let t = self.temporary();
        let mut out = format!("{{ auto {t} = {v}; ");
        let mut open = 0;
        for arm in &m.arms {
            self.scopes.push(HashMap::new());
            let mut tests = Vec::new();
            self.pattern(&arm.pat, &t, &mut tests)?;
            if let Some((_, g)) = &arm.guard {
                tests.push(self.expr(g)?);
            }
            let body = if tail { self.tail_expr(&arm.body)? } else { self.statement_expr(&arm.body)? };
            self.scopes.pop();
            if tests.is_empty() {
                out += &format!("{{ {body} }} ");
                break;
            }
            out += &format!("if ({}) {{ {body} }} else {{ ", tests.join(" && "));
            open += 1;
        }
        Ok(out + &"} ".repeat(open + 1))
    }
    fn pattern(&mut self, p: &Pat, value: &str, tests: &mut Vec<String>) -> Result<(), String> {
        match p {
            Pat::Wild(_) => {}
            Pat::Ident(i) if i.subpat.is_none() => self.given(&i.ident.to_string(), value),
            Pat::Lit(l) => tests.push(format!("{value} == {}", self.expr(&Expr::Lit(l.clone()))?)),
            Pat::Range(r) => {
                if let Some(s) = &r.start {
                    tests.push(format!("{value} >= {}", self.expr(s)?));
                }
                if let Some(e) = &r.end {
                    let less = if matches!(r.limits, syn::RangeLimits::Closed(_)) { "<=" } else { "<" };
                    tests.push(format!("{value} {less} {}", self.expr(e)?));
                }
            }
            Pat::Tuple(t) => {
                for (k, p) in t.elems.iter().enumerate() {
                    self.pattern(p, &format!("{value}.v{k}"), tests)?;
                }
            }
            p => return self.refuse(p, "this pattern"),
        }
        Ok(())
    }
    /// A lambda that is called at once, for expressions with statements.
    fn lambda(&mut self, body: impl FnOnce(&mut Self) -> Out) -> Out {
        self.within += 1;
        let body = body(self);
        self.within -= 1;
        Ok(format!("[&] {{ {} }}()", body?))
    }
    fn list<'e>(&mut self, all: impl Iterator<Item = &'e Expr>) -> Out {
        Ok(all.map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?.join(", "))
    }
    pub fn expr(&mut self, e: &Expr) -> Out {
        match e {
            Expr::Lit(l) => match &l.lit {
                Lit::Float(f) => Ok(f.base10_digits().to_string())
                    .map(|d| if d.contains(['.', 'e']) { d } else { d + ".0" }),
                Lit::Int(i) => Ok(if i.suffix() == "f64" {
                    format!("{}.0", i.base10_digits())
                } else {
                    i.base10_digits().into()
                }),
                Lit::Bool(b) => Ok(b.value.to_string()),
                _ => self.refuse(l, "this literal"),
            },
            Expr::Paren(p) => Ok(format!("({})", self.expr(&p.expr)?)),
            Expr::Group(g) => self.expr(&g.expr),
            Expr::Reference(r) => self.expr(&r.expr),
            Expr::Unary(u) => {
                // of integers it turns bits, of which C++ has another operator
                if matches!((&u.op, &*u.expr), (UnOp::Not(_), Expr::Lit(l)) if matches!(l.lit, Lit::Int(_))) {
                    return self.refuse(u, "`!` of a number");
                }
                let v = self.expr(&u.expr)?;
                match u.op {
                    UnOp::Neg(_) => Ok(format!("(-{v})")),
                    UnOp::Not(_) => Ok(format!("(!{v})")),
                    UnOp::Deref(_) => Ok(v),
                    _ => self.refuse(u, "this operator"),
                }
            }
            Expr::Binary(b) => {
                let (l, r) = (self.expr(&b.left)?, self.expr(&b.right)?);
                use quote::ToTokens;
                let op = b.op.to_token_stream().to_string();
                match b.op {
                    BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_) => {
                        let op = op.trim_end_matches('=');
                        Ok(format!("{l} = {l} {op} ({r})"))
                    }
                    BinOp::Rem(_) => Ok(format!("num::rem({l}, {r})")),
                    _ => Ok(format!("({l} {op} {r})")),
                }
            }
            Expr::Field(f) => {
                let v = self.expr(&f.base)?;
                match &f.member {
                    syn::Member::Named(n) => Ok(format!("{v}.{n}")),
                    syn::Member::Unnamed(i) => Ok(format!("{v}.v{}", i.index)),
                }
            }
            Expr::Index(i) => Ok(format!("{}[{}]", self.expr(&i.expr)?, self.expr(&i.index)?)),
            Expr::Cast(c) => {
                let Some(t) = type_name(&c.ty) else { return self.refuse(c, "this cast") };
                Ok(format!("(({t}){})", self.expr(&c.expr)?))
            }
            Expr::Tuple(t) => {
                let all = self.list(t.elems.iter())?;
                Ok(format!("several({all})"))
            }
            Expr::If(i) => {
                let simple = |b: &Block| matches!(&b.stmts[..], [Stmt::Expr(_, None)]);
                if let (true, Some((_, other))) = (simple(&i.then_branch), &i.else_branch)
                    && let Stmt::Expr(then, None) = &i.then_branch.stmts[0]
                {
                    let inner = match &**other {
                        Expr::Block(b) if simple(&b.block) => match &b.block.stmts[0] {
                            Stmt::Expr(e, None) => Some(e.clone()),
                            _ => None,
                        },
                        e @ Expr::If(_) => Some(e.clone()),
                        _ => None,
                    };
                    if let Some(inner) = inner {
                        let (c, a, b) = (self.expr(&i.cond)?, self.expr(then)?, self.expr(&inner)?);
                        return Ok(format!("({c} ? {a} : {b})"));
                    }
                }
                self.lambda(|s| s.tail_expr(e))
            }
            Expr::Block(_) | Expr::Match(_) => self.lambda(|s| s.tail_expr(e)),
            Expr::Closure(c) => {
                self.scopes.push(HashMap::new());
                let mut names = Vec::new();
                for p in &c.inputs {
                    let p = match p {
                        Pat::Type(t) => &*t.pat,
                        p => p,
                    };
                    names.push(match p {
                        Pat::Ident(i) => format!("auto {}", self.bind(&i.ident.to_string())),
                        Pat::Wild(_) => format!("auto {}", self.temporary()),
                        p => return self.refuse(p, "this pattern"),
                    });
                }
                let within = std::mem::take(&mut self.within);
                let body = self.tail_expr(&c.body);
                self.within = within;
                self.scopes.pop();
                Ok(format!("[&]({}) {{ {} }}", names.join(", "), body?))
            }
            Expr::MethodCall(m) => {
                let name = m.method.to_string();
                if name == "contains" {
                    let mut range = &*m.receiver;
                    while let Expr::Paren(p) = range {
                        range = &p.expr;
                    }
                    if let Expr::Range(r) = range
                        && let (Some(a), Some(b)) = (&r.start, &r.end)
                    {
                        let (a, b, x) = (self.expr(a)?, self.expr(b)?, self.list(m.args.iter())?);
                        return Ok(format!("({x} >= {a} && {x} <= {b})"));
                    }
                }
                if name == "fold"
                    && let Expr::MethodCall(rev) = &*m.receiver
                    && rev.method == "rev"
                    && let Expr::Paren(p) = &*rev.receiver
                    && let Expr::Range(r) = &*p.expr
                    && let (Some(a), Some(b)) = (&r.start, &r.end)
                {
                    let (a, b, args) = (self.expr(a)?, self.expr(b)?, self.list(m.args.iter())?);
                    return Ok(format!("fold_down({a}, {b}, {args})"));
                }
                if matches!(name.as_str(), "iter" | "rev" | "fold" | "map" | "zip" | "sum" | "get" | "unwrap")
                {
                    return self.refuse(m, &format!("the method {name}"));
                }
                let receiver = self.expr(&m.receiver)?;
                let args = self.list(m.args.iter())?;
                let args = if args.is_empty() { receiver } else { format!("{receiver}, {args}") };
                Ok(format!("num::{name}({args})"))
            }
            Expr::Path(p) => self.value(p),
            Expr::Call(c) => self.call(c),
            e => self.refuse(e, "this expression"),
        }
    }
    fn value(&mut self, p: &syn::ExprPath) -> Out {
        let names: Vec<String> = p.path.segments.iter().map(|s| s.ident.to_string()).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        match &all[..] {
            [one] => {
                if let Some(own) = self.local(one) {
                    return Ok(own.clone());
                }
                if let Some(c) = self.consts.get(*one) {
                    return Ok(c.clone());
                }
                if let Some(f) = self.function(one) {
                    return Ok(format!("[](auto... x) {{ return {f}(x...); }}"));
                }
                match consts(one) {
                    Some(v) => Ok(format!("{v:?}")),
                    None => self.refuse(p, &format!("the name {one}")),
                }
            }
            ["V", "NAN"] => Ok("Consts<V>::NAN_()".into()),
            ["V", c] => Ok(format!("Consts<V>::{c}()")),
            ["f64", "INFINITY"] => Ok("Consts<double>::INF()".into()),
            ["f64", "NEG_INFINITY"] => Ok("(-Consts<double>::INF())".into()),
            ["f64", "NAN"] => Ok("Consts<double>::NAN_()".into()),
            ["f64", "MAX"] => Ok("Consts<double>::MAX()".into()),
            ["f64", "EPSILON"] => Ok(format!("{:?}", f64::EPSILON)),
            ["f64", "MIN_POSITIVE"] => Ok(format!("{:?}", f64::MIN_POSITIVE)),
            [.., "consts", c] if consts(c).is_some() => Ok(format!("{:?}", consts(c).unwrap_or(0.0))),
            ["libm" | "f64", f] => Ok(format!("[](double x) {{ return num::{f}(x); }}")),
            [.., last] => match self.function(last) {
                Some(f) => Ok(format!("[](auto... x) {{ return {f}(x...); }}")),
                None => self.refuse(p, &format!("the name {last}")),
            },
            [] => self.refuse(p, "an empty name"),
        }
    }
    fn call(&mut self, c: &syn::ExprCall) -> Out {
        let Expr::Path(p) = &*c.func else { return self.refuse(c, "this call") };
        let names: Vec<String> = p.path.segments.iter().map(|s| s.ident.to_string()).collect();
        let args = self.list(c.args.iter())?;
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        match &all[..] {
            [one] if self.local(one).is_some() => {
                let own = self.local(one).cloned().unwrap_or_default();
                Ok(format!("{own}({args})"))
            }
            ["V", "zero"] => Ok("Consts<V>::ZERO()".into()),
            ["V", "one"] => Ok("Consts<V>::ONE()".into()),
            ["V", "c"] => Ok(format!("Consts<V>::c({args})")),
            ["V", "pick"] => Ok(format!("num::pick<V>({args})")),
            ["V", f] => Ok(format!("num::{f}({args})")),
            ["Cx", "new"] => Ok(format!("Cx<V>{{{args}}}")),
            ["Cx", "c"] => Ok(format!("Consts<Cx<V>>::c({args})")),
            ["Cx", f] => Ok(format!("num::{f}({args})")),
            ["f64", "from"] => Ok(format!("((double)({args}))")),
            ["i64", "from"] => Ok(format!("((i64)({args}))")),
            ["f64" | "libm", f] => Ok(format!("num::{f}({args})")),
            [.., "vmath", _, f] => Ok(format!("num::{f}({args})")),
            [.., last] => match self.function(last) {
                Some(f) => Ok(format!("{f}({args})")),
                None => self.refuse(c, &format!("the function {last}")),
            },
            [] => self.refuse(c, "this call"),
        }
    }
}
