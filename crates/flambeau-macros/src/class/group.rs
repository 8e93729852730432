//! `#[fields]`: groups of fields that several options structs have.
//!
//! A macro sees the struct that it stands on and no other. So a group becomes, beside the struct itself, a `macro_rules!`
//! of its name that hands its fields on: `#[class(..., include(Group))]` calls it with its own attribute and struct,
//! and [`including`] gets all three.

use super::attribute::{Attribute, Include};
use proc_macro2::{Group as Delimited, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Field, Fields, Ident, ItemStruct, Result, Token, braced, parse2};

/// `#[fields]` on a struct.
pub fn declare(item: TokenStream) -> Result<TokenStream> {
    let item: ItemStruct = parse2(item)?;
    let Fields::Named(fields) = &item.fields else {
        return Err(Error::new_spanned(&item.ident, "a group has named fields"));
    };
    let fields = &fields.named;
    let (name, params) = (&item.ident, item.generics.params.iter());
    let params = params.map(|p| match p {
        syn::GenericParam::Type(t) => Ok(&t.ident),
        syn::GenericParam::Const(c) => Ok(&c.ident),
        syn::GenericParam::Lifetime(l) => Err(Error::new_spanned(l, "a group has no lifetimes")),
    });
    let params = params.collect::<Result<Vec<_>>>()?;
    let mut shown = item.clone();
    for f in &mut shown.fields {
        super::field::strip(f);
    }
    let hands_on = format_ident!("__fields_{name}");
    Ok(quote! {
        // most options structs read their own fields, and the group's own struct serves few of them
        #[allow(dead_code)]
        #[derive(Clone, Debug)]
        #shown
        macro_rules! #hands_on {
            ($($call:tt)*) => {
                ::flambeau_macros::__including! { { { #(#params),* } { #fields } } $($call)* }
            };
        }
        pub(crate) use #hands_on as #name;
    })
}

/// What a group hands on.
struct Group {
    params: Vec<Ident>,
    fields: Vec<Field>,
}
impl Parse for Group {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (params, fields);
        braced!(params in input);
        braced!(fields in input);
        let params = Punctuated::<Ident, Token![,]>::parse_terminated(&params)?;
        let fields = Punctuated::<Field, Token![,]>::parse_terminated_with(&fields, Field::parse_named)?;
        Ok(Group { params: params.into_iter().collect(), fields: fields.into_iter().collect() })
    }
}
impl Group {
    /// The fields as an options struct has them.
    fn resolved(self, include: &Include) -> Result<Vec<Field>> {
        let arguments = include.arguments();
        if arguments.len() != self.params.len() {
            let text = format!("the group has {} generic parameters", self.params.len());
            return Err(Error::new_spanned(&include.path, text));
        }
        let stands_for: Vec<_> = self.params.into_iter().zip(arguments).collect();
        let mut fields = self.fields;
        for f in &mut fields {
            let ty = &f.ty;
            f.ty = parse2(substituted(quote!(#ty), &stands_for))?;
        }
        for (name, default) in &include.defaults {
            let found = fields.iter_mut().find(|f| f.ident.as_ref() == Some(name));
            let field = found.ok_or_else(|| Error::new(name.span(), "the group has no such field"))?;
            field.attrs.retain(|a| !a.path().is_ident("default"));
            field.attrs.push(syn::parse_quote!(#[default(#default)]));
        }
        Ok(fields)
    }
}
fn substituted(tokens: TokenStream, stands_for: &[(Ident, TokenStream)]) -> TokenStream {
    let one = |t: TokenTree| match t {
        TokenTree::Ident(i) => match stands_for.iter().find(|(p, _)| *p == i) {
            Some((_, by)) => by.clone(),
            None => quote!(#i),
        },
        TokenTree::Group(g) => {
            let mut new = Delimited::new(g.delimiter(), substituted(g.stream(), stands_for));
            new.set_span(g.span());
            quote!(#new)
        }
        other => quote!(#other),
    };
    tokens.into_iter().map(one).collect()
}

/// The call of the next group's macro, with the attribute, the struct, and the groups that were handed on so far.
pub fn ask(include: &Include, attr: &TokenStream, item: &TokenStream, so_far: &[TokenStream]) -> TokenStream {
    let next = include.macro_path();
    quote!(#next! { { #attr } { #item } #(#so_far)* })
}
/// `#[class]` with what a group handed on: asks the next group, or ends with all fields in order.
pub fn including(input: TokenStream) -> Result<TokenStream> {
    let parts = input.into_iter().map(|t| match t {
        TokenTree::Group(g) => Ok(g),
        other => Err(Error::new(other.span(), "this macro is for `#[class]`")),
    });
    let mut parts = parts.collect::<Result<Vec<_>>>()?.into_iter();
    let (Some(now), Some(attr), Some(item)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Error::new(proc_macro2::Span::call_site(), "this macro is for `#[class]`"));
    };
    let so_far: Vec<_> = parts.chain([now]).collect();
    let (attr, item) = (attr.stream(), item.stream());
    let parsed: Attribute = parse2(attr.clone())?;
    if let Some(next) = parsed.include.get(so_far.len()) {
        let so_far: Vec<_> = so_far.iter().map(|g| quote!(#g)).collect();
        return Ok(ask(next, &attr, &item, &so_far));
    }
    let groups = so_far.iter().zip(&parsed.include);
    let groups = groups.map(|(g, include)| parse2::<Group>(g.stream())?.resolved(include));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    super::finish(parsed, parse2(item)?, groups)
}

/// All fields of an options struct: those of its own, then those of its groups, or as `order(...)` says, where a
/// group's name stands for those of its fields that are not named themselves. Fields of groups that it does not name
/// are left out.
pub fn merged(own: Vec<Field>, groups: Vec<Vec<Field>>, attr: &Attribute) -> Result<Vec<Field>> {
    if attr.order.is_empty() {
        return Ok(own.into_iter().chain(groups.into_iter().flatten()).collect());
    }
    let named = |f: &Field| attr.order.iter().any(|n| f.ident.as_ref() == Some(n));
    if let Some(f) = own.iter().find(|f| !named(f)) {
        return Err(Error::new_spanned(&f.ident, "`order(...)` does not name this field"));
    }
    let mut out = Vec::new();
    for name in &attr.order {
        let group = attr.include.iter().position(|i| i.name() == Some(name));
        let before = out.len();
        match group {
            Some(i) => out.extend(groups[i].iter().filter(|f| !named(f)).cloned()),
            None => {
                let mut all = own.iter().chain(groups.iter().flatten());
                out.extend(all.find(|f| f.ident.as_ref() == Some(name)).cloned());
            }
        }
        if out.len() == before {
            return Err(Error::new(name.span(), "no field of the struct or its groups, and no group"));
        }
    }
    Ok(out)
}
/// For each group that the options have in full: its values of the options (`Group::from(&options)`), and the options
/// with the values of others (`options.with_group(&others)`).
pub fn conversions(options: &Ident, all: &[Field], groups: &[Vec<Field>], attr: &Attribute) -> TokenStream {
    let has = |f: &Field| all.iter().any(|a| a.ident == f.ident);
    let whole = attr.include.iter().zip(groups).filter(|(_, fields)| fields.iter().all(has));
    let each = whole.filter_map(|(include, fields)| {
        let (path, names) = (&include.path, fields.iter().map(|f| &f.ident).collect::<Vec<_>>());
        let with = format_ident!("with_{}", snake(&include.name()?.to_string()));
        Some(quote! {
            impl ::std::convert::From<&#options> for #path {
                fn from(options: &#options) -> Self {
                    Self { #(#names: ::std::clone::Clone::clone(&options.#names)),* }
                }
            }
            impl #options {
                // not every class is built from another one's options
                #[allow(dead_code)]
                pub(crate) fn #with(mut self, group: impl ::std::convert::Into<#path>) -> Self {
                    let group: #path = group.into();
                    #(self.#names = group.#names;)*
                    self
                }
            }
        })
    });
    each.collect()
}
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if i > 0 && c.is_uppercase() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all fields of a struct with fields `own`, of a class with these arguments and a group of `fields`.
    fn names(class: TokenStream, own: TokenStream, fields: TokenStream) -> Result<Vec<String>> {
        let attr: Attribute = parse2(quote!("torch.nn.X", build = X, #class))?;
        let own: ItemStruct = parse2(quote!(struct XOptions { #own }))?;
        let group: Group = parse2(quote!({ N } { #fields }))?;
        let group = group.resolved(&attr.include[0])?;
        let all = merged(own.fields.into_iter().collect(), vec![group], &attr)?;
        let text = |f: &Field| {
            let (name, ty, attrs) = (&f.ident, &f.ty, &f.attrs);
            quote!(#(#attrs)* #name: #ty).to_string().replace(' ', "")
        };
        Ok(all.iter().map(text).collect())
    }
    fn error(class: TokenStream) -> String {
        names(class, quote!(a: i64), quote!(b: i64, c: i64)).map_or_else(|e| e.to_string(), |n| n.join(", "))
    }

    #[test]
    fn fields_of_groups_stand_last_or_as_the_order_says() {
        let (own, group) = (quote!(a: i64, d: bool), quote!(b: Dims<N>, c: i64));
        let all = |class| names(class, own.clone(), group.clone()).unwrap().join(", ");
        assert_eq!(all(quote!(include(G<3>))), "a:i64, d:bool, b:Dims<3>, c:i64");
        assert_eq!(all(quote!(include(G<3>), order(a, b, d, G))), "a:i64, b:Dims<3>, d:bool, c:i64");
        assert_eq!(all(quote!(include(G<3>), order(d, c, a))), "d:bool, c:i64, a:i64");
        assert_eq!(
            all(quote!(include(G<3>(c = 7)), order(G, a, d))),
            "b:Dims<3>, #[default(7)]c:i64, a:i64, d:bool"
        );
    }
    #[test]
    fn what_does_not_fit_is_an_error_that_says_so() {
        assert_eq!(error(quote!(include(G))), "the group has 1 generic parameters");
        assert_eq!(error(quote!(include(G<1>(z = 0)))), "the group has no such field");
        assert_eq!(error(quote!(include(G<1>), order(G))), "`order(...)` does not name this field");
        let unknown = "no field of the struct or its groups, and no group";
        assert_eq!(error(quote!(include(G<1>), order(a, z, G))), unknown);
        assert_eq!(
            error(quote!(include(G<1>), ordre(a))),
            "expected build, make, values, repr, include or order"
        );
    }
    #[test]
    fn methods_have_names_in_snake_case() {
        assert_eq!([snake("Factory"), snake("TransposedGeometry")], ["factory", "transposed_geometry"]);
    }
}
