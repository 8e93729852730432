//! Builds the nodes of ONNX graphs.

use super::runtime::{computed_in, is_operand};
use super::value::{Arg, Dim, Var};
use crate::proto::{GraphProto, NodeProto, StringStringEntryProto, ValueInfoProto};
use crate::types::{Attribute, bytes, dims, element_type};
use flambeau_core::{DType, Error, Result, Tensor, ops};
use std::collections::{HashMap, HashSet};

/// Nodes of a graph that is being built.
#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) nodes: Vec<NodeProto>,
    pub(crate) value_info: Vec<ValueInfoProto>,
    /// By value: the node that makes it.
    makers: HashMap<String, usize>,
}
/// What went wrong in the exporter's own terms: what the report names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Sizes that are not known.
    NoShape,
    /// An operator of a user's without a translation.
    NoCustom,
    /// An operator of PyTorch's without a translation.
    NoStandard,
    /// An operator that a later operator set has.
    NewerOpset,
}

/// Builds an ONNX graph: what translations of operators get.
///
/// Methods add nodes and give the values that they make. Integers that are constants are computed at once; others in the graph.
///
/// ```
/// use torch::onnx::{Arg, Builder, Call, Registry};
/// fn twice(b: &mut Builder, call: &Call) -> torch::Result<Arg> {
///     let x = call.tensor(0, "x")?;
///     Ok(Arg::Var(b.mul_number(&x, 2.0)?))
/// }
/// assert!(Registry::new().register("mine::twice", twice).has("mine.twice.default"));
/// ```
pub struct Builder {
    pub(crate) opset: i64,
    pub(crate) scopes: Vec<Scope>,
    /// Constants and weights, by name.
    pub(crate) initializers: Vec<(String, Tensor)>,
    /// Operator sets beside ONNX's own that nodes use.
    pub(crate) domains: Vec<(String, i64)>,
    small: HashMap<(i32, Vec<i64>, Vec<u8>), Var>,
    names: HashSet<String>,
    counter: usize,
    /// The node of the program that is translated, for names and notes.
    pub(crate) origin: Vec<(String, String)>,
    /// The program's node whose name new nodes bear.
    pub(crate) current: String,
    pub(crate) faults: Vec<(Fault, String)>,
}
impl Builder {
    pub(crate) fn new(opset: i64) -> Builder {
        Builder {
            opset,
            scopes: vec![Scope::default()],
            initializers: Vec::new(),
            domains: Vec::new(),
            small: HashMap::new(),
            names: HashSet::new(),
            counter: 0,
            origin: Vec::new(),
            current: String::new(),
            faults: Vec::new(),
        }
    }
    /// The operator set's version.
    pub fn opset(&self) -> i64 {
        self.opset
    }
    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }
    /// A name that no value has.
    pub(crate) fn unique(&mut self, wish: &str) -> String {
        let mut name = wish.to_string();
        let mut i = 0;
        while name.is_empty() || !self.names.insert(name.clone()) {
            i += 1;
            name = format!("{wish}_{i}");
        }
        name
    }
    fn fresh(&mut self) -> String {
        loop {
            let name = format!("val_{}", self.counter);
            self.counter += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
    /// Begins a graph within the graph.
    pub(crate) fn enter(&mut self) {
        self.scopes.push(Scope::default());
    }
    /// Ends it: what `outputs` hold comes out.
    pub(crate) fn leave(
        &mut self,
        name: &str,
        inputs: Vec<ValueInfoProto>,
        outputs: &[Var],
    ) -> Result<GraphProto> {
        let mut given = Vec::with_capacity(outputs.len());
        let mut seen = HashSet::new();
        for v in outputs {
            // what comes out must be made here, each by a name of its own
            let own = self.scope().makers.contains_key(&v.name) && seen.insert(v.name.clone());
            let v = if own { v.clone() } else { self.identity(v)? };
            seen.insert(v.name.clone());
            let shape: Vec<_> = v.shape.iter().map(|_| None).collect();
            given.push(plain_info(&v.name, v.dtype, &shape)?);
        }
        let scope = self.scopes.pop().unwrap_or_default();
        let name = self.unique(name);
        Ok(GraphProto {
            node: scope.nodes,
            name: Some(name),
            input: inputs,
            output: given,
            value_info: scope.value_info,
            ..Default::default()
        })
    }
    /// Adds a node of any operator set; `outputs` are element types and sizes of what it makes.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn custom(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[&Var],
        attributes: Vec<Attribute>,
        outputs: &[(DType, Vec<Option<i64>>)],
    ) -> Result<Vec<Var>> {
        let mut out = Vec::with_capacity(outputs.len());
        for (d, shape) in outputs {
            element_type(*d)?;
            out.push(Var::new(self.fresh(), *d, shape.clone()));
        }
        let mut input: Vec<String> = inputs.iter().map(|v| v.name.clone()).collect();
        while input.last().is_some_and(String::is_empty) {
            input.pop();
        }
        if !domain.is_empty() && !self.domains.iter().any(|(d, _)| d == domain) {
            self.domains.push((domain.to_string(), 1));
        }
        let wish = if self.current.is_empty() { op.to_string() } else { format!("node_{}", self.current) };
        let name = self.unique(&wish);
        let note = |(k, v): &(String, String)| StringStringEntryProto {
            key: Some(k.clone()),
            value: Some(v.clone()),
        };
        let node = NodeProto {
            input,
            output: out.iter().map(|v| v.name.clone()).collect(),
            name: Some(name),
            op_type: Some(op.to_string()),
            attribute: attributes.into_iter().map(Attribute::into_proto).collect(),
            domain: (!domain.is_empty()).then(|| domain.to_string()),
            metadata_props: self.origin.iter().map(note).collect(),
            ..Default::default()
        };
        let scope = self.scope();
        let at = scope.nodes.len();
        scope.makers.extend(node.output.iter().map(|n| (n.clone(), at)));
        scope.nodes.push(node);
        Ok(out)
    }
    /// Adds a node of ONNX's own operators with several results.
    ///
    /// Where runtimes have no kernel for an element type, the node computes in a wider one, with casts around it.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn nodes(
        &mut self,
        op: &str,
        inputs: &[&Var],
        attributes: Vec<Attribute>,
        outputs: &[(DType, Vec<Option<i64>>)],
    ) -> Result<Vec<Var>> {
        let mut widened: Vec<Var> = Vec::with_capacity(inputs.len());
        let mut changed: Vec<DType> = Vec::new();
        for (i, v) in inputs.iter().enumerate() {
            match computed_in(op, v.dtype).filter(|_| is_operand(op, i) && !v.is_none()) {
                Some(d) => {
                    changed.push(v.dtype);
                    widened.push(self.cast(v, d)?);
                }
                None => widened.push((*v).clone()),
            }
        }
        if changed.is_empty() {
            return self.custom("", op, inputs, attributes, outputs);
        }
        let wide: Vec<(DType, Vec<Option<i64>>)> = outputs
            .iter()
            .map(|(d, s)| {
                (if changed.contains(d) { computed_in(op, *d).unwrap_or(*d) } else { *d }, s.clone())
            })
            .collect();
        let refs: Vec<&Var> = widened.iter().collect();
        let made = self.custom("", op, &refs, attributes, &wide)?;
        made.iter().zip(outputs).map(|(v, (d, _))| self.cast(v, *d)).collect()
    }
    /// Adds a node of ONNX's own operators with one result.
    ///
    /// # Errors
    /// As [`nodes`](Builder::nodes).
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&Var],
        attributes: Vec<Attribute>,
        dtype: DType,
        shape: Vec<Option<i64>>,
    ) -> Result<Var> {
        let mut all = self.nodes(op, inputs, attributes, &[(dtype, shape)])?;
        all.pop().ok_or_else(|| Error::runtime(format!("{op} made nothing")))
    }
    /// A weight: a constant under a name of its own.
    pub(crate) fn weight(&mut self, name: &str, t: &Tensor) -> Result<Var> {
        element_type(t.dtype())?;
        let name = self.unique(name);
        self.initializers.push((name.clone(), t.clone()));
        Ok(Var::new(name, t.dtype(), t.sizes().iter().map(|n| Some(*n)).collect()))
    }
    /// A constant.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn constant(&mut self, t: &Tensor) -> Result<Var> {
        let kind = element_type(t.dtype())?;
        let small = t.numel() <= 64;
        let key = if small { Some((kind, dims(t), bytes(t)?)) } else { None };
        if let Some(k) = &key
            && let Some(v) = self.small.get(k)
            && v.dtype == t.dtype()
        {
            return Ok(v.clone());
        }
        let name = self.fresh();
        self.initializers.push((name.clone(), t.clone()));
        let mut v = Var::new(name, t.dtype(), t.sizes().iter().map(|n| Some(*n)).collect());
        v.constant = Some(t.clone());
        if let Some(k) = key {
            self.small.insert(k, v.clone());
        }
        Ok(v)
    }
    /// A vector of integers.
    ///
    /// # Errors
    /// No memory.
    pub fn ints(&mut self, l: &[i64]) -> Result<Var> {
        let n = l.len() as i64;
        let t = Tensor::from_vec(l.to_vec(), [n]);
        self.constant(&t)
    }
    /// A scalar of any element type.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn scalar(&mut self, x: f64, dtype: DType) -> Result<Var> {
        let t = match dtype {
            // numbers beyond 2^53
            DType::I64 if x.fract() == 0.0 => Tensor::from_vec(vec![x as i64], [0i64; 0]),
            _ => Tensor::from_vec(vec![x], [0i64; 0]).try_to(dtype)?,
        };
        self.constant(&t)
    }
    /// An int64 scalar.
    ///
    /// # Errors
    /// No memory.
    pub fn int(&mut self, n: i64) -> Result<Var> {
        let t = Tensor::from_vec(vec![n], [0i64; 0]);
        self.constant(&t)
    }
    /// The argument as a value of this element type.
    ///
    /// # Errors
    /// An argument that is neither a tensor nor a number.
    pub fn value(&mut self, a: &Arg, dtype: DType) -> Result<Var> {
        match a {
            Arg::Var(v) => self.cast(v, dtype),
            Arg::Int(n) if dtype == DType::I64 => self.int(*n),
            Arg::Int(n) => {
                let t = Tensor::from_vec(vec![*n], [0i64; 0]).try_to(dtype)?;
                self.constant(&t)
            }
            Arg::Float(x) => self.scalar(*x, dtype),
            Arg::Bool(b) => self.scalar(f64::from(u8::from(*b)), dtype),
            Arg::Complex(re, im) if dtype.is_complex() => {
                let parts = Tensor::from_vec(vec![*re, *im], [2i64]);
                let real = if dtype == DType::C128 { DType::F64 } else { DType::F32 };
                let t = ops::view_as_complex(&parts.try_to(real)?)?;
                self.constant(&t)
            }
            other => Err(Error::type_(format!("a tensor or number was expected, not {}", other.kind()))),
        }
    }
    /// The value in another element type.
    ///
    /// # Errors
    /// An element type that ONNX has not.
    pub fn cast(&mut self, v: &Var, dtype: DType) -> Result<Var> {
        if v.dtype == dtype {
            return Ok(v.clone());
        }
        if let Some(c) = &v.constant
            && v.numel().is_some_and(|n| n <= 64)
        {
            let mut out = self.constant(&c.try_to(dtype)?)?;
            out.number = v.number;
            return Ok(out);
        }
        if dtype.is_complex() && !v.dtype.is_complex() {
            return self.complex_of(v, dtype);
        }
        if v.dtype.is_complex() && dtype.is_complex() {
            let attr = vec![Attribute::int("to", i64::from(element_type(dtype)?))];
            let out = self.custom("", "Cast", &[v], attr, &[(dtype, v.shape.clone())])?;
            return Ok(out.into_iter().next().unwrap_or_else(Var::none));
        }
        let v = if v.dtype.is_complex() { &self.real_part(v)? } else { v };
        let from = v;
        // a float's fraction is cut off on the way to small unsigned integers, and negative ones wrap
        let wraps = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::I8 | DType::I16)
            && v.dtype.is_floating();
        let v = if wraps { &self.cast(v, DType::I64)? } else { v };
        let attr = vec![Attribute::int("to", i64::from(element_type(dtype)?))];
        let out = self.custom("", "Cast", &[v], attr, &[(dtype, from.shape.clone())])?;
        let mut out = out.into_iter().next().unwrap_or_else(Var::none);
        out.number = from.number;
        Ok(out)
    }
    /// The same value under another name.
    pub(crate) fn identity(&mut self, v: &Var) -> Result<Var> {
        let out = self.custom("", "Identity", &[v], Vec::new(), &[(v.dtype, v.shape.clone())])?;
        Ok(out.into_iter().next().unwrap_or_else(Var::none))
    }
    /// Gives a value a name, if it was made here and still has the exporter's.
    pub(crate) fn rename(&mut self, v: &mut Var, wish: &str) {
        let made_here = self.scope().makers.contains_key(&v.name);
        if !made_here || !v.name.starts_with("val_") || v.constant.is_some() {
            return;
        }
        let name = self.unique(wish);
        let old = std::mem::replace(&mut v.name, name.clone());
        let scope = self.scope();
        let Some(at) = scope.makers.remove(&old) else { return };
        scope.makers.insert(name.clone(), at);
        for node in &mut scope.nodes[at..] {
            rename_in(node, &old, &name);
        }
    }
    /// Whether a node of the innermost graph makes the value.
    pub(crate) fn is_made_here(&mut self, v: &Var) -> bool {
        self.scope().makers.contains_key(&v.name)
    }
    /// A size as a scalar.
    ///
    /// # Errors
    /// No memory.
    pub fn dim_scalar(&mut self, d: &Dim) -> Result<Var> {
        match d {
            Dim::Int(n) => self.int(*n),
            Dim::Var(v) => self.cast(v, DType::I64),
        }
    }
}
fn rename_in(node: &mut NodeProto, old: &str, new: &str) {
    for s in node.input.iter_mut().chain(&mut node.output) {
        if s == old {
            *s = new.to_string();
        }
    }
    for a in &mut node.attribute {
        if let Some(g) = &mut a.g {
            for n in &mut g.node {
                rename_in(n, old, new);
            }
        }
    }
}
/// A value's name and type, sizes as numbers.
pub(crate) fn plain_info(name: &str, dtype: DType, shape: &[Option<i64>]) -> Result<ValueInfoProto> {
    use flambeau_fx::symbolic::Expr;
    let known: Vec<Expr> = shape
        .iter()
        .map(|n| n.map_or(Expr::Symbol { name: String::new(), positive: false }, Expr::Int))
        .collect();
    let mut info = crate::types::value_info(name, dtype, &known, &str::to_string)?;
    let tensor = info.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
    for d in tensor.and_then(|t| t.shape.as_mut()).map(|s| &mut s.dim).into_iter().flatten() {
        if d.dim_param.as_deref() == Some("") {
            d.dim_param = None;
        }
    }
    Ok(info)
}
