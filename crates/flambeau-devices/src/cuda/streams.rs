//! Streams and events of CUDA devices.

use super::runtime::{Runtime, of_runtime};
use crate::table::dummy;
use flambeau_core::{Error, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the class says where no back end is linked; else what the back end answers.
fn ask<R>(class: &str, ask: impl FnOnce(&dyn Runtime) -> Result<R>) -> Result<R> {
    of_runtime(ask)
        .map_err(|e| if e.message() == "Torch not compiled with CUDA enabled" { dummy(class) } else { e })
}

/// A queue of work of a CUDA device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    device: i64,
    id: u64,
}
impl Stream {
    pub(crate) fn of(device: i64, id: u64) -> Stream {
        Stream { device, id }
    }
    /// Makes a stream of the current device. Panics with the text of [`Stream::try_new`]'s error.
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Stream {
        flambeau_core::api::ergonomic::expect(Stream::try_new())
    }
    /// Makes a stream of the current device.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_new() -> Result<Stream> {
        ask("Stream", |r| {
            let device = r.current_device()?;
            Ok(Stream { device, id: r.new_stream(device)? })
        })
    }
    /// Its device's number.
    pub fn device_index(&self) -> i64 {
        self.device
    }
    /// Its number among the streams of its device; 0 is the default one.
    pub fn stream_id(&self) -> i64 {
        self.id as i64
    }
    /// The driver's handle of it, for other libraries.
    ///
    /// # Errors
    /// There is no device any more.
    pub fn cuda_stream(&self) -> Result<i64> {
        of_runtime(|r| r.stream_handle(self.device, self.id)).map(|h| h as i64)
    }
    /// Whether all work is done. An error of the work counts as its end.
    pub fn query(&self) -> bool {
        of_runtime(|r| r.stream_query(self.device, self.id)).unwrap_or(true)
    }
    /// Waits until all work is done. Panics with the text of [`Stream::try_synchronize`]'s error.
    #[track_caller]
    pub fn synchronize(&self) {
        flambeau_core::api::ergonomic::expect(self.try_synchronize());
    }
    /// Waits until all work is done.
    ///
    /// # Errors
    /// Of a kernel.
    pub fn try_synchronize(&self) -> Result<()> {
        of_runtime(|r| r.stream_synchronize(self.device, self.id))
    }
    /// Notes this point in the queue: in the given event, or in a new one. Panics with the text of
    /// [`Stream::try_record_event`]'s error.
    #[track_caller]
    pub fn record_event(&self, event: Option<Event>) -> Event {
        flambeau_core::api::ergonomic::expect(self.try_record_event(event))
    }
    /// Notes this point in the queue: in the given event, or in a new one.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_record_event(&self, event: Option<Event>) -> Result<Event> {
        let event = event.map_or_else(|| Event::with(false), Ok)?;
        event.try_record(Some(self))?;
        Ok(event)
    }
    /// Lets what comes later wait for an event.
    pub fn wait_event(&self, event: &Event) {
        let _ = event.try_wait(Some(self));
    }
    /// Lets what comes later wait for all that is in another queue.
    pub fn wait_stream(&self, stream: &Stream) {
        if let Ok(e) = stream.try_record_event(None) {
            self.wait_event(&e);
        }
    }
}
/// A stream by its handle ([`try_external_stream`], and [`Stream::from_raw`] for those of other libraries): one like any other.
#[doc(alias = "torch.cuda.ExternalStream")]
pub type ExternalStream = Stream;
/// The stream of the current device that has a handle of the driver's.
pub(crate) fn adopt(handle: i64) -> Result<Stream> {
    of_runtime(|r| {
        let device = r.current_device()?;
        Ok(Stream { device, id: r.adopt_stream(device, handle as u64)? })
    })
}
/// The stream of the current device with this handle of the driver's ([`Stream::cuda_stream`]).
///
/// # Errors
/// There is no device; a stream that another library made: whether a number is a stream's handle cannot be asked, so
/// [`Stream::from_raw`] takes it, where who calls promises it.
pub fn try_external_stream(stream_ptr: i64) -> Result<ExternalStream> {
    ask("ExternalStream", |_| Ok(()))?;
    adopt(stream_ptr)
}
impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<torch.cuda.Stream device=cuda:{} cuda_stream={:#x}>", self.device, self.id)
    }
}

