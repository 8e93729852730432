//! Optimizers and schedules against live PyTorch: each class starts in one library, goes on in the other from its state
//! dict, and comes back. Without Python and torch the tests say that they were skipped.

use flambeau_test_support::python;
use std::path::Path;
use std::process::Command;
use torch::library::Value;
use torch::library::object::{ObjectRef, construct};
use torch::prelude::*;
use torch::serialization::Tree;

fn value(t: &Tree<Tensor>) -> Value {
    let all = |l: &[Tree<Tensor>]| l.iter().map(value).collect();
    match t {
        Tree::Bool(b) => Value::Bool(*b),
        Tree::Int(i) => Value::Int(*i),
        Tree::Float(f) => Value::Float(*f),
        Tree::Str(s) => Value::Str(s.clone()),
        Tree::Tensor(t) => Value::Tensor(t.clone()),
        Tree::List(l) => Value::List(all(l)),
        Tree::Tuple(l) => Value::Tuple(all(l)),
        other => match other.entries() {
            None => Value::None,
            Some(e) => {
                let key = |k: &Tree<Tensor>| match k {
                    Tree::Int(i) => i.to_string(),
                    Tree::Str(s) => s.clone(),
                    other => panic!("{other:?}"),
                };
                Value::Dict(e.iter().map(|(k, v)| (key(k), value(v))).collect())
            }
        },
    }
}
/// A by-name object's state dict as PyTorch has it: parameters are numbered.
fn tree(v: &Value, numbered: bool) -> Tree<Tensor> {
    let all = |l: &[Value]| l.iter().map(|v| tree(v, false)).collect();
    match v {
        Value::Bool(b) => Tree::Bool(*b),
        Value::Int(i) => Tree::Int(*i),
        Value::Float(f) => Tree::Float(*f),
        Value::Str(s) => Tree::Str(s.clone()),
        Value::Tensor(t) => Tree::Tensor(t.clone()),
        Value::List(l) => Tree::List(all(l)),
        Value::Tuple(l) => Tree::Tuple(all(l)),
        Value::Dict(l) => {
            let key = |k: &String| match k.parse() {
                Ok(i) if numbered => Tree::Int(i),
                _ => Tree::Str(k.clone()),
            };
            let number = |k: &str| k == "state" || k == "milestones";
            Tree::Dict(l.iter().map(|(k, v)| (key(k), tree(v, number(k)))).collect())
        }
        _ => Tree::None,
    }
}
fn list(t: Option<&Tree<Tensor>>) -> &[Tree<Tensor>] {
    match t {
        Some(Tree::List(l) | Tree::Tuple(l)) => l,
        other => panic!("no list: {other:?}"),
    }
}
fn text(t: Option<&Tree<Tensor>>) -> String {
    match t {
        Some(Tree::Str(s)) => s.clone(),
        other => panic!("no text: {other:?}"),
    }
}
fn number(t: Option<&Tree<Tensor>>) -> f64 {
    match t {
        Some(Tree::Float(v)) => *v,
        Some(Tree::Int(v)) => *v as f64,
        other => panic!("no number: {other:?}"),
    }
}
fn tensors(t: Option<&Tree<Tensor>>) -> Vec<Option<Tensor>> {
    list(t).iter().map(|t| if let Tree::Tensor(t) = t { Some(t.clone()) } else { None }).collect()
}
fn pairs(t: Option<&Tree<Tensor>>) -> Vec<(String, Value)> {
    t.map(value).and_then(|v| v.into_entries().ok()).unwrap_or_default()
}
fn floats(t: &Tensor) -> Vec<f64> {
    let t = t.detach();
    let t = if t.is_complex() { torch::view_as_real(&t) } else { t };
    t.to(f64).reshape([-1]).to_vec::<f64>()
}
fn near(name: &str, got: &[Tensor], want: &[Option<Tensor>], tol: f64) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        for (a, b) in floats(g).iter().zip(floats(w.as_ref().unwrap())) {
            let apart = (a - b).abs();
            assert!(
                apart <= tol * b.abs().max(1e-1) || (a.is_nan() && b.is_nan()),
                "{name}: parameter {i}: {a} {b}"
            );
        }
    }
}
fn run(python: &str, script: &str, dir: &Path) -> String {
    python::output(Command::new(python).args(["-c", script]).arg(dir), "")
}

