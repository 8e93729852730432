//! What `PYTORCH_ALLOC_CONF` says, or its older name `PYTORCH_CUDA_ALLOC_CONF`: `key:value` with commas between.

use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Value, ensure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

const MB: usize = 1 << 20;
/// Sizes from 1 MB on, by doubling: each has a number of divisions of its own.
const INTERVALS: usize = 16;

/// The allocator's settings.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Config {
    text: String,
    /// Blocks of this size and more are never cut.
    pub(crate) max_split: usize,
    /// A block that is never cut may be larger by this than what is asked for.
    pub(crate) max_rounding: usize,
    /// Into how many parts a power of two is divided, to whose multiples sizes are rounded; 0 and 1: into none.
    divisions: [usize; INTERVALS],
    /// From this part of the allowed memory on, blocks are given back that nobody used for long.
    pub(crate) gc: f64,
    /// Whether segments grow.
    pub(crate) expandable: bool,
    /// A segment for several large blocks.
    pub(crate) large_segment: usize,
    /// Pinned blocks above this are not rounded to a power of two.
    pub(crate) pinned_round: usize,
    /// Pinned blocks above this are not kept.
    pub(crate) pinned_cached: usize,
    pub(crate) pinned_register: bool,
    pub(crate) pinned_threads: usize,
}
impl Default for Config {
    fn default() -> Config {
        Config {
            text: String::new(),
            max_split: usize::MAX,
            max_rounding: 20 * MB,
            divisions: [0; INTERVALS],
            gc: 0.0,
            expandable: false,
            large_segment: 20 * MB,
            pinned_round: usize::MAX,
            pinned_cached: usize::MAX,
            pinned_register: false,
            pinned_threads: 1,
        }
    }
}
impl Config {
    /// Of a text.
    ///
    /// # Errors
    /// PyTorch's, with its texts.
    pub(crate) fn parse(text: &str) -> Result<Config> {
        let all = tokens(text);
        let mut t = Tokens { all: &all, at: 0 };
        let mut out = Config { text: text.into(), ..Config::default() };
        while t.at < all.len() {
            out.option(&mut t)?;
            t.at += 1;
            if t.at < all.len() {
                t.expect(",")?;
                t.at += 1;
            }
        }
        Ok(out)
    }
    /// The settings under PyTorch's names.
    pub(crate) fn shown(&self) -> Value {
        let limit = |n: usize| Value::Int(if n == usize::MAX { -1 } else { n as i64 });
        let divisions = self.divisions.iter().enumerate();
        let divisions = divisions.map(|(i, n)| ((1u64 << i).to_string(), Value::Int(*n as i64))).collect();
        Value::Dict(
            [
                ("PYTORCH_CUDA_ALLOC_CONF", self.text.as_str().into()),
                ("max_split_size", limit(self.max_split)),
                ("garbage_collection_threshold", Value::Float(self.gc)),
                ("expandable_segments", Value::Bool(self.expandable)),
                ("pinned_num_register_threads", Value::Int(self.pinned_threads as i64)),
                ("release_lock_on_cudamalloc", Value::Bool(false)),
                ("pinned_use_cuda_host_register", Value::Bool(self.pinned_register)),
                ("graph_capture_record_stream_reuse", Value::Bool(false)),
                ("max_round_threshold", limit(self.pinned_round)),
                ("max_cached_size", limit(self.pinned_cached)),
                ("roundup_power2_divisions", Value::Dict(divisions)),
            ]
            .map(|(k, v)| (k.to_string(), v))
            .into(),
        )
    }
    /// One option; afterwards the place is that of its last word.
    fn option(&mut self, t: &mut Tokens<'_>) -> Result<()> {
        let key = t.all[t.at].as_str();
        let megabytes = |t: &mut Tokens<'_>| Ok::<_, Error>(t.value()?.number()?.min(usize::MAX / MB) * MB);
        match key {
            "max_split_size_mb" | "max_non_split_rounding_mb" => {
                let n = megabytes(t)?;
                ensure!(n >= 20 * MB, Value, "CachingAllocator option {} too small, must be >= 20", key);
                if key == "max_split_size_mb" { self.max_split = n } else { self.max_rounding = n }
            }
            "large_segment_size_mb" => {
                self.large_segment = megabytes(t)?;
                ensure!(
                    self.large_segment > 10 * MB,
                    Value,
                    "CachingAllocator option large_segment_size_mb must be > 10 MB"
                );
            }
            "garbage_collection_threshold" => {
                let v: f64 = t.value()?.word()?.parse().map_err(|_| Error::value("stod"))?;
                ensure!(
                    v > 0.0 && v < 1.0,
                    Value,
                    "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"
                );
                self.gc = v;
            }
            "roundup_power2_divisions" => self.divisions(t.value()?)?,
            "expandable_segments" => self.expandable = t.value()?.truth()?,
            "pinned_use_background_threads" => {
                if t.value()?.truth()? {
                    return Err(Error::missing(format!("{key}:True")));
                }
            }
            "pinned_max_round_threshold_mb" => self.pinned_round = megabytes(t)?,
            "pinned_max_cached_size_mb" => self.pinned_cached = megabytes(t)?,
            "pinned_use_cuda_host_register" => self.pinned_register = t.value()?.truth()?,
            "pinned_num_register_threads" => {
                let n = t.value()?.number()?;
                ensure!(
                    n.is_power_of_two(),
                    Value,
                    "Number of register threads has to be power of 2, got {}",
                    n
                );
                ensure!(
                    n <= 128,
                    Value,
                    "Number of register threads should be less than or equal to 128, got {}",
                    n
                );
                self.pinned_threads = n;
            }
            "pinned_reserve_segment_size_mb" => {
                ensure!(megabytes(t)? > 0, Value, "Pinned reserve segment size has to be greater than 0");
                return Err(Error::missing(key));
            }
            "backend" => match t.value()?.word()? {
                "native" => {}
                "cudaMallocAsync" => {
                    return Err(Error::missing("backend:cudaMallocAsync: the allocator here is `native`"));
                }
                _ => {
                    return Err(Error::value(
                        "Unknown allocator backend, options are native and cudaMallocAsync",
                    ));
                }
            },
            // both say how PyTorch's allocator takes its locks: here none is held while the driver works for another device
            "release_lock_on_cudamalloc" | "graph_capture_record_stream_reuse" => {
                if t.value()?.truth()? {
                    return Err(Error::missing(format!("{key}:True")));
                }
            }
            _ => {
                return Err(Error::value(format!(
                    "Unrecognized key '{key}' in Accelerator allocator config."
                )));
            }
        }
        Ok(())
    }
    fn divisions(&mut self, t: &mut Tokens<'_>) -> Result<()> {
        if t.word()? != "[" {
            let n = t.number()?;
            ensure!(n.is_power_of_two(), Value, "For roundups, the divisions has to be power of 2 ");
            self.divisions = [n; INTERVALS];
            return Ok(());
        }
        let (mut first, mut last) = (true, 0);
        loop {
            t.at += 1;
            let from = t.word()?;
            if from == "]" {
                return Ok(());
            }
            let n = t.value()?.number()?;
            ensure!(
                n == 0 || n.is_power_of_two(),
                Value,
                "For roundups, the divisions has to be power of 2 or 0 to disable roundup "
            );
            if from == ">" {
                self.divisions[last..].fill(n);
            } else {
                let size = number(from)?;
                ensure!(size.is_power_of_two(), Value, "For roundups, the intervals have to be power of 2 ");
                let i = (size.ilog2() as usize).min(INTERVALS - 1);
                if std::mem::take(&mut first) {
                    self.divisions[..i].fill(n);
                }
                self.divisions[i] = n;
                last = i;
            }
            t.at += 1;
            if t.word()? == "]" {
                return Ok(());
            }
            t.expect(",")?;
        }
    }
    /// The size of a block for `n` bytes; `None` where there is no such number.
    pub(crate) fn rounded(&self, n: usize) -> Option<usize> {
        const STEP: usize = super::STEP;
        if n < STEP {
            return Some(STEP);
        }
        let interval = (n.ilog2() as usize).saturating_sub(20).min(INTERVALS - 1);
        let divisions = self.divisions[interval];
        if divisions <= 1 || n <= STEP.saturating_mul(divisions) {
            return n.checked_next_multiple_of(STEP);
        }
        let floor = 1usize << n.ilog2();
        match floor >> divisions.ilog2() {
            0 => floor.checked_mul(2),
            step => n.checked_next_multiple_of(step),
        }
    }
}

