//! The unpickler: one loop over opcodes with an explicit stack. Work and memory are linear in the input:
//! each opcode makes at most one value, and no length is trusted before the bytes are there. How many values, and places on
//! the stack, in the memo and of marks, has a bound of its own ([`most_objects`]): an opcode is one byte, what it makes many.

use super::bigint::{self, Parsed};
use super::value::{Graph, Id, ObjectValue, Value};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// Reads one pickle that fills `bytes`, up to its STOP; trailing bytes are ignored.
///
/// # Errors
/// [`Error::Truncated`], [`Error::Malformed`], or [`Error::Unsupported`] for extension registry codes and
/// out-of-band buffers, which need state outside the file.
pub fn load(bytes: &[u8]) -> Result<(Graph, Id)> {
    load_prefix(bytes).map(|(graph, root, _)| (graph, root))
}

/// Like [`load`], and also returns how many bytes the pickle took, for streams of several pickles.
pub fn load_prefix(bytes: &[u8]) -> Result<(Graph, Id, usize)> {
    let mut machine = Machine {
        input: bytes,
        at: 0,
        graph: Graph::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        most: most_objects(bytes.len()),
    };
    let root = machine.run()?;
    Ok((machine.graph, root, machine.at))
}

/// How many objects a pickle of so many bytes may make. PyTorch's own checkpoints make one in five bytes or more; a million
/// are free, for small files that repeat themselves.
fn most_objects(bytes: usize) -> usize {
    ((1 << 20) + bytes / 4).min(8 << 20)
}

