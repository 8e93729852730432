//! Batches in pinned memory: tensors, and the containers of tensors that batches are.

use flambeau_core::{Result, Tensor};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};

#[cfg(feature = "by-name")]
fn value(v: &mut flambeau_core::Value) -> Result<()> {
    use flambeau_core::Value;
    match v {
        Value::Tensor(t) => tensor(t),
        Value::List(l) | Value::Tuple(l) => l.iter_mut().try_for_each(value),
        Value::Dict(d) => d.iter_mut().try_for_each(|(_, v)| value(v)),
        _ => Ok(()),
    }
}
fn tensor(t: &mut Tensor) -> Result<()> {
    // what is not dense stays where it is, as in PyTorch
    if t.layout() == flambeau_core::Layout::Strided && t.device() == flambeau_core::Device::Cpu {
        *t = t.try_pin_memory()?;
    }
    Ok(())
}
/// Moves a batch to pinned memory. Batches are of any type: those that hold tensors in another way stay as they are.
pub(crate) fn batch<B: 'static>(mut b: B) -> Result<B> {
    let any: &mut dyn Any = &mut b;
    macro_rules! holding {
        ($($t:ty, $v:ident => $all:expr);* $(;)?) => {$(
            if let Some($v) = any.downcast_mut::<$t>() {
                $all.into_iter().try_for_each(tensor)?;
                return Ok(b);
            }
        )*};
    }
    holding! {
        Tensor, t => [t];
        (Tensor, Tensor), t => [&mut t.0, &mut t.1];
        (Tensor, Tensor, Tensor), t => [&mut t.0, &mut t.1, &mut t.2];
        (Tensor, Tensor, Tensor, Tensor), t => [&mut t.0, &mut t.1, &mut t.2, &mut t.3];
        Vec<Tensor>, t => t.iter_mut();
        [Tensor; 1], t => t.iter_mut();
        [Tensor; 2], t => t.iter_mut();
        [Tensor; 3], t => t.iter_mut();
        [Tensor; 4], t => t.iter_mut();
        Option<Tensor>, t => t.iter_mut();
        BTreeMap<String, Tensor>, t => t.values_mut();
        HashMap<String, Tensor>, t => t.values_mut();
        Vec<(Tensor, Tensor)>, t => t.iter_mut().flat_map(|p| [&mut p.0, &mut p.1]);
    }
    #[cfg(feature = "by-name")]
    if let Some(v) = any.downcast_mut::<flambeau_core::Value>() {
        value(v)?;
    }
    Ok(b)
}
