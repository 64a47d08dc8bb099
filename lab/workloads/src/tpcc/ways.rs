//! Choices that the standard leaves open: the same transactions, with their accesses in another
//! order or with less protection.
//!
//! The defaults are those of Isles. The other ways are those of a published program, for
//! comparisons: `docs/like-dbx1000.md` has its source. Each way is chosen when a transaction is
//! drawn, or by the verbs that it calls; nothing is chosen while it runs.

use std::fmt;
use std::str::FromStr;

use super::names::{UnknownName, named};

/// The moment at which a transaction accesses its hot rows: the warehouse of a Payment, the
/// district of a NewOrder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HotRows {
    /// After all others, so that they are held for the shortest time.
    #[default]
    Late,
    /// Before all others, in the order of the standard's sample programs (appendix A).
    Early,
}

/// The order in which NewOrder accesses the stocks of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stocks {
    /// By warehouse and item: all transactions access stocks in the same order.
    #[default]
    Sorted,
    /// In the order in which the lines were drawn.
    Drawn,
}

/// The ways of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The moment at which hot rows are accessed.
    pub hot_rows: HotRows,
    /// The order in which stocks are accessed.
    pub stocks: Stocks,
    /// True if rows that NewOrder and Payment insert enter indexes. Other rows are never found
    /// again.
    pub index_inserts: bool,
    /// True if NewOrder reads its warehouse and customer without concurrency control, even if other
    /// transactions write them.
    pub unvalidated_reads: bool,
}

impl Default for Ways {
    fn default() -> Self {
        Ways {
            hot_rows: HotRows::default(),
            stocks: Stocks::default(),
            index_inserts: true,
            unvalidated_reads: false,
        }
    }
}

macro_rules! names {
    ($($choice:ident { $($variant:ident = $text:literal),+ })+) => { $(
        impl $choice {
            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($choice::$variant => $text),+
                }
            }
        }

        impl FromStr for $choice {
            type Err = UnknownName;
            fn from_str(given: &str) -> Result<Self, UnknownName> {
                named(given, &[$($choice::$variant),+], $choice::name)
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str(self.name())
            }
        }
    )+ };
}

names! {
    HotRows { Late = "late", Early = "early" }
    Stocks { Sorted = "sorted", Drawn = "drawn" }
}
