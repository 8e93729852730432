//! What the allocator did, for those who asked to see it.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use flambeau_devices::cuda::runtime::Entry;

/// Events of one device, the last ones where there are more than `most`.
#[derive(Default)]
pub(crate) struct History {
    /// Whether blocks and events are noted at all.
    pub(crate) on: bool,
    most: usize,
    skipped: Vec<String>,
    all: VecDeque<Entry>,
}
impl History {
    pub(crate) fn record(&mut self, on: bool, most: usize, skipped: Vec<String>, clear: bool) {
        (self.on, self.most, self.skipped) = (on, most.max(1), skipped);
        if clear || !on {
            self.all.clear();
        }
    }
    pub(crate) fn note(&mut self, action: &'static str, at: u64, size: usize, stream: u64, pool: (u64, u64)) {
        if !self.on || self.skipped.iter().any(|s| s == action) {
            return;
        }
        if self.all.len() >= self.most {
            self.all.pop_front();
        }
        let time_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
        let (address, size, stream) = (at as i64, size as i64, stream as i64);
        let pool = (pool.0 as i64, pool.1 as i64);
        self.all.push_back(Entry { action, address, size, stream, time_us, pool });
    }
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.all.iter().cloned().collect()
    }
}
