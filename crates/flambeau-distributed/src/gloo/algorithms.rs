//! Gloo's algorithms. The order of additions is theirs, and with it every bit of a sum.

use super::arithmetic;
use super::mesh::Mesh;
use super::pair::Transfer;
use super::payload::Place;
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

/// A reduction and what it is done with.
#[derive(Clone, Copy)]
struct Reducer {
    op: ReduceOp,
    dtype: DType,
}
/// As many segments are on their way at once (gloo has two), so that a rank which has to wait for its processor does not stop the others.
pub(crate) const DEEP: usize = 8;
/// Messages up to this length are wanted before their turn: one step less to wait for.
pub(crate) const EARLY: usize = 64 << 10;

/// How a ring cuts its data: as many segments for each rank, the last ones perhaps empty.
struct Ring {
    total: usize,
    segment: usize,
    segments: usize,
    per_rank: usize,
    /// segments that are on their way at once: no more than there are until one comes back
    deep: usize,
    /// steps of one half; those after each segment has been at all ranks change nothing that counts
    steps: usize,
}
impl Ring {
    /// The `i`-th segment from where rank `first`'s begin.
    fn part(&self, first: usize, i: usize) -> Range<usize> {
        let at = ((first * self.per_rank + i) % self.segments) * self.segment;
        at.min(self.total)..(at + self.segment).min(self.total)
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
    /// Waits for a message that goes, or for one of which nothing is wanted.
    fn gone(&self, t: &Transfer) -> Result<()> {
        self.mesh.each(t, self.timeout, &mut |_| Ok(()))
    }
    /// Begins to receive a message into a part of the data.
    fn receive(&self, peer: usize, slot: u64, data: &dyn Place, part: Range<usize>) -> Result<Arc<Transfer>> {
        self.mesh.recv_into(peer, slot, part.len(), data.sink(part))
    }
    /// Waits until that part is there.
    fn received(&self, t: &Transfer, data: &mut dyn Place, start: usize) -> Result<()> {
        self.mesh.each(t, self.timeout, &mut |p| data.put(start + p.at, &p))
    }

    /// The first half of a ring: afterwards this rank's own segments are reduced. Data come from the next rank and go to the one before,
    /// several segments at a time: what has come is reduced into what is here, and that goes on.
    fn reduce_scatter_ring(
        &self,
        slot: u64,
        ring: &Ring,
        data: &mut dyn Place,
        with: Reducer,
        mut before_the_last: impl FnMut(&mut dyn Place) -> Result<()>,
    ) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let mut flying: VecDeque<(Option<Arc<Transfer>>, Option<Arc<Transfer>>)> = VecDeque::new();
        for i in 0..ring.steps + ring.deep {
            if i == ring.steps {
                before_the_last(data)?;
            }
            if i >= ring.deep {
                let (sent, got) = flying.pop_front().unwrap_or_default();
                if let Some(t) = got {
                    let part = ring.part(me + 2, i - ring.deep);
                    self.mesh.each(&t, self.timeout, &mut |p| {
                        let at = part.start + p.at;
                        data.change(at..at + p.len(), &mut |own| {
                            arithmetic::reduce(with.op, with.dtype, own, &p)
                        })
                    })?;
                    simulation::adds(part.len());
                }
                if let Some(t) = sent {
                    self.gone(&t)?;
                }
            }
            if i < ring.steps {
                let (to, from) = (ring.part(me + 1, i), ring.part(me + 2, i));
                let got =
                    if from.is_empty() { None } else { Some(self.mesh.recv(next, slot, from.len())?) };
                let sent = if to.is_empty() {
                    None
                } else {
                    Some(self.mesh.send(before, slot, data.payload(to)?)?)
                };
                flying.push_back((sent, got));
            }
        }
        Ok(())
    }

    /// A sum (or another reduction) that all ranks get.
    pub(crate) fn all_reduce(&self, op: ReduceOp, dtype: DType, data: &mut dyn Place) -> Result<()> {
        self.all_reduce_ring(op, dtype, data)?;
        self.average(op, data, |b, n| arithmetic::divide(dtype, b, n))
    }
    /// The same where ranks keep a part each.
    pub(crate) fn all_reduce_to_scatter(
        &self,
        op: ReduceOp,
        dtype: DType,
        data: &mut dyn Place,
    ) -> Result<()> {
        self.all_reduce_ring(op, dtype, data)?;
        self.average(op, data, |b, n| arithmetic::divide_as_whole(dtype, b, n))
    }
    /// Makes a mean of a sum where that is asked for.
    fn average(&self, op: ReduceOp, data: &mut dyn Place, by: impl Fn(&mut [u8], usize)) -> Result<()> {
        if op == ReduceOp::Avg {
            data.change(0..data.len(), &mut |b| {
                by(b, self.size());
                Ok(())
            })?;
        }
        Ok(())
    }
    fn all_reduce_ring(&self, op: ReduceOp, dtype: DType, data: &mut dyn Place) -> Result<()> {
        let (n, me, total) = (self.size(), self.rank(), data.len());
        if total > 0 && n > 1 {
            let element = element(dtype);
            let largest = element * (MAX_SEGMENT / element).max(1);
            let segments = total.div_ceil(largest).max(2 * n).next_multiple_of(n);
            let segment = total.div_ceil(segments).next_multiple_of(element);
            let per_rank = segments / n;
            let (deep, steps) = (per_rank.min(DEEP), segments - per_rank);
            let ring = Ring { total, segment, segments, per_rank, deep, steps };
            let slot = self.slot(ALL_REDUCE);
            let (next, before) = ((me + 1) % n, (me + n - 1) % n);
            // the other half: reduced segments go round
            let wanted = |data: &dyn Place, i| {
                let from = ring.part(me + 1, i);
                if from.is_empty() { Ok(None) } else { self.receive(next, slot, data, from).map(Some) }
            };
            let mut early = VecDeque::new();
            self.reduce_scatter_ring(slot, &ring, data, Reducer { op, dtype }, |data| {
                // what comes on this slot comes in the order in which it is wanted
                for i in 0..if total <= EARLY { ring.steps.min(ring.deep) } else { 0 } {
                    early.push_back(wanted(data, i)?);
                }
                Ok(())
            })?;
            let mut flying: VecDeque<(Option<Arc<Transfer>>, Option<Arc<Transfer>>)> = VecDeque::new();
            for i in 0..ring.steps + ring.deep {
                if i >= ring.deep {
                    let (sent, got) = flying.pop_front().unwrap_or_default();
                    if let Some(t) = got {
                        self.received(&t, data, ring.part(me + 1, i - ring.deep).start)?;
                    }
                    if let Some(t) = sent {
                        self.gone(&t)?;
                    }
                }
                if i < ring.steps {
                    let to = ring.part(me, i);
                    let got = early.pop_front().map_or_else(|| wanted(data, i), Ok)?;
                    let sent = if to.is_empty() {
                        None
                    } else {
                        Some(self.mesh.send(before, slot, data.payload(to)?)?)
                    };
                    flying.push_back((sent, got));
                }
            }
        }
        Ok(())
    }

