//! Jobs whose processes are looked after: started, watched, started again (`torch.distributed.elastic`).

pub mod agent;
#[doc(alias = "torch.distributed.elastic.events")]
pub mod events;
pub mod failures;
#[doc(alias = "torch.distributed.elastic.metrics")]
pub mod metrics;
#[doc(alias = "torch.distributed.elastic.multiprocessing")]
pub mod processes;
pub mod rendezvous;
pub mod timer;

use flambeau_core::{Error, Result, bail, ensure};

pub(crate) fn int(text: &str) -> Result<i64> {
    let wrong = || Error::value(format!("invalid literal for int() with base 10: '{text}'"));
    text.trim().parse().map_err(|_| wrong())
}
/// The least and the largest number of machines: `2`, or `1:4`.
///
/// ```
/// use torch::distributed::elastic::parse_min_max_nnodes;
/// assert_eq!((parse_min_max_nnodes("2")?, parse_min_max_nnodes("1:4")?), ((2, 2), (1, 4)));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Text that is none of these.
pub fn parse_min_max_nnodes(nnodes: &str) -> Result<(i64, i64)> {
    match nnodes.split(':').collect::<Vec<_>>()[..] {
        [n] => int(n).map(|n| (n, n)),
        [low, high] => Ok((int(low)?, int(high)?)),
        _ => bail!(Runtime, "nnodes={nnodes} is not in \"MIN:MAX\" format"),
    }
}
/// The number of processes on a machine: a number, or `cpu` or `auto` for one for each processor.
///
/// ```
/// use torch::distributed::elastic::determine_local_world_size;
/// assert_eq!(determine_local_world_size("3")?, 3);
/// assert!(determine_local_world_size("cpu")? >= 1 && determine_local_world_size("many").is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// `gpu` and `xpu`, which there are none of; other text.
pub fn determine_local_world_size(nproc_per_node: &str) -> Result<i64> {
    if let Ok(n) = nproc_per_node.trim().parse() {
        return Ok(n);
    }
    match nproc_per_node {
        "cpu" | "auto" => Ok(std::thread::available_parallelism().map_or(1, |n| n.get() as i64)),
        "gpu" => bail!(Value, "Cuda is not available."),
        "xpu" => bail!(Value, "Xpu is not available."),
        other => bail!(Value, "Unsupported nproc_per_node value: {other}"),
    }
}
/// Puts a worker's local rank into the places of `${local_rank}`.
///
/// ```
/// use torch::distributed::elastic::substitute;
/// assert_eq!(substitute(&["--gpu=${local_rank}".to_string()], "1"), ["--gpu=1"]);
/// ```
pub fn substitute(args: &[String], local_rank: &str) -> Vec<String> {
    args.iter().map(|a| a.replace("${local_rank}", local_rank)).collect()
}
/// Host and port of a rendezvous.
///
/// ```
/// use torch::distributed::elastic::parse_rendezvous_endpoint;
/// assert_eq!(parse_rendezvous_endpoint("node1", 29400)?, ("node1".to_string(), 29400));
/// assert_eq!(parse_rendezvous_endpoint("node1:5000", 29400)?.1, 5000);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A port that is no number below 65536, a host that is none.
pub fn parse_rendezvous_endpoint(endpoint: &str, default_port: u16) -> Result<(String, u16)> {
    let e = endpoint.trim();
    if e.is_empty() {
        return Ok(("localhost".into(), default_port));
    }
    let (host, port) = match e.rsplit_once(':') {
        _ if e.starts_with('[') && e.ends_with(']') => (e, None),
        Some((h, p)) => (h, Some(p)),
        None => (e, None),
    };
    let host = if host.len() > 1 && host.starts_with('[') && host.ends_with(']') {
        &host[1..host.len() - 1]
    } else {
        host
    };
    let port = match port {
        None => default_port,
        Some(p) => p.parse().map_err(|_| {
            Error::value(format!(
                "The port number of the rendezvous endpoint '{e}' must be an integer between 0 and 65536."
            ))
        })?,
    };
    ensure!(
        !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-')),
        Value,
        "The hostname of the rendezvous endpoint '{e}' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address."
    );
    Ok((host.to_owned(), port))
}
/// Settings of a rendezvous: `a=1,b=true`.
///
/// ```
/// use torch::distributed::elastic::parse_rendezvous_config;
/// assert_eq!(parse_rendezvous_config("a=1,b=true")?[1], ("b".to_string(), "true".to_string()));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A setting without a name or without a value.
pub fn parse_rendezvous_config(config: &str) -> Result<Vec<(String, String)>> {
    let config = config.trim();
    if config.is_empty() {
        return Ok(Vec::new());
    }
    let mut all: Vec<(String, String)> = Vec::new();
    for part in config.split(',') {
        let (key, value) = part.split_once('=').map_or((part, ""), |(k, v)| (k, v));
        let (key, value) = (key.trim(), value.trim());
        ensure!(
            !key.is_empty(),
            Value,
            "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
        );
        ensure!(
            !value.is_empty(),
            Value,
            "The rendezvous configuration option '{key}' must have a value specified."
        );
        all.retain(|(k, _)| k != key);
        all.push((key.to_owned(), value.to_owned()));
    }
    Ok(all)
}
