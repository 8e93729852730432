//! The pickler. Protocol 2 has the same opcodes, batches and memo numbers as CPython's C pickler, so that an
//! unchanged tree gives the bytes that `torch.save` gives. Protocols 3 to 5 differ by their opcodes for bytes,
//! sets and names; frames, which readers do not need, are left out.

use super::bigint;
use super::value::{Graph, Id, Value};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// CPython writes list and dict items in batches of this many.
const BATCH: usize = 1000;

/// The protocol of `torch.save`.
pub const DEFAULT_PROTOCOL: u8 = 2;

/// Writes the value at `root` and all it refers to, in protocol 2.
///
/// # Errors
/// [`Error::Unsupported`] for a value that contains itself through a tuple, call or persistent id only,
/// which no Python object can.
pub fn dump(graph: &Graph, root: Id) -> Result<Vec<u8>> {
    dump_with(graph, root, DEFAULT_PROTOCOL)
}

/// [`dump`] in protocol 2 to 5.
///
/// # Errors
/// As for [`dump`]; [`Error::Unsupported`] for protocols above 5 and for 0, which cannot name storages;
/// [`Error::Missing`] for 1.
pub fn dump_with(graph: &Graph, root: Id, protocol: u8) -> Result<Vec<u8>> {
    match protocol {
        0 => return Err(Error::Unsupported("persistent IDs in protocol 0 must be ASCII strings".into())),
        1 => return Err(Error::Missing("writing pickle protocol 1".into())),
        2..=5 => {}
        _ => return Err(Error::Unsupported("pickle protocol must be <= 5".into())),
    }
    let mut writer = Writer {
        graph,
        protocol,
        out: vec![0x80, protocol],
        memo: vec![Memo::New; graph.len()],
        next: 0,
        names: HashMap::new(),
        latin1: None,
        work: Vec::new(),
    };
    writer.work.push(Work::Save(root));
    while let Some(work) = writer.work.pop() {
        writer.run(work)?;
    }
    writer.out.push(b'.');
    Ok(writer.out)
}

#[derive(Clone, Copy, PartialEq)]
enum Memo {
    New,
    /// Being written, not yet addressable: meeting it again means a cycle that cannot be expressed.
    Open,
    At(u32),
}

enum Work {
    Save(Id),
    Byte(u8),
    Memoize(Id),
    Close(Id),
    /// Wraps the value just written into a memoized 1-tuple.
    Tuple1,
    /// Items of a list value from this position on.
    List(Id, usize),
    /// Pairs of a dict value from this position on.
    Dict(Id, usize),
    /// Appended items of an object.
    ObjectItems(Id, usize),
    /// Set items of an object.
    ObjectPairs(Id, usize),
}

struct Writer<'a> {
    graph: &'a Graph,
    protocol: u8,
    out: Vec<u8>,
    memo: Vec<Memo>,
    next: u32,
    /// Memo numbers of classes and functions, which Python shares by identity.
    names: HashMap<(String, String), u32>,
    latin1: Option<u32>,
    work: Vec<Work>,
}

