//! The one error type.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What went wrong, coarsely. Python's exception classes map onto these (`RuntimeError` onto several).
///
/// ```
/// use torch::ErrorKind;
/// let e = torch::ops::sum(&torch::ones([2, 3]), Some(&[5]), false, None).unwrap_err();
/// assert_eq!(e.kind(), ErrorKind::Index);
/// assert_eq!(e.kind().class_name(), "IndexError");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Sizes, strides or numbers of dimensions do not fit.
    Shape,
    /// An element type does not fit.
    DType,
    /// A device does not fit or is not there.
    Device,
    /// An index or dimension is out of range (Python's `IndexError`).
    Index,
    /// A value is out of its domain (Python's `ValueError`).
    Value,
    /// Arguments of the wrong type or number (Python's `TypeError`).
    Type,
    /// Gradients: what the engine refuses.
    Autograd,
    /// Storage: borrowed, overlapping, too small.
    Storage,
    /// A file's content.
    Serialization,
    /// The operating system, for other reasons than the next three.
    Io,
    /// A file that is not there (Python's `FileNotFoundError`).
    NotFound,
    /// A file that may not be read or written (Python's `PermissionError`).
    Permission,
    /// No room on the disk.
    StorageFull,
    /// No memory.
    OutOfMemory,
    /// A decomposition failed (`torch.linalg.LinAlgError`).
    #[doc(alias = "torch.linalg.LinAlgError")]
    Linalg,
    /// PyTorch itself refuses this (`NotImplementedError`, most "not implemented for 'Half'").
    Unsupported,
    /// PyTorch can do this, Flambeau cannot yet.
    Missing,
    /// A name that does not exist (Python's `AttributeError`).
    Attribute,
    /// A check inside the library (Python's `AssertionError`).
    Assertion,
    /// Processes that work together: what the four kinds below do not name (`torch.distributed.DistError`).
    #[doc(alias = "torch.distributed.DistError")]
    Dist,
    /// A back end of such processes failed (`torch.distributed.DistBackendError`).
    #[doc(alias = "torch.distributed.DistBackendError")]
    DistBackend,
    /// The network between them failed (`torch.distributed.DistNetworkError`).
    #[doc(alias = "torch.distributed.DistNetworkError")]
    DistNetwork,
    /// Their store failed, or did not answer in time (`torch.distributed.DistStoreError`).
    #[doc(alias = "torch.distributed.DistStoreError")]
    DistStore,
    /// A queue of their store is empty (`torch.distributed.QueueEmptyError`).
    #[doc(alias = "torch.distributed.QueueEmptyError")]
    QueueEmpty,
    /// Any other `RuntimeError`: mostly arguments that do not go together.
    Runtime,
    /// An error of the program's own, by [`Error::other`].
    Other,
}

impl ErrorKind {
    /// The Python exception that PyTorch raises in such a case.
    pub fn class_name(self) -> &'static str {
        match self {
            ErrorKind::Index => "IndexError",
            ErrorKind::Value => "ValueError",
            ErrorKind::Type => "TypeError",
            ErrorKind::Io | ErrorKind::StorageFull => "OSError",
            ErrorKind::NotFound => "FileNotFoundError",
            ErrorKind::Permission => "PermissionError",
            ErrorKind::OutOfMemory => "OutOfMemoryError",
            ErrorKind::Linalg => "LinAlgError",
            ErrorKind::Unsupported | ErrorKind::Missing => "NotImplementedError",
            ErrorKind::Attribute => "AttributeError",
            ErrorKind::Assertion => "AssertionError",
            ErrorKind::Dist => "DistError",
            ErrorKind::DistBackend => "DistBackendError",
            ErrorKind::DistNetwork => "DistNetworkError",
            ErrorKind::DistStore => "DistStoreError",
            ErrorKind::QueueEmpty => "QueueEmptyError",
            _ => "RuntimeError",
        }
    }
}

impl ErrorKind {
    /// Whether the arguments of the call are at fault, as far as the kind says: a service answers such errors with status 400,
    /// [`ErrorKind::NotFound`] with 404, [`ErrorKind::OutOfMemory`] and [`ErrorKind::StorageFull`] with 503 or 507, and the
    /// others with 500.
    pub fn is_bad_input(self) -> bool {
        use ErrorKind::{DType, Device, Index, Linalg, Runtime, Shape, Type, Unsupported, Value};
        matches!(self, Shape | DType | Device | Index | Value | Type | Unsupported | Linalg | Runtime)
    }
    /// The kind of an error of the operating system.
    fn of_io(kind: std::io::ErrorKind) -> ErrorKind {
        match kind {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::Permission,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
            std::io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        }
    }
}

/// An error: its kind and PyTorch's wording where PyTorch has one. [`source`](std::error::Error::source) gives the error that
/// it comes from, where that is of another crate or the operating system, and [`Error::path`] the file that it is about.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    path: Option<PathBuf>,
    /// The calls that led here, where they are asked for.
    calls: Option<Arc<str>>,
}

/// The calls that led to an error, where the environment variable `TORCH_SHOW_CPP_STACKTRACES` is 1.
#[doc(alias = "TORCH_SHOW_CPP_STACKTRACES")]
fn calls() -> Option<Arc<str>> {
    static SHOWN: OnceLock<bool> = OnceLock::new();
    let asked = || std::env::var_os("TORCH_SHOW_CPP_STACKTRACES").is_some_and(|v| v == "1");
    SHOWN.get_or_init(asked).then(|| {
        let calls = std::backtrace::Backtrace::force_capture();
        format!("\nException raised from these calls (most recent call first):\n{calls}").into()
    })
}

