//! Saving and loading of Flambeau's tensors, and of what stands around them.

use flambeau_autograd as _;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::{DType, Device, ErrorKind, Generator, Layout, Slice, Tensor, functions as torch};
use flambeau_serialization::config::{self, LoadEndianness};
use flambeau_serialization::container::{ArchiveWriter, ZipFile};
use flambeau_serialization::map_location::{MapLocation, register_package};
use flambeau_serialization::safe_globals::{self, SafeGlobal};
use flambeau_serialization::serde_tree::{self, from_tree, to_tree};
use flambeau_serialization::tensors::*;
use flambeau_serialization::{Object, Tree};
use flambeau_test_support::{alone, here};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;

fn bytes_of(value: &(impl ToTree + ?Sized), options: SaveOptions) -> Vec<u8> {
    save_to_with(value, Vec::new(), options).unwrap()
}
fn read(bytes: Vec<u8>) -> flambeau_core::Result<Tree<Tensor>> {
    load_from(Cursor::new(bytes), LoadOptions::new())
}
fn plain(bytes: Vec<u8>) -> Tree<Tensor> {
    read(bytes).unwrap()
}

/// A bit of everything that can be compared.
fn values() -> Tree<Tensor> {
    let map: BTreeMap<String, f32> = [("x".to_owned(), 0.5)].into();
    dict([
        ("none", &() as &dyn ToTree),
        ("numbers", &(true, -1i8, u64::MAX, i128::MIN, 2.5f64)),
        ("list", &vec![Some(1usize), None]),
        ("text", &"h\u{e9}"),
        ("map", &map),
        ("dtype", &DType::BF16),
        ("device", &Device::Cuda(1)),
        ("layout", &Layout::Strided),
        ("bytes", &Tree::Bytes(vec![0, 255])),
        ("long", &Tree::Bytes(vec![7; 300])),
        ("array", &Tree::ByteArray(b"zz".to_vec())),
        ("no array", &Tree::ByteArray(Vec::new())),
        ("set", &Tree::Set(vec![Tree::Int(1), Tree::Str("a".into())])),
        ("frozen", &Tree::FrozenSet(vec![Tree::Int(4)])),
        ("complex", &Tree::Complex(1.0, -2.0)),
        ("size", &Tree::Size(vec![2, 3])),
        ("ordered", &Tree::OrderedDict(vec![(Tree::Int(1), Tree::None)], Box::new(Tree::None))),
        ("counter", &Tree::Counter(vec![(Tree::Str("a".into()), Tree::Int(2))])),
        ("slice", &Tree::Slice(Box::new([Tree::None, Tree::Int(3), Tree::None]))),
        ("wide", &"w".repeat(300)),
    ])
}

#[test]
fn values_in_every_form() {
    let tree = values();
    for protocol in 2..=5 {
        for zip in [true, false] {
            let options = SaveOptions::new().pickle_protocol(protocol).use_new_zipfile_serialization(zip);
            let back = plain(bytes_of(&tree, options));
            assert_eq!(format!("{back:?}"), format!("{tree:?}"), "protocol {protocol}, zip {zip}");
        }
    }
    for (protocol, kind) in
        [(0, ErrorKind::Unsupported), (1, ErrorKind::Missing), (6, ErrorKind::Unsupported)]
    {
        let e = save_to_with(&tree, Vec::new(), SaveOptions::new().pickle_protocol(protocol)).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
    }
    assert_eq!(tree["numbers"][1].as_i64(), Some(-1));
    assert_eq!(tree["map"]["x"].as_f64(), Some(0.5));
    assert_eq!((tree["text"].as_str(), tree["list"][1].is_none()), (Some("h\u{e9}"), true));
}

