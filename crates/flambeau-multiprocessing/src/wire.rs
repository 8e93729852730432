//! Messages as bytes and descriptors. The bytes hold structure and numbers; tensors lie in memory whose descriptors travel along.
//!
//! A packet is a head (see [`HEAD`]), and the message itself where it is short. Tensors that are not shared, and long messages, lie in
//! one file of the message, which is frozen before it is sent.

use crate::items::Message;
use crate::memory;
use crate::queue::SimpleQueue;
use crate::strategy;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::types::time::deadline;
use flambeau_core::{DType, Device, Error, Result, Tensor, Value, bail, ensure, ops};
use num_complex::Complex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Where the message lies in the file (all ones: behind the head), its length, and whether there is a file.
const HEAD: usize = 17;
/// Longer messages go into the file.
const SHORT: usize = 16 << 10;
/// The system takes 253.
const DESCRIPTORS: usize = 252;
/// Deeper values are refused, not read by recursion until the stack ends.
const DEPTH: usize = 500;

const NONE: u8 = 0;
const BOOL: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const COMPLEX: u8 = 4;
const STR: u8 = 5;
const DTYPE: u8 = 6;
const DEVICE: u8 = 7;
const LIST: u8 = 8;
const TUPLE: u8 = 9;
const DICT: u8 = 10;
const SLICE: u8 = 11;
const ELLIPSIS: u8 = 12;
const TENSOR: u8 = 13;
const QUEUE: u8 = 14;

const COPIED: u8 = 0;
const SHARED: u8 = 1;
const NAMED: u8 = 2;
const SEEN: u8 = 3;
const ON_DEVICE: u8 = 4;

