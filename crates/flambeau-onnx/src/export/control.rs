//! Branches and loops as graphs within graphs.

use super::walk::{Walk, as_value};
use crate::build::{Arg, Call, Var, plain_info};
use crate::proto::GraphProto;
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};
use flambeau_fx::GraphModule;
use std::rc::Rc;

fn graph(c: &Call, at: usize) -> Result<Rc<GraphModule>> {
    match c.arg(at, "") {
        Arg::Graph(g) => Ok(g.clone()),
        other => Err(Error::type_(format!("a graph was expected, not {}", other.kind()))),
    }
}
fn items(c: &Call, at: usize) -> Vec<Arg> {
    match c.arg(at, "") {
        Arg::None => Vec::new(),
        Arg::List(l) => l.clone(),
        one => vec![one.clone()],
    }
}
fn values(all: &[Option<Var>]) -> Vec<Var> {
    all.iter().flatten().cloned().collect()
}
/// Results at the places of those that are values.
fn spread(places: &[Option<Var>], made: Vec<Var>) -> Arg {
    let mut made = made.into_iter();
    let one = |p: &Option<Var>| match p {
        Some(_) => made.next().map_or(Arg::None, Arg::Var),
        None => Arg::None,
    };
    Arg::List(places.iter().map(one).collect())
}
type Types = Vec<(DType, Vec<Option<i64>>)>;
fn types(all: &[Var]) -> Types {
    all.iter().map(|v| (v.dtype, v.shape.clone())).collect()
}
impl Walk<'_> {
    /// Calls of `torch.ops.higher_order`.
    pub(super) fn higher(&mut self, name: &str, c: &Call) -> Result<Arg> {
        match name {
            "cond" => self.cond(c),
            "while_loop" => self.while_loop(c),
            "map_impl" => {
                let xs = items(c, 1);
                let g = graph(c, 0)?;
                self.scan(&g, &[], &xs, &items(c, 2))
            }
            "scan" => {
                let (init, xs) = (items(c, 1), items(c, 2));
                let g = graph(c, 0)?;
                self.scan(&g, &init, &xs, &items(c, 3))
            }
            "associative_scan" => self.associative_scan(c),
            "with_effects" => {
                // (token, operator, arguments..): what it gives, behind the token
                let Arg::Operator(op) = c.arg(1, "") else {
                    return Err(Error::type_("with_effects of no operator"));
                };
                let inner = Call {
                    target: super::walk::plain(op).to_string(),
                    args: c.args.get(2..).unwrap_or(&[]).to_vec(),
                    kwargs: c.kwargs.clone(),
                    result: None,
                };
                let checks =
                    inner.target.starts_with("aten._assert") || inner.target.starts_with("aten._print");
                if checks {
                    return Ok(Arg::List(vec![Arg::None, Arg::None]));
                }
                Err(Error::missing(format!("{} with effects as ONNX", inner.target)))
            }
            // regions: the graph, and what it gets
            _ => {
                let at = c.args.iter().position(|a| matches!(a, Arg::Graph(_)));
                let Some(at) = at.filter(|_| is_region(name)) else {
                    return Err(Error::missing(format!("torch.ops.higher_order.{name} as ONNX")));
                };
                let g = graph(c, at)?;
                let mut inputs: Vec<Arg> =
                    c.args[at + 1..].iter().filter(|a| !matches!(a, Arg::Str(_))).cloned().collect();
                if let [Arg::List(l)] = &inputs[..] {
                    inputs = l.clone();
                }
                Ok(Arg::List(self.run(&g, &inputs)?))
            }
        }
    }
    fn cond(&mut self, c: &Call) -> Result<Arg> {
        let inputs = items(c, 3);
        if let Arg::Bool(yes) = c.arg(0, "") {
            let g = graph(c, if *yes { 1 } else { 2 })?;
            return Ok(Arg::List(self.run(&g, &inputs)?));
        }
        let pred = c.tensor(0, "pred")?;
        let pred = self.b.cast(&pred, DType::Bool)?;
        let pred = if pred.rank() == 0 { pred } else { self.b.reshape_to(&pred, &[])? };
        let mut made: Vec<(GraphProto, Vec<Option<Var>>)> = Vec::new();
        for (at, name) in [(1, "true_graph"), (2, "false_graph")] {
            let g = graph(c, at)?;
            self.b.enter();
            let out = self.run(&g, &inputs)?;
            let places = out.iter().map(|a| as_value(&mut self.b, a)).collect::<Result<Vec<_>>>()?;
            let proto = self.b.leave(name, Vec::new(), &values(&places))?;
            made.push((proto, places));
        }
        let [(yes, places), (no, others)] =
            <[_; 2]>::try_from(made).map_err(|_| Error::runtime("two branches"))?;
        let (a, z) = (values(&places), values(&others));
        if a.len() != z.len() || a.iter().zip(&z).any(|(a, z)| a.dtype != z.dtype) {
            return Err(Error::runtime("branches that give different values"));
        }
        let outputs: Types = a
            .iter()
            .zip(&z)
            .map(|(a, z)| {
                let same = a.rank() == z.rank();
                let both = a.shape.iter().zip(&z.shape).map(|(p, q)| p.filter(|_| p == q)).collect();
                (a.dtype, if same { both } else { a.shape.clone() })
            })
            .collect();
        let attr = vec![Attribute::graph("then_branch", yes), Attribute::graph("else_branch", no)];
        let out = self.b.nodes("If", &[&pred], attr, &outputs)?;
        Ok(spread(&places, out))
    }
    /// Inputs of a loop's body, with their descriptions.
    fn inputs(
        &mut self,
        name: &str,
        of: &[(DType, Vec<Option<i64>>, bool)],
    ) -> Result<(Vec<Var>, Vec<crate::proto::ValueInfoProto>)> {
        let (mut vars, mut infos) = (Vec::new(), Vec::new());
        for (d, shape, number) in of {
            let mut v = Var::new(self.b.unique(name), *d, shape.clone());
            v.number = *number;
            infos.push(plain_info(&v.name, *d, shape)?);
            vars.push(v);
        }
        Ok((vars, infos))
    }
    fn while_loop(&mut self, c: &Call) -> Result<Arg> {
        let (test, body) = (graph(c, 0)?, graph(c, 1)?);
        let (carried, more) = (items(c, 2), items(c, 3));
        let begin = carried.iter().map(|a| as_value(&mut self.b, a)).collect::<Result<Vec<_>>>()?;
        let begin = values(&begin);
        let truth = |w: &mut Self, inputs: &[Arg]| -> Result<Var> {
            let out = w.run(&test, inputs)?;
            let a = out.first().ok_or_else(|| Error::runtime("a condition that gives nothing"))?;
            let v = as_value(&mut w.b, a)?.ok_or_else(|| Error::runtime("a condition that gives nothing"))?;
            let v = w.b.cast(&v, DType::Bool)?;
            if v.rank() == 0 { Ok(v) } else { w.b.reshape_to(&v, &[]) }
        };
        let first: Vec<Arg> = begin.iter().cloned().map(Arg::Var).chain(more.iter().cloned()).collect();
        let go = truth(self, &first)?;
        self.b.enter();
        let mut of = vec![(DType::I64, Vec::new(), false), (DType::Bool, Vec::new(), false)];
        of.extend(
            begin.iter().zip(&carried).map(|(v, a)| {
                (v.dtype, v.shape.clone(), v.number || matches!(a, Arg::Int(_) | Arg::Float(_)))
            }),
        );
        let (vars, infos) = self.inputs("loop_in", &of)?;
        let inputs: Vec<Arg> = vars[2..].iter().cloned().map(Arg::Var).chain(more.iter().cloned()).collect();
        let next = self.run(&body, &inputs)?;
        let mut after = Vec::new();
        for (a, v) in next.iter().zip(&begin) {
            let x = as_value(&mut self.b, a)?.ok_or_else(|| Error::runtime("a loop that carries nothing"))?;
            after.push(self.b.cast(&x, v.dtype)?);
        }
        let inputs: Vec<Arg> = after.iter().cloned().map(Arg::Var).chain(more).collect();
        let mut out = vec![truth(self, &inputs)?];
        out.extend(after);
        let proto = self.b.leave("loop_body", infos, &out)?;
        let mut given = vec![Var::none(), go];
        given.extend(begin.iter().cloned());
        let refs: Vec<&Var> = given.iter().collect();
        let made = self.b.nodes("Loop", &refs, vec![Attribute::graph("body", proto)], &types(&begin))?;
        let numbers = of[2..].iter().map(|o| o.2);
        let made = made.into_iter().zip(numbers).map(|(mut v, number)| {
            v.number = number;
            v
        });
        Ok(made.collect::<Vec<_>>().into())
    }
    /// A graph over what is carried and the elements of the first dimension.
    fn scan(&mut self, g: &GraphModule, init: &[Arg], xs: &[Arg], more: &[Arg]) -> Result<Arg> {
        let mut begin = Vec::new();
        for a in init {
            let v = as_value(&mut self.b, a)?.ok_or_else(|| Error::runtime("a scan that carries nothing"))?;
            begin.push(v);
        }
        let mut elements = Vec::new();
        for a in xs {
            match a {
                Arg::Var(v) if v.rank() > 0 => elements.push(v.clone()),
                other => return Err(Error::type_(format!("a scan over {}", other.kind()))),
            }
        }
        self.b.enter();
        let mut of: Vec<_> = begin.iter().map(|v| (v.dtype, v.shape.clone(), v.number)).collect();
        of.extend(elements.iter().map(|v| (v.dtype, v.shape[1..].to_vec(), false)));
        let (vars, infos) = self.inputs("scan_in", &of)?;
        let inputs: Vec<Arg> = vars.into_iter().map(Arg::Var).chain(more.iter().cloned()).collect();
        let out = self.run(g, &inputs)?;
        let mut made = Vec::new();
        for (i, a) in out.iter().enumerate() {
            let v = as_value(&mut self.b, a)?.ok_or_else(|| Error::runtime("a scan that gives nothing"))?;
            made.push(match begin.get(i) {
                Some(b) => self.b.cast(&v, b.dtype)?,
                None => v,
            });
        }
        let n = elements.first().and_then(|v| v.shape[0]);
        let proto = self.b.leave("scan_body", infos, &made)?;
        let mut outputs = types(&begin);
        outputs.extend(made[begin.len()..].iter().map(|v| {
            let mut s = vec![n];
            s.extend(&v.shape);
            (v.dtype, s)
        }));
        let all: Vec<&Var> = begin.iter().chain(&elements).collect();
        let attr =
            vec![Attribute::graph("body", proto), Attribute::int("num_scan_inputs", elements.len() as i64)];
        Ok(self.b.nodes("Scan", &all, attr, &outputs)?.into())
    }
    /// One element after the other: the results are the same.
    fn associative_scan(&mut self, c: &Call) -> Result<Arg> {
        let g = graph(c, 0)?;
        let xs = items(c, 1);
        let more = items(c, 2);
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        let zero = self.b.int(0)?;
        for a in &xs {
            let Arg::Var(v) = a else { return Err(Error::type_("a scan over what is no tensor")) };
            first.push(self.b.gather(v, &zero, 0)?);
            rest.push(Arg::Var(self.b.narrow(v, 0, 1, i64::MAX)?));
        }
        let n = first.len();
        self.b.enter();
        let mut of: Vec<_> = first.iter().map(|v| (v.dtype, v.shape.clone(), false)).collect();
        of.extend(first.iter().map(|v| (v.dtype, v.shape.clone(), false)));
        let (vars, infos) = self.inputs("scan_in", &of)?;
        let inputs: Vec<Arg> = vars.into_iter().map(Arg::Var).chain(more).collect();
        let out = self.run(&g, &inputs)?;
        let mut made = Vec::new();
        for a in out {
            let v = as_value(&mut self.b, &a)?.ok_or_else(|| Error::runtime("a scan that gives nothing"))?;
            made.push(v);
        }
        let twice: Vec<Var> = made.iter().chain(&made).cloned().collect();
        let proto = self.b.leave("scan_body", infos, &twice)?;
        let mut outputs = types(&first);
        outputs.extend(first.iter().map(|v| {
            let mut s = vec![None];
            s.extend(&v.shape);
            (v.dtype, s)
        }));
        let rest: Vec<Var> = rest.iter().filter_map(Arg::var).cloned().collect();
        let all: Vec<&Var> = first.iter().chain(&rest).collect();
        let attr = vec![Attribute::graph("body", proto), Attribute::int("num_scan_inputs", n as i64)];
        let out = self.b.nodes("Scan", &all, attr, &outputs)?;
        let mut joined = Vec::new();
        for (f, y) in first.iter().zip(&out[n..]) {
            let f = self.b.unsqueeze(f, &[0])?;
            joined.push(self.b.concat(&[f, y.clone()], 0)?);
        }
        Ok(joined.into())
    }
}
/// Whether the operator runs its graph as it is.
fn is_region(name: &str) -> bool {
    matches!(
        name,
        "wrap_with_set_grad_enabled"
            | "wrap_with_autocast"
            | "wrap"
            | "invoke_subgraph"
            | "tag_activation_checkpoint"
            | "hints_wrapper"
            | "strict_mode"
            | "wrap_activation_checkpoint"
            | "wrap_with_inference_mode"
    )
}
