//! Tensors as bytes on the wire, and back.

use crate::gloo::payload::{Payload, Place, Sink, Source};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, Layout, MemoryFormat, Result, Tensor, bail, ops};
use std::time::{Duration, Instant};

/// Where a tensor's elements lie side by side without gaps, in whatever order of dimensions: then they travel as they lie in memory,
/// as PyTorch sends them.
fn dense(t: &Tensor) -> Option<std::ops::Range<usize>> {
    if t.is_conj() || t.is_neg() {
        return None;
    }
    let mut dims: Vec<(i64, i64)> =
        t.strides().iter().zip(t.sizes()).filter(|(_, n)| **n != 1).map(|(s, n)| (*s, *n)).collect();
    dims.sort_unstable();
    let mut expected = 1;
    for (stride, n) in dims {
        if n == 0 {
            break;
        }
        if stride != expected {
            return None;
        }
        expected *= n;
    }
    let size = t.dtype().size();
    let at = t.storage_offset() as usize * size;
    Some(at..at + t.numel() as usize * size)
}

/// What the transport cannot take.
pub(crate) fn check(t: &Tensor) -> Result<()> {
    if t.device() != Device::Cpu {
        bail!(Runtime, "No backend type associated with device type {}", t.device().kind());
    }
    if t.layout() != Layout::Strided {
        bail!(Missing, "collectives of tensors with layout {}", t.layout().name());
    }
    Ok(())
}