#[test]
fn tensors_in_every_form() {
    let base = torch::arange(6).to(DType::F32).reshape((2, 3));
    let w = torch::ones((2, 2)).requires_grad_(true);
    let p = torch::zeros(3).alias_parameter();
    let meta = base.try_to(Device::Meta).unwrap().t();
    let tree = Tree::List(vec![
        base.to_tree(),
        base.t().to_tree(),
        base.select(0, 1).to_tree(),
        w.to_tree(),
        p.to_tree(),
        meta.to_tree(),
        base.to_tree(),
        Tree::Storage(base.view(-1)),
    ]);
    for zip in [true, false] {
        // an untyped storage beside a typed tensor is refused by PyTorch: leave it out
        let Tree::List(list) = &tree else { unreachable!() };
        let without = Tree::List(list[..7].to_vec());
        let options = SaveOptions::new().use_new_zipfile_serialization(zip);
        let back = plain(bytes_of(&without, options));
        let t = |i: usize| back[i].as_tensor().unwrap();
        for i in 0..5 {
            let want = list[i].as_tensor().unwrap();
            assert_eq!((t(i).sizes(), t(i).strides()), (want.sizes(), want.strides()));
            assert_eq!(t(i).to_vec::<f32>(), want.to_vec::<f32>(), "{i}");
            assert_eq!(t(i).requires_grad(), want.requires_grad(), "{i}");
            assert_eq!(t(i).is_parameter(), want.is_parameter(), "{i}");
        }
        assert!(t(0).storage().same(t(1).storage()) && t(0).storage().same(t(2).storage()));
        assert_eq!(t(0).id(), t(6).id(), "one object is one object");
        assert_eq!((t(5).device(), t(5).sizes(), t(5).strides()), (Device::Meta, &[3, 2][..], &[1, 3][..]));
    }
    assert!(
        save_to(&tree, Vec::new()).unwrap_err().message().contains("view the same data as different types")
    );
}

#[test]
fn map_location_sends_storages() {
    let mut bytes = Vec::new();
    for device in ["cpu", "cuda:1", "foo"] {
        // the location is changed in the pickle: there is no such device to save from
        let file = save_to(&torch::ones(3), Vec::new()).unwrap();
        let mut zip = ZipFile::open(Cursor::new(file)).unwrap();
        let text = zip.read("data.pkl").unwrap();
        let from = text.windows(8).position(|w| w == b"X\x03\0\0\0cpu").unwrap();
        let mut new = text[..from].to_vec();
        new.push(b'X');
        new.extend((device.len() as u32).to_le_bytes());
        new.extend(device.as_bytes());
        new.extend(&text[from + 8..]);
        let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
        w.record("data.pkl", &new).unwrap();
        w.record("data/0", &zip.read("data/0").unwrap()).unwrap();
        bytes.push(w.finish().unwrap().into_inner());
    }
    let go = |i: usize, to: MapLocation<'_>| {
        load_from(Cursor::new(bytes[i].clone()), LoadOptions::new().map_location(to))
    };
    let device = |r: flambeau_core::Result<Tree<Tensor>>| r.unwrap().as_tensor().unwrap().device();
    assert_eq!(device(go(0, MapLocation::Saved)), Device::Cpu);
    assert_eq!(device(go(1, "cpu".into())), Device::Cpu);
    assert_eq!(device(go(1, Device::Meta.into())), Device::Meta);
    assert_eq!(device(go(1, [("cuda:1", "cpu")].into())), Device::Cpu);
    assert_eq!(device(go(2, MapLocation::with(|s, at| Ok((at == "foo").then(|| s.clone()))))), Device::Cpu);
    let text = |r: flambeau_core::Result<Tree<Tensor>>| r.unwrap_err().message().to_owned();
    assert!(text(go(1, MapLocation::Saved)).starts_with(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."
    ));
    assert!(text(go(0, "hpu".into())).starts_with("The HPU device module is not registered."));
    assert_eq!(
        text(go(2, MapLocation::with(|_, _| Ok(None)))),
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with foo)"
    );
    register_package(5, |_| None, |s, at| Ok((at == "elsewhere").then(|| s.clone())));
    assert_eq!(device(go(0, "elsewhere".into())), Device::Cpu);
}