impl Writer<'_> {
    fn run(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Save(id) => self.save(id)?,
            Work::Byte(b) => self.out.push(b),
            Work::Memoize(id) => self.memoize(id),
            Work::Close(id) => self.memo[id.index()] = Memo::New,
            Work::Tuple1 => {
                self.out.push(0x85);
                self.anonymous();
            }
            Work::List(id, from) => {
                if let Value::List(items) = self.graph.get(id) {
                    let to = items.len().min(from + BATCH);
                    if to < items.len() {
                        self.work.push(Work::List(id, to));
                    }
                    self.batch(items, from, to, items.len() == 1, b'a', b'e');
                }
            }
            Work::Dict(id, from) => {
                if let Value::Dict(pairs) = self.graph.get(id) {
                    let to = pairs.len().min(from + BATCH);
                    // A full batch is followed by another one even when that is empty, as in CPython.
                    if to == from + BATCH {
                        self.work.push(Work::Dict(id, to));
                    }
                    self.batch_pairs(pairs, from, to, pairs.len() == 1);
                }
            }
            Work::ObjectItems(id, from) => {
                if let Value::Object(object) = self.graph.get(id) {
                    let to = object.items.len().min(from + BATCH);
                    if to < object.items.len() {
                        self.work.push(Work::ObjectItems(id, to));
                    }
                    self.batch(&object.items, from, to, to - from == 1, b'a', b'e');
                }
            }
            Work::ObjectPairs(id, from) => {
                if let Value::Object(object) = self.graph.get(id) {
                    let to = object.pairs.len().min(from + BATCH);
                    if to < object.pairs.len() {
                        self.work.push(Work::ObjectPairs(id, to));
                    }
                    self.batch_pairs(&object.pairs, from, to, to - from == 1);
                }
            }
        }
        Ok(())
    }

    fn batch(&mut self, items: &[Id], from: usize, to: usize, single: bool, one: u8, many: u8) {
        if !single {
            self.out.push(b'(');
        }
        self.work.push(Work::Byte(if single { one } else { many }));
        self.work.extend(items[from..to].iter().rev().map(|&id| Work::Save(id)));
    }

    fn batch_pairs(&mut self, pairs: &[(Id, Id)], from: usize, to: usize, single: bool) {
        if !single {
            self.out.push(b'(');
        }
        self.work.push(Work::Byte(if single { b's' } else { b'u' }));
        for &(key, value) in pairs[from..to].iter().rev() {
            self.work.push(Work::Save(value));
            self.work.push(Work::Save(key));
        }
    }

    fn save(&mut self, id: Id) -> Result<()> {
        match self.memo[id.index()] {
            Memo::At(n) => {
                self.get(n);
                return Ok(());
            }
            Memo::Open => {
                return Err(Error::Unsupported(
                    "a value that contains itself through a tuple or a call".into(),
                ));
            }
            Memo::New => {}
        }
        match self.graph.get(id) {
            Value::None => self.out.push(b'N'),
            Value::Bool(v) => self.out.push(if *v { 0x88 } else { 0x89 }),
            Value::Int(v) => self.int(*v),
            Value::BigInt(bytes) => self.long(bytes)?,
            Value::Float(v) => {
                self.out.push(b'G');
                self.out.extend(v.to_be_bytes());
            }
            Value::Str(s) => {
                self.unicode(s)?;
                self.memoize(id);
            }
            Value::Bytes(bytes) => self.bytes(bytes, Some(id))?,
            Value::ByteArray(bytes) if self.protocol >= 5 => {
                self.out.push(0x96);
                self.out.extend((bytes.len() as u64).to_le_bytes());
                self.out.extend(bytes);
                self.memoize(id);
            }
            Value::ByteArray(bytes) => {
                self.name("builtins", "bytearray")?;
                if bytes.is_empty() {
                    self.out.push(b')');
                } else {
                    self.bytes(bytes, None)?;
                    self.out.push(0x85);
                    self.anonymous();
                }
                self.out.push(b'R');
                self.memoize(id);
            }
            Value::List(items) => {
                self.out.push(b']');
                self.memoize(id);
                if !items.is_empty() {
                    self.work.push(Work::List(id, 0));
                }
            }
            Value::Dict(pairs) => {
                self.out.push(b'}');
                self.memoize(id);
                if !pairs.is_empty() {
                    self.work.push(Work::Dict(id, 0));
                }
            }
            Value::Tuple(items) => self.tuple(id, items),
            Value::Set(items) => self.set(id, "set", items)?,
            Value::FrozenSet(items) => self.set(id, "frozenset", items)?,
            Value::Global { module, name } => self.name(module, name)?,
            Value::Object(object) => {
                if object.kwargs.is_some() {
                    return Err(Error::Missing(
                        "writing an object that is made with keyword arguments".into(),
                    ));
                }
                self.memo[id.index()] = Memo::Open;
                if let Some(state) = object.state {
                    self.work.push(Work::Byte(b'b'));
                    self.work.push(Work::Save(state));
                }
                if !object.pairs.is_empty() {
                    self.work.push(Work::ObjectPairs(id, 0));
                }
                if !object.items.is_empty() {
                    self.work.push(Work::ObjectItems(id, 0));
                }
                self.work.push(Work::Memoize(id));
                self.work.push(Work::Byte(if object.by_new { 0x81 } else { b'R' }));
                self.work.push(Work::Save(object.args));
                self.work.push(Work::Save(object.callable));
            }
            Value::PersistentId(key) => {
                // Never memoized: each reference writes its key again.
                self.memo[id.index()] = Memo::Open;
                self.work.push(Work::Close(id));
                self.work.push(Work::Byte(b'Q'));
                self.work.push(Work::Save(*key));
            }
        }
        Ok(())
    }

    fn tuple(&mut self, id: Id, items: &[Id]) {
        if items.is_empty() {
            self.out.push(b')');
            return;
        }
        self.memo[id.index()] = Memo::Open;
        self.work.push(Work::Memoize(id));
        if items.len() <= 3 {
            self.work.push(Work::Byte(0x84 + items.len() as u8));
        } else {
            self.out.push(b'(');
            self.work.push(Work::Byte(b't'));
        }
        self.work.extend(items.iter().rev().map(|&item| Work::Save(item)));
    }

    /// Protocols before 4 have no set opcode: a set is a call with one list.
    fn set(&mut self, id: Id, class: &str, items: &[Id]) -> Result<()> {
        if self.protocol >= 4 {
            self.native_set(id, class == "frozenset", items);
            return Ok(());
        }
        self.memo[id.index()] = Memo::Open;
        self.name("builtins", class)?;
        self.out.push(b']');
        self.anonymous();
        self.work.push(Work::Memoize(id));
        self.work.push(Work::Byte(b'R'));
        // The argument tuple is numbered after the list's items.
        self.work.push(Work::Tuple1);
        for (i, chunk) in items.chunks(BATCH).enumerate().rev() {
            let single = i == 0 && items.len() == 1;
            self.work.push(Work::Byte(if single { b'a' } else { b'e' }));
            self.work.extend(chunk.iter().rev().map(|&item| Work::Save(item)));
            if !single {
                self.work.push(Work::Byte(b'('));
            }
        }
        Ok(())
    }

    fn native_set(&mut self, id: Id, frozen: bool, items: &[Id]) {
        let save = |items: &[Id]| items.iter().rev().map(|&item| Work::Save(item)).collect::<Vec<_>>();
        if frozen {
            // made in one go, so it can be named only when its items are there
            self.memo[id.index()] = Memo::Open;
            self.work.extend([Work::Memoize(id), Work::Byte(0x91)]);
            self.work.extend(save(items));
            self.out.push(b'(');
            return;
        }
        self.out.push(0x8f);
        self.memoize(id);
        for chunk in items.chunks(BATCH).rev() {
            self.work.push(Work::Byte(0x90));
            self.work.extend(save(chunk));
            self.work.push(Work::Byte(b'('));
        }
    }

    fn int(&mut self, v: i64) {
        if let Ok(v) = u8::try_from(v) {
            self.out.extend([b'K', v]);
        } else if let Ok(v) = u16::try_from(v) {
            self.out.push(b'M');
            self.out.extend(v.to_le_bytes());
        } else if let Ok(v) = i32::try_from(v) {
            self.out.push(b'J');
            self.out.extend(v.to_le_bytes());
        } else {
            let bytes = v.to_le_bytes();
            let short = bigint::trim(&bytes);
            self.out.extend([0x8a, short.len() as u8]);
            self.out.extend(short);
        }
    }

    fn long(&mut self, bytes: &[u8]) -> Result<()> {
        let short = bigint::trim(bytes);
        if let Ok(n) = u8::try_from(short.len()) {
            self.out.extend([0x8a, n]);
        } else {
            self.out.push(0x8b);
            self.length(short.len())?;
        }
        self.out.extend(short);
        Ok(())
    }

    fn unicode(&mut self, s: &str) -> Result<()> {
        match u8::try_from(s.len()) {
            Ok(n) if self.protocol >= 4 => {
                self.out.extend([0x8c, n]);
                self.out.extend(s.as_bytes());
                return Ok(());
            }
            _ => self.out.push(b'X'),
        }
        self.length(s.len())?;
        self.out.extend(s.as_bytes());
        Ok(())
    }

    /// Protocol 2 has no bytes opcode: bytes are Latin-1 text and a call that encodes it.
    fn bytes(&mut self, bytes: &[u8], id: Option<Id>) -> Result<()> {
        if self.protocol >= 3 {
            match u8::try_from(bytes.len()) {
                Ok(n) => self.out.extend([b'C', n]),
                Err(_) => {
                    self.out.push(b'B');
                    self.length(bytes.len())?;
                }
            }
            self.out.extend(bytes);
            match id {
                Some(id) => self.memoize(id),
                None => {
                    self.anonymous();
                }
            }
            return Ok(());
        }
        if bytes.is_empty() {
            self.name("builtins", "bytes")?;
            self.out.extend(b")");
        } else {
            self.name("_codecs", "encode")?;
            let text: String = bytes.iter().map(|&b| b as char).collect();
            self.unicode(&text)?;
            self.anonymous();
            match self.latin1 {
                Some(n) => self.get(n),
                None => {
                    self.unicode("latin1")?;
                    self.latin1 = Some(self.anonymous());
                }
            }
            self.out.push(0x86);
            self.anonymous();
        }
        self.out.push(b'R');
        match id {
            Some(id) => self.memoize(id),
            None => {
                self.anonymous();
            }
        }
        Ok(())
    }

    fn name(&mut self, module: &str, name: &str) -> Result<()> {
        // Protocol 2 keeps Python 2's name of the builtins, which Python 3 maps back.
        let module = if module == "builtins" && self.protocol < 3 { "__builtin__" } else { module };
        let key = (module.to_owned(), name.to_owned());
        if let Some(&n) = self.names.get(&key) {
            self.get(n);
            return Ok(());
        }
        if module.contains('\n') || name.contains('\n') {
            return Err(Error::Unsupported("a class name with a line break".into()));
        }
        if self.protocol >= 4 {
            for part in [module, name] {
                self.unicode(part)?;
                self.anonymous();
            }
            self.out.push(0x93);
        } else {
            self.out.push(b'c');
            self.out.extend(module.as_bytes());
            self.out.push(b'\n');
            self.out.extend(name.as_bytes());
            self.out.push(b'\n');
        }
        let n = self.anonymous();
        self.names.insert(key, n);
        Ok(())
    }

    fn length(&mut self, n: usize) -> Result<()> {
        let n = u32::try_from(n).map_err(|_| Error::Unsupported("a string of 4 GiB or more".into()))?;
        self.out.extend(n.to_le_bytes());
        Ok(())
    }

    /// Gives the value just written the next memo number.
    fn anonymous(&mut self) -> u32 {
        let n = self.next;
        self.next += 1;
        if self.protocol >= 4 {
            self.out.push(0x94);
            return n;
        }
        match u8::try_from(n) {
            Ok(n) => self.out.extend([b'q', n]),
            Err(_) => {
                self.out.push(b'r');
                self.out.extend(n.to_le_bytes());
            }
        }
        n
    }

    fn memoize(&mut self, id: Id) {
        self.memo[id.index()] = Memo::At(self.anonymous());
    }

    fn get(&mut self, n: u32) {
        match u8::try_from(n) {
            Ok(n) => self.out.extend([b'h', n]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(n.to_le_bytes());
            }
        }
    }
}
