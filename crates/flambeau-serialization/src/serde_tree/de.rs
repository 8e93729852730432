//! From a tree to serde's data model.

use super::{Message, tensor};
use crate::torch_format::Tree;
use flambeau_core::{Result, Tensor};
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};

type Node = Tree<Tensor>;

/// A value of a tree that has the shape [`to_tree`](super::to_tree) gives it. Dicts may have entries that the type
/// does not name; numbers may be `int` where the type has a float.
///
/// # Errors
/// A tree of another shape: which field, and what was found.
pub fn from_tree<T: DeserializeOwned>(tree: &Node) -> Result<T> {
    Ok(tensor::with_list(|| T::deserialize(Deserializer(tree)))?)
}

#[derive(Clone, Copy)]
struct Deserializer<'a>(&'a Node);

impl Deserializer<'_> {
    fn wrong(self, want: &str) -> Message {
        Message(format!("expected {want}, but got {}", self.0.type_name()))
    }
    /// A larger integer, where it fits.
    fn wide(self) -> Option<i128> {
        match self.0 {
            Tree::BigInt(b) if b.len() <= 16 => {
                let sign = if b.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 };
                let mut full = [sign; 16];
                full[..b.len()].copy_from_slice(b);
                Some(i128::from_le_bytes(full))
            }
            _ => None,
        }
    }
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
            match self.0 {
                Tree::Float(_) => Err(self.wrong("an int")),
                _ => self.deserialize_any(v),
            }
        }
    )*};
}
impl<'de> de::Deserializer<'de> for Deserializer<'_> {
    type Error = Message;

    fn deserialize_any<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        match self.0 {
            Tree::None => v.visit_unit(),
            Tree::Bool(b) => v.visit_bool(*b),
            Tree::Int(i) => v.visit_i64(*i),
            Tree::BigInt(_) => match self.wide() {
                Some(i) => match u64::try_from(i) {
                    Ok(u) => v.visit_u64(u),
                    Err(_) => v.visit_i128(i),
                },
                None => Err(self.wrong("an int of 128 bits")),
            },
            Tree::Float(f) => v.visit_f64(*f),
            Tree::Str(s) => v.visit_str(s),
            Tree::Bytes(b) | Tree::ByteArray(b) => v.visit_bytes(b),
            Tree::List(_) | Tree::Tuple(_) | Tree::Set(_) | Tree::FrozenSet(_) | Tree::Size(_) => {
                self.deserialize_seq(v)
            }
            Tree::Dict(_) | Tree::OrderedDict(..) | Tree::DefaultDict(..) | Tree::Counter(_) => {
                self.deserialize_map(v)
            }
            Tree::Complex(re, im) => visit_items(v, &[Tree::Float(*re), Tree::Float(*im)]),
            Tree::DType(d) => v.visit_str(d.name()),
            Tree::Device(d) | Tree::Layout(d) => v.visit_str(d),
            Tree::Tensor(_) => self.deserialize_newtype_struct(tensor::NAME, v),
            _ => Err(Message(format!("a {} has no form in serde", self.0.type_name()))),
        }
    }
    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }
    fn deserialize_f32<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        self.deserialize_f64(v)
    }
    fn deserialize_f64<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        match self.0 {
            // Python writes a float that is whole as an int as soon as someone typed it so
            Tree::Int(i) => v.visit_f64(*i as f64),
            _ => self.deserialize_any(v),
        }
    }
    fn deserialize_option<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        if self.0.is_none() { v.visit_none() } else { v.visit_some(self) }
    }
    fn deserialize_unit<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        if self.0.is_none() { v.visit_unit() } else { Err(self.wrong("None")) }
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, v: V) -> Result<V::Value, Message> {
        self.deserialize_unit(v)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        v: V,
    ) -> Result<V::Value, Message> {
        if name != tensor::NAME {
            return v.visit_newtype_struct(self);
        }
        let t = self.0.as_tensor().ok_or_else(|| self.wrong("a Tensor"))?;
        let place = tensor::put(t).ok_or_else(|| Message("a tensor outside of from_tree".into()))?;
        v.visit_newtype_struct(place.into_deserializer())
    }
    fn deserialize_seq<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        match (self.0, self.0.items(), self.0.as_bytes()) {
            (_, Some(items), _) => visit_items(v, items),
            (_, _, Some(bytes)) => {
                let items: Vec<Node> = bytes.iter().map(|&b| Tree::Int(b.into())).collect();
                visit_items(v, &items)
            }
            (Tree::Size(s), ..) => {
                let items: Vec<Node> = s.iter().map(|&i| Tree::Int(i)).collect();
                visit_items(v, &items)
            }
            (Tree::Complex(re, im), ..) => visit_items(v, &[Tree::Float(*re), Tree::Float(*im)]),
            _ => Err(self.wrong("a list or tuple")),
        }
    }
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, v: V) -> Result<V::Value, Message> {
        self.deserialize_seq(v)
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        v: V,
    ) -> Result<V::Value, Message> {
        self.deserialize_seq(v)
    }
    fn deserialize_map<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        let entries = self.0.entries().ok_or_else(|| self.wrong("a dict"))?;
        v.visit_map(Entries { rest: entries, value: None })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        v: V,
    ) -> Result<V::Value, Message> {
        self.deserialize_map(v)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        v: V,
    ) -> Result<V::Value, Message> {
        match (self.0, self.0.entries()) {
            (Tree::Str(name), _) => v.visit_enum(Variant { name, value: None }),
            (_, Some([(Tree::Str(name), value)])) => v.visit_enum(Variant { name, value: Some(value) }),
            _ => Err(self.wrong("the name of a variant, or a dict of one entry")),
        }
    }
    fn deserialize_ignored_any<V: Visitor<'de>>(self, v: V) -> Result<V::Value, Message> {
        v.visit_unit()
    }
    serde::forward_to_deserialize_any! { bool char str string bytes byte_buf identifier }
}

