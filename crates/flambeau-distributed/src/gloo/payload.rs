//! Data on their way: in pieces that are used again, so that a long message takes neither memory of its own length nor pages that the
//! kernel has to clear first.

use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result};
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, PoisonError};

/// The longest piece: small enough that what one thread has written is in the cache when another reads it.
pub(crate) const PIECE: usize = 256 << 10;
/// Shorter ones are not kept.
const SMALL: usize = 16 << 10;
/// As many pieces are kept for the next message.
const KEPT: usize = 32;
static POOL: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A part of a message.
pub(crate) struct Piece {
    buffer: Vec<u8>,
    len: usize,
    /// where it belongs in the message
    pub(crate) at: usize,
}
impl Piece {
    /// With bytes that mean nothing yet, at most [`PIECE`] of them; they belong at this position of the message.
    pub(crate) fn new(len: usize, at: usize) -> Piece {
        let kept = || POOL.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let buffer = if len <= SMALL { vec![0; len] } else { kept().unwrap_or_else(|| vec![0; PIECE]) };
        Piece { len: len.min(buffer.len()), buffer, at }
    }
}
impl Drop for Piece {
    fn drop(&mut self) {
        if self.buffer.len() == PIECE {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.len() < KEPT {
                pool.push(std::mem::take(&mut self.buffer));
            }
        }
    }
}
impl Deref for Piece {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}
impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// Where data lie that are read when they go.
pub(crate) trait Source: Send + Sync {
    /// Shows some of them; they do not change meanwhile.
    fn view(&self, range: Range<usize>, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}
/// Where data are written as they come.
pub(crate) trait Sink: Send + Sync {
    /// Shows memory for some of them, if nobody else uses it at the moment; whether it did.
    fn fill(&self, range: Range<usize>, f: &mut dyn FnMut(&mut [u8])) -> bool;
}
/// What a message carries.
pub(crate) enum Payload {
    Bytes(Vec<u8>),
    /// a part of what a source has
    Of(Arc<dyn Source>, Range<usize>),
}
impl Payload {
    pub(crate) fn len(&self) -> usize {
        match self {
            Payload::Bytes(b) => b.len(),
            Payload::Of(_, r) => r.len(),
        }
    }
    /// Hands over all of it.
    pub(crate) fn each(&self, mut f: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.part(0..self.len(), &mut f)
    }
    /// Hands over a part of it.
    pub(crate) fn part(&self, range: Range<usize>, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Payload::Bytes(b) => f(&b[range]),
            Payload::Of(source, of) => source.view(of.start + range.start..of.start + range.end, f),
        }
    }
    /// All of it side by side.
    pub(crate) fn bytes(self) -> Result<Vec<u8>> {
        if let Payload::Bytes(b) = self {
            return Ok(b);
        }
        let mut all = Vec::with_capacity(self.len());
        self.each(|b| {
            all.extend_from_slice(b);
            Ok(())
        })?;
        Ok(all)
    }
}
impl From<Vec<u8>> for Payload {
    fn from(b: Vec<u8>) -> Payload {
        Payload::Bytes(b)
    }
}

/// Where a collective has its data: in memory of its own, or in a tensor.
pub(crate) trait Place {
    fn len(&self) -> usize;
    /// What a message carries of it.
    fn payload(&self, range: Range<usize>) -> Result<Payload>;
    /// Writes from a position on.
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()>;
    /// Changes some of it.
    fn change(&mut self, range: Range<usize>, f: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
    /// Where data that come can be written at once.
    fn sink(&self, range: Range<usize>) -> Option<Box<dyn Sink>> {
        let _ = range;
        None
    }
}
impl Place for Vec<u8> {
    fn len(&self) -> usize {
        self.len()
    }
    fn payload(&self, range: Range<usize>) -> Result<Payload> {
        Ok(Payload::Bytes(self[range].to_vec()))
    }
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        match at.checked_add(bytes.len()).and_then(|end| self.get_mut(at..end)) {
            Some(to) => to.copy_from_slice(bytes),
            None => return Err(Error::runtime("data that do not fit where they belong")),
        }
        Ok(())
    }
    fn change(&mut self, range: Range<usize>, f: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        f(&mut self[range])
    }
}
/// Places of one length, one behind the other; no part of a message goes over the end of one.
pub(crate) struct Places<P> {
    pub(crate) each: Vec<P>,
    pub(crate) len: usize,
}
impl<P: Place> Places<P> {
    fn of(&self, range: &Range<usize>) -> (usize, Range<usize>) {
        let i = range.start / self.len.max(1);
        (i, range.start - i * self.len..range.end - i * self.len)
    }
}
impl<P: Place> Place for Places<P> {
    fn len(&self) -> usize {
        self.each.len() * self.len
    }
    fn payload(&self, range: Range<usize>) -> Result<Payload> {
        let (i, range) = self.of(&range);
        self.each[i].payload(range)
    }
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        let (i, range) = self.of(&(at..at + bytes.len()));
        self.each[i].put(range.start, bytes)
    }
    fn change(&mut self, range: Range<usize>, f: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let (i, range) = self.of(&range);
        self.each[i].change(range, f)
    }
    fn sink(&self, range: Range<usize>) -> Option<Box<dyn Sink>> {
        let (i, range) = self.of(&range);
        self.each[i].sink(range)
    }
}
