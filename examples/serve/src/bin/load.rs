//! `cargo run --release -p serve --bin load -- 127.0.0.1:8000 [--clients 8] [--seconds 10]`: asks a service for digits, each client one
//! request after the other over one connection, and says how many were answered, how soon, and how much processor time the asking
//! took.

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Reads one answer; whether its status is 200.
async fn answer(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<bool, Failure> {
    read.clear();
    let mut whole = None;
    loop {
        if stream.read_buf(read).await? == 0 {
            return Err("the service closed the connection".into());
        }
        if whole.is_none()
            && let Some(end) = read.windows(4).position(|w| w == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length:"));
            let length: usize = length.ok_or("an answer without its length")?.trim().parse()?;
            whole = Some(end + 4 + length);
        }
        if whole.is_some_and(|n| read.len() >= n) {
            return Ok(read.starts_with(b"HTTP/1.1 200"));
        }
    }
}

/// Asks until the time is over; how long each answer took.
async fn client(address: String, number: usize, until: Instant) -> Result<Vec<Duration>, Failure> {
    let mut stream = TcpStream::connect(&address).await?;
    stream.set_nodelay(true)?;
    let pixels: Vec<String> = (0..64).map(|i| ((i * 7 + number * 3) % 17).to_string()).collect();
    let body = format!("{{\"pixels\": [{}]}}", pixels.join(","));
    let request = format!(
        "POST /predict HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut times, mut read) = (Vec::new(), Vec::new());
    while Instant::now() < until {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        if !answer(&mut stream, &mut read).await? {
            return Err(String::from_utf8_lossy(&read).into_owned().into());
        }
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Processor time of this process in seconds, where the system tells.
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

// one thread, so that the time above is the whole process's
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let (mut address, mut clients, mut seconds) = (None, 8usize, 10u64);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        match a.as_str() {
            "--clients" => clients = args.next().ok_or("--clients needs a number")?.parse()?,
            "--seconds" => seconds = args.next().ok_or("--seconds needs a number")?.parse()?,
            flag if flag.starts_with("--") => return Err(format!("{flag}: --clients and --seconds are known").into()),
            _ => address = Some(a),
        }
    }
    let address = address.ok_or("usage: load HOST:PORT [--clients N] [--seconds S]")?;
    let start = Instant::now();
    let until = start + Duration::from_secs(seconds);
    let all: Vec<_> = (0..clients).map(|i| tokio::spawn(client(address.clone(), i, until))).collect();
    let mut times = Vec::new();
    for one in all {
        times.extend(one.await??);
    }
    let took = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).map_or(0.0, |t| t.as_secs_f64() * 1e3);
    println!("requests per second: {:.0}", times.len() as f64 / took);
    println!("milliseconds: {:.2} (half), {:.2} (99 of 100)", at(0.5), at(0.99));
    if let Some(own) = processor_time() {
        println!("processor time of the clients: {:.0} % of one", 100.0 * own / took);
    }
    Ok(())
}
