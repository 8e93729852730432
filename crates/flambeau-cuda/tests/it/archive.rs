//! Compiled kernels out of an archive: they come from there before any compiler is asked; an archive of other sources is not used, and
//! one that was cut or changed is refused before any of it runs.

use crate::calls::null_driver;
use crate::emulated::{agree, there};
use flambeau_core::{Device, Result, Tensor, ops};
use flambeau_cuda::archive::{self, Archive, Harm, Instance, Kind, list, plan};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const FILL: &str = "creation/creation.cuh\tFILL(fill_k, u32)\n";
const OTHER: &str = "creation/creation.cuh\tFILL(fill_k, u64)\n";

fn filled() -> Result<Tensor> {
    ops::full(&[3, 5], 2.5.into(), None, None, Some(Device::cuda(0)), None)
}
/// A process with an emulated device.
fn child(name: &str, cache: &Path) {
    let mut c = Command::new(std::env::current_exe().unwrap());
    c.args([&format!("archive::{name}"), "--exact", "--ignored", "--nocapture"]);
    let out = c.env("FLAMBEAU_CUDA", "emulated").env("FLAMBEAU_KERNEL_CACHE", cache).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}: {}{text}", String::from_utf8_lossy(&out.stdout));
}
#[test]
fn on_the_emulated_device() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {compiler}");
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    for name in ["served", "stale", "cut", "changed_table", "changed_code"] {
        child(name, cache.path());
    }
}
#[test]
#[ignore = "on_the_emulated_device runs it in a process of its own"]
fn served() {
    archive::stand_in(FILL, Kind::Host, Harm::None).unwrap();
    let want = ops::full(&[3, 5], 2.5.into(), None, None, None, None).unwrap();
    agree("full", &filled().unwrap(), &want, 0.0);
    assert_eq!(archive::served(), 1);
    // what it lacks is compiled
    agree("neg", &ops::neg(&there(&want)).unwrap(), &ops::neg(&want).unwrap(), 0.0);
    assert_eq!(archive::served(), 1);
    // and there is one archive in a program
    assert!(archive::stand_in(FILL, Kind::Host, Harm::None).is_err());
}
#[test]
#[ignore = "as served"]
fn stale() {
    archive::stand_in(OTHER, Kind::Host, Harm::None).unwrap();
    let want = ops::full(&[3, 5], 2.5.into(), None, None, None, None).unwrap();
    agree("full", &filled().unwrap(), &want, 0.0);
    assert_eq!(archive::served(), 0);
}
fn refused(harm: Harm, why: &str) {
    archive::stand_in(FILL, Kind::Host, harm).unwrap();
    let e = filled().unwrap_err();
    assert!(e.message().contains("nothing of it is used") && e.message().contains(why), "{e}");
    assert_eq!(archive::served(), 0);
}
#[test]
#[ignore = "as served"]
fn cut() {
    refused(Harm::Cut(2000), "its length is another one");
}
#[test]
#[ignore = "as served"]
fn changed_table() {
    refused(Harm::Change(80), "its table was changed");
}
#[test]
#[ignore = "as served"]
fn changed_code() {
    refused(Harm::Change(2000), "a unit was changed");
}

/// NVIDIA's driver takes kernels from it with no NVRTC at all; what the driver has no use for is compiled.
#[test]
fn without_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    if null_driver(folder.path()).is_none() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let run = |name: &str, refuses: &str| {
        let mut c = Command::new(std::env::current_exe().unwrap());
        c.args([&format!("archive::{name}"), "--exact", "--ignored", "--nocapture"]);
        c.env_remove("FLAMBEAU_CUDA").env("LD_LIBRARY_PATH", folder.path());
        c.env("FLAMBEAU_KERNEL_CACHE", folder.path()).env("FLAMBEAU_NULL_REFUSES", refuses);
        let out = c.output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{name}: {}{text}", String::from_utf8_lossy(&out.stdout));
    };
    run("by_the_driver", "0");
    run("by_the_compiler", "1");
    std::fs::remove_file(folder.path().join("libnvrtc.so")).unwrap();
    run("by_the_driver", "0");
}
#[test]
#[ignore = "without_a_compiler runs it with a driver that does nothing"]
fn by_the_driver() {
    archive::stand_in(FILL, Kind::Device, Harm::None).unwrap();
    filled().unwrap();
    assert_eq!(archive::served(), 1);
}
#[test]
#[ignore = "as by_the_driver, with a driver that refuses what others compiled"]
fn by_the_compiler() {
    archive::stand_in(FILL, Kind::Device, Harm::None).unwrap();
    filled().unwrap();
    assert_eq!(archive::served(), 0);
}

