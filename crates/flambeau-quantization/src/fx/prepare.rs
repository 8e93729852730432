//! Observers in a graph.

use super::backend_config::{BackendConfig, BackendPatternConfig, DTypeConfig};
use super::custom_config::PrepareCustomConfig;
use super::matching::{Match, find_matches};
use super::nodes::{
    class_of, module, object, object_type, observe, watcher, weight_and_bias, without_tensors,
};
use super::own::{self, Own, Standalone};
use super::{Notes, PrepareFxOptions, Scope};
use crate::nn::qat::Qat;
use crate::object_types::{ObjectType, same};
use crate::observers::{ObserverClass, ObserverSpec};
use crate::qconfig::{Make, QConfig};
use crate::qconfig_mapping::QConfigMapping;
use crate::stubs::Fused;
use flambeau_core::{DType, Error, Result, ensure};
use flambeau_fx::{Argument, GraphModule, Node, Op};
use flambeau_nn::Module;
use std::collections::{HashMap, HashSet};

/// The module around each node: its path and class; of a call of a module that module itself.
pub(super) fn scopes(m: &GraphModule) -> HashMap<String, Scope> {
    let of = |n: Node| {
        let d = m.graph.node(n);
        if d.op == Op::CallModule {
            return (d.target.clone(), object_type(m, n).unwrap_or_default());
        }
        let inside = d.meta.nn_module_stack.last();
        inside.map_or_else(Scope::default, |(_, path, class)| (path.clone(), format!("torch.nn.{class}")))
    };
    m.graph.nodes().map(|n| (m.graph.node(n).name.clone(), of(n))).collect()
}
/// Layers that were joined go by what is said of the classes of their parts.
fn with_fused(m: &GraphModule, mut q: QConfigMapping) -> Result<QConfigMapping> {
    for n in m.graph.nodes() {
        let parts = module(m, n, |r| {
            let Some(f) = r.as_module().downcast_ref::<Fused>() else { return Ok(None) };
            let parts = (0..).map_while(|i| f.part(i)).map(|p| class_of(p.as_module())).collect::<Vec<_>>();
            Ok(Some((class_of(f), parts)))
        })?;
        let Some(Some((class, parts))) = parts else { continue };
        let said: Vec<Option<Option<QConfig>>> = parts.iter().map(|p| q.of_type(p)).collect();
        if let Some(i) = (1..said.len()).find(|i| said[*i] != said[0]) {
            return Err(Error::index(format!(
                "During fusion, we need to specify the same qconfigs for all module types in {class} offending type: {}",
                parts[i]
            )));
        }
        if let Some(Some(said)) = said.into_iter().next() {
            q = q.set_object_type(&class, said);
        }
    }
    Ok(q)
}
/// The configuration of each node.
fn qconfigs(
    m: &GraphModule,
    q: &QConfigMapping,
    scopes: &HashMap<String, Scope>,
) -> HashMap<String, Option<QConfig>> {
    let mut seen: HashMap<(String, ObjectType), usize> = HashMap::new();
    let mut number = |path: &str, t: &str| {
        let n = seen.entry((path.to_string(), ObjectType::of(t))).or_insert(0);
        *n += 1;
        *n - 1
    };
    let global = || q.global().cloned();
    let parent = |path: &str| path.rsplit_once('.').map_or(String::new(), |(p, _)| p.to_string());
    let mut all = HashMap::new();
    for n in m.graph.nodes() {
        let d = m.graph.node(n);
        let (path, class) = scopes.get(&d.name).cloned().unwrap_or_default();
        let found = match d.op {
            Op::GetAttr => q.named(&parent(&d.target), &class).unwrap_or_else(global),
            Op::CallFunction => {
                let own = q.of_type(&d.target).unwrap_or_else(global);
                let found = q.named(&path, &class).unwrap_or(own);
                q.of_call(&path, &d.target, number(&path, &d.target)).unwrap_or(found)
            }
            Op::CallMethod => {
                let own = q.named(&path, &d.target).unwrap_or_else(global);
                q.named(&path, &class).unwrap_or(own)
            }
            Op::CallModule if watcher(m, n).is_some() => continue,
            Op::CallModule => {
                let found = q.named(&d.target, &class).unwrap_or_else(global);
                let above = parent(&path);
                let at = number(&above, &class);
                q.of_call(&above, &class, at).unwrap_or(found)
            }
            _ => None,
        };
        all.insert(d.name.clone(), found);
    }
    all
}
/// Layers that round their weights in the place of those that are to be trained so.
fn train_rounded(
    m: &mut GraphModule,
    qconfigs: &HashMap<String, Option<QConfig>>,
    backend: &BackendConfig,
) -> Result<()> {
    let calls = m.graph.find_nodes(Op::CallModule, None);
    for n in calls {
        let d = m.graph.node(n);
        let (path, Some(Some(q))) = (d.target.clone(), qconfigs.get(&d.name)) else { continue };
        let new = module(m, n, |r| {
            if backend.trained(&class_of(r.as_module())).is_none() {
                return Ok(None);
            }
            let new = Qat::of_graph(r.as_module(), q)?;
            if let Some(new) = &new {
                new.set_training(r.is_training());
            }
            Ok(new)
        })?;
        if let Some(Some(new)) = new {
            m.set_module(&path, object(Box::new(new)));
        }
    }
    Ok(())
}

