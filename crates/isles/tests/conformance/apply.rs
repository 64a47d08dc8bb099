//! Execution of every operation on the library.

use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};

use isles::{Assign, Error, Lookup, Prefix, Result, Row, Scan, Select, Table, Transaction};

use crate::calls::{self, call, call_function};
use crate::long_rows::{Long, Tailed};
use crate::operation::{
    Operation, Outcome, PartEnd, RangeKind, ScanEnd, ScanPlan, Verb as Planned, continues, ends_at_savepoint,
    outcome,
};
use crate::rows::{Aspect, Hashed, OnField, OnGroup, OnIndex, Plain, Probe, TestRow, Wide};
use crate::sorted_rows::Sorted;
use crate::sql_rows::Booking;
use crate::verbs::Verbs;

/// The tables of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub wide: Table<Wide>,
    pub plain: Table<Plain>,
    pub hashed: Table<Hashed>,
    pub long: Table<Long>,
    pub tailed: Table<Tailed>,
    pub sorted: Table<Sorted>,
    pub bookings: Table<Booking>,
}

/// Runs an operation in a transaction. Objects use their own verbs on one of the tables, and those
/// of bodies on the others.
pub fn apply<T: Verbs>(transaction: &mut T, tables: &Tables, operation: &Operation) -> Outcome {
    if let Planned::Partly(operations, end) = &operation.verb {
        return apply_part(transaction, tables, operations, *end);
    }
    match operation.table {
        0 => transaction.body(|body| apply_to(body, tables.wide, operation)),
        1 => apply_to(transaction, tables.plain, operation),
        2 => transaction.body(|body| apply_to(body, tables.hashed, operation)),
        3 => transaction.body(|body| apply_to(body, tables.long, operation)),
        4 => transaction.body(|body| apply_to(body, tables.tailed, operation)),
        5 => transaction.body(|body| apply_to(body, tables.sorted, operation)),
        _ => transaction.body(|body| apply_to(body, tables.bookings, operation)),
    }
}

/// Runs operations up to the first that ends the attempt.
fn apply_all<T: Verbs>(transaction: &mut T, tables: &Tables, operations: &[Operation]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for operation in operations {
        let outcome = apply(transaction, tables, operation);
        let goes_on = continues(&outcome);
        outcomes.push(outcome);
        if !goes_on {
            break;
        }
    }
    outcomes
}

/// An error of the program's for nested transactions.
enum ProgramError {
    Ends,
    Library,
}

impl From<Error> for ProgramError {
    fn from(_: Error) -> Self {
        ProgramError::Library
    }
}

/// Runs operations behind a savepoint, or as a nested transaction.
fn apply_part<T: Verbs>(
    transaction: &mut T,
    tables: &Tables,
    operations: &[Operation],
    end: PartEnd,
) -> Outcome {
    let mut outcomes = Vec::new();
    let ended = match end {
        PartEnd::Release | PartEnd::RollBack | PartEnd::Keep => {
            behind_savepoint(transaction, tables, operations, end, &mut outcomes)
        }
        PartEnd::Nested | PartEnd::NestedError => transaction
            .nested(|t| {
                outcomes = apply_all(t, tables, operations);
                if end.rolls_back() { Err(Error::RollBack) } else { Ok(()) }
            })
            .or(Ok(())),
        PartEnd::TryNested | PartEnd::TryNestedError => {
            let nested = transaction.try_nested(|t| {
                outcomes = apply_all(t, tables, operations);
                if end.rolls_back() { Err(ProgramError::Ends) } else { Ok(()) }
            });
            let is_own = matches!(nested, Err(ProgramError::Ends));
            assert_eq!(is_own, end.rolls_back(), "the program's error comes back");
            Ok(())
        }
    };
    match outcomes.last().filter(|last| !continues(last) && !ends_at_savepoint(last)) {
        // The attempt has ended.
        Some(last) => last.clone(),
        None => outcome(ended.map(|()| outcomes)),
    }
}

fn behind_savepoint<T: Verbs>(
    transaction: &mut T,
    tables: &Tables,
    operations: &[Operation],
    end: PartEnd,
    outcomes: &mut Vec<Outcome>,
) -> Result<()> {
    let before = transaction.savepoint()?;
    *outcomes = apply_all(transaction, tables, operations);
    let failed = outcomes.last().is_some_and(|last| !continues(last));
    if end.rolls_back() || failed {
        let inner = if failed { Ok(before) } else { transaction.savepoint() }?;
        transaction.roll_back_to(before)?;
        // Once more, to the same state.
        transaction.roll_back_to(before)?;
        assert!(failed || inner != before, "each savepoint is another one");
    }
    if end == PartEnd::Release { transaction.release(before) } else { Ok(()) }
}

