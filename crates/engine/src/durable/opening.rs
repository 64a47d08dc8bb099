//! How a durable database begins and ends.

use cc::{InstanceOptions, Scheme};
use platform::files::Files;
use platform::{Node, Platform};
use storage::Epoch;
use storage::log::{LogError, Opened};

use super::checkpoint::Checkpoints;
use super::codec::{Codecs, Encoder};
use super::description::Description;
use super::replay::{Recovery, Repeated};
use super::tables::{SchemaError, Tables};
use super::{Durable, DurableOptions, OpenError, Recovered};
use crate::database::Database;
use crate::declaration::SchemaBuilder;
use crate::key::KEY_WORDS_MAX;

/// Brings the tables of a directory together with those declared.
fn tables_of<P: Files>(opened: &Opened<P>, schema: &SchemaBuilder) -> Result<Tables, SchemaError> {
    let found = match opened.existed {
        true => Description::decode(opened.extra())?,
        false => Description::default(),
    };
    let declared = schema.tables.iter().map(|table| table.durable.clone()).collect();
    Tables::new(found, declared, &schema.dropped, (opened.contents.copied_epoch(), opened.first_epoch))
}

impl<P: Platform, S: Scheme<P>> Database<P, S> {
    /// Opens a durable database: makes the declared tables, fills them with what the directory's log says, and from then on
    /// keeps that log.
    ///
    /// Tables of the directory are known by their names. They may be declared in any order, others may be declared, and
    /// indexes come and go as declared: they are made of the rows at every opening. Whatever changes, changes at once when this
    /// returns, or not at all.
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
        let mut opened = storage::log::open::<P>(c, &durable.path)?;
        let tables = tables_of(&opened, &schema)?;
        let mut database = Self::create(c, options, schema, node_of)?;
        // The copies get stamps of this generation: whoever changes them later has larger ones.
        database.instance.begin_at(c, Epoch(opened.first_epoch));
        let repeated = database.recover(c, options, &opened, &tables, durable)?;
        // Snapshots show all of it from the beginning.
        database.instance.settle(c);
        let contents = &opened.contents;
        let mut last_bytes = contents.checkpoint_bytes();
        let checkpointed =
            repeated.records > 0 && contents.log_bytes() >= durable.checkpoint_bytes.max(last_bytes);
        if checkpointed {
            let mut part = opened.begin_checkpoint(c)?;
            database.copy_rows(c, &tables.codecs, &mut |body| part.push(c, body))?;
            last_bytes = part.written_bytes();
            part.finish(c)?;
            opened.checkpointed();
        }
        let recovered = Recovered {
            existed: opened.existed,
            rows: repeated.rows,
            records: repeated.records,
            checkpointed,
            last_epoch: opened.contents.last_epoch,
        };
        // The manifest knows the ids before the first record with a new one is written.
        let description = tables.description.encode();
        let log = opened.begin(c, description, &durable.log, options.sessions_max + 1)?;
        let checkpoints = Checkpoints::new(c, durable.checkpoint_bytes, last_bytes)?;
        database.durable = Some(Durable { journal: Box::new(log), checkpoints, codecs: tables.codecs });
        Ok((database, recovered))
    }

    /// Fills the tables.
    fn recover(
        &self,
        c: P::Core,
        options: &InstanceOptions,
        opened: &Opened<P>,
        tables: &Tables,
        durable: &DurableOptions,
    ) -> Result<Repeated, OpenError>
    where
        P: Files,
    {
        let most = durable.places.len().min(options.sessions_max).max(1);
        let recovery = Recovery { database: self, codecs: &tables.codecs, places: &durable.places[..most] };
        let contents = &opened.contents;
        let repeated = recovery.run(c, &contents.checkpoint_blocks(), &contents.record_blocks());
        repeated.map_err(|error| match error {
            OpenError::Schema(SchemaError::NotUnique { table, index })
                if tables.was_unique(&table, &index) =>
            {
                OpenError::Contradiction(format!("two rows of {table} have the same key in {index}"))
            }
            error => error,
        })
    }

    /// Hands every row to `push`, as the insertion that makes it. No transaction runs.
    fn copy_rows(
        &self,
        c: P::Core,
        codecs: &Codecs,
        push: &mut dyn FnMut(&[u8]) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let mut encoder = Encoder::new(codecs);
        let mut result = Ok(());
        let (low, high) = ([0; KEY_WORDS_MAX], [u64::MAX; KEY_WORDS_MAX]);
        for (number, codec) in codecs.iter().enumerate() {
            let (low, high) = (&low[..codec.key_words], &high[..codec.key_words]);
            self.instance.inspect(c, number, 0, (low, high), &mut |words, tail| {
                encoder.clear();
                encoder.insert(number, words[..codec.layout.row_bytes / 8].iter().copied(), tail);
                if result.is_ok() {
                    result = encoder.parts().try_for_each(&mut *push);
                }
            });
        }
        result
    }

    /// Ends the log, if there is one: everything is durable then, and later damage to the files is noticed.
    ///
    /// # Errors
    /// The log has stopped: what is durable is what was acknowledged.
    pub fn close(mut self, c: P::Core) -> Result<(), LogError> {
        match self.durable.take() {
            Some(Durable { journal, checkpoints, .. }) => {
                checkpoints.abandon(c, &*journal);
                journal.close(c, self.instance.epochs())
            }
            None => Ok(()),
        }
    }
}
