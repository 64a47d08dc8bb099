//! Constraints of tables under all schemes and over pages, typed and by description.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use isles::{
    Builder, ColumnDescription, ConstraintKind, Constraints, Database, Datum, Error, Expression,
    ForeignAction, ForeignKey, OpenReason, Result, Row, Table, TableBuilder, TableDescription, TableOptions,
    ValueType, prefix,
};

use crate::common::{Directory, SCHEMES};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_code(code)))]
pub struct Parent {
    pub id: u32,
    pub code: Option<u16>,
    pub name: String,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_parent(parent)), index(by_code(code)))]
pub struct Child {
    pub id: u32,
    pub parent: Option<u32>,
    pub code: Option<u16>,
    pub low: i32,
    pub high: i32,
    pub width: i64,
    pub label: Option<String>,
}

pub fn parent(id: u32) -> Parent {
    Parent { id, code: Some(id as u16 + 100), name: format!("parent {id}") }
}

pub fn child(id: u32, parent: impl Into<Option<u32>>) -> Child {
    Child { id, parent: parent.into(), code: None, low: 1, high: 3, width: 0, label: None }
}

fn column(name: &str) -> Expression {
    Expression::column(name)
}

/// The reference of children to their parents.
pub fn of_parent() -> ForeignKey {
    ForeignKey::new("parent_there", ["parent"], "parents", ["id"])
}

/// Conditions of a child, and its computed width.
fn rules() -> Constraints {
    Constraints::new()
        .check("ordered", column("low").at_most(column("high")))
        .check("labelled", column("label").is_null().or(column("label").length().between(2, 5)))
        .generated("width", column("high") - column("low"))
}

pub struct Opened {
    pub database: Database,
    pub parents: Table<Parent>,
    pub children: Table<Child>,
    _directory: Option<Directory>,
}

pub fn declare(builder: &mut Builder, constraints: Constraints) -> (Table<Parent>, Table<Child>) {
    let parents = builder.table("parents");
    (parents, builder.table_with("children", TableOptions::new().constraints(constraints)))
}

/// Opens the tables on each engine.
pub fn on_each_engine(name: &str, constraints: &Constraints, test: impl Fn(&Opened)) {
    let open = |mut builder: Builder, directory| {
        let (parents, children) = declare(&mut builder, constraints.clone());
        let database = builder.open().expect("a database");
        Opened { database, parents, children, _directory: directory }
    };
    for scheme in SCHEMES {
        test(&open(Database::in_memory().scheme(scheme), None));
    }
    let directory = Directory::new(name);
    test(&open(directory.in_pages(), Some(directory)));
}

