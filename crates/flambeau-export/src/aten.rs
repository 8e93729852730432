//! Operators by their names in ATen: what the library knows under another name, and what PyTorch makes of several operators.

use flambeau_core::backend::matrices::check_info;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, ErrorKind, Result, Tensor, Value};
use flambeau_fx::python;
use flambeau_library as library;

fn documented(name: &str, args: &[Value]) -> Result<Value> {
    library::call_value(name, args, &[])
}
fn named(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    let kwargs: Vec<(String, Value)> = kwargs
        .iter()
        .filter(|(_, v)| !matches!(v, Value::None))
        .map(|(k, v)| (k.to_string(), v.clone()))
        .collect();
    library::call_value(name, args, &kwargs)
}
/// An argument by its place or name; `None` if it is not given.
fn argument(args: &[Value], kwargs: &Kwargs, at: usize, name: &str) -> Value {
    let by_name = || kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
    args.get(at).cloned().or_else(by_name).unwrap_or(Value::None)
}
/// A reduction's name by its number.
fn reduction(v: &Value) -> Value {
    Value::Str(
        match v {
            Value::Int(0) => "none",
            Value::Int(2) => "sum",
            _ => "mean",
        }
        .into(),
    )
}
fn size(t: &Tensor, dim: i64, of: &[i64]) -> Result<Value> {
    let nd = t.dim() as i64;
    let d = if dim < 0 { dim + nd } else { dim };
    let n = usize::try_from(d).ok().and_then(|d| of.get(d).copied());
    n.map(Value::Int).ok_or_else(|| Error::index(format!("Dimension out of range: {dim} of {nd}")))
}
fn some(v: &Value) -> bool {
    !matches!(v, Value::None)
}
/// What a decomposition of matrices says of those that it failed for, as an error.
fn failures(info: &Tensor, api: &str) -> Result<()> {
    let what = api.rsplit('.').next().unwrap_or(api);
    check_info(
        api,
        info,
        |k| k != 0,
        |k| match what {
            _ if k < 0 => format!("Argument {} has illegal value.", k.unsigned_abs()),
            name if name.contains("inv") => format!(
                "The diagonal element {k} is zero, the inversion could not be completed because the input matrix is singular."
            ),
            name if name.contains("solve") => {
                "The solver failed because the input matrix is singular.".to_string()
            }
            name if name.contains("cholesky") => format!(
                "The factorization could not be completed because the input is not positive-definite (the leading minor of order {k} \
             is not positive-definite)."
            ),
            name if name.contains("ldl") => format!("D[{k},{k}] is zero: the matrix is singular."),
            _ => format!("The algorithm failed to converge (error code: {k})."),
        },
    )
}
/// The inverse of pooling, for a size of its results.
fn unpooled(name: &str, x: &Value, at: &Value, size: &Value) -> Result<Value> {
    let (Value::Tensor(t), Some(want)) = (x, size.items()) else {
        return Err(Error::type_(format!("{name} of a tensor and a list of sizes")));
    };
    let have = t.sizes().get(t.sizes().len().saturating_sub(want.len())..).unwrap_or(&[]);
    // windows that move by one, and are as large as gives this size
    let windows = want.iter().zip(have).map(|(w, h)| match w {
        Value::Int(w) => w.checked_sub(*h).map(|d| Value::Int(d + 1)),
        _ => None,
    });
    let windows: Option<Vec<Value>> = windows.collect();
    let windows = windows.ok_or_else(|| Error::type_(format!("{name}: sizes that are no integers")))?;
    let name = name.split('.').next().unwrap_or(name);
    let all = [x.clone(), at.clone(), Value::List(windows), Value::Int(1)];
    library::call_value(&format!("torch.nn.functional.{name}"), &all, &[])
}
/// Calls an operator by its name behind `torch.ops.aten.`.
pub fn call(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    let arg = |i: usize, name: &str| argument(args, kwargs, i, name);
    match (name, args) {
        ("_assert_scalar.default" | "_assert_async.msg", [v, Value::Str(text)]) => {
            return if python::truth(v)? { Ok(Value::None) } else { Err(Error::runtime(text.clone())) };
        }
        ("_linalg_check_errors.default", [Value::Tensor(info), Value::Str(api), ..]) => {
            return failures(info, api).map(|()| Value::None);
        }
        // what PyTorch checks while it traces, and only then
        (
            "_assert_tensor_metadata.default"
            | "sym_constrain_range.default"
            | "sym_constrain_range_for_size.default",
            _,
        ) => return Ok(Value::None),
        ("sym_size.int", [Value::Tensor(t), Value::Int(d)]) => return size(t, *d, t.sizes()),
        ("sym_stride.int", [Value::Tensor(t), Value::Int(d)]) => return size(t, *d, t.strides()),
        ("sym_numel.default", [Value::Tensor(t)]) => return Ok(Value::Int(t.numel())),
        ("lift_fresh_copy.default", [x]) => return documented("torch.clone", std::slice::from_ref(x)),
        ("detach_.default", [x]) => return library::method(x, "detach", &[], &[]),
        ("item.default" | "_local_scalar_dense.default", [x]) => return library::method(x, "item", &[], &[]),
        ("scalar_tensor.default", [v]) => {
            let dtype = match arg(9, "dtype") {
                Value::None => library::call_value("torch.get_default_dtype", &[], &[])?,
                d => d,
            };
            let to = [("dtype", dtype), ("device", arg(9, "device"))];
            return named("torch.full", &[Value::Tuple(Vec::new()), v.clone()], &to);
        }
        (
            "__and__.Tensor" | "__or__.Tensor" | "__xor__.Tensor" | "__and__.Scalar" | "__or__.Scalar",
            [x, y],
        ) => {
            let method = name.split('.').next().unwrap_or(name);
            return library::method(x, method, std::slice::from_ref(y), &[]);
        }
        ("copy.default", [x, y, ..]) => {
            let out = documented("torch.empty_like", std::slice::from_ref(x))?;
            return library::method(&out, "copy_", std::slice::from_ref(y), &[]);
        }
        (
            "adaptive_max_pool1d.default" | "adaptive_max_pool2d.default" | "adaptive_max_pool3d.default",
            [x, size],
        ) => {
            let name = name.split('.').next().unwrap_or(name);
            let with_indices = [("return_indices", Value::Bool(true))];
            return named(&format!("torch.nn.functional.{name}"), &[x.clone(), size.clone()], &with_indices);
        }
        ("huber_loss.default", [x, y, ..]) => {
            let kwargs = [("reduction", reduction(&arg(2, "reduction"))), ("delta", arg(3, "delta"))];
            return named("torch.nn.functional.huber_loss", &[x.clone(), y.clone()], &kwargs);
        }
        ("cross_entropy_loss.default", [x, y, ..]) => {
            let kwargs = [
                ("weight", arg(2, "weight")),
                ("reduction", reduction(&arg(3, "reduction"))),
                ("ignore_index", arg(4, "ignore_index")),
                ("label_smoothing", arg(5, "label_smoothing")),
            ];
            return named("torch.nn.functional.cross_entropy", &[x.clone(), y.clone()], &kwargs);
        }
        ("nll_loss_nd.default", [x, y, ..]) => {
            let kwargs = [
                ("weight", arg(2, "weight")),
                ("reduction", reduction(&arg(3, "reduction"))),
                ("ignore_index", arg(4, "ignore_index")),
            ];
            return named("torch.nn.functional.nll_loss", &[x.clone(), y.clone()], &kwargs);
        }
        ("l1_loss.default", [x, y, ..]) => {
            let kwargs = [("reduction", reduction(&arg(2, "reduction")))];
            return named("torch.nn.functional.l1_loss", &[x.clone(), y.clone()], &kwargs);
        }
        ("mse_loss.default", [x, y, ..]) => {
            let kwargs = [("reduction", reduction(&arg(2, "reduction")))];
            return named("torch.nn.functional.mse_loss", &[x.clone(), y.clone()], &kwargs);
        }
        ("smooth_l1_loss.default", [x, y, ..]) => {
            let kwargs = [("reduction", reduction(&arg(2, "reduction"))), ("beta", arg(3, "beta"))];
            return named("torch.nn.functional.smooth_l1_loss", &[x.clone(), y.clone()], &kwargs);
        }
        // windows of a dimension; nn.functional's function of the name is `im2col`
        ("unfold.default", [x, ..]) => {
            let places = [arg(1, "dimension"), arg(2, "size"), arg(3, "step")];
            return library::method(x, "unfold", &places, &[]);
        }
        // the operator that does not pad
        ("stft.default", [x, n_fft, ..]) => {
            let kwargs = [
                ("hop_length", arg(2, "hop_length")),
                ("win_length", arg(3, "win_length")),
                ("window", arg(4, "window")),
                ("center", Value::Bool(false)),
                ("normalized", arg(5, "normalized")),
                ("onesided", arg(6, "onesided")),
                ("return_complex", arg(7, "return_complex")),
            ];
            return named("torch.stft", &[x.clone(), n_fft.clone()], &kwargs);
        }
        ("max_unpool2d.default" | "max_unpool3d.default", [x, at, size, ..]) => {
            return unpooled(name, x, at, size);
        }
        ("rrelu_with_noise_functional.default", [x, noise, ..])
            if !matches!(arg(4, "training"), Value::Bool(true)) =>
        {
            let number = |v: Value, default: f64| match v {
                Value::Float(f) => f,
                Value::Int(i) => i as f64,
                _ => default,
            };
            let slope = (number(arg(2, "lower"), 0.125) + number(arg(3, "upper"), 1.0 / 3.0)) / 2.0;
            let y = documented("torch.nn.functional.leaky_relu", &[x.clone(), Value::Float(slope)])?;
            return Ok(Value::Tuple(vec![y, noise.clone()]));
        }
        ("_linalg_svd.default", [a, ..]) => {
            if matches!(arg(2, "compute_uv"), Value::Bool(false)) {
                let s = documented("torch.linalg.svdvals", std::slice::from_ref(a))?;
                return Ok(Value::Tuple(vec![Value::None, s, Value::None]));
            }
            let full = Value::Bool(matches!(arg(1, "full_matrices"), Value::Bool(true)));
            return named("torch.linalg.svd", std::slice::from_ref(a), &[("full_matrices", full)])
                .map(|v| filled(v, 3));
        }
        ("_linalg_det.default", [a]) => {
            let found = documented("torch.linalg.det", std::slice::from_ref(a))?;
            return Ok(filled(found, 3));
        }
        ("_adaptive_avg_pool3d.default", [_, _]) => {
            return documented("torch.nn.functional.adaptive_avg_pool3d", args);
        }
        ("_cdist_forward.default", [x, y, p, ..]) => {
            return documented("torch.cdist", &[x.clone(), y.clone(), p.clone()]);
        }
        ("_adaptive_avg_pool2d.default", [_, _]) => {
            return documented("torch.nn.functional.adaptive_avg_pool2d", args);
        }
        ("_embedding_bag.default" | "embedding_bag.padding_idx", _) => {
            let mode = match arg(4, "mode") {
                Value::Int(1) => "mean",
                Value::Int(2) => "max",
                _ => "sum",
            };
            let kwargs = [
                ("offsets", arg(2, "offsets")),
                ("mode", Value::Str(mode.into())),
                ("per_sample_weights", arg(6, "per_sample_weights")),
                ("include_last_offset", arg(7, "include_last_offset")),
                (
                    "padding_idx",
                    match arg(8, "padding_idx") {
                        Value::Int(-1) => Value::None,
                        v => v,
                    },
                ),
            ];
            let found =
                named("torch.nn.functional.embedding_bag", &[arg(1, "indices"), arg(0, "weight")], &kwargs)?;
            return Ok(filled(found, 4));
        }
        ("_linalg_slogdet.default", [a]) => {
            let found = documented("torch.linalg.slogdet", std::slice::from_ref(a))?;
            return Ok(filled(found, 4));
        }
        ("_linalg_eigh.default", [a, ..]) => {
            let kwargs = [("UPLO", arg(1, "UPLO"))];
            return named("torch.linalg.eigh", std::slice::from_ref(a), &kwargs).map(|v| filled(v, 2));
        }
        ("_weight_norm.default", [v, g, ..]) => {
            let dim = match arg(2, "dim") {
                Value::None => Value::Int(0),
                d => d,
            };
            let norm = documented("torch.norm_except_dim", &[v.clone(), Value::Int(2), dim])?;
            let scale = documented("torch.div", &[g.clone(), norm])?;
            return documented("torch.mul", &[v.clone(), scale]);
        }
        ("_trilinear.default", [a, b, c, ea, eb, ec, sum, ..]) => {
            let mut product: Option<Value> = None;
            for (x, dims) in [(a, ea), (b, eb), (c, ec)] {
                let mut x = x.clone();
                for d in dims.items().unwrap_or(&[]) {
                    x = documented("torch.unsqueeze", &[x, d.clone()])?;
                }
                product = Some(match product {
                    None => x,
                    Some(p) => documented("torch.mul", &[p, x])?,
                });
            }
            return documented("torch.sum", &[product.unwrap_or(Value::None), sum.clone()]);
        }
        ("_native_batch_norm_legit_functional.default", [x, w, b, mean, var, training, momentum, eps]) => {
            let copies = [mean, var].map(|v| documented("torch.clone", std::slice::from_ref(v)));
            let [mean, var] = copies;
            let (mean, var) = (mean?, var?);
            let all = [x, &mean, &var, w, b, training, momentum, eps].map(Value::clone);
            let y = documented("torch.nn.functional.batch_norm", &all)?;
            return Ok(Value::Tuple(vec![y, Value::None, Value::None, mean, var]));
        }
        _ => {}
    }
    if let ("_upsample_bicubic2d_aa.default", [x, size, corners, ..]) = (name, args) {
        let scales = match (arg(3, "scales_h"), arg(4, "scales_w")) {
            (h @ Value::Float(_), w @ Value::Float(_)) => Value::List(vec![h, w]),
            _ => Value::None,
        };
        let size = if matches!(scales, Value::None) { size.clone() } else { Value::None };
        let all = [x.clone(), size, corners.clone(), scales];
        return call("_upsample_bicubic2d_aa.vec", &all, &[]);
    }
    if let Some(rest) = name.trim_start_matches('_').strip_prefix("upsample_")
        && let Some(mode) = rest.strip_suffix(".vec")
        && let Some(x) = args.first()
    {
        let linear = mode.contains("linear") || mode.contains("cubic");
        let scales = arg(if linear { 3 } else { 2 }, "scale_factors");
        let smooth = mode.ends_with("_aa");
        let mode = match mode.trim_end_matches("_aa") {
            "bilinear2d" => "bilinear",
            "bicubic2d" => "bicubic",
            m if m.starts_with("nearest_exact") => "nearest-exact",
            "trilinear3d" => "trilinear",
            "linear1d" => "linear",
            _ => "nearest",
        };
        let kwargs = [
            ("size", arg(1, "output_size")),
            ("scale_factor", scales),
            ("mode", Value::Str(mode.into())),
            ("align_corners", if linear { arg(2, "align_corners") } else { Value::None }),
            ("antialias", if smooth { Value::Bool(true) } else { Value::None }),
        ];
        return named("torch.nn.functional.interpolate", std::slice::from_ref(x), &kwargs);
    }
    let result = plain(name, args, kwargs)?;
    Ok(match result {
        Value::Named(ref t) if !t.fields.is_empty() => Value::Tuple(t.items.clone()),
        v => v,
    })
}
/// The operator of that name, or the function that takes its place where overloads for numbers are one with those for tensors.
fn plain(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    let base = name.split('.').next().unwrap_or(name);
    let exact = format!("torch.ops.aten.{name}");
    let first = match library::lookup(&exact) {
        Some(_) => match library::call_value(&exact, args, kwargs) {
            Err(e) if e.kind() == ErrorKind::Type => e,
            done => return done,
        },
        None => Error::missing(format!("the operator aten::{name}")),
    };
    for other in [format!("torch.{base}"), format!("torch.Tensor.{base}"), format!("aten::{base}")] {
        if library::lookup(&other).is_none() {
            continue;
        }
        match library::call_value(&other, args, kwargs) {
            Err(e) if matches!(e.kind(), ErrorKind::Type | ErrorKind::Missing) => {}
            done => return done,
        }
    }
    Err(first)
}
/// A result with as many parts as the operator gives; those that nothing uses are nothing.
fn filled(v: Value, n: usize) -> Value {
    let mut all = v.items().map_or_else(|| vec![v.clone()], <[Value]>::to_vec);
    all.retain(some);
    all.resize(n, Value::None);
    Value::Tuple(all)
}
