//! Limits of time for pieces of a worker's program: who passes one is ended (`torch.distributed.elastic.timer`).

use super::failures::seconds;
use crate::sync::Monitor;
use flambeau_core::{Error, Result, bail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// A piece of a worker's program, and when its time is over; a negative time says that it has ended.
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "torch.distributed.elastic.timer.TimerRequest")]
pub struct TimerRequest {
    /// The worker.
    pub worker_id: i64,
    /// The piece.
    pub scope_id: String,
    /// When its time is over, in seconds since 1970.
    pub expiration_time: f64,
}
/// Tells a server when pieces begin and end.
#[doc(alias = "torch.distributed.elastic.timer.TimerClient")]
pub trait TimerClient: Send + Sync {
    /// A piece begins.
    ///
    /// # Errors
    /// The server cannot be reached.
    #[doc(alias = "torch.distributed.elastic.timer.TimerClient.acquire")]
    fn acquire(&self, scope_id: &str, expiration_time: f64) -> Result<()>;
    /// A piece has ended.
    ///
    /// # Errors
    /// The server cannot be reached.
    #[doc(alias = "torch.distributed.elastic.timer.TimerClient.release")]
    fn release(&self, scope_id: &str) -> Result<()>;
}

static CLIENT: LazyLock<Monitor<Option<Arc<dyn TimerClient>>>> = LazyLock::new(|| Monitor::new(None));
/// Says who is told of pieces.
#[doc(alias = "torch.distributed.elastic.timer.configure")]
pub fn configure(client: impl TimerClient + 'static) {
    *CLIENT.lock() = Some(Arc::new(client));
}
/// Runs a piece that may take this long: where it takes longer, the worker is ended.
///
/// # Errors
/// Nobody was configured; the server cannot be reached; those of the function.
#[doc(alias = "torch.distributed.elastic.timer.expires")]
#[track_caller]
pub fn expires<R>(after: Duration, scope: Option<&str>, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let client = CLIENT.lock().clone();
    let Some(c) = client else { bail!(Runtime, "Configure timer client before using countdown timers.") };
    let here = std::panic::Location::caller();
    let scope = scope.map_or_else(|| format!("{}#{}", here.file(), here.line()), str::to_owned);
    c.acquire(&scope, now() + after.as_secs_f64())?;
    let r = f();
    c.release(&scope)?;
    r
}
fn now() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(seconds() as f64, |d| d.as_secs_f64())
}

/// Keeps what workers tell, and ends those whose time is over.
#[doc(alias = "torch.distributed.elastic.timer.TimerServer")]
pub trait TimerServer: Send {
    /// Takes what workers have told.
    #[doc(alias = "torch.distributed.elastic.timer.TimerServer.register_timers")]
    fn register_timers(&mut self, requests: &[TimerRequest]);
    /// Forgets all that is known of these workers.
    #[doc(alias = "torch.distributed.elastic.timer.TimerServer.clear_timers")]
    fn clear_timers(&mut self, worker_ids: &[i64]);
    /// What is over at this time, by worker.
    #[doc(alias = "torch.distributed.elastic.timer.TimerServer.get_expired_timers")]
    fn get_expired_timers(&self, deadline: f64) -> BTreeMap<i64, Vec<TimerRequest>>;
    /// Ends a worker; true where it is gone.
    fn reap_worker(&mut self, worker_id: i64) -> bool;
    /// What workers have told since.
    fn received(&mut self) -> Vec<TimerRequest>;
}
/// Looks once: takes what was told, and ends the workers whose time is over. Gives them.
pub fn look(server: &mut dyn TimerServer) -> Vec<i64> {
    let told = server.received();
    server.register_timers(&told);
    let mut gone = Vec::new();
    for id in server.get_expired_timers(now()).into_keys() {
        if server.reap_worker(id) {
            gone.push(id);
        }
    }
    server.clear_timers(&gone);
    gone
}
/// Ends a process at once.
fn end(worker_id: i64) -> bool {
    #[cfg(unix)]
    {
        let pid = i32::try_from(worker_id).ok().and_then(rustix::process::Pid::from_raw);
        let Some(pid) = pid else { return true };
        match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => true,
            Err(_) => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = worker_id;
        false
    }
}
/// What a server keeps.
#[derive(Debug, Default)]
struct Timers(HashMap<(i64, String), TimerRequest>);
impl Timers {
    fn register(&mut self, requests: &[TimerRequest]) {
        for r in requests {
            let key = (r.worker_id, r.scope_id.clone());
            if r.expiration_time < 0.0 {
                self.0.remove(&key);
            } else {
                self.0.insert(key, r.clone());
            }
        }
    }
    fn clear(&mut self, ids: &[i64]) {
        self.0.retain(|k, _| !ids.contains(&k.0));
    }
    fn expired(&self, deadline: f64) -> BTreeMap<i64, Vec<TimerRequest>> {
        let mut all: BTreeMap<i64, Vec<TimerRequest>> = BTreeMap::new();
        for r in self.0.values().filter(|r| r.expiration_time <= deadline) {
            all.entry(r.worker_id).or_default().push(r.clone());
        }
        all.values_mut().for_each(|l| l.sort_by(|a, b| a.scope_id.cmp(&b.scope_id)));
        all
    }
}

