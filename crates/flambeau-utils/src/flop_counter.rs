//! Operations of products, by module and operator (`torch.utils.flop_counter`).

use crate::module_tracker::ModuleTracker;
use flambeau_core::dispatch::overrides::{ModeGuard, OperatorCall, push_dispatch_mode};
use flambeau_core::types::order::RwLock;
use flambeau_core::{Result, Value, bail};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// Operations of a call, by its arguments and results.
type Formula = Arc<dyn Fn(&[Value], &[Value]) -> i64 + Send + Sync>;

static FORMULAS: RwLock<BTreeMap<String, Formula>> = RwLock::new(BTreeMap::new());

/// Says how many operations a call of an operator has, for counters that begin from now on.
///
/// ```
/// use torch::utils::flop_counter::{FlopCounterMode, register_flop_formula};
/// // one for each element, whose number is that of the result
/// register_flop_formula("exp", |_, results| match &results[0] {
///     torch::library::Value::Tensor(t) => t.numel(),
///     _ => 0,
/// })?;
/// let mut counter = FlopCounterMode::new();
/// let _ = torch::ones([2, 3]).exp();
/// counter.stop();
/// assert_eq!(counter.get_total_flops(), 6);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// The operator has a formula already.
#[doc(alias = "torch.utils.flop_counter.register_flop_formula")]
pub fn register_flop_formula(
    operator: impl Into<String>,
    f: impl Fn(&[Value], &[Value]) -> i64 + Send + Sync + 'static,
) -> Result<()> {
    let (operator, f): (_, Formula) = (operator.into(), Arc::new(f));
    if built_in(&operator).is_some() {
        bail!(Runtime, "duplicate registrations for {operator}");
    }
    let mut all = FORMULAS.write().unwrap_or_else(PoisonError::into_inner);
    if all.contains_key(&operator) {
        bail!(Runtime, "duplicate registrations for {operator}");
    }
    all.insert(operator, f);
    Ok(())
}

fn sizes(v: &[Value], i: usize) -> &[i64] {
    match v.get(i) {
        Some(Value::Tensor(t)) => t.sizes(),
        _ => &[],
    }
}
fn product(s: &[i64]) -> i64 {
    s.iter().fold(1, |n, m| n.saturating_mul(*m))
}
fn tail(s: &[i64]) -> i64 {
    product(s.get(2..).unwrap_or(&[]))
}
/// Two products of matrices: scores, and what they weigh.
fn attention(q: &[i64], k: &[i64], v: &[i64]) -> i64 {
    let (&[b, h, n, d], &[.., m, _], Some(dv)) = (q, k, v.last()) else { return 0 };
    product(&[2, b, h, n, m, d.saturating_add(*dv)])
}
fn attention_backward(q: &[i64], k: &[i64], v: &[i64]) -> i64 {
    let (&[b, h, n, d], &[.., m, _], Some(dv)) = (q, k, v.last()) else { return 0 };
    // the scores again, and two products for each of the three gradients, where two share one
    product(&[2, b, h, n, m, d.saturating_mul(3).saturating_add(dv.saturating_mul(2))])
}
type BuiltIn = fn(&[Value], &[Value]) -> i64;
/// PyTorch's name for the operator that does this one's work, and its formula.
fn built_in(name: &str) -> Option<(&'static str, BuiltIn)> {
    let matrix: BuiltIn =
        |a, _| product(&[product(sizes(a, 0)), sizes(a, 1).last().copied().unwrap_or(0), 2]);
    let matrix_sum: BuiltIn =
        |a, _| product(&[product(sizes(a, 1)), sizes(a, 2).last().copied().unwrap_or(0), 2]);
    Some(match name {
        "mm" | "mm.dtype" => ("aten.mm", matrix),
        "bmm" | "bmm.dtype" => ("aten.bmm", matrix),
        "addmm" | "addmm.dtype" => ("aten.addmm", matrix_sum),
        "baddbmm" | "baddbmm.dtype" => ("aten.baddbmm", matrix_sum),
        // one operator here, a product with or without a sum there
        "linear" => ("aten.addmm", |a, _| {
            product(&[product(sizes(a, 0)), sizes(a, 1).first().copied().unwrap_or(0), 2])
        }),
        "convolution" => ("aten.convolution", |a, out| {
            let (x, w) = (sizes(a, 0), sizes(a, 1));
            let places = if matches!(a.get(6), Some(Value::Bool(true))) { x } else { sizes(out, 0) };
            product(&[tail(places), product(w), x.first().copied().unwrap_or(0), 2])
        }),
        "_convolution_input_grad" => ("aten.convolution_backward", |a, _| {
            let (g, w) = (sizes(a, 0), sizes(a, 1));
            product(&[tail(g), product(w), g.first().copied().unwrap_or(0), 2])
        }),
        "_convolution_weight_grad" => ("aten.convolution_backward", |a, out| {
            let (g, x) = (sizes(a, 0), sizes(a, 1));
            product(&[tail(sizes(out, 0)), product(g), x.get(1).copied().unwrap_or(0), 2])
        }),
        "_fused_attention" => ("aten._scaled_dot_product_flash_attention_for_cpu", |a, _| {
            attention(sizes(a, 0), sizes(a, 1), sizes(a, 2))
        }),
        "_fused_attention_backward" => {
            ("aten._scaled_dot_product_flash_attention_for_cpu_backward", |a, _| {
                attention_backward(sizes(a, 1), sizes(a, 2), sizes(a, 3))
            })
        }
        _ => return None,
    })
}

