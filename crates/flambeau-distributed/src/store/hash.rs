//! The store of one process.

use super::table::Table;
use super::{DEFAULT_STORE_TIMEOUT, Store, same_number};
use crate::sync::{Monitor, Timeout, deadline};
use flambeau_core::{Error, Result, bail, ensure};
use std::sync::Arc;
use std::time::Duration;

/// A store in this process's memory, for ranks that are threads. Its clones are handles of the same store.
///
/// ```
/// use torch::distributed::{HashStore, Store};
///
/// let store = HashStore::new();
/// let other = store.clone();
/// let waits = std::thread::spawn(move || other.get("key"));
/// store.set("key", b"value")?;
/// assert_eq!(waits.join().unwrap()?, b"value");
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributed.HashStore")]
pub struct HashStore {
    table: Arc<Monitor<Table>>,
    timeout: Timeout,
}
impl HashStore {
    /// An empty store.
    pub fn new() -> HashStore {
        HashStore {
            table: Arc::new(Monitor::new(Table::default())),
            timeout: Timeout::new(DEFAULT_STORE_TIMEOUT),
        }
    }
    fn change<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let r = f(&mut self.table.lock());
        self.table.notify();
        r
    }
    fn when<R>(&self, timeout: Duration, f: impl FnMut(&mut Table) -> Option<R>) -> Result<R> {
        self.table
            .wait_for(deadline(timeout), f)
            .ok_or_else(|| Error::new(flambeau_core::ErrorKind::DistStore, "Wait timeout"))
    }
}
impl Default for HashStore {
    fn default() -> Self {
        HashStore::new()
    }
}
impl Clone for HashStore {
    fn clone(&self) -> Self {
        HashStore { table: self.table.clone(), timeout: Timeout::new(self.timeout.get()) }
    }
}
impl Store for HashStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|t| t.set(key.as_bytes(), value.to_vec()));
        Ok(())
    }
    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.when(self.timeout(), |t| t.get(key.as_bytes()).map(<[u8]>::to_vec))
    }
    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        match self.change(|t| t.add(key.as_bytes(), amount)) {
            Some(n) => Ok(n),
            None => bail!(Value, "stoll"),
        }
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        Ok(self.change(|t| t.compare_set(key.as_bytes(), expected, desired)))
    }
    fn delete_key(&self, key: &str) -> Result<bool> {
        Ok(self.change(|t| t.delete(key.as_bytes())))
    }
    fn check(&self, keys: &[&str]) -> Result<bool> {
        let t = self.table.lock();
        Ok(keys.iter().all(|k| t.has(k.as_bytes())))
    }
    fn num_keys(&self) -> Result<i64> {
        Ok(self.table.lock().len())
    }
    fn wait_timeout(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        self.when(timeout, |t| keys.iter().all(|k| t.has(k.as_bytes())).then_some(()))
    }
    fn timeout(&self) -> Duration {
        self.timeout.get()
    }
    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }
    fn try_clone(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.clone()))
    }
    fn has_extended_api(&self) -> bool {
        true
    }
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|t| t.append(key.as_bytes(), value));
        Ok(())
    }
    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        same_number(keys, values)?;
        self.change(|t| keys.iter().zip(values).for_each(|(k, v)| t.set(k.as_bytes(), v.to_vec())));
        Ok(())
    }
    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|t| t.push(key.as_bytes(), value.to_vec()));
        Ok(())
    }
    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        if block {
            return self.when(self.timeout(), |t| t.pop(key.as_bytes()).1);
        }
        let first = self.change(|t| t.pop(key.as_bytes()).1);
        ensure!(first.is_some(), QueueEmpty, "queue is empty");
        Ok(first.unwrap_or_default())
    }
    fn queue_len(&self, key: &str) -> Result<i64> {
        Ok(self.table.lock().queue_len(key.as_bytes()))
    }
    fn list_keys(&self) -> Result<Vec<String>> {
        let keys = self.table.lock().keys();
        Ok(keys.into_iter().map(|k| String::from_utf8_lossy(&k).into_owned()).collect())
    }
    fn barrier(&self, key: &str, world_size: i64, timeout: Duration) -> Result<()> {
        self.change(|t| t.add(key.as_bytes(), 1));
        self.when(timeout, |t| {
            let n = t.get(key.as_bytes()).and_then(super::decimal).unwrap_or(0);
            (n >= world_size).then_some(())
        })
    }
}