/// A point in the work of a CUDA device.
#[derive(Clone, Debug)]
pub struct Event(Arc<Point>);
#[derive(Debug)]
struct Point {
    timing: bool,
    /// Of several processes: the runtime's number stays.
    shared: bool,
    device: AtomicU64,
    /// The runtime's number of the event; 0 before it was recorded.
    id: AtomicU64,
}
impl Drop for Point {
    fn drop(&mut self) {
        let id = *self.id.get_mut();
        if id != 0 {
            let device = *self.device.get_mut() as i64;
            super::runtime::answer(|r| r.forget_event(device, id));
        }
    }
}
impl Event {
    /// Makes an event without timing. Panics with the text of [`Event::try_new`]'s error.
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Event {
        flambeau_core::api::ergonomic::expect(Event::try_new())
    }
    /// Makes an event without timing.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_new() -> Result<Event> {
        Event::with(false)
    }
    /// Makes an event whose time is taken if `timing`.
    ///
    /// # Errors
    /// There is no device.
    pub fn with(timing: bool) -> Result<Event> {
        ask("Event", |_| Ok(()))?;
        Ok(Event::of(timing, false, 0, 0))
    }
    fn of(timing: bool, shared: bool, device: i64, id: u64) -> Event {
        Event(Arc::new(Point {
            timing,
            shared,
            device: AtomicU64::new(device as u64),
            id: AtomicU64::new(id),
        }))
    }
    /// Makes an event of the current device, without timing, that other processes can have ([`Event::try_ipc_handle`]).
    ///
    /// # Errors
    /// There is no device.
    pub fn interprocess() -> Result<Event> {
        ask("Event", |r| {
            let device = r.current_device()?;
            Ok(Event::of(false, true, device, r.shared_event(device)?))
        })
    }
    /// An event of another process, by what its [`Event::try_ipc_handle`] gave there, on the same device.
    ///
    /// # Errors
    /// There is no such event any more.
    pub fn from_ipc_handle(device: i64, handle: &[u8]) -> Result<Event> {
        let name: &[u8; 64] = handle.try_into().map_err(|_| {
            Error::type_(format!("handle must be a bytes object of 64 bytes, not of {}", handle.len()))
        })?;
        ask("Event", |r| Ok(Event::of(false, true, device, r.open_event(device, name)?)))
    }
    fn point(&self) -> Option<(i64, u64)> {
        let id = self.0.id.load(Ordering::Acquire);
        (id != 0).then(|| (self.0.device.load(Ordering::Acquire) as i64, id))
    }
    /// Whether all work before it is done; yes before it was recorded.
    pub fn query(&self) -> bool {
        self.point().is_none_or(|(d, id)| of_runtime(|r| r.event_query(d, id)).unwrap_or(true))
    }
    /// Puts it behind the work of a stream, the current one if none is given. Panics with the text of [`Event::try_record`]'s
    /// error.
    #[track_caller]
    pub fn record(&self, stream: Option<&Stream>) {
        flambeau_core::api::ergonomic::expect(self.try_record(stream));
    }
    /// Puts it behind the work of a stream, the current one if none is given.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_record(&self, stream: Option<&Stream>) -> Result<()> {
        of_runtime(|r| {
            let (device, id) = stream_of(r, stream)?;
            if let Some((own, event)) = self.point().filter(|_| self.0.shared) {
                ensure!(
                    own == device,
                    Runtime,
                    "Event device {} does not match recording stream's device {}.",
                    own,
                    device
                );
                return r.record_again(device, id, event);
            }
            let new = r.record(device, id)?;
            let before = self.0.device.swap(device as u64, Ordering::AcqRel);
            let old = self.0.id.swap(new, Ordering::AcqRel);
            if old != 0 {
                r.forget_event(before as i64, old);
            }
            Ok(())
        })
    }
    /// Waits until all work before it is done. Panics with the text of [`Event::try_synchronize`]'s error.
    #[track_caller]
    pub fn synchronize(&self) {
        flambeau_core::api::ergonomic::expect(self.try_synchronize());
    }
    /// Waits until all work before it is done.
    ///
    /// # Errors
    /// Of a kernel.
    pub fn try_synchronize(&self) -> Result<()> {
        self.point().map_or(Ok(()), |(d, id)| of_runtime(|r| r.event_synchronize(d, id)))
    }
    /// Lets what comes later in a stream wait for it. Panics with the text of [`Event::try_wait`]'s error.
    #[track_caller]
    pub fn wait(&self, stream: Option<&Stream>) {
        flambeau_core::api::ergonomic::expect(self.try_wait(stream));
    }
    /// Lets what comes later in a stream, the current one if none is given, wait for it.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_wait(&self, stream: Option<&Stream>) -> Result<()> {
        let Some((_, event)) = self.point() else { return Ok(()) };
        of_runtime(|r| {
            let (device, id) = stream_of(r, stream)?;
            r.wait_event(device, id, event)
        })
    }
    /// Milliseconds from this event to another. Panics with the text of [`Event::try_elapsed_time`]'s error.
    #[track_caller]
    pub fn elapsed_time(&self, end_event: &Event) -> f64 {
        flambeau_core::api::ergonomic::expect(self.try_elapsed_time(end_event))
    }
    /// Milliseconds from this event to another.
    ///
    /// # Errors
    /// Events without timing, that were not recorded, or that have not been passed.
    pub fn try_elapsed_time(&self, end_event: &Event) -> Result<f64> {
        ensure!(
            self.0.timing && end_event.0.timing,
            Value,
            "Both events must be created with argument 'enable_timing=True'."
        );
        match (self.point(), end_event.point()) {
            (Some((d, start)), Some((_, end))) => of_runtime(|r| r.elapsed(d, start, end)),
            _ => Err(Error::value("Both events must be recorded before calculating elapsed time.")),
        }
    }
    /// What another process gets at this event by.
    ///
    /// # Errors
    /// An event that was not made for that ([`Event::interprocess`]).
    pub fn try_ipc_handle(&self) -> Result<Vec<u8>> {
        match self.point().filter(|_| self.0.shared) {
            Some((device, id)) => of_runtime(|r| Ok(r.event_name(device, id)?.to_vec())),
            None => Err(Error::runtime("CUDA error: invalid resource handle")),
        }
    }
}
fn stream_of(r: &dyn Runtime, stream: Option<&Stream>) -> Result<(i64, u64)> {
    match stream {
        Some(s) => Ok((s.device, s.id)),
        None => {
            let d = r.current_device()?;
            Ok((d, r.current_stream(d)?))
        }
    }
}