fn visit_items<'de, V: Visitor<'de>>(v: V, items: &[Node]) -> Result<V::Value, Message> {
    let mut rest = Items(items);
    let value = v.visit_seq(&mut rest)?;
    if rest.0.is_empty() {
        return Ok(value);
    }
    Err(Message(format!("{} items where {} are expected", items.len(), items.len() - rest.0.len())))
}

struct Items<'a>(&'a [Node]);
impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Message;
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Message> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(None) };
        self.0 = rest;
        seed.deserialize(Deserializer(first)).map(Some)
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}
struct Entries<'a> {
    rest: &'a [(Node, Node)],
    value: Option<(&'a Node, &'a Node)>,
}
impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Message;
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Message> {
        let Some(((k, v), rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        self.value = Some((k, v));
        seed.deserialize(Deserializer(k)).map(Some)
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Message> {
        let (k, v) = self.value.take().ok_or_else(|| Message("a value before its key".into()))?;
        let named = |e: Message| match k {
            Tree::Str(k) => Message(format!("{k}: {e}")),
            _ => e,
        };
        seed.deserialize(Deserializer(v)).map_err(named)
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Variant<'a> {
    name: &'a str,
    value: Option<&'a Node>,
}
impl<'de, 'a> de::EnumAccess<'de> for Variant<'a> {
    type Error = Message;
    type Variant = Contents<'a>;
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Contents<'a>), Message> {
        let name: de::value::StrDeserializer<'_, Message> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Contents(self.value)))
    }
}
struct Contents<'a>(Option<&'a Node>);
impl Contents<'_> {
    fn missing() -> Message {
        Message("a variant without its value".into())
    }
}
impl<'de> de::VariantAccess<'de> for Contents<'_> {
    type Error = Message;
    fn unit_variant(self) -> Result<(), Message> {
        match self.0 {
            None | Some(Tree::None) => Ok(()),
            Some(v) => Err(Deserializer(v).wrong("no value")),
        }
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Message> {
        seed.deserialize(Deserializer(self.0.ok_or_else(Self::missing)?))
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, v: V) -> Result<V::Value, Message> {
        de::Deserializer::deserialize_seq(Deserializer(self.0.ok_or_else(Self::missing)?), v)
    }
    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], v: V) -> Result<V::Value, Message> {
        de::Deserializer::deserialize_map(Deserializer(self.0.ok_or_else(Self::missing)?), v)
    }
}
