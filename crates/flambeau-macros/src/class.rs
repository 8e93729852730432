//! `#[class("torch.nn.Linear", build = Linear, repr(...))]`.

use crate::paths;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, ItemStruct, LitStr, Path, Result, Token, Type, parenthesized, parse2};

struct Shown {
    field: Ident,
    named: bool,
    only_changed: bool,
    quoted: bool,
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

struct Attribute {
    path: LitStr,
    build: Option<Path>,
    make: Option<Path>,
    shown: Vec<Shown>,
    values: bool,
}
impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let path = input.parse()?;
        let mut out = Attribute { path, build: None, make: None, shown: Vec::new(), values: false };
        while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let key: Ident = input.parse()?;
            match key.to_string().as_str() {
                "build" => {
                    input.parse::<Token![=]>()?;
                    out.build = Some(input.parse()?);
                }
                "make" => {
                    input.parse::<Token![=]>()?;
                    out.make = Some(input.parse()?);
                }
                "values" => out.values = true,
                "repr" => {
                    let inner;
                    parenthesized!(inner in input);
                    out.shown =
                        Punctuated::<Shown, Token![,]>::parse_terminated(&inner)?.into_iter().collect();
                }
                _ => return Err(syn::Error::new(key.span(), "expected build, make, values or repr")),
            }
        }
        Ok(out)
    }
}

struct Field {
    ident: Ident,
    ty: Type,
    /// What a setter takes: the inside of an `Option`.
    inner: Option<Type>,
    docs: Vec<syn::Attribute>,
    default: Option<TokenStream>,
    positional: bool,
    /// An `Option` with a default other than `None`, which a setter can then be given.
    nullable: bool,
}

