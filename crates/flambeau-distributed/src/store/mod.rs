//! Stores: keys and values that processes share (`torch.distributed.Store`).

mod file;
mod hash;
mod prefix;
mod table;
pub(crate) mod tcp;

pub use file::FileStore;
pub use hash::HashStore;
pub use prefix::PrefixStore;
pub(crate) use tcp::plain;
pub use tcp::{TCPStore, TCPStoreOptions};

use flambeau_core::{Result, bail};
use std::sync::Arc;
use std::time::Duration;

/// How long a store waits where nothing else is said: 5 minutes.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(300);

/// Keys and values that all processes of a job see: the place where they find each other.
///
/// Values are bytes. A key that is missing is waited for: [`Store::get`] and [`Store::wait`] return once another process has
/// set it, or give an error after [`Store::timeout`].
///
/// ```
/// use torch::distributed::{HashStore, Store};
///
/// let store = HashStore::new();
/// store.set("answer", b"42")?;
/// assert_eq!(store.get("answer")?, b"42");
/// assert_eq!(store.add("answer", 1)?, 43);
/// assert!(!store.check(&["question"])?);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributed.Store")]
pub trait Store: Send + Sync {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.set")]
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;
    /// The value of a key; waits until there is one.
    ///
    /// # Errors
    /// The time is over, or the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.get")]
    fn get(&self, key: &str) -> Result<Vec<u8>>;
    /// Adds to a number, which is 0 as long as nobody has set it, and gives the sum.
    ///
    /// # Errors
    /// The value is no number, or the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.add")]
    fn add(&self, key: &str, amount: i64) -> Result<i64>;
    /// Sets `desired` if the value is `expected`, and gives the value after that. A missing key counts as an empty value; where
    /// it is missing and something else was expected, nothing is stored and `expected` comes back.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.compare_set")]
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>>;
    /// Removes a key; says whether there was one.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.delete_key")]
    fn delete_key(&self, key: &str) -> Result<bool>;
    /// Whether all these keys are there, without waiting.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.check")]
    fn check(&self, keys: &[&str]) -> Result<bool>;
    /// The number of keys.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.num_keys")]
    fn num_keys(&self) -> Result<i64>;
    /// Waits until all these keys are there, at most for [`Store::timeout`].
    ///
    /// # Errors
    /// The time is over, or the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.wait")]
    fn wait(&self, keys: &[&str]) -> Result<()> {
        self.wait_timeout(keys, self.timeout())
    }
    /// Waits until all these keys are there, at most for this time.
    ///
    /// # Errors
    /// The time is over, or the store cannot be reached.
    fn wait_timeout(&self, keys: &[&str], timeout: Duration) -> Result<()>;
    /// How long this handle waits.
    #[doc(alias = "torch.distributed.Store.timeout")]
    fn timeout(&self) -> Duration;
    /// Says how long this handle waits.
    #[doc(alias = "torch.distributed.Store.set_timeout")]
    fn set_timeout(&self, timeout: Duration);
    /// Another handle of the same store; a client of a server opens a connection of its own.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.clone")]
    fn try_clone(&self) -> Result<Arc<dyn Store>>;
    /// Whether `append`, `multi_get` and `multi_set` are one message each, or put together of others.
    #[doc(alias = "torch.distributed.Store.has_extended_api")]
    fn has_extended_api(&self) -> bool {
        false
    }
    /// Appends to a value.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.append")]
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        let mut old = if self.check(&[key])? { self.get(key)? } else { Vec::new() };
        old.extend_from_slice(value);
        self.set(key, &old)
    }
    /// The values of several keys; waits for all of them.
    ///
    /// # Errors
    /// See [`Store::get`].
    #[doc(alias = "torch.distributed.Store.multi_get")]
    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        keys.iter().map(|k| self.get(k)).collect()
    }
    /// Sets the values of several keys.
    ///
    /// # Errors
    /// Not as many values as keys; the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.multi_set")]
    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        same_number(keys, values)?;
        keys.iter().zip(values).try_for_each(|(k, v)| self.set(k, v))
    }
    /// Puts a value at the end of a queue.
    ///
    /// # Errors
    /// Stores without queues; the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.queue_push")]
    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        let _ = (key, value);
        bail!(Unsupported, "queue support is not implemented.")
    }
    /// Takes the first value of a queue; waits for one if `block` says so.
    ///
    /// # Errors
    /// Stores without queues; an empty queue (of kind `QueueEmpty`) where it does not wait; the time is over.
    #[doc(alias = "torch.distributed.Store.queue_pop")]
    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        let _ = (key, block);
        bail!(Unsupported, "queue support is not implemented.")
    }
    /// The number of values in a queue.
    ///
    /// # Errors
    /// Stores without queues; the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.queue_len")]
    fn queue_len(&self, key: &str) -> Result<i64> {
        let _ = key;
        bail!(Unsupported, "queue support is not implemented.")
    }
    /// All keys, the newest first.
    ///
    /// # Errors
    /// The store cannot be reached.
    #[doc(alias = "torch.distributed.Store.list_keys")]
    fn list_keys(&self) -> Result<Vec<String>>;
    /// Waits until as many callers have come here with this key.
    ///
    /// # Errors
    /// The time is over, or the store cannot be reached.
    #[doc(alias = "torch.distributed.Store.barrier")]
    fn barrier(&self, key: &str, world_size: i64, timeout: Duration) -> Result<()>;
    /// The store below, of one that only changes keys.
    fn underlying_store(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

impl std::fmt::Debug for dyn Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

pub(crate) fn same_number(keys: &[&str], values: &[&[u8]]) -> Result<()> {
    if keys.len() != values.len() {
        bail!(DistStore, "multiSet keys and values vectors must be of same size");
    }
    Ok(())
}
/// Text as a decimal number, as C's `stoll` reads it.
pub(crate) fn decimal(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?.trim_start();
    let end = text
        .char_indices()
        .find(|(i, c)| !(c.is_ascii_digit() || *i == 0 && (*c == '-' || *c == '+')))
        .map_or(text.len(), |(i, _)| i);
    text[..end].parse().ok()
}