struct Tokens<'a> {
    all: &'a [String],
    at: usize,
}
impl<'a> Tokens<'a> {
    fn word(&self) -> Result<&'a str> {
        let word = self.all.get(self.at);
        word.map(String::as_str).ok_or_else(|| Error::runtime("Index out of bounds in ConfigTokenizer"))
    }
    fn expect(&self, what: &str) -> Result<()> {
        let word = self.word()?;
        ensure!(
            word == what,
            Value,
            "Expected '{}' at index {} in ConfigTokenizer but got '{}'",
            what,
            self.at,
            word
        );
        Ok(())
    }
    /// Goes on to the word behind the next colon.
    fn value(&mut self) -> Result<&mut Self> {
        self.at += 1;
        self.expect(":")?;
        self.at += 1;
        Ok(self)
    }
    fn number(&self) -> Result<usize> {
        number(self.word()?)
    }
    fn truth(&self) -> Result<bool> {
        match self.word()? {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(Error::value(format!(
                "Expected 'True' or 'False' at index {} in ConfigTokenizer but got '{other}'",
                self.at
            ))),
        }
    }
}
/// As C++'s `stoull`: what follows the digits does not count, and a sign wraps.
fn number(word: &str) -> Result<usize> {
    let (minus, digits) = word.strip_prefix('-').map_or((false, word), |d| (true, d));
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let n: usize = digits[..end].parse().map_err(|_| Error::value("stoull"))?;
    Ok(if minus { n.wrapping_neg() } else { n })
}
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        match c {
            ',' | ':' | '[' | ']' => {
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                out.push(c.into());
            }
            ' ' => {}
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

type Held = Mutex<std::result::Result<Arc<Config>, Error>>;
fn held() -> &'static Held {
    static HELD: OnceLock<Held> = OnceLock::new();
    HELD.get_or_init(|| {
        let of = |name| std::env::var(name).ok();
        let text = of("PYTORCH_ALLOC_CONF").or_else(|| of("PYTORCH_CUDA_ALLOC_CONF"));
        Mutex::new(Config::parse(&text.unwrap_or_default()).map(Arc::new))
    })
}
/// The settings in force.
///
/// # Errors
/// The environment's text is not one.
pub(crate) fn current() -> Result<Arc<Config>> {
    held().lock().unwrap_or_else(PoisonError::into_inner).clone()
}
/// Puts other settings in force, for what is allocated from here on.
///
/// # Errors
/// As [`Config::parse`]; the settings stay as they are.
pub(crate) fn set(text: &str) -> Result<()> {
    let new = Config::parse(text)?;
    *held().lock().unwrap_or_else(PoisonError::into_inner) = Ok(Arc::new(new));
    CHANGES.fetch_add(1, Ordering::Release);
    Ok(())
}
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// The settings as somebody saw them last, who asks at every allocation: nothing is locked while they stay as they are.
#[derive(Default)]
pub(crate) struct Seen {
    changes: u64,
    config: Option<Arc<Config>>,
}
impl Seen {
    /// The settings in force.
    ///
    /// # Errors
    /// As [`current`].
    pub(crate) fn now(&mut self) -> Result<Arc<Config>> {
        let changes = CHANGES.load(Ordering::Acquire);
        if let Some(c) = self.config.as_ref().filter(|_| self.changes == changes) {
            return Ok(c.clone());
        }
        let config = current()?;
        (self.changes, self.config) = (changes, Some(config.clone()));
        Ok(config)
    }
}
