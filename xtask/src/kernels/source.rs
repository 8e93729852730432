//! What flambeau-cpu's files of formulas hold: functions, constants, and rows of the macros that define formulas.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use std::path::Path;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Item, LitStr, Token};

/// One formula: a class of dtypes and its body.
pub struct Formula {
    pub class: String,
    pub body: Expr,
}
/// A row of `pointwise!`.
pub struct Row {
    /// The static in flambeau-cpu.
    pub name: String,
    pub inputs: Vec<String>,
    pub params: Vec<String>,
    pub formulas: Vec<Formula>,
    pub line: usize,
}
/// A file of formulas.
pub struct File {
    /// Its path in flambeau-cpu/src/pointwise, for errors.
    pub path: String,
    /// The namespace of its functions.
    pub space: String,
    pub functions: Vec<syn::ItemFn>,
    pub consts: Vec<syn::ItemConst>,
    pub rows: Vec<Row>,
    /// Constants of the standard library that it names, `PI` or `std::f64::consts::PI`.
    pub uses: Vec<(String, String)>,
    pub text: String,
    /// Statics of two formulas: their name, that of float32's, that of the others'.
    pub pairs: Vec<[String; 3]>,
}

struct Rows(Vec<Row>);
impl Parse for Rows {
    fn parse(input: ParseStream) -> syn::Result<Rows> {
        let mut rows = Vec::new();
        while !input.is_empty() {
            input.call(syn::Attribute::parse_outer)?;
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            input.parse::<LitStr>()?;
            let (inputs, params) = arguments(input)?;
            input.parse::<Ident>()?; // cost
            input.parse::<syn::LitInt>()?;
            let body;
            syn::braced!(body in input);
            let mut formulas = Vec::new();
            while !body.is_empty() {
                let class: Ident = body.parse()?;
                body.parse::<Token![=>]>()?;
                // the CPU's own vectors for a formula are no matter of the device
                let class = match class.to_string().as_str() {
                    "float_exp" | "float_tanh" | "float_sigmoid" | "float_silu" | "float_gelu"
                    | "float_gelu_tanh" => "float".to_string(),
                    other => other.to_string(),
                };
                formulas.push(Formula { class, body: body.parse()? });
                if !body.is_empty() {
                    body.parse::<Token![,]>()?;
                }
            }
            rows.push(Row { line: 0, name: name.to_string(), inputs, params, formulas });
        }
        Ok(Rows(rows))
    }
}
fn arguments(input: ParseStream) -> syn::Result<(Vec<String>, Vec<String>)> {
    let inside;
    syn::parenthesized!(inside in input);
    let mut lists = (Vec::new(), Vec::new());
    let mut numbers = false;
    while !inside.is_empty() {
        let name = inside.parse::<Ident>()?.to_string();
        if numbers {
            lists.1.push(name)
        } else {
            lists.0.push(name)
        }
        if inside.peek(Token![,]) {
            inside.parse::<Token![,]>()?;
        } else if inside.peek(Token![;]) {
            inside.parse::<Token![;]>()?;
            numbers = true;
        }
    }
    Ok(lists)
}
/// Rows of `one_by_one!`: functions of f64.
struct Plain(Vec<Row>);
impl Parse for Plain {
    fn parse(input: ParseStream) -> syn::Result<Plain> {
        let mut rows = Vec::new();
        while !input.is_empty() {
            input.call(syn::Attribute::parse_outer)?;
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            input.parse::<LitStr>()?;
            let (inputs, params) = arguments(input)?;
            let halves: syn::LitBool = input.parse()?;
            input.parse::<Ident>()?;
            input.parse::<syn::LitInt>()?;
            input.parse::<Token![=>]>()?;
            let Expr::Closure(c) = input.parse::<Expr>()? else {
                return Err(syn::Error::new(name.span(), "a row of one_by_one! is a closure"));
            };
            input.parse::<Token![;]>()?;
            let class = if halves.value { "one_by_one" } else { "one_by_one_wide" };
            let formulas = vec![Formula { class: class.into(), body: *c.body }];
            rows.push(Row { line: 0, name: name.to_string(), inputs, params, formulas });
        }
        Ok(Plain(rows))
    }
}
/// A macro of the file that wraps rows of one shape, `NAME = "name" OPERATOR;`, around one text.
struct Template {
    name: String,
    text: TokenStream,
}
fn template(m: &syn::ItemMacro) -> Option<Template> {
    // ( pattern ) => { pointwise! { $( text )* } };
    let mut groups = m.mac.tokens.clone().into_iter().filter_map(|t| match t {
        TokenTree::Group(g) => Some(g),
        _ => None,
    });
    let (_, body) = (groups.next()?, groups.next()?);
    let find = |s: TokenStream, d: Delimiter| {
        s.into_iter().find_map(|t| match t {
            TokenTree::Group(g) if g.delimiter() == d => Some(g.stream()),
            _ => None,
        })
    };
    let rows = find(body.stream(), Delimiter::Brace)?;
    Some(Template { name: m.ident.as_ref()?.to_string(), text: find(rows, Delimiter::Parenthesis)? })
}
/// The text of a template with a row's name and operator in place.
fn filled(text: TokenStream, name: &Ident, label: &TokenTree, op: &[TokenTree]) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    let mut all = text.into_iter().peekable();
    while let Some(t) = all.next() {
        match &t {
            TokenTree::Punct(p) if p.as_char() == '$' => match all.next() {
                Some(TokenTree::Ident(i)) if i == "S" => out.push(TokenTree::Ident(name.clone())),
                Some(TokenTree::Ident(i)) if i == "name" => out.push(label.clone()),
                Some(TokenTree::Ident(i)) if i == "op" => out.extend(op.iter().cloned()),
                // repeated attributes
                Some(TokenTree::Group(_)) => {
                    all.next();
                }
                _ => {}
            },
            TokenTree::Group(g) => {
                let inner = Group::new(g.delimiter(), filled(g.stream(), name, label, op));
                out.push(TokenTree::Group(inner));
            }
            _ => out.push(t),
        }
    }
    out.into_iter().collect()
}
fn expanded(t: &Template, rows: TokenStream) -> syn::Result<Vec<Row>> {
    let mut out = Vec::new();
    let mut all = rows.into_iter().peekable();
    while all.peek().is_some() {
        let row: Vec<TokenTree> =
            all.by_ref().take_while(|t| !matches!(t, TokenTree::Punct(p) if p.as_char() == ';')).collect();
        let at = row.iter().position(|t| matches!(t, TokenTree::Ident(_)));
        let Some(at) = at else { break };
        let TokenTree::Ident(name) = &row[at] else { break };
        let text = filled(t.text.clone(), name, &row[at + 2], &row[at + 3..]);
        out.append(&mut syn::parse2::<Rows>(text)?.0);
    }
    Ok(out)
}