fn apply_to<T: Verbs, R: TestRow>(transaction: &mut T, table: Table<R>, operation: &Operation) -> Outcome {
    let Operation { probe, ref verb, .. } = *operation;
    let new = R::make(probe);
    match verb {
        Planned::Attempt => {
            // In a deployment a closure may conflict with a part that has not been notified of the
            // end of its procedure yet.
            let most = if calls::engine() == "deployment" { 1 } else { u32::MAX };
            outcome(transaction.body(|body| Ok(call!(body.attempt()).min(most))))
        }
        Planned::Insert => outcome(transaction.insert(table, &new)),
        Planned::InsertAll(probes) => {
            outcome(transaction.insert_all(table, probes.iter().map(|probe| R::make(*probe))))
        }
        Planned::InsertOrIgnore => outcome(transaction.insert_or_ignore(table, &new)),
        Planned::Upsert => outcome(transaction.upsert(table, &new)),
        Planned::UpsertWith(to) => {
            let to = R::make(*to);
            outcome(transaction.upsert_with(table, &new, |row| row.take_over(Aspect::Values, &to)))
        }
        Planned::GetDynamic
        | Planned::InsertDynamic
        | Planned::ScanDynamic
        | Planned::ScanDynamicAfter(_)
        | Planned::Stray => transaction.body(|body| apply_described(body, &new, verb)),
        _ => R::on_index(table, operation.index, IndexOperation { transaction, table, operation }),
    }
}

/// Operations on rows without a type.
fn apply_described<R: TestRow>(body: &mut Transaction<'_>, new: &R, verb: &Planned) -> Outcome {
    let datums = new.datums();
    let key: Vec<_> = R::INDEXES[0].columns.iter().map(|name| datums[position::<R>(name)].clone()).collect();
    match verb {
        Planned::GetDynamic => outcome(call!(body.get_dynamic(R::TABLE, &key))),
        Planned::InsertDynamic => outcome(call!(body.insert_dynamic(R::TABLE, &datums))),
        Planned::ScanDynamic => outcome(call!(body.scan_dynamic(R::TABLE))),
        Planned::ScanDynamicAfter(count) => {
            outcome(call!(body.scan_dynamic_after(R::TABLE, Some(&key[..]), *count)))
        }
        _ => outcome(body.get_dynamic("nothing of this name", &key)),
    }
}

/// The position of a column among all columns of a row.
fn position<R: Row>(name: &str) -> usize {
    // Columns of variable length have explicit positions; those of fixed length have the other
    // positions, in order.
    if let Some(column) = R::TAIL_COLUMNS.iter().find(|column| column.name == name) {
        return column.position;
    }
    let variable: Vec<usize> = R::TAIL_COLUMNS.iter().map(|column| column.position).collect();
    let fixed = R::COLUMNS.iter().position(|column| column.name == name).expect("a column");
    (0..).filter(|place| !variable.contains(place)).nth(fixed).expect("a place")
}

/// An operation that finds rows by an index.
struct IndexOperation<'o, T, R> {
    transaction: &'o mut T,
    table: Table<R>,
    operation: &'o Operation,
}

