//! What holds for every row of every operator table, with no code for single operators: memory layout does not matter,
//! all forms of an operator agree, the meta device foretells results, shared storage and threads change nothing, extreme numbers are
//! numbers, and gradients exist in the narrower dtypes.
//!
//! Rows are called with what their schema and the table's `sample` suggest, in every dtype that they take. What does not
//! hold for a row stands in the list of its suite with a reason; an entry that is not needed is an error.

mod batches;
mod calls;
mod extremes;
mod forms;
mod gradients;
mod layouts;
mod loops;
mod meta;
mod storages;
mod threads;
