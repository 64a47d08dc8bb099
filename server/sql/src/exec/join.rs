//! Joins of two inputs.

use std::collections::BTreeMap;
use std::rc::Rc;

use isles::Datum;

use crate::error::Result;
use crate::exec::{Exec, Node, Row, all_rows};
use crate::plan::{Join, JoinKind, JoinMethod};
use crate::value::Key;

/// State of a join.
pub struct JoinState {
    left: Node,
    /// The row of the left side, and whether it has found a partner.
    current: Option<(Row, bool)>,
    /// The right side for the current row, if it is executed for each row.
    right: Option<Node>,
    /// Kept rows of the right side.
    kept: Option<Kept>,
    /// The numbers of kept rows that belong to the current row, and the next one of them.
    candidates: (Rc<Vec<usize>>, usize),
    /// True when the left side has ended.
    is_left_done: bool,
    /// The next kept row that may have no partner.
    unmatched: usize,
}

/// Rows of the right side.
struct Kept {
    rows: Vec<Row>,
    /// Numbers of the rows by their keys; all numbers under an empty key if there is none.
    by_key: BTreeMap<Key, Rc<Vec<usize>>>,
    /// Rows that have found a partner.
    matched: Vec<bool>,
}

impl JoinState {
    /// Returns the state in which a join begins.
    pub fn new(join: &Join) -> Self {
        JoinState {
            left: Node::new(&join.left),
            current: None,
            right: None,
            kept: None,
            candidates: (Rc::default(), 0),
            is_left_done: false,
            unmatched: 0,
        }
    }

    /// Returns the next row.
    pub fn next(&mut self, join: &Join, x: &mut Exec<'_, '_>) -> Result<Option<Row>> {
        loop {
            x.check()?;
            if self.current.is_none() {
                match if self.is_left_done { None } else { self.left.next(&join.left, x)? } {
                    Some(row) => self.begin(join, row, x)?,
                    None => {
                        self.is_left_done = true;
                        if join.kind == JoinKind::Full && self.kept.is_none() {
                            self.kept = Some(Kept::read(join, &[], x)?);
                        }
                        return Ok(self.next_unmatched(join));
                    }
                }
            }
            let Some(partner) = self.next_partner(join, x)? else {
                let (row, has_partner) = self.current.take().unwrap_or_default();
                if !has_partner && join.kind != JoinKind::Inner {
                    return Ok(Some(row));
                }
                continue;
            };
            let Some((left, has_partner)) = &mut self.current else { continue };
            let mut pair = left.clone();
            for (from, to) in &join.right_columns {
                pair[*from..*to].clone_from_slice(&partner.row[*from..*to]);
            }
            let holds = match &join.condition {
                Some(condition) => condition.holds(&pair, x)?,
                None => true,
            };
            if holds {
                *has_partner = true;
                if let (Some(kept), Some(number)) = (&mut self.kept, partner.number) {
                    kept.matched[number] = true;
                }
                return Ok(Some(pair));
            }
        }
    }

    /// Begins the search for partners of a row.
    fn begin(&mut self, join: &Join, row: Row, x: &mut Exec<'_, '_>) -> Result<()> {
        match &join.method {
            JoinMethod::Lookup(bindings) => {
                for (slot, value) in bindings {
                    x.slots[*slot] = value.eval(&row, x)?;
                }
                self.right = Some(Node::new(&join.right));
            }
            JoinMethod::Hash { left, right } => {
                if self.kept.is_none() {
                    self.kept = Some(Kept::read(join, right, x)?);
                }
                let key = left.iter().map(|value| value.eval(&row, x)).collect::<Result<Row>>()?;
                let numbers = match &self.kept {
                    Some(kept) if !key.contains(&Datum::Null) => kept.by_key.get(&Key(key)).cloned(),
                    _ => None,
                };
                self.candidates = (numbers.unwrap_or_default(), 0);
            }
            JoinMethod::Loop => {
                if self.kept.is_none() {
                    self.kept = Some(Kept::read(join, &[], x)?);
                }
                let all = self.kept.as_ref().and_then(|kept| kept.by_key.get(&Key(Vec::new())).cloned());
                self.candidates = (all.unwrap_or_default(), 0);
            }
        }
        self.current = Some((row, false));
        Ok(())
    }

    fn next_partner(&mut self, join: &Join, x: &mut Exec<'_, '_>) -> Result<Option<Partner>> {
        if let Some(right) = &mut self.right {
            let row = right.next(&join.right, x)?;
            if row.is_none() {
                self.right = None;
            }
            return Ok(row.map(|row| Partner { row, number: None }));
        }
        let (numbers, next) = &mut self.candidates;
        let number = numbers.get(*next).copied();
        *next += 1;
        let kept = self.kept.as_ref();
        Ok(number.and_then(|number| Some(Partner { row: kept?.rows[number].clone(), number: Some(number) })))
    }

    /// Returns the next row of the right side that has found no partner, if those are kept.
    fn next_unmatched(&mut self, join: &Join) -> Option<Row> {
        let kept = self.kept.as_ref().filter(|_| join.kind == JoinKind::Full)?;
        let next = (self.unmatched..kept.rows.len()).find(|number| !kept.matched[*number])?;
        self.unmatched = next + 1;
        Some(kept.rows[next].clone())
    }
}

/// A row of the right side, and its number among those that are kept.
struct Partner {
    row: Row,
    number: Option<usize>,
}

impl Kept {
    fn read(join: &Join, key: &[crate::expr::Expr], x: &mut Exec<'_, '_>) -> Result<Kept> {
        let rows = all_rows(&join.right, x)?;
        let mut by_key: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (number, row) in rows.iter().enumerate() {
            let key = key.iter().map(|value| value.eval(row, x)).collect::<Result<Row>>()?;
            if !key.contains(&Datum::Null) {
                by_key.entry(Key(key)).or_default().push(number);
            }
        }
        let by_key = by_key.into_iter().map(|(key, numbers)| (key, Rc::new(numbers))).collect();
        let matched = vec![false; rows.len()];
        Ok(Kept { rows, by_key, matched })
    }
}
