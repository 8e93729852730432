//! `#[derive(Module)]`.

use crate::paths;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Ident, LitInt, LitStr, Result, Type, WhereClause, parse2};

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

/// The struct that the derive stands on.
struct Module {
    nn: TokenStream,
    name: Ident,
    marks: Marks,
    /// The field that is the module's `Base`.
    base: Option<Ident>,
    /// The field of its arguments, which it prints.
    options: Option<Ident>,
    /// Parameters, buffers, modules and data, with their names in dotted paths.
    fields: Vec<(Ident, String, Span)>,
    /// All fields, for copies, and whether each is the base.
    all: Vec<(Ident, bool)>,
}

/// `#[derive(Module)]`.
pub fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = parse2(input)?;
    let module = Module::of(&input)?;
    let (nn, name) = (&module.nn, &module.name);
    let (impl_generics, ty_generics, _) = input.generics.split_for_impl();
    let bounds = module.bounds(&input.generics);
    let text = module.marks.name.as_ref().map_or_else(|| name.to_string(), |n| n.value());
    let (own, walks, itself) = (module.own(), module.walks(), module.itself());
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #nn::Module for #name #ty_generics #bounds {
            fn type_name(&self) -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#text)
            }
            #own
            #walks
            #itself
        }
        #[automatically_derived]
        impl #impl_generics ::std::fmt::Display for #name #ty_generics #bounds {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                #nn::__private::display(self, f)
            }
        }
    })
}

impl Module {
    fn of(input: &DeriveInput) -> Result<Module> {
        let name = input.ident.clone();
        let Data::Struct(data) = &input.data else {
            return Err(syn::Error::new_spanned(name, "Module can be derived for structs only"));
        };
        let marks = marks(&input.attrs)?;
        let (fields, all) = (Vec::new(), Vec::new());
        let mut out = Module { nn: paths::nn(), name, marks, base: None, options: None, fields, all };
        match &data.fields {
            Fields::Named(named) => named.named.iter().try_for_each(|f| out.field(f))?,
            Fields::Unit => {}
            Fields::Unnamed(_) => {
                let text = "Module can be derived for structs with named fields only";
                return Err(syn::Error::new_spanned(&input.ident, text));
            }
        }
        Ok(out)
    }
    fn field(&mut self, f: &syn::Field) -> Result<()> {
        let marks = marks(&f.attrs)?;
        let ident = f.ident.clone().ok_or_else(|| syn::Error::new_spanned(f, "a named field"))?;
        let kind = last_segment(&f.ty).unwrap_or_default();
        self.all.push((ident.clone(), kind == "Base"));
        if kind == "Base" {
            self.base = Some(ident);
        } else if ident == "options" && kind.ends_with("Options") {
            self.options = Some(ident);
        } else if !marks.skip {
            let text = marks.rename.unwrap_or_else(|| {
                let s = ident.to_string();
                // a trailing underscore is how a Rust keyword is spelt
                s.strip_prefix("r#").unwrap_or(&s).to_owned()
            });
            self.fields.push((ident, text, f.ty.span()));
        }
        Ok(())
    }
    fn bounds(&self, generics: &syn::Generics) -> WhereClause {
        let nn = &self.nn;
        let mut bounds = generics.where_clause.clone().unwrap_or_else(|| syn::parse_quote!(where));
        for p in generics.type_params() {
            let ident = &p.ident;
            bounds.predicates.push(syn::parse_quote!(#ident: #nn::__private::Field));
        }
        // of a struct without parameters the compiler checks the supertraits itself, and says each thing once
        if !generics.params.is_empty() {
            bounds.predicates.push(
                syn::parse_quote!(Self: ::std::fmt::Debug + ::std::marker::Send + ::std::marker::Sync + 'static),
            );
        }
        bounds
    }
    /// What the module says of itself where it differs from the defaults.
    fn own(&self) -> TokenStream {
        let (nn, name) = (&self.nn, &self.name);
        let base = self.base.as_ref().map(|b| {
            quote! {
                fn base(&self) -> ::std::option::Option<&#nn::Base> {
                    ::std::option::Option::Some(&self.#b)
                }
                fn base_mut(&mut self) -> ::std::option::Option<&mut #nn::Base> {
                    ::std::option::Option::Some(&mut self.#b)
                }
            }
        });
        let extra = match (self.marks.extra_repr, &self.options) {
            (true, _) => Some(quote!(#name::extra_repr(self))),
            (false, options) => options.as_ref().map(|o| quote!(self.#o.extra_repr())),
        };
        let extra = extra.map(|e| {
            quote! {
                fn extra_repr(&self) -> ::std::string::String {
                    #e
                }
            }
        });
        let version = self.marks.version.as_ref();
        let may_lack = self.marks.may_lack.as_ref().zip(version).map(|(entry, now)| {
            quote! {
                fn may_lack(&self, name: &str, version: ::std::option::Option<i64>) -> bool {
                    name == #entry && version.is_none_or(|v| v < #now)
                }
            }
        });
        let version = version.map(|v| {
            quote! {
                fn version(&self) -> i64 {
                    #v
                }
            }
        });
        quote!(#base #extra #version #may_lack)
    }
    /// The walks over its fields: to see them, to change them, to copy them.
    fn walks(&self) -> TokenStream {
        let nn = &self.nn;
        // the error of a field that is neither state nor plain data points at its type
        let visits = self.fields.iter().map(|(ident, text, span)| {
            let span = span.resolved_at(Span::call_site());
            quote_spanned! {span=>
                {
                    #[allow(unused_imports)]
                    use #nn::__private::{ProbeCopyable as _, ProbeField as _, ProbeOther as _};
                    (&&&#nn::__private::Probe(&self.#ident)).probe(#text, v);
                }
            }
        });
        let visits_mut = self.fields.iter().map(|(ident, text, _)| {
            quote! {
                {
                    #[allow(unused_imports)]
                    use #nn::__private::{ProbeFieldMut as _, ProbeOtherMut as _};
                    (&mut #nn::__private::ProbeMut(&mut self.#ident)).probe_mut(#text, v)?;
                }
            }
        });
        let copies = self.all.iter().map(|(ident, is_base)| {
            if *is_base {
                return quote!(#ident: self.#ident.copied(memo)?);
            }
            let place = format!("{}.{ident}", self.name);
            quote!(#ident: (&&#nn::__private::ProbeCopy(&self.#ident)).copy(#place, memo)?)
        });
        quote! {
            #[allow(unused_variables)]
            fn visit<'__a>(&'__a self, v: &mut dyn #nn::Visitor<'__a>) {
                #(#visits)*
            }
            #[allow(unused_variables)]
            fn visit_mut(&mut self, v: &mut dyn #nn::VisitorMut) -> #nn::__private::Result<()> {
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
        }
    }
    /// The module as one of any type, and another one in its place.
    fn itself(&self) -> TokenStream {
        let nn = &self.nn;
        quote! {
            fn as_module(&self) -> &dyn #nn::Module {
                self
            }
            fn as_module_mut(&mut self) -> &mut dyn #nn::Module {
                self
            }
            fn as_run(&self) -> ::std::option::Option<&dyn #nn::__private::Run> {
                #[allow(unused_imports)]
                use #nn::__private::{NotRun as _, RunItself as _};
                (&#nn::__private::ProbeRun(self)).probe_run()
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
                #nn::__private::put_as(self, new)
            }
        }
    }
}
