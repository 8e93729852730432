//! `#[options]`: the keywords of a function.

use super::field::{Field, strip};
use crate::paths;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Fields, ItemStruct, Result, parse2};

pub fn expand(item: TokenStream) -> Result<TokenStream> {
    let mut item: ItemStruct = parse2(item)?;
    let Fields::Named(named) = &mut item.fields else {
        return Err(Error::new_spanned(&item.ident, "named fields only"));
    };
    let core = paths::core();
    let fields = named.named.iter().map(|f| Field::of(f, &core)).collect::<Result<Vec<_>>>()?;
    named.named.iter_mut().for_each(strip);
    let (idents, mut defaults) = (fields.iter().map(|f| &f.ident), Vec::new());
    for f in &fields {
        let text = "a keyword has a default: `#[default(value)]`, or an `Option`";
        defaults.push(f.default.as_ref().ok_or_else(|| Error::new_spanned(&f.ident, text))?);
    }
    let (name, setters) = (&item.ident, fields.iter().map(|f| f.setter(&core)));
    Ok(quote! {
        #[derive(Clone, Debug)]
        #item
        impl #name {
            /// The documented defaults.
            pub fn new() -> Self {
                #name { #(#idents: #defaults),* }
            }
            #(#setters)*
        }
        impl ::std::default::Default for #name {
            fn default() -> Self {
                Self::new()
            }
        }
    })
}
