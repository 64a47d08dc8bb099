//! Changes of tables while sessions use the database: creation, removal, and new forms of rows.

mod changing;
mod converting;
