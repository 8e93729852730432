//! `FloatFunctional` and `QFunctional`: operators as modules, so that their results are observed and get a rule.

use super::functional as f;
use super::linear::itself;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Scalar, Tensor, Value, ops};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Module, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// Of numbers, or of quantized tensors by a rule.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantized.FloatFunctional")]
#[doc(alias = "torch.ao.nn.quantized.QFunctional")]
#[doc(alias = "torch.ao.nn.quantized.FXFloatFunctional")]
pub struct Functional {
    base: Base,
    quantized: bool,
    /// In the place of `FloatFunctional` where a graph has the observers: nothing looks at the results here.
    of_graphs: bool,
    rule: Mutex<(f64, i64)>,
}
impl Functional {
    /// `FloatFunctional()`, or `QFunctional()` with scale 1 and zero point 0.
    pub fn new(quantized: bool) -> Functional {
        Functional { base: Base::new(), quantized, of_graphs: false, rule: Mutex::new((1.0, 0)) }
    }
    /// `FXFloatFunctional()`: operators whose observers stand in the graph around them.
    pub fn of_graphs() -> Functional {
        Functional { of_graphs: true, ..Functional::new(false) }
    }
    /// Whether it is of quantized tensors.
    pub fn is_quantized(&self) -> bool {
        self.quantized
    }
    fn name(&self) -> &'static str {
        match (self.quantized, self.of_graphs) {
            (true, _) => "QFunctional",
            (_, true) => "FXFloatFunctional",
            _ => "FloatFunctional",
        }
    }
    fn rule(&self) -> (f64, i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Sets scale and zero point of results.
    pub fn set_rule(&self, scale: f64, zero_point: i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner()) = (scale, zero_point);
    }
    fn post(&self, y: Tensor) -> Result<Tensor> {
        if self.of_graphs {
            return Ok(y);
        }
        match self.base.module("activation_post_process").and_then(Module::as_run) {
            Some(post) => {
                let out = post.run(std::slice::from_ref(&y))?;
                Ok(out.into_iter().next().unwrap_or(y))
            }
            None => Ok(y),
        }
    }
    /// The sum.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.post(if self.quantized {
            f::add(a, b, self.rule(), false)?
        } else {
            ops::add(a, b, Scalar::Int(1))?
        })
    }
    /// The sum, cut at zero.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn add_relu(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.post(if self.quantized {
            f::add(a, b, self.rule(), true)?
        } else {
            ops::relu(&ops::add(a, b, Scalar::Int(1))?)?
        })
    }
    /// The product.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn mul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.post(if self.quantized { f::mul(a, b, self.rule())? } else { ops::mul(a, b)? })
    }
    /// The matrix product.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.post(if self.quantized { f::matmul(a, b, self.rule())? } else { ops::matmul(a, b)? })
    }
    /// A number more: the rule follows from the number.
    ///
    /// # Errors
    /// Tensors that are not quantized.
    pub fn add_scalar(&self, a: &Tensor, v: f64) -> Result<Tensor> {
        if self.quantized {
            f::add_scalar(a, v)
        } else {
            ops::add(a, &crate::tensor::number(v)?, Scalar::Int(1))
        }
    }
    /// A multiple: the rule follows from the number.
    ///
    /// # Errors
    /// Tensors that are not quantized.
    pub fn mul_scalar(&self, a: &Tensor, v: f64) -> Result<Tensor> {
        if self.quantized { f::mul_scalar(a, v) } else { ops::mul(a, &crate::tensor::number(v)?) }
    }
    /// One after the other.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn cat(&self, all: &[Tensor], dim: i64) -> Result<Tensor> {
        self.post(if self.quantized { f::cat(all, dim, self.rule())? } else { ops::cat(all, dim)? })
    }
}
impl Module for Functional {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.name())
    }
    fn extra_repr(&self) -> String {
        let (s, z) = self.rule();
        if self.quantized {
            format!("scale={}, zero_point={z}", flambeau_core::text::PyText::py_text(&s))
        } else {
            String::new()
        }
    }
    fn visit<'a>(&'a self, _: &mut dyn Visitor<'a>) {}
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let (s, z) = self.rule();
        let mut new = Functional { of_graphs: self.of_graphs, ..Functional::new(self.quantized) };
        new.set_rule(s, z);
        new.base = self.base.copied(memo)?;
        Ok(Copied::new(new))
    }
    itself!();
}
impl Run for Functional {
    fn class(&self) -> &'static str {
        self.name()
    }
    fn run(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        let name = if self.quantized { "Functional" } else { "FloatFunctional" };
        Err(Error::runtime(format!(
            "{name} is not intended to use the 'forward'. Please use the underlying operation"
        )))
    }
    fn attribute_by_name(&self, name: &str) -> Option<Value> {
        match name {
            "scale" if self.quantized => Some(Value::Float(self.rule().0)),
            "zero_point" if self.quantized => Some(Value::Int(self.rule().1)),
            _ => None,
        }
    }
    fn set_attribute_by_name(&self, name: &str, v: &Value) -> Option<Result<()>> {
        crate::objects::set_rule(name, v, self.rule(), |s, z| self.set_rule(s, z))
    }
    fn method_by_name(&self, name: &str, a: &[Value], _: &Kwargs) -> Option<Result<Vec<Value>>> {
        let t = |i: usize| Tensor::from_value(a.get(i).unwrap_or(&Value::None));
        let n = |i: usize| f64::from_value(a.get(i).unwrap_or(&Value::None));
        let two = |g: fn(&Functional, &Tensor, &Tensor) -> Result<Tensor>| g(self, &t(0)?, &t(1)?);
        let y = match name {
            "add" => two(Functional::add),
            "mul" => two(Functional::mul),
            "add_relu" => two(Functional::add_relu),
            "matmul" => two(Functional::matmul),
            "add_scalar" => t(0).and_then(|x| self.add_scalar(&x, n(1)?)),
            "mul_scalar" => t(0).and_then(|x| self.mul_scalar(&x, n(1)?)),
            "cat" => Vec::<Tensor>::from_value(a.first().unwrap_or(&Value::None))
                .and_then(|all| self.cat(&all, a.get(1).map_or(Ok(0), i64::from_value)?)),
            _ => return None,
        };
        Some(y.map(|y| vec![Value::Tensor(y)]))
    }
}