/// What is observed around a node.
#[derive(Clone)]
struct Info {
    /// Of inputs and results; nothing of what is no tensor of numbers.
    activation: Option<Make>,
    weight: Option<Make>,
    bias: DType,
    places: Option<(usize, usize)>,
    /// The observer of the input is that of the results.
    reuse: bool,
    share: bool,
}
impl Info {
    fn float() -> Info {
        Info::of(Some(placeholder(DType::F32)))
    }
    fn of(activation: Option<Make>) -> Info {
        Info { activation, weight: None, bias: DType::F32, places: None, reuse: false, share: false }
    }
}
fn placeholder(d: DType) -> Make {
    Make::Observer(ObserverSpec::new(ObserverClass::Placeholder).dtype(d))
}
fn is_dynamic(make: &Make) -> bool {
    match make {
        Make::Observer(o) => o.is_dynamic,
        Make::FakeQuantize(f) => f.observer.is_dynamic,
        Make::Identity => false,
    }
}
fn kind(make: Option<&Make>) -> (Option<DType>, bool) {
    make.map_or((None, false), |m| (m.dtype(), is_dynamic(m)))
}
fn is_observed(d: Option<DType>) -> bool {
    use DType::*;
    matches!(d, Some(QU8 | QI8 | QI32 | F16 | U8 | I8 | I16 | I32 | F8E5M2 | F8E4M3))
}
/// Whether an observer stands between what gives one dtype and what takes another.
fn needed(given: Option<DType>, wanted: (Option<DType>, bool), reuse: bool, is_first: bool) -> bool {
    match wanted {
        (_, true) => is_first,
        _ if reuse => false,
        (d, _) => is_observed(d) && d != given && (is_observed(given) || given == Some(DType::F32)),
    }
}
/// Functions whose weight stays as it is.
const WHOLE_WEIGHT: &[&str] = &["layer_norm", "group_norm", "instance_norm"];

