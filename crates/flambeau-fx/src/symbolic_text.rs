//! Expressions read from the text that they print.

use crate::symbolic::{Conversion, Expr, Relation};
use flambeau_core::{Error, Result};

/// An expression in a text is at most this deep.
const DEEPEST: usize = 100;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}
impl Expr {
    /// Reads what [`Display`](std::fmt::Display) prints: `2*s77 + 1`, `((s27 - 1)//2)`, `Max(3, s77)`, `Eq(u0, 1)`.
    ///
    /// # Errors
    /// Text of another form.
    ///
    /// ```
    /// use torch::fx::symbolic::Expr;
    ///
    /// let e = Expr::read("(((s27 - 1)//2)) + 1").unwrap();
    /// assert_eq!(e.to_string(), "(((s27 - 1)//2)) + 1");
    /// assert!(Expr::read("s27 +").is_err());
    /// ```
    pub fn read(text: &str) -> Result<Expr> {
        let mut r = Reader { text, at: 0 };
        let e = r.or(0)?;
        if r.rest().is_empty() { Ok(e) } else { r.wrong() }
    }
}
impl<'a> Reader<'a> {
    fn wrong<T>(&self) -> Result<T> {
        let shown: String = self.text.chars().take(80).collect();
        Err(Error::value(format!("'{shown}' is no expression that is known (at {})", self.at)))
    }
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or("");
        self.at += rest.len() - rest.trim_start().len();
        rest.trim_start()
    }
    fn eat(&mut self, s: &str) -> bool {
        let is = self.rest().starts_with(s);
        self.at += if is { s.len() } else { 0 };
        is
    }
    fn list(
        &mut self,
        sign: &str,
        depth: usize,
        next: fn(&mut Self, usize) -> Result<Expr>,
    ) -> Result<Vec<Expr>> {
        let mut all = vec![next(self, depth)?];
        while self.eat(sign) {
            all.push(next(self, depth)?);
        }
        Ok(all)
    }
    fn or(&mut self, depth: usize) -> Result<Expr> {
        if depth > DEEPEST {
            return Err(Error::value("an expression that is nested too deeply"));
        }
        let mut l = self.list("|", depth, Self::and)?;
        Ok(if l.len() == 1 { l.remove(0) } else { Expr::Or(l) })
    }
    fn and(&mut self, depth: usize) -> Result<Expr> {
        let mut l = self.list("&", depth, Self::relation)?;
        Ok(if l.len() == 1 { l.remove(0) } else { Expr::And(l) })
    }
    fn relation(&mut self, depth: usize) -> Result<Expr> {
        let a = self.sum(depth)?;
        let signs = [("<=", Relation::Le), (">=", Relation::Ge), ("<", Relation::Lt), (">", Relation::Gt)];
        for (sign, r) in signs {
            if self.eat(sign) {
                return Ok(Expr::Relation(r, Box::new((a, self.sum(depth)?))));
            }
        }
        Ok(a)
    }
    fn sum(&mut self, depth: usize) -> Result<Expr> {
        let mut all = vec![self.product(depth)?];
        loop {
            if self.eat("+") {
                all.push(self.product(depth)?);
            } else if self.eat("-") {
                let e = self.product(depth)?;
                all.push(negative(e));
            } else {
                return Ok(if all.len() == 1 { all.remove(0) } else { Expr::Add(all) });
            }
        }
    }
    fn product(&mut self, depth: usize) -> Result<Expr> {
        if self.rest().starts_with('-') {
            self.at += 1;
            if depth > DEEPEST {
                return self.wrong();
            }
            let e = self.product(depth + 1)?;
            return Ok(negative(e));
        }
        let mut all = vec![self.power(depth)?];
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += 2;
                let left = if all.len() == 1 { all.remove(0) } else { Expr::Mul(std::mem::take(&mut all)) };
                let right = self.power(depth)?;
                all = vec![Expr::FloorDiv(Box::new((left, right)))];
            } else if rest.starts_with('*') && !rest.starts_with("**") {
                self.at += 1;
                all.push(self.power(depth)?);
            } else {
                return Ok(if all.len() == 1 { all.remove(0) } else { Expr::Mul(all) });
            }
        }
    }
    fn power(&mut self, depth: usize) -> Result<Expr> {
        let a = self.atom(depth)?;
        if self.eat("**") {
            let b = self.atom(depth)?;
            return Ok(Expr::Pow(Box::new((a, b))));
        }
        Ok(a)
    }
    fn atom(&mut self, depth: usize) -> Result<Expr> {
        if depth > DEEPEST {
            return Err(Error::value("an expression that is nested too deeply"));
        }
        if self.eat("~") {
            return Ok(Expr::Not(Box::new(self.atom(depth + 1)?)));
        }
        if self.eat("(") {
            let e = self.or(depth + 1)?;
            return if self.eat(")") { Ok(e) } else { self.wrong() };
        }
        let rest = self.rest();
        let n = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        let word = &rest[..n];
        self.at += n;
        match word {
            "" => return self.wrong(),
            "True" | "true" => return Ok(Expr::Bool(true)),
            "False" | "false" => return Ok(Expr::Bool(false)),
            _ => {}
        }
        if let Ok(i) = word.parse::<i64>() {
            return Ok(Expr::Int(i));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map(Expr::Float).or_else(|_| self.wrong());
        }
        if !self.eat("(") {
            // numbers that only their names say are floating
            return if word.contains('.') || word.starts_with("zuf") {
                self.wrong()
            } else {
                Ok(Expr::symbol(word))
            };
        }
        let mut l = self.list(",", depth + 1, Self::or)?;
        if !self.eat(")") {
            return self.wrong();
        }
        match word {
            "Max" => return Ok(Expr::Max(l)),
            "Min" => return Ok(Expr::Min(l)),
            _ => {}
        }
        if let Some(c) = Conversion::named(word)
            && l.len() == 1
        {
            return Ok(Expr::Convert(c, Box::new(l.remove(0))));
        }
        let Ok([a, b]) = <[Expr; 2]>::try_from(l) else { return self.wrong() };
        let p = Box::new((a, b));
        Ok(match word {
            "Mod" | "PythonMod" => Expr::Mod(p),
            "IntTrueDiv" | "FloatTrueDiv" => Expr::TrueDiv(p),
            "FloorDiv" => Expr::FloorDiv(p),
            "Eq" => Expr::Relation(Relation::Eq, p),
            "Ne" => Expr::Relation(Relation::Ne, p),
            _ => return self.wrong(),
        })
    }
}
fn negative(mut e: Expr) -> Expr {
    match &mut e {
        Expr::Int(i) => *i = i.wrapping_neg(),
        Expr::Float(x) => *x = -*x,
        Expr::Mul(l) => match l.first_mut() {
            Some(Expr::Int(i)) => *i = i.wrapping_neg(),
            _ => l.insert(0, Expr::Int(-1)),
        },
        _ => return Expr::Mul(vec![Expr::Int(-1), e]),
    }
    e
}
