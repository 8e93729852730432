//! Cases that are small programs: bind the inputs, run the steps, compare the named results.
//!
//! | module | what |
//! |---|---|
//! | `scope` | names, what stops a program, values that only programs have |
//! | `eval` | expressions |
//! | `steps` | statements |
//! | `builtins` | Python's functions, and methods of its lists, dictionaries and texts |
//! | `arith` | operators |
//! | `judge` | results against the record |

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use serde_json::json;

    fn outcome(case: J) -> Outcome {
        let f = File {
            name: "func/own".into(),
            json: json!({"cases": [case]}),
            store: Store::default(),
            folder: Default::default(),
        };
        let all = cases(&f);
        (all[0].run)()
    }
    fn program(steps: J, expect: J) -> J {
        json!({"id": "own", "inputs": {}, "steps": steps, "expect": expect, "rtol": 1e-6, "atol": 1e-6})
    }
    fn full(v: f64) -> J {
        json!({"new": {"call": "torch.full", "args": [{"list": [2]}, v], "kwargs": {}}})
    }

    #[test]
    fn names_functions_loops_and_lists() {
        // total = []; f = lambda x, k=2: x * k; for i in range(3): total.append(f(i)); s = sum(total)
        let steps = json!([
            {"let": "total", "be": {"list": []}},
            {"let": "f", "be": {"fn": {"params": ["x", {"name": "k", "default": 2}],
                "result": {"op": "*", "args": [{"var": "x"}, {"var": "k"}]}}}},
            {"for": "i", "in": {"new": {"call": "range", "args": [3], "kwargs": {}}}, "steps": [
                {"do": {"method": "append", "of": {"var": "total"},
                    "args": [{"apply": {"var": "f"}, "args": [{"var": "i"}], "kwargs": {}}], "kwargs": {}}}]},
            {"let": "s", "be": {"new": {"call": "sum", "args": [{"var": "total"}], "kwargs": {}}}},
            {"let": "last", "be": {"item": -1, "of": {"var": "total"}}},
        ]);
        let expect = json!({"total": {"list": [0, 2, 4]}, "s": 6, "last": 4});
        assert_eq!(outcome(program(steps.clone(), expect)), Outcome::Passed);
        assert!(matches!(outcome(program(steps, json!({"s": 7}))), Outcome::Failed(_)));
    }
    #[test]
    fn errors_are_caught_and_compared_by_class_and_text() {
        let steps = json!([{"catch": "e", "steps": [
            {"do": {"method": "reshape", "of": full(1.0), "args": [3], "kwargs": {}}}]}]);
        let e = |class: &str, text: &str| json!({"e": {"dict": {"exception": class, "message": text}}});
        let text = "shape '[3]' is invalid for input of size 2";
        assert_eq!(outcome(program(steps.clone(), e("RuntimeError", text))), Outcome::Passed);
        assert!(matches!(outcome(program(steps.clone(), e("ValueError", text))), Outcome::Failed(_)));
        assert!(matches!(outcome(program(steps, e("RuntimeError", "other"))), Outcome::Failed(_)));
    }
    #[test]
    fn modes_gradients_and_what_is_not_there() {
        let grad = json!({"attr": "requires_grad", "of": {"op": "*", "args": [{"var": "x"}, 2]}});
        let steps = json!([
            {"let": "x", "be": {"method": "requires_grad_", "of": full(3.0), "args": [], "kwargs": {}}},
            {"with": [[{"new": {"call": "torch.no_grad", "args": [], "kwargs": {}}}, null]],
                "steps": [{"let": "inside", "be": grad}]},
            {"let": "outside", "be": grad},
        ]);
        assert_eq!(outcome(program(steps, json!({"inside": false, "outside": true}))), Outcome::Passed);
        let steps = json!([{"do": {"new": {"call": "torch.no_such_name", "args": [], "kwargs": {}}}}]);
        assert_eq!(outcome(program(steps, json!({}))), Outcome::Missing("torch.no_such_name".into()));
    }
    #[test]
    fn arguments_of_modules_are_attributes() {
        let made =
            |call: &str, args: J, kwargs: J| json!({"new": {"call": call, "args": args, "kwargs": kwargs}});
        let attr = |name: &str, of: &str| json!({"attr": name, "of": {"var": of}});
        let steps = json!([
            {"let": "b", "be": made("torch.nn.BatchNorm1d", json!([3]), json!({"eps": 0.25}))},
            {"let": "l", "be": made("torch.nn.Linear", json!([2, 3]), json!({"bias": false}))},
            {"let": "r", "be": made("torch.nn.LSTM", json!([2, 3]), json!({"bias": false}))},
            {"let": "c", "be": made("torch.nn.Conv2d", json!([1, 2, 3]), json!({}))},
            {"let": "eps", "be": attr("eps", "b")},
            {"let": "tracks", "be": attr("track_running_stats", "b")},
            {"let": "none", "be": attr("bias", "l")},
            {"let": "off", "be": attr("bias", "r")},
            {"let": "size", "be": attr("kernel_size", "c")},
            {"let": "made", "be": made("hasattr", json!([{"var": "c"}, "device"]), json!({}))},
        ]);
        let expect = json!({"eps": 0.25, "tracks": true, "none": null, "off": false,
            "size": {"tuple": [3, 3]}, "made": false});
        assert_eq!(outcome(program(steps, expect)), Outcome::Passed);
    }
    #[test]
    fn loaders_and_samplers_by_name() {
        let made =
            |call: &str, args: J, kwargs: J| json!({"new": {"call": call, "args": args, "kwargs": kwargs}});
        let data = json!({"list": [1, 2, 3]});
        let steps = json!([
            {"let": "l", "be": made("torch.utils.data.DataLoader", json!([data]), json!({"batch_size": 2}))},
            {"let": "n", "be": made("len", json!([{"var": "l"}]), json!({}))},
        ]);
        let got = outcome(program(steps, json!({"n": 2})));
        assert_eq!(got, Outcome::Passed);
        let steps = json!([
            {"let": "s", "be": made("torch.utils.data.SequentialSampler", json!([data]), json!({}))},
            {"let": "b", "be": made("torch.utils.data.BatchSampler", json!([{"var": "s"}, 2, false]), json!({}))},
            {"let": "l", "be": made("list", json!([{"var": "b"}]), json!({}))},
        ]);
        let expect = json!({"l": {"list": [{"list": [0, 1]}, {"list": [2]}]}});
        assert_eq!(outcome(program(steps, expect)), Outcome::Passed);
    }
    #[test]
    fn a_resized_result_is_what_its_name_stands_for() {
        let steps = json!([
            {"let": "o", "be": {"new": {"call": "torch.empty", "args": [0], "kwargs": {}}}},
            {"do": {"new": {"call": "torch.add", "args": [full(1.0), full(2.0)], "kwargs": {"out": {"var": "o"}}}}},
            {"let": "n", "be": {"attr": "shape", "of": {"var": "o"}}},
        ]);
        assert_eq!(outcome(program(steps, json!({"n": {"list": [2]}}))), Outcome::Passed);
    }
}
