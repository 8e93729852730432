//! A minimal tensor for the tests: shared bytes and a geometry.

use flambeau_serialization::{Result, StorageInfo, TensorRef, TensorSink, TensorSource, copy_contiguous};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, PartialEq, Debug)]
pub struct T {
    pub bytes: Arc<Vec<u8>>,
    pub about: TensorRef,
}

impl T {
    /// The elements in row-major order.
    pub fn elements(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (t, e) = (&self.about, self.about.dtype.size());
        copy_contiguous(&self.bytes, &t.size, &t.stride, t.offset, e, &mut out).unwrap();
        out
    }

    pub fn f32s(&self) -> Vec<f32> {
        self.elements().chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
    }
}

impl TensorSource for T {
    fn dtype(&self) -> flambeau_dtype::DType {
        self.about.dtype
    }
    fn sizes(&self) -> Vec<i64> {
        self.about.size.clone()
    }
    fn strides(&self) -> Vec<i64> {
        self.about.stride.clone()
    }
    fn storage_offset(&self) -> i64 {
        self.about.offset
    }
    fn storage_id(&self) -> usize {
        Arc::as_ptr(&self.bytes) as usize
    }
    fn object_id(&self) -> Option<usize> {
        Some(self.about.object)
    }
    fn storage_nbytes(&self) -> usize {
        self.bytes.len()
    }
    fn with_storage_bytes(&self, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        f(&self.bytes)
    }
    fn requires_grad(&self) -> bool {
        self.about.requires_grad
    }
    fn is_parameter(&self) -> bool {
        self.about.is_parameter
    }
    fn is_conj(&self) -> bool {
        self.about.conj
    }
    fn is_neg(&self) -> bool {
        self.about.neg
    }
}

/// Counts the bytes it was asked for.
#[derive(Default)]
pub struct Sink {
    pub bytes: usize,
}

impl TensorSink for Sink {
    type Storage = Arc<Vec<u8>>;
    type Tensor = T;
    fn storage(
        &mut self,
        info: &StorageInfo,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<Arc<Vec<u8>>> {
        self.bytes += info.nbytes;
        let mut bytes = vec![0; info.nbytes];
        fill(&mut bytes)?;
        Ok(Arc::new(bytes))
    }
    fn tensor(&mut self, storage: &Arc<Vec<u8>>, tensor: &TensorRef) -> Result<T> {
        Ok(T { bytes: storage.clone(), about: tensor.clone() })
    }
}

pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
