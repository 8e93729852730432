//! What the `out=` form of a row refuses: gradients, and memory that is shared.

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
    /// By a name, after all else that the form refuses.
    Late(String),
    /// After all else, as a copy to a leaf does; with a name, one of another shape is refused before, by it.
    Leaf(Option<String>),
    /// As a resize does, since it resizes its output whatever the size.
    Resize,
    /// Not at all.
    Never,
}

impl From<String> for OutGrad {
    fn from(word: String) -> OutGrad {
        match word.split_once(' ').unwrap_or((&word, "")) {
            ("", _) => OutGrad::Never,
            ("leaf", "") => OutGrad::Leaf(None),
            ("leaf", name) => OutGrad::Leaf(Some(name.into())),
            ("resize", _) => OutGrad::Resize,
            ("late", name) => OutGrad::Late(name.into()),
            (name, _) if name.starts_with("aten::") => OutGrad::Outputs(word),
            _ => OutGrad::Named(word),
        }
    }
}

impl OutGrad {
    /// Whether it refuses after all else.
    pub fn is_late(&self) -> bool {
        matches!(self, OutGrad::Late(_) | OutGrad::Leaf(_))
    }
    /// The name by which it refuses.
    pub fn name<'a>(&'a self, row: &'a str) -> &'a str {
        match self {
            OutGrad::Named(name) | OutGrad::Outputs(name) | OutGrad::Late(name) => name,
            OutGrad::Own | OutGrad::Leaf(_) | OutGrad::Resize | OutGrad::Never => row,
        }
    }
}

/// Outputs that share no memory with inputs, or with each other either.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Apart {
    OfInputs(bool),
    OfEachOther(String),
}
