//! Normalisation.

use super::Table;
use super::reduction::variance;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Result, Tensor};

pub(super) const TABLE: Table = &[
    ("aten.batch_norm", |b, c| {
        let training = c.bool_or(5, "training", false)?;
        Ok(batch_norm(b, c, 3, 4, training, c.float_or(7, "eps", 1e-5)?)?.0.into())
    }),
    ("aten.cudnn_batch_norm", |b, c| {
        let y = batch_norm(b, c, 3, 4, c.bool_or(5, "training", false)?, c.float_or(7, "epsilon", 1e-5)?)?.0;
        Ok(Arg::List(vec![y.into(), Arg::None, Arg::None, Arg::None]))
    }),
    ("aten.native_batch_norm", |b, c| {
        let training = c.bool_or(5, "training", false)?;
        let (y, m, r) = batch_norm(b, c, 3, 4, training, c.float_or(7, "eps", 1e-5)?)?;
        Ok(vec![y, m, r].into())
    }),
    ("aten._native_batch_norm_legit_no_training", |b, c| {
        let (y, _, _) = batch_norm(b, c, 3, 4, false, c.float_or(6, "eps", 1e-5)?)?;
        let none = b.constant(&Tensor::from_vec(Vec::<f32>::new(), [0i64]))?;
        Ok(vec![y, none.clone(), none].into())
    }),
    ("aten._native_batch_norm_legit", |b, c| {
        let stats = c.overload() != "no_stats";
        let (train, eps) = if stats { (5, 7) } else { (3, 5) };
        let training = !stats || c.bool_or(train, "training", true)?;
        let (y, m, r) = batch_norm(b, c, 3, 4, training, c.float_or(eps, "eps", 1e-5)?)?;
        Ok(vec![y, m, r].into())
    }),
    ("aten._native_batch_norm_legit_functional", |b, c| {
        let training = c.bool_or(5, "training", true)?;
        let momentum = c.float_or(6, "momentum", 0.1)?;
        let (y, m, r) = batch_norm(b, c, 3, 4, training, c.float_or(7, "eps", 1e-5)?)?;
        let (old_m, old_v) = (c.tensor(3, "running_mean")?, c.tensor(4, "running_var")?);
        if !training {
            return Ok(vec![y, m, r, old_m, old_v].into());
        }
        let x = c.tensor(0, "input")?;
        let dims = all_but_channels(&x);
        let (v, _) = variance(b, &x, &dims, 1.0, false)?;
        let mut mixed = |old: &Var, new: &Var| {
            let (o, n) = (b.mul_number(old, 1.0 - momentum)?, b.mul_number(new, momentum)?);
            b.add(&o, &n)
        };
        let (nm, nv) = (mixed(&old_m, &m)?, mixed(&old_v, &v)?);
        Ok(vec![y, m, r, nm, nv].into())
    }),
    ("aten.instance_norm", |b, c| {
        let x = c.tensor(0, "input")?;
        let (w, bias) = (c.optional(1, "weight")?, c.optional(2, "bias")?);
        let eps = c.float_or(7, "eps", 1e-5)?;
        if !c.bool_or(5, "use_input_stats", true)? {
            return Ok(batch_norm(b, c, 3, 4, false, eps)?.0.into());
        }
        let dims: Vec<i64> = (2..x.rank() as i64).collect();
        let (y, _, _) = normalized(b, &x, &dims, eps)?;
        Ok(by_channel(b, &y, w, bias)?.into())
    }),
    ("aten.layer_norm", |b, c| Ok(layer_norm(b, c)?.into())),
    ("aten.native_layer_norm", |b, c| {
        let x = c.tensor(0, "input")?;
        let y = layer_norm(b, c)?;
        let k = c.dims(1, "normalized_shape")?.len();
        let dims: Vec<i64> = ((x.rank() - k) as i64..x.rank() as i64).collect();
        let (_, m, r) = normalized(b, &x, &dims, c.float_or(4, "eps", 1e-5)?)?;
        Ok(vec![y, m, r].into())
    }),
    ("aten.rms_norm", |b, c| Ok(rms_norm(b, c)?.0.into())),
    ("aten._fused_rms_norm", |b, c| {
        let (y, r) = rms_norm(b, c)?;
        Ok(vec![y, r].into())
    }),
    ("aten.group_norm", |b, c| {
        let x = c.tensor(0, "input")?;
        let (w, bias) = (c.optional(2, "weight")?, c.optional(3, "bias")?);
        Ok(group_norm(b, &x, c.int(1, "num_groups")?, w, bias, c.float_or(4, "eps", 1e-5)?)?.0.into())
    }),
    ("aten.native_group_norm", |b, c| {
        let x = c.tensor(0, "input")?;
        let (w, bias) = (c.optional(1, "weight")?, c.optional(2, "bias")?);
        let (y, m, r) = group_norm(b, &x, c.int(6, "group")?, w, bias, c.float_or(7, "eps", 1e-5)?)?;
        Ok(vec![y, m, r].into())
    }),
    ("aten._weight_norm", |b, c| Ok(weight_norm(b, c)?.0.into())),
    ("aten._weight_norm_interface", |b, c| {
        let (w, n) = weight_norm(b, c)?;
        Ok(vec![w, n].into())
    }),
];

