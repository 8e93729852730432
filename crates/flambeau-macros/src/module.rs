//! `#[derive(Module)]`.

use crate::paths;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Fields, LitInt, LitStr, Result, Type, parse2};

struct Marks {
    skip: bool,
    rename: Option<String>,
    extra_repr: bool,
    version: Option<LitInt>,
    name: Option<LitStr>,
    may_lack: Option<LitStr>,
}

fn marks(attrs: &[syn::Attribute]) -> Result<Marks> {
    let mut m =
        Marks { skip: false, rename: None, extra_repr: false, version: None, name: None, may_lack: None };
    for a in attrs.iter().filter(|a| a.path().is_ident("module")) {
        a.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                m.skip = true;
            } else if meta.path.is_ident("extra_repr") {
                m.extra_repr = true;
            } else if meta.path.is_ident("rename") {
                m.rename = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("name") {
                m.name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("may_lack") {
                m.may_lack = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("version") {
                m.version = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("expected skip, rename, extra_repr, name, version or may_lack"));
            }
            Ok(())
        })?;
    }
    Ok(m)
}

fn last_segment(t: &Type) -> Option<String> {
    match t {
        Type::Path(p) => p.path.segments.last().map(|s| s.ident.to_string()),
        Type::Group(g) => last_segment(&g.elem),
        _ => None,
    }
}

pub fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = parse2(input)?;
    let nn = paths::nn();
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(name, "Module can be derived for structs only"));
    };
    let top = marks(&input.attrs)?;
    let mut fields = Vec::new();
    // all fields, for copies
    let mut all = Vec::new();
    let (mut base, mut options) = (None, None);
    if let Fields::Named(named) = &data.fields {
        for f in &named.named {
            let m = marks(&f.attrs)?;
            let ident = f.ident.clone().ok_or_else(|| syn::Error::new_spanned(f, "a named field"))?;
            let kind = last_segment(&f.ty).unwrap_or_default();
            all.push((ident.clone(), kind == "Base"));
            if kind == "Base" {
                base = Some(ident);
                continue;
            }
            if ident == "options" && kind.ends_with("Options") {
                options = Some(ident);
                continue;
            }
            if m.skip {
                continue;
            }
            let text = m.rename.unwrap_or_else(|| {
                let s = ident.to_string();
                // a trailing underscore is how a Rust keyword is spelt
                s.strip_prefix("r#").unwrap_or(&s).to_owned()
            });
            fields.push((ident, text, f.ty.clone()));
        }
    } else if !matches!(data.fields, Fields::Unit) {
        return Err(syn::Error::new_spanned(
            name,
            "Module can be derived for structs with named fields only",
        ));
    }

    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let mut bounds = where_clause.cloned().unwrap_or_else(|| syn::parse_quote!(where));
    for p in input.generics.type_params() {
        let ident = &p.ident;
        bounds.predicates.push(syn::parse_quote!(#ident: #nn::__private::Field));
    }
    bounds.predicates.push(
        syn::parse_quote!(Self: ::std::fmt::Debug + ::std::marker::Send + ::std::marker::Sync + 'static),
    );

    let visits = fields.iter().map(|(ident, text, _)| {
        quote! {
            {
                #[allow(unused_imports)]
                use #nn::__private::{ProbeField as _, ProbeOther as _};
                (&#nn::__private::Probe(&self.#ident)).probe(#text, v);
            }
        }
    });
    let visits_mut = fields.iter().map(|(ident, text, _)| {
        quote! {
            {
                #[allow(unused_imports)]
                use #nn::__private::{ProbeFieldMut as _, ProbeOtherMut as _};
                (&mut #nn::__private::ProbeMut(&mut self.#ident)).probe_mut(#text, v)?;
            }
        }
    });
    let copies = all.iter().map(|(ident, is_base)| {
        if *is_base {
            return quote!(#ident: self.#ident.copied(memo)?);
        }
        let place = format!("{name}.{ident}");
        quote!(#ident: (&&#nn::__private::ProbeCopy(&self.#ident)).copy(#place, memo)?)
    });
    let base = base.map(|b| {
        quote! {
            fn base(&self) -> ::std::option::Option<&#nn::Base> {
                ::std::option::Option::Some(&self.#b)
            }
            fn base_mut(&mut self) -> ::std::option::Option<&mut #nn::Base> {
                ::std::option::Option::Some(&mut self.#b)
            }
        }
    });
    let extra = if top.extra_repr {
        Some(quote!(#name::extra_repr(self)))
    } else {
        options.map(|o| quote!(self.#o.extra_repr()))
    };
    let extra = extra.map(|e| {
        quote! {
            fn extra_repr(&self) -> ::std::string::String {
                #e
            }
        }
    });
    let current = top.version.clone();
    let may_lack = top.may_lack.zip(current).map(|(entry, now)| {
        quote! {
            fn may_lack(&self, name: &str, version: ::std::option::Option<i64>) -> bool {
                name == #entry && version.is_none_or(|v| v < #now)
            }
        }
    });
    let version = top.version.map(|v| {
        quote! {
            fn version(&self) -> i64 {
                #v
            }
        }
    });
    let text = top.name.map_or_else(|| name.to_string(), |n| n.value());
    let v = format_ident!("v");
    let display_generics = &impl_generics;
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #nn::Module for #name #ty_generics #bounds {
            fn type_name(&self) -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#text)
            }
            #base
            #extra
            #version
            #may_lack
            #[allow(unused_variables)]
            fn visit<'__a>(&'__a self, #v: &mut dyn #nn::Visitor<'__a>) {
                #(#visits)*
            }
            #[allow(unused_variables)]
            fn visit_mut(&mut self, #v: &mut dyn #nn::VisitorMut) -> #nn::__private::Result<()> {
                #(#visits_mut)*
                ::std::result::Result::Ok(())
            }
            #[allow(unused_variables)]
            fn copied(
                &self,
                memo: &mut #nn::__private::Memo,
            ) -> #nn::__private::Result<#nn::__private::Copied> {
                #[allow(unused_imports)]
                use #nn::__private::{CopyData as _, CopyField as _, CopyNothing as _};
                ::std::result::Result::Ok(#nn::__private::Copied::new(Self { #(#copies),* }))
            }
            fn as_module(&self) -> &dyn #nn::Module {
                self
            }
            fn as_module_mut(&mut self) -> &mut dyn #nn::Module {
                self
            }
            fn as_any(&self) -> &dyn ::std::any::Any {
                self
            }
            fn as_any_mut(&mut self) -> &mut dyn ::std::any::Any {
                self
            }
            fn replace_with(
                &mut self,
                new: ::std::boxed::Box<dyn #nn::Module>,
            ) -> ::std::result::Result<(), ::std::boxed::Box<dyn #nn::Module>> {
                *self = #nn::__private::take_as(new)?;
                ::std::result::Result::Ok(())
            }
        }
        #[automatically_derived]
        impl #display_generics ::std::fmt::Display for #name #ty_generics #bounds {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&#nn::Module::repr(self))
            }
        }
    })
}
