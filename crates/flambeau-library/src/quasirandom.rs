//! `torch.quasirandom.SobolEngine` by name.

use crate::slots::{Slots, one};
use flambeau_core::api::quasirandom::{MAXBIT, MAXDIM, SobolEngine};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value, ops};
use std::any::Any;

struct SobolObject(Mutex<SobolEngine>);
impl Object for SobolObject {
    fn type_name(&self) -> &'static str {
        "SobolEngine"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let e = self.0.lock().unwrap_or_else(|e| e.into_inner());
        Ok(match name {
            "dimension" => Value::Int(e.dimension() as i64),
            "num_generated" => Value::Int(e.num_generated() as i64),
            "scramble" => Value::Bool(e.is_scrambled()),
            "seed" => e.seed().map_or(Value::None, Value::Int),
            "MAXBIT" => Value::Int(MAXBIT as i64),
            "MAXDIM" => Value::Int(MAXDIM),
            _ => return Err(no_attribute("SobolEngine", name)),
        })
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let mut e = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let into = |s: &Slots<'_>, t: Tensor| -> Result<Vec<Value>> {
            match s.get::<Tensor>(1)? {
                None => one(t),
                Some(mut out) => {
                    flambeau_core::backend::out::resize_output(&mut out, t.sizes())?;
                    ops::copy_(&out, &t, false)?;
                    one(out)
                }
            }
        };
        match name {
            "draw" => {
                let s = Slots::new("draw", &["n", "out", "dtype"], args, kwargs)?;
                let t = e.draw(s.get::<i64>(0)?.unwrap_or(1), s.get(2)?)?;
                into(&s, t)
            }
            "draw_base2" => {
                let s = Slots::new("draw_base2", &["m", "out", "dtype"], args, kwargs)?;
                let m = i64::from_value(s.must(0)?)?;
                let m = u32::try_from(m).map_err(|_| Error::value("m must not be negative"))?;
                let t = e.draw_base2(m, s.get(2)?)?;
                into(&s, t)
            }
            "fast_forward" => {
                let s = Slots::new("fast_forward", &["n"], args, kwargs)?;
                e.fast_forward(i64::from_value(s.must(0)?)?)?;
                Ok(Vec::new())
            }
            "reset" => {
                e.reset();
                Ok(Vec::new())
            }
            _ => Err(no_attribute("SobolEngine", name)),
        }
    }
    fn repr(&self) -> String {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).to_string()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// `torch.quasirandom.SobolEngine(dimension, scramble, seed)`.
pub(crate) fn construct(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("SobolEngine.__init__", &["dimension", "scramble", "seed"], args, kwargs)?;
    let scramble = s.get::<bool>(1)?.unwrap_or(false);
    let e = SobolEngine::with(i64::from_value(s.must(0)?)?, scramble, s.get(2)?)?;
    Ok(vec![Value::Object(ObjectRef::new(SobolObject(Mutex::new(e))))])
}