fn all_but_channels(x: &Var) -> Vec<i64> {
    (0..x.rank() as i64).filter(|d| *d != 1).collect()
}
/// A vector of channels beside a tensor whose second dimension they are.
fn channels(b: &mut Builder, v: &Var, x: &Var) -> Result<Var> {
    b.unsqueeze(v, &(1..x.rank() as i64 - 1).collect::<Vec<_>>())
}
fn by_channel(b: &mut Builder, y: &Var, w: Option<Var>, bias: Option<Var>) -> Result<Var> {
    let mut y = y.clone();
    if let Some(w) = w {
        let w = b.cast(&w, y.dtype())?;
        let w = channels(b, &w, &y)?;
        y = b.mul(&y, &w)?;
    }
    if let Some(v) = bias {
        let v = b.cast(&v, y.dtype())?;
        let v = channels(b, &v, &y)?;
        y = b.add(&y, &v)?;
    }
    Ok(y)
}
/// The tensor less its mean, over its deviation; the mean and one over the deviation.
fn normalized(b: &mut Builder, x: &Var, dims: &[i64], eps: f64) -> Result<(Var, Var, Var)> {
    // halves are summed in single precision
    let wide = if matches!(x.dtype(), DType::F16 | DType::BF16) { b.cast(x, DType::F32)? } else { x.clone() };
    let (v, m) = variance(b, &wide, dims, 0.0, true)?;
    let v = b.add_number(&v, eps)?;
    let s = b.unary("Sqrt", &v)?;
    let r = b.unary("Reciprocal", &s)?;
    let gap = b.sub(&wide, &m)?;
    let y = b.div(&gap, &s)?;
    Ok((b.cast(&y, x.dtype())?, b.cast(&m, x.dtype())?, b.cast(&r, x.dtype())?))
}
fn batch_norm(
    b: &mut Builder,
    c: &Call,
    mean: usize,
    var: usize,
    training: bool,
    eps: f64,
) -> Result<(Var, Var, Var)> {
    let x = c.tensor(0, "input")?;
    let (w, bias) = (c.optional(1, "weight")?, c.optional(2, "bias")?);
    let stats = if c.overload() == "no_stats" || training {
        None
    } else {
        c.optional(mean, "running_mean")?.zip(c.optional(var, "running_var")?)
    };
    let Some((m, v)) = stats else {
        let dims = all_but_channels(&x);
        let (y, m, r) = normalized(b, &x, &dims, eps)?;
        let y = by_channel(b, &y, w, bias)?;
        let (m, r) = (b.squeeze(&m, &dims)?, b.squeeze(&r, &dims)?);
        return Ok((y, m, r));
    };
    let of = v.dtype();
    let n = b.size(&v, 0)?;
    let mut or = |t: Option<Var>, fill: f64| match t {
        Some(t) => b.cast(&t, of),
        None => {
            let f = b.scalar(fill, of)?;
            b.full(std::slice::from_ref(&n), &f)
        }
    };
    let (w, bias) = (or(w, 1.0)?, or(bias, 0.0)?);
    let attr = vec![Attribute::float("epsilon", eps)];
    let y = if x.dtype() == DType::F64 {
        // the attribute is a single float, which shows in double precision
        let v = b.add_number(&v, eps)?;
        let s = b.unary("Sqrt", &v)?;
        let (m, s) = (channels(b, &m, &x)?, channels(b, &s, &x)?);
        let y = b.sub(&x, &m)?;
        let y = b.div(&y, &s)?;
        by_channel(b, &y, Some(w), Some(bias))?
    } else {
        b.node("BatchNormalization", &[&x, &w, &bias, &m, &v], attr, x.dtype(), x.shape.clone())?
    };
    Ok((y, m, v))
}
fn layer_norm(b: &mut Builder, c: &Call) -> Result<Var> {
    let x = c.tensor(0, "input")?;
    let to = c.dims(1, "normalized_shape")?;
    let k = to.len() as i64;
    let eps = c.float_or(4, "eps", 1e-5)?;
    let (w, bias) = (c.optional(2, "weight")?, c.optional(3, "bias")?);
    if x.dtype() == DType::F64 {
        let dims: Vec<i64> = (x.rank() as i64 - k..x.rank() as i64).collect();
        let (mut y, _, _) = normalized(b, &x, &dims, eps)?;
        if let Some(w) = w {
            y = b.mul(&y, &w)?;
        }
        if let Some(v) = bias {
            y = b.add(&y, &v)?;
        }
        return Ok(y);
    }
    let w = match w {
        Some(w) => b.cast(&w, x.dtype())?,
        None => {
            let one = b.scalar(1.0, x.dtype())?;
            b.full(&to, &one)?
        }
    };
    let bias = match bias {
        Some(v) => b.cast(&v, x.dtype())?,
        None => Var::none(),
    };
    let attr =
        vec![Attribute::int("axis", -k), Attribute::float("epsilon", eps), Attribute::int("stash_type", 1)];
    b.node("LayerNormalization", &[&x, &w, &bias], attr, x.dtype(), x.shape.clone())
}
fn rms_norm(b: &mut Builder, c: &Call) -> Result<(Var, Var)> {
    let x = c.tensor(0, "input")?;
    let k = c.dims(1, "normalized_shape")?.len();
    let dims: Vec<i64> = ((x.rank() - k) as i64..x.rank() as i64).collect();
    let wide =
        if matches!(x.dtype(), DType::F16 | DType::BF16) { b.cast(&x, DType::F32)? } else { x.clone() };
    let eps = c.float_or(3, "eps", flambeau_core::finfo(wide.dtype())?.eps)?;
    let sq = b.mul(&wide, &wide)?;
    let m = b.reduce("ReduceMean", &sq, &dims, true)?;
    let m = b.add_number(&m, eps)?;
    let s = b.unary("Sqrt", &m)?;
    let r = b.unary("Reciprocal", &s)?;
    let y = b.mul(&wide, &r)?;
    let y = match c.optional(2, "weight")? {
        Some(w) => {
            let w = b.cast(&w, wide.dtype())?;
            b.mul(&y, &w)?
        }
        None => y,
    };
    Ok((b.cast(&y, x.dtype())?, r))
}
fn group_norm(
    b: &mut Builder,
    x: &Var,
    groups: i64,
    w: Option<Var>,
    bias: Option<Var>,
    eps: f64,
) -> Result<(Var, Var, Var)> {
    let whole = b.sizes(x)?;
    let n = whole[0].clone();
    let flat = b.reshape(x, &[n, Dim::Int(groups), Dim::Int(-1)])?;
    let (y, m, r) = normalized(b, &flat, &[2], eps)?;
    let y = b.reshape(&y, &whole)?;
    let y = by_channel(b, &y, w, bias)?;
    Ok((y, b.squeeze(&m, &[2])?, b.squeeze(&r, &[2])?))
}
fn weight_norm(b: &mut Builder, c: &Call) -> Result<(Var, Var)> {
    let (v, g) = (c.tensor(0, "v")?, c.tensor(1, "g")?);
    let d = c.int_or(2, "dim", 0)?;
    let dims: Vec<i64> = (0..v.rank() as i64).filter(|i| d < 0 || *i != d).collect();
    let n = b.reduce("ReduceL2", &v, &dims, true)?;
    let f = b.div(&g, &n)?;
    Ok((b.mul(&v, &f)?, n))
}
