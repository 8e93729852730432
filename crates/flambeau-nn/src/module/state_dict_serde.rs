//! State dicts in the formats of serde: a map from names to tensors, as a file of safetensors holds them. Versions of modules' saved
//! forms are not written; `torch::save` keeps them.

use crate::module::StateDict;
use flambeau_core::Tensor;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;

impl Serialize for StateDict {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.iter())
    }
}
impl<'de> Deserialize<'de> for StateDict {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Vec<(String, Tensor)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<Self::Value, A::Error> {
                let (mut all, mut seen) = (Vec::new(), HashSet::new());
                while let Some((name, t)) = a.next_entry::<String, Tensor>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("two tensors named `{name}`")));
                    }
                    all.push((name, t));
                }
                Ok(all)
            }
        }
        d.deserialize_map(Names).map(StateDict::from_distinct)
    }
}