/// Returns the name and the kind of the constraint that a change breaks.
#[track_caller]
fn broken<T: std::fmt::Debug>(result: Result<T>) -> (String, ConstraintKind) {
    match result {
        Err(Error::Constraint { constraint, kind, .. }) => (constraint, kind),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_verb_writes_a_row_that_breaks_a_rule() {
    let constraints = rules().not_null("parent_named", "parent");
    on_each_engine("rules", &constraints, |opened| {
        let (database, children) = (&opened.database, opened.children);
        let good = child(1, 7);
        let bad = Child { low: 4, ..good.clone() };
        let ordered = || ("ordered".to_owned(), ConstraintKind::Check);
        database.transaction(|t| t.insert(children, &good)).expect("it is good");
        let stored = Child { width: 2, ..good.clone() };
        assert_eq!(database.transaction(|t| t.get(children, &1)), Ok(Some(stored.clone())));

        let other = Child { id: 2, ..bad.clone() };
        assert_eq!(broken(database.transaction(|t| t.insert(children, &other))), ordered());
        assert_eq!(broken(database.transaction(|t| t.insert_all(children, [&other]))), ordered());
        assert_eq!(broken(database.transaction(|t| t.insert_or_ignore(children, &other))), ordered());
        assert_eq!(broken(database.transaction(|t| t.upsert(children, &other))), ordered());
        assert_eq!(broken(database.transaction(|t| t.upsert(children, &bad))), ordered());
        assert_eq!(
            broken(database.transaction(|t| t.upsert_with(children, &good, |row| row.low = 9))),
            ordered()
        );
        assert_eq!(broken(database.transaction(|t| t.update(children, &1, |row| row.high = -5))), ordered());
        let moved = database.transaction(|t| t.update(children, &1, |row| (row.id, row.low) = (5, 9)));
        assert_eq!(broken(moved), ordered());
        let changed = database.transaction(|t| t.update_if(children, &1, |_| true, |row| row.low = 9));
        assert_eq!(broken(changed), ordered());
        assert_eq!(broken(database.transaction(|t| t.set_field(children, &1, Child::LOW, &9))), ordered());
        let raised = database.transaction(|t| t.update_field(children, &1, Child::LOW, |low| *low += 9));
        assert_eq!(broken(raised), ordered());
        let all = database.transaction(|t| t.scan(children, ..).update(|row| row.high = 0));
        assert_eq!(broken(all), ordered());
        let unlabelled = database.transaction(|t| t.update(children, &1, |row| row.label = Some("x".into())));
        assert_eq!(broken(unlabelled).0, "labelled");
        let orphan = database.transaction(|t| t.update(children, &1, |row| row.parent = None));
        assert_eq!(broken(orphan), ("parent_named".to_owned(), ConstraintKind::NotNull));
        let by_values = |low, parent| {
            let [id, high] = [Datum::Unsigned(3), Datum::Signed(3)];
            [id, parent, Datum::Null, Datum::Signed(low), high, Datum::Signed(0), Datum::Null]
        };
        let insert = |row: [Datum; 7]| database.transaction(|t| t.insert_dynamic("children", &row));
        assert_eq!(broken(insert(by_values(9, Datum::Unsigned(7)))), ordered());
        assert_eq!(broken(insert(by_values(0, Datum::Null))).0, "parent_named");

        // Nothing was written, and what is good still can be.
        assert_eq!(database.transaction(|t| t.scan(children, ..).collect()), Ok(vec![stored]));
        let widened = database.transaction(|t| t.set_field(children, &1, Child::HIGH, &10));
        assert_eq!(widened, Ok(true));
        assert_eq!(database.transaction(|t| t.get_field(children, &1, Child::WIDTH)), Ok(Some(9)));
        // A generated column is computed, whatever a program writes there.
        let written = database.transaction(|t| t.set_field(children, &1, Child::WIDTH, &77));
        assert_eq!(written, Ok(true));
        assert_eq!(database.transaction(|t| t.get_field(children, &1, Child::WIDTH)), Ok(Some(9)));
    });
}

#[test]
fn a_savepoint_cures_a_broken_rule() {
    on_each_engine("cured", &rules(), |opened| {
        let (database, children) = (&opened.database, opened.children);
        let bad = Child { low: 4, ..child(2, None) };
        database
            .transaction(|t| {
                t.insert(children, &child(1, None))?;
                let refused = t.nested(|t| {
                    t.insert(children, &child(3, None))?;
                    t.insert(children, &bad)
                });
                assert_eq!(broken(refused).0, "ordered");
                t.insert(children, &child(4, None))
            })
            .expect("it goes on");
        let ids =
            database.transaction(|t| t.scan(children, ..).fields(Child::ID).collect::<Result<Vec<_>>>());
        assert_eq!(ids, Ok(vec![1, 4]));
        // An object fails as a whole otherwise, and so does a closure that swallows the error.
        let mut open = database.begin().expect("a session");
        assert_eq!(broken(open.insert(children, &bad)).0, "ordered");
        assert_eq!(broken(open.insert(children, &child(5, None))).0, "ordered");
        assert_eq!(broken(open.commit()).0, "ordered");
        let swallowed = database.transaction(|t| {
            let _ = t.insert(children, &bad);
            Ok(())
        });
        assert_eq!(broken(swallowed).0, "ordered");
    });
}

fn orders() -> TableDescription {
    TableBuilder::new("orders")
        .column(ColumnDescription::new("id", ValueType::Signed(8)))
        .column(ColumnDescription::new("amount", ValueType::Signed(4)))
        .column(ColumnDescription::new("price", "numeric(10, 2)".parse().expect("a type")))
        .column(ColumnDescription::new("total", "numeric(20, 2)".parse().expect("a type")).nullable())
        .column(ColumnDescription::new("note", ValueType::String).nullable())
        .key(["id"])
        .index("by_total", ["total"])
        .constraints(
            Constraints::new()
                .identity("id", "order ids")
                .default_value("amount", 2)
                .generated("total", column("price") * column("amount"))
                .check("sound", column("total").more(0)),
        )
        .build()
        .expect("a table")
}

#[test]
fn omitted_columns_get_defaults_numbers_and_computed_values() {
    let numeric = |text: &str| Datum::Numeric(text.parse().expect("a number"));
    let test = |mut builder: Builder| {
        builder.described_table(orders());
        let database = builder.open().expect("a database");
        let insert =
            |columns: &[(&str, Datum)]| database.transaction(|t| t.insert_columns("orders", columns));
        let first = insert(&[("price", numeric("2.50"))]).expect("it is good");
        let expected = [Datum::Signed(1), Datum::Signed(2), numeric("2.5"), numeric("5"), Datum::Null];
        assert_eq!(first, expected);
        let second = insert(&[("price", numeric("1")), ("amount", Datum::Signed(3)), ("note", "x".into())]);
        assert_eq!(second.expect("it is good")[..2], [Datum::Signed(2), Datum::Signed(3)]);
        assert!(matches!(insert(&[]), Err(Error::Row(_))), "a price has no default");
        assert!(matches!(insert(&[("prize", Datum::Null)]), Err(Error::NoSuchTable(_))));
        assert_eq!(broken(insert(&[("price", numeric("-1"))])).0, "sound");
        let huge = insert(&[("price", numeric("99999999")), ("amount", i32::MAX.into())]);
        assert!(huge.is_ok(), "{huge:?}");
        // A number is given once, and the numbers are a sequence like others.
        let last = insert(&[("price", numeric("3"))]).expect("it is good");
        let sequence = database.sequence("order ids", isles::SequenceOptions::new()).expect("it is there");
        sequence.raise_to(1_000).expect("a reservation");
        let raised = insert(&[("price", numeric("3"))]).expect("it is good");
        assert!(matches!(&last[0], Datum::Signed(5..)), "{last:?}");
        assert_eq!(raised[0], Datum::Signed(1_000));
        drop(sequence);
        assert!(matches!(database.drop_sequence("order ids"), Err(Error::Misuse(_))));
        database
            .transaction(|t| {
                let key = [Datum::Signed(1)];
                let mut row = t.get_dynamic("orders", &key)?.expect("it is there");
                (row[0], row[1]) = (Datum::Signed(-1), Datum::Signed(10));
                assert!(t.update_dynamic("orders", &key, &row)? && !t.update_dynamic("orders", &key, &row)?);
                let moved = t.get_dynamic("orders", &[Datum::Signed(-1)])?.expect("it is there");
                assert_eq!(moved[3], numeric("25"));
                assert!(
                    t.delete_dynamic("orders", &moved[..1])? && !t.delete_dynamic("orders", &moved[..1])?
                );
                Ok(())
            })
            .expect("no conflict");
        database.close().expect("nobody else uses it");
    };
    SCHEMES.into_iter().for_each(|scheme| test(Database::in_memory().scheme(scheme)));
    test(Directory::new("made").in_pages());
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Numbered {
    id: u64,
    twice: u64,
}

#[test]
fn typed_rows_are_returned_as_they_were_inserted() {
    for scheme in SCHEMES {
        let mut builder = Database::in_memory().scheme(scheme);
        let made = Constraints::new().identity("id", "ids").generated("twice", column("id") * 2);
        let table = builder.table_with("numbered", TableOptions::new().constraints(made));
        let plain = builder.table::<Numbered>("plain");
        let database = builder.open().expect("a database");
        let row = Numbered { id: 9, twice: 0 };
        for id in 1..3 {
            let inserted = database.transaction(|t| t.insert_returning(table, &row));
            assert_eq!(inserted, Ok(Numbered { id, twice: 2 * id }));
        }
        assert_eq!(database.transaction(|t| t.insert_returning(plain, &row)), Ok(row.clone()));
        // A program can give a number of its own.
        database.transaction(|t| t.insert(table, &row)).expect("it is free");
        assert_eq!(database.transaction(|t| t.get_field(table, &9, Numbered::TWICE)), Ok(Some(18)));
    }
}

/// Inserts parents 1 to 3, and children 11, 12 of parent 1 and 21 of parent 2.
fn family(opened: &Opened) {
    let insert = |t: &mut isles::Transaction<'_>| {
        (1..4).try_for_each(|id| t.insert(opened.parents, &parent(id)))?;
        [(11, 1), (12, 1), (21, 2)]
            .into_iter()
            .try_for_each(|(id, parent)| t.insert(opened.children, &child(id, parent)))
    };
    opened.database.transaction(insert).expect("a family");
}

fn parents_of_children(opened: &Opened) -> Vec<(u32, Option<u32>)> {
    let fields = (Child::ID, Child::PARENT);
    let read = opened.database.transaction(|t| t.scan(opened.children, ..).fields(fields).collect());
    read.expect("a read")
}

#[test]
fn references_restrict_deletions_and_changes() {
    let constraints = Constraints::new().foreign_key(of_parent());
    on_each_engine("restricts", &constraints, |opened| {
        family(opened);
        let Opened { database, parents, children, .. } = opened;
        let broken = |outcome: Result<()>| {
            assert_eq!(broken(outcome), ("parent_there".to_owned(), ConstraintKind::ForeignKey))
        };
        broken(database.transaction(|t| t.insert(*children, &child(31, 9))));
        broken(database.transaction(|t| t.update(*children, &11, |row| row.parent = Some(9)).map(drop)));
        broken(database.transaction(|t| t.upsert(*children, &child(11, 9)).map(drop)));
        broken(database.transaction(|t| t.delete(*parents, &1).map(drop)));
        broken(database.transaction(|t| t.update(*parents, &1, |row| row.id = 8).map(drop)));
        broken(database.transaction(|t| t.scan(*parents, ..).delete().map(drop)));
        database
            .transaction(|t| {
                // No reference, another one, and changes of other columns.
                t.insert(*children, &child(32, None))?;
                t.update(*children, &21, |row| row.parent = Some(3))?;
                t.delete(*parents, &2)?;
                t.update(*parents, &1, |row| (row.code, row.name) = (None, String::new()))?;
                t.update(*children, &11, |row| row.low = -9)?;
                // Both within one transaction, in either order.
                t.insert(*parents, &parent(5))?;
                t.insert(*children, &child(51, 5))?;
                t.delete(*children, &51)?;
                t.delete(*parents, &5).map(drop)
            })
            .expect("all of this is allowed");
        let expected = vec![(11, Some(1)), (12, Some(1)), (21, Some(3)), (32, None)];
        assert_eq!(parents_of_children(opened), expected);
    });
}

#[test]
fn references_follow_deletions_and_changes() {
    let follows = of_parent().on_delete(ForeignAction::Cascade).on_update(ForeignAction::Cascade);
    let forgets = ForeignKey::new("code_there", ["code"], "parents", ["code"])
        .on_delete(ForeignAction::SetNull)
        .on_update(ForeignAction::SetNull);
    let constraints = rules().foreign_key(follows).foreign_key(forgets);
    on_each_engine("follows", &constraints, |opened| {
        family(opened);
        let Opened { database, parents, children, .. } = opened;
        let coded = |id, code| Child { code: Some(code), ..child(id, 3) };
        database
            .transaction(|t| {
                t.insert(*children, &coded(31, 102))?;
                t.insert(*children, &coded(32, 103))?;
                t.update(*parents, &1, |row| row.id = 10)?;
                t.delete(*parents, &2)?;
                t.update(*parents, &3, |row| row.code = Some(7)).map(drop)
            })
            .expect("rows follow");
        let expected = vec![(11, Some(10)), (12, Some(10)), (31, Some(3)), (32, Some(3))];
        assert_eq!(parents_of_children(opened), expected);
        let codes = database.transaction(|t| t.scan(*children, ..).fields(Child::CODE).collect());
        assert_eq!(codes, Ok(vec![None; 4]));
        let by_parent = children.by(Child::BY_PARENT);
        assert_eq!(database.transaction(|t| t.scan(by_parent, prefix(Some(10))).count()), Ok(2));
        // Rows that follow keep their own rules: here the action itself would break one.
        let missing = database.transaction(|t| t.insert(*children, &coded(33, 555)));
        assert_eq!(broken(missing).0, "code_there");
        assert_eq!(database.transaction(|t| t.scan(*parents, ..).delete()), Ok(2));
        assert_eq!(parents_of_children(opened), vec![]);
    });
}

#[test]
fn deferred_references_are_checked_at_the_commit() {
    let constraints = Constraints::new().foreign_key(of_parent().deferred());
    on_each_engine("deferred", &constraints, |opened| {
        family(opened);
        let Opened { database, parents, children, .. } = opened;
        database
            .transaction(|t| {
                t.insert(*children, &child(91, 9))?;
                t.delete(*parents, &1)?;
                t.insert(*parents, &parent(9))?;
                t.insert(*parents, &Parent { name: "again".into(), ..parent(1) })
            })
            .expect("it is whole at the end");
        let name = || ("parent_there".to_owned(), ConstraintKind::ForeignKey);
        assert_eq!(broken(database.transaction(|t| t.insert(*children, &child(81, 8)))), name());
        assert_eq!(broken(database.transaction(|t| t.delete(*parents, &1))), name());
        let mut open = database.begin().expect("a session");
        open.insert(*children, &child(81, 8)).expect("it is not checked yet");
        assert_eq!(broken(open.commit()), name());
        // What a savepoint takes back does not count.
        database
            .transaction(|t| {
                let undone =
                    t.nested(|t| t.insert(*children, &child(81, 8)).and(Err::<(), _>(Error::RollBack)));
                assert_eq!(undone, Err(Error::RollBack));
                t.insert(*children, &child(82, None))
            })
            .expect("nothing refers to nothing");
        let mut session = database.session().expect("a session");
        let ticket = session.transaction_async(|t| t.insert(*children, &child(83, 8))).map(drop);
        assert_eq!(broken(ticket), name());
    });
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_boss(boss)))]
struct Worker {
    id: u32,
    boss: Option<u32>,
}

