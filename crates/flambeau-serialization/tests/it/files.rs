//! Files made by PyTorch and NumPy (tests/data/make.py), round trips, and damaged input.

use crate::plain::{Sink, T, data};
use flambeau_dtype::DType;
use flambeau_serialization::container::{ArchiveWriter, ZipFile};
use flambeau_serialization::pickle::{self, Graph, Value};
use flambeau_serialization::*;
use std::io::Cursor;
use std::sync::Arc;

fn open(name: &str) -> Tree<T> {
    load(data(name), &mut Sink::default(), &ReadOptions::default()).unwrap()
}

fn lenient() -> ReadOptions {
    ReadOptions { lenient: true, ..Default::default() }
}

fn tensor(tree: &Tree<T>) -> &T {
    match tree {
        Tree::Tensor(t) => t,
        other => panic!("not a tensor: {other:?}"),
    }
}

#[test]
fn pickler_repeats_cpython_bytes() {
    let bytes = std::fs::read(data("plain.pkl")).unwrap();
    let (graph, root) = pickle::load(&bytes).unwrap();
    assert!(pickle::dump(&graph, root).unwrap() == bytes);
}

#[test]
fn tree_repeats_cpython_bytes() {
    let bytes = std::fs::read(data("plain.pkl")).unwrap();
    let (graph, root) = pickle::load(&bytes).unwrap();
    let (tree, _) = torch_format::decode(&graph, root, &ReadOptions::default()).unwrap();
    assert_eq!(tree.get("text"), Some(&Tree::Str("h\u{e9}\u{4e16}".into())));
    assert_eq!(tree.get("c"), Some(&Tree::Complex(1.0, 2.0)));
    assert_eq!(tree.get("bytes"), Some(&Tree::Bytes(vec![0, 255, b'a', b'b'])));
    let tree: Tree<T> = tree.map(&mut |_| -> Result<T> { unreachable!() }).unwrap();
    let encoded = torch_format::encode(&tree).unwrap();
    assert!(pickle::dump(&encoded.graph, encoded.root).unwrap() == bytes);
}

#[test]
fn all_protocols_read_alike() {
    let read = |p: usize| {
        let (graph, root) = pickle::load(&std::fs::read(data(&format!("proto{p}.pkl"))).unwrap()).unwrap();
        torch_format::decode(&graph, root, &ReadOptions::default()).unwrap().0
    };
    let first = read(2);
    assert_eq!(first.get("n").unwrap().get("b"), Some(&Tree::ByteArray(b"z".to_vec())));
    for p in 0..6 {
        assert_eq!(read(p), first, "protocol {p}");
    }
}

#[test]
fn checkpoint_means_what_it_says() {
    for name in ["checkpoint.pth", "legacy.pth"] {
        let tree = open(name);
        let model = tree.get("model").unwrap();
        let Tree::OrderedDict(entries, attributes) = model else { panic!("{model:?}") };
        assert_eq!(entries.len(), 7);
        assert!(attributes.get("_metadata").unwrap().get("0").is_some());
        assert_eq!(tensor(model.get("0.weight").unwrap()).f32s(), [0., 1., 2., 3., 4., 5.]);
        assert_eq!(tree.get("epoch"), Some(&Tree::Int(3)));
        assert_eq!(tree.get("size"), Some(&Tree::Size(vec![2, 3])));
        assert_eq!(tree.get("dtype"), Some(&Tree::DType(DType::BF16)));
        assert_eq!(tree.get("device"), Some(&Tree::Device("cuda:1".into())));
        let param = tensor(tree.get("param").unwrap());
        assert!(param.about.is_parameter && param.about.requires_grad);
        let Tree::List(views) = tree.get("views").unwrap() else { panic!() };
        assert_eq!(tensor(&views[1]).f32s(), [0., 3., 1., 4., 2., 5.]);
        assert_eq!(tensor(&views[2]).f32s(), [3., 4., 5.]);
        assert!(views.iter().all(|v| Arc::ptr_eq(&tensor(v).bytes, &param.bytes)), "{name}: sharing is lost");
        assert!(tensor(tree.get("conj").unwrap()).about.conj);
    }
}

#[test]
fn written_pickle_equals_torch() {
    for name in ["checkpoint.pth", "dtypes.pth"] {
        let file = save_to(Cursor::new(Vec::new()), "checkpoint", &open(name)).unwrap();
        let theirs =
            ZipFile::open(std::fs::File::open(data(name)).unwrap()).unwrap().read("data.pkl").unwrap();
        let ours = ZipFile::open(file).unwrap().read("data.pkl").unwrap();
        assert!(ours == theirs, "{name}: data.pkl differs from the one torch.save wrote");
    }
}

#[test]
fn dtypes() {
    let tree = open("dtypes.pth");
    let entries = tree.entries().unwrap();
    assert_eq!(entries.len(), 18);
    for (name, t) in entries {
        let Tree::Str(name) = name else { panic!() };
        assert_eq!(tensor(t).about.dtype, DType::from_name(name).unwrap());
        assert_eq!(tensor(t).bytes.len(), 3 * tensor(t).about.dtype.size());
    }
    assert_eq!(tensor(tree.get("bfloat16").unwrap()).elements(), [0, 0, 0x80, 0x3f, 0, 0x40]);
}

