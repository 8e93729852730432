//! Graphs: building, printing, running, changing.

mod building;
mod passes;
mod symbols;
