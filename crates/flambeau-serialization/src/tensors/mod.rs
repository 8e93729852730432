//! Files of Flambeau's tensors.

mod convert;
mod exported;
mod lazy;
mod load;
mod npy;
mod quantized;
mod save;
mod sharded;
mod sparse;
mod torchscript;

pub use convert::{ToTree, dict, generator_of};
pub use exported::{ExportedWeights, exported_dtype, load_exported, load_exported_mapped};
use flambeau_core::internal::RawTensor as _;
pub use lazy::{
    NamedTensors, SafeFile, SafeSlice, load_safetensors, load_safetensors_mapped, load_safetensors_metadata,
    load_safetensors_with, save_safetensors,
};
pub use load::{LoadOptions, load, load_from, load_mapped, load_with};
pub use npy::{load_npy, load_npz, read_npy, save_npy, save_npz, write_npy};
pub use save::{SaveOptions, save, save_to, save_to_with, save_with};
pub use sharded::{load_pretrained, load_sharded, save_sharded};
pub use torchscript::{ScriptArchive, load_torchscript};

use crate::error::Error as FileError;
use crate::map_location::{MapLocation, location_tag};
use crate::source::{TensorSink, TensorSource};
use crate::torch_format::{StorageInfo, TensorRef};
use flambeau_core::tensor::geometry::{SizeVec, room};
use flambeau_core::tensor::handle::LazyBits;
use flambeau_core::tensor::storage::{MappedFile, Storage};
use flambeau_core::{DType, Device, Error, Result, Tensor, ops};
use std::fs::File;
use std::path::Path;

/// A file that is read; the error names it.
pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::from(e).at_path(path))
}
pub(crate) fn outward(e: FileError) -> Error {
    match e {
        FileError::Io(e) => Error::from(e),
        FileError::Missing(m) => Error::missing(m),
        FileError::Unsupported(m) => Error::unsupported(m),
        FileError::Tensor(e) => match e.downcast::<Error>() {
            Ok(e) => *e,
            Err(e) => Error::serialization(e.to_string()),
        },
        other => Error::serialization(other.to_string()),
    }
}

/// A tensor as it is written: off the CPU, its copy on the CPU.
struct Source {
    /// What the caller has: identity and location are its.
    original: Tensor,
    here: Tensor,
}
impl Source {
    fn new(t: Tensor) -> Result<Source> {
        if t.has_names() {
            return Err(Error::runtime(
                "NYI: Named tensors don't support serialization. Please drop names via `tensor = tensor.rename(None)` before \
                 serialization.",
            ));
        }
        let here = match t.device() {
            Device::Cpu | Device::Meta => t.clone(),
            _ => t.try_to(Device::Cpu)?,
        };
        Ok(Source { original: t, here })
    }
    /// For formats without lazy conjugation and negation, and without tensors that have no data.
    fn plain(t: Tensor, format: &str) -> Result<Source> {
        if t.device() == Device::Meta {
            return Err(Error::unsupported(format!("{format} cannot hold tensors on the meta device")));
        }
        let t = if t.is_conj() { ops::resolve_conj(&t)? } else { t };
        Source::new(if t.is_neg() { ops::resolve_neg(&t)? } else { t })
    }
}
impl TensorSource for Source {
    fn dtype(&self) -> DType {
        self.here.dtype()
    }
    fn sizes(&self) -> Vec<i64> {
        self.here.sizes().to_vec()
    }
    fn strides(&self) -> Vec<i64> {
        self.here.strides().to_vec()
    }
    fn storage_offset(&self) -> i64 {
        self.here.storage_offset()
    }
    fn storage_id(&self) -> usize {
        self.here.storage().id()
    }
    fn object_id(&self) -> Option<usize> {
        Some(self.original.id())
    }
    fn storage_nbytes(&self) -> usize {
        self.here.storage().nbytes()
    }
    fn with_storage_bytes(&self, f: &mut dyn FnMut(&[u8]) -> crate::Result<()>) -> crate::Result<()> {
        // a copy: the writer is somebody else's, and runs under no hold
        let mut all = room(self.storage_nbytes() as i64).map_err(FileError::tensor)?;
        let copied = self.here.storage().read_blocks(|b| {
            all.extend_from_slice(b);
            Ok(())
        });
        copied.map_err(FileError::tensor)?;
        f(&all)
    }
    fn with_storage_blocks(&self, f: &mut dyn FnMut(&[u8]) -> crate::Result<()>) -> crate::Result<()> {
        // an error of the writer stands aside until the storage's own loop has ended
        let mut failed = None;
        let read = self.here.storage().read_blocks(|b| {
            f(b).map_err(|e| {
                failed = Some(e);
                Error::runtime("the writer failed")
            })
        });
        match (failed, read) {
            (Some(e), _) => Err(e),
            (None, read) => read.map_err(FileError::tensor),
        }
    }
    fn location(&self) -> String {
        location_tag(self.original.storage())
    }
    fn is_meta(&self) -> bool {
        self.original.device() == Device::Meta
    }
    fn requires_grad(&self) -> bool {
        self.original.requires_grad()
    }
    fn is_parameter(&self) -> bool {
        self.original.is_parameter()
    }
    fn is_conj(&self) -> bool {
        self.here.is_conj()
    }
    fn is_neg(&self) -> bool {
        self.here.is_neg()
    }
}