impl<T: Verbs, R: TestRow> OnIndex<R> for IndexOperation<'_, T, R> {
    type Output = Outcome;

    fn visit<L: Lookup<Row = R>, P: Prefix<L::Key>>(
        self,
        index: L,
        key_of: fn(&R) -> L::Key,
        front: fn(&R) -> P,
    ) -> Outcome {
        let IndexOperation { transaction, table, operation } = self;
        let key = key_of(&R::make(operation.probe));
        match &operation.verb {
            Planned::Get => outcome(transaction.get(index, &key)),
            Planned::GetForUpdate => outcome(transaction.get_for_update(index, &key)),
            Planned::Lock => outcome(transaction.lock(index, &key)),
            Planned::UpdateIf(to) => {
                let (like, to) = (R::make(operation.probe), R::make(*to));
                let is_met = |row: &R| format!("{row:?}") == format!("{like:?}");
                outcome(transaction.update_if(index, &key, is_met, |row| row.take_over(Aspect::Values, &to)))
            }
            Planned::GetField(field) => R::on_field(*field, GetFields { transaction, index, key }),
            Planned::GetGroup(group) => R::on_group(*group, GetFields { transaction, index, key }),
            Planned::GetMany(probes) => {
                let keys = probes.iter().map(|probe| key_of(&R::make(*probe)));
                outcome(transaction.get_many(index, keys))
            }
            Planned::Exists => outcome(transaction.exists(index, &key)),
            Planned::Update(aspect, to) => {
                let to = R::make(*to);
                outcome(transaction.update(index, &key, |row| row.take_over(*aspect, &to)))
            }
            Planned::SetField(field, salt) => {
                let from = R::make(Probe { part: 0, id: 0, salt: *salt });
                R::on_field(*field, WriteField { transaction, index, key, from, in_place: false })
            }
            Planned::SetKeyField => {
                let from = R::make(operation.probe);
                R::on_key_field(WriteField { transaction, index, key, from, in_place: false })
            }
            Planned::UpdateField(field, salt) => {
                let from = R::make(Probe { part: 0, id: 0, salt: *salt });
                R::on_field(*field, WriteField { transaction, index, key, from, in_place: true })
            }
            Planned::Delete => outcome(transaction.delete(index, &key)),
            Planned::Scan(plan) => {
                let keys = KeysOf { key: key_of, front };
                scan(transaction, index, table, keys, operation.probe, plan)
            }
            other => unreachable!("{other:?} has no index"),
        }
    }
}

struct GetFields<'o, T, L: Lookup> {
    transaction: &'o mut T,
    index: L,
    key: L::Key,
}

impl<T: Verbs, R: TestRow, L: Lookup<Row = R>> OnField<R> for GetFields<'_, T, L> {
    type Output = Outcome;
    fn visit<F: Assign<R, Value: Debug + Clone>>(
        self,
        field: F,
        _: fn(&R) -> F::Value,
        _: fn(&mut R, F::Value),
    ) -> Outcome {
        let found = self.transaction.get_field(self.index, &self.key, field);
        outcome(found.map(|value| value.map(|value| format!("{value:?}"))))
    }
}

impl<T: Verbs, R: TestRow, L: Lookup<Row = R>> OnGroup<R> for GetFields<'_, T, L> {
    type Output = Outcome;
    fn visit<F: Select<R, Value: Debug>>(self, fields: F, _: fn(&R) -> F::Value) -> Outcome {
        let found = self.transaction.get_field(self.index, &self.key, fields);
        outcome(found.map(|value| value.map(|value| format!("{value:?}"))))
    }
}

struct WriteField<'o, T, L: Lookup> {
    transaction: &'o mut T,
    index: L,
    key: L::Key,
    from: L::Row,
    /// True if a closure changes the value, false if the value is set.
    in_place: bool,
}

impl<T: Verbs, R: TestRow, L: Lookup<Row = R>> OnField<R> for WriteField<'_, T, L> {
    type Output = Outcome;
    fn visit<F: Assign<R, Value: Debug + Clone>>(
        self,
        field: F,
        get: fn(&R) -> F::Value,
        _: fn(&mut R, F::Value),
    ) -> Outcome {
        let WriteField { transaction, index, key, from, in_place } = self;
        let new = get(&from);
        if !in_place {
            return outcome(transaction.set_field(index, &key, field, &new));
        }
        let change = |value: &mut F::Value| format!("{:?}", std::mem::replace(value, new));
        outcome(transaction.update_field(index, &key, field, change))
    }
}

/// Functions that derive the key of an index, and its leading columns, from a row.
struct KeysOf<R, K, P> {
    key: fn(&R) -> K,
    front: fn(&R) -> P,
}

