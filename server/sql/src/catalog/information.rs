//! The tables of `information_schema`, and views of `pg_catalog` for people.

use isles::Datum;

use super::tables::{constraints_of, default_text};
use super::{Definition, name, number, yes};
use crate::bind::{Binder, OutputColumn};
use crate::context::Context;
use crate::exec::Row;
use crate::schema::View;
use crate::types::SqlType;

/// The tables.
pub static TABLES: &[Definition] = &[
    Definition {
        schema: "information_schema",
        name: "tables",
        columns: &[
            ("table_catalog", "name"),
            ("table_schema", "name"),
            ("table_name", "name"),
            ("table_type", "text"),
            ("is_insertable_into", "text"),
        ],
        rows: |context| {
            let row = |table: &str, kind: &str, insertable: &str| {
                vec![name(&context.database_name), name("public"), name(table), name(kind), name(insertable)]
            };
            let tables = context.schema.tables.keys().map(|table| row(table, "BASE TABLE", "YES"));
            tables.chain(context.schema.views.keys().map(|view| row(view, "VIEW", "NO"))).collect()
        },
    },
    Definition {
        schema: "information_schema",
        name: "columns",
        columns: &[
            ("table_catalog", "name"),
            ("table_schema", "name"),
            ("table_name", "name"),
            ("column_name", "name"),
            ("ordinal_position", "int4"),
            ("column_default", "text"),
            ("is_nullable", "text"),
            ("data_type", "text"),
            ("character_maximum_length", "int4"),
            ("numeric_precision", "int4"),
            ("numeric_scale", "int4"),
            ("udt_name", "name"),
            ("is_identity", "text"),
            ("is_generated", "text"),
        ],
        rows: columns,
    },
    Definition {
        schema: "information_schema",
        name: "schemata",
        columns: &[("catalog_name", "name"), ("schema_name", "name"), ("schema_owner", "name")],
        rows: |context| {
            let row = |schema: &str| vec![name(&context.database_name), name(schema), name(&context.user)];
            ["pg_catalog", "public", "information_schema"].map(row).to_vec()
        },
    },
    Definition {
        schema: "information_schema",
        name: "table_constraints",
        columns: &[
            ("constraint_catalog", "name"),
            ("constraint_schema", "name"),
            ("constraint_name", "name"),
            ("table_schema", "name"),
            ("table_name", "name"),
            ("constraint_type", "text"),
        ],
        rows: |context| {
            let mut rows = Vec::new();
            for table in context.schema.tables.values() {
                for constraint in constraints_of(table) {
                    let kind = match constraint.kind {
                        "p" => "PRIMARY KEY",
                        "u" => "UNIQUE",
                        "f" => "FOREIGN KEY",
                        _ => "CHECK",
                    };
                    let database = name(&context.database_name);
                    let (schema, own) = (name("public"), name(constraint.name));
                    rows.push(vec![database, schema.clone(), own, schema, name(&table.name), name(kind)]);
                }
            }
            rows
        },
    },
    Definition {
        schema: "information_schema",
        name: "key_column_usage",
        columns: &[
            ("constraint_schema", "name"),
            ("constraint_name", "name"),
            ("table_schema", "name"),
            ("table_name", "name"),
            ("column_name", "name"),
            ("ordinal_position", "int4"),
        ],
        rows: |context| {
            let mut rows = Vec::new();
            for table in context.schema.tables.values() {
                for constraint in constraints_of(table).iter().filter(|constraint| constraint.kind != "c") {
                    for (place, column) in constraint.columns.iter().enumerate() {
                        let (schema, own) = (name("public"), name(constraint.name));
                        let column = name(&table.columns[*column].name);
                        let table = name(&table.name);
                        rows.push(vec![schema.clone(), own, schema, table, column, number(place + 1)]);
                    }
                }
            }
            rows
        },
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_tables",
        columns: &[
            ("schemaname", "name"),
            ("tablename", "name"),
            ("tableowner", "name"),
            ("tablespace", "name"),
            ("hasindexes", "bool"),
        ],
        rows: |context| {
            let tables = context.schema.tables.values();
            let row = |table: &std::sync::Arc<crate::schema::Table>| {
                let owner = name(&context.user);
                vec![name("public"), name(&table.name), owner, Datum::Null, yes(!table.hidden_key)]
            };
            tables.map(row).collect()
        },
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_views",
        columns: &[
            ("schemaname", "name"),
            ("viewname", "name"),
            ("viewowner", "name"),
            ("definition", "text"),
        ],
        rows: |context| {
            let views = context.schema.views.values();
            views
                .map(|view| vec![name("public"), name(&view.name), name(&context.user), name(&view.query)])
                .collect()
        },
    },
    Definition {
        schema: "pg_catalog",
        name: "pg_indexes",
        columns: &[
            ("schemaname", "name"),
            ("tablename", "name"),
            ("indexname", "name"),
            ("tablespace", "name"),
            ("indexdef", "text"),
        ],
        rows: |context| {
            let mut rows = Vec::new();
            for table in context.schema.tables.values() {
                for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
                    let text = super::index_text(index.oid.into(), 0, context);
                    rows.push(vec![name("public"), name(&table.name), name(&index.name), Datum::Null, text]);
                }
            }
            rows
        },
    },
];