#[test]
fn rows_refer_to_rows_of_their_own_table() {
    for scheme in SCHEMES {
        let mut builder = Database::in_memory().scheme(scheme);
        let boss = ForeignKey::new("boss_there", ["boss"], "workers", ["id"]);
        let options = |key: ForeignKey| TableOptions::new().constraints(Constraints::new().foreign_key(key));
        let workers = builder.table_with("workers", options(boss.clone().on_delete(ForeignAction::Cascade)));
        let database = builder.open().expect("a database");
        let insert = |t: &mut isles::Transaction<'_>, id, boss| t.insert(workers, &Worker { id, boss });
        database
            .transaction(|t| {
                insert(t, 1, Some(1))?;
                (2..3_000).try_for_each(|id| insert(t, id, Some(id - 1)))
            })
            .expect("a long chain");
        assert_eq!(broken(database.transaction(|t| insert(t, 9_000, Some(9_001)))).0, "boss_there");
        // A circle, and a chain as long as the table.
        database.transaction(|t| t.update(workers, &1, |row| row.boss = Some(2_999))).expect("a circle");
        let left = database.transaction(|t| {
            t.delete(workers, &1_500)?;
            t.scan(workers, ..).count()
        });
        assert_eq!(left, Ok(0));
        // Rows that a deletion of others takes along do not stop a scan.
        database
            .transaction(|t| {
                insert(t, 1, None)?;
                insert(t, 2, Some(1))?;
                t.scan(workers, ..).delete()
            })
            .expect("both are deleted");
    }
}

