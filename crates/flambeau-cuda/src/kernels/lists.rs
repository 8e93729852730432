//! Calls of list forms (`_foreach_*`) put together: within [`together`] pointwise calls of the same formula wait, and go by one launch
//! for many tensors. All other work of the thread comes after what waits.

use super::pointwise::{Found, list_text};
use super::{Args, address, launch};
use flambeau_core::{Result, Tensor};
use std::cell::{Cell, RefCell};

/// As in kernels/pointwise/loop.cuh.
const LISTED: usize = 48;
const BLOCK: i64 = 4096;
const OPERANDS: usize = 4;

/// A call that waits: where its operands begin and end, with the tensors, whose memory nobody else gets meanwhile.
struct Item {
    n: i64,
    ranges: Vec<(u64, u64)>,
    _held: Vec<Tensor>,
}
/// Calls of one formula that wait.
struct Waiting {
    device: usize,
    found: Found,
    still: i64,
    numbers: Vec<u8>,
    items: Vec<Item>,
}
thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static WAITING: RefCell<Option<Waiting>> = const { RefCell::new(None) };
}

/// Runs calls whose launches may be put together.
///
/// # Errors
/// Of the calls, and of what they left to be launched.
pub(crate) fn together(calls: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let inside = Inside;
    let done = calls();
    drop(inside);
    // what was called before an error is done
    let launched = if DEPTH.get() == 0 { flush() } else { Ok(()) };
    done.and(launched)
}
/// Takes a call in, if it is one that can wait. `numbers`: the bytes of its numbers.
///
/// # Errors
/// Of the launch of calls that waited before.
pub(crate) fn offer(device: usize, found: Found, operands: &[&Tensor], numbers: &[u8]) -> Result<bool> {
    if DEPTH.get() == 0 || operands.len() > OPERANDS {
        return Ok(false);
    }
    let out = operands[0];
    let span = 1 + out.sizes().iter().zip(out.strides()).map(|(n, s)| (n - 1) * s).sum::<i64>();
    if span != out.numel() {
        return Ok(false);
    }
    let (mut ranges, mut still) = (Vec::with_capacity(operands.len()), 0);
    for (k, t) in operands.iter().enumerate() {
        let (from, size) = (address(t)?, t.dtype().size() as u64);
        let alike = t.sizes() == out.sizes() && t.strides() == out.strides();
        match (alike && from % 16 == 0, k > 0 && t.numel() == 1) {
            (true, _) => ranges.push((from, from + out.numel() as u64 * size)),
            (false, true) => {
                still |= 1 << (k - 1);
                ranges.push((from, from + size));
            }
            _ => return Ok(false),
        }
    }
    let takes = |w: &Waiting| w.takes(device, &found, still, numbers, &ranges);
    // a thread that ends lets nothing wait
    let Ok(fits) = WAITING.try_with(|w| w.borrow().as_ref().is_none_or(takes)) else { return Ok(false) };
    if !fits {
        flush()?;
    }
    let held = operands.iter().map(|t| (*t).clone()).collect();
    let item = Item { n: out.numel(), ranges, _held: held };
    let new = || Waiting { device, found, still, numbers: numbers.to_vec(), items: Vec::new() };
    let put = |w: &RefCell<Option<Waiting>>| w.borrow_mut().get_or_insert_with(new).items.push(item);
    Ok(WAITING.try_with(put).is_ok())
}
impl Waiting {
    /// Whether a call is of the same kind and touches nothing that one before it writes, nor writes what one before it reads.
    fn takes(&self, device: usize, found: &Found, still: i64, numbers: &[u8], ranges: &[(u64, u64)]) -> bool {
        let apart = |a: (u64, u64), b: (u64, u64)| a.1 <= b.0 || b.1 <= a.0;
        self.items.len() < LISTED
            && self.device == device
            && self.found.is(found)
            && self.still == still
            && self.numbers == numbers
            && self.items.iter().all(|i| {
                ranges.iter().all(|r| apart(*r, i.ranges[0])) && i.ranges.iter().all(|r| apart(*r, ranges[0]))
            })
    }
}
/// Launches what waits in this thread.
///
/// # Errors
/// Of the launch.
pub(crate) fn flush() -> Result<()> {
    // a thread that ends has nothing waiting
    let Some(w) = WAITING.try_with(|w| w.borrow_mut().take()).ok().flatten() else { return Ok(()) };
    let mut list = Args::new();
    let pad = |list: Args, words: &mut dyn Iterator<Item = u64>| {
        words.chain(std::iter::repeat(0)).take(LISTED).fold(list, Args::word)
    };
    list = pad(list, &mut w.items.iter().map(|i| i.n as u64));
    let (mut blocks, mut before) = (0u64, Vec::with_capacity(w.items.len()));
    for i in &w.items {
        before.push(blocks);
        blocks += (i.n as u64).div_ceil(BLOCK as u64);
    }
    list = pad(list, &mut before.into_iter());
    for k in 0..OPERANDS {
        list = pad(list, &mut w.items.iter().map(|i| i.ranges.get(k).map_or(0, |r| r.0)));
    }
    let list = list.int(w.items.len() as i64).int(w.still).raw(&w.numbers);
    let shape = crate::driver::Shape { blocks: blocks as u32, threads: 256 };
    launch(w.device, w.found.which(2), || list_text(&w.found), shape, list)
}
