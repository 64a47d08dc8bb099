//! Functions about the session, the catalog, and sequences.

use isles::Datum;

use super::{Builtin, T, function, integer, of_nulls, text, variadic};
use crate::catalog;
use crate::context::{Context, SERVER_VERSION};
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::schema::oid_of;
use crate::types::SqlType;

pub static FUNCTIONS: &[Builtin] = &[
    function("version", &[], T::Text, |_, _| Ok(Datum::Text(format!("PostgreSQL {SERVER_VERSION}")))),
    function("current_schema", &[], T::Name, |_, _| Ok(Datum::Text("public".to_owned()))),
    function("current_schemas", &[T::Bool], T::Texts, |a, _| {
        let names = if a[0] == Datum::Bool(true) { &["pg_catalog", "public"][..] } else { &["public"] };
        Ok(Datum::List(names.iter().map(|name| Datum::Text((*name).to_owned())).collect()))
    }),
    function("current_database", &[], T::Name, |_, x| Ok(Datum::Text(x.context.database_name.clone()))),
    function("current_catalog", &[], T::Name, |_, x| Ok(Datum::Text(x.context.database_name.clone()))),
    function("current_user", &[], T::Name, |_, x| Ok(Datum::Text(x.context.user.clone()))),
    function("session_user", &[], T::Name, |_, x| Ok(Datum::Text(x.context.user.clone()))),
    function("user", &[], T::Name, |_, x| Ok(Datum::Text(x.context.user.clone()))),
    function("current_role", &[], T::Name, |_, x| Ok(Datum::Text(x.context.user.clone()))),
    function("pg_backend_pid", &[], T::Int4, |_, x| Ok(Datum::Signed(x.context.process.into()))),
    function("pg_is_in_recovery", &[], T::Bool, |_, _| Ok(Datum::Bool(false))),
    function("pg_get_userbyid", &[T::Oid], T::Name, |a, x| {
        Ok(Datum::Text(catalog::roles::role_name(integer(&a[0]), x.context)))
    }),
    function("pg_encoding_to_char", &[T::Int4], T::Name, |_, _| Ok(Datum::Text("UTF8".to_owned()))),
    function("pg_client_encoding", &[], T::Name, |_, _| Ok(Datum::Text("UTF8".to_owned()))),
    function("set_config", &[T::Text, T::Text, T::Bool], T::Text, |a, x| {
        x.context.settings.set(text(&a[0]), text(&a[1]))?;
        Ok(a[1].clone())
    }),
    function("current_setting", &[T::Text], T::Text, |a, x| setting(text(&a[0]), x, false)),
    function("current_setting", &[T::Text, T::Bool], T::Text, |a, x| {
        setting(text(&a[0]), x, a[1] == Datum::Bool(true))
    }),
    function("nextval", &[T::Text], T::Int8, |a, x| {
        Ok(Datum::Signed(x.context.next_number(&sequence_name(text(&a[0])))?))
    }),
    function("nextval", &[T::RegClass], T::Int8, |a, x| {
        let name = name_of(integer(&a[0]), &SqlType::RegClass, x.context);
        Ok(Datum::Signed(x.context.next_number(&name)?))
    }),
    function("currval", &[T::Text], T::Int8, |a, x| last(&sequence_name(text(&a[0])), x)),
    function("currval", &[T::RegClass], T::Int8, |a, x| {
        let name = name_of(integer(&a[0]), &SqlType::RegClass, x.context);
        last(&name, x)
    }),
    function("lastval", &[], T::Int8, |_, x| {
        let name = x.context.last_sequence.clone().unwrap_or_default();
        last(&name, x)
    }),
    function("setval", &[T::Text, T::Int8], T::Int8, |a, x| set_value(a, true, x)),
    of_nulls("setval", &[T::Text, T::Int8, T::Bool], T::Int8, |a, x| match &a[1] {
        Datum::Null => Ok(Datum::Null),
        _ => set_value(a, a[2] == Datum::Bool(true), x),
    }),
    function("setval", &[T::RegClass, T::Int8], T::Int8, |a, x| set_value(a, true, x)),
    of_nulls("setval", &[T::RegClass, T::Int8, T::Bool], T::Int8, |a, x| match &a[1] {
        Datum::Null => Ok(Datum::Null),
        _ => set_value(a, a[2] == Datum::Bool(true), x),
    }),
    function("pg_get_serial_sequence", &[T::Text, T::Text], T::Text, |a, x| {
        let table = text(&a[0]).trim_start_matches("public.").trim_matches('"').to_owned();
        let table = x.context.schema.table(&table)?;
        let column = &table.columns[table.column(text(&a[1]))?];
        Ok(match catalog::sequence_of(column) {
            Some(name) => Datum::Text(format!("public.{}", super::texts::quoted_name(&name))),
            None => Datum::Null,
        })
    }),
    of_nulls("format_type", &[T::Oid, T::Int4], T::Text, |a, _| {
        let modifier = if let Datum::Signed(modifier) = a[1] { modifier as i32 } else { -1 };
        Ok(match a[0] {
            Datum::Signed(oid) => {
                Datum::Text(SqlType::format(oid as u32, modifier).unwrap_or("???".to_owned()))
            }
            _ => Datum::Null,
        })
    }),
    function("to_regclass", &[T::Text], T::RegClass, |a, x| {
        Ok(regclass(text(&a[0]), x.context).unwrap_or(Datum::Null))
    }),
    function("to_regtype", &[T::Text], T::Oid, |a, _| {
        Ok(SqlType::of_name(text(&a[0])).map_or(Datum::Null, |kind| Datum::Signed(kind.oid().into())))
    }),
    function("pg_table_is_visible", &[T::Oid], T::Bool, |a, x| {
        Ok(Datum::Bool(catalog::is_in_search_path(integer(&a[0]), x.context)))
    }),
    function("pg_type_is_visible", &[T::Oid], T::Bool, |_, _| Ok(Datum::Bool(true))),
    function("pg_collation_is_visible", &[T::Oid], T::Bool, |_, _| Ok(Datum::Bool(true))),
    function("pg_function_is_visible", &[T::Oid], T::Bool, |_, _| Ok(Datum::Bool(true))),
    function("pg_get_expr", &[T::Text, T::Oid], T::Text, |a, _| Ok(a[0].clone())),
    function("pg_get_expr", &[T::Text, T::Oid, T::Bool], T::Text, |a, _| Ok(a[0].clone())),
    function("pg_get_constraintdef", &[T::Oid], T::Text, |a, x| {
        Ok(catalog::constraint_text(integer(&a[0]), x.context))
    }),
    function("pg_get_constraintdef", &[T::Oid, T::Bool], T::Text, |a, x| {
        Ok(catalog::constraint_text(integer(&a[0]), x.context))
    }),
    function("pg_get_indexdef", &[T::Oid], T::Text, |a, x| {
        Ok(catalog::index_text(integer(&a[0]), 0, x.context))
    }),
    function("pg_get_indexdef", &[T::Oid, T::Int4, T::Bool], T::Text, |a, x| {
        Ok(catalog::index_text(integer(&a[0]), integer(&a[1]), x.context))
    }),
    function("pg_get_viewdef", &[T::Oid], T::Text, |a, x| Ok(catalog::view_text(integer(&a[0]), x.context))),
    function("pg_get_viewdef", &[T::Oid, T::Bool], T::Text, |a, x| {
        Ok(catalog::view_text(integer(&a[0]), x.context))
    }),
    function("obj_description", &[T::Oid, T::Name], T::Text, |a, x| {
        Ok(catalog::comment(integer(&a[0]), 0, x.context))
    }),
    function("obj_description", &[T::Oid], T::Text, |a, x| {
        Ok(catalog::comment(integer(&a[0]), 0, x.context))
    }),
    function("col_description", &[T::Oid, T::Int4], T::Text, |a, x| {
        Ok(catalog::comment(integer(&a[0]), integer(&a[1]), x.context))
    }),
    function("shobj_description", &[T::Oid, T::Name], T::Text, |_, _| Ok(Datum::Null)),
    function("pg_table_size", &[T::Oid], T::Int8, |_, _| Ok(Datum::Signed(0))),
    function("pg_relation_size", &[T::Oid], T::Int8, |_, _| Ok(Datum::Signed(0))),
    function("pg_total_relation_size", &[T::Oid], T::Int8, |_, _| Ok(Datum::Signed(0))),
    function("pg_database_size", &[T::Text], T::Int8, |_, x| {
        Ok(Datum::Signed(x.context.database.memory_in_use() as i64))
    }),
    function("pg_size_pretty", &[T::Int8], T::Text, |a, _| Ok(Datum::Text(size_in_words(integer(&a[0]))))),
    variadic("has_table_privilege", &[T::Any, T::Any], T::Bool, table_privilege),
    variadic("has_schema_privilege", &[T::Any, T::Any], T::Bool, |_, _| Ok(Datum::Bool(true))),
    variadic("has_database_privilege", &[T::Any, T::Any], T::Bool, |_, _| Ok(Datum::Bool(true))),
    variadic("has_column_privilege", &[T::Any, T::Any, T::Any], T::Bool, |_, _| Ok(Datum::Bool(true))),
    function("pg_sleep", &[T::Float8], T::Void, sleep),
    function("pg_advisory_unlock_all", &[], T::Void, |_, _| Ok(Datum::Text(String::new()))),
    function("txid_current", &[], T::Int8, |_, x| Ok(Datum::Signed(x.context.now.micros()))),
    function("pg_get_function_identity_arguments", &[T::Oid], T::Text, |_, _| Ok(Datum::Text(String::new()))),
    function("pg_get_partkeydef", &[T::Oid], T::Text, |_, _| Ok(Datum::Null)),
    function("pg_relation_is_publishable", &[T::RegClass], T::Bool, |_, _| Ok(Datum::Bool(false))),
    function("pg_get_statisticsobjdef_columns", &[T::Oid], T::Text, |_, _| Ok(Datum::Null)),
    function("pg_tablespace_location", &[T::Oid], T::Text, |_, _| Ok(Datum::Text(String::new()))),
    function("pg_get_function_result", &[T::Oid], T::Text, |_, _| Ok(Datum::Text("text".to_owned()))),
    function("pg_get_function_arguments", &[T::Oid], T::Text, |_, _| Ok(Datum::Text(String::new()))),
    function("pg_get_ruledef", &[T::Oid, T::Bool], T::Text, |_, _| Ok(Datum::Null)),
    function("pg_get_triggerdef", &[T::Oid, T::Bool], T::Text, |_, _| Ok(Datum::Null)),
];

