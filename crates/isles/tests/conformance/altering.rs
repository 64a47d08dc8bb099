//! Changes of tables within a transaction: every verb, with its result on each engine.

use isles::{
    ColumnDescription, Datum, Error, Result, Row, Session, TableBuilder, TableDescription, ValueType,
};

use crate::calls::call;
use crate::engines::Engine;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Typed {
    id: u32,
    text: String,
}

fn described(name: &str, column: &str) -> TableDescription {
    let table = TableBuilder::new(name).column(ColumnDescription::new("id", ValueType::Signed(8)));
    let table = table.column(ColumnDescription::new(column, ValueType::Signed(8)).nullable());
    table.key(["id"]).build().expect("a table")
}

fn row(id: i64) -> [Datum; 2] {
    [Datum::Signed(id), Datum::Null]
}

/// Calls the verbs in a session of an engine.
pub fn call_all(session: &mut Session, engine: Engine) {
    if !matches!(engine, Engine::Memory(_)) {
        return call_where_refused(session);
    }
    let changed = session.transaction(|t| {
        call!(t.create_described_table(described("made", "n")))?;
        t.insert_dynamic("made", &row(1))?;
        let typed = call!(t.create_table::<Typed>("typed"))?;
        t.insert(typed, &Typed { id: 1, text: "one".to_owned() })?;
        call!(t.rename_table("made", "named"))?;
        call!(t.rename_column("named", "n", "m"))?;
        call!(t.change_described_table(described("named", "m")))?;
        call!(t.truncate_table("typed"))?;
        assert_eq!((t.scan_dynamic("typed")?.len(), t.scan_dynamic("named")?.len()), (0, 1));
        assert!(matches!(t.get(typed, &1), Err(Error::NoSuchTable(_))));
        assert_eq!(call!(t.tables()).iter().filter(|table| table.name() == "named").count(), 1);
        call!(t.drop_table("typed"))
    });
    assert_eq!(changed, Ok(()), "{}", engine.name());
    let rows = session.transaction(|t| t.scan_dynamic("named"));
    assert_eq!(rows, Ok(vec![row(1).to_vec()]));
    let gone = session.transaction(|t| t.scan_dynamic("typed"));
    assert!(matches!(gone, Err(Error::NoSuchTable(_))), "{gone:?}");
    session.transaction(|t| t.drop_table("named")).expect("nobody uses it");
}

/// An engine that does not change tables within transactions says so, and the transaction goes on.
fn call_where_refused(session: &mut Session) {
    let went_on = session.transaction(|t| {
        drop(call!(t.tables()));
        let made = call!(t.create_table::<Typed>("typed")).map(drop);
        let all: [Result<()>; 7] = [
            made,
            call!(t.create_described_table(described("made", "n"))),
            call!(t.drop_table("made")),
            call!(t.truncate_table("made")),
            call!(t.rename_table("made", "named")),
            call!(t.rename_column("made", "n", "m")),
            call!(t.change_described_table(described("made", "m"))),
        ];
        let refused = |result: &Result<()>| matches!(result, Err(Error::Misuse(_)));
        assert!(all.iter().all(refused), "{all:?}");
        Ok(())
    });
    assert_eq!(went_on, Ok(()));
}