struct Machine<'a> {
    input: &'a [u8],
    at: usize,
    graph: Graph,
    stack: Vec<Id>,
    /// Stack heights at the open MARKs.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Objects, and places of each kind.
    most: usize,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Id> {
        loop {
            let at = self.at;
            let op = self.take(1)?[0];
            if op == b'.' {
                return self.pop();
            }
            let most = self.graph.len().max(self.stack.len()).max(self.marks.len()).max(self.memo.len());
            if most > self.most {
                return Err(Error::Limit(format!(
                    "a pickle of {} bytes makes more than {} objects",
                    self.input.len(),
                    self.most
                )));
            }
            self.step(op).map_err(|e| match e {
                Error::Malformed(text) => {
                    Error::Malformed(format!("pickle byte {at}, opcode {op:#04x}: {text}"))
                }
                other => other,
            })?;
        }
    }

    fn step(&mut self, op: u8) -> Result<()> {
        match op {
            b'(' => self.marks.push(self.stack.len()),
            b'0' => {
                // POP of a MARK that has nothing above it closes the mark.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => {
                self.pop_mark()?;
            }
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Bool(true))?,
            0x89 => self.push(Value::Bool(false))?,
            b'I' | b'L' | b'F' | b'S' | b'V' => self.text_value(op)?,
            b'J' => {
                let v = i32::from_le_bytes(self.array()?);
                self.push(Value::Int(i64::from(v)))?;
            }
            b'K' => {
                let v = self.array::<1>()?[0];
                self.push(Value::Int(i64::from(v)))?;
            }
            b'M' => {
                let v = u16::from_le_bytes(self.array()?);
                self.push(Value::Int(i64::from(v)))?;
            }
            b'G' => {
                let v = f64::from_be_bytes(self.array()?);
                self.push(Value::Float(v))?;
            }
            0x8a | 0x8b => {
                let bytes = self.counted(if op == 0x8a { 1 } else { 4 })?;
                let value = match bigint::from_bytes(bytes) {
                    Parsed::Small(v) => Value::Int(v),
                    Parsed::Big(b) => Value::BigInt(b),
                };
                self.push(value)?;
            }
            b'T' | b'U' => {
                let bytes = self.counted(if op == b'U' { 1 } else { 4 })?;
                self.push(python2_string(bytes))?;
            }
            b'X' | 0x8c | 0x8d => {
                let bytes = self.counted(match op {
                    b'X' => 4,
                    0x8c => 1,
                    _ => 8,
                })?;
                let text = text(bytes)?;
                self.push(Value::Str(text))?;
            }
            b'B' | b'C' | 0x8e | 0x96 => {
                let bytes = self
                    .counted(match op {
                        b'B' => 4,
                        b'C' => 1,
                        _ => 8,
                    })?
                    .to_vec();
                self.push(if op == 0x96 { Value::ByteArray(bytes) } else { Value::Bytes(bytes) })?;
            }
            b']' => self.push(Value::List(Vec::new()))?,
            b'}' => self.push(Value::Dict(Vec::new()))?,
            b')' => self.push(Value::Tuple(Vec::new()))?,
            0x8f => self.push(Value::Set(Vec::new()))?,
            b'l' => {
                let items = self.pop_mark()?;
                self.push(Value::List(items))?;
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push(Value::Tuple(items))?;
            }
            0x91 => {
                let items = self.pop_mark()?;
                self.push(Value::FrozenSet(items))?;
            }
            b'd' => {
                let pairs = pairs(&self.pop_mark()?)?;
                self.push(Value::Dict(pairs))?;
            }
            0x85..=0x87 => {
                let n = usize::from(op - 0x84);
                let items = self.pop_n(n)?;
                self.push(Value::Tuple(items))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(&items)?;
            }
            b's' => {
                let items = self.pop_n(2)?;
                self.set_items(&items)?;
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set_items(&items)?;
            }
            b'c' => {
                let module = text(self.line()?)?;
                let name = text(self.line()?)?;
                self.push(Value::Global { module, name })?;
            }
            0x93 => {
                let items = self.pop_n(2)?;
                match (self.graph.get(items[0]), self.graph.get(items[1])) {
                    (Value::Str(module), Value::Str(name)) => {
                        let value = Value::Global { module: module.clone(), name: name.clone() };
                        self.push(value)?;
                    }
                    _ => return Err(Error::malformed("STACK_GLOBAL needs two strings")),
                }
            }
            b'R' | 0x81 => {
                let items = self.pop_n(2)?;
                self.object(items[0], items[1], None, op == 0x81)?;
            }
            0x92 => {
                let items = self.pop_n(3)?;
                self.object(items[0], items[1], Some(items[2]), true)?;
            }
            b'i' => {
                let module = text(self.line()?)?;
                let name = text(self.line()?)?;
                let args = self.pop_mark()?;
                let callable = self.graph.add(Value::Global { module, name })?;
                let args = self.graph.add(Value::Tuple(args))?;
                self.object(callable, args, None, false)?;
            }
            b'o' => {
                let mut items = self.pop_mark()?;
                if items.is_empty() {
                    return Err(Error::malformed("OBJ without a class"));
                }
                let callable = items.remove(0);
                let args = self.graph.add(Value::Tuple(items))?;
                self.object(callable, args, None, false)?;
            }
            b'b' => {
                let state = self.pop()?;
                let target = self.top()?;
                match self.graph.get_mut(target) {
                    Value::Object(object) if object.state.is_none() => object.state = Some(state),
                    Value::Object(_) => return Err(Error::malformed("second BUILD of one object")),
                    _ => return Err(Error::malformed("BUILD of something that is not an object")),
                }
            }
            b'P' => {
                let key = text(self.line()?)?;
                let key = self.graph.add(Value::Str(key))?;
                self.push(Value::PersistentId(key))?;
            }
            b'Q' => {
                let key = self.pop()?;
                self.push(Value::PersistentId(key))?;
            }
            b'p' | b'q' | b'r' => {
                let key = self.memo_key(op)?;
                let top = self.top()?;
                self.memo.insert(key, top);
            }
            0x94 => {
                let top = self.top()?;
                self.memo.insert(self.memo.len() as u64, top);
            }
            b'g' | b'h' | b'j' => {
                let key = self.memo_key(op)?;
                let &id = self.memo.get(&key).ok_or_else(|| {
                    Error::malformed(format!("memo entry {key} is read before it is written"))
                })?;
                self.stack.push(id);
            }
            0x80 => {
                let version = self.array::<1>()?[0];
                if version > 5 {
                    return Err(Error::Unsupported(format!("pickle protocol {version} is newer than 5")));
                }
            }
            0x95 => {
                let n = u64::from_le_bytes(self.array()?);
                if n > (self.input.len() - self.at) as u64 {
                    return Err(self.truncated());
                }
            }
            0x82..=0x84 => {
                return Err(Error::Unsupported("the pickle uses the extension registry (copyreg)".into()));
            }
            0x97 | 0x98 => return Err(Error::Unsupported("the pickle uses out-of-band buffers".into())),
            _ => return Err(Error::malformed("unknown opcode")),
        }
        Ok(())
    }

    fn text_value(&mut self, op: u8) -> Result<()> {
        let line = self.line()?;
        let value = match op {
            b'I' if line == b"00" => Value::Bool(false),
            b'I' if line == b"01" => Value::Bool(true),
            b'I' | b'L' => {
                let digits = text(line)?;
                let digits = digits.strip_suffix('L').unwrap_or(&digits);
                match bigint::parse_decimal(digits) {
                    Some(Parsed::Small(v)) => Value::Int(v),
                    Some(Parsed::Big(b)) => Value::BigInt(b),
                    None => return Err(Error::malformed("not an integer")),
                }
            }
            b'F' => Value::Float(
                text(line)?.trim().parse().map_err(|_| Error::malformed("not a floating-point number"))?,
            ),
            b'S' => python2_string(&unquote(line)?),
            _ => Value::Str(raw_unicode(line)?),
        };
        self.push(value)
    }

    fn object(&mut self, callable: Id, args: Id, kwargs: Option<Id>, by_new: bool) -> Result<()> {
        let mut object = ObjectValue::new(callable, args, by_new);
        object.kwargs = kwargs;
        self.push(Value::Object(Box::new(object)))
    }

    fn append(&mut self, new: &[Id]) -> Result<()> {
        let target = self.top()?;
        match self.graph.get_mut(target) {
            Value::List(items) | Value::Set(items) => items.extend_from_slice(new),
            Value::Object(object) => object.items.extend_from_slice(new),
            _ => return Err(Error::malformed("items are appended to something that is not a list")),
        }
        Ok(())
    }

    fn set_items(&mut self, flat: &[Id]) -> Result<()> {
        let new = pairs(flat)?;
        let target = self.top()?;
        match self.graph.get_mut(target) {
            Value::Dict(items) => items.extend(new),
            Value::Object(object) => object.pairs.extend(new),
            _ => return Err(Error::malformed("items are set on something that is not a dict")),
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<()> {
        let id = self.graph.add(value)?;
        self.stack.push(id);
        Ok(())
    }

    /// Lowest stack height that may be popped to: values under an open MARK are out of reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id> {
        match self.stack.last() {
            Some(&id) if self.stack.len() > self.floor() => Ok(id),
            _ => Err(Error::malformed("the stack is empty")),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let id = self.top()?;
        self.stack.pop();
        Ok(id)
    }

    fn pop_n(&mut self, n: usize) -> Result<Vec<Id>> {
        if self.stack.len() < self.floor() + n {
            return Err(Error::malformed("the stack is too short"));
        }
        Ok(self.stack.split_off(self.stack.len() - n))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(|| Error::malformed("no MARK is open"))?;
        // Not split_off: that would give the new vector the old one's capacity when the mark is at 0.
        Ok(self.stack.drain(mark..).collect())
    }

    fn truncated(&self) -> Error {
        Error::Truncated { what: "pickle", at: self.input.len() }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = &self.input[self.at..];
        if n > rest.len() {
            return Err(self.truncated());
        }
        self.at += n;
        Ok(&rest[..n])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// Bytes preceded by their count, itself `width` bytes.
    fn counted(&mut self, width: usize) -> Result<&'a [u8]> {
        let mut count = [0; 8];
        count[..width].copy_from_slice(self.take(width)?);
        let n = usize::try_from(u64::from_le_bytes(count)).map_err(|_| self.truncated())?;
        self.take(n)
    }

    fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.input[self.at..];
        let n = rest.iter().position(|&b| b == b'\n').ok_or_else(|| self.truncated())?;
        self.at += n + 1;
        let line = &rest[..n];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn memo_key(&mut self, op: u8) -> Result<u64> {
        match op {
            b'p' | b'g' => {
                text(self.line()?)?.trim().parse().map_err(|_| Error::malformed("memo key is not a number"))
            }
            b'q' | b'h' => Ok(u64::from(self.array::<1>()?[0])),
            _ => Ok(u64::from(u32::from_le_bytes(self.array()?))),
        }
    }
}

fn pairs(flat: &[Id]) -> Result<Vec<(Id, Id)>> {
    if !flat.len().is_multiple_of(2) {
        return Err(Error::malformed("a dict key without a value"));
    }
    Ok(flat.chunks_exact(2).map(|p| (p[0], p[1])).collect())
}

fn text(bytes: &[u8]) -> Result<String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Error::malformed("text is not UTF-8"))
}