/// A tensor's elements: as they lie in memory if they lie without gaps, else in order.
pub(crate) fn read(t: &Tensor) -> Result<Vec<u8>> {
    check(t)?;
    if let Some(range) = dense(t) {
        let mut b = vec![0; range.len()];
        if !b.is_empty() {
            t.storage().read_at(range.start, &mut b)?;
        }
        return Ok(b);
    }
    let t = t.alias_detached();
    let t = ops::resolve_neg(&ops::resolve_conj(&ops::contiguous(&t, MemoryFormat::Contiguous)?)?)?;
    read(&t)
}
/// Elements in order, whatever the strides.
pub(crate) fn read_in_order(t: &Tensor) -> Result<Vec<u8>> {
    check(t)?;
    if t.is_contiguous() {
        return read(t);
    }
    let t = ops::contiguous(&t.alias_detached(), MemoryFormat::Contiguous)?;
    read(&t)
}
/// The reverse of [`read`]; fewer bytes leave the rest as it is.
pub(crate) fn write(t: &Tensor, bytes: &[u8]) -> Result<()> {
    check(t)?;
    if let Some(range) = dense(t) {
        return put(t, range, bytes);
    }
    into_order(t, bytes)
}
/// The reverse of [`read_in_order`].
pub(crate) fn write_in_order(t: &Tensor, bytes: &[u8]) -> Result<()> {
    check(t)?;
    if t.is_contiguous()
        && let Some(range) = dense(t)
    {
        return put(t, range, bytes);
    }
    into_order(t, bytes)
}
fn put(t: &Tensor, range: std::ops::Range<usize>, bytes: &[u8]) -> Result<()> {
    let n = bytes.len().min(range.len());
    if n > 0 {
        t.storage().with_bytes_mut(|b| b[range.start..range.start + n].copy_from_slice(&bytes[..n]))?;
    }
    t.storage().bump_version();
    Ok(())
}
fn into_order(t: &Tensor, bytes: &[u8]) -> Result<()> {
    let plain = if bytes.len() < t.numel() as usize * t.dtype().size() {
        ops::contiguous(&t.alias_detached(), MemoryFormat::Contiguous)?
    } else {
        Tensor::empty_raw(t.sizes(), t.dtype(), Device::Cpu)?
    };
    plain.storage().with_bytes_mut(|b| b[..bytes.len()].copy_from_slice(bytes))?;
    ops::copy_(&t.alias_detached(), &plain, false)
}
/// A tensor's elements where they lie, for operations that are waited for: whoever calls them has nothing else to do with it meanwhile.
pub(crate) struct InPlace {
    tensor: Tensor,
    range: std::ops::Range<usize>,
}
impl InPlace {
    /// If its elements lie in memory in the order in which they travel: all of them without gaps, or, where `in_order`, contiguous.
    ///
    /// # Errors
    /// The program holds a guard of its memory: said before anything is sent.
    pub(crate) fn free(t: &Tensor, in_order: bool, writes: bool) -> Result<Option<InPlace>> {
        let Some(p) = InPlace::of(t, in_order) else { return Ok(None) };
        let s = t.storage();
        let touch = || if writes { s.with_bytes_mut(|_| ()) } else { s.with_bytes(|_| ()) };
        patiently(Duration::from_millis(10), touch)?;
        Ok(Some(p))
    }
    fn of(t: &Tensor, in_order: bool) -> Option<InPlace> {
        let plain = t.dtype() != flambeau_core::DType::Bool && (!in_order || t.is_contiguous());
        let range = if plain { dense(t) } else { None };
        range.map(|range| InPlace { tensor: t.clone(), range })
    }
    fn check(&self, at: usize, n: usize) -> Result<std::ops::Range<usize>> {
        match at.checked_add(n).filter(|end| *end <= self.range.len()) {
            Some(end) => Ok(self.range.start + at..self.range.start + end),
            None => bail!(Runtime, "data that do not fit where they belong"),
        }
    }
}
impl InPlace {
    fn part(&self, range: std::ops::Range<usize>) -> Result<InPlace> {
        Ok(InPlace { tensor: self.tensor.clone(), range: self.check(range.start, range.len())? })
    }
}
/// Whether two tensors lie in the same memory.
pub(crate) fn share(a: &Tensor, b: &Tensor) -> bool {
    a.storage().same(b.storage())
}
/// How long memory is waited for where messages are on their way.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// A view of the same memory may be borrowed for a moment by another operation.
fn patiently<R>(most: Duration, mut f: impl FnMut() -> Result<R>) -> Result<R> {
    let end = Instant::now() + most;
    loop {
        match f() {
            Err(e) if e.kind() == flambeau_core::ErrorKind::Storage && Instant::now() < end => {
                std::thread::yield_now();
            }
            r => return r,
        }
    }
}
impl Source for InPlace {
    fn view(&self, range: std::ops::Range<usize>, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let range = self.check(range.start, range.len())?;
        patiently(UNDER_WAY, || self.tensor.storage().with_bytes(|b| f(&b[range.clone()])))?
    }
}
impl Sink for InPlace {
    fn fill(&self, range: std::ops::Range<usize>, f: &mut dyn FnMut(&mut [u8])) -> bool {
        let Ok(range) = self.check(range.start, range.len()) else { return false };
        self.tensor.storage().with_bytes_mut(|b| f(&mut b[range])).is_ok()
    }
}
impl Place for InPlace {
    fn len(&self) -> usize {
        self.range.len()
    }
    fn payload(&self, range: std::ops::Range<usize>) -> Result<Payload> {
        Ok(Payload::Of(std::sync::Arc::new(self.part(0..self.range.len())?), range))
    }
    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.change(at..at + bytes.len(), &mut |b| {
            b.copy_from_slice(bytes);
            Ok(())
        })
    }
    fn change(
        &mut self,
        range: std::ops::Range<usize>,
        f: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let range = self.check(range.start, range.len())?;
        patiently(UNDER_WAY, || self.tensor.storage().with_bytes_mut(|b| f(&mut b[range.clone()])))?
    }
    fn sink(&self, range: std::ops::Range<usize>) -> Option<Box<dyn Sink>> {
        self.part(range).ok().map(|p| Box::new(p) as Box<dyn Sink>)
    }
}

/// A flat tensor of these bytes.
pub(crate) fn tensor_of(bytes: &[u8]) -> Result<Tensor> {
    Tensor::from_vec_raw(bytes.to_vec(), &[bytes.len() as i64])
}
