//! Virtual memory of a device: addresses first, and memory behind them in pages.
#![allow(unsafe_code)]

use super::real::check;
use super::{Address, PAGE};
use cudarc::driver::sys as cu;
use flambeau_core::Result;

/// Addresses of the thread's context.
pub(super) fn reserve(nbytes: usize) -> Result<Option<Address>> {
    let mut at = 0;
    // SAFETY: writes one address.
    match unsafe { cu::cuMemAddressReserve(&mut at, nbytes, 0, 0, 0) } {
        cu::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
        r => check(r).map(|()| Some(at)),
    }
}
pub(super) fn unreserve(address: Address, nbytes: usize) {
    // SAFETY: the range was reserved as a whole, and nothing is mapped in it any more.
    unsafe { cu::cuMemAddressFree(address, nbytes) };
}
/// One page of a device's memory behind an address; `false` where it has no more.
fn page(device: usize, address: Address) -> Result<bool> {
    // SAFETY: all zeros are a valid value of both structs; the page is created, mapped once, and its handle released: the map
    // keeps it.
    unsafe {
        let mut how: cu::CUmemAllocationProp = std::mem::zeroed();
        how.type_ = cu::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        how.location.type_ = cu::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        set_location(&mut how.location, device);
        let mut handle = 0;
        match cu::cuMemCreate(&mut handle, PAGE, &how, 0) {
            cu::CUresult::CUDA_ERROR_OUT_OF_MEMORY => return Ok(false),
            r => check(r)?,
        }
        let mapped = check(cu::cuMemMap(address, PAGE, 0, handle, 0));
        cu::cuMemRelease(handle);
        mapped?;
    }
    Ok(true)
}
fn set_location(location: &mut cu::CUmemLocation, device: usize) {
    location.id = device as i32;
}
/// Memory behind a range, all of it or none.
pub(super) fn map(device: usize, address: Address, nbytes: usize) -> Result<bool> {
    for at in (0..nbytes).step_by(PAGE) {
        let done = page(device, address + at as u64);
        if !matches!(done, Ok(true)) {
            if at > 0 {
                unmap(address, at)?;
            }
            return done;
        }
    }
    // SAFETY: all zeros are a valid value of the struct; the range is mapped.
    unsafe {
        let mut access: cu::CUmemAccessDesc = std::mem::zeroed();
        access.location.type_ = cu::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        set_location(&mut access.location, device);
        access.flags = cu::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        check(cu::cuMemSetAccess(address, nbytes, &access, 1))?;
    }
    Ok(true)
}
pub(super) fn unmap(address: Address, nbytes: usize) -> Result<()> {
    // SAFETY: the callers give back whole pages that they mapped; what was queued on them is waited for, since the driver does
    // not.
    unsafe {
        check(cu::cuCtxSynchronize())?;
        check(cu::cuMemUnmap(address, nbytes))
    }
}
