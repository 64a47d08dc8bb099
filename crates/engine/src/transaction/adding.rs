//! Further tables of an open database.

use boundary::directory::description::{Description, DirectoryTable, NOT_COUNTED};
use boundary::{ChangeError, Declared};
use concurrency::{Scheme, WorkerContext};
use platform::Platform;
use storage::Optimisation;
use storage::index::Shape;

use crate::durable::Durable;
use crate::durable::codec::TableCodec;
use crate::tables::table_list::{TableList, Turn};

/// The description in the directory, to be changed.
pub(super) fn description_to_change<P: Platform>(
    c: P::Core,
    turn: &Turn<'_, P>,
    durable: &Durable<P>,
) -> Description {
    turn.description_to_change(|| durable.checkpoints.copied(c), |table| durable.codecs.seen()[table].id)
}

/// Makes a table and takes its place for it. `written`: what the directory is to say of its end;
/// `None` if the caller writes that, before the first record that names the table.
pub(crate) fn add_table<P: Platform, S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    tables: &TableList<P>,
    durable: Option<&Durable<P>>,
    turn: &Turn<'_, P>,
    declared: Declared,
    written: Option<Option<u64>>,
) -> Result<usize, ChangeError> {
    let mut codec = TableCodec::declared(&declared);
    let Declared { description, mut shape, .. } = declared;
    let c = session.core();
    let optimisations = session.instance().optimisations();
    if !optimisations.has(Optimisation::CompiledRows) {
        return Err(ChangeError::NoRoom);
    }
    if !optimisations.has(Optimisation::HashIndex) {
        for index in &mut shape.indexes {
            index.partitions.iter_mut().for_each(|(shape, _)| *shape = Shape::Tree(index.words));
        }
    }
    if let Some(stopped) = durable.and_then(|durable| durable.journal.stopped(c)) {
        return Err(stopped.into());
    }
    let made = session.add_table(&shape, |_| {
        if let Some(durable) = durable {
            let mut next = description_to_change(c, turn, durable);
            codec.id = next.new_id()?;
            // An id is given out once, whatever becomes of the table.
            let mut known = turn.description();
            known.next_id = next.next_id;
            turn.describe(known);
            let (id, table) = (codec.id, description.clone());
            let dropped = written.unwrap_or(Some(NOT_COUNTED));
            next.tables.push(DirectoryTable { id, dropped, continued_by: None, table });
            if written.is_some() {
                durable.journal.describe(c, next.encode())?;
            }
            turn.describe(next);
            let pushed = durable.codecs.push(c, codec);
            assert!(pushed.is_ok(), "there is as much room for codecs as for tables");
        }
        Ok::<_, ChangeError>(())
    });
    let number = made?.ok_or(ChangeError::NoRoom)?;
    // A session that sees the description can use the table.
    tables.push(c, description);
    Ok(number)
}
