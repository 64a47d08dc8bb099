//! The model: maps of the standard library, and every operation on them in the simplest form.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use isles::Datum;

use crate::long_rows::{Long, Tailed};
use crate::operation::{Operation, Outcome, PartEnd, RangeKind, ScanEnd, ScanPlan, Verb, continues};
use crate::rows::{Aspect, Atom, Hashed, OnField, OnGroup, Plain, Probe, TestRow, Wide};
use crate::sorted_rows::Sorted;
use crate::sql_rows::Booking;

type Keys = Vec<Atom>;

/// A planted fault of the model, with which a comparison has to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Signed columns of keys sort as unsigned ones.
    SignsIgnored,
    /// A limit admits one row too many.
    LimitIsLoose,
    /// An excluded upper end is included.
    EndIncluded,
    /// Deleting a row does nothing.
    DeletionsLost,
    /// Unique indexes but the primary key accept duplicates.
    DuplicatesAccepted,
    /// A roll-back keeps the changes.
    RollBackKeeps,
    /// `Option`s that are written as fields keep their value when they are set to `None`.
    NullIgnored,
    /// A reversed scan returns rows in ascending order.
    ReverseIgnored,
    /// Columns of variable length keep their old values.
    TailsKept,
    /// Descending columns of keys sort as ascending ones.
    DirectionsIgnored,
    /// Nulls sort first where they are last.
    NullsFirst,
    /// Nulls conflict in unique indexes in which they are distinct.
    NullsConflict,
    /// A roll-back to a savepoint keeps the changes.
    SavepointKeeps,
}

impl Fault {
    pub const ALL: [Fault; 13] = [
        Fault::SignsIgnored,
        Fault::LimitIsLoose,
        Fault::EndIncluded,
        Fault::DeletionsLost,
        Fault::DuplicatesAccepted,
        Fault::RollBackKeeps,
        Fault::NullIgnored,
        Fault::ReverseIgnored,
        Fault::TailsKept,
        Fault::DirectionsIgnored,
        Fault::NullsFirst,
        Fault::NullsConflict,
        Fault::SavepointKeeps,
    ];
}

/// Properties of an engine that the model imitates.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineTraits {
    /// The engine has hash indexes, which refuse scans.
    pub hashes: bool,
    /// Operations belong to steps of procedures, which see their part only.
    pub in_steps: bool,
    pub fault: Option<Fault>,
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub wide: Store<Wide>,
    pub plain: Store<Plain>,
    pub hashed: Store<Hashed>,
    pub long: Store<Long>,
    pub tailed: Store<Tailed>,
    pub sorted: Store<Sorted>,
    pub bookings: Store<Booking>,
    pub traits: EngineTraits,
}

impl Model {
    pub fn new(traits: EngineTraits) -> Self {
        Model { traits, ..Model::default() }
    }

    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        let traits = self.traits;
        if let Verb::Partly(operations, end) = &operation.verb {
            return self.apply_part(operations, *end);
        }
        match operation.table {
            0 => self.wide.apply(traits, operation),
            1 => self.plain.apply(traits, operation),
            2 => self.hashed.apply(traits, operation),
            3 => self.long.apply(traits, operation),
            4 => self.tailed.apply(traits, operation),
            5 => self.sorted.apply(traits, operation),
            _ => self.bookings.apply(traits, operation),
        }
    }
}

impl Model {
    /// Operations up to the first that fails; if one does, nothing has happened.
    fn apply_part(&mut self, operations: &[Operation], end: PartEnd) -> Outcome {
        let before = self.clone();
        let (mut outcomes, mut rolls_back) = (Vec::new(), end.rolls_back());
        for operation in operations {
            let outcome = self.apply(operation);
            let goes_on = continues(&outcome);
            outcomes.push(outcome);
            if !goes_on {
                rolls_back = true;
                break;
            }
        }
        if rolls_back && self.traits.fault != Some(Fault::SavepointKeeps) {
            *self = before;
        }
        success(outcomes)
    }
}

/// One table: rows by primary key.
#[derive(Clone, Debug)]
pub struct Store<R> {
    rows: BTreeMap<Keys, R>,
}

impl<R> Default for Store<R> {
    fn default() -> Self {
        Store { rows: BTreeMap::new() }
    }
}

fn duplicate<R: TestRow>(index: usize) -> String {
    let name = if index == 0 { "primary key" } else { R::INDEXES[index].name };
    format!("Duplicate in {}, {name}", R::TABLE)
}