struct Prepare<'a> {
    m: &'a mut GraphModule,
    infos: HashMap<Node, Info>,
    backend: &'a BackendConfig,
}
impl Prepare<'_> {
    fn info(&self, n: Node) -> Info {
        self.infos.get(&n).cloned().unwrap_or_else(Info::float)
    }
    /// What stands behind observers: the node that gives the numbers.
    fn observed_node(&self, n: Node) -> Node {
        match watcher(self.m, n) {
            Some(_) => super::nodes::argument(self.m, n, 0).unwrap_or(n),
            None => n,
        }
    }
    fn given(&self, n: Node) -> Option<DType> {
        kind(self.info(self.observed_node(n)).activation.as_ref()).0
    }
    /// How an argument of a node is to be observed.
    fn wanted(&self, n: Node, arg: Node, info: &Info) -> Option<Make> {
        let (weight, bias) = weight_and_bias(self.m, n, info.places);
        if weight == Some(arg) {
            let whole = object_type(self.m, n)
                .is_some_and(|t| ObjectType::of(&t).call().is_some_and(|c| WHOLE_WEIGHT.contains(&c)));
            return info.weight.clone().filter(|_| !whole);
        }
        if bias == Some(arg) { Some(placeholder(info.bias)) } else { info.activation.clone() }
    }
    fn input(&mut self, n: Node, arg: &Argument, info: &Info, first: Option<Node>) -> Result<Argument> {
        let arg = match arg {
            Argument::Node(a) => *a,
            Argument::List(l) => {
                let l = l.iter().map(|a| self.input(n, a, info, first)).collect::<Result<_>>()?;
                return Ok(Argument::List(l));
            }
            Argument::Tuple(l) => {
                let l = l.iter().map(|a| self.input(n, a, info, first)).collect::<Result<_>>()?;
                return Ok(Argument::Tuple(l));
            }
            other => return Ok(other.clone()),
        };
        let Some(make) = self.wanted(n, arg, info) else { return Ok(arg.into()) };
        if !needed(self.given(arg), kind(Some(&make)), info.reuse, first == Some(arg)) {
            return Ok(arg.into());
        }
        // one observer serves all who want the same
        let users = self.m.graph.node(arg).users().to_vec();
        let there = users.into_iter().find(|u| watcher(self.m, *u).is_some_and(|w| w.is_like(&make)));
        Ok(match there {
            Some(u) => u,
            None => observe(self.m, arg, &make)?,
        }
        .into())
    }
    fn inputs(&mut self, n: Node) -> Result<()> {
        let info = self.info(n);
        let d = self.m.graph.node(n);
        let (args, kwargs) = (d.args().to_vec(), d.kwargs().to_vec());
        let first = args.first().and_then(Argument::node);
        let args = args.iter().map(|a| self.input(n, a, &info, first)).collect::<Result<Vec<_>>>()?;
        let kwargs = kwargs.iter().map(|(k, a)| Ok((k.clone(), self.input(n, a, &info, first)?)));
        let kwargs = kwargs.collect::<Result<Vec<_>>>()?;
        self.m.graph.set_args(n, args);
        self.m.graph.set_kwargs(n, kwargs);
        Ok(())
    }
    /// Observes what a module is to be given as integers.
    fn given_integers(&mut self, n: Node, indexes: &[usize], q: &QConfig) -> Result<()> {
        let mut args = self.m.graph.node(n).args().to_vec();
        for (i, a) in args.iter_mut().enumerate() {
            let Argument::Node(from) = *a else { continue };
            if !indexes.contains(&i) || self.given(from) == Some(DType::QU8) {
                continue;
            }
            let users = self.m.graph.node(from).users().to_vec();
            let like = |u: &Node| watcher(self.m, *u).is_some_and(|w| w.is_like(&q.activation));
            let there = users.into_iter().find(like);
            *a = match there {
                Some(u) => u,
                None => observe(self.m, from, &q.activation)?,
            }
            .into();
        }
        self.m.graph.set_args(n, args);
        Ok(())
    }
    fn output(&mut self, n: Node) -> Result<()> {
        let info = self.info(n);
        let Some(make) = info.activation.as_ref().filter(|m| !is_dynamic(m)) else { return Ok(()) };
        if !needed(Some(DType::F32), kind(Some(make)), false, false) {
            return Ok(());
        }
        let users = self.m.graph.node(n).users().to_vec();
        let new = observe(self.m, n, make)?;
        for u in users {
            self.m.graph.replace_input(u, n, new);
        }
        let first = super::nodes::argument(self.m, n, 0);
        let given_quantized = matches!(make.dtype(), Some(DType::QU8 | DType::U8))
            && first.is_some_and(|a| self.m.graph.node(a).op == Op::Placeholder);
        if ((info.share && !given_quantized) || info.reuse) && !self.shared(n, new)? {
            self.m.graph.replace_all_uses_with(new, n);
            self.m.graph.erase_node(new)?;
        }
        Ok(())
    }
    /// The observer that the numbers of a node come from, through nodes that observe nothing.
    fn observer_before(&self, n: Node) -> Option<Node> {
        let mut at = n;
        for _ in 0..self.m.graph.len() {
            if watcher(self.m, at).is_some() {
                return Some(at);
            }
            if self.m.graph.node(at).op == Op::Placeholder {
                return None;
            }
            at = self.m.graph.node(at).args().iter().find_map(Argument::node)?;
        }
        None
    }
    /// Makes all inputs and the results of a node go by the first input's observer; says whether there is one.
    fn shared(&mut self, n: Node, result: Node) -> Result<bool> {
        let args = self.m.graph.node(n).args();
        let first = args.iter().find(|a| a.node().is_some() || a.items().is_some());
        let inputs: Vec<Node> = match first {
            Some(Argument::Node(n)) => vec![*n],
            Some(a) => a.items().unwrap_or(&[]).iter().filter_map(Argument::node).collect(),
            None => return Ok(false),
        };
        let Some(from) = inputs.first().and_then(|n| self.observer_before(*n)) else { return Ok(false) };
        let observer = self.m.submodule(&self.m.graph.node(from).target.clone())?;
        let mut others = vec![result];
        for n in &inputs[1..] {
            match self.observer_before(*n) {
                Some(o) => others.push(o),
                None => return Ok(false),
            }
        }
        for o in others {
            let path = self.m.graph.node(o).target.clone();
            self.m.set_module(&path, observer.clone());
        }
        Ok(true)
    }
    /// Whether the engine takes the dtypes that a configuration asks of a pattern.
    fn is_supported(&self, found: &Match<'_>, q: &QConfig) -> bool {
        let (root, info) = (found.root(), self.info(found.root()));
        let d = self.m.graph.node(root);
        let mut args: Vec<Node> = Vec::new();
        d.args().iter().chain(d.kwargs().iter().map(|(_, a)| a)).for_each(|a| a.each(&mut |n| args.push(n)));
        let (weight, bias) = weight_and_bias(self.m, root, info.places);
        let takes = |c: &DTypeConfig| {
            args.iter().all(|a| {
                if weight == Some(*a) {
                    let d = info.weight.as_ref().and_then(Make::dtype);
                    return c.weight.dtype.is_none() || (c.weight.dtype == d && c.weight.holds(&q.weight));
                }
                if bias == Some(*a) {
                    return c.bias_dtype.is_none_or(|d| d == info.bias);
                }
                let (d, dynamic) = kind(info.activation.as_ref());
                c.input.dtype.is_none()
                    || (c.input.dtype == d && c.is_dynamic == dynamic && c.input.holds(&q.activation))
            }) && {
                let out = kind(self.info(found.last()).activation.as_ref());
                let d = if out.1 { Some(DType::F32) } else { out.0 };
                c.output.dtype.is_none() || (c.output.dtype == d && c.output.holds(&q.activation))
            }
        };
        found.config.dtype_configs.iter().any(takes)
    }
}
/// How many of a call's arguments are tensors.
fn tensors(m: &GraphModule, n: Node) -> usize {
    m.graph.node(n).args().iter().filter_map(Argument::node).filter(|a| !without_tensors(m, *a)).count()
}
fn is_reuse(q: &QConfig) -> bool {
    matches!(&q.activation, Make::Observer(o) if o.class == ObserverClass::ReuseInput)
}
/// Arguments that are no numbers to be observed: masks and places.
fn is_index(m: &GraphModule, n: Node, i: usize) -> bool {
    let d = m.graph.node(n);
    match (d.op, ObjectType::of(&d.target).call()) {
        (Op::CallMethod | Op::CallFunction, Some(name)) => match name {
            "masked_fill" => i == 1,
            "permute" | "repeat" | "reshape" | "size" | "transpose" | "unsqueeze" | "unsqueeze_" | "view" => {
                i >= 1
            }
            "getitem" => i == 1,
            _ => false,
        },
        _ => false,
    }
}

