//! `print/`: the exact text of `repr`.

use super::{Case, File, Outcome, is_core, text};
use crate::decode::{Decoder, Stop};
use crate::expr::Expr;
use flambeau_core::iter::promotion;
use flambeau_core::{DType, Value};
use flambeau_library as library;
use serde_json::Value as J;

const REPR: &str = "torch.Tensor.__repr__";
const OPTIONS: &str = "torch.set_printoptions";

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    let tensors = f.list("cases").iter().map(|c| {
        let run = Box::new(move || Outcome::of(tensor(f, c)));
        Case { id: text(c, "id").into(), call: REPR.into(), core: is_core(REPR, c), run }
    });
    let objects = f.list("objects").iter().map(|o| {
        let expr = text(o, "expr");
        let run = Box::new(move || Outcome::of(object(expr, text(o, "expect"))));
        let call = expr.split('(').next().unwrap_or(expr);
        Case { id: expr.into(), call: call.into(), core: is_core(call, o), run }
    });
    tensors.chain(objects).collect()
}

fn known(name: &str) -> Result<(), Stop> {
    if library::exists(name) { Ok(()) } else { Err(Stop::Missing(name.into())) }
}
fn same(got: &str, want: &str) -> Result<(), Stop> {
    let got = &crate::device::without_device(got);
    if got == want { Ok(()) } else { Err(Stop::Failed(format!("prints {got:?}, expected {want:?}"))) }
}

/// Puts the default dtype back when a case ends, however it ends.
struct DefaultDType(DType);
impl Drop for DefaultDType {
    fn drop(&mut self) {
        let _ = promotion::set_default_dtype(self.0);
    }
}

fn tensor(f: &File, c: &J) -> Result<(), Stop> {
    known(REPR)?;
    let _restore = DefaultDType(promotion::default_dtype());
    let mut d = Decoder::new(&f.store);
    let mut v = d.value(&c["input"], "input")?;
    let mut options =
        vec![("profile".to_string(), Value::Str("default".into())), ("sci_mode".into(), Value::None)];
    for (k, o) in c["options"].as_object().into_iter().flatten() {
        match k.as_str() {
            "default_dtype" => {
                let name = o.as_str().or_else(|| o["dtype"].as_str()).unwrap_or("");
                let t = DType::from_name(name).ok_or_else(|| Stop::Failed(format!("dtype {o}")))?;
                promotion::set_default_dtype(t)?;
            }
            "apply" => {
                let name = o.as_str().or_else(|| o["callable"].as_str()).unwrap_or("");
                known(name)?;
                let mut args = vec![v.clone()];
                if name.ends_with("view_as") {
                    // the one function of two arguments: with itself
                    args.push(v.clone());
                }
                v = library::call(name, &args, &[])?.into_iter().next().unwrap_or(Value::None);
            }
            _ => {
                let value = d.value(o, "option")?;
                options.retain(|(n, _)| n != k);
                options.push((k.clone(), value));
            }
        }
    }
    known(OPTIONS)?;
    library::call(OPTIONS, &[], &options)?;
    let got = library::repr(&v);
    let defaults = [("profile".to_string(), Value::Str("default".into())), ("sci_mode".into(), Value::None)];
    library::call(OPTIONS, &[], &defaults)?;
    same(&got?, text(c, "expect"))
}

fn object(expr: &str, want: &str) -> Result<(), Stop> {
    flambeau_core::tensor::generator::manual_seed(0);
    let v = Expr::parse(expr)?.eval(&[])?;
    same(&library::repr(&v)?, want)
}
