//! A workload that changes while it runs, to another mix or another choice of rows.
//!
//! Its stages are workloads of one kind over the same data, and each stage draws the transactions
//! from some moment on. Workers switch to the next stage by their own clocks, so that in virtual
//! time the same seed gives the same run. A worker still runs the one or two transactions that it
//! had drawn ahead before the moment.

use boundary::{Procedure, SchemaBuilder};
use schema::{Inspector, Loader, Schema, TableDescription};
use terms::Abort;

use crate::workload::{Check, LoadedWith, Workload};
use terms::random::Random;

/// A workload and its later stages, if it has any.
#[derive(Clone, Debug)]
pub struct Changing<W> {
    first: W,
    /// The later stages, each with the nanosecond of the measured time from which it applies,
    /// ascending.
    later: Vec<(u64, W)>,
}

/// The reason why a workload cannot change to another while it runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The stages have different tables or rows, so rows would have to be loaded or moved.
    #[error("a workload can change to one over the same data only")]
    OtherData,
    /// The moments do not ascend.
    #[error("changes are listed in the order of their moments")]
    Order,
}

impl<W: Workload> Changing<W> {
    /// A workload that does not change.
    pub fn never(workload: W) -> Self {
        Changing { first: workload, later: Vec::new() }
    }

    /// A workload that changes to another stage at each of these moments, in nanoseconds of the
    /// measured time.
    ///
    /// # Errors
    /// The moments do not ascend, or the data are not the same.
    pub fn new(first: W, later: Vec<(u64, W)>) -> Result<Self, ChangeError> {
        if !later.is_sorted_by_key(|(nanos, _)| *nanos) {
            return Err(ChangeError::Order);
        }
        let data = |workload: &W| -> (Vec<u64>, Vec<TableDescription>) {
            let mut schema = SchemaBuilder::new();
            workload.create(&mut schema);
            let rows = (0..workload.parts()).map(|part| workload.rows(part));
            (rows.collect(), schema.descriptions().cloned().collect())
        };
        if !later.is_empty() {
            let expected = data(&first);
            if later.iter().any(|(_, other)| data(other) != expected) {
                return Err(ChangeError::OtherData);
            }
        }
        Ok(Changing { first, later })
    }

    /// The stage that applies `elapsed_nanos` after the measured time began.
    #[inline]
    pub fn at(&self, elapsed_nanos: u64) -> &W {
        let begun = self.later.iter().rev().find(|(nanos, _)| *nanos <= elapsed_nanos);
        begun.map_or(&self.first, |(_, workload)| workload)
    }
}

impl<W: Workload> Workload for Changing<W> {
    type Procedure = W::Procedure;

    fn create(&self, schema: &mut impl Schema) -> <W::Procedure as Procedure>::Tables {
        self.first.create(schema)
    }

    fn loaded_with(&self) -> LoadedWith {
        self.first.loaded_with()
    }

    fn parts(&self) -> usize {
        self.first.parts()
    }

    fn rows(&self, part: usize) -> u64 {
        self.first.rows(part)
    }

    fn load(
        &self,
        tables: &<W::Procedure as Procedure>::Tables,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        self.first.load(tables, part, random, loader)
    }

    fn placed_tables(&self) -> usize {
        self.first.placed_tables()
    }

    fn owner(&self, table: usize, part: usize, sockets: &[u32]) -> Option<usize> {
        self.first.owner(table, part, sockets)
    }

    fn load_table(
        &self,
        tables: &<W::Procedure as Procedure>::Tables,
        table: usize,
        part: usize,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        self.first.load_table(tables, table, part, loader)
    }

    fn load_shared(
        &self,
        tables: &<W::Procedure as Procedure>::Tables,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        self.first.load_shared(tables, random, loader)
    }

    fn shared_part(&self) -> Option<usize> {
        self.first.shared_part()
    }

    fn undivided(&self) -> Option<&'static str> {
        let stages = std::iter::once(&self.first).chain(self.later.iter().map(|(_, workload)| workload));
        stages.into_iter().find_map(W::undivided)
    }

    #[inline]
    fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> W::Procedure {
        self.first.next(worker, random, now_nanos)
    }

    #[inline]
    fn next_at(
        &self,
        elapsed_nanos: u64,
        worker: usize,
        random: &mut Random,
        now_nanos: u64,
    ) -> W::Procedure {
        self.at(elapsed_nanos).next(worker, random, now_nanos)
    }

    fn homes(&self) -> usize {
        self.first.homes()
    }

    fn request(
        &self,
        elapsed_nanos: u64,
        homes: Option<&[usize]>,
        random: &mut Random,
        now_nanos: u64,
    ) -> (W::Procedure, usize) {
        self.at(elapsed_nanos).request(elapsed_nanos, homes, random, now_nanos)
    }

    #[inline]
    fn begin(&self, worker: usize, procedure: &mut W::Procedure, now_nanos: u64) {
        self.first.begin(worker, procedure, now_nanos);
    }

    fn acknowledged(&self, worker: usize, now_nanos: u64) {
        self.first.acknowledged(worker, now_nanos);
    }

    fn kinds(&self) -> &'static [&'static str] {
        self.first.kinds()
    }

    #[inline]
    fn kind(procedure: &W::Procedure) -> usize {
        W::kind(procedure)
    }

    fn code_lines(procedure: &W::Procedure) -> u16 {
        W::code_lines(procedure)
    }

    fn check(
        &self,
        tables: &<W::Procedure as Procedure>::Tables,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<Check> {
        self.first.check(tables, inspector, committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tatp::{Mix, Tatp};

    fn of(mix: Mix) -> Tatp {
        Tatp { mix, ..Tatp::new(100, 2) }
    }

    #[test]
    fn stages_follow_each_other() {
        let later = vec![(10, of(Mix::UpdateLocation)), (20, of(Mix::GetAccessData)), (20, of(Mix::Full))];
        let changing = Changing::new(of(Mix::GetSubscriberData), later).expect("the same data");
        let mixes = [0, 9, 10, 19, 20, 1 << 60].map(|nanos| changing.at(nanos).mix);
        let (first, second, last) = (Mix::GetSubscriberData, Mix::UpdateLocation, Mix::Full);
        assert_eq!(mixes, [first, first, second, second, last, last]);
        let kind = |nanos| Tatp::kind(&changing.next_at(nanos, 0, &mut Random::new(1, 1), 0));
        assert_eq!((kind(9), kind(10)), (0, 4));
        assert_eq!(Changing::never(of(Mix::Full)).at(u64::MAX).mix, Mix::Full);
    }

    #[test]
    fn data_stay() {
        let refused = |later| Changing::new(of(Mix::Full), later).expect_err("refused");
        assert_eq!(refused(vec![(5, Tatp::new(101, 2))]), ChangeError::OtherData);
        assert_eq!(refused(vec![(5, Tatp::new(100, 1))]), ChangeError::OtherData);
        assert_eq!(refused(vec![(5, of(Mix::Full)), (4, of(Mix::Full))]), ChangeError::Order);
    }
}
