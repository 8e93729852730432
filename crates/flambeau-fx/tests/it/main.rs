//! Graphs: building, printing, running, changing.

mod building;
mod capture;
mod nested;
mod passes;
mod symbols;
