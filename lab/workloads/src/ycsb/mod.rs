//! YCSB, the core workloads A to F (Cooper et al., "Benchmarking cloud serving systems with YCSB",
//! SoCC 2010, table 2 and the project's `core_workloads`), with several requests a transaction.
//!
//! | | read | update | insert | scan | read-modify-write | popular records |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | A | 50 | 50 | | | | Zipfian |
//! | B | 95 | 5 | | | | Zipfian |
//! | C | 100 | | | | | Zipfian |
//! | D | 95 | | 5 | | | latest |
//! | E | | | 5 | 95 | | Zipfian |
//! | F | 50 | | | | 50 | Zipfian |
//!
//! A read takes all fields, an update writes one, a scan reads 1 to 100 records; the exponent is
//! 0.99 by default.
//!
//! Record `r` of the loaded ones is number `r / p` of partition `r mod p`, one partition a worker;
//! popular records are spread over all partitions ([`crate::zipf::Scrambled`]). A worker inserts at
//! the end of its own partition, whose length it keeps in a row of table `ycsb_growth`, so that no
//! counter is shared.
//!
//! Deviations:
//! - Fields have 10 bytes, not 100, and rows 100 as in the engines we compare with (Silo, DBx1000).
//! - D assumes that all partitions are as long as the worker's own: reading a record of another
//!   partition that does not exist yet has no result.
//! - The numbers of E are ordered, and a scan ends where the partition ends. YCSB hashes keys, so
//!   its scans, too, read records that are adjacent in the index only.
//! - Requests of a transaction are independent, so writes are done before reads.

mod check;
pub mod procedure;
pub mod rows;
mod spec;

use schema::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, TableOptions};
use terms::Abort;

use crate::batch::{Batches, key, number};
use crate::workload::{Check, LoadedWith, Workload};
use crate::zipf::{Latest, Scrambled};
use procedure::{Request, Verb};
pub use procedure::{Requests, YcsbTransaction};
use rows::{Content, FIELDS, Growth, Record, YcsbTables, record_key};
pub use spec::{YcsbError, YcsbSpec, YcsbWorkload};
use terms::random::Random;

/// Longest scan.
pub const SCAN_RECORDS_MAX: u64 = 100;

