//! Every operator with hostile arguments within what changes how calls go: functions of functions, captures, modes, profiles,
//! regions, hooks that give back other tensors than they got.

use crate::bad_input::{Plan, plans};
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::sync::Arc;
use torch::__core::dispatch::op::AnyOp;
use torch::__core::gradients::saved::saved_tensors_hooks;

use torch::func::{FunctionalizeOptions, Randomness, VmapOptions, try_functionalize, try_jvp, try_vmap};
use torch::fx::{MakeFxOptions, try_make_fx_with};
use torch::library::Value;
use torch::options::BackwardOptions;
use torch::overrides::{OperatorCall, push_dispatch_mode, push_function_mode};
use torch::prelude::*;
use torch::profiler::{ProfileOptions, profile};
use torch::{DType, Device, Result, Tensor, amp, ops};

type Op = &'static dyn AnyOp;

/// The tensors among arguments, in order.
fn tensors(values: &[Value]) -> Vec<Tensor> {
    let mut all = Vec::new();
    for v in values {
        match v {
            Value::Tensor(t) => all.push(t.clone()),
            Value::List(l) => all.extend(tensors(l)),
            _ => {}
        }
    }
    all
}
/// The same arguments with other tensors.
fn with(values: &[Value], all: &mut dyn Iterator<Item = Tensor>) -> Vec<Value> {
    values
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => Value::Tensor(all.next().unwrap_or_else(|| t.clone())),
            Value::List(l) => Value::List(with(l, all)),
            v => v.clone(),
        })
        .collect()
}
fn call(op: Op, values: &[Value], all: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(tensors(&op.call_boxed(&with(values, &mut all.iter().cloned()))?))
}
fn twice(t: &Tensor) -> Result<Tensor> {
    ops::stack(&[t.clone(), t.clone()], 0).or_else(|_| {
        let sizes: Vec<i64> = std::iter::once(2).chain(t.sizes().iter().copied()).collect();
        ops::expand(&ops::unsqueeze(t, 0)?, &sizes, false)
    })
}
fn floating(t: &Tensor) -> bool {
    t.dtype().is_floating() || t.dtype().is_complex()
}
fn shown(all: &[Tensor]) {
    for t in all.iter().filter(|t| t.dim() <= 8 && t.sizes().iter().all(|n| *n <= 1 << 12)) {
        let _ = (format!("{t}"), format!("{t:?}"), t.try_to_vec::<f64>());
    }
}
/// Gradients of what has a history, by way of sums.
fn back(all: &[Tensor]) {
    for t in all.iter().filter(|t| t.requires_grad() && t.numel() < 1 << 20) {
        let real = if t.is_complex() { ops::view_as_real(t) } else { Ok(t.clone()) };
        if let Ok(s) = real.and_then(|t| ops::sum(&t, None, false, None)) {
            let _ = s.try_backward(BackwardOptions::new().retain_graph(true));
            let _ = s.try_backward(BackwardOptions::new().create_graph(true));
        }
    }
}
/// Floating tensors that want gradients.
fn wanting(values: &[Value]) -> Vec<Tensor> {
    let wants = |t: &Tensor| {
        let t = ops::detach(t).unwrap_or_else(|_| t.clone());
        if floating(&t) {
            let _ = t.try_requires_grad_(true);
        }
        t
    };
    tensors(values).iter().map(wants).collect()
}
/// What hooks give back instead of what they got.
fn others(which: usize, t: &Tensor) -> Result<Tensor> {
    match which {
        0 => ops::zeros(&[0], None, None, None, None),
        1 => ops::zeros(&[3, 5, 7], Some(DType::I64), None, None, None),
        2 => ops::expand(&ops::ones(&[1], None, None, None, None)?, &[1 << 16], false),
        3 => ops::empty(t.sizes(), Some(t.dtype()), None, Some(Device::Meta), None, None),
        4 => ops::ones(&[], Some(DType::Bool), None, None, None),
        5 => Ok(ops::ones(&[2, 2], None, None, None, None)?.to_sparse()),
        6 => ops::reshape(t, &[-1]),
        _ => ops::to_copy(t, Some(DType::C64), None, None, None, false, None),
    }
}
fn saved(op: Op, values: &[Value], which: usize) -> Result<()> {
    let hooks = saved_tensors_hooks(
        Arc::new(|t: &Tensor| Ok(Box::new(t.clone()))),
        Arc::new(move |packed| match packed.downcast_ref::<Tensor>() {
            Some(t) => others(which, t),
            None => Err(torch::Error::runtime("another value")),
        }),
    );
    let r = call(op, values, &wanting(values));
    drop(hooks);
    back(&r?);
    Ok(())
}

