//! Where the processes of a job meet: `env://`, `tcp://`, `file://`.

use crate::store::{FileStore, PrefixStore, Store, TCPStore, TCPStoreOptions};
use crate::world::World;
use flambeau_core::{Error, Result, bail};
use std::sync::Arc;
use std::time::Duration;

/// What a method of meeting finds.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) rank: i64,
    pub(crate) size: i64,
}

pub(crate) fn find(
    w: &World,
    method: Option<&str>,
    rank: Option<i64>,
    size: Option<i64>,
    timeout: Duration,
) -> Result<Setup> {
    let url = method.unwrap_or("env://");
    let Some((scheme, rest)) = url.split_once("://") else {
        bail!(Runtime, "No rendezvous handler for {}://", url.split(':').next().unwrap_or(""))
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let asked = |name: &str| {
        let found = query.split('&').filter_map(|p| p.split_once('=')).find(|(k, _)| *k == name);
        found.map(|(_, v)| v.to_owned())
    };
    let number = |name: &str, given: Option<i64>, from_env: bool| -> Result<Option<i64>> {
        let text = match given.filter(|n| *n >= 0) {
            Some(n) => return Ok(Some(n)),
            None => asked(name).or_else(|| from_env.then(|| w.env(&name.to_uppercase())).flatten()),
        };
        match text {
            Some(t) => match t.trim().parse() {
                Ok(n) => Ok(Some(n)),
                Err(_) => bail!(Value, "invalid literal for int() with base 10: '{t}'"),
            },
            None => Ok(None),
        }
    };
    match scheme {
        "env" => {
            let lacks = |name: &str| {
                Error::value(format!(
                    "Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set"
                ))
            };
            let rank = number("rank", rank, true)?.ok_or_else(|| lacks("RANK"))?;
            let size = number("world_size", size, true)?.ok_or_else(|| lacks("WORLD_SIZE"))?;
            let host = w.env("MASTER_ADDR").ok_or_else(|| lacks("MASTER_ADDR"))?;
            let port = w.env("MASTER_PORT").ok_or_else(|| lacks("MASTER_PORT"))?;
            let Ok(port) = port.parse() else {
                bail!(Value, "invalid literal for int() with base 10: '{port}'")
            };
            Ok(Setup { store: over_tcp(w, &host, port, rank, size, timeout)?, rank, size })
        }
        "tcp" => {
            let says = |what: &str| {
                Error::value(format!("Error initializing torch.distributed using tcp:// rendezvous: {what}"))
            };
            let at = place.trim_end_matches('/');
            let (host, port) = at.rsplit_once(':').ok_or_else(|| says("port number missing"))?;
            let port = port.parse().map_err(|_| says("port number missing"))?;
            let rank = number("rank", rank, false)?.ok_or_else(|| says("rank parameter missing"))?;
            let size =
                number("world_size", size, false)?.ok_or_else(|| says("world size parameter missing"))?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Ok(Setup { store: over_tcp(w, host, port, rank, size, timeout)?, rank, size })
        }
        "file" => {
            let says = |what: &str| {
                Error::value(format!("Error initializing torch.distributed using file:// rendezvous: {what}"))
            };
            if place.is_empty() {
                return Err(says("path missing"));
            }
            let rank = number("rank", rank, false)?.ok_or_else(|| says("rank parameter missing"))?;
            let size =
                number("world_size", size, false)?.ok_or_else(|| says("world size parameter missing"))?;
            let store = FileStore::new(place, size)?;
            store.set_timeout(timeout);
            Ok(Setup { store: Arc::new(store), rank, size })
        }
        _ => bail!(Runtime, "No rendezvous handler for {scheme}://"),
    }
}

/// Rank 0 serves the store, unless the agent that has started the processes does.
fn over_tcp(
    w: &World,
    host: &str,
    port: u16,
    rank: i64,
    size: i64,
    timeout: Duration,
) -> Result<Arc<dyn Store>> {
    let o = TCPStoreOptions::new().world_size(size).timeout(timeout);
    if w.env("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") {
        let attempt = w.env("TORCHELASTIC_RESTART_COUNT").unwrap_or_else(|| "0".into());
        let store = TCPStore::new(host, port, o)?;
        return Ok(Arc::new(PrefixStore::new(format!("/worker/attempt_{attempt}"), Arc::new(store))));
    }
    Ok(Arc::new(TCPStore::new(host, port, o.is_master(rank == 0).multi_tenant(true))?))
}
