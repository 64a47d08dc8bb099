//! How a durable database is opened and closed.

use std::path::Path;

use boundary::directory::description::Description;
use boundary::directory::undecided::Undecided as UndecidedTables;
use boundary::{
    Decision, DurableOptions, OpenError, PartOf, Progress, Recovered, SchemaBuilder, SchemaError, Stage,
};
use concurrency::{InstanceOptions, Scheme};
use platform::files::Files;
use platform::{Node, Place, Platform};
use redo_log::{LogError, OpenedDirectory};
use storage::Places;
use terms::Epoch;

use super::adoption::adopt;
use super::replay::{ProgressListener, Recovery, Repeated, Replayed};
use crate::database::MemoryDatabase;
use crate::durable::Durable;
use crate::durable::checkpoint::Checkpoints;
use crate::durable::codec::TableCodec;
use crate::durable::global::is_decision;
use crate::durable::tables::Tables;
use crate::participants::undecided::Undecided;
use crate::transaction::altering::is_of_tables;

/// The state that the files describe.
struct Found {
    repeated: Repeated,
    /// Parts in doubt, with their changes.
    in_doubt: Vec<(PartOf, Vec<u8>)>,
    decisions: Vec<Decision>,
}

/// Brings the tables of a directory together with those declared.
fn tables_of<P: Files>(opened: &OpenedDirectory<P>, schema: &SchemaBuilder) -> Result<Tables, SchemaError> {
    let found = match opened.existed {
        true => Description::decode(decided_description(opened))?,
        false => Description::default(),
    };
    let declared =
        schema.tables.iter().map(|table| (table.description.clone(), TableCodec::declared(table))).collect();
    Tables::new(found, declared, &schema.dropped, opened.log.copied_epoch(), opened.first_epoch)
}

/// The description that counts, if a transaction that changed tables was under way when the
/// database was open last.
fn decided_description<P: Files>(opened: &OpenedDirectory<P>) -> &[u8] {
    let Some(undecided) = UndecidedTables::decode(opened.extra()) else { return opened.extra() };
    let blocks = opened.log.blocks();
    let mut records = blocks.iter().flat_map(|block| block.records());
    let decides = |record: redo_log::Record<'_>| is_decision(record.body, undecided.transaction);
    if records.any(decides) { undecided.after } else { undecided.before }
}

/// Opens the directory, and reads the log in it.
fn read_log<P: Files>(
    c: P::Core,
    path: &Path,
    places: &[Place],
    listener: &mut ProgressListener<'_>,
) -> Result<OpenedDirectory<P>, LogError> {
    let Some(listen) = listener else { return redo_log::open::<P>(c, path, places, None) };
    let mut listener = |done, total| listen(Progress { stage: Stage::Reading, done, total });
    redo_log::open::<P>(c, path, places, Some(&mut listener))
}

impl<P: Platform, S: Scheme<P>> MemoryDatabase<P, S> {
    /// Opens a durable database: makes the declared tables, fills them with what the directory's
    /// log says, and from then on keeps that log.
    ///
    /// Tables of the directory are known by their names. They may be declared in any order, others
    /// may be declared, and indexes come and go as declared: they are made of the rows at every
    /// opening. The directory changes as a whole when this returns, or not at all.
    ///
    /// # Errors
    /// See [`OpenError`] and [`SchemaError`]; the directory is left as it was.
    pub fn open(
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        node_of: &dyn Fn(usize) -> Option<Node>,
        durable: &DurableOptions,
    ) -> Result<(Self, Recovered), OpenError>
    where
        P: Files,
    {
        Self::open_with_progress(c, options, schema, node_of, durable, None)
    }