/// Where clients and a server of one process meet. Clones are the same queue.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::elastic::timer::{
///     LocalTimerClient, LocalTimerServer, TimerClient, TimerQueue, TimerRequest, TimerServer, configure, expires, look, start,
/// };
///
/// let queue = TimerQueue::default();
/// let (client, mut server) = (LocalTimerClient::new(&queue), LocalTimerServer::new(&queue));
/// client.acquire("load", 1.0)?;
/// let told: Vec<TimerRequest> = server.received();
/// assert_eq!((told[0].scope_id.as_str(), told[0].expiration_time), ("load", 1.0));
/// client.release("load")?;
/// // nobody is late
/// assert!(look(&mut server).is_empty());
/// configure(client);
/// let watchdog = start(server, Duration::from_millis(10))?;
/// assert_eq!(expires(Duration::from_secs(60), None, || Ok(7))?, 7);
/// drop(watchdog);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct TimerQueue(Arc<Monitor<Vec<TimerRequest>>>);
impl std::fmt::Debug for TimerQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TimerQueue({} requests)", self.0.lock().len())
    }
}
/// Tells a server of the same process.
#[derive(Clone)]
#[doc(alias = "torch.distributed.elastic.timer.LocalTimerClient")]
pub struct LocalTimerClient {
    queue: TimerQueue,
    worker_id: i64,
}
impl LocalTimerClient {
    /// For this process.
    pub fn new(queue: &TimerQueue) -> LocalTimerClient {
        LocalTimerClient { queue: queue.clone(), worker_id: std::process::id().into() }
    }
}
impl std::fmt::Debug for LocalTimerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalTimerClient({})", self.worker_id)
    }
}
impl TimerClient for LocalTimerClient {
    fn acquire(&self, scope_id: &str, expiration_time: f64) -> Result<()> {
        let r = TimerRequest { worker_id: self.worker_id, scope_id: scope_id.to_owned(), expiration_time };
        self.queue.0.lock().push(r);
        Ok(())
    }
    fn release(&self, scope_id: &str) -> Result<()> {
        self.acquire(scope_id, -1.0)
    }
}
/// Serves clients of the same process.
#[doc(alias = "torch.distributed.elastic.timer.LocalTimerServer")]
pub struct LocalTimerServer {
    queue: TimerQueue,
    timers: Timers,
}
impl LocalTimerServer {
    /// Of this queue.
    pub fn new(queue: &TimerQueue) -> LocalTimerServer {
        LocalTimerServer { queue: queue.clone(), timers: Timers::default() }
    }
    /// How many pieces are known.
    pub fn len(&self) -> usize {
        self.timers.0.len()
    }
    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.timers.0.is_empty()
    }
}
impl std::fmt::Debug for LocalTimerServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalTimerServer({} timers)", self.len())
    }
}
impl TimerServer for LocalTimerServer {
    fn register_timers(&mut self, requests: &[TimerRequest]) {
        self.timers.register(requests);
    }
    fn clear_timers(&mut self, worker_ids: &[i64]) {
        self.timers.clear(worker_ids);
    }
    fn get_expired_timers(&self, deadline: f64) -> BTreeMap<i64, Vec<TimerRequest>> {
        self.timers.expired(deadline)
    }
    fn reap_worker(&mut self, worker_id: i64) -> bool {
        end(worker_id)
    }
    fn received(&mut self) -> Vec<TimerRequest> {
        std::mem::take(&mut *self.queue.0.lock())
    }
}
/// Tells a server by lines in a named pipe, or a file (`TORCHELASTIC_TIMER_FILE`), as PyTorch's does.
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.elastic.timer.FileTimerClient")]
#[doc(alias = "TORCHELASTIC_TIMER_FILE")]
pub struct FileTimerClient {
    path: PathBuf,
    signal: i32,
}
impl FileTimerClient {
    /// By this file; the worker is ended by SIGKILL.
    pub fn new(path: impl Into<PathBuf>) -> FileTimerClient {
        FileTimerClient { path: path.into(), signal: 9 }
    }
    fn tell(&self, scope_id: &str, expiration_time: f64) -> Result<()> {
        let line = json!({
            "version": 1, "pid": std::process::id(), "scope_id": scope_id, "expiration_time": expiration_time,
            "signal": if expiration_time < 0.0 { 0 } else { self.signal },
        });
        let mut f = std::fs::OpenOptions::new()
            .append(true)
            .open(&self.path)
            .map_err(|e| Error::from(e).at_path(&self.path))?;
        f.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }
}
impl TimerClient for FileTimerClient {
    fn acquire(&self, scope_id: &str, expiration_time: f64) -> Result<()> {
        self.tell(scope_id, expiration_time)
    }
    fn release(&self, scope_id: &str) -> Result<()> {
        self.tell(scope_id, -1.0)
    }
}
/// Serves clients that write lines to a named pipe, which it makes.
#[derive(Debug)]
#[doc(alias = "torch.distributed.elastic.timer.FileTimerServer")]
#[doc(alias = "TORCHELASTIC_ENABLE_FILE_TIMER")]
pub struct FileTimerServer {
    path: PathBuf,
    pipe: std::fs::File,
    /// a line whose end has not come
    rest: Vec<u8>,
    timers: Timers,
}
impl FileTimerServer {
    /// Makes the pipe.
    ///
    /// # Errors
    /// It cannot be made; systems without such pipes.
    pub fn new(path: impl Into<PathBuf>) -> Result<FileTimerServer> {
        let path = path.into();
        let pipe = pipe(&path).map_err(|e| e.at_path(&path))?;
        Ok(FileTimerServer { path, pipe, rest: Vec::new(), timers: Timers::default() })
    }
    /// The pipe.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
impl Drop for FileTimerServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
/// A named pipe that is open for reading, and stays so while nobody writes.
#[cfg(target_os = "linux")]
fn pipe(path: &Path) -> Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let _ = std::fs::remove_file(path);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
        .map_err(|e| Error::from(std::io::Error::from(e)))?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    Ok(std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?)
}
#[cfg(not(target_os = "linux"))]
fn pipe(_: &Path) -> Result<std::fs::File> {
    bail!(Missing, "named pipes on this system")
}
impl TimerServer for FileTimerServer {
    fn register_timers(&mut self, requests: &[TimerRequest]) {
        self.timers.register(requests);
    }
    fn clear_timers(&mut self, worker_ids: &[i64]) {
        self.timers.clear(worker_ids);
    }
    fn get_expired_timers(&self, deadline: f64) -> BTreeMap<i64, Vec<TimerRequest>> {
        self.timers.expired(deadline)
    }
    fn reap_worker(&mut self, worker_id: i64) -> bool {
        end(worker_id)
    }
    fn received(&mut self) -> Vec<TimerRequest> {
        let mut block = [0; 4096];
        while let Ok(n) = self.pipe.read(&mut block)
            && n > 0
        {
            self.rest.extend_from_slice(&block[..n]);
        }
        let mut all = Vec::new();
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(v) = serde_json::from_slice::<Value>(&line)
                && let (Some(id), Some(scope)) = (v["pid"].as_i64(), v["scope_id"].as_str())
            {
                let expiration_time = v["expiration_time"].as_f64().unwrap_or(-1.0);
                all.push(TimerRequest { worker_id: id, scope_id: scope.to_owned(), expiration_time });
            }
        }
        // nobody writes lines of this length
        if self.rest.len() > 1 << 20 {
            self.rest.clear();
        }
        all
    }
}
/// Looks again and again on a thread of its own, until what this gives is dropped.
pub fn start(mut server: impl TimerServer + 'static, max_interval: Duration) -> Result<Watchdog> {
    let stop = Arc::new(AtomicBool::new(false));
    let mine = stop.clone();
    let thread = std::thread::Builder::new().name("timer server".into()).spawn(move || {
        while !mine.load(Ordering::Relaxed) {
            look(&mut server);
            std::thread::sleep(max_interval.min(Duration::from_millis(100)));
        }
    })?;
    Ok(Watchdog { stop, thread: Some(thread) })
}
/// A timer server at work.
#[derive(Debug)]
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}
impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}