#[test]
fn npz_from_numpy() {
    let arrays = npy::load_npz(data("arrays.npz"), &mut Sink::default()).unwrap();
    let names: Vec<_> = arrays.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["a", "f", "s"]);
    assert_eq!(arrays[0].1.f32s(), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(arrays[1].1.about.stride, [1, 2]);
    let ints: Vec<_> =
        arrays[1].1.elements().chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(ints, [0, 1, 2, 3, 4, 5]);
    assert_eq!(arrays[2].1.elements(), 2.5f64.to_le_bytes());
}

#[test]
fn safetensors_and_npz_round_trip() {
    let tree = open("checkpoint.pth");
    let Tree::List(views) = tree.get("views").unwrap() else { panic!() };
    let named: Vec<_> = views.iter().enumerate().map(|(i, v)| (format!("v{i}"), tensor(v).clone())).collect();
    let folder = tempfile::tempdir().unwrap();
    let meta = [("format".to_owned(), "pt".to_owned())].into();
    let path = folder.path().join("x.safetensors");
    safetensors::save(&path, &named, Some(&meta)).unwrap();
    let (back, read_meta) = safetensors::load(&path, &mut Sink::default()).unwrap();
    assert_eq!(read_meta, meta);
    assert_eq!(back.len(), 3);
    for compress in [false, true] {
        let path = folder.path().join("x.npz");
        npy::save_npz(&path, &named, compress).unwrap();
        let arrays = npy::load_npz(&path, &mut Sink::default()).unwrap();
        for (((name, t), (sname, s)), (aname, a)) in named.iter().zip(&back).zip(&arrays) {
            assert!(name == sname && name == aname);
            assert_eq!(t.elements(), s.elements());
            assert_eq!(t.elements(), a.elements());
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a temporary file was left");
}

#[test]
fn refusals_are_clear() {
    let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
    w.record("constants.pkl", b"x").unwrap();
    let error = load_from(w.finish().unwrap(), &mut Sink::default(), &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("TorchScript"), "{error}");

    let evil = b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.";
    let (graph, root) = pickle::load(evil).unwrap();
    let error = torch_format::decode(&graph, root, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("os.system"), "{error}");
    let (tree, _) = torch_format::decode(&graph, root, &lenient()).unwrap();
    assert!(matches!(&tree, Tree::Object(o) if o.module == "os"));
}

#[test]
fn hostile_pickles_end_quickly() {
    let wrong = |bytes: &[u8]| {
        pickle::load(bytes).and_then(|(g, r)| torch_format::decode(&g, r, &lenient())).is_err()
    };
    // A million nested lists, a list in itself, a string longer than the file, doubling references.
    let mut deep = vec![b']'; 1_000_000];
    deep.extend(vec![b'a'; 999_999]);
    deep.push(b'.');
    assert!(wrong(&deep));
    assert!(wrong(b"]q\0h\0a."));
    assert!(wrong(b"X\xff\xff\xff\xffabc."));
    assert!(wrong(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc."));
    assert!(wrong(b"\x95\xff\xff\xff\xff\xff\xff\xff\xff."));
    let mut doubling = b"]".to_vec();
    doubling.extend(b"2\x86".repeat(200));
    doubling.push(b'.');
    assert!(wrong(&doubling));
    let mut graph = Graph::new();
    let id = graph.add(Value::None).unwrap();
    *graph.get_mut(id) = Value::Tuple(vec![id]);
    assert!(pickle::dump(&graph, id).is_err());
}

/// xorshift, so that a failure can be repeated.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

#[test]
fn damaged_files_give_errors() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for name in ["checkpoint.pth", "legacy.pth", "dtypes.pth"] {
        let good = std::fs::read(data(name)).unwrap();
        for round in 0..2000 {
            let mut bytes = good.clone();
            if round % 4 == 0 {
                bytes.truncate(next(&mut state) % good.len());
            }
            for _ in 0..1 + round % 5 {
                if !bytes.is_empty() {
                    let at = next(&mut state) % bytes.len();
                    bytes[at] = next(&mut state) as u8;
                }
            }
            let mut sink = Sink::default();
            let _ = load_from(
                Cursor::new(bytes),
                &mut sink,
                &ReadOptions { lenient: round % 2 == 0, ..Default::default() },
            );
            assert!(sink.bytes <= good.len() * 1032, "{name}, round {round}: {} bytes", sink.bytes);
        }
    }
    let good = std::fs::read(data("plain.pkl")).unwrap();
    for _ in 0..2000 {
        let mut bytes = good.clone();
        let at = next(&mut state) % bytes.len();
        bytes[at] = next(&mut state) as u8;
        if let Ok((graph, root)) = pickle::load(&bytes) {
            let _ = torch_format::decode(&graph, root, &lenient());
            let _ = pickle::dump(&graph, root);
        }
    }
}
