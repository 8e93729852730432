//! Files written here are opened by a real PyTorch, when one is found (FLAMBEAU_PYTHON, or python3).

mod common;

use common::{Sink, data};
use flambeau_serialization::{ReadOptions, WriteOptions, load, save};
use std::process::Command;

const CHECK: &str = r#"
import sys, torch
for ours, theirs in zip(sys.argv[1::2], sys.argv[2::2]):
    for extra in ({}, {"mmap": True}):
        a = torch.load(ours, weights_only=True, map_location="cpu", **extra)
        b = torch.load(theirs, weights_only=True, map_location="cpu")
        assert list(a) == list(b)
        def same(x, y):
            assert type(x) is type(y), (type(x), type(y))
            if isinstance(x, torch.Tensor):
                assert x.dtype == y.dtype and x.stride() == y.stride() and x.is_conj() == y.is_conj()
                assert x.requires_grad == y.requires_grad
                assert bytes(x.untyped_storage()) == bytes(y.untyped_storage())
            elif isinstance(x, dict):
                assert list(x) == list(y)
                assert getattr(x, "_metadata", None) == getattr(y, "_metadata", None)
                for k in x: same(x[k], y[k])
            elif type(x) is list:
                for p, q in zip(x, y): same(p, q)
            else:
                assert x == y
        same(a, b)
        if "views" in a:
            assert len({t.untyped_storage().data_ptr() for t in [a["param"], *a["views"]]}) == 1
print("ok")
"#;

#[test]
fn torch_opens_what_is_written() {
    let python = std::env::var("FLAMBEAU_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        println!("skipped: {python} has no torch (set FLAMBEAU_PYTHON)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(&python);
    command.args(["-c", CHECK]);
    for name in ["checkpoint.pth", "dtypes.pth"] {
        let tree = load(data(name), &mut Sink::default(), &ReadOptions::default()).unwrap();
        let path = folder.path().join(name);
        save(&path, &tree, &WriteOptions::default()).unwrap();
        command.arg(path).arg(data(name));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
