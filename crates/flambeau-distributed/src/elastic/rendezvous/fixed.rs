//! A rendezvous of agents that know their numbers.

use super::{RendezvousHandler, RendezvousInfo};
use crate::store::{PrefixStore, Store, TCPStore, TCPStoreOptions};
use flambeau_core::Result;
use std::sync::Arc;
use std::time::Duration;

/// A rendezvous of agents that know their numbers: number 0 serves the store.
#[derive(Debug)]
pub struct StaticRendezvous {
    host: String,
    port: u16,
    rank: i64,
    world_size: i64,
    run_id: String,
    timeout: Duration,
    store: Option<Arc<dyn Store>>,
}
impl StaticRendezvous {
    /// At this place; a timeout in seconds.
    pub fn new(host: String, port: u16, rank: i64, world_size: i64, run_id: &str, timeout: u64) -> Self {
        let timeout = Duration::from_secs(timeout);
        StaticRendezvous { host, port, rank, world_size, run_id: run_id.to_owned(), timeout, store: None }
    }
}
impl RendezvousHandler for StaticRendezvous {
    fn get_backend(&self) -> &'static str {
        "static"
    }
    fn next_rendezvous(&mut self) -> Result<RendezvousInfo> {
        let store = match &self.store {
            Some(s) => s.clone(),
            None => {
                let o = TCPStoreOptions::new()
                    .world_size(self.world_size)
                    .is_master(self.rank == 0)
                    .multi_tenant(true)
                    .timeout(self.timeout);
                let made = TCPStore::new(&self.host, self.port, o)?;
                // a free port was asked for
                self.port = made.port();
                let s: Arc<dyn Store> = Arc::new(made);
                self.store = Some(s.clone());
                s
            }
        };
        Ok(RendezvousInfo {
            store: Arc::new(PrefixStore::new(self.run_id.clone(), store)),
            rank: self.rank,
            world_size: self.world_size,
            master_addr: self.host.clone(),
            master_port: self.port,
        })
    }
    fn is_closed(&mut self) -> Result<bool> {
        Ok(false)
    }
    fn set_closed(&mut self) -> Result<()> {
        Ok(())
    }
    fn num_nodes_waiting(&mut self) -> Result<i64> {
        Ok(0)
    }
    fn get_run_id(&self) -> &str {
        &self.run_id
    }
    fn shutdown(&mut self) -> bool {
        true
    }
}
