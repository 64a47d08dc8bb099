//! Savepoints of a transaction: what a caller has of one, and the list that an engine keeps.

/// Most savepoints that a transaction has at a time.
pub const SAVEPOINTS_MAX: usize = 1 << 20;

/// A moment within a transaction, to which the transaction can roll back
/// ([`crate::AnyVerbs::savepoint`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    /// The attempt that has set it.
    attempt: u32,
    /// Savepoints of an attempt are numbered in the order in which they were set.
    number: u64,
}

/// The savepoints of a session's transaction, each with a mark `M` of the engine. It is kept from
/// attempt to attempt, and begins anew with the first savepoint of an attempt: attempts without
/// savepoints do not touch it.
#[derive(Debug)]
pub struct SavepointList<M> {
    attempt: u32,
    set: u64,
    /// In the order of their numbers.
    open: Vec<(u64, M)>,
}

impl<M> Default for SavepointList<M> {
    fn default() -> Self {
        SavepointList { attempt: 0, set: 0, open: Vec::new() }
    }
}

impl<M: Copy> SavepointList<M> {
    /// Returns true if the attempt has as many as it may have.
    pub fn is_full(&self, attempt: u32) -> bool {
        self.attempt == attempt && self.open.len() >= SAVEPOINTS_MAX
    }

    /// Adds a savepoint that the attempt sets.
    pub fn set(&mut self, attempt: u32, mark: M) -> Savepoint {
        if self.attempt != attempt {
            self.attempt = attempt;
            self.open.clear();
        }
        self.set += 1;
        self.open.push((self.set, mark));
        Savepoint { attempt, number: self.set }
    }

    fn place(&self, attempt: u32, savepoint: Savepoint) -> Option<usize> {
        let is_known = savepoint.attempt == attempt && self.attempt == attempt;
        let place = self.open.binary_search_by_key(&savepoint.number, |(number, _)| *number);
        place.ok().filter(|_| is_known)
    }

    /// The mark of a savepoint, if the attempt still has it. Later ones are forgotten.
    pub fn return_to(&mut self, attempt: u32, savepoint: Savepoint) -> Option<M> {
        let place = self.place(attempt, savepoint)?;
        self.open.truncate(place + 1);
        self.open.last().map(|(_, mark)| *mark)
    }

    /// Forgets a savepoint and later ones: how many are left. `None` if the attempt does not have
    /// it.
    pub fn release(&mut self, attempt: u32, savepoint: Savepoint) -> Option<usize> {
        let place = self.place(attempt, savepoint)?;
        self.open.truncate(place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_savepoint_is_there_until_it_is_released_or_passed() {
        let mut list = SavepointList::default();
        let [a, b, c] = [1, 2, 3].map(|mark| list.set(7, mark));
        assert_eq!(list.return_to(7, b), Some(2));
        assert_eq!(list.return_to(7, c), None, "it came later");
        assert_eq!(list.return_to(7, b), Some(2), "it stays");
        let d = list.set(7, 4);
        assert_ne!(c, d);
        assert_eq!((list.return_to(7, c), list.release(7, b)), (None, Some(1)));
        assert_eq!((list.release(7, b), list.return_to(7, d)), (None, None));
        assert_eq!(list.return_to(7, a), Some(1));
        assert_eq!(list.return_to(8, a), None, "another attempt");
        let e = list.set(8, 5);
        assert_eq!((list.return_to(8, a), list.return_to(8, e)), (None, Some(5)));
        assert_eq!((list.return_to(7, a), list.release(8, e)), (None, Some(0)));
    }
}