    /// A sum that the root gets; the others' data are left in part reduced.
    pub(crate) fn reduce(&self, op: ReduceOp, dtype: DType, data: &mut dyn Place, root: usize) -> Result<()> {
        let (n, me, total) = (self.size(), self.rank(), data.len());
        if total > 0 && n > 1 {
            let element = element(dtype);
            let largest = element * (MAX_SEGMENT / element);
            let segment = total.div_ceil(2 * n).min(largest).next_multiple_of(element);
            let segments = total.div_ceil(segment).max(2 * n).next_multiple_of(n);
            // gloo goes on here for all but two segments, however many a rank has: others wait for them
            let ring =
                Ring { total, segment, segments, per_rank: segments / n, deep: 2, steps: segments - 2 };
            let slot = self.slot(REDUCE);
            self.reduce_scatter_ring(slot, &ring, data, Reducer { op, dtype }, |_| Ok(()))?;
            let chunk = |r: usize| {
                let at = r * ring.per_rank * ring.segment;
                at.min(total)..(at + ring.per_rank * ring.segment).min(total)
            };
            if me == root {
                let mut flying = Vec::new();
                for r in (0..n).filter(|r| *r != me && !chunk(*r).is_empty()) {
                    flying.push((chunk(r), self.receive(r, slot, data, chunk(r))?));
                }
                for (part, t) in flying {
                    self.received(&t, data, part.start)?;
                }
            } else if !chunk(me).is_empty() {
                self.gone(&*self.mesh.send(root, slot, data.payload(chunk(me))?)?)?;
            }
        }
        self.average(op, data, |b, n| arithmetic::divide_as_whole(dtype, b, n))
    }

    /// The root's data for all, along a binomial tree.
    pub(crate) fn broadcast(&self, data: &mut dyn Place, root: usize) -> Result<()> {
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
                flying.push(self.mesh.send(peer, slot, data.payload(0..data.len())?)?);
            } else {
                let t = self.receive(peer, slot, data, 0..data.len())?;
                self.received(&t, data, 0)?;
            }
        }
        flying.iter().try_for_each(|t| self.gone(t))
    }

    /// Everybody's data, one after the other.
    pub(crate) fn all_gather(&self, own: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; self.size() * own.len()];
        self.all_gather_into(&own.to_vec(), &mut all)?;
        Ok(all)
    }
    /// Everybody's data into one place, by rank: round a ring in two halves each.
    pub(crate) fn all_gather_into(&self, own: &dyn Place, all: &mut dyn Place) -> Result<()> {
        let (n, me, slot, len) = (self.size(), self.rank(), self.slot(ALL_GATHER), own.len());
        let copy = |all: &mut dyn Place| own.payload(0..len)?.each(|b| all.put(me * len, b));
        // gloo sends nothing where there is nothing
        if n == 1 || len == 0 {
            return copy(all);
        }
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        let part = |first: usize, i: usize| {
            let at = (first + n - i / 2 % n) % n * len;
            if i.is_multiple_of(2) { at..at + len / 2 } else { at + len / 2..at + len }
        };
        let mut flying: VecDeque<(Arc<Transfer>, Arc<Transfer>, usize)> = VecDeque::new();
        for i in 0..2 * (n - 1) + 2 {
            if i == 2 {
                // while the first halves are on their way
                self.mesh.flush();
                copy(all)?;
            }
            if i >= 2
                && let Some((sent, got, start)) = flying.pop_front()
            {
                self.received(&got, all, start)?;
                self.gone(&sent)?;
            }
            if i < 2 * (n - 1) {
                // what has come goes on
                let mine = part(me, i);
                let payload = if i < 2 {
                    own.payload(mine.start - me * len..mine.end - me * len)?
                } else {
                    all.payload(mine)?
                };
                let sent = self.mesh.send(to, slot, payload)?;
                let into = part(from, i);
                let start = into.start;
                flying.push_back((sent, self.receive(from, slot, all, into)?, start));
            }
        }
        Ok(())
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
            self.gone(&*self.mesh.send(root, slot, own.to_vec())?)?;
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
