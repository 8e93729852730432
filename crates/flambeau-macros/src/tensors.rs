//! `#[derive(Tensors)]`.

use crate::paths;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::visit_mut::VisitMut;
use syn::{Data, DeriveInput, Error, Fields, Generics, Lifetime, Member, Result, Type, parse2};

/// A way in which the value is made: the struct, or a variant of the enum.
struct Shape {
    path: TokenStream,
    members: Vec<Member>,
    names: Vec<Ident>,
    types: Vec<Type>,
}
impl Shape {
    fn of(path: TokenStream, fields: &Fields) -> Shape {
        let members: Vec<Member> = fields.members().collect();
        let names = (0..members.len()).map(|i| format_ident!("__f{i}")).collect();
        Shape { path, members, names, types: fields.iter().map(|f| f.ty.clone()).collect() }
    }
    fn pattern(&self) -> TokenStream {
        let (path, members, names) = (&self.path, &self.members, &self.names);
        quote!(#path { #(#members: #names),* })
    }
    fn made(&self, value: impl Fn(&Ident) -> TokenStream) -> TokenStream {
        let (path, members) = (&self.path, &self.members);
        let values = self.names.iter().map(value);
        quote!(#path { #(#members: #values),* })
    }
}

pub fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = parse2(input)?;
    let nn = paths::nn();
    let shapes: Vec<Shape> = match &input.data {
        Data::Struct(s) => vec![Shape::of(quote!(Self), &s.fields)],
        Data::Enum(e) => e
            .variants
            .iter()
            .map(|v| {
                let name = &v.ident;
                Shape::of(quote!(Self::#name), &v.fields)
            })
            .collect(),
        Data::Union(_) => {
            return Err(Error::new_spanned(&input.ident, "Tensors can be derived for structs and enums"));
        }
    };
    match input.generics.lifetimes().count() {
        0 => Ok(owned(&nn, &input, &shapes)),
        1 => borrowed(&nn, &input, &shapes),
        _ => Err(Error::new_spanned(&input.generics, "Tensors can be derived for structs with one lifetime")),
    }
}

fn bounded(generics: &Generics, bound: &TokenStream) -> Generics {
    let mut all = generics.clone();
    let names: Vec<Ident> = generics.type_params().map(|p| p.ident.clone()).collect();
    for n in names {
        all.make_where_clause().predicates.push(syn::parse_quote!(#n: #bound));
    }
    all
}

fn owned(nn: &TokenStream, input: &DeriveInput, shapes: &[Shape]) -> TokenStream {
    let name = &input.ident;
    let generics = bounded(&input.generics, &quote!(#nn::Tensors));
    let (head, tail, bounds) = generics.split_for_impl();
    let arms = |f: &dyn Fn(&Shape) -> TokenStream| {
        let all = shapes.iter().map(|s| {
            let (pattern, body) = (s.pattern(), f(s));
            quote!(#pattern => #body)
        });
        // an enum without variants has no values
        if shapes.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#all),* }) }
    };
    let visit = arms(&|s| {
        let all = &s.names;
        quote!({ #(#nn::Tensors::visit_tensors(#all, f);)* })
    });
    let visit_mut = arms(&|s| {
        let all = &s.names;
        quote!({ #(#nn::Tensors::visit_tensors_mut(#all, f);)* })
    });
    let same = arms(&|s| s.made(|n| quote!(#nn::Tensors::same(#n))));
    quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #head #nn::Tensors for #name #tail #bounds {
            fn visit_tensors(&self, f: &mut dyn ::std::ops::FnMut(&#nn::__private::Tensor)) {
                #visit
            }
            fn visit_tensors_mut(&mut self, f: &mut dyn ::std::ops::FnMut(&mut #nn::__private::Tensor)) {
                #visit_mut
            }
            fn same(&self) -> Self {
                #same
            }
        }
        #[automatically_derived]
        impl #head #nn::Inputs for #name #tail #bounds {
            type Kept = Self;
            type Lent<'__a> = Self;
            fn keep(&self) -> Self {
                #nn::Tensors::same(self)
            }
            fn lend(kept: &Self) -> Self {
                #nn::Tensors::same(kept)
            }
            fn shorter(&self) -> Self {
                #nn::Tensors::same(self)
            }
        }
    }
}

/// All lifetimes of a type are another one.
struct Relent(Lifetime);
impl VisitMut for Relent {
    fn visit_lifetime_mut(&mut self, l: &mut Lifetime) {
        if l.ident != "static" {
            *l = self.0.clone();
        }
    }
}
fn relent(t: &Type, to: &str) -> Type {
    let mut t = t.clone();
    Relent(Lifetime::new(to, Span::call_site())).visit_type_mut(&mut t);
    t
}

/// A struct that borrows: its fields are inputs themselves, and what they keep is kept.
fn borrowed(nn: &TokenStream, input: &DeriveInput, shapes: &[Shape]) -> Result<TokenStream> {
    let name = &input.ident;
    let ([shape], None) = (shapes, input.generics.type_params().next()) else {
        let text =
            "Tensors can be derived for structs that borrow, but for no enums and generic structs that do";
        return Err(Error::new_spanned(name, text));
    };
    // tuples are inputs up to a length, pairs of pairs have none
    let fold = |all: &[TokenStream]| all.iter().rev().fold(quote!(()), |rest, one| quote!((#one, #rest)));
    let kept: Vec<TokenStream> =
        shape.types.iter().map(|t| relent(t, "'static")).map(|t| quote!(<#t as #nn::Inputs>::Kept)).collect();
    let kept = fold(&kept);
    let keep: Vec<TokenStream> = shape.names.iter().map(|n| quote!(#nn::Inputs::keep(#n))).collect();
    let (keep, names) = (fold(&keep), &shape.names);
    let pattern = shape.pattern();
    let parts: Vec<TokenStream> = names.iter().map(|n| quote!(#n)).collect();
    let parts = fold(&parts);
    let (members, lent): (_, Vec<Type>) =
        (&shape.members, shape.types.iter().map(|t| relent(t, "'__a")).collect());
    Ok(quote! {
        #[automatically_derived]
        impl<'__x> #nn::Inputs for #name<'__x> {
            type Kept = #kept;
            type Lent<'__a> = #name<'__a>;
            fn keep(&self) -> Self::Kept {
                let #pattern = self;
                #keep
            }
            fn lend<'__a>(kept: &'__a Self::Kept) -> #name<'__a> {
                let #parts = kept;
                #name { #(#members: <#lent as #nn::Inputs>::lend(#names)),* }
            }
            fn shorter<'__a>(&'__a self) -> #name<'__a> {
                let #pattern = self;
                #name { #(#members: #nn::Inputs::shorter(#names)),* }
            }
        }
    })
}
