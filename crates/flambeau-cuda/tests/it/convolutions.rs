//! What convolutions ask of cuDNN, by a driver and a cuDNN that do nothing (`null_driver.c`, `null_cudnn.c`).

use crate::calls::{null_driver, null_library};
use crate::emulated::{cast, numbers, there};
use flambeau_core::{DType, Tensor};
use flambeau_devices::backends::cudnn;
use flambeau_devices::cuda;
use flambeau_nn_functional::ops as nn;
use std::process::Command;

/// What cuDNN was asked for, a list for each part of [`called`]; `None` where there is no C compiler.
fn asked(refuses: bool) -> Option<Vec<Vec<String>>> {
    let folder = tempfile::tempdir().unwrap();
    null_driver(folder.path())?;
    null_library(folder.path(), include_str!("null_cudnn.c"), &["libcudnn.so.9"])?;
    let calls = folder.path().join("calls");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["convolutions::called", "--exact", "--ignored", "--nocapture"]);
    child.env_remove("FLAMBEAU_CUDA").env("LD_LIBRARY_PATH", folder.path());
    child.env("FLAMBEAU_NULL_CALLS", &calls).env("FLAMBEAU_KERNEL_CACHE", folder.path());
    if refuses {
        child.env("FLAMBEAU_NULL_REFUSES", "1");
    }
    let out = child.output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}{text}", String::from_utf8_lossy(&out.stdout));
    let all = std::fs::read_to_string(&calls).unwrap();
    let parts = all.split("cuMemGetInfo_v2\n").skip(1);
    Some(parts.map(|p| p.lines().filter(|l| !l.starts_with("cu")).map(String::from).collect()).collect())
}
/// Every convolution is described once and runs by the engine that the switches allow.
#[test]
fn convolutions_go_by_cudnn() {
    let Some(parts) = asked(false) else {
        eprintln!("skipped: there is no C compiler");
        return;
    };
    let of = |direction: &str| format!("{direction} 2d 6x4x3x3 2x4x8x7 2x6x8x7 of 0");
    let tried: Vec<String> = (0..3).flat_map(|e| vec![format!("run {e}"); 4]).collect();
    let want: [(&str, Vec<String>); 11] = [
        ("forward, twice", vec![of("forward"), "run 0".into(), "run 0".into()]),
        ("the image's gradient", vec![of("data"), "run 0".into()]),
        ("the weight's gradient", vec![of("filter"), "run 0".into()]),
        ("without TensorFloat-32", vec![of("forward"), "run 1".into()]),
        ("the same bits each time", vec![of("forward"), "run 1".into()]),
        ("halves", vec!["forward 2d 6x4x3x3 2x4x8x7 2x6x8x7 of 2".into(), "run 0".into()]),
        ("one dimension, groups", vec!["forward 2d 6x2x1x3 2x4x1x9 2x6x1x5 of 0".into(), "run 0".into()]),
        ("three dimensions", vec!["forward 3d 3x2x2x3x2 1x2x4x5x6 1x3x3x3x5 of 1".into(), "run 0".into()]),
        ("transposed", vec!["data 2d 4x6x3x3 2x6x10x9 2x4x8x7 of 0".into(), "run 0".into()]),
        ("the fastest", [vec![of("forward")], tried, vec!["run 0".into(), "run 0".into()]].concat()),
        ("switched off, of whole numbers, each channel by itself", vec![]),
    ];
    for ((what, want), got) in want.iter().zip(&parts) {
        assert_eq!(got, want, "{what}");
    }
    assert_eq!(parts.len(), want.len());
}
/// An engine that is refused when it runs is followed by the next one, which stays.
#[test]
fn a_refused_engine_is_followed_by_another() {
    let Some(parts) = asked(true) else {
        eprintln!("skipped: there is no C compiler");
        return;
    };
    assert_eq!(parts[3], ["forward 2d 6x4x3x3 2x4x8x7 2x6x8x7 of 0", "run 2"]);
    assert_eq!(parts[4], ["forward 2d 6x4x3x3 2x4x8x7 2x6x8x7 of 0", "run 2"]);
}
/// Run by the tests above.
#[test]
#[ignore = "convolutions_go_by_cudnn runs it with a driver that does nothing"]
fn called() {
    assert_eq!((cudnn::version(), cudnn::is_available()), (Some(91002), true));
    let (x, w) = (there(&numbers(&[2, 4, 8, 7])), there(&numbers(&[6, 4, 3, 3])));
    assert!(cudnn::is_acceptable(x.clone()) && !cudnn::is_acceptable(numbers(&[2])));
    let flat = |x: &Tensor, w: &Tensor, transposed: bool, groups: i64| {
        nn::convolution(
            x,
            w,
            None,
            &[1, 1],
            &[i64::from(!transposed); 2],
            &[1, 1],
            transposed,
            &[0, 0],
            groups,
        )
        .unwrap()
    };
    let forward = || flat(&x, &w, false, 1);
    let (y, x) = (&there(&numbers(&[2, 6, 8, 7])), &x);
    let part = |f: &dyn Fn()| {
        cuda::mem_get_info();
        f();
    };
    part(&|| drop((forward(), forward())));
    part(&|| drop(nn::convolution_input_grad(y, &w, x.sizes(), &[1, 1], &[1, 1], &[1, 1], 1).unwrap()));
    part(&|| drop(nn::convolution_weight_grad(y, x, w.sizes(), &[1, 1], &[1, 1], &[1, 1], 1).unwrap()));
    cudnn::set_allow_tf32(false);
    part(&|| drop(forward()));
    cudnn::set_allow_tf32(true);
    cudnn::set_deterministic(true);
    part(&|| drop(forward()));
    cudnn::set_deterministic(false);
    let (a, b) = (cast(x, DType::F16), cast(&w, DType::F16));
    part(&|| drop(flat(&a, &b, false, 1)));
    let (a, b) = (there(&numbers(&[2, 4, 9])), there(&numbers(&[6, 2, 3])));
    part(&|| drop(nn::convolution(&a, &b, None, &[2], &[1], &[1], false, &[0], 2).unwrap()));
    let (a, b) = (
        cast(&there(&numbers(&[1, 2, 4, 5, 6])), DType::F64),
        cast(&there(&numbers(&[3, 2, 2, 3, 2])), DType::F64),
    );
    part(&|| drop(nn::convolution(&a, &b, None, &[1; 3], &[0; 3], &[1; 3], false, &[0; 3], 1).unwrap()));
    let turned = there(&numbers(&[4, 6, 3, 3]));
    part(&|| drop(flat(x, &turned, true, 1)));
    cudnn::set_benchmark(true);
    part(&|| drop((forward(), forward())));
    cudnn::set_benchmark(false);
    part(&|| {
        cudnn::set_enabled(false);
        drop(forward());
        cudnn::set_enabled(true);
        let whole = |t: &Tensor| cast(t, DType::I64);
        drop(flat(&whole(x), &whole(&w), false, 1));
        drop(flat(x, &there(&numbers(&[4, 1, 3, 3])), false, 4));
    });
}
