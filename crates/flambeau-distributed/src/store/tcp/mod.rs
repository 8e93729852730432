//! A store behind a server, in PyTorch's protocol: each side may be PyTorch.

mod client;
mod server;
pub(crate) mod wire;

use super::{DEFAULT_STORE_TIMEOUT, Store, same_number};
use crate::sync::{Timeout, deadline};
use client::Connection;
pub(crate) use client::plain;
use flambeau_core::{Result, bail, ensure};
use server::Server;
use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{Query, Request};

/// Keywords of [`TCPStore`].
#[flambeau_macros::options]
pub struct TCPStoreOptions {
    /// The number of processes that will come, the server's own among them; unknown if it is left out.
    pub(crate) world_size: Option<i64>,
    /// Whether this process serves the store.
    #[default(false)]
    pub(crate) is_master: bool,
    /// How long operations and connecting may take. Default: 5 minutes.
    #[default(DEFAULT_STORE_TIMEOUT)]
    pub(crate) timeout: Duration,
    /// Whether the serving process waits until all others have come, where their number is known. Default: true.
    #[default(true)]
    pub(crate) wait_for_workers: bool,
    /// Whether stores of this process with the same port share one server. Default: false.
    #[default(false)]
    pub(crate) multi_tenant: bool,
    /// A listening socket for the server, where it shall not open one.
    pub(crate) listener: Option<Arc<TcpListener>>,
}

/// A store that one process serves and all reach over the network; client and server speak PyTorch's protocol.
///
/// The server takes no message on trust: keys above 8 KiB, values above 8 MiB, more than 131,072 keys in one message, and unknown
/// messages end the connection that they came by, and no other one.
///
/// ```
/// use torch::distributed::{Store, TCPStore, TCPStoreOptions};
///
/// let server = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true))?;
/// let client = TCPStore::new("127.0.0.1", server.port(), TCPStoreOptions::new())?;
/// server.set("key", b"value")?;
/// assert_eq!(client.get("key")?, b"value");
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributed.TCPStore")]
pub struct TCPStore {
    host: String,
    port: u16,
    timeout: Timeout,
    connection: Connection,
    // kept, so that it serves as long as the store that opened it lives
    server: Option<Arc<Server>>,
}

/// What a raw key begins with: all others get a slash.
const COMERS: &str = "init/";