fn io<T>(r: rustix::io::Result<T>) -> Result<T> {
    Ok(r.map_err(std::io::Error::from)?)
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// The file of the message and its end.
    file: Option<(File, u64)>,
    /// Storages that the message has already.
    seen: Vec<usize>,
    /// Keeps them, so that no other gets one's place.
    kept: Vec<Storage>,
}
impl Writer {
    fn num(&mut self, n: i64) {
        self.bytes.extend_from_slice(&n.to_le_bytes());
    }
    fn text(&mut self, s: &str) {
        self.num(s.len() as i64);
        self.bytes.extend_from_slice(s.as_bytes());
    }
    fn list(&mut self, l: &[Value], depth: usize) -> Result<()> {
        self.num(l.len() as i64);
        l.iter().try_for_each(|v| self.value(v, depth + 1))
    }
    fn item(&mut self, i: &Message) -> Result<()> {
        match i {
            Message::Value(v) => self.value(v, 0),
            Message::Queue(q) => {
                self.bytes.push(QUEUE);
                self.descriptors.push(q.read.try_clone()?);
                self.descriptors.push(q.write.try_clone()?);
                Ok(())
            }
        }
    }
    fn value(&mut self, v: &Value, depth: usize) -> Result<()> {
        ensure!(depth < DEPTH, Value, "values of more than {DEPTH} levels cannot go to another process");
        let tag = match v {
            Value::None => NONE,
            Value::Bool(_) => BOOL,
            Value::Int(_) => INT,
            Value::Float(_) => FLOAT,
            Value::Complex(_) => COMPLEX,
            Value::Str(_) => STR,
            Value::DType(_) => DTYPE,
            Value::Device(_) => DEVICE,
            Value::List(_) => LIST,
            Value::Tuple(_) | Value::Named(_) => TUPLE,
            Value::Dict(_) => DICT,
            Value::Slice(_) => SLICE,
            Value::Ellipsis => ELLIPSIS,
            Value::Tensor(_) => TENSOR,
            other => bail!(Type, "{} cannot go to another process", other.type_name()),
        };
        self.bytes.push(tag);
        match v {
            Value::Bool(b) => self.bytes.push(u8::from(*b)),
            Value::Int(i) => self.num(*i),
            Value::Float(f) => self.num(f.to_bits() as i64),
            Value::Complex(c) => {
                self.num(c.re.to_bits() as i64);
                self.num(c.im.to_bits() as i64);
            }
            Value::Str(s) => self.text(s),
            Value::DType(d) => self.text(d.name()),
            Value::Device(d) => self.text(&d.to_string()),
            Value::List(l) | Value::Tuple(l) => self.list(l, depth)?,
            Value::Named(t) => self.list(&t.items, depth)?,
            Value::Dict(l) => {
                self.num(l.len() as i64);
                for (k, v) in l {
                    self.text(k);
                    self.value(v, depth + 1)?;
                }
            }
            Value::Slice(s) => {
                for n in s {
                    self.bytes.push(u8::from(n.is_some()));
                    self.num(n.unwrap_or(0));
                }
            }
            Value::Tensor(t) => self.tensor(t)?,
            _ => {}
        }
        Ok(())
    }
    fn tensor(&mut self, t: &Tensor) -> Result<()> {
        ensure!(
            t.is_leaf() || !t.requires_grad(),
            Runtime,
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing \
             process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing (e.g., \
             putting it on the queue)."
        );
        // what is lazily conjugated or negated goes as the values that it stands for
        let plain = if t.is_conj() || t.is_neg() { ops::clone(&t.detach(), None)? } else { t.clone() };
        let storage = memory::storage(&plain)?;
        self.text(plain.dtype().name());
        self.bytes.push(u8::from(t.requires_grad()));
        self.num(plain.sizes().len() as i64);
        plain.sizes().iter().chain(plain.strides()).for_each(|n| self.num(*n));
        self.num(plain.storage_offset());
        self.storage(storage)
    }
    fn storage(&mut self, s: &Storage) -> Result<()> {
        if let Some(i) = self.seen.iter().position(|id| *id == s.id()) {
            self.bytes.push(SEEN);
            self.num(i as i64);
            return Ok(());
        }
        self.seen.push(s.id());
        self.kept.push(s.clone());
        if s.device() != Device::Cpu {
            self.bytes.push(ON_DEVICE);
            self.num(s.nbytes() as i64);
            self.text(&s.device().to_string());
            if s.nbytes() > 0 {
                let (name, line) = memory::share_on_device(s)?;
                self.num(name.len() as i64);
                self.bytes.extend(name);
                self.descriptors.push(line);
            }
            return Ok(());
        }
        let shared = memory::mark(s)?;
        let nbytes = s.nbytes() as i64;
        match shared {
            Some(m) if strategy::by_name() => {
                use std::os::fd::AsRawFd;
                self.bytes.push(NAMED);
                self.num(nbytes);
                self.text(&format!("/proc/{}/fd/{}", std::process::id(), m.0.as_raw_fd()));
            }
            Some(m) => {
                self.bytes.push(SHARED);
                self.num(nbytes);
                self.descriptors.push(m.0.try_clone()?.into());
            }
            None => {
                self.bytes.push(COPIED);
                self.num(nbytes);
                let at = self.in_file(|f| memory::append(f, s), s.nbytes() as u64)?;
                self.num(at as i64);
            }
        }
        Ok(())
    }
    /// Writes `n` bytes into the file of the message, and says where.
    fn in_file(&mut self, write: impl FnOnce(&mut File) -> Result<()>, n: u64) -> Result<u64> {
        let (mut f, end) = match self.file.take() {
            Some(f) => f,
            None => (memory::anonymous()?, 0),
        };
        let at = memory::pad(&mut f, end)?;
        write(&mut f)?;
        self.file = Some((f, at + n));
        Ok(at)
    }
}

/// Sends items as one message; waits while the line is full.
pub(crate) fn send(to: &OwnedFd, items: &[Message]) -> Result<()> {
    let mut w = Writer::default();
    w.num(items.len() as i64);
    items.iter().try_for_each(|i| w.item(i))?;
    let body = std::mem::take(&mut w.bytes);
    let mut at = u64::MAX;
    if body.len() > SHORT {
        at = w.in_file(|f| f.write_all(&body).map_err(Error::from), body.len() as u64)?;
    }
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&at.to_le_bytes());
    head[8..16].copy_from_slice(&(body.len() as u64).to_le_bytes());
    let file = w.file.take();
    head[16] = u8::from(file.is_some());
    if let Some((f, _)) = file {
        memory::freeze(&f)?;
        w.descriptors.insert(0, f.into());
    }
    ensure!(
        w.descriptors.len() <= DESCRIPTORS,
        Value,
        "{} descriptors in one message are too many: share fewer memories, or use the strategy 'file_system'",
        w.descriptors.len()
    );
    let packet = [IoSlice::new(&head), IoSlice::new(if at == u64::MAX { &body } else { &[] })];
    let fds: Vec<BorrowedFd<'_>> = w.descriptors.iter().map(AsFd::as_fd).collect();
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        match sendmsg(to, &packet, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            // too many descriptors are on their way: wait until some arrive
            Err(Errno::TOOMANYREFS) => std::thread::sleep(Duration::from_millis(1)),
            r => return io(r).map(|_| ()),
        }
    }
}

