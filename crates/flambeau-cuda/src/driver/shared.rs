//! Memory and events of several processes, by the driver's handles.
#![allow(unsafe_code)]

use super::captured::Relaxed;
use super::real::{Handle, Real, check, lock};
use super::{Address, Stream};
use crate::ipc::Name;
use cudarc::driver::sys as cu;
use flambeau_core::{Error, Result};

impl Real {
    pub(super) fn name_of(&self, device: usize, address: Address) -> Result<(Name, u64)> {
        self.on(device)?;
        let _relaxed = Relaxed::now();
        let (mut start, mut n) = (0, 0);
        let mut name = cu::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: each function writes the values that it is given places for; the address is one of a block that lives.
        unsafe {
            check(cu::cuMemGetAddressRange_v2(&mut start, &mut n, address))?;
            check(cu::cuIpcGetMemHandle(&mut name, start))?;
        }
        Ok((name.reserved.map(|b| b as u8), address - start))
    }
    pub(super) fn open_named(&self, device: usize, name: &Name) -> Result<Address> {
        self.on(device)?;
        let _relaxed = Relaxed::now();
        let (mut at, name) = (0, cu::CUipcMemHandle { reserved: name.map(|b| b as std::ffi::c_char) });
        // SAFETY: writes one address; the driver judges whether the handle is one. 1: a peer's memory is made reachable.
        check(unsafe { cu::cuIpcOpenMemHandle_v2(&mut at, name, 1) })?;
        Ok(at)
    }
    pub(super) fn close_named(&self, device: usize, address: Address) {
        if self.on(device).is_ok() {
            let _relaxed = Relaxed::now();
            // SAFETY: the address came of `open_named` and is closed once, when no block of it is left and the work on them ended.
            unsafe { cu::cuIpcCloseMemHandle(address) };
        }
    }
    pub(super) fn new_shared_event(&self, device: usize) -> Result<u64> {
        let d = self.on(device)?;
        if let Some(again) = lock(&d.shared).free.pop() {
            return Ok(again);
        }
        let _relaxed = Relaxed::now();
        let mut e = std::ptr::null_mut();
        // SAFETY: writes one handle, which is never destroyed. 2 and 4: without timing, for several processes.
        check(unsafe { cu::cuEventCreate(&mut e, 6) })?;
        let number = d.add_event(Handle(e));
        lock(&d.shared).all.insert(number);
        Ok(number)
    }
    pub(super) fn record_event(&self, device: usize, stream: Stream, event: u64) -> Result<()> {
        let (s, e) = (self.stream(device, stream)?, self.event(device, event)?);
        // SAFETY: neither is ever destroyed.
        check(unsafe { cu::cuEventRecord(e, s) })
    }
    pub(super) fn name_of_event(&self, device: usize, event: u64) -> Result<Name> {
        let e = self.event(device, event)?;
        let mut name = cu::CUipcEventHandle { reserved: [0; 64] };
        // SAFETY: writes one handle of an event that is never destroyed.
        check(unsafe { cu::cuIpcGetEventHandle(&mut name, e) })?;
        Ok(name.reserved.map(|b| b as u8))
    }
    pub(super) fn open_event_named(&self, device: usize, name: &Name) -> Result<u64> {
        let d = self.on(device)?;
        if let Some(known) = lock(&d.shared).opened.get(name) {
            return Ok(*known);
        }
        let _relaxed = Relaxed::now();
        let (mut e, handle) =
            (std::ptr::null_mut(), cu::CUipcEventHandle { reserved: name.map(|b| b as std::ffi::c_char) });
        // SAFETY: writes one handle, which is never destroyed; the driver judges whether the name is one.
        check(unsafe { cu::cuIpcOpenEventHandle(&mut e, handle) })?;
        if e.is_null() {
            return Err(Error::runtime("CUDA error: invalid resource handle"));
        }
        let number = d.add_event(Handle(e));
        lock(&d.shared).opened.insert(*name, number);
        Ok(number)
    }
}
