//! The way of a scan through one partition of an index.

use std::ops::ControlFlow;

use platform::{LINE_BYTES, Platform};
use storage::index::{Partition, Visit};
use storage::tree::Direction;
use terms::rows::KeyBounds;
use terms::{Abort, Category};

use crate::access::{prefetch_ahead, prefetches};
use crate::scheme::{Holder, Parts};

/// Visits the entries of one partition within a range: calls `leaf` with each group of them, and
/// what the group was read from, until `leaf` returns false or fails. True if it never did.
pub(crate) fn walk_leaves<'i, P: Platform, S: Parts<P>, T: Holder<'i, P, S>>(
    holder: &mut T,
    partition: &Partition<P>,
    range: KeyBounds<'_>,
    direction: Direction,
    leaf: &mut impl FnMut(&mut T, &Visit<'_, P>) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let mut result = Ok(true);
    let cx = holder.parts().1;
    let c = cx.c;
    let before = cx.worker.meter.enter::<P>(c, Category::Index);
    partition.scan(c, range, direction, false, &mut |seen| {
        holder.parts().1.worker.meter.leave::<P>(c, before);
        result = leaf(holder, &seen);
        if !matches!(result, Ok(true)) {
            return ControlFlow::Break(());
        }
        holder.parts().1.worker.meter.enter::<P>(c, Category::Index);
        ControlFlow::Continue(())
    });
    holder.parts().1.worker.meter.leave::<P>(c, before);
    result
}

/// Calls `row` with each row of a group, named as in the index, until it returns false or fails;
/// true if it never did. What stands in front of the rows is asked for ahead.
#[inline(always)]
pub(crate) fn walk_rows<'i, P: Platform, S: Parts<P>, T: Holder<'i, P, S>>(
    holder: &mut T,
    values: &[u64],
    row: &mut impl FnMut(&mut T, u64) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let cx = holder.parts().1;
    let (c, ahead) = (cx.c, prefetches(&cx.worker.local));
    for (place, bits) in values.iter().enumerate() {
        if ahead {
            prefetch_ahead::<P>(c, values, place, LINE_BYTES);
        }
        if !row(holder, *bits)? {
            return Ok(false);
        }
    }
    Ok(true)
}