/// Whether a message or an end is there, within this time.
pub(crate) fn ready(from: &OwnedFd, limit: Option<Duration>) -> Result<bool> {
    let until = limit.map(deadline);
    loop {
        let left = until.map(|u| timespec(u.saturating_duration_since(Instant::now())));
        match poll(&mut [PollFd::new(from, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            r => return Ok(io(r)? > 0),
        }
    }
}
pub(crate) fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX), tv_nsec: d.subsec_nanos().into() }
}
/// The items of the next message, within this time.
pub(crate) fn receive_within(from: &OwnedFd, limit: Duration) -> Result<Option<Vec<Message>>> {
    let until = deadline(limit);
    loop {
        if !ready(from, Some(until.saturating_duration_since(Instant::now())))? {
            return Ok(None);
        }
        // another reader may have been faster
        if let Some(items) = receive_by(from, RecvFlags::DONTWAIT)? {
            return Ok(Some(items));
        }
    }
}
/// The items of the next message.
pub(crate) fn receive(from: &OwnedFd) -> Result<Vec<Message>> {
    loop {
        if let Some(items) = receive_by(from, RecvFlags::empty())? {
            return Ok(items);
        }
    }
}
fn receive_by(from: &OwnedFd, flags: RecvFlags) -> Result<Option<Vec<Message>>> {
    let mut bytes = vec![0; HEAD + SHORT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags | RecvFlags::CMSG_CLOEXEC);
    let n = match got {
        Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
        r => io(r)?.bytes,
    };
    let mut descriptors = Vec::new();
    for m in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = m {
            descriptors.extend(all);
        }
    }
    ensure!(n > 0, Io, "the process at the other end is gone");
    ensure!(n >= HEAD, Serialization, "{}", short());
    bytes.truncate(n);
    let word = |i: usize| bytes[i..i + 8].first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    let (at, len) = (word(0), word(8));
    let mut descriptors = descriptors.into_iter();
    let file = if bytes[16] != 0 { Some(File::from(descriptors.next().ok_or_else(lost)?)) } else { None };
    let mut body = bytes.split_off(HEAD);
    if at != u64::MAX {
        let f = file.as_ref().ok_or_else(lost)?;
        ensure!(
            at.checked_add(len).is_some_and(|e| f.metadata().is_ok_and(|m| e <= m.len())),
            Serialization,
            "{}",
            short()
        );
        body = vec![0; len as usize];
        f.read_exact_at(&mut body, at)?;
    }
    let mut r = Reader { bytes: &body, descriptors, file, seen: Vec::new() };
    let n = r.len()?;
    (0..n).map(|_| r.item()).collect::<Result<Vec<_>>>().map(Some)
}
/// The only item of a message.
pub(crate) fn one(mut items: Vec<Message>) -> Result<Message> {
    items.pop().ok_or_else(|| Error::serialization(short()))
}
fn short() -> String {
    "a message between processes ends too early".into()
}
fn lost() -> Error {
    Error::io("a message came without its memory: this process has too many open files")
}

