//! The order of joins, and the way of each.

use crate::bind::Binder;
use crate::bind::access::Access;
use crate::bind::from::{FromTree, Relation, Source};
use crate::expr::{Comparison, Expr};
use crate::plan::{Join, JoinKind, JoinMethod, Placement, Plan, TableScan};

/// A part of an inner join: a relation, or joins that keep their order.
enum Item {
    Relation(Relation),
    Outer(Box<Outer>),
}

struct Outer {
    kind: JoinKind,
    left: FromTree,
    right: FromTree,
    conditions: Vec<Expr>,
}

impl FromTree {
    /// Calls `visit` with the ranges of columns.
    fn ranges(&self, visit: &mut dyn FnMut(usize, usize)) {
        match self {
            FromTree::Leaf(relation) => visit(relation.offset, relation.offset + relation.width),
            FromTree::Join(_, left, right, _) => {
                left.ranges(visit);
                right.ranges(visit);
            }
        }
    }
}

impl Item {
    fn columns(&self) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        match self {
            Item::Relation(relation) => ranges.push((relation.offset, relation.offset + relation.width)),
            Item::Outer(outer) => {
                outer.left.ranges(&mut |from, to| ranges.push((from, to)));
                outer.right.ranges(&mut |from, to| ranges.push((from, to)));
            }
        }
        ranges
    }
}

fn has(ranges: &[(usize, usize)], place: usize) -> bool {
    ranges.iter().any(|(from, to)| (*from..*to).contains(&place))
}

/// Returns true if all columns of an expression are in these ranges.
fn within(expr: &Expr, ranges: &[(usize, usize)]) -> bool {
    let mut all = true;
    expr.columns(&mut |place| all = all && has(ranges, place));
    all
}

/// Removes the conditions that only need these columns.
fn take_within(conditions: &mut Vec<Expr>, ranges: &[(usize, usize)]) -> Vec<Expr> {
    let (taken, rest) =
        std::mem::take(conditions).into_iter().partition(|condition| within(condition, ranges));
    *conditions = rest;
    taken
}

fn filtered(plan: Plan, conditions: Vec<Expr>) -> Plan {
    match Expr::conjunction(conditions) {
        Some(condition) => Plan::Filter(Box::new(plan), condition),
        None => plan,
    }
}

impl Binder {
    /// Returns the plan of FROM and WHERE; its rows have `width` columns.
    pub fn plan_from(&mut self, tree: FromTree, mut conditions: Vec<Expr>, width: usize) -> Plan {
        let mut items = Vec::new();
        flatten(tree, &mut items, &mut conditions);
        let mut known: Vec<(usize, usize)> = Vec::new();
        let mut plan: Option<Plan> = None;
        while !items.is_empty() {
            let next = self.best_item(&items, &conditions, &known, plan.is_none());
            let item = items.remove(next);
            let ranges = item.columns();
            plan = Some(match (plan, item) {
                (None, Item::Relation(relation)) => {
                    let own = take_within(&mut conditions, &ranges);
                    self.first(relation, own, width)
                }
                (None, Item::Outer(outer)) => self.outer(*outer, &mut conditions, width),
                (Some(left), Item::Relation(relation)) => {
                    let all: Vec<_> = known.iter().chain(&ranges).copied().collect();
                    let usable = take_within(&mut conditions, &all);
                    self.join_relation(left, &known, relation, JoinKind::Inner, usable, width)
                }
                (Some(left), Item::Outer(outer)) => {
                    let right = self.outer(*outer, &mut conditions, width);
                    let all: Vec<_> = known.iter().chain(&ranges).copied().collect();
                    let usable = take_within(&mut conditions, &all);
                    joined(left, &known, (right, &ranges), JoinKind::Inner, usable)
                }
            });
            known.extend(ranges);
        }
        filtered(plan.unwrap_or_else(Plan::one), conditions)
    }

    /// Returns the number of the item that is joined next.
    fn best_item(&self, items: &[Item], conditions: &[Expr], known: &[(usize, usize)], first: bool) -> usize {
        let mut best = (0, None);
        for (number, item) in items.iter().enumerate() {
            let ranges = item.columns();
            let all: Vec<_> = known.iter().chain(&ranges).copied().collect();
            let score = match item {
                Item::Relation(Relation { offset, source: Source::Table(table), .. }) => {
                    let access = Access { table, offset: *offset, known: &|place| has(known, place) };
                    let (score, _) = access.best(conditions);
                    // A range alone does not make a good beginning of a join.
                    if score > 100 {
                        score
                    } else if first {
                        score.min(1)
                    } else {
                        score
                    }
                }
                Item::Relation(Relation { source: Source::Plan(_, bindings), .. }) => {
                    if !bindings.iter().all(|(_, expr)| within(expr, known)) {
                        continue;
                    }
                    0
                }
                Item::Outer(_) => 0,
            };
            // Better a join by equal columns than all pairs.
            let is_connected = |condition: &Expr| {
                matches!(condition, Expr::Compare(Comparison::Equal, ..))
                    && within(condition, &all)
                    && !within(condition, &ranges)
                    && !within(condition, known)
            };
            let connected = !first && conditions.iter().any(is_connected);
            let score = score + if connected { 10 } else { 0 };
            if best.1.is_none() || score > best.0 {
                best = (score, Some(number));
            }
        }
        best.1.unwrap_or(0)
    }