fn option_inner(t: &Type) -> Option<Type> {
    // a type that came through another macro stands in a group
    if let Type::Group(g) = t {
        return option_inner(&g.elem);
    }
    let Type::Path(p) = t else { return None };
    let last = p.path.segments.last().filter(|s| s.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(a) = &last.arguments else { return None };
    match a.args.first()? {
        syn::GenericArgument::Type(t) => Some(t.clone()),
        _ => None,
    }
}

fn fields(item: &mut ItemStruct, core: &TokenStream) -> Result<Vec<Field>> {
    let mut out = Vec::new();
    for f in &mut item.fields {
        let ident = f.ident.clone().ok_or_else(|| syn::Error::new(Span::call_site(), "named fields only"))?;
        let inner = option_inner(&f.ty);
        let (mut default, mut positional) = (None, false);
        for a in &f.attrs {
            if a.path().is_ident("default") {
                let e: Expr = a.parse_args()?;
                let ty = &f.ty;
                default = Some(match &inner {
                    Some(i) => {
                        quote!(::std::option::Option::Some(#core::api::into_arg::IntoArg::<#i>::into_arg(#e)))
                    }
                    None => quote!(#core::api::into_arg::IntoArg::<#ty>::into_arg(#e)),
                });
            } else if a.path().is_ident("positional") {
                positional = true;
            }
        }
        let nullable = inner.is_some() && default.is_some();
        if default.is_none() && inner.is_some() {
            default = Some(quote!(::std::option::Option::None));
        }
        f.attrs.retain(|a| !a.path().is_ident("default") && !a.path().is_ident("positional"));
        let docs = f.attrs.iter().filter(|a| a.path().is_ident("doc")).cloned().collect();
        let positional = positional || default.is_none();
        out.push(Field { ident, ty: f.ty.clone(), inner, docs, default, positional, nullable });
    }
    Ok(out)
}

pub fn expand(attr: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let attr: Attribute = parse2(attr)?;
    let mut item: ItemStruct = parse2(item)?;
    let (core, library) = (paths::core(), paths::library());
    let fields = fields(&mut item, &core)?;
    let name = item.ident.clone();
    let path = &attr.path;
    let text = path.value();
    let class = text.rsplit('.').next().unwrap_or(&text).to_owned();

    let field_names: Vec<_> = fields.iter().map(|f| &f.ident).collect();
    let required: Vec<_> = fields.iter().filter(|f| f.default.is_none()).collect();
    let (req_names, req_types): (Vec<_>, Vec<_>) = required.iter().map(|f| (&f.ident, &f.ty)).unzip();
    let defaults = fields.iter().filter_map(|f| f.default.as_ref().map(|d| (&f.ident, d)));
    let (def_names, def_values): (Vec<_>, Vec<_>) = defaults.unzip();

    let new_doc = format!("The options of `{text}` with the documented defaults.");
    let setters = fields.iter().filter(|f| f.default.is_some()).map(|f| {
        let (ident, docs) = (&f.ident, &f.docs);
        match f.inner.as_ref().filter(|_| !f.nullable) {
            Some(inner) => quote! {
                #(#docs)*
                pub fn #ident(mut self, #ident: impl #core::api::into_arg::IntoArg<#inner>) -> Self {
                    self.#ident = ::std::option::Option::Some(#core::api::into_arg::IntoArg::into_arg(#ident));
                    self
                }
            },
            None => {
                let ty = &f.ty;
                quote! {
                    #(#docs)*
                    pub fn #ident(mut self, #ident: impl #core::api::into_arg::IntoArg<#ty>) -> Self {
                        self.#ident = #core::api::into_arg::IntoArg::into_arg(#ident);
                        self
                    }
                }
            }
        }
    });
    let default_impl = required.is_empty().then(|| {
        quote! {
            impl ::std::default::Default for #name {
                fn default() -> Self {
                    Self::new()
                }
            }
        }
    });

    let default_of = |f: &Field| {
        let (ident, d) = (&f.ident, f.default.as_ref());
        (ident.clone(), d.cloned())
    };
    let shown = attr.shown.iter().map(|s| {
        let field = &s.field;
        let found = fields.iter().find(|f| f.ident == *field);
        let Some(found) = found else {
            return Err(syn::Error::new(field.span(), "no such field"));
        };
        let label = if s.named { format!("{}=", field.to_string().trim_start_matches("r#")) } else { String::new() };
        let mark = if s.quoted { "'" } else { "" };
        let push = quote! {
            parts.push(::std::format!("{}{}{}{}", #label, #mark, #core::text::PyText::py_text(&self.#field), #mark));
        };
        let ty = &found.ty;
        Ok(match (s.only_changed, default_of(found).1) {
            (true, Some(d)) => quote! {
                {
                    let default: #ty = #d;
                    if #core::text::PyText::py_text(&self.#field) != #core::text::PyText::py_text(&default) {
                        #push
                    }
                }
            },
            _ => push,
        })
    });
    let shown = shown.collect::<Result<Vec<_>>>()?;

    let from_values = fields.iter().enumerate().map(|(i, f)| {
        let (ident, ty) = (&f.ident, &f.ty);
        match &f.default {
            None => quote!(#ident: #core::dispatch::object::required::<#ty>(values, #i, &Self::PARAMETERS)?),
            Some(d) => {
                quote!(#ident: match #core::dispatch::object::given::<#ty>(values, #i, &Self::PARAMETERS)? {
                    ::std::option::Option::Some(v) => v,
                    ::std::option::Option::None => #d,
                })
            }
        }
    });
    let parameters = fields.iter().map(|f| {
        let n = f.ident.to_string();
        let n = n.trim_start_matches("r#").trim_end_matches('_');
        let required = f.default.is_none();
        quote!(#core::dispatch::object::Parameter { name: #n, required: #required })
    });
    let count = fields.len();

    let build = attr.build.as_ref().map(|target| {
        let positional: Vec<_> = fields.iter().filter(|f| f.positional).collect();
        let names: Vec<_> = positional.iter().map(|f| &f.ident).collect();
        let types = positional.iter().map(|f| match (&f.default, &f.inner) {
            (Some(_), Some(inner)) => inner.clone(),
            _ => f.ty.clone(),
        });
        let set = positional.iter().filter(|f| f.default.is_some()).map(|f| {
            let i = &f.ident;
            quote!(.#i(#i))
        });
        let doc_new = format!("A `{class}` with the documented defaults; all keywords are on [`{name}`].");
        let doc_build = format!("Builds the `{class}`.");
        quote! {
            impl #name {
                #[doc = #doc_build]
                #[track_caller]
                pub fn build(self) -> #target {
                    #core::api::ergonomic::expect(self.try_build())
                }
                #[doc = #doc_build]
                ///
                /// # Errors
                /// Arguments that do not fit, with PyTorch's text.
                pub fn try_build(self) -> #core::Result<#target> {
                    <#target>::from_options(self)
                }
            }
            impl #target {
                #[doc = #doc_new]
                #[track_caller]
                #[doc(alias = #path)]
                pub fn new(#(#names: impl #core::api::into_arg::IntoArg<#types>),*) -> Self {
                    #name::new(#(#req_names),*) #(#set)* .build()
                }
            }
        }
    });

    let make = match (&attr.make, &attr.build) {
        (Some(f), _) => quote!(#f),
        (None, Some(target)) => quote! {
            |args, kwargs| {
                let values = #core::dispatch::object::bind(#class, &#name::PARAMETERS, args, kwargs)?;
                let built: #target = #name::from_values(&values)?.try_build()?;
                ::std::result::Result::Ok(#core::dispatch::object::Instance::into_object(built))
            }
        },
        (None, None) => return Err(syn::Error::new_spanned(&name, "class needs `build` or `make`")),
    };
    // a constructor by name is checked in programs without names too
    let unused = attr.make.as_ref().map(|f| {
        quote! {
            #[cfg(not(feature = "by-name"))]
            const _: #core::dispatch::object::Constructor = #f;
        }
    });
    let pairs = fields.iter().map(|f| {
        let i = &f.ident;
        let n = i.to_string();
        quote!((#n, #core::dispatch::value::IntoValue::into_value(::std::clone::Clone::clone(&self.#i))))
    });
    let arms = fields.iter().map(|f| {
        let i = &f.ident;
        let n = i.to_string();
        quote!(#n => self.#i = #core::dispatch::value::FromValue::from_value(value)?,)
    });
    let values = attr.values.then(|| {
        quote! {
            impl #name {
                /// All arguments by name, in order.
                pub fn values(&self) -> ::std::vec::Vec<(&'static str, #core::Value)> {
                    ::std::vec![#(#pairs),*]
                }
                /// Sets one argument by name; `false` if there is none of that name.
                ///
                /// # Errors
                /// A value of the wrong type.
                pub fn set_value(&mut self, name: &str, value: &#core::Value) -> #core::Result<bool> {
                    match name {
                        #(#arms)*
                        _ => return ::std::result::Result::Ok(false),
                    }
                    ::std::result::Result::Ok(true)
                }
            }
        }
    });
    let entry = format_ident!("CLASS_{}", name.to_string().to_uppercase());
    let vis = &item.vis;
    let alias_item = quote!(#[doc(alias = #path)]);
    Ok(quote! {
        #[derive(Clone, Debug)]
        #alias_item
        #item

        impl #name {
            /// Names of the documented parameters, in order.
            pub const PARAMETERS: [#core::dispatch::object::Parameter; #count] = [#(#parameters),*];

            #[doc = #new_doc]
            #vis fn new(#(#req_names: impl #core::api::into_arg::IntoArg<#req_types>),*) -> Self {
                #(let #req_names = #core::api::into_arg::IntoArg::into_arg(#req_names);)*
                #(let #def_names = #def_values;)*
                #name { #(#field_names),* }
            }
            #(#setters)*
            /// The arguments as PyTorch prints them.
            pub fn extra_repr(&self) -> ::std::string::String {
                #[allow(unused_mut)]
                let mut parts: ::std::vec::Vec<::std::string::String> = ::std::vec::Vec::new();
                #(#shown)*
                parts.join(", ")
            }
            /// The options from values, one slot per parameter.
            ///
            /// # Errors
            /// A value of the wrong type.
            pub fn from_values(values: &[::std::option::Option<#core::Value>]) -> #core::Result<Self> {
                ::std::result::Result::Ok(#name { #(#from_values),* })
            }
        }
        #default_impl
        #build
        #values

        #unused
        #[cfg(feature = "by-name")]
        #[#library::class::linkme::distributed_slice(#library::class::CLASSES)]
        #[linkme(crate = #library::class::linkme)]
        static #entry: #library::class::ClassInfo = #library::class::ClassInfo {
            path: #path,
            parameters: &#name::PARAMETERS,
            make: #make,
        };
    })
}
