//! Tensors made of numbers: one number everywhere, and sequences.

use super::{Args, Geometry, Which, address, element, launch, opaque, shape};
use crate::driver::driver;
use crate::{device, memory};
use flambeau_core::backend::elements::Sequence;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor};

/// The bytes of an element as two words.
pub(super) fn words(element: &[u8]) -> [u64; 2] {
    let word = |from: usize| {
        let mut w = [0u8; 8];
        let part = element.get(from..element.len().min(from + 8)).unwrap_or_default();
        w[..part.len()].copy_from_slice(part);
        u64::from_ne_bytes(w)
    };
    [word(0), word(8)]
}
/// See [`flambeau_core::backend::elements::Elements::fill`].
///
/// # Errors
/// Of the launch.
pub(crate) fn fill(out: &Tensor, element: &[u8]) -> Result<bool> {
    let size = out.dtype().size();
    if element.len() != size || size > 16 {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let d = device::ordinal(out.device())?;
    let alike = element.iter().all(|b| *b == element[0]);
    if alike
        && out.is_contiguous()
        && let Some(handle) = out.storage().handle()?
    {
        let m = memory::of(&handle)?;
        let stream = device::here(d)?;
        m.used_by(stream);
        let nbytes = out.numel() as usize * size;
        let to = m.range(out.storage_offset() as usize * size, nbytes)?;
        super::lists::flush()?;
        driver()?.fill(d, stream, to, element[0], nbytes)?;
        return Ok(true);
    }
    let Some(g) = Geometry::of(out.sizes(), &[out])? else { return Ok(false) };
    let [a, b] = words(element);
    let text = || {
        (
            format!("#include \"creation/creation.cuh\"\nFILL(fill_k, {})\n", opaque(size)),
            "fill_k".to_string(),
        )
    };
    let which = Which("fill", 0, [size as u8, 0, 0, 0]);
    launch(d, which, text, shape(g.n), Args::new().geometry(&g).word(a).word(b))?;
    Ok(true)
}
/// See [`flambeau_core::backend::elements::Elements::sequence`].
///
/// # Errors
/// Of the launch.
pub(crate) fn sequence(out: &Tensor, sequence: &Sequence) -> Result<bool> {
    let d = out.dtype();
    let Some(own) = element(d).filter(|_| !d.is_complex() && d != DType::Bool && out.is_contiguous()) else {
        return Ok(false);
    };
    let by = sequence.step();
    let (kind, first, step, start, end) = match *sequence {
        Sequence::Whole { start, step } => (0, start, step, 0.0, 0.0),
        Sequence::Steps { start, .. } => (1, 0, 0, start, 0.0),
        Sequence::Ends { start, end, single, whole, .. } => {
            let kind = match (single, whole) {
                (true, _) => 3,
                (_, true) => 4,
                _ => 2,
            };
            (kind, 0, 0, start, end)
        }
    };
    let n = out.numel();
    let list = Args::new().word(address(out)?).int(n).int(kind).int(first).int(step);
    let list = list.number(start).number(by).number(end);
    let text = || {
        (
            format!("#include \"creation/creation.cuh\"\nSEQUENCE(sequence_k, {own})\n"),
            "sequence_k".to_string(),
        )
    };
    launch(device::ordinal(out.device())?, Which("sequence", 0, [d as u8, 0, 0, 0]), text, shape(n), list)?;
    Ok(true)
}
