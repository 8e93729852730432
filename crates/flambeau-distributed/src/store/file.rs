//! A store in a file.

use super::{DEFAULT_STORE_TIMEOUT, Store, decimal};
use crate::sync::{Monitor, Timeout, deadline};
use flambeau_core::{Error, Result, bail};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Counts the handles; without the letter before it that all other keys have.
const USERS: &str = "refcount/";
/// Counts those that have left.
const LEFT: &str = "cleanup/";
/// How long to sleep between two looks at the file.
const PAUSE: Duration = Duration::from_millis(10);

/// A store in a file that all processes see, in PyTorch's layout: processes of both may share one.
///
/// The file is a log: each change is appended under an exclusive lock of the file. It must be empty or absent when a job begins.
///
/// ```
/// use torch::distributed::{FileStore, Store};
///
/// let dir = std::env::temp_dir().join(format!("store-{}", std::process::id()));
/// let store = FileStore::new(&dir, 2)?;
/// let other = FileStore::new(&dir, 2)?;
/// store.set("key", b"value")?;
/// assert_eq!(other.get("key")?, b"value");
/// drop((store, other));
/// assert!(!dir.exists());
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributed.FileStore")]
pub struct FileStore {
    path: PathBuf,
    world_size: i64,
    timeout: Timeout,
    seen: Monitor<Seen>,
}
/// What the file's part up to a place says.
#[derive(Default)]
struct Seen {
    at: u64,
    values: HashMap<Vec<u8>, (u64, Vec<u8>)>,
    born: u64,
}
impl Seen {
    fn get(&self, key: &str) -> Option<&[u8]> {
        self.values.get(key.as_bytes()).map(|v| &v.1[..])
    }
    fn note(&mut self, key: &[u8], value: &[u8]) {
        if let Some(gone) = key.strip_prefix(b"-") {
            self.values.remove(gone);
        } else if let Some(v) = self.values.get_mut(key) {
            v.1 = value.to_vec();
        } else {
            self.born += 1;
            self.values.insert(key.to_vec(), (self.born, value.to_vec()));
        }
    }
    /// Reads what was added since. An entry whose end is missing is left for the next time.
    fn read(&mut self, file: &mut File) -> Result<()> {
        if file.metadata()?.len() <= self.at {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        let mut rest = &new[..];
        while let Some((key, after)) = part(rest) {
            let Some((value, after)) = part(after) else { break };
            self.note(key, value);
            rest = after;
        }
        self.at += (new.len() - rest.len()) as u64;
        Ok(())
    }
}
/// A length and as many bytes, and what follows.
fn part(b: &[u8]) -> Option<(&[u8], &[u8])> {
    let (n, rest) = b.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*n) as usize)
}
fn regular(key: &str) -> String {
    format!("/{key}")
}

