//! Typed handles of tables and indexes, and the options with which tables are declared.

use schema::{Constraints, HashPlan, IndexId, IndexKind, Key, Row};

/// A handle of a table with rows of type `R`: a small value to copy into closures and threads.
/// [`Transaction`](crate::Transaction) has an example.
pub struct Table<R> {
    pub(crate) inner: schema::Table<R>,
    pub(crate) database: u64,
}

/// A handle of an index over rows of type `R` with keys of type `K`, returned by [`Table::by`].
/// [`Transaction`](crate::Transaction) has an example.
pub struct Index<R, K> {
    pub(crate) inner: schema::Index<R, K>,
    pub(crate) database: u64,
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Table<R> {}

impl<R, K> Clone for Index<R, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, K> Copy for Index<R, K> {}

impl<R: Row> std::fmt::Debug for Table<R> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Table<{}>({})", R::NAME, self.inner.number())
    }
}

impl<R: Row, K: Key> std::fmt::Debug for Index<R, K> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = R::INDEXES[self.inner.number()].name;
        write!(to, "Index<{}>({}, {name})", R::NAME, self.inner.table().number())
    }
}

impl<R: Row> Table<R> {
    /// Returns an index that the row type declares: `orders.by(Order::BY_CUSTOMER)`.
    ///
    /// [`Transaction`](crate::Transaction) has an example.
    pub fn by<K: Key>(self, index: IndexId<R, K>) -> Index<R, K> {
        Index { inner: self.inner.index(index), database: self.database }
    }
}

/// A handle by which verbs find rows: a [`Table`], which stands for its primary key, or an
/// [`Index`]. [`Transaction`](crate::Transaction) has an example.
pub trait Lookup: Copy + sealed::Sealed {
    /// The row type.
    type Row: Row;
    /// The type of complete keys. Keys of an index that is not unique end with the columns of the
    /// primary key.
    type Key: Key;
    /// Returns the index.
    fn index(self) -> Index<Self::Row, Self::Key>;
}

mod sealed {
    pub trait Sealed {}
    impl<R> Sealed for super::Table<R> {}
    impl<R, K> Sealed for super::Index<R, K> {}
}

impl<R: Row> Lookup for Table<R> {
    type Row = R;
    type Key = R::Key;

    fn index(self) -> Index<R, R::Key> {
        Index { inner: self.inner.primary(), database: self.database }
    }
}

impl<R: Row, K: Key> Lookup for Index<R, K> {
    type Row = R;
    type Key = K;

    fn index(self) -> Index<R, K> {
        self
    }
}

/// Options of a table with rows of type `R`. By default all its indexes are ordered.
///
/// ```
/// use isles::{Database, Row, TableOptions};
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// let mut builder = Database::in_memory();
/// let options = TableOptions::new().hash(Account::KEY).expected_rows(1_000_000);
/// let accounts = builder.table_with::<Account>("accounts", options);
/// let database = builder.open()?;
/// # Ok::<(), isles::Error>(())
/// ```
pub struct TableOptions<R> {
    rows: u64,
    /// Numbers of the hash indexes.
    hashed: Vec<usize>,
    constraints: Constraints,
    kind: std::marker::PhantomData<fn() -> R>,
}

impl<R> Default for TableOptions<R> {
    fn default() -> Self {
        TableOptions {
            rows: 0,
            hashed: Vec::new(),
            constraints: Constraints::new(),
            kind: std::marker::PhantomData,
        }
    }
}

impl<R: Row> TableOptions<R> {
    /// Returns the default options: ordered indexes, no expected number of rows.
    ///
    /// [`TableOptions`] has an example.
    pub fn new() -> Self {
        TableOptions::default()
    }

    /// Makes an index a hash index: lookups are faster, and scans are not possible. Keys may have
    /// up to 8 bytes. The size of the index is fixed by [`Self::expected_rows`].
    ///
    /// [`TableOptions`] has an example.
    #[must_use]
    pub fn hash<K: Key>(mut self, index: IndexId<R, K>) -> Self {
        self.hashed.push(index.number());
        self
    }

    /// Sets the expected number of rows, which determines the size of hash indexes. The table may
    /// hold more rows, but lookups through hash indexes become slower.
    ///
    /// [`TableOptions`] has an example.
    #[must_use]
    pub fn expected_rows(mut self, rows: u64) -> Self {
        self.rows = rows;
        self
    }

    /// Sets the constraints of the table. At the next opening of a directory the table is declared
    /// with the same ones; [`Database::change_table`](crate::Database::change_table) changes them.
    ///
    /// ```
    /// use isles::{Constraints, Database, Error, Expression, Row, TableOptions};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// let mut builder = Database::in_memory();
    /// let balance = Expression::column("balance");
    /// let constraints = Constraints::new().check("solvent", balance.at_least(0));
    /// let options = TableOptions::new().constraints(constraints);
    /// let accounts = builder.table_with::<Account>("accounts", options);
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// let spent = database.transaction(|t| t.update_field(accounts, &1, Account::BALANCE, |b| *b -= 6));
    /// assert!(matches!(spent, Err(Error::Constraint { constraint, .. }) if constraint == "solvent"));
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn constraints(mut self, constraints: Constraints) -> Self {
        self.constraints = constraints;
        self
    }

    pub(crate) fn into_engine(self) -> schema::TableOptions {
        let kind = |number| match self.hashed.contains(&number) {
            true => IndexKind::Hash(HashPlan::Mixed),
            false => IndexKind::Ordered,
        };
        let kinds = (0..R::INDEXES.len()).map(kind).collect();
        let (rows, constraints) = (self.rows.max(ROWS_EXPECTED), self.constraints);
        schema::TableOptions { rows, kinds, constraints, ..schema::TableOptions::default() }
    }
}

/// Default of [`TableOptions::expected_rows`].
const ROWS_EXPECTED: u64 = 4096;
