//! Lists of calls that must be refused with an error of a kind and a text.

use crate::hostile::Calls;
pub use flambeau_core::ErrorKind;
use flambeau_core::Result;

/// A call with operands `S`, and what its error says.
pub struct Case<S> {
    pub name: &'static str,
    pub kind: ErrorKind,
    pub text: &'static str,
    pub call: fn(&S) -> Result<()>,
}

/// `"name", Kind, "text" => call;` for each case, after the function that makes the operands and what the calls name them.
/// Stands in a `#[test]` function.
#[macro_export]
macro_rules! cases {
    ($operands:path, $t:ident; $($name:literal, $kind:ident, $text:literal => $call:expr;)+) => {
        $crate::cases::judge($crate::here!(), $operands, &[$($crate::cases::Case {
            name: $name,
            kind: $crate::cases::ErrorKind::$kind,
            text: $text,
            call: |$t| {
                let _ = $t;
                $call.map(drop)
            },
        }),+])
    };
}

impl<S> Case<S> {
    /// What is wrong with the outcome.
    fn wrong(&self, operands: fn() -> Result<S>) -> Option<String> {
        let set = match operands() {
            Ok(s) => s,
            Err(e) => return Some(format!("no operands: {e}")),
        };
        match (self.call)(&set) {
            Ok(()) => Some("accepted".into()),
            Err(e) if e.kind() == self.kind && e.message().contains(self.text) => None,
            Err(e) => Some(format!("{e:?}\n  instead of {:?}: {}", self.kind, self.text)),
        }
    }
}

/// Makes the calls, each with operands of its own, as [`Calls::judge`] does.
pub fn judge<S>(test: &'static str, operands: fn() -> Result<S>, cases: &[Case<S>]) {
    let short = test.rsplit("::").next().unwrap_or(test);
    Calls {
        test,
        count: cases.len(),
        name: &|i| format!("{short}/{}", cases[i].name),
        run: &|i| cases[i].wrong(operands),
    }
    .judge();
}
