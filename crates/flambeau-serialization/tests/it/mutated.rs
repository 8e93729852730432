//! Ten thousand files with bytes changed, cut off, doubled or swapped: each is read or refused, with no panic, no
//! allocation beyond a small multiple of the file and no hang. The calls run in a child process with limited address space.

use crate::plain::data;
use flambeau_autograd as _;
use flambeau_core::{DType, ErrorKind, Result, functions as torch};
use flambeau_serialization::container::{ArchiveWriter, ZipFile};
use flambeau_serialization::tensors::*;
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use peak_alloc::PeakAlloc;
use std::io::Cursor;
use std::path::PathBuf;

/// Counts what the child allocates.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// Bytes that reading may take for each byte of a file, and in addition: inflated records, tables, text and its copies.
const FACTOR: usize = 16;
const ROOM: usize = 1 << 20;

/// xorshift, so that a finding can be repeated.
struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

fn mutate(good: &[u8], r: &mut Random) -> Vec<u8> {
    let mut b = good.to_vec();
    for _ in 0..1 + r.below(4) {
        if b.is_empty() {
            break;
        }
        let at = r.below(b.len());
        let n = 1 + r.below(16.min(b.len() - at));
        match r.below(8) {
            0 => b.truncate(at),
            1 => drop(b.drain(at..at + n)),
            2 => {
                let part = b[at..at + n].to_vec();
                let to = r.below(b.len());
                b.splice(to..to, part);
            }
            3 => b[at..at + n].fill([0, 0xff, 0x7f, 0x80][r.below(4)]),
            4 => {
                let to = r.below(b.len() - n + 1);
                b.copy_within(at..at + n, to);
            }
            _ => b[at] = r.below(256) as u8,
        }
    }
    b
}

/// What is mutated: a whole file, or one record of an archive whose checksums are made to fit.
struct Seed {
    ending: &'static str,
    bytes: Vec<u8>,
    record: Option<&'static str>,
}
impl Seed {
    fn mutated(&self, r: &mut Random) -> Vec<u8> {
        let Some(record) = self.record else { return mutate(&self.bytes, r) };
        let mut file = ZipFile::open_any(Cursor::new(&self.bytes)).unwrap();
        let mut w = ArchiveWriter::new(Cursor::new(Vec::new()), "m");
        for name in file.names().unwrap() {
            if name == "version" || name == ".data/serialization_id" {
                continue;
            }
            let bytes = file.read(&name).unwrap();
            w.record(&name, &if name == record { mutate(&bytes, r) } else { bytes }).unwrap();
        }
        w.finish().unwrap().into_inner()
    }
}

fn seeds() -> Vec<Seed> {
    let file = |ending, name: &str| Seed { ending, bytes: std::fs::read(data(name)).unwrap(), record: None };
    let part = |ending, name: &str, record| Seed { record: Some(record), ..file(ending, name) };
    let made = |ending, save: &dyn Fn(&PathBuf)| {
        let path = place(ending);
        save(&path);
        Seed { ending, bytes: std::fs::read(path).unwrap(), record: None }
    };
    let x = torch::arange(6).to(DType::F32).reshape((2, 3));
    vec![
        file("pt", "checkpoint.pth"),
        file("pt", "legacy.pth"),
        part("pt", "checkpoint.pth", "data.pkl"),
        part("pt", "dtypes.pth", "data.pkl"),
        part("lenient", "checkpoint.pth", "data.pkl"),
        file("npz", "arrays.npz"),
        made("npy", &|p| save_npy(&x, p).unwrap()),
        made("safetensors", &|p| save_safetensors([("a", x.clone()), ("b", x.t())], p, None).unwrap()),
        file("jit", "script.jit"),
        part("jit", "script.jit", "data.pkl"),
        part("jit", "script.jit", "code/__torch__.py"),
        part("pt2", "program.pt2", "data/weights/model_weights_config.json"),
        file("pt2", "program.pt2"),
    ]
}

fn place(ending: &str) -> PathBuf {
    let name = format!("flambeau-mutated-{}-{:?}.{ending}", std::process::id(), std::thread::current().id());
    std::env::temp_dir().join(name)
}

fn read(seed: &Seed, bytes: &[u8]) -> Result<usize> {
    let path = place(seed.ending);
    let options = LoadOptions::new().map_location("cpu");
    let cursor = || Cursor::new(bytes.to_vec());
    match seed.ending {
        "npy" => return read_npy(bytes, bytes.len() as u64).map(|_| 1),
        "pt" => return load_from(cursor(), options).map(|_| 1),
        "lenient" => return load_from(cursor(), options.weights_only(false)).map(|_| 1),
        _ => std::fs::write(&path, bytes)?,
    }
    let r = match seed.ending {
        "npz" => load_npz(&path).map(|l| l.len()),
        "jit" => load_torchscript(&path, options).map(|s| s.state_dict().len()),
        "pt2" => load_exported(&path, options).map(|p| p.state_dict.len()),
        _ => load_safetensors(&path).map(|l| l.len()),
    };
    let _ = std::fs::remove_file(&path);
    r
}

#[test]
fn mutated_files() {
    let seeds = seeds();
    for s in &seeds {
        let n = read(s, &s.bytes).unwrap_or_else(|e| panic!("{}: {e}", s.ending));
        assert!(n > 0, "{} has no tensors", s.ending);
    }
    Calls {
        test: here!(),
        count: 10_400,
        name: &|i| {
            format!("{} {:?}, number {i}", seeds[i % seeds.len()].ending, seeds[i % seeds.len()].record)
        },
        run: &|i| {
            let seed = &seeds[i % seeds.len()];
            let mut r = Random((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let bytes = seed.mutated(&mut r);
            let before = MEMORY.current_usage();
            MEMORY.reset_peak_usage();
            let read = read(seed, &bytes);
            let used = MEMORY.peak_usage().saturating_sub(before);
            if used > FACTOR * bytes.len() + ROOM {
                return Some(format!("{used} bytes of memory for a file of {}", bytes.len()));
            }
            match read {
                Ok(_) => None,
                Err(e) if e.message().is_empty() => Some("no text".into()),
                Err(e) => match e.kind() {
                    ErrorKind::Serialization
                    | ErrorKind::Io
                    | ErrorKind::Unsupported
                    | ErrorKind::Missing
                    | ErrorKind::OutOfMemory
                    | ErrorKind::Runtime => None,
                    k => Some(format!("{k:?}: {e}")),
                },
            }
        },
    }
    // tensors from the system allocator too, which counts
    .judge_with(&[("FLAMBEAU_POOL", "off")]);
}
