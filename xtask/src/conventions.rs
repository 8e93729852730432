//! A row's keys about calls from Python, and the `Convention`s of flambeau-core that they become.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The words of `names`: what operators make of names of dimensions, as core's `NameRule` has them.
pub const NAME_RULES: [&str; 14] = [
    "unsupported",
    "keep",
    "unify",
    "match",
    "remove",
    "squeeze",
    "permute",
    "contract",
    "pairs",
    "join",
    "diagonal",
    "expand",
    "nothing",
    "factory",
];

/// `python_flag`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    name: String,
    position: usize,
    then: String,
    of: Option<String>,
}

/// A word for all documented names, or words by name.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Words {
    All(String),
    ByName(BTreeMap<String, String>),
}

/// `python_operator`.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Operator {
    Name(String),
    Table { name: Names, right: Right },
}
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Names {
    One(String),
    Several(Vec<String>),
}
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    Swapped,
    Same,
    Reciprocal,
    None,
}

/// The keys together.
#[derive(Default)]
pub struct Keys {
    pub flag: Option<Flag>,
    pub arguments: Option<Words>,
    pub instead: Option<Words>,
    pub operator: Option<Operator>,
    pub binding: Vec<String>,
    pub aten_loss: Vec<String>,
    pub defined: BTreeMap<String, BTreeMap<String, String>>,
}

/// A convention: the documented name that it holds for alone, or nothing, and the habit as Rust.
#[derive(Clone, Debug, PartialEq)]
pub struct Convention {
    pub path: String,
    pub habit: String,
}

fn binding(word: &str) -> Result<&'static str, String> {
    Ok(match word {
        "numbers_as_tensors" => "NumbersAsTensors",
        "hidden_overload" => "HiddenOverload",
        "whole" => "Whole { out: false }",
        "whole_out" => "Whole { out: true }",
        "number_first" => "NumberFirst { out: false }",
        "number_first_out" => "NumberFirst { out: true }",
        "variadic" => "Variadic",
        _ => return Err(format!("python_binding: unknown word `{word}`")),
    })
}

/// Checks the keys against the row's documented names, in full (`torch.Tensor.add_`).
pub fn read(keys: Keys, names: &[String]) -> Result<Vec<Convention>, String> {
    let mut all = Vec::new();
    let mut put = |path: String, habit: String| {
        if path.is_empty() || names.contains(&path) {
            all.push(Convention { path, habit });
            Ok(())
        } else {
            Err(format!("`{path}` is no documented name of the row: it has {}", names.join(", ")))
        }
    };
    if let Some(f) = keys.flag {
        let Flag { name, position, then, of } = f;
        put(
            of.unwrap_or_default(),
            format!("Flag {{ name: {name:?}, position: {position}, then: {then:?} }}"),
        )?;
    }
    for (habit, words) in [("Arguments", keys.arguments), ("Instead", keys.instead)] {
        match words {
            None => {}
            Some(Words::All(w)) => put(String::new(), format!("{habit}({w:?})"))?,
            Some(Words::ByName(m)) => {
                m.into_iter().try_for_each(|(path, w)| put(path, format!("{habit}({w:?})")))?
            }
        }
    }
    if let Some(o) = keys.operator {
        let (operators, right) = match o {
            Operator::Name(n) => (vec![n], Right::Swapped),
            Operator::Table { name: Names::One(n), right } => (vec![n], right),
            Operator::Table { name: Names::Several(l), right } => (l, right),
        };
        let method = names.iter().find(|n| n.starts_with("torch.Tensor."));
        let method = method.ok_or("python_operator is for methods of Tensor")?;
        for n in operators {
            put(method.clone(), format!("Operator {{ name: {n:?}, right: Right::{right:?} }}"))?;
        }
    }
    for word in &keys.binding {
        put(String::new(), binding(word)?.to_string())?;
    }
    for (path, attributes) in keys.defined {
        let pairs: Vec<(String, String)> = attributes.into_iter().collect();
        put(path, format!("Defined(&{pairs:?})"))?;
    }
    if !keys.aten_loss.is_empty() {
        put(String::new(), format!("AtenLoss(&{:?})", keys.aten_loss))?;
    }
    Ok(all)
}

/// As a slice of flambeau-core's type.
pub fn text(all: &[Convention]) -> String {
    let each = all.iter().map(|c| format!("Convention {{ path: {:?}, habit: Habit::{} }}", c.path, c.habit));
    format!("&[{}]", each.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_are_checked() {
        let names = ["torch.f".to_string(), "torch.Tensor.f".to_string()];
        let keys = |word: &str| Keys { binding: vec![word.into()], ..Keys::default() };
        assert_eq!(read(keys("variadic"), &names).unwrap()[0].habit, "Variadic");
        assert!(read(keys("variable"), &names).unwrap_err().contains("`variable`"));
        let only = |path: &str| Some(Words::ByName([(path.to_string(), "w".to_string())].into()));
        assert!(read(Keys { instead: only("torch.f"), ..Keys::default() }, &names).is_ok());
        assert!(
            read(Keys { instead: only("torch.g"), ..Keys::default() }, &names)
                .unwrap_err()
                .contains("torch.g")
        );
        let operator = Some(Operator::Name("sub".into()));
        assert!(read(Keys { operator, ..Keys::default() }, &names[..1]).is_err());
    }
}
