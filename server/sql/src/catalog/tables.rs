//! Tables, columns, indexes and constraints.

use isles::Datum;

use super::{
    Definition, INFORMATION_SCHEMA, OWNER, PG_CATALOG, PUBLIC, definitions, name, number, oid, sequence_of,
    type_name, yes,
};
use crate::context::Context;
use crate::exec::Row;
use crate::schema::{ColumnDefault, Table, oid_of, sql_name};
use crate::types::SqlType;

/// The tables.
pub static TABLES: &[Definition] = &[
    Definition {
        schema: "pg_catalog",
        name: "pg_class",
        columns: &[
            ("oid", "oid"),
            ("relname", "name"),
            ("relnamespace", "oid"),
            ("reltype", "oid"),
            ("reloftype", "oid"),
            ("relowner", "oid"),
            ("relam", "oid"),
            ("relfilenode", "oid"),
            ("reltablespace", "oid"),
            ("relpages", "int4"),
            ("reltuples", "float4"),
            ("relallvisible", "int4"),
            ("reltoastrelid", "oid"),
            ("relhasindex", "bool"),
            ("relisshared", "bool"),
            ("relpersistence", "char"),
            ("relkind", "char"),
            ("relnatts", "int2"),
            ("relchecks", "int2"),
            ("relhasrules", "bool"),
            ("relhastriggers", "bool"),
            ("relhassubclass", "bool"),
            ("relrowsecurity", "bool"),
            ("relforcerowsecurity", "bool"),
            ("relispopulated", "bool"),
            ("relreplident", "char"),
            ("relispartition", "bool"),
            ("relacl", "text[]"),
            ("reloptions", "text[]"),
            ("relpartbound", "text"),
        ],
        rows: pg_class,
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_namespace",
        columns: &[("oid", "oid"), ("nspname", "name"), ("nspowner", "oid"), ("nspacl", "text[]")],
        rows: |_| {
            let row = |(number, text)| vec![oid(number), name(text), oid(OWNER), Datum::Null];
            let all =
                [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")];
            all.map(row).to_vec()
        },
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_attribute",
        columns: &[
            ("attrelid", "oid"),
            ("attname", "name"),
            ("atttypid", "oid"),
            ("attstattarget", "int4"),
            ("attlen", "int2"),
            ("attnum", "int2"),
            ("attndims", "int4"),
            ("atttypmod", "int4"),
            ("attbyval", "bool"),
            ("attstorage", "char"),
            ("attalign", "char"),
            ("attcompression", "char"),
            ("attnotnull", "bool"),
            ("atthasdef", "bool"),
            ("atthasmissing", "bool"),
            ("attidentity", "char"),
            ("attgenerated", "char"),
            ("attisdropped", "bool"),
            ("attislocal", "bool"),
            ("attinhcount", "int4"),
            ("attcollation", "oid"),
            ("attacl", "text[]"),
            ("attoptions", "text[]"),
            ("attfdwoptions", "text[]"),
        ],
        rows: pg_attribute,
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_attrdef",
        columns: &[("oid", "oid"), ("adrelid", "oid"), ("adnum", "int2"), ("adbin", "text")],
        rows: pg_attrdef,
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_index",
        columns: &[
            ("indexrelid", "oid"),
            ("indrelid", "oid"),
            ("indnatts", "int2"),
            ("indnkeyatts", "int2"),
            ("indisunique", "bool"),
            ("indnullsnotdistinct", "bool"),
            ("indisprimary", "bool"),
            ("indisexclusion", "bool"),
            ("indimmediate", "bool"),
            ("indisclustered", "bool"),
            ("indisvalid", "bool"),
            ("indcheckxmin", "bool"),
            ("indisready", "bool"),
            ("indislive", "bool"),
            ("indisreplident", "bool"),
            ("indkey", "int2[]"),
            ("indcollation", "oid[]"),
            ("indclass", "oid[]"),
            ("indoption", "int2[]"),
            ("indexprs", "text"),
            ("indpred", "text"),
        ],
        rows: pg_index,
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_constraint",
        columns: &[
            ("oid", "oid"),
            ("conname", "name"),
            ("connamespace", "oid"),
            ("contype", "char"),
            ("condeferrable", "bool"),
            ("condeferred", "bool"),
            ("convalidated", "bool"),
            ("conrelid", "oid"),
            ("contypid", "oid"),
            ("conindid", "oid"),
            ("conparentid", "oid"),
            ("confrelid", "oid"),
            ("confupdtype", "char"),
            ("confdeltype", "char"),
            ("confmatchtype", "char"),
            ("conislocal", "bool"),
            ("coninhcount", "int4"),
            ("connoinherit", "bool"),
            ("conkey", "int2[]"),
            ("confkey", "int2[]"),
            ("conbin", "text"),
        ],
        rows: pg_constraint,
    },
];

/// A table, view, index or sequence of the catalog.
struct Relation<'a> {
    number: u32,
    name: &'a str,
    schema: u32,
    kind: &'static str,
    columns: usize,
    has_index: bool,
    checks: usize,
}

