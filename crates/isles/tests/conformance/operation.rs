//! The operations of programs, as values, and the generator that draws them.

use std::fmt::Debug;

use isles::Error;
use serde::{Deserialize, Serialize};
use terms::random::{GOLDEN, SplitMix};

use crate::rows::{Aspect, Probe};

/// One verb on one table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    pub table: usize,
    pub index: usize,
    pub probe: Probe,
    pub verb: Verb,
}

/// A verb with the arguments that do not follow from the operation's probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verb {
    Attempt,
    Get,
    GetForUpdate,
    Lock,
    GetField(usize),
    GetGroup(usize),
    GetMany(Vec<Probe>),
    Exists,
    Insert,
    InsertAll(Vec<Probe>),
    InsertOrIgnore,
    Upsert,
    /// The columns without keys are those of the probe, if the row is there.
    UpsertWith(Probe),
    /// If the row is like that of the probe, it gets the values of the other one.
    UpdateIf(Probe),
    Update(Aspect, Probe),
    SetField(usize, u32),
    SetKeyField,
    UpdateField(usize, u32),
    Delete,
    Scan(ScanPlan),
    GetDynamic,
    InsertDynamic,
    ScanDynamic,
    ScanDynamicAfter(usize),
    /// A table that does not exist.
    Stray,
    /// Operations that may be rolled back together.
    Partly(Vec<Operation>, PartEnd),
}

/// How operations become a part of their transaction, or are rolled back. One that fails has all of
/// them rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartEnd {
    /// Behind a savepoint that is released.
    Release,
    /// Behind a savepoint, to which the transaction rolls back.
    RollBack,
    /// Behind a savepoint that the transaction keeps.
    Keep,
    /// As a nested transaction.
    Nested,
    /// As a nested transaction whose body returns an error.
    NestedError,
    /// The same, with an error type of the program's.
    TryNested,
    TryNestedError,
}

impl PartEnd {
    const ALL: [PartEnd; 7] = [
        PartEnd::Release,
        PartEnd::RollBack,
        PartEnd::Keep,
        PartEnd::Nested,
        PartEnd::NestedError,
        PartEnd::TryNested,
        PartEnd::TryNestedError,
    ];

    /// True if the operations are rolled back even if none fails.
    pub fn rolls_back(self) -> bool {
        matches!(self, PartEnd::RollBack | PartEnd::NestedError | PartEnd::TryNestedError)
    }
}

/// A scan from the operation's probe to another probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScanPlan {
    pub range: RangeKind,
    pub to: Probe,
    pub reverse: bool,
    pub limit: Option<u64>,
    pub for_update: bool,
    pub lock_or_skip: bool,
    pub end: ScanEnd,
}

impl ScanPlan {
    /// A scan of the whole index, forward.
    pub fn all(end: ScanEnd) -> Self {
        let to = Probe { part: 0, id: 0, salt: 0 };
        let (for_update, lock_or_skip) = (false, false);
        ScanPlan { range: RangeKind::Full, to, reverse: false, limit: None, for_update, lock_or_skip, end }
    }
}

/// The form of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeKind {
    Full,
    From,
    To,
    ToInclusive,
    HalfOpen,
    Inclusive,
    Bounds,
    Prefix,
    Prefixes,
    PrefixesInclusive,
    PrefixesFrom,
    PrefixesTo,
    PrefixesToInclusive,
}

impl RangeKind {
    pub const ALL: [RangeKind; 13] = [
        RangeKind::Full,
        RangeKind::From,
        RangeKind::To,
        RangeKind::ToInclusive,
        RangeKind::HalfOpen,
        RangeKind::Inclusive,
        RangeKind::Bounds,
        RangeKind::Prefix,
        RangeKind::Prefixes,
        RangeKind::PrefixesInclusive,
        RangeKind::PrefixesFrom,
        RangeKind::PrefixesTo,
        RangeKind::PrefixesToInclusive,
    ];

    /// Ranges that an instance accepts: a range within a part of another instance alone is refused,
    /// and so may be a range that ends before the first key of a part.
    pub const OF_AN_INSTANCE: [RangeKind; 11] = [
        RangeKind::Full,
        RangeKind::From,
        RangeKind::ToInclusive,
        RangeKind::HalfOpen,
        RangeKind::Inclusive,
        RangeKind::Bounds,
        RangeKind::Prefix,
        RangeKind::Prefixes,
        RangeKind::PrefixesInclusive,
        RangeKind::PrefixesFrom,
        RangeKind::PrefixesToInclusive,
    ];