/// One case: the parameters, and how to build and step its optimizer.
struct Case<'a> {
    tree: &'a Tree<Tensor>,
    params: Vec<Tensor>,
}
impl<'a> Case<'a> {
    fn of(tree: &'a Tree<Tensor>, params: &str) -> Self {
        let params = tensors(tree.get(params)).into_iter().map(|p| {
            let p = p.unwrap().copy();
            p.requires_grad_(true);
            p
        });
        Case { tree, params: params.collect() }
    }
    fn build(&self) -> ObjectRef {
        let all = |r: std::ops::Range<usize>| {
            Value::List(self.params[r].iter().map(|p| Value::Tensor(p.clone())).collect())
        };
        let n = self.params.len();
        let second = pairs(self.tree.get("second"));
        let params = if second.is_empty() {
            all(0..n)
        } else {
            let mut other = vec![("params".to_string(), all(n / 2..n))];
            other.extend(second);
            Value::List(vec![Value::Dict(vec![("params".into(), all(0..n / 2))]), Value::Dict(other)])
        };
        let class = text(self.tree.get("class"));
        construct(&class, &[params], &pairs(self.tree.get("kwargs"))).unwrap()
    }
    fn step(&self, o: &ObjectRef, steps: std::ops::Range<usize>) {
        let grads = list(self.tree.get("grads"));
        for s in steps {
            if text(self.tree.get("class")).ends_with("LBFGS") {
                let closure = ObjectRef::new(Quadratic(self.params.clone()));
                o.method("step", &[Value::Object(closure)], &[]).unwrap();
                continue;
            }
            for (p, g) in self.params.iter().zip(tensors(Some(&grads[s]))) {
                p.set_grad(g);
            }
            o.method("step", &[], &[]).unwrap();
        }
    }
}
/// A loss whose curvature differs from element to element.
struct Quadratic(Vec<Tensor>);
impl torch::library::object::Object for Quadratic {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, _: &[Value], _: &[(String, Value)]) -> torch::Result<Vec<Value>> {
        let mut loss = torch::zeros_with((), self.0[0].dtype());
        for p in &self.0 {
            p.set_grad(None);
            let scale = torch::arange(p.numel()).to(p.dtype()) + 1.0;
            let x = p.reshape([-1]);
            loss = loss + (&x * &x * scale).sum() + (&x * &x * &x * &x).sum() * 0.5;
        }
        loss.backward();
        Ok(vec![Value::Tensor(loss)])
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn optimizers_go_to_pytorch_and_back() {
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = include_str!("optimizers.py");
    let write = format!("{script}\nwrite_optimizers(sys.argv[1])");
    run(&python, &write, folder.path());
    let cases = torch::load(folder.path().join("cases.pt")).unwrap();
    let cases = list(Some(&cases));
    assert!(cases.len() > 150, "{}", cases.len());
    let mut out = Vec::new();
    for tree_of in cases {
        let (name, tol) = (text(tree_of.get("name")), number(tree_of.get("tol")));
        // from the start
        let c = Case::of(tree_of, "params0");
        let o = c.build();
        c.step(&o, 0..5);
        near(&format!("{name}, steps 0 to 5"), &c.params, &tensors(tree_of.get("params5")), tol);
        // from PyTorch's checkpoint
        let c = Case::of(tree_of, "params5");
        let o = c.build();
        o.method("load_state_dict", &[value(tree_of.get("state5").unwrap())], &[]).unwrap();
        c.step(&o, 5..10);
        near(&format!("{name}, steps 5 to 10"), &c.params, &tensors(tree_of.get("params10")), tol);
        let state = o.method("state_dict", &[], &[]).unwrap().remove(0);
        let params = c.params.iter().map(|p| Tree::Tensor(p.detach())).collect();
        out.push(Tree::Dict(vec![
            (Tree::Str("state".into()), tree(&state, false)),
            (Tree::Str("params".into()), Tree::List(params)),
            (Tree::Str("text".into()), Tree::Str(o.repr())),
        ]));
    }
    torch::save(&Tree::List(out), folder.path().join("ours.pt")).unwrap();
    let printed = run(&python, &format!("{script}\nread_optimizers(sys.argv[1])"), folder.path());
    assert_eq!(printed.trim(), "ok", "{printed}");
}

#[test]
fn schedules_go_to_pytorch_and_back() {
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = include_str!("optimizers.py");
    run(&python, &format!("{script}\nwrite_schedules(sys.argv[1])"), folder.path());
    let cases = torch::load(folder.path().join("schedules.pt")).unwrap();
    let mut out = Vec::new();
    for c in list(Some(&cases)) {
        let name = text(c.get("name"));
        let build = || {
            let group = |lr: f64| {
                let p = torch::zeros([1]);
                p.requires_grad_(true);
                let params = Value::List(vec![Value::Tensor(p)]);
                Value::Dict(vec![("params".into(), params), ("lr".into(), Value::Float(lr))])
            };
            let class = text(c.get("optimizer"));
            let kwargs = pairs(c.get("optimizer_kwargs"));
            let o = construct(&class, &[Value::List(vec![group(0.1), group(0.5)])], &kwargs).unwrap();
            let s = schedule(&o, c.get("schedule").unwrap());
            (o, s)
        };
        let steps = list(c.get("steps"));
        let metrics = list(c.get("metrics"));
        let follow = |o: &ObjectRef, s: &ObjectRef, range: std::ops::Range<usize>| {
            for i in range {
                o.method("step", &[], &[]).unwrap();
                let args = if metrics.is_empty() { vec![] } else { vec![value(&metrics[i])] };
                s.method("step", &args, &[]).unwrap();
                for (g, (got, want)) in state_of(o).iter().zip(list(Some(&steps[i + 1]))).enumerate() {
                    for (got, want) in got.iter().zip(list(Some(want))) {
                        let want = number(Some(want));
                        let apart = (got - want).abs();
                        assert!(
                            apart <= 1e-10 * want.abs().max(1e-3),
                            "{name}: step {i}, group {g}: {got} {want}"
                        );
                    }
                }
            }
        };
        let (o, s) = build();
        follow(&o, &s, 0..50);
        let (o, s) = build();
        s.method("load_state_dict", &[value(c.get("state20").unwrap())], &[]).unwrap();
        o.method("load_state_dict", &[value(c.get("optimizer20").unwrap())], &[]).unwrap();
        follow(&o, &s, 20..35);
        let state = |x: &ObjectRef| tree(&x.method("state_dict", &[], &[]).unwrap()[0], false);
        out.push(Tree::List(vec![state(&o), state(&s)]));
    }
    torch::save(&Tree::List(out), folder.path().join("ours.pt")).unwrap();
    let printed = run(&python, &format!("{script}\nread_schedules(sys.argv[1])"), folder.path());
    assert_eq!(printed.trim(), "ok", "{printed}");
}
/// Learning rates and momenta of the groups.
fn state_of(o: &ObjectRef) -> Vec<[f64; 2]> {
    let groups = o.attribute("param_groups").unwrap().into_items().unwrap();
    let one = |g: &Value| {
        let Value::Dict(g) = g else { panic!() };
        let get = |n: &str| g.iter().find(|(k, _)| k == n).map(|(_, v)| v);
        let number = |v: &Value| v.as_scalar().map_or(f64::NAN, |s| s.to_f64());
        let momentum = match get("betas") {
            Some(b) => number(&b.items().unwrap()[0]),
            None => get("momentum").map_or(0.0, number),
        };
        [get("lr").map_or(f64::NAN, number), momentum]
    };
    groups.iter().map(one).collect()
}
/// A function of the step, by its number in the script.
struct Lambda(i64);
impl torch::library::object::Object for Lambda {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], _: &[(String, Value)]) -> torch::Result<Vec<Value>> {
        let x = args[0].as_scalar().unwrap().to_f64();
        Ok(vec![Value::Float(if self.0 == 0 { 0.95f64.powf(x) } else { 1.0 / (1.0 + x) })])
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
fn schedule(o: &ObjectRef, t: &Tree<Tensor>) -> ObjectRef {
    let class = text(t.get("class"));
    let mut kwargs = Vec::new();
    for (k, v) in t.get("kwargs").unwrap().entries().unwrap() {
        let Tree::Str(k) = k else { panic!() };
        let one = |v: &Tree<Tensor>| match v.get("lambda") {
            Some(n) => Value::Object(ObjectRef::new(Lambda(number(Some(n)) as i64))),
            None if v.get("class").is_some() => Value::Object(schedule(o, v)),
            None => value(v),
        };
        let v = match v {
            Tree::List(l) => Value::List(l.iter().map(one).collect()),
            v => one(v),
        };
        kwargs.push((k.clone(), v));
    }
    let chained = class.ends_with("ChainedScheduler");
    let args = if chained { vec![] } else { vec![Value::Object(o.clone())] };
    construct(&class, &args, &kwargs).unwrap()
}
