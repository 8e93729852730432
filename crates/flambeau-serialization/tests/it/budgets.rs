//! Small files that would make much: objects without end, names and sizes that are used over and over, values without a
//! bottom. And what is replaced keeps who may read it.

use flambeau_core::{Tensor, functions as torch};
use flambeau_serialization::pickle::{self, Graph, Value};
use flambeau_serialization::{Tree, tensors};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;

/// A deflated checkpoint with this pickle.
fn deflated(pickle: &[u8]) -> Vec<u8> {
    let mut z = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let o = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    z.start_file("a/data.pkl", o).unwrap();
    z.write_all(pickle).unwrap();
    z.start_file("a/version", o).unwrap();
    z.write_all(b"3\n").unwrap();
    z.finish().unwrap().into_inner()
}
fn refused(pickle: &[u8]) -> String {
    // no clock: on a busy machine it would say how busy, and what never ends ends the test run
    let r = tensors::load_from(Cursor::new(deflated(pickle)), tensors::LoadOptions::new());
    r.expect_err("an error").message().to_owned()
}

#[test]
fn objects_have_a_budget() {
    let ops: [&[u8]; 8] = [b"]", b"N", b")", b"}", b"(", b"K\x01", b"N\x94", b"]2"];
    for op in ops {
        let mut p = b"\x80\x02(".to_vec();
        while p.len() < 20 << 20 {
            p.extend_from_slice(op);
        }
        p.extend_from_slice(b"l.");
        let e = refused(&p);
        assert!(e.contains("objects") || e.contains("malformed") || e.contains("MARK"), "{op:?}: {e}");
    }
    // calls within calls
    let mut p = b"\x80\x02".to_vec();
    let call = b"ccollections\nOrderedDict\n(";
    (0..1_000_000).for_each(|_| p.extend_from_slice(call));
    (0..1_000_000).for_each(|_| p.extend_from_slice(b"tR"));
    p.push(b'.');
    refused(&p);
}

#[test]
fn sizes_and_names_that_are_shared_are_not_copied_without_bound() {
    // one torch.Size of a million ones, in thousands of tensors
    let mut g = Graph::new();
    let one = g.add(Value::Int(1)).unwrap();
    let ones = g.tuple(vec![one; 1_000_000]).unwrap();
    let (dtype, no) = (g.global("torch", "float32").unwrap(), g.add(Value::Bool(false)).unwrap());
    let meta = |g: &mut Graph| {
        g.call("torch._utils", "_rebuild_meta_tensor_no_storage", vec![dtype, ones, ones, no])
    };
    let all = (0..3_000).map(|_| meta(&mut g)).collect::<Result<Vec<_>, _>>().unwrap();
    let root = g.add(Value::List(all)).unwrap();
    assert!(refused(&pickle::dump(&g, root).unwrap()).contains("too often"));
    // one long text, used twenty thousand times
    let mut g = Graph::new();
    let name = g.intern(&"n".repeat(1 << 20)).unwrap();
    let root = g.add(Value::List(vec![name; 20_000])).unwrap();
    assert!(refused(&pickle::dump(&g, root).unwrap()).contains("too often"));
}

#[test]
fn what_real_checkpoints_hold_fits() {
    let tree = Tree::Dict(vec![
        (Tree::Str("ints".into()), Tree::List((0..300_000).map(Tree::Int).collect())),
        (Tree::Str("text".into()), Tree::Str("x".repeat(8 << 20))),
        (Tree::Str("bytes".into()), Tree::Bytes(vec![7; 8 << 20])),
        (
            Tree::Str("tensors".into()),
            Tree::List((0..3_000).map(|_| Tree::Tensor(torch::ones([1]))).collect()),
        ),
    ]);
    let file = tensors::save_to(&tree, Vec::new()).unwrap();
    let back = tensors::load_from(Cursor::new(file), tensors::LoadOptions::new()).unwrap();
    assert_eq!(back["ints"].items().unwrap().len(), 300_000);
    assert_eq!(back["text"].as_str().unwrap().len(), 8 << 20);
}

#[test]
fn deep_trees_are_refused_by_the_writer() {
    // on a stack that holds the drop of the tree, which recurses
    let wide = std::thread::Builder::new().stack_size(512 << 20);
    let ended = wide.spawn(|| {
        let mut tree: Tree<Tensor> = Tree::None;
        for depth in 0..100_000 {
            tree = match depth % 3 {
                0 => Tree::List(vec![tree]),
                1 => Tree::Dict(vec![(Tree::Int(1), tree)]),
                _ => Tree::OrderedDict(vec![(Tree::Int(1), Tree::None)], Box::new(tree)),
            };
        }
        assert!(tensors::save_to(&tree, Vec::new()).unwrap_err().message().contains("levels deep"));
        let mut tree: Tree<Tensor> = Tree::None;
        (0..200).for_each(|_| tree = Tree::List(vec![std::mem::replace(&mut tree, Tree::None)]));
        let file = tensors::save_to(&tree, Vec::new()).unwrap();
        let back = tensors::load_from(Cursor::new(file), tensors::LoadOptions::new()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{tree:?}"));
    });
    ended.unwrap().join().unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.pt");
    for mode in [0o600, 0o640, 0o604, 0o400] {
        tensors::save(&torch::ones([1]), &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        tensors::save(&torch::ones([2]), &path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        assert_eq!(tensors::load(&path).unwrap().as_tensor().unwrap().sizes(), [2]);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn bombs_are_refused() {
    use flambeau_serialization::container::check_unpacked;
    assert!(check_unpacked(200 << 20, 1 << 10).is_ok());
    assert!(check_unpacked(100 << 30, 1 << 30).is_ok());
    assert!(check_unpacked(1 << 30, 1 << 20).is_err());
    assert!(check_unpacked(u64::MAX, u64::MAX).is_ok());
}
