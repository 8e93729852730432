//! Tensors in types with serde's derives: `#[serde(with = "tensor")]`.
//!
//! serde knows no tensors, so one travels beside it: the field writes a number under a name that only this crate's
//! serializer and deserializer know, and the number is the tensor's place in a list of this thread. Other formats
//! (JSON and the like) refuse the field.

use flambeau_core::Tensor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;

/// The name that marks a tensor.
pub(super) const NAME: &str = "$flambeau::Tensor";

thread_local! {
    /// Tensors under way; empty outside of `to_tree` and `from_tree`.
    static UNDER_WAY: RefCell<Option<Vec<Tensor>>> = const { RefCell::new(None) };
}

/// Runs `f` with an own list of tensors.
pub(super) fn with_list<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Vec<Tensor>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let own = UNDER_WAY.try_with(|u| u.replace(self.0.take()));
            drop(own);
        }
    }
    let _restore = Restore(UNDER_WAY.try_with(|u| u.replace(Some(Vec::new()))).ok().flatten());
    f()
}
/// Puts a tensor into the list and gives its place.
pub(super) fn put(t: &Tensor) -> Option<u64> {
    let place = UNDER_WAY.try_with(|u| {
        let mut list = u.borrow_mut();
        let list = list.as_mut()?;
        list.push(t.clone());
        Some(list.len() as u64 - 1)
    });
    place.ok().flatten()
}
/// The tensor at a place.
pub(super) fn get(place: u64) -> Option<Tensor> {
    let found = UNDER_WAY.try_with(|u| u.borrow().as_ref()?.get(usize::try_from(place).ok()?).cloned());
    found.ok().flatten()
}

struct Field<'a>(&'a Tensor);
impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let place = put(self.0).ok_or_else(|| {
            serde::ser::Error::custom("a tensor can only be serialized into a checkpoint (to_tree)")
        })?;
        s.serialize_newtype_struct(NAME, &place)
    }
}
struct Owned(Tensor);
impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Owned;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a tensor")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Owned, D::Error> {
                let place = u64::deserialize(d)?;
                let t = get(place);
                t.map(Owned).ok_or_else(|| {
                    serde::de::Error::custom(
                        "a tensor can only be deserialized from a checkpoint (from_tree)",
                    )
                })
            }
        }
        d.deserialize_newtype_struct(NAME, Visitor)
    }
}

/// Writes a tensor field.
///
/// # Errors
/// Formats other than this crate's trees.
pub fn serialize<S: Serializer>(t: &Tensor, s: S) -> Result<S::Ok, S::Error> {
    Field(t).serialize(s)
}
/// Reads a tensor field.
///
/// # Errors
/// Formats other than this crate's trees; values that are no tensor.
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Tensor, D::Error> {
    Owned::deserialize(d).map(|o| o.0)
}

/// `Option<Tensor>`: `None`, or a tensor.
pub mod optional {
    use super::*;

    /// Writes the field.
    ///
    /// # Errors
    /// As for a tensor.
    pub fn serialize<S: Serializer>(t: &Option<Tensor>, s: S) -> Result<S::Ok, S::Error> {
        t.as_ref().map(Field).serialize(s)
    }
    /// Reads the field.
    ///
    /// # Errors
    /// As for a tensor.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Tensor>, D::Error> {
        Ok(Option::<Owned>::deserialize(d)?.map(|o| o.0))
    }
}

/// `Vec<Tensor>`: a list of tensors.
pub mod list {
    use super::*;

    /// Writes the field.
    ///
    /// # Errors
    /// As for a tensor.
    pub fn serialize<S: Serializer>(t: &[Tensor], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(t.iter().map(Field))
    }
    /// Reads the field.
    ///
    /// # Errors
    /// As for a tensor.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Tensor>, D::Error> {
        Ok(Vec::<Owned>::deserialize(d)?.into_iter().map(|o| o.0).collect())
    }
}

/// Maps from names to tensors: a dict.
pub mod map {
    use super::*;
    use std::collections::BTreeMap;

    /// Writes the field.
    ///
    /// # Errors
    /// As for a tensor.
    pub fn serialize<'a, M, S: Serializer>(t: M, s: S) -> Result<S::Ok, S::Error>
    where
        M: IntoIterator<Item = (&'a String, &'a Tensor)>,
    {
        s.collect_map(t.into_iter().map(|(n, t)| (n, Field(t))))
    }
    /// Reads the field.
    ///
    /// # Errors
    /// As for a tensor.
    pub fn deserialize<'de, M: FromIterator<(String, Tensor)>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<M, D::Error> {
        Ok(BTreeMap::<String, Owned>::deserialize(d)?.into_iter().map(|(n, o)| (n, o.0)).collect())
    }
}
