//! What goes wrong with a disk. The fault model stands in the module above.

/// What goes wrong with a disk. The default: nothing but what a loss of power may always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Decides everything that is left open.
    pub seed: u64,
    /// Bytes that files may have together.
    pub capacity_bytes: u64,
    /// What the device writes as a whole: 512 or 4096.
    pub sector_bytes: usize,
    /// One flush of a file in this many fails; 0: none.
    pub flush_failure_one_in: u64,
    /// At a loss of power, one unflushed sector in this many holds garbage; 0: none.
    pub garbage_one_in: u64,
    /// The disk says that it has flushed files, and has not: a test that a program flushes must notice.
    pub ignores_flushes: bool,
    /// The same for directories.
    pub ignores_directory_flushes: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            seed: 0,
            capacity_bytes: u64::MAX,
            sector_bytes: 512,
            flush_failure_one_in: 0,
            garbage_one_in: 0,
            ignores_flushes: false,
            ignores_directory_flushes: false,
        }
    }
}
