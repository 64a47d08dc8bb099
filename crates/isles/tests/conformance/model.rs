//! The model: maps of the standard library, and every operation on them in the simplest form.

use std::collections::BTreeMap;

use isles::Datum;

use crate::long_rows::{Long, Tailed};
use crate::operation::{Operation, Outcome, RangeKind, ScanEnd, ScanPlan, Verb};
use crate::rows::{Aspect, Atom, Hashed, Kept, OnField, OnGroup, Plain, Probe, Wide};

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
}

impl Fault {
    pub const ALL: [Fault; 9] = [
        Fault::SignsIgnored,
        Fault::LimitIsLoose,
        Fault::EndIncluded,
        Fault::DeletionsLost,
        Fault::DuplicatesAccepted,
        Fault::RollBackKeeps,
        Fault::NullIgnored,
        Fault::ReverseIgnored,
        Fault::TailsKept,
    ];
}

/// Properties of an engine that the model imitates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
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
    pub ways: Ways,
}

impl Model {
    pub fn new(ways: Ways) -> Self {
        Model { ways, ..Model::default() }
    }

    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        let ways = self.ways;
        match operation.table {
            0 => self.wide.apply(ways, operation),
            1 => self.plain.apply(ways, operation),
            2 => self.hashed.apply(ways, operation),
            3 => self.long.apply(ways, operation),
            _ => self.tailed.apply(ways, operation),
        }
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

fn taken<R: Kept>(index: usize) -> String {
    let name = if index == 0 { "primary key" } else { R::INDEXES[index].name };
    format!("Duplicate in {}, {name}", R::TABLE)
}

fn said<T: std::fmt::Debug>(value: T) -> Outcome {
    Ok(format!("{value:?}"))
}

impl<R: Kept> Store<R> {
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
    fn collision(&self, ways: Ways, row: &R) -> Option<usize> {
        let keys = row.keys();
        let last = if ways.fault == Some(Fault::DuplicatesAccepted) { 1 } else { keys.len() };
        (0..last).find(|index| R::INDEXES[*index].unique && self.find_key(*index, &keys[*index]).is_some())
    }

    fn insert(&mut self, ways: Ways, row: R) -> Result<(), String> {
        match self.collision(ways, &row) {
            Some(index) => Err(taken::<R>(index)),
            None => {
                self.rows.insert(row.keys().swap_remove(0), row);
                Ok(())
            }
        }
    }

    fn remove(&mut self, ways: Ways, key: &Keys) -> Option<R> {
        match ways.fault {
            Some(Fault::DeletionsLost) => self.rows.get(key).cloned(),
            _ => self.rows.remove(key),
        }
    }

    /// Replaces an existing row by another one.
    fn replace(&mut self, ways: Ways, key: &Keys, new: R) -> Result<(), String> {
        let Some(old) = self.rows.remove(key) else { return Ok(()) };
        let result = self.insert(ways, new);
        if result.is_err() {
            self.rows.insert(key.clone(), old);
        }
        result
    }

    fn change(&mut self, ways: Ways, key: &Keys, (aspect, to): (Aspect, Probe)) -> Result<(), String> {
        let mut row = self.rows[key].clone();
        if ways.fault != Some(Fault::TailsKept) || aspect != Aspect::Tail {
            row.take_over(aspect, &R::make(to));
        }
        self.replace(ways, key, row)
    }

