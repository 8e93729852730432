//! What translations are written with: values, arguments of calls, and a builder of ONNX graphs.

mod builder;
pub(crate) mod call;
mod promotion;
mod reductions;
mod runtime;
mod sizes;
pub(crate) mod value;

pub use builder::Builder;
pub(crate) use builder::Fault;
pub(crate) use builder::plain_info;
pub use call::Call;
pub(crate) use promotion::result_type;
pub(crate) use reductions::broadcast;
pub use value::{Arg, Dim, Var};
