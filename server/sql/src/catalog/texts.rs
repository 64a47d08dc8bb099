//! Texts of definitions.

use isles::{Datum, ForeignAction};

use super::tables::constraints_of;
use crate::context::Context;
use crate::functions::quoted_name;
use crate::schema::sql_name;

/// Returns the comment on an object or on one of its columns.
pub fn comment(oid: i64, column: i64, context: &Context) -> Datum {
    let oid = u32::try_from(oid).unwrap_or(0);
    let Some(name) = super::relation_name(oid, context) else { return Datum::Null };
    let part = match context.schema.tables.get(&name) {
        Some(table) if column > 0 => {
            let column = usize::try_from(column - 1).ok().and_then(|place| table.columns.get(place));
            column.map(|column| column.name.clone()).unwrap_or_default()
        }
        _ => String::new(),
    };
    match context.schema.text("comment", &name, &part) {
        Some(text) if (column > 0) != part.is_empty() => Datum::Text(text.to_owned()),
        _ => Datum::Null,
    }
}

/// Returns the text of a constraint.
pub fn constraint_text(oid: i64, context: &Context) -> Datum {
    for table in context.schema.tables.values() {
        let found = constraints_of(table).into_iter().find(|constraint| i64::from(constraint.oid) == oid);
        let Some(constraint) = found else { continue };
        let columns = constraint.columns.iter().map(|place| quoted_name(&table.columns[*place].name));
        let columns = columns.collect::<Vec<_>>().join(", ");
        return Datum::Text(match (constraint.kind, constraint.foreign, constraint.condition) {
            ("p", ..) => format!("PRIMARY KEY ({columns})"),
            ("u", ..) => format!("UNIQUE ({columns})"),
            (_, Some(key), _) => {
                let referred =
                    key.references.iter().map(|name| quoted_name(name)).collect::<Vec<_>>().join(", ");
                let other = quoted_name(sql_name(&key.table));
                let mut text = format!("FOREIGN KEY ({columns}) REFERENCES {other}({referred})");
                for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
                    match action {
                        ForeignAction::Restrict => {}
                        ForeignAction::Cascade => text += &format!(" ON {event} CASCADE"),
                        ForeignAction::SetNull => text += &format!(" ON {event} SET NULL"),
                    }
                }
                text + if key.deferred { " DEFERRABLE INITIALLY DEFERRED" } else { "" }
            }
            (_, _, Some(condition)) => format!("CHECK ({})", crate::ddl::text_of(condition)),
            _ => String::new(),
        });
    }
    Datum::Null
}

/// Returns the text of an index, or of one of its columns.
pub fn index_text(oid: i64, column: i64, context: &Context) -> Datum {
    for table in context.schema.tables.values() {
        let Some(place) = table.indexes.iter().position(|index| i64::from(index.oid) == oid) else {
            continue;
        };
        let index = &table.indexes[place];
        let orders = &table.description.indexes()[place].orders;
        let name = |place: &usize| quoted_name(&table.columns[*place].name);
        if column > 0 {
            let place = usize::try_from(column - 1).ok().and_then(|column| index.columns.get(column));
            return place.map_or(Datum::Null, |place| Datum::Text(name(place)));
        }
        let columns = index.columns.iter().zip(orders).map(|(place, order)| {
            let suffix = match (order.descending, order.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            name(place) + suffix
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let unique = if index.unique { "UNIQUE " } else { "" };
        let (own, table) = (quoted_name(&index.name), quoted_name(&table.name));
        return Datum::Text(format!("CREATE {unique}INDEX {own} ON public.{table} USING btree ({columns})"));
    }
    Datum::Null
}

/// Returns the query of a view.
pub fn view_text(oid: i64, context: &Context) -> Datum {
    let view = context.schema.views.values().find(|view| i64::from(view.oid) == oid);
    view.map_or(Datum::Null, |view| Datum::Text(format!(" {};", view.query)))
}
