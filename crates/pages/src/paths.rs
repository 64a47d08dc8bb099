//! Path lengths of another storage manager, which a simulated machine charges beside this one's own
//! work.
//!
//! This crate's verbs are shorter than those of the storage managers in published studies. A
//! database that is opened with path lengths declares as many instructions
//! ([`platform::Platform::instructions`]) at the places where the other program executes them. On
//! hardware nothing is executed.
//!
//! The lengths of Shore-MT were counted in its public source; `docs/like-shore-mt.md` has the
//! counts and how each value follows from them.

/// Instructions of another storage manager, by operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLengths {
    /// Beginning a transaction.
    pub begin: u32,
    /// Ending a transaction, without locks and without log records.
    pub end: u32,
    /// Ending a transaction that has changed something, in addition.
    pub end_changed: u32,
    /// Preparing a part of a distributed transaction that has changed nothing.
    pub prepare: u32,
    /// Preparing a part that has changed something, instead: its locks are logged, too.
    pub prepare_changed: u32,
    /// First use of a table by a transaction: its description is looked up.
    pub open_table: u32,
    /// Search in one page of a tree, with the page's fix and unfix.
    pub page: u32,
    /// Latching and unlatching a page for readers, where pages are latched.
    pub latch: u32,
    /// Lookup of one key of an index beside its pages, with the page of the record.
    pub lookup: u32,
    /// Lock of a table or of the database, with its release; not if it is inherited.
    pub lock_node: u32,
    /// Shared lock of a row.
    pub lock_share: u32,
    /// Exclusive lock of a row.
    pub lock_exclude: u32,
    /// Release of the lock of a row.
    pub unlock: u32,
    /// Beginning a scan, beside its pages.
    pub scan: u32,
    /// A row that a scan visits.
    pub scanned_row: u32,
    /// Lock of a row that a scan visits.
    pub lock_scanned: u32,
    /// Change of a record, with its log record.
    pub update: u32,
    /// Insertion of a record, with its log record.
    pub insert: u32,
    /// Insertion of an entry of an index beside its pages, with its log record.
    pub insert_entry: u32,
    /// Deletion of a record, with its log record.
    pub delete: u32,
    /// Deletion of an entry of an index beside its pages, with its log record.
    pub delete_entry: u32,
}

impl PathLengths {
    /// None: only this crate's own work is charged.
    pub const NONE: PathLengths = PathLengths {
        begin: 0,
        end: 0,
        end_changed: 0,
        prepare: 0,
        prepare_changed: 0,
        open_table: 0,
        page: 0,
        latch: 0,
        lookup: 0,
        lock_node: 0,
        lock_share: 0,
        lock_exclude: 0,
        unlock: 0,
        scan: 0,
        scanned_row: 0,
        lock_scanned: 0,
        update: 0,
        insert: 0,
        insert_entry: 0,
        delete: 0,
        delete_entry: 0,
    };

    /// Those of Shore-MT, as `docs/like-shore-mt.md` derives them.
    pub const SHORE_MT: PathLengths = PathLengths {
        begin: 2_270,
        end: 4_160,
        end_changed: 2_560,
        prepare: 2_860,
        prepare_changed: 41_390,
        open_table: 7_930,
        page: 3_150,
        latch: 250,
        lookup: 5_000,
        lock_node: 2_310,
        lock_share: 3_630,
        lock_exclude: 4_370,
        unlock: 1_400,
        scan: 5_980,
        scanned_row: 4_040,
        lock_scanned: 1_280,
        update: 2_640,
        insert: 5_650,
        insert_entry: 11_000,
        delete: 3_700,
        delete_entry: 8_000,
    };
}
