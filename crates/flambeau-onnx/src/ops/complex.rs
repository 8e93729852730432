//! Complex numbers, as real tensors with a last dimension of two.

use super::Table;
use super::functions::angle;
use crate::build::{Arg, Builder, Var, result_type};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.view_as_real", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.parts(&x).into())
    }),
    ("aten.view_as_complex", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.join_parts(&x)?.into())
    }),
    ("aten.real", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(if x.dtype().is_complex() { b.real_part(&x)? } else { x }.into())
    }),
    ("aten.imag", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.part(&x, 1)?.into())
    }),
    ("aten.complex", |b, c| {
        let (re, im) = (c.tensor(0, "real")?, c.tensor(1, "imag")?);
        Ok(b.joined(&re, &im)?.into())
    }),
    ("aten.polar", |b, c| {
        let (r, t) = (c.tensor(0, "abs")?, c.tensor(1, "angle")?);
        let (cos, sin) = (b.unary("Cos", &t)?, b.unary("Sin", &t)?);
        let (re, im) = (b.mul(&r, &cos)?, b.mul(&r, &sin)?);
        Ok(b.joined(&re, &im)?.into())
    }),
    ("aten.angle", |b, c| {
        let x = c.tensor(0, "self")?;
        if x.dtype().is_complex() {
            let (re, im) = (b.real_part(&x)?, b.part(&x, 1)?);
            return Ok(angle(b, &im, &re)?.into());
        }
        let d = c.result_dtype().unwrap_or(DType::F32);
        let x = b.cast(&x, d)?;
        let (zero, pi) = (b.scalar(0.0, d)?, b.scalar(std::f64::consts::PI, d)?);
        let minus = b.lt(&x, &zero)?;
        let y = b.choose(&minus, &pi, &zero)?;
        let nan = b.unary_bool("IsNaN", &x)?;
        Ok(b.choose(&nan, &x, &y)?.into())
    }),
    ("aten.conj", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(if x.dtype().is_complex() { b.complex_conj(&x)? } else { x }.into())
    }),
    ("aten._conj", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(if x.dtype().is_complex() { b.complex_conj(&x)? } else { x }.into())
    }),
    ("aten.conj_physical", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(if x.dtype().is_complex() { b.complex_conj(&x)? } else { x }.into())
    }),
];

