//! `errors/`: invalid calls must give an error of the recorded class with the recorded text.

use super::{Case, File, Outcome, is_core, seed, text};
use crate::decode::{Decoder, Stop};
use flambeau_core::{Error, ErrorKind, Value};
use flambeau_library as library;
use flambeau_library::object;
use regex::Regex;
use serde_json::Value as J;
use std::sync::LazyLock;

/// Which of Flambeau's kinds of error a Python exception class covers. `Missing` is covered by none.
const KINDS: &[(&str, &[ErrorKind])] = {
    use ErrorKind::*;
    &[
        (
            "RuntimeError",
            &[
                Shape,
                DType,
                Device,
                Autograd,
                Storage,
                Serialization,
                OutOfMemory,
                Linalg,
                Unsupported,
                Runtime,
            ],
        ),
        ("Exception", &[Runtime]),
        ("NotImplementedError", &[Unsupported]),
        ("ValueError", &[Value]),
        ("ZeroDivisionError", &[Value]),
        ("TypeError", &[Type]),
        ("IndexError", &[Index]),
        ("KeyError", &[Index, Value]),
        ("AssertionError", &[Assertion]),
        ("AttributeError", &[Attribute]),
        ("DimensionBindError", &[Other]),
        ("_LinAlgError", &[Linalg]),
        ("LinAlgError", &[Linalg]),
        ("GradcheckError", &[Assertion]),
        ("OSError", &[Io]),
        ("FileNotFoundError", &[Io]),
        ("OutOfMemoryError", &[OutOfMemory]),
    ]
};

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    f.list("cases")
        .iter()
        .map(|c| {
            let call = text(c, "call");
            let run = Box::new(move || {
                let done =
                    if exists(call) { Outcome::of(run(f, call, c)) } else { Outcome::Missing(call.into()) };
                match done {
                    // an error of argument parsing, whose words are Python's own
                    Outcome::Failed(e) if c["binding"] == J::Bool(true) => Outcome::Apart(e),
                    other => other,
                }
            });
            Case { id: text(c, "id").into(), call: call.into(), core: is_core(call, c), run }
        })
        .collect()
}
fn exists(call: &str) -> bool {
    library::exists(call)
}

fn run(f: &File, call: &str, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    let args = d.args(&c["args"], "args")?;
    let kwargs = d.kwargs(&c["kwargs"], "kwargs")?;
    let module = text(c, "kind") == "module";
    // some of what Python makes by a class is made by a function here
    let first = if module && object::class(call).is_some() {
        object::construct(call, &args, &kwargs).map(Some)
    } else {
        seed(c);
        library::call(call, &args, &kwargs).map(|_| None)
    };
    let error = match first {
        Err(e) => e,
        Ok(made) => {
            // a device tells late, and in words of its own, that an index is out of bounds
            match crate::device::wait() {
                Err(e)
                    if e.message().contains("is out of bounds") && text(c, "message").contains("out of") =>
                {
                    return Ok(());
                }
                Err(e) => return judged(&e, c),
                Ok(()) => {}
            }
            let forward = &c["forward"];
            let Some(object) = made.filter(|_| !forward.is_null()) else {
                return Err(Stop::Failed(format!(
                    "no error; expected {}: {}",
                    text(c, "exception"),
                    text(c, "message")
                )));
            };
            if let Some(device) = crate::device::other() {
                object.method("to", &[Value::Device(device)], &[])?;
            }
            let args = d.args(&forward["args"], "args")?;
            let kwargs = d.kwargs(&forward["kwargs"], "kwargs")?;
            seed(c);
            match object.call(&args, &kwargs).and_then(|_| crate::device::wait()) {
                Err(e) => e,
                Ok(_) => return Err(Stop::Failed("no error".into())),
            }
        }
    };
    judged(&error, c)
}
fn judged(error: &Error, c: &J) -> Result<(), Stop> {
    judge(error, text(c, "exception"), text(c, "message"), c["regex"].as_str()).map_err(Stop::Failed)
}

/// Whether a Python exception class covers the kind of error of that name.
pub fn covers(exception: &str, kind: &str) -> bool {
    let kinds = KINDS.iter().find(|(n, _)| *n == exception).map_or(&[][..], |(_, kinds)| kinds);
    kinds.iter().any(|k| format!("{k:?}") == kind)
}
/// Whether the error is of the class and has the text.
///
/// # Errors
/// Says what differs.
pub fn judge(e: &Error, exception: &str, message: &str, regex: Option<&str>) -> Result<(), String> {
    let Some((_, kinds)) = KINDS.iter().find(|(n, _)| *n == exception) else {
        return Err(format!("exception class {exception} is not mapped"));
    };
    if !kinds.contains(&e.kind()) {
        return Err(format!("{:?} ({}), expected {exception}: {message}", e.kind(), e.message()));
    }
    let ok = match regex.map(Regex::new) {
        Some(Ok(r)) => r.is_match(e.message()),
        // Python patterns that Rust's engine lacks, and cases without a pattern
        _ => without_numbers(e.message()) == without_numbers(message),
    };
    if ok { Ok(()) } else { Err(format!("says `{}`, expected `{}`", e.message(), regex.unwrap_or(message))) }
}

/// The text with every number replaced.
fn without_numbers(s: &str) -> String {
    static NUMBER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"-?\d+(\.\d+)?([eE][-+]?\d+)?").ok());
    match &*NUMBER {
        Some(r) => r.replace_all(s.trim(), "#").into_owned(),
        None => s.trim().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_text_both_count() {
        let e = Error::index("Dimension out of range (expected to be in range of [-2, 1], but got 5)");
        let text = "Dimension out of range (expected to be in range of [-3, 2], but got 7)";
        assert!(judge(&e, "IndexError", text, None).is_ok());
        assert!(judge(&e, "RuntimeError", text, None).is_err());
        assert!(judge(&e, "IndexError", "another text", None).is_err());
        assert!(judge(&e, "IndexError", "", Some("out of range")).is_ok());
        assert!(judge(&e, "IndexError", "", Some("out of rage")).is_err());
        assert!(judge(&Error::missing(text), "NotImplementedError", text, None).is_err());
        assert!(judge(&Error::unsupported(text), "NotImplementedError", text, None).is_ok());
        assert!(judge(&Error::unsupported(text), "RuntimeError", text, None).is_ok());
    }
}
