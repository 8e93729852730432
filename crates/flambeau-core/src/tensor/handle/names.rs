//! Names of a tensor's dimensions. Few tensors have any: the key [`Key::Named`] says so, and nothing else looks.

use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::keys::Key;
use crate::types::names::Names;
use crate::types::order::RwLock;
use std::sync::PoisonError;

/// What a tensor keeps of its names; empty for nearly all of them.
pub(super) type NameCell = std::sync::OnceLock<Box<RwLock<Names>>>;

impl Tensor {
    /// Names of all dimensions.
    pub(crate) fn dim_names(&self) -> Names {
        match self.0.seldom.get().and_then(|s| s.names.get()) {
            Some(cell) if self.has_names() => cell.read().unwrap_or_else(PoisonError::into_inner).clone(),
            _ => Names::none(self.dim()),
        }
    }
    /// Gives the dimensions names, or takes them away. Every handle sees it.
    ///
    /// # Errors
    /// Names that a tensor of so many dimensions cannot have.
    pub(crate) fn set_dim_names(&self, names: Names) -> Result<()> {
        names.check_for(self.dim())?;
        if !names.any() {
            self.set_key(Key::Named, false);
            return Ok(());
        }
        let cell = self.0.seldom().names.get_or_init(Box::default);
        *cell.write().unwrap_or_else(PoisonError::into_inner) = names;
        self.set_key(Key::Named, true);
        Ok(())
    }
    /// Whether any dimension has a name.
    #[inline]
    pub fn has_names(&self) -> bool {
        self.key_set().has(Key::Named)
    }
}
