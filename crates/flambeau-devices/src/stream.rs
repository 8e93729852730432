//! `torch.Stream` and `torch.Event`: queues of work of a device and points in them. On the CPU all work is done when a call returns, so
//! there is one queue, every event has been passed, and no event can be recorded, as in PyTorch.

use flambeau_core::{Device, Error, Result, ensure};

/// A queue of work of a device.
///
/// ```
/// use torch::{Device, Stream};
/// let s = Stream::new(Device::Cpu);
/// assert!(s.query());
/// s.synchronize();
/// assert_eq!(s.to_string(), "torch.Stream device_type=cpu, device_index=-1, stream_id=0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stream {
    device: Device,
}
impl Stream {
    /// The stream of a device. Panics with the text of [`Stream::try_new`]'s error.
    #[track_caller]
    pub fn new(device: Device) -> Stream {
        flambeau_core::api::ergonomic::expect(Stream::try_new(device))
    }
    /// The stream of a device.
    ///
    /// # Errors
    /// A device that is not there.
    pub fn try_new(device: Device) -> Result<Stream> {
        linked(device)?;
        Ok(Stream { device })
    }
    /// Its device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// Its number: each device has one stream.
    pub fn stream_id(&self) -> i64 {
        0
    }
    /// Whether all work is done: yes, when a call has returned.
    pub fn query(&self) -> bool {
        true
    }
    /// Waits until all work is done.
    pub fn synchronize(&self) {}
    /// Lets what comes later wait for an event, which has been passed.
    pub fn wait_event(&self, event: &Event) {
        event.wait();
    }
    /// Lets what comes later wait for another stream, whose work is done.
    pub fn wait_stream(&self, stream: &Stream) {
        stream.synchronize();
    }
    /// Puts an event behind the work so far.
    ///
    /// # Errors
    /// On the CPU, which has no events.
    pub fn try_record_event(&self, event: Option<Event>) -> Result<Event> {
        let e = event.map_or_else(|| Event::try_new(self.device, false), Ok)?;
        e.try_record()?;
        Ok(e)
    }
}
impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, index) = parts(self.device);
        write!(f, "torch.Stream device_type={kind}, device_index={index}, stream_id=0")
    }
}
/// A point in the work of a device.
///
/// ```
/// use torch::{Device, Event};
/// let event = Event::new(Device::Cpu, false);
/// assert!(event.query() && event.try_record().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    device: Device,
    enable_timing: bool,
}
impl Event {
    /// An event of a device. Panics with the text of [`Event::try_new`]'s error.
    #[track_caller]
    pub fn new(device: Device, enable_timing: bool) -> Event {
        flambeau_core::api::ergonomic::expect(Event::try_new(device, enable_timing))
    }
    /// An event of a device.
    ///
    /// # Errors
    /// A device that is not there.
    pub fn try_new(device: Device, enable_timing: bool) -> Result<Event> {
        linked(device)?;
        Ok(Event { device, enable_timing })
    }
    /// Its device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// Whether the work before it is done: yes.
    pub fn query(&self) -> bool {
        true
    }
    /// Waits until the work before it is done.
    pub fn synchronize(&self) {}
    /// Lets what comes later wait for it.
    pub fn wait(&self) {}
    /// Puts it behind the work so far.
    ///
    /// # Errors
    /// On the CPU, which has no events.
    pub fn try_record(&self) -> Result<()> {
        Err(Error::runtime(format!("{} backend doesn't support events.", parts(self.device).0)))
    }
    /// Milliseconds from this event to another.
    ///
    /// # Errors
    /// Events without timing, and events that were not recorded.
    pub fn try_elapsed_time(&self, end: &Event) -> Result<f64> {
        ensure!(
            self.enable_timing && end.enable_timing,
            Value,
            "Both events must be created with argument 'enable_timing=True'."
        );
        Err(Error::value("Both events must be recorded before calculating elapsed time."))
    }
}
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, index) = parts(self.device);
        let flag = i32::from(self.enable_timing);
        write!(f, "torch.Event device_type={kind}, device_index={index}, event_flag={flag}, event_id=0")
    }
}
fn parts(d: Device) -> (String, i64) {
    let text = d.to_string();
    match text.split_once(':') {
        Some((kind, n)) => (kind.to_string(), n.parse().unwrap_or(-1)),
        None => (text, -1),
    }
}
fn linked(d: Device) -> Result<()> {
    if matches!(d, Device::Cuda(_)) && crate::cuda::is_available() {
        return Err(Error::missing("torch.Stream of CUDA devices: torch.cuda.Stream is there"));
    }
    ensure!(!matches!(d, Device::Cuda(_)), Runtime, "PyTorch is not linked with support for cuda devices");
    Ok(())
}

