//! `#[derive(Collate)]`.

use crate::paths;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Result, parse2};

pub fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = parse2(input)?;
    let data = paths::data();
    let (name, vis) = (&input.ident, &input.vis);
    let fields = match &input.data {
        Data::Struct(s) => match &s.fields {
            Fields::Named(f) => &f.named,
            _ => {
                return Err(Error::new_spanned(
                    name,
                    "Collate can be derived for structs with named fields only",
                ));
            }
        },
        _ => return Err(Error::new_spanned(name, "Collate can be derived for structs only")),
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "Collate cannot be derived for a struct with parameters",
        ));
    }
    let batch = format_ident!("{name}Batch");
    let doc = format!("A batch of [`{name}`].");
    let columns: Vec<_> = fields.iter().map(|f| &f.ident).collect();
    let types: Vec<_> = fields.iter().map(|f| &f.ty).collect();
    let declared = fields.iter().map(|f| {
        let (vis, ident, ty) = (&f.vis, &f.ident, &f.ty);
        let doc = format!("The batch of `{}`.", ident.as_ref().map(ToString::to_string).unwrap_or_default());
        quote!(#[doc = #doc] #vis #ident: <#ty as #data::Collate>::Batch)
    });
    Ok(quote! {
        #[doc = #doc]
        #vis struct #batch {
            #(#declared,)*
        }
        impl #data::Collate for #name {
            type Batch = #batch;
            fn collate(samples: ::std::vec::Vec<Self>) -> #data::__core::Result<#batch> {
                #(let mut #columns = ::std::vec::Vec::with_capacity(samples.len());)*
                for sample in samples {
                    #(#columns.push(sample.#columns);)*
                }
                ::std::result::Result::Ok(#batch {
                    #(#columns: <#types as #data::Collate>::collate(#columns)?,)*
                })
            }
        }
    })
}