fn object(path: (&str, &str), state: Tree<Tensor>) -> Tree<Tensor> {
    Tree::Object(Box::new(Object {
        module: path.0.into(),
        name: path.1.into(),
        by_new: true,
        args: Vec::new(),
        state: Some(state),
        items: Vec::new(),
        pairs: Vec::new(),
    }))
}

#[test]
fn safe_globals_let_classes_in() {
    alone!();
    let state = dict([("lr", &0.5f64 as &dyn ToTree), ("w", &torch::ones(2))]);
    let tree = Tree::List(vec![object(("pkg.sub", "Config"), state), object(("os", "Thing"), Tree::None)]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pt");
    save(&tree, &path).unwrap();
    assert_eq!(
        safe_globals::get_unsafe_globals_in_checkpoint(&path).unwrap(),
        ["pkg.sub.Config", "os.Thing"]
    );
    let e = load(&path).unwrap_err();
    for part in [
        "Weights only load failed. This file can still be loaded",
        "WeightsUnpickler error: Unsupported global: GLOBAL pkg.sub.Config was not an allowed global by default. Please \
         use `torch.serialization.add_safe_globals([pkg.sub.Config])`",
        "Check the documentation of torch.load",
    ] {
        assert!(e.message().contains(part), "{e}");
    }
    {
        let _guard = safe_globals::safe_globals(["pkg.sub.Config", "os.Thing"]);
        let e = load(&path).unwrap_err();
        assert!(
            e.message().contains("Trying to load unsupported GLOBAL os.Thing whose module os is blocked."),
            "{e}"
        );
    }
    assert!(safe_globals::get_safe_globals().is_empty());
    save(&tree[0], &path).unwrap();
    safe_globals::add_safe_globals([SafeGlobal::with("pkg.sub.Config", |o| {
        Ok(Tree::Tuple(vec![Tree::Str("made".into()), o.state.unwrap_or(Tree::None)]))
    })]);
    let made = load(&path).unwrap();
    assert_eq!(made[0].as_str(), Some("made"));
    assert_eq!(made[1]["w"].as_tensor().unwrap().numel(), 2);
    assert_eq!(safe_globals::get_safe_globals(), ["pkg.sub.Config"]);
    assert!(safe_globals::get_unsafe_globals_in_checkpoint(&path).unwrap().is_empty());
    safe_globals::clear_safe_globals();
    let lenient = load_with(&path, LoadOptions::new().weights_only(false)).unwrap();
    assert!(matches!(&lenient, Tree::Object(o) if o.name == "Config"));
}

#[test]
fn generators_keep_their_stream() {
    alone!();
    let g = Generator::new();
    g.manual_seed(7);
    let bytes = save_to(&g, Vec::new()).unwrap();
    assert!(read(bytes.clone()).unwrap_err().message().contains("torch._C.Generator"));
    let _guard = safe_globals::safe_globals(["torch._C.Generator"]);
    let back = generator_of(&plain(bytes)).unwrap();
    assert_eq!(back.state_bytes(), g.state_bytes());
    assert!(generator_of(&Tree::Int(1)).is_err());
}

#[test]
fn settings() {
    alone!();
    let t = torch::arange(3);
    let bytes = {
        let _skip = config::skip_data();
        let e = save_to_with(&t, Vec::new(), SaveOptions::new().use_new_zipfile_serialization(false));
        assert!(e.unwrap_err().message().starts_with("Cannot use skip_data=True"));
        save_to(&t, Vec::new()).unwrap()
    };
    assert_eq!(plain(bytes).as_tensor().unwrap().to_vec::<i64>(), [0; 3]);
    for zip in [true, false] {
        let bytes = bytes_of(&t, SaveOptions::new().use_new_zipfile_serialization(zip));
        let _skip = config::skip_data();
        assert_eq!(plain(bytes).as_tensor().unwrap().to_vec::<i64>(), [0; 3]);
    }
    // without the record, the setting decides
    let bytes = bytes_of(&t, SaveOptions::new().disable_byteorder_record(true));
    config::set_default_load_endianness(LoadEndianness::Big);
    assert_eq!(config::get_default_load_endianness(), Some(LoadEndianness::Big));
    assert_eq!(plain(bytes.clone()).as_tensor().unwrap().to_vec::<i64>(), [0, 1 << 56, 2 << 56]);
    config::set_default_load_endianness(None);
    assert_eq!(plain(bytes).as_tensor().unwrap().to_vec::<i64>(), [0, 1, 2]);
    assert!(config::set_storage_alignment(48).is_err());
    assert!(config::get_crc32_options() && config::set_crc32_options(true).is_ok());
    assert_eq!(config::set_crc32_options(false).unwrap_err().kind(), ErrorKind::Missing);
}

#[test]
fn big_endian_files() {
    let t = torch::arange(4).to(DType::I32);
    let file = save_to(&t, Vec::new()).unwrap();
    let mut zip = ZipFile::open(Cursor::new(file)).unwrap();
    let mut data = zip.read("data/0").unwrap();
    data.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    let write = |order: &[u8]| {
        let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
        w.record("byteorder", order).unwrap();
        w
    };
    let pickle = zip.read("data.pkl").unwrap();
    let mut w = write(b"big");
    w.record("data.pkl", &pickle).unwrap();
    w.record("data/0", &data).unwrap();
    let big = w.finish().unwrap().into_inner();
    assert_eq!(plain(big).as_tensor().unwrap().to_vec::<i32>(), [0, 1, 2, 3]);
    let mut w = write(b"middle");
    w.record("data.pkl", &pickle).unwrap();
    let e = read(w.finish().unwrap().into_inner()).unwrap_err();
    assert!(e.message().contains("Unknown endianness type: middle"), "{e}");
}

#[test]
fn attributes_stay_with_their_tensor() {
    for parameter in [false, true] {
        let t = if parameter { torch::ones(2).alias_parameter() } else { torch::ones(2) };
        let class = if parameter { ("torch.nn.parameter", "Parameter") } else { ("torch", "Tensor") };
        let tree = Tree::with_attributes(t, class, dict([("tag", &3 as &dyn ToTree)]));
        let back = plain(save_to(&tree, Vec::new()).unwrap());
        let t = back.as_tensor().unwrap();
        assert_eq!((t.to_vec::<f32>(), t.is_parameter()), (vec![1.0; 2], parameter));
        let Tree::Object(o) = &back else { panic!("{back:?}") };
        assert_eq!(o.args[2]["tag"].as_i64(), Some(3));
    }
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone, Copy)]
enum Schedule {
    Constant,
    Step(u32),
    Cosine { warmup: u32, end: f32 },
    Pair(i8, i8),
}
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    epoch: u64,
    loss: f64,
    name: Option<String>,
    schedule: Vec<Schedule>,
    shape: (i64, i64),
    extra: HashMap<String, Vec<f32>>,
    #[serde(with = "serde_tree::tensor")]
    w: Tensor,
    #[serde(with = "serde_tree::tensor::optional")]
    bias: Option<Tensor>,
    #[serde(with = "serde_tree::tensor::list")]
    moments: Vec<Tensor>,
    #[serde(with = "serde_tree::tensor::map")]
    named: BTreeMap<String, Tensor>,
}

