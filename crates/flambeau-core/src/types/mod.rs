//! What needs no tensor: errors, devices, layouts, numbers, schemas, dispatch keys, random generators.

pub mod autocast;
pub mod call;
pub mod deep;
pub mod device;
pub mod error;
pub mod generator;
pub mod keys;
pub mod layout;
pub mod names;
pub mod nested;
pub mod order;
pub mod scalar;
pub mod schema;
pub(crate) mod thread_keys;
pub mod time;
pub mod type_info;
