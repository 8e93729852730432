//! The tests of flambeau-library, in one binary: calls by name, and core's operators and classes called so. What changes
//! or counts on the whole process begins with `alone!()`.

mod calls;
mod geometry;
mod ops;
mod python_values;
mod quasirandom;
mod settings;
mod storages;
mod tags;
