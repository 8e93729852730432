//! Files go to a real PyTorch and come from one, when one is found (FLAMBEAU_PYTHON, or python3).

use crate::plain::{Sink, data};
use flambeau_autograd as _;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{DType, Device, Generator, Layout, Tensor, functions as torch};
use flambeau_serialization::tensors::*;
use flambeau_serialization::{
    ReadOptions, Tree, WriteOptions, config, load as load_plain, save as save_plain,
};
use flambeau_test_support::alone;
use flambeau_test_support::python::python_with;
use std::path::Path;
use std::process::Command;

/// Runs a script in a folder: from a file, since TorchScript reads the source of what it compiles.
fn run(python: &str, script: &str, folder: &Path) {
    std::fs::write(folder.join("script.py"), script).unwrap();
    let output =
        Command::new(python).args(["-W", "ignore", "script.py"]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

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
"#;

#[test]
fn torch_opens_what_is_written() {
    let Some(python) = python_with("torch") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(&python);
    command.args(["-c", CHECK]);
    for name in ["checkpoint.pth", "dtypes.pth"] {
        let tree = load_plain(data(name), &mut Sink::default(), &ReadOptions::default()).unwrap();
        let path = folder.path().join(name);
        save_plain(&path, &tree, &WriteOptions::default()).unwrap();
        command.arg(path).arg(data(name));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// All dtypes that both sides have.
const DTYPES: [DType; 18] = [
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::C32,
    DType::C64,
    DType::C128,
    DType::Bool,
    DType::BF16,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::U16,
    DType::U32,
    DType::U64,
];

fn everything() -> Tree<Tensor> {
    let base = torch::arange(6).to(DType::F32).reshape((2, 3));
    let complex = torch::arange(3).to(DType::C64);
    let tied = torch::ones(2);
    let all = DTYPES.map(|d| (Tree::Str(d.name().into()), Tree::Tensor(torch::arange(3).to(d))));
    dict([
        ("dtypes", &Tree::Dict(all.to_vec()) as &dyn ToTree),
        ("views", &vec![base.clone(), base.t(), base.select(0, 1), base.i((.., 1..))]),
        ("tied", &vec![tied.clone(), tied]),
        ("grad", &torch::ones(2).requires_grad_(true)),
        ("param", &torch::ones(2).alias_parameter().requires_grad_(true)),
        (
            "attr",
            &Tree::with_attributes(torch::ones(2), ("torch", "Tensor"), dict([("tag", &"x" as &dyn ToTree)])),
        ),
        ("conj", &complex.conj()),
        ("meta", &base.try_to(Device::Meta).unwrap().t()),
        ("empty", &torch::zeros([0, 3])),
        ("sparse", &sparse()),
        (
            "values",
            &Tree::Tuple(vec![
                Tree::Int(1),
                Tree::Float(2.5),
                Tree::Str("t".into()),
                Tree::None,
                Tree::Bool(true),
                u64::MAX.to_tree(),
                Tree::Complex(1.0, 2.0),
            ]),
        ),
        ("bytes", &Tree::Bytes(b"\x00\xff".to_vec())),
        ("array", &Tree::ByteArray(b"zz".to_vec())),
        ("set", &Tree::Set(vec![Tree::Int(3), Tree::Int(4)])),
        ("kinds", &(DType::BF16, Device::Cuda(1), Layout::SparseCoo, Tree::Size(vec![2, 3]))),
        ("od", &Tree::OrderedDict(vec![(Tree::Str("k".into()), Tree::None)], Box::new(Tree::None))),
    ])
}

/// `[[0, 1], [2, 0]]` by coordinates and by rows.
fn sparse() -> Vec<Tensor> {
    let values = Tensor::from_slice(&[1f32, 2.0], 2);
    let coo = Parts::Coo {
        indices: Tensor::from_slice(&[0i64, 1, 1, 0], [2, 2]),
        values: values.clone(),
        coalesced: true,
    };
    let csr = Parts::Compressed {
        compressed: Tensor::from_slice(&[0i64, 1, 2], 3),
        plain: Tensor::from_slice(&[1i64, 0], 2),
        values,
    };
    let make = |l, p| Tensor::from_sparse_parts(&[2, 2], l, p).unwrap();
    vec![make(Layout::SparseCoo, coo), make(Layout::SparseCsr, csr)]
}

const EVERYTHING: &str = r#"
import torch, collections, os, glob
torch.serialization.add_safe_globals([torch._C.Generator])
for name in sorted(glob.glob("*.pt")):
    strict = not name.startswith("proto")
    legacy = name.startswith("legacy")
    for mmap in ([None] if legacy else [None, True]):
        a = torch.load(name, weights_only=strict, mmap=mmap)
        if not legacy:
            for k, t in a["dtypes"].items():
                assert str(t.dtype) == "torch." + k, (k, t.dtype)
                assert torch.equal(t.to(torch.complex128 if "complex" in k else torch.float64).real,
                    torch.tensor([0., 1., 1. if k == "bool" else 2.], dtype=torch.float64)), (name, k, t)
        v = a["views"]
        base = torch.arange(6.).view(2, 3)
        for x, y in zip(v, [base, base.t(), base[1], base[:, 1:]]):
            assert torch.equal(x, y) and x.stride() == y.stride() and x.storage_offset() == y.storage_offset()
        assert len({x.untyped_storage().data_ptr() for x in v}) == 1
        assert a["tied"][0] is a["tied"][1]
        assert a["grad"].requires_grad and not v[0].requires_grad
        assert type(a["param"]) is torch.nn.Parameter and a["param"].requires_grad
        assert a["attr"].tag == "x"
        assert a["conj"].is_conj() and torch.equal(a["conj"], torch.arange(3).to(torch.complex64))
        m = a["meta"]
        assert m.is_meta and m.shape == (3, 2) and m.stride() == (1, 3)
        s = a["sparse"]
        assert s[0].layout == torch.sparse_coo and s[0].is_coalesced() and s[1].layout == torch.sparse_csr
        for t in s:
            assert torch.equal(t.to_dense(), torch.tensor([[0., 1.], [2., 0.]])), t
        assert a["empty"].shape == (0, 3)
        assert a["values"] == (1, 2.5, "t", None, True, 2**64 - 1, 1 + 2j), a["values"]
        assert a["bytes"] == b"\x00\xff" and a["array"] == bytearray(b"zz") and a["set"] == {3, 4}
        assert a["kinds"] == (torch.bfloat16, torch.device("cuda:1"), torch.sparse_coo, torch.Size([2, 3]))
        assert type(a["od"]) is collections.OrderedDict and a["od"] == {"k": None}
g = torch.load("generator.ptg")
want = torch.Generator().manual_seed(7)
assert torch.equal(g.get_state(), want.get_state()) and g.initial_seed() == 7
r = torch._C.PyTorchFileReader("aligned.pt")
assert r.get_record_offset("data/3") % 4096 == 0
with torch.serialization.skip_data(): pass
z = torch.load("skipped.ptg")
assert torch.equal(z, torch.zeros(3))
"#;

#[test]
fn torch_reads_everything() {
    alone!();
    let Some(python) = python_with("torch") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |n: &str| folder.path().join(n);
    let tree = everything();
    save(&tree, at("plain.pt")).unwrap();
    for p in 3..=5 {
        save_with(&tree, at(&format!("proto{p}.pt")), SaveOptions::new().pickle_protocol(p)).unwrap();
    }
    // PyTorch cannot read dtypes without a storage class of their own back from its old format
    let entries = tree.clone().into_entries().unwrap();
    let old = Tree::Dict(entries.into_iter().filter(|(k, _)| k.as_str() != Some("dtypes")).collect());
    save_with(&old, at("legacy.pt"), SaveOptions::new().use_new_zipfile_serialization(false)).unwrap();
    std::fs::write(at("stream.pt"), save_to(&tree, Vec::new()).unwrap()).unwrap();
    config::set_storage_alignment(4096).unwrap();
    save(&tree, at("aligned.pt")).unwrap();
    config::set_storage_alignment(64).unwrap();
    let g = Generator::new();
    g.manual_seed(7);
    save(&g, at("generator.ptg")).unwrap();
    {
        let _skip = config::skip_data();
        save(&torch::ones(3), at("skipped.ptg")).unwrap();
    }
    run(&python, EVERYTHING, folder.path());
}

const WRITE: &str = r#"
import torch, collections
names = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
         "complex128", "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"]
dtypes = {n: torch.tensor([0., 1., 2.]).to(getattr(torch, n)) for n in names}
base = torch.arange(6.).view(2, 3)
p = torch.nn.Parameter(torch.ones(2)); p.tag = 3
everything = {
    "dtypes": dtypes, "views": [base, base.t(), base[1]], "param": p, "meta": base.to("meta"),
    "neg": torch.tensor([1 + 2j]).conj().imag, "layout": torch.sparse_csr, "bytes": b"ab", "none": None,
    "set": {1, 2}, "c": 1 + 2j, "size": torch.Size([1, 2]), "od": collections.OrderedDict(a=1), "ba": bytearray(b"q"),
    "counter": collections.Counter("aab"),
}
torch.save(everything, "zip.pt")
torch.save(everything, "legacy.pt", _use_new_zipfile_serialization=False)
for k in (3, 4, 5):
    torch.save(everything, f"proto{k}.pt", pickle_protocol=k)
torch.save(everything, "proto1.pt", pickle_protocol=1)
torch.save(everything, "nomark.pt", _disable_byteorder_record=True)
torch.serialization.set_crc32_options(False)
torch.save(everything, "nocrc.pt")
torch.serialization.set_crc32_options(True)
torch.save([torch.quantize_per_tensor(base, 0.1, 0, torch.qint8)], "quantized.ptq")
i = torch.eye(2)
torch.save([i.to_sparse(), i.to_sparse_csr(), i.to_sparse_bsc((2, 2))], "sparse.ptq")
torch.save(torch.nn.Linear(2, 2), "module.ptq")
torch.save([torch.zeros(2).to(torch.float8_e4m3fnuz)], "fnuz.ptq")

model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
opt = torch.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=10)
sched = torch.optim.lr_scheduler.StepLR(opt, 2)
for _ in range(3):
    model(torch.randn(4, 2)).sum().backward(); opt.step(); sched.step()
torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "rng": torch.get_rng_state()}, "training.ptq")
"#;

