//! What the allocator did, for those who asked to see it.

use std::backtrace::Backtrace;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use flambeau_devices::cuda::runtime::{Entry, Noting};

/// Where something was called.
pub(crate) type Frames = Option<Arc<Backtrace>>;

/// Events of one device, the last ones where there are more than asked for.
#[derive(Default)]
pub(crate) struct History {
    how: Noting,
    all: VecDeque<Entry>,
}
/// An event without its time.
pub(crate) struct Event {
    pub(crate) action: &'static str,
    pub(crate) at: u64,
    pub(crate) size: usize,
    pub(crate) stream: u64,
    pub(crate) pool: (u64, u64),
}
impl History {
    pub(crate) fn record(&mut self, how: Noting) {
        if how.clear || !how.blocks {
            self.all.clear();
        }
        self.how = how;
    }
    /// Whether anything is noted.
    pub(crate) fn notes(&self) -> bool {
        self.how.blocks || self.how.events
    }
    /// Where the caller is, if that is noted for such an event.
    pub(crate) fn frames(&self, action: &str) -> Frames {
        if !self.how.blocks {
            return None;
        }
        let wanted = match self.how.context {
            "all" => true,
            "alloc" => action == "alloc",
            "state" => action == "alloc" || action == "segment_alloc",
            _ => false,
        };
        wanted.then(|| Arc::new(Backtrace::force_capture()))
    }
    #[inline]
    pub(crate) fn note(&mut self, e: Event, frames: &Frames) {
        if !self.how.events || self.how.skip.iter().any(|s| s == e.action) {
            return;
        }
        if self.all.len() >= self.how.most.max(1) {
            self.all.pop_front();
        }
        let time_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
        self.all.push_back(Entry {
            action: e.action,
            address: e.at as i64,
            size: e.size as i64,
            stream: e.stream as i64,
            time_us,
            pool: e.pool,
            frames: frames.clone(),
        });
    }
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.all.iter().cloned().collect()
    }
}
