//! Numbers as expressions of sizes, from what they were at several sizes.

use flambeau_fx::symbolic::{Bindings, Expr, Number, floor_div};

/// Values of all symbols.
pub(crate) type Point = Vec<i64>;

/// Where a program is captured: the example's sizes, each symbol alone at others, and all together for the proof.
pub(crate) struct Points {
    pub names: Vec<String>,
    pub all: Vec<Point>,
    /// For each symbol the points at which it alone differs from the first.
    pub alone: Vec<Vec<usize>>,
}
impl Points {
    /// For symbols with their example's values and bounds.
    pub fn new(symbols: &[(String, i64, i64, i64)]) -> Points {
        let base: Point = symbols.iter().map(|s| s.1).collect();
        let mut all = vec![base.clone()];
        let mut alone = Vec::new();
        // other values, near ones first: steps of divisions show there
        let values = |(_, at, min, max): &(String, i64, i64, i64), count: usize| -> Vec<i64> {
            // what is no size may be any number, and decide what a program does
            if *min < 1 {
                let mut all: Vec<i64> = Vec::new();
                let near = [1, -1, 2, 4, 64].map(|d| at.saturating_add(d));
                for v in near.into_iter().chain([0, 1, -1]).filter(|v| v != at && v >= min && v <= max) {
                    if !all.contains(&v) {
                        all.push(v);
                    }
                }
                return all;
            }
            let wishes = [1, 2, 3, 4, 7, -1, -2, -3, -4, 5, 6, 9, 11, -5, -6, -7];
            let near = wishes.iter().map(|d| at + d).filter(|v| v >= min && v <= max && *v > 1);
            near.take(count).collect()
        };
        for (j, s) in symbols.iter().enumerate() {
            let mut mine = Vec::new();
            for v in values(s, 5) {
                let mut p = base.clone();
                p[j] = v;
                mine.push(all.len());
                all.push(p);
            }
            alone.push(mine);
        }
        if symbols.len() > 1 {
            for turn in 0..3usize {
                let mut p = base.clone();
                for (j, s) in symbols.iter().enumerate() {
                    let l = values(s, 7);
                    if !l.is_empty() {
                        p[j] = l[(turn + 2 * j + 1) % l.len()];
                    }
                }
                all.push(p);
            }
        }
        Points { names: symbols.iter().map(|s| s.0.clone()).collect(), all, alone }
    }
    fn bindings(&self, p: &Point) -> Bindings {
        self.names.iter().cloned().zip(p.iter().copied()).collect()
    }
    /// The expression of a number that had these values.
    pub fn solve(&self, y: &[i64]) -> Option<Expr> {
        let first = *y.first()?;
        if y.iter().all(|v| *v == first) {
            return Some(Expr::Int(first));
        }
        let mut parts: Vec<(Expr, i64)> = Vec::new();
        let mut depends = Vec::new();
        for (j, points) in self.alone.iter().enumerate() {
            if points.iter().all(|i| y[*i] == first) {
                continue;
            }
            depends.push(j);
            let mut pairs = vec![(self.all[0][j], first)];
            pairs.extend(points.iter().map(|i| (self.all[*i][j], y[*i])));
            let (e, factor) = of_one(&Expr::symbol(&self.names[j]), &pairs)?;
            parts.push((e, factor));
        }
        let holds = |e: &Expr| {
            self.all
                .iter()
                .zip(y)
                .all(|(p, want)| e.evaluate(&self.bindings(p)).and_then(Number::int) == Some(*want))
        };
        let whole = |(e, factor): &(Expr, i64)| product(*factor, vec![e.clone()]);
        if let [one] = &parts[..] {
            return Some(whole(one)).filter(holds);
        }
        // a sum of what each symbol adds
        let base = self.bindings(&self.all[0]);
        let mut terms: Vec<Expr> = parts.iter().map(whole).collect();
        terms.push(Expr::Int(-first * (parts.len() as i64 - 1)));
        let e = sum(terms);
        if holds(&e) {
            return Some(e);
        }
        // a product of what each symbol gives
        let at = |e: &Expr| e.evaluate(&base).and_then(Number::int);
        let mut rest = first;
        for (e, _) in &parts {
            let v = at(e)?;
            if v == 0 || rest % v != 0 {
                return self.mixed(y, &depends).filter(holds);
            }
            rest /= v;
        }
        let e = product(rest, parts.iter().map(|(e, _)| e.clone()).collect());
        Some(e).filter(&holds).or_else(|| self.mixed(y, &depends).filter(holds))
    }
    /// `c + k * product of symbols`, over those that it depends on.
    fn mixed(&self, y: &[i64], depends: &[usize]) -> Option<Expr> {
        let of = |p: &Point| depends.iter().try_fold(1i64, |a, j| a.checked_mul(p[*j]));
        let (x0, x1) = (of(&self.all[0])?, self.all.iter().position(|p| of(p) != of(&self.all[0]))?);
        let dx = of(&self.all[x1])? - x0;
        let dy = y[x1] - y[0];
        if dx == 0 || dy % dx != 0 {
            return None;
        }
        let k = dy / dx;
        let p = product(k, depends.iter().map(|j| Expr::symbol(&self.names[*j])).collect());
        Some(sum(vec![p, Expr::Int(y[0] - k * x0)]))
    }
}

