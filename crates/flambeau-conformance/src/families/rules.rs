//! Tables of rules: what PyTorch's dispatcher says of each operator under autocast, against the rows' own word.

use super::{Case, File, Outcome, text};
use flambeau_core::dispatch::autocast::{Autocast, DeviceType};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::registry;
use flambeau_core::types::autocast::Cast;
use serde_json::Value as J;

/// All cases of a file of rules; none where it is no such file.
pub fn cases(f: &File) -> Option<Vec<Case<'_>>> {
    if let Some(backends) = f.json["backends"].as_object() {
        let all = backends.iter().flat_map(|(backend, ops)| {
            let listed = ops.as_object().into_iter().flatten();
            let one = move |(name, rule): (&String, &J)| {
                let (name, category) = (name.clone(), text(rule, "category").to_string());
                let id = format!("{backend}.{name}");
                let run = Box::new(move || registered(backend, &name, &category));
                Case { id, call: format!("torch.amp rules of {backend}"), core: false, run }
            };
            let rest = Case {
                id: format!("{backend}.others"),
                call: format!("torch.amp rules of {backend}"),
                core: false,
                run: Box::new(move || others(f, backend)),
            };
            listed.map(one).chain([rest])
        });
        return Some(all.collect());
    }
    let listed = f.list("cases");
    (!listed.is_empty() && listed[0].get("run_as").is_some()).then(|| {
        let one = |c| {
            let call = format!("torch.amp list of {}", text(c, "op"));
            Case { id: text(c, "id").into(), call, core: false, run: Box::new(move || in_list(c)) }
        };
        listed.iter().map(one).collect()
    })
}

fn device(backend: &str) -> Option<DeviceType> {
    Some(match backend.strip_prefix("Autocast")? {
        "CPU" => DeviceType::Cpu,
        "CUDA" => DeviceType::Cuda,
        "XPU" => DeviceType::Xpu,
        "MPS" => DeviceType::Mps,
        "MTIA" => DeviceType::Mtia,
        _ => return None,
    })
}
fn rows() -> Vec<&'static OpInfo> {
    registry::crates().iter().flat_map(|c| c.ops).map(|o| o.info()).collect()
}
fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}
/// The rules of an operator of PyTorch's: of the row of its name, of one that does its work, or of another overload.
fn rules(name: &str) -> Option<Autocast> {
    let rows = rows();
    let exact = rows.iter().find(|i| i.name == name);
    let stands = || rows.iter().find(|i| i.autocast.stands_for.contains(&name));
    // overloads that a row covers: the one that has rules
    let covers = || {
        let mut same = rows.iter().filter(|i| base(i.name) == base(name) && !i.schema.mutates());
        let first = same.next()?;
        Some(if first.autocast == Autocast::NONE {
            same.find(|i| i.autocast != Autocast::NONE).unwrap_or(first)
        } else {
            first
        })
    };
    exact.or_else(stands).or_else(covers).map(|i| i.autocast)
}
fn fits(rule: Cast, category: &str) -> bool {
    match category {
        "lower_precision" => rule == Cast::Lower,
        "fp32" => rule == Cast::Fp32,
        // rows here have both overloads in one
        "fp32_set_opt_dtype" | "fp32_append_dtype" => rule == Cast::OptDtype,
        "promote" => rule == Cast::Promote,
        "banned" => rule == Cast::Banned,
        // registered by hand: the table does not say what for
        "other" => rule != Cast::None,
        _ => false,
    }
}
fn verdict(name: &str, found: Option<Cast>, fits: impl Fn(Cast) -> bool, wanted: &str) -> Outcome {
    match found {
        None => Outcome::Missing(format!("aten::{name}")),
        Some(rule) if fits(rule) => Outcome::Passed,
        Some(rule) => Outcome::Failed(format!("{name} has {rule:?}, not {wanted}")),
    }
}
fn registered(backend: &str, name: &str, category: &str) -> Outcome {
    let Some(on) = device(backend) else { return Outcome::Missing(backend.into()) };
    verdict(name, rules(name).map(|r| r.on(on)), |r| fits(r, category), category)
}
/// Operators that other backends list and this one does not have no rule here.
fn others(f: &File, backend: &str) -> Outcome {
    let Some(on) = device(backend) else { return Outcome::Missing(backend.into()) };
    let all = &f.json["backends"];
    let listed = |info: &&OpInfo| {
        let elsewhere = all.as_object().into_iter().flatten().any(|(_, ops)| ops.get(info.name).is_some());
        elsewhere && all[backend].get(info.name).is_none()
    };
    let odd: Vec<&str> = rows()
        .into_iter()
        .filter(listed)
        .filter(|i| !matches!(i.autocast.on(on), Cast::None | Cast::Whole | Cast::Product))
        .map(|i| i.name)
        .collect();
    if odd.is_empty() { Outcome::Passed } else { Outcome::Failed(format!("no rule in PyTorch: {odd:?}")) }
}
/// A call of PyTorch's own test for CUDA: the dtype that it runs in follows from the rule.
fn in_list(c: &J) -> Outcome {
    let op = text(c, "op");
    let name = op.strip_prefix("__").and_then(|o| o.strip_suffix("__")).unwrap_or(op);
    let right = |r: Cast| match (text(c, "category"), c["run_as"].as_str()) {
        ("banned", _) => r == Cast::Banned,
        ("promote", _) => r == Cast::Promote,
        (_, Some("float16")) => r == Cast::Lower,
        (_, Some("float32")) => matches!(r, Cast::Fp32 | Cast::OptDtype),
        // promotion as without autocast
        (_, None) => r == Cast::None,
        _ => false,
    };
    verdict(name, rules(name).map(|r| r.on(DeviceType::Cuda)), right, text(c, "category"))
}
