//! Any type with serde's `Serialize` and `Deserialize` as a tree of Python values and back: structs and maps are
//! dicts, sequences lists, tuples tuples, unit enum variants their names.
//!
//! Tensors are fields with `#[serde(with = "tensor")]`, or `tensor::optional`, `tensor::list`, `tensor::map`:
//! ```
//! use torch::Tensor;
//! use torch::serialization::{from_tree, tensor, to_tree};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Checkpoint {
//!     epoch: u32,
//!     name: Option<String>,
//!     #[serde(with = "tensor")]
//!     weight: Tensor,
//! }
//! let c = Checkpoint { epoch: 3, name: None, weight: torch::ones((2, 2)) };
//! let tree = to_tree(&c)?; // {"epoch": 3, "name": None, "weight": tensor(...)}
//! let back: Checkpoint = from_tree(&tree)?;
//! assert_eq!((back.epoch, back.weight.sizes()), (3, &[2, 2][..]));
//! # Ok::<(), torch::Error>(())
//! ```

mod de;
mod ser;
pub mod tensor;

pub use de::from_tree;
pub use ser::to_tree;

use flambeau_core::Error;

/// serde's error, which is only a text.
#[derive(Debug)]
struct Message(String);
impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Message {}
impl serde::ser::Error for Message {
    fn custom<T: std::fmt::Display>(msg: T) -> Self {
        Message(msg.to_string())
    }
}
impl serde::de::Error for Message {
    fn custom<T: std::fmt::Display>(msg: T) -> Self {
        Message(msg.to_string())
    }
}
impl From<Message> for Error {
    fn from(m: Message) -> Error {
        Error::serialization(m.0)
    }
}
