//! Streams that other libraries made, by the driver's handle of them. Whether a number is a handle cannot be asked, so who has it
//! promises it: the one thing here that is `unsafe`.
#![allow(unsafe_code)]

use super::runtime::{of_runtime, on};
use super::streams::{ExternalStream, Stream};
use crate::Ordinal;
use flambeau_core::Result;

/// The driver's handle of a stream that lives, as somebody promised.
#[derive(Clone, Copy, Debug)]
pub struct Live(u64);
impl Live {
    /// The number.
    pub fn handle(self) -> u64 {
        self.0
    }
}
impl Stream {
    /// A stream that another library made (`torch.cuda.ExternalStream`), by its handle in NVIDIA's driver (`CUstream`, `cudaStream_t`), of a
    /// device; of the current one if the number is negative. It is a stream like any other afterwards: work goes there by
    /// [`stream`](super::stream), events order it, memory that was used there waits for it. The same handle always gives the same stream,
    /// and that of a stream of our own gives that one.
    ///
    /// ```no_run
    /// # fn handle_of_another_library() -> i64 { 0 }
    /// // SAFETY: the other library made it on device 0, and destroys it when the program ends
    /// let theirs = unsafe { torch::cuda::ExternalStream::from_raw(handle_of_another_library(), 0) }.unwrap();
    /// torch::cuda::stream(Some(&theirs), || torch::ones([3]));
    /// ```
    ///
    /// # Safety
    /// The number is the handle of a stream of that device's primary context, and the stream is not destroyed as long as this program uses
    /// CUDA: tensors that were used there ask it when their memory goes back.
    ///
    /// # Errors
    /// There is no such device.
    pub unsafe fn from_raw(stream_ptr: i64, device: i64) -> Result<ExternalStream> {
        let _on = on(Ordinal(device))?;
        of_runtime(|r| {
            let device = r.current_device()?;
            Ok(Stream::of(device, r.external_stream(device, Live(stream_ptr as u64))?))
        })
    }
}
