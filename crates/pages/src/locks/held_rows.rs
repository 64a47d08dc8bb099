//! The keys and gaps that one owner's transaction has locked.

use std::collections::BTreeMap;

use platform::{Nanos, Platform};

use super::answer::{ImmediateAnswer, LockAnswer};
use super::rows::RowRequest;
use super::{LockManager, LockMode};

/// A lock of the transaction.
#[derive(Clone, Copy)]
struct HeldLock {
    name: u64,
    mode: LockMode,
    table: u32,
    /// Number of its request, counted from the owner's first.
    slot: u32,
}

/// A place of the hash table that finds locks by their names: empty, if its round is over.
#[derive(Clone, Copy, Default)]
struct TablePlace {
    /// Number of the lock.
    lock: u32,
    /// The round in which the lock was entered.
    round: u32,
}

fn bit(table: usize) -> u64 {
    1 << (table % 64)
}

/// The locks that a transaction holds.
pub(super) struct HeldRows {
    /// Number of the owner's first request.
    first: u64,
    limit: usize,
    locks: Vec<HeldLock>,
    /// An open hash table, which finds locks by their names.
    places: Vec<TablePlace>,
    round: u32,
    /// Requests that are free below those in use: of locks that were given back before the end.
    free: Vec<u32>,
    /// The tables in which this attempt converted a lock: a bit each, by the low bits of its
    /// number.
    converted: u64,
    /// The same of the attempts of the same transaction before.
    converted_before: u64,
}

impl HeldRows {
    /// None, of the owner with this number.
    pub(super) fn new<P: Platform>(manager: &LockManager<P>, owner: usize) -> Self {
        let limit = manager.rows.per_owner;
        HeldRows {
            first: (owner * limit) as u64 + 1,
            limit,
            locks: Vec::new(),
            places: vec![TablePlace::default(); 64],
            round: 1,
            free: Vec::new(),
            converted: 0,
            converted_before: 0,
        }
    }

    /// An attempt begins, of the same transaction as the one before.
    pub(super) fn begin_attempt(&mut self) {
        self.converted_before |= std::mem::take(&mut self.converted);
    }

    /// Another transaction begins.
    pub(super) fn begin_anew(&mut self) {
        (self.converted, self.converted_before) = (0, 0);
    }

    /// Returns true if an earlier attempt of the transaction converted a lock in this table, or in
    /// one with the same bit.
    pub(super) fn has_converted(&self, table: usize) -> bool {
        self.converted_before & bit(table) != 0
    }

    /// Number of locks.
    pub(super) fn count(&self) -> usize {
        self.locks.len()
    }

    /// Most locks.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Number of locks in each table that has some.
    pub(super) fn counts(&self) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for lock in &self.locks {
            *counts.entry(lock.table as usize).or_insert(0) += 1;
        }
        counts
    }

    /// Returns true if there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.locks.len() < self.limit
    }

    fn place(&self, name: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = (name >> 32) as usize & mask;
        let is_other =
            |place: TablePlace| place.round == self.round && self.locks[place.lock as usize].name != name;
        while is_other(self.places[at]) {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, name: u64) -> Option<usize> {
        let place = self.places[self.place(name)];
        (place.round == self.round).then_some(place.lock as usize)
    }

    /// The mode in which the transaction has this place, if it has it.
    pub(super) fn mode(&self, name: u64) -> Option<LockMode> {
        self.find(name).map(|number| self.locks[number].mode)
    }

    fn add(&mut self, lock: HeldLock) {
        self.locks.push(lock);
        if self.locks.len() * 2 > self.places.len() {
            self.places = vec![TablePlace::default(); self.places.len() * 2];
            self.round = 1;
            return self.enter_all();
        }
        let at = self.place(lock.name);
        self.places[at] = TablePlace { lock: self.locks.len() as u32 - 1, round: self.round };
    }

    /// Enters all locks into places that are empty.
    fn enter_all(&mut self) {
        for number in 0..self.locks.len() {
            let at = self.place(self.locks[number].name);
            self.places[at] = TablePlace { lock: number as u32, round: self.round };
        }
    }

    fn request(&self, number: usize) -> u64 {
        self.first + u64::from(self.locks[number].slot)
    }

    /// Locks a place of a table. With `waits` the transaction waits as long as it may, until the
    /// deadline, if there is one; before that `on_wait` is called.
    ///
    /// Pre: there is room for another lock.
    pub(super) fn acquire<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        table: usize,
        request: RowRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> LockAnswer {
        let own = self.find(request.name);
        let mode = own.map_or(request.mode, |number| self.locks[number].mode.join(request.mode));
        if own.is_some_and(|number| self.locks[number].mode == mode) {
            return LockAnswer::Granted;
        }
        if own.is_some() {
            self.converted |= bit(table);
        }
        let slot = self.free.last().copied().unwrap_or(self.locks.len() as u32);
        let fresh = self.first + u64::from(slot);
        let own_request = own.map(|number| self.request(number));
        let (rows, rule) = (&manager.rows, &manager.waits);
        let answer = match (rows.request_lock(c, rule, request, own_request, fresh, waits.is_some()), waits) {
            (ImmediateAnswer::Granted, _) => LockAnswer::Granted,
            (ImmediateAnswer::Refused, _) | (_, None) => LockAnswer::Refused,
            (ImmediateAnswer::Waits, Some(deadline)) => {
                on_wait();
                rows.wait(c, rule, own_request.unwrap_or(fresh), request.name, deadline)
            }
        };
        if answer == LockAnswer::Granted {
            match own {
                Some(number) => self.locks[number].mode = mode,
                None => {
                    self.free.pop();
                    self.add(HeldLock { name: request.name, mode, table: table as u32, slot });
                }
            }
        }
        answer
    }

    /// Returns true if no other transaction has the place in a mode that excludes this one.
    pub(super) fn is_free<P: Platform>(
        &self,
        manager: &LockManager<P>,
        c: P::Core,
        name: u64,
        mode: LockMode,
    ) -> bool {
        let own = self.find(name).map(|number| self.request(number));
        manager.rows.is_free(c, name, mode, own)
    }

    fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.places.fill(TablePlace::default());
            self.round = 1;
        }
    }

    /// Gives the locks of a table back that a lock of the table covers; the number of those that it
    /// keeps.
    #[cold]
    pub(super) fn release_covered<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        table: usize,
        mode: LockMode,
    ) -> usize {
        let first = self.first;
        let mut left = 0;
        let free = &mut self.free;
        self.locks.retain(|lock| {
            let is_here = lock.table as usize == table;
            let is_covered = is_here && mode.covers(lock.mode);
            left += usize::from(is_here && !is_covered);
            if is_covered {
                manager.rows.release(c, &manager.waits, first + u64::from(lock.slot), lock.name);
                free.push(lock.slot);
            }
            !is_covered
        });
        self.next_round();
        self.enter_all();
        left
    }

    /// Gives all locks back.
    pub(super) fn release_all<P: Platform>(&mut self, manager: &LockManager<P>, c: P::Core) {
        // The last ones first: rows that many want are taken late.
        for lock in self.locks.iter().rev() {
            manager.rows.release(c, &manager.waits, self.first + u64::from(lock.slot), lock.name);
        }
        self.locks.clear();
        self.free.clear();
        self.next_round();
    }
}
