//! Arithmetic, comparisons, choices, reductions.

use super::builder::Builder;
use super::value::{Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Result};

/// Sizes of arithmetic on two.
pub(crate) fn broadcast(a: &[Option<i64>], b: &[Option<i64>]) -> Vec<Option<i64>> {
    let n = a.len().max(b.len());
    let at = |s: &[Option<i64>], i: usize| -> Option<i64> {
        if i + s.len() < n { Some(1) } else { s[i + s.len() - n] }
    };
    (0..n)
        .map(|i| match (at(a, i), at(b, i)) {
            (Some(1), x) | (x, Some(1)) => x,
            (Some(x), _) => Some(x),
            (None, y) => y,
        })
        .collect()
}
macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident = $op:literal,)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// An element type that ONNX has not.
        pub fn $name(&mut self, a: &Var, b: &Var) -> Result<Var> {
            self.pair($op, a, b)
        }
    )*};
}
macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident = $op:literal,)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// An element type that ONNX has not.
        pub fn $name(&mut self, a: &Var, b: &Var) -> Result<Var> {
            self.compare($op, a, b)
        }
    )*};
}
impl Builder {
    /// A node of one operand, with its sizes and element type.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn unary(&mut self, op: &str, v: &Var) -> Result<Var> {
        self.node(op, &[v], Vec::new(), v.dtype, v.shape.clone())
    }
    /// The same with constants.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn unary_with(&mut self, op: &str, v: &Var, attributes: Vec<Attribute>) -> Result<Var> {
        self.node(op, &[v], attributes, v.dtype, v.shape.clone())
    }
    /// A node of two operands of one element type, with broadcasting.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn pair(&mut self, op: &str, a: &Var, b: &Var) -> Result<Var> {
        let (a, b) = self.aligned(a, b)?;
        let mut out = self.node(op, &[&a, &b], Vec::new(), a.dtype, broadcast(&a.shape, &b.shape))?;
        out.number = a.number && b.number;
        Ok(out)
    }
    /// The second operand in the first's element type; real operands with room for complex ones' last dimension.
    fn aligned(&mut self, a: &Var, b: &Var) -> Result<(Var, Var)> {
        let b = if a.dtype == b.dtype { b.clone() } else { self.cast(b, a.dtype)? };
        Ok((a.clone(), b))
    }
    /// A comparison.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn compare(&mut self, op: &str, a: &Var, b: &Var) -> Result<Var> {
        // bools have no order in ONNX
        let (a, b) = if a.dtype == DType::Bool && op != "Equal" {
            (self.cast(a, DType::I32)?, self.cast(b, DType::I32)?)
        } else {
            (a.clone(), b.clone())
        };
        let (a, b) = self.aligned(&a, &b)?;
        self.node(op, &[&a, &b], Vec::new(), DType::Bool, broadcast(&a.shape, &b.shape))
    }
    pairs! {
        /// A sum.
        add = "Add",
        /// A difference.
        sub = "Sub",
        /// A product.
        mul = "Mul",
        /// A quotient; of integers, cut off towards zero.
        div = "Div",
        /// A power.
        pow = "Pow",
        /// The larger.
        max = "Max",
        /// The smaller.
        min = "Min",
        /// Both.
        and = "And",
        /// One or both.
        or = "Or",
        /// One alone.
        xor = "Xor",
    }
    comparisons! {
        /// Equal.
        eq = "Equal",
        /// Larger.
        gt = "Greater",
        /// Smaller.
        lt = "Less",
        /// Larger or equal.
        ge = "GreaterOrEqual",
        /// Smaller or equal.
        le = "LessOrEqual",
    }
    /// The opposite of a bool.
    ///
    /// # Errors
    /// No memory.
    pub fn not(&mut self, v: &Var) -> Result<Var> {
        self.unary("Not", v)
    }
    /// The negative.
    ///
    /// # Errors
    /// No memory.
    pub fn neg(&mut self, v: &Var) -> Result<Var> {
        self.unary("Neg", v)
    }
    /// A sum with a number.
    ///
    /// # Errors
    /// No memory.
    pub fn add_number(&mut self, v: &Var, x: f64) -> Result<Var> {
        let x = self.scalar(x, v.dtype)?;
        self.add(v, &x)
    }
    /// A product with a number.
    ///
    /// # Errors
    /// No memory.
    pub fn mul_number(&mut self, v: &Var, x: f64) -> Result<Var> {
        let x = self.scalar(x, v.dtype)?;
        self.mul(v, &x)
    }
    /// A quotient by a number.
    ///
    /// # Errors
    /// No memory.
    pub fn div_number(&mut self, v: &Var, x: f64) -> Result<Var> {
        let x = self.scalar(x, v.dtype)?;
        self.div(v, &x)
    }
    /// A power by a number.
    ///
    /// # Errors
    /// No memory.
    pub fn pow_number(&mut self, v: &Var, x: f64) -> Result<Var> {
        let x = self.scalar(x, v.dtype)?;
        self.pow(v, &x)
    }
    /// The one where a bool holds, the other elsewhere.
    ///
    /// # Errors
    /// No memory.
    pub fn choose(&mut self, cond: &Var, yes: &Var, no: &Var) -> Result<Var> {
        let (yes, no) = self.aligned(yes, no)?;
        let cond = self.cast(cond, DType::Bool)?;
        let shape = broadcast(&cond.shape, &broadcast(&yes.shape, &no.shape));
        self.node("Where", &[&cond, &yes, &no], Vec::new(), yes.dtype, shape)
    }
    /// Sizes of a reduction.
    pub(crate) fn reduced(v: &Var, dims: &[i64], keep: bool) -> Vec<Option<i64>> {
        let all = v.shape.iter().enumerate().filter_map(|(i, n)| {
            let gone = dims.contains(&(i as i64));
            if !gone {
                Some(*n)
            } else if keep {
                Some(Some(1))
            } else {
                None
            }
        });
        all.collect()
    }
    /// A reduction over dimensions: `ReduceSum` and its like.
    ///
    /// # Errors
    /// No memory.
    pub fn reduce(&mut self, op: &str, v: &Var, dims: &[i64], keep: bool) -> Result<Var> {
        if v.rank() == 0 || dims.is_empty() {
            // nothing to reduce over: what the operator does to one element
            return match op {
                "ReduceL1" | "ReduceL2" => self.unary("Abs", v),
                "ReduceSumSquare" => self.mul(v, v),
                _ => Ok(v.clone()),
            };
        }
        let shape = Builder::reduced(v, dims, keep);
        let axes = self.ints(dims)?;
        let attr = vec![Attribute::int("keepdims", i64::from(keep))];
        self.node(op, &[v, &axes], attr, v.dtype, shape)
    }
    /// The number of elements in dimensions.
    ///
    /// # Errors
    /// No memory.
    pub fn count(&mut self, v: &Var, dims: &[i64]) -> Result<Dim> {
        let all: Vec<Dim> = dims.iter().map(|d| self.size(v, *d)).collect::<Result<_>>()?;
        self.dim_product(&all)
    }
    /// `softmax` or `log_softmax` over a dimension.
    ///
    /// # Errors
    /// No memory.
    pub fn softmax(&mut self, op: &str, v: &Var, dim: i64) -> Result<Var> {
        if v.rank() == 0 {
            let one = self.unsqueeze(v, &[0])?;
            let out = self.softmax(op, &one, 0)?;
            return self.squeeze(&out, &[0]);
        }
        self.unary_with(op, v, vec![Attribute::int("axis", dim)])
    }
    /// A product of matrices, with batches.
    ///
    /// # Errors
    /// No memory.
    pub fn matmul(&mut self, a: &Var, b: &Var) -> Result<Var> {
        if a.dtype.is_complex() || b.dtype.is_complex() {
            return self.complex_matmul(a, b);
        }
        let (ra, rb) = (a.rank(), b.rank());
        let mut shape = if ra <= 1 && rb <= 1 {
            Vec::new()
        } else {
            broadcast(&a.shape[..ra.saturating_sub(2)], &b.shape[..rb.saturating_sub(2)])
        };
        if ra > 1 {
            shape.push(a.shape[ra - 2]);
        }
        if rb > 1 {
            shape.push(b.shape[rb - 1]);
        }
        self.node("MatMul", &[a, b], Vec::new(), a.dtype, shape)
    }
}
