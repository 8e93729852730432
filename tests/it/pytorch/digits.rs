//! The example as its users run it: from another folder, with its files and last line, and beside the PyTorch script
//! that it mirrors.

use flambeau_test_support::programs::program;
use flambeau_test_support::python::{output, python};
use std::path::Path;
use std::process::Command;
use torch::nn::StateDict;
use torch::prelude::*;

/// What the example prints, run in `folder`.
fn digits(folder: &Path, args: &[&str]) -> String {
    output(Command::new(program("digits")).args(args).current_dir(folder), "")
}

fn state(path: &Path) -> StateDict {
    torch::load(path).unwrap().try_into().unwrap()
}

fn values(path: &Path) -> Vec<f32> {
    let t = torch::load(path).unwrap().into_tensor().expect("a tensor");
    t.to_vec::<f32>()
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn one_epoch_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let printed = digits(folder.path(), &["--epochs", "1", "--logits", "a.pt", "--losses", "la.pt"]);
    let last = printed.lines().last().unwrap();
    let percent: f64 =
        last.strip_prefix("test accuracy: ").unwrap().strip_suffix(" %").unwrap().parse().unwrap();
    assert!(percent > 80.0, "{last}");
    assert!(std::fs::read(at("digits.png")).unwrap().starts_with(b"\x89PNG"));

    let again = digits(folder.path(), &["--predict", "digits.pt", "--out", "again.pt", "--logits", "b.pt"]);
    assert_eq!(again.lines().last().unwrap(), last);
    assert_eq!(values(&at("a.pt")), values(&at("b.pt")));
    assert!(!at("again.pt").exists(), "predicting writes no checkpoint");

    digits(folder.path(), &["--resume", "digits.pt", "--epochs", "1", "--out", "more.pt"]);
    let steps = |name: &str| {
        let state = state(&at(name));
        state.iter().find(|(n, _)| *n == "bn1.num_batches_tracked").unwrap().1.item::<i64>()
    };
    assert_eq!(steps("more.pt"), 2 * steps("digits.pt"));

    let Some(python) = python() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/flambeau/examples/digits.py");
    let script =
        |args: &[&str]| output(Command::new(&python).arg(script).args(args).current_dir(folder.path()), "");
    // Our checkpoint, PyTorch's module: the same logits.
    script(&["--predict", "digits.pt", "--logits", "c.pt"]);
    let d = furthest(&values(&at("a.pt")), &values(&at("c.pt")));
    assert!(d < 1e-4, "PyTorch computes other logits from our checkpoint: {d}");
    // No training: what is saved are the initial weights, the same in both.
    digits(folder.path(), &["--epochs", "0", "--out", "ours.pt"]);
    script(&["--epochs", "0", "--out", "theirs.pt"]);
    let (ours, theirs) = (state(&at("ours.pt")), state(&at("theirs.pt")));
    for ((n, a), (m, b)) in ours.iter().zip(theirs.iter()) {
        assert_eq!(n, m);
        let (a, b) = (a.to(f32), b.to(f32));
        assert_eq!(a.shape(), b.shape(), "{n}");
        assert_eq!(furthest(&a.to_vec::<f32>(), &b.to_vec::<f32>()), 0.0, "{n}");
    }
    // One epoch: the same shuffle and the same dropout, so rounding is all that differs.
    script(&["--epochs", "1", "--out", "trained.pt", "--logits", "d.pt", "--losses", "ld.pt"]);
    let (ours, theirs) = (values(&at("la.pt")), values(&at("ld.pt")));
    assert_eq!(ours.len(), 23);
    let d = furthest(&ours[..20], &theirs[..20]);
    assert!(d < 1e-4, "the losses of the first steps are not PyTorch's: {d}");
    let d = furthest(&values(&at("a.pt")), &values(&at("d.pt")));
    assert!(d < 0.05, "an epoch ends elsewhere than PyTorch's: {d}");
}