#[test]
fn constraints_that_tables_cannot_keep_are_refused() {
    let open = |constraints: Constraints| {
        let mut builder = Database::in_memory();
        declare(&mut builder, constraints);
        builder.open().map(drop)
    };
    let key = |columns: &[&str], table: &str, references: &[&str]| {
        let [columns, references] = [columns, references].map(<[&str]>::to_vec);
        Constraints::new().foreign_key(ForeignKey::new("k", columns, table, references))
    };
    let check = |condition| Constraints::new().check("c", condition);
    let refused = |constraints, reason: &str| match open(constraints) {
        Err(Error::Declaration { table, reason: found }) => {
            assert!(table == "children" && found.contains(reason), "{table}: {found}");
        }
        other => panic!("{reason}: {other:?}"),
    };
    refused(check(column("lower").more(1)), "no column \"lower\"");
    refused(check(column("low") + 1), "is no condition");
    refused(check(column("low").equals("x")), "do not compare");
    refused(check(column("low").more(1)).check("c", column("low").less(9)), "has this name");
    refused(Constraints::new().not_null("n", "x"), "no column \"x\"");
    refused(Constraints::new().generated("label", column("low")), "is no string");
    refused(Constraints::new().generated("id", column("low")), "primary key");
    refused(rules().generated("low", column("width")), "which is generated too");
    refused(rules().default_value("width", 1), "in two ways");
    refused(Constraints::new().default_value("low", "x"), "is no i32");
    refused(Constraints::new().identity("label", "s"), "integers");
    refused(key(&["parent"], "nobody", &["id"]), "no table \"nobody\"");
    refused(key(&["parent"], "parents", &["name"]), "neither the primary key nor a unique index");
    refused(key(&["low"], "parents", &["id"]), "no index begins with");
    refused(key(&["parent"], "parents", &["code"]), "column \"parent\" is u32");
    refused(key(&["parent", "id"], "parents", &["id"]), "as many columns");
    let set_null = ForeignKey::new("k", ["id"], "parents", ["id"]).on_delete(ForeignAction::SetNull);
    refused(Constraints::new().foreign_key(set_null), "cannot become null");
    assert_eq!(open(key(&["id"], "parents", &["id"])), Ok(()), "the primary key can refer");
}