/// Puts observers into a captured graph whose layers were joined.
pub(super) fn prepare(
    m: &mut GraphModule,
    mapping: &QConfigMapping,
    is_qat: bool,
    custom: &PrepareCustomConfig,
    backend: &BackendConfig,
) -> Result<Notes> {
    let mut mapping = with_fused(m, mapping.clone())?;
    if is_qat {
        let scopes = scopes(m);
        train_rounded(m, &qconfigs(m, &mapping, &scopes), backend)?;
        for (t, q) in mapping.object_types().to_vec() {
            if let Some(trained) = backend.trained(&t) {
                mapping = mapping.set_object_type(trained, q);
            }
        }
    }
    let scopes = scopes(m);
    let qconfigs = qconfigs(m, &mapping, &scopes);
    let mut matches = find_matches(m, backend.configs().iter());
    let own = BackendPatternConfig::new(&[]);
    let whole = whole_calls(m);
    matches.retain(|f| !f.nodes.iter().any(|n| whole.contains_key(n)));
    matches.extend(whole.keys().map(|n| Match { nodes: vec![*n], config: &own }));
    let qconfig = |m: &GraphModule, n: Node| qconfigs.get(&m.graph.node(n).name).cloned().flatten();
    let mut standalone = HashMap::new();
    for n in whole.keys() {
        let path = m.graph.node(*n).target.clone();
        let q = qconfig(m, *n);
        let Some(done) = own::object(m, *n, |s: &Standalone| by_itself(s, q, is_qat, backend)) else {
            continue;
        };
        let (graph, notes) = done?;
        m.set_graph(&path, graph);
        standalone.extend(notes.map(|n| (path, n)));
    }
    let mut p = Prepare { m, infos: HashMap::new(), backend };

    for found in &matches {
        let shares = found.config.shares(tensors(p.m, found.root()));
        for n in &found.nodes {
            let Some(q) = qconfig(p.m, *n) else { continue };
            if without_tensors(p.m, *n) {
                p.infos.insert(*n, Info::of(None));
                continue;
            }
            let half = |m: &Make| m.dtype() == Some(DType::F16);
            let bias = if half(&q.activation) && half(&q.weight) && !is_dynamic(&q.activation) {
                DType::F16
            } else {
                DType::F32
            };
            let places = object_type(p.m, *n).and_then(|t| p.backend.of(&t)?.weight_and_bias);
            p.infos.insert(
                *n,
                Info {
                    activation: Some(q.activation.clone()),
                    weight: Some(q.weight.clone()),
                    bias,
                    places,
                    reuse: is_reuse(&q),
                    share: shares,
                },
            );
        }
    }
    let all: Vec<Node> = p.m.graph.nodes().collect();
    let quantized = Info::of(Some(placeholder(DType::QU8)));
    let inputs = all.iter().filter(|n| p.m.graph.node(**n).op == Op::Placeholder);
    for (i, n) in inputs.enumerate() {
        if custom.input_quantized_indexes.contains(&i) {
            p.infos.insert(*n, quantized.clone());
        }
    }
    for n in &all {
        if matches!(p.m.graph.node(*n).op, Op::CallModule | Op::CallMethod | Op::CallFunction) {
            if without_tensors(p.m, *n) {
                p.infos.insert(*n, Info::of(None));
            }
            for (i, a) in p.m.graph.node(*n).args().iter().enumerate() {
                if is_index(p.m, *n, i) {
                    a.each(&mut |a| {
                        p.infos.insert(a, Info::of(None));
                    });
                }
            }
        }
    }
    // what the engine does not take stays float
    for found in &matches {
        let supported = whole.contains_key(&found.root())
            || qconfig(p.m, found.root()).is_some_and(|q| p.is_supported(found, &q));
        if !supported {
            for n in &found.nodes {
                if p.infos.get(n).is_some_and(|i| i.activation.is_some()) {
                    p.infos.insert(*n, Info::float());
                }
            }
        }
    }
    let mut observed = HashSet::new();
    for n in &all {
        let Some(found) = matches.iter().find(|f| f.nodes.contains(n)) else { continue };
        let Some(q) = qconfig(p.m, *n) else { continue };
        let tensor = p.infos.get(n).is_some_and(|i| i.activation.is_some());
        let whole = whole.get(n);
        if !tensor || !(whole.is_some() || p.is_supported(found, &q)) {
            continue;
        }
        if let Some(Whole::Standalone(integers)) = whole {
            // what it takes and gives is observed within, but for integers that it is to be given
            p.given_integers(*n, integers, &q)?;
            continue;
        }
        observed.extend(found.nodes.iter().map(|n| p.m.graph.node(*n).name.clone()));
        if *n == found.root() {
            p.inputs(*n)?;
        }
        if *n == found.last() {
            p.output(*n)?;
        }
    }
    m.graph.lint()?;
    m.delete_all_unused_submodules();
    Ok(Notes { scopes, qconfigs, observed, custom: custom.clone(), standalone, is_qat })
}
/// A call of a module that no pattern speaks of.
enum Whole {
    /// It is a graph of its own, which is given integers at these places.
    Standalone(Vec<usize>),
    /// The program's functions exchange it.
    Own,
}
fn whole_calls(m: &GraphModule) -> HashMap<Node, Whole> {
    let of = |n: Node| {
        let integers = |s: &Standalone| {
            s.entry
                .prepare_custom_config
                .as_ref()
                .map_or_else(Vec::new, |c| c.input_quantized_indexes.clone())
        };
        let apart = own::object(m, n, integers).map(Whole::Standalone);
        Some((n, apart.or_else(|| own::object(m, n, |_: &Own| Whole::Own))?))
    };
    m.graph.find_nodes(Op::CallModule, None).into_iter().filter_map(of).collect()
}
/// A module as a graph of its own, prepared if there is a configuration.
fn by_itself(
    s: &Standalone,
    q: Option<QConfig>,
    is_qat: bool,
    backend: &BackendConfig,
) -> Result<(GraphModule, Option<Notes>)> {
    let Some(q) = q else { return Ok((s.graph.clone(), None)) };
    let mapping = s.entry.qconfig_mapping.clone();
    let mapping = mapping.unwrap_or_else(|| QConfigMapping::new().set_global(Some(q)));
    let custom = s.entry.prepare_custom_config.clone().unwrap_or_default();
    let graph = &s.graph.graph;
    let simple = graph.output_node().and_then(|o| graph.node(o).args().first()?.node());
    ensure!(
        simple.is_some(),
        Assertion,
        "standalone module only supports returning simple value currently (not tuple, dict etc.)"
    );
    ensure!(
        matches!(custom.output_quantized_indexes[..], [] | [0]),
        Assertion,
        "Currently only quantized output idxs = [0] is supported"
    );
    let mut options = PrepareFxOptions::new().prepare_custom_config(custom);
    options = options.backend_config(s.entry.backend_config.clone().unwrap_or_else(|| backend.clone()));
    let prepared = super::try_prepare_graph(s.graph.clone(), &mapping, is_qat, options)?;
    Ok((prepared.module, Some(prepared.notes)))
}
/// The name that modules of the class print.
fn name_of(m: &dyn Module) -> String {
    m.as_run().map_or_else(|| m.type_name().into_owned(), |r| r.class().to_string())
}
/// Whether a module is one that a graph calls as a whole: layers, layers that were joined, and what the program names.
pub(super) fn is_leaf(m: &dyn Module, path: &str, custom: &PrepareCustomConfig) -> bool {
    let class = name_of(m);
    if custom.is_whole(m, path) {
        return true;
    }
    if custom.non_traceable_module_names.iter().any(|n| n == path)
        || custom.non_traceable_module_classes.iter().any(|c| same(c, &class) || *c == class)
    {
        return true;
    }
    if m.is::<Fused>() || m.is::<Qat>() || m.is::<crate::stubs::Stub>() {
        return true;
    }
    let container = matches!(&*class, "Sequential" | "ModuleList" | "ModuleDict");
    !container && m.as_run().is_some() && flambeau_library::exists(&format!("torch.nn.{class}"))
}
