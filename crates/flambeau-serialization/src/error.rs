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
    #[error(
        "refused to load global {module}.{name}: it is not on the allow-list of this reader; \
         load in lenient mode to get it as an opaque object"
    )]
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
