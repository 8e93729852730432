//! `#[short]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, Expr, FnArg, ItemFn, Lit, Meta, Pat, PathArguments, Result, ReturnType, Type, parse2,
};

/// The text of a documentation attribute.
fn doc_line(a: &Attribute) -> Option<String> {
    let Meta::NameValue(nv) = &a.meta else { return None };
    let Expr::Lit(l) = &nv.value else { return None };
    match &l.lit {
        Lit::Str(s) if nv.path.is_ident("doc") => Some(s.value()),
        _ => None,
    }
}

/// What a `Result` is a result of.
fn result_of(output: &ReturnType) -> Option<&Type> {
    let ReturnType::Type(_, t) = output else { return None };
    let Type::Path(p) = &**t else { return None };
    let last = p.path.segments.last().filter(|s| s.ident == "Result")?;
    let PathArguments::AngleBracketed(a) = &last.arguments else { return None };
    a.args.iter().find_map(|a| if let syn::GenericArgument::Type(t) = a { Some(t) } else { None })
}

pub fn expand(attr: &TokenStream, item: TokenStream) -> Result<TokenStream> {
    let with = match attr.to_string().as_str() {
        "" => false,
        "with" => true,
        _ => return Err(Error::new_spanned(attr, "`#[short]`, or `#[short(with)]`")),
    };
    let fallible = parse2::<ItemFn>(item)?;
    let (name, sig) = (fallible.sig.ident.to_string(), &fallible.sig);
    let Some(short) = name.strip_prefix("try_") else {
        return Err(Error::new_spanned(&sig.ident, "the function's name begins with `try_`"));
    };
    let Some(output) = result_of(&sig.output) else {
        return Err(Error::new_spanned(sig, "the function gives a `Result`"));
    };
    let mut given = Vec::new();
    for a in &sig.inputs {
        match a {
            FnArg::Typed(t) if matches!(&*t.pat, Pat::Ident(_)) => {
                let Pat::Ident(p) = &*t.pat else { continue };
                given.push(p.ident.clone());
            }
            other => return Err(Error::new_spanned(other, "arguments are plain names")),
        }
    }
    let (docs, others): (Vec<&Attribute>, Vec<&Attribute>) =
        fallible.attrs.iter().partition(|a| doc_line(a).is_some());
    let lines: Vec<String> = docs.into_iter().filter_map(doc_line).collect();
    let at = lines.iter().position(|l| l.trim() == "# Errors").ok_or_else(|| {
        Error::new_spanned(&sig.ident, "the documentation has a section `# Errors` at its end")
    })?;
    let (said, errors) = lines.split_at(at);
    let panics = format!(" Panics with the text of [`{name}`]'s error.");
    let form = if with { format!("{short}_with") } else { short.to_owned() };
    let instead = format!(" [`{form}`] with an error instead of a panic.");
    let (vis, block, short) = (&fallible.vis, &fallible.block, format_ident!("{short}"));
    let (generics, inputs, bounds, fallible) =
        (&sig.generics, &sig.inputs, &sig.generics.where_clause, &sig.ident);
    // names alone: the short forms bind nothing mutably
    let plain: Vec<TokenStream> = inputs
        .iter()
        .filter_map(|a| match a {
            FnArg::Typed(t) => {
                let (Pat::Ident(p), ty) = (&*t.pat, &t.ty) else { return None };
                let name = &p.ident;
                Some(quote!(#name: #ty))
            }
            FnArg::Receiver(_) => None,
        })
        .collect();
    let (short_args, short_given, with_form) = match (with, plain.split_last(), inputs.last()) {
        (false, ..) => (&plain[..], quote!(#(#given),*), None),
        (true, Some((_, without)), Some(FnArg::Typed(last))) => {
            let (options, names) = (&last.ty, &given[..without.len()]);
            let (name, doc) = (format_ident!("{short}_with"), format!(" [`{short}`] with all keywords."));
            let form = quote! {
                #[doc = #doc]
                #[track_caller]
                #vis fn #name #generics(#(#plain),*) -> #output #bounds {
                    ::flambeau_core::api::ergonomic::expect(#fallible(#(#given),*))
                }
            };
            (without, quote!(#(#names,)* <#options>::new()), Some(form))
        }
        _ => return Err(Error::new_spanned(fallible, "the last argument is options")),
    };
    let result = &sig.output;
    Ok(quote! {
        #(#[doc = #said])*
        #[doc = #panics]
        #(#others)*
        #[track_caller]
        #vis fn #short #generics(#(#short_args),*) -> #output #bounds {
            ::flambeau_core::api::ergonomic::expect(#fallible(#short_given))
        }
        #with_form
        #[doc = #instead]
        #[doc = ""]
        #(#[doc = #errors])*
        #vis fn #fallible #generics(#inputs) #result #bounds #block
    })
}
