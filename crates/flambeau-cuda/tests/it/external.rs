//! Streams that other libraries made, where who calls promises that they live.
#![allow(unsafe_code)]

use crate::emulated::{agree, emulated, numbers, there};
use flambeau_core::{Tensor, ops};
use flambeau_devices::cuda::{self, ExternalStream};

/// A handle as another library would give it. On a real device one of our own streams serves, since the driver makes both alike.
fn theirs(handle: i64) -> ExternalStream {
    // SAFETY: the emulated device knows handles as names alone; the others are handles of streams of ours, which stay
    unsafe { ExternalStream::from_raw(handle, 0) }.unwrap()
}
/// A stream of another library.
pub fn another() -> ExternalStream {
    theirs(if emulated() { 0x7f00_1234_5670 } else { cuda::Stream::new().cuda_stream().unwrap() })
}
pub fn all() {
    let s = another();
    let handle = s.cuda_stream().unwrap();
    assert_eq!(s.cuda_stream().unwrap(), handle);
    assert_eq!(theirs(handle), s, "a handle is one stream");
    assert_eq!(cuda::try_external_stream(handle).unwrap(), s, "and known from then on");
    let own = cuda::Stream::new();
    assert_eq!(theirs(own.cuda_stream().unwrap()), own);
    assert_eq!(theirs(0), cuda::try_default_stream().unwrap());
    order(&s);
    reuse(&s);
    // what nobody promised is refused
    assert!(cuda::try_external_stream(987_654).is_err());
    // SAFETY: the number is not followed, since there is no such device
    assert!(unsafe { ExternalStream::from_raw(handle, 77) }.is_err());
}
/// Events order it with ours, and work goes there.
fn order(s: &ExternalStream) {
    let (t, x) = (numbers(&[64]), there(&numbers(&[64])));
    s.wait_stream(&cuda::current_stream());
    let y = cuda::stream(Some(s), || {
        assert_eq!(cuda::current_stream(), *s);
        ops::neg(&x).unwrap()
    });
    assert_ne!(cuda::current_stream(), *s);
    let done = s.record_event(Some(cuda::Event::with(true).unwrap()));
    cuda::current_stream().wait_event(&done);
    agree("order", &ops::neg(&y).unwrap(), &t, 0.0);
    s.synchronize();
    assert!(s.query() && done.query());
}
/// A block that the stream read waits for it before its next owner gets it.
fn reuse(s: &ExternalStream) {
    for _ in 0..20 {
        let x = there(&numbers(&[500]));
        s.wait_stream(&cuda::current_stream());
        let y = cuda::stream(Some(s), || ops::neg(&x).unwrap());
        drop(x);
        // takes the block at once if nothing kept it
        let other: Tensor = ops::zeros_like(&y, None, None, None, None, None).unwrap();
        cuda::current_stream().wait_stream(s);
        agree("reuse", &y, &ops::neg(&numbers(&[500])).unwrap(), 0.0);
        drop(other);
    }
}
