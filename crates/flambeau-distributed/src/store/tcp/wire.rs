//! Messages of the store's protocol. All numbers are little endian.

/// The first word that a client sends.
pub(crate) const MAGIC: u32 = 0x3C85_F7CE;
/// A key has at most this many bytes.
pub(crate) const MAX_KEY: u64 = 8 << 10;
/// A value has at most this many bytes.
pub(crate) const MAX_VALUE: u64 = 8 << 20;
/// A message has at most this many keys.
pub(crate) const MAX_KEYS: u64 = 131_072;
/// A message has at most this many bytes together.
pub(crate) const MAX_MESSAGE: u64 = 64 << 20;

/// What a message asks for: its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Query {
    Validate = 0,
    Set = 1,
    CompareSet = 2,
    Get = 3,
    Add = 4,
    Check = 5,
    Wait = 6,
    GetNumKeys = 7,
    DeleteKey = 8,
    Append = 9,
    MultiGet = 10,
    MultiSet = 11,
    CancelWait = 12,
    Ping = 13,
    QueuePush = 14,
    QueuePop = 15,
    QueueLen = 16,
    ListKeys = 17,
    Barrier = 18,
}
impl Query {
    const ALL: [Query; 19] = {
        use Query::*;
        [
            Validate, Set, CompareSet, Get, Add, Check, Wait, GetNumKeys, DeleteKey, Append, MultiGet,
            MultiSet, CancelWait, Ping, QueuePush, QueuePop, QueueLen, ListKeys, Barrier,
        ]
    };
    pub(crate) fn of(byte: u8) -> Option<Query> {
        Query::ALL.get(byte as usize).copied()
    }
}

/// A message on its way.
pub(crate) struct Request(pub(crate) Vec<u8>);
impl Request {
    pub(crate) fn new(query: Query) -> Request {
        Request(vec![query as u8])
    }
    pub(crate) fn bytes(mut self, b: &[u8]) -> Request {
        self.0.extend_from_slice(&(b.len() as u64).to_le_bytes());
        self.0.extend_from_slice(b);
        self
    }
    pub(crate) fn number(mut self, n: i64) -> Request {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub(crate) fn word(mut self, n: u32) -> Request {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub(crate) fn count(self, n: usize) -> Request {
        self.number(n as i64)
    }
}
