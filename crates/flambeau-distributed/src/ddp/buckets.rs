//! Which parameters travel together.

use flambeau_core::DType;

/// A parameter as far as buckets go.
pub(crate) struct Item {
    pub(crate) bytes: usize,
    pub(crate) dtype: DType,
    pub(crate) sparse: bool,
}

/// PyTorch's assignment: parameters of one dtype fill a bucket until its size reaches the limit; each bucket that closes takes the next
/// limit, the last one lasts. Sparse gradients have a bucket each. Where no order is given, buckets are sorted by their first parameter.
pub(crate) fn assign(items: &[Item], limits: &[usize], order: Option<&[usize]>) -> Vec<(Vec<usize>, usize)> {
    struct Open {
        dtype: DType,
        members: Vec<usize>,
        size: usize,
        limit: usize,
    }
    let (mut done, mut open): (Vec<(Vec<usize>, usize)>, Vec<Open>) = (Vec::new(), Vec::new());
    for place in 0..items.len() {
        let (item, index) = (&items[place], order.map_or(place, |o| o[place]));
        if item.sparse {
            done.push((vec![index], 0));
            continue;
        }
        let at = open.iter().position(|b| b.dtype == item.dtype).unwrap_or_else(|| {
            open.push(Open { dtype: item.dtype, members: Vec::new(), size: 0, limit: 0 });
            open.len() - 1
        });
        let b = &mut open[at];
        b.members.push(index);
        b.size += item.bytes;
        let limit = limits.get(b.limit).or(limits.last()).copied().unwrap_or(usize::MAX);
        if b.size >= limit {
            done.push((std::mem::take(&mut b.members), limit));
            b.size = 0;
            b.limit = (b.limit + 1).min(limits.len().saturating_sub(1));
        }
    }
    for b in open.into_iter().filter(|b| !b.members.is_empty()) {
        let limit = limits.get(b.limit).or(limits.last()).copied().unwrap_or(usize::MAX);
        done.push((b.members, limit));
    }
    if order.is_none() {
        done.sort_by_key(|b| b.0.iter().min().copied());
    }
    done
}