    /// Returns the plan of the first relation of a join.
    fn first(&mut self, relation: Relation, conditions: Vec<Expr>, width: usize) -> Plan {
        let Relation { offset, width: own, source } = relation;
        let plan = match source {
            Source::Table(table) => {
                let access = Access { table: &table, offset, known: &|_| false };
                let (_, scan) = access.best(&conditions);
                let scan = self.finish_scan(scan, offset, conditions);
                Plan::Scan(Box::new(scan))
            }
            Source::Plan(plan, bindings) => {
                debug_assert!(bindings.is_empty(), "nothing is known before the first relation");
                filtered(plan, shifted(conditions, offset))
            }
        };
        widened(plan, offset, own, width)
    }

    /// Gives a scan its condition, over its own columns.
    fn finish_scan(&self, mut scan: TableScan, offset: usize, conditions: Vec<Expr>) -> TableScan {
        let rest = conditions.into_iter().filter(|condition| !is_exact(condition, &scan, offset)).collect();
        scan.filter = Expr::conjunction(shifted(rest, offset));
        scan.for_update = self.for_update;
        scan
    }

    /// Joins a relation to what is known already.
    fn join_relation(
        &mut self,
        left: Plan,
        known: &[(usize, usize)],
        relation: Relation,
        kind: JoinKind,
        mut conditions: Vec<Expr>,
        width: usize,
    ) -> Plan {
        let Relation { offset, width: own, source } = relation;
        let ranges = [(offset, offset + own)];
        match source {
            Source::Table(table) => {
                let access = Access { table: &table, offset, known: &|place| has(known, place) };
                let (score, scan) = access.best(&conditions);
                let uses_left = score >= 100 && kind != JoinKind::Full && {
                    let values =
                        scan.equal.iter().chain(scan.points.iter().flat_map(|points| match points {
                            crate::plan::Points::List(list) => &list[..],
                            crate::plan::Points::Array(array) => std::slice::from_ref(array),
                        }));
                    let mut uses = false;
                    values.for_each(|value| value.columns(&mut |_| uses = true));
                    uses
                };
                if uses_left {
                    // Conditions of both sides are checked where the pair is made.
                    let scan = TableScan { for_update: self.for_update, ..scan };
                    let (mut right, bindings) = self.bind_scan(scan);
                    right.filter = Expr::conjunction(shifted(take_within(&mut conditions, &ranges), offset));
                    let right = widened(Plan::Scan(Box::new(right)), offset, own, width);
                    return Plan::Join(Box::new(Join {
                        left,
                        right,
                        right_columns: ranges.to_vec(),
                        kind,
                        method: JoinMethod::Lookup(bindings),
                        condition: Expr::conjunction(conditions),
                    }));
                }
                let own_conditions = take_within(&mut conditions, &ranges);
                let access = Access { table: &table, offset, known: &|_| false };
                let (_, scan) = access.best(&own_conditions);
                let scan = self.finish_scan(scan, offset, own_conditions);
                let right = widened(Plan::Scan(Box::new(scan)), offset, own, width);
                joined(left, known, (right, &ranges), kind, conditions)
            }
            Source::Plan(plan, bindings) => {
                let own_conditions = take_within(&mut conditions, &ranges);
                let right = widened(filtered(plan, shifted(own_conditions, offset)), offset, own, width);
                if bindings.is_empty() {
                    return joined(left, known, (right, &ranges), kind, conditions);
                }
                Plan::Join(Box::new(Join {
                    left,
                    right,
                    right_columns: ranges.to_vec(),
                    kind,
                    method: JoinMethod::Lookup(bindings),
                    condition: Expr::conjunction(conditions),
                }))
            }
        }
    }

    /// Replaces columns of the left side in the bounds of a scan by slots.
    fn bind_scan(&mut self, mut scan: TableScan) -> (TableScan, Vec<(usize, Expr)>) {
        let mut bindings: Vec<(usize, Expr)> = Vec::new();
        let mut bind = |value: &mut Expr, binder: &mut Binder| {
            // A replacement by a slot cannot fail.
            _ = value.replace(&mut |part| {
                let Expr::Column(_) = part else { return Ok(false) };
                let known = bindings.iter().find(|(_, expr)| expr == part).map(|(slot, _)| *slot);
                let slot = known.unwrap_or_else(|| binder.slot());
                if known.is_none() {
                    bindings.push((slot, part.clone()));
                }
                *part = Expr::Slot(slot);
                Ok(true)
            });
        };
        scan.equal.iter_mut().for_each(|value| bind(value, self));
        match &mut scan.points {
            Some(crate::plan::Points::List(list)) => list.iter_mut().for_each(|value| bind(value, self)),
            Some(crate::plan::Points::Array(array)) => bind(array, self),
            None => {}
        }
        for (value, _) in scan.low.iter_mut().chain(&mut scan.high) {
            bind(value, self);
        }
        (scan, bindings)
    }

