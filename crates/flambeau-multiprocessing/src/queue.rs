//! Queues between processes.

use crate::items::Message;
use crate::wire;
use flambeau_core::Result;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::sync::Arc;
use std::time::Duration;

/// Two ends of a line of messages, each of which arrives whole and at one reader.
pub(crate) fn line() -> Result<(OwnedFd, OwnedFd)> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    Ok(pair.map_err(std::io::Error::from)?)
}

/// A queue that any number of processes write to and read from: what one puts, one gets. Clones and copies in other processes are the
/// same queue.
///
/// A message is taken whole or not at all, so a process that is killed leaves the queue in order. What lies in it when its last handle
/// goes is freed by the system.
///
/// ```
/// use torch::multiprocessing::SimpleQueue;
/// let queue = SimpleQueue::new()?;
/// queue.put(torch::ones([2]))?;
/// queue.put("text")?;
/// assert_eq!(queue.get()?.get::<torch::Tensor>()?.to_vec::<f32>(), [1.0, 1.0]);
/// assert_eq!(queue.get()?.get::<String>()?, "text");
/// assert!(queue.empty()?);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.multiprocessing.SimpleQueue")]
#[derive(Clone, Debug)]
pub struct SimpleQueue {
    pub(crate) read: Arc<OwnedFd>,
    pub(crate) write: Arc<OwnedFd>,
}
impl SimpleQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new() -> Result<SimpleQueue> {
        let (read, write) = line()?;
        Ok(SimpleQueue { read: Arc::new(read), write: Arc::new(write) })
    }
    /// Puts a value or another queue into the queue; waits while it is full (some hundred small messages).
    ///
    /// # Errors
    /// Values that cannot go to another process: objects, generators, tensors that want gradients and have a history, tensors that are not
    /// dense; memory of devices that their back end cannot share.
    pub fn put(&self, item: impl Into<Message>) -> Result<()> {
        wire::send(&self.write, &[item.into()])
    }
    /// The next item; waits for it.
    ///
    /// # Errors
    /// Its memory cannot be had: it was named (`file_system`) by a process that is gone, or there is none.
    pub fn get(&self) -> Result<Message> {
        wire::one(wire::receive(&self.read)?)
    }
    /// The next item, if one comes within this time.
    ///
    /// # Errors
    /// As [`SimpleQueue::get`].
    pub fn get_timeout(&self, limit: Duration) -> Result<Option<Message>> {
        match wire::receive_within(&self.read, limit)? {
            Some(items) => wire::one(items).map(Some),
            None => Ok(None),
        }
    }
    /// Whether nothing is in it at this moment.
    ///
    /// # Errors
    /// Of the system.
    pub fn empty(&self) -> Result<bool> {
        Ok(!wire::ready(&self.read, Some(Duration::ZERO))?)
    }
}
