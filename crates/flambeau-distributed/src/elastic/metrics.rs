//! Numbers that agents and programs report (`torch.distributed.elastic.metrics`).

use super::failures::seconds;
use crate::sync::Monitor;
use flambeau_core::Result;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// One number of a group.
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "torch.distributed.elastic.metrics.api.MetricData")]
pub struct MetricData {
    /// When, in seconds since 1970.
    pub timestamp: i64,
    /// The group.
    pub group_name: String,
    /// The name.
    pub name: String,
    /// The number.
    pub value: i64,
}
/// What becomes of numbers.
///
/// ```
/// use std::sync::Mutex;
/// use torch::distributed::elastic::metrics::{MetricData, MetricHandler, NullMetricHandler, configure, prof, put_metric};
///
/// static SEEN: Mutex<Vec<(String, i64)>> = Mutex::new(Vec::new());
/// struct Kept;
/// impl MetricHandler for Kept {
///     fn emit(&self, m: &MetricData) {
///         SEEN.lock().unwrap().push((m.name.clone(), m.value));
///     }
/// }
/// configure(Kept, Some("mine"));
/// configure(NullMetricHandler, None);
/// put_metric("steps", 3, "mine");
/// assert_eq!(prof("load", "mine", || Ok(7))?, 7);
/// let seen = SEEN.lock().unwrap();
/// assert_eq!(seen[0], ("steps".to_string(), 3));
/// assert!(seen.iter().any(|(name, n)| name == "load.success" && *n == 1), "{seen:?}");
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributed.elastic.metrics.MetricHandler")]
#[doc(alias = "torch.distributed.elastic.metrics.api.MetricHandler")]
pub trait MetricHandler: Send + Sync {
    /// Takes a number.
    fn emit(&self, metric: &MetricData);
}
/// Prints them.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributed.elastic.metrics.api.ConsoleMetricHandler")]
pub struct ConsoleMetricHandler;
impl MetricHandler for ConsoleMetricHandler {
    fn emit(&self, m: &MetricData) {
        println!("{}", ConsoleMetricHandler::line(m));
    }
}
impl ConsoleMetricHandler {
    /// What is printed.
    pub fn line(m: &MetricData) -> String {
        format!("[{}][{}]: {}={}", m.timestamp, m.group_name, m.name, m.value)
    }
}
/// Forgets them.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributed.elastic.metrics.api.NullMetricHandler")]
pub struct NullMetricHandler;
impl MetricHandler for NullMetricHandler {
    fn emit(&self, _: &MetricData) {}
}

type Handlers = (HashMap<String, Arc<dyn MetricHandler>>, Arc<dyn MetricHandler>);
static HANDLERS: LazyLock<Monitor<Handlers>> =
    LazyLock::new(|| Monitor::new((HashMap::new(), Arc::new(NullMetricHandler))));

/// Says what becomes of the numbers of a group, or of all groups without a handler of their own.
#[doc(alias = "torch.distributed.elastic.metrics.configure")]
pub fn configure(handler: impl MetricHandler + 'static, group: Option<&str>) {
    let mut all = HANDLERS.lock();
    match group {
        Some(g) => {
            all.0.insert(g.to_owned(), Arc::new(handler));
        }
        None => all.1 = Arc::new(handler),
    }
}
/// Reports a number.
///
/// ```
/// use torch::distributed::elastic::metrics::{ConsoleMetricHandler, configure, put_metric};
///
/// configure(ConsoleMetricHandler, Some("my_app"));
/// put_metric("steps", 1, "my_app");
/// ```
#[doc(alias = "torch.distributed.elastic.metrics.put_metric")]
pub fn put_metric(name: &str, value: i64, group: &str) {
    let handler = {
        let all = HANDLERS.lock();
        all.0.get(group).unwrap_or(&all.1).clone()
    };
    handler.emit(&MetricData {
        timestamp: seconds(),
        group_name: group.to_owned(),
        name: name.to_owned(),
        value,
    });
}
/// Runs a function, and reports whether it ended well, and how many milliseconds it took.
///
/// # Errors
/// Those of the function.
#[doc(alias = "torch.distributed.elastic.metrics.prof")]
pub fn prof<R>(name: &str, group: &str, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let start = Instant::now();
    let r = f();
    put_metric(&format!("{name}.{}", if r.is_ok() { "success" } else { "failure" }), 1, group);
    put_metric(&format!("{name}.duration.ms"), start.elapsed().as_millis() as i64, group);
    r
}