/// The file by itself: every byte counts.
#[test]
fn damage_is_found() {
    let keys = |n: u8| vec![[n; 32], [n + 1; 32]];
    let whole = Archive::write(Kind::Device, &[(vec![7; 100], keys(1)), (vec![9; 50], keys(3))]);
    let a = Archive::open(whole.clone()).unwrap();
    assert_eq!((a.instances(), a.unit(0).unwrap(), a.unit(1).unwrap()), (4, &[7; 100][..], &[9; 50][..]));
    assert!(a.unit(2).is_err());
    for n in 0..whole.len() {
        assert!(Archive::open(whole[..n].to_vec()).is_err(), "{n} bytes");
        let mut other = whole.clone();
        other[n] ^= 0x10;
        // the kind is no secret: a driver asks for its own
        let found = Archive::open(other).and_then(|a| a.unit(0).and(a.unit(1)).map(|_| ()));
        assert!(found.is_err(), "byte {n}");
    }
    assert!(Archive::open([&whole[..], b"x"].concat()).is_err());
    assert!(Archive::open(Vec::new()).is_err());
}
#[test]
fn sources_and_lines() {
    let source = "#include \"a.cuh\"\n#include \"b.cuh\"\nONE(k_1, float)\nTWO(k_2, b8)\n";
    let i = Instance::of(source).unwrap();
    assert_eq!(i.line(), "a.cuh b.cuh\tONE(k_1, float)\tTWO(k_2, b8)");
    assert_eq!(Instance::parse(&i.line()).unwrap(), i);
    assert_eq!(i.source(), source);
    assert_eq!(i.clone().only("k_2").line(), "a.cuh b.cuh\tTWO(k_2, b8)");
    // a kernel that a macro makes beside its own
    assert_eq!(i.clone().only("k_1_parts"), i);
    assert!(Instance::of("#include \"a.cuh\"\nint f() { return 1; }\n").is_none());
    assert!(Instance::of("#include \"a.cuh\"\n").is_none());
    assert!(Instance::parse("a.cuh").is_err() && Instance::parse("a.cuh\tint f() {}").is_err());
}
/// The committed list: every file and every macro is there.
#[test]
fn the_list_can_be_compiled() {
    let text = include_str!("../../../../kernels/instances.tsv");
    let all = list(text).unwrap();
    assert!(all.len() > 500, "{}", all.len());
    // hashes take their time: of what includes the same files, one
    let (mut files, mut few) = (BTreeSet::new(), BTreeSet::new());
    for i in &all {
        if files.insert(i.line().split('\t').next().unwrap().to_string()) {
            few.insert(i.clone());
        }
    }
    let units = plan(&few).unwrap();
    assert_eq!(units.iter().map(|u| u.keys.len()).sum::<usize>(), few.len());
    let macros: BTreeSet<&str> = units
        .iter()
        .flat_map(|u| u.text.split("#define ").skip(1))
        .filter_map(|d| d.split_once('(').map(|d| d.0))
        .collect();
    for i in &all {
        let line = i.line();
        for call in line.split('\t').skip(1) {
            let name = call.split('(').next().unwrap();
            assert!(macros.contains(name), "{line}: no macro {name}");
        }
    }
    assert!(units.iter().any(|u| u.groups) && units.iter().any(|u| !u.groups));
}
/// With NVIDIA's compiler at hand: a small archive.
#[test]
#[ignore = "needs nvcc: NVCC names it"]
fn by_nvcc() {
    let nvcc = std::env::var("NVCC").unwrap_or_else(|_| "nvcc".into());
    let folder = tempfile::tempdir().unwrap();
    let units = plan(&list(&format!("{FILL}{OTHER}")).unwrap()).unwrap();
    let made = units.into_iter().map(|u| {
        let (from, to) = (folder.path().join("k.cu"), folder.path().join("k.fatbin"));
        std::fs::write(&from, u.for_nvcc()).unwrap();
        let mut c = Command::new(&nvcc);
        c.args(["-std=c++20", "-fmad=false", "-w", "-fatbin", "-arch=sm_90a", "-compress-mode=size"]);
        assert!(c.arg("-o").arg(&to).arg(&from).status().unwrap().success());
        (std::fs::read(&to).unwrap(), u.keys)
    });
    let made: Vec<_> = made.collect();
    let a = Archive::open(Archive::write(Kind::Device, &made)).unwrap();
    assert_eq!(a.instances(), 2);
    // the magic number of NVIDIA's files of several architectures
    assert_eq!(a.unit(0).unwrap()[..4], 0xba55_ed50_u32.to_le_bytes());
}
