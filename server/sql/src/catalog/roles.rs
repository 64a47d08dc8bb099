//! Roles in the catalog.

use isles::Datum;

use super::{OWNER, name, oid, yes};
use crate::context::Context;
use crate::exec::Row;
use crate::roles::{FIRST_ROLE, PRIVILEGES, PUBLIC, Role};
use crate::types::SqlType;

/// Columns of `pg_roles`.
pub const ROLES: &[(&str, &str)] = &[
    ("oid", "oid"),
    ("rolname", "name"),
    ("rolsuper", "bool"),
    ("rolinherit", "bool"),
    ("rolcreaterole", "bool"),
    ("rolcreatedb", "bool"),
    ("rolcanlogin", "bool"),
    ("rolreplication", "bool"),
    ("rolconnlimit", "int4"),
    ("rolvaliduntil", "timestamptz"),
    ("rolbypassrls", "bool"),
    ("rolpassword", "text"),
    ("rolconfig", "text[]"),
];
/// Columns of `pg_authid`.
pub const AUTHID: &[(&str, &str)] = ROLES.split_at(12).0;
/// Columns of `pg_user`.
pub const USERS: &[(&str, &str)] = &[
    ("usename", "name"),
    ("usesysid", "oid"),
    ("usecreatedb", "bool"),
    ("usesuper", "bool"),
    ("userepl", "bool"),
    ("usebypassrls", "bool"),
    ("passwd", "text"),
    ("valuntil", "timestamptz"),
    ("useconfig", "text[]"),
];

/// Returns the roles as this session sees them: in a database that is open its user is the first
/// role.
fn visible(context: &Context) -> Vec<Role> {
    let roles = &context.schema.roles;
    if roles.is_open() {
        return vec![Role { name: context.user.clone(), ..Role::first() }];
    }
    roles.all()
}

/// Returns the name of a role by its number.
pub fn role_name(number: i64, context: &Context) -> String {
    if number == i64::from(OWNER) {
        let is_open = context.schema.roles.is_open();
        return if is_open { context.user.clone() } else { FIRST_ROLE.to_owned() };
    }
    let found = visible(context).into_iter().find(|role| i64::from(role.oid()) == number);
    found.map_or_else(|| format!("unknown (OID={number})"), |role| role.name)
}

fn number_of(role: &Role, context: &Context) -> Datum {
    oid(if context.schema.roles.is_open() { OWNER } else { role.oid() })
}

fn moment(role: &Role) -> Datum {
    let text = role.valid_until.as_deref();
    text.and_then(|text| crate::text::from_text(text, &SqlType::TimestampTz).ok()).unwrap_or(Datum::Null)
}

fn row(role: &Role, context: &Context, password: Datum) -> Row {
    vec![
        number_of(role, context),
        name(&role.name),
        yes(role.superuser),
        yes(true),
        yes(role.create_role),
        yes(role.create_db),
        yes(role.login),
        yes(false),
        Datum::Signed(role.connections),
        moment(role),
        yes(role.superuser),
        password,
    ]
}

/// Returns the rows of `pg_roles`.
pub fn pg_roles(context: &Context) -> Vec<Row> {
    let row = |role: &Role| {
        let mut row = row(role, context, name("********"));
        row.push(Datum::Null);
        row
    };
    visible(context).iter().map(row).collect()
}

/// Returns the rows of `pg_authid`, of which only superusers see any.
pub fn pg_authid(context: &Context) -> Vec<Row> {
    if !context.schema.roles.is_superuser(&context.user) {
        return Vec::new();
    }
    let password = |role: &Role| role.verifier.as_ref().map_or(Datum::Null, |kept| name(&kept.to_string()));
    visible(context).iter().map(|role| row(role, context, password(role))).collect()
}

/// Returns the rows of `pg_user`.
pub fn pg_user(context: &Context) -> Vec<Row> {
    let row = |role: &Role| {
        vec![
            name(&role.name),
            number_of(role, context),
            yes(role.create_db),
            yes(role.superuser),
            yes(false),
            yes(role.superuser),
            name("********"),
            moment(role),
            Datum::Null,
        ]
    };
    visible(context).iter().filter(|role| role.login).map(row).collect()
}

/// Returns the privileges on a table, in the form of `pg_class.relacl`.
pub fn access_list(table: &str, context: &Context) -> Datum {
    let roles = &context.schema.roles;
    let all: String = PRIVILEGES.iter().map(|(_, letter, _)| *letter).collect();
    let item = |(role, letters): (&str, &str)| {
        let role = if role == PUBLIC { "" } else { role };
        Datum::Text(format!("{role}={letters}/{FIRST_ROLE}"))
    };
    let granted: Vec<_> = roles.grants_on(table).map(item).collect();
    if granted.is_empty() {
        return Datum::Null;
    }
    let own = Datum::Text(format!("{FIRST_ROLE}={all}/{FIRST_ROLE}"));
    Datum::List(std::iter::once(own).chain(granted).collect())
}
