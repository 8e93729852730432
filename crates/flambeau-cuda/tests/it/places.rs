//! Fills, sequences, joins, indexing and masks: the device's results are the CPU's.

use crate::emulated::{agree, cast, numbers, there};
use flambeau_core::{DType, Device, Scalar, Tensor, ops};

/// `f` of tensors on the CPU and of the same on the device, by kernels alone.
pub fn same(what: &str, tolerance: f64, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Tensor) {
    let moved: Vec<Tensor> = inputs.iter().map(there).collect();
    let before = flambeau_cuda::fallbacks();
    let got = f(&moved);
    assert_eq!(before, flambeau_cuda::fallbacks(), "{what}");
    agree(what, &got, &f(inputs), tolerance);
}
/// Numbers from -6 to 6, some of them equal.
pub fn few(sizes: &[i64]) -> Tensor {
    let v: Vec<f32> = (0..sizes.iter().product::<i64>()).map(|i| ((i * 7919 + 13) % 13 - 6) as f32).collect();
    Tensor::from_slice(&v, sizes)
}
/// Indices below `n`.
pub fn indices(sizes: &[i64], n: i64) -> Tensor {
    let v: Vec<i64> = (0..sizes.iter().product::<i64>()).map(|i| (i * 104729 + 5) % n).collect();
    Tensor::from_slice(&v, sizes)
}
pub const ALL: [DType; 17] = {
    use DType::*;
    [U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, Bool, C64, C128, F8E4M3, F8E5M2]
};
/// `f` of tensors on the CPU, where it is there for them, and of the same on the device.
pub fn both(
    what: &str,
    tolerance: f64,
    inputs: &[Tensor],
    f: impl Fn(&[Tensor]) -> flambeau_core::Result<Tensor>,
) {
    let moved: Vec<Tensor> = inputs.iter().map(there).collect();
    match (f(&moved), f(inputs)) {
        (Ok(got), Ok(want)) => agree(what, &got, &want, tolerance),
        (Err(e), Ok(_)) => panic!("{what}: {e}"),
        (_, Err(_)) => {}
    }
}

