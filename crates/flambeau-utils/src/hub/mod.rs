//! `torch.hub`: files of weights from the net, in a folder that keeps them, and what repositories of models offer ([`list`], [`help`]).
//! Those are sources of Python, which are read here and not run: `hub.load` stays out.
//!
//! The folder is [`set_dir`]'s, else `$TORCH_HOME/hub`, else `$XDG_CACHE_HOME/torch/hub`, else `~/.cache/torch/hub`; weights lie in its
//! `checkpoints`.

mod hubconf;
mod repository;

pub use repository::{RepositoryOptions, help, list};

use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, ensure};
use flambeau_serialization::Tree;
use flambeau_serialization::tensors::{LoadOptions, load_with};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

static DIR: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The folder of what was downloaded.
#[doc(alias = "torch.hub.get_dir")]
#[doc(alias = "torch.hub:cache-layout")]
#[doc(alias = "TORCH_HOME")]
pub fn get_dir() -> PathBuf {
    if let Some(d) = &*DIR.lock().unwrap_or_else(PoisonError::into_inner) {
        return d.clone();
    }
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || set("HOME").or_else(|| set("USERPROFILE")).unwrap_or_default();
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
    let torch = set("TORCH_HOME").unwrap_or_else(|| cache().join("torch"));
    // `~/x` is meant as a shell means it
    let torch = torch.strip_prefix("~").map(|rest| home().join(rest)).unwrap_or(torch);
    torch.join("hub")
}
/// Sets [`get_dir`] for this program.
#[doc(alias = "torch.hub.set_dir")]
pub fn set_dir(folder: impl Into<PathBuf>) {
    *DIR.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.into());
}

/// How a file is fetched.
#[derive(Clone, Debug, Default)]
pub struct DownloadOptions {
    hash_prefix: Option<String>,
    progress: bool,
}
impl DownloadOptions {
    /// Without a check of the content and without a bar.
    pub fn new() -> Self {
        Self::default()
    }
    /// The first digits of the content's SHA-256.
    pub fn hash_prefix(mut self, hex: impl Into<String>) -> Self {
        self.hash_prefix = Some(hex.into());
        self
    }
    /// Shows on standard error how far it is.
    pub fn progress(mut self, on: bool) -> Self {
        self.progress = on;
        self
    }
}

fn net(url: &str, e: &ureq::Error) -> Error {
    match e {
        ureq::Error::StatusCode(n) => Error::runtime(format!("HTTP Error {n}: {url}")),
        e => Error::runtime(format!("<urlopen error {e}>: {url}")),
    }
}
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |e| Error::from(e).at_path(path)
}

/// Fetches a file. It appears complete and checked or not at all; what came before the line broke stays beside it as `.partial`, and
/// the next call goes on from there where the server can.
///
/// # Errors
/// Of the net and the file system; a content with another hash: `invalid hash value (expected "..", got "..")`.
#[doc(alias = "torch.hub.download_url_to_file")]
pub fn download_url_to_file(url: &str, dst: impl AsRef<Path>, options: &DownloadOptions) -> Result<()> {
    let dst = dst.as_ref();
    let mut name = dst.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    let partial = dst.with_file_name(name);
    let have = fs::metadata(&partial).map_or(0, |m| m.len());
    let mut request = ureq::get(url).header("User-Agent", "torch.hub");
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let response = match request.call() {
        // the whole file is there already, or it became shorter
        Err(ureq::Error::StatusCode(416)) if have > 0 => {
            fs::remove_file(&partial).map_err(at(&partial))?;
            ureq::get(url).header("User-Agent", "torch.hub").call().map_err(|e| net(url, &e))?
        }
        r => r.map_err(|e| net(url, &e))?,
    };
    let go_on = response.status().as_u16() == 206;
    let mut hash = Sha256::new();
    if go_on {
        std::io::copy(&mut File::open(&partial).map_err(at(&partial))?, &mut hash).map_err(at(&partial))?;
    }
    let mut out = OpenOptions::new()
        .create(true)
        .write(true)
        .append(go_on)
        .truncate(!go_on)
        .open(&partial)
        .map_err(at(&partial))?;
    let length = response.headers().get("Content-Length").and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    let mut done = if go_on { have } else { 0 };
    let total = length.map(|n| n + done);
    let mut bar = options.progress.then(|| Bar::new(total));
    let mut body = response.into_body().into_reader();
    let mut block = vec![0; 1 << 17];
    loop {
        let n = body.read(&mut block).map_err(|e| Error::runtime(format!("<urlopen error {e}>: {url}")))?;
        if n == 0 {
            break;
        }
        out.write_all(&block[..n]).map_err(at(&partial))?;
        hash.update(&block[..n]);
        done += n as u64;
        if let Some(b) = &mut bar {
            b.at(done);
        }
    }
    out.sync_all().map_err(at(&partial))?;
    drop(out);
    if let Some(b) = &mut bar {
        b.end(done);
    }
    ensure!(
        total.is_none_or(|t| t == done),
        Runtime,
        "retrieval incomplete: got only {done} out of {} bytes",
        total.unwrap_or(0)
    );
    if let Some(prefix) = &options.hash_prefix {
        let digest: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        if !digest.starts_with(&prefix.to_lowercase()) {
            fs::remove_file(&partial).map_err(at(&partial))?;
            return Err(Error::runtime(format!(
                "invalid hash value (expected \"{prefix}\", got \"{digest}\")"
            )));
        }
    }
    fs::rename(&partial, dst).map_err(at(dst))
}

