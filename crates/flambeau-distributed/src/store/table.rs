//! What a store in memory holds: the in-process one and the server's.

use super::decimal;
use std::collections::{HashMap, VecDeque};

/// Values and queues by key.
#[derive(Default)]
pub(crate) struct Table {
    values: HashMap<Vec<u8>, (u64, Vec<u8>)>,
    queues: HashMap<Vec<u8>, VecDeque<Vec<u8>>>,
    /// how many keys have come so far
    born: u64,
}
impl Table {
    pub(crate) fn set(&mut self, key: &[u8], value: Vec<u8>) {
        match self.values.get_mut(key) {
            Some(v) => v.1 = value,
            None => {
                self.born += 1;
                self.values.insert(key.to_vec(), (self.born, value));
            }
        }
    }
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(|v| &v.1[..])
    }
    /// `None` for a value that is no number.
    pub(crate) fn add(&mut self, key: &[u8], amount: i64) -> Option<i64> {
        let old = self.get(key).map_or(Some(0), decimal)?;
        let sum = old.wrapping_add(amount);
        self.set(key, sum.to_string().into_bytes());
        Some(sum)
    }
    pub(crate) fn compare_set(&mut self, key: &[u8], expected: &[u8], desired: &[u8]) -> Vec<u8> {
        match self.get(key) {
            None if !expected.is_empty() => expected.to_vec(),
            Some(v) if v != expected => v.to_vec(),
            _ => {
                self.set(key, desired.to_vec());
                desired.to_vec()
            }
        }
    }
    pub(crate) fn append(&mut self, key: &[u8], value: &[u8]) {
        match self.values.get_mut(key) {
            Some(v) => v.1.extend_from_slice(value),
            None => self.set(key, value.to_vec()),
        }
    }
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        // both, whatever the first says
        self.values.remove(key).is_some() | self.queues.remove(key).is_some()
    }
    /// A value, or a queue that is not empty.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.values.contains_key(key) || self.queues.contains_key(key)
    }
    pub(crate) fn len(&self) -> i64 {
        self.values.len() as i64
    }
    /// The newest first: the order of the table that PyTorch uses, as long as it is small.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut all: Vec<(u64, &Vec<u8>)> = self.values.iter().map(|(k, v)| (v.0, k)).collect();
        all.sort_unstable_by_key(|(born, _)| std::cmp::Reverse(*born));
        all.into_iter().map(|(_, k)| k.clone()).collect()
    }
    pub(crate) fn push(&mut self, key: &[u8], value: Vec<u8>) {
        self.queues.entry(key.to_vec()).or_default().push_back(value);
    }
    /// The first value and how many there were before.
    pub(crate) fn pop(&mut self, key: &[u8]) -> (i64, Option<Vec<u8>>) {
        let Some(q) = self.queues.get_mut(key) else { return (0, None) };
        let (before, first) = (q.len() as i64, q.pop_front());
        if q.is_empty() {
            self.queues.remove(key);
        }
        (before, first)
    }
    pub(crate) fn queue_len(&self, key: &[u8]) -> i64 {
        self.queues.get(key).map_or(0, |q| q.len() as i64)
    }
}