fn real_of(d: DType) -> DType {
    match d {
        DType::C128 => DType::F64,
        DType::C32 => DType::F16,
        _ => DType::F32,
    }
}
fn complex_of(d: DType) -> DType {
    match d {
        DType::F64 => DType::C128,
        DType::F16 => DType::C32,
        _ => DType::C64,
    }
}
impl Builder {
    /// A complex value as the real one that it is in the graph.
    pub(crate) fn parts(&mut self, v: &Var) -> Var {
        let mut shape = v.shape.clone();
        shape.push(Some(2));
        Var::new(v.name.clone(), real_of(v.dtype), shape)
    }
    /// A real value with a last dimension of two as a complex one.
    pub(crate) fn join_parts(&mut self, v: &Var) -> Result<Var> {
        let Some((_, front)) = v.shape.split_last() else {
            return Err(Error::runtime("Input tensor must have one or more dimensions"));
        };
        Ok(Var::new(v.name.clone(), complex_of(v.dtype), front.to_vec()))
    }
    pub(crate) fn part(&mut self, v: &Var, i: i64) -> Result<Var> {
        let p = self.parts(v);
        let i = self.int(i)?;
        let d = p.rank() as i64 - 1;
        self.gather(&p, &i, d)
    }
    pub(crate) fn real_part(&mut self, v: &Var) -> Result<Var> {
        self.part(v, 0)
    }
    pub(crate) fn joined(&mut self, re: &Var, im: &Var) -> Result<Var> {
        let shape = crate::build::broadcast(&re.shape, &im.shape);
        let (mut re, mut im) = (re.clone(), im.clone());
        if re.shape != im.shape {
            let zero = self.scalar(0.0, re.dtype)?;
            let (r0, i0) = (self.mul(&im, &zero)?, self.mul(&re, &zero)?);
            (re, im) = (self.add(&re, &r0)?, self.add(&im, &i0)?);
        }
        let d = shape.len() as i64;
        let (re, im) = (self.unsqueeze(&re, &[d])?, self.unsqueeze(&im, &[d])?);
        let both = self.concat(&[re, im], d)?;
        self.join_parts(&both)
    }
    pub(crate) fn complex_of(&mut self, v: &Var, dtype: DType) -> Result<Var> {
        let re = self.cast(v, real_of(dtype))?;
        let zero = self.scalar(0.0, re.dtype)?;
        let to = self.sizes(&re)?;
        let im = self.full(&to, &zero)?;
        self.joined(&re, &im)
    }
    pub(crate) fn complex_operands(&mut self, x: &Var, y: &Var) -> Result<(Var, Var)> {
        let d = result_type(&[&Arg::Var(x.clone()), &Arg::Var(y.clone())])?;
        let (x, y) = (self.cast(x, d)?, self.cast(y, d)?);
        Ok((x, y))
    }
    pub(crate) fn complex_mul(&mut self, x: &Var, y: &Var) -> Result<Var> {
        let (a, bi) = (self.part(x, 0)?, self.part(x, 1)?);
        let (c, d) = (self.part(y, 0)?, self.part(y, 1)?);
        let (ac, bd, ad, bc) = (self.mul(&a, &c)?, self.mul(&bi, &d)?, self.mul(&a, &d)?, self.mul(&bi, &c)?);
        let (re, im) = (self.sub(&ac, &bd)?, self.add(&ad, &bc)?);
        self.joined(&re, &im)
    }
    pub(crate) fn complex_matmul(&mut self, x: &Var, y: &Var) -> Result<Var> {
        let (x, y) = self.complex_operands(x, y)?;
        let (a, bi) = (self.part(&x, 0)?, self.part(&x, 1)?);
        let (c, d) = (self.part(&y, 0)?, self.part(&y, 1)?);
        let (ac, bd) = (self.matmul(&a, &c)?, self.matmul(&bi, &d)?);
        let (ad, bc) = (self.matmul(&a, &d)?, self.matmul(&bi, &c)?);
        let (re, im) = (self.sub(&ac, &bd)?, self.add(&ad, &bc)?);
        self.joined(&re, &im)
    }
    pub(crate) fn complex_div(&mut self, x: &Var, y: &Var) -> Result<Var> {
        let c = self.complex_conj(y)?;
        let p = self.complex_mul(x, &c)?;
        let (re, im) = (self.part(y, 0)?, self.part(y, 1)?);
        let (r2, i2) = (self.mul(&re, &re)?, self.mul(&im, &im)?);
        let n = self.add(&r2, &i2)?;
        let (pr, pi) = (self.part(&p, 0)?, self.part(&p, 1)?);
        let (re, im) = (self.div(&pr, &n)?, self.div(&pi, &n)?);
        self.joined(&re, &im)
    }
    pub(crate) fn complex_conj(&mut self, v: &Var) -> Result<Var> {
        let (re, im) = (self.part(v, 0)?, self.part(v, 1)?);
        let im = self.neg(&im)?;
        self.joined(&re, &im)
    }
    pub(crate) fn complex_abs(&mut self, v: &Var) -> Result<Var> {
        let p = self.parts(v);
        let d = p.rank() as i64 - 1;
        self.reduce("ReduceL2", &p, &[d], false)
    }
    pub(crate) fn complex_sign(&mut self, v: &Var) -> Result<Var> {
        let a = self.complex_abs(v)?;
        let (one, zero) = (self.scalar(1.0, a.dtype)?, self.scalar(0.0, a.dtype)?);
        let none = self.eq(&a, &zero)?;
        let a = self.choose(&none, &one, &a)?;
        let (re, im) = (self.part(v, 0)?, self.part(v, 1)?);
        let (re, im) = (self.div(&re, &a)?, self.div(&im, &a)?);
        self.joined(&re, &im)
    }
}
