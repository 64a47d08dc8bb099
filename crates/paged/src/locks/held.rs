//! The locks of one session's transaction.

use platform::{Nanos, Platform};

use super::{Answer, Asked, LockMode, LockTable, Wish};

/// A lock of the transaction.
#[derive(Clone, Copy)]
struct HeldLock {
    name: u64,
    mode: LockMode,
}

/// The locks that a transaction holds. Request `i` of the session is that of lock `i`.
pub(crate) struct HeldLocks {
    /// Number of the session's first request.
    first: u64,
    limit: usize,
    locks: Vec<HeldLock>,
    /// Finds locks by their names: places of an open hash table, each the number of a lock and the round in which it was entered.
    places: Vec<(u32, u32)>,
    round: u32,
}

impl HeldLocks {
    /// None, of the session with this number.
    pub(crate) fn new<P: Platform>(table: &LockTable<P>, session: usize) -> Self {
        let limit = table.per_session;
        HeldLocks {
            first: (session * limit) as u64 + 1,
            limit,
            locks: Vec::new(),
            places: vec![(0, 0); 64],
            round: 1,
        }
    }

    /// Most locks.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether there is room for another one.
    pub(crate) fn has_room(&self) -> bool {
        self.locks.len() < self.limit
    }

    fn place(&self, name: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = (name >> 32) as usize & mask;
        while self.places[at].1 == self.round && self.locks[self.places[at].0 as usize].name != name {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, name: u64) -> Option<usize> {
        let (number, round) = self.places[self.place(name)];
        (round == self.round).then_some(number as usize)
    }

    /// How the transaction has this place, if at all.
    pub(crate) fn mode(&self, name: u64) -> Option<LockMode> {
        self.find(name).map(|number| self.locks[number].mode)
    }

    fn add(&mut self, lock: HeldLock) {
        if self.locks.len() * 2 >= self.places.len() {
            self.places = vec![(0, 0); self.places.len() * 2];
            self.round = 1;
            for number in 0..self.locks.len() {
                let at = self.place(self.locks[number].name);
                self.places[at] = (number as u32, self.round);
            }
        }
        let at = self.place(lock.name);
        self.places[at] = (self.locks.len() as u32, self.round);
        self.locks.push(lock);
    }

    /// Locks a place. With `waits` the transaction waits as long as it may, until the deadline, if there is one; before that `on_wait`
    /// is called.
    ///
    /// Pre: there is room for another lock.
    pub(crate) fn acquire<P: Platform>(
        &mut self,
        (table, c): (&LockTable<P>, P::Core),
        wish: Wish,
        waits: Option<Option<Nanos>>,
        on_wait: impl FnOnce(),
    ) -> Answer {
        let own = self.find(wish.name);
        let mode = own.map_or(wish.mode, |number| self.locks[number].mode.join(wish.mode));
        if own.is_some_and(|number| self.locks[number].mode == mode) {
            return Answer::Granted;
        }
        let request = |number: usize| self.first + number as u64;
        let fresh = request(self.locks.len());
        let asked = table.ask(c, wish, (own.map(request), fresh), waits.is_some());
        let answer = match (asked, waits) {
            (Asked::Granted, _) => Answer::Granted,
            (Asked::Refused, _) | (_, None) => Answer::Refused,
            (Asked::Waits, Some(deadline)) => {
                on_wait();
                table.wait(c, own.map_or(fresh, request), wish.name, deadline)
            }
        };
        if answer == Answer::Granted {
            match own {
                Some(number) => self.locks[number].mode = mode,
                None => self.add(HeldLock { name: wish.name, mode }),
            }
        }
        answer
    }

    /// Whether no other transaction has the place in a mode that excludes this one.
    pub(crate) fn is_free<P: Platform>(
        &self,
        (table, c): (&LockTable<P>, P::Core),
        name: u64,
        mode: LockMode,
    ) -> bool {
        let own = self.find(name).map(|number| self.first + number as u64);
        table.is_free(c, name, mode, own)
    }

    fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.places.fill((0, 0));
            self.round = 1;
        }
    }

    /// Gives all locks back.
    pub(crate) fn release_all<P: Platform>(&mut self, (table, c): (&LockTable<P>, P::Core)) {
        for (number, lock) in self.locks.iter().enumerate() {
            table.release(c, self.first + number as u64, lock.name);
        }
        self.locks.clear();
        self.next_round();
    }
}