#[test]
fn everything_from_torch() {
    let Some(python) = python_with("torch") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |n: &str| folder.path().join(n);
    run(&python, WRITE, folder.path());
    for name in ["zip", "legacy", "proto1", "proto3", "proto4", "proto5", "nomark", "nocrc"] {
        let tree = load(at(&format!("{name}.pt"))).unwrap_or_else(|e| panic!("{name}: {e}"));
        let t = |k: &str| tree[k].as_tensor().unwrap_or_else(|| panic!("{name}: {k}"));
        assert_eq!(tree["dtypes"].entries().unwrap().len(), DTYPES.len());
        for (k, v) in tree["dtypes"].named() {
            let v = v.as_tensor().unwrap();
            assert_eq!(v.dtype().name(), k, "{name}");
            let two = if k == "bool" { 1.0 } else { 2.0 };
            let real = if v.dtype().is_complex() { v.to(DType::C128).real() } else { v.clone() };
            assert_eq!(real.to(DType::F64).to_vec::<f64>(), [0.0, 1.0, two], "{name}: {k}");
        }
        let views: Vec<&Tensor> =
            tree["views"].items().unwrap().iter().map(|v| v.as_tensor().unwrap()).collect();
        assert_eq!(views[1].to_vec::<f32>(), [0., 3., 1., 4., 2., 5.]);
        assert!(views[0].storage().same(views[1].storage()) && views[2].storage_offset() == 3);
        assert!(t("param").is_parameter() && t("param").requires_grad());
        let Tree::Object(o) = &tree["param"] else { panic!("{name}: no attributes") };
        assert_eq!(o.args[2]["tag"].as_i64(), Some(3));
        assert_eq!((t("meta").device(), t("meta").sizes()), (Device::Meta, &[2, 3][..]));
        assert!(t("neg").is_neg() && t("neg").to_vec::<f32>() == [-2.0]);
        assert!(matches!(&tree["layout"], Tree::Layout(l) if l == "sparse_csr"));
        assert_eq!(tree["bytes"].as_bytes(), Some(&b"ab"[..]));
        assert_eq!(tree["set"].items().unwrap().len(), 2);
        assert!(matches!(tree["c"], Tree::Complex(1.0, 2.0)));
        assert_eq!(tree["counter"]["a"].as_i64(), Some(2));
    }
    assert!(load(at("quantized.ptq")).unwrap()[0].as_tensor().unwrap().dtype().is_quantized());
    assert!(load_with(at("quantized.ptq"), LoadOptions::new().weights_only(false)).is_ok());
    let sparse = load(at("sparse.ptq")).unwrap();
    for (i, layout) in [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseBsc].into_iter().enumerate() {
        let t = sparse[i].as_tensor().unwrap();
        assert_eq!((t.layout(), t.sizes(), t.dtype()), (layout, &[2, 2][..], DType::F32));
        assert_eq!(
            t.sparse_parts().unwrap().values().to_vec::<f32>(),
            [&[1.0, 1.0][..], &[1.0, 1.0], &[1.0, 0.0, 0.0, 1.0]][i]
        );
    }
    let e = load(at("module.ptq")).unwrap_err();
    assert!(e.message().contains("GLOBAL torch.nn.modules.linear.Linear was not an allowed global"), "{e}");
    let e = load(at("fnuz.ptq")).unwrap_err();
    assert_eq!(e.kind(), flambeau_core::ErrorKind::Missing, "{e}");
    let tree = load(at("training.ptq")).unwrap();
    assert_eq!(tree["sched"]["last_epoch"].as_i64(), Some(3));
    assert_eq!(tree["opt"]["param_groups"][0]["amsgrad"].as_bool(), Some(true));
    assert_eq!(tree["rng"].as_tensor().unwrap().numel(), 5056);
    // and back, unchanged
    save(&tree, at("back.ptq")).unwrap();
    run(
        &python,
        "import torch\na, b = torch.load('training.ptq'), torch.load('back.ptq')\n\
         def same(x, y):\n    assert type(x) is type(y)\n    if isinstance(x, torch.Tensor): assert torch.equal(x, y)\n    \
         elif isinstance(x, dict):\n        assert list(x) == list(y)\n        for k in x: same(x[k], y[k])\n    \
         elif isinstance(x, (list, tuple)): [same(p, q) for p, q in zip(x, y)]\n    else: assert x == y\nsame(a, b)\n\
         assert a['model']._metadata == b['model']._metadata\n",
        folder.path(),
    );
}

