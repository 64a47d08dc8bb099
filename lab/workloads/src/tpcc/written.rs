//! Which columns transactions write of the rows that are loaded and then stay: the others are
//! constant, and are read without concurrency control (`docs/optimisations.md`, `read-only-skip`).
//!
//! Each transaction says it of itself, in its own file, and `procedure` adds up what those of a mix
//! say. A transaction that writes a column which it has not named, or inserts or deletes a row of
//! one of these tables, fails: the engine refuses.

use schema::{ColumnSet, ConstantColumns};

use super::rows::{Customer, District, Warehouse};

/// Columns of the tables of which some transaction reads constant columns only.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) warehouse: ColumnSet<Warehouse>,
    pub(super) district: ColumnSet<District>,
    pub(super) customer: ColumnSet<Customer>,
}

impl Written {
    /// None.
    pub(super) const NONE: Self =
        Written { warehouse: ColumnSet::NONE, district: ColumnSet::NONE, customer: ColumnSet::NONE };

    /// These columns and those.
    pub(super) fn and(self, other: Self) -> Self {
        Written {
            warehouse: self.warehouse.and(other.warehouse),
            district: self.district.and(other.district),
            customer: self.customer.and(other.customer),
        }
    }

    /// What is left of each table, in the order of the fields.
    pub(super) fn constant(self) -> [ConstantColumns; 3] {
        let Written { warehouse, district, customer } = self;
        [warehouse.others_are_constant(), district.others_are_constant(), customer.others_are_constant()]
    }
}
