//! Memory seen as numbers of one dtype: `torch.FloatStorage` and the others, `torch.UntypedStorage`.

use crate::DType;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use std::fmt;
use std::path::Path;

/// A storage and the dtype that its bytes are read as. A handle: clones and tensors share the memory.
///
/// ```
/// use torch::TypedStorage;
/// let x = torch::tensor([1.0, 2.0, 3.0]);
/// let all = TypedStorage::of(&x.i(1..));
/// assert_eq!((all.size(), all.dtype()), (3, torch::float32));
/// all.fill_(0.5.into())?;
/// assert_eq!(x.to_vec::<f32>(), [0.5; 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "torch.Storage")]
#[doc(alias = "torch.TypedStorage")]
pub struct TypedStorage {
    storage: Storage,
    dtype: DType,
}

impl TypedStorage {
    /// Memory for `size` numbers, with any content.
    ///
    /// # Errors
    /// No memory.
    pub fn new(size: usize, dtype: DType) -> Result<TypedStorage> {
        Ok(TypedStorage { storage: Storage::empty(bytes(size, dtype)?, Device::Cpu)?, dtype })
    }
    /// These bytes, as numbers.
    ///
    /// # Errors
    /// The length is no multiple of the element size.
    #[doc(alias = "torch.UntypedStorage.from_buffer")]
    pub fn from_buffer(bytes: &[u8], dtype: DType) -> Result<TypedStorage> {
        if !bytes.len().is_multiple_of(dtype.size()) {
            return Err(Error::value(format!(
                "buffer size ({}) must be a multiple of element size ({})",
                bytes.len(),
                dtype.size()
            )));
        }
        Ok(TypedStorage { storage: Storage::of_bytes(bytes)?, dtype })
    }
    /// The first `size` numbers of a file, in the machine's byte order. The file is read, not mapped: changes stay in memory.
    ///
    /// # Errors
    /// The file cannot be read or is too short.
    #[doc(alias = "torch.UntypedStorage.from_file")]
    pub fn from_file(path: &Path, size: usize, dtype: DType) -> Result<TypedStorage> {
        use std::io::Read;
        let want = bytes(size, dtype)?;
        let at = |e: std::io::Error| Error::io(format!("{}: {e}", path.display()));
        let file = std::fs::File::open(path).map_err(at)?;
        let mut data = Vec::new();
        file.take(want as u64).read_to_end(&mut data).map_err(at)?;
        if data.len() < want {
            return Err(Error::runtime(format!(
                "file {} size is smaller than the required mapping size {want}",
                path.display()
            )));
        }
        Self::from_buffer(&data, dtype)
    }
    /// The memory of a tensor, all of it.
    pub fn of(t: &Tensor) -> TypedStorage {
        TypedStorage { storage: t.storage().clone(), dtype: t.dtype() }
    }
    /// Memory read as numbers of a dtype, as that of a [mapped file](Storage::map_shared).
    pub fn over(storage: Storage, dtype: DType) -> TypedStorage {
        TypedStorage { storage, dtype }
    }
    /// The memory alone.
    pub fn untyped(&self) -> &Storage {
        &self.storage
    }
    /// The same memory read as another dtype.
    pub fn viewed_as(&self, dtype: DType) -> TypedStorage {
        TypedStorage { storage: self.storage.clone(), dtype }
    }
    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Where the memory lies.
    pub fn device(&self) -> Device {
        self.storage.device()
    }
    /// Number of numbers.
    pub fn size(&self) -> usize {
        self.storage.nbytes() / self.dtype.size()
    }
    /// Bytes of one number.
    pub fn element_size(&self) -> usize {
        self.dtype.size()
    }
    /// All numbers as a tensor over the same memory.
    ///
    /// # Errors
    /// None on the CPU.
    pub fn tensor(&self) -> Result<Tensor> {
        Tensor::from_storage(&self.storage, &[self.size() as i64], &[1], 0, self.dtype)
    }
    /// Sets every number.
    ///
    /// # Errors
    /// The memory is borrowed.
    pub fn fill_(&self, v: Scalar) -> Result<()> {
        ops::fill_(&self.tensor()?, v)
    }
    /// Copies numbers from another storage of the same size, converting them.
    ///
    /// # Errors
    /// The sizes differ.
    pub fn copy_(&self, from: &TypedStorage) -> Result<()> {
        if from.size() != self.size() {
            return Err(Error::runtime(format!(
                "size mismatch: self has {} elements, source {}",
                self.size(),
                from.size()
            )));
        }
        ops::copy_(&self.tensor()?, &from.tensor()?, false)
    }
    /// Changes the number of numbers, keeping those that remain. More room is made under all handles; less only where
    /// nobody else has one, since tensors over the memory rely on its size.
    ///
    /// # Errors
    /// No memory; fewer numbers than now while others have a handle.
    pub fn resize_(&mut self, size: usize) -> Result<()> {
        let want = bytes(size, self.dtype)?;
        if want >= self.storage.nbytes() {
            return self.storage.grow(want);
        }
        if !self.storage.is_unshared() {
            return Err(Error::missing(
                "resize_() to a smaller size of a storage that tensors or other handles share",
            ));
        }
        self.storage = match self.device() {
            Device::Cpu => self.storage.with_bytes(|b| Storage::of_bytes(&b[..want]))??,
            other => Storage::empty(want, other)?,
        };
        Ok(())
    }
    /// A copy with memory of its own.
    ///
    /// # Errors
    /// No memory.
    pub fn try_clone(&self) -> Result<TypedStorage> {
        self.to(self.dtype)
    }
    /// A copy converted to another dtype.
    ///
    /// # Errors
    /// No memory.
    pub fn to(&self, dtype: DType) -> Result<TypedStorage> {
        if self.device() != Device::Cpu {
            let bytes = bytes(self.size(), dtype)?;
            return Ok(TypedStorage { storage: Storage::empty(bytes, self.device())?, dtype });
        }
        let new = TypedStorage::new(self.size(), dtype)?;
        new.copy_(self)?;
        Ok(new)
    }
}

fn bytes(size: usize, dtype: DType) -> Result<usize> {
    let n = size.checked_mul(dtype.size()).filter(|n| isize::try_from(*n).is_ok());
    n.ok_or_else(|| Error::memory(format!("Storage size calculation overflowed with size={size}")))
}

/// The elements one a line, and what they are, as PyTorch prints a storage.
pub fn storage_text(s: &TypedStorage, class: &str, with_dtype: bool) -> Result<String> {
    let data = if s.device() == Device::Meta {
        "...".to_string()
    } else {
        let v = crate::dispatch::value::Value::List(crate::api::literal::items(&s.tensor()?)?);
        let texts = v.items().unwrap_or(&[]).iter().map(crate::text::repr).collect::<Result<Vec<_>>>()?;
        format!(" {}", texts.join("\n "))
    };
    let dtype = if with_dtype { format!("dtype={}, ", s.dtype) } else { String::new() };
    Ok(format!("{data}\n[torch.storage.{class}({dtype}device={}) of size {}]", s.device(), s.size()))
}

impl fmt::Debug for TypedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match storage_text(self, "TypedStorage", true) {
            Ok(s) => f.write_str(&s),
            Err(e) => write!(f, "[torch.storage.TypedStorage of size {}: {e}]", self.size()),
        }
    }
}