fn setting(name: &str, x: &mut Exec<'_, '_>, missing_ok: bool) -> Result<Datum> {
    match x.context.settings.get(name) {
        Some(value) => Ok(Datum::Text(value.to_owned())),
        None if missing_ok => Ok(Datum::Null),
        None => {
            Err(SqlError::new(state::NO_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
        }
    }
}

fn sequence_name(text: &str) -> String {
    let name = text.strip_prefix("public.").unwrap_or(text);
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(name) => name.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

fn last(name: &str, x: &mut Exec<'_, '_>) -> Result<Datum> {
    let missing = || {
        let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
        SqlError::new("55000", message)
    };
    x.context.last_numbers.get(name).map(|number| Datum::Signed(*number)).ok_or_else(missing)
}

fn set_value(a: &[Datum], is_used: bool, x: &mut Exec<'_, '_>) -> Result<Datum> {
    let name = match &a[0] {
        Datum::Text(name) => sequence_name(name),
        other => name_of(integer(other), &SqlType::RegClass, x.context),
    };
    let number = integer(&a[1]);
    let next = if is_used { number.saturating_add(1) } else { number };
    // Numbers are never given twice, so a sequence does not go back.
    x.context.sequence(&name)?.raise_to(next)?;
    x.context.last_numbers.insert(name, number);
    Ok(Datum::Signed(number))
}

/// Says whether a user, else that of the session, has one of the privileges on a table.
fn table_privilege(a: &[Datum], x: &mut Exec<'_, '_>) -> Result<Datum> {
    let (user, table, wanted) = match a {
        [Datum::Text(user), table, Datum::Text(wanted)] => (user.clone(), table, wanted),
        [table, Datum::Text(wanted)] => (x.context.user.clone(), table, wanted),
        _ => return Ok(Datum::Null),
    };
    let number = match table {
        Datum::Signed(number) => *number,
        table => integer(&regclass(text(table), x.context)?),
    };
    let name = name_of(number, &SqlType::RegClass, x.context);
    let roles = &x.context.schema.roles;
    let has = |word: &str| {
        let of_name = crate::roles::PRIVILEGES.iter().find(|(_, _, name)| name.eq_ignore_ascii_case(word));
        of_name.is_some_and(|(privilege, ..)| roles.may(&user, name.trim_matches('"'), *privilege))
    };
    Ok(Datum::Bool(wanted.split(',').map(str::trim).any(has)))
}

fn size_in_words(bytes: i64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB"];
    let (mut size, mut unit) = (bytes, 0);
    while size.abs() >= 10 * 1024 && unit + 1 < units.len() {
        size /= 1024;
        unit += 1;
    }
    format!("{size} {}", units[unit])
}

/// Returns the number of a table or another object of this name.
pub fn regclass(text: &str, context: &Context) -> Result<Datum> {
    if let Ok(number) = text.parse::<u32>() {
        return Ok(Datum::Signed(number.into()));
    }
    let name = match text.split_once('.') {
        Some((_, name)) => name,
        None => text,
    };
    let name = sequence_name(name);
    let found = catalog::relation_number(&name, context);
    let missing = || SqlError::new(state::NO_TABLE, format!("relation \"{text}\" does not exist"));
    found.map(|oid| Datum::Signed(oid.into())).ok_or_else(missing)
}

/// Returns the name of an object of a catalog by its number.
pub fn name_of(number: i64, kind: &SqlType, context: &Context) -> String {
    let number = u32::try_from(number).unwrap_or(0);
    let name = match kind {
        SqlType::RegType => SqlType::format(number, -1),
        SqlType::RegProc => {
            super::names().into_iter().find(|name| oid_of("function", name) == number).map(str::to_owned)
        }
        _ => catalog::relation_name(number, context).map(|name| super::texts::quoted_name(&name)),
    };
    name.unwrap_or_else(|| if number == 0 { "-".to_owned() } else { number.to_string() })
}

/// Longest time without a look whether the statement was cancelled.
const NAP: std::time::Duration = std::time::Duration::from_millis(10);

/// Sleeps for a number of seconds, or until the statement is cancelled.
fn sleep(arguments: &[Datum], x: &mut Exec<'_, '_>) -> Result<Datum> {
    let Datum::Float(seconds) = arguments[0] else { return Ok(Datum::Null) };
    let time = std::time::Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default();
    let until = std::time::Instant::now() + time;
    loop {
        x.context.check_cancelled()?;
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(Datum::Text(String::new()));
        }
        std::thread::sleep(left.min(NAP));
    }
}
