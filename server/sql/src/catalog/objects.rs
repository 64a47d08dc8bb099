//! Objects beside tables: types, functions, roles, databases, and tables that are empty here.

use isles::Datum;

use super::tables::owners;
use super::{Definition, OWNER, PG_CATALOG, name, number, oid, yes};
use crate::context::Context;
use crate::exec::Row;
use crate::schema::oid_of;
use crate::types::TYPES;

/// A table without rows.
const fn empty(name: &'static str, columns: &'static [(&'static str, &'static str)]) -> Definition {
    Definition { schema: "pg_catalog", name, columns, rows: |_| Vec::new() }
}

const fn table(
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    rows: super::MakeRows,
) -> Definition {
    Definition { schema: "pg_catalog", name, columns, rows }
}

/// The tables.
pub static TABLES: &[Definition] = &[
    table(
        "pg_type",
        &[
            ("oid", "oid"),
            ("typname", "name"),
            ("typnamespace", "oid"),
            ("typowner", "oid"),
            ("typlen", "int2"),
            ("typbyval", "bool"),
            ("typtype", "char"),
            ("typcategory", "char"),
            ("typispreferred", "bool"),
            ("typisdefined", "bool"),
            ("typdelim", "char"),
            ("typrelid", "oid"),
            ("typelem", "oid"),
            ("typarray", "oid"),
            ("typinput", "regproc"),
            ("typoutput", "regproc"),
            ("typnotnull", "bool"),
            ("typbasetype", "oid"),
            ("typtypmod", "int4"),
            ("typndims", "int4"),
            ("typcollation", "oid"),
            ("typdefault", "text"),
        ],
        pg_type,
    ),
    table(
        "pg_database",
        &[
            ("oid", "oid"),
            ("datname", "name"),
            ("datdba", "oid"),
            ("encoding", "int4"),
            ("datlocprovider", "char"),
            ("datistemplate", "bool"),
            ("datallowconn", "bool"),
            ("datconnlimit", "int4"),
            ("dattablespace", "oid"),
            ("datcollate", "text"),
            ("datctype", "text"),
            ("daticulocale", "text"),
            ("datacl", "text[]"),
        ],
        |context| {
            let locale = || name("C");
            vec![vec![
                oid(1),
                name(&context.database_name),
                oid(OWNER),
                number(6),
                name("c"),
                yes(false),
                yes(true),
                Datum::Signed(-1),
                oid(1663),
                locale(),
                locale(),
                Datum::Null,
                Datum::Null,
            ]]
        },
    ),
    table("pg_roles", super::roles::ROLES, super::roles::pg_roles),
    table("pg_authid", super::roles::AUTHID, super::roles::pg_authid),
    table("pg_user", super::roles::USERS, super::roles::pg_user),
    table(
        "pg_am",
        &[("oid", "oid"), ("amname", "name"), ("amhandler", "regproc"), ("amtype", "char")],
        |_| {
            vec![
                vec![oid(2), name("heap"), oid(0), name("t")],
                vec![oid(403), name("btree"), oid(0), name("i")],
            ]
        },
    ),
    table(
        "pg_collation",
        &[("oid", "oid"), ("collname", "name"), ("collnamespace", "oid"), ("collprovider", "char")],
        |_| vec![vec![oid(100), name("default"), oid(PG_CATALOG), name("d")]],
    ),
    table(
        "pg_proc",
        &[
            ("oid", "oid"),
            ("proname", "name"),
            ("pronamespace", "oid"),
            ("proowner", "oid"),
            ("prokind", "char"),
            ("prorettype", "oid"),
            ("proargtypes", "oid[]"),
        ],
        |_| {
            let names = crate::functions::names()
                .into_iter()
                .filter(|name| name.starts_with(|c: char| c.is_alphabetic()));
            let row = |function: &str| {
                let own = oid_of("function", function);
                let arguments = Datum::List(Vec::new());
                vec![oid(own), name(function), oid(PG_CATALOG), oid(OWNER), name("f"), oid(25), arguments]
            };
            names.map(row).collect()
        },
    ),
    table(
        "pg_settings",
        &[("name", "text"), ("setting", "text"), ("unit", "text"), ("short_desc", "text")],
        |context| {
            let row = |(setting, value)| vec![name(setting), name(value), Datum::Null, name("")];
            context.settings.all().map(row).collect()
        },
    ),
    table(
        "pg_description",
        &[("objoid", "oid"), ("classoid", "oid"), ("objsubid", "int4"), ("description", "text")],
        descriptions,
    ),
    table(
        "pg_sequence",
        &[
            ("seqrelid", "oid"),
            ("seqtypid", "oid"),
            ("seqstart", "int8"),
            ("seqincrement", "int8"),
            ("seqmax", "int8"),
            ("seqmin", "int8"),
            ("seqcache", "int8"),
            ("seqcycle", "bool"),
        ],
        |context| {
            let row = |(sequence, number): (&String, &u32)| {
                let body = context.schema.sequence(sequence).map_or("", |text| &text.body);
                let (first, increment) = crate::context::sequence_numbers(body);
                let numbers = [first, increment, i64::MAX, 1, 1].map(Datum::Signed);
                let own = [oid(*number), oid(20)].into_iter();
                own.chain(numbers).chain([yes(false)]).collect()
            };
            context.schema.sequences.iter().map(row).collect()
        },
    ),
    table(
        "pg_depend",
        &[
            ("classid", "oid"),
            ("objid", "oid"),
            ("objsubid", "int4"),
            ("refclassid", "oid"),
            ("refobjid", "oid"),
            ("refobjsubid", "int4"),
            ("deptype", "char"),
        ],
        |context| {
            let class = || oid(oid_of("catalog", "pg_class"));
            let rows = owners(context).into_iter().filter_map(|(sequence, table, column)| {
                let own = *context.schema.sequences.get(&sequence)?;
                Some(vec![class(), oid(own), number(0), class(), oid(table), number(column), name("a")])
            });
            rows.collect()
        },
    ),
    table(
        "pg_stat_activity",
        &[
            ("datname", "name"),
            ("pid", "int4"),
            ("usename", "name"),
            ("application_name", "text"),
            ("state", "text"),
        ],
        |context| {
            let application = context.settings.get("application_name").unwrap_or_default();
            let own = Datum::Signed(context.process.into());
            vec![vec![
                name(&context.database_name),
                own,
                name(&context.user),
                name(application),
                name("active"),
            ]]
        },
    ),
    empty(
        "pg_inherits",
        &[("inhrelid", "oid"), ("inhparent", "oid"), ("inhseqno", "int4"), ("inhdetachpending", "bool")],
    ),
    empty(
        "pg_enum",
        &[("oid", "oid"), ("enumtypid", "oid"), ("enumsortorder", "float4"), ("enumlabel", "name")],
    ),
    // Each type has the one order that indexes keep; it has no name.
    empty(
        "pg_opclass",
        &[
            ("oid", "oid"),
            ("opcmethod", "oid"),
            ("opcname", "name"),
            ("opcnamespace", "oid"),
            ("opcowner", "oid"),
            ("opcfamily", "oid"),
            ("opcintype", "oid"),
            ("opcdefault", "bool"),
            ("opckeytype", "oid"),
        ],
    ),
    empty("pg_range", &[("rngtypid", "oid"), ("rngsubtype", "oid"), ("rngmultitypid", "oid")]),
    empty(
        "pg_trigger",
        &[
            ("oid", "oid"),
            ("tgrelid", "oid"),
            ("tgparentid", "oid"),
            ("tgname", "name"),
            ("tgfoid", "oid"),
            ("tgtype", "int2"),
            ("tgenabled", "char"),
            ("tgisinternal", "bool"),
            ("tgconstraint", "oid"),
        ],
    ),
    empty(
        "pg_rewrite",
        &[
            ("oid", "oid"),
            ("rulename", "name"),
            ("ev_class", "oid"),
            ("ev_type", "char"),
            ("ev_enabled", "char"),
            ("is_instead", "bool"),
        ],
    ),
    empty(
        "pg_policy",
        &[
            ("oid", "oid"),
            ("polname", "name"),
            ("polrelid", "oid"),
            ("polcmd", "char"),
            ("polpermissive", "bool"),
            ("polroles", "oid[]"),
            ("polqual", "text"),
            ("polwithcheck", "text"),
        ],
    ),
    empty(
        "pg_statistic_ext",
        &[
            ("oid", "oid"),
            ("stxrelid", "oid"),
            ("stxname", "name"),
            ("stxnamespace", "oid"),
            ("stxkeys", "int2[]"),
            ("stxkind", "text[]"),
            ("stxstattarget", "int4"),
        ],
    ),
    empty("pg_publication", &[("oid", "oid"), ("pubname", "name"), ("puballtables", "bool")]),
    empty(
        "pg_publication_rel",
        &[("oid", "oid"), ("prpubid", "oid"), ("prrelid", "oid"), ("prqual", "text"), ("prattrs", "int2[]")],
    ),
    empty("pg_publication_namespace", &[("oid", "oid"), ("pnpubid", "oid"), ("pnnspid", "oid")]),
    empty("pg_partitioned_table", &[("partrelid", "oid"), ("partstrat", "char"), ("partnatts", "int2")]),
    empty("pg_foreign_table", &[("ftrelid", "oid"), ("ftserver", "oid"), ("ftoptions", "text[]")]),
    empty("pg_foreign_server", &[("oid", "oid"), ("srvname", "name")]),
    empty("pg_tablespace", &[("oid", "oid"), ("spcname", "name"), ("spcowner", "oid")]),
    empty(
        "pg_extension",
        &[("oid", "oid"), ("extname", "name"), ("extnamespace", "oid"), ("extversion", "text")],
    ),
    empty(
        "pg_auth_members",
        &[("roleid", "oid"), ("member", "oid"), ("grantor", "oid"), ("admin_option", "bool")],
    ),
    empty(
        "pg_prepared_xacts",
        &[
            ("transaction", "oid"),
            ("gid", "text"),
            ("prepared", "timestamptz"),
            ("owner", "name"),
            ("database", "name"),
        ],
    ),
    empty(
        "pg_cursors",
        &[
            ("name", "text"),
            ("statement", "text"),
            ("is_holdable", "bool"),
            ("is_binary", "bool"),
            ("is_scrollable", "bool"),
            ("creation_time", "timestamptz"),
        ],
    ),
    empty("pg_matviews", &[("schemaname", "name"), ("matviewname", "name")]),
    empty("pg_shdescription", &[("objoid", "oid"), ("classoid", "oid"), ("description", "text")]),
];

