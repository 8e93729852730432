//! What an allocator counts, under PyTorch's names.

use flambeau_devices::Stats;

#[derive(Clone, Copy, Default)]
pub(crate) struct Stat {
    pub(crate) current: i64,
    peak: i64,
    allocated: i64,
    freed: i64,
}
impl Stat {
    pub(crate) fn change(&mut self, by: i64) {
        self.current += by;
        self.peak = self.peak.max(self.current);
        if by > 0 { self.allocated += by } else { self.freed -= by }
    }
    pub(crate) fn reset_peak(&mut self) {
        self.peak = self.current;
    }
    pub(crate) fn reset_total(&mut self) {
        (self.allocated, self.freed) = (0, 0);
    }
    pub(crate) fn list(&self, name: &str, out: &mut Stats) {
        let all = [
            ("current", self.current),
            ("peak", self.peak),
            ("allocated", self.allocated),
            ("freed", self.freed),
        ];
        all.iter().for_each(|(what, v)| {
            out.insert(format!("{name}.{what}"), *v);
        });
    }
}
/// The statistics that are kept for all blocks and for each pool.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
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
/// Statistics of one device.
#[derive(Default)]
pub(crate) struct Counts {
    of: [[Stat; 3]; 9],
    /// Blocks that are never cut, and their segments.
    oversize: [Stat; 2],
    pub(crate) retries: i64,
    pub(crate) ooms: i64,
    pub(crate) syncs: i64,
    pub(crate) from_driver: i64,
    pub(crate) to_driver: i64,
}
impl Counts {
    pub(crate) fn count(&mut self, kind: Kind, small: bool, by: i64) {
        for which in [0, if small { 2 } else { 1 }] {
            self.of[kind as usize][which].change(by);
        }
    }
    /// Of blocks (0) and segments (1) that are never cut.
    pub(crate) fn oversize(&mut self, which: usize, by: i64) {
        self.oversize[which].change(by);
    }
    pub(crate) fn now(&self, kind: Kind) -> i64 {
        self.of[kind as usize][0].current
    }
    /// Everything that is counted.
    pub(crate) fn list(&self, max_split: usize) -> Stats {
        let mut out = Stats::new();
        for (kind, by_pool) in KINDS.iter().zip(&self.of) {
            for (pool, s) in ["all", "large_pool", "small_pool"].iter().zip(by_pool) {
                s.list(&format!("{kind}.{pool}"), &mut out);
            }
        }
        for (name, s) in ["oversize_allocations", "oversize_segments"].iter().zip(&self.oversize) {
            s.list(name, &mut out);
        }
        for (name, v) in [
            ("num_alloc_retries", self.retries),
            ("num_ooms", self.ooms),
            ("num_sync_all_streams", self.syncs),
            ("num_device_alloc", self.from_driver),
            ("num_device_free", self.to_driver),
            ("max_split_size", if max_split == usize::MAX { -1 } else { max_split as i64 }),
        ] {
            out.insert(name.into(), v);
        }
        out
    }
    pub(crate) fn reset_peaks(&mut self) {
        self.of.iter_mut().flatten().chain(&mut self.oversize).for_each(Stat::reset_peak);
    }
    pub(crate) fn reset_totals(&mut self) {
        self.of.iter_mut().flatten().chain(&mut self.oversize).for_each(Stat::reset_total);
        (self.retries, self.ooms, self.syncs, self.from_driver, self.to_driver) = (0, 0, 0, 0, 0);
    }
}