/// Reads a file.
///
/// # Errors
/// What it does not understand, with file and line.
pub fn read(root: &Path, path: &str) -> Result<File, String> {
    let full = root.join("crates/flambeau-cpu/src/pointwise").join(path);
    let text = std::fs::read_to_string(&full).map_err(|e| format!("{}: {e}", full.display()))?;
    let at = |e: syn::Error| format!("{path}: {e}");
    let parsed = syn::parse_file(&text).map_err(at)?;
    let space = path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "_");
    let mut file = File {
        path: path.into(),
        space: format!("of_{space}"),
        functions: Vec::new(),
        consts: Vec::new(),
        rows: Vec::new(),
        uses: Vec::new(),
        text: String::new(),
        pairs: Vec::new(),
    };
    let mut templates = Vec::new();
    for item in parsed.items {
        match item {
            Item::Fn(f) if f.sig.unsafety.is_none() => file.functions.push(f),
            Item::Const(c) => file.consts.push(c),
            Item::Use(u) => {
                let text = u.tree.to_token_stream().to_string().replace(' ', "");
                if let Some(list) = text.strip_prefix("std::f64::consts::") {
                    for name in list.trim_matches(['{', '}']).split(',').filter(|n| !n.is_empty()) {
                        file.uses.push((name.into(), name.into()));
                    }
                }
            }
            Item::Macro(m) => {
                let name = m.mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
                match name.as_str() {
                    "macro_rules" => templates.extend(template(&m)),
                    "pointwise" => file.rows.append(&mut syn::parse2::<Rows>(m.mac.tokens).map_err(at)?.0),
                    "one_by_one" => file.rows.append(&mut syn::parse2::<Plain>(m.mac.tokens).map_err(at)?.0),
                    // one formula for float32, one for the other floats
                    "by_precision" => {
                        let names = m.mac.tokens.into_iter().filter_map(|t| match t {
                            TokenTree::Ident(i) => Some(i.to_string()),
                            _ => None,
                        });
                        let names: Vec<String> = names.collect();
                        file.pairs.extend(
                            names.chunks_exact(3).map(|n| [n[0].clone(), n[1].clone(), n[2].clone()]),
                        );
                    }
                    other => match templates.iter().find(|t| t.name == other) {
                        Some(t) => file.rows.append(&mut expanded(t, m.mac.tokens).map_err(at)?),
                        None => return Err(format!("{path}: the macro {other}! is not understood")),
                    },
                }
            }
            _ => {}
        }
    }
    for row in &mut file.rows {
        row.line = line(&text, &format!("{} = ", row.name));
    }
    file.text = text;
    Ok(file)
}
/// The line on which a text first stands.
pub fn line(text: &str, what: &str) -> usize {
    text.lines().position(|l| l.contains(what)).map_or(0, |i| i + 1)
}
