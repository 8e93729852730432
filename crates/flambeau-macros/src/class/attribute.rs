//! The arguments of `#[class(...)]`.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, LitStr, Path, PathArguments, Result, Token, parenthesized};

/// An argument that is printed: `a`, `b=`, `c=?`, `d=!`.
pub struct Shown {
    pub field: Ident,
    pub named: bool,
    pub only_changed: bool,
    pub quoted: bool,
}
impl Parse for Shown {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let field = input.parse()?;
        let named = input.parse::<Option<Token![=]>>()?.is_some();
        let only_changed = input.parse::<Option<Token![?]>>()?.is_some();
        let quoted = input.parse::<Option<Token![!]>>()?.is_some();
        Ok(Shown { field, named, only_changed, quoted })
    }
}

/// A field group: `Factory`, `Window<2>`, `Moments(lr = 2e-3)`.
pub struct Include {
    pub path: Path,
    /// Defaults that differ from the group's own.
    pub defaults: Vec<(Ident, Expr)>,
}
impl Include {
    /// The group's macro: its path without generic arguments.
    pub fn macro_path(&self) -> Path {
        let mut path = self.path.clone();
        if let Some(last) = path.segments.last_mut() {
            last.arguments = PathArguments::None;
        }
        path
    }
    /// The group's name, which stands for all its fields in `order(...)`.
    pub fn name(&self) -> Option<&Ident> {
        self.path.segments.last().map(|s| &s.ident)
    }
    /// What the group's parameters stand for.
    pub fn arguments(&self) -> Vec<TokenStream> {
        match self.path.segments.last().map(|s| &s.arguments) {
            Some(PathArguments::AngleBracketed(a)) => {
                a.args.iter().map(quote::ToTokens::to_token_stream).collect()
            }
            _ => Vec::new(),
        }
    }
}
impl Parse for Include {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let path = input.parse()?;
        let mut defaults = Vec::new();
        if input.peek(syn::token::Paren) {
            let default = |i: ParseStream<'_>| {
                let name: Ident = i.parse()?;
                i.parse::<Token![=]>()?;
                Ok((name, i.parse::<Expr>()?))
            };
            let inner;
            parenthesized!(inner in input);
            let all = Punctuated::<_, Token![,]>::parse_terminated_with(&inner, default)?;
            defaults = all.into_iter().collect();
        }
        Ok(Include { path, defaults })
    }
}

pub struct Attribute {
    pub path: LitStr,
    pub build: Option<Path>,
    pub make: Option<Path>,
    pub shown: Vec<Shown>,
    pub values: bool,
    pub include: Vec<Include>,
    pub order: Vec<Ident>,
}
fn list<T: Parse>(input: ParseStream<'_>) -> Result<Vec<T>> {
    let inner;
    parenthesized!(inner in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&inner)?.into_iter().collect())
}
fn assigned(input: ParseStream<'_>) -> Result<Option<Path>> {
    input.parse::<Token![=]>()?;
    input.parse().map(Some)
}
impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut out = Attribute {
            path: input.parse()?,
            build: None,
            make: None,
            shown: Vec::new(),
            values: false,
            include: Vec::new(),
            order: Vec::new(),
        };
        while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let key: Ident = input.parse()?;
            match key.to_string().as_str() {
                "build" => out.build = assigned(input)?,
                "make" => out.make = assigned(input)?,
                "values" => out.values = true,
                "repr" => out.shown = list(input)?,
                "include" => out.include = list(input)?,
                "order" => out.order = list(input)?,
                _ => {
                    let text = "expected build, make, values, repr, include or order";
                    return Err(syn::Error::new(key.span(), text));
                }
            }
        }
        Ok(out)
    }
}
