//! The way of a scan through one partition of an index.

use std::ops::ControlFlow;

use platform::Platform;
use storage::index::Partition;
use storage::tree::{Direction, Witness};

use crate::abort::Abort;
use crate::access::{prefetch_ahead, prefetches};
use crate::meter::Category;
use crate::scheme::{Holder, Parts};

/// Visits the entries of one partition within a range: calls `leaf` with what each group of them was read from, and at least the
/// largest stamp with which a key was removed from there; then `row` with each, named as in the index, until it returns false or
/// fails. True if it never did. Of each row the first `bytes` are asked for ahead.
pub(crate) fn walk<'i, P: Platform, S: Parts<P>, T: Holder<'i, P, S>>(
    holder: &mut T,
    partition: &Partition<P>,
    range: (&[u64], &[u64]),
    (direction, bytes): (Direction, usize),
    leaf: &mut impl FnMut(&mut T, Witness, u64),
    row: &mut impl FnMut(&mut T, u64) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let mut result = Ok(true);
    let cx = holder.parts().1;
    let c = cx.c;
    let ahead = prefetches(&cx.worker.local);
    let before = cx.worker.meter.enter::<P>(c, Category::Index);
    partition.scan(c, range, direction, false, &mut |seen| {
        holder.parts().1.worker.meter.leave::<P>(c, before);
        leaf(holder, seen.witness, seen.removed);
        for (place, bits) in seen.values.iter().enumerate() {
            if ahead {
                prefetch_ahead::<P>(c, seen.values, place, bytes);
            }
            result = row(holder, *bits);
            if !matches!(result, Ok(true)) {
                return ControlFlow::Break(());
            }
        }
        holder.parts().1.worker.meter.enter::<P>(c, Category::Index);
        ControlFlow::Continue(())
    });
    holder.parts().1.worker.meter.leave::<P>(c, before);
    result
}
