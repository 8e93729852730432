//! Where the code that a macro emits finds the library: through the facade, or through the single crates.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

fn named(package: &str, library: &str) -> Option<TokenStream> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Itself => library.to_owned(),
        // the package's library may have another name than the package; a rename by the user is the last word
        FoundCrate::Name(n) if n == package.replace('-', "_") => library.to_owned(),
        FoundCrate::Name(n) => n,
    };
    let name = Ident::new(&name, Span::call_site());
    Some(quote!(::#name))
}

/// `::flambeau_nn`, or `::torch::nn`.
pub fn nn() -> TokenStream {
    if let Some(facade) = named("flambeau", "torch") {
        return quote!(#facade::nn);
    }
    named("flambeau-nn", "flambeau_nn").unwrap_or_else(|| quote!(::flambeau_nn))
}

/// `::flambeau_data`, or `::torch::utils::data`.
pub fn data() -> TokenStream {
    if let Some(data) = named("flambeau-data", "flambeau_data") {
        return data;
    }
    named("flambeau", "torch").map_or_else(|| quote!(::flambeau_data), |f| quote!(#f::utils::data))
}

/// `::flambeau_library`, or `::torch::library`: where calls by name are, if the crate has them.
pub fn library() -> TokenStream {
    if let Some(library) = named("flambeau-library", "flambeau_library") {
        return library;
    }
    named("flambeau", "torch").map_or_else(|| quote!(::flambeau_library), |f| quote!(#f::library))
}

/// `::flambeau_core`, or `::torch::__core`.
pub fn core() -> TokenStream {
    if let Some(core) = named("flambeau-core", "flambeau_core") {
        return core;
    }
    named("flambeau", "torch").map_or_else(|| quote!(::flambeau_core), |f| quote!(#f::__core))
}