#[test]
fn structs_through_serde() {
    let w = torch::arange(3);
    let c = Checkpoint {
        epoch: u64::MAX,
        loss: 1.0,
        name: None,
        schedule: vec![
            Schedule::Constant,
            Schedule::Step(3),
            Schedule::Cosine { warmup: 5, end: 0.5 },
            Schedule::Pair(-1, 1),
        ],
        shape: (2, 3),
        extra: [("a".into(), vec![1.5])].into(),
        w: w.clone(),
        bias: Some(w.clone()),
        moments: vec![torch::ones(1), torch::zeros(2)],
        named: [("w".to_owned(), w.clone())].into(),
    };
    let tree = to_tree(&c).unwrap();
    assert_eq!(tree["shape"].type_name(), "tuple");
    assert_eq!(tree["schedule"][2]["Cosine"]["warmup"].as_i64(), Some(5));
    let back: Checkpoint = from_tree(&plain(save_to(&tree, Vec::new()).unwrap())).unwrap();
    assert_eq!((back.epoch, back.loss, back.name, back.shape), (u64::MAX, 1.0, None, (2, 3)));
    assert_eq!((back.schedule, back.extra), (c.schedule, c.extra));
    assert_eq!(back.w.to_vec::<i64>(), [0, 1, 2]);
    assert_eq!(back.w.id(), back.bias.unwrap().id(), "one tensor stays one");
    assert_eq!(back.named["w"].id(), back.w.id());
    assert_eq!(back.moments.len(), 2);

    // whole floats may have become ints, and entries that nobody names are left aside
    let tree = dict([("loss", &1i64 as &dyn ToTree), ("more", &torch::ones(1)), ("other", &Device::Cpu)]);
    #[derive(Deserialize, Debug)]
    struct Loss {
        loss: f32,
    }
    assert_eq!(from_tree::<Loss>(&tree).unwrap().loss, 1.0);
    let e = from_tree::<Loss>(&dict([("loss", &"x" as &dyn ToTree)])).unwrap_err();
    assert!(e.message().contains("loss") && e.kind() == ErrorKind::Serialization, "{e}");
    assert!(from_tree::<(i64, i64)>(&(1i64, 2i64, 3i64).to_tree()).is_err());
    assert!(from_tree::<u8>(&300i64.to_tree()).is_err());
    assert!(from_tree::<Vec<String>>(&torch::ones(1).to_tree()).is_err());
    // other formats refuse tensors
    #[derive(Serialize)]
    struct Only {
        #[serde(with = "serde_tree::tensor")]
        w: Tensor,
    }
    assert!(serde_json::to_string(&Only { w }).is_err());
}

