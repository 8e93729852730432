//! The one error type.

use std::fmt;

/// What went wrong, coarsely. Python's exception classes map onto these (`RuntimeError` onto several).
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
    /// The operating system.
    Io,
    /// No memory.
    OutOfMemory,
    /// A decomposition failed (`torch.linalg.LinAlgError`).
    Linalg,
    /// PyTorch itself refuses this (`NotImplementedError`, most "not implemented for 'Half'").
    Unsupported,
    /// PyTorch can do this, Flambeau cannot yet.
    Missing,
    /// A name that does not exist (Python's `AttributeError`).
    Attribute,
    /// A check inside the library (Python's `AssertionError`).
    Assertion,
    /// Any other `RuntimeError`.
    Runtime,
}

impl ErrorKind {
    /// The Python exception that PyTorch raises in such a case.
    pub fn class_name(self) -> &'static str {
        match self {
            ErrorKind::Index => "IndexError",
            ErrorKind::Value => "ValueError",
            ErrorKind::Type => "TypeError",
            ErrorKind::Io => "OSError",
            ErrorKind::OutOfMemory => "OutOfMemoryError",
            ErrorKind::Linalg => "LinAlgError",
            ErrorKind::Unsupported | ErrorKind::Missing => "NotImplementedError",
            ErrorKind::Attribute => "AttributeError",
            ErrorKind::Assertion => "AssertionError",
            _ => "RuntimeError",
        }
    }
}

/// An error: its kind and PyTorch's wording where PyTorch has one.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
}

/// `Result` with [`Error`].
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
        Error(Box::new(Inner { kind, message: message.into() }))
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
        f.write_str(&self.0.message)
    }
}
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}
impl std::error::Error for Error {}
impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::io(e.to_string())
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
