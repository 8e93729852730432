//! Keys with a prefix.

use super::Store;
use flambeau_core::Result;
use flambeau_core::types::deep::{self, Deep};
use std::sync::Arc;
use std::time::Duration;

/// A part of a store: every key gets `prefix/` before it. Groups of processes get one each, so that their keys do not meet.
///
/// ```
/// use std::sync::Arc;
/// use torch::distributed::{HashStore, PrefixStore, Store};
///
/// let all = Arc::new(HashStore::new());
/// let part = PrefixStore::new("first", all.clone());
/// part.set("key", b"value")?;
/// assert_eq!(all.list_keys()?, ["first/key"]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributed.PrefixStore")]
pub struct PrefixStore {
    prefix: String,
    /// Prefixes may stand on prefixes without end.
    store: Deep<Arc<dyn Store>>,
}
impl PrefixStore {
    /// The part of a store whose keys begin with `prefix/`.
    pub fn new(prefix: impl Into<String>, store: Arc<dyn Store>) -> PrefixStore {
        PrefixStore { prefix: prefix.into(), store: store.into() }
    }
    /// The store itself.
    #[doc(alias = "torch.distributed.PrefixStore.underlying_store")]
    pub fn underlying_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
    /// The store below all prefixes.
    fn root(&self) -> Arc<dyn Store> {
        let mut store = Arc::clone(&self.store);
        while let Some(below) = store.underlying_store() {
            store = below;
        }
        store
    }
    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }
    fn keys<R>(&self, keys: &[&str], f: impl FnOnce(&[&str]) -> Result<R>) -> Result<R> {
        let all: Vec<String> = keys.iter().map(|k| self.key(k)).collect();
        deep::call(|| f(&all.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}
impl Store for PrefixStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        deep::call(|| self.store.set(&self.key(key), value))
    }
    fn get(&self, key: &str) -> Result<Vec<u8>> {
        deep::call(|| self.store.get(&self.key(key)))
    }
    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        deep::call(|| self.store.add(&self.key(key), amount))
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        deep::call(|| self.store.compare_set(&self.key(key), expected, desired))
    }
    fn delete_key(&self, key: &str) -> Result<bool> {
        deep::call(|| self.store.delete_key(&self.key(key)))
    }
    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.keys(keys, |k| self.store.check(k))
    }
    fn num_keys(&self) -> Result<i64> {
        deep::call(|| self.store.num_keys())
    }
    fn wait_timeout(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        self.keys(keys, |k| self.store.wait_timeout(k, timeout))
    }
    fn timeout(&self) -> Duration {
        self.root().timeout()
    }
    fn set_timeout(&self, timeout: Duration) {
        self.root().set_timeout(timeout);
    }
    fn try_clone(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PrefixStore::new(self.prefix.clone(), deep::call(|| self.store.try_clone())?)))
    }
    fn has_extended_api(&self) -> bool {
        self.root().has_extended_api()
    }
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        deep::call(|| self.store.append(&self.key(key), value))
    }
    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        self.keys(keys, |k| self.store.multi_get(k))
    }
    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        self.keys(keys, |k| self.store.multi_set(k, values))
    }
    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        deep::call(|| self.store.queue_push(&self.key(key), value))
    }
    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        deep::call(|| self.store.queue_pop(&self.key(key), block))
    }
    fn queue_len(&self, key: &str) -> Result<i64> {
        deep::call(|| self.store.queue_len(&self.key(key)))
    }
    fn list_keys(&self) -> Result<Vec<String>> {
        let prefix = format!("{}/", self.prefix);
        Ok(deep::call(|| self.store.list_keys())?
            .iter()
            .filter_map(|k| k.strip_prefix(&prefix).map(String::from))
            .collect())
    }
    fn barrier(&self, key: &str, world_size: i64, timeout: Duration) -> Result<()> {
        deep::call(|| self.store.barrier(&self.key(key), world_size, timeout))
    }
    fn underlying_store(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::clone(&self.store))
    }
}
