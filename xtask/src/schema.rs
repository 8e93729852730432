//! Operator schemas: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

/// What a type is made of, without list and optional marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    Tensor,
    Scalar,
    Int,
    Float,
    Bool,
    Str,
    DType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
}

/// A schema type. `Tensor?[]` is a list with `opt_elem`, `int[]?` a list with `opt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ty {
    pub base: Base,
    /// `Some(n)`: a list; n is the number in `int[n]`, 0 for `int[]`.
    pub list: Option<u8>,
    pub opt: bool,
    pub opt_elem: bool,
}

/// A default value.
#[derive(Clone, PartialEq, Debug)]
pub enum Default {
    None,
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    IntList(Vec<i64>),
    /// A memory format or layout by its variant name.
    Name(&'static str),
}

/// One argument.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    pub name: String,
    pub ty: Ty,
    pub default: Option<Default>,
    pub kw_only: bool,
    pub mutated: bool,
}

/// A whole schema.
#[derive(Clone, PartialEq, Debug)]
pub struct Schema {
    /// `flambeau` where the operator is none of ATen's; empty else.
    pub namespace: String,
    /// `add`
    pub base: String,
    /// `Tensor`, or empty
    pub overload: String,
    pub args: Vec<Arg>,
    /// Result names (empty where not given) and types.
    pub returns: Vec<(String, Ty)>,
}

impl Ty {
    const fn plain(base: Base) -> Ty {
        Ty { base, list: None, opt: false, opt_elem: false }
    }
    /// Holds tensors.
    pub fn is_tensor(&self) -> bool {
        self.base == Base::Tensor
    }
    /// Exactly `Tensor`.
    pub fn is_one_tensor(&self) -> bool {
        *self == Ty::plain(Base::Tensor)
    }
}

impl Schema {
    /// `add.Tensor`, or `flambeau::name`.
    pub fn full_name(&self) -> String {
        let space = if self.namespace.is_empty() { "" } else { "::" };
        let dot = if self.overload.is_empty() { "" } else { "." };
        format!("{}{space}{}{dot}{}", self.namespace, self.base, self.overload)
    }
    /// Whether any argument is written to.
    pub fn mutates(&self) -> bool {
        self.args.iter().any(|a| a.mutated)
    }
    /// Parses the text.
    pub fn parse(text: &str) -> Result<Schema, String> {
        let mut p = Parser { s: text.as_bytes(), i: 0 };
        p.schema().map_err(|e| format!("schema `{text}`, column {}: {e}", p.i + 1))
    }
}

