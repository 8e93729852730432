//! `#[nn::forward]`.

use crate::paths;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Error, FnArg, Ident, ImplItem, ImplItemFn, ItemFn, ItemImpl, Lifetime, Pat, PathArguments, Result,
    ReturnType, Type, Visibility, parse2,
};

/// Where the attribute was put instead of on an `impl` block.
fn misplaced(item: &TokenStream) -> Error {
    let place = "`#[nn::forward]` stands on an `impl` block: `#[nn::forward] impl Net { fn forward(&self, x: &Tensor) -> \
                 Tensor { .. } }`";
    match parse2::<ItemFn>(item.clone()) {
        Ok(f) => Error::new(f.sig.span(), place),
        Err(_) => match parse2::<ImplItemFn>(item.clone()) {
            Ok(f) => Error::new(f.sig.span(), place),
            Err(_) => Error::new(Span::call_site(), place),
        },
    }
}

/// Lifetimes of references that are not written, or have a name of the function, become `'__t`.
struct Named<'a>(&'a [Ident]);
impl VisitMut for Named<'_> {
    fn visit_type_reference_mut(&mut self, r: &mut syn::TypeReference) {
        let own = r.lifetime.as_ref().is_none_or(|l| l.ident == "_" || self.0.contains(&l.ident));
        if own {
            r.lifetime = Some(Lifetime::new("'__t", Span::call_site()));
        }
        visit_mut::visit_type_mut(self, &mut r.elem);
    }
    fn visit_lifetime_mut(&mut self, l: &mut Lifetime) {
        if l.ident == "_" || self.0.contains(&l.ident) {
            *l = Lifetime::new("'__t", l.span());
        }
    }
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut syn::ParenthesizedGenericArguments) {}
    fn visit_type_bare_fn_mut(&mut self, _: &mut syn::TypeBareFn) {}
}
/// Finds a reference whose lifetime is not that of a static.
struct Borrows(Option<Span>);
impl VisitMut for Borrows {
    fn visit_type_reference_mut(&mut self, r: &mut syn::TypeReference) {
        if r.lifetime.as_ref().is_none_or(|l| l.ident != "static") {
            self.0 = Some(r.span());
        }
    }
}

/// What a `Result` is a result of.
fn result_of(t: &Type) -> Option<Type> {
    let Type::Path(p) = t else { return None };
    let last = p.path.segments.last().filter(|s| s.ident == "Result")?;
    let PathArguments::AngleBracketed(a) = &last.arguments else { return None };
    a.args.iter().find_map(|a| if let syn::GenericArgument::Type(t) = a { Some(t.clone()) } else { None })
}

fn position(block: &ItemImpl, name: &str) -> Option<usize> {
    block.items.iter().position(|i| matches!(i, ImplItem::Fn(f) if f.sig.ident == name))
}
fn function(item: &ImplItem) -> Option<&ImplItemFn> {
    if let ImplItem::Fn(f) = item { Some(f) } else { None }
}

