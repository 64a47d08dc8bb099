//! Constraints on each engine: every function that declares them, and every verb that rows with
//! constraints have of their own.

use std::ops::Bound;
use std::path::Path;

use isles::{
    Builder, ColumnDescription, Constraints, Database, Datum, Deployment, DescribedScan, Division, Error,
    Expression, ForeignAction, ForeignKey, NoProcedure, Result, Row, Session, Table, TableBuilder,
    TableDescription, TableOptions, ValueType,
};

use crate::calls::{call, call_function};
use crate::engines::{Directory, Engine};

/// A row that refers to one of its own table.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id), index(by_above(part, above)))]
struct Node {
    part: u16,
    id: u32,
    above: Option<u32>,
    twice: u64,
}

fn node(id: u32, above: Option<u32>) -> Node {
    Node { part: 0, id, above, twice: 0 }
}

fn tree() -> Constraints {
    let above = ForeignKey::new("above_there", ["part", "above"], "nodes", ["part", "id"]);
    Constraints::new()
        .foreign_key(above.on_delete(ForeignAction::Cascade))
        .check("small", Expression::column("id").less(1_000))
        .generated("twice", Expression::column("id") * 2)
}

/// A described table with the columns of a part, a number and a text.
fn described(name: &str, constraints: Constraints) -> TableDescription {
    TableBuilder::new(name)
        .column(ColumnDescription::new("part", ValueType::Unsigned(2)))
        .column(ColumnDescription::new("id", ValueType::Unsigned(4)))
        .column(ColumnDescription::new("text", ValueType::String).nullable())
        .key(["part", "id"])
        .constraints(constraints)
        .build()
        .expect("a table")
}

fn is_broken<T: std::fmt::Debug>(result: Result<T>, name: &str) {
    match result {
        Err(Error::Constraint { constraint, .. }) => assert_eq!(constraint, name),
        other => panic!("{name}: {other:?}"),
    }
}

/// The verbs of rows with constraints, in a session that has the part 0.
fn call_verbs(session: &mut Session, nodes: Table<Node>, table: &str) {
    let first = session.transaction(|t| call!(t.insert_returning(nodes, &node(1, None))));
    assert_eq!(first, Ok(Node { twice: 2, ..node(1, None) }));
    let mut open = session.begin().expect("it begins");
    let second = call!(open.insert_returning(nodes, &node(2, Some(1)))).expect("it refers to a row");
    assert_eq!(second.twice, 4);
    open.commit().expect("nothing is broken");
    is_broken(session.transaction(|t| t.insert(nodes, &node(3, Some(9)))), "above_there");
    is_broken(session.transaction(|t| t.insert(nodes, &node(1_000, None))), "small");
    session.transaction(|t| t.delete(nodes, &(0, 1)).map(drop)).expect("a row goes with it");
    assert_eq!(session.transaction(|t| t.exists(nodes, &(0, 2))), Ok(false));

    let key = [Datum::Unsigned(0), Datum::Unsigned(7)];
    let columns = [("part", key[0].clone()), ("id", key[1].clone())];
    let row = session.transaction(|t| call!(t.insert_columns(table, &columns))).expect("a row");
    assert_eq!(row[..2], key);
    let mut changed = row.clone();
    changed[2] = if table == "nodes" { Datum::Null } else { "changed".into() };
    let update = session.transaction(|t| call!(t.update_dynamic(table, &key, &changed)));
    assert_eq!(update, Ok(true));
    assert_eq!(session.transaction(|t| t.get_dynamic(table, &key)), Ok(Some(changed.clone())));
    scan_described(session, table, &changed);
    assert_eq!(session.transaction(|t| call!(t.delete_dynamic(table, &key))), Ok(true));
}

