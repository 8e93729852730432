//! How the `out=` form of a row refuses tensors that require a gradient.

use serde::Deserialize;

/// The value of the key `out_grad`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub enum OutGrad {
    /// By the row's name.
    #[default]
    Own,
    /// By another name.
    Named(String),
    /// By another name, and it asks its outputs alone.
    Outputs(String),
    /// By a name, after all else that the form refuses; the row's where there is none.
    Late(String),
    /// After all else, as a copy to a leaf does.
    Leaf,
    /// As a resize does, since it resizes its output whatever the size.
    Resize,
    /// Not at all.
    Never,
}

impl From<String> for OutGrad {
    fn from(word: String) -> OutGrad {
        match (word.as_str(), word.strip_prefix("late ")) {
            ("", _) => OutGrad::Never,
            ("leaf", _) => OutGrad::Leaf,
            ("resize", _) => OutGrad::Resize,
            (_, Some(name)) => OutGrad::Late(name.into()),
            (name, None) if name.starts_with("aten::") => OutGrad::Outputs(word),
            _ => OutGrad::Named(word),
        }
    }
}

impl OutGrad {
    /// Whether it refuses after all else.
    pub fn is_late(&self) -> bool {
        matches!(self, OutGrad::Late(_) | OutGrad::Leaf)
    }
    /// The name by which it refuses.
    pub fn name<'a>(&'a self, row: &'a str) -> &'a str {
        match self {
            OutGrad::Named(name) | OutGrad::Outputs(name) | OutGrad::Late(name) => name,
            OutGrad::Own | OutGrad::Leaf | OutGrad::Resize | OutGrad::Never => row,
        }
    }
}
