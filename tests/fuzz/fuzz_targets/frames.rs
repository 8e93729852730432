//! The store's protocol, both ways: what a stranger says to a server, and what a client hears from one. The first byte says which;
//! with a handshake before it, so that mutations reach the messages.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;
use torch::distributed::{Store, TCPStore, TCPStoreOptions};

const MAGIC: [u8; 5] = [0, 0xce, 0xf7, 0x85, 0x3c];
static SERVER: LazyLock<TCPStore> = LazyLock::new(|| {
    let o = TCPStoreOptions::new().is_master(true).timeout(Duration::from_millis(500));
    TCPStore::new("127.0.0.1", 0, o).expect("a store")
});

fn to_server(bytes: &[u8]) {
    let port = SERVER.port();
    let Ok(mut c) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let _ = c.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = c.write_all(&MAGIC);
    let _ = c.write_all(bytes);
    let _ = c.shutdown(Shutdown::Write);
    let _ = std::io::copy(&mut Read::by_ref(&mut c).take(1 << 20), &mut std::io::sink());
    assert!(
        SERVER.set("here", b"1").is_ok() && SERVER.get("here").is_ok_and(|v| v == b"1"),
        "the store is gone"
    );
}
fn to_client(bytes: &[u8]) {
    let Ok(listener) = TcpListener::bind(("127.0.0.1", 0)) else { return };
    let Ok(port) = listener.local_addr().map(|a| a.port()) else { return };
    let answer = bytes.to_vec();
    let server = std::thread::spawn(move || {
        let Ok((mut c, _)) = listener.accept() else { return };
        let _ = c.set_read_timeout(Some(Duration::from_millis(200)));
        let mut said = [0; 5];
        let _ = c.read_exact(&mut said);
        let mut ping = [0; 5];
        let _ = c.read_exact(&mut ping);
        let _ = c.write_all(&ping[1..]);
        let _ = c.write_all(&answer);
        let _ = c.shutdown(Shutdown::Write);
        let _ = std::io::copy(&mut Read::by_ref(&mut c).take(1 << 16), &mut std::io::sink());
    });
    let o = TCPStoreOptions::new().wait_for_workers(false).timeout(Duration::from_millis(300));
    if let Ok(s) = TCPStore::new("127.0.0.1", port, o) {
        match bytes.len() % 6 {
            0 => drop(s.get("a")),
            1 => drop(s.multi_get(&["a", "b"])),
            2 => drop(s.add("a", 1)),
            3 => drop(s.compare_set("a", b"", b"1")),
            4 => drop(s.num_keys()),
            _ => drop(s.check(&["a"])),
        }
    }
    let _ = server.join();
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    if kind % 2 == 0 { to_server(bytes) } else { to_client(bytes) }
});
