//! The caching allocator: PyTorch's sizes of blocks and segments, splitting, joining, pools and statistics. Blocks are handed out
//! in the order of a stream's work, so that a freed one serves the next call of the same stream at once.

pub(crate) mod config;
mod expandable;
mod history;
mod stats;

use crate::driver::library::Pluggable;
use crate::driver::{Address, Driver, Stream};
use config::Config;
use flambeau_core::{Error, Result};
use flambeau_devices::Stats;
use flambeau_devices::cuda::runtime::{Block as Shown, PoolId, Segment};
use history::{Entry, Event, Frames, History};
pub(crate) use stats::Stat;
use stats::{Counts, Kind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Blocks are multiples of this.
const STEP: usize = 512;
/// Blocks up to this are small.
const SMALL: usize = 1 << 20;
/// A segment for small blocks.
const SMALL_SEGMENT: usize = 2 << 20;
/// Blocks from here on have a segment of their own.
const LARGE: usize = 10 << 20;
/// Segments of single blocks are multiples of this.
const LARGE_STEP: usize = 2 << 20;

/// The pool of what has none of its own.
pub(crate) const COMMON: PoolId = (0, 0);

struct Block {
    size: usize,
    asked: usize,
    used: bool,
    stream: Stream,
    segment: Address,
    small: bool,
    pool: PoolId,
    /// Calls of the allocator when it was freed.
    since: u64,
    /// Where it was taken, if that is noted.
    frames: Frames,
}
type Free = (PoolId, Stream, bool, usize, Address);
impl Block {
    fn free(&self, at: Address) -> Free {
        (self.pool, self.stream, self.small, self.size, at)
    }
}
struct Piece {
    size: usize,
    small: bool,
    stream: Stream,
    pool: PoolId,
    /// Bytes of addresses of a segment that grows; 0 of others.
    room: usize,
    /// Where it goes back to, if not to the driver.
    source: Option<Arc<Pluggable>>,
}
/// A pool that somebody made: graphs, and those who let their allocations come from it.
#[derive(Default)]
struct Private {
    uses: usize,
    /// Whether others may have its blocks before they are told that there is no memory.
    on_oom: bool,
    no_split: bool,
    /// Where its segments come from, if not from the driver.
    source: Option<Arc<Pluggable>>,
}
/// The blocks of one device by address.
#[derive(Default)]
pub(crate) struct Pool {
    blocks: BTreeMap<Address, Block>,
    /// Those of them that nobody uses, so that the smallest that fits is found at once.
    free: BTreeSet<Free>,
    segments: BTreeMap<Address, Piece>,
    private: HashMap<PoolId, Private>,
    settings: config::Seen,
    /// The block that came back last, which counts as used in `blocks`: whoever asks for the same again gets it as it is.
    lately: Option<Late>,
    counts: Counts,
    calls: u64,
    pub(crate) history: History,
    /// The part of the device's memory that may be taken; none: all.
    pub(crate) fraction: Option<f64>,
}
/// A block that is not joined with its neighbours yet.
struct Late {
    at: Address,
    size: usize,
    of: (Stream, PoolId),
}
/// What is asked of an allocator.
#[derive(Clone, Copy)]
struct Asked {
    device: usize,
    stream: Stream,
    nbytes: usize,
    size: usize,
    small: bool,
}

impl Pool {
    /// A block of at least `nbytes` for a stream, of a pool.
    ///
    /// # Errors
    /// No memory, also after everything that is cached was given back; settings that are none.
    pub(crate) fn take(
        &mut self,
        driver: &dyn Driver,
        device: usize,
        (stream, pool): (Stream, PoolId),
        nbytes: usize,
    ) -> Result<Address> {
        let config = self.settings.now()?;
        self.calls += 1;
        let size = config.rounded(nbytes).filter(|n| *n < 1 << 62);
        let Some(size) = size else { return Err(self.out_of_memory(driver, device, stream, nbytes)) };
        let a = Asked { device, stream, nbytes, size, small: size <= SMALL };
        if let Some(at) = self.again(&a, pool) {
            return Ok(at);
        }
        if let Some(found) = self.fitting(&a, pool, &config) {
            return Ok(self.cut(found, &a, &config));
        }
        let segment = match size {
            _ if a.small => SMALL_SEGMENT,
            _ if size < LARGE => config.large_segment,
            _ => size.next_multiple_of(LARGE_STEP),
        };
        if let Some(fraction) = self.fraction.filter(|_| config.gc > 0.0) {
            self.collect(driver, device, config.gc * fraction)?;
        }
        let source = self.private.get(&pool).and_then(|p| p.source.clone());
        if config.expandable && source.is_none() {
            let mut found = self.grow(driver, &a, pool, &config)?;
            if found.is_none() {
                self.counts.retries += 1;
                self.give_back(driver, device);
                found = self.grow(driver, &a, pool, &config)?;
            }
            return match found {
                Some(at) => Ok(self.cut(at, &a, &config)),
                None => Err(self.out_of_memory(driver, device, stream, nbytes)),
            };
        }
        let from = |this: &Pool| this.segment(driver, (device, stream), segment, source.as_deref());
        let mut got = from(self)?;
        if got.is_none() && self.make_room(driver, &a, &config) {
            got = from(self)?;
        }
        if got.is_none() {
            self.counts.retries += 1;
            self.give_back(driver, device);
            got = from(self)?;
        }
        let Some(address) = got else {
            // blocks of pools that lend them as a last resort
            let lenders: Vec<PoolId> =
                self.private.iter().filter(|(_, p)| p.on_oom).map(|(id, _)| *id).collect();
            let lent = lenders.into_iter().find_map(|id| self.fitting(&a, id, &config));
            return match lent {
                Some(found) => Ok(self.cut(found, &a, &config)),
                None => Err(self.out_of_memory(driver, device, stream, nbytes)),
            };
        };
        self.counts.from_driver += 1;
        let small = a.small;
        self.segments.insert(address, Piece { size: segment, small, stream, pool, room: 0, source });
        self.counts.count(Kind::Segment, small, 1);
        self.counts.count(Kind::ReservedBytes, small, segment as i64);
        if segment >= config.max_split {
            self.counts.oversize(1, 1);
        }
        let frames = self.history.frames("segment_alloc");
        self.note("segment_alloc", address, segment, (stream, pool), &frames);
        let since = self.calls;
        let block = Block {
            size: segment,
            asked: 0,
            used: false,
            stream,
            segment: address,
            small,
            pool,
            since,
            frames: None,
        };
        self.insert(address, block);
        Ok(self.cut(address, &a, &config))
    }
    /// A segment of the driver's or of a pool's own source, where the limit allows it.
    fn segment(
        &self,
        driver: &dyn Driver,
        (device, stream): (usize, Stream),
        n: usize,
        source: Option<&Pluggable>,
    ) -> Result<Option<Address>> {
        match source {
            _ if !self.allowed(driver, device, n)? => Ok(None),
            None => driver.allocate(device, n),
            Some(s) => {
                let got = s.take(n, device, driver.stream_handle(device, stream)?);
                got.map(|at| driver.adopt(device, at, n)).transpose()
            }
        }
    }
    /// Whether the limit allows so many bytes more.
    fn allowed(&self, driver: &dyn Driver, device: usize, n: usize) -> Result<bool> {
        let Some(f) = self.fraction else { return Ok(true) };
        let reserved = self.counts.now(Kind::ReservedBytes) as f64;
        Ok(reserved + n as f64 <= f * driver.memory(device)?.1 as f64)
    }
    /// The smallest free block that is large enough, and not too large for settings that forbid to cut it.
    fn fitting(&self, a: &Asked, pool: PoolId, config: &Config) -> Option<Address> {
        let from = (pool, a.stream, a.small, a.size, 0);
        let found = self.free.range(from..=(pool, a.stream, a.small, usize::MAX, Address::MAX)).next()?;
        let size = found.3;
        let uncut = size >= config.max_split;
        let no = a.size < config.max_split && uncut
            || a.size >= config.max_split && size >= a.size.saturating_add(config.max_rounding);
        (!no).then_some(found.4)
    }
    fn insert(&mut self, at: Address, b: Block) {
        if !b.used {
            self.free.insert(b.free(at));
        }
        self.blocks.insert(at, b);
    }
    fn remove(&mut self, at: Address) -> Option<Block> {
        let b = self.blocks.remove(&at)?;
        self.free.remove(&b.free(at));
        Some(b)
    }
    fn is_split(&self, b: &Block) -> bool {
        self.segments.get(&b.segment).is_some_and(|s| s.size != b.size)
    }
    fn inactive(&mut self, small: bool, sign: i64, size: usize) {
        self.counts.count(Kind::InactiveSplit, small, sign);
        self.counts.count(Kind::InactiveSplitBytes, small, sign * size as i64);
    }
    /// Hands out the start of a free block.
    fn cut(&mut self, at: Address, a: &Asked, config: &Config) -> Address {
        let frames = self.history.frames("alloc");
        // in its place: most calls of a program come by here
        let Some(b) = self.blocks.get_mut(&at) else { return at };
        self.free.remove(&b.free(at));
        let (size, small, pool, segment) = (b.size, b.small, b.pool, b.segment);
        let (whole, grows) = self.segments.get(&segment).map_or((size, false), |s| (s.size, s.room > 0));
        let rest = size - a.size;
        let kept = pool != COMMON && self.private.get(&pool).is_some_and(|p| p.no_split);
        let cut =
            !kept && if small || grows { rest >= STEP } else { a.size < config.max_split && rest > SMALL };
        let n = if cut { a.size } else { size };
        (b.used, b.asked, b.size, b.frames) = (true, a.nbytes, n, frames.clone());
        let stream = b.stream;
        if whole != size {
            self.inactive(small, -1, size);
        }
        if cut {
            let since = self.calls;
            let other = Block {
                size: rest,
                asked: 0,
                used: false,
                stream,
                segment,
                small,
                pool,
                since,
                frames: None,
            };
            self.inactive(small, 1, rest);
            self.insert(at + a.size as u64, other);
        }
        self.note("alloc", at, n, (a.stream, pool), &frames);
        self.in_use(small, 1, n as i64, a.nbytes as i64);
        if n >= config.max_split {
            self.counts.oversize(0, 1);
        }
        at
    }
    fn in_use(&mut self, small: bool, sign: i64, n: i64, asked: i64) {
        self.counts.count(Kind::Allocation, small, sign);
        self.counts.count(Kind::Active, small, sign);
        self.counts.count(Kind::AllocatedBytes, small, sign * n);
        self.counts.count(Kind::ActiveBytes, small, sign * n);
        self.counts.count(Kind::RequestedBytes, small, sign * asked);
    }
    /// The block that came back last, for who asks for as much again; else it is joined with its neighbours.
    fn again(&mut self, a: &Asked, pool: PoolId) -> Option<Address> {
        let late = self.lately.take()?;
        if late.size != a.size || late.of != (a.stream, pool) || self.history.notes() {
            self.join(late.at);
            return None;
        }
        let b = self.blocks.get_mut(&late.at)?;
        b.asked = a.nbytes;
        self.in_use(a.small, 1, a.size as i64, a.nbytes as i64);
        Some(late.at)
    }
    /// Before anybody looks at the blocks: all that came back are joined with their neighbours.
    pub(crate) fn settle(&mut self) {
        if let Some(late) = self.lately.take() {
            self.join(late.at);
        }
    }
    /// Takes a block back.
    pub(crate) fn give(&mut self, at: Address) -> bool {
        if self.lately.as_ref().is_some_and(|l| l.at == at) {
            return false;
        }
        let Some(b) = self.blocks.get_mut(&at).filter(|b| b.used) else { return false };
        let (own, asked, small) = (b.size, b.asked, b.small);
        let of = (b.stream, b.pool);
        (b.asked, b.frames) = (0, None);
        self.in_use(small, -1, own as i64, asked as i64);
        let large = self.settings.now().is_ok_and(|c| own >= c.max_split);
        if large {
            self.counts.oversize(0, -1);
        }
        if large || self.history.notes() {
            let frames = self.history.frames("free_requested");
            self.note("free_requested", at, own, of, &frames);
            self.note("free_completed", at, own, of, &frames);
            self.settle();
            self.join(at);
        } else if let Some(before) = self.lately.replace(Late { at, size: own, of }) {
            self.join(before.at);
        }
        true
    }
    /// Makes a block free that came back, and joins it with free neighbours.
    fn join(&mut self, at: Address) {
        let Some(b) = self.blocks.get_mut(&at) else { return };
        let (own, small, segment) = (b.size, b.small, b.segment);
        (b.used, b.since) = (false, self.calls);
        let after = at + own as u64;
        let behind = self.blocks.get(&after).filter(|n| !n.used && n.segment == segment).map(|n| n.size);
        let before = self.blocks.range(..at).next_back().filter(|(_, n)| !n.used && n.segment == segment);
        let before = before.map(|(a, n)| (*a, n.size));
        let mut size = own;
        if let Some(n) = behind {
            self.remove(after);
            self.inactive(small, -1, n);
            size += n;
        }
        let start = match before {
            Some((a, n)) => {
                self.blocks.remove(&at);
                self.inactive(small, -1, n);
                size += n;
                a
            }
            None => at,
        };
        let Some(b) = self.blocks.get_mut(&start) else { return };
        if before.is_some() {
            self.free.remove(&b.free(start));
        }
        (b.size, b.since) = (size, self.calls);
        self.free.insert(b.free(start));
        if self.segments.get(&segment).is_some_and(|s| s.size != size) {
            self.inactive(small, 1, size);
        }
    }
    /// Free blocks that are whole segments, of the pools that may give theirs back.
    fn whole(&self) -> Vec<Address> {
        let kept = |id: &PoolId| self.private.get(id).is_some_and(|p| p.uses > 0);
        let grows = |b: &Block| self.segments.get(&b.segment).is_some_and(|s| s.room > 0);
        let free = |b: &Block| !b.used && !self.is_split(b) && !kept(&b.pool) && !grows(b);
        self.blocks.iter().filter(|(_, b)| free(b)).map(|(a, _)| *a).collect()
    }
    fn release(&mut self, driver: &dyn Driver, device: usize, at: Address) {
        let Some(b) = self.remove(at) else { return };
        let piece = self.segments.remove(&at);
        match piece.and_then(|p| p.source) {
            None => driver.free(device, at),
            Some(s) => {
                let stream = driver.stream_handle(device, b.stream).unwrap_or(0);
                s.give(driver.disown(device, at), b.size, device, stream);
            }
        }
        self.counts.to_driver += 1;
        self.counts.count(Kind::Segment, b.small, -1);
        self.counts.count(Kind::ReservedBytes, b.small, -(b.size as i64));
        if self.settings.now().is_ok_and(|c| b.size >= c.max_split) {
            self.counts.oversize(1, -1);
        }
        let frames = self.history.frames("segment_free");
        self.note("segment_free", at, b.size, (b.stream, b.pool), &frames);
    }
    /// Gives all segments that nobody uses back to the driver, but those of pools that are in use.
    pub(crate) fn give_back(&mut self, driver: &dyn Driver, device: usize) {
        for a in self.whole() {
            self.release(driver, device, a);
        }
        self.shrink(driver, device);
        let left: BTreeSet<PoolId> = self.segments.values().map(|s| s.pool).collect();
        self.private.retain(|id, p| p.uses > 0 || left.contains(id));
    }
    /// Gives the segments of one pool back that nobody uses any more.
    pub(crate) fn give_back_pool(&mut self, driver: &dyn Driver, device: usize, id: PoolId) {
        for a in self.whole() {
            if self.blocks.get(&a).is_some_and(|b| b.pool == id) {
                self.release(driver, device, a);
            }
        }
        self.shrink(driver, device);
    }
    /// Where some blocks are never cut: gives as many of them back as make room for one more. Whether it did.
    fn make_room(&mut self, driver: &dyn Driver, a: &Asked, config: &Config) -> bool {
        if config.max_split == usize::MAX || a.size < config.max_split {
            return false;
        }
        let mut large: Vec<(usize, Address)> =
            self.whole().into_iter().map(|at| (self.blocks[&at].size, at)).collect();
        large.retain(|(size, _)| *size >= config.max_split);
        large.sort_unstable();
        if let Some((_, at)) = large.iter().find(|(size, _)| *size >= a.size) {
            self.release(driver, a.device, *at);
            return true;
        }
        let mut room = 0;
        for (size, at) in large.into_iter().rev() {
            if room >= a.size {
                break;
            }
            self.release(driver, a.device, at);
            room += size;
        }
        room >= a.size
    }
    /// Gives back what has been free for longer than most, until a part of the device's memory is reserved at most.
    fn collect(&mut self, driver: &dyn Driver, device: usize, part: f64) -> Result<()> {
        let limit = (part * driver.memory(device)?.1 as f64) as i64;
        let mut excess = self.counts.now(Kind::ReservedBytes) - limit;
        let mut old: Vec<(u64, Address)> = self
            .whole()
            .into_iter()
            .map(|at| (self.calls - self.blocks[&at].since, at))
            .filter(|(_, at)| !self.blocks[at].small)
            .collect();
        while excess > 0 && !old.is_empty() {
            let mean = old.iter().map(|(age, _)| *age as f64).sum::<f64>() / old.len() as f64;
            let (gone, kept): (Vec<_>, Vec<_>) = old.into_iter().partition(|(age, _)| *age as f64 >= mean);
            for (_, at) in gone {
                if excess > 0 {
                    excess -= self.blocks[&at].size as i64;
                    self.release(driver, device, at);
                }
            }
            old = kept;
        }
        Ok(())
    }
    fn note(
        &mut self,
        action: &'static str,
        at: Address,
        size: usize,
        (stream, pool): (Stream, PoolId),
        frames: &Frames,
    ) {
        self.history.note(Event { action, at, size, stream, pool }, frames);
    }
    /// Somebody more uses a pool.
    pub(crate) fn retain(&mut self, id: PoolId) {
        self.private.entry(id).or_default().uses += 1;
    }
    /// One fewer uses it; its segments go back with what is cached once nobody does.
    pub(crate) fn let_go(&mut self, id: PoolId) {
        if let Some(p) = self.private.get_mut(&id) {
            p.uses = p.uses.saturating_sub(1);
        }
    }
    pub(crate) fn uses(&self, id: PoolId) -> usize {
        self.private.get(&id).map_or(0, |p| p.uses)
    }
    pub(crate) fn set_up(&mut self, id: PoolId, on_oom: bool, no_split: bool) {
        let p = self.private.entry(id).or_default();
        (p.on_oom, p.no_split) = (on_oom, no_split);
    }
    pub(crate) fn set_source(&mut self, id: PoolId, source: Arc<Pluggable>) {
        self.private.entry(id).or_default().source = Some(source);
    }
    fn out_of_memory(&mut self, driver: &dyn Driver, device: usize, stream: Stream, nbytes: usize) -> Error {
        self.counts.ooms += 1;
        let (free, total) = driver.memory(device).unwrap_or((0, 0));
        let frames = self.history.frames("oom");
        self.note("oom", free, nbytes, (stream, COMMON), &frames);
        let used = self.counts.now(Kind::AllocatedBytes) as u64;
        let reserved = self.counts.now(Kind::ReservedBytes) as u64;
        let allowed = match self.fraction {
            Some(f) => format!("{} allowed; ", bytes((f * total as f64) as u64)),
            None => String::new(),
        };
        let in_pools: usize = self.segments.values().filter(|s| s.pool != COMMON).map(|s| s.size).sum();
        let private = match in_pools {
            0 => String::new(),
            n => format!("with {} allocated in private pools (e.g., CUDA Graphs), ", bytes(n as u64)),
        };
        let advice = match config::current().is_ok_and(|c| c.expandable) {
            true => "",
            false => {
                " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to \
                 avoid fragmentation.  See documentation for Memory Management  \
                 (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
            }
        };
        Error::memory(format!(
            "CUDA out of memory. Tried to allocate {}. GPU {device} has a total capacity of {} of which {} is free. \
             Including non-PyTorch memory, this process has {} memory in use. {allowed}Of the allocated memory {} is allocated \
             by PyTorch, {private}and {} is reserved by PyTorch but unallocated.{advice}",
            bytes(nbytes as u64),
            bytes(total),
            bytes(free),
            bytes(total - free),
            bytes(used),
            bytes(reserved.saturating_sub(used)),
        ))
    }
    /// Everything that is counted, under PyTorch's names.
    pub(crate) fn stats(&self) -> Stats {
        self.counts.list(config::current().map_or(usize::MAX, |c| c.max_split))
    }
    pub(crate) fn reset_peaks(&mut self) {
        self.counts.reset_peaks();
    }
    pub(crate) fn reset_totals(&mut self) {
        self.counts.reset_totals();
    }
    /// A wait for all streams, which is counted.
    pub(crate) fn waited(&mut self) {
        self.counts.syncs += 1;
    }
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.history.entries()
    }
    pub(crate) fn segments(&self, device: usize) -> Vec<Segment> {
        let of = |(address, s): (&Address, &Piece)| Segment {
            device: device as i64,
            address: *address as i64,
            total_size: s.size as i64,
            small: s.small,
            stream: s.stream as i64,
            pool: s.pool,
            expandable: s.room > 0,
            blocks: self
                .blocks
                .range(*address..*address + s.size as u64)
                .map(|(a, b)| Shown {
                    address: *a as i64,
                    size: b.size as i64,
                    asked: b.asked as i64,
                    used: b.used,
                    frames: b.frames.clone(),
                })
                .collect(),
        };
        self.segments.iter().map(of).collect()
    }
}

/// As PyTorch writes numbers of bytes.
fn bytes(n: u64) -> String {
    match n {
        0..=1024 => format!("{n} bytes"),
        1025..=1_048_576 => format!("{:.2} KiB", n as f64 / 1024.0),
        1_048_577..=1_073_741_824 => format!("{:.2} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", n as f64 / 1_073_741_824.0),
    }
}