pub fn expand(attr: TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !attr.is_empty() {
        return Err(Error::new_spanned(attr, "`#[nn::forward]` takes no arguments"));
    }
    let Ok(mut block) = parse2::<ItemImpl>(item.clone()) else { return Err(misplaced(&item)) };
    if let Some((_, path, _)) = &block.trait_ {
        let text = "`#[nn::forward]` implements the trait itself: write `impl Net { fn forward(&self, ...) { .. } }`, without \
                    a trait";
        return Err(Error::new_spanned(path, text));
    }
    let (plain, fallible) = (position(&block, "forward"), position(&block, "try_forward"));
    let Some(at) = plain.or(fallible) else {
        let text = "`#[nn::forward]` needs `fn forward(&self, ...)` in this block: what the module computes";
        return Err(Error::new_spanned(&block.self_ty, text));
    };
    let Some(body) = function(&block.items[at]).cloned() else { return Err(misplaced(&item)) };
    let parts = Parts::of(&block, &body)?;
    // a `forward` that may fail is written once, under either name
    let renamed = plain.is_some() && parts.fallible;
    if renamed && fallible.is_some() {
        let text =
            "`forward` returns `Result` here, which is what `try_forward` is for: leave one of them out";
        return Err(Error::new(body.sig.ident.span(), text));
    }
    if plain.is_none() && !parts.fallible {
        return Err(Error::new(body.sig.output.span(), "`try_forward` returns `Result`"));
    }
    if renamed && let ImplItem::Fn(f) = &mut block.items[at] {
        f.sig.ident = Ident::new("try_forward", f.sig.ident.span());
    }
    let has_forward = plain.is_some() && !renamed;
    let has_try = fallible.is_some() || renamed;
    let own = parts.inherent(&block, has_forward, has_try);
    let traits = parts.traits(&block);
    Ok(quote!(#block #own #traits))
}

/// What the function says.
struct Parts {
    nn: TokenStream,
    vis: TokenStream,
    names: Vec<Ident>,
    /// Types of the arguments as they are written, and with the lifetime `'__t`.
    types: Vec<Type>,
    lent: Vec<Type>,
    generics: TokenStream,
    output: Type,
    fallible: bool,
}
impl Parts {
    fn of(block: &ItemImpl, f: &ImplItemFn) -> Result<Parts> {
        let sig = &f.sig;
        if let Some(a) = &sig.asyncness {
            return Err(Error::new(a.span, "`forward` is no async function"));
        }
        let mut lifetimes = Vec::new();
        for p in &sig.generics.params {
            match p {
                syn::GenericParam::Lifetime(l) => lifetimes.push(l.lifetime.ident.clone()),
                other => {
                    let text = "`forward` takes arguments of known types: put type parameters on the struct";
                    return Err(Error::new_spanned(other, text));
                }
            }
        }
        let mut inputs = sig.inputs.iter();
        let by_ref = |r: &syn::Receiver| r.reference.is_some() && r.mutability.is_none();
        match inputs.next() {
            Some(FnArg::Receiver(r)) if by_ref(r) => {}
            Some(FnArg::Receiver(r)) => {
                let text = "`forward` takes `&self`: a module is shared while it runs. What changes in a call stands in a \
                            `Mutex`, an atomic or a buffer";
                return Err(Error::new_spanned(r, text));
            }
            other => {
                return Err(Error::new(
                    other.map_or(sig.span(), Spanned::span),
                    "`forward` takes `&self` first",
                ));
            }
        }
        let (mut names, mut types, mut lent) = (Vec::new(), Vec::new(), Vec::new());
        for (i, a) in inputs.enumerate() {
            let FnArg::Typed(a) = a else { continue };
            let name = match &*a.pat {
                Pat::Ident(p) => format_ident!("{}", p.ident.to_string().trim_start_matches('_')),
                _ => format_ident!("input{i}"),
            };
            let name = if names.contains(&name) { format_ident!("input{i}") } else { name };
            if let Type::ImplTrait(t) = &*a.ty {
                let text = "`forward` takes arguments of known types, no `impl Trait`";
                return Err(Error::new_spanned(t, text));
            }
            names.push(name);
            let mut t = (*a.ty).clone();
            types.push(t.clone());
            Named(&lifetimes).visit_type_mut(&mut t);
            lent.push(t);
        }
        let whole = match &sig.output {
            ReturnType::Default => Type::Verbatim(quote_spanned!(sig.span()=> ())),
            ReturnType::Type(_, t) => (**t).clone(),
        };
        let inner = result_of(&whole);
        let fallible = inner.is_some();
        let mut output = inner.unwrap_or(whole);
        let mut borrows = Borrows(None);
        borrows.visit_type_mut(&mut output);
        if let Some(span) = borrows.0 {
            let text = "`forward` gives values of its own, no references: a tensor is a handle, and `clone` of it copies no \
                        elements";
            return Err(Error::new(span, text));
        }
        let vis = match (&f.vis, block.self_ty.span()) {
            // the methods of a trait would be as public as the struct
            (Visibility::Inherited, _) => quote!(pub),
            (v, _) => quote!(#v),
        };
        let generics = sig.generics.params.iter();
        let generics = if lifetimes.is_empty() { quote!() } else { quote!(<#(#generics),*>) };
        Ok(Parts { nn: paths::nn(), vis, names, types, lent, generics, output, fallible })
    }
    /// The inputs as one value.
    fn tuple(&self) -> TokenStream {
        let names = &self.names;
        quote!((#(#names,)*))
    }
    fn inherent(&self, block: &ItemImpl, has_forward: bool, has_try: bool) -> TokenStream {
        let Parts { nn, vis, names, types, generics, output, .. } = self;
        let (head, _, _) = block.generics.split_for_impl();
        let (target, bounds) = (&block.self_ty, &block.generics.where_clause);
        let hidden = quote!(#[allow(dead_code, private_interfaces, clippy::too_many_arguments)]);
        let forward = (!has_forward).then(|| {
            quote! {
                /// Computes it, without hooks; panics with the error's text.
                #hidden
                #[track_caller]
                #vis fn forward #generics(&self, #(#names: #types),*) -> #output {
                    #nn::__private::expect(self.try_forward(#(#names),*))
                }
            }
        });
        let try_forward = (!has_try).then(|| {
            quote! {
                /// Computes it, without hooks. What `forward` panics on, this does too.
                ///
                /// # Errors
                /// None.
                #hidden
                #vis fn try_forward #generics(&self, #(#names: #types),*) -> #nn::__private::Result<#output> {
                    ::std::result::Result::Ok(self.forward(#(#names),*))
                }
            }
        });
        let tuple = self.tuple();
        // the module's own type parameters need bounds that only the derive knows
        let is_module = (!block.generics.params.is_empty()).then(|| quote!(where Self: #nn::Module));
        quote! {
            #[automatically_derived]
            impl #head #target #bounds {
                #forward
                #try_forward
                /// Runs the module: its hooks, `forward`, then hooks again. Panics with the error's text.
                #hidden
                #[track_caller]
                #[doc(alias = "torch.nn.Module.__call__")]
                #vis fn call #generics(&self, #(#names: #types),*) -> #output #is_module {
                    #nn::__private::call(self, #tuple)
                }
                /// Runs the module as `call` does, with an error instead of a panic.
                ///
                /// # Errors
                /// Inputs that do not fit; those of hooks.
                #hidden
                #[track_caller]
                #vis fn try_call #generics(
                    &self,
                    #(#names: #types),*
                ) -> #nn::__private::Result<#output> #is_module {
                    #nn::__private::try_call(self, #tuple)
                }
            }
        }
    }
    /// `Forward` of the tuple, and of a single argument as it is.
    fn traits(&self, block: &ItemImpl) -> TokenStream {
        let Parts { nn, names, lent, output, fallible, .. } = self;
        let target = &block.self_ty;
        let mut generics = block.generics.clone();
        generics.params.insert(0, syn::parse_quote!('__t));
        if !block.generics.params.is_empty() {
            generics.make_where_clause().predicates.push(syn::parse_quote!(Self: #nn::Module));
        }
        let (head, _, bounds) = generics.split_for_impl();
        let bodies = if *fallible {
            quote! {
                #[track_caller]
                fn forward(&self, __inputs: __Inputs) -> #output {
                    let __pattern = __inputs;
                    #nn::__private::expect(<#target>::try_forward(self, #(#names),*))
                }
                fn try_forward(&self, __inputs: __Inputs) -> #nn::__private::Result<#output> {
                    let __pattern = __inputs;
                    <#target>::try_forward(self, #(#names),*)
                }
            }
        } else {
            quote! {
                #[track_caller]
                fn forward(&self, __inputs: __Inputs) -> #output {
                    let __pattern = __inputs;
                    <#target>::forward(self, #(#names),*)
                }
            }
        };
        let one = |inputs: TokenStream, pattern: TokenStream| {
            let bodies = replace(bodies.clone(), &inputs, &pattern);
            quote! {
                #[automatically_derived]
                impl #head #nn::Forward<#inputs> for #target #bounds {
                    type Output = #output;
                    #bodies
                }
            }
        };
        let tuple = one(quote!((#(#lent,)*)), self.tuple());
        let single = match (&lent[..], &names[..]) {
            ([t], [n]) => Some(one(quote!(#t), quote!(#n))),
            _ => None,
        };
        quote!(#tuple #single)
    }
}
/// The code with the inputs' type and pattern in the place of their names.
fn replace(code: TokenStream, inputs: &TokenStream, pattern: &TokenStream) -> TokenStream {
    code.into_iter()
        .flat_map(|t| match t {
            proc_macro2::TokenTree::Group(g) => {
                let mut new = proc_macro2::Group::new(g.delimiter(), replace(g.stream(), inputs, pattern));
                new.set_span(g.span());
                TokenStream::from(proc_macro2::TokenTree::Group(new))
            }
            proc_macro2::TokenTree::Ident(i) if i == "__Inputs" => inputs.clone(),
            proc_macro2::TokenTree::Ident(i) if i == "__pattern" => pattern.clone(),
            other => TokenStream::from(other),
        })
        .collect()
}
