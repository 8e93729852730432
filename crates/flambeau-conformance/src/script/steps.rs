//! Statements.

use super::scope::{Halt, Program, R, Scope, Special, caught, raise, wrong};
use super::{arith, eval};
use flambeau_core::{Error, Value};
use serde_json::Value as J;
use std::sync::Arc;

/// How a list of statements ends.
pub enum Flow {
    On,
    Return(Value),
}

fn list(j: &J) -> &[J] {
    j.as_array().map_or(&[], Vec::as_slice)
}

impl Program {
    pub fn steps(self: &Arc<Self>, steps: &[J], s: &Arc<Scope>) -> R<Flow> {
        for step in steps {
            if let Flow::Return(v) = self.step(step, s)? {
                return Ok(Flow::Return(v));
            }
        }
        Ok(Flow::On)
    }
    fn step(self: &Arc<Self>, j: &J, s: &Arc<Scope>) -> R<Flow> {
        let has = |k: &str| j.get(k).is_some();
        if has("let") {
            let v = self.expr(&j["be"], s)?;
            let v = match j["update"].as_str() {
                Some(op) => {
                    // a target that is a name stands for the variable
                    let target = match &j["let"] {
                        J::String(name) => serde_json::json!({ "var": name }),
                        other => other.clone(),
                    };
                    arith::update(op, self.expr(&target, s)?, v)?
                }
                None => v,
            };
            self.assign(&j["let"], v, s)?;
        } else if has("do") {
            self.expr(&j["do"], s)?;
        } else if has("with") {
            return self.with(list(&j["with"]), list(&j["steps"]), s);
        } else if has("for") {
            for item in eval::items(&self.expr(&j["in"], s)?)? {
                self.assign(&j["for"], item, s)?;
                if let Flow::Return(v) = self.steps(list(&j["steps"]), s)? {
                    return Ok(Flow::Return(v));
                }
            }
        } else if has("if") {
            let branch = if arith::truth(&self.expr(&j["if"], s)?)? { "then" } else { "else" };
            return self.steps(list(&j[branch]), s);
        } else if has("return") {
            return Ok(Flow::Return(self.expr(&j["return"], s)?));
        } else if has("del") {
            match j["del"].as_str() {
                Some(name) => s.remove(name),
                None => return wrong(format!("del of {}", j["del"])),
            }
        } else if has("catch") {
            let name = j["catch"].as_str().unwrap_or("");
            match self.steps(list(&j["steps"]), s) {
                Ok(Flow::On) => s.set(name, Value::None),
                Ok(r) => return Ok(r),
                Err(Halt::Raised(e)) => s.set(name, caught(&e)),
                Err(other) => return Err(other),
            }
        } else if has("class") {
            let v = self.class(j, s)?;
            s.set(j["class"].as_str().unwrap_or(""), v);
        } else {
            return wrong(format!("unknown step {j}"));
        }
        Ok(Flow::On)
    }
    /// A class that is derived from one of the library's: its members by name.
    fn class(self: &Arc<Self>, j: &J, s: &Arc<Scope>) -> R<Value> {
        let base = j["base"].as_str().unwrap_or("?");
        if base != "torch.autograd.Function" {
            return Err(Halt::Missing(format!("a class derived from {base}")));
        }
        let mut members =
            vec![("__name__".to_string(), Value::Str(j["class"].as_str().unwrap_or("").into()))];
        for m in list(&j["members"]) {
            let name = m["name"].as_str().unwrap_or("").to_string();
            let mut v =
                if m.get("fn").is_some() { self.function(&m["fn"], s) } else { self.expr(&m["value"], s)? };
            // the decorator that stands nearest is applied first
            for d in list(&m["decorators"]).iter().rev() {
                v = eval::apply(&self.expr(d, s)?, &[v], &[])?;
            }
            members.push((name, v));
        }
        Ok(Special::Derived(base.to_string(), members).value())
    }
    fn with(self: &Arc<Self>, items: &[J], steps: &[J], s: &Arc<Scope>) -> R<Flow> {
        let Some((first, rest)) = items.split_first() else { return self.steps(steps, s) };
        let context = self.expr(&first[0], s)?;
        let entered = eval::method(&context, "__enter__", &[], &[])?;
        if !first[1].is_null() {
            self.assign(&first[1], entered, s)?;
        }
        let result = self.with(rest, steps, s);
        eval::method(&context, "__exit__", &[Value::None, Value::None, Value::None], &[])?;
        result
    }
    /// Assigns to a name, a tuple of targets, an attribute or an item.
    pub fn assign(self: &Arc<Self>, target: &J, v: Value, s: &Arc<Scope>) -> R<()> {
        if let Some(name) = target.as_str().or_else(|| target["var"].as_str()) {
            s.set(name, v);
            return Ok(());
        }
        let parts = target.get("tuple").or_else(|| target.get("list"));
        if let Some(parts) = parts.and_then(J::as_array) {
            let all = eval::items(&v)?;
            if all.len() != parts.len() {
                return wrong(format!("{} values for {} names", all.len(), parts.len()));
            }
            return parts.iter().zip(all).try_for_each(|(t, v)| self.assign(t, v, s));
        }
        if let Some(name) = target["attr"].as_str() {
            let of = self.expr(&target["of"], s)?;
            return eval::set_attribute(&of, name, v);
        }
        if target.get("item").is_some() {
            let (of, key) = (self.expr(&target["of"], s)?, self.expr(&target["item"], s)?);
            if let Some(changed) = eval::set_item(&of, key, v)? {
                self.put_back(&target["of"], changed, s)?;
            }
            return Ok(());
        }
        wrong(format!("a target {target}"))
    }
    /// Puts a changed list or dictionary where it came from; one that came from nowhere is gone.
    pub fn put_back(self: &Arc<Self>, from: &J, v: Value, s: &Arc<Scope>) -> R<()> {
        if let Some(name) = from["var"].as_str() {
            s.change(name, v);
        } else if from.get("item").is_some() || from.get("attr").is_some() {
            self.assign(from, v, s)?;
        }
        Ok(())
    }
    pub fn call_function(
        self: &Arc<Self>,
        text: &J,
        around: &Arc<Scope>,
        args: &[Value],
        kwargs: &[(String, Value)],
    ) -> R<Value> {
        let s = Scope::within(around);
        let (mut args, mut kwargs) = (args.iter(), kwargs.to_vec());
        for p in list(&text["params"]) {
            let name = p.as_str().or_else(|| p["name"].as_str()).unwrap_or("");
            let v = if let Some(rest) = name.strip_prefix("**") {
                s.set(rest, Value::Dict(std::mem::take(&mut kwargs)));
                continue;
            } else if let Some(rest) = name.strip_prefix('*') {
                s.set(rest, Value::Tuple(args.by_ref().cloned().collect()));
                continue;
            } else if let Some(v) = (p["keyword"] != J::Bool(true)).then(|| args.next()).flatten() {
                v.clone()
            } else if let Some(at) = kwargs.iter().position(|(k, _)| k == name) {
                kwargs.remove(at).1
            } else if p.get("default").is_some() {
                self.expr(&p["default"], around)?
            } else {
                // in the words of the interpreter that recorded the scripts
                let function = text["name"].as_str().unwrap_or("<lambda>");
                return raise(Error::type_(format!("{function}() missing argument '{name}'")));
            };
            s.set(name, v);
        }
        if args.next().is_some() || !kwargs.is_empty() {
            return raise(Error::type_("too many arguments"));
        }
        if text.get("result").is_some() {
            return self.expr(&text["result"], &s);
        }
        match self.steps(list(&text["steps"]), &s)? {
            Flow::Return(v) => Ok(v),
            Flow::On => Ok(Value::None),
        }
    }
    pub fn function(self: &Arc<Self>, text: &J, s: &Arc<Scope>) -> Value {
        Special::Function { program: self.clone(), scope: s.clone(), text: text.clone() }.value()
    }
}