fn pg_type(_: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    for facts in TYPES {
        let mut add = |own: u32, type_name: String, bytes: i16, category: &str, member: u32, array: u32| {
            let kind = if category == "P" { "p" } else { "b" };
            let function = |suffix: &str| oid(oid_of("function", &format!("{type_name}{suffix}")));
            let collation = if category == "S" { 100 } else { 0 };
            rows.push(vec![
                oid(own),
                Datum::Text(type_name.clone()),
                oid(PG_CATALOG),
                oid(OWNER),
                Datum::Signed(bytes.into()),
                yes((1..=8).contains(&bytes)),
                name(kind),
                name(category),
                yes(false),
                yes(true),
                name(","),
                oid(0),
                oid(member),
                oid(array),
                function("in"),
                function("out"),
                yes(false),
                oid(0),
                Datum::Signed(-1),
                number(0),
                oid(collation),
                Datum::Null,
            ]);
        };
        add(facts.oid, facts.name.to_owned(), facts.bytes, facts.category, 0, facts.array);
        if facts.array != 0 {
            add(facts.array, format!("_{}", facts.name), -1, "A", facts.oid, 0);
        }
    }
    rows
}

fn descriptions(context: &Context) -> Vec<Row> {
    let class = oid_of("catalog", "pg_class");
    let mut rows = Vec::new();
    for text in context.schema.texts.iter().filter(|text| text.kind == "comment") {
        let Some(own) = super::relation_number(&text.object, context) else { continue };
        let table = context.schema.tables.get(&text.object);
        let column = table.and_then(|table| table.column(&text.part).ok()).map_or(0, |place| place + 1);
        rows.push(vec![oid(own), oid(class), number(column), name(&text.body)]);
    }
    rows
}