fn row_of(relation: &Relation<'_>) -> Row {
    let method = match relation.kind {
        "r" => 2,
        "i" => 403,
        _ => 0,
    };
    vec![
        oid(relation.number),
        name(relation.name),
        oid(relation.schema),
        oid(0),
        oid(0),
        oid(OWNER),
        oid(method),
        oid(relation.number),
        oid(0),
        number(0),
        Datum::Float(-1.0),
        number(0),
        oid(0),
        yes(relation.has_index),
        yes(false),
        name("p"),
        name(relation.kind),
        number(relation.columns),
        number(relation.checks),
        yes(relation.kind == "v"),
        yes(false),
        yes(false),
        yes(false),
        yes(false),
        yes(true),
        name("d"),
        yes(false),
        Datum::Null,
        Datum::Null,
        Datum::Null,
    ]
}

fn pg_class(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |number, name: &str, schema, kind, columns, has_index, checks| {
        rows.push(row_of(&Relation { number, name, schema, kind, columns, has_index, checks }));
    };
    for table in context.schema.tables.values() {
        let checks = table.description.constraints().checks.len();
        let has_index = table.indexes.len() > usize::from(table.hidden_key);
        add(table.oid, &table.name, PUBLIC, "r", table.columns.len(), has_index, checks);
        for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
            add(index.oid, &index.name, PUBLIC, "i", index.columns.len(), false, 0);
        }
    }
    for view in context.schema.views.values() {
        add(view.oid, &view.name, PUBLIC, "v", 0, false, 0);
    }
    for (sequence, number) in &context.schema.sequences {
        add(*number, sequence, PUBLIC, "S", 3, false, 0);
    }
    for table in definitions() {
        let schema = if table.schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA };
        add(oid_of("catalog", table.name), table.name, schema, "r", table.columns.len(), false, 0);
    }
    for row in &mut rows {
        let access = match &row[1] {
            Datum::Text(name) => super::roles::access_list(name, context),
            _ => Datum::Null,
        };
        let place = row.len() - 3;
        row[place] = access;
    }
    rows
}

fn pg_attribute(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |relation: u32,
                   place: usize,
                   column: &str,
                   kind: &SqlType,
                   not_null,
                   default,
                   identity,
                   generated| {
        let by_value = (1..=8).contains(&kind.bytes());
        let storage = if kind.bytes() > 0 { "p" } else { "x" };
        let collation = if kind.is_text() { 100 } else { 0 };
        rows.push(vec![
            oid(relation),
            name(column),
            oid(kind.oid()),
            Datum::Signed(-1),
            Datum::Signed(kind.bytes().into()),
            number(place + 1),
            number(usize::from(matches!(kind, SqlType::Array(_)))),
            Datum::Signed(kind.modifier().into()),
            yes(by_value),
            name(storage),
            name("i"),
            name(""),
            yes(not_null),
            yes(default),
            yes(false),
            name(identity),
            name(generated),
            yes(false),
            yes(true),
            number(0),
            oid(collation),
            Datum::Null,
            Datum::Null,
            Datum::Null,
        ]);
    };
    for table in context.schema.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            let identity = match column.default {
                ColumnDefault::Sequence(_, true) => "a",
                ColumnDefault::Sequence(_, false) => "d",
                _ => "",
            };
            let generated = if column.generated.is_some() { "s" } else { "" };
            let default = default_text(column).is_some();
            add(table.oid, place, &column.name, &column.kind, column.not_null, default, identity, generated);
        }
        for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
            for (place, column) in index.columns.iter().enumerate() {
                let column = &table.columns[*column];
                add(index.oid, place, &column.name, &column.kind, false, false, "", "");
            }
        }
    }
    for view in context.schema.views.values() {
        for (place, column) in super::information::view_columns(view, context).iter().enumerate() {
            add(view.oid, place, &column.name, &column.kind, false, false, "", "");
        }
    }
    rows
}

/// Returns the text of a column's default.
pub fn default_text(column: &crate::schema::Column) -> Option<String> {
    if let Some(generated) = &column.generated {
        return Some(format!("({})", crate::ddl::text_of(generated)));
    }
    match &column.default {
        ColumnDefault::Value(value) => {
            let text = crate::text::to_text(value, &column.kind)?;
            Some(match &column.kind {
                SqlType::Bool => value.to_string(),
                kind if kind.is_number() => text,
                kind => format!("'{}'::{}", text.replace('\'', "''"), kind.plain().name()),
            })
        }
        ColumnDefault::Text(text) => Some(text.clone()),
        ColumnDefault::None | ColumnDefault::Sequence(..) => None,
    }
}

fn pg_attrdef(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in context.schema.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            if let Some(text) = default_text(column) {
                let own = oid_of("default", &format!("{}.{}", table.name, column.name));
                rows.push(vec![oid(own), oid(table.oid), number(place + 1), Datum::Text(text)]);
            }
        }
    }
    rows
}

fn list(values: impl Iterator<Item = usize>) -> Datum {
    Datum::List(values.map(number).collect())
}

