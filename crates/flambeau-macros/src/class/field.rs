//! The fields of an options struct, as `#[class]` reads them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, Ident, Result, Type};

pub struct Field {
    pub ident: Ident,
    pub ty: Type,
    /// What a setter takes: the inside of an `Option`.
    pub inner: Option<Type>,
    pub docs: Vec<syn::Attribute>,
    pub default: Option<TokenStream>,
    pub positional: bool,
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
fn is_own(a: &syn::Attribute) -> bool {
    a.path().is_ident("default") || a.path().is_ident("positional")
}
/// Takes the attributes away that are for `#[class]`; the default becomes a part of the documentation.
pub fn strip(f: &mut syn::Field) {
    let told = default_text(f);
    f.attrs.retain(|a| !is_own(a));
    f.attrs.extend(told);
}
/// What the documentation says of the default, if there is one.
fn default_text(f: &syn::Field) -> Option<syn::Attribute> {
    let given = f.attrs.iter().find(|a| a.path().is_ident("default"));
    let text = match given {
        Some(a) => a.parse_args::<TokenStream>().ok()?.to_string(),
        None => option_inner(&f.ty).map(|_| "None".to_owned())?,
    };
    let text = format!(" Default: `{text}`.");
    Some(syn::parse_quote!(#[doc = #text]))
}

impl Field {
    pub fn of(f: &syn::Field, core: &TokenStream) -> Result<Field> {
        let ident = f.ident.clone().ok_or_else(|| Error::new_spanned(f, "named fields only"))?;
        let (ty, inner) = (f.ty.clone(), option_inner(&f.ty));
        let attribute = |name: &str| f.attrs.iter().find(|a| a.path().is_ident(name));
        let given = attribute("default").map(|a| a.parse_args::<Expr>()).transpose()?;
        let default = match (given, &inner) {
            (Some(e), Some(i)) => {
                Some(quote!(::std::option::Option::Some(#core::api::into_arg::IntoArg::<#i>::into_arg(#e))))
            }
            (Some(e), None) => Some(quote!(#core::api::into_arg::IntoArg::<#ty>::into_arg(#e))),
            (None, Some(_)) => Some(quote!(::std::option::Option::None)),
            (None, None) => None,
        };
        Ok(Field {
            docs: f
                .attrs
                .iter()
                .filter(|a| a.path().is_ident("doc"))
                .cloned()
                .chain(default_text(f))
                .collect(),
            positional: attribute("positional").is_some() || default.is_none(),
            nullable: inner.is_some() && attribute("default").is_some(),
            ident,
            ty,
            inner,
            default,
        })
    }
    /// The name in calls by name: without what spells a Rust keyword.
    pub fn name(&self) -> String {
        self.ident.to_string().trim_start_matches("r#").trim_end_matches('_').to_owned()
    }
    pub fn setter(&self, core: &TokenStream) -> TokenStream {
        let (ident, docs) = (&self.ident, &self.docs);
        let given = quote!(#core::api::into_arg::IntoArg::into_arg(#ident));
        let (ty, value) = match self.inner.as_ref().filter(|_| !self.nullable) {
            Some(inner) => (inner, quote!(::std::option::Option::Some(#given))),
            None => (&self.ty, given),
        };
        quote! {
            #(#docs)*
            pub fn #ident(mut self, #ident: impl #core::api::into_arg::IntoArg<#ty>) -> Self {
                self.#ident = #value;
                self
            }
        }
    }
    /// Reads argument `i` of a call by name.
    pub fn reading(&self, i: usize, core: &TokenStream) -> TokenStream {
        let (ident, ty) = (&self.ident, &self.ty);
        match &self.default {
            None => quote!(#ident: #core::dispatch::object::required::<#ty>(values, #i, &Self::PARAMETERS)?),
            Some(d) => {
                quote!(#ident: match #core::dispatch::object::given::<#ty>(values, #i, &Self::PARAMETERS)? {
                    ::std::option::Option::Some(v) => v,
                    ::std::option::Option::None => #d,
                })
            }
        }
    }
}
