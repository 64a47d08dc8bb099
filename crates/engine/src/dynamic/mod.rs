//! Databases and sessions of the memory engine as the objects of the [boundary].

mod branches;
mod database;
mod session;