/// The operations of one call of an operator, by a formula that was registered or its own; none where it has none.
///
/// ```
/// use torch::utils::flop_counter::operations;
/// let (a, b) = (torch::ones([2, 3]), torch::ones([3, 4]));
/// let flops = operations("mm", &[(&a).into(), (&b).into()], &[a.matmul(&b).into()]);
/// assert_eq!(flops, Some(2 * 2 * 3 * 4));
/// ```
pub fn operations(operator: &str, arguments: &[Value], results: &[Value]) -> Option<i64> {
    let own = {
        let all = FORMULAS.read().unwrap_or_else(PoisonError::into_inner);
        all.get(operator).cloned()
    };
    match own {
        Some(f) => Some(f(arguments, results)),
        None => built_in(operator).map(|(_, f)| f(arguments, results)),
    }
}

/// How operations are counted.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct FlopCounterOptions {
    depth: Option<usize>,
    display: bool,
    custom_mapping: HashMap<String, Formula>,
}
impl FlopCounterOptions {
    /// Modules two levels deep, and no table is printed.
    pub fn new() -> Self {
        FlopCounterOptions { depth: Some(2), ..Self::default() }
    }
    /// How deep modules are shown in the table; all, if not said. Default: 2.
    pub fn depth(mut self, depth: impl Into<Option<usize>>) -> Self {
        self.depth = depth.into();
        self
    }
    /// Whether the table is printed at the end. Default: no.
    pub fn display(mut self, on: bool) -> Self {
        self.display = on;
        self
    }
    /// A formula of this counter alone, in place of others.
    pub fn formula(
        mut self,
        operator: impl Into<String>,
        f: impl Fn(&[Value], &[Value]) -> i64 + Send + Sync + 'static,
    ) -> Self {
        self.custom_mapping.insert(operator.into(), Arc::new(f));
        self
    }
}

/// Operations of a module; sizes that lie in no memory make more than there are numbers.
fn sum(all: &BTreeMap<String, i64>) -> i64 {
    all.values().fold(0, |n, m| n.saturating_add(*m))
}

type Counts = BTreeMap<String, BTreeMap<String, i64>>;
#[derive(Default)]
struct State {
    counts: Counts,
    /// An operator that was counted runs: what it is made of is not counted again.
    inside: bool,
}

