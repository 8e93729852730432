//! What the sections share: bytes in hexadecimal, recorded errors.

use flambeau_core::Error;
use regex::Regex;
use serde_json::Value as J;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes of hexadecimal text.
pub fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |b: &u8| (*b as char).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes().chunks(2).map(|p| p.iter().fold(0, |n, b| n << 4 | digit(b))).collect()
}
/// Hexadecimal text of bytes.
pub fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}
/// The hash in hexadecimal text.
pub fn sha256(bytes: &[u8]) -> String {
    hex_of(&Sha256::digest(bytes))
}

/// Whether an error is the recorded one: its class, and its text with whatever stands for the parts that vary.
///
/// # Errors
/// What differs.
pub fn same_error(got: &Error, want: &J) -> Result<(), String> {
    let (class, text) = (want["type"].as_str().unwrap_or(""), want["message"].as_str().unwrap_or(""));
    let mine = got.kind().class_name();
    // what is not found under a name and what is not found at a place are one kind here
    let same = mine == class || class == "KeyError" && mine == "IndexError";
    if !same {
        return Err(format!("{mine} ({got}) instead of {class} ({text})"));
    }
    let places = Regex::new(r"\[<[^>]*>\] |\[enforce fail at [^\]]*\] |\[rank<R>\]:\[F<TIME> [^\]]*\] ")
        .map_err(|e| e.to_string())?;
    let plain = places.replace_all(text, "");
    let held = if want["normalized"] == J::Bool(true) {
        let varying = Regex::new(r"<(PORT|ADDR|FILE|N|TIME|PATH|FD|R)>").map_err(|e| e.to_string())?;
        let parts: Vec<String> = varying.split(&plain).map(regex::escape).collect();
        let pattern = Regex::new(&format!("(?s){}", parts.join(".*?"))).map_err(|e| e.to_string())?;
        pattern.is_match(got.message())
    } else {
        got.message().contains(&*plain)
    };
    if held { Ok(()) } else { Err(format!("the error says {got:?} instead of {plain:?}")) }
}