#[test]
fn an_opening_with_other_constraints_is_refused_by_name() {
    for pages in [false, true] {
        let directory = Directory::new(if pages { "other-pages" } else { "other-memory" });
        let builder = || match pages {
            true => directory.in_pages(),
            false => Database::at(&directory.0),
        };
        let open = |constraints: Constraints| {
            let mut builder = builder();
            declare(&mut builder, constraints);
            builder.open()
        };
        let own = rules().foreign_key(of_parent().on_delete(ForeignAction::SetNull));
        let database = open(own.clone()).expect("a database");
        drop(database);
        for other in [Constraints::new(), rules(), own.clone().check("more", column("low").more(0))] {
            match open(other) {
                Err(Error::Open { reason: OpenReason::OtherTables, source }) => {
                    assert!(source.to_string().contains("constraint"), "{source}");
                }
                other => panic!("{other:?}"),
            }
        }
        let database = open(own.clone()).expect("the same");
        assert_eq!(database.tables()[1].constraints(), &own);
        let columns = [("id", Datum::Unsigned(1)), ("low", 5.into()), ("high", 1.into())];
        let refused = database.transaction(|t| t.insert_columns("children", &columns));
        assert_eq!(broken(refused).0, "ordered");
        if !pages {
            let copy = directory.0.join("../isles-checks-copy-of-constraints");
            let _ = std::fs::remove_dir_all(&copy);
            database.backup(&copy).expect("a copy");
            let mut builder = Database::at(&copy);
            builder.tables_of_directory().expect("its tables");
            let copied = builder.open().expect("the copy");
            let refused = copied.transaction(|t| t.insert_columns("children", &columns));
            assert_eq!(broken(refused).0, "ordered");
            drop(copied);
            let _ = std::fs::remove_dir_all(&copy);
        }
    }
}
