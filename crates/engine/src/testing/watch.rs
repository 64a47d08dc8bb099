//! Asserts that an action stays inside its route.

use std::fmt::Debug;

use platform::Intent;

use schema::{Index, Key, KeyBuffer, KeyRange, Route, Routes, Row, RowId, Table};

/// Where verbs lead: rows of a table with some primary keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    table: usize,
    rows: &'static str,
    keys: KeyRange,
}

impl Place {
    /// The rows that a lookup of keys from `low` to `high` in an index can find.
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

/// Watches one action, and remembers the first touch outside of its route.
pub struct Watch {
    route: Routes,
    /// Where the rows that the action has found can be: their keys are not read, since that would
    /// be a read more.
    found: Vec<(RowId, Place)>,
    outside: Option<String>,
}

impl Watch {
    /// For an action with this route.
    pub fn new(route: Routes) -> Self {
        Watch { route, found: Vec::new(), outside: None }
    }

    /// # Panics
    /// If the action has left its route.
    pub fn assert_inside(&self, action: &impl Debug) {
        if let Some(outside) = &self.outside {
            let route = self.route.entries();
            panic!("an action leaves its route: {outside}, by {action:?} with {route:?}");
        }
    }

    /// Notes that a verb touches a place with this intent.
    pub(super) fn touch(&mut self, verb: &str, place: &Place, intent: Intent) {
        let covers = |entry: &Route| {
            entry.table == place.table
                && (entry.intent == Intent::Write || intent == Intent::Read)
                && entry.keys.covers(&place.keys)
        };
        if !self.route.entries().iter().any(covers) {
            let Place { table, rows, keys } = place;
            let outside = format!("{verb} of {rows} (table {table}) {keys:?} to {intent:?}");
            self.outside.get_or_insert(outside);
        }
    }

    /// A lookup in this place has found a row.
    pub(super) fn add(&mut self, row: RowId, place: Place) {
        self.found.push((row, place));
    }

    /// Notes that a verb changes a row.
    pub(super) fn change(&mut self, verb: &str, row: RowId) {
        match self.place(row) {
            Some(place) => self.touch(verb, &place, Intent::Write),
            None => {
                self.outside.get_or_insert(format!("{verb} of a row that it did not find"));
            }
        }
    }

    /// As [`Self::change`], and the row becomes another one, perhaps with other keys.
    pub(super) fn replace<R: Row>(&mut self, row: RowId, value: &R) {
        self.change("replacement", row);
        if let Some(Place { table, .. }) = self.place(row) {
            self.touch("replacement", &Place::at(table, value), Intent::Write);
        }
    }

    /// Where a row can be that the action has found.
    fn place(&self, row: RowId) -> Option<Place> {
        self.found.iter().rev().find(|(found, _)| *found == row).map(|(_, place)| *place)
    }
}