    /// As [`Self::open`]; the listener is called some times a second, in the caller's thread, with
    /// the progress of the opening.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_progress(
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        node_of: &dyn Fn(usize) -> Option<Node>,
        durable: &DurableOptions,
        mut listener: Option<&mut dyn FnMut(Progress)>,
    ) -> Result<(Self, Recovered), OpenError>
    where
        P: Files,
    {
        let began = P::now(c);
        let places = &durable.places[..durable.places.len().min(options.sessions_max).max(1)];
        let opened = read_log::<P>(c, &durable.path, places, &mut listener)?;
        let tables = tables_of(&opened, &schema)?;
        let mut database = Self::create(c, options, schema, node_of)?;
        // The recovered rows get stamps of this generation, so that transactions which change the
        // rows later have larger stamps.
        database.instance.begin_at(c, Epoch(opened.first_epoch));
        let (found, checkpoint_bytes) = database.recover(c, places, &opened, &tables, listener)?;
        let Found { repeated, in_doubt, decisions } = found;
        // Snapshots show all recovered rows from the beginning.
        database.instance.settle(c);
        // The directory is going to say what those have decided.
        let decisions = decisions.into_iter().filter(|decision| !is_of_tables(decision.global)).collect();
        database.undecided = Some(Undecided::new(c, decisions, options.faults)?);
        adopt(c, &database, &tables.codecs, &in_doubt)?;
        let mut recovered = Recovered {
            existed: opened.existed,
            rows: repeated.rows,
            checkpoint_bytes,
            records: repeated.records,
            changes: repeated.changes,
            log_bytes: opened.log.log_bytes(),
            nanos: 0,
            last_epoch: opened.log.last_epoch,
            in_doubt: in_doubt.len() as u64,
            opening: opened.opening(),
        };
        // The manifest knows the ids before the first record with a new one is written.
        let description = tables.description.encode();
        let log = opened.begin(c, description, &durable.log, options.sessions_max + 1)?;
        let checkpoints = Checkpoints::new(c, durable.checkpoint_bytes, checkpoint_bytes)?;
        let codecs = Places::new(c, "tables", tables.codecs.into_declared(), options.spare_tables)?;
        if let Some(changes) = database.tables.changes() {
            changes.set_description(c, tables.description);
        }
        database.durable = Some(Durable { journal: Box::new(log), checkpoints, codecs });
        if in_doubt.is_empty() {
            database.make_cheap_checkpoint(c);
        }
        recovered.nanos = P::now(c).since(began);
        Ok((database, recovered))
    }

    /// Makes a checkpoint if that costs less than to read the log once more at the next opening.
    /// One that fails leaves the log as it is.
    fn make_cheap_checkpoint(&self, c: P::Core) {
        let Some(durable) = &self.durable else { return };
        let (file_bytes, rows_bytes) = (durable.journal.file_bytes(c), self.memory_use(c).used);
        if durable.checkpoints.is_cheap(c, file_bytes, rows_bytes)
            && let Ok(mut session) = self.session(c, None, false)
        {
            session.end_checkpoints();
        }
    }

    /// Fills the tables; gives what they were filled with, and how many bytes the checkpoint had.
    fn recover(
        &self,
        c: P::Core,
        places: &[Place],
        opened: &OpenedDirectory<P>,
        tables: &Tables,
        listener: ProgressListener<'_>,
    ) -> Result<(Found, u64), OpenError>
    where
        P: Files,
    {
        let blocks = opened.log.blocks();
        let codecs = &tables.codecs;
        let recovery = Recovery { database: self, codecs, places, blocks: &blocks, hash_mask: u32::MAX };
        let checkpoint = opened.checkpoint(c)?;
        let replayed = recovery.run(c, checkpoint.as_ref(), listener).map_err(|error| match error {
            OpenError::Schema(SchemaError::NotUnique { table, index })
                if tables.was_unique(&table, &index) =>
            {
                OpenError::Contradiction(format!("two rows of {table} have the same key in {index}"))
            }
            error => error,
        })?;
        let Replayed { repeated, in_doubt, decisions } = replayed;
        let in_doubt = in_doubt.into_iter().map(|(part, changes)| (part, changes.to_vec())).collect();
        let found = Found { repeated, in_doubt, decisions };
        Ok((found, checkpoint.map_or(0, |checkpoint| checkpoint.bytes())))
    }

    /// Ends the log, if there is one: everything is durable then, and later damage to the files is
    /// noticed. A checkpoint that is due or under way is made first, so that the logs of short runs
    /// do not add up. A checkpoint that fails leaves the log as it is.
    ///
    /// # Errors
    /// The log has stopped: what is durable is what was acknowledged.
    pub fn close(mut self, c: P::Core) -> Result<(), LogError> {
        if let Ok(mut session) = self.session(c, None, false) {
            session.end_checkpoints();
        }
        match self.durable.take() {
            Some(Durable { journal, checkpoints, .. }) => {
                checkpoints.abandon(c, &*journal);
                journal.close(c, self.instance.epochs())
            }
            None => Ok(()),
        }
    }
}
