//! Graphs: building, printing, running, changing.

mod bound;
mod building;
mod capture;
mod deferred;
mod nested;
mod passes;
mod symbols;