struct Reader<'a> {
    bytes: &'a [u8],
    descriptors: std::vec::IntoIter<OwnedFd>,
    file: Option<File>,
    seen: Vec<Storage>,
}
impl Reader<'_> {
    fn take(&mut self, n: usize) -> Result<&[u8]> {
        let Some((head, rest)) = self.bytes.split_at_checked(n) else {
            return Err(Error::serialization(short()));
        };
        self.bytes = rest;
        Ok(head)
    }
    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    fn num(&mut self) -> Result<i64> {
        Ok(self.take(8)?.first_chunk::<8>().map_or(0, |b| i64::from_le_bytes(*b)))
    }
    fn float(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.num()? as u64))
    }
    /// A number of things, each of which takes a byte at least.
    fn len(&mut self) -> Result<usize> {
        let n = self.num()?;
        usize::try_from(n)
            .ok()
            .filter(|n| *n <= self.bytes.len())
            .ok_or_else(|| Error::serialization(short()))
    }
    fn text(&mut self) -> Result<String> {
        let n = self.len()?;
        Ok(String::from_utf8_lossy(self.take(n)?).into_owned())
    }
    fn descriptor(&mut self) -> Result<OwnedFd> {
        self.descriptors.next().ok_or_else(lost)
    }
    fn item(&mut self) -> Result<Message> {
        if self.bytes.first() == Some(&QUEUE) {
            self.byte()?;
            let (read, write) = (self.descriptor()?.into(), self.descriptor()?.into());
            return Ok(Message::Queue(SimpleQueue { read, write }));
        }
        self.value(0).map(Message::Value)
    }
    fn list(&mut self, depth: usize) -> Result<Vec<Value>> {
        let n = self.len()?;
        (0..n).map(|_| self.value(depth + 1)).collect()
    }
    fn value(&mut self, depth: usize) -> Result<Value> {
        ensure!(depth < DEPTH, Serialization, "a message of too many levels");
        let known = |what: &str, name: &str| Error::serialization(format!("no {what} is called {name}"));
        Ok(match self.byte()? {
            NONE => Value::None,
            BOOL => Value::Bool(self.byte()? != 0),
            INT => Value::Int(self.num()?),
            FLOAT => Value::Float(self.float()?),
            COMPLEX => Value::Complex(Complex::new(self.float()?, self.float()?)),
            STR => Value::Str(self.text()?),
            DTYPE => {
                let name = self.text()?;
                Value::DType(DType::from_name(&name).ok_or_else(|| known("dtype", &name))?)
            }
            DEVICE => Value::Device(Device::parse(&self.text()?)?),
            LIST => Value::List(self.list(depth)?),
            TUPLE => Value::Tuple(self.list(depth)?),
            DICT => {
                let n = self.len()?;
                let one = |r: &mut Self| Ok((r.text()?, r.value(depth + 1)?));
                Value::Dict((0..n).map(|_| one(self)).collect::<Result<_>>()?)
            }
            SLICE => {
                let mut s = [None; 3];
                for n in &mut s {
                    *n = (self.byte()? != 0).then_some(self.num()?);
                }
                Value::Slice(s)
            }
            ELLIPSIS => Value::Ellipsis,
            TENSOR => Value::Tensor(self.tensor()?),
            other => bail!(Serialization, "a message of an unknown kind {other}"),
        })
    }
    fn tensor(&mut self) -> Result<Tensor> {
        let name = self.text()?;
        let dtype = DType::from_name(&name)
            .ok_or_else(|| Error::serialization(format!("no dtype is called {name}")))?;
        let requires_grad = self.byte()? != 0;
        let rank = self.len()?;
        let sizes = (0..rank).map(|_| self.num()).collect::<Result<Vec<_>>>()?;
        let strides = (0..rank).map(|_| self.num()).collect::<Result<Vec<_>>>()?;
        let offset = self.num()?;
        let storage = self.storage()?;
        let t = Tensor::from_storage(&storage, &sizes, &strides, offset, dtype)?;
        if requires_grad {
            (flambeau_core::tensor::graph::engine()?.set_requires_grad)(&t, true)?;
        }
        Ok(t)
    }
    fn storage(&mut self) -> Result<Storage> {
        let kind = self.byte()?;
        let n = usize::try_from(self.num()?).map_err(|_| Error::serialization(short()))?;
        let s = match kind {
            SEEN => return self.seen.get(n).cloned().ok_or_else(|| Error::serialization(short())),
            COPIED => {
                let at = self.num()? as u64;
                memory::private(self.file.as_ref().ok_or_else(lost)?, at, n)?
            }
            SHARED => memory::open_shared(self.descriptor()?.into(), n)?,
            ON_DEVICE => {
                let device = Device::parse(&self.text()?)?;
                match n {
                    0 => Storage::empty(0, device)?,
                    n => {
                        let length = self.len()?;
                        let name = self.take(length)?.to_vec();
                        memory::open_on_device(device, n, &name, self.descriptor()?)?
                    }
                }
            }
            NAMED => {
                let path = self.text()?;
                let open = File::options().read(true).write(true).open(&path);
                memory::open_shared(open.map_err(|e| Error::from(e).at_path(&path))?, n)?
            }
            other => bail!(Serialization, "memory of an unknown kind {other}"),
        };
        self.seen.push(s.clone());
        Ok(s)
    }
}