fn success<T: std::fmt::Debug>(value: T) -> Outcome {
    Ok(format!("{value:?}"))
}

impl<R: TestRow> Store<R> {
    fn find(&self, index: usize, probe: Probe) -> Option<&R> {
        let key = R::make(probe).keys().swap_remove(index);
        self.find_key(index, &key)
    }

    fn find_key(&self, index: usize, key: &Keys) -> Option<&R> {
        if index == 0 {
            return self.rows.get(key);
        }
        self.rows.values().find(|row| row.keys()[index] == *key)
    }

    /// The first unique index that already has a key of this row.
    fn collision(&self, traits: EngineTraits, row: &R) -> Option<usize> {
        let keys = row.keys();
        let last = if traits.fault == Some(Fault::DuplicatesAccepted) { 1 } else { keys.len() };
        let unique = |index: &usize| R::INDEXES[*index].unique;
        (0..last).filter(unique).find(|index| {
            let key = &keys[*index];
            let conflicts = traits.fault == Some(Fault::NullsConflict) && key.contains(&Atom::Null);
            // The primary key, which is behind the columns, distinguishes nulls.
            let columns = R::INDEXES[*index].columns.len();
            let taken = |row: &R| row.keys()[*index][..columns] == key[..columns];
            self.find_key(*index, key).is_some() || conflicts && self.rows.values().any(taken)
        })
    }

    fn insert(&mut self, traits: EngineTraits, row: R) -> Result<(), String> {
        match self.collision(traits, &row) {
            Some(index) => Err(duplicate::<R>(index)),
            None => {
                self.rows.insert(row.keys().swap_remove(0), row);
                Ok(())
            }
        }
    }

    fn remove(&mut self, traits: EngineTraits, key: &Keys) -> Option<R> {
        match traits.fault {
            Some(Fault::DeletionsLost) => self.rows.get(key).cloned(),
            _ => self.rows.remove(key),
        }
    }

    /// Replaces an existing row by another one.
    fn replace(&mut self, traits: EngineTraits, key: &Keys, new: R) -> Result<(), String> {
        let Some(old) = self.rows.remove(key) else { return Ok(()) };
        let result = self.insert(traits, new);
        if result.is_err() {
            self.rows.insert(key.clone(), old);
        }
        result
    }

    fn change(&mut self, traits: EngineTraits, key: &Keys, aspect: Aspect, to: Probe) -> Result<(), String> {
        let mut row = self.rows[key].clone();
        if traits.fault != Some(Fault::TailsKept) || aspect != Aspect::Tail {
            row.take_over(aspect, &R::make(to));
        }
        self.replace(traits, key, row)
    }

    fn apply(&mut self, traits: EngineTraits, operation: &Operation) -> Outcome {
        let Operation { index, probe, ref verb, .. } = *operation;
        let (new, found) = (R::make(probe), self.find(index, probe).cloned());
        let key = found.as_ref().map(|row| row.keys().swap_remove(0));
        match verb {
            Verb::Attempt => success(1),
            Verb::Get | Verb::GetForUpdate | Verb::Lock => success(found),
            Verb::GetField(field) => success(found.map(|row| R::on_field(*field, ShowField(&row)))),
            Verb::GetGroup(group) => success(found.map(|row| R::on_group(*group, ShowGroup(&row)))),
            Verb::GetMany(probes) => {
                success(probes.iter().map(|probe| self.find(index, *probe).cloned()).collect::<Vec<_>>())
            }
            Verb::Exists => success(found.is_some()),
            Verb::Insert | Verb::InsertDynamic => self.insert(traits, new).and_then(success),
            Verb::InsertAll(probes) => {
                probes.iter().try_for_each(|probe| self.insert(traits, R::make(*probe))).and_then(success)
            }
            Verb::InsertOrIgnore => success(self.insert(traits, new).is_ok()),
            Verb::Upsert => {
                let existing = self.rows.get(&new.keys()[0]).cloned();
                match &existing {
                    None => self.insert(traits, new)?,
                    Some(row) => self.replace(traits, &row.keys()[0], new)?,
                }
                success(existing)
            }
            Verb::UpsertWith(to) => match self.rows.contains_key(&new.keys()[0]) {
                false => self.insert(traits, new).map(|()| true).and_then(success),
                true => {
                    let key = new.keys().swap_remove(0);
                    self.change(traits, &key, Aspect::Values, *to).map(|()| false).and_then(success)
                }
            },
            Verb::UpdateIf(to) => match (key, format!("{found:?}") == format!("{:?}", Some(&new))) {
                (None, _) => success(None::<bool>),
                (Some(_), false) => success(Some(false)),
                (Some(key), true) => {
                    self.change(traits, &key, Aspect::Values, *to).map(|()| Some(true)).and_then(success)
                }
            },
            Verb::Update(aspect, to) => match key {
                None => success(None::<()>),
                Some(key) => self.change(traits, &key, *aspect, *to).map(Some).and_then(success),
            },
            Verb::SetField(field, salt) => {
                success(key.map(|key| self.write(traits, &key, *field, *salt)).is_some())
            }
            Verb::UpdateField(field, salt) => success(key.map(|key| self.write(traits, &key, *field, *salt))),
            Verb::SetKeyField => Err("Misuse".to_owned()),
            Verb::Delete => success(key.and_then(|key| self.remove(traits, &key))),
            Verb::Scan(plan) => self.scan(traits, operation, plan),
            Verb::GetDynamic => success(self.find(0, probe).map(R::datums)),
            Verb::ScanDynamic if traits.hashes && R::HASHED[0] => Err("Misuse".to_owned()),
            Verb::ScanDynamicAfter(1..) if traits.hashes && R::HASHED[0] => Err("Misuse".to_owned()),
            Verb::ScanDynamic => {
                success(self.shown(traits, probe.part).map(|(_, row)| row.datums()).collect::<Vec<_>>())
            }
            Verb::ScanDynamicAfter(count) => {
                let after = new.keys().swap_remove(0);
                let behind = self.shown(traits, probe.part).filter(|(key, _)| **key > after);
                success(behind.take(*count).map(|(_, row)| row.datums()).collect::<Vec<Vec<Datum>>>())
            }
            Verb::Stray => Err("NoSuchTable".to_owned()),
            Verb::Partly(..) => unreachable!("the model as a whole applies it"),
        }
    }