type Region = fn(Op, &[Value]) -> Result<()>;
const REGIONS: &[(&str, Region)] = &[
    ("vmap", |op, v| {
        let all = tensors(v).iter().map(twice).collect::<Result<Vec<_>>>()?;
        let o = VmapOptions::new().randomness(Randomness::Different);
        shown(&try_vmap(|x: &Vec<Tensor>| call(op, v, x), o)(&all)?);
        Ok(())
    }),
    ("vmap of the first", |op, v| {
        let Some(first) = tensors(v).first().map(twice) else { return Ok(()) };
        let o = VmapOptions::new().randomness(Randomness::Same);
        shown(&try_vmap(|x: &Tensor| call(op, v, std::slice::from_ref(x)), o)(&first?)?);
        Ok(())
    }),
    ("vmap of the last", |op, v| {
        let all = tensors(v);
        let Some(last) = all.last().map(twice) else { return Ok(()) };
        let f = |x: &Tensor| {
            let mut mine = all.clone();
            mine.pop();
            mine.push(x.clone());
            call(op, v, &mine)
        };
        shown(&try_vmap(f, VmapOptions::new().randomness(Randomness::Different).out_dims(-1))(&last?)?);
        Ok(())
    }),
    ("vmap within vmap", |op, v| {
        let all = tensors(v).iter().map(|t| twice(&twice(t)?)).collect::<Result<Vec<_>>>()?;
        let o = || VmapOptions::new().randomness(Randomness::Same);
        let inner = |x: &Vec<Tensor>| try_vmap(|x: &Vec<Tensor>| call(op, v, x), o())(x);
        shown(&try_vmap(inner, o())(&all)?);
        Ok(())
    }),
    ("vmap of nothing", |op, v| {
        let all = tensors(v).iter().map(|t| ops::narrow(&twice(t)?, 0, 0, 0)).collect::<Result<Vec<_>>>()?;
        let _ = try_vmap(|x: &Vec<Tensor>| call(op, v, x), VmapOptions::new())(&all)?;
        Ok(())
    }),
    ("vmap, gradients", |op, v| {
        let all = wanting(v).iter().map(twice).collect::<Result<Vec<_>>>()?;
        let o = VmapOptions::new().randomness(Randomness::Different);
        back(&try_vmap(|x: &Vec<Tensor>| call(op, v, x), o)(&all)?);
        Ok(())
    }),
    ("forward mode", |op, v| {
        let all = tensors(v);
        let tangents = all.iter().map(|t| ops::ones_like(t, None, None, None, None, None));
        let tangents = tangents.collect::<Result<Vec<_>>>()?;
        let (a, b) = try_jvp(|x: &Vec<Tensor>| call(op, v, x), &all, &tangents)?;
        shown(&a);
        shown(&b);
        Ok(())
    }),
    ("functions without writes", |op, v| {
        let f = try_functionalize(|x: &Vec<Tensor>| call(op, v, x), FunctionalizeOptions::new());
        shown(&f(&tensors(v))?);
        Ok(())
    }),
    ("captures", |op, v| {
        for above in [false, true] {
            let all = tensors(v);
            let inputs: Vec<&Tensor> = all.iter().collect();
            let o = MakeFxOptions::new().pre_dispatch(above);
            let f = |x: &[Tensor]| Ok(Value::List(call(op, v, x)?.into_iter().map(Value::from).collect()));
            let Ok(m) = try_make_fx_with(f, &inputs, o) else { continue };
            let _ = (m.graph.to_string(), m.code(), m.graph.tabular());
            let given: Vec<Value> = all.iter().map(Value::from).collect();
            let _ = m.run(&given, &Vec::new());
        }
        Ok(())
    }),
    ("profiles", |op, v| {
        let o =
            ProfileOptions::new().record_shapes(true).with_flops(true).profile_memory(true).with_stack(true);
        let mut r = Ok(Vec::new());
        let p = profile(o, |_| r = call(op, v, &[]));
        let _ = p.table(Default::default());
        let _ = p.key_averages(true).table(Default::default());
        back(&r?);
        Ok(())
    }),
    ("counted", |op, v| {
        let mut c = torch::utils::flop_counter::FlopCounterMode::new();
        let r = call(op, v, &wanting(v));
        c.stop();
        let _ = (c.get_total_flops(), c.get_table(None));
        back(&r?);
        Ok(())
    }),
    ("autocast", |op, v| {
        for d in [DType::BF16, DType::F16] {
            let _region = amp::try_autocast_guard(amp::AutocastOptions::new("cpu").dtype(d))?;
            back(&call(op, v, &wanting(v))?);
        }
        Ok(())
    }),
    ("modes", |op, v| {
        let _outer = push_function_mode(|c: &OperatorCall<'_>| c.call_on());
        let _inner = push_dispatch_mode(|c: &OperatorCall<'_>| c.call_on());
        back(&call(op, v, &wanting(v))?);
        Ok(())
    }),
    ("modes that give other tensors", |op, v| {
        let _mode = push_dispatch_mode(|c: &OperatorCall<'_>| {
            let r = c.call_on()?;
            let n = c.name().len();
            r.into_iter()
                .map(|v| match &v {
                    Value::Tensor(t) => others(n % 8, t).map(Value::from),
                    _ => Ok(v),
                })
                .collect()
        });
        let r = call(op, v, &wanting(v))?;
        drop(_mode);
        back(&r);
        Ok(())
    }),
    ("inference", |op, v| {
        torch::inference_mode(|| {
            let all = tensors(v).iter().map(|t| ops::clone(t, None)).collect::<Result<Vec<_>>>()?;
            shown(&call(op, v, &all)?);
            Ok(())
        })
    }),
    ("anomalies", |op, v| {
        torch::autograd::detect_anomaly(|| {
            back(&call(op, v, &wanting(v))?);
            Ok(())
        })
    }),
    ("hooks that give other gradients", |op, v| {
        for which in 0..8 {
            let all = wanting(v);
            let r = call(op, v, &all)?;
            for t in r.iter().chain(&all).filter(|t| t.requires_grad()) {
                t.register_hook(move |g: &Tensor| others(which, g).ok());
            }
            back(&r);
        }
        Ok(())
    }),
    ("saved tensors that come back as others", |op, v| (0..8).try_for_each(|which| saved(op, v, which))),
    ("shared elements", |op, v| {
        let all = tensors(v);
        let shared = all.iter().map(|t| {
            let flat = ops::reshape(&t.detach(), &[-1])?;
            ops::as_strided(&flat, t.sizes(), &vec![0; t.dim()], Some(0))
        });
        let shared: Vec<Tensor> = shared.zip(&all).map(|(s, t)| s.unwrap_or_else(|_| t.clone())).collect();
        shown(&call(op, v, &shared)?);
        Ok(())
    }),
    ("negative bits", |op, v| {
        let negated = |t: &Tensor| ops::neg_view(t).or_else(|_| Ok(t.clone()));
        let all = tensors(v).iter().map(negated).collect::<Result<Vec<_>>>()?;
        shown(&call(op, v, &all)?);
        Ok(())
    }),
];

/// How many calls the suite makes of all: every so many-th. `FLAMBEAU_ATTACK=1` makes all.
fn stride() -> usize {
    std::env::var("FLAMBEAU_ATTACK").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(601)
}
#[test]
fn every_operator_within_regions() {
    let (all, stride) = (plans(), stride());
    let from: usize = std::env::var("FLAMBEAU_ATTACK_AT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let chosen: Vec<(&Plan, usize)> = (from % stride..all.len() * REGIONS.len())
        .step_by(stride)
        .map(|i| (&all[i / REGIONS.len()], i % REGIONS.len()))
        .collect();
    Calls {
        test: here!(),
        count: chosen.len(),
        name: &|i| format!("{} within {}", chosen[i].0.name(), REGIONS[chosen[i].1].0),
        run: &|i| {
            let (plan, region) = chosen[i];
            let values = match plan.values() {
                Ok(v) => v,
                Err(e) => return Some(format!("an argument cannot be made: {e}")),
            };
            match REGIONS[region].1(plan.op, &values) {
                Err(e) if e.message().is_empty() => Some("an error without a text".into()),
                _ => None,
            }
        },
    }
    .judge();
}
