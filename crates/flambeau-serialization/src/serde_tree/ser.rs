//! From serde's data model to a tree.

use super::{Message, tensor};
use crate::tensors::ToTree;
use crate::torch_format::Tree;
use flambeau_core::{Result, Tensor};
use serde::ser::{self, Serialize};

type Node = Tree<Tensor>;

/// The tree of a value: structs and maps are dicts, sequences lists, tuples tuples, unit enum variants strings,
/// other variants a dict of one entry.
///
/// # Errors
/// What the value's `Serialize` reports.
pub fn to_tree<T: Serialize + ?Sized>(value: &T) -> Result<Node> {
    Ok(tensor::with_list(|| value.serialize(Serializer))?)
}

/// Serializes whatever has serde's `Serialize` with [`save`](crate::tensors::save).
#[derive(Clone, Copy, Debug)]
pub(super) struct Serializer;

fn text(s: &str) -> Node {
    Tree::Str(s.to_owned())
}

/// Items under way, and the variant that they belong to.
pub(super) struct Items {
    items: Vec<Node>,
    tuple: bool,
    variant: Option<&'static str>,
}
impl Items {
    fn done(self) -> Node {
        wrap(self.variant, if self.tuple { Tree::Tuple(self.items) } else { Tree::List(self.items) })
    }
}
/// Entries under way.
pub(super) struct Entries {
    entries: Vec<(Node, Node)>,
    key: Option<Node>,
    variant: Option<&'static str>,
}
fn wrap(variant: Option<&'static str>, value: Node) -> Node {
    match variant {
        Some(v) => Tree::Dict(vec![(text(v), value)]),
        None => value,
    }
}
fn items(n: Option<usize>, tuple: bool, variant: Option<&'static str>) -> Result<Items, Message> {
    Ok(Items { items: Vec::with_capacity(n.unwrap_or(0).min(1 << 16)), tuple, variant })
}
fn entries(variant: Option<&'static str>) -> Result<Entries, Message> {
    Ok(Entries { entries: Vec::new(), key: None, variant })
}

macro_rules! plain {
    ($($name:ident($t:ty)),*) => {$(
        fn $name(self, v: $t) -> Result<Node, Message> {
            Ok(v.to_tree())
        }
    )*};
}
impl ser::Serializer for Serializer {
    type Ok = Node;
    type Error = Message;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Entries;
    type SerializeStruct = Entries;
    type SerializeStructVariant = Entries;

    plain! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_i128(i128), serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_f32(f32), serialize_f64(f64), serialize_str(&str)
    }
    fn serialize_u128(self, v: u128) -> Result<Node, Message> {
        Ok(match i128::try_from(v) {
            Ok(v) => v.to_tree(),
            Err(_) => Tree::BigInt(v.to_le_bytes().iter().copied().chain([0]).collect()),
        })
    }
    fn serialize_char(self, v: char) -> Result<Node, Message> {
        Ok(Tree::Str(v.to_string()))
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<Node, Message> {
        Ok(Tree::Bytes(v.to_vec()))
    }
    fn serialize_none(self) -> Result<Node, Message> {
        Ok(Tree::None)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, v: &T) -> Result<Node, Message> {
        v.serialize(self)
    }
    fn serialize_unit(self) -> Result<Node, Message> {
        Ok(Tree::None)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Node, Message> {
        Ok(Tree::None)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, v: &'static str) -> Result<Node, Message> {
        Ok(text(v))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        v: &T,
    ) -> Result<Node, Message> {
        let inner = v.serialize(self)?;
        if name != tensor::NAME {
            return Ok(inner);
        }
        let place = inner.as_i64().and_then(|i| u64::try_from(i).ok());
        let t = place.and_then(tensor::get).ok_or_else(|| Message("a tensor that is not there".into()))?;
        Ok(Tree::Tensor(t))
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        v: &T,
    ) -> Result<Node, Message> {
        Ok(wrap(Some(variant), v.serialize(self)?))
    }
    fn serialize_seq(self, n: Option<usize>) -> Result<Items, Message> {
        items(n, false, None)
    }
    fn serialize_tuple(self, n: usize) -> Result<Items, Message> {
        items(Some(n), true, None)
    }
    fn serialize_tuple_struct(self, _: &'static str, n: usize) -> Result<Items, Message> {
        items(Some(n), true, None)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        n: usize,
    ) -> Result<Items, Message> {
        items(Some(n), true, Some(variant))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Entries, Message> {
        entries(None)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Entries, Message> {
        entries(None)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Entries, Message> {
        entries(Some(variant))
    }
}

macro_rules! sequence {
    ($($trait:ident::$name:ident),*) => {$(
        impl ser::$trait for Items {
            type Ok = Node;
            type Error = Message;
            fn $name<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), Message> {
                self.items.push(v.serialize(Serializer)?);
                Ok(())
            }
            fn end(self) -> Result<Node, Message> {
                Ok(self.done())
            }
        }
    )*};
}
sequence! {
    SerializeSeq::serialize_element, SerializeTuple::serialize_element, SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
}
macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Entries {
            type Ok = Node;
            type Error = Message;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, k: &'static str, v: &T) -> Result<(), Message> {
                self.entries.push((text(k), v.serialize(Serializer)?));
                Ok(())
            }
            fn end(self) -> Result<Node, Message> {
                Ok(wrap(self.variant, Tree::Dict(self.entries)))
            }
        }
    )*};
}
fields!(SerializeStruct, SerializeStructVariant);
impl ser::SerializeMap for Entries {
    type Ok = Node;
    type Error = Message;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, k: &T) -> Result<(), Message> {
        self.key = Some(k.serialize(Serializer)?);
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), Message> {
        let key = self.key.take().ok_or_else(|| Message("a value without a key".into()))?;
        self.entries.push((key, v.serialize(Serializer)?));
        Ok(())
    }
    fn end(self) -> Result<Node, Message> {
        Ok(wrap(self.variant, Tree::Dict(self.entries)))
    }
}