fn pg_index(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in context.schema.tables.values() {
        for (place, index) in table.indexes.iter().enumerate().skip(usize::from(table.hidden_key)) {
            let description = &table.description.indexes()[place];
            let count = index.columns.len();
            let orders = description.orders.iter().take(count);
            let options =
                orders.map(|order| usize::from(order.descending) + 2 * usize::from(order.nulls_first));
            rows.push(vec![
                oid(index.oid),
                oid(table.oid),
                number(count),
                number(count),
                yes(index.unique),
                yes(description.nulls_not_distinct),
                yes(place == 0),
                yes(false),
                yes(true),
                yes(false),
                yes(true),
                yes(false),
                yes(true),
                yes(true),
                yes(false),
                list(index.columns.iter().map(|column| column + 1)),
                list((0..count).map(|_| 0)),
                list((0..count).map(|_| 0)),
                list(options),
                Datum::Null,
                Datum::Null,
            ]);
        }
    }
    rows
}

/// A constraint of a table.
pub struct Constraint<'a> {
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: &'a str,
    /// Its kind: p, u, c, f.
    pub kind: &'static str,
    /// Its columns.
    pub columns: Vec<usize>,
    /// Its index, if it has one.
    pub index: Option<usize>,
    /// Its foreign key, if it is one.
    pub foreign: Option<&'a isles::ForeignKey>,
    /// Its condition, if it is a check.
    pub condition: Option<&'a isles::Expression>,
}

/// Returns the constraints of a table.
pub fn constraints_of(table: &Table) -> Vec<Constraint<'_>> {
    let own = |name: &str| oid_of("constraint", &format!("{}.{name}", table.name));
    let mut all = Vec::new();
    for (place, index) in table.indexes.iter().enumerate().skip(usize::from(table.hidden_key)) {
        if index.is_constraint {
            all.push(Constraint {
                oid: own(&index.name),
                name: &index.name,
                kind: if place == 0 { "p" } else { "u" },
                columns: index.columns.clone(),
                index: Some(place),
                foreign: None,
                condition: None,
            });
        }
    }
    let constraints = table.description.constraints();
    for check in &constraints.checks {
        let named = |(_, column): &(usize, &crate::schema::Column)| check.condition.names(&column.name);
        let columns = table.columns.iter().enumerate().filter(named).map(|(place, _)| place).collect();
        let (name, condition) = (check.name.as_str(), Some(&check.condition));
        all.push(Constraint {
            oid: own(name),
            name,
            kind: "c",
            columns,
            index: None,
            foreign: None,
            condition,
        });
    }
    for key in &constraints.foreign_keys {
        let columns = key.columns.iter().filter_map(|name| table.column(name).ok()).collect();
        let (name, foreign) = (key.name.as_str(), Some(key));
        all.push(Constraint {
            oid: own(name),
            name,
            kind: "f",
            columns,
            index: None,
            foreign,
            condition: None,
        });
    }
    all
}

fn action(action: isles::ForeignAction) -> Datum {
    name(match action {
        isles::ForeignAction::Restrict => "a",
        isles::ForeignAction::Cascade => "c",
        isles::ForeignAction::SetNull => "n",
    })
}

fn pg_constraint(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in context.schema.tables.values() {
        for constraint in constraints_of(table) {
            let other = constraint.foreign.and_then(|key| context.schema.tables.get(sql_name(&key.table)));
            let referred = constraint.foreign.zip(other).map(|(key, other)| {
                list(key.references.iter().filter_map(|name| other.column(name).ok()).map(|place| place + 1))
            });
            let is_deferred = constraint.foreign.is_some_and(|key| key.deferred);
            let blank = || name(" ");
            rows.push(vec![
                oid(constraint.oid),
                name(constraint.name),
                oid(PUBLIC),
                name(constraint.kind),
                yes(is_deferred),
                yes(is_deferred),
                yes(true),
                oid(table.oid),
                oid(0),
                oid(constraint.index.map_or(0, |place| table.indexes[place].oid)),
                oid(0),
                oid(other.map_or(0, |other| other.oid)),
                constraint.foreign.map_or_else(blank, |key| action(key.on_update)),
                constraint.foreign.map_or_else(blank, |key| action(key.on_delete)),
                constraint.foreign.map_or_else(blank, |_| name("s")),
                yes(true),
                number(0),
                yes(true),
                list(constraint.columns.iter().map(|place| place + 1)),
                referred.unwrap_or(Datum::Null),
                constraint.condition.map_or(Datum::Null, |of| Datum::Text(crate::ddl::text_of(of))),
            ]);
        }
    }
    rows
}

/// Returns the tables and columns that own sequences: sequence, table, column.
pub fn owners(context: &Context) -> Vec<(String, u32, usize)> {
    let mut all = Vec::new();
    for table in context.schema.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            if let Some(sequence) = sequence_of(column) {
                all.push((sequence, table.oid, place + 1));
            }
        }
    }
    all
}

/// Returns the name of a type as the catalog has it, with an underscore before that of an array.
pub fn catalog_type(kind: &SqlType) -> String {
    match kind {
        SqlType::Array(of) => format!("_{}", type_name(of)),
        kind => type_name(kind),
    }
}
