//! Sizes, and what only moves elements: reshapes, transpositions, slices, joins.

use super::builder::Builder;
use super::value::{Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

impl Builder {
    /// The sizes as a vector.
    ///
    /// # Errors
    /// No memory.
    pub fn shape_of(&mut self, v: &Var) -> Result<Var> {
        if let Some(s) = v.sizes() {
            return self.ints(&s);
        }
        let rank = v.rank() as i64;
        // the last dimension of a complex tensor is its own
        let attr = if v.dtype.is_complex() { vec![Attribute::int("end", -1)] } else { Vec::new() };
        self.node("Shape", &[v], attr, DType::I64, vec![Some(rank)])
    }
    /// A size.
    ///
    /// # Errors
    /// A dimension that is not there.
    pub fn size(&mut self, v: &Var, dim: i64) -> Result<Dim> {
        match v.shape.get(usize::try_from(dim).unwrap_or(usize::MAX)) {
            None => Err(Error::index(format!("dimension {dim} of {}", v.rank()))),
            Some(Some(n)) => Ok(Dim::Int(*n)),
            Some(None) => {
                let attr = vec![Attribute::int("start", dim), Attribute::int("end", dim + 1)];
                let one = self.node("Shape", &[v], attr, DType::I64, vec![Some(1)])?;
                let mut s = self.squeeze(&one, &[0])?;
                s.number = true;
                Ok(Dim::Var(s))
            }
        }
    }
    /// All sizes.
    ///
    /// # Errors
    /// No memory.
    pub fn sizes(&mut self, v: &Var) -> Result<Vec<Dim>> {
        (0..v.rank() as i64).map(|d| self.size(v, d)).collect()
    }
    /// How many elements there are.
    ///
    /// # Errors
    /// No memory.
    pub fn numel(&mut self, v: &Var) -> Result<Dim> {
        match v.numel() {
            Some(n) => Ok(Dim::Int(n)),
            None if v.dtype.is_complex() => {
                let all = self.sizes(v)?;
                self.dim_product(&all)
            }
            None => {
                let mut n = self.node("Size", &[v], Vec::new(), DType::I64, Vec::new())?;
                n.number = true;
                Ok(Dim::Var(n))
            }
        }
    }
    /// Sizes as a vector.
    ///
    /// # Errors
    /// No memory.
    pub fn dims_vector(&mut self, l: &[Dim]) -> Result<Var> {
        if let Some(all) = l.iter().map(Dim::known).collect::<Option<Vec<i64>>>() {
            return self.ints(&all);
        }
        let mut parts: Vec<Var> = Vec::new();
        let mut known: Vec<i64> = Vec::new();
        for d in l {
            match d {
                Dim::Int(n) => known.push(*n),
                Dim::Var(v) => {
                    if !known.is_empty() {
                        parts.push(self.ints(&known)?);
                        known.clear();
                    }
                    let v = self.cast(v, DType::I64)?;
                    parts.push(if v.rank() == 0 { self.unsqueeze(&v, &[0])? } else { v });
                }
            }
        }
        if !known.is_empty() {
            parts.push(self.ints(&known)?);
        }
        if let [one] = &parts[..] {
            return Ok(one.clone());
        }
        let refs: Vec<&Var> = parts.iter().collect();
        self.node("Concat", &refs, vec![Attribute::int("axis", 0)], DType::I64, vec![Some(l.len() as i64)])
    }
    fn dim_op(&mut self, op: &str, a: &Dim, b: &Dim, known: fn(i64, i64) -> Option<i64>) -> Result<Dim> {
        if let (Dim::Int(x), Dim::Int(y)) = (a, b)
            && let Some(n) = known(*x, *y)
        {
            return Ok(Dim::Int(n));
        }
        let (a, b) = (self.dim_scalar(a)?, self.dim_scalar(b)?);
        let mut v = self.node(op, &[&a, &b], Vec::new(), DType::I64, Vec::new())?;
        v.number = true;
        Ok(Dim::Var(v))
    }
    pub(crate) fn dim_add(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        if let Dim::Int(0) = b {
            return Ok(a.clone());
        }
        self.dim_op("Add", a, b, i64::checked_add)
    }
    pub(crate) fn dim_sub(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        if let Dim::Int(0) = b {
            return Ok(a.clone());
        }
        self.dim_op("Sub", a, b, i64::checked_sub)
    }
    pub(crate) fn dim_mul(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        match (a, b) {
            (Dim::Int(1), d) | (d, Dim::Int(1)) => Ok(d.clone()),
            _ => self.dim_op("Mul", a, b, i64::checked_mul),
        }
    }
    /// Division of sizes that are not negative.
    pub(crate) fn dim_div(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        match b {
            Dim::Int(1) => Ok(a.clone()),
            _ => self.dim_op("Div", a, b, |x, y| (x >= 0 && y > 0).then(|| x / y)),
        }
    }
    pub(crate) fn dim_min(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        self.dim_op("Min", a, b, |x, y| Some(x.min(y)))
    }
    pub(crate) fn dim_max(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        self.dim_op("Max", a, b, |x, y| Some(x.max(y)))
    }
    pub(crate) fn dim_product(&mut self, l: &[Dim]) -> Result<Dim> {
        let mut n = Dim::Int(1);
        for d in l {
            n = self.dim_mul(&n, d)?;
        }
        Ok(n)
    }
    /// The same elements in other sizes, one of which may be -1.
    ///
    /// # Errors
    /// No memory.
    pub fn reshape(&mut self, v: &Var, to: &[Dim]) -> Result<Var> {
        let mut shape: Vec<Option<i64>> = to.iter().map(|d| d.known().filter(|n| *n >= 0)).collect();
        let open: Vec<usize> = (0..to.len()).filter(|i| matches!(to[*i], Dim::Int(-1))).collect();
        // at most one size is open; what is known of the others says it
        let mut to = to.to_vec();
        if let ([i], Some(n)) = (&open[..], v.numel()) {
            let rest: Option<Vec<i64>> =
                to.iter().enumerate().filter(|(j, _)| j != i).map(|(_, d)| d.known()).collect();
            if let Some(p) = rest.map(|l| l.iter().product::<i64>())
                && p != 0
                && n % p == 0
            {
                to[*i] = Dim::Int(n / p);
                shape[*i] = Some(n / p);
            }
        }
        if v.sizes().is_some() && v.shape == shape && !v.dtype.is_complex() {
            return Ok(v.clone());
        }
        if v.dtype.is_complex() {
            to.push(Dim::Int(2));
        }
        let has_open = to.iter().any(|d| matches!(d, Dim::Int(-1)));
        let has_zero = to.iter().any(|d| matches!(d, Dim::Int(0)));
        if has_open && has_zero {
            // nothing to count the open size by: torch refuses that too, unless another is the only choice
            to.iter_mut().filter(|d| matches!(d, Dim::Int(-1))).for_each(|d| *d = Dim::Int(1));
        }
        let to = self.dims_vector(&to)?;
        if let (Some(c), Some(s)) = (&v.constant, shape.iter().copied().collect::<Option<Vec<i64>>>())
            && v.numel().is_some_and(|n| n <= 64)
        {
            let t = flambeau_core::ops::reshape(c, &s)?;
            let mut out = self.constant(&t)?;
            out.number = v.number && s.is_empty();
            return Ok(out);
        }
        self.node("Reshape", &[v, &to], vec![Attribute::int("allowzero", 1)], v.dtype, shape)
    }
    /// The same elements in sizes that are numbers, one of which may be -1.
    ///
    /// # Errors
    /// No memory.
    pub fn reshape_to(&mut self, v: &Var, to: &[i64]) -> Result<Var> {
        let to: Vec<Dim> = to.iter().map(|n| Dim::Int(*n)).collect();
        self.reshape(v, &to)
    }
    /// New dimensions of size 1, counted in the result.
    ///
    /// # Errors
    /// No memory.
    pub fn unsqueeze(&mut self, v: &Var, dims: &[i64]) -> Result<Var> {
        if dims.is_empty() {
            return Ok(v.clone());
        }
        let mut dims = dims.to_vec();
        dims.sort_unstable();
        let mut shape = v.shape.clone();
        for d in &dims {
            shape.insert((*d as usize).min(shape.len()), Some(1));
        }
        if v.constant.is_some() && v.numel().is_some_and(|n| n <= 64) {
            let to: Vec<i64> = shape.iter().map(|n| n.unwrap_or(1)).collect();
            return self.reshape_to(v, &to);
        }
        let axes = self.ints(&dims)?;
        self.node("Unsqueeze", &[v, &axes], Vec::new(), v.dtype, shape)
    }
    /// Takes dimensions of size 1 out.
    ///
    /// # Errors
    /// No memory.
    pub fn squeeze(&mut self, v: &Var, dims: &[i64]) -> Result<Var> {
        if dims.is_empty() {
            return Ok(v.clone());
        }
        let keep = |(i, n): (usize, &Option<i64>)| (!dims.contains(&(i as i64))).then_some(*n);
        let shape: Vec<Option<i64>> = v.shape.iter().enumerate().filter_map(keep).collect();
        if v.constant.is_some()
            && let Some(to) = shape.iter().copied().collect::<Option<Vec<i64>>>()
        {
            return self.reshape_to(v, &to);
        }
        let axes = self.ints(dims)?;
        self.node("Squeeze", &[v, &axes], Vec::new(), v.dtype, shape)
    }
    /// Dimensions in another order.
    ///
    /// # Errors
    /// An order that is none.
    pub fn transpose(&mut self, v: &Var, order: &[i64]) -> Result<Var> {
        if order.iter().enumerate().all(|(i, d)| i as i64 == *d) {
            return Ok(v.clone());
        }
        let mut shape = Vec::with_capacity(order.len());
        for d in order {
            let n = usize::try_from(*d).ok().and_then(|d| v.shape.get(d));
            shape.push(*n.ok_or_else(|| Error::index(format!("dimension {d} of {}", v.rank())))?);
        }
        let mut perm = order.to_vec();
        if v.dtype.is_complex() {
            perm.push(order.len() as i64);
        }
        self.node("Transpose", &[v], vec![Attribute::ints("perm", &perm)], v.dtype, shape)
    }
    /// Two dimensions exchanged.
    ///
    /// # Errors
    /// No memory.
    pub fn swap(&mut self, v: &Var, a: i64, b: i64) -> Result<Var> {
        let mut order: Vec<i64> = (0..v.rank() as i64).collect();
        order.swap(a as usize, b as usize);
        self.transpose(v, &order)
    }
    /// Elements repeated so that the sizes become these.
    ///
    /// # Errors
    /// No memory.
    pub fn expand(&mut self, v: &Var, to: &[Dim]) -> Result<Var> {
        let shape: Vec<Option<i64>> = to.iter().map(Dim::known).collect();
        if v.sizes().is_some() && v.shape == shape {
            return Ok(v.clone());
        }
        let (v, mut to) = if v.dtype.is_complex() && v.rank() < to.len() {
            let more: Vec<i64> = (0..(to.len() - v.rank()) as i64).collect();
            (self.unsqueeze(v, &more)?, to.to_vec())
        } else {
            (v.clone(), to.to_vec())
        };
        if v.dtype.is_complex() {
            to.push(Dim::Int(2));
        }
        let to = self.dims_vector(&to)?;
        self.node("Expand", &[&v, &to], Vec::new(), v.dtype, shape)
    }
    /// Part of a dimension. Bounds may be negative, counted from the end, and lie beyond it.
    ///
    /// # Errors
    /// No memory.
    pub fn slice(&mut self, v: &Var, dim: i64, start: &Dim, end: &Dim, step: i64) -> Result<Var> {
        let n = v.shape.get(dim as usize).copied().flatten();
        let mut shape = v.shape.clone();
        let len = match (n, start.known(), end.known()) {
            (Some(n), Some(a), Some(b)) => {
                let at = |i: i64| if i < 0 { (i + n).max(0) } else { i.min(n) };
                Some(if step > 0 { ((at(b) - at(a)).max(0) + step - 1) / step } else { n })
            }
            _ => None,
        };
        if len.is_some() && len == n && step == 1 {
            return Ok(v.clone());
        }
        if let Some(s) = shape.get_mut(dim as usize) {
            *s = if step > 0 { len } else { None };
        }
        let a = self.dims_vector(std::slice::from_ref(start))?;
        let b = self.dims_vector(std::slice::from_ref(end))?;
        let (axes, steps) = (self.ints(&[dim])?, self.ints(&[step])?);
        self.node("Slice", &[v, &a, &b, &axes, &steps], Vec::new(), v.dtype, shape)
    }
    /// Part of a dimension between two numbers.
    ///
    /// # Errors
    /// No memory.
    pub fn narrow(&mut self, v: &Var, dim: i64, start: i64, end: i64) -> Result<Var> {
        self.slice(v, dim, &Dim::Int(start), &Dim::Int(end), 1)
    }
    /// A dimension in reverse.
    ///
    /// # Errors
    /// No memory.
    pub fn flip(&mut self, v: &Var, dim: i64) -> Result<Var> {
        let shape = v.shape.clone();
        let (a, b) = (self.ints(&[-1])?, self.ints(&[i64::MIN])?);
        let (axes, steps) = (self.ints(&[dim])?, self.ints(&[-1])?);
        self.node("Slice", &[v, &a, &b, &axes, &steps], Vec::new(), v.dtype, shape)
    }
    /// Values of one element type joined in a dimension.
    ///
    /// # Errors
    /// Nothing to join.
    pub fn concat(&mut self, l: &[Var], dim: i64) -> Result<Var> {
        let Some(first) = l.first() else { return Err(Error::runtime("nothing to join")) };
        if l.len() == 1 {
            return Ok(first.clone());
        }
        let mut shape = first.shape.clone();
        for (i, s) in shape.iter_mut().enumerate() {
            if i as i64 == dim {
                *s = l.iter().map(|v| v.shape.get(i).copied().flatten()).sum();
            } else {
                *s = l.iter().find_map(|v| v.shape.get(i).copied().flatten());
            }
        }
        let refs: Vec<&Var> = l.iter().collect();
        self.node("Concat", &refs, vec![Attribute::int("axis", dim)], first.dtype, shape)
    }
    /// Elements of a dimension by their numbers.
    ///
    /// # Errors
    /// No memory.
    pub fn gather(&mut self, v: &Var, index: &Var, dim: i64) -> Result<Var> {
        let d = dim as usize;
        let mut shape = v.shape[..d.min(v.rank())].to_vec();
        shape.extend(&index.shape);
        shape.extend(v.shape.iter().skip(d + 1));
        self.node("Gather", &[v, index], vec![Attribute::int("axis", dim)], v.dtype, shape)
    }
    /// A dimension in parts of these sizes.
    ///
    /// # Errors
    /// No memory.
    pub fn split(&mut self, v: &Var, sizes: &[Dim], dim: i64) -> Result<Vec<Var>> {
        if sizes.len() == 1 {
            return Ok(vec![v.clone()]);
        }
        if sizes.is_empty() {
            return Ok(Vec::new());
        }
        let parts = self.dims_vector(sizes)?;
        let out: Vec<_> = sizes
            .iter()
            .map(|n| {
                let mut s = v.shape.clone();
                s[dim as usize] = n.known();
                (v.dtype, s)
            })
            .collect();
        self.nodes("Split", &[v, &parts], vec![Attribute::int("axis", dim)], &out)
    }
    /// Integers from `start` to below `end`.
    ///
    /// # Errors
    /// No memory.
    pub fn range(&mut self, start: &Dim, end: &Dim) -> Result<Var> {
        if let (Dim::Int(a), Dim::Int(b)) = (start, end)
            && b - a <= 64
        {
            return self.ints(&(*a..*b).collect::<Vec<_>>());
        }
        let len = self.dim_sub(end, start)?.known();
        let (a, b, one) = (self.dim_scalar(start)?, self.dim_scalar(end)?, self.int(1)?);
        self.node("Range", &[&a, &b, &one], Vec::new(), DType::I64, vec![len])
    }
    /// A tensor of one number.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn full(&mut self, to: &[Dim], value: &Var) -> Result<Var> {
        self.expand(value, to)
    }
    /// Pads at the ends: pairs by dimension from the first.
    ///
    /// # Errors
    /// No memory.
    pub fn pad(&mut self, v: &Var, pairs: &[(Dim, Dim)], mode: &str, fill: &Var) -> Result<Var> {
        let mut shape = v.shape.clone();
        for (s, (a, b)) in shape.iter_mut().zip(pairs) {
            *s = match (*s, a.known(), b.known()) {
                (Some(n), Some(a), Some(b)) => Some(n + a + b),
                _ => None,
            };
        }
        let all: Vec<Dim> =
            pairs.iter().map(|p| p.0.clone()).chain(pairs.iter().map(|p| p.1.clone())).collect();
        let pads = self.dims_vector(&all)?;
        let attr = vec![Attribute::text("mode", mode)];
        self.node("Pad", &[v, &pads, fill], attr, v.dtype, shape)
    }
}