/// Reads ranges of a table whose only row of part 0 and number 7 is this one.
fn scan_described(session: &mut Session, table: &str, row: &[Datum]) {
    let part = || Bound::Included(row[..1].to_vec());
    let number = |id| vec![row[0].clone(), Datum::Unsigned(id)];
    let scan = || {
        let scan = call_function!(DescribedScan::new(table, 0));
        let scan = call!(scan.low(part()));
        call!(scan.high(part()))
    };
    let (whole, again) = (scan(), scan());
    let backwards = call!(whole.reverse());
    let locked = call!(again.for_update());
    let from = scan().low(Bound::Excluded(number(6)));
    let only = scan().low(Bound::Included(number(7))).high(Bound::Included(number(7)));
    for mut scan in [scan(), backwards, locked, from, only] {
        let rows = session.transaction(|t| {
            let mut all = Vec::new();
            let mut scan = scan.clone();
            loop {
                let mut rows = call!(t.next_described(&mut scan, 1))?;
                let Some(row) = rows.pop() else { return Ok(all) };
                all.push(row);
            }
        });
        assert_eq!(rows.as_deref(), Ok(&[row.to_vec()][..]), "{scan:?}");
        scan = scan.high(Bound::Excluded(number(7)));
        assert_eq!(
            session.transaction(|t| t.next_described(&mut scan.clone(), 9)),
            Ok(Vec::new()),
            "{scan:?}"
        );
    }
}

/// Calls the functions of constraints on a database.
pub fn call_on_database(engine: Engine, declared: impl Fn(Engine, &Path) -> Builder) {
    let directory = Directory::new(&format!("{}-constraints", engine.name()));
    let open = || {
        let mut builder = declared(engine, &directory.0);
        let options = call_function!(TableOptions::new());
        let options = call!(options.constraints(tree()));
        let nodes = builder.table_with::<Node>("nodes", options);
        let text = Constraints::new().default_value("text", "none");
        call!(builder.described_table(described("texts", text)));
        (builder.open().expect("a database"), nodes)
    };
    for _ in 0..2 {
        let (database, nodes) = open();
        let mut session = database.session().expect("a session");
        call_verbs(&mut session, nodes, "texts");
        let mut owned = session.into_transaction().expect("it begins");
        let inserted = call!(owned.insert_returning(nodes, &node(5, None)));
        assert_eq!(inserted.map(|row| row.twice), Ok(10));
        owned.roll_back().expect("it ends");
        change_tables(engine, &database);
        database.close().expect("no session uses it");
    }
}

/// Creates a described table, and gives it another constraint.
fn change_tables(engine: Engine, database: &Database) {
    let made = call!(database.create_described_table(described("later", Constraints::new())));
    let check = Constraints::new()
        .check("known", Expression::column("text").is_null().is_null().or(Expression::column("id").less(10)));
    let changed = call!(database.change_described_table(described("later", check)));
    if engine == Engine::Pages {
        assert!(matches!(made, Err(Error::Misuse(_))), "{made:?}");
        assert!(matches!(changed, Err(Error::NoSuchTable(_))), "{changed:?}");
        return;
    }
    made.and(changed).expect("a table with a constraint");
    let row = [Datum::Unsigned(0), Datum::Unsigned(7), Datum::Null];
    database.transaction(|t| t.insert_dynamic("later", &row)).expect("it meets the condition");
    database.drop_table("later").expect("no row refers to it");
}

/// Calls the functions of constraints on a deployment.
pub fn call_on_deployment() {
    let division = Division { instances: 2, workers: 2, parts: 2 };
    let builder = |constraints| {
        let mut builder = Deployment::in_memory(division);
        let nodes = call!(builder.constrained_table::<Node>("nodes", constraints));
        (builder, nodes)
    };
    let (opened, nodes) = builder(tree());
    let deployment = opened.open::<NoProcedure>(()).expect("a deployment");
    let part = deployment.instance_of(0);
    call_verbs(&mut deployment.session(part).expect("a session"), nodes, "nodes");
    let mut owned = deployment.session(part).expect("a session").into_transaction().expect("it begins");
    let inserted = call!(owned.insert_returning(nodes, &node(5, None)));
    assert_eq!(inserted.map(|row| row.twice), Ok(10));
    owned.roll_back().expect("it ends");
    deployment.close().expect("no session uses it");
    // What an instance cannot keep by itself is refused, by name.
    let elsewhere = ForeignKey::new("elsewhere", ["part", "above"], "nodes", ["id", "part"]);
    let deferred = ForeignKey::new("late", ["part", "above"], "nodes", ["part", "id"]).deferred();
    for (constraints, name) in [
        (Constraints::new().foreign_key(elsewhere), "elsewhere"),
        (Constraints::new().foreign_key(deferred), "late"),
        (Constraints::new().identity("id", "ids"), "id"),
    ] {
        let refused = builder(constraints).0.open::<NoProcedure>(()).map(drop);
        match refused {
            Err(Error::Declaration { table, reason }) => {
                assert!(table == "nodes" && reason.contains(name), "{reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}