const ARCHIVES: &str = r#"
import torch
class N(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 3)
        self.register_buffer("b", torch.ones(2))
        self.k = [1, 2, 3]
        self.c = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(1))
        self.f = 2.5
        self.t = torch.tensor([5.])
        self.tied = self.l
    def forward(self, x):
        return self.c(self.l(x)) + self.t
n = N().eval()
torch.jit.script(n).save("script.jit")
class T(torch.nn.Module):
    def forward(self, x): return x + torch.arange(3.)
torch.jit.trace(T(), torch.ones(3)).save("trace.jit")
state = torch.jit.load("script.jit").state_dict()
torch.save(dict(state), "state.pt")
ep = torch.export.export(n, (torch.ones(4, 2),))
torch.export.save(ep, "program.pt2")
torch.save(dict(ep.state_dict), "program.pt")
"#;

#[test]
fn archives_from_torch() {
    let Some(python) = python_with("torch") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |n: &str| folder.path().join(n);
    run(&python, ARCHIVES, folder.path());
    let script = load_torchscript(at("script.jit"), LoadOptions::new()).unwrap();
    let want = load(at("state.pt")).unwrap();
    let got = script.state_dict();
    let names = |it: &mut dyn Iterator<Item = &str>| it.map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&mut got.iter().map(|(n, _)| n.as_str())), names(&mut want.named().map(|(n, _)| n)));
    for ((n, a), (_, b)) in got.iter().zip(want.named()) {
        let b = b.as_tensor().unwrap();
        assert_eq!(a.to(DType::F64).to_vec::<f64>(), b.to(DType::F64).to_vec::<f64>(), "{n}");
    }
    let attribute = |n: &str| &script.attributes.iter().find(|(k, _)| k == n).unwrap().1;
    let list: Vec<_> = attribute("k").items().unwrap().iter().map(Tree::as_i64).collect();
    assert_eq!(list, [Some(1), Some(2), Some(3)]);
    assert_eq!(attribute("f").as_f64(), Some(2.5));
    assert_eq!(script.modules[0], (String::new(), "__torch__.N".to_owned()));
    let trace = load_torchscript(at("trace.jit"), LoadOptions::new()).unwrap();
    assert!(trace.parameters.is_empty());
    let e = load(at("script.jit")).unwrap_err();
    assert!(e.message().starts_with("Cannot use ``weights_only=True`` with TorchScript archives"), "{e}");
    assert!(load_with(at("script.jit"), LoadOptions::new().weights_only(false)).is_ok());
    assert!(load_torchscript(at("state.pt"), LoadOptions::new()).is_err());

    let program = load_exported(at("program.pt2"), LoadOptions::new()).unwrap();
    let want = load(at("program.pt")).unwrap();
    assert_eq!(program.state_dict.len(), want.entries().unwrap().len());
    for (n, a) in &program.state_dict {
        let b = want[n.as_str()].as_tensor().unwrap();
        assert_eq!(a.to(DType::F64).to_vec::<f64>(), b.to(DType::F64).to_vec::<f64>(), "{n}");
    }
    assert!(program.state_dict.iter().any(|(n, t)| n == "l.weight" && t.is_parameter()));
    assert!(load_exported(at("state.pt"), LoadOptions::new()).is_err());
}

