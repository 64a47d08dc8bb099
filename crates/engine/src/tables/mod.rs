//! The tables of a database, and both forms of a table whose rows change their form.

pub(crate) mod conversion;
pub(crate) mod table_list;