impl FileStore {
    /// A handle of the store in a file, which appears if it is not there. With a number of processes (not -1), the last
    /// handle that goes removes the file.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn new(path: impl AsRef<Path>, world_size: i64) -> Result<FileStore> {
        let store = FileStore {
            path: path.as_ref().to_owned(),
            world_size,
            timeout: Timeout::new(DEFAULT_STORE_TIMEOUT),
            seen: Monitor::new(Seen::default()),
        };
        store.sum(USERS, 1)?;
        Ok(store)
    }
    /// Where the file is.
    #[doc(alias = "torch.distributed.FileStore.path")]
    pub fn path(&self) -> &Path {
        &self.path
    }
    fn open(&self) -> Result<File> {
        let open = OpenOptions::new().read(true).append(true).create(true).open(&self.path);
        open.map_err(|e| Error::from(e).at_path(&self.path))
    }
    /// Looks at the file, and writes what the function says.
    fn change<R>(&self, f: impl FnOnce(&mut Seen) -> Result<(R, Vec<(String, Vec<u8>)>)>) -> Result<R> {
        let mut seen = self.seen.lock();
        let mut file = self.open()?;
        file.lock()?;
        let done = (|| {
            seen.read(&mut file)?;
            let (r, entries) = f(&mut seen)?;
            let mut bytes = Vec::new();
            for (k, v) in entries {
                for b in [k.as_bytes(), &v] {
                    let Ok(n) = u32::try_from(b.len()) else {
                        bail!(DistStore, "a key or value of {} bytes is too long for a file store", b.len())
                    };
                    bytes.extend_from_slice(&n.to_le_bytes());
                    bytes.extend_from_slice(b);
                }
            }
            if !bytes.is_empty() {
                file.write_all(&bytes)?;
                seen.read(&mut file)?;
            }
            Ok(r)
        })();
        let _ = file.unlock();
        done
    }
    fn look<R>(&self, f: impl FnOnce(&Seen) -> R) -> Result<R> {
        let mut seen = self.seen.lock();
        let mut file = self.open()?;
        file.lock_shared()?;
        let read = seen.read(&mut file);
        let _ = file.unlock();
        read?;
        Ok(f(&seen))
    }
    fn sum(&self, key: &str, amount: i64) -> Result<i64> {
        self.change(|seen| {
            let Some(old) = seen.get(key).map_or(Some(0), decimal) else { bail!(Value, "stoll") };
            let sum = old.wrapping_add(amount);
            Ok((sum, vec![(key.to_owned(), sum.to_string().into_bytes())]))
        })
    }
    fn all(&self, keys: &[&str]) -> Result<bool> {
        self.look(|seen| keys.iter().all(|k| seen.get(&regular(k)).is_some()))
    }
}
impl Store for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|_| Ok(((), vec![(regular(key), value.to_vec())])))
    }
    fn get(&self, key: &str) -> Result<Vec<u8>> {
        let (timeout, name) = (self.timeout(), regular(key));
        let end = deadline(timeout);
        loop {
            if let Some(v) = self.look(|seen| seen.get(&name).map(<[u8]>::to_vec))? {
                return Ok(v);
            }
            if Instant::now() >= end {
                bail!(Runtime, "Timeout waiting for key: {key} after {} ms", timeout.as_millis());
            }
            std::thread::sleep(PAUSE);
        }
    }
    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.sum(&regular(key), amount)
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        let name = regular(key);
        self.change(|seen| {
            Ok(match seen.get(&name) {
                None if !expected.is_empty() => (expected.to_vec(), Vec::new()),
                Some(v) if v != expected => (v.to_vec(), Vec::new()),
                _ => (desired.to_vec(), vec![(name.clone(), desired.to_vec())]),
            })
        })
    }
    fn delete_key(&self, key: &str) -> Result<bool> {
        // PyTorch's says so of keys that are not there, too
        self.change(|_| Ok((true, vec![(format!("-{}", regular(key)), Vec::new())])))
    }
    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.all(keys)
    }
    fn num_keys(&self) -> Result<i64> {
        self.look(|seen| seen.values.len() as i64)
    }
    fn wait_timeout(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        let end = deadline(timeout);
        while !self.all(keys)? {
            if Instant::now() >= end {
                bail!(Runtime, "Wait timeout");
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
    fn timeout(&self) -> Duration {
        self.timeout.get()
    }
    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }
    fn try_clone(&self) -> Result<Arc<dyn Store>> {
        let other = FileStore::new(&self.path, self.world_size)?;
        other.timeout.set(self.timeout.get());
        Ok(Arc::new(other))
    }
    fn list_keys(&self) -> Result<Vec<String>> {
        self.look(|seen| {
            let mut all: Vec<_> = seen.values.iter().map(|(k, v)| (v.0, k)).collect();
            all.sort_unstable_by_key(|(born, _)| std::cmp::Reverse(*born));
            // as PyTorch's: without the first letter, whether it is the one before all keys or not
            all.into_iter()
                .map(|(_, k)| String::from_utf8_lossy(k.get(1..).unwrap_or(&[])).into_owned())
                .collect()
        })
    }
    fn barrier(&self, key: &str, world_size: i64, timeout: Duration) -> Result<()> {
        let last = format!("{key}/last_member");
        if self.add(&format!("{key}/num_members"), 1)? >= world_size {
            self.set(&last, b"1")?;
        }
        self.wait_timeout(&[&last], timeout)
    }
}
impl Drop for FileStore {
    fn drop(&mut self) {
        if !self.path.exists() {
            return;
        }
        if let (Ok(left), Ok(users)) = (self.sum(LEFT, 1), self.sum(USERS, -1))
            && self.world_size >= 0
            && left >= self.world_size
            && users == 0
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