const ARRAYS_OUT: &str = r#"
import numpy as np, torch
from safetensors.torch import load_file, save_file
from safetensors import safe_open
x = torch.arange(12).view(3, 4)
a = load_file("m.safetensors")
assert torch.equal(a["x"], x) and torch.equal(a["t"], x.t()) and torch.equal(a["conj"], torch.tensor([1 - 2j]))
for n, t in a.items():
    if n.startswith("d."): assert str(t.dtype) == "torch." + n[2:]
with safe_open("m.safetensors", "pt") as f:
    assert f.metadata() == {"format": "pt"}
n = np.load("t.npy")
assert n.flags.f_contiguous and (n == x.t().numpy()).all()
z = np.load("z.npz")
assert (z["x"] == x.numpy()).all() and (z["t"] == x.t().numpy()).all()
save_file({"x": x.contiguous(), "h": x.to(torch.bfloat16), "f8": x.to(torch.float8_e4m3fn)}, "theirs.safetensors", metadata={"k": "v"})
np.save("f.npy", np.asfortranarray(np.arange(6.).reshape(2, 3)))
np.save("be.npy", np.arange(6, dtype=">f8"))
np.save("bec.npy", np.array([1 + 2j, 3], dtype=">c16"))
np.savez_compressed("c.npz", a=np.arange(3), b=np.array(2.5), c=np.zeros((0, 2), dtype=np.float16))
for k, v in {"rec": np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]), "str": np.array(["ab"]),
             "date": np.array(["2020-01-01"], dtype="M8[D]"), "obj": np.array([None])}.items():
    np.save(f"bad_{k}.npy", v, allow_pickle=True)
