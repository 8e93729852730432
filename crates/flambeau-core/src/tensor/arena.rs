//! Memory that the results of one program share in turn: a block of the host's memory, cut into parts, each of which is lent to
//! one tensor after the other.
//!
//! A program that runs again and again makes the same tensors each time. A [`Record`] sees what one run makes; an [`Arena`] has a
//! tensor for each of these, and lends it when the next run asks for memory, so that nothing is allocated. While [`Record::during`]
//! or [`Arena::during`] runs, everything that makes a fresh tensor on the thread asks here, whatever operator it belongs to.
//!
//! **A plan that errs costs memory, not soundness.** A tensor is lent only if nobody has a handle on it, on one of its views, or
//! on what was lent of the same part before: then it is as good as a fresh one, for nobody can reach its memory. Else the tensor
//! is made as ever. So nothing that a program does with a result (keeps it, gives it to another thread, returns it) is wrong.

use crate::DType;
use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::tensor::handle::lent::{Lender, lending};
use crate::tensor::storage::Storage;
use crate::types::device::Device;
use crate::types::error::Result;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// A tensor that a run made, or that an arena has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Sizes.
    pub sizes: Vec<i64>,
    /// Strides.
    pub strides: Vec<i64>,
    /// Dtype.
    pub dtype: DType,
}
impl Piece {
    /// That of a tensor.
    pub fn of(t: &Tensor) -> Piece {
        Piece { sizes: t.sizes().to_vec(), strides: t.strides().to_vec(), dtype: t.dtype() }
    }
    /// Bytes that it spans.
    pub fn bytes(&self) -> usize {
        let n = if self.sizes.contains(&0) { 0 } else { geometry::span(&self.sizes, &self.strides) };
        usize::try_from(n).unwrap_or(0).saturating_mul(self.dtype.size())
    }
    fn fits(&self, sizes: &[i64], strides: Option<&[i64]>, dtype: DType) -> bool {
        let strides_fit = || match strides {
            Some(s) => self.strides == s,
            None => geometry::contiguous_strides(sizes)[..] == self.strides[..],
        };
        self.dtype == dtype && self.sizes == sizes && strides_fit()
    }
}
fn fresh(sizes: &[i64], strides: Option<&[i64]>, dtype: DType) -> Result<Tensor> {
    match strides {
        Some(s) => Tensor::empty_strided_raw(sizes, s, dtype, Device::Cpu),
        None => Tensor::empty_raw(sizes, dtype, Device::Cpu),
    }
}

