//! Files of Flambeau's tensors.

use crate::error::Error as FileError;
use crate::source::{TensorSink, TensorSource};
use crate::torch_format::{LoadOptions, StorageInfo, TensorRef, Tree};
use crate::{npy, safetensors};
use flambeau_core::geometry::SizeVec;
use flambeau_core::storage::Storage;
use flambeau_core::tensor::LazyBits;
use flambeau_core::{DType, Device, Error, Result, Tensor};
use std::collections::HashMap;
use std::path::Path;

fn outward(e: FileError) -> Error {
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
        let here = match t.device() {
            Device::Cpu => t.clone(),
            Device::Meta => return Err(Error::missing("saving tensors on the meta device")),
            _ => t.try_to(Device::Cpu)?,
        };
        Ok(Source { original: t, here })
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
        self.here.storage().with_bytes(f).map_err(FileError::tensor)?
    }
    fn location(&self) -> String {
        self.original.device().to_string()
    }
    fn requires_grad(&self) -> bool {
        self.original.requires_grad()
    }
    fn is_conj(&self) -> bool {
        self.here.is_conj()
    }
    fn is_neg(&self) -> bool {
        self.here.is_neg()
    }
}

/// Makes tensors on the CPU; references to one object give one tensor.
#[derive(Default)]
struct Sink {
    made: HashMap<usize, Tensor>,
}
impl Sink {
    fn make(storage: &Storage, r: &TensorRef) -> Result<Tensor> {
        let t = Tensor::from_storage(storage, &r.size, &r.stride, r.offset, r.dtype)?;
        if !r.conj && !r.neg {
            return Ok(t);
        }
        let (sizes, strides) = (SizeVec::from_slice(&r.size), SizeVec::from_slice(&r.stride));
        let bits = LazyBits { conj: r.conj, neg: r.neg };
        t.view_typed(sizes, strides, r.offset, r.dtype, bits)
    }
}
impl TensorSink for Sink {
    type Storage = Storage;
    type Tensor = Tensor;
    fn storage(
        &mut self,
        info: &StorageInfo,
        fill: &mut dyn FnMut(&mut [u8]) -> crate::Result<()>,
    ) -> crate::Result<Storage> {
        let s = Storage::empty(info.nbytes, Device::Cpu).map_err(FileError::tensor)?;
        s.with_bytes_mut(fill).map_err(FileError::tensor)??;
        Ok(s)
    }
    fn tensor(&mut self, storage: &Storage, r: &TensorRef) -> crate::Result<Tensor> {
        if let Some(t) = self.made.get(&r.object) {
            return Ok(t.clone());
        }
        let t = Self::make(storage, r).map_err(FileError::tensor)?;
        if r.requires_grad {
            t.try_requires_grad_(true).map_err(FileError::tensor)?;
        }
        self.made.insert(r.object, t.clone());
        Ok(t)
    }
}

/// What can be saved: tensors, and whatever has a form as a tree of Python values.
pub trait ToTree {
    /// The tree.
    fn to_tree(&self) -> Tree<Tensor>;
}
impl ToTree for Tree<Tensor> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.clone()
    }
}
impl ToTree for Tensor {
    fn to_tree(&self) -> Tree<Tensor> {
        Tree::Tensor(self.clone())
    }
}
macro_rules! plain {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl ToTree for $t {
            fn to_tree(&self) -> Tree<Tensor> {
                let $v = self;
                $e
            }
        }
    )*};
}
plain! {
    bool => |v| Tree::Bool(*v), i64 => |v| Tree::Int(*v), i32 => |v| Tree::Int((*v).into()),
    usize => |v| i64::try_from(*v).map_or_else(|_| Tree::BigInt(v.to_le_bytes().iter().copied().chain([0]).collect()), Tree::Int),
    f64 => |v| Tree::Float(*v), str => |v| Tree::Str(v.to_owned()), String => |v| Tree::Str(v.clone()),
}
impl<T: ToTree + ?Sized> ToTree for &T {
    fn to_tree(&self) -> Tree<Tensor> {
        (**self).to_tree()
    }
}
impl<T: ToTree> ToTree for [T] {
    fn to_tree(&self) -> Tree<Tensor> {
        Tree::List(self.iter().map(T::to_tree).collect())
    }
}
impl<T: ToTree> ToTree for Vec<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.as_slice().to_tree()
    }
}
impl<T: ToTree> ToTree for Option<T> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.as_ref().map_or(Tree::None, T::to_tree)
    }
}

/// A Python dict of anything that can be saved: `dict([("model", &model.state_dict() as &dyn ToTree), ("epoch", &3)])`.
pub fn dict<'a>(entries: impl IntoIterator<Item = (&'a str, &'a dyn ToTree)>) -> Tree<Tensor> {
    Tree::Dict(entries.into_iter().map(|(k, v)| (Tree::Str(k.to_owned()), v.to_tree())).collect())
}

/// Writes a PyTorch checkpoint. The file appears complete or not at all.
///
/// # Errors
/// Of the file system; values that the format cannot hold.
#[doc(alias = "torch.save")]
pub fn save(value: &(impl ToTree + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    let mut failed = None;
    let tree = value.to_tree().map(&mut |t| {
        Source::new(t).map_err(|e| {
            failed = Some(e);
            FileError::Missing(String::new())
        })
    });
    let tree = tree.map_err(|e| failed.unwrap_or_else(|| outward(e)))?;
    crate::save(path, &tree).map_err(outward)
}

/// Reads a PyTorch checkpoint; nothing in it is executed, and unknown classes are an error (PyTorch's
/// `weights_only=True`). Tensors come to the CPU.
///
/// # Errors
/// Of the file system; damaged files; classes outside the allow-list.
#[doc(alias = "torch.load")]
pub fn load(path: impl AsRef<Path>) -> Result<Tree<Tensor>> {
    load_with(path, LoadOptions::default())
}
/// [`load`] with its options.
///
/// # Errors
/// As for [`load`].
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Tree<Tensor>> {
    crate::load(path, &mut Sink::default(), options).map_err(outward)
}

/// Writes named tensors as safetensors.
///
/// # Errors
/// Of the file system; dtypes that the format lacks; repeated names.
pub fn save_safetensors<S: AsRef<str>>(
    tensors: impl IntoIterator<Item = (S, Tensor)>,
    path: impl AsRef<Path>,
    metadata: Option<&HashMap<String, String>>,
) -> Result<()> {
    let list = tensors.into_iter().map(|(n, t)| Ok((n.as_ref().to_owned(), Source::new(t)?)));
    safetensors::save(path, &list.collect::<Result<Vec<_>>>()?, metadata).map_err(outward)
}

/// Reads a safetensors file: tensors in the order of their data, and metadata.
///
/// # Errors
/// Of the file system; damaged files.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<(Vec<(String, Tensor)>, HashMap<String, String>)> {
    safetensors::load(path, &mut Sink::default()).map_err(outward)
}

/// Writes an npy file.
///
/// # Errors
/// Of the file system; dtypes that the format lacks.
pub fn save_npy(t: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    npy::save(path, &Source::new(t.clone())?).map_err(outward)
}

/// Reads an npy file.
///
/// # Errors
/// Of the file system; damaged files; dtypes that are no tensor's.
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    npy::load(path, &mut Sink::default()).map_err(outward)
}
