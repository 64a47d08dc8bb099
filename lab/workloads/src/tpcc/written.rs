//! The columns that transactions write of rows that are neither inserted nor deleted after loading.
//! The other columns are constant, and are read without concurrency control
//! (`docs/optimisations.md`, `read-only-skip`).
//!
//! Each transaction names these columns in its own file, and `procedure` adds up those of a mix.
//! The engine refuses a transaction that writes a column that it has not named, or that inserts or
//! deletes a row of one of these tables.

use schema::{ColumnSet, ConstantColumns};

use super::rows::{Customer, District, Warehouse};

/// Written columns of the tables of which some transaction reads only constant columns.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) warehouse: ColumnSet<Warehouse>,
    pub(super) district: ColumnSet<District>,
    pub(super) customer: ColumnSet<Customer>,
}

impl Written {
    /// No columns.
    pub(super) const NONE: Self =
        Written { warehouse: ColumnSet::NONE, district: ColumnSet::NONE, customer: ColumnSet::NONE };

    /// The union with other columns.
    pub(super) fn and(self, other: Self) -> Self {
        Written {
            warehouse: self.warehouse.and(other.warehouse),
            district: self.district.and(other.district),
            customer: self.customer.and(other.customer),
        }
    }

    /// The constant columns of each table, in the order of the fields.
    pub(super) fn constant(self) -> [ConstantColumns; 3] {
        let Written { warehouse, district, customer } = self;
        [warehouse.others_are_constant(), district.others_are_constant(), customer.others_are_constant()]
    }
}
