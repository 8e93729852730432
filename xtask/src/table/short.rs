//! Further short forms of a row.

use serde::Deserialize;

/// A further short form.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Short {
    pub name: String,
    #[serde(default)]
    pub args: Vec<String>,
    /// As the row's own.
    #[serde(default)]
    pub advice: String,
}