/// `Result` with [`Error`].
///
/// ```
/// fn mean(x: &[f32]) -> torch::Result<f32> {
///     if x.is_empty() {
///         return Err(torch::Error::value("no numbers"));
///     }
///     Ok(torch::tensor(x.to_vec()).mean().item::<f32>())
/// }
/// assert_eq!(mean(&[1.0, 3.0])?, 2.0);
/// assert_eq!(mean(&[]).unwrap_err().message(), "no numbers");
/// # Ok::<(), torch::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[cold]
        pub fn $name(message: impl Into<String>) -> Error {
            Error::new(ErrorKind::$kind, message)
        }
    )*};
}
impl Error {
    /// An error of any kind.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), source: None, path: None, calls: calls() }))
    }
    /// An error of kind [`ErrorKind::Other`], for a dataset or a file format of one's own: its text, and itself as the source.
    ///
    /// ```
    /// use std::error::Error as _;
    /// let e = torch::Error::other("12a".parse::<i32>().unwrap_err());
    /// assert_eq!(e.to_string(), "invalid digit found in string");
    /// assert!(e.source().is_some());
    /// ```
    #[cold]
    pub fn other(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let source: Box<dyn std::error::Error + Send + Sync> = source.into();
        let source: Arc<dyn std::error::Error + Send + Sync> = Arc::from(source);
        let (kind, message, path) = (ErrorKind::Other, source.to_string(), None);
        Error(Box::new(Inner { kind, message, source: Some(source), path, calls: calls() }))
    }
    /// The file that the error is about, if it is known.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }
    /// Says which file the error is about. An error of the operating system names it in its text, as Python's do.
    #[must_use]
    pub fn at_path(mut self, path: impl AsRef<Path>) -> Error {
        if self.0.path.is_none() {
            let path = path.as_ref();
            if self.io_kind().is_some() {
                self.0.message = format!("{}: '{}'", self.0.message, path.display());
            }
            self.0.path = Some(path.to_owned());
        }
        self
    }
    /// The operating system's kind, if the error comes from there.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        let source = self.0.source.as_deref()?;
        source.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
    }
    constructors! {
        /// See [`ErrorKind::Shape`].
        shape => Shape,
        /// See [`ErrorKind::DType`].
        dtype => DType,
        /// See [`ErrorKind::Device`].
        device => Device,
        /// See [`ErrorKind::Index`].
        index => Index,
        /// See [`ErrorKind::Value`].
        value => Value,
        /// See [`ErrorKind::Type`].
        type_ => Type,
        /// See [`ErrorKind::Autograd`].
        autograd => Autograd,
        /// See [`ErrorKind::Storage`].
        storage => Storage,
        /// See [`ErrorKind::Serialization`].
        serialization => Serialization,
        /// See [`ErrorKind::Io`].
        io => Io,
        /// See [`ErrorKind::OutOfMemory`].
        memory => OutOfMemory,
        /// See [`ErrorKind::Linalg`].
        linalg => Linalg,
        /// See [`ErrorKind::Unsupported`].
        unsupported => Unsupported,
        /// See [`ErrorKind::Missing`].
        missing => Missing,
        /// See [`ErrorKind::Attribute`].
        attribute => Attribute,
        /// See [`ErrorKind::Assertion`].
        assertion => Assertion,
        /// See [`ErrorKind::Runtime`].
        runtime => Runtime,
    }
    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The text.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The same error with more text after its own.
    pub fn context(mut self, text: impl fmt::Display) -> Error {
        self.0.message = format!("{}{text}", self.0.message);
        self
    }
    /// "\"NAME\" not implemented for 'TYPE'": what PyTorch's kernels say of a dtype they lack.
    #[cold]
    pub fn not_implemented_for(label: &str, dtype: crate::DType) -> Error {
        Error::unsupported(format!("\"{label}\" not implemented for '{}'", dtype.scalar_type_name()))
    }
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        f.write_str(self.0.calls.as_deref().unwrap_or_default())
    }
}
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}
impl From<std::io::Error> for Error {
    /// With Python's text: `[Errno 2] No such file or directory`.
    fn from(e: std::io::Error) -> Error {
        let text = e.to_string();
        let message = match e.raw_os_error() {
            Some(n) => {
                let plain = text.strip_suffix(&format!(" (os error {n})")).unwrap_or(&text);
                format!("[Errno {n}] {plain}")
            }
            None => text,
        };
        let kind = ErrorKind::of_io(e.kind());
        Error(Box::new(Inner { kind, message, source: Some(Arc::new(e)), path: None, calls: calls() }))
    }
}

/// Returns an error of the named kind: `bail!(Shape, "size {n} does not fit")`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($fmt:tt)+) => {
        return Err($crate::Error::new($crate::ErrorKind::$kind, format!($($fmt)+)))
    };
}
/// Returns an error of the named kind unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $kind:ident, $($fmt:tt)+) => {
        if !$cond {
            $crate::bail!($kind, $($fmt)+);
        }
    };
}

/// Unwraps a result of the fallible layer, or panics with its text at the caller's line.
#[track_caller]
#[inline]
pub fn expect<T>(r: Result<T>) -> T {
    match r {
        Ok(v) => v,
        Err(e) => fail(e),
    }
}
#[track_caller]
#[cold]
#[inline(never)]
fn fail(e: Error) -> ! {
    panic!("{e}")
}
