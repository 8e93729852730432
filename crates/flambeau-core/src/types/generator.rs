//! Random generators (`torch.Generator`) and the default one.

use crate::types::error::{Error, Result};
use crate::types::nested::{Entered, Nested, Outer};
use crate::types::order::{Mutex, MutexGuard};
use flambeau_cpu::random;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A random number generator: mt19937 with PyTorch's streams. A handle; clones share the state.
///
/// ```
/// use torch::Generator;
/// use torch::options::RandnOptions;
/// let generator = Generator::new();
/// generator.manual_seed(3);
/// let drawn = || torch::randn_with([2], RandnOptions::new().generator(&generator)).to_vec::<f32>();
/// let first = drawn();
/// assert_ne!(drawn(), first);
/// generator.manual_seed(3);
/// assert_eq!(drawn(), first);
/// ```
#[derive(Clone)]
pub struct Generator(Arc<State>);

struct State {
    state: Mutex<random::Generator>,
    /// The thread that draws ([`me`]), 0 for none: one that comes back from within is told so, and does not wait for itself.
    drawing: AtomicUsize,
}
impl State {
    fn new(g: random::Generator) -> Arc<State> {
        Arc::new(State { state: Mutex::new(g), drawing: AtomicUsize::new(0) })
    }
}

#[cold]
fn within() -> Error {
    Error::runtime("a generator was asked for numbers from within its own draw")
}
/// A generator's state, for a kernel that draws.
struct Drawing<'a> {
    state: MutexGuard<'a, random::Generator>,
    drawing: &'a AtomicUsize,
}
impl Drop for Drawing<'_> {
    fn drop(&mut self) {
        self.drawing.store(0, Ordering::Relaxed);
    }
}
impl std::ops::Deref for Drawing<'_> {
    type Target = random::Generator;
    fn deref(&self) -> &random::Generator {
        &self.state
    }
}
impl std::ops::DerefMut for Drawing<'_> {
    fn deref_mut(&mut self) -> &mut random::Generator {
        &mut self.state
    }
}

/// A number of this thread that no other living thread has, and not 0.
fn me() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.try_with(|h| std::ptr::from_ref(h).addr()).unwrap_or(1)
}

/// The seed that generators start with.
pub const DEFAULT_SEED: u64 = 67280421310721;

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}
impl Generator {
    /// A generator with the default seed.
    pub fn new() -> Self {
        Generator(State::new(random::Generator::new(DEFAULT_SEED)))
    }
    fn locked(&self) -> Option<Drawing<'_>> {
        let me = me();
        if self.0.drawing.load(Ordering::Relaxed) == me {
            return None;
        }
        let state = self.0.state.lock().unwrap_or_else(|e| e.into_inner());
        self.0.drawing.store(me, Ordering::Relaxed);
        Some(Drawing { state, drawing: &self.0.drawing })
    }
    fn lock(&self) -> Drawing<'_> {
        self.locked().expect("a generator was used from within its own draw")
    }
    /// For a kernel that draws.
    ///
    /// # Errors
    /// This thread draws already.
    pub(crate) fn drawing(&self) -> Result<impl std::ops::DerefMut<Target = random::Generator> + '_> {
        self.locked().ok_or_else(within)
    }
    /// Lets a kernel draw. Others who want numbers of this generator wait meanwhile, so `f` is short and calls no operator.
    ///
    /// # Errors
    /// Called from within itself.
    pub fn draw<R>(&self, f: impl FnOnce(&mut random::Generator) -> R) -> Result<R> {
        let mut g = self.locked().ok_or_else(within)?;
        Ok(f(&mut g))
    }
    /// Puts the state of another generator in the place of this one's.
    pub fn set_state_of(&self, other: &Generator) {
        let state = other.lock().clone();
        *self.lock() = state;
    }
    /// Sets the seed and restarts the stream.
    pub fn manual_seed(&self, seed: u64) -> &Self {
        self.lock().manual_seed(seed);
        self
    }
    /// The seed of the current stream.
    pub fn initial_seed(&self) -> u64 {
        self.lock().initial_seed()
    }
    /// Seeds from the operating system and returns the seed.
    pub fn seed(&self) -> u64 {
        self.lock().seed()
    }
    /// The state as bytes, in PyTorch's layout (`Generator.get_state`).
    pub fn state_bytes(&self) -> Vec<u8> {
        self.lock().get_state()
    }
    /// Restores what [`Generator::state_bytes`] gave.
    pub fn set_state_bytes(&self, state: &[u8]) -> Result<()> {
        self.lock().set_state(state).map_err(Error::runtime)
    }
    /// An independent generator with the same state.
    pub fn clone_state(&self) -> Generator {
        Generator(State::new(self.lock().clone()))
    }
}
impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<torch._C.Generator>")
    }
}
impl PartialEq for Generator {
    fn eq(&self, o: &Self) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }
}

