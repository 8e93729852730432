//! `torch.monitor`: events that handlers see, and statistics that become events, a window of time each.
//!
//! ```
//! use torch::monitor::{self, Aggregation, Stat};
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//! let seen = Arc::new(Mutex::new(Vec::new()));
//! let into = seen.clone();
//! let handle = monitor::register_event_handler(move |e| into.lock().unwrap().push(e.clone()));
//! let loss = Stat::new("loss", &[Aggregation::SUM, Aggregation::COUNT], Duration::from_secs(60));
//! loss.add(1.0);
//! loss.add(3.0);
//! drop(loss);
//! monitor::unregister_event_handler(handle);
//! assert_eq!(seen.lock().unwrap()[0].data["loss.sum"], 4.0.into());
//! ```

use flambeau_core::types::order::{Mutex, MutexGuard, RwLock, none_held};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// What becomes of the samples of a window.
#[doc(alias = "torch.monitor.Aggregation")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Aggregation {
    /// The last sample. As in PyTorch, no event carries it.
    VALUE,
    /// The average.
    MEAN,
    /// How many there are.
    COUNT,
    /// The sum.
    SUM,
    /// The largest.
    MAX,
    /// The smallest.
    MIN,
}
impl Aggregation {
    fn word(self) -> &'static str {
        match self {
            Aggregation::VALUE => "value",
            Aggregation::MEAN => "mean",
            Aggregation::COUNT => "count",
            Aggregation::SUM => "sum",
            Aggregation::MAX => "max",
            Aggregation::MIN => "min",
        }
    }
}

/// A value of an event.
///
/// ```
/// use torch::monitor::Data;
/// assert_eq!([Data::from("a"), 1.5.into(), 2i64.into()], [Data::Str("a".into()), Data::Float(1.5), Data::Int(2)]);
/// ```
#[doc(alias = "torch.monitor.data_value_t")]
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// A text.
    Str(String),
    /// A number.
    Float(f64),
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
}
macro_rules! data {
    ($($t:ty => $v:ident),*) => {$(
        impl From<$t> for Data {
            fn from(v: $t) -> Data {
                Data::$v(v.into())
            }
        }
    )*};
}
data!(&str => Str, String => Str, f64 => Float, i64 => Int, bool => Bool);

/// Something that happened.
///
/// ```
/// use std::sync::Mutex;
/// use std::time::SystemTime;
/// use torch::monitor::{Event, log_event, register_event_handler, unregister_event_handler};
/// static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// let handle = register_event_handler(|e| SEEN.lock().unwrap().push(e.name.clone()));
/// let data = [("epoch".to_string(), 3i64.into())].into();
/// log_event(&Event { name: "train.saved".into(), timestamp: SystemTime::now(), data });
/// unregister_event_handler(handle);
/// assert_eq!(*SEEN.lock().unwrap(), ["train.saved"]);
/// ```
#[doc(alias = "torch.monitor.Event")]
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// What it is; dots make a hierarchy.
    pub name: String,
    /// When it happened.
    pub timestamp: SystemTime,
    /// What is known of it.
    pub data: BTreeMap<String, Data>,
}

type Handler = Arc<dyn Fn(&Event) + Send + Sync>;
static HANDLERS: RwLock<Vec<(u64, Handler)>> = RwLock::new(Vec::new());
static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// What a handler is taken away by.
///
/// ```
/// use torch::monitor::{EventHandlerHandle, register_event_handler, unregister_event_handler};
/// let handle: EventHandlerHandle = register_event_handler(|e| println!("{}", e.name));
/// assert_ne!(handle, register_event_handler(|_| ()));
/// unregister_event_handler(handle);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHandlerHandle(u64);
/// Shows all events of the program from now on to a function, in whatever thread they happen.
#[doc(alias = "torch.monitor.register_event_handler")]
pub fn register_event_handler(f: impl Fn(&Event) + Send + Sync + 'static) -> EventHandlerHandle {
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    HANDLERS.write().unwrap_or_else(PoisonError::into_inner).push((id, Arc::new(f)));
    EventHandlerHandle(id)
}
/// Ends that.
#[doc(alias = "torch.monitor.unregister_event_handler")]
pub fn unregister_event_handler(handle: EventHandlerHandle) {
    let gone = {
        let mut all = HANDLERS.write().unwrap_or_else(PoisonError::into_inner);
        all.iter().position(|(id, _)| *id == handle.0).map(|i| all.remove(i))
    };
    // what the function holds may do anything when it is dropped
    none_held("a handler of events is dropped");
    drop(gone);
}
/// Shows an event to all handlers.
#[doc(alias = "torch.monitor.log_event")]
pub fn log_event(event: &Event) {
    let all: Vec<Handler> =
        HANDLERS.read().unwrap_or_else(PoisonError::into_inner).iter().map(|(_, f)| f.clone()).collect();
    none_held("a handler of events runs");
    all.iter().for_each(|f| f(event));
}

