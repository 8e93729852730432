//! Unique names that are Python identifiers and hide none of Python's own.

use std::collections::{HashMap, HashSet};

/// Words that a name must not be: Python's keywords and built-in functions, and the names that generated programs use.
const TAKEN: &str = " False None True and as assert async await break class continue def del elif else except finally for from \
global if import in is lambda nonlocal not or pass raise return try while with yield \
ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError BufferError \
BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError \
DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception ExceptionGroup FileExistsError \
FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning IndentationError IndexError \
InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError \
NotADirectoryError NotImplemented NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError \
ProcessLookupError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration \
SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError \
UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError \
__build_class__ __debug__ __doc__ __import__ __loader__ __name__ __package__ __spec__ abs aiter all anext any ascii bin bool \
breakpoint bytearray bytes callable chr classmethod compile complex copyright credits delattr dict dir divmod enumerate eval \
exec exit filter float format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter len \
license list locals map max memoryview min next object oct open ord pow print property quit range repr reversed round set \
setattr slice sorted staticmethod str sum super tuple type vars zip \
inf nan NoneType torch device fx_pytree pytree ";

/// Names given so far.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    used: HashSet<String>,
    count: HashMap<String, u64>,
}

/// A name without its number: `add_12` is `add` and 12.
fn parts(name: &str) -> (&str, Option<u64>) {
    match name.rsplit_once('_') {
        Some((base, digits))
            if !base.is_empty() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            (base, digits.parse().ok())
        }
        _ => (name, None),
    }
}

impl Namespace {
    /// A name that nothing else has, as near to the wish as possible.
    pub fn create(&mut self, wish: &str) -> String {
        let mut name = String::new();
        let mut gap = false;
        for c in wish.chars() {
            if c.is_ascii_alphanumeric() || c == '_' {
                name.push(c);
                gap = false;
            } else if !gap {
                name.push('_');
                gap = true;
            }
        }
        if name.is_empty() {
            name.push_str("_unnamed");
        }
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        let (base, number) = parts(&name);
        let base = base.to_string();
        let mut n = match number {
            Some(n) if !self.used.contains(&name) => n,
            _ => {
                let mut n = self.count.get(&base).copied().unwrap_or(0);
                if TAKEN.contains(&format!(" {name} ")) {
                    n += 1;
                    name = format!("{base}_{n}");
                }
                n
            }
        };
        while self.used.contains(&name) {
            n += 1;
            name = format!("{base}_{n}");
        }
        self.used.insert(name.clone());
        self.count.insert(base, n);
        name
    }
    /// Notes a name as taken.
    pub fn take(&mut self, name: &str) {
        self.used.insert(name.to_string());
    }
    /// Whether the name is taken.
    pub fn is_taken(&self, name: &str) -> bool {
        self.used.contains(name)
    }
}
