//! Where a rank listens, in gloo's layout, and who of two connects.

use flambeau_core::{Result, bail, ensure};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// C's `sockaddr_storage`.
const STORAGE: usize = 128;
/// An address and what follows it: the number that stands for "none".
const ADDRESS: u64 = STORAGE as u64 + 8;

/// What a rank puts into the store: its host's name, its address, and the number by which each peer's connection is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) address: SocketAddr,
    /// empty where connections are made on first use: peers send their ranks then
    pub(crate) numbers: Vec<i64>,
}
impl Place {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = (self.host.len() as u64).to_le_bytes().to_vec();
        b.extend_from_slice(self.host.as_bytes());
        b.extend_from_slice(&ADDRESS.to_le_bytes());
        let mut a = [0; STORAGE];
        a[2..4].copy_from_slice(&self.address.port().to_be_bytes());
        match self.address.ip() {
            IpAddr::V4(ip) => {
                a[0] = 2;
                a[4..8].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                a[0] = 10;
                a[8..24].copy_from_slice(&ip.octets());
            }
        }
        b.extend_from_slice(&a);
        b.extend_from_slice(&(-1i64).to_le_bytes());
        self.numbers.iter().for_each(|n| b.extend_from_slice(&n.to_le_bytes()));
        b
    }
    pub(crate) fn decode(b: &[u8]) -> Result<Place> {
        let take = |b: &mut &[u8], n: u64| -> Option<Vec<u8>> {
            let (first, rest) = b.split_at_checked(usize::try_from(n).ok()?)?;
            *b = rest;
            Some(first.to_vec())
        };
        let word = |b: &mut &[u8]| -> Option<u64> {
            let (first, rest) = b.split_first_chunk::<8>()?;
            *b = rest;
            Some(u64::from_le_bytes(*first))
        };
        let mut rest = b;
        let parsed = (|| {
            let n = word(&mut rest)?;
            let host = String::from_utf8_lossy(&take(&mut rest, n)?).into_owned();
            let n = word(&mut rest)?;
            let a = take(&mut rest, n)?;
            if a.len() < STORAGE {
                return None;
            }
            let port = u16::from_be_bytes([a[2], a[3]]);
            let ip: IpAddr = match u16::from_le_bytes([a[0], a[1]]) {
                2 => Ipv4Addr::from(<[u8; 4]>::try_from(&a[4..8]).ok()?).into(),
                10 => Ipv6Addr::from(<[u8; 16]>::try_from(&a[8..24]).ok()?).into(),
                _ => return None,
            };
            let numbers = rest.as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c)).collect();
            Some(Place { host, address: SocketAddr::new(ip, port), numbers })
        })();
        let Some(place) = parsed else { bail!(DistBackend, "a rank's address in the store cannot be read") };
        Ok(place)
    }
    /// The number that a rank sends to this one to be known.
    pub(crate) fn number_for(&self, rank: usize) -> Result<i64> {
        if self.numbers.is_empty() {
            return Ok(rank as i64);
        }
        let n = self.numbers.get(rank).copied();
        ensure!(n.is_some(), DistBackend, "a rank's address in the store lacks a number for rank {rank}");
        Ok(n.unwrap_or(-1))
    }
    /// Whether `self` is the side that connects. Ports count as a little-endian machine reads their big-endian bytes.
    pub(crate) fn connects_to(&self, o: &Place, me: usize, peer: usize) -> bool {
        fn key(a: &SocketAddr, number: i64) -> (u8, Vec<u8>, u16, i64) {
            let port = u16::from_le_bytes(a.port().to_be_bytes());
            match a.ip() {
                IpAddr::V4(ip) => (2, ip.octets().to_vec(), port, number),
                IpAddr::V6(ip) => (10, ip.octets().to_vec(), port, number),
            }
        }
        key(&self.address, peer as i64) > key(&o.address, me as i64)
    }
}

/// The address under which others reach this process: that of the named interface, else the host name's, else the loopback.
pub(crate) fn own_ip(interface: Option<&str>) -> Result<IpAddr> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if let Some(name) = interface.and_then(|n| n.split(',').next()).filter(|n| !n.is_empty()) {
        return if name == "lo" { Ok(loopback) } else { of_interface(name) };
    }
    let found = host_name();
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(found.as_str(), 0)).ok();
    Ok(found.into_iter().flatten().map(|a| a.ip()).find(can_bind).unwrap_or(loopback))
}
fn can_bind(ip: &IpAddr) -> bool {
    std::net::TcpListener::bind((*ip, 0)).is_ok()
}
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|s| s.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .unwrap_or_else(|_| "localhost".to_owned())
}
/// The first address whose network the interface routes, from the kernel's tables: the standard library cannot ask for it.
fn of_interface(name: &str) -> Result<IpAddr> {
    let unknown = || format!("Unable to find address for: {name}");
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let mut networks = Vec::new();
    for line in routes.lines().skip(1) {
        let f: Vec<&str> = line.split_whitespace().collect();
        if let [iface, destination, _, _, _, _, _, mask, ..] = f[..]
            && iface == name
            && let (Ok(d), Ok(m)) = (u32::from_str_radix(destination, 16), u32::from_str_radix(mask, 16))
        {
            networks.push((d, m));
        }
    }
    // addresses of this host stand there with the scope "host LOCAL"
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut last: Option<Ipv4Addr> = None;
    let mut mine: Vec<Ipv4Addr> = Vec::new();
    for line in table.lines() {
        let line = line.trim();
        if let Some(a) = line.strip_prefix("|-- ") {
            last = a.parse().ok();
        } else if line.contains("/32 host LOCAL") {
            mine.extend(last);
        }
    }
    let inside = |ip: &Ipv4Addr| {
        let ip = u32::from_le_bytes(ip.octets());
        networks.iter().any(|(d, m)| *m != 0 && ip & m == *d)
    };
    match mine.into_iter().find(inside) {
        Some(ip) => Ok(ip.into()),
        None => bail!(Runtime, "{}", unknown()),
    }
}