struct Parser<'a> {
    s: &'a [u8],
    i: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.s.get(self.i).is_some_and(u8::is_ascii_whitespace) {
            self.i += 1;
        }
    }
    fn eat(&mut self, t: &str) -> bool {
        self.space();
        let hit = self.s[self.i..].starts_with(t.as_bytes());
        if hit {
            self.i += t.len();
        }
        hit
    }
    fn need(&mut self, t: &str) -> Result<(), String> {
        if self.eat(t) { Ok(()) } else { Err(format!("`{t}` expected")) }
    }
    fn word(&mut self) -> Result<String, String> {
        self.space();
        let from = self.i;
        while self.s.get(self.i).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_') {
            self.i += 1;
        }
        if from == self.i {
            return Err("a name expected".into());
        }
        Ok(String::from_utf8_lossy(&self.s[from..self.i]).into_owned())
    }
    fn schema(&mut self) -> Result<Schema, String> {
        let mut base = self.word()?;
        let mut namespace = String::new();
        if self.eat("::") {
            namespace = std::mem::replace(&mut base, self.word()?);
        }
        let overload = if self.eat(".") { self.word()? } else { String::new() };
        self.need("(")?;
        let mut args: Vec<Arg> = Vec::new();
        let mut kw_only = false;
        while !self.eat(")") {
            if !args.is_empty() || kw_only {
                self.need(",")?;
            }
            if self.eat("*") {
                kw_only = true;
                self.space();
                continue;
            }
            let (ty, mutated) = self.ty()?;
            let name = self.word()?;
            if args.iter().any(|a| a.name == name) {
                return Err(format!("second argument `{name}`"));
            }
            let default = if self.eat("=") { Some(self.default(ty)?) } else { None };
            args.push(Arg { name, ty, default, kw_only, mutated });
        }
        self.need("->")?;
        let mut returns = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                if !returns.is_empty() {
                    self.need(",")?;
                }
                let (ty, _) = self.ty()?;
                self.space();
                let named = self.s.get(self.i).is_some_and(u8::is_ascii_alphabetic);
                returns.push((if named { self.word()? } else { String::new() }, ty));
            }
        } else {
            let (ty, _) = self.ty()?;
            returns.push((String::new(), ty));
        }
        self.space();
        if self.i != self.s.len() {
            return Err("text after the end".into());
        }
        Ok(Schema { namespace, base, overload, args, returns })
    }
    fn ty(&mut self) -> Result<(Ty, bool), String> {
        let word = self.word()?;
        let base = match word.as_str() {
            "Tensor" => Base::Tensor,
            "Scalar" | "number" => Base::Scalar,
            "int" | "SymInt" => Base::Int,
            "float" => Base::Float,
            "bool" | "SymBool" => Base::Bool,
            "str" => Base::Str,
            "ScalarType" => Base::DType,
            "Layout" => Base::Layout,
            "Device" => Base::Device,
            "MemoryFormat" => Base::MemoryFormat,
            "Generator" => Base::Generator,
            other => return Err(format!("unknown type `{other}`")),
        };
        let mut mutated = false;
        if base == Base::Tensor && self.s.get(self.i) == Some(&b'(') {
            self.i += 1;
            while let Some(&c) = self.s.get(self.i) {
                self.i += 1;
                match c {
                    b')' => break,
                    b'!' => mutated = true,
                    _ => {}
                }
            }
        }
        let mut ty = Ty::plain(base);
        loop {
            match self.s.get(self.i) {
                Some(b'?') => {
                    self.i += 1;
                    ty.opt = true;
                }
                Some(b'[') => {
                    if ty.list.is_some() {
                        return Err("lists of lists are not supported".into());
                    }
                    self.i += 1;
                    let n = if self.s.get(self.i) == Some(&b']') { "0".to_string() } else { self.word()? };
                    self.need("]")?;
                    ty.list = Some(n.parse().map_err(|_| format!("bad list length `{n}`"))?);
                    ty.opt_elem = std::mem::take(&mut ty.opt);
                }
                _ => return Ok((ty, mutated)),
            }
        }
    }
    fn default(&mut self, ty: Ty) -> Result<Default, String> {
        self.space();
        let from = self.i;
        match self.s.get(self.i) {
            Some(q @ (b'"' | b'\'')) => {
                let q = *q;
                self.i += 1;
                while self.s.get(self.i).is_some_and(|c| *c != q) {
                    self.i += 1;
                }
                if self.i == self.s.len() {
                    return Err("string without end".into());
                }
                self.i += 1;
                let text = String::from_utf8_lossy(&self.s[from + 1..self.i - 1]).into_owned();
                if ty.base != Base::Str {
                    return Err("a string for an argument that is none".into());
                }
                return Ok(Default::Str(text));
            }
            Some(b'[') => {
                self.i += 1;
                let mut list = Vec::new();
                while !self.eat("]") {
                    if !list.is_empty() {
                        self.need(",")?;
                    }
                    match self.atom(Ty { list: None, ..ty })? {
                        Default::Int(i) => list.push(i),
                        _ => return Err("list defaults are lists of integers".into()),
                    }
                }
                return Ok(Default::IntList(list));
            }
            _ => {}
        }
        let d = self.atom(ty)?;
        Ok(match (d, ty) {
            // `int[2] stride=1` means [1, 1]
            (Default::Int(i), Ty { base: Base::Int, list: Some(n @ 1..), .. }) => {
                Default::IntList(vec![i; n as usize])
            }
            (Default::Int(_), Ty { list: Some(_), .. }) => {
                return Err("a number for a list without length".into());
            }
            (Default::Int(i), Ty { base: Base::Float, .. }) => Default::Float(i as f64),
            (d, _) => d,
        })
    }
    fn atom(&mut self, ty: Ty) -> Result<Default, String> {
        self.space();
        let from = self.i;
        while self.s.get(self.i).is_some_and(|c| !matches!(c, b',' | b')' | b']')) {
            self.i += 1;
        }
        let text = String::from_utf8_lossy(&self.s[from..self.i]).trim().to_string();
        let ok = |base: &[Base], d: Default| {
            if base.contains(&ty.base) {
                Ok(d)
            } else {
                Err(format!("default `{text}` does not fit the type"))
            }
        };
        match text.as_str() {
            "None" if ty.opt => Ok(Default::None),
            "None" => Err("None for a type without `?`".into()),
            "True" => ok(&[Base::Bool, Base::Scalar], Default::Bool(true)),
            "False" => ok(&[Base::Bool, Base::Scalar], Default::Bool(false)),
            "inf" => ok(&[Base::Float, Base::Scalar], Default::Float(f64::INFINITY)),
            "-inf" => ok(&[Base::Float, Base::Scalar], Default::Float(f64::NEG_INFINITY)),
            "contiguous_format" => ok(&[Base::MemoryFormat], Default::Name("Contiguous")),
            "preserve_format" => ok(&[Base::MemoryFormat], Default::Name("Preserve")),
            "strided" => ok(&[Base::Layout], Default::Name("Strided")),
            // the reductions of losses, as numbers in ATen
            "Mean" => ok(&[Base::Int], Default::Int(1)),
            "Sum" => ok(&[Base::Int], Default::Int(2)),
            t => {
                if let Ok(i) = t.parse::<i64>() {
                    return ok(&[Base::Int, Base::Float, Base::Scalar], Default::Int(i));
                }
                match t.parse::<f64>() {
                    Ok(f) if f.is_finite() => ok(&[Base::Float, Base::Scalar], Default::Float(f)),
                    _ => Err(format!("unknown default `{t}`")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_types_defaults() {
        let s = Schema::parse(
            "max.dim(Tensor(a -> *) self, int[2]? size=None, Tensor?[] indices, *, int[2] stride=1, Scalar alpha=1e-5, \
             float p=2, MemoryFormat? memory_format=preserve_format, str mode=\"a, b)\") -> (Tensor values, Tensor indices)",
        )
        .unwrap();
        assert_eq!((s.base.as_str(), s.overload.as_str()), ("max", "dim"));
        assert_eq!(s.full_name(), "max.dim");
        assert!(!s.mutates());
        assert_eq!(s.args[1].ty, Ty { base: Base::Int, list: Some(2), opt: true, opt_elem: false });
        assert_eq!(s.args[2].ty, Ty { base: Base::Tensor, list: Some(0), opt: false, opt_elem: true });
        let defaults: Vec<_> = s.args.iter().map(|a| a.default.clone()).collect();
        assert_eq!(defaults[0], None);
        assert_eq!(defaults[1], Some(Default::None));
        assert_eq!(defaults[3], Some(Default::IntList(vec![1, 1])));
        assert_eq!(defaults[4], Some(Default::Float(1e-5)));
        assert_eq!(defaults[5], Some(Default::Float(2.0)));
        assert_eq!(defaults[6], Some(Default::Name("Preserve")));
        assert_eq!(defaults[7], Some(Default::Str("a, b)".into())));
        assert!(!s.args[2].kw_only && s.args[3].kw_only);
        assert_eq!(s.returns[1].0, "indices");
    }

    #[test]
    fn mutation_and_nothing_returned() {
        let s = Schema::parse("fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)").unwrap();
        assert!(s.mutates() && s.args[0].mutated && !s.args[1].mutated);
        let s = Schema::parse("flambeau::f.x(Tensor self) -> Tensor").unwrap();
        assert_eq!((s.namespace.as_str(), s.base.as_str()), ("flambeau", "f"));
        assert_eq!(s.full_name(), "flambeau::f.x");
        let s = Schema::parse("_foreach_neg_(Tensor(a!)[] self) -> ()").unwrap();
        assert!(s.returns.is_empty() && s.args[0].ty.list == Some(0));
        assert!(Schema::parse("f(*, bool a=False) -> bool").unwrap().args[0].kw_only);
    }

    #[test]
    fn errors_name_the_place() {
        for bad in [
            "f(Tensor self",
            "f(Tensor self) -> Tensr",
            "f(Tensor self, Tensor self) -> Tensor",
            "f(int a=None) -> Tensor",
            "f(int a=1.5) -> Tensor",
            "f(int[] a=1) -> Tensor",
            "f(str a='x) -> Tensor",
            "f(Tensor a) -> Tensor b",
        ] {
            let e = Schema::parse(bad).unwrap_err();
            assert!(e.contains("column"), "{bad}: {e}");
        }
    }
}