#[cfg(feature = "by-name")]
pub(crate) use by_name::{ROWS, context, scope};

#[cfg(feature = "by-name")]
mod by_name {
    use super::{Event, Stream};
    use crate::by_name::{Bound, Row, Shown, given, object};
    use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
    use flambeau_core::{Device, Error, Result, Value};

    /// A context manager of Python: what it does when it is entered and left, and what it is called.
    struct Context {
        class: &'static str,
        enter: Box<dyn Fn() -> Result<()> + Send + Sync>,
        exit: Box<dyn Fn() + Send + Sync>,
    }
    impl Object for Context {
        fn type_name(&self) -> &'static str {
            self.class
        }
        fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
            match name {
                "__enter__" => (self.enter)().map(|()| vec![Value::None]),
                "__exit__" => {
                    (self.exit)();
                    Ok(vec![Value::None])
                }
                _ => Err(flambeau_core::dispatch::object::no_attribute(self.class, name)),
            }
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    pub(crate) fn context(
        class: &'static str,
        enter: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Value {
        scope(class, enter, || {})
    }
    pub(crate) fn scope(
        class: &'static str,
        enter: impl Fn() -> Result<()> + Send + Sync + 'static,
        exit: impl Fn() + Send + Sync + 'static,
    ) -> Value {
        Value::Object(ObjectRef::new(Context { class, enter: Box::new(enter), exit: Box::new(exit) }))
    }

    impl Shown for Stream {
        const CLASS: &'static str = "Stream";
        fn attribute(&self, name: &str) -> Option<Value> {
            match name {
                "device" => Some(Value::Device(self.device())),
                "stream_id" => Some(Value::Int(self.stream_id())),
                "device_index" => Some(Value::Int(super::parts(self.device()).1)),
                _ => None,
            }
        }
        fn method(&self, name: &str, args: &[Value]) -> Option<Result<Vec<Value>>> {
            match name {
                "query" => Some(Ok(vec![Value::Bool(self.query())])),
                "synchronize" => Some(Ok(vec![Value::None])),
                "wait_event" | "wait_stream" => Some(match args.first() {
                    Some(v) if given::<Event>(v).is_some() || given::<Stream>(v).is_some() => {
                        Ok(vec![Value::None])
                    }
                    _ => Err(Error::type_(format!("{name}() takes a stream's or an event's object"))),
                }),
                "record_event" => {
                    Some(self.try_record_event(args.first().and_then(given)).map(|e| vec![object(e)]))
                }
                _ => None,
            }
        }
        fn repr(&self) -> String {
            self.to_string()
        }
    }
    impl Shown for Event {
        const CLASS: &'static str = "Event";
        fn attribute(&self, name: &str) -> Option<Value> {
            match name {
                "device" => Some(Value::Device(self.device())),
                "event_id" => Some(Value::Int(0)),
                _ => None,
            }
        }
        fn method(&self, name: &str, args: &[Value]) -> Option<Result<Vec<Value>>> {
            match name {
                "query" => Some(Ok(vec![Value::Bool(self.query())])),
                "synchronize" | "wait" => Some(Ok(vec![Value::None])),
                "record" => Some(self.try_record().map(|()| vec![Value::None])),
                "elapsed_time" => Some(match args.first().and_then(given::<Event>) {
                    Some(e) => self.try_elapsed_time(&e).map(|t| vec![Value::Float(t)]),
                    None => Err(Error::type_("elapsed_time() takes an event")),
                }),
                _ => None,
            }
        }
        fn repr(&self) -> String {
            self.to_string()
        }
    }

    fn device(b: &mut Bound<'_>) -> Result<Device> {
        // without a device PyTorch takes the accelerator, and there is none
        b.optional()?
            .ok_or_else(|| Error::runtime("Cannot access accelerator device when none is available."))
    }
    pub(crate) const ROWS: &[Row] = &[
        ("torch", "Stream", |a, k| {
            let mut b = Bound::new("Stream", &["device", "priority"], a, k)?;
            Ok(vec![object(Stream::try_new(device(&mut b)?)?)])
        }),
        ("torch", "Event", |a, k| {
            let mut b = Bound::new("Event", &["device", "enable_timing", "blocking", "interprocess"], a, k)?;
            let d = device(&mut b)?;
            Ok(vec![object(Event::try_new(d, b.optional()?.unwrap_or(false))?)])
        }),
    ];
}
