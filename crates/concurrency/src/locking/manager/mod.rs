//! The lock of a row as a manager: a latch, a list of owners, and a list of waiting transactions.
//!
//! Source: the public program of Bang, May, Petrov, Binnig, "The full story of 1000 cores", VLDB
//! Journal 2022 (DataManagementLab/DBx1000 at 0ada3f6, `concurrency_control/row_lock.cpp`,
//! `Row_lock::lock_get` and `Row_lock::lock_release`; the latch is `tbb::queuing_mutex`, by
//! `SCOPED_LATCH_T` of `variant_config/28skt/config-2optimised.h`). Every grant, refusal and
//! release goes through the latch, in order of arrival: a release waits behind all that will be
//! refused. The latch is the same algorithm, or a mutex ([`RowLatch`]). Owners and waiting
//! transactions are entries of linked lists, allocated and freed one by one with the latch held. A
//! release hands the lock to those who wait first, as long as they do not exclude each other; each
//! waits for a word of its own entry.
//!
//! Deviations:
//! - A row holds the address of its manager, which is a line of its own, made when the row is
//!   locked first, or inserted; the source has the manager in front of the row's pointer to its
//!   data.
//! - An owner that shares the row may want it for itself ([`Kind::Upgrade`]): it waits in front of
//!   all others. The source has no such transaction.
//! - Rows come and go: a manager whose row is gone refuses, and sends away all who wait.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};
use storage::Local;
use terms::{Fault, Faults};

use super::policy::WaitPolicy;
use crate::row_latch::{LatchNode, RowLatch, free_line, new_line, retire_line};

/// The locks of a row's owners: how many they are, in steps of [`OWNER`], and whether one has it
/// for itself; bit 0 adds nothing to that.
const EXCLUSIVE: u64 = 2;
const GONE: u64 = 4;
const OWNER: u64 = 8;

/// Answers to a waiting transaction.
pub(super) const GRANTED: u64 = 1;
pub(super) const REFUSED: u64 = 2;

/// How a transaction wants a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To share it.
    Share = 1,
    /// To have it for itself.
    Exclude = 2,
    /// To have for itself what it shares already.
    Upgrade = 3,
}

/// A request for a row's lock.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    /// No other transaction that is under way has this number.
    pub(super) identity: u64,
    /// The tag that the transaction leaves in the locks that it takes.
    pub(super) tag: u64,
    pub(super) kind: Kind,
}

/// The answer to a request.
pub(super) enum Answer<'m, P: Platform> {
    Granted,
    Refused,
    /// It waits in the queue, with this entry.
    Waits(&'m LockEntry<P>),
}

/// An owner of a row, or a transaction that waits for it: a line. All fields but the answer are
/// used with the manager latched.
#[repr(C, align(64))]
pub(super) struct LockEntry<P: Platform> {
    next: P::Word,
    identity: P::Word,
    tag: P::Word,
    kind: P::Word,
    /// 0 while the transaction waits.
    pub(super) answer: P::Word,
}

/// The lock of one row: a line. Zeroed memory is a free one.
#[repr(C, align(64))]
pub(super) struct RowManager<P: Platform> {
    latch: RowLatch<P>,
    held: P::Word,
    /// Addresses of the last owner to come, and of the first and the last to wait; 0: none.
    owners: P::Word,
    first: P::Word,
    last: P::Word,
}

impl<P: Platform> LockEntry<P> {
    const LINE: () = assert!(size_of::<Self>() == LINE_BYTES && size_of::<RowManager<P>>() == LINE_BYTES);

    fn make(c: P::Core, local: &mut Local<P>, asker: Asker) -> Result<u64, OutOfMemory> {
        let () = Self::LINE;
        let address = new_line(c, local)?;
        let entry = Self::at(address);
        entry.set(c, &entry.identity, asker.identity);
        entry.set(c, &entry.tag, asker.tag);
        entry.set(c, &entry.kind, asker.kind as u64);
        Ok(address)
    }

    fn at<'m>(address: u64) -> &'m Self {
        // SAFETY: addresses of entries come from `make`; entries of lists are freed by those who
        // take them out, with the manager latched, and others reach them with the manager latched
        // only; a transaction frees its own when it is in no list.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) }
    }

    fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    // Relaxed, both: the manager's latch orders them.
    fn get(&self, c: P::Core, word: &P::Word) -> u64 {
        P::load(c, word, Ordering::Relaxed)
    }

    fn set(&self, c: P::Core, word: &P::Word, value: u64) {
        P::store(c, word, value, Ordering::Relaxed);
    }

    fn is_upgrade(&self, c: P::Core) -> bool {
        self.get(c, &self.kind) == Kind::Upgrade as u64
    }

    /// Gives the entry back.
    ///
    /// # Safety
    /// The caller is the entry's transaction, which has had its answer, or has left the queue; the
    /// entry is in no list, and not used again.
    pub(super) unsafe fn free(&self, c: P::Core, local: &mut Local<P>) {
        // SAFETY: a thread that answered has taken the entry out before, and does not use it
        // afterwards.
        unsafe { free_line(c, local, self.address()) };
    }
}

/// A manager, latched by the caller.
pub(super) struct Latched<'m, P: Platform> {
    c: P::Core,
    manager: &'m RowManager<P>,
}

impl<P: Platform> RowManager<P> {
    /// A free manager, which no other core can reach: its address.
    pub(super) fn make(c: P::Core, local: &mut Local<P>) -> Result<u64, OutOfMemory> {
        new_line(c, local)
    }

    /// Gives back a manager that no row names.
    ///
    /// # Safety
    /// The address came from [`Self::make`] with memory of the same instance, no other core has
    /// ever seen it, and it is not used again.
    pub(super) unsafe fn discard(c: P::Core, local: &mut Local<P>, address: u64) {
        // SAFETY: passed on to the caller.
        unsafe { free_line(c, local, address) };
    }

    /// Gives back a manager whose row is gone, when no worker can have found it any more.
    ///
    /// # Safety
    /// The row that names it is retired by the caller, who is inside an epoch; once.
    pub(super) unsafe fn retire(c: P::Core, local: &mut Local<P>, address: u64) {
        // SAFETY: passed on to the caller.
        unsafe { retire_line(c, local, address) };
    }

    /// The manager at an address that a row names.
    ///
    /// # Safety
    /// The row was found in the caller's epoch, or is locked by the caller; the result is used no
    /// longer.
    pub(super) unsafe fn at<'m>(address: u64) -> &'m Self {
        // SAFETY: made by `make`, and retired with the row.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) }
    }

    /// Runs `body` with the manager latched.
    ///
    /// # Safety
    /// A node of `node` came from [`new_node`](crate::row_latch::new_node) with memory of the same
    /// instance, and is the calling worker's own. All nodes of the instance are of one kind.
    pub(super) unsafe fn with<'m, R>(
        &'m self,
        c: P::Core,
        node: LatchNode,
        body: impl FnOnce(&mut Latched<'m, P>) -> R,
    ) -> R {
        // SAFETY: a zeroed line, which stays as long as the memory of the instance. No body latches
        // another manager, so the worker uses its node for nothing else until the release.
        unsafe { self.latch.with(c, node, || body(&mut Latched { c, manager: self })) }
    }
}

impl<'m, P: Platform> Latched<'m, P> {
    // Relaxed, both: the latch orders them.
    fn get(&self, word: &P::Word) -> u64 {
        P::load(self.c, word, Ordering::Relaxed)
    }

    fn set(&mut self, word: &P::Word, value: u64) {
        P::store(self.c, word, value, Ordering::Relaxed);
    }

    /// The entries of a list, from the one at `address` on.
    fn list(&self, address: u64) -> impl Iterator<Item = &'m LockEntry<P>> + use<'m, P> {
        let c = self.c;
        let some = |address: u64| (address != 0).then(|| LockEntry::<P>::at(address));
        std::iter::successors(some(address), move |entry| some(entry.get(c, &entry.next)))
    }

