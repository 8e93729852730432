//! `rng/`: the exact random streams.

use super::{Case, File, Outcome, is_core, outputs, seed, text};
use crate::compare::{self, Tol, tolerance};
use crate::decode::{Decoder, Stop};
use flambeau_core::Value;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::generator;
use flambeau_library as library;
use flambeau_library::object;
use serde_json::Value as J;

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    f.list("cases")
        .iter()
        .map(|c| {
            let kind = text(c, "kind");
            let steps = c["steps"].as_array().map_or(&[][..], Vec::as_slice);
            let call = if kind == "sequence" {
                steps.first().map_or("", |s| text(s, "call"))
            } else {
                text(c, "call")
            };
            let core = kind != "module_init"
                && steps.iter().all(|s| is_core(text(s, "call"), s))
                && is_core(call, c);
            Case {
                id: text(c, "id").into(),
                call: call.into(),
                core,
                run: Box::new(move || Outcome::of(run(f, kind, c))),
            }
        })
        .collect()
}

fn known(call: &str) -> Result<(), Stop> {
    if library::exists(call) { Ok(()) } else { Err(Stop::Missing(call.to_string())) }
}
fn call(f: &File, c: &J) -> Result<Value, Stop> {
    let name = text(c, "call");
    known(name)?;
    let mut d = Decoder::new(&f.store);
    let args = d.args(&c["args"], "args")?;
    let kwargs = d.kwargs(&c["kwargs"], "kwargs")?;
    seed(c);
    let r = library::call(name, &args, &kwargs)?;
    outputs(r, "single").into_iter().next().ok_or_else(|| Stop::Failed("no result".into()))
}

fn run(f: &File, kind: &str, c: &J) -> Result<(), Stop> {
    let tol = if c.get("rtol").is_some() { tolerance(c, "") } else { Tol::Bits };
    let want = &c["expect"];
    let got = match kind {
        "function" | "method" => call(f, c)?,
        "sequence" => {
            seed(c);
            let steps = c["steps"].as_array().into_iter().flatten();
            Value::Tuple(steps.map(|s| call(f, s)).collect::<Result<_, _>>()?)
        }
        "module_init" => {
            let name = text(c, "call");
            if object::class(name).is_none() {
                return Err(Stop::Missing(name.to_string()));
            }
            let mut d = Decoder::new(&f.store);
            seed(c);
            let args = d.args(&c["args"], "args")?;
            let kwargs = d.kwargs(&c["kwargs"], "kwargs")?;
            let made = object::construct(name, &args, &kwargs)?;
            made.method("state_dict", &[], &[])?.into_iter().next().unwrap_or(Value::None)
        }
        "state" => {
            seed(c);
            let n = c["advance"].as_i64().unwrap_or(0);
            if n > 0 {
                known("torch.rand")?;
                library::call("torch.rand", &[Value::Int(n)], &[])?;
            }
            let bytes = generator::default_generator().state_bytes();
            let n = bytes.len() as i64;
            Value::Tensor(flambeau_core::Tensor::from_vec_raw(bytes, &[n])?)
        }
        other => return Err(Stop::Failed(format!("kind {other}"))),
    };
    compare::value(&got, want, &f.store, tol).map_err(Stop::Failed)
}