    /// Ranges whose keys are all in one part if both ends are.
    pub const OF_ONE_PART: [RangeKind; 3] = [RangeKind::HalfOpen, RangeKind::Inclusive, RangeKind::Prefix];
}

/// Method that runs a scan.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum ScanEnd {
    Collect,
    First,
    Last,
    Count,
    /// Until this many rows were seen.
    ForEach(usize),
    /// The same, and each row is changed.
    TryForEach(usize, Probe),
    Update(Aspect, Probe),
    Delete,
    Rows(usize),
    IntoIterator,
    /// A group of fields of each row.
    Fields(usize),
    /// Every row is found once more between two rows.
    Between,
}

/// Outcome of an operation: its value or its error, as text.
pub type Outcome = Result<String, String>;

/// An error in outcomes: its kind and position, without texts that may change.
pub fn kind(error: &Error) -> String {
    match error {
        Error::Duplicate { table, index, .. } => format!("Duplicate in {table}, {index}"),
        Error::Misuse(_) => "Misuse".to_owned(),
        Error::NoSuchTable(_) => "NoSuchTable".to_owned(),
        Error::NoSnapshots { .. } => "NoSnapshots".to_owned(),
        Error::Conflict { .. } => "Conflict".to_owned(),
        Error::Elsewhere { instance, .. } => format!("Elsewhere {instance}"),
        other => format!("{other:?}"),
    }
}

/// Outcome of a verb.
pub fn outcome<T: Debug>(result: Result<T, Error>) -> Outcome {
    result.map(|value| format!("{value:?}")).map_err(|error| kind(&error))
}

/// True if a roll-back to a savepoint makes the transaction usable after an outcome that ends it
/// otherwise.
pub fn ends_at_savepoint(outcome: &Outcome) -> bool {
    let of_program = |error: &String| error == "Misuse" || error.starts_with("Duplicate");
    outcome.as_ref().err().is_some_and(of_program)
}

/// True if the attempt continues after an outcome.
pub fn continues(outcome: &Outcome) -> bool {
    outcome.as_ref().err().is_none_or(|error| error == "NoSuchTable")
}

/// A small generator of random numbers, determined by its seed.
#[derive(Clone, Debug)]
pub struct Draw(SplitMix);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(SplitMix::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ GOLDEN))
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next() % end
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Parameters of generated operations.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Parts of the generated keys.
    pub parts: Vec<u16>,
    /// Bound of the generated row numbers.
    pub ids: u32,
    /// True if each operation has to stay within one part.
    pub one_part: bool,
    /// True if the operations change no row.
    pub only_reads: bool,
    /// Numbers of tables.
    pub tables: Vec<usize>,
    /// Forms of ranges.
    pub ranges: &'static [RangeKind],
}

/// Sizes of the tables for the generator, by number: indexes, fields, groups.
pub const SHAPES: [(usize, usize, usize); 7] =
    [(3, 26, 5), (3, 3, 3), (4, 1, 2), (2, 2, 2), (2, 0, 1), (13, 1, 2), (5, 17, 2)];
/// Tables and hash indexes, if the engine has hash indexes.
const HASHED: [(usize, usize); 3] = [(2, 0), (2, 1), (2, 2)];
/// Number of kinds of verbs that only read, and of all kinds.
const READING: u64 = 14;
pub const KINDS: u64 = PARTS_FROM + PartEnd::ALL.len() as u64;
/// The first kind of operations that may be rolled back together.
const PARTS_FROM: u64 = 34;
/// Operations of a part.
const PART_MAX: u64 = 4;
/// The kind of a scan that skips what others have locked, which one transaction at a time has not.
pub const SKIPPING: u64 = KINDS;

impl Scope {
    pub fn probe(&self, draw: &mut Draw) -> Probe {
        Probe {
            part: draw.of(&self.parts),
            id: draw.below(self.ids.into()) as u32,
            salt: draw.below(100) as u32,
        }
    }

    pub fn operation(&self, draw: &mut Draw) -> Operation {
        let kind = draw.below(if self.only_reads { READING } else { KINDS });
        self.operation_of(draw, kind)
    }

    /// An operation of a transaction beside which no other one runs.
    pub fn operation_alone(&self, draw: &mut Draw) -> Operation {
        match !self.only_reads && draw.one_in(12) {
            true => self.operation_of(draw, SKIPPING),
            false => self.operation(draw),
        }
    }