thread_local! {
    static NOW: Cell<Option<&'static Generator>> = const { Cell::new(None) };
    static FOUND: Outer<Option<&'static Generator>> = const { RefCell::new(Vec::new()) };
}
static OWN: Nested<Option<&'static Generator>> = Nested::new(&NOW, &FOUND);
/// Generators of threads that have ended, for the next ones: [`default_generator`] lends them for ever.
static FREE: Mutex<Vec<&'static Generator>> = Mutex::new(Vec::new());

/// Until the guard is dropped, [`default_generator`] gives the calling thread a generator of its own with this seed. The
/// workers of a data loader have one each, as PyTorch's worker processes do.
#[must_use = "the thread's generator goes with its guard"]
pub fn thread_generator(seed: u64) -> ThreadGenerator {
    let free = FREE.lock().unwrap_or_else(|e| e.into_inner()).pop();
    let own = free.unwrap_or_else(|| Box::leak(Box::new(Generator::new())));
    own.manual_seed(seed);
    ThreadGenerator { own, in_force: Some(OWN.enter(Some(own))) }
}
/// See [`thread_generator`].
pub struct ThreadGenerator {
    own: &'static Generator,
    in_force: Option<Entered<Option<&'static Generator>>>,
}
impl Drop for ThreadGenerator {
    fn drop(&mut self) {
        self.in_force = None;
        // somebody who kept a handle must not see the next thread draw from it
        if Arc::strong_count(&self.own.0) == 1 {
            FREE.lock().unwrap_or_else(|e| e.into_inner()).push(self.own);
        }
    }
}

/// The generator that is used where none is given: one for the program, except on threads with [`thread_generator`].
///
/// ```
/// torch::manual_seed(7);
/// assert_eq!(torch::default_generator().initial_seed(), 7);
/// ```
pub fn default_generator() -> &'static Generator {
    if let Some(own) = OWN.get() {
        return own;
    }
    static G: OnceLock<Generator> = OnceLock::new();
    G.get_or_init(Generator::new)
}

/// Seeds the default generator (`torch.manual_seed`).
///
/// ```
/// torch::manual_seed(0);
/// let first = torch::rand([3]);
/// torch::manual_seed(0);
/// assert!(torch::equal(&torch::rand([3]), &first));
/// ```
pub fn manual_seed(seed: u64) -> Generator {
    (SEEDED.get().copied().unwrap_or(|_| ()))(seed);
    default_generator().manual_seed(seed).clone()
}
/// What else [`manual_seed`] starts anew: the generators of devices, which a back end brings.
pub static SEEDED: OnceLock<fn(u64)> = OnceLock::new();

/// The default generator's seed.
///
/// ```
/// torch::manual_seed(5);
/// assert_eq!(torch::initial_seed(), 5);
/// ```
pub fn initial_seed() -> u64 {
    default_generator().initial_seed()
}
/// Seeds the default generator from the operating system.
///
/// ```
/// assert_eq!(torch::seed(), torch::initial_seed());
/// ```
pub fn seed() -> u64 {
    default_generator().seed()
}

/// Runs `f`, and puts the default generator's state back afterwards, however `f` ends.
///
/// ```
/// let inside = torch::random::fork_rng(|| torch::rand([2]));
/// assert!(torch::equal(&torch::rand([2]), &inside));
/// ```
#[doc(alias = "torch.random.fork_rng")]
pub fn fork_rng<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(Vec<u8>);
    impl Drop for Restore {
        fn drop(&mut self) {
            // the generator's own state is always one that it takes
            let _ = default_generator().set_state_bytes(&self.0);
        }
    }
    let _restore = Restore(default_generator().state_bytes());
    f()
}
