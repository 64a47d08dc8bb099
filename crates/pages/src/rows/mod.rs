//! Rows of tables as records of trees, and the pieces of long rows.

pub(crate) mod overflow;
pub(crate) mod tables;
