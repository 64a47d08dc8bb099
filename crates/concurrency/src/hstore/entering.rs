//! How a transaction gets the sites that it needs.

use platform::Platform;
use storage::Table;
use terms::{Abort, Category, Conflict, Mode};

use super::managers::{Answer, Managers};
use super::sites::Site;
use super::state::{Cx, HstoreState};
use crate::options::WAIT_NANOS_MAX_PARTICIPANT;

const BUSY: Abort = Abort::Conflict(Conflict::Locked);

/// The site of the entry that index number `index` has, or would have, for this key.
#[inline(always)]
pub(super) fn site_of<P: Platform>(tables: &[Table<P>], table: usize, index: usize, key: &[u64]) -> Site {
    let index = &tables[table].indexes[index];
    if index.is_partitioned() { Site::of(index.number(key)) } else { Site::of_table(table) }
}

/// Makes sure that the site is held.
#[inline(always)]
pub(super) fn enter<P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    site: Site,
) -> Result<(), Abort> {
    if state.holds(site) || state.is_branch() { Ok(()) } else { lock(state, cx, site) }
}

/// Locks the site, and all that are wanted, in order.
#[inline(never)]
pub(super) fn lock<P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    site: Site,
) -> Result<(), Abort> {
    if state.is_branch() {
        state.wanted.clear();
        return Ok(());
    }
    if let Some(managers) = &cx.shared.managers {
        return request(state, cx, managers, site);
    }
    let (c, sites) = (cx.c, &cx.shared.own);
    let before = cx.worker.meter.enter::<P>(c, Category::Cc);
    let HstoreState { held, stamps, wanted, mode, .. } = state;
    if !wanted.contains(&site) {
        wanted.push(site);
    }
    if wanted.len() > 1 {
        wanted.sort_unstable();
        wanted.dedup();
    }
    let mut result = Ok(());
    for site in wanted.iter().copied() {
        if held.contains(&site) {
            continue;
        }
        let in_order = held.last().is_none_or(|largest| *largest < site);
        let acquired = sites.try_acquire(c, site) || in_order && wait(cx, *mode, site);
        if !acquired {
            let learned = &mut cx.worker.state.wanted;
            learned.clear();
            learned.extend(held.iter().chain(&wanted[..]));
            result = Err(BUSY);
            break;
        }
        let stamp = sites.stamp(c, site);
        if in_order {
            held.push(site);
            stamps.push(stamp);
        } else {
            let place = held.partition_point(|other| *other < site);
            held.insert(place, site);
            stamps.insert(place, stamp);
        }
    }
    wanted.clear();
    cx.worker.meter.leave::<P>(c, before);
    result
}

/// Locks the site, and all that are wanted, where sites have managers: requests all of them, and
/// waits until it owns all.
#[cold]
fn request<P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    managers: &Managers<P>,
    site: Site,
) -> Result<(), Abort> {
    let (c, worker) = (cx.c, cx.worker.state.number);
    let before = cx.worker.meter.enter::<P>(c, Category::Cc);
    let HstoreState { held, stamps, wanted, mode, .. } = state;
    if !wanted.contains(&site) {
        wanted.push(site);
    }
    // Each once: a transaction is refused what it has.
    let mut place = 0;
    while place < wanted.len() {
        let site = wanted[place];
        if held.contains(&site) || wanted[..place].contains(&site) {
            wanted.remove(place);
        } else {
            place += 1;
        }
    }
    let (mut requested, mut waits, mut refused) = (0, false, false);
    for site in wanted.iter() {
        match managers.request(c, *site, worker) {
            Answer::Granted => {}
            Answer::Waits => waits = true,
            Answer::Refused => {
                refused = true;
                break;
            }
        }
        requested += 1;
    }
    if waits && !refused {
        let waiting = cx.worker.meter.enter::<P>(c, Category::Wait);
        let deadline = P::now(c).plus(longest_wait(cx, *mode));
        refused = !managers.wait(c, worker, Some(deadline));
        cx.worker.meter.leave::<P>(c, waiting);
    }
    if refused {
        wanted[..requested].iter().for_each(|site| managers.leave(c, *site, worker));
        let learned = &mut cx.worker.state.wanted;
        learned.clear();
        learned.extend(held.iter().chain(&wanted[..]));
    } else {
        for site in &wanted[..] {
            held.push(*site);
            stamps.push(managers.stamp(c, *site));
        }
    }
    wanted.clear();
    cx.worker.meter.leave::<P>(c, before);
    if refused { Err(BUSY) } else { Ok(()) }
}

/// Longest wait of a transaction in this mode.
fn longest_wait<P: Platform>(cx: &Cx<'_, '_, P>, mode: Mode) -> u64 {
    match mode {
        Mode::Participant => cx.worker.wait_nanos_max.min(WAIT_NANOS_MAX_PARTICIPANT),
        Mode::Single | Mode::Snapshot | Mode::Branch => cx.worker.wait_nanos_max,
    }
}

#[cold]
fn wait<P: Platform>(cx: &mut Cx<'_, '_, P>, mode: Mode, site: Site) -> bool {
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Wait);
    let longest = longest_wait(cx, mode);
    let acquired = cx.shared.own.acquire(cx.c, site, cx.worker.state.number, longest);
    cx.worker.meter.leave::<P>(cx.c, before);
    acquired
}

/// Makes sure that the sites of all these keys, one an index, are held. Gives that of the first.
#[inline]
pub(super) fn enter_all<'k, P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    table: usize,
    keys: impl Iterator<Item = &'k [u64]>,
) -> Result<Site, Abort> {
    let mut sites = keys.enumerate().map(|(index, key)| site_of(cx.tables, table, index, key));
    let home = sites.next().expect("a table has a primary index");
    for site in sites {
        if !state.holds(site) && !state.is_branch() {
            state.wanted.push(site);
        }
    }
    if state.wanted.is_empty() {
        enter(state, cx, home)?
    } else {
        lock(state, cx, home)?
    }
    Ok(home)
}
