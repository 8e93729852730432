//! What agents tell of their jobs (`torch.distributed.elastic.events`).

use crate::sync::Monitor;
use flambeau_core::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Who tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.events.api.EventSource")]
pub enum EventSource {
    /// The agent.
    Agent,
    /// A worker.
    Worker,
}
impl EventSource {
    fn name(self) -> &'static str {
        match self {
            EventSource::Agent => "AGENT",
            EventSource::Worker => "WORKER",
        }
    }
}
/// What is known of an event under a name.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.events.api.EventMetadataValue")]
pub enum EventMetadataValue {
    /// A text.
    Str(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Nothing.
    None,
}
impl EventMetadataValue {
    fn json(&self) -> Value {
        match self {
            EventMetadataValue::Str(s) => json!(s),
            EventMetadataValue::Int(i) => json!(i),
            EventMetadataValue::Float(f) => json!(f),
            EventMetadataValue::Bool(b) => json!(b),
            EventMetadataValue::None => Value::Null,
        }
    }
    fn of(v: &Value) -> EventMetadataValue {
        match v {
            Value::String(s) => EventMetadataValue::Str(s.clone()),
            Value::Bool(b) => EventMetadataValue::Bool(*b),
            Value::Number(n) => match n.as_i64() {
                Some(i) => EventMetadataValue::Int(i),
                None => EventMetadataValue::Float(n.as_f64().unwrap_or(0.0)),
            },
            _ => EventMetadataValue::None,
        }
    }
}
/// Something that has happened.
///
/// ```
/// use torch::distributed::elastic::events::{Event, EventMetadataValue, EventSource};
///
/// let e = Event::new("START", EventSource::Worker).with("rank", EventMetadataValue::Int(0));
/// assert_eq!(Event::deserialize(&e.serialize())?, e);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[doc(alias = "torch.distributed.elastic.events.api.Event")]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Who tells it.
    pub source: EventSource,
    /// When, in milliseconds since 1970.
    pub timestamp: i64,
    /// What is known of it, in order.
    pub metadata: Vec<(String, EventMetadataValue)>,
}
/// As Python's json module writes: a space after commas and colons.
fn python(v: &Value) -> String {
    match v {
        Value::Object(m) => {
            let all: Vec<String> = m.iter().map(|(k, v)| format!("{}: {}", json!(k), python(v))).collect();
            format!("{{{}}}", all.join(", "))
        }
        Value::Array(l) => format!("[{}]", l.iter().map(python).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
impl Event {
    /// Without metadata, at the time 0.
    pub fn new(name: &str, source: EventSource) -> Event {
        Event { name: name.to_owned(), source, timestamp: 0, metadata: Vec::new() }
    }
    /// With something more that is known of it.
    pub fn with(mut self, key: &str, value: EventMetadataValue) -> Event {
        self.metadata.push((key.to_owned(), value));
        self
    }
    /// As JSON text.
    pub fn serialize(&self) -> String {
        // text by text: the order of keys is the event's
        let meta: Vec<String> =
            self.metadata.iter().map(|(k, v)| format!("{}: {}", json!(k), python(&v.json()))).collect();
        format!(
            "{{\"name\": {}, \"source\": \"{}\", \"timestamp\": {}, \"metadata\": {{{}}}}}",
            json!(self.name),
            self.source.name(),
            self.timestamp,
            meta.join(", ")
        )
    }
    /// From JSON text.
    ///
    /// # Errors
    /// Text that is no event.
    pub fn deserialize(text: &str) -> Result<Event> {
        let wrong = |what: &str| Error::value(format!("an event that cannot be read: {what}"));
        let v: Value = serde_json::from_str(text).map_err(|e| wrong(&e.to_string()))?;
        let none = Map::new();
        let meta = v["metadata"].as_object().unwrap_or(&none);
        Ok(Event {
            name: v["name"].as_str().ok_or_else(|| wrong("no name"))?.to_owned(),
            source: match v["source"].as_str() {
                Some("AGENT") => EventSource::Agent,
                Some("WORKER") => EventSource::Worker,
                _ => return Err(wrong("no source")),
            },
            timestamp: v["timestamp"].as_i64().unwrap_or(0),
            metadata: meta.iter().map(|(k, v)| (k.clone(), EventMetadataValue::of(v))).collect(),
        })
    }
}
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.serialize())
    }
}
/// What becomes of events.
///
/// ```
/// use std::sync::Mutex;
/// use torch::distributed::elastic::events::{
///     ConsoleEventHandler, Event, EventHandler, EventSource, NullEventHandler, get_logging_handler, record,
///     register_handler,
/// };
///
/// static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// struct Kept;
/// impl EventHandler for Kept {
///     fn record(&self, event: &Event) {
///         SEEN.lock().unwrap().push(event.name.clone());
///     }
/// }
/// register_handler("kept", Kept);
/// record(&Event::new("START", EventSource::Worker), "kept");
/// assert_eq!(*SEEN.lock().unwrap(), ["START"]);
/// assert_eq!(get_logging_handler("no such").name(), NullEventHandler.name());
/// assert_eq!(get_logging_handler("console").name(), ConsoleEventHandler.name());
/// ```
#[doc(alias = "torch.distributed.elastic.events.EventHandler")]
pub trait EventHandler: Send + Sync {
    /// Takes an event.
    fn record(&self, event: &Event);
    /// What it is called.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self>().rsplit("::").next().unwrap_or("")
    }
}
/// Forgets them.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributed.elastic.events.NullEventHandler")]
pub struct NullEventHandler;
impl EventHandler for NullEventHandler {
    fn record(&self, _: &Event) {}
    fn name(&self) -> &'static str {
        "NullHandler"
    }
}
/// Prints them to standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsoleEventHandler;
impl EventHandler for ConsoleEventHandler {
    fn record(&self, event: &Event) {
        eprintln!("{event}");
    }
}
type Handlers = HashMap<String, Arc<dyn EventHandler>>;
static HANDLERS: LazyLock<Monitor<Handlers>> = LazyLock::new(|| {
    let mut all: Handlers = HashMap::new();
    all.insert("null".into(), Arc::new(NullEventHandler));
    all.insert("console".into(), Arc::new(ConsoleEventHandler));
    Monitor::new(all)
});
/// Puts a handler of one's own under a name.
pub fn register_handler(name: &str, handler: impl EventHandler + 'static) {
    HANDLERS.lock().insert(name.to_owned(), Arc::new(handler));
}
/// The handler of this name; that which forgets, where there is none.
#[doc(alias = "torch.distributed.elastic.events.get_logging_handler")]
pub fn get_logging_handler(destination: &str) -> Arc<dyn EventHandler> {
    let found = HANDLERS.lock().get(destination).cloned();
    found.unwrap_or_else(|| Arc::new(NullEventHandler))
}
/// Gives an event to a handler: `null` forgets it, `console` prints it.
#[doc(alias = "torch.distributed.elastic.events.record")]
pub fn record(event: &Event, destination: &str) {
    get_logging_handler(destination).record(event);
}
