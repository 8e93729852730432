//! The rows, by group.

mod attention;
mod conv;
mod dispatch;
pub mod e2e;
mod elementwise;
mod func;
mod index;
pub mod io;
mod linalg;
mod matmul;
mod quantized;
mod reduce;
mod rng;
mod rnn;

use crate::row::Rows;
use std::path::PathBuf;

/// What rows that start further processes need to know.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Threads of this process.
    pub threads: usize,
    /// This program.
    pub executable: PathBuf,
    /// The program whose stripped size is what an installation takes.
    pub installed: PathBuf,
}

/// Rows that need more than an operator by name, with the documented name that the library lacks.
pub const MISSING: &[(&str, &str)] = &[];

/// All rows that can be measured.
pub fn rows(setting: &Setting) -> Rows {
    let mut r = Rows::default();
    dispatch::rows(&mut r);
    elementwise::rows(&mut r);
    reduce::rows(&mut r);
    index::rows(&mut r);
    matmul::rows(&mut r);
    conv::rows(&mut r);
    attention::rows(&mut r);
    rnn::rows(&mut r);
    linalg::rows(&mut r);
    rng::rows(&mut r);
    func::rows(&mut r);
    quantized::rows(&mut r);
    e2e::rows(&mut r);
    io::rows(&mut r, setting);
    r
}