    /// An operation of this kind, below [`KINDS`], or [`SKIPPING`].
    pub fn operation_of(&self, draw: &mut Draw, kind: u64) -> Operation {
        let probe = self.probe(draw);
        let within =
            if self.one_part { Scope { parts: vec![probe.part], ..self.clone() } } else { self.clone() };
        let table = draw.of(&self.tables);
        if (PARTS_FROM..KINDS).contains(&kind) {
            let operations = (0..=draw.below(PART_MAX)).map(|_| within.operation(draw)).collect();
            let end = PartEnd::ALL[(kind - PARTS_FROM) as usize];
            return Operation { table, index: 0, probe, verb: Verb::Partly(operations, end) };
        }
        let (indexes, _, _) = SHAPES[table];
        let index = draw.below(indexes as u64) as usize;
        let mut verb = within.verb(draw, kind, table, probe);
        if let (true, Verb::Scan(plan)) = (HASHED.contains(&(table, index)), &mut verb) {
            // The engine refuses the scan unless the range is empty, and this one is not.
            plan.range = RangeKind::Prefix;
        }
        Operation { table, index, probe, verb }
    }

    fn verb(&self, draw: &mut Draw, kind: u64, table: usize, probe: Probe) -> Verb {
        let (_, fields, groups) = SHAPES[table];
        let field = |draw: &mut Draw| draw.below(fields.max(1) as u64) as usize;
        let several = |draw: &mut Draw| (0..draw.below(5)).map(|_| self.probe(draw)).collect();
        match kind {
            0 => Verb::Attempt,
            1 | 2 => Verb::Get,
            3 if fields > 0 => Verb::GetField(field(draw)),
            4 => Verb::GetGroup(draw.below(groups as u64) as usize),
            5 => Verb::GetMany(several(draw)),
            6 => Verb::GetDynamic,
            7 => Verb::ScanDynamicAfter(draw.below(12) as usize),
            8 if draw.one_in(2) => Verb::ScanDynamic,
            9 if draw.one_in(2) => Verb::Stray,
            10..=12 => Verb::Scan(self.scan(draw, true)),
            14 | 15 => Verb::Insert,
            16 => Verb::InsertAll(several(draw)),
            17 => Verb::InsertOrIgnore,
            18 => Verb::Upsert,
            20 | 22 => Verb::Update(self.aspect(draw), self.of_part(draw, probe)),
            19 | 23 if fields > 0 => Verb::SetField(field(draw), draw.below(100) as u32),
            21 | 24 if fields > 0 => Verb::UpdateField(field(draw), draw.below(100) as u32),
            25 => Verb::Delete,
            26 => Verb::InsertDynamic,
            27 => Verb::GetForUpdate,
            28 => Verb::Scan(self.scan(draw, false)),
            30 => Verb::Lock,
            31 => Verb::UpsertWith(self.of_part(draw, probe)),
            32 | 33 => Verb::UpdateIf(self.of_part(draw, probe)),
            SKIPPING => {
                let only_reads = draw.one_in(2);
                Verb::Scan(ScanPlan { lock_or_skip: true, ..self.scan(draw, only_reads) })
            }
            29 if draw.one_in(6) => Verb::SetKeyField,
            _ => Verb::Exists,
        }
    }

    /// A probe of the same part, because an operation with two keys stays in one part.
    fn of_part(&self, draw: &mut Draw, probe: Probe) -> Probe {
        Probe { part: probe.part, ..self.probe(draw) }
    }

    fn aspect(&self, draw: &mut Draw) -> Aspect {
        draw.of(&[Aspect::Values, Aspect::Values, Aspect::Tail, Aspect::Tail, Aspect::Indexed, Aspect::Key])
    }

    fn scan(&self, draw: &mut Draw, only_reads: bool) -> ScanPlan {
        let range = draw.of(self.ranges);
        let to = self.probe(draw);
        let end = match (only_reads, draw.below(9)) {
            (true, 0 | 8) => ScanEnd::Collect,
            (true, 1) => ScanEnd::First,
            (true, 2) => ScanEnd::Last,
            (true, 3) => ScanEnd::Count,
            (true, 4) => ScanEnd::ForEach(draw.below(40) as usize),
            (true, 5) => ScanEnd::Rows(draw.below(40) as usize),
            (true, 6) => draw.of(&[ScanEnd::IntoIterator, ScanEnd::Between]),
            (true, _) => ScanEnd::Fields(draw.below(5) as usize),
            (false, 0..=2) => ScanEnd::TryForEach(draw.below(20) as usize, self.probe(draw)),
            (false, 3) => ScanEnd::Delete,
            (false, _) => ScanEnd::Update(self.aspect(draw), self.probe(draw)),
        };
        let limit = draw.one_in(3).then(|| draw.below(30));
        ScanPlan {
            range,
            to,
            reverse: draw.one_in(2),
            limit,
            for_update: !self.only_reads && draw.one_in(4),
            lock_or_skip: false,
            end,
        }
    }
}
