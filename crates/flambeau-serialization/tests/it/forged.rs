//! Forged files: well-formed on the surface, lying about sizes, strides, offsets, nesting. Each must be an error, with no
//! panic, no absurd allocation, no exhausted stack; what is merely unusual must load.

use flambeau_core::{ErrorKind, Tensor};
use flambeau_serialization::container::ArchiveWriter;
use flambeau_serialization::pickle::{self, Graph, Id, Value};
use flambeau_serialization::{npy, tensors};
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::io::Cursor;

const HUGE: i64 = 1 << 62;

/// A checkpoint of one tensor, field by field.
#[derive(Clone)]
struct Forged {
    class: &'static str,
    /// Elements that the storage claims to have.
    numel: i64,
    /// Bytes that its record has.
    record: usize,
    offset: i64,
    size: Vec<i64>,
    stride: Vec<i64>,
}
fn forged() -> Forged {
    Forged { class: "FloatStorage", numel: 6, record: 24, offset: 0, size: vec![2, 3], stride: vec![3, 1] }
}
impl Forged {
    fn tensor(&self, g: &mut Graph) -> flambeau_serialization::Result<Id> {
        let ints = |g: &mut Graph, v: &[i64]| -> flambeau_serialization::Result<Id> {
            let ids = v.iter().map(|i| g.add(Value::Int(*i))).collect::<Result<Vec<_>, _>>()?;
            g.tuple(ids)
        };
        let parts = vec![
            g.intern("storage")?,
            g.global("torch", self.class)?,
            g.intern("0")?,
            g.intern("cpu")?,
            g.add(Value::Int(self.numel))?,
        ];
        let key = g.tuple(parts)?;
        let storage = g.add(Value::PersistentId(key))?;
        let offset = g.add(Value::Int(self.offset))?;
        let (size, stride) = (ints(g, &self.size)?, ints(g, &self.stride)?);
        let no = g.add(Value::Bool(false))?;
        let hooks = g.call("collections", "OrderedDict", vec![])?;
        g.call("torch._utils", "_rebuild_tensor_v2", vec![storage, offset, size, stride, no, hooks])
    }
    fn bytes(&self) -> Vec<u8> {
        let mut g = Graph::new();
        let root = self.tensor(&mut g).expect("a small graph");
        archive(&pickle::dump(&g, root).expect("a pickle"), self.record)
    }
}
fn archive(pickle: &[u8], record: usize) -> Vec<u8> {
    let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
    w.record("data.pkl", pickle).expect("a record");
    w.record("data/0", &vec![0; record]).expect("a record");
    w.finish().expect("an archive").into_inner()
}

