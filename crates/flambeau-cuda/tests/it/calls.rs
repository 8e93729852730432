//! What a launch asks of NVIDIA's driver, counted by a driver that does nothing (`null_driver.c`).

use crate::emulated::{numbers, there};
use flambeau_core::{Tensor, ops};
use flambeau_devices::cuda;
use std::path::Path;
use std::process::Command;

/// Libraries of one text in a folder; `None` where there is no C compiler.
pub fn null_library(folder: &Path, text: &str, names: &[&str]) -> Option<()> {
    let source = folder.join("null.c");
    std::fs::write(&source, text).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    for name in names {
        let mut command = Command::new(&compiler);
        command.args(["-O1", "-shared", "-fPIC"]).arg(&source).arg("-o").arg(folder.join(name));
        let out = command.output().ok()?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    Some(())
}
/// The driver and NVRTC that do nothing, in a folder; `None` where there is no C compiler.
pub fn null_driver(folder: &Path) -> Option<()> {
    null_library(folder, include_str!("null_driver.c"), &["libcuda.so", "libnvrtc.so"])
}
/// A launch is one call of the driver, also where its result takes memory and another tensor's goes back.
#[test]
fn a_launch_is_one_call() {
    let folder = tempfile::tempdir().unwrap();
    if null_driver(folder.path()).is_none() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let calls = folder.path().join("calls");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["calls::counted", "--exact", "--ignored", "--nocapture"]);
    child
        .env_remove("FLAMBEAU_CUDA")
        .env("LD_LIBRARY_PATH", folder.path())
        .env("FLAMBEAU_NULL_CALLS", &calls);
    let out = child.env("FLAMBEAU_KERNEL_CACHE", folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}{text}", String::from_utf8_lossy(&out.stdout));
    let all = std::fs::read_to_string(&calls).unwrap();
    // `counted` asks for free memory before and after each part
    let parts: Vec<Vec<&str>> = all
        .split("cuMemGetInfo_v2\n")
        .map(|p| p.lines().filter(|l| *l != "cuCtxSetCurrent").collect())
        .collect();
    let chosen: Vec<usize> = all
        .split("cuMemGetInfo_v2\n")
        .map(|p| p.lines().filter(|l| *l == "cuCtxSetCurrent").count())
        .collect();
    for (k, what) in [(1, "add"), (3, "a number"), (5, "in place"), (7, "on a stream"), (9, "sum")] {
        assert_eq!(parts[k], ["cuLaunchKernel"; 10], "{what}");
        // the one call is that of the question behind the part
        assert!(chosen[k] <= 1, "{what}: the context is chosen {} times", chosen[k]);
    }
}
/// Run by the test above.
#[test]
#[ignore = "a_launch_is_one_call runs it with a driver that does nothing"]
fn counted() {
    let (x, y) = (there(&numbers(&[4, 4])), there(&numbers(&[4, 4])));
    let number = Tensor::from_slice(&[1.5f32], [0i64; 0]);
    let side = cuda::Stream::new();
    let parts: [&dyn Fn(); 5] = [
        &|| drop(ops::add(&x, &y, 1.into()).unwrap()),
        &|| drop(ops::mul(&x, &number).unwrap()),
        &|| ops::add_(&x, &y, 1.into()).unwrap(),
        &|| {
            cuda::stream(Some(&side), || {
                drop(ops::neg(&ops::empty(&[3], None, None, Some(x.device()), None, None).unwrap()).unwrap())
            })
        },
        &|| drop(ops::sum(&x, Some(&[1]), false, None).unwrap()),
    ];
    for f in parts {
        f();
        cuda::mem_get_info();
        (0..10).for_each(|_| f());
        cuda::mem_get_info();
    }
}
