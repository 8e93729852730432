use flambeau_core::ErrorKind;
use flambeau_distributed::{HashStore, Store, TCPStore, TCPStoreOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn server() -> TCPStore {
    TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true)).unwrap()
}
fn client(s: &TCPStore) -> TCPStore {
    TCPStore::new("127.0.0.1", s.port(), TCPStoreOptions::new().timeout(Duration::from_secs(10))).unwrap()
}

#[test]
fn rubbish_harms_nobody() {
    let s = server();
    let c = client(&s);
    let mut x: u64 = 7;
    let mut random = move || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) as u8
    };
    for i in 0..10_000 {
        let mut stream = TcpStream::connect(("127.0.0.1", s.port())).unwrap();
        if i % 3 > 0 {
            stream.write_all(&[0, 0xce, 0xf7, 0x85, 0x3c]).unwrap();
        }
        let mut rubbish: Vec<u8> = (0..64).map(|_| random()).collect();
        // each query with lengths that nobody has
        rubbish[0] = (i % 20) as u8;
        let _ = stream.write_all(&rubbish);
    }
    c.set("key", b"value").unwrap();
    assert_eq!(s.get("key").unwrap(), b"value");
}

#[test]
fn claimed_lengths_end_the_connection() {
    let s = server();
    for message in [&[1u8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0][..], &[6, 0, 0, 0, 0, 1, 0, 0, 0], &[99]] {
        let mut stream = TcpStream::connect(("127.0.0.1", s.port())).unwrap();
        stream.write_all(&[0, 0xce, 0xf7, 0x85, 0x3c]).unwrap();
        stream.write_all(message).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // closed: an end or a reset, no timeout
        match stream.read(&mut [0; 8]) {
            Ok(n) => assert_eq!(n, 0),
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn waits_end_in_time_and_the_connection_serves_on() {
    let s = server();
    let c = client(&s);
    let e = c.wait_timeout(&["a", "b"], Duration::from_millis(100)).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::DistStore, "wait timeout after 100ms, keys: /a, /b"));
    c.set("a", b"1").unwrap();
    assert_eq!(c.get("a").unwrap(), b"1");
}

#[test]
fn many_clients_add_up() {
    let s = server();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let c = client(&s);
                for _ in 0..50 {
                    c.add("n", 1).unwrap();
                }
                c.barrier("end", 32, Duration::from_secs(30)).unwrap();
                assert_eq!(c.get("n").unwrap(), b"1600");
            });
        }
    });
}

#[test]
fn a_client_that_dies_while_it_waits_leaves_nothing_behind() {
    let s = server();
    let mut stream = TcpStream::connect(("127.0.0.1", s.port())).unwrap();
    stream
        .write_all(&[
            0, 0xce, 0xf7, 0x85, 0x3c, 6, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'/', b'k',
        ])
        .unwrap();
    drop(stream);
    s.set("k", b"v").unwrap();
    assert_eq!(s.get("k").unwrap(), b"v");
}

#[test]
fn workers_are_waited_for() {
    let o = || TCPStoreOptions::new().world_size(2).timeout(Duration::from_millis(300));
    let e = TCPStore::new("127.0.0.1", 0, o().is_master(true)).unwrap_err();
    assert!(e.message().contains("waiting for clients. 1/2 clients joined."), "{e}");
}

#[test]
fn a_port_that_is_taken_is_said() {
    let s = server();
    let e = TCPStore::new("127.0.0.1", s.port(), TCPStoreOptions::new().is_master(true)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DistNetwork);
    assert!(e.message().contains("name: EADDRINUSE, message: address already in use"), "{e}");
    let shared = || TCPStoreOptions::new().is_master(true).multi_tenant(true);
    let first = TCPStore::new("127.0.0.1", 0, shared()).unwrap();
    let second = TCPStore::new("127.0.0.1", first.port(), shared()).unwrap();
    first.set("k", b"v").unwrap();
    assert_eq!(second.get("k").unwrap(), b"v");
}

#[test]
fn an_empty_queue_is_an_error_of_its_own() {
    for s in [&server() as &dyn Store, &HashStore::new()] {
        s.queue_push("q", b"1").unwrap();
        assert_eq!(s.queue_pop("q", false).unwrap(), b"1");
        let e = s.queue_pop("q", false).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::QueueEmpty, "queue is empty"));
    }
}
