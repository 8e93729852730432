//! The caching allocator: PyTorch's sizes of blocks and segments, splitting, joining and statistics. Blocks are handed out in
//! the order of a stream's work, so that a freed one serves the next call of the same stream at once.

use crate::driver::{Address, Driver, Stream};
use flambeau_core::{Error, Result};
use flambeau_devices::Stats;
use flambeau_devices::cuda::runtime::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks are multiples of this.
const STEP: usize = 512;
/// Blocks up to this are small.
const SMALL: usize = 1 << 20;
/// A segment for small blocks.
const SMALL_SEGMENT: usize = 2 << 20;
/// Blocks from here on have a segment of their own.
const LARGE: usize = 10 << 20;
/// A segment for several large blocks.
const LARGE_SEGMENT: usize = 20 << 20;
/// Segments of single blocks are multiples of this.
const LARGE_STEP: usize = 2 << 20;

#[derive(Clone, Copy, Default)]
struct Stat {
    current: i64,
    peak: i64,
    allocated: i64,
    freed: i64,
}
impl Stat {
    fn change(&mut self, by: i64) {
        self.current += by;
        self.peak = self.peak.max(self.current);
        if by > 0 { self.allocated += by } else { self.freed -= by }
    }
}
/// The statistics that are kept for all blocks and for each pool.
#[derive(Clone, Copy)]
enum Kind {
    Allocation,
    Segment,
    Active,
    InactiveSplit,
    AllocatedBytes,
    ReservedBytes,
    ActiveBytes,
    InactiveSplitBytes,
    RequestedBytes,
}
const KINDS: [&str; 9] = [
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
];

struct Block {
    size: usize,
    asked: usize,
    used: bool,
    stream: Stream,
    segment: Address,
    small: bool,
}
/// The blocks of one device by address.
#[derive(Default)]
pub(crate) struct Pool {
    blocks: BTreeMap<Address, Block>,
    /// Those of them that nobody uses, so that the smallest that fits is found at once.
    free: BTreeSet<(Stream, bool, usize, Address)>,
    /// Sizes of segments.
    segments: BTreeMap<Address, (usize, bool)>,
    stats: [[Stat; 3]; 9],
    retries: i64,
    ooms: i64,
    from_driver: i64,
    to_driver: i64,
    /// The part of the device's memory that may be taken; none: all.
    pub(crate) fraction: Option<f64>,
}