/// Makes the range of a scan, and runs the scan.
fn scan<T: Verbs, R: TestRow, L: Lookup<Row = R>, P: Prefix<L::Key>>(
    transaction: &mut T,
    index: L,
    table: Table<R>,
    KeysOf { key: key_of, front }: KeysOf<R, L::Key, P>,
    from: Probe,
    plan: &ScanPlan,
) -> Outcome {
    let [from, to] = [from, plan.to].map(R::make);
    let (low, high) = (key_of(&from), key_of(&to));
    let scan = match plan.range {
        RangeKind::Full => transaction.scan(index, ..),
        RangeKind::From => transaction.scan(index, low..),
        RangeKind::To => transaction.scan(index, ..high),
        RangeKind::ToInclusive => transaction.scan(index, ..=high),
        RangeKind::HalfOpen => transaction.scan(index, low..high),
        RangeKind::Inclusive => transaction.scan(index, low..=high),
        RangeKind::Bounds => transaction.scan(index, (Bound::Excluded(low), Bound::Excluded(high))),
        RangeKind::Prefix => transaction.scan(index, call_function!(prefix(front(&from)))),
        RangeKind::Prefixes => transaction.scan(index, call_function!(prefixes(front(&from)..front(&to)))),
        RangeKind::PrefixesInclusive => {
            transaction.scan(index, call_function!(prefixes(front(&from)..=front(&to))))
        }
        RangeKind::PrefixesFrom => transaction.scan(index, call_function!(prefixes(front(&from)..))),
        RangeKind::PrefixesTo => transaction.scan(index, call_function!(prefixes(..front(&to)))),
        RangeKind::PrefixesToInclusive => transaction.scan(index, call_function!(prefixes(..=front(&to)))),
    };
    let mut scan = scan;
    if plan.reverse {
        scan = call!(scan.reverse());
    }
    if let Some(limit) = plan.limit {
        scan = call!(scan.limit(limit));
    }
    if plan.for_update {
        scan = call!(scan.for_update());
    }
    if plan.lock_or_skip {
        scan = call!(scan.lock_or_skip());
    }
    run_scan(scan, table, plan.end)
}

fn run_scan<R: TestRow, K: isles::Key>(scan: Scan<'_, R, K>, table: Table<R>, end: ScanEnd) -> Outcome {
    match end {
        ScanEnd::Collect => outcome(call!(scan.collect())),
        ScanEnd::First => outcome(call!(scan.first())),
        ScanEnd::Last => outcome(call!(scan.last())),
        ScanEnd::Count => outcome(call!(scan.count())),
        ScanEnd::ForEach(most) => {
            let mut rows = Vec::new();
            let visited = call!(scan.for_each(|row| {
                rows.push(row);
                if rows.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }));
            outcome(visited.map(|()| rows))
        }
        ScanEnd::TryForEach(most, to) => {
            let (mut visited, to) = (0, R::make(to));
            let scanned = call!(scan.try_for_each(|t, row| {
                visited += 1;
                t.update(table, &row.key(), |row| row.take_over(Aspect::Values, &to))?;
                Ok(if visited >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }));
            outcome(scanned.map(|()| visited))
        }
        ScanEnd::Update(aspect, to) => {
            let to = R::make(to);
            outcome(call!(scan.update(|row| row.take_over(aspect, &to))))
        }
        ScanEnd::Delete => outcome(call!(scan.delete())),
        ScanEnd::Rows(most) => outcome(call!(scan.rows()).take(most).collect::<Result<Vec<R>>>()),
        ScanEnd::IntoIterator => outcome(scan.into_iter().collect::<Result<Vec<R>>>()),
        ScanEnd::Fields(group) => R::on_group(group % R::GROUPS, ScanFields(scan)),
        ScanEnd::Between => outcome(recheck_between(scan, table)),
    }
}

/// Finds each row once more between two rows of the iterator.
fn recheck_between<R: TestRow, K: isles::Key>(scan: Scan<'_, R, K>, table: Table<R>) -> Result<Vec<R>> {
    let (mut rows, mut all) = (call!(scan.rows()), Vec::new());
    while let Some(row) = rows.next() {
        let row = row?;
        let there = call!(rows.transaction()).exists(table, &row.key())?;
        assert!(there, "a row that the scan shows is there: {row:?}");
        all.push(row);
    }
    Ok(all)
}

struct ScanFields<'s, R, K>(Scan<'s, R, K>);

impl<R: TestRow, K: isles::Key> OnGroup<R> for ScanFields<'_, R, K> {
    type Output = Outcome;
    fn visit<F: Select<R, Value: Debug>>(self, fields: F, _: fn(&R) -> F::Value) -> Outcome {
        let ScanFields(scan) = self;
        let values = call!(scan.fields(fields)).map(|value| value.map(|value| format!("{value:?}")));
        outcome(values.collect::<Result<Vec<_>>>())
    }
}