/// Returns the columns of a view; none if its query does not fit the tables any more.
pub fn view_columns(view: &View, context: &Context) -> Vec<OutputColumn> {
    let bound = crate::parse::query(&view.query).and_then(|query| {
        Binder::new(std::sync::Arc::clone(&context.schema), Vec::new()).query(&query, None)
    });
    let mut columns = bound.map(|bound| bound.columns).unwrap_or_default();
    columns.iter_mut().zip(&view.columns).for_each(|(column, name)| column.name.clone_from(name));
    columns
}

fn columns(context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |table: &str,
                   place: usize,
                   column: &str,
                   kind: &SqlType,
                   default: Option<String>,
                   words: [&str; 3]| {
        let (characters, precision, scale) = match kind {
            SqlType::VarChar(Some(length)) | SqlType::Char(length) => (Some(*length as usize), None, None),
            SqlType::Numeric(Some((precision, scale))) => {
                (None, Some(*precision as usize), Some(*scale as usize))
            }
            SqlType::Int2 => (None, Some(16), Some(0)),
            SqlType::Int4 => (None, Some(32), Some(0)),
            SqlType::Int8 => (None, Some(64), Some(0)),
            _ => (None, None, None),
        };
        let count = |of: Option<usize>| of.map_or(Datum::Null, number);
        let shown = match kind {
            SqlType::Array(_) => "ARRAY".to_owned(),
            SqlType::Char(_) => "character".to_owned(),
            kind => kind.plain().name(),
        };
        let [nullable, identity, generated] = words;
        rows.push(vec![
            name(&context.database_name),
            name("public"),
            name(table),
            name(column),
            number(place + 1),
            default.map_or(Datum::Null, Datum::Text),
            name(nullable),
            Datum::Text(shown),
            count(characters),
            count(precision),
            count(scale),
            Datum::Text(super::tables::catalog_type(kind)),
            name(identity),
            name(generated),
        ]);
    };
    for table in context.schema.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            let nullable = if column.not_null { "NO" } else { "YES" };
            let is_identity = matches!(column.default, crate::schema::ColumnDefault::Sequence(..));
            let generated = if column.generated.is_some() { "ALWAYS" } else { "NEVER" };
            let words = [nullable, if is_identity { "YES" } else { "NO" }, generated];
            add(&table.name, place, &column.name, &column.kind, default_text(column), words);
        }
    }
    for view in context.schema.views.values() {
        for (place, column) in view_columns(view, context).iter().enumerate() {
            add(&view.name, place, &column.name, &column.kind, None, ["YES", "NO", "NEVER"]);
        }
    }
    rows
}
