//! Segments that grow: addresses are reserved for all of a device's memory, and pages come behind them when blocks need them, so
//! that one segment serves blocks of all sizes (`expandable_segments:True`).

use super::config::Config;
use super::{Asked, Block, Kind, Piece, Pool};
use crate::driver::{Address, Driver, PAGE};
use flambeau_core::Result;
use flambeau_devices::cuda::runtime::PoolId;

/// Pages for large blocks come by this many bytes.
const LARGE_STEP: usize = 20 << 20;

impl Pool {
    /// A free block that is large enough, at the end of a segment that grows; `None` where there is no memory.
    pub(super) fn grow(
        &mut self,
        driver: &dyn Driver,
        a: &Asked,
        pool: PoolId,
        config: &Config,
    ) -> Result<Option<Address>> {
        let own = |s: &Piece| (s.pool, s.stream, s.small) == (pool, a.stream, a.small) && s.room > 0;
        let known = self.segments.iter().find(|(_, s)| own(s)).map(|(at, _)| *at);
        let base = match known {
            Some(at) => at,
            None => {
                let total = driver.memory(a.device)?.1 as usize;
                let room = (total + total / 8).next_multiple_of(LARGE_STEP);
                let Some(at) = driver.reserve(a.device, room)? else { return Ok(None) };
                let piece = Piece { size: 0, small: a.small, stream: a.stream, pool, room, source: None };
                self.segments.insert(at, piece);
                self.counts.count(Kind::Segment, a.small, 1);
                at
            }
        };
        let Some((mapped, room)) = self.segments.get(&base).map(|s| (s.size, s.room)) else {
            return Ok(None);
        };
        let end = base + mapped as u64;
        // the last block grows where it is free
        let last = self.blocks.range(base..end).next_back();
        let last = last.filter(|(_, b)| !b.used && b.segment == base).map(|(at, b)| (*at, b.size));
        let step = if a.small { PAGE } else { LARGE_STEP.min(config.large_segment).next_multiple_of(PAGE) };
        let n = (a.size - last.map_or(0, |l| l.1).min(a.size)).next_multiple_of(step);
        if mapped + n > room || !self.allowed(driver, a.device, n)? || !driver.map(a.device, end, n)? {
            self.forget_empty(driver, a.device, base);
            return Ok(None);
        }
        let split = mapped > 0;
        let mut block = match last.and_then(|(at, _)| Some((at, self.remove(at)?))) {
            Some((at, b)) => {
                if self.is_split(&b) {
                    self.inactive(b.small, -1, b.size);
                }
                (at, b)
            }
            None => (end, Block::free_of(a, pool, base, self.calls)),
        };
        block.1.size += n;
        if let Some(s) = self.segments.get_mut(&base) {
            s.size += n;
        }
        if split && self.is_split(&block.1) {
            self.inactive(a.small, 1, block.1.size);
        }
        self.counts.from_driver += 1;
        self.counts.count(Kind::ReservedBytes, a.small, n as i64);
        let frames = self.history.frames("segment_map");
        self.note("segment_map", end, n, (a.stream, pool), &frames);
        let at = block.0;
        self.insert(at, block.1);
        Ok(Some(at))
    }
    /// Gives the addresses of a segment back that has no memory.
    pub(super) fn forget_empty(&mut self, driver: &dyn Driver, device: usize, base: Address) {
        if let Some(s) = self.segments.get(&base).filter(|s| s.room > 0 && s.size == 0) {
            let (room, small) = (s.room, s.small);
            self.segments.remove(&base);
            driver.unreserve(device, base, room);
            self.counts.count(Kind::Segment, small, -1);
        }
    }
    /// Takes the pages at the end of growing segments away that no block uses.
    pub(super) fn shrink(&mut self, driver: &dyn Driver, device: usize) {
        let kept = |id: &PoolId| self.private.get(id).is_some_and(|p| p.uses > 0);
        let growing: Vec<(Address, usize)> = self
            .segments
            .iter()
            .filter(|(_, s)| s.room > 0 && !kept(&s.pool))
            .map(|(at, s)| (*at, s.size))
            .collect();
        for (base, size) in growing {
            let end = base + size as u64;
            let last = self.blocks.range(base..end).next_back();
            let Some(at) = last.filter(|(_, b)| !b.used && b.segment == base).map(|(at, _)| *at) else {
                continue;
            };
            let from = base + ((at - base) as usize).next_multiple_of(PAGE) as u64;
            if from >= end {
                continue;
            }
            let n = (end - from) as usize;
            // where the driver refuses, the pages stay
            if driver.unmap(device, from, n).is_err() {
                continue;
            }
            let Some(mut b) = self.remove(at) else { continue };
            if self.is_split(&b) {
                self.inactive(b.small, -1, b.size);
            }
            let (small, stream, pool) = (b.small, b.stream, b.pool);
            b.size -= n;
            if let Some(s) = self.segments.get_mut(&base) {
                s.size -= n;
            }
            self.counts.to_driver += 1;
            self.counts.count(Kind::ReservedBytes, small, -(n as i64));
            let frames = self.history.frames("segment_unmap");
            self.note("segment_unmap", from, n, (stream, pool), &frames);
            if b.size > 0 {
                if self.is_split(&b) {
                    self.inactive(small, 1, b.size);
                }
                self.insert(at, b);
            }
            self.forget_empty(driver, device, base);
        }
    }
}
impl Block {
    fn free_of(a: &Asked, pool: PoolId, segment: Address, since: u64) -> Block {
        let (stream, small) = (a.stream, a.small);
        Block { size: 0, asked: 0, used: false, stream, segment, small, pool, since, frames: None }
    }
}