"#;

#[test]
fn arrays_and_safetensors() {
    let Some(python) = python_with("torch, numpy, safetensors") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |n: &str| folder.path().join(n);
    let x = torch::arange(12).reshape((3, 4));
    let c = torch::ones(1).to(DType::C64);
    let conj = (&c + num_complex()).conj();
    let mut list = vec![("x".to_owned(), x.clone()), ("t".to_owned(), x.t()), ("conj".to_owned(), conj)];
    let held = |d: &DType| !matches!(d, DType::C32 | DType::C128);
    list.extend(
        DTYPES.iter().filter(|d| held(d)).map(|d| (format!("d.{}", d.name()), torch::arange(3).to(*d))),
    );
    let meta = [("format".to_owned(), "pt".to_owned())].into();
    save_safetensors(list, at("m.safetensors"), Some(&meta)).unwrap();
    save_npy(&x.t(), at("t.npy")).unwrap();
    save_npz([("x", x.clone()), ("t", x.t())], at("z.npz"), true).unwrap();
    run(&python, ARRAYS_OUT, folder.path());
    let list = load_safetensors(at("theirs.safetensors")).unwrap();
    let meta = load_safetensors_metadata(at("theirs.safetensors")).unwrap();
    assert_eq!(meta["k"], "v");
    for (n, t) in list {
        assert_eq!(t.to(DType::F32).to_vec::<f32>(), x.to(t.dtype()).to(DType::F32).to_vec::<f32>(), "{n}");
    }
    let f = load_npy(at("f.npy")).unwrap();
    assert_eq!((f.strides(), f.to_vec::<f64>()), (&[1, 2][..], vec![0., 1., 2., 3., 4., 5.]));
    assert_eq!(load_npy(at("be.npy")).unwrap().to_vec::<f64>(), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(load_npy(at("bec.npy")).unwrap().imag().to_vec::<f64>(), [2.0, 0.0]);
    let z = load_npz(at("c.npz")).unwrap();
    assert_eq!(
        (z[0].1.to_vec::<i64>(), z[1].1.item::<f64>(), z[2].1.sizes()),
        (vec![0, 1, 2], 2.5, &[0, 2][..])
    );
    for (name, word) in [("rec", "record"), ("str", "text"), ("date", "dates"), ("obj", "objects")] {
        let e = load_npy(at(&format!("bad_{name}.npy"))).unwrap_err();
        assert!(e.message().contains(word), "{e}");
    }
}

/// 2i, so that 1 + 2i has a conjugate worth looking at.
fn num_complex() -> Tensor {
    let i = torch::complex(&torch::zeros(1), &torch::ones(1));
    &i * 2.0
}

const QUANTIZED: &str = r#"
import torch
a, b = torch.load("ours.pth", weights_only=True), torch.load("theirs.pth", weights_only=True)
assert list(a) == list(b)
for k in a:
    x, y = a[k], b[k]
    assert x.dtype == y.dtype and x.qscheme() == y.qscheme() and x.stride() == y.stride(), k
    assert torch.equal(x.int_repr(), y.int_repr()) and torch.equal(x.dequantize(), y.dequantize()), k
assert a["tensor"].untyped_storage().data_ptr() == a["row"].untyped_storage().data_ptr()
"#;

#[test]
fn quantized_tensors_go_to_pytorch() {
    let Some(python) = python_with("torch") else { return };
    let folder = tempfile::tempdir().unwrap();
    let theirs = include_bytes!("../data/quantized.pth");
    std::fs::write(folder.path().join("theirs.pth"), theirs).unwrap();
    let tree = load(folder.path().join("theirs.pth")).unwrap();
    save(&tree, folder.path().join("ours.pth")).unwrap();
    run(&python, QUANTIZED, folder.path());
}