/// What a run makes, in order.
#[derive(Default)]
pub struct Record {
    /// Tensors with their memory, as long as it matters.
    made: RefCell<Vec<(Piece, Option<Storage>)>>,
    /// The most bytes at once.
    peak: Cell<usize>,
}
impl Lender for Record {
    fn lend(&self, sizes: &[i64], strides: Option<&[i64]>, dtype: DType) -> Option<Tensor> {
        let t = fresh(sizes, strides, dtype).ok()?;
        let mut made = self.made.borrow_mut();
        made.push((Piece::of(&t), Some(t.storage().clone())));
        let mut bytes = 0usize;
        for (piece, memory) in made.iter_mut() {
            memory.take_if(|m| m.handle_count() == 1);
            bytes += if memory.is_some() { piece.bytes() } else { 0 };
        }
        self.peak.set(self.peak.get().max(bytes));
        Some(t)
    }
}
impl Record {
    /// Nothing yet.
    pub fn new() -> Rc<Record> {
        Rc::default()
    }
    /// Runs `f`, whose fresh tensors on the CPU are written down.
    pub fn during<R>(self: &Rc<Self>, f: impl FnOnce() -> R) -> R {
        lending(self.clone(), f)
    }
    /// The most bytes at once of the tensors so far.
    pub fn peak(&self) -> usize {
        self.peak.get()
    }
    /// The number of tensors so far.
    pub fn len(&self) -> usize {
        self.made.borrow().len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A tensor that was made.
    pub fn piece(&self, i: usize) -> Option<Piece> {
        self.made.borrow().get(i).map(|m| m.0.clone())
    }
    /// Whether anybody has a handle on its memory still; what is gone stays gone.
    pub fn is_alive(&self, i: usize) -> bool {
        let mut made = self.made.borrow_mut();
        let Some((_, memory)) = made.get_mut(i) else { return false };
        memory.take_if(|m| m.handle_count() == 1);
        memory.is_some()
    }
    /// Which of them the memory of a tensor belongs to.
    pub fn find(&self, t: &Tensor) -> Option<usize> {
        self.made.borrow().iter().rposition(|m| m.1.as_ref().is_some_and(|s| s.same(t.storage())))
    }
}

/// A tensor of an arena with the views of it that are kept.
struct Own {
    piece: Piece,
    tensor: Tensor,
    /// The part whose memory it has; a memory of its own if `None`.
    part: Option<usize>,
    views: Vec<usize>,
}
struct Part {
    memory: Storage,
    /// How many of the arena's tensors lie in it.
    tensors: usize,
    /// The one that was lent last.
    last: Option<usize>,
}
struct State {
    own: Vec<Own>,
    parts: Vec<Part>,
    /// Views, each with the number of its tensor.
    views: Vec<Option<(usize, Tensor)>>,
}

/// The tensors of a run, lent to it again and again.
pub struct Arena {
    state: RefCell<State>,
    next: Cell<usize>,
    end: Cell<usize>,
}
impl Lender for Arena {
    fn lend(&self, sizes: &[i64], strides: Option<&[i64]>, dtype: DType) -> Option<Tensor> {
        let (t, gone) = {
            let mut s = self.state.borrow_mut();
            let mut asked = self.next.get()..self.end.get().min(s.own.len());
            let i = asked.find(|i| s.own[*i].piece.fits(sizes, strides, dtype))?;
            self.next.set(i + 1);
            s.ready(i)?
        };
        // what a program knew of it may run its code when it goes
        drop(gone);
        Some(t)
    }
}
impl State {
    /// Whether nobody but the arena has a handle on a tensor or its views.
    fn is_quiet(&self, i: usize) -> bool {
        let o = &self.own[i];
        o.tensor.handle_count() == 1 + o.views.len() && self.are_quiet(&o.views)
    }
    fn are_quiet(&self, views: &[usize]) -> bool {
        views.iter().all(|v| self.views[*v].as_ref().is_some_and(|(_, t)| t.handle_count() == 1))
    }
    /// Puts another tensor in the place of one, whose views go with it.
    fn renewed(&mut self, i: usize, tensor: Tensor) -> Vec<Tensor> {
        let views = std::mem::take(&mut self.own[i].views);
        let mut gone: Vec<Tensor> =
            views.iter().filter_map(|v| self.views[*v].take()).map(|(_, t)| t).collect();
        gone.push(std::mem::replace(&mut self.own[i].tensor, tensor));
        gone
    }
    fn over(memory: &Storage, p: &Piece) -> Option<Tensor> {
        Tensor::from_storage(memory, &p.sizes, &p.strides, 0, p.dtype).ok()
    }
    /// A tensor, made as good as new, and what is to be dropped.
    fn ready(&mut self, i: usize) -> Option<(Tensor, Vec<Tensor>)> {
        let mut gone = Vec::new();
        let piece = &self.own[i].piece;
        match self.own[i].part {
            Some(p) => {
                let part = &self.parts[p];
                let taken = part.last.is_some_and(|l| !self.is_quiet(l))
                    || part.memory.handle_count() != 1 + part.tensors;
                if taken {
                    return None;
                }
                if !self.own[i].tensor.is_pristine() {
                    let new = Self::over(&part.memory, piece)?;
                    gone = self.renewed(i, new);
                }
                self.parts[p].last = Some(i);
            }
            None => {
                let t = &self.own[i].tensor;
                if !self.is_quiet(i) || t.storage().handle_count() != 1 || !t.is_pristine() {
                    let new = fresh(&piece.sizes, Some(&piece.strides), piece.dtype).ok()?;
                    gone = self.renewed(i, new);
                }
            }
        }
        Some((self.own[i].tensor.clone(), gone))
    }
}
impl Arena {
    /// Tensors in parts of so many bytes each, or with a memory of their own; `views` places for views of them.
    ///
    /// # Errors
    /// No memory; a tensor that does not fit into its part.
    pub fn new(parts: &[usize], pieces: &[(Piece, Option<usize>)], views: usize) -> Result<Arena> {
        let mut parts: Vec<Part> = Storage::parts(parts)?
            .into_iter()
            .map(|memory| Part { memory, tensors: 0, last: None })
            .collect();
        let mut own = Vec::with_capacity(pieces.len());
        for (piece, part) in pieces {
            let tensor = match part {
                Some(p) => {
                    let part = parts.get_mut(*p).ok_or_else(|| {
                        crate::Error::storage(format!("an arena without a part of the number {p}"))
                    })?;
                    part.tensors += 1;
                    Tensor::from_storage(&part.memory, &piece.sizes, &piece.strides, 0, piece.dtype)?
                }
                None => fresh(&piece.sizes, Some(&piece.strides), piece.dtype)?,
            };
            own.push(Own { piece: piece.clone(), tensor, part: *part, views: Vec::new() });
        }
        let state = RefCell::new(State { own, parts, views: (0..views).map(|_| None).collect() });
        Ok(Arena { state, next: Cell::new(0), end: Cell::new(0) })
    }
    /// Runs `f`, whose fresh tensors on the CPU are the arena's where that has the like, and gives the arena back.
    pub fn during<R>(self, f: impl FnOnce(&Arena) -> R) -> (R, Option<Arena>) {
        self.serve(0..0);
        let arena = Rc::new(self);
        let r = lending(arena.clone(), || f(&arena));
        (r, Rc::into_inner(arena))
    }
    /// Lends these from now on, in order.
    #[inline]
    pub fn serve(&self, pieces: Range<usize>) {
        self.next.set(pieces.start);
        self.end.set(pieces.end);
    }
    /// Whether a tensor is the arena's of this number, and nobody but the arena and so many others has a handle on it or its memory.
    pub fn has_only(&self, i: usize, t: &Tensor, others: usize) -> bool {
        let s = self.state.borrow();
        let Some(o) = s.own.get(i) else { return false };
        let memory = match o.part {
            Some(p) => 1 + s.parts[p].tensors,
            None => 1,
        };
        o.tensor.is_same(t)
            && t.handle_count() == 1 + o.views.len() + others
            && s.are_quiet(&o.views)
            && t.storage().handle_count() == memory
    }
    /// The view that was kept at a place, as long as what it is a view of is what was lent last of its memory.
    #[inline]
    pub fn view(&self, place: usize) -> Option<Tensor> {
        let s = self.state.borrow();
        let (i, t) = s.views.get(place)?.as_ref()?;
        let lent = s.own[*i].part.is_none_or(|p| s.parts[p].last == Some(*i));
        (lent && t.is_pristine()).then(|| t.clone())
    }
    /// Keeps a view of a tensor of the arena at a place that is free. Says whether it is one.
    pub fn keep_view(&self, place: usize, i: usize, view: &Tensor) -> bool {
        let s = &mut *self.state.borrow_mut();
        let (Some(o), Some(free @ None)) = (s.own.get_mut(i), s.views.get_mut(place)) else { return false };
        if !view.view_base().is_some_and(|b| b.is_same(&o.tensor)) {
            return false;
        }
        o.views.push(place);
        *free = Some((i, view.clone()));
        true
    }
}