    fn apply(&mut self, ways: Ways, operation: &Operation) -> Outcome {
        let Operation { index, probe, ref verb, .. } = *operation;
        let (new, found) = (R::make(probe), self.find(index, probe).cloned());
        let key = found.as_ref().map(|row| row.keys().swap_remove(0));
        match verb {
            Verb::Attempt => said(1),
            Verb::Get | Verb::GetForUpdate => said(found),
            Verb::GetField(field) => said(found.map(|row| R::on_field(*field, ShowField(&row)))),
            Verb::GetGroup(group) => said(found.map(|row| R::on_group(*group, ShowGroup(&row)))),
            Verb::GetMany(probes) => {
                said(probes.iter().map(|probe| self.find(index, *probe).cloned()).collect::<Vec<_>>())
            }
            Verb::Exists => said(found.is_some()),
            Verb::Insert | Verb::InsertDynamic => self.insert(ways, new).and_then(said),
            Verb::InsertAll(probes) => {
                probes.iter().try_for_each(|probe| self.insert(ways, R::make(*probe))).and_then(said)
            }
            Verb::InsertOrIgnore => said(self.insert(ways, new).is_ok()),
            Verb::Upsert => {
                let there = self.rows.get(&new.keys()[0]).cloned();
                match &there {
                    None => self.insert(ways, new)?,
                    Some(row) => self.replace(ways, &row.keys()[0], new)?,
                }
                said(there)
            }
            Verb::Update(aspect, to) => match key {
                None => said(None::<()>),
                Some(key) => self.change(ways, &key, (*aspect, *to)).map(Some).and_then(said),
            },
            Verb::SetField(field, salt) => {
                said(key.map(|key| self.write(ways, &key, (*field, *salt))).is_some())
            }
            Verb::UpdateField(field, salt) => said(key.map(|key| self.write(ways, &key, (*field, *salt)))),
            Verb::SetKeyField => Err("Misuse".to_owned()),
            Verb::Delete => said(key.and_then(|key| self.remove(ways, &key))),
            Verb::Scan(plan) => self.scan(ways, operation, plan),
            Verb::GetDynamic => said(self.find(0, probe).map(R::datums)),
            Verb::ScanDynamic if ways.hashes && R::HASHED[0] => Err("Misuse".to_owned()),
            Verb::ScanDynamicAfter(1..) if ways.hashes && R::HASHED[0] => Err("Misuse".to_owned()),
            Verb::ScanDynamic => {
                said(self.shown(ways, probe.part).map(|(_, row)| row.datums()).collect::<Vec<_>>())
            }
            Verb::ScanDynamicAfter(count) => {
                let after = new.keys().swap_remove(0);
                let behind = self.shown(ways, probe.part).filter(|(key, _)| **key > after);
                said(behind.take(*count).map(|(_, row)| row.datums()).collect::<Vec<Vec<Datum>>>())
            }
            Verb::Stray => Err("NoSuchTable".to_owned()),
        }
    }

    /// The rows of a scan without types: in a step, those of its part.
    fn shown(&self, ways: Ways, part: u16) -> impl Iterator<Item = (&Keys, &R)> {
        let is_shown = move |key: &Keys| !ways.in_steps || key[0] == Atom::Unsigned(part.into());
        self.rows.iter().filter(move |(key, _)| is_shown(key))
    }

    /// Writes a field. Returns its former value.
    fn write(&mut self, ways: Ways, key: &Keys, (field, salt): (usize, u32)) -> String {
        let mut row = self.rows[key].clone();
        let before = R::on_field(field, ShowField(&row));
        let new = R::make(Probe { part: 0, id: 0, salt });
        let ignored = ways.fault == Some(Fault::NullIgnored) && R::on_field(field, ShowField(&new)) == "None";
        if !ignored {
            R::on_field(field, CopyField(&mut row, &new));
        }
        self.rows.insert(key.clone(), row);
        before
    }