impl TCPStore {
    /// Connects with the server at this place, which it opens first if the options say so (port 0 finds a free one).
    ///
    /// # Errors
    /// The port is taken, nobody serves there within the timeout, or not all processes come within it.
    pub fn new(host: &str, port: u16, options: TCPStoreOptions) -> Result<TCPStore> {
        let o = options;
        let end = deadline(o.timeout);
        let server =
            if o.is_master { Some(Server::open(port, o.listener.clone(), o.multi_tenant)?) } else { None };
        let port = server.as_ref().map_or(port, |s| s.port());
        let connection = Connection::open(host, port, end, o.timeout)?;
        let store =
            TCPStore { host: host.to_owned(), port, timeout: Timeout::new(o.timeout), connection, server };
        if let Some(all) = o.world_size {
            let query = Request::new(Query::Add).bytes(COMERS.as_bytes()).number(1);
            store.connection.ask(query, |r| r.number())?;
            if o.is_master && o.wait_for_workers {
                store.wait_for_workers(all, end, o.timeout)?;
            }
        }
        Ok(store)
    }
    fn wait_for_workers(&self, all: i64, end: Instant, timeout: Duration) -> Result<()> {
        loop {
            let come = self
                .connection
                .ask(Request::new(Query::Get).bytes(COMERS.as_bytes()), |r| r.bytes())
                .map(|v| super::decimal(&v).unwrap_or(0))?;
            if come >= all {
                return Ok(());
            }
            if Instant::now() >= end {
                bail!(
                    DistStore,
                    "Timed out after {} seconds waiting for clients. {come}/{all} clients joined.",
                    timeout.as_secs() + 1
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    /// The server's host.
    #[doc(alias = "torch.distributed.TCPStore.host")]
    pub fn host(&self) -> &str {
        &self.host
    }
    /// The server's port.
    #[doc(alias = "torch.distributed.TCPStore.port")]
    pub fn port(&self) -> u16 {
        self.port
    }
    /// Whether the server is PyTorch's newer kind, with queues: this library's always is.
    #[doc(alias = "torch.distributed.TCPStore.libuvBackend")]
    pub fn is_libuv_backend(&self) -> bool {
        true
    }
    /// Whether this handle keeps the server.
    pub fn is_server(&self) -> bool {
        self.server.is_some()
    }
    fn key(key: &str) -> Vec<u8> {
        [b"/", key.as_bytes()].concat()
    }
    fn keyed(query: Query, keys: &[&str]) -> Request {
        keys.iter().fold(Request::new(query).count(keys.len()), |r, k| r.bytes(&TCPStore::key(k)))
    }
    /// One query of one key that is answered.
    fn one<R>(
        &self,
        query: Query,
        key: &str,
        more: impl FnOnce(Request) -> Request,
        read: impl FnOnce(&mut client::Reply<'_>) -> Result<R>,
    ) -> Result<R> {
        self.connection.ask(more(Request::new(query).bytes(&TCPStore::key(key))), read)
    }
    fn awaited(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        let names: Vec<String> = keys.iter().map(|k| format!("/{k}")).collect();
        self.connection.wait(TCPStore::keyed(Query::Wait, keys), timeout, &names)
    }
}
impl fmt::Debug for TCPStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCPStore({}:{})", self.host, self.port)
    }
}
impl Store for TCPStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.one(Query::Set, key, |r| r.bytes(value), |_| Ok(()))
    }
    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.awaited(&[key], self.timeout())?;
        self.one(Query::Get, key, |r| r, |r| r.bytes())
    }
    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.one(Query::Add, key, |r| r.number(amount), |r| r.number())
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.one(Query::CompareSet, key, |r| r.bytes(expected).bytes(desired), |r| r.bytes())
    }
    fn delete_key(&self, key: &str) -> Result<bool> {
        self.one(Query::DeleteKey, key, |r| r, |r| Ok(r.number()? != 0))
    }
    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.connection.ask(TCPStore::keyed(Query::Check, keys), |r| Ok(r.byte()? == 0))
    }
    fn num_keys(&self) -> Result<i64> {
        self.connection.ask(Request::new(Query::GetNumKeys), |r| r.number())
    }
    fn wait_timeout(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        self.awaited(keys, timeout)
    }
    fn timeout(&self) -> Duration {
        self.timeout.get()
    }
    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }
    fn try_clone(&self) -> Result<Arc<dyn Store>> {
        let timeout = self.timeout();
        let connection = Connection::open(&self.host, self.port, deadline(timeout), timeout)?;
        let (host, server) = (self.host.clone(), self.server.clone());
        Ok(Arc::new(TCPStore { host, port: self.port, timeout: Timeout::new(timeout), connection, server }))
    }
    fn has_extended_api(&self) -> bool {
        true
    }
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.one(Query::Append, key, |r| r.bytes(value), |_| Ok(()))
    }
    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        self.awaited(keys, self.timeout())?;
        self.connection
            .ask(TCPStore::keyed(Query::MultiGet, keys), |r| keys.iter().map(|_| r.bytes()).collect())
    }
    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        same_number(keys, values)?;
        let start = Request::new(Query::MultiSet).count(keys.len());
        let all = keys.iter().zip(values).fold(start, |r, (k, v)| r.bytes(&TCPStore::key(k)).bytes(v));
        self.connection.ask(all, |_| Ok(()))
    }
    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.one(Query::QueuePush, key, |r| r.bytes(value), |_| Ok(()))
    }
    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        let mut left = self.timeout();
        let end = deadline(left);
        loop {
            if block {
                self.awaited(&[key], left)?;
                left = end.saturating_duration_since(Instant::now());
            }
            let first = self.one(
                Query::QueuePop,
                key,
                |r| r,
                |r| {
                    if r.number()? > 0 { r.bytes().map(Some) } else { Ok(None) }
                },
            )?;
            if let Some(v) = first {
                return Ok(v);
            }
            // another client may have been quicker
            ensure!(block, QueueEmpty, "queue is empty");
        }
    }
    fn queue_len(&self, key: &str) -> Result<i64> {
        self.one(Query::QueueLen, key, |r| r, |r| r.number())
    }
    fn list_keys(&self) -> Result<Vec<String>> {
        let all = self.connection.ask(Request::new(Query::ListKeys), |r| {
            let n = r.number()?;
            (0..n).map(|_| r.bytes()).collect::<Result<Vec<_>>>()
        })?;
        let shown = all.iter().filter_map(|k| k.strip_prefix(b"/"));
        Ok(shown.map(|k| String::from_utf8_lossy(k).into_owned()).collect())
    }
    fn barrier(&self, key: &str, world_size: i64, timeout: Duration) -> Result<()> {
        let query = Request::new(Query::Barrier).bytes(&TCPStore::key(key)).number(world_size);
        self.connection.wait(query, timeout, &[format!("/{key}")])
    }
}