impl Pool {
    fn count(&mut self, kind: Kind, small: bool, by: i64) {
        for which in [0, if small { 2 } else { 1 }] {
            self.stats[kind as usize][which].change(by);
        }
    }
    /// A block of at least `nbytes` for a stream, and its size.
    ///
    /// # Errors
    /// No memory, also after everything that is cached was given back.
    pub(crate) fn take(
        &mut self,
        driver: &dyn Driver,
        device: usize,
        stream: Stream,
        nbytes: usize,
    ) -> Result<Address> {
        let size = nbytes.max(1).checked_next_multiple_of(STEP).filter(|n| *n < 1 << 62);
        let Some(size) = size else { return Err(self.out_of_memory(driver, device, nbytes)) };
        let small = size <= SMALL;
        if let Some(found) = self.fitting(size, small, stream) {
            return Ok(self.cut(found, size, nbytes));
        }
        let segment = match size {
            _ if small => SMALL_SEGMENT,
            _ if size < LARGE => LARGE_SEGMENT,
            _ => size.next_multiple_of(LARGE_STEP),
        };
        let reserved = self.stats[Kind::ReservedBytes as usize][0].current;
        let total = driver.memory(device)?.1 as f64;
        let allowed = self.fraction.is_none_or(|f| (reserved as f64 + segment as f64) <= f * total);
        let mut got = if allowed { driver.allocate(device, segment)? } else { None };
        if got.is_none() {
            self.retries += 1;
            self.give_back(driver, device);
            let reserved = self.stats[Kind::ReservedBytes as usize][0].current;
            let allowed = self.fraction.is_none_or(|f| (reserved as f64 + segment as f64) <= f * total);
            got = if allowed { driver.allocate(device, segment)? } else { None };
        }
        let Some(address) = got else { return Err(self.out_of_memory(driver, device, nbytes)) };
        self.from_driver += 1;
        self.segments.insert(address, (segment, small));
        self.count(Kind::Segment, small, 1);
        self.count(Kind::ReservedBytes, small, segment as i64);
        let block = Block { size: segment, asked: 0, used: false, stream, segment: address, small };
        self.insert(address, block);
        Ok(self.cut(address, size, nbytes))
    }
    /// The smallest free block that is large enough.
    fn fitting(&self, size: usize, small: bool, stream: Stream) -> Option<Address> {
        let from = (stream, small, size, 0);
        let found = self.free.range(from..=(stream, small, usize::MAX, Address::MAX)).next();
        found.map(|f| f.3)
    }
    fn insert(&mut self, at: Address, b: Block) {
        if !b.used {
            self.free.insert((b.stream, b.small, b.size, at));
        }
        self.blocks.insert(at, b);
    }
    fn remove(&mut self, at: Address) -> Option<Block> {
        let b = self.blocks.remove(&at)?;
        self.free.remove(&(b.stream, b.small, b.size, at));
        Some(b)
    }
    fn is_split(&self, b: &Block) -> bool {
        self.segments.get(&b.segment).is_some_and(|(size, _)| *size != b.size)
    }
    /// Hands out the start of a free block.
    fn cut(&mut self, at: Address, size: usize, asked: usize) -> Address {
        let Some(mut b) = self.remove(at) else { return at };
        if self.is_split(&b) {
            self.count(Kind::InactiveSplit, b.small, -1);
            self.count(Kind::InactiveSplitBytes, b.small, -(b.size as i64));
        }
        let rest = b.size - size;
        if rest >= if b.small { STEP } else { SMALL + 1 } {
            let other = Block {
                size: rest,
                asked: 0,
                used: false,
                stream: b.stream,
                segment: b.segment,
                small: b.small,
            };
            self.count(Kind::InactiveSplit, b.small, 1);
            self.count(Kind::InactiveSplitBytes, b.small, rest as i64);
            self.insert(at + size as u64, other);
            b.size = size;
        }
        (b.used, b.asked) = (true, asked);
        let (small, n) = (b.small, b.size as i64);
        self.insert(at, b);
        self.in_use(small, 1, n, asked as i64);
        at
    }
    fn in_use(&mut self, small: bool, sign: i64, n: i64, asked: i64) {
        self.count(Kind::Allocation, small, sign);
        self.count(Kind::Active, small, sign);
        self.count(Kind::AllocatedBytes, small, sign * n);
        self.count(Kind::ActiveBytes, small, sign * n);
        self.count(Kind::RequestedBytes, small, sign * asked);
    }
    /// Takes a block back, and joins it with free neighbours.
    pub(crate) fn give(&mut self, at: Address) -> bool {
        if !self.blocks.get(&at).is_some_and(|b| b.used) {
            return false;
        }
        let Some(mut b) = self.remove(at) else { return false };
        self.in_use(b.small, -1, b.size as i64, b.asked as i64);
        (b.used, b.asked) = (false, 0);
        let mut at = at;
        let before = self.blocks.range(..at).next_back().map(|(a, n)| (*a, n.used || n.segment != b.segment));
        if let Some((a, false)) = before {
            at = a;
            b.size += self.joined(a);
        }
        let after = at + b.size as u64;
        if self.blocks.get(&after).is_some_and(|n| !n.used && n.segment == b.segment) {
            b.size += self.joined(after);
        }
        if self.is_split(&b) {
            self.count(Kind::InactiveSplit, b.small, 1);
            self.count(Kind::InactiveSplitBytes, b.small, b.size as i64);
        }
        self.insert(at, b);
        true
    }
    fn joined(&mut self, at: Address) -> usize {
        let Some(b) = self.remove(at) else { return 0 };
        self.count(Kind::InactiveSplit, b.small, -1);
        self.count(Kind::InactiveSplitBytes, b.small, -(b.size as i64));
        b.size
    }
    /// Gives all segments that nobody uses back to the driver.
    pub(crate) fn give_back(&mut self, driver: &dyn Driver, device: usize) {
        let whole: Vec<(Address, usize, bool)> = self
            .blocks
            .iter()
            .filter(|(_, b)| !b.used && !self.is_split(b))
            .map(|(a, b)| (*a, b.size, b.small))
            .collect();
        for (a, size, small) in whole {
            self.remove(a);
            self.segments.remove(&a);
            driver.free(device, a);
            self.to_driver += 1;
            self.count(Kind::Segment, small, -1);
            self.count(Kind::ReservedBytes, small, -(size as i64));
        }
    }
    fn out_of_memory(&mut self, driver: &dyn Driver, device: usize, nbytes: usize) -> Error {
        self.ooms += 1;
        let (free, total) = driver.memory(device).unwrap_or((0, 0));
        let used = self.stats[Kind::AllocatedBytes as usize][0].current as u64;
        let reserved = self.stats[Kind::ReservedBytes as usize][0].current as u64;
        Error::memory(format!(
            "CUDA out of memory. Tried to allocate {}. GPU {device} has a total capacity of {} of which {} is free. \
             Including non-PyTorch memory, this process has {} memory in use. Of the allocated memory {} is allocated by \
             PyTorch, and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
             Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
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
        let mut out = Stats::new();
        for (kind, by_pool) in KINDS.iter().zip(&self.stats) {
            for (pool, s) in ["all", "large_pool", "small_pool"].iter().zip(by_pool) {
                for (what, v) in
                    [("current", s.current), ("peak", s.peak), ("allocated", s.allocated), ("freed", s.freed)]
                {
                    out.insert(format!("{kind}.{pool}.{what}"), v);
                }
            }
        }
        // there are no oversized blocks: blocks are split whatever their size
        for kind in ["oversize_allocations", "oversize_segments"] {
            for what in ["current", "peak", "allocated", "freed"] {
                out.insert(format!("{kind}.{what}"), 0);
            }
        }
        for (name, v) in [
            ("num_alloc_retries", self.retries),
            ("num_ooms", self.ooms),
            ("num_sync_all_streams", 0),
            ("num_device_alloc", self.from_driver),
            ("num_device_free", self.to_driver),
            ("max_split_size", -1),
        ] {
            out.insert(name.into(), v);
        }
        out
    }
    pub(crate) fn reset_peaks(&mut self) {
        self.stats.iter_mut().flatten().for_each(|s| s.peak = s.current);
    }
    pub(crate) fn reset_totals(&mut self) {
        self.stats.iter_mut().flatten().for_each(|s| (s.allocated, s.freed) = (0, 0));
        (self.retries, self.ooms, self.from_driver, self.to_driver) = (0, 0, 0, 0);
    }
    pub(crate) fn segments(&self, device: usize) -> Vec<Segment> {
        let of = |(address, (size, small)): (&Address, &(usize, bool))| Segment {
            device: device as i64,
            address: *address as i64,
            total_size: *size as i64,
            small: *small,
            blocks: self
                .blocks
                .range(*address..*address + *size as u64)
                .map(|(a, b)| (*a as i64, b.size as i64, b.asked as i64, b.used))
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
