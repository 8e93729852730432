//! `dims!`: items that are written once and stand there for one, two and three dimensions.

use proc_macro2::{Group, Ident, Literal, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::{LitInt, Result, Token, bracketed};

/// A number of dimensions, and words of its own.
struct Case {
    n: usize,
    words: Vec<(Ident, TokenTree)>,
}
struct Input {
    cases: Vec<Case>,
    items: TokenStream,
}
impl Parse for Case {
    fn parse(input: ParseStream) -> Result<Self> {
        let n = input.parse::<LitInt>()?.base10_parse()?;
        let mut words = Vec::new();
        if input.peek(syn::token::Bracket) {
            let list;
            bracketed!(list in input);
            while !list.is_empty() {
                let word = list.parse()?;
                list.parse::<Token![=]>()?;
                words.push((word, list.parse()?));
                if !list.is_empty() {
                    list.parse::<Token![,]>()?;
                }
            }
        }
        Ok(Case { n, words })
    }
}
impl Parse for Input {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut cases = vec![input.parse()?];
        while !input.peek(Token![=>]) {
            input.parse::<Token![,]>()?;
            cases.push(input.parse()?);
        }
        input.parse::<Token![=>]>()?;
        Ok(Input { cases, items: input.parse()? })
    }
}

pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let Input { cases, items } = syn::parse2(input)?;
    cases.iter().map(|case| case.of(items.clone())).collect()
}

impl Case {
    fn of(&self, tokens: TokenStream) -> Result<TokenStream> {
        tokens.into_iter().map(|t| self.one(t)).collect()
    }
    fn one(&self, token: TokenTree) -> Result<TokenTree> {
        let span = token.span();
        let named = |text: String| text.replace("Nd", &format!("{}d", self.n));
        let mut new = match token {
            TokenTree::Group(g) => TokenTree::Group(Group::new(g.delimiter(), self.of(g.stream())?)),
            TokenTree::Ident(i) if i == "N" => TokenTree::Literal(Literal::usize_unsuffixed(self.n)),
            TokenTree::Ident(i) => match self.words.iter().find(|(word, _)| *word == i) {
                Some((_, instead)) => instead.clone(),
                None => TokenTree::Ident(Ident::new(&named(i.to_string()), span)),
            },
            TokenTree::Literal(l) if l.to_string().contains("Nd") => {
                let text = named(l.to_string());
                TokenTree::Literal(text.parse().map_err(|_| syn::Error::new(span, "no literal"))?)
            }
            other => return Ok(other),
        };
        new.set_span(span);
        Ok(new)
    }
}