/// The verb of a request, from a uniform number below 100.
#[inline]
fn verb(workload: YcsbWorkload, percent: u64) -> Verb {
    use YcsbWorkload::{A, B, C, D, E, F};
    match workload {
        A if percent < 50 => Verb::Update,
        B if percent < 5 => Verb::Update,
        D | E if percent < 5 => Verb::Insert,
        D => Verb::ReadLatest,
        E => Verb::Scan,
        F if percent < 50 => Verb::Modify,
        A | B | C | F => Verb::Read,
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Ycsb {
    spec: YcsbSpec,
    popular: Scrambled,
    latest: Latest,
}

impl Ycsb {
    /// The workload with these parameters, if they are valid.
    pub fn new(spec: YcsbSpec) -> Result<Self, YcsbError> {
        let partitions = u64::from(spec.partitions);
        if spec.requests == 0 || partitions == 0 || spec.records < partitions {
            return Err(YcsbError::Empty);
        }
        if spec.records > 1 << 47 {
            return Err(YcsbError::TooManyRecords(spec.records));
        }
        if !(0.0..=10.0).contains(&spec.zipf) {
            return Err(YcsbError::Exponent(spec.zipf));
        }
        let popular = Scrambled::new(spec.records, spec.zipf);
        let latest = Latest::new(spec.records, spec.zipf);
        Ok(Ycsb { spec, popular, latest })
    }

    /// The parameters.
    pub fn spec(&self) -> &YcsbSpec {
        &self.spec
    }

    /// Records loaded into a partition.
    fn loaded(&self, partition: u16) -> u64 {
        let (records, partitions) = (self.spec.records, u64::from(self.spec.partitions));
        records / partitions + u64::from(u64::from(partition) < records % partitions)
    }

    fn request(&self, random: &mut Random) -> Request {
        let verb = verb(self.spec.workload, random.below(100));
        let bits = match verb {
            Verb::Read | Verb::ReadLatest | Verb::Insert => 0,
            Verb::Update | Verb::Modify | Verb::Scan => random.next(),
        };
        let choice = match verb {
            Verb::Insert => 0,
            Verb::ReadLatest => self.latest.age(random),
            _ => record_key(self.popular.draw(random), self.spec.partitions),
        };
        let detail = match verb {
            Verb::Scan => (1 + (bits >> 32) % SCAN_RECORDS_MAX) as u8,
            _ => ((bits >> 32) % FIELDS as u64) as u8,
        };
        Request { key: choice, stamp: bits as u32, verb, detail }
    }
}

impl Workload for Ycsb {
    type Procedure = YcsbTransaction;

    fn create(&self, schema: &mut impl Schema) -> YcsbTables {
        let partitioning = Some(Partitioning { first: 0, count: self.spec.partitions });
        // A perfect hash for the loaded records, and for as many inserted ones if there are
        // inserts; further records overflow the buckets evenly.
        let (kind, room) = match self.spec.workload {
            YcsbWorkload::E => (IndexKind::Ordered, 1),
            YcsbWorkload::D => (IndexKind::Hash(HashPlan::Dense(number)), 2),
            _ => (IndexKind::Hash(HashPlan::Dense(number)), 1),
        };
        let records = TableOptions {
            rows: self.spec.records * room,
            partitioning,
            kinds: vec![kind],
            ..TableOptions::default()
        };
        let growth =
            TableOptions { rows: u64::from(self.spec.partitions), partitioning, ..TableOptions::default() };
        YcsbTables { records: schema.table("ycsb", records), growth: schema.table("ycsb_growth", growth) }
    }

    fn loaded_with(&self) -> LoadedWith {
        let YcsbSpec { records, partitions, .. } = self.spec;
        LoadedWith::new("ycsb", [("--records", records.to_string()), ("--cores", partitions.to_string())])
    }

    fn parts(&self) -> usize {
        usize::from(self.spec.partitions)
    }

    fn rows(&self, part: usize) -> u64 {
        self.loaded(part as u16) + 1
    }

    fn load(
        &self,
        tables: &YcsbTables,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let partition = u16::try_from(part).expect("there are as many parts as partitions");
        for number in 0..self.loaded(partition) {
            let id = key(partition, number);
            loader.insert(tables.records, &Record { id, content: Content::new(id, 0) })?;
        }
        loader.insert(tables.growth, &Growth { partition, inserted: 0 })
    }

    #[inline]
    fn undivided(&self) -> Option<&'static str> {
        let grows = matches!(self.spec.workload, YcsbWorkload::D | YcsbWorkload::E);
        grows.then_some(
            "which records workloads d and e touch follows from what they read: they need one instance",
        )
    }

    fn next(&self, worker: usize, random: &mut Random, _: u64) -> YcsbTransaction {
        let home = (worker % usize::from(self.spec.partitions)) as u16;
        let mut requests = Batches::new();
        for _ in 0..self.spec.requests {
            let request = self.request(random);
            let partition = request.partition().unwrap_or(home);
            requests.push(self.spec.grouping, partition, request);
        }
        if self.spec.workload.inserts() {
            YcsbTransaction::growing(requests, home, self.loaded(home), &self.spec)
        } else {
            YcsbTransaction::new(requests)
        }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["requests"]
    }

    fn kind(_: &YcsbTransaction) -> usize {
        0
    }

    fn code_lines(_: &YcsbTransaction) -> u16 {
        90
    }

    fn check(&self, tables: &YcsbTables, inspector: &mut impl Inspector, _: Option<&[u64]>) -> Vec<Check> {
        let loaded = (0..self.spec.partitions).map(|partition| self.loaded(partition)).collect();
        check::run(loaded, tables, inspector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(workload: YcsbWorkload) -> Vec<(Verb, u64)> {
        let mut shares: Vec<(Verb, u64)> = Vec::new();
        for verb in (0..100).map(|percent| verb(workload, percent)) {
            match shares.iter_mut().find(|share| share.0 == verb) {
                Some(share) => share.1 += 1,
                None => shares.push((verb, 1)),
            }
        }
        shares
    }

    #[test]
    fn mixes_are_the_published_ones() {
        assert_eq!(shares(YcsbWorkload::A), [(Verb::Update, 50), (Verb::Read, 50)]);
        assert_eq!(shares(YcsbWorkload::B), [(Verb::Update, 5), (Verb::Read, 95)]);
        assert_eq!(shares(YcsbWorkload::C), [(Verb::Read, 100)]);
        assert_eq!(shares(YcsbWorkload::D), [(Verb::Insert, 5), (Verb::ReadLatest, 95)]);
        assert_eq!(shares(YcsbWorkload::E), [(Verb::Insert, 5), (Verb::Scan, 95)]);
        assert_eq!(shares(YcsbWorkload::F), [(Verb::Modify, 50), (Verb::Read, 50)]);
    }

    #[test]
    fn records_are_divided_without_gaps() {
        let spec = YcsbSpec { records: 17, partitions: 5, ..YcsbSpec::default() };
        let ycsb = Ycsb::new(spec).expect("valid");
        let mut seen = [0; 5];
        for record in 0..17 {
            let key = record_key(record, 5);
            let partition = crate::batch::partition(key);
            assert_eq!(number(key), seen[usize::from(partition)]);
            seen[usize::from(partition)] += 1;
        }
        assert!((0..5).all(|partition| ycsb.loaded(partition) == seen[usize::from(partition)]));
        assert_eq!((0..5).map(|part| ycsb.rows(part) - 1).sum::<u64>(), 17);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let refused = |spec| Ycsb::new(spec).expect_err("refused");
        assert_eq!(refused(YcsbSpec { requests: 0, ..YcsbSpec::default() }), YcsbError::Empty);
        assert_eq!(refused(YcsbSpec { records: 3, partitions: 4, ..YcsbSpec::default() }), YcsbError::Empty);
        assert_eq!(refused(YcsbSpec { zipf: -1.0, ..YcsbSpec::default() }), YcsbError::Exponent(-1.0));
        assert_eq!(
            refused(YcsbSpec { records: 1 << 48, ..YcsbSpec::default() }),
            YcsbError::TooManyRecords(1 << 48)
        );
    }
}
