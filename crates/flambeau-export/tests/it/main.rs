//! Exported programs: loading, printing, running, damaged files.

mod archive;
mod damaged;
mod exporting;
mod ports;
mod running;