#[derive(Clone, Default)]
struct Window {
    began: Option<Instant>,
    count: i64,
    sum: f64,
    most: f64,
    least: f64,
}
struct State {
    current: Window,
    last: Window,
}
/// Samples of a number, as one event for each window of time, and for the rest when it is dropped.
#[doc(alias = "torch.monitor.Stat")]
pub struct Stat {
    name: String,
    aggregations: Vec<Aggregation>,
    window: Duration,
    max_samples: i64,
    state: Mutex<State>,
}
impl Stat {
    /// A statistic without limit of samples.
    pub fn new(name: impl Into<String>, aggregations: &[Aggregation], window_size: Duration) -> Stat {
        Self::with_max_samples(name, aggregations, window_size, i64::MAX)
    }
    /// A statistic that counts no more samples in a window.
    pub fn with_max_samples(
        name: impl Into<String>,
        aggregations: &[Aggregation],
        window_size: Duration,
        max_samples: i64,
    ) -> Stat {
        let state = State { current: Window::default(), last: Window::default() };
        Stat {
            name: name.into(),
            aggregations: aggregations.to_vec(),
            window: window_size,
            max_samples,
            state: Mutex::new(state),
        }
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How many samples the window has so far.
    pub fn count(&self) -> i64 {
        self.state().current.count
    }
    /// Adds a sample.
    pub fn add(&self, v: f64) {
        let full = {
            let mut s = self.state();
            let over = s.current.began.is_some_and(|t| t.elapsed() >= self.window);
            let full = over.then(|| std::mem::take(&mut s.current));
            if let Some(w) = &full {
                s.last = w.clone();
            }
            let w = &mut s.current;
            w.began.get_or_insert_with(Instant::now);
            if w.count < self.max_samples {
                let first = w.count == 0;
                w.count += 1;
                w.sum += v;
                w.most = if first { v } else { w.most.max(v) };
                w.least = if first { v } else { w.least.min(v) };
            }
            full
        };
        if let Some(w) = full {
            self.log(&w);
        }
    }
    fn of(&self, w: &Window) -> BTreeMap<Aggregation, f64> {
        let value = |a: Aggregation| match a {
            Aggregation::VALUE => None,
            Aggregation::COUNT => Some(w.count as f64),
            Aggregation::SUM => Some(w.sum),
            Aggregation::MEAN => Some(if w.count == 0 { 0.0 } else { w.sum / w.count as f64 }),
            Aggregation::MAX => Some(w.most),
            Aggregation::MIN => Some(w.least),
        };
        self.aggregations.iter().filter_map(|a| Some((*a, value(*a)?))).collect()
    }
    /// The figures of the last window that is over.
    pub fn get(&self) -> BTreeMap<Aggregation, f64> {
        let last = self.state().last.clone();
        self.of(&last)
    }
    fn log(&self, w: &Window) {
        let data = self.of(w).into_iter().map(|(a, v)| (format!("{}.{}", self.name, a.word()), v.into()));
        log_event(&Event {
            name: "torch.monitor.Stat".into(),
            timestamp: SystemTime::now(),
            data: data.collect(),
        });
    }
}
impl Drop for Stat {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut self.state().current);
        if rest.count > 0 {
            self.log(&rest);
        }
    }
}