/// Counts the operations of products, convolutions and attention on this thread, backward passes among them, until it is stopped or
/// dropped: how many the mathematics has, whatever the kernels do.
///
/// ```
/// use torch::utils::flop_counter::FlopCounterMode;
/// let mut counter = FlopCounterMode::new();
/// torch::ones([2, 3]).matmul(&torch::ones([3, 4]));
/// counter.stop();
/// assert_eq!(counter.get_total_flops(), 2 * 2 * 3 * 4);
/// assert_eq!(counter.get_flop_counts()["Global"]["aten.mm"], 48);
/// ```
#[doc(alias = "torch.utils.flop_counter.FlopCounterMode")]
pub struct FlopCounterMode {
    options: FlopCounterOptions,
    state: Rc<RefCell<State>>,
    running: Option<(ModeGuard, Rc<ModuleTracker>)>,
}
impl Default for FlopCounterMode {
    fn default() -> Self {
        Self::new()
    }
}
impl FlopCounterMode {
    /// Begins to count, with the default options.
    pub fn new() -> Self {
        Self::with(FlopCounterOptions::new())
    }
    /// Begins to count.
    pub fn with(options: FlopCounterOptions) -> Self {
        let mut formulas = FORMULAS.read().unwrap_or_else(PoisonError::into_inner).clone();
        formulas.extend(options.custom_mapping.iter().map(|(k, f)| (k.clone(), f.clone())));
        let state = Rc::new(RefCell::new(State::default()));
        let tracker = Rc::new(ModuleTracker::new());
        let (counted, modules) = (state.clone(), tracker.clone());
        let mode = push_dispatch_mode(move |c: &OperatorCall<'_>| {
            let own = formulas.get(c.name());
            let known = own.is_none().then(|| built_in(c.name())).flatten();
            if (own.is_none() && known.is_none()) || counted.borrow().inside {
                return c.call_on();
            }
            counted.borrow_mut().inside = true;
            let out = {
                let _out = Inside(&counted);
                c.call_on()?
            };
            let (name, n) = match (own, known) {
                (Some(f), _) => (c.name().to_string(), f(c.args(), &out)),
                (_, Some((name, f))) => {
                    let without = name == "aten.addmm" && c.name() == "linear" && no_bias(c.args());
                    (if without { "aten.mm" } else { name }.to_string(), f(c.args(), &out))
                }
                _ => return Ok(out),
            };
            let mut s = counted.borrow_mut();
            for parent in modules.parents() {
                let all = s.counts.entry(parent).or_default().entry(name.clone()).or_default();
                *all = all.saturating_add(n);
            }
            Ok(out)
        });
        FlopCounterMode { options, state, running: Some((mode, tracker)) }
    }
    /// Stops counting, and prints the table where that was asked for.
    pub fn stop(&mut self) {
        if self.running.take().is_some() && self.options.display {
            println!("{}", self.get_table(self.options.depth));
        }
    }
    /// All operations.
    pub fn get_total_flops(&self) -> i64 {
        self.state.borrow().counts.get("Global").map_or(0, sum)
    }
    /// Operations by module and operator; `Global` has all.
    pub fn get_flop_counts(&self) -> BTreeMap<String, BTreeMap<String, i64>> {
        self.state.borrow().counts.clone()
    }
    /// A table of modules so deep, or of all.
    pub fn get_table(&self, depth: Option<usize>) -> String {
        let counts = &self.state.borrow().counts;
        let total = self.get_total_flops();
        let of = |name: &str| counts.get(name).map_or(0, sum);
        // by the digits of the total: 1001M rather than 1.001B
        let step = (total.to_string().len().saturating_sub(2) / 3).min(4);
        let number = |n: i64| {
            let unit = ["", "K", "M", "B", "T"][step];
            format!("{:.3}{unit}", n as f64 / 1000f64.powi(step as i32))
        };
        let percent = |n: i64| match total {
            0 => "0%".to_string(),
            t => format!("{:.2}%", n as f64 / t as f64 * 100.0),
        };
        let module = |name: &str, level: usize| {
            let pad = " ".repeat(level);
            let n = of(name);
            let mut rows = vec![[format!("{pad}{name}"), number(n), percent(n)]];
            let each = counts.get(name).into_iter().flatten();
            rows.extend(each.map(|(op, n)| [format!("{pad} - {op}"), number(*n), percent(*n)]));
            rows
        };
        let mut rows = Vec::new();
        let mut subsumed = false;
        for name in counts.keys().filter(|n| *n != "Global") {
            let level = name.matches('.').count() + 1;
            if depth.is_none_or(|d| level <= d) {
                subsumed |= of(name) >= total;
                rows.extend(module(name, level - 1));
            }
        }
        if counts.contains_key("Global") && !subsumed {
            rows.iter_mut().for_each(|r| r[0].insert(0, ' '));
            rows.splice(0..0, module("Global", 0));
        }
        if rows.is_empty() {
            rows.push(["Global".into(), "0".into(), "0%".into()]);
        }
        table(&rows)
    }
}
impl Drop for FlopCounterMode {
    fn drop(&mut self) {
        self.stop();
    }
}
struct Inside<'a>(&'a Rc<RefCell<State>>);
impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().inside = false;
    }
}
fn no_bias(args: &[Value]) -> bool {
    !matches!(args.get(2), Some(Value::Tensor(_)))
}
/// As Python's `tabulate` writes it: the first column to the left, the others to the right.
fn table(rows: &[[String; 3]]) -> String {
    let heads = ["Module", "FLOP", "% Total"];
    let width =
        |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0).max(heads[i].len() + 2);
    let w = [width(0), width(1), width(2)];
    let mut s = String::new();
    let line = |s: &mut String, c: [&str; 3]| {
        let _ = writeln!(s, "{:<a$}  {:>b$}  {:>d$}", c[0], c[1], c[2], a = w[0], b = w[1], d = w[2]);
    };
    line(&mut s, heads);
    line(&mut s, [&"-".repeat(w[0]), &"-".repeat(w[1]), &"-".repeat(w[2])]);
    rows.iter().for_each(|r| line(&mut s, [&r[0], &r[1], &r[2]]));
    s.pop();
    s
}