pub fn all() {
    made();
    joined();
    picked();
    written();
    summed();
    masked();
    late_errors();
}
fn made() {
    let on = |d: Device| move |f: &dyn Fn(Device) -> flambeau_core::Result<Tensor>| f(d).unwrap();
    let check = |what: &str, f: &dyn Fn(Device) -> flambeau_core::Result<Tensor>| {
        agree(what, &on(Device::cuda(0))(f), &on(Device::Cpu)(f), 0.0);
    };
    for d in ALL {
        check(&format!("full {d}"), &|dev| {
            ops::full(&[3, 700], Scalar::Int(3), Some(d), None, Some(dev), None)
        });
        if !d.is_complex() && d != DType::Bool && !matches!(d, DType::F8E4M3 | DType::F8E5M2) {
            check(&format!("arange {d}"), &|dev| {
                ops::arange_step(3.into(), 120.into(), 4.into(), Some(d), None, Some(dev), None)
            });
            check(&format!("linspace {d}"), &|dev| {
                ops::linspace(1.into(), 90.into(), 37, Some(d), None, Some(dev), None)
            });
        }
    }
    check("steps", &|dev| {
        ops::arange_step(0.5.into(), 3000.0.into(), 0.1.into(), None, None, Some(dev), None)
    });
    check("eye", &|dev| ops::eye_m(5, 7, None, None, Some(dev), None));
    // what lies between the elements of a view stays
    same("columns", 0.0, &[numbers(&[6, 5])], |t| {
        ops::fill_(&ops::select(&t[0], 1, 2).unwrap(), 7.into()).unwrap();
        t[0].clone()
    });
    same("expanded", 0.0, &[numbers(&[6, 1])], |t| {
        ops::fill_(&ops::expand(&t[0], &[6, 4], false).unwrap(), 2.into()).unwrap();
        t[0].clone()
    });
    check("triangle", &|dev| ops::tril_indices(5, 6, 1, None, None, Some(dev), None));
}
fn joined() {
    for d in ALL {
        let (t, u) = (cast(&few(&[3, 4, 8]), d), cast(&few(&[3, 6, 8]), d));
        same(&format!("cat {d}"), 0.0, &[t.clone(), u, t.clone()], |t| ops::cat(t, 1).unwrap());
        same(&format!("rows {d}"), 0.0, &[t.clone(), t.clone()], |t| ops::cat(t, 0).unwrap());
        same(&format!("flip {d}"), 0.0, std::slice::from_ref(&t), |t| ops::flip(&t[0], &[0, 2]).unwrap());
        same(&format!("tril {d}"), 0.0, std::slice::from_ref(&t), |t| ops::tril(&t[0], 1).unwrap());
        same(&format!("triu {d}"), 0.0, &[t], |t| ops::triu(&t[0], -1).unwrap());
    }
    let turned = ops::t(&numbers(&[4, 6])).unwrap();
    same("strides", 0.0, &[turned, numbers(&[6, 4])], |t| ops::cat(t, 0).unwrap());
    let mixed = [numbers(&[2, 3]), cast(&few(&[4, 3]), DType::I32)];
    same("dtypes", 0.0, &mixed, |t| ops::cat(t, 0).unwrap());
    let many: Vec<Tensor> = (0..150).map(|i| numbers(&[5, 1 + i % 3])).collect();
    same("many", 0.0, &many, |t| ops::cat(t, -1).unwrap());
    same("stack", 0.0, &many[..1], |t| ops::stack(&[t[0].clone(), t[0].clone()], 2).unwrap());
    let counts = Tensor::from_slice(&[2i64, 0, 3, 1], 4);
    same("repeat", 0.0, &[counts], |t| ops::repeat_interleave(&t[0], None).unwrap());
    same("roll", 0.0, &[numbers(&[4, 5])], |t| ops::roll(&t[0], &[1, 2], &[0, 1]).unwrap());
}
fn picked() {
    for d in ALL {
        let t = cast(&few(&[7, 5, 8]), d);
        let at = indices(&[4, 5, 3], 8);
        same(&format!("gather {d}"), 0.0, &[t.clone(), at], |t| ops::gather(&t[0], 2, &t[1], false).unwrap());
        let rows = indices(&[9], 7);
        same(&format!("select {d}"), 0.0, &[t.clone(), rows.clone()], |t| {
            ops::index_select(&t[0], 0, &t[1]).unwrap()
        });
        same(&format!("index {d}"), 0.0, &[t.clone(), rows, indices(&[2, 1], 5)], |t| {
            ops::index(&t[0], &[Some(t[1].clone()), Some(t[2].clone())]).unwrap()
        });
        same(&format!("apart {d}"), 0.0, &[t.clone(), indices(&[3], 7), indices(&[3], 8)], |t| {
            ops::index(&t[0], &[Some(t[1].clone()), None, Some(t[2].clone())]).unwrap()
        });
        same(&format!("take {d}"), 0.0, &[t, indices(&[2, 6], 280)], |t| ops::take(&t[0], &t[1]).unwrap());
    }
    let back = Tensor::from_slice(&[-1i64, 2, -3], 3);
    same("from the end", 0.0, &[numbers(&[4, 6]), back], |t| {
        ops::index(&t[0], &[None, Some(t[1].clone())]).unwrap()
    });
    // indices and masks may lie on the CPU
    let (x, at) = (numbers(&[4, 6]), indices(&[3], 4));
    agree(
        "apart",
        &ops::index(&there(&x), &[Some(at.clone())]).unwrap(),
        &ops::index(&x, &[Some(at.clone())]).unwrap(),
        0.0,
    );
    let filled = |x: Tensor| {
        let mask = ops::gt(&few(&[4, 6]), &Tensor::from_slice(&[0f32], ())).unwrap();
        ops::index_put_(&x, &[Some(mask)], &Tensor::from_slice(&[5f32], ()), false).unwrap();
        ops::index_put_(&x, &[Some(at.clone())], &Tensor::from_slice(&[7f32], ()), true).unwrap();
        x
    };
    agree("written apart", &filled(there(&x)), &filled(x.clone()), 0.0);
    let turned = ops::t(&numbers(&[6, 9])).unwrap();
    same("turned", 0.0, &[turned, indices(&[4], 6)], |t| ops::index_select(&t[0], 1, &t[1]).unwrap());
    same("narrow", 0.0, &[numbers(&[4, 6]), cast(&indices(&[5], 4), DType::I32)], |t| {
        ops::index(&t[0], &[Some(t[1].clone())]).unwrap()
    });
}
fn written() {
    for d in ALL {
        let t = cast(&few(&[7, 5, 8]), d);
        // no place is named twice
        let at = ops::expand(&Tensor::from_slice(&[6i64, 0, 3], [3, 1, 1]), &[3, 5, 8], false).unwrap();
        let src = cast(&few(&[3, 5, 8]), d);
        same(&format!("scatter {d}"), 0.0, &[t.clone(), at.clone(), src.clone()], |t| {
            ops::scatter(&t[0], 0, &t[1], &t[2]).unwrap()
        });
        same(&format!("value {d}"), 0.0, &[t.clone(), at], |t| {
            ops::scatter_value(&t[0], 0, &t[1], 1.into()).unwrap()
        });
        let rows = Tensor::from_slice(&[5i64, 1, 2], 3);
        same(&format!("copy {d}"), 0.0, &[t.clone(), rows.clone(), src.clone()], |t| {
            ops::index_copy(&t[0], 0, &t[1], &t[2]).unwrap()
        });
        same(&format!("fill {d}"), 0.0, &[t.clone(), rows.clone()], |t| {
            ops::index_fill(&t[0], 0, &t[1], 1.into()).unwrap()
        });
        same(&format!("put {d}"), 0.0, &[t.clone(), rows, src], |t| {
            ops::index_put(&t[0], &[Some(t[1].clone())], &t[2], false).unwrap()
        });
        let mask = ops::gt(&few(&[7, 5]), &Tensor::from_slice(&[0f32], [0i64; 0])).unwrap();
        same(&format!("mask {d}"), 0.0, &[t, mask, cast(&few(&[1]), d)], |t| {
            ops::index_put(&t[0], &[Some(t[1].clone())], &t[2], false).unwrap()
        });
    }
}
fn summed() {
    for d in ALL {
        let t = cast(&few(&[4, 6]), d);
        let (at, src) = (indices(&[40, 6], 4), cast(&few(&[40, 6]), d));
        let inputs = [t.clone(), at.clone(), src.clone()];
        // small integers are exact in all of them but the narrowest
        let tolerance = if d.size() == 1 && d.is_floating() { 1.0 } else { 0.0 };
        both(&format!("scatter_add {d}"), tolerance, &inputs, |t| ops::scatter_add(&t[0], 0, &t[1], &t[2]));
        for how in ["sum", "prod", "mean", "amax", "amin"] {
            // products of many numbers leave what is exact
            let n = if how == "prod" { 4 } else { 40 };
            let short = [t.clone(), at.clone(), ops::narrow(&src, 0, 0, n).unwrap()];
            let short = [short[0].clone(), ops::narrow(&short[1], 0, 0, n).unwrap(), short[2].clone()];
            for own in [true, false] {
                let near = if how == "mean" { 4e-3 } else { tolerance };
                both(&format!("{how} {own} {d}"), near, &short, |t| {
                    ops::scatter_reduce(&t[0], 0, &t[1], &t[2], how, own)
                });
            }
        }
        let rows = indices(&[40], 4);
        both(&format!("index_add {d}"), tolerance, &[t.clone(), rows.clone(), src.clone()], |t| {
            ops::index_add(&t[0], 0, &t[1], &t[2], 2.into())
        });
        both(&format!("index_put {d}"), tolerance, &[t.clone(), rows.clone(), src], |t| {
            ops::index_put(&t[0], &[Some(t[1].clone())], &t[2], true)
        });
        let pairs = [t.clone(), rows, indices(&[40], 6), cast(&few(&[40]), d)];
        both(&format!("pairs {d}"), tolerance, &pairs, |t| {
            ops::index_put(&t[0], &[Some(t[1].clone()), Some(t[2].clone())], &t[3], true)
        });
        both(&format!("put {d}"), tolerance, &[t, indices(&[40], 24), cast(&few(&[40]), d)], |t| {
            ops::put(&t[0], &t[1], &t[2], true)
        });
    }
    // long runs of one place, by pieces; and the same in order when that is asked for
    let long = [numbers(&[3, 2]), indices(&[5000], 3), numbers(&[5000, 2])];
    same("pieces", 1e-4, &long, |t| ops::index_put(&t[0], &[Some(t[1].clone())], &t[2], true).unwrap());
    flambeau_core::settings::determinism::use_deterministic_algorithms(true, true);
    same("rows in order", 1e-4, &long, |t| ops::index_add(&t[0], 0, &t[1], &t[2], 1.into()).unwrap());
    let each = [numbers(&[4, 6]), indices(&[300, 6], 4), numbers(&[300, 6])];
    same("places in order", 1e-4, &each, |t| ops::scatter_add(&t[0], 0, &t[1], &t[2]).unwrap());
    flambeau_core::settings::determinism::use_deterministic_algorithms(false, false);
}
fn masked() {
    for d in ALL {
        let t = cast(&few(&[70, 90]), d);
        both(&format!("nonzero {d}"), 0.0, std::slice::from_ref(&t), |t| ops::nonzero(&t[0]));
        let mask = ops::gt(&few(&[70, 90]), &Tensor::from_slice(&[1f32], [0i64; 0])).unwrap();
        both(&format!("masked_select {d}"), 0.0, &[t.clone(), mask.clone()], |t| {
            ops::masked_select(&t[0], &t[1])
        });
        let source = cast(&few(&[70 * 90]), d);
        both(&format!("masked_scatter {d}"), 0.0, &[t.clone(), mask.clone(), source], |t| {
            ops::masked_scatter(&t[0], &t[1], &t[2])
        });
        both(&format!("masked_fill {d}"), 0.0, &[t, mask], |t| ops::masked_fill(&t[0], &t[1], 1.into()));
    }
    let turned = ops::t(&few(&[40, 60])).unwrap();
    same("turned", 0.0, std::slice::from_ref(&turned), |t| ops::nonzero(&t[0]).unwrap());
    same("static", 0.0, &[few(&[5])], |t| ops::nonzero_static(&t[0], 8, -1).unwrap());
    same("row", 0.0, &[few(&[4, 6]), Tensor::from_slice(&[1u8, 0, 1, 0, 0, 1], 6)], |t| {
        ops::masked_select(
            &t[0],
            &ops::gt(&t[1], &ops::zeros_like(&t[1], None, None, None, None, None).unwrap()).unwrap(),
        )
        .unwrap()
    });
}
/// What is out of bounds is known late, by name; the device goes on.
fn late_errors() {
    let x = there(&numbers(&[3, 4]));
    let bad = there(&Tensor::from_slice(&[0i64, 9], 2));
    let tests: [(&str, &dyn Fn() -> flambeau_core::Result<Tensor>); 4] = [
        ("index(): index 9 is out of bounds for dimension 0 with size 3", &|| {
            ops::index(&x, &[Some(bad.clone())])
        }),
        ("take(): index 99 is out of bounds for dimension 0 with size 12", &|| {
            ops::take(&x, &there(&Tensor::from_slice(&[99i64], 1)))
        }),
        ("index_fill_(): index 9 is out of bounds for dimension 0 with size 3", &|| {
            ops::index_fill(&x, 0, &bad, 1.into())
        }),
        ("index_add(): index 9 is out of bounds for dimension 0 with size 3", &|| {
            ops::index_add(&x, 0, &bad, &there(&numbers(&[2, 4])), 1.into())
        }),
    ];
    for (text, f) in tests {
        let e = f().unwrap().try_to_vec::<f32>().unwrap_err();
        assert_eq!(e.message(), text);
    }
    assert!(ops::neg(&x).unwrap().try_to_vec::<f32>().is_ok());
}
