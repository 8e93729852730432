//! Programs of fewer operators (`run_decompositions`): each call becomes what PyTorch makes of it in its core set, and nothing
//! is written in place.
//!
//! Rules compute with plain integers. So a program is decomposed at several choices of its dynamic sizes, as captures are, and what
//! differs becomes expressions of them. The tensors of such a run have the program's sizes, and zeros for elements: rules do not
//! look at elements.

mod autocast;
mod build;
mod rules;
mod run;
mod table;

pub use table::{CustomDecompTable, default_decompositions};

use crate::capture::Captured;
use crate::graph_signature::{ArgumentSpec, InputKind, OutputKind, OutputSpec};
use crate::merge;
use crate::program::ExportedProgram;
use crate::solve::Points;
use crate::tokens;
use crate::write::hints;
use flambeau_core::{Error, Result};
use flambeau_fx::symbolic::{Bindings, Expr};
use flambeau_fx::{Argument, Graph, GraphModule, Op, Val};
use run::Run;
use std::collections::HashSet;

/// The symbols in the sizes of a graph and of those in it.
fn symbols(m: &GraphModule, all: &mut Vec<String>) {
    fn of(v: &Val, all: &mut Vec<String>) {
        match v {
            Val::Tensor(t) => {
                for e in t.shape.iter().chain(&t.stride) {
                    all.extend(e.symbols());
                }
            }
            Val::Sym(s) => all.extend(Expr::read(s).map(|e| e.symbols()).unwrap_or_default()),
            Val::List(l) => l.iter().for_each(|v| of(v, all)),
            Val::None => {}
        }
    }
    for n in m.graph.nodes() {
        if let Some(v) = &m.graph.node(n).meta.val {
            of(v, all);
        }
    }
    for (_, v) in m.attributes() {
        if let flambeau_core::Value::Object(o) = v
            && let Some(child) = o.downcast::<GraphModule>()
        {
            symbols(child, all);
        }
    }
    let mut seen = HashSet::new();
    all.retain(|s| seen.insert(s.clone()));
}
/// Inputs whose sizes are no numbers: name, dimension, expression.
fn sizes(g: &Graph) -> Vec<(String, Option<usize>, Expr)> {
    let mut all = Vec::new();
    for n in g.find_nodes(Op::Placeholder, None) {
        let d = g.node(n);
        match &d.meta.val {
            Some(Val::Tensor(t)) => {
                for (i, e) in t.shape.iter().enumerate().filter(|(_, e)| e.as_int().is_none()) {
                    all.push((d.name.clone(), Some(i), e.clone()));
                }
            }
            Some(Val::Sym(s)) => all.extend(Expr::read(s).ok().map(|e| (d.name.clone(), None, e))),
            _ => {}
        }
    }
    all
}
/// The graphs of all choices as one.
fn merged(source: &GraphModule, captures: &[Captured], points: &Points) -> Result<merge::Merged> {
    let Some((first, others)) = captures.split_first() else {
        return Err(Error::runtime("a program without a choice of sizes"));
    };
    if let Some(why) = others.iter().find_map(|c| merge::same_way(first, c)) {
        return Err(Error::missing(format!(
            "the decomposition of a program that is another at other sizes: {why}"
        )));
    }
    let mut out = merge::merge(captures, points, &sizes(&source.graph))?;
    // graphs whose nodes took their place
    out.module.delete_all_unused_submodules();
    Ok(out)
}
/// The graph gives these results.
fn finish(m: &mut GraphModule, output: Vec<Argument>) {
    if let Some(n) = m.graph.output_node() {
        m.graph.set_args(n, vec![Argument::Tuple(output)]);
    }
}

impl ExportedProgram {
    /// The program in the operators of PyTorch's core set: composites become their parts, and what is written in place becomes new
    /// values, which are results for buffers and inputs. `table` says which operators are decomposed; operators without a
    /// decomposition stay.
    ///
    /// ```
    /// use torch::export::{self, default_decompositions};
    /// use torch::{Tensor, nn, prelude::*};
    ///
    /// let net = nn::Linear::new(2, 3);
    /// let x = torch::ones([4, 2]);
    /// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
    /// let core = p.run_decompositions(&default_decompositions()).unwrap();
    /// assert_eq!(core.operators(), ["aten.addmm.default", "aten.permute.default"]);
    /// let mut table = default_decompositions();
    /// table.remove("aten.linear.default");
    /// assert_eq!(p.run_decompositions(&table).unwrap().operators(), ["aten.linear.default"]);
    /// ```
    ///
    /// # Errors
    /// Writes to views that cannot be put into the whole; programs whose decomposition depends on the sizes.
    #[doc(alias = "torch.export.ExportedProgram.run_decompositions")]
    pub fn run_decompositions(&self, table: &CustomDecompTable) -> Result<ExportedProgram> {
        let source = &self.graph_module;
        let mut names = Vec::new();
        symbols(source, &mut names);
        let known = hints(self);
        let of = |name: &str| self.range_constraints.iter().find(|(n, _)| n == name).map(|(_, r)| *r);
        let choices: Vec<(String, i64, i64, i64)> = names
            .iter()
            .map(|n| {
                let range = of(n);
                let min = range.and_then(|r| r.min).unwrap_or(2).max(2);
                let max = range.and_then(|r| r.max).unwrap_or(i64::MAX);
                let at = known.get(n).copied().unwrap_or(3).max(min).min(max);
                (n.clone(), at, min, max)
            })
            .collect();
        let points = Points::new(&choices);
        let (mut all, mut written) = (Vec::new(), Vec::new());
        for p in &points.all {
            let at: Bindings = points.names.iter().cloned().zip(p.iter().copied()).collect();
            let (module, writes) = Run::new(source, table, &at).whole(self)?;
            all.push(Captured::of(module));
            written = writes;
        }
        let mut m = merged(source, &all, &points)?;
        let mut out = self.clone();
        let mut specs = Vec::new();
        for (a, w) in m.output.iter().zip(&written) {
            let name = match a {
                Argument::Node(n) => m.module.graph.node(*n).name.clone(),
                _ => String::new(),
            };
            specs.push(OutputSpec {
                kind: w.kind,
                arg: ArgumentSpec::Tensor(name),
                target: Some(w.target.clone()),
            });
        }
        for (a, s) in m.output.iter().skip(written.len()).zip(&self.graph_signature.output_specs) {
            let mut s = s.clone();
            if let Argument::Node(n) = a {
                let name = m.module.graph.node(*n).name.clone();
                s.arg = match s.arg {
                    ArgumentSpec::Tensor(_) => ArgumentSpec::Tensor(name),
                    ArgumentSpec::SymInt(_) => ArgumentSpec::SymInt(name),
                    ArgumentSpec::SymFloat(_) => ArgumentSpec::SymFloat(name),
                    ArgumentSpec::SymBool(_) => ArgumentSpec::SymBool(name),
                    ArgumentSpec::Token(_) => ArgumentSpec::Token(name),
                    other => other,
                };
            }
            specs.push(s);
        }
        let output = std::mem::take(&mut m.output);
        finish(&mut m.module, output);
        out.graph_module = m.module;
        out.graph_signature.output_specs = specs;
        tokens::added(&mut out)?;
        Ok(out)
    }
}
/// What a write to an input is in the signature.
fn kind_of(k: InputKind) -> OutputKind {
    match k {
        InputKind::Parameter => OutputKind::ParameterMutation,
        InputKind::UserInput => OutputKind::UserInputMutation,
        _ => OutputKind::BufferMutation,
    }
}
