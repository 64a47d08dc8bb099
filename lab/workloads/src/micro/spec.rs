//! Parameters of the microbenchmark.

use crate::batch::Grouping;
use crate::equal_instances::EqualInstances;

/// The popularity of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Skew {
    /// No skew: transactions start at their worker's site, and rows are chosen uniformly.
    #[default]
    None,
    /// Zipfian over all rows with this exponent; row 0 of site 0 is the most popular. Exponent 0 is
    /// uniform over all rows.
    Zipf(f64),
    /// A share of the requests goes to a share of the data, the first rows; within the hot and the
    /// cold rows the choice is uniform.
    Hot {
        /// Share of the requests.
        requests: f64,
        /// Share of the rows.
        data: f64,
    },
}

impl Skew {
    pub(super) fn is_valid(self) -> bool {
        match self {
            Skew::None => true,
            Skew::Zipf(theta) => (0.0..=10.0).contains(&theta),
            Skew::Hot { requests, data } => (0.0..=1.0).contains(&requests) && data > 0.0 && data <= 1.0,
        }
    }
}

/// The operation of a transaction on its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Reads all rows.
    #[default]
    Read,
    /// Updates all rows.
    Update,
    /// Updates half and reads half; rows of other sites are read.
    Mixed,
}

/// The index of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowIndex {
    /// A perfect hash: row numbers have no gaps.
    #[default]
    Hash,
    /// A B+tree.
    Ordered,
}

/// Parameters of the microbenchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroSpec {
    /// The operation on the rows.
    pub operation: Operation,
    /// Rows of a transaction.
    pub rows: u32,
    /// Bytes of a row, key and counter included.
    pub row_bytes: usize,
    /// Number of sites, one a worker.
    pub sites: u16,
    /// Rows of each site.
    pub rows_per_site: u64,
    /// Parts of a site, of equally many rows: where workers own partitions, these can be divided.
    pub parts_per_site: u16,
    /// Share of the transactions that are multisite.
    pub multisite: f64,
    /// The instances, if the other rows of a multisite transaction are all in other instances than
    /// its first row; rows are then not skewed.
    pub other_instances: Option<EqualInstances>,
    /// The popularity of rows.
    pub skew: Skew,
    /// The index of the table.
    pub index: RowIndex,
    /// The grouping of requests into actions.
    pub grouping: Grouping,
}

impl Default for MicroSpec {
    /// The command line's defaults, for one site.
    fn default() -> Self {
        MicroSpec {
            operation: Operation::Read,
            rows: 10,
            row_bytes: 250,
            sites: 1,
            rows_per_site: 10_000,
            parts_per_site: 1,
            multisite: 0.0,
            other_instances: None,
            skew: Skew::None,
            index: RowIndex::Hash,
            grouping: Grouping::ByPartition,
        }
    }
}

impl MicroSpec {
    /// Rows of a part.
    pub(super) fn rows_per_part(&self) -> u64 {
        self.rows_per_site / u64::from(self.parts_per_site.max(1))
    }

    /// Parts of all sites.
    pub(super) fn parts(&self) -> u16 {
        self.sites * self.parts_per_site
    }
}

/// A problem of a [`MicroSpec`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MicroError {
    /// No site, no row, or no row a transaction.
    #[error("a microbenchmark has at least one site, one row a site and one row a transaction")]
    Empty,
    /// A site has fewer rows than a transaction.
    #[error("{rows} distinct rows cannot be chosen from {available}: raise the rows per site")]
    TooFewRows {
        /// Rows of a transaction.
        rows: u32,
        /// Rows of a site.
        available: u64,
    },
    /// A row's number has 48 bits, and the number of all rows 64.
    #[error("{0} rows per site are too many: at most 2^47")]
    TooManyRows(u64),
    /// Parts of a site would have different numbers of rows.
    #[error("{rows_per_site} rows per site cannot be divided into {parts} equal parts")]
    UnequalParts {
        /// Parts of a site.
        parts: u16,
        /// Rows of a site.
        rows_per_site: u64,
    },
    /// A share that is not between 0 and 1, or an exponent below 0.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
}
