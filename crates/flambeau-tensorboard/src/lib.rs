//! Event files that TensorBoard shows (`torch.utils.tensorboard`).
//!
//! ```
//! use torch::utils::tensorboard::SummaryWriter;
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let log_dir = dir.path().join("runs/first");
//! let writer = SummaryWriter::new(log_dir)?;
//! for step in 0..100 {
//!     writer.add_scalar("loss/train", 1.0 / (step + 1) as f64, step)?;
//! }
//! writer.close()?;
//! # Ok::<(), torch::Error>(())
//! ```
//! `tensorboard --logdir runs` shows the curve.
//!
//! [`SummaryWriter::add_figure`] takes pixels or a PNG file where PyTorch's takes a figure of matplotlib. `add_onnx_graph` has
//! no counterpart: it takes an ONNX file, which this library does not read.
//! PyTorch's `walltime` argument is [`SummaryWriter::at`].
#![forbid(unsafe_code)]

mod audio;
mod embedding;
mod events;
mod graph;
mod histogram;
mod hparams;
mod picture;
mod proto;
mod summary;
mod values;
mod video;
mod writer;

pub use embedding::EmbeddingOptions;
pub use histogram::{Bins, HistogramOptions, RawHistogram};
pub use hparams::{HParam, HParamOptions};
pub use picture::{BoxOptions, Figure};
pub use summary::{Chart, MeshOptions, PrCurveOptions, RawPrCurve, ScalarOptions};
pub use values::{IntoStep, ScalarValue};
pub use writer::{SummaryWriter, SummaryWriterOptions};