    fn scan(&mut self, ways: Ways, operation: &Operation, plan: &ScanPlan) -> Outcome {
        let index = operation.index;
        // An iterator of which no row is requested does not begin.
        let begins = plan.limit != Some(0) && !matches!(plan.end, ScanEnd::Rows(0));
        if ways.hashes && R::HASHED[index] && begins {
            return Err("Misuse".to_owned());
        }
        let [from, to] = [operation.probe, plan.to].map(|probe| R::make(probe).keys().swap_remove(index));
        let within = |key: &Keys| is_within(plan.range, (key, &from, &to), R::FRONTS[index], ways);
        let mut rows: Vec<(Keys, R)> =
            self.rows.values().map(|row| (ordering(row, index, ways), row.clone())).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let mut rows: Vec<R> =
            rows.into_iter().map(|(_, row)| row).filter(|row| within(&row.keys()[index])).collect();
        if plan.reverse && ways.fault != Some(Fault::ReverseIgnored) {
            rows.reverse();
        }
        let last = rows.last().cloned();
        let loose = usize::from(ways.fault == Some(Fault::LimitIsLoose));
        rows.truncate(plan.limit.map_or(usize::MAX, |limit| limit as usize + loose));
        let keys = || rows.iter().map(|row| row.keys().swap_remove(0)).collect::<Vec<_>>();
        match plan.end {
            ScanEnd::Collect | ScanEnd::IntoIterator | ScanEnd::Between => said(rows),
            ScanEnd::First => said(rows.first()),
            ScanEnd::Last => said(last.filter(|_| plan.limit != Some(0))),
            ScanEnd::Count => said(rows.len()),
            ScanEnd::ForEach(most) => said(rows.iter().take(most.max(1)).collect::<Vec<_>>()),
            ScanEnd::Rows(most) => said(rows.iter().take(most).collect::<Vec<_>>()),
            ScanEnd::Fields(group) => {
                let group = group % R::GROUPS;
                said(rows.iter().map(|row| R::on_group(group, ShowGroup(row))).collect::<Vec<_>>())
            }
            ScanEnd::TryForEach(most, to) => {
                let keys: Vec<_> = keys().into_iter().take(most.max(1)).collect();
                let changed = keys.iter().try_for_each(|key| self.change(ways, key, (Aspect::Values, to)));
                changed.and_then(|()| said(keys.len()))
            }
            ScanEnd::Update(aspect, to) => {
                let keys = keys();
                let changed = keys.iter().try_for_each(|key| self.change(ways, key, (aspect, to)));
                changed.and_then(|()| said(keys.len()))
            }
            ScanEnd::Delete => {
                let keys = keys();
                keys.iter().for_each(|key| drop(self.remove(ways, key)));
                said(keys.len())
            }
        }
    }
}

/// The key by which a scan sorts.
fn ordering<R: Kept>(row: &R, index: usize, ways: Ways) -> Keys {
    let mut key = row.keys().swap_remove(index);
    if ways.fault == Some(Fault::SignsIgnored) {
        for atom in &mut key {
            if let Atom::Signed(number) = atom {
                *atom = Atom::Unsigned(number.cast_unsigned());
            }
        }
    }
    key
}

/// True if a key is in a range of this form between two others.
fn is_within(kind: RangeKind, (key, from, to): (&Keys, &Keys, &Keys), front: usize, ways: Ways) -> bool {
    let [short, low, high] = [key, from, to].map(|key| &key[..front]);
    match kind {
        RangeKind::Full => true,
        RangeKind::From => key >= from,
        RangeKind::To => key < to,
        RangeKind::ToInclusive => key <= to,
        RangeKind::HalfOpen if ways.fault == Some(Fault::EndIncluded) => from <= key && key <= to,
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

/// Displays one field.
pub struct ShowField<'r, R>(pub &'r R);

impl<R: Kept> OnField<R> for ShowField<'_, R> {
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

impl<R: Kept> OnGroup<R> for ShowGroup<'_, R> {
    type Output = String;
    fn visit<F: isles::Select<R, Value: std::fmt::Debug>>(self, _: F, get: fn(&R) -> F::Value) -> String {
        format!("{:?}", get(self.0))
    }
}

/// Copies a field from the second row to the first.
struct CopyField<'r, R>(&'r mut R, &'r R);

impl<R: Kept> OnField<R> for CopyField<'_, R> {
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