    /// Grants, refuses, or lets wait.
    pub(super) fn ask<Q: WaitPolicy>(
        &mut self,
        local: &mut Local<P>,
        asker: Asker,
        faults: Faults,
    ) -> Result<Answer<'m, P>, OutOfMemory> {
        let (c, manager) = (self.c, self.manager);
        let held = self.get(&manager.held);
        if held & GONE != 0 {
            return Ok(Answer::Refused);
        }
        let mut excluded = match asker.kind {
            Kind::Share => held & EXCLUSIVE != 0 && !faults.has(Fault::SharedOwnership),
            Kind::Exclude => held >= OWNER && (!faults.has(Fault::SharedOwnership) || held & EXCLUSIVE != 0),
            Kind::Upgrade => held >= 2 * OWNER,
        };
        if Q::WAITS && !excluded && asker.kind != Kind::Upgrade {
            let first = self.get(&manager.first);
            excluded = self.list(first).next().is_some_and(|first| {
                first.is_upgrade(c) || Q::lets_pass(asker.tag, first.get(c, &first.tag))
            });
        }
        if !excluded {
            match asker.kind {
                Kind::Upgrade => self.set(&manager.held, OWNER | EXCLUSIVE),
                kind => {
                    let entry = LockEntry::<P>::make(c, local, asker)?;
                    self.add_owner(entry, kind as u64);
                }
            }
            return Ok(Answer::Granted);
        }
        if !Q::WAITS {
            return Ok(Answer::Refused);
        }
        let owners = self.get(&manager.owners);
        let may_wait = |owner: &LockEntry<P>| {
            owner.get(c, &owner.identity) == asker.identity
                || Q::may_wait(asker.tag, owner.get(c, &owner.tag))
        };
        if !faults.has(Fault::UnresolvedDeadlocks) && !self.list(owners).all(may_wait) {
            return Ok(Answer::Refused);
        }
        let entry = LockEntry::<P>::at(LockEntry::<P>::make(c, local, asker)?);
        self.enqueue::<Q>(entry, asker);
        Ok(Answer::Waits(entry))
    }

    /// The tags of those that a transaction waits for, which has just joined the queue with this
    /// entry: of those before it that exclude it, the last first, then of the owners if they do.
    pub(super) fn waits_for(&self, entry: &'m LockEntry<P>) -> impl Iterator<Item = u64> + use<'m, P> {
        let (c, manager) = (self.c, self.manager);
        let (held, kind) = (self.get(&manager.held), entry.get(c, &entry.kind));
        let identity = entry.get(c, &entry.identity);
        let (first, owners) = (self.get(&manager.first), self.get(&manager.owners));
        let before = self.list(first).take_while(move |other| !std::ptr::eq(*other, entry));
        let exclude = |one: u64, other: u64| (one | other) & EXCLUSIVE != 0;
        let mut ahead: Vec<_> = before
            .filter(|other| exclude(kind, other.get(c, &other.kind)))
            .map(|other| other.get(c, &other.tag))
            .collect();
        ahead.reverse();
        let owners = if exclude(kind, held) { owners } else { 0 };
        let owners = self.list(owners).filter(move |owner| owner.get(c, &owner.identity) != identity);
        ahead.into_iter().chain(owners.map(move |owner| owner.get(c, &owner.tag)))
    }

    /// Makes the transaction the owner of a new row, whose manager no other core can reach.
    pub(super) fn own(&mut self, local: &mut Local<P>, asker: Asker) -> Result<(), OutOfMemory> {
        let entry = LockEntry::<P>::make(self.c, local, asker)?;
        self.add_owner(entry, EXCLUSIVE);
        Ok(())
    }

    fn add_owner(&mut self, address: u64, kind: u64) {
        let (c, manager, entry) = (self.c, self.manager, LockEntry::<P>::at(address));
        entry.set(c, &entry.next, self.get(&manager.owners));
        self.set(&manager.owners, address);
        let held = self.get(&manager.held);
        self.set(&manager.held, (held + OWNER) | kind);
    }

    /// Puts an entry where the policy wants it: behind an upgrade, and before the first that it
    /// goes before.
    fn enqueue<Q: WaitPolicy>(&mut self, entry: &LockEntry<P>, asker: Asker) {
        let (c, manager) = (self.c, self.manager);
        let first = self.get(&manager.first);
        let goes_behind = |other: &&LockEntry<P>| {
            asker.kind != Kind::Upgrade
                && (other.is_upgrade(c) || Q::goes_behind(asker.tag, other.get(c, &other.tag)))
        };
        let before = self.list(first).take_while(goes_behind).last();
        let next = before.map_or(first, |before| before.get(c, &before.next));
        entry.set(c, &entry.next, next);
        match before {
            Some(before) => before.set(c, &before.next, entry.address()),
            None => self.set(&manager.first, entry.address()),
        }
        if next == 0 {
            self.set(&manager.last, entry.address());
        }
    }

    /// Takes the transaction's entry out of the list of owners, and hands the row on.
    ///
    /// # Panics
    /// If it is no owner.
    pub(super) fn release(&mut self, local: &mut Local<P>, identity: u64) {
        let (c, manager) = (self.c, self.manager);
        let first = self.get(&manager.owners);
        let mut before: Option<&LockEntry<P>> = None;
        let mut entry = None;
        for owner in self.list(first) {
            if owner.get(c, &owner.identity) == identity {
                entry = Some(owner);
                break;
            }
            before = Some(owner);
        }
        let entry = entry.expect("a transaction releases what it holds");
        let next = entry.get(c, &entry.next);
        match before {
            Some(before) => before.set(c, &before.next, next),
            None => self.set(&manager.owners, next),
        }
        // SAFETY: the entry is in no list any more, and others reach entries through the list.
        unsafe { entry.free(c, local) };
        let held = self.get(&manager.held) - OWNER;
        self.set(&manager.held, if held < OWNER { held & GONE } else { held });
        self.hand_on();
    }

    /// Grants to those that wait first, as long as the owners allow.
    fn hand_on(&mut self) {
        let (c, manager) = (self.c, self.manager);
        loop {
            let (held, address) = (self.get(&manager.held), self.get(&manager.first));
            if address == 0 || held & GONE != 0 {
                return;
            }
            let entry = LockEntry::<P>::at(address);
            let kind = entry.get(c, &entry.kind);
            let upgrade = entry.is_upgrade(c);
            let free = match upgrade {
                true => held < 2 * OWNER,
                false => held < OWNER || (held | kind) & EXCLUSIVE == 0,
            };
            if !free {
                return;
            }
            self.dequeue(None, entry);
            if upgrade {
                self.set(&manager.held, OWNER | EXCLUSIVE);
            } else {
                self.add_owner(address, kind);
            }
            // Release: pairs with the acquire of the wait.
            P::store(c, &entry.answer, GRANTED, Ordering::Release);
        }
    }

    /// Takes an entry, the one behind `before`, out of the queue.
    fn dequeue(&mut self, before: Option<&LockEntry<P>>, entry: &LockEntry<P>) {
        let (c, manager) = (self.c, self.manager);
        let next = entry.get(c, &entry.next);
        match before {
            Some(before) => before.set(c, &before.next, next),
            None => self.set(&manager.first, next),
        }
        if next == 0 {
            self.set(&manager.last, before.map_or(0, LockEntry::address));
        }
    }

    /// The transaction waits no longer: its answer, or 0 if there is none, and it has left
    /// the queue.
    pub(super) fn leave(&mut self, entry: &LockEntry<P>) -> u64 {
        let (c, manager) = (self.c, self.manager);
        let answer = entry.get(c, &entry.answer);
        if answer == 0 {
            let first = self.get(&manager.first);
            let before = self.list(first).take_while(|other| !std::ptr::eq(*other, entry)).last();
            self.dequeue(before, entry);
            self.hand_on();
        }
        answer
    }

    /// The row is gone for good: those who wait are sent away, and all who come are.
    pub(super) fn mark_gone(&mut self) {
        let (c, manager) = (self.c, self.manager);
        let held = self.get(&manager.held);
        self.set(&manager.held, held | GONE);
        let mut address = self.get(&manager.first);
        self.set(&manager.first, 0);
        self.set(&manager.last, 0);
        while address != 0 {
            let entry = LockEntry::<P>::at(address);
            address = entry.get(c, &entry.next);
            // Release: pairs with the acquire of the wait.
            P::store(c, &entry.answer, REFUSED, Ordering::Release);
        }
    }

    /// Returns true if the row is gone for good.
    pub(super) fn is_gone(&self) -> bool {
        self.get(&self.manager.held) & GONE != 0
    }
}

#[cfg(test)]
mod tests;