#[test]
fn safetensors_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    let x = torch::arange(4 * 5 * 6).to(DType::I16).reshape((4, 5, 6));
    let meta = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let list = [("x", x.clone()), ("scalar", &torch::ones(()) * 2.5), ("t", x.permute([2, 0, 1]))];
    save_safetensors(list, &path, Some(&meta)).unwrap();
    let file = SafeFile::open(&path).unwrap();
    assert_eq!((file.keys().count(), file.metadata()), (3, &meta));
    let s = file.slice("x").unwrap();
    assert_eq!((s.shape(), s.dtype()), (&[4, 5, 6][..], DType::I16));
    let same = |a: Tensor, b: Tensor| {
        assert_eq!(a.sizes(), b.sizes());
        assert_eq!(a.to_vec::<i16>(), b.to_vec::<i16>());
    };
    same(s.get(()).unwrap(), x.clone());
    same(s.get(2).unwrap(), x.i(2));
    same(s.get((-1, 1..3)).unwrap(), x.i((-1, 1..3)));
    same(s.get((.., 2, 1..)).unwrap(), x.i((.., 2, 1..)));
    same(s.get((flambeau_core::Ellipsis, 0..2)).unwrap(), x.i((flambeau_core::Ellipsis, 0..2)));
    same(
        s.get((Slice::step(2), Slice::new(1, 10, 3), Slice::new(None, -1, 1))).unwrap(),
        x.i((Slice::step(2), Slice::new(1, 10, 3), Slice::new(None, -1, 1))),
    );
    same(s.get(3..3).unwrap(), x.i(3..3));
    assert_eq!(file.slice("scalar").unwrap().get(()).unwrap().item::<f32>(), 2.5);
    same(file.tensor("t").unwrap(), x.permute([2, 0, 1]));
    assert_eq!(s.get(4).unwrap_err().kind(), ErrorKind::Index);
    assert_eq!(s.get((0, 0, 0, 0)).unwrap_err().kind(), ErrorKind::Index);
    assert_eq!(s.get(flambeau_core::NewAxis).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(s.get(Slice::new(None, None, -1)).is_err());
    assert_eq!(file.tensor("y").unwrap_err().kind(), ErrorKind::Index);
    let tree = load_with(&path, LoadOptions::new().map_location("meta")).unwrap();
    assert_eq!(tree["x"].as_tensor().unwrap().device(), Device::Meta);
    let e = load_with(&path, LoadOptions::new().map_location([("cpu", "meta")])).unwrap_err();
    assert!(e.message().starts_with("Loading safetensors file with dict map_location is not supported."));
    let e = save_safetensors([("m", x.try_to(Device::Meta).unwrap())], &path, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(SafeFile::open(&path).is_ok(), "a failed save leaves the old file");
}

#[test]
fn sharded_files() {
    let dir = tempfile::tempdir().unwrap();
    let list: Vec<(String, Tensor)> =
        (0..5).map(|i| (format!("t{i}"), torch::full(100, f64::from(i)))).collect();
    let files = save_sharded(list.clone(), dir.path(), "model", 900, None).unwrap();
    assert_eq!(files[0], "model-00001-of-00003.safetensors");
    let back = load_sharded(dir.path().join("model.safetensors.index.json"), LoadOptions::new()).unwrap();
    assert_eq!(back.len(), 5);
    for ((n, a), (m, b)) in list.iter().zip(back.iter()) {
        assert_eq!((n.as_str(), a.to_vec::<f32>()), (m, b.to_vec::<f32>()));
    }
    assert_eq!(save_sharded(list, dir.path(), "one", 1 << 20, None).unwrap(), ["one.safetensors"]);
    for (text, want) in [
        (r#"{"weight_map": {"a": "../m.safetensors"}}"#, "not in the index's folder"),
        (r#"{"weight_map": {"a": "/etc/passwd"}}"#, "not in the index's folder"),
        (r#"{"weight_map": {"a": 3}}"#, "not a file"),
        (r#"{"weight_map": {"a": "one.safetensors"}}"#, "has no tensor a"),
        ("{}", "no weight_map"),
        ("[", "index.json"),
    ] {
        let path = dir.path().join("index.json");
        std::fs::write(&path, text).unwrap();
        let e = load_sharded(&path, LoadOptions::new()).unwrap_err();
        assert!(e.message().contains(want), "{e}");
    }
}

#[test]
fn folders_of_model_hubs() {
    let dir = tempfile::tempdir().unwrap();
    let read = || load_pretrained(dir.path(), LoadOptions::new());
    assert_eq!(read().unwrap_err().kind(), ErrorKind::NotFound);
    let list = || [("a", torch::ones([3])), ("b", torch::zeros([2]))];
    // the last of the four ways first: each that comes is preferred to those before
    let tree = |v: f64| torch_tree(v);
    save(&tree(1.0), dir.path().join("w.bin")).unwrap();
    let index = dir.path().join("pytorch_model.bin.index.json");
    std::fs::write(&index, r#"{"weight_map": {"a": "w.bin"}}"#).unwrap();
    assert_eq!(read().unwrap()["a"].to_vec::<f32>(), [1.0; 3]);
    save(&tree(2.0), dir.path().join("pytorch_model.bin")).unwrap();
    assert_eq!(read().unwrap()["a"].to_vec::<f32>(), [2.0; 3]);
    save_sharded(list(), dir.path(), "model", 8, None).unwrap();
    let shards = read().unwrap();
    assert_eq!((shards.len(), shards["a"].to_vec::<f32>()), (2, vec![1.0; 3]));
    save_sharded([("c", torch::ones([1]))], dir.path(), "model", 80, None).unwrap();
    assert_eq!(read().unwrap().keys().collect::<Vec<_>>(), ["c"]);
}
fn torch_tree(v: f64) -> Tree<Tensor> {
    Tree::Dict(vec![(Tree::Str("a".into()), Tree::Tensor(torch::full(3, v)))])
}

#[test]
fn arrays_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let at = |n: &str| dir.path().join(n);
    let x = torch::arange(6).reshape((2, 3));
    for t in [x.clone(), x.t(), x.i((.., 0..2)), torch::zeros([0, 3]), torch::ones(())] {
        save_npy(&t, at("a.npy")).unwrap();
        let back = load_npy(at("a.npy")).unwrap();
        assert_eq!(back.sizes(), t.sizes());
        assert_eq!(back.to(DType::F64).to_vec::<f64>(), t.to(DType::F64).to_vec::<f64>());
    }
    save_npy(&x.t(), at("a.npy")).unwrap();
    assert_eq!(load_npy(at("a.npy")).unwrap().strides(), [1, 3], "column-major stays column-major");
    let mut bytes = Vec::new();
    write_npy(&x, &mut bytes).unwrap();
    assert_eq!(read_npy(&bytes[..], bytes.len() as u64).unwrap().to_vec::<i64>(), x.to_vec::<i64>());
    for compress in [false, true] {
        save_npz([("a", x.clone()), ("b", x.t())], at("a.npz"), compress).unwrap();
        let back = load_npz(at("a.npz")).unwrap();
        assert_eq!((back[0].0.as_str(), back[1].1.to_vec::<i64>()), ("a", x.t().to_vec::<i64>()));
    }
    let e = save_npy(&torch::ones(1).to(DType::BF16), at("a.npy")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
}

/// What is no ordinary file is written to, not replaced.
#[cfg(unix)]
#[test]
fn devices_are_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    save(&torch::ones(1), "/dev/null").unwrap();
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// Killed at any time while saving, a process leaves the old file as it was.
#[cfg(unix)]
#[test]
fn killed_while_saving() {
    const PATH: &str = "FLAMBEAU_KILLED_WHILE_SAVING";
    if let Ok(path) = std::env::var(PATH) {
        let big = torch::full(4 << 20, 2.0);
        std::fs::write(format!("{path}.begun"), "").unwrap();
        // it is killed long before the end
        for _ in 0..500 {
            save(&big, &path).unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pt");
    save(&torch::full(4 << 20, 1.0), &path).unwrap();
    for round in 0..12u64 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([here!(), "--exact"])
            .env(PATH, &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = dir.path().join("c.pt.begun");
        while !begun.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the child ended before it saved");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::fs::remove_file(begun).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1 + round * 7));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "the child was not killed");
        let t = load(&path).unwrap();
        let t = t.as_tensor().unwrap();
        let first = t.i(0).item::<f32>();
        assert!(first == 1.0 || first == 2.0);
        assert_eq!(t.sum().item::<f32>(), first * (4 << 20) as f32);
    }
    // proof that some round ended in the middle: what was being written is still there beside the file
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(left > 1, "no round was killed while it wrote");
}

/// Storages of a map over a foreign function keep what it gave.
#[test]
fn relocated_storages_are_used() {
    let bytes = save_to(&torch::arange(3), Vec::new()).unwrap();
    let other = Storage::of_bytes(&[9u8; 24]).unwrap();
    let options = LoadOptions::new().map_location(MapLocation::with(|_, _| Ok(Some(other.clone()))));
    let t = load_from(Cursor::new(bytes), options).unwrap();
    assert!(t.as_tensor().unwrap().storage().same(&other));
    // a storage that is too small for its tensor is an error
    let small = Storage::of_bytes(&[1u8; 8]).unwrap();
    let bytes = save_to(&torch::arange(3), Vec::new()).unwrap();
    let options = LoadOptions::new().map_location(MapLocation::with(|_, _| Ok(Some(small.clone()))));
    assert!(load_from(Cursor::new(bytes), options).is_err());
}