    /// The rows of a scan without types: in a step, those of its part.
    fn shown(&self, traits: EngineTraits, part: u16) -> impl Iterator<Item = (&Keys, &R)> {
        let is_shown = move |key: &Keys| !traits.in_steps || key[0] == Atom::Unsigned(part.into());
        self.rows.iter().filter(move |(key, _)| is_shown(key))
    }

    /// Writes a field. Returns its former value.
    fn write(&mut self, traits: EngineTraits, key: &Keys, field: usize, salt: u32) -> String {
        let mut row = self.rows[key].clone();
        let before = R::on_field(field, ShowField(&row));
        let new = R::make(Probe { part: 0, id: 0, salt });
        let ignored =
            traits.fault == Some(Fault::NullIgnored) && R::on_field(field, ShowField(&new)) == "None";
        if !ignored {
            R::on_field(field, CopyField(&mut row, &new));
        }
        self.rows.insert(key.clone(), row);
        before
    }

    fn scan(&mut self, traits: EngineTraits, operation: &Operation, plan: &ScanPlan) -> Outcome {
        let index = operation.index;
        // An iterator of which no row is requested does not begin.
        let begins = plan.limit != Some(0) && !matches!(plan.end, ScanEnd::Rows(0));
        if traits.hashes && R::HASHED[index] && begins {
            return Err("Misuse".to_owned());
        }
        let [from, to] = [operation.probe, plan.to].map(|probe| R::make(probe).keys().swap_remove(index));
        let range = ModelRange { kind: plan.range, from, to, front: R::FRONTS[index] };
        let mut rows: Vec<(Keys, R)> =
            self.rows.values().map(|row| (ordering(row, index, traits), row.clone())).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let mut rows: Vec<R> = rows
            .into_iter()
            .map(|(_, row)| row)
            .filter(|row| range.contains(&row.keys()[index], traits))
            .collect();
        if plan.reverse && traits.fault != Some(Fault::ReverseIgnored) {
            rows.reverse();
        }
        let last = rows.last().cloned();
        let loose = usize::from(traits.fault == Some(Fault::LimitIsLoose));
        rows.truncate(plan.limit.map_or(usize::MAX, |limit| limit as usize + loose));
        let keys = || rows.iter().map(|row| row.keys().swap_remove(0)).collect::<Vec<_>>();
        match plan.end {
            ScanEnd::Collect | ScanEnd::IntoIterator | ScanEnd::Between => success(rows),
            ScanEnd::First => success(rows.first()),
            ScanEnd::Last => success(last.filter(|_| plan.limit != Some(0))),
            ScanEnd::Count => success(rows.len()),
            ScanEnd::ForEach(most) => success(rows.iter().take(most.max(1)).collect::<Vec<_>>()),
            ScanEnd::Rows(most) => success(rows.iter().take(most).collect::<Vec<_>>()),
            ScanEnd::Fields(group) => {
                let group = group % R::GROUPS;
                success(rows.iter().map(|row| R::on_group(group, ShowGroup(row))).collect::<Vec<_>>())
            }
            ScanEnd::TryForEach(most, to) => {
                let keys: Vec<_> = keys().into_iter().take(most.max(1)).collect();
                let changed = keys.iter().try_for_each(|key| self.change(traits, key, Aspect::Values, to));
                changed.and_then(|()| success(keys.len()))
            }
            ScanEnd::Update(aspect, to) => {
                let keys = keys();
                let changed = keys.iter().try_for_each(|key| self.change(traits, key, aspect, to));
                changed.and_then(|()| success(keys.len()))
            }
            ScanEnd::Delete => {
                let keys = keys();
                keys.iter().for_each(|key| drop(self.remove(traits, key)));
                success(keys.len())
            }
        }
    }
}