/// Makes tensors where they belong.
struct Sink<'a> {
    map_location: &'a MapLocation<'a>,
    skip_data: bool,
    /// Where the bytes are in memory already.
    mapped: Option<&'a MappedFile>,
}
impl<'a> Sink<'a> {
    fn new(map_location: &'a MapLocation<'a>) -> Sink<'a> {
        Sink { map_location, skip_data: crate::config::skips_data(), mapped: None }
    }
    /// For formats without locations.
    fn plain() -> Sink<'static> {
        Sink { map_location: &MapLocation::Saved, skip_data: false, mapped: None }
    }
    fn make(storage: &Storage, r: &TensorRef) -> Result<Tensor> {
        let t = Tensor::from_storage(storage, &r.size, &r.stride, r.offset, r.dtype)?;
        if !r.conj && !r.neg {
            return Ok(t);
        }
        let (sizes, strides) = (SizeVec::from_slice(&r.size), SizeVec::from_slice(&r.stride));
        let bits = LazyBits { conj: r.conj, neg: r.neg };
        t.view_typed(sizes, strides, r.offset, r.dtype, bits)
    }
    fn finish(t: Tensor, r: &TensorRef) -> Result<Tensor> {
        let t = if r.is_parameter { t.alias_parameter() } else { t };
        if r.requires_grad {
            t.try_requires_grad_(true)?;
        }
        Ok(t)
    }
}
impl TensorSink for Sink<'_> {
    type Storage = Storage;
    type Tensor = Tensor;
    fn storage(
        &mut self,
        info: &StorageInfo,
        fill: &mut dyn FnMut(&mut [u8]) -> crate::Result<()>,
    ) -> crate::Result<Storage> {
        if self.map_location.is_meta() {
            return Storage::empty(info.nbytes, Device::Meta).map_err(FileError::tensor);
        }
        let mapped = match (self.mapped, info.file_offset.map(usize::try_from)) {
            (Some(file), Some(Ok(at))) if !self.skip_data => {
                file.storage(at, info.nbytes).map_err(FileError::tensor)?
            }
            _ => None,
        };
        let s = if self.skip_data {
            Storage::zeroed(info.nbytes, Device::Cpu).map_err(FileError::tensor)?
        } else if let Some(s) = mapped {
            s
        } else {
            let s = Storage::empty(info.nbytes, Device::Cpu).map_err(FileError::tensor)?;
            s.with_bytes_mut(fill).map_err(FileError::tensor)??;
            s
        };
        self.map_location.restore(s, &info.location).map_err(FileError::tensor)
    }
    fn tensor(&mut self, storage: &Storage, r: &TensorRef) -> crate::Result<Tensor> {
        let t = Self::make(storage, r).map_err(FileError::tensor)?;
        Self::finish(t, r).map_err(FileError::tensor)
    }
    fn meta(&mut self, r: &TensorRef) -> crate::Result<Tensor> {
        let nbytes = crate::source::required_bytes(&r.size, &r.stride, 0, r.dtype.size())?;
        let storage = Storage::empty(nbytes, Device::Meta).map_err(FileError::tensor)?;
        self.tensor(&storage, r)
    }
}