    /// Returns the plan of joins that keep rows without a partner.
    fn outer(&mut self, outer: Outer, conditions: &mut Vec<Expr>, width: usize) -> Plan {
        let Outer { kind, left, right, conditions: on } = outer;
        let (mut left_ranges, mut right_ranges) = (Vec::new(), Vec::new());
        left.ranges(&mut |from, to| left_ranges.push((from, to)));
        right.ranges(&mut |from, to| right_ranges.push((from, to)));
        // Conditions of the kept side can be checked early.
        let early = if kind == JoinKind::Left { take_within(conditions, &left_ranges) } else { Vec::new() };
        let left = self.plan_from(left, early, width);
        match right {
            FromTree::Leaf(relation) => {
                self.join_relation_keeping(left, &left_ranges, relation, kind, on, width)
            }
            tree => {
                let right = self.plan_from(tree, Vec::new(), width);
                joined(left, &left_ranges, (right, &right_ranges), kind, on)
            }
        }
    }

    fn join_relation_keeping(
        &mut self,
        left: Plan,
        known: &[(usize, usize)],
        relation: Relation,
        kind: JoinKind,
        on: Vec<Expr>,
        width: usize,
    ) -> Plan {
        if kind == JoinKind::Full {
            let ranges = [(relation.offset, relation.offset + relation.width)];
            let right = self.first(relation, Vec::new(), width);
            return joined(left, known, (right, &ranges), kind, on);
        }
        self.join_relation(left, known, relation, kind, on, width)
    }
}

/// Takes inner joins apart; their conditions join those of the query.
fn flatten(tree: FromTree, items: &mut Vec<Item>, conditions: &mut Vec<Expr>) {
    match tree {
        FromTree::Leaf(relation) => items.push(Item::Relation(relation)),
        FromTree::Join(JoinKind::Inner, left, right, on) => {
            flatten(*left, items, conditions);
            flatten(*right, items, conditions);
            conditions.extend(on);
        }
        FromTree::Join(kind, left, right, on) => {
            items.push(Item::Outer(Box::new(Outer { kind, left: *left, right: *right, conditions: on })));
        }
    }
}

/// Joins two plans by equal columns where there are some, else as all pairs.
fn joined(
    left: Plan,
    known: &[(usize, usize)],
    (right, ranges): (Plan, &[(usize, usize)]),
    kind: JoinKind,
    conditions: Vec<Expr>,
) -> Plan {
    let (mut left_key, mut right_key, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for condition in conditions {
        match condition {
            Expr::Compare(Comparison::Equal, l, r)
                if within(&l, known) && within(&r, ranges) && !within(&r, &[]) =>
            {
                left_key.push(*l);
                right_key.push(*r);
            }
            Expr::Compare(Comparison::Equal, l, r)
                if within(&r, known) && within(&l, ranges) && !within(&l, &[]) =>
            {
                left_key.push(*r);
                right_key.push(*l);
            }
            other => rest.push(other),
        }
    }
    let method = match left_key.is_empty() {
        true => JoinMethod::Loop,
        false => JoinMethod::Hash { left: left_key, right: right_key },
    };
    let right_columns = ranges.to_vec();
    Plan::Join(Box::new(Join {
        left,
        right,
        right_columns,
        kind,
        method,
        condition: Expr::conjunction(rest),
    }))
}

/// Brings expressions from places in the query's rows to places in a relation's rows.
fn shifted(mut conditions: Vec<Expr>, offset: usize) -> Vec<Expr> {
    for condition in &mut conditions {
        // A replacement by another place cannot fail.
        _ = condition.replace(&mut |part| {
            let Expr::Column(place) = part else { return Ok(false) };
            *place -= offset;
            Ok(true)
        });
    }
    conditions
}

fn widened(plan: Plan, offset: usize, own: usize, width: usize) -> Plan {
    if offset == 0 && own == width { plan } else { Plan::Widen(Box::new(plan), Placement { offset, width }) }
}

/// Returns true if the keys of a scan meet a condition: it is one of the equal values that the scan
/// looks for.
fn is_exact(condition: &Expr, scan: &TableScan, offset: usize) -> bool {
    let Expr::Compare(Comparison::Equal, left, right) = condition else { return false };
    let description = &scan.table.description.indexes()[scan.index];
    let is_key = |column: &Expr, value: &Expr| {
        let mut pairs = description.columns.iter().zip(&scan.equal);
        pairs.any(|(own, equal)| *column == Expr::Column(offset + own) && equal == value)
    };
    is_key(left, right) || is_key(right, left)
}
