//! Cases that are small programs: bind the inputs, run the steps, compare the named results.
//!
//! | module | what |
//! |---|---|
//! | [`scope`] | names, what stops a program, values that only programs have |
//! | [`eval`] | expressions |
//! | [`steps`] | statements |
//! | [`builtins`] | Python's functions, and methods of its lists, dictionaries and texts |
//! | [`arith`] | operators |
//! | [`judge`] | results against the record |

mod arith;
mod builtins;
mod eval;
mod judge;
mod scope;
mod steps;

use crate::compare::Tol;
use crate::decode::{Decoder, Stop, number};
use crate::families::{Case, File, Outcome, text};
use scope::{Halt, Program, Scope};
use serde_json::Value as J;
use std::sync::Arc;

/// All cases of a file of programs.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    let about = text(&f.json, "call");
    f.list("cases")
        .iter()
        .map(|c| {
            let call = c["call"].as_str().unwrap_or(about);
            // what PyTorch refuses may be right all the same, and what varies with its kernels is no firm expectation
            let apart = c.get("refusal").is_some() || c["varies"] == J::Bool(true);
            let run = Box::new(move || match run(f, c) {
                Ok(Some(e)) => Outcome::Apart(e),
                Ok(None) => Outcome::Passed,
                Err(Stop::Failed(e)) if apart => Outcome::Apart(e),
                Err(Stop::Failed(e)) => Outcome::Failed(e),
                Err(Stop::Missing(n)) => Outcome::Missing(n),
            });
            Case { id: text(c, "id").into(), call: call.into(), core: false, run }
        })
        .collect()
}

/// Runs one; gives what differs in names that are marked as unstable, if nothing else differs.
fn run(f: &File, c: &J) -> Result<Option<String>, Stop> {
    let scope = Arc::new(Scope::default());
    let mut d = Decoder::new(&f.store);
    let program = Arc::new(Program { store: f.store.clone() });
    for (name, v) in c["inputs"].as_object().into_iter().flatten() {
        // special values stand among the inputs too
        let value = match program.expr(v, &scope) {
            Ok(v) => v,
            Err(Halt::Missing(n)) => return Err(Stop::Missing(n)),
            Err(_) => d.value(v, name)?,
        };
        scope.set(name, value);
    }
    let steps = c["steps"].as_array().map_or(&[][..], Vec::as_slice);
    match program.steps(steps, &scope) {
        Ok(_) => {}
        Err(Halt::Missing(n)) => return Err(Stop::Missing(n)),
        Err(Halt::Raised(e)) => return Err(Stop::Failed(format!("{:?}: {}", e.kind(), e.message()))),
        Err(Halt::Wrong(e)) => return Err(Stop::Failed(e)),
    }
    let listed =
        |key: &str, name: &str| c[key].as_array().is_some_and(|l| l.iter().any(|x| x.as_str() == Some(name)));
    let mut soft = None;
    for (name, want) in c["expect"].as_object().into_iter().flatten() {
        let tol = match c["tol"].get(name) {
            Some(t) if number(&t[0]) == 0.0 && number(&t[1]) == 0.0 => Tol::Bits,
            Some(t) => Tol::Close { rtol: number(&t[0]), atol: number(&t[1]) },
            None => crate::compare::tolerance(c, ""),
        };
        let how = judge::How {
            tol,
            any_message: listed("any_message", name),
            q_steps: c["q_steps"].as_i64().unwrap_or(0),
        };
        let got = scope.get(name).ok_or_else(|| format!("{name} was never assigned"))?;
        if let Err(e) = judge::value(&got, want, &f.store, how) {
            let e = format!("{name}: {e}");
            if !listed("unstable", name) {
                return Err(Stop::Failed(e));
            }
            soft.get_or_insert(e);
        }
    }
    Ok(soft)
}