/// Loads bytes as a file of that ending.
fn load(bytes: &[u8], ending: &str) -> flambeau_core::Result<Vec<Tensor>> {
    let name = format!("flambeau-forged-{}-{:?}.{ending}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes)?;
    let r = match ending {
        "npy" => tensors::load_npy(&path).map(|t| vec![t]),
        "safetensors" => tensors::load_safetensors(&path).map(|l| l.into_iter().map(|(_, t)| t).collect()),
        "npz" => npy::load_npz(&path, &mut crate::plain::Sink::default())
            .map(|_| Vec::new())
            .map_err(|e| flambeau_core::Error::serialization(e.to_string())),
        _ => tensors::load(&path).map(|t| t.into_tensor().into_iter().collect()),
    };
    let _ = std::fs::remove_file(&path);
    r
}

/// Whether it is refused, as a damaged or unknown file.
fn refused(bytes: &[u8], ending: &str) -> Option<String> {
    match load(bytes, ending) {
        Ok(_) => Some("loaded".into()),
        Err(e) if e.message().is_empty() => Some("no text".into()),
        Err(e) => match e.kind() {
            ErrorKind::Serialization | ErrorKind::Io | ErrorKind::Unsupported | ErrorKind::Missing => None,
            k => Some(format!("{k:?}: {e}")),
        },
    }
}

type Case = (&'static str, Box<dyn Fn() -> Option<String>>);
fn judge(test: &'static str, cases: Vec<Case>) {
    Calls {
        test,
        count: cases.len(),
        name: &|i| format!("{} ({test})", cases[i].0),
        run: &|i| (cases[i].1)(),
    }
    .judge();
}

#[test]
fn lying_checkpoints() {
    let case = |name: &'static str, change: fn(&mut Forged)| -> Case {
        let mut f = forged();
        change(&mut f);
        (name, Box::new(move || refused(&f.bytes(), "pt")))
    };
    let raw = |name: &'static str, bytes: fn() -> Vec<u8>| -> Case {
        (name, Box::new(move || refused(&bytes(), "pt")))
    };
    judge(
        here!(),
        vec![
            case("negative-stride", |f| f.stride = vec![-3, 1]),
            case("negative-size", |f| f.size = vec![-2, 3]),
            case("negative-offset", |f| f.offset = -1),
            case("negative-numel", |f| f.numel = -6),
            case("offset-beyond", |f| f.offset = 1),
            case("offset-huge", |f| f.offset = i64::MAX),
            case("size-beyond", |f| f.size = vec![2, 4]),
            case("size-huge", |f| f.size = vec![HUGE, HUGE]),
            case("size-huge-and-0", |f| f.size = vec![HUGE, HUGE, 0]),
            case("size-huge-over-one-element", |f| {
                (f.size, f.stride) = (vec![HUGE, HUGE], vec![0, 0]);
            }),
            case("stride-huge", |f| f.stride = vec![i64::MAX, 1]),
            case("stride-beyond", |f| f.stride = vec![4, 1]),
            case("stride-missing", |f| f.stride = vec![1]),
            case("more-dims-than-any", |f| (f.size, f.stride) = (vec![2; 100], vec![1; 100])),
            case("numel-beyond-record", |f| f.numel = 7),
            case("numel-huge", |f| f.numel = i64::MAX),
            case("numel-that-no-file-has", |f| (f.numel, f.size) = (1 << 50, vec![1 << 49, 2])),
            case("record-too-short", |f| f.record = 23),
            case("no-such-class", |f| f.class = "NoStorage"),
            case("wider-class", |f| f.class = "ComplexDoubleStorage"),
            raw("no-archive", || b"PK\x03\x04".to_vec()),
            raw("nothing", Vec::new),
            raw("not-a-pickle", || archive(b"\xff\xff", 0)),
            raw("stop-alone", || archive(b".", 0)),
            raw("deep-lists", || {
                let mut p = b"]".repeat(1 << 20);
                p.extend(b"a".repeat((1 << 20) - 1));
                p.push(b'.');
                archive(&p, 0)
            }),
            raw("deep-tuples-of-references", || {
                // each tuple holds the one before: deep for whoever follows it
                let mut p = b")".to_vec();
                p.extend(b"\x85".repeat(1 << 20));
                p.push(b'.');
                archive(&p, 0)
            }),
            raw("deep-calls", || {
                let mut p = b"ctorch\nSize\n(lp0\n0".to_vec();
                p.extend(b"ccollections\nOrderedDict\n)R".repeat(1000));
                p.extend(b"b".repeat(999));
                p.push(b'.');
                archive(&p, 0)
            }),
            raw("a-list-in-itself", || archive(b"]q\0h\0a.", 0)),
            raw("doubling", || {
                let mut p = b"]".to_vec();
                p.extend(b"2\x86".repeat(200));
                p.push(b'.');
                archive(&p, 0)
            }),
            raw("memo-of-a-huge-key", || archive(b"Nr\xff\xff\xff\xffj\xfe\xff\xff\xff.", 0)),
            raw("string-longer-than-the-file", || archive(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.", 0)),
            raw("number-of-a-million-digits", || {
                let mut p = b"L".to_vec();
                p.extend(b"9".repeat(1 << 20));
                p.extend(b"L\n.");
                archive(&p, 0)
            }),
            raw("frame-beyond-the-end", || archive(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", 0)),
            raw("a-call", || archive(b"cos\nsystem\nX\x02\0\0\0ls\x85R.", 0)),
            raw("attributes-of-attributes-without-end", || {
                let mut p = b"ctorch._tensor\n_rebuild_from_type_v2\nq\0ctorch\nTensor\nq\x01(".to_vec();
                p.extend(b"h\0h\x01(".repeat(100_000));
                p.extend(b"tN".repeat(100_000));
                p.extend(b"tR.");
                archive(&p, 0)
            }),
            raw("attributes-of-no-tensor", || {
                archive(b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nctorch\nTensor\n))ttR.", 0)
            }),
            raw("meta-beyond-int", || {
                let huge = b"\x8a\x08\0\0\0\0\0\0\0\x40".repeat(2);
                let mut p = b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n".to_vec();
                p.extend([&huge[..], b"\x86", &huge[..], b"\x86\x89tR."].concat());
                archive(&p, 0)
            }),
            raw("meta-without-a-dtype", || {
                archive(b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(NNNNtR.", 0)
            }),
            raw("layout-without-a-name", || archive(b"ctorch.serialization\n_get_layout\nN\x85R.", 0)),
            raw("directory-count", || patched(b"PK\x05\x06", 8, &[0xfe, 0xff, 0xfe, 0xff])),
            raw("directory-offset", || patched(b"PK\x05\x06", 16, &[0xfe, 0xff, 0xff, 0xff])),
            raw("record-size-in-directory", || patched(b"PK\x01\x02", 20, &[0xfe, 0xff, 0xff, 0x7f])),
            raw("record-unpacked-size", || patched(b"PK\x01\x02", 24, &[0xfe, 0xff, 0xff, 0x7f])),
            raw("record-offset-in-directory", || patched(b"PK\x01\x02", 42, &[0xfe, 0xff, 0xff, 0x7f])),
            raw("legacy-magic-alone", || {
                b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec()
            }),
        ],
    );
}

/// A good checkpoint with bytes written over, counted from the last place of a signature.
fn patched(signature: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut good = forged().bytes();
    let places: Vec<usize> =
        good.windows(signature.len()).enumerate().filter(|(_, w)| *w == signature).map(|(i, _)| i).collect();
    for place in places {
        good[place + at..place + at + bytes.len()].copy_from_slice(bytes);
    }
    good
}

/// Records that lie over each other make a small file look large.
#[test]
fn overlapping_storages() {
    let mut g = Graph::new();
    let mut f = forged();
    (f.record, f.numel, f.size) = (1 << 20, 1 << 18, vec![1 << 17, 2]);
    f.stride = vec![2, 1];
    let mut list = Vec::new();
    for k in 0..64 {
        let parts = vec![
            g.intern("storage").unwrap(),
            g.global("torch", "FloatStorage").unwrap(),
            g.intern(&format!("{k}")).unwrap(),
            g.intern("cpu").unwrap(),
            g.add(Value::Int(f.numel)).unwrap(),
        ];
        let key = g.tuple(parts).unwrap();
        list.push(g.add(Value::PersistentId(key)).unwrap());
    }
    let root = g.add(Value::List(list)).unwrap();
    let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
    w.record("data.pkl", &pickle::dump(&g, root).unwrap()).unwrap();
    w.record("data/0", &vec![0; f.record]).unwrap();
    for k in 1..64 {
        w.record(&format!("data/{k}"), b"").unwrap();
    }
    let mut bytes = w.finish().unwrap().into_inner();
    // every entry of the directory but the pickle's points at the one large record
    let entries: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, w)| w == b"PK\x01\x02").map(|(i, _)| i).collect();
    let fields = |at: usize| bytes[at + 16..at + 28].to_vec();
    let (sizes, offset) = (fields(entries[1]), bytes[entries[1] + 42..entries[1] + 46].to_vec());
    for &at in &entries[2..] {
        bytes[at + 16..at + 28].copy_from_slice(&sizes);
        bytes[at + 42..at + 46].copy_from_slice(&offset);
    }
    judge(here!(), vec![("overlapping", Box::new(move || refused(&bytes, "pt")))]);
}

#[test]
fn unusual_but_true() {
    let mut f = forged();
    let t = load(&f.bytes(), "pt").unwrap().remove(0);
    assert_eq!((t.sizes(), t.numel()), (&[2, 3][..], 6));
    // overlapping rows, a broadcast dimension, no elements at an offset beyond the end
    (f.size, f.stride) = (vec![5, 2], vec![1, 1]);
    assert_eq!(load(&f.bytes(), "pt").unwrap()[0].to_vec::<f32>(), [0.0; 10]);
    (f.size, f.stride) = (vec![1 << 40, 6], vec![0, 1]);
    assert_eq!(load(&f.bytes(), "pt").unwrap()[0].numel(), 6 << 40);
    (f.size, f.stride, f.offset) = (vec![0, 3], vec![3, 1], 6);
    assert_eq!(load(&f.bytes(), "pt").unwrap()[0].numel(), 0);
}

fn npy(header: &str, data: usize) -> Vec<u8> {
    let mut b = b"\x93NUMPY\x01\x00".to_vec();
    b.extend((header.len() as u16).to_le_bytes());
    b.extend(header.as_bytes());
    b.resize(b.len() + data, 0);
    b
}
fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut b = (header.len() as u64).to_le_bytes().to_vec();
    b.extend(header.as_bytes());
    b.resize(b.len() + data, 0);
    b
}

#[test]
fn lying_arrays() {
    let npy_case = |name: &'static str, header: &'static str| -> Case {
        (name, Box::new(move || refused(&npy(header, 24), "npy")))
    };
    let st = |name: &'static str, header: &'static str| -> Case {
        (name, Box::new(move || refused(&safetensors(header, 24), "safetensors")))
    };
    judge(
        here!(),
        vec![
            npy_case("npy-size", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"),
            npy_case(
                "npy-huge",
                "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
            ),
            npy_case(
                "npy-huge-and-0",
                "{'descr': '<f4', 'fortran_order': True, 'shape': (4611686018427387904, 4611686018427387904, 0), }",
            ),
            npy_case(
                "npy-terabytes",
                "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }",
            ),
            npy_case("npy-negative", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }"),
            npy_case(
                "npy-beyond-int",
                "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
            ),
            npy_case("npy-words", "{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }"),
            npy_case("npy-no-shape", "{'descr': '<f4', 'fortran_order': False}"),
            npy_case("npy-object", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
            npy_case("npy-text", "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }"),
            npy_case("npy-descr-cut", "{'descr': '"),
            npy_case("npy-descr-wide-letter", "{'descr': '\u{e9}', 'fortran_order': False, 'shape': (1,), }"),
            npy_case("npy-record", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
            ("npy-header-length", Box::new(|| refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "npy"))),
            ("npy-version", Box::new(|| refused(b"\x93NUMPY\x09\x00\x00\x00", "npy"))),
            ("npy-nothing", Box::new(|| refused(b"", "npy"))),
            st("st-short", r#"{"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,24]}}"#),
            st("st-beyond", r#"{"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}"#),
            st("st-huge", r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,24]}}"#),
            st(
                "st-huge-and-0",
                r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,24]}}"#,
            ),
            st("st-negative", r#"{"a":{"dtype":"F32","shape":[-2,-3],"data_offsets":[0,24]}}"#),
            st("st-backwards", r#"{"a":{"dtype":"F32","shape":[6],"data_offsets":[24,0]}}"#),
            st(
                "st-offset-huge",
                r#"{"a":{"dtype":"F32","shape":[6],"data_offsets":[18446744073709551600,18446744073709551615]}}"#,
            ),
            st(
                "st-overlap",
                r#"{"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}}"#,
            ),
            st(
                "st-gap",
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}"#,
            ),
            st("st-dtype", r#"{"a":{"dtype":"F99","shape":[6],"data_offsets":[0,24]}}"#),
            st("st-not-json", "{{{{"),
            ("st-deep-json", Box::new(|| refused(&safetensors(&"[".repeat(1 << 20), 0), "safetensors"))),
            ("st-header-length", Box::new(|| refused(&[0xff; 16], "safetensors"))),
            ("st-header-beyond", Box::new(|| refused(b"\x20\0\0\0\0\0\0\0{}", "safetensors"))),
            ("st-seven-bytes", Box::new(|| refused(b"1234567", "safetensors"))),
            ("npz-not-zip", Box::new(|| refused(b"abc", "npz"))),
            (
                "npz-inner",
                Box::new(|| {
                    let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
                    let lie = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }", 8);
                    w.record("a.npy", &lie).ok()?;
                    refused(&w.finish().ok()?.into_inner(), "npz")
                }),
            ),
        ],
    );
}

/// Every beginning of a good file but the whole is refused.
#[test]
fn cut_files() {
    let good: Vec<(&'static str, Vec<u8>)> = vec![
        ("pt", forged().bytes()),
        ("npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24)),
        ("safetensors", safetensors(r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#, 24)),
        ("npz", std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/arrays.npz")).unwrap()),
    ];
    for (ending, bytes) in &good {
        load(bytes, ending).unwrap_or_else(|e| panic!("{ending}: {e}"));
    }
    let all: Vec<(usize, usize)> =
        (0..good.len()).flat_map(|f| (0..good[f].1.len()).map(move |n| (f, n))).collect();
    Calls {
        test: here!(),
        count: all.len(),
        name: &|i| format!("{}, {} of {} bytes", good[all[i].0].0, all[i].1, good[all[i].0].1.len()),
        run: &|i| refused(&good[all[i].0].1[..all[i].1], good[all[i].0].0),
    }
    .judge();
}
