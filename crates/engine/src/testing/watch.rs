//! Whether an action stays inside its route.

use std::fmt::Debug;

use platform::Intent;

use crate::key::{Key, KeyBuffer};
use crate::routes::{KeyRange, Route, Routes};
use crate::row::Row;
use crate::table::{Index, RowId, Table};

/// Where verbs lead: rows of a table with some primary keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    table: usize,
    rows: &'static str,
    keys: KeyRange,
}

impl Place {
    /// What a lookup of keys from `low` to `high` in an index can find.
    pub(super) fn behind<R: Row, K: Key>(index: Index<R, K>, low: &K, high: &K) -> Place {
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let keys = KeyRange::looked_up::<R>(index.number(), &low, &high);
        Place { table: index.table().number(), rows: R::NAME, keys }
    }

    /// A row.
    pub(super) fn of<R: Row>(table: Table<R>, row: &R) -> Place {
        Place::at::<R>(table.number(), row)
    }

    fn at<R: Row>(table: usize, row: &R) -> Place {
        Place { table, rows: R::NAME, keys: KeyRange::of(&row.key()) }
    }
}

/// Watches one action.
pub(super) struct Watch<'a> {
    action: &'a dyn Debug,
    route: &'a Routes,
    /// Where the rows that the action has found can be: their keys are not read, since that would be a read more.
    found: Vec<(RowId, Place)>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(action: &'a dyn Debug, route: &'a Routes) -> Self {
        Watch { action, route, found: Vec::new() }
    }

    /// # Panics
    /// If the route has no entry that covers the place with this intent.
    pub(super) fn touch(&self, verb: &str, place: &Place, intent: Intent) {
        let covers = |entry: &Route| {
            entry.table == place.table
                && (entry.intent == Intent::Write || intent == Intent::Read)
                && entry.keys.covers(&place.keys)
        };
        let Place { table, rows, keys } = place;
        assert!(
            self.route.entries().iter().any(covers),
            "an action leaves its route: {verb} of {rows} (table {table}) {keys:?} to {intent:?}, by {:?} with {:?}",
            self.action,
            self.route.entries()
        );
    }

    /// A lookup in this place has found a row.
    pub(super) fn add(&mut self, row: RowId, place: Place) {
        self.found.push((row, place));
    }

    /// # Panics
    /// If the action did not find the row, or its route does not say that the row is written.
    pub(super) fn change(&self, verb: &str, row: RowId) -> &Place {
        let place = self.found.iter().rev().find(|(found, _)| *found == row);
        let (_, place) = place.unwrap_or_else(|| {
            panic!("an action leaves its route: {verb} of a row that it did not find, by {:?}", self.action)
        });
        self.touch(verb, place, Intent::Write);
        place
    }

    /// As [`Self::change`], and the row becomes another one, perhaps with other keys.
    pub(super) fn replace<R: Row>(&self, row: RowId, value: &R) {
        let Place { table, .. } = *self.change("replacement", row);
        self.touch("replacement", &Place::at(table, value), Intent::Write);
    }
}
