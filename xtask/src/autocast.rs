//! A row's key `autocast`, and core's `Autocast` that it becomes.

use serde::Deserialize;

/// The words, and core's `Cast`s.
const WORDS: [(&str, &str); 8] = [
    ("product", "Product"),
    ("none", "None"),
    ("whole", "Whole"),
    ("lower", "Lower"),
    ("fp32", "Fp32"),
    ("opt_dtype", "OptDtype"),
    ("promote", "Promote"),
    ("banned", "Banned"),
];

/// As it stands in the table.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum RawAutocast {
    Everywhere(String),
    ByDevice(ByDevice),
}
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByDevice {
    cpu: Option<String>,
    /// What holds for those below that are not named.
    gpu: Option<String>,
    cuda: Option<String>,
    xpu: Option<String>,
    mps: Option<String>,
    mtia: Option<String>,
    #[serde(default, rename = "for")]
    stands_for: Vec<String>,
}

/// Rules for the CPU, CUDA, XPU, MPS and MTIA, and the operators whose work the row does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Autocast {
    casts: [&'static str; 5],
    stands_for: Vec<String>,
}

fn word(w: &str) -> Result<&'static str, String> {
    let found = WORDS.iter().find(|(name, _)| *name == w);
    let all: Vec<&str> = WORDS.iter().map(|w| w.0).collect();
    found.map(|w| w.1).ok_or_else(|| format!("autocast: unknown word `{w}`; there are {}", all.join(", ")))
}

/// Checks the words.
pub fn read(raw: RawAutocast) -> Result<Autocast, String> {
    let d = match raw {
        RawAutocast::Everywhere(w) => {
            return Ok(Autocast { casts: [word(&w)?; 5], stands_for: Vec::new() });
        }
        RawAutocast::ByDevice(d) => d,
    };
    let one = |own: &Option<String>| word(own.as_ref().or(d.gpu.as_ref()).map_or("none", String::as_str));
    let cpu = word(d.cpu.as_deref().unwrap_or("none"))?;
    let casts = [cpu, one(&d.cuda)?, one(&d.xpu)?, one(&d.mps)?, one(&d.mtia)?];
    if casts == ["None"; 5] {
        return Err("autocast: no rule for any device; leave it out".into());
    }
    Ok(Autocast { casts, stands_for: d.stands_for })
}

/// As text of the generated files.
pub fn text(a: Option<&Autocast>) -> String {
    let Some(a) = a else { return "Autocast::NONE".into() };
    let [cpu, cuda, xpu, mps, mtia] = a.casts;
    if a.stands_for.is_empty() && a.casts == [cpu; 5] {
        return format!("Autocast::all(Cast::{cpu})");
    }
    format!(
        "Autocast {{ cpu: Cast::{cpu}, cuda: Cast::{cuda}, xpu: Cast::{xpu}, mps: Cast::{mps}, mtia: Cast::{mtia}, \
         stands_for: &{:?} }}",
        a.stands_for
    )
}