/// A line on standard error.
struct Bar {
    total: Option<u64>,
    last: Instant,
}
impl Bar {
    fn new(total: Option<u64>) -> Bar {
        Bar { total, last: Instant::now() }
    }
    fn at(&mut self, done: u64) {
        if self.last.elapsed() >= Duration::from_millis(200) {
            self.last = Instant::now();
            self.show(done);
        }
    }
    fn show(&self, done: u64) {
        let mb = done as f64 / f64::from(1 << 20);
        match self.total {
            Some(t) if t > 0 => {
                let part = (done * 100 / t).min(100) as usize;
                eprint!(
                    "\r{part:3}%|{:<25}| {mb:.1}M/{:.1}M",
                    "#".repeat(part / 4),
                    t as f64 / f64::from(1 << 20)
                );
            }
            _ => eprint!("\r{mb:.1}M"),
        }
    }
    fn end(&mut self, done: u64) {
        self.show(done);
        eprintln!();
    }
}

/// How [`load_state_dict_from_url`] keeps and checks the file.
#[derive(Clone, Debug)]
pub struct StateDictOptions {
    model_dir: Option<PathBuf>,
    progress: bool,
    check_hash: bool,
    file_name: Option<String>,
}
impl Default for StateDictOptions {
    fn default() -> Self {
        StateDictOptions { model_dir: None, progress: true, check_hash: false, file_name: None }
    }
}
impl StateDictOptions {
    /// The folder `checkpoints` of [`get_dir`], with a bar and without a check.
    pub fn new() -> Self {
        Self::default()
    }
    /// Another folder.
    pub fn model_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.model_dir = Some(folder.into());
        self
    }
    /// Shows on standard error how far it is.
    pub fn progress(mut self, on: bool) -> Self {
        self.progress = on;
        self
    }
    /// Checks the content by the digits in the file's name, `NAME-0123abcd.pth`.
    pub fn check_hash(mut self, on: bool) -> Self {
        self.check_hash = on;
        self
    }
    /// Another name than the address ends with.
    pub fn file_name(mut self, name: impl Into<String>) -> Self {
        self.file_name = Some(name.into());
        self
    }
}
/// The last part of an address, without what follows `?` or `#`.
fn file_of(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}
/// The digits between `-` and `.` in a file's name.
fn digits_of(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('-')?;
    let all = std::iter::once(rest).chain(rest.match_indices('-').map(|(i, _)| &rest[i + 1..]));
    all.filter_map(|r| r.split_once('.')).map(|(d, _)| d).find(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
}
/// The weights at an address: fetched once, kept, and read as [`torch::load`](flambeau_serialization::tensors::load) does.
///
/// # Errors
/// Of [`download_url_to_file`] and of reading.
#[doc(alias = "torch.hub.load_state_dict_from_url")]
#[doc(alias = "torch.utils.model_zoo.load_url")]
pub fn load_state_dict_from_url(
    url: &str,
    options: &StateDictOptions,
    load: LoadOptions<'_>,
) -> Result<Tree<Tensor>> {
    let folder = options.model_dir.clone().unwrap_or_else(|| get_dir().join("checkpoints"));
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let name = options.file_name.as_deref().unwrap_or_else(|| file_of(url));
    ensure!(
        !name.is_empty() && !name.contains(['/', '\\']) && name != "..",
        Value,
        "the address {url} names no file: give a `file_name`"
    );
    let path = folder.join(name);
    if !path.exists() {
        if options.progress {
            eprintln!("Downloading: \"{url}\" to {}", path.display());
        }
        let mut o = DownloadOptions::new().progress(options.progress);
        if let Some(d) = digits_of(name).filter(|_| options.check_hash) {
            o = o.hash_prefix(d);
        }
        download_url_to_file(url, &path, &o)?;
    }
    load_with(path, load)
}