/// Python 2 wrote names as byte strings; ASCII ones are text to every reader.
fn python2_string(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(s) if s.is_ascii() => Value::Str(s.to_owned()),
        _ => Value::Bytes(bytes.to_vec()),
    }
}

/// Undoes the quotes and backslash escapes of a protocol 0 string.
fn unquote(line: &[u8]) -> Result<Vec<u8>> {
    let inner = match line {
        [q @ (b'\'' | b'"'), inner @ .., end] if q == end => inner,
        _ => return Err(Error::malformed("string without its quotes")),
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied();
    while let Some(b) = rest.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match rest.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'x') => {
                let digits = [rest.next(), rest.next()];
                match digits.map(|d| d.and_then(|d| (d as char).to_digit(16))) {
                    [Some(high), Some(low)] => out.push((high * 16 + low) as u8),
                    _ => return Err(Error::malformed("bad \\x escape")),
                }
            }
            Some(c @ (b'\\' | b'\'' | b'"')) => out.push(c),
            _ => return Err(Error::malformed("unknown escape in a string")),
        }
    }
    Ok(out)
}

/// Undoes `raw-unicode-escape`: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
fn raw_unicode(line: &[u8]) -> Result<String> {
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    while at < line.len() {
        let width = match line[at..] {
            [b'\\', b'u', ..] => 4,
            [b'\\', b'U', ..] => 8,
            _ => 0,
        };
        if width == 0 {
            out.push(line[at] as char);
            at += 1;
            continue;
        }
        let code = line
            .get(at + 2..at + 2 + width)
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| Error::malformed("bad unicode escape"))?;
        out.push(code);
        at += 2 + width;
    }
    Ok(out)
}