/// The key by which a scan sorts.
fn ordering<R: TestRow>(row: &R, index: usize, traits: EngineTraits) -> Keys {
    let mut key = row.keys().swap_remove(index);
    if traits.fault == Some(Fault::SignsIgnored) {
        for atom in &mut key {
            if let Atom::Signed(number) = atom {
                *atom = Atom::Unsigned(number.cast_unsigned());
            }
        }
    }
    for atom in &mut key {
        match atom {
            Atom::Descending(Reverse(inner)) if traits.fault == Some(Fault::DirectionsIgnored) => {
                *atom = (**inner).clone();
            }
            Atom::Null if traits.fault == Some(Fault::NullsFirst) => *atom = Atom::First,
            _ => {}
        }
    }
    key
}

/// A range of this kind between two keys.
struct ModelRange {
    kind: RangeKind,
    from: Keys,
    to: Keys,
    /// Number of leading columns that a range of prefixes compares.
    front: usize,
}

impl ModelRange {
    fn contains(&self, key: &Keys, traits: EngineTraits) -> bool {
        let ModelRange { kind, from, to, front } = self;
        let [short, low, high] = [key, from, to].map(|key| &key[..*front]);
        match kind {
            RangeKind::Full => true,
            RangeKind::From => key >= from,
            RangeKind::To if traits.fault == Some(Fault::EndIncluded) => key <= to,
            RangeKind::HalfOpen if traits.fault == Some(Fault::EndIncluded) => from <= key && key <= to,
            RangeKind::Prefixes if traits.fault == Some(Fault::EndIncluded) => low <= short && short <= high,
            RangeKind::To => key < to,
            RangeKind::ToInclusive => key <= to,
            RangeKind::HalfOpen => from <= key && key < to,
            RangeKind::Inclusive => from <= key && key <= to,
            RangeKind::Bounds => from < key && key < to,
            RangeKind::Prefix => short == low,
            RangeKind::Prefixes => low <= short && short < high,
            RangeKind::PrefixesInclusive => low <= short && short <= high,
            RangeKind::PrefixesFrom => low <= short,
            RangeKind::PrefixesTo => short < high,
            RangeKind::PrefixesToInclusive => short <= high,
        }
    }
}

/// Displays one field.
pub struct ShowField<'r, R>(pub &'r R);

impl<R: TestRow> OnField<R> for ShowField<'_, R> {
    type Output = String;
    fn visit<F: isles::Assign<R, Value: std::fmt::Debug + Clone>>(
        self,
        _: F,
        get: fn(&R) -> F::Value,
        _: fn(&mut R, F::Value),
    ) -> String {
        format!("{:?}", get(self.0))
    }
}

/// Displays a group of fields.
pub struct ShowGroup<'r, R>(pub &'r R);

impl<R: TestRow> OnGroup<R> for ShowGroup<'_, R> {
    type Output = String;
    fn visit<F: isles::Select<R, Value: std::fmt::Debug>>(self, _: F, get: fn(&R) -> F::Value) -> String {
        format!("{:?}", get(self.0))
    }
}

/// Copies a field from the second row to the first.
struct CopyField<'r, R>(&'r mut R, &'r R);

impl<R: TestRow> OnField<R> for CopyField<'_, R> {
    type Output = ();
    fn visit<F: isles::Assign<R, Value: std::fmt::Debug + Clone>>(
        self,
        _: F,
        get: fn(&R) -> F::Value,
        set: fn(&mut R, F::Value),
    ) {
        set(self.0, get(self.1));
    }
}
