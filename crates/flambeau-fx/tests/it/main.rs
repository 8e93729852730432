//! Graphs: building, printing, running, changing.

mod building;
mod capture;
mod passes;
mod symbols;
