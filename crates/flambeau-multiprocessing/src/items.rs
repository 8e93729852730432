//! What goes from process to process.

use crate::queue::SimpleQueue;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Tensor, Value};

/// An argument or a message: a value (numbers, texts, tensors, lists, dictionaries) or a queue.
///
/// ```
/// use torch::multiprocessing::Message;
/// let item = Message::from("text");
/// assert_eq!(item.get::<String>()?, "text");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Message {
    /// A value.
    Value(Value),
    /// A queue: the other process gets another handle on the same one.
    Queue(SimpleQueue),
}
impl<T: IntoValue> From<T> for Message {
    fn from(v: T) -> Message {
        Message::Value(v.into_value())
    }
}
impl From<SimpleQueue> for Message {
    fn from(q: SimpleQueue) -> Message {
        Message::Queue(q)
    }
}
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Message::Value(v) => v.fmt(f),
            Message::Queue(_) => f.write_str("SimpleQueue"),
        }
    }
}
impl Message {
    /// The value.
    ///
    /// # Errors
    /// It is a queue.
    pub fn value(&self) -> Result<&Value> {
        match self {
            Message::Value(v) => Ok(v),
            Message::Queue(_) => Err(Error::type_("expected a value, not a queue")),
        }
    }
    /// The value as a type of Rust: `f64`, `bool`, `String`, `Vec<Tensor>`.
    ///
    /// # Errors
    /// It is of another type.
    pub fn get<T: FromValue>(&self) -> Result<T> {
        T::from_value(self.value()?)
    }
    /// A whole number.
    ///
    /// # Errors
    /// It is of another type.
    pub fn int(&self) -> Result<i64> {
        self.get()
    }
    /// A tensor.
    ///
    /// # Errors
    /// It is of another type.
    pub fn tensor(&self) -> Result<Tensor> {
        self.get()
    }
    /// The queue.
    ///
    /// # Errors
    /// It is a value.
    pub fn queue(&self) -> Result<&SimpleQueue> {
        match self {
            Message::Queue(q) => Ok(q),
            Message::Value(v) => Err(Error::type_(format!("expected a queue, not {}", v.type_name()))),
        }
    }
}
