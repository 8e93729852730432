//! What is counted, in the text that Prometheus reads.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Status {
    pub status: u32,
}

pub struct Metrics {
    registry: Registry,
    /// Answers by status.
    pub answers: Family<Status, Counter>,
    /// Rows of the model's calls, and the time of them.
    pub rows: Histogram,
    pub seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let answers = Family::default();
        let rows = Histogram::new(exponential_buckets(1.0, 2.0, 7));
        let seconds = Histogram::new(exponential_buckets(0.0001, 2.0, 14));
        registry.register("serve_answers", "Answers by status", answers.clone());
        registry.register("serve_batch_rows", "Rows of a call of the model", rows.clone());
        registry.register("serve_batch_seconds", "Time of a call of the model", seconds.clone());
        Metrics { registry, answers, rows, seconds }
    }
}

impl Metrics {
    pub fn text(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.registry).map_or_else(|e| e.to_string(), |()| out)
    }
}
