//! Databases and sessions of the memory engine as the objects of the [boundary].

mod branches;
mod change_source;
mod database;
mod session;