/// Runs a closure with a stream as the current one; without a stream it just runs it.
pub fn stream<R>(stream: Option<&Stream>, f: impl FnOnce() -> R) -> R {
    struct Back(i64, u64);
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = of_runtime(|r| r.set_stream(self.0, self.1));
        }
    }
    let _back = stream.and_then(|s| {
        let before = of_runtime(|r| r.current_stream(s.device)).ok()?;
        set_stream(Some(s));
        Some(Back(s.device, before))
    });
    f()
}
/// Makes a stream the current one; without a stream nothing changes.
pub fn set_stream(stream: Option<&Stream>) {
    if let Some(s) = stream {
        let _ = of_runtime(|r| r.set_stream(s.device, s.id));
    }
}

#[cfg(feature = "by-name")]
pub(crate) use by_name::OnStream;
#[cfg(feature = "by-name")]
pub(crate) use by_name::{EVENT, EXTERNAL_STREAM, STREAM};
#[cfg(feature = "by-name")]
pub(super) mod by_name {
    use super::{Event, Stream, of_runtime};
    use crate::by_name::{Answer, Bound, Row, Shown, given, object, unbound};
    use flambeau_core::dispatch::object::Kwargs;
    use flambeau_core::{Result, Value};

    /// A stream that a call by name is for: an object, or the driver's handle.
    pub(crate) struct OnStream(Value);
    impl flambeau_core::dispatch::value::FromValue for OnStream {
        fn from_value(v: &Value) -> Result<OnStream> {
            Ok(OnStream(v.clone()))
        }
    }
    impl crate::cuda::runtime::Optional for OnStream {
        fn enter(self) -> Result<crate::cuda::runtime::On> {
            let stream = match &self.0 {
                Value::None => return Ok(crate::cuda::runtime::On::default()),
                Value::Int(handle) => super::adopt(*handle)?,
                v => given::<Stream>(v).ok_or_else(|| {
                    flambeau_core::Error::type_(format!(
                        "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing a pointer to a existing stream, not {}",
                        v.type_name()
                    ))
                })?,
            };
            crate::cuda::runtime::On::stream(stream.device, stream.id)
        }
    }
    fn nothing(r: Result<()>) -> Result<Vec<Value>> {
        r.map(|()| vec![Value::None])
    }
    /// Python's bytes: a list of their numbers.
    fn bytes(all: &[u8]) -> Value {
        Value::List(all.iter().map(|b| Value::Int(i64::from(*b))).collect())
    }
    impl Shown for Stream {
        const CLASS: &'static str = "Stream";
        fn attribute(&self, name: &str) -> Option<Value> {
            match name {
                "device" => Some(Value::Device(flambeau_core::Device::Cuda(self.device as u16))),
                "stream_id" => Some(Value::Int(self.stream_id())),
                "cuda_stream" => self.cuda_stream().ok().map(Value::Int),
                "device_index" => Some(Value::Int(self.device)),
                _ => None,
            }
        }
        fn method(&self, name: &str, args: &[Value]) -> Option<Result<Vec<Value>>> {
            Some(match name {
                "query" => Ok(vec![Value::Bool(self.query())]),
                "synchronize" => nothing(self.try_synchronize()),
                "record_event" => {
                    self.try_record_event(args.first().and_then(given)).map(|e| vec![object(e)])
                }
                "wait_event" => {
                    nothing(args.first().and_then(given::<Event>).map_or(Ok(()), |e| e.try_wait(Some(self))))
                }
                "wait_stream" => {
                    if let Some(s) = args.first().and_then(given::<Stream>) {
                        self.wait_stream(&s);
                    }
                    Ok(vec![Value::None])
                }
                _ => return None,
            })
        }
        fn repr(&self) -> String {
            self.to_string()
        }
    }
    impl Shown for Event {
        const CLASS: &'static str = "Event";
        fn attribute(&self, _: &str) -> Option<Value> {
            None
        }
        fn method(&self, name: &str, args: &[Value]) -> Option<Result<Vec<Value>>> {
            let stream = args.first().and_then(given::<Stream>);
            Some(match name {
                "query" => Ok(vec![Value::Bool(self.query())]),
                "synchronize" => nothing(self.try_synchronize()),
                "record" => nothing(self.try_record(stream.as_ref())),
                "wait" => nothing(self.try_wait(stream.as_ref())),
                "elapsed_time" => match args.first().and_then(given::<Event>) {
                    Some(e) => self.try_elapsed_time(&e).map(|t| vec![Value::Float(t)]),
                    None => Err(flambeau_core::Error::type_("elapsed_time() takes an event")),
                },
                "ipc_handle" => self.try_ipc_handle().map(|b| vec![bytes(&b)]),
                _ => return None,
            })
        }
        fn repr(&self) -> String {
            match self.point() {
                Some((_, id)) => format!("<torch.cuda.Event {id:#x}>"),
                None => "<torch.cuda.Event uninitialized>".into(),
            }
        }
    }
    impl Answer for Stream {
        fn answer(self) -> Result<Vec<Value>> {
            Ok(vec![object(self)])
        }
    }
    /// A method called as a plain function.
    macro_rules! methods {
        ($class:ident $($name:literal)*) => { methods!($class as $class: $($name)*) };
        ($class:ident as $documented:ident: $($name:literal)*) => { [$((concat!("torch.cuda.", stringify!($documented)), $name, |a, _| {
            match a.first().and_then(given::<$class>) {
                Some(o) => o.method($name, &a[1..]).unwrap_or_else(|| Err(unbound(stringify!($documented), $name, a))),
                None => Err(unbound(stringify!($documented), $name, a)),
            }
        })),*] };
    }
    const STREAM_METHODS: [Row; 5] =
        methods!(Stream "query" "synchronize" "record_event" "wait_event" "wait_stream");
    const EXTERNAL_METHODS: [Row; 5] =
        methods!(Stream as ExternalStream: "query" "synchronize" "record_event" "wait_event" "wait_stream");
    pub(crate) const EXTERNAL_STREAM: &[Row] = &[
        ("torch.cuda", "ExternalStream", |a, k| {
            let mut b = Bound::new("ExternalStream", &["stream_ptr", "device"], a, k)?;
            let handle: i64 = b.required()?;
            let device = b.optional()?.unwrap_or(crate::Ordinal(-1));
            super::ask("ExternalStream", |_| Ok(()))?;
            let _on = super::super::runtime::on(device)?;
            super::try_external_stream(handle)?.answer()
        }),
        EXTERNAL_METHODS[0],
        EXTERNAL_METHODS[1],
        EXTERNAL_METHODS[2],
        EXTERNAL_METHODS[3],
        EXTERNAL_METHODS[4],
    ];
    const EVENT_METHODS: [Row; 6] =
        methods!(Event "elapsed_time" "ipc_handle" "query" "record" "synchronize" "wait");
    pub(crate) const STREAM: &[Row] = &[
        ("torch.cuda", "Stream", |a, k| {
            let mut b = Bound::new("Stream", &["device", "priority"], a, k)?;
            let _on = super::super::runtime::on(b.optional()?.unwrap_or(crate::Ordinal(-1)));
            let priority = b.optional::<i64>()?.unwrap_or(0);
            let stream = Stream::try_new()?;
            if priority != 0 {
                return Err(flambeau_core::Error::missing("streams with a priority"));
            }
            stream.answer()
        }),
        STREAM_METHODS[0],
        STREAM_METHODS[1],
        STREAM_METHODS[2],
        STREAM_METHODS[3],
        STREAM_METHODS[4],
    ];
    pub(crate) const EVENT: &[Row] = &[
        ("torch.cuda", "Event", |a, k| {
            let mut b =
                Bound::new("Event", &["enable_timing", "blocking", "interprocess", "external"], a, k)?;
            // waits block the thread anyway, so `blocking` is what happens
            let (timing, _blocking): (Option<bool>, Option<bool>) = (b.optional()?, b.optional()?);
            let shared = [b.optional::<bool>()?, b.optional::<bool>()?];
            let timing = timing.unwrap_or(false);
            let event = match shared {
                [_, Some(true)] => {
                    Event::with(timing)?;
                    return Err(flambeau_core::Error::missing("events outside of captured graphs"));
                }
                [Some(true), _] if timing => {
                    Event::with(timing)?;
                    return Err(flambeau_core::Error::runtime("CUDA error: invalid argument"));
                }
                [Some(true), _] => Event::interprocess()?,
                _ => Event::with(timing)?,
            };
            Ok(vec![object(event)])
        }),
        EVENT_METHODS[0],
        EVENT_METHODS[1],
        EVENT_METHODS[2],
        EVENT_METHODS[3],
        EVENT_METHODS[4],
        EVENT_METHODS[5],
        ("torch.cuda.Event", "from_ipc_handle", |a, k| {
            let mut b = Bound::new("from_ipc_handle", &["device", "handle"], a, k)?;
            let device: crate::Ordinal = b.required()?;
            let handle: Vec<i64> = b.required()?;
            let handle: Vec<u8> = handle.into_iter().map(|n| n as u8).collect();
            Event::from_ipc_handle(device.0, &handle).map(|e| vec![object(e)])
        }),
    ];
    pub(crate) fn set(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let mut b = Bound::new("set_stream", &["stream"], a, k)?;
        match b.required::<crate::Anything>()?.0 {
            Value::None => {}
            v => match given::<Stream>(&v) {
                Some(s) => of_runtime(|r| r.set_stream(s.device, s.id))?,
                None => {
                    return Err(flambeau_core::Error::type_(format!(
                        "set_stream(): argument 'stream' must be Stream, not {}",
                        v.type_name()
                    )));
                }
            },
        }
        Ok(vec![Value::None])
    }
    pub(crate) fn context(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        use std::sync::{Mutex, PoisonError};
        static BEFORE: Mutex<Vec<Option<(i64, u64)>>> = Mutex::new(Vec::new());
        let mut b = Bound::new("stream", &["stream"], a, k)?;
        let v = b.required::<crate::Anything>()?.0;
        let s = given::<Stream>(&v);
        if s.is_none() && !matches!(v, Value::None) {
            return Err(flambeau_core::Error::type_(format!(
                "stream(): argument 'stream' must be Stream, not {}",
                v.type_name()
            )));
        }
        let enter = move || {
            let before = match &s {
                Some(s) => Some((s.device, of_runtime(|r| r.current_stream(s.device))?)),
                None => None,
            };
            super::set_stream(s.as_ref());
            BEFORE.lock().unwrap_or_else(PoisonError::into_inner).push(before);
            Ok(())
        };
        let exit = || {
            let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).pop().flatten();
            if let Some((d, id)) = before {
                let _ = of_runtime(|r| r.set_stream(d, id));
            }
        };
        Ok(vec![crate::stream::scope("StreamContext", enter, exit)])
    }
}