/// A number that follows from one symbol, by pairs of both: an expression, and what it is multiplied by.
fn of_one(s: &Expr, pairs: &[(i64, i64)]) -> Option<(Expr, i64)> {
    let line = |x: &dyn Fn(i64) -> Option<i64>| -> Option<(i64, i64)> {
        let (x0, y0) = (x(pairs[0].0)?, pairs[0].1);
        let (x1, y1) =
            pairs.iter().map(|(v, y)| Some((x(*v)?, *y))).find(|p| p.is_some_and(|p| p.0 != x0))??;
        if (y1 - y0) % (x1 - x0) != 0 {
            return None;
        }
        let a = (y1 - y0) / (x1 - x0);
        let b = y0 - a * x0;
        pairs.iter().all(|(v, y)| x(*v).map(|x| a * x + b) == Some(*y)).then_some((a, b))
    };
    let linear = |e: Expr, a: i64, b: i64| {
        let g = gcd(a, b).max(1) * if a < 0 && b <= 0 { -1 } else { 1 };
        (sum(vec![product(a / g, vec![e]), Expr::Int(b / g)]), g)
    };
    if let Some((a, b)) = line(&Some) {
        return Some(linear(s.clone(), a, b));
    }
    let ys: Vec<i64> = pairs.iter().map(|p| p.1).collect();
    let (low, high) = (*ys.iter().min()?, *ys.iter().max()?);
    // the larger or smaller of the symbol and a number, and something added
    let (most, least) = (pairs.iter().max_by_key(|p| p.0)?, pairs.iter().min_by_key(|p| p.0)?);
    let (up, down) = (most.1 - most.0, least.1 - least.0);
    if pairs.iter().all(|(v, y)| *y == (*v).max(low - up) + up) {
        return Some((sum(vec![Expr::Max(vec![Expr::Int(low - up), s.clone()]), Expr::Int(up)]), 1));
    }
    if pairs.iter().all(|(v, y)| *y == (*v).min(high - down) + down) {
        return Some((sum(vec![Expr::Min(vec![Expr::Int(high - down), s.clone()]), Expr::Int(down)]), 1));
    }
    // divisions that drop the rest
    let mut best: Option<(i64, (Expr, i64))> = None;
    for d in 2..=64i64 {
        if pairs.iter().all(|(v, y)| v.rem_euclid(d) == *y) {
            return Some((Expr::Mod(Box::new((s.clone(), Expr::Int(d)))), 1));
        }
        for shift in -d..=d {
            let Some((a, b)) = line(&|v| floor_div(v + shift, d)) else { continue };
            if a == 0 {
                continue;
            }
            let cost = shift.abs() * 4 + b.abs() + a.abs() + d;
            if best.as_ref().is_none_or(|(c, _)| cost < *c) {
                let inner = sum(vec![s.clone(), Expr::Int(shift)]);
                let e = Expr::FloorDiv(Box::new((inner, Expr::Int(d))));
                best = Some((cost, linear(e, a, b)));
            }
        }
        if best.is_none()
            && let Some((a, b)) = line(&|v| Some(v.rem_euclid(d))).filter(|(a, _)| *a != 0)
        {
            best = Some((0, linear(Expr::Mod(Box::new((s.clone(), Expr::Int(d)))), a, b)));
        }
        if best.is_some() {
            break;
        }
    }
    if let Some((_, found)) = best {
        return Some(found);
    }
    // a square
    let square = Expr::Pow(Box::new((s.clone(), Expr::Int(2))));
    line(&|v| v.checked_mul(v)).map(|(a, b)| linear(square, a, b))
}
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
/// A sum in the order in which sympy prints it: terms by name, the number last.
pub(crate) fn sum(terms: Vec<Expr>) -> Expr {
    let (mut number, mut rest) = (0i64, Vec::new());
    for t in terms {
        let parts = match &t {
            Expr::Add(l) => l.clone(),
            _ => vec![t],
        };
        for t in parts {
            match t {
                Expr::Int(i) => number = number.saturating_add(i),
                t => rest.push(t),
            }
        }
    }
    rest.sort_by_key(|t| t.symbols().join(" "));
    if number != 0 || rest.is_empty() {
        rest.push(Expr::Int(number));
    }
    if rest.len() == 1 { rest.remove(0) } else { Expr::Add(rest) }
}
/// A product in the order in which sympy prints it: the number first, then factors by name.
pub(crate) fn product(number: i64, factors: Vec<Expr>) -> Expr {
    let (mut number, mut rest) = (number, Vec::new());
    for f in factors {
        let parts = match &f {
            Expr::Mul(l) => l.clone(),
            _ => vec![f],
        };
        for f in parts {
            match f {
                Expr::Int(i) => number = number.saturating_mul(i),
                f => rest.push(f),
            }
        }
    }
    if number == 0 || rest.is_empty() {
        return Expr::Int(number);
    }
    rest.sort_by_key(|f| (matches!(f, Expr::Add(_)), f.symbols().join(" ")));
    // sympy multiplies a number into a sum
    if let ([Expr::Add(l)], true) = (&rest[..], number != 1) {
        return sum(l.iter().map(|t| product(number, vec![t.clone()])).collect());
    }
    if number != 1 {
        rest.insert(0, Expr::Int(number));
    }
    if rest.len() == 1 { rest.remove(0) } else { Expr::Mul(rest) }
}
