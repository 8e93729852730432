//! Gloo's algorithms. The order of additions is theirs, and with it every bit of a sum.

use super::arithmetic;
use super::mesh::Mesh;
use super::pair::Transfer;
use crate::{ReduceOp, simulation};
use flambeau_core::{DType, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The largest piece that travels at once.
const MAX_SEGMENT: usize = 1 << 20;

const GATHER: u64 = 1;
const ALL_GATHER: u64 = 2;
const REDUCE: u64 = 3;
const ALL_REDUCE: u64 = 4;
const SCATTER: u64 = 5;
const BROADCAST: u64 = 6;
const BARRIER: u64 = 7;
const ALL_TO_ALL: u64 = 8;

/// One collective of a group: its number and its limit of time.
pub(crate) struct Call<'a> {
    pub(crate) mesh: &'a Arc<Mesh>,
    pub(crate) tag: u32,
    pub(crate) timeout: Duration,
}

/// Reduces what comes into what is there.
type Reducer<'a> = &'a (dyn Fn(&mut [u8], &[u8]) -> Result<()> + 'a);

/// How a ring cuts its data: as many segments for each rank, the last ones perhaps empty.
struct Ring {
    total: usize,
    segment: usize,
    segments: usize,
    per_rank: usize,
    /// steps of one half; those after each segment has been at all ranks change nothing that counts
    steps: usize,
}
impl Ring {
    /// The `i`-th segment from where rank `first`'s begin.
    fn part(&self, first: usize, i: usize) -> Range<usize> {
        let at = ((first * self.per_rank + i) % self.segments) * self.segment;
        at.min(self.total)..(at + self.segment).min(self.total)
    }
    /// Steps after which each rank has its own segments reduced.
    fn needed(&self) -> usize {
        self.segments - self.per_rank
    }
}

impl Call<'_> {
    /// The same with a number that comes later.
    pub(crate) fn at(&self, offset: u32) -> Call<'_> {
        Call { mesh: self.mesh, tag: self.tag.wrapping_add(offset), timeout: self.timeout }
    }
    fn size(&self) -> usize {
        self.mesh.size
    }
    fn rank(&self) -> usize {
        self.mesh.rank
    }
    fn slot(&self, prefix: u64) -> u64 {
        prefix << 56 | u64::from(self.tag) << 24
    }
    fn wait(&self, t: &Transfer) -> Result<Vec<u8>> {
        self.mesh.wait(t, self.timeout)
    }

    /// The first half of a ring: afterwards each rank has its own segments reduced. Data come from the next rank and go to the
    /// one before, two at a time.
    fn reduce_scatter_ring(
        &self,
        slot: u64,
        ring: &Ring,
        data: &mut [u8],
        reduce: Reducer<'_>,
    ) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let mut flying: VecDeque<(Option<Arc<Transfer>>, Option<Arc<Transfer>>)> = VecDeque::new();
        for i in 0..ring.steps + 2 {
            if i >= 2 {
                let (sent, got) = flying.pop_front().unwrap_or_default();
                if let Some(t) = got {
                    let bytes = self.wait(&t)?;
                    if i - 2 < ring.needed() {
                        reduce(&mut data[ring.part(me + 2, i - 2)], &bytes)?;
                        simulation::adds(bytes.len());
                    }
                }
                if let Some(t) = sent {
                    self.wait(&t)?;
                }
            }
            if i < ring.steps {
                let (to, from) = (ring.part(me + 1, i), ring.part(me + 2, i));
                let got =
                    if from.is_empty() { None } else { Some(self.mesh.recv(next, slot, from.len())?) };
                let sent = if to.is_empty() {
                    None
                } else {
                    Some(self.mesh.send(before, slot, data[to].to_vec())?)
                };
                flying.push_back((sent, got));
            }
        }
        Ok(())
    }

    /// A sum (or another reduction) that all ranks get.
    pub(crate) fn all_reduce(&self, op: ReduceOp, dtype: DType, data: &mut [u8]) -> Result<()> {
        let (n, me, total) = (self.size(), self.rank(), data.len());
        if total > 0 && n > 1 {
            let element = element(dtype);
            let largest = element * (MAX_SEGMENT / element).max(1);
            let segments = total.div_ceil(largest).max(2 * n).next_multiple_of(n);
            let segment = total.div_ceil(segments).next_multiple_of(element);
            let per_rank = segments / n;
            let ring = Ring { total, segment, segments, per_rank, steps: segments - per_rank };
            let slot = self.slot(ALL_REDUCE);
            self.reduce_scatter_ring(slot, &ring, data, &|own, got| arithmetic::reduce(op, dtype, own, got))?;
            // the other half: reduced segments go round
            let (next, before) = ((me + 1) % n, (me + n - 1) % n);
            let mut flying: VecDeque<(Option<Arc<Transfer>>, Option<Arc<Transfer>>)> = VecDeque::new();
            for i in 0..ring.steps + 2 {
                if i >= 2 {
                    let (sent, got) = flying.pop_front().unwrap_or_default();
                    if let Some(t) = got {
                        let bytes = self.wait(&t)?;
                        let part = ring.part(me + 1, i - 2);
                        data[part.start..part.start + bytes.len()].copy_from_slice(&bytes);
                    }
                    if let Some(t) = sent {
                        self.wait(&t)?;
                    }
                }
                if i < ring.steps {
                    let (to, from) = (ring.part(me, i), ring.part(me + 1, i));
                    let got =
                        if from.is_empty() { None } else { Some(self.mesh.recv(next, slot, from.len())?) };
                    let sent = if to.is_empty() {
                        None
                    } else {
                        Some(self.mesh.send(before, slot, data[to].to_vec())?)
                    };
                    flying.push_back((sent, got));
                }
            }
        }
        if op == ReduceOp::Avg {
            arithmetic::divide(dtype, data, n);
        }
        Ok(())
    }

    /// A sum that the root gets; the others' data are left half reduced.
    pub(crate) fn reduce(&self, op: ReduceOp, dtype: DType, data: &mut [u8], root: usize) -> Result<()> {
        let (n, me, total) = (self.size(), self.rank(), data.len());
        if total > 0 && n > 1 {
            let element = element(dtype);
            let largest = element * (MAX_SEGMENT / element);
            let segment = total.div_ceil(2 * n).min(largest).next_multiple_of(element);
            let segments = total.div_ceil(segment).max(2 * n).next_multiple_of(n);
            // gloo goes on here for all but two segments, however many a rank has: others wait for them
            let ring = Ring { total, segment, segments, per_rank: segments / n, steps: segments - 2 };
            let slot = self.slot(REDUCE);
            self.reduce_scatter_ring(slot, &ring, data, &|own, got| arithmetic::reduce(op, dtype, own, got))?;
            let chunk = |r: usize| {
                let at = r * ring.per_rank * ring.segment;
                at.min(total)..(at + ring.per_rank * ring.segment).min(total)
            };
            if me == root {
                let mut flying = Vec::new();
                for r in (0..n).filter(|r| *r != me && !chunk(*r).is_empty()) {
                    flying.push((chunk(r), self.mesh.recv(r, slot, chunk(r).len())?));
                }
                for (part, t) in flying {
                    let bytes = self.wait(&t)?;
                    data[part.start..part.start + bytes.len()].copy_from_slice(&bytes);
                }
            } else if !chunk(me).is_empty() {
                self.wait(&*self.mesh.send(root, slot, data[chunk(me)].to_vec())?)?;
            }
        }
        if op == ReduceOp::Avg {
            arithmetic::divide(dtype, data, n);
        }
        Ok(())
    }

    /// The root's data for all, along a binomial tree.
    pub(crate) fn broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        let (n, me, slot) = (self.size(), self.rank(), self.slot(BROADCAST));
        // ranks as seen from the root
        let seen = (me + n - root) % n;
        let dims = n.next_power_of_two().trailing_zeros();
        let mut mask = (1usize << dims) - 1;
        let mut flying = Vec::new();
        for bit in 0..dims {
            mask ^= 1 << bit;
            let peer = seen ^ (1 << bit);
            if seen & mask != 0 || peer >= n {
                continue;
            }
            let peer = (peer + root) % n;
            if seen & (1 << bit) == 0 {
                flying.push(self.mesh.send(peer, slot, data.to_vec())?);
            } else {
                let bytes = self.wait(&*self.mesh.recv(peer, slot, data.len())?)?;
                data[..bytes.len()].copy_from_slice(&bytes);
            }
        }
        for t in flying {
            self.wait(&t)?;
        }
        Ok(())
    }

    /// Everybody's data, one after the other, round a ring in two halves each.
    pub(crate) fn all_gather(&self, own: &[u8]) -> Result<Vec<u8>> {
        let (n, me, slot, len) = (self.size(), self.rank(), self.slot(ALL_GATHER), own.len());
        let mut all = vec![0; n * len];
        all[me * len..(me + 1) * len].copy_from_slice(own);
        // gloo sends nothing where there is nothing
        if n == 1 || len == 0 {
            return Ok(all);
        }
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        let part = |first: usize, i: usize| {
            let at = (first + n - i / 2 % n) % n * len;
            if i.is_multiple_of(2) { at..at + len / 2 } else { at + len / 2..at + len }
        };
        let mut flying: VecDeque<(Arc<Transfer>, Arc<Transfer>, Range<usize>)> = VecDeque::new();
        let take = |all: &mut Vec<u8>, flying: &mut VecDeque<_>| -> Result<()> {
            let Some((sent, got, part)): Option<(Arc<Transfer>, Arc<Transfer>, Range<usize>)> =
                flying.pop_front()
            else {
                return Ok(());
            };
            self.wait(&sent)?;
            let bytes = self.wait(&got)?;
            all[part.start..part.start + bytes.len()].copy_from_slice(&bytes);
            Ok(())
        };
        for i in 0..2 * (n - 1) {
            if i >= 2 {
                take(&mut all, &mut flying)?;
            }
            let sent = self.mesh.send(to, slot, all[part(me, i)].to_vec())?;
            let into = part(from, i);
            let got = self.mesh.recv(from, slot, into.len())?;
            flying.push_back((sent, got, into));
        }
        while !flying.is_empty() {
            take(&mut all, &mut flying)?;
        }
        Ok(all)
    }

    /// Everybody's data, of different lengths, for everybody: each goes round the ring as a whole.
    pub(crate) fn all_gather_parts(&self, own: &[u8], lens: &[usize]) -> Result<Vec<Vec<u8>>> {
        let (n, me, slot) = (self.size(), self.rank(), self.slot(ALL_GATHER));
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        let mut all = vec![Vec::new(); n];
        all[me] = own.to_vec();
        if lens.iter().all(|l| *l == 0) {
            return Ok(all);
        }
        for i in 0..n - 1 {
            let (mine, theirs) = ((me + n - i) % n, (from + n - i) % n);
            let sent = self.mesh.send(to, slot, all[mine].clone())?;
            let got = self.mesh.recv(from, slot, lens[theirs])?;
            self.wait(&sent)?;
            all[theirs] = self.wait(&got)?;
        }
        Ok(all)
    }

    /// Everybody's data for the root, in parts by rank.
    pub(crate) fn gather(&self, own: &[u8], root: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let (n, me, slot) = (self.size(), self.rank(), self.slot(GATHER));
        if me != root {
            self.wait(&*self.mesh.send(root, slot, own.to_vec())?)?;
            return Ok(None);
        }
        let mut flying = Vec::new();
        for r in (0..n).filter(|r| *r != me) {
            flying.push((r, self.mesh.recv(r, slot, own.len())?));
        }
        let mut all = vec![own.to_vec(); n];
        for (r, t) in flying {
            let bytes = self.wait(&t)?;
            all[r][..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(Some(all))
    }

    /// The root's parts, one for each rank.
    pub(crate) fn scatter(&self, parts: Option<Vec<Vec<u8>>>, len: usize, root: usize) -> Result<Vec<u8>> {
        let (me, slot) = (self.rank(), self.slot(SCATTER));
        let Some(parts) = parts.filter(|_| me == root) else {
            return self.wait(&*self.mesh.recv(root, slot, len)?);
        };
        let (mut flying, mut own) = (Vec::new(), Vec::new());
        for (r, b) in parts.into_iter().enumerate() {
            if r == me {
                own = b;
            } else {
                flying.push(self.mesh.send(r, slot, b)?);
            }
        }
        for t in flying {
            self.wait(&t)?;
        }
        Ok(own)
    }

    /// A part from each rank for each rank, by distance.
    pub(crate) fn all_to_all(&self, parts: Vec<Vec<u8>>, lens: &[usize]) -> Result<Vec<Vec<u8>>> {
        let (n, me, slot) = (self.size(), self.rank(), self.slot(ALL_TO_ALL));
        let mut parts = parts;
        let mut out = vec![Vec::new(); n];
        out[me] = std::mem::take(&mut parts[me]);
        let mut flying = Vec::new();
        for d in 1..n {
            let (to, from) = ((me + d) % n, (me + n - d) % n);
            let sent = self.mesh.send(to, slot, std::mem::take(&mut parts[to]))?;
            flying.push((from, sent, self.mesh.recv(from, slot, lens[from])?));
        }
        for (from, sent, got) in flying {
            self.wait(&sent)?;
            out[from] = self.wait(&got)?;
        }
        Ok(out)
    }

    /// Returns once all ranks have come: empty messages over growing distances.
    pub(crate) fn barrier(&self) -> Result<()> {
        let (n, me, slot) = (self.size(), self.rank(), self.slot(BARRIER));
        let mut d = 1;
        while d < n {
            let got = self.mesh.recv((me + n - d) % n, slot, 0)?;
            let sent = self.mesh.send((me + d) % n, slot, Vec::new())?;
            self.wait(&got)?;
            self.wait(&sent)?;
            d *= 2;
        }
        Ok(())
    }
}

/// Complex numbers travel as pairs of reals.
fn element(dtype: DType) -> usize {
    if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() }
}
