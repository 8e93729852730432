//! What a tensor tells of its place in memory.

use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::Result;

impl Tensor {
    /// Dimensions from the outermost in memory to the innermost.
    #[doc(alias = "torch.Tensor.dim_order")]
    pub fn dim_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.dim()).collect();
        // dimensions of one element say nothing by their stride: they stay with those after them
        let key = |d: &usize| std::cmp::Reverse(self.strides()[*d]);
        order.sort_by_key(key);
        order
    }
    /// The address of the first element, as a number to compare and print.
    ///
    /// # Errors
    /// The memory is borrowed for writing.
    pub fn data_ptr(&self) -> Result<usize> {
        if self.device() == Device::Meta || self.numel() == 0 {
            return Ok(0);
        }
        Ok(self.storage().address()? + self.storage_offset() as usize * self.element_size())
    }
}
