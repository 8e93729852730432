//! How agents find each other, and agree on who takes part (`torch.distributed.elastic.rendezvous`).

mod dynamic;
mod fixed;
pub(crate) mod state;

pub use dynamic::DynamicRendezvous;
pub use fixed::StaticRendezvous;

use super::{int, parse_rendezvous_endpoint};
use crate::store::Store;
use flambeau_core::{Result, bail, ensure};
use std::sync::Arc;

/// The port where nobody says another.
pub const DEFAULT_PORT: u16 = 29400;

/// What agents have agreed on.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.rendezvous.RendezvousInfo")]
pub struct RendezvousInfo {
    /// A store that all agents of this round see.
    pub store: Arc<dyn Store>,
    /// This agent's number.
    pub rank: i64,
    /// How many agents there are.
    pub world_size: i64,
    /// Where the workers' store is.
    pub master_addr: String,
    /// Its port.
    pub master_port: u16,
}
/// Finds other agents.
#[doc(alias = "torch.distributed.elastic.rendezvous.RendezvousHandler")]
pub trait RendezvousHandler: Send {
    /// Its name.
    fn get_backend(&self) -> &'static str;
    /// Waits until enough agents have come.
    ///
    /// # Errors
    /// The time is over, the rendezvous is closed, the store cannot be reached.
    fn next_rendezvous(&mut self) -> Result<RendezvousInfo>;
    /// Whether no agents can join any more.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn is_closed(&mut self) -> Result<bool>;
    /// Closes it.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn set_closed(&mut self) -> Result<()>;
    /// How many agents wait for the next round.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn num_nodes_waiting(&mut self) -> Result<i64>;
    /// The job's name.
    fn get_run_id(&self) -> &str;
    /// Ends all that belongs to it; false where the others could not be told.
    fn shutdown(&mut self) -> bool;
}

/// Which rendezvous, where, and of how many agents.
///
/// ```
/// use torch::distributed::elastic::rendezvous::RendezvousParameters;
///
/// let p = RendezvousParameters::new("c10d", "host:1", "job", 1, 2, vec![("timeout".into(), "7".into())])?;
/// assert_eq!(p.get_as_int("timeout")?, Some(7));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.rendezvous.RendezvousParameters")]
pub struct RendezvousParameters {
    /// `c10d` or `static`.
    pub backend: String,
    /// Host and port.
    pub endpoint: String,
    /// The job's name.
    pub run_id: String,
    /// The least number of agents.
    pub min_nodes: i64,
    /// The largest.
    pub max_nodes: i64,
    /// This agent's address for others.
    pub local_addr: Option<String>,
    /// Further settings.
    pub config: Vec<(String, String)>,
}
impl RendezvousParameters {
    /// Checks them.
    ///
    /// # Errors
    /// No backend, numbers that do not fit.
    pub fn new(
        backend: &str,
        endpoint: &str,
        run_id: &str,
        min_nodes: i64,
        max_nodes: i64,
        config: Vec<(String, String)>,
    ) -> Result<RendezvousParameters> {
        ensure!(!backend.is_empty(), Value, "The rendezvous backend name must be a non-empty string.");
        ensure!(
            min_nodes >= 1,
            Value,
            "The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero."
        );
        ensure!(
            max_nodes >= min_nodes,
            Value,
            "The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum number of rendezvous nodes ({min_nodes})."
        );
        let own = str::to_owned;
        Ok(RendezvousParameters {
            backend: own(backend),
            endpoint: own(endpoint),
            run_id: own(run_id),
            min_nodes,
            max_nodes,
            local_addr: None,
            config,
        })
    }
    /// A setting.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.config.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    /// A setting that is a number.
    ///
    /// # Errors
    /// It is none.
    pub fn get_as_int(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            None => Ok(None),
            Some(v) => match int(v) {
                Ok(n) => Ok(Some(n)),
                Err(_) => bail!(
                    Value,
                    "The rendezvous configuration option '{key}' does not represent a valid integer value."
                ),
            },
        }
    }
    /// A setting that is a truth value.
    ///
    /// # Errors
    /// It is none.
    pub fn get_as_bool(&self, key: &str) -> Result<Option<bool>> {
        let is = |v: &str, word: &str, digit: &str| v == digit || v == word || v == &word[..1];
        match self.get(key).map(str::to_lowercase).as_deref() {
            None => Ok(None),
            Some(v) if is(v, "true", "1") || is(v, "yes", "1") => Ok(Some(true)),
            Some(v) if is(v, "false", "0") || is(v, "no", "0") => Ok(Some(false)),
            Some(_) => bail!(
                Value,
                "The rendezvous configuration option '{key}' does not represent a valid boolean value."
            ),
        }
    }
}
/// The rendezvous that parameters ask for.
///
/// # Errors
/// An unknown backend, settings that do not fit, a store that cannot be reached.
pub fn get_rendezvous_handler(p: &RendezvousParameters) -> Result<Box<dyn RendezvousHandler>> {
    match p.backend.as_str() {
        "static" => {
            let (host, port) = parse_rendezvous_endpoint(&p.endpoint, DEFAULT_PORT)?;
            let Some(rank) = p.get_as_int("rank")? else {
                bail!(Value, "rank is absent in RendezvousParameters.Try add --node-rank to the cmd")
            };
            let timeout = p.get_as_int("timeout")?.unwrap_or(900).max(1) as u64;
            Ok(Box::new(StaticRendezvous::new(host, port, rank, p.max_nodes, &p.run_id, timeout)))
        }
        "c10d" => Ok(Box::new(DynamicRendezvous::new(p)?)),
        other => bail!(
            Value,
            "The rendezvous backend '{other}' is not registered. Did you forget to call `register`?"
        ),
    }
}
/// This machine's name for others: `localhost` where its name leads to itself alone.
pub(crate) fn own_name() -> String {
    let name = crate::gloo::host_name();
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0));
    let reached = found.is_ok_and(|mut all| all.any(|a| !a.ip().is_loopback()));
    if reached { name } else { "localhost".into() }
}
/// Whether a host's name is this machine's.
pub(crate) fn is_here(host: &str) -> bool {
    if host == "localhost" || host == crate::gloo::host_name() {
        return true;
    }
    match std::net::ToSocketAddrs::to_socket_addrs(&(host, 0)) {
        // an address can be bound on the machine that has it
        Ok(mut all) => all.any(|a| a.ip().is_loopback() || std::net::UdpSocket::bind((a.ip(), 0)).is_ok()),
        Err(_) => false,
    }
}
