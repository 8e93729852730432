//! The one error type of this crate.

use std::error::Error as StdError;

/// What went wrong while reading or writing a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The input ended inside a value.
    #[error("{what}: the input ends early (at byte {at})")]
    Truncated {
        /// Which part of the file was being read.
        what: &'static str,
        /// Where the input ended.
        at: usize,
    },
    /// The bytes do not follow the format.
    #[error("corrupt or malformed file: {0}")]
    Malformed(String),
    /// The pickle names a function or class outside the allow-list.
    #[error("{}", refused(module, name))]
    Global {
        /// Python module of the global.
        module: String,
        /// Name inside the module.
        name: String,
    },
    /// The file is of another kind than asked for, or the format itself cannot hold the value.
    #[error("{0}")]
    Unsupported(String),
    /// PyTorch can do this and this crate cannot yet.
    #[error("not available yet: {0}")]
    Missing(String),
    /// The value breaks a limit that protects against hostile files.
    #[error("refused: {0}")]
    Limit(String),
    /// The caller's tensor code refused.
    #[error(transparent)]
    Tensor(Box<dyn StdError + Send + Sync>),
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn malformed(text: impl Into<String>) -> Error {
        Error::Malformed(text.into())
    }

    /// Wraps an error of the caller's tensor code, for use inside a
    /// [`TensorSink`](crate::TensorSink) or [`TensorSource`](crate::TensorSource).
    pub fn tensor(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Tensor(error.into())
    }
}

impl From<zip::result::ZipError> for Error {
    fn from(error: zip::result::ZipError) -> Error {
        match error {
            zip::result::ZipError::Io(e) => Error::Io(e),
            other => Error::Malformed(format!("zip archive: {other}")),
        }
    }
}

/// Modules whose names are refused even when someone marks them as safe.
pub(crate) const BLOCKED_MODULES: [&str; 4] = ["sys", "os", "posix", "nt"];

/// What PyTorch says of a global that is not on the list.
fn refused(module: &str, name: &str) -> String {
    if BLOCKED_MODULES.contains(&module) {
        return format!(
            "Trying to load unsupported GLOBAL {module}.{name} whose module {module} is blocked."
        );
    }
    let path = match module {
        "builtins" | "__builtin__" => name.to_owned(),
        _ => format!("{module}.{name}"),
    };
    format!(
        "Unsupported global: GLOBAL {path} was not an allowed global by default. Please use \
         `torch.serialization.add_safe_globals([{path}])` or the \
         `torch.serialization.safe_globals([{path}])` context manager to allowlist this global if you trust this \
         class/function."
    )
}
