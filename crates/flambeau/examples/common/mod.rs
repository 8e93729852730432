//! What the programs of the gallery share: flags, a progress bar, the file of losses, data and pictures.
#![allow(dead_code)] // each program takes what it needs

pub mod canvas;
pub mod data;

use indicatif::{ProgressBar, ProgressStyle};
use std::str::FromStr;
use torch::prelude::*;

/// What a program gives: errors of any kind end it with their text.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The command line: flags, each with its value. All programs of the gallery take `--out` (the picture), `--losses` (a file for the
/// losses, which PyTorch opens) and `--dtype` (`float32` or `float64`).
pub struct Flags(Vec<(String, String)>);
impl Flags {
    /// The command line, where the flags of `own` and those of all programs of the gallery may stand.
    pub fn read(own: &[&str]) -> Outcome<Flags> {
        let flags = Flags::only(&[own, &["--out", "--losses", "--dtype"]].concat())?;
        match flags.text("--dtype", "float32") {
            "float32" => torch::set_default_dtype(f32),
            "float64" => torch::set_default_dtype(f64),
            other => return Err(format!("--dtype {other}: float32 or float64").into()),
        }
        Ok(flags)
    }
    /// The command line, where only the flags `known` may stand.
    pub fn only(known: &[&str]) -> Outcome<Flags> {
        let mut args = std::env::args().skip(1);
        let mut all = Vec::new();
        while let Some(name) = args.next() {
            match args.next() {
                Some(value) if known.contains(&name.as_str()) => all.push((name, value)),
                _ => {
                    return Err(format!("{name}: not one of {}, each with its value", known.join(" ")).into());
                }
            }
        }
        Ok(Flags(all))
    }
    /// The value of a flag, if it was given.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    /// The value of a flag, or else `default`.
    pub fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.find(name).unwrap_or(default)
    }
    /// The number behind a flag, or else `default`.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Outcome<T> {
        match self.find(name) {
            Some(text) => text.parse().map_err(|_| format!("{name} {text}: no such number").into()),
            None => Ok(default),
        }
    }
    /// Writes the losses where `--losses` says.
    pub fn save_losses(&self, losses: &[f64]) -> Outcome {
        if let Some(path) = self.find("--losses") {
            torch::save(&torch::tensor_with(losses, f64), path)?;
        }
        Ok(())
    }
}

/// A bar that counts to `length`: `step`, `epoch` or the like.
pub fn progress(length: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let template = format!("{{bar:30}} {unit} {{pos}}/{{len}}  {{msg}}  {{elapsed}}");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or(ProgressStyle::default_bar()));
    bar
}

/// The mean of the last tenth of the values: what is said at the end of a training.
pub fn late(losses: &[f64]) -> f64 {
    let last = &losses[losses.len() - losses.len().div_ceil(10)..];
    last.iter().sum::<f64>() / last.len().max(1) as f64
}
