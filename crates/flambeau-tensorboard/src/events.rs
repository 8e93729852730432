//! Event files: records of length, checksum, bytes, checksum, written by a thread of their own.

use crate::proto::{Event, SourceMetadata};
use flambeau_core::{Error, Result};
use prost::Message;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// The machine's name.
pub fn host() -> String {
    let file = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let known =
        file.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    known.map(|h| h.trim().to_string()).filter(|h| !h.is_empty()).unwrap_or_else(|| "localhost".into())
}

/// TFRecord's checksum: CRC-32C, rotated and shifted, so that a checksum of data with checksums is none of its own.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
fn record(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    let length = (bytes.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(&length).to_le_bytes())?;
    out.write_all(bytes)?;
    out.write_all(&masked(bytes).to_le_bytes())
}

enum Order {
    Write(Vec<u8>),
    /// Answered when everything before is in the file.
    Flush(SyncSender<std::io::Result<()>>),
}

/// Writes until its queue is closed; flushes at the latest `every` after something was written.
fn write(mut out: BufWriter<File>, orders: &Receiver<Order>, every: Duration) {
    let mut failed: Option<std::io::Error> = None;
    let mut dirty: Option<Instant> = None;
    loop {
        let order = match dirty {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(since) => orders.recv_timeout(every.saturating_sub(since.elapsed())),
        };
        let result = match order {
            Ok(Order::Write(bytes)) => {
                dirty.get_or_insert_with(Instant::now);
                record(&mut out, &bytes)
            }
            Ok(Order::Flush(answer)) => {
                dirty = None;
                let flushed = out.flush();
                // the first failure is the one that explains the others
                let _ = answer.send(failed.take().map_or(flushed, Err));
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                dirty = None;
                out.flush()
            }
            // `out` writes what it holds when dropped
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Err(e) = result {
            failed.get_or_insert(e);
        }
    }
}

/// One event file.
pub struct EventFile {
    path: PathBuf,
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
}
impl EventFile {
    /// A new file in `dir`, which is made where it does not exist. `max_queue` events may wait to be written, for
    /// `flush_secs` at most.
    pub fn new(dir: &Path, max_queue: usize, flush_secs: f64, suffix: &str) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let failed = |e: std::io::Error| Error::io(format!("{}: {e}", dir.display()));
        std::fs::create_dir_all(dir).map_err(failed)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let seconds = now() as u64;
        let name =
            format!("events.out.tfevents.{seconds:010}.{}.{}.{number}{suffix}", host(), std::process::id());
        let path = dir.join(name);
        let out = BufWriter::new(File::create(&path).map_err(failed)?);
        let (sender, orders) = sync_channel(max_queue.max(1));
        let every = Duration::try_from_secs_f64(flush_secs).unwrap_or(Duration::MAX);
        let thread = std::thread::Builder::new()
            .name("flambeau-events".into())
            .spawn(move || write(out, &orders, every))
            .map_err(failed)?;
        let file = EventFile { path, orders: Some(sender), thread: Some(thread) };
        file.add(&Event {
            wall_time: now(),
            file_version: Some(FILE_VERSION.into()),
            source_metadata: Some(SourceMetadata { writer: "flambeau-tensorboard".into() }),
            ..Event::default()
        })?;
        file.flush()?;
        Ok(file)
    }
    fn gone(&self) -> Error {
        Error::io(format!("{}: the writing thread has ended", self.path.display()))
    }
    fn order(&self, order: Order) -> Result<()> {
        self.orders.as_ref().and_then(|o| o.send(order).ok()).ok_or_else(|| self.gone())
    }
    /// Puts an event into the queue; waits while that is full.
    pub fn add(&self, event: &Event) -> Result<()> {
        self.order(Order::Write(event.encode_to_vec()))
    }
    /// Waits until everything is in the file. Tells of the first write that failed since the last flush.
    pub fn flush(&self) -> Result<()> {
        let (answer, done) = sync_channel(1);
        self.order(Order::Flush(answer))?;
        let flushed = done.recv().map_err(|_| self.gone())?;
        flushed.map_err(|e| Error::io(format!("{}: {e}", self.path.display())))
    }
}
impl Drop for EventFile {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(t) = self.thread.take() {
            // it does not panic, and could say so to nobody
            let _ = t.join();
        }
    }
}

/// The version that TensorBoard reads.
pub const FILE_VERSION: &str = "brain.Event:2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_castagnolis() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(masked(&[0; 8]), 0x8c28_b28au32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}
