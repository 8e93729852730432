//! The client's side: one connection, one query at a time.

use super::wire::{MAGIC, Query, Request};
use crate::sync::{Monitor, deadline};
use flambeau_core::{Error, ErrorKind, Result, bail};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A connection with a server.
pub(crate) struct Connection(Monitor<Line>);

struct Line {
    stream: TcpStream,
    /// an answer was left half read: nothing that follows would be understood
    lost: bool,
}

/// What the server sends back.
pub(crate) struct Reply<'a>(&'a mut TcpStream);
impl Reply<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut b = [0; N];
        self.0.read_exact(&mut b).map_err(received)?;
        Ok(b)
    }
    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }
    pub(crate) fn number(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        let n = u64::from_le_bytes(self.array()?);
        let mut b = Vec::new();
        // grows as bytes come: the length alone takes no memory
        (&mut *self.0).take(n).read_to_end(&mut b).map_err(received)?;
        if b.len() as u64 != n {
            return Err(received(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(b)
    }
}

fn received(e: io::Error) -> Error {
    let text = match e.kind() {
        io::ErrorKind::UnexpectedEof => {
            "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?".into()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "Socket Timeout".into(),
        _ => plain(&e),
    };
    Error::new(ErrorKind::DistNetwork, text)
}
/// The operating system's text without Rust's number.
pub(crate) fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    match e.raw_os_error() {
        Some(n) => text.strip_suffix(&format!(" (os error {n})")).unwrap_or(&text).to_owned(),
        None => text,
    }
}
fn network(e: io::Error) -> Error {
    Error::new(ErrorKind::DistNetwork, plain(&e))
}
fn timed_out(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Connects until somebody listens there.
pub(crate) fn connect(host: &str, port: u16, end: Instant, timeout: Duration) -> Result<TcpStream> {
    let mut pause = Duration::from_millis(10);
    loop {
        let found = (host, port).to_socket_addrs().map(|a| a.collect::<Vec<_>>()).unwrap_or_default();
        for a in &found {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if let Ok(s) = TcpStream::connect_timeout(a, left) {
                s.set_nodelay(true).map_err(network)?;
                return Ok(s);
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!(
                DistNetwork,
                "The client socket has timed out after {}ms while trying to connect to ({host}, {port}).",
                timeout.as_millis()
            );
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

impl Connection {
    /// Connects and says who it is.
    pub(crate) fn open(host: &str, port: u16, end: Instant, timeout: Duration) -> Result<Connection> {
        let mut pause = Duration::from_millis(20);
        loop {
            let mut stream = connect(host, port, end, timeout)?;
            let nonce = std::process::id();
            let hello =
                [Request::new(Query::Validate).word(MAGIC).0, Request::new(Query::Ping).word(nonce).0]
                    .concat();
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            stream.set_read_timeout(Some(left)).map_err(network)?;
            let answer = stream.write_all(&hello).and_then(|()| {
                let mut b = [0; 4];
                stream.read_exact(&mut b).map(|()| u32::from_le_bytes(b))
            });
            match answer {
                Ok(n) if n == nonce => {
                    stream.set_read_timeout(None).map_err(network)?;
                    return Ok(Connection(Monitor::new(Line { stream, lost: false })));
                }
                Ok(_) => bail!(DistNetwork, "Ping failed, invalid nonce returned"),
                // a server that is just going: try again, as if it had not answered
                Err(e) if Instant::now() + pause >= end => return Err(received(e)),
                Err(_) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }
    /// Sends a query and reads its answer.
    pub(crate) fn ask<R>(&self, r: Request, read: impl FnOnce(&mut Reply<'_>) -> Result<R>) -> Result<R> {
        let mut line = self.0.lock();
        line.send(&r.0)?;
        line.lost = true;
        let got = read(&mut Reply(&mut line.stream));
        line.lost = got.is_err();
        got
    }
    /// Sends a query that is answered by a byte once something has happened.
    pub(crate) fn wait(&self, r: Request, timeout: Duration, keys: &[String]) -> Result<()> {
        let mut line = self.0.lock();
        line.send(&r.0)?;
        let end = deadline(timeout);
        line.lost = true;
        loop {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            line.stream.set_read_timeout(Some(left)).map_err(network)?;
            let mut b = [0];
            match line.stream.read_exact(&mut b) {
                Ok(()) => {
                    line.stream.set_read_timeout(None).map_err(network)?;
                    line.lost = false;
                    if b[0] != 0 {
                        bail!(DistStore, "Stop_waiting response is expected");
                    }
                    return Ok(());
                }
                Err(e) if timed_out(&e) && Instant::now() >= end => break,
                Err(e) if timed_out(&e) => {}
                Err(e) => return Err(received(e)),
            }
        }
        line.stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(network)?;
        line.send_now(&[Query::CancelWait as u8])?;
        let mut b = [0];
        // the keys may have come meanwhile: the answer to the wait stands before the one to its end
        while b[0] == 0 {
            line.stream.read_exact(&mut b).map_err(received)?;
        }
        line.stream.set_read_timeout(None).map_err(network)?;
        line.lost = false;
        bail!(DistStore, "wait timeout after {}ms, keys: {}", timeout.as_millis(), keys.join(", "))
    }
}
impl Line {
    fn send(&mut self, b: &[u8]) -> Result<()> {
        if self.lost {
            bail!(DistNetwork, "Broken pipe");
        }
        self.send_now(b)
    }
    fn send_now(&mut self, b: &[u8]) -> Result<()> {
        self.stream.write_all(b).map_err(network)
    }
}
