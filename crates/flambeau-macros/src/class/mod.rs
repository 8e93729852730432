//! `#[class("torch.nn.Linear", build = Linear, repr(...))]`.

mod attribute;
mod field;
mod group;
mod options;

use crate::paths;
use attribute::{Attribute, Shown};
use field::Field;
pub use group::{declare, including};
pub use options::expand as options;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, Fields, Ident, ItemStruct, Result, parse2};

/// `#[class]` on a struct.
pub fn expand(attr: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let parsed: Attribute = parse2(attr.clone())?;
    match parsed.include.first() {
        Some(first) => Ok(group::ask(first, &attr, &item, &[])),
        None => finish(parsed, parse2(item)?, Vec::new()),
    }
}

/// All of the class, once the fields of its groups are known.
fn finish(attr: Attribute, mut item: ItemStruct, groups: Vec<Vec<syn::Field>>) -> Result<TokenStream> {
    let Fields::Named(named) = &mut item.fields else {
        return Err(Error::new_spanned(&item.ident, "named fields only"));
    };
    let own = std::mem::take(&mut named.named).into_iter().collect();
    let mut all = group::merged(own, groups.clone(), &attr)?;
    let conversions = group::conversions(&item.ident, &all, &groups, &attr);
    let core = paths::core();
    let fields = all.iter().map(|f| Field::of(f, &core)).collect::<Result<Vec<_>>>()?;
    all.iter_mut().for_each(field::strip);
    named.named = all.into_iter().collect();

    let path = attr.path.value();
    let class = path.rsplit('.').next().unwrap_or(&path).to_owned();
    if !item.attrs.iter().any(|a| a.path().is_ident("doc")) {
        let doc = format!("Options of [`{class}`].");
        item.attrs.push(syn::parse_quote!(#[doc = #doc]));
    }
    let class = Class { core, attr, name: item.ident.clone(), class, fields };
    let (path, options) = (&class.attr.path, class.options(&item.vis)?);
    let (target, values, entry) = (class.target(), class.values(), class.entry()?);
    let reading = class.reading();
    Ok(quote! {
        #[derive(Clone, Debug)]
        #[doc(alias = #path)]
        #[non_exhaustive]
        #item
        #options
        #target
        #values
        #reading
        #conversions
        #entry
    })
}

/// One documented class.
struct Class {
    core: TokenStream,
    attr: Attribute,
    /// The options struct.
    name: Ident,
    /// The class's name without its module.
    class: String,
    fields: Vec<Field>,
}
impl Class {
    fn required(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| f.default.is_none())
    }
    /// The methods of every options struct.
    fn options(&self, vis: &syn::Visibility) -> Result<TokenStream> {
        let (core, name) = (&self.core, &self.name);
        let (constructor, printing) = (self.constructor(vis), self.printing()?);
        let setters = self.fields.iter().filter(|f| f.default.is_some()).map(|f| f.setter(core));
        let from_values = self.fields.iter().enumerate().map(|(i, f)| f.reading(i, core));
        let parameters = self.fields.iter().map(|f| {
            let (name, required) = (f.name(), f.default.is_none());
            quote!(#core::dispatch::object::Parameter { name: #name, required: #required })
        });
        let count = self.fields.len();
        // options whose values are read and written in any program are compiled where they are read
        let reads = if self.attr.values { quote!(#[inline]) } else { quote!(#[cfg(feature = "by-name")]) };
        let default = self.required().next().is_none().then(|| {
            quote! {
                impl ::std::default::Default for #name {
                    fn default() -> Self {
                        Self::new()
                    }
                }
            }
        });
        Ok(quote! {
            impl #name {
                /// Names of the documented parameters, in order.
                pub const PARAMETERS: [#core::dispatch::object::Parameter; #count] = [#(#parameters),*];
                #constructor
                #(#setters)*
                #printing
                /// The options from values, one slot per parameter.
                ///
                /// # Errors
                /// A value of the wrong type.
                #reads
                pub fn from_values(values: &[::std::option::Option<#core::Value>]) -> #core::Result<Self> {
                    ::std::result::Result::Ok(#name { #(#from_values),* })
                }
            }
            #default
        })
    }
    /// `new`, of the required arguments.
    fn constructor(&self, vis: &syn::Visibility) -> TokenStream {
        let (core, name) = (&self.core, &self.name);
        let doc = format!("The options of `{}` with the documented defaults.", self.attr.path.value());
        let all = self.fields.iter().map(|f| &f.ident);
        let (required, types): (Vec<_>, Vec<_>) = self.required().map(|f| (&f.ident, &f.ty)).unzip();
        let defaults = self.fields.iter().filter_map(|f| {
            let (ident, value) = (&f.ident, f.default.as_ref()?);
            Some(quote!(let #ident = #value;))
        });
        quote! {
            #[doc = #doc]
            #vis fn new(#(#required: impl #core::api::into_arg::IntoArg<#types>),*) -> Self {
                #(let #required = #core::api::into_arg::IntoArg::into_arg(#required);)*
                #(#defaults)*
                #name { #(#all),* }
            }
        }
    }
    /// `extra_repr`.
    fn printing(&self) -> Result<TokenStream> {
        let core = &self.core;
        let shown = self.attr.shown.iter().map(|s| self.shown(s)).collect::<Result<Vec<_>>>()?;
        let (defaults, rows): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
        // what is made of them is a function's work: this is compiled for every class
        Ok(quote! {
            /// The arguments as PyTorch prints them.
            pub fn extra_repr(&self) -> ::std::string::String {
                #(#defaults)*
                #core::text::arguments(&[#(#rows),*])
            }
        })
    }
    /// The default that an argument is compared with, if it is, and its row in the list of what is printed.
    fn shown(&self, s: &Shown) -> Result<(Option<TokenStream>, TokenStream)> {
        let (core, ident) = (&self.core, &s.field);
        let found = self.fields.iter().find(|f| f.ident == *ident);
        let found = found.ok_or_else(|| Error::new(ident.span(), "no such field"))?;
        let label =
            if s.named { format!("{}=", ident.to_string().trim_start_matches("r#")) } else { String::new() };
        let (quoted, ty) = (s.quoted, &found.ty);
        let (default, unless) = match (s.only_changed, &found.default) {
            (true, Some(d)) => {
                let default = format_ident!("default_{}", ident.to_string().trim_start_matches("r#"));
                let made = quote!(let #default: #ty = #d;);
                (Some(made), quote!(::std::option::Option::Some(&#default)))
            }
            _ => (None, quote!(::std::option::Option::None)),
        };
        let row = quote! {
            #core::text::Argument { label: #label, quoted: #quoted, value: &self.#ident, unless: #unless }
        };
        Ok((default, row))
    }
    /// `build` of the options and `new` of what they build.
    fn target(&self) -> Option<TokenStream> {
        let (core, name, class, path) = (&self.core, &self.name, &self.class, &self.attr.path);
        let target = self.attr.build.as_ref()?;
        let positional: Vec<_> = self.fields.iter().filter(|f| f.positional).collect();
        let names: Vec<_> = positional.iter().map(|f| &f.ident).collect();
        let types = positional.iter().map(|f| match (&f.default, &f.inner) {
            (Some(_), Some(inner)) => inner,
            _ => &f.ty,
        });
        let set = positional.iter().filter(|f| f.default.is_some()).map(|f| {
            let i = &f.ident;
            quote!(.#i(#i))
        });
        let required = self.required().map(|f| &f.ident);
        let doc_new = format!("A `{class}` with the documented defaults; all keywords are on [`{name}`].");
        let doc_build = format!("Builds the `{class}`.");
        let default = self.required().next().is_none().then(|| {
            quote! {
                impl ::std::default::Default for #target {
                    #[track_caller]
                    fn default() -> Self {
                        #name::new().build()
                    }
                }
            }
        });
        Some(quote! {
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
                    #name::new(#(#required),*) #(#set)* .build()
                }
            }
            #default
        })
    }
    /// Reading and writing of arguments by name.
    fn values(&self) -> Option<TokenStream> {
        let (core, name) = (&self.core, &self.name);
        let idents: Vec<_> = self.fields.iter().map(|f| &f.ident).collect();
        let names: Vec<_> = idents.iter().map(ToString::to_string).collect();
        self.attr.values.then(|| {
            quote! {
                impl #name {
                    /// All arguments by name, in order.
                    pub fn values(&self) -> ::std::vec::Vec<(&'static str, #core::Value)> {
                        ::std::vec![#(
                            (#names, #core::dispatch::value::IntoValue::into_value(::std::clone::Clone::clone(&self.#idents)))
                        ),*]
                    }
                    /// Sets one argument by name; `false` if there is none of that name.
                    ///
                    /// # Errors
                    /// A value of the wrong type.
                    pub fn set_value(&mut self, name: &str, value: &#core::Value) -> #core::Result<bool> {
                        match name {
                            #(#names => self.#idents = #core::dispatch::value::FromValue::from_value(value)?,)*
                            _ => return ::std::result::Result::Ok(false),
                        }
                        ::std::result::Result::Ok(true)
                    }
                }
            }
        })
    }
    /// Reading of one argument by name: what Python's objects have as attributes.
    fn reading(&self) -> TokenStream {
        let (core, name) = (&self.core, &self.name);
        // where a module's tensors go and how wide they are is no attribute of it
        let read = self.fields.iter().filter(|f| f.ident != "device" && f.ident != "dtype");
        let (idents, names): (Vec<_>, Vec<_>) = read.map(|f| (&f.ident, f.name())).unzip();
        quote! {
            #[cfg(feature = "by-name")]
            #[allow(dead_code)]
            impl #name {
                /// The argument of that name, if there is one that is a value.
                #[doc(hidden)]
                pub fn value_by_name(&self, name: &str) -> ::std::option::Option<#core::Value> {
                    #[allow(unused_imports)]
                    use #core::dispatch::object::{ReadNothing as _, ReadValue as _};
                    match name {
                        #(#names => (&#core::dispatch::object::ProbeValue(&self.#idents)).probe_value(),)*
                        _ => ::std::option::Option::None,
                    }
                }
            }
        }
    }
    /// The entry in the list of classes.
    fn entry(&self) -> Result<TokenStream> {
        let (core, name, class, path) = (&self.core, &self.name, &self.class, &self.attr.path);
        let library = paths::library();
        let make = match (&self.attr.make, &self.attr.build) {
            (Some(f), _) => quote!(#f),
            (None, Some(target)) => quote! {
                |args, kwargs| {
                    let values = #core::dispatch::object::bind(#class, &#name::PARAMETERS, args, kwargs)?;
                    let built: #target = #name::from_values(&values)?.try_build()?;
                    ::std::result::Result::Ok(#core::dispatch::object::Instance::into_object(built))
                }
            },
            (None, None) => return Err(Error::new_spanned(name, "class needs `build` or `make`")),
        };
        let entry = format_ident!("CLASS_{}", name.to_string().to_uppercase());
        Ok(quote! {
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
}
