//! Changes of tables within a transaction, together with rows: all of it happens, or nothing.
//!
//! The first such verb gives the transaction the right to change tables, which no other transaction
//! has until this one ends. A table that was there before is used by this transaction alone then.
//! The tables that the transaction makes are those of the engine, which no other transaction knows;
//! a table that changes its form or its name is such a table too, with a copy of the rows.
//! So everything that can be taken back is rows (decision 0119).

use boundary::{ChangeError, Direction, SchemaBuilder};
use platform::Intent;
use schema::{Row, RowBytes, RowId, TableDescription, TableError, TableFault, key_words};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Conflict};

use crate::altered_tables::{Altered, Forms};
use crate::attempt::Transaction;
use crate::changing::of_change;
use crate::described::step;
use crate::error::{Error, Result};
use crate::plans::{Plans, TableForm, check_ordered};
use crate::table::{Table, TableOptions};
use crate::table_locks::Presence;

/// Rows that are copied at a time.
const ROWS_COPIED: usize = 256;

/// The way in which the rows of a table become those of another one.
#[derive(Clone, Copy, PartialEq)]
enum Copied {
    /// The bytes stay as they are.
    Plainly,
    /// Columns are found by their names, and constraints are checked.
    Converted,
}

impl Transaction<'_> {
    /// Creates a table in this transaction: it is there, with the rows that the transaction puts
    /// into it, when the transaction commits, and not at all if it does not. Until then no other
    /// transaction sees the table.
    ///
    /// A transaction that changes tables has tables that were there before, and that it changes,
    /// alone: it waits for transactions that began before, up to a minute, and not longer than
    /// [`TransactionOptions::lock_wait`](crate::TransactionOptions::lock_wait), and later ones
    /// that use such a table wait until it ends, or conflict. At most one transaction changes
    /// tables at a time; others that want to wait, or conflict. When the commit returns, it is
    /// durable if the database is, whatever [`Durability`](crate::Durability) says: a crash leaves
    /// all of the transaction or nothing.
    /// Savepoints take changes of tables back too.
    ///
    /// Errors: [`Error::Declaration`] for a name that is taken, a constraint that cannot be kept,
    /// or if no place is left ([`Builder::spare_tables`](crate::Builder::spare_tables));
    /// [`Error::NotChanged`] if earlier transactions do not end in time; [`Error::OutOfMemory`];
    /// [`Error::Misuse`] in a snapshot, in a deployment, and if rows lie in pages. The transaction
    /// continues after these errors.
    ///
    /// ```
    /// use isles::{ColumnDescription, Database, Datum, Error, TableBuilder, ValueType};
    ///
    /// let items = |name: &str| {
    ///     TableBuilder::new(name)
    ///         .column(ColumnDescription::new("id", ValueType::Signed(8)))
    ///         .column(ColumnDescription::new("price", ValueType::Signed(8)).nullable())
    ///         .key(["id"])
    /// };
    /// let database = Database::in_memory().open()?;
    /// database.transaction(|t| {
    ///     t.create_described_table(items("items").build()?)?;
    ///     (1..=3).try_for_each(|id| t.insert_dynamic("items", &[id, 10 * id].map(Datum::Signed)))
    /// })?;
    /// // Another form of the table, another name, and rows, together.
    /// database.transaction(|t| {
    ///     t.change_described_table(items("items").index("by_price", ["price"]).build()?)?;
    ///     t.rename_column("items", "price", "cents")?;
    ///     t.rename_table("items", "goods")?;
    ///     t.delete_dynamic("goods", &[Datum::Signed(1)]).map(drop)
    /// })?;
    /// // What is rolled back leaves nothing.
    /// let failed = database.transaction(|t| {
    ///     t.truncate_table("goods")?;
    ///     assert_eq!(t.scan_dynamic("goods")?.len(), 0);
    ///     t.drop_table("goods")?;
    ///     Err::<(), _>(Error::RollBack)
    /// });
    /// assert_eq!(failed, Err(Error::RollBack));
    /// assert_eq!(database.transaction(|t| t.scan_dynamic("goods"))?.len(), 2);
    /// assert_eq!(database.tables()[0].columns()[1].name, "cents");
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn create_described_table(&mut self, table: TableDescription) -> Result<()> {
        let mut schema = SchemaBuilder::new();
        schema.declare(table, &schema::TableOptions::default())?;
        self.make_named(schema).map(drop)
    }

    /// As [`Self::create_described_table`], for rows of a type.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Visit { id: u64, page: u32 }
    ///
    /// let database = Database::in_memory().open()?;
    /// let visits = database.transaction(|t| {
    ///     let visits = t.create_table::<Visit>("visits")?;
    ///     t.insert(visits, &Visit { id: 1, page: 7 })?;
    ///     Ok(visits)
    /// })?;
    /// assert_eq!(database.transaction(|t| t.get(visits, &1))?, Some(Visit { id: 1, page: 7 }));
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn create_table<R: Row>(&mut self, name: &str) -> Result<Table<R>> {
        let (mut schema, options) = (SchemaBuilder::new(), TableOptions::<R>::new().into_engine());
        schema.declare_rows::<R>(name, &options)?;
        schema.descriptions().try_for_each(|table| check_ordered(table, &options.kinds))?;
        let number = self.make_named(schema)?;
        Ok(Table { inner: schema::Table::new(number), database: self.shared.id })
    }

    /// Drops a table in this transaction, as [`Self::create_described_table`] creates one.
    ///
    /// Errors: [`Error::NoSuchTable`]; [`Error::NotChanged`] if rows of another table refer to its
    /// rows, or if earlier transactions do not end in time; [`Error::Misuse`] as there.
    ///
    /// [`Self::create_described_table`] has an example.
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        let number = self.begin_to_alter(name)?;
        self.check_not_referred_to(number, name)?;
        self.hold(&[number])?;
        let before = self.altered().forms();
        self.replace_table(number, None);
        self.replan().inspect_err(|_| self.return_to_forms(before))
    }

    /// Deletes all rows of a table in this transaction, whatever their number, by putting an empty
    /// table in its place. A [`Table`] handle is one of the old table: [`crate::Database::table`]
    /// gives one of the new table after the commit.
    ///
    /// Errors: as [`Self::drop_table`]; [`Error::Declaration`] if no place is left.
    ///
    /// [`Self::create_described_table`] has an example.
    pub fn truncate_table(&mut self, name: &str) -> Result<()> {
        let number = self.begin_to_alter(name)?;
        self.check_not_referred_to(number, name)?;
        self.hold(&[number])?;
        let table = self.shared.tables()[number].clone();
        let before = self.altered().forms();
        let made = self.make_described(table)?;
        self.replace_table(number, Some(made));
        self.replan().inspect_err(|_| self.return_to_forms(before))
    }

    /// Gives a table another name in this transaction; rows of other tables that refer to it go on
    /// doing so. The rows are copied.
    ///
    /// Errors: as [`Self::truncate_table`]; [`Error::Declaration`] if the name is taken or invalid.
    ///
    /// [`Self::create_described_table`] has an example.
    pub fn rename_table(&mut self, name: &str, to: &str) -> Result<()> {
        let number = self.begin_to_alter(name)?;
        self.check_free(to)?;
        let renamed = self.shared.tables()[number].renamed(to)?;
        self.replace_with_children(number, renamed, &|child| child.referring_to(name, to))
    }

    /// Gives a column of a table another name in this transaction, also in constraints. The rows
    /// are copied.
    ///
    /// Errors: as [`Self::truncate_table`]; [`Error::Declaration`] if there is no such column, or
    /// the name is taken or invalid.
    ///
    /// [`Self::create_described_table`] has an example.
    pub fn rename_column(&mut self, table: &str, from: &str, to: &str) -> Result<()> {
        let number = self.begin_to_alter(table)?;
        let renamed = self.shared.tables()[number].with_renamed_column(from, to)?;
        self.replace_with_children(number, renamed, &|child| child.referring_to_column(table, from, to))
    }

    /// Changes the table of the same name to this description in this transaction: columns,
    /// primary key, indexes and constraints. Columns are found by their names; new ones have their
    /// default, or no value, and others are converted as
    /// [`Database::change_table`](crate::Database::change_table) does. The rows are copied, and
    /// checked.
    ///
    /// Errors: as [`Self::truncate_table`]; [`Error::NotChanged`] if the rows cannot be converted;
    /// [`Error::Duplicate`], [`Error::Constraint`] and [`Error::Row`] for a row that the new
    /// description refuses: the attempt has failed then, unless it rolls back to a savepoint.
    ///
    /// [`Self::create_described_table`] has an example.
    pub fn change_described_table(&mut self, table: TableDescription) -> Result<()> {
        let name = table.name().to_owned();
        let number = self.begin_to_alter(&name)?;
        let before = &self.shared.tables()[number];
        if *before == table {
            return Ok(());
        }
        if let Some(obstacle) = before.row_obstacle(&table, false) {
            return Err(Error::not_changed(&name, obstacle));
        }
        let added = table.constraints().foreign_keys.iter();
        let added = added.filter(|key| !before.constraints().foreign_keys.contains(key));
        let added: Vec<_> = added.map(|key| key.name.clone()).collect();
        self.hold_related(number, &table)?;
        let forms = self.altered().forms();
        let made = self.make_described(table)?;
        self.replace_table(number, Some(made));
        self.replan().inspect_err(|_| self.return_to_forms(forms))?;
        self.copy_table(number, made, Copied::Converted)?;
        let mut after: Option<Vec<_>> = None;
        while !added.is_empty() {
            match self.check_referring_rows(&name, &added, after.as_deref())? {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        Ok(())
    }
}

/// The steps of a change of tables.
impl Transaction<'_> {
    fn altered(&mut self) -> &mut Altered {
        self.state.altered.get_or_insert_default()
    }

    /// Gives the transaction the right to change tables; the number of a table.
    fn begin_to_alter(&mut self, name: &str) -> Result<usize> {
        self.begin_altering()?;
        let found = self.number_of(name);
        found.ok_or_else(|| Error::NoSuchTable(format!("no table {name}")))
    }

    fn begin_altering(&mut self) -> Result<()> {
        self.check_running()?;
        if self.state.altered.is_some() {
            return Ok(());
        }
        let shared = self.shared;
        if shared.share.is_some() || shared.limits.spare_tables == 0 || self.state.only_reads {
            return Err(Error::Misuse(
                "no table changes in a snapshot, in a deployment, in a database without spare tables, or if rows lie in pages",
            ));
        }
        let turn = self.await_turn()?;
        if !turn.is_some_and(|turn| self.verbs.hold_tables(Box::new(turn))) {
            return self.check(Err(Abort::Conflict(Conflict::Locked)));
        }
        self.altered().plans = shared.plans.current_number();
        Ok(())
    }

    /// Has the tables alone, of these, that were there before the transaction.
    fn hold(&mut self, tables: &[usize]) -> Result<()> {
        let altered = self.altered();
        let is_new = |table: &&usize| !altered.made.contains(table) && !altered.held.contains(table);
        let mut new: Vec<usize> = tables.iter().filter(is_new).copied().collect();
        new.sort_unstable();
        new.dedup();
        if new.is_empty() {
            return Ok(());
        }
        let locks = &self.shared.locks;
        for table in &new {
            if self.shared.presences.get(*table) == Presence::Settling {
                self.check_settled(*table)?;
            }
        }
        if !new.iter().all(|table| locks.hold(*table)) {
            locks.let_go(&new);
            return self.check(Err(Abort::Conflict(Conflict::Locked)));
        }
        locks.set_waits(true);
        let have_ended = self.await_others();
        let locks = &self.shared.locks;
        locks.set_waits(false);
        if !matches!(have_ended, Ok(true)) {
            locks.let_go(&new);
            have_ended?;
            let name = self.shared.tables()[new[0]].name();
            return Err(of_change(ChangeError::Waits, name));
        }
        self.altered().held.extend(new);
        Ok(())
    }

    /// Has a table alone that gets this description, those to which its rows will refer, and those
    /// whose rows refer to it.
    fn hold_related(&mut self, number: usize, next: &TableDescription) -> Result<()> {
        let mut all = self.children_of(self.shared.tables()[number].name());
        all.push(number);
        all.extend(next.constraints().foreign_keys.iter().filter_map(|key| self.number_of(&key.table)));
        self.hold(&all)
    }

    /// Returns the tables whose rows refer to a table of this name.
    fn children_of(&self, name: &str) -> Vec<usize> {
        let Some(altered) = &self.state.altered else { return Vec::new() };
        let refers = |number: &usize| {
            let constraints = self.shared.tables()[*number].constraints();
            constraints.foreign_keys.iter().any(|key| key.table == name)
        };
        self.all_numbers(altered).filter(refers).collect()
    }

    fn check_not_referred_to(&self, number: usize, name: &str) -> Result<()> {
        let Some(other) = self.children_of(name).into_iter().find(|other| *other != number) else {
            return Ok(());
        };
        let other = self.shared.tables()[other].name();
        let why = format!("rows of table {other} refer to its rows: drop that constraint before");
        Err(Error::not_changed(name, why))
    }

    fn check_free(&self, name: &str) -> Result<()> {
        match self.number_of(name) {
            None => Ok(()),
            Some(_) => Err(TableError { table: name.to_owned(), fault: TableFault::DuplicateTable }.into()),
        }
    }

    /// Makes a table under a new name; its number.
    fn make_named(&mut self, schema: SchemaBuilder) -> Result<usize> {
        self.begin_altering()?;
        let Some(table) = schema.descriptions().next().cloned() else {
            return Err(Error::Misuse("a schema without a table"));
        };
        self.check_free(table.name())?;
        let parents: Vec<_> =
            table.constraints().foreign_keys.iter().filter_map(|key| self.number_of(&key.table)).collect();
        self.hold(&parents)?;
        let before = self.altered().forms();
        let made = self.make(schema)?;
        self.altered().made.push(made);
        self.replan().inspect_err(|_| self.return_to_forms(before))?;
        Ok(made)
    }

    fn make_described(&mut self, table: TableDescription) -> Result<usize> {
        let mut schema = SchemaBuilder::new();
        schema.declare(table, &schema::TableOptions::default())?;
        self.make(schema)
    }

    /// Makes a table; its number.
    fn make(&mut self, schema: SchemaBuilder) -> Result<usize> {
        let table = schema.descriptions().next();
        let name = table.map_or_else(String::new, |table| table.name().to_owned());
        if table.is_some_and(|table| !table.constraints().identities.is_empty())
            && self.number_of(crate::sequence::TABLE).is_none()
        {
            return Err(Error::NoSuchTable(
                "the database was opened without sequences: call `Builder::sequences` before `open`"
                    .to_owned(),
            ));
        }
        self.verbs.make_table(schema).map_err(|error| of_change(error, &name))
    }

    /// From now on the transaction uses another table in place of this one, or none.
    fn replace_table(&mut self, before: usize, after: Option<usize>) {
        let altered = self.altered();
        match altered.made.iter().position(|made| *made == before) {
            Some(place) => drop(altered.made.remove(place)),
            None => altered.gone.push(before),
        }
        altered.made.extend(after);
    }

    fn return_to_forms(&mut self, (made, gone, plans): Forms) {
        let altered = self.altered();
        (altered.made, altered.gone, altered.plans) = (made, gone, plans);
    }

    /// Makes the plans for the tables as they are now.
    fn replan(&mut self) -> Result<()> {
        let shared = self.shared;
        let Some(altered) = &self.state.altered else { return Ok(()) };
        let forms: Vec<_> = self
            .all_numbers(altered)
            .map(|number| TableForm::of((number, &shared.tables()[number])))
            .collect();
        let plans = Plans::of(&forms, shared.faults)?;
        self.altered().plans = plans.map_or(Ok(0), |plans| shared.plans.add(plans))?;
        Ok(())
    }

    /// Gives a table another description of the same rows, and the tables whose rows refer to it
    /// one that `follow` gives.
    fn replace_with_children(
        &mut self,
        number: usize,
        next: TableDescription,
        follow: &dyn Fn(&TableDescription) -> TableDescription,
    ) -> Result<()> {
        let mut children = self.children_of(self.shared.tables()[number].name());
        children.retain(|child| *child != number);
        self.hold_related(number, &next)?;
        let forms = self.altered().forms();
        let followed = children.into_iter().map(|child| (child, follow(&self.shared.tables()[child])));
        let all: Vec<_> = std::iter::once((number, next)).chain(followed).collect();
        let mut pairs = Vec::new();
        for (before, description) in all {
            let made = self.make_described(description);
            let made = made.inspect_err(|_| self.return_to_forms(forms.clone()))?;
            self.replace_table(before, Some(made));
            pairs.push((before, made));
        }
        self.replan().inspect_err(|_| self.return_to_forms(forms))?;
        pairs.into_iter().try_for_each(|(before, made)| self.copy_table(before, made, Copied::Plainly))
    }

    /// Copies the rows of a table into another one, which is empty.
    fn copy_table(&mut self, from: usize, to: usize, copied: Copied) -> Result<()> {
        let shared = self.shared;
        let source = &shared.tables()[from];
        let words = key_words(source.indexes()[0].key_bits);
        let mut low = vec![0; words];
        loop {
            let rows = self.rows_from(from, &low)?;
            let Some(last) = rows.last() else { return Ok(()) };
            let (fixed, tail) = self.read_image(source, *last)?;
            low.clear();
            source.key_of(0, &fixed, &tail).append_words(words, &mut low);
            let is_end = rows.len() < ROWS_COPIED || !step(&mut low);
            for row in rows {
                self.check_cancelled()?;
                let image = self.read_image(source, row)?;
                self.copy_row(source, to, image, copied)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Finds some rows of a table from this primary key on.
    fn rows_from(&mut self, table: usize, low: &[u64]) -> Result<Vec<RowId>> {
        let high = vec![u64::MAX; low.len()];
        let at = TableIndex { table, index: 0 };
        let range = KeyBounds { low, high: &high };
        self.find_rows(at, range, (Direction::Forward, Intent::Read), ROWS_COPIED)
    }

    fn copy_row(
        &mut self,
        from: &TableDescription,
        to: usize,
        (fixed, tail): (Vec<u8>, Vec<u8>),
        copied: Copied,
    ) -> Result<()> {
        let target = &self.shared.tables()[to];
        let mut row = RowBytes { fixed, tail, keys: Vec::new() };
        if copied == Copied::Converted {
            let converted = from.convert(target, &row.fixed, &row.tail, None);
            let converted = converted.map_err(|error| self.fail(Error::Row(error)))?;
            (row.fixed, row.tail) = converted;
            if let Some(plan) = self.plan(to) {
                self.prepare(plan, &mut row)?;
            }
        }
        if row.keys.is_empty() {
            let put = target.put_keys(&row.fixed, &row.tail, &mut row.keys);
            put.map_err(|error| self.fail(Error::Row(error)))?;
        }
        let inserted = self.verbs.insert(to, &target.words_of(&row.keys), &row.fixed, &row.tail);
        self.check_written(inserted, &row)
    }
}
